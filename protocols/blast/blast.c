/*
 * blast.c - messages of up to 64 frames, from host to host: a long one is cut into fragments, and the receiver asks for
 * those that are missing. blast_send.c sends long messages, blast_receive.c receives them; the rest is here.
 *
 * Promise:      persistent, but not reliable: a message arrives whole or not at all. It may be lost, arrive twice, or
 *               after a later one, and it is as intact as the frames are. CHAN, above, adds the rest.
 * Spec:         the x-kernel's BLAST with a mask of 64 bits (O'Malley and Peterson 1992), numbers of each session's
 *               own, adaptive times, and bounds against strangers. The number of the protocol above is the same on both
 *               hosts. The byte with the width of the mask was padding: it identifies hosts with another mask.
 * Exchange:     short message     SEND, sequence 0, no fragments, no mask: nothing is kept, no timer runs
 *               long message      SEND for each fragment, which its bit in the mask names; all of one length, the last
 *                                 may be shorter
 *               something missing NACK, the mask names what has arrived; RETRANSMIT for each other fragment
 * Sender:       keeps the message for `keep` after its last frame, less where NACKs come sooner, and `give_up` in all;
 *               or until its ticket (ticket.h) is released. A push that finds no slot waits as `implicit` says, or,
 *               with a ticket that forbids that, ends the oldest copy of the peer with most copies, or of its own.
 * Again:        A message is sent again at most three times over, in bytes and in frames, and each fragment at most 16
 *               times. All sessions with a peer share a pace: a burst of 64 fragments, then 64 per usual delay of its
 *               NACKs. What a session sends again in a minute is at most three times what it sends for the first time.
 * Strangers:    Unconfirmed hosts share one peer's limits. Each fragment allows one NACK, a confirmed host's three, and
 *               one more per 64 bytes.
 * Sessions:     one per (session below, protocol above). Where the protocol below has a session for each direction
 *               (VNET), a protocol that has enabled receives from its peers on the passive one.
 * Not done:     a NACK at once when the last fragment comes after a hole
 * Graph:        blast -> vnet, blast -> ip
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "protocols/blast/blast_private.h"
#include "xkernel/bytes.h"
#include "xkernel/receive.h"

/* ---- the header ---- */

enum { BLAST_BUCKETS_MAX = 4096 };

XK_FIELDS(blast, BLAST_HEADER);
XK_MESSAGES(blast, BLAST_HEADER);

/* Checks h, which is not a short message's. Returns 0, or the reason to drop the message. */
static unsigned
blast_header_check(const struct blast_header *h)
{
	uint64_t all;

	if (h->width != BLAST_FRAGMENTS)
		return BLAST_BAD_WIDTH;
	if (h->op < BLAST_SEND || h->op > BLAST_RETRANSMIT || (h->sequence == 0 && h->op != BLAST_SEND))
		return BLAST_BAD_OP;
	if (h->sequence == 0)
		return h->fragments != 0 ? BLAST_BAD_COUNT : BLAST_BAD_MASK;
	if (h->fragments < 2 || h->fragments > BLAST_FRAGMENTS)
		return BLAST_BAD_COUNT;
	all = UINT64_MAX >> (BLAST_FRAGMENTS - h->fragments);
	if (h->mask == 0 || (h->mask & ~all) != 0)
		return BLAST_BAD_MASK;
	if (h->op == BLAST_NACK ? h->mask == all : (h->mask & (h->mask - 1)) != 0)
		return BLAST_BAD_MASK;
	if (h->op == BLAST_NACK)
		return h->length != 0 ? XK_DROP_BAD_LENGTH : 0;
	return h->length == 0 || h->length > BLAST_FRAGMENT_MAX ? XK_DROP_BAD_LENGTH : 0;
}

