/*
 * timers.c - timers in order of time: near ones in a calendar, far ones in a heap.
 *
 * The calendar has an ordered list for every 1,024 ns of the next four milliseconds, which cover most events in a
 * network. Later timers go to the heap and stay there. The next timer is the earlier of the calendar's and the heap's
 * first.
 */
#include <errno.h>
#include <stdlib.h>

#include "platform/sim/sim_private.h"

enum { TIMER_BRANCHES = 4, TIMER_ROOT = 1 };

/* Compares time and order together, without a branch. */
static inline bool
timer_before(const struct sim_timer *a, const struct sim_timer *b)
{
	return ((unsigned __int128)a->at_ns << 64 | a->order) < ((unsigned __int128)b->at_ns << 64 | b->order);
}

/* ---- the heap ---- */

static void
heap_put(struct sim_timers *timers, unsigned place, struct sim_timer *timer)
{
	timers->heap[place] = timer;
	timer->place = place;
}

static unsigned
heap_parent(unsigned place)
{
	return (place - 2) / TIMER_BRANCHES + TIMER_ROOT;
}

/* Moves timer from place towards the root, as far as its time requires. */
static void
heap_rise(struct sim_timers *timers, unsigned place, struct sim_timer *timer)
{
	while (place > TIMER_ROOT && timer_before(timer, timers->heap[heap_parent(place)])) {
		heap_put(timers, place, timers->heap[heap_parent(place)]);
		place = heap_parent(place);
	}
	heap_put(timers, place, timer);
}

/* Returns the earliest child of place, or 0. */
static unsigned
heap_first_child(const struct sim_timers *timers, unsigned place)
{
	unsigned first = (place - 1) * TIMER_BRANCHES + 2, best = first;

	if (first > timers->heap_count)
		return 0;
	for (unsigned i = first + 1; i < first + TIMER_BRANCHES && i <= timers->heap_count; i++)
		if (timer_before(timers->heap[i], timers->heap[best]))
			best = i;
	return best;
}

/* Moves timer from place away from the root, as far as its time requires. */
static void
heap_sink(struct sim_timers *timers, unsigned place, struct sim_timer *timer)
{
	unsigned child;

	while ((child = heap_first_child(timers, place)) != 0 && timer_before(timers->heap[child], timer)) {
		heap_put(timers, place, timers->heap[child]);
		place = child;
	}
	heap_put(timers, place, timer);
}

static int
heap_add(struct sim_timers *timers, struct sim_timer *timer)
{
	if (timers->heap_count + 2 > timers->heap_room) {
		unsigned room = timers->heap_room == 0 ? 256 : 2 * timers->heap_room;
		struct sim_timer **heap = realloc(timers->heap, room * sizeof(struct sim_timer *));

		if (heap == NULL)
			return -ENOMEM;
		timers->heap = heap;
		timers->heap_room = room;
	}
	heap_rise(timers, ++timers->heap_count, timer);
	return 0;
}

static void
heap_remove(struct sim_timers *timers, struct sim_timer *timer)
{
	unsigned place = timer->place;
	struct sim_timer *last = timers->heap[timers->heap_count--];

	if (last == timer)
		return;
	if (place > TIMER_ROOT && timer_before(last, timers->heap[heap_parent(place)]))
		heap_rise(timers, place, last);
	else
		heap_sink(timers, place, last);
}

/* ---- the calendar ---- */

/* Inserts the timer behind those of its day that precede it, most likely the last one. */
static void
calendar_add(struct sim_timers *timers, struct sim_timer *timer)
{
	unsigned number = (timer->at_ns >> SIM_DAY_BITS) % SIM_DAYS;
	struct sim_day *day = &timers->days[number];
	struct sim_timer *before = day->last;

	while (before != NULL && timer_before(timer, before))
		before = before->previous;
	timer->place = SIM_NEAR;
	timer->previous = before;
	timer->next = before == NULL ? day->first : before->next;
	*(timer->next == NULL ? &day->last : &timer->next->previous) = timer;
	*(before == NULL ? &day->first : &before->next) = timer;
	timers->occupied[number / 64] |= UINT64_C(1) << number % 64;
	timers->words |= UINT64_C(1) << number / 64;
}

static void
calendar_remove(struct sim_timers *timers, struct sim_timer *timer)
{
	unsigned number = (timer->at_ns >> SIM_DAY_BITS) % SIM_DAYS;
	struct sim_day *day = &timers->days[number];

	*(timer->next == NULL ? &day->last : &timer->next->previous) = timer->previous;
	*(timer->previous == NULL ? &day->first : &timer->previous->next) = timer->next;
	if (day->first != NULL)
		return;
	timers->occupied[number / 64] &= ~(UINT64_C(1) << number % 64);
	if (timers->occupied[number / 64] == 0)
		timers->words &= ~(UINT64_C(1) << number / 64);
}

/* Returns the first day with a timer, from `day` on and around the calendar, or SIM_DAYS. */
static unsigned
calendar_next_day(const struct sim_timers *timers, unsigned day)
{
	unsigned word = day / 64;
	uint64_t here = timers->occupied[word] & (UINT64_MAX << day % 64), others;

	if (here != 0)
		return word * 64 + (unsigned)__builtin_ctzll(here);
	if (timers->words == 0)
		return SIM_DAYS;
	others = word == SIM_WORDS - 1 ? 0 : timers->words & (UINT64_MAX << (word + 1));
	word = (unsigned)__builtin_ctzll(others != 0 ? others : timers->words);
	return word * 64 + (unsigned)__builtin_ctzll(timers->occupied[word]);
}

static_assert(SIM_WORDS == 64, "sim_timers.words has a bit for each element of `occupied`");

/* ---- both ---- */

void
sim_timers_fini(struct xk_sim *sim)
{
	free(sim->timers.heap);
}

static int
timer_add(struct xk_sim *sim, struct sim_timer *timer)
{
	if ((timer->at_ns >> SIM_DAY_BITS) - (sim->now_ns >> SIM_DAY_BITS) >= SIM_DAYS)
		return heap_add(&sim->timers, timer);
	calendar_add(&sim->timers, timer);
	return 0;
}

int
sim_timer_set(struct xk_sim *sim, struct sim_timer *timer, uint64_t at_ns)
{
	sim_timer_cancel(sim, timer);
	timer->at_ns = at_ns < sim->now_ns ? sim->now_ns : at_ns;
	timer->order = sim->timers.order++;
	return timer_add(sim, timer);
}

void
sim_timer_restore(struct xk_sim *sim, struct sim_timer *timer)
{
	xk_assert(timer_add(sim, timer) == 0); /* there was room for it */
}

void
sim_timer_cancel(struct xk_sim *sim, struct sim_timer *timer)
{
	if (timer->place == 0)
		return;
	if (timer->place == SIM_NEAR)
		calendar_remove(&sim->timers, timer);
	else
		heap_remove(&sim->timers, timer);
	timer->place = 0;
}

struct sim_timer *
sim_timer_first(struct xk_sim *sim)
{
	struct sim_timers *timers = &sim->timers;
	unsigned day = calendar_next_day(timers, (sim->now_ns >> SIM_DAY_BITS) % SIM_DAYS);
	struct sim_timer *near = day == SIM_DAYS ? NULL : timers->days[day].first;
	struct sim_timer *far = timers->heap_count == 0 ? NULL : timers->heap[TIMER_ROOT];

	if (near == NULL || (far != NULL && timer_before(far, near)))
		return far;
	return near;
}
