/*
 * ip_reassembly.c - see ip_reassembly.h for the rules.
 *
 * Limits keep the table small: a list in the order of age, and so of deadlines, that is searched from the youngest. The
 * pieces of a datagram are a sorted list, tried at its end first, because fragments mostly arrive in order.
 */
#include "protocols/ip/ip_reassembly.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An annotation: a piece's position in its datagram, then why it was discarded. */
#define IP_REASSEMBLY_NOTE XK_KIND('i', 'p', 'n', 'o')

/* Returns the bytes of m's buffers, at least one usual buffer: that bounds the number of pieces. */
static uint32_t
ip_reassembly_pinned(const struct xk_msg *m)
{
	size_t pinned = 0;

	for (; m != NULL; m = m->next)
		pinned += (size_t)(m->ceiling - m->floor);
	return pinned < IP_REASSEMBLY_BUFFER ? IP_REASSEMBLY_BUFFER : (uint32_t)pinned;
}

/* Returns the position of a piece in its datagram. */
static uint32_t
ip_reassembly_start(const struct xk_msg *piece)
{
	return (uint32_t)*xk_msg_annotation(piece, XK_OF_MESSAGE, IP_REASSEMBLY_NOTE);
}

static uint32_t
ip_reassembly_end_of(const struct xk_msg *piece)
{
	return ip_reassembly_start(piece) + (uint32_t)xk_msg_len(piece);
}

/* Removes the pieces of d, and returns the first. */
static struct xk_msg *
ip_reassembly_take(struct ip_reassembly *table, struct ip_reassembly_datagram *d)
{
	struct xk_msg *first = d->first;

	table->pinned -= d->pinned;
	d->first = d->last = NULL;
	d->bytes = d->pinned = 0;
	return first;
}

int
ip_reassembly_init(struct ip_reassembly *table, const struct ip_reassembly_limits *limits)
{
	memset(table, 0, sizeof(*table));
	table->limits = *limits;
	TAILQ_INIT(&table->by_age);
	TAILQ_INIT(&table->free);
	table->all_datagrams = calloc(limits->datagrams, sizeof(*table->all_datagrams));
	if (table->all_datagrams == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < limits->datagrams; i++)
		TAILQ_INSERT_TAIL(&table->free, &table->all_datagrams[i], in_list);
	return 0;
}

void
ip_reassembly_fini(struct ip_reassembly *table)
{
	struct xk_msg *next;

	for (uint32_t i = 0; table->all_datagrams != NULL && i < table->limits.datagrams; i++)
		for (struct xk_msg *m = table->all_datagrams[i].first; m != NULL; m = next) {
			next = m->link;
			xk_msg_free(m);
		}
	free(table->all_datagrams);
	memset(table, 0, sizeof(*table));
}

static void
ip_reassembly_discard(struct xk_msg **discarded, struct xk_msg *m, enum ip_reassembly_reason reason)
{
	xk_assert(reason < IP_REASSEMBLY_REASONS);
	xk_msg_annotate(m, XK_OF_MESSAGE, IP_REASSEMBLY_NOTE, reason);
	m->link = *discarded;
	*discarded = m;
}

struct xk_msg *
ip_reassembly_next_discarded(struct xk_msg **discarded, enum ip_reassembly_reason *why)
{
	struct xk_msg *m = *discarded;
	const uint64_t *reason = xk_msg_annotation(m, XK_OF_MESSAGE, IP_REASSEMBLY_NOTE);

	*why = (enum ip_reassembly_reason) * reason;
	*discarded = m->link;
	m->link = NULL;
	return m;
}

static void
ip_reassembly_discard_pieces(struct ip_reassembly *table, struct ip_reassembly_datagram *d,
			     enum ip_reassembly_reason reason, struct xk_msg **discarded)
{
	struct xk_msg *next;

	for (struct xk_msg *m = ip_reassembly_take(table, d); m != NULL; m = next) {
		next = m->link;
		ip_reassembly_discard(discarded, m, reason);
	}
}

