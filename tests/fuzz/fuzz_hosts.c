/*
 * fuzz_hosts.c - hostile peers against a host of every graph in graphs/, driven by a script (fuzz.h), in a simulated
 * world: also in regular mode, and with costs that let frames arrive while others are in progress.
 *
 * The script's first byte makes choices: bit 0 regular mode, bit 1 two threads, bit 2 costs, the others the graph.
 * Frames arrive from one neighbour that plays all of the peers; it can return the host's frames. Other records of
 * fuzz.h: FUZZ_LAZY returns the last frame sent, FUZZ_SERVE changes the mode, FUZZ_CLOSE crashes and boots the host.
 *
 * When all is quiet these must hold: every buffer has come back and no shepherd waits; every frame was received, and
 * each has ended once, by name (for protocols that answer or keep frames themselves, only the buffers show it).
 */
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "platform/sim/sim.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_payload.h"
#include "tests/fuzz/fuzz_procedures.h"
#include "xkernel/bytes.h"
#include "xkernel/kernel.h"

enum {
	HOSTS_LINKS = 4,
	HOSTS_GRAPHS = 32,
	HOSTS_RECORDS = 300,
	HOSTS_CRASHES = 4,
	HOSTS_SETS = 64,
	HOSTS_SET_LEN = 96,
	HOSTS_STACKS = 8,
	HOSTS_FRAGMENTS = 8, /* per datagram */
};

enum { HOSTS_REGULAR = 1 << 0, HOSTS_TWO_THREADS = 1 << 1, HOSTS_COSTS = 1 << 2, HOSTS_GRAPH_SHIFT = 3 };

#define HOSTS_US UINT64_C(1000)
#define HOSTS_MS UINT64_C(1000000)
#define HOSTS_NEIGHBOUR UINT64_C(0x0200000000ee)

/* Graphs by their number in the corpus: their places are fixed. Others of graphs/ follow by name; all are found. */
static const char *const hosts_known[] = {
	"udptest.dot",
	"udptest-explicit.dot",
	"udptest-budget.dot",
	"udptest-reassembly.dot",
	"udptest-multihomed.dot",
	"udptest-two.dot",
	"udptest-faults.dot",
	"udptest-1994.dot",
	"traffic.dot",
	"stopwait.dot",
	"icmptest.dot",
	"host.dot",
	"router.dot",
	"udptest-tapped.dot",
	"chantest.dot",
	"chantest-full.dot",
	"gm.dot",
	"am.dot",
	"tcptest.dot",
};

