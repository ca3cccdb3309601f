/* test_bidctl_strangers.c - BIDCTL against malformed messages, floods, forgeries and crowds. */

#include "tests/protocols/bidctl_rig.h"

/* ---- malformed messages ---- */

static void
expect_bad(struct stage *s, struct packet p, const char *drop)
{
	long before = counted(s, drop);

	inject(s, p);
	CHECK_EQ(counted(s, drop), before + 1);
	rig_expect_nothing_sent(s->r);
}

STAGE_TEST(bidctl_drops_malformed_messages, stage_open(s, ""))
{
	static const struct packet flags[] = {
		{ 0, HOST, BOOT_A, 0, 0, 0 },
		{ 8, HOST, BOOT_A, 0, 0, 0 },
		{ 0x101, HOST, BOOT_A, 0, 1, 0 },
		{ BCAST | QUERY, HOST, BOOT_A, 0, 1, 0 },
		{ BCAST, HOST, BOOT_A, 0, 1, 0 },
		{ BCAST, HOST, BOOT_A, 0, 0, 1 },
		{ QUERY, HOST, BOOT_A, 0, 0, 0 },
		{ QUERY, HOST, BOOT_A, 0, 1, 1 },
		{ RESPONSE, HOST, BOOT_A, BOOT_B, 1, 1 },
		{ RESPONSE, HOST, BOOT_A, BOOT_B, 0, 0 },
	};
	static const uint32_t hosts[] = { 0, 5, ME, 0xe0000001, 0xf0000001, UINT32_MAX };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(flags); i++)
		expect_bad(s, flags[i], "bad_flags");
	expect_bad(s, query(0, 1), "bad_boot");
	expect_bad(s, (struct packet){ RESPONSE, HOST, BOOT_A, 0, 0, 1 }, "bad_boot");
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(hosts); i++)
		expect_bad(s, (struct packet){ QUERY, hosts[i], BOOT_A, 0, 1, 0 }, "bad_host");
	CHECK_EQ(peers(s), 0);
}

STAGE_TEST(bidctl_drops_messages_in_another_hosts_name, stage_open(s, ""))
{
	uint8_t bytes[LEN];
	struct packet p = query(BOOT_A, 1);

	packet_store(&p, bytes);
	rig_wire_peer(s->r, OTHER);
	rig_inject_bytes(s->r, bytes, LEN);
	CHECK_EQ(counted(s, "bad_host"), 1);
	rig_expect_nothing_sent(s->r);
}

STAGE_TEST(bidctl_detects_each_flipped_bit_and_each_truncation, stage_open(s, ""))
{
	struct packet p = query(BOOT_A, 1);
	uint8_t bytes[LEN];
	char hex[2 * LEN + 1];

	packet_store(&p, bytes);
	rig_inject_flips(s->r, bytes, LEN, 8 * LEN);
	CHECK_EQ(counted(s, "bad_checksum"), 8 * LEN);
	for (unsigned i = 0; i < LEN; i++)
		snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	rig_inject_prefixes(s->r, hex);
	CHECK_EQ(counted(s, "short"), LEN);
	rig_expect_nothing_sent(s->r);
}

STAGE_TEST(bidctl_ignores_padding, stage_open(s, ""))
{
	struct packet p = query(BOOT_A, 1);
	uint8_t bytes[LEN + 20];

	memset(bytes, 0xee, sizeof(bytes));
	packet_store(&p, bytes);
	rig_inject_bytes(s->r, bytes, sizeof(bytes));
	CHECK_EQ(sent(s).reply, 1);
}

