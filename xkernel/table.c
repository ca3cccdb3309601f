/* table.c - see table.h. */
#include "xkernel/table.h"

#include <errno.h>
#include <stdlib.h>

#include "xkernel/checksum.h"
#include "xkernel/engine/engine.h"
#include "xkernel/platform.h"
#include "xkernel/protocol.h"
#include "xkernel/receive.h"

/* TABLE_TRIES: tries of an open that other opens and closes keep interrupting */
enum { TABLE_TRIES = 1000, TABLE_SESSIONS = 16, TABLE_ENABLES = 8 };

/* ---- init and fini ---- */

static bool
table_is_used(const struct xk_protocol *self)
{
	const struct xk_protocol_type *type = self->type;

	return (type->session_ops != NULL && (type->flags & XK_PORT) == 0) || (type->flags & XK_TABLE) != 0;
}

int
xk_table_init(struct xk_protocol *self)
{
	int err;

	if (!table_is_used(self))
		return 0;
	err = xk_map_init(&self->table.sessions, self->kernel, TABLE_SESSIONS);
	if (err != 0)
		return err;
	err = xk_map_init(&self->table.enables, self->kernel, TABLE_ENABLES);
	if (err != 0)
		xk_map_fini(&self->table.sessions);
	return err;
}

void
xk_table_fini(struct xk_protocol *self)
{
	if (!table_is_used(self))
		return;
	xk_enable_fini(&self->table.enables);
	xk_map_fini(&self->table.sessions);
}

/* ---- promises ---- */

struct table_asked {
	bool at_rest;
	const char *why;
};

static void
table_ask(void *object, void *context)
{
	struct xk_session *s = object;
	const struct xk_session_ops *ops = s->ops;
	struct table_asked *asked = context;

	if (asked->why == NULL && ops->promise != NULL)
		asked->why = ops->promise(s, asked->at_rest);
}

const char *
xk_table_promise(struct xk_protocol *self, bool at_rest)
{
	const struct xk_session_ops *ops = self->type->session_ops;
	struct table_asked asked = { .at_rest = at_rest };

	if (table_is_used(self) && (ops == NULL || ops->promise != NULL))
		xk_map_for_each(&self->table.sessions, table_ask, &asked);
	return asked.why;
}

/* ---- headers of new sessions ---- */

int
xk_sends_pseudo_sums(const struct xk_protocol *self, struct xk_session *lls, uint64_t *push_sum, uint64_t *pop_sum)
{
	uint64_t local, remote, destination, number = xk_sum_of16(self->format.sum_pseudo);
	int err = xk_control(lls, XK_GET_MY_HOST, &local);

	if (err >= 0)
		err = xk_control(lls, XK_GET_PEER_HOST, &remote);
	if (err < 0)
		return err;
	if (xk_control(lls, XK_GET_DESTINATION, &destination) < 0)
		destination = local;
	*push_sum = xk_sum_of32((uint32_t)local) + xk_sum_of32((uint32_t)remote) + number;
	*pop_sum = xk_sum_of32((uint32_t)remote) + xk_sum_of32((uint32_t)destination) + number;
	return 0;
}

/*
 * Stores the constant part of the headers that s sends: that of the header at p, which it receives, with exchanged
 * ends.
 */
static void
sends_header(struct xk_session *s, const uint8_t *p)
{
	const struct xk_protocol_type *type = s->protocol->type;
	const struct xk_format *format = &s->protocol->format;
	uint8_t *to = s->sends.header;
	size_t at = 0;

	for (const struct xk_field *f = type->fields; f->name != NULL; at += f->bits, f++)
		if (f->end == XK_END_REMOTE)
			xk_bits_store(to, 8 * (size_t)format->local_at, f->bits, xk_field_load(f, p, at));
		else if (f->end == XK_END_LOCAL)
			xk_bits_store(to, 8 * (size_t)format->remote_at, f->bits, xk_field_load(f, p, at));
		else if (f->kind == XK_NAMES_SESSION)
			xk_bits_store(to, at, f->bits, xk_field_load(f, p, at));
		else if (f->usual != 0)
			xk_bits_store(to, at, f->bits, f->usual);
}

/*
 * Fills in the `sends` of s, a new session on s->lls, from the header of a message that it would receive. Returns 0;
 * -EMSGSIZE: not even a header fits below; or the error of the session below.
 */
