/*
 * table.h - a protocol's sessions by what messages bear, and who is willing to have more of them: what all protocols do to open,
 * enable, accept, share and close.
 *
 * Each protocol instance has one such table if its type says what its sessions are (`session_ops` with a size). A session is bound
 * under one key, its active one, built by the protocol from what its messages bear. A willingness (xk_open_enable) is bound
 * under a passive key; unless the type's `passive_key` says otherwise that is the number of the protocol above. What a new
 * session needs of its protocol, `setup` of its operations does.
 *
 * None of these functions waits. What is found stays until the shepherd's turn ends or it parks, as what a map resolves.
 */
#ifndef XK_TABLE_H
#define XK_TABLE_H

#include "xkernel/upi.h"

/*
 * The two halves of xk_table_find, for a demux that leaves all but the session found last to a function apart, and so
 * saves no registers. Any shepherd.
 */
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

/* The session of key, or NULL. Any shepherd. */
static inline struct xk_session *
xk_table_find(struct xk_protocol *self, struct xk_key key)
{
	return xk_map_resolve(&self->table.sessions, key);
}

/* The willingness under a passive key, or NULL. Any shepherd. */
static inline const struct xk_enable *
xk_table_enabled(struct xk_protocol *self, struct xk_key passive_key)
{
	return xk_map_resolve(&self->table.enables, passive_key);
}

/* The passive key of protocols above that are known by their number alone. */
static inline struct xk_key
xk_table_number_key(uint32_t number)
{
	return (struct xk_key){ number, 0 };
}

/*
 * A new session under key, on lls, set up from `how`, with one reference, the caller's. Takes the caller's reference on
 * lls (NULL: none), also on failure. 0; -EEXIST: there is one; -ENOMEM; or what setup says. Any shepherd.
 */
int xk_table_add(struct xk_protocol *self, struct xk_key key, struct xk_protocol *hlp_receive,
		 struct xk_protocol *hlp_type, struct xk_session *lls, const void *how, struct xk_session **session);

/*
 * One more reference on the session of key, if it is of the same hlps. 0; -ENOENT: there is none; -EADDRINUSE: it is
 * others'. Any shepherd.
 */
int xk_table_share(struct xk_protocol *self, struct xk_key key, struct xk_protocol *hlp_receive,
		   struct xk_protocol *hlp_type, struct xk_session **session);

/* One more reference on the session of key, or a new one: as xk_table_share and, where that says -ENOENT, xk_table_add. */
int xk_table_open(struct xk_protocol *self, struct xk_key key, struct xk_protocol *hlp_receive,
		  struct xk_protocol *hlp_type, struct xk_session *lls, const void *how, struct xk_session **session);

/*
 * For a stranger's message m, which came up lls (a reference is taken) and was found to be good: a session under key for
 * whoever is willing under passive_key, who was told of it. Where another shepherd is faster it is that one's. NULL: m was
 * dropped. A shepherd.
 */
struct xk_session *xk_table_accept(struct xk_protocol *self, struct xk_key key, struct xk_key passive_key,
				   struct xk_session *lls, const void *how, struct xk_msg *m);

/* As xk_open_enable and xk_open_disable, which come here where a protocol has no such operation. */
int xk_table_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		    struct xk_participants *participants);
int xk_table_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		     struct xk_participants *participants);

#endif
