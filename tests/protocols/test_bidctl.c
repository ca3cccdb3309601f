/* test_bidctl.c - BIDCTL's exchanges: first contact, reboots and losses, and the notifications of watchers. */
#include "tests/protocols/bidctl_rig.h"

/* ---- first contact ---- */

STAGE_TEST(bidctl_sends_a_query_and_notifies_uppers_first, stage_open(s, ""))
{
	struct confirming c;
	struct packet p;

	CHECK(!confirm(s, &c, HOST));
	CHECK_EQ(rig_wire_remote(s->r), HOST);
	p = sent(s);
	CHECK_EQ(p.flags, QUERY);
	CHECK_EQ(p.destination, 0);
	expect_notified(s, "");
	inject(s, response(s, BOOT_A, p.request));
	CHECK_EQ(c.status, 0);
	CHECK_EQ(c.boot, BOOT_A);
	expect_notified(s, "upper:first:a lower:first:a ");
	CHECK(confirm(s, &c, HOST)); /* known by now */
	CHECK_EQ(c.boot, BOOT_A);
	rig_expect_nothing_sent(s->r);
	CHECK_EQ(counted(s, "first_contacts"), 1);
}

STAGE_TEST(bidctl_answers_every_query_without_state, stage_open(s, ""))
{
	struct packet p;

	for (unsigned i = 0; i < 100; i++) {
		struct packet asked = query(BOOT_A, 7 + i);

		asked.host = HOST + i;
		inject(s, asked);
		p = sent(s);
		CHECK_EQ(p.flags, QUERY | RESPONSE);
		CHECK_EQ(p.reply, 7 + i);
		CHECK_EQ(p.destination, BOOT_A);
		rig_expect_nothing_sent(s->r);
	}
	CHECK_EQ(peers(s), 0);
	CHECK_EQ(counted(s, "responses_out"), 100);
	expect_notified(s, "");
	rig_forget(s->r);
}

/* Both open each other at once; each receives a query while its own is in flight. */
STAGE_TEST(bidctl_handles_simultaneous_queries, stage_open_asking(s, ""))
{
	inject(s, query(BOOT_A, 7));
	CHECK_EQ(sent(s).reply, 7);
	rig_expect_nothing_sent(s->r);
	expect_notified(s, "");
	inject(s, response(s, BOOT_A, s->tag));
	CHECK_EQ(s->asking.boot, BOOT_A);
	expect_notified(s, "upper:first:a lower:first:a ");
	rig_expect_nothing_sent(s->r);
}

STAGE_TEST(bidctl_accepts_an_answer_and_a_query_in_one_message, stage_open_asking(s, ""))
{
	struct packet both;

	both = response(s, BOOT_A, s->tag);
	both.flags = QUERY | RESPONSE;
	both.request = 99;
	inject(s, both);
	CHECK_EQ(s->asking.boot, BOOT_A);
	both = sent(s);
	CHECK_EQ(both.flags, RESPONSE);
	CHECK_EQ(both.reply, 99);
}

STAGE_TEST(bidctl_sends_one_query_and_wakes_all_waiters, stage_open(s, ""))
{
	struct confirming c[3];

	for (unsigned i = 0; i < 3; i++)
		CHECK(!confirm(s, &c[i], HOST));
	inject(s, response(s, BOOT_A, expect_query(s)));
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(c[i].boot, BOOT_A);
	CHECK_EQ(counted(s, "queries_out"), 1);
}

STAGE_TEST(bidctl_backs_off_its_queries,
	   stage_open_asking(s, "bidctl.timeout=100ms; bidctl.timeout_max=300ms; bidctl.retries=4;"))
{
	static const unsigned after_ms[] = { 100, 200, 300, 300 };

	for (unsigned i = 0; i < 4; i++) {
		rig_expect_silence_ms(s->r, after_ms[i] - 1);
		rig_advance_ms(s->r, 1);
		CHECK_EQ(expect_query(s), s->tag);
	}
	CHECK_EQ(counted(s, "retries"), 4);
	inject(s, response(s, BOOT_A, s->tag)); /* any of the tags is valid */
	CHECK_EQ(s->asking.boot, BOOT_A);
}

