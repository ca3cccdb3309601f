/*
 * table.h - a protocol's sessions by key, and its open_enables by passive key: opening, accepting, sharing and enabling
 * for nearly all protocols.
 *
 * An instance has a table if its type names `session_ops` and is no port, or has the flag XK_TABLE. A session is bound
 * under its active key, which the protocol builds from what a header names; an open_enable under a passive key: the
 * number of the protocol above, unless `passive_key` says otherwise. `setup` fills in a new session.
 *
 * Any shepherd; none waits. Results are valid until the shepherd's turn ends or it parks, as with xk_map_resolve.
 */
#ifndef XK_TABLE_H
#define XK_TABLE_H

#include "xkernel/upi.h"

/* Halves of xk_table_find, for a demux with a separate function for all sessions but the one found last. */
static inline struct xk_session *
xk_table_last(struct xk_protocol *self, struct xk_key key)
{
	return xk_map_last(&self->table.sessions, key);
}

static inline struct xk_session *
xk_table_lookup(struct xk_protocol *self, struct xk_key key)
{
	return xk_map_lookup(&self->table.sessions, key);
}

/* Returns the session bound under key, or NULL. */
static inline struct xk_session *
xk_table_find(struct xk_protocol *self, struct xk_key key)
{
	return xk_map_resolve(&self->table.sessions, key);
}

/* Returns the open_enable under a passive key, or NULL. */
static inline const struct xk_enable *
xk_table_enabled(struct xk_protocol *self, struct xk_key passive_key)
{
	return xk_map_resolve(&self->table.enables, passive_key);
}

/* Returns the passive key of protocols above that are identified by their number alone. */
static inline struct xk_key
xk_table_number_key(uint32_t number)
{
	return (struct xk_key){ number, 0 };
}

/*
 * Makes a session on lls, bound under key and set up from `how`, with one reference, the caller's. Takes the caller's
 * reference on lls (NULL: none), also on failure. -EEXIST (key is bound), -ENOMEM, or setup's error.
 */
int xk_table_add(struct xk_protocol *self, struct xk_key key, struct xk_protocol *hlp_receive,
		 struct xk_protocol *hlp_type, struct xk_session *lls, const void *how, struct xk_session **session);

/* Takes another reference on the session of key. -ENOENT: there is none; -EADDRINUSE: it has other hlps. */
int xk_table_share(struct xk_protocol *self, struct xk_key key, struct xk_protocol *hlp_receive,
		   struct xk_protocol *hlp_type, struct xk_session **session);

/* Shares the session of key, or adds one. Always takes lls, as xk_table_add. -EADDRINUSE, -ENOMEM, or setup's error. */
int xk_table_open(struct xk_protocol *self, struct xk_key key, struct xk_protocol *hlp_receive,
		  struct xk_protocol *hlp_type, struct xk_session *lls, const void *how, struct xk_session **session);

/*
 * Makes a session under key, with its own reference on lls, for a checked message m that came up lls and belongs to
 * none, and announces it to the hlp that has enabled passive_key (open_done). If another shepherd was faster, returns
 * that one's session. NULL: refused; m was dropped.
 */
struct xk_session *xk_table_accept(struct xk_protocol *self, struct xk_key key, struct xk_key passive_key,
				   struct xk_session *lls, const void *how, struct xk_msg *m);

/*
 * Lets hlp_receive accept sessions (passive open), each announced by open_done. Enables are counted: the same hlps may
 * enable again. -EADDRINUSE: other hlps have enabled these participants.
 */
int xk_open_enable(struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_protocol *llp,
		   struct xk_participants *participants);

/* Takes back one open_enable of the same participants and hlps, or returns -ENOENT. */
int xk_open_disable(struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_protocol *llp,
		    struct xk_participants *participants);

/* The open_enables of one passive key. */
struct xk_enable {
	struct xk_protocol *hlp_receive, *hlp_type;
	struct xk_binding binding;
	unsigned count; /* under hlp_receive's lock */
	struct xk_retired retired;
};

/* open_enable and open_disable of a protocol with passive keys in map; return as xk_open_enable and xk_open_disable. */
int xk_enable_add(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type);
int xk_enable_remove(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive,
		     struct xk_protocol *hlp_type);
/* Frees every enable left in map, then the map. For fini. */
void xk_enable_fini(struct xk_map *map);

/* xk_open_enable and xk_open_disable, for protocols without such operations. -EOPNOTSUPP: there is no table. */
int xk_table_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		    struct xk_participants *participants);
int xk_table_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		     struct xk_participants *participants);

/* ---- for the kernel ---- */

/* Make a protocol's table before its init, 0 or -errno; free it after its fini. Main thread. */
int xk_table_init(struct xk_protocol *self);
void xk_table_fini(struct xk_protocol *self);

/* Asks the sessions in a protocol's table for their promises (upi.h). Returns NULL, or a broken one. */
const char *xk_table_promise(struct xk_protocol *self, bool at_rest);

#endif
