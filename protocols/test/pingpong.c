/*
 * pingpong.c - round trips of one message between two ends. The graph places each end: in the driver, in a thread of
 * the kernel's that the driver wakes, or in an application's thread, which copies. The message carries its count and
 * two readings of the clock.
 *
 * Spec:         Bjorndalen, Anshus, Vinter and Larsen, "The Latency of User-to-User, Kernel-to-Kernel and
 *               Interrupt-to-Interrupt Level Communication" (2000), its four interfaces:
 *                 endpoint=user             "basic": the message is copied to a blocked thread, and its answer into a new
 *                                           buffer
 *                 endpoint=user, static=yes "basic static-skb": as above, but into the buffer that brought the message,
 *                                           because the driver owns those that were pushed
 *                 endpoint=kernel           a shepherd waits for the message and sends it back
 *                 endpoint=handler          the carrier of the message sends it back at once
 *               Each end lowers the count; the one that makes it 0 reads the clock again. 1,500 round trips are 3,000
 *               decrements.
 * Participants: none above; below (remote: host, port; local: port)
 * Client:       if `peer` is set: `repeats` runs of `rounds` round trips; min to max describe the averages of the runs. A
 *               run that loses a message starts again.
 * Drops:        bad_count (0, too high, or of the wrong parity), bad_length (too long, or not what the client has sent),
 *               stale (a duplicate, or of an earlier run), queue_full (the end's thread is behind)
 * Graph:        pingpong -> llp; pingpong -> udp; pingpong -> tcp
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/test/client_private.h"
#include "xkernel/bytes.h"
#include "xkernel/trace.h"

#define PINGPONG_DROPS(D)                                                                                              \
	D(PINGPONG_BAD_COUNT, "bad_count")                                                                             \
	D(PINGPONG_STALE, "stale")                                                                                     \
	D(PINGPONG_QUEUE_FULL, "queue_full")
XK_DROPS(pingpong, PINGPONG_DROPS);

#define PINGPONG_COUNTERS(C)                                                                                           \
	C(PINGPONG_MESSAGES, "messages") /* decrements */                                                              \
	C(PINGPONG_BUFFERS, "buffers")   /* made for messages */                                                       \
	C(PINGPONG_UNSENT, "unsent")                                                                                   \
	C(PINGPONG_LOST, "lost")                                                                                       \
	C(PINGPONG_RUNS, "runs")                                                                                       \
	C(PINGPONG_MIN, "min_ns")                                                                                      \
	C(PINGPONG_MEDIAN, "median_ns")                                                                                \
	C(PINGPONG_MEAN, "mean_ns")                                                                                    \
	C(PINGPONG_MAX, "max_ns")
XK_COUNTERS(pingpong, PINGPONG_COUNTERS);

#define PINGPONG_HEADER(F)                                                                                             \
	F(32, run, .help = "number of the client's run")                                                               \
	F(32, count, .help = "messages to come, this one included")                                                    \
	F(64, begun, .help = "when the client sent the first, by its clock, in ns")                                    \
	F(64, ended, .help = "when the count became 0")
XK_HEADER(pingpong, PINGPONG_HEADER);
XK_FIELDS(pingpong, PINGPONG_HEADER);

enum { PINGPONG_SIZE_MAX = 65507, PINGPONG_COUNT_MAX = 2 * 1000 * 1000 };

/* ---- state ---- */

enum { PINGPONG_QUEUE = 64, PINGPONG_REPEATS = 1000 };

/* A message that waits for the end's thread; the queue has a reference on the session that it came up. */
struct pingpong_arrival {
	struct xk_session *from;
	struct xk_msg *m;
};

struct pingpong {
	struct client client; /* first */
	/* settings */
	enum pingpong_endpoint { PINGPONG_HANDLER, PINGPONG_KERNEL, PINGPONG_USER } endpoint;
	bool is_static;
	uint64_t port, repeats, timeout_ns;

	bool waits, copies; /* a thread answers; it is an application's */
	struct xk_semaphore arrived, ended;
	struct xk_lock lock; /* protects the queue */
	struct pingpong_arrival queue[PINGPONG_QUEUE];
	unsigned first, count;

	/* used by the end's thread only */
	struct xk_msg *buffer; /* at hand; NULL: none */
	uint8_t *bytes;        /* the application's */
	uint64_t averages_ns[PINGPONG_REPEATS];

