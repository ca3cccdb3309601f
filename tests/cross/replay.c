/*
 * replay.c - a run of a simulated world, composed by hand because graph files need a library that not every machine
 * has, with every fault, both modes, crashes, handoffs and fragments. Prints a hash of all that happened, which is the
 * same on every machine.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/sim/sim.h"
#include "protocols/test/traffic.h"

#define MS UINT64_C(1000000)

enum { HOSTS = 6, WHY = 160 };

extern const struct xk_protocol_type xk_type_port, xk_type_eth, xk_type_arp, xk_type_vnet, xk_type_ip, xk_type_udp,
	xk_type_vdrop, xk_type_vwork;

/* Nothing is built in by a table here. */
const struct xk_protocol_type *const xk_protocol_types[] = { NULL };

struct replay {
	struct xk_sim *sim;
	struct xk_sim_host *hosts[HOSTS];
};

static struct xk_protocol *
replay_add(struct xk_kernel *kernel, const struct xk_protocol_type *type, struct xk_protocol *lower)
{
	struct xk_protocol *p = xk_kernel_add_protocol(kernel, type, type->name);

	xk_assert(p != NULL);
	if (lower != NULL)
		xk_assert(xk_kernel_add_edge(kernel, p, lower, type->lowers[0].name) != NULL);
	return p;
}

static void
replay_set(struct xk_protocol *p, const char *name, const char *text)
{
	const struct xk_setting *setting = p->type->settings;
	char why[WHY];

	while (strcmp(setting->name, name) != 0)
		setting++;
	xk_assert(xk_setting_parse(setting, text, p, why, sizeof(why)) == 0);
}

static void
replay_compose(struct xk_kernel *kernel, unsigned number)
{
	struct xk_protocol *port = replay_add(kernel, &xk_type_port, NULL),
			   *eth = replay_add(kernel, &xk_type_eth, port);
	struct xk_protocol *arp = replay_add(kernel, &xk_type_arp, eth), *vnet = replay_add(kernel, &xk_type_vnet, eth);
	struct xk_protocol *ip, *vdrop, *udp, *vwork, *traffic;
	char text[64];

	xk_assert(xk_kernel_add_edge(kernel, vnet, arp, xk_type_vnet.lowers[1].name) != NULL);
	ip = replay_add(kernel, &xk_type_ip, vnet);
	vdrop = replay_add(kernel, &xk_type_vdrop, ip);
	udp = replay_add(kernel, &xk_type_udp, vdrop);
	vwork = replay_add(kernel, &xk_type_vwork, udp);
	traffic = replay_add(kernel, &xk_type_traffic, vwork);
	replay_set(port, "dev", "port");
	snprintf(text, sizeof(text), "10.1.0.%u/24", number + 1);
	replay_set(vnet, "address", text);
	replay_set(vdrop, "loss", "2%");
	replay_set(vdrop, "duplicate", "2%");
	replay_set(vwork, "up", "8us");
	replay_set(vwork, "up_kb", "15us");
	replay_set(traffic, "peers", "10.1.0.1-10.1.0.6");
	replay_set(traffic, "rate", "1500");
	replay_set(traffic, "size_max", "4000");
	if (number % 2 == 0)
		xk_edge_watch(traffic->lowers[0], XK_WATCH_EXPLICIT, XK_WATCH_EXPLICIT);
	else
		xk_kernel_set_budget(kernel, 30000, 1);
}

static struct xk_kernel *
replay_boot(void *context, struct xk_sim_host *host)
{
	unsigned number = xk_sim_host_number(host);
	struct xk_kernel_config config = { .name = xk_sim_host_name(host),
					   .platform = xk_sim_platform(host),
					   .mode = number < 4 ? XK_IPP : XK_REGULAR,
					   .driver = XK_DRIVER_INTERRUPT,
					   .threads = 2,
					   .stacks = 5,
					   .core = -1 };
	struct xk_kernel *kernel = xk_kernel_new(&config);
	struct xk_protocol *failed;

	xk_assert(kernel != NULL);
	xk_kernel_add_port(kernel, xk_sim_port_new(host, 0));
	replay_compose(kernel, number);
	xk_assert(xk_kernel_init(kernel, &failed) == 0 && xk_kernel_start(kernel) == 0);
	return kernel;
}

static void
replay_reboot(void *context)
{
	struct replay *replay = context;

	xk_assert(xk_sim_crash(replay->hosts[1]) == 0 && xk_sim_crash(replay->hosts[4]) == 0);
	xk_assert(xk_sim_boot(replay->hosts[1]) == 0 && xk_sim_boot(replay->hosts[4]) == 0);
}

static void
replay_make(struct replay *replay)
{
	struct sim_link_config config = sim_link_preset_find("hub100")->config;
	const struct xk_sim_costs *costs = &xk_sim_costs_find("decstation")->costs;
	struct xk_sim_link *link;
	char name[8];

	config.loss = config.duplicate = config.reorder = config.corrupt = SIM_ALWAYS / 30;
	config.reorder_ns = MS;
	replay->sim = xk_sim_new(7);
	link = xk_sim_link_new(replay->sim, "lan", &config);
	for (unsigned i = 0; i < HOSTS; i++) {
		snprintf(name, sizeof(name), "h%u", i);
		replay->hosts[i] = xk_sim_host_new(
			replay->sim,
			&(struct xk_sim_host_config){ .name = name, .costs = *costs, .boot = replay_boot });
		xk_assert(replay->hosts[i] != NULL);
		xk_assert(xk_sim_attach(replay->hosts[i], "port", link, 0x020000000001 + i) == 0);
		xk_assert(xk_sim_boot(replay->hosts[i]) == 0);
	}
	xk_assert(xk_sim_at(replay->sim, 77 * MS, replay_reboot, replay) == 0);
}

int
main(void)
{
	struct replay replay = { .sim = NULL };
	struct xk_traffic_report report;
	struct sim_link_counts counts;

	replay_make(&replay);
	xk_sim_run(replay.sim, 200 * MS);
	xk_sim_link_counts(xk_sim_first_link(replay.sim), &counts);
	printf("hash %016" PRIx64 "\nlost %" PRIu64 " duplicate %" PRIu64 " reorder %" PRIu64 " corrupt %" PRIu64 "\n",
	       xk_sim_hash(replay.sim), counts.loss, counts.duplicate, counts.reorder, counts.corrupt);
	for (unsigned i = 0; i < HOSTS; i++) {
		struct xk_kernel_stats stats;

		xk_traffic_report(xk_kernel_find(xk_sim_kernel(replay.hosts[i]), "traffic"), &report);
		xk_kernel_stats(xk_sim_kernel(replay.hosts[i]), &stats);
		printf("%s sent %" PRIu64 " received %" PRIu64 " broken %" PRIu64 " handoffs %" PRIu64 " %" PRIu64
		       " %" PRIu64 "\n",
		       xk_sim_host_name(replay.hosts[i]), report.sent, report.received, report.broken,
		       stats.handoffs[XK_HANDOFF_EXPLICIT], stats.handoffs[XK_HANDOFF_IMPLICIT],
		       stats.handoffs[XK_HANDOFF_TIME]);
	}
	return xk_sim_free(replay.sim) == 0 && counts.loss > 0 && counts.corrupt > 0 ? 0 : 1;
}
