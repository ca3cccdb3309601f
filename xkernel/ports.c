/* ports.c - see ports.h. */
#include "xkernel/ports.h"

#include <errno.h>

#include "xkernel/siphash.h"

/* Opens with this local number. -EEXIST: it is taken. lls stays the caller's. */
static int
ports_try(struct xk_protocol *self, const struct xk_opening *o, uint32_t local, struct xk_session **session)
{
	const struct xk_enable *enable = xk_table_enabled(self, xk_table_number_key(local));
	bool chooses = o->local == XK_ANY;
	struct xk_key key = o->key(self, o->lls, local, o->how);

	if (enable != NULL && (chooses || enable->hlp_receive != o->hlp_receive))
		return -EEXIST;
	if (chooses && xk_table_find(self, key) != NULL) /* saves making a session in vain */
		return -EEXIST;
	if (!xk_duplicate(o->lls))
		return -ENOMEM;
	if (o->shares && !chooses)
		return xk_table_open(self, key, o->hlp_receive, o->hlp_type, o->lls, o->how, session);
	return xk_table_add(self, key, o->hlp_receive, o->hlp_type, o->lls, o->how, session);
}

/* Returns the offset of the numbers chosen for the peer of lls. */
static uint32_t
ports_offset(const struct xk_ports *ports, struct xk_session *lls)
{
	const uint64_t key[2] = { ports->seed, ~ports->seed }; /* 64 secret bits are enough */
	struct xk_participants peer = { .remote.depth = 0 };
	uint64_t hash = 0;

	if (ports->seed != 0 && xk_get_participants(lls, &peer) == 0)
		for (unsigned i = 0; i < peer.remote.depth; i++)
			hash = siphash(key, hash, peer.remote.address[i]);
	return (uint32_t)(hash % ports->count);
}

int
xk_ports_open(struct xk_protocol *self, struct xk_ports *ports, const struct xk_opening *o, struct xk_session **session)
{
	bool chooses = o->local == XK_ANY;
	uint32_t local = (uint32_t)o->local, offset = chooses ? ports_offset(ports, o->lls) : 0;
	int err = -EEXIST;

	for (uint32_t tries = chooses ? ports->count : 1; err == -EEXIST && tries > 0; tries--) {
		if (chooses)
			local = ports->first +
				(atomic_fetch_add_explicit(&ports->chosen, 1, memory_order_relaxed) + offset) %
					ports->count;
		err = ports_try(self, o, local, session);
	}
	xk_close(o->lls);
	return err == -EEXIST ? -EADDRINUSE : err;
}

int
xk_ports_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		     struct xk_key *key)
{
	uint64_t local = xk_participant_pop(&participants->local);

	if (!xk_is_port(local))
		return -EINVAL;
	if (xk_participant_pop(&participants->local) != XK_ANY || xk_participant_pop(&participants->remote) != XK_ANY)
		return -EOPNOTSUPP;
	*key = xk_table_number_key((uint32_t)local);
	return 0;
}
