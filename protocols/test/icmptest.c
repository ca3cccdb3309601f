/*
 * icmptest.c - the test protocol above ICMP: pings. It sends echo requests at an interval and checks every byte of what
 * comes back. A program starts a run (icmptest.h), or it begins by itself if the setting `to` names a host. Echo
 * requests of others are ICMP's to answer: a server is any host with icmp in its graph.
 *
 * One event sends, and finds what is overdue; replies are checked by whoever carries them up. Only opening the session
 * may wait (ARP), and is done by a shepherd of its own; as long as it fails, requests that are due are lost unsent.
 *
 * Spec:         RFC 792 echo; the data is made of its place, the sequence number and `pattern`
 * Participants: none above; below (remote: host)
 * Control:      the session below answers. From below: XK_FAULT
 * Settings:     to, count, interval, size, timeout, pattern, start
 * Counters:     sent, received, lost, unsent (the protocols below would not take a request; it is sent, and lost),
 *               fault_FAULT (fault.h: what hosts say of a request); of the run that `to` has started, when it has
 *               ended: rtt_min_ns, rtt_mean_ns, rtt_max_ns
 * Drops:        duplicate, late, corrupt (length or a byte); unasked (a reply to no request that is remembered)
 * Graph:        icmptest -> icmp
 */
#include "protocols/test/icmptest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/icmp.h"
#include "protocols/test/round_trips.h"
#include "xkernel/bytes.h"
#include "xkernel/event.h"
#include "xkernel/trace.h"

enum icmptest_drop { ICMPTEST_DUPLICATE = XK_DROP_OWN, ICMPTEST_LATE, ICMPTEST_CORRUPT, ICMPTEST_UNASKED };

enum icmptest_counter {
	ICMPTEST_SENT,
	ICMPTEST_RECEIVED,
	ICMPTEST_LOST,
	ICMPTEST_UNSENT,
	ICMPTEST_RTT_MIN,
	ICMPTEST_RTT_MEAN,
	ICMPTEST_RTT_MAX,
	ICMPTEST_FAULT, /* and on: by enum xk_fault */
};

static const char *const icmptest_drops[] = { "duplicate", "late", "corrupt", "unasked", NULL };
static const char *const icmptest_counters[] = { "sent",       "received",         "lost",         "unsent",
						 "rtt_min_ns", "rtt_mean_ns",      "rtt_max_ns",   "fault_network",
						 "fault_host", "fault_protocol",   "fault_port",   "fault_too_big",
						 "fault_hops", "fault_reassembly", "fault_header", NULL };

static_assert(XK_ARRAY_LENGTH(icmptest_counters) == ICMPTEST_FAULT + XK_FAULTS + 1, "a name for each");

enum icmptest_state { ICMPTEST_WAITING, ICMPTEST_ANSWERED, ICMPTEST_OVERDUE };

struct icmptest_request {
	uint64_t sent_ns;
	enum icmptest_state state;
};

struct icmptest {
	struct xk_protocol protocol;
	/* settings */
	uint32_t to; /* 0: a program starts the runs */
	uint64_t count, interval_ns, size, timeout_ns, pattern, start_ns;

	struct xk_event event;
	_Atomic bool stopping;
	struct xk_lock lock; /* over what follows; it is held where the run's `happened` is called */
	bool running;        /* there is a run */
	bool busy, again;    /* the event's handler is at work; and has to look once more afterwards */
	bool opening;        /* the opener is at work, and will schedule the event */
	bool opened;         /* it has ended, for the request that is due, as open_error says */
	int open_error;
	struct xk_icmptest_run run;
	struct xk_icmptest_result result;
	struct round_trips trips;
	uint64_t oldest;  /* the first request that is neither answered nor overdue; result.sent is the next one */
	uint64_t next_ns; /* when that is sent */
	struct icmptest_request *requests; /* by number modulo XK_ICMPTEST_WINDOW */
	struct xk_session *session;        /* the opener's while it is opening, otherwise the handler's */
};

static struct icmptest *
icmptest_of(struct xk_protocol *self)
{
	return (struct icmptest *)self;
}

static struct icmptest_request *
icmptest_request_of(struct icmptest *t, uint64_t sequence)
{
	return &t->requests[sequence % XK_ICMPTEST_WINDOW];
}

/* ---- what a message looks like ---- */

