/*
 * path.h - paths: all layers of a conversation as one comparison on receive and one header on send.
 *
 * XK_PATH declares a common stack of headers (protocols/paths.c). Once a conversation through such a stack is open, the
 * framework composes its layers into a path, from the fields of their headers (header.h) and what each session sends
 * (xk_sends in upi.h):
 *
 *   up    The bytes that are fixed or name sessions are compared under a mask, lengths and checksums are checked, and
 *         the message is popped to the topmost session (the path's top).
 *   down  All headers are copied at once, and lengths, numbers and checksums filled in.
 *
 * A top with work of its own (BID must check its peer's boot) has functions for it in its paths' code (XK_PATH_TO_OWN).
 * If the top's header varies (TCP), the path calls its pop, once for all consecutive frames of a burst, and the top sends
 * by xk_path_push_below (XK_PATH_TO_POP).
 *
 * A path lets messages skip the layers between, and changes nothing else. Unusual messages (fragments, options) go layer
 * by layer; so do all messages while an edge between is marked or watched, or a virtual
 * protocol's session between is marked. The second message of a conversation makes its path; if no conversation of its
 * kind has one yet, one of the next few does. A stranger's single message costs no more than a lookup.
 *
 * The compiler knows a declared stack's headers, so the code below becomes as good as code written by hand. Code for
 * any stack would take more instructions than the layers themselves, which are compiled for their headers too.
 *
 * Source: Mosberger and Peterson, "Making Paths Explicit in the Scout Operating System" (OSDI 1996).
 */
#ifndef XK_PATH_H
#define XK_PATH_H

#include "xkernel/platform.h"
#include "xkernel/receive.h"
#include "xkernel/upi.h"

enum {
	XK_PATH_BYTES = 96, /* of the longest headers, compared in pieces; the last two may overlap */
	XK_PATH_PIECE = 16,
	XK_PATH_FILLS = 2, /* headers with lengths, numbers or checksums */
	XK_PATH_WORDS = 4, /* of 8 bytes, which hold the fields that name sessions */
	XK_PATH_MORE = 40, /* bytes of options that must be in one piece with the header of a top that pops messages */
};

/* The layout of a path's headers, as its code needs it. */
struct xk_path_layout {
	uint8_t len;    /* of all headers */
	uint8_t top;    /* of the top's, if it pops messages itself; else 0 */
	uint8_t own_at; /* the top's header, if it has work of its own; 0: it has none */
	uint8_t fills;
	uint8_t fill_at[XK_PATH_FILLS];
	struct xk_format fill[XK_PATH_FILLS]; /* lowest first; the last may have a checksum over what follows */
};

/* Handles a message whose headers are not those of the path. Takes m. */
typedef void xk_path_mismatch(struct xk_port *port, struct xk_msg *m);

/*
 * The work of a session at which a path ends. Both return false if the message must go layer by layer, and must not
 * wait.
 *
 * xk_path_pop: m is the whole frame, p the session's header in it, state what path_state (upi.h) returned when the path
 * was made. True: the sessions that m would come up still exist. May annotate m, but changes nothing else: m may still
 * go layer by layer, as all messages without a payload do. xk_path_push: m is the payload; p, in front of it, holds
 * sends.header, to be completed.
 */
typedef bool xk_path_pop(struct xk_session *s, struct xk_msg *m, const uint8_t *p, uint64_t state);
typedef bool xk_path_push(struct xk_session *s, struct xk_msg *m, uint8_t *p);

/* What the top of a path does itself. */
enum xk_path_top {
	XK_PATH_PASSES, /* nothing: messages go on to the protocol above */
	XK_PATH_OWN,    /* xk_path_pop and xk_path_push; it has path_state */
	XK_PATH_POPS,   /* its pop, which gets lists of messages by link, and the headers of what it sends */
};

/* The code of paths through a stack of headers. */
struct xk_path_code {
	const struct xk_protocol_type *const *types; /* with a header, lowest first; NULL ends the list */
	void (*deliver)(struct xk_port *port, struct xk_msg *m, const struct xk_path *path, xk_path_mismatch *mismatch);
	int (*push)(struct xk_session *s, struct xk_msg *m, const struct xk_path *path);
	enum xk_path_top top;
};

