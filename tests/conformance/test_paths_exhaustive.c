/*
 * test_paths_exhaustive.c - compares hosts with paths (xkernel/path.h) with hosts without, exhaustively within a bound.
 *
 * Each graph of graphs/ carries a short conversation (conversation.h). Twins (twins.h) replay what one of its hosts
 * received, until paths stand; then variants of the next frame arrive in its place: every one and two flipped bits of
 * its headers, every length of the frame and of each length field, every division into two segments. Each is
 * delivered as it is, and with correct checksums. Good frames between them show that the path still stands; otherwise
 * the twins begin again. Finally, every two frames of the conversation are exchanged, and each is doubled or lost.
 *
 * Builds that do not know the headers at compile time (receive.h) take a fixed share of the pairs of bits, with
 * --long a larger one, and without it no graphs whose conversations take no path, and fewer of those that are alike.
 */
#include <glob.h>
#include <limits.h>

#include "protocols/paths.h"
#include "tests/conformance/conversation.h"
#include "tests/conformance/twins.h"
#include "tests/test.h"
#include "xkernel/bytes.h"
#include "xkernel/path.h"

enum {
	KINDS = 4,      /* frames of one host that are varied */
	STRANGERS = 32, /* sessions that variants may make before the twins begin again */
	PACE = 8,       /* pairs of bits from one good frame to the next */
	MISFITS = 5,    /* differences after which a test ends */
	NEAR = 64,      /* bytes by which lengths are wrong */
	LENGTHS = 3,    /* length fields of a frame */
	LINK_LEN = 6,   /* an Ethernet header: destination, source, type */
	ETH_TYPE = 12,
	IP_TYPE = 0x0800,
	IP_PROTOCOL = 23, /* in a frame */
	IP_TCP = 6,
	ARP_TYPE = 0x0806,
	ARP_SENDER = 22,      /* in a frame: the link address that it announces */
	WAIT_NS = 2000000000, /* time for what is left to do */
	FEW = 16,             /* messages of which one gets a path; bytes from a limit */
	ORDERED = 10,         /* arrivals of which all pairs are exchanged */
	ORDERED_LONG = 24,
};

#define SILENCE_NS UINT64_C(40000000000) /* longer than ARP trusts an answer */

/* The shares of the pairs of bits, and of the lengths far from the right one, that are tried: one of this many. */
#ifdef XK_FORMAT_IS_KNOWN
enum { PAIRS = 3, PAIRS_LONG = 1, LENGTHS_FAR = 1, LENGTHS_FAR_LONG = 1, WITHOUT_PATHS = true, ALIKE = 2 };
#else
enum { PAIRS = 199, PAIRS_LONG = 3, LENGTHS_FAR = 31, LENGTHS_FAR_LONG = 1, WITHOUT_PATHS = false, ALIKE = 5 };
#endif

/* Corrected checksums of a variant. */
enum sums { SUMS_LEFT, SUMS_IP, SUMS_ALL, SUMS };

struct figures {
	uint64_t variants, by_path; /* by_path: those that went up a path */
	uint64_t checks, stood;     /* good frames, and those that went up a path */
	uint64_t begun;             /* twins */
	unsigned misfits;
};

/* Variants of an arrival at a host, for twins that have received what arrived before. */
struct trial {
	const struct conversation *conversation;
	const struct talker *talker;
	const struct arrival *good;
	const struct arrival *other;     /* arrives before each variant, by another path; NULL: none */
	const struct xk_path_code *code; /* of the arrival's headers; NULL: no path */
	unsigned header;                 /* bytes of its headers */
	unsigned pace, since;            /* variants from one good frame to the next, and since the last */
	struct twins twins;
	bool has_begun;
	unsigned sessions; /* when the twins had begun */
	struct figures *figures;
};

/* ---- trials ---- */

static bool
trial_deliver(struct trial *t, const struct arrival *arrival)
{
	return twins_wait(&t->twins, arrival->at_ns) &&
	       twins_inject(&t->twins, arrival->port, arrival->bytes, arrival->len, 0, 0);
}

