/*
 * blast_send.c - BLAST's sending half: a message longer than a frame is cut into fragments, and kept for a while in case the
 * peer asks for some of them again. blast.c has the protocol.
 *
 * A copy is found by its sequence number alone, since the peer's NACK may come up another session than the message went
 * down (VNET has one for each direction). Who sends the NACK is therefore compared with whom the message went to.
 *
 * A copy has references: one of the list, one of whoever is sending it. Its slot is free again when the last of them is gone,
 * and so is the memory.
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/blast_private.h"

enum { BLAST_BUCKETS_MAX = 4096 };

/* Half of the time in which a peer is sent no more again than in proportion to what it is sent. */
#define BLAST_HALF_NS UINT64_C(30000000000)

/* How much of `keep` is left at least where answers come fast: one part of so many. */
enum { BLAST_KEEP_PARTS = 16 };

/* ---- copies ---- */

/* holder NULL: there is none. */
static void
blast_send_free_slot(struct blast *blast, struct blast_peer *holder)
{
	if (holder == NULL)
		return;
	xk_semaphore_signal(&holder->slots);
	xk_semaphore_signal(&blast->slots);
}

/* Gives one reference back. No lock is held. */
static void
blast_copy_release(struct blast_copy *copy)
{
	if (atomic_fetch_sub_explicit(&copy->references, 1, memory_order_acq_rel) != 1)
		return;
	for (unsigned i = 0; i < copy->count; i++)
		xk_msg_free(copy->fragments[i]);
	blast_send_free_slot(blast_of(copy->session), copy->holder);
	xk_session_release(&copy->session->session);
	free(copy);
}

/* Cuts m into the copy's fragments. Takes m. False: there was no buffer. */
static bool
blast_copy_cut(struct blast_copy *copy, struct xk_msg *m)
{
	for (unsigned i = 0; i + 1 < copy->count; i++) {
		copy->fragments[i] = xk_msg_split(&m, copy->session->fragment_size);
		if (copy->fragments[i] == NULL) {
			xk_drop(copy->session->session.protocol, m, XK_DROP_NO_BUFFER);
			return false;
		}
	}
	copy->fragments[copy->count - 1] = m;
	return true;
}

/* How many fragments a message of len bytes has. */
static unsigned
blast_copy_frames(const struct blast_session *s, size_t len)
{
	return (unsigned)((len + s->fragment_size - 1) / s->fragment_size);
}

/* A copy of m on s, in a slot of holder (NULL: in none); with one reference. Takes m. NULL: nothing was left for it. */
static struct blast_copy *
blast_copy_new(struct blast_session *s, struct xk_msg *m, struct blast_peer *holder)
{
	size_t len = xk_msg_len(m);
	unsigned count = blast_copy_frames(s, len);
	struct blast_copy *copy = calloc(1, sizeof(*copy) + count * sizeof(copy->fragments[0]));

	if (copy == NULL || !xk_duplicate(&s->session)) {
		xk_drop(s->session.protocol, m, copy == NULL ? XK_DROP_NO_MEMORY : XK_DROP_NO_SESSION);
		blast_send_free_slot(blast_of(s), holder);
		free(copy);
		return NULL;
	}
	copy->session = s;
	copy->holder = holder;
	copy->count = count;
	copy->left = (struct blast_credit){ BLAST_AGAIN * len, BLAST_AGAIN * count };
	atomic_store_explicit(&copy->references, 1, memory_order_relaxed);
	if (blast_copy_cut(copy, m))
		return copy;
	blast_copy_release(copy);
	return NULL;
}

/* ---- the table of copies; the lock is held ---- */

static struct blast_copy **
blast_send_bucket(const struct blast *blast, uint32_t sequence)
{
	return &blast->buckets[sequence & blast->bucket_mask];
}

static struct blast_copy *
blast_send_find(const struct blast *blast, uint64_t sequence)
{
	struct blast_copy *copy = *blast_send_bucket(blast, (uint32_t)sequence);

	while (copy != NULL && copy->sequence != sequence)
		copy = copy->next;
	return copy;
}

/*
 * How long a copy is kept after its last frame: longer than it takes until the peer asks for what it misses. A peer that has
 * asked before asks ever later where frames are lost.
 */