/* Byte i of the data. No period, so that a piece of a message in the wrong place is seen. */
static inline uint8_t
icmptest_byte(const struct xk_icmptest_run *run, uint16_t sequence, uint32_t i)
{
	return (uint8_t)((i * UINT32_C(2654435761) >> 15) + i + sequence + run->pattern);
}

static struct xk_msg *
icmptest_message(struct icmptest *t, uint16_t sequence)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(&t->protocol), t->run.size + XK_ICMP_SEQUENCE_LEN);
	uint32_t i = 0, begin = XK_ICMP_SEQUENCE_LEN;

	if (m == NULL)
		return NULL;
	xk_put16(m->data, sequence);
	for (struct xk_msg *part = m; part != NULL; part = part->next, begin = 0)
		for (uint32_t at = begin; at < part->len; at++)
			part->data[at] = icmptest_byte(&t->run, sequence, i++);
	return m;
}

/* Whether m, behind its sequence number, is what was sent. */
static bool
icmptest_is_right(const struct icmptest *t, const struct xk_msg *m, uint16_t sequence)
{
	uint32_t i = 0, begin = XK_ICMP_SEQUENCE_LEN;

	if (xk_msg_len(m) != t->run.size + XK_ICMP_SEQUENCE_LEN)
		return false;
	for (; m != NULL; m = m->next, begin = 0)
		for (uint32_t at = begin; at < m->len; at++)
			if (m->data[at] != icmptest_byte(&t->run, sequence, i++))
				return false;
	return true;
}

/* ---- the run; the lock is held ---- */

static void
icmptest_happened(struct icmptest *t, const struct xk_icmptest_event *event)
{
	if (t->run.happened != NULL)
		t->run.happened(t->run.argument, event);
}

/* The request that the wire calls `low`, if it is remembered. */
static bool
icmptest_find(struct icmptest *t, uint16_t low, uint64_t *sequence)
{
	uint64_t sent = t->result.sent, ago = (uint16_t)(sent - 1 - low);

	if (!t->running || sent == 0 || ago >= XK_ICMPTEST_WINDOW || ago >= sent)
		return false;
	*sequence = sent - 1 - ago;
	return true;
}

static void
icmptest_expire(struct icmptest *t, uint64_t now_ns)
{
	for (; t->oldest < t->result.sent; t->oldest++) {
		struct icmptest_request *request = icmptest_request_of(t, t->oldest);
		struct xk_icmptest_event event = { .kind = XK_ICMPTEST_LOST, .sequence = t->oldest };

		if (request->state != ICMPTEST_WAITING)
			continue;
		if (now_ns < request->sent_ns + t->run.timeout_ns)
			return;
		request->state = ICMPTEST_OVERDUE;
		t->result.lost++;
		xk_count(&t->protocol, ICMPTEST_LOST);
		icmptest_happened(t, &event);
	}
}

/* Whether no more requests will be sent. */
static bool
icmptest_has_sent_all(const struct icmptest *t)
{
	return (t->run.count != 0 && t->result.sent == t->run.count) ||
	       atomic_load_explicit(&t->stopping, memory_order_relaxed);
}

static bool
icmptest_is_over(struct icmptest *t)
{
	while (t->oldest < t->result.sent && icmptest_request_of(t, t->oldest)->state != ICMPTEST_WAITING)
		t->oldest++;
	return icmptest_has_sent_all(t) && t->oldest == t->result.sent;
}

/* When the handler has something to do again. */
static uint64_t
icmptest_delay_us(struct icmptest *t, uint64_t now_ns)
{
	uint64_t due_ns = UINT64_MAX;

	if (t->oldest < t->result.sent)
		due_ns = icmptest_request_of(t, t->oldest)->sent_ns + t->run.timeout_ns;
	if (!icmptest_has_sent_all(t) && t->next_ns < due_ns)
		due_ns = t->next_ns;
	return due_ns <= now_ns || due_ns == UINT64_MAX ? 0 : xk_us_of_ns(due_ns - now_ns);
}

/* A reply with this state of its request, all right but for that. 0, or the reason to drop it. */
static unsigned
icmptest_receive(struct icmptest *t, struct icmptest_request *request, struct xk_icmptest_event *event)
{
	struct xk_icmptest_result *result = &t->result;

	if (request->state != ICMPTEST_WAITING) {
		bool is_late = request->state == ICMPTEST_OVERDUE;

		request->state = ICMPTEST_ANSWERED;
		event->kind = is_late ? XK_ICMPTEST_LATE : XK_ICMPTEST_DUPLICATE;
		*(is_late ? &result->late : &result->duplicates) += 1;
		return is_late ? ICMPTEST_LATE : ICMPTEST_DUPLICATE;
	}
	request->state = ICMPTEST_ANSWERED;
	event->kind = XK_ICMPTEST_REPLY;
	result->received++;
	round_trips_add(&t->trips, event->rtt_ns);
	xk_count(&t->protocol, ICMPTEST_RECEIVED);
	return 0;
}

