/* services.c - see services.h; also those functions of process.h, platform.h, capture.h and pages.h that concern the kernel. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>

#include "xkernel/capture.h"
#include "xkernel/engine/engine.h"
#include "xkernel/map.h"
#include "xkernel/pages.h"

enum { SERVICES_THREADS = 2 /* the main thread and the event thread, which may hold buffers, too */ };
#define SERVICES_EPISODE_NS UINT64_C(1000000000)

/* ---- the host ---- */

struct xk_platform *
xk_platform_of(const struct xk_protocol *self)
{
	const struct xk_shepherd *shepherd = xk_self();

	/* The shepherd may be another kernel's that pushes on a session of this one. */
	if (shepherd != NULL && shepherd->kernel == self->kernel)
		return shepherd->driver->platform;
	return self->kernel->platform;
}

struct xk_capture *
xk_capture_of(const struct xk_protocol *self)
{
	return self->kernel->config.capture;
}

struct xk_pages *
xk_pages_of(const struct xk_protocol *self)
{
	return self->kernel->pages;
}

uint64_t
xk_now_ns(const struct xk_protocol *self)
{
	struct xk_platform *platform = self->kernel->platform;
	struct xk_shepherd *shepherd = xk_self();

	if (xk_likely(shepherd != NULL))
		return xk_clock(self->kernel, shepherd->runner);
	return platform->ops->now_ns(platform);
}

uint64_t
xk_boots(const struct xk_protocol *self)
{
	struct xk_platform *platform = self->kernel->platform;

	return platform->ops->boots == NULL ? 0 : platform->ops->boots(platform);
}

/* ---- buffers ---- */

XK_APART void
xk_port_starved(struct xk_port *port, unsigned frames)
{
	struct xk_platform *platform = port->platform;
	struct xk_session *receiver = port->receiver;
	uint64_t now_ns = platform->ops->now_ns(platform), before_ns = port->starved_ns;
	struct xk_kernel *kernel;

	port->starved_ns = now_ns | 1;
	if (receiver == NULL) {
		atomic_fetch_add_explicit(&port->unheard, frames, memory_order_relaxed);
		return;
	}
	kernel = receiver->protocol->kernel;
	atomic_fetch_add_explicit(&receiver->protocol->drops[XK_DROP_NO_BUFFER], frames > 0 ? frames : 1,
				  memory_order_relaxed);
	if (before_ns != 0 && now_ns - before_ns < SERVICES_EPISODE_NS)
		return;
	xk_trace_kernel(
		kernel,
		"%s has no buffer to receive into: frames are lost (no_buffer). See `xk stats` for the protocol "
		"whose messages take the buffers (kept), and lower its limits",
		port->name);
}

/* Adds n to the buffers that self keeps, without a read-modify-write if the caller runs in a driver of self's kernel. */
static void
services_keep(struct xk_protocol *self, uint64_t n)
{
	const struct xk_shepherd *shepherd = xk_self();
	struct xk_kernel *kernel = self->kernel;

	if (xk_likely(shepherd != NULL && shepherd->kernel == kernel && shepherd->head.lane != 0)) {
		xk_bump(&self->counts[shepherd->head.lane][XK_COUNT_KEPT], n);
		xk_bump(&shepherd->driver->kept, n);
	} else {
		atomic_fetch_add_explicit(&self->counts[0][XK_COUNT_KEPT], n, memory_order_relaxed);
		atomic_fetch_add_explicit(&kernel->kept, n, memory_order_relaxed);
	}
}

/* Returns a sum of counts whose parts were read at different times. */
static unsigned
services_sum(uint64_t sum)
{
	return (int64_t)sum < 0 ? 0 : (unsigned)sum;
}

unsigned
xk_kept(const struct xk_protocol *self)
{
	uint64_t sum = 0;

	for (unsigned lane = 0; lane <= self->kernel->driver_count; lane++)
		sum += atomic_load_explicit(&self->counts[lane][XK_COUNT_KEPT], memory_order_relaxed);
	return services_sum(sum);
}

/* Returns how many buffers all protocols of kernel keep. */
static unsigned
services_kept_by_all(const struct xk_kernel *kernel)
{
	uint64_t sum = atomic_load_explicit(&kernel->kept, memory_order_relaxed);

	for (const struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver)
		sum += atomic_load_explicit(&driver->kept, memory_order_relaxed);
	return services_sum(sum);
}

