/*
 * test_siege.c - one confirmed host attacks each protocol in turn: with few buffers, the attacked host still answers
 * ARP, echoes and an honest client's calls, and counts every frame that it does not answer.
 *
 * Prints for each protocol the longest times on the virtual clock, the lowest number of free buffers, and the drops.
 * With XK_TEST_LONG=1 each attack lasts a minute.
 */
#include "protocols/test/traffic.h"
#include "protocols/test/udptest.h"
#include "tests/protocols/siege.h"
#include "xkernel/upi.h"

enum {
	BUFFERS = 1024, /* of the server: fewer than any of its protocols would take */
	RESERVE = 32,   /* of these, the part that no protocol gets */
	BURST = 8,      /* frames at a time */
	PROBER = 2,     /* the station of an honest neighbour, which asks by ARP and for echoes */
	PROBES = 1 << 16,
	LONGEST = 1400, /* bytes of a frame's payload */
	REASONS = 256,
};

#define PROBER_HOST (SIEGE_ENEMY + PROBER)
#define EVERY ((test_is_long() ? 400 : 100) * SIEGE_US) /* between the enemy's bursts */
#define PROBE (5 * SIEGE_MS) /* between the prober's questions; it asks again for one without an answer */

static const char besides[] =
	"udptest2 [protocol=udptest]; udptest3 [protocol=udptest]; udptest4 [protocol=udptest]; udptest5 "
	"[protocol=udptest];"
	"udptest2 -> gm; gm -> bid; gm -> bidctl; gm [buffers=16]; udptest3 -> stopwait; stopwait -> ip [number=253];"
	"udptest4 -> bip; bip -> vnet; bip [buffers=16]; udptest5 -> llp; llp -> vnet; traffic -> udp";

enum question { ARP, ECHO, QUESTIONS };

struct siege_of {
	struct siege *s;
	const struct attack *attack;
	struct siege_peer *enemy;
	uint64_t asked_ns[QUESTIONS]; /* the question without an answer; 0: none */
	uint64_t worst_ns[QUESTIONS];
	unsigned asked[QUESTIONS], answered[QUESTIONS], again[QUESTIONS];
	uint16_t sequence; /* of the echo */
	uint64_t probe_ns; /* of the next questions */
	uint64_t n;        /* the enemy's frames */
	unsigned most;     /* buffers in use */
	uint64_t arrived, lost_full, lost_buffer;
	/* am */
	uint64_t cookie, session;
};

struct attack {
	const char *name;
	/* Sends one frame, the n-th. */
	void (*send)(struct siege_of *o, uint32_t n);
};

/* ---- the enemy's frames ---- */

static void
put_udp(struct siege_frame *f, unsigned source, unsigned destination, size_t len)
{
	uint8_t *p = siege_put(f, 8 + len);

	xk_put16(p, (uint16_t)source);
	xk_put16(p + 2, (uint16_t)destination);
	xk_put16(p + 4, (uint16_t)(8 + len)); /* without a checksum */
}

/* Begins an IP datagram of the enemy's, or of `host` beside it, to the server. */
static void
begin_ip(struct siege_frame *f, uint32_t host, unsigned protocol)
{
	siege_frame_begin(f, SIEGE_LINK + 1, 0, SIEGE_IP);
	siege_put_ip(f, host, SIEGE_SERVER, protocol);
}

static void
send_nothing(struct siege_of *o, uint32_t n)
{
	(void)o;
	(void)n;
}

/* ARP: ever new neighbours, which ask for the server and claim to have moved. */
static void
send_arp(struct siege_of *o, uint32_t n)
{
	struct siege_frame f;
	uint8_t *p;

	siege_frame_begin(&f, n % 2 == 0 ? SIEGE_LINK + 1 : UINT64_C(0xffffffffffff), 0, SIEGE_ARP);
	p = siege_put(&f, 28);
	xk_put32(p, 0x00010800);
	xk_put32(p + 4, 0x06040001 + n % 2);
	xk_put48(p + 8, SIEGE_LINK + 0xa0);
	xk_put32(p + 14, 0x0a4d0020 + n % 200);
	xk_put32(p + 24, SIEGE_SERVER);
	siege_send(o->s, &f);
}

