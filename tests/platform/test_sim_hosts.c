/*
 * test_sim_hosts.c - what simulated hosts do to the nanosecond: work, handoffs, waits and crashes, with toy protocols
 * whose messages run a function of the test. Frames go to every other host.
 */
#include "platform/sim/sim.h"
#include "tests/xkernel/toy.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define SECOND (1000 * MS)

enum { MEN = 3, FRAME = 20, NOTES = 900 };

/* A host of the test, and what its messages do. */
struct man {
	struct stage *stage;
	struct xk_sim_host *host;
	struct xk_kernel_config config;
	uint64_t budget_ns;
	unsigned carry;
	bool marked; /* explicit handoff below top */
	bool driver_resumes;
	enum xk_implicit implicit;
	bool refuses;   /* its boot makes no kernel */
	bool hesitates; /* ... or one that has been started, and is freed again */
	void (*act)(struct top *top, struct xk_session *lls, struct xk_msg *m);
	struct top *top; /* of this boot */
	struct xk_event events[2];
	uint64_t work_ns, wait_us;
	unsigned times;
};

struct stage {
	struct xk_sim *sim;
	struct xk_sim_link *link;
	struct man men[MEN];
	unsigned count;
	char notes[NOTES]; /* what happened, and when: "begin@1000 end@2000 " */
	size_t noted;
};

static const struct sim_link_config stage_wire = {
	.kind = "switch", .rate = 0, .latency_ns = 500, .mtu = 1500, .queue = 2000
};

static const struct xk_sim_costs stage_free = { 0 };

static void
stage_note(struct stage *stage, const char *what, uint64_t at_ns)
{
	int len = snprintf(stage->notes + stage->noted, NOTES - stage->noted, "%s@%" PRIu64 " ", what, at_ns);

	REQUIRE(len > 0 && stage->noted + (size_t)len < NOTES);
	stage->noted += (size_t)len;
}

/* By the clock of whoever asks. */
static void
top_note(struct top *top, const char *what)
{
	stage_note(((struct man *)top->argument)->stage, what, xk_now_ns(&top->protocol));
}

static struct xk_kernel *
man_boot(void *context, struct xk_sim_host *host)
{
	struct man *man = context;
	struct xk_protocol *wire, *failed;
	struct xk_kernel *kernel;
	struct xk_edge *edge;

	if (man->refuses)
		return NULL;
	man->config.name = xk_sim_host_name(host);
	man->config.platform = xk_sim_platform(host);
	kernel = xk_kernel_new(&man->config);
	REQUIRE(kernel != NULL);
	xk_kernel_add_port(kernel, xk_sim_port_new(host, 0));
	wire = xk_kernel_add_protocol(kernel, &wire_type, "wire");
	man->top = (struct top *)xk_kernel_add_protocol(kernel, &top_type, "top");
	edge = xk_kernel_add_edge(kernel, &man->top->protocol, wire, NULL);
	if (man->marked)
		atomic_fetch_or(&edge->watch, XK_WATCH_EXPLICIT);
	man->top->protocol.resume = man->driver_resumes ? XK_RESUME_DRIVER : XK_RESUME_THREAD;
	man->top->protocol.implicit = man->implicit;
	man->top->act = man->act;
	man->top->argument = man;
	xk_kernel_set_budget(kernel, man->budget_ns, man->carry);
	REQUIRE(xk_kernel_init(kernel, &failed) == 0);
	REQUIRE(xk_kernel_start(kernel) == 0);
	if (!man->hesitates)
		return kernel;
	xk_kernel_free(kernel);
	return NULL;
}

static void
stage_open(struct stage *stage, const struct sim_link_config *config)
{
	*stage = (struct stage){ .sim = xk_sim_new(1) };
	REQUIRE(stage->sim != NULL);
	stage->link = xk_sim_link_new(stage->sim, "lan", config);
	REQUIRE(stage->link != NULL);
}

static struct man *
stage_add(struct stage *stage, enum xk_mode mode, const struct xk_sim_costs *costs, unsigned buffers,
	  void (*act)(struct top *top, struct xk_session *lls, struct xk_msg *m))
{
	struct man *man = &stage->men[stage->count];
	const char name[] = { (char)('a' + stage->count), '\0' };

	*man = (struct man){ .stage = stage,
			     .config = { .mode = mode, .driver = XK_DRIVER_INTERRUPT, .stacks = 8, .core = -1 },
			     .act = act };
	man->host = xk_sim_host_new(
		stage->sim,
		&(struct xk_sim_host_config){
			.name = name, .costs = *costs, .boot = man_boot, .context = man, .buffers = buffers });
	REQUIRE(man->host != NULL);
	REQUIRE(xk_sim_attach(man->host, "port", stage->link, 0x020000000001 + stage->count++) == 0);
	return man;
}

/* The second of two hosts, whose messages do act; it and the first, which only sends, are up. */
static struct man *
stage_two(struct stage *stage, enum xk_mode mode, const struct xk_sim_costs *costs,
	  void (*act)(struct top *top, struct xk_session *lls, struct xk_msg *m))
{
	struct man *man;

	stage_open(stage, &stage_wire);
	CHECK_EQ(xk_sim_boot(stage_add(stage, XK_IPP, &stage_free, 0, act)->host), 0);
	man = stage_add(stage, mode, costs, 0, act);
	return man;
}

static void
stage_close(struct stage *stage)
{
	CHECK_EQ(xk_sim_free(stage->sim), 0);
}

