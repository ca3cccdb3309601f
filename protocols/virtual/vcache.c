/*
 * vcache.c - keeps what has been closed open for a time, so that who opens it again does not pay for it: no address is
 * asked for, no boot id confirmed. A virtual protocol, without a header; for any edge that is opened and closed often.
 *
 * Participants: those of the protocol below; sessions are kept for whoever opens with exactly the same, as the same hlps
 * Sessions:     each stands on one of the protocol below. When one that was opened actively is closed, the session below
 *               is kept for `time`, and the next open stands on it. Of those with the same participants one is kept. A
 *               session that is dead (close_done, or a push that said -ECONNRESET or -ETIMEDOUT) is not kept. What messages
 *               have caused, the protocols keep as `sessions` says.
 * While kept:   a message that comes up the session below makes a new one if its type is enabled, which is announced as any
 *               other; otherwise nobody wants it.
 * A new user:   gets what is on its way to the one before, as from any protocol whose sessions have no identity of their own:
 *               a reply that comes late to the same port, say
 * Control:      the protocol below answers
 * Settings:     time, entries (sessions kept, at most; the one closed first makes room)
 * Drops:        no_session
 * Counters:     opened, reused (opens that the protocol below was asked for, and not), kept, expired, pushed_out (by others),
 *               died (the peer closed it meanwhile)
 * Not done:     calls (RPC): channels are kept by VCHAN
 * Graph:        udptest -> vcache; vcache -> udp; or any other edge
 */
#include <errno.h>
#include <stdlib.h>

#include "xkernel/event.h"
#include "xkernel/virtual.h"

enum vcache_counter { VCACHE_OPENED, VCACHE_REUSED, VCACHE_KEPT, VCACHE_EXPIRED, VCACHE_PUSHED_OUT, VCACHE_DIED };

/* What is asked for by an open. */
struct vcache_key {
	const struct xk_protocol *hlp_receive, *hlp_type;
	struct xk_participants participants;
};

/* A session below that nobody uses, with a reference on it. */
struct vcache_entry {
	struct vcache_entry *next, *previous; /* by the time of their closing */
	struct vcache_entry *bucket_next;
	struct vcache_key key;
	struct xk_session *lls;
	uint64_t due_ns;
};

struct vcache {
	struct xk_protocol protocol;
	uint64_t time_ns, entries;
	uint64_t seed;
	unsigned bucket_mask;
	struct xk_event timer; /* pending while there are entries */
	struct xk_lock lock;   /* of what follows */
	struct vcache_entry **buckets;
	struct vcache_entry *first, *last;
	unsigned count;
};

struct vcache_session {
	struct xk_session session;
	bool opened;       /* actively, with this key; under the lock until it is closed */
	_Atomic bool dead; /* of no use to anybody else */
	struct vcache_key key;
};

static inline struct vcache *
vcache_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct vcache, protocol);
}

static inline struct vcache_session *
vcache_session_of(struct xk_session *s)
{
	return xk_container_of(s, struct vcache_session, session);
}

/* ---- keys ---- */

static bool
vcache_same_key(const struct vcache_key *a, const struct vcache_key *b)
{
	return a->hlp_receive == b->hlp_receive && a->hlp_type == b->hlp_type &&
	       xk_participants_equal(&a->participants, &b->participants);
}

static struct vcache_entry **
vcache_bucket(struct vcache *vcache, const struct vcache_key *key)
{
	return &vcache->buckets[xk_participants_hash(&key->participants, vcache->seed) >> 32 & vcache->bucket_mask];
}

/* ---- what is kept; the lock is held ---- */

static struct vcache_entry *
vcache_find(struct vcache *vcache, const struct vcache_key *key)
{
	struct vcache_entry *entry = *vcache_bucket(vcache, key);

	while (entry != NULL && !vcache_same_key(&entry->key, key))
		entry = entry->bucket_next;
	return entry;
}

static void
vcache_append(struct vcache *vcache, struct vcache_entry *entry)
{
	struct vcache_entry **bucket = vcache_bucket(vcache, &entry->key);

	entry->bucket_next = *bucket;
	*bucket = entry;
	entry->next = NULL;
	entry->previous = vcache->last;
	if (vcache->last != NULL)
		vcache->last->next = entry;
	else
		vcache->first = entry;
	vcache->last = entry;
	vcache->count++;
}

