/*
 * test_bid_reboots.c - BID while hosts reboot, are lost and are found again: messages delivered and changes reported.
 */
#include <errno.h>

#include "tests/protocols/bid_rig.h"

/* ---- reboots ---- */

STAGE_TEST(bid_reports_a_new_boot_before_its_messages, stage_open(s, false))
{
	struct xk_session *session = open_it(s);

	rig_advance_ms(s->r, 10);
	inject(s, packet(s, BOOT_B, "new"));
	inject(s, packet(s, BOOT_B, "new"));
	rig_expect_nothing_delivered(s->r);
	CHECK_EQ(counted(s, "unconfirmed"), 2);
	inject(s, packet(s, BOOT_A, "old")); /* still confirmed */
	expect_delivered(s, "old");
	answer(s, BOOT_B);
	expect_notified(s, "reboot:b:0 ");
	inject(s, packet(s, BOOT_B, "new"));
	expect_delivered(s, "new");
	CHECK(rig_delivered_session(s->r) == session);
	CHECK_EQ(push(s, session, "to the new boot"), 0);
	expect_sent(s, BOOT_B, "to the new boot");
	rig_advance_ms(s->r, 10);
	inject(s, packet(s, BOOT_A, "old"));
	rig_expect_nothing_delivered(s->r);
	rig_forget(s->r);
}

/* An unknown boot id: a forgery or a flipped bit. */
STAGE_TEST(bid_verifies_an_unknown_boot_id, stage_open(s, false))
{
	open_it(s);
	rig_advance_ms(s->r, 10);
	inject(s, packet(s, BOOT_B, "lie"));
	answer(s, BOOT_A);
	expect_notified(s, "");
	inject(s, packet(s, BOOT_A, "truth"));
	expect_delivered(s, "truth");
	CHECK_EQ(counted(s, "told"), 1);
}

STAGE_TEST(bid_corrects_a_sender_that_means_a_former_boot, stage_open(s, true))
{
	struct packet p = packet(s, BOOT_A, "late");

	p.destination ^= 1;
	inject(s, p);
	rig_expect_nothing_delivered(s->r);
	CHECK_EQ(counted(s, "old_destination"), 1);
	expect_sent(s, BOOT_A, "");
	p.destination = 0;
	for (unsigned i = 0; i < 100; i++)
		inject(s, p);
	rig_expect_nothing_sent(s->r);
	CHECK_EQ(counted(s, "limited"), 100);
	rig_advance_ms(s->r, 101);
	inject(s, p);
	expect_sent(s, BOOT_A, "");
	CHECK_EQ(counted(s, "answers"), 2);
	rig_expect_nothing_sent(s->r); /* BIDCTL did not ask: one answer is enough */
	p.payload = "";
	rig_advance_ms(s->r, 101);
	inject(s, p); /* an answer draws no answer */
	rig_expect_nothing_sent(s->r);
}

/* The other half: an answer from a new boot makes BIDCTL send a query. */
STAGE_TEST(bid_learns_from_an_answer, stage_open(s, false))
{
	struct xk_session *session = open_it(s);

	rig_advance_ms(s->r, 10);
	CHECK_EQ(push(s, session, "to the old boot"), 0);
	expect_sent(s, BOOT_A, "to the old boot");
	inject(s, packet(s, BOOT_B, ""));
	CHECK_EQ(counted(s, "unconfirmed"), 1);
	answer(s, BOOT_B);
	expect_notified(s, "reboot:b:0 ");
	CHECK_EQ(push(s, session, "to the new boot"), 0);
	expect_sent(s, BOOT_B, "to the new boot");
	inject(s, packet(s, BOOT_B, ""));
	CHECK_EQ(counted(s, "empty"), 1);
	rig_expect_nothing_delivered(s->r);
}

STAGE_TEST(bid_finds_a_lost_host_again, stage_open(s, false))
{
	struct xk_session *session = open_it(s);

	rig_advance_ms(s->r, 10);
	inject(s, packet(s, BOOT_B, "strange"));
	rig_advance_ms(s->r, 1000);
	expect_notified(s, "lost:0:0 ");
	rig_forget(s->r);
	inject(s, packet(s, BOOT_A, "x"));
	CHECK_EQ(counted(s, "unconfirmed"), 2);
	rig_expect_nothing_delivered(s->r);
	rig_advance_ms(s->r, 1000);
	rig_forget(s->r);
	CHECK_EQ(push(s, session, "x"), -EHOSTUNREACH);
	CHECK_EQ(counted(s, "unknown_peer"), 1);
	answer(s, BOOT_A);
	expect_notified(s, "first:a:0 ");
	CHECK_EQ(push(s, session, "y"), 0);
	expect_sent(s, BOOT_A, "y");
}

STAGE_TEST(bid_opens_a_lost_host_again, stage_open(s, false))
{
	struct xk_session *session = open_it(s);

	rig_advance_ms(s->r, 10);
	inject(s, packet(s, BOOT_B, "strange"));
	rig_advance_ms(s->r, 1000);
	rig_forget(s->r);
	CHECK(rig_open(s->r, rig_to(HOST)) == NULL);
	answer(s, BOOT_B);
	CHECK(rig_opened_session(s->r) == session);
	CHECK_EQ(push(s, session, "y"), 0);
	expect_sent(s, BOOT_B, "y");
	rig_advance_ms(s->r, 10);
	inject(s, packet(s, BOOT_A, "strange"));
	rig_advance_ms(s->r, 1000);
	rig_forget(s->r);
	CHECK(rig_open(s->r, rig_to(HOST)) == NULL);
	rig_advance_ms(s->r, 1000);
	CHECK_EQ(rig_opened_session(s->r) == NULL, true);
	CHECK_EQ(rig_error(s->r), -EHOSTUNREACH);
	rig_forget(s->r);
}

/* ---- the boot a message is from, and the boot it is for ---- */

struct bearing {
	struct xk_session *session;
	uint64_t boot;
	int status;
};

static void
do_push_for_boot(void *argument)
{
	struct bearing *b = argument;
	struct xk_msg *m = xk_msg_from(xk_platform_of(b->session->protocol), "x", 1);

	xk_msg_annotate(m, XK_OF_MESSAGE, XK_FOR_BOOT, b->boot);
	b->status = xk_push(b->session, m);
}

STAGE_TEST(bid_sends_a_boots_messages_to_no_other_boot, stage_open(s, false))
{
	struct bearing b = { .boot = BOOT_A };

	b.session = open_it(s);
	CHECK(rig_do(s->r, do_push_for_boot, &b));
	CHECK_EQ(b.status, 0);
	expect_sent(s, BOOT_A, "x");
	rig_advance_ms(s->r, 10);
	inject(s, packet(s, BOOT_B, "new"));
	answer(s, BOOT_B);
	CHECK(rig_do(s->r, do_push_for_boot, &b));
	CHECK_EQ(b.status, -ECONNRESET);
	CHECK_EQ(counted(s, "over"), 1);
	rig_expect_nothing_sent(s->r);
	b.boot = BOOT_B;
	CHECK(rig_do(s->r, do_push_for_boot, &b));
	CHECK_EQ(b.status, 0);
	expect_sent(s, BOOT_B, "x");
}
