/* data.c - a graph as data: errors, attributes, nodes by name, --set. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"

void *
xk_graph_grow(void *list, unsigned count, size_t size)
{
	/* the list is full when count is a power of two, and doubles */
	if ((count & (count - 1)) == 0) {
		list = realloc(list, (count == 0 ? 1 : (size_t)count * 2) * size);
		xk_assert(list != NULL);
	}
	memset((char *)list + count * size, 0, size);
	return list;
}

char *
xk_graph_copy(const char *text)
{
	char *copy = strdup(text);

	xk_assert(copy != NULL);
	return copy;
}

char *
xk_graph_format(const char *format, va_list arguments)
{
	va_list again;
	char *text;
	int len;

	va_copy(again, arguments);
	len = vsnprintf(NULL, 0, format, again);
	va_end(again);
	xk_assert(len >= 0);
	text = malloc((size_t)len + 1);
	xk_assert(text != NULL);
	vsnprintf(text, (size_t)len + 1, format, arguments);
	return text;
}

void
xk_graph_errors_add_list(struct xk_graph_errors *errors, const char *file, unsigned line, const char *format,
			 va_list arguments)
{
	struct xk_graph_error *error;
	char *what;
	size_t len;

	if (errors->count == XK_GRAPH_ERRORS_MAX) {
		errors->more++;
		return;
	}
	what = xk_graph_format(format, arguments);
	len = strlen(file) + strlen(what) + 16;
	errors->list = xk_graph_grow(errors->list, errors->count, sizeof(*errors->list));
	error = &errors->list[errors->count++];
	error->line = line;
	error->text = malloc(len);
	xk_assert(error->text != NULL);
	if (line != 0)
		snprintf(error->text, len, "%s:%u: %s", file, line, what);
	else
		snprintf(error->text, len, "%s: %s", file, what);
	free(what);
}

void
xk_graph_errors_add(struct xk_graph_errors *errors, const char *file, unsigned line, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	xk_graph_errors_add_list(errors, file, line, format, arguments);
	va_end(arguments);
}

void
xk_graph_refuse(struct xk_graph *graph, struct xk_graph_errors *errors, unsigned line, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	xk_graph_errors_add_list(errors, line == 0 ? "--set" : graph->file, line, format, arguments);
	va_end(arguments);
	graph->refused = true;
}

void
xk_graph_print_plain(const char *text, size_t len, bool lines, FILE *stream)
{
	for (const char *end = text + len; text < end; text++) {
		unsigned char c = (unsigned char)*text, next = text + 1 < end ? (unsigned char)text[1] : 0;

		if ((c < ' ' && !(lines && c == '\n')) || c == 0x7f)
			fprintf(stream, "\\x%02x", c);
		else if (c == 0xc2 && next >= 0x80 && next < 0xa0)
			fprintf(stream, "\\x%02x", *(const unsigned char *)++text);
		else
			putc(c, stream);
	}
}

void
xk_graph_errors_print(const struct xk_graph_errors *errors, FILE *stream)
{
	unsigned line = 0, next;

	/* by the smallest line not yet printed, and within a line in the order found: errors are few */
	for (bool first = true; first || line != UINT32_MAX; line = next, first = false) {
		next = UINT32_MAX;
		for (unsigned i = 0; i < errors->count; i++) {
			const struct xk_graph_error *error = &errors->list[i];

			if (error->line == line) {
				xk_graph_print_plain(error->text, strlen(error->text), false, stream);
				putc('\n', stream);
			} else if (error->line > line && error->line < next) {
				next = error->line;
			}
		}
	}
	if (errors->more != 0)
		fprintf(stream, "and %u more\n", errors->more);
}

void
xk_graph_errors_clear(struct xk_graph_errors *errors)
{
	for (unsigned i = 0; i < errors->count; i++)
		free(errors->list[i].text);
	free(errors->list);
	memset(errors, 0, sizeof(*errors));
}

