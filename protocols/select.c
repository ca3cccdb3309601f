/*
 * select.c - procedures by number: which of a host's procedures a call is for, and what became of it if there is no reply.
 *
 * Spec:         the x-kernel's SELECT; an 8-byte header: procedure 4, status 4. Of a call the status is 0. Of a reply it is OK
 *               1; FAILED 2 (the handler did not say why), NO_PROCEDURE 3, REFUSED 4, or 256 and the error number that the
 *               handler returned (Linux's, 1 to 4095). In the original there were OK and FAIL.
 * Participants: to call, the top of the remote stack is the procedure's number, 32 bits; to serve it, that of the local one.
 *               What is below goes on to the protocol below.
 * Sessions:     Each open is a session of its own, on one of the protocol below (a channel takes one call at a time, a VCHAN
 *               many). Who is called has one per channel and procedure, found by both, kept as `sessions` says, and gone when
 *               the channel is.
 * Errors:       what the protocol below says; -ENOSYS: nobody serves the procedure there; -ECONNREFUSED: who does has refused the
 *               session; -EBADMSG: the reply made no sense. What a handler returned is the caller's error, too; but what
 *               could be taken for the fate of the call itself (-ETIMEDOUT, say, of a call that the handler made) reaches it
 *               as -EREMOTEIO. A handler's failure is a reply: the call has been run, once.
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET; the session below answers the others
 * Drops:        short; of calls no_session (no such procedure), refused, bad_status; of replies bad_reply (of another procedure),
 *               bad_status; no_buffer
 * Counters:     called, served (handlers run), failed (of these, those that failed)
 * Not done:     telling users by close_done that their channel is of no use any more (their next call says -ECONNRESET)
 * Graph:        select -> chan; or select -> vchan, vchan -> chan
 */
#include <errno.h>
#include <stdlib.h>

#include "xkernel/bytes.h"
#include "xkernel/protocol.h"

enum select_drop { SELECT_BAD_STATUS = XK_DROP_OWN, SELECT_BAD_REPLY };

enum select_counter { SELECT_CALLED, SELECT_SERVED, SELECT_FAILED_COUNT };

struct select {
	struct xk_protocol protocol;
	struct xk_map active;  /* (session below, procedure): a session of who is called */
	struct xk_map passive; /* procedure: struct xk_enable */
	struct xk_lock lock;   /* of what follows */
	struct select_call *calls;
};

struct select_session {
	struct xk_session session;
	uint32_t procedure;
	bool serves;
};

/* A call without waiting, in SELECT's list. */
struct select_call {
	struct xk_call call;
	struct select_call *next, **at;
	struct xk_call *users;
	struct select_session *session; /* with a reference on it */
};

static inline struct select *
select_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct select, protocol);
}

static inline struct select_session *
select_session_of(struct xk_session *s)
{
	return xk_container_of(s, struct select_session, session);
}

/* ---- the header ---- */

enum { SELECT_AT_PROCEDURE = 0, SELECT_AT_STATUS = 4, SELECT_HEADER_LEN = 8 };

enum { SELECT_ERRORS = 4095 }; /* the highest error number */

enum select_status {
	SELECT_CALL,
	SELECT_OK,
	SELECT_FAILED,
	SELECT_NO_PROCEDURE,
	SELECT_REFUSED,
	SELECT_ERRNO = 256, /* and a number */
	SELECT_ERRNO_MAX = SELECT_ERRNO + SELECT_ERRORS,
};

struct select_header {
	uint32_t procedure, status;
};

/* Takes the header off *m. 0, or the reason to drop *m. */
static unsigned
select_header_pop(struct select_header *h, struct xk_msg **m, bool is_reply)
{
	const uint8_t *p = xk_msg_pop(m, SELECT_HEADER_LEN);

	if (p == NULL)
		return xk_msg_len(*m) < SELECT_HEADER_LEN ? XK_DROP_SHORT : XK_DROP_NO_BUFFER;
	h->procedure = xk_get32(p + SELECT_AT_PROCEDURE);
	h->status = xk_get32(p + SELECT_AT_STATUS);
	if ((h->status == SELECT_CALL) == is_reply || h->status > SELECT_ERRNO_MAX ||
	    (h->status > SELECT_REFUSED && h->status <= SELECT_ERRNO))
		return SELECT_BAD_STATUS;
	return 0;
}

