/*
 * plan.c - see plan.h. Each feature is in some plans and not in others, so that none hides another (Groce and others,
 * "Swarm Testing", 2012). Numbers are bounded by what a network can carry: nothing is guaranteed under overload.
 */
#include "tests/swarm/plan_maker.h"

#include <stdio.h>
#include <string.h>

#include "platform/sim/link.h"

#define PLAN_MS UINT64_C(1000000)

enum { PLAN_SIZE_MAX = 60000, PLAN_STREAM_MIN = 2000, PLAN_STREAM_MAX = 100000 };

const char *const plan_fault_names[PLAN_FAULTS] = {
	"loss",  "duplicate",  "reorder",  "corrupt",  "cut",    "crash",
	"vloss", "vduplicate", "vreorder", "vcorrupt", "vdelay",
};

const char *const plan_graph_files[PLAN_GRAPHS] = { "a.dot", "b.dot" };

/* ---- scenarios ---- */

static const struct plan_edge plan_udp[] = { { "traffic", "udp", "" }, { "udp", "ip", "" }, { NULL, NULL, NULL } };
static const struct plan_edge plan_two[] = {
	{ "traffic", "udp", "" }, { "second", "udp", "" }, { "udp", "ip", "" }, { NULL, NULL, NULL }
};
static const struct plan_edge plan_stopwait[] = { { "traffic", "stopwait", "" },
						  { "stopwait", "ip", "number=253" },
						  { NULL, NULL, NULL } };
static const struct plan_edge plan_both[] = {
	{ "traffic", "stopwait", "" }, { "second", "udp", "" }, { "stopwait", "ip", "number=253" },
	{ "udp", "ip", "" },           { NULL, NULL, NULL },
};
static const struct plan_edge plan_bid[] = {
	{ "traffic", "udp", "" }, { "udp", "bid", "" },   { "bid", "ip", "" },
	{ "bid", "bidctl", "" },  { "bidctl", "ip", "" }, { NULL, NULL, NULL },
};
static const struct plan_edge plan_bid_link[] = {
	{ "traffic", "udp", "" }, { "udp", "bid", "" },     { "bid", "vnet", "" },
	{ "bid", "bidctl", "" },  { "bidctl", "vnet", "" }, { NULL, NULL, NULL },
};
static const struct plan_edge plan_gm[] = {
	{ "traffic", "gm", "" }, { "gm", "bid", "" },    { "gm", "bidctl", "" }, { "bid", "ip", "" },
	{ "bid", "bidctl", "" }, { "bidctl", "ip", "" }, { NULL, NULL, NULL },
};
static const struct plan_edge plan_am[] = { { "traffic", "am", "" }, { "am", "ip", "" }, { NULL, NULL, NULL } };
static const struct plan_edge plan_blast[] = { { "traffic", "blast", "number=8" },
					       { "blast", "vnet", "" },
					       { NULL, NULL, NULL } };
static const struct plan_edge plan_blast_ip[] = { { "traffic", "blast", "number=8" },
						  { "blast", "ip", "" },
						  { NULL, NULL, NULL } };
static const struct plan_edge plan_tcp[] = { { "tcptest", "tcp", "" }, { "tcp", "ip", "" }, { NULL, NULL, NULL } };
static const struct plan_edge plan_tcp_udp[] = {
	{ "tcptest", "tcp", "" }, { "traffic", "udp", "" }, { "tcp", "ip", "" },
	{ "udp", "ip", "" },      { NULL, NULL, NULL },
};
static const struct plan_edge plan_tcp_bid[] = {
	{ "tcptest", "tcp", "" }, { "tcp", "bid", "number=6" }, { "bid", "ip", "" },
	{ "bid", "bidctl", "" },  { "bidctl", "ip", "" },       { NULL, NULL, NULL },
};
static const struct plan_edge plan_tcp_blast[] = {
	{ "tcptest", "tcp", "" },
	{ "tcp", "blast", "number=6" },
	{ "blast", "ip", "" },
	{ NULL, NULL, NULL },
};

