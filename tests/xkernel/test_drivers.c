/*
 * test_drivers.c - several drivers in one kernel: each receives from its own lane, on its own stacks, and sleeps on its
 * own; the pool, events and reclamation are shared.
 */
#include <pthread.h>

#include "tests/xkernel/many.h"

/* ---- lanes ---- */

static void
check_lanes(unsigned drivers, enum xk_mode mode, enum xk_driver_policy policy, enum op op)
{
	enum { FRAMES = 300 };
	struct many *h = many_new(drivers, mode, policy);
	struct xk_kernel_stats all;

	many_start(h);
	for (unsigned i = 0; i < FRAMES; i++)
		for (unsigned lane = 0; lane < drivers; lane++)
			many_send(h, lane, op, 1 + lane);
	CHECK(many_wait_handled(h, h->sent));
	many_stop(h);
	xk_kernel_stats(h->kernel, &all);
	CHECK_EQ(all.frames, h->sent);
	CHECK_EQ(many_answered(h), h->sent);
	for (unsigned lane = 0; lane < drivers; lane++) {
		CHECK(h->received[lane] <= FRAMES * (1 + lane));
		CHECK(h->received[lane] + many_lost(h) >= FRAMES * (1 + lane));
		CHECK_EQ(many_stats(h, lane).frames, FRAMES * (1 + lane));
		CHECK_EQ(many_stats(h, lane).handoffs[XK_HANDOFF_EXPLICIT],
			 op == OP_HANDOFF && mode == XK_IPP ? FRAMES * (1 + lane) - many_stats(h, lane).fallbacks : 0);
	}
	many_free(h);
}

TEST(each_driver_receives_and_answers_on_its_lane)
{
	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		check_lanes(2, (enum xk_mode)mode, XK_DRIVER_INTERRUPT, OP_ECHO);
		check_lanes(3, (enum xk_mode)mode, XK_DRIVER_ADAPTIVE, OP_ECHO);
		check_lanes(2, (enum xk_mode)mode, XK_DRIVER_POLL, OP_ECHO);
	}
}

TEST(handed_off_messages_answer_on_their_lane)
{
	check_lanes(2, XK_IPP, XK_DRIVER_INTERRUPT, OP_HANDOFF);
	check_lanes(3, XK_IPP, XK_DRIVER_INTERRUPT, OP_HANDOFF);
}

TEST_WITH(drivers_contend_for_a_lock, struct many *h, many_new(3, XK_IPP, XK_DRIVER_INTERRUPT), many_free)
{
	many_start(h);
	for (unsigned i = 0; i < 900; i++)
		many_send(h, i % 3, OP_LOCK, 1);
	CHECK(many_wait_handled(h, 900));
	CHECK_EQ(h->top->counted, 900);
}

/* ---- handoffs and budgets are each driver's own ---- */

TEST_WITH(marked_edge_hands_off_in_each_driver, struct many *h, many_new(2, XK_IPP, XK_DRIVER_INTERRUPT), many_free)
{
	xk_edge_watch(h->edge, XK_WATCH_ANY, XK_WATCH_EXPLICIT);
	xk_kernel_rewatch(h->kernel);
	many_start(h);
	many_send(h, 1, OP_ECHO, 50);
	CHECK(many_wait_handled(h, 50));
	CHECK_EQ(many_stats(h, 0).handoffs[XK_HANDOFF_EXPLICIT], 0);
	CHECK_EQ(many_stats(h, 1).handoffs[XK_HANDOFF_EXPLICIT] + many_stats(h, 1).fallbacks, 50);
	CHECK(many_stats(h, 1).handoffs[XK_HANDOFF_EXPLICIT] > 0);
}

