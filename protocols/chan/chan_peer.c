/*
 * chan_peer.c - other hosts: their ends of channels, their closed and evicted channels, what was sent to them again,
 * and how they share a server's channels. All of it belongs to one boot of a host. BIDCTL reports that a host
 *
 *     rebooted       clients' ends fail their calls and stay unusable; the rest is forgotten, and replies of handlers
 *                    that still run are suppressed
 *     is lost        clients' ends fail; the rest stays: the host may be alive, and requests that were run may
 *                    still be in flight
 *     is met         nothing changes if it is the boot that was lost; otherwise as for a reboot
 *
 * When all `channels` are in use, a new channel evicts one of the client that has the most (share.h). The comparison
 * goes from stations (link addresses) through their networks (256 addresses each) to the hosts in a network, so 64
 * addresses of one machine count as one station, and a host below an equal share loses nothing. If none has more than
 * the newcomer would have, one of its own goes. A host also costs channels / hosts - 1 channels, so that this table
 * fills before those of BID and BIDCTL: these remember each client for CHAN's sake, and cannot report that they are
 * full.
 *
 * A host loses its oldest idle channel; to another host also one whose reply is not acknowledged; never one whose
 * handler runs. The channel's number and sequence are remembered for `lifetime`, so that nothing runs twice.
 */
#include <stdlib.h>

#include "protocols/chan/chan_private.h"

enum {
	CHAN_NETWORK_BITS = 8, /* low bits of an address: the host within its network */
	CHAN_TRIED = 32,       /* channels of a host that are tried for eviction */
	CHAN_MEMORIES = 16,    /* memories per `channels`; half of that if a host evicts its own channels */
};

/* ---- lists of past channels; the lock is held ---- */

/* Makes room for one more. Returns false if there is no memory. */
static bool
chan_pasts_reserve(struct chan_pasts *pasts)
{
	struct chan_past *list = realloc(pasts->list, (pasts->count + 1) * sizeof(*list));

	if (list != NULL)
		pasts->list = list;
	return list != NULL;
}

static void
chan_pasts_add(struct chan_pasts *pasts, const struct chan_end *e, uint64_t until_ns)
{
	pasts->list[pasts->count++] = (struct chan_past){ e->number, e->channel, e->sequence, until_ns };
}

/* Removes `count` of the list from *first on. */
static void
chan_pasts_remove(struct chan_pasts *pasts, struct chan_past *first, unsigned count)
{
	if (count == 0)
		return;
	pasts->count -= count;
	memmove(first, first + count, (size_t)(pasts->list + pasts->count - first) * sizeof(*first));
	if (pasts->count > 0)
		return;
	free(pasts->list);
	*pasts = (struct chan_pasts){ .list = NULL };
}

static void
chan_memory_drop(struct chan_peer *peer, struct chan_past *first, unsigned count)
{
	chan_pasts_remove(&peer->evicted, first, count);
	peer->chan->memories -= count;
}

/* Returns what is remembered of the channel of e, a new end. NULL: nothing. */
static struct chan_past *
chan_memory_find(const struct chan_peer *peer, const struct chan_end *e)
{
	for (unsigned i = 0; i < peer->evicted.count; i++)
		if (peer->evicted.list[i].channel == e->channel && peer->evicted.list[i].number == e->number)
			return &peer->evicted.list[i];
	return NULL;
}

/* ---- peers come and go; the lock is held ---- */

/* Returns the peer for a host, new if there is none. NULL: no memory. */
static struct chan_peer *
chan_peer_get(struct chan *chan, uint32_t host)
{
	struct xk_key key = { host, 0 };
	struct chan_peer *peer = xk_map_resolve(&chan->peers, key);

	if (peer != NULL)
		return peer;
	peer = calloc(1, sizeof(*peer));
	if (peer == NULL || xk_map_bind(&chan->peers, &peer->binding, key, peer) != 0) {
		free(peer);
		return NULL;
	}
	peer->chan = chan;
	peer->host = host;
	peer->again.minute_ns = xk_now_ns(&chan->protocol);
	TAILQ_INIT(&peer->ends[false]);
	TAILQ_INIT(&peer->ends[true]);
	return peer;
}