STAGE_TEST(bidctl_gives_up_a_silent_host,
	   stage_open(s, "bidctl.timeout=100ms; bidctl.timeout_max=100ms; bidctl.retries=2;"))
{
	struct confirming c[2];

	CHECK(!confirm(s, &c[0], HOST));
	CHECK(!confirm(s, &c[1], HOST));
	rig_advance_ms(s->r, 310);
	CHECK_EQ(c[0].status, -EHOSTUNREACH);
	CHECK_EQ(c[1].status, -EHOSTUNREACH);
	CHECK_EQ(rig_sent(s->r), 3);
	rig_forget(s->r);
	CHECK_EQ(counted(s, "unreachable"), 1);
	expect_notified(s, "");
	rig_advance_ms(s->r, 1000);
	CHECK_EQ(peers(s), 0);
	meet(s, BOOT_A); /* and a later confirmation sends a query again */
}

STAGE_TEST(bidctl_drops_duplicate_answers_and_old_tags, stage_open_asking(s, ""))
{
	uint64_t tag, old;

	old = s->tag;
	inject(s, response(s, BOOT_A, old));
	inject(s, response(s, BOOT_A, old));
	CHECK_EQ(counted(s, "unasked"), 1);
	rig_advance_ms(s->r, 300);
	tag = check_draws_query(s, HOST, BOOT_B);
	CHECK(tag != old);
	s->notified[0] = '\0';
	inject(s, response(s, BOOT_C, old));
	inject(s, response(s, BOOT_C, tag + 1));
	CHECK_EQ(counted(s, "unasked"), 3);
	expect_notified(s, "");
	inject(s, response(s, BOOT_B, tag));
	expect_notified(s, "upper:reboot:b lower:reboot:b ");
}

STAGE_TEST(bidctl_drops_answers_to_a_former_boot_of_this_host, stage_open_asking(s, ""))
{
	struct packet p;

	p = response(s, BOOT_A, s->tag);
	p.destination ^= 1;
	inject(s, p);
	CHECK_EQ(counted(s, "stale"), 1);
	expect_notified(s, "");
	p.destination ^= 1;
	inject(s, p);
	CHECK_EQ(s->asking.status, 0);
}

/* ---- reboots ---- */

STAGE_TEST(bidctl_verifies_an_unknown_id_before_it_notifies, stage_open(s, ""))
{
	meet(s, BOOT_A);
	CHECK_EQ(check_boot(s, HOST, BOOT_A), 0);
	rig_advance_ms(s->r, 300);
	CHECK_EQ(check_boot(s, HOST, BOOT_B), -EINPROGRESS);
	CHECK_EQ(check_boot(s, HOST, BOOT_B), -EINPROGRESS);
	CHECK_EQ(check_boot(s, HOST, BOOT_A), 0); /* the other boot is still confirmed */
	inject(s, response(s, BOOT_A, expect_query(s)));
	expect_notified(s, "");
	CHECK_EQ(check_boot(s, HOST, BOOT_A), 0);
	CHECK_EQ(counted(s, "reboots"), 0);
}

STAGE_TEST(bidctl_reports_a_reboot_once_and_uppers_first, stage_open_met(s, ""))
{
	uint64_t tag = check_draws_query(s, HOST, BOOT_B);

	inject(s, response(s, BOOT_B, tag));
	inject(s, response(s, BOOT_B, tag));
	expect_notified(s, "upper:reboot:b lower:reboot:b ");
	CHECK_EQ(check_boot(s, HOST, BOOT_B), 0);
	rig_advance_ms(s->r, 300);
	inject(s, response(s, BOOT_B, check_draws_query(s, HOST, BOOT_A)));
	expect_notified(s, "");
	CHECK_EQ(counted(s, "reboots"), 1);
}

STAGE_TEST(bidctl_answers_a_rebooted_host_with_a_query, stage_open_met(s, ""))
{
	struct packet p;

	inject(s, query(BOOT_A, 1));
	CHECK_EQ(sent(s).flags, RESPONSE);
	rig_expect_nothing_sent(s->r);
	inject(s, query(BOOT_B, 2));
	p = sent(s);
	CHECK_EQ(p.flags, QUERY | RESPONSE);
	CHECK_EQ(p.reply, 2);
	rig_expect_nothing_sent(s->r);
	inject(s, response(s, BOOT_B, p.request));
	expect_notified(s, "upper:reboot:b lower:reboot:b ");
}

/* The host boots again before its query times out, which makes the query void. */
STAGE_TEST(bidctl_sees_a_reboot_during_a_query, stage_open_met(s, ""))
{
	uint64_t tag = check_draws_query(s, HOST, BOOT_B);

	CHECK_EQ(check_boot(s, HOST, BOOT_C), -EINPROGRESS);
	rig_expect_nothing_sent(s->r);
	inject(s, response(s, BOOT_C, tag));
	expect_notified(s, "upper:reboot:c lower:reboot:c ");
	CHECK_EQ(check_boot(s, HOST, BOOT_C), 0);
}

