/*
 * test_window.c - the visible tests of lab 2: the grader has others. `./run build --with DIR` runs them.
 *
 * They work with every header file, because they take the offsets of fields from it.
 */
#include <errno.h>
#include <stdlib.h>

#include "window.h"

#include "tests/rig.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum { STATION = 0x99, ROOM = 256 };

/* Writes a frame with this payload to p, and returns its length. */
static size_t
frame_of(uint8_t *p, uint8_t kind, unsigned number, const char *payload)
{
	size_t len = WINDOW_HEADER_LEN + strlen(payload);
	uint32_t sum = 0;

	memset(p, 0, WINDOW_HEADER_LEN);
	p[WINDOW_KIND] = kind;
	xk_put16(p + WINDOW_NUMBER, (uint16_t)number);
	xk_put16(p + WINDOW_LENGTH, (uint16_t)len);
	memcpy(p + WINDOW_HEADER_LEN, payload, len - WINDOW_HEADER_LEN);
	for (size_t i = 0; i < len; i++)
		sum += (uint32_t)(i % 2 == 0 ? p[i] << 8 : p[i]);
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	xk_put16(p + WINDOW_CHECKSUM, (uint16_t)~sum);
	return len;
}

static void
arrive(struct rig *r, uint8_t kind, unsigned number, const char *payload)
{
	uint8_t p[ROOM];

	rig_inject_bytes(r, p, frame_of(p, kind, number, payload));
}

/* Returns whether the next sent frame is this one. */
static bool
sent(struct rig *r, uint8_t kind, unsigned number, const char *payload)
{
	uint8_t wanted[ROOM], got[ROOM];
	size_t len = frame_of(wanted, kind, number, payload);

	return rig_take_sent(r, got, sizeof(got)) == (long)len && memcmp(got, wanted, len) == 0;
}

/* Returns whether this message was delivered to the user next. */
static bool
delivered(struct rig *r, const char *payload)
{
	char got[ROOM];
	long len = rig_take_delivered(r, got, sizeof(got));

	return len == (long)strlen(payload) && memcmp(got, payload, (size_t)len) == 0;
}

static struct rig *
enabled_rig(void)
{
	struct rig *r = rig_new("window");

	rig_open_enable(r, (struct xk_participants){ .remote.depth = 0 });
	return r;
}

TEST(damaged_frames_are_dropped)
{
	struct rig *r = enabled_rig();
	uint8_t p[ROOM];
	size_t len = frame_of(p, WINDOW_DATA, WINDOW_FIRST, "one");

	p[len - 1] ^= 1;
	rig_inject_bytes(r, p, len);
	CHECK_EQ(rig_counter(r, "bad_checksum"), 1);
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(only_a_window_is_in_flight)
{
	struct rig *r = rig_new("window");
	struct xk_session *s = rig_open(r, rig_to(STATION));

	REQUIRE(s != NULL);
	for (unsigned i = 0; i < WINDOW_SIZE + 3; i++)
		CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
	for (unsigned i = 0; i < WINDOW_SIZE; i++)
		CHECK(sent(r, WINDOW_DATA, WINDOW_FIRST + i, "abc"));
	rig_expect_nothing_sent(r);
	arrive(r, WINDOW_ACK, WINDOW_FIRST + 2, "");
	CHECK(sent(r, WINDOW_DATA, WINDOW_FIRST + WINDOW_SIZE, "abc"));
	CHECK(sent(r, WINDOW_DATA, WINDOW_FIRST + WINDOW_SIZE + 1, "abc"));
	rig_expect_nothing_sent(r);
	arrive(r, WINDOW_ACK, WINDOW_FIRST + WINDOW_SIZE + 2, "");
	CHECK(sent(r, WINDOW_DATA, WINDOW_FIRST + WINDOW_SIZE + 2, "abc"));
	arrive(r, WINDOW_ACK, WINDOW_FIRST + WINDOW_SIZE + 3, "");
	rig_advance_ms(r, 10 * WINDOW_TIMEOUT_MS);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(a_message_is_sent_again_after_its_timeout)
{
	struct rig *r = rig_new("window");
	struct xk_session *s = rig_open(r, rig_to(STATION));

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
	CHECK(sent(r, WINDOW_DATA, WINDOW_FIRST, "abc"));
	rig_advance_ms(r, WINDOW_TIMEOUT_MS - 1);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 2);
	CHECK(sent(r, WINDOW_DATA, WINDOW_FIRST, "abc"));
	arrive(r, WINDOW_ACK, WINDOW_FIRST + 1, "");
	rig_advance_ms(r, 10 * WINDOW_TIMEOUT_MS);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(a_full_queue_refuses_messages)
{
	struct rig *r = rig_new("window");
	struct xk_session *s = rig_open(r, rig_to(STATION));

	REQUIRE(s != NULL);
	for (unsigned i = 0; i < WINDOW_QUEUE; i++)
		CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "queue_full"), 1);
	rig_forget(r);
	for (unsigned i = 1; i <= WINDOW_QUEUE; i++)
		arrive(r, WINDOW_ACK, WINDOW_FIRST + i, "");
	rig_advance_ms(r, 10 * WINDOW_TIMEOUT_MS);
	rig_forget(r);
	rig_free(r);
}

