/*
 * arp.c - the link addresses of neighbours, asked for and answered.
 *
 * Spec:         RFC 826, for IPv4 over Ethernet; the packet is a header of 28 bytes, without a payload
 * Participants: none; VNET calls it (arp.h)
 * Learning:     An entry is made when this host asks, or is asked; every other packet at most updates an existing entry
 *               (RFC 826's merge). The sender's link address is the packet's, not the frame's: they differ for virtual
 *               routers. Requests from other hosts than neighbours are answered and teach nothing.
 * Table:        bounded; the least recently used entry makes room, unless a shepherd waits for it. Strangers can make
 *               this host ask for any number of hosts that do not exist (by forwarding, or by answering). Therefore,
 *               once unresolved hosts fill half of a full table, they replace one another, and known hosts stay.
 * Following:    A sender that uses a host for long is told when its link address changes, becomes too old or is lost.
 *               Its next use asks again: first the known station, then all (RFC 1122, 2.3.2.1). The advice that a host
 *               does not answer has the same effect. Unused addresses are not asked for. An unsolicited change of
 *               address is believed only for the time that a query takes, so a wrong one does not last.
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

enum { ARP_QUEUES = 4 }; /* queued messages in all, per entry of the table */

#define ARP_COUNTERS(C)                                                                                                \
	C(ARP_COUNT_REQUESTS_IN, "requests_in")                                                                        \
	C(ARP_COUNT_REPLIES_IN, "replies_in")                                                                          \
	C(ARP_COUNT_OTHERS, "others") /* requests for others */                                                        \
	C(ARP_COUNT_REQUESTS_OUT, "requests_out")                                                                      \
	C(ARP_COUNT_REPLIES_OUT, "replies_out")                                                                        \
	C(ARP_COUNT_LEARNED, "learned")         /* entries made from requests to this host */                          \
	C(ARP_COUNT_REPLACED, "replaced")       /* entries that made room */                                           \
	C(ARP_COUNT_UNREACHABLE, "unreachable") /* hosts that did not answer */                                        \
	C(ARP_COUNT_POLLS, "polls")             /* requests to one station */                                          \
	C(ARP_COUNT_MOVED, "moved")             /* followed hosts, to another link address */                          \
	C(ARP_COUNT_LOST, "lost")               /* followed hosts that did not answer */                               \
	C(ARP_COUNT_FOREIGN, "foreign")         /* requests to this host from outside its network */                   \
	C(ARP_COUNT_VERIFIED, "verified")       /* addresses asked for again because their hosts do not answer */      \
	C(ARP_COUNT_PROBES, "probes")                                                                                  \
	C(ARP_COUNT_ANNOUNCEMENTS, "announcements")                                                                    \
	C(ARP_COUNT_DEFENDED, "defended") /* announcements because another station claims our address */               \
	C(ARP_COUNT_LEFT, "left")         /* addresses left because another station uses them */
XK_COUNTERS(arp, ARP_COUNTERS);

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

/* Returns packet h, whose first four fields are filled in; NULL: no buffer. */
static struct xk_msg *
arp_packet_new(struct xk_protocol *self, struct arp_header h)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(self), XK_HEADER_LEN(arp));

	h.hardware = ARP_ETHERNET;
	h.protocol = ARP_IPV4;
	h.hardware_length = ARP_LINK_LEN;
	h.protocol_length = ARP_HOST_LEN;
	if (m != NULL)
		arp_store(m->data, &h);
	return m;
}

/* ---- work for after the lock ---- */

/* Takes the lock, with nothing to do yet. */
static void
arp_lock(struct arp *arp, struct arp_todo *todo)
{
	*todo = (struct arp_todo){ .link = 0 };
	STAILQ_INIT(&todo->queue);
	xk_lock(&arp->lock);
	todo->own = arp->network.host;
}

