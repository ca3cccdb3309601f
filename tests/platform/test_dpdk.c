/*
 * test_dpdk.c - the DPDK platform against itself: buffers, clock and sleep in one process, the links between two.
 *
 * The other process is this program again, told by an environment variable what to be; it is executed before DPDK is
 * started here, and dies with its parent.
 */
#define _GNU_SOURCE
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "platform/dpdk/dpdk.h"
#include "tests/test.h"

enum {
	BUFFERS = 4096,
	HEADER = 14,
	FRAME_MAX = 1514,
	PATIENCE_NS = 2000000000, /* a frame that has not come by then is lost */
	NOBODY = 65534,
};

static const char *const role_variable = "XK_TEST_DPDK_ROLE";

struct host {
	struct xk_platform *platform;
	struct xk_port *port;
	unsigned began; /* buffers out before the port was opened */
	bool sleeps;
	char why[XK_DPDK_WHY];
};

/* ---- a host ---- */

static uint64_t
now_ns(struct host *h)
{
	return h->platform->ops->now_ns(h->platform);
}

static int
host_start(struct host *h)
{
	struct xk_dpdk_config config = { .core = -1, .buffers = BUFFERS };

	memset(h, 0, sizeof(*h));
	return xk_dpdk_start(&config, &h->platform, h->why, sizeof(h->why));
}

static bool
host_open(struct host *h, enum xk_dpdk_end end, const char *socket, unsigned wait_ms, bool sleeps)
{
	struct xk_dpdk_virtio_config config = { .name = "port", .socket = socket, .end = end, .wait_ms = wait_ms };

	h->why[0] = '\0';
	h->sleeps = sleeps;
	h->began = h->platform->ops->buffers_out(h->platform);
	h->port = xk_dpdk_virtio_open(h->platform, &config, h->why, sizeof(h->why));
	return h->port != NULL;
}

static void
host_close(struct host *h)
{
	if (h->port != NULL)
		h->port->ops->close(h->port);
	h->port = NULL;
}

/* One frame, or NULL when none has come within PATIENCE_NS. */
static struct xk_msg *
host_receive(struct host *h)
{
	uint64_t until = now_ns(h) + PATIENCE_NS;
	struct xk_msg *m;

	while (h->port->ops->receive(h->port, &m, 1) == 0) {
		if (now_ns(h) > until)
			return NULL;
		if (!h->sleeps) {
			sched_yield();
			continue;
		}
		h->port->ops->arm(h->port);
		if (h->port->ops->receive(h->port, &m, 1) == 1) {
			h->port->ops->disarm(h->port);
			return m;
		}
		h->platform->ops->sleep(h->platform, until);
		h->port->ops->disarm(h->port);
	}
	return m;
}

static bool
host_send(struct host *h, struct xk_msg *m)
{
	uint64_t until = now_ns(h) + PATIENCE_NS;

	while (h->port->ops->transmit(h->port, &m, 1) == 0) {
		if (now_ns(h) > until)
			return false;
		sched_yield();
	}
	return true;
}

/* ---- messages, without the Message tool ---- */

static void
msg_free(struct xk_msg *m)
{
	while (m != NULL) {
		struct xk_msg *next = m->next;

		m->platform->ops->buffer_free(m->platform, m);
		m = next;
	}
}

