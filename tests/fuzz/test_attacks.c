/*
 * test_attacks.c - known attacks on reassembly and parsers, replayed on the whole UDP graph over a real port. Each is
 * counted under its name, takes bounded memory, and leaves the others served; rig_free checks that nothing is left.
 *
 * The program is linked with malloc and its like wrapped, so that memory can be short while a frame is carried.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "protocols/arp.h"
#include "protocols/ip_private.h"
#include "protocols/udptest.h"
#include "tests/rig.h"

enum {
	HOST = 0x0a4d0002,
	PEER = 0x0a4d0110,
	OTHER = 0x0a4d0220,
	LONGEST = 65515,
	DATAGRAMS = 16, /* the settings of graph() */
	FRAGMENTS = 64,
	SOURCE_DATAGRAMS = 4,
	SOURCE_FRAGMENTS = 48,
	DATAGRAM_FRAGMENTS = 46,
};

/* ---- memory that is short ---- */

/* How many allocations of the code under test are left until one fails; UINT_MAX: none does. */
static unsigned allocations_left = UINT_MAX;
static bool allocation_failed;
static bool set_up_is_tested; /* otherwise what allocates outside of shepherds is the test */

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
	if (allocations_left == UINT_MAX || (xk_self() == NULL && !set_up_is_tested) || allocations_left-- > 0)
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

/* ---- frames ---- */

static struct rig *
graph(void)
{
	return rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.2/16; ip: vnet;"
			     "ip.reassembly_datagrams=16; ip.reassembly_fragments=64; ip.reassembly_source_datagrams=4;"
			     "ip.reassembly_source_fragments=48; ip.reassembly_datagram_fragments=46;"
			     "ip.reassembly_timeout=2s; ip.sessions=4; udp: ip; udp.sessions=4; udptest: udp");
}

/* A fragment, or (offset 0, more false) a whole datagram, as it is sent. */
struct piece {
	uint32_t source;
	uint16_t id;
	size_t offset, len;
	bool more;
	uint8_t protocol;    /* 0: UDP */
	uint16_t fragment;   /* bits to set besides */
	size_t claimed;      /* the IP header's length; 0: the right one */
	const uint8_t *data; /* the datagram; NULL: zeros */
};

static void
attack(struct rig *r, struct piece piece)
{
	static uint8_t frame[14 + 20 + LONGEST];
	uint8_t *p = frame + 14;

	xk_put48(frame, UINT64_C(0x020000000001));
	xk_put48(frame + 6, UINT64_C(0x020000000000) | piece.source);
	xk_put16(frame + 12, 0x0800);
	ip_header_prepare(p, 64, piece.protocol == 0 ? 17 : piece.protocol, piece.source, HOST);
	xk_put16(p + IP_LENGTH, (uint16_t)(piece.claimed != 0 ? piece.claimed : 20 + piece.len));
	xk_put16(p + IP_ID, piece.id);
	xk_put16(p + IP_FRAGMENT, (uint16_t)(piece.offset / 8 | (piece.more ? IP_MORE : 0) | piece.fragment));
	xk_checksum_store(p + IP_CHECKSUM, xk_checksum_finish(ip_header_sum(p)));
	if (piece.data != NULL)
		memcpy(p + 20, piece.data + piece.offset, piece.len);
	else
		memset(p + 20, 0, piece.len);
	rig_inject_bytes(r, frame, 14 + 20 + piece.len);
}

static void
zeros(struct rig *r, uint32_t source, uint16_t id, size_t offset, size_t len, bool more)
{
	attack(r, (struct piece){ .source = source, .id = id, .offset = offset, .len = len, .more = more });
}

