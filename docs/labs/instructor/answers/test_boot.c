/*
 * test_boot.c - tests of lab 4 beyond the visible ones: what each kind of frame may and may not do, rule by rule.
 */
#include <errno.h>
#include <stdlib.h>

#include "boot.h"

#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { STATION = 0x99, OTHER_STATION = 0x77, ROOM = 256, PEER = 5 << 16 | 1, NEWER = 6 << 16 | 1 };

/* Writes a frame with this payload to p, and returns its length. */
static size_t
frame_of(uint8_t *p, uint8_t kind, uint32_t mine, uint32_t yours, unsigned number, const char *payload)
{
	size_t len = BOOT_HEADER_LEN + strlen(payload);

	memset(p, 0, BOOT_HEADER_LEN);
	p[BOOT_KIND] = kind;
	xk_put32(p + BOOT_MINE, mine);
	xk_put32(p + BOOT_YOURS, yours);
	xk_put16(p + BOOT_NUMBER, (uint16_t)number);
	xk_put16(p + BOOT_LENGTH, (uint16_t)len);
	memcpy(p + BOOT_HEADER_LEN, payload, len - BOOT_HEADER_LEN);
	return len;
}

static void
arrive(struct rig *r, uint8_t kind, uint32_t mine, uint32_t yours, unsigned number, const char *payload)
{
	uint8_t p[ROOM];

	rig_inject_bytes(r, p, frame_of(p, kind, mine, yours, number, payload));
}

/* Returns whether the next sent frame is this one. */
static bool
sent(struct rig *r, uint8_t kind, uint32_t mine, uint32_t yours, unsigned number, const char *payload)
{
	uint8_t wanted[ROOM], got[ROOM];
	size_t len = frame_of(wanted, kind, mine, yours, number, payload);

	return rig_take_sent(r, got, sizeof(got)) == (long)len && memcmp(got, wanted, len) == 0;
}

/* Takes the next sent frame. Returns the host's end in it, or 0 if the frame is of another kind. */
static uint32_t
end_in(struct rig *r, uint8_t kind)
{
	uint8_t got[ROOM];

	return rig_take_sent(r, got, sizeof(got)) >= BOOT_HEADER_LEN && got[BOOT_KIND] == kind
		       ? xk_get32(got + BOOT_MINE)
		       : 0;
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
	struct rig *r = rig_new("boot");

	rig_open_enable(r, (struct xk_participants){ .remote.depth = 0 });
	return r;
}

/* Returns whether the next sent frame is this one, and the only one. */
static bool
sent_only(struct rig *r, uint8_t kind, uint32_t mine, uint32_t yours, unsigned number, const char *payload)
{
	return sent(r, kind, mine, yours, number, payload) && rig_sent(r) == 0;
}

/* Checks that nothing is sent before the timeout, and lets it expire. */
static void
wait_for_timeout(struct rig *r)
{
	rig_advance_ms(r, BOOT_TIMEOUT_MS - 1);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 1);
}

/* Makes PEER call. Returns the host's end. */
static uint32_t
called_by(struct rig *r, uint32_t peer)
{
	uint32_t end;

	arrive(r, BOOT_CALL, peer, 0, 0, "");
	end = end_in(r, BOOT_WELCOME);
	CHECK(end != 0);
	rig_expect_nothing_sent(r);
	return end;
}

/* Returns a rig with a conversation with PEER, whose user has pushed "one", which is in flight, and `others` more. */
static struct rig *
rig_with_one_in_flight(unsigned others, struct xk_session **s, uint32_t *end)
{
	struct rig *r = rig_new("boot");

	*s = rig_open(r, rig_to(STATION));
	REQUIRE(*s != NULL);
	CHECK_EQ(rig_push_bytes(r, *s, "one", 3), 0);
	for (unsigned i = 0; i < others; i++)
		CHECK_EQ(rig_push_bytes(r, *s, "other", 5), 0);
	*end = end_in(r, BOOT_CALL);
	rig_expect_nothing_sent(r);
	arrive(r, BOOT_WELCOME, PEER, *end, 0, "");
	CHECK(sent_only(r, BOOT_DATA, *end, PEER, BOOT_FIRST, "one"));
	return r;
}