static uint8_t
byte_at(unsigned seed, size_t i)
{
	return (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

/* A segment of `len` bytes that continue at `offset` of the pattern `seed`. */
static struct xk_msg *
segment_new(struct xk_platform *platform, unsigned seed, size_t offset, size_t len)
{
	struct xk_msg *s = platform->ops->buffer_new(platform);

	if (s == NULL)
		return NULL;
	for (size_t i = 0; i < len; i++)
		s->data[i] = byte_at(seed, offset + i);
	s->len = s->total = (uint32_t)len;
	return s;
}

static void
msg_append(struct xk_msg *head, struct xk_msg *s)
{
	head->tail->next = s;
	head->tail = s;
	head->total += s->len;
}

/* len bytes of the pattern in segments of at most `piece`. */
static struct xk_msg *
msg_new(struct xk_platform *platform, unsigned seed, size_t len, size_t piece)
{
	struct xk_msg *head = segment_new(platform, seed, 0, len < piece ? len : piece);

	for (size_t at = piece; at < len; at += piece)
		msg_append(head, segment_new(platform, seed, at, len - at < piece ? len - at : piece));
	return head;
}

static bool
msg_is(const struct xk_msg *m, unsigned seed, size_t len)
{
	size_t at = 0;

	if (m == NULL || m->total != len)
		return false;
	for (; m != NULL; m = m->next)
		for (size_t i = 0; i < m->len; i++, at++)
			if (m->data[i] != byte_at(seed, at))
				return false;
	return at == len;
}

/* Sends a frame and looks whether it comes back as it was. */
static bool
ping_message(struct host *h, struct xk_msg *m, unsigned seed, size_t len)
{
	bool good;

	if (!host_send(h, m)) {
		msg_free(m);
		return false;
	}
	m = host_receive(h);
	good = msg_is(m, seed, len);
	msg_free(m);
	return good;
}

static bool
ping(struct host *h, unsigned seed, size_t len)
{
	return ping_message(h, msg_new(h->platform, seed, len, FRAME_MAX), seed, len);
}

static unsigned
ping_many(struct host *h, unsigned rounds)
{
	unsigned good = 0;

	for (unsigned i = 0; i < rounds; i++)
		good += ping(h, i, HEADER + i * 13 % (FRAME_MAX - HEADER + 1));
	return good;
}

/* ---- the other process ---- */

struct peer {
	pid_t pid;
	int output; /* it writes a letter when its port is open */
};

static struct peer
peer_start(const char *what, const char *end, const char *how, const char *socket)
{
	struct peer p = { 0 };
	char role[256];
	int ends[2];

	snprintf(role, sizeof(role), "%s %s %s %s", what, end, how, socket);
	if (pipe(ends) != 0)
		abort();
	p.output = ends[0];
	p.pid = fork();
	if (p.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], 3);
		closefrom(4);
		setenv(role_variable, role, 1);
		execl("/proc/self/exe", "test_dpdk_peer", (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	return p;
}

/* Waits until the port's other end is there: a frame sent before is dropped. */
static bool
host_is_joined(struct host *h)
{
	uint64_t until = now_ns(h) + 10 * (uint64_t)PATIENCE_NS;

	while (!xk_dpdk_port_is_up(h->port) && now_ns(h) < until)
		usleep(1000);
	return xk_dpdk_port_is_up(h->port);
}

/* Waits until its port is open. */
static bool
peer_is_ready(const struct peer *p)
{
	struct pollfd fd = { .fd = p->output, .events = POLLIN };
	char letter;

	return poll(&fd, 1, 10000) == 1 && read(p->output, &letter, 1) == 1;
}

/* Its exit status, or minus the signal that ended it. */
static int
peer_end(struct peer *p, int signal_number)
{
	int status = 0;

	if (signal_number != 0)
		kill(p->pid, signal_number);
	waitpid(p->pid, &status, 0);
	close(p->output);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void
role_term(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	*(bool *)argument = true;
}

/* Returns every frame until SIGTERM, which comes by the platform's own loop. */
static int
role_echo(struct host *h)
{
	bool end = false;
	struct event *term = evsignal_new(xk_dpdk_event_base(h->platform), SIGTERM, role_term, &end);

	event_add(term, NULL);
	if (write(3, "r", 1) != 1)
		return 3;
	while (!end) {
		struct xk_msg *frames[XK_BURST];
		unsigned count = h->port->ops->receive(h->port, frames, XK_BURST), sent = 0;

		while (sent < count)
			sent += h->port->ops->transmit(h->port, frames + sent, count - sent);
		if (count > 0)
			continue;
		if (!h->sleeps) {
			h->platform->ops->poll_control(h->platform);
			sched_yield();
			continue;
		}
		h->port->ops->arm(h->port);
		count = h->port->ops->receive(h->port, frames, XK_BURST);
		for (sent = 0; sent < count;)
			sent += h->port->ops->transmit(h->port, frames + sent, count - sent);
		if (count == 0)
			h->platform->ops->sleep(h->platform, UINT64_MAX);
		h->port->ops->disarm(h->port);
	}
	event_free(term);
	host_close(h);
	return h->platform->ops->buffers_out(h->platform) == 0 ? 0 : 4;
}

static int
role_ping(struct host *h)
{
	unsigned good = ping_many(h, 200);

	if (write(3, "r", 1) != 1)
		return 3;
	host_close(h);
	return good != 200 ? 5 : h->platform->ops->buffers_out(h->platform) == 0 ? 0 : 4;
}

/* Pings until it is killed. */
static int
role_rage(struct host *h)
{
	ping_many(h, 50);
	if (write(3, "r", 1) != 1)
		return 3;
	for (;;)
		ping_many(h, 1000);
}

static int
role_run(const char *what, const char *end, const char *how, const char *socket)
{
	struct host h;

	if (strstr(how, "nobody") != NULL && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
		return 6;
	if (strstr(how, "nobody") != NULL)
		clearenv();
	if (host_start(&h) != 0 || !host_open(&h, strcmp(end, "server") == 0 ? XK_DPDK_SERVER : XK_DPDK_CLIENT, socket,
					      8000, strstr(how, "sleep") != NULL)) {
		fprintf(stderr, "peer: %s\n", h.why);
		return 7;
	}
	if (strcmp(what, "ping") == 0)
		return role_ping(&h);
	return strcmp(what, "rage") == 0 ? role_rage(&h) : role_echo(&h);
}

/* Before main, which would run the tests. */
__attribute__((constructor)) static void
role_choose(void)
{
	const char *role = getenv(role_variable);
	char what[16], end[16], how[32], socket[128];

	if (role != NULL && sscanf(role, "%15s %15s %31s %127s", what, end, how, socket) == 4)
		exit(role_run(what, end, how, socket));
}

/* A path for this test and run alone. */
static const char *
socket_for(char *path, const char *name)
{
	sprintf(path, "/tmp/xk-test-%d-%s.sock", (int)getpid(), name);
	return path;
}

/* ---- the platform itself ---- */

TEST(starts_again_after_a_stop_and_leaves_the_threads_cores_alone)
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

TEST(refuses_impossible_configurations_in_words)
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

TEST(refuses_more_buffers_than_its_memory_holds)
{
	struct xk_dpdk_config config = { .core = -1, .buffers = 1 << 20 };
	struct xk_platform *platform;
	char why[XK_DPDK_WHY] = "";
	struct host h;

	REQUIRE(host_start(&h) == 0);
	CHECK_EQ(xk_dpdk_start(&config, &platform, why, sizeof(why)), -ENOMEM);
	CHECK(strstr(why, "memory") != NULL);
	xk_dpdk_stop(h.platform);
}

static uint64_t
monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Each reading of our clock lies between two of the system's, so nothing here depends on how fast this runs. */
TEST(clock_runs_as_the_systems_does)
{
	struct timespec pause = { 0, 200000000 };
	uint64_t early, start, late, end, end_early, end_late;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	early = monotonic_ns();
	start = now_ns(&h);
	late = monotonic_ns();
	nanosleep(&pause, NULL);
	end_early = monotonic_ns();
	end = now_ns(&h);
	end_late = monotonic_ns();
	CHECK(end - start <= (end_late - early) + (end_late - early) / 10000);
	CHECK(end - start >= (end_early - late) - (end_early - late) / 10000);
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t next = now_ns(&h);

		REQUIRE(next >= end);
		end = next;
	}
	xk_dpdk_stop(h.platform);
}

TEST(fresh_buffer_has_headroom_room_and_one_reference)
{
	struct xk_msg *m;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	m = h.platform->ops->buffer_new(h.platform);
	REQUIRE(m != NULL);
	CHECK_EQ(m->data - m->floor, XK_MSG_HEADROOM);
	CHECK(m->ceiling - m->data >= XK_MSG_SEGMENT);
	CHECK(m->tail == m && m->next == NULL && m->len == 0 && m->total == 0 && m->flags == 0);
	CHECK(xk_msg_is_writable(m));
	memset(m->floor, 0xaa, (size_t)(m->ceiling - m->floor));
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), 1);
	h.platform->ops->buffer_free(h.platform, m);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), 0);
	xk_dpdk_stop(h.platform);
}

