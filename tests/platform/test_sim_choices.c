/* test_sim_choices.c - worlds whose choices are made from outside: frames' fates, crashes, order, buffers. */
#include "tests/platform/stage.h"

/* Makes one choice other than the usual one. */
struct chooser {
	struct xk_sim_choice choice; /* host is not compared */
	uint64_t option;
	unsigned made;
};

static uint64_t
choose(void *context, const struct xk_sim_choice *choice)
{
	struct chooser *chooser = context;

	if (choice->kind != chooser->choice.kind || choice->number != chooser->choice.number ||
	    choice->place != chooser->choice.place)
		return 0;
	chooser->made++;
	return chooser->option;
}

static void
note_record(void *context, const struct xk_sim_record *record)
{
	struct stage *stage = context;
	static const char *const names[] = { [XK_SIM_ARRIVED] = "arrived",
					     [XK_SIM_LOST] = "lost",
					     [XK_SIM_BOOTED] = "booted",
					     [XK_SIM_CRASHED] = "crashed" };
	char what[64];

	if (record->event == XK_SIM_SENT)
		return;
	snprintf(what, sizeof(what), "%s%s%s%s", names[record->event], record->frame == NULL ? "" : "-",
		 record->why == NULL ? "" : record->why, record->frame == NULL ? "" : ":");
	if (record->frame != NULL)
		snprintf(what + strlen(what), sizeof(what) - strlen(what), "%" PRIu64, record->number);
	stage_note(stage, what, record->at_ns);
}

/* Sends a frame at 1 and one at 2 ms, with one unusual choice. */
static void
check_chosen(struct chooser chooser, const char *notes)
{
	struct stage stage;
	struct man *man = stage_two(&stage, XK_IPP, &stage_free, do_nothing);

	CHECK_EQ(xk_sim_boot(man->host), 0);
	xk_sim_run(stage.sim, MS / 2);
	xk_sim_watch(stage.sim, note_record, &stage);
	xk_sim_choose(stage.sim, false, choose, &chooser);
	if (chooser.choice.kind != XK_SIM_FRAME)
		chooser.choice.number += xk_sim_events(stage.sim);
	stage_send_at(&stage, MS);
	stage_send_at(&stage, 2 * MS);
	xk_sim_run(stage.sim, SECOND);
	xk_sim_watch(stage.sim, NULL, NULL);
	CHECK_EQ(chooser.made, 1);
	CHECK_STR(stage.notes, notes);
	stage_close(&stage);
}

TEST(frames_have_the_fate_that_is_chosen)
{
	struct chooser chooser = { .choice = { XK_SIM_FRAME, .number = 1 } };

	check_chosen(chooser, "arrived-:1@1001000 arrived-:2@2001000 ");
	chooser.option = XK_SIM_LOSE;
	check_chosen(chooser, "lost-loss:1@1000000 arrived-:2@2001000 ");
	chooser.option = XK_SIM_DOUBLE;
	check_chosen(chooser, "arrived-:1@1001000 arrived-duplicate:1@1001000 arrived-:2@2001000 ");
	chooser.option = XK_SIM_DAMAGE;
	check_chosen(chooser, "arrived-corrupt:1@1001000 arrived-:2@2001000 ");
	chooser.option = XK_SIM_DELAY;
	check_chosen(chooser, "arrived-:2@2001000 arrived-reorder:1@2001000 ");
	chooser.choice.number = 2;
	check_chosen(chooser, "arrived-:1@1001000 arrived-reorder:2@2001000 ");
}

TEST(host_crashes_before_an_event_of_its_own)
{
	/* events: the sending at 1 ms, the arrival */
	struct chooser chooser = { .choice = { XK_SIM_CRASH, .number = 2 }, .option = 1 };

	check_chosen(chooser, "crashed@1001000 booted@1001000 arrived-:1@1001000 arrived-:2@2001000 ");
}

/* ---- order ---- */

static void
note_a(void *context)
{
	stage_note(context, "a", 0);
}

static void
note_b(void *context)
{
	stage_note(context, "b", 0);
}

static void
note_c(void *context)
{
	stage_note(context, "c", 0);
}

