/* test_compiled.c - when a graph takes on the types that were compiled: which it is, and what of it has changed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/compiled.h"
#include "tests/test.h"

#define STACK "udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp; arp -> eth; eth -> port;"
#define PLAIN "digraph g { udptest -> udp; two [protocol=udptest]; two -> udp; " STACK " }"

enum { COMPILED_NODES = 16 };

/* A compiled graph, whose types are those of the library but for where they are. */
struct compiled {
	struct xk_graph_compiled graph;
	char *names[COMPILED_NODES];
	struct xk_protocol_type types[2][COMPILED_NODES];
	const struct xk_protocol_type *lists[2][COMPILED_NODES];
};

static struct xk_graph *
compiled_read(const char *text, const char *set)
{
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_graph *graph = xk_graph_read_text("g.dot", text, strlen(text), &errors);

	REQUIRE(graph != NULL);
	REQUIRE(set == NULL || xk_graph_set(graph, set, &errors) == 0);
	REQUIRE(xk_graph_check(graph, xk_protocol_types, &errors) == 0);
	return graph;
}

static void
compiled_make(struct compiled *compiled, const char *text)
{
	struct xk_graph *graph = compiled_read(text, NULL);

	REQUIRE(graph->node_count <= COMPILED_NODES);
	for (unsigned i = 0; i < graph->node_count; i++) {
		const struct xk_graph_node *node = &graph->nodes[graph->order[i]];

		compiled->names[i] = strdup(node->name);
		for (unsigned k = 0; k < 2; k++) {
			compiled->types[k][i] = *node->type;
			compiled->lists[k][i] = &compiled->types[k][i];
		}
	}
	compiled->graph = (struct xk_graph_compiled){ .file = "g.dot",
						      .text = text,
						      .size = strlen(text),
						      .node_count = graph->node_count,
						      .names = (const char *const *)compiled->names,
						      .plain = compiled->lists[0],
						      .watched = compiled->lists[1] };
	xk_graph_free(graph);
}

static void
compiled_clear(struct compiled *compiled)
{
	for (unsigned i = 0; i < compiled->graph.node_count; i++)
		free(compiled->names[i]);
}

/* What becomes of another graph's nodes: 'p', all are plain; 'w', watched; '-', none is compiled; '?', anything else. */
static char
compiled_as(const char *file, const char *text, const char *set, bool watched)
{
	struct compiled compiled = { .names = { NULL } };
	struct xk_graph *graph = compiled_read(text, set);
	unsigned counts[2] = { 0, 0 };
	char kind = '?';
	int status;

	compiled_make(&compiled, file);
	status = xk_graph_specialise(graph, &compiled.graph, watched);
	for (unsigned i = 0; i < graph->node_count; i++)
		for (unsigned k = 0; k < 2; k++)
			counts[k] += graph->nodes[graph->order[i]].type == compiled.lists[k][i];
	if (status == -EINVAL && counts[0] == 0 && counts[1] == 0)
		kind = '-';
	else if (status == 0 && counts[0] == graph->node_count)
		kind = 'p';
	else if (status == 0 && counts[1] == graph->node_count)
		kind = 'w';
	xk_graph_free(graph);
	compiled_clear(&compiled);
	return kind;
}

TEST(compiled_types_are_those_of_the_file)
{
	CHECK_EQ(compiled_as(PLAIN, PLAIN, NULL, false), 'p');
	CHECK_EQ(compiled_as(PLAIN, PLAIN, "udptest.port=77", false), 'p');
	CHECK_EQ(compiled_as(PLAIN, PLAIN, NULL, true), 'w');
}

TEST(compiled_types_look_at_what_was_set)
{
	CHECK_EQ(compiled_as(PLAIN, PLAIN, "graph.budget=20us", false), 'w');
	CHECK_EQ(compiled_as(PLAIN, PLAIN, "udp.order=session", false), 'w');
	CHECK_EQ(compiled_as(PLAIN, PLAIN, "udp.trace=messages", false), 'w');
}

/* In a network, a host's file may say of the same nodes what the program's does not. */
TEST(compiled_types_look_at_another_files_marks)
{
	const char *explicit =
		"digraph g { udptest -> udp [handoff=explicit]; two [protocol=udptest]; two -> udp; " STACK " }";
	const char *budget =
		"digraph g { udptest -> udp [budget=\"20us\"]; two [protocol=udptest]; two -> udp; " STACK " }";

	CHECK_EQ(compiled_as(PLAIN, explicit, NULL, false), 'w');
	CHECK_EQ(compiled_as(PLAIN, budget, NULL, false), 'w');
	CHECK_EQ(compiled_as(explicit, explicit, NULL, false), 'p');
	CHECK_EQ(compiled_as(budget, budget, NULL, false), 'p');
}

#define JOINED "digraph g { A [protocol=null]; b [protocol=udptest]; c [protocol=udptest]; A -> udp; " STACK

/* Who stands on whom is in the crossings: of the same nodes in the same order, joined otherwise, they would lead astray. */
TEST(compiled_types_are_not_of_the_same_nodes_joined_otherwise)
{
	const char *one = JOINED "b -> A; c -> udp; }";

	CHECK_EQ(compiled_as(one, one, NULL, false), 'p');
	CHECK_EQ(compiled_as(one, JOINED "c -> A; b -> udp; }", NULL, false), '-');
	CHECK_EQ(compiled_as(one, JOINED "b -> A; c -> A; }", NULL, true), '-');
	CHECK_EQ(compiled_as(one, PLAIN, NULL, true), '-');
}
