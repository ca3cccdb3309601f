/*
 * test_beside_attacks.c - an honest client beside each attack on the protocols of calls. All its calls, short and long,
 * through CHAN and through SELECT, must be answered, whether it boots with the attack or at its height. Prints the
 * worst latency, on the virtual clock.
 */
#include "tests/protocols/siege.h"

enum { HELD = 64, ANSWERING = 4096 };

/*
 * Returns the server's number of channels: the default with --long, otherwise an eighth, so that they are taken sooner.
 */
static unsigned
channels_each(void)
{
	return test_is_long() ? 1024 : 128;
}

static const char *
settings(void)
{
	return test_is_long() ? NULL : "chan [channels=8192, hosts=256, peer_channels=128];";
}

/* Channels of calls in the client's name; channels of the enemy's own calls begin at OWN. */
enum { FORGED = 0x7000, FORGED_COUNT = 512 };
#define OWN UINT32_C(0xf0000000)

#define CALLING (3 * SIEGE_S / 2) /* time for which the client calls */

/* Indices of siege.data. */
enum { CLIENT_BOOT, CHANNEL, CALL, STOLEN };

static struct siege_peer *
introduce(struct siege *s, uint32_t host, unsigned station)
{
	struct siege_peer *peer = siege_play(s, host, station, 0xe000 + host);

	siege_introduce(s, peer);
	return peer;
}

/* ---- no attack, for comparison ---- */

static void
begin_nothing(struct siege *s)
{
	introduce(s, SIEGE_ENEMY, 0);
}

static void
tick_nothing(struct siege *s)
{
	(void)s;
}

/* ---- 1: NACKs ---- */

static void
begin_nacks(struct siege *s)
{
	introduce(s, SIEGE_ENEMY, 0);
	introduce(s, SIEGE_FAR, SIEGE_BY_ROUTER);
}

static void
tick_nacks(struct siege *s)
{
	struct siege_peer *peer = &s->peers[s->ticks / 400 % 2];

	if (s->ticks % 400 == 0)
		siege_send_request(s, peer, (uint32_t)s->ticks, 0, 5, ++s->ids, 64000);
	siege_send_nack(s, peer, s->blast_sequence, s->blast_count);
}

/* Fragments of strangers' messages that are never completed. */
static void
tick_fragments(struct siege *s)
{
	for (unsigned i = 0; i < 16; i++) {
		struct siege_peer from = { .host = SIEGE_FAR + (uint32_t)((s->ticks * 16 + i) % ANSWERING),
					   .station = SIEGE_BY_ROUTER,
					   .on_ip = true };
		struct siege_frame f;

		siege_from(&f, &from, SIEGE_BLAST);
		siege_put_blast(&f, (uint32_t)s->ticks + 1, 1, 64, SIEGE_SEND, 1);
		siege_put(&f, 1);
		siege_send(s, &f);
	}
}

/* ---- 1 and 3: in the client's name, over IP and from other stations of the link ---- */

/* Learns the client's boot id, and counts calls and replies that reach the wrong station. */
static void
learn_client(struct siege *s, const struct siege_frame *f)
{
	const uint8_t *p = f->bytes;
	size_t at;
	unsigned type = siege_above(p, f->len, &at);
	uint32_t channel;

	if (type == SIEGE_BIDCTL && xk_get32(p + at + 4) == SIEGE_CLIENT)
		s->data[CLIENT_BOOT] = xk_get64(p + at + 8);
	if (type == SIEGE_BLAST && (xk_get32(p + at + 4) == 0 || xk_get64(p + at + 16) == 1))
		at += SIEGE_BLAST_LEN;
	else if (type == SIEGE_BLAST)
		return;
	if ((type != SIEGE_BID && type != SIEGE_BLAST) || f->len < at + SIEGE_BID_LEN + SIEGE_CHAN_LEN ||
	    !(xk_get16(p + at + SIEGE_BID_LEN + 4) & SIEGE_USER_MSG))
		return;
	channel = xk_get32(p + at + SIEGE_BID_LEN);
	if (channel >= OWN)
		return;
	s->data[STOLEN]++;
	if (channel < FORGED || channel >= FORGED + FORGED_COUNT) {
		s->data[CHANNEL] = channel;
		s->data[CALL] = xk_get32(p + at + SIEGE_BID_LEN + 12);
	}
}

