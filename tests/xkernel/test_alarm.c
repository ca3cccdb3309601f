/* test_alarm.c - alarms (xkernel/support/alarm.h): they hold their sessions, and races cannot lose or repeat them. */
#include "tests/xkernel/toy.h"
#include "xkernel/support/alarm.h"

enum { MS = 1000000 };

/* A session with an alarm; its close is recorded in `tale`. */
struct own {
	struct xk_session session; /* first */
	struct xk_lock lock;
	struct xk_alarm alarm;
	unsigned fired;   /* under the lock */
	uint64_t due_ns;  /* the deadline; XK_NEVER: none. Under the lock */
	uint64_t last_ns; /* time of the last firing */
	unsigned again;   /* how many more times the handler sets it, 1 ms later */
	struct tale *tale;
};

struct tale {
	_Atomic unsigned closed;
	bool set_when_closed; /* what xk_alarm_set returned in the session's close */
};

static void
own_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct own *own = xk_container_of(alarm, struct own, alarm);

	own->fired++;
	own->last_ns = now_ns;
	if (now_ns >= own->due_ns)
		own->due_ns = XK_NEVER;
	if (own->again > 0) {
		own->again--;
		own->due_ns = now_ns + MS;
	}
	xk_alarm_set(alarm, own->due_ns);
	xk_unlock(&own->lock);
}

static void
own_close(struct xk_session *s)
{
	struct own *own = (struct own *)s;

	xk_lock(&own->lock);
	own->tale->set_when_closed = xk_alarm_set(&own->alarm, 1);
	xk_unlock(&own->lock);
	atomic_fetch_add(&own->tale->closed, 1);
}

static const struct xk_session_ops own_ops = {
	.size = sizeof(struct own), .push = wire_push, .pop = xk_pop_through, .close = own_close
};

static struct own *
own_new(struct host *h, struct tale *tale)
{
	struct xk_protocol *wire = xk_kernel_find(h->kernel, "wire"), *top = &h->top->protocol;
	struct own *own = (struct own *)xk_session_new(wire, &own_ops, top, top, NULL);

	REQUIRE(own != NULL);
	*tale = (struct tale){ .set_when_closed = true };
	own->tale = tale;
	own->due_ns = XK_NEVER;
	xk_lock_init(&own->lock, wire);
	xk_alarm_init(&own->alarm, &own->session, &own->lock, own_expire);
	return own;
}

static bool
own_set(struct own *own, uint64_t at_ns)
{
	bool set;

	xk_lock(&own->lock);
	own->due_ns = at_ns;
	set = xk_alarm_set(&own->alarm, at_ns);
	xk_unlock(&own->lock);
	return set;
}

static struct host *
virtual_host(void)
{
	struct host *h = host_virtual();

	host_init(h);
	return h;
}

TEST_WITH(an_alarm_fires_once_at_its_time, struct host *h, virtual_host(), host_free)
{
	struct tale tale;
	struct own *own = own_new(h, &tale);

	CHECK(!xk_alarm_is_set(&own->alarm));
	CHECK(own_set(own, 5 * MS));
	CHECK(xk_alarm_is_set(&own->alarm));
	host_run(h);
	CHECK_EQ(own->fired, 1);
	CHECK_EQ(own->last_ns, 5 * MS);
	CHECK(!xk_alarm_is_set(&own->alarm));
	xk_close(&own->session);
	CHECK_EQ(tale.closed, 1);
}

TEST_WITH(only_an_earlier_time_moves_an_alarm, struct host *h, virtual_host(), host_free)
{
	struct tale tale;
	struct own *own = own_new(h, &tale);

	CHECK(own_set(own, 5 * MS));
	CHECK(own_set(own, 3 * MS));
	CHECK(own_set(own, 9 * MS)); /* its handler finds nothing due at 3 ms, and sets it again */
	host_run(h);
	CHECK_EQ(own->fired, 2);
	CHECK_EQ(own->last_ns, 9 * MS);
	xk_close(&own->session);
	CHECK_EQ(tale.closed, 1);
}

TEST_WITH(past_deadline_fires_at_once, struct host *h, virtual_host(), host_free)
{
	struct tale tale;
	struct own *own = own_new(h, &tale);

	xk_memory_advance(h->platform, 7 * MS);
	CHECK(own_set(own, 2 * MS));
	host_run(h);
	CHECK_EQ(own->fired, 1);
	CHECK(own->last_ns < 8 * MS);
	xk_close(&own->session);
}

