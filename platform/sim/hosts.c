/* hosts.c - simulated hosts: each is a platform for a kernel, which a boot creates and a crash frees. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/sim/sim_private.h"

enum { HOST_BUFFERS = 65536 };

static uint64_t
host_random(struct xk_platform *platform)
{
	return sim_random_next(&sim_host_of(platform)->random);
}

static uint64_t
host_boots(struct xk_platform *platform)
{
	return sim_host_of(platform)->boots;
}

static struct xk_msg *
host_buffer_new(struct xk_platform *platform)
{
	struct xk_sim_host *host = sim_host_of(platform);
	const struct xk_sim_choice choice = { .kind = XK_SIM_BUFFER, .number = ++host->sim->buffers, .host = host };

	return sim_choose(host->sim, &choice) == 0 ? memory_buffer_new(platform) : NULL;
}

static bool
host_stack_is_refused(struct xk_platform *platform)
{
	struct xk_sim_host *host = sim_host_of(platform);
	const struct xk_sim_choice choice = { .kind = XK_SIM_STACK, .number = ++host->sim->stacks, .host = host };

	return sim_choose(host->sim, &choice) != 0;
}

static unsigned
host_event_first(struct xk_platform *platform, unsigned count)
{
	struct xk_sim_host *host = sim_host_of(platform);
	struct xk_sim_choice choice = { .kind = XK_SIM_TIMER, .host = host };

	choice.number = ++host->sim->timers_due;
	for (choice.place = 1; choice.place < count; choice.place++)
		if (sim_choose(host->sim, &choice) != 0)
			return choice.place;
	return 0;
}

static const struct xk_platform_ops host_platform_ops = {
	.now_ns = sim_platform_now_ns,
	.buffer_new = host_buffer_new,
	.is_short = memory_buffers_are_short,
	.buffers = memory_buffers,
	.buffer_view = memory_buffer_view,
	.buffer_hold = memory_buffer_hold,
	.buffer_let_go = memory_buffer_let_go,
	.buffer_lend = memory_buffer_lend,
	.buffer_free = memory_buffer_free,
	.buffers_out = memory_buffers_out,
	.each_out = memory_each_out,
	.sleep = sim_platform_sleep,
	.wake = sim_platform_wake,
	.random = host_random,
	.boots = host_boots,
	.work = sim_platform_work,
	.stack_switched = sim_platform_stack_switched,
	.stack_is_refused = host_stack_is_refused,
	.event_first = host_event_first,
};

static void
host_free(struct xk_sim_host *host)
{
	for (unsigned i = 0; i < host->device_count; i++)
		free(host->devices[i].name);
	memory_platform_fini(&host->memory);
	free(host->name);
	free(host);
}

struct xk_sim_host *
xk_sim_host_new(struct xk_sim *sim, const struct xk_sim_host_config *config)
{
	struct xk_sim_host *host = calloc(1, sizeof(*host));

	if (host == NULL)
		return NULL;
	memory_platform_init(&host->memory, XK_MEMORY_VIRTUAL);
	host->memory.platform.ops = &host_platform_ops;
	host->memory.platform.threads = &sim_thread_ops;
	if (SIM_RECYCLES) {
		host->memory.thread = __builtin_thread_pointer();
		host->memory.kept = &sim->kept;
	}
	memory_buffers_limit(&host->memory, config->buffers == 0 ? HOST_BUFFERS : config->buffers);
	host->sim = sim;
	host->config = *config;
	host->name = strdup(config->name);
	if (host->name == NULL) {
		host_free(host);
		return NULL;
	}
	host->number = sim->host_count;
	sim_random_init(&host->random, xk_sim_seed(sim, config->name));
	sim_processor_init(&host->processor);
	host->delayed_last = &host->delayed;
	*sim->hosts_last = host;
	sim->hosts_last = &host->next;
	sim->host_count++;
	return host;
}

static void
host_record(struct xk_sim_host *host, enum xk_sim_event event)
{
	sim_record(host->sim, &(struct xk_sim_record){ .event = event, .at_ns = host->sim->now_ns, .host = host });
}

int
xk_sim_boot(struct xk_sim_host *host)
{
	xk_assert(host->kernel == NULL && host->sim->running == NULL);
	host->boots++;
	sim_count_step(host->sim);
	host_record(host, XK_SIM_BOOTED);
	sim_processor_init(&host->processor);
	atomic_store_explicit(&host->sim->booting, host->name, memory_order_relaxed);
	host->kernel = host->config.boot == NULL ? NULL : host->config.boot(host->config.context, host);
	atomic_store_explicit(&host->sim->booting, NULL, memory_order_relaxed);
	return host->kernel == NULL ? -EIO : 0;
}

unsigned
xk_sim_crash(struct xk_sim_host *host)
{
	unsigned left;

	xk_assert(host->sim->running == NULL);
	if (host->kernel == NULL)
		return 0;
	sim_count_step(host->sim);
	host_record(host, XK_SIM_CRASHED);
	sim_processor_freeze(host);
	xk_kernel_stop(host->kernel);
	xk_kernel_free(host->kernel);
	host->kernel = NULL;
	xk_assert(host->processor.threads == NULL);
	left = memory_buffers_out(&host->memory.platform);
	/* A leak is reported once, and must not count against the next boot. */
	memory_forget_out(&host->memory);
	return left;
}

bool
xk_sim_is_up(const struct xk_sim_host *host)
{
	return host->kernel != NULL;
}

const char *
xk_sim_host_name(const struct xk_sim_host *host)
{
	return host->name;
}

unsigned
xk_sim_host_number(const struct xk_sim_host *host)
{
	return host->number;
}

uint64_t
xk_sim_host_boots(const struct xk_sim_host *host)
{
	return host->boots;
}

struct xk_kernel *
xk_sim_kernel(struct xk_sim_host *host)
{
	return host->kernel;
}

struct xk_sim_host *
xk_sim_first_host(struct xk_sim *sim)
{
	return sim->hosts;
}

struct xk_sim_host *
xk_sim_next_host(struct xk_sim_host *host)
{
	return host->next;
}

struct xk_platform *
xk_sim_platform(struct xk_sim_host *host)
{
	return &host->memory.platform;
}

void
xk_sim_host_counts(const struct xk_sim_host *host, struct xk_sim_host_counts *counts)
{
	*counts = host->counts;
}

unsigned
sim_hosts_free(struct xk_sim *sim)
{
	unsigned left = 0;

	for (struct xk_sim_host *host = sim->hosts; host != NULL; host = host->next)
		left += xk_sim_crash(host);
	while (sim->hosts != NULL) {
		struct xk_sim_host *host = sim->hosts;

		sim->hosts = host->next;
		host_free(host);
	}
	return left;
}