	_Atomic(struct xk_session *) session; /* the client's */
	_Atomic uint64_t turn;                /* run << 32 | awaited count; 0: no run is in progress */
	uint64_t begun_ns, taken_ns;          /* of the run; belong to whoever has the turn */
};

/* ---- messages at any kind of end ---- */

/* Returns a message of size bytes to write to: `old` (NULL: none) if it will do, or a new one. NULL: no buffer. */
static struct xk_msg *
pingpong_buffer(struct pingpong *p, struct xk_msg *old, size_t size)
{
	if (old != NULL && old->next == NULL && old->len == size && xk_msg_is_writable(old))
		return old;
	xk_msg_free(old);
	xk_count(&p->client.protocol, PINGPONG_BUFFERS);
	return xk_msg_new(xk_platform_of(&p->client.protocol), size);
}

static void
pingpong_fill(struct xk_msg *m, const uint8_t *bytes)
{
	for (; m != NULL; bytes += m->len, m = m->next)
		memcpy(m->data, bytes, m->len);
}

/* Sends m (NULL: there was no buffer) down s; counts failures. */
static void
pingpong_push(struct pingpong *p, struct xk_session *s, struct xk_msg *m)
{
	if (m == NULL || xk_push(s, m) != 0)
		xk_count(&p->client.protocol, PINGPONG_UNSENT);
}

/*
 * Moves the turn of `run` from one count to another. Returns false if it does not await `count`: a duplicate, or too
 * late.
 */
static bool
pingpong_move_turn(struct pingpong *p, uint32_t run, uint32_t count, uint32_t next)
{
	uint64_t turn = (uint64_t)run << 32 | count;

	return atomic_compare_exchange_strong_explicit(&p->turn, &turn, (uint64_t)run << 32 | next,
						       memory_order_acq_rel, memory_order_relaxed);
}

/* Ends the run, whose last message has the turn: its awaited count becomes 0, which no other message takes. */
static void
pingpong_end_run(struct pingpong *p, uint64_t now_ns)
{
	p->taken_ns = now_ns - p->begun_ns;
	atomic_store_explicit(&p->turn, 0, memory_order_release);
	if (!p->waits)
		xk_semaphore_signal(&p->ended);
}

/*
 * Lowers the count in the header at `bytes`, of a message of len bytes that came up s; at 0, reads the clock and ends
 * the client's run. Returns whether the message is to be sent back. If not, *why is the reason to drop it; 0: the run
 * has ended.
 */
static bool
pingpong_lower(struct pingpong *p, const struct xk_session *s, uint8_t *bytes, size_t len, unsigned *why)
{
	struct xk_protocol *self = &p->client.protocol;
	bool is_client = s == atomic_load_explicit(&p->session, memory_order_acquire);
	uint32_t count = XK_GET(pingpong, count, bytes), run = XK_GET(pingpong, run, bytes);
	uint64_t now_ns;

	*why = 0;
	if (count == 0 || count > PINGPONG_COUNT_MAX || is_client != (count % 2 != 0))
		*why = PINGPONG_BAD_COUNT;
	else if (is_client && len != p->client.size)
		*why = XK_DROP_BAD_LENGTH;
	else if (is_client && !pingpong_move_turn(p, run, count, count == 1 ? 0 : count - 2))
		*why = PINGPONG_STALE;
	if (*why != 0)
		return false;
	xk_count(self, PINGPONG_MESSAGES);
	XK_PUT(pingpong, count, bytes, count - 1);
	if (count > 1)
		return true;
	now_ns = xk_now_ns(self);
	XK_PUT(pingpong, ended, bytes, now_ns);
	pingpong_end_run(p, now_ns);
	return false;
}

/* Returns m, or if others share its bytes, a copy, and frees m. NULL: no buffer. */
static struct xk_msg *
pingpong_own(struct pingpong *p, struct xk_msg *m)
{
	struct xk_msg *copy;
	size_t at = 0;

	if (xk_likely(xk_msg_is_writable(m)))
		return m;
	copy = pingpong_buffer(p, NULL, xk_msg_len(m));
	for (struct xk_msg *part = copy; part != NULL; at += part->len, part = part->next)
		xk_msg_copy_out(m, at, part->data, part->len);
	xk_msg_free(m);
	return copy;
}

