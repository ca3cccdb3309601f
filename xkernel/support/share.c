/* share.c - see share.h. */
#include "xkernel/support/share.h"

#include <errno.h>
#include <stdlib.h>

/* Gives back `count` of share and those around it, of which the outermost may count as its keeper's buffers. */
static void
share_give(struct xk_share *share, uint32_t count)
{
	for (; share != NULL && share->keeper == NULL; share = share->of)
		atomic_fetch_sub_explicit(&share->held, count, memory_order_relaxed);
}

void
xk_share_give(struct xk_share *share, uint32_t count)
{
	struct xk_protocol *keeper = NULL;

	for (const struct xk_share *part = share; part != NULL; part = part->of)
		keeper = part->keeper;
	share_give(share, count);
	if (keeper != NULL)
		xk_unkeep(keeper, count);
}

/* Keeps most_was no smaller than what any share within holder's `of` holds, if `most` is known. */
static void
share_grown(struct xk_share *holder)
{
	struct xk_share *of = holder->of;

	if (of->most != NULL && xk_share_held(holder) >= of->most_was) {
		of->most = holder;
		of->most_was = xk_share_held(holder);
	}
}

/* Returns the limit of share: what holders leave is a part of what there really is. */
static uint32_t
share_limit(const struct xk_share *share)
{
	uint32_t limit = share->keeper != NULL ? xk_keep_limit(share->keeper) : share->max;

	return limit < share->max ? limit : share->max;
}

/* Adds `count` to what share holds, unless it counts as its keeper's buffers. Returns the sum; stores the limit. */
static uint32_t
share_add(struct xk_share *share, uint32_t count, uint32_t *limit)
{
	*limit = share_limit(share);
	if (share->keeper == NULL)
		return atomic_fetch_add_explicit(&share->held, count, memory_order_relaxed) + count;
	return xk_kept(share->keeper) + count;
}

bool
xk_share_take(struct xk_share *share, uint32_t count)
{
	struct xk_protocol *keeper = NULL;
	uint32_t leaving = 0, limit; /* leaving: largest holding of a share with `leaves` */
	bool fits = true;

	if (count > UINT32_C(1) << 30) /* so that no sum wraps */
		return false;
	for (struct xk_share *part = share; part != NULL; part = part->of) {
		uint32_t held = share_add(part, count, &limit);

		fits &= held <= limit;
		if (part->leaves && held > leaving)
			leaving = held;
		keeper = part->keeper;
		if (part->of == NULL)
			/* as if taken one by one: a large request gets no more than many small ones */
			fits = fits && leaving <= limit - (held > 0 ? held - 1 : 0);
	}
	if (fits && keeper != NULL)
		xk_keep(keeper, count);
	if (!fits)
		share_give(share, count);
	for (struct xk_share *part = share; fits && part->of != NULL; part = part->of)
		share_grown(part);
	return fits;
}

bool
xk_share_exceeds(const struct xk_share *share, uint32_t count)
{
	const struct xk_share *of = share->of;
	uint32_t parts = atomic_load_explicit(&of->parts, memory_order_relaxed);

	return parts > 0 && (uint64_t)xk_share_held(share) + count > share_limit(of) / parts;
}

/* ---- lots ---- */

/*
 * Returns whether what is taken in advance would be little: beside what is left of all, and of half the equal part of the
 * share, so that nobody exceeds an equal part by what is not used.
 */
static bool
lot_has_plenty(const struct xk_share *share)
{
	if (xk_share_exceeds(share, xk_share_held(share) + 2 * XK_SHARE_ADVANCE))
		return false;
	while (share->of != NULL)
		share = share->of;
	return share->keeper != NULL ? xk_keep_room(share->keeper) / 64 >= XK_SHARE_ADVANCE
				     : (share->max - xk_share_held(share)) / 64 >= XK_SHARE_ADVANCE;
}

bool
xk_share_lot_refill(struct xk_share_lot *lot, uint32_t count)
{
	uint32_t needed = count - lot->spare;

	if (lot->held > 0 && lot_has_plenty(lot->share) && xk_share_take(lot->share, needed + XK_SHARE_ADVANCE))
		lot->spare = count + XK_SHARE_ADVANCE;
	else if (xk_share_take(lot->share, needed))
		lot->spare = count;
	else
		return false;
	return true;
}

void
xk_share_lot_return(struct xk_share_lot *lot)
{
	uint32_t rest = lot->held == 0 ? 0 : XK_SHARE_ADVANCE;

	xk_share_give(lot->share, lot->spare - rest);
	lot->spare = rest;
}

/* ---- who makes room ---- */

void
xk_share_enter(struct xk_share *share)
{
	LIST_INSERT_HEAD(&share->of->within, share, beside);
	atomic_fetch_add_explicit(&share->of->parts, 1, memory_order_relaxed);
}

