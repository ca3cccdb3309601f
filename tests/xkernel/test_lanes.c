/*
 * test_lanes.c - whole graphs in kernels with several drivers, each with its lane of the device, and how an in-memory
 * wire chooses lanes.
 */
#include "graphs/graph.h"
#include "platform/lane.h"
#include "protocols/test/traffic.h"
#include "protocols/test/traffic_private.h"
#include "tests/xkernel/many.h"
#include "tools/bench/echo_frame.h"

/* ---- a whole graph: sessions come and go in all drivers ---- */

enum { CHURN_PEERS = 96, CHURN_SESSIONS = 6 };

static void
many_build_graph(struct many *h, const char *text)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = xk_graph_read_text("drivers", text, strlen(text), &errors);

	REQUIRE(graph != NULL && xk_graph_check(graph, xk_protocol_types, &errors) == 0);
	REQUIRE(xk_graph_build(graph, h->kernel, &errors) == 0);
	xk_graph_free(graph);
}

/* Makes a udptest server that keeps few sessions. */
static struct many *
server_new(unsigned drivers, enum xk_mode mode)
{
	struct xk_kernel_config config = { .mode = mode, .driver = XK_DRIVER_INTERRUPT, .threads = 2, .stacks = 16 };
	struct many *h = many_bare(drivers, &config);

	many_add_ports(h, "port");
	many_build_graph(h, "digraph server { udp [sessions=6]; ip [sessions=6]; eth [sessions=6];"
			    "vnet [address=\"10.1.0.1/8\", sessions=6];"
			    "udptest -> udp -> ip -> vnet; vnet -> eth; vnet -> arp -> eth; eth -> port }");
	many_start(h);
	return h;
}

/* Checks each lane's answers; discards other frames (ARP requests). */
static unsigned
churn_collect(struct many *h, const struct echo_frames *frames)
{
	uint8_t bytes[2048];
	struct xk_msg *m;

	for (unsigned lane = 0; lane < h->count; lane++) {
		while ((m = xk_memory_take(h->ports[lane])) != NULL) {
			uint32_t peer;

			REQUIRE(xk_msg_len(m) <= sizeof(bytes) && xk_msg_copy_out(m, 0, bytes, xk_msg_len(m)));
			for (peer = 0; peer < CHURN_PEERS; peer++)
				if (echo_frame_check(frames, peer, bytes, xk_msg_len(m)) == NULL)
					break;
			CHECK(peer < CHURN_PEERS);
			CHECK_EQ(lane_of_flow(m, h->count), lane);
			h->received[lane]++;
			xk_msg_free(m);
		}
	}
	return h->received[0] + h->received[1] + h->received[2];
}

/* Returns the messages dropped because their session was just being closed to make room. */
static unsigned
churn_dropped(struct many *h)
{
	unsigned dropped = 0;

	for (struct xk_protocol *p = xk_kernel_first(h->kernel); p != NULL; p = p->next)
		for (unsigned i = 1; i < xk_drop_count(p->type); i++)
			dropped += (unsigned)atomic_load(&p->drops[i]);
	return dropped;
}

static void
churn_inject(struct many *h, const struct echo_frames *frames, uint32_t peer)
{
	struct xk_msg *m = xk_memory_frame(h->platforms[0], frames->len);
	unsigned lane;

	REQUIRE(m != NULL);
	echo_frame_write(frames, peer, m->data);
	lane = lane_of_flow(m, h->count);
	xk_msg_free(m);
	m = xk_memory_frame(h->platforms[lane], frames->len);
	REQUIRE(m != NULL);
	echo_frame_write(frames, peer, m->data);
	while (!xk_memory_inject(h->ports[lane], m))
		REQUIRE(false);
	h->sent++;
}

static void
check_churn(unsigned drivers, enum xk_mode mode)
{
	const struct echo_end server = { 0x020000000001, 0x0a010001, 2001 };
	struct many *h = server_new(drivers, mode);
	struct echo_frames frames;

	echo_frames_init(&frames, &server, 64);
	frames.neighbours = true;
	for (unsigned round = 0; round < 30; round++) {
		for (uint32_t i = 0; i < CHURN_PEERS; i++)
			churn_inject(h, &frames, (i * 37 + round) % CHURN_PEERS);
		for (unsigned tries = 0; tries < 600000 && churn_collect(h, &frames) + churn_dropped(h) < h->sent;
		     tries++)
			host_nap();
		REQUIRE(churn_collect(h, &frames) + churn_dropped(h) == h->sent);
	}
	/* The number depends on the scheduler, but a run that drops most messages tests nothing. */
	CHECK(churn_dropped(h) < h->sent / 2);
	/* Thousands of sessions are closed, and the memory of most is reclaimed. */
	CHECK(h->kernel->epochs.now > 5000);
	CHECK(h->kernel->epochs.retired < 1000);
	for (unsigned lane = 0; lane < drivers; lane++)
		CHECK(many_stats(h, lane).frames > h->sent / drivers / 4);
	many_free(h);
}

