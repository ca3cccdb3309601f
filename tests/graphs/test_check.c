/* test_check.c - the checker: refused graphs and their messages, and what it derives from correct ones. */
#include "tests/graphs/types.h"

static const struct xk_graph_node *
node(const struct xk_graph *graph, const char *name)
{
	int index = xk_graph_node_find(graph, name);

	REQUIRE(index >= 0);
	return &graph->nodes[index];
}

/* Returns the lowers of a node in the order of its roles: "eth arp". */
static const char *
lowers(const struct xk_graph *graph, const char *name, char *text, size_t size)
{
	const struct xk_graph_node *n = node(graph, name);
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < n->lower_count; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : " ",
					 graph->nodes[graph->edges[n->lowers[i]].lower].name);
	return text;
}

TEST_WITH(udp_graph_is_accepted, struct xk_graph *graph,
	  types_good("digraph udptest { udptest -> udp; " TYPES_LOWER "}"), xk_graph_free)
{
	char text[64];

	CHECK_STR(lowers(graph, "vnet", text, sizeof(text)), "eth arp");
	CHECK_STR(graph->edges[node(graph, "vnet")->lowers[0]].role->name, "link");
	CHECK_STR(graph->nodes[graph->order[0]].name, "port");
	CHECK_STR(graph->nodes[graph->order[6]].name, "udptest");
	CHECK(graph->checked);
}

TEST_WITH(policies_and_marks_are_accepted, struct xk_graph *graph,
	  types_good("digraph g { graph [budget=\"20us\", carry=3, implicit=fail, trace=errors]; "
		     "udptest -> udp [handoff=explicit, budget=\"1ms\", carry=2]; "
		     "udptest [implicit=\"spin(7us)\", resume=driver, order=session, trace=messages, port=\"0x10\"]; "
		     "udp [sessions=5]; udp -> ip [handoff=never, number=\"0x21\"]; ip -> vnet -> eth -> port; "
		     "vnet -> arp -> eth }"),
	  xk_graph_free)
{
	const struct xk_graph_policy *policy = &node(graph, "udptest")->policy;
	const struct xk_graph_edge *edge = &graph->edges[node(graph, "udptest")->lowers[0]];

	CHECK_EQ(graph->budget.budget_ns, 20000);
	CHECK_EQ(graph->budget.carry, 3);
	CHECK_EQ(policy->implicit, XK_IMPLICIT_SPIN);
	CHECK_EQ(policy->spin_ns, 7000);
	CHECK_EQ(policy->resume, XK_RESUME_DRIVER);
	CHECK_EQ(policy->trace_level, 3);
	CHECK(policy->order_session);
	CHECK_EQ(edge->handoff, XK_GRAPH_EXPLICIT);
	CHECK_EQ(edge->budget.budget_ns, 1000000);
	CHECK_EQ(edge->budget.carry, 2);
	policy = &node(graph, "udp")->policy;
	edge = &graph->edges[node(graph, "udp")->lowers[0]];
	CHECK_EQ(policy->implicit, XK_IMPLICIT_FAIL);
	CHECK_EQ(policy->trace_level, 1);
	CHECK_EQ(policy->session_max, 5);
	CHECK_EQ(edge->handoff, XK_GRAPH_NEVER);
	CHECK(edge->has_number);
	CHECK_EQ(edge->number, 0x21);
}

TEST(unknown_protocols_are_refused_with_a_suggestion)
{
	types_refuse("digraph g {\nudptest -> upd;\nupd -> ip;\nip -> vnet -> eth -> port; vnet -> arp -> eth }",
		     "g:2: unknown protocol \"upd\" (did you mean \"udp\"?)\n");
	types_refuse("digraph g {\nx1\n[protocol=\"quic\"]; eth -> port }",
		     "g:3: unknown protocol \"quic\" of node x1 (`xk protocols` lists them)\n");
	types_refuse("digraph g { telephone; eth -> port }",
		     "g:1: unknown protocol \"telephone\" (`xk protocols` lists them; [protocol=NAME] gives a node a "
		     "type that is not its name)\n");
	types_refuse_with("digraph g { x [protocol=\"\"] }", "unknown protocol \"\" of node x");
}