TEST_WITH(each_driver_has_its_own_budget, struct many *h, many_new(2, XK_IPP, XK_DRIVER_INTERRUPT), many_free)
{
	xk_kernel_set_budget(h->kernel, 20000, 0);
	many_start(h);
	for (unsigned i = 0; i < 20; i++) {
		many_send(h, 0, OP_BUSY, 1);
		many_send(h, 1, OP_BUSY, 1);
		CHECK(many_wait_handled(h, h->sent));
	}
	for (unsigned i = 0; i < 2; i++) {
		struct xk_kernel_stats stats = many_stats(h, i);

		/* A driver that the system preempts may notice too late. */
		CHECK_EQ(stats.handoffs[XK_HANDOFF_TIME] + stats.fallbacks + stats.overruns, 20);
	}
}

static void
echo_from_own_platform(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	unsigned lane = m->data[1];
	struct xk_msg *answer = xk_msg_new(xk_platform_of(&top->protocol), 4);
	const struct many *h = top->argument;

	CHECK(answer != NULL && answer->platform == h->platforms[lane]);
	xk_msg_free(m);
	memset(answer->data, 0, 4);
	xk_push(lls, answer);
}

TEST(messages_are_made_on_the_platform_of_the_driver)
{
	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		struct many *h = many_new(3, (enum xk_mode)mode, XK_DRIVER_INTERRUPT);

		h->top->act = echo_from_own_platform;
		h->top->argument = h;
		many_start(h);
		for (unsigned lane = 0; lane < 3; lane++)
			many_send(h, lane, OP_ACT, 5);
		CHECK(many_wait_handled(h, 15));
		many_free(h);
	}
}

/* ---- waiting ---- */

static _Atomic unsigned resumed_right;

/* Waits, then checks which thread resumed it. */
static void
wait_and_look(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	unsigned lane = m->data[1];
	struct xk_shepherd *self;
	bool right;

	if (xk_semaphore_wait(&top->semaphore, XK_UNTIL_SIGNALLED) != 0) {
		xk_drop(&top->protocol, m, TOP_NOT_WAITED);
		return;
	}
	self = xk_self();
	right = self->driver->index == lane;
	if (top->protocol.resume == XK_RESUME_DRIVER)
		right = right && self->runner == &self->driver->runner;
	else
		right = right && self->runner->kind == XK_RUN_POOL;
	atomic_fetch_add(&resumed_right, right);
	xk_push(lls, m);
}

static void
check_resume(enum xk_resume resume)
{
	enum { WAITERS = 10, LANES = 3, ROUNDS = 5 };
	struct many *h = many_new(LANES, XK_IPP, XK_DRIVER_INTERRUPT);

	h->top->act = wait_and_look;
	h->top->protocol.resume = resume;
	atomic_store(&resumed_right, 0);
	many_start(h);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < WAITERS; i++)
			many_send(h, i % LANES, OP_ACT, 1);
		while (atomic_load(&h->kernel->parked) < WAITERS)
			host_nap();
		many_send(h, round % LANES, OP_SIGNAL, WAITERS);
		CHECK(many_wait_handled(h, h->sent));
	}
	CHECK_EQ(resumed_right, WAITERS * ROUNDS);
	for (unsigned i = 0; i < LANES; i++) {
		unsigned own = (WAITERS / LANES + (i < WAITERS % LANES)) * ROUNDS;

		CHECK_EQ(many_stats(h, i).parks, own);
		CHECK_EQ(many_stats(h, i).resumes_driver, resume == XK_RESUME_DRIVER ? own : 0);
		CHECK_EQ(many_stats(h, i).resumes_thread, resume == XK_RESUME_DRIVER ? 0 : own);
	}
	many_stop(h);
	for (unsigned i = 0; i < LANES; i++)
		CHECK_EQ(h->received[i], many_stats(h, i).parks);
	many_free(h);
}

TEST_OF(parked_shepherd_is_resumed_by_its_driver, check_resume(XK_RESUME_DRIVER));
TEST_OF(parked_shepherd_of_any_driver_is_resumed_by_a_thread, check_resume(XK_RESUME_THREAD));

