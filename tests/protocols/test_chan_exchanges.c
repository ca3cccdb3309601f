/*
 * test_chan_exchanges.c - CHAN's exchanges between a client's end and a server's: the messages in their order, and the
 * outcome if one of them, or one of the hosts, is lost.
 */
#include "tests/protocols/chan_rig.h"

struct pair {
	struct rig *client, *server;
	struct xk_session *s;
	struct calling call;
};

static void
pair_new(struct pair *p, uint32_t max_packet)
{
	*p = (struct pair){ chan_rig(""), chan_rig(""), NULL, { .s = NULL } };
	rig_answer_control(p->client, XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet));
	rig_answer_control(p->server, XK_GET_MAX_PACKET, &max_packet, sizeof(max_packet));
	CHECK_EQ(serve(p->server, true), 0);
	p->s = open_channel(p->client, SERVER);
}

/* Checks that nothing is left to send, and frees both ends. */
static void
pair_free(struct pair *p)
{
	rig_expect_nothing_sent(p->client);
	rig_expect_nothing_sent(p->server);
	close_channel(p->client, p->s);
	chan_rig_end(p->client);
	chan_rig_end(p->server);
}

static void
pass_time(struct pair *p, uint64_t ms)
{
	rig_advance_ms(p->client, ms);
	rig_advance_ms(p->server, ms);
}

static void
expect_silence(struct pair *p, uint64_t ms)
{
	pass_time(p, ms);
	rig_expect_nothing_sent(p->client);
	rig_expect_nothing_sent(p->server);
}

/* ---- dialogues ---- */

/* Returns the name of a message, by its flags. "-": none. */
static const char *
name_of(const struct frame *f)
{
	static const char *const words[] = {
		[0] = "ack",        [CHAN_FROM_CLIENT] = "ack",
		[2] = "reply",      [CHAN_FROM_CLIENT | 2] = "request",
		[4] = "probe",      [CHAN_FROM_CLIENT | 4] = "probe",
		[6] = "reply ack?", [CHAN_FROM_CLIENT | 6] = "request ack?",
		[8] = "nack",       [CHAN_FROM_CLIENT | 8] = "nack",
		[16] = "error",
	};

	if (f->h.flags >= XK_ARRAY_LENGTH(words) || words[f->h.flags] == NULL)
		return "-";
	return words[f->h.flags];
}

/* Takes a message from the client or the server, which must be `words` about sequence, and delivers or loses it. */
static void
carry(struct pair *p, bool is_client, const char *words, uint32_t sequence, bool is_lost)
{
	uint8_t bytes[CHAN_HEADER_LEN + PAYLOAD_MAX];
	struct frame f = take(is_client ? p->client : p->server);

	CHECK_STR(name_of(&f), words);
	CHECK_EQ(f.h.sequence, sequence);
	if (f.h.flags != CHAN_ERROR)
		CHECK_EQ((f.h.flags & CHAN_FROM_CLIENT) != 0, is_client);
	if (!is_lost)
		rig_inject_bytes(is_client ? p->server : p->client, bytes, frame_bytes(bytes, f.h, f.payload, f.len));
}

/*
 * Runs a dialogue: "> request 1" is from the client and "< reply 1" from the server, with its sequence number; "lost"
 * precedes a message that does not arrive. "200 ms" lets time pass.
 */
static void
talk(struct pair *p, const char *dialogue)
{
	char *copy = strdup(dialogue), *rest = NULL;

	for (char *step = strtok_r(copy, ";", &rest); step != NULL; step = strtok_r(NULL, ";", &rest)) {
		char who, words[16];
		unsigned number, is_lost;

		step += strspn(step, " ");
		is_lost = strncmp(step, "lost ", 5) == 0;
		if (sscanf(step, "%u ms", &number) == 1) {
			pass_time(p, number);
			continue;
		}
		REQUIRE(sscanf(step + is_lost * 5, "%c %15[a-z? ]%u", &who, words, &number) == 3);
		words[strlen(words) - 1] = '\0'; /* the space before the number */
		carry(p, who == '>', words, number, is_lost);
	}
	free(copy);
}

static void
expect_reply(const struct pair *p, const char *text)
{
	CHECK_EQ(p->call.done, 1);
	CHECK_EQ(p->call.status, 0);
	CHECK_STR(p->call.reply, text);
}

/* Ends a call whose reply has arrived: the server probes, and the client acknowledges. */
static void
acknowledge(struct pair *p, uint64_t ms, uint32_t sequence)
{
	pass_time(p, ms);
	carry(p, false, "reply ack?", sequence, false);
	carry(p, true, "ack", sequence + 1, false);
	CHECK_EQ(rig_counter(p->client, "acked"), 1);
}

