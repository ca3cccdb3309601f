/* messages.c - the client whose messages are answered one by one; see messages_private.h. */
#include "protocols/test/messages_private.h"

#include <errno.h>
#include <stdlib.h>

enum { MESSAGES_SENT_COUNT, MESSAGES_ANSWERED_COUNT, MESSAGES_LOST_COUNT, MESSAGES_UNSENT_COUNT };

enum messages_step { MESSAGES_WAIT, MESSAGES_SEND, MESSAGES_END };

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

/* ---- contents of messages ---- */

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

/* Advances `oldest`. Returns when a message must be sent or given up; UINT64_MAX: the run is over. */
static uint64_t
messages_due_ns(struct messages *t)
{
	bool all_sent = t->stopping || t->sent == t->run.count;
	uint64_t due_ns = UINT64_MAX;

	while (t->oldest < t->sent && messages_slot_of(t, t->oldest)->state != MESSAGES_WAITING)
		t->oldest++;
	if (t->oldest < t->sent)
		due_ns = messages_slot_of(t, t->oldest)->sent_ns + t->run.timeout_ns;
	if (!all_sent && t->sent - t->oldest < t->run.window && t->next_ns < due_ns)
		due_ns = t->next_ns;
	return due_ns;
}

void
messages_answer(struct messages *t, struct messages_slot *slot, uint64_t rtt_ns)
{
	slot->state = MESSAGES_ANSWERED;
	t->answered++;
	client_trips_add(&t->trips, rtt_ns);
	messages_count(t, MESSAGES_ANSWERED_COUNT);
	if (!t->kind->has_interval)
		xk_semaphore_signal(&t->answers);
	else if (!t->busy && messages_due_ns(t) == UINT64_MAX)
		xk_event_schedule(&t->event, 0);
}

/* ---- the client: the thread that is busy ---- */

/* Stops being busy; if there is an interval, schedules the event for what is due next. The lock is held. */
static void
messages_rest(struct messages *t)
{
	uint64_t due_ns = messages_due_ns(t), now_ns = xk_now_ns(&t->protocol);

	t->busy = false;
	if (t->kind->has_interval)
		xk_event_schedule(&t->event,
				  due_ns == UINT64_MAX || due_ns <= now_ns ? 0 : xk_us_of_ns(due_ns - now_ns));
}

/*
 * Gives up overdue messages. Returns what is due, with which the caller is then busy, or MESSAGES_WAIT: nothing is due
 * for *wait_ns, or another thread is busy.
 */
static enum messages_step
messages_look(struct messages *t, uint64_t *wait_ns)
{
	uint64_t now_ns = xk_now_ns(&t->protocol);

	for (;;) {
		enum messages_step step = MESSAGES_WAIT;
		struct xk_ticket ticket = { .keeper = NULL };
		struct messages_slot *slot;
		uint64_t due_ns;
		bool lost;

		xk_lock(&t->lock);
		due_ns = messages_due_ns(t);
		slot = messages_slot_of(t, t->oldest);
		lost = t->oldest < t->sent && now_ns >= slot->sent_ns + t->run.timeout_ns;
		if (!t->running || t->busy) {
			lost = false;
		} else if (lost) {
			slot->state = MESSAGES_LOST;
			ticket = messages_ticket(slot);
			t->lost++;
			messages_count(t, MESSAGES_LOST_COUNT);
			xk_unanswered(t->session);
			if (t->kind->missed != NULL)
				t->kind->missed(t, t->oldest, true);
		} else if (due_ns > now_ns && due_ns != UINT64_MAX) {
			messages_rest(t);
		} else {
			step = due_ns == UINT64_MAX ? MESSAGES_END : MESSAGES_SEND;
			t->busy = true;
		}
		xk_unlock(&t->lock);
		xk_ticket_release(&ticket);
		*wait_ns = due_ns - now_ns;
		if (!lost)
			return step;
	}
}

/* Sends the next message. Without a session it counts as unsent. */
static void
messages_send(struct messages *t)
{
	uint64_t number = t->sent, now_ns = xk_now_ns(&t->protocol);
	struct xk_msg *m = t->kind->message(t, number);
	struct messages_slot *slot = messages_slot_of(t, number);
	struct xk_ticket ticket = { .keeper = NULL };
	int status = -ENOBUFS;

	xk_lock(&t->lock);
	t->tried = false;
	/* delays are not made up for */
	t->next_ns = t->next_ns + t->run.interval_ns > now_ns ? t->next_ns + t->run.interval_ns : now_ns;
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
	messages_rest(t);
	xk_unlock(&t->lock);
	xk_ticket_release(&ticket);
}

static void
messages_finish(struct messages *t, int err)
{
	xk_close(t->session);
	t->session = NULL;
	xk_lock(&t->lock);
	t->busy = false;
	t->running = false;
	t->kind->finished(t, err);
	xk_unlock(&t->lock);
}

/* Opens the session; then sends until the run is over, unless the event does. A shepherd. */
static void
messages_client(void *argument)
{
	struct messages *t = argument;
	enum messages_step step;
	uint32_t max_packet;
	uint64_t wait_ns;
	int err = client_open(&t->protocol, t->run.host, 0, 0, &t->session);

	if (err == 0)
		err = client_check_size(t->session, t->run.len, 0, &max_packet);
	if (t->kind->has_interval && (err == 0 || client_may_retry(err))) {
		xk_lock(&t->lock);
		t->tried = true;
		messages_rest(t);
		xk_unlock(&t->lock);
		return;
	}
	while (err == 0 && (step = messages_look(t, &wait_ns)) != MESSAGES_END) {
		if (step == MESSAGES_SEND)
			messages_send(t);
		else
			err = xk_semaphore_wait(&t->answers, xk_us_of_ns(wait_ns));
		if (err == -ETIMEDOUT)
			err = 0;
	}
	messages_finish(t, err);
}

/* Starts a shepherd to open the session, then does what is due at an interval. */
static void
messages_pulse(struct xk_event *event, void *argument)
{
	struct messages *t = argument;
	enum messages_step step = MESSAGES_SEND;
	uint64_t wait_ns;

	if (t->kind->has_interval)
		step = messages_look(t, &wait_ns);
	if (step == MESSAGES_END)
		messages_finish(t, 0);
	if (step != MESSAGES_SEND)
		return;
	if (t->session == NULL && !t->tried &&
	    xk_thread_start(t->protocol.kernel, t->protocol.name, messages_client, t) == 0)
		return;
	if (t->kind->has_interval)
		messages_send(t);
	else
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
	t->stopping = t->tried = false;
	t->next_ns = xk_now_ns(&t->protocol) + delay_ns;
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
	if (t->running && !t->busy)
		messages_rest(t);
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
	xk_event_init(&t->event, t->protocol.kernel, messages_pulse, t);
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
