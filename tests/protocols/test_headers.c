/*
 * test_headers.c - compares each protocol's declared header (xkernel/header.h, options.h) with its behaviour: flips
 * every bit of a message that would be accepted, and puts options of every length behind its fields.
 *
 * A checksum over the bit is adjusted; otherwise it would catch every flip, whatever the field.
 */
#include <ctype.h>

#include "protocols/arp/arp.h"
#include "protocols/bid/bidctl.h"
#include "protocols/papers/am.h"
#include "protocols/virtual/vnet.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"
#include "xkernel/header.h"

enum { ME = 0x0a4d0001, HOST = 0x0a4d0002, PORT = 7, MESSAGE_MAX = 80 };

/* ---- messages ---- */

struct message {
	const struct xk_protocol_type *type; /* the type whose header is flipped */
	size_t at, len;                      /* at: offset of that header; len: of the whole message */
	size_t checksum_at;                  /* offset in that header; 0: no checksum */
	enum xk_field_covers covers;         /* the checksum's */
	uint8_t bytes[MESSAGE_MAX];          /* zero behind the message */
};

static void
message_load(struct message *m, const char *type, size_t at, const char *hex)
{
	size_t bit = 0;

	*m = (struct message){ .type = xk_protocol_type_find(type), .at = at };
	REQUIRE(m->type != NULL);
	for (; *hex != '\0'; hex += *hex == ' ' ? 1 : 2)
		if (*hex != ' ')
			REQUIRE(m->len < MESSAGE_MAX - 1 && sscanf(hex, "%2hhx", &m->bytes[m->len++]) == 1);
	REQUIRE(m->len >= at + m->type->header);
	for (const struct xk_field *field = m->type->fields; field->name != NULL; bit += field->bits, field++)
		if (field->kind == XK_CHECKSUM) {
			m->checksum_at = at + bit / 8;
			m->covers = field->covers;
		}
}

/* Adjusts the checksum to a change of a word that it covers (RFC 1624). */
static void
adjust_checksum(struct message *m, uint16_t before, uint16_t after)
{
	uint8_t *p = m->bytes + m->checksum_at;
	uint32_t sum = (uint32_t)(uint16_t)~xk_get16(p) + (uint16_t)~before + after;

	sum = (sum & 0xffff) + (sum >> 16);
	xk_put16(p, (uint16_t) ~((sum & 0xffff) + (sum >> 16)));
}

/* Changes a byte and keeps the checksum right, unless the byte is the checksum's. */
static void
change_byte(struct message *m, size_t at, uint8_t byte)
{
	size_t word = at - (at - m->at) % 2, end = m->at + m->type->header;
	uint16_t before = xk_get16(m->bytes + word);

	m->bytes[at] = byte;
	if (m->checksum_at != 0 && at >= m->at && word != m->checksum_at && (at < end || m->covers != XK_COVERS_HEADER))
		adjust_checksum(m, before, xk_get16(m->bytes + word));
}

static void
change_bytes(struct message *m, size_t at, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		change_byte(m, at + i, bytes[i]);
}

/* Flips a bit of field, which begins at bit `begin` of the header. */
static void
flip_bit(struct message *m, const struct xk_field *field, size_t begin, size_t bit)
{
	size_t at = m->at + bit / 8, cut = 0;
	uint64_t before = xk_field_load(field, m->bytes + m->at, begin), after;

	change_byte(m, at, m->bytes[at] ^ (uint8_t)(0x80 >> bit % 8));
	if (field->kind != XK_LENGTH)
		return;
	/* Bytes cut off become zero, so the checksum is also that of the rest. A pseudo-header repeats the length. */
	after = xk_field_load(field, m->bytes + m->at, begin);
	for (; cut + after < before && m->len - cut > m->at + m->type->header; cut++)
		change_byte(m, m->len - 1 - cut, 0);
	if (m->checksum_at != 0 && m->covers == XK_COVERS_PSEUDO)
		adjust_checksum(m, (uint16_t)before, (uint16_t)after);
}

