/* test_chantest.c - chantest over whole graphs: two hosts of threads, and simulated hosts that crash. */
#include "protocols/chan/chan_private.h"
#include "protocols/test/chantest.h"
#include "tests/protocols/pair.h"
#include "tests/rig.h"
#include "tests/simulated.h"

enum { SERVER = 0x0a4d0002 };

static const char graph_text[] =
	"digraph chantest { graph [%s]; chantest [%s]; chan [timeout=\"50ms\", silence=\"5s\"]; %s;"
	"chantest -> chan; chan -> bid; chan -> bidctl; bid -> blast; bid -> bidctl; %s; bidctl -> vnet;"
	"vnet [address=\"10.77.0.%u/24\"]; vnet -> eth; vnet -> arp; arp -> eth; eth -> port }";

#define PLAIN "blast", "blast -> vnet"
#define LOSSY "vdrop [loss=\"3%\", duplicate=\"3%\", reorder=\"3%\", direction=both]", "blast -> vdrop; vdrop -> vnet"

static void
compose_host(struct xk_kernel *kernel, unsigned i, const char *policy, const char *settings, const char *nodes,
	     const char *edges)
{
	char text[1024];

	snprintf(text, sizeof(text), graph_text, policy, settings, nodes, edges, 1 + i);
	compose(kernel, NULL, text);
}

/* ---- two hosts of threads ---- */

struct callers {
	struct pair pair;
	struct xk_chantest_result result;
	uint64_t recorded;
	_Atomic bool finished;
};

static void
callers_begin(struct callers *c, enum xk_mode mode, const char *policy, const char *settings, const char *nodes,
	      const char *edges)
{
	*c = (struct callers){ .recorded = 0 };
	pair_begin(&c->pair, mode);
	for (unsigned i = 0; i < 2; i++)
		compose_host(c->pair.kernels[i], i, policy, settings, nodes, edges);
	pair_start(&c->pair);
}

static void
callers_record(void *argument, uint64_t rtt_ns)
{
	((struct callers *)argument)->recorded++;
}

static void
callers_failed(void *argument, int error, uint64_t rtt_ns)
{
	CHECK(error < 0);
}

static void
callers_finished(void *argument, const struct xk_chantest_result *result)
{
	struct callers *c = argument;

	c->result = *result;
	atomic_store(&c->finished, true);
}

static bool
callers_have_finished(void *context)
{
	return atomic_load(&((struct callers *)context)->finished);
}

static struct xk_chantest_run
callers_run(struct callers *c, unsigned channels, uint64_t rounds, uint32_t size)
{
	return (struct xk_chantest_run){ .host = SERVER,
					 .size = size,
					 .channels = channels,
					 .rounds = rounds,
					 .record = callers_record,
					 .failed = callers_failed,
					 .finished = callers_finished,
					 .argument = c };
}

static void
callers_call(struct callers *c, unsigned channels, uint64_t rounds, uint32_t size)
{
	struct xk_chantest_run run = callers_run(c, channels, rounds, size);

	c->recorded = 0;
	atomic_store(&c->finished, false);
	REQUIRE(xk_chantest_start(xk_kernel_find(c->pair.kernels[0], "chantest"), &run) == 0);
	REQUIRE(pair_wait(callers_have_finished, c));
}

static void
callers_end(struct callers *c)
{
	pair_stop(&c->pair);
	pair_end(&c->pair);
}

/* Checks that each reply is right and each call was run once. */
static void
check_calls(enum xk_mode mode, const char *policy, unsigned channels, uint64_t rounds, uint32_t size)
{
	struct callers c;
	long requests;

	callers_begin(&c, mode, policy, "silence=\"10s\"", PLAIN);
	callers_call(&c, channels, rounds, size);
	requests = compose_count(c.pair.kernels[1], "chantest", "requests");
	CHECK_EQ(c.result.error, 0);
	CHECK_EQ(c.result.rounds, rounds);
	CHECK_EQ(c.recorded, rounds);
	CHECK_EQ(c.result.bad, 0);
	CHECK_EQ(c.result.failed, 0);
	CHECK(requests >= (long)rounds && requests < (long)rounds + channels);
	CHECK_EQ(compose_count(c.pair.kernels[0], "chan", "called"), requests);
	CHECK_EQ(compose_count(c.pair.kernels[1], "chan", "executed"), requests);
	callers_end(&c);
}

