/*
 * test_chan_attacks.c - CHAN against hostile peers and untimely messages: the traffic they draw, the memory they take,
 * and the peers they affect.
 */
#include "tests/protocols/chan_rig.h"

enum { REQUEST = CHAN_USER_MSG, AGAIN = CHAN_USER_MSG | CHAN_ACK_REQUESTED, PROBE = CHAN_ACK_REQUESTED };

/* ---- messages still in a shepherd while the host boots ---- */

struct late {
	struct rig *r;
	struct chan_header h;
	uint64_t boot;
};

static void
do_come_late(void *argument)
{
	struct late *late = argument;
	uint8_t bytes[CHAN_HEADER_LEN + 1];
	struct xk_msg *m =
		xk_msg_from(rig_platform(late->r), bytes, frame_bytes(bytes, late->h, "x", late->h.flags & 2 ? 1 : 0));

	xk_msg_annotate(m, XK_OF_MESSAGE, XK_FROM_BOOT, late->boot);
	xk_demux(rig_wire_newest_session(late->r), m);
}

/* Delivers a client's message that BID has passed as coming from `boot`. */
static void
come_late(struct rig *r, uint64_t boot, unsigned flags, uint32_t sequence)
{
	struct late late = { r, { CHANNEL, NUMBER, sequence, (uint16_t)(flags | CHAN_FROM_CLIENT), 0 }, boot };

	CHECK(rig_do(r, do_come_late, &late));
}

CHAN_TEST(chan_request_of_an_ended_boot_is_not_run_again, server_new(""))
{
	struct xk_session *s = open_channel(r, CLIENT); /* keeps the lower session */

	come_late(r, BOOT, REQUEST, 5);
	expect(r, CHAN_USER_MSG, 5, "x");
	report(r, XK_BIDCTL_REBOOTED, CLIENT, BOOT + 1);
	come_late(r, BOOT, REQUEST, 5);
	rig_expect_nothing_sent(r);
	CHECK_EQ(executed(r), 1);
	CHECK_EQ(rig_counter(r, "old_boot"), 1);
	come_late(r, BOOT + 1, REQUEST, 9);
	expect(r, CHAN_USER_MSG, 9, "x");
	CHECK_EQ(executed(r), 2);
	come_late(r, BOOT + 1, 0, 10);
	close_channel(r, s);
}

CHAN_SESSION_TEST(chan_request_of_a_lost_host_opens_nothing, server_new(""), open_channel(r, CLIENT))
{
	report(r, XK_BIDCTL_LOST, CLIENT, 0);
	come_late(r, BOOT, REQUEST, 5);
	CHECK_EQ(executed(r), 0);
	CHECK_EQ(rig_counter(r, "old_boot"), 1);
	report(r, XK_BIDCTL_FIRST_CONTACT, CLIENT, BOOT);
	come_late(r, BOOT, REQUEST, 5);
	expect(r, CHAN_USER_MSG, 5, "x");
	come_late(r, BOOT, 0, 6);
	close_channel(r, s);
}

/* ---- requests that overtake the opening of their channel ---- */

RIG_TEST(chan_request_overtaking_its_open_leaves_nothing_behind, server_new(""))
{
	caller_in(r)->open_waits = true;
	ask(r, REQUEST, 5, "x"); /* waits in open_done */
	CHECK_EQ(executed(r), 0);
	call_once(r, 5, "x");
	go(r);
	CHECK_EQ(executed(r), 1);
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	ask(r, 0, 6, "");
	rig_advance_ms(r, 600000);
	CHECK_EQ(rig_counter(r, "forgotten"), 1);
	CHECK_EQ(rig_wire_session_count(r), 0); /* the channel has released it */
}

/* ---- forgotten calls, and clients more patient than the server's memory ---- */

/* Retransmits a request age_ms after its call began. */
static void
ask_again_after(struct rig *r, uint32_t channel, uint64_t age_ms)
{
	inject(r, (struct chan_header){ channel, NUMBER, 5, CHAN_FROM_CLIENT | AGAIN, chan_age_pack(age_ms * 1000000) },
	       "x");
}

