/*
 * chantest.c - the test protocol above CHAN: a server that returns every request, or its beginning, as its reply, and a
 * client that measures the round trip. Each instance is a server. A program makes it a client (chantest.h), or the
 * setting `peer` does: one run of `rounds` then begins after `start`, and its end is traced (level events) and counted.
 *
 * Callers are shepherds in xk_call, one for each of `channels`; the graph determines how they wait and what resumes
 * them. A round trip lasts from the call to its reply, without the check of the reply.
 *
 * Spec:         the x-kernel's test/chantest.c; a message is its number (up to 8 bytes, lowest first), then a pattern
 *               that depends on the position alone
 * Participants: none above; below (remote: host)
 * Failures:     A failed call is counted, and the next one made. A channel whose server rebooted is opened again. A run
 *               fails if the server is silent for `silence`. With trace=events the number of each served request is
 *               traced: give each host its own numbers (`first`) to see whether a request was executed twice.
 * Counters:     messages counts requests served here and replies of all runs; failed, bad and reopened are those of
 *               struct xk_chantest_result, over all runs; rounds and rtt_... describe the run that `peer` started
 * Not done:     several runs in one instance at once
 * Graph:        chantest -> chan
 */
#include "protocols/test/chantest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "protocols/bid/boot.h"
#include "protocols/test/client_private.h"
#include "xkernel/trace.h"

#define CHANTEST_COUNTERS(C)                                                                                           \
	C(CHANTEST_REQUESTS, "requests")                                                                               \
	C(CHANTEST_MESSAGES, "messages")                                                                               \
	C(CHANTEST_FAILED, "failed")                                                                                   \
	C(CHANTEST_BAD, "bad")                                                                                         \
	C(CHANTEST_REOPENED, "reopened")                                                                               \
	C(CHANTEST_ROUNDS, "rounds")                                                                                   \
	C(CHANTEST_RTT_MIN, "rtt_min_ns") /* and the next two */                                                       \
	C(CHANTEST_RTT_MEAN, "rtt_mean_ns")                                                                            \
	C(CHANTEST_RTT_MAX, "rtt_max_ns")
XK_COUNTERS(chantest, CHANTEST_COUNTERS);

enum { CHANTEST_SERVED = 64 };

struct chantest {
	struct client client;
	/* settings */
	bool serve;
	uint64_t work_ns, first, channels, reply_max;

	_Atomic uint64_t number;                  /* of the next request; never reused */
	_Atomic uint64_t served[CHANTEST_SERVED]; /* of a server, by number: marks of requests that were carried out */
	_Atomic uint64_t again;                   /* requests that were carried out again */
	_Atomic bool running;
	struct xk_lock lock; /* protects what follows during a run; held while record and failed are called */
	struct xk_chantest_run run;
	struct xk_chantest_result result;
	unsigned callers; /* that have not finished */
	uint64_t received_ns;
};

/* ---- a caller ---- */

/* Returns whether there is another call to make. */
static bool
chantest_goes_on(struct chantest *t)
{
	bool goes_on;

	xk_lock(&t->lock);
	goes_on = t->result.error == 0 && t->result.rounds < t->run.rounds;
	xk_unlock(&t->lock);
	return goes_on;
}

/* Makes one call. Takes *m, the last reply. Returns 0 with the next one in *m (NULL if it is wrong), or -errno. */
static int
chantest_call(struct chantest *t, struct xk_session *s, struct xk_msg **m)
{
	struct xk_protocol *self = &t->client.protocol;
	uint64_t number = atomic_fetch_add_explicit(&t->number, 1, memory_order_relaxed), begun_ns, now_ns;
	uint32_t size = t->run.size, reply_size = size < t->reply_max ? size : (uint32_t)t->reply_max;
	struct xk_msg *request = client_request(&t->client, *m, size, number);
	const uint8_t *p;
	bool is_right = false;
	int err = -ENOBUFS;

	*m = NULL;
	begun_ns = xk_now_ns(self);
	if (request != NULL)
		err = xk_call(s, request, m);
	now_ns = xk_now_ns(self);
	xk_count(self, err != 0 ? CHANTEST_FAILED : CHANTEST_MESSAGES);
	if (err != 0) {
		xk_trace(self, XK_TRACE_ERRORS, "a call has failed: %s", xk_error(err));
	} else {
		p = xk_msg_peek(m, client_number_len(reply_size));
		is_right = p != NULL && client_number_is(p, reply_size, number) &&
			   client_is_intact(&t->client, *m, reply_size);
		if (!is_right) {
			xk_count(self, CHANTEST_BAD);
			xk_trace(self, XK_TRACE_ERRORS, "a reply is wrong");
		}
		if (!is_right || reply_size < size) { /* the next request cannot be made of it */
			xk_msg_free(*m);
			*m = NULL;
		}
	}
	xk_lock(&t->lock);
	if (err != 0) {
		t->result.failed++;
		if (t->run.failed != NULL)
			t->run.failed(t->run.argument, err, now_ns - begun_ns);
		if (t->result.error == 0 && err == -ECANCELED)
			t->result.error = err;
		else if (t->result.error == 0 && now_ns >= t->received_ns + t->client.silence_ns)
			t->result.error = -ETIMEDOUT;
	} else {
		t->received_ns = now_ns;
		t->result.bad += !is_right;
		if (is_right && t->result.rounds < t->run.rounds) {
			t->result.rounds++;
			if (t->run.record != NULL)
				t->run.record(t->run.argument, now_ns - begun_ns);
		}
	}
	xk_unlock(&t->lock);
	return err;
}