TEST(chantest_calls_between_threads)
{
	check_calls(XK_REGULAR, "resume=thread", 1, 300, 1);
	check_calls(XK_REGULAR, "resume=thread", 16, 1000, 100);
}

TEST(chantest_calls_between_drivers)
{
	check_calls(XK_IPP, "resume=driver", 1, 300, 1);
	check_calls(XK_IPP, "resume=driver", 16, 1000, 0);
}

TEST(chantest_calls_with_callers_resumed_by_threads)
{
	check_calls(XK_IPP, "resume=thread", 1, 300, 8);
	check_calls(XK_IPP, "resume=thread", 16, 1000, 65);
}

TEST(chantest_calls_with_long_messages)
{
	check_calls(XK_IPP, "resume=thread", 4, 100, 16000);
	check_calls(XK_REGULAR, "resume=thread", 4, 100, 4000);
}

static void
check_lossy(enum xk_mode mode, uint32_t size)
{
	struct callers c;

	callers_begin(&c, mode, "resume=thread", "silence=\"10s\"", LOSSY);
	callers_call(&c, 12, 300, size);
	CHECK_EQ(c.result.error, 0);
	CHECK_EQ(c.result.rounds, 300);
	CHECK_EQ(c.result.bad, 0);
	CHECK(compose_count(c.pair.kernels[1], "chan", "executed") <=
	      compose_count(c.pair.kernels[0], "chan", "called"));
	callers_end(&c);
}

TEST(chantest_calls_over_a_bad_network)
{
	check_lossy(XK_REGULAR, 1);
	check_lossy(XK_IPP, 1);
	check_lossy(XK_IPP, 3000);
}

/* Reports changes of the other host, as BIDCTL does, again and again while calls are made. */
struct reporter {
	struct xk_kernel *kernel;
	uint32_t host;
	enum xk_bidctl_change change;
	_Atomic bool *finished;
};

static void
reporter_report(void *argument)
{
	struct reporter *t = argument;
	struct chan *chan = (struct chan *)xk_kernel_find(t->kernel, "chan");
	struct xk_bidctl_peer peer = { t->host, 1 };

	while (!atomic_load(t->finished) && xk_delay(&chan->protocol, 3000) == 0) {
		peer.boot++;
		chan->watcher.changed(&chan->watcher, t->change, &peer);
	}
}

static void
check_reports(enum xk_mode mode, uint32_t size)
{
	struct callers c;
	struct reporter reporters[2];
	static const struct xk_chantest_result none;

	callers_begin(&c, mode, "resume=thread", "silence=\"10s\"", LOSSY);
	c.result = none;
	reporters[0] = (struct reporter){ c.pair.kernels[0], SERVER, XK_BIDCTL_LOST, &c.finished };
	reporters[1] = (struct reporter){ c.pair.kernels[1], SERVER - 1, XK_BIDCTL_REBOOTED, &c.finished };
	for (unsigned i = 0; i < 2; i++)
		REQUIRE(xk_thread_start(c.pair.kernels[i], "reporter", reporter_report, &reporters[i]) == 0);
	callers_call(&c, 12, 2000, size);
	CHECK_EQ(c.result.error, 0);
	CHECK_EQ(c.result.rounds, 2000);
	CHECK_EQ(c.result.bad, 0);
	CHECK(c.result.reopened > 0);
	callers_end(&c);
}

TEST(chantest_calls_while_reboots_are_reported)
{
	check_reports(XK_REGULAR, 1);
	check_reports(XK_IPP, 1);
	check_reports(XK_IPP, 200);
}

