/*
 * test_siege.c - one confirmed host attacks each protocol in turn, or sixteen or a thousand attack together. With few
 * buffers, the attacked host must still answer ARP, echoes and an honest client's calls and connections, and count every
 * frame that it does not answer. Attacks on TCP get at most three times the bytes that they take.
 *
 * Prints for each protocol the longest times on the virtual clock, the lowest number of free buffers, and the drops.
 * With XK_TEST_LONG=1 each attack lasts a minute.
 */
#include "tests/protocols/siege_enemy.h"
#include "xkernel/upi.h"

enum {
	BUFFERS = 1024, /* the server's: fewer than any of its protocols would take */
	RESERVE = 32,   /* the part of these that no protocol gets */
	BURST = 8,      /* frames at a time */
	PROBER = 2,     /* the station of an honest neighbour, which sends ARP and echo requests */
	PROBES = 1 << 16,
	REASONS = 256,
	STREAMS = 20, /* connections of the honest client */
	FEW = 16,     /* hosts that attack together, from behind the router ... */
	HOSTS = 1000, /* ... and so many that they could take all buffers, each no more than its share */
};

#define PROBER_HOST (SIEGE_ENEMY + PROBER)
#define EVERY ((test_is_long() ? 400 : 100) * SIEGE_US) /* time between the enemy's bursts */
#define PROBE (5 * SIEGE_MS) /* time between the prober's questions; an unanswered one is repeated */

static const char besides[] =
	"udptest2 [protocol=udptest]; udptest3 [protocol=udptest]; udptest4 [protocol=udptest]; udptest5 "
	"[protocol=udptest];"
	"udptest2 -> gm; gm -> bid; gm -> bidctl; gm [buffers=16]; udptest3 -> stopwait; stopwait -> ip [number=253];"
	"udptest4 -> bip; bip -> vnet; bip [buffers=16]; udptest5 -> llp; llp -> vnet; traffic -> udp;"
	"tcptest -> tcp; tcp -> ip; tcptest [silence=\"10s\"]; tcp [timeout=\"20ms\", timeout_min=\"10ms\", "
	"patience=\"4s\", "
	"keep_alive=\"2s\"]";

enum question { ARP, ECHO, QUESTIONS };

struct siege_of {
	struct siege *s;
	const struct enemy_attack *attack;
	struct siege_enemy enemies[HOSTS];
	unsigned hosts; /* number that attack */
	uint64_t frames;
	uint64_t asked_ns[QUESTIONS]; /* time of the unanswered question; 0: none */
	uint64_t worst_ns[QUESTIONS];
	unsigned asked[QUESTIONS], answered[QUESTIONS], again[QUESTIONS];
	uint16_t sequence; /* the echo's */
	uint64_t probe_ns; /* time of the next questions */
	unsigned most;     /* maximum of buffers in use */
	uint64_t arrived, lost_full, lost_buffer;
	struct xk_tcptest_result streams; /* of the honest client */
	bool has_streamed;
};

/* ---- the prober ---- */

static void
ask_echo(struct siege *s, uint16_t sequence)
{
	struct siege_frame f;
	uint8_t *p;

	siege_frame_begin(&f, SIEGE_LINK + 1, PROBER, SIEGE_IP);
	siege_put_ip(&f, PROBER_HOST, SIEGE_SERVER, SIEGE_IP_ICMP);
	p = siege_put(&f, 64);
	p[0] = 8;
	xk_put16(p + 6, sequence);
	xk_checksum_store(p + 2, xk_checksum_finish(xk_sum(0, p, 64)));
	siege_send(s, &f);
}

static void
probe(struct siege_of *o)
{
	uint64_t now_ns = xk_sim_now_ns(o->s->sim);

	for (unsigned q = 0; q < QUESTIONS; q++) {
		if (o->asked_ns[q] == 0) {
			o->asked[q]++;
			o->asked_ns[q] = now_ns;
			o->sequence += q == ECHO;
		} else {
			o->again[q]++;
		}
		if (q == ARP)
			siege_ask_arp(o->s, PROBER, PROBER_HOST);
		else
			ask_echo(o->s, o->sequence);
	}
}

