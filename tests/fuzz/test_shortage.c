/*
 * test_shortage.c - memory and buffers short at every step of a frame's path through the host, and while a host is set
 * up. Each failure is counted by name, and afterwards everything works; rig_free checks that nothing is left.
 *
 * The program wraps malloc and its relatives, so that memory can be short while a frame is carried.
 */
#include <errno.h>
#include <limits.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "protocols/arp/arp.h"
#include "tests/fuzz/attack.h"
#include "tests/protocols/discarded.h"
#include "tests/protocols/gm_rig.h"

/* ---- failing allocations ---- */

/* Number of allocations of the code under test before one fails; UINT_MAX: none does. */
static unsigned allocations_left = UINT_MAX;
static bool allocation_failed;
static bool set_up_is_tested; /* otherwise allocations outside of shepherds are the test's own */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static bool
must_fail(void)
{
	if (allocations_left == UINT_MAX || rig_allocates || (xk_self() == NULL && !set_up_is_tested) ||
	    allocations_left-- > 0)
		return false;
	allocations_left = UINT_MAX;
	allocation_failed = true;
	return true;
}

void *
__wrap_malloc(size_t size)
{
	return must_fail() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
	return must_fail() ? NULL : __real_calloc(count, size);
}

void *
__wrap_realloc(void *old, size_t size)
{
	return must_fail() ? NULL : __real_realloc(old, size);
}

char *
__wrap_strdup(const char *text)
{
	return must_fail() ? NULL : __real_strdup(text);
}

void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return must_fail() ? NULL : __real_aligned_alloc(alignment, size);
}

/* ---- failures at every step ---- */

static long
accounted(struct rig *r)
{
	return rig_drop_count(r) + rig_counter_of(r, "udptest", "messages") + (long)waiting_fragments(table(r));
}

/* Injects a new peer's datagram in three fragments, the last first. */
static void
inject_three(struct rig *r)
{
	uint8_t datagram[2000];

	make_udp(datagram, PEER, sizeof(datagram), 'x');
	attack(r, (struct piece){ PEER, 1, 1600, 400, false, .data = datagram });
	attack(r, (struct piece){ PEER, 1, 0, 800, true, .data = datagram });
	attack(r, (struct piece){ PEER, 1, 800, 800, true, .data = datagram });
}

/* The n-th allocation up the layers and down again fails: sessions of every layer, buffers, tables. */
TEST(any_allocation_may_fail)
{
	unsigned steps = 0;

	for (bool failed = true; failed && steps < 200; steps++) {
		struct rig *r = graph();

		allocation_failed = false;
		allocations_left = steps;
		inject_three(r);
		allocations_left = UINT_MAX;
		failed = allocation_failed;
		if (!failed) {
			CHECK_EQ(rig_sent(r), 2);
		} else {
			CHECK(rig_drop_count(r) + (long)rig_sent(r) > 0);
			CHECK(accounted(r) >= 1);
		}
		/* afterwards everything works */
		CHECK(is_served(r, OTHER, 4711, 1));
		CHECK(is_served(r, PEER, 4712, 3));
		rig_forget(r);
		rig_advance_ms(r, 5000);
		CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
		rig_free(r);
	}
	CHECK(steps > 6 && steps < 200);
}

/* Sets up a host from graph, and frees whatever was made. Returns true if it succeeded. */
static bool
set_up(const struct xk_graph *graph, struct xk_platform *platform, unsigned allocations)
{
	struct xk_kernel_config config = { .name = "host", .platform = platform, .stacks = 2, .core = -1 };
	struct xk_graph_errors errors = { 0 };
	struct xk_kernel *kernel = xk_kernel_new(&config);
	struct xk_port *port = xk_memory_port_new(platform, "port", 0x020000000001, 1500);
	struct xk_protocol *failed;
	bool good;

	REQUIRE(kernel != NULL && port != NULL);
	xk_kernel_add_port(kernel, port);
	allocations_left = allocations;
	set_up_is_tested = true;
	good = xk_graph_build(graph, kernel, &errors) == 0 && xk_kernel_init(kernel, &failed) == 0;
	set_up_is_tested = false;
	allocations_left = UINT_MAX;
	xk_graph_errors_clear(&errors);
	xk_kernel_free(kernel);
	return good;
}

TEST_WITH(any_allocation_of_a_host_may_fail, struct xk_platform *platform, xk_memory_platform_new(XK_MEMORY_VIRTUAL),
	  xk_memory_platform_free)
{
	static const char text[] = "digraph g { udptest -> udp -> ip -> vnet -> eth -> port; vnet -> arp -> eth;"
				   "vnet [address=\"10.77.0.2/24\"]; ip [routes=\"10.9.0.0/16=10.77.0.1\"] }";
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = xk_graph_read_text("g", text, strlen(text), &errors);
	unsigned steps = 0;

	REQUIRE(platform != NULL && graph != NULL && xk_graph_check(graph, xk_protocol_types, &errors) == 0);
	for (allocation_failed = true; allocation_failed && steps < 1000; steps++) {
		bool good;

		allocation_failed = false;
		good = set_up(graph, platform, steps);
		CHECK(good == !allocation_failed);
	}
	CHECK(steps > 30 && steps < 1000);
	xk_graph_free(graph);
}

