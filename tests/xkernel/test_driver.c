/*
 * test_driver.c - the driver: fairness to ports, events and resumed shepherds, and full devices and queues.
 */
#include <pthread.h>

#include "tests/xkernel/toy.h"
#include "xkernel/engine/engine.h"

/* ---- the driver's fairness ---- */

static unsigned
receive_for_ever(void *context, struct xk_msg **frames, unsigned max)
{
	struct host *h = context;
	uint8_t bytes[4] = { OP_SIGNAL };
	unsigned count = 0;

	while (count < max && (frames[count] = xk_msg_from(h->platform, bytes, sizeof(bytes))) != NULL)
		count++;
	return count;
}

static unsigned
transmit_nothing(void *context, struct xk_msg **frames, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		xk_msg_free(frames[i]);
	return count;
}

/* Makes a host whose first port always has a full burst. */
static struct host *
flooded_host(enum xk_mode mode)
{
	struct host *h = host_new(mode, XK_DRIVER_INTERRUPT, 1, 0);

	xk_memory_loop(h->port, receive_for_ever, transmit_nothing, h);
	return h;
}

TEST(a_flooded_port_does_not_starve_the_others)
{
	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		struct host *h = flooded_host((enum xk_mode)mode);
		struct xk_port *other = xk_memory_port_new(h->platform, "other", 2, 1500);
		uint8_t bytes[20] = { OP_ECHO };

		xk_kernel_add_port(h->kernel, other);
		host_init(h);
		other->receiver = h->port->receiver;
		REQUIRE(xk_kernel_start(h->kernel) == 0);
		for (unsigned i = 0; i < 10; i++)
			CHECK(xk_memory_inject(other, xk_msg_from(h->platform, bytes, sizeof(bytes))));
		CHECK(wait_until(&h->top->order_count, 10));
		host_free(h);
	}
}

static _Atomic unsigned control_polls;

static void
count_control(struct xk_platform *platform)
{
	atomic_fetch_add(&control_polls, 1);
}

TEST_WITH(busy_driver_serves_signals_and_control, struct host *h, flooded_host(XK_IPP), host_free)
{
	static struct xk_platform_ops ops; /* in use until the host is freed */

	ops = *h->platform->ops;
	ops.poll_control = count_control;
	h->platform->ops = &ops;
	atomic_store(&control_polls, 0);
	host_start(h);
	CHECK(wait_until(&control_polls, 3));
}

TEST_WITH(drained_input_queue_accepts_frames_again, struct host *h, host_new(XK_REGULAR, XK_DRIVER_INTERRUPT, 1, 0),
	  host_free)
{
	unsigned handled = 0;

	host_start(h);
	for (unsigned round = 0; round < 20; round++) {
		send_one(h, OP_WAIT);
		for (unsigned i = 0; i < XK_INPUT_QUEUE + 5 + round * 7; i++)
			send_one(h, OP_ECHO);
		while (xk_pool_room(&h->kernel->pool, &h->kernel->driver) > 0)
			host_nap();
		handled = h->sent;
		xk_semaphore_signal(&h->top->semaphore);
		CHECK(host_wait_handled(h, handled));
		send_one(h, OP_ECHO);
		CHECK(host_wait_handled(h, handled + 1));
	}
}

/* ---- transmit ---- */

struct sender {
	struct host *host;
	unsigned count;
	_Atomic unsigned *done, *refused;
};

static void
send_many(struct sender *sender)
{
	struct host *h = sender->host;

	for (unsigned i = 0; i < sender->count; i++) {
		struct xk_msg *m = xk_msg_from(h->platform, "abcd", 4);

		if (m == NULL || xk_push(h->top->session, m) != 0)
			atomic_fetch_add(sender->refused, 1);
	}
	atomic_fetch_add(sender->done, 1);
}

static void *
foreign_sender(void *argument)
{
	send_many(argument);
	return NULL;
}

static void
shepherd_sender(void *argument)
{
	send_many(argument);
}