TEST_WITH(a_spin_on_a_reply_keeps_only_its_own_driver_awake, struct many *h, many_new(2, XK_IPP, XK_DRIVER_INTERRUPT),
	  many_free)
{
	h->top->act = wait_and_look;
	h->top->protocol.implicit = XK_IMPLICIT_SPIN;
	h->top->protocol.spin_ns = 50 * 1000;
	many_start(h);
	many_wait_asleep(h, 0);
	for (unsigned i = 0; i < 20; i++) {
		many_send(h, 1, OP_ACT, 1);
		many_send(h, 1, OP_SIGNAL, 1);
		CHECK(many_wait_handled(h, h->sent));
	}
	CHECK_EQ(many_driver(h, 0)->poll_until_ns, 0);
	CHECK(many_driver(h, 1)->poll_until_ns > 0);
}

TEST(timeouts_wake_the_driver_that_serves_the_wheel)
{
	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		struct many *h = many_new(3, (enum xk_mode)mode, XK_DRIVER_INTERRUPT);

		many_start(h);
		for (unsigned i = 0; i < 10; i++) {
			many_wait_asleep(h, 0);
			many_send(h, 1 + i % 2, OP_TIMEOUT, 3);
			CHECK(many_wait_handled(h, h->sent));
		}
		many_free(h);
	}
}

TEST_WITH(a_driver_sleeps_while_another_works, struct many *h, many_new(3, XK_IPP, XK_DRIVER_INTERRUPT), many_free)
{
	uint64_t turns[2];

	many_start(h);
	many_wait_asleep(h, 0);
	many_wait_asleep(h, 2);
	turns[0] = many_stats(h, 0).turns;
	turns[1] = many_stats(h, 2).turns;
	for (unsigned i = 0; i < 200; i++) {
		many_send(h, 1, i % 3 == 0 ? OP_HANDOFF : OP_ECHO, 1);
		CHECK(many_wait_handled(h, h->sent));
	}
	CHECK_EQ(many_stats(h, 0).turns, turns[0]);
	CHECK_EQ(many_stats(h, 2).turns, turns[1]);
	CHECK(many_stats(h, 1).turns > 200);
}

/* ---- application code ---- */

static _Atomic unsigned started_on[MANY_MAX];

static void
note_driver(void *argument)
{
	struct top *top = argument;

	atomic_fetch_add(&started_on[xk_self()->driver->index], 1);
	CHECK_EQ(xk_delay(&top->protocol, 200), 0);
	xk_push(top->session, xk_msg_from(xk_platform_of(&top->protocol), "abcd", 4));
	atomic_fetch_add(&top->handled, 1);
}

TEST(application_code_goes_to_the_drivers_round_robin)
{
	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		struct many *h = many_new(3, (enum xk_mode)mode, XK_DRIVER_INTERRUPT);

		h->top->protocol.resume = XK_RESUME_DRIVER;
		memset(started_on, 0, sizeof(started_on));
		many_start(h);
		for (unsigned i = 0; i < 12; i++)
			CHECK_EQ(xk_thread_start(h->kernel, "note", note_driver, h->top), 0);
		CHECK(many_wait_handled(h, 12));
		many_stop(h);
		for (unsigned i = 0; i < 3; i++) {
			CHECK_EQ(started_on[i], 4);
			CHECK_EQ(h->received[i], 4);
		}
		many_free(h);
	}
}

TEST(application_code_borrows_another_drivers_stack)
{
	struct xk_kernel_config config = { .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .threads = 1, .stacks = 4 };
	struct many *h = many_build(2, &config);
	unsigned started = 0;

	h->top->act = wait_and_look;
	many_start(h);
	many_send(h, 0, OP_ACT, 3);
	while (atomic_load(&h->kernel->parked) < 3)
		host_nap();
	while (started < 3 && xk_thread_start(h->kernel, "note", note_driver, h->top) == 0)
		started++;
	CHECK_EQ(started, 3);
	CHECK(many_wait_handled(h, 3));
	many_send(h, 1, OP_SIGNAL, 3);
	CHECK(many_wait_handled(h, 9));
	many_free(h);
}