/* Makes a UDP datagram of len bytes in all for the server. */
static void
make_udp(uint8_t *p, uint32_t source, size_t len, uint8_t fill)
{
	uint8_t pseudo[12] = { [9] = 17 };

	memset(p, fill, len);
	xk_put16(p, 7);
	xk_put16(p + 2, XK_UDPTEST_PORT);
	xk_put16(p + 4, (uint16_t)len);
	xk_put16(p + 6, 0);
	xk_put32(pseudo, source);
	xk_put32(pseudo + 4, HOST);
	xk_put16(pseudo + 10, (uint16_t)len);
	xk_checksum_store(p + 6, xk_checksum_finish(xk_sum(xk_sum(0, pseudo, sizeof(pseudo)), p, len)));
}

static const struct ip_reassembly *
table(struct rig *r)
{
	return &((struct ip *)rig_protocol(r, "ip"))->reassembly;
}

/* Whether a well-behaved host's datagram, in `count` fragments, comes back. */
static bool
is_served(struct rig *r, uint32_t source, uint16_t id, unsigned count)
{
	uint8_t datagram[2000];
	unsigned before = rig_sent(r);
	size_t piece = 1600 / count & ~7u, at = 0;

	make_udp(datagram, source, count == 1 ? 100 : 1600, 's');
	if (count == 1)
		attack(r, (struct piece){ .source = source, .id = id, .len = 100, .data = datagram });
	for (unsigned i = 0; i < count && count > 1; i++, at += piece) {
		bool more = i < count - 1;
		size_t len = more ? piece : 1600 - at;

		attack(r, (struct piece){ source, id, at, len, more, .data = datagram });
	}
	return rig_sent(r) == before + (count == 1 ? 1u : 2u);
}

/* Nothing has been put together, and the others are served, also in fragments. */
static void
end(struct rig *r)
{
	rig_expect_nothing_sent(r);
	CHECK(is_served(r, OTHER, 4711, 1));
	CHECK(is_served(r, OTHER, 4712, 3));
	rig_forget(r);
	rig_advance_ms(r, 5000);
	CHECK_EQ(table(r)->datagrams, 0);
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
	rig_free(r);
}

/* ---- fragments that lie about where they are ---- */

/* The second fragment ends inside the first: the length of what it adds is negative (1997). */
TEST(teardrop)
{
	struct rig *r = graph();

	zeros(r, PEER, 242, 0, 40, true);
	zeros(r, PEER, 242, 24, 4, false);
	CHECK_EQ(rig_counter_of(r, "ip", "overlap"), 2);
	end(r);
}

/* The same the other way round, and with a hole filled twice ("bonk", "boink", "newtear"). */
TEST(teardrop_in_other_orders)
{
	struct rig *r = graph();

	zeros(r, PEER, 1, 24, 4, false);
	zeros(r, PEER, 1, 0, 40, true);
	CHECK_EQ(rig_counter_of(r, "ip", "overlap") + rig_counter_of(r, "ip", "inconsistent"), 2);
	zeros(r, PEER, 2, 0, 16, true);
	zeros(r, PEER, 2, 32, 16, false);
	zeros(r, PEER, 2, 8, 32, true);
	CHECK_EQ(rig_counter_of(r, "ip", "overlap") + rig_counter_of(r, "ip", "inconsistent"), 5);
	end(r);
}

/* More than 65,535 bytes in all: the last fragment goes over the end (CA-1996-26). */
TEST(ping_of_death)
{
	struct rig *r = graph();
	size_t at = 0;

	for (; at + 1480 <= LONGEST; at += 1480)
		zeros(r, PEER, 1, at, 1480, true);
	zeros(r, PEER, 1, at, 1480, false);
	CHECK_EQ(rig_counter_of(r, "ip", "too_long"), 1);
	zeros(r, PEER, 2, 65528, 8, false);
	zeros(r, PEER, 3, 65528, 1480, true);
	zeros(r, PEER, 4, 65512, 4, false);
	CHECK_EQ(rig_counter_of(r, "ip", "too_long"), 4);
	/* what was right by itself waits for an end that cannot come */
	CHECK_EQ(table(r)->fragments, 44);
	end(r);
}

