/*
 * kernel.c - a host's life: made, filled with a graph, started or run, reconfigured, stopped, freed.
 */
#include "xkernel/kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "xkernel/capture.h"
#include "xkernel/engine.h"
#include "xkernel/trace.h"

enum {
	KERNEL_STACKS = 64,
	KERNEL_ADAPTIVE_NS = 50 * 1000,
	KERNEL_QUIET_TRIES = 20000, /* of KERNEL_NAP_NS each: two seconds */
	KERNEL_NAP_NS = 100 * 1000,
	KERNEL_EVENT_THREADS = 64, /* handlers that wait at once, in regular mode */
};

/* ---- making ---- */

static void
kernel_configure(struct xk_kernel *kernel, const struct xk_kernel_config *config)
{
	kernel->config = *config;
	if (kernel->config.name == NULL)
		kernel->config.name = "kernel";
	if (kernel->config.threads == 0)
		kernel->config.threads = 1;
	if (kernel->config.stacks == 0)
		kernel->config.stacks = KERNEL_STACKS;
	if (kernel->config.adaptive_ns == 0)
		kernel->config.adaptive_ns = KERNEL_ADAPTIVE_NS;
	kernel->platform = config->platform;
	kernel->mode = config->mode;
}

static void
kernel_init_driver(struct xk_kernel *kernel, struct xk_driver *driver, struct xk_platform *platform, int core)
{
	driver->kernel = kernel;
	driver->platform = platform;
	driver->index = kernel->driver_count++;
	driver->core = core;
	driver->run_last = &driver->run_first;
	driver->runner.kernel = kernel;
	driver->runner.kind = XK_RUN_DRIVER;
	driver->runner.shepherd.driver = driver;
}

static void
kernel_init_lists(struct xk_kernel *kernel)
{
	xk_pool_init(&kernel->pool);
	atomic_init(&kernel->events, NULL);
	kernel_init_driver(kernel, &kernel->driver, kernel->platform, kernel->config.core);
	kernel->retired_last = &kernel->retired_first;
	atomic_init(&kernel->epoch, 1);
}

static int
kernel_init_events(struct xk_kernel *kernel)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&kernel->events_mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&kernel->events_condition, &monotonic);
	pthread_condattr_destroy(&monotonic);
	xk_token_init(&kernel->events_token);
	kernel->wheel = xk_wheel_new(xk_kernel_now_us(kernel));
	return kernel->wheel == NULL ? -ENOMEM : 0;
}

struct xk_kernel *
xk_kernel_new(const struct xk_kernel_config *config)
{
	struct xk_kernel *kernel;

	if (config->platform == NULL || config->stacks == 1)
		return NULL;
	kernel = aligned_alloc(64, (sizeof(*kernel) + 63) & ~(size_t)63);
	if (kernel == NULL)
		return NULL;
	memset(kernel, 0, sizeof(*kernel));
	kernel_configure(kernel, config);
	kernel_init_lists(kernel);
	if (xk_pool_prepare(&kernel->pool, kernel->mode, 1) != 0 || kernel_init_events(kernel) != 0 ||
	    xk_stacks_init(&kernel->driver) != 0) {
		xk_kernel_free(kernel);
		return NULL;
	}
	return kernel;
}

/* ---- drivers ---- */

static struct xk_driver *
kernel_find_driver(struct xk_kernel *kernel, unsigned index)
{
	struct xk_driver *driver = &kernel->driver;

	while (driver != NULL && driver->index != index)
		driver = driver->next_driver;
	return driver;
}

