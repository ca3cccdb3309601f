/*
 * arp.c - the link addresses of neighbours, asked for and answered.
 *
 * Spec:         RFC 826, for IPv4 over Ethernet; the packet is a header of 28 bytes, without a payload
 * Participants: none; VNET calls it (arp.h)
 * Learning:     An entry is made when this host asks, or is asked; any other packet only updates an existing entry
 *               (RFC 826's merge). The sender's link address is the packet's, not the frame's: they differ for virtual
 *               routers. Requests from hosts that are no neighbours are answered, and nothing is learned from them.
 * Table:        bounded; the least recently used entry makes room, unless a shepherd waits for it. Strangers can make
 *               this host ask for any number of hosts that do not exist (by forwarding, or by answering). Therefore,
 *               once unresolved hosts fill half of a full table, they replace one another, and known hosts stay.
 * Following:    A session that sends to a neighbour for long follows it: it is notified when the link address changes,
 *               becomes too old or is lost. Its next use asks again: first the known station, then all (RFC 1122,
 *               2.3.2.1). The advice that a host does not answer has the same effect. Unused addresses are not asked
 *               for. An unsolicited change of address is trusted only for the time that a query takes, so a wrong one
 *               does not last.
 * Own address:  announced, defended, and on request probed first (arp_own.c)
 * Not done:     several addresses on one link
 * Graph:        vnet -> arp; arp -> eth
 */
#include "protocols/arp/arp.h"

#include <errno.h>
#include <stdlib.h>

#include "protocols/arp/arp_private.h"
#include "protocols/eth.h"
#include "xkernel/bytes.h"
#include "xkernel/trace.h"

enum {
	ARP_QUEUES = 4,   /* queued messages in all, per entry of the table */
	ARP_MOVES = 1000, /* of followers, by one shepherd, while the address keeps changing */
};

#define ARP_DROPS(D)                                                                                                   \
	D(ARP_DROP_BAD_HARDWARE, "bad_hardware")                                                                       \
	D(ARP_DROP_BAD_PROTOCOL, "bad_protocol")                                                                       \
	D(ARP_DROP_BAD_OPERATION, "bad_operation")                                                                     \
	D(ARP_DROP_BAD_SENDER, "bad_sender")   /* its link address names no other station */                           \
	D(ARP_DROP_BAD_ADDRESS, "bad_address") /* the sender is no host, or no neighbour and does not ask for us */    \
	D(ARP_DROP_CONFLICT, "conflict")       /* another station claims our address */                                \
	D(ARP_DROP_UNASKED, "unasked")         /* a reply */                                                           \
	D(ARP_DROP_QUEUE_FULL, "queue_full") /* the oldest of too many queued for a host, or one of too many in all */ \
	D(ARP_DROP_UNRESOLVED, "unresolved") /* no answer */                                                           \
	D(ARP_DROP_TABLE_FULL, "table_full") /* all entries are being asked for */
XK_DROPS(arp, ARP_DROPS);

/* ---- packets ---- */

enum {
	ARP_ETHERNET = 1,
	ARP_IPV4 = 0x0800,
	ARP_LINK_LEN = 6,
	ARP_HOST_LEN = 4,
	ARP_REQUEST = 1,
	ARP_REPLY = 2,
};

static const struct xk_field_value arp_operations[] = { { ARP_REQUEST, "request" },
							{ ARP_REPLY, "reply" },
							{ 0, NULL } };

#define ARP_HEADER(F)                                                                                                  \
	F(16, hardware, .kind = XK_FIXED, .usual = ARP_ETHERNET, .help = "Ethernet")                                   \
	F(16, protocol, .kind = XK_FIXED, .print = XK_PRINT_HEX, .usual = ARP_IPV4, .help = "IPv4")                    \
	F(8, hardware_length, .kind = XK_FIXED, .usual = ARP_LINK_LEN)                                                 \
	F(8, protocol_length, .kind = XK_FIXED, .usual = ARP_HOST_LEN)                                                 \
	F(16, operation, .values = arp_operations)                                                                     \
	F(48, sender_link, .print = XK_PRINT_LINK, .help = "a station's; the frame may be another's")                  \
	F(32, sender_host, .print = XK_PRINT_HOST, .help = "0: a probe")                                               \
	F(48, target_link, .print = XK_PRINT_LINK, .help = "not looked at")                                            \
	F(32, target_host, .print = XK_PRINT_HOST)
XK_HEADER(arp, ARP_HEADER);
XK_FIELDS(arp, ARP_HEADER);

/* Returns 0, or the reason to drop packet h. */
static unsigned
arp_header_check(const struct arp_header *h)
{
	if (h->hardware != ARP_ETHERNET)
		return ARP_DROP_BAD_HARDWARE;
	if (h->protocol != ARP_IPV4)
		return ARP_DROP_BAD_PROTOCOL;
	if (h->hardware_length != ARP_LINK_LEN || h->protocol_length != ARP_HOST_LEN)
		return XK_DROP_BAD_LENGTH;
	if (h->operation != ARP_REQUEST && h->operation != ARP_REPLY)
		return ARP_DROP_BAD_OPERATION;
	return XK_DROP_NONE;
}