STAGE_TEST(bidctl_survives_a_lack_of_buffers, stage_open_asking(s, ""))
{
	rig_limit_buffers(s->r, 2); /* the message's own, in two segments */
	rig_inject(s->r, "0001 0000 | 0a4d0002 0000000000000001 0000000000000000 0000000000000001 0000000000000000");
	CHECK_EQ(counted(s, "no_buffer"), 1);
	rig_limit_buffers(s->r, 0);
	rig_expect_silence_ms(s->r, 250);
	CHECK_EQ(counted(s, "unsent"), 1);
	rig_limit_buffers(s->r, UINT32_MAX);
	rig_wire_refuse(s->r, -ENETUNREACH);
	rig_advance_ms(s->r, 450);
	CHECK_EQ(counted(s, "unsent"), 2);
	rig_wire_refuse(s->r, 0);
	rig_fail_sending(s->r, -ENOBUFS);
	rig_advance_ms(s->r, 800);
	CHECK_EQ(counted(s, "unsent"), 3);
	rig_fail_sending(s->r, 0);
	rig_advance_ms(s->r, 1600);
	CHECK_EQ(expect_query(s), s->tag);
	inject(s, response(s, BOOT_A, s->tag));
	CHECK_EQ(s->asking.status, 0);
}

/* ---- forgeries ---- */

/* A host that does not see the queries cannot answer them. */
STAGE_TEST(bidctl_drops_an_answer_without_the_tag, stage_open_asking(s, ""))
{
	for (unsigned i = 0; i < 64; i++)
		inject(s, response(s, BOOT_B, s->tag ^ UINT64_C(1) << i));
	CHECK_EQ(counted(s, "unasked") + counted(s, "bad_flags"), 64);
	expect_notified(s, "");
	inject(s, response(s, BOOT_A, s->tag));
	expect_notified(s, "upper:first:a lower:first:a ");
}

/* The right tag, from another host than the one queried. */
STAGE_TEST(bidctl_drops_an_answer_for_another_host, stage_open_asking(s, ""))
{
	inject(s, response_of(s, OTHER, BOOT_A, s->tag));
	CHECK_EQ(counted(s, "unasked"), 1);
	expect_notified(s, "");
	inject(s, response(s, BOOT_A, s->tag));
	CHECK_EQ(s->asking.status, 0);
}

STAGE_TEST(bidctl_queries_a_known_host_once_per_interval, stage_open(s, "bidctl.interval=200ms;"))
{
	meet(s, BOOT_A);
	rig_advance_ms(s->r, 201);
	for (unsigned i = 0; i < 1000; i++) {
		CHECK_EQ(check_boot(s, HOST, BOOT_B + i), -EINPROGRESS);
		if (i % 100 == 0 && rig_sent(s->r) > 0)
			inject(s, response(s, BOOT_A, expect_query(s)));
	}
	CHECK_EQ(counted(s, "queries_out"), 2);
	CHECK_EQ(counted(s, "limited"), 999);
	CHECK_EQ(check_boot(s, HOST, BOOT_A), 0); /* the known boot is not affected */
	rig_forget(s->r);
}

/* ---- strangers ---- */

STAGE_TEST(bidctl_queries_a_stranger_once_and_remembers_its_answer, stage_open(s, ""))
{
	uint64_t tag = check_draws_query(s, HOST, BOOT_A);

	CHECK_EQ(check_boot(s, HOST, BOOT_A), -EINPROGRESS);
	CHECK_EQ(counted(s, "limited"), 1);
	rig_expect_silence_ms(s->r, 3000); /* strangers have no timer */
	CHECK_EQ(peers(s), 0);
	CHECK_EQ(check_draws_query(s, HOST, BOOT_A), tag);
	inject(s, response(s, BOOT_B, tag + 2));
	CHECK_EQ(counted(s, "unasked"), 1);
	expect_notified(s, "");
	inject(s, response(s, BOOT_B, tag)); /* the answer's boot counts, not the message's */
	expect_notified(s, "upper:first:b lower:first:b ");
	CHECK_EQ(peers(s), 1);
	inject(s, response(s, BOOT_A, tag));
	CHECK_EQ(counted(s, "unasked"), 2);
	CHECK_EQ(check_boot(s, HOST, BOOT_B), 0);
}

