/*
 * upi.c - sessions' lives, and the verbs of upi.h that are not on every message's way.
 *
 * A session's reference word counts permanent references and holds of parked shepherds. When the count comes to zero
 * the session is marked dead (once), leaves its map and is retired; when no shepherd can be reading it any more it is
 * marked unreachable, and goes at once, or with the last hold.
 */
#include "xkernel/upi.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "xkernel/engine.h"
#include "xkernel/trace.h"

#define UPI_DEAD (1u << 31)
#define UPI_UNREACHABLE (1u << 30)
#define UPI_COUNT (UPI_UNREACHABLE - 1)

enum { UPI_CACHE_LOOKS = 16 }; /* how many sessions are looked at to make room for one */

/* order=session: one popper at a time, in the order of arrival. */
struct xk_order {
	struct xk_semaphore turn;
};

/* ---- sessions ---- */

static struct xk_edge *
upi_edge(const struct xk_protocol *upper, const struct xk_protocol *lower)
{
	for (unsigned i = 0; i < upper->lower_count; i++)
		if (upper->lowers[i]->lower == lower)
			return upper->lowers[i];
	return NULL;
}

static_assert(offsetof(struct xk_session, references) == 64 && sizeof(struct xk_session) == 128,
	      "a session's own state begins with the third line of the cache");

struct xk_session *
xk_session_new(struct xk_protocol *self, const struct xk_session_ops *ops, size_t size, struct xk_protocol *hlp_receive,
	       struct xk_protocol *hlp_type, struct xk_session *lls)
{
	struct xk_edge *up = upi_edge(hlp_receive, self);
	struct xk_session *s;

	xk_assert(up != NULL && size >= sizeof(*s));
	xk_assert(hlp_receive->ops->demux != NULL || hlp_receive->ops->call_demux != NULL);
	size = (size + 63) & ~(size_t)63;
	s = aligned_alloc(64, size);
	if (s == NULL)
		return NULL;
	memset(s, 0, size);
	s->ops = ops;
	s->up = up;
	s->protocol = self;
	s->hlp_type = hlp_type;
	atomic_init(&s->references, 1);
	if (self->order_session) {
		s->order = malloc(sizeof(*s->order));
		if (s->order == NULL) {
			free(s);
			return NULL;
		}
		xk_semaphore_init(&s->order->turn, self, 1);
		s->binding.ordered = true;
	}
	s->lls = lls;
	return s;
}

static void
session_free(struct xk_session *s)
{
	free(s->order);
	free(s);
}

/* Nobody can be reading s any more, except who holds it. */
static void
session_unreachable(struct xk_retired *retired)
{
	struct xk_session *s = xk_container_of(retired, struct xk_session, retired);
	uint32_t was = atomic_fetch_or_explicit(&s->references, UPI_UNREACHABLE, memory_order_acq_rel);

	if ((was & UPI_COUNT) == 0)
		session_free(s);
}

static void session_release(struct xk_session *s);