/* ---- the exchanges ---- */

TEST_IN(exchange_next_request_is_the_implicit_ack, struct pair, p, pair_new(p, 1500), pair_free)
{
	CHECK_EQ(call_async(p->client, &p->call, p->s, "one"), 0);
	talk(p, "> request 1; < reply 1");
	expect_reply(p, "one");
	expect_silence(p, 150);
	CHECK_EQ(call_async(p->client, &p->call, p->s, "two"), 0);
	talk(p, "> request 2; < reply 2");
	expect_reply(p, "two");
	expect_silence(p, 199); /* the first reply is not probed any more */
	acknowledge(p, 1, 2);
	expect_silence(p, 60000);
	CHECK_EQ(caller_in(p->server)->executed, 2);
	CHECK_EQ(rig_drop_count(p->server), 0);
}

TEST_IN(exchange_slow_server_acknowledges_and_is_then_probed, struct pair, p, pair_new(p, 1500), pair_free)
{
	caller_in(p->server)->waits = true;
	CHECK_EQ(call_async(p->client, &p->call, p->s, "slow"), 0);
	talk(p, "> request 1");
	expect_silence(p, 199);
	talk(p, "1 ms; > request ack? 1; < ack 1");
	for (unsigned i = 0; i < 10; i++) {
		expect_silence(p, 1999);
		talk(p, "1 ms; > probe 1; < ack 1");
	}
	CHECK_EQ(p->call.done, 0);
	go(p->server);
	talk(p, "< reply 1");
	expect_reply(p, "slow");
	CHECK_EQ(caller_in(p->server)->executed, 1);
	acknowledge(p, 200, 1);
	expect_silence(p, 60000);
}

TEST_IN(exchange_lost_long_request_is_retransmitted_when_missed, struct pair, p, pair_new(p, 3000), pair_free)
{
	CHECK_EQ(call_async_long(p->client, &p->call, p->s, 2000), 0);
	talk(p, "lost > request 1; 200 ms; > probe 1; < nack 1");
	CHECK_EQ(caller_in(p->server)->executed, 0);
	talk(p, "> request 1; < reply 1");
	CHECK_EQ(p->call.reply_len, 2000);
	CHECK_EQ(caller_in(p->server)->executed, 1);
	talk(p, "200 ms; < probe 1; > ack 2"); /* a long reply is probed */
	expect_silence(p, 60000);
}

TEST_IN(exchange_lost_short_request_is_retransmitted, struct pair, p, pair_new(p, 1500), pair_free)
{
	CHECK_EQ(call_async(p->client, &p->call, p->s, "x"), 0);
	talk(p, "lost > request 1; 200 ms; > request ack? 1; < reply 1");
	expect_reply(p, "x");
	CHECK_EQ(caller_in(p->server)->executed, 1);
	acknowledge(p, 200, 1);
}

/* The server has acknowledged the request, so the server notices. */
TEST_IN(exchange_lost_long_reply_is_retransmitted_when_missed, struct pair, p, pair_new(p, 3000), pair_free)
{
	caller_in(p->server)->waits = true;
	caller_in(p->server)->reply_len = 2000;
	CHECK_EQ(call_async(p->client, &p->call, p->s, "x"), 0);
	talk(p, "> request 1; 200 ms; > request ack? 1; < ack 1");
	go(p->server);
	talk(p, "lost < reply 1");
	expect_silence(p, 199);
	talk(p, "1 ms; < probe 1; > nack 1; < reply 1");
	CHECK_EQ(p->call.reply_len, 2000);
	CHECK_EQ(caller_in(p->server)->executed, 1);
	talk(p, "400 ms; < probe 1; > ack 2");
	expect_silence(p, 60000);
}

TEST_IN(exchange_lost_short_reply_is_retransmitted_and_acknowledged, struct pair, p, pair_new(p, 1500), pair_free)
{
	caller_in(p->server)->waits = true;
	CHECK_EQ(call_async(p->client, &p->call, p->s, "x"), 0);
	talk(p, "> request 1; 200 ms; > request ack? 1; < ack 1");
	go(p->server);
	talk(p, "lost < reply 1; 200 ms; < reply ack? 1");
	expect_reply(p, "x");
	talk(p,
	     "lost > ack 2; 400 ms; < reply ack? 1"); /* the call is over: drops the reply and acknowledges it again */
	CHECK_EQ(rig_counter(p->client, "unasked"), 1);
	talk(p, "> ack 2");
	expect_silence(p, 60000);
	CHECK_EQ(caller_in(p->server)->executed, 1);
}