void
xk_share_exit(struct xk_share *share)
{
	LIST_REMOVE(share, beside);
	atomic_fetch_sub_explicit(&share->of->parts, 1, memory_order_relaxed);
	if (share->of->most == share)
		share->of->most = NULL;
}

/*
 * Returns the share within `of` that has the most, or up to an eighth less; NULL: none holds anything. Compares all of
 * them only when the last result has lost an eighth: a stranger's request must not cost a scan of thousands.
 */
static struct xk_share *
share_most(struct xk_share *of)
{
	struct xk_share *most = of->most, *holder;

	if (most == NULL || xk_share_held(most) < of->most_was - of->most_was / 8) {
		most = LIST_FIRST(&of->within);
		LIST_FOREACH(holder, &of->within, beside)
		if (xk_share_held(holder) > xk_share_held(most))
			most = holder;
		of->most = most;
		of->most_was = most == NULL ? 0 : xk_share_held(most);
	}
	return most != NULL && xk_share_held(most) > 0 ? most : NULL;
}

struct xk_share *
xk_share_loser(struct xk_share *share, uint32_t count)
{
	struct xk_share *of, *most;

	if (share->of == NULL)
		return share;
	of = xk_share_loser(share->of, count);
	most = share_most(of);
	if (most == NULL || (of == share->of && xk_share_held(share) + count >= xk_share_held(most)))
		return share;
	return most;
}

/* ---- by address ---- */

struct share_holder {
	struct xk_share share; /* first */
	struct xk_binding binding;
	struct xk_retired retired;
	unsigned references; /* of joins, and of the shares within this one */
};

int
xk_shares_init(struct xk_shares *shares, struct xk_protocol *self, enum xk_shares_of what, uint32_t max)
{
	shares->all = (struct xk_share){ .max = max, .keeper = what == XK_SHARES_OF_BUFFERS ? self : NULL };
	shares->what = what;
	xk_lock_init(&shares->lock, self);
	return xk_map_init(&shares->holders, self->kernel, 16);
}

static void
share_holder_free(void *object, void *context)
{
	(void)context;
	free(object);
}

void
xk_shares_fini(struct xk_shares *shares)
{
	xk_map_for_each(&shares->holders, share_holder_free, NULL);
	xk_map_fini(&shares->holders);
}

static void
share_holder_release(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct share_holder, retired));
}

/* Releases a reference on share, and with the last one, the share's reference on the one around it. */
static void
share_release(struct xk_shares *shares, struct xk_share *share)
{
	while (share != &shares->all) {
		struct share_holder *holder = (struct share_holder *)share;

		if (--holder->references > 0)
			return;
		share = share->of;
		xk_share_exit(&holder->share);
		xk_map_unbind(&shares->holders, &holder->binding);
		xk_retire(shares->lock.owner->kernel, &holder->retired, share_holder_release);
	}
}

/* Returns the share of address within `of`, with a reference. Takes the reference on `of`. NULL: no memory. */
static struct xk_share *
share_get(struct xk_shares *shares, struct xk_share *of, struct xk_key address)
{
	struct share_holder *holder = xk_map_resolve(&shares->holders, address);

	if (holder != NULL) {
		holder->references++;
		share_release(shares, of);
		return &holder->share;
	}
	holder = calloc(1, sizeof(*holder));
	if (holder == NULL || xk_map_bind(&shares->holders, &holder->binding, address, holder) != 0) {
		free(holder);
		share_release(shares, of);
		return NULL;
	}
	holder->share = (struct xk_share){ .of = of, .max = UINT32_MAX, .leaves = shares->what != XK_SHARES_TAKEN };
	holder->references = 1;
	xk_share_enter(&holder->share);
	return &holder->share;
}

struct xk_share *
xk_shares_join(struct xk_shares *shares, const struct xk_key *addresses, unsigned count)
{
	struct xk_share *share = &shares->all;

	xk_lock(&shares->lock);
	for (unsigned i = 0; i < count && share != NULL; i++)
		share = share_get(shares, share, addresses[i]);
	xk_unlock(&shares->lock);
	return share;
}

const char *
xk_shares_promise(const struct xk_shares *shares, bool at_rest)
{
	const struct xk_share *all = &shares->all;
	uint32_t held = all->keeper != NULL ? xk_kept(all->keeper) : xk_share_held(all);

	return at_rest && held > 0 ? xk_broken(shares->lock.owner, "never given back to the shares: %u", held) : NULL;
}

void
xk_shares_leave(struct xk_shares *shares, struct xk_share *share)
{
	if (share == NULL)
		return;
	xk_lock(&shares->lock);
	share_release(shares, share);
	xk_unlock(&shares->lock);
}
