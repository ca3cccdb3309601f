/*
 * test_chan_shares.c - a server whose channels are all in use: which channel makes room for which newcomer, what is
 * remembered of it so that nothing runs twice, and which memory that takes.
 */
#include <time.h>

#include "tests/protocols/chan_rig.h"

enum {
	REQUEST = CHAN_USER_MSG,
	AGAIN = CHAN_USER_MSG | CHAN_ACK_REQUESTED,
	NEAR = 0x0a4d0100,  /* hosts of one network */
	OTHER = 0x0a4e0100, /* ... of another */
};

static struct chan *
chan_in(struct rig *r)
{
	return (struct chan *)rig_protocol(r, "chan");
}

static unsigned
channels_of(struct rig *r, uint32_t host)
{
	const struct chan_peer *peer = xk_map_resolve(&chan_in(r)->peers, (struct xk_key){ host, 0 });

	return peer == NULL ? 0 : peer->served;
}

static uint64_t
in_use(struct rig *r)
{
	return chan_in(r)->shares.all.held;
}

/* Lets messages come from that host, behind that station, from now on. */
static void
from(struct rig *r, uint64_t station, uint32_t host)
{
	rig_answer_control(r, XK_GET_PEER_LINK, &station, sizeof(station));
	rig_wire_peer(r, host);
}

static void
send(struct rig *r, uint32_t channel, unsigned flags, uint32_t sequence)
{
	inject(r, (struct chan_header){ channel, NUMBER, sequence, (uint16_t)(flags | CHAN_FROM_CLIENT), 0 },
	       flags & CHAN_USER_MSG ? "x" : "");
}

/*
 * Calls on `count` new channels and acknowledges the replies. Returns the number of calls run; the others must be
 * refused by name.
 */
static unsigned
call_on(struct rig *r, uint32_t first, unsigned count)
{
	unsigned good = 0;

	for (uint32_t i = first; i < first + count; i++) {
		struct frame f;

		send(r, i, REQUEST, 1);
		f = take(r);
		good += f.h.flags == CHAN_USER_MSG;
		if (f.h.flags != CHAN_USER_MSG) {
			CHECK_EQ(f.h.flags, CHAN_ERROR);
			CHECK_EQ(f.h.status, ECONNREFUSED);
			continue;
		}
		send(r, i, 0, 2);
	}
	rig_expect_nothing_sent(r);
	return good;
}

/* Returns a server on which NEAR has called on `near` new channels, and then OTHER on `other`. */
static struct rig *
server_shared(const char *settings, unsigned near, unsigned other)
{
	struct rig *r = server_new(settings);

	from(r, 1, NEAR);
	CHECK_EQ(call_on(r, 0, near), near);
	from(r, 2, OTHER);
	CHECK_EQ(call_on(r, 0, other), other);
	return r;
}

/* ---- shares ---- */

CHAN_TEST(chan_addresses_of_one_machine_leave_channels_to_others, server_new("chan.channels=256;chan.peer_channels=4"))
{
	for (uint32_t i = 0; i < 64; i++) {
		from(r, 0xa77ac4, NEAR + i);
		CHECK_EQ(call_on(r, 0, 4), 4);
	}
	CHECK_EQ(in_use(r), 256);
	from(r, 0xbeef, NEAR + 100); /* of the same network */
	CHECK_EQ(call_on(r, 0, 4), 4);
	from(r, 0xcafe, OTHER);
	CHECK_EQ(call_on(r, 0, 4), 4);
	CHECK_EQ(in_use(r), 256);
	rig_expect_counts(r, "evicted=8 too_many=0");
}

CHAN_TEST(chan_network_behind_a_router_leaves_channels_to_others, server_new("chan.channels=64;chan.peer_channels=4"))
{
	for (uint32_t i = 0; i < 16; i++) {
		from(r, 0x204e4, NEAR + i);
		CHECK_EQ(call_on(r, 0, 4), 4);
	}
	from(r, 0x204e4, OTHER);
	CHECK_EQ(call_on(r, 0, 4), 4);
	CHECK_EQ(channels_of(r, OTHER), 4);
}

CHAN_TEST(chan_host_leaves_channels_to_others_of_its_network, server_new("chan.channels=8"))
{
	from(r, 0x204e4, NEAR);
	CHECK_EQ(call_on(r, 0, 8), 8);
	from(r, 0x204e4, NEAR + 1);
	CHECK_EQ(call_on(r, 0, 8), 8); /* half of them replace its own */
	CHECK_EQ(channels_of(r, NEAR), 4);
	CHECK_EQ(channels_of(r, NEAR + 1), 4);
	CHECK_EQ(rig_counter(r, "evicted"), 8);
	for (uint32_t i = 100; i < 104; i++) { /* none is idle any more */
		send(r, i, REQUEST, 1);
		expect(r, CHAN_USER_MSG, 1, "x");
	}
	CHECK_EQ(call_on(r, 104, 1), 0);
	CHECK_EQ(rig_counter(r, "too_many"), 1);
	rig_advance_ms(r, 60000);
	rig_forget(r);
}