/* One fragment without end, as fast as the link goes (2000). */
TEST(jolt2)
{
	struct rig *r = graph();

	for (unsigned i = 0; i < 3000; i++)
		zeros(r, PEER, 1109, 65504, 9, false);
	CHECK_EQ(rig_counter_of(r, "ip", "duplicate"), 2999);
	CHECK_EQ(table(r)->fragments, 1);
	for (unsigned i = 0; i < 100; i++)
		attack(r, (struct piece){ PEER, 1109, 65504, 9, false, .claimed = 68 });
	CHECK_EQ(rig_counter_of(r, "ip", "bad_length"), 100);
	end(r);
}

/* The storm that begins at zero. */
TEST(the_same_first_fragment_without_end)
{
	struct rig *r = graph();

	for (unsigned i = 0; i < 3000; i++)
		zeros(r, PEER, 7, 0, 1480, true);
	CHECK_EQ(rig_counter_of(r, "ip", "duplicate"), 2999);
	end(r);
}

/* The first fragment is longer than the datagram (CVE-2019-14378). */
TEST(a_first_fragment_longer_than_its_datagram)
{
	struct rig *r = graph();

	zeros(r, PEER, 1, 16, 8, false);
	zeros(r, PEER, 1, 0, 1480, true);
	zeros(r, PEER, 2, 24, 8, false);
	zeros(r, PEER, 2, 32, 1480, true);
	CHECK_EQ(rig_counter_of(r, "ip", "overlap"), 2);
	CHECK_EQ(rig_counter_of(r, "ip", "inconsistent"), 2);
	end(r);
}

/* ---- what a filter would not see ---- */

/* Ports in the second fragment (RFC 1858), or written over by it (RFC 3128). */
TEST(tiny_first_fragments)
{
	struct rig *r = graph();

	for (unsigned len = 1; len < 8; len++)
		zeros(r, PEER, (uint16_t)len, 0, len, true);
	CHECK_EQ(rig_counter_of(r, "ip", "tiny"), 7);
	CHECK_EQ(table(r)->datagrams, 0);
	zeros(r, PEER, 9, 0, 16, true);
	zeros(r, PEER, 9, 8, 16, false);
	CHECK_EQ(rig_counter_of(r, "ip", "overlap"), 2);
	end(r);
}

/* Other ports for the same place: the first that came must not be replaced, nor the second be taken. */
TEST(a_first_fragment_with_other_ports)
{
	struct rig *r = graph();
	uint8_t datagram[32], other[32];

	make_udp(datagram, PEER, sizeof(datagram), 'a');
	make_udp(other, PEER, sizeof(other), 'b');
	attack(r, (struct piece){ PEER, 9, 0, 16, true, .data = datagram });
	attack(r, (struct piece){ PEER, 9, 0, 16, true, .data = other });
	attack(r, (struct piece){ PEER, 9, 16, 16, false, .data = datagram });
	CHECK_EQ(rig_counter_of(r, "ip", "overlap"), 2);
	CHECK_EQ(rig_counter_of(r, "ip", "refused_datagram"), 1);
	end(r);
}

/* IP in IP, in fragments (CVE-2020-11896): nobody here wants it, so nothing is kept of it. */
TEST(fragments_of_a_protocol_that_nobody_wants)
{
	struct rig *r = graph();

	for (uint16_t id = 0; id < 100; id++)
		attack(r, (struct piece){ PEER, id, 0, 1480, true, .protocol = 4 });
	CHECK_EQ(rig_counter_of(r, "ip", "no_session"), 100);
	CHECK_EQ(table(r)->datagrams, 0);
	end(r);
}

TEST(the_evil_bit)
{
	struct rig *r = graph();

	attack(r, (struct piece){ PEER, 1, 0, 64, false, .fragment = IP_RESERVED });
	attack(r, (struct piece){ PEER, 1, 0, 64, true, .fragment = IP_RESERVED });
	CHECK_EQ(rig_counter_of(r, "ip", "bad_flags"), 2);
	end(r);
}