/* Takes d out of the table, and discards the pieces that are left. */
static void
ip_reassembly_end(struct ip_reassembly *table, struct ip_reassembly_datagram *d, enum ip_reassembly_reason reason,
		  struct xk_msg **discarded)
{
	ip_reassembly_discard_pieces(table, d, reason, discarded);
	TAILQ_REMOVE(&table->by_age, d, in_list);
	TAILQ_INSERT_HEAD(&table->free, d, in_list);
	table->datagrams--;
}

/* As ip_reassembly_make_room, where a limit may be exceeded. */
static bool
ip_reassembly_evict(struct ip_reassembly *table, uint32_t source, const struct ip_reassembly_datagram *keep,
		    uint32_t pinned, struct xk_msg **discarded)
{
	const struct ip_reassembly_limits *limits = &table->limits;
	uint32_t datagrams = pinned == 0;

	for (;;) {
		uint32_t own_datagrams = datagrams, own_pinned = pinned;
		struct ip_reassembly_datagram *d;
		bool is_over; /* the source's share */

		TAILQ_FOREACH(d, &table->by_age, in_list)
		if (d->name.source == source) {
			own_datagrams++;
			own_pinned += d->pinned;
		}
		is_over = own_datagrams > limits->source_datagrams || own_pinned > limits->source_bytes;
		if (!is_over && table->datagrams + datagrams <= limits->datagrams &&
		    table->pinned + pinned <= limits->bytes)
			return true;
		TAILQ_FOREACH(d, &table->by_age, in_list)
		if (d != keep && (d->pinned > 0 || pinned == 0) && (!is_over || d->name.source == source))
			break;
		if (d == NULL)
			return false;
		ip_reassembly_end(table, d, IP_REASSEMBLY_EVICTED, discarded);
	}
}

/*
 * Makes room for a datagram of source (pinned 0), or for `pinned` more bytes of its datagram `keep`: evicts the oldest
 * datagrams, only those of source if it exceeds its share. Returns false if evicting all but `keep` is not enough.
 */
static inline bool
ip_reassembly_make_room(struct ip_reassembly *table, uint32_t source, const struct ip_reassembly_datagram *keep,
			uint32_t pinned, struct xk_msg **discarded)
{
	const struct ip_reassembly_limits *limits = &table->limits;
	uint32_t datagrams = table->datagrams + (pinned == 0), bytes = table->pinned + pinned;

	/* usually all of it would be within any source's share */
	return xk_likely(datagrams <= limits->source_datagrams && datagrams <= limits->datagrams &&
			 bytes <= limits->source_bytes && bytes <= limits->bytes) ||
	       ip_reassembly_evict(table, source, keep, pinned, discarded);
}

/* Finds the datagram of fragment, or begins it. */
static struct ip_reassembly_datagram *
ip_reassembly_find(struct ip_reassembly *table, const struct ip_reassembly_fragment *fragment,
		   struct xk_msg **discarded)
{
	struct ip_reassembly_datagram *d;

	TAILQ_FOREACH_REVERSE(d, &table->by_age, ip_reassembly_datagrams, in_list)
	if (d->name.id == fragment->id && d->name.source == fragment->source &&
	    d->name.destination == fragment->destination && d->name.protocol == fragment->protocol)
		return d;
	ip_reassembly_make_room(table, fragment->source, NULL, 0, discarded);
	d = TAILQ_FIRST(&table->free);
	TAILQ_REMOVE(&table->free, d, in_list);
	*d = (struct ip_reassembly_datagram){ .name = *fragment, .born = table->tick };
	TAILQ_INSERT_TAIL(&table->by_age, d, in_list);
	table->datagrams++;
	return d;
}

