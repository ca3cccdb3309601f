/*
 * icmptest.c - the test protocol above ICMP: pings. Sends echo requests at an interval and checks every byte of the
 * replies. A program starts a run (icmptest.h), or the setting `to` does. Any host with icmp is a server: ICMP answers
 * the requests of others. While the host is unreachable, requests that are due are lost unsent.
 *
 * Spec:         RFC 792 echo; the data follows from its position, the sequence number and `pattern`
 * Participants: none above; below (remote: host)
 * Control:      the session below answers
 * Counters:     unsent requests (refused below) count as sent and lost; fault_... counts reports of hosts on requests;
 *               rtt_... describe the run that `to` started
 * Drops:        duplicate, late, corrupt (length or a byte); unasked (a reply to no remembered request)
 * Graph:        icmptest -> icmp
 */
#include "protocols/test/icmptest.h"

#include <errno.h>

#include "protocols/icmp.h"
#include "protocols/test/messages_private.h"
#include "xkernel/bytes.h"
#include "xkernel/trace.h"

#define ICMPTEST_DROPS(D)                                                                                              \
	D(ICMPTEST_DUPLICATE, "duplicate")                                                                             \
	D(ICMPTEST_LATE, "late")                                                                                       \
	D(ICMPTEST_CORRUPT, "corrupt")                                                                                 \
	D(ICMPTEST_UNASKED, "unasked")
XK_DROPS(icmptest, ICMPTEST_DROPS);

#define ICMPTEST_COUNTERS(C)                                                                                           \
	C(ICMPTEST_SENT, "sent") /* and the next three: of the requests (messages_private.h) */                        \
	C(ICMPTEST_RECEIVED, "received")                                                                               \
	C(ICMPTEST_LOST, "lost")                                                                                       \
	C(ICMPTEST_UNSENT, "unsent")                                                                                   \
	C(ICMPTEST_RTT_MIN, "rtt_min_ns") /* and the next two */                                                       \
	C(ICMPTEST_RTT_MEAN, "rtt_mean_ns")                                                                            \
	C(ICMPTEST_RTT_MAX, "rtt_max_ns")                                                                              \
	C(ICMPTEST_FAULT, "fault_network") /* and on: by enum xk_fault */                                              \
	C(ICMPTEST_FAULT_HOST, "fault_host")                                                                           \
	C(ICMPTEST_FAULT_PROTOCOL, "fault_protocol")                                                                   \
	C(ICMPTEST_FAULT_PORT, "fault_port")                                                                           \
	C(ICMPTEST_FAULT_TOO_BIG, "fault_too_big")                                                                     \
	C(ICMPTEST_FAULT_HOPS, "fault_hops")                                                                           \
	C(ICMPTEST_FAULT_REASSEMBLY, "fault_reassembly")                                                               \
	C(ICMPTEST_FAULT_HEADER, "fault_header")
XK_COUNTERS(icmptest, ICMPTEST_COUNTERS);

static_assert(ICMPTEST_FAULT_HEADER - ICMPTEST_FAULT + 1 == XK_FAULTS, "a name for each");

#define ICMPTEST_HEADER(F) F(16, sequence, .help = "of the request")
XK_HEADER(icmptest, ICMPTEST_HEADER);
XK_FIELDS(icmptest, ICMPTEST_HEADER);
static_assert(XK_HEADER_LEN(icmptest) == XK_ICMP_SEQUENCE_LEN, "as in icmp.h");

struct icmptest {
	struct messages messages;
	/* settings */
	uint64_t interval_ns, pattern;

	/* under the messages' lock, which is held while the run's `happened` is called */
	struct xk_icmptest_run run; /* `finished` is NULL in the run that `to` started */
	struct xk_icmptest_result result;
};

/* ---- events of requests; the lock is held ---- */

static void
icmptest_happened(struct icmptest *t, const struct xk_icmptest_event *event)
{
	if (t->run.happened != NULL)
		t->run.happened(t->run.argument, event);
}

static void
icmptest_missed(struct messages *messages, uint64_t number, bool sent)
{
	struct xk_icmptest_event event = { .kind = sent ? XK_ICMPTEST_LOST : XK_ICMPTEST_UNSENT, .sequence = number };

	icmptest_happened((struct icmptest *)messages, &event);
}

