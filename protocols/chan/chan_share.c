/*
 * chan_share.c - how clients share a server's channels, and what is remembered of a channel that made room for another.
 *
 * Holders form a tree: stations (link addresses), the networks of 256 addresses behind each, and the hosts in each of
 * them. While there is room, everybody gets what they ask for. When `channels` are in use, a new one takes the place of
 * another. From the top of the tree down, it comes from the holder with the most, if that then still has as many as the
 * newcomer's holder at that level; otherwise from the newcomer's own holder, by the same rule one level below, and in
 * the end from the newcomer itself. So 64 addresses of one machine are one station, a router's station is divided among
 * the networks behind it, and a host below an equal share loses nothing to others. A host also costs channels / hosts -
 * 1 channels besides those that it has. BID and BIDCTL remember each host for CHAN's sake, and cannot tell anybody that
 * their tables are full, so this table must fill first.
 *
 * The channel that goes is the oldest idle one of its host. If there is none, and the host is another one than the
 * newcomer, it is the oldest whose reply is not acknowledged. A channel whose handler runs never goes. Its number and
 * sequence remain, 16 bytes for `lifetime`, so that nothing runs twice. Each counts as a channel of its holders when
 * they want another, so opening one channel after the other gains nothing over keeping them. Among n holders with equal
 * shares, at most channels * ln n are remembered; hosts that made room for themselves have half of the bound.
 */
#include <errno.h>
#include <stdlib.h>

#include "protocols/chan/chan_private.h"

enum {
	CHAN_LEVELS = 3,      /* station, network, host */
	CHAN_NETWORK = 8,     /* low bits of an address, which number the hosts of a network */
	CHAN_LOOKED_AT = 32,  /* channels of a host that are tried for eviction */
	CHAN_MEMORIES = 16,   /* times `channels`: bound of what is remembered; half when a host evicts its own */
	CHAN_MEMORIES_MIN = 4 /* room for memories of a host, to begin with */
};

/* ---- holders; the lock is held ---- */

static void
chan_holder_attach(struct chan_holder *holder, struct chan_holder *above)
{
	holder->above = above;
	holder->next = above->below;
	holder->at = &above->below;
	if (holder->next != NULL)
		holder->next->at = &holder->next;
	above->below = holder;
}

static void
chan_holder_detach(struct chan_holder *holder)
{
	*holder->at = holder->next;
	if (holder->next != NULL)
		holder->next->at = holder->at;
	if (holder->above->most == holder)
		holder->above->most = NULL;
}

/* Returns the station or network `key` below `above`, new if need be. NULL: no memory. */
static struct chan_holder *
chan_holder_get(struct chan *chan, struct chan_holder *above, uint64_t key)
{
	struct xk_key k = { key, (uintptr_t)above };
	struct chan_holder *holder = xk_map_resolve(&chan->groups, k);

	if (holder != NULL)
		return holder;
	holder = calloc(1, sizeof(*holder));
	if (holder == NULL || xk_map_bind(&chan->groups, &holder->binding, k, holder) != 0) {
		free(holder);
		return NULL;
	}
	chan_holder_attach(holder, above);
	return holder;
}

static void
chan_holder_release(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct chan_holder, retired));
}

/* Removes a station or network with nobody in it, and then perhaps the one above. */
static void
chan_holder_free_unused(struct chan *chan, struct chan_holder *holder)
{
	while (holder != &chan->holders && holder->below == NULL) {
		struct chan_holder *above = holder->above;

		chan_holder_detach(holder);
		xk_map_unbind(&chan->groups, &holder->binding);
		xk_retire(chan->protocol.kernel, &holder->retired, chan_holder_release);
		holder = above;
	}
}

int
chan_share_join(struct chan_peer *peer, uint64_t station)
{
	struct chan *chan = peer->chan;
	struct chan_holder *above, *network;

	if (peer->holder.above != NULL)
		return 0;
	above = chan_holder_get(chan, &chan->holders, station);
	network = above == NULL ? NULL : chan_holder_get(chan, above, peer->host >> CHAN_NETWORK);
	if (network != NULL)
		chan_holder_attach(&peer->holder, network);
	else if (above != NULL)
		chan_holder_free_unused(chan, above);
	return network == NULL ? -ENOMEM : 0;
}

void
chan_share_leave(struct chan_peer *peer)
{
	if (peer->holder.above == NULL)
		return;
	chan_holder_detach(&peer->holder);
	chan_holder_free_unused(peer->chan, peer->holder.above);
	peer->holder.above = NULL;
	free(peer->memories); /* room without memories, if an eviction failed */
	peer->memories = NULL;
	peer->memory_max = 0;
}

