/*
 * test_gm_net.c - simulated networks of hosts that send each other messages through GM, while frames are lost, repeated,
 * late, and hosts crash and boot. Each message is in a journal that outlives all hosts. It must be delivered at most once,
 * whole, after all others of its session, and by no later boot of the receiver than was there when it was pushed; its
 * sender must be told once, of a delivery only if there was one; and no more messages are under way than there are tokens.
 * Then the network heals, and messages must get through between all hosts. Without reliability, messages may be missing,
 * and nobody is told.
 */
#include "protocols/gm/gm.h"
#include "protocols/post.h"
#include "tests/protocols/crash_net.h"

enum {
	TALKERS = 3, /* of each host */
	MESSAGES_MAX = 400000,
	SESSIONS_MAX = 60000,
	PORT = 7,
	TOKENS = 5,
	GM_KEPT = 64, /* without flow control */
	LATE = 16,    /* buffers that the user posts, each when it has had a message */
};

static const struct net_times times = { .heal_ms = 8000, .settle_ms = 12000, .stop_ms = 14000, .end_ms = 24000 };

/* A session that a talker has opened; numbered over all hosts and boots. */
struct conversation {
	unsigned from, to, under_way, pushed, delivered;
	uint64_t to_boot; /* that was there when it was opened, or earlier */
	bool over;
};

struct message {
	struct xk_gm_send send; /* first */
	struct world *world;
	unsigned conversation, index;
	uint64_t from_boot, to_boot;
	uint32_t size;
	unsigned deliveries, ends;
	int status;
};

struct host {
	struct xk_protocol protocol;
	struct world *world;
	unsigned number, ended;
};

struct world {
	struct net net; /* first */
	enum xk_mode mode;
	const char *settings, *policy, *path;
	uint32_t size_max;
	bool posts;     /* the users post buffers themselves */
	bool sent_once; /* reliable=no */
	unsigned tokens;
	struct message *messages;
	struct conversation *conversations;
	unsigned message_count, conversation_count, delivered, told, failed;
};

static uint8_t
byte_of(uint64_t id, size_t i)
{
	return (uint8_t)(id * 31 + i * 7 + (i >> 8));
}

/* ---- the receiver's half ---- */

static bool
is_intact(const struct xk_msg *m, uint64_t id)
{
	size_t i = 0;

	for (; m != NULL; m = m->next)
		for (uint32_t at = 0; at < m->len; at++, i++)
			if (i >= sizeof(id) && m->data[at] != byte_of(id, i))
				return false;
	return true;
}

static void
judge_delivery(struct world *w, unsigned host, const struct xk_msg *m)
{
	struct conversation *c;
	struct message *e;
	uint64_t id;

	if (!xk_msg_copy_out(m, 0, &id, sizeof(id)) || id >= w->message_count) {
		CHECK(false);
		return;
	}
	e = &w->messages[id];
	c = &w->conversations[e->conversation];
	CHECK_EQ(xk_msg_len(m), e->size);
	CHECK(is_intact(m, id));
	CHECK_EQ(c->to, host);
	CHECK_EQ(e->deliveries, 0);
	CHECK(w->sent_once ? e->index >= c->delivered : e->index == c->delivered);
	CHECK(net_boots(&w->net, host) <= e->to_boot);
	e->deliveries++;
	c->delivered = e->index + 1;
	w->delivered++;
	if (w->sent_once)
		w->net.good[c->from][c->to]++;
}

static void
host_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct host *h = xk_container_of(self, struct host, protocol);
	uint64_t chance = xk_random(self);

	if (chance % 32 == 0)
		xk_delay(self, chance / 32 % 30000); /* others come meanwhile */
	judge_delivery(h->world, h->number, m);
	xk_msg_free(m);
	if (h->world->posts)
		CHECK_EQ(xk_post(lls, h->world->size_max + 8 > 4096 ? 65536 : 4096, 1), 0);
}

static int
host_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *s, struct xk_protocol *hlp_type)
{
	struct host *h = xk_container_of(self, struct host, protocol);

	if (h->world->posts)
		CHECK_EQ(xk_post(s, h->world->size_max + 8 > 4096 ? 65536 : 4096, 3), 0);
	return 0;
}

static void
host_close_done(struct xk_protocol *self, struct xk_session *session)
{
	(void)self;
	(void)session;
}

/* ---- the sender's half ---- */

static void
message_done(struct xk_gm_send *send, int status)
{
	struct message *e = (struct message *)send;
	struct conversation *c = &e->world->conversations[e->conversation];

	CHECK_EQ(e->ends, 0);
	e->ends++;
	e->status = status;
	c->under_way--;
	CHECK_EQ(status == XK_GM_UNKNOWN, e->world->sent_once);
	if (status == 0) {
		CHECK_EQ(e->deliveries, 1);
		e->world->told++;
		e->world->net.good[c->from][c->to]++;
	} else if (status < 0) {
		CHECK(status == -ETIMEDOUT || status == -ECONNRESET);
		e->world->failed++;
		c->over = true;
	}
}

