/*
 * msg.h - the Message tool: pushes and pops headers, splits and joins messages, and never copies payload.
 *
 * A message is a chain of segments; the handle is its first one. Each segment is a view of some bytes of a
 * reference-counted buffer that the platform provides (platform.h): a DPDK mbuf, with the segment in its private area,
 * or malloc'ed memory in tests and simulation. So a port neither allocates nor copies.
 *
 * The protocol that is handed a message owns it: it passes the message on, stores it, frees it, or drops it for a named
 * reason. A function that may replace the first segment takes `struct xk_msg **` and stores the new handle; older
 * copies are stale.
 *
 * A header is pushed in place if the room in front is the view's own. At most one view of a buffer has such room: the
 * first, up to the bytes that it shares with others. On any other view, a header gets a segment of its own: the room
 * before a fragment is its neighbour's payload, and a retransmitted message may still lie in a transmit ring with its
 * first headers.
 *
 * A message can also show a program's own bytes (xk_msg_lend). Nothing may write to these, so its headers get segments
 * of their own.
 *
 * All functions run in any context, and none waits. One shepherd at a time uses a message; messages may share buffers.
 *
 * Source: the x-kernel manual's Message tool, with explicit ownership. Its "hidden owner of the header stack" is the
 * view whose own_end is not before its data.
 */
#ifndef XK_MSG_H
#define XK_MSG_H

#include "xkernel/base.h"
#include "xkernel/checksum.h"
#include "xkernel/owner.h"

struct xk_platform;
struct xk_protocol;

enum {
	XK_MSG_HEADROOM = 128, /* bytes in front of a new message, for headers */
	XK_MSG_SEGMENT = 2048, /* least payload bytes of a fresh segment */
	XK_MSG_MAX = 1 << 20,  /* bytes of the longest message: no length can wrap */
	XK_MSG_SHORT = 64,     /* bytes of the longest message that may use the host's reserve of buffers */
	XK_MSG_TRAIL = 8,      /* crossings that a message remembers in debug builds */
	XK_MSG_KEPT = 3,       /* segments that a struct xk_kept holds without buffers of its own */
};

enum xk_msg_flags {
	XK_MSG_NETWORK_SUM_GOOD = 1 << 0,   /* the port verified the network header's checksum */
	XK_MSG_TRANSPORT_SUM_GOOD = 1 << 1, /* the port verified the transport checksum */
	XK_MSG_TRACED = 1 << 2,             /* print this message's crossings */
	XK_MSG_TO_ALL = 1 << 3,             /* arrived as a link broadcast */
	XK_MSG_ANNOTATED = 1 << 4,          /* shifted left by a place: the annotation there is valid */
};

/*
 * Annotations carry facts about a message from one protocol to another, across layers that need not know them. There is
 * one place for each lifetime. The owning protocol defines kind (four characters, XK_KIND) and value in a header.
 * Unknown kinds are ignored, and a later annotation replaces the earlier one in its place. Annotations survive pushes,
 * pops and pull-ups, but neither splits nor joins.
 */
enum xk_annotation_place {
	XK_OF_PUSH,    /* until the push it was made for returns; not on references or delayed messages */
	XK_OF_MESSAGE, /* for the message's life, and on references to it */
	XK_ANNOTATIONS,
};

#define XK_KIND(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

struct xk_msg {
	uint8_t *data;                             /* first byte of this segment */
	uint32_t len;                              /* bytes of this segment */
	uint32_t total;                            /* bytes of the message; valid in its first segment */
	struct xk_msg *next;                       /* next segment, or NULL */
	struct xk_msg *tail;                       /* last segment; valid in the first */
	_Atomic uint16_t *references;              /* segments that view this buffer; never 1 for lent bytes */
	uint8_t *floor;                            /* the buffer's first byte, the limit of pushes in place */
	uint8_t *own_end;                          /* the bytes from floor to here are this view's: room for headers */
	struct xk_platform *platform;              /* the buffer's */
	uint8_t *ceiling;                          /* one past the buffer's last byte */
	struct xk_msg *link;                       /* for the owner's queues of messages */
	uint32_t id;                               /* number for traces; valid in the first segment */
	uint16_t flags;                            /* enum xk_msg_flags; valid in the first segment */
	uint32_t annotation_kinds[XK_ANNOTATIONS]; /* valid in the first segment, if flags says so */
	uint64_t annotations[XK_ANNOTATIONS];      /* their values */
	const struct xk_protocol *owner; /* current or last (owner.c); NULL: unknown, or not the first segment */
	uintptr_t given_up_at;           /* code address of the latest call that freed it */
#ifdef XK_DEBUG
	const struct xk_protocol *trail[XK_MSG_TRAIL]; /* the latest owners, a ring */
	unsigned crossings;
#endif
};

