/* test_msg.c - the Message tool, operation by operation. */
#include "tests/xkernel/msg_chains.h"

enum { KIND = XK_KIND('t', 'e', 's', 't') };

/* Sets marks that a message keeps whichever segment becomes its first. */
static void
mark(struct xk_msg *m)
{
	m->id = 9;
	m->flags = XK_MSG_TRACED;
	xk_msg_annotate(m, XK_OF_MESSAGE, KIND, 77);
	xk_msg_annotate(m, XK_OF_PUSH, KIND, 78);
}

static bool
is_marked(const struct xk_msg *m)
{
	const uint64_t *message = xk_msg_annotation(m, XK_OF_MESSAGE, KIND);
	const uint64_t *push = xk_msg_annotation(m, XK_OF_PUSH, KIND);

	return m->id == 9 && (m->flags & XK_MSG_TRACED) && message != NULL && *message == 77 && push != NULL &&
	       *push == 78;
}

/* ---- new, from, free, reference ---- */

TEST_WITH(a_new_message_has_headroom_and_its_length, struct xk_platform *platform, platform_new(), platform_end)
{
	size_t lens[] = { 0, 1, SEGMENT_ROOM, SEGMENT_ROOM + 1, 65535, XK_MSG_MAX };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(lens); i++) {
		struct xk_msg *m = xk_msg_new(platform, lens[i]);

		REQUIRE(m != NULL);
		CHECK_EQ(xk_msg_len(m), lens[i]);
		CHECK_EQ(m->data - m->floor, XK_MSG_HEADROOM);
		CHECK_EQ(m->id, 0);
		CHECK_EQ(m->flags, 0);
		CHECK(xk_msg_is_writable(m));
		CHECK_EQ(segments(m), lens[i] == 0 ? 1 : (lens[i] + SEGMENT_ROOM - 1) / SEGMENT_ROOM);
		CHECK_EQ(out(platform), segments(m));
		xk_msg_free(m);
	}
}

TEST_WITH(a_message_longer_than_the_longest_is_refused, struct xk_platform *platform, platform_new(), platform_end)
{
	CHECK(xk_msg_new(platform, (size_t)XK_MSG_MAX + 1) == NULL);
	CHECK(xk_msg_from(platform, "x", (size_t)XK_MSG_MAX + 1) == NULL);
	CHECK(xk_msg_new(platform, SIZE_MAX) == NULL);
}

TEST_WITH(from_copies_the_bytes, struct xk_platform *platform, platform_new(), platform_end)
{
	size_t lens[] = { 0, 1, 100, SEGMENT_ROOM, SEGMENT_ROOM + 1, 10000 };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(lens); i++) {
		struct xk_msg *m = patterned(platform, lens[i]);

		REQUIRE(m != NULL);
		CHECK(holds_pattern(m, 0, lens[i]));
		xk_msg_free(m);
	}
}

TEST_OF(free_accepts_null, xk_msg_free(NULL));

TEST_WITH(failed_new_from_and_reference_leak_nothing, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = patterned(platform, 10000), *other;

	REQUIRE(m != NULL);
	for (unsigned n = 0; n < 5; n++) {
		allow(platform, n);
		CHECK(xk_msg_new(platform, 10000) == NULL);
		CHECK(patterned(platform, 10000) == NULL);
		CHECK(xk_msg_reference(m) == NULL);
		CHECK_EQ(out(platform), 5);
		CHECK(xk_msg_is_writable(m));
	}
	allow(platform, 5);
	other = xk_msg_reference(m);
	REQUIRE(other != NULL);
	CHECK(holds_pattern(other, 0, 10000));
	xk_msg_free(other);
	xk_msg_free(m);
}

