/*
 * test_stream.c - tests of lab 5 beyond the visible ones: how the window grows and shrinks, what is sent again, what is
 * timed, and which segments must have no effect.
 */
#include <errno.h>
#include <stdlib.h>

#include "stream.h"

#include "protocols/tcp/tcp.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum { ME = 0x0a4d0001, PEER = 0x0a4d0002, PORT = 5001, PEER_FIRST = 1000, ROOM = 2048 };

static void
prepare(struct rig *r)
{
	static const uint64_t me = ME, peer = PEER;
	static const uint32_t max = 1480;

	rig_answer_control(r, XK_GET_MY_HOST, &me, sizeof(me));
	rig_answer_control(r, XK_GET_PEER_HOST, &peer, sizeof(peer));
	rig_answer_control(r, XK_GET_MAX_PACKET, &max, sizeof(max));
	rig_answer_control(r, XK_GET_OPT_PACKET, &max, sizeof(max));
}

/* A stream that a test has opened. Places of bytes count from 0. */
struct stream_test {
	struct rig *r;
	struct xk_session *s;
	uint16_t port;
	uint16_t window; /* the peer's */
	uint32_t number; /* the peer's next */
	bool told;       /* sent() has seen a FIN */
};

/* Sends a segment to the host that acknowledges everything before this place. */
static void
arrive(struct stream_test *t, uint32_t place, uint8_t flags, const char *payload)
{
	struct stream_header h = { .source = PORT,
				   .destination = t->port,
				   .sequence = t->number,
				   .acknowledgement = STREAM_FIRST + 1 + place,
				   .offset = 5,
				   .flags = flags,
				   .window = t->window };
	uint8_t p[ROOM] = { 0 }, pseudo[12] = { [9] = 6 };
	size_t len = STREAM_HEADER_LEN + strlen(payload);

	stream_store(p, &h);
	memcpy(p + STREAM_HEADER_LEN, payload, len - STREAM_HEADER_LEN);
	xk_put32(pseudo, PEER);
	xk_put32(pseudo + 4, ME);
	xk_put16(pseudo + 10, (uint16_t)len);
	xk_checksum_store(p + XK_OFFSET(stream, checksum),
			  xk_checksum_finish(xk_sum(xk_sum(0, pseudo, sizeof(pseudo)), p, len)));
	rig_inject_bytes(t->r, p, len);
}

static void
ack(struct stream_test *t, uint32_t place)
{
	arrive(t, place, STREAM_ACK, "");
}

/* Takes the next segment that was sent: stores the place of its first byte. Returns its bytes; -1: there is none. */
static long
take(struct stream_test *t, uint32_t *place)
{
	uint8_t p[ROOM];
	long len = rig_take_sent(t->r, p, sizeof(p));

	if (len < STREAM_HEADER_LEN)
		return -1;
	*place = (uint32_t)XK_GET(stream, sequence, p) - STREAM_FIRST - 1;
	t->port = (uint16_t)XK_GET(stream, source, p);
	t->told = (XK_GET(stream, flags, p) & STREAM_FIN) != 0;
	return len - STREAM_HEADER_LEN;
}

/* Returns whether the next segment sent is this one. */
static bool
sent(struct stream_test *t, uint32_t place, long len)
{
	uint32_t got;

	return take(t, &got) == len && got == place;
}

/* Returns how many full segments were sent, in order, from a place on, and no others. */
static unsigned
sent_from(struct stream_test *t, uint32_t place)
{
	unsigned count = 0;
	uint32_t got;

	for (; take(t, &got) == STREAM_SEGMENT && got == place; count++)
		place += STREAM_SEGMENT;
	rig_expect_nothing_sent(t->r);
	return count;
}

static void
push(struct stream_test *t, unsigned segments)
{
	static uint8_t bytes[STREAM_SEGMENT];

	for (unsigned i = 0; i < segments; i++)
		CHECK_EQ(rig_push_bytes(t->r, t->s, bytes, sizeof(bytes)), 0);
}

/* Opens a stream to a peer whose window is so large. */
static struct stream_test
opened(uint16_t window)
{
	struct stream_test t = { .r = rig_new_prepared("wire:; stream: wire; user: stream", prepare),
				 .window = window };
	uint32_t place;

	t.s = rig_must_open(t.r, rig_to2(PEER, PORT, XK_ANY));
	CHECK_EQ(take(&t, &place), 0);
	CHECK_EQ(place, UINT32_MAX);
	t.number = PEER_FIRST;
	arrive(&t, 0, STREAM_SYN | STREAM_ACK, "");
	t.number++;
	CHECK(sent(&t, 0, 0));
	return t;
}

/* Ends the test: a reset ends the stream, which otherwise holds its session until it is given up. */
static void
end(struct stream_test *t)
{
	arrive(t, 0, STREAM_RST, "");
	rig_advance_ms(t->r, STREAM_TIMEOUT_MAX_MS);
	rig_forget(t->r);
	rig_free(t->r);
}

