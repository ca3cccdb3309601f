/* errors.h - for tests of what reads graphs: what is wrong with one, as text. */
#ifndef TESTS_GRAPH_ERRORS_H
#define TESTS_GRAPH_ERRORS_H

#include "graphs/graph.h"
#include "tests/test.h"

/* A line for each error. Free it. */
static inline char *
errors_text(const struct xk_graph_errors *errors)
{
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);

	REQUIRE(stream != NULL);
	xk_graph_errors_print(errors, stream);
	fclose(stream);
	return text;
}

#endif
