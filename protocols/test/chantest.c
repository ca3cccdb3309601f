/*
 * chantest.c - the test protocol above CHAN: a server that sends every request back as its reply, and a client that
 * measures how long that takes. Each instance is a server. A program makes it a client (chantest.h), or the setting
 * `peer` does: then one run of `rounds` begins after `start`, and its end is traced (level events) and counted.
 *
 * Callers are shepherds in xk_call, one for each of `channels`; the graph says how they wait and who resumes them. A
 * round trip lasts from the call to its reply; the check of the reply comes after it.
 *
 * Spec:         the x-kernel's test/chantest.c; a message is its number (as many of 8 bytes as fit, lowest first),
 *               then a pattern that depends on the position alone
 * Participants: none above; below (remote: host)
 * Failures:     A call that fails is counted, and the next one made. A channel whose server was rebooted is opened
 *               again. A run fails when the server has been silent for `silence`. With trace=events each served
 *               request is traced with its number: give each host's calls other numbers (`first`) to see whether one
 *               was run twice.
 * Counters:     messages counts requests served here and replies of all runs; failed, bad and reopened are as in
 *               struct xk_chantest_result, of all runs; rounds and rtt_... describe the run that `peer` has started
 * Not done:     several runs in one instance at once
 * Graph:        chantest -> chan
 */
#include "protocols/test/chantest.h"

#include <errno.h>
#include <stdlib.h>

#include "protocols/test/client_private.h"
#include "xkernel/trace.h"

enum chantest_counter {
	CHANTEST_REQUESTS,
	CHANTEST_MESSAGES,
	CHANTEST_FAILED,
	CHANTEST_BAD,
	CHANTEST_REOPENED,
	CHANTEST_ROUNDS,
	CHANTEST_RTT_MIN,
};

static const char *const chantest_counters[] = { "requests", "messages",   "failed",      "bad",        "reopened",
						 "rounds",   "rtt_min_ns", "rtt_mean_ns", "rtt_max_ns", NULL };

struct chantest {
	struct client client;
	/* settings */
	bool serve;
	uint64_t work_ns, first, channels;