int
xk_kernel_add_driver(struct xk_kernel *kernel, struct xk_platform *platform, int core)
{
	struct xk_driver *last = kernel_find_driver(kernel, kernel->driver_count - 1), *driver;

	xk_assert(kernel->ports == NULL && kernel->protocols == NULL && !kernel->started);
	if (platform->virtual_time || kernel->platform->virtual_time || platform->threads != NULL ||
	    kernel->platform->threads != NULL)
		return -EINVAL;
	if (kernel->driver_count == XK_DRIVERS)
		return -ENOSPC;
	driver = aligned_alloc(_Alignof(struct xk_driver), sizeof(*driver));
	if (driver == NULL)
		return -ENOMEM;
	memset(driver, 0, sizeof(*driver));
	kernel_init_driver(kernel, driver, platform, core);
	last->next_driver = driver;
	/* What there is of it goes with the kernel, which is of no use then. */
	if (xk_stacks_init(driver) != 0 || xk_pool_prepare(&kernel->pool, kernel->mode, kernel->driver_count) != 0)
		return -ENOMEM;
	return (int)driver->index;
}

unsigned
xk_kernel_drivers(const struct xk_kernel *kernel)
{
	return kernel->driver_count;
}

/* ---- ports ---- */

struct xk_port *
xk_kernel_find_port(struct xk_kernel *kernel, const char *name)
{
	for (struct xk_port *port = kernel->ports; port != NULL; port = port->next)
		if (strcmp(port->name, name) == 0)
			return port;
	return NULL;
}

/* Makes port the lane of its driver in the device that has its name. */
static void
kernel_add_lane(struct xk_kernel *kernel, struct xk_port *port)
{
	struct xk_port *sibling = xk_kernel_find_port(kernel, port->name);
	struct xk_device *device;

	if (sibling != NULL) {
		device = xk_container_of(sibling->lanes, struct xk_device, lanes);
	} else {
		device = calloc(1, sizeof(*device));
		xk_assert(device != NULL);
		device->next = kernel->devices;
		kernel->devices = device;
	}
	xk_assert(device->lanes[port->driver] == NULL);
	device->lanes[port->driver] = port;
	port->lanes = device->lanes;
}

static void
kernel_give_port(struct xk_driver *driver, struct xk_port *port)
{
	struct xk_port **at = &driver->ports;

	port->transmit->driver = driver;
	port->transmit->runner = &driver->runner;
	while (*at != NULL)
		at = &(*at)->beside;
	*at = port;
	port->around = driver->ports;
	if (driver->port != NULL)
		driver->port->around = port;
	driver->port = port;
}

void
xk_kernel_add_port(struct xk_kernel *kernel, struct xk_port *port)
{
	struct xk_driver *driver = kernel_find_driver(kernel, port->driver);
	struct xk_port **at = &kernel->ports;

	xk_assert(driver != NULL);
	port->transmit = calloc(1, sizeof(*port->transmit));
	xk_assert(port->transmit != NULL);
	kernel_add_lane(kernel, port);
	kernel_give_port(driver, port);
	while (*at != NULL)
		at = &(*at)->next;
	*at = port;
}

void
xk_port_listen(struct xk_port *port, struct xk_session *session)
{
	for (unsigned i = 0; i < XK_DRIVERS; i++)
		if (port->lanes[i] != NULL)
			port->lanes[i]->receiver = session;
}

/* ---- protocols and edges ---- */

static unsigned
kernel_count_names(const char *const *names)
{
	unsigned count = 0;

	while (names != NULL && names[count] != NULL)
		count++;
	return count;
}

static void
kernel_free_protocol(struct xk_protocol *protocol)
{
	const struct xk_setting *setting = protocol->type->settings;

	for (; setting != NULL && setting->name != NULL; setting++)
		if (setting->type == XK_SETTING_STRING)
			free(*(char **)((char *)protocol + setting->offset));
	for (unsigned i = 0; i < protocol->lower_count; i++)
		free(protocol->lowers[i]);
	free(protocol->lowers);
	free((void *)protocol->drops);
	free((void *)protocol->counters);
	free((void *)protocol->name);
	free(protocol);
}

static bool
kernel_set_initial(struct xk_protocol *protocol)
{
	const struct xk_setting *setting = protocol->type->settings;
	char why[128];

	for (; setting != NULL && setting->name != NULL; setting++)
		if (setting->initial != NULL &&
		    xk_setting_parse(setting, setting->initial, protocol, why, sizeof(why)) != 0)
			return false;
	return true;
}