/*
 * Sends packet h, whose first four fields are filled in here, to the station `link` (0: to all), on lls if that leads
 * there (NULL: it does not), and counts it. Returns 0, or the reason to drop what it answers.
 */
static unsigned
arp_send(struct arp *arp, struct arp_header h, uint64_t link, struct xk_session *lls, unsigned counter)
{
	struct xk_participants participants = { .remote = { 1, { link } } };
	struct xk_session *opened = NULL;
	struct xk_protocol *self = &arp->protocol;
	struct xk_msg *m = xk_msg_new(xk_platform_of(self), XK_HEADER_LEN(arp));
	uint64_t peer;

	if (m == NULL)
		return XK_DROP_NO_BUFFER;
	if (link != 0 && (lls == NULL || xk_control(lls, XK_GET_PEER_LINK, &peer) != 0 || peer != link)) {
		if (xk_open(self, self, xk_lower(self, 0), &participants, &opened) != 0) {
			xk_msg_free(m);
			return XK_DROP_NO_MEMORY;
		}
		lls = opened;
	}
	h.hardware = ARP_ETHERNET;
	h.protocol = ARP_IPV4;
	h.hardware_length = ARP_LINK_LEN;
	h.protocol_length = ARP_HOST_LEN;
	h.sender_link = arp->link;
	arp_store(m->data, &h);
	xk_count(self, counter);
	xk_push(link != 0 ? lls : arp->broadcast, m);
	xk_close(opened);
	return XK_DROP_NONE;
}

void
arp_own_send(struct arp *arp, uint32_t sender, unsigned counter)
{
	struct arp_header h = { .operation = ARP_REQUEST, .sender_host = sender, .target_host = arp->wanted.host };

	arp_send(arp, h, 0, NULL, counter);
}

/* ---- work for after the lock ---- */

struct arp_todo {
	struct arp_queue queue;     /* messages to be sent to link, or dropped */
	uint64_t link;              /* 0: drop them */
	struct xk_msg *oldest;      /* dropped to make room in a queue; NULL: none */
	struct xk_neighbour *moved; /* some of its followers may send to another link address; NULL: none */
	uint32_t own, asked;        /* asked: the host to be asked for; 0: none */
	uint64_t station;           /* the only one to be asked; 0: broadcast */
};

/* Takes the lock, with nothing to do yet. */
static void
arp_lock(struct arp *arp, struct arp_todo *todo)
{
	*todo = (struct arp_todo){ .link = 0 };
	STAILQ_INIT(&todo->queue);
	xk_lock(&arp->lock);
	todo->own = arp->network.host;
}

/* Ends following. The lock is held. */
static void
arp_end_following(struct xk_arp_follower *f)
{
	if (f->neighbour != NULL)
		LIST_REMOVE(f, next);
	f->neighbour = NULL;
}

/* Ends following until f asks: the address is in doubt. The lock is held. */
static void
arp_doubt_follower(struct arp *arp, struct xk_arp_follower *f)
{
	arp_end_following(f);
	arp->user.doubted(f);
}

/*
 * Notifies the followers of e that send to another link address, one at a time and without the lock: each takes time,
 * and the address may change meanwhile.
 */
static void
arp_notify_followers(struct arp *arp, struct xk_neighbour *e)
{
	struct xk_arp_follower *f;
	uint64_t link;

	for (unsigned moves = 0;; moves++) {
		xk_lock(&arp->lock);
		link = e->link;
		f = e->state == ARP_KNOWN ? LIST_FIRST(&e->followers) : NULL;
		while (f != NULL && (f->link == link || !xk_duplicate(f->session)))
			f = LIST_NEXT(f, next);
		xk_unlock(&arp->lock);
		if (f == NULL)
			return;
		if (moves >= ARP_MOVES || arp->user.moved(f, link) != 0) {
			xk_lock(&arp->lock);
			arp_doubt_follower(arp, f);
			xk_unlock(&arp->lock);
		}
		xk_session_release(f->session);
	}
}