/* Broadcasts a probe or an announcement of the own address. */
static void
arp_say(struct arp *arp, enum arp_says says)
{
	static const unsigned counters[] = { [ARP_SAYS_PROBE] = ARP_COUNT_PROBES,
					     [ARP_SAYS_ANNOUNCEMENT] = ARP_COUNT_ANNOUNCEMENTS,
					     [ARP_SAYS_DEFENCE] = ARP_COUNT_DEFENDED };
	uint32_t own = arp->wanted.host;
	struct arp_header h = { .operation = ARP_REQUEST,
				.sender_link = arp->link,
				.sender_host = says == ARP_SAYS_PROBE ? 0 : own,
				.target_host = own };
	struct xk_msg *m = arp_packet_new(&arp->protocol, h);

	if (m == NULL)
		return;
	xk_count(&arp->protocol, counters[says]);
	xk_push(arp->broadcast, m);
}

/* Tells the follower, sends or drops messages, and sends a request; without a buffer the timer sends the next one. */
static void
arp_finish(struct arp *arp, struct arp_todo *todo)
{
	struct xk_protocol *self = &arp->protocol;
	struct xk_participants participants = { .remote = { 1, { todo->station } } };
	struct arp_header h = {
		.operation = ARP_REQUEST, .sender_link = arp->link, .sender_host = todo->own, .target_host = todo->asked
	};
	struct xk_session *one = NULL;
	struct arp_waiting *waiting;
	struct xk_msg *m;

	if (todo->claimant != 0)
		arp_own_warn(arp, todo);
	if (todo->leaves)
		xk_count(self, ARP_COUNT_LEFT);
	if ((todo->is_used || todo->is_unused) && arp->user.used != NULL)
		arp->user.used(&arp->user, todo->is_used);
	if (todo->probes)
		arp_say(arp, ARP_SAYS_PROBE);
	if (todo->says != ARP_SAYS_NOTHING)
		arp_say(arp, todo->says);
	if (todo->changed != 0 && arp->follower.changed != NULL)
		arp->follower.changed(&arp->follower, todo->changed);
	while ((waiting = STAILQ_FIRST(&todo->queue)) != NULL) {
		const struct xk_arp_output *output = &waiting->output;

		STAILQ_REMOVE_HEAD(&todo->queue, next);
		if (todo->link != 0) {
			output->send(output, todo->link);
		} else {
			if (output->unsent != NULL)
				output->unsent(output);
			xk_drop(self, output->m, ARP_DROP_UNRESOLVED);
		}
		free(waiting);
	}
	if (todo->oldest != NULL)
		xk_drop(self, todo->oldest, ARP_DROP_QUEUE_FULL);
	if (todo->asked == 0 || todo->own == 0)
		return;
	if (todo->station != 0)
		xk_open(self, self, xk_lower(self, 0), &participants, &one); /* if it fails, all are asked */
	m = arp_packet_new(self, h);
	if (m != NULL) {
		xk_count(self, ARP_COUNT_REQUESTS_OUT);
		if (one != NULL)
			xk_count(self, ARP_COUNT_POLLS);
		xk_push(one != NULL ? one : arp->broadcast, m);
	}
	xk_close(one);
}

static void
arp_unlock(struct arp *arp, struct arp_todo *todo)
{
	xk_unlock(&arp->lock);
	arp_finish(arp, todo);
}

/* ---- the table; the lock is held ---- */

/* Multiplies by a random odd number, drawn at the first use: any two hosts collide under few seeds. */
static struct arp_bucket *
arp_bucket(struct arp *arp, uint32_t host)
{
	if (xk_unlikely(arp->seed == 0))
		arp->seed = xk_random(&arp->protocol) | 1;
	return &arp->buckets[host * arp->seed >> 32 & arp->bucket_mask];
}

/* Returns the entry of host, ASKING or KNOWN (perhaps too old), or NULL. */
static struct arp_entry *
arp_find(struct arp *arp, uint32_t host)
{
	struct arp_entry *e = LIST_FIRST(arp_bucket(arp, host));

	while (e != NULL && e->host != host)
		e = LIST_NEXT(e, bucket);
	return e;
}

/* Returns whether e's link address is believed. */
static bool
arp_is_known(struct arp *arp, const struct arp_entry *e)
{
	return e->state == ARP_KNOWN && xk_now_ns(&arp->protocol) < e->expires_ns;
}

