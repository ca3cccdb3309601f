/*
 * ip_reassembly.c - see ip_reassembly.h for the rules.
 *
 * Datagrams are listed in the order of their first fragments, and so of their deadlines. Limits keep the list short; it is
 * searched from the youngest. A datagram's pieces are a sorted list, tried at its end first: fragments mostly come in order.
 */
#include "protocols/ip/ip_reassembly.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Returns the bytes of buffers that m holds; at least one usual buffer, which bounds the number of pieces. */
static uint32_t
ip_reassembly_pinned(const struct xk_msg *m)
{
	size_t pinned = 0;

	for (; m != NULL; m = m->next)
		pinned += (size_t)(m->ceiling - m->floor);
	return pinned < IP_REASSEMBLY_BUFFER ? IP_REASSEMBLY_BUFFER : (uint32_t)pinned;
}

int
ip_reassembly_init(struct ip_reassembly *table, const struct ip_reassembly_limits *limits)
{
	memset(table, 0, sizeof(*table));
	table->limits = *limits;
	/* Not cleared: what was never used costs no memory. */
	table->all_datagrams = reallocarray(NULL, limits->datagrams, sizeof(*table->all_datagrams));
	table->all_pieces = reallocarray(NULL, limits->bytes / IP_REASSEMBLY_BUFFER, sizeof(*table->all_pieces));
	if (table->all_datagrams == NULL || table->all_pieces == NULL) {
		ip_reassembly_fini(table);
		return -ENOMEM;
	}
	return 0;
}

void
ip_reassembly_fini(struct ip_reassembly *table)
{
	for (struct ip_reassembly_datagram *d = table->oldest; d != NULL; d = d->younger)
		for (struct ip_reassembly_piece *piece = d->first; piece != NULL; piece = piece->next)
			xk_msg_free(piece->m);
	free(table->all_datagrams);
	free(table->all_pieces);
	memset(table, 0, sizeof(*table));
}

static void
ip_reassembly_discard(struct ip_reassembly_discarded *discarded, struct xk_msg *m, enum ip_reassembly_reason reason)
{
	m->link = discarded->first[reason];
	discarded->first[reason] = m;
	discarded->some = true;
}

/* Takes the first piece off d; returns its message. */
static struct xk_msg *
ip_reassembly_take(struct ip_reassembly *table, struct ip_reassembly_datagram *d)
{
	struct ip_reassembly_piece *piece = d->first;
	struct xk_msg *m = piece->m;

	d->first = piece->next;
	if (d->first == NULL)
		d->last = NULL;
	d->bytes -= piece->end - piece->start;
	d->pinned -= piece->pinned;
	table->pinned -= piece->pinned;
	table->fragments--;
	piece->next = table->free_pieces;
	table->free_pieces = piece;
	return m;
}

static void
ip_reassembly_discard_pieces(struct ip_reassembly *table, struct ip_reassembly_datagram *d,
			     enum ip_reassembly_reason reason, struct ip_reassembly_discarded *discarded)
{
	while (d->first != NULL)
		ip_reassembly_discard(discarded, ip_reassembly_take(table, d), reason);
}

/* Takes d, which has no pieces left, out of the table. */
static void
ip_reassembly_remove(struct ip_reassembly *table, struct ip_reassembly_datagram *d)
{
	if (d->older != NULL)
		d->older->younger = d->younger;
	else
		table->oldest = d->younger;
	if (d->younger != NULL)
		d->younger->older = d->older;
	else
		table->youngest = d->older;
	table->datagrams--;
	d->younger = table->free_datagrams;
	table->free_datagrams = d;
}

/* What the datagrams of one source occupy. */
struct ip_reassembly_share {
	uint32_t datagrams, pinned;
};

static struct ip_reassembly_share
ip_reassembly_share_of(const struct ip_reassembly *table, uint32_t source)
{
	struct ip_reassembly_share share = { 0, 0 };

	for (const struct ip_reassembly_datagram *d = table->oldest; d != NULL; d = d->younger) {
		if (d->source != source)
			continue;
		share.datagrams++;
		share.pinned += d->pinned;
	}
	return share;
}

