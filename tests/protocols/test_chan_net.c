/*
 * test_chan_net.c - simulated networks of hosts that call each other through CHAN, BID, BIDCTL and BLAST while frames
 * are lost, duplicated and delayed and hosts crash and boot. A journal that outlives all hosts records each call: it
 * must be run at most once, by no later boot of its server than when it was made, and must end once, by its deadline,
 * with its own reply or an error. After the network heals, calls between all hosts must get through. With SELECT above
 * CHAN, a call must run the procedure that it names, and a call of an unserved procedure must fail with that error.
 */
#include "protocols/chan/chan.h"
#include "tests/protocols/crash_net.h"

enum {
	CALLERS = 4, /* of each host; every other one uses xk_call_async */
	CALLS_MAX = 80000,
	STAMP_LEN = 8,
	ID_LEN = 8,
	LATE_MS = 2,
	ERRORS = 256,
	PROCEDURES = 3, /* served by each host; nobody serves the next */
	DEADLINE_MIN_MS = 200,
	DEADLINE_MS = 2200,
	POOL_WAIT_MS = 500,
};

/* By stop_ms each client has chosen each server, even if a call takes half a second. */
static const struct net_times times = { .heal_ms = 8000, .settle_ms = 14000, .stop_ms = 18000, .end_ms = 41000 };

/* The protocol that callers call. */
enum over { OVER_CHAN, OVER_SELECT, OVER_POOL };

/* A call that was made. */
struct entry {
	struct net_exchange x; /* first */
	struct xk_call call;
	struct user *user;
	unsigned procedure;
	uint64_t begun_ns, deadline_ns;
};

/* A shepherd that makes calls. */
struct user {
	struct xk_semaphore ended;
	struct caller *caller;
	unsigned number;
};

struct caller {
	struct net_host base; /* first */
	struct user users[CALLERS];
};

struct world {
	struct net net; /* first */
	enum over over;
	const char *path;
	uint32_t size_max;
	unsigned errors[ERRORS];
	unsigned ran, misplaced;
};

/* ---- the server's half ---- */

static uint64_t
stamp_of(uint64_t id)
{
	return id * UINT64_C(0x9e3779b97f4a7c15);
}

static struct world *
world_of(const struct caller *c)
{
	return (struct world *)c->base.net;
}

/* Returns true if the call runs as the procedure it names. */
static bool
is_in_place(const struct entry *e, struct xk_session *lls)
{
	struct xk_participants who = { .local.depth = 0 };

	return xk_get_participants(lls, &who) == 0 && xk_participant_pop(&who.local) == e->procedure;
}

/* Checks a call that is run. Returns its entry; NULL: it has none. */
static struct entry *
check_run(struct world *w, unsigned host, struct xk_session *lls, const struct xk_msg *m)
{
	struct entry *e;
	uint64_t id;

	if (!xk_msg_copy_out(m, 0, &id, sizeof(id)) || id >= w->net.count) {
		CHECK(false);
		return NULL;
	}
	e = net_exchange(&w->net, id);
	CHECK_EQ(xk_msg_len(m), e->x.size);
	CHECK(net_is_intact(m, id, ID_LEN));
	CHECK_EQ(e->x.to, host);
	w->misplaced += w->over != OVER_CHAN && !is_in_place(e, lls);
	CHECK_EQ(e->x.runs, 0);
	CHECK(net_boots(&w->net, host) <= e->x.to_boot);
	e->x.runs++;
	w->ran++;
	return e;
}

/* ---- the client's half ---- */

static void
check_reply(struct entry *e, struct xk_msg *reply, uint64_t id)
{
	uint64_t stamp = 0;

	CHECK_EQ(xk_msg_len(reply), e->x.size + STAMP_LEN);
	CHECK(xk_msg_copy_out(reply, 0, &stamp, sizeof(stamp)));
	CHECK(stamp == stamp_of(id));
	CHECK(net_is_intact(reply, id, STAMP_LEN + ID_LEN));
	CHECK_EQ(e->x.runs, 1);
	xk_msg_free(reply);
}

/* Failing handlers return -ENOSYS. SELECT turns that into -EREMOTEIO: its own -ENOSYS is for an unserved procedure. */
static void
check_error(const struct world *w, const struct entry *e, int status)
{
	if (status == (w->over == OVER_CHAN ? -ENOSYS : -EREMOTEIO))
		CHECK_EQ(e->x.runs, 1);
	else if (status == -ENOSYS)
		CHECK_EQ(e->procedure, PROCEDURES);
	CHECK(status != -EBADMSG);
}

