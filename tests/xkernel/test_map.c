/*
 * test_map.c - the Map tool, linked without the engine: xk_epochs_retire below keeps retired tables until the test
 * releases them.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/random.h"
#include "tests/test.h"
#include "xkernel/services.h"

/* Stands in for the engine's. */
struct xk_kernel {
	struct xk_epochs epochs; /* first */
	_Atomic(struct xk_retired *) retired;
	_Atomic unsigned count;
	unsigned drivers;
};

void
xk_epochs_retire(struct xk_epochs *epochs, struct xk_retired *retired, void (*release)(struct xk_retired *retired))
{
	struct xk_kernel *kernel = (struct xk_kernel *)epochs;

	retired->release = release;
	retired->next = atomic_load(&kernel->retired);
	while (!atomic_compare_exchange_weak(&kernel->retired, &retired->next, retired))
		;
	kernel->count++;
}

int
xk_map_init(struct xk_map *map, struct xk_kernel *kernel, unsigned expected)
{
	static _Atomic uint64_t next = 1;
	uint64_t seed[2];

	for (unsigned i = 0; i < 2; i++)
		seed[i] = atomic_fetch_add(&next, 1) * UINT64_C(0x9e3779b97f4a7c15);
	if (kernel == NULL)
		return xk_map_make(map, expected, seed, NULL, false);
	return xk_map_make(map, expected, seed, &kernel->epochs, kernel->drivers > 1);
}

static void
release_all(struct xk_kernel *kernel)
{
	while (kernel->retired != NULL) {
		struct xk_retired *retired = kernel->retired;

		kernel->retired = retired->next;
		retired->release(retired);
	}
}

static struct xk_key
key_of(uint64_t a, uint64_t b)
{
	return (struct xk_key){ a, b };
}

static uint32_t
slots_of(struct xk_map *map)
{
	return atomic_load_explicit(&map->table, memory_order_relaxed)->mask + 1;
}

static uint32_t
used_of(struct xk_map *map)
{
	return atomic_load_explicit(&map->table, memory_order_relaxed)->used;
}

/* An object with its key, like a session. */
struct thing {
	struct xk_binding binding;
	struct xk_key key;
	unsigned visits;
};

/* A map, and things under keys (9, 0), (9, 1), ... */
struct rig {
	struct xk_map map;
	unsigned count;
	struct thing *things;
};

static struct rig
rig_new(unsigned count, unsigned expected)
{
	struct rig rig = { .count = count, .things = calloc(count, sizeof(struct thing)) };

	REQUIRE(rig.things != NULL);
	for (unsigned i = 0; i < count; i++)
		rig.things[i].key = key_of(9, i);
	REQUIRE(xk_map_init(&rig.map, NULL, expected) == 0);
	return rig;
}

static int
rig_bind(struct rig *rig, unsigned i)
{
	return xk_map_bind(&rig->map, &rig->things[i].binding, rig->things[i].key, &rig->things[i]);
}

static bool
rig_unbind(struct rig *rig, unsigned i)
{
	return xk_map_unbind(&rig->map, &rig->things[i].binding);
}

static struct thing *
rig_resolve(struct rig *rig, unsigned i)
{
	return xk_map_resolve(&rig->map, rig->things[i].key);
}

static void
rig_free(struct rig *rig)
{
	xk_map_fini(&rig->map);
	free(rig->things);
}

TEST_IN(only_bound_keys_resolve, struct rig, rig, *rig = rig_new(2, 4), rig_free)
{
	CHECK(rig_resolve(rig, 0) == NULL);
	CHECK_EQ(rig_bind(rig, 0), 0);
	CHECK(rig_resolve(rig, 0) == &rig->things[0]);
	CHECK(rig_resolve(rig, 0) == &rig->things[0]);
	CHECK(rig_resolve(rig, 1) == NULL);
	CHECK(xk_map_resolve(&rig->map, key_of(0, 9)) == NULL);
	CHECK(xk_map_resolve(&rig->map, key_of(9, UINT64_MAX)) == NULL);
	CHECK_EQ(xk_map_count(&rig->map), 1);
}