static inline unsigned
services_keep_limit(const struct xk_protocol *self, unsigned own)
{
	const struct xk_kernel *kernel = self->kernel;
	struct xk_platform *platform = kernel->platform;
	unsigned threads = kernel->driver_count + kernel->pool.threads + SERVICES_THREADS;
	unsigned kept = services_kept_by_all(kernel), others = kept > own ? kept - own : 0, all, limit;

	if (platform->ops->buffers == NULL)
		return UINT_MAX;
	all = platform->ops->buffers(platform, threads);
	limit = all > others ? (all - others) / 2 : 0;
	/* other users, such as messages in flight, may have taken the rest */
	return limit > own && platform->ops->is_short(platform) ? own : limit;
}

unsigned
xk_keep_limit(const struct xk_protocol *self)
{
	return services_keep_limit(self, xk_kept(self));
}

unsigned
xk_keep_room(const struct xk_protocol *self)
{
	unsigned kept = xk_kept(self), limit = services_keep_limit(self, kept);

	return limit > kept ? limit - kept : 0;
}

void
xk_keep(struct xk_protocol *self, unsigned count)
{
	services_keep(self, count);
}

bool
xk_keep_more(struct xk_protocol *self, unsigned count)
{
	if (count > xk_keep_room(self))
		return false;
	services_keep(self, count);
	return true;
}

void
xk_unkeep(struct xk_protocol *self, unsigned count)
{
	services_keep(self, -(uint64_t)count);
}

/* ---- randomness ---- */

uint64_t
xk_kernel_random(struct xk_kernel *kernel)
{
	struct xk_platform *platform = kernel == NULL ? NULL : kernel->platform;
	uint64_t bits = 0;

	if (platform != NULL && platform->ops->random != NULL)
		return platform->ops->random(platform);
	while (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		continue;
	return bits;
}

/* Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014): splitmix64. */
uint64_t
xk_kernel_seed(struct xk_kernel *kernel)
{
	uint64_t bits;

	if (kernel == NULL)
		return xk_kernel_random(NULL);
	bits = atomic_fetch_add_explicit(&kernel->seeds, UINT64_C(0x9e3779b97f4a7c15), memory_order_relaxed);
	bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
	return bits ^ bits >> 31;
}

uint64_t
xk_random(const struct xk_protocol *self)
{
	return xk_kernel_random(self->kernel);
}

/* ---- seeds, clock and epochs of the other tools ---- */

int
xk_map_init(struct xk_map *map, struct xk_kernel *kernel, unsigned expected)
{
	const uint64_t seed[2] = { xk_kernel_seed(kernel), xk_kernel_seed(kernel) };

	if (kernel == NULL)
		return xk_map_make(map, expected, seed, NULL, false);
	return xk_map_make(map, expected, seed, &kernel->epochs, kernel->driver_count > 1);
}

void
xk_event_init(struct xk_event *event, struct xk_kernel *kernel, xk_event_handler *handler, void *argument)
{
	xk_wheel_prepare(kernel->wheel, event, handler, argument);
}

void
xk_retire(struct xk_kernel *kernel, struct xk_retired *retired, void (*release)(struct xk_retired *retired))
{
	xk_epochs_retire(&kernel->epochs, retired, release);
}

/* ---- the end ---- */

const char *
xk_broken(struct xk_protocol *self, const char *format, ...)
{
	char *text = self->kernel->broken;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(self->kernel->broken), format, arguments);
	va_end(arguments);
	return text;
}

void
xk_host_end(struct xk_protocol *self, int status)
{
	struct xk_kernel *kernel = self->kernel;
	enum xk_ended before = XK_ENDED_NOT;

	if (!atomic_compare_exchange_strong(&kernel->ended, &before, status == 0 ? XK_ENDED_WELL : XK_ENDED_BADLY)) {
		if (status != 0)
			atomic_store(&kernel->ended, XK_ENDED_BADLY);
		return;
	}
	if (kernel->config.ended != NULL)
		kernel->config.ended(kernel->config.ended_context);
}

enum xk_ended
xk_kernel_ended(const struct xk_kernel *kernel)
{
	return atomic_load(&kernel->ended);
}
