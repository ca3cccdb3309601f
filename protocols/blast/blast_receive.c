/*
 * blast_receive.c - BLAST's receiving half: fragments become messages, and what is missing is asked for. blast.c has the
 * protocol.
 *
 * When is something missing? When nothing new has come for longer than fragments of this peer are apart (`spacing`), and
 * after a NACK, for longer than what NACKs bring takes (`round_trip`), twice as long after each that has brought nothing.
 * After `nacks` such silences in a row the message is given up.
 *
 * A stranger, whose address may be forged (blast_private.h), draws about as many bytes of NACKs as it has sent of a
 * message.
 */
#include <stdlib.h>

#include "protocols/blast/blast_private.h"

/* ---- what has been finished lately; the lock is held ---- */

static bool
blast_receive_is_finished(const struct blast_session *s, uint32_t sequence)
{
	for (unsigned i = 0; i < BLAST_FINISHED; i++)
		if (s->finished[i] == sequence)
			return true;
	return false;
}

static void
blast_receive_remember(struct blast_session *s, uint32_t sequence)
{
	s->finished[s->finished_next++ % BLAST_FINISHED] = sequence;
}

/* ---- the tables of partials; the lock is held ---- */

static struct blast_partial *
blast_receive_find(struct blast_session *s, uint32_t sequence)
{
	for (struct blast_link *link = s->partials.previous; link != &s->partials; link = link->previous) {
		struct blast_partial *partial = xk_container_of(link, struct blast_partial, peer);

		if (partial->sequence == sequence)
			return partial;
	}
	return NULL;
}

/* Takes partial out, and puts it on the list of those that are. */
static void
blast_receive_unlist(struct blast *blast, struct blast_partial *partial, struct blast_partial **out)
{
	blast_list_remove(&partial->due.link);
	blast_list_remove(&partial->age);
	blast_list_remove(&partial->peer);
	blast->partial_count--;
	blast->fragment_count -= partial->received;
	partial->session->partial_count--;
	partial->session->fragment_count -= partial->received;
	partial->next = *out;
	*out = partial;
}

/* Takes the oldest message out, but not `keep`: of s, or (NULL) of all. There is one. */
static void
blast_receive_evict(struct blast *blast, struct blast_session *s, const struct blast_partial *keep,
		    struct blast_partial **out)
{
	struct blast_link *head = s != NULL ? &s->partials : &blast->ages, *link = head->next;
	struct blast_partial *oldest;

	do {
		xk_assert(link != head);
		oldest = s != NULL ? xk_container_of(link, struct blast_partial, peer)
				   : xk_container_of(link, struct blast_partial, age);
		link = link->next;
	} while (oldest == keep);
	blast_receive_unlist(blast, oldest, out);
}

/* How long nothing new has come for after the last fragment, or NACK, before something is missing. */
static uint64_t
blast_receive_patience(const struct blast *blast, const struct blast_partial *partial)
{
	const struct blast_session *s = partial->session;
	uint64_t patience_ns;

	if (partial->silences == 0)
		return blast_estimate_bound(blast, &s->spacing, blast->nack_ns);
	patience_ns = blast_estimate_bound(blast, &s->round_trip, 2 * blast->nack_ns) << (partial->silences - 1);
	return patience_ns < blast->nack_max_ns ? patience_ns : blast->nack_max_ns;
}

static void
blast_receive_wait(struct blast *blast, struct blast_partial *partial, uint64_t now_ns)
{
	blast_due_add(blast, &blast->partials, &partial->due, now_ns + blast_receive_patience(blast, partial));
}

/* A message of s that begins with h; those that are too many go out. NULL: no memory, or s is being closed. */
static struct blast_partial *
blast_receive_begin(struct blast_session *s, const struct blast_header *h, uint64_t now_ns, struct blast_partial **out)
{
	struct blast *blast = blast_of(s);
	struct blast_partial *partial = calloc(1, sizeof(*partial) + h->fragments * sizeof(partial->fragments[0]));

	if (partial == NULL || !xk_duplicate(&s->session)) {
		free(partial);
		return NULL;
	}
	if (s->partial_count >= blast->peer_message_max)
		blast_receive_evict(blast, s, NULL, out);
	if (blast->partial_count >= blast->message_max)
		blast_receive_evict(blast, NULL, NULL, out);
	partial->session = s;
	partial->sequence = h->sequence;
	partial->count = h->fragments;
	partial->born_ns = partial->last_ns = now_ns;
	blast_list_append(&blast->ages, &partial->age);
	blast_list_append(&s->partials, &partial->peer);
	blast_receive_wait(blast, partial, now_ns);
	blast->partial_count++;
	s->partial_count++;
	return partial;
}