static void
vcache_remove(struct vcache *vcache, struct vcache_entry *entry)
{
	struct vcache_entry **at = vcache_bucket(vcache, &entry->key);

	while (*at != entry)
		at = &(*at)->bucket_next;
	*at = entry->bucket_next;
	if (entry->previous != NULL)
		entry->previous->next = entry->next;
	else
		vcache->first = entry->next;
	if (entry->next != NULL)
		entry->next->previous = entry->previous;
	else
		vcache->last = entry->previous;
	vcache->count--;
}

static void
vcache_schedule(struct vcache *vcache, uint64_t now_ns)
{
	uint64_t due_ns = vcache->first->due_ns;

	xk_event_schedule(&vcache->timer, due_ns <= now_ns ? 0 : xk_us_of_ns(due_ns - now_ns));
}

/* ---- ... and without the lock ---- */

static void
vcache_free(struct vcache_entry *entry)
{
	xk_close(entry->lls);
	free(entry);
}

/* The first of those that are due, not kept any more, to be freed by the caller; NULL: none is. */
static struct vcache_entry *
vcache_take_due(struct vcache *vcache)
{
	uint64_t now_ns = xk_now_ns(&vcache->protocol);
	struct vcache_entry *entry;

	xk_lock(&vcache->lock);
	entry = vcache->first;
	if (entry != NULL && entry->due_ns > now_ns) {
		vcache_schedule(vcache, now_ns);
		entry = NULL;
	}
	if (entry != NULL)
		vcache_remove(vcache, entry);
	xk_unlock(&vcache->lock);
	return entry;
}

static void
vcache_expire(struct xk_event *event, void *argument)
{
	struct vcache *vcache = argument;
	struct vcache_entry *entry;

	(void)event;
	while ((entry = vcache_take_due(vcache)) != NULL) {
		xk_count(&vcache->protocol, VCACHE_EXPIRED);
		vcache_free(entry);
	}
}

/* Keeps entry, unless there is one of its key. What has to go for it (or it itself), to be freed by the caller; or NULL. */
static struct vcache_entry *
vcache_keep(struct vcache *vcache, struct vcache_entry *entry)
{
	uint64_t now_ns = xk_now_ns(&vcache->protocol);
	struct vcache_entry *out = NULL;

	entry->due_ns = now_ns + vcache->time_ns;
	xk_lock(&vcache->lock);
	if (vcache_find(vcache, &entry->key) != NULL) {
		xk_unlock(&vcache->lock);
		return entry;
	}
	if (vcache->count >= vcache->entries) {
		out = vcache->first;
		vcache_remove(vcache, out);
		xk_count(&vcache->protocol, VCACHE_PUSHED_OUT);
	}
	vcache_append(vcache, entry);
	if (vcache->count == 1)
		vcache_schedule(vcache, now_ns);
	xk_unlock(&vcache->lock);
	xk_count(&vcache->protocol, VCACHE_KEPT);
	return out;
}

/* What is kept for key, not kept any more, to be freed by the caller; or NULL. */
static struct vcache_entry *
vcache_take(struct vcache *vcache, const struct vcache_key *key)
{
	struct vcache_entry *entry;

	xk_lock(&vcache->lock);
	entry = vcache_find(vcache, key);
	if (entry != NULL)
		vcache_remove(vcache, entry);
	xk_unlock(&vcache->lock);
	return entry;
}

/* ---- init and fini ---- */

static int
vcache_init(struct xk_protocol *self)
{
	struct vcache *vcache = vcache_of(self);
	unsigned buckets = 1;

	while (buckets < vcache->entries)
		buckets *= 2;
	vcache->bucket_mask = buckets - 1;
	vcache->buckets = calloc(buckets, sizeof(struct vcache_entry *));
	if (vcache->buckets == NULL)
		return -ENOMEM;
	vcache->seed = xk_random(self);
	xk_lock_init(&vcache->lock, self);
	xk_event_init(&vcache->timer, self->kernel, vcache_expire, vcache);
	return 0;
}

static void
vcache_fini(struct xk_protocol *self)
{
	struct vcache *vcache = vcache_of(self);

	xk_event_cancel(&vcache->timer);
	while (vcache->first != NULL) {
		struct vcache_entry *entry = vcache->first;

		vcache_remove(vcache, entry);
		vcache_free(entry);
	}
	free(vcache->buckets);
}

/* ---- opening and closing ---- */

/* A session on what is kept for key. 0; otherwise there is none, or none that can be used. */
static int
vcache_reuse(struct vcache *vcache, struct xk_protocol *hlp_receive, const struct vcache_key *key,
	     struct xk_session **session)
{
	struct vcache_entry *entry = vcache_take(vcache, key);
	int status;

	if (entry == NULL)
		return -ENOENT;
	status = xk_virtual_open_on(&vcache->protocol, hlp_receive, entry->lls, session);
	vcache_free(entry);
	return status;
}