CHAN_TEST(chan_possibly_forgotten_call_is_not_run_again, server_new("chan.silence=4s;chan.lifetime=8s"))
{
	call_once(r, 5, "x");
	ask(r, 0, 6, "");
	rig_advance_ms(r, 10000);
	CHECK_EQ(rig_counter(r, "forgotten"), 1);
	ask_again_after(r, CHANNEL,
			10000); /* its reply never came, according to a client that has waited all the time */
	CHECK_EQ(expect(r, CHAN_ERROR, 5, "").h.status, ETIMEDOUT);
	CHECK_EQ(executed(r), 1);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	ask_again_after(r, CHANNEL, 3990);
	expect(r, CHAN_USER_MSG, 5, "x");
	ask_again_after(r, CHANNEL + 1, 4010);
	CHECK_EQ(expect(r, CHAN_ERROR, 5, "").h.status, ETIMEDOUT);
	ask(r, 0, 6, "");
}

static void
check_age(struct frame f, uint64_t ms)
{
	CHECK(chan_age_ns(f.h.status) > ms * 1000000);
	CHECK(chan_age_ns(f.h.status) < ms * 1003000 + 2000);
}

CLIENT_TEST(chan_retransmitted_request_bears_its_calls_age, "")
{
	struct frame f;

	CHECK_EQ(call_async(r, c, s, "x"), 0);
	CHECK_EQ(expect(r, CHAN_FROM_CLIENT | REQUEST, 1, "x").h.status, 0);
	rig_advance_ms(r, 200);
	check_age(expect(r, CHAN_FROM_CLIENT | AGAIN, 1, "x"), 200);
	rig_advance_ms(r, 400);
	f = expect(r, CHAN_FROM_CLIENT | AGAIN, 1, "x");
	check_age(f, 600);
	rig_advance_ms(r, 10);
	answer(r, f, CHAN_NEGATIVE_ACK, 0, "");
	check_age(expect(r, CHAN_FROM_CLIENT | REQUEST, 1, "x"), 610);
	answer(r, f, 0, 0, ""); /* a probe does not report it */
	rig_advance_ms(r, 2000);
	CHECK_EQ(expect(r, CHAN_FROM_CLIENT | PROBE, 1, "").h.status, 0);
	answer(r, f, CHAN_USER_MSG, 0, "y");
	CHECK_EQ(c->status, 0);
}

TEST(chan_ages_are_never_understated)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < 2000; i++, ns += ns / 40 + 999) {
		uint64_t age_ns = chan_age_ns(chan_age_pack(ns));

		CHECK(age_ns >= ns || ns > UINT64_C(4000000000000000));
		CHECK(age_ns <= ns + ns / 400 + 2000);
	}
	CHECK(chan_age_ns(chan_age_pack(UINT64_MAX)) > UINT64_C(4000000000000000));
}

/* ---- traffic drawn by bare headers ---- */

CHAN_TEST(chan_flood_of_probes_draws_few_replies, server_new(""))
{
	call_once(r, 5, "x");
	for (unsigned i = 0; i < 1000; i++) {
		ask(r, i % 3 == 0 ? AGAIN : i % 3 == 1 ? PROBE : CHAN_NEGATIVE_ACK, 5, i % 3 == 0 ? "x" : "");
		if (i % 100 == 99)
			rig_advance_ms(r, 1);
	}
	CHECK(rig_sent(r) <= 3);
	CHECK(rig_counter(r, "too_soon") > 990);
	rig_forget(r);
	rig_advance_ms(r, 5);
	draw(r, PROBE, 5, "", CHAN_USER_MSG, "x");
	ask(r, 0, 6, "");
}

/* Returns the number of full frames sent with the message; others are bare headers. */
static unsigned
full_ones(struct rig *r, size_t len)
{
	unsigned count = 0;

	for (struct frame f = take(r); f.h.flags != 0xffff; f = take(r))
		count += f.len == len;
	return count;
}

CHAN_TEST(chan_unacknowledged_reply_is_sent_at_most_four_times, server_new(""))
{
	ask(r, REQUEST, 5, "hello");
	rig_advance_ms(r, 60000);
	CHECK_EQ(rig_counter(r, "repeated"), 3);
	CHECK_EQ(rig_counter(r, "withheld"), 5); /* probes, which would be as long */
	CHECK_EQ(rig_counter(r, "given_up"), 1);
	CHECK_EQ(full_ones(r, 5), 4);
}

TEST(chan_probes_draw_three_more_replies_and_then_an_ack)
{
	static const unsigned questions[] = { CHAN_NEGATIVE_ACK, PROBE, AGAIN };
	struct rig *r = server_new("chan.timeout=20s;chan.timeout_max=20s"); /* no timer of its own */

	for (unsigned i = 0; i < 3; i++) {
		uint32_t sequence = 5 + i;

		ask(r, REQUEST, sequence, "hello");
		for (unsigned k = 0; k < 200; k++) {
			rig_advance_ms(r, 6);
			ask(r, questions[i], sequence, questions[i] == AGAIN ? "hello" : "");
		}
		CHECK_EQ(full_ones(r, 5), 4);
		CHECK_EQ(rig_counter(r, "withheld"), 197 * (i + 1));
	}
	CHECK_EQ(executed(r), 3);
	ask(r, 0, 8, "");
	chan_rig_end(r);
}

