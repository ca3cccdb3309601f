/* test_dpdk.c - the DPDK platform in one process: buffers, clock, sleep, and
 * rings between two hosts. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "tests/platform/dpdk_host.h"
#include "tests/platform/lent.h"

/* ---- the platform itself ---- */

TEST(restart_works_and_leaves_the_threads_cores_alone)
{
	cpu_set_t before, after;
	struct host h;

	REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
	for (unsigned i = 0; i < 3; i++) {
		REQUIRE(host_start(&h) == 0);
		CHECK_EQ(h.platform->ops->buffers_out(h.platform), 0);
		xk_dpdk_stop(h.platform);
	}
	REQUIRE(sched_getaffinity(0, sizeof(after), &after) == 0);
	CHECK(CPU_EQUAL(&before, &after));
}

TEST(impossible_configurations_are_refused_in_words)
{
	struct xk_dpdk_config configs[] = { { .core = 4000 },
					    { .core = -1, .buffers = 10 },
					    { .core = -1, .buffers = 1u << 30 },
					    { .core = -1, .memory_mb = 1u << 30 } };
	struct xk_platform *platform;
	char why[XK_DPDK_WHY];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(configs); i++) {
		why[0] = '\0';
		CHECK(xk_dpdk_start(&configs[i], &platform, why, sizeof(why)) < 0);
		CHECK(strlen(why) > 10);
	}
}

HOST_TEST(more_buffers_than_memory_are_refused)
{
	struct xk_dpdk_config config = { .core = -1, .buffers = 1 << 20 };
	struct xk_platform *platform;
	char why[XK_DPDK_WHY] = "";

	CHECK_EQ(xk_dpdk_start(&config, &platform, why, sizeof(why)), -ENOMEM);
	CHECK_HAS(why, "memory");
}

/* CLOCK_MONOTONIC_RAW: unlike CLOCK_MONOTONIC, NTP does not slew it. */
static uint64_t
raw_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Each reading of our clock lies between two of the system's, so the result does not depend on speed. */
TEST(clock_agrees_with_the_systems)
{
	struct timespec pause = { 0, 200000000 };
	uint64_t early, start, late, end, end_early, end_late;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	early = raw_ns();
	start = now_ns(&h);
	late = raw_ns();
	nanosleep(&pause, NULL);
	end_early = raw_ns();
	end = now_ns(&h);
	end_late = raw_ns();
	CHECK(end - start <= (end_late - early) + (end_late - early) / 10000);
	CHECK(end - start >= (end_early - late) - (end_early - late) / 10000);
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t next = now_ns(&h);

		REQUIRE(next >= end);
		end = next;
	}
	xk_dpdk_stop(h.platform);
}

HOST_TEST(fresh_buffer_has_headroom_room_and_one_reference)
{
	struct xk_msg *m;

	m = h->platform->ops->buffer_new(h->platform);
	REQUIRE(m != NULL);
	CHECK_EQ(m->data - m->floor, XK_MSG_HEADROOM);
	CHECK(m->ceiling - m->data >= XK_MSG_SEGMENT);
	CHECK(m->tail == m && m->next == NULL && m->len == 0 && m->total == 0 && m->flags == 0);
	CHECK(xk_msg_is_writable(m));
	memset(m->floor, 0xaa, (size_t)(m->ceiling - m->floor));
	CHECK_EQ(h->platform->ops->buffers_out(h->platform), 1);
	h->platform->ops->buffer_free(h->platform, m);
	CHECK_EQ(h->platform->ops->buffers_out(h->platform), 0);
}