static void
note_answer(struct siege_of *o, enum question q)
{
	uint64_t took_ns = xk_sim_now_ns(o->s->sim) - o->asked_ns[q];

	if (o->asked_ns[q] == 0)
		return;
	o->worst_ns[q] = took_ns > o->worst_ns[q] ? took_ns : o->worst_ns[q];
	o->answered[q]++;
	o->asked_ns[q] = 0;
}

static struct siege_of *
siege_of(struct siege *s)
{
	return (struct siege_of *)(uintptr_t)s->data[0];
}

static void
receive(struct siege *s, const struct siege_frame *f)
{
	struct siege_of *o = siege_of(s);
	const uint8_t *p = f->bytes + SIEGE_ETH_LEN;
	unsigned type = xk_get16(f->bytes + 12);
	uint32_t far = xk_get32(p + 16) - SIEGE_FAR;

	if (o->hosts > 0)
		enemy_learn(&o->enemies[f->station == SIEGE_BY_ROUTER && far < o->hosts ? far : 0], f);
	if (f->station != PROBER)
		return;
	if (siege_is_arp_answer(f))
		note_answer(o, ARP);
	if (type == SIEGE_IP && p[9] == SIEGE_IP_ICMP && p[SIEGE_IP_LEN] == 0 &&
	    xk_get16(p + SIEGE_IP_LEN + 6) == o->sequence)
		note_answer(o, ECHO);
}

/* ---- a siege ---- */

static void
see(void *context, const struct xk_sim_record *record)
{
	struct siege_of *o = context;
	struct xk_platform *platform = xk_sim_platform(o->s->server);
	unsigned out = platform->ops->buffers_out(platform);

	o->most = out > o->most ? out : o->most;
	if (record->host != o->s->server)
		return;
	o->arrived += record->event == XK_SIM_ARRIVED;
	o->lost_full += record->event == XK_SIM_LOST && strcmp(record->why, "full") == 0;
	o->lost_buffer += record->event == XK_SIM_LOST && strcmp(record->why, "no_buffer") == 0;
}

static void
tick(struct siege *s)
{
	struct siege_of *o = siege_of(s);

	for (unsigned i = 0; i < BURST; i++)
		enemy_send(&o->enemies[o->frames++ % o->hosts], o->attack);
	if (xk_sim_now_ns(s->sim) >= o->probe_ns) {
		probe(o);
		o->probe_ns = xk_sim_now_ns(s->sim) + PROBE;
	}
}

static void
print_drops(struct xk_kernel *kernel)
{
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next)
		for (unsigned i = 1; i < xk_drop_count(p->type); i++) {
			uint64_t count = atomic_load_explicit(&p->drops[i], memory_order_relaxed);

			if (count > 0)
				printf(" %s.%s %llu", p->name, xk_drop_name(p->type, i), (unsigned long long)count);
		}
}

static uint64_t
messages_up(const struct xk_edge *edge)
{
	return atomic_load_explicit(&edge->counts[XK_UP].messages, memory_order_relaxed);
}

/* Checks that a protocol that stores nothing passed up or dropped all messages received. Returns their number. */
static uint64_t
check_layer(struct xk_kernel *kernel, const char *name)
{
	const struct xk_protocol *layer = xk_kernel_find(kernel, name);
	uint64_t came = 0, went = 0;

	for (unsigned i = 0; i < layer->lower_count; i++)
		came += strcmp(layer->lowers[i]->lower->name, "arp") != 0 ? messages_up(layer->lowers[i]) : 0;
	for (unsigned i = 1; i < xk_drop_count(layer->type); i++)
		went += atomic_load_explicit(&layer->drops[i], memory_order_relaxed);
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++)
			went += p->lowers[i]->lower == layer ? messages_up(p->lowers[i]) : 0;
	CHECK_EQ(went, came);
	return came;
}

