/* ports.c - see ports.h. */
#include "xkernel/support/ports.h"

#include <errno.h>

#include "xkernel/receive.h"
#include "xkernel/siphash.h"
#include "xkernel/support/fault.h"

int
xk_ports_init(struct xk_protocol *self, uint32_t first, uint32_t last, uint64_t seed)
{
	struct xk_ports *ports = &self->table.ports;
	struct xk_participants any = { .remote.depth = 0 };

	ports->first = first;
	ports->count = last - first + 1;
	ports->seed = seed;
	return xk_open_enable(self, self, xk_lower(self, 0), &any);
}

/* Opens with this local number. -EEXIST: it is taken. lls stays the caller's. */
static int
ports_try(struct xk_protocol *self, const struct xk_opening *o, uint32_t local, struct xk_session **session)
{
	const struct xk_enable *enable = xk_table_enabled(self, xk_table_number_key(local));
	bool chooses = o->local == XK_ANY;
	struct xk_key key;

	xk_put16(o->p + self->format.local_at, (uint16_t)local);
	key = xk_receive_key(self, o->lls, o->p);
	if (enable != NULL && (chooses || enable->hlp_receive != o->hlp_receive))
		return -EEXIST;
	if (chooses && xk_table_find(self, key) != NULL) /* avoids making a session in vain */
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
xk_ports_open_on(struct xk_protocol *self, const struct xk_opening *o, struct xk_session **session)
{
	struct xk_ports *ports = &self->table.ports;
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
xk_ports_open_below(struct xk_protocol *self, struct xk_participants *participants, struct xk_opening *o)
{
	uint64_t remote = xk_participant_pop(&participants->remote);

	o->local = xk_participant_pop(&participants->local);
	if (!xk_is_port(remote) || (!xk_is_port(o->local) && o->local != XK_ANY))
		return -EINVAL;
	xk_put16(o->p + self->format.remote_at, (uint16_t)remote);
	return xk_open(self, self, xk_lower(self, 0), participants, &o->lls);
}

int
xk_ports_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	      struct xk_participants *participants, struct xk_session **session)
{
	uint8_t p[XK_SENDS_HEADER] = { 0 };
	struct xk_opening opening = { hlp_receive, hlp_type, .p = p, .how = p };
	int err = xk_ports_open_below(self, participants, &opening);

	return err != 0 ? err : xk_ports_open_on(self, &opening, session);
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

struct xk_key
xk_ports_station_key(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	uint64_t ports = xk_window_load(&self->format.names[0], p), station;

	if (xk_control(lls, XK_GET_PEER_LINK, &station) == 0)
		return (struct xk_key){ station, ports };
	return (struct xk_key){ (uintptr_t)lls, UINT64_C(1) << 32 | ports };
}

void
xk_ports_setup(struct xk_session *s, const uint8_t *p)
{
	const struct xk_format *format = &s->protocol->format;

	memcpy(s->sends.header + format->remote_at, p + format->local_at, 2);
	memcpy(s->sends.header + format->local_at, p + format->remote_at, 2);
}

/* The ends are exchanged in `sends`. */
struct xk_key
xk_ports_passive_key_of(const struct xk_session *s)
{
	return xk_table_number_key(xk_get16(s->sends.header + s->protocol->format.remote_at));
}

int
xk_ports_fault(struct xk_protocol *self, struct xk_fault_report *report)
{
	const struct xk_format *format = &self->format;
	uint8_t p[XK_SENDS_HEADER] = { 0 };
	struct xk_session *s;

	if (report->session == NULL || report->len < format->len)
		return -ENOENT;
	memcpy(p + format->remote_at, report->begin + format->local_at, 2);
	memcpy(p + format->local_at, report->begin + format->remote_at, 2);
	s = xk_table_find(self, xk_receive_key(self, report->session, p));
	if (s == NULL)
		return -ENOENT;
	report->begin += format->len;
	report->len -= format->len;
	xk_fault_notify(s, report);
	return 0;
}
