/*
 * rig.c - the rig of rig.h: fake users and wires as protocols of types of their own, over the platform in memory.
 *
 * Frames for a fake wire arrive on a port of the rig's, with the wire and the session they are for in front, and its
 * first wire, which listens there, hands them on: so injection is a frame's arrival, in the driver, like any other.
 */
#include "tests/rig.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "platform/sim/memory.h"
#include "xkernel/trace.h"

enum {
	RIG_FAKES = 16,
	RIG_PORTS = 4,
	RIG_ENABLES = 8,
	RIG_ANSWERS = 32,
	RIG_ANSWER_LEN = 256,
	RIG_NAME = 64,
	RIG_HEX_MAX = 70000,
	RIG_SEGMENTS = 16,
	RIG_MTU = 1500,
	RIG_PEER = 0x99,
	RIG_NUMBER = 0x3000,
	RIG_SMALL_NUMBER = 253,
};

#define RIG_LINK UINT64_C(0x020000000000)

/* Bytes that went by, in order. */
struct rig_bytes {
	struct rig_bytes *next;
	const char *through;
	struct xk_session *session;
	size_t len;
	uint8_t bytes[];
};

struct rig_list {
	struct rig_bytes *first, **last;
	unsigned count;
};

struct rig_answer {
	int op;
	int len; /* or -ENOTSUP */
	uint8_t bytes[RIG_ANSWER_LEN];
};

struct rig_fake {
	struct xk_protocol protocol;
	struct rig *rig;
};

struct rig_enable {
	struct xk_protocol *hlp_receive, *hlp_type;
	unsigned count;
};

struct rig_wire {
	struct rig_fake fake;
	struct xk_session *down;   /* of the first wire: on the rig's port */
	struct xk_session *newest; /* where injected bytes come up */
	struct rig_enable enables[RIG_ENABLES];
	unsigned sessions;
	uint64_t remote, local; /* of the last open */
	uint64_t peer;          /* of the next passive session */
	int refuse;
};

struct rig_wire_session {
	struct xk_session session;
	uint64_t remote, local;
};

/* In front of what is injected on a fake wire. session NULL: its newest, or a passive one. */
struct rig_address {
	struct rig_wire *wire;
	struct xk_session *session;
};

struct rig_held {
	struct rig_held *next;
	struct xk_session *session;
};

/* A user's open, which may take its time. */
struct rig_opening {
	struct rig_opening *next;
	struct rig *rig;
	struct rig_fake *user;
	struct xk_participants participants;
	struct xk_session *session;
	int status;
};

struct rig_action {
	struct rig_action *next;
	void (*fn)(void *argument);
	void *argument;
	bool done;
};

/* A fake's own type, so that it can have any name. */
struct rig_type {
	struct xk_protocol_type type;
	char name[RIG_NAME];
};

struct rig {
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct rig_type *types[RIG_FAKES];
	unsigned type_count, number_count;
	struct xk_port *ports[RIG_PORTS]; /* of real port protocols */
	unsigned port_count;
	uint32_t baseline[RIG_PORTS]; /* references on the ports' sessions after init */
	struct xk_port *wire_port;    /* what is injected on fake wires arrives here */
	struct rig_fake *user;
	struct rig_wire *wire, *first_wire;
	struct xk_port *port;
	struct xk_protocol *tested;
	struct rig_list sent, delivered;
	const char *sent_through;
	struct xk_session *delivered_on, *announced;
	struct rig_held *held;
	struct rig_opening *openings; /* newest first */
	struct rig_action *actions;
	struct rig_answer answers[RIG_ANSWERS];
	unsigned answer_count;
	unsigned open_dones, wire_baseline;
	int error, refuse, fail_sending;
	bool keep;
};

static void *
rig_alloc(size_t size)
{
	void *p = calloc(1, size);

	if (p == NULL)
		abort();
	return p;
}

/* ---- lists of bytes ---- */

static void
rig_list_init(struct rig_list *list)
{
	list->first = NULL;
	list->last = &list->first;
	list->count = 0;
}