/* Returns whether m was freed, to detect mistakes: a freed segment has no references and no length until its reuse. */
static inline bool
xk_msg_is_given_up(const struct xk_msg *m)
{
	return atomic_load_explicit(m->references, memory_order_relaxed) == 0;
}

/* In debug builds, calls xk_msg_misused if m was freed, which the accessors' fast halves do not check. */
static inline void
xk_msg_debug_live(const struct xk_msg *m, const char *what)
{
	if (XK_IS_DEBUG && xk_unlikely(xk_msg_is_given_up(m)))
		xk_msg_misused(m, what);
}

/* Clears the owner of m, which may be NULL: a reply reaches its next owner without crossing an edge. */
static inline void
xk_msg_disown(struct xk_msg *m)
{
	if (m != NULL)
		m->owner = NULL;
}

static inline void
xk_msg_annotate(struct xk_msg *m, enum xk_annotation_place place, uint32_t kind, uint64_t value)
{
	m->annotation_kinds[place] = kind;
	m->annotations[place] = value;
	m->flags |= (uint16_t)(XK_MSG_ANNOTATED << place);
}

/* Returns the value of m's annotation of this kind, or NULL. */
static inline const uint64_t *
xk_msg_annotation(const struct xk_msg *m, enum xk_annotation_place place, uint32_t kind)
{
	if ((m->flags & XK_MSG_ANNOTATED << place) == 0 || m->annotation_kinds[place] != kind)
		return NULL;
	return &m->annotations[place];
}

static inline void
xk_msg_unannotate(struct xk_msg *m, enum xk_annotation_place place)
{
	m->flags &= (uint16_t) ~(XK_MSG_ANNOTATED << place);
}

static inline size_t
xk_msg_len(const struct xk_msg *m)
{
	xk_msg_debug_live(m, "reads the length of");
	return m->total;
}

/*
 * Returns whether m alone uses its first segment's buffer, so that its owner may write anywhere there. Never true for
 * lent bytes.
 */
static inline bool
xk_msg_is_writable(const struct xk_msg *m)
{
	return atomic_load_explicit(m->references, memory_order_acquire) == 1;
}

/* Returns the number of buffers that m holds. */
static inline unsigned
xk_msg_buffers(const struct xk_msg *m)
{
	unsigned count = 0;

	for (; m != NULL; m = m->next)
		count++;
	return count;
}

/*
 * Returns a new message of len undefined bytes behind XK_MSG_HEADROOM; NULL: no buffer, or len > XK_MSG_MAX. Messages
 * of up to XK_MSG_SHORT bytes, such as acknowledgements, may use the host's reserve of buffers.
 */
struct xk_msg *xk_msg_new(struct xk_platform *platform, size_t len);

/* Returns a new message with a copy of the len bytes at `bytes`, or NULL as xk_msg_new. */
struct xk_msg *xk_msg_from(struct xk_platform *platform, const void *bytes, size_t len);

/*
 * Returns a message that shows the len (<= XK_MSG_MAX) bytes at `bytes` without copying them. They stay the caller's,
 * and must stay valid and unchanged until given_back(context) is called: once, when the last message with any of them
 * has been freed, by a drop or by the device that sent it. A device may keep sent frames until it needs their slots or
 * is closed.
 *
 * given_back runs in the thread that frees that message, perhaps one of the device's, and perhaps with locks held: it
 * may signal a semaphore, but must neither wait nor use the kernel otherwise. NULL: no buffer; nothing was lent.
 */