/* Checks a reply that arrived at now_ns. Returns 0, or the reason to drop it. */
static unsigned
icmptest_check(struct icmptest *t, const struct xk_msg *m, uint64_t now_ns)
{
	struct xk_icmptest_event event = { .size = (uint32_t)xk_msg_len(m) - XK_ICMP_SEQUENCE_LEN };
	struct xk_icmptest_result *result = &t->result;
	uint16_t low = XK_GET(icmptest, sequence, m->data);
	struct messages_slot *slot = messages_find(&t->messages, low, UINT16_MAX, &event.sequence);
	unsigned why = 0;

	if (slot == NULL)
		return ICMPTEST_UNASKED;
	event.rtt_ns = now_ns - slot->sent_ns;
	if (event.size != t->run.size ||
	    !messages_is_filled(m, XK_ICMP_SEQUENCE_LEN, 0, (uint8_t)(low + t->run.pattern))) {
		event.kind = XK_ICMPTEST_CORRUPT;
		result->corrupt++;
		why = ICMPTEST_CORRUPT;
	} else if (slot->state == MESSAGES_WAITING) {
		event.kind = XK_ICMPTEST_REPLY;
		messages_answer(&t->messages, slot, event.rtt_ns);
	} else if (slot->state == MESSAGES_LOST) {
		event.kind = XK_ICMPTEST_LATE;
		slot->state = MESSAGES_ANSWERED;
		result->late++;
		why = ICMPTEST_LATE;
	} else {
		event.kind = XK_ICMPTEST_DUPLICATE;
		result->duplicates++;
		why = ICMPTEST_DUPLICATE;
	}
	icmptest_happened(t, &event);
	return why;
}

/* ---- runs ---- */

static struct xk_msg *
icmptest_message(struct messages *messages, uint64_t number)
{
	struct icmptest *t = (struct icmptest *)messages;
	struct xk_msg *m = xk_msg_new(xk_platform_of(&messages->protocol), messages->run.len);

	if (m != NULL) {
		XK_PUT(icmptest, sequence, m->data, number);
		messages_fill(m, XK_ICMP_SEQUENCE_LEN, 0, (uint8_t)(number + t->run.pattern));
	}
	return m;
}

static void
icmptest_finished(struct messages *messages, int err)
{
	struct icmptest *t = (struct icmptest *)messages;
	struct xk_icmptest_result *result = &t->result;

	if (t->run.finished == NULL) {
		client_report(&messages->protocol, err, (struct client_count){ messages->sent, "sent" },
			      (struct client_count){ messages->answered, "received" }, &messages->trips,
			      ICMPTEST_RTT_MIN);
		return;
	}
	result->error = err;
	result->sent = messages->sent;
	result->received = messages->answered;
	result->lost = messages->lost;
	result->unsent = messages->unsent;
	result->rtt_min_ns = messages->trips.min_ns;
	result->rtt_mean_ns = client_trips_mean_ns(&messages->trips);
	result->rtt_max_ns = messages->trips.max_ns;
	t->run.finished(t->run.argument, result);
}

static const struct messages_kind icmptest_kind = {
	.slots = XK_ICMPTEST_WINDOW,
	.has_interval = true,
	.counters = ICMPTEST_SENT,
	.message = icmptest_message,
	.missed = icmptest_missed,
	.finished = icmptest_finished,
};

static int
icmptest_begin(struct icmptest *t, const struct xk_icmptest_run *run, uint64_t delay_ns)
{
	struct messages_run messages_run = {
		.host = run->host,
		.len = run->size + XK_ICMP_SEQUENCE_LEN,
		.count = run->count == 0 ? UINT64_MAX : run->count,
		.window = XK_ICMPTEST_WINDOW,
		.interval_ns = run->interval_ns,
		.timeout_ns = run->timeout_ns,
	};
	int err;

	if (run->size > XK_ICMPTEST_MAX || run->interval_ns < 1000 || run->timeout_ns < 1000 ||
	    run->timeout_ns / run->interval_ns >= XK_ICMPTEST_WINDOW)
		return -EINVAL;
	xk_lock(&t->messages.lock);
	err = messages_begin(&t->messages, &messages_run, delay_ns);
	if (err == 0) {
		t->run = *run;
		t->result = (struct xk_icmptest_result){ .error = 0 };
	}
	xk_unlock(&t->messages.lock);
	return err;
}

int
xk_icmptest_start(struct xk_protocol *icmptest, const struct xk_icmptest_run *run)
{
	return run->finished == NULL ? -EINVAL : icmptest_begin((struct icmptest *)icmptest, run, 0);
}