/* Makes the header claim this length, in units of its field. */
static void
claim_header(struct message *m, unsigned units)
{
	const struct xk_option_list *list = m->type->options;
	size_t at = m->at + list->at;
	unsigned mask = (0xffu >> (8 - list->bits)) << list->shift;

	change_byte(m, at, (uint8_t)((m->bytes[at] & ~mask) | units << list->shift));
}

/* Puts a list of options, of whole words, behind the fields of the header. */
static void
insert_options(struct message *m, const uint8_t *list, size_t len)
{
	size_t end = m->at + m->type->header, before = m->len - m->at, bit = 0;
	uint8_t length[2];

	REQUIRE(m->len + len <= MESSAGE_MAX && len % m->type->options->unit == 0 && m->checksum_at != 0);
	memmove(m->bytes + end + len, m->bytes + end, m->len - end);
	memcpy(m->bytes + end, list, len);
	m->len += len;
	for (size_t at = 0; at < len; at += 2)
		adjust_checksum(m, 0, xk_get16(list + at));
	claim_header(m, (unsigned)(m->type->header + len) / m->type->options->unit);
	for (const struct xk_field *field = m->type->fields; field->name != NULL; bit += field->bits, field++)
		if (field->kind == XK_LENGTH) {
			xk_put16(length, (uint16_t)(m->len - m->at));
			change_bytes(m, m->at + bit / 8, length, sizeof(length));
		}
	if (m->covers == XK_COVERS_PSEUDO)
		adjust_checksum(m, (uint16_t)before, (uint16_t)(before + len));
}

/* ---- conversations ---- */

/* A new host that would accept the message. */
struct trial {
	struct rig *r;
	struct xk_protocol *protocol;
	struct message message;
	struct xk_session *session; /* the message's; NULL: not delivered to the user */
};

struct example {
	const char *type, *graph, *message;
	void (*begin)(struct trial *t); /* prepares what else the message needs; NULL: nothing */
	uint64_t local;                 /* local participant that the user enables; 0: none */
	size_t at;                      /* offset of the header in the message */
	size_t sequence_at;             /* last byte of a number that each message increments; 0: none */
	const char *accepted;           /* counter of accepted messages; NULL: delivered to the user */
};

static size_t am_len; /* length of the message that AM's handler received */

static void
inject(const struct trial *t)
{
	char hex[2 * MESSAGE_MAX + 1] = "";

	for (size_t i = 0; i < t->message.len; i++)
		snprintf(hex + 2 * i, 3, "%02x", t->message.bytes[i]);
	if (t->message.type->lowers[0].needs & XK_RPC)
		rig_inject_call(t->r, NULL, hex);
	else
		rig_inject(t->r, hex);
}

static void
begin_arp(struct trial *t)
{
	struct xk_network network = { ME, 24 };

	CHECK_EQ(xk_arp_ops(t->protocol)->set_address(t->protocol, &network), 0);
}

static void
begin_icmp(struct trial *t)
{
	CHECK(rig_open(t->r, (struct xk_participants){ { 1, { HOST } }, { 1, { 0x1234 } } }) != NULL);
}

static void
begin_icmptest(struct trial *t)
{
	rig_advance_ms(t->r, 1);
	rig_inject(t->r, "0000");
	rig_advance_ms(t->r, 100);
}

/* The message is the last of three fragments. */
static void
begin_blast(struct trial *t)
{
	rig_inject(t->r, "00003000 00000008 00000004 0003 01 40 0000000000000001 30313233");
	rig_inject(t->r, "00003000 00000008 00000004 0003 01 40 0000000000000002 34353637");
	rig_inject(t->r, "00003000 00000009 00000004 0003 01 40 0000000000000001 30313233");
	rig_inject(t->r, "00003000 00000009 00000004 0003 01 40 0000000000000002 34353637");
}

static void
do_check(void *argument)
{
	CHECK(xk_bidctl_check(argument, HOST, 1, NULL) != 0);
}

/* Makes BIDCTL query HOST, and copies the query's numbers into `answer`. */
static void
ask(struct trial *t, struct message *answer)
{
	uint8_t question[40];

	REQUIRE(rig_do(t->r, do_check, rig_protocol(t->r, "bidctl")));
	CHECK_EQ(rig_take_sent(t->r, question, sizeof(question)), sizeof(question));
	change_bytes(answer, 16, question + 8, 8);
	change_bytes(answer, 32, question + 24, 8);
	rig_wire(t->r, "wire2");
}

