/*
 * test_rpc_threads.c - the RPC suite under threads. The callers of two hosts open, call (long and short, waiting and
 * asynchronous), close and begin anew, all at once, through SELECT, VCHAN, CHAN, VCACHE, BID, VSIZE, BLAST and VMUX,
 * and by Active Messages, over links that lose, duplicate and reorder; meanwhile CHAN is notified again and again that
 * the other host has booted or is lost. Each call must end, each reply must be its call's, and nothing may be left.
 */
#include <pthread.h>

#include "protocols/chan/chan_private.h"
#include "protocols/papers/am.h"
#include "tests/protocols/pair.h"

enum {
	CALLERS = 4, /* of each host */
	OPENS = 40,  /* of each caller, in the long form */
	CALLS = 8,   /* on each session */
	FOREIGN_CALLS = 60,
	ALARMS = 40,
	ALARM_US = 5000,
	LONG = 5000,
	PROCEDURE = 7,
	ADDRESS = 0x0a4d0001,
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

struct both;

struct caller {
	struct xk_protocol protocol;
	struct both *both;
	unsigned host;
	_Atomic(struct xk_session *) shown; /* shown to the foreign thread, with a reference of its own */
};

/* Counts over both hosts' callers. */
struct both {
	struct pair pair;
	struct caller *callers[2];
	_Atomic uint64_t ids;
	_Atomic unsigned good, failed, served, asked, messages, ended;
	unsigned awaited;        /* number of callers that end */
	_Atomic unsigned alarms; /* hosts that still raise alarms */
};

static inline struct caller *
caller_of(struct xk_protocol *self)
{
	return xk_container_of(self, struct caller, protocol);
}

/* ---- server ---- */

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
	atomic_fetch_add(&caller_of(self)->both->served, 1);
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
am_asked(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply)
{
	struct caller *c = argument;

	atomic_fetch_add(&c->both->asked, 1);
	*reply = (struct xk_am_reply){ .given = true, .number = TELL, .m = m };
}

static void
am_tell(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply)
{
	struct caller *c = argument;

	atomic_fetch_add(&c->both->messages, 1);
	xk_msg_free(m);
}

static int
caller_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .local = { 1, { PROCEDURE } } }, everybody = anybody;
	struct xk_protocol *am = xk_lower(self, 1);
	struct xk_am_handler ask = { .run = am_asked, .argument = self }, slow = ask;
	struct xk_am_handler tell = { .run = am_tell, .argument = self };

	slow.may_wait = true;
	REQUIRE(xk_am_register(am, PROCEDURE, ASK, &ask) == 0 && xk_am_register(am, PROCEDURE, TELL, &tell) == 0);
	REQUIRE(xk_am_register(am, PROCEDURE, ASK_SLOWLY, &slow) == 0);
	REQUIRE(xk_open_enable(self, self, am, &everybody) == 0);
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

/* ---- client ---- */

/* An asynchronous call, and the caller to notify. */
struct asking {
	struct xk_call call; /* first */
	struct xk_semaphore ended;
	int status;
	struct xk_msg *reply;
};

static void
asking_done(struct xk_call *call, int status, struct xk_msg *reply)
{
	struct asking *asking = (struct asking *)call;

	asking->status = status;
	asking->reply = reply;
	xk_semaphore_signal(&asking->ended);
}

static int
call_without_waiting(struct caller *c, struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	struct asking asking = { .call.done = asking_done };
	int status;

	xk_semaphore_init(&asking.ended, &c->protocol, 0);
	status = xk_call_async(s, m, &asking.call);
	if (status != 0)
		return status;
	CHECK_EQ(xk_semaphore_wait(&asking.ended, XK_FOREVER), 0);
	*reply = asking.reply;
	return asking.status;
}

/* Makes one call. Returns 0 or the call's error. */
static int
call_once(struct caller *c, struct xk_session *s, bool waits)
{
	uint64_t id = atomic_fetch_add(&c->both->ids, 1), answer;
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
	atomic_fetch_add(status == 0 ? &c->both->good : &c->both->failed, 1);
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

	xk_participant_push(&participants.remote, PROCEDURE);
	if (lower == 1)
		xk_participant_push(&participants.local, PROCEDURE);
	return xk_open(self, self, xk_lower(self, lower), &participants, s);
}

static void
send_messages(struct caller *c)
{
	struct xk_session *s;

	if (open_to_other(c, 1, &s) != 0)
		return;
	for (unsigned i = 0; i < 6; i++) {
		struct xk_am_push push = { .number = i % 2 == 0 ? ASK : ASK_SLOWLY };

		xk_am_request(s, &push, xk_msg_from(xk_platform_of(&c->protocol), "m", 1));
	}
	xk_close(s);
}

