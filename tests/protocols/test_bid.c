/*
 * test_bid.c - BID over a fake wire, and BIDCTL over another: what gets through, and what does not, and what is said of
 * that.
 */
#include <errno.h>

#include "protocols/bidctl.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { ME = 0x0a4d0001, HOST = 0x0a4d0002, OTHER = 0x0a4d0003, NUMBER = 0x3000, LEN = 24, CONTROL_LEN = 40 };

#define BOOT_A UINT64_C(0xa000000000000001)
#define BOOT_B UINT64_C(0xb000000000000002)

struct stage {
	struct rig *r;
	uint64_t own;
	struct xk_bidctl_watcher watcher;
	char told[256];
};

static void
stage_changed(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change, const struct xk_bidctl_peer *peer)
{
	static const char *const names[] = { "first", "reboot", "lost" };
	struct stage *s = xk_container_of(watcher, struct stage, watcher);
	size_t used = strlen(s->told);

	/* what has come up by now came before the news */
	snprintf(s->told + used, sizeof(s->told) - used, "%s:%x:%u ", names[change], (unsigned)(peer->boot >> 60),
		 rig_delivered(s->r));
}

/* enabled: the user takes what strangers send. */
static void
stage_open(struct stage *s, bool enabled)
{
	struct xk_participants nobody = { .remote.depth = 0 };
	uint64_t host = ME;

	memset(s, 0, sizeof(*s));
	s->r = rig_new_graph("wire:; wire2:; bidctl: wire2; bidctl.broadcast=no; bidctl.interval=1ms;"
			     "bidctl.timeout=100ms; bidctl.timeout_max=100ms; bidctl.retries=2;"
			     "bid: wire bidctl; user: bid#0x3000");
	rig_answer(s->r, XK_GET_MY_HOST, &host, sizeof(host));
	s->own = xk_bidctl_own(rig_protocol(s->r, "bidctl"));
	s->watcher = (struct xk_bidctl_watcher){ .protocol = rig_protocol(s->r, "user"), .changed = stage_changed };
	xk_bidctl_watch(rig_protocol(s->r, "bidctl"), &s->watcher);
	rig_wire_peer(s->r, HOST);
	rig_wire(s->r, "wire2");
	rig_wire_peer(s->r, HOST);
	rig_wire(s->r, "wire");
	if (enabled)
		CHECK_EQ(rig_open_enable(s->r, nobody), 0);
}

static void
stage_close(struct stage *s)
{
	rig_free(s->r);
}

static void
expect_told(struct stage *s, const char *told)
{
	CHECK_STR(s->told, told);
	s->told[0] = '\0';
}

/* ---- what goes over the wires ---- */

struct packet {
	uint32_t number, host;
	uint64_t source, destination;
	const char *payload;
};

static struct packet
packet(const struct stage *s, uint64_t source, const char *payload)
{
	return (struct packet){ NUMBER, HOST, source, s->own, payload };
}

static size_t
packet_store(const struct packet *p, uint8_t *bytes)
{
	xk_put32(bytes, p->number);
	xk_put32(bytes + 4, p->host);
	xk_put64(bytes + 8, p->source);
	xk_put64(bytes + 16, p->destination);
	memcpy(bytes + LEN, p->payload, strlen(p->payload));
	return LEN + strlen(p->payload);
}

static void
inject(struct stage *s, struct packet p)
{
	uint8_t bytes[LEN + 64];

	rig_inject_bytes(s->r, bytes, packet_store(&p, bytes));
}

static void
expect_delivered(struct stage *s, const char *text)
{
	char bytes[64];
	long len = rig_take_delivered(s->r, bytes, sizeof(bytes) - 1);

	bytes[len < 0 ? 0 : len] = '\0';
	CHECK_STR(len < 0 ? "nothing" : bytes, text);
}

/* What BID has sent next; payload "nothing": nothing. */
static struct packet
sent(struct stage *s, char *payload)
{
	uint8_t bytes[LEN + 64] = { 0 };
	long len = rig_take_sent(s->r, bytes, sizeof(bytes) - 1);
	struct packet p = { .payload = "nothing" };

	if (len < 0)
		return p;
	CHECK(len >= LEN);
	CHECK_STR(rig_sent_through(s->r), "wire");
	memcpy(payload, bytes + LEN, sizeof(bytes) - LEN);
	p = (struct packet){ xk_get32(bytes), xk_get32(bytes + 4), xk_get64(bytes + 8), xk_get64(bytes + 16), payload };
	CHECK_EQ(p.host, ME);
	CHECK_EQ(p.source, s->own);
	CHECK_EQ(p.number, NUMBER);
	return p;
}