/* Returns the client with its learned boot id, at a station of the enemy's or behind its router. */
static struct siege_peer
false_client(const struct siege *s, bool on_ip)
{
	return (struct siege_peer){ .host = SIEGE_CLIENT,
				    .station = on_ip ? SIEGE_BY_ROUTER : (unsigned)(s->ticks % SIEGE_BY_ROUTER),
				    .boot = s->data[CLIENT_BOOT],
				    .server_boot = s->peers[0].server_boot,
				    .on_ip = on_ip };
}

/* Sends a call that must not be run. */
static void
send_forged(struct siege *s, const struct siege_peer *from, uint32_t channel, uint32_t sequence, uint64_t len)
{
	s->ran[++s->ids] = 1;
	siege_send_request(s, from, channel, 0, sequence, s->ids, len);
}

/* Calls in the client's name, some on channels of stolen replies; and NACKs for the replies that these calls draw. */
static void
tick_in_clients_name(struct siege *s, bool on_ip)
{
	struct siege_peer from = false_client(s, on_ip);

	if (s->ticks % 100 == 0)
		siege_send_bidctl(s, &s->peers[0], SIEGE_CLIENT, SIEGE_QUERY, 0, 1 + s->ticks, 0);
	if (from.boot == 0)
		return;
	if (s->ticks % 10 == 0)
		send_forged(s, &from, FORGED + (uint32_t)(s->ticks / 10 % FORGED_COUNT), (uint32_t)s->ticks,
			    s->variant == 0 ? 16 : SIEGE_LONG);
	if (s->data[CHANNEL] != 0)
		send_forged(s, &from, (uint32_t)s->data[CHANNEL], (uint32_t)++s->data[CALL], 16);
	for (uint32_t i = 0; i < 8; i++)
		siege_send_nack(s, &from, s->blast_sequence + i, 15);
	if (s->ticks % 400 == 0)
		siege_send_request(s, &s->peers[0], OWN + (uint32_t)s->ticks, 0, 5, ++s->ids, SIEGE_LONG);
}

static void
tick_by_ip(struct siege *s)
{
	tick_in_clients_name(s, true);
}

static void
tick_by_link(struct siege *s)
{
	tick_in_clients_name(s, false);
}

/* A station announces boots of the client, over and over, without having seen its traffic. */
static void
tick_false_boots(struct siege *s)
{
	struct siege_peer from = false_client(s, s->ticks % 2 == 0);
	struct siege_frame f;

	from.boot = 0xb007 + s->ticks;
	siege_send_bidctl(s, &from, SIEGE_SERVER, s->ticks % 3 == 0 ? 4 : SIEGE_QUERY, 0,
			  s->ticks % 3 == 0 ? 0 : 1 + s->ticks, 0);
	siege_from(&f, &from, SIEGE_BID);
	siege_put_bid(&f, &from);
	siege_put_chan(&f, (uint32_t)s->ticks, SIEGE_FROM_CLIENT | SIEGE_USER_MSG, 5, 0);
	siege_send(s, &f);
}

/* ---- 2: long replies that nobody acknowledges ---- */

static void
begin_three(struct siege *s)
{
	for (unsigned i = 0; i < 3; i++)
		introduce(s, SIEGE_ENEMY + i, i);
}

/* 200 per second, of two fragments each: the fewest that BLAST keeps copies of. */
static void
tick_long_replies(struct siege *s)
{
	siege_send_request(s, &s->peers[s->ticks % 3], (uint32_t)s->ticks, 0, 5, ++s->ids, 2000);
}

/* Prepares HELD addresses of one machine. */
static void
begin_held(struct siege *s)
{
	for (uint32_t i = 0; i < HELD; i++)
		introduce(s, SIEGE_SERVER + 0x40 + i, 0);
}

/* Prepares HELD hosts elsewhere, each in a network of its own. */
static void
begin_far(struct siege *s)
{
	for (uint32_t i = 0; i < HELD; i++)
		introduce(s, SIEGE_FAR + i * 256, SIEGE_BY_ROUTER);
}

/* Calls as the next of these hosts, with a new channel after each round. */
static void
call_of_next(struct siege *s, uint64_t len)
{
	siege_send_request(s, &s->peers[s->data[CHANNEL] % HELD], (uint32_t)(s->data[CHANNEL] / HELD % channels_each()),
			   0, 5, ++s->ids, len);
	s->data[CHANNEL]++;
}