/* Pushes a message on the conversation's session. Returns what xk_push has. */
static int
push_message(struct host *h, struct xk_session *s, unsigned conversation)
{
	struct world *w = h->world;
	struct conversation *c = &w->conversations[conversation];
	unsigned id = w->message_count++;
	struct message *e = &w->messages[id];
	struct xk_msg *m;
	uint64_t word = id;
	size_t i = 0;
	int err;

	REQUIRE(id < MESSAGES_MAX);
	*e = (struct message){ .send.done = message_done,
			       .world = w,
			       .conversation = conversation,
			       .index = c->pushed,
			       .from_boot = net_boots(&w->net, h->number),
			       .to_boot = net_boots(&w->net, c->to),
			       .size = (uint32_t)(8 + xk_random(&h->protocol) % w->size_max) };
	m = xk_msg_new(xk_platform_of(&h->protocol), e->size);
	REQUIRE(m != NULL);
	for (struct xk_msg *part = m; part != NULL; part = part->next)
		for (uint32_t at = 0; at < part->len; at++, i++)
			part->data[at] = byte_of(word, i);
	memcpy(m->data, &word, sizeof(word));
	c->pushed++;
	c->under_way++;
	err = xk_gm_send(s, m, &e->send);
	if (err != 0) {
		e->ends = 1; /* none: it was refused */
		c->under_way--;
		c->pushed--;
	}
	CHECK(c->under_way <= w->tokens);
	return err;
}

static void
talk(struct host *h, struct xk_session *s, unsigned conversation)
{
	struct xk_protocol *self = &h->protocol;
	uint64_t messages = 1 + xk_random(self) % 60;

	while (messages-- > 0 && !h->world->net.stopped) {
		int err = push_message(h, s, conversation);
		uint64_t pause_us = xk_random(self) % 4 == 0 ? xk_random(self) % 20000 : 0;

		if (err == -ENOBUFS) {
			uint32_t tokens;

			CHECK_EQ(xk_control(s, XK_GM_GET_TOKENS, &tokens, sizeof(tokens)), sizeof(tokens));
			pause_us = 5000;
		} else if (err != 0) {
			CHECK(err == -ECONNRESET || err == -ETIMEDOUT || (h->world->sent_once && err == -EHOSTUNREACH));
			return;
		}
		if (pause_us != 0 && xk_delay(self, pause_us) != 0)
			return;
	}
}

static void
host_talk(void *argument)
{
	struct host *h = argument;
	struct world *w = h->world;
	struct xk_protocol *self = &h->protocol;

	while (!w->net.stopped) {
		unsigned to = (h->number + 1 + (unsigned)(xk_random(self) % (NET_HOSTS - 1))) % NET_HOSTS;
		struct xk_participants participants = { .remote = { 2, { NET_ADDRESS + to, PORT } } };
		struct xk_session *s;

		if (xk_open(self, self, xk_lower(self, 0), &participants, &s) == 0) {
			unsigned conversation = w->conversation_count++;

			REQUIRE(conversation < SESSIONS_MAX);
			w->conversations[conversation] =
				(struct conversation){ .from = h->number, .to = to, .to_boot = net_boots(&w->net, to) };
			talk(h, s, conversation);
			xk_close(s);
		}
		if (xk_delay(self, 1000 + xk_random(self) % 50000) != 0)
			break;
	}
	h->ended++;
}

static int
host_init(struct xk_protocol *self)
{
	struct xk_participants here = { .local = { 1, { PORT } } };

	return xk_open_enable(self, self, xk_lower(self, 0), &here);
}

