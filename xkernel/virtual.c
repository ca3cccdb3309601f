/* virtual.c - see virtual.h. */
#include "xkernel/virtual.h"

#include <errno.h>

/* So many openers and closers may come in between before an opener gives up. */
enum { VIRTUAL_TRIES = 1000 };

static struct xk_key
virtual_active_key(const struct xk_session *lls)
{
	return (struct xk_key){ (uintptr_t)lls, 0 };
}

/* ---- sessions ---- */

/* A session on lls (with a reference of its own on it), with the caller's reference. 0, -EEXIST or -ENOMEM. */
static int
virtual_session_make(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_session *lls,
		     struct xk_session **session)
{
	int err = -ENOMEM;

	if (xk_duplicate(lls))
		err = xk_table_add(self, virtual_active_key(lls), hlp_receive, lls->hlp_type, lls, NULL, session);
	if (err == 0)
		atomic_store_explicit(&lls->above, *session, memory_order_release);
	return err;
}

int
xk_virtual_open_on(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_session *lls,
		   struct xk_session **session)
{
	for (unsigned i = 0; i < VIRTUAL_TRIES; i++) {
		int err = xk_table_share(self, virtual_active_key(lls), hlp_receive, lls->hlp_type, session);

		if (err == -ENOENT)
			err = virtual_session_make(self, hlp_receive, lls, session);
		if (err != -EEXIST)
			return err;
	}
	return -EADDRINUSE;
}

/* Another session may stand on the one below already: of whoever found this one closing. */
void
xk_virtual_session_close(struct xk_session *s)
{
	struct xk_session *expected = s;

	atomic_compare_exchange_strong_explicit(&s->lls->above, &expected, NULL, memory_order_release,
						memory_order_relaxed);
}

/* ---- opening ---- */

int
xk_virtual_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *lls;
	int status = xk_open(self, hlp_type, xk_lower(self, 0), participants, &lls);

	if (status != 0)
		return status;
	status = xk_virtual_open_on(self, hlp_receive, lls, session);
	xk_close(lls);
	return status;
}

int
xk_virtual_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		       struct xk_participants *participants)
{
	struct xk_map *passive = &self->table.enables;
	int status = xk_enable_add(passive, xk_virtual_passive_key(hlp_type), hlp_receive, hlp_type);

	if (status != 0)
		return status;
	status = xk_open_enable(self, hlp_type, xk_lower(self, 0), participants);
	if (status != 0)
		xk_enable_remove(passive, xk_virtual_passive_key(hlp_type), hlp_receive, hlp_type);
	return status;
}

static bool
virtual_is_of_another(struct xk_session *s, void *hlp_type)
{
	return s->hlp_type != hlp_type;
}

/* Only the protocol below knows these participants, so that it is asked first. */
int
xk_virtual_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			struct xk_participants *participants)
{
	struct xk_map *passive = &self->table.enables;
	const struct xk_enable *enable = xk_table_enabled(self, xk_virtual_passive_key(hlp_type));
	int status;

	if (enable == NULL || enable->hlp_receive != hlp_receive)
		return -ENOENT;
	status = xk_open_disable(self, hlp_type, xk_lower(self, 0), participants);
	if (status == 0)
		status = xk_enable_remove(passive, xk_virtual_passive_key(hlp_type), hlp_receive, hlp_type);
	if (status == 0)
		xk_session_uncache(self, virtual_is_of_another, hlp_type);
	return status;
}

/* A session on lls, which a message has caused. 0 (perhaps another shepherd's) or -errno. */
static int
virtual_accept(struct xk_protocol *self, struct xk_session *lls)
{
	const struct xk_enable *enable = xk_table_enabled(self, xk_virtual_passive_key(lls->hlp_type));
	struct xk_session *s;
	int status;

	if (enable == NULL)
		return -ENOENT;
	status = virtual_session_make(self, enable->hlp_receive, lls, &s);
	if (status != 0)
		return status == -EEXIST ? 0 : status;
	return xk_session_announce(s);
}

int
xk_virtual_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
		     struct xk_protocol *hlp_type)
{
	return virtual_accept(self, session);
}

/* Read on every message's way while sessions come and go; valid as long as what a map resolves. */
static inline struct xk_session *
virtual_standing_on(struct xk_session *lls)
{
	return atomic_load_explicit(&lls->above, memory_order_acquire);
}

void
xk_virtual_close_done(struct xk_protocol *self, struct xk_session *session)
{
	struct xk_session *s = virtual_standing_on(session);

	if (s != NULL)
		xk_close_done(s);
}

/* ---- up ---- */

/* Where no session stands on lls: it was closed, and the one below was not. Takes m. */
__attribute__((noinline)) static void
virtual_demux_accepted(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_session *s = NULL;

	if (virtual_accept(self, lls) == 0)
		s = xk_table_find(self, virtual_active_key(lls));
	if (s == NULL)
		xk_drop(self, m, XK_DROP_NO_SESSION);
	else
		xk_pop(s, lls, m, NULL);
}

void
xk_virtual_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_session *s = virtual_standing_on(lls);

	if (xk_likely(s != NULL))
		xk_pop(s, lls, m, NULL);
	else
		virtual_demux_accepted(self, lls, m);
}
