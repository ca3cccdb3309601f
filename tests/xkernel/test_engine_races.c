/*
 * test_engine_races.c - the engine's seams: who is first, who is last, and what is left behind. Sessions that close
 * while somebody is in them, waits that end in two ways at once, stopping and changing mode in the middle of work,
 * budgets on a virtual clock, full devices and full queues. Random schedules print their seed; TOY_SEED in the
 * environment sets it.
 */
#include <pthread.h>

#include "tests/xkernel/toy.h"
#include "xkernel/engine.h"

/* ---- helpers ---- */

static unsigned
seed_of(const char *test)
{
	const char *given = getenv("TOY_SEED");
	unsigned seed = given == NULL ? (unsigned)time(NULL) : (unsigned)strtoul(given, NULL, 10);

	printf("\n  %s: seed %u ", test, seed);
	return seed;
}

static struct host *
host_virtual(void)
{
	struct xk_kernel_config config = { .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .stacks = 8 };

	return host_build_on(XK_MEMORY_VIRTUAL, &config, false);
}

static void
halt_when_idle(void *context)
{
	xk_kernel_halt(context);
}

static void
host_init(struct host *h)
{
	struct xk_protocol *failed;

	REQUIRE(xk_kernel_init(h->kernel, &failed) == 0);
}

/* Without threads, on the virtual clock, until nothing happens by itself any more. */
static void
host_run(struct host *h)
{
	xk_memory_on_idle(h->platform, halt_when_idle, h->kernel);
	xk_kernel_run(h->kernel);
	host_collect(h);
}

static void
send_one(struct host *h, enum op op)
{
	host_send(h, op, 0);
}

static bool
wait_until(_Atomic unsigned *counter, unsigned wanted)
{
	for (unsigned tries = 0; tries < 300000 && atomic_load(counter) < wanted; tries++)
		host_nap();
	return atomic_load(counter) >= wanted;
}

/* ---- sessions ---- */

struct probe {
	struct host *host;
	struct xk_protocol *middle;
	struct xk_session *session;
	_Atomic unsigned closed;
};

static struct probe *
probe_of(struct xk_session *s)
{
	return ((struct top *)s->up->upper)->argument;
}

static void
probe_closed(struct xk_session *s)
{
	atomic_fetch_add(&probe_of(s)->closed, 1);
}

/* The session that probes stand on is nobody's way up. */
static const struct xk_session_ops below_ops = { .push = wire_push, .pop = wire_pop };

static int
probe_push(struct xk_session *s, struct xk_msg *m)
{
	return xk_push(s->lls, m);
}

/* Closes the session it is in (as another shepherd might), waits, and answers through it. */
static void
probe_pop_closing(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct top *top = (struct top *)s->up->upper;

	(void)lls;
	(void)hdr;
	xk_close(s);
	if (xk_semaphore_wait(&top->semaphore, XK_FOREVER) != 0)
		xk_drop(&top->protocol, m, TOP_NOT_WAITED);
	else
		xk_push(s, m);
}

static const struct xk_session_ops probe_closing_ops = { .push = probe_push,
							 .pop = probe_pop_closing,
							 .close = probe_closed };

/* Waits in the session, then closes it as an hlp that has had enough. */
static void
probe_pop_then_close(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct top *top = (struct top *)s->up->upper;

	(void)lls;
	(void)hdr;
	xk_msg_free(m);
	xk_semaphore_wait(&top->semaphore, XK_FOREVER);
	xk_close(s);
}

static const struct xk_session_ops probe_then_close_ops = { .push = probe_push,
							    .pop = probe_pop_then_close,
							    .close = probe_closed };

static void
act_pop(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	xk_pop(((struct probe *)top->argument)->session, lls, m, NULL);
}

/* A host with wire, middle and top, whose messages go to a session of middle's that the test makes. */
static struct host *
probe_host(struct probe *probe, enum xk_mode mode, unsigned threads)
{
	struct xk_kernel_config config = { .mode = mode, .driver = XK_DRIVER_INTERRUPT, .threads = threads };
	struct host *h = host_build(&config, true);

	*probe = (struct probe){ .host = h, .middle = xk_kernel_find(h->kernel, "middle") };
	probe->middle->order_session = false;
	h->top->argument = probe;
	h->top->act = act_pop;
	host_init(h);
	return h;
}

static struct xk_session *
probe_session(struct probe *probe, const struct xk_session_ops *ops, struct xk_session *lls)
{
	struct xk_protocol *top = &probe->host->top->protocol;

	return xk_session_new(probe->middle, ops, sizeof(struct xk_session), top, top, lls);
}

static struct xk_session *
probe_below(struct probe *probe)
{
	struct xk_protocol *wire = xk_kernel_find(probe->host->kernel, "wire");

	return xk_session_new(wire, &below_ops, sizeof(struct xk_session), probe->middle, probe->middle, NULL);
}

TEST(what_a_parked_shepherd_pushes_on_outlives_a_session_that_closed_under_it)
{
	struct probe probe;
	struct host *h = probe_host(&probe, XK_IPP, 1);

	REQUIRE(xk_kernel_start(h->kernel) == 0);
	for (unsigned i = 0; i < 100; i++) {
		probe.session = probe_session(&probe, &probe_closing_ops, probe_below(&probe));
		send_one(h, OP_ACT);
		for (unsigned j = 0; j < 3; j++) {
			send_one(h, OP_ECHO);
			CHECK(host_wait_handled(h, i * 5 + j + 1));
		}
		send_one(h, OP_SIGNAL);
		CHECK(host_wait_handled(h, (i + 1) * 5));
	}
	CHECK_EQ(probe.closed, 100);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), 400);
	host_free(h);
}

static void
check_close_after_wait(enum xk_mode mode)
{
	struct probe probe;
	struct host *h = probe_host(&probe, mode, 2);

	probe.middle->session_max = 100;
	REQUIRE(xk_kernel_start(h->kernel) == 0);
	for (unsigned i = 0; i < 50; i++) {
		probe.session = probe_session(&probe, &probe_then_close_ops, NULL);
		CHECK(xk_duplicate(probe.session));
		xk_session_cache(probe.session);
		send_one(h, OP_ACT);
		send_one(h, OP_SIGNAL);
		CHECK(host_wait_handled(h, 2 * (i + 1)));
	}
	CHECK_EQ(probe.closed, 50);
	CHECK_EQ(probe.middle->cache_count, 0);
	host_free(h);
}

