/*
 * bare_dpdk_echo.c - the lower bound of udptest's round trips: the same frame on the same link with DPDK alone.
 *
 * Two processes, a virtio-user and a vhost-user device joined by shared memory and set up like platform/dpdk's. Each
 * polls on its core, or sleeps until an interrupt (--sleep). The server swaps the link addresses and returns the frame,
 * or answers it with fused.h's one function. The client turns the echo into its next request. With one request at a
 * time it reads the clock once per round trip, as udptest does. With --window it counts echoes per second, and the
 * server may be another program.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_vhost.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "experiments/floors/fused.h"
#include "tools/bench/echo_frame.h"
#include "tools/histogram.h"
#include "tools/json.h"
#include "tools/machine.h"
#include "tools/options.h"
#include "xkernel/base.h"
#include "xkernel/bytes.h"

enum {
	BARE_RING = 256,
	BARE_BUFFERS = 2047,
	BARE_BURST = 32,
	BARE_START_MS = 10000, /* limit for the server's start */
	BARE_WARM_UP = 10000,  /* uncounted round trips */
	BARE_WARM_UP_ASLEEP = 500,
	BARE_TRIES = 100,    /* requests without an echo, a tenth of a second each */
	BARE_PATIENCE = 100, /* tenths of a second to wait for an echo afterwards */
	BARE_SLEEP_MS = 100, /* longest sleep */
};

#define BARE_CLIENT_LINK UINT64_C(0x020000000101)
#define BARE_SERVER_LINK UINT64_C(0x020000000001)
#define BARE_SERVER_ADDRESS UINT32_C(0x0a000002)
enum { BARE_SERVER_PORT = 2001 };

struct bare_options {
	struct options_numbers cores;
	uint64_t rounds, size, window;
	const char *server;
	bool sleep, json;
};

static const struct options_option bare_options[] = {
	OPTION(NUMBERS, struct bare_options, cores, "cores", "A,B", "cores of client and server (0,1)", .max = 1023),
	OPTION(NUMBER, struct bare_options, rounds, "rounds", "N", "counted round trips (100000)", .min = 1,
	       .max = 100000000),
	OPTION(NUMBER, struct bare_options, size, "size", "N", "bytes after the UDP header (1)", .min = 1,
	       .max = ECHO_FRAME_MAX_SIZE),
	OPTION(NUMBER, struct bare_options, window, "window", "N", "requests in flight (1)", .min = 1,
	       .max = BARE_RING / 2),
	OPTION(FLAG, struct bare_options, sleep, "sleep", NULL,
	       "both ends sleep until a frame arrives (no effect on another program's server)"),
	OPTION(TEXT, struct bare_options, server, "server", "KIND",
	       "swap: exchanges link addresses (swap); fused: UDP over IP in one function; or the path of another "
	       "server's socket, at 10.0.0.2"),
	OPTION(FLAG, struct bare_options, json, "json", NULL, "JSON on standard output"),
	{ .name = NULL },
};

static const struct options_program bare_program = {
	.name = "bare_dpdk_echo",
	.usage = "[OPTION]...",
	.about = "Measures round trips of a frame between two processes on DPDK alone.",
	.options = bare_options,
};

/* One end. */
struct bare_port {
	uint16_t id;
	bool yields; /* both ends poll on one core */
	bool sleeps;
	int epoll;                /* descriptor for the queue's interrupts if the end sleeps; 0: not opened yet */
	struct fused_host *fused; /* state of a server that answers with fused_echo; NULL: it swaps addresses */
	struct rte_mempool *pool;
};

/* ---- the device ---- */

static int
bare_start_eal(unsigned core, const char *device)
{
	char lcores[32], vdev[256];
	char *argv[] = { "bare",     "--no-pci", "--no-telemetry", "--log-level=error",
			 "-m",       "64",       "--no-huge",      "--no-shconf",
			 "--lcores", lcores,     "--vdev",         vdev,
			 NULL };

	snprintf(lcores, sizeof(lcores), "0@(%u)", core);
	snprintf(vdev, sizeof(vdev), "%s", device);
	return rte_eal_init((int)XK_ARRAY_LENGTH(argv) - 1, argv) < 0 ? -rte_errno : 0;
}