TEST_WITH(a_reference_shares_the_bytes_and_outlives_the_original, struct xk_platform *platform, platform_new(),
	  platform_end)
{
	struct xk_msg *m = patterned(platform, 5000), *other;

	REQUIRE(m != NULL);
	m->id = 7;
	m->flags = XK_MSG_TRACED | XK_MSG_TRANSPORT_SUM_GOOD;
	xk_msg_annotate(m, XK_OF_MESSAGE, KIND, 77);
	xk_msg_annotate(m, XK_OF_PUSH, KIND, 78);
	other = xk_msg_reference(m);
	REQUIRE(other != NULL);
	CHECK(other->data == m->data);
	CHECK_EQ(other->id, 7);
	CHECK_EQ(other->flags & (XK_MSG_ANNOTATED - 1), XK_MSG_TRACED | XK_MSG_TRANSPORT_SUM_GOOD);
	REQUIRE(xk_msg_annotation(other, XK_OF_MESSAGE, KIND) != NULL);
	CHECK_EQ(*xk_msg_annotation(other, XK_OF_MESSAGE, KIND), 77);
	CHECK(xk_msg_annotation(other, XK_OF_MESSAGE, KIND + 1) == NULL);
	CHECK(xk_msg_annotation(other, XK_OF_PUSH, KIND) == NULL);
	CHECK(xk_msg_annotation(m, XK_OF_PUSH, KIND) != NULL);
	CHECK(!xk_msg_is_writable(m) && !xk_msg_is_writable(other));
	xk_msg_free(m);
	CHECK(xk_msg_is_writable(other));
	CHECK(holds_pattern(other, 0, 5000));
	xk_msg_free(other);
}

TEST_WITH(a_reference_leaves_out_empty_segments, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = patterned(platform, 3), *other;

	xk_msg_join(m, CHAIN(platform, 4, 5));
	REQUIRE(m->next != NULL && m->next->next != NULL);
	m->next->len = 0; /* as after a header was popped, before a join */
	m->total -= 4;
	other = xk_msg_reference(m);
	REQUIRE(other != NULL);
	CHECK_EQ(segments(m), 3);
	CHECK_EQ(segments(other), 2);
	CHECK_EQ(out(platform), 5);
	CHECK_EQ(xk_msg_len(other), 8);
	CHECK(other->data == m->data && other->next->data == m->tail->data && other->tail == other->next);
	xk_msg_free(other);
	other = xk_msg_part(m, 3, 0);
	REQUIRE(other != NULL);
	CHECK_EQ(xk_msg_len(other), 0);
	CHECK_EQ(segments(other), 1);
	xk_msg_free(other);
	xk_msg_free(m);
}

/* ---- kept messages ---- */

/*
 * Checks parts of every range of the kept bytes, and their marks; headers pushed on a part leave the others unchanged.
 */
static void
check_kept(const struct xk_kept *kept, size_t total)
{
	for (size_t at = 0; at < total; at++)
		for (size_t len = 1; at + len <= total; len++) {
			struct xk_msg *part = xk_kept_part(kept, at, len);

			REQUIRE(part != NULL);
			CHECK(holds_pattern(part, at, len));
			CHECK_EQ(part->id, 9);
			CHECK(part->flags & XK_MSG_TRACED);
			REQUIRE(xk_msg_annotation(part, XK_OF_MESSAGE, KIND) != NULL);
			CHECK_EQ(*xk_msg_annotation(part, XK_OF_MESSAGE, KIND), 77);
			CHECK(xk_msg_annotation(part, XK_OF_PUSH, KIND) == NULL);
			memset(xk_msg_push(&part, 8), 0xee, 8);
			xk_msg_free(part);
		}
}

TEST_WITH(kept_bytes_survive_changes_to_the_message, struct xk_platform *platform, platform_new(), platform_end)
{
	static const size_t lens[][5] = { { 9 }, { 3, 6 }, { 2, 3, 4 }, { 2, 1, 5, 1 } };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(lens); i++) {
		struct xk_msg *m = chain(platform, lens[i]), *front;
		unsigned buffers = segments(m);
		uint8_t *first = m->data, *p;
		struct xk_kept kept;

		mark(m);
		REQUIRE(xk_msg_keep(&kept, m));
		CHECK_EQ(kept.total, 9);
		CHECK_EQ(kept.buffers, buffers);
		CHECK_EQ(out(platform), 2 * buffers);
		CHECK((kept.m == NULL) == (buffers <= XK_MSG_KEPT));
		CHECK(!xk_msg_is_writable(m));
		p = xk_msg_push(&m, 8);
		CHECK(p + 8 == first); /* the message keeps its headroom */
		memset(p, 0xcc, 8);
		front = xk_msg_split(&m, 8 + 4);
		REQUIRE(front != NULL);
		memset(xk_msg_push(&m, 8), 0xdd, 8);
		check_kept(&kept, 9);
		xk_msg_free(front);
		xk_msg_free(m);
		check_kept(&kept, 9);
		CHECK_EQ(out(platform), buffers);
		m = xk_kept_part(&kept, 0, 9);
		xk_kept_free(&kept);
		xk_kept_free(&kept);
		CHECK_EQ(kept.buffers, 0);
		CHECK(xk_msg_is_writable(m));
		CHECK(holds_pattern(m, 0, 9));
		xk_msg_free(m);
		CHECK_EQ(out(platform), 0);
	}
}