/* Takes m. */
static void
rig_list_add(struct rig_list *list, struct xk_msg *m, const char *through, struct xk_session *session)
{
	size_t len = xk_msg_len(m);
	struct rig_bytes *b = rig_alloc(sizeof(*b) + len);

	b->through = through;
	b->session = session;
	b->len = len;
	CHECK(xk_msg_copy_out(m, 0, b->bytes, len));
	xk_msg_free(m);
	*list->last = b;
	list->last = &b->next;
	list->count++;
}

static struct rig_bytes *
rig_list_take(struct rig_list *list)
{
	struct rig_bytes *b = list->first;

	if (b == NULL)
		return NULL;
	list->first = b->next;
	if (list->first == NULL)
		list->last = &list->first;
	list->count--;
	return b;
}

static void
rig_list_empty(struct rig_list *list)
{
	struct rig_bytes *b;

	while ((b = rig_list_take(list)) != NULL)
		free(b);
}

/* ---- hexadecimal ---- */

static unsigned
rig_nibble(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (tolower((unsigned char)c) < 'a' || tolower((unsigned char)c) > 'f') {
		fprintf(stderr, "rig: '%c' is no hexadecimal digit\n", c);
		abort();
	}
	return (unsigned)(tolower((unsigned char)c) - 'a' + 10);
}

/* Bytes as written, and where new segments begin. */
struct rig_hex {
	size_t len;
	size_t cuts[RIG_SEGMENTS];
	unsigned cut_count;
	uint8_t bytes[RIG_HEX_MAX];
};

static struct rig_hex *
rig_hex_parse(const char *text)
{
	struct rig_hex *hex = rig_alloc(sizeof(*hex));

	for (; *text != '\0'; text++) {
		if (isspace((unsigned char)*text))
			continue;
		if (*text == '|') {
			hex->cuts[hex->cut_count++] = hex->len;
			continue;
		}
		hex->bytes[hex->len++] = (uint8_t)(rig_nibble(text[0]) << 4 | rig_nibble(text[1]));
		text++;
	}
	return hex;
}

static bool
rig_matches(const struct rig_bytes *b, const char *text)
{
	size_t at = 0;

	for (; *text != '\0'; text++) {
		if (isspace((unsigned char)*text))
			continue;
		if (*text == '*')
			return true;
		if (at == b->len)
			return false;
		if (*text != '.' && b->bytes[at] != (rig_nibble(text[0]) << 4 | rig_nibble(text[1])))
			return false;
		at++;
		text++;
	}
	return at == b->len;
}

static bool
rig_compare_bytes(struct rig_bytes *b, const char *what, const char *text)
{
	if (b == NULL) {
		fprintf(stderr, "\nnothing was %s, expected %s\n", what, text);
		return false;
	}
	if (rig_matches(b, text)) {
		free(b);
		return true;
	}
	fprintf(stderr, "\n%s: ", what);
	for (size_t i = 0; i < b->len; i++)
		fprintf(stderr, "%02x", b->bytes[i]);
	fprintf(stderr, "\nexpected: %s\n", text);
	free(b);
	return false;
}

static struct xk_msg *
rig_frame(struct rig *r, const void *prefix, size_t prefix_len, const void *bytes, size_t len)
{
	struct xk_msg *m = xk_memory_frame(r->platform, prefix_len + len);

	if (m == NULL)
		abort();
	if (prefix_len > 0)
		memcpy(m->data, prefix, prefix_len);
	if (len > 0)
		memcpy(m->data + prefix_len, bytes, len);
	return m;
}

/* One message of hex's segments, prefix in front of the first. */
static struct xk_msg *
rig_message(struct rig *r, const void *prefix, size_t prefix_len, const struct rig_hex *hex)
{
	size_t end = hex->cut_count > 0 ? hex->cuts[0] : hex->len;
	struct xk_msg *m = rig_frame(r, prefix, prefix_len, hex->bytes, end);

	for (unsigned i = 0; i < hex->cut_count; i++) {
		size_t start = hex->cuts[i];

		end = i + 1 < hex->cut_count ? hex->cuts[i + 1] : hex->len;
		xk_msg_join(m, rig_frame(r, NULL, 0, hex->bytes + start, end - start));
	}
	return m;
}

