/*
 * blasttest.c - the test protocol above BLAST: a client sends messages of a size, the server checks every byte of each, and
 * answers with how many have come whole. Every instance is a server; a program makes it a client (blasttest.h), or it
 * becomes one by itself if the setting `to` names a host.
 *
 * The client is a shepherd, which waits where too many messages are under way: here for answers, or in BLAST, which keeps
 * only so many. An answer releases BLAST's copy of its message (ticket.h).
 *
 * Spec:         our own; 20 bytes: kind 4 (1 message, 2 answer), number 4, run 8, then 4 that are the message's size or, in
 *               an answer, how many messages of the run have come whole. Messages go on with bytes that follow from it.
 * Participants: none above; below (remote: host)
 * Control:      the session below answers
 * Settings:     serve; to, count, size, window, timeout, start
 * Drops:        bad (neither a message nor an answer), corrupt (length or a byte), late (an answer that is not awaited);
 *               no_session (messages while serve=no)
 * Counters:     whole (messages that have come here), sent, answered, lost, unsent (the protocols below would not take a
 *               message; it is sent, and lost); of the run that `to` has started, when it has ended: whole_there,
 *               rtt_min_ns, rtt_mean_ns, rtt_max_ns
 * Graph:        blasttest -> blast
 */
#include "protocols/test/blasttest.h"

#include <errno.h>

#include "protocols/test/round_trips.h"
#include "protocols/ticket.h"
#include "xkernel/bytes.h"
#include "xkernel/event.h"
#include "xkernel/trace.h"

enum blasttest_drop { BLASTTEST_BAD = XK_DROP_OWN, BLASTTEST_CORRUPT, BLASTTEST_LATE };

enum blasttest_counter {
	BLASTTEST_WHOLE,
	BLASTTEST_SENT,
	BLASTTEST_ANSWERED,
	BLASTTEST_LOST,
	BLASTTEST_UNSENT,
	BLASTTEST_WHOLE_THERE,
	BLASTTEST_RTT_MIN,
	BLASTTEST_RTT_MEAN,
	BLASTTEST_RTT_MAX,
};

enum { BLASTTEST_RUNS = 16 /* that a server remembers */ };

enum blasttest_kind { BLASTTEST_MESSAGE = 1, BLASTTEST_ANSWER };

struct blasttest_header {
	uint32_t kind, number, count; /* count: bytes of a message, or messages */
	uint64_t run;
};

/* A message that was sent. */
struct blasttest_slot {
	struct xk_ticket ticket;
	uint64_t sent_ns;
	bool waiting; /* for its answer */
	bool pushing; /* the ticket is the push's */
};

/* What has come of a run. */
struct blasttest_served {
	uint64_t run;
	uint32_t whole;
};

struct blasttest {
	struct xk_protocol protocol;
	/* settings */
	bool serve;
	uint32_t to; /* 0: a program starts the runs */
	uint64_t count, size, window, timeout_ns, start_ns;

	struct xk_event event;        /* starts the client */
	struct xk_semaphore answered; /* once for each answer */
	struct xk_session *session;   /* the client's */
	struct xk_lock lock;          /* over what follows */
	bool running;
	struct xk_blasttest_run run;
	struct xk_blasttest_result result;
	struct round_trips trips;
	uint64_t id;
	uint64_t oldest; /* message whose answer is awaited; result.sent is the next one */
	struct blasttest_slot slots[XK_BLASTTEST_WINDOW]; /* by number modulo */
	struct blasttest_served served[BLASTTEST_RUNS];   /* a ring */
	unsigned served_next;
};

static struct blasttest *
blasttest_of(struct xk_protocol *self)
{
	return (struct blasttest *)self;
}

static struct blasttest_slot *
blasttest_slot_of(struct blasttest *t, uint64_t number)
{
	return &t->slots[number % XK_BLASTTEST_WINDOW];
}

/* ---- what messages look like ---- */

enum {
	BLASTTEST_AT_KIND = 0,
	BLASTTEST_AT_NUMBER = 4,
	BLASTTEST_AT_RUN = 8,
	BLASTTEST_AT_COUNT = 16,
};

static_assert(BLASTTEST_AT_COUNT + 4 == XK_BLASTTEST_MIN, "the header ends with its last field");

static const struct xk_field_value blasttest_kinds[] = { { BLASTTEST_MESSAGE, "message" },
							 { BLASTTEST_ANSWER, "answer" },
							 { 0, NULL } };

