/* test_reassembly.c - the reassembler alone: datagrams reassembled and refused, and its bounds. */

#include "platform/sim/memory.h"
#include "tests/protocols/discarded.h"
#include "tests/random.h"
#include "tests/test.h"

enum { HOST = 0x0a4d0001, PEER = 0x0a4d0002 };

enum { BUFFER = IP_REASSEMBLY_BUFFER, USUAL_FRAGMENTS = 256 };

static const struct ip_reassembly_limits usual = { 64, 1024 * BUFFER, 16, USUAL_FRAGMENTS *BUFFER };
static const struct ip_reassembly_limits wide = { 64, 65536 * BUFFER, 64, 65536 * BUFFER };

/* A reassembler, the discarded messages counted by reason, and its buffers. */
struct bench {
	struct xk_platform *platform;
	struct ip_reassembly table;
	unsigned count[IP_REASSEMBLY_REASONS];
};

static struct bench *
bench_new(const struct ip_reassembly_limits *limits)
{
	struct bench *b = calloc(1, sizeof(*b));

	REQUIRE(b != NULL);
	b->platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	REQUIRE(b->platform != NULL);
	REQUIRE(ip_reassembly_init(&b->table, limits) == 0);
	return b;
}

static void
bench_free(struct bench *b)
{
	ip_reassembly_fini(&b->table);
	CHECK_EQ(b->platform->ops->buffers_out(b->platform), 0);
	xk_memory_platform_free(b->platform);
	free(b);
}

static struct xk_msg *
bench_add(struct bench *b, const struct ip_reassembly_fragment *fragment, const uint8_t *bytes, size_t len)
{
	struct xk_msg *discarded = NULL;
	struct xk_msg *m = xk_msg_from(b->platform, bytes, len);

	REQUIRE(m != NULL);
	m = ip_reassembly_add(&b->table, fragment, m, &discarded);
	collect_discarded(discarded, b->count);
	return m;
}

static bool
bench_tick(struct bench *b)
{
	struct xk_msg *discarded = NULL;
	bool more = ip_reassembly_tick(&b->table, &discarded);

	collect_discarded(discarded, b->count);
	return more;
}

static void
bench_tick_all(struct bench *b, unsigned ticks)
{
	while (ticks-- > 0)
		bench_tick(b);
}

static uint8_t original[IP_REASSEMBLY_MAX + 64];

static void
fill_original(void)
{
	for (size_t i = 0; i < sizeof(original); i++)
		original[i] = (uint8_t)(i * 7 + (i >> 8));
}

/* Adds [start, end) of the original as a fragment of datagram id. */
static struct xk_msg *
add(struct bench *b, uint16_t id, uint32_t start, uint32_t end, bool more)
{
	struct ip_reassembly_fragment fragment = { PEER, HOST, start, id, 17, more };

	fill_original();
	return bench_add(b, &fragment, original + start, end - start);
}

/* As add; the datagram must stay incomplete. */
static void
add_part(struct bench *b, uint16_t id, uint32_t start, uint32_t end, bool more)
{
	struct xk_msg *m = add(b, id, start, end, more);

	CHECK(m == NULL);
	xk_msg_free(m);
}

/* Returns true if m is the first len bytes of the original. Takes m. */
static bool
is_whole(struct xk_msg *m, size_t len)
{
	uint8_t *bytes = malloc(len + 1);
	bool same = m != NULL && xk_msg_len(m) == len && xk_msg_copy_out(m, 0, bytes, len) &&
		    memcmp(bytes, original, len) == 0;

	free(bytes);
	xk_msg_free(m);
	return same;
}

TEST_WITH(datagram_in_order_is_reassembled, struct bench *b, bench_new(&usual), bench_free)
{
	add_part(b, 1, 0, 1480, true);
	add_part(b, 1, 1480, 2960, true);
	CHECK(is_whole(add(b, 1, 2960, 4008, false), 4008));
	CHECK_EQ(b->table.datagrams, 0);
	CHECK_EQ(waiting_fragments(&b->table), 0);
}

TEST_WITH(datagram_in_reverse_order_is_reassembled, struct bench *b, bench_new(&usual), bench_free)
{
	add_part(b, 1, 2960, 4001, false);
	add_part(b, 1, 1480, 2960, true);
	CHECK(is_whole(add(b, 1, 0, 1480, true), 4001));
}

