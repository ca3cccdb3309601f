/*
 * test_am_net.c - simulated networks of hosts that send each other active messages, while frames are lost, repeated, late, and
 * hosts crash and boot. Each request is in a journal that outlives all hosts. It must be run at most once, whole, where it was
 * sent to; and end once for its sender: by its own reply, if it was run, or by coming back. A store's handler must find its
 * bytes. Nobody has more under way than credits. Then the network heals, and requests must be answered between all hosts.
 */
#include "protocols/am/am.h"
#include "tests/protocols/crash_net.h"
#include "xkernel/bytes.h"

enum {
	TALKERS = 3, /* of each host */
	MESSAGES_MAX = 400000,
	NAME = 7,
	ASK = 1,
	TELL = 2,
	CREDITS = 5,
	SLOTS = 16,     /* of a talker, for stores at each of the others */
	LATE_MS = 1000, /* a copy of a message may still come so long after it was given up */
	STORE_MAX = 5000,
};

static const struct net_times times = { .heal_ms = 8000, .settle_ms = 12000, .stop_ms = 14000, .end_ms = 29000 };

/* Where sessions are forgotten, few requests are answered. */
static const struct net_times slow_times = { .heal_ms = 8000, .settle_ms = 12000, .stop_ms = 20000, .end_ms = 35000 };

struct entry {
	unsigned from, to;
	uint64_t from_boot;
	uint32_t size;
	bool is_store;
	unsigned runs, ends;
	int status;
	uint64_t ended_ns;
};

struct talker {
	struct host *host;
	unsigned number;
	unsigned stores[SLOTS]; /* the latest entry there, from 1; 0: none yet */
};

struct host {
	struct xk_protocol protocol;
	struct world *world;
	unsigned number, ended;
	struct xk_region region;
	struct talker talkers[TALKERS];
	uint8_t memory[NET_HOSTS][TALKERS][SLOTS][STORE_MAX];
};

struct world {
	struct net net; /* first */
	enum xk_mode mode;
	const char *policy, *settings, *path;
	uint32_t size_max;
	struct entry *entries;
	unsigned count, ran, answered, returned;
	uint32_t regions[NET_HOSTS]; /* of the latest boot */
};

static uint8_t
byte_of(uint64_t id, size_t i)
{
	return (uint8_t)(id * 31 + i * 7 + (i >> 8));
}

static struct entry *
entry_of(struct world *w, const uint32_t *words)
{
	REQUIRE(words[0] < w->count);
	return &w->entries[words[0]];
}

/* ---- handlers ---- */

static bool
is_intact(const struct xk_msg *m, uint64_t id)
{
	size_t i = 0;

	for (; m != NULL; m = m->next)
		for (uint32_t at = 0; at < m->len; at++, i++)
			if (m->data[at] != byte_of(id, i))
				return false;
	return true;
}

static bool
is_in_place(const struct xk_am_arrival *arrival, uint64_t id)
{
	for (uint32_t i = 0; i < arrival->len; i++)
		if (arrival->memory[i] != byte_of(id, i))
			return false;
	return true;
}

static void
run_ask(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply)
{
	struct host *h = argument;
	struct world *w = h->world;
	struct entry *e = entry_of(w, arrival->words);
	uint64_t chance = xk_random(&h->protocol);

	CHECK_EQ(arrival->count, 2);
	CHECK_EQ(arrival->words[1], ~arrival->words[0]);
	CHECK_EQ(e->to, h->number);
	CHECK_EQ(e->runs, 0);
	e->runs++;
	w->ran++;
	CHECK(arrival->memory != NULL
		      ? e->is_store && arrival->len == e->size && is_in_place(arrival, arrival->words[0])
		      : !e->is_store && xk_msg_len(m) == e->size && is_intact(m, arrival->words[0]));
	if (chance % 32 == 0)
		xk_delay(&h->protocol, chance / 32 % 30000); /* others come meanwhile */
	*reply = (struct xk_am_reply){
		.given = true, .number = TELL, .count = 1, .words = { arrival->words[0] }, .m = m
	};
}

static void
run_tell(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply)
{
	struct host *h = argument;
	struct world *w = h->world;
	struct entry *e = entry_of(w, arrival->words);

	CHECK(reply == NULL);
	CHECK_EQ(e->from, h->number);
	CHECK_EQ(e->ends, 0);
	CHECK_EQ(e->runs, 1);
	CHECK(e->is_store || (xk_msg_len(m) == e->size && is_intact(m, arrival->words[0])));
	xk_msg_free(m);
	e->ends++;
	w->answered++;
	w->net.good[e->from][e->to]++;
}