static const struct xk_field blasttest_fields[] = {
	{ .name = "kind", .bits = 32, .values = blasttest_kinds },
	{ .name = "number", .bits = 32 },
	{ .name = "run", .bits = 64, .print = XK_PRINT_HEX },
	{ .name = "count",
	  .bits = 32,
	  .help = "bytes of a message; of an answer, messages of the run that came whole" },
	{ .name = NULL },
};

static void
blasttest_header_store(uint8_t *p, const struct blasttest_header *h)
{
	xk_put32(p + BLASTTEST_AT_KIND, h->kind);
	xk_put32(p + BLASTTEST_AT_NUMBER, h->number);
	xk_put64(p + BLASTTEST_AT_RUN, h->run);
	xk_put32(p + BLASTTEST_AT_COUNT, h->count);
}

/* 0, or the reason to drop m. */
static unsigned
blasttest_header_load(struct blasttest_header *h, const struct xk_msg *m)
{
	const uint8_t *p = m->data;

	h->kind = xk_get32(p + BLASTTEST_AT_KIND);
	h->number = xk_get32(p + BLASTTEST_AT_NUMBER);
	h->run = xk_get64(p + BLASTTEST_AT_RUN);
	h->count = xk_get32(p + BLASTTEST_AT_COUNT);
	if (h->kind == BLASTTEST_MESSAGE)
		return 0;
	return h->kind == BLASTTEST_ANSWER && xk_msg_len(m) == XK_BLASTTEST_MIN ? 0 : BLASTTEST_BAD;
}

/* Byte i of a message. No period, so that a fragment in the wrong place, or of another message, is seen. */
static inline uint8_t
blasttest_byte(const struct blasttest_header *h, uint32_t i)
{
	return (uint8_t)((i * UINT32_C(2654435761) >> 15) + i + h->number + h->run);
}

/* A message of h, or an answer. NULL: no buffer. */
static struct xk_msg *
blasttest_message(struct blasttest *t, const struct blasttest_header *h, uint32_t size)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(&t->protocol), size);
	uint32_t i = XK_BLASTTEST_MIN, begin = XK_BLASTTEST_MIN;

	if (m == NULL)
		return NULL;
	blasttest_header_store(m->data, h);
	for (struct xk_msg *part = m; part != NULL; part = part->next, begin = 0)
		for (uint32_t at = begin; at < part->len; at++)
			part->data[at] = blasttest_byte(h, i++);
	return m;
}

/* Whether m is what was sent with h, which it begins with in one piece. */
static bool
blasttest_is_right(const struct blasttest_header *h, const struct xk_msg *m)
{
	uint32_t i = XK_BLASTTEST_MIN, begin = XK_BLASTTEST_MIN;

	if (xk_msg_len(m) != h->count)
		return false;
	for (; m != NULL; m = m->next, begin = 0)
		for (uint32_t at = begin; at < m->len; at++)
			if (m->data[at] != blasttest_byte(h, i++))
				return false;
	return true;
}

/* ---- the server ---- */

/* One more message of the run has come whole. How many those are. The lock is held. */
static uint32_t
blasttest_serve_count(struct blasttest *t, uint64_t run)
{
	struct blasttest_served *served = NULL;

	for (unsigned i = 0; i < BLASTTEST_RUNS; i++)
		if (t->served[i].run == run)
			served = &t->served[i];
	if (served == NULL) {
		served = &t->served[t->served_next++ % BLASTTEST_RUNS];
		*served = (struct blasttest_served){ run, 0 };
	}
	return ++served->whole;
}

static void
blasttest_answer(struct blasttest *t, struct xk_session *lls, const struct blasttest_header *h)
{
	struct blasttest_header answer = { BLASTTEST_ANSWER, h->number, 0, h->run };
	struct xk_msg *m;

	xk_count(&t->protocol, BLASTTEST_WHOLE);
	xk_lock(&t->lock);
	answer.count = blasttest_serve_count(t, h->run);
	xk_unlock(&t->lock);
	m = blasttest_message(t, &answer, XK_BLASTTEST_MIN);
	if (m != NULL)
		xk_push(lls, m);
}

/* ---- the client; the lock is held ---- */

static void
blasttest_measure(struct blasttest *t, uint64_t rtt_ns)
{
	t->result.answered++;
	round_trips_add(&t->trips, rtt_ns);
	xk_count(&t->protocol, BLASTTEST_ANSWERED);
}

