/*
 * map.c - the Map tool: open addressing with linear probing, read without a lock.
 *
 * Readers and the one writer meet in the slots. A slot holds a binding or one of its table's two markers, never NULL,
 * and changes by one release store; a binding does not change while a reader may hold it. While a key is bound, no slot
 * between the one it hashes to and its own is ever free: so a reader that meets a free slot knows that the key was not
 * bound throughout its search. A table that is outgrown, or full of tombstones, is copied into a new one and retired.
 * Shepherds that still read the old one see the bindings of that moment, none of which can be freed before their turn
 * ends.
 *
 * At most half of the slots are in use, tombstones included: a search always ends.
 */
#include "xkernel/map.h"

#include <errno.h>
#include <stdlib.h>

#include "xkernel/engine/spin.h"

enum { MAP_PREFETCH = 128 }; /* bytes to a session's own state (upi.h) */

enum { MAP_SLOTS_MIN = 16, MAP_SLOTS_MAX = 1 << 30 };

/*
 * Hashes a key: folds the 128-bit product of the seeded words, then mixes it once more. The fold alone puts keys that
 * differ in few bits (neighbouring ports, hosts, addresses of sessions) into long runs for about one seed in 500.
 */
static inline uint32_t
map_hash(const struct xk_map *map, struct xk_key key)
{
	__extension__ typedef unsigned __int128 map_product;
	map_product product = (map_product)(key.a ^ map->seed[0]) * (key.b ^ map->seed[1]);
	uint64_t folded = (uint64_t)product ^ (uint64_t)(product >> 64);

	return (uint32_t)(folded * 0x9e3779b97f4a7c15 >> 32);
}

static inline bool
map_key_equal(struct xk_key a, struct xk_key b)
{
	return a.a == b.a && a.b == b.b;
}

static inline struct xk_binding *
map_slot(const struct xk_map_table *table, uint32_t slot)
{
	return xk_map_slot_binding(atomic_load_explicit(&table->slots[slot], memory_order_acquire));
}

/* Returns the part of a hash that a slot's word has. It is the highest, because the lowest bits choose the slot. */
static inline uint64_t
map_tag(uint32_t hash)
{
	return hash >> (32 - XK_MAP_TAG);
}

static inline uint64_t
map_word(const struct xk_binding *binding, uint64_t tag)
{
	return (uint64_t)(uintptr_t)binding | tag << (64 - XK_MAP_TAG);
}

static inline void
map_set_slot(struct xk_map_table *table, uint32_t slot, struct xk_binding *binding, uint64_t tag)
{
	atomic_store_explicit(&table->slots[slot], map_word(binding, tag), memory_order_release);
}

/* Returns the current table. Under the lock. */
static inline struct xk_map_table *
map_table(struct xk_map *map)
{
	return atomic_load_explicit(&map->table, memory_order_relaxed);
}

static struct xk_map_table *
map_table_new(uint32_t slots)
{
	struct xk_map_table *table;

	/* Slots beyond the last are always free, so that xk_map_near need not check for the end. */
	table = calloc(1, sizeof(*table) + (slots + XK_MAP_NEAR - 1) * sizeof(table->slots[0]));
	if (table == NULL)
		return NULL;
	table->mask = slots - 1;
	atomic_init(&table->last, &table->slots[0]);
	table->free.key = table->tombstone.key = (struct xk_key){ UINT64_MAX, UINT64_MAX };
	for (uint32_t slot = 0; slot < slots + XK_MAP_NEAR - 1; slot++)
		atomic_init(&table->slots[slot], map_word(&table->free, 0));
	return table;
}

static void
map_table_release(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct xk_map_table, retired));
}