HOST_TEST(views_share_bytes_and_outlive_their_owner)
{
	struct xk_msg *owner, *view, *second;

	owner = segment_new(h->platform, 1, 0, 100);
	owner->data += 10;
	owner->len -= 10;
	view = h->platform->ops->buffer_view(h->platform, owner);
	second = h->platform->ops->buffer_view(h->platform, view);
	REQUIRE(view != NULL && second != NULL);
	CHECK(view->data == owner->data && second->data == owner->data && view->len == 90 && second->len == 90);
	CHECK(view->floor == owner->floor && view->ceiling == owner->ceiling);
	CHECK_EQ(*owner->references, 3);
	CHECK(!xk_msg_is_writable(owner) && !xk_msg_is_writable(view));
	h->platform->ops->buffer_free(h->platform, owner);
	CHECK_EQ(*view->references, 2);
	h->platform->ops->buffer_free(h->platform, second);
	CHECK(xk_msg_is_writable(view));
	CHECK_EQ(view->data[5], byte_at(1, 15));
	h->platform->ops->buffer_free(h->platform, view);
	CHECK_EQ(h->platform->ops->buffers_out(h->platform), 0);
}

TEST(held_bytes_outlive_their_segment_and_can_be_viewed_again)
{
	struct xk_msg *owner, *view, *second, copy;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	for (unsigned i = 0; i < 2; i++) {
		owner = segment_new(h.platform, 1, 0, 100);
		view = h.platform->ops->buffer_view(h.platform, owner);
		copy = i == 0 ? *owner : *view;
		CHECK(h.platform->ops->buffer_hold(h.platform, i == 0 ? owner : view));
		CHECK_EQ(*owner->references, 3);
		h.platform->ops->buffer_free(h.platform, owner);
		h.platform->ops->buffer_free(h.platform, view);
		CHECK_EQ(h.platform->ops->buffers_out(h.platform), 1);
		second = h.platform->ops->buffer_view(h.platform, &copy);
		REQUIRE(second != NULL);
		CHECK(second->floor == copy.floor && second->ceiling == copy.ceiling && second->len == 100);
		CHECK_EQ(*second->references, 2);
		h.platform->ops->buffer_let_go(h.platform, copy.references);
		CHECK(xk_msg_is_writable(second));
		CHECK_EQ(second->data[5], byte_at(1, 5));
		h.platform->ops->buffer_free(h.platform, second);
		CHECK_EQ(h.platform->ops->buffers_out(h.platform), 0);
	}
	xk_dpdk_stop(h.platform);
}

TEST(number_of_references_to_a_buffer_is_limited)
{
	unsigned count = 0;
	struct xk_msg *m;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	m = segment_new(h.platform, 1, 0, 100);
	while (count <= UINT16_MAX && h.platform->ops->buffer_hold(h.platform, m))
		count++;
	CHECK(count > 60000 && count < UINT16_MAX);
	CHECK(h.platform->ops->buffer_view(h.platform, m) == NULL);
	for (; count > 0; count--)
		h.platform->ops->buffer_let_go(h.platform, m->references);
	CHECK(xk_msg_is_writable(m));
	h.platform->ops->buffer_free(h.platform, m);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), 0);
	xk_dpdk_stop(h.platform);
}

enum { SHOWS = 1500000 };

struct showing {
	const struct xk_kept *kept;
	pthread_barrier_t begun;
};

static void *
show_kept(void *argument)
{
	struct showing *s = argument;

	pthread_barrier_wait(&s->begun);
	for (unsigned i = 0; i < SHOWS; i++)
		xk_msg_free(xk_kept_part(s->kept, 0, 100));
	return NULL;
}

static void
count_loan(void *count)
{
	++*(unsigned *)count;
}

