/*
 * blast_send.c - BLAST's sending half: cuts a long message into fragments, keeps them for a while in case the peer asks
 * for some again, answers NACKs, and limits what NACKs and repeated pushes make it send. blast.c has the protocol.
 *
 * The lists hold one reference on a copy, and each shepherd that sends it holds one. The last one frees its slot and
 * its memory. A NACK finds its copy by the sequence number alone, because it may come up another session than the
 * message went down (VNET has one for each direction). Its sender is therefore compared with the message's peer.
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/blast/blast_private.h"

enum {
	BLAST_KEEP_PARTS = 16,     /* a copy is kept for at least 1/16 of `keep`, however fast answers come */
	BLAST_AGAIN = 3,           /* limit of what is sent again, times the message */
	BLAST_FRAGMENT_AGAIN = 16, /* ... and of repeats of each fragment */
};

/* A session's retransmissions are limited over the current and the last half minute. */
#define BLAST_HALF_NS UINT64_C(30000000000)

/* ---- copies ---- */

/* Frees a slot of holder (NULL: none). */
static void
blast_send_free_slot(struct blast *blast, struct blast_peer *holder)
{
	if (holder == NULL)
		return;
	xk_semaphore_signal(&holder->slots);
	xk_semaphore_signal(&blast->slots);
}

/* Gives one reference back. */
static void
blast_copy_release(struct blast_copy *copy)
{
	struct blast *blast = blast_of(copy->session);

	if (atomic_fetch_sub_explicit(&copy->references, 1, memory_order_acq_rel) != 1)
		return;
	if (copy->holder != NULL)
		xk_unkeep(&blast->protocol, copy->kept.buffers);
	xk_kept_free(&copy->kept);
	blast_send_free_slot(blast, copy->holder);
	xk_session_release(&copy->session->session);
	blast_spare_give(&blast->spare_copies, copy);
}

/* Returns the length of fragment i. */
static size_t
blast_copy_len(const struct blast_copy *copy, unsigned i)
{
	size_t size = blast_fragment(copy->session), rest = copy->kept.total - i * size;

	return rest < size ? rest : size;
}

/* ---- the lists of copies; the lock is held ---- */

/* Returns the copy with this number. NULL: there is none. */
static struct blast_copy *
blast_send_find(struct blast *blast, uint64_t sequence)
{
	struct blast_copy *copy = LIST_FIRST(&blast->buckets[sequence & blast->bucket_mask]);

	while (copy != NULL && copy->sequence != sequence)
		copy = LIST_NEXT(copy, bucket);
	return copy;
}

/*
 * Returns the time until which a listed copy is kept: for longer than the peer's next NACK takes, and for the whole of
 * `keep` after the last frame once a NACK has come, because the intervals between NACKs grow.
 */
static uint64_t
blast_send_until(const struct blast *blast, const struct blast_copy *copy, uint64_t now_ns)
{
	const struct xk_estimate *answer = &copy->session->answer_ns;
	bool all_sent = atomic_load_explicit(&copy->sent, memory_order_acquire) == copy->count;
	uint64_t from_ns = all_sent ? atomic_load_explicit(&copy->last_ns, memory_order_relaxed) : now_ns;
	uint64_t keep_ns = 8 * xk_estimate_bound(answer);
	uint64_t last_ns = copy->born_ns + blast->give_up_ns;

	if (copy->early_ns != 0 || answer->mean == 0 || keep_ns > blast->keep_ns)
		keep_ns = blast->keep_ns;
	else if (keep_ns < blast->keep_ns / BLAST_KEEP_PARTS)
		keep_ns = blast->keep_ns / BLAST_KEEP_PARTS;
	return last_ns < from_ns || last_ns - from_ns < keep_ns ? last_ns : from_ns + keep_ns;
}

/*
 * Returns a number for the next message of s that no other copy has. The first one is random, so that a peer cannot
 * derive the numbers of others' messages from those of its own. 0 is the number of short messages.
 */