int
xk_map_make(struct xk_map *map, unsigned expected, const uint64_t seed[2], struct xk_epochs *epochs, bool is_shared)
{
	struct xk_map_table *table;
	uint32_t slots = MAP_SLOTS_MIN;

	if (expected > MAP_SLOTS_MAX / 2)
		return -ENOMEM;
	while (slots / 2 < expected)
		slots *= 2;
	table = map_table_new(slots);
	if (table == NULL)
		return -ENOMEM;
	map->epochs = epochs;
	map->is_shared = is_shared;
	map->seed[0] = seed[0];
	map->seed[1] = seed[1];
	atomic_init(&map->table, table);
	atomic_init(&map->count, 0);
	atomic_init(&map->writer, 0);
	return 0;
}

void
xk_map_fini(struct xk_map *map)
{
	free(map_table(map));
	atomic_store_explicit(&map->table, NULL, memory_order_relaxed);
}

/*
 * Makes slot the cached one. Several drivers with different sessions would fight over the cache's line at every
 * message: if they share the map, a cached slot stays while it is bound.
 */
static inline void
map_remember(const struct xk_map *map, struct xk_map_table *table, _Atomic uint64_t *slot)
{
	_Atomic uint64_t *last = atomic_load_explicit(&table->last, memory_order_relaxed);

	if (!map->is_shared || xk_map_slot_binding(atomic_load_explicit(last, memory_order_acquire))->object == NULL)
		atomic_store_explicit(&table->last, slot, memory_order_relaxed);
}

struct xk_map_place
xk_map_expect(struct xk_map *map, struct xk_key key)
{
	struct xk_map_table *table = atomic_load_explicit(&map->table, memory_order_acquire);
	uint32_t hash = map_hash(map, key);
	_Atomic uint64_t *slot = &table->slots[hash & table->mask];

	__builtin_prefetch((const void *)slot);
	return (struct xk_map_place){ slot, map_tag(hash) };
}

void *
xk_map_lookup(struct xk_map *map, struct xk_key key)
{
	struct xk_map_table *table = atomic_load_explicit(&map->table, memory_order_acquire);
	uint32_t mask = table->mask;
	uint32_t hash = map_hash(map, key);
	uint64_t tag = map_tag(hash);

	for (uint32_t slot = hash & mask;; slot = (slot + 1) & mask) {
		uint64_t word = atomic_load_explicit(&table->slots[slot], memory_order_acquire);
		const struct xk_binding *binding = xk_map_slot_binding(word);

		if (word >> (64 - XK_MAP_TAG) == tag) {
			/* most likely the right one: fetch its owner's state too, which is used next */
			__builtin_prefetch((const char *)binding + MAP_PREFETCH);
			if (xk_likely(map_key_equal(binding->key, key))) {
				map_remember(map, table, &table->slots[slot]);
				return binding->object;
			}
		}
		if (xk_unlikely(binding == &table->free))
			return NULL;
	}
}

/* Returns whether key is bound in table. If not, *at is the slot for it: the first one searched that has no binding. */
static bool
map_find(const struct xk_map_table *table, struct xk_key key, uint32_t hash, uint32_t *at)
{
	bool reuse = false;

	for (uint32_t slot = hash & table->mask;; slot = (slot + 1) & table->mask) {
		const struct xk_binding *binding = map_slot(table, slot);
		bool is_free = binding == &table->free, is_tombstone = binding == &table->tombstone;

		if (!is_free && !is_tombstone && map_key_equal(binding->key, key))
			return true;
		if (!reuse && (is_free || is_tombstone))
			*at = slot;
		reuse |= is_tombstone;
		if (is_free)
			return false;
	}
}

static void
map_put(struct xk_map_table *table, struct xk_binding *binding, uint32_t hash, uint32_t slot)
{
	if (map_slot(table, slot) == &table->free)
		table->used++;
	map_set_slot(table, slot, binding, map_tag(hash));
}

/*
 * Replaces the table by a copy without tombstones, and of twice the size if the bindings alone fill a quarter, so that
 * the next copy is at least a quarter of the slots away. Returns the old table, or NULL if there is no memory.
 */