/* Acknowledges everything that the host sends to the peer's end, and ends the test. */
static void
end_test(struct rig *r, uint32_t end, uint32_t peer)
{
	for (unsigned i = 0; i <= BOOT_QUEUE; i++)
		arrive(r, BOOT_ACK, peer, end, BOOT_FIRST + i, "");
	rig_forget(r);
	rig_advance_ms(r, 10 * BOOT_TIMEOUT_MS);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

/* ---- 1: sending ---- */

TEST(a_call_is_resent_forever_with_the_same_end)
{
	struct rig *r = rig_new("boot");
	struct xk_session *s = rig_open(r, rig_to(STATION));
	uint32_t end;

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push_bytes(r, s, "one", 3), 0);
	end = end_in(r, BOOT_CALL);
	CHECK_EQ(end & 0xffff, 1);
	for (unsigned i = 0; i < 3 * BOOT_RETRIES; i++) {
		wait_for_timeout(r);
		CHECK(sent_only(r, BOOT_CALL, end, 0, 0, ""));
	}
	arrive(r, BOOT_WELCOME, PEER, end, 0, "");
	CHECK(sent_only(r, BOOT_DATA, end, PEER, BOOT_FIRST, "one"));
	end_test(r, end, PEER);
}

TEST(one_message_is_in_flight_and_a_full_queue_refuses_more)
{
	struct xk_session *s;
	uint32_t end;
	struct rig *r = rig_with_one_in_flight(BOOT_QUEUE - 1, &s, &end);

	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "queue_full"), 1);
	for (unsigned i = 0; i < BOOT_QUEUE; i++) {
		const char *message = i == 0 ? "one" : "other";

		wait_for_timeout(r);
		CHECK(sent_only(r, BOOT_DATA, end, PEER, BOOT_FIRST + i, message));
		arrive(r, BOOT_ACK, PEER, end, BOOT_FIRST + i + 1, "");
		arrive(r, BOOT_ACK, PEER, end, BOOT_FIRST + i - 1, "");
		rig_expect_nothing_sent(r);
		rig_advance_ms(r, BOOT_TIMEOUT_MS / 2);
		arrive(r, BOOT_ACK, PEER, end, BOOT_FIRST + i, "");
		if (i + 1 < BOOT_QUEUE)
			CHECK(sent_only(r, BOOT_DATA, end, PEER, BOOT_FIRST + i + 1, "other"));
	}
	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
	CHECK(sent_only(r, BOOT_DATA, end, PEER, BOOT_FIRST + BOOT_QUEUE, "abc"));
	arrive(r, BOOT_ACK, PEER, end, BOOT_FIRST + BOOT_QUEUE, "");
	end_test(r, end, PEER);
}

/* ---- 2: the receiver ---- */

TEST(frames_for_another_end_change_nothing_and_data_draws_gone)
{
	struct rig *r = enabled_rig();
	uint32_t end = called_by(r, PEER), others[] = { end ^ 1 << 16, end + 7, 0 };

	for (unsigned i = 0; i < 3; i++) {
		arrive(r, BOOT_DATA, PEER, others[i], BOOT_FIRST, "one");
		CHECK(sent_only(r, BOOT_GONE, others[i], PEER, 0, ""));
		arrive(r, BOOT_WELCOME, PEER, others[i], 0, "");
		arrive(r, BOOT_ACK, PEER, others[i], BOOT_FIRST, "");
		arrive(r, BOOT_GONE, PEER, others[i], 0, "");
	}
	CHECK_EQ(rig_counter(r, "stale"), 12);
	rig_expect_nothing_sent(r);
	rig_expect_nothing_delivered(r);
	arrive(r, BOOT_DATA, PEER, end, BOOT_FIRST, "one");
	CHECK(delivered(r, "one"));
	rig_forget(r);
	rig_free(r);
}

