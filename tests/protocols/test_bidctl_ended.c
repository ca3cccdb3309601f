/* test_bidctl_ended.c - ended boots: BIDCTL confirms none again while messages of it may be in flight. */
#include "tests/protocols/bidctl_rig.h"

/* Injects a message that bears `strange`; the host answers the query that it draws as this boot. */
static void
answers(struct stage *s, uint64_t strange, uint64_t boot)
{
	rig_advance_ms(s->r, 1);
	inject(s, response(s, boot, check_draws_query(s, HOST, strange)));
}

STAGE_TEST(bidctl_confirms_no_ended_boot_again,
	   stage_open(s, "bidctl.lifetime=10s; bidctl.interval=1ms; bidctl.retries=0;"))
{
	meet(s, BOOT_A);
	CHECK_EQ(use(s, HOST), 0);
	answers(s, BOOT_B, BOOT_B);
	expect_notified(s, "upper:reboot:b lower:reboot:b ");
	answers(s, BOOT_A, BOOT_A);
	CHECK_EQ(counted(s, "ended"), 1);
	expect_notified(s, "");
	CHECK_EQ(check_boot(s, HOST, BOOT_B), 0);
	rig_advance_ms(s->r, 9900); /* it has not answered */
	expect_notified(s, "upper:lost:0 lower:lost:0 ");
	answers(s, BOOT_A, BOOT_A);
	CHECK_EQ(counted(s, "ended"), 2);
	rig_advance_ms(s->r, 200);
	answers(s, BOOT_A, BOOT_A);
	expect_notified(s, "upper:first:a lower:first:a ");
	unuse(s, HOST);
}

/* Unused, it is remembered from the time its boot may have ended, for as long as messages of it may be in flight. */
STAGE_TEST(bidctl_remembers_the_boot_of_a_lost_host,
	   stage_open(s, "bidctl.lifetime=10s; bidctl.interval=1ms; bidctl.retries=0;"))
{
	struct confirming c;

	meet(s, BOOT_A);
	rig_advance_ms(s->r, 1);
	check_draws_query(s, HOST, BOOT_B);
	rig_advance_ms(s->r, 300);
	expect_notified(s, "upper:lost:0 lower:lost:0 ");
	CHECK_EQ(peers(s), 1);
	CHECK(!confirm(s, &c, HOST));
	inject(s, response(s, BOOT_B, expect_query(s)));
	expect_notified(s, "upper:first:b lower:first:b ");
	answers(s, BOOT_A, BOOT_A);
	CHECK_EQ(counted(s, "ended"), 1);
	rig_advance_ms(s->r, 30000);
	CHECK_EQ(peers(s), 0);
}

/* It may return as the boot that it was. */
STAGE_TEST(bidctl_finds_a_lost_host_with_the_same_boot, stage_open(s, "bidctl.interval=1ms; bidctl.retries=0;"))
{
	meet(s, BOOT_A);
	rig_advance_ms(s->r, 1);
	check_draws_query(s, HOST, BOOT_B);
	rig_advance_ms(s->r, 300);
	expect_notified(s, "upper:lost:0 lower:lost:0 ");
	answers(s, BOOT_A, BOOT_A);
	expect_notified(s, "upper:first:a lower:first:a ");
}

STAGE_TEST(bidctl_delays_a_change_it_could_not_remember,
	   stage_open(s, "bidctl.lifetime=60s; bidctl.interval=1ms; bidctl.retries=0;"))
{
	meet(s, BOOT_A);
	CHECK_EQ(use(s, HOST), 0);
	for (unsigned i = 1; i <= BIDCTL_ENDED_MAX; i++) {
		answers(s, BOOT_A + i, BOOT_A + i);
		s->notified[0] = '\0';
	}
	CHECK_EQ(counted(s, "reboots"), BIDCTL_ENDED_MAX);
	answers(s, BOOT_B, BOOT_B);
	CHECK_EQ(counted(s, "rebooting"), 1);
	CHECK_EQ(check_boot(s, HOST, BOOT_A + BIDCTL_ENDED_MAX), 0);
	expect_notified(s, "");
	rig_advance_ms(s->r, 59000);
	answers(s, BOOT_B, BOOT_B);
	expect_notified(s, "upper:lost:0 lower:lost:0 upper:first:b lower:first:b ");
	answers(s, BOOT_A, BOOT_A + BIDCTL_ENDED_MAX);
	CHECK_EQ(counted(s, "ended"), 1);
	unuse(s, HOST);
}