/* ---- fake users ---- */

static struct rig_fake *
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

	(void)llp;
	(void)hlp_type;
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

static const struct xk_protocol_ops rig_user_ops = {
	.open_done = rig_user_open_done,
	.demux = rig_user_demux,
};

/* ---- fake wires ---- */

static struct rig_wire *
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

	if (r->fail_sending != 0) {
		xk_drop(s->protocol, m, XK_DROP_NO_BUFFER);
		return r->fail_sending;
	}
	rig_list_add(&r->sent, m, s->protocol->name, s);
	return 0;
}

static void
rig_wire_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	(void)lls;
	(void)hdr;
	xk_demux(s, m);
}

static void
rig_wire_close(struct xk_session *s)
{
	struct rig_wire *wire = rig_wire_of(s->protocol);

	wire->sessions--;
	if (wire->newest == s)
		wire->newest = NULL;
}

static int
rig_wire_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	struct rig *r = rig_fake_of(self)->rig;

	for (unsigned i = r->answer_count; i-- > 0;) {
		const struct rig_answer *answer = &r->answers[i];

		if (answer->op != op)
			continue;
		if (answer->len > (int)len)
			return -EMSGSIZE;
		if (answer->len > 0)
			memcpy(buffer, answer->bytes, (size_t)answer->len);
		return answer->len;
	}
	return -ENOTSUP;
}

static int
rig_wire_session_control(struct xk_session *s, int op, void *buffer, size_t len)
{
	int status = rig_wire_control(s->protocol, op, buffer, len);
	uint64_t remote = rig_wire_session_of(s)->remote;

	if (status != -ENOTSUP || (op != XK_GET_PEER_LINK && op != XK_GET_PEER_HOST))
		return status;
	if (len < sizeof(remote))
		return -EMSGSIZE;
	memcpy(buffer, &remote, sizeof(remote));
	return sizeof(remote);
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
	.push = rig_wire_push,
	.pop = rig_wire_pop,
	.close = rig_wire_close,
	.control = rig_wire_session_control,
	.get_participants = rig_wire_get_participants,
};

static struct xk_session *
rig_wire_session_new(struct rig_wire *wire, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		     uint64_t remote, uint64_t local)
{
	struct xk_session *s = xk_session_new(&wire->fake.protocol, &rig_wire_session_ops,
					      sizeof(struct rig_wire_session), hlp_receive, hlp_type, NULL);

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

	(void)participants;
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

	(void)participants;
	if (enable == NULL)
		return -ENOENT;
	if (--enable->count == 0)
		*enable = (struct rig_enable){ NULL, NULL, 0 };
	return 0;
}

/* A session that an injected message opens passively, or NULL. */
static struct xk_session *
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
	if (s == NULL)
		return NULL;
	if (xk_open_done(xk_hlp_receive(s), &wire->fake.protocol, s, s->hlp_type) != 0) {
		xk_close(s);
		return NULL;
	}
	xk_session_cache(s);
	return s;
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

static const struct xk_protocol_ops rig_wire_ops = {
	.open = rig_wire_open,
	.open_enable = rig_wire_open_enable,
	.open_disable = rig_wire_open_disable,
	.demux = rig_wire_demux,
	.control = rig_wire_control,
};

/* ---- the rig's own port, below the first wire ---- */

static const struct xk_session_ops rig_source_session_ops = { .push = NULL };

static const struct xk_protocol_ops rig_source_ops = { .init = NULL };

static const struct xk_protocol_type rig_source_type = {
	.name = "source",
	.help = "Where a rig's frames come from.",
	.ops = &rig_source_ops,
	.size = sizeof(struct rig_fake),
	.offers = XK_ASYNC,
	.flags = XK_PORT,
};

/* ---- building the graph ---- */