/* A frame from the first host, now: it is at the others a microsecond later. */
static void
stage_send(struct stage *stage)
{
	struct man *man = &stage->men[0];
	uint8_t bytes[FRAME] = { OP_ACT };
	struct xk_msg *m = xk_msg_from(xk_sim_platform(man->host), bytes, sizeof(bytes));

	REQUIRE(m != NULL);
	CHECK_EQ(xk_push(man->top->session, m), 0);
}

static void
act_send(void *context)
{
	stage_send(context);
}

static void
stage_send_at(struct stage *stage, uint64_t at_ns)
{
	REQUIRE(xk_sim_at(stage->sim, at_ns, act_send, stage) == 0);
}

static void
act_crash(void *context)
{
	CHECK_EQ(xk_sim_crash(((struct man *)context)->host), 0);
}

static void
act_boot(void *context)
{
	CHECK_EQ(xk_sim_boot(((struct man *)context)->host), 0);
}

static struct xk_kernel_stats
man_stats(struct man *man)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(xk_sim_kernel(man->host), &stats);
	return stats;
}

static struct xk_sim_host_counts
man_counts(struct man *man)
{
	struct xk_sim_host_counts counts;

	xk_sim_host_counts(man->host, &counts);
	return counts;
}

/* ---- what messages do ---- */

static void
do_nothing(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	(void)top;
	(void)lls;
	xk_msg_free(m);
}

static void
do_note(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	(void)lls;
	xk_msg_free(m);
	top_note(top, "come");
}

static void
do_work(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	const struct man *man = top->argument;

	(void)lls;
	xk_msg_free(m);
	top_note(top, "begin");
	for (unsigned i = 0; i < man->times; i++) {
		xk_work(&top->protocol, man->work_ns);
		xk_checkpoint(&top->protocol);
	}
	top_note(top, "end");
}

static void
do_delay(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	const struct man *man = top->argument;
	int result;

	(void)lls;
	top_note(top, "wait");
	result = xk_delay(&top->protocol, man->wait_us);
	xk_msg_free(m);
	top_note(top, result == 0 ? "done" : result == -ECANCELED ? "cancelled" : "failed");
}

/* ---- time ---- */

struct alarm_list {
	struct xk_sim *sim;
	uint64_t last_ns, seed;
	unsigned fired, made, last_number;
};

struct alarm {
	struct alarm_list *list;
	uint64_t at_ns;
	unsigned number; /* in the order of their setting */
};

enum { ALARMS = 20000 };

static void alarm_set(struct alarm_list *list, uint64_t at_ns);

static uint64_t
alarm_draw(struct alarm_list *list)
{
	list->seed = list->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return list->seed >> 33;
}

static void
alarm_fire(void *context)
{
	struct alarm *alarm = context;
	struct alarm_list *list = alarm->list;
	uint64_t now_ns = xk_sim_now_ns(list->sim);

	CHECK_EQ(now_ns, alarm->at_ns);
	CHECK(now_ns > list->last_ns || (now_ns == list->last_ns && alarm->number > list->last_number));
	list->last_ns = now_ns;
	list->last_number = alarm->number;
	list->fired++;
	free(alarm);
	/* near, far, in the same moment, in the same microsecond */
	for (unsigned i = 0; i < 2 && list->made < ALARMS; i++) {
		static const uint64_t spans[] = { 1, 40, 1024, 100000, 4194304, 4300000, 100000000, 3600000000000 };

		alarm_set(list, now_ns + alarm_draw(list) % spans[alarm_draw(list) % XK_ARRAY_LENGTH(spans)]);
	}
}

static void
alarm_set(struct alarm_list *list, uint64_t at_ns)
{
	struct alarm *alarm = malloc(sizeof(*alarm));

	REQUIRE(alarm != NULL);
	*alarm = (struct alarm){ list, at_ns, ++list->made };
	REQUIRE(xk_sim_at(list->sim, at_ns, alarm_fire, alarm) == 0);
}

TEST(what_is_set_happens_in_order_and_at_its_time)
{
	struct alarm_list list = { .sim = xk_sim_new(1), .seed = 7 };

	for (unsigned i = 0; i < 50; i++)
		alarm_set(&list, alarm_draw(&list) % 10000000);
	xk_sim_run(list.sim, UINT64_MAX);
	CHECK_EQ(list.fired, ALARMS);
	CHECK_EQ(xk_sim_now_ns(list.sim), list.last_ns);
	CHECK_EQ(xk_sim_free(list.sim), 0);
}

static bool
has_not_fired(void *context)
{
	return ((struct alarm_list *)context)->fired == 0;
}

TEST(a_run_ends_at_its_time_or_when_it_is_told_to)
{
	struct alarm_list list = { .sim = xk_sim_new(1), .made = ALARMS };

	xk_sim_run(list.sim, 1000);
	CHECK_EQ(xk_sim_now_ns(list.sim), 1000);
	alarm_set(&list, 2000);
	alarm_set(&list, 3000);
	CHECK(!xk_sim_run_while(list.sim, 1999, has_not_fired, &list));
	CHECK_EQ(xk_sim_now_ns(list.sim), 1999);
	CHECK(xk_sim_run_while(list.sim, 5000, has_not_fired, &list));
	CHECK_EQ(xk_sim_now_ns(list.sim), 2000);
	xk_sim_run(list.sim, 500); /* what is over stays over */
	CHECK_EQ(xk_sim_now_ns(list.sim), 2000);
	CHECK_EQ(list.fired, 1);
	xk_sim_run(list.sim, UINT64_MAX);
	CHECK_EQ(list.fired, 2);
	CHECK_EQ(xk_sim_now_ns(list.sim), 3000);
	CHECK_EQ(xk_sim_free(list.sim), 0);
}