TEST(unknown_attributes_are_refused_with_a_suggestion)
{
	types_refuse("digraph g {\nudptest [prot=1];\nudptest -> udp;" TYPES_LOWER "}",
		     "g:2: unknown attribute \"prot\" of udptest (did you mean \"port\"?)\n");
	types_refuse("digraph g {\nbugdet=1 eth -> port }",
		     "g:2: unknown attribute \"bugdet\" of the graph (did you mean \"budget\"?)\n");
	types_refuse("digraph g {\neth -> port [wombat=1] }", "g:2: unknown attribute \"wombat\" of eth -> port\n");
	types_refuse("digraph g {\neth [handoff=explicit]; eth -> port }",
		     "g:2: handoff is not an attribute of a node: it belongs on an edge\n");
	types_refuse("digraph g {\neth -> port [implicit=fail] }",
		     "g:2: implicit is not an attribute of an edge: it belongs on the graph or a node\n");
	types_refuse("digraph g {\norder=session eth -> port }",
		     "g:2: order is not an attribute of the graph: it belongs on a node\n");
	types_refuse("digraph g {\neth [carry=2] eth -> port }",
		     "g:2: carry is not an attribute of a node: it belongs on the graph or an edge\n");
}

TEST(drawing_attributes_are_accepted_where_they_belong)
{
	types_accept("digraph g { graph [rankdir=LR, label=<a<b>b</b>>]; node [shape=box, fontname=x]; "
		     "edge [color=red, tailport=n]; eth -> port [label=\"x\", weight=3]; "
		     "eth [URL=\"file:///etc/passwd\", image=\"/etc/passwd\"]; { rank=same; eth } }");
	types_refuse_with("digraph g { eth -> port [shape=box] }", "unknown attribute \"shape\" of eth -> port");
	types_refuse_with("digraph g { eth -> port; eth [rankdir=LR] }", "unknown attribute \"rankdir\" of eth");
	types_refuse_with("digraph g { eth -> port; eth [\"color style\"=1] }", "unknown attribute \"color style\"");
	types_refuse_with("digraph g { eth -> port; eth [ape=1] }", "unknown attribute \"ape\"");
	types_refuse_with("digraph g { eth -> port; eth [\"\"=1] }", "unknown attribute \"\"");
}

TEST(settings_take_precedence_over_drawing_attributes)
{
	types_accept("digraph g { udptest [size=9] udptest -> udp; " TYPES_LOWER "}");
	types_refuse_with("digraph g { udptest [size=10] udptest -> udp; " TYPES_LOWER "}",
			  "size of udptest is \"10\"");
}

TEST(graphviz_output_is_accepted)
{
	types_accept("digraph g { graph [_draw_=\"c 9\", bb=\"0,0,54,252\", xdotversion=1.7, name=g];"
		     "eth [_draw_=\"e 27\", _ldraw_=\"T 27\", pos=\"27,234\", width=0.75];"
		     "eth -> port [_draw_=\"B 4\", _hdraw_=\"P 3\", _tdraw_=\"P 3\", _hldraw_=\"T\", _tldraw_=\"T\", "
		     "key=0] }");
	types_refuse_with("digraph g { eth -> port; eth [_draws_=1] }", "unknown attribute \"_draws_\" of eth");
	types_accept("digraph g { \"\\n\"; eth -> port; \"\\r\\n\" [pos=\"1,2\"]; \"\\n\" }");
	types_refuse_with("digraph g { eth -> port; \"\\n\" -> port }", "has characters other than letters");
}