static const struct xk_protocol_type *
rig_type_new(struct rig *r, const char *name, const struct xk_protocol_ops *ops, size_t size, unsigned session_max)
{
	struct rig_type *t = rig_alloc(sizeof(*t));

	REQUIRE(r->type_count < RIG_FAKES);
	r->types[r->type_count++] = t;
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->type = (struct xk_protocol_type){
		.name = t->name,
		.help = "A fake.",
		.ops = ops,
		.size = size,
		.offers = XK_ASYNC | XK_RPC | XK_CONTROL,
		.session_max = session_max,
	};
	return &t->type;
}

/* name without the digits at its end */
static void
rig_stem(const char *name, char *stem)
{
	size_t len = strlen(name);

	while (len > 0 && isdigit((unsigned char)name[len - 1]))
		len--;
	snprintf(stem, RIG_NAME, "%.*s", (int)len, name);
}

static struct xk_protocol *
rig_add_fake(struct rig *r, const char *name, const char *type_name, bool is_user)
{
	const struct xk_protocol_type *type =
		is_user ? rig_type_new(r, type_name, &rig_user_ops, sizeof(struct rig_fake), 0)
			: rig_type_new(r, type_name, &rig_wire_ops, sizeof(struct rig_wire), 64);
	struct xk_protocol *p = xk_kernel_add_protocol(r->kernel, type, name);

	REQUIRE(p != NULL);
	rig_fake_of(p)->rig = r;
	if (is_user) {
		r->user = r->user == NULL ? rig_fake_of(p) : r->user;
		return p;
	}
	rig_wire_of(p)->peer = RIG_PEER;
	if (r->wire == NULL)
		r->wire = rig_wire_of(p);
	return p;
}

static void
rig_add_port(struct rig *r, const char *name)
{
	REQUIRE(r->port_count < RIG_PORTS);
	r->ports[r->port_count] = xk_memory_port_new(r->platform, name, RIG_LINK + r->port_count + 1, RIG_MTU);
	REQUIRE(r->ports[r->port_count] != NULL);
	xk_kernel_add_port(r->kernel, r->ports[r->port_count]);
	if (r->port == NULL)
		r->port = r->ports[r->port_count];
	r->port_count++;
}

static void
rig_set(struct xk_protocol *p, const char *name, const char *value)
{
	char why[128] = "no such setting";

	if (strcmp(name, "sessions") == 0) {
		p->session_max = (unsigned)strtoul(value, NULL, 0);
		return;
	}
	if (strcmp(name, "implicit") == 0) {
		p->implicit = strcmp(value, "fail") == 0 ? XK_IMPLICIT_FAIL : XK_IMPLICIT_HANDOFF;
		return;
	}
	if (strcmp(name, "trace") == 0) {
		p->trace_level = xk_trace_level(value);
		return;
	}
	for (const struct xk_setting *s = p->type->settings; s != NULL && s->name != NULL; s++)
		if (strcmp(s->name, name) == 0 && xk_setting_parse(s, value, p, why, sizeof(why)) == 0)
			return;
	fprintf(stderr, "\nrig: %s.%s=%s: %s\n", p->name, name, value, why);
	abort();
}

static uint32_t
rig_number(struct rig *r, const struct xk_protocol *lower)
{
	unsigned n = r->number_count++;

	return lower->type->numbers != NULL && lower->type->number_max < RIG_NUMBER ? RIG_SMALL_NUMBER - n
										    : RIG_NUMBER + n;
}

/* `lower` or `lower#N` */
static void
rig_add_edge(struct rig *r, struct xk_protocol *upper, char *text)
{
	char *number = strchr(text, '#');
	struct xk_protocol *lower;
	struct xk_edge *edge;

	if (number != NULL)
		*number++ = '\0';
	lower = rig_protocol(r, text);
	edge = xk_kernel_add_edge(r->kernel, upper, lower, "");
	REQUIRE(edge != NULL);
	if (number == NULL && upper->ops != &rig_user_ops)
		return;
	if (number == NULL && strcmp(upper->type->name, "user") != 0)
		return; /* its type's name has one */
	edge->has_number = true;
	edge->number = number != NULL ? (uint32_t)strtoul(number, NULL, 0) : rig_number(r, lower);
}

