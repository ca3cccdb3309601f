/* switches.c - see switches.h. */
#define _GNU_SOURCE
#include "tools/bench/switches.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/clock.h"
#include "tools/machine.h"

enum { SWITCHES_YIELDS = 20000 };

struct switches {
	_Alignas(64) _Atomic uint32_t turn; /* 0: the first thread's, which measures; 1: the second's; 2: the end */
	pthread_t second;
	unsigned cores[2];
};

static void
switches_pin(unsigned core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void
switches_await(struct switches *s, uint32_t not_this)
{
	while (atomic_load_explicit(&s->turn, memory_order_acquire) == not_this)
		syscall(SYS_futex, &s->turn, FUTEX_WAIT_PRIVATE, not_this, NULL, NULL, 0);
}

static void
switches_give(struct switches *s, uint32_t turn)
{
	atomic_store_explicit(&s->turn, turn, memory_order_release);
	syscall(SYS_futex, &s->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *
switches_second(void *argument)
{
	struct switches *s = argument;

	switches_pin(s->cores[1]);
	for (;;) {
		switches_await(s, 0);
		if (atomic_load_explicit(&s->turn, memory_order_acquire) == 2)
			return NULL;
		switches_give(s, 0);
	}
}

struct switches *
switches_new(unsigned a, unsigned b)
{
	struct switches *s;

	if (!machine_has_core(a) || !machine_has_core(b))
		return NULL;
	s = aligned_alloc(64, sizeof(*s));
	if (s == NULL)
		return NULL;
	atomic_init(&s->turn, 0);
	s->cores[0] = a;
	s->cores[1] = b;
	if (pthread_create(&s->second, NULL, switches_second, s) == 0)
		return s;
	free(s);
	return NULL;
}

void
switches_free(struct switches *s)
{
	if (s == NULL)
		return;
	switches_give(s, 2);
	pthread_join(s->second, NULL);
	free(s);
}

/* ---- measuring, on a thread that is pinned for it ---- */

struct switches_run {
	struct switches *switches;
	uint32_t *ns;
	unsigned count;
};

static void *
switches_first(void *argument)
{
	struct switches_run *run = argument;
	struct switches *s = run->switches;

	switches_pin(s->cores[0]);
	for (unsigned i = 0; i < run->count; i++) {
		uint64_t start_ns = clock_system_ns();

		switches_give(s, 1);
		switches_await(s, 1);
		run->ns[i] = (uint32_t)((clock_system_ns() - start_ns) / 2);
	}
	return NULL;
}

void
switches_wake(struct switches *s, uint32_t *ns, unsigned count)
{
	struct switches_run run = { s, ns, count };
	pthread_t first;

	for (unsigned i = 0; i < count; i++)
		ns[i] = 0;
	if (pthread_create(&first, NULL, switches_first, &run) == 0)
		pthread_join(first, NULL);
}

struct switches_yielder {
	pthread_barrier_t *ready;
	unsigned core;
	uint64_t start_ns, end_ns;
};

static void *
switches_yield(void *argument)
{
	struct switches_yielder *self = argument;

	switches_pin(self->core);
	pthread_barrier_wait(self->ready);
	self->start_ns = clock_system_ns();
	for (unsigned i = 0; i < SWITCHES_YIELDS; i++)
		sched_yield();
	self->end_ns = clock_system_ns();
	return NULL;
}

uint64_t
switches_yield_ns(unsigned core)
{
	pthread_barrier_t ready;
	struct switches_yielder yielders[2] = { { &ready, core, 0, 0 }, { &ready, core, 0, 0 } };
	pthread_t threads[2];
	uint64_t start_ns, end_ns;

	if (!machine_has_core(core))
		return 0;
	pthread_barrier_init(&ready, NULL, 2);
	for (unsigned i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, switches_yield, &yielders[i]) != 0)
			abort(); /* the other thread would wait at the barrier for ever */
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&ready);
	start_ns = yielders[0].start_ns > yielders[1].start_ns ? yielders[0].start_ns : yielders[1].start_ns;
	end_ns = yielders[0].end_ns < yielders[1].end_ns ? yielders[0].end_ns : yielders[1].end_ns;
	/* while both ran, each yielded nearly as often as the other */
	return end_ns <= start_ns ? 0 : (end_ns - start_ns) / (2 * SWITCHES_YIELDS);
}
