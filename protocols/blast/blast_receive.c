/*
 * blast_receive.c - BLAST's receiving half: joins fragments to messages, and asks for missing ones. blast.c has the
 * protocol.
 *
 * Fragments are missing when nothing new has come for longer than the peer's usual spacing; after a NACK, for longer
 * than the usual time from a NACK to what it brings, doubled by each NACK that brings nothing. After `nacks` such
 * silences in a row the message is given up.
 *
 * A stranger, whose address may be forged (blast_private.h), draws about as many bytes of NACKs as it has sent of the
 * message; a confirmed host, which may fall silent, up to three times as many.
 */
#include <stdlib.h>

#include "protocols/blast/blast_private.h"

enum {
	BLAST_NACK_BYTES = 64,     /* bytes of a fragment that allow one more NACK */
	BLAST_NACKS_CONFIRMED = 3, /* NACKs that any fragment of a confirmed host allows; a stranger's allows one */
};

/* ---- the lists of partials; the lock is held ---- */

/* Takes partial out. */
static void
blast_receive_unlist(struct blast *blast, struct blast_partial *partial)
{
	blast_due_remove(&blast->partials, &partial->due);
	TAILQ_REMOVE(&blast->ages, partial, age);
	TAILQ_REMOVE(&partial->session->partials, partial, peer);
	blast->partial_count--;
	blast->fragment_count -= partial->received;
	xk_unkeep(&blast->protocol, partial->received);
	partial->session->partial_count--;
	partial->session->fragment_count -= partial->received;
}

/* Moves the oldest message of s (NULL: of all) but `keep` to the list *out. There is one. */
static void
blast_receive_evict(struct blast *blast, struct blast_session *s, const struct blast_partial *keep,
		    struct blast_partial **out)
{
	struct blast_partial *oldest = s != NULL ? TAILQ_FIRST(&s->partials) : TAILQ_FIRST(&blast->ages);

	if (oldest == keep)
		oldest = s != NULL ? TAILQ_NEXT(oldest, peer) : TAILQ_NEXT(oldest, age);
	xk_assert(oldest != NULL);
	blast_receive_unlist(blast, oldest);
	oldest->next = *out;
	*out = oldest;
}

/* Sets the time when fragments count as missing: now_ns is that of the last fragment or NACK. */
static void
blast_receive_wait(struct blast *blast, struct blast_partial *partial, uint64_t now_ns)
{
	const struct blast_session *s = partial->session;
	uint64_t patience_ns;

	if (partial->silences == 0) {
		patience_ns = blast_estimate_bound(blast, &s->spacing_ns, blast->nack_ns);
	} else {
		patience_ns = blast_estimate_bound(blast, &s->round_trip_ns, 2 * blast->nack_ns)
			      << (partial->silences - 1);
		patience_ns = patience_ns < blast->nack_max_ns ? patience_ns : blast->nack_max_ns;
	}
	partial->until_ns = now_ns + patience_ns;
	if (partial->due.at_ns > partial->until_ns)
		blast_due_set(blast, &blast->partials, &partial->due, partial->until_ns);
}

/*
 * Begins the message of s that h is a fragment of, and moves messages beyond the limits to *out. NULL: no memory, or s
 * is being closed.
 */
static struct blast_partial *
blast_receive_begin(struct blast_session *s, const struct blast_header *h, uint64_t now_ns, struct blast_partial **out)
{
	struct blast *blast = blast_of(s);
	struct blast_partial *partial = blast_spare_take(&blast->spare_partials, sizeof(*partial));

	if (partial == NULL)
		return NULL;
	if (!xk_duplicate(&s->session)) {
		blast_spare_give(&blast->spare_partials, partial);
		return NULL;
	}
	for (unsigned i = 0; i < h->fragments; i++)
		partial->fragments[i] = NULL;
	if (s->partial_count >= blast->peer_message_max)
		blast_receive_evict(blast, s, NULL, out);
	if (blast->partial_count >= blast->message_max)
		blast_receive_evict(blast, NULL, NULL, out);
	partial->session = s;
	partial->sequence = h->sequence;
	partial->count = h->fragments;
	partial->born_ns = partial->last_ns = now_ns;
	partial->nacked_ns = partial->mask = 0;
	partial->length = partial->last_length = 0;
	partial->received = partial->silences = partial->credit = 0;
	partial->due.at_ns = BLAST_NEVER;
	TAILQ_INSERT_TAIL(&blast->ages, partial, age);
	TAILQ_INSERT_TAIL(&s->partials, partial, peer);
	blast->partial_count++;
	s->partial_count++;
	return partial;
}