/* Reports the difference that a variant made. */
static void
trial_misfit(struct trial *t, const char *what, const uint8_t *bytes, size_t len)
{
	printf("%s, host %u, frame %td, %s:", t->conversation->graph, t->talker->plan.number + 1,
	       t->good - t->talker->arrivals, what);
	for (size_t i = 0; i < len && i < t->header + 8; i++)
		printf("%s%02x", i % 4 == 0 ? " " : "", bytes[i]);
	printf(" (%zu bytes)\n", len);
	CHECK(false);
	REQUIRE(++t->figures->misfits < MISFITS);
}

static void
trial_end(struct trial *t)
{
	if (!t->has_begun)
		return;
	if (!twins_wait(&t->twins, host_now_ns(t->twins.hosts[BY_LAYERS]) + WAIT_NS) || !twins_compare(&t->twins))
		trial_misfit(t, "afterwards", NULL, 0);
	twins_end(&t->twins);
	t->has_begun = false;
}

static void
trial_begin(struct trial *t)
{
	t->figures->begun++;
	t->since = 0;
	t->has_begun = true;
	twins_begin(&t->twins, t->conversation->graph, &t->talker->plan);
	for (const struct arrival *arrival = t->talker->arrivals; arrival < t->good; arrival++)
		if (!trial_deliver(t, arrival))
			trial_misfit(t, "before", arrival->bytes, arrival->len);
	if (!twins_wait(&t->twins, t->good->at_ns))
		trial_misfit(t, "before", NULL, 0);
	t->sessions = host_sessions(t->twins.hosts[BY_LAYERS]);
}

/* Delivers the usual frame. If it takes no path any more, later twins begin again. */
static void
trial_check(struct trial *t)
{
	uint64_t by_path = host_by_path(t->twins.hosts[BY_PATHS]);
	bool stands;

	if (!trial_deliver(t, t->good) || !twins_compare(&t->twins))
		trial_misfit(t, "in a usual frame after others", t->good->bytes, t->good->len);
	stands = host_by_path(t->twins.hosts[BY_PATHS]) > by_path;
	t->since = 0;
	if (t->code == NULL)
		return;
	t->figures->checks++;
	t->figures->stood += stands;
	if (!stands || host_sessions(t->twins.hosts[BY_LAYERS]) > t->sessions + STRANGERS)
		trial_end(t);
}

/* Delivers a variant as trial_vary does, to twins to which a usual frame before may have been the last. */
static bool
trial_vary_once(struct trial *t, const uint8_t *bytes, size_t len, size_t split, unsigned flags)
{
	uint64_t by_path;
	bool took_path;

	if (!t->has_begun)
		trial_begin(t);
	if (t->other != NULL && !trial_deliver(t, t->other))
		trial_misfit(t, "in another's frame", t->other->bytes, t->other->len);
	by_path = host_by_path(t->twins.hosts[BY_PATHS]);
	if (!twins_inject(&t->twins, t->good->port, bytes, len, split, flags) || !twins_compare(&t->twins)) {
		trial_misfit(t, split != 0 ? "in segments" : "varied", bytes, len);
		twins_end(&t->twins);
		t->has_begun = false;
		return true;
	}
	took_path = host_by_path(t->twins.hosts[BY_PATHS]) > by_path;
	t->figures->variants++;
	t->figures->by_path += took_path;
	if (++t->since >= t->pace)
		trial_check(t);
	return took_path;
}

/* Delivers a variant, in two segments if split is not 0, with these flags. Returns whether it went up a path. */
static bool
trial_vary(struct trial *t, const uint8_t *bytes, size_t len, size_t split, unsigned flags)
{
	bool took_path = trial_vary_once(t, bytes, len, split, flags);

	if (!took_path && t->code != NULL && !t->has_begun)
		took_path = trial_vary_once(t, bytes, len, split, flags);
	return took_path;
}