/* Disables the features that platform/dpdk disables, so that both use the same code in DPDK. */
static int
bare_limit_features(const char *socket)
{
	return rte_vhost_driver_disable_features(
		socket, 1ULL << VIRTIO_NET_F_CSUM | 1ULL << VIRTIO_NET_F_GUEST_CSUM | 1ULL << VIRTIO_NET_F_GUEST_TSO4 |
				1ULL << VIRTIO_NET_F_GUEST_TSO6 | 1ULL << VIRTIO_NET_F_GUEST_ECN |
				1ULL << VIRTIO_NET_F_GUEST_UFO | 1ULL << VIRTIO_NET_F_HOST_TSO4 |
				1ULL << VIRTIO_NET_F_HOST_TSO6 | 1ULL << VIRTIO_NET_F_HOST_ECN |
				1ULL << VIRTIO_NET_F_HOST_UFO);
}

/* Prints why an end failed to start. */
static void
bare_report_error(const char *end, int error)
{
	fprintf(stderr, "bare_dpdk_echo: cannot start the %s: %s; see DPDK's messages above, and check --cores\n", end,
		xk_error(error));
}

/* Starts DPDK's only device. vhost: the server's socket, or NULL. Returns 0 or -errno. */
static int
bare_start_port(struct bare_port *port, const char *vhost)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf = { .intr_conf = { .rxq = 1 } };
	int error;

	port->pool = rte_pktmbuf_pool_create("bare", BARE_BUFFERS, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	if (port->pool == NULL)
		return -rte_errno;
	port->id = rte_eth_find_next(0);
	error = rte_eth_dev_info_get(port->id, &info);
	conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	if (error == 0)
		error = rte_eth_dev_configure(port->id, 1, 1, &conf);
	if (error == 0 && vhost != NULL)
		error = bare_limit_features(vhost);
	if (error == 0)
		error = rte_eth_rx_queue_setup(port->id, 0, BARE_RING, SOCKET_ID_ANY, NULL, port->pool);
	if (error == 0)
		error = rte_eth_tx_queue_setup(port->id, 0, BARE_RING, SOCKET_ID_ANY, NULL);
	return error == 0 ? rte_eth_dev_start(port->id) : error;
}

/* Returns whether the port can sleep. A vhost device can as soon as its peer has connected. */
static bool
bare_can_sleep(struct bare_port *port)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	int fd = port->epoll != 0 ? -1 : rte_eth_dev_rx_intr_ctl_q_get_fd(port->id, 0);

	if (fd < 0)
		return port->epoll != 0;
	port->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (port->epoll < 0 || epoll_ctl(port->epoll, EPOLL_CTL_ADD, fd, &event) != 0 ||
	    rte_eth_dev_rx_intr_enable(port->id, 0) != 0) {
		fprintf(stderr, "bare_dpdk_echo: --sleep: the device has no interrupts\n");
		exit(OPTIONS_FAILURE);
	}
	return true;
}

/* Receives frames. If there are none, yields the core as the port does; may return 0. */
static uint16_t
bare_receive(struct bare_port *port, struct rte_mbuf **frames, uint16_t max)
{
	uint16_t count = rte_eth_rx_burst(port->id, 0, frames, max);
	struct epoll_event event;

	if (count > 0)
		return count;
	if (port->sleeps && bare_can_sleep(port)) {
		rte_eth_dev_rx_intr_enable(port->id, 0);
		count = rte_eth_rx_burst(port->id, 0, frames, max);
		if (count == 0)
			epoll_wait(port->epoll, &event, 1, BARE_SLEEP_MS);
		rte_eth_dev_rx_intr_disable(port->id, 0);
	} else if (port->yields) {
		sched_yield();
	}
	return count;
}

static void
bare_swap(struct rte_mbuf *m)
{
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *), target[6];

	memcpy(target, frame, sizeof(target));
	memcpy(frame, frame + 6, sizeof(target));
	memcpy(frame + 6, target, sizeof(target));
}

/* ---- the server ---- */

/* Answers with fused_echo. A frame that it refuses goes back unchanged; the client does not count it. */
static void
bare_fuse(struct fused_host *host, struct rte_mbuf *m)
{
	_Atomic uint16_t references = 1;
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	struct xk_msg whole = { .data = frame,
				.len = m->data_len,
				.total = m->data_len,
				.tail = &whole,
				.references = &references,
				.floor = frame,
				.own_end = frame,
				.ceiling = frame + m->data_len };

	fused_echo(host, &whole);
}

