/* test_vdelay.c - what vdelay delays, on a virtual clock; then, with threads, that every message ends somewhere. */
#include <stdlib.h>
#include <time.h>

#include "platform/sim/memory.h"
#include "tests/rig.h"
#include "xkernel/upi.h"

static const struct xk_participants nobody = { .remote.depth = 0 };

TEST(vdelay_delays_each_direction_by_its_time)
{
	struct rig *r = rig_new("vdelay up=3ms down=5ms");
	struct xk_session *s = rig_open(r, rig_to(5));

	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_inject(r, "02");
	rig_advance_ms(r, 2);
	rig_expect_nothing_delivered(r);
	rig_advance_ms(r, 1);
	rig_expect_delivered(r, "02");
	CHECK(rig_delivered_on(r) == s);
	rig_advance_ms(r, 1);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 1);
	rig_expect_sent(r, "01");
	CHECK_EQ(rig_counter(r, "delayed"), 2);
	rig_free(r);
}

TEST(vdelay_leaves_a_direction_without_delay_alone)
{
	struct rig *r = rig_new("vdelay down=5ms jitter=1ms");

	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	rig_inject(r, "02");
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_counter(r, "delayed"), 0);
	rig_free(r);
}

/* Events are due at whole microseconds. */
TEST(vdelay_rounds_up)
{
	struct rig *r = rig_new("vdelay down=1ns");
	struct xk_session *s = rig_open(r, rig_to(5));

	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 1);
	rig_expect_sent(r, "01");
	rig_free(r);
}

/* Pushes 0 ... count - 1, as bytes, one a millisecond. */
static void
push_count(struct rig *r, struct xk_session *s, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint8_t byte = (uint8_t)i;

		CHECK_EQ(rig_push_bytes(r, s, &byte, 1), 0);
		rig_advance_ms(r, 1);
	}
}

/* Takes count bytes that were sent; how many of them come after a later one. Each must come once. */
static unsigned
take_overtaken(struct rig *r, unsigned count)
{
	bool seen[256] = { false };
	unsigned overtaken = 0;
	uint8_t byte, highest = 0;

	for (unsigned i = 0; i < count; i++) {
		REQUIRE(rig_take_sent(r, &byte, 1) == 1);
		CHECK(!seen[byte]);
		seen[byte] = true;
		overtaken += byte < highest;
		highest = byte > highest ? byte : highest;
	}
	return overtaken;
}

TEST(vdelay_keeps_the_order_whatever_the_jitter)
{
	struct rig *r = rig_new("vdelay down=10ms jitter=20ms seed=1");
	struct xk_session *s = rig_open(r, rig_to(5));

	push_count(r, s, 9);
	rig_expect_nothing_sent(r);
	push_count(r, s, 31);
	rig_advance_ms(r, 1000);
	rig_forget(r);
	push_count(r, s, 100);
	CHECK(rig_sent(r) >= 70);
	rig_advance_ms(r, 30);
	CHECK_EQ(take_overtaken(r, 100), 0);
	rig_free(r);
}

TEST(vdelay_lets_messages_overtake_if_asked_to)
{
	struct rig *r = rig_new("vdelay down=10ms jitter=20ms seed=1 reorder=yes");
	struct xk_session *s = rig_open(r, rig_to(5));

	push_count(r, s, 100);
	rig_advance_ms(r, 30);
	CHECK(take_overtaken(r, 100) > 20);
	rig_free(r);
}

/* When count messages are sent that were pushed at once, in microseconds, in order. */
static void
departures(const char *type, uint64_t *at_us, unsigned count)
{
	struct rig *r = rig_new(type);
	struct xk_session *s = rig_open(r, rig_to(5));
	uint64_t begin_ns = xk_now_ns(rig_protocol(r, "vdelay"));
	unsigned sent = 0;

	for (unsigned i = 0; i < count; i++)
		CHECK_EQ(rig_push(r, s, "01"), 0);
	for (unsigned ms = 0; ms < 10; ms++) {
		rig_advance_ms(r, 1);
		while (sent < rig_sent(r))
			at_us[sent++] = (xk_now_ns(rig_protocol(r, "vdelay")) - begin_ns) / 1000;
	}
	CHECK_EQ(sent, count);
	rig_forget(r);
	rig_free(r);
}