/* Notifies followers, sends or drops messages, and sends a request. */
static void
arp_finish(struct arp *arp, struct arp_todo *todo)
{
	struct arp_header h = { .operation = ARP_REQUEST, .sender_host = todo->own, .target_host = todo->asked };
	struct arp_waiting *waiting;

	if (todo->moved != NULL)
		arp_notify_followers(arp, todo->moved);
	while ((waiting = STAILQ_FIRST(&todo->queue)) != NULL) {
		const struct xk_arp_output *output = &waiting->output;

		STAILQ_REMOVE_HEAD(&todo->queue, next);
		if (todo->link != 0) {
			arp->user.send(&arp->user, output, todo->link);
		} else {
			arp->user.unsent(&arp->user, output);
			xk_drop(&arp->protocol, output->m, ARP_DROP_UNRESOLVED);
		}
		free(waiting);
	}
	if (todo->oldest != NULL)
		xk_drop(&arp->protocol, todo->oldest, ARP_DROP_QUEUE_FULL);
	if (todo->asked != 0 && todo->own != 0 &&
	    arp_send(arp, h, todo->station, NULL, ARP_COUNT_REQUESTS_OUT) == XK_DROP_NONE && todo->station != 0)
		xk_count(&arp->protocol, ARP_COUNT_POLLS); /* if it fails, the timer sends the next one */
}

static void
arp_unlock(struct arp *arp, struct arp_todo *todo)
{
	xk_unlock(&arp->lock);
	arp_finish(arp, todo);
}

/* ---- the table; the lock is held ---- */

/* Returns the neighbour `host`, ASKING or KNOWN (perhaps too old), or NULL. */
static struct xk_neighbour *
arp_find(struct arp *arp, uint32_t host)
{
	return xk_map_resolve(&arp->hosts, (struct xk_key){ host, 0 });
}

/* Returns whether e's link address is trusted. */
static bool
arp_is_known(const struct xk_neighbour *e)
{
	return e->state == ARP_KNOWN && xk_now_ns(&e->arp->protocol) < e->expires_ns;
}

/* Returns whether e's old station is being asked, and no other yet: messages still go there. */
static bool
arp_is_polling(const struct xk_neighbour *e)
{
	return e->state == ARP_ASKING && e->tries <= 0 && e->link != 0;
}

/* Makes e the most recently used of `state`, which it is in from now on. */
static void
arp_use(struct xk_neighbour *e, enum arp_state state)
{
	struct arp *arp = e->arp;

	TAILQ_REMOVE(&arp->lists[e->state], e, by_use);
	arp->asking_count += (state == ARP_ASKING) - (e->state == ARP_ASKING);
	e->state = state;
	TAILQ_INSERT_TAIL(&arp->lists[state], e, by_use);
}

/* Sets the timer to fire when e becomes too old. */
static void
arp_schedule(struct xk_neighbour *e)
{
	uint64_t now_ns = xk_now_ns(&e->arp->protocol);

	xk_event_schedule(&e->timer, e->expires_ns <= now_ns ? 0 : (e->expires_ns - now_ns) / 1000 + 1);
}

/* Answers what waits for e with link (0: there is none). */
static void
arp_answer(struct xk_neighbour *e, uint64_t link, struct arp_todo *todo)
{
	struct arp_waiter *waiter;

	while ((waiter = LIST_FIRST(&e->waiters)) != NULL) {
		LIST_REMOVE(waiter, next);
		waiter->is_over = true;
		waiter->link = link;
		xk_semaphore_signal(&waiter->answered);
	}
	STAILQ_CONCAT(&todo->queue, &e->queue);
	todo->link = link;
	e->arp->waiting_count -= e->queued;
	e->queued = 0;
}

static void
arp_doubt_followers(struct xk_neighbour *e)
{
	struct xk_arp_follower *f;

	while ((f = LIST_FIRST(&e->followers)) != NULL)
		arp_doubt_follower(e->arp, f);
}

/* Takes e, ASKING or KNOWN, out of the table. */
static void
arp_remove(struct xk_neighbour *e, struct arp_todo *todo)
{
	arp_answer(e, 0, todo);
	arp_doubt_followers(e);
	xk_map_unbind(&e->arp->hosts, &e->binding);
	arp_use(e, ARP_FREE);
	/*
	 * A timer that fires already waits for the lock. It then finds e free, where it does nothing; or used again: it
	 * sends the next request early, so that the host has up to `timeout` less to answer, or ages a known address
	 * early.
	 */
	xk_event_cancel(&e->timer);
}

/*
 * Makes e ASKING, with a broadcast request; or (todo is NULL) the timer asks: first e's old station, if any, then all.
 */
static void
arp_ask(struct xk_neighbour *e, struct arp_todo *todo)
{
	const struct arp *arp = e->arp;

	if (e->state != ARP_ASKING)
		arp_use(e, ARP_ASKING);
	e->tries = todo != NULL ? 1 : e->link != 0 ? -1 : 0;
	e->is_doubted = false;
	e->verify_ns = xk_now_ns(&arp->protocol) + arp->verify_gap_ns;
	xk_event_schedule(&e->timer, todo != NULL ? arp->timeout_ns / 1000 : 0);
	if (todo != NULL)
		todo->asked = e->host;
}

/*
 * Makes e KNOWN, or confirms it. An address that replaces another without a query, or while only the old station is
 * asked, may be wrong: it is trusted only for the time of an unanswered query, and repeating it does not prolong that.
 */