CHAN_TEST(chan_shares_become_equal_in_any_order, server_new("chan.channels=60"))
{
	for (uint32_t i = 0; i < 4; i++) {
		from(r, 0x57a7 + i, NEAR + i);
		call_on(r, 0, 60);
	}
	for (uint32_t i = 0; i < 4; i++) {
		CHECK(channels_of(r, NEAR + i) >= 14);
		CHECK(channels_of(r, NEAR + i) <= 17);
	}
	CHECK_EQ(in_use(r), 60);
}

/* Channels that it lost, to others or to itself, count as its own for a while. */
CHAN_TEST(chan_taking_channels_one_by_one_gains_nothing, server_shared("chan.channels=8", 8, 4))
{
	from(r, 1, NEAR);
	CHECK_EQ(call_on(r, 100, 50), 50);
	CHECK_EQ(channels_of(r, NEAR), 4);
	CHECK_EQ(channels_of(r, OTHER), 4);
	rig_advance_ms(r, 110000);
	rig_forget(r);
	CHECK_EQ(in_use(r), 8);
	rig_advance_ms(r, 60000); /* all are silent */
	CHECK_EQ(in_use(r), 0);
	from(r, 1, NEAR);
	CHECK_EQ(call_on(r, 100, 8), 8);
}

/* 8 stations, 4 networks behind each, 16 hosts in each network: two channels for each. */
CHAN_TEST(chan_hundreds_of_hosts_get_equal_shares, server_new("chan.channels=1024"))
{
	unsigned least = 1024, most = 0;

	for (uint32_t i = 0; i < 512; i++) {
		from(r, 0x57a7 + i % 8, NEAR + (i % 32 << 8) + i / 32);
		call_on(r, 0, 8);
	}
	for (uint32_t i = 0; i < 512; i++) {
		unsigned ends = channels_of(r, NEAR + (i % 32 << 8) + i / 32);

		least = ends < least ? ends : least;
		most = ends > most ? ends : most;
	}
	CHECK_EQ(in_use(r), 1024);
	CHECK(least >= 1);
	CHECK(most <= 4);
}

/* ---- the channel that makes room ---- */

CHAN_TEST(chan_idle_channel_is_replaced_before_an_unacknowledged_one, server_new("chan.channels=3"))
{
	struct xk_session *first;

	from(r, 1, NEAR);
	send(r, 0, REQUEST, 1); /* never acknowledged */
	expect(r, CHAN_USER_MSG, 1, "x");
	CHECK_EQ(call_on(r, 1, 2), 2);
	first = rig_wire_newest_session(r);
	from(r, 2, OTHER);
	CHECK_EQ(call_on(r, 0, 1), 1);
	CHECK(xk_map_resolve(&chan_in(r)->protocol.table.sessions, chan_key(first, NUMBER, 0, true)) != NULL);
	CHECK(xk_map_resolve(&chan_in(r)->protocol.table.sessions, chan_key(first, NUMBER, 1, true)) == NULL);
	rig_advance_ms(r, 60000);
	rig_forget(r);
}

CHAN_TEST(chan_unacknowledged_replies_keep_nobody_out, server_new("chan.channels=4"))
{
	from(r, 1, NEAR);
	caller_in(r)->reply_len = 100;
	for (uint32_t i = 0; i < 4; i++) {
		send(r, i, REQUEST, 1);
		CHECK_EQ(expect(r, CHAN_USER_MSG, 1, NULL).len, 100);
	}
	CHECK_EQ(xk_kept(&chan_in(r)->protocol), 4);
	from(r, 2, OTHER);
	CHECK_EQ(call_on(r, 0, 2), 2);
	CHECK_EQ(xk_kept(&chan_in(r)->protocol), 2); /* the buffers have come back */
	rig_advance_ms(r, 60000);
	rig_forget(r);
}