/* Settings of each instance of a protocol. */
static const struct {
	const char *type, *set;
} hosts_sets[] = {
	{ "eth", "sessions=3" },
	{ "arp", "entries=4" },
	{ "arp", "age=3s" },
	{ "arp", "tries=2" },
	{ "ip", "sessions=3" },
	{ "ip", "seed=2" },
	{ "ip", "gateway=10.77.0.16" },
	{ "ip", "reassembly_timeout=2s" },
	{ "ip", "reassembly_datagrams=6" },
	{ "ip", "reassembly_bytes=52224" },
	{ "ip", "reassembly_source_datagrams=3" },
	{ "ip", "reassembly_source_bytes=17408" },
	{ "icmp", "seed=3" },
	{ "icmptest", "to=10.77.0.16" },
	{ "icmptest", "count=6" },
	{ "icmptest", "interval=2ms" },
	{ "icmptest", "timeout=20ms" },
	{ "udp", "sessions=3" },
	{ "udptest", "peer=10.77.0.16" },
	{ "udptest", "rounds=8" },
	{ "udptest", "size=700" },
	{ "udptest", "start=1ms" },
	{ "udptest", "timeout=20ms" },
	{ "udptest", "silence=1s" },
	{ "stopwait", "sessions=3" },
	{ "tcp", "sessions=3" },
	{ "tcp", "limbo=2" },
	{ "tcp", "waiting=3" },
	{ "tcp", "patience=2s" },
	{ "tcp", "open_patience=2s" },
	{ "tcp", "keep_alive=2s" },
	{ "tcp", "time_wait=1s" },
	{ "tcptest", "peer=10.77.0.16" },
	{ "tcptest", "connections=2" },
	{ "tcptest", "bytes=3000" },
	{ "tcptest", "size=700" },
	{ "tcptest", "start=1ms" },
	{ "tcptest", "silence=2s" },
	{ "tcptest", "strict=no" },
	{ "blast", "sessions=3" },
	{ "blast", "peer_messages=3" },
	{ "blast", "fragments=64" },
	{ "blast", "peer_fragments=64" },
	{ "blasttest", "to=10.77.0.16" },
	{ "blasttest", "count=6" },
	{ "blasttest", "size=4000" },
	{ "blasttest", "timeout=20ms" },
	{ "bidctl", "peers=4" },
	{ "bidctl", "strangers=4" },
	{ "bidctl", "interval=1ms" },
	{ "bidctl", "lifetime=3s" },
	{ "bid", "sessions=3" },
	{ "bid", "interval=1ms" },
	{ "bip", "sessions=3" },
	{ "am", "sessions=3" },
	{ "am", "peer_sessions=2" },
	{ "am", "patience=2s" },
	{ "gm", "sessions=3" },
	{ "gm", "peer_sessions=2" },
	{ "gm", "held=8192" },
	{ "gm", "held=10000" },
	{ "gm", "patience=2s" },
	{ "vsize", "sessions=3" },
	{ "chan", "timeout=20ms" },
	{ "chan", "timeout_max=100ms" },
	{ "chan", "silence=1s" },
	{ "chan", "deadline=1500ms" },
	{ "chan", "lifetime=2s" },
	{ "chan", "channels=4" },
	{ "chan", "peer_channels=2" },
	{ "chan", "saved=10000" },
	{ "vchan", "channels=2" },
	{ "vchan", "wait=100ms" },
	{ "chantest", "peer=10.77.0.16" },
	{ "chantest", "rounds=8" },
	{ "chantest", "channels=2" },
	{ "chantest", "size=700" },
	{ "chantest", "start=1ms" },
	{ "chantest", "silence=1s" },
	{ "traffic", "peers=10.77.0.16 10.77.0.17" },
	{ "traffic", "count=6" },
	{ "traffic", "stop=9s" },
	{ "traffic", "size_max=900" },
	{ "traffic", "promise=none" },
	{ "vdrop", "seed=1" },
	{ "vdelay", "seed=1" },
};

/* Protocols that account for each frame. */
static const char *const hosts_counted[] = { "arp", "eth", "ip", "port", "udp", "udptest", "vnet", "vwork", NULL };

struct hosts_graph {
	struct xk_graph *graph;
	unsigned links;
	bool counted;
};

struct hosts {
	struct xk_sim *sim;
	struct xk_sim_link *links[HOSTS_LINKS];
	struct xk_sim_host *host, *neighbour;
	struct xk_port *ports[HOSTS_LINKS]; /* the neighbour's */
	const struct hosts_graph *graph;
	unsigned choices, crashes;
	bool limited;
	uint64_t arrived;
	struct fuzz_payload_memory memory;
	uint8_t last[FUZZ_FRAME_MAX + 1]; /* the last frame that the host has sent */
	size_t last_len;
	struct fuzz_input input;
};

/* ---- the graphs ---- */

static unsigned
hosts_count_of_type(const struct xk_graph *graph, const char *type)
{
	unsigned count = 0;

	for (unsigned i = 0; i < graph->node_count; i++)
		count += strcmp(graph->nodes[i].type->name, type) == 0;
	return count;
}

static bool
hosts_is_counted(const struct xk_graph *graph)
{
	unsigned count = 0;

	for (const char *const *type = hosts_counted; *type != NULL; type++)
		count += hosts_count_of_type(graph, *type);
	return count == graph->node_count;
}

