/*
 * test_stopwait_reboots.c - peers that are gone or have rebooted; then two ends, with a network between them that
 * loses, duplicates and reorders, and hosts that reboot.
 */
#include <limits.h>

#include "tests/protocols/stopwait_peer.h"

/* ---- reboots ---- */

STOPWAIT_TEST(stopwait_learns_that_its_peer_is_gone, rig_new("stopwait"))
{
	uint64_t id;
	struct xk_session *s = open_and_call(r, "0", &id);

	CHECK_EQ(push(r, s, "1"), 0);
	expect(r, STOPWAIT_DATA, 0);
	answer(r, STOPWAIT_GONE, 0, 0xc, id);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	answer(r, STOPWAIT_GONE, 0, 0xb, id);
	CHECK_EQ(rig_counter(r, "peer_gone"), 2);
	CHECK_EQ(push(r, s, "2"), -ECONNRESET);
	answer(r, STOPWAIT_GONE, 0, 0xb, id);
	CHECK_EQ(rig_counter(r, "stale"), 2);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	CHECK_EQ(rig_counter(r, "stale"), 3);
	rig_expect_nothing_sent(r);
}

/* A rebooted host has forgotten the old exchange: neither end of it gets through. */
TEST(stopwait_delivers_nothing_from_before_a_reboot)
{
	struct rig *r = server_new("");
	uint64_t old = call(r, 0xa), id;

	inject_data(r, 0, old, "0");
	expect_delivered(r, "0");
	rig_forget(r);
	rig_free(r);
	r = server_new("");
	inject_data(r, 0, old, "0"); /* a late copy */
	inject_data(r, 1, old, "1");
	CHECK_EQ(rig_counter(r, "no_session"), 2);
	CHECK_EQ(expect(r, STOPWAIT_GONE, 0).from, old);
	CHECK_EQ(expect(r, STOPWAIT_GONE, 1).to, 0xa);
	id = call(r, 0xa); /* a late copy of the old call opens an end that nobody uses */
	CHECK(id != old);
	inject_data(r, 0, old, "0");
	inject_data(r, 1, old, "1");
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_open_done_count(r), 0);
	rig_forget(r);
	rig_free(r);
}

/* The caller reboots and calls from the same port: its old messages reach only its old conversation. */
RIG_TEST(stopwait_keeps_the_boots_of_a_caller_apart, server_new(""))
{
	uint64_t first = call(r, 0xa1), second = call(r, 0xa2);
	struct xk_session *old;

	inject(r, packet(STOPWAIT_DATA, 0, 0xa1, first, "old 0"));
	expect_delivered(r, "old 0");
	old = rig_announced_session(r);
	inject(r, packet(STOPWAIT_DATA, 0, 0xa2, second, "new 0"));
	expect_delivered(r, "new 0");
	CHECK(rig_announced_session(r) != old);
	rig_forget(r);
	inject(r, packet(STOPWAIT_DATA, 1, 0xa1, second, "old 1"));
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	inject(r, packet(STOPWAIT_DATA, 1, 0xa1, first, "old 1"));
	expect_delivered(r, "old 1");
	CHECK(rig_delivered_session(r) == old);
	rig_forget(r);
}

STOPWAIT_SESSION_TEST(stopwait_welcome_of_an_old_call_opens_nothing, rig_new("stopwait"), open_it(r))
{
	struct packet p;

	CHECK_EQ(push(r, s, "x"), 0);
	p = expect(r, STOPWAIT_CALL, 0);
	answer(r, STOPWAIT_WELCOME, 0, 0xb, p.from ^ 1); /* to this host's former boot */
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	rig_expect_nothing_sent(r);
}

/* ---- two ends ---- */

enum { FLYING = 64, NUMBERS = 4096 };

/* A frame in flight to rigs[to]. */
struct flight {
	unsigned to;
	struct packet packet;
};

struct net {
	struct rig *rigs[2]; /* the caller, the server */
	struct xk_session *sessions[2];
	uint64_t random;
	struct flight flying[FLYING];
	unsigned count;
	unsigned loss;      /* percent */
	unsigned pushed[2]; /* by the caller and by the server */
	/* deliveries to each: number, which, the last of its session, and number pushed before its boot */
	unsigned delivered[2], last[2], before[2];
	struct xk_session *last_on[2];
	bool seen[2][NUMBERS];
};

/* Delivers one frame in flight, chosen at random. */
static void
net_land(struct net *n)
{
	struct flight *f = &n->flying[draw(&n->random, n->count)];

	inject(n->rigs[f->to], f->packet);
	*f = n->flying[--n->count];
}