/* Sends m back the way it came. */
static void
pingpong_return(struct pingpong *p, struct xk_session *s, struct xk_msg *m)
{
	unsigned why = 0;

	m = pingpong_own(p, m);
	if (m == NULL || pingpong_lower(p, s, m->data, xk_msg_len(m), &why))
		pingpong_push(p, s, m);
	else if (why != 0)
		xk_drop(&p->client.protocol, m, why);
	else
		xk_msg_free(m);
}

/*
 * As pingpong_return, but copies m out and its answer in, as an application does: into a new buffer or, if static, m's.
 */
static void
pingpong_return_copied(struct pingpong *p, struct xk_session *s, struct xk_msg *m)
{
	size_t len = xk_msg_len(m);
	unsigned why;
	bool goes_back;

	xk_msg_copy_out(m, 0, p->bytes, len);
	goes_back = pingpong_lower(p, s, p->bytes, len, &why);
	if (why != 0) {
		xk_drop(&p->client.protocol, m, why);
		return;
	}
	xk_msg_free(p->buffer);
	p->buffer = p->is_static ? m : NULL;
	if (!p->is_static)
		xk_msg_free(m);
	if (!goes_back)
		return;
	m = pingpong_buffer(p, p->buffer, len);
	p->buffer = NULL;
	pingpong_fill(m, p->bytes);
	pingpong_push(p, s, m);
}

/* ---- the end's thread ---- */

/* Takes the oldest message of the queue, after its signal. */
static void
pingpong_take(struct pingpong *p)
{
	struct pingpong_arrival arrival;

	xk_lock(&p->lock);
	arrival = p->queue[p->first];
	p->first = (p->first + 1) % PINGPONG_QUEUE;
	p->count--;
	xk_unlock(&p->lock);
	if (p->copies)
		pingpong_return_copied(p, arrival.from, arrival.m);
	else
		pingpong_return(p, arrival.from, arrival.m);
	xk_session_release(arrival.from);
}

/* Sends the first message of `run`. */
static void
pingpong_begin_run(struct pingpong *p, struct xk_session *s, uint32_t run)
{
	struct xk_msg *m = pingpong_buffer(p, p->buffer, p->client.size);
	uint32_t count = (uint32_t)(2 * p->client.rounds);

	p->buffer = NULL;
	p->begun_ns = xk_now_ns(&p->client.protocol);
	atomic_store_explicit(&p->turn, (uint64_t)run << 32 | (count - 1), memory_order_release);
	pingpong_store(p->bytes, &(struct pingpong_header){ run, count, p->begun_ns, 0 });
	pingpong_fill(m, p->bytes);
	pingpong_push(p, s, m);
}

/* Takes the turn of a run of which a message is lost. Returns false if that has come after all. */
static bool
pingpong_give_up(struct pingpong *p, uint64_t turn)
{
	return (uint32_t)turn != 0 &&
	       atomic_compare_exchange_strong_explicit(&p->turn, &turn, 0, memory_order_acq_rel, memory_order_relaxed);
}

/*
 * Makes `run`, and returns when it has ended: 0; -ETIMEDOUT: its turn has not moved for `timeout`, so a message is
 * lost; or another error. Other arrivals are no progress; the clock is read only after one.
 */
static int
pingpong_run(struct pingpong *p, struct xk_session *s, uint32_t run)
{
	uint64_t turn, idle_ns = 0;

	pingpong_begin_run(p, s, run);
	while ((turn = atomic_load_explicit(&p->turn, memory_order_acquire)) != 0) {
		int err = xk_semaphore_wait(p->waits ? &p->arrived : &p->ended, p->timeout_ns / 1000);
		bool is_late = err == -ETIMEDOUT;

		if (err == 0 && p->waits)
			pingpong_take(p);
		else if (err != 0 && !is_late)
			return err;
		if (atomic_load_explicit(&p->turn, memory_order_relaxed) != turn) {
			idle_ns = 0;
			continue;
		}
		if (idle_ns == 0)
			idle_ns = xk_now_ns(&p->client.protocol);
		else
			is_late = is_late || xk_now_ns(&p->client.protocol) >= idle_ns + p->timeout_ns;
		if (is_late && pingpong_give_up(p, turn)) {
			xk_unanswered(s);
			return -ETIMEDOUT;
		}
	}
	return 0;
}