static uint64_t
blast_send_keep_ns(const struct blast_copy *copy)
{
	const struct blast_session *s = copy->session;
	const struct blast *blast = blast_of(s);
	uint64_t keep_ns = 8 * (s->answer.mean_ns + 4 * (uint64_t)s->answer.deviation_ns);

	if (copy->early_ns != 0 || s->answer.mean_ns == 0 || keep_ns > blast->keep_ns)
		return blast->keep_ns;
	return keep_ns < blast->keep_ns / BLAST_KEEP_PARTS ? blast->keep_ns / BLAST_KEEP_PARTS : keep_ns;
}

/* The last frame of a copy that is listed went at now_ns. */
static void
blast_send_keep(struct blast *blast, struct blast_copy *copy, uint64_t now_ns)
{
	uint64_t due_ns = now_ns + blast_send_keep_ns(copy), last_ns = copy->born_ns + blast->give_up_ns;

	copy->last_ns = now_ns;
	blast_list_remove(&copy->due.link);
	blast_due_add(blast, &blast->copies, &copy->due, due_ns < last_ns ? due_ns : last_ns);
}

/*
 * A number for the next message of s that no copy has. The first one is random: from the numbers of its own messages nobody can
 * tell those of another peer's. 0 is the number of short messages.
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

/* Gives copy, which has a number and a holder, a place, with a reference. */
static void
blast_send_list(struct blast *blast, struct blast_copy *copy, uint64_t now_ns)
{
	struct blast_copy **bucket = blast_send_bucket(blast, copy->sequence);

	copy->next = *bucket;
	*bucket = copy;
	if (copy->holder->copy_count++ == 0)
		blast_list_append(&blast->holders, &copy->holder->holder);
	blast_list_append(&copy->holder->copies, &copy->age);
	copy->listed = true;
	atomic_fetch_add_explicit(&copy->references, 1, memory_order_relaxed);
	copy->born_ns = copy->last_ns = now_ns;
	blast_due_add(blast, &blast->copies, &copy->due, now_ns + blast->give_up_ns);
}

/* Takes copy out; the list's reference is the caller's now. False: it is out. */
static bool
blast_send_unlist(struct blast *blast, struct blast_copy *copy)
{
	struct blast_copy **at = blast_send_bucket(blast, copy->sequence);

	if (!copy->listed)
		return false;
	while (*at != copy)
		at = &(*at)->next;
	*at = copy->next;
	blast_list_remove(&copy->due.link);
	blast_list_remove(&copy->age);
	if (--copy->holder->copy_count == 0)
		blast_list_remove(&copy->holder->holder);
	copy->listed = false;
	return true;
}

/* ---- the last minute; the lock is held ---- */

/* Begins the next half at now_ns, if this one is over. */
static void
blast_minute_turn(struct blast_session *s, uint64_t now_ns)
{
	uint64_t age_ns = now_ns - s->half_ns;

	if (age_ns < BLAST_HALF_NS)
		return;
	s->halves[1] = age_ns < 2 * BLAST_HALF_NS ? s->halves[0] : (struct blast_half){ .first = { 0, 0 } };
	s->halves[0] = (struct blast_half){ .first = { 0, 0 } };
	s->half_ns = now_ns;
}

static bool
blast_minute_is_new(const struct blast_session *s)
{
	return s->halves[0].first.frames + s->halves[1].first.frames == 0;
}

/* Whether so much more may be sent again: with it that is three times what was sent for the first time, at most. */
static bool
blast_minute_allows(const struct blast_session *s, uint64_t bytes, uint64_t frames)
{
	const struct blast_half *half = s->halves;

	return half[0].again.bytes + half[1].again.bytes + bytes <=
		       BLAST_AGAIN * (half[0].first.bytes + half[1].first.bytes) &&
	       half[0].again.frames + half[1].again.frames + frames <=
		       BLAST_AGAIN * (half[0].first.frames + half[1].first.frames);
}

static void
blast_minute_add(struct blast_credit *sum, uint64_t bytes, uint64_t frames)
{
	sum->bytes += bytes;
	sum->frames += frames;
}