static const struct xk_role talker_lowers[] = {
	{ "transport", XK_ASYNC, NULL, "carries messages" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_protocol_ops talker_ops = {
	.init = host_init,
	.open_done = host_open_done,
	.close_done = host_close_done,
	.demux = host_demux,
};

static const struct xk_protocol_type talker_type = {
	.name = "talker",
	.help = "Sends messages to others, and judges those that come.",
	.ops = &talker_ops,
	.size = sizeof(struct host),
	.lowers = talker_lowers,
};

/* ---- hosts ---- */

static const char talker_graph[] =
	"digraph talker { graph [%s]; talker; gm [tokens=5, timeout=\"20ms\", timeout_max=\"200ms\", "
	"patience=\"3s\"%s];"
	"bidctl [timeout=\"20ms\", timeout_max=\"80ms\", interval=\"20ms\", keepalive=\"500ms\", lifetime=\"10s\", "
	"broadcast_wait=\"100ms\"]; bid [interval=\"10ms\"];"
	"vnet [address=\"10.77.0.%u/24\"]; arp [timeout=\"30ms\", tries=4];"
	"talker -> gm; %s gm -> bidctl; bid -> bidctl; bidctl -> vnet; vnet -> eth; vnet -> arp; arp -> eth; eth -> "
	"port }";

static const char short_path[] = "gm -> bid -> vnet;";

/* What GM and BID say to each other takes longer than a boot. */
static const char late_path[] = "vdelay [up=\"1ms\", down=\"1ms\", jitter=\"150ms\", reorder=yes];"
				"gm -> vdelay -> bid -> vnet;";

static const char blast_path[] = "gm -> bid -> blast -> vnet;";

static struct xk_kernel *
boot(void *context, struct xk_sim_host *host)
{
	struct net_place *place = context;
	struct world *w = (struct world *)place->net;
	struct xk_kernel *kernel;
	char text[2048];
	struct host *h;

	snprintf(text, sizeof(text), talker_graph, w->policy, w->settings, place->host + 1, w->path);
	kernel = net_compose(host, w->mode, &talker_type, text);
	h = (struct host *)xk_kernel_find(kernel, "talker");
	h->world = w;
	h->number = place->host;
	net_start(kernel);
	for (unsigned i = 0; i < TALKERS; i++)
		CHECK_EQ(xk_thread_start(kernel, "talker", host_talk, h), 0);
	return kernel;
}

/* ---- what must be ---- */

/* Every message of a boot that is there has ended, and nobody holds anything. */
static void
judge_quiet(struct world *w)
{
	for (unsigned i = 0; i < w->message_count; i++) {
		const struct message *e = &w->messages[i];

		if (e->from_boot == net_boots(&w->net, w->conversations[e->conversation].from))
			CHECK_EQ(e->ends, 1);
	}
	for (unsigned i = 0; i < NET_HOSTS; i++) {
		struct xk_platform *platform = xk_sim_platform(w->net.hosts[i]);

		CHECK_EQ(((struct host *)xk_kernel_find(xk_sim_kernel(w->net.hosts[i]), "talker"))->ended, TALKERS);
		CHECK_EQ(platform->ops->buffers_out(platform), 0);
	}
}

static void
world_live(struct world *w, uint64_t seed, bool crashes)
{
	w->messages = calloc(MESSAGES_MAX, sizeof(*w->messages));
	w->conversations = calloc(SESSIONS_MAX, sizeof(*w->conversations));
	REQUIRE(w->messages != NULL && w->conversations != NULL);
	net_open(&w->net, seed, boot);
	net_live(&w->net, crashes, &times);
	judge_quiet(w);
	CHECK_EQ(xk_sim_free(w->net.sim), 0);
	free(w->messages);
	free(w->conversations);
}

static uint64_t
world_run(uint64_t seed, const char *path, const char *settings, uint32_t size_max, bool crashes)
{
	struct world w = { .mode = crashes && seed % 3 == 0 ? XK_REGULAR : XK_IPP,
			   .policy = seed % 2 == 0 ? "resume=driver" : "resume=thread",
			   .path = path,
			   .settings = settings,
			   .posts = strstr(settings, "buffers=0") != NULL,
			   .sent_once = strstr(settings, "reliable=no") != NULL,
			   .tokens = strstr(settings, "flow=no") != NULL ? GM_KEPT : TOKENS,
			   .size_max = size_max };
	unsigned failures = CU_get_number_of_failures();

	world_live(&w, seed, crashes);
	CHECK(w.delivered > 0 && w.delivered >= w.told && (w.told > 0) != w.sent_once);
	if (!crashes)
		CHECK_EQ(w.failed, 0); /* nobody is gone for 3 s */
	if (CU_get_number_of_failures() != failures)
		fprintf(stderr, "seed %llu: %u messages, %u delivered, %u told, %u failed\n", (unsigned long long)seed,
			w.message_count, w.delivered, w.told, w.failed);
	return w.delivered;
}

TEST(messages_arrive_once_and_in_order_whatever_the_network_does)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(seed, short_path, seed % 2 == 0 ? ", small=copy" : "", 60, false);
}

TEST(messages_arrive_once_and_in_order_whoever_crashes)
{
	for (uint64_t seed = 1; seed <= net_runs(1); seed++)
		world_run(1000000 + seed, short_path, "", 60, true);
}

TEST(long_messages_arrive_once_and_in_order_whoever_crashes)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(2000000 + seed, seed % 2 == 0 ? blast_path : short_path, "", 5000, true);
}

TEST(messages_that_wait_above_bid_reach_no_other_boot)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(3000000 + seed, late_path, "", seed % 2 == 0 ? 5000 : 60, true);
}

TEST(messages_wait_for_buffers_that_are_posted)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(4000000 + seed, short_path, ", buffers=0", seed % 2 == 0 ? 5000 : 60, seed != 1);
}

/* Receivers forget sessions all the time: few of the senders' sessions then end without anybody's being gone. */
TEST(messages_arrive_once_and_in_order_where_sessions_are_forgotten)
{
	for (uint64_t seed = 1; seed <= net_runs(1); seed++)
		world_run(5000001 + 2 * seed, short_path, ", sessions=3, peer_sessions=2", 60, true);
}

TEST(messages_arrive_once_and_in_order_without_flow_control)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(6000000 + seed, short_path, ", flow=no", seed % 2 == 0 ? 2000 : 60, true);
}

TEST(messages_that_are_sent_once_arrive_once_and_in_order_if_at_all)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(7000000 + seed, short_path, seed % 2 == 0 ? ", reliable=no" : ", reliable=no, flow=no",
			  seed < 3 ? 60 : 5000, seed != 1);
}