static void
arp_learn(struct xk_neighbour *e, uint64_t link, struct arp_todo *todo)
{
	struct arp *arp = e->arp;
	uint64_t believed_ns = arp->age_ns, soon_ns = arp->timeout_ns * arp->tries;
	bool was_known = e->state == ARP_KNOWN || (arp_is_polling(e) && e->link != link);

	if (!was_known || !e->is_doubted) {
		e->is_doubted = was_known && e->link != link;
		if (e->is_doubted && soon_ns < believed_ns)
			believed_ns = soon_ns;
		e->expires_ns = xk_now_ns(&arp->protocol) + believed_ns;
	}
	if (e->state == ARP_ASKING) {
		xk_event_cancel(&e->timer);
		arp_answer(e, link, todo);
	}
	if (e->state != ARP_KNOWN) /* packets of others do not count as use */
		arp_use(e, ARP_KNOWN);
	if (!LIST_EMPTY(&e->followers)) {
		if (e->link != 0 && e->link != link)
			xk_count(&arp->protocol, ARP_COUNT_MOVED);
		arp_schedule(e);
		todo->moved = e;
	}
	e->link = link;
}

/*
 * Asks again, or gives up, if there is no answer. Notifies followers that send elsewhere or whose address is too old.
 */
static void
arp_timeout(struct xk_event *event, void *argument)
{
	struct xk_neighbour *e = argument;
	struct arp *arp = e->arp;
	struct arp_todo todo;

	arp_lock(arp, &todo);
	if (e->state == ARP_ASKING && e->tries < (int)arp->tries) {
		todo.asked = e->host;
		todo.station = e->tries < 0 ? e->link : 0;
		e->tries++;
		xk_event_schedule(event, arp->timeout_ns / 1000);
	} else if (e->state == ARP_ASKING) {
		if (!LIST_EMPTY(&e->followers))
			xk_count(&arp->protocol, ARP_COUNT_LOST);
		arp_remove(e, &todo);
		xk_count(&arp->protocol, ARP_COUNT_UNREACHABLE);
		xk_trace(&arp->protocol, XK_TRACE_EVENTS, "host %08x does not answer", e->host);
	} else if (!LIST_EMPTY(&e->followers) && arp_is_known(e)) {
		todo.moved = e;
		arp_schedule(e);
	} else {
		arp_doubt_followers(e);
	}
	arp_unlock(arp, &todo);
}

/*
 * Returns the least recently used neighbour of a state that may be replaced, or NULL: no shepherd waits for it, and a
 * foreign thread leaves alone those with followers or messages: notifying their protocols opens sessions.
 */
static struct xk_neighbour *
arp_oldest(struct arp *arp, enum arp_state state)
{
	struct xk_neighbour *e = TAILQ_FIRST(&arp->lists[state]);
	bool is_foreign = xk_self() == NULL;

	while (e != NULL && (!LIST_EMPTY(&e->waiters) || (is_foreign && (!LIST_EMPTY(&e->followers) || e->queued > 0))))
		e = TAILQ_NEXT(e, by_use);
	return e;
}

/*
 * Makes an entry for host, which has none; the caller sets its state. A stranger's (`learning`) replaces no host that
 * this one asks for. Returns NULL if none may be replaced, or no memory.
 */
static struct xk_neighbour *
arp_insert(struct arp *arp, uint32_t host, bool learning, struct arp_todo *todo)
{
	struct xk_neighbour *e = TAILQ_FIRST(&arp->lists[ARP_FREE]), *asking;

	if (e == NULL && arp->entry_count < arp->entry_max && (e = calloc(1, sizeof(*e))) != NULL) {
		arp->entry_count++;
		e->arp = arp;
		STAILQ_INIT(&e->queue);
		xk_event_init(&e->timer, arp->protocol.kernel, arp_timeout, e);
		TAILQ_INSERT_TAIL(&arp->lists[ARP_FREE], e, by_use);
	}
	if (e == NULL) {
		e = arp_oldest(arp, ARP_KNOWN);
		asking = arp_oldest(arp, ARP_ASKING);
		if (!learning && asking != NULL && (e == NULL || arp->asking_count * 2 >= arp->entry_max))
			e = asking;
		if (e == NULL)
			return NULL;
		arp_remove(e, todo);
		xk_count(&arp->protocol, ARP_COUNT_REPLACED);
	}
	if (xk_map_bind(&arp->hosts, &e->binding, (struct xk_key){ host, 0 }, e) != 0)
		return NULL;
	e->host = host;
	e->link = 0;
	e->verify_ns = 0;
	return e;
}

/* ---- questions from above ---- */

/* Returns whether host can be a host on network, or on another one. */
static bool
arp_is_on(const struct xk_network *network, uint32_t host, bool another)
{
	bool is_on = ((host ^ network->host) & (uint32_t)(UINT64_MAX << (32 - network->bits))) == 0;

	return is_on != another && xk_host_refusal(host, is_on ? network->bits : 32) == NULL;
}

