/*
 * lines.c - where the memory lies that every turn touches; for a simulator, which fetches a kernel's before its turn.
 */
#include "xkernel/engine.h"

enum { LINE = 64, LINES_OF_INSTANCE = 2, LINES_OF_WHEEL = 3 };

struct lines {
	const void **list;
	unsigned count, max;
};

static void
lines_add(struct lines *lines, const void *from, size_t size)
{
	uintptr_t first = (uintptr_t)from / LINE * LINE;

	for (uintptr_t line = first; line < (uintptr_t)from + size && lines->count < lines->max; line += LINE)
		lines->list[lines->count++] = (const void *)line;
}

static void
lines_add_port(struct lines *lines, const struct xk_port *port)
{
	lines_add(lines, port, sizeof(*port));
	lines_add(lines, &port->transmit->kernel, 2 * sizeof(void *) + sizeof(port->transmit->batch[0]));
	lines_add(lines, &port->transmit->held, 2 * sizeof(port->transmit->held));
}

static void
lines_add_protocol(struct lines *lines, const struct xk_protocol *p)
{
	size_t size = p->type->size;

	lines_add(lines, p, size < LINES_OF_INSTANCE * LINE ? size : LINES_OF_INSTANCE * LINE);
	for (unsigned i = 0; i < p->lower_count; i++)
		lines_add(lines, p->lowers[i], offsetof(struct xk_edge, role));
}

unsigned
xk_kernel_lines(const struct xk_kernel *kernel, const void **list, unsigned max)
{
	struct lines lines = { .list = list, .max = max };

	lines_add(&lines, kernel, offsetof(struct xk_kernel, driver.runner.own));
	lines_add(&lines, kernel->driver.burst, sizeof(kernel->driver.burst[0]));
	lines_add(&lines, kernel->wheel, LINES_OF_WHEEL * LINE);
	for (const struct xk_port *port = kernel->ports; port != NULL; port = port->next)
		lines_add_port(&lines, port);
	for (const struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next)
		lines_add_protocol(&lines, p);
	return lines.count;
}
