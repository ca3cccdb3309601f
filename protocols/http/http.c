/*
 * http.c - serves what the program shows of its host (pages.h), and the files of a folder, over connections.
 *
 * Spec:         RFC 9110 and 9112: GET and HEAD, connections that stay, pipelined requests
 * Participants: none above; below (local: port)
 * Responses:    to a path, the page of this name; else the regular file of this name in `folder`, if that is set. A
 *               request must name this host (Host): its address, localhost, or one of `names`. Otherwise, a page elsewhere
 *               whose name is made to lead here could read the response in its visitor's browser (DNS rebinding).
 * Refusals:     each has a counter, and the response names it. Nothing more is served on the connection, unless the request
 *               was well formed.
 * Threads:      the driver only keeps what comes, up to the end of a head, and starts a worker, one shepherd for all
 *               connections, which ends when nothing is left to do. It parses, makes the page or reads the file, and hands
 *               down what TCP has room for; then it is the next connection's turn. It waits for no peer.
 * Bounds:       connections, of which the peer that has most loses some to others; bytes of requests, fields of one, bytes
 *               of pages on their way; the time for a request to arrive, for a peer to take more of a response, and between
 *               requests. What waits is in lists by what it waits for, of all and of its peer, with one alarm: an idle
 *               connection costs nothing but its memory.
 * Control:      the session below answers
 * Not done:     bodies, ranges, dates and conditions, chunks, compression, TLS; no file is listed, and none is written
 * Graph:        http -> tcp
 */
#include <stdlib.h>
#include <unistd.h>

#include "protocols/http/http_private.h"
#include "protocols/tcp/tcp.h"
#include "xkernel/trace.h"

#define HTTP_MS UINT64_C(1000000)
#define HTTP_LINGER_NS (2000 * HTTP_MS) /* for the peer to end its side */
#define HTTP_RETRY_NS (10 * HTTP_MS)    /* until there may be buffers, or a stack for the worker */

/* ---- peers; the lock is held ---- */

static void
http_peer_retired(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct http_peer, retired));
}

/* Ends a peer that has no connection. */
static void
http_peer_release(struct http *http, struct http_peer *peer)
{
	if (xk_share_held(&peer->share) > 0)
		return;
	xk_share_exit(&peer->share);
	xk_map_unbind(&http->peers, &peer->binding);
	xk_retire(http->protocol.kernel, &peer->retired, http_peer_retired);
}

/* Returns the peer with this address; NULL: no memory. */
static struct http_peer *
http_peer_get(struct http *http, uint64_t address)
{
	const struct xk_key key = { address, 0 };
	struct http_peer *peer = xk_map_resolve(&http->peers, key);

	if (peer != NULL)
		return peer;
	peer = calloc(1, sizeof(*peer));
	if (peer == NULL || xk_map_bind(&http->peers, &peer->binding, key, peer) != 0) {
		free(peer);
		return NULL;
	}
	for (unsigned i = 0; i < HTTP_STATES; i++)
		TAILQ_INIT(&peer->lists[i]);
	peer->share = (struct xk_share){ .of = &http->all, .max = UINT32_MAX };
	xk_share_enter(&peer->share);
	return peer;
}

/* ---- connections; the lock is held ---- */

static uint64_t
http_patience_ns(const struct http *http, enum http_state state)
{
	switch (state) {
	case HTTP_IDLE:
		return http->idle_ns;
	case HTTP_READS:
		return http->request_ns;
	case HTTP_SENDS:
		return http->response_ns;
	case HTTP_DRAINS:
		return http->response_ns < http->idle_ns ? http->response_ns : http->idle_ns;
	case HTTP_RETRIES:
		return HTTP_RETRY_NS;
	case HTTP_LINGERS:
		return HTTP_LINGER_NS;
	default: /* the worker will come to it */
		return XK_NEVER;
	}
}

/* Takes a connection out of the lists. */
static void
http_unlist(struct http_connection *c)
{
	if (!c->is_listed)
		return;
	TAILQ_REMOVE(&c->http->lists[c->state], c, beside);
	TAILQ_REMOVE(&c->peer->lists[c->state], c, of_peer);
	c->is_listed = false;
}