	_Atomic uint64_t number; /* of the next request; never used twice */
	_Atomic bool running;
	struct xk_lock lock; /* over what follows, while there is a run; held where record and failed are called */
	struct xk_chantest_run run;
	struct xk_chantest_result result;
	uint64_t warm_up_left;
	unsigned callers; /* that have not ended */
	uint64_t heard_ns;
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

/* Ends the run for this reason; the first one counts. The lock is held. */
static void
chantest_fail(struct chantest *t, int err)
{
	if (t->result.error == 0)
		t->result.error = err;
}

static void
chantest_note_failure(struct chantest *t, int err, uint64_t begun_ns, uint64_t now_ns)
{
	xk_count(&t->client.protocol, CHANTEST_FAILED);
	xk_trace(&t->client.protocol, XK_TRACE_ERRORS, "a call has failed: %s", strerror(-err));
	xk_lock(&t->lock);
	t->result.failed++;
	if (t->run.failed != NULL)
		t->run.failed(t->run.argument, err, now_ns - begun_ns);
	if (err == -ECANCELED)
		chantest_fail(t, err);
	else if (now_ns >= t->heard_ns + t->client.silence_ns)
		chantest_fail(t, -ETIMEDOUT);
	xk_unlock(&t->lock);
}

static void
chantest_note_reply(struct chantest *t, bool is_right, uint64_t begun_ns, uint64_t now_ns)
{
	xk_count(&t->client.protocol, CHANTEST_MESSAGES);
	if (!is_right) {
		xk_count(&t->client.protocol, CHANTEST_BAD);
		xk_trace(&t->client.protocol, XK_TRACE_ERRORS, "a reply is wrong");
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

/* Makes one call. Takes *m, the last reply. Returns 0 with the next one in *m (NULL if it is wrong), or -errno. */
static int
chantest_call(struct chantest *t, struct xk_session *s, struct xk_msg **m)
{
	uint64_t number = atomic_fetch_add_explicit(&t->number, 1, memory_order_relaxed), begun_ns, now_ns;
	uint32_t size = t->run.size;
	struct xk_msg *request = client_request(&t->client, *m, size, number);
	const uint8_t *p;
	bool is_right;
	int err = -ENOBUFS;

	*m = NULL;
	begun_ns = xk_now_ns(&t->client.protocol);
	if (request != NULL)
		err = xk_call(s, request, m);
	now_ns = xk_now_ns(&t->client.protocol);
	if (err != 0) {
		chantest_note_failure(t, err, begun_ns, now_ns);
		return err;
	}
	p = xk_msg_peek(m, client_number_len(size));
	is_right = p != NULL && client_number_is(p, size, number) && client_is_intact(&t->client, *m, size);
	chantest_note_reply(t, is_right, begun_ns, now_ns);
	if (!is_right) {
		xk_msg_free(*m);
		*m = NULL;
	}
	return 0;
}

/* Calls on one channel until the run or the channel is over. Returns 0, or -ECANCELED: the kernel is stopping. */
static int
chantest_use(struct chantest *t, struct xk_session *s)
{
	struct xk_msg *m = NULL;
	int err = 0;

	while (err != -ECONNRESET && err != -ECANCELED && chantest_goes_on(t)) {
		err = chantest_call(t, s, &m);
		/* a call that has timed out has taken its time already */
		if (err != 0 && err != -ETIMEDOUT && client_may_retry(err) &&
		    xk_delay(&t->client.protocol, CLIENT_RETRY_US) == -ECANCELED)
			err = -ECANCELED;
	}
	xk_msg_free(m);
	return err == -ECANCELED ? err : 0;
}

/* Works on one channel after the other, until the run is over. 0 or -errno. */
static int
chantest_work_on(struct chantest *t)
{
	struct xk_protocol *self = &t->client.protocol;

	for (;;) {
		struct xk_session *s;
		uint32_t max_packet;
		int err = client_open(self, t->run.host, 0, t->client.silence_ns, &s);

		if (err != 0)
			return err;
		err = client_check_size(s, t->run.size, XK_CHANTEST_MAX, &max_packet);
		xk_lock(&t->lock);
		t->result.max_packet = max_packet;
		t->heard_ns = xk_now_ns(self);
		xk_unlock(&t->lock);
		if (err == 0)
			err = chantest_use(t, s);
		xk_close(s);
		if (err != 0 || !chantest_goes_on(t))
			return err;
		xk_count(self, CHANTEST_REOPENED);
		xk_lock(&t->lock);
		t->result.reopened++;
		xk_unlock(&t->lock);
	}
}

/* ---- runs ---- */

/* Notes that `count` callers have ended, or never begun, with this error. The last one ends the run. */
static void
chantest_end(struct chantest *t, unsigned count, int err)
{
	struct xk_chantest_result result;
	struct xk_chantest_run run;
	bool last;

	xk_lock(&t->lock);
	if (err != 0)
		chantest_fail(t, err);
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
	int err = 0;

	if (run->size > XK_CHANTEST_MAX || run->rounds == 0 || run->finished == NULL || run->channels == 0 ||
	    run->channels > XK_CHANTEST_CHANNELS)
		return -EINVAL;
	if (atomic_exchange_explicit(&t->running, true, memory_order_acq_rel))
		return -EBUSY;
	t->run = *run;
	t->result = (struct xk_chantest_result){ .error = 0 };
	t->warm_up_left = run->warm_up;
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

/* Starts the run that the settings describe; without a shepherd for it, tries again later. */
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

/* Traces which request is served. */
static void
chantest_tell(struct xk_protocol *self, struct xk_msg **m)
{
	size_t len = client_number_len((uint32_t)xk_msg_len(*m));
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
	{ "silence", XK_SETTING_TIME, offsetof(struct client, silence_ns), "10s",
	  "after this without any reply a run fails, when its calls do", 1000000, UINT64_C(3600000000000) },
	{ "work", XK_SETTING_TIME, offsetof(struct chantest, work_ns), "0s", "what a server computes for each reply", 0,
	  UINT64_C(3600000000000) },
	{ "first", XK_SETTING_UINT, offsetof(struct chantest, first), "0", "number of a client's first request", 0,
	  UINT64_MAX },
	{ "peer", XK_SETTING_HOST, offsetof(struct client, peer), NULL, "the server of a run that begins by itself", 0,
	  0 },
	{ "channels", XK_SETTING_UINT, offsetof(struct chantest, channels), "1", "... its callers", 1,
	  XK_CHANTEST_CHANNELS },
	{ "rounds", XK_SETTING_UINT, offsetof(struct client, rounds), "1000", "... its round trips", 1, UINT64_MAX },
	{ "size", XK_SETTING_UINT, offsetof(struct client, size), "1", "... bytes of its messages", 0,
	  XK_CHANTEST_MAX },
	{ "start", XK_SETTING_TIME, offsetof(struct client, start_ns), "0s", "... how long after the boot it begins", 0,
	  UINT64_C(86400000000000) },
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