TEST_WITH(alarm_set_to_never_is_not_set, struct host *h, virtual_host(), host_free)
{
	struct tale tale;
	struct own *own = own_new(h, &tale);

	CHECK(own_set(own, XK_NEVER));
	CHECK(!xk_alarm_is_set(&own->alarm));
	host_run(h);
	CHECK_EQ(own->fired, 0);
	xk_close(&own->session);
	CHECK_EQ(tale.closed, 1);
}

TEST_WITH(alarm_holds_its_session_until_its_handler_returns, struct host *h, virtual_host(), host_free)
{
	struct tale tale;
	struct own *own = own_new(h, &tale);

	own->again = 3;
	CHECK(own_set(own, MS));
	xk_close(&own->session);
	CHECK_EQ(tale.closed, 0);
	host_run(h);
	CHECK_EQ(tale.closed, 1);
	CHECK(h->platform->ops->now_ns(h->platform) >= 4 * MS);
	CHECK(!tale.set_when_closed); /* a closed session has no alarms */
}

TEST_WITH(stopped_alarm_releases_its_session, struct host *h, virtual_host(), host_free)
{
	struct tale tale;
	struct own *own = own_new(h, &tale);
	bool stopped;

	CHECK(own_set(own, MS));
	xk_close(&own->session);
	xk_lock(&own->lock);
	stopped = xk_alarm_stop(&own->alarm);
	CHECK(!xk_alarm_stop(&own->alarm));
	CHECK(!xk_alarm_is_set(&own->alarm));
	xk_unlock(&own->lock);
	CHECK(stopped);
	CHECK_EQ(tale.closed, 0);
	xk_session_release(&own->session);
	CHECK_EQ(tale.closed, 1);
	host_run(h);
}

TEST_WITH(cancel_releases_the_session, struct host *h, virtual_host(), host_free)
{
	struct tale tale;
	struct own *own = own_new(h, &tale);

	xk_alarm_cancel(&own->alarm); /* which is not set */
	CHECK(own_set(own, MS));
	xk_alarm_cancel(&own->alarm);
	CHECK_EQ(tale.closed, 0);
	CHECK(own_set(own, 2 * MS));
	xk_close(&own->session);
	xk_alarm_cancel(&own->alarm);
	CHECK_EQ(tale.closed, 1);
	host_run(h);
}

/* ---- without a session ---- */

struct loose {
	struct xk_lock lock;
	struct xk_alarm alarm;
	unsigned fired;
	struct xk_retired retired;
	unsigned *freed;
};

static void
loose_free(struct xk_retired *retired)
{
	struct loose *loose = xk_container_of(retired, struct loose, retired);

	++*loose->freed;
	free(loose);
}

static void
loose_expire(struct xk_alarm *alarm, uint64_t now_ns)
{
	struct loose *loose = xk_container_of(alarm, struct loose, alarm);
	struct xk_kernel *kernel = loose->lock.owner->kernel;
	bool over = ++loose->fired == 2;

	if (!over)
		xk_alarm_set(alarm, now_ns + MS);
	xk_unlock(&loose->lock);
	if (over)
		xk_retire(kernel, &loose->retired, loose_free);
}

TEST(an_alarm_without_a_session_may_be_freed_by_its_handler)
{
	struct host *h = virtual_host();
	struct loose *loose = calloc(1, sizeof(*loose));
	unsigned freed = 0;

	REQUIRE(loose != NULL);
	loose->freed = &freed;
	xk_lock_init(&loose->lock, &h->top->protocol);
	xk_alarm_init(&loose->alarm, NULL, &loose->lock, loose_expire);
	xk_lock(&loose->lock);
	CHECK(xk_alarm_set(&loose->alarm, MS));
	CHECK(!xk_alarm_stop(&loose->alarm)); /* there is nothing to release */
	CHECK(!xk_alarm_is_set(&loose->alarm));
	CHECK(xk_alarm_set(&loose->alarm, MS));
	xk_unlock(&loose->lock);
	host_run(h);
	host_free(h);
	CHECK_EQ(freed, 1);
}

/* ---- races ---- */

