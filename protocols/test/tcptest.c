/*
 * tcptest.c - the test protocol above TCP: streams of a pattern that the receiver checks, in one direction or both, and
 * round trips. Each instance is a server. A program makes it a client (tcptest.h), or the setting `peer` does: after
 * `start` it opens `connections` at once, each `times` times, one after the other.
 *
 * A connection begins with a request of 16 bytes, after which the pattern of each direction starts:
 *
 *	bytes	8	that each side which sends is to send
 *	size	4	of the messages that are pushed
 *	flow	4	1 send (client to server), 2 receive, 3 both, 4 echo (the server sends back what comes)
 *
 * A side that has sent everything sends a FIN; a client whose bytes have come, and the peer's FIN, closes. A server that
 * gets a wrong byte resets the connection. Round trips do not wait for company (XK_TCP_SET_EAGER). Peers that read nothing
 * must not take all of the server's shepherds: it sends at most `streams` streams at once, which the others wait for, and
 * as many echoes may wait for their peers; a connection with a further one is reset (refused).
 *
 * Participants: none above; below (remote: host, port; local: port)
 * Control:      the session below answers
 * Counters:     messages counts what TCP has handed up; sent and received, bytes of the pattern; wrong, those that
 *               differ from it; finished and failed, a client's connections; rtt_... describe the run that `peer` started
 * Not done:     several servers in one run
 * Graph:        tcptest -> tcp
 */
#include "protocols/test/tcptest.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "protocols/tcp/tcp.h"
#include "protocols/test/client_private.h"
#include "xkernel/bytes.h"
#include "xkernel/trace.h"

enum { TCPTEST_REQUEST = 16 };

static const char *const tcptest_flows[] = { "send", "receive", "both", "echo", NULL };

#define TCPTEST_COUNTERS(C)                                                                                            \
	C(TCPTEST_MESSAGES, "messages")                                                                                \
	C(TCPTEST_ACCEPTED, "accepted")                                                                                \
	C(TCPTEST_REFUSED, "refused")                                                                                  \
	C(TCPTEST_FINISHED, "finished")                                                                                \
	C(TCPTEST_FAILED, "failed")                                                                                    \
	C(TCPTEST_SENT, "sent")                                                                                        \
	C(TCPTEST_RECEIVED, "received")                                                                                \
	C(TCPTEST_WRONG, "wrong")                                                                                      \
	C(TCPTEST_ENDED, "ended") /* streams that the peer has ended, all of whose bytes had come */                   \
	C(TCPTEST_CUT, "cut")     /* streams that ended before that */                                                 \
	C(TCPTEST_RTT_MEAN, "rtt_mean_ns")
XK_COUNTERS(tcptest, TCPTEST_COUNTERS);

TAILQ_HEAD(tcptest_connections, tcptest_connection);

struct tcptest {
	struct xk_protocol protocol;
	/* settings */
	uint64_t port, bytes, size, connections, times, streams, start_ns, silence_ns;
	uint32_t peer;
	unsigned flow; /* position in tcptest_flows */
	bool serve, strict;

	struct xk_event begins, retries;
	struct xk_map map; /* connections by the session below */
	struct xk_lock lock;
	struct tcptest_connections all;     /* oldest first: in each run, they are closed in the same order */
	struct tcptest_connections waiting; /* a server's, whose streams wait for others; under the lock */
	unsigned senders;                   /* shepherds that send such streams; under the lock */
	_Atomic unsigned echoes;            /* that are being pushed */
	struct client_trips trips;          /* of the run that `peer` starts */
	_Atomic bool runs;
	/* of a run; changed under `lock`, which is held while `record` is called */
	struct xk_tcptest_run run; /* rounds == 0: bytes and times are those of the settings */
	struct xk_tcptest_result result;
	unsigned callers, next; /* shepherds that have not finished; the number of the next one */
};

/* A connection, as its user sees it. A reference for the session's hlp, and one for each shepherd that uses it. */
struct tcptest_connection {
	struct xk_binding binding;
	TAILQ_ENTRY(tcptest_connection) beside, next;
	struct xk_retired retired;
	struct tcptest *tcptest;
	struct xk_session *session;   /* a reference */
	struct xk_semaphore progress; /* of the client */
	struct xk_lock lock;          /* protects what follows */
	unsigned references, flow;
	bool is_client, has_request, has_ended, is_aborted;
	int error; /* of a push in demux; 0: none */
	uint8_t request[TCPTEST_REQUEST];
	uint64_t requested; /* bytes of the request that have come */
	uint64_t bytes, size, received, sent, wrong;
	uint64_t begun_ns; /* of a client: when the message at hand began */
};

