/*
 * semaphore.c - waits: parked stacks and blocked threads in one queue, timeouts, delays, and short mutual exclusion.
 *
 * A waiter is queued only after its shepherd has left its stack (xk_shepherd_park). The semaphore's count is checked
 * again then, under its lock, so that a signal in between is not lost. Waiters are queued, and the count leaves 0, only
 * under the lock: while the count is not 0, no waiter is queued, and neither waits nor signals need the lock. The
 * timeout is an event, scheduled before the waiter is queued because the waiter may be gone right after. It finds the
 * waiter not yet queued, queued, or already answered. The wait returns only after the event has finished with the
 * waiter.
 */
#include <errno.h>
#include <sched.h>

#include "xkernel/engine/engine.h"

void
xk_semaphore_init(struct xk_semaphore *semaphore, struct xk_protocol *owner, unsigned count)
{
	atomic_init(&semaphore->lock, 0);
	atomic_init(&semaphore->count, count);
	semaphore->first = NULL;
	semaphore->last = &semaphore->first;
	semaphore->owner = owner;
}

/* Adds `by` (1 or -1) to the count if it is not 0, so that no waiter is queued. Returns whether it did. */
static inline bool
semaphore_change(struct xk_semaphore *semaphore, uint32_t by, memory_order order)
{
	uint32_t count = atomic_load_explicit(&semaphore->count, memory_order_relaxed);

	while (count != 0)
		if (atomic_compare_exchange_weak_explicit(&semaphore->count, &count, count + by, order,
							  memory_order_relaxed))
			return true;
	return false;
}

/* Decrements the count if it is not 0. */
static inline bool
semaphore_take(struct xk_semaphore *semaphore)
{
	return semaphore_change(semaphore, (uint32_t)-1, memory_order_acquire);
}

/* Takes a queued waiter off the queue. Under the semaphore's lock. */
static void
semaphore_unqueue(struct xk_semaphore *semaphore, struct xk_waiter *waiter)
{
	struct xk_waiter **at = &semaphore->first;

	while (*at != waiter) {
		if (*at == NULL)
			xk_wait_refuse(semaphore, "was initialized again while shepherds waited on it");
		at = &(*at)->next;
	}
	*at = waiter->next;
	if (semaphore->last == &waiter->next)
		semaphore->last = at;
	waiter->queued = false;
}

/* Wakes a waiter that is off its queue and has its result. It may be gone afterwards. */
static void
waiter_wake(struct xk_waiter *waiter)
{
	struct xk_protocol *owner = waiter->semaphore->owner;
	struct xk_kernel *kernel = owner->kernel;
	bool by_driver = owner->resume == XK_RESUME_DRIVER;

	if (waiter->shepherd == NULL) {
		if (waiter->is_application)
			atomic_fetch_sub_explicit(&kernel->applications_blocked, 1, memory_order_relaxed);
		xk_token_post(kernel, waiter->token);
		return;
	}
	if (!by_driver && waiter->spin_until_ns != 0)
		by_driver = kernel->platform->ops->now_ns(kernel->platform) < waiter->spin_until_ns;
	xk_shepherd_resume(waiter->shepherd, by_driver);
}

/* Ends a wait with err. A waiter that is not yet queued finds err noted; an answered one is unaffected. */
static void
waiter_fail(struct xk_waiter *waiter, int err)
{
	struct xk_semaphore *semaphore = waiter->semaphore;
	bool found;

	xk_spin_lock(&semaphore->lock);
	found = waiter->queued;
	if (found) {
		semaphore_unqueue(semaphore, waiter);
		waiter->result = err;
	} else {
		waiter->early = err;
	}
	xk_spin_unlock(&semaphore->lock);
	if (found)
		waiter_wake(waiter);
}

static void
semaphore_time_out(struct xk_event *event, void *argument)
{
	(void)event;
	waiter_fail(argument, -ETIMEDOUT);
}

/* Queues the waiter if it still has to wait. Returns whether it did; the waiter may then be gone. */
static bool
semaphore_enqueue(struct xk_semaphore *semaphore, struct xk_waiter *waiter)
{
	bool queued = false;

	xk_spin_lock(&semaphore->lock);
	if (semaphore_take(semaphore)) {
		waiter->result = 0;
	} else if (waiter->early != 0) {
		waiter->result = waiter->early;
	} else if (atomic_load_explicit(&semaphore->owner->kernel->stopping, memory_order_seq_cst)) {
		waiter->result = -ECANCELED;
	} else {
		waiter->next = NULL;
		waiter->queued = queued = true;
		*semaphore->last = waiter;
		semaphore->last = &waiter->next;
	}
	xk_spin_unlock(&semaphore->lock);
	return queued;
}

