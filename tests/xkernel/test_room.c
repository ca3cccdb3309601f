/* test_room.c - room in sessions (xkernel/support/room.h): pushes wait for it, or the protocol above is told of it. */
#include "tests/xkernel/toy.h"
#include "xkernel/support/room.h"

enum { LIMIT = 1000, PUSHES = 4, TIMEOUT_US = 5000 };

/* A session that keeps what is pushed, and the results of its pushes. */
struct own {
	struct xk_session session; /* first */
	struct xk_lock lock;
	struct xk_room room;
	int error;
	uint64_t timeout_us;
	unsigned begun, ended;
	int results[PUSHES];
	uint64_t ended_ns;
};

static int
own_push(struct xk_session *s, struct xk_msg *m)
{
	struct own *own = (struct own *)s;
	int err;

	xk_lock(&own->lock);
	err = xk_room_take(&own->room, s, xk_msg_len(m), own->timeout_us, &own->lock, &own->error);
	xk_unlock(&own->lock);
	xk_msg_free(m);
	return err;
}

static const struct xk_session_ops own_ops = { .size = sizeof(struct own), .push = own_push, .pop = xk_pop_through };

static struct own *
own_new(struct host *h, struct xk_protocol *hlp)
{
	struct xk_protocol *wire = xk_kernel_find(h->kernel, "wire");
	struct own *own = (struct own *)xk_session_new(wire, &own_ops, hlp, hlp, NULL);

	REQUIRE(own != NULL);
	own->timeout_us = XK_UNTIL_SIGNALLED;
	xk_lock_init(&own->lock, wire);
	xk_room_init(&own->room, wire, LIMIT);
	h->top->argument = own;
	return own;
}

static struct own *
own_of_top(struct host *h)
{
	return own_new(h, &h->top->protocol);
}

static int
own_push_bytes(struct host *h, struct own *own, size_t len)
{
	struct xk_msg *m = xk_msg_new(h->platform, len);

	REQUIRE(m != NULL);
	return xk_push(&own->session, m);
}

/* Pushes the arriving message as a shepherd, which may wait. */
static void
push(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct own *own = top->argument;
	unsigned number = own->begun++;

	own->results[number] = xk_push(&own->session, m);
	own->ended++;
	own->ended_ns = xk_now_ns(&top->protocol);
}

/* Begins a push by a shepherd. */
static void
begin_push(struct host *h)
{
	h->top->act = push;
	host_send(h, OP_ACT, 0);
	host_run(h);
}

static bool
own_give(struct own *own, uint64_t bytes)
{
	bool told;

	xk_lock(&own->lock);
	told = xk_room_give(&own->room, bytes);
	xk_unlock(&own->lock);
	return told;
}

static void
own_end(struct own *own, int error)
{
	xk_lock(&own->lock);
	own->error = error;
	xk_room_wake(&own->room);
	xk_unlock(&own->lock);
}

static struct host *
virtual_host(void)
{
	struct host *h = host_virtual();

	host_init(h);
	return h;
}

TEST_WITH(a_push_finds_room_up_to_the_limit_and_may_exceed_it, struct host *h, virtual_host(), host_free)
{
	struct own *own = own_of_top(h);

	CHECK_EQ(xk_room_left(&own->room), LIMIT);
	CHECK_EQ(own_push_bytes(h, own, LIMIT - 1), 0);
	CHECK_EQ(xk_room_left(&own->room), 1);
	CHECK_EQ(own_push_bytes(h, own, 5000), 0);
	CHECK_EQ(xk_room_left(&own->room), 0);
	CHECK_EQ(own->room.used, LIMIT + 4999);
	CHECK(!own_give(own, LIMIT + 4999));
	CHECK_EQ(xk_room_left(&own->room), LIMIT);
	xk_close(&own->session);
}

