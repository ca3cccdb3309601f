/* upi_drop.c - drops, headers that cannot be gathered or pushed, and the counters of protocols. */
#include "xkernel/upi.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "xkernel/engine/engine.h"
#include "xkernel/protocol.h"
#include "xkernel/trace.h"

static const char *const upi_common_drops[XK_DROP_OWN] = {
	"none",    "short",      "no_session", "no_buffer",    "no_memory", "no_stack",
	"refused", "unexpected", "bad_length", "bad_checksum", "unsummed",  "too_big",
};

unsigned
xk_drop_count(const struct xk_protocol_type *type)
{
	unsigned count = XK_DROP_OWN;

	if (type->drops != NULL)
		for (const char *const *name = type->drops; *name != NULL; name++)
			count++;
	return count;
}

const char *
xk_drop_name(const struct xk_protocol_type *type, unsigned reason)
{
	return reason < XK_DROP_OWN ? upi_common_drops[reason] : type->drops[reason - XK_DROP_OWN];
}

/* Reports a use of something that self's type does not declare, and aborts. */
__attribute__((noreturn, cold, format(printf, 2, 3))) static void
upi_refuse(const struct xk_protocol *self, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "not declared in the type: host \"%s\", protocol \"%s\" ", self->kernel->config.name,
		self->name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	fflush(stdout);
	abort();
}

void
xk_counter_check(const struct xk_protocol *self, unsigned counter)
{
	const char *const *names = self->type->counters;
	unsigned count = 0;

	while (names != NULL && names[count] != NULL)
		count++;
	if (counter >= count)
		upi_refuse(self, "counts its counter %u (from 0), but `counters` has %u", counter, count);
}

void
xk_push_header_check(const struct xk_protocol *self, size_t len)
{
	if (len > xk_header_gathers(self->type))
		upi_refuse(self, "pushes a header of %zu bytes, but its `header` has %u", len, self->type->header);
}

void
xk_drop(struct xk_protocol *self, struct xk_msg *m, unsigned reason)
{
	if (XK_IS_DEBUG && (reason == 0 || reason >= xk_drop_count(self->type)))
		upi_refuse(self, "drops a message for reason %u: its own begin at XK_DROP_OWN, %u, but `drops` has %u",
			   reason, XK_DROP_OWN, xk_drop_count(self->type) - XK_DROP_OWN);
	xk_tally(&self->drops[reason]);
	if (xk_unlikely(self->shown_level >= XK_TRACE_ERRORS))
		xk_trace_drop(self, m, xk_drop_name(self->type, reason));
	if (!xk_msg_is_given_up(m))
		m->owner = self;
	xk_msg_free(m);
}

int
xk_header_gather(struct xk_protocol *self, struct xk_msg **m)
{
	size_t want = xk_header_gathers(self->type), len = xk_msg_len(*m);

	if (xk_unlikely(len < self->type->header)) {
		xk_drop(self, *m, XK_DROP_SHORT);
		return -EBADMSG;
	}
	if (xk_unlikely(xk_msg_peek(m, want < len ? want : len) == NULL)) {
		xk_drop(self, *m, XK_DROP_NO_BUFFER);
		return -ENOBUFS;
	}
	return 0;
}

struct xk_msg *
xk_push_header_segment(struct xk_session *s, struct xk_msg *m, size_t len)
{
	if (xk_msg_push(&m, len) != NULL)
		return m;
	xk_drop(s->protocol, m, XK_DROP_NO_BUFFER);
	return NULL;
}

/* ---- counters ---- */

uint64_t
xk_counter(const struct xk_protocol *self, unsigned counter)
{
	uint64_t sum = 0;

	for (unsigned lane = 0; lane <= self->kernel->driver_count; lane++)
		sum += atomic_load_explicit(&self->counts[lane][XK_COUNT_OWN + counter], memory_order_relaxed);
	return sum;
}

void
xk_counter_set(struct xk_protocol *self, unsigned counter, uint64_t value)
{
	atomic_store_explicit(&self->counts[0][XK_COUNT_OWN + counter], value, memory_order_relaxed);
}
