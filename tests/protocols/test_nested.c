/*
 * test_nested.c - calls within calls, over whole graphs on simulated hosts: the cost of a waiting handler. In regular
 * mode it keeps its input thread: as many waiting handlers as threads stall the host, because no thread is left to
 * deliver their replies. In IPP mode a waiting handler occupies no thread.
 */

#include "protocols/chan/chan.h"
#include "tests/rig.h"
#include "tests/simulated.h"
#include "xkernel/process.h"

#define SECOND UINT64_C(1000000000)

enum { HOSTS = 2, ADDRESS = 0x0a4d0001, DEADLINE_S = 5 };

static const char graph_text[] =
	"digraph nested { graph [resume=%s]; relay -> chan [number=7]; chan -> bid; chan -> bidctl;"
	"bid -> blast; bid -> bidctl; blast -> vnet; bidctl -> vnet;"
	"vnet [address=\"10.77.0.%u/24\"]; vnet -> eth; vnet -> arp; arp -> eth; eth -> port }";

/* ---- a service that calls its caller back, one level less deep, before it replies ---- */

struct relay {
	struct xk_protocol protocol; /* first */
	uint8_t depth;               /* of the application's call */
	bool ended;
	int status;        /* the call's result */
	unsigned executed; /* number of requests run */
	int nested;        /* result of the latest nested call */
};

static struct relay *
relay_of(struct xk_protocol *self)
{
	return (struct relay *)self;
}

/* Calls the host at address with this depth. Returns 0 or -errno. */
static int
relay_call(struct xk_protocol *self, uint32_t address, uint8_t depth, uint64_t deadline_ns)
{
	struct xk_participants there = { .remote = { 1, { address } } };
	struct xk_msg *reply = NULL;
	struct xk_session *s;
	int status = xk_open(self, self, xk_lower(self, 0), &there, &s);

	if (status != 0)
		return status;
	CHECK_EQ(xk_control(s, XK_CHAN_SET_DEADLINE, &deadline_ns), 0);
	status = xk_call(s, xk_msg_from(xk_platform_of(self), &depth, 1), &reply);
	xk_close(s);
	if (status != 0)
		return status;
	CHECK_EQ(xk_msg_peek(&reply, 1)[0], depth);
	xk_msg_free(reply);
	return 0;
}

static int
relay_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	struct relay *r = relay_of(self);
	uint8_t depth = xk_msg_peek(&m, 1)[0];
	uint64_t caller;
	int status = 0;

	r->executed++;
	if (depth > 0) {
		CHECK_EQ(xk_control(lls, XK_GET_PEER_HOST, &caller), 0);
		status = r->nested = relay_call(self, (uint32_t)caller, depth - 1, DEADLINE_S * SECOND);
	}
	if (status != 0)
		xk_msg_free(m);
	else
		*reply = m;
	return status;
}

static int
relay_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

COMPOSE_UPPER(relay, struct relay, XK_RPC, .init = relay_init, .call_demux = relay_call_demux);

/* ---- the hosts ---- */

struct stage {
	struct xk_sim *sim;
	struct xk_sim_host *hosts[HOSTS];
	enum xk_mode mode;
	unsigned threads;
	const char *resume;
};

static struct xk_kernel *
stage_boot(void *context, struct xk_sim_host *host)
{
	struct stage *stage = context;
	struct xk_kernel *kernel =
		simulated_kernel(host, (struct xk_kernel_config){ .mode = stage->mode, .threads = stage->threads });
	char text[1024];

	snprintf(text, sizeof(text), graph_text, stage->resume, 1 + xk_sim_host_number(host));
	compose(kernel, &relay_type, text);
	return simulated_start(kernel);
}

static void
stage_open(struct stage *stage, enum xk_mode mode, unsigned threads, const char *resume)
{
	struct sim_link_config config = sim_link_preset_find("ethernet10")->config;
	static const char *const names[HOSTS] = { "client", "server" };
	struct xk_sim_link *lan;

	*stage = (struct stage){ .sim = xk_sim_new(1), .mode = mode, .threads = threads, .resume = resume };
	lan = xk_sim_link_new(stage->sim, "lan", &config);
	for (unsigned i = 0; i < HOSTS; i++) {
		stage->hosts[i] = simulated_host(stage->sim, lan, names[i], stage_boot, stage);
		CHECK_EQ(xk_sim_boot(stage->hosts[i]), 0);
	}
}

