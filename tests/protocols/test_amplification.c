/*
 * test_amplification.c - the traffic that strangers' frames draw from a host, measured on the wire. A host whose
 * address is merely claimed receives at most three times the bytes that claimed it. Any host receives at most three
 * times as many retransmitted bytes as new ones.
 */
#include "tests/protocols/siege.h"

enum { SOURCES = 16, ARP_LEN = 42, ARP_TRIES = 3 };

/* ---- unconfirmed sources ---- */

/* Returns a distant host to forge a frame from; a new boot with each tick, and a new host every 7 ticks. */
static struct siege_peer
stranger(const struct siege *s)
{
	return (struct siege_peer){ .host = SIEGE_FAR + (uint32_t)(s->ticks / 7 % SOURCES),
				    .station = SIEGE_BY_ROUTER,
				    .boot = 0xb007 + s->ticks,
				    .on_ip = true };
}

/* The same on the link: a possible neighbour, at a station not its own. */
static struct siege_peer
neighbour(const struct siege *s)
{
	return (struct siege_peer){ .host = SIEGE_SERVER + 0x40 + (uint32_t)(s->ticks / 7 % SOURCES),
				    .station = (unsigned)(s->ticks % SIEGE_BY_ROUTER),
				    .boot = 0xb007 + s->ticks };
}

static struct siege_peer
somebody(const struct siege *s)
{
	return s->ticks % 2 == 0 ? stranger(s) : neighbour(s);
}

/* Begins a datagram from a stranger. */
static void
begin_datagram(const struct siege *s, struct siege_frame *f, unsigned protocol)
{
	siege_frame_begin(f, SIEGE_LINK + 1, SIEGE_BY_ROUTER, SIEGE_IP);
	siege_put_ip(f, stranger(s).host, SIEGE_SERVER, protocol);
}

static void
tick_arp(struct siege *s)
{
	struct siege_peer from = neighbour(s);
	struct siege_frame f;
	uint8_t *p;

	siege_frame_begin(&f, UINT64_C(0xffffffffffff), from.station, SIEGE_ARP);
	p = siege_put(&f, 28);
	xk_put64(p, UINT64_C(0x0001080006040001));
	xk_put48(p + 8, SIEGE_LINK + 0xa0 + from.station);
	xk_put32(p + 14, from.host);
	xk_put32(p + 24, SIEGE_SERVER);
	siege_send(s, &f);
}

/* Echo requests, and types that ICMP does not answer. */
static void
tick_icmp(struct siege *s)
{
	static const uint8_t types[] = { 8, 8, 13, 3 };
	size_t len = s->variant == 0 ? 8 : 40;
	struct siege_frame f;
	uint8_t *p;

	begin_datagram(s, &f, SIEGE_IP_ICMP);
	p = siege_put(&f, len);
	p[0] = types[s->variant];
	xk_checksum_store(p + 2, xk_checksum_finish(xk_sum(0, p, len)));
	siege_send(s, &f);
}

/* Unknown protocols, and first fragments of datagrams that are never completed. */
static void
tick_ip(struct siege *s)
{
	struct siege_frame f;

	begin_datagram(s, &f, s->variant == 0 ? 250 : SIEGE_IP_UDP);
	if (s->variant != 0) {
		xk_put16(f.bytes + SIEGE_ETH_LEN + 4, (uint16_t)s->ticks);
		xk_put16(f.bytes + SIEGE_ETH_LEN + 6, 0x2000);
		siege_put(&f, 8);
	}
	siege_send(s, &f);
}

static void
tick_udp(struct siege *s)
{
	struct siege_frame f;
	uint8_t *p;

	begin_datagram(s, &f, SIEGE_IP_UDP);
	p = siege_put(&f, 8);
	xk_put16(p, 9);
	xk_put16(p + 2, (uint16_t)(1000 + s->ticks % 100));
	xk_put16(p + 4, 8);
	siege_send(s, &f);
}