struct xk_msg *xk_msg_lend(struct xk_platform *platform, const void *bytes, size_t len,
			   void (*given_back)(void *context), void *context);

/*
 * Returns len (<= XK_MSG_MAX) bytes of memory for xk_msg_lend that every device can read. Lent bytes in other memory
 * are copied if another process or a network card must read them. NULL: no memory. xk_lendable_free frees it once it
 * has been given back; ignores NULL.
 */
void *xk_lendable_new(struct xk_platform *platform, size_t len);
void xk_lendable_free(struct xk_platform *platform, void *bytes);

/*
 * Returns another message over the same bytes, read-only while shared, without room for headers. m stays the caller's,
 * and keeps the room in front of these bytes. NULL: no buffer.
 */
struct xk_msg *xk_msg_reference(struct xk_msg *m);

/*
 * As xk_msg_reference, over the len bytes of m from offset on, which must exist. A part shorter than m has no checksum
 * flags.
 */
struct xk_msg *xk_msg_part(struct xk_msg *m, size_t offset, size_t len);

/*
 * A message kept for retransmission, in the holder's memory. It holds references to the bytes. It needs buffers of its
 * own only if the message has more than XK_MSG_KEPT segments, or lent bytes.
 */
struct xk_kept {
	struct xk_msg *m; /* a reference that needs buffers; NULL: `segments` */
	uint32_t total;   /* bytes */
	uint16_t buffers; /* segments; 0: nothing is kept */
	uint16_t flags;
	uint32_t id, annotation_kind; /* of XK_OF_MESSAGE */
	uint64_t annotation;
	struct xk_kept_segment {
		struct xk_platform *platform;
		_Atomic uint16_t *references;
		uint8_t *data, *floor, *ceiling;
		uint32_t len;
	} segments[XK_MSG_KEPT];
};

/*
 * Keeps m, which must not be empty, in *kept, which must hold nothing. m stays the caller's, and keeps its room for
 * headers. It can be sent or changed without changing what is kept. Returns false if there is no buffer, or m has more
 * than 65,535 of them.
 */
bool xk_msg_keep(struct xk_kept *kept, struct xk_msg *m);

/* As xk_msg_part, over bytes of the kept message. Several threads may call it at once, none while another frees it. */
struct xk_msg *xk_kept_part(const struct xk_kept *kept, size_t offset, size_t len);

/* The slow half of xk_kept_free. Not for callers. */
void xk_kept_let_go(struct xk_kept *kept);

/* Frees what is kept, if anything. */
static inline void
xk_kept_free(struct xk_kept *kept)
{
	if (kept->buffers != 0)
		xk_kept_let_go(kept);
}

/* As xk_msg_free; `here` is the call's code address, for error messages. */
void xk_msg_free_here(struct xk_msg *m, uintptr_t here);

/* Frees m. Ignores NULL. Takes m. */
static inline void
xk_msg_free(struct xk_msg *m)
{
	xk_msg_free_here(m, xk_here());
}

/* The slow halves of xk_msg_push and of xk_msg_peek. Not for callers. */
uint8_t *xk_msg_push_segment(struct xk_msg **m, size_t len);
uint8_t *xk_msg_pull_up(struct xk_msg **m, size_t len);

/* Returns whether len bytes can be pushed in place. If not, xk_msg_push checks whether other views are gone by now. */
static inline bool
xk_msg_has_room(const struct xk_msg *m, size_t len)
{
	return xk_likely((size_t)(m->data - m->floor) >= len) && xk_likely(m->data <= m->own_end);
}

/* Puts len bytes in front of m, which has room, and returns their address. */
static inline uint8_t *
xk_msg_push_in_place(struct xk_msg *m, size_t len)
{
	uint8_t *p = m->data - len;

	xk_msg_debug_live(m, "puts a header on");
	m->data = p;
	m->len += (uint32_t)len;
	m->total += (uint32_t)len;
	return p;
}

