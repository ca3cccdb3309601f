/* test_memory.c - the in-memory platform: its buffers, its clocks, its ports. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "platform/clock.h"
#include "platform/sim/memory.h"
#include "tests/platform/lent.h"
#include "tests/test.h"

static struct xk_platform *
platform_new(enum xk_memory_clock clock)
{
	struct xk_platform *platform = xk_memory_platform_new(clock);

	REQUIRE(platform != NULL);
	return platform;
}

static unsigned
out(struct xk_platform *platform)
{
	return platform->ops->buffers_out(platform);
}

static void
platform_end(struct xk_platform *platform)
{
	CHECK_EQ(out(platform), 0);
	xk_memory_platform_free(platform);
}

/* Makes the calling thread the driver, for which freed buffers are kept. */
static void
drive(struct xk_platform *platform)
{
	xk_memory_platform_recycle(platform, true);
	platform->ops->driver_begin(platform);
}

#define PLATFORM_TEST(name, kind) TEST_WITH(name, struct xk_platform *platform, platform_new(kind), platform_end)

static struct xk_port *
port_new(struct xk_platform *platform, const char *name)
{
	struct xk_port *port = xk_memory_port_new(platform, name, 0x020000000001, 1500);

	REQUIRE(port != NULL);
	return port;
}

static struct xk_msg *
text(struct xk_platform *platform, const char *words)
{
	struct xk_msg *m = xk_msg_from(platform, words, strlen(words));

	REQUIRE(m != NULL);
	return m;
}

static bool
is_text(const struct xk_msg *m, const char *words)
{
	char bytes[64];

	return m != NULL && xk_msg_len(m) == strlen(words) && xk_msg_copy_out(m, 0, bytes, xk_msg_len(m)) &&
	       memcmp(bytes, words, strlen(words)) == 0;
}

static unsigned
receive(struct xk_port *port, struct xk_msg **frames, unsigned max)
{
	return port->ops->receive(port, frames, max);
}

/* Returns true if the port accepted m; otherwise frees it. */
static bool
transmit(struct xk_port *port, struct xk_msg *m)
{
	if (port->ops->transmit(port, &m, 1) == 1)
		return true;
	xk_msg_free(m);
	return false;
}

/* ---- buffers ---- */

/* Checks that buffers are as platform.h specifies, also when reused. */
static void
check_buffers(struct xk_platform *platform)
{
	for (unsigned i = 0; i < 3; i++) {
		struct xk_msg *m = platform->ops->buffer_new(platform), *view;

		REQUIRE(m != NULL);
		CHECK_EQ(m->data - m->floor, XK_MSG_HEADROOM);
		CHECK(m->ceiling - m->data >= XK_MSG_SEGMENT);
		CHECK(m->len == 0 && m->total == 0 && m->next == NULL && m->link == NULL);
		CHECK(m->id == 0 && m->flags == 0 && m->tail == m && m->platform == platform);
		CHECK_EQ(atomic_load(m->references), 1);
		memset(m->floor, 0x55, (size_t)(m->ceiling - m->floor));
		m->len = m->total = 9;
		m->id = m->flags = 1;
		view = platform->ops->buffer_view(platform, m);
		REQUIRE(view != NULL);
		CHECK(view->data == m->data && view->len == 9 && view->floor == m->floor &&
		      view->ceiling == m->ceiling);
		CHECK(view->total == 0 && view->next == NULL && view->link == NULL && view->tail == view);
		CHECK(view->id == 0 && view->flags == 0);
		CHECK_EQ(atomic_load(m->references), 2);
		CHECK_EQ(out(platform), 2);
		platform->ops->buffer_free(platform, m);
		CHECK_EQ(atomic_load(view->references), 1);
		CHECK_EQ(view->data[8], 0x55);
		platform->ops->buffer_free(platform, view);
		CHECK_EQ(out(platform), 0);
	}
}

/* Checks that a hold keeps the bytes whether its segment, another view or no view remains. */
static void
check_holds(struct xk_platform *platform)
{
	for (unsigned i = 0; i < 4; i++) {
		struct xk_msg *m = text(platform, "held"), copy = *m, *view = NULL;

		REQUIRE(platform->ops->buffer_hold(platform, m));
		CHECK_EQ(atomic_load(m->references), 2);
		CHECK_EQ(out(platform), 2);
		platform->ops->buffer_free(platform, m);
		CHECK_EQ(out(platform), 1);
		if (i % 2 == 1) {
			view = platform->ops->buffer_view(platform, &copy);
			REQUIRE(view != NULL);
			CHECK(memcmp(view->data, "held", 4) == 0);
		}
		if (i < 2)
			platform->ops->buffer_let_go(platform, copy.references);
		if (view != NULL)
			platform->ops->buffer_free(platform, view);
		if (i >= 2)
			platform->ops->buffer_let_go(platform, copy.references);
		CHECK_EQ(out(platform), 0);
	}
}

