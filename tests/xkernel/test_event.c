/* test_event.c - the event wheel against a naive model on a virtual clock, cancelling, and several threads at once. */
#include <pthread.h>
#include <sched.h>

#include "tests/test.h"
#include "xkernel/engine/engine.h"

/* ---- the wheel, with a hook in its lock: runs what another thread could do at each release ---- */

static void (*spin_door)(void *argument);
static void *spin_argument;

static void
spin_unlock_by_door(_Atomic uint32_t *lock)
{
	void (*door)(void *argument) = spin_door;

	xk_spin_unlock(lock);
	if (door == NULL)
		return;
	spin_door = NULL;
	door(spin_argument);
	spin_door = door;
}

#define xk_spin_unlock spin_unlock_by_door
#include "xkernel/event.c"
#undef xk_spin_unlock

/* ---- the kernel's part of the wheel ---- */

/* A kernel with nothing but a wheel and a clock. */
struct host {
	struct xk_kernel kernel; /* first */
	_Atomic uint64_t now_us;
	_Atomic unsigned kicks;
};

static uint64_t
host_now_us(void *host)
{
	return atomic_load_explicit(&((struct host *)host)->now_us, memory_order_relaxed);
}

static void
host_kick(void *host)
{
	atomic_fetch_add_explicit(&((struct host *)host)->kicks, 1, memory_order_relaxed);
}

void
xk_event_init(struct xk_event *event, struct xk_kernel *kernel, xk_event_handler *handler, void *argument)
{
	xk_wheel_prepare(kernel->wheel, event, handler, argument);
}

static struct host *
host_new(uint64_t now_us)
{
	struct host *host = calloc(1, sizeof(*host));

	REQUIRE(host != NULL);
	host->now_us = now_us;
	host->kernel.wheel =
		xk_wheel_new(&(struct xk_wheel_host){ .now_us = host_now_us, .kick = host_kick, .argument = host });
	REQUIRE(host->kernel.wheel != NULL);
	return host;
}

static void
host_free(struct host *host)
{
	xk_wheel_free(host->kernel.wheel);
	free(host);
}

static struct xk_event *
host_take(struct host *host, uint64_t now_us)
{
	host->now_us = now_us;
	return xk_wheel_take(host->kernel.wheel, now_us);
}

static uint64_t
host_next(struct host *host)
{
	uint64_t next_ns = xk_wheel_next_ns(host->kernel.wheel);

	return next_ns == UINT64_MAX ? UINT64_MAX : next_ns / 1000;
}

static void
event_nothing(struct xk_event *event, void *argument)
{
}

static uint64_t
random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * 0x2545f4914f6cdd1d >> 8;
}

/* Returns a random number below 2^bits, spread evenly over the magnitudes. */
static uint64_t
random_wide(uint64_t *state, unsigned bits)
{
	return random_next(state) & ((UINT64_C(1) << random_next(state) % (bits + 1)) - 1);
}

/* ---- one at a time ---- */

TEST_WITH(an_event_fires_when_due_and_not_before, struct host *host, host_new(1000), host_free)
{
	struct xk_event event;

	xk_event_init(&event, &host->kernel, event_nothing, NULL);
	CHECK(host_next(host) == UINT64_MAX);
	xk_event_schedule(&event, 500);
	CHECK(host_next(host) <= 1500);
	CHECK(host_take(host, 1499) == NULL);
	CHECK(host_next(host) > 1499 && host_next(host) <= 1500);
	CHECK(host_take(host, 1500) == &event);
	CHECK_EQ(event.state, XK_EVENT_FIRING);
	CHECK(host_take(host, 1500) == NULL);
	xk_wheel_fired(host->kernel.wheel, &event);
	CHECK_EQ(event.state, XK_EVENT_IDLE);
	CHECK(host_next(host) == UINT64_MAX);
}

