/*
 * chantest.c - the test protocol above CHAN: a server that sends every request back as its reply, and a client that measures
 * how long that takes. Each instance is a server; it becomes a client when a program says so (chantest.h), or by itself if
 * the setting `peer` names a server: then one run of `rounds`, after `start`, whose end is traced (level events) and counted.
 *
 * Callers are shepherds in xk_call, one for each of `channels`; how they wait and who resumes them is the graph's. A round trip
 * lasts from the call to its reply, whose check comes after it.
 *
 * Spec:         the x-kernel's test/chantest.c; a message is its number (as many of 8 bytes as fit, lowest first), then a
 *               pattern that depends on the position alone
 * Participants: none above; below (remote: host)
 * Failures:     A call that fails is counted, and the next one made. A channel whose server has been booted again is opened
 *               again. A run fails when the server has been silent for `silence`.
 *               With trace=events each request that is served is told with its number, so that whoever gives each host's calls
 *               other numbers (`first`) sees whether one was run twice.
 * Settings:     serve, silence, work, first; peer, channels, rounds, size, start
 * Counters:     requests (served here), messages (delivered here: requests, and replies of all runs), failed, bad, reopened (as
 *               struct xk_chantest_result has them, of all runs); of the run that `peer` has started, when it has ended: rounds,
 *               rtt_min_ns, rtt_mean_ns, rtt_max_ns
 * Not done:     several runs in one instance at once
 * Graph:        chantest -> chan
 */
#include "protocols/test/chantest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/test/round_trips.h"
#include "xkernel/event.h"
#include "xkernel/trace.h"

enum { CHANTEST_NUMBER_LEN = 8, CHANTEST_RETRY_US = 100000, CHANTEST_PERIOD = 65521 };

enum chantest_counter {
	CHANTEST_REQUESTS,
	CHANTEST_MESSAGES,
	CHANTEST_FAILED,
	CHANTEST_BAD,
	CHANTEST_REOPENED,
	CHANTEST_ROUNDS,
	CHANTEST_RTT_MIN,
	CHANTEST_RTT_MEAN,
	CHANTEST_RTT_MAX,
};

static const char *const chantest_counters[] = { "requests", "messages",   "failed",      "bad",        "reopened",
						 "rounds",   "rtt_min_ns", "rtt_mean_ns", "rtt_max_ns", NULL };

struct chantest {
	struct xk_protocol protocol; /* first */
	/* settings */
	bool serve;
	uint64_t silence_ns, work_ns, first;
	uint32_t peer; /* 0: a program starts the client */
	uint64_t channels, rounds, size, start_ns;

	uint8_t *pattern;
	_Atomic uint64_t number; /* of the next request; never used twice */
	_Atomic bool running;
	struct xk_lock lock; /* over what follows, while there is a run; held where record and failed are called */
	struct xk_chantest_run run;
	struct xk_chantest_result result;
	uint64_t warm_up_left;
	unsigned callers; /* that have not ended */
	uint64_t heard_ns;
	/* of the run that begins by itself */
	struct xk_event starter;
	struct round_trips trips;
};

/* ---- what a message looks like ---- */

/* No short period, so that a piece of a message in the wrong place is seen. */
static uint8_t *
chantest_pattern_new(void)
{
	uint8_t *pattern = malloc(XK_CHANTEST_MAX);
	uint32_t x = 1;

	for (unsigned i = 0; pattern != NULL && i < XK_CHANTEST_MAX; i++) {
		x = x * 1664525 + 1013904223;
		pattern[i] = (uint8_t)((x >> 24) + i / CHANTEST_PERIOD);
	}
	return pattern;
}

static unsigned
chantest_number_len(uint32_t size)
{
	return size < CHANTEST_NUMBER_LEN ? size : CHANTEST_NUMBER_LEN;
}

static void
chantest_number_put(uint8_t *p, uint32_t size, uint64_t number)
{
	for (unsigned i = 0; i < chantest_number_len(size); i++)
		p[i] = (uint8_t)(number >> (8 * i));
}

/* Whether *m is the request of that number and size. */
static bool
chantest_is_right(const struct chantest *t, struct xk_msg **m, uint32_t size, uint64_t number)
{
	unsigned begin = chantest_number_len(size);
	const uint8_t *p = xk_msg_peek(m, begin), *pattern = t->pattern;

	if (p == NULL || xk_msg_len(*m) != size)
		return false;
	for (unsigned i = 0; i < begin; i++)
		if (p[i] != (uint8_t)(number >> (8 * i)))
			return false;
	for (const struct xk_msg *part = *m; part != NULL; pattern += part->len, part = part->next) {
		unsigned skip = begin < part->len ? begin : part->len;

		if (memcmp(part->data + skip, pattern + skip, part->len - skip) != 0)
			return false;
		begin -= skip;
	}
	return true;
}