/* ---- frames ---- */

/* Fragment i goes down. 0 or -errno. */
static int
blast_send_fragment(struct blast_copy *copy, unsigned i, enum blast_op op)
{
	struct blast_session *s = copy->session;
	struct xk_msg *frame = xk_msg_reference(copy->fragments[i]);
	struct blast_header h = { .protocol = s->number,
				  .sequence = copy->sequence,
				  .length = (uint32_t)xk_msg_len(copy->fragments[i]),
				  .fragments = copy->count,
				  .op = op,
				  .mask = UINT64_C(1) << i };

	if (frame == NULL || !blast_header_push(&h, &frame)) {
		xk_msg_free(frame);
		return -ENOBUFS;
	}
	return xk_push(s->session.lls, frame);
}

/*
 * All fragments of copy for the first time. If one does not go, the peer will ask for it, unless that is
 * the first. 0, or -errno: nothing was sent.
 */
static int
blast_send_all(struct blast *blast, struct blast_copy *copy)
{
	int err = 0;
	unsigned i = 0;

	while (i < copy->count && (err = blast_send_fragment(copy, i, BLAST_SEND)) == 0)
		atomic_store_explicit(&copy->sent, ++i, memory_order_relaxed);
	if (i == 0)
		return err;
	if (err != 0)
		xk_count(&blast->protocol, BLAST_UNSENT);
	atomic_store_explicit(&copy->sent, copy->count, memory_order_relaxed);
	xk_lock(&blast->lock);
	if (copy->listed)
		blast_send_keep(blast, copy, xk_now_ns(&blast->protocol));
	xk_unlock(&blast->lock);
	return 0;
}

/* copy is of no use to anybody any more, and neither has the caller any for it. */
static void
blast_send_forget(struct blast *blast, struct blast_copy *copy)
{
	bool listed;

	xk_lock(&blast->lock);
	listed = blast_send_unlist(blast, copy);
	xk_unlock(&blast->lock);
	if (listed)
		blast_copy_release(copy);
}

/* Sends copy, whose reference the caller has, and keeps it if it has a slot. 0 or -errno. */
static int
blast_send_copy(struct blast *blast, struct blast_copy *copy, struct xk_ticket *ticket, bool is_first)
{
	struct blast_session *s = copy->session;
	uint64_t now_ns = xk_now_ns(&blast->protocol);
	int err;

	xk_lock(&blast->lock);
	copy->sequence = blast_send_number(blast, s);
	blast_minute_turn(s, now_ns);
	if (is_first) /* the copy has what may be sent again of it */
		blast_minute_add(&s->halves[0].first, copy->left.bytes / BLAST_AGAIN, copy->count);
	if (copy->holder != NULL)
		blast_send_list(blast, copy, now_ns);
	xk_unlock(&blast->lock);
	err = blast_send_all(blast, copy);
	if (err != 0)
		blast_send_forget(blast, copy);
	else if (copy->holder == NULL)
		xk_count(&blast->protocol, BLAST_UNKEPT);
	else if (ticket != NULL)
		xk_ticket_fill(ticket, &copy->session->session, copy->sequence, blast->keep_ns / 1000);
	return err;
}

/* ---- slots ---- */

/* Waits for a slot of the peer's share, and one of all. 0 or -errno. */
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

/* Who loses a copy when peer wants a slot: who has most of them, or else peer itself. The lock is held. */
static struct blast_peer *
blast_send_loser(const struct blast *blast, struct blast_peer *peer)
{
	struct blast_peer *loser = peer;

	if (peer->copy_count >= blast->outstanding_peer)
		return peer;
	for (struct blast_link *link = blast->holders.next; link != &blast->holders; link = link->next) {
		struct blast_peer *holder = xk_container_of(link, struct blast_peer, holder);

		if (holder->copy_count > loser->copy_count)
			loser = holder;
	}
	return loser;
}