TEST_WITH(longest_datagram_in_ethernet_fragments_is_reassembled, struct bench *b, bench_new(&usual), bench_free)
{
	uint32_t at = 0;

	for (; at + 1480 < IP_REASSEMBLY_MAX; at += 1480)
		add_part(b, 1, at, at + 1480, true);
	CHECK(is_whole(add(b, 1, at, IP_REASSEMBLY_MAX, false), IP_REASSEMBLY_MAX));
}

TEST_WITH(datagrams_differ_in_any_part_of_their_key, struct bench *b, bench_new(&usual), bench_free)
{
	struct ip_reassembly_fragment keys[] = {
		{ PEER, HOST, 0, 1, 17, true }, { PEER + 1, HOST, 0, 1, 17, true }, { PEER, HOST + 1, 0, 1, 17, true },
		{ PEER, HOST, 0, 2, 17, true }, { PEER, HOST, 0, 1, 18, true },
	};

	fill_original();
	for (unsigned i = 0; i < 5; i++)
		CHECK(bench_add(b, &keys[i], original, 8) == NULL);
	CHECK_EQ(b->table.datagrams, 5);
	for (unsigned i = 0; i < 5; i++) {
		keys[i].offset = 8;
		keys[i].more = false;
		CHECK(is_whole(bench_add(b, &keys[i], original + 8, 5), 13));
	}
	CHECK_EQ(b->table.datagrams, 0);
}

/* ---- fragments that are invalid by themselves ---- */

TEST_WITH(wrong_fragments_are_discarded_alone, struct bench *b, bench_new(&usual), bench_free)
{
	add_part(b, 1, 0, 16, true);
	add_part(b, 1, 16, 16, true);
	add_part(b, 1, 16, 16, false);
	add_part(b, 1, 16, 25, true);
	CHECK_EQ(b->count[IP_REASSEMBLY_BAD_FRAGMENT], 3);
	for (uint32_t len = 1; len < IP_REASSEMBLY_FIRST_MIN; len++)
		add_part(b, 1, 0, len, true);
	CHECK_EQ(b->count[IP_REASSEMBLY_TINY], IP_REASSEMBLY_FIRST_MIN - 1);
	add_part(b, 1, 65512, 65516, false);
	add_part(b, 1, 65512, 65520, true);
	add_part(b, 1, 65528, 65529, false);
	CHECK_EQ(b->count[IP_REASSEMBLY_TOO_LONG], 3);
	CHECK(is_whole(add(b, 1, 16, 20, false), 20));
}

/* ---- refused datagrams ---- */

TEST_WITH(duplicate_is_ignored, struct bench *b, bench_new(&usual), bench_free)
{
	add_part(b, 1, 0, 16, true);
	add_part(b, 1, 0, 16, true);
	add_part(b, 1, 24, 30, false);
	add_part(b, 1, 24, 30, false);
	CHECK_EQ(b->count[IP_REASSEMBLY_DUPLICATE], 2);
	CHECK(is_whole(add(b, 1, 16, 24, true), 30));
}

TEST_WITH(same_range_with_other_bytes_is_no_duplicate, struct bench *b, bench_new(&usual), bench_free)
{
	struct ip_reassembly_fragment fragment = { PEER, HOST, 0, 1, 17, true };

	add_part(b, 1, 0, 16, true);
	CHECK(bench_add(b, &fragment, original + 1, 16) == NULL);
	CHECK_EQ(b->count[IP_REASSEMBLY_OVERLAP], 2);
}

/* Bytes are compared, whatever their segments. */
TEST_WITH(duplicate_in_other_segments_is_ignored, struct bench *b, bench_new(&usual), bench_free)
{
	struct ip_reassembly_fragment fragment = { PEER, HOST, 0, 1, 17, true };
	struct xk_msg *discarded = NULL;
	struct xk_msg *m, *front;

	add_part(b, 1, 0, 16, true);
	m = xk_msg_from(b->platform, original, 16);
	front = xk_msg_split(&m, 5);
	xk_msg_join(front, m);
	CHECK(ip_reassembly_add(&b->table, &fragment, front, &discarded) == NULL);
	collect_discarded(discarded, b->count);
	CHECK_EQ(b->count[IP_REASSEMBLY_DUPLICATE], 1);
}