STAGE_TEST(bidctl_reports_two_reboots_in_a_row, stage_open(s, ""))
{
	meet(s, BOOT_A);
	for (uint64_t boot = 1; boot < 3; boot++) {
		rig_advance_ms(s->r, 300);
		CHECK_EQ(check_boot(s, HOST, boot == 1 ? BOOT_B : BOOT_C), -EINPROGRESS);
		inject(s, response(s, boot == 1 ? BOOT_B : BOOT_C, expect_query(s)));
	}
	expect_notified(s, "upper:reboot:b lower:reboot:b upper:reboot:c lower:reboot:c ");
}

/* Reboots the host again while watchers are notified: they learn of it after this round. */
static void
reboot_meanwhile(struct stage *s)
{
	struct bidctl *b = (struct bidctl *)s->bidctl;

	s->meanwhile = NULL;
	CHECK_EQ(xk_bidctl_check(s->bidctl, HOST, BOOT_B, NULL),
		 -EINPROGRESS); /* not all watchers have been notified */
	xk_lock(&b->lock);
	bidctl_peer_find(b, HOST)->boot = BOOT_C;
	xk_unlock(&b->lock);
}

STAGE_TEST(bidctl_queues_changes_while_it_notifies, stage_open_met(s, "bidctl.interval=1ms;"))
{
	CHECK_EQ(check_boot(s, HOST, BOOT_B), -EINPROGRESS);
	s->meanwhile = reboot_meanwhile;
	inject(s, response(s, BOOT_B, expect_query(s)));
	expect_notified(s, "upper:reboot:b lower:reboot:b upper:reboot:c lower:reboot:c ");
	rig_forget(s->r);
}

/* ---- the broadcast ---- */

static void
answer_host(struct rig *r)
{
	uint64_t host = ME;

	rig_answer_control(r, XK_GET_MY_HOST, &host, sizeof(host));
}

TEST(bidctl_broadcasts_its_boot)
{
	struct stage s = { .r = rig_new_prepared("wire:; bidctl: wire; user: bidctl", answer_host) };
	struct packet p;

	s.bidctl = rig_protocol(s.r, "bidctl");
	s.own = xk_bidctl_own(s.bidctl, HOST);
	rig_advance_ms(s.r, 1);
	CHECK_EQ(rig_wire_remote(s.r), UINT32_MAX);
	p = sent(&s);
	CHECK_EQ(p.flags, BCAST);
	rig_expect_silence_ms(s.r, 10000);
	CHECK_EQ(counted(&s, "broadcasts_out"), 1);
	rig_free(s.r);
}

STAGE_TEST(bidctl_queries_a_booted_host_a_little_later, stage_open(s, "bidctl.broadcast_wait=100ms;"))
{
	struct packet booted = { BCAST, HOST, BOOT_B, 0, 0, 0 };

	inject(s, booted); /* a host that nobody knows */
	CHECK_EQ(peers(s), 0);
	meet(s, BOOT_A);
	booted.source = BOOT_A;
	inject(s, booted); /* known already */
	rig_expect_silence_ms(s->r, 101);
	booted.source = BOOT_B;
	inject(s, booted);
	inject(s, booted);
	rig_advance_ms(s->r, 101);
	inject(s, response(s, BOOT_B, expect_query(s)));
	expect_notified(s, "upper:reboot:b lower:reboot:b ");
	CHECK_EQ(counted(s, "broadcasts_in"), 4);
}

/* ---- use, loss, forgetting ---- */

STAGE_TEST(bidctl_polls_a_host_in_use, stage_open(s, "bidctl.keepalive=4s;"))
{
	meet(s, BOOT_A);
	rig_expect_silence_ms(s->r, 5000); /* unused */
	CHECK_EQ(use(s, HOST), 0);
	for (unsigned i = 0; i < 3; i++) {
		rig_expect_silence_ms(s->r, 2990);
		for (unsigned ms = 0; ms < 1100 && rig_sent(s->r) == 0; ms += 100)
			rig_advance_ms(s->r, 100);
		inject(s, response(s, BOOT_A, expect_query(s)));
	}
	CHECK_EQ(counted(s, "keepalives"), 3);
	expect_notified(s, "");
	unuse(s, HOST);
	rig_expect_silence_ms(s->r, 20000);
}

