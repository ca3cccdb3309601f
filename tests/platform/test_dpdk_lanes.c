/*
 * test_dpdk_lanes.c - DPDK ports with several lanes, each with its own driver: over virtio between two processes, and
 * over rings between two hosts in one process.
 *
 * The other process is this program again, with its role in an environment variable; it is executed before DPDK starts
 * here and dies with its parent.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "platform/lane.h"
#include "protocols/test/traffic.h"
#include "protocols/test/traffic_private.h"
#include "tests/platform/dpdk_host.h"
#include "tools/bench/echo_frame.h"
#include "xkernel/kernel.h"

enum {
	LANES_MAX = 4,
	PEERS = 64,
	WINDOW = 16, /* requests in flight */
	SIZE = 64,
	ENDED_BADLY = 5,
};
#define ROUNDS (test_is_long() ? 40u : 10u)
#define MESSAGES (test_is_long() ? 300u : 100u)

static const char role_variable[] = "XK_TEST_DPDK_LANES_ROLE";
static const struct echo_end server_end = { 0x020000000001, 0x0a010001, 2001 };

/* ---- hosts with several platforms and lanes ---- */

struct wide {
	unsigned count;
	struct xk_platform *platforms[LANES_MAX];
	struct xk_port *ports[LANES_MAX];
	struct xk_kernel *kernel; /* owns the ports */
	char why[XK_DPDK_WHY];
};

static int
wide_try_start(struct wide *w, unsigned count)
{
	struct xk_dpdk_config config = { .core = -1, .buffers = BUFFERS };
	int error;

	memset(w, 0, sizeof(*w));
	w->count = count;
	error = xk_dpdk_start(&config, &w->platforms[0], w->why, sizeof(w->why));
	for (unsigned i = 1; i < count && error == 0; i++)
		error = xk_dpdk_start_beside(w->platforms[0], &w->platforms[i], w->why, sizeof(w->why));
	return error;
}

static void
wide_start(struct wide *w, unsigned count)
{
	REQUIRE(wide_try_start(w, count) == 0);
}

static int
wide_open(struct wide *w, const char *link, const char *device, enum xk_dpdk_end end)
{
	struct xk_dpdk_port_config config = {
		.link = link, .name = "port", .device = device, .end = end, .wait_ms = 10000
	};

	if (end == XK_DPDK_SERVER)
		config.address = server_end.link;
	return xk_dpdk_open_lanes(w->platforms, w->count, &config, w->ports, w->why, sizeof(w->why));
}

/* Stops everything and checks that no buffer of any platform is leaked. */
static void
wide_stop(struct wide *w)
{
	if (w->kernel != NULL)
		xk_kernel_free(w->kernel);
	for (unsigned i = 0; w->kernel == NULL && i < w->count; i++)
		if (w->ports[i] != NULL)
			w->ports[i]->ops->close(w->ports[i]);
	for (unsigned i = w->count; i-- > 0;) {
		CHECK_EQ(w->platforms[i]->ops->buffers_out(w->platforms[i]), 0);
		xk_dpdk_stop(w->platforms[i]);
	}
}

static void
wide_build(struct wide *w, enum xk_mode mode, enum xk_driver_policy policy, const char *text)
{
	struct xk_kernel_config config = { .platform = w->platforms[0],
					   .mode = mode,
					   .driver = policy,
					   .threads = 2,
					   .stacks = 16,
					   .core = -1,
					   .yields = true };
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = xk_graph_read_text("lanes", text, strlen(text), &errors);
	struct xk_protocol *failed;

	w->kernel = xk_kernel_new(&config);
	REQUIRE(w->kernel != NULL);
	for (unsigned i = 1; i < w->count; i++)
		REQUIRE(xk_kernel_add_driver(w->kernel, w->platforms[i], -1) == (int)i);
	for (unsigned i = 0; i < w->count; i++) {
		CHECK_EQ(w->ports[i]->driver, i);
		xk_kernel_add_port(w->kernel, w->ports[i]);
	}
	REQUIRE(graph != NULL && xk_graph_check(graph, xk_protocol_types, &errors) == 0);
	REQUIRE(xk_graph_build(graph, w->kernel, &errors) == 0);
	xk_graph_free(graph);
	REQUIRE(xk_kernel_init(w->kernel, &failed) == 0);
	REQUIRE(xk_kernel_start(w->kernel) == 0);
}

