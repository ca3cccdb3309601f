/*
 * msg.h - the Message tool: headers are pushed and popped, messages split and joined, payload is not copied.
 *
 * A message is a chain of segments; the handle is its first one. Each segment is a view of some bytes of a
 * reference-counted buffer that the platform provides (platform.h): a DPDK mbuf, with the segment in its
 * private area, or one malloc in tests and simulation. So a port neither allocates nor copies.
 *
 * Ownership: whoever is handed a message owns it, and passes it on, stores it, frees it, or drops it under a
 * name. A function that may replace the first segment takes `struct xk_msg **`; afterwards the handle it
 * leaves there is the message, and older copies of the handle are stale.
 *
 * A header is pushed in place only where the buffer is unshared and has room in front (the room before a
 * fragment is its neighbour's payload; a retransmitted buffer may still lie in a ring); otherwise a segment
 * of its own is put before it. None of these functions waits; all may be called from any context. One
 * message is used by one shepherd at a time; buffers may be shared between messages of several.
 *
 * The x-kernel manual's Message tool with explicit ownership (its "hidden owner of the header stack" is
 * xk_msg_is_writable here).
 */
#ifndef XK_MSG_H
#define XK_MSG_H

#include "xkernel/base.h"
#include "xkernel/checksum.h"

struct xk_platform;
struct xk_protocol;

enum {
	XK_MSG_HEADROOM = 128, /* what a new message has in front of it for headers */
	XK_MSG_SEGMENT = 2048, /* payload bytes of a fresh segment, at least */
	XK_MSG_MAX = 1 << 20,  /* no message is longer; keeps every length far from wrapping */
	XK_MSG_WAY = 8,        /* debug builds: crossings that a message remembers */
};

enum xk_msg_flags {
	XK_MSG_NETWORK_SUM_GOOD = 1 << 0,   /* the port has verified the network header's checksum */
	XK_MSG_TRANSPORT_SUM_GOOD = 1 << 1, /* the port has verified the transport checksum */
	XK_MSG_TRACED = 1 << 2,             /* print this message's crossings */
	XK_MSG_TO_ALL = 1 << 3,             /* its frame was a link broadcast */
	XK_MSG_ANNOTATED = 1 << 4,          /* shifted left by a place: that annotation is there */
};

/*
 * Annotations: what one protocol tells another about a message across the layers between them, which need not know. A
 * message has a place for each lifetime. The protocol that owns an annotation defines its kind (four characters, XK_KIND)
 * and its value in a header; a kind that nobody asks for does no harm. A later annotation replaces an earlier one in the
 * same place. Headers that are pushed or popped, and pull-ups, change nothing; the parts of a split, and what is joined
 * behind another message, have none.
 */
enum xk_annotation_place {
	XK_OF_PUSH,    /* until the push it was given to returns: not on references, not on messages that are delayed */
	XK_OF_MESSAGE, /* as long as the message, and on references to it */
	XK_ANNOTATIONS,
};

#define XK_KIND(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

struct xk_msg {
	uint8_t *data;                             /* first byte of this segment */
	uint32_t len;                              /* bytes of this segment */
	uint32_t total;                            /* bytes of the message; valid in its first segment */
	struct xk_msg *next;                       /* next segment, or NULL */
	struct xk_msg *tail;                       /* last segment; valid in the first */
	_Atomic uint16_t *references;              /* how many segments view this buffer */
	uint8_t *floor;                            /* the buffer's first byte: pushes in place stop here */
	uint8_t *ceiling;                          /* one past the buffer's last byte */
	struct xk_platform *platform;              /* whose buffer it is */
	struct xk_msg *link;                       /* for the owner: queues of messages */
	uint32_t id;                               /* number for traces; valid in the first segment */
	uint16_t flags;                            /* enum xk_msg_flags; valid in the first segment */
	uint32_t annotation_kinds[XK_ANNOTATIONS]; /* valid in the first segment, each only if flags says so */
	uint64_t annotations[XK_ANNOTATIONS];      /* their values */
	const struct xk_protocol *owner; /* current or last owner (owner.c); NULL: unknown, or not the first segment */
	uintptr_t given_up_at;           /* code address of the call that freed it last */
#ifdef XK_DEBUG
	const struct xk_protocol *way[XK_MSG_WAY]; /* its latest owners; a ring */
	unsigned crossings;
#endif
};