/* Acknowledges one segment after another, until so many are in flight; returns the place of the oldest. */
static uint32_t
grow(struct stream_test *t, unsigned segments)
{
	uint32_t una = 0;

	push(t, 100);
	CHECK_EQ(sent_from(t, 0), STREAM_INITIAL);
	for (unsigned flight = STREAM_INITIAL; flight < segments; flight++) {
		una += STREAM_SEGMENT;
		ack(t, una);
		CHECK_EQ(sent_from(t, una + (flight - 1) * STREAM_SEGMENT), 2);
	}
	return una;
}

/* Sends so many duplicates, and checks that nothing is sent. */
static void
duplicates(struct stream_test *t, uint32_t una, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		ack(t, una);
	rig_expect_nothing_sent(t->r);
}

/* Loses the oldest of so many segments in flight, and repairs it. Returns the place of the oldest then. */
static uint32_t
recover(struct stream_test *t, unsigned segments)
{
	uint32_t una = grow(t, segments), next = una + segments * STREAM_SEGMENT;

	duplicates(t, una, 2);
	ack(t, una);
	CHECK_EQ(sent_from(t, una), 1);
	for (unsigned i = 3; i < segments / 2; i++)
		duplicates(t, una, 1);
	ack(t, next);
	CHECK_EQ(sent_from(t, next), segments / 2);
	return next;
}

TEST(the_peers_window_may_shrink_and_grow)
{
	struct stream_test t = opened(4 * STREAM_SEGMENT);
	uint32_t una = grow(&t, 4), next = una + 4 * STREAM_SEGMENT;

	t.window = 2 * STREAM_SEGMENT;
	una += 2 * STREAM_SEGMENT;
	ack(&t, una);
	rig_expect_nothing_sent(t.r);
	t.window = 5 * STREAM_SEGMENT + 1;
	ack(&t, una);
	CHECK_EQ(sent_from(&t, next), 3);
	end(&t);
}

TEST(an_ack_of_many_segments_opens_the_window_by_two)
{
	struct stream_test t = opened(UINT16_MAX);
	uint32_t una = grow(&t, 8);

	ack(&t, una + 4 * STREAM_SEGMENT);
	CHECK_EQ(sent_from(&t, una + 8 * STREAM_SEGMENT), 6);
	end(&t);
}

TEST(fast_recovery_halves_the_window_which_then_grows_by_a_segment_in_a_round_trip)
{
	struct stream_test t = opened(UINT16_MAX);
	uint32_t una = recover(&t, 12), next = una + 6 * STREAM_SEGMENT;
	unsigned flight = 6;

	for (unsigned round = 0; round < 4; round++) {
		unsigned count = flight;

		for (unsigned i = 0; i < count; i++) {
			unsigned more;

			una += STREAM_SEGMENT;
			ack(&t, una);
			more = sent_from(&t, next);
			next += more * STREAM_SEGMENT;
			flight += more - 1;
		}
		CHECK(flight <= count + 1);
	}
	CHECK(flight >= 8);
	end(&t);
}

TEST(a_partial_ack_lets_the_next_lost_segment_be_sent_again)
{
	struct stream_test t = opened(UINT16_MAX);
	uint32_t una = grow(&t, 12), place;

	duplicates(&t, una, 2);
	ack(&t, una);
	CHECK_EQ(sent_from(&t, una), 1);
	ack(&t, una + 4 * STREAM_SEGMENT);
	CHECK_EQ(take(&t, &place), STREAM_SEGMENT);
	CHECK_EQ(place, una + 4 * STREAM_SEGMENT);
	rig_forget(t.r);
	end(&t);
}

TEST(more_duplicates_inflate_the_window_but_repeat_nothing)
{
	struct stream_test t = opened(UINT16_MAX);
	uint32_t una = grow(&t, 12);

	duplicates(&t, una, 2);
	ack(&t, una);
	CHECK_EQ(sent_from(&t, una), 1);
	for (unsigned i = 0; i < 3; i++) /* 6 + 3 segments are the window; 12 are in flight */
		duplicates(&t, una, 1);
	for (unsigned i = 0; i < 3; i++) {
		ack(&t, una);
		CHECK_EQ(sent_from(&t, una + (12 + i) * STREAM_SEGMENT), 1);
	}
	end(&t);
}

TEST(after_a_timeout_slow_start_ends_at_half_of_what_was_in_flight)
{
	struct stream_test t = opened(UINT16_MAX);
	uint32_t una = grow(&t, 12), next = una;
	unsigned flight = 1;

	rig_advance_ms(t.r, 3 * STREAM_TIMEOUT_MIN_MS + 50); /* two timeouts */
	CHECK(sent(&t, una, STREAM_SEGMENT));
	CHECK_EQ(sent_from(&t, una), 1);
	next += STREAM_SEGMENT;
	for (unsigned i = 0; i < 12; i++) {
		unsigned more;

		una += STREAM_SEGMENT;
		ack(&t, una);
		more = sent_from(&t, next);
		CHECK_EQ(more, i < 5 ? 2 : more);
		next += more * STREAM_SEGMENT;
		flight += more - 1;
	}
	CHECK(flight >= 6 && flight <= 8);
	end(&t);
}