static void
waiter_list(struct xk_kernel *kernel, struct xk_waiter *waiter)
{
	xk_spin_lock(&kernel->waiters_lock);
	waiter->all_next = kernel->waiters;
	waiter->all_at = &kernel->waiters;
	if (waiter->all_next != NULL)
		waiter->all_next->all_at = &waiter->all_next;
	kernel->waiters = waiter;
	xk_spin_unlock(&kernel->waiters_lock);
}

static void
waiter_unlist(struct xk_kernel *kernel, struct xk_waiter *waiter)
{
	xk_spin_lock(&kernel->waiters_lock);
	*waiter->all_at = waiter->all_next;
	if (waiter->all_next != NULL)
		waiter->all_next->all_at = waiter->all_at;
	xk_spin_unlock(&kernel->waiters_lock);
}

bool
xk_waiters_left(struct xk_kernel *kernel)
{
	bool left;

	xk_spin_lock(&kernel->waiters_lock);
	left = kernel->waiters != NULL;
	xk_spin_unlock(&kernel->waiters_lock);
	return left;
}

void
xk_waiters_cancel(struct xk_kernel *kernel)
{
	xk_spin_lock(&kernel->waiters_lock);
	for (struct xk_waiter *waiter = kernel->waiters, *next; waiter != NULL; waiter = next) {
		next = waiter->all_next;
		waiter_fail(waiter, -ECANCELED);
	}
	xk_spin_unlock(&kernel->waiters_lock);
}

/* Queues the waiter. Runs after its shepherd has left its stack. */
static void
semaphore_parked(struct xk_runner *runner, void *argument)
{
	struct xk_waiter *waiter = argument;
	struct xk_shepherd *shepherd = waiter->shepherd;

	xk_reader_leave(&shepherd->reader);
	atomic_fetch_add_explicit(&runner->kernel->parked, 1, memory_order_relaxed);
	if (!semaphore_enqueue(waiter->semaphore, waiter))
		waiter_wake(waiter);
}

static int
semaphore_park(struct xk_shepherd *self, struct xk_semaphore *semaphore, struct xk_waiter *waiter)
{
	struct xk_kernel *kernel = self->kernel;
	struct xk_protocol *owner = semaphore->owner;
	bool budgeted = atomic_load_explicit(&kernel->budgeted, memory_order_relaxed);
	uint64_t parked_ns = 0;

	waiter->shepherd = self;
	if (owner->implicit == XK_IMPLICIT_SPIN && xk_on_driver(self)) {
		waiter->spin_until_ns = xk_clock(kernel, self->runner) + owner->spin_ns;
		self->driver->poll_until_ns = waiter->spin_until_ns;
	}
	if (budgeted)
		parked_ns = xk_clock(kernel, self->runner);
	if (!xk_shepherd_park(self, semaphore_parked, waiter))
		return -ENOBUFS;
	if (budgeted)
		self->started_ns += xk_clock(kernel, self->runner) - parked_ns;
	self->charged |= !xk_on_driver(self);
	return waiter->result;
}

/* Blocks the thread. self: the thread's own shepherd; NULL: a foreign thread. */
static int
semaphore_block(struct xk_shepherd *self, struct xk_semaphore *semaphore, struct xk_waiter *waiter)
{
	struct xk_kernel *kernel = semaphore->owner->kernel;
	bool input = self != NULL && self->runner->kind == XK_RUN_POOL;
	struct xk_token token;

	xk_token_init(&token);
	waiter->token = &token;
	if (self == NULL)
		xk_tally(&kernel->foreign_waits);
	else
		xk_shepherd_block(self);
	if (input)
		atomic_fetch_add_explicit(&kernel->pool.blocked, 1, memory_order_relaxed);
	waiter->is_application = self != NULL && self->runner->kind == XK_RUN_APPLICATION;
	if (waiter->is_application)
		atomic_fetch_add_explicit(&kernel->applications_blocked, 1, memory_order_relaxed);
	if (self != NULL && self->runner->kind == XK_RUN_EVENTS && xk_events_stand_in(self) != 0) {
		xk_tally(&self->driver->no_stack);
		waiter->result = -ENOBUFS;
	} else if (semaphore_enqueue(semaphore, waiter)) {
		xk_token_wait(kernel, &token, UINT64_MAX);
	} else if (waiter->is_application) {
		atomic_fetch_sub_explicit(&kernel->applications_blocked, 1, memory_order_relaxed);
	}
	if (input)
		atomic_fetch_sub_explicit(&kernel->pool.blocked, 1, memory_order_relaxed);
	if (self != NULL)
		xk_shepherd_unblock(self);
	xk_token_fini(&token);
	return waiter->result;
}