const struct plan_scenario plan_scenarios[] = {
	{ "udp", "datagrams that fit into a frame", plan_udp, { "traffic" }, { "intact" }, PLAN_DAMAGE | PLAN_COUNTED },
	{ "long", "datagrams longer than a frame", plan_udp, { "traffic" }, { "intact" }, PLAN_LONG | PLAN_DAMAGE },
	{ "unchecked",
	  "long datagrams without a checksum, on a network that damages nothing",
	  plan_udp,
	  { "traffic" },
	  { "intact" },
	  PLAN_LONG | PLAN_UNCHECKED },
	{ "two",
	  "two users of udp that send to the same hosts",
	  plan_two,
	  { "traffic", "second" },
	  { "intact", "intact" },
	  PLAN_DAMAGE | PLAN_COUNTED },
	{ "both",
	  "reliable messages and datagrams between the same hosts",
	  plan_both,
	  { "traffic", "second" },
	  { "ordered", "intact" },
	  PLAN_LONG | PLAN_DAMAGE },
	{ "stopwait", "reliable messages", plan_stopwait, { "traffic" }, { "ordered" }, PLAN_LONG | PLAN_DAMAGE },
	{ "bid", "datagrams between boots of hosts", plan_bid, { "traffic" }, { "intact" }, PLAN_LONG | PLAN_DAMAGE },
	{ "bid_link", "the same without ip", plan_bid_link, { "traffic" }, { "intact" }, PLAN_DAMAGE },
	{ "blast",
	  "messages of several frames, some of which are sent again",
	  plan_blast,
	  { "traffic" },
	  { "intact" },
	  PLAN_LONG },
	{ "blast_ip", "the same over ip", plan_blast_ip, { "traffic" }, { "intact" }, PLAN_LONG },
	{ "gm", "reliable messages between boots of hosts", plan_gm, { "traffic" }, { "ordered" }, PLAN_LONG },
	{ "am", "requests that are acknowledged", plan_am, { "traffic" }, { "once" }, PLAN_LONG },
	{ "tcp", "streams of bytes", plan_tcp, { NULL }, { NULL }, PLAN_DAMAGE },
	{ "tcp_udp",
	  "streams of bytes and datagrams between the same hosts",
	  plan_tcp_udp,
	  { "traffic" },
	  { "intact" },
	  PLAN_LONG | PLAN_DAMAGE },
	{ "tcp_bid", "streams of bytes between boots of hosts", plan_tcp_bid, { NULL }, { NULL }, PLAN_DAMAGE },
	{ "tcp_blast", "streams of bytes in segments of several frames", plan_tcp_blast, { NULL }, { NULL }, 0 },
	{ .name = NULL },
};

/* One of 7 seeds runs one of the scenarios of streams, the last ones; the others take turns in the rest. */
enum { PLAN_STREAMS = 4, PLAN_WITHOUT_STREAMS = XK_ARRAY_LENGTH(plan_scenarios) - 1 - PLAN_STREAMS };

const struct plan_scenario *
plan_scenario_find(const char *name)
{
	for (const struct plan_scenario *s = plan_scenarios; s->name != NULL; s++)
		if (strcmp(s->name, name) == 0)
			return s;
	return NULL;
}

const struct plan_scenario *
plan_of_seed(uint64_t seed)
{
	if (seed % 7 == 0)
		return &plan_scenarios[PLAN_WITHOUT_STREAMS + seed / 7 % PLAN_STREAMS];
	return &plan_scenarios[seed % PLAN_WITHOUT_STREAMS];
}

bool
plan_has(const struct plan_scenario *scenario, const char *name)
{
	for (const struct plan_edge *edge = scenario->edges; edge->upper != NULL; edge++)
		if (strcmp(edge->upper, name) == 0)
			return true;
	return false;
}

/* Returns true if messages are sent until they arrive, so that short ones are worth a scenario of their own. */
static bool
plan_is_reliable(const struct plan_scenario *scenario)
{
	return plan_has(scenario, "stopwait") || plan_has(scenario, "gm") || plan_has(scenario, "am") ||
	       plan_has(scenario, "tcp");
}

/* ---- drawn for all hosts ---- */

static const char *const plan_presets[] = { "ethernet10", "fddi",     "atm140", "myrinet", "hub100",
					    "rack10g",    "rack100g", "ideal",  "wide" };

