/*
 * logptest.c - the loops that measure LogP parameters, over any protocol that carries messages: a client that sends
 * batches of messages and computes between them, and a server that answers as often as it is asked to.
 *
 * Spec:         J. Chen and W. Watson III, "User Level Communication on Alpha Linux Systems", figure 9: round trips
 *               (a), send and spin (b), receive and spin (c). Here all three are batches of one kind (logptest.h), and
 *               the client computes in each, so that the server needs no state.
 * Participants: none above; below (remote: host, port; local: port), without the ports if `port` is 0
 * Client:       A batch is sent from an event's handler, in the driver in IPP mode, each message given to the device
 *               before the next is made. Whoever brings the last answer schedules the next batch. A program starts a
 *               run of batches (logptest.h), or the setting `peer` does.
 * Greeting:     A message may ask for many answers, so a server sends more than one only to a host that has received
 *               from it: the message must show a token, which depends on the host. A client that will ask for more
 *               begins its run with a batch of one greeting, whose answer carries the token, and sends one again after
 *               a loss: the server may have booted.
 * Flow:         If a push is refused for want of room (-ENOBUFS), both ends try again, at later turns of the driver.
 * Counters:     messages counts those of both ends; rounds and ..._ns describe the run that `peer` started
 * Copies:       A run chooses the end that copies messages between its memory and buffers; each message chooses
 *               the end that copies its answers.
 * Drops:        bad (no such kind of message or copy, too long, or asks for too many answers), late (an answer that is
 *               not awaited), unproven (asks for more than one answer, without the token)
 * Not done:     a check of the contents, which would be part of what is measured
 * Graph:        logptest -> udp; logptest -> llp; logptest [port=0] -> blast
 */
#include "protocols/papers/logptest.h"

#include <errno.h>
#include <stdlib.h>

#include "protocols/test/client_private.h"
#include "xkernel/bytes.h"
#include "xkernel/siphash.h"
#include "xkernel/trace.h"

enum {
	LOGPTEST_SPINS = 16, /* timed before a run */
	/*
	 * Between two looks whether the protocol below has room again: a part of the wait so far, but at least so long.
	 */
	LOGPTEST_POLL_PART = 64,
	LOGPTEST_POLL_NS = 50,
};

#define LOGPTEST_DROPS(D)                                                                                              \
	D(LOGPTEST_BAD, "bad")                                                                                         \
	D(LOGPTEST_LATE, "late")                                                                                       \
	D(LOGPTEST_UNPROVEN, "unproven")
XK_DROPS(logptest, LOGPTEST_DROPS);

#define LOGPTEST_COUNTERS(C)                                                                                           \
	C(LOGPTEST_COUNT_MESSAGES, "messages")                                                                         \
	C(LOGPTEST_COUNT_LOST, "lost")                                                                                 \
	C(LOGPTEST_COUNT_UNSENT, "unsent")                                                                             \
	C(LOGPTEST_COUNT_ROUNDS, "rounds")                                                                             \
	C(LOGPTEST_COUNT_SENT, "sent_ns")                                                                              \
	C(LOGPTEST_COUNT_ANSWERED, "answered_ns")
XK_COUNTERS(logptest, LOGPTEST_COUNTERS);

/* ---- the header ---- */

enum logptest_kind { LOGPTEST_MESSAGE = 1, LOGPTEST_ANSWER, LOGPTEST_GREETING };

#define LOGPTEST_HEADER(F)                                                                                             \
	F(32, batch, .help = "its number at the client")                                                               \
	F(2, copies, .help = "copied by 0: the sender; 1: neither end; 2: both")                                       \
	F(2, kind, .help = "1: a client's message; 2: an answer; 3: a greeting")                                       \
	F(12, answers, .help = "that the server is asked for; 0 in an answer")                                         \
	F(16, length,                                                                                                  \
	  .help = "bytes of each of several answers; if not 0, the host's token at the server follows, 8 bytes")
#define LOGPTEST_PROVEN_HEADER(F)                                                                                      \
	LOGPTEST_HEADER(F)                                                                                             \
	F(64, token) /* if there is a length */
