/* share.c - see share.h. */
#include "xkernel/support/share.h"

#include <errno.h>
#include <stdlib.h>

static void
share_give(struct xk_share *share, uint32_t count)
{
	for (; share != NULL; share = share->of)
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

bool
xk_share_take(struct xk_share *share, uint32_t count)
{
	struct xk_protocol *keeper = NULL;
	uint32_t leaving = 0; /* largest holding of a share with `leaves` */
	bool fits = true;

	if (count > UINT32_MAX / 4) /* so that no sum wraps round */
		return false;
	for (struct xk_share *part = share; part != NULL; part = part->of) {
		uint32_t held = atomic_fetch_add_explicit(&part->held, count, memory_order_relaxed) + count;

		fits &= held <= part->max;
		if (part->leaves && held > leaving)
			leaving = held;
		keeper = part->keeper;
		if (part->of == NULL)
			fits = fits && leaving <= part->max - (held - count);
	}
	if (fits && keeper != NULL) {
		fits = count <= xk_keep_room(keeper);
		if (fits)
			xk_keep(keeper, count);
	}
	if (!fits)
		share_give(share, count);
	return fits;
}

/* ---- by address ---- */

struct share_holder {
	struct xk_share share; /* first */
	struct xk_binding binding;
	struct xk_retired retired;
	unsigned references;
};

int
xk_shares_init(struct xk_shares *shares, struct xk_protocol *self, uint32_t all_max, uint32_t own_max)
{
	shares->all = (struct xk_share){ .max = all_max, .keeper = self };
	shares->own_max = own_max;
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

struct xk_share *
xk_shares_join(struct xk_shares *shares, uint64_t address)
{
	struct xk_key key = { address, 0 };
	struct share_holder *holder;

	xk_lock(&shares->lock);
	holder = xk_map_resolve(&shares->holders, key);
	if (holder == NULL && (holder = calloc(1, sizeof(*holder))) != NULL) {
		holder->share = (struct xk_share){ .of = &shares->all, .max = shares->own_max, .leaves = true };
		if (xk_map_bind(&shares->holders, &holder->binding, key, holder) != 0) {
			free(holder);
			holder = NULL;
		}
	}
	if (holder != NULL)
		holder->references++;
	xk_unlock(&shares->lock);
	return holder == NULL ? NULL : &holder->share;
}

static void
share_holder_release(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct share_holder, retired));
}

void
xk_shares_leave(struct xk_shares *shares, struct xk_share *share)
{
	struct share_holder *holder = (struct share_holder *)share;
	bool last;

	if (share == NULL)
		return;
	xk_lock(&shares->lock);
	last = --holder->references == 0;
	if (last)
		xk_map_unbind(&shares->holders, &holder->binding);
	xk_unlock(&shares->lock);
	if (last)
		xk_retire(shares->lock.owner->kernel, &holder->retired, share_holder_release);
}