static void
plan_draw_link(struct plan_maker *maker)
{
	bool wires = maker->plan->hosts == 2;
	const char *name =
		plan_presets[xk_chance_below(&maker->chance, XK_ARRAY_LENGTH(plan_presets) - (wires ? 0 : 1))];
	const struct sim_link_preset *preset = sim_link_preset_find(name);

	xk_assert(preset != NULL);
	maker->rate = preset->config.rate == 0 ? UINT64_C(1000000000) : preset->config.rate;
	maker->mtu = preset->config.mtu;
	maker->latency_ns = preset->config.latency_ns;
	plan_write(maker, "\tlan [link=%s", name);
	if (strcmp(name, "wide") == 0 || strcmp(name, "ideal") == 0) {
		maker->latency_ns = plan_between(maker, 10, 5000) * 1000;
		plan_write_time(maker, "latency", maker->latency_ns);
	}
	if (plan_one_in(maker, 3)) {
		maker->mtu = plan_between(maker, 200, 1500);
		plan_write(maker, ", mtu=%u", (unsigned)maker->mtu);
	}
	if (plan_one_in(maker, 4))
		plan_write(maker, ", queue=%u", (unsigned)plan_between(maker, 3, 32));
}

static void
plan_draw_link_faults(struct plan_maker *maker)
{
	uint64_t late_ns;

	plan_write_fault(maker, PLAN_LOSS, "loss", plan_one_in(maker, 4) && !maker->plan->patient ? 300 : 80);
	if (plan_one_in(maker, 3) && !maker->plan->patient)
		plan_write(maker, ", burst=%u", (unsigned)plan_between(maker, 2, 12));
	plan_write_fault(maker, PLAN_DUPLICATE, "duplicate", 100);
	late_ns = plan_between(maker, 1, 16000) * 1000;
	plan_write_time(maker, "reorder_delay", plan_between(maker, 1000, late_ns));
	plan_write_fault(maker, PLAN_REORDER, "reorder", 200);
	if (maker->plan->misled)
		plan_write_fault(maker, PLAN_CORRUPT, "corrupt", 200);
	plan_write(maker, "];\n");
}

/* Draws the lengths of messages. Whole datagrams leave room for the headers of udp or stopwait. */
static void
plan_draw_sizes(struct plan_maker *maker)
{
	bool may_be_long = (maker->plan->scenario->allows & PLAN_LONG) != 0;
	uint64_t whole = maker->mtu - 20 - 30, most = maker->rate < 50000000 ? 4 : 8;

	maker->size_min = 40;
	maker->size_max = plan_between(maker, 40, whole < 800 ? whole : 800);
	maker->fragments = 1;
	if (may_be_long && (!plan_is_reliable(maker->plan->scenario) || plan_has(maker->plan->scenario, "udp") ||
			    plan_one_in(maker, 2))) {
		maker->fragments = plan_between(maker, 2, most);
		maker->size_max = maker->mtu + plan_between(maker, 1, (maker->mtu - 60) * (maker->fragments - 1));
		if (maker->size_max > PLAN_SIZE_MAX)
			maker->size_max = PLAN_SIZE_MAX;
		if (plan_one_in(maker, 2))
			maker->size_min = plan_between(maker, maker->mtu, maker->size_max);
		maker->fragments = maker->size_max / ((maker->mtu - 20) & ~UINT64_C(7)) + 1;
		maker->plan->is_long = true;
	}
	maker->is_slow = maker->rate < 50000000;
}

/* Draws the rate of each traffic of a host: enough for each pair, and at most a third of the link. */
static void
plan_draw_load(struct plan_maker *maker)
{
	uint64_t peers = maker->plan->hosts - 1, bits = maker->size_max * 8 + 1000;
	uint64_t most = maker->rate / 3 / (bits * maker->plan->hosts * (maker->traffics > 0 ? maker->traffics : 1));

	maker->load = peers * plan_between(maker, 8, 60 / maker->plan->hosts + 10);
	if (plan_has(maker->plan->scenario, "am")) /* later ones must be answered before a late copy arrives */
		maker->load *= 4;
	if (plan_has(maker->plan->scenario, "tcp")) /* whose runs take longer */
		maker->load = peers;
	if (maker->load > most)
		maker->load = most;
	if (maker->load == 0)
		maker->load = 1;
	maker->is_random = plan_one_in(maker, 3);
}

/*
 * Draws TCP's times and the longest of its streams: what a host's share of the link carries in 40 ms. When the network
 * settles, connections of crashed hosts have been given up, one after the other.
 */