TEST(a_key_is_bound_once)
{
	struct rig own, *rig = &own;
	struct thing other = { .key = key_of(9, 0) };

	*rig = rig_new(1, 4);
	CHECK_EQ(rig_bind(rig, 0), 0);
	CHECK_EQ(xk_map_bind(&rig->map, &other.binding, other.key, &other), -EEXIST);
	CHECK_EQ(rig_bind(rig, 0), -EEXIST);
	CHECK(!xk_map_unbind(&rig->map, &other.binding));
	CHECK_EQ(xk_map_count(&rig->map), 1);
	CHECK(rig_resolve(rig, 0) == &rig->things[0]);
	rig_free(rig);
}

TEST_IN(key_is_unbound_once, struct rig, rig, *rig = rig_new(1, 4), rig_free)
{
	CHECK(!rig_unbind(rig, 0));
	CHECK_EQ(rig_bind(rig, 0), 0);
	CHECK(rig_unbind(rig, 0));
	CHECK(!rig_unbind(rig, 0));
	CHECK_EQ(xk_map_count(&rig->map), 0);
}

TEST(cache_forgets_unbound_keys)
{
	struct rig own, *rig = &own;
	struct thing other = { .key = key_of(9, 0) };

	*rig = rig_new(1, 4);
	CHECK_EQ(rig_bind(rig, 0), 0);
	CHECK(rig_resolve(rig, 0) == &rig->things[0]);
	CHECK(rig_resolve(rig, 0) == &rig->things[0]);
	CHECK(rig_unbind(rig, 0));
	CHECK(rig_resolve(rig, 0) == NULL);
	CHECK_EQ(xk_map_bind(&rig->map, &other.binding, other.key, &other), 0);
	CHECK(rig_resolve(rig, 0) == &other);
	rig_free(rig);
}

/* Returns the slot that the cache names. */
static _Atomic uint64_t *
cache_of(const struct xk_map *map)
{
	const struct xk_map_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);

	return atomic_load_explicit(&table->last, memory_order_relaxed);
}

/*
 * Resolves three keys in turn, unbinding the first in between if `unbinds`. Returns the binding that the cache then
 * names.
 */
static const struct xk_binding *
cached_after(struct xk_kernel *kernel, struct thing things[3], bool unbinds)
{
	struct xk_map map;
	const struct xk_binding *cached;

	REQUIRE(xk_map_init(&map, kernel, 8) == 0);
	for (unsigned i = 0; i < 3; i++)
		REQUIRE(xk_map_bind(&map, &things[i].binding, key_of(1, i), &things[i]) == 0);
	CHECK(xk_map_resolve(&map, key_of(1, 0)) == &things[0]);
	if (unbinds)
		xk_map_unbind(&map, &things[0].binding);
	for (unsigned i = 1; i < 3; i++)
		CHECK(xk_map_resolve(&map, key_of(1, i)) == &things[i]);
	cached = xk_map_slot_binding(*cache_of(&map));
	xk_map_fini(&map);
	return cached;
}

TEST(cache_keeps_last_key_for_one_driver_first_key_for_several)
{
	struct xk_kernel alone = { .drivers = 1 }, two = { .drivers = 2 };
	struct thing things[3] = { 0 };

	CHECK(cached_after(&alone, things, false) == &things[2].binding);
	CHECK(cached_after(&two, things, false) == &things[0].binding);
	CHECK(cached_after(&two, things, true) == &things[1].binding);
}

TEST_IN(the_cache_names_a_slot_of_its_own_table, struct rig, rig, *rig = rig_new(100, 4), rig_free)
{
	for (unsigned i = 0; i < rig->count; i++) {
		const struct xk_map_table *table;

		REQUIRE(rig_bind(rig, i) == 0);
		table = atomic_load_explicit(&rig->map.table, memory_order_relaxed);
		CHECK(cache_of(&rig->map) >= table->slots && cache_of(&rig->map) <= &table->slots[table->mask]);
		CHECK(rig_resolve(rig, i) == &rig->things[i]);
	}
}