/* Puts len (<= XK_MSG_HEADROOM) bytes before *m and returns their address. NULL: no buffer; *m stays the caller's. */
static inline uint8_t *
xk_msg_push(struct xk_msg **m, size_t len)
{
	struct xk_msg *head = *m; /* a copy whose address is taken, so that m may stay in a register */
	uint8_t *p;

	if (xk_likely(xk_msg_has_room(head, len)))
		return xk_msg_push_in_place(head, len);
	p = xk_msg_push_segment(&head, len);
	*m = head;
	return p;
}

/*
 * Returns the first len bytes of *m in one piece, to read, pulled up if they straddle segments; they stay in the
 * message. NULL: the message is shorter, or no buffer to pull up into. *m stays the caller's.
 */
static inline const uint8_t *
xk_msg_peek(struct xk_msg **m, size_t len)
{
	struct xk_msg *head = *m;
	const uint8_t *p = head->data;

	xk_msg_debug_live(head, "reads");
	if (xk_unlikely(head->len < len)) {
		p = xk_msg_pull_up(&head, len);
		*m = head;
	}
	return p;
}

/* Removes the first len bytes of m, which are in its first segment. */
static inline void
xk_msg_pop_in_place(struct xk_msg *m, size_t len)
{
	xk_msg_debug_live(m, "takes bytes off");
	m->data += len;
	m->len -= (uint32_t)len;
	m->total -= (uint32_t)len;
}

/* Removes and returns the first len bytes, readable until the message changes. NULL: as xk_msg_peek, none removed. */
static inline const uint8_t *
xk_msg_pop(struct xk_msg **m, size_t len)
{
	struct xk_msg *head = *m;
	const uint8_t *p = head->data;

	if (xk_unlikely(head->len < len)) {
		p = xk_msg_pull_up(&head, len);
		*m = head;
		if (p == NULL)
			return NULL;
	}
	xk_msg_pop_in_place(head, len);
	return p;
}

/* The slow half of xk_msg_truncate. Not for callers. */
void xk_msg_truncate_segments(struct xk_msg *m, size_t len);

/* Cuts m, which is at least len bytes in one segment, to its first len bytes. */
static inline void
xk_msg_cut_in_place(struct xk_msg *m, size_t len)
{
	m->len = (uint32_t)len;
	m->total = (uint32_t)len;
}

/* Cuts m to its first len bytes. Leaves a shorter message alone. */
static inline void
xk_msg_truncate(struct xk_msg *m, size_t len)
{
	xk_msg_debug_live(m, "cuts");
	if (m->total <= len)
		return;
	if (xk_unlikely(m->len < len || m->next != NULL)) {
		xk_msg_truncate_segments(m, len);
		return;
	}
	xk_msg_cut_in_place(m, len);
}

/* Splits off and returns the first len (<= xk_msg_len(*m)) bytes; *m keeps the rest. NULL: no buffer, *m unchanged. */
struct xk_msg *xk_msg_split(struct xk_msg **m, size_t len);

/* Appends b to a; together they have at most XK_MSG_MAX bytes. Takes b; a stays the caller's. */
void xk_msg_join(struct xk_msg *a, struct xk_msg *b);

/* Copies len bytes of m, from offset on, to `bytes`. Returns false, having copied nothing, if m has fewer. */
bool xk_msg_copy_out(const struct xk_msg *m, size_t offset, void *bytes, size_t len);

/* Copies the first len bytes of m, which is at least that long, to `bytes`. */
static inline void
xk_msg_copy_first(const struct xk_msg *m, void *bytes, size_t len)
{
	if (xk_likely(m->len >= len))
		memcpy(bytes, m->data, len);
	else
		xk_msg_copy_out(m, 0, bytes, len);
}

/* The slow half of xk_msg_sum. Not for callers. */
uint64_t xk_msg_sum_segments(const struct xk_msg *m);

/* Returns the one's complement sum of m's bytes, not folded, for xk_checksum_finish (checksum.h). */
static inline uint64_t
xk_msg_sum(const struct xk_msg *m)
{
	if (m->total < XK_SUM_SHORT && m->next == NULL && xk_msg_has_room(m, XK_SUM_SHORT))
		return xk_sum_short(m->data, m->len);
	return xk_msg_sum_segments(m);
}

#endif
