/*
 * world.c - virtual time and its steps; see sim.h. A step runs a host that has a thread to run. Without such a host,
 * time advances to the next timer, which fires.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/sim/sim_private.h"

/* ---- scheduled acts ---- */

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

bool
sim_is_quiet_until(struct xk_sim *sim, uint64_t at_ns)
{
	const struct sim_timer *timer = sim->ready_first == NULL ? sim_timer_first(sim) : NULL;

	return sim->ready_first == NULL && at_ns <= sim->until_ns && (timer == NULL || timer->at_ns > at_ns);
}

/* ---- choices ---- */

void
xk_sim_choose(struct xk_sim *sim, bool all, uint64_t (*choose)(void *context, const struct xk_sim_choice *choice),
	      void *context)
{
	sim->choose = choose;
	sim->choose_context = context;
	sim->chooses_all = all;
}

uint64_t
xk_sim_events(const struct xk_sim *sim)
{
	return sim->events;
}

/* Returns whether the host of the next event has crashed before it, and booted. */
static bool
sim_choose_crash(struct xk_sim *sim, const struct sim_timer *timer)
{
	struct xk_sim_host *host = timer->host;
	const struct xk_sim_choice choice = { .kind = XK_SIM_CRASH, .number = sim->events + 1, .host = host };

	if (host == NULL || host->kernel == NULL || sim_choose(sim, &choice) == 0)
		return false;
	sim->events++;
	sim->now_ns = timer->at_ns; /* the timer may go with the host */
	sim->leaked += xk_sim_crash(host);
	xk_sim_boot(host);
	return true;
}

/* Returns whether the order of two events of one moment may matter: their hosts share themselves, or a medium. */
static bool
sim_events_conflict(const struct sim_timer *a, const struct sim_timer *b)
{
	if (a->host == NULL || b->host == NULL || a->host == b->host)
		return true;
	for (unsigned i = 0; i < a->host->device_count; i++)
		for (unsigned k = 0; k < b->host->device_count; k++)
			if (a->host->devices[i].link == b->host->devices[k].link &&
			    a->host->devices[i].link->device_count > 2)
				return true;
	return false;
}

/* Returns the event that is to happen next, the first of those due at one moment or another one. */
static struct sim_timer *
sim_choose_first(struct xk_sim *sim, struct sim_timer *first)
{
	struct sim_timer *due[SIM_DUE_MAX], *chosen = first, *timer = first;
	unsigned count = 0;

	for (; timer != NULL && timer->at_ns == first->at_ns && count < SIM_DUE_MAX; timer = sim_timer_first(sim)) {
		sim_timer_cancel(sim, timer);
		due[count++] = timer;
	}
	for (unsigned place = 1; place < count && chosen == first; place++) {
		const struct xk_sim_choice choice = { XK_SIM_ORDER, sim->events + 1, NULL, place, 0 };

		if ((sim->chooses_all || sim_events_conflict(first, due[place])) && sim_choose(sim, &choice) != 0)
			chosen = due[place];
	}
	for (unsigned i = 0; i < count; i++)
		sim_timer_restore(sim, due[i]);
	return chosen;
}

/* ---- a step ---- */

/* Lets all delayed frames arrive, because nothing else happens. Returns false if there are none. */
static bool
sim_end_delays(struct xk_sim *sim)
{
	bool any = false;

	for (struct xk_sim_host *host = sim->hosts; host != NULL; host = host->next) {
		any |= host->delayed != NULL;
		sim_frames_arrive(sim, sim_delayed_take(host));
	}
	return any;
}

/* Makes the timer's event happen. The frames that were delayed behind it follow. */
static void
sim_fire(struct xk_sim *sim, struct sim_timer *timer)
{
	struct xk_sim_host *host = timer->host;
	struct sim_frame *delayed = host == NULL ? NULL : sim_delayed_take(host);

	sim->events++;
	sim->now_ns = timer->at_ns;
	sim_timer_cancel(sim, timer);
	timer->fire(timer);
	sim_frames_arrive(sim, delayed);
}

static bool
sim_step(struct xk_sim *sim)
{
	struct xk_sim_host *host = sim->ready_first;
	struct sim_timer *timer;

	sim_count_step(sim);
	if (host != NULL) {
		sim->ready_first = host->ready_next;
		if (sim->ready_first == NULL)
			sim->ready_last = &sim->ready_first;
		host->queued = false;
		sim_processor_run(host);
		return true;
	}
	timer = sim_timer_first(sim);
	if (timer == NULL)
		return sim_end_delays(sim);
	if (timer->at_ns > sim->until_ns)
		return false;
	if (xk_unlikely(sim->choose != NULL)) {
		if (sim_choose_crash(sim, timer))
			return true;
		timer = sim_choose_first(sim, timer);
	}
	sim_fire(sim, timer);
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
xk_sim_steps(const struct xk_sim *sim)
{
	return atomic_load_explicit(&sim->steps, memory_order_relaxed);
}

const char *
xk_sim_booting(const struct xk_sim *sim)
{
	return atomic_load_explicit(&sim->booting, memory_order_relaxed);
}

uint64_t
xk_sim_now_ns(const struct xk_sim *sim)
{
	return sim->now_ns;
}

/* ---- records ---- */

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

/* Hashes a frame's bytes when it is sent, and again when it arrives with a fault or is lost. */
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

/* Frees frames in flight and scheduled acts. Hosts' timers have ended with the hosts. */
static void
sim_discard_all(struct xk_sim *sim)
{
	struct sim_timer *timer;

	while ((timer = sim_timer_first(sim)) != NULL) {
		sim_timer_cancel(sim, timer);
		if (!sim_frame_discard(sim, timer))
			free(xk_container_of(timer, struct sim_act, timer));
	}
}

unsigned
xk_sim_free(struct xk_sim *sim)
{
	unsigned left;

	if (sim == NULL)
		return 0;
	sim_end_delays(sim); /* so that all frames are among the timers */
	left = sim->leaked + sim_hosts_free(sim);
	sim_discard_all(sim);
	sim_links_free(sim);
	memory_buffer_free_kept(&sim->kept);
	sim_frames_fini(sim);
	xk_context_disown(&sim->own);
	sim_timers_fini(sim);
	free(sim);
	return left;
}