TEST_IN(no_reserved_key_resolves, struct rig, rig, *rig = rig_new(8, 4), rig_free)
{
	for (unsigned i = 0; i < 8; i++)
		CHECK_EQ(rig_bind(rig, i), 0);
	for (unsigned i = 0; i < 4; i++)
		CHECK(rig_unbind(rig, i));
	for (uint32_t slot = 0; slot < slots_of(&rig->map); slot++) {
		struct xk_map_table *table = atomic_load_explicit(&rig->map.table, memory_order_relaxed);

		atomic_store_explicit(&table->last, &table->slots[slot], memory_order_relaxed);
		CHECK(xk_map_resolve(&rig->map, key_of(UINT64_MAX, UINT64_MAX)) == NULL);
	}
}

TEST_IN(map_grows_past_the_expected_size, struct rig, rig, *rig = rig_new(5000, 0), rig_free)
{
	for (unsigned i = 0; i < rig->count; i++) {
		REQUIRE(rig_bind(rig, i) == 0);
		REQUIRE(used_of(&rig->map) * 2 <= slots_of(&rig->map));
	}
	for (unsigned i = 0; i < rig->count; i++)
		CHECK(rig_resolve(rig, i) == &rig->things[i]);
	CHECK_EQ(xk_map_count(&rig->map), 5000);
	CHECK_EQ(slots_of(&rig->map), 16384);
}

TEST_IN(map_does_not_grow_up_to_the_expected_size, struct rig, rig, *rig = rig_new(1000, 1000), rig_free)
{
	uint32_t slots = slots_of(&rig->map);

	for (unsigned i = 0; i < rig->count; i++)
		REQUIRE(rig_bind(rig, i) == 0);
	CHECK_EQ(slots_of(&rig->map), slots);
}

TEST(an_impossible_size_is_refused)
{
	struct xk_map map;

	CHECK_EQ(xk_map_init(&map, NULL, UINT32_MAX), -ENOMEM);
}

TEST_IN(binding_and_unbinding_does_not_grow_a_map, struct rig, rig, *rig = rig_new(20000, 16), rig_free)
{
	for (unsigned i = 0; i < rig->count; i++) {
		REQUIRE(rig_bind(rig, i) == 0);
		if (i >= 10)
			CHECK(rig_unbind(rig, i - 10));
		REQUIRE(used_of(&rig->map) * 2 <= slots_of(&rig->map));
	}
	CHECK_EQ(xk_map_count(&rig->map), 10);
	CHECK(slots_of(&rig->map) <= 64);
	for (unsigned i = 0; i < rig->count; i++)
		CHECK(rig_resolve(rig, i) == (i < rig->count - 10 ? NULL : &rig->things[i]));
}

/* Gives thing i a key that hashes to this slot of rig's table. */
static void
rig_choose_key(struct rig *rig, unsigned i, uint32_t slot)
{
	struct thing *thing = &rig->things[i];

	for (uint64_t b = 0;; b++) {
		thing->key = key_of(100 + i, b);
		if (xk_map_expect(&rig->map, thing->key).slot == &atomic_load(&rig->map.table)->slots[slot])
			return;
	}
}

TEST_IN(a_table_full_of_tombstones_is_cleaned_and_not_enlarged, struct rig, rig, *rig = rig_new(10, 0), rig_free)
{
	REQUIRE(slots_of(&rig->map) == 16);
	for (unsigned i = 0; i < rig->count; i++)
		rig_choose_key(rig, i, i);
	for (unsigned i = 0; i < 8; i++)
		REQUIRE(rig_bind(rig, i) == 0);
	/* thing 7 stays at the end of the run, so the things before it leave tombstones */
	for (unsigned i = 0; i < 7; i++)
		CHECK(rig_unbind(rig, i));
	CHECK_EQ(used_of(&rig->map), 8);
	CHECK(rig_resolve(rig, 7) == &rig->things[7]);
	CHECK_EQ(rig_bind(rig, 3), 0); /* in the place of a tombstone */
	CHECK_EQ(used_of(&rig->map), 8);
	CHECK_EQ(rig_bind(rig, 9), 0);
	CHECK_EQ(used_of(&rig->map), 3);
	CHECK_EQ(slots_of(&rig->map), 16);
	for (unsigned i = 0; i < rig->count; i++)
		CHECK(rig_resolve(rig, i) == (i == 3 || i == 7 || i == 9 ? &rig->things[i] : NULL));
}