XK_HEADER(logptest, LOGPTEST_PROVEN_HEADER);
XK_FIELDS(logptest, LOGPTEST_HEADER);

enum { LOGPTEST_HEADER_LEN = XK_OFFSET(logptest, token), LOGPTEST_PROOF_LEN = XK_HEADER_LEN(logptest) };
static_assert((int)LOGPTEST_HEADER_LEN == (int)XK_LOGPTEST_MIN, "the shortest message is its header");

/* Returns the length of the header with its token, if it has one. */
static inline size_t
logptest_header_len(const struct logptest_header *header)
{
	return header->length != 0 ? LOGPTEST_PROOF_LEN : LOGPTEST_HEADER_LEN;
}

/* The widest of the fields that share two bytes goes first: each stores what it has just loaded. */
static void
logptest_header_store(uint8_t *at, const struct logptest_header *header)
{
	XK_PUT(logptest, batch, at, header->batch);
	XK_PUT(logptest, answers, at, header->answers);
	XK_PUT(logptest, copies, at, header->copies);
	XK_PUT(logptest, kind, at, header->kind);
	XK_PUT(logptest, length, at, header->length);
	if (header->length != 0)
		XK_PUT(logptest, token, at, header->token);
}

/* Loads the header of m with its token; an incomplete token counts as none. */
static void
logptest_header_load(const struct xk_msg *m, struct logptest_header *header)
{
	const uint8_t *at = m->data;
	uint8_t token[8];

	*header = (struct logptest_header){ .batch = XK_GET(logptest, batch, at),
					    .copies = XK_GET(logptest, copies, at),
					    .kind = XK_GET(logptest, kind, at),
					    .answers = XK_GET(logptest, answers, at),
					    .length = XK_GET(logptest, length, at) };
	if (header->length != 0 && xk_msg_copy_out(m, LOGPTEST_HEADER_LEN, token, sizeof(token)))
		header->token = xk_get64(token);
	else
		header->length = 0;
}

/* ---- the bytes of messages ---- */

/* Beside the protocol, because a device may have lent bytes when that is gone. */
struct logptest_memory {
	_Atomic uint32_t users; /* the protocol, and loans */
	struct xk_platform *platform;
	uint8_t outbox[XK_LOGPTEST_MAX], inbox[XK_LOGPTEST_MAX];
};

/* ---- state ---- */

static const struct xk_logptest_loop logptest_greeting = { .sends = 1, .last = 1 };

/* In the turn, beside the number of answers to come: the batch is being sent. */
#define LOGPTEST_SENDING (UINT32_C(1) << 31)

/* Answers for which the protocol below had no room. */
struct logptest_stream {
	struct xk_event event;
	uint64_t until_ns;    /* as the client's; the event's own */
	struct xk_lock lock;  /* protects the fields below */
	struct xk_session *s; /* a reference; NULL: there are none to come */
	size_t size;
	struct logptest_header header;
	uint32_t answers; /* to come */
};

struct logptest {
	struct client client; /* first */
	/* settings */
	uint64_t port, timeout_ns, sends, first_answers, last_answers;
	struct xk_logptest_loop loop;

	_Atomic bool running;
	struct xk_session *session; /* the run's; NULL: not open */
	struct xk_event sender, watchdog;
	bool greets;            /* with the batch */
	_Atomic uint64_t token; /* of the last greeting's answer */
	uint32_t next;          /* message of the batch, from 1 */
	uint64_t until_ns;      /* when a push that is refused is not tried again; 0: the last one was not refused */
	/* batch << 32 | what it waits for. 0 there: it is over; the thread that makes it 0 continues. */
	_Atomic uint64_t turn;
	uint64_t watched;                 /* the turn that the watchdog has seen */
	uint64_t begun_ns;                /* of the batch */
	uint64_t received_ns;             /* when the last batch was over */
	_Atomic uint64_t last_ns;         /* when an answer of the batch came last */
	_Atomic uint64_t receive_work_ns; /* of the run */
	struct xk_logptest_run run;
	struct xk_logptest_result result;
	/* the server's */
	uint64_t secret[2];
	struct logptest_stream stream;
	/* both ends' */
	struct logptest_memory *memory;
	struct xk_lock inbox_lock;