static void
check_answers(struct siege_of *o)
{
	struct siege *s = o->s;
	struct xk_kernel *kernel = xk_sim_kernel(s->server);
	struct xk_sim_host_counts counts;
	struct xk_platform *platform = xk_sim_platform(s->server);

	printf("\n    %-11s %u host%s, worst of ARP %.3f ms (%u of %u, %u asked again), echoes %.3f ms (%u of %u, %u "
	       "again), %u "
	       "short calls "
	       "%.3f ms, %u long ones %.3f ms; %u of %u buffers free at least; dropped:",
	       o->attack->name, o->hosts, o->hosts == 1 ? "" : "s", (double)o->worst_ns[ARP] / (double)SIEGE_MS,
	       o->answered[ARP], o->asked[ARP], o->again[ARP], (double)o->worst_ns[ECHO] / (double)SIEGE_MS,
	       o->answered[ECHO], o->asked[ECHO], o->again[ECHO], s->calls[0],
	       (double)s->worst_ns[0] / (double)SIEGE_MS, s->calls[1], (double)s->worst_ns[1] / (double)SIEGE_MS,
	       BUFFERS - o->most, BUFFERS);
	print_drops(kernel);
	printf(" device.full %llu\n", (unsigned long long)o->lost_full);
	for (unsigned q = 0; q < QUESTIONS; q++) {
		CHECK_EQ(o->answered[q], o->asked[q]);
		CHECK(o->asked[q] > 5);
	}
	if (s->failed != 0)
		fprintf(stderr, "%s: %u calls failed, the last with error %u\n", o->attack->name, s->failed,
			s->last_error);
	/* A thousand hosts' replies fill the link, and may leave no buffers for a long reply. */
	CHECK(s->failed <= (o->hosts == 1 ? 0 : s->calls[1] / 4));
	CHECK_EQ(s->forged, 0);
	CHECK(s->calls[0] > 10 && s->calls[1] > 3);
	CHECK(BUFFERS - o->most >= RESERVE / 2);
	xk_sim_host_counts(s->server, &counts);
	CHECK_EQ(counts.frames_in + counts.no_buffer, o->arrived);
	CHECK_EQ(counts.no_buffer, o->lost_buffer);
	CHECK_EQ((uint64_t)siege_counter(s, "port", "no_buffer"), counts.no_buffer);
	CHECK_EQ(counts.full, o->lost_full);
	CHECK_EQ(check_layer(kernel, "eth"), counts.frames_in);
	CHECK(platform->ops->buffers_out(platform) < BUFFERS / 2);
}

/* No host gets more than three times what it has sent, whether or not it exists. */
static void
check_amplification(const struct siege *s)
{
	for (unsigned i = 0; i < SIEGE_HOSTS; i++)
		if (s->flows[i].host != 0 && s->flows[i].host != SIEGE_CLIENT &&
		    s->flows[i].out > SIEGE_TIMES * s->flows[i].in)
			CHECK_EQ(s->flows[i].out, SIEGE_TIMES * s->flows[i].in);
}

/* ---- the honest client's connections ---- */

static void
streams_finished(void *argument, const struct xk_tcptest_result *result)
{
	struct siege_of *o = argument;

	o->streams = *result;
	o->has_streamed = true;
}

/* Begins connections one after another, each with a message and its echo. */
static void
begin_streams(struct siege_of *o)
{
	struct xk_tcptest_run run = { .host = SIEGE_SERVER,
				      .flow = XK_TCPTEST_ECHO,
				      .is_short = true,
				      .size = 3000,
				      .connections = 2,
				      .rounds = STREAMS,
				      .finished = streams_finished,
				      .argument = o };

	CHECK_EQ(xk_tcptest_start(xk_kernel_find(xk_sim_kernel(o->s->client), "tcptest"), &run), 0);
}

