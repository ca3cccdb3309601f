/* test_tcp_parts.c - TCP's options, and ranges behind gaps (protocols/tcp/tcp_private.h). */
#include <limits.h>

#include "platform/sim/memory.h"
#include "protocols/tcp/tcp_private.h"
#include "tests/random.h"
#include "tests/test.h"

/* ---- options ---- */

/* Parses options in memory of their own length, so that sanitizers detect reads past their end. */
static bool
parse(struct tcp_options *options, const uint8_t *p, size_t len)
{
	uint8_t *copy = malloc(len > 0 ? len : 1);
	bool is_good;

	REQUIRE(copy != NULL);
	memcpy(copy, p, len);
	is_good = tcp_options_parse(options, copy, len);
	free(copy);
	return is_good;
}

static bool
options_are_same(const struct tcp_options *a, const struct tcp_options *b)
{
	for (unsigned i = 0; i < a->sack_count && i < b->sack_count; i++)
		if (a->sacks[i].begin != b->sacks[i].begin || a->sacks[i].end != b->sacks[i].end)
			return false;
	return a->has_mss == b->has_mss && a->mss == b->mss && a->has_scale == b->has_scale && a->scale == b->scale &&
	       a->has_sack_permitted == b->has_sack_permitted && a->has_stamp == b->has_stamp && a->stamp == b->stamp &&
	       a->echo == b->echo && a->sack_count == b->sack_count;
}

TEST(options_of_a_known_header_are_read)
{
	/* of a SYN that Linux sends */
	static const uint8_t bytes[] = { 2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7 };
	struct tcp_options options;
	uint8_t stored[TCP_OPTIONS_MAX];

	CHECK(parse(&options, bytes, sizeof(bytes)));
	CHECK_EQ(options.mss, 1460);
	CHECK(options.has_mss && options.has_sack_permitted && options.has_scale && options.has_stamp);
	CHECK_EQ(options.scale, 7);
	CHECK_EQ(options.stamp, 0x01020304);
	CHECK_EQ(options.echo, 0x05060708);
	CHECK_EQ(options.sack_count, 0);
	CHECK_EQ(tcp_options_store(stored, &options), sizeof(bytes));
	CHECK(memcmp(stored, bytes, sizeof(bytes)) == 0);
}

TEST(ranges_are_read_in_their_order)
{
	static const uint8_t bytes[] = { 1, 1, 5, 18, 0, 0, 1, 0, 0, 0, 2, 0, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 8 };
	struct tcp_options options;

	CHECK(parse(&options, bytes, sizeof(bytes)));
	CHECK_EQ(options.sack_count, 2);
	CHECK_EQ(options.sacks[0].begin, 0x100);
	CHECK_EQ(options.sacks[0].end, 0x200);
	CHECK_EQ(options.sacks[1].begin, 0xfffffff0);
	CHECK_EQ(options.sacks[1].end, 8);
}

/* Returns whether an option of this kind may have this length. */
static bool
is_length_of(unsigned kind, unsigned len)
{
	switch (kind) {
	case 2:
		return len == 4;
	case 3:
		return len == 3;
	case 4:
		return len == 2;
	case 5:
		return len == 10 || len == 18 || len == 26 || len == 34;
	case 8:
		return len == 10;
	default:
		return len >= 2;
	}
}

TEST(each_wrong_length_is_refused)
{
	uint8_t bytes[TCP_OPTIONS_MAX];
	struct tcp_options options;

	for (unsigned kind = 0; kind < 256; kind++)
		for (unsigned len = 0; len < 256; len++)
			for (unsigned room = 2; room <= TCP_OPTIONS_MAX; room += 2) {
				bool is_good = kind <= 1 || (len <= room && is_length_of(kind, len));

				memset(bytes, 0, sizeof(bytes)); /* behind it: the end of the list */
				bytes[0] = (uint8_t)kind;
				bytes[1] = kind == 1 ? 0 : (uint8_t)len;
				CHECK(parse(&options, bytes, room) == is_good);
			}
}

TEST(a_shift_above_fourteen_is_taken_as_fourteen)
{
	uint8_t bytes[] = { 3, 3, 0, 0 };
	struct tcp_options options;

	for (unsigned shift = 0; shift < 256; shift++) {
		bytes[2] = (uint8_t)shift;
		CHECK(parse(&options, bytes, sizeof(bytes)));
		CHECK_EQ(options.scale, shift < 14 ? shift : 14);
	}
}