TEST(a_stream_is_given_up_after_as_many_timeouts_as_the_header_says)
{
	struct stream_test t = opened(UINT16_MAX);
	unsigned tries = 0;
	uint32_t place;

	push(&t, 1);
	CHECK_EQ(sent_from(&t, 0), 1);
	rig_advance_ms(t.r, STREAM_TIMEOUT_MS + 1);
	CHECK_EQ(sent_from(&t, 0), 1);
	ack(&t, STREAM_SEGMENT); /* begins to count anew */
	push(&t, 1);
	CHECK_EQ(sent_from(&t, STREAM_SEGMENT), 1);
	for (unsigned i = 0; i < 1000; i++) {
		rig_advance_ms(t.r, 100);
		for (; take(&t, &place) == STREAM_SEGMENT; tries++)
			CHECK_EQ(place, STREAM_SEGMENT);
	}
	CHECK_EQ(tries, STREAM_TRIES);
	end(&t);
}

TEST(bytes_that_were_sent_twice_are_not_timed)
{
	struct stream_test t = opened(UINT16_MAX);

	push(&t, 1);
	CHECK_EQ(sent_from(&t, 0), 1);
	rig_advance_ms(t.r, STREAM_TIMEOUT_MS + 1);
	CHECK_EQ(sent_from(&t, 0), 1);
	rig_advance_ms(t.r, 5);
	ack(&t, STREAM_SEGMENT);
	push(&t, 1);
	CHECK_EQ(sent_from(&t, STREAM_SEGMENT), 1);
	rig_advance_ms(t.r, 2 * STREAM_TIMEOUT_MS - 1); /* still the doubled one */
	rig_expect_nothing_sent(t.r);
	rig_advance_ms(t.r, 2);
	CHECK_EQ(sent_from(&t, STREAM_SEGMENT), 1);
	end(&t);
}

TEST(an_ack_restarts_the_timeout)
{
	struct stream_test t = opened(UINT16_MAX);

	push(&t, 20);
	CHECK_EQ(sent_from(&t, 0), STREAM_INITIAL);
	rig_advance_ms(t.r, 1);
	ack(&t, STREAM_SEGMENT);
	CHECK_EQ(sent_from(&t, STREAM_INITIAL * STREAM_SEGMENT), 2);
	rig_advance_ms(t.r, STREAM_TIMEOUT_MIN_MS - 10);
	ack(&t, 2 * STREAM_SEGMENT);
	CHECK_EQ(sent_from(&t, (STREAM_INITIAL + 2) * STREAM_SEGMENT), 2);
	rig_advance_ms(t.r, STREAM_TIMEOUT_MIN_MS - 10);
	rig_expect_nothing_sent(t.r);
	end(&t);
}

TEST(acks_that_cannot_be_have_no_effect)
{
	struct stream_test t = opened(UINT16_MAX);
	uint32_t una = grow(&t, 6);

	ack(&t, una + 6 * STREAM_SEGMENT + 1);
	ack(&t, una - STREAM_SEGMENT);
	ack(&t, una - STREAM_SEGMENT);
	ack(&t, una - STREAM_SEGMENT);
	ack(&t, una - STREAM_SEGMENT);
	ack(&t, una + UINT32_MAX / 2 + 100);
	rig_expect_nothing_sent(t.r);
	ack(&t, una + STREAM_SEGMENT);
	CHECK_EQ(sent_from(&t, una + 6 * STREAM_SEGMENT), 2);
	end(&t);
}

TEST(segments_with_payload_or_another_window_are_no_duplicates)
{
	struct stream_test t = opened(UINT16_MAX);
	uint32_t una = grow(&t, 6), place;

	for (unsigned i = 1; i < 5; i++) {
		t.window = (uint16_t)(UINT16_MAX - i);
		ack(&t, una);
	}
	rig_expect_nothing_sent(t.r);
	for (unsigned i = 0; i < 5; i++) {
		arrive(&t, una, STREAM_ACK, "abc");
		CHECK_EQ(take(&t, &place), 0); /* an ACK of nothing new */
	}
	rig_expect_nothing_sent(t.r);
	end(&t);
}

TEST(a_fin_without_an_ack_is_sent_again)
{
	struct stream_test t = opened(UINT16_MAX);

	CHECK_EQ(rig_push_bytes(t.r, t.s, "abc", 3), 0);
	CHECK(sent(&t, 0, 3));
	CHECK_EQ(xk_control(t.s, XK_TCP_END, NULL), 0);
	CHECK(sent(&t, 3, 0));
	ack(&t, 3);
	rig_expect_nothing_sent(t.r);
	rig_advance_ms(t.r, STREAM_TIMEOUT_MS);
	CHECK(sent(&t, 3, 0));
	CHECK(t.told);
	rig_forget(t.r);
	ack(&t, 4);
	rig_advance_ms(t.r, 10 * STREAM_TIMEOUT_MS);
	rig_expect_nothing_sent(t.r);
	end(&t);
}