/* Makes room for one more fragment of partial. */
static void
blast_receive_make_room(struct blast *blast, const struct blast_partial *partial, struct blast_partial **out)
{
	struct blast_session *s = partial->session;

	while (s->fragment_count >= blast->peer_fragment_max)
		blast_receive_evict(blast, s, partial, out);
	while (blast->fragment_count >= blast->fragment_max)
		blast_receive_evict(blast, NULL, partial, out);
}

/* ---- one fragment; the lock is held ---- */

static bool
blast_receive_is_last(const struct blast_header *h)
{
	return h->mask >> (h->fragments - 1) != 0;
}

/* Whether h can be of the same message as what is there: all fragments are of one length, the last may be shorter. */
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

/* What a new fragment tells of the path. */
static void
blast_receive_measure(struct blast_partial *partial, const struct blast_header *h, uint64_t now_ns)
{
	struct blast_session *s = partial->session;

	if (h->op == BLAST_SEND && partial->silences == 0 && partial->received > 0)
		blast_estimate_add(blast_of(s), &s->spacing, now_ns - partial->last_ns);
	if (h->op == BLAST_RETRANSMIT && partial->silences == 1 && partial->nacked_ns != 0)
		blast_estimate_add(blast_of(s), &s->round_trip, now_ns - partial->nacked_ns);
}

/* Stores fragment m, which is new and fits. */
static void
blast_receive_store(struct blast_partial *partial, struct xk_msg *m, const struct blast_header *h, uint64_t now_ns)
{
	struct blast_session *s = partial->session;

	blast_receive_measure(partial, h, now_ns);
	partial->fragments[__builtin_ctzll(h->mask)] = m;
	partial->mask |= h->mask;
	*(blast_receive_is_last(h) ? &partial->last_length : &partial->length) = h->length;
	partial->received++;
	s->fragment_count++;
	blast_of(s)->fragment_count++;
	partial->credit += 1 + h->length / BLAST_NACK_BYTES;
	partial->silences = 0;
	partial->last_ns = now_ns;
	blast_list_remove(&partial->due.link);
	blast_receive_wait(blast_of(s), partial, now_ns);
}

/* The message that h is a fragment of, which it fits into, and which may be new. 0, or the reason to drop the fragment. */
static unsigned
blast_receive_place(struct blast_session *s, const struct blast_header *h, uint64_t now_ns,
		    struct blast_partial **partial, struct blast_partial **out)
{
	*partial = blast_receive_find(s, h->sequence);
	if (*partial != NULL) {
		if (!blast_receive_fits(*partial, h))
			return BLAST_INCONSISTENT;
		return ((*partial)->mask & h->mask) != 0 ? BLAST_DUPLICATE : 0;
	}
	if (blast_receive_is_finished(s, h->sequence))
		return BLAST_DUPLICATE;
	if (h->op != BLAST_SEND)
		return BLAST_UNKNOWN;
	*partial = blast_receive_begin(s, h, now_ns, out);
	return *partial == NULL ? XK_DROP_NO_MEMORY : 0;
}

/*
 * Adds fragment m to its message. Takes m on 0; otherwise it is the reason to drop it. *whole is the message, if this was
 * all that it lacked.
 */
static unsigned
blast_receive_add(struct blast_session *s, struct xk_msg *m, const struct blast_header *h, uint64_t now_ns,
		  struct blast_partial **whole, struct blast_partial **out)
{
	struct blast *blast = blast_of(s);
	struct blast_partial *partial;
	unsigned why = blast_receive_place(s, h, now_ns, &partial, out);

	if (why != 0)
		return why;
	blast_receive_make_room(blast, partial, out);
	blast_receive_store(partial, m, h, now_ns);
	if (partial->received < partial->count)
		return 0;
	blast_receive_remember(s, partial->sequence);
	blast_receive_unlist(blast, partial, whole);
	return 0;
}

/* ---- without the lock ---- */

/* Ends a message that was taken out. */
static void
blast_receive_end(struct blast_partial *partial)
{
	xk_session_release(&partial->session->session);
	free(partial);
}