/* Hosts that reboot all the time do not use up the memory for others. */
STAGE_TEST(bidctl_bounds_the_ended_boots_it_remembers, stage_open(s, "bidctl.lifetime=10s;"))
{
	struct bidctl *b;
	uint64_t boot = 0;

	b = (struct bidctl *)s->bidctl;
	xk_lock(&b->lock);
	for (uint32_t i = 0; i < BIDCTL_ENDED_ALL / BIDCTL_ENDED_MAX; i++) {
		struct bidctl_peer *peer = bidctl_peer_get(b, HOST + i);

		peer->uses = 1; /* its timer would forget it */
		for (unsigned k = 0; k < BIDCTL_ENDED_MAX + 2; k++)
			bidctl_peer_become(peer, ++boot);
		CHECK_EQ(peer->ended_count, BIDCTL_ENDED_MAX);
	}
	CHECK_EQ(b->ended_count, BIDCTL_ENDED_ALL);
	bidctl_peer_get(b, HOST - 1)->uses = 1;
	for (unsigned i = 0; i <= BIDCTL_ENDED_FEW; i++)
		CHECK_EQ(bidctl_peer_become(bidctl_peer_get(b, HOST - 1), ++boot), 0);
	CHECK_EQ(bidctl_peer_become(bidctl_peer_get(b, HOST - 1), ++boot), BIDCTL_REBOOTING);
	xk_unlock(&b->lock);
	rig_advance_ms(s->r, 10000);
	xk_lock(&b->lock);
	for (uint32_t i = 0; i < BIDCTL_ENDED_ALL / BIDCTL_ENDED_MAX; i++) {
		struct bidctl_peer *peer = bidctl_peer_find(b, HOST + i);

		CHECK_EQ(bidctl_peer_remembers(peer), 0);
		CHECK(peer->ended == NULL);
	}
	CHECK_EQ(b->ended_count, BIDCTL_ENDED_FEW);
	xk_unlock(&b->lock);
}

/* The same for another host and one boot id. */
static void
another_answers(struct stage *s, uint32_t host, uint64_t boot)
{
	rig_advance_ms(s->r, 2);
	inject(s, response_of(s, host, boot, check_draws_query(s, host, boot)));
	s->notified[0] = '\0';
}

/* Otherwise hosts that reboot would keep newcomers out, or take memory without bound. */
STAGE_TEST(bidctl_host_with_an_ended_boot_is_replaced_last, stage_open(s, "bidctl.peers=16; bidctl.interval=1ms;"))
{
	enum { PEERS = 16, HOSTS = 3 * PEERS };
	struct bidctl *b = (struct bidctl *)s->bidctl;

	for (uint32_t i = 0; i < HOSTS; i++) {
		another_answers(s, HOST + i, BOOT_A);
		another_answers(s, HOST + i, BOOT_B);
		CHECK_EQ(check_boot(s, HOST + i, BOOT_B), 0);
		rig_advance_ms(s->r, 2);
		CHECK(peers(s) <= PEERS);
		CHECK(b->ended_count <= PEERS);
	}
	another_answers(s, OTHER + HOSTS, BOOT_A); /* has no ended boot, so it is replaced first */
	another_answers(s, OTHER + HOSTS + 1, BOOT_A);
	rig_advance_ms(s->r, 2);
	CHECK_EQ(check_boot(s, OTHER + HOSTS + 1, BOOT_A), 0);
	CHECK_EQ(check_boot(s, OTHER + HOSTS, BOOT_A), -EINPROGRESS);
	rig_forget(s->r);
	CHECK_EQ(counted(s, "full"), 0);
}