static void
act_note(void *context)
{
	stage_note(context, "act", xk_sim_now_ns(((struct stage *)context)->sim));
}

TEST(what_is_set_for_the_past_happens_now)
{
	struct stage stage;

	stage_open(&stage, &stage_wire);
	xk_sim_run(stage.sim, SECOND);
	REQUIRE(xk_sim_at(stage.sim, 5, act_note, &stage) == 0);
	xk_sim_run(stage.sim, 2 * SECOND);
	CHECK_STR(stage.notes, "act@1000000000 ");
	stage_close(&stage);
}

TEST(time_ends_at_its_last_nanosecond)
{
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_note);

	CHECK_EQ(xk_sim_boot(man->host), 0);
	xk_sim_run(stage.sim, UINT64_MAX - 1);
	CHECK_EQ(xk_sim_now_ns(stage.sim), UINT64_MAX - 1);
	stage_send(&stage);
	xk_sim_run(stage.sim, UINT64_MAX);
	CHECK_STR(stage.notes, "come@18446744073709551615 ");
	stage_close(&stage);
}

/* ---- work ---- */

TEST(work_in_the_driver_is_not_interrupted)
{
	struct xk_sim_costs costs = { .interrupt_ns = 100, .frame_in_ns = 10 };
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &costs, do_work);

	man->work_ns = 10 * US;
	man->times = 1;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	for (unsigned i = 0; i < 3; i++)
		stage_send_at(&stage, MS + i * US);
	xk_sim_run(stage.sim, SECOND);
	/* The two that came meanwhile are taken together, without another interrupt. */
	CHECK_STR(stage.notes, "begin@1001110 end@1011110 begin@1011130 end@1021130 begin@1021130 end@1031130 ");
	CHECK_EQ(man_counts(man).busy_ns, 100 + 3 * 10 + 30 * US);
	CHECK_EQ(man_counts(man).thread_switches, 0);
	stage_close(&stage);
}

TEST(work_in_a_thread_is_interrupted_by_frames)
{
	struct xk_sim_costs costs = { .interrupt_ns = 100, .frame_in_ns = 10, .thread_switch_ns = 1000 };
	struct stage stage;
	struct man *man = stage_two(&stage, XK_REGULAR, &costs, do_work);

	man->work_ns = 10 * US;
	man->times = 1;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	for (unsigned i = 0; i < 3; i++)
		stage_send_at(&stage, MS + i * 4 * US);
	xk_sim_run(stage.sim, SECOND);
	/* Interrupt and switch; two more interrupts while it works; then the one thread takes what is queued. */
	CHECK_STR(stage.notes, "begin@1002110 end@1012330 begin@1012330 end@1022330 begin@1022330 end@1032330 ");
	CHECK_EQ(man_counts(man).busy_ns, 3 * 110 + 1000 + 30 * US);
	CHECK_EQ(man_counts(man).thread_switches, 1);
	stage_close(&stage);
}

TEST(threads_share_one_processor)
{
	struct stage stage;
	struct man *man = stage_two(&stage, XK_REGULAR, &stage_free, do_work);

	man->config.threads = 2;
	man->work_ns = 10 * US;
	man->times = 1;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(&stage, MS);
	stage_send_at(&stage, MS);
	xk_sim_run(stage.sim, SECOND);
	CHECK_STR(stage.notes, "begin@1001000 end@1011000 begin@1011000 end@1021000 ");
	CHECK_EQ(man_counts(man).thread_switches, 2);
	stage_close(&stage);
}

TEST(an_explicit_handoff_costs_a_stack_and_a_thread_switch)
{
	struct xk_sim_costs costs = { .stack_start_ns = 30, .stack_switch_ns = 200, .thread_switch_ns = 1000 };
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &costs, do_work);

	man->marked = true;
	man->work_ns = 10 * US;
	man->times = 1;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(&stage, MS);
	stage_send_at(&stage, MS + 4 * US);
	xk_sim_run(stage.sim, SECOND);
	/* The second is handed off while the first works: 230 ns that the first loses. */
	CHECK_STR(stage.notes, "begin@1002230 end@1012460 begin@1012460 end@1022460 ");
	CHECK_EQ(man_stats(man).handoffs[XK_HANDOFF_EXPLICIT], 2);
	CHECK_EQ(man_counts(man).thread_switches, 1);
	stage_close(&stage);
}

TEST(a_budget_ends_the_drivers_part_of_the_work)
{
	struct xk_sim_costs costs = { .stack_switch_ns = 200, .thread_switch_ns = 1000 };
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &costs, do_work);

	man->budget_ns = 15 * US;
	man->work_ns = 10 * US;
	man->times = 4;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(&stage, MS);
	xk_sim_run(stage.sim, SECOND);
	/* 20 us in the driver, where the second check finds the budget spent, then 20 us in a thread. */
	CHECK_STR(stage.notes, "begin@1001000 end@1042200 ");
	CHECK_EQ(man_stats(man).handoffs[XK_HANDOFF_TIME], 1);
	CHECK_EQ(man_stats(man).overruns, 0);
	CHECK_EQ(man_counts(man).thread_switches, 1);
	stage_close(&stage);
}

