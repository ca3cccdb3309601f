/*
 * test_lines.c - two drivers side by side: neither touches a cache line that the other writes for each message. The
 * compiler's calls for the thread sanitizer show the memory each of them touches; without them, this only tests that
 * both echo.
 */
#include <execinfo.h>
#include <sched.h>
#include <unistd.h>

#include "platform/sim/memory.h"
#include "protocols/test/udptest.h"
#include "tests/compose.h"
#include "tools/bench/echo_rig.h"
#include "xkernel/engine/engine.h"

/* ---- the trace ---- */

enum { LINES = 1 << 14, LINE = 64, DRIVERS = 2 };

struct touched {
	uintptr_t line; /* 0: none */
	void *reader, *writer;
};

struct trace {
	struct touched touched[LINES];
};

static struct trace traces[DRIVERS];
static _Thread_local struct trace *tracing;

#define UNTRACED __attribute__((no_sanitize("thread"), noinline))

#if defined(__SANITIZE_THREAD__)

/* The C library's calls still reach the sanitizer, which has not seen their synchronization: disable its reports. */
const char *__tsan_default_options(void);
const char *
__tsan_default_options(void)
{
	return "report_bugs=0";
}

UNTRACED static struct touched *
trace_find(struct trace *trace, uintptr_t line)
{
	size_t at = line * UINT64_C(0x9e3779b97f4a7c15) >> 50;

	while (trace->touched[at % LINES].line != 0 && trace->touched[at % LINES].line != line)
		at++;
	return &trace->touched[at % LINES];
}

UNTRACED static void
trace_touch(const volatile void *p, size_t len, bool writes, void *by)
{
	struct trace *trace = tracing;

	if (trace == NULL)
		return;
	for (uintptr_t line = (uintptr_t)p / LINE; line <= ((uintptr_t)p + len - 1) / LINE; line++) {
		struct touched *touched = trace_find(trace, line);

		touched->line = line;
		*(writes ? &touched->writer : &touched->reader) = by;
	}
}

#define BY __builtin_return_address(0)
#define HOOK(name, len, writes)                                                                                        \
	void name(void *p);                                                                                            \
	UNTRACED void name(void *p)                                                                                    \
	{                                                                                                              \
		trace_touch(p, len, writes, BY);                                                                       \
	}
