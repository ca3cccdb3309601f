/*
 * process.h - the Process tool: shepherds, what they wait on, and how one leaves the driver.
 *
 * A shepherd is a thread of control that carries one message (or an event, or application code) through the
 * graph. In IPP mode it runs on a detachable stack, in the driver's context until it hands off, then in a
 * thread of the pool; while it waits it is a parked stack and occupies no thread. In regular mode it is a
 * thread, and waiting blocks that thread.
 *
 * Handoff (Björkman 1994, 3.2): explicit, the edge is marked; implicit, the shepherd would have to wait;
 * time, its budget is spent. After a handoff the code runs on another thread of the operating system, so
 * nothing of a thread's own (errno, thread-locals, a DPDK inline function) may be kept across a UPI call,
 * a wait or a lock: protocols use none.
 */
#ifndef XK_PROCESS_H
#define XK_PROCESS_H

#include "xkernel/base.h"

struct xk_kernel;
struct xk_protocol;
struct xk_session;
struct xk_shepherd;

#define XK_FOREVER UINT64_MAX

/*
 * The shepherd whose code is running. NULL: a thread that the kernel does not know (main, a foreign thread).
 * Stays the same across handoff and park. Any context.
 */
#if defined(__x86_64__)

/* self.c's alone. */
extern _Thread_local struct xk_shepherd *xk_self_running __attribute__((tls_model("initial-exec")));

/*
 * The code of a shepherd may go on on another thread after any switch, and compilers keep addresses of thread-locals in
 * registers: here they see no thread-local, and ask anew each time. A compiled graph (generated.h) is a program's own, and protocols
 * alone: each activation of their functions is one shepherd's, wherever that goes on, so that one look is enough for it.
 */
static inline struct xk_shepherd *
xk_self(void)
{
	struct xk_shepherd *self;

#ifdef XK_COMPILED
	__asm__("movq %%fs:xk_self_running@tpoff, %0" : "=r"(self));
#else
	__asm__ volatile("movq xk_self_running@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(self));
#endif
	return self;
}

#else
struct xk_shepherd *xk_self(void);
#endif

/* Nanoseconds since some start, read from the platform's clock now. Any context. */
uint64_t xk_now_ns(const struct xk_protocol *self);

/*
 * 64 random bits, for identifiers and what must not be guessed; in the simulator they come from its seed, so that a run
 * can be repeated. Any context; never waits.
 */
uint64_t xk_random(const struct xk_protocol *self);
/* The same, for what belongs to no protocol; NULL: the system's. */
uint64_t xk_kernel_random(struct xk_kernel *kernel);
/*
 * 64 bits that nobody else knows, for the hash of a table. They are no part of what xk_random gives, so that how many tables
 * a protocol has changes nothing of what it sends. Any context; never waits.
 */
uint64_t xk_kernel_seed(struct xk_kernel *kernel);

/*
 * How often this host has been booted, this time included: the one thing that it remembers over a crash. 0: it cannot
 * tell. Any context.
 */
uint64_t xk_boots(const struct xk_protocol *self);

/*
 * Computes for work_ns: keeps the processor busy, and lets virtual time pass in the simulator, where frames go on
 * arriving and the driver interrupts a thread that works. In the driver, what was pushed before is sent first. A
 * shepherd; holds no lock. Does not hand off: see xk_checkpoint.
 */
void xk_work(struct xk_protocol *self, uint64_t work_ns);

/* A session whose pop is to be returned to; lies on the shepherd's stack (upi.h, xk_pop). */
struct xk_hold {
	struct xk_hold *below;
	struct xk_session *session;
	bool referenced; /* the shepherd parked meanwhile: the hold has become a reference */
};

/*
 * The head of every shepherd, for the inline functions of upi.h; the rest is in engine.h. Sessions are its own until it
 * parks because it reads in an epoch; then those that it is in become references.
 */
struct xk_shepherd_head {
	struct xk_hold *holds;     /* newest first */
	struct xk_session *popped; /* what it carries was popped through this one last; NULL: none */
	struct xk_session
		*kept; /* ... when it parked last: a reference, until what it carries ends or it parks again */
	unsigned lane; /* while it runs: 1 + the index of the driver that runs it; 0: something else does */
};

static inline struct xk_shepherd_head *
xk_self_head(void)
{
	return (struct xk_shepherd_head *)xk_self();
}

/*
 * Starts fn(argument) as a shepherd: application code. IPP: on a detachable stack, first run by a thread of the
 * pool. Regular: on a thread of its own, not one of the N input threads. Any thread; never waits.
 * 0; -EAGAIN: no stack or thread left.
 */
int xk_thread_start(struct xk_kernel *kernel, const char *name, void (*fn)(void *argument), void *argument);

/*
 * Waits at least delay_us, counted from the microsecond that has begun. A shepherd; may wait. 0, or as xk_semaphore_wait
 * where it could not wait.
 */
int xk_delay(struct xk_protocol *owner, uint64_t delay_us);

/* Counting semaphore. It belongs to a protocol, whose `implicit` and `resume` in the graph say how its waiters wait. */
struct xk_semaphore {
	_Atomic uint32_t lock;           /* held for a bounded while, never across anything that waits */
	_Atomic uint32_t count;          /* changes under the lock */
	struct xk_waiter *first, **last; /* in the order of their arrival */
	struct xk_protocol *owner;
};

void xk_semaphore_init(struct xk_semaphore *semaphore, struct xk_protocol *owner, unsigned count);

/*
 * Takes one, waiting for it at most timeout_us (0: not at all; XK_FOREVER). Any shepherd, or a foreign thread (which
 * blocks, and is counted); holds no lock. In the driver's context of IPP mode a shepherd that must wait leaves the
 * driver (reason implicit). 0; -ETIMEDOUT; -EAGAIN: timeout 0, or the graph says implicit=fail; -ENOBUFS: no stack was
 * left for the driver (counted as no_stack); -ECANCELED: the kernel is stopping. On any error the caller unwinds.
 */
int xk_semaphore_wait(struct xk_semaphore *semaphore, uint64_t timeout_us);

/* Gives one; wakes the waiter that came first. Any context; never waits. */
void xk_semaphore_signal(struct xk_semaphore *semaphore);

/*
 * Mutual exclusion for a protocol's own state, held for a short while and never across a UPI call, a wait or
 * anything else that may hand off (asserted). The driver does not wait for it: it tries, spins a bounded while,
 * then hands off (reason implicit). What was resolved before stays valid.
 */
struct xk_lock {
	_Atomic uint32_t held;
	struct xk_protocol *owner;
};

/* How many xk_locks the running shepherd holds. Any context; for assertions. */
unsigned xk_locks_held(void);

void xk_lock_init(struct xk_lock *lock, struct xk_protocol *owner);

/* Takes the lock. Any context; may wait. */
void xk_lock(struct xk_lock *lock);

/* Takes the lock if it is free. Any context; never waits. */
bool xk_lock_try(struct xk_lock *lock);

void xk_unlock(struct xk_lock *lock);

/*
 * For a protocol that knows work ahead to be long: leaves the driver now, counted as explicit. False: the shepherd was
 * not in the driver, or had to stay there (no stack left: a counted fall-back). Holds no lock.
 */
bool xk_handoff(struct xk_protocol *self);

/*
 * For long work inside one protocol: leaves the driver if the message's time budget is spent. Application code that
 * runs for long without waiting calls it now and then too: it lets memory be reclaimed that it might have been reading
 * (what it resolved before, it resolves again). Holds no lock.
 */
void xk_checkpoint(struct xk_protocol *self);

#endif