/* Takes the header off m, and trims m to the header's length. Returns false if m is shorter. */
static inline bool
blast_header_pop(struct xk_msg *m, size_t length)
{
	xk_msg_pop_in_place(m, BLAST_HEADER_LEN);
	if (xk_unlikely(length != xk_msg_len(m))) {
		if (length > xk_msg_len(m))
			return false;
		xk_msg_truncate(m, length);
	}
	return true;
}

/* ---- memory ---- */

/* Only the holder of the lock takes, so the first object cannot be taken and returned between the two reads. */
void *
blast_spare_take(_Atomic(struct blast_spare *) *spares, size_t size)
{
	struct blast_spare *spare = atomic_load_explicit(spares, memory_order_acquire);

	while (spare != NULL && !atomic_compare_exchange_weak_explicit(spares, &spare, spare->next,
								       memory_order_acquire, memory_order_acquire))
		;
	return spare != NULL ? spare : malloc(size);
}

void
blast_spare_give(_Atomic(struct blast_spare *) *spares, void *object)
{
	struct blast_spare *spare = object;

	spare->next = atomic_load_explicit(spares, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(spares, &spare->next, spare, memory_order_release,
						      memory_order_relaxed))
		;
}

static void
blast_spare_free(_Atomic(struct blast_spare *) *spares)
{
	for (struct blast_spare *spare = *spares, *next; spare != NULL; spare = next) {
		next = spare->next;
		free(spare);
	}
}

/* ---- time; the lock is held unless stated otherwise ---- */

void
blast_estimate_add(const struct blast *blast, struct xk_estimate *estimate, uint64_t sample_ns)
{
	xk_estimate_add(estimate, (uint32_t)(sample_ns < blast->nack_max_ns ? sample_ns : blast->nack_max_ns));
}

uint64_t
blast_estimate_bound(const struct blast *blast, const struct xk_estimate *estimate, uint64_t first_ns)
{
	uint64_t bound_ns = estimate->mean == 0 ? first_ns : xk_estimate_bound(estimate);

	if (bound_ns < blast->nack_min_ns)
		return blast->nack_min_ns;
	return bound_ns < blast->nack_max_ns ? bound_ns : blast->nack_max_ns;
}

/* Makes the event fire at at_ns or before. */
static void
blast_schedule(struct blast *blast, uint64_t at_ns)
{
	uint64_t now_ns;

	if (at_ns >= blast->event_ns)
		return;
	now_ns = xk_now_ns(&blast->protocol);
	blast->event_ns = at_ns;
	xk_event_schedule(&blast->event, at_ns <= now_ns ? 0 : xk_us_of_ns(at_ns - now_ns));
}

void
blast_due_remove(struct blast_dues *dues, struct blast_due *due)
{
	if (due->at_ns == BLAST_NEVER)
		return;
	TAILQ_REMOVE(dues, due, link);
	due->at_ns = BLAST_NEVER;
}

void
blast_due_set(struct blast *blast, struct blast_dues *dues, struct blast_due *due, uint64_t at_ns)
{
	struct blast_due *after;

	blast_due_remove(dues, due);
	after = TAILQ_LAST(dues, blast_dues);
	due->at_ns = at_ns;
	while (after != NULL && after->at_ns > at_ns)
		after = TAILQ_PREV(after, blast_dues, link);
	if (after != NULL)
		TAILQ_INSERT_AFTER(dues, after, due, link);
	else
		TAILQ_INSERT_HEAD(dues, due, link);
	blast_schedule(blast, at_ns);
}

/* Handles what is due. The lock is not held. */
static void
blast_tick(struct xk_event *event, void *argument)
{
	struct blast *blast = argument;
	uint64_t now_ns = xk_now_ns(&blast->protocol);
	struct blast_due *copy, *partial;

	xk_lock(&blast->lock);
	blast->event_ns = UINT64_MAX;
	xk_unlock(&blast->lock);
	while (blast_send_expire(blast, now_ns))
		;
	while (blast_receive_expire(blast, now_ns))
		;
	xk_lock(&blast->lock);
	if ((copy = TAILQ_FIRST(&blast->copies)) != NULL)
		blast_schedule(blast, copy->at_ns);
	if ((partial = TAILQ_FIRST(&blast->partials)) != NULL)
		blast_schedule(blast, partial->at_ns);
	xk_unlock(&blast->lock);
}