static void
expect_sent(struct stage *s, uint64_t destination, const char *text)
{
	char payload[64];
	struct packet p = sent(s, payload);

	CHECK_EQ(p.destination, destination);
	CHECK_STR(p.payload, text);
}

/* BIDCTL has asked, and the host answers. */
static void
answer(struct stage *s, uint64_t boot)
{
	uint8_t bytes[CONTROL_LEN], reply[CONTROL_LEN] = { 0, 2 };

	REQUIRE(rig_sent(s->r) > 0);
	CHECK_EQ(rig_take_sent(s->r, bytes, sizeof(bytes)), CONTROL_LEN);
	CHECK_STR(rig_sent_through(s->r), "wire2");
	CHECK_EQ(xk_get16(bytes), 1);
	xk_put32(reply + 4, HOST);
	xk_put64(reply + 8, boot);
	memcpy(reply + 16, bytes + 8, 8);
	memcpy(reply + 32, bytes + 24, 8);
	xk_checksum_store(reply + 2, xk_checksum_finish(xk_sum(0, reply, sizeof(reply))));
	rig_wire(s->r, "wire2");
	rig_inject_bytes(s->r, reply, sizeof(reply));
	rig_wire(s->r, "wire");
}

static long
counted(struct stage *s, const char *name)
{
	return rig_counter_of(s->r, "bid", name);
}

static struct xk_session *
open_it(struct stage *s)
{
	CHECK(rig_open(s->r, rig_to(HOST)) == NULL);
	CHECK_EQ(rig_error(s->r), -EINPROGRESS);
	answer(s, BOOT_A);
	REQUIRE(rig_opened(s->r) != NULL);
	expect_told(s, "first:a:0 ");
	return rig_opened(s->r);
}

/* HOST is a stranger no more: its first message is lost. */
static void
be_met(struct stage *s, const char *text)
{
	long unconfirmed = counted(s, "unconfirmed");

	inject(s, packet(s, BOOT_A, text));
	rig_expect_nothing_delivered(s->r);
	CHECK_EQ(counted(s, "unconfirmed"), unconfirmed + 1);
	answer(s, BOOT_A);
	expect_told(s, "first:a:0 ");
	inject(s, packet(s, BOOT_A, text));
	expect_delivered(s, text);
}

static int
push(struct stage *s, struct xk_session *session, const char *text)
{
	return rig_push_bytes(s->r, session, text, strlen(text));
}

/* ---- what gets through ---- */

TEST(bid_carries_messages_between_boots_that_know_each_other)
{
	struct stage s;
	struct xk_session *session;

	stage_open(&s, false);
	session = open_it(&s);
	CHECK_EQ(push(&s, session, "hello"), 0);
	expect_sent(&s, BOOT_A, "hello");
	inject(&s, packet(&s, BOOT_A, "world"));
	expect_delivered(&s, "world");
	CHECK(rig_delivered_on(s.r) == session);
	inject(&s, packet(&s, BOOT_A, "again"));
	expect_delivered(&s, "again");
	CHECK_EQ(rig_drops(s.r), 0);
	stage_close(&s);
}

TEST(bid_lets_a_stranger_in_when_he_is_confirmed)
{
	struct stage s;
	struct xk_session *session;

	stage_open(&s, true);
	be_met(&s, "hello");
	session = rig_announced(s.r);
	CHECK(rig_delivered_on(s.r) == session);
	CHECK_EQ(rig_open_dones(s.r), 1);
	CHECK_EQ(push(&s, session, "world"), 0);
	expect_sent(&s, BOOT_A, "world");
	inject(&s, packet(&s, BOOT_A, "more"));
	expect_delivered(&s, "more");
	CHECK_EQ(rig_open_dones(s.r), 1);
	stage_close(&s);
}