TEST(chantest_refuses_impossible_runs)
{
	struct callers own, *c = &own;
	struct xk_chantest_run run;
	struct xk_protocol *test;

	callers_begin(c, XK_IPP, "resume=thread", "silence=\"300ms\", serve=no", PLAIN);
	test = xk_kernel_find(c->pair.kernels[0], "chantest");
	run = callers_run(c, 0, 1, 1);
	CHECK_EQ(xk_chantest_start(test, &run), -EINVAL);
	run = callers_run(c, XK_CHANTEST_CHANNELS + 1, 1, 1);
	CHECK_EQ(xk_chantest_start(test, &run), -EINVAL);
	run = callers_run(c, 1, 0, 1);
	CHECK_EQ(xk_chantest_start(test, &run), -EINVAL);
	run = callers_run(c, 1, 1, XK_CHANTEST_MAX + 1);
	CHECK_EQ(xk_chantest_start(test, &run), -EINVAL);
	callers_call(c, 1, 1, XK_CHANTEST_MAX);
	CHECK_EQ(c->result.error, -EMSGSIZE);
	CHECK(c->result.max_packet < XK_CHANTEST_MAX);
	callers_call(c, 2, 5, 1); /* nobody serves */
	CHECK_EQ(c->result.error, -ETIMEDOUT);
	CHECK(c->result.failed > 0);
	CHECK(compose_count(c->pair.kernels[1], "chan", "rejected") > 0);
	callers_end(c);
}

TEST(chantest_refuses_a_second_run)
{
	struct callers c;
	struct xk_chantest_run run;

	callers_begin(&c, XK_IPP, "resume=thread", "silence=\"300ms\"", PLAIN);
	run = callers_run(&c, 1, UINT64_MAX, 1);
	REQUIRE(xk_chantest_start(xk_kernel_find(c.pair.kernels[0], "chantest"), &run) == 0);
	CHECK_EQ(xk_chantest_start(xk_kernel_find(c.pair.kernels[0], "chantest"), &run), -EBUSY);
	callers_end(&c);
	CHECK(atomic_load(&c.finished));
	CHECK_EQ(c.result.error, -ECANCELED);
}

TEST_IN(chantest_reports_a_lack_of_shepherds, struct callers, c,
	callers_begin(c, XK_IPP, "resume=thread", "silence=\"1s\"", PLAIN), callers_end)
{
	callers_call(c, 200, 1000000, 1);
	CHECK_EQ(c->result.error, -EAGAIN);
}

/* ---- a faulty server ---- */

/* Replies to the oldest request with these bytes. */
static void
reply(struct rig *r, const char *text)
{
	uint8_t bytes[64];

	REQUIRE(rig_take_sent(r, bytes, sizeof(bytes)) == 20 + 10);
	bytes[5] = 2; /* a reply */
	if (text != NULL)
		memcpy(bytes + 20, text, 10);
	rig_inject_bytes(r, bytes, 30);
}

TEST(chantest_detects_a_wrong_reply)
{
	struct rig *r =
		rig_new_graph("wire:; wire2:; bidctl: wire2; bidctl.broadcast=no; chan: wire bidctl; chantest: chan;"
			      "chantest.peer=10.77.0.2; chantest.rounds=3; chantest.size=10");

	rig_expect_broken(r);
	rig_advance_ms(r, 0);
	reply(r, "0123456789");
	reply(r, NULL);
	reply(r, NULL);
	rig_inject(r, "");
	rig_expect_counts(r, "bad=1 rounds=0");
	reply(r, NULL);
	CHECK_EQ(rig_counter(r, "rounds"), 3);
	rig_advance_ms(r, 600000);
	rig_free(r);
}

/* ---- a simulated pair ---- */

struct stage {
	struct xk_sim *sim;
	struct xk_sim_host *hosts[2];
	const char *settings[2];
	unsigned booted;
};

static struct xk_kernel *
stage_boot(void *context, struct xk_sim_host *host)
{
	struct stage *stage = context;
	unsigned i = xk_sim_host_number(host);
	struct xk_kernel *kernel = simulated_kernel(host, (struct xk_kernel_config){ .mode = XK_IPP, .threads = 1 });

	compose_host(kernel, i, "resume=driver", stage->settings[i], PLAIN);
	return simulated_start(kernel);
}