/* ---- one fragment; the lock is held ---- */

static bool
blast_receive_is_last(const struct blast_header *h)
{
	return h->mask >> (h->fragments - 1) != 0;
}

/* Returns whether h fits the fragments that have arrived: all are of one length, the last may be shorter. */
static bool
blast_receive_fits(const struct blast_partial *partial, const struct blast_header *h)
{
	if (h->fragments != partial->count)
		return false;
	if (!blast_receive_is_last(h))
		return partial->length != 0 ? h->length == partial->length : h->length >= partial->last_length;
	return partial->last_length != 0 ? h->length == partial->last_length
					 : partial->length == 0 || h->length <= partial->length;
}

/* Finds or begins the message that h is a new fragment of. Returns 0, or the reason to drop the fragment. */
static unsigned
blast_receive_place(struct blast_session *s, const struct blast_header *h, uint64_t now_ns,
		    struct blast_partial **place, struct blast_partial **out)
{
	struct blast_partial *partial = TAILQ_LAST(&s->partials, blast_partials);
	uint32_t is_finished = 0;

	while (partial != NULL && partial->sequence != h->sequence)
		partial = TAILQ_PREV(partial, blast_partials, peer);
	*place = partial;
	if (partial != NULL) {
		if (!blast_receive_fits(partial, h))
			return BLAST_INCONSISTENT;
		return (partial->mask & h->mask) != 0 ? BLAST_DUPLICATE : 0;
	}
	for (unsigned i = 0; i < BLAST_FINISHED; i++) /* no early exit, so that the loop is vectorized */
		is_finished |= s->finished[i] == h->sequence;
	if (is_finished)
		return BLAST_DUPLICATE;
	if (h->op != BLAST_SEND)
		return BLAST_UNKNOWN;
	*place = blast_receive_begin(s, h, now_ns, out);
	return *place == NULL ? XK_DROP_NO_MEMORY : 0;
}

/*
 * Counts a fragment of partial among the buffers that are kept, dropping the session's oldest other message if there is
 * no room. Returns 0, or the reason to drop the fragment; partial then ends if it has no fragment.
 */
static unsigned
blast_receive_keep(struct blast_partial *partial, struct blast_partial **out)
{
	struct blast_session *s = partial->session;
	struct blast *blast = blast_of(s);

	if (xk_likely(xk_keep_more(&blast->protocol, 1)))
		return 0;
	if (s->fragment_count > partial->received) {
		blast_receive_evict(blast, s, partial, out);
		if (xk_keep_more(&blast->protocol, 1))
			return 0;
	}
	if (partial->received == 0) {
		blast_receive_unlist(blast, partial);
		partial->next = *out;
		*out = partial;
	}
	return XK_DROP_NO_BUFFER;
}

/* Returns the time from then_ns to an arrival: 0 if then_ns was read later, by an event or another driver. */
static uint64_t
blast_since(uint64_t arrival_ns, uint64_t then_ns)
{
	return arrival_ns > then_ns ? arrival_ns - then_ns : 0;
}

/* Stores fragment m, which is new and fits, and measures the path by it. */
static void
blast_receive_store(struct blast_partial *partial, struct xk_msg *m, const struct blast_header *h, uint64_t now_ns)
{
	struct blast_session *s = partial->session;
	struct blast *blast = blast_of(s);

	if (h->op == BLAST_SEND && partial->silences == 0 && partial->received > 0)
		blast_estimate_add(blast, &s->spacing_ns, blast_since(now_ns, partial->last_ns));
	if (h->op == BLAST_RETRANSMIT && partial->silences == 1 && partial->nacked_ns != 0)
		blast_estimate_add(blast, &s->round_trip_ns, blast_since(now_ns, partial->nacked_ns));
	partial->fragments[__builtin_ctzll(h->mask)] = m;
	partial->mask |= h->mask;
	*(blast_receive_is_last(h) ? &partial->last_length : &partial->length) = h->length;
	partial->received++;
	s->fragment_count++;
	blast->fragment_count++;
	partial->credit += (blast_session_is_confirmed(s) ? BLAST_NACKS_CONFIRMED : 1) + h->length / BLAST_NACK_BYTES;
	partial->silences = 0;
	partial->last_ns = now_ns;
	if (partial->received < partial->count)
		blast_receive_wait(blast, partial, now_ns);
}

/* ---- without the lock ---- */