TEST_WITH(cancel_has_three_results, struct host *host, host_new(7), host_free)
{
	struct xk_event event;

	xk_event_init(&event, &host->kernel, event_nothing, NULL);
	CHECK_EQ(xk_event_cancel(&event), XK_EVENT_FINISHED);
	xk_event_schedule(&event, 100000);
	CHECK_EQ(xk_event_cancel(&event), XK_EVENT_CANCELLED);
	CHECK_EQ(xk_event_cancel(&event), XK_EVENT_FINISHED);
	CHECK(host_take(host, 200000) == NULL);
	CHECK(host_next(host) == UINT64_MAX);
	xk_event_schedule(&event, 1);
	CHECK(host_take(host, 200001) == &event);
	CHECK_EQ(xk_event_cancel(&event), XK_EVENT_RUNNING);
	xk_wheel_fired(host->kernel.wheel, &event);
	CHECK_EQ(xk_event_cancel(&event), XK_EVENT_FINISHED);
}

TEST_WITH(handler_reschedules_its_own_event, struct host *host, host_new(0), host_free)
{
	struct xk_event event;

	xk_event_init(&event, &host->kernel, event_nothing, NULL);
	xk_event_schedule(&event, 10);
	for (uint64_t now = 10; now < 10000; now += 10) {
		CHECK(host_take(host, now) == &event);
		xk_event_schedule(&event, 10);
		xk_wheel_fired(host->kernel.wheel, &event);
		CHECK_EQ(event.state, XK_EVENT_PENDING);
	}
	CHECK_EQ(xk_event_cancel(&event), XK_EVENT_CANCELLED);
	CHECK_EQ(event.state, XK_EVENT_IDLE);
}

TEST_WITH(waiting_handler_counts_as_running_until_it_returns, struct host *host, host_new(0), host_free)
{
	struct xk_event event;

	xk_event_init(&event, &host->kernel, event_nothing, NULL);
	xk_event_schedule(&event, 10);
	CHECK(host_take(host, 10) == &event);
	xk_event_schedule(&event, 10);
	CHECK(host_take(host, 20) == &event);
	xk_wheel_fired(host->kernel.wheel, &event);
	CHECK_EQ(xk_event_cancel(&event), XK_EVENT_RUNNING);
	xk_event_schedule(&event, 10);
	CHECK_EQ(xk_event_cancel(&event), XK_EVENT_CANCELLED);
	CHECK_EQ(xk_event_cancel(&event), XK_EVENT_RUNNING);
	xk_wheel_fired(host->kernel.wheel, &event);
	CHECK_EQ(xk_event_cancel(&event), XK_EVENT_FINISHED);
}

TEST_WITH(delay_zero_from_a_handler_waits_for_the_next_turn, struct host *host, host_new(0), host_free)
{
	struct xk_event event;

	xk_event_init(&event, &host->kernel, event_nothing, NULL);
	xk_event_schedule(&event, 0);
	CHECK(host_take(host, 0) == &event);
	xk_event_schedule(&event, 0);
	xk_wheel_fired(host->kernel.wheel, &event);
	CHECK(host_take(host, 0) == NULL);
	CHECK(host_take(host, 1) == &event);
	xk_wheel_fired(host->kernel.wheel, &event);
}

TEST_WITH(the_longest_delays_do_not_overflow, struct host *host, host_new(5000), host_free)
{
	struct xk_event event[3];

	for (unsigned i = 0; i < 3; i++)
		xk_event_init(&event[i], &host->kernel, event_nothing, NULL);
	xk_event_schedule(&event[0], UINT64_MAX);
	xk_event_schedule(&event[1], UINT64_MAX - 5000);
	xk_event_schedule(&event[2], UINT64_C(1) << 63);
	CHECK(host_take(host, UINT64_C(1) << 62) == NULL);
	CHECK(host_next(host) == UINT64_MAX); /* beyond the range of nanoseconds: never */
	CHECK(host_take(host, UINT64_MAX - 1) == &event[2]);
	CHECK(host_take(host, UINT64_MAX - 1) == &event[0]);
	CHECK(host_take(host, UINT64_MAX - 1) == &event[1]);
	CHECK(host_take(host, UINT64_MAX - 1) == NULL);
}

