/*
 * chan_peer.c - what CHAN knows of another host: which ends of channels speak with it, and the numbers of the channels that
 * were closed. That, and what servers' ends remember, holds for one boot of the host; BIDCTL says when it is void.
 *
 *     rebooted       clients' ends fail their calls, and are of no use any more; servers' ends are forgotten at once, and
 *                    what a handler of theirs still replies is suppressed; numbers are forgotten
 *     lost           clients' ends fail; servers' ends and numbers stay, since the host may be alive, and may even have
 *                    requests under way that were run
 *     first contact  nothing, if it is still the boot that was lost; otherwise as rebooted
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/chan/chan_private.h"
#include "xkernel/trace.h"

#define CHAN_MINUTE_NS UINT64_C(60000000000)

enum { CHAN_HOSTS = 16 }; /* hosts that are expected; there may be more */

static struct xk_key
chan_peer_key(uint32_t host)
{
	return (struct xk_key){ host, 0 };
}

/* ---- peers come and go; the lock is held ---- */

static struct chan_peer *
chan_peer_new(struct chan *chan, uint32_t host)
{
	struct chan_peer *peer = calloc(1, sizeof(*peer));

	if (peer == NULL)
		return NULL;
	peer->chan = chan;
	peer->host = host;
	peer->minute_ns = xk_now_ns(&chan->protocol);
	peer->idle_last = &peer->idle;
	peer->clients.last = &peer->clients.first;
	peer->servers.last = &peer->servers.first;
	if (xk_map_bind(&chan->peers, &peer->binding, chan_peer_key(host), peer) != 0) {
		free(peer);
		return NULL;
	}
	return peer;
}

static void
chan_peer_release(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct chan_peer, retired));
}

void
chan_peer_free_unused(struct chan_peer *peer)
{
	if (peer->references > 0 || peer->idle != NULL || peer->holder.memories > 0)
		return;
	chan_share_leave(peer);
	xk_map_unbind(&peer->chan->peers, &peer->binding);
	xk_retire(peer->chan->protocol.kernel, &peer->retired, chan_peer_release);
}

/* ---- numbers; the lock is held ---- */

/* Where the number of an idle channel of that protocol is that may be used. NULL: there is none. */
static struct chan_idle **
chan_peer_find_number(struct chan_peer *peer, uint32_t number)
{
	struct chan_idle **at = &peer->idle;
	uint64_t now_ns = xk_now_ns(&peer->chan->protocol);

	while (*at != NULL && (*at)->number != number && (*at)->rests_ns <= now_ns)
		at = &(*at)->next;
	return *at != NULL && (*at)->rests_ns <= now_ns ? at : NULL;
}

/* A channel for the end of a client: an idle one of its protocol, or else a new one. */
static void
chan_peer_number(struct chan_peer *peer, struct chan_end *e)
{
	struct chan *chan = peer->chan;
	struct chan_idle **at = chan_peer_find_number(peer, e->number), *idle;

	if (at == NULL) {
		e->channel = chan->next_channel++;
		return;
	}
	idle = *at;
	e->channel = idle->channel;
	e->sequence = idle->sequence;
	*at = idle->next;
	if (idle->next == NULL)
		peer->idle_last = at;
	chan->idle_count--;
	free(idle);
}

/*
 * A number that is not kept is not used again, so that it does not matter what servers remember of it. Those that rest leave
 * room for others.
 */
static void
chan_peer_keep_number(struct chan_peer *peer, const struct chan_end *e, bool rests)
{
	struct chan *chan = peer->chan;
	uint64_t most = rests ? chan->idle_max / 2 : chan->idle_max;
	struct chan_idle *idle = chan->idle_count < most ? malloc(sizeof(*idle)) : NULL;
	struct chan_idle **at = rests ? peer->idle_last : &peer->idle;

	if (idle == NULL)
		return;
	*idle = (struct chan_idle){ *at, e->number, e->channel, e->sequence,
				    rests ? xk_now_ns(&chan->protocol) + chan->lifetime_ns : 0 };
	*at = idle;
	if (idle->next == NULL)
		peer->idle_last = &idle->next;
	chan->idle_count++;
}

static void
chan_peer_forget_numbers(struct chan_peer *peer)
{
	struct chan_idle *idle;

	while ((idle = peer->idle) != NULL) {
		peer->idle = idle->next;
		peer->chan->idle_count--;
		free(idle);
	}
	peer->idle_last = &peer->idle;
}

/* ---- ends ---- */

/* The lock is held. */
static void
chan_peer_link(struct chan_peer *peer, struct chan_end *e)
{
	e->peer = peer;
	peer->references++;
	chan_ends_add(e->is_server ? &peer->servers : &peer->clients, e);
	if (e->is_server)
		chan_share_add(peer, 1);
}

