/* sends.c - what a new session puts into its header: see receive.h. */
#include "xkernel/checksum.h"
#include "xkernel/platform.h"
#include "xkernel/receive.h"

int
xk_sends_pseudo_sums(const struct xk_protocol *self, struct xk_session *lls, uint64_t *push_sum, uint64_t *pop_sum)
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
		err = xk_sends_pseudo_sums(s->protocol, s->lls, &sends->push_sum, &sends->pop_sum);
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
