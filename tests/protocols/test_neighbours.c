/*
 * test_neighbours.c - honest neighbours that change, for every protocol that expects answers: a conversation between
 * two hosts continues when one of them returns, with the same link address or another. Virtual time.
 */
#include "tests/simulated.h"

#define S UINT64_C(1000000000)

/* Hosts, each with a link address of its own. The second one of a pair replaces the first. */
enum { CLIENT, OTHER_CLIENT, SERVER, OTHER_SERVER, HOSTS };

enum {
	QUIET_S = 10,   /* time until everything has started */
	DOWN_S = 1,     /* time for which a host is down */
	PATIENCE_S = 3, /* time within which the conversation must continue */
};

/* A test protocol, and the protocols between it and vnet. */
struct stack {
	const char *top, *graph;
	const char *client; /* attributes that make it a client */
	const char *count;  /* the client's counter of answers, or the server's of messages */
	bool at_server;
};

#define TO "=\"10.77.0.2\""
#define OFTEN "rounds=1000000000, timeout=\"200ms\", silence=\"60s\""
#define IP "ip -> vnet; "
#define BLAST "chan -> bidctl; bid -> blast; bid -> bidctl; blast -> vnet; bidctl -> vnet; "
#define UDP "udp -> ip; " IP

static const struct stack stacks[] = {
	{ "udptest", "udptest -> udp; " UDP, "peer" TO ", " OFTEN, "messages", false },
	{ "udptest", "udptest -> am; am -> vnet; ", "peer" TO ", " OFTEN, "messages", false },
	{ "udptest", "udptest -> am; am [port=3007]; am -> udp; " UDP, "peer" TO ", " OFTEN, "messages", false },
	{ "icmptest", "icmptest -> icmp; icmp -> ip; " IP, "to" TO ", count=0, interval=\"200ms\", timeout=\"500ms\"",
	  "received", false },
	{ "blasttest", "blasttest -> blast; blast -> vnet; ", "to" TO ", count=1000000000, timeout=\"300ms\"",
	  "answered", false },
	{ "chantest", "chantest -> chan; chan -> bid; " BLAST, "peer" TO ", rounds=1000000000, silence=\"60s\"",
	  "messages", false },
	{ "chantest", "chantest -> chan; chan -> bid; " BLAST,
	  "peer" TO ", rounds=1000000000, silence=\"60s\", size=20000", "messages", false },
	{ "chantest", "chantest -> chan; chan -> bid; chan -> bidctl; bid -> ip; bid -> bidctl; bidctl -> ip; " IP,
	  "peer" TO ", rounds=1000000000, silence=\"60s\"", "messages", false },
	{ "pingpong", "pingpong -> udp; " UDP,
	  "peer" TO ", rounds=1000000, repeats=1000, timeout=\"200ms\", silence=\"60s\"", "messages", true },
	{ "logptest", "logptest -> udp; " UDP,
	  "peer" TO ", rounds=1000, sends=100, send_work=\"10ms\", timeout=\"200ms\", silence=\"60s\"", "messages",
	  true },
	{ "traffic", "traffic -> stopwait; stopwait -> ip [number=253]; " IP, "peers" TO ", rate=10", "received",
	  true },
};

struct world {
	struct xk_sim *sim;
	struct xk_sim_host *hosts[HOSTS];
	const struct stack *stack;
};

static struct xk_kernel *
world_boot(void *context, struct xk_sim_host *host)
{
	struct world *w = context;
	struct xk_kernel *kernel = simulated_kernel(host, (struct xk_kernel_config){ .mode = XK_IPP });
	bool is_client = xk_sim_host_number(host) < SERVER;
	char text[1024];

	snprintf(text, sizeof(text),
		 "digraph g { %s [%s]; vnet [address=\"10.77.0.%u/24\"]; %s vnet -> eth; vnet -> arp; arp -> eth; "
		 "eth -> port; }",
		 w->stack->top, is_client ? w->stack->client : "", is_client ? 1 : 2, w->stack->graph);
	compose(kernel, NULL, text);
	return simulated_start(kernel);
}

static void
world_open(struct world *w, const struct stack *stack)
{
	static const char *const names[HOSTS] = { "c1", "c2", "s1", "s2" };
	struct sim_link_config config = sim_link_preset_find("hub100")->config;
	struct xk_sim_link *lan;

	config.kind = SIM_LINK_SWITCH;
	config.latency_ns = S / 1000; /* few round trips */
	*w = (struct world){ .sim = xk_sim_new(1), .stack = stack };
	REQUIRE(w->sim != NULL);
	lan = xk_sim_link_new(w->sim, "lan", &config);
	for (unsigned i = 0; i < HOSTS; i++)
		w->hosts[i] = simulated_host(w->sim, lan, names[i], world_boot, w);
}

/* Returns the stack's count at its pair of hosts, since the boot of the one that is up. */
static long
world_count(struct world *w)
{
	unsigned first = w->stack->at_server ? SERVER : CLIENT;
	struct xk_sim_host *host = w->hosts[xk_sim_is_up(w->hosts[first]) ? first : first + 1];

	return compose_count(xk_sim_kernel(host), w->stack->top, w->stack->count);
}

static void
world_run(struct world *w, uint64_t seconds)
{
	xk_sim_run(w->sim, xk_sim_now_ns(w->sim) + seconds * S);
}

/* Runs a conversation during which host `from` goes down and `to` takes its place. */
static void
world_change(const struct stack *stack, unsigned from, unsigned to)
{
	struct world w;
	long before;

	world_open(&w, stack);
	REQUIRE(xk_sim_boot(w.hosts[SERVER]) == 0);
	REQUIRE(xk_sim_boot(w.hosts[CLIENT]) == 0);
	world_run(&w, QUIET_S);
	before = world_count(&w);
	world_run(&w, 1);
	CHECK(world_count(&w) > before);
	CHECK_EQ(xk_sim_crash(w.hosts[from]), 0);
	world_run(&w, DOWN_S);
	REQUIRE(xk_sim_boot(w.hosts[to]) == 0);
	world_run(&w, PATIENCE_S);
	before = world_count(&w);
	world_run(&w, 1);
	if (world_count(&w) <= before)
		fprintf(stderr, "\n%s, %s: silent after %u became %u\n", stack->top, stack->graph, from, to);
	CHECK(world_count(&w) > before);
	xk_sim_free(w.sim);
}

static void
change_all(unsigned from, unsigned to)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(stacks); i++)
		world_change(&stacks[i], from, to);
}

TEST_OF(conversation_continues_when_its_server_returns, change_all(SERVER, SERVER));
TEST_OF(conversation_continues_when_its_server_returns_elsewhere, change_all(SERVER, OTHER_SERVER));
TEST_OF(server_answers_a_client_that_returns, change_all(CLIENT, CLIENT));
TEST_OF(server_answers_a_client_that_returns_elsewhere, change_all(CLIENT, OTHER_CLIENT));