static void
session_destroy(struct xk_session *s)
{
	struct xk_session *lls = s->lls;
	uint32_t none = 0;

	if (!atomic_compare_exchange_strong_explicit(&s->references, &none, UPI_DEAD, memory_order_acq_rel,
						     memory_order_relaxed))
		return; /* somebody has taken a reference again, or destroys it already */
	xk_trace(s->protocol, XK_TRACE_EVENTS, "session of %s closed", xk_hlp_receive(s)->name);
	if (s->map != NULL)
		xk_map_unbind(s->map, &s->binding);
	if (s->ops->close != NULL)
		s->ops->close(s);
	xk_retire(s->protocol->kernel, &s->retired, session_unreachable);
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
 * A session that is dead when it is held has closed the one below it already; who is in it may still push there, so
 * that one is held as well. Whether a session is dead does not change while it is held.
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

static bool
session_is_dead(const struct xk_session *s)
{
	return (atomic_load_explicit(&s->references, memory_order_acquire) & UPI_DEAD) != 0;
}

int
xk_session_bind(struct xk_session *s, struct xk_map *map, struct xk_key key)
{
	int result;

	while ((result = xk_map_bind(map, &s->binding, key, s)) == -EEXIST) {
		struct xk_session *other = xk_map_resolve(map, key);

		if (other == NULL)
			continue;
		if (!session_is_dead(other))
			return -EEXIST;
		xk_map_unbind(map, &other->binding); /* who closes it may not run for long */
	}
	if (result == 0)
		s->map = map;
	return result;
}

struct xk_session *
xk_session_find(struct xk_map *map, struct xk_key key)
{
	struct xk_session *s = xk_map_resolve(map, key);

	return s != NULL && xk_duplicate(s) ? s : NULL;
}

int
xk_session_share(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_session **session)
{
	struct xk_session *s = xk_session_find(map, key);

	if (s == NULL)
		return -ENOENT;
	if (xk_hlp_receive(s) != hlp_receive || s->hlp_type != hlp_type) {
		xk_close(s);
		return -EADDRINUSE;
	}
	*session = s;
	return 0;
}

/* ---- the cache of passively opened sessions ---- */

/* Under the cache's lock. */
static void
cache_append(struct xk_protocol *self, struct xk_session *s)
{
	s->cache_next = NULL;
	s->cache_previous = self->cache_last;
	if (self->cache_last != NULL)
		self->cache_last->cache_next = s;
	else
		self->cache_first = s;
	self->cache_last = s;
	self->cache_count++;
	s->cached = true;
}

/* Under the cache's lock. */
static void
cache_remove(struct xk_protocol *self, struct xk_session *s)
{
	if (s->cache_previous != NULL)
		s->cache_previous->cache_next = s->cache_next;
	else
		self->cache_first = s->cache_next;
	if (s->cache_next != NULL)
		s->cache_next->cache_previous = s->cache_previous;
	else
		self->cache_last = s->cache_previous;
	self->cache_count--;
	s->cached = false;
}

static bool
cache_holds_alone(const struct xk_session *s)
{
	return atomic_load_explicit(&s->references, memory_order_acquire) == 1;
}

/*
 * Under the cache's lock: the session to make room with, out of the list; NULL: none of those looked at is idle. One
 * that was used since it was last looked at gets a second chance; the first idle one goes when all were used.
 */
static struct xk_session *
cache_pick(struct xk_protocol *self)
{
	struct xk_session *spare = NULL;

	for (unsigned i = 0; i < UPI_CACHE_LOOKS && i < self->cache_count; i++) {
		struct xk_session *s = self->cache_first;

		cache_remove(self, s);
		if (cache_holds_alone(s) && !atomic_load_explicit(&s->binding.used, memory_order_relaxed))
			return s;
		atomic_store_explicit(&s->binding.used, false, memory_order_relaxed);
		cache_append(self, s);
		if (spare == NULL && cache_holds_alone(s))
			spare = s;
	}
	if (spare != NULL)
		cache_remove(self, spare);
	return spare;
}

/* Gives back the cache's references on what was taken out and linked by cache_next. */
static void
cache_release(struct xk_session *unwanted)
{
	while (unwanted != NULL) {
		struct xk_session *next = unwanted->cache_next;

		session_release(unwanted);
		unwanted = next;
	}
}

/* Where sessions in use have let the cache grow past its size, two go for one, until it has shrunk again. */
void
xk_session_cache(struct xk_session *s)
{
	struct xk_protocol *self = s->protocol;
	struct xk_session *victims = NULL, *victim;

	xk_spin_lock(&self->cache_lock);
	for (unsigned i = 0; i < 2 && self->cache_count >= self->session_max; i++) {
		victim = cache_pick(self);
		if (victim == NULL)
			break;
		victim->cache_next = victims;
		victims = victim;
	}
	cache_append(self, s);
	xk_spin_unlock(&self->cache_lock);
	cache_release(victims);
}

int
xk_session_announce(struct xk_session *s)
{
	int status = xk_open_done(xk_hlp_receive(s), s->protocol, s, s->hlp_type);

	if (status != 0)
		xk_close(s);
	else
		xk_session_cache(s);
	return status;
}

void
xk_session_uncache(struct xk_protocol *self, bool (*wanted)(struct xk_session *s, void *context), void *context)
{
	struct xk_session *unwanted = NULL, *next;

	xk_spin_lock(&self->cache_lock);
	for (struct xk_session *s = self->cache_first; s != NULL; s = next) {
		next = s->cache_next;
		if (wanted != NULL && wanted(s, context))
			continue;
		cache_remove(self, s);
		s->cache_next = unwanted;
		unwanted = s;
	}
	xk_spin_unlock(&self->cache_lock);
	cache_release(unwanted);
}

/*
 * Gives a reference back; closes: an hlp's. A session that an hlp has closed leaves the cache when nobody else has a
 * reference. That is looked at under the lock, so that of several who let go the last one sees it.
 */
static void
session_let_go(struct xk_session *s, bool closes)
{
	struct xk_protocol *self = s->protocol;
	bool cached, alone = false;

	xk_spin_lock(&self->cache_lock);
	cached = s->cached;
	if (cached) {
		s->closing |= closes;
		alone = atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel) == 2 && s->closing;
		if (alone)
			cache_remove(self, s);
	}
	xk_spin_unlock(&self->cache_lock);
	if (!cached || alone)
		session_release(s);
}