TEST(unspent_budget_is_carried_to_the_next_message)
{
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_work);

	man->budget_ns = 15 * US;
	man->carry = 1;
	man->work_ns = 10 * US;
	man->times = 1;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(&stage, MS);
	xk_sim_run(stage.sim, 2 * MS);
	man->times = 2;
	stage_send_at(&stage, 3 * MS);
	xk_sim_run(stage.sim, 4 * MS);
	CHECK_EQ(man_stats(man).handoffs[XK_HANDOFF_TIME], 0);
	man->times = 3;
	stage_send_at(&stage, 5 * MS);
	xk_sim_run(stage.sim, 6 * MS);
	CHECK_EQ(man_stats(man).handoffs[XK_HANDOFF_TIME], 1);
	stage_close(&stage);
}

/* ---- waits ---- */

static void
check_delay(enum xk_mode mode, bool driver_resumes, const char *notes, unsigned thread_switches)
{
	struct xk_sim_costs costs = { .interrupt_ns = 100, .stack_switch_ns = 200, .thread_switch_ns = 1000 };
	struct stage stage;
	struct man *man = stage_two(&stage, mode, &costs, do_delay);
	struct xk_kernel_stats stats;

	man->driver_resumes = driver_resumes;
	man->wait_us = 50;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(&stage, MS);
	xk_sim_run(stage.sim, SECOND);
	CHECK_STR(stage.notes, notes);
	CHECK_EQ(man_counts(man).thread_switches, thread_switches);
	stats = man_stats(man);
	CHECK_EQ(stats.parks, mode == XK_IPP);
	CHECK_EQ(stats.handoffs[XK_HANDOFF_IMPLICIT], mode == XK_IPP);
	CHECK_EQ(stats.resumes_driver, mode == XK_IPP && driver_resumes);
	CHECK_EQ(stats.resumes_thread, mode == XK_IPP && !driver_resumes);
	CHECK_EQ(stats.stacks_parked, 0);
	stage_close(&stage);
}

TEST(who_waits_in_ipp_mode_is_resumed_as_the_graph_says)
{
	check_delay(XK_IPP, true, "wait@1001100 done@1051100 ", 0);
	check_delay(XK_IPP, false, "wait@1001100 done@1052100 ", 1);
}

TEST(who_waits_in_regular_mode_blocks_its_thread)
{
	/* The message's thread, the event thread to hear of the time-out and to see to it, and the first one again. */
	check_delay(XK_REGULAR, false, "wait@1002100 done@1054000 ", 4);
	check_delay(XK_REGULAR, true, "wait@1002100 done@1054000 ", 4);
}

TEST(implicit_fail_waits_for_nothing)
{
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_delay);

	man->implicit = XK_IMPLICIT_FAIL;
	man->wait_us = 50;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(&stage, MS);
	xk_sim_run(stage.sim, SECOND);
	CHECK_STR(stage.notes, "wait@1001000 failed@1001000 ");
	stage_close(&stage);
}

TEST(without_a_stack_a_wait_fails_by_name)
{
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_delay);

	man->config.stacks = 2;
	man->wait_us = 50;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(&stage, MS);
	stage_send_at(&stage, MS);
	xk_sim_run(stage.sim, SECOND);
	CHECK_STR(stage.notes, "wait@1001000 wait@1001000 failed@1001000 done@1051000 ");
	CHECK_EQ(man_stats(man).no_stack, 1);
	stage_close(&stage);
}

TEST(sixty_four_threads_wait_at_the_same_time)
{
	struct stage stage;
	struct man *man = stage_two(&stage, XK_REGULAR, &stage_free, do_delay);

	man->config.threads = 64;
	man->wait_us = 1000;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	man->top->act = do_delay;
	stage.noted = 0;
	for (unsigned i = 0; i < 10; i++)
		stage_send_at(&stage, MS);
	xk_sim_run(stage.sim, MS + 1001 * US);
	CHECK_EQ(atomic_load(&man->top->handled), 10);
	stage.noted = 0;
	for (unsigned i = 10; i < 74; i++)
		stage_send(&stage);
	xk_sim_run(stage.sim, xk_sim_now_ns(stage.sim) + US);
	CHECK_EQ(atomic_load(&man->top->handled), 10);
	CHECK_EQ(man_stats(man).stalled, 0);
	stage.noted = 0;
	xk_sim_run(stage.sim, xk_sim_now_ns(stage.sim) + 1000 * US);
	CHECK_EQ(atomic_load(&man->top->handled), 74);
	stage_close(&stage);
}

TEST(stalled_regular_mode_is_told_and_goes_on)
{
	struct stage stage;
	struct man *man = stage_two(&stage, XK_REGULAR, &stage_free, do_delay);
	FILE *said = tmpfile();
	char line[200] = "";

	REQUIRE(said != NULL);
	man->config.trace = said;
	man->wait_us = 2500000;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(&stage, MS);
	stage_send_at(&stage, MS);
	xk_sim_run(stage.sim, 1 * SECOND);
	CHECK_EQ(man_stats(man).stalled, 0);
	xk_sim_run(stage.sim, 10 * SECOND);
	CHECK_EQ(man_stats(man).stalled, 2);
	CHECK_STR(stage.notes, "wait@1001000 done@2501001000 wait@2501001000 done@5001001000 ");
	rewind(said);
	CHECK(fgets(line, sizeof(line), said) != NULL && strstr(line, "stalled: all 1 input threads wait") != NULL);
	fclose(said);
	stage_close(&stage);
}

/* ---- events and application code ---- */

static void
fire_and_wait(struct xk_event *event, void *argument)
{
	struct man *man = argument;

	top_note(man->top, event == &man->events[0] ? "first" : "second");
	if (event == &man->events[0])
		CHECK_EQ(xk_delay(&man->top->protocol, 100), 0);
	top_note(man->top, "over");
}