static void
net_collect(struct net *n)
{
	struct packet p;

	for (unsigned i = 0; i < 2; i++)
		while ((p = sent(n->rigs[i])).kind != 0)
			for (uint64_t copies = draw(&n->random, 100) < n->loss ? 0 : 1 + draw(&n->random, 10) / 8;
			     copies > 0 && n->count < FLYING; copies--)
				n->flying[n->count++] = (struct flight){ !i, p };
}

/* Checks that a delivered message is for this boot, is new, and follows the last one of its session. */
static void
net_check(struct net *n, unsigned to)
{
	uint8_t bytes[LEN];
	uint32_t number;
	long len;

	while (rig_delivered(n->rigs[to]) > 0) {
		len = rig_take_delivered(n->rigs[to], bytes, sizeof(bytes));
		memcpy(&number, bytes, sizeof(number));
		REQUIRE(number < n->pushed[!to]);
		CHECK_EQ(len, 4 + number % 50);
		CHECK(number >= n->before[to]);
		CHECK(!n->seen[to][number]);
		if (n->last_on[to] == rig_delivered_session(n->rigs[to]))
			CHECK(number > n->last[to]);
		n->seen[to][number] = true;
		n->last[to] = number;
		n->last_on[to] = rig_delivered_session(n->rigs[to]);
		n->delivered[to]++;
		if (to == 1)
			n->sessions[1] = rig_delivered_session(n->rigs[1]);
	}
}

static void
net_push(struct net *n, unsigned by, unsigned max)
{
	uint8_t bytes[64] = { 0 };
	uint32_t number = n->pushed[by];

	if (n->sessions[by] == NULL || number >= max || number == NUMBERS)
		return;
	memcpy(bytes, &number, sizeof(number));
	n->pushed[by] += rig_push_bytes(n->rigs[by], n->sessions[by], bytes, 4 + number % 50) == 0;
}

static void
net_run(struct net *n, unsigned steps, unsigned max, unsigned ms)
{
	for (unsigned i = 0; i < steps; i++) {
		uint64_t what = draw(&n->random, 10);

		if (what < 2)
			net_push(n, (unsigned)what, max);
		else if (what == 2)
			for (unsigned to = 0; to < 2; to++)
				rig_advance_ms(n->rigs[to], ms);
		else if (n->count > 0)
			net_land(n);
		net_collect(n);
		for (unsigned to = 0; to < 2; to++)
			net_check(n, to);
	}
}

TEST(stopwait_delivers_all_once_in_order_over_a_bad_network)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		static struct net n;

		n = (struct net){ .random = seed, .loss = 5 * (unsigned)(seed % 8) };

		n.rigs[0] = rig_new("stopwait queue=4 retries=1000");
		n.rigs[1] = server_new("queue=4 retries=1000");
		n.sessions[0] = open_it(n.rigs[0]);
		net_run(&n, 2000, 70, 100);
		CHECK(n.pushed[0] > 0 && n.pushed[1] > 0);
		n.loss = 0;
		net_run(&n, 2000, 0, 2000); /* a budget may have to be renewed */
		CHECK_EQ(n.delivered[0], n.pushed[1]);
		CHECK_EQ(n.delivered[1], n.pushed[0]);
		if (seed % 8 > 0)
			CHECK(rig_counter(n.rigs[0], "retransmitted") > 0);
		for (unsigned i = 0; i < 2; i++)
			end(n.rigs[i]);
	}
}

/* Returns a server whose user keeps its sessions and pushes on them: some end because their peer is gone. */
static struct rig *
server_that_keeps(void)
{
	struct rig *r = server_new("queue=4 retries=5");

	rig_keep_sessions(r, true);
	return r;
}

/* Frames in flight survive reboots; numbers continue, so a second delivery or one to the wrong boot is detected. */
TEST(stopwait_delivers_nothing_twice_while_hosts_reboot)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		static struct net n;

		n = (struct net){ .random = seed, .loss = 10 };

		n.rigs[0] = rig_new("stopwait queue=4 retries=5");
		n.rigs[1] = server_that_keeps();
		for (unsigned boot = 0; boot < 6; boot++) {
			unsigned who = boot % 2;

			n.sessions[0] = open_it(n.rigs[0]);
			n.sessions[1] = NULL;
			net_run(&n, 300, UINT_MAX, 100);
			end(n.rigs[who]);
			n.rigs[who] = who == 0 ? rig_new("stopwait queue=4 retries=5") : server_that_keeps();
			n.before[who] = n.pushed[!who];
			n.last_on[who] = NULL;
			if (who == 1)
				rig_close(n.rigs[0], n.sessions[0]);
		}
		CHECK(n.delivered[0] > 0 && n.delivered[1] > 0);
		for (unsigned i = 0; i < 2; i++)
			end(n.rigs[i]);
	}
}
