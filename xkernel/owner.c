/*
 * owner.c - mistakes with messages, told so that their author finds them: who handed on what was not his own any more, and who
 * has kept what nobody will free.
 *
 * Nothing of it is on the way of messages: what was given up has a count and a length of zero, which send whoever uses it
 * down the slow half of what he does (msg.c, the platforms' buffer_free). Who has a message is noted only where edges are
 * watched for it; debug builds watch all of them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "xkernel/engine.h"
#include "xkernel/protocol.h"
#include "xkernel/symbols.h"
#include "xkernel/where.h"

/* ---- telling ---- */

/* The protocol that `owner` points at, if it is one of kernel's: what a message remembers may be gone. */
static const struct xk_protocol *
owner_in(const struct xk_kernel *kernel, const struct xk_protocol *owner)
{
	const struct xk_protocol *p = kernel == NULL ? NULL : kernel->protocols;

	while (p != NULL && p != owner)
		p = p->next;
	return p;
}

/* Debug builds: the protocols that it was handed to. */
static void
owner_print_way(const struct xk_kernel *kernel, const struct xk_msg *m)
{
	(void)kernel;
	(void)m;
#ifdef XK_DEBUG
	unsigned first = m->crossings > XK_MSG_WAY ? m->crossings - XK_MSG_WAY : 0;

	for (unsigned i = first; i < m->crossings; i++) {
		const struct xk_protocol *p = owner_in(kernel, m->way[i % XK_MSG_WAY]);

		fprintf(stderr, "%s%s", i == first ? "\n    it was handed to: " : ", ",
			p == NULL ? "another host" : p->name);
	}
#endif
}

/* Where it was freed; of what is freed twice, where that was done last. */
static void
owner_print_place(const struct xk_msg *m)
{
	struct xk_symbols *symbols = xk_symbols_new();
	struct xk_symbol symbol;

	if (xk_msg_is_given_up(m) && m->given_up_at != 0 && xk_symbol_find(symbols, m->given_up_at, &symbol))
		fprintf(stderr, "; it was freed in %.*s", (int)strcspn(symbol.name, "."), symbol.name);
	xk_symbols_free(symbols);
}

/* As what the debug build says besides, where this is none. */
static void
owner_end(const struct xk_kernel *kernel, const struct xk_msg *m)
{
	owner_print_place(m);
	owner_print_way(kernel, m);
#ifndef XK_DEBUG
	fprintf(stderr, "\n    (with --trace, and where xk run simulates a network, it is known who has a message; "
			"./run build --debug makes a build that tells its whole way)");
#endif
	fputc('\n', stderr);
	fflush(stdout);
	abort();
}

void
xk_msg_misused(const struct xk_msg *m, const char *what)
{
	const struct xk_protocol *owner;
	struct xk_where where;
	char verb[128];

	xk_where_note(&where);
	owner = owner_in(where.kernel, m->owner);
	fprintf(stderr, "a message is not its user's: ");
	if (owner != NULL) {
		/* Nobody has been handed it since, or that would have been refused. */
		fprintf(stderr, "host \"%s\", protocol \"%s\" %s a message that it has given up already",
			where.kernel->config.name, owner->name, what);
		xk_where_print_functions(&where, stderr);
	} else {
		snprintf(verb, sizeof(verb), "%s a message that was given up already", what);
		xk_where_print(&where, verb, stderr);
	}
	owner_end(where.kernel, m);
	abort();
}

/* `from` hands to `to` what is not its own. */
__attribute__((noreturn, cold, noinline)) static void
owner_refuse(const struct xk_msg *m, const struct xk_protocol *from, const struct xk_protocol *to, bool up)
{
	const struct xk_protocol *owner = owner_in(from->kernel, m->owner);
	struct xk_where where;

	xk_where_note(&where);
	fprintf(stderr, "a message is not its user's: host \"%s\", protocol \"%s\" %s \"%s\" a message ",
		from->kernel->config.name, from->name, up ? "delivers to" : "pushes to", to->name);
	if (!xk_msg_is_given_up(m))
		fprintf(stderr, "that it gave away before: %s%s%s has it", owner == NULL ? "" : "\"",
			owner == NULL ? "another host" : owner->name, owner == NULL ? "" : "\"");
	else if (owner == from)
		fprintf(stderr, "that it has freed or dropped itself");
	else if (owner != NULL)
		fprintf(stderr, "that it gave away before: \"%s\" had it last, and has given it up", owner->name);
	else
		fprintf(stderr, "that was given up already");
	xk_where_print_functions(&where, stderr);
	owner_end(from->kernel, m);
	abort();
}

/* ---- at a crossing ---- */

/* Replies come back without crossing an edge. */
static bool
owner_may_be_replied(const struct xk_protocol *owner, const struct xk_kernel *kernel)
{
	return owner_in(kernel, owner) != NULL && owner->type->offers & XK_RPC;
}

/*
 * Whether m is not from's. What ports deliver has come from outside, perhaps from another host of this process; and what another
 * host's shepherd pushes was that host's before.
 */
static bool
owner_is_other(const struct xk_msg *m, const struct xk_protocol *from)
{
	const struct xk_shepherd *self = xk_self();

	if (m->owner == NULL || m->owner == from || !from->kernel->watches_owners || from->type->flags & XK_PORT)
		return false;
	return (self == NULL || self->kernel == from->kernel) && !owner_may_be_replied(m->owner, from->kernel);
}

void
xk_msg_cross(struct xk_msg *m, const struct xk_protocol *from, const struct xk_protocol *to, bool up)
{
	if (xk_unlikely(xk_msg_is_given_up(m)) || xk_unlikely(owner_is_other(m, from)))
		owner_refuse(m, from, to, up);
	m->owner = to;
#ifdef XK_DEBUG
	m->way[m->crossings++ % XK_MSG_WAY] = to;
#endif
}

/* ---- what was never given back ---- */

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
owner_tell_lost_of(const struct owner_lost *lost)
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
	owner_print_way(p->kernel, lost->first);
	fputc('\n', stderr);
}

void
xk_owner_tell_lost(struct xk_kernel *kernel)
{
	struct xk_platform *platform = kernel->platform;

	if (platform->ops->each_out == NULL || platform->ops->buffers_out(platform) == 0)
		return;
	for (const struct xk_protocol *p = kernel->protocols; p != NULL; p = p->next) {
		struct owner_lost lost = { .protocol = p };

		platform->ops->each_out(platform, owner_see_lost, &lost);
		if (lost.count > 0)
			owner_tell_lost_of(&lost);
	}
}