/* Returns whether two messages of one length hold the same bytes. */
static bool
ip_reassembly_same_bytes(const struct xk_msg *a, const struct xk_msg *b)
{
	uint8_t bytes_a[256], bytes_b[sizeof(bytes_a)];
	size_t len;

	for (size_t at = 0; at < xk_msg_len(a); at += len) {
		len = xk_msg_len(a) - at < sizeof(bytes_a) ? xk_msg_len(a) - at : sizeof(bytes_a);
		xk_msg_copy_out(a, at, bytes_a, len);
		xk_msg_copy_out(b, at, bytes_b, len);
		if (memcmp(bytes_a, bytes_b, len) != 0)
			return false;
	}
	return true;
}

/*
 * Finds the place of m, bytes [start, end), among d's pieces, and stores the link to insert it at. Returns
 * IP_REASSEMBLY_REASONS, or what is wrong with m there.
 */
static enum ip_reassembly_reason
ip_reassembly_place(struct ip_reassembly_datagram *d, uint32_t start, uint32_t end, bool more, const struct xk_msg *m,
		    struct xk_msg ***at)
{
	struct xk_msg **link = &d->first, *next;

	if (d->refused)
		return IP_REASSEMBLY_REFUSED;
	if (d->last != NULL && ip_reassembly_end_of(d->last) <= start)
		link = &d->last->link;
	while (*link != NULL && ip_reassembly_end_of(*link) <= start)
		link = &(*link)->link;
	*at = link;
	next = *link;
	if (next != NULL && ip_reassembly_start(next) < end) {
		bool same = ip_reassembly_start(next) == start && ip_reassembly_end_of(next) == end &&
			    more == (end != d->end) && ip_reassembly_same_bytes(next, m);

		return same ? IP_REASSEMBLY_DUPLICATE : IP_REASSEMBLY_OVERLAP;
	}
	if (d->end != 0 && (!more || end > d->end))
		return IP_REASSEMBLY_INCONSISTENT;
	return !more && next != NULL ? IP_REASSEMBLY_INCONSISTENT : IP_REASSEMBLY_REASONS;
}

/* Inserts m, valid by itself, into d. Returns IP_REASSEMBLY_REASONS, or what is wrong: m stays the caller's. */
static enum ip_reassembly_reason
ip_reassembly_insert(struct ip_reassembly *table, struct ip_reassembly_datagram *d,
		     const struct ip_reassembly_fragment *fragment, struct xk_msg *m, struct xk_msg **discarded)
{
	uint32_t start = fragment->offset, end = start + (uint32_t)xk_msg_len(m), pinned = ip_reassembly_pinned(m);
	struct xk_msg **at;
	enum ip_reassembly_reason reason = ip_reassembly_place(d, start, end, fragment->more, m, &at);

	if (reason == IP_REASSEMBLY_DUPLICATE)
		return reason;
	if (reason == IP_REASSEMBLY_REASONS && !ip_reassembly_make_room(table, d->name.source, d, pinned, discarded))
		reason = IP_REASSEMBLY_TOO_MANY;
	if (reason != IP_REASSEMBLY_REASONS) {
		ip_reassembly_discard_pieces(table, d, reason, discarded);
		d->refused = true;
		return reason;
	}
	xk_msg_annotate(m, XK_OF_MESSAGE, IP_REASSEMBLY_NOTE, start);
	m->link = *at;
	*at = m;
	if (m->link == NULL)
		d->last = m;
	if (!fragment->more)
		d->end = end;
	d->bytes += end - start;
	d->pinned += pinned;
	table->pinned += pinned;
	return reason;
}

/* Returns what is wrong with a fragment of len bytes by itself; IP_REASSEMBLY_REASONS: nothing. */
static enum ip_reassembly_reason
ip_reassembly_check(const struct ip_reassembly_fragment *fragment, size_t len)
{
	if (len == 0)
		return IP_REASSEMBLY_BAD_FRAGMENT;
	if (fragment->offset == 0 && len < IP_REASSEMBLY_FIRST_MIN)
		return IP_REASSEMBLY_TINY;
	if (fragment->more && len % 8 != 0)
		return IP_REASSEMBLY_BAD_FRAGMENT;
	return fragment->offset + len > IP_REASSEMBLY_MAX ? IP_REASSEMBLY_TOO_LONG : IP_REASSEMBLY_REASONS;
}