TEST(chan_running_channel_stays_and_the_newcomer_is_refused)
{
	struct rig *r = server_new("chan.channels=2");

	caller_in(r)->waits = true;
	from(r, 1, NEAR);
	send(r, 0, REQUEST, 1);
	caller_in(r)->running = 0;
	send(r, 1, REQUEST, 1);
	from(r, 2, OTHER);
	send(r, 0, REQUEST, 1);
	CHECK_EQ(expect(r, CHAN_ERROR, 1, "").h.status, ECONNREFUSED);
	rig_expect_counts(r, "too_many=1 evicted=0");
	caller_in(r)->running = 1;
	go(r);
	caller_in(r)->running = 1;
	go(r);
	rig_advance_ms(r, 60000);
	rig_forget(r);
	chan_rig_end(r); /* nothing is left of the attempt */
}

/* ---- remembered calls ---- */

CHAN_TEST(chan_call_of_a_replaced_channel_is_not_run_again, server_new("chan.channels=2"))
{
	from(r, 1, NEAR);
	for (uint32_t i = 0; i < 2; i++) {
		send(r, i, REQUEST, 7);
		expect(r, CHAN_USER_MSG, 7, "x");
		send(r, i, 0, 8);
	}
	from(r, 2, OTHER);
	CHECK_EQ(call_on(r, 0, 1), 1);
	CHECK_EQ(executed(r), 3);
	from(r, 1, NEAR); /* through another lower session: the former one may be gone */
	send(r, 0, REQUEST, 7);
	CHECK_EQ(expect(r, CHAN_ERROR, 7, "").h.status, ETIMEDOUT); /* it was run, or may have been */
	send(r, 0, AGAIN, 6);
	CHECK_EQ(expect(r, CHAN_ERROR, 6, "").h.status, ETIMEDOUT);
	CHECK_EQ(rig_counter(r, "stale"), 2);
	CHECK_EQ(executed(r), 3);
	rig_advance_ms(r, 119000);
	send(r, 0, REQUEST, 7);
	CHECK_EQ(expect(r, CHAN_ERROR, 7, "").h.status, ETIMEDOUT);
}

CHAN_TEST(chan_next_call_of_a_replaced_channel_is_run, server_shared("chan.channels=2;chan.peer_channels=2", 2, 1))
{
	report(r, XK_BIDCTL_REBOOTED, OTHER, BOOT + 1); /* frees channels */
	from(r, 1, NEAR);
	send(r, 0, REQUEST, 1);
	CHECK_EQ(expect(r, CHAN_ERROR, 1, "").h.status, ETIMEDOUT);
	send(r, 0, REQUEST, 2);
	expect(r, CHAN_USER_MSG, 2, "x");
	send(r, 0, REQUEST, 1);
	send(r, 0, REQUEST, 2);
	rig_expect_nothing_sent(r);
	CHECK_EQ(executed(r), 4);
	CHECK_EQ(chan_in(r)->memories, 0);
	send(r, 0, 0, 3);
}

CHAN_TEST(chan_returning_channel_leaves_other_memories, server_shared("chan.channels=4", 4, 2))
{
	CHECK_EQ(chan_in(r)->memories, 2);
	report(r, XK_BIDCTL_REBOOTED, OTHER, BOOT + 1); /* frees channels */
	from(r, 1, NEAR);
	send(r, 0, REQUEST, 2);
	expect(r, CHAN_USER_MSG, 2, "x");
	send(r, 0, 0, 3);
	CHECK_EQ(chan_in(r)->memories, 1);
	send(r, 1, REQUEST, 1);
	CHECK_EQ(expect(r, CHAN_ERROR, 1, "").h.status, ETIMEDOUT);
	CHECK_EQ(executed(r), 7);
}

RIG_TEST(chan_memory_of_a_channel_ends_after_lifetime, server_shared("chan.channels=4", 4, 2))
{
	CHECK_EQ(chan_in(r)->memories, 2);
	rig_advance_ms(r, 119000);
	CHECK_EQ(chan_in(r)->memories, 2);
	rig_advance_ms(r, 32000);
	CHECK_EQ(chan_in(r)->memories, 0);
	rig_advance_ms(r, 120000);
	CHECK_EQ(xk_map_count(&chan_in(r)->peers), 0);
	CHECK_EQ(xk_map_count(&chan_in(r)->shares.holders) + xk_map_count(&chan_in(r)->saved.holders), 0);
	CHECK(LIST_EMPTY(&chan_in(r)->shares.all.within));
}

CHAN_TEST(chan_memory_of_a_channel_ends_with_the_clients_boot, server_shared("chan.channels=2", 2, 1))
{
	CHECK_EQ(chan_in(r)->memories, 1);
	report(r, XK_BIDCTL_LOST, NEAR, 0); /* it may return */
	CHECK_EQ(chan_in(r)->memories, 1);
	report(r, XK_BIDCTL_FIRST_CONTACT, NEAR, BOOT + 1);
	CHECK_EQ(chan_in(r)->memories, 0);
	from(r, 1, NEAR);
	CHECK_EQ(call_on(r, 0, 1), 1); /* the new boot's own */
}