TEST(a_passive_session_that_is_closed_after_a_wait_in_it_goes)
{
	check_close_after_wait(XK_IPP);
	check_close_after_wait(XK_REGULAR);
}

struct closer {
	struct probe *probe;
	_Atomic unsigned *arrived;
	_Atomic unsigned done;
	struct xk_session *session;
};

static void
close_together(void *argument)
{
	struct closer *closer = argument;

	atomic_fetch_add(closer->arrived, 1);
	while (atomic_load(closer->arrived) < 2)
		sched_yield();
	xk_close(closer->session);
	atomic_fetch_add(&closer->done, 1);
}

static const struct xk_session_ops probe_plain_ops = { .push = probe_push, .pop = wire_pop, .close = probe_closed };

TEST(two_who_close_a_passive_session_at_once_close_it)
{
	struct probe probe;
	struct host *h = probe_host(&probe, XK_REGULAR, 1);

	probe.middle->session_max = 100;
	REQUIRE(xk_kernel_start(h->kernel) == 0);
	for (unsigned i = 0; i < 300; i++) {
		_Atomic unsigned arrived = 0;
		struct closer closers[2] = { { .probe = &probe, .arrived = &arrived },
					     { .probe = &probe, .arrived = &arrived } };
		struct xk_session *s = probe_session(&probe, &probe_plain_ops, NULL);

		closers[0].session = closers[1].session = s;
		CHECK(xk_duplicate(s) && xk_duplicate(s));
		xk_session_cache(s);
		CHECK_EQ(xk_thread_start(h->kernel, "closer", close_together, &closers[0]), 0);
		CHECK_EQ(xk_thread_start(h->kernel, "closer", close_together, &closers[1]), 0);
		CHECK(wait_until(&closers[0].done, 1) && wait_until(&closers[1].done, 1));
	}
	CHECK_EQ(probe.closed, 300);
	CHECK_EQ(probe.middle->cache_count, 0);
	host_free(h);
}

TEST(sessions_in_use_do_not_make_the_cache_grow_without_bound)
{
	enum { HELD = 64, MORE = 20000 };
	struct probe probe;
	struct host *h = probe_host(&probe, XK_IPP, 1);
	struct xk_session *held[HELD];
	unsigned most = 0;

	probe.middle->session_max = 2 * HELD;
	for (unsigned i = 0; i < HELD; i++) {
		held[i] = probe_session(&probe, &probe_plain_ops, NULL);
		CHECK(xk_duplicate(held[i]));
		xk_session_cache(held[i]);
	}
	for (unsigned i = 0; i < MORE; i++) {
		xk_session_cache(probe_session(&probe, &probe_plain_ops, NULL));
		most = probe.middle->cache_count > most ? probe.middle->cache_count : most;
	}
	CHECK(most <= 2 * HELD + HELD / 16 + 1);
	for (unsigned i = 0; i < HELD; i++)
		xk_close(held[i]);
	host_free(h);
}

TEST(a_session_that_was_used_gets_a_second_chance)
{
	struct probe probe;
	struct host *h = probe_host(&probe, XK_IPP, 1);
	struct xk_session *s[4];

	probe.middle->session_max = 3;
	for (unsigned i = 0; i < 3; i++) {
		s[i] = probe_session(&probe, &probe_plain_ops, NULL);
		xk_session_cache(s[i]);
	}
	atomic_store(&s[0]->binding.used, true);
	s[3] = probe_session(&probe, &probe_plain_ops, NULL);
	xk_session_cache(s[3]); /* s[1] goes: s[0] is older, but was used */
	CHECK_EQ(probe.closed, 1);
	CHECK_EQ(probe.middle->cache_count, 3);
	CHECK(s[0]->cached && s[2]->cached && s[3]->cached);
	for (unsigned i = 0; i < 4; i++)
		if (i != 1)
			atomic_store(&s[i]->binding.used, true);
	xk_session_cache(probe_session(&probe, &probe_plain_ops, NULL)); /* all were used: the oldest idle one */
	CHECK_EQ(probe.closed, 2);
	CHECK_EQ(probe.middle->cache_count, 3);
	host_free(h);
}

/* ---- sessions under threads ---- */

enum { CROWD_KEYS = 8, CROWD_ROUNDS = 3000, CROWD = 3 };

/* Shepherds that open, find, duplicate, pop, wait in and close the same few sessions; the cache evicts them too. */
struct crowd {
	struct probe probe;
	struct xk_map map;
	_Atomic unsigned opened, done, popped;
	unsigned seed;
};

static void
crowd_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct top *top = (struct top *)s->up->upper;
	struct crowd *crowd = xk_container_of(top->argument, struct crowd, probe);
	const unsigned *random = hdr;
	unsigned choice = *random % 16;

	(void)lls;
	atomic_fetch_add(&crowd->popped, 1);
	if (choice == 0)
		xk_delay(&top->protocol, 50);
	if (choice == 1)
		xk_handoff(&top->protocol);
	if (choice == 2 && xk_duplicate(s))
		xk_close(s);
	if (s->lls != NULL && choice % 2 == 0)
		xk_push(s, m);
	else
		xk_msg_free(m);
}

static const struct xk_session_ops crowd_ops = { .push = probe_push, .pop = crowd_pop, .close = probe_closed };

/* The session of key, with a reference; opens it if there is none. NULL: somebody else was faster. */
static struct xk_session *
crowd_session(struct crowd *crowd, unsigned key)
{
	struct xk_key k = { key, 1 };
	struct xk_session *s = xk_map_resolve(&crowd->map, k), *below;

	if (s != NULL)
		return xk_duplicate(s) ? s : NULL;
	below = probe_below(&crowd->probe);
	s = probe_session(&crowd->probe, &crowd_ops, below);
	atomic_fetch_add(&crowd->opened, 1);
	if (xk_session_bind(s, &crowd->map, k) != 0) {
		xk_close(s);
		return NULL;
	}
	CHECK(xk_duplicate(s));
	xk_session_cache(s);
	return s;
}

