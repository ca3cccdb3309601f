/*
 * test_stream.c - the visible tests of lab 5: the grader has others. `./run build --with DIR` runs them.
 *
 * They work with every header file, because they take the lab's numbers from it.
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

TEST(a_stream_is_opened_and_its_first_bytes_are_sent)
{
	struct stream_test t = opened(UINT16_MAX);

	CHECK_EQ(rig_push_bytes(t.r, t.s, "abc", 3), 0);
	CHECK(sent(&t, 0, 3));
	ack(&t, 3);
	rig_advance_ms(t.r, 10 * STREAM_TIMEOUT_MS);
	rig_expect_nothing_sent(t.r);
	end(&t);
}

TEST(no_more_is_in_flight_than_the_peer_has_room_for)
{
	struct stream_test t = opened(STREAM_SEGMENT);

	push(&t, 3);
	CHECK_EQ(sent_from(&t, 0), 1);
	ack(&t, STREAM_SEGMENT);
	CHECK_EQ(sent_from(&t, STREAM_SEGMENT), 1);
	end(&t);
}

TEST(each_acknowledged_segment_lets_two_be_sent)
{
	struct stream_test t = opened(UINT16_MAX);

	push(&t, 20);
	CHECK_EQ(sent_from(&t, 0), STREAM_INITIAL);
	ack(&t, STREAM_SEGMENT);
	CHECK_EQ(sent_from(&t, STREAM_INITIAL * STREAM_SEGMENT), 2);
	ack(&t, 2 * STREAM_SEGMENT);
	CHECK_EQ(sent_from(&t, (STREAM_INITIAL + 2) * STREAM_SEGMENT), 2);
	end(&t);
}

TEST(a_timeout_sends_the_oldest_segment_again_and_doubles_the_next)
{
	struct stream_test t = opened(UINT16_MAX);

	push(&t, 20);
	CHECK_EQ(sent_from(&t, 0), STREAM_INITIAL);
	rig_advance_ms(t.r, STREAM_TIMEOUT_MS - 1);
	rig_expect_nothing_sent(t.r);
	rig_advance_ms(t.r, 2);
	CHECK_EQ(sent_from(&t, 0), 1);
	rig_advance_ms(t.r, 2 * STREAM_TIMEOUT_MS - 2);
	rig_expect_nothing_sent(t.r);
	rig_advance_ms(t.r, 3);
	CHECK_EQ(sent_from(&t, 0), 1);
	end(&t);
}

TEST(the_timeout_follows_the_round_trip)
{
	struct stream_test t = opened(UINT16_MAX);

	push(&t, 1);
	CHECK_EQ(sent_from(&t, 0), 1);
	rig_advance_ms(t.r, 100);
	ack(&t, STREAM_SEGMENT);
	push(&t, 1);
	CHECK_EQ(sent_from(&t, STREAM_SEGMENT), 1);
	rig_advance_ms(t.r, 299); /* 100 and four times 50 */
	rig_expect_nothing_sent(t.r);
	rig_advance_ms(t.r, 2);
	CHECK_EQ(sent_from(&t, STREAM_SEGMENT), 1);
	end(&t);
}

TEST(three_duplicates_let_a_segment_be_sent_again)
{
	struct stream_test t = opened(UINT16_MAX);

	push(&t, 20);
	CHECK_EQ(sent_from(&t, 0), STREAM_INITIAL);
	for (unsigned i = 1; i <= 4; i++)
		ack(&t, i * STREAM_SEGMENT);
	CHECK_EQ(sent_from(&t, STREAM_INITIAL * STREAM_SEGMENT), 8);
	ack(&t, 4 * STREAM_SEGMENT);
	ack(&t, 4 * STREAM_SEGMENT);
	rig_expect_nothing_sent(t.r);
	ack(&t, 4 * STREAM_SEGMENT);
	CHECK(sent(&t, 4 * STREAM_SEGMENT, STREAM_SEGMENT));
	rig_expect_nothing_sent(t.r);
	end(&t);
}

TEST(the_end_of_a_stream_is_sent_and_acknowledged)
{
	struct stream_test t = opened(UINT16_MAX);

	CHECK_EQ(rig_push_bytes(t.r, t.s, "abc", 3), 0);
	CHECK(sent(&t, 0, 3));
	CHECK_EQ(xk_control(t.s, XK_TCP_END, NULL), 0);
	CHECK(sent(&t, 3, 0));
	CHECK(t.told);
	ack(&t, 4);
	rig_advance_ms(t.r, 10 * STREAM_TIMEOUT_MS);
	rig_expect_nothing_sent(t.r);
	end(&t);
}