TEST(attribute_of_a_laid_out_node_may_be_graphvizs)
{
	types_accept("digraph g { udptest [width=\"1.336\", pos=\"1,2\"] udptest -> udp; " TYPES_LOWER "}");
	types_refuse_with("digraph g { udptest [width=\"1.336\"] udptest -> udp; " TYPES_LOWER "}",
			  "width of udptest is");
	types_refuse_with("digraph g { eth [number=\"1.336\", pos=\"1,2\"] eth -> port }",
			  "number is not an attribute of a node");
}

TEST(two_interfaces_have_two_addresses)
{
	types_refuse_with("digraph g { vnet [address=\"10.0.0.1/24\"] second [protocol=vnet, address=\"10.0.0.1/16\"]"
			  "vnet -> eth; vnet -> arp; second -> eth; second -> arp; arp -> eth; eth -> port }",
			  "address of vnet is \"10.0.0.1/24\", and so is address of second");
}

TEST(laid_out_graph_may_list_edges_in_any_order)
{
	types_accept("digraph g { bb=\"0,0,1,1\"; vnet -> arp; vnet -> eth; arp -> eth; eth -> port }");
	types_refuse_with("digraph g { vnet -> arp; vnet -> eth; arp -> eth; eth -> port }", "write [role=resolver]");
	types_refuse_with("digraph g { bb=\"0,0,1,1\"; vnet -> arp; arp -> eth; eth -> port }", "lacks its lower link");
}

static void
refuse_value(const char *attribute, const char *part)
{
	char text[512];

	snprintf(text, sizeof(text), "digraph g { udptest -> udp; %s %s}", attribute, TYPES_LOWER);
	types_refuse_with(text, part);
}

TEST(ill_typed_values_are_refused)
{
	refuse_value("budget=\"20\"", "budget of the graph is \"20\": expected a time above zero");
	refuse_value("budget=\"0us\"", "expected a time above zero");
	refuse_value("budget=\"61s\"", "at most 60s");
	refuse_value("budget=\"99999999999999999999s\"", "expected a time above zero");
	refuse_value("graph [budget=\"1us\", carry=-1]", "carry of the graph is \"-1\": expected a number");
	refuse_value("graph [budget=\"1us\", carry=257]", "expected a number from 0 to 256");
	refuse_value("graph [carry=1]", "carry of the graph has no effect");
	refuse_value("implicit=spin", "implicit of the graph is \"spin\": expected handoff, \"spin(TIME)\"");
	refuse_value("udp [implicit=\"spin()\"]", "implicit of udp is \"spin()\"");
	refuse_value("udp [implicit=\"spin(1us\"]", "implicit of udp is \"spin(1us\"");
	refuse_value("udp [implicit=\"spin(0us)\"]", "implicit of udp is \"spin(0us)\"");
	refuse_value("udp [implicit=\"\"]", "implicit of udp is \"\"");
	refuse_value("udp [resume=me]", "resume of udp is \"me\": expected thread or driver");
	refuse_value("udp [order=none]", "order of udp is \"none\": expected session");
	refuse_value("udp [trace=all]", "trace of udp is \"all\": expected none, errors, events or messages");
	refuse_value("udp [sessions=0]", "sessions of udp is \"0\": expected a number from 1");
	refuse_value("udptest [sessions=1]", "this protocol keeps no passively opened sessions");
	refuse_value("udptest [port=0]", "port of udptest is \"0\": ");
	refuse_value("udptest [port=65536]", "port of udptest is \"65536\": ");
	refuse_value("udptest [port=\"1 \"]", "port of udptest is \"1 \": ");
	refuse_value("udptest [serve=maybe]", "serve of udptest is \"maybe\": ");
	refuse_value("vnet [address=\"10.0.0.1\"]", "address of vnet is \"10.0.0.1\": ");
	refuse_value("udptest [port=<1>]", "expected a value that is not an HTML-like string");
	refuse_value("udp [trace=<none>]", "expected a value that is not an HTML-like string");
}

