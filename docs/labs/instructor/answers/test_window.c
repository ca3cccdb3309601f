/*
 * test_window.c - tests of lab 2 beyond the visible ones: which ACKs count, when messages are resent, which are kept, and
 * that none of them leaks.
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

/* Returns whether `count` messages from number `first` on were sent, and nothing else. */
static bool
sent_from(struct rig *r, unsigned first, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!sent(r, WINDOW_DATA, first + i, "abc"))
			return false;
	return rig_sent(r) == 0;
}

/* Returns a rig whose user has pushed `count` messages on s. */
static struct rig *
rig_with_pushed(unsigned count, struct xk_session **s)
{
	struct rig *r = rig_new("window");

	*s = rig_open(r, rig_to(STATION));
	REQUIRE(*s != NULL);
	for (unsigned i = 0; i < count; i++)
		CHECK_EQ(rig_push_bytes(r, *s, "abc", 3), 0);
	return r;
}

/* Acknowledges messages before WINDOW_FIRST + count, all that were pushed, and ends the test. */
static void
end(struct rig *r, unsigned count)
{
	for (unsigned acked = 0; acked <= count; acked++)
		arrive(r, WINDOW_ACK, WINDOW_FIRST + acked, "");
	rig_advance_ms(r, 10 * WINDOW_TIMEOUT_MS);
	rig_forget(r);
	rig_free(r);
}

/* Checks that DATA with this number is answered by an ACK with that one. */
static bool
is_answered(struct rig *r, unsigned number, const char *payload, unsigned expected)
{
	arrive(r, WINDOW_DATA, number, payload);
	return sent(r, WINDOW_ACK, expected, "") && rig_sent(r) == 0;
}

TEST(each_message_is_sent_when_it_is_pushed)
{
	struct xk_session *s;
	struct rig *r = rig_with_pushed(0, &s);

	for (unsigned i = 0; i < WINDOW_SIZE; i++) {
		CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
		CHECK(sent_from(r, WINDOW_FIRST + i, 1));
	}
	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
	rig_expect_nothing_sent(r);
	end(r, WINDOW_SIZE + 1);
}

