/*
 * upi_session.c - sessions' lives: found, shared, cached, closed.
 *
 * A session's reference word counts permanent references and holds of parked shepherds. When the count reaches zero,
 * the session is marked dead (once), leaves its map and is retired. When no shepherd can be reading it any more, it is
 * marked unreachable, and freed at once or with the last hold.
 */
#include "xkernel/upi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "xkernel/engine/engine.h"
#include "xkernel/path.h"
#include "xkernel/trace.h"

#define UPI_DEAD (1u << 31)
#define UPI_UNREACHABLE (1u << 30)
#define UPI_COUNT (UPI_UNREACHABLE - 1)

enum { UPI_CACHE_EXAMINED = 16 }; /* sessions that are examined to make room for one */

static void
session_free(struct xk_session *s)
{
	for (struct xk_path *path = s->paths, *next; path != NULL; path = next) {
		next = path->next;
		free(path);
	}
	free(s->order);
	free(s);
}

void
xk_session_discard(struct xk_session *s)
{
	struct xk_session *lls = s->lls;

	if (xk_unlikely(s->protocol->shown_level >= XK_TRACE_EVENTS))
		xk_trace_session(s, false);
	session_free(s);
	xk_close(lls);
}

/* Marks s unreachable: only holders can be reading it. Frees it if there are none. */
static void
session_unreachable(struct xk_retired *retired)
{
	struct xk_session *s = xk_container_of(retired, struct xk_session, retired);
	uint32_t was = atomic_fetch_or_explicit(&s->references, UPI_UNREACHABLE, memory_order_acq_rel);

	if ((was & UPI_COUNT) == 0)
		session_free(s);
}

/*
 * Removes the paths to s, which is dead, from their tables; may be called again. Marks the sessions below as used,
 * because messages on the paths bypassed them.
 */
static void
session_forget_paths(struct xk_session *s)
{
	struct xk_path *path = atomic_load_explicit(&s->paths, memory_order_acquire);

	if (path == NULL)
		return;
	for (; path != NULL; path = path->next)
		xk_map_unbind(path->map, &path->binding);
	for (struct xk_session *lls = s->lls; lls != NULL; lls = lls->lls)
		xk_session_used(lls);
}

void
xk_session_unbind(struct xk_session *s)
{
	session_forget_paths(s);
	if (s->map != NULL)
		xk_map_unbind(s->map, &s->binding);
}

static void
session_destroy(struct xk_session *s)
{
	struct xk_session *lls = s->lls;
	uint32_t none = 0;

	if (!atomic_compare_exchange_strong_explicit(&s->references, &none, UPI_DEAD, memory_order_acq_rel,
						     memory_order_relaxed))
		return; /* another shepherd has taken a reference since, or is destroying it already */
	xk_trace(s->protocol, XK_TRACE_EVENTS, "session of %s closed", xk_hlp_receive(s)->name);
	if (xk_unlikely(s->protocol->shown_level >= XK_TRACE_EVENTS))
		xk_trace_session(s, false);
	xk_session_unbind(s);
	if (s->ops->close != NULL)
		s->ops->close(s);
	xk_epochs_retire(&s->protocol->kernel->epochs, &s->retired, session_unreachable);
	xk_close(lls);
}

static void
session_release(struct xk_session *s)
{
	uint32_t left = atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel) - 1;

	xk_assert((left & UPI_COUNT) != UPI_COUNT);
	if (left == 0)
		session_destroy(s);
	else if (left == (UPI_DEAD | UPI_UNREACHABLE))
		session_free(s);
}

/*
 * Holds s for a parking shepherd. A dead session has closed the one below already, but code that runs in it may still
 * push there, so that one is held as well. Whether a session is dead does not change while it is held.
 */
static void
session_hold(struct xk_session *s)
{
	uint32_t was = atomic_fetch_add_explicit(&s->references, 1, memory_order_relaxed);

	if ((was & UPI_DEAD) && s->lls != NULL)
		session_hold(s->lls);
}

void
xk_hold_keep(struct xk_hold *hold)
{
	session_hold(hold->session);
	hold->referenced = true;
}

bool
xk_duplicate(struct xk_session *s)
{
	uint32_t was = atomic_load_explicit(&s->references, memory_order_relaxed);

	do {
		if (was & UPI_DEAD)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&s->references, &was, was + 1, memory_order_acq_rel,
							memory_order_relaxed));
	return true;
}

int
xk_session_bind(struct xk_session *s, struct xk_map *map, struct xk_key key)
{
	int result;

	while ((result = xk_map_bind(map, &s->binding, key, s)) == -EEXIST) {
		struct xk_session *other = xk_map_resolve(map, key);

		if (other == NULL)
			continue;
		if ((atomic_load_explicit(&other->references, memory_order_acquire) & UPI_DEAD) == 0)
			return -EEXIST;
		session_forget_paths(other); /* the shepherd that closes it may not run for a while */
		xk_map_unbind(map, &other->binding);
	}
	if (result == 0)
		s->map = map;
	return result;
}

/* ---- the cache of passively opened sessions ---- */