static void
check_events(enum xk_mode mode)
{
	struct stage stage;
	struct man *man = stage_two(&stage, mode, &stage_free, do_nothing);

	CHECK_EQ(xk_sim_boot(man->host), 0);
	for (unsigned i = 0; i < 2; i++) {
		xk_event_init(&man->events[i], xk_sim_kernel(man->host), fire_and_wait, man);
		xk_event_schedule(&man->events[i], 10 + 5 * i);
	}
	xk_sim_run(stage.sim, SECOND);
	CHECK_STR(stage.notes, "first@10000 second@15000 over@15000 over@110000 ");
	stage_close(&stage);
}

TEST(an_event_that_waits_keeps_no_other_from_its_time)
{
	check_events(XK_IPP);
	check_events(XK_REGULAR);
}

static void
application(void *argument)
{
	struct man *man = argument;
	struct top *top = man->top;

	top_note(top, "start");
	while (xk_delay(&top->protocol, man->wait_us) == 0) {
		xk_work(&top->protocol, man->work_ns);
		top_note(top, "turn");
	}
	top_note(top, "cancelled");
}

static void
check_application(enum xk_mode mode)
{
	struct stage stage;
	struct man *man = stage_two(&stage, mode, &stage_free, do_nothing);

	man->wait_us = 100;
	man->work_ns = 30 * US;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	CHECK_EQ(xk_thread_start(xk_sim_kernel(man->host), "application", application, man), 0);
	xk_sim_run(stage.sim, 270 * US);
	CHECK_STR(stage.notes, "start@0 turn@130000 turn@260000 ");
	CHECK_EQ(xk_sim_crash(man->host), 0);
	CHECK_STR(stage.notes, "start@0 turn@130000 turn@260000 cancelled@270000 ");
	stage_close(&stage);
}

TEST(application_code_runs_on_virtual_time_and_ends_with_its_host)
{
	check_application(XK_IPP);
	check_application(XK_REGULAR);
}

/* The thread that runs the world is none of the host's. */
TEST(a_program_waits_by_running_the_world)
{
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_nothing);

	CHECK_EQ(xk_sim_boot(man->host), 0);
	xk_sim_run(stage.sim, MS);
	CHECK_EQ(xk_delay(&man->top->protocol, 250), 0);
	CHECK_EQ(xk_sim_now_ns(stage.sim), MS + 250 * US);
	CHECK_EQ(xk_semaphore_wait(&man->top->never, 100), -ETIMEDOUT);
	CHECK_EQ(xk_sim_now_ns(stage.sim), MS + 350 * US);
	CHECK_EQ(man_stats(man).foreign_waits, 2);
	stage_close(&stage);
}

/* ---- modes ---- */

TEST(a_running_host_changes_its_mode)
{
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_note);
	unsigned before;

	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(&stage, MS);
	xk_sim_run(stage.sim, 2 * MS);
	CHECK_EQ(man_counts(man).thread_switches, 0);
	CHECK_EQ(xk_kernel_reconfigure(xk_sim_kernel(man->host), XK_REGULAR, 3), 0);
	before = (unsigned)man_counts(man).thread_switches;
	stage_send(&stage);
	xk_sim_run(stage.sim, xk_sim_now_ns(stage.sim) + MS);
	CHECK_EQ(man_counts(man).thread_switches, before + 1);
	CHECK_EQ(xk_kernel_reconfigure(xk_sim_kernel(man->host), XK_IPP, 1), 0);
	before = (unsigned)man_counts(man).thread_switches;
	stage_send(&stage);
	xk_sim_run(stage.sim, xk_sim_now_ns(stage.sim) + MS);
	CHECK_EQ(man_counts(man).thread_switches, before);
	CHECK_EQ(atomic_load(&man->top->handled), 3);
	stage_close(&stage);
}

/* ---- boots that fail, and crashes ---- */

static void
act_boot_in_vain(void *context)
{
	CHECK_EQ(xk_sim_boot(((struct man *)context)->host), -EIO);
}

TEST(a_boot_that_fails_leaves_the_host_down)
{
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_note);

	man->refuses = true;
	CHECK_EQ(xk_sim_boot(man->host), -EIO);
	man->refuses = false;
	man->hesitates = true;
	CHECK_EQ(xk_sim_boot(man->host), -EIO);
	man->config.mode = XK_REGULAR;
	REQUIRE(xk_sim_at(stage.sim, MS, act_boot_in_vain, man) == 0);
	xk_sim_run(stage.sim, 2 * MS);
	CHECK(!xk_sim_is_up(man->host));
	CHECK(xk_sim_kernel(man->host) == NULL);
	CHECK_EQ(xk_sim_crash(man->host), 0);
	man->hesitates = false;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	CHECK_EQ(xk_sim_host_boots(man->host), 4);
	stage_send(&stage);
	xk_sim_run(stage.sim, SECOND);
	CHECK_STR(stage.notes, "come@2001000 ");
	stage_close(&stage);
}

TEST(a_host_without_a_boot_stays_down)
{
	struct xk_sim *sim = xk_sim_new(1);
	struct xk_sim_host *host = xk_sim_host_new(sim, &(struct xk_sim_host_config){ .name = "stone" });

	CHECK_EQ(xk_sim_boot(host), -EIO);
	CHECK(!xk_sim_is_up(host));
	CHECK_EQ(xk_sim_free(sim), 0);
}