PLATFORM_TEST(a_buffer_lives_until_its_last_view, XK_MEMORY_VIRTUAL)
{
	check_buffers(platform);
	check_holds(platform);
}

PLATFORM_TEST(recycling_platform_reuses_memory, XK_MEMORY_VIRTUAL)
{
	struct xk_msg *m, *again;

	drive(platform);
	check_buffers(platform);
	check_holds(platform);
	m = text(platform, "one");
	xk_msg_free(m);
	again = xk_memory_frame(platform, 10);
	CHECK(again == m);
	xk_msg_free(again);
	again = xk_memory_frame(platform, 10000);
	CHECK(again != m);
	xk_msg_free(again);
}

static void *
free_elsewhere(void *argument)
{
	struct xk_msg *m = argument;
	struct xk_msg *exact = xk_memory_frame(m->platform, 10);

	CHECK(exact->data + exact->len == exact->ceiling); /* a malloc */
	xk_msg_free(m);
	return exact;
}

/* Calls body(argument) in a thread. Returns its result. */
static void *
in_thread(void *(*body)(void *argument), void *argument)
{
	pthread_t thread;
	void *result;

	REQUIRE(pthread_create(&thread, NULL, body, argument) == 0);
	pthread_join(thread, &result);
	return result;
}

PLATFORM_TEST(buffers_freed_by_any_thread_are_kept_for_the_driver, XK_MEMORY_VIRTUAL)
{
	struct xk_msg *m, *exact;

	drive(platform);
	m = text(platform, "freed by another thread");
	exact = in_thread(free_elsewhere, m);
	CHECK_EQ(out(platform), 1);
	xk_msg_free(exact); /* not kept: it is no recycled buffer */
	CHECK_EQ(out(platform), 0);
	exact = xk_memory_frame(platform, 10);
	CHECK(exact == m);
	xk_msg_free(exact);
}

static void *
drive_elsewhere(void *argument)
{
	struct xk_platform *platform = argument;
	struct xk_msg *m;

	platform->ops->driver_begin(platform);
	m = xk_memory_frame(platform, 10);
	xk_msg_free(m);
	return m;
}

PLATFORM_TEST(buffers_are_kept_for_one_driver_at_a_time, XK_MEMORY_VIRTUAL)
{
	struct xk_msg *m;

	drive(platform);
	m = text(platform, "kept");
	xk_msg_free(m);
	CHECK(in_thread(drive_elsewhere, platform) != m);
	platform->ops->driver_end(platform);
	CHECK(in_thread(drive_elsewhere, platform) == m);
}

PLATFORM_TEST(without_recycling_every_buffer_is_a_malloc, XK_MEMORY_VIRTUAL)
{
	struct xk_msg *m;

	xk_memory_platform_recycle(platform, false);
	platform->ops->driver_begin(platform);
	m = xk_memory_frame(platform, 10);
	CHECK(m->data + m->len == m->ceiling);
	xk_msg_free(m);
}

enum { TOSSES = 20000, TOSSED = 64 };

struct toss {
	struct xk_platform *platform;
	_Atomic(struct xk_msg *) slots[TOSSED];
};

/* Replaces messages of both threads with new ones and frees the old. */
static void *
toss(void *argument)
{
	struct toss *t = argument;

	for (unsigned i = 0; i < TOSSES; i++) {
		struct xk_msg *m = xk_msg_from(t->platform, &i, sizeof(i));

		if (i % 3 == 0)
			xk_msg_free(xk_msg_reference(m));
		m = atomic_exchange(&t->slots[i * 7 % TOSSED], m);
		if (m != NULL)
			xk_msg_free(m);
	}
	return NULL;
}

PLATFORM_TEST(driver_and_another_thread_free_each_others_buffers, XK_MEMORY_REAL)
{
	static struct toss t;
	pthread_t thread;

	t = (struct toss){ .platform = platform };
	drive(platform);
	REQUIRE(pthread_create(&thread, NULL, toss, &t) == 0);
	toss(&t);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < TOSSED; i++)
		if (t.slots[i] != NULL)
			xk_msg_free(t.slots[i]);
}

#ifdef __SANITIZE_THREAD__
enum { PASSES = 300000 }; /* enough for data races */
#else
enum { PASSES = 6000000 };
#endif
enum { BESIDE = 6 };

struct passing {
	struct xk_platform *platform;
	_Atomic(struct xk_msg *) slots[TOSSED];
	_Atomic bool ends;
	_Atomic unsigned refused;
};

/* Frees messages that the driver allocated. */
static void *
free_passed(void *argument)
{
	struct passing *p = argument;

	while (!atomic_load(&p->ends))
		for (unsigned i = 0; i < TOSSED; i++)
			xk_msg_free(atomic_exchange(&p->slots[i], NULL));
	return NULL;
}

