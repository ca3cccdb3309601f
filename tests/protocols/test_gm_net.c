/*
 * test_gm_net.c - simulated networks of hosts that exchange messages through GM while frames are lost, duplicated and
 * delayed and hosts crash and boot. A journal that outlives all hosts records each message. It must be delivered at
 * most once, whole, after all earlier messages of its session, and by no later boot of the receiver than when it was
 * pushed. Its sender must be notified once, of a delivery only if there was one, and must have no more messages in
 * flight than tokens. After the network heals, messages between all hosts must get through. Without reliability,
 * messages may be missing, and no sender is notified.
 */
#include "protocols/papers/gm.h"
#include "protocols/post.h"
#include "tests/protocols/crash_net.h"

enum {
	TALKERS = 3, /* of each host */
	MESSAGES_MAX = 400000,
	SESSIONS_MAX = 60000,
	PORT = 7,
	TOKENS = 5,
	GM_KEPT = 64, /* without flow control */
	LATE = 16,    /* buffers that the user posts, one more after each message */
};

static const struct net_times times = { .heal_ms = 8000, .settle_ms = 12000, .stop_ms = 14000, .end_ms = 24000 };

/* A session that a talker has opened; numbered over all hosts and boots. */
struct conversation {
	unsigned from, to, under_way, pushed, delivered;
	uint64_t to_boot; /* the receiver's boot when it was opened, or an earlier one */
	bool over;
};

struct message {
	struct net_exchange x; /* first */
	struct xk_gm_send send;
	struct world *world;
	unsigned conversation, index;
};

struct world {
	struct net net; /* first */
	const char *settings, *path;
	uint32_t size_max;
	bool posts;     /* the users post buffers themselves */
	bool sent_once; /* reliable=no */
	unsigned tokens;
	struct conversation *conversations;
	unsigned conversation_count, delivered, notified, failed;
};

/* ---- the receiver's half ---- */

static void
check_delivery(struct net_host *h, const struct xk_msg *m)
{
	struct world *w = (struct world *)h->net;
	struct conversation *c;
	struct message *e;
	uint64_t id;

	if (!xk_msg_copy_out(m, 0, &id, sizeof(id)) || id >= w->net.count) {
		CHECK(false);
		return;
	}
	e = net_exchange(&w->net, id);
	c = &w->conversations[e->conversation];
	CHECK_EQ(xk_msg_len(m), e->x.size);
	CHECK(net_is_intact(m, id, sizeof(id)));
	CHECK_EQ(c->to, h->number);
	CHECK_EQ(e->x.runs, 0);
	CHECK(w->sent_once ? e->index >= c->delivered : e->index == c->delivered);
	CHECK(net_boots(&w->net, h->number) <= e->x.to_boot);
	e->x.runs++;
	c->delivered = e->index + 1;
	w->delivered++;
	if (w->sent_once)
		w->net.good[c->from][c->to]++;
}

/* Posts buffers, if the users do. */
static void
post(struct net_host *h, struct xk_session *s, unsigned count)
{
	const struct world *w = (const struct world *)h->net;

	if (w->posts)
		CHECK_EQ(xk_post(s, w->size_max + 8 > 4096 ? 65536 : 4096, count), 0);
}

static void
host_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct net_host *h = (struct net_host *)self;
	uint64_t chance = xk_random(self);

	if (chance % 32 == 0)
		xk_delay(self, chance / 32 % 30000); /* others arrive meanwhile */
	check_delivery(h, m);
	xk_msg_free(m);
	post(h, lls, 1);
}

static int
host_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *s, struct xk_protocol *hlp_type)
{
	post((struct net_host *)self, s, 3);
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
	struct message *e = xk_container_of(send, struct message, send);
	struct conversation *c = &e->world->conversations[e->conversation];

	CHECK_EQ(e->x.ends, 0);
	e->x.ends++;
	e->x.status = status;
	c->under_way--;
	CHECK_EQ(status == XK_GM_UNKNOWN, e->world->sent_once);
	if (status == 0) {
		CHECK_EQ(e->x.runs, 1);
		e->world->notified++;
		e->world->net.good[c->from][c->to]++;
	} else if (status < 0) {
		CHECK(status == -ETIMEDOUT || status == -ECONNRESET);
		e->world->failed++;
		c->over = true;
	}
}

/* Pushes a message on the conversation's session. Returns xk_push's result. */
static int
push_message(struct net_host *h, struct xk_session *s, unsigned conversation)
{
	struct world *w = (struct world *)h->net;
	struct conversation *c = &w->conversations[conversation];
	struct message *e = net_enter(h, c->to, (uint32_t)(8 + net_random(h) % w->size_max));
	uint64_t id = net_id(&w->net, e);
	struct xk_msg *m = net_message(h, e->x.size, id, sizeof(id));
	int err;

	e->send.done = message_done;
	e->world = w;
	e->conversation = conversation;
	e->index = c->pushed;
	memcpy(m->data, &id, sizeof(id));
	c->pushed++;
	c->under_way++;
	err = xk_gm_send(s, m, &e->send);
	if (err != 0) {
		e->x.ends = 1; /* refused: nothing to end */
		c->under_way--;
		c->pushed--;
	}
	CHECK(c->under_way <= w->tokens);
	return err;
}

