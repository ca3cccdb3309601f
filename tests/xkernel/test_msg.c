/* test_msg.c - the Message tool, on buffers of which every one is a malloc. */
#include <stdlib.h>
#include <time.h>

#include "platform/sim/memory.h"
#include "tests/test.h"
#include "tests/xkernel/naive_checksum.h"
#include "xkernel/checksum.h"
#include "xkernel/msg.h"

enum { SEGMENT_ROOM = XK_MSG_SEGMENT };

static struct xk_platform *
platform_new(void)
{
	struct xk_platform *platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);

	REQUIRE(platform != NULL);
	return platform;
}

static unsigned
out(struct xk_platform *platform)
{
	return platform->ops->buffers_out(platform);
}

/* Fails the test if a buffer is left. */
static void
platform_end(struct xk_platform *platform)
{
	CHECK_EQ(out(platform), 0);
	xk_memory_platform_free(platform);
}

/* Allows count more segments than are out now. */
static void
allow(struct xk_platform *platform, unsigned count)
{
	xk_memory_platform_limit(platform, out(platform) + count);
}

static void
allow_all(struct xk_platform *platform)
{
	xk_memory_platform_limit(platform, UINT32_MAX);
}

static uint8_t
pattern(size_t index)
{
	return (uint8_t)(index * 7 + index / 256 + 1);
}

static struct xk_msg *
patterned(struct xk_platform *platform, size_t len)
{
	uint8_t *bytes = malloc(len + 1);
	struct xk_msg *m;

	REQUIRE(bytes != NULL);
	for (size_t i = 0; i < len; i++)
		bytes[i] = pattern(i);
	m = xk_msg_from(platform, bytes, len);
	free(bytes);
	return m;
}

static unsigned
segments(const struct xk_msg *m)
{
	unsigned count = 0;

	for (; m != NULL; m = m->next)
		count++;
	return count;
}

/* Whether the chain is consistent and holds exactly these bytes. */
static bool
holds(const struct xk_msg *m, const uint8_t *bytes, size_t len)
{
	const struct xk_msg *last = m;
	size_t offset = 0;

	if (m->total != len)
		return false;
	for (const struct xk_msg *s = m; s != NULL; last = s, s = s->next) {
		if (s->data < s->floor || s->data + s->len > s->ceiling || offset + s->len > len)
			return false;
		if (s->len > 0 && memcmp(s->data, bytes + offset, s->len) != 0)
			return false;
		offset += s->len;
	}
	return offset == len && m->tail == last;
}

/* As holds, for len bytes of the pattern from `from` on. */
static bool
holds_pattern(const struct xk_msg *m, size_t from, size_t len)
{
	uint8_t *bytes = malloc(len + 1);
	bool same;

	REQUIRE(bytes != NULL);
	for (size_t i = 0; i < len; i++)
		bytes[i] = pattern(from + i);
	same = holds(m, bytes, len);
	free(bytes);
	return same;
}

/* The pattern's first bytes in segments of the given lengths (0 ends them), none with room behind it. */
static struct xk_msg *
chain(struct xk_platform *platform, const size_t *lens)
{
	struct xk_msg *m = NULL;
	size_t index = 0;

	for (; *lens != 0; lens++) {
		struct xk_msg *piece = xk_memory_frame(platform, *lens);

		REQUIRE(piece != NULL);
		for (size_t i = 0; i < *lens; i++)
			piece->data[i] = pattern(index++);
		if (m == NULL)
			m = piece;
		else
			xk_msg_join(m, piece);
	}
	return m;
}

#define CHAIN(platform, ...) chain(platform, (const size_t[]){ __VA_ARGS__, 0 })

/* ---- new, from, free, reference ---- */

TEST(a_new_message_has_headroom_and_its_length)
{
	struct xk_platform *platform = platform_new();
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
	platform_end(platform);
}

TEST(a_message_longer_than_the_longest_is_refused)
{
	struct xk_platform *platform = platform_new();

	CHECK(xk_msg_new(platform, (size_t)XK_MSG_MAX + 1) == NULL);
	CHECK(xk_msg_from(platform, "x", (size_t)XK_MSG_MAX + 1) == NULL);
	CHECK(xk_msg_new(platform, SIZE_MAX) == NULL);
	platform_end(platform);
}