TEST(vdelay_repeats_the_jitter_of_a_seed)
{
	uint64_t first[20], second[20], other[20];

	departures("vdelay down=1ms jitter=8ms reorder=yes seed=5", first, 20);
	departures("vdelay down=1ms jitter=8ms reorder=yes seed=5", second, 20);
	departures("vdelay down=1ms jitter=8ms reorder=yes seed=6", other, 20);
	CHECK(memcmp(first, second, sizeof(first)) == 0);
	CHECK(memcmp(first, other, sizeof(first)) != 0);
}

/* ---- bounds and ends ---- */

TEST(vdelay_drops_what_finds_no_room)
{
	struct rig *r = rig_new("vdelay up=5ms down=5ms held=2");
	struct xk_session *s = rig_open(r, rig_to(5));

	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_inject(r, "02");
	CHECK_EQ(rig_push(r, s, "03"), -ENOBUFS);
	rig_inject(r, "04");
	CHECK_EQ(rig_counter(r, "full"), 2);
	CHECK_EQ(rig_counter(r, "delayed"), 2);
	rig_advance_ms(r, 5);
	rig_expect_sent(r, "01");
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_push(r, s, "05"), 0);
	rig_advance_ms(r, 5);
	rig_expect_sent(r, "05");
	rig_free(r);
}

TEST(vdelay_counts_pushes_that_fail_later)
{
	struct rig *r = rig_new("vdelay down=5ms");
	struct xk_session *s = rig_open(r, rig_to(5));

	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_fail_sending(r, -ENOBUFS);
	rig_advance_ms(r, 5);
	CHECK_EQ(rig_counter(r, "unsent"), 1);
	CHECK_EQ(rig_counter_of(r, "wire", "no_buffer"), 1);
	rig_free(r);
}

TEST(vdelay_sessions_go_with_their_last_message)
{
	struct rig *r = rig_new("vdelay up=5ms down=5ms");
	struct xk_session *s = rig_open(r, rig_to(5));

	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_inject(r, "02");
	rig_close(r, s);
	CHECK_EQ(rig_wire_sessions(r), 1);
	rig_advance_ms(r, 5);
	rig_expect_sent(r, "01");
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_wire_sessions(r), 0);
	rig_free(r);
}

/* What a message has opened does not go because that message had to wait. */
TEST(vdelay_keeps_passive_sessions)
{
	struct rig *r = rig_new("vdelay up=5ms");

	CHECK_EQ(rig_open_enable(r, nobody), 0);
	rig_inject(r, "01");
	CHECK_EQ(rig_open_dones(r), 1);
	rig_advance_ms(r, 5);
	rig_expect_delivered(r, "01");
	CHECK_EQ(rig_protocol(r, "vdelay")->cache_count, 1);
	rig_inject(r, "02");
	CHECK_EQ(rig_open_disable(r, nobody), 0);
	CHECK_EQ(rig_protocol(r, "vdelay")->cache_count, 0);
	CHECK_EQ(rig_wire_sessions(r), 1);
	rig_advance_ms(r, 5);
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_wire_sessions(r), 0);
	rig_free(r);
}

struct late_push {
	struct rig *r;
	struct xk_session *s;
	int status;
};

/* As a shepherd does that is on its way down while another closes the session. */
static void
close_and_push(void *argument)
{
	struct late_push *push = argument;
	struct xk_msg *m = xk_msg_from(rig_platform(push->r), "x", 1);

	xk_close(push->s);
	push->status = xk_push(push->s, m);
}

TEST(vdelay_carries_what_was_under_way_when_its_session_was_closed)
{
	struct rig *r = rig_new("vdelay down=5ms");
	struct late_push push = { r, rig_open(r, rig_to(5)), -1 };

	REQUIRE(push.s != NULL && xk_duplicate(push.s));
	rig_close(r, push.s);
	CHECK(rig_do(r, close_and_push, &push));
	CHECK_EQ(push.status, 0);
	rig_advance_ms(r, 5);
	rig_expect_sent(r, "78");
	rig_free(r);
}