/* ---- the pattern ---- */

/* Returns the byte at `place` of a stream; the two directions differ. */
static inline uint8_t
tcptest_byte(uint64_t place, bool from_client)
{
	return (uint8_t)(place + (place >> 8) * 7 + (place >> 16) * 13 + (from_client ? 0 : 101));
}

static uint64_t
tcptest_count_wrong(const struct xk_msg *m, uint64_t place, bool from_client)
{
	uint64_t wrong = 0;

	for (; m != NULL; m = m->next)
		for (uint32_t i = 0; i < m->len; i++)
			wrong += m->data[i] != tcptest_byte(place++, from_client);
	return wrong;
}

/* Returns the next message of the stream, of at most len bytes, or NULL: no buffer. */
static struct xk_msg *
tcptest_message(struct tcptest *tcptest, uint64_t place, uint64_t len, bool from_client)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(&tcptest->protocol), len);
	uint64_t at = place;

	for (struct xk_msg *segment = m; segment != NULL; segment = segment->next)
		for (uint32_t i = 0; i < segment->len; i++)
			segment->data[i] = tcptest_byte(at++, from_client);
	return m;
}

/* ---- connections ---- */

static void
tcptest_free(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct tcptest_connection, retired));
}

/* Gives a reference back; the last one closes the session. */
static void
tcptest_release(struct tcptest_connection *c)
{
	bool is_last;

	xk_lock(&c->lock);
	is_last = --c->references == 0;
	xk_unlock(&c->lock);
	if (!is_last)
		return;
	xk_map_unbind(&c->tcptest->map, &c->binding);
	xk_lock(&c->tcptest->lock);
	TAILQ_REMOVE(&c->tcptest->all, c, beside);
	xk_unlock(&c->tcptest->lock);
	xk_close(c->session);
	xk_retire(c->tcptest->protocol.kernel, &c->retired, tcptest_free);
}

/* Makes the connection of a session, whose reference it takes over. bytes: a client's. NULL: no memory. */
static struct tcptest_connection *
tcptest_new(struct tcptest *tcptest, struct xk_session *session, bool is_client, uint64_t bytes)
{
	struct tcptest_connection *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->tcptest = tcptest;
	c->session = session;
	c->is_client = is_client;
	c->references = 1;
	c->bytes = bytes;
	if (is_client) {
		c->size = tcptest->run.size;
		c->flow = tcptest->run.flow;
		c->begun_ns = xk_now_ns(&tcptest->protocol);
	}
	xk_lock_init(&c->lock, &tcptest->protocol);
	xk_semaphore_init(&c->progress, &tcptest->protocol, 0);
	if (xk_map_bind(&tcptest->map, &c->binding, (struct xk_key){ (uintptr_t)session, 0 }, c) != 0) {
		free(c);
		return NULL;
	}
	xk_lock(&tcptest->lock);
	TAILQ_INSERT_TAIL(&tcptest->all, c, beside);
	xk_unlock(&tcptest->lock);
	return c;
}

static struct tcptest_connection *
tcptest_find(struct tcptest *tcptest, struct xk_session *session)
{
	return xk_map_resolve(&tcptest->map, (struct xk_key){ (uintptr_t)session, 0 });
}

static bool
tcptest_sends(const struct tcptest_connection *c)
{
	return c->flow == XK_TCPTEST_BOTH || c->flow == (c->is_client ? XK_TCPTEST_SEND : XK_TCPTEST_RECEIVE);
}

/* Returns how many bytes the connection is to receive. */
static uint64_t
tcptest_expects(const struct tcptest_connection *c)
{
	bool receives = c->flow == XK_TCPTEST_BOTH || c->flow == XK_TCPTEST_ECHO ||
			c->flow == (c->is_client ? XK_TCPTEST_RECEIVE : XK_TCPTEST_SEND);

	return receives ? c->bytes : 0;
}