static void
stand(const struct enemy_attack *attack, unsigned hosts)
{
	struct siege *s = siege_new_with(0, BUFFERS, besides);
	struct siege_of o = { .s = s, .attack = attack, .hosts = hosts };
	uint64_t lasts_ns = test_is_long() ? 60 * SIEGE_S : SIEGE_S / 4;

	s->data[0] = (uint64_t)(uintptr_t)&o;
	s->ids = 2;
	s->receive = receive;
	xk_sim_watch(s->sim, see, &o);
	xk_kernel_count_edges(xk_sim_kernel(s->server), true);
	siege_attack(s, NULL, EVERY, 0);
	for (unsigned i = 0; i < hosts; i++) {
		struct siege_peer *peer = hosts == 1 ? siege_play(s, SIEGE_ENEMY, 0, 0xe000)
						     : siege_play(s, SIEGE_FAR + i, SIEGE_BY_ROUTER, 0xe000 + i);

		o.enemies[i] = (struct siege_enemy){ .s = s, .peer = peer, .n = ENEMY_BEGIN };
		siege_introduce(s, peer);
		siege_run(s, SIEGE_MS);
	}
	siege_run(s, SIEGE_S / 10);
	for (unsigned i = 0; i < hosts; i++)
		REQUIRE(o.enemies[i].peer->server_boot != 0);
	siege_attack(s, tick, EVERY, lasts_ns);
	CHECK_EQ(xk_sim_boot(s->client), 0);
	/* a few hosts have what they can get by then */
	siege_run(s, hosts <= FEW ? lasts_ns / 2 : 0);
	begin_streams(&o);
	siege_run(s, hosts <= FEW ? lasts_ns / 2 : lasts_ns);
	CHECK(hosts > FEW || o.has_streamed); /* while the attack lasts */
	s->stops = true;
	s->every_ns = PROBE; /* from now on the enemy only answers */
	siege_run(s, SIEGE_S);
	for (unsigned i = 0; i < 100 && (o.asked_ns[ARP] != 0 || o.asked_ns[ECHO] != 0); i++) {
		probe(&o);
		siege_run(s, PROBE);
	}
	siege_run(s, 11 * SIEGE_S); /* longer than a call's deadline */
	check_answers(&o);
	printf("    %llu of %u connections served, %llu failed\n", (unsigned long long)o.streams.rounds, STREAMS,
	       (unsigned long long)o.streams.failed);
	CHECK(o.has_streamed);
	CHECK_EQ(o.streams.error, 0);
	CHECK_EQ(o.streams.rounds, STREAMS);
	if (strncmp(attack->name, "tcp", 3) == 0)
		check_amplification(s);
	siege_free(s);
}

TEST(host_survives_an_attack_on_each_protocol)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(enemy_attacks); i++)
		stand(&enemy_attacks[i], 1);
}

TEST_OF(host_survives_an_attack_on_all_protocols, stand(&enemy_all_attacks, 1));

/* Each of them leaves half of what the others have left: almost nothing. */
TEST_OF(host_serves_others_beside_deaf_hosts, stand(&enemy_deaf_attack, FEW));

TEST(host_survives_an_attack_by_a_thousand_hosts)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(enemy_attacks); i++)
		if (enemy_attacks[i].keeps || test_is_long())
			stand(&enemy_attacks[i], HOSTS);
	stand(&enemy_all_attacks, HOSTS);
}

/* If all buffers are taken, the port counts each frame that it cannot receive, and receives again afterwards. */
TEST_WITH(port_counts_frames_without_a_buffer, struct siege *s, siege_new_with(0, BUFFERS, besides), siege_free)
{
	struct siege_of o = { .s = s, .attack = &enemy_attacks[0] };
	struct xk_platform *platform = xk_sim_platform(s->server);
	struct xk_msg *taken = NULL, *m;

	s->data[0] = (uint64_t)(uintptr_t)&o;
	s->receive = receive;
	siege_attack(s, NULL, EVERY, 0);
	siege_run(s, SIEGE_S / 10);
	while ((m = xk_memory_frame(platform, 1)) != NULL) {
		m->link = taken;
		taken = m;
	}
	for (unsigned i = 0; i < 10; i++) {
		siege_ask_arp(s, PROBER, PROBER_HOST);
		siege_run(s, SIEGE_MS);
	}
	CHECK_EQ(siege_counter(s, "port", "no_buffer"), 10);
	while ((m = taken) != NULL) {
		taken = m->link;
		xk_msg_free(m);
	}
	probe(&o);
	siege_run(s, 10 * SIEGE_MS);
	CHECK_EQ(o.answered[ARP], 1);
	CHECK_EQ(o.answered[ECHO], 1);
	CHECK_EQ(siege_counter(s, "port", "no_buffer"), 10);
}