static void
host_returned(void *argument, struct xk_session *s, unsigned number, struct xk_msg *m, int status)
{
	struct host *h = argument;
	struct world *w = h->world;
	uint8_t words[8];
	uint32_t id;
	struct entry *e;

	CHECK_EQ(number, ASK);
	CHECK(xk_msg_copy_out(m, 0, words, sizeof(words)));
	xk_msg_free(m);
	id = xk_get32(words);
	CHECK_EQ(xk_get32(words + 4), ~id);
	e = entry_of(w, &id);
	CHECK_EQ(e->from, h->number);
	CHECK_EQ(e->ends, 0);
	CHECK(status == -ETIMEDOUT || status == -ECONNRESET || (e->is_store && status == -EFAULT));
	if (status == -EFAULT)
		CHECK_EQ(e->runs, 0);
	e->ends++;
	e->status = status;
	e->ended_ns = xk_now_ns(&h->protocol);
	w->returned++;
}

/* ---- talking ---- */

/* Returns a slot to which nothing is stored any more, or SLOTS. */
static unsigned
free_slot(const struct talker *t)
{
	uint64_t now_ns = xk_now_ns(&t->host->protocol);
	unsigned slot = 0;

	for (; slot < SLOTS && t->stores[slot] != 0; slot++) {
		const struct entry *e = &t->host->world->entries[t->stores[slot] - 1];

		if (e->ends > 0 && (e->status == 0 || now_ns - e->ended_ns > LATE_MS * MS))
			break;
	}
	return slot;
}

static int
send_request(struct talker *t, struct xk_session *s, unsigned to)
{
	struct host *h = t->host;
	struct world *w = h->world;
	uint32_t id = w->count++, unanswered;
	unsigned slot = free_slot(t);
	struct entry *e = &w->entries[id];
	struct xk_am_push push = { .number = ASK, .count = 2, .words = { id, ~id } };
	struct xk_msg *m;
	size_t i = 0;
	int err;

	REQUIRE(id < MESSAGES_MAX);
	*e = (struct entry){ .from = h->number,
			     .to = to,
			     .from_boot = net_boots(&w->net, h->number),
			     .size = (uint32_t)(xk_random(&h->protocol) % w->size_max),
			     .is_store = slot < SLOTS && xk_random(&h->protocol) % 4 == 0 };
	if (e->is_store) {
		push.part.region = w->regions[to];
		push.part.place = ((h->number * TALKERS + t->number) * SLOTS + slot) * STORE_MAX;
		t->stores[slot] = id + 1;
		e->size = (uint32_t)(xk_random(&h->protocol) % STORE_MAX);
	}
	m = xk_msg_new(xk_platform_of(&h->protocol), e->size);
	REQUIRE(m != NULL);
	for (struct xk_msg *part = m; part != NULL; part = part->next)
		for (uint32_t at = 0; at < part->len; at++, i++)
			part->data[at] = byte_of(id, i);
	err = xk_am_request(s, &push, m);
	if (err != 0)
		e->ends = 1; /* none: it was refused */
	CHECK_EQ(xk_control(s, XK_AM_GET_UNANSWERED, &unanswered, sizeof(unanswered)), sizeof(unanswered));
	CHECK(unanswered <= CREDITS);
	return err;
}