/* Notes messages of a client's run, which have been echoed, sent or received since the last. */
static void
tcptest_record(struct tcptest_connection *c, uint64_t messages)
{
	struct tcptest *tcptest = c->tcptest;
	uint64_t now_ns = xk_now_ns(&tcptest->protocol), ns = now_ns - c->begun_ns;

	if (messages == 0)
		return;
	c->begun_ns = now_ns;
	xk_lock(&tcptest->lock);
	tcptest->result.rounds += messages;
	for (uint64_t i = 0; i < messages && tcptest->run.record != NULL; i++)
		tcptest->run.record(tcptest->run.argument, ns / messages);
	xk_unlock(&tcptest->lock);
}

/* Waits for buffers that others keep, *tries times in a row for now. Returns 0, or -errno when it has been too long. */
static int
tcptest_await_buffers(struct tcptest *tcptest, uint64_t *tries)
{
	return ++*tries > tcptest->silence_ns / 1000000 ? -ENOBUFS : xk_delay(&tcptest->protocol, 1000);
}

/* Sends the stream, and its end. Returns 0 or -errno. */
static int
tcptest_send_stream(struct tcptest_connection *c)
{
	uint64_t tries = 0;
	int err = 0;

	while (err == 0 && c->sent < c->bytes) {
		uint64_t len = c->bytes - c->sent < c->size ? c->bytes - c->sent : c->size;
		struct xk_msg *m = tcptest_message(c->tcptest, c->sent, len, c->is_client);

		c->sent += len;
		err = m == NULL ? -ENOBUFS : xk_push(c->session, m);
		if (err == -ENOBUFS) { /* TCP has dropped it */
			c->sent -= len;
			err = tcptest_await_buffers(c->tcptest, &tries);
		} else if (err == 0) {
			tries = 0;
			xk_count_by(&c->tcptest->protocol, TCPTEST_SENT, len);
			if (c->is_client && c->flow == XK_TCPTEST_SEND)
				tcptest_record(c, 1);
		}
	}
	if (err == 0)
		err = xk_control(c->session, XK_TCP_END, NULL);
	return err;
}

/* ---- the server ---- */

/* The shepherd that sends streams of the server, one after another. Takes the connections' references. */
static void
tcptest_serve(void *argument)
{
	struct tcptest *tcptest = argument;
	struct tcptest_connection *c;

	for (;;) {
		xk_lock(&tcptest->lock);
		c = TAILQ_FIRST(&tcptest->waiting);
		if (c != NULL)
			TAILQ_REMOVE(&tcptest->waiting, c, next);
		else
			tcptest->senders--;
		xk_unlock(&tcptest->lock);
		if (c == NULL)
			return;
		tcptest_send_stream(c);
		tcptest_release(c);
	}
}

/* Starts another such shepherd if streams wait and there may be one more. If there is no stack, tries again later. */
static void
tcptest_start_sender(struct tcptest *tcptest)
{
	bool starts;

	xk_lock(&tcptest->lock);
	starts = !TAILQ_EMPTY(&tcptest->waiting) && tcptest->senders < tcptest->streams;
	tcptest->senders += starts;
	xk_unlock(&tcptest->lock);
	if (!starts || xk_thread_start(tcptest->protocol.kernel, "tcptest", tcptest_serve, tcptest) == 0)
		return;
	xk_lock(&tcptest->lock);
	tcptest->senders--;
	xk_unlock(&tcptest->lock);
	xk_event_schedule(&tcptest->retries, CLIENT_RETRY_US);
}

static void
tcptest_retry(struct xk_event *event, void *argument)
{
	(void)event;
	tcptest_start_sender(argument);
}

/* Resets a connection of the server. Only for demux, which it reaches no more. */
static void
tcptest_abort(struct tcptest_connection *c)
{
	c->is_aborted = true;
	xk_control(c->session, XK_TCP_ABORT, NULL); /* after which close_done is not called */
	tcptest_release(c);
}

static int
tcptest_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
		  struct xk_protocol *hlp_type)
{
	struct tcptest_connection *c;

	(void)llp;
	(void)hlp_type;
	if (!xk_duplicate(session))
		return -ECONNABORTED;
	c = tcptest_new((struct tcptest *)self, session, false, 0);
	if (c == NULL) {
		xk_close(session);
		return -ENOMEM;
	}
	xk_count(self, TCPTEST_ACCEPTED);
	return 0;
}

