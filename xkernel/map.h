/*
 * map.h - the Map tool: maps external keys (header fields) to internal objects, for every message.
 *
 * A key is two words, built by one function of each protocol, so there is no padding to forget. The lower session's
 * address stands for everything below it, as in the x-kernel. A wider key is first mapped to an object whose address is
 * a word.
 *
 * Lookups take no lock and may run while another shepherd binds. They write only the one-entry cache, which holds one
 * of its table's slots: it can be stale but never dangle. Binding and unbinding take the map's own short lock. Bindings
 * are the caller's memory, usually inside the session, freed by xk_retire after xk_map_unbind (services.h). The hash is
 * seeded per map: a stranger cannot choose keys that collide. Functions run in any shepherd and never wait.
 */
#ifndef XK_MAP_H
#define XK_MAP_H

#include "xkernel/epoch.h"

struct xk_key {
	uint64_t a, b;
};

struct xk_binding {
	struct xk_key key;
	void *object;
};

/* Open addressing with linear probing. Slots without a binding hold one of the two markers: all can be read. */
struct xk_map_table {
	struct xk_retired retired;
	uint32_t mask;
	uint32_t used;                    /* slots that are not free: bindings and tombstones */
	_Atomic(_Atomic uint64_t *) last; /* the slot of the latest lookup: the one-entry cache */
	struct xk_binding free, tombstone;
	_Atomic uint64_t slots[]; /* addresses of bindings, each below XK_MAP_TAG bits of its hash */
};

struct xk_map {
	_Atomic(struct xk_map_table *) table;
	bool is_shared; /* by several drivers: an entry stays in the cache while it is bound */
	uint64_t seed[2];
	struct xk_epochs *epochs; /* NULL: one thread uses the map */
	_Atomic unsigned count;   /* bindings */
	_Atomic uint32_t writer;  /* lock of changes, held for a bounded time */
};

/* User space addresses have 48 bits. A slot's other bits rule out most other keys without reading the binding. */
enum { XK_MAP_TAG = 16, XK_MAP_NEAR = 4 };

static inline struct xk_binding *
xk_map_slot_binding(uint64_t word)
{
	return (struct xk_binding *)(uintptr_t)(word << XK_MAP_TAG >> XK_MAP_TAG);
}

/*
 * Initializes a map with the caller's seeds, and epochs to retire outgrown tables in (NULL: one thread uses the map).
 * is_shared: several drivers will use it. Returns 0 or -ENOMEM.
 */
int xk_map_make(struct xk_map *map, unsigned expected, const uint64_t seed[2], struct xk_epochs *epochs,
		bool is_shared);

/* Frees the map's memory and forgets remaining bindings. Nothing else may use the map. */
void xk_map_fini(struct xk_map *map);

/* The probable place of a key's binding: the first slot that it could have, and the tag in its slot's word. */
struct xk_map_place {
	_Atomic uint64_t *slot; /* NULL: nowhere */
	uint64_t tag;
};

/* Prefetches the slots where key's binding could be, and returns the place. */
struct xk_map_place xk_map_expect(struct xk_map *map, struct xk_key key);

/* Returns the slot at or soon after a place that has its tag, or else the first one. They are in the cache by now. */
static inline _Atomic uint64_t *
xk_map_near(const struct xk_map_place *place)
{
#pragma GCC unroll 4
	for (unsigned i = 0; i < XK_MAP_NEAR; i++)
		if (atomic_load_explicit(place->slot + i, memory_order_relaxed) >> (64 - XK_MAP_TAG) == place->tag)
			return place->slot + i;
	return place->slot;
}

/* Looks up key without the cache. Not for callers: use xk_map_resolve. */
void *xk_map_lookup(struct xk_map *map, struct xk_key key);

/* Returns the binding resolved last, or one that has all ones as its key and no object. */
static inline const struct xk_binding *
xk_map_last_binding(const struct xk_map *map)
{
	struct xk_map_table *table = atomic_load_explicit(&map->table, memory_order_acquire);
	_Atomic uint64_t *slot = atomic_load_explicit(&table->last, memory_order_relaxed);

	return xk_map_slot_binding(atomic_load_explicit(slot, memory_order_acquire));
}

/* Returns the object resolved last, or NULL: it may have been unbound. As xk_map_resolve, but calls nothing. */
static inline void *
xk_map_peek(const struct xk_map *map)
{
	return xk_map_last_binding(map)->object;
}

/* Returns the object of key if it is the one resolved last, else NULL. As xk_map_resolve, but calls nothing. */
static inline void *
xk_map_last(struct xk_map *map, struct xk_key key)
{
	const struct xk_binding *last = xk_map_last_binding(map);

	if (xk_unlikely(last->key.a != key.a || last->key.b != key.b))
		return NULL;
	/* A marker's key has all ones: callers whose key never has need not check for one. */
	if (key.b != UINT64_MAX && last->object == NULL)
		__builtin_unreachable();
	return last->object;
}

/* Returns the object bound to key, or NULL. Valid until this shepherd's turn ends or it parks. */
static inline void *
xk_map_resolve(struct xk_map *map, struct xk_key key)
{
	void *object = xk_map_last(map, key);

	return xk_likely(object != NULL) ? object : xk_map_lookup(map, key);
}

/*
 * Binds key to object. *binding must stay until it is unbound and retired. Key words that are both all ones are
 * reserved. Returns 0, -EEXIST (the key is bound: resolve it) or -ENOMEM.
 */
int xk_map_bind(struct xk_map *map, struct xk_binding *binding, struct xk_key key, void *object);

/* Removes the binding. Returns false if it was not bound, or another shepherd removed it. */
bool xk_map_unbind(struct xk_map *map, struct xk_binding *binding);

static inline unsigned
xk_map_count(const struct xk_map *map)
{
	return atomic_load_explicit(&map->count, memory_order_relaxed);
}

/*
 * Calls visit for each bound object; may miss ones bound meanwhile. visit may unbind any, and may bind others unless
 * the map is of one thread, whose outgrown tables are freed at once (asserted). Too slow for messages.
 */
void xk_map_for_each(struct xk_map *map, void (*visit)(void *object, void *context), void *context);

#endif