TEST(the_window_moves_with_each_ack_across_the_wrap)
{
	struct xk_session *s;
	struct rig *r = rig_with_pushed(WINDOW_SIZE, &s);
	unsigned total = 65536 - WINDOW_FIRST + 2 * WINDOW_SIZE;

	CHECK(sent_from(r, WINDOW_FIRST, WINDOW_SIZE));
	for (unsigned i = 0; i < total; i++) {
		CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
		rig_expect_nothing_sent(r);
		arrive(r, WINDOW_ACK, WINDOW_FIRST + i + 1, "");
		CHECK(sent_from(r, WINDOW_FIRST + WINDOW_SIZE + i, 1));
	}
	arrive(r, WINDOW_ACK, WINDOW_FIRST + total + WINDOW_SIZE, "");
	rig_advance_ms(r, 10 * WINDOW_TIMEOUT_MS);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(acks_of_messages_not_in_flight_have_no_effect)
{
	struct xk_session *s;
	struct rig *r = rig_with_pushed(3 * WINDOW_SIZE, &s);

	CHECK(sent_from(r, WINDOW_FIRST, WINDOW_SIZE));
	arrive(r, WINDOW_ACK, WINDOW_FIRST, "");
	arrive(r, WINDOW_ACK, WINDOW_FIRST - 1, "");
	arrive(r, WINDOW_ACK, WINDOW_FIRST + WINDOW_SIZE + 1, "");
	arrive(r, WINDOW_ACK, WINDOW_FIRST + 32768, "");
	rig_expect_nothing_sent(r);
	arrive(r, WINDOW_ACK, WINDOW_FIRST + 3, "");
	CHECK(sent_from(r, WINDOW_FIRST + WINDOW_SIZE, 3));
	arrive(r, WINDOW_ACK, WINDOW_FIRST + 2, "");
	rig_expect_nothing_sent(r);
	end(r, 3 * WINDOW_SIZE);
}

TEST(malformed_frames_change_nothing)
{
	struct xk_session *s;
	struct rig *r = rig_with_pushed(WINDOW_SIZE + 1, &s);
	uint8_t p[ROOM], strange = 0;
	size_t len = frame_of(p, WINDOW_ACK, WINDOW_FIRST + 1, "");

	rig_forget(r);
	while (strange == WINDOW_DATA || strange == WINDOW_ACK)
		strange++;
	arrive(r, strange, WINDOW_FIRST + 1, "");
	arrive(r, strange, WINDOW_FIRST, "abc");
	CHECK_EQ(rig_counter(r, "bad_kind"), 2);
	p[WINDOW_NUMBER + 1] ^= 1;
	rig_inject_bytes(r, p, len);
	CHECK_EQ(rig_counter(r, "bad_checksum"), 1);
	/* A length beyond the end, in a frame whose checksum is right. */
	len = frame_of(p, WINDOW_ACK, WINDOW_FIRST + 1, "");
	xk_put16(p + WINDOW_LENGTH, (uint16_t)(len + 1));
	xk_put16(p + WINDOW_CHECKSUM, 0);
	xk_checksum_store(p + WINDOW_CHECKSUM, xk_checksum_finish(xk_sum(0, p, len)));
	rig_inject_bytes(r, p, len);
	CHECK_EQ(rig_counter(r, "bad_length"), 1);
	rig_expect_nothing_sent(r);
	rig_expect_nothing_delivered(r);
	end(r, WINDOW_SIZE + 1);
}

TEST(the_oldest_message_is_sent_again_after_each_timeout)
{
	struct xk_session *s;
	struct rig *r = rig_with_pushed(WINDOW_SIZE + 1, &s);

	CHECK(sent_from(r, WINDOW_FIRST, WINDOW_SIZE));
	for (unsigned turn = 0; turn < 10; turn++) {
		rig_advance_ms(r, WINDOW_TIMEOUT_MS - 1);
		rig_expect_nothing_sent(r);
		rig_advance_ms(r, 1);
		CHECK(sent(r, WINDOW_DATA, WINDOW_FIRST, "abc"));
		/* The others may be sent again, too, but only those in flight. */
		CHECK(rig_sent(r) <= WINDOW_SIZE - 1);
		for (unsigned i = 1; rig_sent(r) > 0; i++)
			CHECK(sent(r, WINDOW_DATA, WINDOW_FIRST + i, "abc"));
	}
	end(r, WINDOW_SIZE + 1);
}

TEST(a_message_alone_in_flight_is_sent_again_after_each_timeout)
{
	struct xk_session *s;
	struct rig *r = rig_with_pushed(1, &s);

	rig_forget(r);
	for (unsigned turn = 0; turn < 3; turn++) {
		rig_advance_ms(r, WINDOW_TIMEOUT_MS);
		CHECK(sent_from(r, WINDOW_FIRST, 1));
	}
	end(r, 1);
}

TEST(an_ack_that_counts_restarts_the_timeout)
{
	struct xk_session *s;
	struct rig *r = rig_with_pushed(2, &s);

	rig_forget(r);
	rig_advance_ms(r, WINDOW_TIMEOUT_MS / 2);
	arrive(r, WINDOW_ACK, WINDOW_FIRST + 1, "");
	rig_advance_ms(r, WINDOW_TIMEOUT_MS - 1);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 1);
	CHECK(sent_from(r, WINDOW_FIRST + 1, 1));
	end(r, 2);
}

TEST(acks_that_do_not_count_do_not_restart_the_timeout)
{
	struct xk_session *s;
	struct rig *r = rig_with_pushed(2, &s);

	arrive(r, WINDOW_ACK, WINDOW_FIRST + 1, "");
	rig_forget(r);
	for (unsigned ms = 1; ms < WINDOW_TIMEOUT_MS; ms++) {
		rig_advance_ms(r, 1);
		arrive(r, WINDOW_ACK, WINDOW_FIRST + ms % 2, "");
		arrive(r, WINDOW_ACK, WINDOW_FIRST + 3 + ms, "");
	}
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 1);
	CHECK(sent_from(r, WINDOW_FIRST + 1, 1));
	end(r, 2);
}

TEST(an_ack_makes_room_in_a_full_queue)
{
	struct xk_session *s;
	struct rig *r = rig_with_pushed(WINDOW_QUEUE, &s);

	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), -ENOBUFS);
	arrive(r, WINDOW_ACK, WINDOW_FIRST + 2, "");
	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), -ENOBUFS);
	end(r, WINDOW_QUEUE + 2);
}