/* What came back as `low`, at now_ns. 0, or the reason to drop it. */
static unsigned
icmptest_check(struct icmptest *t, const struct xk_msg *m, uint16_t low, uint64_t now_ns)
{
	struct xk_icmptest_event event = { .size = (uint32_t)xk_msg_len(m) - XK_ICMP_SEQUENCE_LEN };
	struct icmptest_request *request;
	unsigned why;

	if (!icmptest_find(t, low, &event.sequence))
		return ICMPTEST_UNASKED;
	request = icmptest_request_of(t, event.sequence);
	event.rtt_ns = now_ns - request->sent_ns;
	if (icmptest_is_right(t, m, low)) {
		why = icmptest_receive(t, request, &event);
	} else {
		event.kind = XK_ICMPTEST_CORRUPT;
		t->result.corrupt++;
		why = ICMPTEST_CORRUPT;
	}
	icmptest_happened(t, &event);
	if (icmptest_is_over(t))
		xk_event_schedule(&t->event, 0);
	return why;
}

/* ---- the event's handler ---- */

/* Opens the session; then whether the run is possible. 0 or -errno. */
static int
icmptest_open_session(struct icmptest *t)
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
	return t->run.size + XK_ICMP_SEQUENCE_LEN <= max_packet ? 0 : -EMSGSIZE;
}

static void
icmptest_open(void *argument)
{
	struct icmptest *t = argument;
	int err = icmptest_open_session(t);

	xk_lock(&t->lock);
	t->opening = false;
	t->opened = true;
	t->open_error = err;
	xk_event_schedule(&t->event, 0);
	xk_unlock(&t->lock);
}

/* Whether an open that failed may succeed later: the peer is not there yet, or something was short. */
static bool
icmptest_is_passing(int error)
{
	return error == -EHOSTUNREACH || error == -ETIMEDOUT || error == -ENOBUFS || error == -EAGAIN;
}

/* Without a session, a request is sent that nobody takes. */
static void
icmptest_send(struct icmptest *t)
{
	struct xk_icmptest_event event = { .kind = XK_ICMPTEST_UNSENT, .sequence = t->result.sent };
	struct xk_msg *m = icmptest_message(t, (uint16_t)event.sequence);

	xk_lock(&t->lock);
	*icmptest_request_of(t, event.sequence) =
		(struct icmptest_request){ xk_now_ns(&t->protocol), ICMPTEST_WAITING };
	t->result.sent++;
	xk_unlock(&t->lock);
	xk_count(&t->protocol, ICMPTEST_SENT);
	if (t->session == NULL)
		xk_msg_free(m);
	else if (m != NULL && xk_push(t->session, m) == 0)
		return;
	xk_count(&t->protocol, ICMPTEST_UNSENT);
	xk_lock(&t->lock);
	t->result.unsent++;
	icmptest_happened(t, &event);
	xk_unlock(&t->lock);
}

