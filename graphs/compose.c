/* compose.c - from a graph, in a file or as text, to a kernel's protocols, initialised; see graph.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/compiled.h"
#include "xkernel/kernel.h"

static unsigned
compose_count(const struct xk_protocol_type *const *types)
{
	unsigned count = 0;

	while (types != NULL && types[count] != NULL)
		count++;
	return count;
}

/* Those that were built in, then the program's own, which count where the names are the same. NULL: no memory. */
static const struct xk_protocol_type **
compose_types(const struct xk_protocol_type *const *own)
{
	unsigned own_count = compose_count(own), count = compose_count(xk_protocol_types);
	const struct xk_protocol_type **types = calloc(own_count + count + 1, sizeof(*types));

	if (types == NULL)
		return NULL;
	for (unsigned i = 0; i < count; i++)
		types[i] = xk_protocol_types[i];
	for (unsigned i = 0; i < own_count; i++)
		types[count + i] = own[i];
	return types;
}

/* Reads the graph of source. NULL: it cannot be read. */
static struct xk_graph *
compose_read(const struct xk_graph_source *source, const char *file, struct xk_graph_errors *errors)
{
	if (source->compiled != NULL)
		return xk_graph_read_text(file, source->compiled->text, source->compiled->size, errors);
	if (source->text != NULL)
		return xk_graph_read_text(file, source->text, strlen(source->text), errors);
	return xk_graph_read(file, errors);
}

/* Reads, sets and checks the graph. A compiled one takes its types on. NULL: it is refused. */
static struct xk_graph *
compose_load(const struct xk_graph_source *source, const char *file, const struct xk_protocol_type *const *types,
	     struct xk_graph_errors *errors)
{
	struct xk_graph *graph = compose_read(source, file, errors);
	unsigned set_count = 0;

	while (source->sets != NULL && source->sets[set_count] != NULL)
		set_count++;
	graph = xk_graph_finish(graph, source->sets, set_count, types, errors);
	if (graph != NULL && source->compiled != NULL && xk_graph_specialise(graph, source->compiled, false) != 0) {
		xk_graph_errors_add(errors, file, 0, "is not the graph that was compiled");
		xk_graph_free(graph);
		return NULL;
	}
	return graph;
}

/* The graph's name in errors. */
static const char *
compose_name(const struct xk_graph_source *source)
{
	if (source->compiled != NULL)
		return source->compiled->file;
	return source->file == NULL ? "graph" : source->file;
}

static int
compose_init(const char *file, struct xk_kernel *kernel, struct xk_graph_errors *errors)
{
	struct xk_protocol *failed = NULL;
	int result = xk_kernel_init(kernel, &failed);

	if (result != 0)
		xk_graph_errors_add(errors, file, 0, "%s cannot be initialised: %s",
				    failed == NULL ? "the graph" : failed->name, strerror(-result));
	return result;
}

int
xk_graph_compose(const struct xk_graph_source *source, struct xk_kernel *kernel, FILE *stream)
{
	const struct xk_protocol_type **types = compose_types(source->compiled == NULL ? source->types : NULL);
	const char *file = compose_name(source);
	struct xk_graph_errors errors = { .list = NULL };
	struct xk_graph *graph = NULL;
	int result = -EINVAL;

	if (types == NULL)
		return -ENOMEM;
	if (xk_kernel_first(kernel) != NULL)
		xk_graph_errors_add(&errors, file, 0, "comes second: the kernel is composed already");
	else
		graph = compose_load(source, file, types, &errors);
	if (graph != NULL)
		result = xk_graph_build(graph, kernel, &errors);
	if (graph != NULL && result == 0)
		result = compose_init(file, kernel, &errors);
	if (stream != NULL)
		xk_graph_errors_print(&errors, stream);
	xk_graph_errors_clear(&errors);
	xk_graph_free(graph);
	free(types);
	return result;
}
