/*
 * test_gm_threads.c - GM under threads: two hosts whose shepherds open, send short and long messages, deposit and
 * close, all at once, over links that lose, duplicate and reorder. A session's messages must arrive once and in order,
 * and each sender must be notified once, of a delivery only after it; also while the other host is now and then
 * reported booted or lost. Unreliable messages may be missing, but must arrive in order.
 */
#include "protocols/papers/gm_private.h"
#include "tests/protocols/pair.h"

enum {
	TALKERS = 4, /* of each host */
	OPENS = 12,  /* of each talker, at most */
	SENDS = 40,  /* on each session */
	SESSIONS = 2 * TALKERS * OPENS,
	LONG = 5000,
	PORT = 7,
	ALARMS = 30,
	ALARM_US = 5000,
	ADDRESS = 0x0a4d0001,
};

static const char graph_text[] =
	"digraph gm { graph [%s]; talker; gm [timeout=\"5ms\", timeout_max=\"50ms\", patience=\"20s\", tokens=8%s];"
	"bidctl [timeout=\"50ms\"];"
	"vdrop [seed=%u, loss=\"2%%\", duplicate=\"3%%\", reorder=\"3%%\", reorder_time=\"1ms\", direction=both];"
	"vnet [address=\"10.77.0.%u/24\"];"
	"talker -> gm [%s]; gm -> bid [%s]; gm -> bidctl; bid -> vdrop -> vnet; bid -> bidctl; bidctl -> vnet;"
	"vnet -> eth; vnet -> arp; arp -> eth; eth -> port }";

/* A session that was opened. */
struct conversation {
	_Atomic unsigned delivered; /* messages; if unreliable, the last one's number, from 1 */
	_Atomic unsigned waiting;   /* sends without a completion yet */
	_Atomic bool failed;
	unsigned pushed;
};

/* A message's completion. The message begins with these numbers. */
struct sending {
	struct xk_gm_send send; /* first */
	struct conversation *conversation;
	unsigned index;
	_Atomic bool ended;
};

struct both;

struct talker {
	struct xk_protocol protocol;
	struct both *both;
	unsigned host;
	struct xk_region region;
	uint8_t memory[SESSIONS][LONG]; /* deposits of each session */
};

struct both {
	struct pair pair;
	struct talker *talkers[2];
	bool sent_once;
	bool alarms; /* false reports of boots, after which GM may accept a packet twice because the boot has not ended */
	struct conversation conversations[SESSIONS];
	struct sending sendings[SESSIONS][SENDS];
	_Atomic unsigned opened, good, failed, ended, disorder;
	unsigned awaited, opens; /* opens: of each talker */
};

static inline struct talker *
talker_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct talker, protocol);
}

static void
talker_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct both *b = talker_of(self)->both;
	uint32_t numbers[2];
	_Atomic unsigned *delivered;

	CHECK(xk_msg_copy_out(m, 0, numbers, sizeof(numbers)) && numbers[0] < SESSIONS);
	if (numbers[1] % 7 == 0)
		xk_delay(self, 300);
	delivered = &b->conversations[numbers[0]].delivered;
	if (b->sent_once ? atomic_exchange(delivered, numbers[1] + 1) > numbers[1]
			 : atomic_fetch_add(delivered, 1) != numbers[1])
		atomic_fetch_add(&b->disorder, 1);
	xk_msg_free(m);
}

static void
sending_done(struct xk_gm_send *send, int status)
{
	struct sending *sending = (struct sending *)send;
	struct conversation *c = sending->conversation;

	CHECK(!atomic_exchange(&sending->ended, true));
	CHECK(status != 0 || atomic_load(&c->delivered) > sending->index);
	if (status < 0)
		atomic_store(&c->failed, true);
	atomic_fetch_sub(&c->waiting, 1);
}

