/*
 * process.h - the Process tool: shepherds, what they wait on, and how they leave the driver.
 *
 * A shepherd is a thread of control that carries one message, event or application call through the graph. In IPP mode
 * it runs on a detachable stack: in the driver's context until it hands off, then in a thread of the pool. While it
 * waits, it is a parked stack and occupies no thread. In regular mode it is a thread, and waiting blocks that thread.
 *
 * Reasons for a handoff (Björkman 1994, 3.2): explicit, the edge is marked; implicit, the shepherd would have to wait;
 * time, its budget is spent. The code then runs on another system thread: keep nothing of a thread's own (errno,
 * thread-locals, a DPDK inline function) across a UPI call, a wait or a lock.
 */
#ifndef XK_PROCESS_H
#define XK_PROCESS_H

#include "xkernel/base.h"

/* A shepherd's load; XK_LOADS: no shepherd, a foreign thread. */
enum xk_load { XK_LOAD_MESSAGE, XK_LOAD_EVENT, XK_LOAD_APPLICATION, XK_LOADS };

struct xk_kernel;
struct xk_msg;
struct xk_protocol;
struct xk_session;
struct xk_shepherd;

#define XK_FOREVER UINT64_MAX
/* As XK_FOREVER, for waits that are certain to end: by a timer of the caller's own, or by work that is sure to come. */
#define XK_UNTIL_SIGNALLED (UINT64_MAX - 1)

/* Returns the running shepherd, the same across handoffs and parks; NULL: main, or a foreign thread. Any context. */
#if defined(__x86_64__)

/* For self.c alone. */
extern _Thread_local struct xk_shepherd *xk_self_running __attribute__((tls_model("initial-exec")));

/*
 * A shepherd may continue on another thread after any switch, and compilers keep addresses of thread-locals in
 * registers. The assembly hides the thread-local, so that each call reads it anew.
 */
