/*
 * trace.c - traces protocols' decisions, each crossing of a traced message with its header and the place where it runs,
 * and the reasons for handoffs and drops: as lines, and as steps for a program's sink. A line is built on the stack and
 * written as a whole, so that lines of several threads do not mix.
 */
#include "xkernel/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "xkernel/engine/engine.h"
#include "xkernel/protocol.h"

enum { TRACE_LINE = 500, TRACE_BYTES = 24, TRACE_HEADER = 64, TRACE_FIELDS = 360, TRACE_PLACE = 48 };

static const char *const trace_levels[] = { "none", "errors", "events", "messages" };

const char *const xk_handoff_names[] = { "explicit", "implicit", "time" };

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
trace_place(char text[TRACE_PLACE])
{
	static const char *const kinds[] = { "driver", "thread", "event thread", "application" };
	struct xk_shepherd *self = xk_self();

	if (self == NULL)
		snprintf(text, TRACE_PLACE, "outside");
	else if (self->detachable && xk_on_driver(self) && self->driver->index > 0)
		snprintf(text, TRACE_PLACE, "driver %u, stack %u", self->driver->index, self->number);
	else if (self->detachable && self->runner->kind == XK_RUN_POOL)
		snprintf(text, TRACE_PLACE, "thread %u, stack %u", self->runner->number, self->number);
	else if (self->detachable)
		snprintf(text, TRACE_PLACE, "%s, stack %u", kinds[self->runner->kind], self->number);
	else
		snprintf(text, TRACE_PLACE, "%s %u", kinds[self->runner->kind], self->runner->number);
}

static uint64_t
trace_now_ns(const struct xk_kernel *kernel)
{
	return kernel->platform->ops->now_ns(kernel->platform);
}

/* ---- for a sink ---- */

/* Completes a step and shows it to the kernel's sink, if there is one. */
static void
trace_show(struct xk_kernel *kernel, struct xk_trace_step step)
{
	struct xk_trace_sink *sink = kernel->config.sink;
	struct xk_shepherd *self = xk_self();
	char place[TRACE_PLACE];

	if (sink == NULL)
		return;
	trace_place(place);
	step.now_ns = trace_now_ns(kernel);
	step.load = self == NULL ? XK_LOADS : (enum xk_load)self->load;
	step.shepherd = self;
	step.place = place;
	sink->see(sink, &step);
}

void
xk_trace_taken(struct xk_kernel *kernel, const struct xk_msg *m)
{
	trace_show(kernel, (struct xk_trace_step){ .kind = XK_TRACE_TAKEN, .m = m });
}

void
xk_trace_replied(struct xk_session *s, const struct xk_msg *reply, enum xk_direction direction)
{
	trace_show(
		s->protocol->kernel,
		(struct xk_trace_step){ .kind = XK_TRACE_REPLIED, .session = s, .m = reply, .direction = direction });
}

void
xk_trace_returned(const struct xk_edge *edge, enum xk_direction direction)
{
	trace_show(edge->lower->kernel,
		   (struct xk_trace_step){ .kind = XK_TRACE_RETURNED, .edge = edge, .direction = direction });
}

void
xk_trace_session(const struct xk_session *s, bool made)
{
	trace_show(s->protocol->kernel,
		   (struct xk_trace_step){ .kind = made ? XK_TRACE_MADE : XK_TRACE_CLOSED, .session = s });
}

/* ---- lines ---- */

/*
 * Writes one line of the protocol called name, or of the kernel (NULL). Prints all digits of virtual times, which are
 * exact.
 */
static void
trace_line(struct xk_kernel *kernel, const char *name, const char *text)
{
	FILE *out = kernel->config.trace == NULL ? stderr : kernel->config.trace;
	uint64_t now_ns = trace_now_ns(kernel);
	bool exact = kernel->platform->virtual_time;
	char line[TRACE_LINE + 200];

	snprintf(line, sizeof(line), "%6llu.%0*llu %s %s%s%s\n", (unsigned long long)(now_ns / 1000000000),
		 exact ? 9 : 6, (unsigned long long)(now_ns % 1000000000 / (exact ? 1 : 1000)), kernel->config.name,
		 name == NULL ? "" : name, name == NULL ? "" : ": ", text);
	fputs(line, out);
}