static void
tick_many_long_replies(struct siege *s)
{
	call_of_next(s, s->variant == 0 ? 2000 : SIEGE_LONG);
}

/* ---- 3: requests of hosts that do not exist ---- */

static void
tick_forged(struct siege *s)
{
	struct siege_peer from = { .host = SIEGE_FAR + (uint32_t)(s->ticks % 1024),
				   .station = SIEGE_BY_ROUTER,
				   .boot = 0xb007,
				   .server_boot = s->peers[0].server_boot,
				   .on_ip = true };

	siege_send_request(s, &from, (uint32_t)s->ticks, 0, 5, ++s->ids, SIEGE_LONG);
}

/* ---- 4: tables ---- */

/* Takes as many channels as a client may have, with each of the HELD hosts. */
static void
tick_channels(struct siege *s)
{
	for (unsigned i = 0; i < (s->data[CHANNEL] < HELD * channels_each() ? 16 : 1); i++)
		call_of_next(s, 16);
}

/* Hosts that answer, but never call. */
static void
tick_answering(struct siege *s)
{
	for (unsigned i = 0; i < 4; i++)
		if (s->peer_count < ANSWERING + 2)
			introduce(s, SIEGE_FAR + s->peer_count, SIEGE_BY_ROUTER);
		else
			siege_introduce(s, &s->peers[(s->ticks * 4 + i) % s->peer_count]);
}

/* ---- 5: repeated replies ---- */

static void
tick_never_acknowledges(struct siege *s)
{
	if (s->ticks % 20 == 0)
		siege_send_request(s, &s->peers[0], (uint32_t)(s->ticks / 20), 0, 5, ++s->ids, SIEGE_LONG);
	siege_send_chan(s, &s->peers[0], (uint32_t)(s->ticks / 20), SIEGE_FROM_CLIENT | SIEGE_NEGATIVE_ACK, 5);
}

/* ---- 6: a boot that comes back ---- */

static void
tick_boots(struct siege *s)
{
	struct siege_peer *peer = &s->peers[0];

	peer->boot = s->ticks / 100 % 2 == 0 ? 0xa : 0xb;
	if (s->ticks % 100 == 0)
		siege_introduce(s, peer);
	if (s->ticks % 100 >= 10 && peer->boot == 0xa)
		siege_send_request(s, peer, 1, 0, 5, 1, 16);
}

/* ---- the client beside the attacks ---- */

struct attack {
	void (*begin)(struct siege *s);
	void (*tick)(struct siege *s);
	void (*receive)(struct siege *s, const struct siege_frame *f);
	uint64_t every_ns;
	unsigned variant;
	uint64_t works_us;
};

static void
boot_client(void *context)
{
	struct siege *s = context;

	CHECK_EQ(xk_sim_boot(s->client), 0);
}

static void
check_calls(struct siege *s, bool is_lossy)
{
	struct siege_party *party = (struct siege_party *)xk_kernel_find(xk_sim_kernel(s->client), "party");

	printf("\n    %u short calls, worst %.3f ms; %u long ones, worst %.3f ms ", s->calls[0],
	       (double)s->worst_ns[0] / (double)SIEGE_MS, s->calls[1], (double)s->worst_ns[1] / (double)SIEGE_MS);
	if (s->failed != 0)
		fprintf(stderr, "\n%u calls failed, the last with error %u\n", s->failed, s->last_error);
	CHECK_EQ(s->failed, 0);
	CHECK_EQ(s->forged, 0);
	CHECK_EQ(s->wrongly_run, 0);
	CHECK_EQ(s->data[STOLEN], 0);
	CHECK(is_lossy || (s->worst_ns[0] < SIEGE_S && s->worst_ns[1] < SIEGE_S));
	CHECK(s->calls[0] > 250 && s->calls[1] > 50);
	for (unsigned i = 0; i < SIEGE_USERS; i++)
		CHECK(party->users[i].ended);
}