/* A request with this number; reuses `old`, a reply found right, where nobody else sees its buffer. Takes old. */
static struct xk_msg *
chantest_request(struct chantest *t, struct xk_msg *old, uint64_t number)
{
	struct xk_msg *m = old;
	const uint8_t *pattern = t->pattern;

	if (old == NULL || old->next != NULL || !xk_msg_is_writable(old)) {
		xk_msg_free(old);
		m = xk_msg_new(xk_platform_of(&t->protocol), t->run.size);
		for (struct xk_msg *part = m; part != NULL; pattern += part->len, part = part->next)
			memcpy(part->data, pattern, part->len);
	}
	if (m != NULL)
		chantest_number_put(m->data, t->run.size, number);
	return m;
}

/* ---- a run ---- */

/* Whether there is another call to make. */
static bool
chantest_goes_on(struct chantest *t)
{
	bool goes_on;

	xk_lock(&t->lock);
	goes_on = t->result.error == 0 && t->result.rounds < t->run.rounds;
	xk_unlock(&t->lock);
	return goes_on;
}

/* The run will end, for this reason; the first counts. The lock is held. */
static void
chantest_fail(struct chantest *t, int error)
{
	if (t->result.error == 0)
		t->result.error = error;
}

/* A call has failed. */
static void
chantest_note_failure(struct chantest *t, int error, uint64_t begun_ns, uint64_t now_ns)
{
	xk_count(&t->protocol, CHANTEST_FAILED);
	xk_trace(&t->protocol, XK_TRACE_ERRORS, "a call has failed: %s", strerror(-error));
	xk_lock(&t->lock);
	t->result.failed++;
	if (t->run.failed != NULL)
		t->run.failed(t->run.argument, error, now_ns - begun_ns);
	if (error == -ECANCELED)
		chantest_fail(t, error);
	else if (now_ns >= t->heard_ns + t->silence_ns)
		chantest_fail(t, -ETIMEDOUT);
	xk_unlock(&t->lock);
}

/* A reply has come. */
static void
chantest_note_reply(struct chantest *t, bool is_right, uint64_t begun_ns, uint64_t now_ns)
{
	xk_count(&t->protocol, CHANTEST_MESSAGES);
	if (!is_right) {
		xk_count(&t->protocol, CHANTEST_BAD);
		xk_trace(&t->protocol, XK_TRACE_ERRORS, "a reply is wrong");
	}
	xk_lock(&t->lock);
	t->heard_ns = now_ns;
	if (!is_right) {
		t->result.bad++;
	} else if (t->warm_up_left > 0) {
		t->warm_up_left--;
	} else if (t->result.rounds < t->run.rounds) {
		t->result.rounds++;
		if (t->run.record != NULL)
			t->run.record(t->run.argument, now_ns - begun_ns);
	}
	xk_unlock(&t->lock);
}

/* One call. 0 and the reply in *m, in place of what was there; -errno: *m is NULL. */
static int
chantest_call(struct chantest *t, struct xk_session *s, struct xk_msg **m)
{
	uint64_t number = atomic_fetch_add_explicit(&t->number, 1, memory_order_relaxed), begun_ns, now_ns;
	struct xk_msg *request = chantest_request(t, *m, number);
	bool is_right;
	int error = -ENOBUFS;

	*m = NULL;
	begun_ns = xk_now_ns(&t->protocol);
	if (request != NULL)
		error = xk_call(s, request, m);
	now_ns = xk_now_ns(&t->protocol);
	if (error != 0) {
		chantest_note_failure(t, error, begun_ns, now_ns);
		return error;
	}
	is_right = chantest_is_right(t, m, t->run.size, number);
	chantest_note_reply(t, is_right, begun_ns, now_ns);
	if (!is_right) {
		xk_msg_free(*m);
		*m = NULL;
	}
	return 0;
}

/* ---- a caller ---- */

/* Whether an open or call that failed may succeed later: the peer is not there yet, or something was short. */
static bool
chantest_is_passing(int error)
{
	return error == -EHOSTUNREACH || error == -ETIMEDOUT || error == -ENOBUFS || error == -EAGAIN ||
	       error == -ECONNREFUSED;
}

/* A peer that is not there yet is waited for. 0 or -errno. */
static int
chantest_open(struct chantest *t, struct xk_session **s)
{
	uint64_t begun_ns = xk_now_ns(&t->protocol);
	int error;

	for (;;) {
		struct xk_participants participants = { .remote = { 1, { t->run.host } } };

		error = xk_open(&t->protocol, &t->protocol, xk_lower(&t->protocol, 0), &participants, s);
		if (!chantest_is_passing(error) || xk_now_ns(&t->protocol) >= begun_ns + t->silence_ns)
			return error;
		if (xk_delay(&t->protocol, CHANTEST_RETRY_US) == -ECANCELED)
			return -ECANCELED;
	}
}

