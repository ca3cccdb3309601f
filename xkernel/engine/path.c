/* path.c - delivers messages by paths: see path.h. path_make.c makes the paths. */
#include "xkernel/path.h"

#include <stdlib.h>
#include <string.h>

#include "xkernel/engine/engine.h"
#include "xkernel/engine/paths.h"
#include "xkernel/protocol.h"

enum {
	PATH_MISSES = 32,       /* messages in a row without a path, after which only samples are looked up */
	PATH_SAMPLE = 8,        /* at first, one of this many is a sample */
	PATH_SAMPLE_MAX = 1024, /* ... and at most, while no sample yields a path */
	PATH_MANY = 64,         /* paths: more than the first-level cache holds */
};

/* Delivers m layer by layer. Takes m. */
static inline void
path_deliver_by_layers(struct xk_port *port, struct xk_msg *m)
{
	struct xk_paths *paths = port->paths;

	if (xk_likely(atomic_load_explicit(&paths->kernel->mode, memory_order_relaxed) == XK_IPP))
		xk_bump(&paths->layered, 1); /* the driver alone */
	else
		xk_tally(&paths->layered);
	xk_demux(port->receiver, m);
}

XK_APART void
xk_path_deliver_by_layers(struct xk_port *port, struct xk_msg *m)
{
	path_deliver_by_layers(port, m);
}

/* Returns the longest pattern of m among those that are valid in this version, or NULL. */
static inline const struct xk_path_pattern *
path_pattern_of(struct xk_paths *paths, const struct xk_msg *m, uint32_t version)
{
	const struct xk_path_pattern *pattern;

	for (unsigned i = 0; (pattern = atomic_load_explicit(&paths->pattern[i], memory_order_acquire)) != NULL; i++)
		if (m->len >= pattern->layout.len &&
		    (xk_path_load(m->data + pattern->prefilter_at) & pattern->prefilter_mask) == pattern->prefilter &&
		    atomic_load_explicit(&pattern->version, memory_order_relaxed) == version)
			return pattern;
	return NULL;
}

/*
 * Delivers m by its path. If it has none, makes one; for messages without a pattern (fragments, ARP) it tries this on
 * samples only. Takes m.
 */
XK_APART static void
path_search(struct xk_port *port, struct xk_msg *m)
{
	struct xk_paths *paths = port->paths;
	uint32_t version = atomic_load_explicit(&paths->kernel->path_version, memory_order_relaxed);
	uint32_t misses = atomic_load_explicit(&paths->misses, memory_order_relaxed);
	uint32_t interval = atomic_load_explicit(&paths->interval, memory_order_relaxed);
	const struct xk_path_pattern *pattern;
	const struct xk_path *path;

	pattern = path_pattern_of(paths, m, version);
	path = pattern == NULL ? NULL : xk_map_resolve(&paths->map, xk_path_key(pattern, m->data));
	if (xk_unlikely(path == NULL || atomic_load_explicit(&path->version, memory_order_relaxed) != version)) {
		atomic_store_explicit(&paths->misses, misses + 1, memory_order_relaxed);
		if (pattern != NULL || misses >= PATH_MISSES ||
		    (atomic_load_explicit(&paths->layered, memory_order_relaxed) & (interval - 1)) == 1) {
			if (xk_path_make(port, m))
				interval = PATH_SAMPLE;
			else if (pattern == NULL && interval < PATH_SAMPLE_MAX)
				interval *= 2;
			atomic_store_explicit(&paths->interval, interval, memory_order_relaxed);
		}
		path_deliver_by_layers(port, m);
		return;
	}
	if (misses != 0)
		atomic_store_explicit(&paths->misses, 0, memory_order_relaxed);
	pattern->code.deliver(port, m, path, xk_path_deliver_by_layers);
}

/*
 * Delivers m, whose path is not the one that was taken last. After many messages without a path, looks up only samples.
 * If the port has no path at all, the next `rest` messages skip even this function. Takes m.
 */
XK_APART static void
path_other(struct xk_port *port, struct xk_msg *m)
{
	struct xk_paths *paths = port->paths;
	uint32_t misses = atomic_load_explicit(&paths->misses, memory_order_relaxed);
	uint32_t rest = atomic_load_explicit(&paths->interval, memory_order_relaxed) - 1;

	if (misses < PATH_MISSES || (misses & rest) == 0) {
		path_search(port, m);
	} else if (xk_map_count(&paths->map) > 0) {
		atomic_store_explicit(&paths->misses, misses + 1, memory_order_relaxed);
		path_deliver_by_layers(port, m);
	} else {
		atomic_store_explicit(&paths->misses, (misses | rest) + 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&paths->layered, rest, memory_order_relaxed);
		atomic_store_explicit(&port->unsampled, rest, memory_order_relaxed);
		path_deliver_by_layers(port, m);
	}
}

/* Returns the path at a place, or NULL. */
static inline const struct xk_path *
path_at(struct xk_map_place place)
{
	if (place.slot == NULL)
		return NULL;
	return xk_map_slot_binding(atomic_load_explicit(place.slot, memory_order_acquire))->object;
}