/* Calls on one channel until the run or the channel is over. Returns 0, or -ECANCELED: the kernel is stopping. */
static int
chantest_use(struct chantest *t, struct xk_session *s)
{
	struct xk_msg *m = NULL;
	int err = 0;

	while (err != -ECONNRESET && err != -ECANCELED && chantest_goes_on(t)) {
		err = chantest_call(t, s, &m);
		/* a call that timed out has waited already */
		if (err != 0 && err != -ETIMEDOUT && client_may_retry(err) &&
		    xk_delay(&t->client.protocol, CLIENT_RETRY_US) == -ECANCELED)
			err = -ECANCELED;
	}
	xk_msg_free(m);
	return err == -ECANCELED ? err : 0;
}

/* Ends the run for `count` callers, which have finished or never begun, with this error. The last one reports. */
static void
chantest_end(struct chantest *t, unsigned count, int err)
{
	struct xk_chantest_result result;
	struct xk_chantest_run run;
	bool last;

	xk_lock(&t->lock);
	if (t->result.error == 0)
		t->result.error = err;
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

/* Calls on one channel after another until the run is over. */
static void
chantest_caller(void *argument)
{
	struct chantest *t = argument;
	struct xk_protocol *self = &t->client.protocol;
	struct xk_session *s;
	uint32_t max_packet;
	int err;

	while ((err = client_open(self, t->run.host, 0, t->client.silence_ns, &s)) == 0) {
		err = client_check_size(s, t->run.size, XK_CHANTEST_MAX, &max_packet);
		xk_lock(&t->lock);
		t->result.max_packet = max_packet;
		t->received_ns = xk_now_ns(self);
		xk_unlock(&t->lock);
		if (err == 0)
			err = chantest_use(t, s);
		xk_close(s);
		if (err != 0 || !chantest_goes_on(t))
			break;
		xk_count(self, CHANTEST_REOPENED);
		xk_lock(&t->lock);
		t->result.reopened++;
		xk_unlock(&t->lock);
	}
	chantest_end(t, 1, err);
}

/* ---- runs ---- */

int
xk_chantest_start(struct xk_protocol *chantest, const struct xk_chantest_run *run)
{
	struct chantest *t = (struct chantest *)chantest;
	unsigned started = 0;
	int err = 0;

	if (run->size > XK_CHANTEST_MAX || run->rounds == 0 || run->finished == NULL || run->channels == 0 ||
	    run->channels > XK_CHANTEST_CHANNELS)
		return -EINVAL;
	if (atomic_exchange_explicit(&t->running, true, memory_order_acq_rel))
		return -EBUSY;
	client_make_pattern(&t->client, run->size);
	t->run = *run;
	t->result = (struct xk_chantest_result){ .error = 0 };
	t->callers = run->channels;
	for (; started < run->channels && err == 0; started += err == 0)
		err = xk_thread_start(chantest->kernel, chantest->name, chantest_caller, t);
	if (started == 0)
		atomic_store_explicit(&t->running, false, memory_order_release);
	else if (err != 0)
		chantest_end(t, run->channels - started, err);
	return started == 0 ? err : 0;
}

static void
chantest_own_finished(void *argument, const struct xk_chantest_result *result)
{
	struct client *c = argument;

	xk_counter_set(&c->protocol, CHANTEST_ROUNDS, result->rounds);
	client_report(&c->protocol, result->error, (struct client_count){ result->rounds, "rounds" },
		      (struct client_count){ result->failed, "failed" }, &c->trips, CHANTEST_RTT_MIN);
}

/* Starts the run that the settings describe. If that fails (no shepherd), tries again later. */
static void
chantest_start_by_itself(struct xk_event *event, void *argument)
{
	struct client *c = argument;
	struct xk_chantest_run run = {
		.host = c->peer,
		.size = (uint32_t)c->size,
		.channels = (unsigned)((struct chantest *)c)->channels,
		.rounds = c->rounds,
		.record = client_record,
		.finished = chantest_own_finished,
		.argument = c,
	};

	c->trips = (struct client_trips){ .count = 0 };
	if (xk_chantest_start(&c->protocol, &run) != 0)
		xk_event_schedule(event, CLIENT_RETRY_US);
}

/* ---- the protocol ---- */

static int
chantest_init(struct xk_protocol *self)
{
	struct chantest *t = (struct chantest *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	int err = t->serve ? xk_open_enable(self, self, xk_lower(self, 0), &anybody) : 0;

	if (err != 0)
		return err;
	xk_lock_init(&t->lock, self);
	atomic_init(&t->number, t->first);
	return client_init(&t->client, XK_CHANTEST_MAX, chantest_start_by_itself);
}

static void
chantest_fini(struct xk_protocol *self)
{
	free(((struct client *)self)->pattern);
}

/* Returns the number of request m, or as much of it as m has. */
static uint64_t
chantest_number(const struct xk_msg *m)
{
	uint8_t bytes[CLIENT_NUMBER_LEN] = { 0 };
	uint64_t number = 0;

	xk_msg_copy_out(m, 0, bytes, client_number_len((uint32_t)xk_msg_len(m)));
	for (size_t i = 0; i < sizeof(bytes); i++)
		number |= (uint64_t)bytes[i] << (8 * i);
	return number;
}

/* Notes request m, which has its whole number. Together with the client's boot, a number is used once. */
static void
chantest_note(struct chantest *t, const struct xk_msg *m)
{
	uint64_t boot = xk_msg_from_boot(m), number = chantest_number(m);
	uint64_t mark = boot ^ (number + 1) * UINT64_C(0x9e3779b97f4a7c15);

	if (boot == 0) /* the protocols below do not distinguish boots */
		return;
	if (atomic_exchange_explicit(&t->served[number % CHANTEST_SERVED], mark, memory_order_relaxed) == mark)
		atomic_fetch_add_explicit(&t->again, 1, memory_order_relaxed);
}

static int
chantest_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	struct chantest *t = (struct chantest *)self;

	xk_count(self, CHANTEST_REQUESTS);
	xk_count(self, CHANTEST_MESSAGES);
	if (xk_unlikely(self->shown_level >= XK_TRACE_EVENTS))
		xk_trace(self, XK_TRACE_EVENTS, "serves %llu", (unsigned long long)chantest_number(m));
	if (xk_msg_len(m) >= CLIENT_NUMBER_LEN)
		chantest_note(t, m);
	if (xk_unlikely(t->work_ns != 0))
		xk_work(self, t->work_ns);
	xk_msg_truncate(m, t->reply_max);
	*reply = m;
	return 0;
}

static const char *
chantest_promise(struct xk_protocol *self, bool at_rest)
{
	const struct chantest *t = (const struct chantest *)self;
	bool is_running = atomic_load(&t->running);

	if (xk_counter(self, CHANTEST_BAD) > 0)
		return "a reply is not that of its call";
	if (atomic_load(&t->again) > 0)
		return xk_broken(self, "requests that were carried out twice: %" PRIu64, atomic_load(&t->again));
	if (is_running != (t->callers > 0))
		return "a run does not end with its last caller";
	return at_rest && is_running ? xk_broken(self, "callers that do not end: %u", t->callers) : NULL;
}

static const struct xk_setting chantest_settings[] = {
	XK_SETTING(BOOL, struct chantest, serve, "serve", "whether to answer requests", .initial = "yes"),
	XK_SETTING(TIME, struct client, silence_ns, "silence",
		   "time without a reply after which a failing call ends the run", .initial = "10s", .min = 1000000,
		   .max = UINT64_C(3600000000000)),
	XK_SETTING(TIME, struct chantest, work_ns, "work", "time that a server works on each reply", .initial = "0s",
		   .max = UINT64_C(3600000000000)),
	XK_SETTING(UINT, struct chantest, reply_max, "reply",
		   "bytes of the longest reply: longer requests come back cut to it; alike on both hosts",
		   .initial = "512k", .max = XK_CHANTEST_MAX),
	XK_SETTING(UINT, struct chantest, first, "first", "number of a client's first request", .initial = "0",
		   .max = UINT64_MAX),
	XK_SETTING(HOST, struct client, peer, "peer", "server of a run that begins by itself"),
	XK_SETTING(UINT, struct chantest, channels, "channels", "callers of that run, each on its own channel",
		   .initial = "1", .min = 1, .max = XK_CHANTEST_CHANNELS),
	XK_SETTING(UINT, struct client, rounds, "rounds", "its round trips", .initial = "1000", .min = 1,
		   .max = UINT64_MAX),
	XK_SETTING(UINT, struct client, size, "size", "bytes of its messages", .initial = "1", .max = XK_CHANTEST_MAX),
	XK_SETTING(TIME, struct client, start_ns, "start", "time from the boot to its start", .initial = "0s",
		   .max = UINT64_C(86400000000000)),
	{ .name = NULL },
};

static const struct xk_protocol_ops chantest_ops = {
	.init = chantest_init,
	.fini = chantest_fini,
	.call_demux = chantest_call_demux,
	.promise = chantest_promise,
};

const struct xk_protocol_type xk_type_chantest = {
	.name = "chantest",
	.help = "Returns every request, or its beginning, as its reply; as a client, measures round trips.",
	.ops = &chantest_ops,
	.size = sizeof(struct chantest),
	.lowers = XK_ROLES({ .name = "transport", .needs = XK_RPC, .help = "carries calls: chan" }),
	.numbers = XK_NUMBERS({ "chan", 1 }),
	.settings = chantest_settings,
	.counters = chantest_counters,
};
