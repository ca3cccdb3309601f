/*
 * blasttest.c - the test protocol above BLAST: a client sends messages of one size; the server checks every byte, and
 * answers with the number of messages that arrived whole. Every instance is a server. A program makes it a client
 * (blasttest.h), or the setting `to` does. An answer releases BLAST's copy of its message (ticket.h).
 *
 * Spec:         our own; a header of 20 bytes (blasttest_fields); the rest of a message follows from its number and run
 * Participants: none above; below (remote: host)
 * Control:      the session below answers
 * Drops:        bad (neither a message nor an answer), corrupt (length or a byte), late (an answer that nobody
 *               awaits); no_session (messages while serve=no)
 * Counters:     whole counts messages that arrived here; unsent messages (refused below) count as sent and lost;
 *               whole_there and rtt_... describe the run that `to` started
 * Graph:        blasttest -> blast
 */
#include "protocols/test/blasttest.h"

#include <errno.h>

#include "protocols/test/messages_private.h"
#include "xkernel/bytes.h"

enum blasttest_drop { BLASTTEST_BAD = XK_DROP_OWN, BLASTTEST_CORRUPT, BLASTTEST_LATE };

enum blasttest_counter {
	BLASTTEST_WHOLE,
	BLASTTEST_SENT, /* and answered, lost, unsent */
	BLASTTEST_WHOLE_THERE = BLASTTEST_SENT + 4,
	BLASTTEST_RTT_MIN, /* and mean, max */
};

enum { BLASTTEST_RUNS = 16 /* remembered by a server */ };

enum blasttest_kind { BLASTTEST_MESSAGE = 1, BLASTTEST_ANSWER };

struct blasttest_header {
	uint32_t kind, number, count; /* count: bytes of a message, or messages */
	uint64_t run;
};

/* The messages of a run that arrived here. */
struct blasttest_served {
	uint64_t run;
	uint32_t whole;
};

struct blasttest {
	struct messages messages;
	/* settings */
	bool serve;
	uint64_t window;

	/* under the messages' lock */
	struct xk_blasttest_run run; /* `finished` is NULL in the run that `to` started */
	uint64_t id;                 /* of the run */
	uint32_t whole_there;
	struct blasttest_served served[BLASTTEST_RUNS]; /* a ring */
	unsigned served_next;
};

/* ---- messages ---- */

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
	  .help = "bytes of a message; in an answer, messages of the run that arrived whole" },
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

/* Returns 0, or the reason to drop m. */
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

/* Returns message or answer h, of `size` bytes. NULL: no buffer. */
static struct xk_msg *
blasttest_message_new(struct blasttest *t, const struct blasttest_header *h, uint32_t size)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(&t->messages.protocol), size);

	if (m != NULL) {
		blasttest_header_store(m->data, h);
		messages_fill(m, XK_BLASTTEST_MIN, XK_BLASTTEST_MIN, (uint8_t)(h->number + h->run));
	}
	return m;
}

/* ---- the server ---- */

/* Counts a whole message of the run. Returns how many there were. The lock is held. */
static uint32_t
blasttest_serve(struct blasttest *t, uint64_t run)
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

/* Checks and answers a message. Returns 0, or the reason to drop it. */
static unsigned
blasttest_receive_message(struct blasttest *t, struct xk_session *lls, const struct xk_msg *m,
			  const struct blasttest_header *h)
{
	struct blasttest_header answer = { BLASTTEST_ANSWER, h->number, 0, h->run };
	struct xk_msg *reply;

	if (!t->serve)
		return XK_DROP_NO_SESSION;
	if (xk_msg_len(m) != h->count ||
	    !messages_is_filled(m, XK_BLASTTEST_MIN, XK_BLASTTEST_MIN, (uint8_t)(h->number + h->run)))
		return BLASTTEST_CORRUPT;
	xk_count(&t->messages.protocol, BLASTTEST_WHOLE);
	xk_lock(&t->messages.lock);
	answer.count = blasttest_serve(t, h->run);
	xk_unlock(&t->messages.lock);
	reply = blasttest_message_new(t, &answer, XK_BLASTTEST_MIN);
	if (reply != NULL)
		xk_push(lls, reply);
	return 0;
}

/* ---- the client ---- */

/* Returns 0, or the reason to drop the answer. */
static unsigned
blasttest_receive_answer(struct blasttest *t, const struct blasttest_header *h)
{
	uint64_t now_ns = xk_now_ns(&t->messages.protocol), number;
	struct xk_ticket ticket = { .keeper = NULL };
	struct messages_slot *slot;
	unsigned why = BLASTTEST_LATE;

	xk_lock(&t->messages.lock);
	slot = messages_find(&t->messages, h->number, UINT32_MAX, &number);
	if (slot != NULL && slot->state == MESSAGES_WAITING && h->run == t->id) {
		why = 0;
		t->whole_there = h->count;
		ticket = messages_ticket(slot);
		messages_answer(&t->messages, slot, now_ns - slot->sent_ns);
	}
	xk_unlock(&t->messages.lock);
	xk_ticket_release(&ticket);
	return why;
}