TEST(chan_memory_of_channels_is_bounded_per_host_and_in_total)
{
	struct rig *r = server_new("chan.channels=2");

	from(r, 1, NEAR);
	CHECK_EQ(call_on(r, 0, 2), 2);
	CHECK_EQ(call_on(r, 100, 40), 16); /* replacing its own */
	for (uint32_t i = 0; i < 20; i++) {
		from(r, 2, OTHER);
		CHECK_EQ(call_on(r, 0, 1), i < 16);
		report(r, XK_BIDCTL_REBOOTED, OTHER, BOOT + 1 + i);
		from(r, 1, NEAR);
		CHECK_EQ(call_on(r, 1000 + i, 1), i < 16);
	}
	CHECK_EQ(chan_in(r)->memories, 32);
	chan_rig_end(r);
	r = server_new("chan.channels=4;chan.peer_channels=4");
	from(r, 1, NEAR);
	CHECK_EQ(call_on(r, 0, 4), 4);
	from(r, 2, OTHER);
	CHECK_EQ(call_on(r, 0, 2), 2);
	report(r, XK_BIDCTL_REBOOTED, OTHER, BOOT + 1); /* frees two channels */
	report(r, XK_BIDCTL_FIRST_CONTACT, NEAR, BOOT);
	from(r, 1, NEAR);
	CHECK_EQ(call_on(r, 100, 2), 0);
	CHECK_EQ(rig_counter(r, "too_many"), 2);
	chan_rig_end(r);
}

/* ---- kept replies ---- */

TEST(chan_replies_to_one_network_leave_room_for_another)
{
	struct rig *r = server_new("chan.saved=20480"); /* ten buffers */

	caller_in(r)->reply_len = 100;
	for (uint32_t i = 0; i < 8; i++) { /* as many hosts of one machine */
		from(r, 1, NEAR + i);
		send(r, i, REQUEST, 1);
		CHECK_EQ(expect(r, CHAN_USER_MSG, 1, NULL).len, 100);
	}
	CHECK_EQ(xk_kept(&chan_in(r)->protocol), 5);
	CHECK_EQ(rig_counter(r, "unsaved"), 3);
	from(r, 2, OTHER);
	for (uint32_t i = 0; i < 4; i++) {
		send(r, i, REQUEST, 1);
		CHECK_EQ(expect(r, CHAN_USER_MSG, 1, NULL).len, 100);
	}
	CHECK_EQ(xk_kept(&chan_in(r)->protocol), 8);
	CHECK_EQ(rig_counter(r, "unsaved"), 4);
	for (uint32_t i = 0; i < 4; i++)
		send(r, i, 0, 2); /* acknowledged */
	CHECK_EQ(xk_kept(&chan_in(r)->protocol), 5);
	rig_advance_ms(r, 60000);
	rig_forget(r);
	CHECK_EQ(xk_kept(&chan_in(r)->protocol), 0);
	chan_rig_end(r);
}

/* ---- the cost of a newcomer ---- */

/* Returns the least processor time of a newcomer's request at a server that `hosts` hosts have called. */
static uint64_t
cost_ns(const char *settings, uint32_t hosts)
{
	struct rig *r = server_new(settings);
	struct timespec begun, over;
	uint64_t least_ns = UINT64_MAX, ns;

	for (uint32_t i = 0; i < hosts; i++) {
		from(r, 1, NEAR + i);
		call_on(r, 0, 1);
	}
	for (uint32_t i = 0; i < 100; i++) {
		from(r, 2, OTHER + hosts + i);
		/* The process's clock is coarse under a limit on processor time. */
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
		send(r, 0, REQUEST, 1);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &over);
		ns = (uint64_t)(over.tv_sec - begun.tv_sec) * 1000000000 + (uint64_t)over.tv_nsec -
		     (uint64_t)begun.tv_nsec;
		least_ns = ns < least_ns ? ns : least_ns;
		if (take(r).h.flags == CHAN_USER_MSG)
			send(r, 0, 0, 2);
	}
	CHECK(rig_counter(r, "evicted") > 0);
	chan_rig_end(r);
	return least_ns;
}

TEST(chan_newcomer_costs_no_more_beside_thousands_of_hosts)
{
	uint64_t many_ns = cost_ns("", 8000), few_ns = cost_ns("chan.channels=4096;chan.hosts=128", 256);

	CHECK(few_ns > 0 && many_ns < 3 * few_ns);
}