/* Fragments of messages that are never completed, NACKs for messages that were never sent, and empty short messages. */
static void
tick_blast(struct siege *s)
{
	struct siege_peer from = somebody(s);
	uint32_t sequence = (uint32_t)s->ticks + 1;
	struct siege_frame f;

	siege_from(&f, &from, SIEGE_BLAST);
	switch (s->variant) {
	case 0:
		siege_put_blast(&f, sequence, 1, 64, SIEGE_SEND, 1);
		siege_put(&f, 1);
		break;
	case 1:
		siege_put_blast(&f, sequence - 2, 1, 64, SIEGE_RETRANSMIT, UINT64_C(1) << s->ticks % 64);
		siege_put(&f, 1);
		break;
	case 2:
		siege_put_blast(&f, (uint32_t)(s->ticks * 0x9e3779b1), 0, 64, SIEGE_NACK, 1);
		break;
	default:
		siege_put_blast(&f, 0, 0, 0, SIEGE_SEND, 0);
		break;
	}
	siege_send(s, &f);
}

/* Messages for the server's boot, a former one, and any; with and without a payload. */
static void
tick_bid(struct siege *s)
{
	struct siege_peer from = somebody(s);
	struct siege_frame f;

	from.server_boot = s->variant / 2 == 0 ? s->peers[0].server_boot : s->variant / 2 - 1;
	siege_from(&f, &from, SIEGE_BID);
	siege_put_bid(&f, &from);
	siege_put(&f, s->variant % 2);
	siege_send(s, &f);
}

/* Queries, unsolicited responses, and announcements of boots. */
static void
tick_bidctl(struct siege *s)
{
	static const unsigned flags[] = { SIEGE_QUERY, SIEGE_RESPONSE, SIEGE_QUERY | SIEGE_RESPONSE, 4 };
	unsigned chosen = flags[s->variant];
	struct siege_peer from = somebody(s);

	siege_send_bidctl(s, &from, SIEGE_SERVER, chosen, chosen & SIEGE_RESPONSE ? s->peers[0].server_boot : 0,
			  chosen & SIEGE_QUERY ? 1 + s->ticks : 0, chosen & SIEGE_RESPONSE ? 1 + s->ticks : 0);
}

/* Requests for long replies, and bare questions; for the server's boot, and for none. */
static void
tick_chan(struct siege *s)
{
	struct siege_peer from = somebody(s);

	from.server_boot = s->variant / 2 == 0 ? s->peers[0].server_boot : 0;
	if (s->variant % 2 == 0)
		siege_send_request(s, &from, (uint32_t)s->ticks, 0, 5, ++s->ids, SIEGE_LONG);
	else
		siege_send_chan(s, &from, (uint32_t)s->ticks, SIEGE_FROM_CLIENT | SIEGE_ACK_REQUESTED, 5);
}

/* Requests for a procedure that exists, and for one that does not. */
static void
tick_select(struct siege *s)
{
	struct siege_peer from = somebody(s);
	struct siege_frame f;

	from.server_boot = s->variant / 2 == 0 ? s->peers[0].server_boot : 0;
	siege_from(&f, &from, SIEGE_BID);
	siege_put_bid(&f, &from);
	siege_put_chan(&f, (uint32_t)s->ticks, SIEGE_FROM_CLIENT | SIEGE_USER_MSG, 5, 24);
	xk_put32(f.bytes + f.len - 12, SIEGE_SELECT);
	siege_put32s(&f, SIEGE_PROCEDURE + s->variant % 2, 0);
	siege_put(&f, 16);
	siege_send(s, &f);
}

/* Calls without a cookie and with a wrong one, requests for a long reply without a session, and unsolicited answers. */
static void
tick_am(struct siege *s)
{
	static const struct {
		uint8_t kind, handler;
		uint32_t length;
	} variants[] = {
		{ 1, SIEGE_ENDPOINT, 12 }, { 1, SIEGE_ENDPOINT, 12 }, { 4, SIEGE_HANDLER, 4 }, { 6, SIEGE_HANDLER, 0 }
	};
	struct siege_peer from = somebody(s);
	struct siege_frame f;
	uint8_t *p;

	siege_from(&f, &from, SIEGE_AM);
	siege_put32s(&f, (uint32_t)variants[s->variant].kind << 24 | variants[s->variant].handler, (uint32_t)s->ticks);
	siege_put32s(&f, 0, variants[s->variant].length);
	xk_put64(siege_put(&f, 8), s->variant == 0 ? 0 : 1 + s->ticks);
	xk_put64(siege_put(&f, 8), 1 + s->ticks);
	p = siege_put(&f, variants[s->variant].length);
	if (variants[s->variant].kind == 1)
		xk_put32(p, SIEGE_ENDPOINT << 16 | 8);
	else if (variants[s->variant].length > 0)
		xk_put32(p, 1400);
	siege_send(s, &f);
}