static void
icmptest_finish(struct icmptest *t, int error)
{
	struct xk_icmptest_result *result = &t->result;

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

/* Whether a request is to be sent now; the lock is held. One that is late is not made up for. */
static bool
icmptest_takes_turn(struct icmptest *t, uint64_t now_ns)
{
	if (icmptest_has_sent_all(t) || now_ns < t->next_ns)
		return false;
	if (t->session == NULL && !t->opened) {
		t->opening = true;
		return false;
	}
	t->opened = false;
	t->next_ns = t->next_ns + t->run.interval_ns > now_ns ? t->next_ns + t->run.interval_ns : now_ns;
	return true;
}

/* An opener for the request that is due. Without a shepherd for it, it has failed. */
static void
icmptest_start_opener(struct icmptest *t)
{
	int err = xk_thread_start(t->protocol.kernel, t->protocol.name, icmptest_open, t);

	if (err == 0)
		return;
	xk_lock(&t->lock);
	t->opening = false;
	t->opened = true;
	t->open_error = err;
	xk_unlock(&t->lock);
}

/* One request if it is time for one, and an end to those whose time is over. */
static void
icmptest_work(struct icmptest *t)
{
	uint64_t now_ns = xk_now_ns(&t->protocol);
	bool sends, opens, is_over;
	int err;

	xk_lock(&t->lock);
	icmptest_expire(t, now_ns);
	err = t->opened && !icmptest_is_passing(t->open_error) ? t->open_error : 0;
	sends = err == 0 && icmptest_takes_turn(t, now_ns);
	opens = t->opening;
	xk_unlock(&t->lock);
	if (opens)
		icmptest_start_opener(t);
	if (sends)
		icmptest_send(t);
	xk_lock(&t->lock);
	is_over = icmptest_is_over(t);
	xk_unlock(&t->lock);
	if (err != 0 || (is_over && !opens))
		icmptest_finish(t, err);
}

/* One at a time: a reply may call for the next before this one has ended. */
static void
icmptest_pulse(struct xk_event *event, void *argument)
{
	struct icmptest *t = argument;
	bool goes_on;

	xk_lock(&t->lock);
	goes_on = t->running && !t->busy && !t->opening;
	t->again = t->busy;
	t->busy = t->busy || goes_on;
	xk_unlock(&t->lock);
	if (!goes_on)
		return;
	icmptest_work(t);
	xk_lock(&t->lock);
	t->busy = false;
	if (t->running && !t->opening)
		xk_event_schedule(event, t->again ? 0 : icmptest_delay_us(t, xk_now_ns(&t->protocol)));
	xk_unlock(&t->lock);
}

/* ---- runs ---- */

static bool
icmptest_is_possible(const struct xk_icmptest_run *run)
{
	return run->size <= XK_ICMPTEST_MAX && run->finished != NULL && run->interval_ns >= 1000 &&
	       run->timeout_ns >= 1000 && run->timeout_ns / run->interval_ns < XK_ICMPTEST_WINDOW;
}

static int
icmptest_begin(struct icmptest *t, const struct xk_icmptest_run *run)
{
	if (t->running)
		return -EBUSY;
	if (t->requests == NULL)
		t->requests = calloc(XK_ICMPTEST_WINDOW, sizeof(*t->requests));
	if (t->requests == NULL)
		return -ENOMEM;
	t->run = *run;
	t->result = (struct xk_icmptest_result){ .error = 0 };
	t->trips = (struct round_trips){ .count = 0 };
	t->oldest = 0;
	t->opened = false;
	t->next_ns = xk_now_ns(&t->protocol);
	atomic_store_explicit(&t->stopping, false, memory_order_relaxed);
	t->running = true;
	xk_event_schedule(&t->event, 0);
	return 0;
}

int
xk_icmptest_start(struct xk_protocol *icmptest, const struct xk_icmptest_run *run)
{
	struct icmptest *t = icmptest_of(icmptest);
	int err;

	if (!icmptest_is_possible(run))
		return -EINVAL;
	xk_lock(&t->lock);
	err = icmptest_begin(t, run);
	xk_unlock(&t->lock);
	return err;
}

void
xk_icmptest_stop(struct xk_protocol *icmptest)
{
	struct icmptest *t = icmptest_of(icmptest);

	atomic_store_explicit(&t->stopping, true, memory_order_relaxed);
	xk_lock(&t->lock);
	if (t->running)
		xk_event_schedule(&t->event, 0);
	xk_unlock(&t->lock);
}

static void
icmptest_own_finished(void *argument, const struct xk_icmptest_result *result)
{
	struct icmptest *t = argument;

	round_trips_tell(&t->trips, &t->protocol, ICMPTEST_RTT_MIN);
	xk_trace(&t->protocol, XK_TRACE_EVENTS, "%s: %llu sent, %llu received, rtt %llu to %llu, mean %llu ns",
		 result->error == 0 ? "finished" : "failed", (unsigned long long)result->sent,
		 (unsigned long long)result->received, (unsigned long long)result->rtt_min_ns,
		 (unsigned long long)result->rtt_max_ns, (unsigned long long)result->rtt_mean_ns);
}

/* The run that the settings describe. */
static int
icmptest_start_by_itself(struct icmptest *t)
{
	struct xk_icmptest_run run = {
		.host = t->to,
		.size = (uint32_t)t->size,
		.count = t->count,
		.interval_ns = t->interval_ns,
		.timeout_ns = t->timeout_ns,
		.pattern = (uint8_t)t->pattern,
		.finished = icmptest_own_finished,
		.argument = t,
	};
	int err = xk_icmptest_start(&t->protocol, &run);

	if (err == -EINVAL)
		xk_trace(&t->protocol, XK_TRACE_NONE, "timeout is %d intervals or more", XK_ICMPTEST_WINDOW);
	else if (err == 0) {
		t->next_ns += t->start_ns;
		xk_event_schedule(&t->event, t->start_ns / 1000);
	}
	return err;
}

/* ---- the protocol ---- */

static void
icmptest_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct icmptest *t = icmptest_of(self);
	uint64_t now_ns = xk_now_ns(self);
	unsigned why;

	xk_lock(&t->lock);
	why = icmptest_check(t, m, xk_get16(m->data), now_ns);
	xk_unlock(&t->lock);
	if (why != 0)
		xk_drop(self, m, why);
	else
		xk_msg_free(m);
}