/* At 1 ms the host gets so many frames; it crashes at crash_ns, and is booted again in the same instant. */
static void
check_crash(enum xk_mode mode, bool marked, unsigned frames, uint64_t crash_ns,
	    void (*act)(struct top *top, struct xk_session *lls, struct xk_msg *m), const char *notes)
{
	struct xk_sim_costs costs = { .thread_switch_ns = 2000, .stack_switch_ns = 100 };
	struct stage stage;
	struct man *man = stage_two(&stage, mode, &costs, act);

	man->marked = marked;
	man->work_ns = 10 * US;
	man->times = 3;
	man->wait_us = 500;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	for (unsigned i = 0; i < frames; i++)
		stage_send_at(&stage, MS);
	REQUIRE(xk_sim_at(stage.sim, crash_ns, act_crash, man) == 0);
	REQUIRE(xk_sim_at(stage.sim, crash_ns, act_boot, man) == 0);
	xk_sim_run(stage.sim, 10 * MS);
	CHECK_STR(stage.notes, notes);
	stage.noted = 0;
	stage.notes[0] = '\0';
	man->top->act = do_note;
	stage_send(&stage);
	xk_sim_run(stage.sim, SECOND);
	CHECK_EQ(atomic_load(&man->top->handled), 1);
	stage_close(&stage);
}

TEST(a_host_crashes_while_its_driver_works)
{
	check_crash(XK_IPP, false, 1, MS + 5 * US, do_work, "begin@1001000 end@1005000 ");
}

TEST(a_host_crashes_while_a_thread_works_and_others_queue)
{
	check_crash(XK_REGULAR, false, 2, MS + 14 * US, do_work,
		    "begin@1003000 end@1014000 begin@1014000 end@1014000 ");
	check_crash(XK_IPP, true, 2, MS + 14 * US, do_work, "begin@1003200 end@1014000 begin@1014000 end@1014000 ");
}

TEST(a_host_crashes_while_shepherds_wait)
{
	check_crash(XK_IPP, false, 3, MS + 100 * US, do_delay,
		    "wait@1001000 wait@1001100 wait@1001200 cancelled@1100000 cancelled@1100000 cancelled@1100000 ");
	check_crash(XK_REGULAR, false, 1, MS + 100 * US, do_delay, "wait@1003000 cancelled@1100000 ");
}

TEST(a_host_crashes_with_messages_that_nobody_has_begun)
{
	check_crash(XK_REGULAR, false, 4, MS + 2 * US, do_note, "come@1002000 come@1002000 come@1002000 come@1002000 ");
}

/* What waits for the link, and at a full device, goes with the host. */
TEST(a_host_crashes_with_frames_that_wait_for_the_link)
{
	struct sim_link_config slow = stage_wire;
	struct sim_link_counts counts;
	struct stage stage;
	struct man *man;

	slow.rate = 160 * 1000;
	slow.queue = 20;
	stage_open(&stage, &slow);
	for (unsigned i = 0; i < 2; i++) {
		man = stage_add(&stage, XK_IPP, &stage_free, 0, do_note);
		CHECK_EQ(xk_sim_boot(man->host), 0);
	}
	xk_sim_run(stage.sim, MS);
	for (unsigned i = 0; i < 50; i++)
		stage_send(&stage);
	xk_sim_run(stage.sim, 2 * MS + 1);
	xk_sim_link_counts(stage.link, &counts);
	CHECK_EQ(counts.sent, 22); /* the first, the queue, and one for the second that has begun */
	CHECK_EQ(xk_sim_crash(stage.men[0].host), 0);
	xk_sim_run(stage.sim, SECOND);
	xk_sim_link_counts(stage.link, &counts);
	CHECK_EQ(counts.sent, 22);
	CHECK_EQ(counts.delivered, 2);
	CHECK_EQ(counts.withdrawn, 20);
	CHECK_STR(stage.notes, "come@3001000 come@4001000 ");
	stage_close(&stage);
}

static void
push_for_ever(void *argument)
{
	struct man *man = argument;
	uint8_t bytes[FRAME] = { OP_ACT };

	/* Of a host that has crashed every frame is taken. */
	while (man->times++ < 5000 && xk_now_ns(&man->top->protocol) < 2 * MS) {
		struct xk_msg *m = xk_msg_from(xk_sim_platform(man->host), bytes, sizeof(bytes));

		if (m != NULL)
			(void)xk_push(man->top->session, m);
	}
	top_note(man->top, "end");
}

/* Threads that wait for room at a full device when the host crashes: no room will come, and no time pass. */
static void
check_crash_at_full_link(enum xk_mode mode)
{
	struct sim_link_config slow = stage_wire;
	struct stage stage;
	struct man *man;

	slow.rate = 160 * 1000;
	slow.queue = 1;
	stage_open(&stage, &slow);
	man = stage_add(&stage, mode, &stage_free, 0, do_nothing);
	man->config.threads = 2;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(xk_thread_start(xk_sim_kernel(man->host), "pushes", push_for_ever, man), 0);
	xk_sim_run(stage.sim, MS);
	CHECK(man->times > 100 && man->times < 1000);
	CHECK_EQ(xk_sim_crash(man->host), 0);
	CHECK_STR(stage.notes, "end@1000000 end@1000000 ");
	stage_close(&stage);
}

TEST(a_host_crashes_while_threads_wait_for_the_link)
{
	check_crash_at_full_link(XK_IPP);
	check_crash_at_full_link(XK_REGULAR);
}

/* ---- losses by name ---- */

static void
do_keep(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	const struct man *man = top->argument;

	(void)lls;
	xk_delay(&top->protocol, man->wait_us);
	xk_msg_free(m);
}