/* A stranger's call fails for lack of memory, and is answered once there is some. */
TEST(any_allocation_of_a_call_may_fail)
{
	/* from port 0x2345 to port 7, of 30 bytes: a CALL of the end with the identifier 1 */
	static const uint8_t call[30] = { 0x23, 0x45, 0, 7, 0, 30, 0xdc, 0x93, 0, 1, [21] = 1 };
	struct xk_participants anybody = { .remote.depth = 0 };
	unsigned steps = 0;

	xk_participant_push(&anybody.local, 7);
	for (bool failed = true; failed && steps < 50; steps++) {
		struct rig *r = rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.2/16;"
					      "ip: vnet; stopwait: ip#253; user: stopwait");

		CHECK_EQ(rig_open_enable(r, anybody), 0);
		allocation_failed = false;
		allocations_left = steps;
		attack(r, (struct piece){ .source = PEER, .len = sizeof(call), .protocol = 253, .data = call });
		allocations_left = UINT_MAX;
		failed = allocation_failed;
		/* a received call may be unanswered: the peer calls again */
		CHECK(rig_drop_count(r) + rig_counter_of(r, "stopwait", "called") > 0);
		CHECK(failed || rig_sent(r) == 1);
		rig_forget(r);
		attack(r, (struct piece){ .source = PEER, .len = sizeof(call), .protocol = 253, .data = call });
		rig_expect_sent_count(r, 1);
		rig_free(r);
	}
	CHECK(steps > 2 && steps < 50);
}

/* A GM packet fails for lack of memory, and opens a session once there is some. (The rig allocates for deliveries.) */
TEST(any_allocation_of_a_packet_may_fail)
{
	unsigned steps = 0;

	for (bool failed = true; failed && steps < 50; steps++) {
		struct rig *r = gm_server("gm.buffers=0");

		allocation_failed = false;
		allocations_left = steps;
		inject_data(r, 105, 0, "one");
		allocations_left = UINT_MAX;
		failed = allocation_failed;
		CHECK_EQ(rig_drop_count(r), 1);
		CHECK(failed || rig_counter(r, "unposted") == 1);
		inject_data(r, 105, 0, "one");
		CHECK(rig_counter(r, "unposted") > 0);
		CHECK_EQ(rig_drop_count(r), 2);
		gm_rig_end(r);
	}
	CHECK(steps > 2 && steps < 50);
}

/* A call with its cookie fails for lack of memory, and opens a session once there is some. */
TEST(any_allocation_of_a_call_by_am_may_fail)
{
	static const uint8_t call[44] = { 1, 0, 0, 7, [15] = 12, [31] = 0x11, [33] = 9, [35] = 3 };
	struct xk_participants here = { .local = { 1, { 7 } } };
	unsigned steps = 0;

	for (bool failed = true; failed && steps < 50; steps++) {
		struct rig *r = rig_new("am");
		uint8_t bytes[44], answer[32];

		CHECK_EQ(rig_open_enable(r, here), 0);
		memcpy(bytes, call, sizeof(call));
		rig_inject_bytes(r, bytes, sizeof(bytes));
		CHECK_EQ(rig_take_sent(r, answer, sizeof(answer)), sizeof(answer));
		memcpy(bytes + 16, answer + 24, 8);
		allocation_failed = false;
		allocations_left = steps;
		rig_inject_bytes(r, bytes, sizeof(bytes));
		allocations_left = UINT_MAX;
		failed = allocation_failed;
		CHECK(failed || rig_counter(r, "accepted") == 1);
		rig_forget(r);
		rig_inject_bytes(r, bytes, sizeof(bytes));
		CHECK_EQ(rig_take_sent(r, answer, sizeof(answer)), sizeof(answer));
		CHECK_EQ(answer[0], 3);
		CHECK_EQ(rig_counter(r, "accepted"), 1);
		rig_free(r);
	}
	CHECK(steps > 2 && steps < 50);
}

/* ---- BLAST's fragments ---- */

static struct rig *
blast_graph(void)
{
	struct rig *r =
		rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.2/16; blast: vnet;"
			      "user: blast");
	struct xk_participants anybody = { .remote.depth = 0 };

	CHECK_EQ(rig_open_enable(r, anybody), 0);
	return r;
}

/* Injects fragment i of two, of a byte each, of the user's message `sequence`. */
static void
blast_fragment(struct rig *r, uint8_t sequence, uint8_t i)
{
	const uint8_t frame[] = { 2,    0, 0, 0,    0, 1, 2, 0, 0,        0, 0, 0xaa,   0x30,
				  0x01, 0, 0, 0x30, 0, 0, 0, 0, sequence, 0, 0, 0,      1,
				  0,    2, 1, 64,   0, 0, 0, 0, 0,        0, 0, 1 << i, 'a' + i };

	rig_inject_bytes(r, frame, sizeof(frame));
}

