/*
 * region.h - memory that peers may write to: what GM deposits into and AM stores into. A program registers a region for
 * one of its ports, and sends its peers the region's id. Peers then write without running any of its code.
 *
 *	struct xk_region region = { .base = memory, .len = sizeof(memory), .port = 7 };
 *	xk_region_register(gm, &region);		region.id is for the peers that may write
 */
#ifndef XK_REGION_H
#define XK_REGION_H

#include <errno.h>

#include "xkernel/protocol.h"

/* Memory that peers may write to. The caller's; base must exist until it is unregistered. */
struct xk_region {
	uint8_t *base;
	uint32_t len;
	uint16_t port; /* the local port (GM) or endpoint (AM) of sessions that may write */
	uint32_t id;   /* set by xk_region_register: random, and not 0 */
};

XK_CONTROL_OP(XK_REGION_REGISTER, 115, struct xk_region); /* protocol: see below */
XK_CONTROL_OP(XK_REGION_UNREGISTER, 116, const struct xk_region);

/*
 * Lets peers write to the region, and sets its id. Returns 0, -EINVAL (no bytes or no port), -ENOSPC, or -ENOTSUP. Any
 * context.
 */
static inline int
xk_region_register(struct xk_protocol *protocol, struct xk_region *region)
{
	return xk_control_protocol(protocol, XK_REGION_REGISTER, region);
}

/* Ends the registration; no peer writes afterwards. Returns 0 or -ENOENT. */
static inline int
xk_region_unregister(struct xk_protocol *protocol, struct xk_region *region)
{
	return xk_control_protocol(protocol, XK_REGION_UNREGISTER, region);
}

/* ---- for the protocols ---- */

enum { XK_REGIONS = 64 };

/* A protocol's regions. */
struct xk_regions {
	struct xk_lock lock;               /* protects the list; held while a peer's bytes are copied */
	struct xk_region list[XK_REGIONS]; /* id 0: free */
};

/* The part of a region that a message of len bytes is for, perhaps with others that go to other places of it. */
struct xk_region_part {
	uint32_t region, place, len;
};

static inline int
xk_regions_add(struct xk_protocol *self, struct xk_regions *regions, struct xk_region *region)
{
	struct xk_region *free = NULL;

	if (region->base == NULL || region->len == 0 || region->port == 0)
		return -EINVAL;
	do
		region->id = (uint32_t)xk_random(self);
	while (region->id == 0);
	xk_lock(&regions->lock);
	for (unsigned i = 0; i < XK_REGIONS && free == NULL; i++)
		if (regions->list[i].id == 0)
			free = &regions->list[i];
	if (free != NULL)
		*free = *region;
	xk_unlock(&regions->lock);
	return free != NULL ? 0 : -ENOSPC;
}

static inline int
xk_regions_remove(struct xk_regions *regions, uint32_t id)
{
	int err = -ENOENT;

	xk_lock(&regions->lock);
	for (unsigned i = 0; i < XK_REGIONS && err != 0; i++)
		if (id != 0 && regions->list[i].id == id) {
			regions->list[i].id = 0;
			err = 0;
		}
	xk_unlock(&regions->lock);
	return err;
}

/* Carries out XK_REGION_REGISTER and XK_REGION_UNREGISTER, and returns as they do. -ENOTSUP: another op. */
static inline int
xk_regions_control(struct xk_protocol *self, struct xk_regions *regions, int op, void *argument)
{
	if (op == XK_REGION_REGISTER)
		return xk_regions_add(self, regions, argument);
	return op == XK_REGION_UNREGISTER ? xk_regions_remove(regions, ((struct xk_region *)argument)->id) : -ENOTSUP;
}

/*
 * Writes m, which is for this part, `offset` bytes from its beginning; stores the address of that beginning. Nothing is
 * written unless the whole part is in a region of the port. Returns 0; -ENOENT: the port has no such region; or
 * -EFAULT: the part is not in it. m stays the caller's.
 */
static inline int
xk_regions_write(struct xk_regions *regions, uint16_t port, const struct xk_region_part *part, uint32_t offset,
		 const struct xk_msg *m, uint8_t **begin)
{
	size_t len = xk_msg_len(m);
	int err = -ENOENT;

	xk_lock(&regions->lock);
	for (unsigned i = 0; i < XK_REGIONS && err == -ENOENT; i++) {
		const struct xk_region *region = &regions->list[i];

		if (part->region == 0 || region->id != part->region || region->port != port)
			continue;
		err = -EFAULT;
		if (part->place > region->len || part->len > region->len - part->place || offset > part->len ||
		    len > part->len - offset)
			continue;
		*begin = region->base + part->place;
		xk_msg_copy_out(m, 0, *begin + offset, len);
		err = 0;
	}
	xk_unlock(&regions->lock);
	return err;
}

#endif
