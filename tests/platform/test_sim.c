/*
 * test_sim.c - the simulated world: hosts with real graphs on virtual time, costs, crashes and reboots, and
 * reproducible runs.
 */
#include <errno.h>

#include "graphs/graph.h"
#include "platform/sim/sim.h"
#include "protocols/test/udptest.h"
#include "tests/test.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

struct machine {
	struct xk_sim_host *host;
	unsigned number;
	enum xk_mode mode;
	unsigned threads;
	const char *set, *graph; /* NULL: none; graphs/udptest.dot */
	struct xk_udptest_result result;
	bool finished;
	uint64_t rtt_ns;
};

struct lab {
	struct xk_sim *sim;
	struct xk_sim_link *link;
	struct machine machines[4];
	unsigned count;
};

static const struct sim_link_config lab_wire = {
	.kind = SIM_LINK_SWITCH, .rate = 1000000000, .latency_ns = 1000, .mtu = 1500, .queue = 64
};

static struct xk_kernel *
machine_boot(void *context, struct xk_sim_host *host)
{
	struct machine *machine = context;
	struct xk_graph_errors errors = { 0 };
	char address[64];
	const char *sets[] = { address, "udptest.silence=100ms", machine->set };
	struct xk_graph *graph;
	struct xk_protocol *failed;
	struct xk_kernel *kernel;

	snprintf(address, sizeof(address), "vnet.address=10.0.0.%u/24", machine->number + 1);
	graph = machine->graph == NULL ? xk_graph_read("graphs/udptest.dot", &errors)
				       : xk_graph_read_text("text", machine->graph, strlen(machine->graph), &errors);
	REQUIRE(graph != NULL);
	for (unsigned i = 0; i < (machine->set == NULL ? 2 : 3); i++)
		REQUIRE(xk_graph_set(graph, sets[i], &errors) == 0);
	REQUIRE(xk_graph_check(graph, xk_protocol_types, &errors) == 0);
	kernel = xk_kernel_new(&(struct xk_kernel_config){ .name = xk_sim_host_name(host),
							   .platform = xk_sim_platform(host),
							   .mode = machine->mode,
							   .driver = XK_DRIVER_INTERRUPT,
							   .threads = machine->threads,
							   .stacks = 8,
							   .core = -1 });
	REQUIRE(kernel != NULL);
	xk_kernel_add_port(kernel, xk_sim_port_new(host, 0));
	REQUIRE(xk_graph_build(graph, kernel, &errors) == 0);
	xk_graph_free(graph);
	REQUIRE(xk_kernel_init(kernel, &failed) == 0);
	REQUIRE(xk_kernel_start(kernel) == 0);
	return kernel;
}

static void
lab_make(struct lab *lab, uint64_t seed, const struct sim_link_config *config)
{
	*lab = (struct lab){ .sim = xk_sim_new(seed) };
	REQUIRE(lab->sim != NULL);
	lab->link = xk_sim_link_new(lab->sim, "lan", config);
	REQUIRE(lab->link != NULL);
}

static struct machine *
lab_add(struct lab *lab, enum xk_mode mode, unsigned threads, const struct xk_sim_costs *costs)
{
	struct machine *machine = &lab->machines[lab->count];
	char name[16];

	snprintf(name, sizeof(name), "host%u", lab->count + 1);
	*machine = (struct machine){ .number = lab->count++, .mode = mode, .threads = threads };
	machine->host = xk_sim_host_new(
		lab->sim, &(struct xk_sim_host_config){
				  .name = name, .costs = *costs, .boot = machine_boot, .context = machine });
	REQUIRE(machine->host != NULL);
	REQUIRE(xk_sim_attach(machine->host, "port", lab->link, UINT64_C(0x020000000001) + machine->number) == 0);
	return machine;
}

static void
machine_record(void *argument, uint64_t rtt_ns)
{
	((struct machine *)argument)->rtt_ns = rtt_ns;
}

static void
machine_finished(void *argument, const struct xk_udptest_result *result)
{
	struct machine *machine = argument;

	machine->result = *result;
	machine->finished = true;
}

static bool
machine_goes_on(void *context)
{
	return !((struct machine *)context)->finished;
}

/* Runs `rounds` round trips of size bytes from machine to the host with number `server`. */
static void
lab_udptest(struct lab *lab, struct machine *machine, unsigned server, uint32_t size, uint64_t rounds)
{
	struct xk_udptest_run run = { .host = 0x0a000001 + server,
				      .size = size,
				      .rounds = rounds,
				      .record = machine_record,
				      .finished = machine_finished,
				      .argument = machine };

	machine->finished = false;
	REQUIRE(xk_udptest_start(xk_kernel_find(xk_sim_kernel(machine->host), "udptest"), &run) == 0);
	xk_sim_run_while(lab->sim, xk_sim_now_ns(lab->sim) + 100 * SECOND, machine_goes_on, machine);
	CHECK(machine->finished);
}

