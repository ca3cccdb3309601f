/*
 * test_bidctl_contact.c - how BIDCTL comes to know who asks it, before his first message comes: answers that are questions,
 * too, whose tags nobody remembers.
 */
#include "xkernel/siphash.h"

#include "tests/protocols/bidctl_rig.h"

/* HOST, which nobody here knows, asks; the tag that it is asked back with. */
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

STAGE_TEST(bidctl_knows_a_client_before_its_first_message_comes, stage_open(s, ""))
{
	inject(s, response(s, BOOT_A, asked_back(s, BOOT_A)));
	expect_notified(s, "upper:first:a lower:first:a ");
	CHECK_EQ(heard(s, HOST, BOOT_A), 0);
	CHECK_EQ(peers(s), 1);
	CHECK_EQ(counted(s, "asked_back"), 1);
	CHECK_EQ(counted(s, "queries_out"), 0);
	inject(s, query(BOOT_A, 8)); /* is a stranger no more */
	CHECK_EQ(sent(s).flags, RESPONSE);
	rig_expect_nothing_sent(s->r);
}

/* When the watchers are told the question has been answered: what they send then comes to a host that knows us. */
static void
answered_meanwhile(struct stage *s)
{
	struct packet p = sent(s);

	CHECK_EQ(p.flags, RESPONSE);
	CHECK_EQ(p.reply, 99);
	CHECK_EQ(p.destination, BOOT_A);
}

STAGE_TEST(bidctl_answers_who_asks_back_before_it_tells, stage_open_asking(s, ""))
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
	inject(s, both); /* again: its answer is none, so its question is not answered */
	CHECK_EQ(counted(s, "unasked"), 1);
	rig_expect_nothing_sent(s->r);
}

STAGE_TEST(bidctl_believes_only_the_host_that_was_asked_back_and_only_that_boot, stage_open(s, ""))
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

/* An answer that was under way while the host rebooted. */
STAGE_TEST(bidctl_takes_a_late_answer_for_no_reboot, stage_open(s, ""))
{
	uint64_t tag = asked_back(s, BOOT_A);

	inject(s, response(s, BOOT_B, asked_back(s, BOOT_B)));
	expect_notified(s, "upper:first:b lower:first:b ");
	inject(s, response(s, BOOT_A, tag));
	CHECK_EQ(counted(s, "unasked"), 1);
	expect_notified(s, "");
	CHECK_EQ(heard(s, HOST, BOOT_B), 0);
}

STAGE_TEST(bidctl_takes_no_answer_that_comes_much_later, stage_open(s, "bidctl.timeout_max=5s;"))
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

/* Whoever is forgotten does not come back by what he has said before. */
STAGE_TEST(bidctl_takes_no_answer_again_when_it_has_forgotten, stage_open(s, "bidctl.lifetime=1s;"))
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

STAGE_TEST(bidctl_takes_no_memory_for_who_asks_and_limits_nobody,
	   stage_open(s, "bidctl.stranger_rate=1; bidctl.strangers=4;"))
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

STAGE_TEST(bidctl_asks_back_and_has_no_room, stage_open(s, "bidctl.peers=1;"))
{
	struct packet p;
	uint64_t tag = asked_back(s, BOOT_A);

	p = query(BOOT_C, 7);
	p.host = OTHER;
	inject(s, p);
	inject(s, response_of(s, OTHER, BOOT_C, sent(s).request));
	s->told[0] = '\0';
	CHECK_EQ(use(s, OTHER), 0);
	inject(s, response(s, BOOT_A, tag));
	CHECK_EQ(counted(s, "full"), 1);
	expect_notified(s, "");
}

/* The reference's own: the key's bytes are 0 to 15, and the message's. */
TEST(bidctl_hashes_as_siphash_does)
{
	const uint64_t key[2] = { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) };

	CHECK_EQ(siphash(key, key[0], key[1]), UINT64_C(0x3f2acc7f57c29bdb));
}