/* As when two shepherds retransmit a message: each may find the bytes without any other view. */
TEST(threads_may_view_kept_bytes_concurrently)
{
	static const uint8_t bytes[100];
	struct showing s;
	struct xk_kept kept;
	unsigned ended = 0;
	pthread_t thread;
	struct xk_msg *m;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	s.kept = &kept;
	pthread_barrier_init(&s.begun, NULL, 2);
	for (unsigned i = 0; i < 2; i++) {
		m = i == 0 ? xk_msg_new(h.platform, sizeof(bytes))
			   : xk_msg_lend(h.platform, bytes, sizeof(bytes), count_loan, &ended);
		REQUIRE(m != NULL && xk_msg_keep(&kept, m));
		xk_msg_free(m);
		REQUIRE(pthread_create(&thread, NULL, show_kept, &s) == 0);
		show_kept(&s);
		pthread_join(thread, NULL);
		CHECK_EQ(ended, 0);
		xk_kept_free(&kept);
		CHECK_EQ(ended, i);
		CHECK_EQ(h.platform->ops->buffers_out(h.platform), 0);
	}
	pthread_barrier_destroy(&s.begun);
	xk_dpdk_stop(h.platform);
}

enum { RESERVE = 1024, RING = 256 }; /* bounds of the reserve: at most 1024 buffers, at least a ring's */

/* After payload is refused, buffers are left for headers and acknowledgements, and after those for a device. */
TEST(pool_has_a_reserve_for_short_messages)
{
	static struct xk_msg *all[BUFFERS];
	unsigned count = 0, further = 0;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	while (count < BUFFERS && (all[count] = xk_msg_new(h.platform, XK_MSG_SHORT + 1)) != NULL)
		count++;
	CHECK(count > BUFFERS - RESERVE);
	CHECK(xk_msg_reference(all[0]) == NULL);
	CHECK(xk_msg_lend(h.platform, "words", 5, NULL, NULL) == NULL);
	for (; count < BUFFERS && (all[count] = xk_msg_new(h.platform, XK_MSG_SHORT)) != NULL; further++)
		count++;
	CHECK(further > 100);
	CHECK(BUFFERS - count > RING);
	CHECK(h.platform->ops->buffers(h.platform, 1) < BUFFERS - RESERVE + RING);
	CHECK(h.platform->ops->buffers(h.platform, 2) < h.platform->ops->buffers(h.platform, 1));
	CHECK(h.platform->ops->buffers(h.platform, 1000) > BUFFERS / 4);
	while (count > 0)
		xk_msg_free(all[--count]);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), 0);
	xk_dpdk_stop(h.platform);
}

TEST(empty_pool_returns_null_and_recovers)
{
	static struct xk_msg *all[BUFFERS];
	unsigned count = 0;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	while (count < BUFFERS && (all[count] = h.platform->ops->buffer_new(h.platform)) != NULL)
		count++;
	CHECK(count > BUFFERS - RESERVE && count < BUFFERS - RING);
	CHECK(h.platform->ops->is_short(h.platform));
	CHECK(h.platform->ops->buffer_new(h.platform) == NULL);
	CHECK(h.platform->ops->buffer_view(h.platform, all[0]) == NULL);
	CHECK_EQ(*all[0]->references, 1);
	while (count > 0)
		h.platform->ops->buffer_free(h.platform, all[--count]);
	CHECK(!h.platform->ops->is_short(h.platform));
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), 0);
	xk_dpdk_stop(h.platform);
}

TEST(loan_ends_when_its_last_bytes_are_freed)
{
	static struct xk_msg *all[BUFFERS];
	_Atomic unsigned ended = 0;
	unsigned count = 0;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	check_lending(h.platform);
	check_loan_among_threads(h.platform);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), 0);
	while (count < BUFFERS && (all[count] = h.platform->ops->buffer_new(h.platform)) != NULL)
		count++;
	CHECK(xk_msg_lend(h.platform, "words", 5, lent_ended, &ended) == NULL);
	for (unsigned left = 0; left < 2; left++) /* a loan takes two */
		h.platform->ops->buffer_free(h.platform, all[--count]);
	all[count] = xk_msg_lend(h.platform, "words", 5, lent_ended, &ended);
	CHECK(lent_is(all[count], "words"));
	CHECK(!h.platform->ops->buffer_hold(h.platform, all[count]));
	CHECK_EQ(ended, 0);
	xk_msg_free(all[count]);
	CHECK_EQ(ended, 1);
	while (count > 0)
		h.platform->ops->buffer_free(h.platform, all[--count]);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), 0);
	xk_dpdk_stop(h.platform);
}

