/* errors.h - for tests of graphs' readers and checker: errors as text. */
#ifndef TESTS_GRAPH_ERRORS_H
#define TESTS_GRAPH_ERRORS_H

#include "graphs/graph.h"
#include "tests/test.h"

/* Returns a line for each error, which the caller frees. */
static inline char *
error_lines(const struct xk_graph_errors *errors)
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