static uint64_t
wide_frames(struct wide *w, unsigned driver)
{
	struct xk_kernel_stats stats;

	xk_kernel_driver_stats(w->kernel, driver, &stats);
	return stats.frames;
}

/* ---- requests ---- */

static struct xk_msg *
request_new(struct xk_platform *platform, const struct echo_frames *frames, uint32_t peer)
{
	struct xk_msg *m = platform->ops->buffer_new(platform);

	if (m == NULL)
		return NULL;
	echo_frame_write(frames, peer, m->data);
	m->len = m->total = frames->len;
	return m;
}

/* Counts the peers whose flows belong to each lane. */
static void
count_peers_by_lane(struct xk_platform *platform, unsigned lanes, unsigned counts[LANES_MAX])
{
	struct echo_frames frames;

	echo_frames_init(&frames, &server_end, SIZE);
	memset(counts, 0, LANES_MAX * sizeof(*counts));
	for (uint32_t peer = 0; peer < PEERS; peer++) {
		struct xk_msg *m = request_new(platform, &frames, peer);

		REQUIRE(m != NULL);
		counts[lane_of_flow(m, lanes)]++;
		msg_free(m);
	}
}

/* ---- the other process: a client of the echo server, with ports but no graph ---- */

struct asker {
	struct wide w;
	struct echo_frames frames;
	bool sleeps;
	unsigned sent, received, wrong;
	unsigned by_lane[LANES_MAX];
};

/*
 * Checks that an answer arrives on the lane of its peer. The first answers may arrive on others: the server learns of
 * the client's lanes one by one and uses those that it knows.
 */
static void
asker_take(struct asker *a, unsigned lane, struct xk_msg *m)
{
	const char *why = "it is no peer's";

	for (uint32_t peer = 0; peer < PEERS && why != NULL; peer++)
		why = echo_frame_check(&a->frames, peer, m->data, m->len);
	if (why != NULL || (a->received >= WINDOW && lane_of_flow(m, a->w.count) != lane)) {
		fprintf(stderr, "peer: lane %u, %s\n", lane, why == NULL ? "another's" : why);
		a->wrong++;
	}
	a->received++;
	a->by_lane[lane]++;
	msg_free(m);
}

static unsigned
asker_receive(struct asker *a)
{
	struct xk_msg *frames[XK_BURST];
	unsigned all = 0;

	for (unsigned lane = 0; lane < a->w.count; lane++) {
		unsigned count = a->w.ports[lane]->ops->receive(a->w.ports[lane], frames, XK_BURST);

		for (unsigned i = 0; i < count; i++)
			asker_take(a, lane, frames[i]);
		all += count;
	}
	return all;
}

/* Sends the requests of one peer on different lanes. */
static bool
asker_send(struct asker *a)
{
	struct xk_port *port = a->w.ports[a->sent / 3 % a->w.count];
	struct xk_msg *m = request_new(port->platform, &a->frames, a->sent % PEERS);

	if (m == NULL || port->ops->transmit(port, &m, 1) == 0) {
		msg_free(m);
		return false;
	}
	a->sent++;
	return true;
}

static bool
asker_run(struct asker *a)
{
	struct xk_platform *platform = a->w.platforms[0];
	uint64_t until = platform->ops->now_ns(platform) + PATIENCE_NS;

	while (a->received < PEERS * ROUNDS && platform->ops->now_ns(platform) < until) {
		while (a->sent < PEERS * ROUNDS && a->sent < a->received + WINDOW && asker_send(a))
			;
		if (asker_receive(a) == 0)
			sched_yield();
	}
	return a->received == PEERS * ROUNDS && a->wrong == 0;
}

/* Returns 0 if each request was answered on its flow's lane and each lane had some. */
static int
asker_main(unsigned lanes, const char *path)
{
	struct asker a = { .wrong = 0 };
	bool good;

	if (wide_try_start(&a.w, lanes) != 0 || wide_open(&a.w, "virtio", path, XK_DPDK_CLIENT) != 0) {
		fprintf(stderr, "peer: %s\n", a.w.why);
		return ENDED_BADLY;
	}
	echo_frames_init(&a.frames, &server_end, SIZE);
	a.frames.neighbours = true;
	good = asker_run(&a);
	for (unsigned i = 0; i < lanes; i++)
		good &= a.by_lane[i] > 0;
	if (!good)
		fprintf(stderr, "peer: %u sent, %u received, %u wrong, by lane %u %u %u %u\n", a.sent, a.received,
			a.wrong, a.by_lane[0], a.by_lane[1], a.by_lane[2], a.by_lane[3]);
	for (unsigned i = 0; i < lanes; i++)
		a.w.ports[i]->ops->close(a.w.ports[i]);
	good &= a.w.platforms[0]->ops->buffers_out(a.w.platforms[0]) == 0;
	for (unsigned i = lanes; i-- > 0;)
		xk_dpdk_stop(a.w.platforms[i]);
	return good ? 0 : ENDED_BADLY;
}