struct hosts_texts {
	char text[HOSTS_SETS][HOSTS_SET_LEN];
	const char *list[HOSTS_SETS];
	unsigned count;
};

__attribute__((format(printf, 2, 3))) static void
hosts_set(struct hosts_texts *sets, const char *format, ...)
{
	va_list arguments;

	FUZZ_CHECK(sets->count < HOSTS_SETS);
	va_start(arguments, format);
	vsnprintf(sets->text[sets->count], HOSTS_SET_LEN, format, arguments);
	va_end(arguments);
	sets->list[sets->count] = sets->text[sets->count];
	sets->count++;
}

static void
hosts_set_node(struct hosts_texts *sets, const struct xk_graph_node *node, unsigned *ports)
{
	const char *type = node->type->name;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(hosts_sets); i++)
		if (strcmp(hosts_sets[i].type, type) == 0)
			hosts_set(sets, "%s.%s", node->name, hosts_sets[i].set);
	if (strcmp(type, "port") == 0)
		hosts_set(sets, "%s.dev=dev%u", node->name, (*ports)++);
	if (strcmp(type, "vnet") != 0)
		return;
	hosts_set(sets, "%s.address=10.77.0.2/24", node->name);
	if (node->lower_count > 2)
		hosts_set(sets, "%s.address2=10.78.0.2/24", node->name);
}

static struct xk_graph *
hosts_load(const char *file, const struct hosts_texts *sets)
{
	const struct xk_protocol_type *types[128] = { &fuzz_procedures_type };
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(types) - 2 && xk_protocol_types[i] != NULL; i++)
		types[i + 1] = xk_protocol_types[i];
	graph = xk_graph_load(file, sets->list, sets->count, types, &errors);

	if (graph == NULL)
		xk_graph_errors_print(&errors, stderr);
	FUZZ_CHECK(graph != NULL);
	xk_graph_errors_clear(&errors);
	return graph;
}

/* Reads it twice: the settings follow from its types. */
static void
hosts_graph_load(struct hosts_graph *to, const char *file)
{
	struct hosts_texts sets = { .count = 0 };
	struct xk_graph *bare = hosts_load(file, &sets);

	for (unsigned i = 0; i < bare->node_count; i++)
		hosts_set_node(&sets, &bare->nodes[i], &to->links);
	FUZZ_CHECK(to->links <= HOSTS_LINKS);
	xk_graph_free(bare);
	to->graph = hosts_load(file, &sets);
	to->counted = hosts_is_counted(to->graph);
}

static bool
hosts_is_known(const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(hosts_known); i++)
		if (strcmp(hosts_known[i], name) == 0)
			return true;
	return false;
}

struct hosts_graphs {
	struct hosts_graph graph[HOSTS_GRAPHS];
	unsigned count;
	struct hosts_graph select; /* FUZZ_SELECT_GRAPH */
};

/* Returns the graphs of graphs/, and the graph of procedures; read once, from the checkout's root. */
static const struct hosts_graphs *
hosts_all_graphs(void)
{
	static struct hosts_graphs all;
	char path[64];
	glob_t found;

	if (all.count > 0)
		return &all;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(hosts_known); i++) {
		snprintf(path, sizeof(path), "graphs/%s", hosts_known[i]);
		hosts_graph_load(&all.graph[all.count++], path);
	}
	FUZZ_CHECK(glob("graphs/*.dot", 0, NULL, &found) == 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (hosts_is_known(found.gl_pathv[i]))
			continue;
		FUZZ_CHECK(all.count < HOSTS_GRAPHS);
		hosts_graph_load(&all.graph[all.count++], found.gl_pathv[i]);
	}
	globfree(&found);
	FUZZ_CHECK(all.count <= FUZZ_SELECT_GRAPH);
	hosts_graph_load(&all.select, "tests/fuzz/procedures.dot");
	return &all;
}

/* ---- the world ---- */

