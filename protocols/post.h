/*
 * post.h - buffers that a user posts for messages to come. GM and BIP hand up no message (BIP: no long one) for which
 * none is posted. A buffer is permission, not memory: the message itself is handed up, and is the user's from then on.
 *
 *	xk_post(s, 4096, 8);	eight more messages of at most 4096 bytes may come up s
 *
 * Sizes are powers of two, as GM has them; another counts as the next lower one.
 */
#ifndef XK_POST_H
#define XK_POST_H

#include "xkernel/upi.h"

struct xk_post {
	uint32_t size, count;
};

XK_CONTROL_OP(XK_POST_BUFFERS, 117, const struct xk_post); /* session: see xk_post */

/*
 * Posts `count` buffers on session s. Returns 0; -EINVAL: no size or too many; or -ENOTSUP. Any shepherd; never waits.
 */
static inline int
xk_post(struct xk_session *s, uint32_t size, uint32_t count)
{
	struct xk_post post = { size, count };

	return xk_control(s, XK_POST_BUFFERS, &post);
}

/* ---- for the protocols ---- */

enum {
	XK_POSTED_OWN = 0, /* the class of buffers that hold any message, and that the protocol posts again itself */
	XK_POSTED_CLASSES = 22,  /* class i holds 2^(i - 1) bytes, up to XK_MSG_MAX */
	XK_POSTED_MAX = 1 << 16, /* buffers of a class */
};

static_assert(1 << (XK_POSTED_CLASSES - 2) == XK_MSG_MAX, "the last class holds the longest message");

/* A session's buffers. */
struct xk_posted {
	_Atomic uint32_t counts[XK_POSTED_CLASSES];
};

/* Adds `count` buffers of a class, unless they become too many. */
static inline bool
xk_posted_add(struct xk_posted *posted, unsigned class, uint32_t count)
{
	uint32_t had = atomic_load_explicit(&posted->counts[class], memory_order_relaxed);

	do
		if (count > XK_POSTED_MAX - had)
			return false;
	while (!atomic_compare_exchange_weak_explicit(&posted->counts[class], &had, had + count, memory_order_relaxed,
						      memory_order_relaxed));
	return true;
}

/* Takes the smallest buffer that holds len bytes. Returns its class, or -1: there is none. */
static inline int
xk_posted_take(struct xk_posted *posted, size_t len)
{
	for (unsigned class = 0; class < XK_POSTED_CLASSES; class ++) {
		uint32_t had = atomic_load_explicit(&posted->counts[class], memory_order_relaxed);

		if (class != XK_POSTED_OWN && (size_t)1 << (class - 1) < len)
			continue;
		while (had > 0)
			if (atomic_compare_exchange_weak_explicit(&posted->counts[class], &had, had - 1,
								  memory_order_relaxed, memory_order_relaxed))
				return (int)class;
	}
	return -1;
}

/* Carries out XK_POST_BUFFERS. Returns as xk_post. */
static inline int
xk_posted_control(struct xk_posted *posted, const struct xk_post *post)
{
	if (post->size == 0 || post->size > XK_MSG_MAX)
		return -EINVAL;
	return xk_posted_add(posted, 32 - (unsigned)__builtin_clz(post->size), post->count) ? 0 : -EINVAL;
}

#endif