void
xk_icmptest_stop(struct xk_protocol *icmptest)
{
	messages_stop((struct messages *)icmptest);
}

/* ---- the protocol ---- */

static void
icmptest_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct icmptest *t = (struct icmptest *)self;
	uint64_t now_ns = xk_now_ns(self);
	unsigned why;

	xk_lock(&t->messages.lock);
	why = icmptest_check(t, m, now_ns);
	xk_unlock(&t->messages.lock);
	if (why != 0)
		xk_drop(self, m, why);
	else
		xk_msg_free(m);
}

static int
icmptest_fault(struct xk_protocol *self, struct xk_fault_report *report)
{
	struct icmptest *t = (struct icmptest *)self;
	struct xk_icmptest_event event = { .kind = XK_ICMPTEST_FAULT };
	int err = -ENOENT;

	if (report->len < XK_ICMP_SEQUENCE_LEN)
		return -ENOENT;
	event.fault = report->fault;
	event.from = report->from;
	event.mtu = report->mtu;
	xk_lock(&t->messages.lock);
	if (messages_find(&t->messages, XK_GET(icmptest, sequence, report->begin), UINT16_MAX, &event.sequence) !=
	    NULL) {
		t->result.faults[report->fault]++;
		xk_count(self, ICMPTEST_FAULT + report->fault);
		icmptest_happened(t, &event);
		err = 0;
	}
	xk_unlock(&t->messages.lock);
	return err;
}

static int
icmptest_init(struct xk_protocol *self)
{
	struct icmptest *t = (struct icmptest *)self;
	struct xk_icmptest_run run = {
		.host = t->messages.to,
		.size = (uint32_t)t->messages.size,
		.count = t->messages.count,
		.interval_ns = t->interval_ns,
		.timeout_ns = t->messages.timeout_ns,
		.pattern = (uint8_t)t->pattern,
	};
	int err = messages_init(&t->messages, &icmptest_kind);

	if (err != 0 || run.host == 0)
		return err;
	err = icmptest_begin(t, &run, t->messages.start_ns);
	if (err != 0) {
		xk_trace(self, XK_TRACE_NONE, "timeout is %d intervals or more", XK_ICMPTEST_WINDOW);
		messages_fini(&t->messages);
	}
	return err;
}

static void
icmptest_fini(struct xk_protocol *self)
{
	messages_fini((struct messages *)self);
}

static const struct xk_setting icmptest_settings[] = {
	XK_SETTING(HOST, struct messages, to, "to", "host of a run that begins by itself"),
	XK_SETTING(UINT, struct messages, count, "count", "requests of that run; 0: unlimited", .initial = "4"),
	XK_SETTING(TIME, struct icmptest, interval_ns, "interval", "time between two requests", .initial = "1s",
		   .min = 1000, .max = UINT64_C(3600000000000)),
	XK_SETTING(UINT, struct messages, size, "size", "bytes of data in each", .initial = "56",
		   .max = XK_ICMPTEST_MAX),
	XK_SETTING(TIME, struct messages, timeout_ns, "timeout",
		   "time after which a request without a reply is lost; less than 4096 intervals", .initial = "1s",
		   .min = 1000, .max = UINT64_C(3600000000000)),
	XK_SETTING(UINT, struct icmptest, pattern, "pattern", "varies the data", .initial = "0", .max = 255),
	XK_SETTING(TIME, struct messages, start_ns, "start", "time from the boot to its start", .initial = "0s",
		   .max = UINT64_C(86400000000000)),
	{ .name = NULL },
};

static const struct xk_protocol_ops icmptest_ops = {
	.init = icmptest_init,
	.fini = icmptest_fini,
	.demux = icmptest_demux,
	.fault = icmptest_fault,
};

const struct xk_protocol_type xk_type_icmptest = {
	.name = "icmptest",
	.help = "Pings: sends echo requests, checks every byte of the replies, and measures round trips.",
	.ops = &icmptest_ops,
	.header = XK_ICMP_SEQUENCE_LEN,
	.fields = icmptest_fields,
	.size = sizeof(struct icmptest),
	.lowers = XK_ROLES(
		{ .name = "echo", .needs = XK_ASYNC, .help = "sends echo requests and delivers the replies: icmp" }),
	.settings = icmptest_settings,
	.drops = icmptest_drops,
	.counters = icmptest_counters,
};