/* ---- peers ---- */

static void
blast_peer_init(struct blast *blast, struct blast_peer *peer)
{
	xk_semaphore_init(&peer->slots, &blast->protocol, (unsigned)blast->outstanding_peer);
	TAILQ_INIT(&peer->copies);
}

/*
 * Returns the key of the peer of lls: its link address, which a neighbour's opened and accepted sessions share, or else
 * its host.
 */
static struct xk_key
blast_peer_key(struct xk_session *lls)
{
	uint64_t peer;

	if (xk_control(lls, XK_GET_PEER_LINK, &peer) == 0)
		return (struct xk_key){ peer, XK_GET_PEER_LINK };
	if (xk_control(lls, XK_GET_PEER_HOST, &peer) == 0)
		return (struct xk_key){ peer, XK_GET_PEER_HOST };
	return (struct xk_key){ (uintptr_t)lls, 0 };
}

static void
blast_peer_free(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct blast_peer, retired));
}

void
blast_session_join(struct blast_session *s, bool confirms)
{
	struct blast *blast = blast_of(s);
	struct blast_peer *peer;
	struct xk_key key;
	bool is_new;

	if (blast_session_is_confirmed(s))
		return;
	key = blast_peer_key(s->session.lls);
	xk_lock(&blast->lock);
	is_new = !blast_session_is_confirmed(s);
	peer = is_new ? xk_map_resolve(&blast->peers, key) : NULL;
	if (is_new && peer == NULL && confirms && (peer = calloc(1, sizeof(*peer))) != NULL) {
		blast_peer_init(blast, peer);
		if (xk_map_bind(&blast->peers, &peer->binding, key, peer) != 0) {
			free(peer);
			peer = NULL;
		}
	}
	if (peer != NULL) {
		peer->references++;
		atomic_store_explicit(&s->peer, peer, memory_order_release);
	}
	xk_unlock(&blast->lock);
}

/* ---- sessions ---- */

/* Sets *size to the bytes of a message that fit a frame of lls (NULL: of the protocol below). Returns 0 or -errno. */
static int
blast_fragment_size(struct xk_protocol *self, struct xk_session *lls, uint32_t *size)
{
	static const int ops[] = { XK_GET_OPT_PACKET, XK_GET_MAX_PACKET };
	uint32_t below = 0;
	int got = -ENOTSUP;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(ops) && got < 0; i++)
		got = lls != NULL ? xk_control_op(lls, ops[i], &below)
				  : xk_control_protocol_op(xk_lower(self, 0), ops[i], &below);
	if (got < 0)
		return got;
	if (below <= BLAST_HEADER_LEN)
		return -EMSGSIZE;
	*size = below - BLAST_HEADER_LEN < BLAST_FRAGMENT_MAX ? below - BLAST_HEADER_LEN : BLAST_FRAGMENT_MAX;
	return 0;
}

static int
blast_session_setup(struct xk_session *session, const void *how)
{
	struct blast_session *s = (struct blast_session *)session;
	uint32_t size = 0;
	int err = blast_fragment_size(session->protocol, session->lls, &size);

	s->number = XK_GET(blast, protocol, how);
	session->sends.longest = size * BLAST_FRAGMENTS;
	atomic_store_explicit(&session->sends.whole, size, memory_order_relaxed);
	TAILQ_INIT(&s->partials);
	atomic_store_explicit(&s->peer, &blast_of(s)->strangers, memory_order_relaxed);
	blast_session_join(s, false);
	return err;
}