/* Runs before main, which would run the tests. */
__attribute__((constructor)) static void
role_choose(void)
{
	const char *role = getenv(role_variable);
	char path[128];
	unsigned lanes;

	if (role != NULL && sscanf(role, "%u %127s", &lanes, path) == 2)
		exit(asker_main(lanes, path));
}

static pid_t
peer_start(unsigned lanes, const char *path)
{
	char role[160];
	pid_t pid;

	snprintf(role, sizeof(role), "%u %s", lanes, path);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		closefrom(3);
		setenv(role_variable, role, 1);
		execl("/proc/self/exe", "test_dpdk_lanes_peer", (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* Returns its exit status, or minus the signal that ended it. */
static int
peer_end(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Writes a socket path unique to this test and run. */
static const char *
socket_for(char *path, const char *name)
{
	sprintf(path, "/tmp/xk-test-%d-%s.sock", (int)getpid(), name);
	return path;
}

/* ---- virtio ---- */

static const char server_graph[] = "digraph server { vnet [address=\"10.1.0.1/8\"];"
				   "udptest -> udp -> ip -> vnet -> eth; vnet -> arp -> eth; eth -> port }";

/*
 * Serves clients with these numbers of lanes in turn. Checks that each driver received exactly the frames of its flows.
 */
static void
check_virtio(unsigned lanes, enum xk_mode mode, enum xk_driver_policy policy, const unsigned *clients, unsigned count)
{
	unsigned peers[LANES_MAX];
	uint64_t frames[LANES_MAX] = { 0 };
	struct wide w;
	char path[128];
	pid_t pid = peer_start(clients[0], socket_for(path, "lanes"));

	wide_start(&w, lanes);
	REQUIRE(wide_open(&w, "virtio", path, XK_DPDK_SERVER) == 0);
	wide_build(&w, mode, policy, server_graph);
	for (unsigned i = 0; i < count; i++) {
		if (i > 0)
			pid = peer_start(clients[i], path);
		CHECK_EQ(peer_end(pid), 0);
		count_peers_by_lane(w.platforms[0], clients[i], peers);
		for (unsigned lane = 0; lane < clients[i]; lane++)
			frames[lane] += (uint64_t)peers[lane] * ROUNDS;
	}
	xk_kernel_stop(w.kernel);
	for (unsigned lane = 0; lane < lanes; lane++)
		CHECK_EQ(wide_frames(&w, lane), frames[lane]);
	wide_stop(&w);
	CHECK(access(path, F_OK) != 0);
}

TEST(virtio_flows_stay_in_their_lanes)
{
	const unsigned two = 2, three = 3;

	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++) {
		check_virtio(2, (enum xk_mode)mode, XK_DRIVER_INTERRUPT, &two, 1);
		check_virtio(2, (enum xk_mode)mode, XK_DRIVER_POLL, &two, 1);
	}
	check_virtio(3, XK_IPP, XK_DRIVER_ADAPTIVE, &three, 1);
}

TEST(virtio_server_serves_clients_with_fewer_and_equal_lanes)
{
	const unsigned clients[] = { 1, 3, 2, 1, 3 };

	check_virtio(3, XK_IPP, XK_DRIVER_INTERRUPT, clients, XK_ARRAY_LENGTH(clients));
}

TEST(virtio_client_with_more_lanes_is_refused_in_words)
{
	struct wide server, client;
	char path[128];

	wide_start(&server, 1);
	wide_start(&client, 2);
	REQUIRE(wide_open(&server, "virtio", socket_for(path, "fewer"), XK_DPDK_SERVER) == 0);
	CHECK_EQ(wide_open(&client, "virtio", path, XK_DPDK_CLIENT), -ERANGE);
	CHECK(strstr(client.why, "has 1 queue") != NULL && strstr(client.why, "2 drivers") != NULL);
	wide_stop(&client);
	wide_stop(&server);
}

TEST_IN(links_with_one_queue_refuse_more_in_words, struct wide, w, wide_start(w, 2), wide_stop)
{
	static const char *const links[] = { "memif", "tap", "af_packet", "af_xdp" };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(links); i++) {
		CHECK_EQ(wide_open(w, links[i], "nothing", XK_DPDK_SERVER), -EINVAL);
		CHECK(strstr(w->why, links[i]) != NULL && strstr(w->why, "1 queue,") != NULL);
	}
}

TEST_IN(platforms_of_one_kernel_share_buffers_and_clock, struct wide, w, wide_start(w, 3), wide_stop)
{
	struct xk_msg *m[3];
	uint64_t before_ns, between_ns;

	for (unsigned i = 0; i < 3; i++) {
		m[i] = w->platforms[i]->ops->buffer_new(w->platforms[i]);
		REQUIRE(m[i] != NULL);
		CHECK(m[i]->platform == w->platforms[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(w->platforms[i]->ops->buffers_out(w->platforms[i]), 3);
	for (unsigned i = 0; i < 3; i++)
		msg_free(m[i]);
	before_ns = w->platforms[0]->ops->now_ns(w->platforms[0]);
	between_ns = w->platforms[2]->ops->now_ns(w->platforms[2]);
	CHECK(before_ns <= between_ns && between_ns <= w->platforms[1]->ops->now_ns(w->platforms[1]));
}

/* ---- rings ---- */

static void
ring_open(struct wide ends[2])
{
	struct xk_platform *const *const platforms[2] = { ends[0].platforms, ends[1].platforms };
	struct xk_port **const ports[2] = { ends[0].ports, ends[1].ports };
	const char *const names[2] = { "port", "port" };

	REQUIRE(xk_dpdk_ring_open_lanes(platforms, ends[0].count, names, ports, ends[0].why, sizeof(ends[0].why)) == 0);
}

/* Closes both ends and checks buffers together: frames are freed at the other end. */
static void
ring_close(struct wide ends[2])
{
	for (unsigned end = 0; end < 2; end++) {
		if (ends[end].kernel != NULL)
			xk_kernel_free(ends[end].kernel);
		for (unsigned i = 0; ends[end].kernel == NULL && i < ends[end].count; i++)
			ends[end].ports[i]->ops->close(ends[end].ports[i]);
	}
	for (unsigned end = 0; end < 2; end++) {
		struct wide *w = &ends[end];

		CHECK_EQ(w->platforms[0]->ops->buffers_out(w->platforms[0]), 0);
		for (unsigned i = w->count; i-- > 0;)
			xk_dpdk_stop(w->platforms[i]);
	}
}

enum { SENDERS = 2 };
#define ORDERED (test_is_long() ? 400u : 150u) /* frames of each flow from each sender */

struct sender {
	struct xk_port *port;
	const struct echo_frames *frames;
	unsigned number;
};

/* Sends frames of all flows on one lane; the data holds the sender and the frame's number. */
static void *
send_ordered(void *argument)
{
	const struct sender *self = argument;
	struct xk_port *port = self->port;

	port->platform->ops->thread_begin(port->platform);
	for (unsigned i = 0; i < ORDERED * 4;) {
		struct xk_msg *m = request_new(port->platform, self->frames, i % 4);

		if (m != NULL) {
			m->data[ECHO_FRAME_HEADERS] = (uint8_t)self->number;
			m->data[ECHO_FRAME_HEADERS + 1] = (uint8_t)(i / 4 >> 8);
			m->data[ECHO_FRAME_HEADERS + 2] = (uint8_t)(i / 4);
		}
		if (m != NULL && port->ops->transmit(port, &m, 1) == 1) {
			i++;
			continue;
		}
		msg_free(m);
		sched_yield();
	}
	port->platform->ops->thread_end(port->platform);
	return NULL;
}

/* Checks that m is the next frame of its flow from its sender, on the flow's lane. */
static void
take_ordered(const struct echo_frames *frames, const struct xk_msg *m, unsigned lane, unsigned next[SENDERS][4])
{
	const uint8_t *data = m->data + ECHO_FRAME_HEADERS;
	uint8_t wanted[ECHO_FRAME_HEADERS + SIZE];
	unsigned peer = 0;

	CHECK_EQ(lane_of_flow(m, SENDERS), lane);
	for (; peer < 4; peer++) {
		echo_frame_write(frames, peer, wanted);
		if (memcmp(wanted + 26, m->data + 26, 4) == 0)
			break;
	}
	REQUIRE(peer < 4 && data[0] < SENDERS);
	CHECK_EQ(data[1] << 8 | data[2], next[data[0]][peer]);
	next[data[0]][peer]++;
}

TEST(threads_share_a_transmit_queue_and_keep_the_order)
{
	unsigned next[SENDERS][4] = { 0 }, received = 0;
	struct echo_frames frames;
	struct sender senders[SENDERS];
	pthread_t threads[SENDERS];
	struct wide ends[2];

	for (unsigned i = 0; i < 2; i++)
		wide_start(&ends[i], SENDERS);
	ring_open(ends);
	echo_frames_init(&frames, &server_end, SIZE);
	for (unsigned i = 0; i < SENDERS; i++) {
		senders[i] = (struct sender){ ends[0].ports[i], &frames, i };
		REQUIRE(pthread_create(&threads[i], NULL, send_ordered, &senders[i]) == 0);
	}
	while (received < SENDERS * ORDERED * 4) {
		for (unsigned lane = 0; lane < SENDERS; lane++) {
			struct xk_msg *m;

			if (ends[1].ports[lane]->ops->receive(ends[1].ports[lane], &m, 1) == 0)
				continue;
			take_ordered(&frames, m, lane, next);
			msg_free(m);
			received++;
		}
		sched_yield();
	}
	for (unsigned i = 0; i < SENDERS; i++)
		pthread_join(threads[i], NULL);
	ring_close(ends);
}

static bool
traffic_is_done(struct wide *w)
{
	const struct xk_protocol *traffic = xk_kernel_find(w->kernel, "traffic");

	return xk_counter(traffic, TRAFFIC_RECEIVED) >= MESSAGES;
}

static void
check_traffic(struct wide *w)
{
	struct xk_traffic_report report;

	xk_traffic_report(xk_kernel_find(w->kernel, "traffic"), &report);
	CHECK(report.finished);
	CHECK_EQ(report.received, MESSAGES);
	CHECK_EQ(report.broken, 0);
	CHECK_STR(report.first, "");
}

static void
check_rings(unsigned lanes, enum xk_mode mode)
{
	struct wide ends[2];
	char text[1024];

	for (unsigned i = 0; i < 2; i++)
		wide_start(&ends[i], lanes);
	ring_open(ends);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(text, sizeof(text),
			 "digraph ring { traffic [peers=\"10.77.0.%u\", count=%u, rate=0, size_max=300, "
			 "promise=ordered]; vnet [address=\"10.77.0.%u/24\"]; traffic -> stopwait [handoff=explicit];"
			 "stopwait -> ip [number=253]; ip -> vnet -> eth; vnet -> arp -> eth; eth -> port }",
			 2 - i, MESSAGES, 1 + i);
		wide_build(&ends[i], mode, XK_DRIVER_POLL, text);
	}
	for (unsigned tries = 0; tries < 300000 && !(traffic_is_done(&ends[0]) && traffic_is_done(&ends[1])); tries++)
		usleep(100);
	for (unsigned i = 0; i < 2; i++)
		xk_kernel_stop(ends[i].kernel);
	for (unsigned i = 0; i < 2; i++)
		check_traffic(&ends[i]);
	ring_close(ends);
}

TEST(hosts_of_several_drivers_talk_over_rings)
{
	for (unsigned mode = XK_REGULAR; mode <= XK_IPP; mode++)
		check_rings(2, (enum xk_mode)mode);
	check_rings(4, XK_IPP);
}

TEST_IN(ring_has_no_more_lanes_than_its_driver, struct wide, w, wide_start(w, 1), wide_stop)
{
	struct xk_platform *platforms[XK_DRIVERS];
	struct xk_platform *const *const both[2] = { platforms, platforms };
	struct xk_port *made[2][XK_DRIVERS], **const ports[2] = { made[0], made[1] };
	const char *const names[2] = { "a", "b" };

	for (unsigned i = 0; i < XK_DRIVERS; i++)
		platforms[i] = w->platforms[0];
	CHECK_EQ(xk_dpdk_ring_open_lanes(both, XK_DRIVERS, names, ports, w->why, sizeof(w->why)), -EINVAL);
	CHECK_HAS(w->why, "16 queues");
	w->count = 1;
}