static bool
arp_is_neighbour(const struct arp *arp, uint32_t host)
{
	return arp_is_on(&arp->network, host, false) || (host == arp->onlink && host != 0);
}

/*
 * Finds or makes the neighbour `host`, KNOWN and trusted, or ASKING. `verifies`: if it asks, then first e's old
 * station. Returns 0; -EHOSTUNREACH: it is none, or this host has no address; -ENOBUFS: none may be replaced. The lock
 * is held.
 */
static int
arp_get(struct arp *arp, uint32_t host, bool verifies, struct xk_neighbour **found, struct arp_todo *todo)
{
	struct xk_neighbour *e = arp_find(arp, host);

	if (arp->network.host == 0 || host == arp->network.host || !arp_is_neighbour(arp, host))
		return -EHOSTUNREACH;
	if (e == NULL)
		e = arp_insert(arp, host, false, todo);
	if (e == NULL)
		return -ENOBUFS;
	arp_use(e, e->state);
	if (e->state != ARP_ASKING && !arp_is_known(e))
		arp_ask(e, verifies ? NULL : todo);
	*found = e;
	return 0;
}

static int
arp_resolve(struct xk_protocol *self, uint32_t host, uint64_t *link)
{
	struct arp *arp = (struct arp *)self;
	struct arp_waiter waiter = { .is_over = false };
	struct xk_neighbour *e;
	struct arp_todo todo;
	int err;

	arp_lock(arp, &todo);
	err = arp_get(arp, host, false, &e, &todo);
	if (err == 0 && e->state == ARP_ASKING) {
		xk_semaphore_init(&waiter.answered, self, 0);
		LIST_INSERT_HEAD(&e->waiters, &waiter, next);
		arp_unlock(arp, &todo);
		err = xk_semaphore_wait(&waiter.answered, XK_UNTIL_SIGNALLED);
		arp_lock(arp, &todo);
		if (!waiter.is_over)
			LIST_REMOVE(&waiter, next);
		if (err == 0 && waiter.link == 0)
			err = -EHOSTUNREACH;
		*link = err == 0 ? waiter.link : *link;
	} else if (err == 0) {
		*link = e->link;
	}
	arp_unlock(arp, &todo);
	return err;
}

static uint64_t
arp_known(struct xk_protocol *self, uint32_t host)
{
	struct arp *arp = (struct arp *)self;
	struct xk_neighbour *e;
	uint64_t link = 0;

	xk_lock(&arp->lock);
	e = arp_find(arp, host);
	if (e != NULL && arp_is_known(e)) {
		arp_use(e, ARP_KNOWN);
		link = e->link;
	}
	xk_unlock(&arp->lock);
	return link;
}

static int
arp_follow(struct xk_protocol *self, struct xk_arp_follower *f, uint32_t host, bool asks)
{
	struct arp *arp = (struct arp *)self;
	struct xk_neighbour *e;
	struct arp_todo todo;
	int err = 0;

	arp_lock(arp, &todo);
	e = arp_find(arp, host);
	if (f->session == NULL || (!asks && (e == NULL || (e->state != ARP_ASKING && !arp_is_known(e)))))
		err = -ENOENT;
	else
		err = arp_get(arp, host, true, &e, &todo);
	if (err == 0) {
		arp_end_following(f);
		if (e->state == ARP_KNOWN && f->link != e->link && asks)
			xk_event_schedule(&e->timer, 0); /* which notifies it: foreign threads open no sessions */
		else if (e->state == ARP_KNOWN && LIST_EMPTY(&e->followers))
			arp_schedule(e);
		if (e->state == ARP_ASKING || (f->link != e->link && asks))
			err = -EINPROGRESS;
		todo.moved = asks ? NULL : e;
		f->neighbour = e;
		LIST_INSERT_HEAD(&e->followers, f, next);
	}
	arp_unlock(arp, &todo);
	return err;
}

static void
arp_unfollow(struct xk_protocol *self, struct xk_arp_follower *f)
{
	struct arp *arp = (struct arp *)self;

	xk_lock(&arp->lock);
	arp_end_following(f);
	f->session = NULL;
	xk_unlock(&arp->lock);
}

/* Queues output for e, which is ASKING; keeps the latest (RFC 1122, 2.3.2.2). Returns 0, or the reason to drop it. */
static unsigned
arp_enqueue(struct xk_neighbour *e, const struct xk_arp_output *output, struct arp_todo *todo)
{
	struct arp *arp = e->arp;
	bool is_full = arp->waiting_count >= ARP_QUEUES * arp->entry_max;
	struct arp_waiting *waiting;

	if (e->queued == 0 && is_full)
		return ARP_DROP_QUEUE_FULL;
	if (e->queued == arp->queue_max || is_full) {
		waiting = STAILQ_FIRST(&e->queue);
		STAILQ_REMOVE_HEAD(&e->queue, next);
		todo->oldest = waiting->output.m;
	} else {
		waiting = malloc(sizeof(*waiting));
		if (waiting == NULL)
			return XK_DROP_NO_MEMORY;
		e->queued++;
		arp->waiting_count++;
	}
	waiting->output = *output;
	STAILQ_INSERT_TAIL(&e->queue, waiting, next);
	return XK_DROP_NONE;
}