TEST_WITH(only_an_earlier_event_kicks, struct host *host, host_new(0), host_free)
{
	struct xk_event early, late;

	xk_event_init(&early, &host->kernel, event_nothing, NULL);
	xk_event_init(&late, &host->kernel, event_nothing, NULL);
	xk_event_schedule(&late, 1000000);
	CHECK_EQ(host->kicks, 1);
	xk_event_schedule(&early, 50);
	CHECK_EQ(host->kicks, 2);
	for (unsigned i = 0; i < 100; i++) {
		CHECK_EQ(xk_event_cancel(&early), XK_EVENT_CANCELLED);
		xk_event_schedule(&early, 50 + i);
	}
	CHECK_EQ(host->kicks, 2);
}

/* More events than are moved in one hold of the lock, all due at the same distant time. */
TEST_WITH(simultaneous_events_fire_in_scheduling_order, struct host *host, host_new(123), host_free)
{
	enum { COUNT = 5000 };
	struct xk_event *events = calloc(COUNT, sizeof(*events));

	REQUIRE(events != NULL);
	for (unsigned i = 0; i < COUNT; i++) {
		xk_event_init(&events[i], &host->kernel, event_nothing, NULL);
		host->now_us = 123 + i;
		if (i % 100 == 99)
			CHECK(host_take(host, 123 + i) == NULL);
		xk_event_schedule(&events[i], 123 + 77777777 - host->now_us);
	}
	for (unsigned i = 0; i < COUNT; i++)
		CHECK(host_take(host, 77777777 + 200) == &events[i]);
	CHECK(host_take(host, 77777777 + 200) == NULL);
	free(events);
}

/* Schedules an event for the same time between the steps that empty a coarse slot, as another thread could. */
struct intruder {
	struct xk_kernel *kernel;
	struct xk_event events[200];
	uint64_t due;
	unsigned count;
};

static void
intruder_schedule(void *argument)
{
	struct intruder *intruder = argument;
	struct xk_event *event = &intruder->events[intruder->count];

	if (intruder->count == XK_ARRAY_LENGTH(intruder->events))
		return;
	intruder->count++;
	xk_event_init(event, intruder->kernel, event_nothing, NULL);
	xk_event_schedule(event, intruder->due - host_now_us(intruder->kernel));
}

TEST_WITH(events_added_to_an_emptying_slot_fire_last, struct host *host, host_new(0), host_free)
{
	enum { COUNT = 1000, START = 1 << 18, DUE = START + 5000 };
	struct xk_event *events = calloc(COUNT, sizeof(*events));
	struct intruder *intruder = calloc(1, sizeof(*intruder));

	REQUIRE(events != NULL && intruder != NULL);
	intruder->kernel = &host->kernel;
	intruder->due = DUE;
	for (unsigned i = 0; i < COUNT; i++) {
		xk_event_init(&events[i], &host->kernel, event_nothing, NULL);
		xk_event_schedule(&events[i], DUE);
	}
	spin_argument = intruder;
	spin_door = intruder_schedule;
	CHECK(host_take(host, START) == NULL);
	spin_door = NULL;
	CHECK(intruder->count > COUNT / 32);
	for (unsigned i = 0; i < COUNT; i++)
		CHECK(host_take(host, DUE) == &events[i]);
	for (unsigned i = 0; i < intruder->count; i++)
		CHECK(host_take(host, DUE) == &intruder->events[i]);
	CHECK(host_take(host, DUE) == NULL);
	free(intruder);
	free(events);
}

/* ---- against a model ---- */

enum { MODEL_EVENTS = 150 };

struct model {
	struct host *host;
	struct xk_event events[MODEL_EVENTS];
	uint64_t due[MODEL_EVENTS]; /* UINT64_MAX: not pending */
	uint64_t order[MODEL_EVENTS];
	uint64_t scheduled, floor, random;
	unsigned bits;
	unsigned kicks;   /* at the sleeper's last check */
	uint64_t sleeper; /* time until which it may sleep */
	uint64_t fired;
	bool ok;
};

/* Returns the pending event that is due first; MODEL_EVENTS: none is pending. */
static unsigned
model_first(const struct model *model)
{
	unsigned first = MODEL_EVENTS;

	for (unsigned i = 0; i < MODEL_EVENTS; i++) {
		if (model->due[i] == UINT64_MAX)
			continue;
		if (first == MODEL_EVENTS || model->due[i] < model->due[first] ||
		    (model->due[i] == model->due[first] && model->order[i] < model->order[first]))
			first = i;
	}
	return first;
}