TEST(sessions_come_and_go_in_all_drivers)
{
	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		check_churn(2, (enum xk_mode)mode);
		check_churn(3, (enum xk_mode)mode);
	}
}

/* Waits until the lane has an answer, and discards it. */
static bool
server_answers(struct many *h, unsigned lane)
{
	struct xk_msg *m = NULL;

	for (unsigned tries = 0; tries < 60000000 && (m = xk_memory_take(h->ports[lane])) == NULL; tries++)
		sched_yield();
	if (m == NULL)
		return false;
	xk_msg_free(m);
	return true;
}

static void
check_reclaiming_alone(unsigned awake)
{
	const struct echo_end server = { 0x020000000001, 0x0a010001, 2001 };
	struct many *h = server_new(3, XK_IPP);
	struct echo_frames frames;

	echo_frames_init(&frames, &server, 64);
	frames.neighbours = true;
	for (unsigned i = 0; i < 3; i++)
		many_wait_asleep(h, i);
	for (uint32_t peer = 0; peer < 1500; peer++) {
		struct xk_msg *m = xk_memory_frame(h->platforms[awake], frames.len);

		REQUIRE(m != NULL);
		echo_frame_write(&frames, peer, m->data);
		CHECK(xk_memory_inject(h->ports[awake], m));
		REQUIRE(server_answers(h, awake));
	}
	CHECK_EQ(many_stats(h, awake).frames, 1500);
	CHECK(h->kernel->epochs.now > 1500);
	CHECK(h->kernel->epochs.retired < 200);
	many_free(h);
}

/* A sleeping driver is no reader: it must not keep the others from reclaiming. */
TEST(memory_is_given_back_while_other_drivers_sleep)
{
	check_reclaiming_alone(0);
	check_reclaiming_alone(2);
}

/* ---- between two hosts ---- */

enum { WIRED_MESSAGES = 300 };

static void
wired_build(struct many *h, unsigned i, const char *edges)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "digraph wired { traffic [peers=\"10.77.0.%u\", count=%u, rate=0, size_max=300, promise=ordered];"
		 "vnet [address=\"10.77.0.%u/24\"]; %s ip -> vnet -> eth; vnet -> arp -> eth; eth -> port }",
		 2 - i, WIRED_MESSAGES, 1 + i, edges);
	for (unsigned lane = 0; lane < h->count; lane++)
		h->ports[lane]->address += i;
	many_build_graph(h, text);
}

static bool
wired_is_done(struct many *h)
{
	const struct xk_protocol *traffic = xk_kernel_find(h->kernel, "traffic");

	return xk_counter(traffic, TRAFFIC_RECEIVED) >= WIRED_MESSAGES;
}

static void
wired_end(struct many *h)
{
	struct xk_traffic_report report;

	xk_traffic_report(xk_kernel_find(h->kernel, "traffic"), &report);
	CHECK(report.finished);
	CHECK_EQ(report.received, WIRED_MESSAGES);
	CHECK_EQ(report.broken, 0);
	CHECK_STR(report.first, "");
	many_free(h);
}

static void
check_wired(enum xk_mode mode, unsigned a_count, unsigned b_count, enum xk_memory_spread spread, const char *edges)
{
	struct xk_kernel_config config = { .mode = mode, .driver = XK_DRIVER_INTERRUPT, .threads = 2, .stacks = 16 };
	struct many *hosts[2];

	for (unsigned i = 0; i < 2; i++) {
		hosts[i] = many_bare(i == 0 ? a_count : b_count, &config);
		many_add_ports(hosts[i], "port");
	}
	REQUIRE(xk_memory_connect_lanes(hosts[0]->ports, a_count, hosts[1]->ports, b_count, spread) == 0);
	for (unsigned i = 0; i < 2; i++)
		wired_build(hosts[i], i, edges);
	for (unsigned i = 0; i < 2; i++)
		many_start(hosts[i]);
	for (unsigned tries = 0; tries < 300000; tries++) {
		if (wired_is_done(hosts[0]) && wired_is_done(hosts[1]))
			break;
		host_nap();
	}
	for (unsigned i = 0; i < 2; i++)
		xk_kernel_stop(hosts[i]->kernel);
	for (unsigned i = 0; i < 2; i++)
		wired_end(hosts[i]);
}