/* Returns what a host costs besides its channels, in channels: `hosts` hosts with one channel each fill the table. */
static uint64_t
chan_share_of_host(const struct chan *chan)
{
	return chan->channels > chan->hosts ? chan->channels / chan->hosts - 1 : 0;
}

/* Returns what holder has, in channels. */
static uint64_t
chan_share_held(const struct chan *chan, const struct chan_holder *holder)
{
	return holder->ends + holder->hosts * chan_share_of_host(chan);
}

/* Returns what one more channel of peer costs, in channels. */
static uint64_t
chan_share_needed(const struct chan_peer *peer)
{
	return 1 + (peer->holder.ends == 0 ? chan_share_of_host(peer->chan) : 0);
}

void
chan_share_add(struct chan_peer *peer, int ends)
{
	int hosts = peer->holder.ends == 0 ? 1 : ends < 0 && peer->holder.ends == 1 ? -1 : 0;

	for (struct chan_holder *h = &peer->holder; h != NULL; h = h->above) {
		struct chan_holder *above = h->above;

		h->ends += (unsigned)ends;
		h->hosts += (unsigned)hosts;
		if (ends > 0 && above != NULL && above->most != NULL &&
		    chan_share_held(peer->chan, h) > chan_share_held(peer->chan, above->most)) {
			above->most = h;
			above->most_was = chan_share_held(peer->chan, h);
		}
	}
}

/*
 * Returns the holder right below `above` that has the most, or an eighth less; NULL: none has any. They are compared
 * again only when that one has lost an eighth, so that finding room is cheap among thousands of holders.
 */
static struct chan_holder *
chan_share_most(const struct chan *chan, struct chan_holder *above)
{
	struct chan_holder *most = above->most;

	if (most == NULL || chan_share_held(chan, most) < above->most_was - above->most_was / 8) {
		most = above->below;
		for (struct chan_holder *h = most; h != NULL; h = h->next)
			if (chan_share_held(chan, h) > chan_share_held(chan, most))
				most = h;
		above->most = most;
		above->most_was = most == NULL ? 0 : chan_share_held(chan, most);
	}
	return most != NULL && most->ends > 0 ? most : NULL;
}

/*
 * Returns the host that must make room for a channel of peer. NULL: peer itself, since nobody else has more than its
 * share.
 */
static struct chan_peer *
chan_share_find(struct chan_peer *peer)
{
	const struct chan *chan = peer->chan;
	uint64_t needed = chan_share_needed(peer);
	struct chan_holder *mine[CHAN_LEVELS] = { peer->holder.above->above, peer->holder.above, &peer->holder };
	struct chan_holder *holder = &peer->chan->holders;
	bool is_mine = true;

	for (unsigned level = 0; level < CHAN_LEVELS; level++) {
		struct chan_holder *most = chan_share_most(chan, holder);

		if (most == NULL)
			return NULL;
		if (is_mine &&
		    chan_share_held(chan, mine[level]) + mine[level]->memories + needed >= chan_share_held(chan, most))
			most = mine[level];
		is_mine &= most == mine[level];
		holder = most;
	}
	return is_mine ? NULL : xk_container_of(holder, struct chan_peer, holder);
}

/* ---- what is remembered; the lock is held ---- */

static void
chan_share_count(struct chan_peer *peer, int memories)
{
	for (struct chan_holder *h = &peer->holder; h != NULL; h = h->above)
		h->memories += (unsigned)memories;
}

static uint32_t
chan_share_ms(const struct chan *chan)
{
	return (uint32_t)(xk_now_ns(&chan->protocol) / 1000000);
}

/* Makes room for one memory more. Returns 0; -ENOBUFS: `most` times `channels` are remembered already; or -ENOMEM. */
static int
chan_share_make_room(struct chan_peer *peer, unsigned most)
{
	unsigned max = peer->memory_max != 0 ? 2 * peer->memory_max : CHAN_MEMORIES_MIN;
	struct chan_memory *memories;

	if (peer->chan->holders.memories >= most * peer->chan->channels)
		return -ENOBUFS;
	if (peer->holder.memories < peer->memory_max)
		return 0;
	memories = realloc(peer->memories, max * sizeof(*memories));
	if (memories == NULL)
		return -ENOMEM;
	peer->memories = memories;
	peer->memory_max = max;
	return 0;
}

static void
chan_share_remember(struct chan_peer *peer, const struct chan_end *e)
{
	struct chan *chan = peer->chan;

	peer->memories[peer->holder.memories] =
		(struct chan_memory){ e->number, e->channel, e->sequence,
				      chan_share_ms(chan) + (uint32_t)(chan->lifetime_ns / 1000000) };
	chan_share_count(peer, 1);
	if (!chan->forgetting)
		xk_event_schedule(&chan->forget, xk_us_of_ns(chan->lifetime_ns));
	chan->forgetting = true;
}

