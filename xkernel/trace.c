/*
 * trace.c - lines of trace: what protocols decide, and every crossing of a traced message with its header bytes, where
 * it runs, and why it was handed off. A line is built on the stack and written whole, so that lines of several threads
 * do not mix.
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

/* Where the caller runs: "driver, stack 3", "driver 1, stack 67", "thread 1", "outside". */
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

/* Seconds: to the nanosecond where time is virtual, since what happens there is exact. */
static void
trace_time(struct xk_platform *platform, char *text, size_t len)
{
	uint64_t now_ns = platform->ops->now_ns(platform);
	unsigned long long s = now_ns / 1000000000, ns = now_ns % 1000000000;

	if (platform->virtual_time)
		snprintf(text, len, "%6llu.%09llu", s, ns);
	else
		snprintf(text, len, "%6llu.%06llu", s, ns / 1000);
}

static void
trace_line(struct xk_kernel *kernel, const char *text)
{
	FILE *out = kernel->config.trace == NULL ? stderr : kernel->config.trace;
	char time[48], line[TRACE_LINE + 80];

	trace_time(kernel->platform, time, sizeof(time));
	snprintf(line, sizeof(line), "%s %s %s\n", time, kernel->config.name, text);
	fputs(line, out);
}

void
xk_trace_kernel(struct xk_kernel *kernel, const char *format, ...)
{
	char text[TRACE_LINE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	trace_line(kernel, text);
}

void
xk_trace_print(struct xk_protocol *self, const char *format, ...)
{
	char said[TRACE_LINE - 64], text[TRACE_LINE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(said, sizeof(said), format, arguments);
	va_end(arguments);
	snprintf(text, sizeof(text), "%s: %s", self->name, said);
	trace_line(self->kernel, text);
}

/* The first bytes of m in hexadecimal. */
static void
trace_bytes(const struct xk_msg *m, char *text, size_t room)
{
	uint8_t bytes[TRACE_BYTES];
	size_t len = xk_msg_len(m) < TRACE_BYTES ? xk_msg_len(m) : TRACE_BYTES, used = 0;

	text[0] = '\0';
	if (!xk_msg_copy_out(m, 0, bytes, len))
		return;
	for (size_t i = 0; i < len && used < room; i++)
		used += (size_t)snprintf(text + used, room - used, "%s%02x", i > 0 && i % 4 == 0 ? " " : "", bytes[i]);
	if (xk_msg_len(m) > len && used < room)
		snprintf(text + used, room - used, " ...");
}

/* The header that m begins with, that of the upper protocol, field by field; its first bytes, where that one has none. */
static void
trace_header(const struct xk_protocol *upper, const struct xk_msg *m, char *text, size_t room)
{
	uint8_t bytes[TRACE_HEADER];
	size_t len = upper->type->header;

	if (upper->type->fields != NULL && len <= sizeof(bytes) && xk_msg_copy_out(m, 0, bytes, len))
		xk_header_print(upper->type, bytes, len, text, room);
	else
		trace_bytes(m, text, room);
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