TEST(views_share_bytes_and_outlive_their_owner)
{
	struct xk_msg *owner, *view, *second;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	owner = segment_new(h.platform, 1, 0, 100);
	owner->data += 10;
	owner->len -= 10;
	view = h.platform->ops->buffer_view(h.platform, owner);
	second = h.platform->ops->buffer_view(h.platform, view);
	REQUIRE(view != NULL && second != NULL);
	CHECK(view->data == owner->data && second->data == owner->data && view->len == 90 && second->len == 90);
	CHECK(view->floor == owner->floor && view->ceiling == owner->ceiling);
	CHECK_EQ(*owner->references, 3);
	CHECK(!xk_msg_is_writable(owner) && !xk_msg_is_writable(view));
	h.platform->ops->buffer_free(h.platform, owner);
	CHECK_EQ(*view->references, 2);
	h.platform->ops->buffer_free(h.platform, second);
	CHECK(xk_msg_is_writable(view));
	CHECK_EQ(view->data[5], byte_at(1, 15));
	h.platform->ops->buffer_free(h.platform, view);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), 0);
	xk_dpdk_stop(h.platform);
}

TEST(an_empty_pool_gives_null_and_fills_again)
{
	static struct xk_msg *all[BUFFERS];
	unsigned count = 0;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	while (count < BUFFERS && (all[count] = h.platform->ops->buffer_new(h.platform)) != NULL)
		count++;
	CHECK_EQ(count, BUFFERS);
	CHECK(h.platform->ops->buffer_new(h.platform) == NULL);
	CHECK(h.platform->ops->buffer_view(h.platform, all[0]) == NULL);
	CHECK_EQ(*all[0]->references, 1);
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

TEST(threads_share_the_pool)
{
	pthread_t threads[4];
	struct host h;

	REQUIRE(host_start(&h) == 0);
	for (unsigned i = 0; i < 4; i++)
		REQUIRE(pthread_create(&threads[i], NULL, use_buffers, h.platform) == 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), 0);
	xk_dpdk_stop(h.platform);
}