#define ANSWER "0002 55ad 0a4d0002 a000000000000001 0000000000000000 0000000000000000 0000000000000000"

static void
begin_bidctl(struct trial *t)
{
	ask(t, &t->message);
}

/* Confirms HOST. */
static void
begin_chan(struct trial *t)
{
	struct message answer;

	message_load(&answer, "bidctl", 0, ANSWER);
	ask(t, &answer);
	rig_inject_bytes(t->r, answer.bytes, answer.len);
	rig_wire(t->r, "wire");
}

static void
begin_bid(struct trial *t)
{
	uint8_t own[8];

	begin_chan(t);
	xk_put64(own, xk_bidctl_own(rig_protocol(t->r, "bidctl"), HOST));
	change_bytes(&t->message, 16, own, sizeof(own));
}

static void
am_handle(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply)
{
	am_len = xk_msg_len(m);
	xk_msg_free(m);
}

/* Answers an AM call as HOST: a cookie (kind 2), or a welcome (kind 3, with credits). */
static void
answer_am_call(struct trial *t, uint8_t kind, uint8_t credits)
{
	uint8_t call[44], answer[32] = { kind, 0, 0, credits };

	CHECK_EQ(rig_take_sent(t->r, call, sizeof(call)), sizeof(call));
	memcpy(answer + 16, call + 24, 8);
	memcpy(answer + 24, t->message.bytes + 24, 8);
	rig_inject_bytes(t->r, answer, sizeof(answer));
}

/* The message answers the second of two requests. */
static void
begin_am(struct trial *t)
{
	static const struct xk_am_handler handler = { .run = am_handle };
	struct xk_session *s;
	uint8_t request[32];

	REQUIRE(xk_am_register(t->protocol, 0, 4, &handler) == 0);
	s = rig_must_open(t->r, rig_to2(HOST, PORT, XK_ANY));
	for (unsigned i = 0; i < 2; i++) {
		if (i > 0)
			inject(t);
		rig_forget(t->r);
		CHECK_EQ(rig_push(t->r, s, ""), 0);
		for (uint8_t kind = 2; i == 0 && kind <= 3; kind++)
			answer_am_call(t, kind, kind == 3 ? 8 : 0);
		CHECK_EQ(rig_take_sent(t->r, request, sizeof(request)), sizeof(request));
		change_bytes(&t->message, 4, request + 4, 4);
		change_bytes(&t->message, 16, request + 24, 8);
	}
}

static void
begin_stopwait(struct trial *t)
{
	uint8_t welcome[30];

	rig_inject(t->r, "2345 0007 001e dc8a 0001 00000000 000000000000000a 0000000000000000");
	CHECK_EQ(rig_take_sent(t->r, welcome, sizeof(welcome)), sizeof(welcome));
	change_bytes(&t->message, 22, welcome + 14, 8);
}

/* The message is the second byte of a connection that was opened by the peer. */
static void
begin_tcp(struct trial *t)
{
	uint8_t answer[24], acknowledgement[4];

	rig_inject(t->r, "0009 0007 00001000 00000000 50 02 ffff 8b36 0000");
	CHECK_EQ(rig_take_sent(t->r, answer, sizeof(answer)), sizeof(answer));
	xk_put32(acknowledgement, xk_get32(answer + 4) + 1);
	change_bytes(&t->message, 8, acknowledgement, sizeof(acknowledgement));
}

#define BOOTS "wire2:; bidctl: wire2; bidctl.broadcast=no; bidctl.keepalive=0s; "
#define PING "icmptest.to=10.77.0.2; icmptest.size=0; icmptest.count=2; icmptest.interval=100ms"

