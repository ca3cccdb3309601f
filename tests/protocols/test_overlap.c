/*
 * test_overlap.c - every arrangement of up to three fragments on five units of 8 bytes, in every order, with
 * duplicates, different bytes, and last fragments that end within a unit. Compares the reassembler with the rules of
 * ip_reassembly.h, applied pair by pair, and with the hole list of RFC 815, which defines when a datagram is whole.
 */

#include "platform/sim/memory.h"
#include "tests/protocols/discarded.h"
#include "tests/test.h"

enum { HOST = 0x0a4d0001, PEER = 0x0a4d0002 };

enum { UNITS = 5, UNIT = 8, BYTES = UNITS * UNIT, WITHIN = 3, FRAGMENTS_MAX = 100, ARRANGED_MAX = 8 };

struct fragment {
	uint32_t start, end; /* bytes */
	bool more;
	bool other; /* its bytes differ from the datagram's */
};

/* ---- the rules, pair by pair ---- */

/* Relation of a new fragment to an earlier one. Later values take precedence. */
enum relation { FITS, CONTRADICTS, OVERLAPS, REPEATS };

static bool
is_same(const struct fragment *a, const struct fragment *b)
{
	return a->start == b->start && a->end == b->end && a->more == b->more && a->other == b->other;
}

static bool
is_behind(const struct fragment *a, const struct fragment *end)
{
	return !end->more && a->end > end->end;
}

static enum relation
relation(const struct fragment *there, const struct fragment *f)
{
	if (is_same(there, f))
		return REPEATS;
	if (f->start < there->end && there->start < f->end)
		return OVERLAPS;
	if ((!there->more && !f->more) || is_behind(f, there) || is_behind(there, f))
		return CONTRADICTS;
	return FITS;
}

/* ---- the hole list of RFC 815, section 3 ---- */

struct hole {
	uint32_t first, last; /* both inclusive, as in the RFC; last UINT32_MAX: infinity */
	bool deleted;
};

struct holes {
	struct hole list[3 * ARRANGED_MAX + 1];
	unsigned count;
};

static void
holes_add(struct holes *holes, uint32_t first, uint32_t last)
{
	holes->list[holes->count++] = (struct hole){ first, last, false };
}

/* Steps 1 to 7, numbered as in the RFC. */
static void
holes_fill(struct holes *holes, const struct fragment *f)
{
	uint32_t first = f->start, last = f->end - 1;
	unsigned count = holes->count;

	for (unsigned i = 0; i < count; i++) {
		struct hole hole = holes->list[i];

		if (hole.deleted || first > hole.last || last < hole.first) /* 2, 3 */
			continue;
		holes->list[i].deleted = true; /* 4 */
		if (first > hole.first)        /* 5 */
			holes_add(holes, hole.first, first - 1);
		if (last < hole.last && f->more) /* 6 */
			holes_add(holes, last + 1, hole.last);
	}
}

/* Step 8. */
static bool
holes_are_filled(const struct holes *holes)
{
	for (unsigned i = 0; i < holes->count; i++)
		if (!holes->list[i].deleted)
			return false;
	return true;
}

/* ---- the model of an arrangement ---- */

struct model {
	struct fragment taken[ARRANGED_MAX];
	unsigned count;
	struct holes holes;
	bool refused;
	unsigned discarded[IP_REASSEMBLY_REASONS];
};

static void
model_begin(struct model *model)
{
	model->count = 0;
	model->refused = false;
	model->holes.count = 0;
	holes_add(&model->holes, 0, UINT32_MAX);
}

static void
model_refuse(struct model *model, enum ip_reassembly_reason reason)
{
	model->discarded[reason] += model->count + 1;
	model->refused = true;
}

/* Returns true if f completes the datagram. */
static bool
model_add(struct model *model, const struct fragment *f)
{
	enum relation worst = FITS;

	for (unsigned i = 0; i < model->count; i++) {
		enum relation is = relation(&model->taken[i], f);

		worst = is > worst ? is : worst;
	}
	if (model->refused) {
		model->discarded[IP_REASSEMBLY_REFUSED]++;
	} else if (worst == REPEATS) {
		model->discarded[IP_REASSEMBLY_DUPLICATE]++;
	} else if (worst != FITS) {
		model_refuse(model, worst == OVERLAPS ? IP_REASSEMBLY_OVERLAP : IP_REASSEMBLY_INCONSISTENT);
	} else {
		model->taken[model->count++] = *f;
		holes_fill(&model->holes, f);
		return holes_are_filled(&model->holes);
	}
	return false;
}