/* Half of the messages find their session by the map alone: only the epoch keeps it. */
static void
crowd_act(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct crowd *crowd = xk_container_of(top->argument, struct crowd, probe);
	unsigned random = (m->data[2] | m->data[3] << 8) * 7919u, choice = random / 64;
	bool refers = random / 32 % 2 == 0;
	struct xk_session *s;

	if (refers)
		s = crowd_session(crowd, random % CROWD_KEYS);
	else
		s = xk_map_resolve(&crowd->map, (struct xk_key){ random % CROWD_KEYS, 1 });
	if (s == NULL) {
		xk_msg_free(m);
		return;
	}
	xk_pop(s, lls, m, &choice);
	if (refers)
		xk_close(s);
}

static void
crowd_application(void *argument)
{
	struct crowd *crowd = argument;
	struct host *h = crowd->probe.host;
	unsigned random = crowd->seed;

	for (unsigned i = 0; i < CROWD_ROUNDS; i++) {
		struct xk_session *s;
		struct xk_msg *m;

		random = random * 1103515245 + 12345;
		s = crowd_session(crowd, random / 65536 % CROWD_KEYS);
		if (s != NULL) {
			unsigned choice = random / 131072;

			m = xk_msg_from(h->platform, "xxxx", 4);
			if (m != NULL)
				xk_pop(s, NULL, m, &choice);
			xk_close(s);
		}
		xk_checkpoint(&h->top->protocol);
	}
	atomic_fetch_add(&crowd->done, 1);
}

static void
crowd_send(struct host *h, unsigned random)
{
	uint8_t bytes[4] = { OP_ACT, 0, (uint8_t)random, (uint8_t)(random >> 8) };
	struct xk_msg *m = xk_msg_from(h->platform, bytes, sizeof(bytes));

	if (m != NULL)
		xk_memory_inject(h->port, m);
}

static void
check_crowd(enum xk_mode mode, enum xk_driver_policy driver, enum xk_resume resume, unsigned seed)
{
	struct crowd crowd = { .seed = seed };
	struct host *h = probe_host(&crowd.probe, mode, 2);
	unsigned random = seed;

	h->kernel->config.driver = driver;
	h->top->protocol.resume = resume;
	h->top->act = crowd_act;
	crowd.probe.middle->session_max = CROWD_KEYS / 2;
	REQUIRE(xk_map_init(&crowd.map, h->kernel, CROWD_KEYS) == 0);
	REQUIRE(xk_kernel_start(h->kernel) == 0);
	for (unsigned i = 0; i < CROWD; i++)
		CHECK_EQ(xk_thread_start(h->kernel, "crowd", crowd_application, &crowd), 0);
	while (atomic_load(&crowd.done) < CROWD) {
		for (unsigned i = 0; i < 20; i++) {
			random = random * 1103515245 + 12345;
			crowd_send(h, random >> 16);
		}
		host_collect(h);
		host_nap();
	}
	xk_kernel_stop(h->kernel);
	host_collect(h);
	CHECK(crowd.popped > 0);
	xk_session_uncache(crowd.probe.middle, NULL, NULL);
	CHECK_EQ(crowd.probe.closed, crowd.opened);
	CHECK_EQ(xk_map_count(&crowd.map), 0);
	xk_epoch_drain(h->kernel);
	xk_map_fini(&crowd.map);
	host_free(h);
}

TEST(sessions_come_and_go_under_everybody)
{
	unsigned seed = seed_of("crowd");

	check_crowd(XK_IPP, XK_DRIVER_INTERRUPT, XK_RESUME_THREAD, seed);
	check_crowd(XK_IPP, XK_DRIVER_ADAPTIVE, XK_RESUME_DRIVER, seed + 1);
	check_crowd(XK_REGULAR, XK_DRIVER_INTERRUPT, XK_RESUME_THREAD, seed + 2);
}

/* ---- enables ---- */

struct enabling {
	struct host *host;
	struct xk_map map;
	_Atomic unsigned done, failed;
};

static void
enable_and_disable(void *argument)
{
	struct enabling *e = argument;
	struct xk_protocol *top = &e->host->top->protocol;

	for (unsigned i = 0; i < 20000; i++) {
		if (xk_enable_add(&e->map, (struct xk_key){ 7, 7 }, top, top) != 0 ||
		    xk_map_resolve(&e->map, (struct xk_key){ 7, 7 }) == NULL ||
		    xk_enable_remove(&e->map, (struct xk_key){ 7, 7 }, top, top) != 0)
			atomic_fetch_add(&e->failed, 1);
		xk_checkpoint(top);
	}
	atomic_fetch_add(&e->done, 1);
}

TEST(enables_are_counted_right_by_several_at_once)
{
	struct host *h = host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 1, 0);
	struct enabling e = { .host = h };

	REQUIRE(xk_map_init(&e.map, h->kernel, 4) == 0);
	host_start(h);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(xk_thread_start(h->kernel, "enabling", enable_and_disable, &e), 0);
	CHECK(wait_until(&e.done, 2));
	CHECK_EQ(e.failed, 0);
	CHECK_EQ(xk_map_count(&e.map), 0);
	xk_kernel_stop(h->kernel);
	xk_epoch_drain(h->kernel);
	xk_enable_fini(&e.map);
	host_free(h);
}

/* ---- event handlers that wait ---- */

static void
handler_that_waits(struct xk_event *event, void *argument)
{
	struct top *top = argument;

	(void)event;
	if (xk_delay(&top->protocol, 300) == 0)
		atomic_fetch_add(&top->handled, 1);
}

static void
handler_that_counts(struct xk_event *event, void *argument)
{
	struct top *top = argument;

	(void)event;
	atomic_fetch_add(&top->handled, 1);
}