/* Returns whether e became too old recently: messages still go to its station while that is asked. */
static bool
arp_is_stale(const struct xk_neighbour *e)
{
	uint64_t now_ns = xk_now_ns(&e->arp->protocol);

	return e->state == ARP_KNOWN && !e->is_doubted && now_ns >= e->expires_ns &&
	       now_ns - e->expires_ns < e->arp->age_ns;
}

static int
arp_output(struct xk_protocol *self, uint32_t host, const struct xk_arp_output *output)
{
	struct arp *arp = (struct arp *)self;
	unsigned why = XK_DROP_NONE;
	struct xk_neighbour *e;
	struct arp_todo todo;
	uint64_t link = 0;
	int err;

	arp_lock(arp, &todo);
	e = arp_find(arp, host);
	err = arp_get(arp, host, e != NULL && arp_is_stale(e), &e, &todo);
	if (err != 0)
		why = err == -EHOSTUNREACH ? ARP_DROP_UNRESOLVED : ARP_DROP_TABLE_FULL;
	else if (e->state == ARP_KNOWN || arp_is_polling(e))
		link = e->link;
	else
		why = arp_enqueue(e, output, &todo);
	arp_unlock(arp, &todo);
	if (why != XK_DROP_NONE) {
		xk_drop(self, output->m, why);
		return -ENOBUFS;
	}
	if (link != 0)
		arp->user.send(&arp->user, output, link);
	return 0;
}

static void
arp_unanswered(struct xk_protocol *self, uint32_t host, uint64_t link)
{
	struct arp *arp = (struct arp *)self;
	struct xk_neighbour *e;

	xk_lock(&arp->lock);
	e = arp_find(arp, host);
	if (arp->verify_gap_ns != 0 && e != NULL && arp_is_known(e) && (link == 0 || e->link == link) &&
	    xk_now_ns(self) >= e->verify_ns) {
		xk_count(self, ARP_COUNT_VERIFIED);
		arp_ask(e, NULL);
	}
	xk_unlock(&arp->lock);
}

static void
arp_doubt(struct xk_protocol *self, uint32_t host, uint64_t link)
{
	struct arp *arp = (struct arp *)self;
	struct xk_neighbour *e;
	struct arp_todo todo;

	arp_lock(arp, &todo);
	e = arp_find(arp, host);
	if (e != NULL && (arp_is_known(e) || arp_is_polling(e)) && e->link != link)
		arp_ask(e, &todo);
	arp_unlock(arp, &todo);
}

static void
arp_set_user(struct xk_protocol *self, const struct xk_arp_user *user, uint32_t onlink)
{
	((struct arp *)self)->user = *user;
	((struct arp *)self)->onlink = onlink;
}

/* ---- arriving packets ---- */

/*
 * Returns whether packets may go to link. The frame's source may differ: a virtual router's packets name its virtual
 * link address (RFC 5798, 8.1.2). Group addresses are refused (RFC 1812, 3.3.2).
 */
static bool
arp_is_station(const struct arp *arp, uint64_t link)
{
	return link != 0 && link != arp->link && !xk_eth_is_group(link);
}

/*
 * Learns from a packet (RFC 826's merge), unless this host has no address. Makes a new entry only if this host is asked
 * for (`mine`). A request is answered whatever network its sender is on, but nothing is learned of other networks.
 * Returns 0, or the reason to drop the packet. The lock is held.
 */
static unsigned
arp_receive(struct arp *arp, const struct arp_header *packet, bool mine, struct arp_todo *todo)
{
	bool is_reply = packet->operation == ARP_REPLY, announces = packet->sender_host == packet->target_host;
	struct xk_neighbour *e;

	if (todo->own == 0)
		return is_reply ? ARP_DROP_UNASKED : XK_DROP_NONE;
	if (!is_reply && packet->sender_host == 0) /* a probe (RFC 5227) */
		return XK_DROP_NONE;
	if (!arp_is_neighbour(arp, packet->sender_host)) {
		if (is_reply || !mine || !arp_is_on(&arp->network, packet->sender_host, true))
			return ARP_DROP_BAD_ADDRESS;
		xk_count(&arp->protocol, ARP_COUNT_FOREIGN);
		return XK_DROP_NONE;
	}
	e = arp_find(arp, packet->sender_host);
	if (is_reply && (e == NULL || (!mine && !announces)))
		return ARP_DROP_UNASKED;
	if (e == NULL && mine) {
		e = arp_insert(arp, packet->sender_host, true, todo);
		if (e != NULL)
			xk_count(&arp->protocol, ARP_COUNT_LEARNED);
	}
	if (e != NULL)
		arp_learn(e, packet->sender_link, todo);
	return XK_DROP_NONE;
}