TEST(ill_typed_values_on_edges_are_refused)
{
	types_refuse_with("digraph g { eth -> port [handoff=always] }",
			  "handoff of eth -> port is \"always\": expected explicit or never");
	types_refuse_with("digraph g { eth -> port [number=x] }", "number of eth -> port is \"x\": expected a number");
	types_refuse_with("digraph g { eth -> port [number=4294967296] }", "expected a number");
	types_refuse_with("digraph g { eth -> port [number=\"0x\"] }", "expected a number");
	types_refuse_with("digraph g { eth -> port [budget=x] }", "budget of eth -> port is \"x\"");
	types_refuse_with("digraph g { eth -> port [carry=1] }", "carry of eth -> port has no effect");
	types_refuse_with("digraph g { eth -> port [handoff=never, budget=\"1us\"] }", "handoff=never and a budget");
}

TEST(set_option_is_checked_like_an_attribute)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = xk_graph_read_text("g", "digraph g { eth -> port }", 25, &errors);

	REQUIRE(graph != NULL);
	CHECK_EQ(xk_graph_set(graph, "port.dev=x", &errors), 0);
	CHECK_EQ(xk_graph_check(graph, types, &errors), 0);
	CHECK_EQ(xk_graph_set(graph, "eth.trace=x", &errors), 0);
	CHECK(xk_graph_check(graph, types, &errors) != 0);
	REQUIRE(errors.count == 1);
	CHECK_STR(errors.list[0].text, "--set: trace of eth is \"x\": expected none, errors, events or messages");
	xk_graph_free(graph);
	xk_graph_errors_clear(&errors);
}

TEST(cycles_are_refused_with_their_path)
{
	types_refuse_with("digraph g {\nudp -> ip\nip -> vtap\nvtap -> udp; eth -> port }",
			  "g:2: a cycle: ip -> vtap -> udp -> ip\n");
	types_refuse_with("digraph g { udp -> udp; eth -> port }", "a cycle: udp -> udp\n");
}

TEST(missing_lowers_are_refused)
{
	types_refuse("digraph g {\neth -> port; udp }",
		     "g:2: udp (udp) lacks its lower network: write an edge udp -> ...\n");
	types_refuse("digraph g { udptest -> udp -> ip -> vnet -> eth -> port }",
		     "g:1: vnet (vnet) lacks its lower resolver (who has an address): write an edge vnet -> arp\n");
	types_refuse_with("digraph g { udptest -> udp -> ip -> vnet; vnet -> e1; vnet -> a; vnet -> e2; a -> e1 -> p1; "
			  "e2 -> p2; e1 [protocol=eth] e2 [protocol=eth] a [protocol=arp] p1 [protocol=port] "
			  "p2 [protocol=port] }",
			  "vnet (vnet) lacks its lower resolver number 2");
}

TEST(too_many_lowers_are_refused)
{
	types_refuse("digraph g {\neth -> port\neth -> p2; p2 [protocol=port] }",
		     "g:3: eth -> p2 is one lower too many: eth (eth) takes 1 (port)\n");
	types_refuse("digraph g {\neth -> port\nport -> p2; p2 [protocol=port] }",
		     "g:3: port -> p2: port (port) takes no lowers\n");
	types_refuse("digraph g {\neth -> port [role=port]\neth -> p2 [role=port]; p2 [protocol=port] }",
		     "g:3: eth has two lowers of role port: p2 and port\n");
}

TEST(parallel_edges_of_one_role_are_refused)
{
	types_refuse("digraph g {\neth -> port\neth -> port }",
		     "g:3: parallel edges eth -> port: the first is on line 2\n");
	types_refuse_with("digraph g { udptest -> udp -> ip -> vnet; vnet -> eth; vnet -> arp; vnet -> eth;\n"
			  "vnet -> arp; arp -> eth -> port }",
			  "g:1: parallel edges vnet -> eth of role link: the first is on line 1\n"
			  "g:2: parallel edges vnet -> arp of role resolver: the first is on line 1\n");
	types_accept("digraph g { chantest -> chan; chan -> bidctl; chan -> bidctl; bidctl -> vtap -> port }");
	types_accept("strict digraph g { eth -> port; eth -> port }");
}

