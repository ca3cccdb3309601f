/*
 * udptest.c - the test protocol above UDP: a server that sends every message back, and a client that measures how long
 * that takes. Each instance is a server; it becomes a client when a program says so (udptest.h), or by itself if the
 * setting `peer` names a server: then one run of `rounds`, after `start`, whose end is traced (level events) and counted.
 *
 * The client sends its next request from the demux of the echo before it, so that a round trip is the graph twice up
 * and twice down and nothing else: no thread waits. A round trip lasts from one request to the next and includes the
 * check of the echo; the clock is read once for each.
 *
 * Spec:         the x-kernel's test/udptest.c; a message is its number (as many of 8 bytes as fit, lowest first), then
 *               a pattern that depends on the position alone
 * Participants: none above; below (remote: host, port; local: port)
 * Control:      the session below answers. From below: XK_FAULT
 * Settings:     port, serve, timeout, silence; peer, rounds, size, start
 * Counters:     messages (delivered here, requests and echoes), lost, unsent (the protocol below would not); of the run
 *               that `peer` has started, when it has ended: rounds, rtt_min_ns, rtt_mean_ns, rtt_max_ns
 *               reports (what hosts say of messages of either kind: fault.h)
 * Drops:        late, bad: echoes that are not the one awaited; no_session: requests while serve=no
 * Not done:     several clients in one instance; several requests under way
 * Graph:        udptest -> udp
 */
#include "protocols/test/udptest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/test/round_trips.h"
#include "xkernel/event.h"
#include "xkernel/fault.h"
#include "xkernel/process.h"
#include "xkernel/trace.h"

enum { UDPTEST_NUMBER_LEN = 8, UDPTEST_LOOKS = 4, UDPTEST_RETRY_US = 100000 };
enum udptest_drop { UDPTEST_LATE = XK_DROP_OWN, UDPTEST_BAD };
enum udptest_counter {
	UDPTEST_MESSAGES,
	UDPTEST_LOST,
	UDPTEST_UNSENT,
	UDPTEST_ROUNDS,
	UDPTEST_RTT_MIN,
	UDPTEST_RTT_MEAN,
	UDPTEST_RTT_MAX,
	UDPTEST_REPORTS,
};

static const char *const udptest_drops[] = { "late", "bad", NULL };
static const char *const udptest_counters[] = { "messages",    "lost",       "unsent",  "rounds", "rtt_min_ns",
						"rtt_mean_ns", "rtt_max_ns", "reports", NULL };

/* Whose turn it is, in udptest.turn: nobody's (no run), an echo's (its number is awaited), or somebody's who acts. */
#define UDPTEST_NO_RUN UINT64_MAX
#define UDPTEST_ACTING (UINT64_MAX - 1)

struct udptest {
	struct xk_protocol protocol;
	/* settings */
	uint64_t port, timeout_ns, silence_ns;
	bool serve;
	uint32_t peer; /* 0: a program starts the client */
	uint64_t rounds, size, start_ns;

	_Atomic(struct xk_session *) session; /* the client's; NULL: not open */
	uint32_t host;                        /* whom it is open to */
	uint16_t host_port;
	uint8_t *pattern;
	struct xk_event watchdog;
	_Atomic uint64_t turn;
	_Atomic uint64_t sent_ns, heard_ns;
	/* of whoever has the turn */
	struct xk_udptest_run run;
	struct xk_udptest_result result;
	uint64_t number; /* of the last request; never used twice */
	uint64_t warm_up_left;
	/* of the run that begins by itself */
	struct xk_event starter;
	struct round_trips trips;
};

/* ---- what a message looks like ---- */

/* No period, so that a piece of a message in the wrong place is seen. */
static uint8_t *
udptest_pattern_new(void)
{
	uint8_t *pattern = malloc(XK_UDPTEST_MAX);
	uint32_t x = 1;

	for (unsigned i = 0; pattern != NULL && i < XK_UDPTEST_MAX; i++) {
		x = x * 1664525 + 1013904223;
		pattern[i] = (uint8_t)(x >> 24);
	}
	return pattern;
}