static const struct example examples[] = {
	{ "am", "wire:; am: wire; user: am",
	  "06 00 0004 00000000 00000000 00000005 0000000000000000 1112131415161718 c3c4c5c6c7", .begin = begin_am,
	  .accepted = "replies" },
	{ "arp", "port:; eth: port; arp: eth",
	  "ffffffffffff 0200000000aa 0806 0001 0800 06 04 0001 0200000000aa 0a4d0002 000000000000 0a4d0001",
	  .begin = begin_arp, .at = 14, .accepted = "replies_out" },
	{ "bid", BOOTS "wire:; bid: wire bidctl; user: bid#0x3000",
	  "00003000 0a4d0002 a000000000000001 0000000000000000 c3c4c5", .begin = begin_bid, .local = XK_ANY },
	{ "bidctl", BOOTS, ANSWER, .begin = begin_bidctl, .accepted = "first_contacts" },
	{ "bip", "wire:; bip: wire; user: bip", "0009 0007 0000000d aabbccddee", .local = PORT },
	{ "blast", "wire:; blast: wire; user: blast",
	  "00003000 00000000 00000005 0000 01 40 0000000000000000 c3c4c5c6c7", .local = XK_ANY },
	{ "blast", "wire:; blast: wire; user: blast", "00003000 00000009 00000003 0003 01 40 0000000000000004 38393a",
	  .begin = begin_blast, .local = XK_ANY, .sequence_at = 7 },
	{ "blasttest", "wire:; blasttest: wire", "00000001 00000001 1112131415161718 00000014", .accepted = "whole" },
	{ "chan", BOOTS "wire:; chan: wire bidctl; user: chan#7",
	  "00001234 0003 0000 00000007 00000006 00000005 c3c4c5c6c7", .begin = begin_chan, .local = XK_ANY,
	  .sequence_at = 15 },
	{ "eth", "port:; eth: port; user: eth", "020000000001 0200000000aa 3000 c3c4c5", .local = XK_ANY },
	{ "gm", BOOTS "wire:; bid: wire bidctl; gm: bid bidctl; user: gm",
	  "000000d0 0a4d0002 a000000000000001 0000000000000000"
	  "0009 0007 0001 0000 00000000 00000000 0000000000000064 0000000000000002 0000000000000000",
	  .begin = begin_bid, .local = PORT, .at = 24, .sequence_at = 55 },
	{ "icmp", "wire:; ip: wire; icmp: ip; user: icmp",
	  "4500 0021 0007 0000 4001 6639 0a4d0002 0a4d0001 0000 8830 1234 0001 aabbccddee", .begin = begin_icmp,
	  .at = 20 },
	{ "icmptest", "wire:; icmptest: wire; " PING, "0001", .begin = begin_icmptest, .accepted = "received" },
	{ "ip", "wire:; ip: wire; user: ip#17", "4500 0019 0007 0000 4011 6631 0a4d0002 0a4d0001 aabbccddee",
	  .local = XK_ANY },
	{ "llp", "wire:; llp: wire; user: llp", "0009 0007 000b aabbccddee", .local = PORT },
	{ "logptest", "wire:; logptest: wire", "00000007 1001 0000", .accepted = "messages" },
	{ "marshal", "wire:; marshal: wire; user: marshal", "0104 c3c4c5", .local = XK_ANY },
	{ "pingpong", "wire:; pingpong: wire", "00000001 00000bb8 0102030405060708 0000000000000000",
	  .accepted = "messages" },
	{ "select", "wire:; select: wire; user: select", "00000007 00000000 c3c4c5", .local = PORT },
	{ "stopwait", "wire:; stopwait: wire; user: stopwait",
	  "2345 0007 0023 e6f2 0003 00000001 000000000000000a 0000000000000000 6f6e652121", .begin = begin_stopwait,
	  .local = PORT, .sequence_at = 13 },
	{ "tcp", "wire:; tcp: wire; user: tcp", "0009 0007 00001002 00000000 50 10 ffff c824 0000 c3",
	  .begin = begin_tcp, .local = PORT, .sequence_at = 7 },
	{ "udp", "wire:; udp: wire; user: udp", "0009 0007 000d 858d aabbccddee", .local = PORT },
};

