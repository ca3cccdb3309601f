/* plan_graph.c - see plan_maker.h: the nodes and edges of a host's protocols. */
#include "tests/swarm/plan_maker.h"

#include <string.h>

#include "protocols/ip/ip_reassembly.h"

enum { PLAN_PATIENCE = 40 };

/* The attributes of a node; each begins with ", ". */
struct plan_node {
	const char *type;
	void (*write)(struct plan_maker *maker);
};

static void
plan_write_sessions(struct plan_maker *maker)
{
	if (plan_one_in(maker, 6))
		plan_write(maker, ", sessions=%u", (unsigned)plan_between(maker, 1, 8));
}

/* BIDCTL queries many hosts at once, and must not lose one while another is resolved. */
static void
plan_write_arp(struct plan_maker *maker)
{
	uint64_t least = plan_has(maker->plan->scenario, "bid") ? maker->plan->hosts : 1;

	if (plan_one_in(maker, 2))
		plan_write(maker, ", entries=%u", (unsigned)plan_between(maker, least, least + 4));
	if (plan_one_in(maker, 4))
		plan_write(maker, ", age=\"%ums\"", (unsigned)plan_between(maker, 20, 500));
	plan_write_time(maker, "timeout", maker->arp_timeout_ns);
	plan_write(maker, ", tries=%u", (unsigned)plan_between(maker, 1, 4));
}

/* The reassembler may hold few datagrams, but always enough for the longest. */
static void
plan_write_ip(struct plan_maker *maker)
{
	/* buffers that hold a fragment's frame with its link header */
	uint64_t buffers = (maker->mtu + 64 + XK_MSG_SEGMENT - 1) / XK_MSG_SEGMENT * IP_REASSEMBLY_BUFFER;
	uint64_t fragments = plan_between(maker, 1, 8) * maker->fragments;

	plan_write_time(maker, "reassembly_timeout", maker->reassembly_ns);
	if (maker->identification != 0)
		plan_write(maker, ", seed=%u", (unsigned)maker->identification);
	if (plan_one_in(maker, 4))
		plan_write(maker, ", reassembly_datagrams=%u", (unsigned)plan_between(maker, 2, 8));
	if (plan_one_in(maker, 4))
		plan_write(maker, ", reassembly_source_datagrams=%u", (unsigned)plan_between(maker, 1, 4));
	if (plan_one_in(maker, 4))
		plan_write(maker, ", reassembly_bytes=%u", (unsigned)((fragments + 2 * maker->fragments) * buffers));
	if (plan_one_in(maker, 4))
		plan_write(maker, ", reassembly_source_bytes=%u", (unsigned)((maker->fragments + 1) * buffers));
	plan_write_sessions(maker);
}

static void
plan_write_udp(struct plan_maker *maker)
{
	plan_write(maker, ", checksum=%s", maker->plan->checked ? "yes" : "no");
	plan_write_sessions(maker);
}

static void
plan_write_stopwait(struct plan_maker *maker)
{
	plan_write(maker, ", queue=%u", (unsigned)maker->queue);
	plan_write_time(maker, "timeout", maker->timeout_ns);
	plan_write_time(maker, "timeout_max", maker->timeout_max_ns);
	plan_write(maker, ", retries=%u",
		   (unsigned)(maker->plan->patient ? PLAN_PATIENCE : plan_between(maker, 2, 10)));
}