TEST_IN(an_emptied_map_has_no_tombstones_left, struct rig, rig, *rig = rig_new(500, 500), rig_free)
{
	for (unsigned i = 0; i < rig->count; i++)
		REQUIRE(rig_bind(rig, i) == 0);
	for (unsigned i = 0; i < rig->count; i++)
		CHECK(rig_unbind(rig, i));
	CHECK_EQ(used_of(&rig->map), 0);
}

TEST(outgrown_tables_are_retired_and_not_freed)
{
	struct xk_kernel kernel = { .drivers = 1 };
	struct thing *things = calloc(100, sizeof(*things));
	struct xk_map_table *first;
	struct xk_map map;

	REQUIRE(things != NULL && xk_map_init(&map, &kernel, 4) == 0);
	first = atomic_load_explicit(&map.table, memory_order_relaxed);
	for (unsigned i = 0; i < 100; i++)
		REQUIRE(xk_map_bind(&map, &things[i].binding, key_of(1, i), &things[i]) == 0);
	CHECK_EQ(kernel.count, 4); /* 16, 32, 64, 128; 256 is the table now */
	CHECK_EQ(first->used, 8);  /* readers may still use it */
	release_all(&kernel);
	for (unsigned i = 0; i < 100; i++)
		CHECK(xk_map_resolve(&map, key_of(1, i)) == &things[i]);
	xk_map_fini(&map);
	free(things);
}

/* Returns the length of the longest run of used slots. */
static uint32_t
longest_run(struct xk_map *map)
{
	struct xk_map_table *table = atomic_load_explicit(&map->table, memory_order_relaxed);
	uint32_t longest = 0, run = 0;

	for (uint32_t slot = 0; slot <= table->mask; slot++) {
		run = xk_map_slot_binding(atomic_load_explicit(&table->slots[slot], memory_order_relaxed)) ==
				      &table->free
			      ? 0
			      : run + 1;
		longest = run > longest ? run : longest;
	}
	return longest;
}

enum { SEEDS = 200, SPREAD = 2048 };

TEST(similar_keys_are_spread_with_any_seed)
{
	static struct thing things[SPREAD];

	for (unsigned seed = 0; seed < SEEDS; seed++) {
		struct xk_map map;

		REQUIRE(xk_map_init(&map, NULL, SPREAD) == 0);
		for (uint64_t i = 0; i < SPREAD; i++) {
			/* two sessions below, 32 hosts, 32 ports; or one session and consecutive numbers */
			struct xk_key key = key_of(0x7f0000001000 + (i & 1) * 256, i >> 6 << 48 | (i >> 1 & 31) << 16);

			if (seed % 2 != 0)
				key = key_of(0x7f0000001000, i << 32 | 7);
			REQUIRE(xk_map_bind(&map, &things[i].binding, key, &things[i]) == 0);
		}
		/* about 40 if half of the slots are taken at random; most slots if hashing is poor */
		CHECK(longest_run(&map) < 300);
		xk_map_fini(&map);
	}
}

/* ---- for_each ---- */

static void
visit_thing(void *object, void *context)
{
	((struct thing *)object)->visits++;
}

static void
visit_and_unbind(void *object, void *context)
{
	struct rig *rig = context;
	unsigned i = (unsigned)((struct thing *)object - rig->things);

	rig->things[i].visits++;
	rig_unbind(rig, i);
	rig_unbind(rig, i ^ 1);
}