/* ICMP: long echoes, many of them as endless fragments. */
static void
send_icmp(struct siege_of *o, uint32_t n)
{
	struct siege_frame f;
	uint8_t *p;

	begin_ip(&f, o->enemy->host, SIEGE_IP_ICMP);
	if (n % 2 == 0)
		xk_put16(f.bytes + SIEGE_ETH_LEN + 6, 0x2000);
	xk_put16(f.bytes + SIEGE_ETH_LEN + 4, (uint16_t)n);
	p = siege_put(&f, LONGEST);
	p[0] = 8;
	xk_put32(p + 4, n);
	xk_checksum_store(p + 2, xk_checksum_finish(xk_sum(0, p, LONGEST)));
	siege_send(o->s, &f);
}

/* IP: the first eight bytes of ever new datagrams, for existing protocols. */
static void
send_ip(struct siege_of *o, uint32_t n)
{
	static const uint8_t protocols[] = { SIEGE_IP_UDP, SIEGE_IP_ICMP, 253, SIEGE_IP_BLAST };
	struct siege_frame f;

	begin_ip(&f, n % 4 == 0 ? SIEGE_FAR + n : o->enemy->host, protocols[n / 4 % 4]);
	xk_put16(f.bytes + SIEGE_ETH_LEN + 4, (uint16_t)(n / 16));
	xk_put16(f.bytes + SIEGE_ETH_LEN + 6, (uint16_t)(0x2000 | n % 16 * 2));
	siege_put(&f, 8);
	siege_send(o->s, &f);
}

/* UDP: long echoes to ever new ports, and to unused ports. */
static void
send_udp(struct siege_of *o, uint32_t n)
{
	struct siege_frame f;

	begin_ip(&f, o->enemy->host, SIEGE_IP_UDP);
	put_udp(&f, n & 0xffff, n % 4 == 0 ? n % 2001 : XK_UDPTEST_PORT, LONGEST);
	siege_send(o->s, &f);
}

static void
send_traffic(struct siege_of *o, uint32_t n)
{
	struct siege_frame f;

	begin_ip(&f, o->enemy->host, SIEGE_IP_UDP);
	put_udp(&f, n & 0xffff, XK_TRAFFIC_PORT, 40 + n % LONGEST);
	for (size_t i = 42; i < f.len; i += 4)
		f.bytes[i] = (uint8_t)(n >> i % 16);
	siege_send(o->s, &f);
}

/* BLAST: ever new messages of 64 fragments, only one of which is sent. */
static void
send_blast(struct siege_of *o, uint32_t n)
{
	struct siege_frame f;

	siege_from(&f, o->enemy, SIEGE_BLAST);
	siege_put_blast(&f, n / 16 + 1, 1000, 64, SIEGE_SEND, UINT64_C(1) << n % 16);
	siege_put(&f, 1000);
	siege_send(o->s, &f);
}

static void
send_bid(struct siege_of *o, uint32_t n)
{
	struct siege_peer other = *o->enemy;
	struct siege_frame f;

	other.boot += n % 3 == 0 ? n : 0;
	siege_from(&f, &other, SIEGE_BID);
	siege_put_bid(&f, &other);
	xk_put32(f.bytes + SIEGE_ETH_LEN, n % 4 == 0 ? n : SIEGE_CHAN);
	siege_put(&f, n % LONGEST);
	siege_send(o->s, &f);
}

static void
send_bidctl(struct siege_of *o, uint32_t n)
{
	struct siege_peer other = *o->enemy;

	other.boot += n % 2 == 0 ? n : 0;
	if (n % 4 == 3)
		siege_send_bidctl(o->s, &other, SIEGE_SERVER, SIEGE_RESPONSE, o->enemy->server_boot, 0, n);
	else
		siege_send_bidctl(o->s, &other, SIEGE_SERVER, SIEGE_QUERY, 0, n, 0);
}

