/* rig_wire.c - fake wires, and the wire's side of rig.h. */
#include "tests/rig_private.h"

/* ---- fake wires ---- */

struct rig_wire *
rig_wire_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct rig_wire, fake.protocol);
}

static struct rig_wire_session *
rig_wire_session_of(struct xk_session *s)
{
	return xk_container_of(s, struct rig_wire_session, session);
}

static int
rig_wire_push(struct xk_session *s, struct xk_msg *m)
{
	struct rig *r = rig_fake_of(s->protocol)->rig;

	if (r->before_sending != NULL) {
		void (*act)(struct rig * r) = r->before_sending;

		r->before_sending = NULL;
		act(r);
	}
	if (r->fail_sending != 0) {
		xk_drop(s->protocol, m, XK_DROP_NO_BUFFER);
		return r->fail_sending;
	}
	rig_list_add(&r->sent, m, s->protocol->name, s);
	return 0;
}

static void
rig_wire_close(struct xk_session *s)
{
	struct rig_wire *wire = rig_wire_of(s->protocol);

	wire->sessions--;
	if (wire->newest == s)
		wire->newest = NULL;
}

static struct rig_answer *
rig_answer_to(struct rig *r, int op)
{
	for (unsigned i = 0; i < r->answer_count; i++)
		if (r->answers[i].op == op)
			return &r->answers[i];
	return NULL;
}

static int
rig_wire_control(struct xk_protocol *self, int op, void *argument)
{
	const struct rig_answer *answer = rig_answer_to(rig_fake_of(self)->rig, op);

	if (answer == NULL || answer->len < 0)
		return -ENOTSUP;
	if (answer->len > 0)
		memcpy(argument, answer->bytes, (size_t)answer->len);
	return 0;
}

static int
rig_wire_session_control(struct xk_session *s, int op, void *argument)
{
	struct rig *r = rig_fake_of(s->protocol)->rig;

	r->unanswered += op == XK_UNANSWERED;
	if ((op != XK_GET_PEER_LINK && op != XK_GET_PEER_HOST) || rig_answer_to(r, op) != NULL)
		return rig_wire_control(s->protocol, op, argument);
	*(uint64_t *)argument = rig_wire_session_of(s)->remote;
	return 0;
}

static int
rig_wire_get_participants(struct xk_session *s, struct xk_participants *participants)
{
	xk_participant_push(&participants->remote, rig_wire_session_of(s)->remote);
	if (rig_wire_session_of(s)->local != XK_ANY)
		xk_participant_push(&participants->local, rig_wire_session_of(s)->local);
	return 0;
}

static const struct xk_session_ops rig_wire_session_ops = {
	.size = sizeof(struct rig_wire_session),
	.push = rig_wire_push,
	.pop = xk_pop_through,
	.call = rig_wire_call,
	.call_async = rig_wire_call_async,
	.close = rig_wire_close,
	.control = rig_wire_session_control,
	.get_participants = rig_wire_get_participants,
};

static struct xk_session *
rig_wire_session_new(struct rig_wire *wire, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		     uint64_t remote, uint64_t local)
{
	struct xk_session *s = xk_session_new(&wire->fake.protocol, &rig_wire_session_ops, hlp_receive, hlp_type, NULL);

	if (s == NULL)
		return NULL;
	rig_wire_session_of(s)->remote = remote;
	rig_wire_session_of(s)->local = local;
	wire->sessions++;
	wire->newest = s;
	return s;
}

static int
rig_wire_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	      struct xk_participants *participants, struct xk_session **session)
{
	struct rig_wire *wire = rig_wire_of(self);

	if (wire->refuse != 0)
		return wire->refuse;
	wire->remote = xk_participant_pop(&participants->remote);
	wire->local = xk_participant_pop(&participants->local);
	*session = rig_wire_session_new(wire, hlp_receive, hlp_type, wire->remote, wire->local);
	return *session == NULL ? -ENOMEM : 0;
}

