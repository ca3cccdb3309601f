/* receive.c - see receive.h. */
#include "xkernel/receive.h"

#include "xkernel/checksum.h"
#include "xkernel/platform.h"
#include "xkernel/protocol.h"
#include "xkernel/trace.h"

/* ---- up ---- */

struct xk_key
xk_receive_key(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	if (self->ops->key != NULL)
		return self->ops->key(self, lls, p);
	return xk_receive_key_by_fields(&self->format, lls, p);
}

struct xk_session *
xk_receive_find(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	struct xk_session *s = xk_table_find(self, xk_receive_key(self, lls, p));

	return xk_receive_hears(s, lls) ? s : NULL;
}

/* Returns the reason to drop payload m, whose checksum is wrong. */
XK_APART static unsigned
receive_why_bad(struct xk_protocol *self, const struct xk_msg *m, uint64_t pseudo_sum)
{
	const struct xk_format *format = &self->format;

	if (!xk_sum_is_left(pseudo_sum + xk_sum_of16((uint16_t)(xk_msg_len(m) + format->len)),
			    m->data - format->len + format->sum_at))
		return XK_DROP_BAD_CHECKSUM;
	if (!atomic_exchange_explicit(&self->has_told, true, memory_order_relaxed))
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

/* Stores the passive key of a stranger's message. Returns 0, or the reason to drop it, as `judge`. */
static unsigned
receive_judge(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_key *passive)
{
	const struct xk_format *format = &self->format;
	const uint8_t *p = m->data - format->len;
	size_t bit = 0;

	*passive = xk_table_number_key(xk_get16(p + format->local_at));
	for (const struct xk_field *f = self->type->fields; f->name != NULL; bit += f->bits, f++)
		if (f->is_upper)
			*passive = xk_table_number_key((uint32_t)xk_field_load(f, p, bit));
	return self->ops->judge == NULL ? XK_DROP_NONE : self->ops->judge(self, lls, m, passive);
}

/* Returns whether anybody wants m, a stranger's, about which `why` is known. Takes m if not. */
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
xk_receive_judge(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_key passive;
	unsigned why = receive_judge(self, lls, m, &passive);

	return receive_is_wanted(self, lls, m, passive, why);
}

static int receive_pseudo_sums(const struct xk_protocol *self, struct xk_session *lls, uint64_t *push_sum,
			       uint64_t *pop_sum);

/* Makes a session for m, a stranger's, whose header was checked and lies in front of it. Returns NULL: m was taken. */
static struct xk_session *
receive_accept(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_key key)
{
	const uint8_t *p = m->data - self->format.len;
	uint64_t push_sum, pop_sum, sum;
	struct xk_key passive;
	unsigned why = receive_judge(self, lls, m, &passive);
	struct xk_session *s;

	if (why == XK_DROP_NONE && self->format.sum_covers == XK_COVERS_PSEUDO) {
		if (receive_pseudo_sums(self, lls, &push_sum, &pop_sum) != 0)
			why = XK_DROP_NO_SESSION;
		else if ((sum = xk_receive_sum_headers(&self->format, m, pop_sum)) != 0 &&
			 !xk_sum_is_intact(sum + xk_msg_sum(m)))
			why = receive_why_bad(self, m, pop_sum);
	}
	if (!receive_is_wanted(self, lls, m, passive, why))
		return NULL;
	s = xk_table_accept(self, key, passive, lls, p, m);
	/* another shepherd was faster, with a message that came up another session below */
	if (s != NULL && !xk_receive_hears(s, lls))
		s = xk_table_accept(self, xk_receive_key(self, lls, p), passive, lls, p, m);
	return s;
}

void
xk_receive_checked(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_key key = xk_receive_key(self, lls, m->data - self->format.len);
	struct xk_session *s = xk_table_lookup(self, key);

	if (xk_receive_hears(s, lls))
		xk_receive_pop(&self->format, s, lls, m);
	else if ((s = receive_accept(self, lls, m, key)) != NULL)
		xk_pop(s, lls, m, NULL);
}

unsigned
xk_receive_check(const struct xk_protocol *self, struct xk_msg *m)
{
	const struct xk_format *format = &self->format;
	size_t length = xk_receive_length(format, m->data, xk_msg_len(m));

	if (length < format->len || length > xk_msg_len(m))
		return XK_DROP_BAD_LENGTH;
	if (!xk_receive_header_is_intact(format, m->data, m))
		return XK_DROP_BAD_CHECKSUM;
	xk_msg_truncate(m, length);
	return XK_DROP_NONE;
}

void
xk_receive_usual(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	unsigned why = xk_receive_check(self, m);

	if (why != XK_DROP_NONE) {
		xk_drop(self, m, why);
		return;
	}
	xk_msg_pop_in_place(m, self->format.len);
	xk_receive_checked(self, lls, m);
}

void
xk_receive_other(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	if (self->ops->rare != NULL &&
	    (!xk_format_is_usual(&self->format, &self->format, m->data) || (m->flags & XK_MSG_TO_ALL) != 0))
		self->ops->rare(self, lls, m);
	else
		xk_receive_usual(self, lls, m);
}

/* ---- down ---- */

int
xk_send_other(struct xk_session *s, struct xk_msg *m)
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
	if (offloads) { /* asked each time, because the path's MTU may change */
		offloads =
			xk_control(s->lls, XK_GET_OPT_PACKET, &whole, sizeof(whole)) >= 0 && len + format->len <= whole;
		sums = !offloads;
	}
	return xk_send_header_as(format, s, m, sums, sums ? xk_msg_sum(m) : 0, offloads);
}