static void
vcache_remember(struct vcache *vcache, struct vcache_session *vs, const struct vcache_key *key)
{
	xk_lock(&vcache->lock);
	if (!vs->opened)
		vs->key = *key;
	vs->opened = true;
	xk_unlock(&vcache->lock);
}

static int
vcache_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	    struct xk_participants *participants, struct xk_session **session)
{
	struct vcache *vcache = vcache_of(self);
	struct vcache_key key = { hlp_receive, hlp_type, *participants };
	bool reused = vcache_reuse(vcache, hlp_receive, &key, session) == 0;
	int status = reused ? 0 : xk_virtual_open(self, hlp_receive, hlp_type, participants, session);

	if (status != 0)
		return status;
	xk_count(self, reused ? VCACHE_REUSED : VCACHE_OPENED);
	vcache_remember(vcache, vcache_session_of(*session), &key);
	return 0;
}

static void
vcache_session_close(struct xk_session *s)
{
	struct vcache_session *vs = vcache_session_of(s);
	struct vcache_entry *entry;

	xk_virtual_session_close(s);
	if (!vs->opened || atomic_load_explicit(&vs->dead, memory_order_relaxed))
		return;
	entry = calloc(1, sizeof(*entry));
	if (entry == NULL)
		return;
	entry->key = vs->key;
	if (xk_duplicate(s->lls))
		entry->lls = s->lls;
	if (entry->lls != NULL)
		entry = vcache_keep(vcache_of(s->protocol), entry);
	if (entry != NULL)
		vcache_free(entry);
}

/* A session of the protocol below, which nobody uses, is of no use any more. */
static void
vcache_forget(struct vcache *vcache, const struct xk_session *lls)
{
	struct vcache_entry *entry;

	xk_lock(&vcache->lock);
	entry = vcache->first;
	while (entry != NULL && entry->lls != lls)
		entry = entry->next;
	if (entry != NULL)
		vcache_remove(vcache, entry);
	xk_unlock(&vcache->lock);
	if (entry == NULL)
		return;
	xk_count(&vcache->protocol, VCACHE_DIED);
	vcache_free(entry);
}

static void
vcache_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct xk_session *s = atomic_load_explicit(&session->above, memory_order_acquire);

	if (s != NULL)
		atomic_store_explicit(&vcache_session_of(s)->dead, true, memory_order_relaxed);
	vcache_forget(vcache_of(self), session);
	xk_virtual_close_done(self, session);
}

/* ---- down ---- */

static int
vcache_push(struct xk_session *s, struct xk_msg *m)
{
	int status = xk_push(s->lls, m);

	if (xk_unlikely(status == -ECONNRESET || status == -ETIMEDOUT))
		atomic_store_explicit(&vcache_session_of(s)->dead, true, memory_order_relaxed);
	return status;
}

/* ---- tables ---- */

static const struct xk_session_ops vcache_session_ops = {
	.size = sizeof(struct vcache_session),
	.push = vcache_push,
	.pop = xk_pop_through,
	.close = vcache_session_close,
};

static const struct xk_protocol_ops vcache_ops = {
	.init = vcache_init,
	.fini = vcache_fini,
	.open = vcache_open,
	.open_enable = xk_virtual_open_enable,
	.open_disable = xk_virtual_open_disable,
	.open_done = xk_virtual_open_done,
	.close_done = vcache_close_done,
	.demux = xk_virtual_demux,
};

static const struct xk_role vcache_lowers[] = {
	{ "lower", XK_ASYNC, NULL, "whose sessions are worth keeping" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting vcache_settings[] = {
	{ "time", XK_SETTING_TIME, offsetof(struct vcache, time_ns), "20s", "for which a closed session is kept", 1000,
	  UINT64_C(3600000000000) },
	{ "entries", XK_SETTING_UINT, offsetof(struct vcache, entries), "64",
	  "sessions that are kept, at most; the one closed first makes room", 1, 4096 },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const char *const vcache_counters[] = { "opened", "reused", "kept", "expired", "pushed_out", "died", NULL };

const struct xk_protocol_type xk_type_vcache = {
	.name = "vcache",
	.help = "Keeps sessions for a time after they were closed, for whoever opens them again. No header; for any "
		"edge.",
	.ops = &vcache_ops,
	.session_ops = &vcache_session_ops,
	.size = sizeof(struct vcache),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL,
	.lowers = vcache_lowers,
	.settings = vcache_settings,
	.counters = vcache_counters,
	.session_max = 256,
};
