/* test_topology_refused.c - refused network files and their errors, and damaged network files. */
#include "tests/fuzz/fuzz.h"
#include "tests/graphs/topology_files.h"

TEST(a_network_is_one_undirected_graph)
{
	refuse("digraph g { a -> b }",
	       ":1: this graph is directed, as protocol graphs are: a network of hosts is written");
	refuse("graph g {\na -> b }", ":2: -> joins nodes of a digraph");
	refuse("graph g {\na -- ; }", ":2: syntax error at ';': expected a node after --");
	refuse("", ":1: there is no graph in this file: expected graph NAME { ... }");
	refuse("graph g {}\ngraph h {}", ":2: a second graph begins here");
	refuse("graph g {\na -- { b c } }", ":2: several nodes in braces at the end of an edge");
	refuse("graph g {\na, b -- c }", ":2: several nodes at the end of an edge");
	refuse("graph g {\na:p -- b }", ":2: node a has the port \"p\": edges join whole nodes");
	refuse("graph g { a [graph=x] }", ":1: \"graph\" is a keyword of DOT");
	refuse("graph g { lan [link=ethernet10] }", ":1: this network has 0 hosts, not 1 to 10000");
	refuse(HEAD "a -- lan; subgraph cluster_x {\nthreads=2 } }", ":3: threads in a subgraph");
}

TEST_WITH(a_strict_network_joins_two_nodes_once, struct xk_topology *net,
	  good("strict " HEAD "a -- lan; lan -- a; b -- lan; b -- lan }"), xk_topology_free)
{
	CHECK_EQ(net->links[0].device_count, 2);
}

TEST(incomplete_hosts_are_refused)
{
	refuse("graph g { lan [link=ethernet10];\na -- lan }", ":2: host a has no graph file: add protocols=");
	refuse(HEAD "a -- lan;\nb }", ":3: host b has no link");
	refuse(HEAD "a -- lan;\nb [count=3] }", ":3: host b1 has no link: add an edge b -- LINK");
	refuse(HEAD "a -- lan;\na [protocols=\"none.dot\"] }", ":3: protocols of a is \"none.dot\": no such file");
	refuse(HEAD "a -- lan;\na [protocols=\"..\"] }", ":3: protocols of a is \"..\": no such file");
}

TEST(invalid_edges_are_refused)
{
	refuse(HEAD "a -- lan; wan [link=wide];\nlan -- wan }", ":3: lan -- wan joins two links: a link joins hosts");
	refuse(HEAD "a; b;\na -- b }", ":3: a -- b joins two hosts: specify the link with [link=PRESET], one of "
				       "ethernet10, wide\n");
	refuse(HEAD "a -- lan;\na -- a [link=wide] }", ":3: a -- a joins a to itself");
	refuse(HEAD "a -- lan;\na -- lan;\na -- lan;\na -- lan;\na -- lan }", ":6: host a has more than 4 devices");
	refuse(HEAD "a [count=5]; b;\na -- b [link=wide] }", ":3: host b has more than 4 devices");
	refuse(HEAD "a -- lan [dev=x];\na -- lan [dev=x] }", ":3: host a has two devices \"x\"");
	refuse(HEAD "a -- lan;\na -- lan [dev=port] }", ":3: host a has two devices \"port\"");
	refuse(HEAD "a -- lan [dev=\"\"] }", ":2: dev of a -- lan has 0 characters, not 1 to 63");
}

TEST(unknown_attributes_are_refused_with_a_suggestion)
{
	refuse(HEAD "a -- lan;\na [thread=2] }", ":3: unknown attribute \"thread\" of a (did you mean \"threads\"?)");
	refuse(HEAD "a -- lan;\nlan [lose=2] }", ":3: unknown attribute \"lose\" of lan (did you mean \"loss\"?)");
	refuse(HEAD "a -- lan;\nlan [threads=2] }",
	       ":3: threads is not an attribute of lan: it belongs on a host, or the graph");
	refuse(HEAD "a -- lan;\na [loss=2] }", ":3: loss is not an attribute of a: it belongs on a link");
	refuse(HEAD "a -- lan;\na [address=2] }",
	       ":3: address is not an attribute of a: it belongs on an edge that joins");
	refuse(HEAD "a -- lan [link=wide] }",
	       ":2: link is not an attribute of a -- lan: it belongs on a link, or an edge");
	refuse(HEAD "a; b; a -- b [link=wide,\nhost=\"10.77.0.1/24\"] }", ":3: host is not an attribute of a -- b");
	refuse(HEAD "a -- lan; graph [count=2] }", ":2: count is not an attribute of the graph: it belongs on a host");
	refuse(HEAD "a -- lan;\na [protocol=udp] }",
	       ":3: unknown attribute \"protocol\" of a (did you mean \"protocols\"?)");
}