/* A patient sender's session must not be forgotten, since its messages may be in flight. */
static void
plan_write_gm(struct plan_maker *maker)
{
	static const char *const smalls[] = { "reference", "copy" };
	uint64_t patience_ns = maker->timeout_max_ns * plan_between(maker, 3, 8);

	plan_write(maker, ", tokens=%u, window=%u, buffers=%u, small=%s",
		   (unsigned)plan_between(maker, 1, maker->plan->is_long ? 4 : 16),
		   (unsigned)plan_between(maker, 1, 32), (unsigned)plan_between(maker, 1, 16),
		   smalls[xk_chance_below(&maker->chance, 2)]);
	plan_write_time(maker, "timeout", maker->timeout_ns);
	plan_write_time(maker, "timeout_min", plan_between(maker, 1, maker->timeout_ns / 1000) * 1000);
	plan_write_time(maker, "timeout_max", maker->timeout_max_ns);
	plan_write_time(maker, "patience", maker->plan->patient ? UINT64_C(60000000000) : patience_ns);
	if (maker->plan->seed / 32 % 2 == 1) /* not random, so that the rest of the plan stays the same */
		plan_write_time(maker, "ack_delay", maker->timeout_ns / (1 + maker->plan->seed % 8));
	if (maker->plan->patient)
		return;
	if (plan_one_in(maker, 3))
		plan_write(maker, ", peer_sessions=%u", (unsigned)plan_between(maker, 1, 3));
	if (plan_one_in(maker, 3))
		plan_write(maker, ", held=%u",
			   4 * XK_MSG_SEGMENT * (unsigned)(16 + maker->size_max / 256 + plan_between(maker, 0, 16)));
	plan_write_sessions(maker);
}

/* As gm, but an evicted session ends its peer's conversation: each host may have one. */
static void
plan_write_am(struct plan_maker *maker)
{
	uint64_t patience_ns = maker->timeout_max_ns * plan_between(maker, 3, 8);

	plan_write(maker, ", outstanding=%u, credits=%u, queue=%u", (unsigned)plan_between(maker, 1, 16),
		   (unsigned)plan_between(maker, 1, 16), (unsigned)maker->queue);
	plan_write_time(maker, "timeout", maker->timeout_ns);
	plan_write_time(maker, "timeout_min", plan_between(maker, 1, maker->timeout_ns / 1000) * 1000);
	plan_write_time(maker, "timeout_max", maker->timeout_max_ns);
	plan_write_time(maker, "patience", maker->plan->patient ? UINT64_C(60000000000) : patience_ns);
	if (maker->plan->patient)
		return;
	if (plan_one_in(maker, 3))
		plan_write(maker, ", peer_sessions=%u", (unsigned)plan_between(maker, 1, 3));
	if (plan_one_in(maker, 3))
		plan_write(maker, ", sessions=%u",
			   (unsigned)plan_between(maker, maker->plan->hosts, maker->plan->hosts + 8));
}

/* Writes a number of bytes, small ones as often as large ones. */
static void
plan_write_bytes(struct plan_maker *maker, const char *name)
{
	uint64_t most = UINT64_C(1024) << plan_between(maker, 0, 8);

	plan_write(maker, ", %s=%u", name, (unsigned)plan_between(maker, most, 2 * most - 1));
}

static void
plan_write_yes_or_no(struct plan_maker *maker, const char *name)
{
	plan_write(maker, ", %s=%s", name, plan_one_in(maker, 2) ? "yes" : "no");
}

/*
 * A connection whose peer is gone is probed, and given up before the network is quiet; a slow network gets several
 * timeouts.
 */
static void
plan_write_tcp(struct plan_maker *maker)
{
	uint64_t patience_ns = 4 * maker->timeout_max_ns + plan_between(maker, 0, 1000) * 1000000;

	if (maker->plan->patient)
		patience_ns = UINT64_C(60000000000);
	plan_write_bytes(maker, "send");
	plan_write_bytes(maker, "receive");
	plan_write_time(maker, "timeout", plan_between(maker, 20000000, maker->timeout_ns));
	plan_write_time(maker, "timeout_min", plan_between(maker, 1, 200) * 1000000);
	plan_write_time(maker, "timeout_max", maker->timeout_max_ns);
	plan_write_time(maker, "patience", patience_ns);
	plan_write_time(maker, "open_patience", patience_ns);
	plan_write_time(maker, "ack_delay", plan_between(maker, 0, 100) * 1000000);
	plan_write_time(maker, "keep_alive", plan_between(maker, 50, 1000) * 1000000);
	plan_write(maker, ", challenges=%u", (unsigned)plan_between(maker, 1, 100));
	plan_write_yes_or_no(maker, "sack");
	plan_write_yes_or_no(maker, "stamps");
	plan_write_yes_or_no(maker, "scale");
	plan_write_yes_or_no(maker, "eager");
	if (plan_one_in(maker, 3))
		plan_write(maker, ", limbo=%u", (unsigned)plan_between(maker, 0, 4));
	if (maker->plan->scarce) /* an end that is forgotten too early resets the other */
		plan_write(maker, ", synack_retries=%u, time_wait=\"%ums\", waiting=%u, connections=%u",
			   (unsigned)plan_between(maker, 0, 4), (unsigned)plan_between(maker, 1, 2000),
			   (unsigned)plan_between(maker, 1, 8), (unsigned)plan_between(maker, 1, 8));
	else
		plan_write(maker, ", synack_retries=%u, time_wait=\"%ums\"", (unsigned)plan_between(maker, 8, 12),
			   (unsigned)plan_between(maker, 2000, 3000));
	plan_write_sessions(maker);
}

