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
 *               session, or there was no memory for it; -EBADMSG: the reply made no sense. What a handler returned is the
 *               caller's error, too; but what could be taken for the fate of the call itself (-ETIMEDOUT, say, of a call
 *               that the handler made) reaches it as -EREMOTEIO. A handler's failure is a reply: the call has been run,
 *               once.
 * Drops:        of calls no_session (no such procedure), refused, bad_status; of replies bad_reply (of another procedure),
 *               bad_status
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
	struct xk_lock lock; /* of what follows */
	struct select_call *calls;
};

/* Only sessions of who is called are in the table: what is opened is the opener's alone. */
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

static const struct xk_field_value select_statuses[] = {
	{ SELECT_CALL, "call" },       { SELECT_OK, "ok" },
	{ SELECT_FAILED, "failed" },   { SELECT_NO_PROCEDURE, "no_procedure" },
	{ SELECT_REFUSED, "refused" }, { 0, NULL },
};

static const struct xk_field select_fields[] = {
	{ .name = "procedure", .bits = 32, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX },
	{ .name = "status",
	  .bits = 32,
	  .kind = XK_VARIES,
	  .values = select_statuses,
	  .help = "256 and more: an errno" },
	{ .name = NULL },
};

struct select_header {
	uint32_t procedure, status;
};

/* Takes the header off m and checks it. 0, or the reason to drop m. */
static inline unsigned
select_header_pop(struct select_header *h, struct xk_msg *m, bool is_reply)
{
	h->procedure = xk_get32(m->data + SELECT_AT_PROCEDURE);
	h->status = xk_get32(m->data + SELECT_AT_STATUS);
	xk_msg_pop_in_place(m, SELECT_HEADER_LEN);
	if ((h->status == SELECT_CALL) == is_reply || h->status > SELECT_ERRNO_MAX ||
	    (h->status > SELECT_REFUSED && h->status <= SELECT_ERRNO))
		return SELECT_BAD_STATUS;
	return 0;
}

static void
select_header_store(uint8_t *p, uint32_t procedure, uint32_t status)
{
	xk_put32(p + SELECT_AT_PROCEDURE, procedure);
	xk_put32(p + SELECT_AT_STATUS, status);
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

/* Who calls a procedure that nobody serves is to hear that, so that calls are wanted from the beginning. */
static int
select_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	xk_lock_init(&select_of(self)->lock, self);
	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

/* Those who called without waiting are not told when the kernel ends, and neither is SELECT. */
static void
select_fini(struct xk_protocol *self)
{
	struct select *select = select_of(self);

	while (select->calls != NULL) {
		struct select_call *c = select->calls;

		select->calls = c->next;
		xk_session_release(&c->session->session);
		free(c);
	}
}

/* ---- sessions ---- */

static struct xk_key
select_key(const struct xk_session *lls, uint32_t procedure)
{
	return (struct xk_key){ (uintptr_t)lls, procedure };
}

/* Of who is called. */
static int
select_setup(struct xk_session *s, const void *procedure)
{
	select_session_of(s)->procedure = *(const uint32_t *)procedure;
	select_session_of(s)->serves = true;
	return 0;
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
	*session = xk_session_new(self, self->type->session_ops, hlp_receive, hlp_type, lls);
	if (*session == NULL) {
		xk_close(lls);
		return -ENOMEM;
	}
	select_session_of(*session)->procedure = (uint32_t)procedure;
	return 0;
}

/* A procedure is served for everybody. */
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

/* The channel is no more, and with it what was called through it. */
static void
select_close_done(struct xk_protocol *self, struct xk_session *session)
{
	xk_session_uncache(self, select_is_on_another, session);
}

/* ---- being called ---- */

/* A reply of nothing but a status. 0 or -ENOBUFS. */
static int
select_answer(struct xk_protocol *self, uint32_t procedure, uint32_t status, struct xk_msg **reply)
{
	*reply = xk_msg_new(xk_platform_of(self), SELECT_HEADER_LEN);
	if (*reply == NULL)
		return -ENOBUFS;
	select_header_store((*reply)->data, procedure, status);
	return 0;
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
	*reply = xk_push_header(s, *reply, SELECT_HEADER_LEN);
	if (*reply == NULL)
		return -ENOBUFS;
	select_header_store((*reply)->data, procedure, SELECT_OK);
	return 0;
}

/* The first call of a procedure by lls, whose header lies in front of m. */
XK_APART static int
select_accept(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	uint32_t procedure = xk_get32(m->data - SELECT_HEADER_LEN + SELECT_AT_PROCEDURE);
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

/* What an answer says: 0 and *reply without its header, or -errno and NULL. */
static int
select_open_reply(struct select_session *ss, struct xk_msg **reply)
{
	struct xk_msg *m = *reply;
	struct select_header h;
	unsigned why = select_header_pop(&h, m, true);
	int status;

	*reply = NULL;
	if (why == 0 && h.procedure != ss->procedure)
		why = SELECT_BAD_REPLY;
	if (why != 0) {
		xk_drop(ss->session.protocol, m, why);
		return -EBADMSG;
	}
	status = select_error_of(h.status);
	if (status == 0)
		*reply = m;
	else
		xk_msg_free(m);
	return status;
}

/* m with its header. NULL: m was dropped. */
static struct xk_msg *
select_prepare(struct xk_session *s, struct xk_msg *m)
{
	xk_count(s->protocol, SELECT_CALLED);
	m = xk_push_header(s, m, SELECT_HEADER_LEN);
	if (m != NULL)
		select_header_store(m->data, select_session_of(s)->procedure, SELECT_CALL);
	return m;
}

static int
select_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	int status;

	m = select_prepare(s, m);
	if (m == NULL)
		return -ENOBUFS;
	status = xk_call(s->lls, m, reply);
	return status != 0 ? status : select_open_reply(select_session_of(s), reply);
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
	xk_call_done(users, status, reply);
	xk_session_release(&ss->session);
}

static int
select_call_async(struct xk_session *s, struct xk_msg *m, struct xk_call *call)
{
	struct select *select = select_of(s->protocol);
	struct select_call *c = calloc(1, sizeof(*c));
	int status = -ENOBUFS;

	if (c == NULL || !xk_duplicate(s)) {
		free(c);
		xk_drop(s->protocol, m, XK_DROP_NO_SESSION);
		return -ENOMEM;
	}
	c->call.done = select_done;
	c->call.protocol = s->protocol;
	c->users = call;
	c->session = select_session_of(s);
	select_list(select, c);
	m = select_prepare(s, m);
	if (m != NULL)
		status = xk_call_async(s->lls, m, &c->call);
	if (status != 0) {
		select_unlist(select, c);
		xk_session_release(s);
	}
	return status;
}

/* ---- asking ---- */

static int
select_get_participants(struct xk_session *s, struct xk_participants *participants)
{
	const struct select_session *ss = select_session_of(s);
	struct xk_participant *of = ss->serves ? &participants->local : &participants->remote;

	return xk_participant_push(of, ss->procedure) ? 0 : -E2BIG;
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
	.header = SELECT_HEADER_LEN,
	.fields = select_fields,
	.size = sizeof(struct select),
	.offers = XK_RPC,
	.lowers = select_lowers,
	.numbers = select_numbers,
	.drops = select_drops,
	.counters = select_counters,
	.session_max = 1024,
};