TEST_WITH(pushes_wait_until_a_quarter_is_free, struct host *h, virtual_host(), host_free)
{
	struct own *own = own_of_top(h);

	CHECK_EQ(own_push_bytes(h, own, LIMIT), 0);
	begin_push(h);
	begin_push(h);
	CHECK_EQ(own->begun, 2);
	CHECK_EQ(own->room.waiting, 2);
	CHECK(!own_give(own, LIMIT / 4 - 1));
	host_run(h);
	CHECK_EQ(own->ended, 0);
	CHECK(!own_give(own, 1)); /* nobody is told: the pushes have waited */
	host_run(h);
	CHECK_EQ(own->ended, 2);
	CHECK_EQ(own->room.waiting, 0);
	CHECK_EQ(own->results[0], 0);
	CHECK_EQ(own->results[1], 0);
	CHECK_EQ(own->room.used, LIMIT * 3 / 4 + 2 * 20);
	xk_close(&own->session);
}

/* One of those that were woken fills it again. */
TEST_WITH(a_push_that_finds_the_room_taken_waits_again, struct host *h, virtual_host(), host_free)
{
	struct own *own = own_of_top(h);

	CHECK_EQ(own_push_bytes(h, own, LIMIT), 0);
	begin_push(h);
	CHECK(!own_give(own, LIMIT / 2));
	CHECK_EQ(own_push_bytes(h, own, LIMIT), 0); /* before the shepherd runs */
	host_run(h);
	CHECK_EQ(own->ended, 0);
	CHECK_EQ(own->room.waiting, 1);
	CHECK(!own_give(own, LIMIT));
	host_run(h);
	CHECK_EQ(own->ended, 1);
	CHECK_EQ(own->results[0], 0);
	xk_close(&own->session);
}

TEST_WITH(the_end_of_a_session_wakes_those_that_wait, struct host *h, virtual_host(), host_free)
{
	struct own *own = own_of_top(h);

	CHECK_EQ(own_push_bytes(h, own, LIMIT), 0);
	begin_push(h);
	begin_push(h);
	CHECK_EQ(own->ended, 0);
	own_end(own, -ECONNRESET);
	host_run(h);
	CHECK_EQ(own->ended, 2);
	CHECK_EQ(own->results[0], -ECONNRESET);
	CHECK_EQ(own->results[1], -ECONNRESET);
	CHECK_EQ(own->room.waiting, 0);
	CHECK_EQ(own->room.used, LIMIT);
	CHECK_EQ(own_push_bytes(h, own, 1), -ECONNRESET);
	CHECK(!own_give(own, LIMIT));
	CHECK_EQ(own_push_bytes(h, own, 1), -ECONNRESET); /* with room, too */
	CHECK_EQ(own->room.used, 0);
	xk_close(&own->session);
}

TEST_WITH(a_push_gives_up_after_its_time, struct host *h, virtual_host(), host_free)
{
	struct own *own = own_of_top(h);

	own->timeout_us = TIMEOUT_US;
	CHECK_EQ(own_push_bytes(h, own, LIMIT), 0);
	begin_push(h);
	CHECK_EQ(own->ended, 1);
	CHECK_EQ(own->results[0], -ETIMEDOUT);
	CHECK(own->ended_ns >= TIMEOUT_US * UINT64_C(1000));
	CHECK_EQ(own->room.waiting, 0);
	CHECK_EQ(own->room.used, LIMIT);
	CHECK(!own_give(own, LIMIT)); /* signals nobody */
	CHECK_EQ(own_push_bytes(h, own, LIMIT), 0);
	begin_push(h);
	CHECK_EQ(own->results[1], -ETIMEDOUT);
	xk_close(&own->session);
}

/* ---- a protocol above with the operation `room` ---- */

struct told {
	struct xk_protocol protocol;
	unsigned count;
	struct xk_session *session; /* of which it was told last */
};

static void
told_room(struct xk_protocol *self, struct xk_session *s)
{
	struct told *told = (struct told *)self;

	told->count++;
	told->session = s;
}