TEST(drawing_attributes_are_accepted)
{
	xk_topology_free(good(HEAD "graph [rankdir=LR, label=x]; a -- lan [color=red, penwidth=3];\n"
				   "a [shape=box, label=<b>]; subgraph cluster_y { label=y; a } }"));
}

TEST(invalid_values_are_refused)
{
	refuse(HEAD "a -- lan;\na [threads=many] }", ":3: threads of a is \"many\": expects a number from 1 to 64");
	refuse(HEAD "a -- lan;\nlan [loss=often] }", ":3: loss of lan is \"often\": expects a probability");
	refuse(HEAD "a -- lan;\nlan [loss=<often>] }",
	       ":3: loss of lan is \"often\": expected a value that is not an HTML");
	refuse(HEAD "a -- lan;\na [count=0] }", ":3: count of a is \"0\": expects a number from 1 to 10000");
	refuse(HEAD "a -- lan;\na [count=10001] }", ":3: count of a is \"10001\": expects a number from 1 to 10000");
	refuse(HEAD "a -- lan; b -- lan;\na, b [count=6000] }", ":1: this network has 12000 hosts, not 1 to 10000");
	refuse(HEAD "a -- lan;\nwan [link=wild] }",
	       ":3: link of wan is \"wild\" (did you mean \"wide\"?): expected one of "
	       "ethernet10, wide\n");
	refuse(HEAD "a -- lan\n[host=\"10.77.0.1\"] }",
	       ":3: host of a -- lan is \"10.77.0.1\": expects an address with");
	refuse(HEAD "a -- lan\n[host=\"10.77.0.0/24\"] }",
	       ":3: host of a -- lan is \"10.77.0.0/24\": expects an address with the bits of its network, such as "
	       "10.77.0.1/24, and not the network's own address");
	refuse(HEAD "a -- lan\n[address=\"03:00:00:00:00:00\"] }",
	       ":3: address of a -- lan is \"03:00:00:00:00:00\": this is "
	       "not an address of a device");
	refuse("graph g {\nnetwork=\"10.77.0.5/24\" }", ":2: network of the graph is \"10.77.0.5/24\": that network is "
							"10.77.0.0/24\n");
	refuse("graph g {\nnetwork=\"224.0.0.0/24\" }", ":2: network of the graph is \"224.0.0.0/24\": ");
	refuse(HEAD "a -- lan;\na [set=\"udptest.port\"] }",
	       ":3: set of a contains \"udptest.port\", which is not of the form");
	refuse(HEAD "a -- lan;\na [set=\"udptest.port='3\"] }", ":3: set of a has a quote ' that does not close");
	refuse(HEAD "a -- lan;\na [set=\"port=3\"] }", ":3: set of a contains \"port\", which is not of the form");
}

TEST(names_are_unique)
{
	refuse(HEAD "a [count=2]; a -- lan;\na2 -- lan }",
	       ":3: two hosts or links are called a2: the other is on line 2");
	refuse(HEAD "a [count=2]; a -- lan;\na2 [link=wide] }", ":3: two hosts or links are called a2");
	refuse(HEAD "a -- b [link=wide];\n\"a--b\" [link=wide] }", ":3: two hosts or links are called a--b");
	refuse(HEAD "a23456789012345678901234567890123456789012345678901234567890123 [count=2];\n }",
	       ":2: the host's name \"a234567890123456789012345678901234567890123456789012345678901232\" is longer");
}