static void
stage_open(struct stage *stage, const char *client, const char *server)
{
	struct sim_link_config config = sim_link_preset_find("ethernet10")->config;
	struct xk_sim_link *lan;

	*stage = (struct stage){ .sim = xk_sim_new(1), .settings = { client, server } };
	lan = xk_sim_link_new(stage->sim, "lan", &config);
	for (unsigned i = 0; i < 2; i++) {
		stage->hosts[i] = simulated_host(stage->sim, lan, i == 0 ? "client" : "server", stage_boot, stage);
		CHECK_EQ(xk_sim_boot(stage->hosts[i]), 0);
	}
}

/* The first bytes of a long request, which takes several fragments, return in one frame. */
TEST(chantest_returns_as_much_of_a_request_as_wanted)
{
	struct stage stage;
	struct xk_kernel *client;

	for (unsigned wanted = 0; wanted <= 12; wanted += 4) {
		char settings[64], all[128];

		snprintf(settings, sizeof(settings), "reply=%u", wanted);
		snprintf(all, sizeof(all), "peer=\"10.77.0.2\", rounds=5, size=4000, %s", settings);
		stage_open(&stage, all, settings);
		xk_sim_run(stage.sim, 10000000000);
		client = xk_sim_kernel(stage.hosts[0]);
		CHECK_EQ(compose_count(client, "chantest", "rounds"), 5);
		CHECK_EQ(compose_count(client, "chantest", "bad"), 0);
		CHECK(compose_count(client, "blast", "long_out") > 0);
		CHECK_EQ(compose_count(client, "blast", "long_in"), 0);
		CHECK_EQ(xk_sim_free(stage.sim), 0);
	}
	/* client and server disagree on the length */
	stage_open(&stage, "peer=\"10.77.0.2\", rounds=5, size=40, trace=none", "reply=10");
	xk_sim_run(stage.sim, 100000000);
	client = xk_sim_kernel(stage.hosts[0]);
	CHECK_EQ(compose_count(client, "chantest", "rounds"), 0);
	CHECK(compose_count(client, "chantest", "bad") > 0);
	CHECK_EQ(xk_sim_free(stage.sim), 0);
}

static void
act_reboot(void *context)
{
	struct stage *stage = context;

	CHECK_EQ(xk_sim_crash(stage->hosts[1]), 0);
	CHECK_EQ(xk_sim_boot(stage->hosts[1]), 0);
}

TEST(chantest_starts_by_itself_and_counts)
{
	struct stage stage;
	struct xk_kernel *client;

	stage_open(&stage, "peer=\"10.77.0.2\", rounds=50, channels=3, size=10, start=\"1s\"", "work=\"1ms\"");
	xk_sim_run(stage.sim, 900000000);
	client = xk_sim_kernel(stage.hosts[0]);
	CHECK_EQ(compose_count(client, "chan", "called"), 0);
	xk_sim_run(stage.sim, 10000000000);
	CHECK_EQ(compose_count(client, "chantest", "rounds"), 50);
	CHECK(compose_count(client, "chantest", "rtt_min_ns") >= 1000000);
	CHECK(compose_count(client, "chantest", "rtt_mean_ns") >= compose_count(client, "chantest", "rtt_min_ns"));
	CHECK(compose_count(client, "chantest", "rtt_max_ns") >= compose_count(client, "chantest", "rtt_mean_ns"));
	CHECK(compose_count(xk_sim_kernel(stage.hosts[1]), "chantest", "requests") >= 50);
	CHECK_EQ(xk_sim_free(stage.sim), 0);
}

TEST(chantest_reopens_its_channels_after_a_server_reboot)
{
	struct stage stage;
	struct xk_kernel *client;

	stage_open(&stage, "peer=\"10.77.0.2\", rounds=3000, channels=2", "serve=yes");
	REQUIRE(xk_sim_at(stage.sim, 500000000, act_reboot, &stage) == 0);
	xk_sim_run(stage.sim, 60000000000);
	client = xk_sim_kernel(stage.hosts[0]);
	CHECK_EQ(compose_count(client, "chantest", "rounds"), 3000);
	CHECK(compose_count(client, "chantest", "reopened") >= 1);
	CHECK(compose_count(client, "chantest", "failed") >= 1);
	CHECK(compose_count(client, "chan", "reset") >= 1);
	CHECK_EQ(compose_count(client, "chantest", "bad"), 0);
	CHECK_EQ(xk_sim_free(stage.sim), 0);
}