static void
model_schedule(struct model *model, unsigned i)
{
	uint64_t delay = random_wide(&model->random, model->bits), due = model->host->now_us + delay;

	xk_event_schedule(&model->events[i], delay);
	model->due[i] = due < model->floor ? model->floor : due;
	model->order[i] = model->scheduled++;
	if (host_next(model->host) < model->sleeper && model->host->kicks == model->kicks)
		model->ok = false;
}

static void
model_cancel(struct model *model, unsigned i)
{
	enum xk_event_cancelled want = model->due[i] == UINT64_MAX ? XK_EVENT_FINISHED : XK_EVENT_CANCELLED;

	if (xk_event_cancel(&model->events[i]) != want)
		model->ok = false;
	model->due[i] = UINT64_MAX;
}

static void
model_handle(struct model *model, struct xk_event *event)
{
	unsigned i = (unsigned)(event - model->events);

	model->due[i] = UINT64_MAX;
	model->fired++;
	if (random_next(&model->random) % 4 == 0)
		model_schedule(model, i);
	if (random_next(&model->random) % 8 == 0 && model->due[(i + 1) % MODEL_EVENTS] != UINT64_MAX)
		model_cancel(model, (i + 1) % MODEL_EVENTS);
	xk_wheel_fired(model->host->kernel.wheel, event);
}

/* Takes all events due now, or sometimes only some. */
static void
model_turn(struct model *model)
{
	uint64_t now = model->host->now_us;
	unsigned limit = random_next(&model->random) % 4 == 0 ? 2 : UINT32_MAX, want;
	struct xk_event *event;

	for (; limit > 0; limit--) {
		want = model_first(model);
		event = host_take(model->host, now);
		model->floor = now + 1;
		if (want == MODEL_EVENTS || model->due[want] > now)
			break;
		if (event != &model->events[want]) {
			model->ok = false;
			return;
		}
		model_handle(model, event);
	}
	if (limit == 0)
		return;
	if (event != NULL || host_next(model->host) <= now ||
	    (host_next(model->host) == UINT64_MAX) != (model_first(model) == MODEL_EVENTS))
		model->ok = false;
	model->kicks = model->host->kicks;
	model->sleeper = host_next(model->host);
}

static void
model_step(struct model *model)
{
	unsigned i = (unsigned)(random_next(&model->random) % MODEL_EVENTS), first;

	switch (random_next(&model->random) % 8) {
	case 0:
	case 1:
	case 2:
	case 3:
		model_schedule(model, i);
		break;
	case 4:
		model_cancel(model, i);
		break;
	case 5:
		model->host->now_us += random_wide(&model->random, model->bits - 2);
		break;
	case 6:
		if (host_next(model->host) != UINT64_MAX && host_next(model->host) > model->host->now_us)
			model->host->now_us = host_next(model->host);
		break;
	default:
		model_turn(model);
	}
	first = model_first(model);
	if (first != MODEL_EVENTS && host_next(model->host) > model->due[first])
		model->ok = false;
}

static void
model_run(uint64_t seed, unsigned bits, unsigned steps)
{
	struct model *model = calloc(1, sizeof(*model));

	REQUIRE(model != NULL);
	*model = (struct model){ .random = seed * 0x9e3779b97f4a7c15 | 1, .bits = bits, .ok = true };
	model->host = host_new(random_wide(&model->random, 40));
	model->sleeper = UINT64_MAX;
	for (unsigned i = 0; i < MODEL_EVENTS; i++) {
		xk_event_init(&model->events[i], &model->host->kernel, event_nothing, NULL);
		model->due[i] = UINT64_MAX;
	}
	for (unsigned i = 0; i < steps && model->ok; i++)
		model_step(model);
	if (!model->ok)
		fprintf(stderr, "seed %" PRIu64 ", %u bits: the wheel differs from the model\n", seed, bits);
	CHECK(model->ok);
	CHECK(model->fired > 0);
	host_free(model->host);
	free(model);
}

