/*
 * trace.c - lines of trace: protocols' decisions, and every crossing of a traced message with
 * its header, the place where it runs, and the reasons for handoffs. A line is built on the
 * stack and written as a whole, so that lines of several threads do not mix.
 */
#include "xkernel/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "xkernel/engine/engine.h"
#include "xkernel/protocol.h"

enum { TRACE_LINE = 500, TRACE_BYTES = 24, TRACE_HEADER = 64, TRACE_FIELDS = 360 };

static const char *const trace_levels[] = { "none", "errors", "events", "messages" };
static const char *const trace_reasons[] = { "explicit", "implicit", "time" };

int
xk_trace_level(const char *name)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(trace_levels); i++)
		if (strcmp(name, trace_levels[i]) == 0)
			return (int)i;
	return -1;
}

/* Prints where the caller runs: "driver, stack 3", "driver 1, stack 67", "thread 1", "outside". */
static void
trace_place(char *text, size_t len)
{
	static const char *const kinds[] = { "driver", "thread", "event thread", "application" };
	struct xk_shepherd *self = xk_self();

	if (self == NULL)
		snprintf(text, len, "outside");
	else if (self->detachable && xk_on_driver(self) && self->driver->index > 0)
		snprintf(text, len, "driver %u, stack %u", self->driver->index, self->number);
	else if (self->detachable && self->runner->kind == XK_RUN_POOL)
		snprintf(text, len, "thread %u, stack %u", self->runner->number, self->number);
	else if (self->detachable)
		snprintf(text, len, "%s, stack %u", kinds[self->runner->kind], self->number);
	else
		snprintf(text, len, "%s %u", kinds[self->runner->kind], self->runner->number);
}

/* Writes one line of the protocol called name, or of the kernel (NULL). Virtual times are exact: all digits. */
static void
trace_line(struct xk_kernel *kernel, const char *name, const char *format, va_list arguments)
{
	FILE *out = kernel->config.trace == NULL ? stderr : kernel->config.trace;
	uint64_t now_ns = kernel->platform->ops->now_ns(kernel->platform);
	bool exact = kernel->platform->virtual_time;
	char text[TRACE_LINE], line[TRACE_LINE + 200];

	vsnprintf(text, sizeof(text), format, arguments);
	snprintf(line, sizeof(line), "%6llu.%0*llu %s %s%s%s\n", (unsigned long long)(now_ns / 1000000000),
		 exact ? 9 : 6, (unsigned long long)(now_ns % 1000000000 / (exact ? 1 : 1000)), kernel->config.name,
		 name == NULL ? "" : name, name == NULL ? "" : ": ", text);
	fputs(line, out);
}

void
xk_trace_kernel(struct xk_kernel *kernel, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	trace_line(kernel, NULL, format, arguments);
	va_end(arguments);
}

void
xk_trace_print(struct xk_protocol *self, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	trace_line(self->kernel, self->name, format, arguments);
	va_end(arguments);
}

/* Prints the header of upper at the start of m, field by field; if upper has none, m's first bytes in hexadecimal. */
static void
trace_header(const struct xk_protocol *upper, const struct xk_msg *m, char *text, size_t room)
{
	uint8_t bytes[TRACE_HEADER];
	size_t len = upper->type->header, used = 0;

	if (upper->type->fields != NULL && len <= sizeof(bytes) && xk_msg_copy_out(m, 0, bytes, len)) {
		xk_header_print(upper->type, bytes, len, text, room);
		return;
	}
	len = xk_msg_len(m) < TRACE_BYTES ? xk_msg_len(m) : TRACE_BYTES;
	text[0] = '\0';
	xk_msg_copy_first(m, bytes, len);
	for (size_t i = 0; i < len; i++)
		used += (size_t)snprintf(text + used, room - used, "%s%02x", i > 0 && i % 4 == 0 ? " " : "", bytes[i]);
	if (xk_msg_len(m) > len)
		snprintf(text + used, room - used, " ...");
}

void
xk_trace_crossing(struct xk_edge *edge, struct xk_msg *m, bool up)
{
	char bytes[TRACE_FIELDS], place[48];

	trace_header(edge->upper, m, bytes, sizeof(bytes));
	trace_place(place, sizeof(place));
	xk_trace_kernel(edge->lower->kernel, "#%u %-4s %s -> %s %zu bytes [%s] (%s)", m->id, up ? "up" : "down",
			up ? edge->lower->name : edge->upper->name, up ? edge->upper->name : edge->lower->name,
			xk_msg_len(m), bytes, place);
}

void
xk_trace_handoff(struct xk_shepherd *self, enum xk_handoff_reason reason, struct xk_edge *edge)
{
	char place[48];

	trace_place(place, sizeof(place));
	if (edge == NULL)
		xk_trace_kernel(self->kernel, "handoff: %s, now on %s", trace_reasons[reason], place);
	else
		xk_trace_kernel(self->kernel, "handoff: %s, between %s and %s, now on %s", trace_reasons[reason],
				edge->lower->name, edge->upper->name, place);
}