	uint64_t sent_ns[XK_LOGPTEST_BATCHES], answered_ns[XK_LOGPTEST_BATCHES];
};

/* ---- messages ---- */

/* Returns the memory with one user, or NULL. */
static struct logptest_memory *
logptest_memory_new(struct xk_protocol *self)
{
	struct logptest_memory *memory = xk_lendable_new(xk_platform_of(self), sizeof(*memory));

	if (memory == NULL)
		return NULL;
	atomic_init(&memory->users, 1);
	memory->platform = xk_platform_of(self);
	return memory;
}

/* Ends a use; also the callback of loans. */
static void
logptest_memory_release(void *context)
{
	struct logptest_memory *memory = context;

	if (atomic_fetch_sub_explicit(&memory->users, 1, memory_order_acq_rel) == 1)
		xk_lendable_free(memory->platform, memory);
}

/* Returns a message of size bytes: room for a header of `header_len`, and all others lent. NULL: no buffer. */
static struct xk_msg *
logptest_lend(struct logptest *l, size_t size, size_t header_len)
{
	struct logptest_memory *memory = l->memory;
	struct xk_msg *m;

	atomic_fetch_add_explicit(&memory->users, 1, memory_order_relaxed);
	m = xk_msg_lend(xk_platform_of(&l->client.protocol), memory->outbox + header_len, size - header_len,
			logptest_memory_release, memory);
	if (m == NULL) {
		logptest_memory_release(memory);
		return NULL;
	}
	if (xk_msg_push(&m, header_len) == NULL) {
		xk_msg_free(m);
		return NULL;
	}
	return m;
}

/* Copies a message of at most XK_LOGPTEST_MAX bytes to the receiver's memory. */
static void
logptest_copy_out(struct logptest *l, const struct xk_msg *m)
{
	xk_lock(&l->inbox_lock);
	xk_msg_copy_out(m, 0, l->memory->inbox, xk_msg_len(m));
	xk_unlock(&l->inbox_lock);
}

/*
 * Sends a message of size bytes, or the header's length if that is longer, down s. If only the sender copies, reuses
 * the buffer of `old` (NULL: none), unless others share it. Takes old. As xk_push.
 */
static int
logptest_push(struct logptest *l, struct xk_session *s, struct xk_msg *old, size_t size,
	      const struct logptest_header *header)
{
	struct xk_msg *m = old;
	size_t header_len = logptest_header_len(header);
	int err = -ENOBUFS;

	if (size < header_len)
		size = header_len;
	if (header->copies != XK_LOGPTEST_SENDER || old == NULL || !xk_msg_is_writable(old) || old->len < header_len ||
	    xk_msg_len(old) != size) {
		xk_msg_free(old);
		m = header->copies == XK_LOGPTEST_NOBODY ? logptest_lend(l, size, header_len)
							 : client_pattern_message(&l->client, (uint32_t)size);
	}
	if (m != NULL) {
		logptest_header_store(m->data, header);
		err = xk_push(s, m);
	}
	if (err != 0)
		xk_count(&l->client.protocol, LOGPTEST_COUNT_UNSENT);
	return err;
}

/* Schedules event for the driver's next turn, but a later instant of virtual time. Returns false if it is too late. */
static bool
logptest_try_again(struct logptest *l, struct xk_event *event, uint64_t *until_ns)
{
	struct xk_protocol *self = &l->client.protocol;
	uint64_t now_ns = xk_now_ns(self);

	if (*until_ns == 0)
		*until_ns = now_ns + l->timeout_ns;
	if (now_ns >= *until_ns)
		return false;
	xk_work(self, LOGPTEST_POLL_NS + (now_ns + l->timeout_ns - *until_ns) / LOGPTEST_POLL_PART);
	xk_event_schedule(event, 0);
	return true;
}

/* ---- the client's batches ---- */

static int
logptest_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint64_t
logptest_median(uint64_t *times_ns, uint64_t count)
{
	qsort(times_ns, count, sizeof(*times_ns), logptest_compare);
	return times_ns[count / 2];
}