/* Takes the request off m, as far as it has come. Returns false if it is not sensible. */
static bool
tcptest_take_request(struct tcptest_connection *c, struct xk_msg **m)
{
	uint64_t len = TCPTEST_REQUEST - c->requested;
	struct xk_msg *head;

	len = len < xk_msg_len(*m) ? len : xk_msg_len(*m);
	xk_msg_copy_out(*m, 0, c->request + c->requested, len);
	head = xk_msg_split(m, len);
	if (head == NULL)
		return false;
	xk_msg_free(head);
	c->requested += len;
	if (c->requested < TCPTEST_REQUEST)
		return true;
	c->has_request = true;
	c->bytes = xk_get64(c->request);
	c->size = xk_get32(c->request + 8);
	c->flow = xk_get32(c->request + 12);
	return c->size > 0 && c->size <= XK_TCPTEST_MAX && c->flow >= XK_TCPTEST_SEND && c->flow <= XK_TCPTEST_ECHO;
}

/* The request has come: begins to send, if that is wanted. */
static int
tcptest_begin_serving(struct tcptest_connection *c)
{
	const bool eager = true;
	struct tcptest *tcptest = c->tcptest;

	if (c->flow == XK_TCPTEST_ECHO)
		return xk_control(c->session, XK_TCP_SET_EAGER, &eager);
	if (c->flow == XK_TCPTEST_SEND)
		return 0;
	xk_lock(&c->lock);
	c->references++;
	xk_unlock(&c->lock);
	xk_lock(&tcptest->lock);
	TAILQ_INSERT_TAIL(&tcptest->waiting, c, next);
	xk_unlock(&tcptest->lock);
	tcptest_start_sender(tcptest);
	return 0;
}

/* ---- round trips ---- */

/* Sends the next message. Returns 0 or -errno. */
static int
tcptest_send_trip(struct tcptest_connection *c)
{
	struct tcptest *tcptest = c->tcptest;
	uint64_t len = c->bytes - c->sent < c->size ? c->bytes - c->sent : c->size;
	struct xk_msg *m = tcptest_message(tcptest, c->sent, len, true);

	if (!tcptest->run.is_short)
		c->begun_ns = xk_now_ns(&tcptest->protocol);
	c->sent += len;
	xk_count_by(&tcptest->protocol, TCPTEST_SENT, len);
	return m == NULL ? -ENOBUFS : xk_push(c->session, m);
}

/* A client's message has come back: sends the next one, without a shepherd that waits. */
static void
tcptest_end_trip(struct tcptest_connection *c)
{
	if (!c->tcptest->run.is_short)
		tcptest_record(c, 1);
	if (c->sent < c->bytes) {
		int err = tcptest_send_trip(c);

		if (err == 0)
			return;
		xk_lock(&c->lock);
		c->error = err;
		xk_unlock(&c->lock);
	}
	xk_semaphore_signal(&c->progress);
}

/* ---- receiving ---- */

/*
 * Sends m back. Takes m. Waits for room, and for buffers that others keep, unless too many echoes wait already. Returns
 * false if it was not sent.
 */
static bool
tcptest_echo(struct tcptest_connection *c, struct xk_msg *m)
{
	struct tcptest *tcptest = c->tcptest;
	bool is_full = atomic_fetch_add_explicit(&tcptest->echoes, 1, memory_order_relaxed) >= tcptest->streams;
	uint64_t room = 1, tries = 0;
	int err = -ENOBUFS;

	if (is_full)
		xk_control(c->session, XK_GET_ROOM, &room);
	while (err == -ENOBUFS && room > 0) {
		struct xk_msg *again = xk_msg_reference(m);

		err = again == NULL ? -ENOBUFS : xk_push(c->session, again);
		if (err == -ENOBUFS && (is_full || tcptest_await_buffers(tcptest, &tries) != 0))
			break;
	}
	atomic_fetch_sub_explicit(&tcptest->echoes, 1, memory_order_relaxed);
	xk_msg_free(m);
	return err == 0;
}