/* ---- sessions ---- */

/* Stores the sums of lls's pseudo-headers in both directions, without lengths. Returns 0 or -errno. */
static int
receive_pseudo_sums(const struct xk_protocol *self, struct xk_session *lls, uint64_t *push_sum, uint64_t *pop_sum)
{
	uint64_t local, remote, destination, number = xk_sum_of16(self->format.sum_pseudo);
	int err = xk_control(lls, XK_GET_MY_HOST, &local, sizeof(local));

	if (err >= 0)
		err = xk_control(lls, XK_GET_PEER_HOST, &remote, sizeof(remote));
	if (err < 0)
		return err;
	if (xk_control(lls, XK_GET_DESTINATION, &destination, sizeof(destination)) < 0)
		destination = local;
	*push_sum = xk_sum_of32((uint32_t)local) + xk_sum_of32((uint32_t)remote) + number;
	*pop_sum = xk_sum_of32((uint32_t)remote) + xk_sum_of32((uint32_t)destination) + number;
	return 0;
}

/* Stores what is the same in each header that s sends: what it receives, with the ends exchanged. */
static void
sends_header(struct xk_session *s, const uint8_t *p)
{
	const struct xk_protocol_type *type = s->protocol->type;
	const struct xk_format *format = &s->protocol->format;
	uint8_t *to = s->sends.header;
	size_t at = 0;

	for (const struct xk_field *f = type->fields; f->name != NULL; at += f->bits, f++)
		if (f->end == XK_END_REMOTE)
			xk_bits_store(to, 8 * (size_t)format->local_at, f->bits, xk_field_load(f, p, at));
		else if (f->end == XK_END_LOCAL)
			xk_bits_store(to, 8 * (size_t)format->remote_at, f->bits, xk_field_load(f, p, at));
		else if (f->kind == XK_NAMES_SESSION)
			xk_bits_store(to, at, f->bits, xk_field_load(f, p, at));
		else if (f->usual != 0)
			xk_bits_store(to, at, f->bits, f->usual);
}

int
xk_sends_init(struct xk_session *s, const uint8_t *p)
{
	const struct xk_format *format = &s->protocol->format;
	struct xk_sends *sends = &s->sends;
	uint32_t below = 0, offloads, most = format->length_len == 2 ? UINT16_MAX : UINT32_MAX;
	int err = 0;

	xk_assert(format->len <= XK_SENDS_HEADER);
	sends_header(s, p);
	if (format->length_len != 0)
		err = xk_control(s->lls, XK_GET_MAX_PACKET, &below, sizeof(below));
	if (err >= 0 && format->sum_covers == XK_COVERS_PSEUDO) {
		err = receive_pseudo_sums(s->protocol, s->lls, &sends->push_sum, &sends->pop_sum);
		sends->offloads = err >= 0 && xk_control(s->lls, XK_GET_OFFLOADS, &offloads, sizeof(offloads)) >= 0 &&
				  (offloads & XK_OFFLOAD_UDP_SUM) != 0;
		sends->sums = !sends->offloads;
	}
	if (err < 0)
		return err;
	if (format->length_len != 0 && below < format->len)
		return -EMSGSIZE;
	sends->is_path = s->ops->pop == xk_pop_through || s->ops->path_pop != NULL;
	if (s->protocol->ops->key != NULL && format->names[1].len == 0) /* which says it all */
		atomic_store_explicit(&sends->from_any, true, memory_order_relaxed);
	sends->longest = format->length_len == 0 ? UINT32_MAX : (below < most ? below : most) - format->len;
	atomic_store_explicit(&sends->whole, sends->longest, memory_order_relaxed);
	return 0;
}