static int
chantest_check_size(struct chantest *t, struct xk_session *s)
{
	uint32_t max_packet;

	if (xk_control(s, XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet)) != sizeof(max_packet))
		max_packet = XK_CHANTEST_MAX;
	xk_lock(&t->lock);
	t->result.max_packet = max_packet;
	t->heard_ns = xk_now_ns(&t->protocol);
	xk_unlock(&t->lock);
	return t->run.size <= max_packet ? 0 : -EMSGSIZE;
}

/* Calls on one channel until the run is over, or the channel. 0; -errno: the run has failed. */
static int
chantest_use(struct chantest *t, struct xk_session *s)
{
	struct xk_msg *m = NULL;
	int error = 0;

	while (error != -ECONNRESET && chantest_goes_on(t)) {
		error = chantest_call(t, s, &m);
		if (error != 0 && error != -ECONNRESET && chantest_is_passing(error) && error != -ETIMEDOUT &&
		    xk_delay(&t->protocol, CHANTEST_RETRY_US) == -ECANCELED)
			error = -ECANCELED;
		if (error == -ECANCELED)
			break;
	}
	xk_msg_free(m);
	return error == -ECANCELED ? error : 0;
}

static int
chantest_work_on(struct chantest *t)
{
	struct xk_session *s;
	int error;

	for (unsigned opened = 0;; opened++) {
		error = chantest_open(t, &s);
		if (error != 0)
			return error;
		error = chantest_check_size(t, s);
		if (error == 0)
			error = chantest_use(t, s);
		xk_close(s);
		if (error != 0 || !chantest_goes_on(t))
			return error;
		xk_count(&t->protocol, CHANTEST_REOPENED);
		xk_lock(&t->lock);
		t->result.reopened++;
		xk_unlock(&t->lock);
	}
}

/* `count` callers have ended, or never begun, with this error; the last one ends the run. */
static void
chantest_end(struct chantest *t, unsigned count, int error)
{
	struct xk_chantest_result result;
	struct xk_chantest_run run;
	bool last;

	xk_lock(&t->lock);
	if (error != 0)
		chantest_fail(t, error);
	t->callers -= count;
	last = t->callers == 0;
	result = t->result;
	run = t->run;
	xk_unlock(&t->lock);
	if (!last)
		return;
	atomic_store_explicit(&t->running, false, memory_order_release);
	run.finished(run.argument, &result);
}

static void
chantest_caller(void *argument)
{
	struct chantest *t = argument;

	chantest_end(t, 1, chantest_work_on(t));
}

int
xk_chantest_start(struct xk_protocol *chantest, const struct xk_chantest_run *run)
{
	struct chantest *t = (struct chantest *)chantest;
	unsigned started = 0;
	int error = 0;

	if (run->size > XK_CHANTEST_MAX || run->rounds == 0 || run->finished == NULL || run->channels == 0 ||
	    run->channels > XK_CHANTEST_CHANNELS)
		return -EINVAL;
	if (atomic_exchange_explicit(&t->running, true, memory_order_acq_rel))
		return -EBUSY;
	t->run = *run;
	t->result = (struct xk_chantest_result){ .error = 0 };
	t->warm_up_left = run->warm_up;
	t->callers = run->channels;
	for (; started < run->channels && error == 0; started += error == 0)
		error = xk_thread_start(chantest->kernel, chantest->name, chantest_caller, t);
	if (started == 0)
		atomic_store_explicit(&t->running, false, memory_order_release);
	else if (error != 0)
		chantest_end(t, run->channels - started, error);
	return started == 0 ? error : 0;
}

/* ---- the run that begins by itself ---- */

static void
chantest_own_record(void *argument, uint64_t rtt_ns)
{
	struct chantest *t = argument;

	round_trips_add(&t->trips, rtt_ns);
}

static void
chantest_own_finished(void *argument, const struct xk_chantest_result *result)
{
	struct chantest *t = argument;
	const struct round_trips *trips = &t->trips;

	xk_counter_set(&t->protocol, CHANTEST_ROUNDS, result->rounds);
	round_trips_tell(trips, &t->protocol, CHANTEST_RTT_MIN);
	xk_trace(&t->protocol, XK_TRACE_EVENTS, "%s: %llu rounds, %llu failed, rtt %llu to %llu, mean %llu ns",
		 result->error == 0 ? "finished" : "failed", (unsigned long long)result->rounds,
		 (unsigned long long)result->failed, (unsigned long long)trips->min_ns,
		 (unsigned long long)trips->max_ns, (unsigned long long)round_trips_mean_ns(trips));
}