/* ---- verdict ---- */

/* Checks all unconfirmed hosts; ARP has a limit of its own. Returns the worst ratio of out to in, in thousandths. */
static uint64_t
check_claimed(const struct siege *s, uint64_t for_ns)
{
	uint64_t in = 0, worst = 0;

	for (unsigned i = 0; i < SIEGE_HOSTS; i++) {
		const struct siege_flow *flow = &s->flows[i];

		if (flow->in == 0 || flow->confirmed)
			continue;
		in += flow->in;
		if (1000 * flow->out / flow->in > worst)
			worst = 1000 * flow->out / flow->in;
		CHECK_EQ(flow->over, 0);
	}
	CHECK(in > 0);
	CHECK(s->arp_out <= s->arp_in + SOURCES * ARP_LEN * (for_ns / (SIEGE_S / 2) + ARP_TRIES));
	return worst;
}

/*
 * Sends strangers' frames every every_ns, then waits until all their state is gone. The enemy confirms one of its hosts
 * first, to learn a boot id of the server.
 */
static uint64_t
try_strangers_at(void (*tick)(struct siege *s), unsigned variant, uint64_t every_ns, uint64_t for_ns)
{
	struct siege *s = siege_new(0);
	uint64_t worst;

	s->variant = variant;
	siege_introduce(s, siege_play(s, SIEGE_ENEMY, 0, 0xe1));
	siege_attack(s, NULL, SIEGE_MS, 0);
	siege_run(s, SIEGE_S);
	CHECK(s->peers[0].server_boot != 0);
	s->peers[0].is_silent = true;
	siege_attack(s, tick, every_ns, for_ns);
	siege_run(s, for_ns);
	s->every_ns = SIEGE_S;
	siege_run(s, 200 * SIEGE_S);
	worst = check_claimed(s, for_ns);
	siege_free(s);
	return worst;
}

/* Returns the length of an attack. Limits on what the server sends apply from the first second on. */
static uint64_t
attack_ns(void)
{
	return test_is_long() ? 20 * SIEGE_S : 5 * SIEGE_S;
}

/* Tries a flood, and a rate so low that no rate limit applies. */
static void
try_strangers(void (*tick)(struct siege *s), unsigned variants)
{
	for (unsigned i = 0; i < variants; i++) {
		uint64_t flood = try_strangers_at(tick, i, SIEGE_MS, attack_ns() / 2);
		uint64_t slow = try_strangers_at(tick, i, 400 * SIEGE_MS, 400 * SIEGE_S);
		uint64_t worst = flood > slow ? flood : slow;

		printf("%" PRIu64 ".%03" PRIu64 " ", worst / 1000, worst % 1000);
	}
}

TEST_WITH(arp_sends_no_more_than_it_receives, struct siege *s, siege_new(0), siege_free)
{
	siege_attack(s, tick_arp, SIEGE_MS, 20 * SIEGE_S);
	siege_run(s, 30 * SIEGE_S);
	CHECK(s->arp_in > 0 && s->arp_out > 0 && s->arp_out <= s->arp_in);
}