static void
logptest_finish(struct logptest *l, int err)
{
	struct xk_logptest_times *times = &l->result.times;
	struct xk_logptest_run run = l->run;
	struct xk_logptest_result result;

	l->result.error = err;
	if (l->result.rounds > 0) {
		times->sent_ns = logptest_median(l->sent_ns, l->result.rounds);
		times->answered_ns = logptest_median(l->answered_ns, l->result.rounds);
	}
	result = l->result;
	xk_event_cancel(&l->watchdog);
	xk_close(l->session);
	l->session = NULL;
	atomic_store_explicit(&l->running, false, memory_order_release);
	run.finished(run.argument, &result);
}

static void
logptest_go_on(struct logptest *l)
{
	if (l->result.rounds < l->run.rounds)
		xk_event_schedule(&l->sender, 0);
	else
		logptest_finish(l, 0);
}

/* Notes the times of a batch that is over: each is in the place of its number among those that were not lost. */
static void
logptest_end_batch(struct logptest *l)
{
	uint64_t last_ns = atomic_load_explicit(&l->last_ns, memory_order_relaxed), i;

	if (l->greets) {
		l->greets = false;
		l->received_ns = last_ns;
		logptest_go_on(l);
		return;
	}
	i = l->result.rounds++;
	l->answered_ns[i] = last_ns - l->begun_ns;
	l->received_ns = last_ns;
	if (l->run.record != NULL)
		l->run.record(l->run.argument, l->answered_ns[i]);
	logptest_go_on(l);
}

/*
 * Takes an answer, or LOGPTEST_SENDING, off what the batch waits for. Returns false if it is not waiting; stores what
 * it still waits for.
 */
static bool
logptest_take(struct logptest *l, uint32_t batch, uint32_t what, uint32_t *left)
{
	uint64_t turn = atomic_load_explicit(&l->turn, memory_order_acquire);

	do {
		uint32_t waits = (uint32_t)turn;

		if (turn >> 32 != batch || (what == 1 && (waits & ~LOGPTEST_SENDING) == 0))
			return false;
		*left = waits - what;
	} while (!atomic_compare_exchange_weak_explicit(&l->turn, &turn, turn - what, memory_order_acq_rel,
							memory_order_acquire));
	return true;
}

/* Sends a batch, or the rest of one: loops (a), (b) and (c) of the paper are one with different numbers. */
static void
logptest_send(struct xk_event *event, void *argument)
{
	struct logptest *l = argument;
	struct xk_protocol *self = &l->client.protocol;
	const struct xk_logptest_loop *loop = l->greets ? &logptest_greeting : &l->run.loop;
	uint64_t turn = atomic_load_explicit(&l->turn, memory_order_relaxed);
	struct logptest_header header = {
		.batch = (uint32_t)(turn >> 32),
		.kind = l->greets ? LOGPTEST_GREETING : LOGPTEST_MESSAGE,
		.token = atomic_load_explicit(&l->token, memory_order_relaxed),
		.copies = l->greets ? XK_LOGPTEST_SENDER : l->run.copies,
	};
	uint32_t left;

	if ((turn & LOGPTEST_SENDING) == 0) {
		header.batch++;
		l->next = 1;
		l->begun_ns = xk_now_ns(self);
		l->until_ns = 0;
		atomic_store_explicit(&l->turn,
				      (uint64_t)header.batch << 32 | LOGPTEST_SENDING | (loop->first + loop->last),
				      memory_order_release);
	}
	for (; l->next <= loop->sends; l->next++) {
		int err;

		header.answers = (l->next == 1 ? loop->first : 0) + (l->next == loop->sends ? loop->last : 0);
		header.length = l->greets || header.answers > 1 ? (uint16_t)l->run.size : 0;
		err = logptest_push(l, l->session, NULL, l->run.size, &header);
		if (err == -ENOBUFS && logptest_try_again(l, event, &l->until_ns))
			return;
		if (err != -ENOBUFS)
			l->until_ns = 0;
		/* gives the message to the device first */
		xk_work(self, l->next < loop->sends ? loop->send_work_ns : 0);
	}
	l->sent_ns[l->result.rounds] = xk_now_ns(self) - l->begun_ns;
	if (logptest_take(l, header.batch, LOGPTEST_SENDING, &left) && left == 0)
		logptest_end_batch(l);
}