static void
arp_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct arp *arp = (struct arp *)self;
	struct arp_header packet = arp_load(m->data), answer = { .operation = ARP_REPLY,
								 .sender_host = packet.target_host,
								 .target_link = packet.sender_link,
								 .target_host = packet.sender_host };
	bool mine, asks = packet.operation == ARP_REQUEST;
	unsigned why = arp_header_check(&packet);
	struct arp_todo todo;

	xk_msg_pop_in_place(m, XK_HEADER_LEN(arp));
	if (why == XK_DROP_NONE && !arp_is_station(arp, packet.sender_link))
		why = ARP_DROP_BAD_SENDER;
	if (why == XK_DROP_NONE &&
	    arp_own_is_claimed(arp, packet.sender_link, packet.sender_host, packet.target_host, asks))
		why = ARP_DROP_CONFLICT;
	if (why != XK_DROP_NONE) {
		xk_drop(self, m, why);
		return;
	}
	arp_lock(arp, &todo);
	mine = todo.own != 0 && packet.target_host == todo.own;
	why = arp_receive(arp, &packet, mine, &todo);
	xk_unlock(&arp->lock);
	if (why == XK_DROP_NONE)
		xk_count(self, !asks ? ARP_COUNT_REPLIES_IN : mine ? ARP_COUNT_REQUESTS_IN : ARP_COUNT_OTHERS);
	if (why == XK_DROP_NONE && asks && mine)
		why = arp_send(arp, answer, packet.sender_link, lls, ARP_COUNT_REPLIES_OUT);
	if (why == XK_DROP_NONE)
		xk_msg_free(m); /* only padding is left */
	else
		xk_drop(self, m, why);
	arp_finish(arp, &todo);
}

/* ---- promises ---- */

/* Checks a neighbour that is in the list of `state`, and adds what waits in its queue to *queued. */
static const char *
arp_neighbour_promise(const struct xk_neighbour *e, enum arp_state state, uint64_t *queued)
{
	bool is_waited_for = !LIST_EMPTY(&e->waiters) || e->queued > 0, has_followers = !LIST_EMPTY(&e->followers);
	const struct arp_waiting *waiting;
	unsigned count = 0;

	for (waiting = STAILQ_FIRST(&e->queue); waiting != NULL; waiting = STAILQ_NEXT(waiting, next))
		count++;
	*queued += count;
	if (e->state != state)
		return "a neighbour is in a list of another state";
	if (count != e->queued || count > e->arp->queue_max)
		return "a queue has another length than counted, or too many messages";
	if (is_waited_for && state != ARP_ASKING)
		return "something waits for an address that nobody asks for";
	if (has_followers && state == ARP_FREE)
		return "a session follows a neighbour that was forgotten";
	if ((state == ARP_ASKING || has_followers) && !xk_event_is_awaited(&e->timer))
		return state == ARP_ASKING ? "a neighbour is asked for without a timer"
					   : "a followed neighbour's address never becomes too old";
	return NULL;
}

static const char *
arp_promise(struct xk_protocol *self, bool at_rest)
{
	const struct arp *arp = (const struct arp *)self;
	uint64_t counts[ARP_STATES] = { 0 }, queued = 0;
	const struct xk_neighbour *e;
	const char *why = NULL;

	for (unsigned state = 0; state < ARP_STATES; state++)
		for (e = TAILQ_FIRST(&arp->lists[state]); e != NULL; e = TAILQ_NEXT(e, by_use)) {
			counts[state]++;
			why = why == NULL ? arp_neighbour_promise(e, (enum arp_state)state, &queued) : why;
		}
	if (why != NULL)
		return why;
	if (counts[ARP_FREE] + counts[ARP_ASKING] + counts[ARP_KNOWN] != arp->entry_count ||
	    counts[ARP_ASKING] != arp->asking_count || arp->entry_count > arp->entry_max)
		return "the number of neighbours, or of those asked for, is wrong";
	if (queued != arp->waiting_count || queued > ARP_QUEUES * arp->entry_max)
		return "the number of queued messages is wrong";
	return at_rest && counts[ARP_ASKING] > 0 ? "a neighbour has neither answered nor been given up" : NULL;
}

/* ---- init and tables ---- */

static void
arp_fini(struct xk_protocol *self)
{
	struct arp *arp = (struct arp *)self;
	struct xk_participants nobody = { .remote.depth = 0 };
	struct arp_waiting *waiting;
	struct xk_neighbour *e;

	xk_event_cancel(&arp->own);
	xk_open_disable(self, self, xk_lower(self, 0), &nobody);
	xk_close(arp->broadcast);
	for (unsigned i = 0; i < ARP_STATES; i++)
		while ((e = TAILQ_FIRST(&arp->lists[i])) != NULL) {
			TAILQ_REMOVE(&arp->lists[i], e, by_use);
			xk_event_cancel(&e->timer);
			while ((waiting = STAILQ_FIRST(&e->queue)) != NULL) {
				STAILQ_REMOVE_HEAD(&e->queue, next);
				xk_msg_free(waiting->output.m);
				free(waiting);
			}
			free(e);
		}
	xk_map_fini(&arp->hosts);
}

