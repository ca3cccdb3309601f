/*
 * blast_send.c - BLAST's sending half: a message longer than a frame is cut into fragments, and kept for a while in case the
 * peer asks for some of them again. blast.c has the protocol.
 *
 * A copy has one reference of the list, and one of each shepherd that is sending it. Its slot and its memory become
 * free when the last of them is gone.
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/blast/blast_private.h"

enum { BLAST_BUCKETS_MAX = 4096 };

/* How much of `keep` is left at least where answers come fast: one part of so many. */
enum { BLAST_KEEP_PARTS = 16 };

/* ---- copies ---- */

/* Frees a slot of holder; NULL: there is none. */
static void
blast_send_free_slot(struct blast *blast, struct blast_peer *holder)
{
	if (holder == NULL)
		return;
	xk_semaphore_signal(&holder->slots);
	xk_semaphore_signal(&blast->slots);
}

void
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

/* Returns how many fragments a message of len bytes has. */
static unsigned
blast_copy_frames(const struct blast_session *s, size_t len)
{
	return (unsigned)((len + s->fragment_size - 1) / s->fragment_size);
}

/*
 * Returns a copy of m on s, in a slot of holder (NULL: in none), with one reference. Takes m. NULL: there was no memory
 * for it, or s is being closed.
 */
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

struct blast_copy *
blast_send_find(const struct blast *blast, uint64_t sequence)
{
	struct blast_copy *copy = *blast_send_bucket(blast, (uint32_t)sequence);

	while (copy != NULL && copy->sequence != sequence)
		copy = copy->next;
	return copy;
}

/*
 * Returns how long a copy is kept after its last frame: longer than the peer's next NACK takes. After one NACK the
 * peer's next ones come later and later where frames are lost, so the copy is kept for the whole of `keep`.
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
void
blast_send_keep(struct blast *blast, struct blast_copy *copy, uint64_t now_ns)
{
	uint64_t due_ns = now_ns + blast_send_keep_ns(copy), last_ns = copy->born_ns + blast->give_up_ns;

	copy->last_ns = now_ns;
	blast_list_remove(&copy->due.link);
	blast_due_add(blast, &blast->copies, &copy->due, due_ns < last_ns ? due_ns : last_ns);
}

/*
 * Draws a number for the next message of s that no other copy has. The first one is random, so that a peer cannot tell
 * the numbers of others' messages from those of its own. 0 is the number of short messages. The lock is held.
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

/* Lists copy, which has a number and a holder, with a reference. The lock is held. */
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

/* ---- frames ---- */

/* Sends fragment i. Returns 0 or -errno. */
int
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
 * Sends all fragments of copy for the first time. If one but the first cannot be sent, the peer will ask for it.
 * Returns 0, or -errno if nothing was sent.
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

/* Sends copy, of which the caller has a reference, and keeps it if it has a slot. Returns 0 or -errno. */
static int
blast_send_copy(struct blast *blast, struct blast_copy *copy, struct xk_ticket *ticket, bool is_first)
{
	struct blast_session *s = copy->session;
	uint64_t now_ns = xk_now_ns(&blast->protocol);
	int err;

	xk_lock(&blast->lock);
	copy->sequence = blast_send_number(blast, s);
	if (is_first) /* copy->left is BLAST_AGAIN times the message's length */
		blast_again_count_first(s, copy->left.bytes / BLAST_AGAIN, copy->count, now_ns);
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

/* Waits for a slot of the peer's share, and one of all. Returns 0 or -errno. */
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

/*
 * Returns the peer that loses a copy when `peer` wants a slot: the one with the most copies, or else `peer` itself. The
 * lock is held.
 */
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

/* Ends the oldest copy of the peer that must make room for `peer`. False: it has none. */
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
 * Takes a slot of the peer of s (*holder). A push that may not wait displaces another copy, or does without a slot
 * (*holder NULL) if a waiting push got the freed one. Returns 0 or -errno.
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

/* Sends m, which is not too long. is_first: it was not counted as sent again. Takes m; as xk_push. */
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

int
blast_send(struct blast_session *s, struct xk_msg *m)
{
	struct blast *blast = blast_of(s);
	struct xk_ticket *ticket = xk_ticket_take(m);
	size_t len = xk_msg_len(m);
	int err = -EAGAIN; /* as blast_again_count: a new message */

	if (len > (size_t)s->fragment_size * BLAST_FRAGMENTS) {
		xk_drop(&blast->protocol, m, BLAST_TOO_BIG);
		return -EMSGSIZE;
	}
	if (ticket != NULL && ticket->again)
		err = blast_again_count(s, len, blast_copy_frames(s, len));
	if (err == -ENOBUFS) {
		xk_drop(&blast->protocol, m, BLAST_REPEAT_SPENT);
		return err;
	}
	return blast_send_message(s, m, ticket, err != 0);
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