static int
sends_init(struct xk_session *s, const uint8_t *p)
{
	const struct xk_format *format = &s->protocol->format;
	struct xk_sends *sends = &s->sends;
	uint32_t below = 0, offloads, most = format->length_len == 2 ? UINT16_MAX : UINT32_MAX;
	int err = 0;

	xk_assert(format->len <= XK_SENDS_HEADER);
	sends_header(s, p);
	if (format->length_len != 0)
		err = xk_control(s->lls, XK_GET_MAX_PACKET, &below);
	if (err >= 0 && format->sum_covers == XK_COVERS_PSEUDO) {
		err = xk_sends_pseudo_sums(s->protocol, s->lls, &sends->push_sum, &sends->pop_sum);
		sends->offloads = err >= 0 && xk_control(s->lls, XK_GET_OFFLOADS, &offloads) >= 0 &&
				  (offloads & XK_OFFLOAD_UDP_SUM) != 0;
		sends->sums = !sends->offloads;
	}
	if (err < 0)
		return err;
	if (format->length_len != 0 && below < format->len)
		return -EMSGSIZE;
	sends->is_path = s->ops->pop == xk_pop_through || s->ops->path_state != NULL;
	if (s->protocol->ops->key != NULL && format->names[1].len == 0) /* which alone decides */
		atomic_store_explicit(&sends->from_any, true, memory_order_relaxed);
	sends->longest = format->length_len == 0 ? UINT32_MAX : (below < most ? below : most) - format->len;
	atomic_store_explicit(&sends->whole, sends->longest, memory_order_relaxed);
	return 0;
}

/* ---- sessions ---- */

int
xk_table_add(struct xk_protocol *self, struct xk_key key, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	     struct xk_session *lls, const void *how, struct xk_session **session)
{
	struct xk_session *s = xk_session_new(self, self->type->session_ops, hlp_receive, hlp_type, lls);
	int err = 0;

	if (s == NULL) {
		xk_close(lls);
		return -ENOMEM;
	}
	if (self->type->flags & XK_BY_FIELDS) {
		err = sends_init(s, how);
		if (err != 0) {
			xk_session_discard(s);
			return err;
		}
	}
	if (s->ops->setup != NULL)
		err = s->ops->setup(s, how);
	if (self->type->flags & XK_BY_FIELDS)
		s->sends.header_sum = xk_sum_fold(xk_sum(0, s->sends.header, self->format.len));
	if (err == 0)
		err = xk_session_bind(s, &self->table.sessions, key);
	if (err != 0)
		xk_close(s);
	else
		*session = s;
	return err;
}

int
xk_table_share(struct xk_protocol *self, struct xk_key key, struct xk_protocol *hlp_receive,
	       struct xk_protocol *hlp_type, struct xk_session **session)
{
	struct xk_session *s = xk_table_find(self, key);

	if (s == NULL || !xk_duplicate(s))
		return -ENOENT;
	if (xk_hlp_receive(s) != hlp_receive || s->hlp_type != hlp_type) {
		xk_session_release(s); /* does not count as closed by an hlp */
		return -EADDRINUSE;
	}
	*session = s;
	return 0;
}

/* Keeps its reference on lls until the end: each try needs lls. */
int
xk_table_open(struct xk_protocol *self, struct xk_key key, struct xk_protocol *hlp_receive,
	      struct xk_protocol *hlp_type, struct xk_session *lls, const void *how, struct xk_session **session)
{
	int err = -EEXIST;

	for (unsigned i = 0; i < TABLE_TRIES && err == -EEXIST; i++) {
		err = xk_table_share(self, key, hlp_receive, hlp_type, session);
		if (err != -ENOENT)
			break;
		if (lls != NULL && !xk_duplicate(lls))
			err = -ENOMEM;
		else
			err = xk_table_add(self, key, hlp_receive, hlp_type, lls, how, session);
	}
	xk_close(lls);
	return err == -EEXIST ? -EADDRINUSE : err;
}

struct xk_session *
xk_table_accept(struct xk_protocol *self, struct xk_key key, struct xk_key passive_key, struct xk_session *lls,
		const void *how, struct xk_msg *m)
{
	const struct xk_enable *enable = xk_table_enabled(self, passive_key);
	unsigned why = XK_DROP_NO_SESSION;
	struct xk_session *s = NULL;
	int err;

	if (enable == NULL || !xk_duplicate(lls))
		goto drop;
	err = xk_table_add(self, key, enable->hlp_receive, enable->hlp_type, lls, how, &s);
	if (err == -EEXIST) {
		s = xk_table_find(self, key);
		if (s == NULL)
			goto drop;
	} else if (err != 0) {
		why = err == -ENOMEM ? XK_DROP_NO_MEMORY : XK_DROP_NO_SESSION;
		goto drop;
	} else if (xk_session_announce(s) != 0) {
		why = XK_DROP_REFUSED;
		goto drop;
	}
	return s;
drop:
	xk_drop(self, m, why);
	return NULL;
}

