/*
 * test_boot.c - the visible tests of lab 4: the grader has others. `./run build --with DIR` runs them.
 *
 * They work with every header file, because they take the offsets of fields from it.
 */
#include <errno.h>
#include <stdlib.h>

#include "boot.h"

#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { STATION = 0x99, ROOM = 256, PEER = 5 << 16 | 1 };

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

TEST(the_first_message_calls_the_peer)
{
	struct rig *r = rig_new("boot");
	struct xk_session *s = rig_open(r, rig_to(STATION));
	uint32_t end;

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
	end = end_in(r, BOOT_CALL);
	CHECK(end != 0);
	rig_advance_ms(r, BOOT_TIMEOUT_MS + 1);
	CHECK(sent(r, BOOT_CALL, end, 0, 0, ""));
	arrive(r, BOOT_WELCOME, PEER, end, 0, "");
	CHECK(sent(r, BOOT_DATA, end, PEER, BOOT_FIRST, "abc"));
	rig_advance_ms(r, BOOT_TIMEOUT_MS + 1);
	CHECK(sent(r, BOOT_DATA, end, PEER, BOOT_FIRST, "abc"));
	arrive(r, BOOT_ACK, PEER, end, BOOT_FIRST, "");
	rig_advance_ms(r, 10 * BOOT_TIMEOUT_MS);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(data_is_delivered_once_and_acknowledged)
{
	struct rig *r = enabled_rig();
	uint32_t end;

	arrive(r, BOOT_CALL, PEER, 0, 0, "");
	end = end_in(r, BOOT_WELCOME);
	CHECK(end != 0);
	for (unsigned i = 0; i < 2; i++) {
		arrive(r, BOOT_DATA, PEER, end, BOOT_FIRST, "one");
		CHECK(sent(r, BOOT_ACK, end, PEER, BOOT_FIRST, ""));
	}
	CHECK(delivered(r, "one"));
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	rig_free(r);
}

TEST(data_for_an_unknown_end_is_answered_by_gone)
{
	struct rig *r = enabled_rig();

	arrive(r, BOOT_DATA, PEER, 77, BOOT_FIRST, "one");
	CHECK_EQ(rig_sent(r), 1);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_open_done_count(r), 0);
	rig_forget(r);
	rig_free(r);
}

TEST(the_message_in_flight_is_not_resent_after_gone)
{
	struct rig *r = rig_new("boot");
	struct xk_session *s = rig_open(r, rig_to(STATION));
	uint32_t end, next;

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push_bytes(r, s, "one", 3), 0);
	CHECK_EQ(rig_push_bytes(r, s, "two", 3), 0);
	end = end_in(r, BOOT_CALL);
	arrive(r, BOOT_WELCOME, PEER, end, 0, "");
	CHECK(sent(r, BOOT_DATA, end, PEER, BOOT_FIRST, "one"));
	arrive(r, BOOT_GONE, PEER, end, BOOT_FIRST, "");
	CHECK_EQ(rig_counter(r, "gone"), 1);
	next = end_in(r, BOOT_CALL);
	CHECK(next != 0 && next != end);
	arrive(r, BOOT_WELCOME, PEER + (1 << 16), next, 0, "");
	CHECK(sent(r, BOOT_DATA, next, PEER + (1 << 16), BOOT_FIRST, "two"));
	arrive(r, BOOT_ACK, PEER + (1 << 16), next, BOOT_FIRST, "");
	rig_advance_ms(r, 10 * BOOT_TIMEOUT_MS);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(no_end_is_named_0)
{
	struct rig *r = rig_new("boot");
	struct xk_session *s = rig_open(r, rig_to(STATION));
	uint32_t end;

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
	end = end_in(r, BOOT_CALL);
	arrive(r, BOOT_CALL, 0, 0, 0, "");
	arrive(r, BOOT_WELCOME, 0, end, 0, "");
	arrive(r, BOOT_GONE, 0, end, 0, "");
	CHECK_EQ(rig_counter(r, "stale"), 3);
	rig_expect_nothing_sent(r);
	arrive(r, BOOT_WELCOME, PEER, end, 0, "");
	CHECK(sent(r, BOOT_DATA, end, PEER, BOOT_FIRST, "abc"));
	arrive(r, BOOT_ACK, PEER, end, BOOT_FIRST, "");
	rig_advance_ms(r, 10 * BOOT_TIMEOUT_MS);
	rig_free(r);
}