static void
logptest_hear(struct logptest *l, const struct logptest_header *header, struct xk_msg *m)
{
	struct xk_protocol *self = &l->client.protocol;
	uint64_t now_ns = xk_now_ns(self), turn = atomic_load_explicit(&l->turn, memory_order_acquire);
	uint64_t work_ns = atomic_load_explicit(&l->receive_work_ns, memory_order_relaxed);
	uint32_t left;

	if (turn >> 32 == header->batch && (uint32_t)turn != 0) {
		atomic_store_explicit(&l->last_ns, now_ns, memory_order_relaxed);
		if (header->length != 0)
			atomic_store_explicit(&l->token, header->token, memory_order_relaxed);
	}
	if (!logptest_take(l, header->batch, 1, &left)) {
		xk_drop(self, m, LOGPTEST_LATE);
		return;
	}
	xk_msg_free(m);
	if (left == 0)
		logptest_end_batch(l);
	else if (left != LOGPTEST_SENDING && work_ns > 0)
		xk_work(self, work_ns);
}

/* Returns whether the run asks for more than one answer to a message. */
static bool
logptest_needs_token(const struct xk_logptest_loop *loop)
{
	return loop->first > 1 || loop->last > 1 || (loop->sends == 1 && loop->first + loop->last > 1);
}

/* Gives up a batch that has not gone on since the last look; one that is being sent is not lost. */
static void
logptest_watch(struct xk_event *event, void *argument)
{
	struct logptest *l = argument;
	uint64_t turn = atomic_load_explicit(&l->turn, memory_order_acquire), now_ns = xk_now_ns(&l->client.protocol);
	bool stands = turn == l->watched && (uint32_t)turn != 0 && (turn & LOGPTEST_SENDING) == 0;

	if (!atomic_load_explicit(&l->running, memory_order_acquire))
		return;
	l->watched = turn;
	xk_event_schedule(event, l->timeout_ns / 1000);
	if (!stands || !atomic_compare_exchange_strong_explicit(&l->turn, &turn, turn >> 32 << 32, memory_order_acq_rel,
								memory_order_relaxed))
		return;
	xk_count(&l->client.protocol, LOGPTEST_COUNT_LOST);
	l->result.lost++;
	xk_unanswered(l->session);
	l->greets = logptest_needs_token(&l->run.loop);
	if (l->run.lost != NULL)
		l->run.lost(l->run.argument, now_ns - l->begun_ns);
	if (now_ns >= l->received_ns + l->client.silence_ns)
		logptest_finish(l, -ETIMEDOUT);
	else
		logptest_go_on(l);
}

/* ---- runs ---- */

/* Returns how long xk_work really takes, on average. */
static uint64_t
logptest_time_work(struct xk_protocol *self, uint64_t work_ns)
{
	uint64_t begun_ns = xk_now_ns(self);

	for (unsigned i = 0; i < LOGPTEST_SPINS && work_ns > 0; i++)
		xk_work(self, work_ns);
	return (xk_now_ns(self) - begun_ns) / LOGPTEST_SPINS;
}

/* Opens the session, and begins the first batch. */
static void
logptest_begin(void *argument)
{
	struct logptest *l = argument;
	struct xk_protocol *self = &l->client.protocol;
	int err = client_open(self, l->run.host, (uint16_t)l->port, l->client.silence_ns, &l->session);

	if (err == 0)
		err = client_check_size(l->session, l->run.size, XK_LOGPTEST_MAX, &l->result.max_packet);
	if (err != 0) {
		logptest_finish(l, err);
		return;
	}
	l->result.times.send_work_ns = logptest_time_work(self, l->run.loop.send_work_ns);
	l->result.times.receive_work_ns = logptest_time_work(self, l->run.loop.receive_work_ns);
	l->received_ns = xk_now_ns(self);
	xk_event_schedule(&l->watchdog, l->timeout_ns / 1000);
	xk_event_schedule(&l->sender, 0);
}

