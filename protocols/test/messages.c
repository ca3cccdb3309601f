/*
 * messages.c - the client of messages that are answered one by one: it sends them at an interval or as a window allows,
 * and finds those whose time is over. messages_private.h has the terms.
 */
#include "protocols/test/messages_private.h"

#include <errno.h>
#include <stdlib.h>

enum { MESSAGES_SENT_COUNT, MESSAGES_ANSWERED_COUNT, MESSAGES_LOST_COUNT, MESSAGES_UNSENT_COUNT };

#define MESSAGES_OVER UINT64_MAX

static struct messages_slot *
messages_slot_of(struct messages *t, uint64_t number)
{
	return &t->slots[number % t->kind->slots];
}

static void
messages_count(struct messages *t, unsigned counter)
{
	xk_count(&t->protocol, t->kind->counters + counter);
}

/* ---- what messages look like ---- */

static inline uint8_t
messages_byte(uint32_t i, uint8_t salt)
{
	return (uint8_t)((i * UINT32_C(2654435761) >> 15) + i + salt);
}

void
messages_fill(struct xk_msg *m, uint32_t begin, uint32_t i, uint8_t salt)
{
	for (; m != NULL; m = m->next, begin = 0)
		for (uint32_t at = begin; at < m->len; at++)
			m->data[at] = messages_byte(i++, salt);
}

bool
messages_is_filled(const struct xk_msg *m, uint32_t begin, uint32_t i, uint8_t salt)
{
	for (; m != NULL; m = m->next, begin = 0)
		for (uint32_t at = begin; at < m->len; at++)
			if (m->data[at] != messages_byte(i++, salt))
				return false;
	return true;
}

/* ---- answers; the lock is held ---- */

struct messages_slot *
messages_find(struct messages *t, uint32_t low, uint32_t mask, uint64_t *number)
{
	uint64_t ago = (t->sent - 1 - low) & mask;

	if (!t->running || ago >= t->kind->slots || ago >= t->sent)
		return NULL;
	*number = t->sent - 1 - ago;
	return messages_slot_of(t, *number);
}

/* Returns whether no more messages will be sent. */
static bool
messages_are_sent(const struct messages *t)
{
	return t->stopping || t->sent == t->run.count;
}

/* Moves `oldest` on to the first message that waits. */
static void
messages_advance(struct messages *t)
{
	while (t->oldest < t->sent && messages_slot_of(t, t->oldest)->state != MESSAGES_WAITING)
		t->oldest++;
}

void
messages_answer(struct messages *t, struct messages_slot *slot, uint64_t rtt_ns)
{
	slot->state = MESSAGES_ANSWERED;
	t->answered++;
	client_trips_add(&t->trips, rtt_ns);
	messages_count(t, MESSAGES_ANSWERED_COUNT);
	messages_advance(t);
	if (t->run.interval_ns == 0 || (t->oldest == t->sent && messages_are_sent(t)))
		xk_semaphore_signal(&t->answers);
}

/* ---- the client's shepherd ---- */

/* Gives up the oldest message and stores its ticket, if it is overdue. Returns whether it was. The lock is held. */
static bool
messages_lose(struct messages *t, uint64_t now_ns, struct xk_ticket *ticket)
{
	struct messages_slot *slot = messages_slot_of(t, t->oldest);

	if (t->oldest == t->sent || now_ns < slot->sent_ns + t->run.timeout_ns)
		return false;
	slot->state = MESSAGES_LOST;
	*ticket = messages_ticket(slot);
	t->lost++;
	messages_count(t, MESSAGES_LOST_COUNT);
	if (t->kind->missed != NULL)
		t->kind->missed(t, t->oldest, true);
	return true;
}

/*
 * Gives up all messages that are overdue. Returns in how many nanoseconds there is something to do: 0: a message is
 * to be sent; MESSAGES_OVER: the run is over. A message is not sent before next_ns.
 */
static uint64_t
messages_look(struct messages *t, uint64_t next_ns)
{
	uint64_t now_ns = xk_now_ns(&t->protocol), due_ns;
	bool lost;

	do {
		struct xk_ticket ticket = { .keeper = NULL };

		due_ns = UINT64_MAX;
		xk_lock(&t->lock);
		messages_advance(t);
		lost = messages_lose(t, now_ns, &ticket);
		if (t->oldest < t->sent)
			due_ns = messages_slot_of(t, t->oldest)->sent_ns + t->run.timeout_ns;
		if (!messages_are_sent(t) && t->sent - t->oldest < t->run.window && next_ns < due_ns)
			due_ns = next_ns;
		xk_unlock(&t->lock);
		xk_ticket_release(&ticket);
	} while (lost);
	if (due_ns == UINT64_MAX)
		return MESSAGES_OVER;
	return due_ns > now_ns ? due_ns - now_ns : 0;
}