void
chan_peer_unlink(struct chan_end *e)
{
	chan_ends_remove(e->is_server ? &e->peer->servers : &e->peer->clients, e);
	if (e->is_server)
		chan_share_add(e->peer, -1);
}

/* An end that joins its host: what is known of the host, and the ends that were evicted for it. */
struct chan_joining {
	uint64_t host, station, boot;
	struct chan_end *evicted;
};

/* Makes room for e, a server's end of peer. Returns as chan_peer_join. The lock is held. */
static int
chan_peer_admit(struct chan_peer *peer, const struct chan_end *e, struct chan_joining *joining)
{
	const struct chan *chan = peer->chan;
	struct chan_memory *memory = chan_share_recall(peer, e);
	int err = chan_share_join(peer, joining->station);

	if (err != 0)
		return err;
	if (memory != NULL && (int32_t)(e->sequence + 1 - memory->sequence) <= 0)
		return -EALREADY;
	if (memory == NULL && peer->holder.ends + peer->holder.memories >= chan->peer_channels)
		return -ENOBUFS;
	err = chan_share_admit(peer, &joining->evicted);
	if (err == 0 && memory != NULL)
		chan_share_drop(peer, chan_share_recall(peer, e)); /* which may lie elsewhere now */
	return err;
}

/* The lock is held. */
static int
chan_peer_join_host(struct chan *chan, struct chan_end *e, struct chan_joining *joining)
{
	uint32_t host = (uint32_t)joining->host;
	struct chan_peer *peer = xk_map_resolve(&chan->peers, chan_peer_key(host));
	int err = 0;

	if (peer == NULL)
		peer = chan_peer_new(chan, host);
	if (peer == NULL)
		return -ENOMEM;
	if (e->is_server)
		err = chan_peer_admit(peer, e, joining);
	if (err != 0) {
		chan_peer_free_unused(peer);
		return err;
	}
	if (peer->boot == 0)
		peer->boot = joining->boot;
	if (!e->is_server)
		chan_peer_number(peer, e);
	e->boot = joining->boot != 0 ? joining->boot : peer->boot;
	chan_peer_link(peer, e);
	return 0;
}

/* Disables ends that are out of their lists, and gives back the reference on each. */
static void
chan_peer_disable(struct chan_end *clients, struct chan_end *servers)
{
	struct chan_end *e;

	while ((e = clients) != NULL) {
		clients = e->next;
		chan_client_disable((struct chan_client *)e);
		xk_session_release(&e->session);
	}
	while ((e = servers) != NULL) {
		servers = e->next;
		chan_server_disable((struct chan_server *)e);
		xk_session_release(&e->session);
	}
}

static uint64_t
chan_peer_changes(struct chan *chan)
{
	uint64_t changes;

	xk_lock(&chan->lock);
	changes = chan->changes;
	xk_unlock(&chan->lock);
	return changes;
}

/*
 * BIDCTL is asked without the lock, so once more if it has told of something meanwhile. What it tells of later voids e
 * like any other end.
 */
int
chan_peer_join(struct chan_end *e, uint64_t boot)
{
	struct chan *chan = chan_of(e);
	struct chan_joining joining = { .evicted = NULL };
	int err = xk_control(e->session.lls, XK_GET_PEER_HOST, &joining.host, sizeof(joining.host));
	uint64_t *known = &joining.boot, changes;
	bool holds = false;

	if (e->is_server && xk_control(e->session.lls, XK_GET_PEER_LINK, &joining.station, sizeof(joining.station)) < 0)
		joining.station = 0;
	while (err >= 0 && !holds) {
		changes = chan_peer_changes(chan);
		xk_bidctl_known(xk_lower(&chan->protocol, 1), (uint32_t)joining.host, known);
		if (boot != 0 && boot != *known)
			return -ESTALE;
		xk_lock(&chan->lock);
		holds = chan->changes == changes;
		if (holds)
			err = chan_peer_join_host(chan, e, &joining);
		xk_unlock(&chan->lock);
	}
	chan_peer_disable(NULL, joining.evicted);
	return err < 0 ? err : 0;
}

void
chan_peer_leave(struct chan_end *e)
{
	struct chan *chan = chan_of(e);
	bool rests;

	if (e->peer == NULL)
		return;
	xk_lock(&e->lock); /* a late reply may be looking at it */
	rests = !e->is_server && chan_client_is_in_doubt((const struct chan_client *)e);
	xk_unlock(&e->lock);
	xk_lock(&chan->lock);
	if (e->at != NULL) {
		chan_peer_unlink(e);
		if (!e->is_server && !e->disabled && e->session.map != NULL)
			chan_peer_keep_number(e->peer, e, rests);
	}
	e->peer->references--;
	chan_peer_free_unused(e->peer);
	xk_unlock(&chan->lock);
}

/* ---- how much is kept ---- */

