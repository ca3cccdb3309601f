/*
 * crash_net.h - network for tests of guarantees: hosts that crash and boot, on a simulated link that loses, duplicates
 * and delays frames until the network heals. A journal outlives all hosts and records each exchange between them. The
 * test supplies the protocols and their guarantees.
 */
#ifndef TESTS_CRASH_NET_H
#define TESTS_CRASH_NET_H

#include <stdlib.h>

#include "tests/random.h"
#include "tests/simulated.h"

#define MS UINT64_C(1000000)

enum { NET_HOSTS = 3, NET_ADDRESS = 0x0a4d0001 /* of the first host; the others' follow */ };

struct net_place {
	struct net *net;
	unsigned host;
};

struct net;

/* Base of the test's protocol, the topmost of each host. */
struct net_host {
	struct xk_protocol protocol;
	struct net *net;
	unsigned number, ended; /* ended: number of its threads that have */
};

/* Base of a journal entry: an exchange that one host began with another. */
struct net_exchange {
	unsigned from, to;
	uint64_t from_boot, to_boot; /* number of boots of each host when it began */
	uint32_t size;
	unsigned runs, ends;
	int status;
};

/* Times at which the network heals, has settled, the hosts stop, and every exchange has ended. */
struct net_times {
	uint64_t heal_ms, settle_ms, stop_ms, end_ms;
};

/* The test's protocol and threads. */
struct net_kind {
	const struct xk_protocol_type *type; /* derived from struct net_host */
	unsigned threads;
	void (*talk)(void *thread); /* runs in each thread until the network stops */
	void *(*thread)(struct net_host *h, unsigned number);
	void (*text)(const struct net *net, unsigned host, char *text, size_t size); /* the host's graph */
	size_t exchange_size;
	unsigned exchanges_max;
};

struct net {
	const struct net_kind *kind;
	enum xk_mode mode;
	const char *policy;
	void *journal;
	unsigned count; /* number of exchanges in the journal */
	struct xk_sim *sim;
	struct xk_sim_host *hosts[NET_HOSTS];
	struct xk_sim_link *lan;
	struct net_place places[NET_HOSTS];
	uint64_t random;
	unsigned good[NET_HOSTS][NET_HOSTS]; /* successful exchanges from host to host, counted by the test */
	bool stopped;                        /* hosts begin no more exchanges */
};

static inline uint64_t
net_below(struct net *net, uint64_t bound)
{
	return next_random(&net->random) % bound;
}

static inline uint64_t
net_boots(const struct net *net, unsigned host)
{
	return xk_sim_host_boots(net->hosts[host]);
}

/* ---- exchanges ---- */

static inline void *
net_exchange(const struct net *net, uint64_t id)
{
	REQUIRE(id < net->count);
	return (uint8_t *)net->journal + id * net->kind->exchange_size;
}

static inline uint64_t
net_id(const struct net *net, const void *exchange)
{
	return (uint64_t)((const uint8_t *)exchange - (const uint8_t *)net->journal) / net->kind->exchange_size;
}

/* Begins an exchange. */
static inline void *
net_enter(struct net_host *h, unsigned to, uint32_t size)
{
	struct net *net = h->net;
	struct net_exchange *x;

	REQUIRE(net->count < net->kind->exchanges_max);
	x = net_exchange(net, net->count++);
	*x = (struct net_exchange){ .from = h->number,
				    .to = to,
				    .from_boot = net_boots(net, h->number),
				    .to_boot = net_boots(net, to),
				    .size = size };
	return x;
}

static inline uint64_t
net_random(struct net_host *h)
{
	return xk_random(&h->protocol);
}

/* Returns another host, drawn at random. */
static inline unsigned
net_another(struct net_host *h)
{
	return (h->number + 1 + (unsigned)(net_random(h) % (NET_HOSTS - 1))) % NET_HOSTS;
}

static inline uint8_t
net_byte(uint64_t id, size_t i)
{
	return (uint8_t)(id * 31 + i * 7 + (i >> 8));
}

/* Returns true if m is net_message's message for id, whatever its first `skip` bytes. */
static inline bool
net_is_intact(const struct xk_msg *m, uint64_t id, size_t skip)
{
	size_t i = 0;

	for (; m != NULL; m = m->next)
		for (uint32_t at = 0; at < m->len; at++, i++)
			if (i >= skip && m->data[at] != net_byte(id, i - skip))
				return false;
	return true;
}

static inline struct xk_msg *
net_message(struct net_host *h, uint32_t size, uint64_t id, size_t skip)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(&h->protocol), size);
	size_t i = 0;

	REQUIRE(m != NULL);
	for (struct xk_msg *part = m; part != NULL; part = part->next)
		for (uint32_t at = 0; at < part->len; at++, i++)
			part->data[at] = net_byte(id, i - skip);
	return m;
}

/* ---- the network ---- */

static inline struct sim_link_config
net_lan(struct net *net, bool faulty)
{
	struct sim_link_config config = sim_link_preset_find("hub100")->config;

	config.kind = SIM_LINK_SWITCH;
	config.latency_ns = 20000;
	config.queue = 1000;
	if (!faulty)
		return config;
	config.loss = SIM_ALWAYS / 100 * (net_below(net, 3) == 0 ? 30 : net_below(net, 20));
	config.duplicate = SIM_ALWAYS / 100 * net_below(net, 20);
	config.reorder = SIM_ALWAYS / 100 * net_below(net, 30);
	config.reorder_ns = (1 + net_below(net, 60)) * MS;
	return config;
}

