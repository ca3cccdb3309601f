/* test_check_rpc.c - the checker with the real protocols of the RPC suite: realms, numbers, ways, marks. */

#include "graphs/graph.h"
#include "tests/graphs/errors.h"
#include "tests/test.h"

#define LOWER "vnet -> eth; vnet -> arp; arp -> eth; eth -> port;"
#define STACK                                                                                                          \
	"chan -> bid; chan -> bidctl; bid -> vsize; bid -> bidctl; vsize -> vmux; vsize -> blast; blast -> vmux;"      \
	"bidctl -> vmux; vmux -> vnet; vmux -> ip; ip -> vnet;" LOWER

/* Returns all errors of a graph, which the caller frees; "": none. */
static char *
errors_of(const char *text)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph = xk_graph_read_text("g", text, strlen(text), &errors);
	char *report;

	if (graph != NULL)
		xk_graph_check(graph, xk_protocol_types, &errors);
	report = error_lines(&errors);
	xk_graph_free(graph);
	xk_graph_errors_clear(&errors);
	return report;
}

static void
accept(const char *text)
{
	char *report = errors_of(text);

	CHECK_STR(report, "");
	free(report);
}

static void
refuse(const char *text, const char *part)
{
	char *report = errors_of(text);

	CHECK_HAS(report, part);
	free(report);
}

TEST(published_stack_is_accepted)
{
	accept("digraph g { chantest -> chan; " STACK "}");
	accept("digraph g { chan; select -> vchan -> chan; " STACK "}");
	accept("digraph g { udptest -> v1 -> udp -> v2 -> ip -> vnet; v1 [protocol=vcache]; v2 [protocol=vcache];" LOWER
	       "}");
	accept("digraph g { am -> vnet; " LOWER "}");
	accept("digraph g { am -> bid -> vnet; bid -> bidctl -> vnet; " LOWER "}");
}

/* Suggests from all protocols; a swap counts as one mistake, so upd is closer to udp than to bid. */
TEST(misspelt_protocols_get_a_suggestion)
{
	refuse("digraph g { upd; eth -> port }", "unknown protocol \"upd\" (did you mean \"udp\"?)");
	refuse("digraph g { cahn; eth -> port }", "unknown protocol \"cahn\" (did you mean \"chan\"?)");
	refuse("digraph g { bidctrl; eth -> port }", "unknown protocol \"bidctrl\" (did you mean \"bidctl\"?)");
	refuse("digraph g { ehtt; eth -> port }", "unknown protocol \"ehtt\" (did you mean \"eth\"?)");
	refuse("digraph g { x [protocol=quic]; eth -> port }", "unknown protocol \"quic\" of node x (`xk");
}

/* vnet accepts any link, so it is arp's offer that does not fit. */
TEST(wrong_order_of_lowers_is_reported_with_the_role)
{
	refuse("digraph g { am -> vnet -> arp; vnet -> eth; arp -> eth -> port }",
	       "vnet -> arp: vnet needs push and demux of its link, and arp (arp) offers control; as its resolver "
	       "write "
	       "[role=resolver], or change the order of the edges\n");
	refuse("digraph g { am -> vnet -> eth -> port }", "vnet (vnet) lacks its lower resolver (resolves "
							  "neighbours' link addresses): write an edge vnet -> arp\n");
}

TEST(calls_need_a_protocol_that_carries_them)
{
	refuse("digraph g { select -> bid; " STACK "}",
	       "select needs calls (RPC) of its calls, and bid (bid) offers push and demux");
	refuse("digraph g { vchan -> blast; " STACK "}",
	       "vchan needs calls (RPC) of its channels, and blast (blast) offers push and demux");
	refuse("digraph g { chantest -> vmux; " STACK "}", "and vmux (vmux) offers push and demux");
	refuse("digraph g { chantest -> vcache -> chan; " STACK "}", "and vcache (vcache) offers push and demux");
}

TEST(messages_need_a_protocol_that_carries_them)
{
	refuse("digraph g { vsize2 -> vchan -> chan; vsize2 [protocol=vsize]; " STACK "}",
	       "needs push and demux of its way, and vchan (vchan) offers calls (RPC)");
	refuse("digraph g { vmux2 -> chan; vmux2 [protocol=vmux]; " STACK "}",
	       "needs push and demux of its way, and chan (chan) offers calls (RPC)");
	refuse("digraph g { am -> chan; " STACK "}",
	       "am needs push and demux of its network, and chan (chan) offers calls (RPC)");
	refuse("digraph g { vmux -> arp; " LOWER "}", "and arp (arp) offers control");
}

TEST(numbers_are_seen_through_vsize_and_vmux)
{
	refuse("digraph g { b2 -> vmux; b2 -> bidctl; b2 [protocol=bid]; " STACK "}",
	       "both have number 12293 (0x3005) on "
	       "eth");
	refuse("digraph g { b2 -> vmux; b2 -> bidctl; b2 [protocol=bid]; " STACK "}",
	       "both have number 204 (0x00cc) on "
	       "ip");
	refuse("digraph g { b2 -> blast; b2 -> bidctl; b2 [protocol=bid]; " STACK "}",
	       "both have number 12293 (0x3005) on blast");
	refuse("digraph g { udptest -> vmux; " STACK "}",
	       "udptest (udptest) has no number on eth (eth): write number=N on the edge udptest -> vmux");
	accept("digraph g { udptest -> vmux [number=99]; " STACK "}");
	refuse("digraph g { udptest -> vmux [number=300]; " STACK "}", "too large: ip (ip) has numbers up to 255");
	refuse("digraph g { vmux -> vnet [number=7]; am -> vmux; " LOWER "}", "vmux is virtual and has no number");
}

/* At least one way, each a different lower. */
TEST(each_way_is_a_separate_lower)
{
	refuse("digraph g { am -> vmux; eth -> port }", "vmux (vmux) lacks its lower way");
	refuse("digraph g { am -> vsize; eth -> port }", "vsize (vsize) lacks its lower way");
	refuse("digraph g {\nam -> vmux;\nvmux -> vnet; vmux -> vnet; " LOWER "}", "parallel edges vmux -> vnet");
	refuse("digraph g { am -> vcache; vcache -> vnet; vcache -> eth; " LOWER "}",
	       "vcache -> eth is one lower too many");
	refuse("digraph g { am -> vmux; vmux -> vsize -> vmux; vmux -> vnet; " LOWER "}", "a cycle: ");
}

/* No message would cross them. */
TEST(edges_below_session_lenders_take_no_marks)
{
	char *report = errors_of("digraph g {\nam -> vmux [handoff=explicit, budget=\"20us\"];\nvmux -> vnet\n"
				 "[handoff=explicit]; " LOWER "}");

	CHECK_STR(report,
		  "g:4: handoff of vmux -> vnet has no effect, because messages bypass vmux (vmux): write it on "
		  "the edges above vmux\n");
	free(report);
	refuse("digraph g { am -> vmux -> vnet [budget=\"20us\", carry=2]; " LOWER "}",
	       "budget of vmux -> vnet has no effect");
	refuse("digraph g { am -> vmux -> vnet [budget=\"20us\", carry=2]; " LOWER "}",
	       "carry of vmux -> vnet has no effect");
	refuse("digraph g { select -> vchan; vchan -> chan [handoff=never]; " STACK "}",
	       "handoff of vchan -> chan has no effect");
	accept("digraph g { am -> vmux [handoff=never]; vmux -> vnet [role=way]; " LOWER "}");
	accept("digraph g { am -> vsize -> vnet [handoff=explicit]; " LOWER "}");
}
