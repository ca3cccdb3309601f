/*
 * fuzz_text.h - for fuzzers of graph and network files: the --set options behind a file, and printed output.
 *
 * Each --set option follows a byte FUZZ_SET.
 */
#ifndef FUZZ_TEXT_H
#define FUZZ_TEXT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"
#include "tests/fuzz/fuzz.h"
#include "tests/graphs/oracle.h"

enum { FUZZ_SET = 1, FUZZ_SETS = 8, FUZZ_SET_MAX = 256 };

/* Returns the start of the next --set in text, or its end. */
static inline const uint8_t *
fuzz_find_set(const uint8_t *text, const uint8_t *end)
{
	const uint8_t *set = end == text ? NULL : memchr(text, FUZZ_SET, (size_t)(end - text));

	return set == NULL ? end : set;
}

/* Copies the --set at `at`. Returns the start of the next one. */
static inline const uint8_t *
fuzz_take_set(char text[FUZZ_SET_MAX], const uint8_t *at, const uint8_t *end)
{
	const uint8_t *next = fuzz_find_set(at + 1, end);
	size_t len = (size_t)(next - at - 1);

	len = len < FUZZ_SET_MAX ? len : FUZZ_SET_MAX - 1;
	memcpy(text, at + 1, len);
	text[len] = '\0';
	return next;
}

/* A stream into a string. */
struct fuzz_print {
	char *text;
	size_t len;
	FILE *stream;
};

static inline void
fuzz_print_begin(struct fuzz_print *print)
{
	*print = (struct fuzz_print){ .text = NULL };
	print->stream = open_memstream(&print->text, &print->len);
	FUZZ_CHECK(print->stream != NULL);
}

/* Checks that each error is printed, and nothing without errors. */
static inline void
fuzz_check_errors(const struct xk_graph_errors *errors)
{
	struct fuzz_print print;

	fuzz_print_begin(&print);
	xk_graph_errors_print(errors, print.stream);
	FUZZ_CHECK(fclose(print.stream) == 0);
	FUZZ_CHECK((print.len > 0) == (errors->count > 0));
	free(print.text);
}

/* Reads the drawn text, which must be well-formed, as a graph. Frees the text. */
static inline struct xk_graph *
fuzz_read_drawn(struct fuzz_print *print, enum xk_graph_kind kind)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_graph *graph;

	FUZZ_CHECK(fclose(print->stream) == 0);
	graph = xk_graph_read_text_kind("drawn", print->text, print->len, kind, &errors);
	if (graph == NULL) { /* the next check reports no more than that */
		xk_graph_errors_print(&errors, stderr);
		fwrite(print->text, 1, print->len, stderr);
	}
	FUZZ_CHECK(graph != NULL);
	FUZZ_CHECK(graph->refused || oracle_agrees(graph, print->text, print->len));
	xk_graph_errors_clear(&errors);
	free(print->text);
	return graph;
}

#endif