struct xk_protocol *
xk_kernel_add_protocol(struct xk_kernel *kernel, const struct xk_protocol_type *type, const char *name)
{
	struct xk_protocol *protocol = calloc(1, type->size), **at = &kernel->protocols;

	if (protocol == NULL)
		return NULL;
	protocol->type = type;
	protocol->ops = type->ops;
	protocol->kernel = kernel;
	protocol->session_max = type->session_max;
	protocol->name = strdup(name);
	protocol->drops = calloc(xk_drop_count(type), sizeof(*protocol->drops));
	protocol->counters = calloc(kernel_count_names(type->counters) + 1, sizeof(*protocol->counters));
	if (protocol->name == NULL || protocol->drops == NULL || protocol->counters == NULL ||
	    !kernel_set_initial(protocol)) {
		kernel_free_protocol(protocol);
		return NULL;
	}
	while (*at != NULL)
		at = &(*at)->next;
	*at = protocol;
	return protocol;
}

struct xk_edge *
xk_kernel_add_edge(struct xk_kernel *kernel, struct xk_protocol *upper, struct xk_protocol *lower, const char *role)
{
	struct xk_edge **lowers = realloc(upper->lowers, (upper->lower_count + 1) * sizeof(*lowers)), *edge;

	if (lowers == NULL)
		return NULL;
	upper->lowers = lowers;
	edge = calloc(1, sizeof(*edge) + kernel->driver_count * sizeof(edge->credit_ns[0]));
	if (edge == NULL)
		return NULL;
	edge->upper = upper;
	edge->lower = lower;
	edge->role = role;
	lowers[upper->lower_count++] = edge;
	return edge;
}

void
xk_kernel_set_budget(struct xk_kernel *kernel, uint64_t budget_ns, unsigned carry)
{
	kernel->budget_ns = budget_ns;
	kernel->carry_ns = budget_ns * carry;
}

/* ---- what to watch ---- */

static bool
kernel_is_budgeted(const struct xk_kernel *kernel, const struct xk_edge *edge)
{
	return !edge->never && (edge->budget_ns != 0 || kernel->budget_ns != 0);
}

static bool
kernel_watch_edge(struct xk_kernel *kernel, struct xk_edge *edge)
{
	unsigned watch = atomic_load_explicit(&edge->watch, memory_order_relaxed) & XK_WATCH_EXPLICIT;

	if (kernel_is_budgeted(kernel, edge))
		watch |= XK_WATCH_BUDGET;
	if (edge->upper->trace_level >= XK_TRACE_MESSAGES || edge->lower->trace_level >= XK_TRACE_MESSAGES)
		watch |= XK_WATCH_TRACE;
	atomic_store_explicit(&edge->watch, watch, memory_order_relaxed);
	return watch & XK_WATCH_BUDGET;
}

void
xk_kernel_rewatch(struct xk_kernel *kernel)
{
	bool budgeted = false, traced = false;

	for (struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next) {
		traced = traced || p->trace_level >= XK_TRACE_MESSAGES;
		for (unsigned i = 0; i < p->lower_count; i++)
			budgeted = kernel_watch_edge(kernel, p->lowers[i]) || budgeted;
	}
	atomic_store_explicit(&kernel->budgeted, budgeted, memory_order_relaxed);
	atomic_store_explicit(&kernel->traced, traced, memory_order_relaxed);
}

/* Gives back what the protocols up to (not with) end have taken: uppers first. */
static void
kernel_fini_protocols(struct xk_protocol *protocol, const struct xk_protocol *end)
{
	if (protocol == NULL || protocol == end)
		return;
	kernel_fini_protocols(protocol->next, end);
	xk_session_uncache(protocol, NULL, NULL);
	if (protocol->ops->fini != NULL)
		protocol->ops->fini(protocol);
}