static void
blast_receive_drop(struct blast_partial *partial, unsigned why)
{
	for (unsigned i = 0; i < partial->count; i++)
		if (partial->fragments[i] != NULL)
			xk_drop(partial->session->session.protocol, partial->fragments[i], why);
	blast_receive_end(partial);
}

static struct xk_msg *
blast_receive_join(struct blast_partial *partial)
{
	struct xk_msg *m = partial->fragments[0];

	for (unsigned i = 1; i < partial->count; i++)
		xk_msg_join(m, partial->fragments[i]);
	blast_receive_end(partial);
	return m;
}

void
blast_receive(struct blast_session *s, struct xk_msg *m, const uint8_t *p)
{
	struct blast *blast = blast_of(s);
	struct blast_header h = blast_header_load(p);
	struct blast_partial *whole = NULL, *out = NULL, *partial;
	uint64_t now_ns = xk_now_ns(&blast->protocol);
	unsigned why;

	xk_lock(&blast->lock);
	why = blast_receive_add(s, m, &h, now_ns, &whole, &out);
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
	xk_demux(&s->session, blast_receive_join(whole));
}

/* ---- silence ---- */

/* What is due first, if it is due at now_ns. NULL: it is not. The lock is held. */
static struct blast_partial *
blast_receive_first(struct blast *blast, uint64_t now_ns)
{
	struct blast_partial *partial;

	if (blast_list_is_empty(&blast->partials))
		return NULL;
	partial = xk_container_of(blast->partials.next, struct blast_partial, due.link);
	return partial->due.at_ns > now_ns ? NULL : partial;
}

/*
 * Nothing new has come of partial for too long. *h becomes the NACK to be sent on the session that is returned, with a
 * reference; NULL: none is sent, because a stranger has not paid for it, or partial is given up. The lock is held.
 */
static struct blast_session *
blast_receive_miss(struct blast *blast, struct blast_partial *partial, uint64_t now_ns, struct blast_header *h,
		   struct blast_partial **out)
{
	struct blast_session *s = partial->session;

	if (partial->silences == blast->nacks || now_ns - partial->born_ns >= blast->give_up_ns) {
		blast_receive_unlist(blast, partial, out);
		return NULL;
	}
	partial->silences++;
	partial->nacked_ns = 0;
	blast_list_remove(&partial->due.link);
	blast_receive_wait(blast, partial, now_ns);
	if ((partial->credit == 0 && !blast_session_is_confirmed(s)) || !xk_duplicate(&s->session))
		return NULL;
	partial->credit -= partial->credit > 0;
	partial->nacked_ns = now_ns;
	*h = (struct blast_header){ .protocol = s->number,
				    .sequence = partial->sequence,
				    .fragments = partial->count,
				    .op = BLAST_NACK,
				    .mask = partial->mask };
	return s;
}

/* Takes the reference on s. */
static void
blast_receive_ask(struct blast_session *s, const struct blast_header *h)
{
	struct xk_protocol *self = s->session.protocol;
	struct xk_msg *m = xk_msg_new(xk_platform_of(self), 0);

	if (m != NULL && blast_header_push(h, &m)) {
		xk_count(self, BLAST_NACKS_OUT);
		xk_push(s->session.lls, m);
	} else {
		xk_msg_free(m);
	}
	xk_session_release(&s->session);
}

bool
blast_receive_expire(struct blast *blast, uint64_t now_ns)
{
	struct blast_partial *partial, *out = NULL;
	struct blast_session *asking = NULL;
	struct blast_header h;

	xk_lock(&blast->lock);
	partial = blast_receive_first(blast, now_ns);
	if (partial != NULL)
		asking = blast_receive_miss(blast, partial, now_ns, &h, &out);
	xk_unlock(&blast->lock);
	if (out != NULL)
		blast_receive_drop(out, BLAST_GAVE_UP);
	if (asking != NULL)
		blast_receive_ask(asking, &h);
	return partial != NULL;
}

/* ---- init and fini ---- */

void
blast_receive_init(struct blast *blast)
{
	blast_list_init(&blast->partials);
	blast_list_init(&blast->ages);
}

void
blast_receive_fini(struct blast *blast)
{
	struct blast_partial *partial, *out = NULL;

	while ((partial = blast_receive_first(blast, UINT64_MAX)) != NULL) {
		blast_receive_unlist(blast, partial, &out);
		for (unsigned i = 0; i < partial->count; i++)
			xk_msg_free(partial->fragments[i]);
		out = NULL;
		blast_receive_end(partial);
	}
}
