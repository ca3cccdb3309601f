/*
 * stage.h - for tests of simulated hosts: a link and hosts with toy protocols. Each message runs a function of the
 * test, which notes events with their times. Frames go to every other host.
 */
#ifndef TESTS_STAGE_H
#define TESTS_STAGE_H

#include "platform/sim/sim.h"
#include "tests/xkernel/toy.h"

#define US UINT64_C(1000)
#define MS (1000 * US)
#define SECOND (1000 * MS)

enum { MEN = 3, FRAME = 20, NOTES = 900 };

/* A host of the test, and the action of its messages. */
struct man {
	struct stage *stage;
	struct xk_sim_host *host;
	struct xk_kernel_config config;
	uint64_t budget_ns;
	unsigned carry;
	bool marked; /* explicit handoff below top */
	bool driver_resumes;
	enum xk_implicit implicit;
	bool boot_fails;      /* its boot makes no kernel */
	bool boot_fails_late; /* its boot starts a kernel and frees it again */
	uint64_t boot_wait_us;
	void (*act)(struct top *top, struct xk_session *lls, struct xk_msg *m);
	struct top *top; /* of this boot */
	struct xk_event events[2];
	uint64_t work_ns, wait_us;
	unsigned times;
};

struct stage {
	struct xk_sim *sim;
	struct xk_sim_link *link;
	struct man men[MEN];
	unsigned count;
	char notes[NOTES]; /* events with their times: "begin@1000 end@2000 " */
	size_t noted;
};

static const struct sim_link_config stage_wire = {
	.kind = SIM_LINK_SWITCH, .rate = 0, .latency_ns = 500, .mtu = 1500, .queue = 2000
};

static const struct xk_sim_costs stage_free = { 0 };

static inline void
stage_note(struct stage *stage, const char *what, uint64_t at_ns)
{
	int len = snprintf(stage->notes + stage->noted, NOTES - stage->noted, "%s@%" PRIu64 " ", what, at_ns);

	REQUIRE(len > 0 && stage->noted + (size_t)len < NOTES);
	stage->noted += (size_t)len;
}

/* Notes an event at the time of top's host. */
static inline void
top_note(struct top *top, const char *what)
{
	stage_note(((struct man *)top->argument)->stage, what, xk_now_ns(&top->protocol));
}

static inline struct xk_kernel *
man_boot(void *context, struct xk_sim_host *host)
{
	struct man *man = context;
	struct xk_protocol *wire, *failed;
	struct xk_kernel *kernel;
	struct xk_edge *edge;

	if (man->boot_fails)
		return NULL;
	man->config.name = xk_sim_host_name(host);
	man->config.platform = xk_sim_platform(host);
	kernel = xk_kernel_new(&man->config);
	REQUIRE(kernel != NULL);
	xk_kernel_add_port(kernel, xk_sim_port_new(host, 0));
	wire = xk_kernel_add_protocol(kernel, &wire_type, "wire");
	man->top = (struct top *)xk_kernel_add_protocol(kernel, &top_type, "top");
	edge = xk_kernel_add_edge(kernel, &man->top->protocol, wire, NULL);
	if (man->marked)
		xk_edge_watch(edge, XK_WATCH_EXPLICIT, XK_WATCH_EXPLICIT);
	man->top->protocol.resume = man->driver_resumes ? XK_RESUME_DRIVER : XK_RESUME_THREAD;
	man->top->protocol.implicit = man->implicit;
	man->top->act = man->act;
	man->top->argument = man;
	xk_kernel_set_budget(kernel, man->budget_ns, man->carry);
	REQUIRE(xk_kernel_init(kernel, &failed) == 0);
	REQUIRE(xk_kernel_start(kernel) == 0);
	if (man->boot_wait_us != 0)
		CHECK_EQ(xk_delay(&man->top->protocol, man->boot_wait_us), 0);
	if (!man->boot_fails_late)
		return kernel;
	xk_kernel_free(kernel);
	return NULL;
}

static inline void
stage_open(struct stage *stage, const struct sim_link_config *config)
{
	*stage = (struct stage){ .sim = xk_sim_new(1) };
	REQUIRE(stage->sim != NULL);
	stage->link = xk_sim_link_new(stage->sim, "lan", config);
	REQUIRE(stage->link != NULL);
}

