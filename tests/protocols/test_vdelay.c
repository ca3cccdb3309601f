/*
 * test_vdelay.c - messages delayed by vdelay, on a virtual clock; then, with threads, that each message ends somewhere.
 */
#include "tests/participants.h"
#include "tests/platform/lent.h"
#include "tests/protocols/bare.h"
#include "tests/protocols/threads.h"
#include "tests/rig.h"

RIG_SESSION_TEST(vdelay_delays_each_direction_by_its_time, rig_new("vdelay up=3ms down=5ms"), rig_open(r, rig_to(5)))
{
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_inject(r, "02");
	rig_advance_ms(r, 2);
	rig_expect_nothing_delivered(r);
	rig_advance_ms(r, 1);
	rig_expect_delivered(r, "02");
	CHECK(rig_delivered_session(r) == s);
	rig_expect_silence_ms(r, 1);
	rig_advance_ms(r, 1);
	rig_expect_sent(r, "01");
	CHECK_EQ(rig_counter(r, "delayed"), 2);
}

RIG_TEST(vdelay_leaves_a_direction_without_delay_alone, rig_new("vdelay down=5ms jitter=1ms"))
{
	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	rig_expect_up(r, "02", "02");
	CHECK_EQ(rig_counter(r, "delayed"), 0);
}

/* Events are due at whole microseconds. */
RIG_SESSION_TEST(vdelay_rounds_up, rig_new("vdelay down=1ns"), rig_open(r, rig_to(5)))
{
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 1);
	rig_expect_sent(r, "01");
}

/* Pushes 0 ... count - 1 as bytes, one per millisecond. */
static void
push_count(struct rig *r, struct xk_session *s, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint8_t byte = (uint8_t)i;

		CHECK_EQ(rig_push_bytes(r, s, &byte, 1), 0);
		rig_advance_ms(r, 1);
	}
}

/* Takes count bytes sent, each of which must come once. Returns the number sent after a later one. */
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

RIG_SESSION_TEST(vdelay_keeps_the_order_despite_jitter, rig_new("vdelay down=10ms jitter=20ms seed=1"),
		 rig_open(r, rig_to(5)))
{
	push_count(r, s, 9);
	rig_expect_nothing_sent(r);
	push_count(r, s, 31);
	rig_advance_ms(r, 1000);
	rig_forget(r);
	push_count(r, s, 100);
	CHECK(rig_sent(r) >= 70);
	rig_advance_ms(r, 30);
	CHECK_EQ(take_overtaken(r, 100), 0);
}

RIG_SESSION_TEST(vdelay_reorders_messages_if_set, rig_new("vdelay down=10ms jitter=20ms seed=1 reorder=yes"),
		 rig_open(r, rig_to(5)))
{
	push_count(r, s, 100);
	rig_advance_ms(r, 30);
	CHECK(take_overtaken(r, 100) > 20);
}

/* Stores the departure times, in microseconds, of count messages pushed at once. */
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

RIG_SESSION_TEST(vdelay_drops_messages_beyond_its_limit, rig_new("vdelay up=5ms down=5ms held=2"),
		 rig_open(r, rig_to(5)))
{
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_inject(r, "02");
	CHECK_EQ(rig_push(r, s, "03"), -ENOBUFS);
	rig_inject(r, "04");
	rig_expect_counts(r, "full=2 delayed=2");
	rig_advance_ms(r, 5);
	rig_expect_sent(r, "01");
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_push(r, s, "05"), 0);
	rig_advance_ms(r, 5);
	rig_expect_sent(r, "05");
}

RIG_SESSION_TEST(vdelay_counts_pushes_that_fail_later, rig_new("vdelay down=5ms"), rig_open(r, rig_to(5)))
{
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_fail_sending(r, -ENOBUFS);
	rig_advance_ms(r, 5);
	rig_expect_counts(r, "unsent=1 wire.no_buffer=1");
}

RIG_SESSION_TEST(vdelay_sessions_close_after_their_last_message, rig_new("vdelay up=5ms down=5ms"),
		 rig_open(r, rig_to(5)))
{
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_inject(r, "02");
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 1);
	rig_advance_ms(r, 5);
	rig_expect_sent(r, "01");
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_wire_session_count(r), 0);
}

/* A passive session does not close because its first message had to wait. */
RIG_TEST(vdelay_keeps_passive_sessions, rig_new("vdelay up=5ms"))
{
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_inject(r, "01");
	CHECK_EQ(rig_open_done_count(r), 1);
	rig_advance_ms(r, 5);
	rig_expect_delivered(r, "01");
	CHECK_EQ(rig_protocol(r, "vdelay")->cache_count, 1);
	rig_inject(r, "02");
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	CHECK_EQ(rig_protocol(r, "vdelay")->cache_count, 0);
	CHECK_EQ(rig_wire_session_count(r), 1);
	rig_advance_ms(r, 5);
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_wire_session_count(r), 0);
}

struct late_push {
	struct rig *r;
	struct xk_session *s;
	int status;
};

/* Pushes on a session as a shepherd does while another one closes it. */
static void
close_and_push(void *argument)
{
	struct late_push *push = argument;
	struct xk_msg *m = xk_msg_from(rig_platform(push->r), "x", 1);

	xk_close(push->s);
	push->status = xk_push(push->s, m);
}

RIG_TEST(vdelay_carries_messages_of_a_closed_session, rig_new("vdelay down=5ms"))
{
	struct late_push push = { r, rig_open(r, rig_to(5)), -1 };

	REQUIRE(push.s != NULL && xk_duplicate(push.s));
	rig_close(r, push.s);
	CHECK(rig_do(r, close_and_push, &push));
	CHECK_EQ(push.status, 0);
	rig_advance_ms(r, 5);
	rig_expect_sent(r, "78");
}