static struct xk_protocol *
rig_add_protocol(struct rig *r, const char *name)
{
	const char *slash = strchr(name, '/');
	char own[RIG_NAME], stem[RIG_NAME];
	const struct xk_protocol_type *type;
	struct xk_protocol *p;
	bool is_user;

	snprintf(own, sizeof(own), "%.*s", slash != NULL ? (int)(slash - name) : (int)strlen(name), name);
	rig_stem(own, stem);
	is_user = strcmp(stem, "user") == 0;
	if (is_user || strcmp(stem, "wire") == 0)
		return rig_add_fake(r, own, slash != NULL ? slash + 1 : stem, is_user);
	if (strcmp(stem, "port") == 0)
		rig_add_port(r, own);
	type = xk_protocol_type_find(stem);
	if (type == NULL)
		fprintf(stderr, "\nrig: no protocol is called %s\n", stem);
	REQUIRE(type != NULL);
	p = xk_kernel_add_protocol(r->kernel, type, own);
	REQUIRE(p != NULL);
	p->resume = XK_RESUME_DRIVER; /* all on this thread */
	if (strcmp(stem, "port") == 0)
		rig_set(p, "dev", own);
	r->tested = p;
	return p;
}

static void
rig_add_statement(struct rig *r, char *text)
{
	char *colon = strchr(text, ':'), *equals = strchr(text, '='), *rest = NULL, *word;
	struct xk_protocol *p;

	if (colon == NULL || (equals != NULL && equals < colon)) {
		char *dot = strchr(text, '.');

		REQUIRE(dot != NULL && equals != NULL);
		*dot = *equals = '\0';
		rig_set(rig_protocol(r, text), dot + 1, equals + 1);
		return;
	}
	*colon = '\0';
	p = rig_add_protocol(r, text);
	for (word = strtok_r(colon + 1, " \t\n", &rest); word != NULL; word = strtok_r(NULL, " \t\n", &rest))
		rig_add_edge(r, p, word);
}

static char *
rig_trim(char *text)
{
	char *end = text + strlen(text);

	while (isspace((unsigned char)*text))
		text++;
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return text;
}

static void
rig_add_statements(struct rig *r, const char *graph)
{
	char *copy = strdup(graph), *rest = NULL;

	for (char *text = strtok_r(copy, ";", &rest); text != NULL; text = strtok_r(NULL, ";", &rest)) {
		text = rig_trim(text);
		if (*text != '\0')
			rig_add_statement(r, text);
	}
	free(copy);
}

static void
rig_idle(void *context)
{
	xk_kernel_halt(((struct rig *)context)->kernel);
}

static struct rig *
rig_begin(void)
{
	struct xk_kernel_config config = { .name = "rig", .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .core = -1 };
	struct rig *r = rig_alloc(sizeof(*r));
	uint32_t packet = RIG_MTU, none = 0;
	uint64_t link = RIG_LINK + 1;

	rig_list_init(&r->sent);
	rig_list_init(&r->delivered);
	r->platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	REQUIRE(r->platform != NULL);
	xk_memory_on_idle(r->platform, rig_idle, r);
	config.platform = r->platform;
	r->kernel = xk_kernel_new(&config);
	REQUIRE(r->kernel != NULL);
	rig_answer(r, XK_GET_MAX_PACKET, &packet, sizeof(packet));
	rig_answer(r, XK_GET_OPT_PACKET, &packet, sizeof(packet));
	rig_answer(r, XK_GET_OFFLOADS, &none, sizeof(none));
	rig_answer(r, XK_GET_LINK_ADDRESS, &link, sizeof(link));
	return r;
}

/* The first wire and the rig's port below it. */
static void
rig_add_source(struct rig *r)
{
	struct xk_protocol *source = xk_kernel_add_protocol(r->kernel, &rig_source_type, "source");
	struct xk_protocol *listener = rig_add_fake(r, "listener", "wire", false);

	r->wire = NULL;
	REQUIRE(source != NULL && xk_kernel_add_edge(r->kernel, listener, source, "port") != NULL);
	r->first_wire = rig_wire_of(listener);
	r->wire_port = xk_memory_port_new(r->platform, "source", RIG_LINK, RIG_MTU);
	REQUIRE(r->wire_port != NULL);
	xk_kernel_add_port(r->kernel, r->wire_port);
	r->wire_port->receiver =
		xk_session_new(source, &rig_source_session_ops, sizeof(struct xk_session), listener, listener, NULL);
	REQUIRE(r->wire_port->receiver != NULL);
}