int
xk_kernel_init(struct xk_kernel *kernel, struct xk_protocol **failed)
{
	xk_kernel_rewatch(kernel);
	for (struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next) {
		int result = p->ops->init == NULL ? 0 : p->ops->init(p);

		if (result == 0)
			continue;
		*failed = p;
		kernel_fini_protocols(kernel->protocols, p);
		xk_epoch_drain(kernel);
		kernel->initialised = NULL;
		return result;
	}
	kernel->initialised = kernel->protocols;
	return 0;
}

struct xk_protocol *
xk_kernel_first(struct xk_kernel *kernel)
{
	return kernel->protocols;
}

struct xk_protocol *
xk_kernel_find(struct xk_kernel *kernel, const char *name)
{
	for (struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

/* ---- time ---- */

struct xk_wheel *
xk_kernel_wheel(struct xk_kernel *kernel)
{
	return kernel->wheel;
}

uint64_t
xk_kernel_now_us(struct xk_kernel *kernel)
{
	return kernel->platform->ops->now_ns(kernel->platform) / 1000;
}

uint64_t
xk_now_ns(const struct xk_protocol *self)
{
	struct xk_platform *platform = self->kernel->platform;

	return platform->ops->now_ns(platform);
}

struct xk_platform *
xk_platform_of(const struct xk_protocol *self)
{
	const struct xk_shepherd *shepherd = xk_self();

	/* It may be another kernel's, which pushes on a session of this one. */
	if (shepherd != NULL && shepherd->kernel == self->kernel)
		return shepherd->driver->platform;
	return self->kernel->platform;
}

struct xk_capture *
xk_capture_of(const struct xk_protocol *self)
{
	return self->kernel->config.capture;
}

static void
kernel_nudge_events(struct xk_kernel *kernel)
{
	pthread_mutex_lock(&kernel->events_mutex);
	kernel->events_kicked = true;
	pthread_cond_signal(&kernel->events_condition);
	pthread_mutex_unlock(&kernel->events_mutex);
	if (kernel->platform->threads != NULL)
		xk_token_post(kernel, &kernel->events_token);
}

void
xk_kernel_kick(struct xk_kernel *kernel)
{
	if (kernel->mode == XK_IPP) {
		xk_driver_wake(&kernel->driver);
		return;
	}
	kernel_nudge_events(kernel);
}

/*
 * The event thread of regular mode: runs what is due, one handler after the other, until another thread has taken over
 * because a handler waited.
 */
static void
kernel_fire(struct xk_runner *runner)
{
	struct xk_kernel *kernel = runner->kernel;
	struct xk_shepherd *self = &runner->shepherd;
	struct xk_event *event;

	while (kernel->mode == XK_REGULAR && kernel->events == runner &&
	       (event = xk_wheel_take(kernel->wheel, xk_kernel_now_us(kernel))) != NULL) {
		self->load = XK_LOAD_EVENT;
		xk_epoch_enter(self);
		event->handler(event, event->argument);
		xk_wheel_fired(kernel->wheel, event);
		xk_epoch_leave(self);
	}
}

/* As kernel_wait_for_event, for a platform's own threads, which do not wait under a mutex. */
static void
kernel_wait_for_token(struct xk_kernel *kernel, uint64_t next_us)
{
	struct xk_platform *platform = kernel->platform;
	uint64_t deadline_ns = next_us < UINT64_MAX / 1000 ? next_us * 1000 : UINT64_MAX;

	pthread_mutex_unlock(&kernel->events_mutex);
	platform->threads->wait(platform, &kernel->events_token, deadline_ns);
	pthread_mutex_lock(&kernel->events_mutex);
}

/* Under the mutex: waits until something is due or kicked. */
static void
kernel_wait_for_event(struct xk_kernel *kernel)
{
	uint64_t next_us = kernel->mode == XK_REGULAR ? xk_wheel_next_us(kernel->wheel) : UINT64_MAX;
	uint64_t now_us = xk_kernel_now_us(kernel), delay_us;
	struct timespec until;

	if (next_us <= now_us)
		return;
	if (kernel->platform->threads != NULL) {
		kernel_wait_for_token(kernel, next_us);
		return;
	}
	if (next_us == UINT64_MAX) {
		pthread_cond_wait(&kernel->events_condition, &kernel->events_mutex);
		return;
	}
	delay_us = next_us - now_us;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(delay_us / 1000000);
	until.tv_nsec += (long)(delay_us % 1000000) * 1000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&kernel->events_condition, &kernel->events_mutex, &until);
}

static void
kernel_events_thread(struct xk_runner *runner)
{
	struct xk_kernel *kernel = runner->kernel;

	xk_runner_begin(runner);
	pthread_mutex_lock(&kernel->events_mutex);
	while (kernel->events == runner && !kernel->events_end) {
		kernel->events_kicked = false;
		pthread_mutex_unlock(&kernel->events_mutex);
		kernel_fire(runner);
		pthread_mutex_lock(&kernel->events_mutex);
		if (kernel->events == runner && !kernel->events_kicked && !kernel->events_end)
			kernel_wait_for_event(kernel);
	}
	if (kernel->events == runner)
		kernel->events = NULL;
	pthread_mutex_unlock(&kernel->events_mutex);
	xk_runner_end(runner);
	free(runner);
	atomic_fetch_sub_explicit(&kernel->event_threads, 1, memory_order_release);
}

/* Under the mutex: a thread that watches the time from now on. 0 or -EAGAIN. */
static int
kernel_start_events(struct xk_kernel *kernel)
{
	struct xk_runner *before = kernel->events, *runner;

	if (kernel->event_threads >= KERNEL_EVENT_THREADS)
		return -EAGAIN;
	runner = calloc(1, sizeof(*runner));
	if (runner == NULL)
		return -EAGAIN;
	runner->number = atomic_fetch_add_explicit(&kernel->event_threads, 1, memory_order_relaxed) + 1;
	kernel->events = runner;
	if (xk_runner_start(kernel, runner, XK_RUN_EVENTS, true, kernel_events_thread) == 0)
		return 0;
	kernel->events = before;
	atomic_fetch_sub_explicit(&kernel->event_threads, 1, memory_order_relaxed);
	free(runner);
	return -EAGAIN;
}

int
xk_events_stand_in(struct xk_shepherd *self)
{
	struct xk_kernel *kernel = self->kernel;
	int result = 0;

	pthread_mutex_lock(&kernel->events_mutex);
	if (kernel->events == self->runner && !kernel->events_end)
		result = kernel_start_events(kernel);
	pthread_mutex_unlock(&kernel->events_mutex);
	return result;
}

/* No handler runs or waits any more. */
static void
kernel_end_events(struct xk_kernel *kernel)
{
	pthread_mutex_lock(&kernel->events_mutex);
	kernel->events_end = true;
	pthread_mutex_unlock(&kernel->events_mutex);
	kernel_nudge_events(kernel);
	while (atomic_load_explicit(&kernel->event_threads, memory_order_acquire) > 0)
		xk_thread_nap(kernel, KERNEL_NAP_NS);
}

/* ---- running ---- */

static void
kernel_drive(struct xk_driver *driver)
{
	struct xk_runner *runner = &driver->runner;
	struct xk_shepherd *first;

	xk_runner_begin(runner);
	first = xk_shepherd_take(driver);
	xk_assert(first != NULL);
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside)
		xk_transmit_acquire(port);
	xk_epoch_enter(&runner->shepherd);
	xk_shepherd_switch(runner, NULL, first, false, NULL, NULL);
	xk_epoch_leave(&runner->shepherd);
	for (struct xk_port *port = driver->ports; port != NULL; port = port->beside) {
		xk_transmit_flush(port);
		xk_transmit_release(port);
	}
	xk_runner_end(runner);
}

