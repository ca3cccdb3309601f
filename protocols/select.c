/*
 * select.c - calls of a host's procedures by number, and errors carried back.
 *
 * Spec:         the x-kernel's SELECT; an 8-byte header: procedure 4, status 4. The original had the statuses OK and
 *               FAIL.
 * Participants: the procedure's number, 32 bits: the top of the remote stack to call it, of the local one to serve it
 * Sessions:     Each open makes a session, on one of the protocol below (a channel takes one call at a time, a VCHAN
 *               many). A server has one per channel and procedure, which ends with the channel.
 * Errors:       those of the protocol below; -ENOSYS: the procedure is not served there; -ECONNREFUSED: the server
 *               refused the session, or had no memory for it; -EBADMSG: a malformed reply. A handler's failure is a
 *               reply: the call ran, once. Its error is returned to the caller, but as -EREMOTEIO if it could be
 *               mistaken for that of the call itself, as -ETIMEDOUT of a call made by the handler.
 * Not done:     close_done to users of a channel that is closed (their next call fails with -ECONNRESET)
 * Graph:        select -> chan; or select -> vchan, vchan -> chan
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "xkernel/bytes.h"
#include "xkernel/protocol.h"

LIST_HEAD(select_calls, select_call);

#define SELECT_DROPS(D)                                                                                                \
	D(SELECT_BAD_STATUS, "bad_status")                                                                             \
	D(SELECT_BAD_REPLY, "bad_reply")
XK_DROPS(select, SELECT_DROPS);

#define SELECT_COUNTERS(C)                                                                                             \
	C(SELECT_CALLED, "called")                                                                                     \
	C(SELECT_SERVED, "served")                                                                                     \
	C(SELECT_FAILED_COUNT, "failed")
XK_COUNTERS(select, SELECT_COUNTERS);

struct select {
	struct xk_protocol protocol;
	struct xk_lock lock;       /* protects calls */
	struct select_calls calls; /* asynchronous ones */
};

/* Only servers' sessions are in the table: an opened one is the opener's alone. */
struct select_session {
	struct xk_session session;
	uint32_t procedure;
	bool serves;
};

/* An asynchronous call. */
struct select_call {
	struct xk_call call;
	LIST_ENTRY(select_call) beside;
	struct xk_call *users;
	struct xk_session *session; /* with a reference on it */
};

/* ---- the header ---- */

enum { SELECT_ERRORS = 4095 }; /* the highest error number */

enum select_status {
	SELECT_CALL,
	SELECT_OK,
	SELECT_FAILED, /* the handler returned no error number */
	SELECT_NO_PROCEDURE,
	SELECT_REFUSED,
	SELECT_ERRNO = 256, /* plus the handler's error number (Linux's) */
	SELECT_ERRNO_MAX = SELECT_ERRNO + SELECT_ERRORS,
};

static const struct xk_field_value select_statuses[] = {
	{ SELECT_CALL, "call" },       { SELECT_OK, "ok" },
	{ SELECT_FAILED, "failed" },   { SELECT_NO_PROCEDURE, "no_procedure" },
	{ SELECT_REFUSED, "refused" }, { 0, NULL },
};

#define SELECT_HEADER(F)                                                                                               \
	F(32, procedure, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX)                                              \
	F(32, status, .values = select_statuses, .help = "256 and more: an errno")
XK_HEADER(select, SELECT_HEADER);
XK_FIELDS(select, SELECT_HEADER);

/* Strips and checks the header of m. Returns 0, or the reason to drop m. */
static inline unsigned
select_header_pop(struct select_header *h, struct xk_msg *m, bool is_reply)
{
	*h = select_load(m->data);
	xk_msg_pop_in_place(m, XK_HEADER_LEN(select));
	if ((h->status == SELECT_CALL) == is_reply || h->status > SELECT_ERRNO_MAX ||
	    (h->status > SELECT_REFUSED && h->status <= SELECT_ERRNO))
		return SELECT_BAD_STATUS;
	return 0;
}

/* Returns whether an error describes the fate of a call, so that a handler's must not be taken for it. */
static bool
select_is_fate(int err)
{
	static const int fates[] = { ETIMEDOUT, ECONNRESET, ECONNREFUSED, ECANCELED, EBUSY,   EAGAIN,
				     EMSGSIZE,  ENOBUFS,    ENOMEM,       ENOSYS,    EBADMSG, EOPNOTSUPP };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(fates); i++)
		if (err == fates[i])
			return true;
	return false;
}

/* Returns the caller's result for the status of a reply. */
static int
select_error_of(uint32_t status)
{
	int err = status > SELECT_ERRNO ? (int)(status - SELECT_ERRNO) : 0;

	if (status == SELECT_OK)
		return 0;
	if (status == SELECT_NO_PROCEDURE)
		return -ENOSYS;
	if (status == SELECT_REFUSED)
		return -ECONNREFUSED;
	return err == 0 || select_is_fate(err) ? -EREMOTEIO : -err;
}