static void
talk(struct talker *t, struct xk_session *s, unsigned to)
{
	struct xk_protocol *self = &t->host->protocol;
	uint64_t messages = 1 + xk_random(self) % 60;

	while (messages-- > 0 && !t->host->world->net.stopped) {
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
	struct xk_protocol *self = &h->protocol;

	while (!h->world->net.stopped) {
		unsigned to = (h->number + 1 + (unsigned)(xk_random(self) % (NET_HOSTS - 1))) % NET_HOSTS;
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
	h->ended++;
}

static int
host_init(struct xk_protocol *self)
{
	struct host *h = xk_container_of(self, struct host, protocol);
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
	(void)self;
	(void)lls;
	CHECK(false); /* nobody sends that */
	xk_msg_free(m);
}

static const struct xk_role talker_lowers[] = {
	{ "transport", XK_ASYNC, NULL, "carries active messages" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_protocol_ops talker_ops = { .init = host_init, .demux = host_demux };

static const struct xk_protocol_type talker_type = {
	.name = "talker",
	.help = "Sends requests to others, and judges those that come.",
	.ops = &talker_ops,
	.size = sizeof(struct host),
	.lowers = talker_lowers,
};

/* ---- hosts ---- */

static const char talker_graph[] =
	"digraph talker { graph [%s]; talker; am [outstanding=8, credits=5, queue=8, timeout=\"20ms\", "
	"timeout_max=\"200ms\", patience=\"3s\"%s]; vnet [address=\"10.77.0.%u/24\"]; arp [timeout=\"30ms\", tries=4];"
	"talker -> am; %s vnet -> eth; vnet -> arp; arp -> eth; eth -> port }";

static const char special_path[] = "am -> vnet;";
static const char general_path[] = "am [port=3007]; am -> udp -> ip -> vnet;";

static struct xk_kernel *
boot(void *context, struct xk_sim_host *sim_host)
{
	struct net_place *place = context;
	struct world *w = (struct world *)place->net;
	struct xk_kernel *kernel;
	char text[1024];
	struct host *h;

	snprintf(text, sizeof(text), talker_graph, w->policy, w->settings, place->host + 1, w->path);
	kernel = net_compose(sim_host, w->mode, &talker_type, text);
	h = (struct host *)xk_kernel_find(kernel, "talker");
	h->world = w;
	h->number = place->host;
	net_start(kernel);
	w->regions[place->host] = h->region.id;
	for (unsigned i = 0; i < TALKERS; i++) {
		h->talkers[i] = (struct talker){ .host = h, .number = i };
		CHECK_EQ(xk_thread_start(kernel, "talker", host_talk, &h->talkers[i]), 0);
	}
	return kernel;
}

/* ---- what must be ---- */

/* Every request of a boot that is there has ended, and nobody holds anything. */
static void
judge_quiet(struct world *w)
{
	for (unsigned i = 0; i < w->count; i++)
		if (w->entries[i].from_boot == net_boots(&w->net, w->entries[i].from))
			CHECK_EQ(w->entries[i].ends, 1);
	for (unsigned i = 0; i < NET_HOSTS; i++) {
		struct xk_platform *platform = xk_sim_platform(w->net.hosts[i]);

		CHECK_EQ(((struct host *)xk_kernel_find(xk_sim_kernel(w->net.hosts[i]), "talker"))->ended, TALKERS);
		CHECK_EQ(platform->ops->buffers_out(platform), 0);
	}
}

static void
world_run(uint64_t seed, const char *path, const char *settings, uint32_t size_max, bool crashes)
{
	struct world w = { .mode = crashes && seed % 3 == 0 ? XK_REGULAR : XK_IPP,
			   .policy = seed % 2 == 0 ? "resume=driver" : "resume=thread",
			   .path = path,
			   .settings = settings,
			   .size_max = size_max };
	unsigned failures = CU_get_number_of_failures();

	w.entries = calloc(MESSAGES_MAX, sizeof(*w.entries));
	REQUIRE(w.entries != NULL);
	net_open(&w.net, seed, boot);
	net_live(&w.net, crashes, strstr(settings, "sessions") != NULL ? &slow_times : &times);
	judge_quiet(&w);
	CHECK_EQ(xk_sim_free(w.net.sim), 0);
	CHECK(w.answered > 0 && w.ran >= w.answered);
	if (!crashes && strstr(settings, "sessions") == NULL)
		CHECK_EQ(w.returned, 0); /* nobody is gone for 3 s */
	if (CU_get_number_of_failures() != failures)
		fprintf(stderr, "seed %llu: %u requests, %u run, %u answered, %u returned\n", (unsigned long long)seed,
			w.count, w.ran, w.answered, w.returned);
	free(w.entries);
}

TEST(requests_are_run_once_whatever_the_network_does)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(seed, special_path, "", 60, false);
}

TEST(requests_are_run_once_whoever_crashes)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(1000000 + seed, special_path, "", seed % 2 == 0 ? 60 : 1400, true);
}

TEST(requests_over_a_general_protocol_are_run_once_whoever_crashes)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(2000000 + seed, general_path, "", seed % 2 == 0 ? 60 : 1400, true);
}

/* Servers forget sessions all the time: requests come back without anybody's being gone. */
TEST(requests_are_run_once_where_sessions_are_forgotten)
{
	for (uint64_t seed = 1; seed <= net_runs(1); seed++)
		world_run(3000001 + 2 * seed, special_path, ", sessions=3, peer_sessions=2", 60, true);
}