static void
kernel_driver_thread(struct xk_runner *runner)
{
	kernel_drive(xk_container_of(runner, struct xk_driver, runner));
}

/* From first on; ends those that run. */
static void
kernel_end_drivers(struct xk_driver *first)
{
	for (struct xk_driver *driver = first; driver != NULL; driver = driver->next_driver) {
		atomic_store_explicit(&driver->halted, true, memory_order_seq_cst);
		xk_driver_wake(driver);
	}
	for (struct xk_driver *driver = first; driver != NULL; driver = driver->next_driver) {
		if (driver->started)
			xk_runner_join(&driver->runner);
		driver->started = false;
		atomic_store_explicit(&driver->halted, false, memory_order_relaxed);
	}
}

/* From first on, on threads of their own. 0 or -EAGAIN: none runs. */
static int
kernel_start_drivers(struct xk_driver *first)
{
	for (struct xk_driver *driver = first; driver != NULL; driver = driver->next_driver) {
		driver->started = true;
		if (xk_runner_start(driver->kernel, &driver->runner, XK_RUN_DRIVER, false, kernel_driver_thread) == 0)
			continue;
		driver->started = false;
		kernel_end_drivers(first);
		return -EAGAIN;
	}
	return 0;
}

void
xk_kernel_run(struct xk_kernel *kernel)
{
	int result;

	xk_assert(!kernel->started && kernel->mode == XK_IPP);
	result = kernel_start_drivers(kernel->driver.next_driver);
	xk_assert(result == 0);
	kernel_drive(&kernel->driver);
	kernel_end_drivers(&kernel->driver);
}