/* Boots the client client_ns after the attack begins; it calls for CALLING. The link loses `loss` of 1,000 frames. */
static void
try_with(const struct attack *attack, uint64_t client_ns, unsigned loss)
{
	struct siege *s = siege_new_with(loss, 0, settings());

	s->ids = 2;
	s->variant = attack->variant;
	s->receive = attack->receive;
	s->works_us = attack->works_us;
	attack->begin(s);
	siege_attack(s, NULL, attack->every_ns, 0);
	siege_run(s, SIEGE_S);
	siege_attack(s, attack->tick, attack->every_ns, client_ns + CALLING);
	REQUIRE(xk_sim_at(s->sim, xk_sim_now_ns(s->sim) + client_ns, boot_client, s) == 0);
	siege_run(s, client_ns + CALLING);
	s->stops = true;
	s->every_ns = 10 * SIEGE_MS; /* from now on the enemy only answers */
	siege_run(s, 11 * SIEGE_S);  /* longer than a call's deadline */
	check_calls(s, loss > 0);
	siege_free(s);
}

static void
try_early(const struct attack *attack)
{
	try_with(attack, 0, 10);
}

static void
try_at_height(const struct attack *attack)
{
	try_with(attack, 2 * SIEGE_S, 0);
}

static void
try_beside(const struct attack *attack)
{
	try_early(attack);
	try_at_height(attack);
}

/* Tries two variants: with --long each at both times. */
static void
try_variants(struct attack *attack)
{
	if (test_is_long())
		try_beside(attack);
	else
		try_early(attack);
	attack->variant = 1;
	if (test_is_long())
		try_beside(attack);
	else
		try_at_height(attack);
}

TEST_OF(calls_beside_nothing,
	try_beside(&(struct attack){ .begin = begin_nothing, .tick = tick_nothing, .every_ns = SIEGE_MS }));
TEST_OF(calls_beside_nacks,
	try_beside(&(struct attack){ .begin = begin_nacks, .tick = tick_nacks, .every_ns = SIEGE_MS / 2 }));
TEST_OF(calls_beside_fragments_of_strangers,
	try_beside(&(struct attack){ .begin = begin_nothing, .tick = tick_fragments, .every_ns = SIEGE_MS / 2 }));
TEST_OF(calls_beside_forged_calls_and_nacks_over_ip, try_beside(&(struct attack){ .begin = begin_nothing,
										  .tick = tick_by_ip,
										  .receive = learn_client,
										  .every_ns = SIEGE_MS,
										  .variant = 1 }));
TEST_OF(calls_beside_forged_calls_from_other_stations, try_beside(&(struct attack){ .begin = begin_nothing,
										    .tick = tick_by_link,
										    .receive = learn_client,
										    .every_ns = SIEGE_MS,
										    .works_us = 500 }));
TEST_OF(calls_beside_announcements_of_false_boots,
	try_beside(&(struct attack){
		.begin = begin_nothing, .tick = tick_false_boots, .receive = learn_client, .every_ns = SIEGE_MS }));
TEST_OF(calls_beside_unacknowledged_long_replies,
	try_beside(&(struct attack){ .begin = begin_three, .tick = tick_long_replies, .every_ns = 5 * SIEGE_MS }));
TEST_OF(calls_beside_long_replies_to_many_addresses_of_one_machine,
	try_variants(&(struct attack){ .begin = begin_held, .tick = tick_many_long_replies, .every_ns = SIEGE_MS }));
TEST_OF(calls_beside_long_replies_to_many_networks,
	try_variants(&(struct attack){ .begin = begin_far, .tick = tick_many_long_replies, .every_ns = SIEGE_MS }));
TEST_OF(calls_beside_requests_from_nonexistent_hosts,
	try_beside(&(struct attack){ .begin = begin_nothing, .tick = tick_forged, .every_ns = SIEGE_MS / 4 }));
TEST_OF(calls_beside_a_machine_that_takes_all_channels,
	try_beside(&(struct attack){ .begin = begin_held, .tick = tick_channels, .every_ns = SIEGE_MS / 4 }));
TEST_OF(calls_beside_networks_that_take_all_channels,
	try_beside(&(struct attack){ .begin = begin_far, .tick = tick_channels, .every_ns = SIEGE_MS / 4 }));
TEST_OF(calls_beside_thousands_of_hosts_that_answer,
	try_beside(&(struct attack){ .begin = begin_nothing, .tick = tick_answering, .every_ns = SIEGE_MS }));
TEST_OF(calls_beside_repeated_replies,
	try_beside(&(struct attack){ .begin = begin_nothing, .tick = tick_never_acknowledges, .every_ns = SIEGE_MS }));
TEST_OF(calls_beside_a_boot_that_returns,
	try_beside(&(struct attack){ .begin = begin_nothing, .tick = tick_boots, .every_ns = SIEGE_MS }));