TEST(without_a_session_only_data_and_call_are_answered)
{
	struct rig *r = enabled_rig();

	arrive(r, BOOT_DATA, PEER, 77, BOOT_FIRST, "one");
	CHECK(sent_only(r, BOOT_GONE, 77, PEER, 0, ""));
	arrive(r, BOOT_WELCOME, PEER, 77, 0, "");
	arrive(r, BOOT_ACK, PEER, 77, BOOT_FIRST, "");
	arrive(r, BOOT_GONE, PEER, 77, 0, "");
	arrive(r, BOOT_CALL, 0, 0, 0, "");
	arrive(r, BOOT_DATA, 0, 77, BOOT_FIRST, "one");
	CHECK_EQ(rig_counter(r, "stale"), 6);
	CHECK_EQ(rig_open_done_count(r), 0);
	rig_expect_nothing_sent(r);
	rig_expect_nothing_delivered(r);
	called_by(r, PEER);
	CHECK_EQ(rig_open_done_count(r), 1);
	rig_free(r);
}

TEST(a_welcome_or_ack_for_another_end_does_not_count)
{
	struct xk_session *s;
	uint32_t end;
	struct rig *r = rig_with_one_in_flight(1, &s, &end);

	arrive(r, BOOT_ACK, PEER, end + 1, BOOT_FIRST, "");
	arrive(r, BOOT_WELCOME, NEWER, end + 1, 0, "");
	rig_expect_nothing_sent(r);
	wait_for_timeout(r);
	CHECK(sent_only(r, BOOT_DATA, end, PEER, BOOT_FIRST, "one"));
	end_test(r, end, PEER);
}

TEST(frames_of_the_end_0_change_nothing)
{
	struct xk_session *s;
	uint32_t end;
	struct rig *r = rig_with_one_in_flight(0, &s, &end);

	arrive(r, BOOT_CALL, 0, 0, 0, "");
	arrive(r, BOOT_WELCOME, 0, end, 0, "");
	arrive(r, BOOT_DATA, 0, end, BOOT_FIRST, "one");
	arrive(r, BOOT_DATA, 0, end + 1, BOOT_FIRST, "one");
	arrive(r, BOOT_ACK, 0, end, BOOT_FIRST, "");
	arrive(r, BOOT_GONE, 0, end, 0, "");
	CHECK_EQ(rig_counter(r, "stale"), 6);
	rig_expect_nothing_sent(r);
	rig_expect_nothing_delivered(r);
	wait_for_timeout(r);
	CHECK(sent_only(r, BOOT_DATA, end, PEER, BOOT_FIRST, "one"));
	end_test(r, end, PEER);
}

/* ---- 3: the sender ---- */

TEST(each_neighbour_talks_to_its_own_end)
{
	struct rig *r = enabled_rig();
	uint32_t end = called_by(r, PEER);

	CHECK_EQ(called_by(r, PEER), end);
	rig_wire_peer(r, OTHER_STATION);
	CHECK(called_by(r, PEER) > end);
	rig_free(r);
}

TEST(a_newer_end_replaces_the_older_one)
{
	struct rig *r = enabled_rig();
	uint32_t end = called_by(r, PEER);

	for (unsigned i = 0; i < 3; i++)
		arrive(r, BOOT_DATA, PEER, end, BOOT_FIRST + i, "old");
	rig_forget(r);
	CHECK_EQ(called_by(r, NEWER), end);
	for (unsigned i = 0; i < 5; i++)
		arrive(r, BOOT_DATA, PEER, end, BOOT_FIRST + i, "late");
	arrive(r, BOOT_CALL, PEER, 0, 0, "");
	arrive(r, BOOT_WELCOME, PEER, end, 0, "");
	arrive(r, BOOT_ACK, PEER, end, BOOT_FIRST, "");
	arrive(r, BOOT_GONE, PEER, end, 0, "");
	CHECK_EQ(rig_counter(r, "stale"), 9);
	rig_expect_nothing_sent(r);
	rig_expect_nothing_delivered(r);
	for (unsigned i = 0; i < 3; i++) {
		arrive(r, BOOT_DATA, NEWER, end, BOOT_FIRST + i, "new");
		CHECK(sent_only(r, BOOT_ACK, end, NEWER, BOOT_FIRST + i, ""));
		CHECK(delivered(r, "new"));
	}
	rig_free(r);
}