TEST(vdelay_obeys_order_of_sessions)
{
	struct rig *r = rig_new_graph("wire:; vdelay: wire; vdelay.up=5ms; user: vdelay");

	rig_protocol(r, "vdelay")->order_session = true;
	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	rig_inject(r, "01");
	rig_inject(r, "02");
	rig_advance_ms(r, 5);
	rig_expect_delivered(r, "01");
	rig_expect_delivered(r, "02");
	rig_free(r);
}

/* ---- a kernel with threads: echo -> vdelay -> vdrop -> eth -> port ---- */

enum { THREADS_PEERS = 8, THREADS_FRAMES = 4000, THREADS_AHEAD = 500, THREADS_NAPS = 60000 };

struct echo {
	struct xk_protocol protocol;
	_Atomic unsigned delivered;
};

static void
echo_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	atomic_fetch_add(&xk_container_of(self, struct echo, protocol)->delivered, 1);
	xk_push(lls, m);
}

static const struct xk_protocol_ops echo_ops = { .demux = echo_demux };

static const struct xk_protocol_type echo_type = {
	.name = "ip",
	.help = "Sends back what it is sent.",
	.ops = &echo_ops,
	.size = sizeof(struct echo),
	.offers = XK_ASYNC,
};

struct threads {
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct xk_port *port;
	struct xk_protocol *eth, *vdrop, *vdelay;
	struct echo *echo;
	unsigned taken;
};

static struct xk_protocol *
threads_add(struct threads *t, const struct xk_protocol_type *type, struct xk_protocol *lower)
{
	struct xk_protocol *p = xk_kernel_add_protocol(t->kernel, type, type->name);

	REQUIRE(p != NULL);
	p->session_max = 3; /* sessions come and go */
	if (lower != NULL)
		REQUIRE(xk_kernel_add_edge(t->kernel, p, lower, "") != NULL);
	return p;
}

static void
threads_set(struct xk_protocol *p, const char *name, const char *value)
{
	const struct xk_setting *setting = p->type->settings;
	char why[64];

	while (strcmp(setting->name, name) != 0)
		setting++;
	REQUIRE(xk_setting_parse(setting, value, p, why, sizeof(why)) == 0);
}

static void
threads_begin(struct threads *t, enum xk_mode mode, const char *delay)
{
	struct xk_kernel_config config = {
		.name = "threads", .mode = mode, .threads = 3, .core = -1, .driver = XK_DRIVER_INTERRUPT
	};
	struct xk_participants anybody = nobody;
	struct xk_protocol *failed, *port;

	memset(t, 0, sizeof(*t));
	t->platform = config.platform = xk_memory_platform_new(XK_MEMORY_REAL);
	t->kernel = xk_kernel_new(&config);
	t->port = xk_memory_port_new(t->platform, "port", 0x020000000001, 1500);
	REQUIRE(t->kernel != NULL && t->port != NULL);
	xk_kernel_add_port(t->kernel, t->port);
	port = threads_add(t, xk_protocol_type_find("port"), NULL);
	t->eth = threads_add(t, xk_protocol_type_find("eth"), port);
	t->vdrop = threads_add(t, xk_protocol_type_find("vdrop"), t->eth);
	t->vdelay = threads_add(t, xk_protocol_type_find("vdelay"), t->vdrop);
	t->echo = xk_container_of(threads_add(t, &echo_type, t->vdelay), struct echo, protocol);
	threads_set(t->vdrop, "loss", "5%");
	threads_set(t->vdrop, "duplicate", "10%");
	threads_set(t->vdrop, "reorder", "20%");
	threads_set(t->vdrop, "corrupt", "10%");
	threads_set(t->vdrop, "reorder_time", "200us");
	threads_set(t->vdelay, "up", delay);
	threads_set(t->vdelay, "down", delay);
	threads_set(t->vdelay, "jitter", "100us");
	REQUIRE(xk_kernel_init(t->kernel, &failed) == 0);
	CHECK_EQ(xk_open_enable(&t->echo->protocol, &t->echo->protocol, t->vdelay, &anybody), 0);
	REQUIRE(xk_kernel_start(t->kernel) == 0);
}

