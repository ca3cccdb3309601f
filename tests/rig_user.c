/* rig_user.c - fake users, and the user's side of rig.h. */
#include "tests/rig_private.h"

/* ---- fake users ---- */

struct rig_fake *
rig_fake_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct rig_fake, protocol);
}

static void
rig_hold(struct rig *r, struct xk_session *s)
{
	struct rig_held *held = rig_alloc(sizeof(*held));

	held->session = s;
	held->next = r->held;
	r->held = held;
}

static int
rig_user_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
		   struct xk_protocol *hlp_type)
{
	struct rig *r = rig_fake_of(self)->rig;

	r->open_dones++;
	r->announced = session;
	if (r->refuse == 0 && r->keep && xk_duplicate(session))
		rig_hold(r, session);
	return r->refuse;
}

static void
rig_user_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	rig_list_add(&rig_fake_of(self)->rig->delivered, m, self->name, lls);
}

static void
rig_user_close_done(struct xk_protocol *self, struct xk_session *session)
{
	rig_fake_of(self)->rig->close_dones++;
}

const struct xk_protocol_ops rig_user_ops = {
	.open_done = rig_user_open_done,
	.close_done = rig_user_close_done,
	.demux = rig_user_demux,
	.call_demux = rig_user_call_demux,
};

/* ---- the user's side ---- */

void
rig_user(struct rig *r, const char *name)
{
	r->user = rig_fake_of(rig_protocol(r, name));
}

static void
rig_do_open(void *argument)
{
	struct rig_opening *opening = argument;
	struct xk_protocol *user = &opening->user->protocol;

	opening->status = xk_open(user, user, xk_lower(user, 0), &opening->participants, &opening->session);
	if (opening->status == 0)
		rig_hold(opening->rig, opening->session);
}

struct xk_session *
rig_open(struct rig *r, struct xk_participants participants)
{
	struct rig_opening *opening = rig_alloc(sizeof(*opening));

	opening->rig = r;
	opening->user = r->user;
	opening->participants = participants;
	opening->status = -EINPROGRESS;
	opening->next = r->openings;
	r->openings = opening;
	rig_do(r, rig_do_open, opening);
	return rig_opened_session(r);
}

struct xk_session *
rig_must_open(struct rig *r, struct xk_participants participants)
{
	struct xk_session *s = rig_open(r, participants);

	if (s == NULL)
		fprintf(stderr, "\nrig: open failed: %s (%d)\n", strerror(-r->error), r->error);
	REQUIRE(s != NULL);
	return s;
}

struct xk_session *
rig_opened_session(struct rig *r)
{
	r->error = r->openings->status;
	return r->error == 0 ? r->openings->session : NULL;
}

int
rig_error(struct rig *r)
{
	return r->error;
}

struct xk_participants
rig_to(uint64_t remote)
{
	return (struct xk_participants){ .remote = { 1, { remote } } };
}

struct xk_participants
rig_to2(uint64_t remote_lower, uint64_t remote_upper, uint64_t local)
{
	return (struct xk_participants){ .remote = { 2, { remote_lower, remote_upper } }, .local = { 1, { local } } };
}

struct rig_enabling {
	struct xk_protocol *user;
	struct xk_participants participants;
	bool disable;
	int status;
};

static void
rig_do_enable(void *argument)
{
	struct rig_enabling *e = argument;

	if (e->disable)
		e->status = xk_open_disable(e->user, e->user, xk_lower(e->user, 0), &e->participants);
	else
		e->status = xk_open_enable(e->user, e->user, xk_lower(e->user, 0), &e->participants);
}

int
rig_open_enable(struct rig *r, struct xk_participants participants)
{
	struct rig_enabling e = { &r->user->protocol, participants, false, 0 };

	REQUIRE(rig_do(r, rig_do_enable, &e));
	return e.status;
}

int
rig_open_disable(struct rig *r, struct xk_participants participants)
{
	struct rig_enabling e = { &r->user->protocol, participants, true, 0 };

	REQUIRE(rig_do(r, rig_do_enable, &e));
	return e.status;
}

static void
rig_do_close(void *argument)
{
	xk_close(argument);
}

void
rig_close(struct rig *r, struct xk_session *s)
{
	struct rig_held **at = &r->held, *held;

	while (*at != NULL && (*at)->session != s)
		at = &(*at)->next;
	held = *at;
	if (held == NULL) {
		fprintf(stderr, "\nrig: rig_close: no user holds this session\n");
		abort();
	}
	*at = held->next;
	free(held);
	REQUIRE(rig_do(r, rig_do_close, s));
}

struct rig_pushing {
	struct xk_session *s;
	struct xk_msg *m;
	int status;
};

static void
rig_do_push(void *argument)
{
	struct rig_pushing *p = argument;

	p->status = xk_push(p->s, p->m);
}

static int
rig_push_message(struct rig *r, struct xk_session *s, struct xk_msg *m)
{
	struct rig_pushing p = { s, m, 0 };

	REQUIRE(rig_do(r, rig_do_push, &p));
	return p.status;
}

int
rig_push(struct rig *r, struct xk_session *s, const char *text)
{
	struct rig_hex *hex = rig_hex_parse(text);
	int status = rig_push_message(r, s, rig_message(r, NULL, 0, hex));

	free(hex);
	return status;
}

int
rig_push_bytes(struct rig *r, struct xk_session *s, const void *bytes, size_t len)
{
	return rig_push_message(r, s, rig_frame(r, NULL, 0, bytes, len));
}

int
rig_push_pattern(struct rig *r, struct xk_session *s, size_t len)
{
	struct xk_msg *m = xk_memory_frame(r->platform, len);

	REQUIRE(m != NULL);
	for (size_t i = 0; i < len; i++)
		m->data[i] = (uint8_t)(i % 251);
	return rig_push_message(r, s, m);
}

unsigned
rig_open_done_count(struct rig *r)
{
	return r->open_dones;
}

struct xk_session *
rig_announced_session(struct rig *r)
{
	return r->announced;
}

void
rig_keep_sessions(struct rig *r, bool keep)
{
	r->keep = keep;
}

void
rig_refuse_sessions(struct rig *r, int status)
{
	r->refuse = status;
}

bool
rig_delivered_is(struct rig *r, const char *hex)
{
	return rig_list_is(&r->delivered, "delivered", hex);
}

long
rig_take_delivered(struct rig *r, void *bytes, size_t max)
{
	return rig_list_copy(&r->delivered, bytes, max);
}

unsigned
rig_delivered(struct rig *r)
{
	return r->delivered.count;
}

struct xk_session *
rig_delivered_session(struct rig *r)
{
	return r->delivered.session;
}