STAGE_TEST(bidctl_accepts_one_answer_from_a_stranger, stage_open(s, "bidctl.lifetime=1s;"))
{
	uint64_t tag = check_draws_query(s, HOST, BOOT_A);

	inject(s, response(s, BOOT_A, tag));
	rig_advance_ms(s->r, 1001);
	expect_notified(s, "upper:first:a lower:first:a upper:lost:0 lower:lost:0 ");
	inject(s, response(s, BOOT_A, tag));
	CHECK_EQ(counted(s, "unasked"), 1);
	CHECK_EQ(peers(s), 0);
}

STAGE_TEST(bidctl_drops_a_strangers_late_answer, stage_open(s, "bidctl.timeout_max=5s;"))
{
	uint64_t tag = check_draws_query(s, HOST, BOOT_A);

	rig_advance_ms(s->r, 5001);
	inject(s, response(s, BOOT_A, tag));
	CHECK_EQ(counted(s, "unasked"), 1);
	CHECK(check_draws_query(s, HOST, BOOT_A) != tag);
}

STAGE_TEST(bidctl_takes_no_memory_for_a_flood_of_strangers,
	   stage_open(s, "bidctl.strangers=64; bidctl.stranger_rate=1000;"))
{
	for (unsigned i = 0; i < 3000; i++) {
		CHECK_EQ(check_boot(s, 0x0b000000 + i, BOOT_A), -EINPROGRESS);
		rig_forget(s->r);
		if (i % 10 == 9)
			rig_advance_ms(s->r, 1);
	}
	CHECK_EQ(peers(s), 0);
	/* in 300 ms those of 300 ms, and those that may be sent at once */
	CHECK(counted(s, "queries_out") >= 390 && counted(s, "queries_out") <= 410);
	CHECK_EQ(counted(s, "queries_out") + counted(s, "limited"), 3000);
	CHECK(counted(s, "replaced") >= 300);
	expect_notified(s, "");
	meet(s, BOOT_A); /* a host being opened is not affected */
}

/* ---- bounds ---- */

STAGE_TEST(bidctl_bounds_the_hosts_it_knows, stage_open(s, "bidctl.peers=1;"))
{
	struct confirming c;
	struct packet p;

	p = response_of(s, OTHER, BOOT_C, check_draws_query(s, OTHER, BOOT_C));
	meet(s, BOOT_A);
	CHECK_EQ(use(s, HOST), 0);
	inject(s, p);
	CHECK_EQ(counted(s, "full"), 1);
	CHECK(confirm(s, &c, OTHER));
	CHECK_EQ(c.status, -ENOBUFS);
	CHECK_EQ(use(s, OTHER), -ENOBUFS);
	CHECK_EQ(counted(s, "too_many"), 3);
	expect_notified(s, "");
	CHECK_EQ(check_boot(s, HOST, BOOT_A), 0);
}

/* Sends a query as a stranger, and answers the query sent back. */
static void
answers(struct stage *s, uint32_t host)
{
	struct packet p = { QUERY, host, BOOT_C, 0, 7, 0 };
	uint8_t bytes[LEN] = { 0 };

	inject(s, p);
	CHECK_EQ(rig_take_sent(s->r, bytes, sizeof(bytes)), LEN);
	inject(s, (struct packet){ RESPONSE, host, BOOT_C, xk_get64(bytes + 8), 0, xk_get64(bytes + 24) });
}

STAGE_TEST(bidctl_replaces_an_unused_host, stage_open(s, "bidctl.peers=64;"))
{
	enum { PEERS = 64 };

	meet(s, BOOT_A);
	CHECK_EQ(use(s, HOST), 0);
	for (uint32_t i = 0; i < 4 * PEERS; i++) {
		answers(s, 0x0b000000 + i);
		CHECK_EQ(check_boot(s, 0x0b000000 + i, BOOT_C), 0);
		CHECK(peers(s) <= PEERS + 1);
		s->notified[0] = '\0';
		rig_advance_ms(s->r, 2);
		CHECK(peers(s) <= PEERS);
	}
	CHECK_EQ(counted(s, "forgotten"), 3 * PEERS + 1);
	CHECK_EQ(counted(s, "full"), 0);
	CHECK_EQ(check_boot(s, HOST, BOOT_A), 0); /* in use */
	s->notified[0] = '\0';
}

