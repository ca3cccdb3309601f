/* upi.c - the slower verbs of upi.h. Sessions' lives are in upi_session.c, enables in table.c, drops in upi_drop.c. */
#include "xkernel/upi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "xkernel/engine/engine.h"
#include "xkernel/protocol.h"
#include "xkernel/trace.h"

/* ---- marks of edges ---- */

void
xk_edge_watch(struct xk_edge *edge, uint32_t which, uint32_t watch)
{
	atomic_fetch_or_explicit(&edge->watch, which & watch, memory_order_relaxed);
	atomic_fetch_and_explicit(&edge->watch, ~(which & ~watch), memory_order_relaxed);
	atomic_fetch_add_explicit(&edge->upper->kernel->path_version, 1, memory_order_release);
}

/* ---- open and the upcalls ---- */

int
xk_open(struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_protocol *llp,
	struct xk_participants *participants, struct xk_session **session)
{
	int status;

	xk_debug_unlocked("opens a session");
	*session = NULL;
	if (llp->ops->open == NULL)
		return -EOPNOTSUPP;
	status = llp->ops->open(llp, hlp_receive, hlp_type, participants, session);
	if (status != 0)
		*session = NULL;
	return status;
}

int
xk_open_done(struct xk_protocol *hlp_receive, struct xk_protocol *llp, struct xk_session *s,
	     struct xk_protocol *hlp_type)
{
	xk_trace(llp, XK_TRACE_EVENTS, "session opened for %s", hlp_receive->name);
	if (hlp_receive->ops->open_done == NULL)
		return 0;
	return hlp_receive->ops->open_done(hlp_receive, llp, s, hlp_type);
}

void
xk_close_done(struct xk_session *s)
{
	struct xk_protocol *hlp = xk_hlp_receive(s);

	if (hlp->ops->close_done != NULL)
		hlp->ops->close_done(hlp, s);
}

/* ---- new sessions ---- */

/* Returns the edge that messages cross from lower to upper, or to the protocol that lends lower's sessions. */
static struct xk_edge *
upi_edge(const struct xk_protocol *upper, const struct xk_protocol *lower)
{
	for (unsigned i = 0; i < upper->lower_count; i++)
		if (upper->lowers[i]->lower == lower)
			return upper->lowers[i];
	for (unsigned i = 0; i < upper->lower_count; i++) {
		const struct xk_protocol *lender = upper->lowers[i]->lower;

		if ((lender->type->flags & XK_LENDS) && upi_edge(lender, lower) != NULL)
			return upper->lowers[i];
	}
	return NULL;
}

static_assert(offsetof(struct xk_session, references) == 64 && offsetof(struct xk_session, sends) == 128 &&
		      sizeof(struct xk_session) == 192,
	      "a session's own state begins with the fourth cache line");

struct xk_session *
xk_session_new(struct xk_protocol *self, const struct xk_session_ops *ops, struct xk_protocol *hlp_receive,
	       struct xk_protocol *hlp_type, struct xk_session *lls)
{
	size_t size = ops->size == 0 ? sizeof(struct xk_session) : ops->size;
	struct xk_edge *up = upi_edge(hlp_receive, self);
	struct xk_session *s;

	xk_assert(up != NULL && size >= sizeof(*s));
	xk_assert(hlp_receive->ops->demux != NULL || hlp_receive->ops->call_demux != NULL);
	xk_assert(ops == self->type->session_ops || self->type->session_ops == NULL);
	size = (size + 63) & ~(size_t)63;
	s = aligned_alloc(64, size);
	if (s == NULL)
		return NULL;
	memset(s, 0, size);
	atomic_init(&s->ops, ops);
	s->pops = ops->pop == xk_pop_through ? 0 : ops->pop_is_last ? XK_POPS_LAST : XK_POPS_ITSELF;
	s->up = up;
	s->protocol = self;
	s->hlp_type = hlp_type;
	atomic_init(&s->references, 1);
	if (self->order_session) {
		s->order = malloc(sizeof(*s->order));
		if (s->order == NULL) {
			free(s);
			return NULL;
		}
		xk_semaphore_init(&s->order->turn, self, 1);
		s->pops |= XK_POPS_IN_ORDER;
	}
	s->lls = lls;
	if (xk_unlikely(self->shown_level >= XK_TRACE_EVENTS))
		xk_trace_session(s, true);
	return s;
}

int
xk_session_announce(struct xk_session *s)
{
	int status = xk_open_done(xk_hlp_receive(s), s->protocol, s, s->hlp_type);

	if (status != 0)
		xk_close(s);
	else
		xk_session_cache(s);
	return status;
}

/* ---- messages ---- */

/* Ends the newest hold of self. */
static inline void
upi_unhold(struct xk_shepherd_head *self, struct xk_hold *hold)
{
	self->holds = hold->below;
	if (xk_unlikely(hold->referenced))
		xk_hold_release(hold);
}