static void
plan_draw_stream_times(struct plan_maker *maker)
{
	struct plan *plan = maker->plan;
	uint64_t bytes = maker->rate / 8 / 25 / plan->hosts;

	plan->stream_bytes = bytes < PLAN_STREAM_MIN   ? PLAN_STREAM_MIN
			     : bytes > PLAN_STREAM_MAX ? PLAN_STREAM_MAX
						       : bytes;
	maker->timeout_ns = plan_between(maker, 20, 500) * PLAN_MS;
	maker->timeout_max_ns = maker->timeout_ns + plan_between(maker, 200, 500) * PLAN_MS;
	plan->settle_ns = plan->heal_ns + 15000 * PLAN_MS;
	plan->stop_ns = plan->settle_ns + (5000 + 3000 * (plan->hosts - 1)) * PLAN_MS;
	plan->quiet_ns = plan->stop_ns + 20000 * PLAN_MS;
}

static void
plan_draw_times(struct plan_maker *maker)
{
	struct plan *plan = maker->plan;
	bool notices = plan_has(plan->scenario, "stopwait") || plan_has(plan->scenario, "bid");
	uint64_t turn_ns = UINT64_C(1000000000) / maker->load * (plan->hosts - 1);
	/*
	 * time that the link takes for all messages in flight: with a shorter timeout it would carry only
	 * retransmissions
	 */
	uint64_t all_ns = plan->hosts * (plan->hosts - 1) * maker->size_max * 8 * UINT64_C(1000000000) / maker->rate;

	maker->arp_timeout_ns = plan_between(maker, 25, 60) * PLAN_MS;
	maker->reassembly_ns = plan_between(maker, 60, 200) * PLAN_MS;
	maker->timeout_ns = plan_between(maker, 4, 40) * PLAN_MS;
	if (maker->timeout_ns < all_ns)
		maker->timeout_ns = all_ns;
	maker->timeout_max_ns = maker->timeout_ns * plan_between(maker, 1, 4);
	plan->heal_ns = plan_between(maker, 250, 700) * PLAN_MS;
	/* by then dead peers have been noticed and reopened */
	plan->settle_ns = plan->heal_ns + (notices ? 700 : 300) * PLAN_MS;
	plan->stop_ns = plan->settle_ns + 200 * PLAN_MS + 5 * turn_ns;
	/* by then senders to a dead peer have given up */
	plan->quiet_ns =
		plan->stop_ns + 2000 * PLAN_MS + (maker->timeout_ns == all_ns ? 12 * maker->timeout_max_ns : 0);
	if (plan_has(plan->scenario, "gm") ||
	    plan_has(plan->scenario, "am")) /* a host with few stacks may lose every second packet */
		plan->quiet_ns += 20 * maker->timeout_max_ns;
	if (plan_has(plan->scenario, "tcp"))
		plan_draw_stream_times(maker);
	plan->end_ns = plan->quiet_ns + 500 * PLAN_MS;
}

static void
plan_draw_shared(struct plan_maker *maker)
{
	struct plan *plan = maker->plan;
	bool crashes = plan_one_in(maker, 3);

	plan->asked[PLAN_CRASH] = crashes;
	plan->checked = (plan->scenario->allows & PLAN_UNCHECKED) == 0 && plan_has(plan->scenario, "udp");
	plan->damages = (plan->scenario->allows & PLAN_DAMAGE) != 0 && plan_one_in(maker, 2);
	if (plan_has(plan->scenario, "udp") && (plan->scenario->allows & PLAN_DAMAGE) != 0 && !plan->damages)
		plan->checked = !plan_one_in(maker, 3);
	/* after a reboot the same identifications would return and be taken for earlier ones */
	maker->identification = !crashes && plan_one_in(maker, 2) ? plan_between(maker, 1, 65535) : 0;
	maker->local = plan_one_in(maker, 2) ? plan_between(maker, 3000, 3010) : 0;
	maker->queue = plan_between(maker, 0, 16);
	plan->patient = plan_one_in(maker, 2) && !crashes && !plan->is_long && plan_is_reliable(plan->scenario);
	plan->scarce = plan_one_in(maker, 12) && !plan->patient;
	if (plan->scarce) /* few buffers make it slow */
		plan->stream_bytes = PLAN_STREAM_MIN;
	plan->misled = !plan->patient && (plan->scenario->allows & PLAN_DAMAGE) != 0 && !maker->plan->is_long &&
		       !plan->damages && (plan->checked || !plan_has(plan->scenario, "udp")) && plan_one_in(maker, 4);
}