/* A client that received other replies may have more retransmissions of one that is lost. */
CHAN_TEST(chan_delivered_replies_earn_retransmissions_of_a_lost_one, server_new(""))
{
	for (uint32_t i = 5; i < 25; i++)
		ask(r, REQUEST, i, "hello");
	rig_forget(r);
	for (unsigned k = 0; k < 100; k++) {
		rig_advance_ms(r, 6);
		ask(r, CHAN_NEGATIVE_ACK, 24, "");
	}
	CHECK_EQ(full_ones(r, 5), 8);
	ask(r, 0, 25, "");
	rig_advance_ms(r, 61000); /* the credit expires within a minute */
	ask(r, REQUEST, 25, "hello");
	rig_forget(r);
	for (unsigned k = 0; k < 20; k++) {
		rig_advance_ms(r, 6);
		ask(r, CHAN_NEGATIVE_ACK, 25, "");
	}
	CHECK_EQ(full_ones(r, 5), 3);
	ask(r, 0, 26, "");
}

/* Without an answer, four times; up to five times more if the server answers the client's questions. */
CLIENT_TEST(chan_request_is_sent_at_most_nine_times, "")
{
	struct frame f;
	unsigned again = 0;

	CHECK_EQ(call_async(r, c, s, "hello"), 0);
	f = expect(r, CHAN_FROM_CLIENT | REQUEST, 1, "hello");
	for (unsigned i = 0; i < 5000; i++) {
		rig_advance_ms(r, 6);
		answer(r, f, CHAN_NEGATIVE_ACK, 0, "");
		again += full_ones(r, 5);
	}
	CHECK_EQ(again, 8);
	rig_advance_ms(r, 30000); /* draws nothing */
	CHECK_EQ(c->status, -ETIMEDOUT);
	CHECK_EQ(full_ones(r, 5), 0);
	CHECK_EQ(call_async(r, c, s, "hello"), 0);
	rig_advance_ms(r, 30000);
	CHECK_EQ(full_ones(r, 5), 4);
	CHECK(rig_counter(r, "probed") > 5);
}

CLIENT_TEST(chan_flood_of_negative_acks_draws_few_requests, "")
{
	struct frame f;

	CHECK_EQ(call_async(r, c, s, "x"), 0);
	f = expect(r, CHAN_FROM_CLIENT | REQUEST, 1, "x");
	rig_advance_ms(r, 50);
	for (unsigned i = 0; i < 1000; i++)
		answer(r, f, CHAN_NEGATIVE_ACK, 0, "");
	CHECK_EQ(rig_sent(r), 1);
	CHECK_EQ(rig_counter(r, "too_soon"), 999);
	rig_forget(r);
	answer(r, f, CHAN_USER_MSG, 0, "y");
	CHECK_EQ(c->status, 0);
}

/* ---- buffers below, of which a peer may take all ---- */

enum { BLAST_LEN = 24, ON_BLAST = 0x3003 };

/* Returns CHAN over BLAST, which keeps one long message per peer. */
static struct rig *
rig_with_blast(void)
{
	return rig_new_prepared("wire:; blast: wire; blast.outstanding=1; blast.keep=4s; chan: blast",
				chan_rig_prepare);
}

/* Injects a short BLAST message. */
static void
inject_through_blast(struct rig *r, struct chan_header h, const char *text)
{
	uint8_t bytes[BLAST_LEN + CHAN_HEADER_LEN + 16] = { 0 };
	size_t len = frame_bytes(bytes + BLAST_LEN, h, text, strlen(text));

	xk_put32(bytes, ON_BLAST);
	xk_put32(bytes + 8, (uint32_t)len);
	bytes[14] = 1;
	bytes[15] = 64;
	rig_inject_bytes(r, bytes, BLAST_LEN + len);
}

static unsigned
parked(struct rig *r)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(rig_kernel(r), &stats);
	return stats.stacks_parked;
}