/* Allocates one buffer at a time, which never exceeds the limit. */
static void *
allocate_beside(void *argument)
{
	struct passing *p = argument;

	while (!atomic_load(&p->ends)) {
		struct xk_msg *m = p->platform->ops->buffer_new(p->platform);

		p->refused += m == NULL;
		xk_msg_free(m);
	}
	return NULL;
}

/* Allocations and frees are counted in two places, which a third thread cannot read atomically. */
PLATFORM_TEST(buffers_passed_to_another_thread_are_no_shortage, XK_MEMORY_REAL)
{
	static struct passing p;
	pthread_t freeing, beside[BESIDE];

	p.platform = platform;
	xk_memory_platform_limit(platform, 1000);
	drive(platform);
	REQUIRE(pthread_create(&freeing, NULL, free_passed, &p) == 0);
	for (unsigned i = 0; i < BESIDE; i++)
		REQUIRE(pthread_create(&beside[i], NULL, allocate_beside, &p) == 0);
	for (unsigned i = 0; i < PASSES; i++) {
		struct xk_msg *m = platform->ops->buffer_new(platform);

		p.refused += m == NULL;
		xk_msg_free(atomic_exchange(&p.slots[i % TOSSED], m));
	}
	atomic_store(&p.ends, true);
	pthread_join(freeing, NULL);
	for (unsigned i = 0; i < BESIDE; i++)
		pthread_join(beside[i], NULL);
	for (unsigned i = 0; i < TOSSED; i++)
		xk_msg_free(p.slots[i]);
	CHECK_EQ(p.refused, 0);
}

TEST(loan_ends_when_its_last_bytes_are_freed)
{
	for (unsigned recycles = 0; recycles < 2; recycles++) {
		struct xk_platform *platform = platform_new(XK_MEMORY_REAL);
		_Atomic unsigned ended = 0;
		struct xk_msg *m;

		if (recycles)
			drive(platform);
		check_lending(platform);
		check_lending(platform); /* in the same memory */
		m = text(platform, "in a buffer that was lent");
		CHECK(xk_msg_is_writable(m) && m->data - m->floor == XK_MSG_HEADROOM);
		xk_msg_free(m);
		xk_memory_platform_limit(platform, 0);
		CHECK(xk_msg_lend(platform, "words", 5, lent_ended, &ended) == NULL);
		CHECK_EQ(ended, 0);
		platform_end(platform);
	}
}

PLATFORM_TEST(limit_counts_buffers_and_views, XK_MEMORY_VIRTUAL)
{
	struct xk_msg *m, *view;

	for (unsigned recycles = 0; recycles < 2; recycles++) {
		xk_memory_platform_limit(platform, 2);
		m = platform->ops->buffer_new(platform);
		view = platform->ops->buffer_view(platform, m);
		REQUIRE(m != NULL && view != NULL);
		CHECK(platform->ops->buffer_new(platform) == NULL);
		CHECK(platform->ops->buffer_view(platform, m) == NULL);
		CHECK(xk_memory_frame(platform, 1) == NULL);
		CHECK_EQ(atomic_load(m->references), 2);
		xk_msg_free(m);
		m = platform->ops->buffer_new(platform);
		CHECK(m != NULL);
		xk_msg_free(m);
		xk_msg_free(view);
		drive(platform);
	}
}

PLATFORM_TEST(number_of_views_of_a_buffer_is_limited, XK_MEMORY_VIRTUAL)
{
	struct xk_msg *m = platform->ops->buffer_new(platform), *views = NULL, *view;
	unsigned count = 1;

	while ((view = platform->ops->buffer_view(platform, m)) != NULL) {
		view->next = views;
		views = view;
		count++;
	}
	CHECK(count > 60000 && count < 65536);
	xk_msg_free(views);
	CHECK(xk_msg_is_writable(m));
	xk_msg_free(m);
}

PLATFORM_TEST(frame_ends_at_the_end_of_its_buffer, XK_MEMORY_VIRTUAL)
{
	const size_t lens[] = { 0, 1, 60, 9000, XK_MSG_MAX };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(lens); i++) {
		struct xk_msg *m = xk_memory_frame(platform, lens[i]);

		REQUIRE(m != NULL);
		CHECK_EQ(xk_msg_len(m), lens[i]);
		CHECK(m->data + m->len == m->ceiling);
		CHECK_EQ(m->data - m->floor, XK_MSG_HEADROOM);
		xk_msg_free(m);
	}
	CHECK(xk_memory_frame(platform, (size_t)XK_MSG_MAX + 1) == NULL);
}

/* ---- clocks ---- */

struct idler {
	struct xk_platform *platform;
	unsigned calls;
	uint64_t at_ns;
};

static void
idle(void *context)
{
	struct idler *idler = context;

	idler->calls++;
	idler->at_ns = idler->platform->ops->now_ns(idler->platform);
}