static void
check_handlers_wait(enum xk_mode mode)
{
	enum { WAITING = 10 };
	struct host *h = host_new(mode, XK_DRIVER_INTERRUPT, 1, 0);
	struct xk_event waiting[WAITING], counting;

	host_start(h);
	xk_event_init(&counting, h->kernel, handler_that_counts, h->top);
	for (unsigned i = 0; i < WAITING; i++) {
		xk_event_init(&waiting[i], h->kernel, handler_that_waits, h->top);
		xk_event_schedule(&waiting[i], 10 * i);
	}
	CHECK(wait_until(&h->top->handled, WAITING));
	xk_event_schedule(&counting, 0);
	CHECK(wait_until(&h->top->handled, WAITING + 1));
	host_free(h);
}

TEST(an_event_handler_that_waits_does_not_stop_time_in_ipp_mode)
{
	check_handlers_wait(XK_IPP);
}

TEST(an_event_handler_that_waits_does_not_stop_time_in_regular_mode)
{
	check_handlers_wait(XK_REGULAR);
}

static void
handler_that_waits_for_ever(struct xk_event *event, void *argument)
{
	struct top *top = argument;

	(void)event;
	atomic_fetch_add(&top->handled, 1);
	xk_semaphore_wait(&top->semaphore, XK_FOREVER);
}

TEST(stopping_ends_the_waits_of_event_handlers)
{
	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		struct host *h = host_new((enum xk_mode)mode, XK_DRIVER_INTERRUPT, 1, 0);
		struct xk_event waiting[5];

		host_start(h);
		for (unsigned i = 0; i < 5; i++) {
			xk_event_init(&waiting[i], h->kernel, handler_that_waits_for_ever, h->top);
			xk_event_schedule(&waiting[i], 0);
		}
		CHECK(wait_until(&h->top->handled, 5));
		host_free(h);
	}
}

/* ---- stacks ---- */

static void
application_that_counts(void *argument)
{
	struct top *top = argument;

	atomic_fetch_add(&top->handled, 1);
}

TEST(applications_leave_the_driver_its_stack)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 4);

	host_init(h);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(xk_thread_start(h->kernel, "early", application_that_counts, h->top), 0);
	CHECK_EQ(xk_thread_start(h->kernel, "early", application_that_counts, h->top), -EAGAIN);
	REQUIRE(xk_kernel_start(h->kernel) == 0);
	CHECK(wait_until(&h->top->handled, 3));
	send_one(h, OP_ECHO);
	CHECK(host_wait_handled(h, 4));
	host_free(h);
}

TEST(an_ordered_session_without_a_stack_left_drops_by_name)
{
	struct xk_kernel_config config = { .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .threads = 1, .stacks = 3 };
	struct host *h = host_build(&config, true);
	struct xk_protocol *middle = xk_kernel_find(h->kernel, "middle");

	host_start(h);
	send_one(h, OP_WAIT);
	for (unsigned i = 0; i < 20; i++)
		send_one(h, OP_ECHO);
	while (atomic_load(&middle->drops[XK_DROP_NO_STACK]) < 19)
		host_nap();
	xk_semaphore_signal(&h->top->semaphore);
	CHECK(host_wait_handled(h, 2)); /* who waited, and the one that found a stack to wait on */
	CHECK_EQ(host_stats(h).no_stack, 19);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), 2);
	host_free(h);
}

/* ---- time-outs ---- */

static void
wait_a_little(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	unsigned *outcomes = top->argument;
	int result = xk_semaphore_wait(&top->semaphore, 100);

	(void)lls;
	xk_msg_free(m);
	if (result == 0)
		atomic_fetch_add((_Atomic unsigned *)&outcomes[0], 1);
	else if (result == -ETIMEDOUT)
		atomic_fetch_add((_Atomic unsigned *)&outcomes[1], 1);
}

static void
check_signal_against_time_out(enum xk_mode mode, enum xk_resume resume)
{
	enum { ROUNDS = 2000 };
	struct host *h = host_new(mode, XK_DRIVER_INTERRUPT, 2, 0);
	unsigned outcomes[2] = { 0, 0 };

	h->top->protocol.resume = resume;
	h->top->act = wait_a_little;
	h->top->argument = outcomes;
	host_start(h);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t until = xk_now_ns(&h->top->protocol) + 70000 + (uint64_t)(rand() % 120000);

		send_one(h, OP_ACT);
		while (xk_now_ns(&h->top->protocol) < until)
			continue;
		xk_semaphore_signal(&h->top->semaphore);
		CHECK(host_wait_handled(h, i + 1));
	}
	xk_kernel_stop(h->kernel);
	CHECK_EQ(outcomes[0] + outcomes[1], ROUNDS);
	/* Every signal was taken by a wait, or is still there. */
	CHECK_EQ(outcomes[0] + h->top->semaphore.count, ROUNDS);
	CHECK(h->top->semaphore.first == NULL);
	host_free(h);
}

TEST(a_signal_and_a_time_out_at_once_end_a_wait_once)
{
	unsigned seed = seed_of("time-outs");

	srand(seed);
	check_signal_against_time_out(XK_IPP, XK_RESUME_THREAD);
	check_signal_against_time_out(XK_IPP, XK_RESUME_DRIVER);
	check_signal_against_time_out(XK_REGULAR, XK_RESUME_THREAD);
}

static void
signal_top(struct xk_event *event, void *argument)
{
	(void)event;
	xk_semaphore_signal(argument);
}

static void
check_same_microsecond(bool signal_is_older)
{
	struct host *h = host_virtual();
	unsigned outcomes[2] = { 0, 0 };
	struct xk_event signal;

	h->top->act = wait_a_little;
	h->top->argument = outcomes;
	host_init(h);
	xk_event_init(&signal, h->kernel, signal_top, &h->top->semaphore);
	if (signal_is_older)
		xk_event_schedule(&signal, 100);
	send_one(h, OP_ACT);
	xk_memory_run_until(h->platform, 50000);
	host_run(h);
	if (!signal_is_older)
		xk_event_schedule(&signal, 50);
	xk_memory_run_until(h->platform, UINT64_MAX);
	host_run(h);
	CHECK_EQ(outcomes[0], signal_is_older);
	CHECK_EQ(outcomes[1], !signal_is_older);
	CHECK_EQ(h->top->semaphore.count, !signal_is_older);
	CHECK_EQ(h->top->handled, 1);
	host_free(h);
}

