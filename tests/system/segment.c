/* segment.c - TCP's header and options under another name, so that dissectors show them beside Wireshark's own. */
#include "protocols/tcp/tcp_private.h"

XK_FIELDS(tcp, TCP_HEADER);

static int
segment_init(struct xk_protocol *self)
{
	return -ENOTSUP;
}

static const struct xk_protocol_ops segment_ops = { .init = segment_init };

const struct xk_protocol_type xk_type_segment = {
	.name = "segment",
	.help = "No protocol: a header to be shown.",
	.ops = &segment_ops,
	.header = TCP_HEADER_LEN,
	.fields = tcp_fields,
	.options = &tcp_option_list,
	.size = sizeof(struct xk_protocol),
	.numbers = XK_NUMBERS({ "ip", XK_TCP_NUMBER }),
};