/*
 * Evicts the oldest datagram of *source (NULL: of any) that holds at least `pinned` bytes of buffers, but never `keep`.
 * Returns false if there is none.
 */
static bool
ip_reassembly_evict(struct ip_reassembly *table, const uint32_t *source, uint32_t pinned,
		    const struct ip_reassembly_datagram *keep, struct ip_reassembly_discarded *discarded)
{
	for (struct ip_reassembly_datagram *d = table->oldest; d != NULL; d = d->younger) {
		if (d == keep || d->pinned < pinned || (source != NULL && d->source != *source))
			continue;
		ip_reassembly_discard_pieces(table, d, IP_REASSEMBLY_EVICTED, discarded);
		ip_reassembly_remove(table, d);
		return true;
	}
	return false;
}

static struct ip_reassembly_datagram *
ip_reassembly_find(const struct ip_reassembly *table, const struct ip_reassembly_fragment *fragment)
{
	struct ip_reassembly_datagram *d = table->youngest;

	while (d != NULL && (d->id != fragment->id || d->source != fragment->source ||
			     d->destination != fragment->destination || d->protocol != fragment->protocol))
		d = d->older;
	return d;
}

/* Adds a datagram for fragment; older ones make room. */
static struct ip_reassembly_datagram *
ip_reassembly_begin(struct ip_reassembly *table, const struct ip_reassembly_fragment *fragment,
		    struct ip_reassembly_discarded *discarded)
{
	const struct ip_reassembly_limits *limits = &table->limits;
	struct ip_reassembly_datagram *d;

	if (table->datagrams >= limits->source_datagrams &&
	    ip_reassembly_share_of(table, fragment->source).datagrams >= limits->source_datagrams)
		ip_reassembly_evict(table, &fragment->source, 0, NULL, discarded);
	if (table->datagrams >= limits->datagrams)
		ip_reassembly_evict(table, NULL, 0, NULL, discarded);
	d = table->free_datagrams;
	if (d != NULL)
		table->free_datagrams = d->younger;
	else
		d = &table->all_datagrams[table->used_datagrams++];
	*d = (struct ip_reassembly_datagram){ .older = table->youngest,
					      .source = fragment->source,
					      .destination = fragment->destination,
					      .id = fragment->id,
					      .protocol = fragment->protocol,
					      .born = table->tick };
	if (d->older != NULL)
		d->older->younger = d;
	else
		table->oldest = d;
	table->youngest = d;
	table->datagrams++;
	return d;
}

/* Makes room for `pinned` more bytes of d. Returns false if evicting all other datagrams would not do. */
static bool
ip_reassembly_make_room(struct ip_reassembly *table, const struct ip_reassembly_datagram *d, uint32_t pinned,
			struct ip_reassembly_discarded *discarded)
{
	const struct ip_reassembly_limits *limits = &table->limits;

	while (table->pinned + pinned > limits->source_bytes &&
	       ip_reassembly_share_of(table, d->source).pinned + pinned > limits->source_bytes)
		if (!ip_reassembly_evict(table, &d->source, 1, d, discarded))
			return false;
	while (table->pinned + pinned > limits->bytes)
		if (!ip_reassembly_evict(table, NULL, 1, d, discarded))
			return false;
	return true;
}

/* Tells whether two messages of one length hold the same bytes. */
static bool
ip_reassembly_same_bytes(const struct xk_msg *a, const struct xk_msg *b)
{
	size_t at_a = 0, at_b = 0;

	while (a != NULL && b != NULL) {
		size_t left_a = a->len - at_a, left_b = b->len - at_b;
		size_t len = left_a < left_b ? left_a : left_b;

		if (memcmp(a->data + at_a, b->data + at_b, len) != 0)
			return false;
		at_a += len;
		at_b += len;
		if (at_a == a->len) {
			a = a->next;
			at_a = 0;
		}
		if (at_b == b->len) {
			b = b->next;
			at_b = 0;
		}
	}
	return true;
}

/*
 * Finds the place for [start, end) of m among d's pieces and stores the link to put it in. Returns IP_REASSEMBLY_REASONS,
 * or what is wrong with the fragment there.
 */