TEST(a_newer_end_gets_all_but_the_message_in_flight)
{
	struct xk_session *s;
	uint32_t end;
	struct rig *r = rig_with_one_in_flight(1, &s, &end);

	arrive(r, BOOT_ACK, PEER, end, BOOT_FIRST, "");
	CHECK(sent_only(r, BOOT_DATA, end, PEER, BOOT_FIRST + 1, "other"));
	CHECK_EQ(rig_push_bytes(r, s, "two", 3), 0);
	CHECK_EQ(rig_push_bytes(r, s, "three", 5), 0);
	arrive(r, BOOT_ACK, NEWER, end, BOOT_FIRST,
	       ""); /* reveals a newer peer, and acknowledges nothing sent in response */
	CHECK_EQ(rig_counter(r, "gone"), 1);
	CHECK(sent_only(r, BOOT_DATA, end, NEWER, BOOT_FIRST, "two"));
	arrive(r, BOOT_ACK, NEWER, end, BOOT_FIRST, "");
	CHECK(sent_only(r, BOOT_DATA, end, NEWER, BOOT_FIRST + 1, "three"));
	end_test(r, end, NEWER);
}

TEST(data_may_be_the_first_frame_of_a_newer_end)
{
	struct xk_session *s;
	uint32_t end;
	struct rig *r = rig_with_one_in_flight(1, &s, &end);

	arrive(r, BOOT_DATA, NEWER, end, BOOT_FIRST, "hello");
	CHECK(delivered(r, "hello"));
	CHECK(sent(r, BOOT_ACK, end, NEWER, BOOT_FIRST, ""));
	CHECK(sent_only(r, BOOT_DATA, end, NEWER, BOOT_FIRST, "other"));
	end_test(r, end, NEWER);
}

/* ---- 4: the contents ---- */