TEST(roles_must_be_known_and_fit)
{
	types_refuse("digraph g { udptest -> udp;\n" TYPES_LOWER "vnet -> eth [role=wire] }",
		     "g:2: vnet has no role \"wire\" for its lowers, only link, resolver\n");
	types_refuse_with("digraph g { udptest -> udp -> ip -> vnet; vnet -> arp;\nvnet -> eth; arp -> eth -> port }",
			  "g:1: vnet -> arp: the link of vnet must be of type eth, and arp is of type arp; as its "
			  "resolver write [role=resolver], or change the order of the edges\n");
	types_refuse_with("digraph g { udptest -> udp -> ip -> vnet; vnet -> arp; vnet -> port; arp -> eth -> port }",
			  "the resolver of vnet must be of type arp, and port is of type port\n");
	types_refuse_with("digraph g { port; port -> eth [role=x] }", "role \"x\" on an edge from port, which takes no "
								      "lowers");
}

TEST(lower_must_offer_the_realm)
{
	types_refuse("digraph g {\nchantest -> udp;\n" TYPES_LOWER "}",
		     "g:2: chantest -> udp: chantest needs calls (RPC) of its caller, and udp (udp) offers push and "
		     "demux\n");
	types_refuse_with("digraph g { eth -> port; udp -> arp -> eth }",
			  "udp needs push and demux of its network, and arp (arp) offers control");
	types_refuse_with("digraph g { eth -> port; ip -> eth; udptest -> udp -> ip; vtap -> udptest }",
			  "udptest (udptest) offers nothing");
}

TEST(roles_decide_regardless_of_order)
{
	struct xk_graph *graph;
	char text[64];

	graph = types_good("digraph g { udptest -> udp -> ip -> vnet; vnet -> arp [role=resolver]; vnet -> eth; "
			   "arp -> eth -> port }");
	CHECK_STR(lowers(graph, "vnet", text, sizeof(text)), "eth arp");
	xk_graph_free(graph);
	graph = types_good(
		"digraph g { chantest -> chan; chan -> b1 [role=control]; chan -> b2; b1 -> vtap; b2 -> vtap; "
		"vtap -> port; b1 [protocol=bidctl]; b2 [protocol=bidctl] }");
	CHECK_STR(lowers(graph, "chan", text, sizeof(text)), "b2 b1");
	xk_graph_free(graph);
}

#define MULTIHOMED                                                                                                     \
	"e1 [protocol=eth]; e2 [protocol=eth]; a1 [protocol=arp]; a2 [protocol=arp]; p1 [protocol=port]; "             \
	"p2 [protocol=port]; udptest -> udp -> ip -> vnet; a1 -> e1 -> p1; a2 -> e2 -> p2; "

TEST(repeated_roles_are_filled_group_by_group)
{
	struct xk_graph *graph;
	char text[64];

	graph = types_good("digraph g { " MULTIHOMED "vnet -> e2; vnet -> a2; vnet -> e1; vnet -> a1 }");
	CHECK_STR(lowers(graph, "vnet", text, sizeof(text)), "e2 a2 e1 a1");
	xk_graph_free(graph);
	graph = types_good("digraph g { " MULTIHOMED "vnet -> a2 [role=resolver]; vnet -> e2 [role=link]; "
			   "vnet -> e1 [role=link]; vnet -> a1 [role=resolver] }");
	CHECK_STR(lowers(graph, "vnet", text, sizeof(text)), "e1 a1 e2 a2");
	xk_graph_free(graph);
	types_refuse_with("digraph g { " MULTIHOMED "vnet -> e1 [role=link]; vnet -> e2 [role=link] }",
			  "vnet has too many lowers of role link");
}