TEST(events_of_one_moment_have_the_order_that_is_chosen)
{
	static const char *const notes[] = { "a@0 b@0 c@0 ", "b@0 a@0 c@0 ", "c@0 a@0 b@0 " };

	for (unsigned place = 0; place < 3; place++) {
		struct chooser chooser = { .choice = { XK_SIM_ORDER, .place = place, .number = 1 }, .option = 1 };
		struct stage stage;

		stage_open(&stage, &stage_wire);
		xk_sim_choose(stage.sim, false, choose, &chooser);
		REQUIRE(xk_sim_at(stage.sim, MS, note_a, &stage) == 0);
		REQUIRE(xk_sim_at(stage.sim, MS, note_b, &stage) == 0);
		REQUIRE(xk_sim_at(stage.sim, MS, note_c, &stage) == 0);
		xk_sim_run(stage.sim, SECOND);
		CHECK_EQ(chooser.made, place == 0 ? 0 : 1);
		CHECK_STR(stage.notes, notes[place]);
		CHECK_EQ(xk_sim_events(stage.sim), 3);
		stage_close(&stage);
	}
}

static void
send_from_second(void *context)
{
	struct stage *stage = context;
	uint8_t bytes[FRAME] = { OP_ACT };
	struct man *man = &stage->men[1];

	CHECK_EQ(xk_push(man->top->session, xk_msg_from(xk_sim_platform(man->host), bytes, sizeof(bytes))), 0);
}

/* Two frames cross between two hosts, which get them at one moment. Returns the number of choices of order. */
static unsigned
orders_of_crossing_frames(enum sim_link_kind kind, unsigned hosts, bool all)
{
	struct sim_link_config config = stage_wire;
	struct chooser chooser = { .choice = { XK_SIM_ORDER, .place = 1 }, .option = 0 };
	struct stage stage;
	unsigned made = 0;

	/* by number, until none is left */
	for (uint64_t number = 1; number < 12; number++) {
		chooser.choice.number = number;
		chooser.made = 0;
		config.kind = kind;
		stage_open(&stage, &config);
		for (unsigned i = 0; i < hosts; i++)
			CHECK_EQ(xk_sim_boot(stage_add(&stage, XK_IPP, &stage_free, 0, do_nothing)->host), 0);
		xk_sim_run(stage.sim, MS / 2);
		chooser.choice.number += xk_sim_events(stage.sim) + 2; /* behind both sendings */
		xk_sim_choose(stage.sim, all, choose, &chooser);
		stage_send_at(&stage, MS);
		REQUIRE(xk_sim_at(stage.sim, MS, send_from_second, &stage) == 0);
		xk_sim_run(stage.sim, SECOND);
		made += chooser.made;
		stage_close(&stage);
	}
	return made;
}

TEST(order_is_chosen_only_where_it_may_matter)
{
	CHECK_EQ(orders_of_crossing_frames(SIM_LINK_WIRE, 2, false), 0);
	CHECK(orders_of_crossing_frames(SIM_LINK_WIRE, 2, true) > 0);
	CHECK(orders_of_crossing_frames(SIM_LINK_SHARED, 3, false) > 0);
}

/* ---- buffers ---- */

MAN_TEST(host_gets_no_buffer_if_that_is_chosen, stage_two(stage, XK_IPP, &stage_free, do_nothing))
{
	struct chooser chooser = { .choice = { XK_SIM_BUFFER, .number = 2 }, .option = 1 };
	struct xk_platform *platform = xk_sim_platform(man->host);

	xk_sim_choose(stage->sim, false, choose, &chooser);
	for (unsigned i = 1; i <= 3; i++) {
		struct xk_msg *m = xk_msg_new(platform, FRAME);

		CHECK_EQ(m == NULL, i == 2);
		xk_msg_free(m);
	}
	CHECK_EQ(chooser.made, 1);
}

/* ---- timers ---- */

static void
note_timer(struct xk_event *event, void *argument)
{
	const struct man *man = argument;

	top_note(man->top, event == &man->events[0] ? "first" : "second");
}

MAN_TEST(timers_of_one_time_fire_in_the_order_that_is_chosen, stage_two(stage, XK_IPP, &stage_free, do_nothing))
{
	struct chooser chooser = { .choice = { XK_SIM_TIMER, .number = 2, .place = 1 }, .option = 1 };

	CHECK_EQ(xk_sim_boot(man->host), 0);
	for (unsigned i = 0; i < 2; i++)
		xk_event_init(&man->events[i], xk_sim_kernel(man->host), note_timer, man);
	xk_sim_choose(stage->sim, false, choose, &chooser);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t begin_us = xk_sim_now_ns(stage->sim) / US;

		stage->noted = 0;
		xk_event_schedule(&man->events[0], 1000);
		xk_event_schedule(&man->events[1], 1000);
		xk_sim_run(stage->sim, (begin_us + 2000) * US);
		CHECK_EQ(strncmp(stage->notes, i == 0 ? "first" : "second", 5), 0);
		CHECK_EQ(chooser.made, i);
	}
}
