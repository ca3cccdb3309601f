/*
 * test_hot.c - what an echo does not do, from the port through the whole graph and back: a message that stays in its driver
 * takes no atomic read-modify-write (counted in debug builds: counted.h), no lock, no other stack, and the driver reads the
 * clock at most once a turn.
 */
#include "platform/sim/memory.h"
#include "protocols/udptest.h"
#include "tests/compose.h"
#include "tools/echo_rig.h"
#include "xkernel/engine.h"

#define GRAPH                                                                                                          \
	"digraph hot { udptest -> udp; udp -> ip; ip -> vnet; vnet [address=\"10.0.0.2/8\"];"                          \
	"vnet -> eth; vnet -> arp; arp -> eth; eth -> port; }"

enum { ROUNDS = 2000 };

struct hot {
	struct xk_kernel *kernel;
	struct echo_rig rig;
	struct xk_kernel_stats before, after;
	uint64_t atomics_before, atomics_after;
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

/* ROUNDS echoes of size bytes, in bursts, of so many peers. */
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
	xk_memory_platform_recycle(platform);
	h->kernel = xk_kernel_new(&config);
	port = xk_memory_port_new(platform, "port", server.link, 1500);
	REQUIRE(h->kernel != NULL && port != NULL);
	xk_memory_loop(port, echo_rig_receive, echo_rig_transmit, &h->rig);
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

TEST(an_echo_takes_no_atomic_operation_and_one_look_at_the_clock)
{
	check(1, 1, 1);
	check(100, 1, 1);
	check(1472, 1, 1);
}

TEST(nor_do_bursts_of_many_peers)
{
	check(1, 32, 16);
	check(1472, 32, 16);
}

/* So that the test can fail: what opens sessions is counted. */
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