/* Makes s the youngest. Under the lock. */
static void
cache_append(struct xk_protocol *self, struct xk_session *s)
{
	struct xk_session *oldest = self->cache_count++ == 0 ? s : self->cache_oldest;

	s->cache_next = oldest;
	s->cache_previous = oldest == s ? s : oldest->cache_previous;
	s->cache_previous->cache_next = s;
	oldest->cache_previous = s;
	self->cache_oldest = oldest;
	s->cached = true;
}

/* Under the lock. */
static void
cache_remove(struct xk_protocol *self, struct xk_session *s)
{
	s->cache_previous->cache_next = s->cache_next;
	s->cache_next->cache_previous = s->cache_previous;
	if (self->cache_oldest == s)
		self->cache_oldest = s->cache_next;
	self->cache_count--;
	s->cached = false;
}

static bool
cache_holds_alone(const struct xk_session *s)
{
	return atomic_load_explicit(&s->references, memory_order_acquire) == 1;
}

/*
 * Removes a session from the cache to make room, under its lock. NULL: none of those examined is idle. A session that
 * was used since it was last examined gets a second chance. If all were used, the first idle one goes.
 */
static struct xk_session *
cache_pick(struct xk_protocol *self)
{
	struct xk_session *pick = NULL;

	for (unsigned i = 0; i < UPI_CACHE_EXAMINED && i < self->cache_count; i++) {
		struct xk_session *s = self->cache_oldest;
		bool used = atomic_load_explicit(&s->used, memory_order_relaxed), idle = cache_holds_alone(s);

		if (idle && (pick == NULL || !used))
			pick = s;
		if (idle && !used)
			break;
		atomic_store_explicit(&s->used, false, memory_order_relaxed);
		self->cache_oldest = s->cache_next;
	}
	if (pick != NULL)
		cache_remove(self, pick);
	return pick;
}

/* Releases the cache's references on sessions that were removed and are linked by cache_next. */
static void
cache_release(struct xk_session *unwanted)
{
	while (unwanted != NULL) {
		struct xk_session *next = unwanted->cache_next;

		session_release(unwanted);
		unwanted = next;
	}
}

/* If sessions in use have made the cache outgrow its size, two leave for each new one, until it has shrunk. */
void
xk_session_cache(struct xk_session *s)
{
	struct xk_protocol *self = s->protocol;
	struct xk_session *victims = NULL, *victim;

	xk_spin_lock(&self->lock);
	for (unsigned i = 0; i < 2 && self->cache_count >= self->session_max; i++) {
		victim = cache_pick(self);
		if (victim == NULL)
			break;
		victim->cache_next = victims;
		victims = victim;
	}
	cache_append(self, s);
	xk_spin_unlock(&self->lock);
	cache_release(victims);
}

void
xk_session_uncache(struct xk_protocol *self, bool (*wanted)(struct xk_session *s, void *context), void *context)
{
	struct xk_session *unwanted = NULL, *s, *next;

	xk_spin_lock(&self->lock);
	s = self->cache_oldest;
	for (unsigned left = self->cache_count; left > 0; left--, s = next) {
		next = s->cache_next;
		if (wanted != NULL && wanted(s, context))
			continue;
		cache_remove(self, s);
		s->cache_next = unwanted;
		unwanted = s;
	}
	xk_spin_unlock(&self->lock);
	cache_release(unwanted);
}

/*
 * Releases a reference; closes: it was an hlp's. A session that an hlp has closed leaves the cache when nothing else
 * refers to it. The lock makes the last of several concurrent callers see that.
 */
static void
session_let_go(struct xk_session *s, bool closes)
{
	struct xk_protocol *self = s->protocol;
	bool cached, alone = false;

	xk_spin_lock(&self->lock);
	cached = s->cached;
	if (cached) {
		s->closing |= closes;
		alone = atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel) == 2 && s->closing;
		if (alone)
			cache_remove(self, s);
	}
	xk_spin_unlock(&self->lock);
	if (!cached || alone)
		session_release(s);
}

void
xk_close(struct xk_session *s)
{
	if (s == NULL)
		return;
	if (s->ops->let_go != NULL)
		s->ops->let_go(s);
	session_let_go(s, true);
}

/*
 * Releases a reference. Of more than two, it is neither the last one nor the last besides the cache's, so the lock is
 * not needed.
 */
void
xk_session_release(struct xk_session *s)
{
	uint32_t was = atomic_load_explicit(&s->references, memory_order_relaxed);

	while ((was & UPI_COUNT) > 2)
		if (atomic_compare_exchange_weak_explicit(&s->references, &was, was - 1, memory_order_acq_rel,
							  memory_order_relaxed))
			return;
	session_let_go(s, false);
}

static void
session_unhold(struct xk_session *s)
{
	bool dead = atomic_load_explicit(&s->references, memory_order_relaxed) & UPI_DEAD;
	struct xk_session *lls = s->lls;

	session_let_go(s, false);
	if (dead && lls != NULL)
		session_unhold(lls);
}

void
xk_hold_release(struct xk_hold *hold)
{
	session_unhold(hold->session);
}

void
xk_kept_renew(struct xk_shepherd_head *self)
{
	struct xk_session *kept = self->kept;

	if (self->popped == kept)
		return;
	self->kept = self->popped;
	if (self->kept != NULL)
		session_hold(self->kept);
	if (kept != NULL)
		session_unhold(kept);
}