TEST(bid_refuses_strangers_whom_nobody_wants)
{
	struct stage s;
	struct packet p;

	stage_open(&s, false);
	inject(&s, packet(&s, BOOT_A, "hello"));
	p = packet(&s, BOOT_A, "hello");
	p.destination = 0;
	inject(&s, p);
	CHECK_EQ(counted(&s, "no_session"), 2);
	rig_expect_nothing_sent(s.r); /* nobody is asked, and nobody answered */
	stage_close(&s);
	stage_open(&s, true);
	rig_refuse(s.r, -ENOMEM);
	inject(&s, packet(&s, BOOT_A, "hello"));
	answer(&s, BOOT_A);
	inject(&s, packet(&s, BOOT_A, "hello"));
	CHECK_EQ(counted(&s, "refused"), 1);
	rig_expect_nothing_delivered(s.r);
	stage_close(&s);
}

TEST(bid_gives_all_who_open_a_host_one_session)
{
	struct stage s;
	struct xk_session *session;

	stage_open(&s, true);
	be_met(&s, "x");
	session = rig_announced(s.r);
	CHECK(rig_open(s.r, rig_to(HOST)) == session);
	CHECK(rig_open(s.r, rig_to(HOST)) == session);
	rig_expect_nothing_sent(s.r);
	stage_close(&s);
}

TEST(bid_opens_once_for_two_who_wait_for_one_host)
{
	struct stage s;

	stage_open(&s, false);
	CHECK(rig_open(s.r, rig_to(HOST)) == NULL);
	CHECK(rig_open(s.r, rig_to(HOST)) == NULL);
	answer(&s, BOOT_A);
	CHECK(rig_opened(s.r) != NULL);
	CHECK_EQ(rig_wire_sessions(s.r), 1);
	rig_expect_nothing_sent(s.r);
	stage_close(&s);
}

TEST(bid_opens_no_host_that_does_not_answer)
{
	struct stage s;

	stage_open(&s, false);
	CHECK(rig_open(s.r, rig_to(HOST)) == NULL);
	rig_advance_ms(s.r, 1000);
	CHECK(rig_opened(s.r) == NULL);
	CHECK_EQ(rig_error(s.r), -EHOSTUNREACH);
	CHECK(rig_open(s.r, rig_to(0)) == NULL);
	CHECK_EQ(rig_error(s.r), -EINVAL);
	CHECK(rig_open(s.r, rig_to(UINT64_C(0x10a4d0002))) == NULL);
	CHECK_EQ(rig_error(s.r), -EINVAL);
	CHECK(rig_open(s.r, rig_to(UINT32_MAX)) == NULL);
	CHECK_EQ(rig_error(s.r), -EINVAL);
	rig_forget(s.r);
	stage_close(&s);
}

/* ---- reboots ---- */

TEST(bid_lets_nothing_of_a_new_boot_up_before_it_is_told)
{
	struct stage s;
	struct xk_session *session;

	stage_open(&s, false);
	session = open_it(&s);
	rig_advance_ms(s.r, 10);
	inject(&s, packet(&s, BOOT_B, "new"));
	inject(&s, packet(&s, BOOT_B, "new"));
	rig_expect_nothing_delivered(s.r);
	CHECK_EQ(counted(&s, "unconfirmed"), 2);
	inject(&s, packet(&s, BOOT_A, "old")); /* is confirmed still */
	expect_delivered(&s, "old");
	answer(&s, BOOT_B);
	expect_told(&s, "reboot:b:0 ");
	inject(&s, packet(&s, BOOT_B, "new"));
	expect_delivered(&s, "new");
	CHECK(rig_delivered_on(s.r) == session);
	CHECK_EQ(push(&s, session, "to the new one"), 0);
	expect_sent(&s, BOOT_B, "to the new one");
	rig_advance_ms(s.r, 10);
	inject(&s, packet(&s, BOOT_A, "old"));
	rig_expect_nothing_delivered(s.r);
	rig_forget(s.r);
	stage_close(&s);
}

/* A strange id, which the host knows nothing of: somebody lies, or a bit was flipped. */
TEST(bid_does_not_believe_a_strange_id)
{
	struct stage s;

	stage_open(&s, false);
	open_it(&s);
	rig_advance_ms(s.r, 10);
	inject(&s, packet(&s, BOOT_B, "lie"));
	answer(&s, BOOT_A);
	expect_told(&s, "");
	inject(&s, packet(&s, BOOT_A, "truth"));
	expect_delivered(&s, "truth");
	CHECK_EQ(counted(&s, "told"), 1);
	stage_close(&s);
}