/* Ends the oldest copy of who loses one for peer. False: there is none. */
static bool
blast_send_displace(struct blast *blast, struct blast_peer *peer)
{
	struct blast_copy *copy = NULL;
	struct blast_peer *loser;

	xk_lock(&blast->lock);
	loser = blast_send_loser(blast, peer);
	if (loser->copy_count > 0) {
		copy = xk_container_of(loser->copies.next, struct blast_copy, age);
		blast_send_unlist(blast, copy);
	}
	xk_unlock(&blast->lock);
	if (copy == NULL)
		return false;
	xk_count(&blast->protocol, BLAST_DISPLACED);
	blast_copy_release(copy);
	return true;
}

/*
 * A slot of the peer of s (*holder). A push that may not wait takes it from another message, or does without (NULL): whoever
 * waits for one comes first. 0 or -errno.
 */
static int
blast_send_take_slot(struct blast_session *s, const struct xk_ticket *ticket, struct blast_peer **holder)
{
	struct blast *blast = blast_of(s);
	struct blast_peer *peer = atomic_load_explicit(&s->peer, memory_order_acquire);
	bool no_wait = ticket != NULL && ticket->no_wait;
	int err = blast_send_wait(blast, peer, no_wait ? 0 : XK_FOREVER);

	if (err != 0 && no_wait && blast_send_displace(blast, peer))
		err = blast_send_wait(blast, peer, 0);
	*holder = err == 0 ? peer : NULL;
	return no_wait ? 0 : err;
}

/* Sends m, which is not too long, and for the first time unless it is counted as sent again. Takes m; as xk_push. */
static int
blast_send_message(struct blast_session *s, struct xk_msg *m, struct xk_ticket *ticket, bool is_first)
{
	struct blast *blast = blast_of(s);
	struct blast_peer *holder;
	struct blast_copy *copy;
	int err = blast_send_take_slot(s, ticket, &holder);

	if (err != 0) {
		xk_drop(&blast->protocol, m, BLAST_NO_SLOT);
		return err == -EAGAIN ? -ENOBUFS : err;
	}
	copy = blast_copy_new(s, m, holder);
	if (copy == NULL)
		return -ENOBUFS;
	err = blast_send_copy(blast, copy, ticket, is_first);
	blast_copy_release(copy);
	if (err == 0)
		xk_count(&blast->protocol, BLAST_LONG_OUT);
	return err;
}

/*
 * Counts a message of len bytes that was pushed before as sent again. 0; -EAGAIN: it is the first one to this peer lately, which
 * may have moved; -ENOBUFS: too much was sent again.
 */
static int
blast_send_count_again(struct blast_session *s, size_t len)
{
	struct blast *blast = blast_of(s);
	uint64_t frames = blast_copy_frames(s, len), now_ns = xk_now_ns(&blast->protocol);
	int err = 0;

	xk_lock(&blast->lock);
	blast_minute_turn(s, now_ns);
	if (blast_minute_is_new(s))
		err = -EAGAIN;
	else if (!blast_minute_allows(s, len, frames))
		err = -ENOBUFS;
	else
		blast_minute_add(&s->halves[0].again, len, frames);
	xk_unlock(&blast->lock);
	return err;
}

int
blast_send(struct blast_session *s, struct xk_msg *m)
{
	struct blast *blast = blast_of(s);
	struct xk_ticket *ticket = xk_ticket_take(m);
	size_t len = xk_msg_len(m);
	int err = -EAGAIN;

	if (len > (size_t)s->fragment_size * BLAST_FRAGMENTS) {
		xk_drop(&blast->protocol, m, BLAST_TOO_BIG);
		return -EMSGSIZE;
	}
	if (ticket != NULL && ticket->again)
		err = blast_send_count_again(s, len);
	if (err == -ENOBUFS) {
		xk_drop(&blast->protocol, m, BLAST_REPEAT_SPENT);
		return err;
	}
	return blast_send_message(s, m, ticket, err != 0);
}

/* ---- NACKs ---- */

/* The copy that a NACK asks for, with a reference. NULL: there is none. */
static struct blast_copy *
blast_send_take(struct blast *blast, uint32_t sequence)
{
	struct blast_copy *copy;

	xk_lock(&blast->lock);
	copy = blast_send_find(blast, sequence);
	if (copy != NULL)
		atomic_fetch_add_explicit(&copy->references, 1, memory_order_relaxed);
	xk_unlock(&blast->lock);
	return copy;
}