/* Delivers frame, whose checksums become correct as `sums` says, unless they are. As trial_vary. */
static bool
trial_vary_summed(struct trial *t, const uint8_t *frame, size_t len, enum sums sums, unsigned flags)
{
	uint8_t bytes[2 * ARRIVAL_MAX];

	memcpy(bytes, frame, len);
	if (sums != SUMS_LEFT)
		frame_correct_sums(bytes, len, sums == SUMS_ALL);
	return (sums == SUMS_LEFT || memcmp(bytes, frame, len) != 0) && trial_vary(t, bytes, len, 0, flags);
}

/* Fails the test if a usual variant did not take the path. */
static void
trial_expect_path(struct trial *t, bool took_path, const char *what, const uint8_t *bytes, size_t len)
{
	if (!took_path)
		trial_misfit(t, what, bytes, len);
}

/* ---- bits ---- */

/* Returns whether a bit of the headers differs between usual messages of one conversation. */
static bool
bit_varies(const struct trial *t, unsigned bit)
{
	for (unsigned i = 0; t->code != NULL && t->code->types[i] != NULL; i++)
		for (const struct xk_field *field = t->code->types[i]->fields; field->name != NULL; field++) {
			if (bit < field->bits)
				return field->kind == XK_VARIES && (field->rare >> (field->bits - 1 - bit) & 1) == 0;
			bit -= field->bits;
		}
	return false;
}