static int
pingpong_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Reports statistics of the first `runs` runs, at least one. */
static void
pingpong_tell(struct pingpong *p, unsigned runs)
{
	struct xk_protocol *self = &p->client.protocol;
	uint64_t sum = 0, *averages = p->averages_ns;

	for (unsigned i = 0; i < runs; i++)
		sum += averages[i];
	qsort(averages, runs, sizeof(*averages), pingpong_compare);
	xk_counter_set(self, PINGPONG_MIN, averages[0]);
	xk_counter_set(self, PINGPONG_MEDIAN, averages[runs / 2]);
	xk_counter_set(self, PINGPONG_MEAN, sum / runs);
	xk_counter_set(self, PINGPONG_MAX, averages[runs - 1]);
	xk_count(self, PINGPONG_RUNS);
	xk_trace(self, XK_TRACE_EVENTS, "run %u: round trips of %llu ns, so far %llu to %llu", runs,
		 (unsigned long long)(p->taken_ns / p->client.rounds), (unsigned long long)averages[0],
		 (unsigned long long)averages[runs - 1]);
}

/* The client: opens a session, and makes the runs. */
static void
pingpong_measure(struct pingpong *p)
{
	struct xk_protocol *self = &p->client.protocol;
	struct xk_session *s;
	unsigned done = 0, lost = 0;
	uint32_t max_packet;
	int err = client_open(self, p->client.peer, (uint16_t)p->port, p->client.silence_ns, &s);

	if (err == 0) {
		atomic_store_explicit(&p->session, s, memory_order_release);
		err = client_check_size(s, (uint32_t)p->client.size, PINGPONG_SIZE_MAX, &max_packet);
	}
	for (uint32_t run = 1; err == 0 && done < p->repeats; run++) {
		err = pingpong_run(p, s, run);
		if (err == 0) {
			lost = 0;
			p->averages_ns[done++] = p->taken_ns / p->client.rounds;
			pingpong_tell(p, done);
		} else if (err == -ETIMEDOUT) {
			xk_count(self, PINGPONG_LOST);
			if (++lost * p->timeout_ns < p->client.silence_ns)
				err = 0;
		}
	}
	if (err != 0)
		client_fail(self, err);
	xk_close(atomic_exchange_explicit(&p->session, NULL, memory_order_acq_rel));
}

static void
pingpong_main(void *argument)
{
	struct pingpong *p = argument;
	int err = 0;

	if (p->client.peer != 0)
		pingpong_measure(p);
	while (p->waits && (err = xk_semaphore_wait(&p->arrived, XK_FOREVER)) == 0)
		pingpong_take(p);
	if (err != 0 && err != -ECANCELED)
		xk_trace(&p->client.protocol, XK_TRACE_ERRORS, "the end's thread cannot wait: %s", xk_error(err));
}

/* ---- the protocol ---- */

static void
pingpong_start(struct xk_event *event, void *argument)
{
	struct pingpong *p = argument;
	struct xk_protocol *self = &p->client.protocol;
	int err = p->copies ? xk_application_start(self->kernel, self->name, pingpong_main, p)
			    : xk_thread_start(self->kernel, self->name, pingpong_main, p);

	if (err != 0)
		xk_event_schedule(event, CLIENT_RETRY_US);
}

static int
pingpong_init(struct xk_protocol *self)
{
	struct pingpong *p = (struct pingpong *)self;
	struct xk_participants participants = { .local = { 1, { p->port } } };
	int err;

	p->copies = p->endpoint == PINGPONG_USER;
	p->waits = p->endpoint != PINGPONG_HANDLER;
	xk_semaphore_init(&p->arrived, self, 0);
	xk_semaphore_init(&p->ended, self, 0);
	xk_lock_init(&p->lock, self);
	err = xk_open_enable(self, self, xk_lower(self, 0), &participants);
	if (err != 0)
		return err;
	p->bytes = calloc(1, PINGPONG_SIZE_MAX);
	if (p->bytes == NULL)
		return -ENOMEM;
	err = client_init(&p->client, 1, pingpong_start);
	if (err != 0)
		free(p->bytes);
	else if (p->waits && p->client.peer == 0)
		xk_event_schedule(&p->client.starter, p->client.start_ns / 1000);
	return err;
}

