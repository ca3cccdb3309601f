/*
 * test_rpc_threads.c - the RPC suite under threads: two hosts, each with callers that open, call (long and short, waiting and
 * not), close, and begin anew, all at once, through SELECT, VCHAN, CHAN, VCACHE, BID, VSIZE, BLAST and VMUX, and by Active
 * Messages, over links that lose, repeat and reorder; while CHAN is told again and again that the other host was booted, or is
 * lost. Every call must end, each reply be that of its call, and nothing be left.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "protocols/am.h"
#include "protocols/chan_private.h"
#include "tests/test.h"
#include "xkernel/kernel.h"

enum {
	CALLERS = 4, /* of each host */
	OPENS = 40,  /* of each caller */
	CALLS = 8,   /* on each session */
	FOREIGN_CALLS = 60,
	ALARMS = 40,
	ALARM_US = 5000,
	LONG = 5000,
	PROCEDURE = 7,
	ADDRESS = 0x0a4d0001,
	NAPS = 60000, /* a bound for what hangs, not for what is slow */
	ASK = 1,
	TELL = 2,
	ASK_SLOWLY = 3,
};

static const char graph_text[] =
	"digraph rpc { graph [%s]; caller; chan [timeout=\"20ms\", timeout_min=\"2ms\", timeout_max=\"100ms\", "
	"silence=\"5s\", "
	"deadline=\"10s\"]; vchan [channels=3, wait=\"2s\"]; am [timeout=\"30ms\"];"
	"cache [protocol=vcache, time=\"3ms\", entries=2]; cache2 [protocol=vcache, time=\"2ms\"];"
	"bidctl [timeout=\"50ms\"]; blast [nack=\"2ms\", nack_max=\"50ms\"];"
	"vdrop [seed=%u, loss=\"2%%\", duplicate=\"3%%\", reorder=\"3%%\", reorder_time=\"1ms\", direction=both];"
	"vnet [address=\"10.77.0.%u/24\"];"
	"caller -> select [role=calls]; caller -> am [role=messages]; am -> cache2 -> vnet;"
	"select -> vchan -> chan; chan -> cache [%s]; cache -> bid; chan -> bidctl; bid -> vdrop [%s]; vdrop -> vsize; "
	"bid -> bidctl;"
	"vsize -> vmux; vsize -> blast; blast -> vmux; bidctl -> vmux; vmux -> vnet; vmux -> ip; ip -> vnet;"
	"vnet -> eth; vnet -> arp; arp -> eth; eth -> port }";

struct pair;

struct caller {
	struct xk_protocol protocol;
	struct pair *pair;
	unsigned host;
	_Atomic(struct xk_session *) shown; /* for the foreign thread; it has a reference of its own */
};

struct pair {
	struct xk_platform *platforms[2];
	struct xk_kernel *kernels[2];
	struct xk_port *ports[2];
	struct caller *callers[2];
	_Atomic uint64_t ids;
	_Atomic unsigned good, failed, served, asked, told, ended;
	_Atomic unsigned alarms; /* hosts where there still are some */
};

static inline struct caller *
caller_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct caller, protocol);
}

/* ---- being called ---- */

static uint64_t
answer_to(uint64_t id)
{
	return id * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static int
caller_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	uint64_t id, answer;
	struct xk_msg *copy;

	CHECK(xk_msg_copy_out(m, 0, &id, sizeof(id)));
	answer = answer_to(id);
	copy = xk_msg_new(xk_platform_of(self), xk_msg_len(m));
	xk_msg_free(m);
	atomic_fetch_add(&caller_of(self)->pair->served, 1);
	if (copy == NULL)
		return -ENOBUFS;
	if (id % 7 == 0)
		xk_delay(self, 500);
	for (struct xk_msg *part = copy; part != NULL; part = part->next)
		memset(part->data, 0, part->len);
	memcpy(copy->data, &answer, sizeof(answer));
	*reply = copy;
	return 0;
}

static void
am_asked(void *argument, struct xk_session *lls, struct xk_msg *m, struct xk_am_reply *reply)
{
	struct caller *c = argument;

	atomic_fetch_add(&c->pair->asked, 1);
	*reply = (struct xk_am_reply){ TELL, m };
}