/*
 * Returns whether m has been freed. Only for the detection of mistakes: the memory may have another user by now.
 * Platforms keep a reference count of 0 and a length of 0 in freed segments as long as they can.
 */
static inline bool
xk_msg_is_given_up(const struct xk_msg *m)
{
	return atomic_load_explicit(m->references, memory_order_relaxed) == 0;
}

/*
 * Reports that m was used ("gives up", "splits": see `what`) after it was freed, and aborts. Names the protocol, its
 * function and the last owner. Never returns. Any context.
 */
__attribute__((noreturn, cold)) void xk_msg_misused(const struct xk_msg *m, const char *what);

/* Clears the owner of m, which may be NULL: replies reach their next owner without crossing an edge. */
static inline void
xk_msg_disown(struct xk_msg *m)
{
	if (m != NULL)
		m->owner = NULL;
}

/*
 * Records that `from` hands m to `to`, upward or downward. Names the protocols and aborts if m has been freed, or if
 * owners are tracked (xk_kernel_watch_owners) and `from` does not own m. Debug builds call it at each crossing, others
 * only where owners are tracked.
 */
void xk_msg_cross(struct xk_msg *m, const struct xk_protocol *from, const struct xk_protocol *to, bool up);

/* Puts an annotation on m. Any context. */
static inline void
xk_msg_annotate(struct xk_msg *m, enum xk_annotation_place place, uint32_t kind, uint64_t value)
{
	m->annotation_kinds[place] = kind;
	m->annotations[place] = value;
	m->flags |= (uint16_t)(XK_MSG_ANNOTATED << place);
}

/* Returns the value of the annotation of m, if there is one of this kind, or NULL. Any context. */
static inline const uint64_t *
xk_msg_annotation(const struct xk_msg *m, enum xk_annotation_place place, uint32_t kind)
{
	if ((m->flags & XK_MSG_ANNOTATED << place) == 0 || m->annotation_kinds[place] != kind)
		return NULL;
	return &m->annotations[place];
}

/* Takes what is in that place off m. Any context. */
static inline void
xk_msg_unannotate(struct xk_msg *m, enum xk_annotation_place place)
{
	m->flags &= (uint16_t) ~(XK_MSG_ANNOTATED << place);
}

/* Bytes in m. */
static inline size_t
xk_msg_len(const struct xk_msg *m)
{
	return m->total;
}

/* Whether nobody else sees the buffer of m's first segment, so that its owner may write there. */
static inline bool
xk_msg_is_writable(const struct xk_msg *m)
{
	return atomic_load_explicit(m->references, memory_order_acquire) == 1;
}

/* A message of len bytes, contents undefined, XK_MSG_HEADROOM in front. NULL: no buffer, or len > XK_MSG_MAX. */
struct xk_msg *xk_msg_new(struct xk_platform *platform, size_t len);

/* A message holding a copy of len bytes at bytes. NULL as xk_msg_new. */
struct xk_msg *xk_msg_from(struct xk_platform *platform, const void *bytes, size_t len);

/*
 * Another message over the same bytes (they are shared, read-only from now on). m stays the caller's. NULL: no buffer.
 */
struct xk_msg *xk_msg_reference(const struct xk_msg *m);

/* As xk_msg_free; `here` is the code address of the call, for error messages. */
void xk_msg_free_here(struct xk_msg *m, uintptr_t here);

/* Gives all segments back. NULL is let through. Takes m. */
static inline void
xk_msg_free(struct xk_msg *m)
{
	xk_msg_free_here(m, xk_here());
}

/* The slow halves of the three inline functions below; not for callers. */
uint8_t *xk_msg_push_segment(struct xk_msg **m, size_t len);
uint8_t *xk_msg_pull_up(struct xk_msg **m, size_t len);
uint8_t *xk_msg_pop_segments(struct xk_msg **m, size_t len);

/* Whether a push of len bytes is in place. */
static inline bool
xk_msg_has_room(const struct xk_msg *m, size_t len)
{
	return xk_likely((size_t)(m->data - m->floor) >= len) && xk_likely(xk_msg_is_writable(m));
}