TEST(wheel_agrees_with_a_sorted_list)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		model_run(seed, 4, 4000);
		model_run(seed, 8, 4000);
		model_run(seed, 20, 4000);
		model_run(seed, 40, 4000);
	}
}

/* ---- several threads ---- */

enum { CROWD_THREADS = 2, CROWD_EVENTS = 64, CROWD_ROUNDS = 20000 };

struct crowd_event {
	struct xk_event event;
	_Atomic uint64_t fired;
	uint64_t scheduled, cancelled; /* by its owner */
};

struct crowd {
	struct host *host;
	_Atomic unsigned left;
	_Atomic unsigned early;
	struct crowd_member {
		struct crowd *crowd;
		uint64_t random;
		struct crowd_event events[CROWD_EVENTS];
	} members[CROWD_THREADS];
};

/* Schedules the event if its last schedule is over; otherwise cancels it. */
static void
crowd_do(struct crowd_member *member)
{
	struct crowd_event *one = &member->events[random_next(&member->random) % CROWD_EVENTS];
	uint64_t over = one->cancelled + atomic_load_explicit(&one->fired, memory_order_acquire);

	if (over == one->scheduled) {
		one->scheduled++;
		xk_event_schedule(&one->event, random_wide(&member->random, 14));
	} else if (xk_event_cancel(&one->event) == XK_EVENT_CANCELLED) {
		one->cancelled++;
	}
}

static void *
crowd_serve(void *argument)
{
	struct crowd_member *member = argument;

	for (unsigned i = 0; i < CROWD_ROUNDS; i++)
		crowd_do(member);
	for (unsigned i = 0; i < CROWD_EVENTS; i++)
		if (xk_event_cancel(&member->events[i].event) == XK_EVENT_CANCELLED)
			member->events[i].cancelled++;
	atomic_fetch_sub_explicit(&member->crowd->left, 1, memory_order_release);
	return NULL;
}

static void
crowd_handler(struct xk_event *event, void *argument)
{
	struct crowd *crowd = argument;
	struct crowd_event *one = (struct crowd_event *)event;

	if (event->due_us > host_now_us(crowd->host))
		atomic_fetch_add_explicit(&crowd->early, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&one->fired, 1, memory_order_release);
}

/* Advances time and fires due events until every member has left. */
static void
crowd_drive(struct crowd *crowd)
{
	uint64_t now = 0;
	struct xk_event *event;

	while (atomic_load_explicit(&crowd->left, memory_order_acquire) > 0) {
		now += 37;
		while ((event = host_take(crowd->host, now)) != NULL) {
			event->handler(event, event->argument);
			xk_wheel_fired(crowd->host->kernel.wheel, event);
		}
		if (now % 1000 < 37)
			sched_yield();
	}
}

TEST(racing_events_fire_or_cancel_exactly_once)
{
	struct crowd *crowd = calloc(1, sizeof(*crowd));
	pthread_t threads[CROWD_THREADS];

	REQUIRE(crowd != NULL);
	crowd->host = host_new(0);
	crowd->left = CROWD_THREADS;
	for (unsigned t = 0; t < CROWD_THREADS; t++) {
		crowd->members[t].crowd = crowd;
		crowd->members[t].random = t + 1;
		for (unsigned i = 0; i < CROWD_EVENTS; i++)
			xk_event_init(&crowd->members[t].events[i].event, &crowd->host->kernel, crowd_handler, crowd);
	}
	for (unsigned t = 0; t < CROWD_THREADS; t++)
		REQUIRE(pthread_create(&threads[t], NULL, crowd_serve, &crowd->members[t]) == 0);
	crowd_drive(crowd);
	for (unsigned t = 0; t < CROWD_THREADS; t++) {
		pthread_join(threads[t], NULL);
		for (unsigned i = 0; i < CROWD_EVENTS; i++) {
			struct crowd_event *one = &crowd->members[t].events[i];

			CHECK_EQ(one->fired + one->cancelled, one->scheduled);
			CHECK(one->scheduled > 0);
		}
	}
	CHECK_EQ(crowd->early, 0);
	host_free(crowd->host);
	free(crowd);
}