static void
http_move(struct http_connection *c, enum http_state state)
{
	struct http *http = c->http;
	uint64_t patience_ns = http_patience_ns(http, state);

	http_unlist(c);
	c->state = state;
	c->is_listed = true;
	TAILQ_INSERT_TAIL(&http->lists[state], c, beside);
	TAILQ_INSERT_TAIL(&c->peer->lists[state], c, of_peer);
	c->due_ns = patience_ns == XK_NEVER ? XK_NEVER : xk_now_ns(&http->protocol) + patience_ns;
	xk_alarm_set(&http->alarm, c->due_ns);
}

/* Takes a connection out of the lists, and adds it to `gone`, for http_free_all. */
static void
http_end(struct http_connection *c, struct http_connections *gone)
{
	http_unlist(c);
	c->state = HTTP_GONE;
	xk_share_give(&c->peer->share, 1);
	http_peer_release(c->http, c->peer);
	c->peer = NULL;
	TAILQ_INSERT_TAIL(gone, c, beside);
}

/* Looks for the end of the first head, from where it was left. */
static void
http_scan(struct http_connection *c)
{
	for (; c->head == 0 && c->scanned < c->len; c->scanned++) {
		size_t line_len = c->scanned - c->line;

		if (c->bytes[c->scanned] != '\n')
			continue;
		if (line_len == 0 || (line_len == 1 && c->bytes[c->line] == '\r'))
			c->head = c->scanned + 1;
		c->line = c->scanned + 1;
	}
}

/* Waits for a request, as `idle` while nothing of it has come, or lets the worker serve the one that has come. */
static void
http_await_request(struct http_connection *c, enum http_state idle)
{
	if (c->head != 0 || c->overflows)
		http_move(c, HTTP_WORKS);
	else
		http_move(c, c->len > 0 ? HTTP_READS : idle);
}

/* Keeps what has come, as far as there is room. */
static void
http_keep(struct http_connection *c, const struct xk_msg *m)
{
	size_t len = xk_msg_len(m), room;

	if (c->bytes == NULL)
		c->bytes = malloc(c->http->request_max);
	room = c->bytes == NULL ? 0 : c->http->request_max - c->len;
	if (len > room) {
		c->overflows = true;
		len = room;
	}
	if (len > 0)
		xk_msg_copy_out(m, 0, c->bytes + c->len, len);
	c->len += len;
	http_scan(c);
	if (c->state == HTTP_IDLE || c->state == HTTP_DRAINS ||
	    (c->state == HTTP_READS && (c->head != 0 || c->overflows)))
		http_await_request(c, c->state);
}

/* Forgets the first request. */
static void
http_consume(struct http_connection *c)
{
	c->len -= c->head;
	memmove(c->bytes, c->bytes + c->head, c->len);
	c->head = c->scanned = c->line = 0;
	http_scan(c);
	if (c->len > 0)
		return;
	free(c->bytes);
	c->bytes = NULL;
}

/* ---- connections; the lock is not held ---- */

static void
http_retired(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct http_connection, retired));
}

/* Returns how many bytes TCP has that the peer has not taken. */
static uint32_t
http_unread(struct http_connection *c)
{
	struct xk_tcp_info info;

	if (xk_control(c->session, XK_TCP_GET_INFO, &info) != 0 || strcmp(info.state, "CLOSED") == 0)
		return 0;
	return info.queued;
}

/* Closes and frees connections that have ended. */
static void
http_free_all(struct http_connections *gone)
{
	struct http_connection *c;

	while ((c = TAILQ_FIRST(gone)) != NULL) {
		TAILQ_REMOVE(gone, c, beside);
		xk_map_unbind(&c->http->map, &c->binding);
		http_response_free(c);
		free(c->bytes);
		xk_close(c->session);
		xk_retire(c->http->protocol.kernel, &c->retired, http_retired);
	}
}