TEST_WITH(failed_keep_leaks_nothing, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = CHAIN(platform, 3, 4, 5);
	struct xk_kept kept;

	for (unsigned n = 0; n < 3; n++) {
		allow(platform, n);
		CHECK(!xk_msg_keep(&kept, m));
		CHECK_EQ(kept.buffers, 0);
		CHECK_EQ(out(platform), 3);
		for (const struct xk_msg *s = m; s != NULL; s = s->next)
			CHECK(xk_msg_is_writable(s));
	}
	allow_all(platform);
	m->next->len = 0; /* as after a header was popped, before a join */
	m->total -= 4;
	REQUIRE(xk_msg_keep(&kept, m));
	CHECK_EQ(kept.buffers, 2);
	xk_msg_free(m);
	xk_kept_free(&kept);
}

static void
count_back(void *count)
{
	++*(unsigned *)count;
}

TEST_WITH(lent_bytes_are_returned_when_no_longer_kept, struct xk_platform *platform, platform_new(), platform_end)
{
	unsigned given_back = 0;
	struct xk_msg *m = xk_msg_lend(platform, "words", 5, count_back, &given_back);
	struct xk_kept kept;

	REQUIRE(m != NULL && xk_msg_keep(&kept, m));
	xk_msg_free(m);
	CHECK_EQ(given_back, 0);
	m = xk_kept_part(&kept, 1, 4);
	xk_kept_free(&kept);
	CHECK(holds(m, (const uint8_t *)"ords", 4));
	CHECK_EQ(given_back, 0);
	xk_msg_free(m);
	CHECK_EQ(given_back, 1);
}

TEST_WITH(a_message_of_too_many_buffers_is_not_kept, struct xk_platform *platform, platform_new(), platform_end)
{
	unsigned given_back = 0;
	struct xk_msg *m = xk_msg_lend(platform, "a", 1, count_back, &given_back), *front;
	struct xk_kept kept;

	for (unsigned i = 1; i <= UINT16_MAX; i++)
		xk_msg_join(m, xk_msg_lend(platform, "b", 1, count_back, &given_back));
	CHECK(!xk_msg_keep(&kept, m));
	CHECK_EQ(kept.buffers, 0);
	CHECK_EQ(out(platform), UINT16_MAX + 1);
	front = xk_msg_split(&m, 1);
	REQUIRE(xk_msg_keep(&kept, m));
	CHECK_EQ(kept.buffers, UINT16_MAX);
	xk_msg_free(front);
	xk_msg_free(m);
	CHECK_EQ(given_back, 1);
	xk_kept_free(&kept);
	CHECK_EQ(given_back, UINT16_MAX + 1);
}

/* ---- push ---- */

TEST_WITH(push_stays_in_the_headroom_while_there_is_some, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = patterned(platform, 10), *before = m;
	uint8_t *p;

	for (unsigned i = 0; i < XK_MSG_HEADROOM / 8; i++) {
		p = xk_msg_push(&m, 8);
		REQUIRE(p != NULL);
		memset(p, 0xee, 8);
	}
	CHECK(m == before);
	CHECK_EQ(xk_msg_len(m), 10 + XK_MSG_HEADROOM);
	p = xk_msg_push(&m, 1);
	REQUIRE(p != NULL);
	*p = 0xdd;
	CHECK(m != before && m->next == before);
	CHECK_EQ(xk_msg_len(m), 11 + XK_MSG_HEADROOM);
	CHECK(xk_msg_pop(&m, 1 + XK_MSG_HEADROOM) != NULL);
	CHECK(holds_pattern(m, 0, 10));
	xk_msg_free(m);
}