/* False: no buffer, and *m is unchanged. */
static bool
select_header_push(struct xk_msg **m, uint32_t procedure, uint32_t status)
{
	uint8_t *p = xk_msg_push(m, SELECT_HEADER_LEN);

	if (p == NULL)
		return false;
	xk_put32(p + SELECT_AT_PROCEDURE, procedure);
	xk_put32(p + SELECT_AT_STATUS, status);
	return true;
}

/* Of a handler that returned err, not 0. */
static uint32_t
select_status_of(int err)
{
	return err < 0 && err >= -SELECT_ERRORS ? SELECT_ERRNO + (uint32_t)-err : SELECT_FAILED;
}

/* Whether an error says what became of a call, so that a handler's must not be taken for it. */
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

/* What a caller gets for the status of a reply. */
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

static struct xk_key
select_active_key(const struct xk_session *lls, uint32_t procedure)
{
	return (struct xk_key){ (uintptr_t)lls, procedure };
}

static struct xk_key
select_passive_key(uint32_t procedure)
{
	return (struct xk_key){ procedure, 0 };
}

/* Those who called without waiting are not told when the kernel ends, and neither is SELECT. */
static void
select_forget_calls(struct select *select)
{
	while (select->calls != NULL) {
		struct select_call *c = select->calls;

		select->calls = c->next;
		xk_session_release(&c->session->session);
		free(c);
	}
}

static void
select_fini(struct xk_protocol *self)
{
	select_forget_calls(select_of(self));
	xk_enable_fini(&select_of(self)->passive);
	xk_map_fini(&select_of(self)->active);
}

/* Who calls a procedure that nobody serves is to hear that, so that calls are wanted from the beginning. */
static int
select_init(struct xk_protocol *self)
{
	struct select *select = select_of(self);
	struct xk_participants anybody = { .remote.depth = 0 };
	int status = xk_map_init(&select->active, self->kernel, self->session_max);

	if (status != 0)
		return status;
	xk_lock_init(&select->lock, self);
	status = xk_map_init(&select->passive, self->kernel, 16);
	if (status != 0) {
		xk_map_fini(&select->active);
		return status;
	}
	status = xk_open_enable(self, self, xk_lower(self, 0), &anybody);
	if (status != 0)
		select_fini(self);
	return status;
}

/* ---- sessions ---- */

static const struct xk_session_ops select_session_ops;

/* A session on lls, with the caller's reference. Takes lls, unless there is no memory: then NULL. */
static struct xk_session *
select_session_new(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		   struct xk_session *lls, uint32_t procedure)
{
	struct xk_session *s =
		xk_session_new(self, &select_session_ops, sizeof(struct select_session), hlp_receive, hlp_type, lls);

	if (s != NULL)
		select_session_of(s)->procedure = procedure;
	return s;
}

static int
select_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	    struct xk_participants *participants, struct xk_session **session)
{
	uint64_t procedure = xk_participant_pop(&participants->remote);
	struct xk_session *lls;
	int status;

	if (procedure > UINT32_MAX)
		return -EINVAL;
	status = xk_open(self, self, xk_lower(self, 0), participants, &lls);
	if (status != 0)
		return status;
	*session = select_session_new(self, hlp_receive, hlp_type, lls, (uint32_t)procedure);
	if (*session == NULL) {
		xk_close(lls);
		return -ENOMEM;
	}
	return 0;
}

/* A procedure is served for everybody. 0 or -errno. */
static int
select_enable_key_of(struct xk_participants *participants, struct xk_key *key)
{
	uint64_t procedure = xk_participant_pop(&participants->local);

	if (procedure > UINT32_MAX)
		return -EINVAL;
	if (participants->local.depth != 0 || participants->remote.depth != 0)
		return -EOPNOTSUPP;
	*key = select_passive_key((uint32_t)procedure);
	return 0;
}

static int
select_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		   struct xk_participants *participants)
{
	struct xk_key key;
	int status = select_enable_key_of(participants, &key);

	return status != 0 ? status : xk_enable_add(&select_of(self)->passive, key, hlp_receive, hlp_type);
}

/* Whether somebody still serves the session's procedure. */
static bool
select_is_wanted(struct xk_session *s, void *select)
{
	struct xk_key key = select_passive_key(select_session_of(s)->procedure);

	return xk_map_resolve(&((struct select *)select)->passive, key) != NULL;
}

