/* upi_enable.c - counted open_enables by passive key, which a protocol looks up when a stranger's frame arrives. */
#include "xkernel/upi.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "xkernel/engine/engine.h"

/* Adds `by` to a count that is not 0, and returns the old count; 0: the enable is being removed. */
static unsigned
enable_count(struct xk_enable *enable, int by)
{
	unsigned was = atomic_load_explicit(&enable->count, memory_order_relaxed);

	do {
		if (was == 0)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(&enable->count, &was, was + (unsigned)by, memory_order_acq_rel,
							memory_order_relaxed));
	return was;
}

/* Returns 0, -ENOMEM, or -EEXIST if another shepherd was faster. */
static int
enable_bind(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type)
{
	struct xk_enable *enable = calloc(1, sizeof(*enable));
	int result;

	if (enable == NULL)
		return -ENOMEM;
	enable->hlp_receive = hlp_receive;
	enable->hlp_type = hlp_type;
	atomic_init(&enable->count, 1);
	result = xk_map_bind(map, &enable->binding, key, enable);
	if (result != 0)
		free(enable);
	return result;
}

int
xk_enable_add(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type)
{
	for (;;) {
		struct xk_enable *enable = xk_map_resolve(map, key);
		int result = -EEXIST;

		if (enable == NULL)
			result = enable_bind(map, key, hlp_receive, hlp_type);
		else if (enable->hlp_receive != hlp_receive || enable->hlp_type != hlp_type)
			return -EADDRINUSE;
		else if (enable_count(enable, 1) > 0)
			return 0;
		if (result != -EEXIST)
			return result;
		sched_yield(); /* the shepherd that removes it is about to unbind it */
	}
}

static void
enable_free(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct xk_enable, retired));
}

int
xk_enable_remove(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type)
{
	struct xk_enable *enable = xk_map_resolve(map, key);
	unsigned was;

	if (enable == NULL || enable->hlp_receive != hlp_receive || enable->hlp_type != hlp_type)
		return -ENOENT;
	was = enable_count(enable, -1);
	if (was != 1)
		return was == 0 ? -ENOENT : 0;
	xk_map_unbind(map, &enable->binding);
	xk_epochs_retire(&hlp_receive->kernel->epochs, &enable->retired, enable_free);
	return 0;
}

static void
enable_forget(void *object, void *context)
{
	struct xk_enable *enable = object;

	xk_map_unbind(context, &enable->binding);
	free(enable);
}

void
xk_enable_fini(struct xk_map *map)
{
	xk_map_for_each(map, enable_forget, map);
	xk_map_fini(map);
}