TEST_WITH(push_on_a_shared_message_leaves_the_shared_bytes_alone, struct xk_platform *platform, platform_new(),
	  platform_end)
{
	struct xk_msg *m = patterned(platform, 10), *other = xk_msg_reference(m);
	uint8_t *p = xk_msg_push(&m, 14), *q = xk_msg_push(&other, 20);

	REQUIRE(p != NULL && q != NULL);
	memset(p, 0xaa, 14);
	memset(q, 0xbb, 20);
	CHECK_EQ(segments(m), 1); /* the headroom is m's own */
	CHECK_EQ(segments(other), 2);
	/* the next header goes in place before this one */
	CHECK(xk_msg_push(&other, 14) == q - 14);
	CHECK_EQ(segments(other), 2);
	xk_msg_pop(&m, 14);
	xk_msg_pop(&other, 34);
	CHECK(holds_pattern(m, 0, 10));
	CHECK(holds_pattern(other, 0, 10));
	xk_msg_free(m);
	xk_msg_free(other);
}

TEST_WITH(push_is_in_place_up_to_the_shared_bytes, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = patterned(platform, 10), *first = m, *other = xk_msg_part(m, 4, 6);

	/* bytes 0 to 3 are only m's */
	xk_msg_pop(&m, 4);
	memset(xk_msg_push(&m, 2), 0xaa, 2);
	CHECK(m == first && segments(m) == 1);
	/* byte 4 is shared */
	xk_msg_pop(&m, 3);
	memset(xk_msg_push(&m, 1), 0xbb, 1);
	CHECK_EQ(segments(m), 2);
	CHECK(holds_pattern(other, 4, 6));
	/* and is writable again once no other message has it */
	xk_msg_pop(&m, 1);
	REQUIRE(xk_msg_peek(&m, 1) != NULL);
	xk_msg_free(other);
	memset(xk_msg_push(&m, 1), 0xcc, 1);
	CHECK(m == first && segments(m) == 1);
	xk_msg_free(m);
}

TEST_WITH(part_has_the_bytes_and_marks_of_its_range, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = CHAIN(platform, 3, 4, 5);

	mark(m);
	for (size_t at = 0; at <= 12; at++)
		for (size_t len = 0; at + len <= 12; len++) {
			struct xk_msg *part = xk_msg_part(m, at, len);

			REQUIRE(part != NULL);
			CHECK(holds_pattern(part, at, len));
			CHECK_EQ(part->id, m->id);
			CHECK(xk_msg_annotation(part, XK_OF_MESSAGE, KIND) != NULL);
			CHECK(xk_msg_annotation(part, XK_OF_PUSH, KIND) == NULL);
			xk_msg_free(part);
		}
	allow(platform, 1);
	CHECK(xk_msg_part(m, 2, 3) == NULL); /* of two segments */
	CHECK(holds_pattern(m, 0, 12));
	xk_msg_free(m);
}

TEST_WITH(push_of_a_whole_headroom_on_a_shared_message_keeps_its_marks, struct xk_platform *platform, platform_new(),
	  platform_end)
{
	struct xk_msg *m = patterned(platform, 10), *other;

	mark(m);
	other = xk_msg_reference(m);
	xk_msg_pop(&m, 1); /* the byte in front is shared */
	REQUIRE(xk_msg_push(&m, XK_MSG_HEADROOM) != NULL);
	CHECK(is_marked(m));
	CHECK(m->data == m->floor);
	CHECK(m->tail == m->next);
	xk_msg_free(other);
	xk_msg_free(m);
}

TEST_WITH(push_without_a_buffer_leaves_the_message_unchanged, struct xk_platform *platform, platform_new(),
	  platform_end)
{
	struct xk_msg *m = patterned(platform, 3000), *other = xk_msg_reference(m), *before = m;

	xk_msg_pop(&m, 1);
	allow(platform, 0);
	CHECK(xk_msg_push(&m, 14) == NULL);
	CHECK(m == before);
	CHECK(holds_pattern(m, 1, 2999));
	xk_msg_free(other);
	xk_msg_free(m);
}

TEST_WITH(push_before_an_emptied_segment_frees_it, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = CHAIN(platform, 4, 6), *shared = xk_msg_reference(m);

	xk_msg_pop(&m, 4);
	REQUIRE(xk_msg_push(&m, 2) != NULL);
	CHECK_EQ(segments(m), 2);
	CHECK_EQ(xk_msg_len(m), 8);
	xk_msg_pop(&m, 8);
	REQUIRE(xk_msg_push(&m, XK_MSG_HEADROOM) != NULL);
	CHECK(m->tail == m);
	CHECK_EQ(segments(m), 1);
	xk_msg_free(m);
	xk_msg_free(shared);
}