/* Pops for one shepherd at a time. */
XK_APART static void
upi_pop_in_order(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	if (xk_semaphore_wait(&s->order->turn, XK_UNTIL_SIGNALLED) == 0) {
		s->ops->pop(s, lls, m, hdr);
		xk_semaphore_signal(&s->order->turn);
	} else {
		xk_drop(s->protocol, m, XK_DROP_NO_STACK);
	}
}

/* Calls the session's pop, holding the session until it returns. */
XK_APART static void
upi_pop_held(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct xk_shepherd_head *self = xk_self_head();
	struct xk_hold hold = { self->holds, s, false };

	self->holds = &hold;
	if (xk_unlikely(s->pops & XK_POPS_IN_ORDER))
		upi_pop_in_order(s, lls, m, hdr);
	else
		s->ops->pop(s, lls, m, hdr);
	upi_unhold(xk_self_head(), &hold); /* read anew, which is cheaper than keeping a register */
}

void
xk_pop_within(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	xk_debug_unlocked("pops a message");
	xk_session_used(s);
	xk_self_head()->popped = s;
	if (s->pops == XK_POPS_LAST)
		s->ops->pop(s, lls, m, hdr);
	else
		upi_pop_held(s, lls, m, hdr);
}

void
xk_pop_through(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	xk_demux(s, m);
}

int
xk_reply_gather_slow(struct xk_protocol *self, struct xk_msg **reply)
{
	if (*reply == NULL)
		return self->type->header == 0 ? 0 : -EBADMSG;
	if (xk_header_gather(self, reply) == 0)
		return 0;
	*reply = NULL;
	return -EBADMSG; /* in either case, because the call was executed */
}

/* Not inlined, so that the fast path saves no registers. */
XK_APART static int
upi_call_watched(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	struct xk_meter_left left;
	int result;

	xk_cross(s, m, XK_DOWN, &left);
	result = s->ops->call(s, m, reply);
	if (result == 0) {
		xk_msg_disown(*reply);
		if (*reply != NULL && xk_edge_watched(s->up, XK_WATCH_SINK))
			xk_trace_replied(s, *reply, XK_UP);
	}
	xk_meter_leave(&left);
	return xk_reply_gather(xk_hlp_receive(s), result, reply);
}

int
xk_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	xk_debug_unlocked("calls");
	*reply = NULL;
	xk_debug_cross_down(s, m);
	if (s->ops->call == NULL) {
		xk_drop(s->protocol, m, XK_DROP_UNEXPECTED);
		return -EOPNOTSUPP;
	}
	if (xk_edge_watched(s->up, XK_WATCH_DOWN))
		return upi_call_watched(s, m, reply);
	return xk_reply_gather(xk_hlp_receive(s), xk_debug_reply(s->ops->call(s, m, reply), reply), reply);
}

/* As upi_call_watched. */
XK_APART static int
upi_call_async_watched(struct xk_session *s, struct xk_msg *m, struct xk_call *call)
{
	struct xk_meter_left left;
	int result;

	xk_cross(s, m, XK_DOWN, &left);
	result = s->ops->call_async(s, m, call);
	xk_meter_leave(&left);
	return result;
}

int
xk_call_async(struct xk_session *s, struct xk_msg *m, struct xk_call *call)
{
	xk_debug_unlocked("calls");
	xk_debug_cross_down(s, m);
	if (s->ops->call_async == NULL) {
		xk_drop(s->protocol, m, XK_DROP_UNEXPECTED);
		return -EOPNOTSUPP;
	}
	if (xk_edge_watched(s->up, XK_WATCH_DOWN))
		return upi_call_async_watched(s, m, call);
	return s->ops->call_async(s, m, call);
}

void
xk_call_done(struct xk_call *call, int status, struct xk_msg *reply)
{
	if (call->protocol != NULL)
		status = xk_reply_gather(call->protocol, status, &reply);
	call->done(call, status, reply);
}

int
xk_call_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr, struct xk_msg **reply)
{
	struct xk_shepherd_head *self = xk_self_head();
	struct xk_hold hold = { self->holds, s, false };
	int result;

	*reply = NULL;
	if (s->ops->call_pop == NULL) {
		xk_drop(s->protocol, m, XK_DROP_UNEXPECTED);
		return -EOPNOTSUPP;
	}
	xk_session_used(s);
	self->holds = &hold;
	self->popped = s;
	if (!(s->pops & XK_POPS_IN_ORDER)) {
		result = s->ops->call_pop(s, lls, m, hdr, reply);
	} else if ((result = xk_semaphore_wait(&s->order->turn, XK_UNTIL_SIGNALLED)) == 0) {
		result = s->ops->call_pop(s, lls, m, hdr, reply);
		xk_semaphore_signal(&s->order->turn);
	} else {
		xk_drop(s->protocol, m, XK_DROP_NO_STACK);
	}
	upi_unhold(self, &hold);
	return result;
}

/* ---- control ---- */

