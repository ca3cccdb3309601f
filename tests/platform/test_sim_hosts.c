/* test_sim_hosts.c - simulated hosts to the nanosecond: alarms, work, handoffs, waits, events. */
#include "tests/platform/stage.h"

/* ---- time ---- */

struct alarm_list {
	struct xk_sim *sim;
	uint64_t last_ns, seed;
	unsigned fired, made, last_number;
};

struct alarm {
	struct alarm_list *list;
	uint64_t at_ns;
	unsigned number; /* in the order in which they were set */
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
	/* near, far, at the same time, in the same microsecond */
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

TEST(alarms_fire_in_order_and_on_time)
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

TEST(run_ends_at_its_time_or_on_its_condition)
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
	xk_sim_run(list.sim, 500); /* time does not go back */
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

TEST_IN(past_alarms_fire_now, struct stage, stage, stage_open(stage, &stage_wire), stage_close)
{
	xk_sim_run(stage->sim, SECOND);
	REQUIRE(xk_sim_at(stage->sim, 5, act_note, stage) == 0);
	xk_sim_run(stage->sim, 2 * SECOND);
	CHECK_STR(stage->notes, "act@1000000000 ");
}

MAN_TEST(time_ends_at_its_last_nanosecond, stage_two(stage, XK_IPP, &stage_free, do_note))
{
	CHECK_EQ(xk_sim_boot(man->host), 0);
	xk_sim_run(stage->sim, UINT64_MAX - 1);
	CHECK_EQ(xk_sim_now_ns(stage->sim), UINT64_MAX - 1);
	stage_send(stage);
	xk_sim_run(stage->sim, UINT64_MAX);
	CHECK_STR(stage->notes, "come@18446744073709551615 ");
}

/* ---- work ---- */

MAN_TEST(work_in_the_driver_is_not_interrupted,
	 stage_two(stage, XK_IPP, &(struct xk_sim_costs){ .interrupt_ns = 100, .frame_in_ns = 10 }, do_work))
{
	man_works(man, 10 * US, 1);
	stage_play(stage, man, 3, US);
	/* The two that arrived meanwhile are received together, without another interrupt. */
	CHECK_STR(stage->notes, "begin@1001110 end@1011110 begin@1011130 end@1021130 begin@1021130 end@1031130 ");
	CHECK_EQ(man_counts(man).busy_ns, 100 + 3 * 10 + 30 * US);
	CHECK_EQ(man_counts(man).thread_switches, 0);
}

MAN_TEST(work_in_a_thread_is_interrupted_by_frames,
	 stage_two(stage, XK_REGULAR,
		   &(struct xk_sim_costs){ .interrupt_ns = 100, .frame_in_ns = 10, .thread_switch_ns = 1000 }, do_work))
{
	man_works(man, 10 * US, 1);
	stage_play(stage, man, 3, 4 * US);
	/* Interrupt and switch; two more interrupts while it works; then the one thread takes what is queued. */
	CHECK_STR(stage->notes, "begin@1002110 end@1012330 begin@1012330 end@1022330 begin@1022330 end@1032330 ");
	CHECK_EQ(man_counts(man).busy_ns, 3 * 110 + 1000 + 30 * US);
	CHECK_EQ(man_counts(man).thread_switches, 1);
}

MAN_TEST(threads_share_one_processor, stage_two(stage, XK_REGULAR, &stage_free, do_work))
{
	man->config.threads = 2;
	man_works(man, 10 * US, 1);
	stage_play(stage, man, 2, 0);
	CHECK_STR(stage->notes, "begin@1001000 end@1011000 begin@1011000 end@1021000 ");
	CHECK_EQ(man_counts(man).thread_switches, 2);
}

MAN_TEST(explicit_handoff_costs_a_stack_and_a_thread_switch,
	 stage_two(stage, XK_IPP,
		   &(struct xk_sim_costs){ .stack_start_ns = 30, .stack_switch_ns = 200, .thread_switch_ns = 1000 },
		   do_work))
{
	man->marked = true;
	man_works(man, 10 * US, 1);
	stage_play(stage, man, 2, 4 * US);
	/* The second is handed off while the first works, which costs the first 230 ns. */
	CHECK_STR(stage->notes, "begin@1002230 end@1012460 begin@1012460 end@1022460 ");
	CHECK_EQ(man_stats(man).handoffs[XK_HANDOFF_EXPLICIT], 2);
	CHECK_EQ(man_counts(man).thread_switches, 1);
}

MAN_TEST(budget_hands_long_work_to_a_thread,
	 stage_two(stage, XK_IPP, &(struct xk_sim_costs){ .stack_switch_ns = 200, .thread_switch_ns = 1000 }, do_work))
{
	man->budget_ns = 15 * US;
	man_works(man, 10 * US, 4);
	stage_play(stage, man, 1, 0);
	/* 20 us in the driver, where the second check finds the budget spent, then 20 us in a thread. */
	CHECK_STR(stage->notes, "begin@1001000 end@1042200 ");
	CHECK_EQ(man_stats(man).handoffs[XK_HANDOFF_TIME], 1);
	CHECK_EQ(man_stats(man).overruns, 0);
	CHECK_EQ(man_counts(man).thread_switches, 1);
}

MAN_TEST(unspent_budget_is_carried_to_the_next_message, stage_two(stage, XK_IPP, &stage_free, do_work))
{
	man->budget_ns = 15 * US;
	man->carry = 1;
	man_works(man, 10 * US, 1);
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(stage, MS);
	xk_sim_run(stage->sim, 2 * MS);
	man->times = 2;
	stage_send_at(stage, 3 * MS);
	xk_sim_run(stage->sim, 4 * MS);
	CHECK_EQ(man_stats(man).handoffs[XK_HANDOFF_TIME], 0);
	man->times = 3;
	stage_send_at(stage, 5 * MS);
	xk_sim_run(stage->sim, 6 * MS);
	CHECK_EQ(man_stats(man).handoffs[XK_HANDOFF_TIME], 1);
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
	stage_play(&stage, man, 1, 0);
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

TEST(waiting_shepherd_in_ipp_mode_is_resumed_per_policy)
{
	check_delay(XK_IPP, true, "wait@1001100 done@1051100 ", 0);
	check_delay(XK_IPP, false, "wait@1001100 done@1052100 ", 1);
}

TEST(waiting_shepherd_in_regular_mode_blocks_its_thread)
{
	/*
	 * Switches: the message's thread, the event thread for setting and for handling the timeout, the first again.
	 */
	check_delay(XK_REGULAR, false, "wait@1002100 done@1054000 ", 4);
	check_delay(XK_REGULAR, true, "wait@1002100 done@1054000 ", 4);
}

MAN_TEST(implicit_fail_never_waits, stage_two(stage, XK_IPP, &stage_free, do_delay))
{
	man->implicit = XK_IMPLICIT_FAIL;
	man->wait_us = 50;
	stage_play(stage, man, 1, 0);
	CHECK_STR(stage->notes, "wait@1001000 failed@1001000 ");
}

MAN_TEST(wait_without_a_stack_fails_by_name, stage_two(stage, XK_IPP, &stage_free, do_delay))
{
	man->config.stacks = 2;
	man->wait_us = 50;
	stage_play(stage, man, 2, 0);
	CHECK_STR(stage->notes, "wait@1001000 wait@1001000 failed@1001000 done@1051000 ");
	CHECK_EQ(man_stats(man).no_stack, 1);
}

MAN_TEST(sixty_four_threads_wait_concurrently, stage_two(stage, XK_REGULAR, &stage_free, do_delay))
{
	man->config.threads = 64;
	man->wait_us = 1000;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	man->top->act = do_delay;
	stage->noted = 0;
	for (unsigned i = 0; i < 10; i++)
		stage_send_at(stage, MS);
	xk_sim_run(stage->sim, MS + 1001 * US);
	CHECK_EQ(atomic_load(&man->top->handled), 10);
	stage->noted = 0;
	for (unsigned i = 10; i < 74; i++)
		stage_send(stage);
	xk_sim_run(stage->sim, xk_sim_now_ns(stage->sim) + US);
	CHECK_EQ(atomic_load(&man->top->handled), 10);
	CHECK_EQ(man_stats(man).stalled, 0);
	stage->noted = 0;
	xk_sim_run(stage->sim, xk_sim_now_ns(stage->sim) + 1000 * US);
	CHECK_EQ(atomic_load(&man->top->handled), 74);
}

MAN_TEST(stalled_regular_mode_is_reported_and_recovers, stage_two(stage, XK_REGULAR, &stage_free, do_delay))
{
	FILE *report = tmpfile();
	char line[200] = "";

	REQUIRE(report != NULL);
	man->config.trace = report;
	man->wait_us = 2500000;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(stage, MS);
	stage_send_at(stage, MS);
	xk_sim_run(stage->sim, 1 * SECOND);
	CHECK_EQ(man_stats(man).stalled, 0);
	xk_sim_run(stage->sim, 10 * SECOND);
	CHECK_EQ(man_stats(man).stalled, 2);
	CHECK_STR(stage->notes, "wait@1001000 done@2501001000 wait@2501001000 done@5001001000 ");
	rewind(report);
	CHECK(fgets(line, sizeof(line), report) != NULL && strstr(line, "stalled: all 1 input threads wait") != NULL);
	fclose(report);
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

TEST(waiting_event_delays_no_other_event)
{
	check_events(XK_IPP);
	check_events(XK_REGULAR);
}

/* Works and schedules itself again at once, like a polling event. */
static void
fire_again(struct xk_event *event, void *argument)
{
	struct man *man = argument;

	xk_work(&man->top->protocol, 5 * US);
	if (--man->times > 0)
		xk_event_schedule(event, 0);
}

static void
check_polling(enum xk_mode mode)
{
	struct stage stage;
	struct man *man = stage_two(&stage, mode, &stage_free, do_nothing);

	CHECK_EQ(xk_sim_boot(man->host), 0);
	xk_event_init(&man->events[0], xk_sim_kernel(man->host), fire_again, man);
	man->times = 100;
	xk_event_schedule(&man->events[0], 10);
	for (unsigned i = 0; i < 3; i++)
		stage_send_at(&stage, (100 + 50 * i) * US);
	xk_sim_run(stage.sim, 220 * US);
	CHECK_EQ(atomic_load(&man->top->handled), 3);
	CHECK(man->times > 0);
	xk_sim_run(stage.sim, SECOND);
	CHECK_EQ(man->times, 0);
	stage_close(&stage);
}

TEST(event_due_again_at_once_starves_no_message)
{
	check_polling(XK_IPP);
	check_polling(XK_REGULAR);
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

/* The thread that runs the world belongs to no host. */
MAN_TEST(program_waits_by_running_the_world, stage_two(stage, XK_IPP, &stage_free, do_nothing))
{
	CHECK_EQ(xk_sim_boot(man->host), 0);
	xk_sim_run(stage->sim, MS);
	CHECK_EQ(xk_delay(&man->top->protocol, 250), 0);
	CHECK_EQ(xk_sim_now_ns(stage->sim), MS + 250 * US);
	CHECK_EQ(xk_semaphore_wait(&man->top->never, 100), -ETIMEDOUT);
	CHECK_EQ(xk_sim_now_ns(stage->sim), MS + 350 * US);
	CHECK_EQ(man_stats(man).foreign_waits, 2);
}

/* ---- modes ---- */

MAN_TEST(running_host_may_change_its_mode, stage_two(stage, XK_IPP, &stage_free, do_note))
{
	unsigned before;

	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(stage, MS);
	xk_sim_run(stage->sim, 2 * MS);
	CHECK_EQ(man_counts(man).thread_switches, 0);
	CHECK_EQ(xk_kernel_reconfigure(xk_sim_kernel(man->host), XK_REGULAR, 3), 0);
	before = (unsigned)man_counts(man).thread_switches;
	stage_send(stage);
	xk_sim_run(stage->sim, xk_sim_now_ns(stage->sim) + MS);
	CHECK_EQ(man_counts(man).thread_switches, before + 1);
	CHECK_EQ(xk_kernel_reconfigure(xk_sim_kernel(man->host), XK_IPP, 1), 0);
	before = (unsigned)man_counts(man).thread_switches;
	stage_send(stage);
	xk_sim_run(stage->sim, xk_sim_now_ns(stage->sim) + MS);
	CHECK_EQ(man_counts(man).thread_switches, before);
	CHECK_EQ(atomic_load(&man->top->handled), 3);
}
