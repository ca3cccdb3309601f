/*
 * test_blast_arrangements.c - every arrangement of three fragments, and many of more: of messages of two or three
 * fragments, of different lengths, sent and retransmitted, with different bytes. Compares BLAST's receiver with a model
 * that applies its rules to each pair of fragments.
 */
#include "tests/protocols/blast_peer.h"
#include "tests/random.h"

enum { KINDS = 20, LONGEST = 2, ARRANGED_MAX = 8 };

struct piece {
	unsigned count, bit, len, op;
	char fill; /* value of each byte */
};

/* Returns the fragment of a kind from 0 to KINDS - 1: of two or three, with one byte or two, sent or retransmitted. */
static struct piece
piece_of(unsigned kind, char fill)
{
	unsigned bit = kind / 4;

	return (struct piece){ .count = bit < 2 ? 2 : 3,
			       .bit = bit < 2 ? bit : bit - 2,
			       .len = 1 + kind % LONGEST,
			       .op = kind / 2 % 2 == 0 ? BLAST_SEND : BLAST_RETRANSMIT,
			       .fill = fill };
}

/* ---- the rules ---- */

enum outcome { TAKEN, DUPLICATE, UNKNOWN, INCONSISTENT, OUTCOMES };

static const char *const outcomes[OUTCOMES] = { NULL, "duplicate", "unknown", "inconsistent" };

struct model {
	struct piece taken[3];
	unsigned count;
	bool finished;
};

static bool
is_last(const struct piece *p)
{
	return p->bit == p->count - 1;
}

/* Returns how p relates to an accepted fragment. */
static enum outcome
relation(const struct piece *there, const struct piece *p)
{
	if (there->count != p->count)
		return INCONSISTENT;
	if (is_last(there) == is_last(p) && there->len != p->len)
		return INCONSISTENT;
	if ((is_last(there) && there->len > p->len) || (is_last(p) && p->len > there->len))
		return INCONSISTENT;
	return there->bit == p->bit ? DUPLICATE : TAKEN;
}

static enum outcome
model_outcome(const struct model *model, const struct piece *p)
{
	enum outcome worst = TAKEN;

	if (model->finished)
		return DUPLICATE;
	if (model->count == 0)
		return p->op == BLAST_SEND ? TAKEN : UNKNOWN;
	for (unsigned i = 0; i < model->count; i++) {
		enum outcome is = relation(&model->taken[i], p);

		worst = is > worst ? is : worst;
	}
	return worst;
}

/* Accepts p. Returns true, with the message in text, if p completes it. */
static bool
model_take(struct model *model, const struct piece *p, char *text)
{
	char *at = text;

	model->taken[model->count++] = *p;
	if (model->count < p->count)
		return false;
	for (unsigned bit = 0; bit < p->count; bit++)
		for (unsigned i = 0; i < model->count; i++)
			for (unsigned k = 0; model->taken[i].bit == bit && k < model->taken[i].len; k++)
				*at++ = model->taken[i].fill;
	*at = '\0';
	model->finished = true;
	return true;
}

/* ---- arrangements ---- */

static void
inject_piece(struct rig *r, uint32_t sequence, const struct piece *p)
{
	struct frame f = { .protocol = NUMBER,
			   .sequence = sequence,
			   .length = p->len,
			   .fragments = p->count,
			   .op = p->op,
			   .width = BLAST_FRAGMENTS,
			   .mask = UINT64_C(1) << p->bit,
			   .len = p->len };

	memset(f.payload, p->fill, p->len);
	inject(r, &f);
}

/* Injects p and checks that the outcome is the model's. */
static void
check_piece(struct rig *r, struct model *model, uint32_t sequence, const struct piece *p)
{
	enum outcome expected = model_outcome(model, p);
	char text[3 * LONGEST + 1];
	long before[OUTCOMES];

	for (unsigned i = 1; i < OUTCOMES; i++)
		before[i] = rig_counter(r, outcomes[i]);
	inject_piece(r, sequence, p);
	for (unsigned i = 1; i < OUTCOMES; i++)
		CHECK_EQ(rig_counter(r, outcomes[i]) - before[i], i == expected);
	if (expected == TAKEN && model_take(model, p, text))
		expect_delivered(r, text);
	rig_expect_nothing_delivered(r);
}

static void
arrange(struct rig *r, uint32_t sequence, const unsigned *kinds, unsigned count)
{
	struct model model = { .count = 0 };

	for (unsigned i = 0; i < count; i++) {
		struct piece p = piece_of(kinds[i], (char)('a' + i));

		check_piece(r, &model, sequence, &p);
	}
}

BLAST_TEST(blast_handles_every_arrangement_of_three_fragments, new_server(""))
{
	inject_fragments(r, UINT32_MAX, BLAST_SEND, "0"); /* opens a session */
	for (unsigned n = 0; n < KINDS * KINDS * KINDS; n++) {
		unsigned kinds[] = { n % KINDS, n / KINDS % KINDS, n / KINDS / KINDS };

		arrange(r, n + 1, kinds, 3);
	}
	CHECK(rig_counter(r, "long_in") > 500);
	rig_forget(r);
}

BLAST_TEST(blast_handles_many_arrangements_of_more_fragments, new_server(""))
{
	uint64_t random = test_seed("blast_many_arrangements") | 1;

	inject_fragments(r, UINT32_MAX, BLAST_SEND, "0");
	for (unsigned n = 0; n < 2000; n++) {
		unsigned kinds[ARRANGED_MAX], count = 4 + (unsigned)(next_random(&random) % (ARRANGED_MAX - 3));

		for (unsigned i = 0; i < count; i++)
			kinds[i] = (unsigned)(next_random(&random) % KINDS);
		arrange(r, n + 1, kinds, count);
	}
	CHECK(rig_counter(r, "long_in") > 300);
	rig_forget(r);
}