static void
prepare(struct rig *r)
{
	static const struct xk_vnet_interfaces interfaces = { 1,
							      { { ME, 0xffffff00, ME | 0xff, .max_packet = 1500 } } };
	static const char *const wires[] = { "wire2", "wire" };
	static const uint64_t me = ME;

	rig_answer_control(r, XK_VNET_GET_INTERFACES, &interfaces, sizeof(interfaces));
	rig_answer_control(r, XK_GET_MY_HOST, &me, sizeof(me));
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(wires); i++)
		if (xk_kernel_find(rig_kernel(r), wires[i]) != NULL) {
			rig_wire(r, wires[i]);
			rig_wire_peer(r, HOST);
		}
}

/* Makes the host and, if the message needs a session, opens it with an earlier message. */
static void
trial_begin(struct trial *t, const struct example *example)
{
	struct xk_participants enabled = { .local = { example->local != XK_ANY, { example->local } } };
	struct message next;

	*t = (struct trial){ .r = rig_new_prepared(example->graph, prepare) };
	t->protocol = rig_protocol(t->r, example->type);
	message_load(&t->message, example->type, example->at, example->message);
	if (example->local != 0)
		CHECK_EQ(rig_open_enable(t->r, enabled), 0);
	if (example->begin != NULL)
		example->begin(t);
	if (example->accepted == NULL) {
		next = t->message;
		if (example->sequence_at != 0)
			change_byte(&t->message, example->sequence_at, next.bytes[example->sequence_at] - 1);
		inject(t);
		t->message = next;
		rig_expect_delivered(t->r, "*");
		t->session = rig_delivered_session(t->r);
	}
	rig_forget(t->r);
}

/* Ends the trial after all timers have expired. */
static void
trial_end(struct trial *t)
{
	rig_advance_ms(t->r, 600000);
	rig_forget(t->r);
	rig_free(t->r);
}

/* ---- flipping ---- */

/* The outcome of a message. */
struct outcome {
	bool is_accepted, is_same; /* is_same: accepted by the session of the conversation */
	size_t len;                /* of the message delivered */
	const char *drop;          /* the protocol's own drop reason; NULL: no drop */
};

/* Sends the message of a trial in which nothing has been dropped yet. */
static struct outcome
trial_send(struct trial *t, const struct example *example)
{
	long before = example->accepted == NULL ? 0 : rig_counter_of(t->r, example->type, example->accepted), len;
	struct outcome o = { .drop = NULL };
	uint8_t bytes[MESSAGE_MAX];

	inject(t);
	for (unsigned i = 1; i < xk_drop_count(t->protocol->type); i++)
		if (t->protocol->drops[i] != 0)
			o.drop = xk_drop_name(t->protocol->type, i);
	if (example->accepted == NULL) {
		len = rig_take_delivered(t->r, bytes, sizeof(bytes));
		o.is_accepted = len >= 0;
		o.is_same = o.is_accepted && rig_delivered_session(t->r) == t->session;
		o.len = (size_t)len;
	} else {
		o.is_accepted = o.is_same = rig_counter_of(t->r, example->type, example->accepted) != before;
		o.len = am_len;
	}
	rig_forget(t->r);
	return o;
}

/* len: delivered of the unchanged message. */
static bool
is_as_declared(const struct xk_field *field, const struct outcome *o, size_t len)
{
	switch (field->kind) {
	case XK_FIXED:
	case XK_CHECKSUM:
		return !o->is_accepted && o->drop != NULL;
	case XK_NAMES_SESSION:
		return !o->is_same;
	case XK_LENGTH:
		return o->is_accepted ? o->is_same && o->len < len : o->drop != NULL;
	default:
		return true;
	}
}

static void
try_bit(const struct example *example, const struct xk_field *field, size_t begin, size_t bit, size_t len)
{
	struct message intact;
	struct outcome o;
	struct trial t;

	trial_begin(&t, example);
	intact = t.message;
	flip_bit(&t.message, field, begin, bit);
	o = trial_send(&t, example);
	if (!is_as_declared(field, &o, len))
		fprintf(stderr, "\n%s: %s, a field of kind %u, with bit %zu flipped: %s%s%s\n", example->type,
			field->name, field->kind, bit - begin,
			!o.is_accepted ? "not accepted"
			: o.is_same    ? "accepted"
				       : "another session's",
			o.drop != NULL ? ", dropped: " : "", o.drop != NULL ? o.drop : "");
	CHECK(is_as_declared(field, &o, len));
	t.message = intact;
	if (field->kind != XK_VARIES && !o.is_same) /* only the bit was wrong */
		CHECK(trial_send(&t, example).is_same);
	trial_end(&t);
}