static void *
use_buffers(void *argument)
{
	struct xk_platform *platform = argument;

	platform->ops->thread_begin(platform);
	for (unsigned i = 0; i < 2000; i++) {
		struct xk_msg *m = segment_new(platform, i, 0, 64), *v = platform->ops->buffer_view(platform, m);

		msg_free(i % 2 ? m : v);
		msg_free(i % 2 ? v : m);
	}
	platform->ops->thread_end(platform);
	return NULL;
}

HOST_TEST(threads_share_the_pool)
{
	pthread_t threads[4];

	for (unsigned i = 0; i < 4; i++)
		REQUIRE(pthread_create(&threads[i], NULL, use_buffers, h->platform) == 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(h->platform->ops->buffers_out(h->platform), 0);
}

enum { HOARDERS = 24, HOARD = 300 };

struct hoard {
	struct xk_platform *platform;
	pthread_barrier_t taken, looked_at;
};

static void *
hoard_buffers(void *argument)
{
	struct hoard *hoard = argument;
	struct xk_platform *platform = hoard->platform;
	struct xk_msg *all[HOARD];

	platform->ops->thread_begin(platform);
	for (unsigned i = 0; i < HOARD; i++)
		all[i] = platform->ops->buffer_new(platform);
	for (unsigned i = 0; i < HOARD; i++)
		if (all[i] != NULL)
			platform->ops->buffer_free(platform, all[i]);
	pthread_barrier_wait(&hoard->taken);
	pthread_barrier_wait(&hoard->looked_at);
	platform->ops->thread_end(platform);
	return NULL;
}

TEST(threads_return_their_cached_buffers)
{
	static struct xk_msg *all[BUFFERS];
	pthread_t threads[HOARDERS];
	struct hoard hoard;
	unsigned count = 0;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	hoard.platform = h.platform;
	pthread_barrier_init(&hoard.taken, NULL, HOARDERS + 1);
	pthread_barrier_init(&hoard.looked_at, NULL, HOARDERS + 1);
	for (unsigned i = 0; i < HOARDERS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, hoard_buffers, &hoard) == 0);
	pthread_barrier_wait(&hoard.taken);
	while (count < BUFFERS / 2 && (all[count] = h.platform->ops->buffer_new(h.platform)) != NULL)
		count++;
	CHECK(count > BUFFERS / 2 - RESERVE);
	while (count > 0)
		h.platform->ops->buffer_free(h.platform, all[--count]);
	pthread_barrier_wait(&hoard.looked_at);
	for (unsigned i = 0; i < HOARDERS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), 0);
	xk_dpdk_stop(h.platform);
}

/* ---- sleep ---- */

TEST(sleep_ends_at_its_deadline_as_deadlines_change)
{
	static const unsigned delays_us[] = { 100, 5000, 50, 0, 3000, 20, 1 };
	struct host h;

	REQUIRE(host_start(&h) == 0);
	for (unsigned round = 0; round < 20; round++)
		for (unsigned i = 0; i < XK_ARRAY_LENGTH(delays_us); i++) {
			uint64_t deadline = now_ns(&h) + delays_us[i] * 1000;

			h.platform->ops->sleep(h.platform, deadline);
			while (round % 2 == 0 && now_ns(&h) < deadline)
				h.platform->ops->sleep(h.platform, deadline);
		}
	h.platform->ops->sleep(h.platform, 0);
	xk_dpdk_stop(h.platform);
}

struct waker {
	struct xk_platform *platform;
	_Atomic unsigned asked, woken;
};

/* Wakes the platform once for each request. */
static void *
wake_often(void *argument)
{
	struct waker *w = argument;

	for (unsigned i = 1; i <= 2000; i++) {
		while (atomic_load_explicit(&w->asked, memory_order_acquire) < i)
			sched_yield();
		atomic_store_explicit(&w->woken, i, memory_order_release);
		w->platform->ops->wake(w->platform);
	}
	return NULL;
}