/* Whether two sessions below give the same answer about their peer. -1: one of them gives none. */
static int
blast_send_agree(struct xk_session *a, struct xk_session *b, int op)
{
	uint64_t of_a, of_b;

	if (xk_control(a, op, &of_a, sizeof(of_a)) != sizeof(of_a) ||
	    xk_control(b, op, &of_b, sizeof(of_b)) != sizeof(of_b))
		return -1;
	return of_a == of_b;
}

/* Whether two sessions below are with the same peer, by its host or, where one knows no host, its link address. */
static bool
blast_send_same_peer(struct xk_session *a, struct xk_session *b)
{
	int agree = a == b ? 1 : blast_send_agree(a, b, XK_GET_PEER_HOST);

	return (agree >= 0 ? agree : blast_send_agree(a, b, XK_GET_PEER_LINK)) == 1;
}

/* Whether a NACK that came up lls is from the peer of copy, about such a message. */
static bool
blast_send_is_asked(const struct blast_copy *copy, struct xk_session *lls, const struct blast_header *h)
{
	return h->protocol == copy->session->number && h->fragments == copy->count &&
	       blast_send_same_peer(lls, copy->session->session.lls);
}

/* The time in which the fragments of one message may be sent again to the peer of s: what its NACKs take, if that is known. */
static uint64_t
blast_send_window_ns(const struct blast_session *s)
{
	const struct blast *blast = blast_of(s);
	uint64_t window_ns = blast_estimate_bound(blast, &s->answer, blast->nack_ns);

	return window_ns < blast->nack_ns ? window_ns : blast->nack_ns;
}

/* Takes the time of a fragment from the pace of the peer of s. False: too much was sent again to it just now. */
static bool
blast_send_is_in_pace(struct blast_session *s, uint64_t now_ns)
{
	struct blast_peer *peer = atomic_load_explicit(&s->peer, memory_order_relaxed);
	uint64_t window_ns = blast_send_window_ns(s), spacing_ns = window_ns / BLAST_FRAGMENTS;

	if (peer->paid_ns < now_ns)
		peer->paid_ns = now_ns;
	if (peer->paid_ns + spacing_ns > now_ns + window_ns)
		return false;
	peer->paid_ns += spacing_ns;
	return true;
}

/* Counts that fragment i is sent again at now_ns. 0, or the reason why it must not. */
static unsigned
blast_send_pay(struct blast_copy *copy, unsigned i, uint64_t now_ns)
{
	struct blast_session *s = copy->session;
	struct blast_credit *left = &copy->left;
	size_t len = xk_msg_len(copy->fragments[i]);

	if (copy->again[i] == BLAST_FRAGMENT_AGAIN || left->frames == 0 || left->bytes < len ||
	    !blast_minute_allows(s, len, 1))
		return BLAST_NACK_SPENT;
	if (!blast_send_is_in_pace(s, now_ns))
		return BLAST_NACK_PACED;
	blast_minute_add(&s->halves[0].again, len, 1);
	copy->again[i]++;
	left->frames--;
	left->bytes -= len;
	return 0;
}