static const struct xk_sim_costs free_of_cost = { 0 };

static void
check_round_trips(enum xk_mode client, enum xk_mode server)
{
	struct lab lab;

	lab_make(&lab, 1, &lab_wire);
	lab_add(&lab, client, 2, &free_of_cost);
	lab_add(&lab, server, 2, &free_of_cost);
	CHECK_EQ(xk_sim_boot(lab.machines[0].host), 0);
	CHECK_EQ(xk_sim_boot(lab.machines[1].host), 0);
	lab_udptest(&lab, &lab.machines[0], 1, 4000, 50);
	CHECK_EQ(lab.machines[0].result.error, 0);
	CHECK_EQ(lab.machines[0].result.rounds, 50);
	CHECK_EQ(lab.machines[0].result.lost, 0);
	CHECK_EQ(xk_sim_free(lab.sim), 0);
}

TEST_OF(ipp_round_trips, check_round_trips(XK_IPP, XK_IPP));
TEST_OF(regular_round_trips, check_round_trips(XK_REGULAR, XK_REGULAR));
TEST_OF(mixed_round_trips, check_round_trips(XK_IPP, XK_REGULAR));

/* ---- costs ---- */

/*
 * Runs host1's rounds in a world of two hosts with these costs. Returns the last round-trip time and the server's
 * counts.
 */
static uint64_t
costs_on(const struct sim_link_config *link, enum xk_mode mode, unsigned threads, uint32_t size, uint64_t rounds,
	 const struct xk_sim_costs *costs, struct xk_sim_host_counts *server)
{
	struct lab lab;
	uint64_t rtt_ns;

	lab_make(&lab, 1, link);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(xk_sim_boot(lab_add(&lab, mode, threads, costs)->host), 0);
	lab_udptest(&lab, &lab.machines[0], 1, size, rounds);
	rtt_ns = lab.machines[0].rtt_ns;
	xk_sim_host_counts(lab.machines[1].host, server);
	CHECK_EQ(xk_sim_free(lab.sim), 0);
	return rtt_ns;
}

static uint64_t
costs_of(enum xk_mode mode, unsigned threads, uint32_t size, uint64_t rounds, const struct xk_sim_costs *costs,
	 struct xk_sim_host_counts *server)
{
	return costs_on(&lab_wire, mode, threads, size, rounds, costs, server);
}

TEST(thread_switch_costs_time_in_regular_mode_only)
{
	struct xk_sim_costs costs = { .thread_switch_ns = 30700 };
	struct xk_sim_host_counts regular, ipp;
	uint64_t regular_ns = costs_of(XK_REGULAR, 1, 1, 100, &costs, &regular);
	uint64_t ipp_ns = costs_of(XK_IPP, 1, 1, 100, &costs, &ipp);

	CHECK_EQ(regular_ns, ipp_ns + 2 * 30700);
	CHECK_EQ(ipp.thread_switches, 0);
	CHECK(regular.thread_switches >= 100 && regular.thread_switches <= 104);
}

TEST(stack_costs_time_in_ipp_mode_only)
{
	struct xk_sim_costs costs = { .stack_start_ns = 3600 };
	struct xk_sim_host_counts counts;
	uint64_t regular_ns = costs_of(XK_REGULAR, 1, 1, 100, &costs, &counts);

	CHECK_EQ(costs_of(XK_IPP, 1, 1, 100, &costs, &counts), regular_ns + 2 * 3600);
}

TEST(frames_and_interrupts_cost_time_in_both_modes)
{
	struct xk_sim_costs costs = { .interrupt_ns = 100, .frame_in_ns = 1000, .frame_out_ns = 400 };
	struct xk_sim_host_counts counts;
	uint64_t free_ns = costs_of(XK_IPP, 1, 1, 100, &free_of_cost, &counts);

	/* The cost of sending falls between the frame's departure and the answer's arrival. */
	CHECK_EQ(costs_of(XK_IPP, 1, 1, 100, &costs, &counts), free_ns + 2 * 1100);
	CHECK_EQ(costs_of(XK_REGULAR, 1, 1, 100, &costs, &counts), free_ns + 2 * 1100);
}