TEST(hosts_of_several_drivers_talk_over_lanes_chosen_by_flow)
{
	static const char edges[] = "traffic -> stopwait; stopwait -> ip [number=253];";

	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		check_wired((enum xk_mode)mode, 2, 2, XK_MEMORY_BY_FLOW, edges);
		check_wired((enum xk_mode)mode, 3, 2, XK_MEMORY_BY_FLOW, edges);
		check_wired((enum xk_mode)mode, 1, 3, XK_MEMORY_BY_FLOW, edges);
	}
}

TEST(hosts_of_several_drivers_talk_over_lanes_chosen_by_the_sender)
{
	static const char edges[] = "traffic -> stopwait [handoff=explicit]; stopwait -> ip [number=253];";

	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		check_wired((enum xk_mode)mode, 2, 2, XK_MEMORY_BY_LANE, edges);
		check_wired((enum xk_mode)mode, 2, 3, XK_MEMORY_BY_LANE, edges);
	}
}

/* ---- how a wire chooses ---- */

static unsigned
lane_of(struct xk_platform *platform, const uint8_t *frame, size_t len, unsigned lanes)
{
	struct xk_msg *m = xk_msg_from(platform, frame, len);
	unsigned lane;

	REQUIRE(m != NULL);
	lane = lane_of_flow(m, lanes);
	xk_msg_free(m);
	return lane;
}

/* Turns the frame into one of the opposite direction. */
static void
turn_round(uint8_t *frame)
{
	for (unsigned i = 0; i < 4; i++) {
		uint8_t address = frame[26 + i];

		frame[26 + i] = frame[30 + i];
		frame[30 + i] = address;
	}
	for (unsigned i = 0; i < 2; i++) {
		uint8_t port = frame[34 + i];

		frame[34 + i] = frame[36 + i];
		frame[36 + i] = port;
	}
}

TEST_WITH(both_directions_of_a_flow_share_a_lane, struct xk_platform *platform, xk_memory_platform_new(XK_MEMORY_REAL),
	  xk_memory_platform_free)
{
	enum { PEERS = 4000, LANES = 4 };
	const struct echo_end server = { 0x020000000001, 0x0a010001, 2001 };
	unsigned count[LANES] = { 0 };
	struct echo_frames frames;
	uint8_t frame[128];

	echo_frames_init(&frames, &server, 8);
	for (uint32_t peer = 0; peer < PEERS; peer++) {
		unsigned lane;

		echo_frame_write(&frames, peer, frame);
		lane = lane_of(platform, frame, frames.len, LANES);
		turn_round(frame);
		CHECK_EQ(lane_of(platform, frame, frames.len, LANES), lane);
		CHECK_EQ(lane_of(platform, frame, frames.len, 1), 0);
		REQUIRE(lane < LANES);
		count[lane]++;
	}
	for (unsigned lane = 0; lane < LANES; lane++)
		CHECK(count[lane] > PEERS / LANES * 3 / 4);
}

TEST_WITH(portless_frames_hash_addresses_and_non_ip_takes_lane_0, struct xk_platform *platform,
	  xk_memory_platform_new(XK_MEMORY_REAL), xk_memory_platform_free)
{
	enum { LANES = 32 };
	const struct echo_end server = { 0x020000000001, 0x0a010001, 2001 };
	struct echo_frames frames;
	uint8_t first[128], other[128];
	unsigned by_addresses;

	echo_frames_init(&frames, &server, 8);
	echo_frame_write(&frames, 5, first);
	first[20] = 0x20; /* more fragments */
	memcpy(other, first, sizeof(other));
	by_addresses = lane_of(platform, first, frames.len, LANES);
	other[35] ^= 0x55;
	CHECK_EQ(lane_of(platform, other, frames.len, LANES), by_addresses);
	other[20] = 0;
	other[21] = 9; /* the last fragment */
	CHECK_EQ(lane_of(platform, other, frames.len, LANES), by_addresses);
	other[21] = 0;
	CHECK(lane_of(platform, other, frames.len, LANES) != by_addresses);
	CHECK_EQ(lane_of(platform, other, 34, LANES), by_addresses); /* it ends with its header */
	other[23] = 1;
	CHECK_EQ(lane_of(platform, other, frames.len, LANES), by_addresses);
	for (size_t len = 0; len < 34; len++)
		CHECK_EQ(lane_of(platform, other, len, LANES), 0);
	other[13] = 6;
	CHECK_EQ(lane_of(platform, other, frames.len, LANES), 0);
}
