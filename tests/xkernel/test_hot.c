/*
 * test_hot.c - the costs an echo avoids, from the port through the whole graph and back: a message that stays in its
 * driver takes no atomic read-modify-write (counted in debug builds: counted.h), no lock and no other stack, and the
 * driver reads the clock at most once a turn.
 */
#include "platform/sim/memory.h"
#include "protocols/test/udptest.h"
#include "tests/compose.h"
#include "tools/bench/echo_rig.h"
#include "xkernel/engine/engine.h"

#define GRAPH                                                                                                          \
	"digraph hot { udptest -> udp; udp -> ip; ip -> vnet; vnet [address=\"10.0.0.2/8\"];"                          \
	"vnet -> eth; vnet -> arp; arp -> eth; eth -> port; }"

enum { ROUNDS = 2000, US = 1000, MS = 1000 * US };

struct hot {
	struct xk_kernel *kernel;
	struct echo_rig rig;
	struct xk_kernel_stats before, after;
	uint64_t atomics_before, atomics_after;
	struct xk_platform_ops ops;   /* the platform's, with a clock that each frame advances by message_ns */
	uint64_t message_ns;          /* 0: the machine's clock */
	uint64_t clock_ns, oldest_ns; /* oldest: maximum age of the driver's clock reading when it received a frame */
};

static uint64_t
atomics(const struct hot *h)
{
	return atomic_load(&h->kernel->driver.runner.atomics);
}

static void
hot_counting(void *context)
{
	struct hot *h = context;

	xk_kernel_stats(h->kernel, &h->before);
	h->atomics_before = atomics(h);
}

static void
hot_finished(void *context)
{
	struct hot *h = context;

	h->atomics_after = atomics(h);
	xk_kernel_stats(h->kernel, &h->after);
	xk_kernel_halt(h->kernel);
}

static uint64_t
hot_clock(struct xk_platform *platform)
{
	return xk_container_of(platform->ops, struct hot, ops)->clock_ns;
}

static unsigned
hot_receive(void *context, struct xk_msg **frames, unsigned max)
{
	struct hot *h = context;
	unsigned count = echo_rig_receive(&h->rig, frames, max);
	uint64_t old_ns = h->clock_ns - h->kernel->driver.now_ns;

	if (h->message_ns != 0 && h->before.turns != 0 && old_ns > h->oldest_ns)
		h->oldest_ns = old_ns;
	h->clock_ns += count * h->message_ns;
	return count;
}

static unsigned
hot_transmit(void *context, struct xk_msg **frames, unsigned count)
{
	return echo_rig_transmit(&((struct hot *)context)->rig, frames, count);
}

/* Runs ROUNDS echoes of size bytes, in bursts, from `sessions` peers. */
static void
hot_run(struct hot *h, uint32_t size, uint32_t burst, uint32_t sessions)
{
	static const struct echo_end server = { UINT64_C(0x020000000001), 0x0a000002, XK_UDPTEST_PORT };
	struct xk_platform *platform = xk_memory_platform_new(XK_MEMORY_REAL);
	const struct xk_kernel_config config = {
		.name = "hot", .platform = platform, .mode = XK_IPP, .driver = XK_DRIVER_POLL, .core = -1
	};
	struct xk_protocol *failed = NULL;
	struct xk_port *port;

	REQUIRE(platform != NULL);
	xk_memory_platform_recycle(platform, true);
	if (h->message_ns != 0) {
		h->ops = *platform->ops;
		h->ops.now_ns = hot_clock;
		platform->ops = &h->ops;
	}
	h->kernel = xk_kernel_new(&config);
	port = xk_memory_port_new(platform, "port", server.link, 1500);
	REQUIRE(h->kernel != NULL && port != NULL);
	xk_memory_loop(port, hot_receive, hot_transmit, h);
	xk_kernel_add_port(h->kernel, port);
	h->rig = (struct echo_rig){ .platform = platform,
				    .sessions = sessions,
				    .burst = burst,
				    .rounds = ROUNDS,
				    .counting = hot_counting,
				    .finished = hot_finished,
				    .context = h };
	echo_rig_init(&h->rig, &server, size);
	compose(h->kernel, NULL, GRAPH);
	REQUIRE(xk_kernel_init(h->kernel, &failed) == 0);
	xk_kernel_run(h->kernel);
	CHECK(h->rig.wrong == NULL);
	CHECK(xk_counter(xk_kernel_find(h->kernel, "udptest"), 0) >= ROUNDS);
	xk_kernel_free(h->kernel);
	xk_memory_platform_free(platform);
}

static void
check(uint32_t size, uint32_t burst, uint32_t sessions)
{
	static struct hot h;

	hot_run(&h, size, burst, sessions);
	CHECK_EQ(h.atomics_after - h.atomics_before, 0);
	CHECK_EQ(h.after.locks - h.before.locks, 0);
	CHECK_EQ(h.after.stack_switches - h.before.stack_switches, 0);
	CHECK(h.after.clock_reads - h.before.clock_reads <= h.after.turns - h.before.turns);
}

TEST(echo_takes_no_atomic_operation_and_one_clock_reading_at_most)
{
	check(1, 1, 1);
	check(100, 1, 1);
	check(1472, 1, 1);
}

TEST(bursts_of_many_peers_take_no_atomic_operation)
{
	check(1, 32, 16);
	check(1472, 32, 16);
}

/* Runs echoes that take message_ns each, one per turn. Returns the number of clock readings. */
static uint64_t
clock_reads(struct hot *h, uint64_t message_ns)
{
	*h = (struct hot){ .message_ns = message_ns, .clock_ns = 1000 * MS };
	hot_run(h, 1, 1, 1);
	CHECK_EQ(h->after.turns - h->before.turns, ROUNDS);
	return h->after.clock_reads - h->before.clock_reads;
}

/* Once per full burst if messages are quick, each turn if they are slow; the reading is never much too old. */
TEST(slow_messages_read_the_clock_more_often)
{
	static struct hot h;
	uint64_t reads = clock_reads(&h, 100);

	CHECK(reads >= ROUNDS / XK_BURST && reads <= ROUNDS / XK_BURST + 1);
	CHECK(h.oldest_ns < XK_BURST * 100);
	reads = clock_reads(&h, 30 * US);
	CHECK(reads > ROUNDS / 4 && reads < ROUNDS / 2);
	CHECK(h.oldest_ns >= 30 * US && h.oldest_ns < 200 * US);
	CHECK_EQ(clock_reads(&h, MS), ROUNDS);
	CHECK(h.oldest_ns == 0);
}

/* Proves that the test can fail: calls that open sessions are counted. */
TEST(atomic_operations_are_counted_in_debug_builds)
{
	static struct hot h;

	hot_run(&h, 1, 1, 16);
#ifdef XK_DEBUG
	CHECK(h.atomics_before > 16);
#else
	CHECK_EQ(h.atomics_before, 0);
#endif
}
