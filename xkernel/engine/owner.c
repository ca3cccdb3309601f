/*
 * owner.c - reports protocols that use a message after handing it on or freeing it, or never free one.
 *
 * None of this is on the fast path. A freed message has a reference count of 0 and a length of 0, so that any use of it
 * takes a slow path, which checks for this (msg.c, buffer_free of the platforms). Owners are recorded only at edges
 * that are watched for it; debug builds watch all edges.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "xkernel/engine/engine.h"
#include "xkernel/engine/where.h"
#include "xkernel/protocol.h"

/* ---- reports ---- */

/* Returns owner if it is a protocol of kernel, else NULL: the pointer in a message may be stale. */
static const struct xk_protocol *
owner_in(const struct xk_kernel *kernel, const struct xk_protocol *owner)
{
	const struct xk_protocol *p = kernel == NULL ? NULL : kernel->protocols;

	while (p != NULL && p != owner)
		p = p->next;
	return p;
}

/* Prints the protocols that m was handed to. Debug builds only. */
static void
owner_print_trail(const struct xk_kernel *kernel, const struct xk_msg *m)
{
	(void)kernel;
	(void)m;
#ifdef XK_DEBUG
	unsigned first = m->crossings > XK_MSG_TRAIL ? m->crossings - XK_MSG_TRAIL : 0;

	for (unsigned i = first; i < m->crossings; i++) {
		const struct xk_protocol *p = owner_in(kernel, m->trail[i % XK_MSG_TRAIL]);

		fprintf(stderr, "%s%s", i == first ? "\n    it was handed to: " : ", ",
			p == NULL ? "another host" : p->name);
	}
#endif
}

/*
 * Ends a report: prints where m was last freed and the protocols it was handed to, or how to find these out, and
 * aborts.
 */
__attribute__((noreturn)) static void
owner_end(const struct xk_kernel *kernel, const struct xk_msg *m)
{
	struct xk_symbols *symbols = xk_symbols_new();
	struct xk_symbol symbol;

	if (xk_msg_is_given_up(m) && m->given_up_at != 0 && xk_symbol_find(symbols, m->given_up_at, &symbol))
		fprintf(stderr, "; it was freed in %.*s", (int)strcspn(symbol.name, "."), symbol.name);
	xk_symbols_free(symbols);
	owner_print_trail(kernel, m);
#ifndef XK_DEBUG
	fprintf(stderr, "\n    (--trace, and xk run of a simulated network, track the owners of messages; programs "
			"made by ./run build --debug print all protocols that a message was handed to)");
#endif
	fputc('\n', stderr);
	fflush(stdout);
	abort();
}

void
xk_msg_misused(const struct xk_msg *m, const char *what)
{
	const struct xk_protocol_type *type;
	const struct xk_protocol *owner;
	struct xk_where where;
	char verb[128];

	xk_where_note(&where);
	owner = owner_in(where.kernel, m->owner);
	type = owner == NULL ? NULL : xk_where_type(&where);
	fprintf(stderr, "message misuse: ");
	if (type != NULL && type != owner->type) {
		/* either may be at fault: it kept the message, or was handed a freed one */
		snprintf(verb, sizeof(verb), "%s a message that was already freed", what);
		xk_where_print(&where, verb, stderr);
		fprintf(stderr, ": \"%s\" had it last", owner->name);
	} else if (owner != NULL) {
		/* The last owner is at fault: a later crossing would have been refused. */
		fprintf(stderr, "host \"%s\", protocol \"%s\" %s a message that it has already freed",
			where.kernel->config.name, owner->name, what);
		xk_where_print_functions(&where, stderr);
	} else {
		snprintf(verb, sizeof(verb), "%s a message that was already freed", what);
		xk_where_print(&where, verb, stderr);
	}
	owner_end(where.kernel, m);
}

/* Reports that `from` hands m, which it does not own, to `to`. */
__attribute__((noreturn, cold, noinline)) static void
owner_refuse(const struct xk_msg *m, const struct xk_protocol *from, const struct xk_protocol *to,
	     enum xk_direction direction)
{
	const struct xk_protocol *owner = owner_in(from->kernel, m->owner);
	struct xk_where where;

	xk_where_note(&where);
	/* The session names `from`; the code that runs may be another protocol's. */
	if (owner == to && !xk_msg_is_given_up(m) && xk_where_type(&where) == to->type && from->type != to->type) {
		fprintf(stderr, "session misuse: host \"%s\", protocol \"%s\" ", to->kernel->config.name, to->name);
		if (direction == XK_UP)
			fprintf(stderr,
				"delivers a message to itself: it has given xk_demux the session of \"%s\" below "
				"instead of its own",
				from->name);
		else
			fprintf(stderr, "pushes a message to itself: it has given xk_push its own session instead of "
					"the one below");
		xk_where_print_functions(&where, stderr);
		owner_end(from->kernel, m);
	}
	fprintf(stderr, "message misuse: host \"%s\", protocol \"%s\" %s \"%s\" a message ", from->kernel->config.name,
		from->name, direction == XK_UP ? "delivers to" : "pushes to", to->name);
	if (!xk_msg_is_given_up(m))
		fprintf(stderr, "that it no longer owns: %s%s%s has it", owner == NULL ? "" : "\"",
			owner == NULL ? "another host" : owner->name, owner == NULL ? "" : "\"");
	else if (owner == from)
		fprintf(stderr, "that it has freed or dropped itself");
	else if (owner != NULL)
		fprintf(stderr, "that it no longer owns: \"%s\" had it last, and has freed it", owner->name);
	else
		fprintf(stderr, "that was already freed");
	xk_where_print_functions(&where, stderr);
	owner_end(from->kernel, m);
}

