/* tcp_options.c - see tcp_private.h. */
#include <string.h>

#include "protocols/tcp/tcp_private.h"
#include "xkernel/bytes.h"

enum tcp_option {
	TCP_OPTION_END = 0,
	TCP_OPTION_NONE = 1,
	TCP_OPTION_MSS = 2,
	TCP_OPTION_SCALE = 3,
	TCP_OPTION_MAY_SACK = 4,
	TCP_OPTION_SACK = 5,
	TCP_OPTION_STAMP = 8,
};

/* Takes one option, of len bytes with kind and length. Unknown ones are ignored. Returns false if the length is wrong. */
static bool
tcp_option_parse(struct tcp_options *options, const uint8_t *p, size_t len)
{
	switch (p[0]) {
	case TCP_OPTION_MSS:
		if (len != 4)
			return false;
		options->mss = xk_get16(p + 2);
		return true;
	case TCP_OPTION_SCALE:
		if (len != 3)
			return false;
		options->has_scale = true;
		options->scale = p[2] < TCP_SCALE_MAX ? p[2] : TCP_SCALE_MAX; /* RFC 7323, 2.3 */
		return true;
	case TCP_OPTION_MAY_SACK:
		options->may_sack = true;
		return len == 2;
	case TCP_OPTION_SACK:
		if (len < 10 || (len - 2) % 8 != 0)
			return false;
		for (size_t at = 2; at < len && options->sack_count < TCP_SACKS; at += 8)
			options->sacks[options->sack_count++] =
				(struct tcp_range){ xk_get32(p + at), xk_get32(p + at + 4) };
		return true;
	case TCP_OPTION_STAMP:
		if (len != 10)
			return false;
		options->has_stamp = true;
		options->stamp = xk_get32(p + 2);
		options->echo = xk_get32(p + 6);
		return true;
	default:
		return true;
	}
}

bool
tcp_options_parse(struct tcp_options *options, const uint8_t *p, size_t len)
{
	*options = (struct tcp_options){ .mss = 0 };
	for (size_t at = 0; at < len && p[at] != TCP_OPTION_END;) {
		size_t option = 1;

		if (p[at] != TCP_OPTION_NONE) {
			if (len - at < 2 || p[at + 1] < 2 || p[at + 1] > len - at)
				return false;
			option = p[at + 1];
			if (!tcp_option_parse(options, p + at, option))
				return false;
		}
		at += option;
	}
	return true;
}

size_t
tcp_options_store(uint8_t p[TCP_OPTIONS_MAX], const struct tcp_options *options)
{
	uint8_t *to = p;

	if (options->mss != 0) {
		*to++ = TCP_OPTION_MSS;
		*to++ = 4;
		xk_put16(to, options->mss);
		to += 2;
	}
	if (options->may_sack) {
		*to++ = TCP_OPTION_MAY_SACK;
		*to++ = 2;
	}
	if (options->has_stamp) {
		if (!options->may_sack) {
			*to++ = TCP_OPTION_NONE;
			*to++ = TCP_OPTION_NONE;
		}
		*to++ = TCP_OPTION_STAMP;
		*to++ = 10;
		xk_put32(to, options->stamp);
		xk_put32(to + 4, options->echo);
		to += 8;
	} else if (options->may_sack) {
		*to++ = TCP_OPTION_NONE;
		*to++ = TCP_OPTION_NONE;
	}
	if (options->has_scale) {
		*to++ = TCP_OPTION_NONE;
		*to++ = TCP_OPTION_SCALE;
		*to++ = 3;
		*to++ = options->scale;
	}
	if (options->sack_count > 0) {
		*to++ = TCP_OPTION_NONE;
		*to++ = TCP_OPTION_NONE;
		*to++ = TCP_OPTION_SACK;
		*to++ = (uint8_t)(2 + 8 * options->sack_count);
		for (unsigned i = 0; i < options->sack_count; i++, to += 8) {
			xk_put32(to, options->sacks[i].begin);
			xk_put32(to + 4, options->sacks[i].end);
		}
	}
	return (size_t)(to - p);
}

unsigned
tcp_segment_read(struct tcp_segment *segment, struct xk_msg *m)
{
	const uint8_t *p = m->data - TCP_HEADER_LEN;
	const struct tcp_header h = tcp_load(p);
	size_t options = 4 * (size_t)h.offset - TCP_HEADER_LEN;

	if (h.offset < TCP_HEADER_LEN / 4 || options > m->len)
		return TCP_BAD_OFFSET;
	if (!tcp_options_parse(&segment->options, m->data, options))
		return TCP_BAD_OPTIONS;
	xk_msg_pop_in_place(m, options);
	segment->sequence = h.sequence;
	segment->acknowledgement = h.acknowledgement;
	segment->window = h.window;
	segment->flags = h.flags;
	segment->len = (uint32_t)xk_msg_len(m);
	segment->end = h.sequence + segment->len + ((h.flags & TCP_SYN) != 0) + ((h.flags & TCP_FIN) != 0);
	return 0;
}