/* ---- peek and pop ---- */

TEST_WITH(pop_and_peek_past_the_end_fail, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = CHAIN(platform, 3, 3);

	CHECK(xk_msg_peek(&m, 7) == NULL);
	CHECK(xk_msg_pop(&m, 7) == NULL);
	CHECK(xk_msg_pop(&m, SIZE_MAX) == NULL);
	CHECK(holds_pattern(m, 0, 6));
	CHECK(xk_msg_pop(&m, 6) != NULL);
	CHECK_EQ(xk_msg_len(m), 0);
	CHECK(xk_msg_pop(&m, 1) == NULL);
	CHECK(xk_msg_pop(&m, 0) != NULL);
	xk_msg_free(m);
}

TEST_WITH(straddling_header_is_pulled_up_at_every_offset, struct xk_platform *platform, platform_new(), platform_end)
{
	for (size_t len = 0; len <= 12; len++) {
		struct xk_msg *m = CHAIN(platform, 1, 2, 3, 1, 5);
		const uint8_t *p;

		mark(m);
		p = xk_msg_peek(&m, len);
		REQUIRE(p != NULL);
		for (size_t i = 0; i < len; i++)
			CHECK_EQ(p[i], pattern(i));
		CHECK(holds_pattern(m, 0, 12));
		p = xk_msg_pop(&m, len);
		REQUIRE(p != NULL);
		for (size_t i = 0; i < len; i++)
			CHECK_EQ(p[i], pattern(i));
		CHECK(holds_pattern(m, len, 12 - len));
		CHECK(is_marked(m));
		CHECK_EQ(out(platform), segments(m));
		xk_msg_free(m);
	}
}

TEST_WITH(pull_up_uses_the_room_behind_a_writable_first_segment, struct xk_platform *platform, platform_new(),
	  platform_end)
{
	struct xk_msg *m = patterned(platform, 5), *before = m;
	struct xk_msg *rest = xk_msg_from(platform, "abcdef", 6);

	xk_msg_join(m, rest);
	allow(platform, 0);
	REQUIRE(xk_msg_peek(&m, 8) != NULL);
	CHECK(m == before);
	CHECK(memcmp(m->data + 5, "abc", 3) == 0);
	CHECK_EQ(m->next->len, 3);
	REQUIRE(xk_msg_peek(&m, 11) != NULL);
	CHECK(m->next == NULL && m->tail == m);
	xk_msg_free(m);
}

TEST_WITH(pull_up_does_not_write_into_a_shared_first_segment, struct xk_platform *platform, platform_new(),
	  platform_end)
{
	struct xk_msg *m = patterned(platform, 10), *front = xk_msg_split(&m, 4);
	struct xk_msg *other = xk_msg_from(platform, "xyz", 3);

	/* behind front's bytes lie those of m, in the same buffer */
	xk_msg_join(front, other);
	REQUIRE(xk_msg_peek(&front, 6) != NULL);
	CHECK(memcmp(front->data + 4, "xy", 2) == 0);
	CHECK(holds_pattern(m, 4, 6));
	xk_msg_free(front);
	xk_msg_free(m);
}

TEST_WITH(pull_up_without_a_buffer_leaves_the_message_unchanged, struct xk_platform *platform, platform_new(),
	  platform_end)
{
	struct xk_msg *m = CHAIN(platform, 3, 3);

	allow(platform, 0);
	CHECK(xk_msg_peek(&m, 4) == NULL);
	CHECK(xk_msg_pop(&m, 4) == NULL);
	CHECK(holds_pattern(m, 0, 6));
	allow_all(platform);
	CHECK(xk_msg_pop(&m, 4) != NULL);
	CHECK(holds_pattern(m, 4, 2));
	xk_msg_free(m);
}

TEST_WITH(pull_up_of_more_than_any_segment_holds_is_refused, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = CHAIN(platform, 2000, 2000);

	CHECK(xk_msg_peek(&m, SEGMENT_ROOM) != NULL);
	CHECK(xk_msg_peek(&m, SEGMENT_ROOM + 1) == NULL);
	CHECK(holds_pattern(m, 0, 4000));
	CHECK_EQ(out(platform), segments(m));
	xk_msg_free(m);
}