static int
select_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		    struct xk_participants *participants)
{
	struct xk_key key;
	int status = select_enable_key_of(participants, &key);

	if (status == 0)
		status = xk_enable_remove(&select_of(self)->passive, key, hlp_receive, hlp_type);
	if (status == 0)
		xk_session_uncache(self, select_is_wanted, select_of(self));
	return status;
}

static bool
select_is_on_another(struct xk_session *s, void *lls)
{
	return s->lls != lls;
}

/* The channel is no more, and with it what was called through it. */
static void
select_close_done(struct xk_protocol *self, struct xk_session *session)
{
	xk_session_uncache(self, select_is_on_another, session);
}

/* ---- being called ---- */

/* A session for the first call of a procedure by lls. 0, or the reason to drop the call. */
static unsigned
select_accept(struct select *select, struct xk_session *lls, uint32_t procedure, struct xk_session **session)
{
	const struct xk_enable *enable = xk_map_resolve(&select->passive, select_passive_key(procedure));
	struct xk_session *s;

	if (enable == NULL || !xk_duplicate(lls))
		return XK_DROP_NO_SESSION;
	s = select_session_new(&select->protocol, enable->hlp_receive, enable->hlp_type, lls, procedure);
	if (s == NULL) {
		xk_close(lls);
		return XK_DROP_NO_SESSION;
	}
	select_session_of(s)->serves = true;
	if (xk_session_bind(s, &select->active, select_active_key(lls, procedure)) != 0) {
		xk_close(s);
		return XK_DROP_NO_SESSION;
	}
	if (xk_session_announce(s) != 0)
		return XK_DROP_REFUSED;
	*session = s;
	return 0;
}

/* A reply of nothing but a status. 0 or -ENOBUFS. */
static int
select_answer(struct xk_protocol *self, uint32_t procedure, uint32_t status, struct xk_msg **reply)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(self), 0);

	if (m != NULL && !select_header_push(&m, procedure, status)) {
		xk_msg_free(m);
		m = NULL;
	}
	*reply = m;
	return m == NULL ? -ENOBUFS : 0;
}

static int
select_call_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr, struct xk_msg **reply)
{
	uint32_t procedure = select_session_of(s)->procedure;
	int status = xk_call_demux(s, m, reply);

	xk_count(s->protocol, SELECT_SERVED);
	if (status != 0) {
		xk_count(s->protocol, SELECT_FAILED_COUNT);
		xk_msg_free(*reply);
		return select_answer(s->protocol, procedure, select_status_of(status), reply);
	}
	if (*reply == NULL)
		return select_answer(s->protocol, procedure, SELECT_OK, reply);
	if (select_header_push(reply, procedure, SELECT_OK))
		return 0;
	xk_drop(s->protocol, *reply, XK_DROP_NO_BUFFER);
	*reply = NULL;
	return -ENOBUFS;
}

static int
select_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	struct select *select = select_of(self);
	struct xk_session *s = NULL;
	struct select_header h;
	unsigned why = select_header_pop(&h, &m, false);

	if (why != 0) {
		xk_drop(self, m, why);
		return why == XK_DROP_NO_BUFFER ? -ENOBUFS : -EBADMSG;
	}
	s = xk_map_resolve(&select->active, select_active_key(lls, h.procedure));
	if (s == NULL)
		why = select_accept(select, lls, h.procedure, &s);
	if (why == 0)
		return xk_call_pop(s, lls, m, &h, reply);
	xk_drop(self, m, why);
	return select_answer(self, h.procedure, why == XK_DROP_REFUSED ? SELECT_REFUSED : SELECT_NO_PROCEDURE, reply);
}

/* ---- calling ---- */

/* What an answer says: 0 and *reply without its header, or -errno and NULL. */
static int
select_open_reply(struct select_session *ss, struct xk_msg **reply)
{
	struct xk_msg *m = *reply;
	struct select_header h;
	unsigned why = select_header_pop(&h, &m, true);
	int status;

	*reply = NULL;
	if (why == 0 && h.procedure != ss->procedure)
		why = SELECT_BAD_REPLY;
	if (why != 0) {
		xk_drop(ss->session.protocol, m, why);
		return why == XK_DROP_NO_BUFFER ? -ENOBUFS : -EBADMSG;
	}
	status = select_error_of(h.status);
	if (status == 0)
		*reply = m;
	else
		xk_msg_free(m);
	return status;
}