/* Returns whether e's old station is being asked, and no other yet: messages still go there. */
static bool
arp_is_polling(const struct arp_entry *e)
{
	return e->state == ARP_ASKING && e->tries == 0 && e->link != 0;
}

/* Makes e the most recently used of its state. */
static void
arp_use(struct arp *arp, struct arp_entry *e)
{
	TAILQ_REMOVE(&arp->lists[e->state], e, by_use);
	TAILQ_INSERT_TAIL(&arp->lists[e->state], e, by_use);
}

static void
arp_set_state(struct arp *arp, struct arp_entry *e, enum arp_state state)
{
	if (e->state == state)
		return;
	TAILQ_REMOVE(&arp->lists[e->state], e, by_use);
	arp->asking_count -= e->state == ARP_ASKING;
	arp->asking_count += state == ARP_ASKING;
	e->state = state;
	TAILQ_INSERT_TAIL(&arp->lists[state], e, by_use);
}

/* Lets the timer fire when e is too old, not before. */
static void
arp_schedule(struct arp *arp, struct arp_entry *e)
{
	uint64_t now_ns = xk_now_ns(&arp->protocol);

	xk_event_schedule(&e->timer, e->expires_ns <= now_ns ? 0 : (e->expires_ns - now_ns) / 1000 + 1);
}

/* Ends the asking for e: wakes its waiters, and moves its messages and the news for the follower to todo. */
static void
arp_end_asking(struct arp *arp, struct arp_entry *e, struct arp_todo *todo)
{
	for (unsigned i = 0; i < e->waiters; i++)
		xk_semaphore_signal(&e->answered);
	STAILQ_CONCAT(&todo->queue, &e->queue);
	arp->waiting_count -= e->queued;
	e->queued = 0;
	todo->changed = e->is_followed ? e->host : 0;
}

/* Takes e, ASKING or KNOWN, out of the table. */
static void
arp_remove(struct arp *arp, struct arp_entry *e)
{
	LIST_REMOVE(e, bucket);
	arp_set_state(arp, e, ARP_FREE);
	e->is_followed = e->is_to_tell = e->is_doubted = false;
	xk_event_cancel(&e->timer); /* a late firing finds another state, or asks once too early */
}

/*
 * Returns the least recently used entry of a state that may be replaced, or NULL: no shepherd waits for it, and a
 * foreign thread leaves alone those that need the follower or their senders to be told, because these open sessions.
 */
static struct arp_entry *
arp_oldest(struct arp *arp, enum arp_state state)
{
	struct arp_entry *e = TAILQ_FIRST(&arp->lists[state]);
	bool is_foreign = xk_self() == NULL;

	while (e != NULL && (e->waiters > 0 || (is_foreign && (e->is_followed || e->queued > 0))))
		e = TAILQ_NEXT(e, by_use);
	return e;
}

/*
 * Makes an entry for host, which has none; the caller sets its state. A stranger's (`learning`) replaces no host that
 * this one asks for. Returns NULL if none may be replaced. Unused entries stay untouched: their memory costs nothing.
 */
static struct arp_entry *
arp_insert(struct arp *arp, uint32_t host, bool learning, struct arp_todo *todo)
{
	struct arp_entry *e = arp_oldest(arp, ARP_FREE), *asking;

	if (e == NULL && arp->used_count < arp->entry_count) {
		e = &arp->entries[arp->used_count++];
		*e = (struct arp_entry){ .arp = arp, .state = ARP_FREE };
		STAILQ_INIT(&e->queue);
		xk_event_init(&e->timer, arp->protocol.kernel, arp->timeout, e);
		xk_semaphore_init(&e->answered, &arp->protocol, 0);
		TAILQ_INSERT_TAIL(&arp->lists[ARP_FREE], e, by_use);
	} else if (e == NULL) {
		e = arp_oldest(arp, ARP_KNOWN);
		asking = arp_oldest(arp, ARP_ASKING);
		if (!learning && asking != NULL && (e == NULL || arp->asking_count * 2 >= arp->entry_count))
			e = asking;
	}
	if (e == NULL)
		return NULL;
	if (e->state != ARP_FREE) {
		arp_end_asking(arp, e, todo);
		arp_remove(arp, e);
		xk_count(&arp->protocol, ARP_COUNT_REPLACED);
	}
	e->host = host;
	e->link = 0;
	e->verify_ns = 0;
	LIST_INSERT_HEAD(arp_bucket(arp, host), e, bucket);
	return e;
}

