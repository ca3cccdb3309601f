/*
 * arp_table.c - what ARP knows and is asking for; see arp_private.h.
 *
 * Entries are in two lists, by their last use: of hosts that are being asked for, and all others, of which those that are
 * not in the table come before all. Those in the table are in a hash table besides, whose hash nobody outside can know.
 *
 * Strangers can make this host ask for as many hosts as they like that do not exist (what it forwards, or answers). So
 * where hosts that are asked for have half of a full table, they make room for one another, and known ones stay.
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/arp/arp_private.h"

int
arp_table_init(struct arp *arp, xk_event_handler *timeout)
{
	unsigned buckets = 1;

	while (buckets < arp->entry_count)
		buckets *= 2;
	arp->bucket_mask = buckets - 1;
	arp->buckets = calloc(buckets, sizeof(struct arp_entry *));
	arp->entries = reallocarray(NULL, arp->entry_count, sizeof(*arp->entries));
	if (arp->buckets == NULL || arp->entries == NULL)
		return -ENOMEM;
	arp->timeout = timeout;
	TAILQ_INIT(&arp->by_use);
	TAILQ_INIT(&arp->asking);
	return 0;
}

/*
 * The first entry that was never used, from now on in the list; there is one. Memory of those to come is not touched: it
 * costs nothing yet.
 */
static struct arp_entry *
arp_table_fresh(struct arp *arp)
{
	struct arp_entry *e = &arp->entries[arp->used_count];

	arp->used_count++;
	*e = (struct arp_entry){ .arp = arp, .queue = ARP_QUEUE_INITIALIZER(e->queue) };
	xk_event_init(&e->timer, arp->protocol.kernel, arp->timeout, e);
	xk_semaphore_init(&e->answered, &arp->protocol, 0);
	TAILQ_INSERT_HEAD(&arp->by_use, e, by_use);
	return e;
}

void
arp_table_fini(struct arp *arp)
{
	for (unsigned i = 0; i < arp->used_count; i++) {
		struct arp_entry *e = &arp->entries[i];
		struct arp_waiting *waiting;

		xk_event_cancel(&e->timer);
		while ((waiting = STAILQ_FIRST(&e->queue.waiting)) != NULL) {
			STAILQ_REMOVE_HEAD(&e->queue.waiting, next);
			xk_msg_free(waiting->output.m);
			free(waiting);
		}
	}
	free(arp->entries);
	free(arp->buckets);
}

/*
 * Multiplication by a random odd number: any two hosts share a bucket for two seeds in so many buckets, at most. Drawn
 * when it is needed first, while the table is empty.
 */
static struct arp_entry **
arp_table_bucket(struct arp *arp, uint32_t host)
{
	if (xk_unlikely(arp->seed == 0))
		arp->seed = xk_random(&arp->protocol) | 1;
	return &arp->buckets[host * arp->seed >> 32 & arp->bucket_mask];
}

struct arp_entry *
arp_table_find(struct arp *arp, uint32_t host)
{
	struct arp_entry *e = *arp_table_bucket(arp, host);

	while (e != NULL && e->host != host)
		e = e->next;
	return e;
}

bool
arp_table_is_known(struct arp *arp, const struct arp_entry *e)
{
	return e->state == ARP_KNOWN && xk_now_ns(&arp->protocol) < e->expires_ns;
}

static struct arp_by_use *
arp_table_list(struct arp *arp, const struct arp_entry *e)
{
	return e->state == ARP_ASKING ? &arp->asking : &arp->by_use;
}

void
arp_table_use(struct arp *arp, struct arp_entry *e)
{
	struct arp_by_use *list = arp_table_list(arp, e);

	TAILQ_REMOVE(list, e, by_use);
	TAILQ_INSERT_TAIL(list, e, by_use);
}

/* e's state changes: it is the last of those in that state's list. */
static void
arp_table_set_state(struct arp *arp, struct arp_entry *e, enum arp_state state)
{
	if (e->state == state)
		return;
	TAILQ_REMOVE(arp_table_list(arp, e), e, by_use);
	arp->asking_count -= e->state == ARP_ASKING;
	arp->asking_count += state == ARP_ASKING;
	e->state = state;
	TAILQ_INSERT_TAIL(arp_table_list(arp, e), e, by_use);
}