TEST_IN(for_each_visits_every_binding, struct rig, rig, *rig = rig_new(300, 4), rig_free)
{
	for (unsigned i = 0; i < rig->count; i++)
		REQUIRE(rig_bind(rig, i) == 0);
	for (unsigned i = 0; i < rig->count; i += 3)
		CHECK(rig_unbind(rig, i));
	xk_map_for_each(&rig->map, visit_thing, NULL);
	for (unsigned i = 0; i < rig->count; i++)
		CHECK_EQ(rig->things[i].visits, i % 3 != 0);
}

TEST_IN(for_each_visitor_may_unbind_any_key, struct rig, rig, *rig = rig_new(300, 4), rig_free)
{
	for (unsigned i = 0; i < rig->count; i++)
		REQUIRE(rig_bind(rig, i) == 0);
	xk_map_for_each(&rig->map, visit_and_unbind, rig);
	for (unsigned i = 0; i < rig->count; i += 2)
		CHECK_EQ(rig->things[i].visits + rig->things[i + 1].visits, 1);
	CHECK_EQ(xk_map_count(&rig->map), 0);
}

/* Things below 8 are bound at first; the first visit outgrows their table and unbinds them all. */
static void
visit_and_replace(void *object, void *context)
{
	struct rig *rig = context;

	visit_thing(object, NULL);
	for (unsigned i = 8; i < rig->count; i++)
		rig_bind(rig, i);
	for (unsigned i = 0; i < 8; i++)
		rig_unbind(rig, i);
}

TEST(for_each_skips_keys_unbound_while_the_map_grew)
{
	struct xk_kernel kernel = { .drivers = 1 };
	struct rig rig = rig_new(100, 8);
	unsigned visits = 0;

	xk_map_fini(&rig.map);
	REQUIRE(xk_map_init(&rig.map, &kernel, 8) == 0); /* with a kernel, which keeps the table being read */
	for (unsigned i = 0; i < 8; i++)
		REQUIRE(rig_bind(&rig, i) == 0);
	xk_map_for_each(&rig.map, visit_and_replace, &rig);
	for (unsigned i = 0; i < 8; i++)
		visits += rig.things[i].visits;
	CHECK_EQ(visits, 1);
	rig_free(&rig);
	release_all(&kernel);
}

TEST(for_each_aborts_if_a_single_thread_map_outgrows_its_table)
{
	int status = 0;
	pid_t child = fork();

	REQUIRE(child >= 0);
	if (child == 0) {
		struct rig rig = rig_new(100, 8);

		REQUIRE(freopen("/dev/null", "w", stderr) != NULL);
		for (unsigned i = 0; i < 8; i++)
			rig_bind(&rig, i);
		xk_map_for_each(&rig.map, visit_and_replace, &rig);
		_exit(0);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGABRT);
}

/* ---- at random, against an array ---- */

enum { RANDOM_KEYS = 1500, RANDOM_STEPS = 100000 };

static uint32_t
random_below(uint64_t *state, uint32_t below)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((*state >> 33) % below);
}

/* Does one operation on thing i. Returns false if the result differs from an array of flags. */
static bool
random_step(struct rig *rig, bool *bound, unsigned i, unsigned operation)
{
	bool was = bound[i];

	if (operation == 0) {
		bound[i] = true;
		return rig_bind(rig, i) == (was ? -EEXIST : 0);
	}
	if (operation == 1) {
		bound[i] = false;
		return rig_unbind(rig, i) == was;
	}
	return rig_resolve(rig, i) == (was ? &rig->things[i] : NULL);
}

TEST(random_operations_agree_with_an_array)
{
	unsigned seed = test_seed("operations");
	uint64_t state = seed;
	struct rig rig = rig_new(RANDOM_KEYS, 0);
	static bool bound[RANDOM_KEYS];
	unsigned step, count = 0;
	bool agrees = true;

	for (step = 0; step < RANDOM_STEPS && agrees; step++) {
		/* the number of bindings rises and falls */
		unsigned operation = random_below(&state, 4);
		unsigned i = random_below(&state, RANDOM_KEYS);

		if (operation == 3)
			operation = step / 10000 % 2;
		agrees = random_step(&rig, bound, i, operation) && used_of(&rig.map) * 2 <= slots_of(&rig.map);
	}
	if (!agrees)
		fprintf(stderr, "\nseed %u, step %u\n", seed, step);
	CHECK(agrees);
	for (unsigned i = 0; i < RANDOM_KEYS; i++) {
		count += bound[i];
		CHECK(rig_resolve(&rig, i) == (bound[i] ? &rig.things[i] : NULL));
	}
	CHECK_EQ(xk_map_count(&rig.map), count);
	rig_free(&rig);
}