static enum ip_reassembly_reason
ip_reassembly_place(struct ip_reassembly_datagram *d, uint32_t start, uint32_t end, bool more, const struct xk_msg *m,
		    struct ip_reassembly_piece ***at)
{
	struct ip_reassembly_piece **link = &d->first;
	const struct ip_reassembly_piece *next;

	if (d->refused)
		return IP_REASSEMBLY_REFUSED;
	if (d->last != NULL && d->last->end <= start)
		link = &d->last->next;
	while (*link != NULL && (*link)->end <= start)
		link = &(*link)->next;
	*at = link;
	next = *link;
	if (next != NULL && next->start < end) {
		bool same = next->start == start && next->end == end && more == (next->end != d->end) &&
			    ip_reassembly_same_bytes(next->m, m);

		return same ? IP_REASSEMBLY_DUPLICATE : IP_REASSEMBLY_OVERLAP;
	}
	if (d->end != 0 && (!more || end > d->end))
		return IP_REASSEMBLY_INCONSISTENT;
	return !more && next != NULL ? IP_REASSEMBLY_INCONSISTENT : IP_REASSEMBLY_REASONS;
}

/*
 * Inserts m, valid by itself, into d. Returns IP_REASSEMBLY_REASONS, or what is wrong with m there: then it stays the
 * caller's.
 */
static enum ip_reassembly_reason
ip_reassembly_insert(struct ip_reassembly *table, struct ip_reassembly_datagram *d,
		     const struct ip_reassembly_fragment *fragment, struct xk_msg *m,
		     struct ip_reassembly_discarded *discarded)
{
	uint32_t start = fragment->offset, end = start + (uint32_t)xk_msg_len(m), pinned = ip_reassembly_pinned(m);
	struct ip_reassembly_piece **at, *piece;
	enum ip_reassembly_reason reason = ip_reassembly_place(d, start, end, fragment->more, m, &at);

	if (reason == IP_REASSEMBLY_DUPLICATE)
		return reason;
	if (reason == IP_REASSEMBLY_REASONS && !ip_reassembly_make_room(table, d, pinned, discarded))
		reason = IP_REASSEMBLY_TOO_MANY;
	if (reason != IP_REASSEMBLY_REASONS) {
		ip_reassembly_discard_pieces(table, d, reason, discarded);
		d->refused = true;
		return reason;
	}
	piece = table->free_pieces;
	if (piece != NULL)
		table->free_pieces = piece->next;
	else
		piece = &table->all_pieces[table->used_pieces++];
	*piece = (struct ip_reassembly_piece){ *at, m, start, end, pinned };
	*at = piece;
	if (piece->next == NULL)
		d->last = piece;
	if (!fragment->more)
		d->end = end;
	d->bytes += end - start;
	d->pinned += pinned;
	table->pinned += pinned;
	table->fragments++;
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
		  struct ip_reassembly_discarded *discarded)
{
	enum ip_reassembly_reason reason = ip_reassembly_check(fragment, xk_msg_len(m));
	struct ip_reassembly_datagram *d = NULL;

	if (reason == IP_REASSEMBLY_REASONS) {
		d = ip_reassembly_find(table, fragment);
		if (d == NULL)
			d = ip_reassembly_begin(table, fragment, discarded);
		reason = ip_reassembly_insert(table, d, fragment, m, discarded);
	}
	if (reason != IP_REASSEMBLY_REASONS) {
		ip_reassembly_discard(discarded, m, reason);
		return NULL;
	}
	if (d->bytes != d->end)
		return NULL;
	m = ip_reassembly_take(table, d);
	while (d->first != NULL)
		xk_msg_join(m, ip_reassembly_take(table, d));
	ip_reassembly_remove(table, d);
	return m;
}

bool
ip_reassembly_tick(struct ip_reassembly *table, struct ip_reassembly_discarded *discarded)
{
	struct ip_reassembly_datagram *d;

	table->tick++;
	while ((d = table->oldest) != NULL && table->tick - d->born > IP_REASSEMBLY_TICKS) {
		ip_reassembly_discard_pieces(table, d, IP_REASSEMBLY_TIMED_OUT, discarded);
		ip_reassembly_remove(table, d);
	}
	return table->oldest != NULL;
}