/* Waits for the client without polling: DPDK may take a second to connect it, and both may share a core. */
static void
bare_await_client(const struct bare_port *port)
{
	struct rte_eth_link link;

	while (rte_eth_link_get_nowait(port->id, &link) == 0 && link.link_status == RTE_ETH_LINK_DOWN)
		usleep(1000);
}

/* Serves until killed. */
static void
bare_serve(struct bare_port *port)
{
	struct rte_mbuf *frames[BARE_BURST];

	bare_await_client(port);
	for (;;) {
		uint16_t count = bare_receive(port, frames, BARE_BURST), sent;

		for (uint16_t i = 0; i < count; i++)
			if (port->fused == NULL)
				bare_swap(frames[i]);
			else
				bare_fuse(port->fused, frames[i]);
		sent = count > 0 ? rte_eth_tx_burst(port->id, 0, frames, count) : 0;
		while (sent < count)
			rte_pktmbuf_free(frames[sent++]);
	}
}

/* Runs the server. Notifies the parent through ready_fd when it is ready. */
__attribute__((noreturn)) static void
bare_server(const struct bare_options *o, const char *socket, bool yields, int ready_fd)
{
	struct fused_host host = { BARE_SERVER_LINK, BARE_SERVER_ADDRESS, BARE_SERVER_PORT, 0 };
	struct bare_port port = { .yields = yields,
				  .sleeps = o->sleep,
				  .fused = strcmp(o->server, "fused") == 0 ? &host : NULL };
	char device[200];
	int error;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(device, sizeof(device), "net_vhost0,iface=%s", socket);
	error = bare_start_eal((unsigned)o->cores.value[1], device);
	if (error == 0)
		error = bare_start_port(&port, socket);
	if (error == 0 && write(ready_fd, "", 1) == 1)
		bare_serve(&port);
	bare_report_error("server", error);
	_exit(1);
}

/* Starts the server and waits until it is ready. Returns its process id, or -1. */
static pid_t
bare_start_server(const struct bare_options *o, const char *socket, bool yields)
{
	struct pollfd wait = { .events = POLLIN };
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe(ready) != 0)
		return -1;
	pid = fork();
	if (pid == 0)
		bare_server(o, socket, yields, ready[1]);
	close(ready[1]);
	wait.fd = ready[0];
	if (pid > 0 && (poll(&wait, 1, BARE_START_MS) != 1 || read(ready[0], &byte, 1) != 1)) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	close(ready[0]);
	return pid;
}

/* ---- the client ---- */

static struct rte_mbuf *
bare_request(const struct bare_port *port, const struct echo_frames *frames)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);
	uint8_t *frame = m == NULL ? NULL : (uint8_t *)rte_pktmbuf_append(m, (uint16_t)frames->len);

	xk_assert(frame != NULL);
	echo_frame_write(frames, 1, frame);
	return m;
}

/* Sends m and returns its echo. Returns NULL if none arrived within `tenths` tenths of a second, or a wrong one did. */
static struct rte_mbuf *
bare_exchange(struct bare_port *port, struct rte_mbuf *m, uint32_t len, unsigned tenths)
{
	uint64_t until = rte_rdtsc() + rte_get_tsc_hz() / 10 * tenths;
	struct rte_mbuf *echo;

	if (rte_eth_tx_burst(port->id, 0, &m, 1) != 1) {
		rte_pktmbuf_free(m);
		return NULL;
	}
	while (bare_receive(port, &echo, 1) == 0)
		if (rte_rdtsc() > until)
			return NULL;
	if (rte_pktmbuf_pkt_len(echo) == len)
		return echo;
	rte_pktmbuf_free(echo);
	return NULL;
}

/* Returns the first echo, or NULL. Tries repeatedly: the server may not have seen its peer yet. */
static struct rte_mbuf *
bare_first(struct bare_port *port, const struct echo_frames *frames)
{
	struct rte_mbuf *m = NULL;

	for (unsigned i = 0; i < BARE_TRIES && m == NULL; i++)
		m = bare_exchange(port, bare_request(port, frames), frames->len, 1);
	return m;
}