PLATFORM_TEST(virtual_time_passes_only_by_sleeping, XK_MEMORY_VIRTUAL)
{
	CHECK_EQ(platform->ops->now_ns(platform), 0);
	xk_memory_advance(platform, 5);
	platform->ops->sleep(platform, 100);
	CHECK_EQ(platform->ops->now_ns(platform), 100);
	platform->ops->sleep(platform, 50);
	CHECK_EQ(platform->ops->now_ns(platform), 100);
}

TEST_WITH(virtual_sleep_stops_at_the_end_and_reports_idle, struct xk_platform *platform,
	  platform_new(XK_MEMORY_VIRTUAL), platform_end)
{
	struct idler idler = { platform, 0, 0 };

	xk_memory_on_idle(platform, idle, &idler);
	platform->ops->sleep(platform, UINT64_MAX);
	CHECK_EQ(idler.calls, 1);
	CHECK_EQ(idler.at_ns, 0);
	xk_memory_run_until(platform, 1000);
	platform->ops->sleep(platform, 1000);
	CHECK_EQ(idler.calls, 1);
	CHECK_EQ(platform->ops->now_ns(platform), 1000);
	xk_memory_run_until(platform, 2000);
	platform->ops->sleep(platform, 2001);
	CHECK_EQ(idler.calls, 2);
	CHECK_EQ(idler.at_ns, 2000);
	xk_memory_run_until(platform, 3000);
	platform->ops->sleep(platform, UINT64_MAX);
	CHECK_EQ(idler.calls, 3);
	CHECK_EQ(idler.at_ns, 3000);
}

TEST(wakeup_before_the_sleep_is_not_lost)
{
	struct xk_platform *virtual = platform_new(XK_MEMORY_VIRTUAL), *real = platform_new(XK_MEMORY_REAL);
	uint64_t deadline_ns;

	virtual->ops->wake(virtual);
	virtual->ops->sleep(virtual, 100);
	CHECK_EQ(virtual->ops->now_ns(virtual), 0);
	virtual->ops->sleep(virtual, 100);
	CHECK_EQ(virtual->ops->now_ns(virtual), 100);
	real->ops->wake(real);
	real->ops->sleep(real, UINT64_MAX); /* for ever, were it lost */
	deadline_ns = real->ops->now_ns(real) + 1000000;
	real->ops->sleep(real, deadline_ns);
	CHECK(real->ops->now_ns(real) >= deadline_ns); /* one wake ends one sleep */
	platform_end(virtual);
	platform_end(real);
}

PLATFORM_TEST(a_real_sleep_ends_at_its_deadline, XK_MEMORY_REAL)
{
	uint64_t deadline_ns = platform->ops->now_ns(platform) + 2000000;

	platform->ops->sleep(platform, deadline_ns);
	CHECK(platform->ops->now_ns(platform) >= deadline_ns);
	platform->ops->sleep(platform, deadline_ns); /* already past */
}

static void *
wake_soon(void *argument)
{
	struct xk_platform *platform = argument;

	platform->ops->sleep(platform, platform->ops->now_ns(platform) + 1000000);
	return NULL;
}

static void *
wake_other(void *argument)
{
	struct xk_platform **platforms = argument;

	wake_soon(platforms[0]);
	platforms[1]->ops->wake(platforms[1]);
	return NULL;
}

TEST(another_thread_ends_a_sleep)
{
	struct xk_platform *platforms[2] = { platform_new(XK_MEMORY_REAL), platform_new(XK_MEMORY_REAL) };
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, wake_other, platforms) == 0);
	platforms[1]->ops->sleep(platforms[1], UINT64_MAX);
	pthread_join(thread, NULL);
	platform_end(platforms[0]);
	platform_end(platforms[1]);
}

/* ---- ports ---- */

PLATFORM_TEST(port_has_its_given_properties, XK_MEMORY_VIRTUAL)
{
	char name[] = "left";
	struct xk_port *port = xk_memory_port_new(platform, name, 0x020000000007, 9000);

	REQUIRE(port != NULL);
	name[0] = 'x';
	CHECK_STR(port->name, "left");
	CHECK_EQ(port->address, 0x020000000007);
	CHECK_EQ(port->mtu, 9000);
	CHECK_EQ(port->offloads, 0);
	CHECK(port->can_sleep && port->platform == platform);
	port->ops->close(port);
}

PLATFORM_TEST(injected_frames_are_received_in_order, XK_MEMORY_VIRTUAL)
{
	struct xk_port *port = port_new(platform, "p");
	struct xk_msg *frames[XK_BURST];

	CHECK_EQ(receive(port, frames, XK_BURST), 0);
	CHECK(xk_memory_inject(port, text(platform, "one")));
	CHECK(xk_memory_inject(port, text(platform, "two")));
	CHECK(xk_memory_inject(port, text(platform, "three")));
	REQUIRE(receive(port, frames, 2) == 2);
	CHECK(is_text(frames[0], "one"));
	CHECK(is_text(frames[1], "two"));
	xk_msg_free(frames[0]);
	xk_msg_free(frames[1]);
	REQUIRE(receive(port, frames, 2) == 1);
	CHECK(is_text(frames[0], "three"));
	CHECK(frames[0]->link == NULL);
	xk_msg_free(frames[0]);
	port->ops->close(port);
}