/* ---- sleep ---- */

TEST(a_sleep_ends_at_its_deadline_however_deadlines_move)
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

/* Wakes once for each time it is asked. */
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

TEST(no_wake_is_lost)
{
	struct waker w = { 0 };
	pthread_t thread;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	w.platform = h.platform;
	REQUIRE(pthread_create(&thread, NULL, wake_often, &w) == 0);
	for (unsigned i = 1; i <= 2000; i++) {
		atomic_store_explicit(&w.asked, i, memory_order_release);
		while (atomic_load_explicit(&w.woken, memory_order_acquire) < i)
			h.platform->ops->sleep(h.platform, UINT64_MAX); /* a lost wake hangs here */
	}
	pthread_join(thread, NULL);
	xk_dpdk_stop(h.platform);
}

TEST(programs_events_are_served_asleep_and_polling)
{
	bool called = false;
	struct event *event;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	event = evsignal_new(xk_dpdk_event_base(h.platform), SIGUSR1, role_term, &called);
	REQUIRE(event != NULL && event_add(event, NULL) == 0);
	raise(SIGUSR1);
	while (!called)
		h.platform->ops->sleep(h.platform, UINT64_MAX);
	called = false;
	raise(SIGUSR1);
	for (unsigned i = 0; i < 1000 && !called; i++)
		h.platform->ops->poll_control(h.platform);
	CHECK(called);
	event_free(event);
	xk_dpdk_stop(h.platform);
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

/* Closes everything; both pools must be as they were. */
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

TEST(ring_joins_two_hosts_and_cannot_sleep)
{
	struct rings r;
	struct xk_msg *m;

	REQUIRE(rings_open(&r));
	CHECK(!r.a.port->can_sleep);
	CHECK_EQ(r.a.port->ops->arm(r.a.port), -ENOTSUP);
	CHECK_STR(r.a.port->name, "left");
	CHECK(r.a.port->address != r.b.port->address);
	CHECK_EQ(r.a.port->address >> 40 & 3, 2);
	CHECK_EQ(r.a.port->offloads, 0);
	CHECK(xk_dpdk_port_is_up(r.a.port));
	for (unsigned i = 0; i < 1000; i++) {
		REQUIRE(host_send(&r.a, msg_new(r.a.platform, i, 60 + i, 400)));
		m = host_receive(&r.b);
		REQUIRE(msg_is(m, i, 60 + i));
		CHECK(m->platform == r.b.platform);
		REQUIRE(host_send(&r.b, m));
		m = host_receive(&r.a);
		CHECK(msg_is(m, i, 60 + i));
		msg_free(m);
	}
	rings_close(&r);
}

TEST(a_full_ring_takes_some_and_leaves_the_rest)
{
	struct xk_msg *frames[300], *m;
	unsigned sent;
	struct rings r;

	REQUIRE(rings_open(&r));
	for (unsigned i = 0; i < 300; i++)
		frames[i] = msg_new(r.a.platform, i, 200, i % 3 == 0 ? 30 : 200);
	frames[299]->len -= 1;
	frames[299]->total -= 1;
	sent = r.a.port->ops->transmit(r.a.port, frames, 300);
	CHECK(sent > 100 && sent < 300);
	for (unsigned i = 0; i < sent; i++) {
		m = host_receive(&r.b);
		REQUIRE(msg_is(m, i, 200));
		msg_free(m);
	}
	for (unsigned i = sent; i < 299; i++) {
		CHECK(msg_is(frames[i], i, 200));
		REQUIRE(host_send(&r.a, frames[i]));
		m = host_receive(&r.b);
		REQUIRE(msg_is(m, i, 200));
		msg_free(m);
	}
	msg_free(frames[299]);
	rings_close(&r);
}

TEST(frames_left_in_a_ring_are_freed_with_it)
{
	struct rings r;

	REQUIRE(rings_open(&r));
	for (unsigned i = 0; i < 20; i++)
		REQUIRE(host_send(&r.a, msg_new(r.a.platform, i, 500, 100)));
	rings_close(&r);
}

TEST(empty_segments_and_long_chains_arrive_whole)
{
	struct rings r;
	struct xk_msg *m;

	REQUIRE(rings_open(&r));
	m = segment_new(r.a.platform, 5, 0, 0);
	msg_append(m, segment_new(r.a.platform, 5, 0, 40));
	msg_append(m, segment_new(r.a.platform, 5, 40, 0));
	msg_append(m, segment_new(r.a.platform, 5, 40, 60));
	REQUIRE(host_send(&r.a, m));
	m = host_receive(&r.b);
	CHECK(msg_is(m, 5, 100));
	msg_free(m);
	REQUIRE(host_send(&r.a, msg_new(r.a.platform, 6, 1000, 10)));
	m = host_receive(&r.b);
	CHECK(msg_is(m, 6, 1000));
	msg_free(m);
	rings_close(&r);
}

TEST(frames_too_long_or_empty_are_dropped_by_name_and_hold_nobody_up)
{
	struct xk_dpdk_port_counts counts;
	struct xk_msg *frames[4], *m;
	struct rings r;

	REQUIRE(rings_open(&r));
	frames[0] = msg_new(r.a.platform, 0, 100, 100);
	frames[1] = msg_new(r.a.platform, 1, 1519, 1519);
	frames[2] = segment_new(r.a.platform, 2, 0, 0);
	frames[3] = msg_new(r.a.platform, 3, 1518, 1518);
	CHECK_EQ(r.a.port->ops->transmit(r.a.port, frames, 4), 4);
	m = host_receive(&r.b);
	CHECK(msg_is(m, 0, 100));
	msg_free(m);
	m = host_receive(&r.b);
	CHECK(msg_is(m, 3, 1518));
	msg_free(m);
	xk_dpdk_port_counts(r.a.port, &counts);
	CHECK_EQ(counts.too_long, 2);
	rings_close(&r);
}

TEST(views_and_their_owners_may_be_sent_one_after_the_other)
{
	struct xk_msg *owner, *view, *m;
	struct rings r;

	REQUIRE(rings_open(&r));
	owner = msg_new(r.a.platform, 9, 300, 300);
	view = r.a.platform->ops->buffer_view(r.a.platform, owner);
	view->total = view->len;
	REQUIRE(host_send(&r.a, owner));
	m = host_receive(&r.b);
	CHECK(msg_is(m, 9, 300));
	CHECK(!xk_msg_is_writable(m));
	msg_free(m);
	CHECK(xk_msg_is_writable(view));
	REQUIRE(host_send(&r.a, view));
	m = host_receive(&r.b);
	CHECK(msg_is(m, 9, 300));
	CHECK(xk_msg_is_writable(m));
	CHECK_EQ(*m->references, 1);
	msg_free(m);
	rings_close(&r);
}

/* ---- virtio ---- */

/* This process is one end, a child that echoes the other. */
static void
check_virtio(enum xk_dpdk_end end, bool sleeps, const char *how)
{
	const char *other = end == XK_DPDK_SERVER ? "client" : "server";
	char path[128];
	struct host h;
	struct peer p;

	p = peer_start("echo", other, how, socket_for(path, "pair"));
	REQUIRE(host_start(&h) == 0);
	CHECK(host_open(&h, end, path, 8000, sleeps));
	if (h.port == NULL) {
		fprintf(stderr, "%s\n", h.why);
	} else {
		CHECK(h.port->can_sleep);
		CHECK(peer_is_ready(&p));
		CHECK(host_is_joined(&h));
		CHECK_EQ(ping_many(&h, 2000), 2000);
	}
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	host_close(&h);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), h.began);
	CHECK(access(path, F_OK) != 0);
	xk_dpdk_stop(h.platform);
}