static struct rig_enable *
rig_wire_enable(struct rig_wire *wire, const struct xk_protocol *hlp_receive, const struct xk_protocol *hlp_type)
{
	for (unsigned i = 0; i < RIG_ENABLES; i++)
		if (wire->enables[i].hlp_receive == hlp_receive && wire->enables[i].hlp_type == hlp_type)
			return &wire->enables[i];
	return NULL;
}

static int
rig_wire_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		     struct xk_participants *participants)
{
	struct rig_wire *wire = rig_wire_of(self);
	struct rig_enable *enable = rig_wire_enable(wire, hlp_receive, hlp_type);

	if (wire->refuse != 0)
		return wire->refuse;
	if (enable == NULL)
		enable = rig_wire_enable(wire, NULL, NULL);
	if (enable == NULL)
		return -ENOMEM;
	*enable = (struct rig_enable){ hlp_receive, hlp_type, enable->count + 1 };
	return 0;
}

static int
rig_wire_open_disable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		      struct xk_participants *participants)
{
	struct rig_enable *enable = rig_wire_enable(rig_wire_of(self), hlp_receive, hlp_type);

	if (enable == NULL)
		return -ENOENT;
	if (--enable->count == 0)
		*enable = (struct rig_enable){ NULL, NULL, 0 };
	return 0;
}

struct xk_session *
rig_wire_accept(struct rig_wire *wire)
{
	struct rig_enable *enable = NULL;
	struct xk_session *s;

	for (unsigned i = 0; i < RIG_ENABLES; i++)
		if (wire->enables[i].count > 0)
			enable = &wire->enables[i];
	if (enable == NULL)
		return NULL;
	s = rig_wire_session_new(wire, enable->hlp_receive, enable->hlp_type, wire->peer, XK_ANY);
	return s != NULL && xk_session_announce(s) == 0 ? s : NULL;
}

static void
rig_wire_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const uint8_t *p = xk_msg_pop(&m, sizeof(struct rig_address));
	struct rig_address to;

	xk_assert(p != NULL);
	memcpy(&to, p, sizeof(to));
	if (to.session == NULL)
		to.session = to.wire->newest;
	if (to.session == NULL)
		to.session = rig_wire_accept(to.wire);
	if (to.session == NULL)
		xk_drop(self, m, XK_DROP_NO_SESSION);
	else
		xk_pop(to.session, lls, m, NULL);
}

const struct xk_protocol_ops rig_wire_ops = {
	.open = rig_wire_open,
	.open_enable = rig_wire_open_enable,
	.open_disable = rig_wire_open_disable,
	.demux = rig_wire_demux,
	.control = rig_wire_control,
};

/* ---- the wire's side ---- */

void
rig_wire(struct rig *r, const char *name)
{
	struct xk_protocol *p = rig_protocol(r, name);

	r->port = NULL;
	r->wire = NULL;
	if (p->ops == &rig_wire_ops)
		r->wire = rig_wire_of(p);
	for (unsigned i = 0; i < r->port_count; i++)
		if (strcmp(r->ports[i]->name, name) == 0)
			r->port = r->ports[i];
	REQUIRE(r->wire != NULL || r->port != NULL);
}

static void
rig_inject_hex(struct rig *r, struct xk_session *s, const struct rig_hex *hex)
{
	struct rig_address address = { s != NULL ? rig_wire_of(s->protocol) : r->wire, s };

	if (address.wire == NULL) {
		CHECK(xk_memory_inject(r->port, rig_message(r, NULL, 0, hex)));
	} else {
		CHECK(xk_memory_inject(r->wire_port, rig_message(r, &address, sizeof(address), hex)));
	}
	rig_run(r);
}

void
rig_inject(struct rig *r, const char *text)
{
	rig_inject_on(r, NULL, text);
}

void
rig_inject_on(struct rig *r, struct xk_session *s, const char *text)
{
	struct rig_hex *hex = rig_hex_parse(text);

	rig_inject_hex(r, s, hex);
	free(hex);
}

