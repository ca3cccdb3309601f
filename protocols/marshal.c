/*
 * marshal.c - calls whose arguments and results are words in their sender's byte order: receiver makes right. The
 * caller writes its arguments in its own order; the receiver swaps them only if its own differs.
 *
 * Spec:         the idea is that of C. A. Thekkath and H. M. Levy, "Limits to Low-Latency Communication on High-Speed
 *               Networks" (1993), and of DCE's NDR. A header of 2 bytes: order of the words (0: big-endian, 1:
 *               little-endian), bytes of a word (1, 2, 4 or 8). Bytes after the last whole word are left as they are.
 * Participants: those of the protocol below, of which a server has none
 * Sessions:     one on each of the protocol below, for one protocol above
 * Errors:       those of the protocol below; -EBADMSG: a malformed reply; -ENOBUFS: none to swap words in
 * Not done:     words of different widths in one message; xk_call_async
 * Graph:        marshal -> chan; or marshal -> vchan, vchan -> chan
 */
#include <errno.h>

#include "xkernel/protocol.h"
#include "xkernel/trace.h"

#define MARSHAL_DROPS(D)                                                                                               \
	D(MARSHAL_BAD_ORDER, "bad_order")                                                                              \
	D(MARSHAL_BAD_WIDTH, "bad_width")
XK_DROPS(marshal, MARSHAL_DROPS);

#define MARSHAL_COUNTERS(C) C(MARSHAL_SWAPPED, "swapped")
XK_COUNTERS(marshal, MARSHAL_COUNTERS);

/* ---- the header ---- */

enum { MARSHAL_WIDTH_MAX = 8 };

enum marshal_order { MARSHAL_BIG, MARSHAL_LITTLE, MARSHAL_ORDERS };

enum { MARSHAL_OWN = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? MARSHAL_LITTLE : MARSHAL_BIG };

static const struct xk_field_value marshal_orders[] = {
	[MARSHAL_BIG] = { MARSHAL_BIG, "big" },
	[MARSHAL_LITTLE] = { MARSHAL_LITTLE, "little" },
	[MARSHAL_ORDERS] = { 0, NULL },
};

#define MARSHAL_HEADER(F)                                                                                              \
	F(8, order, .values = marshal_orders)                                                                          \
	F(8, width, .help = "bytes of a word")
XK_HEADER(marshal, MARSHAL_HEADER);
XK_FIELDS(marshal, MARSHAL_HEADER);

static bool
marshal_is_width(uint64_t width)
{
	return width != 0 && width <= MARSHAL_WIDTH_MAX && (width & (width - 1)) == 0;
}

/* Strips and checks the header of m. Returns 0, or the reason to drop m. */
static inline unsigned
marshal_header_pop(struct marshal_header *h, struct xk_msg *m)
{
	*h = marshal_load(m->data);
	xk_msg_pop_in_place(m, XK_HEADER_LEN(marshal));
	if (h->order >= MARSHAL_ORDERS)
		return MARSHAL_BAD_ORDER;
	return marshal_is_width(h->width) ? 0 : MARSHAL_BAD_WIDTH;
}

/* ---- state ---- */

struct marshal {
	struct xk_protocol protocol;
	/* settings */
	unsigned order; /* 0: this host's own, or 1 + enum marshal_order */
	uint64_t width;

	struct marshal_header sent; /* of every message */
};

static int
marshal_init(struct xk_protocol *self)
{
	struct marshal *marshal = (struct marshal *)self;
	struct xk_participants anybody = { .remote.depth = 0 };
	unsigned order = marshal->order == 0 ? MARSHAL_OWN : marshal->order - 1;

	if (!marshal_is_width(marshal->width)) {
		xk_trace(self, XK_TRACE_NONE, "width is 1, 2, 4 or 8");
		return -EINVAL;
	}
	marshal->sent = (struct marshal_header){ (uint8_t)order, (uint8_t)marshal->width };
	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

/* ---- what receivers do ---- */

/* Reverses the bytes of each whole word. */
static void
marshal_swap_words(uint8_t *bytes, size_t len, size_t width)
{
	for (; len >= width; bytes += width, len -= width)
		for (size_t i = 0; i < width / 2; i++) {
			uint8_t first = bytes[i];

			bytes[i] = bytes[width - 1 - i];
			bytes[width - 1 - i] = first;
		}
}

/*
 * Converts m, whose header was h, to this host's byte order. Takes m. Returns NULL if there was no buffer; m was
 * dropped.
 */
static struct xk_msg *
marshal_to_own_order(struct xk_protocol *self, struct xk_msg *m, const struct marshal_header *h)
{
	size_t len = xk_msg_len(m), room = XK_MSG_SEGMENT; /* of any segment, and a multiple of each width */
	struct xk_msg *own = NULL;

	if (xk_likely(h->order == MARSHAL_OWN) || h->width == 1 || len < h->width)
		return m;
	for (size_t at = 0; at < len; at += room) {
		size_t piece = len - at < room ? len - at : room;
		struct xk_msg *part = xk_msg_new(m->platform, piece);

		if (part == NULL) {
			xk_msg_free(own);
			xk_drop(self, m, XK_DROP_NO_BUFFER);
			return NULL;
		}
		xk_msg_copy_out(m, at, part->data, piece);
		marshal_swap_words(part->data, piece, h->width);
		if (own == NULL)
			own = part;
		else
			xk_msg_join(own, part);
	}
	xk_count(self, MARSHAL_SWAPPED);
	xk_msg_free(m);
	return own;
}

/* Strips the header of *m and converts the rest to this host's order. Takes *m. Returns 0, or -errno with *m NULL. */
static int
marshal_unseal(struct xk_protocol *self, struct xk_msg **m)
{
	struct marshal_header h;
	struct xk_msg *whole = *m;
	unsigned why = marshal_header_pop(&h, whole);

	*m = NULL;
	if (xk_unlikely(why != 0)) {
		xk_drop(self, whole, why);
		return -EBADMSG;
	}
	*m = marshal_to_own_order(self, whole, &h);
	return *m == NULL ? -ENOBUFS : 0;
}

/* Pushes the header on m. Returns NULL if m was dropped. */
static struct xk_msg *
marshal_seal(struct xk_session *s, struct xk_msg *m)
{
	const struct marshal *marshal = (const struct marshal *)s->protocol;

	m = xk_push_header(s, m, XK_HEADER_LEN(marshal));
	if (m != NULL)
		marshal_store(m->data, &marshal->sent);
	return m;
}

/* ---- sessions ---- */

static struct xk_key
marshal_key(const struct xk_session *lls)
{
	return (struct xk_key){ (uintptr_t)lls, 0 };
}

static int
marshal_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	     struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *lls;
	int err = xk_open(self, self, xk_lower(self, 0), participants, &lls);

	return err != 0 ? err : xk_table_open(self, marshal_key(lls), hlp_receive, hlp_type, lls, NULL, session);
}

