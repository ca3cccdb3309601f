/*
 * test_sessions.c - sessions and enables: closed while shepherds are in them, kept while idle, found by many threads.
 * Random schedules print their seed; XK_TEST_SEED in the environment sets it.
 */
#include "tests/xkernel/toy.h"
#include "xkernel/engine/engine.h"

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

/* Nothing arrives up the session that probes stand on. */
static const struct xk_session_ops below_ops = { .push = wire_push, .pop = xk_pop_through };

static int
probe_push(struct xk_session *s, struct xk_msg *m)
{
	return xk_push(s->lls, m);
}

/* Closes its own session (as another shepherd might), waits, and answers through it. */
static void
probe_pop_closing(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct top *top = (struct top *)s->up->upper;

	xk_close(s);
	if (xk_semaphore_wait(&top->semaphore, XK_UNTIL_SIGNALLED) != 0)
		xk_drop(&top->protocol, m, TOP_NOT_WAITED);
	else
		xk_push(s, m);
}

static const struct xk_session_ops probe_closing_ops = { .push = probe_push,
							 .pop = probe_pop_closing,
							 .close = probe_closed };

static const struct xk_session_ops probe_closing_last_ops = {
	.push = probe_push, .pop = probe_pop_closing, .pop_is_last = true, .close = probe_closed
};

/* Waits in the session, then closes it as an hlp would. */
static void
probe_pop_then_close(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct top *top = (struct top *)s->up->upper;

	xk_msg_free(m);
	xk_semaphore_wait(&top->semaphore, XK_UNTIL_SIGNALLED);
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

/* Makes a host with wire, middle and top; messages go to a session of middle that the test makes. */
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

	return xk_session_new(probe->middle, ops, top, top, lls);
}

static struct xk_session *
probe_below(struct probe *probe)
{
	struct xk_protocol *wire = xk_kernel_find(probe->host->kernel, "wire");

	return xk_session_new(wire, &below_ops, probe->middle, probe->middle, NULL);
}

static void
check_closing(const struct xk_session_ops *ops)
{
	struct probe probe;
	struct host *h = probe_host(&probe, XK_IPP, 1);

	REQUIRE(xk_kernel_start(h->kernel) == 0);
	for (unsigned i = 0; i < 100; i++) {
		probe.session = probe_session(&probe, ops, probe_below(&probe));
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

TEST_OF(lower_session_outlives_one_closed_under_a_parked_shepherd, check_closing(&probe_closing_ops));
TEST_OF(a_session_whose_pop_is_last_outlives_a_wait_in_it, check_closing(&probe_closing_last_ops));

static const struct xk_session_ops probe_through_ops = { .push = probe_push,
							 .pop = xk_pop_through,
							 .close = probe_closed };

static void
probe_pop_last(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	xk_demux(s, m);
}

static const struct xk_session_ops probe_last_ops = {
	.push = probe_push, .pop = probe_pop_last, .pop_is_last = true, .close = probe_closed
};

/* Sends the message through the probe's session to top, which closes the session, waits twice and answers on it. */
static void
act_close_and_wait(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct probe *probe = top->argument;

	if (lls != probe->session) {
		xk_pop(probe->session, lls, m, NULL);
		return;
	}
	xk_close(lls);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(xk_semaphore_wait(&top->semaphore, XK_UNTIL_SIGNALLED), 0);
	xk_push(lls, m);
}

static void
check_through(const struct xk_session_ops *ops, enum xk_mode mode, enum xk_resume resume)
{
	struct probe probe;
	struct host *h = probe_host(&probe, mode, 2);

	h->top->act = act_close_and_wait;
	h->top->protocol.resume = resume;
	REQUIRE(xk_kernel_start(h->kernel) == 0);
	for (unsigned i = 0; i < 50; i++) {
		probe.session = probe_session(&probe, ops, probe_below(&probe));
		send_one(h, OP_ACT);
		for (unsigned j = 0; j < 2; j++) {
			send_one(h, OP_ECHO);
			CHECK(host_wait_handled(h, i * 6 + 2 * j + 1));
			send_one(h, OP_SIGNAL);
			CHECK(host_wait_handled(h, i * 6 + 2 * j + 2));
		}
		CHECK(host_wait_handled(h, (i + 1) * 6));
	}
	CHECK_EQ(probe.closed, 50);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), 150);
	host_free(h);
}

TEST(pass_through_session_outlives_the_waits_above_it)
{
	check_through(&probe_through_ops, XK_IPP, XK_RESUME_THREAD);
	check_through(&probe_through_ops, XK_IPP, XK_RESUME_DRIVER);
	check_through(&probe_through_ops, XK_REGULAR, XK_RESUME_THREAD);
}

TEST(a_session_whose_pop_is_last_outlives_the_waits_above_it)
{
	check_through(&probe_last_ops, XK_IPP, XK_RESUME_THREAD);
	check_through(&probe_last_ops, XK_IPP, XK_RESUME_DRIVER);
	check_through(&probe_last_ops, XK_REGULAR, XK_RESUME_THREAD);
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
	xk_kernel_stop(h->kernel); /* afterwards the last shepherd has closed its session */
	CHECK_EQ(probe.closed, 50);
	CHECK_EQ(probe.middle->cache_count, 0);
	host_free(h);
}

TEST(passive_session_closed_after_a_wait_is_freed)
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

static const struct xk_session_ops probe_plain_ops = { .push = probe_push,
						       .pop = xk_pop_through,
						       .close = probe_closed };

TEST(concurrent_closes_close_a_passive_session_once)
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

TEST(sessions_in_use_do_not_grow_the_cache_without_bound)
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

TEST(used_session_gets_a_second_chance)
{
	struct probe probe;
	struct host *h = probe_host(&probe, XK_IPP, 1);
	struct xk_session *s[4];

	probe.middle->session_max = 3;
	for (unsigned i = 0; i < 3; i++) {
		s[i] = probe_session(&probe, &probe_plain_ops, NULL);
		xk_session_cache(s[i]);
	}
	atomic_store(&s[0]->used, true);
	s[3] = probe_session(&probe, &probe_plain_ops, NULL);
	xk_session_cache(s[3]); /* s[1] goes: s[0] is older, but was used */
	CHECK_EQ(probe.closed, 1);
	CHECK_EQ(probe.middle->cache_count, 3);
	CHECK(s[0]->cached && s[2]->cached && s[3]->cached);
	for (unsigned i = 0; i < 4; i++)
		if (i != 1)
			atomic_store(&s[i]->used, true);
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

/* Returns key's session with a reference; opens it if there is none. NULL: another shepherd opened it first. */
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

/* Half of the messages only resolve their session in the map, without a reference: only the epoch keeps it. */
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
	xk_epochs_drain(&h->kernel->epochs);
	xk_map_fini(&crowd.map);
	host_free(h);
}

TEST(sessions_survive_concurrent_opens_and_closes)
{
	unsigned seed = test_seed("crowd");

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

TEST_WITH(concurrent_enables_are_counted_correctly, struct host *h, host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 1, 0),
	  host_free)
{
	struct enabling e = { .host = h };

	REQUIRE(xk_map_init(&e.map, h->kernel, 4) == 0);
	host_start(h);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(xk_thread_start(h->kernel, "enabling", enable_and_disable, &e), 0);
	CHECK(wait_until(&e.done, 2));
	CHECK_EQ(e.failed, 0);
	CHECK_EQ(xk_map_count(&e.map), 0);
	xk_kernel_stop(h->kernel);
	xk_epochs_drain(&h->kernel->epochs);
	xk_enable_fini(&e.map);
}