static void
tcptest_demux(struct xk_protocol *self, struct xk_session *session, struct xk_msg *m)
{
	struct tcptest *tcptest = (struct tcptest *)self;
	struct tcptest_connection *c = tcptest_find(tcptest, session);
	uint64_t len, place, wrong;

	xk_count(self, TCPTEST_MESSAGES);
	if (c == NULL || c->is_aborted) {
		xk_drop(self, m, XK_DROP_NO_SESSION);
		return;
	}
	if (!c->is_client && !c->has_request) {
		bool is_good = tcptest_take_request(c, &m) && (!c->has_request || tcptest_begin_serving(c) == 0);

		if (!is_good)
			tcptest_abort(c);
		if (!is_good || !c->has_request) {
			xk_msg_free(m);
			return;
		}
	}
	len = xk_msg_len(m);
	place = c->received; /* TCP hands one message up at a time */
	xk_count_by(self, TCPTEST_RECEIVED, len);
	wrong = tcptest_count_wrong(m, place, !c->is_client || c->flow == XK_TCPTEST_ECHO);
	xk_count_by(self, TCPTEST_WRONG, wrong);
	if (c->is_client && c->flow != XK_TCPTEST_ECHO)
		tcptest_record(c, (place + len) / c->size - place / c->size);
	xk_lock(&c->lock);
	c->received += len;
	c->wrong += wrong;
	xk_unlock(&c->lock);
	if (c->is_client && c->flow == XK_TCPTEST_ECHO && place + len == c->sent)
		tcptest_end_trip(c);
	else if (c->is_client && c->flow != XK_TCPTEST_ECHO)
		xk_semaphore_signal(&c->progress);
	if (c->is_client || c->flow != XK_TCPTEST_ECHO || len == 0) {
		xk_msg_free(m);
	} else if (!tcptest_echo(c, m)) {
		xk_count(self, TCPTEST_REFUSED);
		tcptest_abort(c);
		return;
	}
	if (!c->is_client && wrong > 0)
		tcptest_abort(c);
}

/* The peer has sent everything, or the connection has failed. */
static void
tcptest_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct tcptest_connection *c = tcptest_find((struct tcptest *)self, session);
	bool is_whole;

	if (c == NULL)
		return;
	xk_lock(&c->lock);
	c->has_ended = true;
	is_whole = (c->is_client || c->has_request) && c->received == tcptest_expects(c);
	xk_unlock(&c->lock);
	xk_count(self, is_whole ? TCPTEST_ENDED : TCPTEST_CUT);
	if (c->is_client) {
		xk_semaphore_signal(&c->progress);
		return;
	}
	if (!c->has_request || !tcptest_sends(c))
		xk_control(session, XK_TCP_END, NULL);
	tcptest_release(c);
}

/* ---- the client ---- */

static int
tcptest_send_request(struct tcptest_connection *c)
{
	uint8_t request[TCPTEST_REQUEST];
	struct xk_msg *m;

	xk_put64(request, c->bytes);
	xk_put32(request + 8, (uint32_t)c->size);
	xk_put32(request + 12, c->flow);
	m = xk_msg_from(xk_platform_of(&c->tcptest->protocol), request, sizeof(request));
	return m == NULL ? -ENOBUFS : xk_push(c->session, m);
}

/* Waits until `bytes` have been received, or the stream has ended. Returns whether they have. */
static int
tcptest_await(struct tcptest_connection *c, uint64_t bytes, bool until_end)
{
	bool is_there = false, is_over = false;
	uint64_t received;
	int err = 0;

	while (err == 0) {
		xk_lock(&c->lock);
		if (c->error != 0) {
			xk_unlock(&c->lock);
			return c->error;
		}
		is_over = c->has_ended;
		is_there = c->received >= bytes && (is_over || !until_end);
		received = c->received;
		xk_unlock(&c->lock);
		if (is_there || is_over)
			return is_there ? 0 : -ECONNRESET;
		err = xk_semaphore_wait(&c->progress, c->tcptest->silence_ns / 1000);
		xk_lock(&c->lock);
		if (err == -ETIMEDOUT && c->received != received)
			err = 0; /* round trips signal only the last */
		xk_unlock(&c->lock);
	}
	return err;
}

/* Makes round trips. Returns 0 or -errno. */
static int
tcptest_trips(struct tcptest_connection *c)
{
	int err = tcptest_send_trip(c);

	if (err == 0)
		err = tcptest_await(c, c->bytes, false);
	if (err == 0)
		err = xk_control(c->session, XK_TCP_END, NULL);
	return err;
}