static void
check_full_device(enum xk_mode mode, enum xk_driver_policy driver)
{
	enum { SENDERS = 4, FRAMES = 1500 };
	struct host *h = host_new(mode, driver, 2, 0);
	_Atomic unsigned done = 0, refused = 0;
	struct sender sender = { h, FRAMES, &done, &refused };
	pthread_t foreign[2];

	xk_memory_transmit_limit(h->port, 16);
	host_start(h);
	for (unsigned i = 0; i < 2; i++) {
		REQUIRE(pthread_create(&foreign[i], NULL, foreign_sender, &sender) == 0);
		CHECK_EQ(xk_thread_start(h->kernel, "sender", shepherd_sender, &sender), 0);
	}
	for (unsigned i = 0; i < FRAMES; i++) {
		send_one(h, OP_ECHO);
		host_collect(h);
	}
	for (unsigned tries = 0; tries < 60000; tries++) {
		unsigned gone = host_collect(h) + (unsigned)xk_kernel_find(h->kernel, "wire")->drops[XK_DROP_OWN];

		if (atomic_load(&done) == SENDERS && gone >= (SENDERS + 1) * FRAMES)
			break;
		host_nap(); /* a full device is also tried again after a delay */
	}
	CHECK_EQ(done, SENDERS);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(foreign[i], NULL);
	xk_kernel_stop(h->kernel);
	host_collect(h);
	CHECK_EQ(h->received + xk_kernel_find(h->kernel, "wire")->drops[XK_DROP_OWN], (SENDERS + 1) * FRAMES);
	host_free(h);
}

TEST(many_threads_lose_no_frame_on_a_full_device)
{
	check_full_device(XK_IPP, XK_DRIVER_INTERRUPT);
	check_full_device(XK_IPP, XK_DRIVER_POLL);
	check_full_device(XK_REGULAR, XK_DRIVER_ADAPTIVE);
}

/* Three frames of one conversation are pushed in turn: by the driver, by another thread meanwhile, and by the driver. */
static void *
push_second(void *argument)
{
	struct host *h = argument;

	CHECK_EQ(xk_push(h->top->session, xk_msg_from(h->platform, "2", 1)), 0);
	return NULL;
}

static void
push_in_turn(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct host *h = top->argument;
	pthread_t thread;

	xk_msg_free(m);
	CHECK_EQ(xk_push(lls, xk_msg_from(h->platform, "1", 1)), 0);
	REQUIRE(pthread_create(&thread, NULL, push_second, h) == 0);
	pthread_join(thread, NULL);
	CHECK_EQ(xk_push(lls, xk_msg_from(h->platform, "3", 1)), 0);
}

TEST_WITH(frames_leave_in_the_order_of_their_pushes, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0),
	  host_free)
{
	struct xk_msg *m = NULL;

	h->top->argument = h;
	h->top->act = push_in_turn;
	host_start(h);
	send_one(h, OP_ACT);
	for (char wanted = '1'; wanted <= '3'; wanted++) {
		for (unsigned tries = 0; tries < 300000 && (m = xk_memory_take(h->port)) == NULL; tries++)
			host_nap();
		REQUIRE(m != NULL);
		CHECK_EQ(m->data[0], wanted);
		xk_msg_free(m);
	}
}

/* A device that refuses `refusals` times, then accepts everything. */
struct slow_device {
	struct host *host;
	_Atomic unsigned tries;
	unsigned refusals;
};

static unsigned
receive_nothing(void *context, struct xk_msg **frames, unsigned max)
{
	return 0;
}

static unsigned
transmit_slowly(void *context, struct xk_msg **frames, unsigned count)
{
	struct slow_device *device = context;

	if (atomic_fetch_add(&device->tries, 1) < device->refusals)
		return 0;
	return transmit_nothing(device, frames, count);
}

TEST_WITH(thread_waits_for_a_full_device_without_spinning, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0),
	  host_free)
{
	enum { FILLED = XK_TRANSMIT_QUEUE + 2 * XK_BURST };
	struct slow_device device = { .host = h, .refusals = UINT32_MAX };
	_Atomic unsigned done = 0, refused = 0;
	struct sender sender = { h, FILLED, &done, &refused };
	unsigned before;

	xk_memory_loop(h->port, receive_nothing, transmit_slowly, &device);
	host_init(h); /* not started: only the sender touches the device */
	send_many(&sender);
	CHECK_EQ(refused, 0);
	before = device.tries;
	sender.count = 1;
	send_many(&sender);
	CHECK_EQ(refused, 1);
	CHECK(device.tries - before <= 9);
	device.refusals = device.tries + 6; /* fewer than a thread's tries, so it must not be refused */
	send_many(&sender);
	CHECK_EQ(refused, 1);
}

