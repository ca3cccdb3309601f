/*
 * vchan_private.h - the state of VCHAN, shared by vchan.c (sessions, calls) and vchan_pool.c (channels, and who waits for one).
 */
#ifndef XK_VCHAN_PRIVATE_H
#define XK_VCHAN_PRIVATE_H

#include "xkernel/protocol.h"

enum vchan_drop { VCHAN_BUSY = XK_DROP_OWN, VCHAN_LATE, VCHAN_UNOPENED, VCHAN_RESET };

enum vchan_counter { VCHAN_OPENED, VCHAN_WAITED };

enum { VCHAN_BUCKETS = 64 };

struct vchan {
	struct xk_protocol protocol;
	uint64_t channels, opened, waiting, wait_ns;
	uint64_t seed;
	struct xk_lock lock; /* of what follows; before that of a pool */
	struct vchan_pool *buckets[VCHAN_BUCKETS];
	struct vchan_channel *called; /* those with calls without waiting */
};

struct vchan_channel {
	struct vchan_pool *pool;
	struct vchan_channel *next; /* idle, or called without waiting: in the list */
	struct vchan_channel **at;  /* called without waiting: what points to it */
	struct xk_session *session;
	uint64_t deadline_ns;  /* that it was told; 0: nothing */
	struct xk_call call;   /* while a call without waiting is under way ... */
	struct xk_call *users; /* ... and whom to tell */
};

/* A caller, which waits. */
struct vchan_waiter {
	struct vchan_waiter *next;
	struct xk_semaphore answered;
	bool has_turn;                 /* it is answered: */
	struct vchan_channel *channel; /* with this; NULL: it is to open one, or (pool ended) gets none */
};

/* lls is the first channel's session, with a reference of its own: for questions. */
struct vchan_pool {
	struct xk_session session;
	struct vchan_pool *next; /* in its bucket */
	struct xk_participants participants;
	struct xk_lock lock;        /* of what follows */
	struct vchan_channel *idle; /* the one used last first */
	struct vchan_waiter *first, **last;
	unsigned waiting;
	unsigned count; /* channels, those being opened included */
	uint64_t deadline_ns;
	bool ended;
};

static inline struct vchan *
vchan_of(const struct vchan_pool *pool)
{
	return xk_container_of(pool->session.protocol, struct vchan, protocol);
}

static inline struct vchan_pool *
vchan_pool_of(struct xk_session *s)
{
	return xk_container_of(s, struct vchan_pool, session);
}

/* ---- vchan_pool.c; no lock is held where it is not said ---- */

/* The pool for these, with a reference for the caller; NULL: there is none, or it is being closed. VCHAN's lock is held. */
struct vchan_pool *vchan_find(struct vchan *vchan, const struct xk_protocol *hlp_receive,
			      const struct xk_protocol *hlp_type, const struct xk_participants *participants);
/* pool is found from now on, unless somebody was faster: theirs. Takes the caller's reference, and gives one. */
struct vchan_pool *vchan_publish(struct vchan *vchan, struct vchan_pool *pool);
/* Nobody finds the pool any more. */
void vchan_hide(struct vchan_pool *pool);
/* Its host is another one, or none: nobody gets a channel any more, and whoever waits is told so. */
void vchan_end(struct vchan_pool *pool);

/* Opens a new pool's first channels. May wait. 0 or -errno. */
int vchan_open_first(struct vchan_pool *pool);
/* Closes the channels that no call has; who gives one back to a pool that has ended closes it. */
void vchan_close_idle(struct vchan_pool *pool);

/* A channel for a call, waited for or opened if need be. 0; otherwise *why is the reason to drop the message. */
int vchan_take(struct vchan_pool *pool, struct vchan_channel **channel, unsigned *why);
/* An idle channel, for a call that may not wait. 0 or -errno. */
int vchan_take_idle(struct vchan_pool *pool, struct vchan_channel **channel);
/* After a call: the channel may be used again, unless its status says that it may not. */
void vchan_release(struct vchan_pool *pool, struct vchan_channel *channel, int status);

#endif