void
xk_close(struct xk_session *s)
{
	if (s != NULL)
		session_let_go(s, true);
}

void
xk_session_release(struct xk_session *s)
{
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

/* ---- enables ---- */

/* Adds `by` to a count that is not 0. What it was; 0: the enable is being taken away. */
static unsigned
enable_count(struct xk_enable *enable, int by)
{
	unsigned was = atomic_load_explicit(&enable->count, memory_order_relaxed);

	do {
		if (was == 0)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(&enable->count, &was, was + (unsigned)by, memory_order_acq_rel,
							memory_order_relaxed));
	return was;
}

/* 0, -EEXIST: somebody was faster; -ENOMEM. */
static int
enable_bind(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type)
{
	struct xk_enable *enable = calloc(1, sizeof(*enable));
	int result;

	if (enable == NULL)
		return -ENOMEM;
	enable->hlp_receive = hlp_receive;
	enable->hlp_type = hlp_type;
	atomic_init(&enable->count, 1);
	result = xk_map_bind(map, &enable->binding, key, enable);
	if (result != 0)
		free(enable);
	return result;
}

int
xk_enable_add(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type)
{
	for (;;) {
		struct xk_enable *enable = xk_map_resolve(map, key);
		int result = -EEXIST;

		if (enable == NULL)
			result = enable_bind(map, key, hlp_receive, hlp_type);
		else if (enable->hlp_receive != hlp_receive || enable->hlp_type != hlp_type)
			return -EADDRINUSE;
		else if (enable_count(enable, 1) > 0)
			return 0;
		if (result != -EEXIST)
			return result;
		sched_yield(); /* whoever takes it away is about to unbind it */
	}
}

static void
enable_free(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct xk_enable, retired));
}

int
xk_enable_remove(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type)
{
	struct xk_enable *enable = xk_map_resolve(map, key);
	unsigned was;

	if (enable == NULL || enable->hlp_receive != hlp_receive || enable->hlp_type != hlp_type)
		return -ENOENT;
	was = enable_count(enable, -1);
	if (was != 1)
		return was == 0 ? -ENOENT : 0;
	xk_map_unbind(map, &enable->binding);
	xk_retire(hlp_receive->kernel, &enable->retired, enable_free);
	return 0;
}

static void
enable_forget(void *object, void *context)
{
	struct xk_enable *enable = object;

	xk_map_unbind(context, &enable->binding);
	free(enable);
}

void
xk_enable_fini(struct xk_map *map)
{
	xk_map_for_each(map, enable_forget, map);
	xk_map_fini(map);
}

/* ---- open and the upcalls ---- */