/* Makes e ASKING, with a broadcast request. */
static void
arp_ask(struct arp *arp, struct arp_entry *e, struct arp_todo *todo)
{
	arp_set_state(arp, e, ARP_ASKING);
	e->tries = 1;
	e->is_polled = e->is_to_tell = e->is_doubted = false;
	e->round++;
	e->verify_ns = xk_now_ns(&arp->protocol) + arp->verify_gap_ns;
	if (e->waiters == 0)
		xk_semaphore_init(&e->answered, &arp->protocol, 0);
	xk_event_schedule(&e->timer, arp->timeout_ns / 1000);
	todo->asked = e->host;
}

/* Makes e ASKING; the timer asks: first e's old station, if any, then all. */
static void
arp_verify(struct arp *arp, struct arp_entry *e)
{
	struct arp_todo later;

	arp_ask(arp, e, &later);
	e->tries = 0;
	e->is_polled = e->link != 0;
	xk_event_schedule(&e->timer, 0);
}

/* Finds or makes the entry of host, KNOWN and believed, or ASKING. Returns NULL if none may be replaced. */
static struct arp_entry *
arp_get(struct arp *arp, uint32_t host, struct arp_todo *todo)
{
	struct arp_entry *e = arp_find(arp, host);

	if (e == NULL)
		e = arp_insert(arp, host, false, todo);
	else
		arp_use(arp, e);
	if (e != NULL && e->state != ARP_ASKING && !arp_is_known(arp, e))
		arp_ask(arp, e, todo);
	return e;
}

/*
 * Makes e KNOWN, or confirms it. An address that replaces another without a query, or while only the old station is
 * asked, may be wrong: it is believed only for the time of an unanswered query, and repeating it does not prolong that.
 */
static void
arp_learn(struct arp *arp, struct arp_entry *e, uint64_t link, struct arp_todo *todo)
{
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
		arp_end_asking(arp, e, todo);
		todo->link = link;
	}
	arp_set_state(arp, e, ARP_KNOWN);
	if (e->is_followed && e->link != 0 && e->link != link)
		xk_count(&arp->protocol, ARP_COUNT_MOVED);
	if (e->is_followed && !e->is_to_tell) {
		arp_schedule(arp, e);
		todo->changed = e->link != link ? e->host : 0;
	}
	e->link = link;
}

/* ---- time ---- */

/* Asks again, or gives up, if there is no answer. Tells the follower if the address is too old. */
static void
arp_timeout(struct xk_event *event, void *argument)
{
	struct arp_entry *e = argument;
	struct arp *arp = e->arp;
	struct arp_todo todo;

	arp_lock(arp, &todo);
	if (e->state == ARP_ASKING && (e->is_polled || e->tries < arp->tries)) {
		todo.asked = e->host;
		todo.station = e->is_polled ? e->link : 0;
		e->tries += !e->is_polled;
		e->is_polled = false;
		xk_event_schedule(event, arp->timeout_ns / 1000);
	} else if (e->state == ARP_ASKING) {
		if (e->is_followed)
			xk_count(&arp->protocol, ARP_COUNT_LOST);
		arp_end_asking(arp, e, &todo);
		arp_remove(arp, e);
		xk_count(&arp->protocol, ARP_COUNT_UNREACHABLE);
		xk_trace(&arp->protocol, XK_TRACE_EVENTS, "host %08x does not answer", e->host);
	} else if (e->state == ARP_KNOWN && e->is_followed && !e->is_to_tell && arp_is_known(arp, e)) {
		arp_schedule(arp, e); /* a late firing, for an earlier host */
	} else if (e->state == ARP_KNOWN && e->is_followed) {
		e->is_followed = e->is_to_tell = false;
		todo.changed = e->host;
	}
	arp_unlock(arp, &todo);
}

