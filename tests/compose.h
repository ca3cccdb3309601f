/*
 * compose.h - for tests of whole graphs: composes kernels from a graph file's text and reads their counters.
 */
#ifndef TESTS_COMPOSE_H
#define TESTS_COMPOSE_H

#include "graphs/graph.h"
#include "tests/test.h"
#include "xkernel/kernel.h"

enum { COMPOSE_TYPES = 128 };

/* Adds the graph in text to kernel, which has its ports; does not initialize it. `own`: an additional type, or NULL. */
static inline void
compose(struct xk_kernel *kernel, const struct xk_protocol_type *own, const char *text)
{
	const struct xk_protocol_type *types[COMPOSE_TYPES] = { NULL };
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph;
	unsigned count = 0;

	for (; xk_protocol_types[count] != NULL; count++) {
		REQUIRE(count + 2 < COMPOSE_TYPES);
		types[count] = xk_protocol_types[count];
	}
	types[count] = own;
	graph = xk_graph_read_text("test", text, strlen(text), &errors);
	if (graph == NULL || xk_graph_check(graph, types, &errors) != 0 || xk_graph_build(graph, kernel, &errors) != 0)
		xk_graph_errors_print(&errors, stderr);
	REQUIRE(errors.list == NULL);
	xk_graph_free(graph);
}

/* Defines NAME_type, a test's protocol with instances STATE, one lower that offers NEEDS, and these operations. */
#define COMPOSE_UPPER(NAME, STATE, NEEDS, ...)                                                                         \
	static const struct xk_role NAME##_lowers[] = {                                                                \
		{ "transport", (NEEDS), NULL, "carries what it sends" },                                               \
		{ NULL, 0, NULL, NULL },                                                                               \
	};                                                                                                             \
	static const struct xk_protocol_ops NAME##_ops = { __VA_ARGS__ };                                              \
	static const struct xk_protocol_type NAME##_type = {                                                           \
		.name = #NAME,                                                                                         \
		.help = "A test's own.",                                                                               \
		.ops = &NAME##_ops,                                                                                    \
		.size = sizeof(STATE),                                                                                 \
		.lowers = NAME##_lowers,                                                                               \
	}

/* Returns a counter or drop count of p by name; -1: no such name. */
static inline long
compose_count_of(const struct xk_protocol *p, const char *name)
{
	for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
		if (strcmp(p->type->counters[i], name) == 0)
			return (long)xk_counter(p, i);
	for (unsigned i = 1; i < xk_drop_count(p->type); i++)
		if (strcmp(xk_drop_name(p->type, i), name) == 0)
			return (long)atomic_load_explicit(&p->drops[i], memory_order_relaxed);
	return -1;
}

/* The same for an instance in kernel. */
static inline long
compose_count(struct xk_kernel *kernel, const char *instance, const char *name)
{
	const struct xk_protocol *p = xk_kernel_find(kernel, instance);

	REQUIRE(p != NULL);
	return compose_count_of(p, name);
}

#endif