static struct http_connection *
http_find(struct xk_protocol *self, struct xk_session *session)
{
	return xk_map_resolve(&((struct http *)self)->map, (struct xk_key){ (uintptr_t)session, 0 });
}

/* ---- the worker ---- */

/* Makes the response to the first request. Returns false if there is no memory. */
static bool
http_begin(struct http_connection *c)
{
	struct http *http = c->http;
	struct http_request request = { .stays = false };
	unsigned why = HTTP_REFUSALS;
	size_t head, len;
	bool made;

	xk_lock(&http->lock);
	head = c->head;
	len = c->len;
	if (head == 0)
		why = c->is_slow ? HTTP_SLOW : c->bytes == NULL ? HTTP_BUSY : HTTP_LONG_HEAD;
	xk_unlock(&http->lock);
	if (why == HTTP_LONG_HEAD && memchr(c->bytes, '\n', len) == NULL)
		why = HTTP_LONG_LINE;
	if (why == HTTP_REFUSALS) {
		xk_count(&http->protocol, HTTP_REQUESTS);
		why = http_parse(&request, c->bytes, head, &c->names);
	}
	made = why == HTTP_REFUSALS ? http_respond(c, &request) : http_refuse(c, why, request.is_head, false);
	if (why != HTTP_REFUSALS)
		xk_trace(&http->protocol, XK_TRACE_EVENTS, "refuses a request: %s", http_counters[why]);
	c->stalls_ns = xk_now_ns(&http->protocol) + http->response_ns;
	xk_lock(&http->lock);
	if (head != 0)
		http_consume(c);
	c->is_last = !made || !c->response->stays;
	xk_unlock(&http->lock);
	return made;
}

/* Returns the connection in these lists that has had most time to take what TCP has for it; NULL: none. */
static struct http_connection *
http_slowest(const struct http_connections *lists)
{
	struct http_connection *drains = TAILQ_FIRST(&lists[HTTP_DRAINS]), *sends = TAILQ_FIRST(&lists[HTTP_SENDS]);

	return drains == NULL || (sends != NULL && sends->due_ns < drains->due_ns) ? sends : drains;
}

/*
 * No buffer is left for a peer: has the worker see after the slowest connection of it, or else of any peer, which ends it
 * unless all is taken. Peers that read nothing could keep all buffers otherwise. The lock is held.
 */
static void
http_reclaim(struct http *http, const struct http_connection *c)
{
	struct http_connection *oldest = http_slowest(c->peer->lists);

	if (oldest == NULL && c->queued == 0)
		oldest = http_slowest(http->lists);
	if (oldest == NULL)
		return;
	oldest->is_overdue = true;
	oldest->queued = 1; /* as if that had been all for long */
	http_move(oldest, HTTP_WORKS);
}

/* Goes on to what the connection waits for now. sent: the result of http_send. */
static void
http_go_on(struct http_connection *c, int sent, struct http_connections *gone)
{
	struct http *http = c->http;
	struct xk_protocol *self = &http->protocol;

	if (sent == -EAGAIN) {
		http_move(c, c->has_room ? HTTP_WORKS : HTTP_SENDS);
	} else if (sent == -ENOBUFS && xk_now_ns(self) < c->stalls_ns) {
		http_move(c, HTTP_RETRIES);
		http_reclaim(http, c);
	} else if (sent == 0) {
		http_move(c, HTTP_WORKS);
	} else if (sent < 0) {
		xk_count(self, sent == -ENOBUFS ? HTTP_STALLED : HTTP_CUT);
		http_end(c, gone);
	} else if (!c->is_last && (!c->has_ended || c->head != 0)) {
		http_await_request(c, HTTP_DRAINS);
	} else if (!c->has_ended) {
		http_move(c, HTTP_LINGERS);
	} else {
		c->is_overdue = true;
		http_move(c, HTTP_WORKS);
	}
}

/*
 * Sees after a connection on which nothing is left to do: whether its peer takes what TCP has for it. If it does not, or
 * if nothing is left and nothing more will be asked, it is ended.
 */