int
xk_open(struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_protocol *llp,
	struct xk_participants *participants, struct xk_session **session)
{
	*session = NULL;
	if (llp->ops->open == NULL)
		return -EOPNOTSUPP;
	return llp->ops->open(llp, hlp_receive, hlp_type, participants, session);
}

int
xk_open_enable(struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_protocol *llp,
	       struct xk_participants *participants)
{
	if (llp->ops->open_enable == NULL)
		return -EOPNOTSUPP;
	return llp->ops->open_enable(llp, hlp_receive, hlp_type, participants);
}

int
xk_open_disable(struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_protocol *llp,
		struct xk_participants *participants)
{
	if (llp->ops->open_disable == NULL)
		return -EOPNOTSUPP;
	return llp->ops->open_disable(llp, hlp_receive, hlp_type, participants);
}

int
xk_open_done(struct xk_protocol *hlp_receive, struct xk_protocol *llp, struct xk_session *s,
	     struct xk_protocol *hlp_type)
{
	xk_trace(llp, XK_TRACE_EVENTS, "session opened for %s", hlp_receive->name);
	if (hlp_receive->ops->open_done == NULL)
		return 0;
	return hlp_receive->ops->open_done(hlp_receive, llp, s, hlp_type);
}

void
xk_close_done(struct xk_session *s)
{
	struct xk_protocol *hlp = xk_hlp_receive(s);

	if (hlp->ops->close_done != NULL)
		hlp->ops->close_done(hlp, s);
}

/* ---- messages ---- */

void
xk_pop_in_order(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	int result = xk_semaphore_wait(&s->order->turn, XK_FOREVER);

	if (result != 0) {
		xk_drop(s->protocol, m, XK_DROP_NO_STACK);
		return;
	}
	s->ops->pop(s, lls, m, hdr);
	xk_semaphore_signal(&s->order->turn);
}

void
xk_demux_watched(struct xk_session *s, struct xk_msg *m)
{
	struct xk_protocol *hlp = xk_hlp_receive(s);

	xk_cross_up(s, m);
	hlp->ops->demux(hlp, s, m);
}

int
xk_push_watched(struct xk_session *s, struct xk_msg *m)
{
	xk_cross_down(s, m);
	return s->ops->push(s, m);
}

int
xk_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	*reply = NULL;
	if (atomic_load_explicit(&s->up->watch, memory_order_relaxed) & XK_WATCH_TRACE)
		xk_cross_down(s, m);
	if (s->ops->call == NULL) {
		xk_drop(s->protocol, m, XK_DROP_UNEXPECTED);
		return -EOPNOTSUPP;
	}
	return s->ops->call(s, m, reply);
}

int
xk_call_async(struct xk_session *s, struct xk_msg *m, struct xk_call *call)
{
	if (atomic_load_explicit(&s->up->watch, memory_order_relaxed) & XK_WATCH_TRACE)
		xk_cross_down(s, m);
	if (s->ops->call_async == NULL) {
		xk_drop(s->protocol, m, XK_DROP_UNEXPECTED);
		return -EOPNOTSUPP;
	}
	return s->ops->call_async(s, m, call);
}

int
xk_call_demux(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	struct xk_protocol *hlp = xk_hlp_receive(s);

	*reply = NULL;
	if (atomic_load_explicit(&s->up->watch, memory_order_relaxed) != 0)
		xk_cross_up(s, m);
	if (hlp->ops->call_demux == NULL) {
		xk_drop(hlp, m, XK_DROP_UNEXPECTED);
		return -EOPNOTSUPP;
	}
	return hlp->ops->call_demux(hlp, s, m, reply);
}

static int
upi_call_pop_in_order(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr,
		      struct xk_msg **reply)
{
	int result = xk_semaphore_wait(&s->order->turn, XK_FOREVER);

	if (result != 0) {
		xk_drop(s->protocol, m, XK_DROP_NO_STACK);
		return result;
	}
	result = s->ops->call_pop(s, lls, m, hdr, reply);
	xk_semaphore_signal(&s->order->turn);
	return result;
}