/* Frees a message that was taken out, and drops its fragments for that reason (0: the kernel ends). */
static void
blast_receive_drop(struct blast_partial *partial, unsigned why)
{
	struct blast *blast = blast_of(partial->session);

	for (unsigned i = 0; i < partial->count; i++)
		if (why == 0)
			xk_msg_free(partial->fragments[i]);
		else if (partial->fragments[i] != NULL)
			xk_drop(&blast->protocol, partial->fragments[i], why);
	xk_session_release(&partial->session->session);
	blast_spare_give(&blast->spare_partials, partial);
}

void
blast_receive_fragment(struct blast_session *s, struct xk_session *lls, struct xk_msg *m, const struct blast_header *h)
{
	struct blast *blast = blast_of(s);
	struct blast_partial *whole = NULL, *out = NULL, *partial;
	uint64_t now_ns = xk_arrival_ns(&blast->protocol);
	unsigned why;

	xk_lock(&blast->lock);
	why = blast_receive_place(s, h, now_ns, &partial, &out);
	if (why == 0) {
		while (s->fragment_count >= blast->peer_fragment_max)
			blast_receive_evict(blast, s, partial, &out);
		while (blast->fragment_count >= blast->fragment_max)
			blast_receive_evict(blast, NULL, partial, &out);
		why = blast_receive_keep(partial, &out);
	}
	if (why == 0) {
		blast_receive_store(partial, m, h, now_ns);
		if (partial->received == partial->count) {
			s->finished[s->finished_next++ % BLAST_FINISHED] = partial->sequence;
			blast_receive_unlist(blast, partial);
			whole = partial;
		}
	}
	xk_unlock(&blast->lock);
	while ((partial = out) != NULL) {
		out = partial->next;
		blast_receive_drop(partial, BLAST_EVICTED);
	}
	if (why != 0)
		xk_drop(&blast->protocol, m, why);
	if (whole == NULL)
		return;
	xk_count(&blast->protocol, BLAST_LONG_IN);
	m = whole->fragments[0];
	for (unsigned i = 1; i < whole->count; i++)
		xk_msg_join(m, whole->fragments[i]);
	xk_session_release(&s->session);
	blast_spare_give(&blast->spare_partials, whole);
	xk_pop(&s->session, lls, m, NULL);
}

/* ---- silence ---- */

bool
blast_receive_expire(struct blast *blast, uint64_t now_ns)
{
	struct blast_partial *partial;
	struct blast_session *s;
	struct blast_header h;
	struct blast_due *due;
	struct xk_msg *m;
	bool asks, is_in_vain;

	xk_lock(&blast->lock);
	due = TAILQ_FIRST(&blast->partials);
	if (due == NULL || due->at_ns > now_ns) {
		xk_unlock(&blast->lock);
		return false;
	}
	partial = xk_container_of(due, struct blast_partial, due);
	if (partial->until_ns > now_ns) {
		blast_due_set(blast, &blast->partials, due, partial->until_ns);
		xk_unlock(&blast->lock);
		return true;
	}
	blast_due_remove(&blast->partials, due);
	s = partial->session;
	if (partial->silences == blast->nacks || now_ns - partial->born_ns >= blast->give_up_ns) {
		blast_receive_unlist(blast, partial);
		xk_unlock(&blast->lock);
		blast_receive_drop(partial, BLAST_GAVE_UP);
		return true;
	}
	partial->silences++;
	partial->nacked_ns = 0;
	blast_receive_wait(blast, partial, now_ns);
	/* the peer's bytes pay for each NACK */
	asks = partial->credit > 0 && xk_duplicate(&s->session);
	if (asks) {
		partial->credit--;
		partial->nacked_ns = now_ns;
		h = (struct blast_header){ .protocol = s->number,
					   .sequence = partial->sequence,
					   .fragments = (uint16_t)partial->count,
					   .op = BLAST_NACK,
					   .width = BLAST_FRAGMENTS,
					   .mask = partial->mask };
	}
	is_in_vain = partial->silences > 1;
	xk_unlock(&blast->lock);
	if (!asks)
		return true;
	if (is_in_vain)
		xk_unanswered(s->session.lls);
	m = xk_msg_new(xk_platform_of(&blast->protocol), 0);
	if (m != NULL && (m = blast_header_push(&h, m)) != NULL) {
		xk_count(&blast->protocol, BLAST_NACKS_OUT);
		xk_push(s->session.lls, m);
	}
	xk_session_release(&s->session);
	return true;
}

void
blast_receive_fini(struct blast *blast)
{
	struct blast_partial *partial;

	while ((partial = TAILQ_FIRST(&blast->ages)) != NULL) {
		blast_receive_unlist(blast, partial);
		blast_receive_drop(partial, 0);
	}
}