static uint32_t
rig_references(const struct xk_port *port)
{
	const struct xk_session *s = port->receiver;

	return s == NULL ? 0 : atomic_load_explicit(&s->references, memory_order_relaxed);
}

static unsigned
rig_all_wire_sessions(struct rig *r)
{
	unsigned sessions = 0;

	for (struct xk_protocol *p = xk_kernel_first(r->kernel); p != NULL; p = p->next)
		if (p->ops == &rig_wire_ops)
			sessions += rig_wire_of(p)->sessions;
	return sessions;
}

static int
rig_init(struct rig *r)
{
	struct xk_protocol *failed = NULL;
	int status = xk_kernel_init(r->kernel, &failed);

	if (status != 0)
		return status;
	for (unsigned i = 0; i < r->port_count; i++)
		r->baseline[i] = rig_references(r->ports[i]);
	r->wire_baseline = rig_all_wire_sessions(r);
	return 0;
}

static void
rig_destroy(struct rig *r)
{
	struct rig_opening *opening;
	struct rig_action *action;

	if (r->wire_port != NULL)
		xk_close(r->wire_port->receiver);
	xk_kernel_free(r->kernel);
	CHECK_EQ(r->platform->ops->buffers_out(r->platform), 0);
	xk_memory_platform_free(r->platform);
	while ((opening = r->openings) != NULL) {
		r->openings = opening->next;
		free(opening);
	}
	while ((action = r->actions) != NULL) {
		r->actions = action->next;
		free(action);
	}
	for (unsigned i = 0; i < r->type_count; i++)
		free(r->types[i]);
	free(r);
}

struct rig *
rig_new_prepared(const char *graph, void (*prepare)(struct rig *r))
{
	struct rig *r = rig_begin();
	int status;

	rig_add_source(r);
	rig_add_statements(r, graph);
	if (prepare != NULL)
		prepare(r);
	status = rig_init(r);
	CHECK_EQ(status, 0);
	REQUIRE(status == 0);
	return r;
}

struct rig *
rig_new_graph(const char *graph)
{
	return rig_new_prepared(graph, NULL);
}

int
rig_refusal(const char *graph)
{
	struct rig *r = rig_begin();
	int status;

	rig_add_source(r);
	rig_add_statements(r, graph);
	status = rig_init(r);
	rig_destroy(r);
	return status;
}

/* "TYPE setting=value ..." as statements. */
struct rig *
rig_new(const char *type)
{
	char graph[1024], wires[256] = "", settings[512] = "", *copy = strdup(type), *rest = NULL, *word;
	const char *name = strtok_r(copy, " ", &rest);
	const struct xk_protocol_type *t = xk_protocol_type_find(name);
	unsigned roles = 0;
	struct rig *r;

	REQUIRE(t != NULL);
	graph[0] = '\0';
	while (t->lowers != NULL && t->lowers[roles].name != NULL) {
		char wire[16];

		snprintf(wire, sizeof(wire), roles == 0 ? "wire" : "wire%u", roles + 1);
		snprintf(graph + strlen(graph), sizeof(graph) - strlen(graph), "%s:;", wire);
		snprintf(wires + strlen(wires), sizeof(wires) - strlen(wires), " %s", wire);
		roles++;
	}
	while ((word = strtok_r(NULL, " ", &rest)) != NULL)
		snprintf(settings + strlen(settings), sizeof(settings) - strlen(settings), "%s.%s;", name, word);
	snprintf(graph + strlen(graph), sizeof(graph) - strlen(graph), "%s:%s; %s user: %s", name, wires, settings,
		 name);
	free(copy);
	r = rig_new_graph(graph);
	return r;
}

/* ---- running ---- */

static void
rig_collect(struct rig *r)
{
	struct xk_msg *m;

	for (unsigned i = 0; i < r->port_count; i++)
		while ((m = xk_memory_take(r->ports[i])) != NULL)
			rig_list_add(&r->sent, m, r->ports[i]->name, NULL);
}