TEST(from_copies_the_bytes)
{
	struct xk_platform *platform = platform_new();
	size_t lens[] = { 0, 1, 100, SEGMENT_ROOM, SEGMENT_ROOM + 1, 10000 };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(lens); i++) {
		struct xk_msg *m = patterned(platform, lens[i]);

		REQUIRE(m != NULL);
		CHECK(holds_pattern(m, 0, lens[i]));
		xk_msg_free(m);
	}
	platform_end(platform);
}

TEST(free_lets_null_through)
{
	xk_msg_free(NULL);
}

TEST(new_from_and_reference_give_back_what_they_got_when_buffers_run_out)
{
	struct xk_platform *platform = platform_new();
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
	platform_end(platform);
}

TEST(a_reference_shares_the_bytes_and_outlives_the_original)
{
	struct xk_platform *platform = platform_new();
	struct xk_msg *m = patterned(platform, 5000), *other;

	REQUIRE(m != NULL);
	m->id = 7;
	m->flags = XK_MSG_TRACED | XK_MSG_UDP_SUM_GOOD;
	other = xk_msg_reference(m);
	REQUIRE(other != NULL);
	CHECK(other->data == m->data);
	CHECK_EQ(other->id, 7);
	CHECK_EQ(other->flags, XK_MSG_TRACED | XK_MSG_UDP_SUM_GOOD);
	CHECK(!xk_msg_is_writable(m) && !xk_msg_is_writable(other));
	xk_msg_free(m);
	CHECK(xk_msg_is_writable(other));
	CHECK(holds_pattern(other, 0, 5000));
	xk_msg_free(other);
	platform_end(platform);
}

/* ---- push ---- */

TEST(push_stays_in_the_headroom_while_there_is_some)
{
	struct xk_platform *platform = platform_new();
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
	platform_end(platform);
}

TEST(push_on_a_shared_message_leaves_the_shared_bytes_alone)
{
	struct xk_platform *platform = platform_new();
	struct xk_msg *m = patterned(platform, 10), *other = xk_msg_reference(m);
	uint8_t *p = xk_msg_push(&m, 14), *q = xk_msg_push(&other, 20);

	REQUIRE(p != NULL && q != NULL);
	memset(p, 0xaa, 14);
	memset(q, 0xbb, 20);
	CHECK_EQ(segments(m), 2);
	/* the next header goes in place before this one */
	CHECK(xk_msg_push(&m, 20) == p - 20);
	CHECK_EQ(segments(m), 2);
	xk_msg_pop(&m, 34);
	xk_msg_pop(&other, 20);
	CHECK(holds_pattern(m, 0, 10));
	CHECK(holds_pattern(other, 0, 10));
	xk_msg_free(m);
	xk_msg_free(other);
	platform_end(platform);
}

TEST(push_of_a_whole_headroom_on_a_shared_message_keeps_number_and_flags)
{
	struct xk_platform *platform = platform_new();
	struct xk_msg *m = patterned(platform, 10), *other;

	m->id = 9;
	m->flags = XK_MSG_TRACED;
	other = xk_msg_reference(m);
	REQUIRE(xk_msg_push(&m, XK_MSG_HEADROOM) != NULL);
	CHECK_EQ(m->id, 9);
	CHECK_EQ(m->flags, XK_MSG_TRACED);
	CHECK(m->data == m->floor);
	CHECK(m->tail == m->next);
	xk_msg_free(other);
	xk_msg_free(m);
	platform_end(platform);
}

TEST(push_without_a_buffer_leaves_the_message_unchanged)
{
	struct xk_platform *platform = platform_new();
	struct xk_msg *m = patterned(platform, 3000), *other = xk_msg_reference(m), *before = m;

	allow(platform, 0);
	CHECK(xk_msg_push(&m, 14) == NULL);
	CHECK(m == before);
	CHECK(holds_pattern(m, 0, 3000));
	xk_msg_free(other);
	xk_msg_free(m);
	platform_end(platform);
}

TEST(push_in_front_of_an_emptied_segment_gives_it_back)
{
	struct xk_platform *platform = platform_new();
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
	platform_end(platform);
}

/* ---- peek and pop ---- */