/* Whatever protocol is above serves all calls. */
static int
marshal_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		    struct xk_key *key)
{
	if (participants->local.depth != 0 || participants->remote.depth != 0)
		return -EOPNOTSUPP;
	*key = xk_table_number_key(0);
	return 0;
}

static struct xk_key
marshal_passive_key_of(const struct xk_session *s)
{
	return xk_table_number_key(0);
}

static bool
marshal_is_on_another(struct xk_session *s, void *lls)
{
	return s->lls != lls;
}

/* The session of a channel ends with it. */
static void
marshal_close_done(struct xk_protocol *self, struct xk_session *session)
{
	xk_session_uncache(self, marshal_is_on_another, session);
}

/* ---- calls ---- */

static int
marshal_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	int status;

	m = marshal_seal(s, m);
	if (m == NULL)
		return -ENOBUFS;
	status = xk_call(s->lls, m, reply);
	return status != 0 ? status : marshal_unseal(s->protocol, reply);
}

static int
marshal_call_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr, struct xk_msg **reply)
{
	int err = xk_call_demux(s, m, reply);

	if (err != 0)
		return err;
	if (*reply == NULL)
		*reply = xk_msg_new(xk_platform_of(s->protocol), 0);
	if (*reply != NULL)
		*reply = marshal_seal(s, *reply);
	return *reply == NULL ? -ENOBUFS : 0;
}

static int
marshal_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	int err = marshal_unseal(self, &m);
	struct xk_session *s;

	if (err != 0)
		return err;
	s = xk_table_find(self, marshal_key(lls));
	if (xk_unlikely(s == NULL))
		s = xk_table_accept(self, marshal_key(lls), xk_table_number_key(0), lls, NULL, m);
	return s == NULL ? -ECONNREFUSED : xk_call_pop(s, lls, m, NULL, reply);
}

/* ---- tables ---- */

static const struct xk_session_ops marshal_session_ops = {
	.size = sizeof(struct xk_session),
	.call = marshal_call,
	.call_pop = marshal_call_pop,
};

static const struct xk_protocol_ops marshal_ops = {
	.init = marshal_init,
	.open = marshal_open,
	.passive_key = marshal_passive_key,
	.passive_key_of = marshal_passive_key_of,
	.close_done = marshal_close_done,
	.call_demux = marshal_call_demux,
};

static const struct xk_role marshal_lowers[] = {
	{ "calls", XK_RPC, NULL, "carries calls to hosts: chan, vchan" },
	{ NULL, 0, NULL, NULL },
};

static const char *const marshal_choices[] = { "own", "big", "little", NULL };

static const struct xk_setting marshal_settings[] = {
	XK_SETTING(CHOICE, struct marshal, order, "order", "byte order of the words sent", .choices = marshal_choices,
		   .initial = "own"),
	XK_SETTING(UINT, struct marshal, width, "width", "bytes of a word: 1, 2, 4 or 8", .initial = "4", .min = 1,
		   .max = MARSHAL_WIDTH_MAX),
	{ .name = NULL },
};

static const struct xk_number_on marshal_numbers[] = { { "chan", 3 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_marshal = {
	.name = "marshal",
	.help = "Calls with words in their sender's byte order; a receiver of another order swaps them.",
	.ops = &marshal_ops,
	.session_ops = &marshal_session_ops,
	.header = XK_HEADER_LEN(marshal),
	.fields = marshal_fields,
	.size = sizeof(struct marshal),
	.offers = XK_RPC,
	.lowers = marshal_lowers,
	.numbers = marshal_numbers,
	.settings = marshal_settings,
	.drops = marshal_drops,
	.counters = marshal_counters,
	.session_max = 1024,
};
