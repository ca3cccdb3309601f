/*
 * world.c - virtual time: what will happen lies in a heap, and the world goes from one to the next; see sim.h.
 *
 * A step is: a host that has something to go on with does so; only when no host has, time moves to what happens next.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/sim/world.h"

/* ---- what will happen ---- */

enum { SIM_BRANCHES = 4, SIM_ROOT = 1 };

static bool
sim_slot_before(const struct sim_slot *a, const struct sim_slot *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

static void
sim_put(struct xk_sim *sim, unsigned place, struct sim_slot slot)
{
	sim->slots[place] = slot;
	slot.timer->place = place;
}

static unsigned
sim_parent(unsigned place)
{
	return (place - 2) / SIM_BRANCHES + SIM_ROOT;
}

/* slot belongs at place or nearer to the root. */
static void
sim_rise(struct xk_sim *sim, unsigned place, struct sim_slot slot)
{
	while (place > SIM_ROOT && sim_slot_before(&slot, &sim->slots[sim_parent(place)])) {
		sim_put(sim, place, sim->slots[sim_parent(place)]);
		place = sim_parent(place);
	}
	sim_put(sim, place, slot);
}

/* The earliest child of place; 0: it has none. */
static unsigned
sim_first_child(const struct xk_sim *sim, unsigned place)
{
	unsigned first = (place - 1) * SIM_BRANCHES + 2, best = first;

	if (first > sim->slot_count)
		return 0;
	for (unsigned i = 1; i < SIM_BRANCHES && first + i <= sim->slot_count; i++)
		if (sim_slot_before(&sim->slots[first + i], &sim->slots[best]))
			best = first + i;
	return best;
}

/* slot belongs at place or farther from the root. */
static void
sim_sink(struct xk_sim *sim, unsigned place, struct sim_slot slot)
{
	unsigned child;

	while ((child = sim_first_child(sim, place)) != 0 && sim_slot_before(&sim->slots[child], &slot)) {
		sim_put(sim, place, sim->slots[child]);
		place = child;
	}
	sim_put(sim, place, slot);
}

static int
sim_grow(struct xk_sim *sim)
{
	unsigned room = sim->slot_room == 0 ? 256 : 2 * sim->slot_room;
	struct sim_slot *slots = realloc(sim->slots, room * sizeof(*slots));

	if (slots == NULL)
		return -ENOMEM;
	sim->slots = slots;
	sim->slot_room = room;
	return 0;
}

int
sim_timer_set(struct xk_sim *sim, struct sim_timer *timer, uint64_t at_ns)
{
	struct sim_slot slot = { at_ns < sim->now_ns ? sim->now_ns : at_ns, sim->order++, timer };

	sim_timer_cancel(sim, timer);
	if (sim->slot_count + 2 > sim->slot_room && sim_grow(sim) != 0)
		return -ENOMEM;
	sim_rise(sim, ++sim->slot_count, slot);
	return 0;
}

void
sim_timer_cancel(struct xk_sim *sim, struct sim_timer *timer)
{
	unsigned place = timer->place;
	struct sim_slot last;

	if (place == 0)
		return;
	timer->place = 0;
	last = sim->slots[sim->slot_count--];
	if (last.timer == timer)
		return;
	if (place > SIM_ROOT && sim_slot_before(&last, &sim->slots[sim_parent(place)]))
		sim_rise(sim, place, last);
	else
		sim_sink(sim, place, last);
}

uint64_t
sim_timer_at(const struct xk_sim *sim, const struct sim_timer *timer)
{
	return sim->slots[timer->place].at_ns;
}

bool
sim_is_quiet_until(const struct xk_sim *sim, uint64_t at_ns)
{
	return sim->ready_first == NULL && at_ns <= sim->until_ns &&
	       (sim->slot_count == 0 || sim->slots[SIM_ROOT].at_ns > at_ns);
}

/* ---- what the program wants to happen ---- */

struct sim_act {
	struct sim_timer timer;
	void (*act)(void *context);
	void *context;
};

static void
sim_act_fire(struct sim_timer *timer)
{
	struct sim_act *act = xk_container_of(timer, struct sim_act, timer);
	void (*call)(void *) = act->act;
	void *context = act->context;

	free(act);
	call(context);
}

int
xk_sim_at(struct xk_sim *sim, uint64_t at_ns, void (*call)(void *context), void *context)
{
	struct sim_act *act = malloc(sizeof(*act));

	if (act == NULL)
		return -ENOMEM;
	*act = (struct sim_act){ .timer.fire = sim_act_fire, .act = call, .context = context };
	if (sim_timer_set(sim, &act->timer, at_ns) == 0)
		return 0;
	free(act);
	return -ENOMEM;
}

/* ---- steps ---- */

static bool
sim_step(struct xk_sim *sim)
{
	struct xk_sim_host *host = sim->ready_first;
	struct sim_timer *timer;

	if (host != NULL) {
		sim->ready_first = host->ready_next;
		if (sim->ready_first == NULL)
			sim->ready_last = &sim->ready_first;
		host->queued = false;
		sim_processor_run(host);
		return true;
	}
	if (sim->slot_count == 0 || sim->slots[SIM_ROOT].at_ns > sim->until_ns)
		return false;
	timer = sim->slots[SIM_ROOT].timer;
	sim->now_ns = sim->slots[SIM_ROOT].at_ns;
	sim_timer_cancel(sim, timer);
	timer->fire(timer);
	return true;
}

bool
xk_sim_run_while(struct xk_sim *sim, uint64_t until_ns, bool (*go_on)(void *context), void *context)
{
	bool ended = false;

	xk_assert(!sim->stepping && sim->running == NULL);
	sim->stepping = true;
	sim->until_ns = until_ns;
	while (!ended && sim_step(sim))
		ended = go_on != NULL && !go_on(context);
	if (!ended && until_ns != UINT64_MAX && sim->now_ns < until_ns)
		sim->now_ns = until_ns;
	sim->stepping = false;
	return ended;
}

void
xk_sim_run(struct xk_sim *sim, uint64_t until_ns)
{
	xk_sim_run_while(sim, until_ns, NULL, NULL);
}

uint64_t
xk_sim_now_ns(const struct xk_sim *sim)
{
	return sim->now_ns;
}

/* ---- watching ---- */

static uint64_t
sim_hash_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint64_t
sim_hash_bytes(uint64_t hash, const uint8_t *bytes, size_t len)
{
	hash = sim_hash_word(hash, len);
	for (; len >= 8; bytes += 8, len -= 8)
		hash = sim_hash_word(hash, (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 |
						   (uint64_t)bytes[3] << 24 | (uint64_t)bytes[4] << 32 |
						   (uint64_t)bytes[5] << 40 | (uint64_t)bytes[6] << 48 |
						   (uint64_t)bytes[7] << 56);
	for (; len > 0; bytes++, len--)
		hash = sim_hash_word(hash, *bytes);
	return hash;
}

/* A frame's bytes are hashed where it is sent, and where it has come if something was done to them. */
void
sim_record(struct xk_sim *sim, const struct xk_sim_record *record)
{
	uint64_t hash = sim_hash_word(sim->hash, record->at_ns);

	hash = sim_hash_word(hash,
			     (uint64_t)record->event << 48 | (uint64_t)record->device << 32 | record->host->number);
	if (record->frame != NULL && (record->event == XK_SIM_SENT || record->why != NULL))
		hash = sim_hash_bytes(hash, record->frame, record->len);
	if (record->why != NULL)
		hash = sim_hash_bytes(hash, (const uint8_t *)record->why, strlen(record->why));
	sim->hash = hash;
	if (sim->see != NULL)
		sim->see(sim->see_context, record);
}

void
xk_sim_watch(struct xk_sim *sim, void (*see)(void *context, const struct xk_sim_record *record), void *context)
{
	sim->see = see;
	sim->see_context = context;
}

uint64_t
xk_sim_hash(const struct xk_sim *sim)
{
	return sim->hash;
}

/* ---- the world ---- */

uint64_t
xk_sim_seed(const struct xk_sim *sim, const char *purpose)
{
	struct sim_random random;

	sim_random_init(&random, sim_hash_bytes(sim->seed, (const uint8_t *)purpose, strlen(purpose)));
	return sim_random_next(&random);
}

struct xk_sim *
xk_sim_new(uint64_t seed)
{
	struct xk_sim *sim = calloc(1, sizeof(*sim));

	if (sim == NULL)
		return NULL;
	sim->seed = seed;
	sim->ready_last = &sim->ready_first;
	sim->hosts_last = &sim->hosts;
	sim->links_last = &sim->links;
	xk_context_adopt(&sim->own);
	return sim;
}

/* Frames under way and acts to come end with the world; a host's timers ended with the host. */
static void
sim_forget_all(struct xk_sim *sim)
{
	while (sim->slot_count > 0) {
		struct sim_timer *timer = sim->slots[SIM_ROOT].timer;

		sim_timer_cancel(sim, timer);
		if (!sim_frame_forget(timer))
			free(xk_container_of(timer, struct sim_act, timer));
	}
}

unsigned
xk_sim_free(struct xk_sim *sim)
{
	unsigned left = 0;

	if (sim == NULL)
		return 0;
	sim_hosts_free(sim, &left);
	sim_forget_all(sim);
	sim_links_free(sim);
	memory_buffer_free_kept(&sim->kept);
	xk_context_disown(&sim->own);
	free(sim->slots);
	free(sim);
	return left;
}