TEST_OF(icmp_sends_little_to_unconfirmed_hosts, try_strangers(tick_icmp, 4));
TEST_OF(ip_sends_little_to_unconfirmed_hosts, try_strangers(tick_ip, 2));
TEST_OF(udp_faults_send_little_to_unconfirmed_hosts, try_strangers(tick_udp, 1));
TEST_OF(blast_sends_little_to_unconfirmed_hosts, try_strangers(tick_blast, 4));
TEST_OF(bid_sends_little_to_unconfirmed_hosts, try_strangers(tick_bid, 6));
TEST_OF(bidctl_sends_little_to_unconfirmed_hosts, try_strangers(tick_bidctl, 4));
TEST_OF(chan_sends_little_to_unconfirmed_hosts, try_strangers(tick_chan, 4));
TEST_OF(select_sends_little_to_unconfirmed_hosts, try_strangers(tick_select, 4));
TEST_OF(am_sends_little_to_unconfirmed_hosts, try_strangers(tick_am, 4));

/* ---- boots claimed for a confirmed host ---- */

/*
 * Sends a BID message, a query, or an announcement in the name of the enemy's host, each from another boot; one every
 * few ticks.
 */
static void
tick_claimed_boots(struct siege *s)
{
	struct siege_peer claimed = s->peers[0];
	struct siege_frame f;

	if (s->ticks % s->data[0] != 0)
		return;
	claimed.boot += 1 + s->ticks;
	if (s->variant == 0) {
		siege_from(&f, &claimed, SIEGE_BID);
		siege_put_bid(&f, &claimed);
		siege_send(s, &f);
	} else {
		siege_send_bidctl(s, &claimed, SIEGE_SERVER, s->variant == 1 ? SIEGE_QUERY : 4, 0,
				  s->variant == 1 ? 1 + s->ticks : 0, 0);
	}
}

/* Confirms a host, which then leaves; another claims its boots. Returns the ratio of out to in, in thousandths. */
static uint64_t
try_claimed_boots(unsigned variant, uint32_t host, unsigned station, uint64_t every_ms)
{
	struct siege *s = siege_new(0);
	struct siege_flow *flow = siege_flow(s, host);
	uint64_t in, out;

	s->variant = variant;
	siege_introduce(s, siege_play(s, host, station, 0xe1));
	siege_attack(s, NULL, SIEGE_MS, 0);
	siege_run(s, SIEGE_S);
	CHECK(flow->confirmed && s->peers[0].server_boot != 0);
	s->peers[0].is_silent = true;
	in = flow->in;
	out = flow->out;
	s->data[0] = every_ms;
	siege_attack(s, tick_claimed_boots, SIEGE_MS, 20 * every_ms * SIEGE_MS);
	siege_run(s, 20 * every_ms * SIEGE_MS);
	s->every_ns = SIEGE_S;
	siege_run(s, 60 * SIEGE_S);
	in = flow->in - in;
	out = flow->out - out;
	CHECK(in > 0);
	CHECK(out <= SIEGE_TIMES * in);
	siege_free(s);
	return 1000 * out / in;
}

TEST(claimed_boots_of_a_confirmed_host_draw_few_queries)
{
	for (unsigned variant = 0; variant < 3; variant++)
		for (uint64_t every_ms = 200; every_ms <= 25000; every_ms *= 5) {
			uint64_t near = try_claimed_boots(variant, SIEGE_ENEMY, 0, every_ms);
			uint64_t far = try_claimed_boots(variant, SIEGE_FAR, SIEGE_BY_ROUTER, every_ms);

			printf("%" PRIu64 ".%02" PRIu64 " %" PRIu64 ".%02" PRIu64 " ", near / 1000, near % 1000 / 10,
			       far / 1000, far % 1000 / 10);
		}
}

/* ---- retransmissions to confirmed hosts ---- */

/* Makes a call every `ticks` ticks, each on a channel of its own. */
static void
call_now_and_then(struct siege *s, uint64_t ticks, uint64_t len)
{
	if (s->ticks % ticks == 0)
		siege_send_request(s, &s->peers[0], (uint32_t)(s->ticks / ticks), 0, 5, ++s->ids, len);
}

/* Returns the length of a reply: 16 bytes, almost a frame, several frames, or BLAST's longest. */
static uint64_t
reply_len(const struct siege *s)
{
	static const uint64_t lens[] = { 16, 1000, 20000, 64000 };

	return lens[s->variant % XK_ARRAY_LENGTH(lens)];
}

/* Never acknowledges. */
static void
tick_silent(struct siege *s)
{
	call_now_and_then(s, 200, reply_len(s));
}