/* In regular mode somebody else than the driver watches the time. 0 or -EAGAIN. */
static int
kernel_need_events(struct xk_kernel *kernel)
{
	int result = 0;

	pthread_mutex_lock(&kernel->events_mutex);
	if (kernel->mode == XK_REGULAR && kernel->events == NULL)
		result = kernel_start_events(kernel);
	pthread_mutex_unlock(&kernel->events_mutex);
	return result;
}

void
xk_kernel_halt(struct xk_kernel *kernel)
{
	for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver) {
		atomic_store_explicit(&driver->halted, true, memory_order_seq_cst);
		xk_driver_wake(driver);
	}
}

/* Whether the drivers take frames. */
static void
kernel_pause(struct xk_kernel *kernel, bool paused)
{
	for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver) {
		atomic_store_explicit(&driver->has_paused, false, memory_order_relaxed);
		atomic_store_explicit(&driver->paused, paused, memory_order_release);
	}
}

int
xk_kernel_start(struct xk_kernel *kernel)
{
	kernel_pause(kernel, false);
	atomic_store_explicit(&kernel->stopping, false, memory_order_relaxed);
	kernel->started = true;
	if (xk_pool_resize(kernel, kernel->config.threads) != 0)
		goto fail;
	kernel->events_end = false;
	if (kernel_need_events(kernel) != 0)
		goto fail;
	if (kernel_start_drivers(&kernel->driver) != 0)
		goto fail_events;
	return 0;

fail_events:
	kernel_end_events(kernel);
fail:
	xk_pool_resize(kernel, 0);
	kernel->started = false;
	return -EAGAIN;
}

/*
 * Waits until nothing is queued or under way (parked shepherds only if parked_too). False: two seconds were not enough.
 */
static bool
kernel_wait_quiet(struct xk_kernel *kernel, bool parked_too)
{
	for (unsigned tries = 0; tries < KERNEL_QUIET_TRIES; tries++) {
		/* Who goes from parked to busy is among the waiters until it runs: they are looked at first. */
		bool waited_for = parked_too && xk_waiters_left(kernel);
		bool quiet = !waited_for && atomic_load_explicit(&kernel->busy, memory_order_acquire) == 0;

		if (quiet && parked_too)
			quiet = atomic_load_explicit(&kernel->parked, memory_order_acquire) == 0 &&
				atomic_load_explicit(&kernel->applications, memory_order_acquire) == 0;
		if (quiet)
			return true;
		xk_thread_nap(kernel, KERNEL_NAP_NS);
	}
	return false;
}