/*
 * Reports that m, which `from` hands on, has a negative length. Lengths are unsigned, so m looks very long, and earlier
 * upcalls may have missed this: the last known owner is at fault.
 */
__attribute__((noreturn, cold, noinline)) static void
owner_refuse_length(const struct xk_msg *m, const struct xk_protocol *from)
{
	const struct xk_protocol *owner = owner_in(from->kernel, m->owner);

	fprintf(stderr,
		"a message is shorter than its header: host \"%s\", protocol \"%s\" has taken more bytes off a message "
		"than there were\n",
		from->kernel->config.name, owner == NULL ? from->name : owner->name);
	fflush(stdout);
	abort();
}

/* ---- at a crossing ---- */

/*
 * Returns whether m belongs to another protocol than `from`. Not checked: messages that ports deliver, which may come
 * from another host of this process; pushes by a shepherd of another host, which owned the message before; and messages
 * of RPC protocols, which may be replies, since replies cross no edge.
 */
static bool
owner_is_other(const struct xk_msg *m, const struct xk_protocol *from)
{
	const struct xk_shepherd *self = xk_self();

	if (m->owner == NULL || m->owner == from || !from->kernel->watches_owners || from->type->flags & XK_PORT)
		return false;
	if (self != NULL && self->kernel != from->kernel)
		return false;
	return owner_in(from->kernel, m->owner) == NULL || !(m->owner->type->offers & XK_RPC);
}

void
xk_msg_cross(struct xk_msg *m, const struct xk_protocol *from, const struct xk_protocol *to,
	     enum xk_direction direction)
{
	if (xk_unlikely(m->total > XK_MSG_MAX)) /* a negative length, as unsigned */
		owner_refuse_length(m, from);
	if (xk_unlikely(xk_msg_is_given_up(m)) || xk_unlikely(owner_is_other(m, from)))
		owner_refuse(m, from, to, direction);
	m->owner = to;
#ifdef XK_DEBUG
	m->trail[m->crossings++ % XK_MSG_TRAIL] = to;
#endif
}

void
xk_msg_pops(const struct xk_msg *m, const struct xk_protocol *to)
{
	const struct xk_protocol *owner;
	struct xk_where where;

	if (xk_likely(!owner_is_other(m, to)))
		return;
	xk_where_note(&where);
	owner = owner_in(to->kernel, m->owner);
	fprintf(stderr,
		"session misuse: host \"%s\", %s%s%s pops a message at a session of \"%s\": xk_pop takes a session of "
		"the protocol that has the message",
		to->kernel->config.name, owner == NULL ? "the owner" : "protocol \"", owner == NULL ? "" : owner->name,
		owner == NULL ? "" : "\"", to->name);
	xk_where_print_functions(&where, stderr);
	owner_end(to->kernel, m);
}

/* ---- messages that were never freed ---- */

struct owner_lost {
	const struct xk_protocol *protocol;
	const struct xk_msg *first;
	unsigned count;
};

static void
owner_see_lost(void *context, const struct xk_msg *segment)
{
	struct owner_lost *lost = context;

	if (segment->owner != lost->protocol)
		return;
	if (lost->count++ == 0)
		lost->first = segment;
}

static void
owner_report_lost_of(const struct owner_lost *lost)
{
	const struct xk_protocol *p = lost->protocol;
	uint8_t bytes[16];
	size_t len = lost->first->len < sizeof(bytes) ? lost->first->len : sizeof(bytes);

	fprintf(stderr,
		"host \"%s\", protocol \"%s\" was handed %u message%s that it has neither passed on nor freed, one of "
		"%u bytes [",
		p->kernel->config.name, p->name, lost->count, lost->count == 1 ? "" : "s", lost->first->total);
	memcpy(bytes, lost->first->data, len);
	for (size_t i = 0; i < len; i++)
		fprintf(stderr, "%s%02x", i > 0 && i % 4 == 0 ? " " : "", bytes[i]);
	fprintf(stderr, "%s]", lost->first->len > len ? " ..." : "");
	owner_print_trail(p->kernel, lost->first);
	fputc('\n', stderr);
}

/* Reports buffers that p still counts as kept: no protocol of the host can use that room any more. */
static void
owner_report_kept(const struct xk_protocol *p)
{
	int64_t kept = 0; /* negative: more were uncounted */

	for (unsigned lane = 0; lane <= p->kernel->driver_count; lane++)
		kept += (int64_t)atomic_load_explicit(&p->counts[lane][XK_COUNT_KEPT], memory_order_relaxed);
	if (kept == 0)
		return;
	fprintf(stderr, "host \"%s\", protocol \"%s\" counts %" PRId64 " buffers as kept at its end (xk_keep)\n",
		p->kernel->config.name, p->name, kept);
	if (XK_IS_DEBUG)
		abort();
}

void
xk_owner_report_lost(struct xk_kernel *kernel)
{
	struct xk_platform *platform = kernel->platform;

	for (const struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next)
		owner_report_kept(p);
	if (platform->ops->each_out == NULL || platform->ops->buffers_out(platform) == 0)
		return;
	for (const struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next) {
		struct owner_lost lost = { .protocol = p };

		platform->ops->each_out(platform, owner_see_lost, &lost);
		if (lost.count > 0)
			owner_report_lost_of(&lost);
	}
}