/* Asks for the reply to the latest call with each tick. */
static void
tick_negative_acks(struct siege *s)
{
	call_now_and_then(s, 1000, reply_len(s));
	siege_send_chan(s, &s->peers[0], (uint32_t)(s->ticks / 1000), SIEGE_FROM_CLIENT | SIEGE_NEGATIVE_ACK, 5);
}

static void
tick_questions(struct siege *s)
{
	call_now_and_then(s, 1000, reply_len(s));
	siege_send_chan(s, &s->peers[0], (uint32_t)(s->ticks / 1000), SIEGE_FROM_CLIENT | SIEGE_ACK_REQUESTED, 5);
}

/* Repeats the latest call with each tick. */
static void
tick_duplicates(struct siege *s)
{
	call_now_and_then(s, 1000, reply_len(s));
	siege_send_request(s, &s->peers[0], (uint32_t)(s->ticks / 1000), SIEGE_ACK_REQUESTED, 5, s->ids, reply_len(s));
}

/* Reports with each tick that only the first fragment of the latest long reply has arrived. */
static void
tick_nacks(struct siege *s)
{
	call_now_and_then(s, 2000, reply_len(s));
	if (s->blast_sequence != 0)
		siege_send_nack(s, &s->peers[0], s->blast_sequence, s->blast_count);
}

/* All of these at once. */
static void
tick_everything(struct siege *s)
{
	tick_nacks(s);
	siege_send_chan(s, &s->peers[0], (uint32_t)(s->ticks / 2000), SIEGE_FROM_CLIENT | SIEGE_NEGATIVE_ACK, 5);
	siege_send_request(s, &s->peers[0], (uint32_t)(s->ticks / 2000), SIEGE_ACK_REQUESTED, 5, s->ids, reply_len(s));
}

/* Attacks for a while, then falls silent: as a neighbour, or as a distant host behind the router. */
static void
try_again_from(void (*tick)(struct siege *s), uint64_t every_ns, unsigned variant, uint32_t host, unsigned station)
{
	struct siege *s = siege_new(0);
	const struct siege_flow *flow;

	s->variant = variant;
	siege_introduce(s, siege_play(s, host, station, 0xe1));
	siege_attack(s, NULL, every_ns, 0);
	siege_run(s, SIEGE_S);
	siege_attack(s, tick, every_ns, attack_ns());
	siege_run(s, attack_ns());
	s->every_ns = SIEGE_S;
	siege_run(s, 200 * SIEGE_S);
	flow = siege_flow(s, host);
	CHECK(flow->confirmed && flow->first > 0);
	CHECK_EQ(flow->again_over, 0);
	/* short messages bypass BLAST, which has its own limits */
	CHECK(reply_len(s) <= SIEGE_FRAME ? flow->again + flow->asked <= SIEGE_TIMES * flow->first
					  : flow->asked <= flow->first / 20);
	printf("%" PRIu64 ".%02" PRIu64 " ", flow->again / flow->first, 100 * flow->again / flow->first % 100);
	siege_free(s);
}

static void
try_again(void (*tick)(struct siege *s), uint64_t every_ns, unsigned first_variant)
{
	for (unsigned i = first_variant; i < 4; i++) {
		try_again_from(tick, every_ns, i, SIEGE_ENEMY, 0);
		try_again_from(tick, every_ns, i, SIEGE_FAR, SIEGE_BY_ROUTER);
	}
}

TEST_OF(unacknowledged_replies_are_rarely_retransmitted, try_again(tick_silent, SIEGE_MS, 0));
TEST_OF(negative_acks_draw_few_replies, try_again(tick_negative_acks, SIEGE_MS, 0));
TEST_OF(probes_draw_few_replies, try_again(tick_questions, SIEGE_MS, 0));
TEST_OF(duplicates_draw_few_replies, try_again(tick_duplicates, SIEGE_MS, 0));
TEST_OF(nacks_draw_few_fragments, try_again(tick_nacks, SIEGE_MS / 2, 2));
TEST_OF(all_requests_to_retransmit_together_draw_few_replies, try_again(tick_everything, SIEGE_MS / 2, 0));