static void
blast_session_close(struct xk_session *session)
{
	struct blast_session *s = (struct blast_session *)session;
	struct blast *blast = blast_of(s);
	struct blast_peer *peer = atomic_load_explicit(&s->peer, memory_order_relaxed);

	if (peer == &blast->strangers)
		return;
	xk_lock(&blast->lock);
	if (--peer->references == 0) {
		xk_map_unbind(&blast->peers, &peer->binding);
		xk_retire(blast->protocol.kernel, &peer->retired, blast_peer_free);
	}
	xk_unlock(&blast->lock);
}

static int
blast_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	   struct xk_participants *participants, struct xk_session **session)
{
	uint8_t received[BLAST_HEADER_LEN] = { 0 };
	struct xk_session *lls;
	uint32_t number;
	int err = xk_number(self, hlp_type, &number);

	if (err == 0)
		err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */
	if (err == 0) {
		XK_PUT(blast, protocol, received, number);
		err = xk_table_open(self, xk_receive_key(self, lls, received), hlp_receive, hlp_type, lls, received,
				    session);
	}
	if (err == 0)
		blast_session_join((struct blast_session *)*session, true);
	return err;
}

/* Enables below, too, and only then: over VNET what is not enabled comes up the sessions that were opened. */
static int
blast_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		  struct xk_participants *participants)
{
	int err = xk_table_enable(self, hlp_receive, hlp_type, participants);

	if (err != 0)
		return err;
	err = xk_open_enable(self, self, xk_lower(self, 0), participants);
	if (err != 0)
		xk_table_disable(self, hlp_receive, hlp_type, participants);
	return err;
}

static int
blast_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		   struct xk_participants *participants)
{
	int err = xk_table_disable(self, hlp_receive, hlp_type, participants);

	return err != 0 ? err : xk_open_disable(self, self, xk_lower(self, 0), participants);
}

static int
blast_session_control(struct xk_session *session, int op, void *argument)
{
	if (op != XK_RELEASE)
		return -ENOTSUP;
	blast_send_release((struct blast_session *)session, *(const uint64_t *)argument);
	return 0;
}

static int
blast_control(struct xk_protocol *self, int op, void *argument)
{
	uint32_t *size = argument;
	int err = op == XK_GET_MAX_PACKET || op == XK_GET_OPT_PACKET ? blast_fragment_size(self, NULL, size) : -ENOTSUP;

	if (err == 0 && op == XK_GET_MAX_PACKET)
		*size *= BLAST_FRAGMENTS;
	return err;
}

/* ---- up ---- */

/* Handles m, which is a fragment or a NACK, or wrong. Takes m. */
static void
blast_slow_path(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const uint8_t *p = m->data;
	struct blast_header h = blast_load(p);
	const struct xk_format format = blast_format();
	struct xk_key key = xk_receive_key_by_fields(&format, lls, p);
	unsigned why = blast_header_check(&h);
	struct xk_session *s;

	if (why == 0 && !blast_header_pop(m, h.length))
		why = XK_DROP_BAD_LENGTH;
	if (why == 0 && h.op == BLAST_NACK) {
		blast_again((struct blast *)self, lls, m, &h);
		return;
	}
	s = why != 0 ? NULL : xk_table_find(self, key);
	if (why == 0 && s == NULL && h.op != BLAST_SEND)
		why = BLAST_UNKNOWN;
	if (why != 0)
		xk_drop(self, m, why);
	else if (s != NULL || (s = xk_table_accept(self, key, xk_table_number_key(h.protocol), lls, p, m)) != NULL)
		blast_receive_fragment((struct blast_session *)s, lls, m, &h);
}

/* ---- promises ---- */

