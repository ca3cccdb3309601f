/*
 * test_meter.c - messages and times at edges: exact on the virtual clock, on which each protocol takes a known time;
 * complete with threads, with handoffs and while counting is switched on and off.
 */
#include "tests/xkernel/toy.h"
#include "xkernel/engine/engine.h"

enum { SLOW_UP = 2000, SLOW_BACK = 500, SLOW_DOWN = 3000, SLOW_RETURN = 1000, SLOW_CALL = 7000, SLOW_ASYNC = 6000 };
enum { HIGH_WORK = 10000, HIGH_MORE = 5000, HIGH_CALLED = 4000 };

static void
pass(struct xk_protocol *self, uint64_t ns)
{
	xk_memory_advance(self->kernel->platform, ns);
}

/* ---- slow: a virtual protocol between wire and top that takes time ---- */

static int
slow_push(struct xk_session *s, struct xk_msg *m)
{
	int result;

	pass(s->protocol, SLOW_DOWN);
	result = xk_push(s->lls, m);
	pass(s->protocol, SLOW_RETURN);
	return result;
}

static int
slow_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	pass(s->protocol, SLOW_CALL);
	*reply = m;
	return 0;
}

static int
slow_call_async(struct xk_session *s, struct xk_msg *m, struct xk_call *call)
{
	pass(s->protocol, SLOW_ASYNC);
	xk_msg_free(m);
	return -EIO;
}

static const struct xk_session_ops slow_session_ops = {
	.push = slow_push, .pop = xk_pop_through, .call = slow_call, .call_async = slow_call_async
};

static int
slow_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	return toy_open_on(&slow_session_ops, self, hlp_receive, hlp_type, participants, session);
}

static void
slow_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	pass(self, SLOW_UP);
	xk_pop(lls->above, lls, m, NULL);
	pass(self, SLOW_BACK);
}

static const struct xk_protocol_ops slow_ops = { .open = slow_open, .demux = slow_demux };
static const struct xk_protocol_type slow_type = {
	.name = "slow", .ops = &slow_ops, .size = sizeof(struct xk_protocol), .offers = XK_ASYNC
};

/* ---- high: top with calls ---- */

static int
high_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	pass(self, HIGH_CALLED);
	*reply = m;
	return 0;
}

static const struct xk_protocol_ops high_ops = {
	.init = top_init, .fini = top_fini, .demux = top_demux, .call_demux = high_call_demux
};
static const struct xk_protocol_type high_type = {
	.name = "high", .ops = &high_ops, .size = sizeof(struct top), .offers = XK_ASYNC, .drops = top_drops
};

static struct host *
timed_host(void (*act)(struct top *top, struct xk_session *lls, struct xk_msg *m))
{
	struct xk_kernel_config config = { .mode = XK_IPP, .driver = XK_DRIVER_INTERRUPT, .stacks = 8, .core = -1 };
	struct host *h = calloc(1, sizeof(*h));
	struct xk_protocol *wire, *slow;

	REQUIRE(h != NULL);
	h->platform = config.platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);
	h->kernel = xk_kernel_new(&config);
	h->port = xk_memory_port_new(h->platform, "port", 1, 1500);
	xk_kernel_add_port(h->kernel, h->port);
	wire = xk_kernel_add_protocol(h->kernel, &wire_type, "wire");
	slow = xk_kernel_add_protocol(h->kernel, &slow_type, "slow");
	xk_kernel_add_edge(h->kernel, slow, wire, NULL);
	h->top = (struct top *)xk_kernel_add_protocol(h->kernel, &high_type, "high");
	h->edge = xk_kernel_add_edge(h->kernel, &h->top->protocol, slow, NULL);
	h->top->act = act;
	host_init(h);
	return h;
}

static struct xk_edge *
below(struct xk_edge *edge)
{
	return edge->lower->lowers[0];
}

static void
counted(struct xk_edge *edge, enum xk_direction direction, uint64_t messages, uint64_t timed, uint64_t ns)
{
	CHECK_EQ(edge->counts[direction].messages, messages);
	CHECK_EQ(edge->counts[direction].timed, timed);
	CHECK_EQ(edge->counts[direction].ns, ns);
}

static void
send_many(struct host *h, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		send_one(h, OP_ACT);
		host_run(h);
	}
}

