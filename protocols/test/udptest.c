/*
 * udptest.c - the test protocol above UDP: a server that sends every message back, and a client that measures the round
 * trip. Each instance is a server. A program makes it a client (udptest.h), or the setting `peer` does: one run of
 * `rounds` then begins after `start`, and its end is traced (level events) and counted.
 *
 * The client sends its next request from the demux of the previous echo, so a round trip crosses the graph twice up and
 * twice down, and no thread waits. It lasts from one request to the next, including the check of the echo; the clock is
 * read once for each.
 *
 * Spec:         the x-kernel's test/udptest.c; a message is its number (up to 8 bytes, lowest first), then a pattern
 *               that depends on the position alone
 * Participants: none above; below (remote: host, port; local: port)
 * Control:      the session below answers
 * Counters:     messages counts requests and echoes; rounds and rtt_... describe the run that `peer` started
 * Drops:        late (an echo that is not awaited), bad (its length or contents); no_session (requests, serve=no)
 * Not done:     several clients in one instance; several requests in flight
 * Graph:        udptest -> udp
 */
#include "protocols/test/udptest.h"

#include <errno.h>
#include <stdlib.h>

#include "protocols/test/client_private.h"
#include "xkernel/support/fault.h"
#include "xkernel/trace.h"

enum { UDPTEST_LOOKS = 4 /* checks of the watchdog per time-out */ };

#define UDPTEST_DROPS(D)                                                                                               \
	D(UDPTEST_LATE, "late")                                                                                        \
	D(UDPTEST_BAD, "bad")
XK_DROPS(udptest, UDPTEST_DROPS);

#define UDPTEST_COUNTERS(C)                                                                                            \
	C(UDPTEST_MESSAGES, "messages")                                                                                \
	C(UDPTEST_LOST, "lost")                                                                                        \
	C(UDPTEST_UNSENT, "unsent")                                                                                    \
	C(UDPTEST_ROUNDS, "rounds")                                                                                    \
	C(UDPTEST_RTT_MIN, "rtt_min_ns") /* and the next two */                                                        \
	C(UDPTEST_RTT_MEAN, "rtt_mean_ns")                                                                             \
	C(UDPTEST_RTT_MAX, "rtt_max_ns")                                                                               \
	C(UDPTEST_REPORTS, "reports")
XK_COUNTERS(udptest, UDPTEST_COUNTERS);

/* Values of udptest.turn other than the number of the request whose echo is awaited. */
#define UDPTEST_NO_RUN UINT64_MAX
#define UDPTEST_ACTING (UINT64_MAX - 1) /* a thread has the turn, and the fields that belong to it */

struct udptest {
	struct client client;
	/* settings */
	uint64_t port, timeout_ns;
	bool serve;

	_Atomic(struct xk_session *) session; /* the client's, kept between runs; NULL: not open */
	uint32_t host;                        /* the peer of session */
	uint16_t host_port;
	struct xk_event watchdog;
	_Atomic uint64_t turn;
	_Atomic uint64_t sent_ns, received_ns;
	/* belong to the turn */
	struct xk_udptest_run run;
	struct xk_udptest_result result;
	uint64_t number; /* of the last request; never reused */
};

/* ---- the client: called by the thread that has the turn ---- */

static void
udptest_finish(struct udptest *u, int err)
{
	struct xk_udptest_result result;
	struct xk_udptest_run run = u->run;

	u->result.error = err;
	result = u->result;
	xk_event_cancel(&u->watchdog);
	atomic_store_explicit(&u->turn, UDPTEST_NO_RUN, memory_order_release);
	run.finished(run.argument, &result);
}

/*
 * Gives the turn to the echo of the next request, then sends that request: the echo may arrive before the push returns.
 * A failed push is found by the watchdog, as a lost message is.
 */
static void
udptest_send(struct udptest *u, struct xk_msg *old, uint64_t now_ns)
{
	struct xk_session *s = atomic_load_explicit(&u->session, memory_order_relaxed);
	uint64_t number = ++u->number;
	struct xk_msg *m = client_request(&u->client, old, u->run.size, number);

	atomic_store_explicit(&u->sent_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&u->turn, number, memory_order_release);
	if (m == NULL || xk_push(s, m) != 0)
		xk_count(&u->client.protocol, UDPTEST_UNSENT);
}

/* Takes the turn from the echo of `number`. Returns false if that does not have it. */
static bool
udptest_take_turn(struct udptest *u, uint64_t number)
{
	return atomic_compare_exchange_strong_explicit(&u->turn, &number, UDPTEST_ACTING, memory_order_acq_rel,
						       memory_order_relaxed);
}