TEST(addresses_are_unique)
{
	refuse(HEAD "a -- lan;\nb -- lan [host=\"10.77.0.1/24\"] }", ":3: a and b both have the address 10.77.0.1\n");
	xk_topology_free(good(HEAD "a -- lan; b -- lan [host=\"10.77.0.1/24\", shared=yes] }"));
	refuse(HEAD "a -- lan; b -- lan;\nc -- lan [host=\"10.77.0.1/24\", shared=no] }", ":3: a and c both have");
	refuse(HEAD "a -- lan;\nb -- lan [address=\"02:00:00:00:00:01\"] }",
	       ":3: a and b both have the address 02:00:00:00:00:01\n");
	refuse(HEAD "a [count=2];\na -- lan [host=\"10.77.0.1/24\"] }",
	       ":3: host of a -- lan: a is 2 hosts, but this is");
	refuse(HEAD "a [count=2];\nlan -- a [address=\"02:00:00:00:00:01\"] }",
	       ":3: address of lan -- a: a is 2 hosts");
	refuse("graph g { protocols=\"one.dot\"\nnetwork=\"10.77.0.0/30\" lan [link=wide]; a [count=3]; a -- lan }",
	       ":2: network 10.77.0.0/30 has addresses for 2 devices, too few\n");
	refuse("graph g { protocols=\"one.dot\"\nnetwork=\"10.77.0.0/31\" lan [link=wide]; a [count=3]; a -- lan }",
	       ":2: network 10.77.0.0/31 has addresses for 2 devices, too few\n");
}

TEST(host_graphs_are_checked)
{
	refuse(HEAD "a -- lan; a [protocols=\"bad.dot\"] }", "/bad.dot:2: udp -> eth is one lower too many");
	refuse(HEAD "a -- lan; a [protocols=\"../one2.dot\"] }", "/one2.dot:1: syntax error at \"nothing\"");
}

TEST(sets_are_checked_at_their_line)
{
	refuse(HEAD "a -- lan;\na [set=\"udptest.port=x\"] }",
	       ":3: in its set: port of udptest is \"x\": expects a number from 1 to 65535\n");
	refuse(HEAD "a -- lan;\na [set=\"nothing.port=x\"] }", ":3: in its set: nothing.port=x: ");
	refuse(HEAD "a -- lan;\nset=\"udptest.colour=x\" }", ":3: in its set: unknown attribute \"colour\" of udptest");
	refuse_set(HEAD "a -- lan; }", "a.udptest.port=x", "--set: port of udptest is \"x\"");
	refuse_set(HEAD "a -- lan; }", "graph.udptest.port=x", "--set: port of udptest is \"x\"");
}

TEST(graphs_ports_stand_on_devices)
{
	refuse(HEAD "a -- lan;\na [set=\"port.dev=x\"] }",
	       ":2: host a has no device \"x\", which port in its graph needs\n");
	refuse(HEAD "a -- lan;\na -- lan }",
	       ":3: no port in the graph of host a uses its device \"port2\"; a host on two links needs a "
	       "graph with two ports, such as udptest-multihomed.dot\n");
	refuse(HEAD "a [protocols=\"two.dot\"];\na -- lan }",
	       ":2: host a has 1 device, and none for port2 in its graph: give it another link\n");
	refuse(HEAD "a [protocols=\"two.dot\", set=\"port1.dev=port2 port2.dev=port2\"];\na -- lan; a -- lan }",
	       ":2: port1 and port2 in the graph of host a both use the device \"port2\"\n");
	xk_topology_free(good(HEAD "a [protocols=\"two.dot\"]; a -- lan [dev=x]; a -- lan [dev=y] }"));
	xk_topology_free(
		good(HEAD "a [protocols=\"two.dot\", set=\"port1.dev=y\"]; a -- lan [dev=x]; a -- lan [dev=y] }"));
}

TEST(wrong_sets_are_refused)
{
	static const char *const net = HEAD "a [count=2]; b; a -- lan; b -- lan; b -- a [link=wide] }";

	refuse_set(net, "nothing", "--set: \"nothing\" is not of the form node.attribute=value");
	refuse_set(net, "a.=3", "--set: \"a.=3\" is not of the form node.attribute=value");
	refuse_set(net, ".a=3", "--set: \".a=3\" is not of the form node.attribute=value");
	refuse_set(net, "c.mode=3", "/net/n.dot has no host or link \"c\"");
	refuse_set(net, "a3.mode=3", "/net/n.dot has no host or link \"a3\"");
	refuse_set(net, "b.threads=x", "--set: threads of b is \"x\": expects a number");
	refuse_set(net, "a1.threads=x", "--set: threads of a1 is \"x\": expects a number");
	refuse_set(net, "a1.count=2", "--set: count cannot be set for a1 alone, only for a");
	refuse_set(net, "b--a1.loss=x", "--set: loss of b--a1 is \"x\": expects a probability");
	refuse_set(net, "b--a1.count=x", "--set: count cannot be set for the link b--a1");
	refuse_set(net, "b--a1.link=x", "--set: link of b--a1 is \"x\": expected one of");
	refuse_set(net, "lan.udptest.port=1", "--set: lan.udptest.port: lan is a link and has no graph");
	refuse_set(net, "b.nothing.port=1", "--set: nothing.port=1: ");
}

