/* rig_call.c - calls (the RPC realm) of fake users and through fake wires; see rig.h. */
#include "tests/rig_private.h"

/* ---- through wires ---- */

static struct rig *
rig_of(const struct xk_session *s)
{
	return rig_fake_of(s->protocol)->rig;
}

static void
rig_pend(struct rig *r, struct rig_pending *pending)
{
	struct rig_pending **at = &r->pending;

	while (*at != NULL)
		at = &(*at)->next;
	*at = pending;
}

/* Records the call as sent, or drops it if sending fails: returns true. Takes m. */
static bool
rig_refuses_call(struct xk_session *s, struct xk_msg *m)
{
	struct rig *r = rig_of(s);

	if (r->fail_sending != 0)
		xk_drop(s->protocol, m, XK_DROP_NO_BUFFER);
	else
		rig_list_add(&r->sent, m, s->protocol->name, s);
	return r->fail_sending != 0;
}

int
rig_wire_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	struct rig_pending pending = { .call = NULL };

	if (rig_refuses_call(s, m))
		return rig_of(s)->fail_sending;
	xk_semaphore_init(&pending.answered, s->protocol, 0);
	rig_pend(rig_of(s), &pending);
	CHECK_EQ(xk_semaphore_wait(&pending.answered, XK_UNTIL_SIGNALLED), 0);
	*reply = pending.reply;
	return pending.status;
}

int
rig_wire_call_async(struct xk_session *s, struct xk_msg *m, struct xk_call *call)
{
	struct rig_pending *pending;

	if (rig_refuses_call(s, m))
		return rig_of(s)->fail_sending;
	pending = rig_alloc(sizeof(*pending));
	pending->call = call;
	rig_pend(rig_of(s), pending);
	return 0;
}

static void
rig_do_end_call(void *argument)
{
	struct rig_pending *pending = argument, copy = *pending;

	if (copy.call == NULL) {
		xk_semaphore_signal(&pending->answered);
		return;
	}
	free(pending);
	xk_call_done(copy.call, copy.status, copy.reply);
}

static struct xk_msg *
rig_message_of(struct rig *r, const char *text)
{
	struct rig_hex *hex = rig_hex_parse(text);
	struct xk_msg *m = rig_message(r, NULL, 0, hex);

	free(hex);
	return m;
}

unsigned
rig_calls_waiting(struct rig *r)
{
	unsigned count = 0;

	for (const struct rig_pending *pending = r->pending; pending != NULL; pending = pending->next)
		count++;
	return count;
}

void
rig_end_call(struct rig *r, int status, const char *text)
{
	struct rig_pending *pending = r->pending;

	REQUIRE(pending != NULL);
	r->pending = pending->next;
	pending->status = status;
	pending->reply = status == 0 ? rig_message_of(r, text) : NULL;
	REQUIRE(rig_do(r, rig_do_end_call, pending));
}

/* ---- by users ---- */

static void
rig_call_ended(struct rig_calling *calling, int status, struct xk_msg *reply)
{
	CHECK_EQ(calling->status, -EINPROGRESS);
	calling->status = status;
	CHECK_EQ(reply != NULL, status == 0);
	if (reply != NULL)
		rig_list_add(&calling->rig->delivered, reply, "reply", calling->session);
}

static void
rig_call_done(struct xk_call *call, int status, struct xk_msg *reply)
{
	rig_call_ended(xk_container_of(call, struct rig_calling, call), status, reply);
}

static void
rig_do_call(void *argument)
{
	struct rig_calling *calling = argument;
	struct xk_msg *reply = NULL;
	int status;

	if (calling->is_async)
		status = xk_call_async(calling->session, calling->m, &calling->call);
	else
		status = xk_call(calling->session, calling->m, &reply);
	if (!calling->is_async || status != 0)
		rig_call_ended(calling, status, reply);
}

static unsigned
rig_call_start(struct rig *r, struct xk_session *s, const char *text, bool is_async)
{
	struct rig_calling *calling = &r->calls[r->call_count];

	REQUIRE(r->call_count < RIG_CALLS);
	*calling = (struct rig_calling){ { .done = rig_call_done }, r,        s,
					 rig_message_of(r, text),   is_async, -EINPROGRESS };
	rig_do(r, rig_do_call, calling);
	return r->call_count++;
}

unsigned
rig_call(struct rig *r, struct xk_session *s, const char *text)
{
	return rig_call_start(r, s, text, false);
}

unsigned
rig_call_async(struct rig *r, struct xk_session *s, const char *text)
{
	return rig_call_start(r, s, text, true);
}

int
rig_call_status(struct rig *r, unsigned number)
{
	REQUIRE(number < r->call_count);
	return r->calls[number].status;
}

int
rig_user_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	struct rig *r = rig_fake_of(self)->rig;

	rig_list_add(&r->delivered, m, self->name, lls);
	if (r->served_status == 0 && r->served != NULL)
		*reply = rig_message_of(r, r->served);
	return r->served_status;
}

void
rig_serve(struct rig *r, int status, const char *text)
{
	r->served_status = status;
	r->served = text;
}

struct rig_incoming {
	struct rig *rig;
	struct xk_session *session;
	struct xk_msg *m;
	int status;
};

static void
rig_do_inject_call(void *argument)
{
	struct rig_incoming *in = argument;
	struct xk_msg *reply = NULL;

	if (in->session == NULL)
		in->session = in->rig->wire->newest;
	if (in->session == NULL)
		in->session = rig_wire_accept(in->rig->wire);
	CHECK(in->session != NULL);
	if (in->session == NULL) {
		xk_msg_free(in->m);
		return;
	}
	in->status = xk_call_demux(in->session, in->m, &reply);
	CHECK_EQ(reply != NULL, in->status == 0);
	if (reply != NULL)
		rig_list_add(&in->rig->sent, reply, "reply", in->session);
}

int
rig_inject_call(struct rig *r, struct xk_session *s, const char *text)
{
	struct rig_incoming in = { r, s, rig_message_of(r, text), -EINPROGRESS };

	REQUIRE(rig_do(r, rig_do_inject_call, &in));
	return in.status;
}

/* ---- the end of sessions ---- */

static void
rig_do_close_done(void *argument)
{
	xk_close_done(argument);
}

void
rig_close_done(struct rig *r, struct xk_session *s)
{
	REQUIRE(rig_do(r, rig_do_close_done, s));
}

unsigned
rig_close_done_count(struct rig *r)
{
	return r->close_dones;
}