static void
threads_end(struct threads *t)
{
	xk_kernel_free(t->kernel);
	CHECK_EQ(t->platform->ops->buffers_out(t->platform), 0);
	xk_memory_platform_free(t->platform);
}

static void
threads_take(struct threads *t)
{
	struct xk_msg *m;

	for (; (m = xk_memory_take(t->port)) != NULL; t->taken++)
		xk_msg_free(m);
}

static void
threads_inject(struct threads *t, unsigned i)
{
	uint8_t peer = (uint8_t)(0x10 + i * 7 % THREADS_PEERS);
	uint8_t frame[60] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, peer, 8, 0, 'm' };

	CHECK(xk_memory_inject(t->port, xk_msg_from(t->platform, frame, sizeof(frame))));
}

static unsigned
threads_drops(const struct xk_protocol *p)
{
	unsigned drops = 0;

	for (unsigned i = 1; i < xk_drop_count(p->type); i++)
		drops += (unsigned)atomic_load(&p->drops[i]);
	return drops;
}

/*
 * Where everything that came, and every copy, has ended: on its way up, or down. vdrop's copies may be of what came up
 * or what goes down, so both are one sum.
 */
static bool
threads_has_ended(struct threads *t)
{
	unsigned in = (unsigned)atomic_load(&t->port->frames_in), echoed = atomic_load(&t->echo->delivered);
	unsigned copies = (unsigned)atomic_load(&t->vdrop->counters[0]);
	unsigned ended = threads_drops(t->eth) + threads_drops(t->vdrop) + threads_drops(t->vdelay);

	return in == THREADS_FRAMES && echoed > 0 && in + copies == t->taken + ended;
}

static void
threads_run(enum xk_mode mode)
{
	static const struct timespec nap = { 0, 1000000 };
	struct threads t;
	unsigned naps = 0; /* a bound for what hangs, not for what is slow */

	threads_begin(&t, mode, "100us");
	for (unsigned i = 0; i < THREADS_FRAMES; i++) {
		threads_inject(&t, i);
		threads_take(&t);
		while (i >= THREADS_AHEAD + atomic_load(&t.port->frames_in) && naps++ < THREADS_NAPS)
			nanosleep(&nap, NULL);
	}
	while (!threads_has_ended(&t) && naps++ < THREADS_NAPS) {
		nanosleep(&nap, NULL);
		threads_take(&t);
	}
	CHECK(threads_has_ended(&t));
	xk_kernel_stop(t.kernel);
	CHECK(threads_has_ended(&t));
	CHECK(atomic_load(&t.vdrop->counters[1]) > 0 && atomic_load(&t.vdelay->counters[0]) > 0);
	threads_end(&t);
}

TEST(every_message_ends_under_threads_in_regular_mode)
{
	threads_run(XK_REGULAR);
}

TEST(every_message_ends_under_threads_in_ipp_mode)
{
	threads_run(XK_IPP);
}

/* A host that stops with messages on their way gives them and their sessions back. */
TEST(vdelay_gives_back_what_still_waits_at_the_end)
{
	static const struct timespec nap = { 0, 1000000 };
	struct threads t;

	threads_begin(&t, XK_IPP, "60s");
	for (unsigned i = 0; i < 100; i++)
		threads_inject(&t, i);
	for (unsigned naps = 0; atomic_load(&t.vdelay->counters[0]) < 50 && naps < THREADS_NAPS; naps++)
		nanosleep(&nap, NULL);
	CHECK(atomic_load(&t.vdelay->counters[0]) >= 50);
	CHECK_EQ(atomic_load(&t.echo->delivered), 0);
	threads_end(&t);
}