static uint64_t
bare_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Stores round trips in ticks of the processor's counter. Returns the number of echoes. */
static uint64_t
bare_trips(struct bare_port *port, const struct echo_frames *frames, uint32_t *ticks, uint64_t rounds)
{
	struct rte_mbuf *m = bare_first(port, frames);
	uint64_t before = rte_rdtsc(), i, warm_up = port->sleeps ? BARE_WARM_UP_ASLEEP : BARE_WARM_UP;

	for (i = 0; m != NULL && i < rounds + warm_up; i++) {
		uint64_t now;

		bare_swap(m);
		m = bare_exchange(port, m, frames->len, BARE_PATIENCE);
		now = rte_rdtsc();
		if (i >= warm_up)
			ticks[i - warm_up] = now - before > UINT32_MAX ? UINT32_MAX : (uint32_t)(now - before);
		before = now;
	}
	if (m != NULL)
		rte_pktmbuf_free(m);
	return m != NULL ? rounds : 0;
}

/* Returns false if an echo is missing. */
static bool
bare_measure(struct bare_port *port, const struct bare_options *o, struct histogram *histogram)
{
	static const struct echo_end server = { BARE_SERVER_LINK, BARE_SERVER_ADDRESS, BARE_SERVER_PORT };
	uint32_t *ticks = calloc(o->rounds, sizeof(*ticks));
	uint64_t began_ns = bare_now_ns(), began = rte_rdtsc(), count;
	struct echo_frames frames;
	double ns_per_tick;

	xk_assert(ticks != NULL);
	memset(ticks, 1, o->rounds * sizeof(*ticks)); /* touches every page before the measurement */
	echo_frames_init(&frames, &server, (uint32_t)o->size);
	count = bare_trips(port, &frames, ticks, o->rounds);
	ns_per_tick = (double)(bare_now_ns() - began_ns) / (double)(rte_rdtsc() - began);
	for (uint64_t i = 0; i < count; i++)
		histogram_add(histogram, (uint64_t)(ticks[i] * ns_per_tick + 0.5));
	free(ticks);
	return count > 0;
}

/* ---- the client of a window ---- */

enum {
	BARE_ARP = 14, /* offset of ARP's header in a frame, and of its fields */
	BARE_ARP_OPERATION = BARE_ARP + 6,
	BARE_ARP_SENDER = BARE_ARP + 8,
	BARE_ARP_LEN = BARE_ARP + 28,
};

/* Turns m into an ARP query for the server's link address, from the peer that sends all requests. */
static void
bare_make_query(const struct echo_frames *frames, struct rte_mbuf *m)
{
	uint8_t request[ECHO_FRAME_HEADERS + ECHO_FRAME_MAX_SIZE], *p = rte_pktmbuf_mtod(m, uint8_t *);

	echo_frame_write(frames, 1, request);
	memset(p, 0, BARE_ARP_LEN);
	xk_put48(p, UINT64_C(0xffffffffffff));
	memcpy(p + 6, request + 6, 6);
	xk_put16(p + 12, 0x0806);
	xk_put64(p + BARE_ARP, UINT64_C(0x0001080006040001));
	memcpy(p + BARE_ARP_SENDER, request + 6, 6);
	memcpy(p + BARE_ARP_SENDER + 6, request + ECHO_FRAME_HEADERS - 16, 4);
	xk_put32(p + BARE_ARP_SENDER + 16, BARE_SERVER_ADDRESS);
	m->data_len = BARE_ARP_LEN;
	m->pkt_len = BARE_ARP_LEN;
}

/* Returns the server's link address, or 0 if it did not answer. */
static uint64_t
bare_find_server(struct bare_port *port, const struct echo_frames *frames)
{
	uint64_t link = 0;

	for (unsigned i = 0; i < BARE_TRIES && link == 0; i++) {
		struct rte_mbuf *m = bare_request(port, frames), *other;
		uint64_t until = rte_rdtsc() + rte_get_tsc_hz() / 10;

		bare_make_query(frames, m);
		if (rte_eth_tx_burst(port->id, 0, &m, 1) != 1)
			rte_pktmbuf_free(m);
		while (link == 0 && rte_rdtsc() < until) {
			const uint8_t *p;

			if (bare_receive(port, &other, 1) == 0)
				continue;
			p = rte_pktmbuf_mtod(other, const uint8_t *);
			if (other->data_len >= BARE_ARP_LEN && xk_get16(p + 12) == 0x0806 &&
			    xk_get16(p + BARE_ARP_OPERATION) == 2)
				link = xk_get48(p + BARE_ARP_SENDER);
			rte_pktmbuf_free(other);
		}
	}
	return link;
}