static void
act_echo(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	pass(&top->protocol, HIGH_WORK);
	xk_push(lls, m);
	pass(&top->protocol, HIGH_MORE);
}

TEST_WITH(nothing_is_counted_unless_asked_for, struct host *h, timed_host(act_echo), host_free)
{
	send_many(h, 20);
	counted(h->edge, XK_UP, 0, 0, 0);
	counted(h->edge, XK_DOWN, 0, 0, 0);
	CHECK_EQ(xk_edge_watched(h->edge, XK_WATCH_ANY), 0);
}

TEST_WITH(each_protocol_is_charged_its_own_time_alone, struct host *h, timed_host(act_echo), host_free)
{
	xk_kernel_count_edges(h->kernel, true);
	send_many(h, 1);
	counted(below(h->edge), XK_UP, 1, 1, SLOW_UP + SLOW_BACK);
	counted(h->edge, XK_UP, 1, 1, HIGH_WORK + HIGH_MORE);
	counted(h->edge, XK_DOWN, 1, 1, SLOW_DOWN + SLOW_RETURN);
	counted(below(h->edge), XK_DOWN, 1, 1, 0);
	CHECK_EQ(h->received, 1);
}

TEST_WITH(all_messages_are_counted_and_one_in_thirteen_is_timed, struct host *h, timed_host(act_echo), host_free)
{
	xk_kernel_count_edges(h->kernel, true);
	send_many(h, XK_METER_EACH);
	counted(h->edge, XK_UP, XK_METER_EACH, 1, HIGH_WORK + HIGH_MORE);
	counted(below(h->edge), XK_DOWN, XK_METER_EACH, 1, 0);
	send_many(h, 1);
	counted(h->edge, XK_UP, XK_METER_EACH + 1, 2, 2 * (HIGH_WORK + HIGH_MORE));
	counted(h->edge, XK_DOWN, XK_METER_EACH + 1, 2, 2 * (SLOW_DOWN + SLOW_RETURN));
	xk_kernel_count_edges(h->kernel, false);
	send_many(h, 20);
	counted(h->edge, XK_UP, XK_METER_EACH + 1, 2, 2 * (HIGH_WORK + HIGH_MORE));
}

static void
act_wait(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	pass(&top->protocol, HIGH_WORK);
	CHECK_EQ(xk_delay(&top->protocol, 1000), 0);
	pass(&top->protocol, HIGH_MORE);
	xk_push(lls, m);
}

TEST_WITH(waiting_time_is_not_charged, struct host *h, timed_host(act_wait), host_free)
{
	h->top->protocol.resume = XK_RESUME_DRIVER;
	xk_kernel_count_edges(h->kernel, true);
	send_one(h, OP_ACT);
	xk_memory_run_until(h->platform, UINT64_MAX);
	host_run(h);
	CHECK_EQ(h->received, 1);
	CHECK_EQ(host_stats(h).parks, 1);
	counted(h->edge, XK_UP, 1, 1, HIGH_WORK + HIGH_MORE);
	counted(h->edge, XK_DOWN, 1, 1, SLOW_DOWN + SLOW_RETURN);
	counted(below(h->edge), XK_UP, 1, 1, SLOW_UP + SLOW_BACK);
}

static void
act_call(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_call call = { NULL };
	struct xk_msg *reply;

	CHECK_EQ(xk_call(top->session, m, &reply), 0);
	CHECK_EQ(xk_call_demux(lls, reply, &m), 0);
	CHECK_EQ(xk_call_async(top->session, m, &call), -EIO);
}

TEST_WITH(calls_are_counted_and_timed_too, struct host *h, timed_host(act_call), host_free)
{
	xk_kernel_count_edges(h->kernel, true);
	send_many(h, 1);
	counted(h->edge, XK_DOWN, 2, 2, SLOW_CALL + SLOW_ASYNC);
	counted(h->edge, XK_UP, 2, 2, HIGH_CALLED);
	counted(below(h->edge), XK_UP, 1, 1, SLOW_UP + SLOW_BACK);
}