int
xk_logptest_start(struct xk_protocol *logptest, const struct xk_logptest_run *run)
{
	struct logptest *l = (struct logptest *)logptest;
	const struct xk_logptest_loop *loop = &run->loop;
	int err;

	if (run->size < XK_LOGPTEST_MIN || run->size > XK_LOGPTEST_MAX || run->rounds == 0 ||
	    run->rounds > XK_LOGPTEST_BATCHES || loop->sends == 0 || loop->sends > XK_LOGPTEST_MESSAGES ||
	    loop->first > XK_LOGPTEST_MESSAGES || loop->last > XK_LOGPTEST_MESSAGES || loop->first + loop->last == 0 ||
	    (loop->sends == 1 && loop->first + loop->last > XK_LOGPTEST_MESSAGES) ||
	    run->copies >= XK_LOGPTEST_COPIES || run->finished == NULL)
		return -EINVAL;
	if (atomic_exchange_explicit(&l->running, true, memory_order_acq_rel))
		return -EBUSY;
	l->run = *run;
	l->greets = logptest_needs_token(loop);
	atomic_store_explicit(&l->receive_work_ns, loop->receive_work_ns, memory_order_relaxed);
	l->result = (struct xk_logptest_result){ .error = 0 };
	err = xk_thread_start(logptest->kernel, logptest->name, logptest_begin, l);
	if (err != 0)
		atomic_store_explicit(&l->running, false, memory_order_release);
	return err;
}

static void
logptest_own_finished(void *argument, const struct xk_logptest_result *result)
{
	struct xk_protocol *self = argument;
	const struct xk_logptest_times *times = &result->times;

	xk_counter_set(self, LOGPTEST_COUNT_ROUNDS, result->rounds);
	xk_counter_set(self, LOGPTEST_COUNT_SENT, times->sent_ns);
	xk_counter_set(self, LOGPTEST_COUNT_ANSWERED, times->answered_ns);
	xk_trace(self, XK_TRACE_EVENTS, "%s: %llu batches, %llu lost; sent in %llu ns, answered in %llu",
		 result->error == 0 ? "finished" : "failed", (unsigned long long)result->rounds,
		 (unsigned long long)result->lost, (unsigned long long)times->sent_ns,
		 (unsigned long long)times->answered_ns);
	if (result->error != 0)
		client_fail(self, result->error);
}

/* Starts the run that the settings describe. If that fails (no shepherd), tries again later. */
static void
logptest_start_by_itself(struct xk_event *event, void *argument)
{
	struct logptest *l = argument;
	struct xk_logptest_run run = {
		.host = l->client.peer,
		.size = (uint32_t)l->client.size,
		.rounds = l->client.rounds,
		.loop = l->loop,
		.finished = logptest_own_finished,
		.argument = l,
	};
	int err;

	err = xk_logptest_start(&l->client.protocol, &run);
	if (err == -EAGAIN)
		xk_event_schedule(event, CLIENT_RETRY_US);
	else if (err != 0)
		client_fail(&l->client.protocol, err);
}

/* ---- the server ---- */

/* Returns the token that proves that a message's sender receives what this server sends: a guess of 64 bits. */
static uint64_t
logptest_token(const struct logptest *l, struct xk_session *lls)
{
	uint64_t peer = 0;

	if (xk_control(lls, XK_GET_PEER_HOST, &peer) != 0)
		xk_control(lls, XK_GET_PEER_LINK, &peer);
	return siphash(l->secret, peer, 0);
}

/* Has the event send answers, after those that it still sends on the same session; on another, they are lost. */
static void
logptest_answer_later(struct logptest *l, struct xk_session *lls, size_t size, const struct logptest_header *answer,
		      uint32_t answers)
{
	struct logptest_stream *stream = &l->stream;
	bool begins;

	xk_lock(&stream->lock);
	begins = stream->s == NULL && xk_duplicate(lls);
	if (begins) {
		stream->s = lls;
		stream->answers = 0;
		stream->until_ns = 0;
	}
	if (stream->s == lls) {
		stream->size = size;
		stream->header = *answer;
		stream->answers += answers;
	}
	xk_unlock(&stream->lock);
	if (begins)
		xk_event_schedule(&stream->event, 0);
}