TEST(bid_tells_who_means_a_former_boot_of_this_host)
{
	struct stage s;
	struct packet p;

	stage_open(&s, true);
	p = packet(&s, BOOT_A, "late");
	p.destination ^= 1;
	inject(&s, p);
	rig_expect_nothing_delivered(s.r);
	CHECK_EQ(counted(&s, "old_destination"), 1);
	expect_sent(&s, BOOT_A, "");
	p.destination = 0;
	for (unsigned i = 0; i < 100; i++)
		inject(&s, p);
	rig_expect_nothing_sent(s.r);
	CHECK_EQ(counted(&s, "limited"), 100);
	rig_advance_ms(s.r, 101);
	inject(&s, p);
	expect_sent(&s, BOOT_A, "");
	CHECK_EQ(counted(&s, "answers"), 2);
	rig_expect_nothing_sent(s.r); /* BIDCTL did not ask: one answer is enough */
	p.payload = "";
	rig_advance_ms(s.r, 101);
	inject(&s, p); /* an answer is not answered */
	rig_expect_nothing_sent(s.r);
	stage_close(&s);
}

/* The other half: an answer from a new boot makes BIDCTL ask. */
TEST(bid_learns_from_an_answer)
{
	struct stage s;
	struct xk_session *session;

	stage_open(&s, false);
	session = open_it(&s);
	rig_advance_ms(s.r, 10);
	CHECK_EQ(push(&s, session, "to the old one"), 0);
	expect_sent(&s, BOOT_A, "to the old one");
	inject(&s, packet(&s, BOOT_B, ""));
	CHECK_EQ(counted(&s, "unconfirmed"), 1);
	answer(&s, BOOT_B);
	expect_told(&s, "reboot:b:0 ");
	CHECK_EQ(push(&s, session, "to the new one"), 0);
	expect_sent(&s, BOOT_B, "to the new one");
	inject(&s, packet(&s, BOOT_B, ""));
	CHECK_EQ(counted(&s, "empty"), 1);
	rig_expect_nothing_delivered(s.r);
	stage_close(&s);
}

TEST(bid_finds_a_lost_host_again)
{
	struct stage s;
	struct xk_session *session;

	stage_open(&s, false);
	session = open_it(&s);
	rig_advance_ms(s.r, 10);
	inject(&s, packet(&s, BOOT_B, "strange"));
	rig_advance_ms(s.r, 1000);
	expect_told(&s, "lost:0:0 ");
	rig_forget(s.r);
	inject(&s, packet(&s, BOOT_A, "x"));
	CHECK_EQ(counted(&s, "unconfirmed"), 2);
	rig_expect_nothing_delivered(s.r);
	rig_advance_ms(s.r, 1000);
	rig_forget(s.r);
	CHECK_EQ(push(&s, session, "x"), -EHOSTUNREACH);
	CHECK_EQ(counted(&s, "unknown_peer"), 1);
	answer(&s, BOOT_A);
	expect_told(&s, "first:a:0 ");
	CHECK_EQ(push(&s, session, "y"), 0);
	expect_sent(&s, BOOT_A, "y");
	stage_close(&s);
}

TEST(bid_opens_a_lost_host_again)
{
	struct stage s;
	struct xk_session *session;

	stage_open(&s, false);
	session = open_it(&s);
	rig_advance_ms(s.r, 10);
	inject(&s, packet(&s, BOOT_B, "strange"));
	rig_advance_ms(s.r, 1000);
	rig_forget(s.r);
	CHECK(rig_open(s.r, rig_to(HOST)) == NULL);
	answer(&s, BOOT_B);
	CHECK(rig_opened(s.r) == session);
	CHECK_EQ(push(&s, session, "y"), 0);
	expect_sent(&s, BOOT_B, "y");
	rig_advance_ms(s.r, 10);
	inject(&s, packet(&s, BOOT_A, "strange"));
	rig_advance_ms(s.r, 1000);
	rig_forget(s.r);
	CHECK(rig_open(s.r, rig_to(HOST)) == NULL);
	rig_advance_ms(s.r, 1000);
	CHECK_EQ(rig_opened(s.r) == NULL, true);
	CHECK_EQ(rig_error(s.r), -EHOSTUNREACH);
	rig_forget(s.r);
	stage_close(&s);
}

/* ---- where it goes ---- */