/* Composes and starts a host. */
static inline struct xk_kernel *
net_compose(void *context, struct xk_sim_host *sim_host)
{
	const struct net_place *place = context;
	const struct net_kind *kind = place->net->kind;
	struct xk_kernel *kernel =
		simulated_kernel(sim_host, (struct xk_kernel_config){ .mode = place->net->mode, .threads = 3 });
	struct net_host *h;
	char text[2048];

	kind->text(place->net, place->host, text, sizeof(text));
	compose(kernel, kind->type, text);
	h = (struct net_host *)xk_kernel_find(kernel, kind->type->name);
	h->net = place->net;
	h->number = place->host;
	simulated_start(kernel);
	for (unsigned i = 0; i < kind->threads; i++)
		CHECK_EQ(xk_thread_start(kernel, kind->type->name, kind->talk, kind->thread(h, i)), 0);
	return kernel;
}

static inline void
net_open(struct net *net, uint64_t seed)
{
	static const char *const names[NET_HOSTS] = { "h1", "h2", "h3" };
	struct sim_link_config config;

	net->random = seed * UINT64_C(0x9e3779b97f4a7c15);
	config = net_lan(net, true);
	net->sim = xk_sim_new(seed);
	REQUIRE(net->sim != NULL);
	net->lan = xk_sim_link_new(net->sim, "lan", &config);
	for (unsigned i = 0; i < NET_HOSTS; i++) {
		net->places[i] = (struct net_place){ net, i };
		net->hosts[i] = simulated_host(net->sim, net->lan, names[i], net_compose, &net->places[i]);
	}
	for (unsigned i = 0; i < NET_HOSTS; i++)
		CHECK_EQ(xk_sim_boot(net->hosts[i]), 0);
}

static inline void
net_crash(void *context)
{
	struct net_place *place = context;

	CHECK_EQ(xk_sim_crash(place->net->hosts[place->host]), 0);
}

static inline void
net_boot(void *context)
{
	struct net_place *place = context;

	if (!xk_sim_is_up(place->net->hosts[place->host]))
		CHECK_EQ(xk_sim_boot(place->net->hosts[place->host]), 0);
}

/* Lets each host crash a few times before until_ms and boot again, sometimes at once. */
static inline void
net_plan_crashes(struct net *net, uint64_t until_ms)
{
	for (unsigned i = 0; i < NET_HOSTS; i++) {
		uint64_t at_ms = 500, down_ms;

		while ((at_ms += 300 + net_below(net, 4000)) < until_ms) {
			down_ms = net_below(net, 3) == 0 ? 0 : net_below(net, 1500);
			REQUIRE(xk_sim_at(net->sim, at_ms * MS, net_crash, &net->places[i]) == 0);
			REQUIRE(xk_sim_at(net->sim, (at_ms + down_ms) * MS, net_boot, &net->places[i]) == 0);
			at_ms += down_ms;
		}
	}
}

static inline void
net_heal(struct net *net)
{
	struct sim_link_config good = net_lan(net, false);

	xk_sim_link_change(net->lan, &good);
}

/* Checks that every exchange of a current boot has ended and that no thread or buffer is left. */
static inline void
net_check_quiet(const struct net *net)
{
	for (unsigned i = 0; i < net->count; i++) {
		const struct net_exchange *x = net_exchange(net, i);

		if (x->from_boot == net_boots(net, x->from))
			CHECK_EQ(x->ends, 1);
	}
	for (unsigned i = 0; i < NET_HOSTS; i++) {
		struct xk_platform *platform = xk_sim_platform(net->hosts[i]);
		struct xk_protocol *own = xk_kernel_find(xk_sim_kernel(net->hosts[i]), net->kind->type->name);

		CHECK_EQ(((struct net_host *)own)->ended, net->kind->threads);
		CHECK_EQ(platform->ops->buffers_out(platform), 0);
	}
}

/*
 * Runs a network of this kind from beginning to end. After it has settled, each host must complete an exchange with
 * each other. With crashes, every third network is in regular mode; every second resumes calls in the driver.
 */
static inline void
net_live(struct net *net, const struct net_kind *kind, uint64_t seed, bool crashes, const struct net_times *times)
{
	unsigned before[NET_HOSTS][NET_HOSTS];

	net->kind = kind;
	net->mode = crashes && seed % 3 == 0 ? XK_REGULAR : XK_IPP;
	net->policy = seed % 2 == 0 ? "resume=driver" : "resume=thread";
	net->journal = calloc(kind->exchanges_max, kind->exchange_size);
	REQUIRE(net->journal != NULL);
	net_open(net, seed);

	if (crashes)
		net_plan_crashes(net, times->heal_ms - 2000);
	xk_sim_run(net->sim, times->heal_ms * MS);
	net_heal(net);
	xk_sim_run(net->sim, times->settle_ms * MS);
	memcpy(before, net->good, sizeof(before));
	xk_sim_run(net->sim, times->stop_ms * MS);
	for (unsigned from = 0; from < NET_HOSTS; from++)
		for (unsigned to = 0; to < NET_HOSTS; to++)
			if (from != to)
				CHECK(net->good[from][to] > before[from][to]);
	net->stopped = true;
	xk_sim_run(net->sim, times->end_ms * MS);
	net_check_quiet(net);
	CHECK_EQ(xk_sim_free(net->sim), 0);
	free(net->journal);
}

/*
 * Returns the number of networks to run: some, or many with XK_TEST_LONG. Each has one thread: other tests look for
 * races.
 */
static inline uint64_t
net_runs(uint64_t some)
{
#ifdef __SANITIZE_THREAD__
	return 1;
#endif
	return test_is_long() ? (some > 2 ? 12 * some : 24) : some;
}

#endif