/* Answers a message, which may now be in its buffer, as its header asks. */
static void
logptest_answer(struct logptest *l, struct xk_session *lls, struct xk_msg *m, const struct logptest_header *header)
{
	struct logptest_header answer = { .batch = header->batch, .copies = header->copies, .kind = LOGPTEST_ANSWER };
	uint32_t answers = header->answers;
	size_t size = answers > 1 ? header->length : xk_msg_len(m);
	int err = 0;

	if (header->kind == LOGPTEST_GREETING) {
		answer.length = header->length;
		answer.token = logptest_token(l, lls);
	}
	while (answers > 1 && err != -ENOBUFS) {
		err = logptest_push(l, lls, NULL, size, &answer);
		answers -= err != -ENOBUFS;
	}
	if (err == -ENOBUFS)
		xk_msg_free(m);
	else
		err = logptest_push(l, lls, m, size, &answer);
	if (err == -ENOBUFS)
		logptest_answer_later(l, lls, size, &answer, answers);
}

static void
logptest_answer_on(struct xk_event *event, void *argument)
{
	struct logptest *l = argument;
	struct logptest_stream *stream = &l->stream;
	struct logptest_header answer;
	struct xk_session *s;
	uint32_t sent = 0, left;
	size_t size;
	int err;

	for (;; sent = 1) {
		xk_lock(&stream->lock);
		s = stream->s;
		size = stream->size;
		answer = stream->header;
		left = stream->answers -= sent;
		if (left == 0)
			stream->s = NULL;
		xk_unlock(&stream->lock);
		if (left == 0)
			break;
		err = logptest_push(l, s, NULL, size, &answer);
		if (err == -ENOBUFS && logptest_try_again(l, event, &stream->until_ns))
			return;
		if (err != -ENOBUFS)
			stream->until_ns = 0;
	}
	xk_session_release(s);
}

/* ---- the protocol ---- */

static int
logptest_init(struct xk_protocol *self)
{
	struct logptest *l = (struct logptest *)self;
	struct xk_participants participants = { .local.depth = 0 };
	int err;

	l->loop.sends = (uint32_t)l->sends;
	l->loop.first = (uint32_t)l->first_answers;
	l->loop.last = (uint32_t)l->last_answers;
	if (l->port != 0)
		xk_participant_push(&participants.local, l->port);
	err = xk_open_enable(self, self, xk_lower(self, 0), &participants);
	if (err != 0)
		return err;
	l->secret[0] = xk_random(self);
	l->secret[1] = ~l->secret[0]; /* 64 secret bits are enough */
	xk_event_init(&l->sender, self->kernel, logptest_send, l);
	xk_event_init(&l->watchdog, self->kernel, logptest_watch, l);
	xk_event_init(&l->stream.event, self->kernel, logptest_answer_on, l);
	xk_lock_init(&l->stream.lock, self);
	xk_lock_init(&l->inbox_lock, self);
	l->memory = logptest_memory_new(self);
	if (l->memory == NULL)
		return -ENOMEM;
	err = client_init(&l->client, XK_LOGPTEST_MAX, logptest_start_by_itself);
	if (err != 0) {
		logptest_memory_release(l->memory);
		return err;
	}
	client_make_pattern(&l->client, XK_LOGPTEST_MAX);
	memcpy(l->memory->outbox, l->client.pattern, XK_LOGPTEST_MAX);
	free(l->client.pattern);
	l->client.pattern = l->memory->outbox;
	return 0;
}

static void
logptest_fini(struct xk_protocol *self)
{
	struct logptest *l = (struct logptest *)self;

	if (l->stream.s != NULL)
		xk_session_release(l->stream.s);
	xk_close(l->session);
	logptest_memory_release(l->memory);
}