/* Makes calls until no alarms are raised any more, and once after that. */
static void
caller_live(void *argument)
{
	struct caller *c = argument;
	struct xk_session *s;
	bool last = false;

	for (unsigned i = 0; !last; i++) {
		last = i >= (test_is_long() ? OPENS : OPENS / 4) && atomic_load(&c->both->alarms) == 0;
		send_messages(c);
		if (open_to_other(c, 0, &s) != 0)
			continue;
		for (unsigned k = 0; k < CALLS && call_once(c, s, (i + k) % 2 == 0) != -ECONNRESET; k++)
			;
		xk_close(s);
	}
	atomic_fetch_add(&c->both->ended, 1);
}

/* Shows a session to the foreign thread. */
static void
caller_show(void *argument)
{
	struct caller *c = argument;
	struct xk_session *s;

	while (open_to_other(c, 0, &s) != 0)
		xk_delay(&c->protocol, 1000);
	atomic_store(&c->shown, s);
	atomic_fetch_add(&c->both->ended, 1);
}

static void
caller_hide(void *argument)
{
	struct caller *c = argument;

	xk_close(atomic_load(&c->shown));
	atomic_fetch_add(&c->both->ended, 1);
}

/* Notifies CHAN as BIDCTL does. The boot is in fact the same, so the next calls get through. */
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
	atomic_fetch_sub(&c->both->alarms, 1);
	atomic_fetch_add(&c->both->ended, 1);
}

/* ---- the pair ---- */

static void
both_compose(struct both *b, unsigned i, const char *policy, const char *mark)
{
	struct xk_kernel *kernel = b->pair.kernels[i];
	char text[2048];

	snprintf(text, sizeof(text), graph_text, policy, 7 + i, 1 + i, mark, mark);
	compose(kernel, &caller_type, text);
	b->callers[i] = (struct caller *)xk_kernel_find(kernel, "caller");
	b->callers[i]->both = b;
	b->callers[i]->host = i;
}

static void
both_begin(struct both *b, enum xk_mode mode, const char *policy, const char *mark)
{
	*b = (struct both){ .ids = 1 };
	pair_begin(&b->pair, mode);
	for (unsigned i = 0; i < 2; i++)
		both_compose(b, i, policy, mark);
	pair_start(&b->pair);
}

static void
both_start(struct both *b, unsigned host, void (*live)(void *argument))
{
	CHECK_EQ(xk_thread_start(b->pair.kernels[host], "caller", live, b->callers[host]), 0);
}

static bool
both_have_ended(void *context)
{
	struct both *b = context;

	return atomic_load(&b->ended) >= b->awaited;
}

static bool
both_wait(struct both *b, unsigned ended)
{
	b->awaited = ended;
	pair_wait(both_have_ended, b);
	CHECK_EQ(atomic_load(&b->ended), ended);
	return atomic_load(&b->ended) == ended;
}

/* Makes calls from a thread that is no shepherd. */
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
	struct both b;
	pthread_t foreigner;
	unsigned ended = 1;

	both_begin(&b, mode, policy, mark);
	both_start(&b, 0, caller_show);
	if (!both_wait(&b, ended))
		return;
	atomic_store(&b.alarms, alarms ? 2 : 0);
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned k = 0; k < CALLERS; k++, ended++)
			both_start(&b, i, caller_live);
		if (alarms)
			both_start(&b, i, raise_alarms);
		ended += alarms;
	}
	REQUIRE(pthread_create(&foreigner, NULL, call_as_foreigner, b.callers[0]) == 0);
	pthread_join(foreigner, NULL);
	if (!both_wait(&b, ended))
		return; /* what hangs cannot be freed */
	both_start(&b, 0, caller_hide);
	if (!both_wait(&b, ended + 1))
		return;
	CHECK(atomic_load(&b.good) > 0);
	CHECK(atomic_load(&b.messages) > 0);
	if (!alarms) {
		CHECK(atomic_load(&b.good) > 20 * atomic_load(&b.failed));
		CHECK(atomic_load(&b.served) >= atomic_load(&b.good));
	}
	pair_stop(&b.pair);
	pair_end(&b.pair);
}

TEST_OF(rpc_works_under_threads_in_regular_mode, check_calls(XK_REGULAR, "resume=thread", "", false));
TEST_OF(rpc_works_under_threads_in_ipp_mode, check_calls(XK_IPP, "resume=thread", "", false));
TEST_OF(rpc_works_under_threads_in_ipp_mode_resumed_by_the_driver, check_calls(XK_IPP, "resume=driver", "", false));
TEST_OF(rpc_survives_false_reboots_with_handoffs_around_bid,
	check_calls(XK_IPP, "resume=thread", "handoff=explicit", true));
TEST_OF(rpc_survives_false_reboots_in_regular_mode, check_calls(XK_REGULAR, "resume=thread", "", true));
TEST_OF(rpc_survives_false_reboots_in_ipp_mode, check_calls(XK_IPP, "resume=thread", "", true));