/* ---- limits ---- */

static char *
repeated(const char *head, unsigned count, char c, const char *tail)
{
	char *text = malloc(strlen(head) + count + strlen(tail) + 1);

	REQUIRE(text != NULL);
	strcpy(text, head);
	memset(text + strlen(head), c, count);
	strcpy(text + strlen(head) + count, tail);
	return text;
}

static void
refuse_long(const char *head, unsigned count, const char *part)
{
	char *text = repeated(head, count, 'x', "\" ] }");

	refuse(text, part);
	free(text);
}

TEST(values_are_bounded)
{
	refuse_long(HEAD "a -- lan; a [mode=\"", 513, ":2: mode of a has 513 characters, which is too long");
	refuse_long(HEAD "a -- lan; a [set=\"", 4097, ":2: set of a has 4097 characters, which is too long");
	refuse_long(HEAD "a -- lan; a [protocols=\"", 4097,
		    ":2: protocols of a has 4097 characters, which is too long");
	refuse_long("graph g { node [label=\"", 1025, ":1: a default of label longer than 1024 bytes");
	refuse_long("graph g { edge [label=\"", 1025, ":1: a default of label longer than 1024 bytes");
}

/* ---- damage ---- */

static const char *const damaged[] = {
	HEAD "a -- lan [host=\"10.77.0.9/24\", dev=x]; c [count=3, set=\"udptest.port=7 ip.trace=events\"]; c -- lan }",
	"strict graph g { node [shape=box] a, b [protocols=\"two.dot\", mode=x]; lan [link=wide, "
	"network=\"10.1.0.0/30\"]\n"
	"a -- b [link=wide, latency=\"3ms\"]; a -- lan; subgraph cluster_x { label=x; lan -- b } threads=2 }",
};
static const char *const pieces[] = {
	"--",    "->",     "{",    "}",        "[",          "]",     "=",    ";",  ",",     "\"",        "<",
	">",     "count=", "set=", "dev=",     "host=",      "link=", "wide", "a",  "lan",   "a -- lan;", "a -- b",
	"10000", "/0",     "/32",  "network=", "protocols=", "\n",    "\xff", "//", "graph",
};

/* Changes or removes one letter of text, or inserts a piece; text has room to grow. */
static void
damage(char *text, uint64_t *random)
{
	size_t len = strlen(text), at = fuzz_random(random) % len;
	const char *piece = pieces[fuzz_random(random) % XK_ARRAY_LENGTH(pieces)];

	switch (fuzz_random(random) % 3) {
	case 0:
		text[at] = (char)(1 + fuzz_random(random) % 255);
		break;
	case 1:
		memmove(text + at, text + at + 1, len - at);
		break;
	default:
		memmove(text + at + strlen(piece), text + at, len - at + 1);
		memcpy(text + at, piece, strlen(piece));
	}
}

TEST(damaged_networks_are_refused_or_valid)
{
	struct place place = place_new();
	uint64_t random = 1;
	unsigned accepted = 0;

	for (unsigned run = 0; run < 2000; run++) {
		struct xk_graph_errors errors = { 0 };
		struct xk_topology *net;
		char text[1024];

		strcpy(text, damaged[run % XK_ARRAY_LENGTH(damaged)]);
		for (uint64_t n = fuzz_random(&random) % 5; n > 0; n--)
			damage(text, &random);
		net = xk_topology_load_text(place.file, text, strlen(text), NULL, 0, &types, &errors);
		REQUIRE((net == NULL) == (errors.count > 0));
		for (unsigned i = 0; net != NULL && i < net->host_count; i++)
			REQUIRE(net->hosts[i].checked != NULL && net->hosts[i].device_count > 0);
		accepted += net != NULL;
		xk_topology_free(net);
		xk_graph_errors_clear(&errors);
	}
	CHECK(accepted > 100 && accepted < 1900);
	place_free(&place);
}