static uint32_t
blast_send_number(struct blast *blast, struct blast_session *s)
{
	uint32_t number;

	while (s->sequence == 0)
		s->sequence = (uint32_t)xk_random(&blast->protocol);
	do {
		number = s->sequence;
		s->sequence = number == UINT32_MAX ? 1 : number + 1;
	} while (blast_send_find(blast, number) != NULL);
	return number;
}

/* Lists copy, which has a number and a holder, with a reference. */
static void
blast_send_list(struct blast *blast, struct blast_copy *copy, uint64_t now_ns)
{
	LIST_INSERT_HEAD(&blast->buckets[copy->sequence & blast->bucket_mask], copy, bucket);
	if (copy->holder->copy_count++ == 0)
		TAILQ_INSERT_TAIL(&blast->holders, copy->holder, holder);
	TAILQ_INSERT_TAIL(&copy->holder->copies, copy, age);
	copy->listed = true;
	atomic_fetch_add_explicit(&copy->references, 1, memory_order_relaxed);
	blast_due_set(blast, &blast->copies, &copy->due, blast_send_until(blast, copy, now_ns));
}

/*
 * Takes copy (NULL: none) off the lists, unlocks, and gives the lists' reference back. The lock is held before, not
 * after. Returns false if the copy was on no list.
 */
static bool
blast_send_end(struct blast *blast, struct blast_copy *copy)
{
	bool listed = copy != NULL && copy->listed;

	if (listed) {
		LIST_REMOVE(copy, bucket);
		blast_due_remove(&blast->copies, &copy->due);
		TAILQ_REMOVE(&copy->holder->copies, copy, age);
		if (--copy->holder->copy_count == 0)
			TAILQ_REMOVE(&blast->holders, copy->holder, holder);
		copy->listed = false;
	}
	xk_unlock(&blast->lock);
	if (listed)
		blast_copy_release(copy);
	return listed;
}

/* ---- what a session may send again; the lock is held ---- */

/* Begins the next half minute at now_ns, if the current one is over. */
static void
blast_again_turn(struct blast_session *s, uint64_t now_ns)
{
	uint64_t age_ns = now_ns - s->half_ns;

	if (age_ns < BLAST_HALF_NS)
		return;
	s->credits[1] = age_ns < 2 * BLAST_HALF_NS ? s->credits[0] : (struct blast_credit){ .bytes = 0 };
	s->credits[0] = (struct blast_credit){ .bytes = 0 };
	s->half_ns = now_ns;
}

/* Adds credit for what is sent for the first time, or takes it (negative) for what is sent again. */
static void
blast_again_add(struct blast_session *s, int64_t bytes, int64_t frames)
{
	s->credits[0].bytes += bytes;
	s->credits[0].frames += frames;
}

/* Returns whether that much more may be sent again. */
static bool
blast_again_allows(const struct blast_session *s, size_t bytes, unsigned frames)
{
	return s->credits[0].bytes + s->credits[1].bytes >= (int64_t)bytes &&
	       s->credits[0].frames + s->credits[1].frames >= (int64_t)frames;
}

/*
 * Charges a message that was pushed before as a retransmission. Takes the lock itself. Returns
 *	0
 *	-EAGAIN		nothing new was sent recently (the peer may have moved here): count the message as new
 *	-ENOBUFS	too much was sent again
 */
static int
blast_again_count(struct blast_session *s, size_t len, unsigned frames)
{
	struct blast *blast = blast_of(s);
	int err = 0;

	xk_lock(&blast->lock);
	blast_again_turn(s, xk_now_ns(&blast->protocol));
	if (!s->credits[0].has_sent && !s->credits[1].has_sent)
		err = -EAGAIN;
	else if (!blast_again_allows(s, len, frames))
		err = -ENOBUFS;
	else
		blast_again_add(s, -(int64_t)len, -(int64_t)frames);
	xk_unlock(&blast->lock);
	return err;
}

/* ---- frames ---- */

