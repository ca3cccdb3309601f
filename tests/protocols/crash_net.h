/*
 * crash_net.h - for tests of promises: hosts on a simulated link that loses, repeats and delays frames, and that crash and
 * boot, until the network heals. What the hosts run, and what they promise, is the test's.
 */
#ifndef TESTS_CRASH_NET_H
#define TESTS_CRASH_NET_H

#include <stdlib.h>

#include "platform/sim/sim.h"
#include "tests/compose.h"
#include "tests/random.h"

#define MS UINT64_C(1000000)

enum { NET_HOSTS = 3, NET_ADDRESS = 0x0a4d0001 /* of the first; those of the others follow */ };

struct net_place {
	struct net *net;
	unsigned host;
};

struct net {
	struct xk_sim *sim;
	struct xk_sim_host *hosts[NET_HOSTS];
	struct xk_sim_link *lan;
	struct net_place places[NET_HOSTS];
	uint64_t random;
	unsigned good[NET_HOSTS][NET_HOSTS]; /* exchanges from one to another that ended well: the test counts */
	bool stopped;                        /* the hosts begin no more of them */
};

/* When the network heals, must have settled, when the hosts stop, and when everything must have ended. */
struct net_times {
	uint64_t heal_ms, settle_ms, stop_ms, end_ms;
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

static inline struct sim_link_config
net_lan(struct net *net, bool faulty)
{
	struct sim_link_config config = sim_link_preset_find("hub100")->config;

	config.kind = "switch";
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

/* Makes the network; boot composes and starts a host, from its struct net_place. */
static inline void
net_open(struct net *net, uint64_t seed, struct xk_kernel *(*boot)(void *context, struct xk_sim_host *host))
{
	static const char *const names[NET_HOSTS] = { "h1", "h2", "h3" };
	struct sim_link_config config;

	net->random = seed * UINT64_C(0x9e3779b97f4a7c15);
	config = net_lan(net, true);
	net->sim = xk_sim_new(seed);
	REQUIRE(net->sim != NULL);
	net->lan = xk_sim_link_new(net->sim, "lan", &config);
	for (unsigned i = 0; i < NET_HOSTS; i++) {
		struct xk_sim_host_config host = { .name = names[i], .boot = boot, .context = &net->places[i] };

		net->places[i] = (struct net_place){ net, i };
		net->hosts[i] = xk_sim_host_new(net->sim, &host);
		REQUIRE(xk_sim_attach(net->hosts[i], "port", net->lan, 0x020000000001 + i) == 0);
	}
	for (unsigned i = 0; i < NET_HOSTS; i++)
		CHECK_EQ(xk_sim_boot(net->hosts[i]), 0);
}

/* Composes host's kernel of text; not initialised yet. */
static inline struct xk_kernel *
net_compose(struct xk_sim_host *host, enum xk_mode mode, const struct xk_protocol_type *own, const char *text)
{
	struct xk_kernel_config config = { .name = xk_sim_host_name(host),
					   .platform = xk_sim_platform(host),
					   .mode = mode,
					   .driver = XK_DRIVER_INTERRUPT,
					   .threads = 3,
					   .core = -1 };
	struct xk_kernel *kernel = xk_kernel_new(&config);

	REQUIRE(kernel != NULL);
	xk_kernel_add_port(kernel, xk_sim_port_new(host, 0));
	compose(kernel, own, text);
	return kernel;
}

static inline void
net_start(struct xk_kernel *kernel)
{
	struct xk_protocol *failed;

	REQUIRE(xk_kernel_init(kernel, &failed) == 0);
	REQUIRE(xk_kernel_start(kernel) == 0);
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

/* Each host crashes a few times before until_ms, and comes back; now and then at once. */
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

/* Lets the hosts of a network live until it ends. After it has settled, each must get through to each other one. */
static inline void
net_live(struct net *net, bool crashes, const struct net_times *times)
{
	unsigned before[NET_HOSTS][NET_HOSTS];

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
}

/* How many networks: some, or with XK_TEST_LONG many. A world has one thread: races are elsewhere. */
static inline uint64_t
net_runs(uint64_t some)
{
#ifdef __SANITIZE_THREAD__
	return 1;
#endif
	return test_is_long() ? (some > 2 ? 12 * some : 24) : some;
}

#endif