TEST(numbers_are_found_through_virtual_protocols)
{
	types_refuse("digraph g {\nudptest -> udp;\nip2 [protocol=ip]; udp2 [protocol=udp]; udp2 -> ip2;\n"
		     "ip2 -> vnet;\n" TYPES_LOWER "}",
		     "g:5: ip and ip2 (line 4) both have number 2048 (0x0800) on eth: "
		     "write another number=N on the edge of one of them\n");
	types_accept("digraph g { udptest -> udp; ip2 [protocol=ip]; udp2 [protocol=udp]; udp2 -> ip2;"
		     "ip2 -> vnet [number=\"0x0801\"];" TYPES_LOWER "}");
	types_refuse_with("digraph g { udptest -> udp -> ip -> v1; v1 -> v2; v2 -> eth -> port; x -> v2 [number=2048];"
			  "x [protocol=udptest]; v1 [protocol=vtap]; v2 [protocol=vtap] }",
			  "both have number 2048 (0x0800) on eth");
	types_accept("digraph g { udptest -> udp -> ip -> v1 -> eth -> port; v1 [protocol=vtap] }");
}

TEST(missing_or_impossible_numbers_are_refused)
{
	types_refuse("digraph g { udptest -> udp;" TYPES_LOWER "\nx -> vnet; x [protocol=udptest] }",
		     "g:2: x (udptest) has no number on eth (eth): write number=N on the edge x -> vnet\n");
	types_accept("digraph g { udptest -> udp;" TYPES_LOWER "x -> vnet [number=1]; x [protocol=udptest] }");
	types_refuse("digraph g { udptest -> udp;" TYPES_LOWER "x -> ip\n[number=256]; x [protocol=udptest] }",
		     "g:2: number 256 of x is too large: ip (ip) has numbers up to 255\n");
	types_refuse("digraph g {\neth -> port [number=1] }",
		     "g:2: number of eth -> port: port (port) does not number its uppers\n");
	types_refuse("digraph g { udptest -> udp -> ip -> vtap;\nvtap -> eth [number=1]; eth -> port }",
		     "g:2: number of vtap -> eth: vtap is virtual and has no number; number the protocols above it\n");
}

TEST(two_instances_need_different_numbers)
{
	types_refuse("digraph g { udptest -> udp;" TYPES_LOWER "\nt2 [protocol=udptest] t2 -> u2;\n"
		     "u2 [protocol=udp] u2 -> ip }",
		     "g:3: u2 and udp (line 1) both have number 17 (0x0011) on ip: "
		     "write another number=N on the edge of one of them\n");
	types_accept("digraph g { udptest -> udp;" TYPES_LOWER "t2 [protocol=udptest] t2 -> udp }");
}

TEST(a_graph_needs_a_port_and_a_port_one_upper)
{
	types_refuse("\ndigraph g {}",
		     "g:2: this graph has no port: its lowest protocol needs one, like eth -> port\n");
	types_refuse("digraph g {\ne2 [protocol=eth]; e2 -> port;\neth -> port }",
		     "g:3: e2 and eth are both above port: port takes only one upper\n");
}

TEST(all_errors_are_reported_in_line_order)
{
	types_refuse("digraph g {\nx -> port;\neth [trace=9];\neth -> port [foo=1];\nudp:a -> eth;\n}",
		     "g:2: unknown protocol \"x\" (`xk protocols` lists them; [protocol=NAME] gives a node a type that "
		     "is not its name)\n"
		     "g:3: trace of eth is \"9\": expected none, errors, events or messages\n"
		     "g:4: unknown attribute \"foo\" of eth -> port\n"
		     "g:4: eth and x are both above port: port takes only one upper\n"
		     "g:5: node udp has the port \"a\": edges join whole protocols: remove the port\n"
		     "g:5: udp (udp) has no number on eth (eth): write number=N on the edge udp -> eth\n");
}