/* Waits until the peer has acknowledged everything, with the FIN: the host may end then. Returns 0 or -errno. */
static int
tcptest_await_acknowledgement(struct tcptest_connection *c)
{
	struct xk_tcp_info info;
	int err = xk_control(c->session, XK_TCP_GET_INFO, &info);

	while (err == 0 && info.in_flight + info.queued > 0) {
		if (strcmp(info.state, "CLOSED") == 0)
			return -ECONNRESET;
		err = xk_delay(&c->tcptest->protocol, 1000);
		if (err == 0)
			err = xk_control(c->session, XK_TCP_GET_INFO, &info);
	}
	return err;
}

/* Uses a connection. Returns 0 or -errno. */
static int
tcptest_use(struct tcptest_connection *c)
{
	const bool eager = true;
	int err = c->flow == XK_TCPTEST_ECHO ? xk_control(c->session, XK_TCP_SET_EAGER, &eager) : 0;

	if (err == 0)
		err = tcptest_send_request(c);
	if (err == 0 && c->flow == XK_TCPTEST_ECHO)
		err = tcptest_trips(c);
	else if (err == 0)
		err = tcptest_sends(c) ? tcptest_send_stream(c) : xk_control(c->session, XK_TCP_END, NULL);
	if (err == 0)
		err = tcptest_await(c, tcptest_expects(c), true);
	if (err == 0)
		err = tcptest_await_acknowledgement(c);
	return err == 0 && c->wrong > 0 ? -EBADMSG : err;
}

/* Opens a connection for so many bytes, uses it and closes it. Returns 0 or -errno. */
static int
tcptest_connect(struct tcptest *tcptest, uint64_t bytes)
{
	struct xk_protocol *self = &tcptest->protocol;
	uint64_t begun_ns = xk_now_ns(self), patience_ns = tcptest->run.rounds > 0 ? tcptest->silence_ns : 0;
	struct tcptest_connection *c;
	struct xk_session *session;
	uint32_t max_packet = XK_TCPTEST_MAX;
	int err = client_open(self, tcptest->run.host, (uint16_t)tcptest->port, patience_ns, &session);

	if (err != 0)
		return err;
	c = tcptest_new(tcptest, session, true, bytes);
	if (c == NULL) {
		xk_close(session);
		return -ENOMEM;
	}
	err = client_check_size(session, tcptest->run.size, XK_TCPTEST_MAX, &max_packet);
	if (err == 0)
		err = tcptest_use(c);
	if (err == 0 && tcptest->run.is_short) {
		c->begun_ns = begun_ns;
		tcptest_record(c, 1);
	}
	xk_lock(&tcptest->lock);
	tcptest->result.max_packet = max_packet;
	tcptest->result.bad += c->wrong;
	xk_unlock(&tcptest->lock);
	tcptest_release(c);
	return err;
}

/* ---- runs ---- */

/* Ends the run for `count` shepherds, which have finished or never begun, with this error. The last one reports. */
static void
tcptest_end(struct tcptest *tcptest, unsigned count, int err)
{
	struct xk_tcptest_result result;
	struct xk_tcptest_run run;
	bool is_last;

	xk_lock(&tcptest->lock);
	if (tcptest->result.error == 0)
		tcptest->result.error = err;
	tcptest->callers -= count;
	is_last = tcptest->callers == 0;
	result = tcptest->result;
	run = tcptest->run;
	xk_unlock(&tcptest->lock);
	if (!is_last)
		return;
	atomic_store_explicit(&tcptest->runs, false, memory_order_release);
	run.finished(run.argument, &result);
}