static inline struct xk_shepherd *
xk_self(void)
{
	struct xk_shepherd *self;

	__asm__ volatile("movq xk_self_running@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(self));
	return self;
}

#else
struct xk_shepherd *xk_self(void);
#endif

/* Reads the platform's clock: nanoseconds since an arbitrary start. Any context. */
uint64_t xk_now_ns(const struct xk_protocol *self);

/*
 * Returns 64 random bits, for identifiers and secrets: from the simulator's seed, so that runs can be repeated, or from
 * the system. Any context; never waits. xk_kernel_random needs no protocol; kernel NULL: the system's.
 */
uint64_t xk_random(const struct xk_protocol *self);
uint64_t xk_kernel_random(struct xk_kernel *kernel);
/* Returns 64 secret bits for a table's hash, not from xk_random: tables change no traffic. Any context; never waits. */
uint64_t xk_kernel_seed(struct xk_kernel *kernel);

/* Returns the number of this host's boots, including this one: all that survives a crash. 0: unknown. Any context. */
uint64_t xk_boots(const struct xk_protocol *self);

/*
 * Computes for work_ns: keeps the processor busy. In the simulator, virtual time passes, frames arrive meanwhile, and
 * the driver interrupts a working thread. In the driver, earlier messages are sent first; with 0, nothing else is done.
 * A shepherd; holds no lock. Does not hand off: see xk_checkpoint.
 */
void xk_work(struct xk_protocol *self, uint64_t work_ns);

/*
 * Asks the program to end this host with status 0 (success) or another (failure), for example when a client has done
 * its work. A failure prevails over success. `xk run` then ends a single host; those of a simulated network run on.
 * Either way, its exit status shows a failure. Any context; never waits.
 */
void xk_host_end(struct xk_protocol *self, int status);

/* A hold on a session whose pop is running. Lies on the shepherd's stack (xk_pop in upi.h). */
struct xk_hold {
	struct xk_hold *below;
	struct xk_session *session;
	bool referenced; /* the shepherd has parked since, which made the hold a reference */
};

/*
 * The head of every shepherd, for upi.h's inline functions; the rest is in engine.h. Until the shepherd parks, its
 * epoch protects the sessions it is in; parking takes references on them.
 */
struct xk_shepherd_head {
	struct xk_hold *holds;     /* newest first */
	struct xk_session *popped; /* session of the latest pop; NULL: none */
	struct xk_session *kept;   /* reference on `popped` since the latest park, until the next or the end */
	unsigned lane;             /* 1 + the index of the driver that runs it; 0: it runs elsewhere */
	unsigned locks;            /* xk_locks held */
	_Atomic uint64_t *taken;   /* its thread's count of locks taken */
	const uint64_t *turn_ns;   /* its driver's latest reading of the clock; NULL: no driver, or virtual time */
};

static inline struct xk_shepherd_head *
xk_self_head(void)
{
	return (struct xk_shepherd_head *)xk_self();
}

/*
 * Returns the approximate time at which the caller's message arrived, from the driver's latest reading of the clock if
 * there is one: while messages arrive, the driver reads it every 100 us, or every 32 messages if these take longer. Not
 * for use after other protocols' work, which may have been long. For demux and pop.
 */
static inline uint64_t
xk_arrival_ns(const struct xk_protocol *self)
{
	const struct xk_shepherd_head *head = xk_self_head();

	return xk_likely(head->lane != 0 && head->turn_ns != NULL) ? *head->turn_ns : xk_now_ns(self);
}

/*
 * Starts fn(argument) as a shepherd, for application code. IPP: on a detachable stack, first run by a thread of the
 * pool; regular: on a thread of its own, beside the input threads. Any thread; never waits. Returns 0 or -EAGAIN (no
 * stack or thread left).
 */
int xk_thread_start(struct xk_kernel *kernel, const char *name, void (*fn)(void *argument), void *argument);
/* As xk_thread_start, but on a system thread of its own in both modes: for input from outside, such as a user's. */
int xk_application_start(struct xk_kernel *kernel, const char *name, void (*fn)(void *argument), void *argument);

/*
 * Waits at least delay_us, from the start of the current microsecond. A shepherd. Returns 0, or xk_semaphore_wait's
 * error if it could not wait.
 */
int xk_delay(struct xk_protocol *owner, uint64_t delay_us);

/* A counting semaphore. Its owner's `implicit` and `resume` in the graph determine how its waiters wait. */
struct xk_semaphore {
	_Atomic uint32_t lock;           /* held for a bounded time, never across a wait */
	_Atomic uint32_t count;          /* leaves 0 only under the lock */
	struct xk_waiter *first, **last; /* in order of arrival */
	struct xk_protocol *owner;
};

void xk_semaphore_init(struct xk_semaphore *semaphore, struct xk_protocol *owner, unsigned count);

/*
 * Takes one, waiting at most timeout_us (0: not at all; XK_FOREVER; XK_UNTIL_SIGNALLED). Any shepherd of the owner's
 * host that holds no lock, or a foreign thread, which blocks and is counted. In IPP mode a shepherd leaves the driver
 * to wait (reason implicit). A shepherd that carries an arriving message must not wait XK_FOREVER: debug builds abort,
 * others report it when the host stops (xk_kernel_stop). On any error the caller unwinds. Returns 0, -ETIMEDOUT, or
 * - -EAGAIN: timeout_us is 0, or the graph says implicit=fail;
 * - -ENOBUFS: no stack was left for the driver (counted as no_stack);
 * - -ECANCELED: the kernel is stopping.
 */
int xk_semaphore_wait(struct xk_semaphore *semaphore, uint64_t timeout_us);

/* Gives one, and wakes the first waiter. Any context; never waits. */
void xk_semaphore_signal(struct xk_semaphore *semaphore);

/*
 * Mutual exclusion for a protocol's own state. Held for a short time, never across a UPI call, a wait or anything else
 * that may hand off (asserted). The driver does not wait for it: it spins for a bounded time, then hands off (reason
 * implicit). Resolved objects stay valid.
 */
struct xk_lock {
	_Atomic uint32_t held;
	struct xk_protocol *owner;
};

/* Returns the number of xk_locks that the running shepherd holds. Any context; for assertions. */
unsigned xk_locks_held(void);

/* Reports that the running shepherd `does` something ("pushes a message") while it holds a lock, and aborts. */
__attribute__((noreturn, cold)) void xk_lock_refuse(const char *does);

void xk_lock_init(struct xk_lock *lock, struct xk_protocol *owner);

/* The slow halves of xk_lock and xk_unlock: debug builds, foreign threads, a held lock. Not for callers. */
void xk_lock_checked(struct xk_lock *lock);
void xk_unlock_checked(struct xk_lock *lock);

/* Takes the lock; may wait. Any context. */
static inline void
xk_lock(struct xk_lock *lock)
{
	struct xk_shepherd_head *self = xk_self_head();

	if (XK_IS_DEBUG || xk_unlikely(self == NULL) ||
	    xk_unlikely(atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0)) {
		xk_lock_checked(lock);
		return;
	}
	self->locks++;
	atomic_store_explicit(self->taken, atomic_load_explicit(self->taken, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* Takes the lock if it is free. Returns whether it did. Any context. */
bool xk_lock_try(struct xk_lock *lock);

static inline void
xk_unlock(struct xk_lock *lock)
{
	struct xk_shepherd_head *self = xk_self_head();

	if (XK_IS_DEBUG || xk_unlikely(self == NULL)) {
		xk_unlock_checked(lock);
		return;
	}
	self->locks--;
	atomic_store_explicit(&lock->held, 0, memory_order_release);
}

/*
 * Leaves the driver now, counted as explicit, for a protocol that expects long work. Holds no lock. Returns false if
 * the shepherd was not in the driver, or stays for lack of a stack (counted as a fallback).
 */
bool xk_handoff(struct xk_protocol *self);

/*
 * Leaves the driver if the message's time budget is spent: for long work inside one protocol. Application code that
 * runs long without waiting also calls it from time to time, so that memory which it might be reading can be reclaimed,
 * and resolves objects again afterwards. Holds no lock.
 */
void xk_checkpoint(struct xk_protocol *self);

/*
 * Slow halves of xk_demux, xk_push and xk_call_demux (upi.h), for watched edges (trace, count, budget, explicit
 * handoff) and headers beyond the first segment. Not for callers.
 */
void xk_demux_slow(struct xk_session *s, struct xk_msg *m);
int xk_push_slow(struct xk_session *s, struct xk_msg *m);
int xk_call_demux_slow(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply);

#endif