/* Writing (before departure) and reading (after arrival) take processor time; the latency takes none. */
TEST(controllers_take_time_and_processor_time)
{
	struct sim_link_config link = lab_wire;
	struct xk_sim_host_counts counts;
	uint64_t free_ns = costs_of(XK_IPP, 1, 100, 100, &free_of_cost, &counts);
	uint64_t free_kb_ns = costs_of(XK_IPP, 1, 1100, 100, &free_of_cost, &counts) - free_ns, ns;

	link.write_ns = 2000;
	link.read_ns = 3000;
	CHECK_EQ(costs_on(&link, XK_IPP, 1, 100, 100, &free_of_cost, &counts), free_ns + 2 * 5000);
	CHECK(counts.busy_ns >= 100 * 5000 && counts.busy_ns < 110 * 5000);
	CHECK_EQ(costs_on(&link, XK_REGULAR, 1, 100, 100, &free_of_cost, &counts), free_ns + 2 * 5000);
	link = lab_wire;
	link.write_kb_ns = 10000;
	link.read_kb_ns = 20000;
	link.latency_kb_ns = 40000;
	ns = costs_on(&link, XK_IPP, 1, 100, 100, &free_of_cost, &counts);
	CHECK_EQ(costs_on(&link, XK_IPP, 1, 1100, 100, &free_of_cost, &counts), ns + free_kb_ns + 2 * 70000);
}

/* A card's processor works on each frame at both ends; it fetches frames that the host's does not write. */
TEST(cards_process_one_frame_at_a_time)
{
	struct sim_link_config link = lab_wire;
	struct xk_sim_host_counts counts;
	uint64_t free_ns = costs_of(XK_IPP, 1, 100, 100, &free_of_cost, &counts);
	uint64_t free_kb_ns = costs_of(XK_IPP, 1, 1100, 100, &free_of_cost, &counts) - free_ns, ns;

	link.card_ns = 2000;
	link.write_ns = 500;
	CHECK_EQ(costs_on(&link, XK_IPP, 1, 100, 100, &free_of_cost, &counts), free_ns + 4 * 2000 + 2 * 500);
	CHECK_EQ(costs_on(&link, XK_REGULAR, 1, 100, 100, &free_of_cost, &counts), free_ns + 4 * 2000 + 2 * 500);
	link.dma_ns = 3000;
	link.pio = 200;
	CHECK_EQ(costs_on(&link, XK_IPP, 1, 100, 100, &free_of_cost, &counts), free_ns + 4 * 2000 + 2 * 500);
	link.pio = 100;
	ns = costs_on(&link, XK_IPP, 1, 100, 100, &free_of_cost, &counts);
	CHECK_EQ(ns, free_ns + 4 * 2000 + 2 * 3000);
	CHECK(counts.busy_ns < 10000);
	link.waits = true;
	CHECK_EQ(costs_on(&link, XK_IPP, 1, 100, 100, &free_of_cost, &counts), ns);
	CHECK(counts.busy_ns >= 100 * 5000 && counts.busy_ns < 110 * 7000);
	link.waits = false;
	link.card_kb_ns = 10000;
	ns = costs_on(&link, XK_IPP, 1, 100, 100, &free_of_cost, &counts);
	CHECK_EQ(costs_on(&link, XK_IPP, 1, 1100, 100, &free_of_cost, &counts), ns + free_kb_ns + 4 * 10000);
	link = lab_wire;
	link.card_ns = 50000; /* three frames each way: the last waits for two at its sender */
	ns = costs_on(&link, XK_IPP, 1, 4000, 10, &free_of_cost, &counts);
	CHECK(ns > 8 * 50000 && ns < 10 * 50000);
}

TEST(host_may_crash_with_frames_on_its_card)
{
	struct sim_link_config link = lab_wire;
	struct xk_sim_host_counts booted, counts;
	struct machine *machine;
	struct lab lab;

	link.card_ns = 100 * MS;
	lab_make(&lab, 1, &link);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(xk_sim_boot(lab_add(&lab, XK_IPP, 1, &free_of_cost)->host), 0);
	machine = &lab.machines[0];
	xk_sim_run(lab.sim, SECOND);
	xk_sim_host_counts(machine->host, &booted);
	REQUIRE(xk_udptest_start(xk_kernel_find(xk_sim_kernel(machine->host), "udptest"),
				 &(struct xk_udptest_run){ .host = 0x0a000002,
							   .size = 1,
							   .rounds = 1,
							   .finished = machine_finished,
							   .argument = machine }) == 0);
	xk_sim_run(lab.sim, SECOND + 50 * MS);
	CHECK_EQ(xk_sim_crash(machine->host), 0);
	CHECK_EQ(xk_sim_boot(machine->host), 0);
	xk_sim_run(lab.sim, 3 * SECOND);
	xk_sim_host_counts(machine->host, &counts);
	CHECK_EQ(counts.frames_out, 2 * booted.frames_out);
	CHECK_EQ(xk_sim_free(lab.sim), 0);
}