static unsigned
udptest_number_len(uint32_t size)
{
	return size < UDPTEST_NUMBER_LEN ? size : UDPTEST_NUMBER_LEN;
}

static void
udptest_number_put(uint8_t *p, uint32_t size, uint64_t number)
{
	for (unsigned i = 0; i < udptest_number_len(size); i++)
		p[i] = (uint8_t)(number >> (8 * i));
}

/* Whether the bytes at p say number, as far as a message of this size can. */
static bool
udptest_number_is(const uint8_t *p, uint32_t size, uint64_t number)
{
	for (unsigned i = 0; i < udptest_number_len(size); i++)
		if (p[i] != (uint8_t)(number >> (8 * i)))
			return false;
	return true;
}

/* Whether what follows the number is the pattern. */
static bool
udptest_is_intact(const struct udptest *u, const struct xk_msg *m, uint32_t size)
{
	const uint8_t *pattern = u->pattern;
	size_t skip = udptest_number_len(size);

	if (xk_msg_len(m) != size)
		return false;
	for (; m != NULL; pattern += m->len, m = m->next) {
		size_t begin = skip < m->len ? skip : m->len;

		if (memcmp(m->data + begin, pattern + begin, m->len - begin) != 0)
			return false;
		skip -= begin;
	}
	return true;
}

/* A request with this number; reuses `old`, an echo found intact, where nobody else sees its buffer. Takes old. */
static struct xk_msg *
udptest_request(struct udptest *u, struct xk_msg *old, uint64_t number)
{
	struct xk_msg *m = old;
	const uint8_t *pattern = u->pattern;

	if (old == NULL || old->next != NULL || !xk_msg_is_writable(old)) {
		xk_msg_free(old);
		m = xk_msg_new(xk_platform_of(&u->protocol), u->run.size);
		for (struct xk_msg *part = m; part != NULL; pattern += part->len, part = part->next)
			memcpy(part->data, pattern, part->len);
	}
	if (m != NULL)
		udptest_number_put(m->data, u->run.size, number);
	return m;
}

/* ---- the client: by whoever has the turn ---- */

static void
udptest_finish(struct udptest *u, int error)
{
	struct xk_udptest_result result;
	struct xk_udptest_run run = u->run;

	u->result.error = error;
	result = u->result;
	xk_event_cancel(&u->watchdog);
	atomic_store_explicit(&u->turn, UDPTEST_NO_RUN, memory_order_release);
	run.finished(run.argument, &result);
}

/*
 * Gives the turn to the echo of the next request, then sends that request: the echo may be here before the push
 * returns. What cannot be sent is found by the watchdog, like what is lost on its way.
 */
static void
udptest_send(struct udptest *u, struct xk_msg *old, uint64_t now_ns)
{
	struct xk_session *s = atomic_load_explicit(&u->session, memory_order_relaxed);
	uint64_t number = ++u->number;
	struct xk_msg *m = udptest_request(u, old, number);

	atomic_store_explicit(&u->sent_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&u->turn, number, memory_order_release);
	if (m == NULL || xk_push(s, m) != 0)
		xk_count(&u->protocol, UDPTEST_UNSENT);
}

/* Takes the turn from the echo of number, if it still has it. */
static bool
udptest_take_turn(struct udptest *u, uint64_t number)
{
	return atomic_compare_exchange_strong_explicit(&u->turn, &number, UDPTEST_ACTING, memory_order_acq_rel,
						       memory_order_relaxed);
}

/*
 * Looks a few times per time-out whether the awaited echo is overdue, so that no round trip has to move an event.
 * A run that ends meanwhile finds the event where it is.
 */