/* Aborts if the wait is a mistake. */
static void
semaphore_check(const struct xk_semaphore *semaphore, const struct xk_shepherd *self, uint64_t timeout_us)
{
	if (xk_unlikely(semaphore->owner == NULL))
		xk_wait_refuse(semaphore, "was never initialized");
	if (xk_unlikely(semaphore->owner->kernel->initializes))
		xk_wait_refuse(semaphore, "is waited for in an init, before anything runs that could end the wait: "
					  "wait in an event handler or in an application's shepherd");
	if (self == NULL)
		return;
	if (xk_unlikely(self->head.locks != 0))
		xk_lock_refuse("waits");
	/* The hosts of a process start and stop independently: neither could end this wait of the other's. */
	if (xk_unlikely(self->kernel != semaphore->owner->kernel))
		xk_wait_refuse(semaphore,
			       "is another host's: keep it in the protocol's or session's struct, never in a "
			       "static variable");
	if (XK_IS_DEBUG && timeout_us == XK_FOREVER && self->load == XK_LOAD_MESSAGE)
		xk_wait_refuse(semaphore,
			       "may never be signalled (XK_FOREVER): a message must not wait; process.h states "
			       "when it may");
}

/* Returns the time: a recent reading of the clock if there is one, or else a new one. */
static uint64_t
semaphore_now_ns(struct xk_kernel *kernel, const struct xk_shepherd *self)
{
	if (self != NULL && xk_on_driver(self))
		return self->driver->now_ns;
	return kernel->platform->ops->now_ns(kernel->platform);
}

/* Waits. from: the address of the code that waits. */
static int
semaphore_wait(struct xk_semaphore *semaphore, uint64_t timeout_us, uintptr_t from)
{
	struct xk_shepherd *self = xk_self();
	struct xk_kernel *kernel;
	struct xk_waiter waiter;
	bool parks = self != NULL && self->detachable, is_timed = timeout_us < XK_UNTIL_SIGNALLED;
	int result;

	semaphore_check(semaphore, self, timeout_us);
	kernel = semaphore->owner->kernel;
	if (atomic_load_explicit(&kernel->stopping, memory_order_seq_cst))
		return -ECANCELED;
	if (parks && xk_on_driver(self) && semaphore->owner->implicit == XK_IMPLICIT_FAIL)
		return -EAGAIN;
	/* waiter.timeout stays uninitialized: most waits have none. */
	waiter.next = NULL;
	waiter.semaphore = semaphore;
	waiter.shepherd = NULL;
	waiter.token = NULL;
	waiter.since_ns = semaphore_now_ns(kernel, self);
	waiter.from = from;
	waiter.load = self == NULL ? XK_LOADS : self->load;
	waiter.end = is_timed ? XK_WAIT_TIMED : timeout_us == XK_FOREVER ? XK_WAIT_FOREVER : XK_WAIT_SIGNALLED;
	waiter.spin_until_ns = 0;
	waiter.result = waiter.early = 0;
	waiter.is_application = waiter.queued = false;
	waiter_list(kernel, &waiter);
	if (is_timed) {
		xk_wheel_prepare(kernel->wheel, &waiter.timeout, semaphore_time_out, &waiter);
		xk_event_schedule(&waiter.timeout, timeout_us);
	}
	if (parks)
		result = semaphore_park(self, semaphore, &waiter);
	else
		result = semaphore_block(self, semaphore, &waiter);
	while (is_timed && xk_event_cancel(&waiter.timeout) == XK_EVENT_RUNNING)
		sched_yield();
	waiter_unlist(kernel, &waiter);
	return result;
}

/* Returns the address of the call to the innermost function that is not inlined. */
#define SEMAPHORE_CALLER() ((uintptr_t)__builtin_return_address(0) - 1)

int
xk_semaphore_wait(struct xk_semaphore *semaphore, uint64_t timeout_us)
{
	if (semaphore_take(semaphore)) {
		if (xk_unlikely(atomic_load_explicit(&semaphore->lock, memory_order_acquire) != 0)) {
			xk_spin_lock(&semaphore->lock); /* wait for the signaller: the semaphore may be freed next */
			xk_spin_unlock(&semaphore->lock);
		}
		return 0;
	}
	return timeout_us == 0 ? -EAGAIN : semaphore_wait(semaphore, timeout_us, SEMAPHORE_CALLER());
}

void
xk_semaphore_signal(struct xk_semaphore *semaphore)
{
	struct xk_waiter *waiter;

	if (semaphore_change(semaphore, 1, memory_order_release))
		return;
	xk_spin_lock(&semaphore->lock);
	waiter = semaphore->first;
	if (waiter == NULL) {
		atomic_fetch_add_explicit(&semaphore->count, 1, memory_order_release);
	} else {
		semaphore_unqueue(semaphore, waiter);
		waiter->result = 0;
	}
	xk_spin_unlock(&semaphore->lock);
	if (waiter != NULL)
		waiter_wake(waiter);
}