TEST(within_one_microsecond_the_older_event_wins)
{
	check_same_microsecond(true);
	check_same_microsecond(false);
}

/* ---- budgets, on a virtual clock ---- */

/* Takes as many microseconds as the message's second byte says, then asks whether that was too long. */
static void
act_work(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct host *h = top->argument;

	(void)lls;
	xk_memory_advance(h->platform, m->data[1] * 1000u);
	xk_checkpoint(&top->protocol);
	xk_msg_free(m);
}

static struct host *
budget_host(unsigned carry)
{
	struct host *h = host_virtual();

	xk_kernel_set_budget(h->kernel, 20000, carry);
	h->top->argument = h;
	h->top->act = act_work;
	host_init(h);
	return h;
}

TEST(saved_up_budget_is_spent_by_the_message_that_uses_it)
{
	struct host *h = budget_host(4);

	for (unsigned i = 0; i < 8; i++)
		host_send(h, OP_ACT, 0);
	host_run(h);
	CHECK_EQ(h->kernel->driver.credit_ns, 80000);
	host_send(h, OP_ACT, 110); /* more than the budget and all that was saved: it leaves, and has used it up */
	host_send(h, OP_ACT, 30);  /* so this one has its own 20 us only */
	host_run(h);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_TIME], 2);
	CHECK_EQ(host_stats(h).overruns, 0);
	host_free(h);
}

static void
act_work_then_handoff(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct host *h = top->argument;

	(void)lls;
	xk_memory_advance(h->platform, m->data[1] * 1000u);
	xk_handoff(&top->protocol);
	xk_msg_free(m);
}

TEST(a_message_that_leaves_too_late_by_itself_has_overrun_its_budget)
{
	struct host *h = budget_host(0);

	h->top->act = act_work_then_handoff;
	host_send(h, OP_ACT, 10);
	host_send(h, OP_ACT, 110);
	host_run(h);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_EXPLICIT], 2);
	CHECK_EQ(host_stats(h).overruns, 1);
	host_free(h);
}

static void
act_wait_then_work(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct host *h = top->argument;

	(void)lls;
	xk_memory_advance(h->platform, 15000);
	xk_delay(&top->protocol, 1000);
	xk_memory_advance(h->platform, m->data[1] * 1000u);
	if (m->data[1] < 100)
		xk_checkpoint(&top->protocol);
	xk_msg_free(m);
}

TEST(a_message_that_the_driver_resumes_still_has_its_budget)
{
	struct host *h = budget_host(0);

	h->top->protocol.resume = XK_RESUME_DRIVER;
	h->top->act = act_wait_then_work;
	host_send(h, OP_ACT, 4); /* 19 us: the millisecond in between does not count */
	host_run(h);
	CHECK_EQ(host_stats(h).resumes_driver, 1);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_TIME], 0);
	CHECK_EQ(host_stats(h).overruns, 0);
	host_send(h, OP_ACT, 10); /* 25 us */
	host_run(h);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_TIME], 1);
	host_send(h, OP_ACT, 200); /* and nobody looks */
	host_run(h);
	CHECK_EQ(host_stats(h).overruns, 1);
	CHECK_EQ(h->top->handled, 3);
	host_free(h);
}

/* ---- counts ---- */

TEST(implicit_handoffs_are_counted_at_the_edge_that_was_crossed_last)
{
	struct host *h = host_virtual();

	host_init(h);
	for (unsigned i = 0; i < 3; i++)
		send_one(h, OP_TIMEOUT);
	host_run(h);
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_IMPLICIT], 3);
	CHECK_EQ(h->top->handled, 3);
	/* No session is popped through below top: the kernel alone has counted. */
	CHECK_EQ(h->edge->handoffs[XK_HANDOFF_IMPLICIT], 0);
	host_free(h);
}

static void
check_implicit_at_edge(bool ordered, unsigned overtaken)
{
	struct xk_kernel_config config = { .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .stacks = 8 };
	struct host *h = host_build_on(XK_MEMORY_VIRTUAL, &config, true);

	xk_kernel_find(h->kernel, "middle")->order_session = ordered;
	host_init(h);
	send_one(h, OP_TIMEOUT);
	host_run(h);
	CHECK_EQ(h->edge->handoffs[XK_HANDOFF_IMPLICIT], 1);
	CHECK_EQ(host_stats(h).overtaken, overtaken);
	host_free(h);
}

TEST(a_handoff_above_a_session_is_counted_there)
{
	check_implicit_at_edge(false, 1);
	check_implicit_at_edge(true, 0);
}

TEST(what_threads_counted_is_kept_when_they_end)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 2, 0);
	struct xk_kernel_stats before, after;

	xk_kernel_set_budget(h->kernel, 1000000000, 0);
	host_start(h);
	for (unsigned i = 0; i < 50; i++) {
		send_one(h, OP_TIMEOUT);
		CHECK(host_wait_handled(h, i + 1));
	}
	while (atomic_load(&h->kernel->busy) > 0)
		host_nap();
	before = host_stats(h);
	xk_kernel_stop(h->kernel);
	after = host_stats(h);
	CHECK(before.driver_switches > 0);
	CHECK(after.driver_switches >= before.driver_switches);
	CHECK(after.thread_switches >= before.thread_switches);
	CHECK(after.clock_reads >= before.clock_reads);
	CHECK(after.stack_switches >= before.stack_switches);
	host_free(h);
}

static void *
read_stats(void *argument)
{
	struct closer *reader = argument;

	while (atomic_load(&reader->done) == 0) {
		host_stats(reader->probe->host);
		atomic_fetch_add(reader->arrived, 1);
	}
	return NULL;
}