TEST(bid_answers_where_the_latest_message_came_from)
{
	struct stage s;
	struct xk_session *session, *first, *second;

	stage_open(&s, true);
	be_met(&s, "x");
	session = rig_announced(s.r);
	first = rig_wire_session(s.r);
	rig_wire_peer(s.r, HOST); /* by another session */
	inject(&s, packet(&s, BOOT_A, "y"));
	expect_delivered(&s, "y");
	CHECK(rig_delivered_on(s.r) == session);
	second = rig_wire_session(s.r);
	CHECK(first != second);
	CHECK_EQ(counted(&s, "moved"), 1);
	CHECK_EQ(push(&s, session, "1"), 0);
	expect_sent(&s, BOOT_A, "1");
	rig_wire_peer(s.r, HOST);
	inject(&s, packet(&s, BOOT_B, "no good message"));
	CHECK_EQ(push(&s, session, "2"), 0);
	rig_forget(s.r);
	CHECK_EQ(counted(&s, "moved"), 1);
	rig_inject_on(s.r, first, "00003000 0a4d0002 a000000000000001 0000000000000000 7a");
	rig_forget(s.r);
	CHECK_EQ(counted(&s, "moved"), 1);
	stage_close(&s);
}

TEST(bid_sends_where_it_was_opened_to)
{
	struct stage s;
	struct xk_session *session;

	stage_open(&s, true);
	session = open_it(&s);
	rig_wire_peer(s.r, HOST);
	inject(&s, packet(&s, BOOT_A, "y"));
	expect_delivered(&s, "y");
	rig_wire_peer(s.r, HOST);
	inject(&s, packet(&s, BOOT_A, "z"));
	expect_delivered(&s, "z");
	CHECK(rig_delivered_on(s.r) == session);
	CHECK_EQ(counted(&s, "moved"), 0);
	stage_close(&s);
}

/* ---- what is no message ---- */

TEST(bid_drops_what_is_malformed)
{
	static const uint32_t hosts[] = { 0, 5, 0xe0000001, UINT32_MAX };
	struct stage s;
	struct packet p;

	stage_open(&s, true);
	be_met(&s, "x");
	inject(&s, packet(&s, 0, "x"));
	CHECK_EQ(counted(&s, "bad_boot"), 1);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(hosts); i++) {
		p = packet(&s, BOOT_A, "x");
		p.host = hosts[i];
		inject(&s, p);
	}
	p.host = OTHER; /* the wire knows better */
	inject(&s, p);
	CHECK_EQ(counted(&s, "bad_host"), 5);
	p = packet(&s, BOOT_A, "x");
	p.number++;
	inject(&s, p);
	CHECK_EQ(counted(&s, "no_session"), 1);
	rig_inject_prefixes(s.r, "00003000 0a4d0002 a000000000000001 0000000000000000");
	CHECK_EQ(counted(&s, "short"), LEN);
	rig_expect_nothing_delivered(s.r);
	rig_expect_nothing_sent(s.r);
	stage_close(&s);
}

TEST(bid_does_without_buffers)
{
	struct stage s;
	struct xk_session *session;
	struct packet p;

	stage_open(&s, true);
	session = open_it(&s);
	rig_limit_buffers(s.r, 2);
	rig_inject(s.r, "0000 | 3000 0a4d0002 a000000000000001 0000000000000000 00");
	CHECK_EQ(counted(&s, "no_buffer"), 1);
	rig_limit_buffers(s.r, 1);
	p = packet(&s, BOOT_A, "x");
	p.destination = 0;
	inject(&s, p); /* no buffer for an answer */
	rig_expect_nothing_sent(s.r);
	rig_limit_buffers(s.r, UINT32_MAX);
	CHECK_EQ(rig_push(s.r, session, ""), -EINVAL);
	CHECK_EQ(counted(&s, "empty"), 1);
	stage_close(&s);
}

struct sharing {
	struct stage *s;
	struct xk_session *session;
	int status;
};

/* A message that somebody else has, too: its header needs a buffer of its own. */
static void
do_push_shared(void *argument)
{
	struct sharing *sharing = argument;
	struct xk_msg *m = xk_msg_from(rig_platform(sharing->s->r), "x", 1), *other = xk_msg_reference(m);

	rig_limit_buffers(sharing->s->r, 0);
	sharing->status = xk_push(sharing->session, m);
	xk_msg_free(other);
}