TEST(options_that_are_repeated_store_no_more_ranges_than_there_is_room_for)
{
	struct tcp_options options;
	uint8_t bytes[64] = { 0 };

	for (unsigned i = 0; i < 6; i++) {
		bytes[10 * i] = 5;
		bytes[10 * i + 1] = 10;
		bytes[10 * i + 5] = (uint8_t)(i + 1);
		bytes[10 * i + 9] = (uint8_t)(i + 2);
	}
	CHECK(parse(&options, bytes, 60));
	CHECK_EQ(options.sack_count, TCP_SACKS);
	CHECK_EQ(options.sacks[TCP_SACKS - 1].begin, TCP_SACKS);
}

/* Draws options as segments have them: those of a SYN, or ranges, and a time stamp with either. */
static struct tcp_options
draw_options(uint64_t *random)
{
	struct tcp_options options = { .has_stamp = next_random(random) % 2 };

	if (options.has_stamp) {
		options.stamp = (uint32_t)next_random(random);
		options.echo = (uint32_t)next_random(random);
	}
	if (next_random(random) % 2) {
		options.has_mss = next_random(random) % 8 > 0;
		options.mss = options.has_mss ? (uint16_t)next_random(random) : 0;
		options.has_sack_permitted = next_random(random) % 2;
		options.has_scale = next_random(random) % 2;
		options.scale = options.has_scale ? next_random(random) % (TCP_SCALE_MAX + 1) : 0;
		return options;
	}
	options.sack_count = (uint8_t)(next_random(random) % (options.has_stamp ? TCP_SACKS : TCP_SACKS + 1));
	for (unsigned i = 0; i < options.sack_count; i++) {
		options.sacks[i].begin = (uint32_t)next_random(random);
		options.sacks[i].end = (uint32_t)next_random(random);
	}
	return options;
}

TEST(stored_options_are_read_as_they_were)
{
	uint64_t random = test_seed("stored_options_are_read_as_they_were");

	for (unsigned i = 0; i < 20000; i++) {
		struct tcp_options options = draw_options(&random), again;
		uint8_t bytes[TCP_OPTIONS_MAX];
		size_t len = tcp_options_store(bytes, &options);

		CHECK(len <= TCP_OPTIONS_MAX && len % 4 == 0);
		CHECK(parse(&again, bytes, len));
		CHECK(options_are_same(&again, &options));
	}
}

TEST(damaged_options_are_read_or_refused)
{
	uint64_t random = test_seed("damaged_options_are_read_or_refused");
	unsigned good = 0;

	for (unsigned i = 0; i < 100000; i++) {
		uint8_t bytes[TCP_OPTIONS_MAX] = { 0 };
		struct tcp_options options = draw_options(&random);
		size_t len = tcp_options_store(bytes, &options);

		for (unsigned damages = 0; damages < 2; damages++)
			bytes[next_random(&random) % TCP_OPTIONS_MAX] = (uint8_t)(next_random(&random) % 12);
		good += parse(&options, bytes, next_random(&random) % 2 ? len : TCP_OPTIONS_MAX);
		CHECK(options.sack_count <= TCP_SACKS && options.scale <= TCP_SCALE_MAX);
	}
	CHECK(good > 1000 && good < 99000);
}

/* ---- ranges behind gaps ---- */

enum { STREAM = 2000 };

/* A stream whose first byte has the number `base`, of which some bytes have come. */
struct stage {
	struct xk_platform *platform;
	struct tcp_gaps *gaps;
	uint32_t base;
	bool has[STREAM];
	uint8_t byte[STREAM]; /* valid if has */
	bool holds_bytes;
};

static void
stage_open(struct stage *s, uint32_t base, bool holds_bytes)
{
	*s = (struct stage){ .base = base, .holds_bytes = holds_bytes };
	s->platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	REQUIRE(s->platform != NULL);
}

static void
stage_close(struct stage *s)
{
	xk_msg_free(tcp_gaps_take(&s->gaps, s->base + STREAM));
	CHECK(s->gaps == NULL);
	CHECK_EQ(s->platform->ops->buffers_out(s->platform), 0);
	xk_memory_platform_free(s->platform);
}

