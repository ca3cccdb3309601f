/* receive.c - see receive.h. */
#include "xkernel/receive.h"

#include "xkernel/checksum.h"
#include "xkernel/protocol.h"
#include "xkernel/trace.h"

/* ---- up ---- */

/* Returns the reason to drop payload m, whose checksum is wrong. */
XK_APART static unsigned
receive_why_bad(struct xk_protocol *self, const struct xk_msg *m, uint64_t pseudo_sum)
{
	const struct xk_format *format = &self->format;

	if (!xk_sum_is_left(pseudo_sum + xk_sum_of16((uint16_t)(xk_msg_len(m) + format->len)),
			    m->data - format->len + format->sum_at))
		return XK_DROP_BAD_CHECKSUM;
	if (!atomic_exchange_explicit(&self->has_advised, true, memory_order_relaxed))
		xk_trace(self, XK_TRACE_NONE,
			 "messages arrive whose sender left the checksum to a device that does not exist, and are "
			 "dropped (unsummed): `ethtool -K NAME tx off` at the sender's end");
	return XK_DROP_UNSUMMED;
}

void
xk_receive_pop_summed(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, uint64_t sum)
{
	if (xk_sum_is_intact(sum + xk_msg_sum_segments(m)))
		xk_pop(s, lls, m, NULL);
	else
		xk_drop(s->protocol, m, receive_why_bad(s->protocol, m, s->sends.pop_sum));
}

XK_APART void
xk_receive_pop_summed_on(struct xk_session *s, struct xk_msg *m, uint64_t sum)
{
	if (xk_likely(xk_sum_is_intact(sum + xk_msg_sum_segments(m))))
		xk_pop_on(s, m);
	else
		xk_drop(s->protocol, m, receive_why_bad(s->protocol, m, s->sends.pop_sum));
}

/* Stores the passive key of a stranger's message. Returns 0, or the reason to drop it, as `validate`. */
static unsigned
receive_validate(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_key *passive)
{
	const struct xk_format *format = &self->format;
	const uint8_t *p = m->data - format->len;
	size_t bit = 0;

	*passive = xk_table_number_key(format->end_len == 2 ? xk_get16(p + format->local_at) : 0);
	for (const struct xk_field *f = self->type->fields; f->name != NULL; bit += f->bits, f++)
		if (f->is_upper)
			*passive = xk_table_number_key((uint32_t)xk_field_load(f, p, bit));
	return self->ops->validate == NULL ? XK_DROP_NONE : self->ops->validate(self, lls, m, passive);
}

/*
 * Returns whether m, a stranger's, is accepted: `why` is no reason to drop it, and passive is enabled. Takes m if not.
 */
static bool
receive_is_wanted(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_key passive,
		  unsigned why)
{
	if (why == XK_DROP_NONE && xk_table_enabled(self, passive) == NULL) {
		if (self->ops->refused != NULL)
			self->ops->refused(self, lls, m);
		why = XK_DROP_NO_SESSION;
	}
	if (why != XK_DROP_NONE && why != XK_DROP_TAKEN)
		xk_drop(self, m, why);
	return why == XK_DROP_NONE;
}

bool
xk_receive_accept(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_key passive;
	unsigned why = receive_validate(self, lls, m, &passive);

	return receive_is_wanted(self, lls, m, passive, why);
}

/* Makes a session for m, a stranger's, whose header was checked and lies in front of it. NULL: m was taken. */
static struct xk_session *
receive_accept(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_key key)
{
	const uint8_t *p = m->data - self->format.len;
	uint64_t push_sum, pop_sum, sum;
	struct xk_key passive;
	unsigned why = receive_validate(self, lls, m, &passive);
	struct xk_session *s;

	if (why == XK_DROP_NONE && self->format.sum_covers == XK_COVERS_PSEUDO) {
		if (xk_sends_pseudo_sums(self, lls, &push_sum, &pop_sum) != 0)
			why = XK_DROP_NO_SESSION;
		else if ((sum = xk_receive_sum_headers(&self->format, m, pop_sum)) != 0 &&
			 !xk_sum_is_intact(sum + xk_msg_sum(m)))
			why = receive_why_bad(self, m, pop_sum);
	}
	if (why == XK_DROP_NONE && self->ops->stranger != NULL) {
		self->ops->stranger(self, lls, m, key, passive);
		return NULL;
	}
	if (!receive_is_wanted(self, lls, m, passive, why))
		return NULL;
	s = xk_table_accept(self, key, passive, lls, p, m);
	/* another shepherd was faster, with a message from another session below */
	if (s != NULL && !xk_receive_is_from(s, lls))
		s = xk_table_accept(self, xk_receive_key(self, lls, p), passive, lls, p, m);
	return s;
}

void
xk_receive_checked(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_key key = xk_receive_key(self, lls, m->data - self->format.len);
	struct xk_session *s = xk_table_lookup(self, key);

	if (xk_receive_is_from(s, lls))
		xk_receive_pop(&self->format, s, lls, m);
	else if ((s = receive_accept(self, lls, m, key)) != NULL)
		xk_pop(s, lls, m, NULL);
}

void
xk_receive_usual(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	unsigned why = xk_receive_check(&self->format, m);

	if (why != XK_DROP_NONE) {
		xk_drop(self, m, why);
		return;
	}
	xk_msg_pop_in_place(m, self->format.len);
	xk_receive_checked(self, lls, m);
}

/* Validates m as a stranger's, although it may have a session. Takes m. */
static void
receive_unusual(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	unsigned why = xk_receive_check(&self->format, m);
	struct xk_key passive;

	if (why == XK_DROP_NONE) {
		xk_msg_pop_in_place(m, self->format.len);
		why = receive_validate(self, lls, m, &passive);
	}
	if (why == XK_DROP_NONE)
		xk_receive_checked(self, lls, m);
	else if (why != XK_DROP_TAKEN)
		xk_drop(self, m, why);
}

void
xk_receive_slow(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	if (self->ops->slow_path != NULL)
		self->ops->slow_path(self, lls, m);
	else if (self->ops->validate == NULL || xk_format_is_usual(&self->format, &self->format, m->data))
		xk_receive_usual(self, lls, m);
	else
		receive_unusual(self, lls, m);
}

/* ---- down ---- */

int
xk_send_slow(struct xk_session *s, struct xk_msg *m)
{
	const struct xk_format *format = &s->protocol->format;
	const struct xk_sends *sends = &s->sends;
	size_t len = xk_msg_len(m);
	bool offloads = sends->offloads, sums = sends->sums;
	uint32_t whole;

	if (len > sends->longest) {
		xk_drop(s->protocol, m, XK_DROP_TOO_BIG);
		return -EMSGSIZE;
	}
	if (len > atomic_load_explicit(&sends->whole, memory_order_relaxed) && s->ops->divide != NULL)
		return s->ops->divide(s, m);
	if (offloads) { /* queried each time, because the path MTU may change */
		offloads = xk_control(s->lls, XK_GET_OPT_PACKET, &whole) >= 0 && len + format->len <= whole;
		sums = !offloads;
	}
	return xk_send_header_as(format, s, m, sums, sums ? xk_msg_sum(m) : 0, offloads);
}
