/*
 * test_am_net.c - simulated networks of hosts that exchange active messages while frames are lost, duplicated and
 * delayed and hosts crash and boot. A journal that outlives all hosts records each request. A request must be run at
 * most once, whole, by the host it was sent to; and must end once for its sender: with its own reply if it was run, or
 * by being returned. A store's handler must find its bytes. No session has more requests in flight than credits. After
 * the network heals, requests between all hosts must be answered.
 */
#include "protocols/papers/am.h"
#include "tests/protocols/crash_net.h"
#include "xkernel/bytes.h"

enum {
	TALKERS = 3, /* threads of each host */
	MESSAGES_MAX = 400000,
	NAME = 7,
	ASK = 1,
	TELL = 2,
	CREDITS = 5,
	SLOTS = 16,     /* of a talker, for stores at each other host */
	LATE_MS = 1000, /* a copy of a message may arrive so long after its sender gave it up */
	STORE_MAX = 5000,
};

static const struct net_times times = { .heal_ms = 8000, .settle_ms = 12000, .stop_ms = 14000, .end_ms = 29000 };

/* If sessions are forgotten, few requests are answered. */
static const struct net_times slow_times = { .heal_ms = 8000, .settle_ms = 12000, .stop_ms = 20000, .end_ms = 35000 };

struct entry {
	struct net_exchange x; /* first */
	bool is_store;
	uint64_t ended_ns;
};

struct talker {
	struct host *host;
	unsigned number;
	unsigned stores[SLOTS]; /* latest journal entry in each slot, from 1; 0: none yet */
};

struct host {
	struct net_host base; /* first */
	struct xk_region region;
	struct talker talkers[TALKERS];
	uint8_t memory[NET_HOSTS][TALKERS][SLOTS][STORE_MAX];
};

struct world {
	struct net net; /* first */
	const char *settings, *path;
	uint32_t size_max;
	unsigned ran, answered, returned;
	uint32_t regions[NET_HOSTS]; /* from each host's latest boot */
};

/* ---- handlers ---- */

static struct world *
world_of(const struct host *h)
{
	return (struct world *)h->base.net;
}

static bool
is_in_place(const struct xk_am_arrival *arrival, uint64_t id)
{
	for (uint32_t i = 0; i < arrival->len; i++)
		if (arrival->memory[i] != net_byte(id, i))
			return false;
	return true;
}

static void
run_ask(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply)
{
	struct host *h = argument;
	struct world *w = world_of(h);
	struct entry *e = net_exchange(&w->net, arrival->words[0]);
	uint64_t chance = xk_random(&h->base.protocol);

	CHECK_EQ(arrival->count, 2);
	CHECK_EQ(arrival->words[1], ~arrival->words[0]);
	CHECK_EQ(e->x.to, h->base.number);
	CHECK_EQ(e->x.runs, 0);
	e->x.runs++;
	w->ran++;
	CHECK(arrival->memory != NULL
		      ? e->is_store && arrival->len == e->x.size && is_in_place(arrival, arrival->words[0])
		      : !e->is_store && xk_msg_len(m) == e->x.size && net_is_intact(m, arrival->words[0], 0));
	if (chance % 32 == 0)
		xk_delay(&h->base.protocol, chance / 32 % 30000); /* others arrive meanwhile */
	*reply = (struct xk_am_reply){
		.given = true, .number = TELL, .count = 1, .words = { arrival->words[0] }, .m = m
	};
}

static void
run_tell(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply)
{
	struct host *h = argument;
	struct world *w = world_of(h);
	struct entry *e = net_exchange(&w->net, arrival->words[0]);

	CHECK(reply == NULL);
	CHECK_EQ(e->x.from, h->base.number);
	CHECK_EQ(e->x.ends, 0);
	CHECK_EQ(e->x.runs, 1);
	CHECK(e->is_store || (xk_msg_len(m) == e->x.size && net_is_intact(m, arrival->words[0], 0)));
	xk_msg_free(m);
	e->x.ends++;
	w->answered++;
	w->net.good[e->x.from][e->x.to]++;
}