/* Until nothing is left to do before `until`. */
static void
rig_run_until(struct rig *r, uint64_t until_ns)
{
	xk_memory_run_until(r->platform, until_ns);
	xk_kernel_run(r->kernel);
	rig_collect(r);
}

static void
rig_run(struct rig *r)
{
	rig_run_until(r, r->platform->ops->now_ns(r->platform));
}

void
rig_advance_ms(struct rig *r, uint64_t ms)
{
	rig_run_until(r, r->platform->ops->now_ns(r->platform) + ms * 1000000);
}

static void
rig_act(void *argument)
{
	struct rig_action *action = argument;

	action->fn(action->argument);
	action->done = true;
}

bool
rig_do(struct rig *r, void (*fn)(void *argument), void *argument)
{
	struct rig_action *action = rig_alloc(sizeof(*action));

	action->fn = fn;
	action->argument = argument;
	action->next = r->actions;
	r->actions = action;
	REQUIRE(xk_thread_start(r->kernel, "rig", rig_act, action) == 0);
	rig_run(r);
	return action->done;
}

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
	return rig_opened(r);
}

struct xk_session *
rig_opened(struct rig *r)
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
		fprintf(stderr, "\nrig: users do not hold that session\n");
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
rig_open_dones(struct rig *r)
{
	return r->open_dones;
}

struct xk_session *
rig_announced(struct rig *r)
{
	return r->announced;
}

void
rig_keep(struct rig *r, bool keep)
{
	r->keep = keep;
}

void
rig_refuse(struct rig *r, int status)
{
	r->refuse = status;
}

static long
rig_take_bytes(struct rig_bytes *b, void *bytes, size_t max)
{
	long len;

	if (b == NULL)
		return -1;
	len = (long)b->len;
	memcpy(bytes, b->bytes, b->len < max ? b->len : max);
	free(b);
	return len;
}

static struct rig_bytes *
rig_next_delivered(struct rig *r)
{
	struct rig_bytes *b = rig_list_take(&r->delivered);

	r->delivered_on = b == NULL ? NULL : b->session;
	return b;
}

bool
rig_delivered_is(struct rig *r, const char *hex)
{
	return rig_compare_bytes(rig_next_delivered(r), "delivered", hex);
}

long
rig_take_delivered(struct rig *r, void *bytes, size_t max)
{
	return rig_take_bytes(rig_next_delivered(r), bytes, max);
}

unsigned
rig_delivered(struct rig *r)
{
	return r->delivered.count;
}

struct xk_session *
rig_delivered_on(struct rig *r)
{
	return r->delivered_on;
}

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
rig_inject_prefixes(struct rig *r, const char *text)
{
	struct rig_hex *hex = rig_hex_parse(text);

	for (size_t len = 0; len < hex->len; len++)
		rig_inject_bytes(r, hex->bytes, len);
	free(hex);
}

static struct rig_bytes *
rig_next_sent(struct rig *r)
{
	struct rig_bytes *b = rig_list_take(&r->sent);

	r->sent_through = b == NULL ? "" : b->through;
	return b;
}

bool
rig_sent_is(struct rig *r, const char *hex)
{
	return rig_compare_bytes(rig_next_sent(r), "sent", hex);
}

long
rig_take_sent(struct rig *r, void *bytes, size_t max)
{
	return rig_take_bytes(rig_next_sent(r), bytes, max);
}

unsigned
rig_sent(struct rig *r)
{
	return r->sent.count;
}

const char *
rig_sent_through(struct rig *r)
{
	return r->sent_through;
}

void
rig_fail_sending(struct rig *r, int status)
{
	r->fail_sending = status;
	for (unsigned i = 0; i < r->port_count; i++)
		xk_memory_transmit_limit(r->ports[i], status != 0 ? 0 : XK_MEMORY_QUEUE);
}

unsigned
rig_wire_sessions(struct rig *r)
{
	return r->wire->sessions;
}