static void
am_told(void *argument, struct xk_session *lls, struct xk_msg *m, struct xk_am_reply *reply)
{
	struct caller *c = argument;

	atomic_fetch_add(&c->pair->told, 1);
	xk_msg_free(m);
}

static int
caller_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .local = { 1, { PROCEDURE } } };
	struct xk_protocol *am = xk_lower(self, 1);
	struct xk_am_handler ask = { .run = am_asked, .argument = self }, slow = ask;
	struct xk_am_handler tell = { .run = am_told, .argument = self };

	slow.may_wait = true;
	REQUIRE(xk_am_register(am, ASK, &ask) == 0 && xk_am_register(am, TELL, &tell) == 0);
	REQUIRE(xk_am_register(am, ASK_SLOWLY, &slow) == 0);
	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

static const struct xk_role caller_lowers[] = {
	{ "calls", XK_RPC, NULL, "carries calls" },
	{ "messages", XK_ASYNC, NULL, "carries active messages" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_protocol_ops caller_ops = { .init = caller_init, .call_demux = caller_call_demux };

static const struct xk_protocol_type caller_type = {
	.name = "caller",
	.help = "Calls the other host, and is called.",
	.ops = &caller_ops,
	.size = sizeof(struct caller),
	.lowers = caller_lowers,
};

/* ---- calling ---- */

/* One that does not wait, and whom to tell. */
struct asking {
	struct xk_call call; /* first */
	struct xk_semaphore told;
	int status;
	struct xk_msg *reply;
};

static void
asking_done(struct xk_call *call, int status, struct xk_msg *reply)
{
	struct asking *asking = (struct asking *)call;

	asking->status = status;
	asking->reply = reply;
	xk_semaphore_signal(&asking->told);
}

static int
call_without_waiting(struct caller *c, struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	struct asking asking = { .call.done = asking_done };
	int status;

	xk_semaphore_init(&asking.told, &c->protocol, 0);
	status = xk_call_async(s, m, &asking.call);
	if (status != 0)
		return status;
	CHECK_EQ(xk_semaphore_wait(&asking.told, XK_FOREVER), 0);
	*reply = asking.reply;
	return asking.status;
}

/* 0, or as the call has failed. */
static int
call_once(struct caller *c, struct xk_session *s, bool waits)
{
	uint64_t id = atomic_fetch_add(&c->pair->ids, 1), answer;
	size_t len = id % 5 == 0 ? LONG : sizeof(id) + id % 3 * 100;
	struct xk_msg *m = xk_msg_new(xk_platform_of(&c->protocol), len), *reply = NULL;
	int status;

	REQUIRE(m != NULL);
	for (struct xk_msg *part = m; part != NULL; part = part->next)
		memset(part->data, 1, part->len);
	memcpy(m->data, &id, sizeof(id));
	status = waits ? xk_call(s, m, &reply) : call_without_waiting(c, s, m, &reply);
	if (!waits && status == -EBUSY) /* no channel was idle */
		return 0;
	atomic_fetch_add(status == 0 ? &c->pair->good : &c->pair->failed, 1);
	if (status != 0)
		return status;
	CHECK_EQ(xk_msg_len(reply), len);
	CHECK(xk_msg_copy_out(reply, 0, &answer, sizeof(answer)));
	CHECK(answer == answer_to(id));
	xk_msg_free(reply);
	return 0;
}

static int
open_to_other(struct caller *c, unsigned lower, struct xk_session **s)
{
	struct xk_participants participants = { .remote = { 1, { ADDRESS + 1 - c->host } } };
	struct xk_protocol *self = &c->protocol;

	if (lower == 0)
		xk_participant_push(&participants.remote, PROCEDURE);
	return xk_open(self, self, xk_lower(self, lower), &participants, s);
}

static void
send_messages(struct caller *c)
{
	struct xk_session *s;

	if (open_to_other(c, 1, &s) != 0)
		return;
	for (unsigned i = 0; i < 6; i++)
		xk_am_request(s, i % 2 == 0 ? ASK : ASK_SLOWLY, xk_msg_from(xk_platform_of(&c->protocol), "m", 1));
	xk_close(s);
}

/* Until nobody raises alarms any more, and once after that. */
static void
caller_live(void *argument)
{
	struct caller *c = argument;
	struct xk_session *s;
	bool last = false;

	for (unsigned i = 0; !last; i++) {
		last = i >= OPENS && atomic_load(&c->pair->alarms) == 0;
		send_messages(c);
		if (open_to_other(c, 0, &s) != 0)
			continue;
		for (unsigned k = 0; k < CALLS && call_once(c, s, (i + k) % 2 == 0) != -ECONNRESET; k++)
			;
		xk_close(s);
	}
	atomic_fetch_add(&c->pair->ended, 1);
}

/* Keeps a session for the foreign thread. */
static void
caller_show(void *argument)
{
	struct caller *c = argument;
	struct xk_session *s;

	while (open_to_other(c, 0, &s) != 0)
		xk_delay(&c->protocol, 1000);
	atomic_store(&c->shown, s);
	atomic_fetch_add(&c->pair->ended, 1);
}

static void
caller_hide(void *argument)
{
	struct caller *c = argument;

	xk_close(atomic_load(&c->shown));
	atomic_fetch_add(&c->pair->ended, 1);
}

/* CHAN is told what BIDCTL tells: the boot is the same one in fact, so that the next calls get through. */
static void
raise_alarms(void *argument)
{
	struct caller *c = argument;
	struct chan *chan = (struct chan *)xk_kernel_find(c->protocol.kernel, "chan");
	struct xk_protocol *bidctl = xk_kernel_find(c->protocol.kernel, "bidctl");
	struct xk_bidctl_peer peer = { .host = ADDRESS + 1 - c->host };

	for (unsigned i = 0; i < ALARMS; i++) {
		xk_delay(&c->protocol, ALARM_US);
		if (xk_bidctl_known(bidctl, peer.host, &peer.boot) != 0)
			continue;
		chan->watcher.changed(&chan->watcher, i % 3 == 0 ? XK_BIDCTL_LOST : XK_BIDCTL_REBOOTED, &peer);
	}
	atomic_fetch_sub(&c->pair->alarms, 1);
	atomic_fetch_add(&c->pair->ended, 1);
}

/* ---- the pair ---- */

static void
pair_build(struct pair *p, unsigned i, const char *policy, const char *mark)
{
	static const struct xk_protocol_type *types[128];
	struct xk_graph_errors errors = { 0 };
	struct xk_protocol *failed;
	struct xk_graph *graph;
	char text[2048];
	unsigned count = 0;

	for (; xk_protocol_types[count] != NULL && count < XK_ARRAY_LENGTH(types) - 2; count++)
		types[count] = xk_protocol_types[count];
	types[count] = &caller_type;
	snprintf(text, sizeof(text), graph_text, policy, 7 + i, 1 + i, mark, mark);
	graph = xk_graph_read_text("rpc", text, strlen(text), &errors);
	if (graph == NULL || xk_graph_check(graph, types, &errors) != 0 ||
	    xk_graph_build(graph, p->kernels[i], &errors) != 0)
		xk_graph_errors_print(&errors, stderr);
	REQUIRE(errors.list == NULL);
	xk_graph_free(graph);
	p->callers[i] = (struct caller *)xk_kernel_find(p->kernels[i], "caller");
	p->callers[i]->pair = p;
	p->callers[i]->host = i;
	REQUIRE(xk_kernel_init(p->kernels[i], &failed) == 0);
}

static void
pair_begin(struct pair *p, enum xk_mode mode, const char *policy, const char *mark)
{
	*p = (struct pair){ .ids = 1 };
	for (unsigned i = 0; i < 2; i++) {
		/* handlers that wait and callers occupy threads in regular mode */
		struct xk_kernel_config config = { .name = "rpc", .mode = mode, .threads = 3, .core = -1 };

		config.driver = XK_DRIVER_INTERRUPT;
		p->platforms[i] = config.platform = xk_memory_platform_new(XK_MEMORY_REAL);
		p->kernels[i] = xk_kernel_new(&config);
		p->ports[i] = xk_memory_port_new(p->platforms[i], "port", 0x020000000001 + i, 1500);
		REQUIRE(p->kernels[i] != NULL && p->ports[i] != NULL);
		xk_kernel_add_port(p->kernels[i], p->ports[i]);
	}
	REQUIRE(xk_memory_connect(p->ports[0], p->ports[1]) == 0);
	for (unsigned i = 0; i < 2; i++)
		pair_build(p, i, policy, mark);
	for (unsigned i = 0; i < 2; i++)
		REQUIRE(xk_kernel_start(p->kernels[i]) == 0);
}

static void
pair_start(struct pair *p, unsigned host, void (*live)(void *argument))
{
	CHECK_EQ(xk_thread_start(p->kernels[host], "caller", live, p->callers[host]), 0);
}

static bool
pair_wait(struct pair *p, unsigned ended)
{
	static const struct timespec nap = { 0, 1000000 };

	for (unsigned naps = 0; naps < NAPS && atomic_load(&p->ended) < ended; naps++)
		nanosleep(&nap, NULL);
	CHECK_EQ(atomic_load(&p->ended), ended);
	return atomic_load(&p->ended) == ended;
}

static void
pair_end(struct pair *p)
{
	for (unsigned i = 0; i < 2; i++)
		xk_kernel_stop(p->kernels[i]);
	for (unsigned i = 0; i < 2; i++)
		xk_kernel_free(p->kernels[i]);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(p->platforms[i]->ops->buffers_out(p->platforms[i]), 0);
		xk_memory_platform_free(p->platforms[i]);
	}
}

/* A thread that is no shepherd calls, too. */
static void *
call_as_foreigner(void *argument)
{
	struct caller *c = argument;

	for (unsigned i = 0; i < FOREIGN_CALLS; i++)
		call_once(c, atomic_load(&c->shown), true);
	return NULL;
}

static void
check_calls(enum xk_mode mode, const char *policy, const char *mark, bool alarms)
{
	struct pair p;
	pthread_t foreigner;
	unsigned ended = 1;

	pair_begin(&p, mode, policy, mark);
	pair_start(&p, 0, caller_show);
	if (!pair_wait(&p, ended))
		return;
	atomic_store(&p.alarms, alarms ? 2 : 0);
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned k = 0; k < CALLERS; k++, ended++)
			pair_start(&p, i, caller_live);
		if (alarms)
			pair_start(&p, i, raise_alarms);
		ended += alarms;
	}
	REQUIRE(pthread_create(&foreigner, NULL, call_as_foreigner, p.callers[0]) == 0);
	pthread_join(foreigner, NULL);
	if (!pair_wait(&p, ended))
		return; /* what hangs cannot be freed */
	pair_start(&p, 0, caller_hide);
	if (!pair_wait(&p, ended + 1))
		return;
	CHECK(atomic_load(&p.good) > 0);
	CHECK(atomic_load(&p.told) > 0);
	if (!alarms) {
		CHECK(atomic_load(&p.good) > 20 * atomic_load(&p.failed));
		CHECK(atomic_load(&p.served) >= atomic_load(&p.good));
	}
	pair_end(&p);
}

TEST(rpc_under_threads_in_regular_mode)
{
	check_calls(XK_REGULAR, "resume=thread", "", false);
}

TEST(rpc_under_threads_in_ipp_mode)
{
	check_calls(XK_IPP, "resume=thread", "", false);
}

TEST(rpc_under_threads_in_ipp_mode_resumed_by_the_driver)
{
	check_calls(XK_IPP, "resume=driver", "", false);
}

TEST(rpc_whose_peer_is_said_to_boot_where_messages_wait_below_and_above_bid)
{
	check_calls(XK_IPP, "resume=thread", "handoff=explicit", true);
}

TEST(rpc_whose_peer_is_said_to_boot_in_regular_mode)
{
	check_calls(XK_REGULAR, "resume=thread", "", true);
}

TEST(rpc_whose_peer_is_said_to_boot_in_ipp_mode)
{
	check_calls(XK_IPP, "resume=thread", "", true);
}
