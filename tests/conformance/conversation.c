/* conversation.c - see conversation.h. */
#include "tests/conformance/conversation.h"

#include "graphs/graph.h"
#include "tests/conformance/twins.h"
#include "tests/test.h"

enum { SHORT_BYTES = 41, LONG_BYTES = 1001, SETTING_MAX = 64 };

#define TICK_NS UINT64_C(100000) /* how long a frame takes */
#define END_NS UINT64_C(5000000000)

/* Protocols that begin conversations, and their settings as a client. SIZE: bytes of its messages. */
static const struct talking {
	const char *protocol;
	bool is_mutual; /* the server begins, too */
	const char *sets[6];
} talkings[] = {
	{ "udptest", false, { "peer=10.0.0.1", "rounds=1000", "size=SIZE" } },
	{ "tcptest", false, { "peer=10.0.0.1", "flow=echo", "bytes=1000000", "size=SIZE" } },
	{ "chantest", false, { "peer=10.0.0.1", "rounds=1000", "size=SIZE", "start=0s" } },
	{ "logptest", false, { "peer=10.0.0.1", "rounds=1000", "size=SIZE", "sends=2", "timeout=20ms" } },
	{ "pingpong", false, { "peer=10.0.0.1", "rounds=1000", "size=SIZE" } },
	{ "blasttest", false, { "to=10.0.0.1", "count=1000", "size=SIZE", "timeout=100ms" } },
	{ "icmptest", false, { "to=10.0.0.1", "count=1000", "size=SIZE", "interval=1ms" } },
	{ "traffic", true, { "peers=10.0.0.1-10.0.0.3", "rate=2000", "stop=10s", "size_min=SIZE", "size_max=SIZE" } },
};

/* Adds node.set to a talker's settings. */
static void
talker_set(struct talker *talker, const char *node, const char *set, unsigned size)
{
	size_t before = strcspn(set, "S");
	char *text = talker->sets[talker->plan.set_count];

	REQUIRE(talker->plan.set_count < HOST_SETS);
	if (strcmp(set + before, "SIZE") == 0)
		snprintf(text, sizeof(talker->sets[0]), "%s.%.*s%u", node, (int)before, set, size);
	else
		snprintf(text, sizeof(talker->sets[0]), "%s.%s", node, set);
	talker->plan.sets[talker->plan.set_count++] = text;
}

static void
conversation_set(struct conversation *c, const char *node, const struct talking *talking)
{
	for (unsigned i = talking->is_mutual ? 0 : 1; i < TALKERS; i++)
		for (unsigned k = 0; k < XK_ARRAY_LENGTH(talking->sets) && talking->sets[k] != NULL; k++)
			talker_set(&c->talkers[i], node, talking->sets[k], i + 1 < TALKERS ? SHORT_BYTES : LONG_BYTES);
}

static const char *
node_protocol(const struct xk_graph_node *node)
{
	const struct xk_graph_attribute *type = xk_graph_attribute_find(&node->attributes, "protocol");

	return type != NULL ? type->value : node->name;
}

/* Gives each host its address on one more link. */
static void
conversation_link(struct conversation *c, unsigned link)
{
	char set[SETTING_MAX];

	for (unsigned i = 0; i < TALKERS; i++) {
		snprintf(set, sizeof(set), link == 0 ? "address=10.0.0.%u/24" : "address2=10.0.1.%u/24", i + 1);
		talker_set(&c->talkers[i], "vnet", set, 0);
	}
}