TEST(pop_and_peek_of_more_than_there_is_say_so)
{
	struct xk_platform *platform = platform_new();
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
	platform_end(platform);
}

TEST(a_header_that_straddles_is_pulled_up_at_every_place)
{
	struct xk_platform *platform = platform_new();

	for (size_t len = 0; len <= 12; len++) {
		struct xk_msg *m = CHAIN(platform, 1, 2, 3, 1, 5);
		const uint8_t *p = xk_msg_peek(&m, len);

		REQUIRE(p != NULL);
		for (size_t i = 0; i < len; i++)
			CHECK_EQ(p[i], pattern(i));
		CHECK(holds_pattern(m, 0, 12));
		p = xk_msg_pop(&m, len);
		REQUIRE(p != NULL);
		for (size_t i = 0; i < len; i++)
			CHECK_EQ(p[i], pattern(i));
		CHECK(holds_pattern(m, len, 12 - len));
		CHECK_EQ(out(platform), segments(m));
		xk_msg_free(m);
	}
	platform_end(platform);
}

TEST(pull_up_uses_the_room_behind_a_writable_first_segment)
{
	struct xk_platform *platform = platform_new();
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
	platform_end(platform);
}

TEST(pull_up_does_not_write_into_a_shared_first_segment)
{
	struct xk_platform *platform = platform_new();
	struct xk_msg *m = patterned(platform, 10), *front = xk_msg_split(&m, 4);
	struct xk_msg *other = xk_msg_from(platform, "xyz", 3);

	/* behind front's bytes lie those of m, in the same buffer */
	xk_msg_join(front, other);
	REQUIRE(xk_msg_peek(&front, 6) != NULL);
	CHECK(memcmp(front->data + 4, "xy", 2) == 0);
	CHECK(holds_pattern(m, 4, 6));
	xk_msg_free(front);
	xk_msg_free(m);
	platform_end(platform);
}

TEST(pull_up_without_a_buffer_leaves_the_message_unchanged)
{
	struct xk_platform *platform = platform_new();
	struct xk_msg *m = CHAIN(platform, 3, 3);

	allow(platform, 0);
	CHECK(xk_msg_peek(&m, 4) == NULL);
	CHECK(xk_msg_pop(&m, 4) == NULL);
	CHECK(holds_pattern(m, 0, 6));
	allow_all(platform);
	CHECK(xk_msg_pop(&m, 4) != NULL);
	CHECK(holds_pattern(m, 4, 2));
	xk_msg_free(m);
	platform_end(platform);
}

TEST(pull_up_of_more_than_any_segment_holds_is_refused)
{
	struct xk_platform *platform = platform_new();
	struct xk_msg *m = CHAIN(platform, 2000, 2000);

	CHECK(xk_msg_peek(&m, SEGMENT_ROOM) != NULL);
	CHECK(xk_msg_peek(&m, SEGMENT_ROOM + 1) == NULL);
	CHECK(holds_pattern(m, 0, 4000));
	CHECK_EQ(out(platform), segments(m));
	xk_msg_free(m);
	platform_end(platform);
}

TEST(empty_segments_are_given_back_as_they_are_passed)
{
	struct xk_platform *platform = platform_new();
	struct xk_msg *m = CHAIN(platform, 3, 3, 3);

	m->id = 5;
	m->flags = XK_MSG_TRACED;
	CHECK(xk_msg_pop(&m, 3) != NULL);
	CHECK(xk_msg_pop(&m, 3) != NULL);
	CHECK_EQ(out(platform), 2);
	CHECK(xk_msg_peek(&m, 1) != NULL);
	CHECK(xk_msg_peek(&m, 3) == m->data);
	CHECK_EQ(out(platform), 1);
	CHECK_EQ(m->id, 5);
	CHECK_EQ(m->flags, XK_MSG_TRACED);
	CHECK(holds_pattern(m, 6, 3));
	xk_msg_free(m);
	platform_end(platform);
}

/* ---- truncate, split, join ---- */

TEST(truncate_cuts_at_every_place)
{
	struct xk_platform *platform = platform_new();

	for (size_t len = 0; len <= 14; len++) {
		struct xk_msg *m = CHAIN(platform, 5, 1, 4, 2);

		xk_msg_truncate(m, len);
		CHECK(holds_pattern(m, 0, len < 12 ? len : 12));
		CHECK_EQ(out(platform), segments(m));
		xk_msg_free(m);
	}
	platform_end(platform);
}