/* Probes or announces the own address. */
static void
arp_own(struct xk_event *event, void *argument)
{
	struct arp *arp = argument;
	struct arp_todo todo;

	arp_lock(arp, &todo);
	arp_own_tick(arp, &todo);
	arp_unlock(arp, &todo);
}

/* ---- questions from above ---- */

static bool
arp_is_neighbour(const struct arp *arp, uint32_t host)
{
	return xk_arp_is_neighbour(&arp->network, host) || (host == arp->onlink && host != 0);
}

static bool
arp_may_ask(const struct arp *arp, uint32_t host)
{
	return arp->network.host != 0 && host != arp->network.host && arp_is_neighbour(arp, host);
}

int
xk_arp_resolve(struct xk_protocol *self, uint32_t host, uint64_t *link)
{
	struct arp *arp = (struct arp *)self;
	struct arp_todo todo;
	struct arp_entry *e;
	int err = 0;

	arp_lock(arp, &todo);
	if (!arp_may_ask(arp, host)) {
		err = -EHOSTUNREACH;
	} else if ((e = arp_get(arp, host, &todo)) == NULL) {
		err = -ENOBUFS;
	} else {
		uint64_t round = e->round;

		e->waiters++;
		while (err == 0 && e->round == round && e->state == ARP_ASKING) {
			arp_unlock(arp, &todo);
			err = xk_semaphore_wait(&e->answered, XK_UNTIL_SIGNALLED);
			arp_lock(arp, &todo);
		}
		e->waiters--;
		if (err == 0 && (e->round != round || e->state != ARP_KNOWN))
			err = -EHOSTUNREACH;
		if (err == 0)
			*link = e->link;
	}
	arp_unlock(arp, &todo);
	return err;
}

int
xk_arp_lookup(struct xk_protocol *self, uint32_t host, uint64_t *link)
{
	struct arp *arp = (struct arp *)self;
	struct arp_entry *e;
	int err = -ENOENT;

	xk_lock(&arp->lock);
	e = arp_find(arp, host);
	if (e != NULL && arp_is_known(arp, e)) {
		arp_use(arp, e);
		*link = e->link;
		err = 0;
	}
	xk_unlock(&arp->lock);
	return err;
}

/* Follows host, and asks for it if need be (`asks`). */
static int
arp_follow(struct xk_protocol *self, uint32_t host, uint64_t *link, bool asks)
{
	struct arp *arp = (struct arp *)self;
	struct arp_todo todo;
	struct arp_entry *e;
	int err = 0;

	arp_lock(arp, &todo);
	e = arp_find(arp, host);
	if (e == NULL || (e->state != ARP_ASKING && !arp_is_known(arp, e))) {
		if (!asks)
			err = -ENOENT;
		else if (!arp_may_ask(arp, host))
			err = -EHOSTUNREACH;
		else if ((e = arp_get(arp, host, &todo)) == NULL)
			err = -ENOBUFS;
		if (err == 0) {
			todo.asked = 0;
			arp_verify(arp, e);
		}
	}
	if (err == 0) {
		arp_use(arp, e);
		if (e->state == ARP_KNOWN && asks && e->link != *link) { /* the timer tells */
			e->is_to_tell = true;
			xk_event_schedule(&e->timer, 0);
		} else if (e->state == ARP_KNOWN && !e->is_followed) {
			arp_schedule(arp, e);
		}
		e->is_followed = true;
		*link = e->link;
		if (asks && (e->state != ARP_KNOWN || e->is_to_tell))
			err = -EINPROGRESS;
		else if (e->state != ARP_KNOWN)
			err = -ENOENT;
	}
	arp_unlock(arp, &todo);
	return err;
}

int
xk_arp_follow(struct xk_protocol *self, uint32_t host, uint64_t *link)
{
	return arp_follow(self, host, link, false);
}