TEST(data_is_delivered_in_order_and_old_data_acknowledged)
{
	struct rig *r = enabled_rig();
	uint32_t end = called_by(r, PEER);

	for (unsigned i = 0; i < 5; i++) {
		arrive(r, BOOT_DATA, PEER, end, BOOT_FIRST + i + 1, "ahead");
		CHECK_EQ(rig_counter(r, "bad_sequence"), i + 1);
		rig_expect_nothing_sent(r);
		arrive(r, BOOT_DATA, PEER, end, BOOT_FIRST + i, "right");
		CHECK(sent_only(r, BOOT_ACK, end, PEER, BOOT_FIRST + i, ""));
		CHECK(delivered(r, "right"));
		arrive(r, BOOT_DATA, PEER, end, BOOT_FIRST, "again");
		CHECK(sent_only(r, BOOT_ACK, end, PEER, BOOT_FIRST, ""));
		rig_expect_nothing_delivered(r);
	}
	rig_advance_ms(r, 10 * BOOT_TIMEOUT_MS);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(both_sides_of_a_conversation_send)
{
	struct xk_session *s;
	uint32_t end;
	struct rig *r = rig_with_one_in_flight(1, &s, &end);

	arrive(r, BOOT_DATA, PEER, end, BOOT_FIRST, "hello");
	CHECK(delivered(r, "hello"));
	CHECK(sent_only(r, BOOT_ACK, end, PEER, BOOT_FIRST, "")); /* and nothing is resent early */
	arrive(r, BOOT_CALL, PEER, 0, 0, "");
	CHECK(sent_only(r, BOOT_WELCOME, end, PEER, 0, ""));
	arrive(r, BOOT_WELCOME, PEER, end, 0, "");
	rig_expect_nothing_sent(r);
	end_test(r, end, PEER);
}

/* ---- 5: starting again ---- */

TEST(a_gone_counts_only_between_the_two_ends)
{
	struct xk_session *s;
	uint32_t end;
	struct rig *r = rig_with_one_in_flight(1, &s, &end);

	arrive(r, BOOT_GONE, PEER + 1, end, 0, "");
	arrive(r, BOOT_GONE, PEER - 1, end, 0, "");
	arrive(r, BOOT_GONE, PEER, end + 1, 0, "");
	CHECK_EQ(rig_counter(r, "stale"), 3);
	rig_expect_nothing_sent(r);
	end_test(r, end, PEER);
}

TEST(after_a_gone_unsent_messages_go_to_the_new_peer)
{
	struct xk_session *s;
	uint32_t end, next;
	struct rig *r = rig_with_one_in_flight(2, &s, &end);

	arrive(r, BOOT_ACK, PEER, end, BOOT_FIRST, "");
	CHECK(sent_only(r, BOOT_DATA, end, PEER, BOOT_FIRST + 1, "other"));
	arrive(r, BOOT_GONE, PEER, end, 0, "");
	CHECK_EQ(rig_counter(r, "gone"), 1);
	next = end_in(r, BOOT_CALL);
	CHECK_EQ(next, end + 1);
	arrive(r, BOOT_DATA, PEER, end, BOOT_FIRST, "late"); /* for the previous end */
	CHECK(sent_only(r, BOOT_GONE, end, PEER, 0, ""));
	arrive(r, BOOT_WELCOME, NEWER, next, 0, "");
	CHECK(sent_only(r, BOOT_DATA, next, NEWER, BOOT_FIRST, "other"));
	end_test(r, next, NEWER);
}

TEST(a_silent_peer_is_given_up_after_the_retries)
{
	struct xk_session *s;
	uint32_t end, next;
	struct rig *r = rig_with_one_in_flight(2, &s, &end);

	for (unsigned i = 0; i < BOOT_RETRIES; i++) {
		wait_for_timeout(r);
		CHECK(sent_only(r, BOOT_DATA, end, PEER, BOOT_FIRST, "one"));
	}
	wait_for_timeout(r);
	CHECK_EQ(rig_counter(r, "gave_up"), 1);
	next = end_in(r, BOOT_CALL);
	CHECK_EQ(next, end + 1);
	rig_expect_nothing_sent(r);
	arrive(r, BOOT_WELCOME, PEER, next, 0, "");
	CHECK(sent_only(r, BOOT_DATA, next, PEER, BOOT_FIRST, "other"));
	/* The retries of each message are counted from 0. */
	for (unsigned i = 0; i < BOOT_RETRIES; i++) {
		wait_for_timeout(r);
		CHECK(sent_only(r, BOOT_DATA, next, PEER, BOOT_FIRST, "other"));
	}
	arrive(r, BOOT_ACK, PEER, next, BOOT_FIRST, "");
	CHECK(sent_only(r, BOOT_DATA, next, PEER, BOOT_FIRST + 1, "other"));
	wait_for_timeout(r);
	CHECK(sent_only(r, BOOT_DATA, next, PEER, BOOT_FIRST + 1, "other"));
	end_test(r, next, PEER);
}

TEST(no_end_of_a_boot_is_used_twice)
{
	struct rig *r = enabled_rig();
	uint32_t end = called_by(r, PEER), first = end, last = test_is_long() ? 65535 : 100;

	for (uint32_t i = 2; i <= last; i++) {
		arrive(r, BOOT_GONE, PEER, end, 0, "");
		CHECK_EQ(called_by(r, PEER), ++end);
	}
	CHECK_EQ(end & 0xffff, last);
	arrive(r, BOOT_GONE, PEER, end, 0, "");
	arrive(r, BOOT_CALL, PEER, 0, 0, "");
	CHECK_EQ(end_in(r, BOOT_WELCOME), last == 65535 ? 0 : end + 1); /* 0: no answer */
	arrive(r, BOOT_DATA, PEER, first, BOOT_FIRST, "one");
	CHECK(sent_only(r, BOOT_GONE, first, PEER, 0, ""));
	rig_expect_nothing_delivered(r);
	rig_free(r);
}