/* What waits in e moves to queue, to be sent or dropped when the lock is no longer held; who follows e is to be told. */
static void
arp_table_take_queue(struct arp *arp, struct arp_entry *e, struct arp_queue *queue)
{
	STAILQ_CONCAT(&queue->waiting, &e->queue.waiting);
	queue->changed = e->is_followed ? e->host : 0;
	arp->waiting_count -= e->queue.count;
	e->queue.count = 0;
}

/* The latest are kept (RFC 1122, 2.3.2.2). */
unsigned
arp_table_wait(struct arp *arp, struct arp_entry *e, const struct xk_arp_output *output, struct xk_msg **oldest)
{
	bool is_full = arp->waiting_count >= ARP_QUEUES * arp->entry_count;
	struct arp_waiting *waiting;

	if (e->queue.count == 0 && is_full)
		return ARP_DROP_QUEUE_FULL;
	if (e->queue.count == arp->queue_max || is_full) {
		waiting = STAILQ_FIRST(&e->queue.waiting);
		STAILQ_REMOVE_HEAD(&e->queue.waiting, next);
		*oldest = waiting->output.m;
	} else {
		waiting = malloc(sizeof(*waiting));
		if (waiting == NULL)
			return XK_DROP_NO_MEMORY;
		e->queue.count++;
		arp->waiting_count++;
	}
	waiting->output = *output;
	STAILQ_INSERT_TAIL(&e->queue.waiting, waiting, next);
	return XK_DROP_NONE;
}

static void
arp_table_wake(struct arp_entry *e)
{
	for (unsigned i = 0; i < e->waiters; i++)
		xk_semaphore_signal(&e->answered);
}

/* Takes e, which is ASKING or KNOWN, out of the table. */
static void
arp_table_remove(struct arp *arp, struct arp_entry *e, enum arp_state state)
{
	struct arp_entry **at = arp_table_bucket(arp, e->host);

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	arp_table_set_state(arp, e, state);
	e->is_followed = e->is_to_tell = e->is_doubted = false;
	xk_event_cancel(&e->timer); /* one that fires already finds another state, or asks once too early */
	TAILQ_REMOVE(&arp->by_use, e, by_use);
	TAILQ_INSERT_HEAD(&arp->by_use, e, by_use);
}

/* Whether e is about a host. */
static bool
arp_table_is_in(const struct arp_entry *e)
{
	return e->state == ARP_ASKING || e->state == ARP_KNOWN;
}

/* The one of list that was not used for longest and that nobody waits for, or NULL. */
static struct arp_entry *
arp_table_oldest(struct arp_by_use *list)
{
	struct arp_entry *e = TAILQ_FIRST(list);

	while (e != NULL && e->waiters > 0)
		e = TAILQ_NEXT(e, by_use);
	return e;
}

/* The entry that a host is put in, or NULL. */
static struct arp_entry *
arp_table_choose(struct arp *arp, bool learning)
{
	struct arp_entry *e = arp_table_oldest(&arp->by_use), *asking;

	if (e != NULL && !arp_table_is_in(e))
		return e;
	if (arp->used_count < arp->entry_count)
		return arp_table_fresh(arp);
	if (learning || (e != NULL && arp->asking_count * 2 < arp->entry_count))
		return e;
	asking = arp_table_oldest(&arp->asking);
	return asking != NULL ? asking : e;
}

/* As arp_table_add; learning: for a stranger. */
static struct arp_entry *
arp_table_insert(struct arp *arp, uint32_t host, bool learning, struct arp_queue *queue)
{
	struct arp_entry *e = arp_table_choose(arp, learning), **bucket = arp_table_bucket(arp, host);

	if (e == NULL)
		return NULL;
	if (arp_table_is_in(e)) {
		arp_table_take_queue(arp, e, queue);
		arp_table_remove(arp, e, ARP_FREE);
		xk_count(&arp->protocol, ARP_COUNT_REPLACED);
	}
	e->host = host;
	e->link = 0;
	e->next = *bucket;
	*bucket = e;
	arp_table_use(arp, e);
	return e;
}

struct arp_entry *
arp_table_add(struct arp *arp, uint32_t host, struct arp_queue *queue)
{
	return arp_table_insert(arp, host, true, queue);
}