int
xk_call_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr, struct xk_msg **reply)
{
	struct xk_shepherd_head *self = xk_self_head();
	struct xk_hold hold = { self->holds, s, false };
	int result;

	*reply = NULL;
	if (s->ops->call_pop == NULL) {
		xk_drop(s->protocol, m, XK_DROP_UNEXPECTED);
		return -EOPNOTSUPP;
	}
	atomic_store_explicit(&s->binding.used, true, memory_order_relaxed);
	self->holds = &hold;
	if (!s->binding.ordered)
		result = s->ops->call_pop(s, lls, m, hdr, reply);
	else
		result = upi_call_pop_in_order(s, lls, m, hdr, reply);
	self->holds = hold.below;
	if (hold.referenced)
		xk_hold_release(&hold);
	return result;
}

/* ---- drops ---- */

static const char *const upi_common_drops[XK_DROP_OWN] = {
	"none", "short", "no_session", "no_buffer", "no_memory", "no_stack", "refused", "unexpected",
};

unsigned
xk_drop_count(const struct xk_protocol_type *type)
{
	unsigned count = XK_DROP_OWN;

	if (type->drops != NULL)
		for (const char *const *name = type->drops; *name != NULL; name++)
			count++;
	return count;
}

const char *
xk_drop_name(const struct xk_protocol_type *type, unsigned reason)
{
	return reason < XK_DROP_OWN ? upi_common_drops[reason] : type->drops[reason - XK_DROP_OWN];
}

void
xk_drop(struct xk_protocol *self, struct xk_msg *m, unsigned reason)
{
	xk_tally(&self->drops[reason]);
	xk_trace(self, XK_TRACE_ERRORS, "#%u dropped: %s (%zu bytes)", m->id, xk_drop_name(self->type, reason),
		 xk_msg_len(m));
	xk_msg_free(m);
}

/* ---- asking ---- */

int
xk_control(struct xk_session *s, int op, void *buffer, size_t len)
{
	int result = s->ops->control == NULL ? -ENOTSUP : s->ops->control(s, op, buffer, len);

	if (result != -ENOTSUP)
		return result;
	if (s->lls != NULL)
		return xk_control(s->lls, op, buffer, len);
	return xk_control_protocol(s->protocol, op, buffer, len);
}

int
xk_control_protocol(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	int result = self->ops->control == NULL ? -ENOTSUP : self->ops->control(self, op, buffer, len);

	if (result != -ENOTSUP || self->lower_count == 0)
		return result;
	return xk_control_protocol(xk_lower(self, 0), op, buffer, len);
}

int
xk_get_participants(struct xk_session *s, struct xk_participants *participants)
{
	int result = 0;

	if (s->lls != NULL)
		result = xk_get_participants(s->lls, participants);
	else
		memset(participants, 0, sizeof(*participants));
	if (result == 0 && s->ops->get_participants != NULL)
		result = s->ops->get_participants(s, participants);
	return result;
}

/* ---- numbers ---- */

/* Whether the way down through edge leads to lower, seen through virtual protocols. */
static bool
upi_leads_to(const struct xk_edge *edge, const struct xk_protocol *lower)
{
	if (edge->lower == lower)
		return true;
	if (!(edge->lower->type->flags & XK_VIRTUAL))
		return false;
	for (unsigned i = 0; i < edge->lower->lower_count; i++)
		if (upi_leads_to(edge->lower->lowers[i], lower))
			return true;
	return false;
}

int
xk_number(const struct xk_protocol *self, const struct xk_protocol *hlp_type, uint32_t *number)
{
	for (unsigned i = 0; i < hlp_type->lower_count; i++) {
		const struct xk_edge *edge = hlp_type->lowers[i];

		if (edge->has_number && upi_leads_to(edge, self)) {
			*number = edge->number;
			return 0;
		}
	}
	if (self->type->numbers == NULL)
		return -ENOENT;
	for (const struct xk_number_of *of = self->type->numbers; of->type != NULL; of++) {
		if (strcmp(of->type, hlp_type->type->name) == 0) {
			*number = of->number;
			return 0;
		}
	}
	return -ENOENT;
}