/* ---- starting, stopping, changing under load ---- */

struct injector {
	struct many *host;
	unsigned lane, count;
	_Atomic bool *ends;
	_Atomic unsigned *injected;
};

static void *
inject_mixed(void *argument)
{
	static const enum op ops[] = { OP_ECHO, OP_HANDOFF, OP_ECHO, OP_TIMEOUT, OP_LOCK };
	struct injector *injector = argument;

	for (unsigned i = 0; i < injector->count && !atomic_load(injector->ends); i++) {
		many_inject(injector->host, injector->lane, ops[i % XK_ARRAY_LENGTH(ops)]);
		atomic_fetch_add(injector->injected, 1);
		if (i % 32 == 0)
			host_nap();
	}
	return NULL;
}

TEST_WITH(reconfiguring_under_load_loses_nothing, struct many *h, many_new(3, XK_IPP, XK_DRIVER_INTERRUPT), many_free)
{
	_Atomic bool ends = false;
	_Atomic unsigned injected = 0;
	struct injector injectors[3];
	pthread_t threads[3];

	many_start(h);
	for (unsigned i = 0; i < 3; i++) {
		injectors[i] = (struct injector){ h, i, 100000, &ends, &injected };
		REQUIRE(pthread_create(&threads[i], NULL, inject_mixed, &injectors[i]) == 0);
	}
	for (unsigned i = 0; i < 12; i++) {
		enum xk_mode mode = i % 2 == 0 ? XK_REGULAR : XK_IPP;
		unsigned before = atomic_load(&h->top->handled);

		CHECK_EQ(xk_kernel_reconfigure(h->kernel, mode, 1 + i % 3), 0);
		CHECK_EQ(xk_kernel_mode(h->kernel), mode);
		CHECK(many_wait_handled(h, before + 100));
	}
	atomic_store(&ends, true);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK(many_wait_handled(h, atomic_load(&injected)));
	many_stop(h);
	CHECK_EQ(many_answered(h) + h->top->protocol.drops[TOP_NOT_WAITED], atomic_load(&injected));
}

TEST(a_kernel_stops_while_its_drivers_are_busy)
{
	for (unsigned round = 0; round < 6; round++) {
		struct many *h = many_new(3, round % 2 == 0 ? XK_IPP : XK_REGULAR, XK_DRIVER_INTERRUPT);

		many_start(h);
		for (unsigned i = 0; i < 3; i++) {
			many_send(h, i, OP_WAIT, 2);
			many_send(h, i, OP_ECHO, 500);
			many_send(h, i, OP_TIMEOUT, 4);
		}
		many_free(h);
	}
}

TEST_WITH(stopped_kernel_starts_again, struct many *h, many_new(2, XK_IPP, XK_DRIVER_ADAPTIVE), many_free)
{
	many_init(h);
	for (unsigned i = 0; i < 4; i++) {
		REQUIRE(xk_kernel_start(h->kernel) == 0);
		many_send(h, 0, OP_ECHO, 20);
		many_send(h, 1, OP_HANDOFF, 20);
		CHECK(many_wait_handled(h, h->sent));
		many_stop(h);
	}
	CHECK_EQ(h->received[0], 80);
	CHECK_EQ(h->received[1], 80);
}

static void *
send_and_halt(void *argument)
{
	struct many *h = argument;

	for (unsigned lane = 0; lane < h->count; lane++)
		many_send(h, lane, OP_HANDOFF, 50);
	CHECK(many_wait_handled(h, h->sent));
	for (unsigned lane = 0; lane < h->count; lane++)
		many_send(h, lane, OP_WAIT, 2);
	while (atomic_load(&h->kernel->parked) < 2 * h->count)
		host_nap();
	xk_kernel_halt(h->kernel);
	return NULL;
}