/* A client's shepherd: carries its share of the run. */
static void
tcptest_run(void *argument)
{
	struct tcptest *tcptest = argument;
	struct xk_protocol *self = &tcptest->protocol;
	const struct xk_tcptest_run *run = &tcptest->run;
	uint64_t rounds = run->rounds / run->connections, times = tcptest->times, bytes = tcptest->bytes;
	int err = 0, first = 0;

	xk_lock(&tcptest->lock);
	rounds += tcptest->next++ < run->rounds % run->connections;
	xk_unlock(&tcptest->lock);
	if (run->rounds > 0) {
		times = run->is_short ? rounds : rounds > 0;
		bytes = run->is_short ? run->size : rounds * run->size;
	}
	for (uint64_t i = 0; i < times && err != -ECANCELED && (first == 0 || run->rounds == 0); i++) {
		err = tcptest_connect(tcptest, bytes);
		first = first == 0 ? err : first;
		if (err == -ECANCELED)
			break;
		xk_count(self, err == 0 ? TCPTEST_FINISHED : TCPTEST_FAILED);
		if (err == 0)
			continue;
		xk_trace(self, XK_TRACE_EVENTS, "a connection has failed: %s", xk_error(err));
		xk_lock(&tcptest->lock);
		tcptest->result.failed++;
		xk_unlock(&tcptest->lock);
	}
	tcptest_end(tcptest, 1, err == -ECANCELED ? err : first);
}

/* Starts a run: tcptest->run is valid. Returns 0, or -errno if no shepherd could be started. */
static int
tcptest_start(struct tcptest *tcptest, const struct xk_tcptest_run *run)
{
	struct xk_protocol *self = &tcptest->protocol;
	unsigned started = 0;
	int err = 0;

	if (atomic_exchange_explicit(&tcptest->runs, true, memory_order_acq_rel))
		return -EBUSY;
	tcptest->run = *run;
	tcptest->result = (struct xk_tcptest_result){ .error = 0 };
	tcptest->callers = run->connections;
	tcptest->next = 0;
	for (; started < run->connections && err == 0; started += err == 0)
		err = xk_thread_start(self->kernel, self->name, tcptest_run, tcptest);
	if (started == 0)
		atomic_store_explicit(&tcptest->runs, false, memory_order_release);
	else if (err != 0)
		tcptest_end(tcptest, run->connections - started, err);
	return started == 0 ? err : 0;
}

int
xk_tcptest_start(struct xk_protocol *tcptest, const struct xk_tcptest_run *run)
{
	if (run->size == 0 || run->size > XK_TCPTEST_MAX || run->rounds == 0 || run->finished == NULL ||
	    run->connections == 0 || run->connections > XK_TCPTEST_CONNECTIONS || run->flow < XK_TCPTEST_SEND ||
	    run->flow > XK_TCPTEST_ECHO || (run->is_short && run->flow != XK_TCPTEST_ECHO))
		return -EINVAL;
	return tcptest_start((struct tcptest *)tcptest, run);
}

static void
tcptest_own_record(void *argument, uint64_t ns)
{
	client_trips_add(&((struct tcptest *)argument)->trips, ns);
}

/* The last connection of the run that `peer` started has ended. */
static void
tcptest_own_finished(void *argument, const struct xk_tcptest_result *result)
{
	struct tcptest *tcptest = argument;
	struct xk_protocol *self = &tcptest->protocol;

	if (result->error == -ECANCELED)
		return;
	if (tcptest->run.flow == XK_TCPTEST_ECHO)
		xk_counter_set(self, TCPTEST_RTT_MEAN, client_trips_mean_ns(&tcptest->trips));
	xk_trace(self, XK_TRACE_EVENTS, "finished: %llu bytes sent, %llu received",
		 (unsigned long long)xk_counter(self, TCPTEST_SENT),
		 (unsigned long long)xk_counter(self, TCPTEST_RECEIVED));
	xk_host_end(self, (tcptest->strict && result->error != 0) || xk_counter(self, TCPTEST_WRONG) > 0);
}

/* Starts the run that the settings describe. If that fails (no shepherd), tries again later. */
static void
tcptest_begin(struct xk_event *event, void *argument)
{
	struct tcptest *tcptest = argument;
	struct xk_tcptest_run run = {
		.host = tcptest->peer,
		.flow = (enum xk_tcptest_flow)(tcptest->flow + 1),
		.size = (uint32_t)tcptest->size,
		.connections = (unsigned)tcptest->connections,
		.record = tcptest_own_record,
		.finished = tcptest_own_finished,
		.argument = tcptest,
	};

	if (tcptest_start(tcptest, &run) != 0)
		xk_event_schedule(event, CLIENT_RETRY_US);
}

/* ---- init and fini ---- */