TEST(bid_does_without_a_buffer_for_its_header)
{
	struct stage s;
	struct sharing sharing = { .s = &s };

	stage_open(&s, true);
	sharing.session = open_it(&s);
	CHECK(rig_do(s.r, do_push_shared, &sharing));
	CHECK_EQ(sharing.status, -ENOBUFS);
	CHECK_EQ(counted(&s, "no_buffer"), 1);
	rig_limit_buffers(s.r, UINT32_MAX);
	stage_close(&s);
}

/* ---- which boot a message is from, and for ---- */

struct bearing {
	struct xk_session *session;
	uint64_t boot;
	int status;
};

static void
do_push_for_boot(void *argument)
{
	struct bearing *b = argument;
	struct xk_msg *m = xk_msg_from(xk_platform_of(b->session->protocol), "x", 1);

	m->boot = b->boot;
	m->flags |= XK_MSG_FOR_BOOT;
	b->status = xk_push(b->session, m);
}

TEST(bid_sends_what_is_for_a_boot_to_no_other)
{
	struct stage s;
	struct bearing b = { .boot = BOOT_A };

	stage_open(&s, false);
	b.session = open_it(&s);
	CHECK(rig_do(s.r, do_push_for_boot, &b));
	CHECK_EQ(b.status, 0);
	expect_sent(&s, BOOT_A, "x");
	rig_advance_ms(s.r, 10);
	inject(&s, packet(&s, BOOT_B, "new"));
	answer(&s, BOOT_B);
	CHECK(rig_do(s.r, do_push_for_boot, &b));
	CHECK_EQ(b.status, -ECONNRESET);
	CHECK_EQ(counted(&s, "over"), 1);
	rig_expect_nothing_sent(s.r);
	b.boot = BOOT_B;
	CHECK(rig_do(s.r, do_push_for_boot, &b));
	CHECK_EQ(b.status, 0);
	expect_sent(&s, BOOT_B, "x");
	stage_close(&s);
}

/* ---- asking, closing ---- */

TEST(bid_says_who_takes_part_and_how_much_goes)
{
	struct stage s;
	struct xk_session *session;
	struct xk_participants got;
	uint32_t length;
	uint64_t host;

	stage_open(&s, true);
	session = open_it(&s);
	CHECK_EQ(xk_get_participants(session, &got), 0);
	CHECK_EQ(xk_participant_pop(&got.remote), HOST);
	CHECK_EQ(xk_participant_pop(&got.local), ME);
	CHECK_EQ(xk_control(session, XK_GET_PEER_HOST, &host, sizeof(host)), sizeof(host));
	CHECK_EQ(host, HOST);
	CHECK_EQ(xk_control(session, XK_GET_MY_HOST, &host, sizeof(host)), sizeof(host));
	CHECK_EQ(host, ME);
	CHECK_EQ(xk_control(session, XK_GET_MAX_PACKET, &length, sizeof(length)), sizeof(length));
	CHECK_EQ(length, 1500 - LEN);
	CHECK_EQ(xk_control_protocol(rig_protocol(s.r, "bid"), XK_GET_OPT_PACKET, &length, sizeof(length)),
		 sizeof(length));
	CHECK_EQ(length, 1500 - LEN);
	CHECK_EQ(xk_control(session, XK_GET_OPT_PACKET, &length, 1), -EMSGSIZE);
	stage_close(&s);
}

TEST(bid_uses_its_host_as_long_as_there_is_a_session)
{
	struct stage s;
	struct xk_session *session;

	stage_open(&s, false);
	session = open_it(&s);
	rig_advance_ms(s.r, 400 * 1000);
	CHECK(rig_counter_of(s.r, "bidctl", "keepalives") > 0);
	rig_forget(s.r);
	rig_close(s.r, session);
	rig_advance_ms(s.r, 400 * 1000);
	rig_forget(s.r);
	CHECK_EQ(rig_wire_sessions(s.r), 0);
	stage_close(&s);
}

TEST(bid_lets_strangers_go_when_nobody_wants_them_any_more)
{
	struct xk_participants nobody = { .remote.depth = 0 };
	struct stage s;

	stage_open(&s, true);
	be_met(&s, "x");
	CHECK_EQ(rig_open_disable(s.r, nobody), 0);
	CHECK_EQ(rig_open_disable(s.r, nobody), -ENOENT);
	inject(&s, packet(&s, BOOT_A, "x"));
	CHECK_EQ(counted(&s, "no_session"), 1);
	stage_close(&s);
}