static void *
inject_two(void *argument)
{
	struct xk_port *port = argument;

	CHECK(xk_memory_inject(port, text(port->platform, "two")));
	return NULL;
}

/* Also with more frames than the ring holds, and for any injecting thread. */
PLATFORM_TEST(frames_that_the_driver_injects_stay_in_order, XK_MEMORY_VIRTUAL)
{
	struct xk_port *port = port_new(platform, "p");
	struct xk_msg *frames[XK_BURST];
	uint32_t put = 0, got = 0, number;

	drive(platform);
	CHECK(xk_memory_inject(port, text(platform, "zero")));
	REQUIRE(receive(port, frames, XK_BURST) == 1);
	CHECK(is_text(frames[0], "zero"));
	xk_msg_free(frames[0]);
	CHECK(xk_memory_inject(port, text(platform, "one")));
	in_thread(inject_two, port);
	CHECK(xk_memory_inject(port, text(platform, "three")));
	REQUIRE(receive(port, frames, XK_BURST) == 3);
	CHECK(is_text(frames[0], "one") && is_text(frames[1], "two") && is_text(frames[2], "three"));
	for (unsigned i = 0; i < 3; i++)
		xk_msg_free(frames[i]);
	for (unsigned burst = 0; burst < 50; burst++) {
		unsigned count;

		for (unsigned i = 0; i < burst * 3; i++, put++)
			CHECK_EQ(xk_memory_inject_bytes(port, &put, sizeof(put)), 0);
		count = receive(port, frames, XK_BURST);
		for (unsigned i = 0; i < count; i++) {
			memcpy(&number, frames[i]->data, sizeof(number));
			CHECK_EQ(number, got++);
			xk_msg_free(frames[i]);
		}
	}
	CHECK(got > 1000 && put > got);
	port->ops->close(port);
}

enum { INJECTED = 20000 };

/* Injects numbers with the top bit set. */
static void *
inject_many(void *argument)
{
	struct xk_port *port = argument;

	for (uint32_t i = 0; i < INJECTED; i++) {
		uint32_t number = UINT32_C(1) << 31 | i;

		while (xk_memory_inject_bytes(port, &number, sizeof(number)) != 0)
			sched_yield();
	}
	return NULL;
}

PLATFORM_TEST(two_threads_frames_each_stay_in_order, XK_MEMORY_REAL)
{
	struct xk_port *port = port_new(platform, "p");
	struct xk_msg *frames[XK_BURST];
	uint32_t got[2] = { 0, 0 }, put = 0;
	pthread_t thread;

	drive(platform);
	CHECK_EQ(receive(port, frames, XK_BURST), 0);
	REQUIRE(pthread_create(&thread, NULL, inject_many, port) == 0);
	while (got[0] < INJECTED || got[1] < INJECTED) {
		unsigned count;

		for (unsigned i = 0; i < put % 90 && put < INJECTED; i++) {
			if (xk_memory_inject_bytes(port, &put, sizeof(put)) != 0)
				break;
			put++;
		}
		if (put < INJECTED && xk_memory_inject_bytes(port, &put, sizeof(put)) == 0)
			put++;
		count = receive(port, frames, XK_BURST);
		for (unsigned i = 0; i < count; i++) {
			uint32_t number;

			memcpy(&number, frames[i]->data, sizeof(number));
			CHECK_EQ(number & ~(UINT32_C(1) << 31), got[number >> 31]);
			got[number >> 31]++;
			xk_msg_free(frames[i]);
		}
		if (count == 0)
			sched_yield();
	}
	pthread_join(thread, NULL);
	port->ops->close(port);
}

PLATFORM_TEST(a_full_queue_refuses_the_drivers_frames_too, XK_MEMORY_VIRTUAL)
{
	struct xk_port *port = port_new(platform, "p");
	struct xk_msg *frame;

	drive(platform);
	CHECK_EQ(receive(port, &frame, 1), 0);
	for (unsigned i = 0; i < XK_MEMORY_QUEUE; i++)
		REQUIRE(xk_memory_inject(port, xk_memory_frame(platform, 1)));
	CHECK(!xk_memory_inject(port, text(platform, "one too many")));
	CHECK_EQ(out(platform), XK_MEMORY_QUEUE);
	port->ops->close(port);
}

PLATFORM_TEST(a_full_queue_refuses_frames_and_closing_frees_them, XK_MEMORY_VIRTUAL)
{
	struct xk_port *port = port_new(platform, "p");

	for (unsigned i = 0; i < XK_MEMORY_QUEUE; i++)
		REQUIRE(xk_memory_inject(port, xk_memory_frame(platform, 1)));
	CHECK(!xk_memory_inject(port, text(platform, "one too many")));
	CHECK_EQ(out(platform), XK_MEMORY_QUEUE);
	CHECK(transmit(port, text(platform, "never taken")));
	port->ops->close(port);
}