static struct xk_map_table *
map_rebuild(struct xk_map *map)
{
	struct xk_map_table *old = map_table(map), *table;
	uint32_t slots = old->mask + 1;

	if (xk_map_count(map) >= slots / 4) {
		if (slots == MAP_SLOTS_MAX)
			return NULL;
		slots *= 2;
	}
	table = map_table_new(slots);
	if (table == NULL)
		return NULL;
	for (uint32_t i = 0; i <= old->mask; i++) {
		struct xk_binding *binding = map_slot(old, i);
		uint32_t hash = map_hash(map, binding->key), slot = 0;

		if (binding->object == NULL)
			continue;
		map_find(table, binding->key, hash, &slot);
		map_put(table, binding, hash, slot);
	}
	atomic_store_explicit(&map->table, table, memory_order_release);
	return old;
}

int
xk_map_bind(struct xk_map *map, struct xk_binding *binding, struct xk_key key, void *object)
{
	uint32_t hash = map_hash(map, key), slot = 0;
	struct xk_map_table *table, *outgrown = NULL;
	int err = 0;

	xk_assert(object != NULL);
	xk_assert((key.a & key.b) != UINT64_MAX);
	xk_spin_lock(&map->writer);
	table = map_table(map);
	if (map_find(table, key, hash, &slot)) {
		err = -EEXIST;
		goto unlock;
	}
	if (map_slot(table, slot) == &table->free && table->used + 1 > (table->mask + 1) / 2) {
		outgrown = map_rebuild(map);
		if (outgrown == NULL) {
			err = -ENOMEM;
			goto unlock;
		}
		table = map_table(map);
		map_find(table, key, hash, &slot);
	}
	binding->key = key;
	binding->object = object;
	map_put(table, binding, hash, slot);
	atomic_fetch_add_explicit(&map->count, 1, memory_order_relaxed);
unlock:
	xk_spin_unlock(&map->writer);
	if (outgrown != NULL && map->epochs != NULL)
		xk_epochs_retire(map->epochs, &outgrown->retired, map_table_release);
	else
		free(outgrown);
	return err;
}

/* Returns whether binding is bound in table, and sets *at to its slot. */
static bool
map_find_binding(const struct xk_map *map, const struct xk_map_table *table, const struct xk_binding *binding,
		 uint32_t *at)
{
	for (uint32_t slot = map_hash(map, binding->key) & table->mask;; slot = (slot + 1) & table->mask) {
		const struct xk_binding *other = map_slot(table, slot);

		*at = slot;
		if (other == binding)
			return true;
		if (other == &table->free)
			return false;
	}
}

bool
xk_map_unbind(struct xk_map *map, struct xk_binding *binding)
{
	struct xk_map_table *table;
	uint32_t slot;
	bool bound;

	xk_spin_lock(&map->writer);
	table = map_table(map);
	bound = map_find_binding(map, table, binding, &slot);
	if (!bound)
		goto unlock;
	map_set_slot(table, slot, &table->tombstone, 0);
	/* If the next slot is free, no search goes past this one: it becomes free, and so do tombstones before it. */
	if (map_slot(table, (slot + 1) & table->mask) == &table->free)
		for (; map_slot(table, slot) == &table->tombstone; slot = (slot - 1) & table->mask) {
			map_set_slot(table, slot, &table->free, 0);
			table->used--;
		}
	atomic_fetch_sub_explicit(&map->count, 1, memory_order_relaxed);
unlock:
	xk_spin_unlock(&map->writer);
	return bound;
}

void
xk_map_for_each(struct xk_map *map, void (*visit)(void *object, void *context), void *context)
{
	const struct xk_map_table *table = atomic_load_explicit(&map->table, memory_order_acquire), *now;

	for (uint32_t slot = 0; slot <= table->mask; slot++) {
		const struct xk_binding *binding = map_slot(table, slot);
		uint32_t at;

		if (binding->object == NULL)
			continue;
		now = atomic_load_explicit(&map->table, memory_order_acquire);
		if (table == now || map_find_binding(map, now, binding, &at))
			visit(binding->object, context);
		xk_assert(map->epochs != NULL || map_table(map) == table);
	}
}