/* CHAN: calls on ever new channels, whose long replies are never acknowledged. */
static void
send_chan(struct siege_of *o, uint32_t n)
{
	siege_send_request(o->s, o->enemy, n / 2, n % 2 == 0 ? 0 : SIEGE_ACK_REQUESTED, 5, 1, 30000);
}

/* SELECT: the same for procedures, some of which do not exist. */
static void
send_select(struct siege_of *o, uint32_t n)
{
	struct siege_frame f;
	uint8_t *p;

	siege_from(&f, o->enemy, SIEGE_BID);
	siege_put_bid(&f, o->enemy);
	siege_put_chan(&f, n, SIEGE_FROM_CLIENT | SIEGE_USER_MSG, 5, 24);
	xk_put32(f.bytes + f.len - 12, SIEGE_SELECT); /* instead of the party's number */
	p = siege_put(&f, 24);
	xk_put32(p, n % 8 == 0 ? n : SIEGE_PROCEDURE);
	memset(p + 8, 0, 16);
	siege_send(o->s, &f);
}

static void
put_gm(struct siege_of *o, unsigned port, uint32_t total, uint32_t offset, size_t len, uint64_t begin,
       uint64_t previous)
{
	struct siege_frame f;
	uint8_t *p;

	siege_from(&f, o->enemy, SIEGE_BID);
	siege_put_bid(&f, o->enemy);
	xk_put32(f.bytes + SIEGE_ETH_LEN, 208);
	p = siege_put(&f, 40 + len);
	xk_put16(p, (uint16_t)port);
	xk_put16(p + 2, XK_UDPTEST_PORT);
	xk_put16(p + 4, 1);
	xk_put16(p + 6, (uint16_t)len);
	xk_put32(p + 8, total);
	xk_put32(p + 12, offset);
	xk_put64(p + 16, begin);
	xk_put64(p + 24, o->n);
	xk_put64(p + 32, previous);
	siege_send(o->s, &f);
}

/* GM: messages without their ends; from other ports, fragments of one byte. */
static void
send_gm_pieces(struct siege_of *o, uint32_t n)
{
	uint32_t i = n % 40, len = n / 40 % 2 == 0 ? LONGEST : 1;

	put_gm(o, 1 + n / 40 % 16000, 60000, i * len, len, o->n - i, i == 0 ? 0 : o->n - 1);
}

/* ... whose echoes are never acknowledged. */
static void
send_gm_echoes(struct siege_of *o, uint32_t n)
{
	put_gm(o, 1 + n % 16000, LONGEST, 0, LONGEST, o->n, 0);
}

static void
put_am(struct siege_of *o, unsigned kind, unsigned handler, uint32_t sequence, uint64_t to, const void *bytes,
       size_t len)
{
	struct siege_frame f;
	uint8_t *p;

	siege_from(&f, o->enemy, SIEGE_AM);
	p = siege_put(&f, 32 + len);
	p[0] = (uint8_t)kind;
	xk_put16(p + 2, (uint16_t)handler);
	xk_put32(p + 4, sequence);
	xk_put32(p + 8, 1);
	xk_put32(p + 12, (uint32_t)len);
	xk_put64(p + 16, to);
	xk_put64(p + 24, UINT64_C(0xe0000000) + o->n / 1000);
	memcpy(p + 32, bytes, len);
	siege_send(o->s, &f);
}

/* AM: sessions, with valid cookies, and requests whose long replies are never acknowledged. */
static void
send_am(struct siege_of *o, uint32_t n)
{
	const uint8_t call[12] = { 0, 9, 0, 64 };
	const uint32_t len = LONGEST;

	if (n % 1000 == 0)
		o->cookie = o->session = 0;
	if (o->session == 0)
		put_am(o, 1, SIEGE_ENDPOINT, 0, o->cookie, call, sizeof(call));
	else
		put_am(o, 4, SIEGE_HANDLER, 1 + n % 1000, o->session, &len, sizeof(len));
}