PLATFORM_TEST(transmitted_frames_are_taken_in_order_and_the_ring_is_bounded, XK_MEMORY_VIRTUAL)
{
	struct xk_port *port = port_new(platform, "p");
	struct xk_msg *frames[3] = { text(platform, "one"), text(platform, "two"), text(platform, "three") }, *m;

	CHECK(xk_memory_take(port) == NULL);
	xk_memory_transmit_limit(port, 2);
	CHECK_EQ(port->ops->transmit(port, frames, 3), 2);
	CHECK(!transmit(port, frames[2]));
	m = xk_memory_take(port);
	CHECK(is_text(m, "one"));
	xk_msg_free(m);
	CHECK(transmit(port, text(platform, "four")));
	m = xk_memory_take(port);
	CHECK(is_text(m, "two"));
	xk_msg_free(m);
	m = xk_memory_take(port);
	CHECK(is_text(m, "four"));
	xk_msg_free(m);
	CHECK(xk_memory_take(port) == NULL);
	port->ops->close(port);
}

TEST(connected_ports_share_no_buffer)
{
	struct xk_platform *here = platform_new(XK_MEMORY_VIRTUAL), *there = platform_new(XK_MEMORY_VIRTUAL);
	struct xk_port *a = port_new(here, "a"), *b = port_new(there, "b");
	struct xk_msg *m = text(here, "head "), *frame;

	REQUIRE(xk_memory_connect(a, b) == 0);
	xk_msg_join(m, text(here, "and tail"));
	m->flags = XK_MSG_TRANSPORT_SUM_GOOD;
	m->id = 4;
	CHECK(transmit(a, m));
	CHECK_EQ(out(here), 0);
	CHECK_EQ(out(there), 1);
	REQUIRE(receive(b, &frame, 1) == 1);
	CHECK(is_text(frame, "head and tail"));
	CHECK(frame->next == NULL && frame->flags == 0 && frame->id == 0 && frame->platform == there);
	CHECK(transmit(b, frame));
	REQUIRE(receive(a, &frame, 1) == 1);
	CHECK(frame->platform == here);
	xk_msg_free(frame);
	a->ops->close(a);
	CHECK(transmit(b, text(there, "to nobody")));
	b->ops->close(b);
	platform_end(here);
	platform_end(there);
}

TEST(loan_ends_with_the_transmitted_frame)
{
	struct xk_platform *here = platform_new(XK_MEMORY_VIRTUAL), *there = platform_new(XK_MEMORY_VIRTUAL);
	struct xk_port *a = port_new(here, "a"), *b = port_new(there, "b"), *alone = port_new(here, "alone");
	struct xk_msg *frames[3], *frame;
	_Atomic unsigned ended = 0;

	REQUIRE(xk_memory_connect(a, b) == 0);
	for (unsigned i = 0; i < 3; i++) {
		frames[i] = xk_msg_lend(here, "words", 5, lent_ended, &ended);
		memcpy(xk_msg_push(&frames[i], 5), "head ", 5);
	}
	CHECK(transmit(a, frames[0]));
	CHECK_EQ(ended, 1);
	REQUIRE(receive(b, &frame, 1) == 1);
	CHECK(is_text(frame, "head words"));
	xk_msg_free(frame);
	xk_memory_transmit_limit(a, 0);
	CHECK(!transmit(a, frames[1])); /* frees it */
	CHECK_EQ(ended, 2);
	CHECK(transmit(alone, frames[2]));
	CHECK_EQ(ended, 2);
	alone->ops->close(alone);
	CHECK_EQ(ended, 3);
	a->ops->close(a);
	b->ops->close(b);
	platform_end(here);
	platform_end(there);
}

TEST(connected_port_accepts_no_more_than_the_other_holds)
{
	struct xk_platform *here = platform_new(XK_MEMORY_VIRTUAL), *there = platform_new(XK_MEMORY_VIRTUAL);
	struct xk_port *a = port_new(here, "a"), *b = port_new(there, "b");
	struct xk_msg *frame;

	REQUIRE(xk_memory_connect(a, b) == 0);
	xk_memory_transmit_limit(a, 2);
	CHECK(transmit(a, text(here, "one")));
	CHECK(transmit(a, text(here, "two")));
	CHECK(!transmit(a, text(here, "three")));
	REQUIRE(receive(b, &frame, 1) == 1);
	xk_memory_platform_limit(there, out(there));
	CHECK(!transmit(a, text(here, "three")));
	xk_msg_free(frame);
	CHECK(transmit(a, text(here, "three")));
	a->ops->close(a);
	b->ops->close(b);
	platform_end(here);
	platform_end(there);
}