HOST_TEST(no_wakeup_is_lost)
{
	struct waker w = { 0 };
	pthread_t thread;

	w.platform = h->platform;
	REQUIRE(pthread_create(&thread, NULL, wake_often, &w) == 0);
	for (unsigned i = 1; i <= 2000; i++) {
		atomic_store_explicit(&w.asked, i, memory_order_release);
		while (atomic_load_explicit(&w.woken, memory_order_acquire) < i)
			h->platform->ops->sleep(h->platform, UINT64_MAX); /* a lost wake hangs here */
	}
	pthread_join(thread, NULL);
}

HOST_TEST(programs_events_are_served_while_sleeping_and_polling)
{
	bool called = false;
	struct event *event;

	event = evsignal_new(xk_dpdk_event_base(h->platform), SIGUSR1, host_note_event, &called);
	REQUIRE(event != NULL && event_add(event, NULL) == 0);
	raise(SIGUSR1);
	while (!called)
		h->platform->ops->sleep(h->platform, UINT64_MAX);
	called = false;
	raise(SIGUSR1);
	for (unsigned i = 0; i < 1000 && !called; i++)
		h->platform->ops->poll_control(h->platform);
	CHECK(called);
	event_free(event);
}

/* ---- ring ---- */

struct rings {
	struct host a, b;
};

static bool
rings_open(struct rings *r)
{
	const char *const names[2] = { "left", "right" };
	struct xk_platform *platforms[2];
	struct xk_port *ports[2];

	if (host_start(&r->a) != 0 || host_start(&r->b) != 0)
		return false;
	platforms[0] = r->a.platform;
	platforms[1] = r->b.platform;
	if (xk_dpdk_ring_open(platforms, names, ports, r->a.why, sizeof(r->a.why)) != 0) {
		fprintf(stderr, "%s\n", r->a.why);
		return false;
	}
	r->a.port = ports[0];
	r->b.port = ports[1];
	return true;
}

/* Closes everything and checks that no buffer of either pool is leaked. */
static void
rings_close(struct rings *r)
{
	host_close(&r->a);
	host_close(&r->b);
	CHECK_EQ(r->a.platform->ops->buffers_out(r->a.platform), 0);
	CHECK_EQ(r->b.platform->ops->buffers_out(r->b.platform), 0);
	xk_dpdk_stop(r->a.platform);
	xk_dpdk_stop(r->b.platform);
}

TEST_IN(ring_joins_two_hosts_and_cannot_sleep, struct rings, r, REQUIRE(rings_open(r)), rings_close)
{
	struct xk_msg *m;

	CHECK(!r->a.port->can_sleep);
	CHECK_EQ(r->a.port->ops->arm(r->a.port), -ENOTSUP);
	CHECK_STR(r->a.port->name, "left");
	CHECK(r->a.port->address != r->b.port->address);
	CHECK_EQ(r->a.port->address >> 40 & 3, 2);
	CHECK_EQ(r->a.port->offloads, 0);
	CHECK(xk_dpdk_port_is_up(r->a.port));
	for (unsigned i = 0; i < 1000; i++) {
		REQUIRE(host_send(&r->a, msg_new(r->a.platform, i, 60 + i, 400)));
		m = host_receive(&r->b);
		REQUIRE(msg_is(m, i, 60 + i));
		CHECK(m->platform == r->b.platform);
		REQUIRE(host_send(&r->b, m));
		m = host_receive(&r->a);
		CHECK(msg_is(m, i, 60 + i));
		msg_free(m);
	}
}