/* The caller is the first driver; there is no pool, so each driver resumes the messages it handed off. */
TEST_WITH(kernel_run_runs_every_driver_and_unwinds_its_waits, struct many *h, many_new(3, XK_IPP, XK_DRIVER_INTERRUPT),
	  many_free)
{
	pthread_t thread;

	many_init(h);
	REQUIRE(pthread_create(&thread, NULL, send_and_halt, h) == 0);
	xk_kernel_run(h->kernel);
	pthread_join(thread, NULL);
	many_collect(h);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(h->received[i], 50);
		CHECK(many_stats(h, i).handoffs[XK_HANDOFF_EXPLICIT] > 0);
		CHECK_EQ(many_stats(h, i).handoffs[XK_HANDOFF_EXPLICIT] + many_stats(h, i).fallbacks, 50);
	}
	CHECK_EQ(h->kernel->parked, 6);
}

static uint32_t
want_room(struct xk_pool *pool)
{
	uint32_t drivers;

	xk_spin_lock(&pool->lock);
	drivers = pool->want_room;
	xk_spin_unlock(&pool->lock);
	return drivers;
}

TEST(full_input_queue_stops_and_resumes_all_drivers)
{
	enum { LANES = 3, FRAMES = XK_INPUT_QUEUE + LANES * XK_BURST /* more than fit, on each lane */ };
	struct xk_kernel_config config = { .mode = XK_REGULAR, .driver = XK_DRIVER_INTERRUPT, .threads = 1 };
	struct many *h = many_build(LANES, &config);

	many_start(h);
	for (unsigned round = 0; round < 5; round++) {
		many_send(h, round % LANES, OP_WAIT, 1);
		for (unsigned tries = 0; tries < 600000 && atomic_load(&h->kernel->pool.blocked) == 0; tries++)
			host_nap(); /* until the thread waits: otherwise it would make room */
		for (unsigned i = 0; i < FRAMES; i++)
			for (unsigned lane = 0; lane < LANES; lane++)
				many_send(h, lane, OP_ECHO, 1);
		for (unsigned tries = 0; tries < 600000 && want_room(&h->kernel->pool) != (1u << LANES) - 1; tries++)
			host_nap();
		CHECK_EQ(want_room(&h->kernel->pool), (1u << LANES) - 1);
		CHECK(atomic_load(&h->kernel->pool.queued) >= XK_INPUT_QUEUE);
		CHECK(atomic_load(&h->kernel->pool.queued) < XK_INPUT_QUEUE + LANES * XK_BURST);
		xk_semaphore_signal(&h->top->semaphore);
		CHECK(many_wait_handled(h, h->sent));
	}
	many_free(h);
}

TEST(blocked_pool_is_reported_once_a_second_for_all_drivers)
{
	struct xk_kernel_config config = { .mode = XK_REGULAR, .driver = XK_DRIVER_POLL, .threads = 1 };
	struct many *h;

	config.trace = fopen("/dev/null", "w");
	REQUIRE(config.trace != NULL);
	h = many_build(3, &config);
	many_start(h);
	many_send(h, 0, OP_WAIT, 1);
	for (unsigned lane = 0; lane < 3; lane++)
		many_send(h, lane, OP_ECHO, 1);
	while (atomic_load(&h->kernel->stalled) == 0)
		host_nap();
	CHECK_EQ(h->kernel->stalled, 1);
	xk_semaphore_signal(&h->top->semaphore);
	CHECK(many_wait_handled(h, 4));
	many_free(h);
	fclose(config.trace);
}

/* ---- devices with fewer lanes than drivers ---- */