/* Which of the missing fragments are sent again at now_ns, which counts. *why: the reason why not all. */
static uint64_t
blast_send_afford(struct blast_copy *copy, uint64_t missing, uint64_t now_ns, unsigned *why)
{
	uint64_t afforded = 0;

	for (uint64_t left = missing; left != 0; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctzll(left), reason = blast_send_pay(copy, i, now_ns);

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
 * Which fragments are sent again (*again) for a NACK that says that those of mask are there. One that comes soon after another
 * is a duplicate of it, or was sent before what that one has brought could arrive. What has not gone yet is not missing, nor is
 * what an earlier NACK has named. 0, or the reason to drop the NACK.
 */
static unsigned
blast_send_obey(struct blast *blast, struct blast_copy *copy, uint64_t mask, uint64_t now_ns, uint64_t *again)
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
	blast_minute_turn(copy->session, now_ns);
	*again = blast_send_afford(copy, all & ~copy->arrived, now_ns, &why);
	if (*again == 0)
		return why;
	copy->early_ns = now_ns + blast->nack_min_ns / 2;
	blast_send_keep(blast, copy, now_ns);
	return 0;
}

static void
blast_send_missing(struct blast *blast, struct blast_copy *copy, uint64_t missing)
{
	for (unsigned i = 0; i < copy->count; i++) {
		if ((missing >> i & 1) == 0)
			continue;
		if (blast_send_fragment(copy, i, BLAST_RETRANSMIT) == 0)
			xk_count(&blast->protocol, BLAST_RETRANSMITTED);
		else
			xk_count(&blast->protocol, BLAST_UNSENT);
	}
}

/* The peer of copy says what it has. Takes m. */
static void
blast_send_answer(struct blast *blast, struct blast_copy *copy, struct xk_msg *m, uint64_t mask)
{
	uint64_t again = 0, now_ns = xk_now_ns(&blast->protocol);
	unsigned why;

	xk_lock(&blast->lock);
	why = blast_send_obey(blast, copy, mask, now_ns, &again);
	xk_unlock(&blast->lock);
	if (why != 0) {
		xk_drop(&blast->protocol, m, why);
		return;
	}
	xk_msg_free(m);
	xk_count(&blast->protocol, BLAST_NACKS_IN);
	blast_send_missing(blast, copy, again);
}

void
blast_send_again(struct blast *blast, struct xk_session *lls, struct xk_msg *m, const struct blast_header *h)
{
	struct blast_copy *copy = blast_send_take(blast, h->sequence);

	if (copy == NULL) {
		xk_drop(&blast->protocol, m, BLAST_NACK_UNKNOWN);
		return;
	}
	if (blast_send_is_asked(copy, lls, h)) {
		blast_session_confirm(copy->session);
		blast_send_answer(blast, copy, m, h->mask);
	} else {
		xk_drop(&blast->protocol, m, BLAST_NACK_STRANGE);
	}
	blast_copy_release(copy);
}

/* ---- the end of a copy ---- */

void
blast_send_release(struct blast_session *s, uint64_t number)
{
	struct blast *blast = blast_of(s);
	struct blast_copy *copy;

	xk_lock(&blast->lock);
	copy = blast_send_find(blast, number);
	if (copy != NULL && (copy->session != s || !blast_send_unlist(blast, copy)))
		copy = NULL;
	xk_unlock(&blast->lock);
	if (copy == NULL)
		return;
	xk_count(&blast->protocol, BLAST_RELEASED);
	blast_copy_release(copy);
}

/* The copy that is due first. NULL: there is none. The lock is held. */
static struct blast_copy *
blast_send_first(struct blast *blast)
{
	if (blast_list_is_empty(&blast->copies))
		return NULL;
	return xk_container_of(blast->copies.next, struct blast_copy, due.link);
}

bool
blast_send_expire(struct blast *blast, uint64_t now_ns)
{
	struct blast_copy *copy;

	xk_lock(&blast->lock);
	copy = blast_send_first(blast);
	if (copy != NULL && (copy->due.at_ns > now_ns || !blast_send_unlist(blast, copy)))
		copy = NULL;
	xk_unlock(&blast->lock);
	if (copy == NULL)
		return false;
	xk_count(&blast->protocol, BLAST_EXPIRED);
	blast_copy_release(copy);
	return true;
}

/* ---- init and fini ---- */

int
blast_send_init(struct blast *blast)
{
	uint32_t buckets = 1;

	while (buckets < blast->outstanding && buckets < BLAST_BUCKETS_MAX)
		buckets *= 2;
	blast->bucket_mask = buckets - 1;
	blast->buckets = calloc(buckets, sizeof(blast->buckets[0]));
	if (blast->buckets == NULL)
		return -ENOMEM;
	blast_list_init(&blast->copies);
	blast_list_init(&blast->holders);
	blast_peer_init(blast, &blast->strangers);
	xk_semaphore_init(&blast->slots, &blast->protocol, (unsigned)blast->outstanding);
	return 0;
}

void
blast_send_fini(struct blast *blast)
{
	struct blast_copy *copy;

	while ((copy = blast_send_first(blast)) != NULL) {
		blast_send_unlist(blast, copy);
		blast_copy_release(copy);
	}
	free(blast->buckets);
}