static struct relay *
stage_relay(struct stage *stage, unsigned i)
{
	return relay_of(xk_kernel_find(xk_sim_kernel(stage->hosts[i]), "relay"));
}

static uint64_t
stage_stalled(struct stage *stage, unsigned i)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(xk_sim_kernel(stage->hosts[i]), &stats);
	return stats.stalled;
}

static void
stage_caller(void *argument)
{
	struct relay *r = argument;

	r->status = relay_call(&r->protocol, ADDRESS + 1, r->depth, 60 * SECOND);
	r->ended = true;
}

/*
 * Calls the server as the client's application. Returns the result; stores the virtual seconds taken, rounded up, in
 * *took_s.
 */
static int
stage_call(struct stage *stage, uint8_t depth, uint64_t *took_s)
{
	struct relay *client = stage_relay(stage, 0);
	uint64_t begun_ns = xk_sim_now_ns(stage->sim);

	client->depth = depth;
	client->ended = false;
	REQUIRE(xk_thread_start(client->protocol.kernel, "caller", stage_caller, client) == 0);
	for (*took_s = 0; !client->ended && *took_s < 100; ++*took_s)
		xk_sim_run(stage->sim, begun_ns + (*took_s + 1) * SECOND);
	REQUIRE(client->ended);
	return client->status;
}

/* Checks that a call through `depth` handlers gets its reply and stalls no host. */
static void
check_nested(enum xk_mode mode, unsigned threads, const char *resume, uint8_t depth)
{
	struct stage stage;
	uint64_t took_s;

	stage_open(&stage, mode, threads, resume);
	CHECK_EQ(stage_call(&stage, depth, &took_s), 0);
	CHECK_EQ(took_s, 1);
	CHECK_EQ(stage_relay(&stage, 1)->executed, depth / 2 + 1);
	CHECK_EQ(stage_relay(&stage, 0)->executed, (depth + 1) / 2);
	CHECK_EQ(stage_stalled(&stage, 0), 0);
	CHECK_EQ(stage_stalled(&stage, 1), 0);
	CHECK_EQ(xk_sim_free(stage.sim), 0);
}

TEST(nested_call_stalls_a_server_with_one_thread)
{
	struct stage stage;
	uint64_t took_s;

	stage_open(&stage, XK_REGULAR, 1, "thread");
	CHECK_EQ(stage_call(&stage, 1, &took_s),
		 -EREMOTEIO); /* the handler's -ETIMEDOUT differs from this call's own */
	CHECK_EQ(stage_relay(&stage, 1)->nested, -ETIMEDOUT);
	CHECK_EQ(took_s, DEADLINE_S + 1);
	CHECK_EQ(stage_relay(&stage, 0)->executed, 1); /* its reply was there all the time */
	CHECK(stage_stalled(&stage, 1) >= DEADLINE_S - 2);
	CHECK_EQ(stage_stalled(&stage, 0), 0);
	CHECK_EQ(stage_call(&stage, 0, &took_s), 0); /* then the server continues */
	CHECK_EQ(took_s, 1);
	CHECK_EQ(xk_sim_free(stage.sim), 0);
}

TEST_OF(nested_call_ends_if_the_server_has_a_second_thread, check_nested(XK_REGULAR, 2, "thread", 1));

TEST(nested_calls_need_a_thread_more_than_waiting_handlers)
{
	struct stage stage;
	uint64_t took_s;

	stage_open(&stage, XK_REGULAR, 2, "thread");
	CHECK_EQ(stage_call(&stage, 3, &took_s), -EREMOTEIO);
	CHECK(stage_stalled(&stage, 1) >= 1);
	CHECK_EQ(xk_sim_free(stage.sim), 0);
	check_nested(XK_REGULAR, 3, "thread", 3);
}

TEST(nested_calls_stall_no_host_in_ipp_mode)
{
	check_nested(XK_IPP, 1, "thread", 1);
	check_nested(XK_IPP, 1, "driver", 1);
	check_nested(XK_IPP, 1, "thread", 20);
	check_nested(XK_IPP, 1, "driver", 20);
}