static uint8_t
byte_at(const struct fragment *f, uint32_t at)
{
	return (uint8_t)((at * 7 + 1) ^ (f->other ? 0xff : 0));
}

/* Returns true if m is the fragments accepted. Takes m. */
static bool
model_is(const struct model *model, struct xk_msg *m)
{
	uint8_t bytes[BYTES];
	size_t len = 0;
	bool same = m != NULL && xk_msg_len(m) <= sizeof(bytes) && xk_msg_copy_out(m, 0, bytes, xk_msg_len(m));

	for (unsigned i = 0; same && i < model->count; i++) {
		const struct fragment *f = &model->taken[i];

		len += f->end - f->start;
		for (uint32_t at = f->start; same && at < f->end; at++)
			same = at < xk_msg_len(m) && bytes[at] == byte_at(f, at);
	}
	same = same && len == xk_msg_len(m);
	xk_msg_free(m);
	return same;
}

/* ---- the reassembler ---- */

struct bench {
	struct xk_platform *platform;
	struct ip_reassembly table;
	unsigned discarded[IP_REASSEMBLY_REASONS];
};

static void
bench_begin(struct bench *b)
{
	static const struct ip_reassembly_limits limits = { 64, 4 << 20, 16, 1 << 20 };

	b->platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	REQUIRE(b->platform != NULL);
	REQUIRE(ip_reassembly_init(&b->table, &limits) == 0);
}

static void
bench_end(struct bench *b)
{
	ip_reassembly_fini(&b->table);
	CHECK_EQ(b->platform->ops->buffers_out(b->platform), 0);
	xk_memory_platform_free(b->platform);
}

static struct xk_msg *
bench_add(struct bench *b, const struct fragment *f)
{
	struct ip_reassembly_fragment fragment = { PEER, HOST, f->start, 1, 17, f->more };
	struct xk_msg *discarded = NULL;
	uint8_t bytes[BYTES];
	struct xk_msg *m;

	for (uint32_t at = f->start; at < f->end; at++)
		bytes[at - f->start] = byte_at(f, at);
	m = xk_msg_from(b->platform, bytes, f->end - f->start);
	REQUIRE(m != NULL);
	m = ip_reassembly_add(&b->table, &fragment, m, &discarded);
	collect_discarded(discarded, b->discarded);
	return m;
}

/* Lets waiting fragments time out before the next arrangement. */
static void
bench_time_out(struct bench *b)
{
	for (unsigned i = 0; i <= IP_REASSEMBLY_TICKS; i++) {
		struct xk_msg *discarded = NULL;

		ip_reassembly_tick(&b->table, &discarded);
		collect_discarded(discarded, b->discarded);
	}
}

/* ---- arrangements ---- */

static bool
agrees(struct bench *b, const struct fragment *const *fragments, unsigned count)
{
	struct model model = { .discarded = { 0 } };
	bool agree = true;

	memset(b->discarded, 0, sizeof(b->discarded));
	model_begin(&model);
	for (unsigned i = 0; i < count; i++) {
		bool whole = model_add(&model, fragments[i]);
		struct xk_msg *m = bench_add(b, fragments[i]);

		if (whole) {
			agree = model_is(&model, m) && agree;
			model_begin(&model);
		} else {
			agree = agree && m == NULL;
			xk_msg_free(m);
		}
	}
	if (!model.refused)
		model.discarded[IP_REASSEMBLY_TIMED_OUT] += model.count;
	bench_time_out(b);
	return agree && memcmp(model.discarded, b->discarded, sizeof(b->discarded)) == 0 && b->table.datagrams == 0 &&
	       waiting_fragments(&b->table) == 0;
}

/* Checks one arrangement. Prints the first few mismatches. */
static unsigned
check(struct bench *b, const struct fragment *const *fragments, unsigned count, unsigned wrong)
{
	if (agrees(b, fragments, count))
		return wrong;
	if (wrong < 10) {
		fprintf(stderr, "\nwrong:");
		for (unsigned i = 0; i < count; i++)
			fprintf(stderr, " %u..%u%s%s", fragments[i]->start, fragments[i]->end,
				fragments[i]->more ? " more" : " last", fragments[i]->other ? " other" : "");
		fprintf(stderr, "\n");
	}
	return wrong + 1;
}