STAGE_TEST(bidctl_reports_the_loss_of_a_host_in_use,
	   stage_open(s, "bidctl.keepalive=4s; bidctl.timeout=100ms; bidctl.timeout_max=100ms; bidctl.retries=2;"))
{
	meet(s, BOOT_A);
	CHECK_EQ(use(s, HOST), 0);
	rig_advance_ms(s->r, 4301);
	CHECK_EQ(rig_sent(s->r), 3);
	rig_forget(s->r);
	expect_notified(s, "upper:lost:0 lower:lost:0 ");
	CHECK_EQ(counted(s, "lost"), 1);
	rig_expect_silence_ms(s->r, 20000); /* queries end */
	inject(s, response(s, BOOT_A, check_draws_query(s, HOST, BOOT_A)));
	expect_notified(s, "upper:first:a lower:first:a ");
	unuse(s, HOST);
}

STAGE_TEST(bidctl_finds_a_lost_host_that_boots,
	   stage_open(s, "bidctl.timeout=100ms; bidctl.timeout_max=100ms; bidctl.retries=0;"))
{
	struct packet booted = { BCAST, HOST, BOOT_B, 0, 0, 0 };
	struct confirming c;

	meet(s, BOOT_A);
	CHECK_EQ(use(s, HOST), 0);
	rig_advance_ms(s->r, 300);
	CHECK_EQ(check_boot(s, HOST, BOOT_B), -EINPROGRESS);
	rig_advance_ms(s->r, 300);
	rig_forget(s->r);
	expect_notified(s, "upper:lost:0 lower:lost:0 ");
	inject(s, booted);
	rig_advance_ms(s->r, 3000);
	CHECK_EQ(rig_sent(s->r), 1);
	rig_forget(s->r);
	rig_advance_ms(s->r, 300);
	CHECK(!confirm(s, &c, HOST));
	inject(s, response(s, BOOT_B, expect_query(s)));
	expect_notified(s, "upper:first:b lower:first:b ");
	CHECK_EQ(c.boot, BOOT_B);
	unuse(s, HOST);
}

STAGE_TEST(bidctl_forgets_an_unused_host, stage_open(s, "bidctl.lifetime=10s;"))
{
	meet(s, BOOT_A);
	CHECK_EQ(use(s, HOST), 0);
	CHECK_EQ(use(s, HOST), 0);
	unuse(s, HOST);
	rig_advance_ms(s->r, 30000);
	CHECK_EQ(peers(s), 1);
	unuse(s, HOST);
	rig_advance_ms(s->r, 9999);
	CHECK_EQ(peers(s), 1);
	expect_notified(s, "");
	rig_advance_ms(s->r, 2);
	CHECK_EQ(peers(s), 0);
	expect_notified(s, "upper:lost:0 lower:lost:0 ");
	CHECK_EQ(counted(s, "forgotten"), 1);
	rig_expect_nothing_sent(s->r);
}

/* ---- boot ids ---- */

/* A kernel that does not count its boots draws all bits. */
TEST(bidctl_draws_another_id_for_each_boot)
{
	uint64_t ids[32];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(ids); i++) {
		struct stage s;

		stage_open(&s, "");
		CHECK_EQ(xk_boots(s.bidctl), 0);
		ids[i] = s.own;
		CHECK(ids[i] != 0);
		for (unsigned k = 0; k < i; k++)
			CHECK(ids[k] != ids[i]);
		stage_close(&s);
	}
}

/* The id shown to one host reveals nothing about another's. */
STAGE_TEST(bidctl_shows_each_host_another_id, stage_open(s, ""))
{
	enum { HOSTS = 64 };
	unsigned ones = 0;

	for (uint32_t i = 0; i < HOSTS; i++) {
		uint64_t id = xk_bidctl_own(s->bidctl, HOST + i);

		CHECK_EQ(id, xk_bidctl_own(s->bidctl, HOST + i));
		ones += (unsigned)__builtin_popcountll(id ^ s->own);
	}
	CHECK(ones > 28 * HOSTS && ones < 36 * HOSTS);
	CHECK(xk_bidctl_own(s->bidctl, 0) != s->own);
}

TEST(bidctl_refuses_impossible_settings)
{
	CHECK_EQ(rig_refusal("wire:; bidctl: wire; bidctl.timeout=3s; bidctl.timeout_max=2s"), -EINVAL);
}

STAGE_TEST(bidctl_returns_at_once_if_implicit_is_fail, stage_open(s, "bidctl.implicit=fail;"))
{
	struct confirming c;

	CHECK(confirm(s, &c, HOST));
	CHECK_EQ(c.status, -EAGAIN);
	inject(s, response(s, BOOT_A, expect_query(s)));
	CHECK(confirm(s, &c, HOST));
	CHECK_EQ(c.boot, BOOT_A);
}