static struct host *
threaded_host(enum xk_mode mode)
{
	struct host *h = host_new(mode, XK_DRIVER_INTERRUPT, 2, 0);

	host_start(h);
	return h;
}

/* Waits until the alarm's handler waits for the lock. The caller holds the lock and has set the alarm. */
static void
await_handler(struct own *own)
{
	do {
		xk_alarm_set(&own->alarm, 0);
		for (unsigned i = 0; i < 20; i++)
			host_nap();
		if (!xk_alarm_stop(&own->alarm))
			return;
		xk_session_release(&own->session); /* not the last reference: the test has one */
	} while (true);
}

static void
a_handler_that_waits_for_the_lock(enum xk_mode mode)
{
	struct host *h = threaded_host(mode);
	struct tale tale;
	struct own *own = own_new(h, &tale);

	xk_lock(&own->lock);
	own->due_ns = 0;
	await_handler(own);
	CHECK(xk_alarm_is_set(&own->alarm));
	CHECK(xk_alarm_set(&own->alarm, 0)); /* the handler will check the deadline: no second event is scheduled */
	CHECK(!xk_alarm_stop(&own->alarm));
	CHECK_EQ(own->fired, 0);
	xk_unlock(&own->lock);
	for (unsigned tries = 0; tries < 100000 && xk_alarm_is_set(&own->alarm); tries++)
		host_nap();
	for (unsigned i = 0; i < 20; i++)
		host_nap();
	xk_lock(&own->lock);
	CHECK_EQ(own->fired, 1);
	xk_unlock(&own->lock);
	xk_close(&own->session);
	CHECK(wait_until(&tale.closed, 1));
	host_free(h);
}

TEST(handler_waiting_for_the_lock_is_not_stopped_or_run_twice)
{
	a_handler_that_waits_for_the_lock(XK_IPP);
	a_handler_that_waits_for_the_lock(XK_REGULAR);
}

enum { RACERS = 2, RACE_ROUNDS = 20000 };

struct race {
	struct own *own;
	_Atomic unsigned left;
	uint64_t seed;
};

/* Sets and stops the alarm at random, as messages do. */
static void
race_run(void *argument)
{
	struct race *race = argument;
	struct own *own = race->own;
	uint64_t random = race->seed * 0x9e3779b97f4a7c15 | 1;

	for (unsigned i = 0; i < RACE_ROUNDS; i++) {
		uint64_t drawn = next_random(&random), at_ns;
		bool stopped = false;

		xk_lock(&own->lock);
		at_ns = xk_now_ns(own->session.protocol) + drawn % 20000;
		if (drawn >> 32 & 1) {
			if (at_ns < own->due_ns)
				own->due_ns = at_ns;
			xk_alarm_set(&own->alarm, own->due_ns);
		} else {
			own->due_ns = XK_NEVER;
			stopped = xk_alarm_stop(&own->alarm);
		}
		xk_unlock(&own->lock);
		if (stopped)
			xk_session_release(&own->session);
	}
	atomic_fetch_add(&race->left, 1);
}

static void
shepherds_that_race(enum xk_mode mode)
{
	struct host *h = threaded_host(mode);
	struct tale tale;
	struct own *own = own_new(h, &tale);
	struct race races[RACERS];
	bool over = false;

	for (unsigned i = 0; i < RACERS; i++) {
		races[i] = (struct race){ .own = own, .seed = i + 1 };
		REQUIRE(xk_application_start(h->kernel, "racer", race_run, &races[i]) == 0);
	}
	for (unsigned i = 0; i < RACERS; i++)
		CHECK(wait_until(&races[i].left, 1));
	/* No deadline is lost: if the last operation set the alarm, it fires. */
	for (unsigned tries = 0; tries < 100000 && !over; tries++) {
		xk_lock(&own->lock);
		over = own->due_ns == XK_NEVER && !xk_alarm_is_set(&own->alarm);
		xk_unlock(&own->lock);
		host_nap();
	}
	CHECK(over);
	CHECK(own->fired > 0);
	xk_close(&own->session);
	CHECK(wait_until(&tale.closed, 1)); /* no reference is leaked or released twice */
	CHECK_EQ(tale.closed, 1);
	host_free(h);
}

TEST(racing_alarms_lose_and_leak_nothing)
{
	shepherds_that_race(XK_IPP);
	shepherds_that_race(XK_REGULAR);
}