/* Checks what is being received. */
static const char *
blast_partials_promise(const struct blast *blast)
{
	const struct blast_partial *partial;
	uint32_t partials = 0, fragments = 0;

	for (partial = TAILQ_FIRST(&blast->ages); partial != NULL; partial = TAILQ_NEXT(partial, age)) {
		partials++;
		fragments += partial->received;
		if (partial->due.at_ns > partial->until_ns)
			return "a message is incomplete without a time to ask for the rest";
		if ((unsigned)__builtin_popcountll(partial->mask) != partial->received)
			return "the number of a message's fragments is wrong";
		if (partial->received >= partial->count)
			return "a whole message was not delivered";
	}
	if (partials != blast->partial_count || fragments != blast->fragment_count)
		return "the number of incomplete messages, or of their fragments, is wrong";
	return partials > blast->message_max || fragments > blast->fragment_max
		       ? "there are more incomplete messages than allowed"
		       : NULL;
}

/* Checks what is kept for peers. */
static const char *
blast_copies_promise(const struct blast *blast)
{
	const struct blast_due *due;
	const struct blast_peer *peer;
	unsigned copies = 0, held = 0;

	for (due = TAILQ_FIRST(&blast->copies); due != NULL; due = TAILQ_NEXT(due, link))
		copies++;
	for (peer = TAILQ_FIRST(&blast->holders); peer != NULL; peer = TAILQ_NEXT(peer, holder))
		held += peer->copy_count;
	if (copies != held)
		return "a message is kept for nobody, or for ever";
	return copies > blast->outstanding ? "more messages are kept than `outstanding` allows" : NULL;
}

static const char *
blast_promise(struct xk_protocol *self, bool at_rest)
{
	const struct blast *blast = (const struct blast *)self;
	const struct blast_due *copy = TAILQ_FIRST(&blast->copies), *partial = TAILQ_FIRST(&blast->partials);
	const char *why = blast_partials_promise(blast);
	unsigned free_slots = atomic_load(&blast->slots.count);

	if (why == NULL)
		why = blast_copies_promise(blast);
	if (why == NULL && (copy != NULL || partial != NULL) && !xk_event_is_awaited(&blast->event))
		why = "something is due, and the timer is not set";
	if (why == NULL && at_rest && partial != NULL)
		why = "a message is neither delivered nor given up";
	if (why == NULL && at_rest && copy != NULL)
		why = "a message is kept beyond its time";
	if (why == NULL && at_rest && free_slots != blast->outstanding)
		why = xk_broken(self, "slots that were not given back: %" PRIu64, blast->outstanding - free_slots);
	return why;
}

/* ---- init and tables ---- */

static void
blast_fini(struct xk_protocol *self)
{
	struct blast *blast = (struct blast *)self;

	xk_event_cancel(&blast->event);
	blast_receive_fini(blast);
	while (blast_send_expire(blast, UINT64_MAX))
		;
	blast_spare_free(&blast->spare_copies);
	blast_spare_free(&blast->spare_partials);
	free(blast->buckets);
	xk_map_fini(&blast->peers);
}

static int
blast_init(struct xk_protocol *self)
{
	struct blast *blast = (struct blast *)self;
	uint32_t buckets = 1;
	int err;

	if (blast->nack_min_ns > blast->nack_max_ns || blast->keep_ns <= blast->nack_max_ns)
		return -EINVAL;
	while (buckets < blast->outstanding && buckets < BLAST_BUCKETS_MAX)
		buckets *= 2;
	blast->bucket_mask = buckets - 1;
	blast->buckets = calloc(buckets, sizeof(blast->buckets[0]));
	err = blast->buckets != NULL ? xk_map_init(&blast->peers, self->kernel, 16) : -ENOMEM;
	if (err != 0) {
		free(blast->buckets);
		return err;
	}
	TAILQ_INIT(&blast->copies);
	TAILQ_INIT(&blast->holders);
	TAILQ_INIT(&blast->partials);
	TAILQ_INIT(&blast->ages);
	blast_peer_init(blast, &blast->strangers);
	xk_semaphore_init(&blast->slots, self, (unsigned)blast->outstanding);
	xk_lock_init(&blast->lock, self);
	xk_event_init(&blast->event, self->kernel, blast_tick, blast);
	blast->event_ns = UINT64_MAX;
	return 0;
}