#define HOOKS(len)                                                                                                     \
	HOOK(__tsan_read##len, len, false)                                                                             \
	HOOK(__tsan_write##len, len, true)                                                                             \
	HOOK(__tsan_unaligned_read##len, len, false)                                                                   \
	HOOK(__tsan_unaligned_write##len, len, true)

HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

#define RANGE(name, writes)                                                                                            \
	void name(void *p, long len);                                                                                  \
	UNTRACED void name(void *p, long len)                                                                          \
	{                                                                                                              \
		if (len > 0)                                                                                           \
			trace_touch(p, (size_t)len, writes, BY);                                                       \
	}
RANGE(__tsan_read_range, false)
RANGE(__tsan_write_range, true)

/* Defines a hook that records an access to the object `at` and performs it. */
#define ATOMIC(type, name, parameters, writes, performed)                                                              \
	type name parameters;                                                                                          \
	UNTRACED type name parameters                                                                                  \
	{                                                                                                              \
		trace_touch(at, 1, writes, BY);                                                                        \
		performed;                                                                                             \
	}
#define CHANGE(type, bits, operation)                                                                                  \
	ATOMIC(type, __tsan_atomic##bits##_##operation, (volatile void *at, type value, int order), true,              \
	       return __atomic_##operation((volatile type *)at, value, __ATOMIC_SEQ_CST))
#define SWAP(type, bits, operation)                                                                                    \
	ATOMIC(_Bool, __tsan_atomic##bits##_##operation,                                                               \
	       (volatile void *at, void *expected, type value, int order, int other), true,                            \
	       return __atomic_compare_exchange_n((volatile type *)at, (type *)expected, value, false,                 \
						  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
#define ATOMICS(type, bits)                                                                                            \
	ATOMIC(type, __tsan_atomic##bits##_load, (const volatile void *at, int order), false,                          \
	       return __atomic_load_n((const volatile type *)at, __ATOMIC_SEQ_CST))                                    \
	ATOMIC(void, __tsan_atomic##bits##_store, (volatile void *at, type value, int order), true,                    \
	       __atomic_store_n((volatile type *)at, value, __ATOMIC_SEQ_CST))                                         \
	ATOMIC(type, __tsan_atomic##bits##_exchange, (volatile void *at, type value, int order), true,                 \
	       return __atomic_exchange_n((volatile type *)at, value, __ATOMIC_SEQ_CST))                               \
	CHANGE(type, bits, fetch_add)                                                                                  \
	CHANGE(type, bits, fetch_sub)                                                                                  \
	CHANGE(type, bits, fetch_or)                                                                                   \
	CHANGE(type, bits, fetch_and)                                                                                  \
	SWAP(type, bits, compare_exchange_strong)                                                                      \
	SWAP(type, bits, compare_exchange_weak)

ATOMICS(unsigned char, 8)
ATOMICS(unsigned short, 16)
ATOMICS(unsigned, 32)
ATOMICS(unsigned long, 64)

/* Prints the lines that one driver wrote and the other touched. Returns their number. */
static unsigned
trace_shared(struct trace *one, struct trace *other)
{
	unsigned shared = 0;

	for (unsigned i = 0; i < LINES; i++) {
		struct touched *mine = &one->touched[i], *theirs;

		if (mine->writer == NULL || (theirs = trace_find(other, mine->line))->line == 0)
			continue;
		shared++;
		fprintf(stderr, "line %#zx is written here, and touched there:\n", (size_t)mine->line * LINE);
		backtrace_symbols_fd(&mine->writer, 1, STDERR_FILENO);
		backtrace_symbols_fd(theirs->writer != NULL ? &theirs->writer : &theirs->reader, 1, STDERR_FILENO);
	}
	return shared;
}

#else

static unsigned
trace_shared(struct trace *one, struct trace *other)
{
	return one->touched[0].line != 0 || other->touched[0].line != 0;
}

#endif

/* ---- a host with two drivers, each with its lane of the port and peers of its own ---- */

#define GRAPH                                                                                                          \
	"digraph lines { udptest -> udp; udp -> ip; ip -> vnet; vnet [address=\"10.0.0.2/8\"];"                        \
	"vnet -> eth; vnet -> arp; arp -> eth; eth -> port; }"

enum { ROUNDS = 2000, PEERS = 16 };

struct lane {
	_Alignas(2 * LINE) struct echo_rig rig;
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct trace *trace;
	uint64_t traced; /* rounds */
	bool is_warm;    /* all drivers are */
	_Atomic unsigned *cold, *left;
};

/* Begins only once each driver has its sessions and paths. */
static void
lane_counting(void *context)
{
	struct lane *lane = context;

	atomic_fetch_sub(lane->cold, 1);
	while (atomic_load(lane->cold) > 0)
		sched_yield();
	lane->is_warm = true;
}

/* Receives nothing until the warm-up's retired objects are freed (no message causes that); then begins the trace. */
static unsigned
lane_receive(void *context, struct xk_msg **frames, unsigned max)
{
	struct lane *lane = context;

	if (lane->is_warm && tracing == NULL) {
		if (atomic_load(&lane->kernel->epochs.retired) != 0)
			return 0;
		tracing = lane->trace;
		lane->traced = lane->rig.batches.end - lane->rig.made;
	}
	return echo_rig_receive(&lane->rig, frames, max);
}

static unsigned
lane_transmit(void *context, struct xk_msg **frames, unsigned count)
{
	return echo_rig_transmit(&((struct lane *)context)->rig, frames, count);
}

static void
lane_finished(void *context)
{
	struct lane *lane = context;

	tracing = NULL;
	lane->is_warm = false;
	if (atomic_fetch_sub(lane->left, 1) == 1)
		xk_kernel_halt(lane->kernel);
}

/* Echoes size bytes, in bursts, to `peers` peers of each driver. Returns the number of shared lines. */
static unsigned
run(uint32_t size, uint32_t burst, uint32_t peers, bool paths)
{
	static const struct echo_end server = { UINT64_C(0x020000000001), 0x0a000002, XK_UDPTEST_PORT };
	static struct lane lanes[DRIVERS];
	struct xk_kernel *kernel = NULL;
	struct xk_protocol *failed;
	_Atomic unsigned cold = DRIVERS, left = DRIVERS;

	memset(traces, 0, sizeof(traces));
	for (unsigned i = 0; i < DRIVERS; i++) {
		struct xk_platform *platform = xk_memory_platform_new(XK_MEMORY_REAL);
		const struct xk_kernel_config config = {
			.name = "lines", .platform = platform, .mode = XK_IPP, .driver = XK_DRIVER_POLL, .core = -1
		};

		REQUIRE(platform != NULL);
		xk_memory_platform_recycle(platform, true);
		if (i == 0)
			kernel = xk_kernel_new(&config);
		else
			REQUIRE(xk_kernel_add_driver(kernel, platform, -1) == (int)i);
		lanes[i] = (struct lane){
			.platform = platform, .kernel = kernel, .trace = &traces[i], .cold = &cold, .left = &left
		};
		lanes[i].rig = (struct echo_rig){ .platform = platform,
						  .first = i * PEERS,
						  .sessions = peers,
						  .burst = burst,
						  .rounds = ROUNDS,
						  .counting = lane_counting,
						  .finished = lane_finished,
						  .context = &lanes[i] };
		echo_rig_init(&lanes[i].rig, &server, size);
	}
	for (unsigned i = 0; i < DRIVERS; i++) {
		struct xk_port *port = xk_memory_port_new(lanes[i].platform, "port", server.link, 1500);

		REQUIRE(port != NULL);
		port->driver = i;
		xk_memory_loop(port, lane_receive, lane_transmit, &lanes[i]);
		xk_kernel_add_port(kernel, port);
	}
	compose(kernel, NULL, GRAPH);
	xk_kernel_set_paths(kernel, paths);
	REQUIRE(xk_kernel_init(kernel, &failed) == 0);
	xk_kernel_run(kernel);
	for (unsigned i = 0; i < DRIVERS; i++)
		CHECK(lanes[i].rig.wrong == NULL && lanes[i].rig.done && lanes[i].traced > ROUNDS / 2);
	xk_kernel_free(kernel);
	for (unsigned i = 0; i < DRIVERS; i++)
		xk_memory_platform_free(lanes[i].platform);
	return trace_shared(&traces[0], &traces[1]) + trace_shared(&traces[1], &traces[0]);
}

TEST(drivers_write_no_shared_cache_line)
{
	CHECK_EQ(run(1, 1, 1, true), 0);
	CHECK_EQ(run(1, 32, PEERS, true), 0);
	CHECK_EQ(run(1, 1, 1, false), 0);
}