unsigned
rig_wire_enables(struct rig *r)
{
	unsigned count = 0;

	for (unsigned i = 0; i < RIG_ENABLES; i++)
		count += r->wire->enables[i].count;
	return count;
}

uint64_t
rig_wire_remote(struct rig *r)
{
	return r->wire->remote;
}

uint64_t
rig_wire_local(struct rig *r)
{
	return r->wire->local;
}

struct xk_session *
rig_wire_session(struct rig *r)
{
	return r->wire->newest;
}

void
rig_wire_refuse(struct rig *r, int status)
{
	r->wire->refuse = status;
}

void
rig_wire_peer(struct rig *r, uint64_t peer)
{
	r->wire->peer = peer;
	r->wire->newest = NULL;
}

void
rig_answer(struct rig *r, int op, const void *bytes, size_t len)
{
	struct rig_answer *answer = NULL;

	for (unsigned i = 0; i < r->answer_count; i++)
		if (r->answers[i].op == op)
			answer = &r->answers[i];
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

/* ---- counters, the end ---- */

static long
rig_counter_in(struct xk_protocol *p, const char *name)
{
	unsigned drops = xk_drop_count(p->type);

	for (unsigned i = 1; i < drops; i++)
		if (strcmp(xk_drop_name(p->type, i), name) == 0)
			return (long)atomic_load_explicit(&p->drops[i], memory_order_relaxed);
	for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
		if (strcmp(p->type->counters[i], name) == 0)
			return (long)atomic_load_explicit(&p->counters[i], memory_order_relaxed);
	return -1;
}

long
rig_counter(struct rig *r, const char *name)
{
	return rig_counter_in(r->tested, name);
}

long
rig_counter_of(struct rig *r, const char *instance, const char *name)
{
	return rig_counter_in(rig_protocol(r, instance), name);
}

long
rig_drops(struct rig *r)
{
	uint64_t drops = 0;

	for (struct xk_protocol *p = xk_kernel_first(r->kernel); p != NULL; p = p->next)
		for (unsigned i = 1; i < xk_drop_count(p->type); i++)
			drops += atomic_load_explicit(&p->drops[i], memory_order_relaxed);
	return (long)drops;
}

struct xk_protocol *
rig_protocol(struct rig *r, const char *instance)
{
	struct xk_protocol *p = xk_kernel_find(r->kernel, instance);

	if (p == NULL)
		fprintf(stderr, "\nrig: there is no %s\n", instance);
	REQUIRE(p != NULL);
	return p;
}

struct xk_kernel *
rig_kernel(struct rig *r)
{
	return r->kernel;
}

void
rig_limit_buffers(struct rig *r, unsigned more)
{
	unsigned out = r->platform->ops->buffers_out(r->platform);

	xk_memory_platform_limit(r->platform, more > UINT_MAX - out ? UINT_MAX : out + more);
}

struct xk_platform *
rig_platform(struct rig *r)
{
	return r->platform;
}

void
rig_forget(struct rig *r)
{
	rig_list_empty(&r->sent);
	rig_list_empty(&r->delivered);
}

/* Uppers first, as their sessions hold references on those below. */
static void
rig_uncache(struct xk_protocol *p)
{
	if (p == NULL)
		return;
	rig_uncache(p->next);
	xk_session_uncache(p, NULL, NULL);
}

static void
rig_do_uncache(void *argument)
{
	rig_uncache(xk_kernel_first(((struct rig *)argument)->kernel));
}

void
rig_free(struct rig *r)
{
	struct xk_kernel_stats stats;

	CHECK_EQ(r->sent.count, 0);
	CHECK_EQ(r->delivered.count, 0);
	while (r->held != NULL)
		rig_close(r, r->held->session);
	rig_do(r, rig_do_uncache, r);
	CHECK_EQ(rig_all_wire_sessions(r), r->wire_baseline);
	for (unsigned i = 0; i < r->port_count; i++)
		CHECK_EQ(rig_references(r->ports[i]), r->baseline[i]);
	xk_kernel_stats(r->kernel, &stats);
	CHECK_EQ(stats.stacks_parked, 0);
	rig_forget(r);
	rig_destroy(r);
}
