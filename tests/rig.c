/*
 * rig.c - the rig of rig.h: fake users and wires are protocols with types of their own, over the in-memory platform.
 *
 * Frames for a fake wire arrive on a port of the rig, with their wire and session in front. The first wire listens
 * there and passes them on, so an injected frame arrives in the driver like any other.
 */
#include <ctype.h>
#include <limits.h>

#include "tests/compose.h"
#include "tests/rig_private.h"

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
	const struct xk_protocol_type *real = xk_protocol_type_find(name);
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
		.numbers = real == NULL ? NULL : real->numbers,
		.session_max = session_max,
	};
	return &t->type;
}

/*
 * Strips digits from the end of name until it is a protocol's: udp2 is an instance of udp, unless there is a protocol
 * udp2. Fakes lose all digits.
 */
static void
rig_stem(const char *name, char *stem)
{
	size_t len = strlen(name);

	snprintf(stem, RIG_NAME, "%s", name);
	while (xk_protocol_type_find(stem) == NULL && len > 0 && isdigit((unsigned char)stem[len - 1]))
		stem[--len] = '\0';
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
	p->resume = XK_RESUME_DRIVER;
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
rig_set(struct rig *r, struct xk_protocol *p, const char *name, const char *value)
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
	for (const struct xk_setting *s = p->type->settings; s != NULL && s->name != NULL; s++) {
		int err = strcmp(s->name, name) != 0 ? -ENOENT : xk_setting_parse(s, value, p, why, sizeof(why));

		if (err == -EINVAL && r->may_refuse)
			r->refusal = err;
		if (err == 0 || r->refusal != 0)
			return;
	}
	fprintf(stderr, "\nrig: %s.%s=%s: %s\n", p->name, name, value, why);
	abort();
}

static uint32_t
rig_number(struct rig *r, const struct xk_protocol *lower)
{
	unsigned n = r->number_count++;

	return lower->type->number_max != 0 && lower->type->number_max < RIG_NUMBER ? RIG_SMALL_NUMBER - n
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
		return; /* the number follows from its type's name */
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
		fprintf(stderr, "\nrig: no protocol is called %s%s%s\n", own, strcmp(own, stem) == 0 ? "" : " or ",
			strcmp(own, stem) == 0 ? "" : stem);
	REQUIRE(type != NULL);
	p = xk_kernel_add_protocol(r->kernel, type, own);
	REQUIRE(p != NULL);
	p->resume = XK_RESUME_DRIVER; /* all on this thread */
	if (strcmp(stem, "port") == 0)
		rig_set(r, p, "dev", own);
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
		rig_set(r, rig_protocol(r, text), dot + 1, equals + 1);
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
	static bool declared; /* the protocols' declarations are sound; the check is slow */
	struct xk_kernel_config config = { .name = "rig", .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .core = -1 };
	struct rig *r = rig_alloc(sizeof(*r));
	uint32_t packet = RIG_MTU, none = 0;
	uint64_t link = RIG_LINK + 1;

	declared = declared || xk_protocol_types_check("rig");
	REQUIRE(declared);
	rig_list_init(&r->sent);
	rig_list_init(&r->delivered);
	r->platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	REQUIRE(r->platform != NULL);
	xk_memory_on_idle(r->platform, rig_idle, r);
	config.platform = r->platform;
	r->kernel = xk_kernel_new(&config);
	REQUIRE(r->kernel != NULL);
	rig_answer_control(r, XK_GET_MAX_PACKET, &packet, sizeof(packet));
	rig_answer_control(r, XK_GET_OPT_PACKET, &packet, sizeof(packet));
	rig_answer_control(r, XK_GET_OFFLOADS, &none, sizeof(none));
	rig_answer_control(r, XK_GET_LINK_ADDRESS, &link, sizeof(link));
	return r;
}

/* Adds the first wire and the rig's port below it. */
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
	r->wire_port->receiver = xk_session_new(source, &rig_source_session_ops, listener, listener, NULL);
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

	r->may_refuse = true;
	rig_add_source(r);
	rig_add_statements(r, graph);
	status = r->refusal != 0 ? r->refusal : rig_init(r);
	rig_destroy(r);
	return status;
}

/* Turns "TYPE setting=value ..." into statements. */
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

/* Fails the test if a promise is broken or, at the `end` of a test that breaks one, none is. */
static void
rig_check_promises(struct rig *r, bool end)
{
	struct xk_protocol *p;
	const char *why = xk_kernel_promise(r->kernel, false, &p);

	if (why != NULL && !r->breaks)
		fprintf(stderr, "\nrig: %s: broken: %s\n", p->name, why);
	CHECK(r->breaks ? why != NULL || !end : why == NULL);
}

/* Runs until nothing is left to do before `until`. */
static void
rig_run_until(struct rig *r, uint64_t until_ns)
{
	xk_memory_run_until(r->platform, until_ns);
	xk_kernel_run(r->kernel);
	rig_collect(r);
	if (r->checks++ < RIG_CHECKS)
		rig_check_promises(r, false);
}

void
rig_expect_broken(struct rig *r)
{
	r->breaks = true;
}

void
rig_run(struct rig *r)
{
	rig_run_until(r, r->platform->ops->now_ns(r->platform));
}

void
rig_advance_ms(struct rig *r, uint64_t ms)
{
	rig_run_until(r, r->platform->ops->now_ns(r->platform) + ms * 1000000);
}

void
rig_advance_repeatedly_ms(struct rig *r, unsigned times, uint64_t ms)
{
	for (; times > 0; times--)
		rig_advance_ms(r, ms);
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

/* ---- counters, the end ---- */

long
rig_counter(struct rig *r, const char *name)
{
	return compose_count_of(r->tested, name);
}

long
rig_counter_of(struct rig *r, const char *instance, const char *name)
{
	return compose_count_of(rig_protocol(r, instance), name);
}

void
rig_check_counts(struct rig *r, const char *figures, const char *file, int line)
{
	char *copy = strdup(figures), *rest = NULL;

	for (char *name = strtok_r(copy, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
		char *figure = strchr(name, '='), *dot = strchr(name, '.');
		long got, want;

		REQUIRE(figure != NULL);
		*figure++ = '\0';
		want = strtol(figure, NULL, 10);
		if (dot != NULL)
			*dot = '\0';
		got = dot == NULL ? rig_counter(r, name) : rig_counter_of(r, name, dot + 1);
		if (got != want)
			fprintf(stderr, "\n%s:%d: %s is %ld, not %ld\n", file, line, dot == NULL ? name : dot + 1, got,
				want);
		CU_ASSERT(got == want);
	}
	free(copy);
}

long
rig_drop_count(struct rig *r)
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

/* Closes idle sessions, uppers' first: their sessions hold references on those below. */
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
	rig_check_promises(r, true);
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