static int
talker_init(struct xk_protocol *self)
{
	struct xk_participants here = { .local = { 1, { PORT } } };
	struct talker *t = talker_of(self);

	t->region = (struct xk_region){ .base = t->memory[0], .len = sizeof(t->memory), .port = PORT };
	REQUIRE(xk_region_register(xk_lower(self, 0), &t->region) == 0);
	return xk_open_enable(self, self, xk_lower(self, 0), &here);
}

COMPOSE_UPPER(talker, struct talker, XK_ASYNC, .init = talker_init, .demux = talker_demux);

/* Sends one message. Returns xk_push's result. */
static int
send_one(struct talker *t, struct xk_session *s, unsigned number)
{
	struct both *b = t->both;
	struct conversation *c = &b->conversations[number];
	struct sending *sending = &b->sendings[number][c->pushed];
	uint32_t numbers[2] = { number, c->pushed };
	struct xk_msg *m = xk_msg_new(xk_platform_of(&t->protocol), c->pushed % 5 == 0 ? LONG : sizeof(numbers));
	int err;

	REQUIRE(m != NULL);
	for (struct xk_msg *part = m; part != NULL; part = part->next)
		memset(part->data, 1, part->len);
	memcpy(m->data, numbers, sizeof(numbers));
	*sending = (struct sending){ .send.done = sending_done, .conversation = c, .index = c->pushed };
	atomic_fetch_add(&c->waiting, 1);
	err = xk_gm_send(s, m, &sending->send);
	if (err != 0)
		atomic_fetch_sub(&c->waiting, 1);
	else
		c->pushed++;
	return err;
}

static void
deposit_done(struct xk_gm_send *send, int status)
{
	struct sending *sending = (struct sending *)send;

	if (status != 0)
		atomic_store(&sending->conversation->failed, true);
	atomic_store(&sending->ended, true);
}

/* Deposits into the other host's memory, and checks that the bytes have arrived. */
static void
deposit_one(struct talker *t, struct xk_session *s, unsigned number)
{
	struct talker *other = t->both->talkers[1 - t->host];
	struct sending sending = { .send.done = deposit_done, .conversation = &t->both->conversations[number] };
	int err;

	do {
		struct xk_msg *m = xk_msg_new(xk_platform_of(&t->protocol), LONG);

		REQUIRE(m != NULL);
		for (struct xk_msg *part = m; part != NULL; part = part->next)
			memset(part->data, (int)(number % 255 + 1), part->len);
		err = xk_gm_deposit(s, m, other->region.id, number * LONG, &sending.send);
	} while (err == -ENOBUFS && xk_delay(&t->protocol, 500) == 0);
	if (err != 0)
		return;
	while (!atomic_load(&sending.ended))
		xk_delay(&t->protocol, 500);
	if (atomic_load(&sending.conversation->failed))
		return;
	for (unsigned i = 0; i < LONG; i++)
		CHECK_EQ(other->memory[number][i], number % 255 + 1);
}

static void
talker_live(void *argument)
{
	struct talker *t = argument;
	struct xk_protocol *self = &t->protocol;
	struct both *b = t->both;

	for (unsigned i = 0; i < b->opens;) {
		struct xk_participants participants = { .remote = { 2, { ADDRESS + 1 - t->host, PORT } } };
		struct conversation *c;
		struct xk_session *s;
		unsigned number;
		int err = 0;

		if (xk_open(self, self, xk_lower(self, 0), &participants, &s) != 0) {
			xk_delay(self, 1000);
			continue;
		}
		i++;
		number = atomic_fetch_add(&b->opened, 1);
		c = &b->conversations[number];
		while (c->pushed < SENDS && (err == 0 || err == -ENOBUFS)) {
			err = send_one(t, s, number);
			if (err != 0)
				xk_delay(self, 500);
		}
		if (err == 0)
			deposit_one(t, s, number);
		xk_close(s);
		while (atomic_load(&c->waiting) > 0)
			xk_delay(self, 1000);
		if (!atomic_load(&c->failed) && err == 0 && !b->sent_once)
			CHECK(b->alarms ? c->delivered >= SENDS : c->delivered == SENDS);
		atomic_fetch_add(atomic_load(&c->failed) ? &b->failed : &b->good, 1);
	}
	atomic_fetch_add(&b->ended, 1);
}