static void
chan_peer_release(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct chan_peer, retired));
}

/* Frees the peer if it has no ends and nothing is remembered of it. */
static void
chan_peer_free_unused(struct chan_peer *peer)
{
	struct chan *chan = peer->chan;

	if (peer->references > 0 || peer->idle.count > 0 || peer->evicted.count > 0)
		return;
	free(peer->evicted.list); /* room that was reserved for an eviction that failed */
	if (peer->own.of != NULL)
		xk_share_exit(&peer->own);
	xk_shares_leave(&chan->shares, peer->own.of);
	xk_shares_leave(&chan->saved, peer->saved);
	xk_map_unbind(&chan->peers, &peer->binding);
	xk_retire(chan->protocol.kernel, &peer->retired, chan_peer_release);
}

/* Makes the peer a client behind that station, unless it is one. Returns 0 or -ENOMEM. */
static int
chan_peer_become_client(struct chan_peer *peer, uint64_t station)
{
	struct chan *chan = peer->chan;
	const struct xk_key within[] = { { station, 0 }, { station, 1 + (peer->host >> CHAN_NETWORK_BITS) } };

	if (peer->own.of != NULL)
		return 0;
	if (peer->saved == NULL && (peer->saved = xk_shares_join(&chan->saved, &within[1], 1)) == NULL)
		return -ENOMEM;
	peer->own = (struct xk_share){ .of = xk_shares_join(&chan->shares, within, 2), .max = UINT32_MAX };
	if (peer->own.of == NULL)
		return -ENOMEM;
	xk_share_enter(&peer->own);
	return 0;
}

/* Forgets which channels are closed or were evicted. */
static void
chan_peer_forget(struct chan_peer *peer)
{
	peer->chan->idle_count -= peer->idle.count;
	chan_memory_drop(peer, peer->evicted.list, peer->evicted.count);
	chan_pasts_remove(&peer->idle, peer->idle.list, peer->idle.count);
}

/* Returns what one more channel of peer costs, in channels. */
static uint32_t
chan_peer_cost(const struct chan_peer *peer)
{
	return 1 + (peer->served == 0 ? peer->chan->host_cost : 0);
}

static void
chan_peer_unlink(struct chan_end *e)
{
	struct chan_peer *peer = e->peer;

	TAILQ_REMOVE(&peer->ends[e->is_server], e, beside);
	e->listed = false;
	if (e->is_server) {
		peer->served--;
		xk_share_give(&peer->own, chan_peer_cost(peer));
	}
}

/* Moves all ends of a list to *taken, each with a reference. Those that are being closed are only taken out. */
static void
chan_peer_take_ends(struct chan_ends *ends, struct chan_ends *taken)
{
	struct chan_end *e;

	while ((e = TAILQ_FIRST(ends)) != NULL) {
		chan_peer_unlink(e);
		if (xk_duplicate(&e->session))
			TAILQ_INSERT_TAIL(taken, e, beside);
	}
}

/* Disables ends that were taken, and releases them. The lock is not held. */
static void
chan_peer_disable(struct chan_ends *taken)
{
	struct chan_end *e;

	while ((e = TAILQ_FIRST(taken)) != NULL) {
		TAILQ_REMOVE(taken, e, beside);
		chan_end_disable(e);
		xk_session_release(&e->session);
	}
}

/* ---- shares of a server's channels; the lock is held ---- */

/*
 * Returns the channel of peer to evict, locked and referenced; any: its reply need not be acknowledged. NULL: none.
 * Tries some channels, idle ones first, and begins with others the next time.
 */
static struct chan_end *
chan_share_choose(struct chan_peer *peer, bool any)
{
	struct chan_ends *ends = &peer->ends[true];
	unsigned count = peer->served < CHAN_TRIED ? peer->served : CHAN_TRIED;

	for (unsigned i = 0; i < (any ? 2 * count : count); i++) {
		struct chan_end *e = TAILQ_FIRST(ends);

		TAILQ_REMOVE(ends, e, beside);
		TAILQ_INSERT_TAIL(ends, e, beside);
		if (!xk_lock_try(&e->lock))
			continue;
		if (!e->disabled && (e->state == CHAN_IDLE || (i >= count && e->state == CHAN_SENT)) &&
		    xk_duplicate(&e->session))
			return e;
		xk_unlock(&e->lock);
	}
	return NULL;
}