/* The sender is who is spoken to (1997), or one who would answer the answer. */
TEST(land_and_echo_loops)
{
	struct rig *r = graph();
	uint8_t datagram[32];

	make_udp(datagram, HOST, sizeof(datagram), 'a');
	attack(r, (struct piece){ HOST, 1, 0, sizeof(datagram), false, .data = datagram });
	CHECK_EQ(rig_counter_of(r, "ip", "bad_source"), 1);
	attack(r, (struct piece){ HOST, 2, 0, 16, true, .data = datagram });
	CHECK_EQ(rig_counter_of(r, "ip", "bad_source"), 2);
	make_udp(datagram, PEER, sizeof(datagram), 'a');
	xk_put16(datagram, XK_UDPTEST_PORT);
	xk_put16(datagram + 6, 0);
	attack(r, (struct piece){ PEER, 3, 0, sizeof(datagram), false, .data = datagram });
	CHECK_EQ(rig_counter_of(r, "udp", "refused"), 1);
	end(r);
}

/* Layers that disagree on a length: UDP's beyond IP's, and below it. */
TEST(lengths_that_differ_between_layers)
{
	struct rig *r = graph();
	uint8_t datagram[64];

	make_udp(datagram, PEER, sizeof(datagram), 'a');
	xk_put16(datagram + 4, 65);
	attack(r, (struct piece){ PEER, 1, 0, 32, true, .data = datagram });
	attack(r, (struct piece){ PEER, 1, 32, 32, false, .data = datagram });
	xk_put16(datagram + 4, 7);
	attack(r, (struct piece){ PEER, 2, 0, 32, true, .data = datagram });
	attack(r, (struct piece){ PEER, 2, 32, 32, false, .data = datagram });
	CHECK_EQ(rig_counter_of(r, "udp", "bad_length"), 2);
	/* a header of UDP alone, and then something */
	make_udp(datagram, PEER, 8, 0);
	attack(r, (struct piece){ PEER, 3, 0, 8, true, .data = datagram });
	attack(r, (struct piece){ PEER, 3, 8, 40, false, .data = datagram });
	rig_expect_sent(r, "0200 0a4d0110 020000000001 0800 4500001c *");
	end(r);
}

/* Identifications wrap: fragments of two datagrams that have the same one (RFC 4963) do not pass the checksum. */
TEST(fragments_of_two_datagrams_with_one_identification)
{
	struct rig *r = graph();
	uint8_t old[64], new[64];

	make_udp(old, PEER, sizeof(old), 'a');
	make_udp(new, PEER, sizeof(new), 'b');
	attack(r, (struct piece){ PEER, 1, 0, 32, true, .data = old });
	attack(r, (struct piece){ PEER, 1, 32, 32, false, .data = new });
	CHECK_EQ(rig_counter_of(r, "ip", "reassembled"), 1);
	CHECK_EQ(rig_counter_of(r, "udp", "bad_checksum"), 1);
	end(r);
}

/* ---- floods ---- */

TEST(a_flood_of_fragments_from_many_sources)
{
	struct rig *r = graph();

	for (uint16_t i = 0; i < 3000; i++) {
		zeros(r, PEER + i, i, i % 2 == 0 ? 0 : 1480, 1480, true);
		CHECK(table(r)->datagrams <= DATAGRAMS && table(r)->fragments <= FRAGMENTS);
		CHECK(rig_platform(r)->ops->buffers_out(rig_platform(r)) <= FRAGMENTS);
	}
	CHECK_EQ(rig_counter_of(r, "ip", "evicted"), 3000 - DATAGRAMS);
	CHECK(rig_protocol(r, "ip")->cache_count <= 4);
	end(r);
}

/* One source takes its own share, and what others have begun stays. */
TEST(a_flood_of_fragments_from_one_source)
{
	struct rig *r = graph();
	uint8_t datagram[64];

	make_udp(datagram, OTHER, sizeof(datagram), 'a');
	attack(r, (struct piece){ OTHER, 1, 32, 32, false, .data = datagram });
	for (uint16_t i = 0; i < 3000; i++) {
		zeros(r, PEER, i, 0, 1480, true);
		CHECK(table(r)->datagrams <= SOURCE_DATAGRAMS + 1 && table(r)->fragments <= SOURCE_FRAGMENTS + 1);
	}
	attack(r, (struct piece){ OTHER, 1, 0, 32, true, .data = datagram });
	rig_expect_sent(r, "0200 0a4d0220 020000000001 0800 *");
	end(r);
}