TEST(split_cuts_at_every_place_and_copies_nothing)
{
	struct xk_platform *platform = platform_new();

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
	platform_end(platform);
}

TEST(split_without_a_buffer_leaves_the_message_unchanged)
{
	struct xk_platform *platform = platform_new();

	for (size_t len = 0; len <= 6; len++) {
		struct xk_msg *m = CHAIN(platform, 3, 3), *before = m, *front;

		allow(platform, 0);
		front = xk_msg_split(&m, len);
		if (len == 3) { /* between two segments no buffer is needed */
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
	platform_end(platform);
}

TEST(headers_before_a_fragment_do_not_overwrite_its_neighbour)
{
	struct xk_platform *platform = platform_new();
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
	platform_end(platform);
}

TEST(what_the_port_verified_is_forgotten_by_split_and_join)
{
	struct xk_platform *platform = platform_new();
	struct xk_msg *a = patterned(platform, 10), *b = patterned(platform, 10), *front;

	a->flags = b->flags = XK_MSG_UDP_SUM_GOOD | XK_MSG_IP_SUM_GOOD | XK_MSG_TRACED;
	xk_msg_join(a, b);
	CHECK_EQ(a->flags, XK_MSG_TRACED);
	a->flags |= XK_MSG_UDP_SUM_GOOD;
	front = xk_msg_split(&a, 5);
	REQUIRE(front != NULL);
	CHECK_EQ(front->flags, XK_MSG_TRACED);
	CHECK_EQ(a->flags, XK_MSG_TRACED);
	xk_msg_free(front);
	xk_msg_free(a);
	platform_end(platform);
}

TEST(join_with_nothing_is_the_same_message)
{
	struct xk_platform *platform = platform_new();
	struct xk_msg *m = patterned(platform, 10), *empty = xk_msg_new(platform, 0);

	xk_msg_join(m, xk_msg_new(platform, 0));
	CHECK(holds_pattern(m, 0, 10));
	CHECK_EQ(segments(m), 1);
	xk_msg_join(empty, m);
	CHECK(holds_pattern(empty, 0, 10));
	xk_msg_free(empty);
	platform_end(platform);
}

/* ---- copy_out and sum ---- */

TEST(copy_out_takes_any_range_and_nothing_beyond_the_end)
{
	struct xk_platform *platform = platform_new();
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
	platform_end(platform);
}

static uint16_t
message_checksum(const struct xk_msg *m)
{
	uint8_t stored[2];

	xk_checksum_store(stored, xk_checksum_finish(xk_msg_sum(m)));
	return (uint16_t)(stored[0] << 8 | stored[1]);
}

TEST(a_sum_does_not_depend_on_where_the_segments_end)
{
	struct xk_platform *platform = platform_new();

	for (unsigned cuts = 0; cuts < 1 << 9; cuts++) {
		struct xk_msg *m = patterned(platform, 10);
		uint8_t bytes[10];

		xk_msg_copy_out(m, 0, bytes, 10);
		for (unsigned at = 9; at >= 1; at--) {
			struct xk_msg *front;

			if ((cuts >> (at - 1) & 1) == 0)
				continue;
			/* split off what is before the cut, then put the chain together again */
			front = xk_msg_split(&m, at);
			REQUIRE(front != NULL);
			xk_msg_join(front, m);
			m = front;
		}
		CHECK_EQ(segments(m), 1 + (unsigned)__builtin_popcount(cuts));
		CHECK_EQ(message_checksum(m), naive_checksum(bytes, 10));
		xk_msg_free(m);
	}
	platform_end(platform);
}

TEST(a_sum_of_ones_and_of_zeros_over_a_longest_message)
{
	struct xk_platform *platform = platform_new();
	struct xk_msg *m = xk_msg_new(platform, XK_MSG_MAX);

	REQUIRE(m != NULL);
	for (struct xk_msg *s = m; s != NULL; s = s->next)
		memset(s->data, 0xff, s->len);
	CHECK_EQ(message_checksum(m), 0);
	for (struct xk_msg *s = m; s != NULL; s = s->next)
		memset(s->data, 0, s->len);
	CHECK_EQ(message_checksum(m), 0xffff);
	xk_msg_free(m);
	platform_end(platform);
}

/* ---- all operations at random, against flat arrays ---- */

enum { MODEL_MESSAGES = 6, MODEL_MAX = 12000, MODEL_STEPS = 20000 };

struct model {
	struct xk_platform *platform;
	uint64_t random;
	struct xk_msg *m[MODEL_MESSAGES]; /* NULL: none there */
	uint8_t *bytes[MODEL_MESSAGES];   /* what m holds; MODEL_MAX bytes of room */
	size_t len[MODEL_MESSAGES];
	uint32_t id[MODEL_MESSAGES];
	bool starved; /* an operation may fail */
	const char *operation;
};

static uint32_t
model_random(struct model *self, uint32_t below)
{
	self->random = self->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((self->random >> 33) % below);
}

/* Lengths that matter: mostly a header's, sometimes about a segment's, sometimes anything. */
static size_t
model_len(struct model *self, size_t max)
{
	size_t len;

	switch (model_random(self, 4)) {
	case 0:
		len = model_random(self, 5000);
		break;
	case 1:
		len = SEGMENT_ROOM - 2 + model_random(self, 5);
		break;
	default:
		len = model_random(self, 40);
		break;
	}
	return len <= max ? len : max;
}

static void
model_new(struct model *self, unsigned i)
{
	size_t len = model_len(self, MODEL_MAX);

	self->operation = "from";
	for (size_t k = 0; k < len; k++)
		self->bytes[i][k] = (uint8_t)model_random(self, 256);
	self->len[i] = len;
	if (model_random(self, 2) == 0) {
		self->m[i] = xk_msg_from(self->platform, self->bytes[i], len);
	} else {
		self->m[i] = xk_memory_frame(self->platform, len);
		if (self->m[i] != NULL)
			memcpy(self->m[i]->data, self->bytes[i], len);
	}
	CHECK(self->m[i] != NULL || self->starved);
	self->id[i] = model_random(self, 1000);
	if (self->m[i] != NULL)
		self->m[i]->id = self->id[i];
}

static void
model_push(struct model *self, unsigned i)
{
	size_t len = model_random(self, XK_MSG_HEADROOM + 1);
	uint8_t *p;

	self->operation = "push";
	if (self->len[i] + len > MODEL_MAX)
		return;
	p = xk_msg_push(&self->m[i], len);
	CHECK(p != NULL || self->starved);
	if (p == NULL)
		return;
	memmove(self->bytes[i] + len, self->bytes[i], self->len[i]);
	for (size_t k = 0; k < len; k++)
		p[k] = self->bytes[i][k] = (uint8_t)model_random(self, 256);
	self->len[i] += len;
}

static void
model_pop(struct model *self, unsigned i)
{
	size_t len = model_len(self, SEGMENT_ROOM);
	bool pops = model_random(self, 2) == 0;
	const uint8_t *p;

	self->operation = pops ? "pop" : "peek";
	p = pops ? xk_msg_pop(&self->m[i], len) : xk_msg_peek(&self->m[i], len);
	CHECK((p != NULL) == (len <= self->len[i]) || (p == NULL && self->starved));
	if (p == NULL)
		return;
	CHECK(memcmp(p, self->bytes[i], len) == 0);
	if (!pops)
		return;
	memmove(self->bytes[i], self->bytes[i] + len, self->len[i] - len);
	self->len[i] -= len;
}

static void
model_truncate(struct model *self, unsigned i)
{
	size_t len = model_len(self, MODEL_MAX);

	self->operation = "truncate";
	xk_msg_truncate(self->m[i], len);
	if (len < self->len[i])
		self->len[i] = len;
}

static void
model_reference(struct model *self, unsigned i, unsigned empty)
{
	self->operation = "reference";
	self->m[empty] = xk_msg_reference(self->m[i]);
	CHECK(self->m[empty] != NULL || self->starved);
	memcpy(self->bytes[empty], self->bytes[i], self->len[i]);
	self->len[empty] = self->len[i];
	self->id[empty] = self->id[i];
}

/* The front becomes message `empty`. */
static void
model_split(struct model *self, unsigned i, unsigned empty)
{
	size_t len = model_len(self, self->len[i]);

	self->operation = "split";
	self->m[empty] = xk_msg_split(&self->m[i], len);
	CHECK(self->m[empty] != NULL || self->starved);
	if (self->m[empty] == NULL)
		return;
	memcpy(self->bytes[empty], self->bytes[i], len);
	memmove(self->bytes[i], self->bytes[i] + len, self->len[i] - len);
	self->len[empty] = len;
	self->len[i] -= len;
	self->id[empty] = self->id[i];
}

static void
model_join(struct model *self, unsigned i, unsigned other)
{
	self->operation = "join";
	if (self->len[i] + self->len[other] > MODEL_MAX)
		return;
	xk_msg_join(self->m[i], self->m[other]);
	self->m[other] = NULL;
	memcpy(self->bytes[i] + self->len[i], self->bytes[other], self->len[other]);
	self->len[i] += self->len[other];
}

static void
model_read(struct model *self, unsigned i)
{
	static uint8_t bytes[MODEL_MAX];
	size_t offset = model_random(self, (uint32_t)self->len[i] + 1), len = model_len(self, MODEL_MAX);

	self->operation = "copy_out or sum";
	CHECK_EQ(message_checksum(self->m[i]), naive_checksum(self->bytes[i], self->len[i]));
	CHECK_EQ(xk_msg_copy_out(self->m[i], offset, bytes, len), len <= self->len[i] - offset);
	if (len <= self->len[i] - offset)
		CHECK(memcmp(bytes, self->bytes[i] + offset, len) == 0);
}

static void
model_step_on(struct model *self, unsigned i, unsigned other)
{
	switch (model_random(self, 9)) {
	case 0:
	case 1:
		model_push(self, i);
		return;
	case 2:
	case 3:
		model_pop(self, i);
		return;
	case 4:
		model_truncate(self, i);
		return;
	case 5:
	case 6:
		if (self->m[other] != NULL)
			model_join(self, i, other);
		else
			model_split(self, i, other);
		return;
	case 7:
		if (self->m[other] == NULL)
			model_reference(self, i, other);
		return;
	default:
		model_read(self, i);
		return;
	}
}

static void
model_step(struct model *self)
{
	unsigned i = model_random(self, MODEL_MESSAGES);
	unsigned other = (i + 1 + model_random(self, MODEL_MESSAGES - 1)) % MODEL_MESSAGES;

	self->starved = model_random(self, 4) == 0;
	if (self->starved)
		allow(self->platform, model_random(self, 3));
	if (self->m[i] == NULL) {
		model_new(self, i);
	} else if (model_random(self, 12) == 0) {
		self->operation = "free";
		xk_msg_free(self->m[i]);
		self->m[i] = NULL;
	} else {
		model_step_on(self, i, other);
	}
	allow_all(self->platform);
}

/* Every message is what its array says, and no buffer is out that none of them has. */
static bool
model_agrees(struct model *self)
{
	unsigned count = 0;

	for (unsigned i = 0; i < MODEL_MESSAGES; i++) {
		if (self->m[i] == NULL)
			continue;
		if (!holds(self->m[i], self->bytes[i], self->len[i]) || self->m[i]->id != self->id[i])
			return false;
		count += segments(self->m[i]);
	}
	return count == out(self->platform);
}

TEST(random_operations_agree_with_flat_arrays)
{
	uint64_t seed = (uint64_t)time(NULL);
	struct model self = { .platform = platform_new(), .random = seed };
	unsigned step, failures = CU_get_number_of_failures();
	bool agrees = true;

	for (unsigned i = 0; i < MODEL_MESSAGES; i++)
		self.bytes[i] = malloc(MODEL_MAX);
	for (step = 0; step < MODEL_STEPS && agrees; step++) {
		model_step(&self);
		agrees = model_agrees(&self) && CU_get_number_of_failures() == failures;
	}
	if (!agrees)
		fprintf(stderr, "\nseed %" PRIu64 ", step %u, %s\n", seed, step, self.operation);
	CHECK(agrees);
	for (unsigned i = 0; i < MODEL_MESSAGES; i++) {
		xk_msg_free(self.m[i]);
		free(self.bytes[i]);
	}
	platform_end(self.platform);
}