TEST_IN(exchange_duplicate_request_draws_the_lost_reply_at_once, struct pair, p, pair_new(p, 1500), pair_free)
{
	CHECK_EQ(call_async(p->client, &p->call, p->s, "x"), 0);
	talk(p, "> request 1; lost < reply 1");
	rig_advance_ms(p->client, 200); /* its timer is first */
	rig_advance_ms(p->server, 100);
	talk(p, "> request ack? 1; < reply 1");
	expect_reply(p, "x");
	CHECK_EQ(caller_in(p->server)->executed, 1);
	CHECK_EQ(rig_counter(p->server, "repeated"), 1);
	acknowledge(p, 200, 1);
}

TEST_IN(exchange_probe_draws_the_lost_long_reply_at_once, struct pair, p, pair_new(p, 3000), pair_free)
{
	CHECK_EQ(call_async_long(p->client, &p->call, p->s, 2000), 0);
	talk(p, "> request 1; lost < reply 1");
	rig_advance_ms(p->client, 200);
	rig_advance_ms(p->server, 100);
	talk(p, "> probe 1; < reply 1");
	CHECK_EQ(p->call.reply_len, 2000);
	CHECK_EQ(caller_in(p->server)->executed, 1);
	talk(p, "200 ms; < probe 1; > ack 2");
}

TEST(exchange_client_reboot_suppresses_the_reply)
{
	struct pair p, next;

	pair_new(&p, 1500);
	caller_in(p.server)->waits = true;
	CHECK_EQ(call_async(p.client, &p.call, p.s, "old"), 0);
	talk(&p, "> request 1");
	CHECK_EQ(caller_in(p.server)->running, 1);
	CHECK_EQ(xk_control(p.s, XK_CHAN_ABORT, NULL), 0); /* this boot sends no more */
	report(p.server, XK_BIDCTL_REBOOTED, CLIENT, BOOT + 1);
	CHECK_EQ(caller_in(p.server)->closed, 1);
	go(p.server);
	expect_silence(&p, 60000);
	CHECK_EQ(rig_counter(p.server, "suppressed"), 1);
	caller_in(p.server)->waits = false;
	next = (struct pair){ chan_rig(""), p.server, NULL, { .s = NULL } }; /* the boot that is up now */
	next.s = open_channel(next.client, SERVER);
	CHECK_EQ(call_async(next.client, &next.call, next.s, "new"), 0);
	talk(&next, "> request 1; < reply 1");
	expect_reply(&next, "new");
	CHECK_EQ(caller_in(p.server)->executed, 2);
	acknowledge(&next, 200, 1);
	close_channel(p.client, p.s);
	chan_rig_end(p.client);
	pair_free(&next);
}

TEST_IN(exchange_server_reboot_fails_the_call, struct pair, p, pair_new(p, 1500), pair_free)
{
	caller_in(p->server)->waits = true;
	CHECK_EQ(call_async(p->client, &p->call, p->s, "x"), 0);
	talk(p, "> request 1; 200 ms; > request ack? 1; < ack 1");
	report(p->client, XK_BIDCTL_REBOOTED, SERVER, BOOT + 1);
	CHECK_EQ(p->call.done, 1);
	CHECK_EQ(p->call.status, -ECONNRESET);
	rig_expect_silence_ms(p->client, 60000);
	go(p->server); /* the former boot: its reply matches no call */
	talk(p, "< reply 1");
	CHECK_EQ(p->call.done, 1);
	CHECK_EQ(call_async(p->client, &p->call, p->s, "y"), -ECONNRESET);
	rig_advance_ms(p->server, 60000);
	rig_forget(p->server);
}

TEST_IN(exchange_header_only_ack_is_no_request, struct pair, p, pair_new(p, 1500), pair_free)
{
	CHECK_EQ(call_async(p->client, &p->call, p->s, "one"), 0);
	talk(p, "> request 1; < reply 1");
	acknowledge(p, 200, 1);
	expect_silence(p, 1000);
	CHECK_EQ(caller_in(p->server)->executed, 1);
	CHECK_EQ(rig_drop_count(p->server), 0);
	CHECK_EQ(call_async(p->client, &p->call, p->s, "two"), 0);
	talk(p, "> request 2; < reply 2"); /* the ack's sequence */
	expect_reply(p, "two");
	CHECK_EQ(caller_in(p->server)->executed, 2);
	talk(p, "10 ms; < reply ack? 2; > ack 3"); /* it has measured how fast acks are */
}