static void
check_end(struct world *w, struct entry *e, int status, struct xk_msg *reply)
{
	uint64_t id = net_id(&w->net, e), took_ns = xk_sim_now_ns(w->net.sim) - e->begun_ns;

	CHECK_EQ(e->x.ends, 0);
	e->x.ends++;
	e->x.status = status;
	CHECK_EQ(reply != NULL, status == 0);
	if (took_ns > e->deadline_ns + LATE_MS * MS)
		CHECK_EQ(took_ns, e->deadline_ns);
	w->errors[-status < ERRORS ? -status : ERRORS - 1]++;
	check_error(w, e, status);
	if (reply != NULL)
		check_reply(e, reply, id);
	if (status == 0)
		w->net.good[e->x.from][e->x.to]++;
}

static void
caller_ended(struct xk_call *call, int status, struct xk_msg *reply)
{
	struct entry *e = xk_container_of(call, struct entry, call);
	struct user *user = e->user;

	check_end(world_of(user->caller), e, status, reply);
	xk_semaphore_signal(&user->ended);
}

/* A session and its destination. */
struct called {
	unsigned to, procedure;
	struct xk_session *session;
};

/* Enters a call that is about to be made. Calls of a pool share the deadline set last. */
static struct entry *
caller_enter(struct user *user, const struct called *called, uint64_t deadline_ns)
{
	struct world *w = world_of(user->caller);
	struct net_host *h = &user->caller->base;
	struct entry *e = net_enter(h, called->to, (uint32_t)(ID_LEN + net_random(h) % w->size_max));

	e->call.done = caller_ended;
	e->user = user;
	e->procedure = called->procedure;
	e->begun_ns = xk_sim_now_ns(w->net.sim);
	e->deadline_ns = w->over == OVER_POOL ? (DEADLINE_MS + POOL_WAIT_MS) * MS : deadline_ns;
	CHECK_EQ(xk_control(called->session, XK_CHAN_SET_DEADLINE, &deadline_ns), 0);
	return e;
}

static struct xk_msg *
caller_message(const struct user *user, const struct entry *e)
{
	uint64_t id = net_id(user->caller->base.net, e);
	struct xk_msg *m = net_message(&user->caller->base, e->x.size, id, ID_LEN);

	memcpy(m->data, &id, sizeof(id));
	return m;
}

/* Makes a call. Returns its result; -ECANCELED: the host is being stopped. */
static int
caller_call(struct user *user, const struct called *called)
{
	struct xk_protocol *self = &user->caller->base.protocol;
	uint64_t deadline_ms = DEADLINE_MIN_MS + xk_random(self) % (DEADLINE_MS - DEADLINE_MIN_MS);
	struct entry *e = caller_enter(user, called, deadline_ms * MS);
	struct xk_msg *reply;
	int status;

	if (user->number % 2 == 0) {
		status = xk_call(called->session, caller_message(user, e), &reply);
		check_end(world_of(user->caller), e, status, reply);
		return status;
	}
	status = xk_call_async(called->session, caller_message(user, e), &e->call);
	if (status != 0) {
		check_end(world_of(user->caller), e, status, NULL);
		return status;
	}
	status = xk_semaphore_wait(&user->ended, XK_FOREVER);
	return status != 0 ? status : e->x.status;
}

/* Makes some calls on a channel. Returns 0 or -ECANCELED. */
static int
caller_use(struct user *user, const struct called *called)
{
	struct xk_protocol *self = &user->caller->base.protocol;
	uint64_t calls = 1 + xk_random(self) % 12;
	int status = 0;

	while (calls-- > 0 && status != -ECONNRESET && !user->caller->base.net->stopped) {
		status = caller_call(user, called);
		if (status == -ECANCELED)
			return status;
		if (xk_random(self) % 2 == 0 && xk_delay(self, xk_random(self) % 60000) != 0)
			return -ECANCELED;
	}
	return 0;
}