TEST(virtio_client_polls_and_server_polls)
{
	check_virtio(XK_DPDK_CLIENT, false, "poll");
}

TEST(virtio_client_sleeps_and_server_sleeps)
{
	check_virtio(XK_DPDK_CLIENT, true, "sleep");
}

TEST(virtio_client_polls_and_server_sleeps)
{
	check_virtio(XK_DPDK_CLIENT, false, "sleep");
}

TEST(virtio_server_sleeps_and_client_polls)
{
	check_virtio(XK_DPDK_SERVER, true, "poll");
}

TEST(virtio_server_polls_and_client_sleeps)
{
	check_virtio(XK_DPDK_SERVER, false, "sleep");
}

TEST(virtio_works_for_a_user_without_rights_or_environment)
{
	if (geteuid() == 0)
		check_virtio(XK_DPDK_CLIENT, true, "sleep,nobody");
}

/* Chains and views, in both directions: by the virtio end here, by the vhost end in the echo. */
TEST(virtio_carries_chains_and_views)
{
	struct xk_msg *owner, *m;
	char path[128];
	struct host h;
	struct peer p = peer_start("echo", "server", "sleep", socket_for(path, "chains"));

	REQUIRE(host_start(&h) == 0);
	REQUIRE(host_open(&h, XK_DPDK_CLIENT, path, 8000, true));
	for (unsigned piece = 3; piece < 1600; piece += 97)
		CHECK(ping_message(&h, msg_new(h.platform, piece, 1500, piece), piece, 1500));
	owner = msg_new(h.platform, 4, 2000, 2000);
	for (unsigned i = 0; i < 500; i++) {
		m = segment_new(h.platform, 4, 0, 20);
		msg_append(m, h.platform->ops->buffer_view(h.platform, owner));
		m->tail->data += 20;
		m->tail->len = 700 + i;
		m->total = 720 + i;
		REQUIRE(ping_message(&h, m, 4, 720 + i));
	}
	CHECK(msg_is(owner, 4, 2000));
	msg_free(owner);
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	host_close(&h);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), h.began);
	xk_dpdk_stop(h.platform);
}

