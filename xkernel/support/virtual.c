/* virtual.c - see virtual.h. */
#include "xkernel/support/virtual.h"

#include <errno.h>

#include "xkernel/support/lowers.h"

static struct xk_key
virtual_active_key(const struct xk_session *lls)
{
	return (struct xk_key){ (uintptr_t)lls, 0 };
}

/* ---- sessions ---- */

/* Opens the session on lls. Takes the caller's reference on lls, also on failure. Returns 0 or -errno. */
static int
virtual_open_taking(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_session *lls,
		    struct xk_session **session)
{
	int err = xk_table_open(self, virtual_active_key(lls), hlp_receive, lls->hlp_type, lls, NULL, session);

	/* A shared session has been stored already, or is about to be: while it is open, no other is on lls. */
	if (err == 0)
		atomic_store_explicit(&lls->above, *session, memory_order_release);
	return err;
}

int
xk_virtual_open_on(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_session *lls,
		   struct xk_session **session)
{
	return xk_duplicate(lls) ? virtual_open_taking(self, hlp_receive, lls, session) : -ENOMEM;
}

/* Leaves `above` alone if another session is on the one below already, opened while this one was closing. */
void
xk_virtual_session_close(struct xk_session *s)
{
	xk_session_leave(s, s->lls);
}

/* ---- opening ---- */

int
xk_virtual_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *lls;
	int err = xk_open(self, hlp_type, xk_lower(self, 0), participants, &lls);

	return err != 0 ? err : virtual_open_taking(self, hlp_receive, lls, session);
}

int
xk_virtual_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		       struct xk_participants *participants)
{
	struct xk_key key = xk_virtual_passive_key(hlp_type);
	int err = xk_enable_add(&self->table.enables, key, hlp_receive, hlp_type);

	if (err != 0)
		return err;
	err = xk_enable_lowers(self, 1, self, hlp_type, participants);
	if (err != 0)
		xk_enable_remove(&self->table.enables, key, hlp_receive, hlp_type);
	return err;
}

static bool
virtual_is_of_another(struct xk_session *s, void *hlp_type)
{
	return s->hlp_type != hlp_type;
}

/*
 * Disables below first: only those protocols know the participants. Each open_disable closes the idle sessions, even if
 * other open_enables remain, because a session does not record which of them caused it.
 */
int
xk_virtual_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			struct xk_participants *participants)
{
	struct xk_key key = xk_virtual_passive_key(hlp_type);
	const struct xk_enable *enable = xk_table_enabled(self, key);
	int err;

	if (enable == NULL || enable->hlp_receive != hlp_receive)
		return -ENOENT;
	err = xk_disable_lowers(self, 1, self->lower_count, self, hlp_type, participants);
	if (err == 0)
		err = xk_enable_remove(&self->table.enables, key, hlp_receive, hlp_type);
	if (err == 0)
		xk_session_uncache(self, virtual_is_of_another, hlp_type);
	return err;
}

/* Makes a session on lls, which a message has created. If another shepherd was faster, its session serves. */
int
xk_virtual_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *lls,
		     struct xk_protocol *hlp_type)
{
	const struct xk_enable *enable = xk_table_enabled(self, xk_virtual_passive_key(lls->hlp_type));
	struct xk_session *s;
	int err;

	if (enable == NULL)
		return -ENOENT;
	if (!xk_duplicate(lls))
		return -ENOMEM;
	err = xk_table_add(self, virtual_active_key(lls), enable->hlp_receive, lls->hlp_type, lls, NULL, &s);
	if (err != 0)
		return err == -EEXIST ? 0 : err;
	atomic_store_explicit(&lls->above, s, memory_order_release);
	return xk_session_announce(s);
}

void
xk_virtual_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct xk_session *s = xk_session_above(session);

	if (s != NULL)
		xk_close_done(s);
}

/* ---- up ---- */

/* Handles m if no session is on lls: it was closed, unlike the one below. Takes m. */
XK_APART static void
virtual_demux_accepted(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_session *s = NULL;

	if (self->ops->open_done(self, lls->protocol, lls, lls->hlp_type) == 0)
		s = xk_table_find(self, virtual_active_key(lls));
	if (s == NULL)
		xk_drop(self, m, XK_DROP_NO_SESSION);
	else
		xk_pop(s, lls, m, NULL);
}

struct xk_session *
xk_virtual_find(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	return xk_session_above(lls);
}

void
xk_virtual_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_session *s = xk_session_above(lls);

	if (xk_likely(s != NULL))
		xk_pop(s, lls, m, NULL);
	else
		virtual_demux_accepted(self, lls, m);
}