/* Puts len bytes in front of m, which has room for them, and returns where to store them. */
static inline uint8_t *
xk_msg_push_in_place(struct xk_msg *m, size_t len)
{
	uint8_t *p = m->data - len;

	m->data = p;
	m->len += (uint32_t)len;
	m->total += (uint32_t)len;
	return p;
}

/*
 * Puts len (<= XK_MSG_HEADROOM) bytes in front of *m and returns where to store them.
 * NULL: no buffer for a header segment; *m is unchanged and still the caller's.
 */
static inline uint8_t *
xk_msg_push(struct xk_msg **m, size_t len)
{
	struct xk_msg *head = *m; /* its address is asked for, so that m may stay in a register */
	uint8_t *p;

	if (xk_likely(xk_msg_has_room(head, len)))
		return xk_msg_push_in_place(head, len);
	p = xk_msg_push_segment(&head, len);
	*m = head;
	return p;
}

/*
 * The first len bytes of *m in one piece, to read; they stay in the message. A header that straddles segments
 * is pulled up. NULL: the message is shorter than len (or no buffer to pull up into); *m is the caller's.
 */
static inline const uint8_t *
xk_msg_peek(struct xk_msg **m, size_t len)
{
	struct xk_msg *head = *m;
	const uint8_t *p = head->data;

	if (xk_unlikely(head->len < len)) {
		p = xk_msg_pull_up(&head, len);
		*m = head;
	}
	return p;
}

/* Takes the first len bytes off m, whose first segment has them. */
static inline void
xk_msg_pop_in_place(struct xk_msg *m, size_t len)
{
	m->data += len;
	m->len -= (uint32_t)len;
	m->total -= (uint32_t)len;
}

/*
 * Takes the first len bytes off *m and returns them, to read until the message's next change or its end.
 * NULL: the message is shorter than len (or no buffer to pull up into); *m is unchanged in length.
 */
static inline const uint8_t *
xk_msg_pop(struct xk_msg **m, size_t len)
{
	struct xk_msg *head = *m;
	const uint8_t *p = head->data;

	if (xk_unlikely(head->len < len)) {
		p = xk_msg_pop_segments(&head, len);
		*m = head;
		return p;
	}
	xk_msg_pop_in_place(head, len);
	return p;
}

/* The slow half of xk_msg_truncate; not for callers. */
void xk_msg_truncate_segments(struct xk_msg *m, size_t len);

/* Cuts m to its first len bytes; a shorter message is left alone. */
static inline void
xk_msg_truncate(struct xk_msg *m, size_t len)
{
	if (m->total <= len)
		return;
	if (xk_unlikely(m->len < len || m->next != NULL)) {
		xk_msg_truncate_segments(m, len);
		return;
	}
	m->len = (uint32_t)len;
	m->total = (uint32_t)len;
}

/*
 * Splits the first len bytes off *m: they are returned as a message of their own, *m keeps the rest.
 * len <= xk_msg_len(*m). NULL: no buffer; *m is unchanged.
 */
struct xk_msg *xk_msg_split(struct xk_msg **m, size_t len);

/* Appends b to a. Takes b; a stays the caller's. The sum is at most XK_MSG_MAX. */
void xk_msg_join(struct xk_msg *a, struct xk_msg *b);

/* The slow half of xk_msg_copy_first; not for callers. */
void xk_msg_copy_segments(const struct xk_msg *m, void *bytes, size_t len);

/* Copies the first len bytes of m, which has so many, to bytes. */
static inline void
xk_msg_copy_first(const struct xk_msg *m, void *bytes, size_t len)
{
	if (xk_likely(m->len >= len))
		memcpy(bytes, m->data, len);
	else
		xk_msg_copy_segments(m, bytes, len);
}

/* Copies len bytes from offset of m to bytes. False, and nothing copied, unless m has that many. */
bool xk_msg_copy_out(const struct xk_msg *m, size_t offset, void *bytes, size_t len);

/* The one's complement sum of m's bytes from its start, not folded, to go into xk_checksum_finish (checksum.h). */
uint64_t xk_msg_sum_segments(const struct xk_msg *m);

static inline uint64_t
xk_msg_sum(const struct xk_msg *m)
{
	if (m->total < XK_SUM_SHORT && m->next == NULL && m->data - m->floor >= XK_SUM_SHORT)
		return xk_sum_short(m->data, m->len);
	return xk_msg_sum_segments(m);
}

#endif