static void
http_settle(struct http_connection *c)
{
	struct http *http = c->http;
	struct http_connections gone = TAILQ_HEAD_INITIALIZER(gone);
	uint32_t queued = http_unread(c);
	bool stalls = queued > 0 && c->queued != 0 && queued >= c->queued, is_last;

	c->queued = queued;
	xk_lock(&http->lock);
	c->is_overdue = false;
	is_last = c->is_last || c->has_ended;
	xk_unlock(&http->lock);
	if (stalls)
		xk_control(c->session, XK_TCP_ABORT, NULL);
	else if (is_last && c->response == NULL)
		xk_control(c->session, XK_TCP_END, NULL);
	xk_lock(&http->lock);
	if (stalls || (is_last && queued == 0 && c->response == NULL))
		http_end(c, &gone);
	else if (c->response != NULL)
		http_move(c, HTTP_WORKS); /* there is room for more of it */
	else if (is_last)
		http_move(c, HTTP_DRAINS);
	else
		http_await_request(c, queued > 0 ? HTTP_DRAINS : HTTP_IDLE);
	xk_unlock(&http->lock);
	if (stalls)
		xk_count(&http->protocol, HTTP_STALLED);
	http_free_all(&gone);
}

static void
http_serve(struct http_connection *c)
{
	struct http *http = c->http;
	struct http_connections gone = TAILQ_HEAD_INITIALIZER(gone);
	int sent = -ENOMEM;
	uint64_t before = 0;

	c->queued = 0;
	if (c->response != NULL || http_begin(c)) {
		before = c->response->sent;
		sent = http_send(c);
		if (c->response->sent > before)
			c->stalls_ns = xk_now_ns(&http->protocol) + http->response_ns;
	}
	if (sent > 0) {
		xk_count(&http->protocol, HTTP_RESPONSES);
		http_response_free(c);
		if (c->is_last)
			xk_control(c->session, XK_TCP_END, NULL);
	} else if (sent < 0 && sent != -EAGAIN && sent != -ENOBUFS) {
		xk_control(c->session, XK_TCP_ABORT, NULL); /* what was promised cannot be sent */
	}
	if (sent == -ENOBUFS)
		c->queued = http_unread(c); /* it waits for its own peer, not for others */
	xk_lock(&http->lock);
	http_go_on(c, sent, &gone);
	xk_unlock(&http->lock);
	http_free_all(&gone);
}

static void
http_work(void *argument)
{
	struct http *http = argument;
	struct http_connection *c;
	bool is_overdue = false;

	for (;;) {
		xk_lock(&http->lock);
		c = TAILQ_FIRST(&http->lists[HTTP_WORKS]);
		http->works = c != NULL;
		if (c != NULL) {
			http_unlist(c);
			c->has_room = false;
			is_overdue = c->is_overdue;
		}
		xk_unlock(&http->lock);
		if (c == NULL)
			return;
		if (is_overdue)
			http_settle(c);
		else
			http_serve(c);
		xk_checkpoint(&http->protocol);
	}
}

/* Releases the lock, and starts the worker if there is something to do. */
static void
http_unlock(struct http *http)
{
	bool starts = !http->works && !TAILQ_EMPTY(&http->lists[HTTP_WORKS]);

	http->works |= starts;
	xk_unlock(&http->lock);
	if (!starts || xk_thread_start(http->protocol.kernel, "http", http_work, http) == 0)
		return;
	xk_lock(&http->lock);
	http->works = false;
	xk_alarm_set(&http->alarm, xk_now_ns(&http->protocol) + HTTP_RETRY_NS);
	xk_unlock(&http->lock);
}

/* ---- time ---- */