TEST(virtio_bursts_arrive_in_order)
{
	struct xk_msg *frames[100], *m;
	unsigned sent = 0;
	char path[128];
	struct host h;
	struct peer p = peer_start("echo", "server", "poll", socket_for(path, "bursts"));

	REQUIRE(host_start(&h) == 0);
	REQUIRE(host_open(&h, XK_DPDK_CLIENT, path, 8000, false));
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 100; i++)
			frames[i] = msg_new(h.platform, i, 60 + i, 80);
		for (sent = 0; sent < 100;)
			sent += h.port->ops->transmit(h.port, frames + sent, 100 - sent);
		for (unsigned i = 0; i < 100; i++) {
			m = host_receive(&h);
			REQUIRE(msg_is(m, i, 60 + i));
			msg_free(m);
		}
	}
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	host_close(&h);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), h.began);
	xk_dpdk_stop(h.platform);
}

/* Echoes in this process until p has ended. */
static void
serve_until_end(struct host *h, struct peer *p, int *status)
{
	uint64_t until = now_ns(h) + 10 * (uint64_t)PATIENCE_NS;
	struct xk_msg *frames[XK_BURST];
	unsigned count, sent;

	*status = -1000;
	while (waitpid(p->pid, status, WNOHANG) == 0 && now_ns(h) < until) {
		count = h->port->ops->receive(h->port, frames, XK_BURST);
		for (sent = 0; sent < count;)
			sent += h->port->ops->transmit(h->port, frames + sent, count - sent);
		h->port->ops->arm(h->port);
		if (count == 0)
			h->platform->ops->sleep(h->platform, now_ns(h) + 1000000);
		h->port->ops->disarm(h->port);
	}
	close(p->output);
}

