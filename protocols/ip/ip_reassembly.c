/*
 * ip_reassembly.c - see ip_reassembly.h for the rules.
 *
 * Limits keep the table small: it is an array, ordered by age and so by deadline, and searched from the youngest. A
 * datagram's pieces are a sorted list, tried at its end first, as fragments mostly come in order.
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
	table->least_bytes = limits->source_bytes < limits->bytes ? limits->source_bytes : limits->bytes;
	table->all_datagrams = calloc(limits->datagrams, sizeof(*table->all_datagrams));
	table->by_age = calloc(limits->datagrams, sizeof(struct ip_reassembly_datagram *));
	/* not cleared: what was never used costs no memory */
	table->all_pieces = reallocarray(NULL, limits->bytes / IP_REASSEMBLY_BUFFER, sizeof(*table->all_pieces));
	if (table->all_datagrams == NULL || table->by_age == NULL || table->all_pieces == NULL) {
		ip_reassembly_fini(table);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < limits->datagrams; i++)
		table->by_age[i] = &table->all_datagrams[i];
	return 0;
}

void
ip_reassembly_fini(struct ip_reassembly *table)
{
	for (uint32_t i = 0; i < table->datagrams; i++)
		for (struct ip_reassembly_piece *piece = table->by_age[i]->first; piece != NULL; piece = piece->next)
			xk_msg_free(piece->m);
	free(table->all_datagrams);
	free(table->by_age);
	free(table->all_pieces);
	memset(table, 0, sizeof(*table));
}

static void
ip_reassembly_discard(struct ip_reassembly_discarded *discarded, struct xk_msg *m, enum ip_reassembly_reason reason)
{
	xk_assert(reason < IP_REASSEMBLY_REASONS);
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

/* Takes the datagram at index out of the table; pieces that are left are discarded. */
static void
ip_reassembly_end(struct ip_reassembly *table, uint32_t index, enum ip_reassembly_reason reason,
		  struct ip_reassembly_discarded *discarded)
{
	struct ip_reassembly_datagram **at = &table->by_age[index], *d = *at;

	ip_reassembly_discard_pieces(table, d, reason, discarded);
	table->datagrams--;
	memmove(at, at + 1, (table->datagrams - index) * sizeof(struct ip_reassembly_datagram *));
	table->by_age[table->datagrams] = d;
}

/*
 * Makes room for a datagram of source (pinned 0), or for that many more bytes of `keep`, one of its datagrams: evicts
 * the oldest ones, of source if it has more than its share. Returns false if evicting all but `keep` would not do.
 */
static bool
ip_reassembly_make_room(struct ip_reassembly *table, uint32_t source, const struct ip_reassembly_datagram *keep,
			uint32_t pinned, struct ip_reassembly_discarded *discarded)
{
	const struct ip_reassembly_limits *limits = &table->limits;
	uint32_t datagrams = pinned == 0, index;

	for (;;) {
		uint32_t own_datagrams = datagrams, own_pinned = pinned;
		bool is_over = false; /* the source's share */

		if (table->datagrams + datagrams > limits->source_datagrams ||
		    table->pinned + pinned > limits->source_bytes) {
			for (index = 0; index < table->datagrams; index++)
				if (table->by_age[index]->source == source) {
					own_datagrams++;
					own_pinned += table->by_age[index]->pinned;
				}
			is_over = own_datagrams > limits->source_datagrams || own_pinned > limits->source_bytes;
		}
		if (!is_over && table->datagrams + datagrams <= limits->datagrams &&
		    table->pinned + pinned <= limits->bytes)
			return true;
		for (index = 0; index < table->datagrams; index++) {
			const struct ip_reassembly_datagram *d = table->by_age[index];

			if (d != keep && (d->pinned > 0 || pinned == 0) && (!is_over || d->source == source))
				break;
		}
		if (index == table->datagrams)
			return false;
		ip_reassembly_end(table, index, IP_REASSEMBLY_EVICTED, discarded);
	}
}

/* Returns the datagram of fragment, begun if need be. */
static struct ip_reassembly_datagram *
ip_reassembly_find(struct ip_reassembly *table, const struct ip_reassembly_fragment *fragment,
		   struct ip_reassembly_discarded *discarded)
{
	struct ip_reassembly_datagram *d;

	for (uint32_t i = table->datagrams; i > 0; i--) {
		d = table->by_age[i - 1];
		if (d->id == fragment->id && d->source == fragment->source && d->destination == fragment->destination &&
		    d->protocol == fragment->protocol)
			return d;
	}
	ip_reassembly_make_room(table, fragment->source, NULL, 0, discarded);
	d = table->by_age[table->datagrams++];
	*d = (struct ip_reassembly_datagram){ .source = fragment->source,
					      .destination = fragment->destination,
					      .id = fragment->id,
					      .protocol = fragment->protocol,
					      .born = table->tick };
	return d;
}

/* Tells whether two messages of one length hold the same bytes. */
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
 * Finds the place for [start, end) of m among d's pieces and stores the link to put it in. Returns
 * IP_REASSEMBLY_REASONS, or what is wrong with the fragment there.
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
	if (reason == IP_REASSEMBLY_REASONS && table->pinned + pinned > table->least_bytes &&
	    !ip_reassembly_make_room(table, d->source, d, pinned, discarded))
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
	uint32_t index;

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
	while (d->first != NULL)
		xk_msg_join(m, ip_reassembly_take(table, d));
	for (index = table->datagrams - 1; table->by_age[index] != d;)
		index--;
	ip_reassembly_end(table, index, IP_REASSEMBLY_REASONS, discarded);
	return m;
}

bool
ip_reassembly_tick(struct ip_reassembly *table, struct ip_reassembly_discarded *discarded)
{
	table->tick++;
	while (table->datagrams > 0 && table->tick - table->by_age[0]->born > IP_REASSEMBLY_TICKS)
		ip_reassembly_end(table, 0, IP_REASSEMBLY_TIMED_OUT, discarded);
	return table->datagrams != 0;
}