/* FragmentSmack (CVE-2018-5391): the smallest fragments, apart from each other, so that each must find its place. */
TEST(small_fragments_apart_from_each_other)
{
	struct rig *r = graph();

	for (uint32_t i = 0; i < 2000; i++) {
		zeros(r, PEER, (uint16_t)(i / 1000), 65504 - i % 1000 * 16, 8, true);
		CHECK(table(r)->fragments <= DATAGRAM_FRAGMENTS);
	}
	CHECK_EQ(rig_counter_of(r, "ip", "too_many"), 2 * (DATAGRAM_FRAGMENTS + 1));
	CHECK_EQ(rig_counter_of(r, "ip", "refused_datagram"), 2 * (1000 - DATAGRAM_FRAGMENTS - 1));
	end(r);
}

/* The later fragment first, and the table full: who comes to complete a datagram must not find it half gone. */
TEST(later_fragments_first_with_a_full_table)
{
	struct rig *r = graph();
	uint8_t datagram[64];
	unsigned whole = 0;

	for (uint32_t i = 0; i < 2 * DATAGRAMS; i++)
		zeros(r, PEER + i, 5, 32, 32, false);
	CHECK_EQ(rig_counter_of(r, "ip", "evicted"), DATAGRAMS);
	/* half of these are gone: their first fragments begin datagrams, and each evicts one more */
	for (uint32_t i = 2 * DATAGRAMS; i-- > 0;) {
		make_udp(datagram, PEER + i, sizeof(datagram), 0);
		attack(r, (struct piece){ PEER + i, 5, 0, 32, true, .data = datagram });
		whole = (unsigned)rig_counter_of(r, "ip", "reassembled");
		CHECK(table(r)->datagrams <= DATAGRAMS);
	}
	CHECK_EQ(whole, DATAGRAMS);
	CHECK_EQ(rig_sent(r), DATAGRAMS);
	rig_forget(r);
	end(r);
}

/* Who waits and sends a little now and then does not hold its place for longer. */
TEST(slow_fragments_are_not_waited_for_longer)
{
	struct rig *r = graph();

	for (unsigned i = 0; i < 40; i++) {
		zeros(r, PEER, 1, i * 8, 8, true);
		rig_advance_ms(r, 100);
	}
	CHECK(rig_counter_of(r, "ip", "timed_out") >= 20);
	end(r);
}

/* ---- memory that fails at every step ---- */

static long
accounted(struct rig *r)
{
	return rig_drops(r) + rig_counter_of(r, "udptest", "messages") + (long)table(r)->fragments;
}

/* A new peer's datagram in three fragments, the last first. */
static void
inject_three(struct rig *r)
{
	uint8_t datagram[2000];

	make_udp(datagram, PEER, sizeof(datagram), 'x');
	attack(r, (struct piece){ PEER, 1, 1600, 400, false, .data = datagram });
	attack(r, (struct piece){ PEER, 1, 0, 800, true, .data = datagram });
	attack(r, (struct piece){ PEER, 1, 800, 800, true, .data = datagram });
}

/* The n-th allocation on the way up and down again fails: sessions of every layer, buffers, tables. */
TEST(every_allocation_may_fail_once)
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
			CHECK(rig_drops(r) + (long)rig_sent(r) > 0);
			CHECK(accounted(r) >= 1);
		}
		/* afterwards all is well */
		CHECK(is_served(r, OTHER, 4711, 1));
		CHECK(is_served(r, PEER, 4712, 3));
		rig_forget(r);
		rig_advance_ms(r, 5000);
		CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
		rig_free(r);
	}
	CHECK(steps > 6 && steps < 200);
}

