/* user.c - see user.h. */
#include "tests/conformance/user.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocols/tcp/tcp.h"
#include "xkernel/kernel.h"

enum { USER_CONNECTIONS = 64, USER_PIECE = 1 << 16, USER_TYPES = 128, USER_PATTERN = 251 };

#define USER_COUNTERS(C)                                                                                               \
	C(USER_ACCEPTED, "accepted")                                                                                   \
	C(USER_ENDED, "ended")                                                                                         \
	C(USER_ROOM, "room")
XK_COUNTERS(user, USER_COUNTERS);

struct user;

struct user_connection {
	struct user *user;
	struct xk_session *session; /* a reference; NULL: none yet, or closed */
	const void *was;            /* the session, to find it by */
	struct xk_semaphore taken;
	bool holds, waits;
	uint64_t port, from, peer;
	uint64_t wanted, sent; /* bytes to be pushed, and pushed */
	bool ends;             /* after them */
	struct user_view view;
};

struct user {
	struct xk_protocol protocol;
	struct user_order order;
	struct user_connection connections[USER_CONNECTIONS];
	unsigned count;
	struct xk_semaphore opened; /* of open_done, while `holds` */
	bool holds, waits;
};

/* ---- connections ---- */

static struct user_connection *
user_add(struct user *user, struct xk_session *session)
{
	struct user_connection *c = &user->connections[user->count];

	if (user->count == USER_CONNECTIONS)
		return NULL;
	user->count++;
	*c = (struct user_connection){ .user = user, .session = session, .was = session, .view = { .state = "" } };
	xk_semaphore_init(&c->taken, &user->protocol, 0);
	return c;
}

/*
 * Returns the latest connection of a session: memory of sessions is used again. One that is not known is the one that is
 * being opened: bytes may come before xk_open has returned.
 */
static struct user_connection *
user_find(struct user *user, const struct xk_session *session)
{
	for (unsigned i = user->count; i-- > 0;)
		if (user->connections[i].was == session || user->connections[i].view.err == -EINPROGRESS)
			return &user->connections[i];
	return NULL;
}

static struct user_connection *
user_numbered(struct user *user, unsigned number)
{
	number = number == 0 ? user->count : number;
	return number == 0 || number > user->count ? NULL : &user->connections[number - 1];
}

/* ---- orders ---- */

/* Pushes what is wanted and finds room. */
static void
user_push(struct user_connection *c)
{
	while (c->session != NULL && c->sent < c->wanted) {
		uint64_t len = c->wanted - c->sent < USER_PIECE ? c->wanted - c->sent : USER_PIECE;
		struct xk_msg *m = xk_msg_new(xk_platform_of(&c->user->protocol), len);
		uint64_t at = c->sent;

		if (m == NULL) {
			c->view.err = -ENOBUFS;
			return;
		}
		for (struct xk_msg *segment = m; segment != NULL; segment = segment->next)
			for (uint32_t i = 0; i < segment->len; i++)
				segment->data[i] = (uint8_t)(at++ % USER_PATTERN);
		c->view.err = xk_push(c->session, m);
		if (c->view.err != 0)
			return; /* -EAGAIN: there will be room */
		c->sent += len;
	}
	if (c->ends && c->session != NULL) {
		c->ends = false;
		xk_control(c->session, XK_TCP_END, NULL);
	}
}

/* Waits until the peer has answered. */
static void
user_open(struct user_connection *c)
{
	struct xk_protocol *self = &c->user->protocol;
	struct xk_participants participants = { .remote = { 2, { c->peer, c->port } }, .local = { 1, { c->from } } };
	struct xk_session *session = NULL;

	c->view.err = -EINPROGRESS;
	c->view.err = xk_open(self, self, xk_lower(self, 0), &participants, &session);
	if (c->view.err != 0)
		return;
	c->session = session;
	c->was = session;
	user_push(c);
}

static void
user_listen(struct user *user, bool wanted)
{
	struct xk_protocol *self = &user->protocol;
	struct xk_participants own = { .local = { 1, { user->order.number } } };
	int err = wanted ? xk_open_enable(self, self, xk_lower(self, 0), &own)
			 : xk_open_disable(self, self, xk_lower(self, 0), &own);

	if (err != 0)
		abort(); /* the script repeats itself */
}

static void
user_close(struct user_connection *c)
{
	struct xk_session *session = c->session;

	c->session = NULL;
	c->view.state = "";
	xk_close(session);
}

static void
user_look(struct user_connection *c)
{
	struct xk_tcp_info info = { .state = "" };

	if (c->session != NULL && xk_control(c->session, XK_TCP_GET_INFO, &info) == 0)
		c->view.state = info.state;
}

static void
user_hold(struct user *user, struct user_connection *c, bool holds)
{
	if (c == NULL) {
		user->holds = holds;
		if (!holds && user->waits)
			xk_semaphore_signal(&user->opened);
		return;
	}
	c->holds = holds;
	if (!holds && c->waits)
		xk_semaphore_signal(&c->taken);
}