static void
hosts_add_ports(struct xk_kernel *kernel, struct xk_sim_host *host, unsigned count, struct xk_port **ports)
{
	for (unsigned i = 0; i < count; i++) {
		struct xk_port *port = xk_sim_port_new(host, i);

		FUZZ_CHECK(port != NULL);
		xk_kernel_add_port(kernel, port);
		if (ports != NULL)
			ports[i] = port;
	}
}

static struct xk_kernel *
hosts_boot(void *context, struct xk_sim_host *host)
{
	struct hosts *h = context;
	struct xk_kernel_config config = { .name = "host", .stacks = HOSTS_STACKS, .core = -1 };
	struct xk_graph_errors errors = { 0 };
	struct xk_protocol *failed;
	struct xk_kernel *kernel;

	config.platform = xk_sim_platform(host);
	config.mode = h->choices & HOSTS_REGULAR ? XK_REGULAR : XK_IPP;
	config.driver = XK_DRIVER_INTERRUPT;
	config.threads = h->choices & HOSTS_TWO_THREADS ? 2 : 1;
	kernel = xk_kernel_new(&config);
	FUZZ_CHECK(kernel != NULL);
	hosts_add_ports(kernel, host, h->graph->links, NULL);
	FUZZ_CHECK(xk_graph_build(h->graph->graph, kernel, &errors) == 0);
	FUZZ_CHECK(xk_kernel_init(kernel, &failed) == 0);
	FUZZ_CHECK(xk_kernel_start(kernel) == 0);
	fuzz_procedures_start(kernel);
	return kernel;
}

/* Composes the neighbour: ports without protocols, through which the script sends. */
static struct xk_kernel *
hosts_boot_neighbour(void *context, struct xk_sim_host *host)
{
	struct hosts *h = context;
	struct xk_kernel_config config = {
		.name = "neighbour", .platform = xk_sim_platform(host), .stacks = 2, .core = -1
	};
	struct xk_kernel *kernel = xk_kernel_new(&config);

	FUZZ_CHECK(kernel != NULL);
	hosts_add_ports(kernel, host, h->graph->links, h->ports);
	return kernel;
}

static void
hosts_see(void *context, const struct xk_sim_record *record)
{
	struct hosts *h = context;

	h->arrived += record->event == XK_SIM_ARRIVED && record->host == h->host;
	if (record->event != XK_SIM_SENT || record->host != h->host || record->len > FUZZ_FRAME_MAX)
		return;
	memcpy(h->last, record->frame, record->len);
	h->last_len = record->len;
	fuzz_payload_remember(&h->memory, record->frame, record->len);
}

static void
hosts_begin(struct hosts *h)
{
	static const struct sim_link_config wire = {
		.kind = SIM_LINK_WIRE, .latency_ns = HOSTS_US, .mtu = FUZZ_FRAME_MAX - 14, .queue = 256
	};
	struct xk_sim_host_config config = { .name = "host", .boot = hosts_boot, .context = h };
	struct xk_sim_host_config neighbour = { .name = "neighbour", .boot = hosts_boot_neighbour, .context = h };

	if (h->choices & HOSTS_COSTS)
		config.costs = xk_sim_costs_find("modern")->costs;
	h->sim = xk_sim_new(1);
	h->host = xk_sim_host_new(h->sim, &config);
	h->neighbour = xk_sim_host_new(h->sim, &neighbour);
	FUZZ_CHECK(h->host != NULL && h->neighbour != NULL);
	for (unsigned i = 0; i < h->graph->links; i++) {
		char name[16];

		snprintf(name, sizeof(name), "dev%u", i);
		h->links[i] = xk_sim_link_new(h->sim, name, &wire);
		FUZZ_CHECK(h->links[i] != NULL);
		FUZZ_CHECK(xk_sim_attach(h->host, name, h->links[i], FUZZ_LINK) == 0);
		FUZZ_CHECK(xk_sim_attach(h->neighbour, name, h->links[i], HOSTS_NEIGHBOUR) == 0);
	}
	xk_sim_watch(h->sim, hosts_see, h);
	FUZZ_CHECK(xk_sim_boot(h->host) == 0 && xk_sim_boot(h->neighbour) == 0);
}