/* The patience of c's state has ended. */
static void
http_overdue(struct http_connection *c, struct http_connections *gone)
{
	struct xk_protocol *self = &c->http->protocol;

	switch (c->state) {
	case HTTP_READS:
		c->is_slow = true;
		http_move(c, HTTP_WORKS);
		return;
	case HTTP_RETRIES:
		http_move(c, HTTP_WORKS);
		return;
	case HTTP_DRAINS:
	case HTTP_LINGERS:
		c->is_overdue = true;
		http_move(c, HTTP_WORKS);
		return;
	default:
		xk_count(self, c->state == HTTP_IDLE ? HTTP_IDLED : HTTP_STALLED);
		http_end(c, gone);
	}
}

static void
http_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct http *http = xk_container_of(alarm, struct http, alarm);
	struct http_connections gone = TAILQ_HEAD_INITIALIZER(gone);
	struct http_connection *c;

	for (unsigned state = 0; state < HTTP_STATES; state++) {
		while ((c = TAILQ_FIRST(&http->lists[state])) != NULL && c->due_ns <= now_ns)
			http_overdue(c, &gone);
		if (c != NULL)
			xk_alarm_set(alarm, c->due_ns);
	}
	http_unlock(http);
	for (c = TAILQ_FIRST(&gone); c != NULL; c = TAILQ_NEXT(c, beside))
		if (c->response != NULL)
			xk_control(c->session, XK_TCP_ABORT, NULL);
	http_free_all(&gone);
}

/* ---- from below ---- */

/*
 * Returns the connection that makes room for one of peer's: of the peer that has most, the one that waits longest, also in
 * a response if that is another peer. If the newcomer has none and no other peer has more than one, any that waits. NULL:
 * none. The lock is held.
 */
static struct http_connection *
http_loser(struct http *http, struct http_peer *peer)
{
	static const enum http_state states[] = { HTTP_LINGERS, HTTP_IDLE, HTTP_DRAINS, HTTP_READS, HTTP_SENDS };
	const struct http_peer *loser = (const struct http_peer *)xk_share_loser(&peer->share, 1);
	const struct http_connections *lists = xk_share_held(&loser->share) > 0 ? loser->lists : http->lists;
	unsigned count = XK_ARRAY_LENGTH(states) - (loser == peer);
	struct http_connection *c = NULL;

	for (unsigned i = 0; i < count && c == NULL; i++)
		c = TAILQ_FIRST(&lists[states[i]]);
	return c;
}

/* Takes a place for a connection, if needed by ending another one. Returns its peer; NULL: no room, or no memory. */
static struct http_peer *
http_take_place(struct http *http, uint64_t address, struct http_connections *gone)
{
	struct http_connection *loser;
	struct http_peer *peer;

	xk_lock(&http->lock);
	for (;;) {
		peer = http_peer_get(http, address); /* each time: it may have ended with the loser */
		if (peer == NULL || xk_share_take(&peer->share, 1))
			break;
		loser = http_loser(http, peer);
		if (loser == NULL) {
			http_peer_release(http, peer);
			peer = NULL;
			break;
		}
		xk_count(&http->protocol, HTTP_EVICTED);
		http_end(loser, gone);
	}
	xk_unlock(&http->lock);
	return peer;
}

static struct http_connection *
http_connection_new(struct http *http, struct xk_session *session)
{
	struct http_connection *c = calloc(1, sizeof(*c));
	uint64_t host = 0;

	if (c == NULL)
		return NULL;
	xk_control(session, XK_GET_MY_HOST, &host);
	c->http = http;
	c->session = session;
	c->names = (struct http_names){ (uint32_t)host, http->names };
	if (xk_map_bind(&http->map, &c->binding, (struct xk_key){ (uintptr_t)session, 0 }, c) == 0)
		return c;
	free(c);
	return NULL;
}

static int
http_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
	       struct xk_protocol *hlp_type)
{
	static const bool eager = true;
	struct http *http = (struct http *)self;
	struct http_connections gone = TAILQ_HEAD_INITIALIZER(gone);
	struct http_connection *c = NULL;
	struct http_peer *peer;