/* Checks a few times per time-out whether the echo is overdue, so that round trips need not move an event. */
static void
udptest_watch(struct xk_event *event, void *argument)
{
	struct udptest *u = argument;
	struct xk_protocol *self = &u->client.protocol;
	uint64_t turn = atomic_load_explicit(&u->turn, memory_order_acquire);
	uint64_t sent_ns = atomic_load_explicit(&u->sent_ns, memory_order_relaxed), now_ns = xk_now_ns(self);

	if (turn == UDPTEST_NO_RUN)
		return;
	xk_event_schedule(event, u->timeout_ns / UDPTEST_LOOKS / 1000);
	if (turn == UDPTEST_ACTING || now_ns < sent_ns + u->timeout_ns || !udptest_take_turn(u, turn))
		return;
	xk_count(self, UDPTEST_LOST);
	xk_trace(self, XK_TRACE_ERRORS, "request %llu is lost", (unsigned long long)turn);
	u->result.lost++;
	xk_unanswered(atomic_load_explicit(&u->session, memory_order_relaxed));
	if (u->run.lost != NULL)
		u->run.lost(u->run.argument, now_ns - sent_ns);
	if (now_ns >= atomic_load_explicit(&u->received_ns, memory_order_relaxed) + u->client.silence_ns)
		udptest_finish(u, -ETIMEDOUT);
	else
		udptest_send(u, NULL, now_ns);
}

/* Not inlined, so that a server saves few registers. */
__attribute__((noinline)) static void
udptest_demux_echo(struct udptest *u, struct xk_msg *m)
{
	struct xk_protocol *self = &u->client.protocol;
	uint64_t now_ns = xk_now_ns(self), turn = atomic_load_explicit(&u->turn, memory_order_acquire), rtt_ns;
	uint32_t size = (uint32_t)xk_msg_len(m);
	const uint8_t *p = xk_msg_peek(&m, client_number_len(size));

	if (p == NULL || turn >= UDPTEST_ACTING || !client_number_is(p, size, turn) || !udptest_take_turn(u, turn)) {
		xk_drop(self, m, UDPTEST_LATE);
		return;
	}
	rtt_ns = now_ns - atomic_load_explicit(&u->sent_ns, memory_order_relaxed);
	atomic_store_explicit(&u->received_ns, now_ns, memory_order_relaxed);
	if (xk_unlikely(!client_is_intact(&u->client, m, u->run.size))) {
		u->result.bad++;
		xk_drop(self, m, UDPTEST_BAD);
		m = NULL;
	} else {
		if (u->run.record != NULL)
			u->run.record(u->run.argument, rtt_ns);
		u->result.rounds++;
	}
	if (u->result.rounds < u->run.rounds) {
		udptest_send(u, m, now_ns);
	} else {
		xk_msg_free(m);
		udptest_finish(u, 0);
	}
}

/* ---- runs ---- */

/* Opens a session to the run's server, or keeps the last run's. A shepherd; may wait. Returns 0 or -errno. */
static int
udptest_open(struct udptest *u)
{
	struct xk_session *s = atomic_load_explicit(&u->session, memory_order_relaxed);
	int err;

	if (s == NULL || u->host != u->run.host || u->host_port != u->run.port) {
		atomic_store_explicit(&u->session, NULL, memory_order_relaxed);
		xk_close(s);
		err = client_open(&u->client.protocol, u->run.host, u->run.port, u->client.silence_ns, &s);
		if (err != 0)
			return err;
		u->host = u->run.host;
		u->host_port = u->run.port;
		atomic_store_explicit(&u->session, s, memory_order_release);
	}
	return client_check_size(s, u->run.size, XK_UDPTEST_MAX, &u->result.max_packet);
}

/* Begins the run. Has the turn until it sends. */
static void
udptest_begin(void *argument)
{
	struct udptest *u = argument;
	uint64_t now_ns;
	int err = udptest_open(u);

	if (err != 0) {
		udptest_finish(u, err);
		return;
	}
	now_ns = xk_now_ns(&u->client.protocol);
	atomic_store_explicit(&u->received_ns, now_ns, memory_order_relaxed);
	xk_event_schedule(&u->watchdog, u->timeout_ns / UDPTEST_LOOKS / 1000);
	udptest_send(u, NULL, now_ns);
}

int
xk_udptest_start(struct xk_protocol *udptest, const struct xk_udptest_run *run)
{
	struct udptest *u = (struct udptest *)udptest;
	int err;

	if (run->size == 0 || run->size > XK_UDPTEST_MAX || run->rounds == 0 || run->finished == NULL)
		return -EINVAL;
	if (!udptest_take_turn(u, UDPTEST_NO_RUN))
		return -EBUSY;
	client_make_pattern(&u->client, run->size);
	u->run = *run;
	if (u->run.port == 0)
		u->run.port = XK_UDPTEST_PORT;
	u->result = (struct xk_udptest_result){ .error = 0 };
	err = xk_thread_start(udptest->kernel, udptest->name, udptest_begin, u);
	if (err != 0)
		atomic_store_explicit(&u->turn, UDPTEST_NO_RUN, memory_order_release);
	return err;
}

int
xk_udptest_close(struct xk_protocol *udptest)
{
	struct udptest *u = (struct udptest *)udptest;

	if (!udptest_take_turn(u, UDPTEST_NO_RUN))
		return -EBUSY;
	xk_close(atomic_exchange_explicit(&u->session, NULL, memory_order_acq_rel));
	atomic_store_explicit(&u->turn, UDPTEST_NO_RUN, memory_order_release);
	return 0;
}