static void
host_returned(void *argument, struct xk_session *s, unsigned number, struct xk_msg *m, int status)
{
	struct host *h = argument;
	struct world *w = world_of(h);
	uint8_t words[8];
	uint32_t id;
	struct entry *e;

	CHECK_EQ(number, ASK);
	CHECK(xk_msg_copy_out(m, 0, words, sizeof(words)));
	xk_msg_free(m);
	id = xk_get32(words);
	CHECK_EQ(xk_get32(words + 4), ~id);
	e = net_exchange(&w->net, id);
	CHECK_EQ(e->x.from, h->base.number);
	CHECK_EQ(e->x.ends, 0);
	CHECK(status == -ETIMEDOUT || status == -ECONNRESET || (e->is_store && status == -EFAULT));
	if (status == -EFAULT)
		CHECK_EQ(e->x.runs, 0);
	e->x.ends++;
	e->x.status = status;
	e->ended_ns = xk_now_ns(&h->base.protocol);
	w->returned++;
}

/* ---- talking ---- */

/* Returns a slot without a store in flight, or SLOTS. */
static unsigned
free_slot(const struct talker *t)
{
	uint64_t now_ns = xk_now_ns(&t->host->base.protocol);
	unsigned slot = 0;

	for (; slot < SLOTS && t->stores[slot] != 0; slot++) {
		const struct entry *e = net_exchange(t->host->base.net, t->stores[slot] - 1);

		if (e->x.ends > 0 && (e->x.status == 0 || now_ns - e->ended_ns > LATE_MS * MS))
			break;
	}
	return slot;
}

static int
send_request(struct talker *t, struct xk_session *s, unsigned to)
{
	struct host *h = t->host;
	struct world *w = world_of(h);
	unsigned slot = free_slot(t);
	struct entry *e = net_enter(&h->base, to, (uint32_t)(net_random(&h->base) % w->size_max));
	uint32_t id = (uint32_t)net_id(&w->net, e), unanswered;
	struct xk_am_push push = { .number = ASK, .count = 2, .words = { id, ~id } };
	int err;

	e->is_store = slot < SLOTS && net_random(&h->base) % 4 == 0;
	if (e->is_store) {
		push.part.region = w->regions[to];
		push.part.place = ((h->base.number * TALKERS + t->number) * SLOTS + slot) * STORE_MAX;
		t->stores[slot] = id + 1;
		e->x.size = (uint32_t)(net_random(&h->base) % STORE_MAX);
	}
	err = xk_am_request(s, &push, net_message(&h->base, e->x.size, id, 0));
	if (err != 0)
		e->x.ends = 1; /* refused: nothing to end */
	CHECK_EQ(xk_control(s, XK_AM_GET_UNANSWERED, &unanswered), 0);
	CHECK(unanswered <= CREDITS);
	return err;
}

static void
talk(struct talker *t, struct xk_session *s, unsigned to)
{
	struct xk_protocol *self = &t->host->base.protocol;
	uint64_t messages = 1 + xk_random(self) % 60;

	while (messages-- > 0 && !t->host->base.net->stopped) {
		int err = send_request(t, s, to);
		uint64_t pause_us = xk_random(self) % 4 == 0 ? xk_random(self) % 20000 : 0;

		CHECK(err == 0 || err == -ENOBUFS);
		if (err == -ENOBUFS)
			pause_us = 5000;
		if (pause_us != 0 && xk_delay(self, pause_us) != 0)
			return;
	}
}

static void
host_talk(void *argument)
{
	struct talker *t = argument;
	struct host *h = t->host;
	struct xk_protocol *self = &h->base.protocol;

	while (!h->base.net->stopped) {
		unsigned to = net_another(&h->base);
		struct xk_participants participants = { .remote = { 2, { NET_ADDRESS + to, NAME } },
							.local = { 1, { NAME } } };
		struct xk_session *s;

		if (xk_open(self, self, xk_lower(self, 0), &participants, &s) == 0) {
			talk(t, s, to);
			xk_close(s);
		}
		if (xk_delay(self, 1000 + xk_random(self) % 50000) != 0)
			break;
	}
	h->base.ended++;
}