/* ---- hosts ---- */

/* Writes up to three crashes, each followed by a boot before the network heals. */
static void
plan_write_crashes(struct plan_maker *maker, uint64_t start_ms)
{
	uint64_t end_ms = maker->plan->heal_ns / PLAN_MS, at_ms = start_ms;
	char crashes[64] = "", boots[64] = "";
	unsigned count = 0;

	while (count < 3 && end_ms > at_ms + 40 && (count == 0 || plan_one_in(maker, 2))) {
		size_t crashes_len = strlen(crashes), boots_len = strlen(boots);

		at_ms = plan_between(maker, at_ms + 1, end_ms - 20);
		snprintf(crashes + crashes_len, sizeof(crashes) - crashes_len, "%s%ums", count == 0 ? "" : ",",
			 (unsigned)at_ms);
		at_ms = plan_between(maker, at_ms + 1, end_ms - 1);
		snprintf(boots + boots_len, sizeof(boots) - boots_len, "%s%ums", count == 0 ? "" : ",",
			 (unsigned)at_ms);
		count++;
	}
	if (count > 0)
		plan_write(maker, ", crash=\"%s\", boot=\"%s\"", crashes, boots);
}

static uint64_t
plan_write_start(struct plan_maker *maker)
{
	uint64_t start_ms = plan_between(maker, 0, 10);

	if (plan_one_in(maker, 4) && !maker->plan->patient)
		start_ms = plan_between(maker, 10, maker->plan->heal_ns / PLAN_MS - 60);
	plan_write(maker, ", start=\"%ums\"", (unsigned)start_ms);
	return start_ms;
}

/*
 * Writes the number of buffers that a host may have out. With few it drops any message, by name, and delivery is not
 * guaranteed.
 */
static void
plan_write_buffers(struct plan_maker *maker)
{
	if (maker->plan->scarce && plan_one_in(maker, 2))
		plan_write(maker, ", buffers=%u", (unsigned)plan_between(maker, 4, 60));
}

static void
plan_write_costs(struct plan_maker *maker)
{
	if (plan_one_in(maker, 3))
		plan_write(maker, ", costs=modern");
	else if (maker->is_slow && plan_one_in(maker, 3))
		plan_write(maker, ", costs=decstation");
	if (plan_one_in(maker, 4))
		plan_write_time(maker, "thread_switch", plan_between(maker, 1, 100) * 1000);
	if (plan_one_in(maker, 4))
		plan_write_time(maker, "frame_in", plan_between(maker, 1, 30) * 1000);
}

static void
plan_write_host(struct plan_maker *maker, unsigned n)
{
	const char *graph = plan_graph_files[xk_chance_below(&maker->chance, PLAN_GRAPHS)];
	bool is_regular = plan_one_in(maker, 3), has_streams = plan_has(maker->plan->scenario, "tcp");
	uint64_t start_ms;

	plan_write(maker, "\th%u [protocols=\"%s\"", n + 1, graph);
	plan_write(maker, ", mode=%s", is_regular ? "regular" : "ipp");
	/* a thread that carries an echo may wait for the acknowledgement that another one carries */
	plan_write(maker, ", threads=%u", (unsigned)plan_between(maker, 1, 3) + (is_regular && has_streams ? 32 : 0));
	if (plan_one_in(maker, 3)) {
		/* the driver, which has one, starts a server's thread */
		plan_write(maker, ", stacks=%u", (unsigned)plan_between(maker, 2, 4) + (has_streams ? 1 : 0));
		maker->has_few_stacks = true;
	} else if (has_streams) {
		/* a burst of small segments takes one for each, and a server needs one */
		plan_write(maker, ", stacks=300");
	}
	plan_write_costs(maker);
	plan_write_buffers(maker);
	start_ms = plan_write_start(maker);
	if (maker->plan->asked[PLAN_CRASH] && (n == 0 || plan_one_in(maker, 4)))
		plan_write_crashes(maker, start_ms);
	plan_write(maker, "];\n");
}

