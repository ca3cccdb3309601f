/*
 * map.h - the Map tool: external key (what headers say) to internal object. It lies on every message's path.
 *
 * A key is two words, built explicitly by one function per protocol, so that there is no padding to forget;
 * the lower session's address stands for everything below it, as in the x-kernel. A key wider than that is
 * first mapped to an object whose address is a word.
 *
 * Looking up takes no lock and writes nothing but the one-entry cache (which holds one of its table's slots,
 * so that it can be stale but never dangle); it may run while another shepherd binds. Binding and unbinding take the map's own
 * short lock. Bindings are the caller's memory (usually inside the session) and are given back with xk_retire after
 * xk_map_unbind (epoch.h). The hash is seeded per map: a stranger cannot choose keys that collide.
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
	uint32_t hash;
	bool bound;        /* under the map's lock */
	_Atomic bool used; /* the owner's, as is what follows: here they lie in a line that is read anyway */
	uint8_t pops;      /* enum xk_pops (upi.h) */
	_Atomic bool watched;
};

/* Open addressing with linear probing; free slots hold one of the two markers, so that every slot can be read. */
struct xk_map_table {
	struct xk_retired retired;
	struct xk_map_table *previous; /* outgrown; kept where there is no kernel to retire it with */
	uint32_t mask;
	uint32_t used;                    /* slots that are not free: bindings and tombstones */
	_Atomic(_Atomic uint64_t *) last; /* the slot that was resolved last: the one-entry cache */
	struct xk_binding free, tombstone;
	_Atomic uint64_t slots[]; /* a binding's address, and above it XK_MAP_TAG bits of its hash */
};

struct xk_map {
	_Atomic(struct xk_map_table *) table;
	bool is_shared; /* by several drivers: the cache changes only where it is of no use */
	uint64_t seed[2];
	struct xk_epochs *epochs; /* NULL: outgrown tables are kept until xk_map_fini */
	_Atomic unsigned count;   /* bindings */
	_Atomic uint32_t writer;  /* held by who changes the map, for a bounded while */
};

/*
 * Addresses of user space have 48 bits; the rest of a slot's word tells most strangers without a look at the binding.
 */
enum { XK_MAP_TAG = 16 };

static inline struct xk_binding *
xk_map_slot_binding(uint64_t word)
{
	return (struct xk_binding *)(uintptr_t)(word << XK_MAP_TAG >> XK_MAP_TAG);
}

/* Makes an empty map of kernel that expects about `expected` bindings; it grows past them. 0 or -ENOMEM. */
int xk_map_init(struct xk_map *map, struct xk_kernel *kernel, unsigned expected);

/*
 * The same outside of a kernel: with seeds of the caller's, epochs to retire outgrown tables in (NULL: they are kept until
 * xk_map_fini), and whether several drivers will use it.
 */
int xk_map_make(struct xk_map *map, unsigned expected, const uint64_t seed[2], struct xk_epochs *epochs,
		bool is_shared);

/* Frees the map's own memory. Bindings still in it are forgotten. Nobody else may be using it. */
void xk_map_fini(struct xk_map *map);

/* The object of key, past the cache. Not for callers; use xk_map_resolve. */
void *xk_map_lookup(struct xk_map *map, struct xk_key key);

/*
 * The object bound to key, or NULL. It cannot vanish before this shepherd's turn ends or it parks.
 * Any shepherd; never waits.
 */
static inline void *
xk_map_resolve(struct xk_map *map, struct xk_key key)
{
	struct xk_map_table *table = atomic_load_explicit(&map->table, memory_order_acquire);
	_Atomic uint64_t *slot = atomic_load_explicit(&table->last, memory_order_relaxed);
	const struct xk_binding *last = xk_map_slot_binding(atomic_load_explicit(slot, memory_order_acquire));

	if (xk_unlikely(last->key.a != key.a || last->key.b != key.b))
		return xk_map_lookup(map, key);
	/* A marker's key has all ones: callers whose key never has need not look whether it was one. */
	if (key.b != UINT64_MAX && last->object == NULL)
		__builtin_unreachable();
	return xk_likely(last->object != NULL) ? last->object : xk_map_lookup(map, key);
}

/*
 * Binds key to object; *binding is the caller's memory and must stay until it is unbound and retired. Key words
 * that are both all ones are reserved. 0; -EEXIST: the key is bound already (resolve it); -ENOMEM.
 * Any shepherd; never waits.
 */
int xk_map_bind(struct xk_map *map, struct xk_binding *binding, struct xk_key key, void *object);

/* Takes the binding out. False: it was not bound (any more), somebody else has done it. Any shepherd; never waits. */
bool xk_map_unbind(struct xk_map *map, struct xk_binding *binding);

static inline unsigned
xk_map_count(const struct xk_map *map)
{
	return atomic_load_explicit(&map->count, memory_order_relaxed);
}

/*
 * Calls visit for each object that is bound when it is reached; visit may unbind any. Objects bound meanwhile may
 * be missed. Any shepherd; slow, so not on a message's way.
 */
void xk_map_for_each(struct xk_map *map, void (*visit)(void *object, void *context), void *context);

#endif
