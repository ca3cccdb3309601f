/* tcp_options.c - see tcp_private.h. */
#include "protocols/tcp/tcp_private.h"

bool
tcp_options_parse(struct tcp_options *options, const uint8_t *p, size_t len)
{
	bool is_good = tcp_options_load(options, p, len);

	if (options->scale > TCP_SCALE_MAX) /* RFC 7323, 2.3 */
		options->scale = TCP_SCALE_MAX;
	return is_good;
}

unsigned
tcp_segment_read(struct tcp_segment *segment, struct xk_msg *m)
{
	const uint8_t *p = m->data - TCP_HEADER_LEN;
	const struct tcp_header h = tcp_load(p);
	size_t options = xk_options_len(&tcp_option_list, p, m->len);

	if (options == SIZE_MAX)
		return TCP_BAD_OFFSET;
	if (!tcp_options_parse(&segment->options, m->data, options))
		return TCP_BAD_OPTIONS;
	xk_msg_pop_in_place(m, options);
	segment->sequence = h.sequence;
	segment->acknowledgement = h.acknowledgement;
	segment->window = h.window;
	segment->flags = h.flags;
	segment->header = (uint8_t)(4 * h.offset);
	segment->len = (uint32_t)xk_msg_len(m);
	segment->end = h.sequence + segment->len + ((h.flags & TCP_SYN) != 0) + ((h.flags & TCP_FIN) != 0);
	return 0;
}