static void
plan_draw_cuts(struct plan_maker *maker)
{
	struct plan *plan = maker->plan;
	uint64_t heal_ms = plan->heal_ns / PLAN_MS, to_ms;

	if (!plan_one_in(maker, 3) || plan->patient)
		return;
	plan->asked[PLAN_CUT] = true;
	plan->cut_count = (unsigned)plan_between(maker, 1, PLAN_CUTS_MAX);
	for (unsigned i = 0; i < plan->cut_count; i++) {
		struct plan_cut *cut = &plan->cuts[i];

		cut->host = (unsigned)xk_chance_below(&maker->chance, plan->hosts);
		to_ms = plan_between(maker, 30, heal_ms);
		cut->from_ns = plan_between(maker, 20, to_ms - 1) * PLAN_MS;
		cut->to_ns = to_ms * PLAN_MS;
		cut->sends = plan_one_in(maker, 2);
		cut->receives = !cut->sends || plan_one_in(maker, 2);
	}
}

/* ---- the whole plan ---- */

static void
plan_write_network(struct plan_maker *maker)
{
	struct plan *plan = maker->plan;

	plan_begin_text(maker, plan->network);
	plan_write(maker, "graph swarm {\n\tgraph [network=\"10.77.0.0/24\"];\n");
	plan_draw_link(maker);
	plan_draw_sizes(maker);
	plan_draw_load(maker);
	plan_draw_times(maker);
	plan_draw_shared(maker);
	plan_draw_link_faults(maker);
	for (unsigned n = 0; n < plan->hosts; n++)
		plan_write_host(maker, n);
	for (unsigned n = 0; n < plan->hosts; n++)
		plan_write(maker, "\th%u -- lan;\n", n + 1);
	plan_write(maker, "}\n");
}

void
plan_make(struct plan *plan, uint64_t seed, const struct plan_scenario *scenario)
{
	struct plan_maker maker = { .plan = plan };

	if (scenario == NULL)
		scenario = plan_of_seed(seed);
	memset(plan, 0, sizeof(*plan));
	plan->seed = seed;
	plan->scenario = scenario;
	xk_chance_init(&maker.chance, seed, 0);
	while (maker.traffics < PLAN_TRAFFICS_MAX && scenario->traffics[maker.traffics] != NULL)
		maker.traffics++;
	plan->hosts = (unsigned)plan_between(&maker, 2, plan_one_in(&maker, 3) ? PLAN_HOSTS_MAX : 4);
	plan_write_network(&maker);
	for (unsigned n = 0; n < PLAN_GRAPHS; n++)
		plan_write_graph(&maker, n);
	plan_draw_cuts(&maker);
	/* each end of a connection may need a stack */
	plan->crowded = maker.has_few_stacks && (maker.has_order || plan_has(scenario, "tcp"));
}

void
plan_print(const struct plan *plan)
{
	printf("seed %llu, scenario %s: %s\n", (unsigned long long)plan->seed, plan->scenario->name,
	       plan->scenario->help);
	printf("heal %llu ms, settle %llu ms, stop %llu ms, quiet %llu ms, end %llu ms\n",
	       (unsigned long long)(plan->heal_ns / PLAN_MS), (unsigned long long)(plan->settle_ns / PLAN_MS),
	       (unsigned long long)(plan->stop_ns / PLAN_MS), (unsigned long long)(plan->quiet_ns / PLAN_MS),
	       (unsigned long long)(plan->end_ns / PLAN_MS));
	for (unsigned i = 0; i < plan->cut_count; i++)
		printf("cut h%u from %llu ms to %llu ms:%s%s\n", plan->cuts[i].host + 1,
		       (unsigned long long)(plan->cuts[i].from_ns / PLAN_MS),
		       (unsigned long long)(plan->cuts[i].to_ns / PLAN_MS), plan->cuts[i].sends ? " sends" : "",
		       plan->cuts[i].receives ? " receives" : "");
	printf("asked:");
	for (unsigned i = 0; i < PLAN_FAULTS; i++)
		if (plan->asked[i])
			printf(" %s", plan_fault_names[i]);
	printf("%s%s%s%s%s%s%s\n", plan->damages ? "; damages" : "", plan->checked ? "; udp checksums" : "",
	       plan->misled ? "; misled" : "", plan->is_long ? "; long" : "", plan->scarce ? "; scarce" : "",
	       plan->crowded ? "; crowded" : "", plan->patient ? "; patient" : "");
	printf("--- network.dot\n%s--- %s\n%s--- %s\n%s", plan->network, plan_graph_files[0], plan->graphs[0],
	       plan_graph_files[1], plan->graphs[1]);
}