/* STOPWAIT: calls of ever new ends, and data for no end. */
static void
send_stopwait(struct siege_of *o, uint32_t n)
{
	struct siege_frame f;
	uint8_t *p;

	begin_ip(&f, o->enemy->host, 253);
	p = siege_put(&f, 30);
	xk_put16(p, (uint16_t)n);
	xk_put16(p + 2, XK_UDPTEST_PORT);
	xk_put16(p + 4, 30);
	xk_put16(p + 8, n % 4 == 3 ? 3 : 1);
	xk_put64(p + 14, n + 1);
	xk_put64(p + 22, n % 4 == 3 ? n : 0);
	xk_checksum_store(p + 6, xk_checksum_finish(xk_sum(0, p, 30)));
	siege_send(o->s, &f);
}

/* LLP and BIP: long echoes to ever new ports. */
static void
send_ports(struct siege_of *o, uint32_t n, unsigned type)
{
	struct siege_frame f;
	uint8_t *p;

	siege_from(&f, o->enemy, type);
	p = siege_put(&f, LONGEST);
	xk_put16(p, (uint16_t)(n % 65535 + 1));
	xk_put16(p + 2, XK_UDPTEST_PORT);
	if (type == 0x6008)
		xk_put16(p + 4, LONGEST);
	else
		xk_put32(p + 4, LONGEST);
	siege_send(o->s, &f);
}

static void
send_llp(struct siege_of *o, uint32_t n)
{
	send_ports(o, n, 0x6008);
}

static void
send_bip(struct siege_of *o, uint32_t n)
{
	send_ports(o, n, 0x3008);
}

static const struct attack attacks[] = {
	{ "nothing", send_nothing },
	{ "arp", send_arp },
	{ "icmp", send_icmp },
	{ "ip", send_ip },
	{ "udp", send_udp },
	{ "traffic", send_traffic },
	{ "blast", send_blast },
	{ "bid", send_bid },
	{ "bidctl", send_bidctl },
	{ "chan", send_chan },
	{ "select", send_select },
	{ "gm (pieces)", send_gm_pieces },
	{ "gm (echoes)", send_gm_echoes },
	{ "am", send_am },
	{ "stopwait", send_stopwait },
	{ "llp", send_llp },
	{ "bip", send_bip },
};

static void
send_all(struct siege_of *o, uint32_t n)
{
	attacks[n % XK_ARRAY_LENGTH(attacks)].send(o, n / XK_ARRAY_LENGTH(attacks));
}

static const struct attack all_attacks = { "all at once", send_all };

/* ---- the prober ---- */

static void
ask_arp(struct siege *s)
{
	struct siege_frame f;
	uint8_t *p;

	siege_frame_begin(&f, UINT64_C(0xffffffffffff), PROBER, SIEGE_ARP);
	p = siege_put(&f, 28);
	xk_put32(p, 0x00010800);
	xk_put32(p + 4, 0x06040001);
	xk_put48(p + 8, SIEGE_LINK + 0xa0 + PROBER);
	xk_put32(p + 14, PROBER_HOST);
	xk_put32(p + 24, SIEGE_SERVER);
	siege_send(s, &f);
}

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
			ask_arp(o->s);
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
hear(struct siege *s, const struct siege_frame *f)
{
	struct siege_of *o = siege_of(s);
	const uint8_t *p = f->bytes + SIEGE_ETH_LEN;
	unsigned type = xk_get16(f->bytes + 12);

	if (f->station == 0 && type == SIEGE_AM && p[0] == 2)
		o->cookie = xk_get64(p + 24);
	if (f->station == 0 && type == SIEGE_AM && p[0] == 3)
		o->session = xk_get64(p + 24);
	if (f->station != PROBER)
		return;
	if (type == SIEGE_ARP && xk_get16(p + 6) == 2 && xk_get32(p + 14) == SIEGE_SERVER)
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

	for (unsigned i = 0; i < BURST; i++) {
		o->n++;
		o->attack->send(o, (uint32_t)o->n);
	}
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
	return atomic_load_explicit(&edge->counts[XK_UPWARD].messages, memory_order_relaxed);
}