/* The common part of all paths through the same protocols. Once published, only the version changes. */
struct xk_path_pattern {
	_Alignas(64) uint8_t mask[XK_PATH_BYTES]; /* piece by piece */
	uint64_t prefilter_mask, prefilter;       /* of the 8 bytes at prefilter_at, in which other messages differ */
	_Atomic uint32_t version;
	uint8_t prefilter_at;
	uint8_t words;
	struct {
		uint64_t mask, factor;
		size_t at;
	} word[XK_PATH_WORDS];
	struct xk_path_code code;
	struct xk_protocol *top; /* the protocol */
	struct xk_path_layout layout;
};

/* A path. With short headers, a received message touches the first two cache lines, and a sent one the last two. */
struct xk_path {
	_Alignas(64) struct xk_binding binding; /* in map, the table of its port */
	bool is_bound;
	struct xk_map *map;
	struct xk_path *next; /* to the same session, from another port */
	struct xk_session *top;
	const _Atomic bool *unusual_up;

	_Alignas(64) _Atomic uint32_t version;
	bool sums, offloads; /* as the top's `sends` */
	uint64_t pop_sum;
	uint8_t value[XK_PATH_BYTES]; /* as the pattern's mask */
	uint64_t state;               /* for the top's own work */

	_Alignas(16) uint8_t header[XK_PATH_BYTES]; /* as sent, at the end */
	const struct xk_path_pattern *pattern;
	struct xk_session *below; /* the port's session */

	struct {
		uint64_t sum; /* of what is the same in each message */
		_Atomic uint16_t *number;
	} fill[XK_PATH_FILLS];
	const _Atomic uint32_t *valid;
	const _Atomic bool *unusual;
	const _Atomic uint32_t *whole; /* limit of a payload plus `less`: of the layer that adapts, or longest */
	uint32_t less;
	_Atomic uint32_t longest;
};

/* Delivers m from port by its path or layer by layer. Takes m. A shepherd; may hand off. For the engine. */
void xk_path_deliver(struct xk_port *port, struct xk_msg *m);

/* The same, layer by layer, without looking for a path. */
static inline void
xk_path_deliver_unsampled(struct xk_port *port, struct xk_msg *m)
{
	uint32_t left = atomic_load_explicit(&port->unsampled, memory_order_relaxed);

	/* with several drivers, it may be 0 by now; then one count is lost */
	atomic_store_explicit(&port->unsampled, left - (left > 0), memory_order_relaxed);
	xk_demux(port->receiver, m);
}

/*
 * Prefetches what the paths of a burst of up to XK_BURST messages will touch, and stores where they are. Returns false
 * if there are too few paths for this to gain anything. The driver, before it delivers the burst.
 */
bool xk_path_expect(struct xk_port *port, struct xk_msg *const burst[], unsigned count, struct xk_map_place places[]);

/* As xk_path_deliver, after xk_path_expect. */
void xk_path_deliver_expected(struct xk_port *port, struct xk_msg *m, struct xk_map_place place);

/*
 * Pushes m, which begins with the header of s, to the session below s: by the path of s, if it has one. For protocols
 * whose paths are XK_PATH_TO_POP. Takes m. As xk_push.
 */
int xk_path_push_below(struct xk_session *s, struct xk_msg *m);

/* Returns the number of port's frames that went up a path; approximate while it runs. For statistics. */
uint64_t xk_paths_taken(const struct xk_port *port);

/* Make port's table, and free it. xk_paths_init returns 0 or -ENOMEM. When nothing runs. */
int xk_paths_init(struct xk_port *port, struct xk_kernel *kernel);
void xk_paths_fini(struct xk_port *port);

/* ---- declaring a stack ---- */

/*
 * Adds the next header, whose fields fit (xk_format), to a layout. top: what the path's top does, if it is that one's;
 * else XK_PATH_PASSES. Returns false if the layout has no room for it.
 */