static struct xk_msg *
blasttest_message(struct messages *messages, uint64_t number)
{
	struct blasttest *t = (struct blasttest *)messages;
	struct blasttest_header h = { BLASTTEST_MESSAGE, (uint32_t)number, t->run.size, t->id };

	return blasttest_message_new(t, &h, t->run.size);
}

static void
blasttest_finished(struct messages *messages, int err)
{
	struct blasttest *t = (struct blasttest *)messages;
	const struct client_trips *trips = &messages->trips;
	struct xk_blasttest_result result = {
		.error = err,
		.sent = messages->sent,
		.answered = messages->answered,
		.lost = messages->lost,
		.unsent = messages->unsent,
		.whole = t->whole_there,
		.rtt_min_ns = trips->min_ns,
		.rtt_mean_ns = client_trips_mean_ns(trips),
		.rtt_max_ns = trips->max_ns,
	};

	if (t->run.finished != NULL) {
		t->run.finished(t->run.argument, &result);
		return;
	}
	xk_counter_set(&messages->protocol, BLASTTEST_WHOLE_THERE, t->whole_there);
	client_report(&messages->protocol, err, (struct client_count){ messages->sent, "sent" },
		      (struct client_count){ messages->answered, "answered" }, trips, BLASTTEST_RTT_MIN);
}

static const struct messages_kind blasttest_messages = {
	.slots = XK_BLASTTEST_WINDOW,
	.has_tickets = true,
	.counters = BLASTTEST_SENT,
	.message = blasttest_message,
	.finished = blasttest_finished,
};

static int
blasttest_begin(struct blasttest *t, const struct xk_blasttest_run *run, uint64_t delay_ns)
{
	struct messages_run messages_run = {
		.host = run->host,
		.len = run->size,
		.count = run->count,
		.window = run->window,
		.timeout_ns = run->timeout_ns,
	};
	int err;

	if (run->size < XK_BLASTTEST_MIN || run->size > XK_BLASTTEST_MAX || run->window == 0 ||
	    run->window > XK_BLASTTEST_WINDOW || run->timeout_ns < 1000)
		return -EINVAL;
	xk_lock(&t->messages.lock);
	err = messages_begin(&t->messages, &messages_run, delay_ns);
	if (err == 0) {
		t->run = *run;
		t->id = xk_random(&t->messages.protocol);
		t->whole_there = 0;
	}
	xk_unlock(&t->messages.lock);
	return err;
}

int
xk_blasttest_start(struct xk_protocol *blasttest, const struct xk_blasttest_run *run)
{
	return run->finished == NULL ? -EINVAL : blasttest_begin((struct blasttest *)blasttest, run, 0);
}

/* ---- the protocol ---- */

static void
blasttest_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct blasttest *t = (struct blasttest *)self;
	struct blasttest_header h;
	unsigned why = blasttest_header_load(&h, m);

	if (why == 0)
		why = h.kind == BLASTTEST_MESSAGE ? blasttest_receive_message(t, lls, m, &h)
						  : blasttest_receive_answer(t, &h);
	if (why != 0)
		xk_drop(self, m, why);
	else
		xk_msg_free(m);
}

static int
blasttest_init(struct xk_protocol *self)
{
	struct blasttest *t = (struct blasttest *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	struct xk_blasttest_run run = {
		.host = t->messages.to,
		.size = (uint32_t)t->messages.size,
		.window = (uint32_t)t->window,
		.count = t->messages.count,
		.timeout_ns = t->messages.timeout_ns,
	};
	int err = xk_open_enable(self, self, xk_lower(self, 0), &anybody);

	if (err == 0)
		err = messages_init(&t->messages, &blasttest_messages);
	if (err == 0 && run.host != 0)
		err = blasttest_begin(t, &run, t->messages.start_ns);
	return err;
}

static void
blasttest_fini(struct xk_protocol *self)
{
	messages_fini((struct messages *)self);
}

static const struct xk_role blasttest_lowers[] = {
	{ .name = "transport", .needs = XK_ASYNC, .help = "carries messages to hosts: blast" },
	{ .name = NULL },
};

static const struct xk_setting blasttest_settings[] = {
	{ "serve", XK_SETTING_BOOL, offsetof(struct blasttest, serve), "yes", "whether to answer messages", 0, 0 },
	{ "to", XK_SETTING_HOST, offsetof(struct messages, to), NULL, "server of a run that begins by itself", 0, 0 },
	{ "count", XK_SETTING_UINT, offsetof(struct messages, count), "100", "messages of that run", 0, 0 },
	{ "size", XK_SETTING_UINT, offsetof(struct messages, size), "16k", "bytes of each", XK_BLASTTEST_MIN,
	  XK_BLASTTEST_MAX },
	{ "window", XK_SETTING_UINT, offsetof(struct blasttest, window), "1",
	  "maximum number of messages whose answers are awaited", 1, XK_BLASTTEST_WINDOW },
	{ "timeout", XK_SETTING_TIME, offsetof(struct messages, timeout_ns), "2s",
	  "time after which a message without an answer is lost", 1000, UINT64_C(3600000000000) },
	{ "start", XK_SETTING_TIME, offsetof(struct messages, start_ns), "0s", "time from the boot to its start", 0,
	  UINT64_C(86400000000000) },
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
	.help = "Sends messages, and answers each with the number that arrived whole.",
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