/* Fires when e is too old, not before. */
static void
arp_table_schedule(struct arp *arp, struct arp_entry *e)
{
	uint64_t now_ns = xk_now_ns(&arp->protocol);

	xk_event_schedule(&e->timer, e->expires_ns <= now_ns ? 0 : (e->expires_ns - now_ns) / ARP_NS_PER_US + 1);
}

/*
 * How long link is believed of e. What comes unasked in place of another address may be wrong, so it is asked for again as
 * soon as the host could have been asked for in vain; and until then it does not help to say so again.
 */
static uint64_t
arp_table_believed_until(const struct arp *arp, struct arp_entry *e, uint64_t link)
{
	uint64_t now_ns = xk_now_ns(&arp->protocol), soon_ns = arp->timeout_ns * arp->tries;

	if (e->state == ARP_KNOWN && e->is_doubted)
		return e->expires_ns;
	e->is_doubted = e->state == ARP_KNOWN && e->link != link;
	return now_ns + (e->is_doubted && soon_ns < arp->age_ns ? soon_ns : arp->age_ns);
}

void
arp_table_learn(struct arp *arp, struct arp_entry *e, uint64_t link, struct arp_queue *queue)
{
	e->expires_ns = arp_table_believed_until(arp, e, link);
	if (e->state == ARP_ASKING) {
		xk_event_cancel(&e->timer);
		arp_table_wake(e);
		arp_table_take_queue(arp, e, queue);
	}
	arp_table_set_state(arp, e, ARP_KNOWN);
	if (e->is_followed && e->link != 0 && e->link != link)
		xk_count(&arp->protocol, ARP_COUNT_MOVED);
	if (e->is_followed && !e->is_to_tell) {
		arp_table_schedule(arp, e);
		queue->changed = e->link != link ? e->host : 0;
	}
	e->link = link;
}

void
arp_table_follow(struct arp *arp, struct arp_entry *e, bool now)
{
	if (e->state == ARP_KNOWN && now) {
		e->is_to_tell = true;
		xk_event_schedule(&e->timer, 0);
	} else if (e->state == ARP_KNOWN && !e->is_followed) {
		arp_table_schedule(arp, e);
	}
	e->is_followed = true;
}

bool
arp_table_expire(struct arp *arp, struct arp_entry *e)
{
	if (!e->is_followed)
		return false;
	if (!e->is_to_tell && arp_table_is_known(arp, e)) {
		arp_table_schedule(arp, e);
		return false;
	}
	e->is_followed = e->is_to_tell = false;
	return true;
}

void
arp_table_ask(struct arp *arp, struct arp_entry *e)
{
	arp_table_set_state(arp, e, ARP_ASKING);
	e->tries = 1;
	e->is_polled = e->is_to_tell = e->is_doubted = false;
	e->round++;
	if (e->waiters == 0)
		xk_semaphore_init(&e->answered, &arp->protocol, 0);
	xk_event_schedule(&e->timer, arp->timeout_ns / ARP_NS_PER_US);
}

void
arp_table_poll(struct arp_entry *e)
{
	e->tries = 0;
	e->is_polled = e->link != 0;
	xk_event_schedule(&e->timer, 0);
}

struct arp_entry *
arp_table_get(struct arp *arp, uint32_t host, bool *asks, struct arp_queue *queue)
{
	struct arp_entry *e = arp_table_find(arp, host);

	*asks = false;
	if (e == NULL) {
		e = arp_table_insert(arp, host, false, queue);
		if (e == NULL)
			return NULL;
	} else {
		arp_table_use(arp, e);
		if (e->state == ARP_ASKING || arp_table_is_known(arp, e))
			return e;
	}
	*asks = true;
	arp_table_ask(arp, e);
	return e;
}

void
arp_table_give_up(struct arp *arp, struct arp_entry *e, struct arp_queue *queue)
{
	if (e->is_followed)
		xk_count(&arp->protocol, ARP_COUNT_LOST);
	arp_table_take_queue(arp, e, queue);
	arp_table_wake(e);
	arp_table_remove(arp, e, ARP_FAILED);
	xk_count(&arp->protocol, ARP_COUNT_UNREACHABLE);
}