TEST_IN(full_ring_accepts_some_and_leaves_the_rest, struct rings, r, REQUIRE(rings_open(r)), rings_close)
{
	struct xk_msg *frames[300], *m;
	unsigned sent;

	for (unsigned i = 0; i < 300; i++)
		frames[i] = msg_new(r->a.platform, i, 200, i % 3 == 0 ? 30 : 200);
	frames[299]->len -= 1;
	frames[299]->total -= 1;
	sent = r->a.port->ops->transmit(r->a.port, frames, 300);
	CHECK(sent > 100 && sent < 300);
	for (unsigned i = 0; i < sent; i++) {
		m = host_receive(&r->b);
		REQUIRE(msg_is(m, i, 200));
		msg_free(m);
	}
	for (unsigned i = sent; i < 299; i++) {
		CHECK(msg_is(frames[i], i, 200));
		REQUIRE(host_send(&r->a, frames[i]));
		m = host_receive(&r->b);
		REQUIRE(msg_is(m, i, 200));
		msg_free(m);
	}
	msg_free(frames[299]);
}

TEST_IN(frames_left_in_a_ring_are_freed_with_it, struct rings, r, REQUIRE(rings_open(r)), rings_close)
{
	for (unsigned i = 0; i < 20; i++)
		REQUIRE(host_send(&r->a, msg_new(r->a.platform, i, 500, 100)));
}

TEST_IN(empty_segments_and_long_chains_arrive_whole, struct rings, r, REQUIRE(rings_open(r)), rings_close)
{
	struct xk_msg *m;

	m = segment_new(r->a.platform, 5, 0, 0);
	msg_append(m, segment_new(r->a.platform, 5, 0, 40));
	msg_append(m, segment_new(r->a.platform, 5, 40, 0));
	msg_append(m, segment_new(r->a.platform, 5, 40, 60));
	REQUIRE(host_send(&r->a, m));
	m = host_receive(&r->b);
	CHECK(msg_is(m, 5, 100));
	msg_free(m);
	REQUIRE(host_send(&r->a, msg_new(r->a.platform, 6, 1000, 10)));
	m = host_receive(&r->b);
	CHECK(msg_is(m, 6, 1000));
	msg_free(m);
}

TEST_IN(long_and_empty_frames_are_dropped_by_name_without_blocking, struct rings, r, REQUIRE(rings_open(r)),
	rings_close)
{
	struct xk_msg *frames[4], *m;

	frames[0] = msg_new(r->a.platform, 0, 100, 100);
	frames[1] = msg_new(r->a.platform, 1, 1519, 1519);
	frames[2] = segment_new(r->a.platform, 2, 0, 0);
	frames[3] = msg_new(r->a.platform, 3, 1518, 1518);
	CHECK_EQ(r->a.port->ops->transmit(r->a.port, frames, 4), 4);
	m = host_receive(&r->b);
	CHECK(msg_is(m, 0, 100));
	msg_free(m);
	m = host_receive(&r->b);
	CHECK(msg_is(m, 3, 1518));
	msg_free(m);
	CHECK_EQ(port_count(r->a.port, "device_too_long"), 2);
}

TEST_IN(views_and_their_owners_may_be_sent_in_turn, struct rings, r, REQUIRE(rings_open(r)), rings_close)
{
	struct xk_msg *owner, *view, *m;

	owner = msg_new(r->a.platform, 9, 300, 300);
	view = r->a.platform->ops->buffer_view(r->a.platform, owner);
	view->total = view->len;
	REQUIRE(host_send(&r->a, owner));
	m = host_receive(&r->b);
	CHECK(msg_is(m, 9, 300));
	CHECK(!xk_msg_is_writable(m));
	msg_free(m);
	CHECK(xk_msg_is_writable(view));
	REQUIRE(host_send(&r->a, view));
	m = host_receive(&r->b);
	CHECK(msg_is(m, 9, 300));
	CHECK(xk_msg_is_writable(m));
	CHECK_EQ(*m->references, 1);
	msg_free(m);
}