int
xk_arp_ask(struct xk_protocol *self, uint32_t host, uint64_t link)
{
	return arp_follow(self, host, &link, true);
}

/* Queues output for e, which is ASKING; keeps the latest (RFC 1122, 2.3.2.2). Returns 0, or the reason to drop it. */
static unsigned
arp_enqueue(struct arp *arp, struct arp_entry *e, const struct xk_arp_output *output, struct arp_todo *todo)
{
	bool is_full = arp->waiting_count >= ARP_QUEUES * arp->entry_count;
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
arp_is_stale(struct arp *arp, const struct arp_entry *e)
{
	uint64_t now_ns = xk_now_ns(&arp->protocol);

	return e->state == ARP_KNOWN && !e->is_doubted && now_ns >= e->expires_ns &&
	       now_ns - e->expires_ns < arp->age_ns;
}

int
xk_arp_output(struct xk_protocol *self, const struct xk_arp_output *output)
{
	struct arp *arp = (struct arp *)self;
	unsigned why = XK_DROP_NONE;
	struct arp_todo todo;
	struct arp_entry *e;
	uint64_t link = 0;

	arp_lock(arp, &todo);
	e = arp_find(arp, output->host);
	if (e != NULL && arp_is_stale(arp, e))
		arp_verify(arp, e);
	if (!arp_may_ask(arp, output->host))
		why = ARP_DROP_UNRESOLVED;
	else if ((e = arp_get(arp, output->host, &todo)) == NULL)
		why = ARP_DROP_TABLE_FULL;
	else if (e->state == ARP_KNOWN || arp_is_polling(e))
		link = e->link;
	else
		why = arp_enqueue(arp, e, output, &todo);
	arp_unlock(arp, &todo);
	if (why != XK_DROP_NONE) {
		xk_drop(self, output->m, why);
		return -ENOBUFS;
	}
	if (link != 0)
		output->send(output, link);
	return 0;
}

void
xk_arp_unanswered(struct xk_protocol *self, uint32_t host, uint64_t link)
{
	struct arp *arp = (struct arp *)self;
	struct arp_entry *e;

	xk_lock(&arp->lock);
	e = arp_find(arp, host);
	if (arp->verify_gap_ns != 0 && e != NULL && arp_is_known(arp, e) && (link == 0 || e->link == link) &&
	    xk_now_ns(self) >= e->verify_ns) {
		xk_count(self, ARP_COUNT_VERIFIED);
		arp_verify(arp, e);
	}
	xk_unlock(&arp->lock);
}

void
xk_arp_doubt(struct xk_protocol *self, uint32_t host, uint64_t link)
{
	struct arp *arp = (struct arp *)self;
	struct arp_todo todo;
	struct arp_entry *e;

	arp_lock(arp, &todo);
	e = arp_find(arp, host);
	if (e != NULL && (arp_is_known(arp, e) || arp_is_polling(e)) && e->link != link)
		arp_ask(arp, e, &todo);
	arp_unlock(arp, &todo);
}

int
xk_arp_set_address(struct xk_protocol *self, const struct xk_network *network)
{
	struct arp *arp = (struct arp *)self;
	struct arp_todo todo;

	if (network->bits > 32 || network->host == 0)
		return -EINVAL;
	arp_lock(arp, &todo);
	arp_own_set(arp, network, &todo);
	arp_unlock(arp, &todo);
	return 0;
}

void
xk_arp_set_onlink(struct xk_protocol *self, uint32_t host)
{
	((struct arp *)self)->onlink = host;
}

void
xk_arp_set_user(struct xk_protocol *self, const struct xk_arp_user *user)
{
	((struct arp *)self)->user = *user;
}

void
xk_arp_set_follower(struct xk_protocol *self, const struct xk_arp_follower *follower)
{
	((struct arp *)self)->follower = *follower;
}

/* ---- arriving packets ---- */

/* Returns whether host, which is not on network, can be a host on another one. */
static bool
arp_is_foreign(const struct xk_network *network, uint32_t host)
{
	uint32_t mask = (uint32_t)(UINT64_MAX << (32 - network->bits));

	return ((host ^ network->host) & mask) != 0 && host >> 24 != 0 && host >> 24 != 127 && host >> 28 < 0xe;
}

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
 * for. A request is answered whatever network its sender is on, but nothing is learned of other networks. Sets *mine if
 * the packet is for this host. Returns 0, or the reason to drop it. The lock is held.
 */
static unsigned
arp_receive(struct arp *arp, const struct arp_header *packet, bool *mine, struct arp_todo *todo)
{
	bool is_reply = packet->operation == ARP_REPLY, announces = packet->sender_host == packet->target_host;
	uint32_t own = arp->network.host;
	struct arp_entry *e;

	*mine = own != 0 && packet->target_host == own;
	if (!arp_is_station(arp, packet->sender_link))
		return ARP_DROP_BAD_SENDER;
	if (arp_own_is_claimed(arp, packet->sender_host, packet->target_host, !is_reply)) {
		arp_own_conflict(arp, packet->sender_link, todo);
		return ARP_DROP_CONFLICT;
	}
	if (own == 0)
		return is_reply ? ARP_DROP_UNASKED : XK_DROP_NONE;
	if (!is_reply && packet->sender_host == 0) /* a probe (RFC 5227) */
		return XK_DROP_NONE;
	if (!arp_is_neighbour(arp, packet->sender_host)) {
		if (is_reply || !*mine || !arp_is_foreign(&arp->network, packet->sender_host))
			return ARP_DROP_BAD_ADDRESS;
		xk_count(&arp->protocol, ARP_COUNT_FOREIGN);
		return XK_DROP_NONE;
	}
	e = arp_find(arp, packet->sender_host);
	if (is_reply && (e == NULL || (!*mine && !announces)))
		return ARP_DROP_UNASKED;
	if (e == NULL && *mine) {
		e = arp_insert(arp, packet->sender_host, true, todo);
		if (e != NULL)
			xk_count(&arp->protocol, ARP_COUNT_LEARNED);
	}
	if (e != NULL)
		arp_learn(arp, e, packet->sender_link, todo);
	return XK_DROP_NONE;
}

/* Answers a request that came up lls, to the station that the request names. Returns 0, or the reason to drop it. */
static unsigned
arp_reply(struct arp *arp, struct xk_session *lls, const struct arp_header *request)
{
	struct arp_header h = { .operation = ARP_REPLY,
				.sender_link = arp->link,
				.sender_host = request->target_host,
				.target_link = request->sender_link,
				.target_host = request->sender_host };
	struct xk_participants participants = { .remote = { 1, { request->sender_link } } };
	struct xk_protocol *self = &arp->protocol;
	struct xk_session *to = NULL;
	struct xk_msg *m;
	uint64_t link;

	if ((xk_control(lls, XK_GET_PEER_LINK, &link, sizeof(link)) != sizeof(link) || link != request->sender_link) &&
	    xk_open(self, self, xk_lower(self, 0), &participants, &to) != 0)
		return XK_DROP_NO_MEMORY;
	m = arp_packet_new(self, h);
	if (m != NULL) {
		xk_count(self, ARP_COUNT_REPLIES_OUT);
		xk_push(to != NULL ? to : lls, m);
	}
	xk_close(to);
	return m != NULL ? XK_DROP_NONE : XK_DROP_NO_BUFFER;
}

static void
arp_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct arp *arp = (struct arp *)self;
	struct arp_header packet = arp_load(m->data);
	struct arp_todo todo;
	bool mine = false, asks;
	unsigned why = arp_header_check(&packet);

	xk_msg_pop_in_place(m, XK_HEADER_LEN(arp));
	if (why != XK_DROP_NONE) {
		xk_drop(self, m, why);
		return;
	}
	arp_lock(arp, &todo);
	why = arp_receive(arp, &packet, &mine, &todo);
	xk_unlock(&arp->lock);
	asks = packet.operation == ARP_REQUEST;
	if (why == XK_DROP_NONE)
		xk_count(self, !asks ? ARP_COUNT_REPLIES_IN : mine ? ARP_COUNT_REQUESTS_IN : ARP_COUNT_OTHERS);
	if (why == XK_DROP_NONE && asks && mine)
		why = arp_reply(arp, lls, &packet);
	if (why == XK_DROP_NONE)
		xk_msg_free(m); /* only padding is left */
	else
		xk_drop(self, m, why);
	arp_finish(arp, &todo);
}