/* A stranger's fragment fails for lack of memory, and is accepted once there is some. */
TEST(any_allocation_of_a_fragment_may_fail)
{
	unsigned steps = 0;

	for (bool failed = true; failed && steps < 50; steps++) {
		struct rig *r = blast_graph();

		allocation_failed = false;
		allocations_left = steps;
		blast_fragment(r, 1, 0);
		allocations_left = UINT_MAX;
		failed = allocation_failed;
		CHECK(!failed || rig_drop_count(r) <= 1);
		blast_fragment(r, 2, 0);
		blast_fragment(r, 2, 1);
		rig_expect_delivered(r, "6162");
		rig_advance_ms(r, 2000);
		rig_advance_ms(r, 2000);
		rig_forget(r);
		rig_free(r);
	}
	CHECK(steps > 4 && steps < 50);
}

static void
output_without_memory(void *argument)
{
	struct rig *r = argument;
	struct xk_protocol *arp = rig_protocol(r, "arp");
	unsigned steps = 0;

	/* no entry, then an entry but no memory to wait in */
	for (; rig_counter_of(r, "arp", "no_memory") == 0 && steps < 5; steps++) {
		struct xk_arp_output output = { .m = xk_msg_new(rig_platform(r), 1) };

		allocations_left = steps;
		CHECK_EQ(xk_arp_ops(arp)->output(arp, 0x0a4d0003, &output), -ENOBUFS);
		allocations_left = UINT_MAX;
	}
	CHECK(steps > 1 && steps < 5);
	CHECK_EQ(rig_drop_count(r), (long)steps);
}

/* Without memory to wait in, a message for an unknown neighbour is dropped by name. */
TEST(message_that_cannot_wait_for_arp_is_dropped)
{
	struct rig *r =
		rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.2/16; user: vnet");

	CHECK(rig_do(r, output_without_memory, r));
	rig_forget(r);
	rig_free(r);
}

struct pushed {
	struct xk_session *session;
	struct xk_msg *m;
	int status;
};

static void
push_it(void *argument)
{
	struct pushed *p = argument;

	p->status = xk_push(p->session, p->m);
}

/* A long message is refused when pushed, or its fragments are requested again. */
TEST(any_allocation_of_a_long_message_may_fail)
{
	unsigned steps = 0;

	for (bool failed = true; failed && steps < 50; steps++) {
		struct rig *r = rig_new_graph("port:; eth: port; blast: eth; user: blast");
		struct pushed p = { rig_open(r, rig_to(UINT64_C(0x0200000000aa))), NULL, 0 };

		p.m = xk_msg_new(rig_platform(r), 4000);
		REQUIRE(p.session != NULL && p.m != NULL);
		memset(p.m->data, 0, p.m->len);
		memset(p.m->next->data, 0, p.m->next->len);
		allocation_failed = false;
		allocations_left = steps;
		REQUIRE(rig_do(r, push_it, &p));
		allocations_left = UINT_MAX;
		failed = allocation_failed;
		CHECK_EQ(p.status, rig_sent(r) > 0 ? 0 : -ENOBUFS);
		CHECK_EQ(rig_sent(r) < 3, failed);
		rig_forget(r);
		rig_advance_ms(r, 2000);
		rig_free(r);
	}
	CHECK(steps > 4 && steps < 50);
}

/* The same with buffers: n are available while the three fragments are carried and their echo is sent. */
TEST(any_buffer_may_be_missing)
{
	unsigned served = 0;

	for (unsigned n = 0; n < 24; n++) {
		struct rig *r = graph();
		uint8_t datagram[2000];

		make_udp(datagram, PEER, sizeof(datagram), 'x');
		attack(r, (struct piece){ PEER, 1, 1600, 400, false, .data = datagram });
		attack(r, (struct piece){ PEER, 1, 0, 800, true, .data = datagram });
		rig_limit_buffers(r, n + 1);
		attack(r, (struct piece){ PEER, 1, 800, 800, true, .data = datagram });
		rig_limit_buffers(r, UINT_MAX);
		if (n < 3) { /* IP may keep half of the buffers: too few for these fragments */
			CHECK_EQ(rig_counter_of(r, "udptest", "messages"), 0);
			CHECK_EQ(rig_drop_count(r), 3);
			rig_forget(r);
			end(r);
			continue;
		}
		CHECK_EQ(rig_counter_of(r, "udptest", "messages"), 1);
		if (rig_counter_of(r, "udptest", "unsent") == 0) {
			CHECK_EQ(rig_sent(r), 2);
			CHECK_EQ(rig_drop_count(r), 0);
			served++;
		} else {
			CHECK(rig_drop_count(r) > 0);
		}
		rig_forget(r);
		CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
		end(r);
	}
	CHECK(served > 0 && served < 24);
}