PLATFORM_TEST(port_connected_to_itself_receives_its_frames, XK_MEMORY_VIRTUAL)
{
	struct xk_port *port = port_new(platform, "lo");
	struct xk_msg *frame;

	REQUIRE(xk_memory_connect(port, port) == 0);
	CHECK(transmit(port, text(platform, "echo")));
	REQUIRE(receive(port, &frame, 1) == 1);
	CHECK(is_text(frame, "echo"));
	xk_msg_free(frame);
	port->ops->close(port);
}

/* A loop of one frame. */
struct loop {
	struct xk_msg *frame;
	unsigned calls;
};

static unsigned
loop_receive(void *context, struct xk_msg **frames, unsigned max)
{
	struct loop *loop = context;

	loop->calls++;
	if (max == 0 || loop->frame == NULL)
		return 0;
	frames[0] = loop->frame;
	loop->frame = NULL;
	return 1;
}

static unsigned
loop_transmit(void *context, struct xk_msg **frames, unsigned count)
{
	struct loop *loop = context;

	loop->calls++;
	if (count == 0 || loop->frame != NULL)
		return 0;
	loop->frame = frames[0];
	return 1;
}

TEST_WITH(functions_can_replace_a_ports_device, struct xk_platform *platform, platform_new(XK_MEMORY_VIRTUAL),
	  platform_end)
{
	struct xk_port *port = port_new(platform, "p");
	struct loop loop = { NULL, 0 };
	struct xk_msg *frame;

	xk_memory_loop(port, loop_receive, loop_transmit, &loop);
	CHECK(transmit(port, text(platform, "round")));
	CHECK(!transmit(port, text(platform, "full")));
	REQUIRE(receive(port, &frame, 1) == 1);
	CHECK(is_text(frame, "round"));
	CHECK_EQ(receive(port, &frame, 1), 0);
	CHECK_EQ(loop.calls, 4);
	xk_msg_free(frame);
	port->ops->close(port);
}

/* ---- a port with a callback for sent frames ---- */

struct sent_record {
	unsigned count;
	size_t len;
	uint8_t bytes[4096];
	struct xk_port *port; /* the frame is injected here; NULL: nowhere */
};

static void
record_sent(void *context, const uint8_t *bytes, size_t len)
{
	struct sent_record *sent_record = context;

	sent_record->count++;
	sent_record->len = len;
	REQUIRE(len <= sizeof(sent_record->bytes));
	memcpy(sent_record->bytes, bytes, len);
	if (sent_record->port != NULL)
		CHECK_EQ(xk_memory_inject_bytes(sent_record->port, bytes, len), 0);
}

TEST_WITH(callback_gets_each_sent_frame, struct xk_platform *platform, platform_new(XK_MEMORY_VIRTUAL), platform_end)
{
	struct xk_port *port = port_new(platform, "port");
	struct sent_record sent_record = { .count = 0 };

	xk_memory_on_sent(port, record_sent, &sent_record);
	CHECK(transmit(port, text(platform, "one")));
	CHECK(sent_record.len == 3 && memcmp(sent_record.bytes, "one", 3) == 0);
	CHECK(transmit(port, text(platform, "three")));
	CHECK(sent_record.len == 5 && memcmp(sent_record.bytes, "three", 5) == 0);
	CHECK_EQ(sent_record.count, 2);
	CHECK(xk_memory_take(port) == NULL);
	CHECK_EQ(out(platform), 0);
	port->ops->close(port);
}

TEST_WITH(callback_gets_each_frame_in_one_piece, struct xk_platform *platform, platform_new(XK_MEMORY_VIRTUAL),
	  platform_end)
{
	struct xk_port *port = port_new(platform, "port");
	struct sent_record sent_record = { .count = 0 };
	struct xk_msg *m = text(platform, "payload"), *other = xk_msg_reference(m);

	xk_memory_on_sent(port, record_sent, &sent_record);
	memcpy(xk_msg_push(&other, 7), "header ", 7);
	REQUIRE(other->next != NULL);
	/* without a buffer for the whole frame, transmit refuses it */
	xk_memory_platform_limit(platform, out(platform));
	CHECK_EQ(port->ops->transmit(port, &other, 1), 0);
	CHECK_EQ(sent_record.count, 0);
	xk_memory_platform_limit(platform, out(platform) + 1);
	CHECK(transmit(port, other));
	CHECK(sent_record.len == 14 && memcmp(sent_record.bytes, "header payload", 14) == 0);
	xk_msg_free(m);
	port->ops->close(port);
}

TEST_WITH(callback_may_inject, struct xk_platform *platform, platform_new(XK_MEMORY_VIRTUAL), platform_end)
{
	struct xk_port *port = port_new(platform, "port");
	struct sent_record sent_record = { .port = port };
	struct xk_msg *m;

	xk_memory_on_sent(port, record_sent, &sent_record);
	CHECK(transmit(port, text(platform, "again")));
	REQUIRE(receive(port, &m, 1) == 1);
	CHECK(is_text(m, "again"));
	xk_msg_free(m);
	port->ops->close(port);
}