static void
hosts_run(struct hosts *h, uint64_t ns)
{
	xk_sim_run(h->sim, xk_sim_now_ns(h->sim) + ns);
}

/* ---- records ---- */

/* Links carry only frames for one of their stations. */
static void
hosts_address(uint8_t *frame, size_t len)
{
	if (len >= 6 && !(frame[0] & 1))
		xk_put48(frame, FUZZ_LINK);
}

static void
hosts_send(struct hosts *h, uint8_t *frame, size_t len, unsigned link)
{
	struct xk_port *port = h->ports[link % h->graph->links];
	struct xk_msg *m = xk_memory_frame(port->platform, len);

	FUZZ_CHECK(m != NULL);
	if (len > 0)
		memcpy(m->data, frame, len);
	if (port->ops->transmit(port, &m, 1) == 0)
		xk_msg_free(m);
}

static void
hosts_frame(struct hosts *h, unsigned flags, unsigned argument)
{
	struct xk_platform *platform = xk_sim_platform(h->host);
	uint8_t frame[FUZZ_FRAME_MAX];
	size_t len = fuzz_u16(&h->input) & FUZZ_FRAME_MAX;

	len = fuzz_bytes(&h->input, frame, len);
	hosts_address(frame, len);
	fuzz_payload_recall(&h->memory, frame, len);
	if (flags & (FUZZ_FIX_IP | FUZZ_FIX_UDP))
		fuzz_fix_checksums(frame, len, (flags & FUZZ_FIX_UDP) != 0);
	if (!(flags & FUZZ_SPLIT) && argument > 0) {
		xk_memory_platform_limit(platform, platform->ops->buffers_out(platform) + argument - 1);
		h->limited = true;
	}
	hosts_send(h, frame, len, argument);
	/* at a split frame the next one arrives while this one is in progress */
	hosts_run(h, flags & FUZZ_SPLIT ? HOSTS_US : 3 * HOSTS_US);
	xk_memory_platform_limit(platform, UINT_MAX);
}

/* Returns the host's last frame to it, a round trip; argument: a bit of it is flipped. */
static void
hosts_reflect(struct hosts *h, unsigned argument)
{
	size_t where = fuzz_u8(&h->input);
	uint8_t frame[FUZZ_FRAME_MAX + 1];

	if (h->last_len < 14 + 20 + 8)
		return;
	memcpy(frame, h->last, h->last_len);
	xk_put48(frame, FUZZ_LINK);
	xk_put48(frame + 6, HOSTS_NEIGHBOUR);
	if (xk_get16(frame + 12) == 0x0800)
		fuzz_payload_answer(frame, h->last_len);
	if (argument & 8 && where < h->last_len)
		frame[where] ^= (uint8_t)(1 << (argument & 7));
	hosts_send(h, frame, h->last_len, argument);
	hosts_run(h, 3 * HOSTS_US);
}

static void
hosts_crash(struct hosts *h)
{
	if (h->crashes++ == HOSTS_CRASHES)
		return;
	FUZZ_CHECK(xk_sim_crash(h->host) == 0);
	hosts_run(h, HOSTS_MS);
	FUZZ_CHECK(xk_sim_boot(h->host) == 0);
}

static void
hosts_reconfigure(struct hosts *h, bool regular)
{
	struct xk_kernel *kernel = xk_sim_kernel(h->host);

	FUZZ_CHECK(xk_kernel_reconfigure(kernel, regular ? XK_REGULAR : XK_IPP, 1) == 0);
}