struct xk_graph_attribute *
xk_graph_attribute_find(const struct xk_graph_attributes *attributes, const char *name)
{
	for (unsigned i = 0; i < attributes->count; i++)
		if (strcmp(attributes->list[i].name, name) == 0)
			return &attributes->list[i];
	return NULL;
}

struct xk_graph_attribute *
xk_graph_attribute_add(struct xk_graph_attributes *attributes, const char *name, const char *value, unsigned line)
{
	struct xk_graph_attribute *attribute;

	attributes->list = xk_graph_grow(attributes->list, attributes->count, sizeof(*attributes->list));
	attribute = &attributes->list[attributes->count++];
	attribute->name = xk_graph_copy(name);
	attribute->value = xk_graph_copy(value);
	attribute->line = line;
	return attribute;
}

void
xk_graph_attribute_put(struct xk_graph_attributes *attributes, const char *name, const char *value, unsigned line)
{
	struct xk_graph_attribute *attribute = xk_graph_attribute_find(attributes, name);

	if (attribute == NULL) {
		xk_graph_attribute_add(attributes, name, value, line);
		return;
	}
	free(attribute->value);
	attribute->value = xk_graph_copy(value);
	attribute->line = line;
	attribute->html = false;
}

void
xk_graph_attribute_remove(struct xk_graph_attributes *attributes, const char *name)
{
	struct xk_graph_attribute *attribute = xk_graph_attribute_find(attributes, name);

	if (attribute == NULL)
		return;
	free(attribute->name);
	free(attribute->value);
	attributes->count--;
	memmove(attribute, attribute + 1,
		(size_t)(attributes->list + attributes->count - attribute) * sizeof(*attribute));
}

void
xk_graph_attributes_clear(struct xk_graph_attributes *attributes)
{
	for (unsigned i = 0; i < attributes->count; i++) {
		free(attributes->list[i].name);
		free(attributes->list[i].value);
	}
	free(attributes->list);
	memset(attributes, 0, sizeof(*attributes));
}

int
xk_graph_node_find(const struct xk_graph *graph, const char *name)
{
	unsigned low = 0, high = graph->node_count;

	while (low < high) {
		unsigned middle = (low + high) / 2;
		int order = strcmp(name, graph->nodes[middle].name);

		if (order == 0)
			return (int)middle;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return -1;
}

int
xk_graph_set(struct xk_graph *graph, const char *text, struct xk_graph_errors *errors)
{
	char *node = xk_graph_copy(text), *value = strchr(node, '='), *name = NULL;
	struct xk_graph_attributes *target = NULL;

	if (value != NULL) {
		*value++ = '\0';
		name = strrchr(node, '.');
	}
	if (name == NULL || name == node || name[1] == '\0') {
		xk_graph_refuse(graph, errors, 0, "\"%s\" is not of the form node.attribute=value", text);
	} else {
		int index;

		*name++ = '\0';
		index = xk_graph_node_find(graph, node);
		if (index >= 0)
			target = &graph->nodes[index].attributes;
		else if (strcmp(node, "graph") == 0)
			target = &graph->attributes;
		else
			xk_graph_refuse(graph, errors, 0, "%s: %s has no node \"%s\"", text, graph->file, node);
	}
	if (target != NULL) {
		xk_graph_attribute_put(target, name, value, 0);
		graph->checked = false;
	}
	free(node);
	return target != NULL ? 0 : -EINVAL;
}

void
xk_graph_free(struct xk_graph *graph)
{
	if (graph == NULL)
		return;
	for (unsigned i = 0; i < graph->node_count; i++) {
		free(graph->nodes[i].name);
		free(graph->nodes[i].lowers);
		xk_graph_attributes_clear(&graph->nodes[i].attributes);
	}
	for (unsigned i = 0; i < graph->edge_count; i++)
		xk_graph_attributes_clear(&graph->edges[i].attributes);
	xk_graph_attributes_clear(&graph->attributes);
	free(graph->nodes);
	free(graph->edges);
	free(graph->order);
	free(graph->file);
	free(graph);
}
