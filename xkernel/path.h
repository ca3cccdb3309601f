/*
 * path.h - a conversation's whole way as one comparison on the way up and one header on the way down.
 *
 * Once a conversation's sessions stand, the framework composes their layers from the fields of their headers
 * (header.h), and from what each session sends (xk_sends in upi.h):
 *
 *   up    The bytes that are fixed or name sessions are compared under a mask, lengths and checksums are checked, and
 *         the message is popped to the topmost session (the path's top).
 *   down  All headers are copied at once, and lengths, counters and checksums filled in.
 *
 * A top with work of its own (BID, which must know its peer's boot) does that in path_pop and path_push (upi.h).
 *
 * A path lets messages skip the layers between, and changes nothing else. Unusual messages (fragments, options, padding
 * in the middle) go the layers' way; so do all while an edge between is marked or watched, or a virtual protocol's session
 * between is marked. The second message of a conversation makes its path, or, where no conversation of its kind has one
 * yet, one of the next few: a stranger's single message costs no more than a lookup.
 *
 * Source: Mosberger and Peterson, "Making Paths Explicit in the Scout Operating System" (OSDI 1996).
 */
#ifndef XK_PATH_H
#define XK_PATH_H

#include "xkernel/upi.h"

struct xk_port;

/* The part of a path that its top session's life concerns (upi_session.c). */
struct xk_path {
	struct xk_binding binding;
	struct xk_map *map;   /* its port's */
	struct xk_path *next; /* to the same session, from another port */
};

/*
 * Delivers m, which arrived on port, up its path or the layers' way. Takes m. A shepherd; may hand off. For the engine.
 */
void xk_path_deliver(struct xk_port *port, struct xk_msg *m);

/*
 * Fetches into the cache what the paths of a burst of up to XK_BURST messages will touch, all at once, and says where
 * they are. False: there are so few paths that this would gain nothing. The driver, before it delivers them.
 */
bool xk_path_expect(struct xk_port *port, struct xk_msg *const burst[], unsigned count, struct xk_map_place places[]);

/* As xk_path_deliver, after xk_path_expect. */
void xk_path_deliver_expected(struct xk_port *port, struct xk_msg *m, struct xk_map_place place);

/* Returns the number of port's frames that went up a path; approximate while it runs. For statistics. */
uint64_t xk_paths_taken(const struct xk_port *port);

/* Make port's table, and free it. xk_paths_init returns 0 or -ENOMEM. When nothing runs. */
int xk_paths_init(struct xk_port *port, struct xk_kernel *kernel);
void xk_paths_fini(struct xk_port *port);

#endif