PLATFORM_TEST(impossible_injections_are_refused_by_name, XK_MEMORY_VIRTUAL)
{
	static const uint8_t many[XK_MSG_MAX + 1];
	struct xk_port *port = port_new(platform, "port");

	CHECK_EQ(xk_memory_inject_bytes(port, many, sizeof(many)), -EMSGSIZE);
	xk_memory_platform_limit(platform, 0);
	CHECK_EQ(xk_memory_inject_bytes(port, many, 60), -ENOBUFS);
	xk_memory_platform_limit(platform, XK_MEMORY_QUEUE + 1);
	for (unsigned i = 0; i < XK_MEMORY_QUEUE; i++)
		CHECK_EQ(xk_memory_inject_bytes(port, many, 60), 0);
	CHECK_EQ(xk_memory_inject_bytes(port, many, 60), -ENOBUFS);
	CHECK_EQ(out(platform), XK_MEMORY_QUEUE);
	port->ops->close(port);
}

/* ---- two hosts on the real clock ---- */

enum { PINGS = 2000 };

/* Waits like a driver: receive; if empty arm, receive once more, sleep, disarm. */
static struct xk_msg *
wait_for_frame(struct xk_port *port)
{
	struct xk_msg *frame;

	while (receive(port, &frame, 1) == 0) {
		unsigned got;

		port->ops->arm(port);
		got = receive(port, &frame, 1);
		if (got == 0)
			port->platform->ops->sleep(port->platform, UINT64_MAX);
		port->ops->disarm(port);
		if (got != 0)
			break;
	}
	return frame;
}

static void *
echo(void *argument)
{
	struct xk_port *port = argument;

	for (unsigned i = 0; i < PINGS; i++)
		transmit(port, wait_for_frame(port));
	port->ops->close(port);
	return NULL;
}

TEST(two_threads_wake_each_other_with_every_frame)
{
	struct xk_platform *here = platform_new(XK_MEMORY_REAL), *there = platform_new(XK_MEMORY_REAL);
	struct xk_port *a = port_new(here, "a"), *b = port_new(there, "b");
	unsigned good = 0;
	pthread_t thread;

	REQUIRE(xk_memory_connect(a, b) == 0);
	REQUIRE(pthread_create(&thread, NULL, echo, b) == 0);
	for (unsigned i = 0; i < PINGS; i++) {
		struct xk_msg *frame;

		CHECK(transmit(a, text(here, "ping")));
		frame = wait_for_frame(a);
		good += is_text(frame, "ping");
		xk_msg_free(frame);
	}
	CHECK_EQ(good, PINGS);
	/* the other end may be closing while this one sends */
	for (unsigned i = 0; i < 100; i++)
		transmit(a, text(here, "late"));
	pthread_join(thread, NULL);
	a->ops->close(a);
	platform_end(here);
	platform_end(there);
}

enum { SHARERS = 2, SHARES = 3000 };

/* Takes the message; the thread that is last frees the buffer. */
static void *
share(void *argument)
{
	struct xk_msg *m = argument;
	bool good = true;

	for (unsigned i = 0; i < SHARES; i++) {
		struct xk_msg *other = xk_msg_reference(m);

		good = good && other != NULL && xk_msg_push(&other, 14) != NULL;
		xk_msg_free(other);
	}
	good = good && is_text(m, "shared");
	xk_msg_free(m);
	return good ? argument : NULL;
}

PLATFORM_TEST(threads_share_a_buffer_and_none_is_lost, XK_MEMORY_REAL)
{
	struct xk_msg *m = text(platform, "shared"), *copies[SHARERS];
	pthread_t threads[SHARERS];

	for (unsigned i = 0; i < SHARERS; i++)
		copies[i] = xk_msg_reference(m);
	for (unsigned i = 0; i < SHARERS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, share, copies[i]) == 0);
	xk_msg_free(m);
	for (unsigned i = 0; i < SHARERS; i++) {
		void *good;

		pthread_join(threads[i], &good);
		CHECK(good != NULL);
	}
}

PLATFORM_TEST(loan_shared_by_threads_ends_once, XK_MEMORY_REAL)
{
	check_loan_among_threads(platform);
}

/* ---- the clock ---- */

/* On a busy machine, a program may take this long to start. */
TEST(clock_may_be_calibrated_over_ten_seconds)
{
	struct clock_pair now, earlier;
	struct clock clock = { .scale = 0 };

	clock_read(&now);
	earlier = (struct clock_pair){ now.ticks - UINT64_C(20000000000), now.ns - UINT64_C(10000000000) };
	clock_calibrate(&clock, &earlier, 1);
	if (clock.has_counter) /* half a nanosecond per tick, plus the time since clock_read */
		CHECK(clock.scale >= UINT64_C(1) << 30 && clock.scale <= UINT64_C(3) << 30);
}