/* Returns everything that building depends on, as text. */
static char *
composition(const struct xk_graph *graph)
{
	char *text = NULL, list[128];
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);

	REQUIRE(stream != NULL);
	for (unsigned i = 0; i < graph->node_count; i++) {
		const struct xk_graph_node *n = &graph->nodes[graph->order[i]];

		fprintf(stream, "%s:%s(%s) %d %d %d\n", n->name, n->type->name,
			lowers(graph, n->name, list, sizeof(list)), n->policy.implicit, n->policy.resume,
			n->policy.trace_level);
		for (unsigned k = 0; k < n->lower_count; k++) {
			const struct xk_graph_edge *e = &graph->edges[n->lowers[k]];

			fprintf(stream, " %s %d %u %d %u\n", e->role->name, e->handoff, (unsigned)e->budget.budget_ns,
				e->has_number, e->number);
		}
	}
	fprintf(stream, "%u %u\n", (unsigned)graph->budget.budget_ns, graph->budget.carry);
	fclose(stream);
	return text;
}

enum { STATEMENTS = 21 };

/* Writes the statements in random order; those of vnet, which have no roles, keep their order. */
static void
permute(char *text, size_t size, const char *const *statements, uint64_t *state)
{
	unsigned order[STATEMENTS], vnet = 0;
	size_t used = (size_t)snprintf(text, size, "digraph g { node [resume=driver] ");

	for (unsigned i = 0; i < STATEMENTS; i++)
		order[i] = i;
	for (unsigned i = STATEMENTS - 1; i > 0; i--) {
		unsigned k, swap = order[i];

		*state = *state * 6364136223846793005u + 1442695040888963407u;
		k = (unsigned)(*state >> 33) % (i + 1);
		order[i] = order[k];
		order[k] = swap;
	}
	for (unsigned i = 0; i < STATEMENTS; i++)
		used += (size_t)snprintf(text + used, size - used, "%s;\n",
					 statements[order[i] < 4 ? vnet++ : order[i]]);
	snprintf(text + used, size - used, "}");
}

TEST(order_of_statements_does_not_matter)
{
	static const char *const statements[STATEMENTS] = {
		"vnet -> e2",
		"vnet -> a2",
		"vnet -> e1 [handoff=never]",
		"vnet -> a1",
		"e1 [protocol=eth]",
		"e2 [protocol=eth]",
		"a1 [protocol=arp, trace=events]",
		"a2 [protocol=arp]",
		"p1 [protocol=port]",
		"p2 [protocol=port, implicit=fail]",
		"udptest -> udp -> ip [budget=\"1us\"]",
		"ip -> vnet",
		"a1 -> e1",
		"a2 -> e2",
		"e1 -> p1",
		"e2 -> p2",
		"budget=\"20us\"",
		"graph [carry=2]",
		"c2 -> vnet [role=network, number=5]; c2 -> bc [role=control]; bc -> vnet [number=6]",
		"c2 [protocol=chan]",
		"bc [protocol=bidctl]",
	};
	char text[4096], *first = NULL;
	uint64_t state = 7;

	for (unsigned round = 0; round < 200; round++) {
		struct xk_graph *graph;
		char *now;

		permute(text, sizeof(text), statements, &state);
		graph = types_good(text);
		now = composition(graph);
		if (first == NULL)
			first = now;
		CHECK_STR(now, first);
		if (now != first)
			free(now);
		xk_graph_free(graph);
	}
	free(first);
}

/* Checking takes bounded time and stack for deep and wide graphs. */
TEST(large_graphs_are_checked)
{
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	struct xk_graph *graph;

	REQUIRE(stream != NULL);
	fputs("digraph g { node [protocol=vtap]; eth [protocol=eth] port [protocol=port] ip [protocol=ip]; ip -> v0; ",
	      stream);
	for (unsigned i = 0; i < 990; i++)
		fprintf(stream, "v%u -> v%u; ", i, i + 1);
	fputs("v990 -> eth -> port }", stream);
	fclose(stream);
	graph = types_good(text);
	CHECK_EQ(graph->node_count, 994);
	CHECK_STR(graph->nodes[graph->order[993]].name, "ip");
	xk_graph_free(graph);
	free(text);
}