/* ---- init and fini ---- */

/* Enables at once, so that calls of procedures that are not served are answered with an error. */
static int
select_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	xk_lock_init(&((struct select *)self)->lock, self);
	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

/* The kernel ends without ending asynchronous calls. */
static void
select_fini(struct xk_protocol *self)
{
	struct select *select = (struct select *)self;
	struct select_call *c;

	while ((c = LIST_FIRST(&select->calls)) != NULL) {
		LIST_REMOVE(c, beside);
		xk_session_release(c->session);
		free(c);
	}
}

/* ---- sessions ---- */

static struct xk_key
select_key(const struct xk_session *lls, uint32_t procedure)
{
	return (struct xk_key){ (uintptr_t)lls, procedure };
}

/* Sets up a server's session. */
static int
select_setup(struct xk_session *session, const void *procedure)
{
	struct select_session *s = (struct select_session *)session;

	s->procedure = *(const uint32_t *)procedure;
	s->serves = true;
	return 0;
}

static int
select_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	    struct xk_participants *participants, struct xk_session **session)
{
	uint64_t procedure = xk_participant_pop(&participants->remote);
	struct xk_session *lls;
	int err;

	if (procedure > UINT32_MAX)
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &lls);
	if (err != 0)
		return err;
	*session = xk_session_new(self, self->type->session_ops, hlp_receive, hlp_type, lls);
	if (*session == NULL) {
		xk_close(lls);
		return -ENOMEM;
	}
	((struct select_session *)*session)->procedure = (uint32_t)procedure;
	return 0;
}

/* A procedure is served for all hosts. */
static int
select_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		   struct xk_key *key)
{
	uint64_t procedure = xk_participant_pop(&participants->local);

	if (procedure > UINT32_MAX)
		return -EINVAL;
	if (participants->local.depth != 0 || participants->remote.depth != 0)
		return -EOPNOTSUPP;
	*key = xk_table_number_key((uint32_t)procedure);
	return 0;
}

static struct xk_key
select_passive_key_of(const struct xk_session *s)
{
	return xk_table_number_key(((const struct select_session *)s)->procedure);
}

static bool
select_is_on_another(struct xk_session *s, void *lls)
{
	return s->lls != lls;
}

/* The sessions of a channel end with it. */
static void
select_close_done(struct xk_protocol *self, struct xk_session *session)
{
	xk_session_uncache(self, select_is_on_another, session);
}

/* ---- serving ---- */

/* Makes *reply a header without payload. Returns 0 or -ENOBUFS. */
static int
select_answer(struct xk_protocol *self, uint32_t procedure, uint32_t status, struct xk_msg **reply)
{
	*reply = xk_msg_new(xk_platform_of(self), XK_HEADER_LEN(select));
	if (*reply == NULL)
		return -ENOBUFS;
	select_store((*reply)->data, &(struct select_header){ procedure, status });
	return 0;
}

static int
select_call_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr,
		struct xk_msg **reply)
{
	struct select_session *s = (struct select_session *)session;
	struct xk_protocol *self = session->protocol;
	int err = xk_call_demux(session, m, reply);
	uint32_t status = SELECT_OK;

	xk_count(self, SELECT_SERVED);
	if (err != 0) {
		xk_count(self, SELECT_FAILED_COUNT);
		xk_msg_free(*reply);
		*reply = NULL;
		status = err < 0 && err >= -SELECT_ERRORS ? SELECT_ERRNO + (uint32_t)-err : SELECT_FAILED;
	}
	if (*reply == NULL)
		return select_answer(self, s->procedure, status, reply);
	*reply = xk_push_header(session, *reply, XK_HEADER_LEN(select));
	if (*reply == NULL)
		return -ENOBUFS;
	select_store((*reply)->data, &(struct select_header){ s->procedure, status });
	return 0;
}

/* Accepts the first call of a procedure on lls. The header lies in front of m. */
XK_APART static int
select_accept(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	uint32_t procedure = XK_GET(select, procedure, m->data - XK_HEADER_LEN(select));
	struct xk_key passive = xk_table_number_key(procedure);
	struct xk_session *s = xk_table_accept(self, select_key(lls, procedure), passive, lls, &procedure, m);

	if (s != NULL)
		return xk_call_pop(s, lls, m, NULL, reply);
	return select_answer(self, procedure,
			     xk_table_enabled(self, passive) != NULL ? SELECT_REFUSED : SELECT_NO_PROCEDURE, reply);
}