static inline struct man *
stage_add(struct stage *stage, enum xk_mode mode, const struct xk_sim_costs *costs, unsigned buffers,
	  void (*act)(struct top *top, struct xk_session *lls, struct xk_msg *m))
{
	struct man *man = &stage->men[stage->count];
	const char name[] = { (char)('a' + stage->count), '\0' };

	*man = (struct man){ .stage = stage,
			     .config = { .mode = mode, .driver = XK_DRIVER_INTERRUPT, .stacks = 8, .core = -1 },
			     .act = act };
	man->host = xk_sim_host_new(
		stage->sim,
		&(struct xk_sim_host_config){
			.name = name, .costs = *costs, .boot = man_boot, .context = man, .buffers = buffers });
	REQUIRE(man->host != NULL);
	REQUIRE(xk_sim_attach(man->host, "port", stage->link, 0x020000000001 + stage->count++) == 0);
	return man;
}

/* Makes two hosts: the first only sends. Returns the second, whose messages run act. Both are up. */
static inline struct man *
stage_two(struct stage *stage, enum xk_mode mode, const struct xk_sim_costs *costs,
	  void (*act)(struct top *top, struct xk_session *lls, struct xk_msg *m))
{
	struct man *man;

	stage_open(stage, &stage_wire);
	CHECK_EQ(xk_sim_boot(stage_add(stage, XK_IPP, &stage_free, 0, act)->host), 0);
	man = stage_add(stage, mode, costs, 0, act);
	return man;
}

static inline void
stage_close(struct stage *stage)
{
	CHECK_EQ(xk_sim_free(stage->sim), 0);
}

/* A test of the man added by `made`: stage_two(stage, ...). */
#define MAN_TEST(name, made)                                                                                           \
	static void name##_of(struct stage *stage, struct man *man);                                                   \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		struct stage own, *stage = &own;                                                                       \
                                                                                                                       \
		name##_of(stage, made);                                                                                \
		stage_close(stage);                                                                                    \
	}                                                                                                              \
	static void name##_of(struct stage *stage, struct man *man)

/* Sends a frame from the first host now; it arrives a microsecond later. */
static inline void
stage_send(struct stage *stage)
{
	struct man *man = &stage->men[0];
	uint8_t bytes[FRAME] = { OP_ACT };
	struct xk_msg *m = xk_msg_from(xk_sim_platform(man->host), bytes, sizeof(bytes));

	REQUIRE(m != NULL);
	CHECK_EQ(xk_push(man->top->session, m), 0);
}

static inline void
act_send(void *context)
{
	stage_send(context);
}

static inline void
stage_send_at(struct stage *stage, uint64_t at_ns)
{
	REQUIRE(xk_sim_at(stage->sim, at_ns, act_send, stage) == 0);
}

/* Boots man, sends it `frames` frames from 1 ms on, apart_ns apart, and runs a second. */
static inline void
stage_play(struct stage *stage, struct man *man, unsigned frames, uint64_t apart_ns)
{
	CHECK_EQ(xk_sim_boot(man->host), 0);
	for (unsigned i = 0; i < frames; i++)
		stage_send_at(stage, MS + i * apart_ns);
	xk_sim_run(stage->sim, SECOND);
}

/* Sets the work of do_work. */
static inline void
man_works(struct man *man, uint64_t work_ns, unsigned times)
{
	man->work_ns = work_ns;
	man->times = times;
}

static inline struct xk_kernel_stats
man_stats(struct man *man)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(xk_sim_kernel(man->host), &stats);
	return stats;
}

static inline struct xk_sim_host_counts
man_counts(struct man *man)
{
	struct xk_sim_host_counts counts;

	xk_sim_host_counts(man->host, &counts);
	return counts;
}

/* ---- actions of messages ---- */

static inline void
do_nothing(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	xk_msg_free(m);
}

static inline void
do_note(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	xk_msg_free(m);
	top_note(top, "come");
}

static inline void
do_work(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	const struct man *man = top->argument;

	xk_msg_free(m);
	top_note(top, "begin");
	for (unsigned i = 0; i < man->times; i++) {
		xk_work(&top->protocol, man->work_ns);
		xk_checkpoint(&top->protocol);
	}
	top_note(top, "end");
}

static inline void
do_delay(struct top *top, struct xk_session *lls, struct xk_msg *m)
{
	const struct man *man = top->argument;
	int result;

	top_note(top, "wait");
	result = xk_delay(&top->protocol, man->wait_us);
	xk_msg_free(m);
	top_note(top, result == 0 ? "done" : result == -ECANCELED ? "cancelled" : "failed");
}

#endif