/* ---- interrupts: fragments that take longer than the next one takes to arrive ---- */

/*
 * Adds work for every received frame between ip and vnet. Returns the thread switches of `rounds` rounds of fragments.
 */
static uint64_t
switches_of_fragments(const char *work, unsigned threads, uint64_t rounds)
{
	struct lab lab;
	struct xk_sim_host_counts before, after;

	lab_make(&lab, 1, &lab_wire);
	for (unsigned i = 0; i < 2; i++) {
		struct machine *machine = lab_add(&lab, XK_REGULAR, threads, &free_of_cost);

		machine->graph = "digraph slow { udptest -> udp; udp -> ip; ip -> vwork; vwork -> vnet; vnet -> eth;"
				 "vnet -> arp; arp -> eth; eth -> port; }";
		machine->set = work;
		CHECK_EQ(xk_sim_boot(machine->host), 0);
	}
	lab_udptest(&lab, &lab.machines[0], 1, 4000, 10);
	xk_sim_host_counts(lab.machines[1].host, &before);
	lab_udptest(&lab, &lab.machines[0], 1, 4000, rounds);
	xk_sim_host_counts(lab.machines[1].host, &after);
	CHECK_EQ(xk_sim_free(lab.sim), 0);
	return after.thread_switches - before.thread_switches;
}

/* A fragment every 12 us. */
#define LONGER_THAN_AN_INTERVAL "vwork.up=20us"
#define LONGER_THAN_A_MESSAGE "vwork.up=100us"

TEST_OF(one_thread_takes_all_fragments_of_a_message_with_one_switch,
	CHECK_EQ(switches_of_fragments(LONGER_THAN_AN_INTERVAL, 1, 100), 100));
TEST_OF(two_threads_switch_for_every_fragment, CHECK_EQ(switches_of_fragments(LONGER_THAN_AN_INTERVAL, 2, 100), 300));

TEST(burst_of_fragments_costs_one_switch_per_thread)
{
	CHECK_EQ(switches_of_fragments(LONGER_THAN_A_MESSAGE, 1, 100), 100);
	CHECK_EQ(switches_of_fragments(LONGER_THAN_A_MESSAGE, 2, 100), 200);
	CHECK_EQ(switches_of_fragments(LONGER_THAN_A_MESSAGE, 3, 100), 300);
}

/* ---- crash and reboot ---- */

TEST(crashed_host_answers_again_after_a_boot)
{
	struct xk_sim_host_counts counts;
	struct lab lab;

	lab_make(&lab, 1, &lab_wire);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(xk_sim_boot(lab_add(&lab, XK_IPP, 1, &free_of_cost)->host), 0);
	lab_udptest(&lab, &lab.machines[0], 1, 100, 10);
	CHECK_EQ(xk_sim_crash(lab.machines[1].host), 0);
	CHECK(!xk_sim_is_up(lab.machines[1].host));
	CHECK(xk_sim_kernel(lab.machines[1].host) == NULL);
	lab_udptest(&lab, &lab.machines[0], 1, 100, 10);
	CHECK_EQ(lab.machines[0].result.error, -ETIMEDOUT);
	xk_sim_host_counts(lab.machines[1].host, &counts);
	CHECK(counts.unheard > 0);
	CHECK_EQ(xk_sim_boot(lab.machines[1].host), 0);
	CHECK_EQ(xk_sim_host_boots(lab.machines[1].host), 2);
	lab_udptest(&lab, &lab.machines[0], 1, 100, 10);
	CHECK_EQ(lab.machines[0].result.error, 0);
	CHECK_EQ(lab.machines[0].result.rounds, 10);
	CHECK_EQ(xk_sim_free(lab.sim), 0);
}