void
rig_inject_bytes(struct rig *r, const void *bytes, size_t len)
{
	struct rig_hex *hex = rig_alloc(sizeof(*hex));

	REQUIRE(len <= RIG_HEX_MAX);
	memcpy(hex->bytes, bytes, len);
	hex->len = len;
	rig_inject_hex(r, NULL, hex);
	free(hex);
}

void
rig_inject_flips(struct rig *r, const void *bytes, size_t len, size_t bits)
{
	uint8_t *copy = rig_alloc(len);

	memcpy(copy, bytes, len);
	for (size_t bit = 0; bit < bits; bit++) {
		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
		rig_inject_bytes(r, copy, len);
		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(copy);
}

void
rig_inject_prefixes(struct rig *r, const char *text)
{
	struct rig_hex *hex = rig_hex_parse(text);

	for (size_t len = 0; len < hex->len; len++)
		rig_inject_bytes(r, hex->bytes, len);
	free(hex);
}

bool
rig_sent_is(struct rig *r, const char *hex)
{
	return rig_list_is(&r->sent, "sent", hex);
}

long
rig_take_sent(struct rig *r, void *bytes, size_t max)
{
	return rig_list_copy(&r->sent, bytes, max);
}

unsigned
rig_sent(struct rig *r)
{
	return r->sent.count;
}

const char *
rig_sent_through(struct rig *r)
{
	return r->sent.through;
}

void
rig_fail_sending(struct rig *r, int status)
{
	r->fail_sending = status;
	for (unsigned i = 0; i < r->port_count; i++)
		xk_memory_transmit_limit(r->ports[i], status != 0 ? 0 : XK_MEMORY_QUEUE);
}

void
rig_before_sending(struct rig *r, void (*act)(struct rig *r))
{
	r->before_sending = act;
}

/* Returns the chosen fake wire; ends the test if there is none. */
static struct rig_wire *
rig_fake_wire(struct rig *r)
{
	if (r->wire == NULL)
		fprintf(stderr,
			"\nrig: rig_wire_... needs a fake wire, but the rig has none or rig_wire chose a port\n");
	REQUIRE(r->wire != NULL);
	return r->wire;
}

unsigned
rig_wire_session_count(struct rig *r)
{
	return rig_fake_wire(r)->sessions;
}

unsigned
rig_wire_enable_count(struct rig *r)
{
	unsigned count = 0;

	for (unsigned i = 0; i < RIG_ENABLES; i++)
		count += rig_fake_wire(r)->enables[i].count;
	return count;
}

uint64_t
rig_wire_remote(struct rig *r)
{
	return rig_fake_wire(r)->remote;
}

uint64_t
rig_wire_local(struct rig *r)
{
	return rig_fake_wire(r)->local;
}

struct xk_session *
rig_wire_newest_session(struct rig *r)
{
	return rig_fake_wire(r)->newest;
}

void
rig_wire_refuse(struct rig *r, int status)
{
	rig_fake_wire(r)->refuse = status;
}

void
rig_wire_peer(struct rig *r, uint64_t peer)
{
	rig_fake_wire(r)->peer = peer;
	rig_fake_wire(r)->newest = NULL;
}

unsigned
rig_unanswered_count(const struct rig *r)
{
	return r->unanswered;
}

void
rig_answer_control(struct rig *r, int op, const void *bytes, size_t len)
{
	struct rig_answer *answer = rig_answer_to(r, op);

	if (answer == NULL) {
		REQUIRE(r->answer_count < RIG_ANSWERS);
		answer = &r->answers[r->answer_count++];
	}
	REQUIRE(len <= RIG_ANSWER_LEN);
	answer->op = op;
	answer->len = bytes == NULL ? -ENOTSUP : (int)len;
	if (bytes != NULL)
		memcpy(answer->bytes, bytes, len);
}