/* m with its header. 0; otherwise m is gone. */
static int
select_prepare(struct select_session *ss, struct xk_msg **m)
{
	xk_count(ss->session.protocol, SELECT_CALLED);
	if (select_header_push(m, ss->procedure, SELECT_CALL))
		return 0;
	xk_drop(ss->session.protocol, *m, XK_DROP_NO_BUFFER);
	return -ENOBUFS;
}

static int
select_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	struct select_session *ss = select_session_of(s);
	int status = select_prepare(ss, &m);

	if (status == 0)
		status = xk_call(s->lls, m, reply);
	return status != 0 ? status : select_open_reply(ss, reply);
}

static void
select_list(struct select *select, struct select_call *c)
{
	xk_lock(&select->lock);
	c->next = select->calls;
	c->at = &select->calls;
	if (c->next != NULL)
		c->next->at = &c->next;
	select->calls = c;
	xk_unlock(&select->lock);
}

static void
select_unlist(struct select *select, struct select_call *c)
{
	xk_lock(&select->lock);
	*c->at = c->next;
	if (c->next != NULL)
		c->next->at = c->at;
	xk_unlock(&select->lock);
	free(c);
}

static void
select_done(struct xk_call *call, int status, struct xk_msg *reply)
{
	struct select_call *c = xk_container_of(call, struct select_call, call);
	struct select_session *ss = c->session;
	struct xk_call *users = c->users;

	select_unlist(select_of(ss->session.protocol), c);
	if (status == 0)
		status = select_open_reply(ss, &reply);
	users->done(users, status, reply);
	xk_session_release(&ss->session);
}

static int
select_call_async(struct xk_session *s, struct xk_msg *m, struct xk_call *call)
{
	struct select_session *ss = select_session_of(s);
	struct select_call *c = calloc(1, sizeof(*c));
	int status;

	if (c == NULL || !xk_duplicate(s)) {
		free(c);
		xk_drop(s->protocol, m, XK_DROP_NO_SESSION);
		return -ENOMEM;
	}
	*c = (struct select_call){ .call.done = select_done, .users = call, .session = ss };
	select_list(select_of(s->protocol), c);
	status = select_prepare(ss, &m);
	if (status == 0)
		status = xk_call_async(s->lls, m, &c->call);
	if (status != 0) {
		select_unlist(select_of(s->protocol), c);
		xk_session_release(s);
	}
	return status;
}

/* ---- asking ---- */

static int
select_control(struct xk_session *s, int op, void *buffer, size_t len)
{
	uint32_t below;
	int got;

	if (op != XK_GET_MAX_PACKET && op != XK_GET_OPT_PACKET)
		return -ENOTSUP;
	got = xk_control(s->lls, op, &below, sizeof(below));
	if (got < 0)
		return got;
	below -= below < SELECT_HEADER_LEN ? below : SELECT_HEADER_LEN;
	return xk_answer(buffer, len, &below, sizeof(below));
}

static int
select_get_participants(struct xk_session *s, struct xk_participants *participants)
{
	const struct select_session *ss = select_session_of(s);

	return xk_participant_push(ss->serves ? &participants->local : &participants->remote, ss->procedure) ? 0
													     : -E2BIG;
}

/* ---- tables ---- */

static const struct xk_session_ops select_session_ops = {
	.call = select_call,
	.call_async = select_call_async,
	.call_pop = select_call_pop,
	.control = select_control,
	.get_participants = select_get_participants,
};

static const struct xk_protocol_ops select_ops = {
	.init = select_init,
	.fini = select_fini,
	.open = select_open,
	.open_enable = select_open_enable,
	.open_disable = select_open_disable,
	.close_done = select_close_done,
	.call_demux = select_call_demux,
};

static const struct xk_role select_lowers[] = {
	{ "calls", XK_RPC, NULL, "carries calls to hosts: chan, vchan" },
	{ NULL, 0, NULL, NULL },
};

static const char *const select_drops[] = { "bad_status", "bad_reply", NULL };
static const char *const select_counters[] = { "called", "served", "failed", NULL };

static const struct xk_number_on select_numbers[] = { { "chan", 2 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_select = {
	.name = "select",
	.help = "Procedures by number: which of them a call is for, and errors carried back.",
	.ops = &select_ops,
	.session_ops = &select_session_ops,
	.size = sizeof(struct select),
	.offers = XK_RPC,
	.lowers = select_lowers,
	.numbers = select_numbers,
	.drops = select_drops,
	.counters = select_counters,
	.session_max = 1024,
};