static int
select_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	struct select_header h;
	struct xk_session *s;
	unsigned why = select_header_pop(&h, m, false);

	if (xk_unlikely(why != 0)) {
		xk_drop(self, m, why);
		return -EBADMSG;
	}
	s = xk_table_find(self, select_key(lls, h.procedure));
	return xk_likely(s != NULL) ? xk_call_pop(s, lls, m, NULL, reply) : select_accept(self, lls, m, reply);
}

/* ---- calling ---- */

/* Strips the header of *reply. Returns 0, or the error in it, -errno, and frees *reply. */
static int
select_open_reply(struct xk_session *session, struct xk_msg **reply)
{
	struct select_session *s = (struct select_session *)session;
	struct xk_msg *m = *reply;
	struct select_header h;
	unsigned why = select_header_pop(&h, m, true);
	int err = -EBADMSG;

	if (why == 0 && h.procedure != s->procedure)
		why = SELECT_BAD_REPLY;
	if (why == 0)
		err = select_error_of(h.status);
	if (err == 0)
		return 0;
	*reply = NULL;
	if (why != 0)
		xk_drop(session->protocol, m, why);
	else
		xk_msg_free(m);
	return err;
}

/* Pushes the header of a call on m. Returns NULL if m was dropped. */
static struct xk_msg *
select_prepare(struct xk_session *session, struct xk_msg *m)
{
	const struct select_session *s = (const struct select_session *)session;

	xk_count(session->protocol, SELECT_CALLED);
	m = xk_push_header(session, m, XK_HEADER_LEN(select));
	if (m != NULL)
		select_store(m->data, &(struct select_header){ s->procedure, SELECT_CALL });
	return m;
}

static int
select_call(struct xk_session *session, struct xk_msg *m, struct xk_msg **reply)
{
	int status;

	m = select_prepare(session, m);
	if (m == NULL)
		return -ENOBUFS;
	status = xk_call(session->lls, m, reply);
	return status != 0 ? status : select_open_reply(session, reply);
}

static void
select_call_free(struct select_call *c)
{
	struct select *select = (struct select *)c->session->protocol;

	xk_lock(&select->lock);
	LIST_REMOVE(c, beside);
	xk_unlock(&select->lock);
	free(c);
}

static void
select_done(struct xk_call *call, int status, struct xk_msg *reply)
{
	struct select_call *c = (struct select_call *)call;
	struct xk_session *session = c->session;
	struct xk_call *users = c->users;

	select_call_free(c);
	if (status == 0)
		status = select_open_reply(session, &reply);
	xk_call_done(users, status, reply);
	xk_session_release(session);
}

static int
select_call_async(struct xk_session *session, struct xk_msg *m, struct xk_call *call)
{
	struct select *select = (struct select *)session->protocol;
	struct select_call *c = malloc(sizeof(*c));
	int status = -ENOBUFS;

	if (c == NULL || !xk_duplicate(session)) {
		free(c);
		xk_drop(session->protocol, m, XK_DROP_NO_SESSION);
		return -ENOMEM;
	}
	*c = (struct select_call){ .call = { select_done, session->protocol }, .users = call, .session = session };
	xk_lock(&select->lock);
	LIST_INSERT_HEAD(&select->calls, c, beside);
	xk_unlock(&select->lock);
	m = select_prepare(session, m);
	if (m != NULL)
		status = xk_call_async(session->lls, m, &c->call);
	if (status != 0) {
		select_call_free(c);
		xk_session_release(session);
	}
	return status;
}

static int
select_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	struct select_session *s = (struct select_session *)session;
	struct xk_participant *of = s->serves ? &participants->local : &participants->remote;

	return xk_participant_push(of, s->procedure) ? 0 : -E2BIG;
}

/* ---- tables ---- */

static const struct xk_session_ops select_session_ops = {
	.size = sizeof(struct select_session),
	.setup = select_setup,
	.call = select_call,
	.call_async = select_call_async,
	.call_pop = select_call_pop,
	.get_participants = select_get_participants,
};

static const struct xk_protocol_ops select_ops = {
	.init = select_init,
	.fini = select_fini,
	.open = select_open,
	.passive_key = select_passive_key,
	.passive_key_of = select_passive_key_of,
	.close_done = select_close_done,
	.call_demux = select_call_demux,
};

const struct xk_protocol_type xk_type_select = {
	.name = "select",
	.help = "Calls of procedures by number, with errors carried back.",
	.ops = &select_ops,
	.session_ops = &select_session_ops,
	.header = XK_HEADER_LEN(select),
	.fields = select_fields,
	.size = sizeof(struct select),
	.offers = XK_RPC,
	.lowers = XK_ROLES({ "calls", XK_RPC, NULL, "carries calls to hosts: chan, vchan" }),
	.numbers = XK_NUMBERS({ "chan", 2 }),
	.drops = select_drops,
	.counters = select_counters,
	.session_max = 1024,
};