static void
udptest_own_finished(void *argument, const struct xk_udptest_result *result)
{
	struct client *c = argument;

	xk_counter_set(&c->protocol, UDPTEST_ROUNDS, result->rounds);
	client_report(&c->protocol, result->error, (struct client_count){ result->rounds, "rounds" },
		      (struct client_count){ result->lost, "lost" }, &c->trips, UDPTEST_RTT_MIN);
}

/* Starts the run that the settings describe. If that fails (no shepherd), tries again later. */
static void
udptest_start_by_itself(struct xk_event *event, void *argument)
{
	struct client *c = argument;
	struct xk_udptest_run run = {
		.host = c->peer,
		.port = (uint16_t)((struct udptest *)c)->port,
		.size = (uint32_t)c->size,
		.rounds = c->rounds,
		.record = client_record,
		.finished = udptest_own_finished,
		.argument = c,
	};

	c->trips = (struct client_trips){ .count = 0 };
	if (xk_udptest_start(&c->protocol, &run) != 0)
		xk_event_schedule(event, CLIENT_RETRY_US);
}

/* ---- the protocol ---- */

static int
udptest_init(struct xk_protocol *self)
{
	struct udptest *u = (struct udptest *)self;
	struct xk_participants participants = { .local = { 1, { u->port } } };
	int err = u->serve ? xk_open_enable(self, self, xk_lower(self, 0), &participants) : 0;

	if (err != 0)
		return err;
	atomic_store_explicit(&u->turn, UDPTEST_NO_RUN, memory_order_relaxed);
	xk_event_init(&u->watchdog, self->kernel, udptest_watch, u);
	return client_init(&u->client, XK_UDPTEST_MAX, udptest_start_by_itself);
}

static void
udptest_fini(struct xk_protocol *self)
{
	struct udptest *u = (struct udptest *)self;

	xk_close(atomic_load_explicit(&u->session, memory_order_relaxed));
	free(u->client.pattern);
}

/* Refuses requests from the server's own port: two servers would echo them to each other for ever. */
static int
udptest_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
		  struct xk_protocol *hlp_type)
{
	return client_refuse_port(session, ((struct udptest *)self)->port);
}

static void
udptest_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct udptest *u = (struct udptest *)self;

	xk_count(self, UDPTEST_MESSAGES);
	if (lls == atomic_load_explicit(&u->session, memory_order_acquire))
		udptest_demux_echo(u, m);
	else if (!u->serve)
		xk_drop(self, m, XK_DROP_NO_SESSION);
	else if (xk_push(lls, m) != 0)
		xk_count(self, UDPTEST_UNSENT);
}

/* Counts reports of hosts; they do not end a round trip. */
static int
udptest_fault(struct xk_protocol *self, struct xk_fault_report *report)
{
	xk_count(self, UDPTEST_REPORTS);
	xk_trace(self, XK_TRACE_EVENTS, "%llx reports: %s", (unsigned long long)report->from,
		 xk_fault_name(report->fault));
	return 0;
}

static const struct xk_setting udptest_settings[] = {
	XK_SETTING(UINT, struct udptest, port, "port", "port of the server", .initial = "2001", .min = 1, .max = 65535),
	XK_SETTING(BOOL, struct udptest, serve, "serve", "whether to send messages back", .initial = "yes"),
	XK_SETTING(TIME, struct udptest, timeout_ns, "timeout", "time after which a request without an echo is lost",
		   .initial = "500ms", .min = 1000000, .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct client, silence_ns, "silence", "time without an echo after which a run fails",
		   .initial = "10s", .min = 1000000, .max = UINT64_C(3600000000000)),
	XK_SETTING(HOST, struct client, peer, "peer", "server of a run that begins by itself"),
	XK_SETTING(UINT, struct client, rounds, "rounds", "round trips of that run", .initial = "1000", .min = 1,
		   .max = UINT64_MAX),
	XK_SETTING(UINT, struct client, size, "size", "bytes of its messages", .initial = "1", .min = 1,
		   .max = XK_UDPTEST_MAX),
	XK_SETTING(TIME, struct client, start_ns, "start", "time from the boot to its start", .initial = "0s",
		   .max = UINT64_C(86400000000000)),
	{ .name = NULL },
};

static const struct xk_protocol_ops udptest_ops = {
	.init = udptest_init,
	.fini = udptest_fini,
	.open_done = udptest_open_done,
	.demux = udptest_demux,
	.fault = udptest_fault,
};

const struct xk_protocol_type xk_type_udptest = {
	.name = "udptest",
	.help = "Sends every message back to its sender; as a client, measures round trips.",
	.ops = &udptest_ops,
	.size = sizeof(struct udptest),
	.lowers = XK_ROLES({ .name = "transport", .needs = XK_ASYNC, .help = "carries messages: udp" }),
	.settings = udptest_settings,
	.drops = udptest_drops,
	.counters = udptest_counters,
};