TEST_WITH(empty_segments_are_freed_when_passed, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = CHAIN(platform, 3, 3, 3);

	mark(m);
	CHECK(xk_msg_pop(&m, 3) != NULL);
	CHECK(xk_msg_pop(&m, 3) != NULL);
	CHECK_EQ(out(platform), 2);
	CHECK(xk_msg_peek(&m, 1) != NULL);
	CHECK(xk_msg_peek(&m, 3) == m->data);
	CHECK_EQ(out(platform), 1);
	CHECK(is_marked(m));
	CHECK(holds_pattern(m, 6, 3));
	xk_msg_free(m);
}

/* ---- truncate, split, join ---- */

TEST_WITH(truncate_cuts_at_every_offset, struct xk_platform *platform, platform_new(), platform_end)
{
	for (size_t len = 0; len <= 14; len++) {
		struct xk_msg *m = CHAIN(platform, 5, 1, 4, 2);

		xk_msg_truncate(m, len);
		CHECK(holds_pattern(m, 0, len < 12 ? len : 12));
		CHECK_EQ(out(platform), segments(m));
		xk_msg_free(m);
	}
}

TEST_WITH(split_cuts_at_every_offset_without_copying, struct xk_platform *platform, platform_new(), platform_end)
{
	for (size_t len = 0; len <= 12; len++) {
		struct xk_msg *m = CHAIN(platform, 5, 1, 4, 2), *front;
		const uint8_t *first = m->data;

		m->id = 3;
		front = xk_msg_split(&m, len);
		REQUIRE(front != NULL);
		CHECK(holds_pattern(front, 0, len));
		CHECK(holds_pattern(m, len, 12 - len));
		if (len > 0)
			CHECK(front->data == first);
		if (len < 5)
			CHECK(m->data == first + len);
		CHECK_EQ(front->id, 3);
		CHECK_EQ(m->id, 3);
		xk_msg_join(front, m);
		CHECK(holds_pattern(front, 0, 12));
		xk_msg_free(front);
	}
}

TEST_WITH(empty_split_keeps_all_marks_but_the_trace, struct xk_platform *platform, platform_new(), platform_end)
{
	static const uint16_t marks = XK_MSG_ANNOTATED | XK_MSG_TRANSPORT_SUM_GOOD | XK_MSG_TO_ALL;

	for (unsigned traced = 0; traced <= XK_MSG_TRACED; traced += XK_MSG_TRACED) {
		struct xk_msg *m = patterned(platform, 10), *front;

		m->flags = (uint16_t)(marks | traced);
		front = xk_msg_split(&m, 0);
		REQUIRE(front != NULL);
		CHECK_EQ(front->flags, traced);
		CHECK_EQ(m->flags, marks | traced);
		xk_msg_free(front);
		xk_msg_free(m);
	}
}

/* A joined message counts once, and both parts of a split one belong to its owner. */
TEST_WITH(only_the_first_segment_has_an_owner, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = patterned(platform, 10), *last = patterned(platform, 10), *front;
	const struct xk_protocol *upper = (const void *)&front, *lower = (const void *)&last;

	m->owner = upper;
	last->owner = lower;
	xk_msg_join(m, last);
	CHECK(m->owner == upper && m->next == last && last->owner == NULL);
	front = xk_msg_split(&m, 10);
	REQUIRE(front != NULL);
	CHECK(m == last && m->owner == upper && front->owner == upper);
	xk_msg_free(front);
	xk_msg_free(m);
}

TEST_WITH(split_without_a_buffer_leaves_the_message_unchanged, struct xk_platform *platform, platform_new(),
	  platform_end)
{
	for (size_t len = 0; len <= 6; len++) {
		struct xk_msg *m = CHAIN(platform, 3, 3), *before = m, *front;

		allow(platform, 0);
		front = xk_msg_split(&m, len);
		if (len == 3) { /* a cut between two segments needs no buffer */
			REQUIRE(front != NULL);
			CHECK(holds_pattern(front, 0, 3));
			xk_msg_free(front);
		} else {
			CHECK(front == NULL);
			CHECK(m == before);
			CHECK(holds_pattern(m, 0, 6));
			CHECK(xk_msg_is_writable(m));
		}
		allow_all(platform);
		xk_msg_free(m);
	}
}