static const struct xk_session_ops blast_session_ops = {
	.size = sizeof(struct blast_session),
	.setup = blast_session_setup,
	.push = blast_send,
	.divide = blast_divide,
	.pop = xk_pop_through,
	.close = blast_session_close,
	.control = blast_session_control,
};

static const struct xk_protocol_ops blast_ops = {
	.init = blast_init,
	.fini = blast_fini,
	.open = blast_open,
	.open_enable = blast_open_enable,
	.open_disable = blast_open_disable,
	.demux = blast_receive,
	.control = blast_control,
	.slow_path = blast_slow_path,
	.promise = blast_promise,
};

static const struct xk_setting blast_settings[] = {
	XK_SETTING(UINT, struct blast, outstanding, "outstanding", "long messages kept at a time, to be sent again",
		   .initial = "64", .min = 1, .max = 65536),
	XK_SETTING(UINT, struct blast, outstanding_peer, "outstanding_peer",
		   "long messages kept for one peer; unconfirmed hosts count as one peer", .initial = "32", .min = 1,
		   .max = 65536),
	XK_SETTING(TIME, struct blast, keep_ns, "keep",
		   "longest time that a message is kept after its last frame; more than nack_max", .initial = "1s",
		   .min = 1000000, .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct blast, give_up_ns, "give_up",
		   "longest time that either end keeps a message in all, however often it is asked for",
		   .initial = "5s", .min = 1000000, .max = UINT64_C(600000000000)),
	XK_SETTING(TIME, struct blast, nack_ns, "nack",
		   "silence after which a fragment is missing, until their spacing is measured", .initial = "20ms",
		   .min = 1000, .max = UINT64_C(4000000000)),
	XK_SETTING(TIME, struct blast, nack_min_ns, "nack_min", "shortest such silence, once it is measured",
		   .initial = "1ms", .min = 1000, .max = UINT64_C(4000000000)),
	XK_SETTING(TIME, struct blast, nack_max_ns, "nack_max", "longest such silence, and longest wait after a NACK",
		   .initial = "300ms", .min = 1000, .max = UINT64_C(4000000000)),
	XK_SETTING(UINT, struct blast, nacks, "nacks",
		   "NACKs in a row that bring nothing, before a message is given up", .initial = "12", .min = 1,
		   .max = 30),
	XK_SETTING(UINT, struct blast, message_max, "messages", "incomplete messages kept at a time", .initial = "256",
		   .min = 1, .max = 65536),
	XK_SETTING(UINT, struct blast, fragment_max, "fragments",
		   "fragments of incomplete messages; each may hold a buffer of 2 KiB, however short it is",
		   .initial = "4096", .min = BLAST_FRAGMENTS, .max = 1048576),
	XK_SETTING(UINT, struct blast, peer_message_max, "peer_messages", "incomplete messages of one session",
		   .initial = "32", .min = 1, .max = 65536),
	XK_SETTING(UINT, struct blast, peer_fragment_max, "peer_fragments",
		   "fragments of one session's incomplete messages", .initial = "512", .min = BLAST_FRAGMENTS,
		   .max = 1048576),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_blast = {
	.name = "blast",
	.help = "Messages of up to 64 frames. Missing frames are sent again for a while: persistent, not reliable.",
	.ops = &blast_ops,
	.session_ops = &blast_session_ops,
	.header = BLAST_HEADER_LEN,
	.fields = blast_fields,
	.size = sizeof(struct blast),
	.offers = XK_ASYNC,
	.flags = XK_BY_FIELDS,
	.lowers = XK_ROLES({ "network", XK_ASYNC, NULL, "carries frames to hosts: vnet, ip, vmux" }),
	.numbers = XK_NUMBERS({ "eth", 0x3001 }, { "ip", 101 }),
	.number_max = UINT32_MAX,
	.settings = blast_settings,
	.drops = blast_drops,
	.counters = blast_counters,
	.session_max = 1024,
};