/* Evicts one channel to make room for one of peer. Returns 0 or -errno. */
static int
chan_share_evict(struct chan_peer *peer, struct chan_ends *evicted)
{
	struct chan *chan = peer->chan;
	struct xk_share *share = xk_share_loser(&peer->own, chan_peer_cost(peer));
	struct chan_peer *loser = xk_container_of(share, struct chan_peer, own);
	struct chan_end *e;

	if (chan->memories >= CHAN_MEMORIES / (loser == peer ? 2 : 1) * chan->channels)
		return -ENOBUFS;
	if (!chan_pasts_reserve(&loser->evicted))
		return -ENOMEM;
	e = chan_share_choose(loser, loser != peer);
	if (e == NULL)
		return -ENOBUFS;
	e->disabled = true;
	chan_pasts_add(&loser->evicted, e, xk_now_ns(&chan->protocol) + chan->lifetime_ns);
	xk_unlock(&e->lock);
	if (chan->memories++ == 0)
		xk_event_schedule(&chan->forget, xk_us_of_ns(chan->lifetime_ns));
	chan_peer_unlink(e);
	TAILQ_INSERT_HEAD(evicted, e, beside);
	xk_count(&chan->protocol, CHAN_EVICTED);
	return 0;
}

/*
 * Makes room for e, a server's end, among those of peer, which is behind that station (0: unknown). Returns as
 * chan_peer_join. Ends that were evicted, also before an error, are for the caller to disable.
 */
static int
chan_share_admit(struct chan_peer *peer, const struct chan_end *e, uint64_t station, struct chan_ends *evicted)
{
	const struct chan *chan = peer->chan;
	struct chan_past *memory = chan_memory_find(peer, e);
	int err = chan_peer_become_client(peer, station);

	if (err != 0)
		return err;
	if (memory != NULL && (int32_t)(e->sequence + 1 - memory->sequence) <= 0)
		return -EALREADY;
	if (memory == NULL && peer->served + peer->evicted.count >= chan->peer_channels)
		return -ENOBUFS;
	while (!xk_share_take(&peer->own, chan_peer_cost(peer))) {
		err = chan_share_evict(peer, evicted);
		if (err != 0)
			return err;
	}
	peer->served++;
	if (memory != NULL)
		chan_memory_drop(peer, chan_memory_find(peer, e), 1); /* an eviction may have moved it */
	return 0;
}

/* ---- ends ---- */

/* Gives a client's end a channel: an idle one of its protocol, or a new one. The lock is held. */
static void
chan_peer_number(struct chan_peer *peer, struct chan_end *e)
{
	struct chan *chan = peer->chan;
	struct chan_past *found = NULL;
	uint64_t now_ns = xk_now_ns(&chan->protocol);

	/* the one closed last, or the oldest of those that had to rest */
	for (unsigned i = peer->idle.count; i-- > 0 && (found == NULL || found->until_ns != 0);) {
		struct chan_past *idle = &peer->idle.list[i];

		if (idle->number == e->number && idle->until_ns <= now_ns)
			found = idle;
	}
	if (found == NULL) {
		e->channel = chan->next_channel++;
		return;
	}
	e->channel = found->channel;
	e->sequence = found->sequence;
	chan_pasts_remove(&peer->idle, found, 1);
	chan->idle_count--;
}