/* A host without buffers loses frames by name, lets time pass, and goes on when it has some again. */
static void
check_buffers(enum xk_mode mode)
{
	struct stage stage;
	struct man *man;

	stage_open(&stage, &stage_wire);
	CHECK_EQ(xk_sim_boot(stage_add(&stage, XK_IPP, &stage_free, 0, do_nothing)->host), 0);
	man = stage_add(&stage, mode, &stage_free, 1, do_keep);
	man->config.threads = 4;
	man->wait_us = 1000;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	for (unsigned i = 0; i < 10; i++)
		stage_send_at(&stage, MS + i * 300 * US);
	xk_sim_run(stage.sim, SECOND);
	CHECK_EQ(man_counts(man).frames_in, 3);
	CHECK_EQ(man_counts(man).no_buffer, 7);
	CHECK_EQ(atomic_load(&man->top->handled), 3);
	stage_close(&stage);
}

TEST(a_host_without_buffers_loses_frames_by_name_and_goes_on)
{
	check_buffers(XK_IPP);
	check_buffers(XK_REGULAR);
}

TEST(a_busy_host_loses_what_its_device_cannot_hold)
{
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_work);

	man->work_ns = 10 * MS;
	man->times = 1;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(&stage, MS);
	xk_sim_run(stage.sim, 2 * MS);
	man->top->act = do_nothing;
	for (unsigned i = 0; i < 1030; i++)
		stage_send(&stage);
	xk_sim_run(stage.sim, SECOND);
	CHECK_EQ(man_counts(man).full, 6);
	CHECK_EQ(man_counts(man).frames_in, 1025);
	CHECK_EQ(man_counts(&stage.men[0]).frames_out, 1031);
	stage_close(&stage);
}

/* ---- watching ---- */

static const char *const seen_names[] = {
	[XK_SIM_SENT] = "sent",     [XK_SIM_ARRIVED] = "arrived", [XK_SIM_LOST] = "lost",
	[XK_SIM_BOOTED] = "booted", [XK_SIM_CRASHED] = "crashed",
};

/* "arrived-b-corrupt@2000 " */
static void
stage_see(void *context, const struct xk_sim_record *record)
{
	struct stage *stage = context;
	char what[64];

	CHECK_EQ(record->at_ns, xk_sim_now_ns(stage->sim));
	CHECK((record->link == stage->link) == (record->event <= XK_SIM_LOST));
	CHECK((record->frame != NULL) == (record->event <= XK_SIM_LOST));
	CHECK(record->frame == NULL || record->len == FRAME);
	snprintf(what, sizeof(what), "%s-%s%s%s", seen_names[record->event], xk_sim_host_name(record->host),
		 record->why == NULL ? "" : "-", record->why == NULL ? "" : record->why);
	stage_note(stage, what, record->at_ns);
}

static void
check_seen(void (*change)(struct sim_link_config *config), const char *seen)
{
	struct sim_link_config config = stage_wire;
	struct stage stage;

	change(&config);
	stage_open(&stage, &config);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(xk_sim_boot(stage_add(&stage, XK_IPP, &stage_free, 0, do_nothing)->host), 0);
	xk_sim_watch(stage.sim, stage_see, &stage);
	stage_send(&stage);
	xk_sim_run(stage.sim, MS);
	CHECK_EQ(xk_sim_crash(stage.men[1].host), 0);
	CHECK_EQ(xk_sim_boot(stage.men[1].host), 0);
	xk_sim_watch(stage.sim, NULL, NULL);
	CHECK_STR(stage.notes, seen);
	stage_close(&stage);
}

static void
change_nothing(struct sim_link_config *config)
{
	(void)config;
}

static void
change_loss(struct sim_link_config *config)
{
	config->loss = SIM_ALWAYS;
}

static void
change_corrupt(struct sim_link_config *config)
{
	config->corrupt = SIM_ALWAYS;
}

static void
change_duplicate(struct sim_link_config *config)
{
	config->duplicate = SIM_ALWAYS;
}

TEST(who_watches_sees_what_became_of_each_frame)
{
	check_seen(change_nothing, "sent-a@0 arrived-b@1000 crashed-b@1000000 booted-b@1000000 ");
	check_seen(change_loss, "sent-a@0 lost-b-loss@0 crashed-b@1000000 booted-b@1000000 ");
	check_seen(change_corrupt, "sent-a@0 arrived-b-corrupt@1000 crashed-b@1000000 booted-b@1000000 ");
	check_seen(change_duplicate,
		   "sent-a@0 arrived-b@1000 arrived-b-duplicate@1000 crashed-b@1000000 booted-b@1000000 ");
}

TEST(watching_changes_nothing)
{
	uint64_t hashes[2];

	for (unsigned i = 0; i < 2; i++) {
		struct stage stage;
		struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_nothing);

		CHECK_EQ(xk_sim_boot(man->host), 0);
		if (i == 1)
			xk_sim_watch(stage.sim, stage_see, &stage);
		stage_send(&stage);
		xk_sim_run(stage.sim, MS);
		hashes[i] = xk_sim_hash(stage.sim);
		xk_sim_watch(stage.sim, NULL, NULL);
		stage_close(&stage);
	}
	CHECK(hashes[0] == hashes[1]);
}

/* ---- links ---- */