TEST_WITH(refused_datagram_stays_refused_until_its_time_is_up, struct bench *b, bench_new(&usual), bench_free)
{
	add_part(b, 1, 0, 16, true);
	add_part(b, 1, 8, 24, true);
	CHECK_EQ(b->count[IP_REASSEMBLY_OVERLAP], 2);
	CHECK_EQ(waiting_fragments(&b->table), 0);
	bench_tick_all(b, IP_REASSEMBLY_TICKS);
	add_part(b, 1, 0, 16, true);
	add_part(b, 1, 16, 20, false);
	CHECK_EQ(b->count[IP_REASSEMBLY_REFUSED], 2);
	CHECK(!bench_tick(b));
	add_part(b, 1, 0, 16, true);
	CHECK(is_whole(add(b, 1, 16, 20, false), 20));
	CHECK_EQ(b->count[IP_REASSEMBLY_TIMED_OUT], 0);
}

TEST_WITH(second_end_refuses_the_datagram, struct bench *b, bench_new(&usual), bench_free)
{
	add_part(b, 1, 16, 20, false);
	add_part(b, 1, 24, 30, false);
	CHECK_EQ(b->count[IP_REASSEMBLY_INCONSISTENT], 2);
}

TEST_WITH(data_beyond_the_end_refuses_the_datagram, struct bench *b, bench_new(&usual), bench_free)
{
	add_part(b, 1, 16, 24, false);
	add_part(b, 1, 24, 32, true);
	add_part(b, 2, 24, 32, true);
	add_part(b, 2, 16, 24, false);
	CHECK_EQ(b->count[IP_REASSEMBLY_INCONSISTENT], 4);
}

/* ---- every arrangement of up to three chunks ---- */

enum { UNITS = 4, UNIT = 8 };

struct chunk {
	unsigned start, end; /* in units */
	bool more;
	bool other; /* its bytes differ from the original's */
};

/* The rule as specified, unit by unit: an oracle for the reassembler. */
struct model {
	int owner[UNITS]; /* the chunk there, or -1 */
	struct chunk taken[3];
	int count;
	unsigned end; /* 0: unknown */
	bool refused;
};

static void
model_reset(struct model *model)
{
	*model = (struct model){ .owner = { -1, -1, -1, -1 } };
}

static bool
model_has(const struct model *model, const struct chunk *c)
{
	for (int i = 0; i < model->count; i++) {
		const struct chunk *t = &model->taken[i];

		if (t->start == c->start && t->end == c->end && t->more == c->more && t->other == c->other)
			return true;
	}
	return false;
}

static enum ip_reassembly_reason
model_outcome(const struct model *model, const struct chunk *c)
{
	if (model->refused)
		return IP_REASSEMBLY_REFUSED;
	if (model_has(model, c))
		return IP_REASSEMBLY_DUPLICATE;
	for (unsigned unit = c->start; unit < c->end; unit++)
		if (model->owner[unit] >= 0)
			return IP_REASSEMBLY_OVERLAP;
	if (model->end != 0 && (!c->more || c->end > model->end))
		return IP_REASSEMBLY_INCONSISTENT;
	for (unsigned unit = c->end; !c->more && unit < UNITS; unit++)
		if (model->owner[unit] >= 0)
			return IP_REASSEMBLY_INCONSISTENT;
	return IP_REASSEMBLY_REASONS;
}

/* Accepts c. Returns true if the datagram is whole. count: discarded messages by reason. */
static bool
model_add(struct model *model, const struct chunk *c, unsigned *count)
{
	enum ip_reassembly_reason reason = model_outcome(model, c);
	unsigned have = 0;

	if (reason != IP_REASSEMBLY_REASONS) {
		count[reason]++;
		if (reason == IP_REASSEMBLY_DUPLICATE || reason == IP_REASSEMBLY_REFUSED)
			return false;
		count[reason] += (unsigned)model->count;
		model->refused = true;
		return false;
	}
	for (unsigned unit = c->start; unit < c->end; unit++)
		model->owner[unit] = model->count;
	model->taken[model->count++] = *c;
	if (!c->more)
		model->end = c->end;
	while (have < UNITS && model->owner[have] >= 0)
		have++;
	return model->end != 0 && have == model->end;
}