/* Checks that a protocol that stores nothing passed up or counted as dropped all that came up. Returns the number. */
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
judge(struct siege_of *o)
{
	struct siege *s = o->s;
	struct xk_kernel *kernel = xk_sim_kernel(s->server);
	struct xk_sim_host_counts counts;
	struct xk_platform *platform = xk_sim_platform(s->server);

	printf("\n    %-11s worst of ARP %.3f ms (%u of %u, %u asked again), echoes %.3f ms (%u of %u, %u again), %u "
	       "short calls "
	       "%.3f ms, %u long ones %.3f ms; %u of %u buffers free at least; dropped:",
	       o->attack->name, (double)o->worst_ns[ARP] / (double)SIEGE_MS, o->answered[ARP], o->asked[ARP],
	       o->again[ARP], (double)o->worst_ns[ECHO] / (double)SIEGE_MS, o->answered[ECHO], o->asked[ECHO],
	       o->again[ECHO], s->calls[0], (double)s->worst_ns[0] / (double)SIEGE_MS, s->calls[1],
	       (double)s->worst_ns[1] / (double)SIEGE_MS, BUFFERS - o->most, BUFFERS);
	print_drops(kernel);
	printf(" device.full %llu\n", (unsigned long long)o->lost_full);
	for (unsigned q = 0; q < QUESTIONS; q++) {
		CHECK_EQ(o->answered[q], o->asked[q]);
		CHECK(o->asked[q] > 5);
	}
	if (s->failed != 0)
		fprintf(stderr, "%s: %u calls failed, the last with error %u\n", o->attack->name, s->failed,
			s->last_error);
	CHECK_EQ(s->failed, 0);
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

static void
stand(const struct attack *attack)
{
	struct siege_of o = { .attack = attack };
	uint64_t lasts_ns = test_is_long() ? 60 * SIEGE_S : SIEGE_S / 4;
	struct siege *s = siege_new_with(0, BUFFERS, besides);

	o.s = s;
	s->data[0] = (uint64_t)(uintptr_t)&o;
	s->ids = 2;
	s->hear = hear;
	xk_sim_watch(s->sim, see, &o);
	xk_kernel_count_edges(xk_sim_kernel(s->server), true);
	o.enemy = siege_play(s, SIEGE_ENEMY, 0, 0xe000);
	siege_introduce(s, o.enemy);
	siege_attack(s, NULL, EVERY, 0);
	siege_run(s, SIEGE_S / 10);
	REQUIRE(o.enemy->server_boot != 0);
	siege_attack(s, tick, EVERY, lasts_ns);
	CHECK_EQ(xk_sim_boot(s->client), 0);
	siege_run(s, lasts_ns);
	s->stops = true;
	s->every_ns = PROBE; /* the enemy only answers now */
	siege_run(s, SIEGE_S);
	for (unsigned i = 0; i < 100 && (o.asked_ns[ARP] != 0 || o.asked_ns[ECHO] != 0); i++) {
		probe(&o);
		siege_run(s, PROBE);
	}
	siege_run(s, 11 * SIEGE_S); /* longer than a call's deadline */
	judge(&o);
	siege_free(s);
}

TEST(a_host_answers_whatever_a_confirmed_one_does_to_a_protocol)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(attacks); i++)
		stand(&attacks[i]);
}

TEST(a_host_answers_whatever_a_confirmed_one_does_to_all_protocols)
{
	stand(&all_attacks);
}

/* If all buffers are taken, the port counts each frame that it cannot receive, and receives again afterwards. */
TEST(a_port_counts_what_it_has_no_buffer_for)
{
	struct siege_of o = { .attack = &attacks[0] };
	struct siege *s = siege_new_with(0, BUFFERS, besides);
	struct xk_platform *platform = xk_sim_platform(s->server);
	struct xk_msg *taken = NULL, *m;

	o.s = s;
	s->data[0] = (uint64_t)(uintptr_t)&o;
	s->hear = hear;
	siege_attack(s, NULL, EVERY, 0);
	siege_run(s, SIEGE_S / 10);
	while ((m = xk_memory_frame(platform, 1)) != NULL) {
		m->link = taken;
		taken = m;
	}
	for (unsigned i = 0; i < 10; i++) {
		ask_arp(s);
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
	siege_free(s);
}