static struct xk_msg *
stage_message(const struct stage *s, unsigned len, uint8_t fill)
{
	uint8_t bytes[STREAM];
	struct xk_msg *m;

	memset(bytes, fill, len);
	m = xk_msg_from(s->platform, bytes, len);
	REQUIRE(m != NULL);
	return m;
}

/* Adds a range. Frees the message if it is not taken. */
static bool
stage_give(struct stage *s, unsigned begin, unsigned end, struct xk_msg *m)
{
	bool is_added = tcp_gaps_add(&s->gaps, (struct tcp_range){ s->base + begin, s->base + end }, &m);

	CHECK(!is_added || m == NULL);
	xk_msg_free(m);
	return is_added;
}

/* Adds the bytes [begin, end), all with this value. */
static bool
stage_add(struct stage *s, unsigned begin, unsigned end, uint8_t fill)
{
	return stage_give(s, begin, end, s->holds_bytes ? stage_message(s, end - begin, fill) : NULL);
}

/* Adds bytes whose values depend on their place. */
static bool
stage_add_pattern(struct stage *s, unsigned begin, unsigned end)
{
	struct xk_msg *m = NULL;

	if (s->holds_bytes) {
		uint8_t bytes[STREAM];

		for (unsigned i = begin; i < end; i++)
			bytes[i - begin] = (uint8_t)(i * 7);
		m = xk_msg_from(s->platform, bytes, end - begin);
		REQUIRE(m != NULL);
	}
	return stage_give(s, begin, end, m);
}

/* Checks that the ranges are those of `has`, and that their bytes are the pattern. */
static void
stage_check(struct stage *s)
{
	unsigned count = 0, buffers = 0, at = 0;
	bool is_same = true;

	for (unsigned i = 0; i < STREAM; i++)
		count += s->has[i] && (i == 0 || !s->has[i - 1]);
	CHECK_EQ(s->gaps == NULL ? 0 : s->gaps->count, count);
	for (unsigned i = 0; s->gaps != NULL && i < s->gaps->count; i++) {
		unsigned begin = s->gaps->range[i].begin - s->base, end = s->gaps->range[i].end - s->base;
		uint8_t bytes[STREAM];

		REQUIRE(at <= begin && begin < end && end <= STREAM);
		for (; at < begin; at++)
			is_same = is_same && !s->has[at];
		for (; at < end; at++)
			is_same = is_same && s->has[at];
		CHECK((s->gaps->m[i] != NULL) == s->holds_bytes);
		buffers += xk_msg_buffers(s->gaps->m[i]);
		if (!s->holds_bytes)
			continue;
		CHECK_EQ(xk_msg_len(s->gaps->m[i]), end - begin);
		REQUIRE(xk_msg_copy_out(s->gaps->m[i], 0, bytes, end - begin));
		for (unsigned k = begin; k < end; k++)
			is_same = is_same && bytes[k - begin] == (uint8_t)(k * 7);
	}
	CHECK_EQ(s->gaps == NULL ? 0 : s->gaps->buffers, buffers);
	for (; at < STREAM; at++)
		is_same = is_same && !s->has[at];
	CHECK(is_same);
}

/* Takes what lies before `place`, and checks what is returned. Returns where that ends. */
static unsigned
stage_take(struct stage *s, unsigned place)
{
	struct xk_msg *m = tcp_gaps_take(&s->gaps, s->base + place);
	unsigned end = place;

	memset(s->has, 0, place * sizeof(s->has[0]));
	if (!s->holds_bytes) {
		CHECK(m == NULL);
		return place;
	}
	for (; end < STREAM && s->has[end]; end++) {
		uint8_t byte = 0;

		CHECK(xk_msg_copy_out(m, end - place, &byte, 1));
		CHECK_EQ(byte, (uint8_t)(end * 7));
		s->has[end] = false;
	}
	CHECK_EQ(m == NULL ? 0 : xk_msg_len(m), end - place);
	xk_msg_free(m);
	return end;
}