static unsigned
all_chunks(struct chunk *chunks)
{
	unsigned count = 0;

	for (unsigned start = 0; start < UNITS; start++)
		for (unsigned end = start + 1; end <= UNITS; end++)
			for (unsigned bits = 0; bits < 4; bits++)
				if (start > 0 || (bits & 1) != 0)
					chunks[count++] = (struct chunk){ start, end, bits & 1, bits >> 1 };
	return count;
}

static uint8_t
chunk_byte(bool other, size_t at)
{
	return (uint8_t)(original[at] ^ (other ? 0xff : 0));
}

/* Returns true if m is what the model has accepted. Takes m. */
static bool
model_agrees(const struct model *model, struct xk_msg *m)
{
	uint8_t bytes[UNITS * UNIT];
	bool same = m != NULL && xk_msg_len(m) == model->end * UNIT && xk_msg_copy_out(m, 0, bytes, xk_msg_len(m));

	for (size_t i = 0; same && i < model->end * UNIT; i++)
		same = bytes[i] == chunk_byte(model->taken[model->owner[i / UNIT]].other, i);
	xk_msg_free(m);
	return same;
}

static struct xk_msg *
add_chunk(struct bench *b, const struct chunk *c)
{
	struct ip_reassembly_fragment fragment = { PEER, HOST, c->start * UNIT, 1, 17, c->more };
	uint8_t bytes[UNITS * UNIT];
	size_t len = (c->end - c->start) * UNIT;

	for (size_t i = 0; i < len; i++)
		bytes[i] = chunk_byte(c->other, c->start * UNIT + i);
	return bench_add(b, &fragment, bytes, len);
}

/* Adds the chunks to an empty table and to the model. Returns true if they agree. */
static bool
arrangement_agrees(struct bench *b, const struct chunk *const *chunks, unsigned count)
{
	unsigned expected[IP_REASSEMBLY_REASONS] = { 0 };
	struct model model;
	bool agree = true;

	memset(b->count, 0, sizeof(b->count));
	model_reset(&model);
	for (unsigned i = 0; i < count; i++) {
		bool whole = model_add(&model, chunks[i], expected);
		struct xk_msg *m = add_chunk(b, chunks[i]);

		if (!whole) {
			agree = agree && m == NULL;
			xk_msg_free(m);
			continue;
		}
		agree = agree && model_agrees(&model, m);
		model_reset(&model);
	}
	agree = agree && memcmp(expected, b->count, sizeof(expected)) == 0;
	bench_tick_all(b, IP_REASSEMBLY_TICKS + 1);
	return agree && b->table.datagrams == 0 && waiting_fragments(&b->table) == 0;
}

static void
print_arrangement(const struct chunk *const *chunks, unsigned count)
{
	fprintf(stderr, "\ndisagreement:");
	for (unsigned i = 0; i < count; i++)
		fprintf(stderr, " [%u,%u)%s%s", chunks[i]->start, chunks[i]->end, chunks[i]->more ? "+" : "",
			chunks[i]->other ? "'" : "");
	fprintf(stderr, "\n");
}

TEST_WITH(every_arrangement_of_up_to_three_chunks_follows_the_rule, struct bench *b, bench_new(&usual), bench_free)
{
	struct chunk chunks[UNITS * UNITS * 4];
	unsigned count, disagreements = 0, tried = 0;

	fill_original();
	count = all_chunks(chunks);
	for (unsigned i = 0; i < count * count * count; i++) {
		const struct chunk *three[3] = { &chunks[i % count], &chunks[i / count % count],
						 &chunks[i / count / count] };
		/* triples that end early, with the same outcome, are tried once */
		unsigned length = i < count ? 1 : i < count * count ? 2 : 3;

		tried++;
		if (arrangement_agrees(b, three, length) && arrangement_agrees(b, three, 3))
			continue;
		if (disagreements++ < 5)
			print_arrangement(three, 3);
	}
	CHECK_EQ(disagreements, 0);
	CHECK(tried > 30000);
}

/* ---- random fragmentations ---- */

struct part {
	uint32_t start, end;
};

enum { PARTS = 400 };

/* Cuts [0, len) into parts at random multiples of 8. */
static unsigned
cut_at_random(struct part *parts, uint32_t len, uint64_t *state)
{
	uint32_t typical = 8 + (uint32_t)(next_random(state) % 1500), at = 0;
	unsigned count = 0;

	while (at < len) {
		uint32_t end = at + 8 + ((uint32_t)next_random(state) % (2 * typical) & ~7u);

		if (end > len || count == PARTS - 1)
			end = len;
		parts[count++] = (struct part){ at, end };
		at = end;
	}
	return count;
}