/* An answer at now_ns. *ticket is to be released. 0, or the reason to drop it. */
static unsigned
blasttest_hear(struct blasttest *t, const struct blasttest_header *h, uint64_t now_ns, struct xk_ticket *ticket)
{
	uint64_t ago = (uint32_t)(t->result.sent - 1 - h->number), number = t->result.sent - 1 - ago;
	struct blasttest_slot *slot = blasttest_slot_of(t, number);

	if (!t->running || h->run != t->id || ago >= t->result.sent - t->oldest || !slot->waiting)
		return BLASTTEST_LATE;
	slot->waiting = false;
	t->result.whole = h->count;
	blasttest_measure(t, now_ns - slot->sent_ns);
	if (slot->pushing)
		return 0;
	*ticket = slot->ticket;
	slot->ticket.keeper = NULL;
	return 0;
}

/* Forgets the oldest messages that have been answered, and, if it is overdue, the oldest one that has not. */
static bool
blasttest_advance(struct blasttest *t, uint64_t now_ns, struct xk_ticket *ticket)
{
	struct blasttest_slot *slot;

	while (t->oldest < t->result.sent && !blasttest_slot_of(t, t->oldest)->waiting)
		t->oldest++;
	slot = blasttest_slot_of(t, t->oldest);
	if (t->oldest == t->result.sent || now_ns < slot->sent_ns + t->run.timeout_ns)
		return false;
	slot->waiting = false;
	*ticket = slot->ticket;
	slot->ticket.keeper = NULL;
	t->result.lost++;
	xk_count(&t->protocol, BLASTTEST_LOST);
	return true;
}

/* ---- the client's shepherd ---- */

/* How many messages wait for their answers, after an end to those that have waited for too long. */
static uint64_t
blasttest_under_way(struct blasttest *t)
{
	struct xk_ticket ticket = { .keeper = NULL };
	uint64_t under_way, now_ns = xk_now_ns(&t->protocol);
	bool lost;

	do {
		xk_lock(&t->lock);
		lost = blasttest_advance(t, now_ns, &ticket);
		under_way = t->result.sent - t->oldest;
		xk_unlock(&t->lock);
		xk_ticket_release(&ticket);
	} while (lost);
	return under_way;
}

/* Waits until fewer than `window` are under way. 0; or the kernel is stopping, or the shepherd could not wait. */
static int
blasttest_wait(struct blasttest *t, uint64_t window)
{
	int err = 0;

	while (err == 0 && blasttest_under_way(t) >= window) {
		uint64_t due_ns = blasttest_slot_of(t, t->oldest)->sent_ns + t->run.timeout_ns;
		uint64_t now_ns = xk_now_ns(&t->protocol);

		err = xk_semaphore_wait(&t->answered, due_ns <= now_ns ? 1 : xk_us_of_ns(due_ns - now_ns));
		if (err == -ETIMEDOUT)
			err = 0;
	}
	return err;
}

/* Room for one more message. */
static struct blasttest_slot *
blasttest_begin_push(struct blasttest *t)
{
	struct blasttest_slot *slot = blasttest_slot_of(t, t->result.sent);

	xk_lock(&t->lock);
	*slot = (struct blasttest_slot){ { .keeper = NULL }, xk_now_ns(&t->protocol), true, true };
	t->result.sent++;
	xk_unlock(&t->lock);
	xk_count(&t->protocol, BLASTTEST_SENT);
	return slot;
}

/* The push of slot has returned; the answer may have come meanwhile. */
static void
blasttest_end_push(struct blasttest *t, struct blasttest_slot *slot, int status)
{
	struct xk_ticket ticket = { .keeper = NULL };

	xk_lock(&t->lock);
	slot->pushing = false;
	if (!slot->waiting) {
		ticket = slot->ticket;
		slot->ticket.keeper = NULL;
	}
	t->result.unsent += status != 0;
	xk_unlock(&t->lock);
	xk_ticket_release(&ticket);
	if (status != 0)
		xk_count(&t->protocol, BLASTTEST_UNSENT);
}

static void
blasttest_send(struct blasttest *t)
{
	struct blasttest_header h = { BLASTTEST_MESSAGE, (uint32_t)t->result.sent, t->run.size, t->id };
	struct xk_msg *m = blasttest_message(t, &h, t->run.size);
	struct blasttest_slot *slot = blasttest_begin_push(t);
	int status = -ENOBUFS;

	if (m != NULL) {
		xk_ticket_put(m, &slot->ticket);
		status = xk_push(t->session, m);
	}
	blasttest_end_push(t, slot, status);
}