static int
tcptest_init(struct xk_protocol *self)
{
	struct tcptest *tcptest = (struct tcptest *)self;
	struct xk_participants own = { .local = { 1, { tcptest->port } } };
	int err = xk_map_init(&tcptest->map, self->kernel, 16);

	if (err != 0)
		return err;
	xk_lock_init(&tcptest->lock, self);
	TAILQ_INIT(&tcptest->all);
	TAILQ_INIT(&tcptest->waiting);
	xk_event_init(&tcptest->retries, self->kernel, tcptest_retry, tcptest);
	xk_event_init(&tcptest->begins, self->kernel, tcptest_begin, tcptest);
	if (tcptest->serve)
		err = xk_open_enable(self, self, xk_lower(self, 0), &own);
	if (err == 0 && tcptest->peer != 0)
		xk_event_schedule(&tcptest->begins, tcptest->start_ns / 1000);
	if (err != 0)
		xk_map_fini(&tcptest->map);
	return err;
}

static void
tcptest_fini(struct xk_protocol *self)
{
	struct tcptest *tcptest = (struct tcptest *)self;
	struct tcptest_connection *c;

	xk_event_cancel(&tcptest->begins);
	xk_event_cancel(&tcptest->retries);
	while ((c = TAILQ_FIRST(&tcptest->all)) != NULL) {
		TAILQ_REMOVE(&tcptest->all, c, beside);
		xk_map_unbind(&tcptest->map, &c->binding);
		xk_close(c->session);
		free(c);
	}
	xk_map_fini(&tcptest->map);
}

/* ---- promises ---- */

static const char *
tcptest_promise(struct xk_protocol *self, bool at_rest)
{
	(void)at_rest;
	if (xk_counter(self, TCPTEST_WRONG) > 0)
		return "a byte of a stream is not what was sent";
	return NULL;
}

/* ---- tables ---- */

static const struct xk_protocol_ops tcptest_ops = {
	.init = tcptest_init,
	.fini = tcptest_fini,
	.open_done = tcptest_open_done,
	.close_done = tcptest_close_done,
	.demux = tcptest_demux,
	.promise = tcptest_promise,
};

static const struct xk_setting tcptest_settings[] = {
	XK_SETTING(UINT, struct tcptest, port, "port", "of the server", .initial = "5001", .min = 1, .max = 65535),
	XK_SETTING(BOOL, struct tcptest, serve, "serve", "whether to accept connections", .initial = "yes"),
	XK_SETTING(HOST, struct tcptest, peer, "peer", "server of a run that begins by itself"),
	XK_SETTING(CHOICE, struct tcptest, flow, "flow",
		   "send: from client to server; receive: the other way; both: both at once; echo: round trips",
		   .initial = "send", .choices = tcptest_flows),
	XK_SETTING(UINT, struct tcptest, bytes, "bytes", "of each stream", .initial = "1m"),
	XK_SETTING(UINT, struct tcptest, size, "size", "bytes of a pushed message, or of a round trip",
		   .initial = "1460", .min = 1, .max = XK_TCPTEST_MAX),
	XK_SETTING(UINT, struct tcptest, connections, "connections", "of the client, at once", .initial = "1", .min = 1,
		   .max = 100000),
	XK_SETTING(UINT, struct tcptest, times, "times", "that each is opened and closed", .initial = "1", .min = 1,
		   .max = UINT32_MAX),
	XK_SETTING(UINT, struct tcptest, streams, "streams",
		   "of the server, at once: others wait; and echoes that wait for peers: others are reset",
		   .initial = "24", .min = 1, .max = 65536),
	XK_SETTING(TIME, struct tcptest, start_ns, "start", "time from the boot to the first connection",
		   .initial = "0s"),
	XK_SETTING(TIME, struct tcptest, silence_ns, "silence", "longest wait for bytes", .initial = "60s",
		   .max = UINT64_C(3600000000000), .min = 1000),
	XK_SETTING(BOOL, struct tcptest, strict, "strict", "whether a connection that fails is a failure of the host",
		   .initial = "yes"),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_tcptest = {
	.name = "tcptest",
	.help = "Tests TCP: streams whose bytes are checked, and round trips.",
	.ops = &tcptest_ops,
	.size = sizeof(struct tcptest),
	.lowers = XK_ROLES({ "stream", XK_ASYNC, NULL, "carries the connections; normally tcp" }),
	.settings = tcptest_settings,
	.counters = tcptest_counters,
};
