/*
 * vcache.c - keeps sessions open for a time after they were closed, so that opening them again is cheap: no address is
 * resolved, no boot id confirmed. A virtual protocol, without a header; for any edge that is opened and closed often.
 *
 * Participants: those of the protocol below. A kept session serves opens by the same hlps with the same participants.
 * Sessions:     each stands on one of the protocol below. When an actively opened one is closed, the session below is
 *               kept for `time`, one for the same participants, and the next open stands on it. Dead sessions are not
 *               kept: those for which close_done was called, or a push returned -ECONNRESET or -ETIMEDOUT. Passive
 *               sessions are kept as in every protocol (`sessions`).
 * While kept:   a message that comes up the session below makes a new session if its type is enabled, and is dropped
 *               otherwise.
 * A new user:   receives messages in flight to the previous one (a late reply to the same port, say), as from
 *               any protocol whose sessions have no identity
 * Not done:     calls (RPC): VCHAN keeps channels
 * Graph:        udptest -> vcache; vcache -> udp; or any other edge
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "xkernel/event.h"
#include "xkernel/support/virtual.h"

#define VCACHE_COUNTERS(C)                                                                                             \
	C(VCACHE_OPENED, "opened") /* by the protocol below */                                                         \
	C(VCACHE_REUSED, "reused") /* opened on a kept session */                                                      \
	C(VCACHE_KEPT, "kept")                                                                                         \
	C(VCACHE_EXPIRED, "expired")                                                                                   \
	C(VCACHE_PUSHED_OUT, "pushed_out") /* by younger entries */                                                    \
	C(VCACHE_DIED, "died")             /* closed by the peer while kept */
XK_COUNTERS(vcache, VCACHE_COUNTERS);

/* The hlps and participants of an open. */
struct vcache_key {
	const struct xk_protocol *hlp_receive, *hlp_type;
	struct xk_participants participants;
};

/* A kept session below, and a reference on it. */
struct vcache_entry {
	TAILQ_ENTRY(vcache_entry) by_age;
	struct vcache_key key;
	struct xk_session *lls;
	uint64_t due_ns;
};

TAILQ_HEAD(vcache_entries, vcache_entry);

struct vcache {
	struct xk_protocol protocol;
	uint64_t time_ns, entries;
	struct xk_event timer;        /* pending while there are entries */
	struct xk_lock lock;          /* protects what follows */
	struct vcache_entries oldest; /* in the order of their due times */
	unsigned count;
};

struct vcache_session {
	struct xk_session session;
	bool opened;       /* actively, with this key; under the lock until closed */
	_Atomic bool dead; /* of no use to a later open */
	struct vcache_key key;
};

/* ---- kept sessions; the lock is held ---- */

static struct vcache_entry *
vcache_find(struct vcache *vcache, const struct vcache_key *key)
{
	struct vcache_entry *entry;

	TAILQ_FOREACH(entry, &vcache->oldest, by_age)
	if (entry->key.hlp_receive == key->hlp_receive && entry->key.hlp_type == key->hlp_type &&
	    xk_participants_equal(&entry->key.participants, &key->participants))
		break;
	return entry;
}

static void
vcache_remove(struct vcache *vcache, struct vcache_entry *entry)
{
	TAILQ_REMOVE(&vcache->oldest, entry, by_age);
	vcache->count--;
}

static void
vcache_schedule(struct vcache *vcache, uint64_t now_ns)
{
	uint64_t due_ns = TAILQ_FIRST(&vcache->oldest)->due_ns;

	xk_event_schedule(&vcache->timer, due_ns <= now_ns ? 0 : xk_us_of_ns(due_ns - now_ns));
}

/* ---- kept sessions; the lock is not held ---- */

static void
vcache_free(struct vcache_entry *entry)
{
	xk_close(entry->lls);
	free(entry);
}

static void
vcache_expire(struct xk_event *event, void *argument)
{
	struct vcache *vcache = argument;
	struct vcache_entries due = TAILQ_HEAD_INITIALIZER(due);
	uint64_t now_ns = xk_now_ns(&vcache->protocol);
	struct vcache_entry *entry;

	(void)event;
	xk_lock(&vcache->lock);
	while ((entry = TAILQ_FIRST(&vcache->oldest)) != NULL && entry->due_ns <= now_ns) {
		vcache_remove(vcache, entry);
		TAILQ_INSERT_TAIL(&due, entry, by_age);
	}
	if (entry != NULL)
		vcache_schedule(vcache, now_ns);
	xk_unlock(&vcache->lock);
	while ((entry = TAILQ_FIRST(&due)) != NULL) {
		TAILQ_REMOVE(&due, entry, by_age);
		xk_count(&vcache->protocol, VCACHE_EXPIRED);
		vcache_free(entry);
	}
}

/* Keeps entry, unless its key has one. Returns an entry to free (pushed out, or this one), or NULL. */
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
		out = TAILQ_FIRST(&vcache->oldest);
		vcache_remove(vcache, out);
		xk_count(&vcache->protocol, VCACHE_PUSHED_OUT);
	}
	TAILQ_INSERT_TAIL(&vcache->oldest, entry, by_age);
	if (++vcache->count == 1)
		vcache_schedule(vcache, now_ns);
	xk_unlock(&vcache->lock);
	xk_count(&vcache->protocol, VCACHE_KEPT);
	return out;
}