/* Turns the echoes in burst into requests, moves them to its front and frees the other frames. Returns their number. */
static uint16_t
bare_renew(const struct echo_frames *frames, const uint8_t *request, struct rte_mbuf **burst, uint16_t count)
{
	uint16_t echoes = 0;

	for (uint16_t i = 0; i < count; i++) {
		uint8_t *frame = rte_pktmbuf_mtod(burst[i], uint8_t *);

		if (burst[i]->data_len != frames->len || memcmp(frame, request + 6, 6) != 0) {
			rte_pktmbuf_free(burst[i]);
			continue;
		}
		memcpy(frame, request, frames->len);
		burst[echoes++] = burst[i];
	}
	return echoes;
}

/* Keeps `window` requests in flight until `rounds` echoes have arrived. Returns nanoseconds, or 0 if echoes stopped. */
static uint64_t
bare_stream(struct bare_port *port, const struct echo_frames *frames, uint64_t window, uint64_t rounds)
{
	uint8_t request[ECHO_FRAME_HEADERS + ECHO_FRAME_MAX_SIZE];
	struct rte_mbuf *burst[BARE_BURST];
	uint64_t echoes = 0, began_ns = 0, patience = rte_get_tsc_hz() / 10 * BARE_PATIENCE, last_arrival = rte_rdtsc();

	echo_frame_write(frames, 1, request);
	while (began_ns == 0 || echoes < rounds) {
		uint16_t count = 0, sent = 0;

		if (window > 0) {
			for (; count < BARE_BURST && window > 0; window--)
				burst[count++] = bare_request(port, frames);
		} else {
			count = bare_receive(port, burst, BARE_BURST);
			count = bare_renew(frames, request, burst, count);
			echoes += count;
		}
		if (count == 0) {
			if (rte_rdtsc() - last_arrival > patience)
				return 0;
			continue;
		}
		last_arrival = rte_rdtsc();
		while (sent < count)
			sent += rte_eth_tx_burst(port->id, 0, burst + sent, (uint16_t)(count - sent));
		if (began_ns == 0 && echoes >= BARE_WARM_UP) {
			began_ns = bare_now_ns();
			echoes = 0;
		}
	}
	return bare_now_ns() - began_ns;
}

/* Prints echoes per second. Returns false if the server does not answer, or stopped. */
static bool
bare_count(struct bare_port *port, const struct bare_options *o, bool other_program)
{
	struct echo_end server = { BARE_SERVER_LINK, BARE_SERVER_ADDRESS, BARE_SERVER_PORT };
	struct echo_frames frames;
	struct json json;
	uint64_t ns = 0;

	echo_frames_init(&frames, &server, (uint32_t)o->size);
	if (other_program) {
		server.link = bare_find_server(port, &frames);
		echo_frames_init(&frames, &server, (uint32_t)o->size);
	} else {
		rte_pktmbuf_free(bare_first(port, &frames));
	}
	if (server.link != 0)
		ns = bare_stream(port, &frames, o->window, o->rounds);
	if (ns == 0)
		return false;
	if (!o->json) {
		printf("%.0f echoes per second\n", 1e9 * (double)o->rounds / (double)ns);
		return true;
	}
	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "program", "bare_dpdk_echo");
	json_string(&json, "server", o->server);
	json_uint(&json, "size", o->size);
	json_uint(&json, "window", o->window);
	json_double(&json, "echoes_s", 1e9 * (double)o->rounds / (double)ns);
	json_close(&json);
	json_end(&json);
	return true;
}

/* ---- the client's process ---- */

/* Runs the client. other_program: the server is another program, whose link address ARP finds. */
static bool
bare_client(const struct bare_options *o, const char *socket, bool yields, bool other_program,
	    struct histogram *histogram)
{
	struct bare_port port = { .yields = yields, .sleeps = o->sleep };
	char device[200];
	int error;
	bool good;