/* Checks that the declared value of a field holds for an accepted message. */
static void
check_value(const struct message *m, const struct xk_field *field, size_t begin)
{
	const uint8_t *p = m->bytes + m->at;
	size_t all = m->len - m->at, header = m->type->header;
	size_t covered = field->covers == XK_COVERS_HEADER    ? header
			 : field->covers == XK_COVERS_PAYLOAD ? all - header
							      : all;

	if (field->usual != 0)
		CHECK_EQ(xk_field_load(field, p, begin), field->usual);
	if (field->kind == XK_LENGTH)
		CHECK_EQ(xk_field_load(field, p, begin), covered);
	if (field->kind == XK_CHECKSUM && field->covers != XK_COVERS_PSEUDO)
		CHECK(xk_sum_is_intact(xk_sum(0, p, covered)));
}

static void
try_all_bits(const struct example *example)
{
	struct outcome o;
	struct trial t;
	size_t begin = 0;

	trial_begin(&t, example);
	o = trial_send(&t, example);
	CHECK(o.is_same && o.drop == NULL);
	for (const struct xk_field *field = t.message.type->fields; field->name != NULL;
	     begin += field->bits, field++) {
		check_value(&t.message, field, begin);
		for (size_t bit = begin; bit < begin + field->bits; bit++)
			try_bit(example, field, begin, bit, o.len);
	}
	trial_end(&t);
}

TEST(each_flipped_bit_has_its_fields_effect)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(examples); i++)
		try_all_bits(&examples[i]);
}

/* ---- options ---- */

/* Returns the declared fate of a message with these options: NULL, or the name of the reason to drop it. */
static const char *
options_fate(const struct xk_protocol_type *type, const uint8_t *list, size_t len)
{
	const struct xk_option *option;
	size_t at = 0, body;

	while (at < len && list[at] != 0) {
		if (list[at++] == 1)
			continue;
		if (at == len || list[at] < 2 || at - 1 + list[at] > len)
			return "bad_options";
		body = list[at] - 2u;
		for (option = type->options->options; option->name != NULL; option++)
			if (option->kind == list[at - 1])
				break;
		if (option->name != NULL && (body < option->once + (size_t)option->least * option->each ||
					     (body - option->once) % (option->each == 0 ? 256u : option->each) != 0))
			return "bad_options";
		if (option->name != NULL && option->drop != 0)
			return xk_drop_name(type, option->drop);
		at += 1 + body;
	}
	return NULL;
}

/* len: delivered of the message without options. */
static void
try_options(const struct example *example, const uint8_t *list, size_t list_len, size_t len)
{
	const char *fate;
	struct outcome o;
	struct trial t;

	trial_begin(&t, example);
	fate = options_fate(t.message.type, list, list_len);
	insert_options(&t.message, list, list_len);
	o = trial_send(&t, example);
	if (fate != NULL) {
		CHECK(!o.is_accepted && o.drop != NULL && strcmp(o.drop, fate) == 0);
	} else {
		CHECK(o.is_same && o.drop == NULL && o.len == len);
	}
	if ((fate != NULL) != (o.drop != NULL))
		fprintf(stderr, "\n%s with option %u, length %u, in %zu bytes: %s\n", example->type, list[0], list[1],
			list_len, o.drop == NULL ? "accepted" : o.drop);
	trial_end(&t);
}

/* Tries an option with each length: alone, cut, in a list that is full, and twice. */
static void
try_option(const struct example *example, uint8_t kind, size_t len)
{
	for (unsigned claimed = 0; claimed <= XK_OPTIONS_MAX + 2; claimed++) {
		uint8_t list[2 * XK_OPTIONS_MAX] = { kind, (uint8_t)claimed };
		size_t whole = (claimed + 3) / 4 * 4;

		if (whole <= XK_OPTIONS_MAX)
			try_options(example, list, whole < 4 ? 4 : whole, len);
		if (whole > 4)
			try_options(example, list, whole - 4, len);
		try_options(example, list, XK_OPTIONS_MAX, len);
		if (claimed < 2 || 2 * claimed > XK_OPTIONS_MAX)
			continue;
		memcpy(list + claimed, list, claimed);
		try_options(example, list, XK_OPTIONS_MAX, len);
		memmove(list + 3, list, sizeof(list) - 3);
		memset(list, 1, 3);
		try_options(example, list, XK_OPTIONS_MAX, len);
	}
}