/* ---- init and tables ---- */

static void
arp_fini(struct xk_protocol *self)
{
	struct arp *arp = (struct arp *)self;
	struct xk_participants nobody = { .remote.depth = 0 };

	xk_event_cancel(&arp->own);
	xk_open_disable(self, self, xk_lower(self, 0), &nobody);
	xk_close(arp->broadcast);
	for (unsigned i = 0; i < arp->used_count; i++) {
		struct arp_entry *e = &arp->entries[i];
		struct arp_waiting *waiting;

		xk_event_cancel(&e->timer);
		while ((waiting = STAILQ_FIRST(&e->queue)) != NULL) {
			STAILQ_REMOVE_HEAD(&e->queue, next);
			xk_msg_free(waiting->output.m);
			free(waiting);
		}
	}
	free(arp->entries);
	free(arp->buckets);
}

static int
arp_init(struct xk_protocol *self)
{
	struct arp *arp = (struct arp *)self;
	struct xk_protocol *eth = xk_lower(self, 0);
	struct xk_participants everybody = { .remote = { 1, { XK_ETH_BROADCAST } } }, nobody = { .remote.depth = 0 };
	unsigned buckets = 1;
	int err;

	while (buckets < arp->entry_count)
		buckets *= 2;
	xk_lock_init(&arp->lock, self);
	arp->timeout = arp_timeout;
	arp->bucket_mask = buckets - 1;
	arp->buckets = calloc(buckets, sizeof(*arp->buckets));
	arp->entries = reallocarray(NULL, arp->entry_count, sizeof(*arp->entries));
	for (unsigned i = 0; i < ARP_STATES; i++)
		TAILQ_INIT(&arp->lists[i]);
	err = arp_own_init(arp, arp_own);
	if (err == 0 && (arp->buckets == NULL || arp->entries == NULL))
		err = -ENOMEM;
	if (err == 0)
		err = xk_control_protocol(eth, XK_GET_LINK_ADDRESS, &arp->link, sizeof(arp->link));
	if (err >= 0)
		err = xk_open(self, self, eth, &everybody, &arp->broadcast);
	if (err == 0)
		err = xk_open_enable(self, self, eth, &nobody);
	if (err != 0)
		arp_fini(self);
	return err;
}