/* Makes a frame of a header and a loan of these bytes. */
static struct xk_msg *
lent_frame(struct host *h, unsigned seed, const uint8_t *bytes, size_t len, _Atomic unsigned *ended)
{
	struct xk_msg *m = xk_msg_lend(h->platform, bytes, len, lent_ended, ended);
	uint8_t *header = m == NULL ? NULL : xk_msg_push(&m, HEADER);

	for (unsigned i = 0; header != NULL && i < HEADER; i++)
		header[i] = byte_at(seed, i);
	return m;
}

TEST(lent_bytes_cross_a_ring_without_a_copy)
{
	enum { LONG = 100000, PIECE = 1000 };
	uint8_t *bytes = malloc(LONG);
	_Atomic unsigned ended = 0;
	struct xk_msg *m, *rest, *got;
	struct rings r;

	REQUIRE(bytes != NULL && rings_open(&r));
	for (size_t i = 0; i < LONG; i++)
		bytes[i] = byte_at(3, HEADER + i);
	REQUIRE(host_send(&r.a, lent_frame(&r.a, 3, bytes, PIECE, &ended)));
	m = host_receive(&r.b);
	REQUIRE(m != NULL && m->next != NULL);
	CHECK(msg_is(m, 3, HEADER + PIECE));
	CHECK(m->next->data == bytes && !xk_msg_is_writable(m->next));
	REQUIRE(xk_msg_pop(&m, HEADER) != NULL);
	memset(xk_msg_push(&m, HEADER + 1), 0, HEADER + 1); /* as a protocol that answers; not into the bytes before */
	REQUIRE(host_send(&r.b, m));
	CHECK_EQ(ended, 0);
	m = host_receive(&r.a);
	CHECK_EQ(xk_msg_len(m), HEADER + 1 + PIECE);
	CHECK_EQ(bytes[0], byte_at(3, HEADER));
	xk_msg_free(m);
	CHECK_EQ(ended, 1);

	/* parts of a loan so long that some offsets exceed an mbuf's counters */
	rest = xk_msg_lend(r.a.platform, bytes, LONG, lent_ended, &ended);
	for (unsigned i = 0; rest != NULL && i < LONG / PIECE; i++) {
		m = xk_msg_len(rest) > PIECE ? xk_msg_split(&rest, PIECE) : rest;
		if (m == rest)
			rest = NULL;
		memset(xk_msg_push(&m, HEADER), 0xee, HEADER);
		REQUIRE(host_send(&r.a, m));
		got = host_receive(&r.b);
		REQUIRE(got != NULL && xk_msg_len(got) == HEADER + PIECE && xk_msg_pop(&got, HEADER) != NULL);
		CHECK(got->next->data == bytes + i * PIECE && got->next->len == PIECE);
		CHECK_EQ(ended, 1);
		xk_msg_free(got);
	}
	CHECK_EQ(ended, 2);
	rings_close(&r);
	free(bytes);
}

TEST(full_or_closed_ring_ends_loans)
{
	static const uint8_t bytes[1400];
	struct xk_msg *frames[400];
	_Atomic unsigned ended = 0;
	unsigned sent;
	struct rings r;

	REQUIRE(rings_open(&r));
	for (unsigned i = 0; i < 400; i++)
		frames[i] = lent_frame(&r.a, i, bytes, sizeof(bytes), &ended);
	sent = r.a.port->ops->transmit(r.a.port, frames, 400);
	CHECK(sent > 100 && sent < 400);
	CHECK_EQ(ended, 0);
	for (unsigned i = sent; i < 400; i++)
		xk_msg_free(frames[i]);
	CHECK_EQ(ended, 400 - sent);
	frames[0] = lent_frame(&r.a, 0, bytes, sizeof(bytes), &ended);
	xk_msg_join(frames[0], xk_msg_lend(r.a.platform, bytes, sizeof(bytes), lent_ended, &ended));
	CHECK_EQ(r.a.port->ops->transmit(r.a.port, frames, 1), 1); /* dropped: too long */
	CHECK_EQ(ended, 400 - sent + 2);
	rings_close(&r);
	CHECK_EQ(ended, 402);
}