static void
plan_write_tcptest(struct plan_maker *maker)
{
	plan_write_time(maker, "silence", 5 * maker->timeout_max_ns + plan_between(maker, 1, 1000) * 1000000);
}

static void
plan_write_bid(struct plan_maker *maker)
{
	plan_write_time(maker, "interval", plan_between(maker, 1, 50) * 1000000);
	plan_write_sessions(maker);
}

/* A query may be in flight as long as a message with its answer, and those queued before them. */
static void
plan_write_bidctl(struct plan_maker *maker)
{
	uint64_t timeout_ns = plan_between(maker, 15, 40) * 1000000;

	plan_write_time(maker, "timeout", timeout_ns);
	plan_write_time(maker, "timeout_max", timeout_ns * plan_between(maker, 1, 3));
	plan_write(maker, ", retries=%u", (unsigned)plan_between(maker, 1, 5));
	plan_write_time(maker, "interval", plan_between(maker, 1, 20) * 1000000);
	plan_write_time(maker, "broadcast_wait", plan_between(maker, 0, 100) * 1000000);
	if (plan_one_in(maker, 2))
		plan_write(maker, ", broadcast=no");
	if (plan_one_in(maker, 2))
		plan_write_time(maker, "keepalive", plan_between(maker, 20, 300) * 1000000);
	if (plan_one_in(maker, 4))
		plan_write(maker, ", strangers=%u", (unsigned)plan_between(maker, 4, 8));
}

/* Kept messages expire long before the network is quiet, and soon enough that no sender waits long. */
static void
plan_write_blast(struct plan_maker *maker)
{
	uint64_t nack_ms = plan_between(maker, 2, 40), keep_ms = plan_between(maker, 160, 250);
	uint64_t kept = maker->load * keep_ms / 1000 + 2;

	plan_write_time(maker, "nack", nack_ms * 1000000);
	plan_write_time(maker, "nack_min", plan_between(maker, 100, 2000) * 1000);
	plan_write_time(maker, "nack_max", plan_between(maker, nack_ms, 150) * 1000000);
	plan_write(maker, ", nacks=%u", (unsigned)plan_between(maker, 1, 6));
	plan_write_time(maker, "keep", keep_ms * 1000000);
	plan_write_time(maker, "give_up", plan_between(maker, 500, 1000) * 1000000);
	if (plan_one_in(maker, 4))
		plan_write(maker, ", outstanding=%u", (unsigned)plan_between(maker, kept, kept + 8));
	if (plan_one_in(maker, 4))
		plan_write(maker, ", outstanding_peer=%u", (unsigned)plan_between(maker, kept, kept + 8));
	if (plan_one_in(maker, 4))
		plan_write(maker, ", messages=%u", (unsigned)plan_between(maker, 4, 16));
	if (plan_one_in(maker, 4))
		plan_write(maker, ", peer_messages=%u", (unsigned)plan_between(maker, 2, 8));
	if (plan_one_in(maker, 4))
		plan_write(maker, ", fragments=%u, peer_fragments=64", (unsigned)plan_between(maker, 64, 128));
	plan_write_sessions(maker);
}