/* Something that is no virtio device says something that is no vhost message. */
static void
talk_nonsense(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char nonsense[600];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, path);
	memset(nonsense, 0x5a, sizeof(nonsense));
	CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK(send(fd, nonsense, sizeof(nonsense), MSG_NOSIGNAL) > 0);
	close(fd);
}

TEST(virtio_server_outlives_clients_that_leave_are_killed_or_talk_nonsense)
{
	char path[128];
	int status;
	struct host h;
	struct peer p;

	REQUIRE(host_start(&h) == 0);
	REQUIRE(host_open(&h, XK_DPDK_SERVER, socket_for(path, "outlives"), 0, true));
	CHECK(!xk_dpdk_port_is_up(h.port));
	for (unsigned i = 0; i < 4; i++) {
		talk_nonsense(path);
		p = peer_start(i % 2 ? "ping" : "rage", "client", i < 2 ? "sleep" : "poll", path);
		if (i % 2 == 0) {
			struct xk_msg *frames[XK_BURST];
			struct pollfd fd = { .fd = p.output, .events = POLLIN };

			while (poll(&fd, 1, 0) == 0) {
				unsigned count = h.port->ops->receive(h.port, frames, XK_BURST);

				for (unsigned sent = 0; sent < count;)
					sent += h.port->ops->transmit(h.port, frames + sent, count - sent);
				sched_yield();
			}
			CHECK(xk_dpdk_port_is_up(h.port));
			kill(p.pid, SIGKILL);
		}
		serve_until_end(&h, &p, &status);
		CHECK(i % 2 ? WIFEXITED(status) && WEXITSTATUS(status) == 0 : WIFSIGNALED(status));
	}
	for (unsigned i = 0; i < 1000 && xk_dpdk_port_is_up(h.port); i++)
		usleep(10000);
	CHECK(!xk_dpdk_port_is_up(h.port));
	host_close(&h);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), h.began);
	xk_dpdk_stop(h.platform);
}

TEST(virtio_client_survives_its_killed_server_and_finds_the_next)
{
	struct xk_dpdk_port_counts counts;
	char path[128];
	struct host h;
	struct peer p = peer_start("echo", "server", "sleep", socket_for(path, "killed"));

	REQUIRE(host_start(&h) == 0);
	REQUIRE(host_open(&h, XK_DPDK_CLIENT, path, 8000, true));
	CHECK_EQ(ping_many(&h, 100), 100);
	CHECK_EQ(peer_end(&p, SIGKILL), -SIGKILL);
	for (unsigned i = 0; i < 1000 && xk_dpdk_port_is_up(h.port); i++)
		h.platform->ops->sleep(h.platform, now_ns(&h) + 10000000);
	CHECK(!xk_dpdk_port_is_up(h.port));
	for (unsigned i = 0; i < 1000; i++)
		CHECK(host_send(&h, msg_new(h.platform, i, 100, 100)));
	xk_dpdk_port_counts(h.port, &counts);
	CHECK_EQ(counts.no_peer, 1000);
	host_close(&h);
	CHECK_EQ(h.platform->ops->buffers_out(h.platform), h.began);
	CHECK(access(path, F_OK) == 0); /* left by the killed server */
	p = peer_start("echo", "server", "sleep", path);
	REQUIRE(host_open(&h, XK_DPDK_CLIENT, path, 8000, true));
	CHECK_EQ(ping_many(&h, 100), 100);
	host_close(&h);
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	xk_dpdk_stop(h.platform);
}

