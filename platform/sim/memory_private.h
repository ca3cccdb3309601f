/* memory_private.h - internals of the platform in memory. */
#ifndef XK_PLATFORM_SIM_MEMORY_PRIVATE_H
#define XK_PLATFORM_SIM_MEMORY_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "platform/clock.h"
#include "platform/sim/memory.h"
#include "xkernel/engine/stack.h"

#if defined(XK_DEBUG) || defined(XK_CONTEXT_ASAN)
enum { MEMORY_RECYCLES = false }; /* every segment is a malloc of its own, which detects misuse */
#else
enum { MEMORY_RECYCLES = true };
#endif

/* Entry for an allocated segment in the list of its platform, or of the platforms that share a struct memory_kept. */
struct memory_out {
	struct memory_out *next, **at;
	struct xk_msg *segment;
	bool is_kept; /* kept for reuse when freed */
};

/* Freed segments kept for reuse, for one platform or for several that one thread runs. */
struct memory_kept {
	struct memory_block *blocks;
	struct xk_msg *views;                    /* chained by link */
	struct memory_out *all;                  /* kept segments, and those in use that are listed */
	_Atomic(struct memory_block *) returned; /* freed by other threads */
};

struct memory_platform {
	struct xk_platform platform;
	enum xk_memory_clock clock;
	struct clock counter; /* all 0, which means CLOCK_MONOTONIC, until calibrated */
	bool recycles;
	_Atomic(const void *) thread; /* the thread for which segments are kept: the driver's; NULL: none */
	_Atomic unsigned limit;
	_Atomic unsigned payload_limit, short_limit; /* smaller than `limit` by the reserve */
	_Atomic unsigned out;                        /* segments that `thread` has taken and not freed, modulo 2^32 */
	_Atomic unsigned others_out;                 /* the same for other threads */
	struct memory_kept *kept;
	struct memory_kept own_kept;
	_Atomic uint64_t virtual_ns;
	uint64_t until_ns;
	void (*idle)(void *context);
	void *idle_context;
	pthread_mutex_t list_lock; /* protects own_kept.all */
	pthread_mutex_t lock;      /* protects woken */
	pthread_cond_t changed;
	bool woken;
};

static inline struct memory_platform *
memory_of(struct xk_platform *platform)
{
	return xk_container_of(platform, struct memory_platform, platform);
}

/* Returns true if segments are kept for the calling thread. */
static inline bool
memory_is_mine(struct memory_platform *self)
{
	return xk_likely(atomic_load_explicit(&self->thread, memory_order_relaxed) == __builtin_thread_pointer());
}

/* ---- memory.c ---- */

/* Initializes and finalizes a platform that is embedded in another struct. */
void memory_platform_init(struct memory_platform *self, enum xk_memory_clock clock);
void memory_platform_fini(struct memory_platform *self);

/* Implements xk_platform_ops.wake. */
void memory_wake(struct xk_platform *platform);

/* ---- memory_buffer.c: operations of xk_platform_ops ---- */

struct xk_msg *memory_buffer_new(struct xk_platform *platform);
bool memory_buffers_are_short(struct xk_platform *platform);
unsigned memory_buffers(struct xk_platform *platform, unsigned threads);
struct xk_msg *memory_buffer_view(struct xk_platform *platform, const struct xk_msg *segment);
bool memory_buffer_hold(struct xk_platform *platform, const struct xk_msg *segment);
void memory_buffer_let_go(struct xk_platform *platform, _Atomic uint16_t *references);
struct xk_msg *memory_buffer_lend(struct xk_platform *platform, const void *bytes, size_t len,
				  void (*given_back)(void *context), void *context);
void memory_buffer_free(struct xk_platform *platform, struct xk_msg *segment);
unsigned memory_buffers_out(struct xk_platform *platform);
void memory_each_out(struct xk_platform *platform, void (*see)(void *context, const struct xk_msg *segment),
		     void *context);

/* Limits the segments in use to count. Any thread. */
void memory_buffers_limit(struct memory_platform *self, unsigned count);

/* Forgets the segments in use: their owner has crashed and will not free them. */
void memory_forget_out(struct memory_platform *self);

/* Frees the segments kept for reuse. */
void memory_buffer_free_kept(struct memory_kept *kept);

#endif