int
chan_peer_join(struct chan_end *e, uint64_t boot)
{
	struct chan *chan = chan_of(e);
	struct xk_session *lls = e->session.lls;
	struct chan_ends evicted = TAILQ_HEAD_INITIALIZER(evicted);
	uint64_t host, station = 0, known, changes;
	struct chan_peer *peer;
	int err = xk_control(lls, XK_GET_PEER_HOST, &host);

	if (err < 0)
		return err;
	if (e->is_server && xk_control(lls, XK_GET_PEER_LINK, &station) < 0)
		station = 0;
	xk_lock(&chan->lock);
	do { /* BIDCTL is asked without the lock, so the answer must not be older than a change */
		changes = chan->changes;
		xk_unlock(&chan->lock);
		xk_bidctl_known(xk_lower(&chan->protocol, 1), (uint32_t)host, &known);
		if (boot != 0 && boot != known)
			return -ESTALE;
		xk_lock(&chan->lock);
	} while (chan->changes != changes);
	peer = chan_peer_get(chan, (uint32_t)host);
	err = peer == NULL ? -ENOMEM : e->is_server ? chan_share_admit(peer, e, station, &evicted) : 0;
	if (err == 0) {
		if (peer->boot == 0)
			peer->boot = known;
		e->boot = known != 0 ? known : peer->boot;
		e->peer = peer;
		peer->references++;
		TAILQ_INSERT_TAIL(&peer->ends[e->is_server], e, beside);
		e->listed = true;
		if (!e->is_server)
			chan_peer_number(peer, e);
	} else if (peer != NULL) {
		chan_peer_free_unused(peer);
	}
	xk_unlock(&chan->lock);
	chan_peer_disable(&evicted);
	return err;
}

/*
 * Keeps the number of a client's channel for reuse, so that a server remembers no more channels than were open at a
 * time. Its sequence goes on: whatever is left of its calls is older than the next one, whose request also acknowledges
 * the last reply. A number whose last call is in doubt rests first, because the next call might wait for the handler.
 * Numbers that are not kept are never used again.
 */
void
chan_peer_leave(struct chan_end *e, bool rests)
{
	struct chan *chan = chan_of(e);
	struct chan_peer *peer = e->peer;

	xk_lock(&chan->lock);
	if (e->listed) {
		chan_peer_unlink(e);
		if (!e->is_server && e->session.map != NULL &&
		    chan->idle_count < (rests ? CHAN_IDLE_MAX / 2 : CHAN_IDLE_MAX) && chan_pasts_reserve(&peer->idle)) {
			chan_pasts_add(&peer->idle, e, rests ? xk_now_ns(&chan->protocol) + chan->lifetime_ns : 0);
			chan->idle_count++;
		}
	}
	peer->references--;
	chan_peer_free_unused(peer);
	xk_unlock(&chan->lock);
}

/* ---- how much is sent again ---- */

/* Charges len bytes, about e's message, to the peer's budget. */
static bool
chan_peer_take(struct chan_end *e, uint64_t len, uint64_t now_ns)
{
	xk_budget_turn(&e->peer->again, e->copy.len + CHAN_HEADER_LEN, now_ns);
	return xk_budget_take(&e->peer->again, len, true);
}

bool
chan_peer_may_ask(struct chan_end *e, uint64_t now_ns)
{
	return chan_peer_take(e, CHAN_HEADER_LEN, now_ns);
}

bool
chan_peer_may_repeat(struct chan_end *e, unsigned most, uint64_t now_ns)
{
	if (e->repeats >= most || !chan_peer_take(e, e->copy.len + CHAN_HEADER_LEN, now_ns))
		return false;
	e->repeats++;
	return true;
}

/* ---- events ---- */

void
chan_peer_changed(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change,
		  const struct xk_bidctl_peer *changed)
{
	struct chan *chan = (struct chan *)watcher->protocol;
	struct chan_ends taken = TAILQ_HEAD_INITIALIZER(taken);
	struct chan_peer *peer;
	bool is_void;

	xk_lock(&chan->lock);
	chan->changes++;
	peer = xk_map_resolve(&chan->peers, (struct xk_key){ changed->host, 0 });
	if (peer != NULL) {
		is_void = change == XK_BIDCTL_REBOOTED ||
			  (change == XK_BIDCTL_FIRST_CONTACT && peer->boot != 0 && peer->boot != changed->boot);
		if (is_void || change == XK_BIDCTL_LOST)
			chan_peer_take_ends(&peer->ends[false], &taken);
		if (is_void) {
			chan_peer_take_ends(&peer->ends[true], &taken);
			chan_peer_forget(peer);
		}
		if (changed->boot != 0)
			peer->boot = changed->boot;
		chan_peer_free_unused(peer);
	}
	xk_unlock(&chan->lock);
	chan_peer_disable(&taken);
}