/* Subtracts the header of self from a length that was answered below. Returns as control operations do. */
static int
upi_less_header(const struct xk_protocol *self, int op, int answered, void *argument)
{
	uint32_t *length = argument;

	if (answered < 0 || (op != XK_GET_MAX_PACKET && op != XK_GET_OPT_PACKET))
		return answered;
	if (*length < self->type->header)
		return -EMSGSIZE;
	*length -= self->type->header;
	return answered;
}

/* Returns an end's address from the header that s sends, in which the ends are exchanged. */
static uint64_t
upi_end(const struct xk_session *s, enum xk_field_end end)
{
	const struct xk_format *format = &s->protocol->format;
	size_t at = end == XK_END_REMOTE ? format->local_at : format->remote_at;

	return xk_bits_load(s->sends.header, 8 * at, 8 * format->end_len);
}

/* Returns which end of s's header answers op, or XK_END_NONE. */
static enum xk_field_end
upi_end_of(const struct xk_session *s, int op)
{
	const struct xk_format *format = &s->protocol->format;
	unsigned print = format->end_len == 0 ? XK_PRINT_DECIMAL : format->end_print;

	if (op == XK_GET_PEER_LINK)
		return print == XK_PRINT_LINK ? XK_END_REMOTE : XK_END_NONE;
	if (print != XK_PRINT_HOST)
		return XK_END_NONE;
	return op == XK_GET_PEER_HOST ? XK_END_REMOTE : op == XK_GET_MY_HOST ? XK_END_LOCAL : XK_END_NONE;
}

int
xk_control_op(struct xk_session *s, int op, void *argument)
{
	int result = s->ops->control == NULL ? -ENOTSUP : s->ops->control(s, op, argument);
	enum xk_field_end end;

	if (result != -ENOTSUP)
		return result;
	end = upi_end_of(s, op);
	if (end != XK_END_NONE)
		*(uint64_t *)argument = upi_end(s, end);
	else if (op == XK_GET_MAX_PACKET && s->sends.longest != 0 && s->sends.longest != UINT32_MAX)
		*(uint32_t *)argument = s->sends.longest;
	else if (op == XK_GET_OPT_PACKET && s->ops->divide != NULL)
		*(uint32_t *)argument = atomic_load_explicit(&s->sends.whole, memory_order_relaxed);
	else if (s->lls == NULL)
		return xk_control_protocol_op(s->protocol, op, argument);
	else
		return upi_less_header(s->protocol, op, xk_control_op(s->lls, op, argument), argument);
	return 0;
}

int
xk_control_protocol_op(struct xk_protocol *self, int op, void *argument)
{
	int result = self->ops->control == NULL ? -ENOTSUP : self->ops->control(self, op, argument);

	if (result != -ENOTSUP || self->lower_count == 0)
		return result;
	return upi_less_header(self, op, xk_control_protocol_op(xk_lower(self, 0), op, argument), argument);
}

int
xk_get_participants(struct xk_session *s, struct xk_participants *participants)
{
	int result = 0;

	if (s->lls != NULL)
		result = xk_get_participants(s->lls, participants);
	else
		memset(participants, 0, sizeof(*participants));
	if (result != 0)
		return result;
	if (s->ops->get_participants != NULL)
		return s->ops->get_participants(s, participants);
	if (s->protocol->format.end_len != 0 &&
	    (!xk_participant_push(&participants->remote, upi_end(s, XK_END_REMOTE)) ||
	     !xk_participant_push(&participants->local, upi_end(s, XK_END_LOCAL))))
		return -E2BIG;
	return 0;
}

/* ---- numbers ---- */

/* Returns whether edge leads down to lower, directly or through virtual protocols. */
static bool
upi_leads_to(const struct xk_edge *edge, const struct xk_protocol *lower)
{
	if (edge->lower == lower)
		return true;
	if (!(edge->lower->type->flags & XK_VIRTUAL))
		return false;
	for (unsigned i = 0; i < edge->lower->lower_count; i++)
		if (upi_leads_to(edge->lower->lowers[i], lower))
			return true;
	return false;
}

bool
xk_number_find(const struct xk_protocol_type *upper, const struct xk_protocol_type *lower, uint32_t *number)
{
	for (const struct xk_number_on *on = upper->numbers; on != NULL && on->lower != NULL; on++) {
		if (strcmp(on->lower, lower->name) == 0) {
			*number = on->number;
			return true;
		}
	}
	return false;
}

int
xk_number(const struct xk_protocol *self, const struct xk_protocol *hlp_type, uint32_t *number)
{
	for (unsigned i = 0; i < hlp_type->lower_count; i++) {
		const struct xk_edge *edge = hlp_type->lowers[i];

		if (edge->has_number && upi_leads_to(edge, self)) {
			*number = edge->number;
			return 0;
		}
	}
	return xk_number_find(hlp_type->type, self->type, number) ? 0 : -ENOENT;
}