/* Opens another host, chosen at random. Returns false if that fails. */
static bool
caller_open(struct caller *c, struct called *called)
{
	struct xk_participants participants;

	*called = (struct called){ .to = net_another(&c->base) };
	participants = (struct xk_participants){ .remote = { 1, { NET_ADDRESS + called->to } } };
	if (world_of(c)->over != OVER_CHAN) {
		called->procedure = (unsigned)(xk_random(&c->base.protocol) % (PROCEDURES + 1));
		CHECK(xk_participant_push(&participants.remote, called->procedure));
	}
	return xk_open(&c->base.protocol, &c->base.protocol, xk_lower(&c->base.protocol, 0), &participants,
		       &called->session) == 0;
}

static void
caller_live(void *argument)
{
	struct user *user = argument;
	struct xk_protocol *self = &user->caller->base.protocol;
	int status = 0;

	while (status != -ECANCELED && !user->caller->base.net->stopped) {
		struct called called;
		bool opened = caller_open(user->caller, &called);

		status = opened ? caller_use(user, &called) : 0;
		xk_close(called.session);
		if (status != -ECANCELED && xk_delay(self, 1000 + xk_random(self) % 50000) != 0)
			status = -ECANCELED;
	}
	user->caller->base.ended++;
}

/* ---- a handler ---- */

/* Makes a call within a call. */
static void
caller_nest(struct caller *c)
{
	struct user user = { .caller = c };
	struct called called;

	if (!caller_open(c, &called))
		return;
	caller_call(&user, &called);
	xk_close(called.session);
}

static int
caller_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	struct caller *c = (struct caller *)self;
	struct entry *e = check_run(world_of(c), c->base.number, lls, m);
	uint64_t chance = xk_random(self), stamp;
	uint8_t *p;

	if (e == NULL) {
		xk_msg_free(m);
		return -EINVAL;
	}
	if (chance % 8 == 0)
		xk_delay(self, chance / 8 % 400000);
	if (chance % 64 == 2)
		caller_nest(c);
	if (chance % 8 == 1) {
		xk_msg_free(m);
		return -ENOSYS;
	}
	stamp = stamp_of(net_id(c->base.net, e));
	p = xk_msg_push(&m, STAMP_LEN);
	if (p == NULL) {
		xk_msg_free(m);
		return -ENOSYS;
	}
	memcpy(p, &stamp, sizeof(stamp));
	*reply = m;
	return 0;
}

/* CHAN has no procedures. */
static int
caller_init(struct xk_protocol *self)
{
	unsigned procedures = strcmp(xk_lower(self, 0)->type->name, "select") == 0 ? PROCEDURES : 0;
	struct xk_participants anybody = { .remote.depth = 0 };
	int err = procedures > 0 ? 0 : xk_open_enable(self, self, xk_lower(self, 0), &anybody);

	for (unsigned i = 0; i < procedures && err == 0; i++) {
		struct xk_participants procedure = { .local = { 1, { i } } };

		err = xk_open_enable(self, self, xk_lower(self, 0), &procedure);
	}
	return err;
}

COMPOSE_UPPER(caller, struct caller, XK_RPC, .init = caller_init, .call_demux = caller_call_demux);

/* ---- hosts ---- */

static const char caller_graph[] =
	"digraph caller { graph [%s]; caller; chan [timeout=\"40ms\", timeout_min=\"5ms\", timeout_max=\"200ms\", "
	"silence=\"1500ms\", lifetime=\"3s\", retries=5];"
	"bidctl [timeout=\"20ms\", timeout_max=\"80ms\", interval=\"20ms\", keepalive=\"500ms\", lifetime=\"10s\", "
	"broadcast_wait=\"100ms\"]; bid [interval=\"10ms\"];"
	"vnet [address=\"10.77.0.%u/24\"]; arp [timeout=\"30ms\", tries=4];"
	"%s %s chan -> bidctl; bid -> bidctl; vnet -> eth; vnet -> arp; arp -> eth; eth -> "
	"port }";

static const char *const overs[] = {
	[OVER_CHAN] = "caller -> chan [number=77];",
	[OVER_SELECT] = "caller -> select -> chan;",
	[OVER_POOL] = "vchan [channels=3, wait=\"500ms\"]; caller -> select -> vchan -> chan;",
};

static const char short_path[] = "chan -> bid -> blast -> vnet; bidctl -> vnet;";