/* Sends fragment i, which `frame` is (NULL: there was no buffer). Takes frame. Returns 0 or -errno. */
static int
blast_send_fragment(struct blast_copy *copy, unsigned i, struct xk_msg *frame, enum blast_op op)
{
	struct blast_session *s = copy->session;
	struct blast_header h = { .protocol = s->number,
				  .sequence = copy->sequence,
				  .length = (uint32_t)blast_copy_len(copy, i),
				  .fragments = (uint16_t)copy->count,
				  .op = (uint8_t)op,
				  .width = BLAST_FRAGMENTS,
				  .mask = UINT64_C(1) << i };

	if (frame != NULL)
		frame = blast_header_push(&h, frame);
	if (frame == NULL)
		return -ENOBUFS;
	frame->flags &= XK_MSG_TRACED;
	return xk_push(s->session.lls, frame);
}

/* Sends fragment i of what is kept, as blast_send_fragment. */
static int
blast_send_kept(struct blast_copy *copy, unsigned i, enum blast_op op)
{
	size_t at = i * (size_t)blast_fragment(copy->session);

	return blast_send_fragment(copy, i, xk_kept_part(&copy->kept, at, blast_copy_len(copy, i)), op);
}

/*
 * Sends all fragments of copy for the first time. They are cut from m, not from what is kept: a fragment that begins
 * with a segment of m then has room for its headers. The peer will ask for those that cannot be sent after the first.
 * Takes m. Returns 0, or -errno if nothing was sent: then copy is on no list.
 */
static int
blast_send_all(struct blast *blast, struct blast_copy *copy, struct xk_msg *m)
{
	int err = 0;

	for (unsigned i = 0; i < copy->count && err == 0; i++) {
		struct xk_msg *frame = m;

		if (i + 1 < copy->count)
			frame = xk_msg_split(&m, blast_fragment(copy->session));
		else
			m = NULL;
		atomic_store_explicit(&copy->sent, i, memory_order_relaxed);
		err = blast_send_fragment(copy, i, frame, BLAST_SEND);
		if (err != 0 && i == 0) {
			if (frame == NULL)
				xk_drop(&blast->protocol, m, XK_DROP_NO_BUFFER);
			else
				xk_msg_free(m);
			xk_lock(&blast->lock);
			blast_send_end(blast, copy);
			return err;
		}
	}
	if (err != 0) {
		xk_msg_free(m);
		xk_count(&blast->protocol, BLAST_UNSENT);
	}
	atomic_store_explicit(&copy->last_ns, xk_now_ns(&blast->protocol), memory_order_relaxed);
	atomic_store_explicit(&copy->sent, copy->count, memory_order_release);
	return 0;
}

/* ---- slots ---- */

/* Waits for a slot of the peer's share, and for one of all. Returns 0 or -errno. */
static int
blast_send_wait(struct blast *blast, struct blast_peer *peer, uint64_t timeout_us)
{
	int err = xk_semaphore_wait(&peer->slots, timeout_us);

	if (err != 0)
		return err;
	err = xk_semaphore_wait(&blast->slots, timeout_us);
	if (err != 0)
		xk_semaphore_signal(&peer->slots);
	return err;
}

/* Ends the oldest copy of the peer with the most copies, or of `peer` if that has its share. False: none. */
static bool
blast_send_displace(struct blast *blast, struct blast_peer *peer)
{
	struct blast_peer *loser = peer, *other;

	xk_lock(&blast->lock);
	other = peer->copy_count < blast->outstanding_peer ? TAILQ_FIRST(&blast->holders) : NULL;
	for (; other != NULL; other = TAILQ_NEXT(other, holder))
		if (other->copy_count > loser->copy_count)
			loser = other;
	if (!blast_send_end(blast, TAILQ_FIRST(&loser->copies)))
		return false;
	xk_count(&blast->protocol, BLAST_DISPLACED);
	return true;
}

/*
 * Takes a slot of the peer of s (*holder). A push that may not wait displaces another copy, or does without a slot
 * (*holder NULL) if a waiting push got the freed one. Returns 0 or -errno.
 */