/* Two faults in one message may cancel out in a 16-bit sum: faults are rare if messages have several frames. */
static void
plan_write_vdrop(struct plan_maker *maker)
{
	uint64_t permille;

	plan_write_fault(maker, PLAN_VLOSS, "loss", 80);
	if (plan_one_in(maker, 3) && !maker->plan->patient)
		plan_write(maker, ", burst=%u", (unsigned)plan_between(maker, 2, 8));
	plan_write_fault(maker, PLAN_VDUPLICATE, "duplicate", 100);
	plan_write_fault(maker, PLAN_VREORDER, "reorder", 200);
	plan_write_time(maker, "reorder_time", plan_between(maker, 1, 10000) * 1000);
	if (plan_one_in(maker, 2))
		plan_write(maker, ", held=%u", (unsigned)plan_between(maker, 1, 4));
	if (!maker->plan->damages)
		return;
	permille = plan_between(maker, 1, maker->fragments > 1 ? 5 : 150);
	plan_write(maker, ", direction=up, corrupt=\"%u.%u%%\"", (unsigned)(permille / 10), (unsigned)(permille % 10));
	maker->plan->asked[PLAN_VCORRUPT] = true;
}

static void
plan_write_vdelay(struct plan_maker *maker)
{
	const char *way = plan_one_in(maker, 2) ? "up" : "down";

	plan_write_time(maker, way, plan_between(maker, 1, 5000) * 1000);
	if (plan_one_in(maker, 2))
		plan_write_time(maker, "jitter", plan_between(maker, 1, 5000) * 1000);
	if (plan_one_in(maker, 2))
		plan_write(maker, ", reorder=yes");
	if (plan_one_in(maker, 4))
		plan_write(maker, ", held=%u", (unsigned)plan_between(maker, 1, 4));
	maker->plan->asked[PLAN_VDELAY] = true;
}

static const struct plan_node plan_nodes[] = {
	{ "arp", plan_write_arp },       { "ip", plan_write_ip },         { "udp", plan_write_udp },
	{ "vdrop", plan_write_vdrop },   { "vdelay", plan_write_vdelay }, { "stopwait", plan_write_stopwait },
	{ "eth", plan_write_sessions },  { "vnet", plan_write_sessions }, { "bid", plan_write_bid },
	{ "bidctl", plan_write_bidctl }, { "blast", plan_write_blast },   { "gm", plan_write_gm },
	{ "am", plan_write_am },         { "tcp", plan_write_tcp },       { "tcptest", plan_write_tcptest },
};

static const char *const plan_policies[] = { "implicit=handoff", "implicit=\"spin(20us)\"", "implicit=fail",
					     "resume=thread", "resume=driver" };

/*
 * tcptest sends echoes back in its demux, and waits there for room in TCP: that must not fail, nor keep the acknowledgement
 * that brings room behind it.
 */
static void
plan_write_policy(struct plan_maker *maker, const char *node)
{
	uint64_t which = xk_chance_below(&maker->chance, XK_ARRAY_LENGTH(plan_policies) + 1);
	const char *policy = which == 0 ? "order=session" : plan_policies[which - 1];

	if (plan_has(maker->plan->scenario, "tcp") &&
	    (which == 0 || (strncmp(node, "tcp", 3) == 0 && strcmp(policy, "implicit=fail") == 0)))
		return;
	plan_write(maker, ", %s", policy);
	maker->has_order |= which == 0;
}

static void
plan_write_traffic(struct plan_maker *maker, unsigned n)
{
	const struct plan_scenario *scenario = maker->plan->scenario;
	bool has_ports = !plan_has(scenario, "blast");

	plan_write(maker, ", protocol=traffic, promise=%s, peers=\"10.77.0.1-10.77.0.%u\"", scenario->promises[n],
		   maker->plan->hosts);
	plan_write(maker, ", port=%u, rate=%u, size_min=%u, size_max=%u, pattern=%s", has_ports ? 2002 + n : 0,
		   (unsigned)maker->load, (unsigned)maker->size_min, (unsigned)maker->size_max,
		   maker->is_random ? "random" : "turn");
	plan_write(maker, ", senders=1000");
	if (maker->local != 0 && has_ports)
		plan_write(maker, ", local=%u", (unsigned)maker->local);
}