TEST(virtio_client_without_server_gives_up_and_says_so)
{
	char path[128];
	struct host h;

	REQUIRE(host_start(&h) == 0);
	CHECK(!host_open(&h, XK_DPDK_CLIENT, socket_for(path, "none"), 50, true));
	CHECK(strstr(h.why, path) != NULL && strstr(h.why, "no server") != NULL);
	xk_dpdk_stop(h.platform);
}

static void
break_loop(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(argument);
}

TEST(virtio_client_waiting_for_its_server_can_be_interrupted)
{
	char path[128];
	struct event *event;
	struct host h;

	REQUIRE(host_start(&h) == 0);
	event = evsignal_new(xk_dpdk_event_base(h.platform), SIGUSR1, break_loop, xk_dpdk_event_base(h.platform));
	event_add(event, NULL);
	raise(SIGUSR1);
	CHECK(!host_open(&h, XK_DPDK_CLIENT, socket_for(path, "interrupted"), 3600000, true));
	CHECK(strstr(h.why, "interrupted") != NULL);
	event_free(event);
	xk_dpdk_stop(h.platform);
}

TEST(virtio_refuses_a_second_server_and_a_second_client)
{
	char path[128];
	struct host h, second;
	struct peer p;

	REQUIRE(host_start(&h) == 0 && host_start(&second) == 0);
	p = peer_start("echo", "server", "sleep", socket_for(path, "second"));
	REQUIRE(host_open(&h, XK_DPDK_CLIENT, path, 8000, true));
	CHECK(!host_open(&second, XK_DPDK_SERVER, path, 0, true));
	CHECK(strstr(second.why, "another server") != NULL);
	CHECK(!host_open(&second, XK_DPDK_CLIENT, path, 50, true));
	CHECK(strstr(second.why, "another client") != NULL);
	CHECK_EQ(ping_many(&h, 100), 100);
	host_close(&h);
	CHECK_EQ(peer_end(&p, SIGTERM), 0);
	xk_dpdk_stop(h.platform);
	xk_dpdk_stop(second.platform);
}

TEST(virtio_refuses_what_is_no_socket_and_leaves_it_there)
{
	char path[128];
	struct host h;
	int fd = open(socket_for(path, "file"), O_CREAT | O_WRONLY, 0600);

	REQUIRE(fd >= 0 && write(fd, "precious", 8) == 8);
	close(fd);
	REQUIRE(host_start(&h) == 0);
	CHECK(!host_open(&h, XK_DPDK_SERVER, path, 0, true));
	CHECK(strstr(h.why, path) != NULL);
	CHECK_EQ(access(path, F_OK), 0);
	CHECK(!host_open(&h, XK_DPDK_SERVER, "/nonexistent/directory/x.sock", 0, true));
	CHECK(strstr(h.why, "/nonexistent/directory") != NULL);
	unlink(path);
	xk_dpdk_stop(h.platform);
}

TEST(socket_names_are_words_or_paths)
{
	char path[108], why[XK_DPDK_WHY], *old = getenv("XDG_RUNTIME_DIR"), *saved = old != NULL ? strdup(old) : NULL;
	char expected[64], longest[300];

	CHECK_EQ(xk_dpdk_socket_path("./here.sock", path, sizeof(path), why, sizeof(why)), 0);
	CHECK_STR(path, "./here.sock");
	setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
	CHECK_EQ(xk_dpdk_socket_path("word", path, sizeof(path), why, sizeof(why)), 0);
	snprintf(expected, sizeof(expected), "/tmp/xk-%u/xk-word.sock", (unsigned)geteuid());
	CHECK_STR(path, expected);
	unsetenv("XDG_RUNTIME_DIR");
	CHECK_EQ(xk_dpdk_socket_path("word", path, sizeof(path), why, sizeof(why)), 0);
	CHECK_STR(path, expected);
	CHECK_EQ(xk_dpdk_socket_path("", path, sizeof(path), why, sizeof(why)), -EINVAL);
	CHECK_EQ(xk_dpdk_socket_path("a,client=1", path, sizeof(path), why, sizeof(why)), -EINVAL);
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	CHECK_EQ(xk_dpdk_socket_path(longest, path, sizeof(path), why, sizeof(why)), -ENAMETOOLONG);
	if (saved != NULL)
		setenv("XDG_RUNTIME_DIR", saved, 1);
	free(saved);
}