/* Crashes the host with frames unread at the device: its threads must still finish their messages. */
static void
check_crash_while_frames_wait(uint64_t after_ns)
{
	struct xk_sim_costs slow = { .frame_in_ns = 100000, .thread_switch_ns = 1000000 };
	struct xk_udptest_run run = { .host = 0x0a000002, .size = 60000, .rounds = 1, .finished = machine_finished };
	struct lab lab;

	lab_make(&lab, 1, &lab_wire);
	CHECK_EQ(xk_sim_boot(lab_add(&lab, XK_IPP, 1, &free_of_cost)->host), 0);
	CHECK_EQ(xk_sim_boot(lab_add(&lab, XK_REGULAR, 1, &slow)->host), 0);
	lab_udptest(&lab, &lab.machines[0], 1, 1, 1);
	run.argument = &lab.machines[0];
	REQUIRE(xk_udptest_start(xk_kernel_find(xk_sim_kernel(lab.machines[0].host), "udptest"), &run) == 0);
	xk_sim_run(lab.sim, xk_sim_now_ns(lab.sim) + after_ns);
	CHECK_EQ(xk_sim_crash(lab.machines[1].host), 0);
	CHECK_EQ(xk_sim_free(lab.sim), 0);
}

TEST(regular_host_may_crash_with_frames_waiting)
{
	for (uint64_t after_ns = 50000; after_ns < 2 * MS; after_ns += 50000)
		check_crash_while_frames_wait(after_ns);
}

static void
crash_and_boot(void *context)
{
	struct machine *machine = context;

	CHECK_EQ(xk_sim_crash(machine->host), 0);
	CHECK_EQ(xk_sim_boot(machine->host), 0);
}

/* Crashes the host at random moments, with threads at work. */
static void
check_crashes(enum xk_mode mode)
{
	struct xk_sim_costs costs = { .thread_switch_ns = 5000, .frame_in_ns = 1000, .stack_switch_ns = 300 };
	struct lab lab;

	lab_make(&lab, 1, &lab_wire);
	for (unsigned i = 0; i < 2; i++) {
		lab_add(&lab, mode, 2, &costs)->set = "udptest.timeout=5ms";
		CHECK_EQ(xk_sim_boot(lab.machines[i].host), 0);
	}
	for (unsigned i = 1; i <= 50; i++)
		CHECK_EQ(xk_sim_at(lab.sim, i * 777777, crash_and_boot, &lab.machines[1]), 0);
	lab_udptest(&lab, &lab.machines[0], 1, 8000, 500);
	CHECK_EQ(lab.machines[0].result.error, 0);
	CHECK_EQ(lab.machines[0].result.rounds, 500);
	CHECK(lab.machines[0].result.lost > 0);
	CHECK_EQ(xk_sim_host_boots(lab.machines[1].host), 51);
	CHECK_EQ(xk_sim_free(lab.sim), 0);
}

TEST_OF(crash_at_any_moment_leaks_nothing_ipp, check_crashes(XK_IPP));
TEST_OF(crash_at_any_moment_leaks_nothing_regular, check_crashes(XK_REGULAR));

/* ---- a seed determines the run ---- */

static uint64_t
hash_of(uint64_t seed, enum xk_mode mode)
{
	struct sim_link_config config = lab_wire;
	struct xk_sim_costs costs = { .interrupt_ns = 700, .thread_switch_ns = 5000 };
	struct sim_link_counts counts;
	struct lab lab;
	uint64_t hash;

	config.loss = config.duplicate = config.corrupt = config.reorder = SIM_ALWAYS / 20;
	config.reorder_ns = 100000;
	lab_make(&lab, seed, &config);
	for (unsigned i = 0; i < 3; i++) {
		lab_add(&lab, mode, 2, &costs)->set = "udptest.timeout=5ms";
		CHECK_EQ(xk_sim_boot(lab.machines[i].host), 0);
	}
	lab_udptest(&lab, &lab.machines[0], 1, 5000, 200);
	lab_udptest(&lab, &lab.machines[2], 1, 100, 200);
	CHECK_EQ(lab.machines[0].result.bad + lab.machines[2].result.bad, 0);
	xk_sim_link_counts(lab.link, &counts);
	CHECK(counts.loss > 0 && counts.duplicate > 0 && counts.corrupt > 0 && counts.reorder > 0);
	hash = xk_sim_hash(lab.sim);
	CHECK_EQ(xk_sim_free(lab.sim), 0);
	return hash;
}

TEST(same_seed_gives_the_same_run)
{
	CHECK_EQ(hash_of(7, XK_IPP), hash_of(7, XK_IPP));
	CHECK_EQ(hash_of(7, XK_REGULAR), hash_of(7, XK_REGULAR));
	CHECK(hash_of(7, XK_IPP) != hash_of(8, XK_IPP));
}

/* For every machine and compiler: the numbers change only with the frames sent and their times. */
TEST(seed_gives_the_same_run_everywhere)
{
	CHECK_EQ(hash_of(7, XK_IPP), UINT64_C(0xbdbedb5fb69deeda));
	CHECK_EQ(hash_of(7, XK_REGULAR), UINT64_C(0x5b7ea827c4416e88));
}