static int
host_init(struct xk_protocol *self)
{
	struct host *h = (struct host *)self;
	struct xk_participants here = { .local = { 1, { NAME } } };
	struct xk_protocol *am = xk_lower(self, 0);
	struct xk_am_handler ask = { run_ask, h, true }, tell = { run_tell, h, false };
	struct xk_am_endpoint endpoint = { .returned = host_returned, .argument = h };

	h->region = (struct xk_region){ .base = &h->memory[0][0][0][0], .len = sizeof(h->memory), .port = NAME };
	REQUIRE(xk_am_register(am, NAME, ASK, &ask) == 0 && xk_am_register(am, NAME, TELL, &tell) == 0);
	REQUIRE(xk_am_set_endpoint(am, NAME, &endpoint) == 0);
	REQUIRE(xk_region_register(am, &h->region) == 0);
	return xk_open_enable(self, self, am, &here);
}

static void
host_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	CHECK(false); /* never sent */
	xk_msg_free(m);
}

COMPOSE_UPPER(talker, struct host, XK_ASYNC, .init = host_init, .demux = host_demux);

/* ---- hosts ---- */

static const char talker_graph[] =
	"digraph talker { graph [%s]; talker; am [outstanding=8, credits=5, queue=8, timeout=\"20ms\", "
	"timeout_max=\"200ms\", patience=\"3s\"%s]; vnet [address=\"10.77.0.%u/24\"]; arp [timeout=\"30ms\", tries=4];"
	"talker -> am; %s vnet -> eth; vnet -> arp; arp -> eth; eth -> port }";

static const char special_path[] = "am -> vnet;";
static const char general_path[] = "am [port=3007]; am -> udp -> ip -> vnet;";

static void
host_text(const struct net *net, unsigned host, char *text, size_t size)
{
	const struct world *w = (const struct world *)net;

	snprintf(text, size, talker_graph, net->policy, w->settings, host + 1, w->path);
}

static void *
host_thread(struct net_host *base, unsigned number)
{
	struct host *h = (struct host *)base;

	world_of(h)->regions[base->number] = h->region.id;
	h->talkers[number] = (struct talker){ .host = h, .number = number };
	return &h->talkers[number];
}

static const struct net_kind talkers = {
	.type = &talker_type,
	.threads = TALKERS,
	.talk = host_talk,
	.thread = host_thread,
	.text = host_text,
	.exchange_size = sizeof(struct entry),
	.exchanges_max = MESSAGES_MAX,
};

static void
world_run(uint64_t seed, const char *path, const char *settings, uint32_t size_max, bool crashes)
{
	struct world w = { .path = path, .settings = settings, .size_max = size_max };
	unsigned failures = CU_get_number_of_failures();

	net_live(&w.net, &talkers, seed, crashes, strstr(settings, "sessions") != NULL ? &slow_times : &times);
	CHECK(w.answered > 0 && w.ran >= w.answered);
	if (!crashes && strstr(settings, "sessions") == NULL)
		CHECK_EQ(w.returned, 0); /* no host is down for 3 s */
	if (CU_get_number_of_failures() != failures)
		fprintf(stderr, "seed %llu: %u requests, %u run, %u answered, %u returned\n", (unsigned long long)seed,
			w.net.count, w.ran, w.answered, w.returned);
}

TEST(requests_run_once_on_a_bad_network)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(seed, special_path, "", 60, false);
}

TEST(requests_run_once_if_hosts_crash)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(1000000 + seed, special_path, "", seed % 2 == 0 ? 60 : 1400, true);
}

TEST(requests_over_a_general_path_run_once_if_hosts_crash)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(2000000 + seed, general_path, "", seed % 2 == 0 ? 60 : 1400, true);
}

/* Servers forget sessions all the time: requests are returned although no host is gone. */
TEST(requests_run_once_if_sessions_are_forgotten)
{
	for (uint64_t seed = 1; seed <= net_runs(1); seed++)
		world_run(3000001 + 2 * seed, special_path, ", sessions=3, peer_sessions=2", 60, true);
}