TEST(early_messages_wait_for_their_turn)
{
	struct rig *r = enabled_rig();

	arrive(r, WINDOW_DATA, WINDOW_FIRST + 2, "three");
	CHECK(sent(r, WINDOW_ACK, WINDOW_FIRST, ""));
	arrive(r, WINDOW_DATA, WINDOW_FIRST + 1, "two");
	CHECK(sent(r, WINDOW_ACK, WINDOW_FIRST, ""));
	rig_expect_nothing_delivered(r);
	arrive(r, WINDOW_DATA, WINDOW_FIRST, "one");
	CHECK(sent(r, WINDOW_ACK, WINDOW_FIRST + 3, ""));
	CHECK(delivered(r, "one"));
	CHECK(delivered(r, "two"));
	CHECK(delivered(r, "three"));
	arrive(r, WINDOW_DATA, WINDOW_FIRST + 1, "two");
	CHECK(sent(r, WINDOW_ACK, WINDOW_FIRST + 3, ""));
	rig_expect_nothing_delivered(r);
	rig_free(r);
}

TEST(a_duplicate_early_message_is_kept_once)
{
	struct rig *r = enabled_rig();

	arrive(r, WINDOW_DATA, WINDOW_FIRST + 1, "two");
	CHECK(sent(r, WINDOW_ACK, WINDOW_FIRST, ""));
	arrive(r, WINDOW_DATA, WINDOW_FIRST + 1, "other bytes"); /* the first copy stays */
	CHECK(sent(r, WINDOW_ACK, WINDOW_FIRST, ""));
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	arrive(r, WINDOW_DATA, WINDOW_FIRST, "one");
	CHECK(sent(r, WINDOW_ACK, WINDOW_FIRST + 2, ""));
	CHECK(delivered(r, "one"));
	CHECK(delivered(r, "two"));
	rig_expect_nothing_delivered(r);
	rig_free(r);
}

TEST(messages_outside_the_window_are_dropped_and_answered)
{
	struct rig *r = enabled_rig();

	arrive(r, WINDOW_DATA, WINDOW_FIRST + WINDOW_SIZE, "too early");
	CHECK(sent(r, WINDOW_ACK, WINDOW_FIRST, ""));
	CHECK_EQ(rig_counter(r, "outside"), 1);
	arrive(r, WINDOW_DATA, WINDOW_FIRST, "one");
	CHECK(sent(r, WINDOW_ACK, WINDOW_FIRST + 1, ""));
	CHECK(delivered(r, "one"));
	rig_expect_nothing_delivered(r);
	rig_free(r);
}

TEST(an_ack_that_does_not_count_does_not_restart_the_timeout)
{
	struct rig *r = rig_new("window");
	struct xk_session *s = rig_open(r, rig_to(STATION));

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
	CHECK(sent(r, WINDOW_DATA, WINDOW_FIRST, "abc"));
	rig_advance_ms(r, WINDOW_TIMEOUT_MS - 1);
	arrive(r, WINDOW_ACK, WINDOW_FIRST, "");
	rig_advance_ms(r, 2);
	CHECK(sent(r, WINDOW_DATA, WINDOW_FIRST, "abc"));
	arrive(r, WINDOW_ACK, WINDOW_FIRST + 1, "");
	rig_advance_ms(r, 10 * WINDOW_TIMEOUT_MS);
	rig_free(r);
}