RIG_TEST(vdelay_obeys_order_of_sessions, rig_new_graph("wire:; vdelay: wire; vdelay.up=5ms; user: vdelay"))
{
	rig_protocol(r, "vdelay")->order_session = true;
	REQUIRE(rig_open(r, rig_to(5)) != NULL);
	rig_inject(r, "01");
	rig_inject(r, "02");
	rig_advance_ms(r, 5);
	rig_expect_delivered(r, "01");
	rig_expect_delivered(r, "02");
}

/* ---- a kernel with threads: echo -> vdelay -> vdrop -> eth -> port ---- */

enum { PEERS = 8, FRAMES = 4000, AHEAD = 500 };

struct delays {
	struct threads threads;
	struct xk_protocol *eth, *vdrop, *vdelay;
};

static void
delays_inject(struct threads *t, unsigned i)
{
	uint8_t peer = (uint8_t)(0x10 + i * 7 % PEERS);
	uint8_t frame[60] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, peer, 8, 0, 'm' };

	CHECK(xk_memory_inject(t->port, xk_msg_from(t->platform, frame, sizeof(frame))));
}

static unsigned
drops_of(const struct xk_protocol *p)
{
	unsigned drops = 0;

	for (unsigned i = 1; i < xk_drop_count(p->type); i++)
		drops += (unsigned)atomic_load(&p->drops[i]);
	return drops;
}

/*
 * Returns true once every message and every copy has ended, upward or downward. vdrop copies messages in both
 * directions, so both are one sum.
 */
static bool
delays_have_ended(struct threads *t)
{
	struct delays *d = xk_container_of(t, struct delays, threads);
	unsigned in = threads_frames_in(t), echoed = atomic_load(&t->echo->delivered);
	unsigned copies = (unsigned)xk_counter(d->vdrop, 0);
	unsigned ended = drops_of(d->eth) + drops_of(d->vdrop) + drops_of(d->vdelay);

	return in == FRAMES && echoed > 0 && in + copies == t->taken + ended;
}

static void
delays_set(struct delays *d, const char *delay)
{
	threads_set(d->vdrop, "loss", "5%");
	threads_set(d->vdrop, "duplicate", "10%");
	threads_set(d->vdrop, "reorder", "20%");
	threads_set(d->vdrop, "corrupt", "10%");
	threads_set(d->vdrop, "reorder_time", "200us");
	threads_set(d->vdelay, "up", delay);
	threads_set(d->vdelay, "down", delay);
	threads_set(d->vdelay, "jitter", "100us");
}

static void
delays_begin(struct delays *d, enum xk_mode mode, const char *delay)
{
	*d = (struct delays){ .threads = { .frames = FRAMES, .ahead = AHEAD } };
	d->threads.inject = delays_inject;
	d->threads.is_done = delays_have_ended;
	threads_begin(&d->threads, mode);
	d->eth = threads_add_type(&d->threads, "eth", "port", NULL);
	d->vdrop = threads_add_type(&d->threads, "vdrop", "eth", NULL);
	d->vdelay = threads_add_type(&d->threads, "vdelay", "vdrop", NULL);
	threads_add_echo(&d->threads, "vdelay");
	for (struct xk_protocol *p = xk_kernel_first(d->threads.kernel); p != NULL; p = p->next)
		p->session_max = 3; /* sessions come and go */
	delays_set(d, delay);
	threads_start(&d->threads, d->vdelay);
}

static void
check_delays(enum xk_mode mode)
{
	struct delays d;

	delays_begin(&d, mode, "100us");
	threads_feed(&d.threads);
	xk_kernel_stop(d.threads.kernel);
	CHECK(delays_have_ended(&d.threads));
	CHECK(xk_counter(d.vdrop, 1) > 0 && xk_counter(d.vdelay, 0) > 0);
	threads_end(&d.threads);
}

TEST_OF(every_message_ends_under_threads_in_regular_mode, check_delays(XK_REGULAR));
TEST_OF(every_message_ends_under_threads_in_ipp_mode, check_delays(XK_IPP));

/* A host that stops with delayed messages frees them and their sessions. */
TEST(vdelay_frees_waiting_messages_at_the_end)
{
	static const struct timespec nap = { 0, 1000000 };
	struct delays d;

	delays_begin(&d, XK_IPP, "60s");
	for (unsigned i = 0; i < 100; i++)
		delays_inject(&d.threads, i);
	for (unsigned naps = 0; xk_counter(d.vdelay, 0) < 50 && naps < THREADS_NAPS; naps++)
		nanosleep(&nap, NULL);
	CHECK(xk_counter(d.vdelay, 0) >= 50);
	CHECK_EQ(atomic_load(&d.threads.echo->delivered), 0);
	threads_end(&d.threads);
}

TEST(vdelay_returns_waiting_lent_bytes_at_the_end)
{
	struct bare b = bare_new("vdelay");
	struct xk_session *s;
	_Atomic unsigned ended = 0;

	for (const struct xk_setting *setting = b.tested->type->settings; setting->name != NULL; setting++)
		if (strcmp(setting->name, "down") == 0)
			REQUIRE(xk_setting_parse(setting, "60s", b.tested, NULL, 0) == 0);
	s = bare_session(&b);
	CHECK_EQ(xk_push(s, xk_msg_lend(b.platform, "words", 5, lent_ended, &ended)), 0);
	CHECK_EQ(xk_counter(b.tested, 0), 1);
	CHECK_EQ(ended, 0);
	xk_close(s);
	bare_free(&b);
	CHECK_EQ(ended, 1);
}