/* Writes a node, which was named as an edge's upper. */
static void
plan_write_node(struct plan_maker *maker, const char *name)
{
	const struct plan_scenario *scenario = maker->plan->scenario;

	plan_write(maker, "\t%s [trace=none", name);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(plan_nodes); i++)
		if (strcmp(plan_nodes[i].type, name) == 0)
			plan_nodes[i].write(maker);
	for (unsigned n = 0; n < maker->traffics; n++)
		if (strcmp(scenario->traffics[n], name) == 0)
			plan_write_traffic(maker, n);
	if (plan_one_in(maker, 6))
		plan_write_policy(maker, name);
	plan_write(maker, "];\n");
}

static void
plan_write_edge(struct plan_maker *maker, const struct plan_edge *edge)
{
	plan_write(maker, "\t%s -> %s [color=black", edge->upper, edge->lower);
	if (edge->attributes[0] != '\0')
		plan_write(maker, ", %s", edge->attributes);
	if (plan_one_in(maker, 6)) {
		plan_write(maker, ", handoff=explicit");
	} else if (plan_one_in(maker, 6)) {
		plan_write(maker, ", budget=\"%uus\"", (unsigned)plan_between(maker, 1, 50));
		if (plan_one_in(maker, 2))
			plan_write(maker, ", carry=%u", (unsigned)plan_between(maker, 1, 8));
	}
	plan_write(maker, "];\n");
}

/* Writes ip, some virtual protocols, vnet, and the protocols below. */
static void
plan_write_lower(struct plan_maker *maker, bool vdrop, bool vdelay)
{
	static const struct plan_edge lower[] = {
		{ "vnet", "eth", "" }, { "vnet", "arp", "" }, { "arp", "eth", "" }, { "eth", "port", "" }
	};
	const char *above = "ip";

	if (vdrop) {
		plan_write_edge(maker, &(struct plan_edge){ above, "vdrop", "" });
		above = "vdrop";
	}
	if (vdelay) {
		plan_write_edge(maker, &(struct plan_edge){ above, "vdelay", "" });
		above = "vdelay";
	}
	plan_write_edge(maker, &(struct plan_edge){ above, "vnet", "" });
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(lower); i++)
		plan_write_edge(maker, &lower[i]);
}

void
plan_write_graph(struct plan_maker *maker, unsigned n)
{
	static const char *const below[] = { "ip", "vnet", "arp", "eth" };
	const struct plan_scenario *scenario = maker->plan->scenario;
	bool vdrop = plan_one_in(maker, 2) || (maker->plan->damages && n == 0), vdelay = plan_one_in(maker, 4);
	const char *last = "";

	plan_begin_text(maker, maker->plan->graphs[n]);
	plan_write(maker, "digraph %s {\n", n == 0 ? "a" : "b");
	if (plan_one_in(maker, 5))
		plan_write(maker, "\tgraph [budget=\"%uus\"];\n", (unsigned)plan_between(maker, 1, 100));
	for (const struct plan_edge *edge = scenario->edges; edge->upper != NULL; last = edge->upper, edge++)
		if (strcmp(edge->upper, last) != 0)
			plan_write_node(maker, edge->upper);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(below); i++)
		plan_write_node(maker, below[i]);
	if (vdrop)
		plan_write_node(maker, "vdrop");
	if (vdelay)
		plan_write_node(maker, "vdelay");
	for (const struct plan_edge *edge = scenario->edges; edge->upper != NULL; edge++)
		plan_write_edge(maker, edge);
	plan_write_lower(maker, vdrop, vdelay);
	plan_write(maker, "}\n");
}
