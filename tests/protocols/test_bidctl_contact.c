/*
 * test_bidctl_contact.c - how BIDCTL confirms a host that sends it a query before that host's first message: the answer
 * is a query too, whose tag nobody remembers.
 */
#include "xkernel/siphash.h"

#include "tests/protocols/bidctl_rig.h"

/* Injects a query from HOST, which is unknown. Returns the tag of the query sent back. */
static uint64_t
asked_back(struct stage *s, uint64_t boot)
{
	struct packet p;

	inject(s, query(boot, 7));
	p = sent(s);
	CHECK_EQ(p.flags, QUERY | RESPONSE);
	CHECK_EQ(p.reply, 7);
	CHECK_EQ(p.destination, boot);
	rig_expect_nothing_sent(s->r);
	return p.request;
}

STAGE_TEST(bidctl_confirms_a_client_before_its_first_message, stage_open(s, ""))
{
	inject(s, response(s, BOOT_A, asked_back(s, BOOT_A)));
	expect_notified(s, "upper:first:a lower:first:a ");
	CHECK_EQ(check_boot(s, HOST, BOOT_A), 0);
	CHECK_EQ(peers(s), 1);
	CHECK_EQ(counted(s, "asked_back"), 1);
	CHECK_EQ(counted(s, "queries_out"), 0);
	inject(s, query(BOOT_A, 8)); /* is no stranger any more */
	CHECK_EQ(sent(s).flags, RESPONSE);
	rig_expect_nothing_sent(s->r);
}

/* The query has been answered before watchers are notified: what they send goes to a host that knows this one. */
static void
answered_meanwhile(struct stage *s)
{
	struct packet p = sent(s);

	CHECK_EQ(p.flags, RESPONSE);
	CHECK_EQ(p.reply, 99);
	CHECK_EQ(p.destination, BOOT_A);
}

STAGE_TEST(bidctl_answers_a_query_before_it_notifies, stage_open_asking(s, ""))
{
	struct packet both;

	both = response(s, BOOT_A, s->tag);
	both.flags = QUERY | RESPONSE;
	both.request = 99;
	s->meanwhile = answered_meanwhile;
	inject(s, both);
	expect_notified(s, "upper:first:a lower:first:a ");
	rig_expect_nothing_sent(s->r);
	CHECK_EQ(counted(s, "queries_in"), 1);
	inject(s, both); /* again: its answer is invalid now, so its query gets none */
	CHECK_EQ(counted(s, "unasked"), 1);
	rig_expect_nothing_sent(s->r);
}

STAGE_TEST(bidctl_accepts_a_tag_only_from_its_host_and_boot, stage_open(s, ""))
{
	struct packet p;
	uint64_t tag = asked_back(s, BOOT_A);

	for (unsigned i = 0; i < 64; i++)
		inject(s, response(s, BOOT_A, tag ^ UINT64_C(1) << i));
	inject(s, response(s, BOOT_B, tag));
	inject(s, response_of(s, OTHER, BOOT_A, tag));
	CHECK_EQ(counted(s, "unasked"), 66);
	p = response(s, BOOT_A, tag);
	p.destination ^= 1;
	inject(s, p);
	CHECK_EQ(counted(s, "stale"), 1);
	expect_notified(s, "");
	CHECK_EQ(peers(s), 0);
	inject(s, response(s, BOOT_A, tag));
	expect_notified(s, "upper:first:a lower:first:a ");
	rig_expect_nothing_sent(s->r);
}

/* The answer was in flight while the host rebooted. */
STAGE_TEST(bidctl_takes_no_late_answer_for_a_reboot, stage_open(s, ""))
{
	uint64_t tag = asked_back(s, BOOT_A);

	inject(s, response(s, BOOT_B, asked_back(s, BOOT_B)));
	expect_notified(s, "upper:first:b lower:first:b ");
	inject(s, response(s, BOOT_A, tag));
	CHECK_EQ(counted(s, "unasked"), 1);
	expect_notified(s, "");
	CHECK_EQ(check_boot(s, HOST, BOOT_B), 0);
}

STAGE_TEST(bidctl_drops_an_answer_that_is_too_late, stage_open(s, "bidctl.timeout_max=5s;"))
{
	uint64_t tag = asked_back(s, BOOT_A);

	rig_advance_ms(s->r, 4999);
	inject(s, response(s, BOOT_A, tag ^ 2));
	CHECK_EQ(peers(s), 0);
	rig_advance_ms(s->r, 5002);
	inject(s, response(s, BOOT_A, tag));
	CHECK_EQ(peers(s), 0);
	CHECK_EQ(counted(s, "unasked"), 2);
	tag = asked_back(s, BOOT_A);
	rig_advance_ms(s->r, 4999);
	inject(s, response(s, BOOT_A, tag));
	expect_notified(s, "upper:first:a lower:first:a ");
}

/* Replayed answers do not bring back a forgotten host. */
STAGE_TEST(bidctl_drops_a_replayed_answer_of_a_forgotten_host, stage_open(s, "bidctl.lifetime=1s;"))
{
	uint64_t tag;

	rig_advance_ms(s->r, 333);
	tag = asked_back(s, BOOT_A);
	inject(s, response(s, BOOT_A, tag));
	rig_advance_ms(s->r, 1001);
	expect_notified(s, "upper:first:a lower:first:a upper:lost:0 lower:lost:0 ");
	inject(s, response(s, BOOT_A, tag));
	CHECK_EQ(counted(s, "unasked"), 1);
	CHECK_EQ(peers(s), 0);
}

STAGE_TEST(bidctl_answers_queries_without_memory_or_limit, stage_open(s, "bidctl.stranger_rate=1; bidctl.strangers=4;"))
{
	struct packet p = query(BOOT_A, 7);
	uint64_t tag = 0;

	for (unsigned i = 0; i < 5000; i++) {
		p.host = 0x0b000000 + i;
		inject(s, p);
		CHECK_EQ(rig_sent(s->r), i + 1);
	}
	rig_forget(s->r);
	CHECK_EQ(peers(s), 0);
	CHECK_EQ(counted(s, "limited"), 0);
	CHECK_EQ(counted(s, "replaced"), 0);
	tag = asked_back(s, BOOT_A);
	inject(s, response(s, BOOT_A, tag));
	expect_notified(s, "upper:first:a lower:first:a ");
}

STAGE_TEST(bidctl_queries_back_even_if_it_has_no_room, stage_open(s, "bidctl.peers=1;"))
{
	struct packet p;
	uint64_t tag = asked_back(s, BOOT_A);

	p = query(BOOT_C, 7);
	p.host = OTHER;
	inject(s, p);
	inject(s, response_of(s, OTHER, BOOT_C, sent(s).request));
	s->notified[0] = '\0';
	CHECK_EQ(use(s, OTHER), 0);
	inject(s, response(s, BOOT_A, tag));
	CHECK_EQ(counted(s, "full"), 1);
	expect_notified(s, "");
}

/* The reference's test vector: the bytes of key and message count up from 0. */
TEST(bidctl_hashes_as_siphash_does)
{
	const uint64_t key[2] = { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) };

	CHECK_EQ(siphash(key, key[0], key[1]), UINT64_C(0x3f2acc7f57c29bdb));
}
