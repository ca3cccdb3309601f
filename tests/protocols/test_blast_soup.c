/*
 * test_blast_soup.c - peers that send random messages, some nearly valid, while long messages are sent, time passes and
 * buffers are short. In every case: memory stays within its bounds, a stranger draws at most one NACK per frame, one
 * NACK draws at most the length of its message, and in the end nothing is held.
 */
#include <limits.h>

#include "tests/protocols/blast_peer.h"
#include "tests/random.h"

enum { PEERS = 4, STEPS = 4000, MESSAGES = 6, PEER_MESSAGES = 3 };

struct soup {
	struct rig *r;
	uint64_t random;
	struct xk_session *to; /* the session to HOST */
	uint32_t last;         /* sequence number sent to it last */
	uint32_t whole;        /* complete messages of HOST */
	uint64_t injected, nacks;
};

static unsigned
draw(struct soup *soup, unsigned below)
{
	return (unsigned)(next_random(&soup->random) % below);
}

/* Returns a header with common field values, now and then with a random one. */
static struct frame
anything(struct soup *soup)
{
	unsigned fragments = 2 + draw(soup, 4);
	struct frame f = { .protocol = NUMBER + (draw(soup, 20) == 0),
			   .sequence = draw(soup, 2) == 0 ? draw(soup, 8) : soup->last,
			   .fragments = fragments,
			   .op = BLAST_SEND + draw(soup, 3),
			   .width = BLAST_FRAGMENTS,
			   .mask = UINT64_C(1) << draw(soup, fragments),
			   .len = 1 + draw(soup, SIZE) };

	f.length = f.op == BLAST_NACK ? 0 : (uint32_t)f.len;
	if (draw(soup, 8) == 0)
		f.fragments = draw(soup, 70);
	if (draw(soup, 8) == 0)
		f.mask = next_random(&soup->random);
	if (draw(soup, 16) == 0)
		f.length = (uint32_t)next_random(&soup->random);
	if (draw(soup, 16) == 0)
		f.op = draw(soup, 256);
	return f;
}

static void
check_bounds(struct soup *soup)
{
	const struct blast *blast = (struct blast *)rig_protocol(soup->r, "blast");
	unsigned partials = 0, fragments = 0;

	for (const struct blast_partial *partial = TAILQ_FIRST(&blast->ages); partial != NULL;
	     partial = TAILQ_NEXT(partial, age)) {
		CHECK(partial->received > 0 && partial->received < partial->count);
		CHECK_EQ(__builtin_popcountll(partial->mask), partial->received);
		CHECK(partial->session->partial_count <= PEER_MESSAGES);
		partials++;
		fragments += partial->received;
	}
	CHECK_EQ(partials, blast->partial_count);
	CHECK_EQ(fragments, blast->fragment_count);
	CHECK(partials <= MESSAGES);
	CHECK(fragments <= BLAST_FRAGMENTS);
}

/* Takes the frames sent. Counts NACKs: at most one per frame received. */
static void
look_at_sent(struct soup *soup)
{
	while (rig_sent(soup->r) > 0)
		soup->nacks += sent(soup->r).op == BLAST_NACK;
	CHECK(soup->nacks <= soup->injected);
}

static void
inject_anything(struct soup *soup)
{
	struct frame f = anything(soup);
	unsigned before;

	if (draw(soup, 4) == 0)
		rig_wire_peer(soup->r, draw(soup, 3) == 0 ? (uint64_t)HOST : STRANGER + draw(soup, PEERS));
	look_at_sent(soup);
	before = rig_sent(soup->r);
	inject(soup->r, &f);
	soup->injected++;
	CHECK(rig_sent(soup->r) - before <= 2); /* at most the missing two of three */
}

/* Sends a valid message of HOST: random ones complete too rarely. */
static void
inject_whole(struct soup *soup)
{
	rig_wire_peer(soup->r, HOST);
	for (unsigned i = 0; i < 3; i++)
		inject_fragment(soup->r, 1000 + soup->whole, BLAST_SEND, i);
	soup->whole++;
	soup->injected += 3;
}

static void
step(struct soup *soup)
{
	if (draw(soup, 40) == 0)
		inject_whole(soup);
	else if (draw(soup, 40) == 0 && push(soup->r, soup->to, message) == 0)
		soup->last = expect(soup->r, BLAST_SEND, 0);
	else if (draw(soup, 10) == 0)
		rig_advance_ms(soup->r, 1 + draw(soup, 60));
	else
		inject_anything(soup);
	look_at_sent(soup);
	check_bounds(soup);
}

TEST(blast_survives_random_messages)
{
	struct soup soup = { .r = new_server("implicit=fail sessions=3 messages=6 peer_messages=3 fragments=64 "
					     "peer_fragments=64 outstanding=3 keep=400ms"),
			     .random = test_seed("blast_survives_random_messages") | 1 };

	soup.to = open_to(soup.r, HOST);
	for (unsigned i = 0; i < STEPS; i++)
		step(&soup);
	CHECK(rig_counter(soup.r, "nacks_in") > 0);
	CHECK(rig_counter(soup.r, "long_in") >= soup.whole);
	CHECK(rig_counter(soup.r, "evicted") > 0);
	rig_forget(soup.r);
	for (unsigned i = 0; i < 20; i++)
		rig_advance_ms(soup.r, 500);
	rig_forget(soup.r);
	CHECK_EQ(rig_platform(soup.r)->ops->buffers_out(rig_platform(soup.r)), 0);
	rig_free(soup.r);
}