/* A device in which every transmit by `sender` finds another frame pushed, up to BUSY_FRAMES. */
struct busy_device {
	struct host *host;
	pthread_t sender;
	unsigned pushed;
};

enum { BUSY_FRAMES = 200000 };

static unsigned
transmit_and_push(void *context, struct xk_msg **frames, unsigned count)
{
	struct busy_device *device = context;
	struct xk_msg *m = NULL;

	if (pthread_equal(pthread_self(), device->sender) && device->pushed < BUSY_FRAMES)
		m = xk_msg_from(device->host->platform, "abcd", 4);
	if (m != NULL) {
		device->pushed++;
		xk_push(device->host->top->session, m);
		sched_yield();
	}
	return transmit_nothing(device, frames, count);
}

TEST_WITH(sending_thread_yields_to_the_driver, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0), host_free)
{
	struct busy_device device = { .host = h, .sender = pthread_self() };
	struct xk_msg *m;

	xk_memory_loop(h->port, receive_nothing, transmit_and_push, &device);
	host_start(h);
	while (atomic_load(&h->kernel->driver.sleeping) == 0)
		sched_yield();
	m = xk_msg_from(h->platform, "abcd", 4);
	REQUIRE(m != NULL);
	CHECK_EQ(xk_push(h->top->session, m), 0);
	CHECK(device.pushed > 0);
	CHECK(device.pushed < BUSY_FRAMES);
}

static void
check_full_device_without_threads(enum xk_implicit implicit)
{
	enum { FRAMES = 600 };
	struct host *h = host_virtual();
	struct xk_protocol *wire = xk_kernel_find(h->kernel, "wire");

	wire->implicit = implicit;
	wire->spin_ns = 10000;
	xk_memory_transmit_limit(h->port, 0);
	xk_memory_run_until(h->platform, 1000000);
	host_init(h);
	for (unsigned i = 0; i < FRAMES; i++)
		send_one(h, OP_ECHO);
	host_run(h);
	CHECK_EQ(h->top->handled, FRAMES);
	CHECK(wire->drops[XK_DROP_OWN] > 0);
	xk_memory_transmit_limit(h->port, XK_MEMORY_QUEUE);
	xk_memory_run_until(h->platform, UINT64_MAX);
	host_run(h);
	CHECK_EQ(h->received + wire->drops[XK_DROP_OWN], FRAMES);
	host_free(h);
}

TEST(full_device_without_threads_drops_by_name)
{
	check_full_device_without_threads(XK_IMPLICIT_HANDOFF);
	check_full_device_without_threads(XK_IMPLICIT_SPIN);
	check_full_device_without_threads(XK_IMPLICIT_FAIL);
}

TEST_WITH(driver_spinning_on_a_full_device_hands_off, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0),
	  host_free)
{
	struct xk_protocol *wire = xk_kernel_find(h->kernel, "wire");

	wire->implicit = XK_IMPLICIT_SPIN;
	wire->spin_ns = 1000;
	xk_memory_transmit_limit(h->port, 0);
	host_start(h);
	for (unsigned i = 0; i < 2 * XK_BURST + 1; i++)
		send_one(h, OP_ECHO);
	CHECK(host_wait_handled(h, 2 * XK_BURST + 1));
	CHECK_EQ(wire->drops[XK_DROP_OWN], 0); /* the last frame waits in the ring, where its thread queued it */
	CHECK_EQ(host_stats(h).handoffs[XK_HANDOFF_IMPLICIT], 1);
	xk_memory_transmit_limit(h->port, XK_MEMORY_QUEUE);
	for (unsigned tries = 0; tries < 300000 && host_collect(h) < 2 * XK_BURST + 1; tries++)
		host_nap();
	CHECK_EQ(h->received, 2 * XK_BURST + 1);
}

TEST_WITH(stopped_kernel_starts_again, struct host *h, host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0), host_free)
{
	host_start(h);
	for (unsigned i = 0; i < 10; i++) {
		send_one(h, OP_TIMEOUT);
		CHECK(host_wait_handled(h, i + 1));
		xk_kernel_stop(h->kernel);
		REQUIRE(xk_kernel_start(h->kernel) == 0);
	}
	CHECK_EQ(h->top->protocol.drops[TOP_NOT_WAITED], 0);
}