static int
blast_send_take_slot(struct blast_session *s, const struct xk_ticket *ticket, struct blast_peer **holder)
{
	struct blast *blast = blast_of(s);
	struct blast_peer *peer = atomic_load_explicit(&s->peer, memory_order_acquire);
	bool no_wait = ticket != NULL && ticket->no_wait;
	int err = blast_send_wait(blast, peer, no_wait ? 0 : XK_UNTIL_SIGNALLED);

	if (err != 0 && no_wait && blast_send_displace(blast, peer))
		err = blast_send_wait(blast, peer, 0);
	*holder = err == 0 ? peer : NULL;
	return no_wait ? 0 : err;
}

/* Returns whether the host has room to keep `buffers` more, if need be after dropping the oldest copy of the most. */
static bool
blast_send_has_room(struct blast *blast, struct blast_peer *peer, unsigned buffers)
{
	if (xk_likely(xk_keep_room(&blast->protocol) >= buffers))
		return true;
	return blast_send_displace(blast, peer) && xk_keep_room(&blast->protocol) >= buffers;
}

/* ---- messages ---- */

/*
 * Keeps m, in count fragments, in a slot of holder (NULL: in none, and only while it is sent). is_new: it was not
 * pushed before. Returns the copy with one reference. NULL: it cannot be sent, and was dropped.
 */
static struct blast_copy *
blast_send_begin(struct blast_session *s, struct xk_msg *m, unsigned count, struct blast_peer *holder, bool is_new)
{
	struct blast *blast = blast_of(s);
	bool stands = xk_duplicate(&s->session);
	unsigned why = stands ? XK_DROP_NO_MEMORY : XK_DROP_NO_SESSION;
	uint64_t now_ns = xk_now_ns(&blast->protocol);
	struct blast_copy *copy = NULL;

	xk_lock(&blast->lock);
	if (stands)
		copy = blast_spare_take(&blast->spare_copies, sizeof(*copy));
	if (copy != NULL && !xk_msg_keep(&copy->kept, m)) {
		blast_spare_give(&blast->spare_copies, copy);
		copy = NULL;
		why = XK_DROP_NO_BUFFER;
	}
	if (copy != NULL) {
		copy->due.at_ns = BLAST_NEVER;
		copy->session = s;
		copy->holder = holder;
		copy->born_ns = now_ns;
		copy->early_ns = 0;
		atomic_init(&copy->last_ns, now_ns);
		copy->arrived = 0;
		copy->left.bytes = (int64_t)(BLAST_AGAIN * xk_msg_len(m));
		copy->left.frames = BLAST_AGAIN * (int64_t)count;
		copy->sequence = blast_send_number(blast, s);
		copy->count = count;
		copy->listed = false;
		atomic_init(&copy->references, 1);
		atomic_init(&copy->sent, 0);
		memset(copy->again, 0, sizeof(copy->again));
		if (is_new) {
			blast_again_turn(s, now_ns);
			blast_again_add(s, copy->left.bytes, copy->left.frames);
			s->credits[0].has_sent = true;
		}
		if (holder != NULL) {
			xk_keep(&blast->protocol, copy->kept.buffers);
			blast_send_list(blast, copy, now_ns);
		}
	}
	xk_unlock(&blast->lock);
	if (copy != NULL)
		return copy;
	blast_send_free_slot(blast, holder);
	xk_drop(&blast->protocol, m, why);
	if (stands)
		xk_session_release(&s->session);
	return NULL;
}