static bool
kernel_has_paused(struct xk_kernel *kernel)
{
	bool all = true;

	for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver) {
		if (atomic_load_explicit(&driver->has_paused, memory_order_acquire))
			continue;
		xk_driver_wake(driver);
		all = false;
	}
	return all;
}

/* Waits until the drivers take no more frames and have nothing else to do. */
static bool
kernel_wait_paused(struct xk_kernel *kernel)
{
	for (unsigned tries = 0; tries < KERNEL_QUIET_TRIES; tries++) {
		if (kernel_has_paused(kernel))
			return kernel_wait_quiet(kernel, false);
		xk_thread_nap(kernel, KERNEL_NAP_NS);
	}
	return false;
}

enum xk_mode
xk_kernel_mode(const struct xk_kernel *kernel)
{
	return kernel->mode;
}

/* Drivers that sleep do not listen to their ports: they are woken whether or not anything else has come up. */
static void
kernel_go_on(struct xk_kernel *kernel)
{
	kernel_pause(kernel, false);
	if (kernel->started)
		kernel_nudge_events(kernel);
	for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver) {
		atomic_exchange_explicit(&driver->sleeping, 0, memory_order_seq_cst);
		driver->platform->ops->wake(driver->platform);
	}
}

int
xk_kernel_reconfigure(struct xk_kernel *kernel, enum xk_mode mode, unsigned threads)
{
	int result = -EBUSY;

	kernel_pause(kernel, true);
	if (xk_pool_prepare(&kernel->pool, mode, kernel->driver_count) != 0) {
		result = -ENOMEM;
	} else if (!kernel->started || kernel_wait_paused(kernel)) {
		kernel->mode = mode;
		kernel->config.threads = threads == 0 ? 1 : threads;
		result = kernel->started ? xk_pool_resize(kernel, kernel->config.threads) : 0;
		if (kernel->started && result == 0)
			result = kernel_need_events(kernel);
	}
	kernel_go_on(kernel);
	return result;
}

void
xk_kernel_stop(struct xk_kernel *kernel)
{
	if (!kernel->started)
		return;
	kernel_pause(kernel, true);
	atomic_store_explicit(&kernel->stopping, true, memory_order_seq_cst);
	xk_waiters_cancel(kernel);
	while (!kernel_wait_quiet(kernel, true))
		xk_trace_kernel(kernel, "stopping: shepherds are still under way");
	kernel_end_events(kernel);
	kernel_end_drivers(&kernel->driver);
	xk_pool_resize(kernel, 0);
	kernel->started = false;
}

/* ---- application code ---- */

struct kernel_application {
	struct xk_runner runner;
	void (*fn)(void *argument);
	void *argument;
};

static void
kernel_application_thread(struct xk_runner *runner)
{
	struct kernel_application *application = xk_container_of(runner, struct kernel_application, runner);
	struct xk_kernel *kernel = runner->kernel;
	struct xk_shepherd *self = &runner->shepherd;

	xk_runner_begin(runner);
	self->load = XK_LOAD_APPLICATION;
	xk_epoch_enter(self);
	application->fn(application->argument);
	xk_epoch_leave(self);
	xk_runner_end(runner);
	free(application);
	atomic_fetch_sub_explicit(&kernel->applications, 1, memory_order_release);
}

static int
kernel_start_on_thread(struct xk_driver *driver, void (*fn)(void *), void *argument)
{
	struct xk_kernel *kernel = driver->kernel;
	struct kernel_application *application = calloc(1, sizeof(*application));

	if (application == NULL)
		return -EAGAIN;
	application->fn = fn;
	application->argument = argument;
	application->runner.shepherd.driver = driver;
	atomic_fetch_add_explicit(&kernel->applications, 1, memory_order_relaxed);
	if (xk_runner_start(kernel, &application->runner, XK_RUN_APPLICATION, true, kernel_application_thread) == 0)
		return 0;
	atomic_fetch_sub_explicit(&kernel->applications, 1, memory_order_relaxed);
	free(application);
	return -EAGAIN;
}