CHAN_TEST(chan_reply_without_room_below_blocks_nobody, rig_with_blast())
{
	struct chan_header h = { CHANNEL, NUMBER, 5, CHAN_FROM_CLIENT | REQUEST, 0 };

	CHECK_EQ(serve(r, true), 0);
	caller_in(r)->reply_len = 2000;
	for (; h.channel < CHANNEL + 4; h.channel++)
		inject_through_blast(r, h, "x");
	CHECK_EQ(executed(r), 4);
	CHECK_EQ(parked(r), 0); /* nobody waits until the peer acknowledges the first */
	CHECK_EQ(rig_counter_of(r, "blast", "displaced"), 3);
	rig_expect_sent_count(r, 4 * 2);
	rig_advance_ms(r, 5000);
	rig_forget(r);
	h = (struct chan_header){ CHANNEL + 2, NUMBER, 5, CHAN_FROM_CLIENT | PROBE, 0 };
	inject_through_blast(r, h, ""); /* a client that asks gets its reply once there is room */
	CHECK_EQ(rig_sent(r), 2);
	CHECK_EQ(executed(r), 4);
	rig_advance_ms(r, 600000);
	rig_forget(r);
}

CHAN_TEST(chan_asynchronous_call_never_waits_for_room, rig_with_blast())
{
	struct xk_session *s = open_channel(r, SERVER), *other = open_channel(r, SERVER);
	struct calling c, d;

	CHECK_EQ(call_async_long(r, &c, s, 2000), 0);
	CHECK_EQ(call_async_long(r, &d, other, 2000), 0); /* on any shepherd */
	CHECK_EQ(parked(r), 0);
	CHECK_EQ(rig_counter_of(r, "blast", "displaced"), 1);
	CHECK_EQ(c.done + d.done, 0);
	rig_advance_ms(r, 60000);
	CHECK_EQ(c.status, -ETIMEDOUT);
	CHECK_EQ(d.status, -ETIMEDOUT);
	rig_forget(r);
	close_channel(r, s);
	close_channel(r, other);
}

CHAN_TEST(chan_caller_waits_for_room_below, rig_with_blast())
{
	struct xk_session *s = open_channel(r, SERVER), *other = open_channel(r, SERVER);
	struct calling c, d = { .s = other, .len = 2000 };

	CHECK_EQ(call_async_long(r, &c, s, 2000), 0);
	rig_forget(r);
	CHECK(!rig_do(r, do_call, &d));
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter_of(r, "blast", "no_slot"), 0);
	rig_advance_ms(r, 60000);
	CHECK_EQ(d.status, -ETIMEDOUT);
	rig_forget(r);
	close_channel(r, s);
	close_channel(r, other);
}

/* ---- servers that lie ---- */

CHAN_SESSION_TEST(chan_servers_cannot_forge_chans_own_errors, chan_rig(""), open_channel(r, SERVER))
{
	static const int fates[] = { ETIMEDOUT, ECONNRESET, ECONNREFUSED, EBUSY, ECANCELED, EMSGSIZE, ENOBUFS };
	struct calling c;
	uint32_t sequence = 1;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(fates); i++) {
		CHECK_EQ(call_async(r, &c, s, "x"), 0);
		answer(r, expect(r, CHAN_FROM_CLIENT | REQUEST, sequence++, "x"), CHAN_USER_MSG | CHAN_ERROR,
		       (unsigned)fates[i], "");
		CHECK_EQ(c.status, -EREMOTEIO);
		CHECK_EQ(call_async(r, &c, s, "x"), 0);
		answer(r, expect(r, CHAN_FROM_CLIENT | REQUEST, sequence++, "x"), CHAN_ERROR, (unsigned)fates[i], "");
		CHECK_EQ(c.status, fates[i] == ETIMEDOUT || fates[i] == ECONNREFUSED ? -fates[i] : -EREMOTEIO);
	}
	close_channel(r, s);
}

/* ---- buffers of kept replies ---- */

CHAN_TEST(chan_replies_are_charged_by_the_buffers_they_keep, server_new("chan.saved=16384"))
{
	caller_in(r)->reply_len = 65;
	for (uint32_t i = 0; i < 8; i++) {
		inject(r, (struct chan_header){ CHANNEL + i, NUMBER, 5, CHAN_FROM_CLIENT | REQUEST, 0 }, "x");
		CHECK_EQ(expect(r, CHAN_USER_MSG, 5, NULL).len, 65);
	}
	CHECK_EQ(rig_counter(r, "unsaved"), 4);
	rig_advance_ms(r, 60000);
	rig_forget(r);
	CHECK_EQ(xk_kept(rig_protocol(r, "chan")), 0);
}