STAGE_TEST(bidctl_queries_no_impossible_host, stage_open(s, ""))
{
	struct confirming c;

	CHECK(confirm(s, &c, 0));
	CHECK_EQ(c.status, -EINVAL);
	CHECK(confirm(s, &c, 0xe0000001));
	CHECK_EQ(c.status, -EINVAL);
	CHECK_EQ(check_boot(s, UINT32_MAX, BOOT_A), -EINVAL);
}

struct crowd {
	struct stage *s;
	unsigned first, count;
	bool uses;
};

static void
do_use_crowd(void *argument)
{
	struct crowd *crowd = argument;

	for (unsigned i = 0; i < crowd->count; i++)
		if (crowd->uses)
			CHECK_EQ(xk_bidctl_use(crowd->s->bidctl, 0x0b000000 + crowd->first + i), 0);
		else
			xk_bidctl_unuse(crowd->s->bidctl, 0x0b000000 + crowd->first + i);
}

TEST(bidctl_knows_a_hundred_thousand_hosts)
{
	struct stage own, *s = &own;
	struct crowd crowd = { s, 0, 100000, true };

	stage_open(s, "bidctl.peers=100000; bidctl.lifetime=1s;");
	CHECK(rig_do(s->r, do_use_crowd, &crowd));
	CHECK_EQ(peers(s), 100000);
	CHECK_EQ(use(s, HOST), -ENOBUFS);
	printf("%zu bytes a peer, %zu a stranger ...", sizeof(struct bidctl_peer), sizeof(struct bidctl_stranger));
	CHECK(sizeof(struct bidctl_peer) <= 216);
	crowd.uses = false;
	CHECK(rig_do(s->r, do_use_crowd, &crowd));
	rig_advance_ms(s->r, 1100);
	CHECK_EQ(peers(s), 0);
	stage_close(s);
}

/* ---- random messages ---- */

static uint64_t
draw(uint64_t *state, uint64_t below)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*state >> 33) % below;
}

STAGE_TEST(
	bidctl_survives_what_strangers_make_up,
	stage_open(s,
		   "bidctl.peers=3; bidctl.lifetime=2s; bidctl.keepalive=1s; bidctl.retries=1; bidctl.interval=1ms;"))
{
	static const uint64_t boots[] = { 0, BOOT_A, BOOT_B, BOOT_C };
	uint64_t state = 11, tags[5] = { 0, 1, 2, 3, 4 };

	for (unsigned i = 0; i < 6000; i++) {
		uint64_t host = draw(&state, 5), other = draw(&state, 8) == 0 ? draw(&state, 5) : host;
		struct packet p = { (unsigned)draw(&state, 6), HOST + (uint32_t)host, boots[draw(&state, 4)], 0, 0, 0 };

		p.destination = draw(&state, 8) == 0 ? boots[draw(&state, 4)] : xk_bidctl_own(s->bidctl, p.host);
		if (p.flags & QUERY)
			p.request = tags[draw(&state, 5)];
		if (p.flags & RESPONSE)
			p.reply = tags[other];
		inject(s, p);
		rig_forget(s->r);
		host = draw(&state, 5);
		check_boot(s, HOST + (uint32_t)host, boots[draw(&state, 4)]);
		if (rig_sent(s->r) > 0)
			tags[host] = sent(s).request;
		rig_forget(s->r);
		if (draw(&state, 4) == 0)
			rig_advance_ms(s->r, draw(&state, draw(&state, 8) == 0 ? 4000 : 400));
		rig_forget(s->r);
		s->notified[0] = '\0';
	}
	CHECK(counted(s, "first_contacts") > 10);
	CHECK(counted(s, "reboots") > 10);
	CHECK(counted(s, "forgotten") > 10);
	rig_advance_ms(s->r, 10000);
	CHECK_EQ(peers(s), 0);
	rig_forget(s->r);
}