/* ---- enables; counts change under the lock of the protocol that enables ---- */

int
xk_enable_add(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type)
{
	struct xk_enable *enable;
	int err = 0;

	xk_spin_lock(&hlp_receive->lock);
	enable = xk_map_resolve(map, key);
	if (enable == NULL) {
		enable = calloc(1, sizeof(*enable));
		if (enable == NULL) {
			err = -ENOMEM;
			goto unlock;
		}
		enable->hlp_receive = hlp_receive;
		enable->hlp_type = hlp_type;
		err = xk_map_bind(map, &enable->binding, key, enable);
		if (err != 0) {
			free(enable);
			goto unlock;
		}
	} else if (enable->hlp_receive != hlp_receive || enable->hlp_type != hlp_type) {
		err = -EEXIST;
		goto unlock;
	}
	enable->count++;
unlock:
	xk_spin_unlock(&hlp_receive->lock);
	return err == -EEXIST ? -EADDRINUSE : err;
}

static void
enable_free(struct xk_retired *retired)
{
	free(xk_container_of(retired, struct xk_enable, retired));
}

int
xk_enable_remove(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type)
{
	struct xk_enable *enable;
	bool found, last;

	xk_spin_lock(&hlp_receive->lock);
	enable = xk_map_resolve(map, key);
	found = enable != NULL && enable->hlp_receive == hlp_receive && enable->hlp_type == hlp_type;
	last = found && --enable->count == 0;
	if (last)
		xk_map_unbind(map, &enable->binding);
	xk_spin_unlock(&hlp_receive->lock);
	if (last)
		xk_retire(hlp_receive->kernel, &enable->retired, enable_free);
	return found ? 0 : -ENOENT;
}

static void
enable_forget(void *object, void *context)
{
	struct xk_enable *enable = object;

	xk_map_unbind(context, &enable->binding);
	free(enable);
}

void
xk_enable_fini(struct xk_map *map)
{
	xk_map_for_each(map, enable_forget, map);
	xk_map_fini(map);
}

static int
table_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		  struct xk_key *key)
{
	uint32_t number;
	int err;

	if (!table_is_used(self))
		return -EOPNOTSUPP;
	if (self->ops->passive_key != NULL)
		return self->ops->passive_key(self, hlp_type, participants, key);
	err = xk_number(self, hlp_type, &number);
	if (err != 0)
		return err;
	if (xk_participant_pop(&participants->remote) != XK_ANY || xk_participant_pop(&participants->local) != XK_ANY)
		return -EOPNOTSUPP;
	*key = xk_table_number_key(number);
	return 0;
}

int
xk_table_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		struct xk_participants *participants)
{
	struct xk_key key;
	int err = table_passive_key(self, hlp_type, participants, &key);

	return err != 0 ? err : xk_enable_add(&self->table.enables, key, hlp_receive, hlp_type);
}

/* Returns whether an open_enable still covers s. */
static bool
table_is_wanted(struct xk_session *s, void *context)
{
	struct xk_protocol *self = context;
	uint32_t number;

	if (self->ops->passive_key_of != NULL)
		return xk_table_enabled(self, self->ops->passive_key_of(s)) != NULL;
	return xk_number(self, s->hlp_type, &number) == 0 &&
	       xk_table_enabled(self, xk_table_number_key(number)) != NULL;
}

int
xk_table_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		 struct xk_participants *participants)
{
	struct xk_key key;
	int err = table_passive_key(self, hlp_type, participants, &key);

	if (err == 0)
		err = xk_enable_remove(&self->table.enables, key, hlp_receive, hlp_type);
	if (err == 0)
		xk_session_uncache(self, table_is_wanted, self);
	return err;
}

int
xk_open_enable(struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_protocol *llp,
	       struct xk_participants *participants)
{
	if (llp->ops->open_enable == NULL)
		return xk_table_enable(llp, hlp_receive, hlp_type, participants);
	return llp->ops->open_enable(llp, hlp_receive, hlp_type, participants);
}

int
xk_open_disable(struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_protocol *llp,
		struct xk_participants *participants)
{
	if (llp->ops->open_disable == NULL)
		return xk_table_disable(llp, hlp_receive, hlp_type, participants);
	return llp->ops->open_disable(llp, hlp_receive, hlp_type, participants);
}