/* A host as graph makes it; whatever there is of it in the end is given back. Whether it came to be. */
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

TEST(every_allocation_of_a_host_may_fail_once)
{
	static const char text[] = "digraph g { udptest -> udp -> ip -> vnet -> eth -> port; vnet -> arp -> eth;"
				   "vnet [address=\"10.77.0.2/24\"]; ip [routes=\"10.9.0.0/16=10.77.0.1\"] }";
	struct xk_platform *platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
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
	xk_memory_platform_free(platform);
}

/* A stranger's call, for which there is no memory; when there is, he is answered. */
TEST(every_allocation_of_a_call_may_fail_once)
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
		/* one that was heard may be without an answer: he calls again */
		CHECK(rig_drops(r) + rig_counter_of(r, "stopwait", "called") > 0);
		CHECK(failed || rig_sent(r) == 1);
		rig_forget(r);
		attack(r, (struct piece){ .source = PEER, .len = sizeof(call), .protocol = 253, .data = call });
		CHECK_EQ(rig_sent(r), 1);
		rig_forget(r);
		rig_free(r);
	}
	CHECK(steps > 2 && steps < 50);
}

/* ---- fragments of BLAST's ---- */

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

/* Fragment i of two, of a byte each, of the user's message `sequence`. */
static void
blast_fragment(struct rig *r, uint8_t sequence, uint8_t i)
{
	const uint8_t frame[] = { 2,    0, 0, 0,    0, 1, 2, 0, 0,        0, 0, 0xaa,   0x30,
				  0x01, 0, 0, 0x30, 0, 0, 0, 0, sequence, 0, 0, 0,      1,
				  0,    2, 1, 64,   0, 0, 0, 0, 0,        0, 0, 1 << i, 'a' + i };

	rig_inject_bytes(r, frame, sizeof(frame));
}

/* A stranger's fragment, for which there is no memory; when there is, he is heard. */
TEST(every_allocation_of_a_fragment_may_fail_once)
{
	unsigned steps = 0;

	for (bool failed = true; failed && steps < 50; steps++) {
		struct rig *r = blast_graph();

		allocation_failed = false;
		allocations_left = steps;
		blast_fragment(r, 1, 0);
		allocations_left = UINT_MAX;
		failed = allocation_failed;
		CHECK(!failed || rig_drops(r) <= 1);
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
end_output(const struct xk_arp_output *output, uint64_t link)
{
	xk_msg_free(output->m);
}

static void
output_without_memory(void *argument)
{
	struct rig *r = argument;
	struct xk_arp_output output = { .host = 0x0a4d0003, .send = end_output };

	output.m = xk_msg_new(rig_platform(r), 1);
	allocations_left = 0;
	CHECK_EQ(xk_arp_output(rig_protocol(r, "arp"), &output), -ENOBUFS);
	allocations_left = UINT_MAX;
}

/* Without memory to wait in, a message for a neighbour who is not known ends by name. */
TEST(a_message_that_cannot_wait_for_arp_is_dropped)
{
	struct rig *r =
		rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.2/16; user: vnet");

	CHECK(rig_do(r, output_without_memory, r));
	CHECK_EQ(rig_drops(r), 1);
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

/* A long message that is pushed: it is refused, or fragments of it are asked for again. */
TEST(every_allocation_of_a_long_message_may_fail_once)
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

/* The same with buffers: n can be had while the three fragments are carried and their echo is sent. */
TEST(every_buffer_may_be_missing)
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
		CHECK_EQ(rig_counter_of(r, "udptest", "messages"), 1);
		if (rig_counter_of(r, "udptest", "unsent") == 0) {
			CHECK_EQ(rig_sent(r), 2);
			CHECK_EQ(rig_drops(r), 0);
			served++;
		} else {
			CHECK(rig_drops(r) > 0);
		}
		rig_forget(r);
		CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
		end(r);
	}
	CHECK(served > 0 && served < 24);
}