/* Flips each bit. A variant that is usual in all respects must go up the path. */
static void
vary_bit(struct trial *t, unsigned flags)
{
	uint8_t bytes[ARRIVAL_MAX];

	memcpy(bytes, t->good->bytes, t->good->len);
	for (unsigned bit = 0; bit < 8 * t->header; bit++) {
		bool took_path = false;

		bytes[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
		for (enum sums sums = SUMS_LEFT; sums < SUMS; sums++)
			took_path = trial_vary_summed(t, bytes, t->good->len, sums, flags) || took_path;
		trial_expect_path(t, took_path || !bit_varies(t, bit), "a usual bit", bytes, t->good->len);
		bytes[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
	}
}

/* Flips one of `every` pairs of bits. */
static void
vary_two_bits(struct trial *t, unsigned every)
{
	uint8_t bytes[ARRIVAL_MAX];
	unsigned pair = 0;

	memcpy(bytes, t->good->bytes, t->good->len);
	for (unsigned a = 0; a < 8 * t->header; a++)
		for (unsigned b = a + 1; b < 8 * t->header; b++) {
			if (pair++ % every != 0)
				continue;
			bytes[a / 8] ^= (uint8_t)(0x80 >> a % 8);
			bytes[b / 8] ^= (uint8_t)(0x80 >> b % 8);
			trial_vary_summed(t, bytes, t->good->len, SUMS_LEFT, 0);
			trial_vary_summed(t, bytes, t->good->len, SUMS_ALL, 0);
			bytes[a / 8] ^= (uint8_t)(0x80 >> a % 8);
			bytes[b / 8] ^= (uint8_t)(0x80 >> b % 8);
		}
}

/* ---- lengths ---- */

/* Returns whether a length that is wrong by `more`, or a segment's of this length, is tried. */
static bool
is_tried(int64_t more)
{
	return (more >= -NEAR && more <= NEAR) || more % (test_is_long() ? LENGTHS_FAR_LONG : LENGTHS_FAR) == 0;
}

struct length {
	size_t at; /* byte */
	unsigned bytes;
};

/* Stores the places of the length fields of these headers, and returns their number. */
static unsigned
lengths_of(const struct xk_path_code *code, struct length lengths[LENGTHS])
{
	unsigned count = 0;
	size_t at = 0; /* in bits */

	for (unsigned i = 0; code->types[i] != NULL; i++)
		for (const struct xk_field *field = code->types[i]->fields; field->name != NULL; field++) {
			if (field->kind == XK_LENGTH) {
				REQUIRE(count < LENGTHS);
				lengths[count++] = (struct length){ at / 8, field->bits / 8 };
			}
			at += field->bits;
		}
	return count;
}

static void
length_add(uint8_t *bytes, const struct length *length, int64_t more)
{
	uint8_t *p = bytes + length->at;

	if (length->bytes == 2)
		xk_put16(p, (uint16_t)(xk_get16(p) + more));
	else
		xk_put32(p, (uint32_t)(xk_get32(p) + more));
}

/* Makes each of the frame and its length fields longer or shorter by `more`, all together and some of them. */
static void
vary_lengths_by(struct trial *t, int64_t more, const struct length *lengths, unsigned count)
{
	uint8_t bytes[2 * ARRIVAL_MAX];
	unsigned all = (1u << (count + 1)) - 1;
	bool is_near = more >= -(int64_t)NEAR && more <= NEAR;

	for (unsigned which = 1; which <= all; which++) {
		size_t len = t->good->len + (size_t)(which & 1 ? more : 0);
		bool took_path = false;

		if (!is_near && which != all && which != 1)
			continue;
		memset(bytes, (int)(more & 0xff), sizeof(bytes));
		memcpy(bytes, t->good->bytes, t->good->len);
		for (unsigned i = 0; i < count; i++)
			if (which >> (i + 1) & 1)
				length_add(bytes, &lengths[i], more);
		for (enum sums sums = SUMS_LEFT; sums < SUMS; sums++)
			took_path = trial_vary_summed(t, bytes, len, sums, 0) || took_path;
		if (more > 0 && count > 0 && (which & (which + 1)) == 0) /* the outer ones */
			trial_expect_path(t, took_path, which == all ? "a longer message" : "padding", bytes, len);
	}
}

static void
vary_lengths(struct trial *t)
{
	struct length lengths[LENGTHS];
	unsigned count = t->code == NULL ? 0 : lengths_of(t->code, lengths);
	int64_t longest = 1514 - (int64_t)t->good->len;

	for (int64_t more = -(int64_t)t->good->len; more <= longest; more++)
		if (more != 0 &&
		    (is_tried(more) || more > longest - FEW || more + (int64_t)t->good->len < t->header + FEW))
			vary_lengths_by(t, more, lengths, count);
}

/* Divides the frame at each byte, also with some bytes behind it, or missing. */
static void
vary_segments(struct trial *t)
{
	uint8_t bytes[ARRIVAL_MAX + NEAR] = { 0 };

	memcpy(bytes, t->good->bytes, t->good->len);
	for (size_t split = 1; split < t->good->len; split++)
		for (int more = -1; more <= 6 && is_tried((int64_t)split); more += more < 0 ? 1 : 6)
			trial_vary(t, bytes, t->good->len + (size_t)more, split, 0);
}

/* ---- counting ---- */

/* Counts what crosses edges, during which no path may be taken, and stops: one of the next few messages takes it. */
static void
vary_counting(struct trial *t)
{
	trial_end(t); /* after many messages that cannot have a path, few are tried */
	trial_begin(t);
	t->pace = UINT_MAX;
	for (unsigned round = 0; round < 4 && t->has_begun; round++) {
		bool is_counting = round % 2 == 0, took_path = false;

		for (unsigned i = 0; i < TWINS; i++)
			host_count_edges(t->twins.hosts[i], is_counting);
		for (unsigned i = 0; i < (is_counting ? 4 : FEW) && !took_path; i++)
			took_path = trial_vary(t, t->good->bytes, t->good->len, 0, 0) || took_path;
		trial_expect_path(t, took_path == !is_counting,
				  is_counting ? "while edges are counted" : "after edges were counted", NULL, 0);
	}
}

/* ---- neighbours ---- */

/* Lets all that is known of neighbours grow old: paths are suspended until they have answered. */
static void
vary_silence(struct trial *t)
{
	trial_end(t);
	trial_begin(t);
	t->pace = UINT_MAX;
	for (unsigned round = 0; round < 3 && t->has_begun; round++) {
		if (!twins_wait(&t->twins, host_now_ns(t->twins.hosts[BY_LAYERS]) + SILENCE_NS))
			trial_misfit(t, "after silence", NULL, 0);
		for (unsigned i = 0; i < 4; i++)
			trial_vary(t, t->good->bytes, t->good->len, 0, 0);
	}
}

/* Delivers usual frames, and the same from another station. */
static void
vary_station(struct trial *t)
{
	uint8_t bytes[ARRIVAL_MAX];

	memcpy(bytes, t->good->bytes, t->good->len);
	bytes[2 * LINK_LEN - 1] ^= 0x40;
	for (unsigned i = 0; i < 8; i++)
		trial_vary(t, i % 4 < 2 ? t->good->bytes : bytes, t->good->len, 0, 0);
}

/* Returns the last ARP message before the usual frame, from its station or from another one; NULL: none. */
static const struct arrival *
find_arp(const struct trial *t, bool is_others)
{
	for (const struct arrival *arp = t->good; arp-- > t->talker->arrivals;)
		if (xk_get16(arp->bytes + ETH_TYPE) == ARP_TYPE &&
		    (memcmp(arp->bytes + LINK_LEN, t->good->bytes + LINK_LEN, LINK_LEN) != 0) == is_others)
			return arp;
	return NULL;
}

/*
 * Lets a host move to another station and back, by announcements like its earlier ARP message: the usual frame's sender
 * to a new one, or another host to the sender's.
 */
static void
vary_moved(struct trial *t, bool is_others)
{
	const struct arrival *arp = find_arp(t, is_others);
	uint8_t bytes[ARRIVAL_MAX];

	if (arp == NULL)
		return;
	trial_end(t);
	trial_begin(t);
	t->pace = UINT_MAX;
	for (unsigned round = 0; round < 4 && t->has_begun; round++) {
		memcpy(bytes, arp->bytes, arp->len);
		if (round % 2 == 0) {
			memcpy(bytes + LINK_LEN, t->good->bytes + LINK_LEN, LINK_LEN);
			bytes[2 * LINK_LEN - 1] ^= is_others ? 0 : 0x40;
			memcpy(bytes + ARP_SENDER, bytes + LINK_LEN, LINK_LEN);
		}
		trial_vary(t, bytes, arp->len, 0, 0);
		vary_station(t);
		if (!twins_wait(&t->twins, host_now_ns(t->twins.hosts[BY_LAYERS]) + WAIT_NS))
			trial_misfit(t, "after a move", NULL, 0);
		vary_station(t);
	}
}

/* ---- orders ---- */

enum order { ORDER_LOST, ORDER_DOUBLED, ORDER_EXCHANGED, ORDERS };

/* Replays the conversation with arrival a lost, doubled, or exchanged with arrival b. */
static void
vary_order(struct trial *t, enum order order, unsigned a, unsigned b)
{
	const struct talker *talker = t->talker;
	bool is_good = true;

	t->figures->variants++;
	t->figures->begun++;
	twins_begin(&t->twins, t->conversation->graph, &talker->plan);
	for (unsigned i = 0; i < talker->count && is_good; i++) {
		unsigned which = order != ORDER_EXCHANGED ? i : i == a ? b : i == b ? a : i;
		unsigned times = i != a || order == ORDER_EXCHANGED ? 1 : order == ORDER_LOST ? 0 : 2;
		const struct arrival *arrival = &talker->arrivals[which];

		is_good = twins_wait(&t->twins, talker->arrivals[i].at_ns);
		for (; times > 0 && is_good; times--)
			is_good = twins_inject(&t->twins, arrival->port, arrival->bytes, arrival->len, 0, 0);
	}
	is_good = is_good && twins_wait(&t->twins, host_now_ns(t->twins.hosts[BY_LAYERS]) + WAIT_NS);
	if (!is_good || !twins_compare(&t->twins))
		trial_misfit(t,
			     order == ORDER_LOST      ? "lost"
			     : order == ORDER_DOUBLED ? "doubled"
						      : "exchanged",
			     talker->arrivals[a].bytes, talker->arrivals[a].len);
	twins_end(&t->twins);
}

/* Exchanges all pairs of the first `count` arrivals, doubles each, and loses each. */
static void
vary_orders(struct trial *t, unsigned count)
{
	for (unsigned a = 0; a < count && a < t->talker->count; a++) {
		t->good = &t->talker->arrivals[a];
		vary_order(t, ORDER_LOST, a, a);
		vary_order(t, ORDER_DOUBLED, a, a);
		for (unsigned b = a + 1; b < count && b < t->talker->count; b++)
			vary_order(t, ORDER_EXCHANGED, a, b);
	}
}

/* ---- conversations ---- */

/* Returns whether two arrivals are of one kind: from the same station, and as long. */
static bool
is_alike(const struct arrival *a, const struct arrival *b)
{
	return a->len == b->len && memcmp(a->bytes, b->bytes, ETH_TYPE) == 0;
}

/*
 * Stores the places of arrivals that are to be varied, and returns their number: of each kind that takes paths, the
 * third; if none does, the last of each kind.
 */
static unsigned
find_kinds(const struct talker *talker, unsigned kinds[KINDS])
{
	unsigned count = 0, seen;
	bool has_paths = false;

	for (unsigned i = 0; i < talker->count; i++)
		has_paths = has_paths || talker->arrivals[i].by_path;
	for (unsigned i = 0; i < talker->count && count < KINDS; i++) {
		const struct arrival *arrival = &talker->arrivals[i];

		seen = 0;
		for (unsigned k = 0; k < talker->count; k++)
			seen += is_alike(arrival, &talker->arrivals[k]) && (has_paths ? k < i : k > i) &&
				talker->arrivals[k].by_path == has_paths;
		if (arrival->by_path == has_paths && seen == (has_paths ? 2 : 0))
			kinds[count++] = i;
	}
	return count;
}

/* Returns the last arrival before this one that came by another path; NULL: none. */
static const struct arrival *
find_other(const struct talker *talker, const struct arrival *good)
{
	for (const struct arrival *other = good; other > talker->arrivals; other--)
		if (other[-1].by_path && memcmp(other[-1].bytes, good->bytes, ETH_TYPE) != 0)
			return &other[-1];
	return NULL;
}

/* Returns the code of the path that an arrival takes. */
static const struct xk_path_code *
code_of(const struct arrival *good)
{
	if (xk_get16(good->bytes + ETH_TYPE) != IP_TYPE)
		return &xk_path_bid;
	return good->bytes[IP_PROTOCOL] == IP_TCP ? &xk_path_tcp : &xk_path_udp;
}

/* Varies one arrival at a host in all ways. */
static void
vary_arrival(struct trial *t)
{
	bool takes_path = t->good->by_path;

	if (takes_path)
		t->code = code_of(t->good);
	t->header = 0;
	for (unsigned i = 0; takes_path && t->code->types[i] != NULL; i++)
		t->header += t->code->types[i]->header;
	if (!takes_path)
		t->header = t->good->len < 62 ? (unsigned)t->good->len : 62;
	t->pace = 1;
	vary_bit(t, 0);
	if (takes_path) {
		for (unsigned flags = 1; flags <= (XK_MSG_NETWORK_SUM_GOOD | XK_MSG_TRANSPORT_SUM_GOOD); flags++)
			vary_bit(t, flags);
		vary_lengths(t);
		vary_segments(t);
		vary_counting(t);
		vary_silence(t);
		vary_moved(t, false);
		vary_moved(t, true);
		trial_end(t);
		t->pace = PACE;
		vary_two_bits(t, test_is_long() ? PAIRS_LONG : PAIRS);
		t->pace = 1;
		t->other = find_other(t->talker, t->good);
		if (t->other != NULL)
			vary_bit(t, 0);
	}
	trial_end(t);
}

static void
vary_conversation(const struct conversation *c, bool has_paths)
{
	struct figures figures = { 0 };
	unsigned kinds[KINDS], by_path = 0;

	for (unsigned i = 0; i < TALKERS; i++) {
		const struct talker *talker = &c->talkers[i];
		unsigned count = find_kinds(talker, kinds);

		for (unsigned k = 0; k < count; k++) {
			struct trial t = { .conversation = c, .talker = talker, .figures = &figures };

			t.good = &talker->arrivals[kinds[k]];
			by_path += t.good->by_path;
			vary_arrival(&t);
		}
		vary_orders(&(struct trial){ .conversation = c, .talker = talker, .figures = &figures },
			    test_is_long() ? ORDERED_LONG : ORDERED);
	}
	printf("\n    %s: %u kinds by path, %" PRIu64 " variants, %" PRIu64 " by path; the path stood %" PRIu64
	       " of %" PRIu64 " times; %" PRIu64 " twins ",
	       c->graph + strlen(CONFORMANCE_ROOT) + 1, by_path, figures.variants, figures.by_path, figures.stood,
	       figures.checks, figures.begun);
	CHECK_EQ(by_path > 0, has_paths);
	if (has_paths)
		CHECK(figures.by_path > figures.variants / 20 && figures.stood > figures.checks / 20 * 19);
}

/* Graphs whose conversations take paths. The first have a test of their own; the last ALIKE are like another (--long). */
static const char *const with_paths[] = {
	"udptest",     "chantest",         "tcptest", "am-udp",       "logp", "traffic", "udptest-multihomed",
	"udptest-two", "udptest-explicit", "host",    "pingpong-tcp", "web"
};
enum { ALONE = 3 };

static int
find_graph(const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(with_paths); i++)
		if (strncmp(name, with_paths[i], strlen(with_paths[i])) == 0 && name[strlen(with_paths[i])] == '.')
			return (int)i;
	return -1;
}

/* Varies the conversation of a graph file with further settings, on ports with these offloads. */
static void
vary_graph(const char *path, const char *const *sets, unsigned offloads)
{
	struct host_plan plan = { .graph = path, .mtu = 1500, .offloads = offloads, .trace = fopen("/dev/null", "w") };
	struct conversation *c;

	REQUIRE(plan.trace != NULL);
	c = conversation_record(&plan, sets);
	if (c != NULL)
		vary_conversation(c, find_graph(path) >= 0);
	free(c);
	fclose(plan.trace);
}

#define GRAPH(name) CONFORMANCE_ROOT "/graphs/" name ".dot"

static const char *const without_checksums[] = { "udp.checksum=no", NULL };

/* The server calls a client that has called it: it opens a session that exists already, and follows the client (vnet.c). */
static const char *const mutual[] = { "chantest.peer=10.0.0.2", "chantest.start=2ms", NULL };

TEST_OF(every_variant_of_a_datagram_has_the_same_effect_by_path, vary_graph(GRAPH("udptest"), NULL, 0));
TEST_OF(every_variant_of_a_call_has_the_same_effect_by_path, vary_graph(GRAPH("chantest"), NULL, 0));
TEST_OF(every_variant_of_a_segment_has_the_same_effect_by_path, vary_graph(GRAPH("tcptest"), NULL, 0));
TEST_OF(every_variant_of_mutual_calls_has_the_same_effect_by_path, vary_graph(GRAPH("chantest"), mutual, 0));
TEST_OF(every_variant_has_the_same_effect_without_checksums, vary_graph(GRAPH("udptest"), without_checksums, 0));
TEST_OF(every_variant_has_the_same_effect_if_ports_complete_checksums,
	vary_graph(GRAPH("udptest"), NULL, XK_OFFLOAD_UDP_SUM));

TEST(every_variant_in_other_graphs_has_the_same_effect_by_path)
{
	glob_t graphs;

	REQUIRE(glob(GRAPH("*"), 0, NULL, &graphs) == 0);
	for (size_t i = 0; i < graphs.gl_pathc; i++) {
		int found = find_graph(graphs.gl_pathv[i]);
		int last = test_is_long() ? INT_MAX : (int)XK_ARRAY_LENGTH(with_paths) - ALIKE - 1;

		if ((found >= ALONE && found <= last) || (found < 0 && (WITHOUT_PATHS || test_is_long())))
			vary_graph(graphs.gl_pathv[i], NULL, 0);
	}
	globfree(&graphs);
}