/* Opens the session; then whether the run is possible. 0 or -errno. */
static int
blasttest_open(struct blasttest *t)
{
	struct xk_protocol *self = &t->protocol;
	struct xk_participants participants = { .remote.depth = 0 };
	uint32_t max_packet = 0;
	int err;

	xk_participant_push(&participants.remote, t->run.host);
	err = xk_open(self, self, xk_lower(self, 0), &participants, &t->session);
	if (err != 0)
		return err;
	xk_control(t->session, XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet));
	return t->run.size <= max_packet ? 0 : -EMSGSIZE;
}

static void
blasttest_finish(struct blasttest *t, int error)
{
	struct xk_blasttest_result *result = &t->result;

	xk_close(t->session);
	t->session = NULL;
	xk_lock(&t->lock);
	result->error = error;
	result->rtt_min_ns = t->trips.min_ns;
	result->rtt_mean_ns = round_trips_mean_ns(&t->trips);
	result->rtt_max_ns = t->trips.max_ns;
	t->running = false;
	t->run.finished(t->run.argument, result);
	xk_unlock(&t->lock);
}

static void
blasttest_client(void *argument)
{
	struct blasttest *t = argument;
	int err = blasttest_open(t);

	for (uint64_t i = 0; i < t->run.count && err == 0; i++) {
		err = blasttest_wait(t, t->run.window);
		if (err == 0)
			blasttest_send(t);
	}
	if (err == 0)
		err = blasttest_wait(t, 1);
	blasttest_finish(t, err);
}

static void
blasttest_start_client(struct xk_event *event, void *argument)
{
	struct blasttest *t = argument;
	int err = xk_thread_start(t->protocol.kernel, t->protocol.name, blasttest_client, t);

	(void)event;
	if (err != 0)
		blasttest_finish(t, err);
}

/* ---- runs ---- */

static int
blasttest_start(struct blasttest *t, const struct xk_blasttest_run *run, uint64_t delay_ns)
{
	int err = -EBUSY;

	if (run->size < XK_BLASTTEST_MIN || run->size > XK_BLASTTEST_MAX || run->window == 0 ||
	    run->window > XK_BLASTTEST_WINDOW || run->timeout_ns < 1000 || run->finished == NULL)
		return -EINVAL;
	xk_lock(&t->lock);
	if (!t->running) {
		t->running = true;
		t->run = *run;
		t->result = (struct xk_blasttest_result){ .error = 0 };
		t->id = xk_random(&t->protocol);
		t->trips = (struct round_trips){ .count = 0 };
		t->oldest = 0;
		xk_event_schedule(&t->event, delay_ns / 1000);
		err = 0;
	}
	xk_unlock(&t->lock);
	return err;
}

int
xk_blasttest_start(struct xk_protocol *blasttest, const struct xk_blasttest_run *run)
{
	return blasttest_start(blasttest_of(blasttest), run, 0);
}

static void
blasttest_own_finished(void *argument, const struct xk_blasttest_result *result)
{
	struct blasttest *t = argument;

	xk_counter_set(&t->protocol, BLASTTEST_WHOLE_THERE, result->whole);
	round_trips_tell(&t->trips, &t->protocol, BLASTTEST_RTT_MIN);
	xk_trace(&t->protocol, XK_TRACE_EVENTS, "%s: %llu sent, %llu answered, rtt %llu to %llu, mean %llu ns",
		 result->error == 0 ? "finished" : "failed", (unsigned long long)result->sent,
		 (unsigned long long)result->answered, (unsigned long long)result->rtt_min_ns,
		 (unsigned long long)result->rtt_max_ns, (unsigned long long)result->rtt_mean_ns);
}

/* The run that the settings describe. */
static int
blasttest_start_by_itself(struct blasttest *t)
{
	struct xk_blasttest_run run = {
		.host = t->to,
		.size = (uint32_t)t->size,
		.window = (uint32_t)t->window,
		.count = t->count,
		.timeout_ns = t->timeout_ns,
		.finished = blasttest_own_finished,
		.argument = t,
	};

	return blasttest_start(t, &run, t->start_ns);
}

/* ---- the protocol ---- */