__attribute__((format(printf, 2, 3))) static void
trace_print(struct xk_kernel *kernel, const char *format, ...)
{
	char text[TRACE_LINE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	trace_line(kernel, NULL, text);
}

void
xk_trace_kernel(struct xk_kernel *kernel, const char *format, ...)
{
	char text[TRACE_LINE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	trace_show(kernel, (struct xk_trace_step){ .kind = XK_TRACE_DECISION, .text = text });
	trace_line(kernel, NULL, text);
}

void
xk_trace_print(struct xk_protocol *self, int level, const char *format, ...)
{
	char text[TRACE_LINE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	trace_show(self->kernel, (struct xk_trace_step){ .kind = XK_TRACE_DECISION, .protocol = self, .text = text });
	if (self->trace_level >= level)
		trace_line(self->kernel, self->name, text);
}

void
xk_trace_drop(struct xk_protocol *self, const struct xk_msg *m, const char *reason)
{
	char text[TRACE_LINE];

	trace_show(self->kernel,
		   (struct xk_trace_step){ .kind = XK_TRACE_DROPPED, .protocol = self, .m = m, .text = reason });
	if (self->trace_level < XK_TRACE_ERRORS)
		return;
	snprintf(text, sizeof(text), "#%u dropped: %s (%zu bytes)", m->id, reason, xk_msg_len(m));
	trace_line(self->kernel, self->name, text);
}

/* Prints the header of upper at the start of m, by fields and options; if upper has none, m's first bytes in hexadecimal. */
static void
trace_header(const struct xk_protocol *upper, const struct xk_msg *m, char *text, size_t room)
{
	uint8_t bytes[TRACE_HEADER];
	size_t len = xk_msg_len(m) < sizeof(bytes) ? xk_msg_len(m) : sizeof(bytes), used = 0;

	xk_msg_copy_first(m, bytes, len);
	if (upper->type->fields != NULL && upper->type->header <= len) {
		xk_header_print(upper->type, bytes, len, text, room);
		return;
	}
	len = len < TRACE_BYTES ? len : TRACE_BYTES;
	text[0] = '\0';
	for (size_t i = 0; i < len; i++)
		used += (size_t)snprintf(text + used, room - used, "%s%02x", i > 0 && i % 4 == 0 ? " " : "", bytes[i]);
	if (xk_msg_len(m) > len)
		snprintf(text + used, room - used, " ...");
}

void
xk_trace_crossing(struct xk_session *s, const struct xk_msg *m, enum xk_direction direction)
{
	const struct xk_edge *edge = s->up;
	const struct xk_protocol *from = direction == XK_UP ? edge->lower : edge->upper;
	const struct xk_protocol *to = direction == XK_UP ? edge->upper : edge->lower;
	struct xk_kernel *kernel = edge->lower->kernel;
	char bytes[TRACE_FIELDS], place[TRACE_PLACE];

	trace_show(kernel,
		   (struct xk_trace_step){ .kind = XK_TRACE_CROSSED, .session = s, .m = m, .direction = direction });
	if (!xk_edge_watched(edge, XK_WATCH_TRACE))
		return;
	trace_header(edge->upper, m, bytes, sizeof(bytes));
	trace_place(place);
	trace_print(kernel, "#%u %-4s %s -> %s %zu bytes [%s] (%s)", m->id, xk_direction_names[direction], from->name,
		    to->name, xk_msg_len(m), bytes, place);
}

void
xk_trace_handoff(struct xk_shepherd *self, enum xk_handoff_reason reason, const struct xk_edge *edge)
{
	struct xk_kernel *kernel = self->kernel;
	char place[TRACE_PLACE];

	trace_show(kernel, (struct xk_trace_step){ .kind = XK_TRACE_HANDOFF, .reason = reason, .edge = edge });
	if (!kernel->prints_handoffs)
		return;
	trace_place(place);
	if (edge == NULL)
		trace_print(kernel, "handoff: %s, now on %s", xk_handoff_names[reason], place);
	else
		trace_print(kernel, "handoff: %s, between %s and %s, now on %s", xk_handoff_names[reason],
			    edge->lower->name, edge->upper->name, place);
}