static void
chan_peer_expire_one(void *object, void *now_ns)
{
	struct chan_peer *peer = object;
	unsigned count = 0;

	while (count < peer->evicted.count && peer->evicted.list[count].until_ns <= *(const uint64_t *)now_ns)
		count++;
	chan_memory_drop(peer, peer->evicted.list, count);
	chan_peer_free_unused(peer);
}

void
chan_peer_expire(struct xk_event *event, void *argument)
{
	struct chan *chan = argument;
	uint64_t now_ns = xk_now_ns(&chan->protocol);

	(void)event;
	xk_lock(&chan->lock);
	xk_map_for_each(&chan->peers, chan_peer_expire_one, &now_ns);
	if (chan->memories > 0)
		xk_event_schedule(&chan->forget, xk_us_of_ns(chan->lifetime_ns / 4));
	xk_unlock(&chan->lock);
}

static void
chan_peer_end(void *object, void *taken)
{
	struct chan_peer *peer = object;

	chan_peer_forget(peer);
	chan_peer_take_ends(&peer->ends[false], taken);
	chan_peer_take_ends(&peer->ends[true], taken);
	chan_peer_free_unused(peer);
}

/* Sessions end in the order of their peers: their own keys are addresses, whose order differs from run to run. */
void
chan_peer_fini(struct chan *chan)
{
	struct chan_ends taken = TAILQ_HEAD_INITIALIZER(taken);
	struct chan_end *e;

	xk_map_for_each(&chan->peers, chan_peer_end, &taken);
	while ((e = TAILQ_FIRST(&taken)) != NULL) {
		TAILQ_REMOVE(&taken, e, beside);
		xk_alarm_cancel(&e->alarm);
		xk_session_release(&e->session);
	}
	xk_map_fini(&chan->peers);
	xk_shares_fini(&chan->shares);
	xk_shares_fini(&chan->saved);
}

/* ---- promises ---- */

/* What the peers have together, and the first of their promises that is broken. */
struct chan_peers_seen {
	unsigned idle, memories;
	const char *why;
};

static void
chan_peer_see(void *object, void *context)
{
	struct chan_peer *peer = object;
	struct chan_peers_seen *seen = context;
	const struct chan_end *e;
	unsigned ends[2] = { 0, 0 };

	for (unsigned is_server = 0; is_server < 2; is_server++)
		for (e = TAILQ_FIRST(&peer->ends[is_server]); e != NULL; e = TAILQ_NEXT(e, beside))
			ends[is_server]++;
	seen->idle += peer->idle.count;
	seen->memories += peer->evicted.count;
	if (ends[true] != peer->served)
		seen->why = "a host's channels are counted wrong";
	else if (ends[false] + ends[true] > peer->references)
		seen->why = "a host is not held by its channels";
	else if (xk_share_held(&peer->own) != peer->served + (peer->served > 0 ? peer->chan->host_cost : 0))
		seen->why = "a host's share is not that of its channels";
}

const char *
chan_peers_promise(struct xk_protocol *self, bool at_rest)
{
	struct chan *chan = (struct chan *)self;
	struct chan_peers_seen seen = { .why = NULL };

	xk_map_for_each(&chan->peers, chan_peer_see, &seen);
	if (seen.why != NULL)
		return seen.why;
	if (seen.idle != chan->idle_count || seen.memories != chan->memories)
		return xk_broken(self, "the numbers of closed and evicted channels are %u and %u, not %u and %u",
				 seen.idle, seen.memories, chan->idle_count, chan->memories);
	if (chan->memories > 0 && !xk_event_is_awaited(&chan->forget))
		return "evicted channels are remembered for ever";
	return xk_shares_promise(&chan->saved, at_rest);
}