struct xk_msg *
ip_reassembly_add(struct ip_reassembly *table, const struct ip_reassembly_fragment *fragment, struct xk_msg *m,
		  struct xk_msg **discarded)
{
	enum ip_reassembly_reason reason = ip_reassembly_check(fragment, xk_msg_len(m));
	struct ip_reassembly_datagram *d = NULL;
	struct xk_msg *next, *piece;

	if (reason == IP_REASSEMBLY_REASONS) {
		d = ip_reassembly_find(table, fragment, discarded);
		reason = ip_reassembly_insert(table, d, fragment, m, discarded);
	}
	if (reason != IP_REASSEMBLY_REASONS) {
		ip_reassembly_discard(discarded, m, reason);
		return NULL;
	}
	if (d->bytes != d->end)
		return NULL;
	m = ip_reassembly_take(table, d);
	ip_reassembly_end(table, d, IP_REASSEMBLY_REASONS, discarded); /* has no piece left to discard */
	next = m->link;
	m->link = NULL;
	xk_msg_unannotate(m, XK_OF_MESSAGE);
	while ((piece = next) != NULL) {
		next = piece->link;
		piece->link = NULL;
		xk_msg_join(m, piece);
	}
	return m;
}

bool
ip_reassembly_tick(struct ip_reassembly *table, struct xk_msg **discarded)
{
	struct ip_reassembly_datagram *d;

	table->tick++;
	while ((d = TAILQ_FIRST(&table->by_age)) != NULL && table->tick - d->born > IP_REASSEMBLY_TICKS)
		ip_reassembly_end(table, d, IP_REASSEMBLY_TIMED_OUT, discarded);
	return table->datagrams != 0;
}

/* ---- promises ---- */

/* Checks the pieces of a datagram. */
static const char *
ip_reassembly_pieces_promise(const struct ip_reassembly_datagram *d)
{
	uint32_t end = 0, bytes = 0, pinned = 0;

	for (const struct xk_msg *piece = d->first; piece != NULL; piece = piece->link) {
		if (ip_reassembly_start(piece) < end)
			return "pieces of a datagram overlap";
		end = ip_reassembly_end_of(piece);
		bytes += (uint32_t)xk_msg_len(piece);
		pinned += ip_reassembly_pinned(piece);
	}
	if (bytes != d->bytes || pinned != d->pinned)
		return "a datagram's pieces have other bytes than counted";
	if (d->end != 0 && end > d->end)
		return "a piece lies beyond the end of its datagram";
	return d->first != NULL && bytes == d->end ? "a whole datagram was not delivered" : NULL;
}

const char *
ip_reassembly_promise(const struct ip_reassembly *table, bool at_rest)
{
	const struct ip_reassembly_datagram *d;
	uint32_t datagrams = 0, pinned = 0;
	const char *why = NULL;

	for (d = TAILQ_FIRST(&table->by_age); d != NULL; d = TAILQ_NEXT(d, in_list)) {
		datagrams++;
		pinned += d->pinned;
		why = why == NULL ? ip_reassembly_pieces_promise(d) : why;
		if (table->tick - d->born > IP_REASSEMBLY_TICKS)
			why = "a datagram is incomplete for longer than its time";
	}
	if (why == NULL && (datagrams != table->datagrams || pinned != table->pinned))
		why = "the number of incomplete datagrams, or of their bytes, is wrong";
	if (why == NULL && datagrams > table->limits.datagrams)
		why = "there are more incomplete datagrams than allowed";
	return why == NULL && at_rest && datagrams > 0 ? "a datagram is neither whole nor given up" : why;
}