	(void)llp;
	(void)hlp_type;
	if (!xk_duplicate(session))
		return -ECONNABORTED;
	peer = http_take_place(http, xk_peer_address(session), &gone);
	for (c = TAILQ_FIRST(&gone); c != NULL; c = TAILQ_NEXT(c, beside))
		if (c->response != NULL || http_unread(c) > 0) /* TCP would keep it */
			xk_control(c->session, XK_TCP_ABORT, NULL);
	http_free_all(&gone);
	if (peer != NULL)
		c = http_connection_new(http, session);
	xk_lock(&http->lock);
	if (c != NULL) {
		c->peer = peer;
		http_move(c, HTTP_IDLE);
	} else if (peer != NULL) {
		xk_share_give(&peer->share, 1);
		http_peer_release(http, peer);
	}
	xk_unlock(&http->lock);
	if (c == NULL) {
		xk_close(session);
		return -ENOBUFS;
	}
	xk_count(self, HTTP_ACCEPTED);
	xk_control(session, XK_TCP_SET_EAGER, &eager);
	return 0;
}

static void
http_demux(struct xk_protocol *self, struct xk_session *session, struct xk_msg *m)
{
	struct http *http = (struct http *)self;
	struct http_connection *c = http_find(self, session);
	bool is_late;

	if (c == NULL) {
		xk_drop(self, m, HTTP_LATE);
		return;
	}
	xk_lock(&http->lock);
	is_late = c->is_last || c->overflows || c->is_slow || c->state == HTTP_GONE;
	if (!is_late)
		http_keep(c, m);
	http_unlock(http);
	if (is_late)
		xk_drop(self, m, HTTP_LATE);
	else
		xk_msg_free(m);
}

/* The peer has ended its side, or the connection has failed. */
static void
http_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct http *http = (struct http *)self;
	struct http_connections gone = TAILQ_HEAD_INITIALIZER(gone);
	struct http_connection *c = http_find(self, session);

	if (c == NULL)
		return;
	xk_lock(&http->lock);
	c->has_ended = true;
	if (c->state == HTTP_READS)
		xk_count(self, HTTP_CUT);
	if (c->state == HTTP_SENDS) { /* a push tells which */
		http_move(c, HTTP_WORKS);
	} else if (c->state == HTTP_READS || c->state == HTTP_DRAINS || c->state == HTTP_LINGERS) {
		c->is_overdue = true;
		http_move(c, HTTP_WORKS);
	} else if (c->state == HTTP_IDLE) {
		http_end(c, &gone);
	}
	http_unlock(http);
	http_free_all(&gone);
}

static void
http_room(struct xk_protocol *self, struct xk_session *session)
{
	struct http *http = (struct http *)self;
	struct http_connection *c = http_find(self, session);

	if (c == NULL)
		return;
	xk_lock(&http->lock);
	c->has_room = true;
	if (c->state == HTTP_SENDS)
		http_move(c, HTTP_WORKS);
	http_unlock(http);
}

/* ---- init and fini ---- */

static int
http_init(struct xk_protocol *self)
{
	struct http *http = (struct http *)self;
	struct xk_participants own = { .local = { 1, { http->port } } };
	int err;

	http->folder = -1;
	for (unsigned i = 0; i < HTTP_STATES; i++)
		TAILQ_INIT(&http->lists[i]);
	xk_lock_init(&http->lock, self);
	xk_alarm_init(&http->alarm, NULL, &http->lock, http_expire);
	http->all = (struct xk_share){ .max = (uint32_t)http->connections_max };
	err = xk_map_init(&http->peers, self->kernel, 16);
	if (err != 0)
		return err;
	err = xk_map_init(&http->map, self->kernel, 64);
	if (err != 0)
		goto fail;
	if (http->folder_name != NULL)
		err = http->folder = http_folder_open(http->folder_name);
	if (err >= 0)
		err = xk_open_enable(self, self, xk_lower(self, 0), &own);
	if (err >= 0)
		return 0;
	if (http->folder >= 0)
		close(http->folder);
	xk_map_fini(&http->map);
fail:
	xk_map_fini(&http->peers);
	return err;
}