static void
hosts_record(struct hosts *h)
{
	unsigned byte = fuzz_u8(&h->input), what = byte & 0xf, argument = byte >> 4;

	switch (what) {
	case FUZZ_TIME:
		hosts_run(h, HOSTS_MS << argument);
		break;
	case FUZZ_OPEN:
		fuzz_u8(&h->input);
		break;
	case FUZZ_LAZY:
		hosts_reflect(h, argument);
		break;
	case FUZZ_CLOSE:
		if (argument == 0)
			hosts_crash(h);
		break;
	case FUZZ_PUSH:
		fuzz_u16(&h->input);
		break;
	case FUZZ_SERVE:
		hosts_reconfigure(h, argument & 1);
		break;
	default:
		hosts_frame(h, what & 7, argument);
	}
}

/* ---- properties ---- */

static uint64_t
hosts_counter(const struct xk_protocol *p, const char *name)
{
	for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
		if (strcmp(p->type->counters[i], name) == 0)
			return xk_counter(p, i);
	return 0;
}

/* Returns true if this drop is of a message on send, or one that waited for ARP. */
static bool
hosts_is_of_sending(const struct xk_protocol *p, const char *name)
{
	static const char *const names[] = {
		"no_buffer", "too_big", "unsent", "queue_full", "unresolved", "table_full"
	};

	if (strcmp(p->type->name, "port") == 0)
		return true;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static uint64_t
hosts_ended(const struct xk_protocol *p)
{
	uint64_t ended = hosts_counter(p, "requests_in") + hosts_counter(p, "replies_in") + hosts_counter(p, "others");

	/* its drops were counted as messages before */
	if (strcmp(p->type->name, "udptest") == 0)
		return hosts_counter(p, "messages");
	for (unsigned i = 1; i < xk_drop_count(p->type); i++)
		if (!hosts_is_of_sending(p, xk_drop_name(p->type, i)))
			ended += p->drops[i];
	return ended;
}

/* k reassembled fragments end as one. */
static void
hosts_check_conserved(struct hosts *h, struct xk_kernel *kernel)
{
	uint64_t ended = 0, reassembled = 0;
	struct xk_kernel_stats stats;

	xk_kernel_stats(kernel, &stats);
	FUZZ_CHECK(stats.stacks_parked == 0);
	if (!h->graph->counted || h->limited || h->crashes > 0)
		return;
	FUZZ_CHECK(stats.frames == h->arrived);
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next) {
		ended += hosts_ended(p);
		reassembled += hosts_counter(p, "reassembled");
	}
	FUZZ_CHECK(ended + reassembled <= stats.frames);
	FUZZ_CHECK(ended + reassembled * (HOSTS_FRAGMENTS - 1) >= stats.frames);
}

static void
hosts_end(struct hosts *h)
{
	struct xk_platform *platform = xk_sim_platform(h->host);
	struct xk_sim_host_counts counts;

	hosts_run(h, 200 * 1000 * HOSTS_MS);
	FUZZ_CHECK(platform->ops->buffers_out(platform) == 0);
	xk_sim_host_counts(h->host, &counts);
	FUZZ_CHECK(counts.full == 0 && (h->limited || counts.no_buffer == 0));
	hosts_check_conserved(h, xk_sim_kernel(h->host));
	fuzz_procedures_check(xk_sim_kernel(h->host));
	FUZZ_CHECK(xk_sim_free(h->sim) == 0);
}

static void *
hosts_main(void *argument)
{
	struct hosts *h = argument;
	const struct hosts_graphs *graphs = hosts_all_graphs();

	h->choices = fuzz_u8(&h->input);
	h->graph = h->choices >> HOSTS_GRAPH_SHIFT == FUZZ_SELECT_GRAPH
			   ? &graphs->select
			   : &graphs->graph[(h->choices >> HOSTS_GRAPH_SHIFT) % graphs->count];
	hosts_begin(h);
	for (unsigned i = 0; i < HOSTS_RECORDS && h->input.left > 0; i++)
		hosts_record(h);
	hosts_end(h);
	return NULL;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hosts h = { .input = { data, size } };

	fuzz_on_thread(hosts_main, &h);
	return 0;
}