TEST(a_device_is_cut_off_and_joined_again)
{
	struct sim_link_counts counts;
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_note);

	CHECK_EQ(xk_sim_boot(man->host), 0);
	for (unsigned i = 0; i < 4; i++) {
		xk_sim_cut(stage.men[0].host, 0, i == 0, i == 1);
		xk_sim_cut(man->host, 0, i == 1, i == 2);
		stage_send(&stage);
		xk_sim_run(stage.sim, (i + 1) * MS);
	}
	/* Neither what the sender hears nor what the receiver sends matters to it. */
	CHECK_STR(stage.notes, "come@1001000 come@3001000 ");
	xk_sim_link_counts(stage.link, &counts);
	CHECK_EQ(counts.cut, 2);
	CHECK_EQ(counts.delivered, 2);
	stage_close(&stage);
}

TEST(a_link_is_changed_while_it_is_used)
{
	struct sim_link_config config = stage_wire;
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_note);

	CHECK_EQ(xk_sim_boot(man->host), 0);
	config.loss = SIM_ALWAYS;
	xk_sim_link_change(stage.link, &config);
	CHECK(xk_sim_link_config(stage.link)->loss == SIM_ALWAYS);
	stage_send(&stage);
	config.loss = 0;
	config.latency_ns = 40 * US;
	xk_sim_link_change(stage.link, &config);
	stage_send(&stage);
	config.latency_ns = 0;
	xk_sim_link_change(stage.link, &config);
	stage_send(&stage);
	xk_sim_run(stage.sim, SECOND);
	/* The third is not faster than what is under way. */
	CHECK_STR(stage.notes, "come@80000 come@80000 ");
	stage_close(&stage);
}

/* Two hosts that answer each other at once, where nothing takes time: nothing but go_on ends that. */
static void
do_answer(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	((struct man *)top->argument)->times++;
	CHECK_EQ(xk_push(lls, m), 0);
}

static bool
is_not_tired(void *context)
{
	return ((struct man *)context)->times < 1000;
}

TEST(an_endless_instant_can_be_ended)
{
	struct sim_link_config ideal = sim_link_preset_find("ideal")->config;
	struct stage stage;

	stage_open(&stage, &ideal);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(xk_sim_boot(stage_add(&stage, i == 0 ? XK_IPP : XK_REGULAR, &stage_free, 0, do_answer)->host),
			 0);
	stage_send(&stage);
	CHECK(xk_sim_run_while(stage.sim, SECOND, is_not_tired, &stage.men[1]));
	CHECK_EQ(xk_sim_now_ns(stage.sim), 0);
	CHECK_EQ(stage.men[1].times, 1000);
	stage_close(&stage);
}

static struct xk_kernel *
boot_nothing(void *context, struct xk_sim_host *host)
{
	struct xk_port **ports = context;

	for (unsigned n = 0; n < 6; n++)
		ports[n] = xk_sim_port_new(host, n);
	return NULL;
}

TEST(a_host_has_up_to_four_devices_and_a_port_for_each)
{
	struct sim_link_config wire = stage_wire;
	struct xk_sim *sim = xk_sim_new(1);
	struct xk_port *ports[6];
	struct xk_sim_host *host = xk_sim_host_new(
		sim, &(struct xk_sim_host_config){ .name = "host", .boot = boot_nothing, .context = ports });
	struct xk_sim_host *other = xk_sim_host_new(sim, &(struct xk_sim_host_config){ .name = "other" });
	struct xk_sim_link *link;
	char name[8];

	wire.kind = "wire";
	CHECK_EQ(xk_sim_attach(host, "bad", xk_sim_link_new(sim, "bad", &wire), 0x010000000001), -EINVAL);
	for (unsigned n = 0; n < 4; n++) {
		snprintf(name, sizeof(name), "port%u", n);
		wire.mtu = 1000 + n;
		link = xk_sim_link_new(sim, name, &wire);
		CHECK_EQ(xk_sim_attach(host, name, link, 0x020000000001), 0);
		CHECK_EQ(xk_sim_attach(other, name, link, 0x020000000001), -EEXIST);
		CHECK_EQ(xk_sim_attach(other, name, link, 0x020000000002), 0);
		CHECK_EQ(xk_sim_attach(other, name, link, 0x020000000003), -ENOSPC); /* a wire has two ends */
	}
	CHECK_EQ(xk_sim_attach(host, "fifth", xk_sim_link_new(sim, "fifth", &wire), 0x020000000001), -ENOSPC);
	CHECK_EQ(xk_sim_boot(host), -EIO);
	for (unsigned n = 0; n < 4; n++) {
		snprintf(name, sizeof(name), "port%u", n);
		REQUIRE(ports[n] != NULL);
		CHECK_STR(ports[n]->name, name);
		CHECK_EQ(ports[n]->mtu, 1000 + n);
		CHECK(xk_sim_port_new(host, n) == NULL); /* it is given away */
		ports[n]->ops->close(ports[n]);
	}
	CHECK(ports[4] == NULL && ports[5] == NULL);
	CHECK(xk_sim_first_host(sim) == host && xk_sim_next_host(host) == other && xk_sim_next_host(other) == NULL);
	CHECK_EQ(xk_sim_host_number(other), 1);
	CHECK_STR(xk_sim_link_name(xk_sim_first_link(sim)), "bad");
	CHECK_EQ(xk_sim_free(sim), 0);
}

TEST(seeds_are_drawn_by_purpose)
{
	struct xk_sim *a = xk_sim_new(1), *b = xk_sim_new(1), *c = xk_sim_new(2);

	CHECK(xk_sim_seed(a, "x") == xk_sim_seed(b, "x"));
	CHECK(xk_sim_seed(a, "x") != xk_sim_seed(a, "y"));
	CHECK(xk_sim_seed(a, "x") != xk_sim_seed(c, "x"));
	xk_sim_free(a);
	xk_sim_free(b);
	xk_sim_free(c);
}