static void
http_fini(struct xk_protocol *self)
{
	struct http *http = (struct http *)self;
	struct http_connections gone = TAILQ_HEAD_INITIALIZER(gone);

	xk_alarm_cancel(&http->alarm);
	xk_lock(&http->lock);
	for (unsigned state = 0; state < HTTP_STATES; state++)
		while (!TAILQ_EMPTY(&http->lists[state]))
			http_end(TAILQ_FIRST(&http->lists[state]), &gone);
	xk_unlock(&http->lock);
	http_free_all(&gone);
	if (http->folder >= 0)
		close(http->folder);
	xk_map_fini(&http->map);
	xk_map_fini(&http->peers);
}

/* ---- promises ---- */

static const char *
http_promise(struct xk_protocol *self, bool at_rest)
{
	const struct http *http = (const struct http *)self;
	const struct http_connection *c;
	uint64_t count = 0;

	for (unsigned state = 0; state < HTTP_STATES; state++) {
		uint64_t due_ns = 0;

		for (c = TAILQ_FIRST(&http->lists[state]); c != NULL; c = TAILQ_NEXT(c, beside)) {
			count++;
			if (c->due_ns < due_ns)
				return "connections of one state are not in the order in which their patience ends";
			due_ns = c->due_ns;
			if (due_ns != XK_NEVER && !xk_alarm_covers(&http->alarm, due_ns))
				return "a connection waits without a timer";
		}
	}
	if (count > http->connections_max)
		return "there are more connections than allowed";
	if (at_rest && (http->works || !TAILQ_EMPTY(&http->lists[HTTP_WORKS])))
		return "a request is being served for ever";
	return NULL;
}

/* ---- tables ---- */

static const struct xk_protocol_ops http_ops = {
	.init = http_init,
	.fini = http_fini,
	.open_done = http_open_done,
	.close_done = http_close_done,
	.demux = http_demux,
	.room = http_room,
	.promise = http_promise,
};

#define HTTP_HOUR (UINT64_C(3600000) * HTTP_MS)

static const struct xk_setting http_settings[] = {
	XK_SETTING(UINT, struct http, port, "port", "on which it serves", .initial = "80", .min = 1, .max = 65535),
	XK_SETTING(STRING, struct http, names, "names",
		   "more names of this host, separated by commas; requests to other hosts are refused"),
	XK_SETTING(STRING, struct http, folder_name, "folder",
		   "whose regular files are served, by their path in it; links are not followed, and hidden files "
		   "refused"),
	XK_SETTING(UINT, struct http, connections_max, "connections",
		   "at once; a new one ends one of the peer that has most, the one that is idle longest",
		   .initial = "1024", .min = 1, .max = 65536),
	XK_SETTING(UINT, struct http, request_max, "request", "bytes of a connection's requests that are kept",
		   .initial = "16k", .min = 256, .max = 1 << 20),
	XK_SETTING(UINT, struct http, file_max, "file", "bytes of the largest file that is served", .initial = "64m",
		   .max = UINT64_C(1) << 40),
	XK_SETTING(UINT, struct http, page_bytes_max, "pages", "bytes of pages that are on their way",
		   .initial = "16m"),
	XK_SETTING(TIME, struct http, request_ns, "request_time", "from a request's first byte to its last",
		   .initial = "10s", .min = 1000, .max = HTTP_HOUR),
	XK_SETTING(TIME, struct http, idle_ns, "idle_time",
		   "longest silence before a request, once a response was taken", .initial = "60s", .min = 1000,
		   .max = HTTP_HOUR),
	XK_SETTING(TIME, struct http, response_ns, "response_time",
		   "longest wait for a peer that takes nothing of a response", .initial = "10s", .min = 1000,
		   .max = HTTP_HOUR),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_http = {
	.name = "http",
	.help = "Serves the host's own counts, and files of a folder, to browsers.",
	.ops = &http_ops,
	.size = sizeof(struct http),
	.lowers = XK_ROLES({ "stream", XK_ASYNC, "tcp", "carries the connections" }),
	.settings = http_settings,
	.drops = http_drops,
	.counters = http_counters,
};