static void
talk(struct net_host *h, struct xk_session *s, unsigned conversation)
{
	struct world *w = (struct world *)h->net;
	struct xk_protocol *self = &h->protocol;
	uint64_t messages = 1 + xk_random(self) % 60;

	while (messages-- > 0 && !w->net.stopped) {
		int err = push_message(h, s, conversation);
		uint64_t pause_us = xk_random(self) % 4 == 0 ? xk_random(self) % 20000 : 0;

		if (err == -ENOBUFS) {
			uint32_t tokens;

			CHECK_EQ(xk_control(s, XK_GM_GET_TOKENS, &tokens), 0);
			pause_us = 5000;
		} else if (err != 0) {
			CHECK(err == -ECONNRESET || err == -ETIMEDOUT || (w->sent_once && err == -EHOSTUNREACH));
			return;
		}
		if (pause_us != 0 && xk_delay(self, pause_us) != 0)
			return;
	}
}

static void
host_talk(void *argument)
{
	struct net_host *h = argument;
	struct world *w = (struct world *)h->net;
	struct xk_protocol *self = &h->protocol;

	while (!w->net.stopped) {
		unsigned to = net_another(h);
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

COMPOSE_UPPER(talker, struct net_host, XK_ASYNC, .init = host_init, .open_done = host_open_done,
	      .close_done = host_close_done, .demux = host_demux);

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

/* Messages between GM and BID take longer than a boot. */
static const char late_path[] = "vdelay [up=\"1ms\", down=\"1ms\", jitter=\"150ms\", reorder=yes];"
				"gm -> vdelay -> bid -> vnet;";

static const char blast_path[] = "gm -> bid -> blast -> vnet;";

static void
host_text(const struct net *net, unsigned host, char *text, size_t size)
{
	const struct world *w = (const struct world *)net;

	snprintf(text, size, talker_graph, net->policy, w->settings, host + 1, w->path);
}

static void *
host_thread(struct net_host *h, unsigned number)
{
	return h;
}

static const struct net_kind talkers = {
	.type = &talker_type,
	.threads = TALKERS,
	.talk = host_talk,
	.thread = host_thread,
	.text = host_text,
	.exchange_size = sizeof(struct message),
	.exchanges_max = MESSAGES_MAX,
};

static void
world_run(uint64_t seed, const char *path, const char *settings, uint32_t size_max, bool crashes)
{
	struct world w = { .path = path,
			   .settings = settings,
			   .posts = strstr(settings, "buffers=0") != NULL,
			   .sent_once = strstr(settings, "reliable=no") != NULL,
			   .tokens = strstr(settings, "flow=no") != NULL ? GM_KEPT : TOKENS,
			   .size_max = size_max };
	unsigned failures = CU_get_number_of_failures();

	w.conversations = calloc(SESSIONS_MAX, sizeof(*w.conversations));
	REQUIRE(w.conversations != NULL);
	net_live(&w.net, &talkers, seed, crashes, &times);
	free(w.conversations);
	CHECK(w.delivered > 0 && w.delivered >= w.notified && (w.notified > 0) != w.sent_once);
	if (!crashes)
		CHECK_EQ(w.failed, 0); /* no host is down for 3 s */
	if (CU_get_number_of_failures() != failures)
		fprintf(stderr, "seed %llu: %u messages, %u delivered, %u notified, %u failed\n",
			(unsigned long long)seed, w.net.count, w.delivered, w.notified, w.failed);
}

TEST(messages_arrive_once_in_order_on_a_bad_network)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(seed, short_path, seed % 2 == 0 ? ", small=copy" : "", 60, false);
}

TEST(messages_arrive_once_in_order_if_hosts_crash)
{
	for (uint64_t seed = 1; seed <= net_runs(1); seed++)
		world_run(1000000 + seed, short_path, "", 60, true);
}

TEST(long_messages_arrive_once_in_order_if_hosts_crash)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(2000000 + seed, seed % 2 == 0 ? blast_path : short_path, "", 5000, true);
}

TEST(messages_delayed_above_bid_reach_no_other_boot)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(3000000 + seed, late_path, "", seed % 2 == 0 ? 5000 : 60, true);
}

TEST(messages_wait_for_posted_buffers)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(4000000 + seed, short_path, ", buffers=0", seed % 2 == 0 ? 5000 : 60, seed != 1);
}

/* Receivers forget sessions all the time; few of the senders' sessions end because of it. */
TEST(messages_arrive_once_in_order_if_sessions_are_forgotten)
{
	for (uint64_t seed = 1; seed <= net_runs(1); seed++)
		world_run(5000001 + 2 * seed, short_path, ", sessions=3, peer_sessions=2", 60, true);
}

TEST(messages_arrive_once_in_order_without_flow_control)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(6000000 + seed, short_path, ", flow=no", seed % 2 == 0 ? 2000 : 60, true);
}

TEST(unreliable_messages_arrive_at_most_once_in_order)
{
	for (uint64_t seed = 1; seed <= net_runs(2); seed++)
		world_run(7000000 + seed, short_path, seed % 2 == 0 ? ", reliable=no" : ", reliable=no, flow=no",
			  seed < 3 ? 60 : 5000, seed != 1);
}