TEST(counts_may_be_read_while_threads_come_and_go)
{
	struct host *h = host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 3, 0);
	struct probe probe = { .host = h };
	_Atomic unsigned read = 0;
	struct closer reader = { .probe = &probe, .arrived = &read };
	pthread_t thread;

	host_start(h);
	REQUIRE(pthread_create(&thread, NULL, read_stats, &reader) == 0);
	for (unsigned i = 0; i < 40; i++) {
		send_one(h, OP_ECHO);
		CHECK_EQ(xk_kernel_reconfigure(h->kernel, XK_REGULAR, 1 + i % 3), 0);
	}
	CHECK(wait_until(&read, 1));
	atomic_store(&reader.done, 1);
	pthread_join(thread, NULL);
	CHECK(host_wait_handled(h, 40));
	host_free(h);
}

/* ---- reconfiguring ---- */

static void
handler_that_goes_on(struct xk_event *event, void *argument)
{
	struct top *top = argument;

	atomic_fetch_add(&top->order_count, 1);
	xk_event_schedule(event, 0);
}

TEST(a_driver_busy_with_events_can_be_reconfigured)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_POLL, 1, 0);
	struct xk_event busy;

	host_start(h);
	xk_event_init(&busy, h->kernel, handler_that_goes_on, h->top);
	xk_event_schedule(&busy, 0);
	for (unsigned i = 0; i < 10; i++) {
		CHECK_EQ(xk_kernel_reconfigure(h->kernel, i % 2 == 0 ? XK_REGULAR : XK_IPP, 2), 0);
		send_one(h, OP_ECHO);
		CHECK(host_wait_handled(h, i + 1));
	}
	xk_kernel_stop(h->kernel);
	host_free(h);
}

TEST(regular_mode_never_has_no_thread_at_all)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0);

	host_start(h);
	CHECK_EQ(xk_kernel_reconfigure(h->kernel, XK_REGULAR, 0), 0);
	host_echo(h, OP_ECHO, 100);
	host_free(h);
}

TEST(parked_stacks_survive_a_change_of_mode_and_of_threads)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 3, 0);
	unsigned handled = 0;

	srand(seed_of("modes"));
	host_start(h);
	for (unsigned i = 0; i < 60; i++) {
		unsigned waiting = (unsigned)rand() % 4;

		CHECK_EQ(xk_kernel_reconfigure(h->kernel, XK_IPP, 1 + (unsigned)rand() % 3), 0);
		h->top->protocol.resume = rand() % 2 == 0 ? XK_RESUME_DRIVER : XK_RESUME_THREAD;
		for (unsigned j = 0; j < waiting; j++)
			send_one(h, OP_NESTED);
		while (host_stats(h).stacks_parked < waiting)
			host_nap();
		for (unsigned j = 0; j < waiting; j++)
			xk_semaphore_signal(&h->top->semaphore);
		CHECK_EQ(xk_kernel_reconfigure(h->kernel, XK_REGULAR, 1 + (unsigned)rand() % 3), 0);
		for (unsigned j = 0; j < waiting; j++)
			send_one(h, OP_SIGNAL);
		handled += 2 * waiting;
		CHECK(host_wait_handled(h, handled));
	}
	host_free(h);
}

/* ---- stopping ---- */

static void
application_that_takes_long(void *argument)
{
	struct host *h = argument;

	for (unsigned i = 0; i < 26000; i++)
		host_nap();
	xk_delay(&h->top->protocol, 1);
	atomic_fetch_add(&h->top->handled, 1);
}

TEST(stopping_waits_for_applications_however_long_they_take)
{
	struct host *h = host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 1, 0);

	host_start(h);
	CHECK_EQ(xk_thread_start(h->kernel, "long", application_that_takes_long, h), 0);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(h->top->handled, 1);
	host_free(h);
}

static void *
foreign_waiter(void *argument)
{
	struct top *top = argument;
	int result;

	atomic_fetch_add(&top->handled, 1);
	result = xk_semaphore_wait(&top->never, 1000000000);
	return result == -ECANCELED ? top : NULL;
}

TEST(stopping_ends_the_waits_of_foreign_threads_before_it_returns)
{
	for (unsigned i = 0; i < 200; i++) {
		struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 4);
		struct top *top = h->top;
		pthread_t threads[3];
		void *result;

		host_start(h);
		for (unsigned j = 0; j < 3; j++)
			REQUIRE(pthread_create(&threads[j], NULL, foreign_waiter, top) == 0);
		CHECK(wait_until(&top->handled, 3));
		while (host_stats(h).foreign_waits < 3)
			host_nap();
		host_free(h);
		for (unsigned j = 0; j < 3; j++) {
			pthread_join(threads[j], &result);
			CHECK(result == top);
		}
	}
}

TEST(stopping_at_any_moment_ends)
{
	srand(seed_of("stopping"));
	for (unsigned i = 0; i < 60; i++) {
		static const enum op ops[] = { OP_ECHO,   OP_WAIT, OP_SIGNAL,  OP_TIMEOUT,
					       OP_NESTED, OP_LOCK, OP_HANDOFF, OP_SIGNAL };
		struct host *h = host_new(rand() % 3 == 0 ? XK_REGULAR : XK_IPP, (enum xk_driver_policy)(rand() % 3),
					  1 + (unsigned)rand() % 3, 2 + (unsigned)rand() % 12);

		h->top->protocol.resume = rand() % 2 == 0 ? XK_RESUME_DRIVER : XK_RESUME_THREAD;
		h->top->protocol.implicit = (enum xk_implicit)(rand() % 3);
		h->top->protocol.spin_ns = 10000;
		h->edge->watch = rand() % 3 == 0 ? XK_WATCH_EXPLICIT : 0;
		host_start(h);
		for (unsigned j = 0, count = (unsigned)rand() % 400; j < count; j++)
			send_one(h, ops[rand() % 8]);
		for (unsigned j = 0, naps = (unsigned)rand() % 10; j < naps; j++)
			host_nap();
		xk_kernel_stop(h->kernel);
		CHECK_EQ(host_stats(h).stacks_parked, 0);
		CHECK_EQ(h->kernel->busy, 0);
		host_free(h);
	}
}