/* Opens the session, and checks that it carries the run's messages. 0 or -errno. */
static int
messages_open(struct messages *t)
{
	int err = client_open(&t->protocol, t->run.host, 0, 0, &t->session);
	uint32_t max_packet;

	return err != 0 ? err : client_check_size(t->session, t->run.len, 0, &max_packet);
}

/* Sends the next message. Without a session it is unsent. */
static void
messages_send(struct messages *t)
{
	uint64_t number = t->sent;
	struct xk_msg *m = t->kind->message(t, number);
	struct messages_slot *slot = messages_slot_of(t, number);
	struct xk_ticket ticket = { .keeper = NULL };
	int status = -ENOBUFS;

	xk_lock(&t->lock);
	*slot = (struct messages_slot){ .sent_ns = xk_now_ns(&t->protocol), .pushing = true };
	t->sent++;
	xk_unlock(&t->lock);
	messages_count(t, MESSAGES_SENT_COUNT);
	if (m != NULL && t->kind->has_tickets)
		xk_ticket_put(m, &slot->ticket);
	if (t->session == NULL)
		xk_msg_free(m);
	else if (m != NULL)
		status = xk_push(t->session, m);
	if (status != 0)
		messages_count(t, MESSAGES_UNSENT_COUNT);
	xk_lock(&t->lock);
	slot->pushing = false;
	if (slot->state != MESSAGES_WAITING)
		ticket = messages_ticket(slot); /* the answer came before the push returned */
	t->unsent += status != 0;
	if (status != 0 && t->kind->missed != NULL)
		t->kind->missed(t, number, false);
	xk_unlock(&t->lock);
	xk_ticket_release(&ticket);
}

static void
messages_client(void *argument)
{
	struct messages *t = argument;
	uint64_t next_ns = xk_now_ns(&t->protocol), wait_ns;
	bool tried = false; /* to open the session, for the message that is due */
	int err = 0;

	while (err == 0 && (wait_ns = messages_look(t, next_ns)) != MESSAGES_OVER) {
		if (wait_ns > 0) {
			err = xk_semaphore_wait(&t->answers, xk_us_of_ns(wait_ns));
			if (err == -ETIMEDOUT)
				err = 0;
		} else if (t->session == NULL && !tried) {
			err = messages_open(t);
			tried = true;
			/* at an interval, one message is lost for each attempt that fails */
			if (t->run.interval_ns != 0 && client_may_retry(err))
				err = 0;
		} else {
			uint64_t now_ns = xk_now_ns(&t->protocol);

			/* lost time is not made up for */
			next_ns = next_ns + t->run.interval_ns > now_ns ? next_ns + t->run.interval_ns : now_ns;
			tried = false;
			messages_send(t);
		}
	}
	xk_close(t->session);
	t->session = NULL;
	xk_lock(&t->lock);
	t->running = false;
	t->kind->finished(t, err);
	xk_unlock(&t->lock);
}

/* Starts the client; without a shepherd for it, tries again later. */
static void
messages_start_client(struct xk_event *event, void *argument)
{
	struct messages *t = argument;

	if (xk_thread_start(t->protocol.kernel, t->protocol.name, messages_client, t) != 0)
		xk_event_schedule(event, CLIENT_RETRY_US);
}

/* ---- runs ---- */

int
messages_begin(struct messages *t, const struct messages_run *run, uint64_t delay_ns)
{
	if (t->running)
		return -EBUSY;
	t->run = *run;
	t->running = true;
	t->stopping = false;
	t->sent = t->answered = t->lost = t->unsent = t->oldest = 0;
	t->trips = (struct client_trips){ .count = 0 };
	xk_event_schedule(&t->event, delay_ns / 1000);
	return 0;
}

void
messages_stop(struct messages *t)
{
	xk_lock(&t->lock);
	t->stopping = true;
	xk_semaphore_signal(&t->answers);
	xk_unlock(&t->lock);
}

int
messages_init(struct messages *t, const struct messages_kind *kind)
{
	t->kind = kind;
	t->slots = calloc(kind->slots, sizeof(*t->slots));
	if (t->slots == NULL)
		return -ENOMEM;
	xk_lock_init(&t->lock, &t->protocol);
	xk_semaphore_init(&t->answers, &t->protocol, 0);
	xk_event_init(&t->event, t->protocol.kernel, messages_start_client, t);
	return 0;
}

void
messages_fini(struct messages *t)
{
	xk_event_cancel(&t->event);
	for (unsigned i = 0; i < t->kind->slots; i++)
		xk_ticket_release(&t->slots[i].ticket);
	xk_close(t->session);
	free(t->slots);
}
