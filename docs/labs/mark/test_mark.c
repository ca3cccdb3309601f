/* test_mark.c - tests of lab 0. `./run build --with docs/labs/mark` runs them. They work with every header file. */
#include "mark.h"

#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { STATION = 0x99, ROOM = 64 };

/* Writes a frame with this payload to p, and returns its length. */
static size_t
frame_of(uint8_t *p, uint8_t mark, const char *payload)
{
	size_t len = strlen(payload);

	p[MARK_MARK] = mark;
	xk_put16(p + MARK_LENGTH, (uint16_t)(MARK_HEADER_LEN + len));
	memcpy(p + MARK_HEADER_LEN, payload, len);
	return MARK_HEADER_LEN + len;
}

TEST(messages_are_sent_behind_a_mark)
{
	struct rig *r = rig_new("mark");
	struct xk_session *s = rig_open(r, rig_to(STATION));
	uint8_t sent[ROOM], wanted[ROOM];
	size_t len = frame_of(wanted, MARK_IS, "abc");

	REQUIRE(s != NULL);
	CHECK_EQ(rig_push_bytes(r, s, "abc", 3), 0);
	CHECK_EQ(rig_take_sent(r, sent, sizeof(sent)), (long)len);
	CHECK(memcmp(sent, wanted, len) == 0);
	rig_free(r);
}

TEST(marked_messages_are_delivered_without_header_and_padding)
{
	struct rig *r = rig_new("mark");
	uint8_t p[ROOM] = { 0 };

	rig_open_enable(r, (struct xk_participants){ .remote.depth = 0 });
	rig_inject_bytes(r, p, frame_of(p, MARK_IS, "abc") + 9);
	rig_expect_delivered(r, "616263");
	rig_free(r);
}

TEST(wrong_marks_and_lengths_are_dropped)
{
	struct rig *r = rig_new("mark");
	uint8_t p[ROOM];
	size_t len = frame_of(p, MARK_IS ^ 1, "abc");

	rig_open_enable(r, (struct xk_participants){ .remote.depth = 0 });
	rig_inject_bytes(r, p, len);
	CHECK_EQ(rig_counter(r, "bad_mark"), 1);
	frame_of(p, MARK_IS, "abc");
	rig_inject_bytes(r, p, len - 1);
	CHECK_EQ(rig_counter(r, "bad_length"), 1);
	rig_expect_nothing_delivered(r);
	rig_free(r);
}