/* Makes the hosts' plans. Returns false if the graph is a router's. */
static bool
conversation_plan(struct conversation *c, const struct host_plan *plan, const char *const *more)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = xk_graph_read(c->graph, &errors);
	unsigned begin = 0, links = 0;
	bool forwards = false;

	REQUIRE(graph != NULL);
	for (unsigned i = 0; i < TALKERS; i++) {
		c->talkers[i].plan = *plan;
		c->talkers[i].plan.number = i;
		for (unsigned k = 0; more != NULL && more[k] != NULL; k++)
			c->talkers[i].plan.sets[c->talkers[i].plan.set_count++] = more[k];
	}
	for (unsigned n = 0; n < graph->node_count; n++) {
		const struct xk_graph_node *node = &graph->nodes[n];

		for (unsigned k = 0; k < XK_ARRAY_LENGTH(talkings); k++)
			if (strcmp(node_protocol(node), talkings[k].protocol) == 0) {
				conversation_set(c, node->name, &talkings[k]);
				begin++;
			}
		if (strcmp(node_protocol(node), "port") == 0)
			conversation_link(c, links++);
		forwards = forwards || xk_graph_attribute_find(&node->attributes, "forward") != NULL;
	}
	xk_graph_free(graph);
	if (begin == 0 && !forwards)
		printf("%s: no protocol in it begins a conversation: add one to the table\n", c->graph);
	REQUIRE(begin > 0 || forwards);
	return begin > 0;
}

/* Delivers a frame to a talker, with the checksum that its sender's port would complete, and records it. */
static void
talker_hear(struct talker *talker, struct host *host, const struct sent *sent)
{
	struct arrival *arrival = &talker->arrivals[talker->count];
	uint64_t by_path = host_by_path(host);

	if (sent->len > ARRIVAL_MAX || talker->count == ARRIVALS)
		return;
	*arrival = (struct arrival){ .at_ns = host_now_ns(host), .port = sent->port, .len = sent->len };
	memcpy(arrival->bytes, sent->bytes, sent->len);
	if (talker->plan.offloads != 0)
		frame_correct_sums(arrival->bytes, arrival->len, true);
	host_inject(host, arrival->port, arrival->bytes, arrival->len);
	arrival->by_path = host_by_path(host) != by_path;
	talker->count++;
}

/* Delivers to the others what a host has sent before now: each frame takes a tick at least. */
static void
conversation_carry(struct conversation *c, struct host *const hosts[TALKERS], unsigned from, uint64_t now_ns)
{
	const struct sent *sent;

	while ((sent = host_first_sent(hosts[from])) != NULL && sent->at_ns < now_ns) {
		for (unsigned i = 0; i < TALKERS; i++) {
			uint64_t link = host_link(&c->talkers[i].plan, sent->port);

			if (i != from && ((sent->bytes[0] & 1) != 0 || sent->bytes[5] == (uint8_t)link))
				talker_hear(&c->talkers[i], hosts[i], sent);
		}
		host_drop_sent(hosts[from]);
	}
}

struct conversation *
conversation_record(const struct host_plan *plan, const char *const *sets)
{
	struct conversation *c = calloc(1, sizeof(*c));
	struct host *hosts[TALKERS];
	char why[256] = "";
	bool is_full = false;

	REQUIRE(c != NULL);
	c->graph = plan->graph;
	if (!conversation_plan(c, plan, sets)) {
		free(c);
		return NULL;
	}
	for (unsigned i = 0; i < TALKERS; i++) {
		hosts[i] = host_new(&c->talkers[i].plan, why, sizeof(why));
		if (hosts[i] == NULL)
			printf("%s: %s\n", c->graph, why);
		REQUIRE(hosts[i] != NULL);
	}
	for (uint64_t now_ns = TICK_NS; now_ns < END_NS && !is_full; now_ns += TICK_NS) {
		for (unsigned i = 0; i < TALKERS; i++)
			host_run_until(hosts[i], now_ns, false);
		for (unsigned i = 0; i < TALKERS; i++) {
			conversation_carry(c, hosts, i, now_ns);
			is_full = is_full || c->talkers[i].count == ARRIVALS;
		}
	}
	for (unsigned i = 0; i < TALKERS; i++)
		CHECK(host_free(hosts[i]));
	return c;
}