static void
logptest_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct logptest *l = (struct logptest *)self;
	struct logptest_header header;
	bool greets;

	logptest_header_load(m, &header);
	greets = header.kind == LOGPTEST_GREETING && header.answers == 1 && header.length != 0;
	xk_count(self, LOGPTEST_COUNT_MESSAGES);
	if (header.copies == XK_LOGPTEST_BOTH && xk_msg_len(m) <= XK_LOGPTEST_MAX)
		logptest_copy_out(l, m);
	if (header.kind == LOGPTEST_ANSWER)
		logptest_hear(l, &header, m);
	else if ((header.kind != LOGPTEST_MESSAGE && !greets) || header.answers > XK_LOGPTEST_MESSAGES ||
		 header.copies >= XK_LOGPTEST_COPIES || xk_msg_len(m) > XK_LOGPTEST_MAX)
		xk_drop(self, m, LOGPTEST_BAD);
	else if (header.answers == 0)
		xk_msg_free(m);
	else if (header.answers > 1 && (header.length < LOGPTEST_HEADER_LEN || header.length > xk_msg_len(m) ||
					header.token != logptest_token(l, lls)))
		xk_drop(self, m, LOGPTEST_UNPROVEN);
	else
		logptest_answer(l, lls, m, &header);
}

#define LOGPTEST_WORK_MAX UINT64_C(1000000000)

static const struct xk_setting logptest_settings[] = {
	XK_SETTING(UINT, struct logptest, port, "port", "port of the server; 0: the protocol below has no ports",
		   .initial = "2009", .max = 65535),
	XK_SETTING(TIME, struct logptest, timeout_ns, "timeout", "time after which a stalled batch counts as lost",
		   .initial = "500ms", .min = 1000000, .max = UINT64_C(60000000000)),
	XK_SETTING(TIME, struct logptest, client.silence_ns, "silence",
		   "time without the end of a batch after which a run fails", .initial = "10s", .min = 1000000,
		   .max = UINT64_C(3600000000000)),
	XK_SETTING(HOST, struct logptest, client.peer, "peer", "server of a run that begins by itself"),
	XK_SETTING(UINT, struct logptest, client.rounds, "rounds", "batches of that run", .initial = "100", .min = 1,
		   .max = XK_LOGPTEST_BATCHES),
	XK_SETTING(UINT, struct logptest, client.size, "size", "bytes of its messages", .initial = "8",
		   .min = XK_LOGPTEST_MIN, .max = XK_LOGPTEST_MAX),
	XK_SETTING(UINT, struct logptest, sends, "sends", "messages that the client sends in a batch", .initial = "1",
		   .min = 1, .max = XK_LOGPTEST_MESSAGES),
	XK_SETTING(UINT, struct logptest, first_answers, "first_answers", "answers to the first", .initial = "0",
		   .max = XK_LOGPTEST_MESSAGES),
	XK_SETTING(UINT, struct logptest, last_answers, "last_answers", "... and to the last", .initial = "1", .min = 1,
		   .max = XK_LOGPTEST_MESSAGES),
	XK_SETTING(TIME, struct logptest, loop.send_work_ns, "send_work", "work between two messages that are sent",
		   .initial = "0s", .max = LOGPTEST_WORK_MAX),
	XK_SETTING(TIME, struct logptest, loop.receive_work_ns, "receive_work", "... and between two that are received",
		   .initial = "0s", .max = LOGPTEST_WORK_MAX),
	XK_SETTING(TIME, struct logptest, client.start_ns, "start", "time from the boot to its start", .initial = "0s",
		   .max = UINT64_C(86400000000000)),
	{ .name = NULL },
};

static const struct xk_protocol_ops logptest_ops = {
	.init = logptest_init,
	.fini = logptest_fini,
	.demux = logptest_demux,
};

const struct xk_protocol_type xk_type_logptest = {
	.name = "logptest",
	.help = "Batches of messages with work between them, and as many answers as are asked for: the loops that "
		"measure LogP parameters.",
	.ops = &logptest_ops,
	.size = sizeof(struct logptest),
	.header = LOGPTEST_HEADER_LEN,
	.fields = logptest_fields,
	.lowers = XK_ROLES({ .name = "transport", .needs = XK_ASYNC, .help = "carries messages: udp, llp, blast" }),
	.numbers = XK_NUMBERS({ "bid", 209 }, { "blast", 0x3020 }, { "eth", 0x3020 }, { "ip", 209 }),
	.settings = logptest_settings,
	.drops = logptest_drops,
	.counters = logptest_counters,
};