static bool
chan_peer_add(_Atomic uint64_t *sum, uint64_t cost, uint64_t max)
{
	if (atomic_fetch_add_explicit(sum, cost, memory_order_relaxed) + cost <= max)
		return true;
	atomic_fetch_sub_explicit(sum, cost, memory_order_relaxed);
	return false;
}

/*
 * A network may use at most as many bytes as are free. So n networks that never acknowledge leave one part in n + 1 to
 * all others, while a network whose hosts acknowledge gets what it needs of that.
 */
bool
chan_peer_save(struct chan_peer *peer, uint64_t cost)
{
	struct chan *chan = peer->chan;
	struct chan_holder *network = peer->holder.above;
	uint64_t saved = atomic_load_explicit(&chan->saved, memory_order_relaxed);

	if (!chan_peer_add(&peer->saved, cost, chan->peer_saved_max))
		return false;
	if (saved < chan->saved_max && chan_peer_add(&network->saved, cost, chan->saved_max - saved)) {
		if (chan_peer_add(&chan->saved, cost, chan->saved_max))
			return true;
		atomic_fetch_sub_explicit(&network->saved, cost, memory_order_relaxed);
	}
	atomic_fetch_sub_explicit(&peer->saved, cost, memory_order_relaxed);
	return false;
}

void
chan_peer_unsave(struct chan_peer *peer, uint64_t cost)
{
	atomic_fetch_sub_explicit(&peer->saved, cost, memory_order_relaxed);
	atomic_fetch_sub_explicit(&peer->holder.above->saved, cost, memory_order_relaxed);
	atomic_fetch_sub_explicit(&peer->chan->saved, cost, memory_order_relaxed);
}

/* ---- how much is sent again ---- */

bool
chan_peer_may_repeat(struct chan_peer *peer, uint64_t bytes, uint64_t now_ns)
{
	uint64_t first = atomic_load_explicit(&peer->first, memory_order_relaxed);
	bool may;

	if (!xk_lock_try(&peer->chan->lock))
		return false;
	if (now_ns - peer->minute_ns >= CHAN_MINUTE_NS) {
		peer->minute_ns = now_ns;
		/* this message, which may have been sent before the minute began, counts as sent in it */
		peer->first_before = first - (bytes < first ? bytes : first);
		peer->repeated = 0;
	}
	may = peer->repeated + bytes <= CHAN_REPEATED_BYTES * (first - peer->first_before);
	peer->repeated += may ? bytes : 0;
	xk_unlock(&peer->chan->lock);
	return may;
}

/* ---- what BIDCTL tells ---- */

/* All ends of a list, out of it, each with a reference; those that are being closed are left to it. The lock is held. */
static struct chan_end *
chan_peer_take(struct chan_ends *ends)
{
	struct chan_end *taken = NULL, **last = &taken, *e;

	while ((e = ends->first) != NULL) {
		chan_peer_unlink(e);
		if (!xk_duplicate(&e->session))
			continue;
		e->next = NULL;
		*last = e;
		last = &e->next;
	}
	return taken;
}

void
chan_peer_changed(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change,
		  const struct xk_bidctl_peer *changed)
{
	struct chan *chan = (struct chan *)watcher->protocol;
	struct chan_end *clients = NULL, *servers = NULL;
	struct chan_peer *peer;
	bool is_void;

	xk_lock(&chan->lock);
	chan->changes++;
	peer = xk_map_resolve(&chan->peers, chan_peer_key(changed->host));
	if (peer != NULL) {
		is_void = change == XK_BIDCTL_REBOOTED ||
			  (change == XK_BIDCTL_FIRST_CONTACT && peer->boot != 0 && peer->boot != changed->boot);
		if (is_void || change == XK_BIDCTL_LOST)
			clients = chan_peer_take(&peer->clients);
		if (is_void) {
			servers = chan_peer_take(&peer->servers);
			chan_peer_forget_numbers(peer);
			chan_share_forget(peer);
		}
		if (changed->boot != 0)
			peer->boot = changed->boot;
		chan_peer_free_unused(peer);
	}
	xk_unlock(&chan->lock);
	chan_peer_disable(clients, servers);
}

/* ---- init and fini ---- */

int
chan_peer_init(struct chan *chan)
{
	int err = xk_map_init(&chan->peers, chan->protocol.kernel, CHAN_HOSTS);

	if (err != 0)
		return err;
	err = xk_map_init(&chan->groups, chan->protocol.kernel, CHAN_HOSTS);
	if (err != 0)
		xk_map_fini(&chan->peers);
	return err;
}

static void
chan_peer_forget(void *object, void *context)
{
	struct chan_peer *peer = object;

	chan_peer_forget_numbers(peer);
	chan_share_forget(peer);
	chan_peer_free_unused(peer);
}

void
chan_peer_fini(struct chan *chan)
{
	xk_map_for_each(&chan->peers, chan_peer_forget, NULL);
	xk_map_fini(&chan->peers);
	xk_map_fini(&chan->groups);
}