/* xk_path_expect, with many paths. */
XK_APART static bool
path_expect(struct xk_port *port, struct xk_msg *const burst[], unsigned count, struct xk_map_place places[])
{
	static const size_t lines[] = { 0, offsetof(struct xk_path, version), offsetof(struct xk_path, pattern) - 48,
					offsetof(struct xk_path, fill) };
	struct xk_paths *paths = port->paths;
	uint32_t version = atomic_load_explicit(&paths->kernel->path_version, memory_order_relaxed);

	paths->expected = atomic_load_explicit(&paths->map.table, memory_order_acquire);
	for (unsigned i = 0; i < count; i++) {
		const struct xk_path_pattern *pattern = path_pattern_of(paths, burst[i], version);

		places[i].slot = NULL;
		if (pattern != NULL)
			places[i] = xk_map_expect(&paths->map, xk_path_key(pattern, burst[i]->data));
	}
	for (unsigned i = 0; i < count; i++) {
		const struct xk_binding *binding; /* at the beginning of a path, or a marker */

		if (places[i].slot == NULL)
			continue;
		places[i].slot = xk_map_near(&places[i]);
		binding = xk_map_slot_binding(atomic_load_explicit(places[i].slot, memory_order_acquire));
		for (unsigned line = 0; line < XK_ARRAY_LENGTH(lines); line++)
			__builtin_prefetch((const char *)binding + lines[line]);
	}
	for (unsigned i = 0; i < count; i++) {
		const struct xk_path *path = path_at(places[i]);

		if (path == NULL)
			continue;
		__builtin_prefetch(path->top);
		__builtin_prefetch((const void *)path->unusual_up);
		__builtin_prefetch((const void *)path->unusual);
		__builtin_prefetch((const void *)path->whole);
		for (unsigned fill = 0; fill < XK_PATH_FILLS; fill++)
			__builtin_prefetch((const void *)path->fill[fill].number);
	}
	return true;
}

bool
xk_path_expect(struct xk_port *port, struct xk_msg *const burst[], unsigned count, struct xk_map_place places[])
{
	return xk_map_count(&port->paths->map) >= PATH_MANY &&
	       atomic_load_explicit(&port->paths->misses, memory_order_relaxed) < PATH_MISSES &&
	       path_expect(port, burst, count, places);
}

void
xk_path_deliver_expected(struct xk_port *port, struct xk_msg *m, struct xk_map_place place)
{
	struct xk_paths *paths = port->paths;
	uint32_t version = atomic_load_explicit(&paths->kernel->path_version, memory_order_relaxed);
	const struct xk_path *path = NULL;

	if (paths->expected == atomic_load_explicit(&paths->map.table, memory_order_relaxed))
		path = path_at(place);
	if (xk_unlikely(path == NULL || atomic_load_explicit(&path->version, memory_order_relaxed) != version)) {
		xk_path_deliver(port, m);
		return;
	}
	/*
	 * The path near a place may be another conversation's, unless the tag is right: then m's path ends a series of
	 * misses.
	 */
	if (atomic_load_explicit(&paths->misses, memory_order_relaxed) != 0 &&
	    atomic_load_explicit(place.slot, memory_order_relaxed) >> (64 - XK_MAP_TAG) == place.tag)
		atomic_store_explicit(&paths->misses, 0, memory_order_relaxed);
	path->pattern->code.deliver(port, m, path, xk_path_deliver);
}

void
xk_path_deliver(struct xk_port *port, struct xk_msg *m)
{
	struct xk_paths *paths = port->paths;
	uint32_t version = atomic_load_explicit(&paths->kernel->path_version, memory_order_relaxed);
	const struct xk_path *path = xk_map_peek(&paths->map);

	if (xk_unlikely(path == NULL || atomic_load_explicit(&path->version, memory_order_relaxed) != version))
		path_other(port, m);
	else
		path->pattern->code.deliver(port, m, path, path_other);
}

struct xk_msg *
xk_path_peek(const struct xk_port *port)
{
	const struct xk_shepherd *self = xk_self();
	const struct xk_driver *driver = self->driver;

	if (!xk_on_driver(self) || driver->port != port || driver->next == driver->count ||
	    atomic_load_explicit(&driver->kernel->budgeted, memory_order_relaxed))
		return NULL;
	return driver->burst[driver->next];
}

void
xk_path_take(void)
{
	struct xk_driver *driver = xk_self()->driver;

	driver->next++;
	if (driver->next + 1 < driver->count)
		__builtin_prefetch(driver->burst[driver->next + 1]->data);
}

XK_APART void
xk_path_show(struct xk_session *s, struct xk_msg *m, const struct xk_path *path)
{
	unsigned watch = xk_edge_watched(path->below->up, XK_WATCH_OWNER | XK_WATCH_SINK);

	if (watch & XK_WATCH_SINK)
		xk_trace_crossing(path->below, m, XK_DOWN);
	if ((watch & XK_WATCH_OWNER) || XK_IS_DEBUG)
		xk_msg_cross(m, s->protocol, path->below->protocol, XK_DOWN);
}

/* ---- a port's table ---- */

uint64_t
xk_paths_taken(const struct xk_port *port)
{
	uint64_t layered = atomic_load_explicit(&port->paths->layered, memory_order_relaxed) -
			   atomic_load_explicit(&port->unsampled, memory_order_relaxed);
	uint64_t all = atomic_load_explicit(&port->frames_in, memory_order_relaxed);

	return all > layered ? all - layered : 0;
}

int
xk_paths_init(struct xk_port *port, struct xk_kernel *kernel)
{
	struct xk_paths *paths = calloc(1, sizeof(*paths));
	/* not from xk_kernel_seed, which would change the seeds of sessions' tables */
	const uint64_t seed[2] = { xk_kernel_random(NULL), xk_kernel_random(NULL) };

	if (paths == NULL || xk_map_make(&paths->map, 0, seed, &kernel->epochs, true) != 0) {
		free(paths);
		return -ENOMEM;
	}
	paths->kernel = kernel;
	paths->interval = PATH_SAMPLE;
	port->paths = paths;
	return 0;
}

void
xk_paths_fini(struct xk_port *port)
{
	if (port->paths == NULL)
		return;
	for (unsigned i = 0; i < XK_PATH_PATTERNS; i++)
		free(port->paths->pattern[i]);
	xk_map_fini(&port->paths->map);
	free(port->paths);
}