static void
shuffle(struct part *parts, unsigned count, uint64_t *state)
{
	for (unsigned i = count; i > 1; i--) {
		unsigned j = (unsigned)(next_random(state) % i);
		struct part t = parts[j];

		parts[j] = parts[i - 1];
		parts[i - 1] = t;
	}
}

/*
 * Adds one datagram in random parts, in random order, some of them twice. Returns true if it was reassembled unchanged.
 */
static bool
random_datagram(struct bench *b, uint16_t id, uint64_t *state)
{
	uint32_t len = 17 + (uint32_t)(next_random(state) % (IP_REASSEMBLY_MAX - 17));
	struct part parts[PARTS];
	unsigned count = cut_at_random(parts, len, state), duplicates = b->count[IP_REASSEMBLY_DUPLICATE];
	struct xk_msg *m = NULL;

	if (count == 1)
		return true;
	shuffle(parts, count, state);
	for (unsigned i = 0; i < count; i++) {
		m = add(b, id, parts[i].start, parts[i].end, parts[i].end < len);
		if ((m != NULL) != (i == count - 1))
			break;
		if (m == NULL && next_random(state) % 8 == 0) {
			add_part(b, id, parts[i].start, parts[i].end, parts[i].end < len);
			duplicates++;
		}
	}
	return is_whole(m, len) && b->count[IP_REASSEMBLY_DUPLICATE] == duplicates;
}

TEST_WITH(random_fragmentations_are_reassembled, struct bench *b, bench_new(&wide), bench_free)
{
	unsigned rounds = test_is_long() ? 5000 : 100;

	for (unsigned round = 1; round <= rounds; round++) {
		uint64_t seed = round * UINT64_C(0x9e3779b97f4a7c15), state = seed;
		bool good = random_datagram(b, (uint16_t)round, &state);

		if (!good)
			fprintf(stderr, "\nseed %" PRIu64 "\n", seed);
		CHECK(good);
	}
	CHECK_EQ(b->table.datagrams, 0);
}

/* ---- time and bounds ---- */

TEST_WITH(time_starts_with_the_first_fragment_and_is_never_extended, struct bench *b, bench_new(&usual), bench_free)
{
	add_part(b, 1, 0, 8, true);
	for (uint32_t i = 1; i <= IP_REASSEMBLY_TICKS; i++) {
		CHECK(bench_tick(b));
		add_part(b, 1, i * 8, i * 8 + 8, true);
	}
	CHECK_EQ(b->count[IP_REASSEMBLY_TIMED_OUT], 0);
	CHECK(!bench_tick(b));
	CHECK_EQ(b->count[IP_REASSEMBLY_TIMED_OUT], IP_REASSEMBLY_TICKS + 1);
	CHECK_EQ(b->table.datagrams, 0);
}

TEST_WITH(endless_small_fragments_of_one_datagram_refuse_it, struct bench *b, bench_new(&usual), bench_free)
{
	for (uint32_t i = 0; i < 2 * USUAL_FRAGMENTS; i++)
		add_part(b, 1, i * 8, i * 8 + 8, true);
	CHECK_EQ(b->count[IP_REASSEMBLY_TOO_MANY], USUAL_FRAGMENTS + 1);
	CHECK_EQ(b->count[IP_REASSEMBLY_REFUSED], USUAL_FRAGMENTS - 1);
	CHECK_EQ(waiting_fragments(&b->table), 0);
}

TEST_WITH(source_takes_no_more_than_its_share, struct bench *b, bench_new(&usual), bench_free)
{
	struct ip_reassembly_fragment other = { PEER + 1, HOST, 0, 1, 17, true };

	fill_original();
	CHECK(bench_add(b, &other, original, 8) == NULL);
	for (unsigned i = 0; i < 1000; i++) {
		add_part(b, (uint16_t)i, 0, 8, true);
		CHECK(b->table.datagrams <= usual.source_datagrams + 1);
	}
	CHECK_EQ(b->count[IP_REASSEMBLY_EVICTED], 1000 - usual.source_datagrams);
	other.offset = 8;
	other.more = false;
	CHECK(is_whole(bench_add(b, &other, original + 8, 1), 9));
}