/* ---- readers while one writes ---- */

enum { STAYING = 64, MOVING = 4000, READERS = 2, WRITERS = 2, ROUNDS = 3 };

struct crowd {
	struct xk_kernel kernel;
	struct rig rig; /* the first things stay bound, the others come and go */
	_Atomic bool done;
	_Atomic unsigned wrong;
	_Atomic unsigned next_writer;
};

/* Always finds the things that stay; finds each of the others as itself or not at all. */
static void *
crowd_read(void *argument)
{
	struct crowd *crowd = argument;
	unsigned i = 0, wrong = 0;

	while (!atomic_load_explicit(&crowd->done, memory_order_acquire)) {
		struct thing *thing;

		i = (i + 1) % STAYING;
		wrong += rig_resolve(&crowd->rig, i) != &crowd->rig.things[i];
		thing = rig_resolve(&crowd->rig, STAYING + i * (MOVING / STAYING));
		wrong += thing != NULL && thing != &crowd->rig.things[STAYING + i * (MOVING / STAYING)];
	}
	atomic_fetch_add_explicit(&crowd->wrong, wrong, memory_order_relaxed);
	return NULL;
}

/*
 * Binds and unbinds its share. An unbound binding may be bound again only after a grace period: instead, every round
 * has things of its own.
 */
static void *
crowd_write(void *argument)
{
	struct crowd *crowd = argument;
	unsigned writer = atomic_fetch_add_explicit(&crowd->next_writer, 1, memory_order_relaxed), wrong = 0;
	struct thing *things = calloc((size_t)MOVING * ROUNDS, sizeof(*things));

	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = writer; i < MOVING; i += WRITERS) {
			struct thing *thing = &crowd->rig.things[STAYING + i];
			struct xk_binding *binding = &things[round * MOVING + i].binding;

			wrong += xk_map_bind(&crowd->rig.map, binding, thing->key, thing) != 0;
		}
		for (unsigned i = writer; i < MOVING; i += WRITERS)
			wrong += !xk_map_unbind(&crowd->rig.map, &things[round * MOVING + i].binding);
	}
	atomic_fetch_add_explicit(&crowd->wrong, wrong, memory_order_relaxed);
	return things;
}

TEST(readers_need_no_lock_while_the_table_grows)
{
	struct crowd crowd = { .rig = rig_new(STAYING + MOVING, 0) };
	pthread_t readers[READERS], writers[WRITERS];
	void *things[WRITERS];

	xk_map_fini(&crowd.rig.map);
	REQUIRE(xk_map_init(&crowd.rig.map, &crowd.kernel, 0) == 0);
	for (unsigned i = 0; i < STAYING; i++)
		REQUIRE(rig_bind(&crowd.rig, i) == 0);
	for (unsigned i = 0; i < READERS; i++)
		REQUIRE(pthread_create(&readers[i], NULL, crowd_read, &crowd) == 0);
	for (unsigned i = 0; i < WRITERS; i++)
		REQUIRE(pthread_create(&writers[i], NULL, crowd_write, &crowd) == 0);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(writers[i], &things[i]);
	atomic_store_explicit(&crowd.done, true, memory_order_release);
	for (unsigned i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	CHECK_EQ(atomic_load(&crowd.wrong), 0);
	CHECK_EQ(xk_map_count(&crowd.rig.map), STAYING);
	CHECK(slots_of(&crowd.rig.map) > 1024);
	rig_free(&crowd.rig);
	release_all(&crowd.kernel);
	for (unsigned i = 0; i < WRITERS; i++)
		free(things[i]);
}
