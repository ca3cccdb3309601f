/* test_sim_crashes.c - simulated hosts that fail to boot, crash or have no room for frames. */
#include "tests/platform/lent.h"
#include "tests/platform/stage.h"

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

/* ---- boots that fail, and crashes ---- */

static void
act_boot_fails(void *context)
{
	CHECK_EQ(xk_sim_boot(((struct man *)context)->host), -EIO);
}

MAN_TEST(failed_boot_leaves_the_host_down, stage_two(stage, XK_IPP, &stage_free, do_note))
{
	man->boot_fails = true;
	CHECK_EQ(xk_sim_boot(man->host), -EIO);
	man->boot_fails = false;
	man->boot_fails_late = true;
	CHECK_EQ(xk_sim_boot(man->host), -EIO);
	man->config.mode = XK_REGULAR;
	REQUIRE(xk_sim_at(stage->sim, MS, act_boot_fails, man) == 0);
	xk_sim_run(stage->sim, 2 * MS);
	CHECK(!xk_sim_is_up(man->host));
	CHECK(xk_sim_kernel(man->host) == NULL);
	CHECK_EQ(xk_sim_crash(man->host), 0);
	man->boot_fails_late = false;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	CHECK_EQ(xk_sim_host_boots(man->host), 4);
	stage_send(stage);
	xk_sim_run(stage->sim, SECOND);
	CHECK_STR(stage->notes, "come@2001000 ");
}

MAN_TEST(frames_are_received_while_a_boot_waits,
	 stage_two(stage, XK_IPP, &(struct xk_sim_costs){ .frame_in_ns = 10, .stack_start_ns = 100 }, do_note))
{
	man->boot_wait_us = 250;
	stage_send_at(stage, 100 * US);
	CHECK_EQ(xk_sim_boot(man->host), 0);
	CHECK_EQ(xk_sim_now_ns(stage->sim), 250 * US);
	CHECK_STR(stage->notes, "come@101110 ");
}

TEST(host_without_a_boot_function_stays_down)
{
	struct xk_sim *sim = xk_sim_new(1);
	struct xk_sim_host *host = xk_sim_host_new(sim, &(struct xk_sim_host_config){ .name = "stone" });

	CHECK_EQ(xk_sim_boot(host), -EIO);
	CHECK(!xk_sim_is_up(host));
	CHECK_EQ(xk_sim_free(sim), 0);
}