/* Makes a host with two drivers and two one-lane devices: frames that arrive on `other` leave by `port`. */
static struct many *
forwarder_new(enum xk_mode mode)
{
	struct xk_kernel_config config = { .mode = mode, .driver = XK_DRIVER_INTERRUPT, .threads = 2, .stacks = 8 };
	struct many *h = many_bare(2, &config);
	struct xk_protocol *wire;

	for (unsigned i = 0; i < 2; i++) {
		h->ports[i] = xk_memory_port_new(h->platforms[i], i == 0 ? "port" : "other", 1 + i, MANY_MTU);
		h->ports[i]->driver = i;
		xk_kernel_add_port(h->kernel, h->ports[i]);
	}
	wire = xk_kernel_add_protocol(h->kernel, &wire_type, "wire");
	h->top = (struct top *)xk_kernel_add_protocol(h->kernel, &top_type, "top");
	h->edge = xk_kernel_add_edge(h->kernel, &h->top->protocol, wire, NULL);
	many_init(h);
	h->ports[1]->receiver = h->ports[0]->receiver;
	REQUIRE(xk_kernel_start(h->kernel) == 0);
	return h;
}

TEST(driver_without_a_lane_sends_through_its_owner)
{
	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		struct many *h = forwarder_new((enum xk_mode)mode);

		for (unsigned i = 0; i < 100; i++) {
			many_wait_asleep(h, 0);
			many_send(h, 1, OP_ECHO, 1 + i % 40);
			CHECK(many_wait_handled(h, h->sent));
		}
		many_send(h, 0, OP_ECHO, 500);
		many_send(h, 1, OP_HANDOFF, 500);
		CHECK(many_wait_handled(h, h->sent));
		many_stop(h);
		CHECK_EQ(many_answered(h), h->sent);
		CHECK_EQ(h->received[1], 0);
		many_free(h);
	}
}

TEST(a_driver_does_not_wait_for_another_drivers_full_device)
{
	for (unsigned implicit = XK_IMPLICIT_HANDOFF; implicit <= XK_IMPLICIT_FAIL; implicit++) {
		struct many *h = forwarder_new(XK_IPP);
		struct xk_protocol *wire = xk_kernel_find(h->kernel, "wire");

		wire->implicit = (enum xk_implicit)implicit;
		wire->spin_ns = 10000;
		xk_memory_transmit_limit(h->ports[0], 8);
		for (unsigned i = 0; i < 4000; i++)
			many_inject(h, 1, OP_ECHO);
		CHECK(many_wait_handled(h, 4000));
		CHECK_EQ(many_stats(h, 1).frames, 4000);
		many_stop(h);
		many_collect(h);
		CHECK(h->received[0] > 0);
		CHECK(h->received[0] + wire->drops[XK_DROP_OWN] <= 4000);
		many_free(h);
	}
}

/* ---- refused drivers ---- */

TEST_WITH(virtual_time_allows_one_driver, struct xk_platform *clock, xk_memory_platform_new(XK_MEMORY_VIRTUAL),
	  xk_memory_platform_free)
{
	struct xk_platform *real = xk_memory_platform_new(XK_MEMORY_REAL);
	struct xk_kernel_config config = { .platform = clock, .mode = XK_IPP, .core = -1 };
	struct xk_kernel *kernel = xk_kernel_new(&config);

	CHECK_EQ(xk_kernel_add_driver(kernel, real, -1), -EINVAL);
	xk_kernel_free(kernel);
	config.platform = real;
	kernel = xk_kernel_new(&config);
	CHECK_EQ(xk_kernel_add_driver(kernel, clock, -1), -EINVAL);
	CHECK_EQ(xk_kernel_drivers(kernel), 1);
	xk_kernel_free(kernel);
	xk_memory_platform_free(real);
}

TEST_WITH(number_of_drivers_is_limited, struct xk_platform *platform, xk_memory_platform_new(XK_MEMORY_REAL),
	  xk_memory_platform_free)
{
	struct xk_kernel_config config = { .platform = platform, .mode = XK_REGULAR, .stacks = 2, .core = -1 };
	struct xk_kernel *kernel = xk_kernel_new(&config);

	for (int i = 1; i < XK_DRIVERS; i++)
		CHECK_EQ(xk_kernel_add_driver(kernel, platform, -1), i);
	CHECK_EQ(xk_kernel_add_driver(kernel, platform, -1), -ENOSPC);
	xk_kernel_free(kernel);
}

