/*
 * test_vnet_threads.c - vnet under threads: sessions are opened by frames and by uppers, closed and evicted while
 * messages pass. This host is 10.77.0.2 in 10.77.0.0/24.
 */
#include "tests/protocols/threads.h"

enum { PEERS = 24, FRAMES = 6000, AHEAD = 1000 };

/* Injects frame i: mostly a message from one of the peers, now and then its ARP request for this host. */
static void
inject(struct threads *t, unsigned i)
{
	uint8_t peer = (uint8_t)(0x10 + i * 7 % PEERS);
	uint8_t frame[42] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, peer, 8, 0, 'm' };
	const uint8_t request[] = { 8,    6,  0,  1, 8,    0, 6, 4, 0, 1, 2, 0,  0,  0, 0,
				    peer, 10, 77, 0, peer, 0, 0, 0, 0, 0, 0, 10, 77, 0, 2 };

	if (i % 5 == 0)
		memcpy(frame + 12, request, sizeof(request));
	CHECK(xk_memory_inject(t->port, xk_msg_from(t->platform, frame, i % 5 == 0 ? sizeof(frame) : 15)));
}

static bool
is_done(struct threads *t)
{
	return threads_openers_have_finished(t) && threads_frames_in(t) == FRAMES;
}

static void
check_sessions(enum xk_mode mode)
{
	struct threads t = { .frames = FRAMES, .ahead = AHEAD, .inject = inject, .is_done = is_done };
	struct xk_protocol *vnet;

	threads_begin(&t, mode);
	threads_add_type(&t, "eth", "port", NULL)->session_max = 6;
	threads_set(threads_add_type(&t, "arp", "eth", NULL), "timeout", "60s"); /* however slow the machine */
	vnet = threads_add_type(&t, "vnet", "eth", "arp");
	vnet->session_max = 4;
	threads_set(vnet, "address", "10.77.0.2/24");
	threads_add_echo(&t, "vnet");
	threads_start(&t, vnet);
	threads_start_openers(&t, 0x0a4d0010, PEERS);
	threads_feed(&t);
	xk_kernel_stop(t.kernel);
	CHECK(atomic_load(&t.echo->delivered) > 0);
	/* no open meets a session that is being closed */
	CHECK_EQ(atomic_load(&t.echo->opens), THREADS_OPENERS * THREADS_OPENS);
	threads_take(&t);
	threads_end(&t);
}

TEST_OF(vnet_sessions_come_and_go_under_threads_in_regular_mode, check_sessions(XK_REGULAR));
TEST_OF(vnet_sessions_come_and_go_under_threads_in_ipp_mode, check_sessions(XK_IPP));

/* ---- a neighbour that moves while others send to it ---- */

enum { ADDRESSES = 3, MOVES = 4000 };

struct moving {
	struct threads t; /* first */
	_Atomic(struct xk_session *) open;
	_Atomic bool is_over;
	_Atomic unsigned pushed;
};

static void
push_one(struct moving *moving, struct xk_session *s)
{
	struct xk_protocol *self = &moving->t.echo->protocol;
	struct xk_msg *m = xk_msg_from(xk_platform_of(self), "x", 1);

	if (m == NULL)
		return;
	xk_push(s, m);
	atomic_fetch_add(&moving->pushed, 1);
}

/*
 * Opens a session, as an application does, as often as it finds the neighbour; pushes on it now and then, and shows the
 * first.
 */
static void
send_to_whoever_moves(void *argument)
{
	struct moving *moving = argument;
	struct xk_protocol *self = &moving->t.echo->protocol;
	struct xk_session *s, *none = NULL;

	while (!atomic_load(&moving->is_over)) {
		struct xk_participants participants = { .remote = { 1, { 0x0a4d0010 } } };

		if (xk_open(self, self, xk_lower(self, 0), &participants, &s) != 0)
			continue;
		atomic_fetch_add(&moving->t.echo->opens, 1);
		if (atomic_compare_exchange_strong(&moving->open, &none, s))
			xk_duplicate(s);
		none = NULL;
		for (unsigned i = 0; i < 20; i++)
			push_one(moving, s);
		xk_close(s);
		xk_delay(self, 100);
	}
	atomic_fetch_add(&moving->t.echo->finished, 1);
}

/* Injects frame i: the neighbour asks for this host, or announces another address. Also sends, as a foreign thread. */
static void
inject_move(struct threads *t, unsigned i)
{
	struct moving *moving = (struct moving *)t;
	uint8_t link = (uint8_t)(0x20 + i * 7 % ADDRESSES), target = i % 5 == 0 ? 2 : 0x10;
	uint8_t frame[42] = { 2, 0, 0, 0, 0, 1, 2,    0,  0,  0, 0,    link, 8, 6, 0, 1, 8, 0,  6,  4, 0,
			      1, 2, 0, 0, 0, 0, link, 10, 77, 0, 0x10, 0,    0, 0, 0, 0, 0, 10, 77, 0, target };
	static const struct timespec nap = { 0, 1000000 };
	struct xk_session *s = atomic_load(&moving->open);

	CHECK(xk_memory_inject(t->port, xk_msg_from(t->platform, frame, sizeof(frame))));
	if (s != NULL)
		push_one(moving, s);
	else
		nanosleep(&nap, NULL); /* on a busy machine the senders may not have started */
	if (i == MOVES - 1)
		atomic_store(&moving->is_over, true);
}

static bool
are_done(struct threads *t)
{
	return atomic_load(&t->echo->finished) == 2 && threads_frames_in(t) == MOVES;
}

static void
close_open(void *argument)
{
	struct moving *moving = argument;

	xk_close(atomic_load(&moving->open));
	atomic_fetch_add(&moving->t.echo->finished, 1);
}

static bool
is_closed(struct threads *t)
{
	return atomic_load(&t->echo->finished) == 3;
}

static void
nothing_to_inject(struct threads *t, unsigned i)
{
}

static void
check_moves(enum xk_mode mode)
{
	struct moving moving = { .t = { .frames = MOVES, .ahead = AHEAD, .inject = inject_move, .is_done = are_done } };
	struct threads *t = &moving.t;
	struct xk_protocol *arp, *vnet;
	long moved;

	threads_begin(t, mode);
	threads_add_type(t, "eth", "port", NULL)->session_max = 2;
	arp = threads_add_type(t, "arp", "eth", NULL);
	threads_set(arp, "timeout", "5ms");
	threads_set(arp, "age", "20ms");
	vnet = threads_add_type(t, "vnet", "eth", "arp");
	threads_set(vnet, "address", "10.77.0.2/24");
	threads_add_echo(t, "vnet");
	threads_start(t, vnet);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(xk_thread_start(t->kernel, "sender", send_to_whoever_moves, &moving), 0);
	threads_feed(t);
	CHECK_EQ(xk_thread_start(t->kernel, "closer", close_open, &moving), 0);
	t->frames = 0;
	t->inject = nothing_to_inject;
	t->is_done = is_closed;
	threads_feed(t);
	xk_kernel_stop(t->kernel);
	moved = (long)xk_counter(vnet, 1);
	CHECK_STR(vnet->type->counters[1], "moved");
	CHECK(moved > 0);
	CHECK(atomic_load(&moving.pushed) > 0 && atomic_load(&t->echo->opens) > 0);
	threads_take(t);
	threads_end(t);
}

TEST_OF(vnet_sessions_follow_during_pushes_in_regular_mode, check_moves(XK_REGULAR));
TEST_OF(vnet_sessions_follow_during_pushes_in_ipp_mode, check_moves(XK_IPP));