static int
arp_init(struct xk_protocol *self)
{
	struct arp *arp = (struct arp *)self;
	struct xk_protocol *eth = xk_lower(self, 0);
	struct xk_participants everybody = { .remote = { 1, { XK_ETH_BROADCAST } } }, nobody = { .remote.depth = 0 };
	int err = xk_map_init(&arp->hosts, self->kernel, (unsigned)arp->entry_max);

	if (err != 0)
		return err;
	xk_lock_init(&arp->lock, self);
	for (unsigned i = 0; i < ARP_STATES; i++)
		TAILQ_INIT(&arp->lists[i]);
	xk_event_init(&arp->own, self->kernel, arp_own_tick, arp);
	err = xk_control_protocol(eth, XK_GET_LINK_ADDRESS, &arp->link);
	if (err >= 0)
		err = xk_open(self, self, eth, &everybody, &arp->broadcast);
	if (err == 0)
		err = xk_open_enable(self, self, eth, &nobody);
	if (err != 0)
		arp_fini(self);
	return err;
}

/* Stations may have missed the announcements while the link was down. */
static void
arp_port_changed(struct xk_protocol *self)
{
	arp_own_announce((struct arp *)self);
}

static const struct xk_arp_ops arp_neighbour_ops = {
	.set_user = arp_set_user,
	.set_address = arp_own_set,
	.resolve = arp_resolve,
	.known = arp_known,
	.follow = arp_follow,
	.unfollow = arp_unfollow,
	.output = arp_output,
	.unanswered = arp_unanswered,
	.doubt = arp_doubt,
};

static const struct xk_protocol_ops arp_ops = {
	.init = arp_init,
	.fini = arp_fini,
	.demux = arp_demux,
	.port_changed = arp_port_changed,
	.promise = arp_promise,
};

static const struct xk_role arp_lowers[] = {
	{ "link", XK_ASYNC, NULL, "the link whose addresses are resolved" },
	{ NULL, 0, NULL, NULL },
};

static const char *const arp_policies[] = { "defend", "once", "leave", NULL }; /* enum arp_policy */

static const struct xk_setting arp_settings[] = {
	XK_SETTING(UINT, struct arp, entry_max, "entries", "maximum number of hosts in the table", .initial = "256",
		   .min = 1, .max = 1 << 20),
	XK_SETTING(UINT, struct arp, queue_max, "queue", "maximum number of messages queued for one host",
		   .initial = "48", .min = 1, .max = 1024),
	XK_SETTING(TIME, struct arp, age_ns, "age", "how long an answer is trusted", .initial = "30s", .min = 1000,
		   .max = UINT64_C(86400000000000)),
	XK_SETTING(TIME, struct arp, timeout_ns, "timeout", "time until the next request", .initial = "500ms",
		   .min = 1000, .max = UINT64_C(60000000000)),
	XK_SETTING(UINT, struct arp, tries, "tries", "requests before a host is unreachable", .initial = "3", .min = 1,
		   .max = 100),
	XK_SETTING(
		TIME, struct arp, verify_gap_ns, "verify",
		"minimum time between verifications of the address of a host that does not answer its callers; 0: none",
		.initial = "1s", .max = UINT64_C(86400000000000)),
	XK_SETTING(UINT, struct arp, announcements, "announcements",
		   "announcements of this host's address, 2s apart, when it is set; programs set 2 for real links",
		   .initial = "0", .max = 10),
	XK_SETTING(BOOL, struct arp, probe, "probe", "probe this host's address for 5 to 8 seconds before it is used",
		   .initial = "no"),
	XK_SETTING(CHOICE, struct arp, policy, "conflict",
		   "the reaction if another station uses this host's address: defend: announce it again, at most "
		   "every 10s; once: the same, but leave it at the next conflict within 10s; leave: leave it at once. "
		   "An address that was left is probed every minute",
		   .initial = "defend", .choices = arp_policies),
	{ .name = NULL },
};

static const struct xk_number_on arp_numbers[] = { { "eth", 0x0806 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_arp = {
	.name = "arp",
	.help = "Address resolution: the link addresses of neighbours, asked for and answered.",
	.ops = &arp_ops,
	.header = XK_HEADER_LEN(arp),
	.fields = arp_fields,
	.size = sizeof(struct arp),
	.offers = XK_CONTROL,
	.lowers = arp_lowers,
	.numbers = arp_numbers,
	.settings = arp_settings,
	.drops = arp_drops,
	.counters = arp_counters,
	.neighbour_ops = &arp_neighbour_ops,
};
