/* program_graph.c - a program's graph: a file, or the one that it was compiled from; see program.h. */
#include "tools/program/program.h"

#include <errno.h>
#include <string.h>

const char *
program_graph_file(const struct options_program *program, const char *given, const char *usual)
{
	if (program_graph == NULL)
		return given == NULL ? usual : given;
	if (given == NULL || strcmp(given, program_graph->file) == 0)
		return program_graph->file;
	options_misuse(program, "this program was made of %s, and knows no other graph", program_graph->file);
	return NULL;
}

struct xk_graph *
program_graph_read(const char *file, struct xk_graph_errors *errors)
{
	if (program_graph == NULL)
		return xk_graph_read(file, errors);
	return xk_graph_read_text(program_graph->file, program_graph->text, program_graph->size, errors);
}

bool
program_graph_adopt(struct xk_graph *graph, bool watched)
{
	return program_graph != NULL && xk_graph_specialise(graph, program_graph, watched) == 0;
}

int
program_graph_check(struct xk_graph *graph, bool watched, struct xk_graph_errors *errors)
{
	int status = xk_graph_check(graph, xk_protocol_types, errors);

	if (status != 0 || program_graph == NULL || program_graph_adopt(graph, watched))
		return status;
	xk_graph_errors_add(errors, program_graph->file, 0, "is not the graph that this program was made of");
	return -EINVAL;
}