__attribute__((always_inline)) static inline bool
xk_path_add(struct xk_path_layout *layout, const struct xk_format *format, enum xk_path_top top)
{
	bool fills = format->length_len != 0 || format->number_step != 0 || format->sum_covers != 0;
	bool has_last = layout->fills > 0 && layout->fill[layout->fills - 1].sum_covers == XK_COVERS_PSEUDO;

	if (layout->len + format->len > XK_PATH_BYTES || layout->own_at != 0 || has_last ||
	    (fills && layout->fills == XK_PATH_FILLS))
		return false;
	if (top == XK_PATH_OWN)
		layout->own_at = layout->len;
	if (top == XK_PATH_POPS)
		layout->top = format->len;
	if (fills) {
		layout->fill_at[layout->fills] = layout->len;
		layout->fill[layout->fills++] = *format;
	}
	layout->len = (uint8_t)(layout->len + format->len);
	return true;
}

#ifdef XK_FORMAT_IS_KNOWN
#define XK_KNOWN_LAYOUT(name, path) name##_layout()
#else
#define XK_KNOWN_LAYOUT(name, path) (path)->pattern->layout
#endif

/*
 * Defines xk_path_NAME, the code of paths through these types; NAME_layout() returns the layout of their headers. The
 * type at which they end refers to it (path_code). XK_PATH_TO_OWN: the top's own work is pop and push.
 */
#define XK_PATH(name, ...) XK_PATH_CODE(name, XK_PATH_PASSES, NULL, NULL, __VA_ARGS__)
#define XK_PATH_TO_OWN(name, own_pop, own_push, ...) XK_PATH_CODE(name, XK_PATH_OWN, own_pop, own_push, __VA_ARGS__)
#define XK_PATH_TO_POP(name, ...) XK_PATH_CODE(name, XK_PATH_POPS, NULL, NULL, __VA_ARGS__)
#define XK_PATH_CODE(name, kind, own_pop, own_push, ...)                                                               \
	XK_APART static void name##_deliver(struct xk_port *port, struct xk_msg *m, const struct xk_path *path,        \
					    xk_path_mismatch *mismatch)                                                \
	{                                                                                                              \
		const struct xk_path_layout layout = XK_KNOWN_LAYOUT(name, path);                                      \
		xk_path_deliver_as(&layout, kind, own_pop, port, m, path, mismatch);                                   \
	}                                                                                                              \
	XK_APART static int name##_push(struct xk_session *s, struct xk_msg *m, const struct xk_path *path)            \
	{                                                                                                              \
		const struct xk_path_layout layout = XK_KNOWN_LAYOUT(name, path);                                      \
		return xk_path_push_as(&layout, kind, own_push, s, m, path);                                           \
	}                                                                                                              \
	static const struct xk_protocol_type *const name##_types[] = { __VA_ARGS__, NULL };                            \
	const struct xk_path_code xk_path_##name = { name##_types, name##_deliver, name##_push, kind }

#define XK_PATH_INLINE __attribute__((always_inline, unused)) static inline

/* Delivers m layer by layer. Takes m. */
void xk_path_deliver_by_layers(struct xk_port *port, struct xk_msg *m);

/*
 * Returns the frame behind the last one of the burst that the caller carries from port, as the driver; NULL: none.
 * xk_path_take takes it.
 */
struct xk_msg *xk_path_peek(const struct xk_port *port);
void xk_path_take(void);

/* Shows m, which s pushes with all its headers, to the watchers of the edge above the port. */
void xk_path_show(struct xk_session *s, struct xk_msg *m, const struct xk_path *path);

static inline unsigned
xk_path_pieces(const struct xk_path_layout *layout)
{
	return (layout->len + XK_PATH_PIECE - 1u) / XK_PATH_PIECE;
}

/* Returns the offset of a piece of the headers: the last piece ends with them. */
static inline unsigned
xk_path_piece_at(const struct xk_path_layout *layout, unsigned piece)
{
	unsigned at = piece * XK_PATH_PIECE, last = layout->len - XK_PATH_PIECE;

	return at < last ? at : last;
}