/* Lists every fragment on the units that is valid by itself and not a whole datagram. */
static unsigned
all_fragments(struct fragment *all)
{
	unsigned count = 0;

	for (uint32_t start = 0; start < UNITS; start++)
		for (uint32_t end = start + 1; end <= UNITS; end++)
			for (unsigned other = 0; other < 2; other++) {
				all[count++] = (struct fragment){ start * UNIT, end * UNIT, true, other != 0 };
				if (start == 0)
					continue;
				all[count++] = (struct fragment){ start * UNIT, end * UNIT, false, other != 0 };
				all[count++] =
					(struct fragment){ start * UNIT, end * UNIT - WITHIN, false, other != 0 };
			}
	return count;
}

/* Every sequence of three, including repetitions. */
TEST(reassembler_agrees_on_every_three_fragments)
{
	struct fragment all[FRAGMENTS_MAX];
	unsigned count = all_fragments(all), wrong = 0, tried = 0;
	struct bench b;

	bench_begin(&b);
	for (unsigned i = 0; i < count; i++) {
		const struct fragment *row[3] = { &all[i] };

		wrong = check(&b, row, 1, wrong);
		for (unsigned j = 0; j < count; j++) {
			row[1] = &all[j];
			wrong = check(&b, row, 2, wrong);
			for (unsigned k = 0; k < count; k++, tried++) {
				row[2] = &all[k];
				wrong = check(&b, row, 3, wrong);
			}
		}
	}
	bench_end(&b);
	CHECK_EQ(wrong, 0);
	CHECK_EQ(count, 15 * 2 + 10 * 4);
	CHECK_EQ(tried, 70 * 70 * 70);
}

/* ---- valid fragmentations, in every order, with every duplicate ---- */

struct permuting {
	struct bench *b;
	struct fragment pieces[UNITS];
	unsigned count;
	unsigned duplicate; /* index of the piece that comes twice; count: none */
	unsigned used[UNITS];
	const struct fragment *row[UNITS + 1];
	unsigned wrong, tried;
};

static void
permute(struct permuting *p, unsigned at)
{
	unsigned length = p->count + (p->duplicate < p->count);

	if (at == length) {
		p->wrong = check(p->b, p->row, length, p->wrong);
		p->tried++;
		return;
	}
	for (unsigned i = 0; i < p->count; i++) {
		if (p->used[i] == 1 + (i == p->duplicate))
			continue;
		p->used[i]++;
		p->row[at] = &p->pieces[i];
		permute(p, at + 1);
		p->used[i]--;
	}
}

/* Bit i of cuts: a cut behind unit i. */
static void
cut(struct permuting *p, unsigned cuts)
{
	uint32_t start = 0;

	p->count = 0;
	for (unsigned unit = 0; unit < UNITS; unit++) {
		bool is_last = unit == UNITS - 1;

		if (!is_last && (cuts >> unit & 1) == 0)
			continue;
		p->pieces[p->count++] =
			(struct fragment){ start, (unit + 1) * UNIT - (is_last ? WITHIN : 0), !is_last, false };
		start = (unit + 1) * UNIT;
	}
}

TEST(reassembler_agrees_on_every_fragmentation_and_duplicate)
{
	struct permuting p = { .wrong = 0 };
	struct bench b;

	bench_begin(&b);
	p.b = &b;
	for (unsigned cuts = 1; cuts < 1 << (UNITS - 1); cuts++) {
		cut(&p, cuts);
		for (p.duplicate = 0; p.duplicate <= p.count; p.duplicate++)
			permute(&p, 0);
	}
	bench_end(&b);
	CHECK_EQ(p.wrong, 0);
	/* n pieces: n! orders, and n times (n+1)!/2 with one of them twice */
	CHECK_EQ(p.tried, 4 * (2 + 2 * 3) + 6 * (6 + 3 * 12) + 4 * (24 + 4 * 60) + (120 + 5 * 360));
}

/* The model itself distinguishes all rules. */
TEST(model_distinguishes_the_rules)
{
	static const struct fragment first = { 0, 16, true, false }, other = { 0, 16, true, true },
				     second = { 8, 24, true, false }, last = { 16, 24, false, false },
				     behind = { 24, 32, true, false };
	struct model model = { .discarded = { 0 } };

	CHECK_EQ(relation(&first, &first), REPEATS);
	CHECK_EQ(relation(&first, &other), OVERLAPS);
	CHECK_EQ(relation(&first, &second), OVERLAPS);
	CHECK_EQ(relation(&first, &last), FITS);
	CHECK_EQ(relation(&last, &behind), CONTRADICTS);
	CHECK_EQ(relation(&behind, &last), CONTRADICTS);
	model_begin(&model);
	CHECK(!model_add(&model, &last));
	CHECK(!model_add(&model, &last));
	CHECK(model_add(&model, &first));
	CHECK_EQ(model.discarded[IP_REASSEMBLY_DUPLICATE], 1);
}