	snprintf(device, sizeof(device), "net_virtio_user0,path=%s,queue_size=%d,mac=02:00:00:00:01:01", socket,
		 BARE_RING);
	error = bare_start_eal((unsigned)o->cores.value[0], device);
	if (error == 0)
		error = bare_start_port(&port, NULL);
	if (error != 0) {
		bare_report_error("client", error);
		return false;
	}
	good = o->window > 1 ? bare_count(&port, o, other_program) : bare_measure(&port, o, histogram);
	if (!good)
		fprintf(stderr, "bare_dpdk_echo: no echo arrived\n");
	rte_eth_dev_stop(port.id);
	return good;
}

/* ---- the program ---- */

static void
bare_print(const struct bare_options *o, const struct histogram *h, const struct machine *machine)
{
	struct json json;

	if (!o->json) {
		printf("round trip: median %" PRIu64 " ns, p99 %" PRIu64 " ns, min %" PRIu64 " ns; cache line %" PRIu64
		       " ns before, %" PRIu64 " ns after\n",
		       histogram_percentile(h, 50), histogram_percentile(h, 99), h->min, machine->line_ns[0],
		       machine->line_ns[1]);
		return;
	}
	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "program", "bare_dpdk_echo");
	json_uint(&json, "size", o->size);
	json_uint(&json, "rounds", h->count);
	json_object(&json, "rtt_ns");
	json_uint(&json, "min", h->min);
	json_uint(&json, "p50", histogram_percentile(h, 50));
	json_uint(&json, "p90", histogram_percentile(h, 90));
	json_uint(&json, "p99", histogram_percentile(h, 99));
	json_uint(&json, "max", h->max);
	json_uint(&json, "mean", histogram_mean(h));
	json_close(&json);
	machine_json(machine, &json, "machine");
	json_close(&json);
	json_end(&json);
}

/* Starts the server, measures, ends the server. The cache line is measured while no other thread polls. */
static bool
bare_run(const struct bare_options *o, const char *socket, struct histogram *histogram, struct machine *machine)
{
	unsigned client = (unsigned)o->cores.value[0], server = (unsigned)o->cores.value[1];
	cpu_set_t allowed;
	bool good, other_program = strchr(o->server, '/') != NULL;
	pid_t pid = 0;

	if (!machine_has_core(client) || !machine_has_core(server)) {
		fprintf(stderr, "bare_dpdk_echo: this process may not run on cores %u and %u\n", client, server);
		return false;
	}
	sched_getaffinity(0, sizeof(allowed), &allowed);
	machine->line_ns[0] = machine_cache_line_ns(client, server);
	if (!other_program)
		pid = bare_start_server(o, socket, client == server);
	if (pid < 0)
		return false;
	good = bare_client(o, other_program ? o->server : socket, client == server, other_program, histogram);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	sched_setaffinity(0, sizeof(allowed), &allowed);
	machine->line_ns[1] = machine_cache_line_ns(client, server);
	return good;
}

int
main(int argc, char **argv)
{
	struct bare_options o = {
		.cores = { .count = 2, .value = { 0, 1 } }, .rounds = 100000, .size = 1, .window = 1, .server = "swap"
	};
	char directory[] = "/tmp/bare-dpdk-echo.XXXXXX", socket[64];
	struct options_texts operands;
	struct histogram histogram;
	struct machine machine;
	bool good;
	int status;

	status = options_parse(&bare_program, argc, argv, &o, &operands);
	if (status != OPTIONS_GO)
		return status;
	if (o.cores.count != 2)
		return options_misuse(&bare_program, "--cores takes two cores: client and server");
	if (strcmp(o.server, "swap") != 0 &&
	    (o.window == 1 || (strcmp(o.server, "fused") != 0 && strchr(o.server, '/') == NULL)))
		return options_misuse(&bare_program,
				      "--server is swap or, with a --window, fused or the path of a socket");
	if (mkdtemp(directory) == NULL) {
		fprintf(stderr, "bare_dpdk_echo: cannot create a directory for the socket in /tmp: %s\n",
			xk_error(errno));
		return OPTIONS_FAILURE;
	}
	snprintf(socket, sizeof(socket), "%s/socket", directory);
	histogram_init(&histogram);
	machine_describe(&machine);
	good = bare_run(&o, socket, &histogram, &machine);
	unlink(socket);
	rmdir(directory);
	if (good && o.window == 1)
		bare_print(&o, &histogram, &machine);
	return good ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}