/* Messages between CHAN and BID take longer than a boot. */
static const char late_path[] = "vdelay [up=\"1ms\", down=\"1ms\", jitter=\"150ms\", reorder=yes];"
				"chan -> vdelay -> bid -> blast -> vnet; bidctl -> vnet;";

/* Two clients per server and too few channels: each makes room for the other. */
static const char crowded_path[] = "chan [channels=3]; chan -> bid -> blast -> vnet; bidctl -> vnet;";

static const char full_path[] =
	"chan -> bid -> vsize -> vmux; vsize -> blast -> vmux -> vnet; vmux -> ip -> vnet; bidctl -> vmux;";

static void
caller_text(const struct net *net, unsigned host, char *text, size_t size)
{
	const struct world *w = (const struct world *)net;

	snprintf(text, size, caller_graph, net->policy, host + 1, overs[w->over], w->path);
}

static void *
caller_user(struct net_host *base, unsigned number)
{
	struct caller *c = (struct caller *)base;

	c->users[number] = (struct user){ .caller = c, .number = number };
	xk_semaphore_init(&c->users[number].ended, &base->protocol, 0);
	return &c->users[number];
}

static const struct net_kind callers = {
	.type = &caller_type,
	.threads = CALLERS,
	.talk = caller_live,
	.thread = caller_user,
	.text = caller_text,
	.exchange_size = sizeof(struct entry),
	.exchanges_max = CALLS_MAX,
};

static void
world_run(uint64_t seed, enum over over, const char *path, uint32_t size_max, bool crashes)
{
	struct world w = { .over = over, .path = path, .size_max = size_max };
	unsigned failures = CU_get_number_of_failures(), good = 0;

	net_live(&w.net, &callers, seed, crashes, &times);
	for (unsigned i = 0; i < NET_HOSTS * NET_HOSTS; i++)
		good += w.net.good[i / NET_HOSTS][i % NET_HOSTS];
	CHECK(good > 0 && w.ran >= good);
	CHECK_EQ(w.misplaced, 0);
	CHECK(over == OVER_CHAN || (w.errors[ENOSYS] > 0 && w.errors[EREMOTEIO] > 0));
	if (CU_get_number_of_failures() != failures)
		fprintf(stderr, "seed %llu: %u calls, %u run, %u replies, %u timed out, %u reset, %u refused\n",
			(unsigned long long)seed, w.net.count, w.ran, good, w.errors[ETIMEDOUT], w.errors[ECONNRESET],
			w.errors[ECONNREFUSED]);
}

TEST(calls_run_at_most_once_on_a_bad_network)
{
	for (uint64_t seed = 1; seed <= net_runs(6); seed++)
		world_run(seed, OVER_CHAN, short_path, 60, false);
}

TEST(calls_run_at_most_once_if_hosts_crash)
{
	for (uint64_t seed = 1; seed <= net_runs(8); seed++)
		world_run(1000000 + seed, OVER_CHAN, short_path, 60, true);
}

TEST(long_calls_run_at_most_once_if_hosts_crash)
{
	for (uint64_t seed = 1; seed <= net_runs(6); seed++)
		world_run(2000000 + seed, OVER_CHAN, short_path, 5000, true);
}

TEST(calls_delayed_above_bid_reach_no_other_boot)
{
	for (uint64_t seed = 1; seed <= net_runs(4); seed++)
		world_run(3000000 + seed, OVER_CHAN, late_path, seed % 2 == 0 ? 5000 : 60, true);
}

TEST(calls_run_at_most_once_if_channels_are_few)
{
	for (uint64_t seed = 1; seed <= net_runs(4); seed++)
		world_run(5000000 + seed, OVER_CHAN, crowded_path, seed % 2 == 0 ? 5000 : 60, seed % 3 != 0);
}

TEST(calls_over_several_paths_run_at_most_once_if_hosts_crash)
{
	for (uint64_t seed = 1; seed <= net_runs(4); seed++)
		world_run(4000000 + seed, OVER_CHAN, full_path, seed % 2 == 0 ? 5000 : 60, true);
}

TEST(procedures_run_at_most_once_if_hosts_crash)
{
	for (uint64_t seed = 1; seed <= net_runs(4); seed++)
		world_run(6000000 + seed, seed % 2 == 0 ? OVER_SELECT : OVER_POOL, short_path,
			  seed % 3 == 0 ? 5000 : 60, seed % 4 != 0);
}