/* Adds and takes at random; a model says whether a further range had to be refused. */
static void
run_randomly(const char *name, uint32_t base, bool holds_bytes)
{
	uint64_t random = test_seed(name) + 1;
	unsigned place = 0, refused = 0;
	struct stage s;

	for (unsigned i = 0; i < 200; i++) {
		stage_open(&s, base, holds_bytes);
		for (place = 0; place < STREAM - 100;) {
			unsigned begin = place + (unsigned)(next_random(&random) % (STREAM - place));
			unsigned most = next_random(&random) % 8 == 0 ? 300 : 12;
			unsigned end = begin + 1 + (unsigned)(next_random(&random) % most);

			if (end > STREAM)
				end = STREAM;
			if (stage_add_pattern(&s, begin, end)) {
				memset(s.has + begin, true, end - begin);
			} else {
				refused++;
				CHECK_EQ(s.gaps->count, TCP_RANGES);
			}
			stage_check(&s);
			if (next_random(&random) % 16 == 0)
				place = stage_take(&s, place + (unsigned)(next_random(&random) % 100));
		}
		stage_close(&s);
	}
	CHECK(refused > 0);
}

TEST_OF(ranges_are_what_a_bitmap_says, run_randomly("ranges_are_what_a_bitmap_says", 1000, true));
TEST_OF(numbers_may_wrap, run_randomly("numbers_may_wrap", UINT32_MAX - 700, true));
TEST_OF(ranges_without_bytes_are_what_a_bitmap_says,
	run_randomly("ranges_without_bytes_are_what_a_bitmap_says", UINT32_MAX - 700, false));

TEST_IN(a_range_too_many_is_refused, struct stage, s, stage_open(s, 5, true), stage_close)
{
	for (unsigned i = 0; i < TCP_RANGES; i++)
		CHECK(stage_add(s, 20 * i + 10, 20 * i + 15, 1));
	CHECK(!stage_add(s, 20 * TCP_RANGES + 10, 20 * TCP_RANGES + 15, 1));
	CHECK(!stage_add(s, 0, 5, 1));
	CHECK_EQ(s->gaps->count, TCP_RANGES);
	CHECK_EQ(s->platform->ops->buffers_out(s->platform), TCP_RANGES);
	CHECK(stage_add(s, 15, 20, 1)); /* longer ones are not more */
	CHECK(stage_add(s, 20, 30, 1)); /* closes a gap */
	CHECK_EQ(s->gaps->count, TCP_RANGES - 1);
	CHECK(stage_add(s, 0, 5, 1));
}

/* Returns the byte at a place of the range at index. */
static uint8_t
stage_byte(const struct stage *s, unsigned index, unsigned place)
{
	uint8_t byte = 0;

	REQUIRE(s->gaps != NULL && index < s->gaps->count);
	CHECK(xk_msg_copy_out(s->gaps->m[index], s->base + place - s->gaps->range[index].begin, &byte, 1));
	return byte;
}

TEST_IN(bytes_that_came_first_stay, struct stage, s, stage_open(s, 5, true), stage_close)
{
	CHECK(stage_add(s, 100, 200, 1));
	CHECK(stage_add(s, 100, 200, 2)); /* all of them */
	CHECK(stage_add(s, 120, 180, 2)); /* within */
	CHECK(stage_add(s, 150, 250, 2)); /* beyond the end */
	CHECK_EQ(s->gaps->count, 1);
	for (unsigned place = 100; place < 250; place++)
		CHECK_EQ(stage_byte(s, 0, place), place < 200 ? 1 : 2);
}

TEST_IN(without_a_buffer_a_range_is_refused_or_kept_in_part, struct stage, s, stage_open(s, 5, true), stage_close)
{
	struct xk_msg *m;

	CHECK(stage_add(s, 100, 200, 1));
	m = stage_message(s, 100, 2);
	xk_memory_platform_limit(s->platform, s->platform->ops->buffers_out(s->platform));
	if (stage_give(s, 150, 250, m))
		CHECK_EQ(s->gaps->range[0].end, s->base + 250);
	else
		CHECK_EQ(s->gaps->range[0].end, s->base + 200);
	CHECK_EQ(xk_msg_len(s->gaps->m[0]), s->gaps->range[0].end - s->gaps->range[0].begin);
	xk_memory_platform_limit(s->platform, UINT_MAX);
}