TEST(unsent_frames_are_sent_again)
{
	struct xk_session *s;
	struct rig *r = rig_with_pushed(0, &s);

	rig_fail_sending(r, -ENETDOWN);
	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
	rig_fail_sending(r, 0);
	rig_forget(r);
	rig_advance_ms(r, WINDOW_TIMEOUT_MS);
	CHECK(sent_from(r, WINDOW_FIRST, 1));
	end(r, 1);
}

TEST(messages_in_order_are_delivered_across_the_wrap)
{
	struct rig *r = enabled_rig();

	for (unsigned i = 0; i < 65536 - WINDOW_FIRST + 10; i++) {
		CHECK(is_answered(r, WINDOW_FIRST + i, "abc", WINDOW_FIRST + i + 1));
		CHECK(delivered(r, "abc"));
		CHECK(is_answered(r, WINDOW_FIRST + i, "abc", WINDOW_FIRST + i + 1));
		CHECK(is_answered(r, WINDOW_FIRST + i - i % 30, "abc", WINDOW_FIRST + i + 1));
		rig_expect_nothing_delivered(r);
	}
	rig_free(r);
}

TEST(padding_is_cut_off_before_the_checksum)
{
	struct rig *r = enabled_rig();
	uint8_t p[ROOM];
	size_t len = frame_of(p, WINDOW_DATA, WINDOW_FIRST, "abc");

	memset(p + len, 0x5a, 20);
	rig_inject_bytes(r, p, len + 20);
	CHECK(delivered(r, "abc"));
	rig_forget(r);
	rig_free(r);
}

TEST(a_full_window_is_kept_wherever_numbers_wrap)
{
	struct rig *r = enabled_rig();
	unsigned done = WINDOW_FIRST;

	while (done < 65536 + 3 * WINDOW_SIZE) {
		char names[WINDOW_SIZE][2];

		for (unsigned i = 0; i < WINDOW_SIZE; i++) {
			names[i][0] = (char)('a' + i);
			names[i][1] = 0;
		}
		for (unsigned i = WINDOW_SIZE - 1; i > 0; i--)
			CHECK(is_answered(r, done + i, names[i], done));
		rig_expect_nothing_delivered(r);
		CHECK(is_answered(r, done, names[0], done + WINDOW_SIZE));
		for (unsigned i = 0; i < WINDOW_SIZE; i++)
			CHECK(delivered(r, names[i]));
		rig_expect_nothing_delivered(r);
		/* One message, so that the next window starts at another place of the ring. */
		CHECK(is_answered(r, done + WINDOW_SIZE, "abc", done + WINDOW_SIZE + 1));
		CHECK(delivered(r, "abc"));
		done += WINDOW_SIZE + 1;
	}
	rig_free(r);
}

TEST(messages_outside_the_window_are_not_kept)
{
	static const unsigned ahead[] = { WINDOW_SIZE, WINDOW_SIZE + 1, 1000, 32767, 65535, 65531 };
	struct rig *r = enabled_rig();

	for (unsigned i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++)
		CHECK(is_answered(r, WINDOW_FIRST + ahead[i], "wrong", WINDOW_FIRST));
	CHECK_EQ(rig_counter(r, "outside"), 4);
	CHECK_EQ(rig_counter(r, "duplicate"), 2);
	for (unsigned i = 0; i < 2 * WINDOW_SIZE; i++) {
		CHECK(is_answered(r, WINDOW_FIRST + i, "right", WINDOW_FIRST + i + 1));
		CHECK(delivered(r, "right"));
	}
	rig_expect_nothing_delivered(r);
	rig_free(r);
}

TEST(many_copies_of_an_early_message_leak_nothing)
{
	struct rig *r = enabled_rig();

	arrive(r, WINDOW_DATA, WINDOW_FIRST + 1, "two");
	rig_forget(r);
	rig_limit_buffers(r, 20);
	for (unsigned i = 0; i < 100; i++)
		CHECK(is_answered(r, WINDOW_FIRST + 1, "other bytes", WINDOW_FIRST));
	CHECK_EQ(rig_counter(r, "duplicate"), 100);
	CHECK(is_answered(r, WINDOW_FIRST, "one", WINDOW_FIRST + 2));
	CHECK(delivered(r, "one"));
	CHECK(delivered(r, "two"));
	rig_free(r);
}

TEST(kept_messages_are_freed_at_the_end)
{
	struct rig *r = enabled_rig();

	arrive(r, WINDOW_DATA, WINDOW_FIRST + 1, "two");
	rig_forget(r);
	rig_free(r);
}