/* A stack of driver or, if it has none left, of another. */
static struct xk_shepherd *
kernel_take_spare(struct xk_kernel *kernel, struct xk_driver *driver)
{
	struct xk_shepherd *shepherd = xk_shepherd_take_spare(driver);

	for (driver = &kernel->driver; shepherd == NULL && driver != NULL; driver = driver->next_driver)
		shepherd = xk_shepherd_take_spare(driver);
	return shepherd;
}

int
xk_thread_start(struct xk_kernel *kernel, const char *name, void (*fn)(void *argument), void *argument)
{
	unsigned turn = atomic_fetch_add_explicit(&kernel->next_to_start, 1, memory_order_relaxed);
	struct xk_driver *driver = kernel_find_driver(kernel, turn % kernel->driver_count);
	struct xk_shepherd *shepherd;

	(void)name;
	if (kernel->mode == XK_REGULAR)
		return kernel_start_on_thread(driver, fn, argument);
	shepherd = kernel_take_spare(kernel, driver);
	if (shepherd == NULL)
		return -EAGAIN;
	shepherd->application = fn;
	shepherd->argument = argument;
	shepherd->load = XK_LOAD_APPLICATION;
	atomic_fetch_add_explicit(&kernel->busy, 1, memory_order_relaxed);
	xk_pool_run(kernel, shepherd);
	return 0;
}

/* ---- the end ---- */

static void
kernel_free_ports(struct xk_kernel *kernel)
{
	struct xk_port *next;

	for (struct xk_port *port = kernel->ports; port != NULL; port = next) {
		next = port->next;
		xk_transmit_free(port);
		free(port->transmit);
		port->ops->close(port);
	}
}

static bool
kernel_is_quiet(struct xk_kernel *kernel)
{
	return atomic_load_explicit(&kernel->busy, memory_order_relaxed) == 0 &&
	       atomic_load_explicit(&kernel->parked, memory_order_relaxed) == 0;
}

/* A kernel that was run, not started: lets those who wait unwind, here, driver by driver. */
static void
kernel_unwind(struct xk_kernel *kernel)
{
	if (kernel_is_quiet(kernel))
		return;
	kernel_pause(kernel, true);
	xk_waiters_cancel(kernel);
	while (!kernel_is_quiet(kernel)) {
		for (struct xk_driver *driver = &kernel->driver; driver != NULL; driver = driver->next_driver) {
			atomic_store_explicit(&driver->halted, true, memory_order_relaxed);
			kernel_drive(driver);
		}
	}
}

static void
kernel_free_drivers(struct xk_kernel *kernel)
{
	struct xk_driver *next;

	for (struct xk_driver *driver = kernel->driver.next_driver; driver != NULL; driver = next) {
		next = driver->next_driver;
		free(driver);
	}
}

static void
kernel_free_devices(struct xk_kernel *kernel)
{
	struct xk_device *next;

	for (struct xk_device *device = kernel->devices; device != NULL; device = next) {
		next = device->next;
		free(device);
	}
}

void
xk_kernel_free(struct xk_kernel *kernel)
{
	struct xk_protocol *next;

	if (kernel == NULL)
		return;
	xk_kernel_stop(kernel);
	atomic_store_explicit(&kernel->stopping, true, memory_order_seq_cst);
	kernel_unwind(kernel);
	kernel_fini_protocols(kernel->initialised, NULL);
	xk_epoch_drain(kernel);
	if (kernel->protocols != NULL)
		xk_reached_note(kernel);
	kernel_free_ports(kernel);
	kernel_free_devices(kernel);
	for (struct xk_protocol *p = kernel->protocols; p != NULL; p = next) {
		next = p->next;
		kernel_free_protocol(p);
	}
	xk_stacks_fini(kernel);
	kernel_free_drivers(kernel);
	xk_wheel_free(kernel->wheel);
	xk_pool_fini(&kernel->pool);
	xk_token_fini(&kernel->events_token);
	pthread_cond_destroy(&kernel->events_condition);
	pthread_mutex_destroy(&kernel->events_mutex);
	free(kernel);
}