/* Sends the host `frames` frames at 1 ms, crashes it at crash_ns and boots it again in the same instant. */
static void
check_crash(enum xk_mode mode, bool marked, unsigned frames, uint64_t crash_ns,
	    void (*act)(struct top *top, struct xk_session *lls, struct xk_msg *m), const char *notes)
{
	struct xk_sim_costs costs = { .thread_switch_ns = 2000, .stack_switch_ns = 100 };
	struct stage stage;
	struct man *man = stage_two(&stage, mode, &costs, act);

	man->marked = marked;
	man_works(man, 10 * US, 3);
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

TEST_OF(host_may_crash_while_its_driver_works,
	check_crash(XK_IPP, false, 1, MS + 5 * US, do_work, "begin@1001000 end@1005000 "));

TEST(host_may_crash_while_a_thread_works_and_others_queue)
{
	check_crash(XK_REGULAR, false, 2, MS + 14 * US, do_work,
		    "begin@1003000 end@1014000 begin@1014000 end@1014000 ");
	check_crash(XK_IPP, true, 2, MS + 14 * US, do_work, "begin@1003200 end@1014000 begin@1014000 end@1014000 ");
}

TEST(host_may_crash_while_shepherds_wait)
{
	check_crash(XK_IPP, false, 3, MS + 100 * US, do_delay,
		    "wait@1001000 wait@1001100 wait@1001200 cancelled@1100000 cancelled@1100000 cancelled@1100000 ");
	check_crash(XK_REGULAR, false, 1, MS + 100 * US, do_delay, "wait@1003000 cancelled@1100000 ");
}

TEST_OF(host_may_crash_with_messages_not_yet_begun,
	check_crash(XK_REGULAR, false, 4, MS + 2 * US, do_note,
		    "come@1002000 come@1002000 come@1002000 come@1002000 "));

static _Atomic unsigned loans_ended;

/* Lends bytes, sends them and keeps them while it waits. */
static void
do_lend(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	const struct man *man = top->argument;
	struct xk_msg *lent = xk_msg_lend(m->platform, "words", 5, lent_ended, &loans_ended);

	xk_msg_free(m);
	REQUIRE(lent != NULL);
	xk_push(lls, xk_msg_reference(lent));
	xk_delay(&top->protocol, man->wait_us);
	CHECK_EQ(loans_ended, 0);
	xk_msg_free(lent);
}

TEST(crash_ends_loans_to_the_host)
{
	struct sim_link_config slow = stage_wire;
	struct stage stage;
	struct man *man;

	loans_ended = 0;
	slow.rate = 160 * 1000;
	stage_open(&stage, &slow);
	CHECK_EQ(xk_sim_boot(stage_add(&stage, XK_IPP, &stage_free, 0, do_nothing)->host), 0);
	man = stage_add(&stage, XK_IPP, &stage_free, 0, do_lend);
	man->wait_us = 1000000;
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(&stage, MS);
	REQUIRE(xk_sim_at(stage.sim, 50 * MS, act_crash, man) == 0);
	xk_sim_run(stage.sim, 60 * MS);
	CHECK_EQ(loans_ended, 1);
	stage_close(&stage);
	CHECK_EQ(loans_ended, 1);
}

/* Frames waiting for the link or at a full device are lost with the host. */
TEST(host_may_crash_with_frames_waiting_for_the_link)
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

	/* The device of a crashed host accepts every frame. */
	while (man->times++ < 5000 && xk_now_ns(&man->top->protocol) < 2 * MS) {
		struct xk_msg *m = xk_msg_from(xk_sim_platform(man->host), bytes, sizeof(bytes));

		if (m != NULL)
			(void)xk_push(man->top->session, m);
	}
	top_note(man->top, "end");
}

/* Crashes a host whose threads wait at a full device: they must end though no room appears and no time passes. */
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
	CHECK(man->times > 100 && man->times < 4000);
	CHECK_EQ(xk_sim_crash(man->host), 0);
	CHECK_STR(stage.notes, "end@1000000 end@1000000 ");
	stage_close(&stage);
}

TEST(host_may_crash_while_threads_wait_for_the_link)
{
	check_crash_at_full_link(XK_IPP);
	check_crash_at_full_link(XK_REGULAR);
}

/* ---- losses by name ---- */

static void
do_keep(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	const struct man *man = top->argument;

	xk_delay(&top->protocol, man->wait_us);
	xk_msg_free(m);
}

/* Checks that a host without buffers loses frames by name and continues once it has some again. */
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
	stage_play(&stage, man, 10, 300 * US);
	CHECK_EQ(man_counts(man).frames_in, 3);
	CHECK_EQ(man_counts(man).no_buffer, 7);
	CHECK_EQ(atomic_load(&man->top->handled), 3);
	stage_close(&stage);
}

TEST(host_without_buffers_loses_frames_by_name_and_recovers)
{
	check_buffers(XK_IPP);
	check_buffers(XK_REGULAR);
}

MAN_TEST(busy_host_loses_frames_that_overflow_its_device, stage_two(stage, XK_IPP, &stage_free, do_work))
{
	man_works(man, 10 * MS, 1);
	CHECK_EQ(xk_sim_boot(man->host), 0);
	stage_send_at(stage, MS);
	xk_sim_run(stage->sim, 2 * MS);
	man->top->act = do_nothing;
	for (unsigned i = 0; i < 1030; i++)
		stage_send(stage);
	xk_sim_run(stage->sim, SECOND);
	CHECK_EQ(man_counts(man).full, 6);
	CHECK_EQ(man_counts(man).frames_in, 1025);
	CHECK_EQ(man_counts(&stage->men[0]).frames_out, 1031);
}