static void
told_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	xk_msg_free(m);
}

static const struct xk_protocol_ops told_ops = { .demux = told_demux, .room = told_room };
static const struct xk_protocol_type told_type = {
	.name = "told", .ops = &told_ops, .size = sizeof(struct told), .offers = XK_ASYNC
};

static const struct xk_protocol_ops veil_ops = { .demux = middle_demux };
static const struct xk_protocol_type veil_type = {
	.name = "veil", .ops = &veil_ops, .size = sizeof(struct xk_protocol), .offers = XK_ASYNC, .flags = XK_VIRTUAL
};

static struct host *
told_host(void)
{
	struct host *h = host_virtual();
	struct xk_protocol *veil = xk_kernel_add_protocol(h->kernel, &veil_type, "veil");
	struct xk_protocol *told = xk_kernel_add_protocol(h->kernel, &told_type, "told");

	xk_kernel_add_edge(h->kernel, veil, xk_kernel_find(h->kernel, "wire"), NULL);
	xk_kernel_add_edge(h->kernel, told, xk_kernel_find(h->kernel, "wire"), NULL);
	xk_kernel_add_edge(h->kernel, told, veil, NULL);
	host_init(h);
	return h;
}

static void
notify(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct own *own = top->argument;

	xk_msg_free(m);
	xk_room_notify(&own->session);
}

/* Notifies as a shepherd. */
static void
own_notify(struct host *h)
{
	h->top->act = notify;
	host_send(h, OP_ACT, 0);
	host_run(h);
}

/* Fills the room, and checks that the protocol above is told once a quarter is free, on the session that is its own. */
static void
check_told(struct host *h, struct own *own, const struct xk_session *upper)
{
	struct told *told = (struct told *)xk_kernel_find(h->kernel, "told");

	CHECK_EQ(own_push_bytes(h, own, LIMIT), 0);
	CHECK(!own_give(own, LIMIT)); /* no push was refused */
	CHECK_EQ(own_push_bytes(h, own, LIMIT), 0);
	CHECK_EQ(own_push_bytes(h, own, 1), -EAGAIN);
	CHECK_EQ(own_push_bytes(h, own, 1), -EAGAIN);
	CHECK_EQ(own->room.used, LIMIT);
	CHECK_EQ(own->room.waiting, 0);
	CHECK(!own_give(own, LIMIT / 4 - 1));
	CHECK(own_give(own, 1));
	CHECK_EQ(told->count, 0);
	own_notify(h);
	CHECK_EQ(told->count, 1);
	CHECK(told->session == upper);
	CHECK(!own_give(own, 1)); /* it was told */
	CHECK_EQ(own_push_bytes(h, own, 1), 0);
	own_end(own, -ETIMEDOUT);
	CHECK_EQ(own_push_bytes(h, own, LIMIT), -ETIMEDOUT);
}

TEST_WITH(a_protocol_that_can_be_told_is_refused_and_told, struct host *h, told_host(), host_free)
{
	struct own *own = own_new(h, xk_kernel_find(h->kernel, "told"));

	check_told(h, own, &own->session);
	xk_close(&own->session);
}

TEST_WITH(it_is_told_past_virtual_protocols, struct host *h, told_host(), host_free)
{
	struct xk_protocol *told = xk_kernel_find(h->kernel, "told"), *veil = xk_kernel_find(h->kernel, "veil");
	struct own *own = own_new(h, veil);
	struct xk_session *upper;

	upper = xk_session_new(veil, &middle_session_ops, told, told, &own->session);
	REQUIRE(upper != NULL);
	own->session.above = upper;
	check_told(h, own, upper);
	xk_close(upper);
}

TEST_WITH(a_protocol_without_the_operation_is_not_told, struct host *h, virtual_host(), host_free)
{
	struct own *own = own_of_top(h);

	own_notify(h);
	CHECK_EQ(h->top->handled, 1);
	xk_close(&own->session);
}