static void
user_obey(void *argument)
{
	struct user *user = argument;
	const struct user_order *order = &user->order;
	struct user_connection *c = user_numbered(user, order->connection);

	if (order->verb == USER_LISTEN || order->verb == USER_DEAF) {
		user_listen(user, order->verb == USER_LISTEN);
		return;
	}
	if (order->verb == USER_OPEN) {
		c = user_add(user, NULL);
		if (c == NULL)
			return;
		c->port = order->number;
		c->from = order->from;
		c->peer = order->peer;
		user_open(c);
		return;
	}
	if (order->verb == USER_CLOSE_ALL) {
		for (unsigned i = 0; i < user->count; i++)
			user_close(&user->connections[i]);
		return;
	}
	if (order->verb == USER_TAKE) {
		if (c != NULL && c->waits)
			xk_semaphore_signal(&c->taken);
		return;
	}
	if (order->verb == USER_HOLD || order->verb == USER_RELEASE) {
		user_hold(user, c, order->verb == USER_HOLD);
		return;
	}
	if (c == NULL)
		return;
	if (order->verb == USER_SEND)
		c->wanted += order->number;
	if (order->verb == USER_END)
		c->ends = true;
	if (order->verb == USER_SEND || order->verb == USER_END)
		user_push(c);
	else if (order->verb == USER_CLOSE)
		user_close(c);
	else if (order->verb == USER_ABORT && c->session != NULL)
		xk_control(c->session, XK_TCP_ABORT, NULL);
	else
		user_look(c);
}

void
user_do(struct xk_protocol *self, const struct user_order *order)
{
	struct user *user = (struct user *)self;

	user->order = *order;
	if (xk_thread_start(self->kernel, "user", user_obey, user) != 0)
		abort(); /* the test's host has a stack for it */
}

bool
user_see(struct xk_protocol *self, unsigned connection, struct user_view *view)
{
	const struct user_connection *c = user_numbered((struct user *)self, connection);

	if (c != NULL)
		*view = c->view;
	return c != NULL;
}

/* ---- what comes from below ---- */

static int
user_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
	       struct xk_protocol *hlp_type)
{
	struct user *user = (struct user *)self;

	(void)llp;
	(void)hlp_type;
	if (user->holds) {
		user->waits = true;
		xk_semaphore_wait(&user->opened, XK_UNTIL_SIGNALLED);
		user->waits = false;
	}
	if (!xk_duplicate(session))
		return -ECONNABORTED;
	if (user_add(user, session) == NULL) {
		xk_close(session);
		return -ENOMEM;
	}
	xk_count(self, USER_ACCEPTED);
	return 0;
}

static void
user_demux(struct xk_protocol *self, struct xk_session *session, struct xk_msg *m)
{
	struct user_connection *c = user_find((struct user *)self, session);

	if (c == NULL) {
		xk_drop(self, m, XK_DROP_NO_SESSION);
		return;
	}
	for (const struct xk_msg *segment = m; segment != NULL; segment = segment->next)
		for (uint32_t i = 0; i < segment->len; i++)
			c->view.is_wrong |= segment->data[i] != (uint8_t)(c->view.received++ % USER_PATTERN);
	if (c->holds) {
		c->waits = true;
		xk_semaphore_wait(&c->taken, XK_UNTIL_SIGNALLED);
		c->waits = false;
	}
	xk_msg_free(m);
}

static void
user_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct user_connection *c = user_find((struct user *)self, session);

	if (c == NULL)
		return;
	c->view.has_ended = true;
	xk_count(self, USER_ENDED);
}

static void
user_room(struct xk_protocol *self, struct xk_session *session)
{
	struct user_connection *c = user_find((struct user *)self, session);

	xk_count(self, USER_ROOM);
	if (c != NULL)
		user_push(c);
}

/* ---- init and fini ---- */

static int
user_init(struct xk_protocol *self)
{
	xk_semaphore_init(&((struct user *)self)->opened, self, 0);
	return 0;
}

static void
user_fini(struct xk_protocol *self)
{
	struct user *user = (struct user *)self;

	for (unsigned i = 0; i < user->count; i++)
		xk_close(user->connections[i].session);
}

static const struct xk_protocol_ops user_ops = {
	.init = user_init,
	.fini = user_fini,
	.open_done = user_open_done,
	.close_done = user_close_done,
	.demux = user_demux,
	.room = user_room,
};

const struct xk_protocol_type user_type = {
	.name = "user",
	.help = "Uses TCP as a packet script says.",
	.ops = &user_ops,
	.size = sizeof(struct user),
	.lowers = XK_ROLES({ "stream", XK_ASYNC, "tcp", "carries the connections" }),
	.counters = user_counters,
};

const struct xk_protocol_type *const *
user_types(void)
{
	static const struct xk_protocol_type *types[USER_TYPES];

	types[0] = &user_type;
	for (unsigned i = 0; i < USER_TYPES - 2 && xk_protocol_types[i] != NULL; i++)
		types[i + 1] = xk_protocol_types[i];
	return types;
}