int
xk_delay(struct xk_protocol *owner, uint64_t delay_us)
{
	struct xk_semaphore never;
	int result;

	xk_semaphore_init(&never, owner, 0);
	result = semaphore_wait(&never, delay_us == 0 ? 1 : delay_us, SEMAPHORE_CALLER());
	return result == -ETIMEDOUT ? 0 : result;
}

/* ---- work ---- */

void
xk_work(struct xk_protocol *self, uint64_t work_ns)
{
	struct xk_platform *platform = self->kernel->platform;
	struct xk_shepherd *shepherd = xk_self();
	uint64_t until_ns;

	if (xk_unlikely(xk_locks_held() != 0))
		xk_lock_refuse("computes (xk_work)");
	/* The driver's batch need not wait for the end of this turn, which is work_ns later. */
	if (shepherd != NULL && xk_on_driver(shepherd))
		for (struct xk_port *port = shepherd->driver->ports; port != NULL; port = port->beside)
			xk_transmit_flush(port);
	if (platform->ops->work != NULL)
		platform->ops->work(platform, work_ns);
	if (platform->ops->work != NULL || work_ns == 0)
		return;
	until_ns = platform->ops->now_ns(platform) + work_ns;
	while (platform->ops->now_ns(platform) < until_ns)
		continue;
}

/* ---- locks ---- */

enum {
	LOCK_SPINS = 200, /* tries of the driver before it hands off: about a microsecond */
	LOCK_YIELD_EVERY = 64,
};

unsigned
xk_locks_held(void)
{
	struct xk_shepherd *self = xk_self();

	return self == NULL ? 0 : self->head.locks;
}

void
xk_lock_init(struct xk_lock *lock, struct xk_protocol *owner)
{
	atomic_init(&lock->held, 0);
	lock->owner = owner;
}

static inline void
lock_count(struct xk_shepherd *self, const struct xk_lock *lock)
{
	if (xk_unlikely(self == NULL))
		return;
	if (XK_IS_DEBUG)
		self->lock_owner = lock->owner;
	self->head.locks++;
	xk_bump(self->head.taken, 1);
}

static bool
lock_take(struct xk_lock *lock)
{
	return atomic_load_explicit(&lock->held, memory_order_relaxed) == 0 &&
	       atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) == 0;
}

bool
xk_lock_try(struct xk_lock *lock)
{
	if (!lock_take(lock))
		return false;
	lock_count(xk_self(), lock);
	return true;
}

/* Spins on the driver: LOCK_SPINS times, then for the time set in the graph. Returns whether it took the lock. */
static bool
lock_spin(struct xk_lock *lock, struct xk_shepherd *self)
{
	struct xk_kernel *kernel = lock->owner->kernel;
	uint64_t until_ns = 0;

	for (unsigned i = 0; i < LOCK_SPINS; i++)
		if (lock_take(lock))
			return true;
	if (lock->owner->implicit != XK_IMPLICIT_SPIN)
		return false;
	until_ns = xk_clock(kernel, self->runner) + lock->owner->spin_ns;
	do {
		if (lock_take(lock))
			return true;
	} while (xk_clock(kernel, self->runner) < until_ns);
	return false;
}

/* Waits for a held lock. Not inlined: taking a free one must save no registers. */
__attribute__((noinline)) static void
lock_wait(struct xk_lock *lock)
{
	struct xk_shepherd *self = xk_self();

	if (self != NULL && self->detachable && xk_on_driver(self) && self->head.locks == 0) {
		if (lock_spin(lock, self)) {
			lock_count(self, lock);
			return;
		}
		xk_shepherd_handoff(self, XK_HANDOFF_IMPLICIT, NULL);
	}
	for (unsigned tries = 1; !lock_take(lock); tries++)
		if (tries % LOCK_YIELD_EVERY == 0)
			sched_yield();
	lock_count(self, lock);
}

void
xk_lock_checked(struct xk_lock *lock)
{
	if (xk_likely(atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) == 0))
		lock_count(xk_self(), lock);
	else
		lock_wait(lock);
}

void
xk_unlock_checked(struct xk_lock *lock)
{
	struct xk_shepherd *self = xk_self();

	if (XK_IS_DEBUG && atomic_load_explicit(&lock->held, memory_order_relaxed) == 0)
		xk_unlock_refuse(lock);
	if (xk_likely(self != NULL))
		self->head.locks--;
	atomic_store_explicit(&lock->held, 0, memory_order_release);
}