int
blast_divide(struct xk_session *session, struct xk_msg *m)
{
	struct blast_session *s = (struct blast_session *)session;
	struct blast *blast = blast_of(s);
	struct xk_ticket *ticket = xk_ticket_take(m);
	size_t len = xk_msg_len(m);
	unsigned count = (unsigned)((len + blast_fragment(s) - 1) / blast_fragment(s));
	struct blast_peer *holder;
	struct blast_copy *copy;
	bool is_new = true;
	int err;

	if (ticket != NULL && ticket->again) {
		err = blast_again_count(s, len, count);
		if (err == -ENOBUFS) {
			xk_drop(&blast->protocol, m, BLAST_REPEAT_SPENT);
			return err;
		}
		is_new = err != 0;
	}
	err = blast_send_take_slot(s, ticket, &holder);
	if (err != 0) {
		xk_drop(&blast->protocol, m, BLAST_NO_SLOT);
		return err == -EAGAIN ? -ENOBUFS : err;
	}
	if (holder != NULL && !blast_send_has_room(blast, holder, xk_msg_buffers(m))) {
		blast_send_free_slot(blast, holder);
		holder = NULL;
	}
	copy = blast_send_begin(s, m, count, holder, is_new);
	if (copy == NULL)
		return -ENOBUFS;
	err = blast_send_all(blast, copy, m);
	if (err == 0) {
		xk_count(&blast->protocol, BLAST_LONG_OUT);
		if (holder == NULL)
			xk_count(&blast->protocol, BLAST_UNKEPT);
		else if (ticket != NULL)
			xk_ticket_fill(ticket, &s->session, copy->sequence, blast->keep_ns / 1000);
	}
	blast_copy_release(copy);
	return err;
}

void
blast_send_release(struct blast_session *s, uint64_t number)
{
	struct blast *blast = blast_of(s);
	struct blast_copy *copy;

	xk_lock(&blast->lock);
	copy = blast_send_find(blast, number);
	if (blast_send_end(blast, copy != NULL && copy->session == s ? copy : NULL))
		xk_count(&blast->protocol, BLAST_RELEASED);
}

bool
blast_send_expire(struct blast *blast, uint64_t now_ns)
{
	struct blast_copy *copy = NULL;
	struct blast_due *due;
	uint64_t until_ns;

	xk_lock(&blast->lock);
	due = TAILQ_FIRST(&blast->copies);
	if (due != NULL && due->at_ns <= now_ns) {
		copy = xk_container_of(due, struct blast_copy, due);
		until_ns = blast_send_until(blast, copy, now_ns);
		if (until_ns > now_ns) {
			blast_due_set(blast, &blast->copies, due, until_ns);
			xk_unlock(&blast->lock);
			return true;
		}
	}
	if (!blast_send_end(blast, copy))
		return false;
	xk_count(&blast->protocol, BLAST_EXPIRED);
	return true;
}

/* ---- NACKs ---- */

/* Returns whether two sessions below have the same peer, by its host or, if one knows no host, its link address. */
static bool
blast_again_same_peer(struct xk_session *a, struct xk_session *b)
{
	static const int ops[] = { XK_GET_PEER_HOST, XK_GET_PEER_LINK };
	uint64_t of_a, of_b;

	if (a == b)
		return true;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(ops); i++)
		if (xk_control_op(a, ops[i], &of_a) == 0 && xk_control_op(b, ops[i], &of_b) == 0)
			return of_a == of_b;
	return false;
}

/*
 * Takes one fragment from the pace of the peer of s: 64 in the time that its NACKs usually take, at most `nack`.
 * Returns false if too much was sent again to the peer just now. The lock is held.
 */
static bool
blast_again_is_in_pace(struct blast_session *s, uint64_t now_ns)
{
	const struct blast *blast = blast_of(s);
	struct blast_peer *peer = atomic_load_explicit(&s->peer, memory_order_relaxed);
	uint64_t bound_ns = blast_estimate_bound(blast, &s->answer_ns, blast->nack_ns);
	uint64_t window_ns = bound_ns < blast->nack_ns ? bound_ns : blast->nack_ns;
	uint64_t spacing_ns = window_ns / BLAST_FRAGMENTS;

	if (peer->paid_ns < now_ns)
		peer->paid_ns = now_ns;
	if (peer->paid_ns + spacing_ns > now_ns + window_ns)
		return false;
	peer->paid_ns += spacing_ns;
	return true;
}