/* ---- the driver's fairness ---- */

static unsigned
receive_for_ever(void *context, struct xk_msg **frames, unsigned max)
{
	struct host *h = context;
	uint8_t bytes[4] = { OP_SIGNAL };
	unsigned count = 0;

	while (count < max && (frames[count] = xk_msg_from(h->platform, bytes, sizeof(bytes))) != NULL)
		count++;
	return count;
}

static unsigned
transmit_nothing(void *context, struct xk_msg **frames, unsigned count)
{
	(void)context;
	for (unsigned i = 0; i < count; i++)
		xk_msg_free(frames[i]);
	return count;
}

/* A host whose first port has always got a full burst. */
static struct host *
flooded_host(enum xk_mode mode)
{
	struct host *h = host_new(mode, XK_DRIVER_INTERRUPT, 1, 0);

	xk_memory_loop(h->port, receive_for_ever, transmit_nothing, h);
	return h;
}

TEST(a_flooded_port_does_not_starve_the_others)
{
	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		struct host *h = flooded_host((enum xk_mode)mode);
		struct xk_port *other = xk_memory_port_new(h->platform, "other", 2, 1500);
		uint8_t bytes[20] = { OP_ECHO };

		xk_kernel_add_port(h->kernel, other);
		host_init(h);
		other->receiver = h->port->receiver;
		REQUIRE(xk_kernel_start(h->kernel) == 0);
		for (unsigned i = 0; i < 10; i++)
			CHECK(xk_memory_inject(other, xk_msg_from(h->platform, bytes, sizeof(bytes))));
		CHECK(wait_until(&h->top->order_count, 10));
		host_free(h);
	}
}

static _Atomic unsigned control_polls;

static void
count_control(struct xk_platform *platform)
{
	(void)platform;
	atomic_fetch_add(&control_polls, 1);
}

TEST(a_driver_that_never_rests_serves_signals_and_control)
{
	struct host *h = flooded_host(XK_IPP);
	struct xk_platform_ops ops = *h->platform->ops;

	ops.poll_control = count_control;
	h->platform->ops = &ops;
	atomic_store(&control_polls, 0);
	host_start(h);
	CHECK(wait_until(&control_polls, 3));
	host_free(h);
}

TEST(a_full_input_queue_that_empties_lets_frames_in_again)
{
	struct host *h = host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 1, 0);
	unsigned handled = 0;

	host_start(h);
	for (unsigned round = 0; round < 20; round++) {
		send_one(h, OP_WAIT);
		for (unsigned i = 0; i < XK_INPUT_QUEUE + 5 + round * 7; i++)
			send_one(h, OP_ECHO);
		while (xk_pool_room(&h->kernel->pool) > 0)
			host_nap();
		handled = h->sent;
		xk_semaphore_signal(&h->top->semaphore);
		CHECK(host_wait_handled(h, handled));
		send_one(h, OP_ECHO);
		CHECK(host_wait_handled(h, handled + 1));
	}
	host_free(h);
}

/* ---- transmit ---- */

struct sender {
	struct host *host;
	unsigned count;
	_Atomic unsigned *done, *refused;
};

static void
send_many(struct sender *sender)
{
	struct host *h = sender->host;

	for (unsigned i = 0; i < sender->count; i++) {
		struct xk_msg *m = xk_msg_from(h->platform, "abcd", 4);

		if (m == NULL || xk_push(h->top->session, m) != 0)
			atomic_fetch_add(sender->refused, 1);
	}
	atomic_fetch_add(sender->done, 1);
}

static void *
foreign_sender(void *argument)
{
	send_many(argument);
	return NULL;
}

static void
shepherd_sender(void *argument)
{
	send_many(argument);
}

static void
check_full_device(enum xk_mode mode, enum xk_driver_policy driver)
{
	enum { SENDERS = 4, FRAMES = 1500 };
	struct host *h = host_new(mode, driver, 2, 0);
	_Atomic unsigned done = 0, refused = 0;
	struct sender sender = { h, FRAMES, &done, &refused };
	pthread_t foreign[2];

	xk_memory_transmit_limit(h->port, 16);
	host_start(h);
	for (unsigned i = 0; i < 2; i++) {
		REQUIRE(pthread_create(&foreign[i], NULL, foreign_sender, &sender) == 0);
		CHECK_EQ(xk_thread_start(h->kernel, "sender", shepherd_sender, &sender), 0);
	}
	for (unsigned i = 0; i < FRAMES; i++) {
		send_one(h, OP_ECHO);
		host_collect(h);
	}
	for (unsigned tries = 0; tries < 600000; tries++) {
		unsigned gone = host_collect(h) + (unsigned)xk_kernel_find(h->kernel, "wire")->drops[XK_DROP_OWN];

		if (atomic_load(&done) == SENDERS && gone >= (SENDERS + 1) * FRAMES)
			break;
		if (tries % 8 == 0)
			sched_yield();
	}
	CHECK_EQ(done, SENDERS);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(foreign[i], NULL);
	xk_kernel_stop(h->kernel);
	host_collect(h);
	CHECK_EQ(h->received + xk_kernel_find(h->kernel, "wire")->drops[XK_DROP_OWN], (SENDERS + 1) * FRAMES);
	host_free(h);
}

TEST(no_frame_is_lost_where_many_push_on_a_full_device)
{
	check_full_device(XK_IPP, XK_DRIVER_INTERRUPT);
	check_full_device(XK_IPP, XK_DRIVER_POLL);
	check_full_device(XK_REGULAR, XK_DRIVER_ADAPTIVE);
}

/* Refuses so many times, then takes everything. */
struct slow_device {
	struct host *host;
	_Atomic unsigned tries;
	unsigned refusals;
};

static unsigned
receive_nothing(void *context, struct xk_msg **frames, unsigned max)
{
	(void)context;
	(void)frames;
	(void)max;
	return 0;
}

static unsigned
transmit_slowly(void *context, struct xk_msg **frames, unsigned count)
{
	struct slow_device *device = context;

	if (atomic_fetch_add(&device->tries, 1) < device->refusals)
		return 0;
	return transmit_nothing(device, frames, count);
}