/* XK_PORT_CHANGED: stations may have missed the announcements while the link was down. */
static int
arp_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	struct arp *arp = (struct arp *)self;

	if (op != XK_PORT_CHANGED)
		return -ENOTSUP;
	xk_lock(&arp->lock);
	arp_own_announce(arp);
	xk_unlock(&arp->lock);
	return 0;
}

static const struct xk_protocol_ops arp_ops = {
	.init = arp_init,
	.fini = arp_fini,
	.demux = arp_demux,
	.control = arp_control,
};

static const struct xk_role arp_lowers[] = {
	{ "link", XK_ASYNC, NULL, "the link whose addresses are resolved" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting arp_settings[] = {
	XK_SETTING(UINT, struct arp, entry_count, "entries", "maximum number of hosts in the table", .initial = "256",
		   .min = 1, .max = 1 << 20),
	XK_SETTING(UINT, struct arp, queue_max, "queue", "maximum number of messages queued for one host",
		   .initial = "48", .min = 1, .max = 1024),
	XK_SETTING(TIME, struct arp, age_ns, "age", "how long an answer is believed", .initial = "30s", .min = 1000,
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
	XK_SETTING(STRING, struct arp, conflict_text, "conflict",
		   "the reaction if another station uses this host's address: defend: announce it again, at most every "
		   "10s; "
		   "once: the same, but leave it at the next conflict within 10s; leave: leave it at once. An address "
		   "that was "
		   "left is probed every minute",
		   .initial = "defend"),
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
};