/* Without a shepherd to begin with, it tries again. */
static void
chantest_start_by_itself(struct xk_event *event, void *argument)
{
	struct chantest *t = argument;
	struct xk_chantest_run run = {
		.host = t->peer,
		.size = (uint32_t)t->size,
		.channels = (unsigned)t->channels,
		.rounds = t->rounds,
		.record = chantest_own_record,
		.finished = chantest_own_finished,
		.argument = t,
	};

	t->trips = (struct round_trips){ .count = 0 };
	if (xk_chantest_start(&t->protocol, &run) != 0)
		xk_event_schedule(event, CHANTEST_RETRY_US);
}

/* ---- the protocol ---- */

static int
chantest_init(struct xk_protocol *self)
{
	struct chantest *t = (struct chantest *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	int error = 0;

	xk_lock_init(&t->lock, self);
	atomic_init(&t->number, t->first);
	xk_event_init(&t->starter, self->kernel, chantest_start_by_itself, t);
	t->pattern = chantest_pattern_new();
	if (t->pattern == NULL)
		return -ENOMEM;
	if (t->serve)
		error = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (error != 0)
		free(t->pattern);
	else if (t->peer != 0)
		xk_event_schedule(&t->starter, t->start_ns / 1000);
	return error;
}

static void
chantest_fini(struct xk_protocol *self)
{
	free(((struct chantest *)self)->pattern);
}

/* Tells which request is served, for those who look whether one is served twice. */
static void
chantest_tell(struct xk_protocol *self, struct xk_msg **m)
{
	size_t len = xk_msg_len(*m) < CHANTEST_NUMBER_LEN ? xk_msg_len(*m) : CHANTEST_NUMBER_LEN;
	const uint8_t *p = xk_msg_peek(m, len);
	uint64_t number = 0;

	for (size_t i = 0; p != NULL && i < len; i++)
		number |= (uint64_t)p[i] << (8 * i);
	xk_trace(self, XK_TRACE_EVENTS, "serves %llu", (unsigned long long)number);
}

static int
chantest_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	struct chantest *t = (struct chantest *)self;

	xk_count(self, CHANTEST_REQUESTS);
	xk_count(self, CHANTEST_MESSAGES);
	if (xk_unlikely(self->trace_level >= XK_TRACE_EVENTS))
		chantest_tell(self, &m);
	if (xk_unlikely(t->work_ns != 0))
		xk_work(self, t->work_ns);
	*reply = m;
	return 0;
}

static const struct xk_role chantest_lowers[] = {
	{ .name = "transport", .needs = XK_RPC, .help = "carries the calls: chan" },
	{ .name = NULL },
};

static const struct xk_setting chantest_settings[] = {
	{ "serve", XK_SETTING_BOOL, offsetof(struct chantest, serve), "yes", "whether requests are answered", 0, 0 },
	{ "silence", XK_SETTING_TIME, offsetof(struct chantest, silence_ns), "10s",
	  "after this without any reply a run fails, when its calls do", 1000000, UINT64_C(3600000000000) },
	{ "work", XK_SETTING_TIME, offsetof(struct chantest, work_ns), "0s", "what a server computes for each reply", 0,
	  UINT64_C(3600000000000) },
	{ "first", XK_SETTING_UINT, offsetof(struct chantest, first), "0", "number of a client's first request", 0,
	  UINT64_MAX },
	{ "peer", XK_SETTING_HOST, offsetof(struct chantest, peer), NULL, "the server of a run that begins by itself",
	  0, 0 },
	{ "channels", XK_SETTING_UINT, offsetof(struct chantest, channels), "1", "... its callers", 1,
	  XK_CHANTEST_CHANNELS },
	{ "rounds", XK_SETTING_UINT, offsetof(struct chantest, rounds), "1000", "... its round trips", 1, UINT64_MAX },
	{ "size", XK_SETTING_UINT, offsetof(struct chantest, size), "1", "... bytes of its messages", 0,
	  XK_CHANTEST_MAX },
	{ "start", XK_SETTING_TIME, offsetof(struct chantest, start_ns), "0s", "... how long after the boot it begins",
	  0, UINT64_C(86400000000000) },
	{ .name = NULL },
};

static const struct xk_protocol_ops chantest_ops = {
	.init = chantest_init,
	.fini = chantest_fini,
	.call_demux = chantest_call_demux,
};

static const struct xk_number_on chantest_numbers[] = { { "chan", 1 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_chantest = {
	.name = "chantest",
	.help = "Replies to every request with what it was, and as a client measures how long that takes.",
	.ops = &chantest_ops,
	.size = sizeof(struct chantest),
	.lowers = chantest_lowers,
	.numbers = chantest_numbers,
	.settings = chantest_settings,
	.counters = chantest_counters,
};