void
chan_share_drop(struct chan_peer *peer, struct chan_memory *memory)
{
	*memory = peer->memories[peer->holder.memories - 1];
	chan_share_count(peer, -1);
	if (peer->holder.memories > 0)
		return;
	free(peer->memories);
	peer->memories = NULL;
	peer->memory_max = 0;
}

void
chan_share_forget(struct chan_peer *peer)
{
	while (peer->holder.memories > 0)
		chan_share_drop(peer, &peer->memories[peer->holder.memories - 1]);
}

struct chan_memory *
chan_share_recall(const struct chan_peer *peer, const struct chan_end *e)
{
	for (unsigned i = 0; i < peer->holder.memories; i++)
		if (peer->memories[i].channel == e->channel && peer->memories[i].number == e->number)
			return &peer->memories[i];
	return NULL;
}

static void
chan_share_age(void *object, void *context)
{
	struct chan_peer *peer = object;
	uint32_t now_ms = *(uint32_t *)context;

	for (unsigned i = peer->holder.memories; i-- > 0;)
		if ((int32_t)(now_ms - peer->memories[i].until_ms) >= 0)
			chan_share_drop(peer, &peer->memories[i]);
	chan_peer_free_unused(peer);
}

void
chan_share_expire(struct xk_event *event, void *argument)
{
	struct chan *chan = argument;
	uint32_t now_ms = chan_share_ms(chan);

	(void)event;
	xk_lock(&chan->lock);
	xk_map_for_each(&chan->peers, chan_share_age, &now_ms);
	chan->forgetting = chan->holders.memories > 0;
	if (chan->forgetting)
		xk_event_schedule(&chan->forget, xk_us_of_ns(chan->lifetime_ns / 4));
	xk_unlock(&chan->lock);
}

/* ---- making room ---- */

/*
 * Returns whether e may go: it is idle or, with `any`, has a reply that is not acknowledged. If so, e is locked and
 * referenced.
 */
static bool
chan_share_may_go(struct chan_end *e, bool any)
{
	if (!xk_lock_try(&e->lock))
		return false;
	if (!e->disabled && (e->state == CHAN_IDLE || (any && e->state == CHAN_REPLIED)) && xk_duplicate(&e->session))
		return true;
	xk_unlock(&e->lock);
	return false;
}

/* Moves the oldest channel of peer to the end of its list, where it is tried last. */
static void
chan_share_pass_over(struct chan_peer *peer)
{
	struct chan_end *e = peer->servers.first;

	chan_ends_remove(&peer->servers, e);
	chan_ends_add(&peer->servers, e);
}

/* Returns the channel of peer that is to go, locked and referenced. NULL: none of those that were tried may. */
static struct chan_end *
chan_share_choose(struct chan_peer *peer, bool any)
{
	unsigned count = peer->holder.ends < CHAN_LOOKED_AT ? peer->holder.ends : CHAN_LOOKED_AT;

	for (unsigned pass = 0; pass <= (any ? 1U : 0U); pass++) {
		struct chan_end *e = peer->servers.first;

		for (unsigned i = 0; i < count; i++, e = e->next)
			if (chan_share_may_go(e, pass == 1))
				return e;
	}
	for (unsigned i = 0; i < count; i++)
		chan_share_pass_over(peer);
	return NULL;
}

/* Evicts one channel to make room for peer's, and puts it in front of *evicted. Returns 0 or -errno. */
static int
chan_share_evict(struct chan_peer *peer, struct chan_end **evicted)
{
	struct chan_peer *other = chan_share_find(peer), *loser = other != NULL ? other : peer;
	int err = chan_share_make_room(loser, other != NULL ? CHAN_MEMORIES : CHAN_MEMORIES / 2);
	struct chan_end *e = err == 0 ? chan_share_choose(loser, other != NULL) : NULL;

	if (e == NULL)
		return err != 0 ? err : -ENOBUFS;
	e->disabled = true;
	chan_share_remember(loser, e);
	xk_unlock(&e->lock);
	chan_peer_unlink(e);
	xk_count(&peer->chan->protocol, CHAN_EVICTED);
	e->next = *evicted;
	*evicted = e;
	return 0;
}

int
chan_share_admit(struct chan_peer *peer, struct chan_end **evicted)
{
	const struct chan *chan = peer->chan;
	int err = 0;

	while (err == 0 && chan_share_held(chan, &chan->holders) + chan_share_needed(peer) > chan->channels)
		err = chan_share_evict(peer, evicted);
	return err;
}