/* ---- init and fini ---- */

static int
vcache_init(struct xk_protocol *self)
{
	struct vcache *vcache = (struct vcache *)self;

	TAILQ_INIT(&vcache->oldest);
	xk_lock_init(&vcache->lock, self);
	xk_event_init(&vcache->timer, self->kernel, vcache_expire, vcache);
	return 0;
}

static void
vcache_fini(struct xk_protocol *self)
{
	struct vcache *vcache = (struct vcache *)self;
	struct vcache_entry *entry;

	xk_event_cancel(&vcache->timer);
	while ((entry = TAILQ_FIRST(&vcache->oldest)) != NULL) {
		vcache_remove(vcache, entry);
		vcache_free(entry);
	}
}

/* ---- opening and closing ---- */

static int
vcache_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	    struct xk_participants *participants, struct xk_session **session)
{
	struct vcache *vcache = (struct vcache *)self;
	struct vcache_key key = { hlp_receive, hlp_type, *participants };
	struct vcache_session *s;
	struct vcache_entry *entry;
	bool reused = false;
	int err = 0;

	xk_lock(&vcache->lock);
	entry = vcache_find(vcache, &key);
	if (entry != NULL)
		vcache_remove(vcache, entry);
	xk_unlock(&vcache->lock);
	if (entry != NULL) {
		reused = xk_virtual_open_on(self, hlp_receive, entry->lls, session) == 0;
		vcache_free(entry);
	}
	if (!reused)
		err = xk_virtual_open(self, hlp_receive, hlp_type, participants, session);
	if (err != 0)
		return err;
	xk_count(self, reused ? VCACHE_REUSED : VCACHE_OPENED);
	s = (struct vcache_session *)*session;
	xk_lock(&vcache->lock);
	if (!s->opened)
		s->key = key;
	s->opened = true;
	xk_unlock(&vcache->lock);
	return 0;
}

static void
vcache_close(struct xk_session *session)
{
	struct vcache_session *s = (struct vcache_session *)session;
	struct vcache_entry *entry;

	xk_virtual_session_close(session);
	if (!s->opened || atomic_load_explicit(&s->dead, memory_order_relaxed))
		return;
	entry = calloc(1, sizeof(*entry));
	if (entry == NULL)
		return;
	entry->key = s->key;
	if (xk_duplicate(session->lls)) {
		entry->lls = session->lls;
		entry = vcache_keep((struct vcache *)session->protocol, entry);
	}
	if (entry != NULL)
		vcache_free(entry);
}

/* Forgets the entry of a session that the peer has closed. */
static void
vcache_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct vcache *vcache = (struct vcache *)self;
	struct xk_session *s = xk_session_above(session);
	struct vcache_entry *entry;

	if (s != NULL)
		atomic_store_explicit(&((struct vcache_session *)s)->dead, true, memory_order_relaxed);
	xk_lock(&vcache->lock);
	entry = TAILQ_FIRST(&vcache->oldest);
	while (entry != NULL && entry->lls != session)
		entry = TAILQ_NEXT(entry, by_age);
	if (entry != NULL)
		vcache_remove(vcache, entry);
	xk_unlock(&vcache->lock);
	if (entry != NULL) {
		xk_count(self, VCACHE_DIED);
		vcache_free(entry);
	}
	xk_virtual_close_done(self, session);
}

/* ---- down ---- */

static int
vcache_push(struct xk_session *session, struct xk_msg *m)
{
	int status = xk_push(session->lls, m);

	if (xk_unlikely(status == -ECONNRESET || status == -ETIMEDOUT))
		atomic_store_explicit(&((struct vcache_session *)session)->dead, true, memory_order_relaxed);
	return status;
}

/* ---- tables ---- */

static const struct xk_session_ops vcache_session_ops = {
	.size = sizeof(struct vcache_session),
	.push = vcache_push,
	.pop = xk_pop_through,
	.close = vcache_close,
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

static const struct xk_setting vcache_settings[] = {
	XK_SETTING(TIME, struct vcache, time_ns, "time", "time to keep a closed session", .initial = "20s", .min = 1000,
		   .max = UINT64_C(3600000000000)),
	XK_SETTING(UINT, struct vcache, entries, "entries",
		   "maximum number of sessions kept; the one closed first makes room", .initial = "64", .min = 1,
		   .max = 4096),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_vcache = {
	.name = "vcache",
	.help = "Keeps sessions for a time after they were closed, for whoever opens them again. No header; for any "
		"edge.",
	.ops = &vcache_ops,
	.session_ops = &vcache_session_ops,
	.size = sizeof(struct vcache),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL,
	.lowers = XK_ROLES({ "lower", XK_ASYNC, NULL, "opens the sessions to keep" }),
	.settings = vcache_settings,
	.counters = vcache_counters,
	.session_max = 256,
};