static void
udptest_watch(struct xk_event *event, void *argument)
{
	struct udptest *u = argument;
	uint64_t turn = atomic_load_explicit(&u->turn, memory_order_acquire);
	uint64_t sent_ns = atomic_load_explicit(&u->sent_ns, memory_order_relaxed), now_ns = xk_now_ns(&u->protocol);

	if (turn == UDPTEST_NO_RUN)
		return;
	xk_event_schedule(event, u->timeout_ns / UDPTEST_LOOKS / 1000);
	if (turn == UDPTEST_ACTING || now_ns < sent_ns + u->timeout_ns || !udptest_take_turn(u, turn))
		return;
	xk_count(&u->protocol, UDPTEST_LOST);
	xk_trace(&u->protocol, XK_TRACE_ERRORS, "request %llu is lost", (unsigned long long)turn);
	u->result.lost++;
	if (u->run.lost != NULL)
		u->run.lost(u->run.argument, now_ns - sent_ns);
	if (now_ns >= atomic_load_explicit(&u->heard_ns, memory_order_relaxed) + u->silence_ns)
		udptest_finish(u, -ETIMEDOUT);
	else
		udptest_send(u, NULL, now_ns);
}

/* What the turn's owner does with an echo: NULL if m was used up. */
static void
udptest_round(struct udptest *u, struct xk_msg *m, uint64_t now_ns)
{
	uint64_t rtt_ns = now_ns - atomic_load_explicit(&u->sent_ns, memory_order_relaxed);

	atomic_store_explicit(&u->heard_ns, now_ns, memory_order_relaxed);
	if (xk_unlikely(!udptest_is_intact(u, m, u->run.size))) {
		u->result.bad++;
		xk_drop(&u->protocol, m, UDPTEST_BAD);
		m = NULL;
	} else if (u->warm_up_left > 0) {
		u->warm_up_left--;
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

/* Apart, so that a server saves few registers. */
__attribute__((noinline)) static void
udptest_demux_echo(struct udptest *u, struct xk_msg *m)
{
	uint64_t now_ns = xk_now_ns(&u->protocol), turn = atomic_load_explicit(&u->turn, memory_order_acquire);
	uint32_t size = (uint32_t)xk_msg_len(m);
	const uint8_t *p = xk_msg_peek(&m, udptest_number_len(size));

	if (p == NULL || turn >= UDPTEST_ACTING || !udptest_number_is(p, size, turn) || !udptest_take_turn(u, turn))
		xk_drop(&u->protocol, m, UDPTEST_LATE);
	else
		udptest_round(u, m, now_ns);
}

/* ---- the client's beginning: a shepherd that may wait ---- */

/* Opens the session to the run's server, unless the one of the last run will do. 0 or -errno. */
static int
udptest_open_session(struct udptest *u)
{
	struct xk_session *s = atomic_load_explicit(&u->session, memory_order_relaxed);
	struct xk_participants participants = { .remote.depth = 0 };
	int error;

	if (s != NULL && u->host == u->run.host && u->host_port == u->run.port)
		return 0;
	atomic_store_explicit(&u->session, NULL, memory_order_relaxed);
	xk_close(s);
	xk_participant_push(&participants.remote, u->run.host);
	xk_participant_push(&participants.remote, u->run.port);
	error = xk_open(&u->protocol, &u->protocol, xk_lower(&u->protocol, 0), &participants, &s);
	if (error != 0)
		return error;
	u->host = u->run.host;
	u->host_port = u->run.port;
	atomic_store_explicit(&u->session, s, memory_order_release);
	return 0;
}

/* Whether an open that failed may succeed later: the peer is not there yet, or something was short. */
static bool
udptest_is_passing(int error)
{
	return error == -EHOSTUNREACH || error == -ETIMEDOUT || error == -ENOBUFS || error == -EAGAIN;
}

/* A peer that is not there yet is waited for: open says within its own time that nobody answered. */
static int
udptest_open_patiently(struct udptest *u)
{
	uint64_t start_ns = xk_now_ns(&u->protocol);
	int error;

	for (;;) {
		error = udptest_open_session(u);
		if (!udptest_is_passing(error))
			return error;
		if (xk_now_ns(&u->protocol) >= start_ns + u->silence_ns)
			return error;
		if (xk_delay(&u->protocol, UDPTEST_RETRY_US) == -ECANCELED)
			return -ECANCELED;
	}
}

static int
udptest_check_size(struct udptest *u)
{
	struct xk_session *s = atomic_load_explicit(&u->session, memory_order_relaxed);

	if (xk_control(s, XK_GET_MAX_PACKET, &u->result.max_packet, sizeof(u->result.max_packet)) !=
	    sizeof(u->result.max_packet))
		u->result.max_packet = XK_UDPTEST_MAX;
	return u->run.size <= u->result.max_packet ? 0 : -EMSGSIZE;
}

/* Has the turn until it sends. */
static void
udptest_begin(void *argument)
{
	struct udptest *u = argument;
	uint64_t now_ns;
	int error = udptest_open_patiently(u);

	if (error == 0)
		error = udptest_check_size(u);
	if (error != 0) {
		udptest_finish(u, error);
		return;
	}
	now_ns = xk_now_ns(&u->protocol);
	atomic_store_explicit(&u->heard_ns, now_ns, memory_order_relaxed);
	xk_event_schedule(&u->watchdog, u->timeout_ns / UDPTEST_LOOKS / 1000);
	udptest_send(u, NULL, now_ns);
}

int
xk_udptest_start(struct xk_protocol *udptest, const struct xk_udptest_run *run)
{
	struct udptest *u = (struct udptest *)udptest;
	int error;

	if (run->size == 0 || run->size > XK_UDPTEST_MAX || run->rounds == 0 || run->finished == NULL)
		return -EINVAL;
	if (!udptest_take_turn(u, UDPTEST_NO_RUN))
		return -EBUSY;
	u->run = *run;
	if (u->run.port == 0)
		u->run.port = XK_UDPTEST_PORT;
	u->warm_up_left = run->warm_up;
	u->result = (struct xk_udptest_result){ .error = 0 };
	error = xk_thread_start(udptest->kernel, udptest->name, udptest_begin, u);
	if (error != 0)
		atomic_store_explicit(&u->turn, UDPTEST_NO_RUN, memory_order_release);
	return error;
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

/* ---- the run that begins by itself ---- */

static void
udptest_own_record(void *argument, uint64_t rtt_ns)
{
	struct udptest *u = argument;

	round_trips_add(&u->trips, rtt_ns);
}

static void
udptest_own_finished(void *argument, const struct xk_udptest_result *result)
{
	struct udptest *u = argument;
	const struct round_trips *trips = &u->trips;

	xk_counter_set(&u->protocol, UDPTEST_ROUNDS, result->rounds);
	round_trips_tell(trips, &u->protocol, UDPTEST_RTT_MIN);
	xk_trace(&u->protocol, XK_TRACE_EVENTS, "%s: %llu rounds, %llu lost, rtt %llu to %llu, mean %llu ns",
		 result->error == 0 ? "finished" : "failed", (unsigned long long)result->rounds,
		 (unsigned long long)result->lost, (unsigned long long)trips->min_ns, (unsigned long long)trips->max_ns,
		 (unsigned long long)round_trips_mean_ns(trips));
}

/* Without a shepherd to begin with, it tries again. */
static void
udptest_start_by_itself(struct xk_event *event, void *argument)
{
	struct udptest *u = argument;
	struct xk_udptest_run run = {
		.host = u->peer,
		.port = (uint16_t)u->port,
		.size = (uint32_t)u->size,
		.rounds = u->rounds,
		.record = udptest_own_record,
		.finished = udptest_own_finished,
		.argument = u,
	};

	u->trips = (struct round_trips){ .count = 0 };
	if (xk_udptest_start(&u->protocol, &run) != 0)
		xk_event_schedule(event, UDPTEST_RETRY_US);
}

/* ---- the protocol ---- */

static void
udptest_participants(const struct udptest *u, struct xk_participants *participants)
{
	*participants = (struct xk_participants){ .remote.depth = 0 };
	xk_participant_push(&participants->local, u->port);
}

static int
udptest_init(struct xk_protocol *self)
{
	struct udptest *u = (struct udptest *)self;
	struct xk_participants participants;
	int error = 0;

	atomic_store_explicit(&u->turn, UDPTEST_NO_RUN, memory_order_relaxed);
	xk_event_init(&u->watchdog, self->kernel, udptest_watch, u);
	xk_event_init(&u->starter, self->kernel, udptest_start_by_itself, u);
	u->pattern = udptest_pattern_new();
	if (u->pattern == NULL)
		return -ENOMEM;
	udptest_participants(u, &participants);
	if (u->serve)
		error = xk_open_enable(self, self, xk_lower(self, 0), &participants);
	if (error != 0)
		free(u->pattern);
	else if (u->peer != 0)
		xk_event_schedule(&u->starter, u->start_ns / 1000);
	return error;
}

static void
udptest_fini(struct xk_protocol *self)
{
	struct udptest *u = (struct udptest *)self;

	xk_close(atomic_load_explicit(&u->session, memory_order_relaxed));
	free(u->pattern);
}

/* A request that comes from a server's own port would be echoed between two servers for ever. */
static int
udptest_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
		  struct xk_protocol *hlp_type)
{
	struct udptest *u = (struct udptest *)self;
	struct xk_participants participants = { .remote.depth = 0 };
	int error = xk_get_participants(session, &participants);

	if (error != 0)
		return error;
	return xk_participant_pop(&participants.remote) == u->port ? -EPERM : 0;
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

/* What becomes of a message is told by its echo alone: what others say is counted. */
static int
udptest_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	const struct xk_fault_report *report = buffer;

	if (op != XK_FAULT)
		return -ENOTSUP;
	xk_count(self, UDPTEST_REPORTS);
	xk_trace(self, XK_TRACE_EVENTS, "%llx says %s", (unsigned long long)report->from, xk_fault_name(report->fault));
	return 0;
}

static const struct xk_role udptest_lowers[] = {
	{ .name = "transport", .needs = XK_ASYNC, .help = "carries the messages: udp" },
	{ .name = NULL },
};

static const struct xk_setting udptest_settings[] = {
	{ "port", XK_SETTING_UINT, offsetof(struct udptest, port), "2001", "the port that is served", 1, 65535 },
	{ "serve", XK_SETTING_BOOL, offsetof(struct udptest, serve), "yes", "whether messages are sent back", 0, 0 },
	{ "timeout", XK_SETTING_TIME, offsetof(struct udptest, timeout_ns), "500ms",
	  "after this a request whose echo has not come is lost", 1000000, UINT64_C(60000000000) },
	{ "silence", XK_SETTING_TIME, offsetof(struct udptest, silence_ns), "10s",
	  "after this without any echo a run fails", 1000000, UINT64_C(3600000000000) },
	{ "peer", XK_SETTING_HOST, offsetof(struct udptest, peer), NULL, "the server of a run that begins by itself", 0,
	  0 },
	{ "rounds", XK_SETTING_UINT, offsetof(struct udptest, rounds), "1000", "... its round trips", 1, UINT64_MAX },
	{ "size", XK_SETTING_UINT, offsetof(struct udptest, size), "1", "... bytes of its messages", 1,
	  XK_UDPTEST_MAX },
	{ "start", XK_SETTING_TIME, offsetof(struct udptest, start_ns), "0s", "... how long after the boot it begins",
	  0, UINT64_C(86400000000000) },
	{ .name = NULL },
};

static const struct xk_protocol_ops udptest_ops = {
	.init = udptest_init,
	.fini = udptest_fini,
	.open_done = udptest_open_done,
	.demux = udptest_demux,
	.control = udptest_control,
};

const struct xk_protocol_type xk_type_udptest = {
	.name = "udptest",
	.help = "Sends every message back to where it came from, and as a client measures how long that takes.",
	.ops = &udptest_ops,
	.size = sizeof(struct udptest),
	.lowers = udptest_lowers,
	.settings = udptest_settings,
	.drops = udptest_drops,
	.counters = udptest_counters,
};