TEST_WITH(fragments_of_a_source_are_bounded, struct bench *b, bench_new(&usual), bench_free)
{
	for (unsigned i = 0; i < 10; i++) {
		for (uint32_t j = 0; j < USUAL_FRAGMENTS / 4; j++) {
			add_part(b, (uint16_t)i, j * 16, j * 16 + 8, true);
			CHECK(b->table.pinned <= usual.source_bytes);
			CHECK_EQ(b->table.pinned, waiting_fragments(&b->table) * BUFFER);
		}
	}
	CHECK_EQ(b->table.datagrams, 4);
}

/* A message of several segments holds a buffer for each. */
TEST(every_buffer_of_a_fragment_counts)
{
	static const struct ip_reassembly_limits few = { 64, 64 * BUFFER, 16, 4 * BUFFER };
	struct ip_reassembly_fragment fragment = { PEER, HOST, 0, 1, 17, true };
	struct bench *b = bench_new(&few);

	fill_original();
	CHECK(bench_add(b, &fragment, original, 3 * XK_MSG_SEGMENT) == NULL);
	CHECK_EQ(b->table.pinned, 3 * BUFFER);
	add_part(b, 1, 3 * XK_MSG_SEGMENT, 3 * XK_MSG_SEGMENT + 8, true);
	add_part(b, 1, 3 * XK_MSG_SEGMENT + 16, 3 * XK_MSG_SEGMENT + 24, true);
	CHECK_EQ(b->count[IP_REASSEMBLY_TOO_MANY], 3);
	CHECK_EQ(b->table.pinned, 0);
	bench_free(b);
}

TEST_WITH(all_sources_are_bounded_and_the_oldest_is_evicted, struct bench *b, bench_new(&usual), bench_free)
{
	struct ip_reassembly_fragment fragment = { 0, HOST, 0, 1, 17, true };

	fill_original();
	for (unsigned i = 0; i < 100; i++) {
		fragment.source = PEER + i;
		CHECK(bench_add(b, &fragment, original, 8) == NULL);
	}
	CHECK_EQ(b->table.datagrams, usual.datagrams);
	CHECK_EQ(b->count[IP_REASSEMBLY_EVICTED], 100 - usual.datagrams);
	CHECK_EQ(TAILQ_FIRST(&b->table.by_age)->name.source, PEER + 100 - usual.datagrams);
}

TEST(fragments_in_total_are_bounded)
{
	static const struct ip_reassembly_limits few = { 64, 10 * BUFFER, 64, 64 * BUFFER };
	struct bench *b = bench_new(&few);

	for (unsigned i = 0; i < 5; i++) {
		for (uint32_t j = 0; j < 4; j++)
			add_part(b, (uint16_t)i, j * 16, j * 16 + 8, true);
		CHECK(waiting_fragments(&b->table) <= 10);
	}
	CHECK(b->count[IP_REASSEMBLY_EVICTED] > 0);
	for (uint32_t j = 4; j < 20; j++)
		add_part(b, 4, j * 16, j * 16 + 8, true);
	/* the datagram being extended is refused, not evicted */
	CHECK_EQ(b->count[IP_REASSEMBLY_TOO_MANY], 11);
	CHECK_EQ(waiting_fragments(&b->table), 0);
	bench_free(b);
}

/* A fragment in front, a full table and an eviction: the datagram being extended stays. */
TEST(eviction_spares_the_growing_datagram)
{
	static const struct ip_reassembly_limits few = { 2, 2 * BUFFER, 2, 2 * BUFFER };
	struct bench *b = bench_new(&few);

	add_part(b, 1, 8, 12, false);
	add_part(b, 2, 8, 12, false);
	CHECK(is_whole(add(b, 1, 0, 8, true), 12));
	CHECK_EQ(b->count[IP_REASSEMBLY_EVICTED], 1);
	CHECK_EQ(b->table.datagrams, 0);
	bench_free(b);
}

TEST_WITH(incomplete_datagrams_are_freed_at_the_end, struct bench *b, bench_new(&usual), bench_free)
{
	for (unsigned i = 0; i < 5; i++)
		add_part(b, (uint16_t)i, 8, 16, true);
	CHECK_EQ(b->platform->ops->buffers_out(b->platform), 5);
}
