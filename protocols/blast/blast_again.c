/*
 * blast_again.c - what BLAST sends again: it answers NACKs, and bounds what they and pushes of the same message make it
 * send. blast.c has the protocol.
 *
 * A copy is found by its sequence number alone, since the peer's NACK may come up another session than the message went
 * down (VNET has one for each direction). The sender of the NACK is therefore compared with the host that the message
 * went to.
 */
#include <errno.h>

#include "protocols/blast/blast_private.h"

/* What a session sends again is bounded over the current and the last half minute. */
#define BLAST_HALF_NS UINT64_C(30000000000)

/* ---- the last minute; the lock is held ---- */

/* Begins the next half minute at now_ns, if the current one is over. */
static void
blast_again_turn(struct blast_session *s, uint64_t now_ns)
{
	uint64_t age_ns = now_ns - s->half_ns;

	if (age_ns < BLAST_HALF_NS)
		return;
	s->halves[1] = age_ns < 2 * BLAST_HALF_NS ? s->halves[0] : (struct blast_half){ .first = { 0, 0 } };
	s->halves[0] = (struct blast_half){ .first = { 0, 0 } };
	s->half_ns = now_ns;
}

static bool
blast_again_is_new(const struct blast_session *s)
{
	return s->halves[0].first.frames + s->halves[1].first.frames == 0;
}

/* Returns whether so much more may be sent again: the sum is at most three times what was sent for the first time. */
static bool
blast_again_allows(const struct blast_session *s, uint64_t bytes, uint64_t frames)
{
	const struct blast_half *half = s->halves;

	return half[0].again.bytes + half[1].again.bytes + bytes <=
		       BLAST_AGAIN * (half[0].first.bytes + half[1].first.bytes) &&
	       half[0].again.frames + half[1].again.frames + frames <=
		       BLAST_AGAIN * (half[0].first.frames + half[1].first.frames);
}

static void
blast_again_add(struct blast_credit *sum, uint64_t bytes, uint64_t frames)
{
	sum->bytes += bytes;
	sum->frames += frames;
}

void
blast_again_count_first(struct blast_session *s, uint64_t bytes, unsigned frames, uint64_t now_ns)
{
	blast_again_turn(s, now_ns);
	blast_again_add(&s->halves[0].first, bytes, frames);
}

/* ---- what is pushed again ---- */

int
blast_again_count(struct blast_session *s, size_t len, unsigned frames)
{
	struct blast *blast = blast_of(s);
	uint64_t now_ns = xk_now_ns(&blast->protocol);
	int err = 0;

	xk_lock(&blast->lock);
	blast_again_turn(s, now_ns);
	if (blast_again_is_new(s))
		err = -EAGAIN;
	else if (!blast_again_allows(s, len, frames))
		err = -ENOBUFS;
	else
		blast_again_add(&s->halves[0].again, len, frames);
	xk_unlock(&blast->lock);
	return err;
}

/* ---- NACKs ---- */

/* Returns whether two sessions below give the same answer about their peer. -1: one of them gives none. */
static int
blast_again_agree(struct xk_session *a, struct xk_session *b, int op)
{
	uint64_t of_a, of_b;

	if (xk_control(a, op, &of_a, sizeof(of_a)) != sizeof(of_a) ||
	    xk_control(b, op, &of_b, sizeof(of_b)) != sizeof(of_b))
		return -1;
	return of_a == of_b;
}

/* Returns whether two sessions below have the same peer, by its host or, where one knows no host, its link address. */
static bool
blast_again_same_peer(struct xk_session *a, struct xk_session *b)
{
	int agree = a == b ? 1 : blast_again_agree(a, b, XK_GET_PEER_HOST);

	return (agree >= 0 ? agree : blast_again_agree(a, b, XK_GET_PEER_LINK)) == 1;
}

/* Returns whether a NACK that came up lls is from the peer of copy, and about such a message. */
static bool
blast_again_is_asked(const struct blast_copy *copy, struct xk_session *lls, const struct blast_header *h)
{
	return h->protocol == copy->session->number && h->fragments == copy->count &&
	       blast_again_same_peer(lls, copy->session->session.lls);
}

/*
 * Returns the time in which 64 fragments may be sent again to the peer of s: what its NACKs usually take, at most
 * `nack`.
 */
static uint64_t
blast_again_window_ns(const struct blast_session *s)
{
	const struct blast *blast = blast_of(s);
	uint64_t window_ns = blast_estimate_bound(blast, &s->answer, blast->nack_ns);

	return window_ns < blast->nack_ns ? window_ns : blast->nack_ns;
}

/*
 * Takes one fragment from the pace of the peer of s. False: too much was sent again to it just now. The lock is held.
 */
static bool
blast_again_is_in_pace(struct blast_session *s, uint64_t now_ns)
{
	struct blast_peer *peer = atomic_load_explicit(&s->peer, memory_order_relaxed);
	uint64_t window_ns = blast_again_window_ns(s), spacing_ns = window_ns / BLAST_FRAGMENTS;

	if (peer->paid_ns < now_ns)
		peer->paid_ns = now_ns;
	if (peer->paid_ns + spacing_ns > now_ns + window_ns)
		return false;
	peer->paid_ns += spacing_ns;
	return true;
}

