/*
 * blasttest.c - the test protocol above BLAST: a client sends messages of one size; the server checks every byte, and
 * answers with the number of messages that arrived whole. Every instance is a server. A program makes it a client
 * (blasttest.h), or the setting `to` does. An answer releases BLAST's copy of its message (ticket.h).
 *
 * Spec:         our own; a header of 20 bytes (BLASTTEST_HEADER); the rest of a message follows from its number and run
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

#define BLASTTEST_DROPS(D)                                                                                             \
	D(BLASTTEST_BAD, "bad")                                                                                        \
	D(BLASTTEST_CORRUPT, "corrupt")                                                                                \
	D(BLASTTEST_LATE, "late")
XK_DROPS(blasttest, BLASTTEST_DROPS);

#define BLASTTEST_COUNTERS(C)                                                                                          \
	C(BLASTTEST_WHOLE, "whole")                                                                                    \
	C(BLASTTEST_SENT, "sent") /* and the next three: of the messages (messages_private.h) */                       \
	C(BLASTTEST_ANSWERED, "answered")                                                                              \
	C(BLASTTEST_LOST, "lost")                                                                                      \
	C(BLASTTEST_UNSENT, "unsent")                                                                                  \
	C(BLASTTEST_WHOLE_THERE, "whole_there")                                                                        \
	C(BLASTTEST_RTT_MIN, "rtt_min_ns") /* and the next two */                                                      \
	C(BLASTTEST_RTT_MEAN, "rtt_mean_ns")                                                                           \
	C(BLASTTEST_RTT_MAX, "rtt_max_ns")
XK_COUNTERS(blasttest, BLASTTEST_COUNTERS);

enum { BLASTTEST_RUNS = 16 /* remembered by a server */ };

enum blasttest_kind { BLASTTEST_MESSAGE = 1, BLASTTEST_ANSWER };

static const struct xk_field_value blasttest_kinds[] = { { BLASTTEST_MESSAGE, "message" },
							 { BLASTTEST_ANSWER, "answer" },
							 { 0, NULL } };

#define BLASTTEST_HEADER(F)                                                                                            \
	F(32, kind, .values = blasttest_kinds)                                                                         \
	F(32, number)                                                                                                  \
	F(64, run, .print = XK_PRINT_HEX)                                                                              \
	F(32, count, .help = "bytes of a message; in an answer, messages of the run that arrived whole")
XK_HEADER(blasttest, BLASTTEST_HEADER);
XK_FIELDS(blasttest, BLASTTEST_HEADER);
static_assert(XK_HEADER_LEN(blasttest) == XK_BLASTTEST_MIN, "as in blasttest.h");

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

/* Returns 0, or the reason to drop m, whose header is h. */
static unsigned
blasttest_check(const struct blasttest_header *h, const struct xk_msg *m)
{
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
		blasttest_store(m->data, h);
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
	struct blasttest_header answer = { BLASTTEST_ANSWER, h->number, h->run, 0 };
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
	struct blasttest_header h = { BLASTTEST_MESSAGE, (uint32_t)number, t->id, t->run.size };

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
	if (err == 0 && messages->answered == 0)
		err = -ETIMEDOUT;
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
	struct blasttest_header h = blasttest_load(m->data);
	unsigned why = blasttest_check(&h, m);

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
	XK_SETTING(BOOL, struct blasttest, serve, "serve", "whether to answer messages", .initial = "yes"),
	XK_SETTING(HOST, struct messages, to, "to", "server of a run that begins by itself"),
	XK_SETTING(UINT, struct messages, count, "count", "messages of that run", .initial = "100"),
	XK_SETTING(UINT, struct messages, size, "size", "bytes of each", .initial = "16k", .min = XK_BLASTTEST_MIN,
		   .max = XK_BLASTTEST_MAX),
	XK_SETTING(UINT, struct blasttest, window, "window", "maximum number of messages whose answers are awaited",
		   .initial = "1", .min = 1, .max = XK_BLASTTEST_WINDOW),
	XK_SETTING(TIME, struct messages, timeout_ns, "timeout", "time after which a message without an answer is lost",
		   .initial = "2s", .min = 1000, .max = UINT64_C(3600000000000)),
	XK_SETTING(TIME, struct messages, start_ns, "start", "time from the boot to its start", .initial = "0s",
		   .max = UINT64_C(86400000000000)),
	{ .name = NULL },
};

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