TEST(a_thread_waits_for_a_full_device_without_spinning_on_it)
{
	enum { FILLED = XK_TRANSMIT_QUEUE + 2 * XK_BURST };
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0);
	struct slow_device device = { .host = h, .refusals = UINT32_MAX };
	_Atomic unsigned done = 0, refused = 0;
	struct sender sender = { h, FILLED, &done, &refused };
	unsigned before;

	xk_memory_loop(h->port, receive_nothing, transmit_slowly, &device);
	host_init(h); /* not running: nobody but the sender touches the device */
	send_many(&sender);
	CHECK_EQ(refused, 0);
	before = device.tries;
	sender.count = 1;
	send_many(&sender);
	CHECK_EQ(refused, 1);
	CHECK(device.tries - before <= 201);
	device.refusals = device.tries + 150; /* within the 10 ms that a thread waits, so it must not be refused */
	send_many(&sender);
	CHECK_EQ(refused, 1);
	host_free(h);
}

static void
check_full_device_without_threads(enum xk_implicit implicit)
{
	enum { FRAMES = 600 };
	struct host *h = host_virtual();
	struct xk_protocol *wire = xk_kernel_find(h->kernel, "wire");

	wire->implicit = implicit;
	wire->spin_ns = 10000;
	xk_memory_transmit_limit(h->port, 0);
	xk_memory_run_until(h->platform, 1000000);
	host_init(h);
	for (unsigned i = 0; i < FRAMES; i++)
		send_one(h, OP_ECHO);
	host_run(h);
	CHECK_EQ(h->top->handled, FRAMES);
	CHECK(wire->drops[XK_DROP_OWN] > 0);
	xk_memory_transmit_limit(h->port, XK_MEMORY_QUEUE);
	xk_memory_run_until(h->platform, UINT64_MAX);
	host_run(h);
	CHECK_EQ(h->received + wire->drops[XK_DROP_OWN], FRAMES);
	host_free(h);
}

TEST(a_full_device_without_threads_refuses_by_name)
{
	check_full_device_without_threads(XK_IMPLICIT_HANDOFF);
	check_full_device_without_threads(XK_IMPLICIT_SPIN);
	check_full_device_without_threads(XK_IMPLICIT_FAIL);
}

TEST(a_driver_that_spins_on_a_full_device_hands_off_in_the_end)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0);
	struct xk_protocol *wire = xk_kernel_find(h->kernel, "wire");

	wire->implicit = XK_IMPLICIT_SPIN;
	wire->spin_ns = 1000;
	xk_memory_transmit_limit(h->port, 0);
	host_start(h);
	for (unsigned i = 0; i < 2 * XK_BURST + 1; i++)
		send_one(h, OP_ECHO);
	CHECK(host_wait_handled(h, 2 * XK_BURST + 1));
	CHECK_EQ(wire->drops[XK_DROP_OWN], 0); /* the last one waits in the ring, where its thread has put it */
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_IMPLICIT], 1);
	xk_memory_transmit_limit(h->port, XK_MEMORY_QUEUE);
	for (unsigned tries = 0; tries < 300000 && host_collect(h) < 2 * XK_BURST + 1; tries++)
		host_nap();
	CHECK_EQ(h->received, 2 * XK_BURST + 1);
	host_free(h);
}

TEST(a_kernel_that_was_stopped_starts_again)
{
	struct host *h = host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0);

	host_start(h);
	for (unsigned i = 0; i < 10; i++) {
		send_one(h, OP_TIMEOUT);
		CHECK(host_wait_handled(h, i + 1));
		xk_kernel_stop(h->kernel);
		REQUIRE(xk_kernel_start(h->kernel) == 0);
	}
	CHECK_EQ(h->top->protocol.drops[TOP_NOT_WAITED], 0);
	host_free(h);
}

/* ---- one process, several hosts; no threads at all ---- */

TEST(several_kernels_share_a_process)
{
	enum { HOSTS = 3, ROUNDS = 400 };
	struct host *hosts[HOSTS];

	for (unsigned i = 0; i < HOSTS; i++) {
		hosts[i] =
			host_new(i == 0 ? XK_REGULAR : XK_IPP, i == 2 ? XK_DRIVER_ADAPTIVE : XK_DRIVER_INTERRUPT, 1, 0);
		hosts[i]->top->protocol.resume = i == 2 ? XK_RESUME_DRIVER : XK_RESUME_THREAD;
		host_start(hosts[i]);
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < HOSTS; i++) {
			send_one(hosts[i], round % 3 == 0 ? OP_TIMEOUT : OP_HANDOFF);
			if (round % 16 == 15)
				CHECK(host_wait_handled(hosts[i], round + 1));
		}
	}
	for (unsigned i = 0; i < HOSTS; i++) {
		CHECK(host_wait_handled(hosts[i], ROUNDS));
		host_free(hosts[i]);
	}
}

TEST(without_threads_the_driver_carries_what_was_handed_off)
{
	struct host *h = host_virtual();

	h->edge->watch = XK_WATCH_EXPLICIT;
	host_init(h);
	for (unsigned i = 0; i < 200; i++) {
		send_one(h, OP_HANDOFF);
		send_one(h, OP_TIMEOUT);
		send_one(h, OP_NESTED);
		send_one(h, OP_SIGNAL);
		send_one(h, OP_SIGNAL);
		if (i % 4 == 3)
			host_run(h);
	}
	CHECK_EQ(h->top->handled, 1000);
	CHECK_EQ(host_stats(h).stacks_parked, 0);
	CHECK_EQ(h->kernel->busy, 0);
	host_free(h);
}

TEST(freeing_a_kernel_that_was_run_unwinds_what_waits)
{
	struct host *h = host_virtual();

	host_init(h);
	for (unsigned i = 0; i < 5; i++)
		send_one(h, OP_WAIT);
	host_run(h);
	CHECK_EQ(host_stats(h).stacks_parked, 5);
	host_free(h); /* finds no message left */
}
