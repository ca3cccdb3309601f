/*
 * parked.c - lists waiting shepherds, for counts and reports; and reports waits that are mistakes, and locks held for
 * too long. None of this is on the fast path.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "xkernel/engine/engine.h"
#include "xkernel/engine/where.h"

enum { PARKED_GROUPS = 32 };
#define PARKED_LONG_NS (1000 * 1000 * 1000ull) /* a message that has waited this long is reported at the end */

const char *const xk_load_names[] = { "messages", "events", "applications", "threads" };
const char *const xk_wait_end_names[] = { "timed", "signalled", "forever" };

/* ---- mistakes ---- */

void
xk_wait_refuse(const struct xk_semaphore *semaphore, const char *why)
{
	const struct xk_protocol *owner = semaphore->owner;
	struct xk_where where;

	xk_where_note(&where);
	fprintf(stderr, "a wait that may not end: ");
	if (where.kernel != NULL) {
		xk_where_print(&where, "waits", stderr);
		fprintf(stderr, "; ");
	}
	fprintf(stderr, "the semaphore");
	if (owner != NULL)
		fprintf(stderr, " of host \"%s\", protocol \"%s\"", owner->kernel->config.name, owner->name);
	fprintf(stderr, " %s\n", why);
	fflush(stdout);
	abort();
}

void
xk_lock_refuse(const char *does)
{
	const struct xk_shepherd *self = xk_self();
	const struct xk_protocol *owner = self->lock_owner;
	struct xk_where where;

	xk_where_note(&where);
	fprintf(stderr, "a lock is held for too long: ");
	xk_where_print(&where, does, stderr);
	if (owner != NULL)
		fprintf(stderr, ", and holds the lock of protocol \"%s\"\n", owner->name);
	else
		fprintf(stderr, ", and holds a lock\n");
	fflush(stdout);
	abort();
}

void
xk_unlock_refuse(const struct xk_lock *lock)
{
	struct xk_where where;

	xk_where_note(&where);
	fprintf(stderr, "a lock that is not held is released: ");
	xk_where_print(&where, "unlocks", stderr);
	if (lock->owner != NULL)
		fprintf(stderr, "; the lock belongs to protocol \"%s\"\n", lock->owner->name);
	else
		fprintf(stderr, "; the lock was never initialized\n");
	fflush(stdout);
	abort();
}

void
xk_lock_refuse_end(const struct xk_shepherd *self)
{
	static const char *const loads[] = { "a message", "an event handler", "an application" };

	fprintf(stderr, "a lock is held for too long: host \"%s\": %s has ended and ", self->kernel->config.name,
		loads[self->load]);
	if (self->lock_owner != NULL)
		fprintf(stderr, "left the lock of protocol \"%s\" taken\n", self->lock_owner->name);
	else
		fprintf(stderr, "left a lock taken (./run build --debug makes programs that name its protocol)\n");
	fflush(stdout);
	abort();
}

/* ---- waiters ---- */

static bool
parked_is_of(const struct xk_parked *group, const struct xk_waiter *waiter)
{
	return group->from == waiter->from && group->protocol == waiter->semaphore->owner &&
	       group->load == waiter->load && group->end == waiter->end;
}

unsigned
xk_kernel_parked(struct xk_kernel *kernel, struct xk_parked *groups, unsigned room)
{
	uint64_t now_ns = kernel->platform->ops->now_ns(kernel->platform);
	unsigned count = 0;

	xk_spin_lock(&kernel->waiters_lock);
	for (const struct xk_waiter *waiter = kernel->waiters; waiter != NULL; waiter = waiter->all_next) {
		unsigned i = 0;

		while (i < count && !parked_is_of(&groups[i], waiter))
			i++;
		if (i == count && count == room)
			i--;
		else if (i == count)
			groups[count++] = (struct xk_parked){
				waiter->semaphore->owner, waiter->load, waiter->end, waiter->from, 0, 0
			};
		groups[i].count++;
		if (waiter->since_ns < now_ns && now_ns - waiter->since_ns > groups[i].longest_ns)
			groups[i].longest_ns = now_ns - waiter->since_ns;
	}
	xk_spin_unlock(&kernel->waiters_lock);
	return count;
}

bool
xk_kernel_is_stuck(struct xk_kernel *kernel)
{
	bool found = false;

	xk_spin_lock(&kernel->waiters_lock);
	for (const struct xk_waiter *waiter = kernel->waiters; waiter != NULL && !found; waiter = waiter->all_next)
		found = waiter->load == XK_LOAD_MESSAGE && waiter->end == XK_WAIT_FOREVER;
	xk_spin_unlock(&kernel->waiters_lock);
	return found;
}

/* ---- reports ---- */

static void
parked_print(const struct xk_parked *group)
{
	static const char *const loads[] = { "arriving message", "event handler", "application shepherd",
					     "thread of the program" };
	static const char *const ends[] = { "with a timeout", "until they are signalled", "without a timeout" };
	const struct xk_protocol *p = group->protocol;
	bool one = group->count == 1;
	char function[XK_WHERE_FUNCTION];

	fprintf(stderr, "host \"%s\", protocol \"%s\": %u %s%s wait%s in %s, %s%.3g s, %s", p->kernel->config.name,
		p->name, group->count, loads[group->load], one ? "" : "s", one ? "s" : "",
		xk_where_function(group->from, function), one ? "for " : "the first for ",
		(double)group->longest_ns / 1e9,
		one && group->end == XK_WAIT_SIGNALLED ? "until it is signalled" : ends[group->end]);
	fprintf(stderr, "%s\n",
		group->load == XK_LOAD_MESSAGE && group->end == XK_WAIT_FOREVER ? ": demux and pop must not wait" : "");
}

void
xk_parked_report(struct xk_kernel *kernel)
{
	struct xk_parked groups[PARKED_GROUPS];
	unsigned count = xk_kernel_parked(kernel, groups, PARKED_GROUPS);

	for (unsigned i = 0; i < count; i++) {
		const struct xk_parked *group = &groups[i];
		bool is_long = group->longest_ns >= PARKED_LONG_NS;

		if (group->load <= XK_LOAD_EVENT && (group->end == XK_WAIT_FOREVER || is_long))
			parked_print(group);
	}
}

void
xk_parked_report_left(struct xk_kernel *kernel)
{
	struct xk_parked groups[PARKED_GROUPS];
	unsigned count = xk_kernel_parked(kernel, groups, PARKED_GROUPS);
	unsigned busy = atomic_load_explicit(&kernel->busy, memory_order_relaxed);
	unsigned applications = atomic_load_explicit(&kernel->applications, memory_order_relaxed);

	fprintf(stderr,
		"host \"%s\" does not stop: %u messages or shepherds are in progress, %u threads of applications "
		"run\n",
		kernel->config.name, busy, applications);
	for (unsigned i = 0; i < count; i++)
		parked_print(&groups[i]);
}