/* Tries each value of the field with the header's length, before two words that mean nothing anywhere. */
static void
try_header_lengths(const struct example *example, size_t len)
{
	static const uint8_t zeros[8];
	struct outcome o;
	struct trial t;
	unsigned units;

	for (unsigned claimed = 0; claimed < 16; claimed++) {
		trial_begin(&t, example);
		insert_options(&t.message, zeros, sizeof(zeros));
		units = (unsigned)(t.message.type->header + sizeof(zeros)) / 4;
		claim_header(&t.message, claimed);
		o = trial_send(&t, example);
		if (claimed > units || claimed < units - 2) {
			CHECK(!o.is_accepted && o.drop != NULL);
		} else {
			CHECK(o.is_same && o.drop == NULL && o.len == len + 4 * (units - claimed));
		}
		trial_end(&t);
	}
}

TEST(options_have_their_declared_fate)
{
	struct outcome o;
	struct trial t;

	for (const struct example *example = examples; example < examples + XK_ARRAY_LENGTH(examples); example++) {
		const struct xk_option_list *list = xk_protocol_type_find(example->type)->options;

		if (list == NULL)
			continue;
		trial_begin(&t, example);
		o = trial_send(&t, example);
		trial_end(&t);
		try_header_lengths(example, o.len);
		for (const struct xk_option *option = list->options; option->name != NULL; option++)
			try_option(example, option->kind, o.len);
		try_option(example, 0x5e, o.len); /* unknown */
		try_option(example, 0xff, o.len);
	}
}

/* ---- declarations ---- */

/* Returns true if name consists of lower-case words with one '_' between them. */
static bool
is_name(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == len &&
	       islower((unsigned char)name[0]) && strstr(name, "__") == NULL && name[len - 1] != '_';
}

static void
check_field(const struct xk_protocol_type *type, const struct xk_field *field)
{
	CHECK(field->bits >= 1 && field->bits <= 64);
	CHECK(is_name(field->name));
	for (const struct xk_field *other = type->fields; other != field; other++)
		CHECK(strcmp(other->name, field->name) != 0);
	CHECK_EQ(field->covers != XK_COVERS_NOTHING, field->kind == XK_LENGTH || field->kind == XK_CHECKSUM);
}

/* Returns true if type has an example, or needs none. */
static bool
has_example(const struct xk_protocol_type *type)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(examples); i++)
		if (strcmp(examples[i].type, type->name) == 0)
			return true;
	return type->fields == NULL;
}

TEST(declarations_are_well_formed)
{
	for (const struct xk_protocol_type *const *type = xk_protocol_types; *type != NULL; type++) {
		const struct xk_field *field = (*type)->fields;
		unsigned bits = 0, uppers = 0, checksums = 0;

		if (!has_example(*type))
			fprintf(stderr, "\n%s has no example\n", (*type)->name);
		CHECK(has_example(*type));
		for (; field != NULL && field->name != NULL; field++) {
			check_field(*type, field);
			bits += field->bits;
			uppers += field->is_upper;
			checksums += field->kind == XK_CHECKSUM;
		}
		CHECK(uppers <= 1 && checksums <= 1);
		for (const struct xk_option *o = (*type)->options == NULL ? NULL : (*type)->options->options;
		     o != NULL && o->name != NULL; o++) {
			CHECK(is_name(o->name));
			for (const struct xk_field *option_field = o->fields; option_field->name != NULL;
			     option_field++)
				CHECK(is_name(option_field->name));
		}
		if ((*type)->fields != NULL) /* no header, no fields */
			CHECK(bits != 0 && bits == (*type)->header * 8);
	}
}