/* Counts fragment i as sent again at now_ns. Returns 0, or the reason why it must not be sent. The lock is held. */
static unsigned
blast_again_pay(struct blast_copy *copy, unsigned i, uint64_t now_ns)
{
	struct blast_session *s = copy->session;
	struct blast_credit *left = &copy->left;
	size_t len = blast_copy_len(copy, i);

	if (copy->again[i] == BLAST_FRAGMENT_AGAIN || left->frames == 0 || left->bytes < (int64_t)len ||
	    !blast_again_allows(s, len, 1))
		return BLAST_NACK_SPENT;
	if (!blast_again_is_in_pace(s, now_ns))
		return BLAST_NACK_PACED;
	blast_again_add(s, -(int64_t)len, -1);
	copy->again[i]++;
	left->frames--;
	left->bytes -= (int64_t)len;
	return 0;
}

/*
 * Sets *again to the fragments to be sent again for a NACK whose mask names those that have arrived, and counts them as
 * sent. A NACK that comes soon after another is a duplicate of it, or was sent before the fragments sent again could
 * arrive. Fragments that have not been sent yet, or that an earlier NACK has named, are not missing. Returns 0, or the
 * reason to drop the NACK. The lock is held.
 */
static unsigned
blast_again_obey(struct blast *blast, struct blast_copy *copy, uint64_t mask, uint64_t now_ns, uint64_t *again)
{
	unsigned sent = atomic_load_explicit(&copy->sent, memory_order_acquire), why = BLAST_NACK_EARLY;
	uint64_t missing = sent == 0 ? 0 : UINT64_MAX >> (BLAST_FRAGMENTS - sent);

	if (!copy->listed || now_ns < copy->early_ns)
		return BLAST_NACK_EARLY;
	copy->arrived |= mask;
	missing &= ~copy->arrived;
	if (missing == 0)
		return BLAST_NACK_EARLY;
	if (sent == copy->count)
		blast_estimate_add(blast, &copy->session->answer_ns,
				   now_ns - atomic_load_explicit(&copy->last_ns, memory_order_relaxed));
	blast_again_turn(copy->session, now_ns);
	for (; missing != 0; missing &= missing - 1) {
		unsigned i = (unsigned)__builtin_ctzll(missing), reason = blast_again_pay(copy, i, now_ns);

		if (reason == 0) {
			*again |= UINT64_C(1) << i;
		} else {
			why = reason;
			xk_count(&blast->protocol, BLAST_WITHHELD);
		}
	}
	if (*again == 0)
		return why;
	copy->early_ns = now_ns + blast->nack_min_ns / 2;
	atomic_store_explicit(&copy->last_ns, now_ns, memory_order_relaxed);
	return 0;
}

void
blast_again(struct blast *blast, struct xk_session *lls, struct xk_msg *m, const struct blast_header *h)
{
	uint64_t now_ns, again = 0;
	struct blast_copy *copy;
	unsigned why = BLAST_NACK_STRANGE;

	xk_lock(&blast->lock);
	copy = blast_send_find(blast, h->sequence);
	if (copy != NULL)
		atomic_fetch_add_explicit(&copy->references, 1, memory_order_relaxed);
	xk_unlock(&blast->lock);
	if (copy == NULL) {
		xk_drop(&blast->protocol, m, BLAST_NACK_UNKNOWN);
		return;
	}
	if (h->protocol == copy->session->number && h->fragments == copy->count &&
	    blast_again_same_peer(lls, copy->session->session.lls)) {
		blast_session_join(copy->session, true);
		now_ns = xk_now_ns(&blast->protocol);
		xk_lock(&blast->lock);
		why = blast_again_obey(blast, copy, h->mask, now_ns, &again);
		xk_unlock(&blast->lock);
	}
	if (why != 0) {
		xk_drop(&blast->protocol, m, why);
	} else {
		xk_msg_free(m);
		xk_count(&blast->protocol, BLAST_NACKS_IN);
	}
	for (; again != 0; again &= again - 1) {
		int err = blast_send_kept(copy, (unsigned)__builtin_ctzll(again), BLAST_RETRANSMIT);

		xk_count(&blast->protocol, err == 0 ? BLAST_RETRANSMITTED : BLAST_UNSENT);
	}
	blast_copy_release(copy);
}