TEST_WITH(marks_and_counting_are_independent, struct host *h, timed_host(act_echo), host_free)
{
	xk_edge_watch(h->edge, XK_WATCH_EXPLICIT, XK_WATCH_EXPLICIT);
	xk_kernel_count_edges(h->kernel, true);
	CHECK_EQ(xk_edge_watched(h->edge, XK_WATCH_ANY), XK_WATCH_EXPLICIT | XK_WATCH_COUNT);
	h->edge->budget_ns = 1000;
	xk_kernel_rewatch(h->kernel);
	CHECK_EQ(xk_edge_watched(h->edge, XK_WATCH_ANY), XK_WATCH_EXPLICIT | XK_WATCH_COUNT | XK_WATCH_BUDGET);
	h->edge->budget_ns = 0;
	xk_kernel_count_edges(h->kernel, false);
	xk_kernel_rewatch(h->kernel);
	CHECK_EQ(xk_edge_watched(h->edge, XK_WATCH_ANY), XK_WATCH_EXPLICIT);
}

static int
push_from_outside(struct host *h)
{
	static const uint8_t bytes[20];
	struct xk_msg *m = xk_msg_from(h->platform, bytes, sizeof(bytes));

	REQUIRE(m != NULL);
	return xk_push(h->top->session, m);
}

TEST_WITH(foreign_threads_messages_are_counted_but_not_timed, struct host *h,
	  host_new(XK_IPP, XK_DRIVER_INTERRUPT, 1, 0), host_free)
{
	host_start(h);
	xk_kernel_count_edges(h->kernel, true);
	CHECK_EQ(push_from_outside(h), 0);
	counted(h->edge, XK_DOWN, 1, 0, 0);
}

/* ---- with threads ---- */

#define MANY (test_is_long() ? 4000u : 1000u)

/* Checks that all messages of op are counted and one in XK_METER_EACH timed, with counting on throughout. */
static void
check_all_are_counted(enum xk_mode mode, enum op op, uint32_t watch)
{
	struct host *h = host_new(mode, XK_DRIVER_INTERRUPT, 2, 0);
	struct xk_edge_count *up = &h->edge->counts[XK_UP], *down = &h->edge->counts[XK_DOWN];

	xk_edge_watch(h->edge, watch, watch);
	host_start(h);
	xk_kernel_count_edges(h->kernel, true);
	host_echo(h, op, MANY);
	xk_kernel_stop(h->kernel);
	CHECK_EQ(host_collect(h), MANY);
	CHECK_EQ(up->messages, MANY);
	CHECK_EQ(down->messages, MANY);
	CHECK_EQ(up->timed, (MANY + XK_METER_EACH - 1) / XK_METER_EACH);
	CHECK_EQ(down->timed, up->timed);
	host_free(h);
}

TEST(every_crossing_is_counted_in_driver_and_thread)
{
	check_all_are_counted(XK_IPP, OP_ECHO, 0);
	check_all_are_counted(XK_IPP, OP_ECHO, XK_WATCH_EXPLICIT);
	check_all_are_counted(XK_IPP, OP_LOCK, 0);
	check_all_are_counted(XK_IPP, OP_HANDOFF, 0);
	check_all_are_counted(XK_REGULAR, OP_ECHO, 0);
	check_all_are_counted(XK_REGULAR, OP_LOCK, 0);
}

/* Switches counting on and off while messages wait: every crossing that was begun is also ended. */
static void
check_bit_set_and_cleared(enum xk_mode mode)
{
	struct host *h = host_new(mode, XK_DRIVER_INTERRUPT, 2, 64);

	host_start(h);
	for (unsigned i = 0; i < MANY; i++) {
		xk_kernel_count_edges(h->kernel, i % 3 != 0);
		host_send(h, i % 7 == 0 ? OP_TIMEOUT : OP_ECHO, (uint8_t)i);
		if (i % 16 == 0)
			CHECK(host_wait_handled(h, i + 1));
	}
	CHECK(host_wait_handled(h, MANY));
	xk_kernel_stop(h->kernel);
	for (struct xk_reader *reader = h->kernel->epochs.readers; reader != NULL; reader = reader->next) {
		struct xk_shepherd *s = xk_container_of(reader, struct xk_shepherd, reader);

		CHECK_EQ(s->meter.depth, 0);
		CHECK(s->meter.ns == NULL);
	}
	CHECK(h->edge->counts[XK_UP].messages > 0);
	CHECK(h->edge->counts[XK_UP].messages < MANY);
	host_free(h);
}

TEST(counting_may_start_and_stop_with_messages_in_flight)
{
	check_bit_set_and_cleared(XK_IPP);
	check_bit_set_and_cleared(XK_REGULAR);
}