static void
pingpong_fini(struct xk_protocol *self)
{
	struct pingpong *p = (struct pingpong *)self;

	for (; p->count > 0; p->count--, p->first = (p->first + 1) % PINGPONG_QUEUE) {
		xk_msg_free(p->queue[p->first].m);
		xk_session_release(p->queue[p->first].from);
	}
	xk_msg_free(p->buffer);
	free(p->client.pattern);
	free(p->bytes);
}

static int
pingpong_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
		   struct xk_protocol *hlp_type)
{
	return client_refuse_port(session, ((struct pingpong *)self)->port);
}

static void
pingpong_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct pingpong *p = (struct pingpong *)self;
	bool queued;

	if (xk_unlikely(xk_msg_len(m) > PINGPONG_SIZE_MAX)) {
		xk_drop(self, m, XK_DROP_BAD_LENGTH);
		return;
	}
	if (!p->waits) {
		pingpong_return(p, lls, m);
		return;
	}
	queued = xk_duplicate(lls);
	if (queued) {
		xk_lock(&p->lock);
		queued = p->count < PINGPONG_QUEUE;
		if (queued)
			p->queue[(p->first + p->count++) % PINGPONG_QUEUE] = (struct pingpong_arrival){ lls, m };
		xk_unlock(&p->lock);
		if (queued)
			xk_semaphore_signal(&p->arrived);
		else
			xk_session_release(lls);
	}
	if (!queued)
		xk_drop(self, m, PINGPONG_QUEUE_FULL);
}

static const struct xk_role pingpong_lowers[] = {
	{ .name = "transport", .needs = XK_ASYNC, .help = "carries messages: llp, udp" },
	{ .name = NULL },
};

static const char *const pingpong_endpoints[] = { "handler", "kernel", "user", NULL };

static const struct xk_setting pingpong_settings[] = {
	XK_SETTING(CHOICE, struct pingpong, endpoint, "endpoint", "what sends a message back",
		   .choices = pingpong_endpoints, .initial = "handler"),
	XK_SETTING(BOOL, struct pingpong, is_static, "static",
		   "whether a user's answer reuses the buffer of the message", .initial = "no"),
	XK_SETTING(UINT, struct pingpong, port, "port", "port, or endpoint of llp, of the server", .initial = "2008",
		   .min = 1, .max = 65535),
	XK_SETTING(HOST, struct pingpong, client.peer, "peer", "the server; makes this the client"),
	XK_SETTING(UINT, struct pingpong, client.rounds, "rounds", "round trips of a run", .initial = "1500", .min = 1,
		   .max = PINGPONG_COUNT_MAX / 2),
	XK_SETTING(UINT, struct pingpong, repeats, "repeats", "runs", .initial = "5", .min = 1,
		   .max = PINGPONG_REPEATS),
	XK_SETTING(UINT, struct pingpong, client.size, "size", "bytes of a message", .initial = "32",
		   .min = XK_HEADER_LEN(pingpong), .max = PINGPONG_SIZE_MAX),
	XK_SETTING(TIME, struct pingpong, client.start_ns, "start",
		   "time from the boot to the start of the end's thread", .initial = "0s",
		   .max = UINT64_C(86400000000000)),
	XK_SETTING(TIME, struct pingpong, timeout_ns, "timeout", "silence after which a message counts as lost",
		   .initial = "500ms", .min = 1000000, .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct pingpong, client.silence_ns, "silence",
		   "time without a message after which the client fails", .initial = "10s", .min = 1000000,
		   .max = UINT64_C(3600000000000)),
	{ .name = NULL },
};

static const struct xk_protocol_ops pingpong_ops = {
	.init = pingpong_init,
	.fini = pingpong_fini,
	.open_done = pingpong_open_done,
	.demux = pingpong_demux,
};

const struct xk_protocol_type xk_type_pingpong = {
	.name = "pingpong",
	.help = "Round trips of a message between ends in the driver, a thread of the kernel's or one of an "
		"application's.",
	.ops = &pingpong_ops,
	.size = sizeof(struct pingpong),
	.header = XK_HEADER_LEN(pingpong),
	.fields = pingpong_fields,
	.lowers = pingpong_lowers,
	.settings = pingpong_settings,
	.drops = pingpong_drops,
	.counters = pingpong_counters,
};
