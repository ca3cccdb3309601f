/*
 * edge.c - where what crosses an edge is led: straight to demux or push, or, where something is watched, past who watches.
 *
 * So nobody asks on the way of a message: what an edge leads to is exchanged, at any time, for whatever crosses it next.
 */
#include <stdlib.h>

#include "xkernel/engine/engine.h"

static void
edge_lead(struct xk_edge *edge, unsigned watch)
{
	xk_demux_function demux = watch != 0 ? xk_demux_watched : edge->upper->ops->demux;

	atomic_store_explicit(&edge->demux, demux, memory_order_relaxed);
	for (struct xk_session_kind *kind = atomic_load_explicit(&edge->kinds, memory_order_acquire); kind != NULL;
	     kind = kind->next)
		atomic_store_explicit(&kind->push, watch & XK_WATCH_DOWN ? xk_push_watched : kind->ops->push,
				      memory_order_relaxed);
}

/* Who changes edge->watch meanwhile does the same afterwards: whoever is the last to finish has seen the last change. */
void
xk_edge_rewatch(struct xk_edge *edge)
{
	unsigned watch;

	do {
		watch = atomic_load_explicit(&edge->watch, memory_order_seq_cst);
		edge_lead(edge, watch);
		atomic_thread_fence(memory_order_seq_cst);
	} while (atomic_load_explicit(&edge->watch, memory_order_seq_cst) != watch);
}

static struct xk_session_kind *
edge_find(struct xk_edge *edge, const struct xk_session_ops *ops)
{
	struct xk_session_kind *kind = atomic_load_explicit(&edge->kinds, memory_order_acquire);

	while (kind != NULL && kind->ops != ops)
		kind = kind->next;
	return kind;
}

/* Two shepherds may add the same: both stay in the list, and one is found by those who come later. */
struct xk_session_kind *
xk_edge_kind(struct xk_edge *edge, const struct xk_session_ops *ops)
{
	struct xk_session_kind *kind = edge_find(edge, ops);

	if (kind != NULL)
		return kind;
	kind = malloc(sizeof(*kind));
	if (kind == NULL)
		return NULL;
	kind->ops = ops;
	atomic_init(&kind->push, ops->push);
	kind->next = atomic_load_explicit(&edge->kinds, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&edge->kinds, &kind->next, kind, memory_order_seq_cst,
						      memory_order_relaxed))
		;
	xk_edge_rewatch(edge);
	return kind;
}

void
xk_edge_free(struct xk_edge *edge)
{
	struct xk_session_kind *next;

	for (struct xk_session_kind *kind = edge->kinds; kind != NULL; kind = next) {
		next = kind->next;
		free(kind);
	}
	free(edge);
}