/* ---- reclamation ---- */

static _Atomic unsigned released;
static _Atomic bool may_release;

static void
note_release(struct xk_retired *retired)
{
	CHECK(atomic_load(&may_release));
	free(retired);
	atomic_fetch_add(&released, 1);
}

static _Atomic bool may_go_on, is_busy;

/*
 * On lane 2, keeps the only thread busy. On lane 1, hands off to that thread, and so stays a reader while it waits for
 * it. On lane 0, retires an object.
 */
static void
read_after_handoff(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_retired *retired;

	switch (m->data[1]) {
	case 0:
		retired = calloc(1, sizeof(*retired));
		xk_retire(top->protocol.kernel, retired, note_release);
		break;
	case 1:
		CHECK(xk_handoff(&top->protocol));
		CHECK_EQ(released, 0);
		atomic_store(&may_release, true);
		break;
	default:
		CHECK(xk_handoff(&top->protocol));
		atomic_store(&is_busy, true);
		while (!atomic_load(&may_go_on))
			host_nap();
	}
	xk_push(lls, m);
}

TEST(objects_read_across_a_handoff_are_not_reclaimed)
{
	struct xk_kernel_config config = { .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .threads = 1, .stacks = 4 };
	struct many *h = many_build(3, &config);

	atomic_store(&released, 0);
	atomic_store(&may_release, false);
	atomic_store(&may_go_on, false);
	atomic_store(&is_busy, false);
	h->top->act = read_after_handoff;
	many_start(h);
	many_send(h, 2, OP_ACT, 1);
	while (!atomic_load(&is_busy))
		host_nap();
	many_send(h, 1, OP_ACT, 1);
	while (atomic_load(&h->kernel->pool.queued) < 1)
		host_nap();
	for (unsigned i = 0; i < 20; i++) {
		many_send(h, 0, OP_ACT, 1);
		for (unsigned lane = 0; lane < 3; lane++)
			many_send(h, lane, OP_ECHO, 1);
		CHECK(many_wait_handled(h, h->sent - 2));
	}
	CHECK_EQ(released, 0);
	atomic_store(&may_go_on, true);
	CHECK(many_wait_handled(h, h->sent));
	/* The next turns notice that the reader is gone. */
	for (unsigned tries = 0; tries < 600000 && atomic_load(&released) < 20; tries++) {
		many_send(h, 2, OP_ECHO, 1);
		host_nap();
	}
	CHECK_EQ(released, 20);
	many_free(h);
}

/*
 * Without threads, the driver resumes the message in later turns; it keeps the epoch of its first turn until it ends.
 */
static void
read_in_several_turns(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	switch (m->data[1]) {
	case 0:
		xk_retire(top->protocol.kernel, calloc(1, sizeof(struct xk_retired)), note_release);
		break;
	case 1:
		for (unsigned i = 0; i < 3; i++)
			CHECK(xk_handoff(&top->protocol));
		CHECK_EQ(released, 0);
		atomic_store(&may_release, true);
		break;
	default:
		CHECK_EQ(released, 1);
	}
	xk_push(lls, m);
}

TEST_WITH(objects_read_across_turns_are_not_reclaimed, struct host *h, host_virtual(), host_free)
{
	const unsigned bursts = 4 * XK_BURST;

	atomic_store(&released, 0);
	atomic_store(&may_release, false);
	h->top->act = read_in_several_turns;
	host_init(h);
	host_send(h, OP_ACT, 1);
	host_send(h, OP_ACT, 0);
	/* The driver never sleeps meanwhile. */
	for (unsigned i = 0; i < bursts; i++)
		host_send(h, OP_ECHO, 0);
	host_send(h, OP_ACT, 2);
	host_run(h);
	CHECK_EQ(h->top->handled, bursts + 3);
}