TEST_WITH(headers_before_a_fragment_do_not_overwrite_its_neighbour, struct xk_platform *platform, platform_new(),
	  platform_end)
{
	struct xk_msg *rest = patterned(platform, 100), *front = xk_msg_split(&rest, 40);
	uint8_t *p = xk_msg_push(&rest, 20);

	REQUIRE(p != NULL);
	memset(p, 0, 20);
	CHECK(holds_pattern(front, 0, 40));
	p = xk_msg_push(&front, 20);
	REQUIRE(p != NULL);
	memset(p, 0, 20);
	xk_msg_pop(&rest, 20);
	CHECK(holds_pattern(rest, 40, 60));
	xk_msg_free(front);
	xk_msg_free(rest);
}

TEST_WITH(split_and_join_clear_the_verified_checksum_flags, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *a = patterned(platform, 10), *b = patterned(platform, 10), *front;

	a->flags = b->flags = XK_MSG_TRANSPORT_SUM_GOOD | XK_MSG_NETWORK_SUM_GOOD | XK_MSG_TRACED;
	xk_msg_join(a, b);
	CHECK_EQ(a->flags, XK_MSG_TRACED);
	a->flags |= XK_MSG_TRANSPORT_SUM_GOOD;
	front = xk_msg_split(&a, 5);
	REQUIRE(front != NULL);
	CHECK_EQ(front->flags, XK_MSG_TRACED);
	CHECK_EQ(a->flags, XK_MSG_TRACED);
	xk_msg_free(front);
	xk_msg_free(a);
}

TEST_WITH(joining_an_empty_message_changes_nothing, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = patterned(platform, 10), *empty = xk_msg_new(platform, 0);

	xk_msg_join(m, xk_msg_new(platform, 0));
	CHECK(holds_pattern(m, 0, 10));
	CHECK_EQ(segments(m), 1);
	xk_msg_join(empty, m);
	CHECK(holds_pattern(empty, 0, 10));
	xk_msg_free(empty);
}

/* ---- copy_out and sum ---- */

TEST_WITH(copy_out_copies_any_range_within_the_message, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = CHAIN(platform, 3, 1, 4);
	uint8_t bytes[16];

	for (size_t offset = 0; offset <= 9; offset++) {
		for (size_t len = 0; len <= 9; len++) {
			memset(bytes, 0, sizeof(bytes));
			CHECK_EQ(xk_msg_copy_out(m, offset, bytes, len), offset + len <= 8);
			for (size_t i = 0; i < sizeof(bytes); i++)
				CHECK_EQ(bytes[i], offset + len <= 8 && i < len ? pattern(offset + i) : 0);
		}
	}
	CHECK(!xk_msg_copy_out(m, 4, bytes, SIZE_MAX));
	CHECK(!xk_msg_copy_out(m, SIZE_MAX, bytes, 2));
	xk_msg_free(m);
}

TEST_WITH(a_sum_does_not_depend_on_where_the_segments_end, struct xk_platform *platform, platform_new(), platform_end)
{
	for (unsigned cuts = 0; cuts < 1 << 9; cuts++) {
		struct xk_msg *m = patterned(platform, 10);
		uint8_t bytes[10];

		xk_msg_copy_out(m, 0, bytes, 10);
		for (unsigned at = 9; at >= 1; at--) {
			struct xk_msg *front;

			if ((cuts >> (at - 1) & 1) == 0)
				continue;
			/* split off the bytes before the cut, then join the chain again */
			front = xk_msg_split(&m, at);
			REQUIRE(front != NULL);
			xk_msg_join(front, m);
			m = front;
		}
		CHECK_EQ(segments(m), 1 + (unsigned)__builtin_popcount(cuts));
		CHECK_EQ(message_checksum(m), naive_checksum(bytes, 10));
		xk_msg_free(m);
	}
}

TEST_WITH(longest_messages_of_ones_and_zeros_sum_correctly, struct xk_platform *platform, platform_new(), platform_end)
{
	struct xk_msg *m = xk_msg_new(platform, XK_MSG_MAX);

	REQUIRE(m != NULL);
	for (struct xk_msg *s = m; s != NULL; s = s->next)
		memset(s->data, 0xff, s->len);
	CHECK_EQ(message_checksum(m), 0);
	for (struct xk_msg *s = m; s != NULL; s = s->next)
		memset(s->data, 0, s->len);
	CHECK_EQ(message_checksum(m), 0xffff);
	xk_msg_free(m);
}