/* Returns whether m's headers are those of path. */
XK_PATH_INLINE bool
xk_path_matches(const struct xk_path_layout *layout, const struct xk_path *path, const struct xk_msg *m)
{
	typedef uint64_t piece __attribute__((vector_size(XK_PATH_PIECE)));
	piece differs = { 0 }, bytes, mask, value;

	if (xk_unlikely(m->len < layout->len ||
			(layout->top != 0 && m->next != NULL && m->len < (size_t)layout->len + XK_PATH_MORE)))
		return false;
#pragma GCC unroll 6
	for (unsigned i = 0; i < xk_path_pieces(layout); i++) {
		memcpy(&bytes, m->data + xk_path_piece_at(layout, i), XK_PATH_PIECE);
		memcpy(&mask, path->pattern->mask + i * XK_PATH_PIECE, XK_PATH_PIECE);
		memcpy(&value, path->value + i * XK_PATH_PIECE, XK_PATH_PIECE);
		differs |= (bytes & mask) ^ value;
	}
	return (differs[0] | differs[1]) == 0;
}

/*
 * Returns the length of m by its headers, if all lengths and the headers' own checksums are right; 0: they are not, or
 * the layers must decide.
 */
XK_PATH_INLINE size_t
xk_path_length(const struct xk_path_layout *layout, const struct xk_msg *m)
{
	size_t end = xk_msg_len(m);

#pragma GCC unroll 2
	for (unsigned i = 0; i < XK_PATH_FILLS; i++) {
		const struct xk_format *format = &layout->fill[i];
		const uint8_t *p = m->data + layout->fill_at[i];

		if (i == layout->fills)
			break;
		if (format->length_len != 0) {
			size_t claimed = layout->fill_at[i] + xk_receive_length(format, p, 0);

			if (xk_unlikely(claimed != end) && (claimed > end || claimed < layout->len || m->next != NULL))
				return 0;
			end = claimed;
		}
		if (!xk_receive_header_is_intact(format, p, m))
			return 0;
	}
	return layout->own_at != 0 && end == layout->len ? 0 : end;
}

/* Returns whether the sum over payload m, whose headers lie in front of it, is right, or was verified. */
XK_PATH_INLINE bool
xk_path_is_intact(const struct xk_format *last, const struct xk_msg *m, const struct xk_path *path)
{
	uint64_t sum = xk_receive_sum_headers(last, m, path->pop_sum);

	return sum == 0 || xk_sum_is_intact(sum + xk_msg_sum(m));
}

/* Links to m, which came by path, the frames of the burst that follow it and come by path as well. */
XK_PATH_INLINE void
xk_path_gather(const struct xk_path_layout *layout, struct xk_port *port, struct xk_msg *m, const struct xk_path *path)
{
	const struct xk_format *last = &layout->fill[layout->fills == 0 ? 0 : layout->fills - 1];
	struct xk_msg *next;
	size_t end;

	while ((next = xk_path_peek(port)) != NULL && xk_path_matches(layout, path, next) &&
	       (end = xk_path_length(layout, next)) != 0) {
		if (end != xk_msg_len(next))
			xk_msg_cut_in_place(next, end);
		xk_msg_pop_in_place(next, layout->len);
		if (!xk_path_is_intact(last, next, path)) { /* dropped when its turn comes */
			xk_msg_push_in_place(next, layout->len);
			return;
		}
		xk_path_take();
		if (XK_IS_DEBUG)
			xk_msg_pops(next, path->top->protocol);
		next->link = NULL;
		m->link = next;
		m = next;
	}
}

/* Delivers m by path, if its headers are those of path and nothing else is unusual. Takes m. */
XK_PATH_INLINE void
xk_path_deliver_as(const struct xk_path_layout *layout, enum xk_path_top kind, xk_path_pop *own_pop,
		   struct xk_port *port, struct xk_msg *m, const struct xk_path *path, xk_path_mismatch *mismatch)
{
	const struct xk_format *last = &layout->fill[layout->fills == 0 ? 0 : layout->fills - 1];
	size_t end = 0;
	uint64_t sum;