/* Counts fragment i as sent again at now_ns. Returns 0, or the reason why it must not be sent. */
static unsigned
blast_again_pay(struct blast_copy *copy, unsigned i, uint64_t now_ns)
{
	struct blast_session *s = copy->session;
	struct blast_credit *left = &copy->left;
	size_t len = xk_msg_len(copy->fragments[i]);

	if (copy->again[i] == BLAST_FRAGMENT_AGAIN || left->frames == 0 || left->bytes < len ||
	    !blast_again_allows(s, len, 1))
		return BLAST_NACK_SPENT;
	if (!blast_again_is_in_pace(s, now_ns))
		return BLAST_NACK_PACED;
	blast_again_add(&s->halves[0].again, len, 1);
	copy->again[i]++;
	left->frames--;
	left->bytes -= len;
	return 0;
}

/*
 * Returns which of the missing fragments may be sent again at now_ns, and counts them as sent. *why: the reason if not
 * all may.
 */
static uint64_t
blast_again_afford(struct blast_copy *copy, uint64_t missing, uint64_t now_ns, unsigned *why)
{
	uint64_t afforded = 0;

	for (uint64_t left = missing; left != 0; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctzll(left), reason = blast_again_pay(copy, i, now_ns);

		if (reason == 0) {
			afforded |= UINT64_C(1) << i;
		} else {
			*why = reason;
			xk_count(copy->session->session.protocol, BLAST_WITHHELD);
		}
	}
	return afforded;
}

/*
 * Sets *again to the fragments to be sent again for a NACK whose mask names those that have arrived. A NACK that comes
 * soon after another is a duplicate of it, or was sent before the fragments sent again could arrive. Fragments that
 * have not been sent yet, or that an earlier NACK has named, are not missing. Returns 0, or the reason to drop the
 * NACK.
 */
static unsigned
blast_again_obey(struct blast *blast, struct blast_copy *copy, uint64_t mask, uint64_t now_ns, uint64_t *again)
{
	unsigned sent = atomic_load_explicit(&copy->sent, memory_order_relaxed);
	uint64_t all = sent == 0 ? 0 : UINT64_MAX >> (BLAST_FRAGMENTS - sent);
	unsigned why = BLAST_NACK_EARLY;

	if (!copy->listed || now_ns < copy->early_ns)
		return BLAST_NACK_EARLY;
	copy->arrived |= mask;
	if ((all & ~copy->arrived) == 0)
		return BLAST_NACK_EARLY;
	if (sent == copy->count)
		blast_estimate_add(blast, &copy->session->answer, now_ns - copy->last_ns);
	blast_again_turn(copy->session, now_ns);
	*again = blast_again_afford(copy, all & ~copy->arrived, now_ns, &why);
	if (*again == 0)
		return why;
	copy->early_ns = now_ns + blast->nack_min_ns / 2;
	blast_send_keep(blast, copy, now_ns);
	return 0;
}

/* Handles a NACK from the peer of copy, whose mask names the fragments that have arrived. Takes m. */
static void
blast_again_answer(struct blast *blast, struct blast_copy *copy, struct xk_msg *m, uint64_t mask)
{
	uint64_t again = 0, now_ns = xk_now_ns(&blast->protocol);
	unsigned why;

	xk_lock(&blast->lock);
	why = blast_again_obey(blast, copy, mask, now_ns, &again);
	xk_unlock(&blast->lock);
	if (why != 0) {
		xk_drop(&blast->protocol, m, why);
		return;
	}
	xk_msg_free(m);
	xk_count(&blast->protocol, BLAST_NACKS_IN);
	for (; again != 0; again &= again - 1) {
		int err = blast_send_fragment(copy, (unsigned)__builtin_ctzll(again), BLAST_RETRANSMIT);

		xk_count(&blast->protocol, err == 0 ? BLAST_RETRANSMITTED : BLAST_UNSENT);
	}
}

void
blast_again(struct blast *blast, struct xk_session *lls, struct xk_msg *m, const uint8_t *p)
{
	struct blast_header h = blast_header_load(p);
	struct blast_copy *copy;

	xk_lock(&blast->lock);
	copy = blast_send_find(blast, h.sequence);
	if (copy != NULL)
		atomic_fetch_add_explicit(&copy->references, 1, memory_order_relaxed);
	xk_unlock(&blast->lock);
	if (copy == NULL) {
		xk_drop(&blast->protocol, m, BLAST_NACK_UNKNOWN);
		return;
	}
	if (blast_again_is_asked(copy, lls, &h)) {
		blast_session_confirm(copy->session);
		blast_again_answer(blast, copy, m, h.mask);
	} else {
		xk_drop(&blast->protocol, m, BLAST_NACK_STRANGE);
	}
	blast_copy_release(copy);
}