/* 0, or the reason to drop m. */
static unsigned
blasttest_receive(struct blasttest *t, struct xk_session *lls, const struct xk_msg *m, const struct blasttest_header *h)
{
	struct xk_ticket ticket = { .keeper = NULL };
	uint64_t now_ns = xk_now_ns(&t->protocol);
	unsigned why;

	if (h->kind == BLASTTEST_MESSAGE) {
		if (!t->serve)
			return XK_DROP_NO_SESSION;
		if (!blasttest_is_right(h, m))
			return BLASTTEST_CORRUPT;
		blasttest_answer(t, lls, h);
		return 0;
	}
	xk_lock(&t->lock);
	why = blasttest_hear(t, h, now_ns, &ticket);
	xk_unlock(&t->lock);
	xk_ticket_release(&ticket);
	if (why == 0)
		xk_semaphore_signal(&t->answered);
	return why;
}

static void
blasttest_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct blasttest_header h;
	unsigned why = blasttest_header_load(&h, m);

	if (why == 0)
		why = blasttest_receive(blasttest_of(self), lls, m, &h);
	if (why != 0)
		xk_drop(self, m, why);
	else
		xk_msg_free(m);
}

static int
blasttest_init(struct xk_protocol *self)
{
	struct blasttest *t = blasttest_of(self);
	struct xk_participants anybody = { .remote.depth = 0 };
	int err = xk_open_enable(self, self, xk_lower(self, 0), &anybody);

	if (err != 0)
		return err;
	xk_lock_init(&t->lock, self);
	xk_semaphore_init(&t->answered, self, 0);
	xk_event_init(&t->event, self->kernel, blasttest_start_client, t);
	return t->to == 0 ? 0 : blasttest_start_by_itself(t);
}

static void
blasttest_fini(struct xk_protocol *self)
{
	struct blasttest *t = blasttest_of(self);

	xk_event_cancel(&t->event);
	for (unsigned i = 0; i < XK_BLASTTEST_WINDOW; i++)
		xk_ticket_release(&t->slots[i].ticket);
	xk_close(t->session);
}

static const struct xk_role blasttest_lowers[] = {
	{ .name = "transport", .needs = XK_ASYNC, .help = "carries messages to hosts: blast" },
	{ .name = NULL },
};

static const struct xk_setting blasttest_settings[] = {
	{ "serve", XK_SETTING_BOOL, offsetof(struct blasttest, serve), "yes", "whether messages are answered", 0, 0 },
	{ "to", XK_SETTING_HOST, offsetof(struct blasttest, to), NULL, "the server of a run that begins by itself", 0,
	  0 },
	{ "count", XK_SETTING_UINT, offsetof(struct blasttest, count), "100", "... its messages", 0, 0 },
	{ "size", XK_SETTING_UINT, offsetof(struct blasttest, size), "16k", "... bytes of each", XK_BLASTTEST_MIN,
	  XK_BLASTTEST_MAX },
	{ "window", XK_SETTING_UINT, offsetof(struct blasttest, window), "1",
	  "... messages whose answers are awaited at a time", 1, XK_BLASTTEST_WINDOW },
	{ "timeout", XK_SETTING_TIME, offsetof(struct blasttest, timeout_ns), "2s",
	  "... after this a message that was not answered is lost", 1000, UINT64_C(3600000000000) },
	{ "start", XK_SETTING_TIME, offsetof(struct blasttest, start_ns), "0s", "... how long after the boot it begins",
	  0, UINT64_C(86400000000000) },
	{ .name = NULL },
};

static const char *const blasttest_drops[] = { "bad", "corrupt", "late", NULL };

static const char *const blasttest_counters[] = { "whole",       "sent",       "answered",    "lost",       "unsent",
						  "whole_there", "rtt_min_ns", "rtt_mean_ns", "rtt_max_ns", NULL };

static const struct xk_protocol_ops blasttest_ops = {
	.init = blasttest_init,
	.fini = blasttest_fini,
	.demux = blasttest_demux,
};

static const struct xk_number_on blasttest_numbers[] = { { "blast", 0x3004 }, { "eth", 0x3004 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_blasttest = {
	.name = "blasttest",
	.help = "Sends messages, and answers with how many have come whole.",
	.ops = &blasttest_ops,
	.header = XK_BLASTTEST_MIN,
	.fields = blasttest_fields,
	.size = sizeof(struct blasttest),
	.lowers = blasttest_lowers,
	.numbers = blasttest_numbers,
	.settings = blasttest_settings,
	.drops = blasttest_drops,
	.counters = blasttest_counters,
};