	if (xk_unlikely(!xk_path_matches(layout, path, m))) {
		mismatch(port, m);
		return;
	}
	/* unusual_up is in one of the sessions that messages came up: only own_pop knows whether these still exist */
	if ((own_pop == NULL || xk_likely(own_pop(path->top, m, m->data + layout->own_at, path->state))) &&
	    xk_likely(!atomic_load_explicit(path->unusual_up, memory_order_relaxed)))
		end = xk_path_length(layout, m);
	if (xk_unlikely(end == 0)) {
		xk_path_deliver_by_layers(port, m);
		return;
	}
	if (xk_unlikely(end != xk_msg_len(m)))
		xk_msg_cut_in_place(m, end);
	xk_msg_pop_in_place(m, layout->len);
	if (kind == XK_PATH_POPS) {
		m->link = NULL;
		if (xk_unlikely(!xk_path_is_intact(last, m, path))) {
			xk_receive_pop(last, path->top, path->top->lls, m);
			return;
		}
		xk_path_gather(layout, port, m, path);
		xk_pop(path->top, path->top->lls, m, NULL);
		return;
	}
	sum = layout->fills == 0 ? 0 : xk_receive_sum_headers(last, m, path->pop_sum);
	if (sum == 0 || xk_receive_is_intact_short(last, m, sum))
		xk_pop_on(path->top, m);
	else
		xk_receive_pop_summed_on(path->top, m, sum);
}

/* Pushes m layer by layer, from the top of a path on. Takes m. */
XK_PATH_INLINE int
xk_path_push_by_layers(enum xk_path_top kind, struct xk_session *s, struct xk_msg *m)
{
	return kind == XK_PATH_POPS ? xk_push(s->lls, m) : s->protocol->type->session_ops->push(s, m);
}

/* Returns the layout of the headers that m lacks: all, or those below the top's. */
XK_PATH_INLINE struct xk_path_layout
xk_path_pushed(const struct xk_path_layout *all, enum xk_path_top kind)
{
	struct xk_path_layout layout = *all;

	if (kind == XK_PATH_POPS) {
		layout.len = (uint8_t)(all->len - all->top);
		if (all->fills > 0 && all->fill_at[all->fills - 1] == layout.len)
			layout.fills--;
	}
	return layout;
}

/* Pushes m with the headers that it lacks, or layer by layer if it is unusual. Takes m. */
XK_PATH_INLINE int
xk_path_push_as(const struct xk_path_layout *all, enum xk_path_top kind, xk_path_push *own_push, struct xk_session *s,
		struct xk_msg *m, const struct xk_path *path)
{
	const struct xk_path_layout layout = xk_path_pushed(all, kind);
	bool has_sum = layout.fills > 0 && layout.fill[layout.fills - 1].sum_covers == XK_COVERS_PSEUDO;
	bool sums = has_sum && path->sums;
	size_t len = xk_msg_len(m), has = all->len - layout.len; /* bytes of headers */
	uint8_t *end, *p;
	uint64_t sum;

	if (xk_unlikely(atomic_load_explicit(&path->version, memory_order_relaxed) !=
				atomic_load_explicit(path->valid, memory_order_relaxed) ||
			atomic_load_explicit(path->unusual, memory_order_relaxed) ||
			len + path->less > atomic_load_explicit(path->whole, memory_order_relaxed) + has ||
			!xk_msg_has_room(m, xk_path_pieces(&layout) * XK_PATH_PIECE)))
		return xk_path_push_by_layers(kind, s, m);
	sum = sums ? xk_msg_sum(m) : 0;
	end = m->data;
	p = end - layout.len;
#pragma GCC unroll 6
	for (unsigned i = xk_path_pieces(&layout); i > 0; i--)
		memcpy(end - i * XK_PATH_PIECE, path->header + XK_PATH_BYTES - has - i * XK_PATH_PIECE, XK_PATH_PIECE);
	if (own_push != NULL && xk_unlikely(!own_push(s, m, p + layout.own_at)))
		return xk_path_push_by_layers(kind, s, m);
	xk_msg_push_in_place(m, layout.len);
#pragma GCC unroll 2
	for (unsigned i = 0; i < XK_PATH_FILLS; i++)
		if (i < layout.fills)
			xk_send_fill(&layout.fill[i], p + layout.fill_at[i], len + layout.len - layout.fill_at[i],
				     path->fill[i].number, path->fill[i].sum, sums, sum, has_sum && path->offloads);
	if (xk_unlikely(xk_edge_watched(path->below->up, XK_WATCH_OWNER | XK_WATCH_SINK)) || XK_IS_DEBUG)
		xk_path_show(s, m, path);
	return path->below->ops->push(path->below, m);
}

#endif
