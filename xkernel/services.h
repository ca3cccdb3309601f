/*
 * services.h - what a kernel supplies to its protocols, and to the tools that they use: its platform and buffers, and
 * the seeds, clock and epochs of maps, events and retired objects.
 */
#ifndef XK_SERVICES_H
#define XK_SERVICES_H

#include "xkernel/epoch.h"
#include "xkernel/event.h"
#include "xkernel/map.h"

struct xk_kernel;
struct xk_platform;
struct xk_protocol;

/* Returns the platform for self's new messages (msg.h): that of the caller's driver. Any context. */
struct xk_platform *xk_platform_of(const struct xk_protocol *self);

/*
 * A protocol that stores messages counts their buffers (xk_msg_buffers) here while it stores them. Without room, it
 * drops the new message (XK_DROP_NO_BUFFER) or an older one. It leaves at least as many buffers as it keeps: alone it
 * gets half of all, beside another such protocol a third, and so on. Therefore no protocol can keep the host from
 * receiving, or another protocol from storing (dynamic thresholds: Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998).
 *
 * xk_kept returns how many buffers self keeps, xk_keep_limit how many it may keep now, and xk_keep_room how many of
 * these are left. xk_keep_more counts `count` more (at least 1), or returns false if there is no room for them. What
 * sessions have taken in advance (struct xk_share_lot) counts. While others count, the results are approximate, and the
 * limit may be exceeded slightly. Any context. When a kernel ends, each protocol's count must be 0 again; other counts
 * are reported, and debug builds abort.
 */
unsigned xk_kept(const struct xk_protocol *self);
unsigned xk_keep_limit(const struct xk_protocol *self);
unsigned xk_keep_room(const struct xk_protocol *self);
bool xk_keep_more(struct xk_protocol *self, unsigned count);
void xk_keep(struct xk_protocol *self, unsigned count);
void xk_unkeep(struct xk_protocol *self, unsigned count);

/* Initializes an empty map of kernel (NULL: of one thread) with room for `expected` bindings at first. 0 or -ENOMEM. */
int xk_map_init(struct xk_map *map, struct xk_kernel *kernel, unsigned expected);

/* Prepares an event that a shepherd of kernel will handle. Once, before anything else. */
void xk_event_init(struct xk_event *event, struct xk_kernel *kernel, xk_event_handler *handler, void *argument);

/*
 * Calls release(retired), which must not wait, from some shepherd of kernel, once nobody can be reading the object,
 * which must be out of reach already (unbound from its maps). Any context; never waits.
 */
void xk_retire(struct xk_kernel *kernel, struct xk_retired *retired, void (*release)(struct xk_retired *retired));

/* Returns the text of a broken promise (upi.h), which stays valid until the next call for self's kernel. */
const char *xk_broken(struct xk_protocol *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