static int
icmptest_fault(struct icmptest *t, const struct xk_fault_report *report)
{
	struct xk_icmptest_event event = {
		.kind = XK_ICMPTEST_FAULT, .fault = report->fault, .from = report->from, .mtu = report->mtu
	};
	int err = -ENOENT;

	if (report->len < XK_ICMP_SEQUENCE_LEN)
		return err;
	xk_lock(&t->lock);
	if (icmptest_find(t, xk_get16(report->begin), &event.sequence)) {
		t->result.faults[report->fault]++;
		xk_count(&t->protocol, ICMPTEST_FAULT + report->fault);
		icmptest_happened(t, &event);
		err = 0;
	}
	xk_unlock(&t->lock);
	return err;
}

static int
icmptest_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	return op == XK_FAULT ? icmptest_fault(icmptest_of(self), buffer) : -ENOTSUP;
}

static int
icmptest_init(struct xk_protocol *self)
{
	struct icmptest *t = icmptest_of(self);

	xk_lock_init(&t->lock, self);
	xk_event_init(&t->event, self->kernel, icmptest_pulse, t);
	return t->to == 0 ? 0 : icmptest_start_by_itself(t);
}

static void
icmptest_fini(struct xk_protocol *self)
{
	struct icmptest *t = icmptest_of(self);

	xk_event_cancel(&t->event);
	xk_close(t->session);
	free(t->requests);
}

static const struct xk_field icmptest_fields[] = {
	{ .name = "sequence", .bits = 16, .help = "of the request" },
	{ .name = NULL },
};

static const struct xk_role icmptest_lowers[] = {
	{ .name = "echo", .needs = XK_ASYNC, .help = "sends echo requests, and gives the replies: icmp" },
	{ .name = NULL },
};

static const struct xk_setting icmptest_settings[] = {
	{ "to", XK_SETTING_HOST, offsetof(struct icmptest, to), NULL, "the host of a run that begins by itself", 0, 0 },
	{ "count", XK_SETTING_UINT, offsetof(struct icmptest, count), "4", "... its requests; 0: without end", 0, 0 },
	{ "interval", XK_SETTING_TIME, offsetof(struct icmptest, interval_ns), "1s", "... from one to the next", 1000,
	  UINT64_C(3600000000000) },
	{ "size", XK_SETTING_UINT, offsetof(struct icmptest, size), "56", "... bytes of data in each", 0,
	  XK_ICMPTEST_MAX },
	{ "timeout", XK_SETTING_TIME, offsetof(struct icmptest, timeout_ns), "1s",
	  "... after this a request without a reply is lost; less than 4096 intervals", 1000, UINT64_C(3600000000000) },
	{ "pattern", XK_SETTING_UINT, offsetof(struct icmptest, pattern), "0", "... what the data is made of", 0, 255 },
	{ "start", XK_SETTING_TIME, offsetof(struct icmptest, start_ns), "0s", "... how long after the boot it begins",
	  0, UINT64_C(86400000000000) },
	{ .name = NULL },
};

static const struct xk_protocol_ops icmptest_ops = {
	.init = icmptest_init,
	.fini = icmptest_fini,
	.demux = icmptest_demux,
	.control = icmptest_control,
};

const struct xk_protocol_type xk_type_icmptest = {
	.name = "icmptest",
	.help = "Pings: sends echo requests, checks every byte of what comes back, and measures how long that takes.",
	.ops = &icmptest_ops,
	.header = XK_ICMP_SEQUENCE_LEN,
	.fields = icmptest_fields,
	.size = sizeof(struct icmptest),
	.lowers = icmptest_lowers,
	.settings = icmptest_settings,
	.drops = icmptest_drops,
	.counters = icmptest_counters,
};