/* Reports falsely that the other host has booted: sessions end and begin anew while messages are in flight. */
static void
raise_alarms(void *argument)
{
	struct talker *t = argument;
	struct gm *gm = (struct gm *)xk_lower(&t->protocol, 0);

	for (unsigned i = 0; i < ALARMS; i++) {
		struct xk_bidctl_peer peer = { ADDRESS + 1 - t->host, i % 3 == 0 ? 0 : 1000 + i };

		xk_delay(&t->protocol, ALARM_US);
		gm->watcher.changed(&gm->watcher, i % 3 == 0 ? XK_BIDCTL_LOST : XK_BIDCTL_REBOOTED, &peer);
	}
	atomic_fetch_add(&t->both->ended, 1);
}

static bool
both_have_ended(void *context)
{
	struct both *b = context;

	return atomic_load(&b->ended) >= b->awaited;
}

static void
check_messages(enum xk_mode mode, const char *policy, const char *mark, bool alarms, const char *settings)
{
	static struct both b;
	char text[2048];

	memset(&b, 0, sizeof(b));
	b.awaited = 2 * (TALKERS + alarms);
	b.sent_once = settings[0] != '\0';
	b.alarms = alarms;
	b.opens = test_is_long() ? OPENS : OPENS / 4;
	pair_begin(&b.pair, mode);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), graph_text, policy, settings, 7 + i, 1 + i, mark, mark);
		compose(b.pair.kernels[i], &talker_type, text);
		b.talkers[i] = (struct talker *)xk_kernel_find(b.pair.kernels[i], "talker");
		b.talkers[i]->both = &b;
		b.talkers[i]->host = i;
	}
	pair_start(&b.pair);
	for (unsigned i = 0; i < 2; i++)
		for (unsigned k = 0; k < TALKERS + (unsigned)alarms; k++)
			CHECK_EQ(xk_thread_start(b.pair.kernels[i], "talker", k < TALKERS ? talker_live : raise_alarms,
						 b.talkers[i]),
				 0);
	CHECK(pair_wait(both_have_ended, &b));
	if (!both_have_ended(&b))
		return; /* what hangs cannot be freed */
	if (!alarms) {
		CHECK_EQ(atomic_load(&b.disorder), 0);
		CHECK_EQ(atomic_load(&b.failed), 0);
		CHECK(compose_count(b.pair.kernels[0], "gm", "deposited") >= TALKERS * b.opens);
	}
	pair_stop(&b.pair);
	pair_end(&b.pair);
}

TEST_OF(gm_works_under_threads_in_regular_mode, check_messages(XK_REGULAR, "resume=thread", "", false, ""));
TEST_OF(gm_works_under_threads_in_ipp_mode, check_messages(XK_IPP, "resume=driver", "", false, ""));
TEST_OF(gm_works_under_threads_in_ipp_mode_with_handoffs,
	check_messages(XK_IPP, "resume=thread", "handoff=explicit", false, ""));
TEST_OF(unreliable_gm_works_under_threads_in_regular_mode,
	check_messages(XK_REGULAR, "resume=thread", "", false, ", reliable=no"));
TEST_OF(unreliable_gm_works_under_threads_in_ipp_mode_with_handoffs,
	check_messages(XK_IPP, "resume=thread", "handoff=explicit", false, ", reliable=no"));
TEST_OF(gm_survives_false_reboots_in_regular_mode, check_messages(XK_REGULAR, "resume=thread", "", true, ""));
TEST_OF(gm_survives_false_reboots_in_ipp_mode, check_messages(XK_IPP, "resume=thread", "handoff=explicit", true, ""));
