/*
 * siege_enemy.h - the attacks of one confirmed host: frames for each protocol in turn, or for all at once. Above
 * siege.h, for the simulator (test_siege.c) and for a real link (tests/system/siege.c).
 */
#ifndef TESTS_SIEGE_ENEMY_H
#define TESTS_SIEGE_ENEMY_H

#include "protocols/tcp/tcp_private.h"
#include "protocols/test/tcptest.h"
#include "protocols/test/traffic.h"
#include "protocols/test/udptest.h"
#include "tests/protocols/siege.h"
#include "xkernel/support/ports.h"

enum {
	ENEMY_LONGEST = 1400, /* bytes of payload */
	ENEMY_BEGIN =
		40 * 43 - 1 /* the frame before the one that begins a message in every attack that splits messages */
};

struct siege_enemy {
	struct siege *s;
	struct siege_peer *peer;  /* the host that the enemy plays */
	uint64_t n;               /* frames sent so far */
	uint64_t cookie, session; /* AM's */
	uint16_t tcp_port;        /* of the enemy's TCP connection; 0: none */
	uint32_t tcp_seen;        /* what it acknowledges */
	bool tcp_has_asked;       /* has sent tcptest's request */
	bool tcp_crowds;          /* asks on every connection, and never again */
};

struct enemy_attack {
	const char *name;
	/* Sends the n-th frame. */
	void (*send)(struct siege_enemy *e, uint32_t n);
	bool keeps; /* the server keeps buffers for the enemy */
};

static inline void
enemy_put_udp(struct siege_frame *f, unsigned source, unsigned destination, size_t len)
{
	uint8_t *p = siege_put(f, 8 + len);

	xk_put16(p, (uint16_t)source);
	xk_put16(p + 2, (uint16_t)destination);
	xk_put16(p + 4, (uint16_t)(8 + len)); /* without a checksum */
}

/* Begins an IP datagram to the server from the enemy, or from `host` beside it. */
static inline void
enemy_begin_ip(struct siege_frame *f, uint32_t host, unsigned protocol)
{
	siege_frame_begin(f, SIEGE_LINK + 1, 0, SIEGE_IP);
	siege_put_ip(f, host, SIEGE_SERVER, protocol);
}

static inline void
enemy_nothing(struct siege_enemy *e, uint32_t n)
{
	(void)e;
	(void)n;
}

/* ARP: always new neighbours, which ask for the server and claim to have moved. */
static inline void
enemy_arp(struct siege_enemy *e, uint32_t n)
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
	siege_send(e->s, &f);
}

/* ICMP: long echoes, many of them as endless fragments. */
static inline void
enemy_icmp(struct siege_enemy *e, uint32_t n)
{
	struct siege_frame f;
	uint8_t *p;

	enemy_begin_ip(&f, e->peer->host, SIEGE_IP_ICMP);
	if (n % 2 == 0)
		xk_put16(f.bytes + SIEGE_ETH_LEN + 6, 0x2000);
	xk_put16(f.bytes + SIEGE_ETH_LEN + 4, (uint16_t)n);
	p = siege_put(&f, ENEMY_LONGEST);
	p[0] = 8;
	xk_put32(p + 4, n);
	xk_checksum_store(p + 2, xk_checksum_finish(xk_sum(0, p, ENEMY_LONGEST)));
	siege_send(e->s, &f);
}

/* IP: the first eight bytes of always new datagrams, for existing protocols. */
static inline void
enemy_ip(struct siege_enemy *e, uint32_t n)
{
	static const uint8_t protocols[] = { SIEGE_IP_UDP, SIEGE_IP_ICMP, 253, SIEGE_IP_BLAST };
	struct siege_frame f;

	enemy_begin_ip(&f, n % 4 == 0 ? SIEGE_FAR + n : e->peer->host, protocols[n / 4 % 4]);
	xk_put16(f.bytes + SIEGE_ETH_LEN + 4, (uint16_t)(n / 16));
	xk_put16(f.bytes + SIEGE_ETH_LEN + 6, (uint16_t)(0x2000 | n % 16 * 2));
	siege_put(&f, 8);
	siege_send(e->s, &f);
}

/* UDP: long echoes to always new ports, and to unused ports. */
static inline void
enemy_udp(struct siege_enemy *e, uint32_t n)
{
	struct siege_frame f;

	enemy_begin_ip(&f, e->peer->host, SIEGE_IP_UDP);
	enemy_put_udp(&f, n & 0xffff, n % 4 == 0 ? n % 2001 : XK_UDPTEST_PORT, ENEMY_LONGEST);
	siege_send(e->s, &f);
}

static inline void
enemy_traffic(struct siege_enemy *e, uint32_t n)
{
	struct siege_frame f;

	enemy_begin_ip(&f, e->peer->host, SIEGE_IP_UDP);
	enemy_put_udp(&f, n & 0xffff, XK_TRAFFIC_PORT, 40 + n % ENEMY_LONGEST);
	for (size_t i = 42; i < f.len; i += 4)
		f.bytes[i] = (uint8_t)(n >> i % 16);
	siege_send(e->s, &f);
}

/* BLAST: always new messages of 64 fragments, each with only one sent. */
static inline void
enemy_blast(struct siege_enemy *e, uint32_t n)
{
	struct siege_frame f;

	siege_from(&f, e->peer, SIEGE_BLAST);
	siege_put_blast(&f, n / 16 + 1, 1000, 64, SIEGE_SEND, UINT64_C(1) << n % 16);
	siege_put(&f, 1000);
	siege_send(e->s, &f);
}

static inline void
enemy_bid(struct siege_enemy *e, uint32_t n)
{
	struct siege_peer other = *e->peer;
	struct siege_frame f;

	other.boot += n % 3 == 0 ? n : 0;
	siege_from(&f, &other, SIEGE_BID);
	siege_put_bid(&f, &other);
	xk_put32(f.bytes + f.len - SIEGE_BID_LEN, n % 4 == 0 ? n : SIEGE_CHAN);
	siege_put(&f, n % ENEMY_LONGEST);
	siege_send(e->s, &f);
}

static inline void
enemy_bidctl(struct siege_enemy *e, uint32_t n)
{
	struct siege_peer other = *e->peer;

	other.boot += n % 2 == 0 ? n : 0;
	if (n % 4 == 3)
		siege_send_bidctl(e->s, &other, SIEGE_SERVER, SIEGE_RESPONSE, e->peer->server_boot, 0, n);
	else
		siege_send_bidctl(e->s, &other, SIEGE_SERVER, SIEGE_QUERY, 0, n, 0);
}

/* CHAN: long calls on always new channels; their longer replies are never acknowledged. */
static inline void
enemy_chan(struct siege_enemy *e, uint32_t n)
{
	struct siege_frame f;
	uint8_t *p;

	siege_from(&f, e->peer, SIEGE_BID);
	siege_put_bid(&f, e->peer);
	siege_put_chan(&f, n / 2, SIEGE_FROM_CLIENT | SIEGE_USER_MSG | (n % 2 == 0 ? 0 : SIEGE_ACK_REQUESTED), 5,
		       ENEMY_LONGEST);
	p = siege_put(&f, ENEMY_LONGEST);
	memcpy(p, (const uint64_t[]){ 1, 30000 }, 16); /* the layout that struct siege_party reads */
	siege_send(e->s, &f);
}

/* SELECT: the same for procedures, some of them unknown. */
static inline void
enemy_select(struct siege_enemy *e, uint32_t n)
{
	struct siege_frame f;
	uint8_t *p;

	siege_from(&f, e->peer, SIEGE_BID);
	siege_put_bid(&f, e->peer);
	siege_put_chan(&f, n, SIEGE_FROM_CLIENT | SIEGE_USER_MSG, 5, 24);
	xk_put32(f.bytes + f.len - 12, SIEGE_SELECT); /* instead of the party's number */
	p = siege_put(&f, 24);
	xk_put32(p, n % 8 == 0 ? n : SIEGE_PROCEDURE);
	memset(p + 8, 0, 16);
	siege_send(e->s, &f);
}

static inline void
enemy_put_gm(struct siege_enemy *e, unsigned port, uint32_t total, uint32_t offset, size_t len, uint64_t begin,
	     uint64_t previous)
{
	struct siege_frame f;
	uint8_t *p;

	siege_from(&f, e->peer, SIEGE_BID);
	siege_put_bid(&f, e->peer);
	xk_put32(f.bytes + f.len - SIEGE_BID_LEN, 208);
	p = siege_put(&f, 40 + len);
	xk_put16(p, (uint16_t)port);
	xk_put16(p + 2, XK_UDPTEST_PORT);
	xk_put16(p + 4, 1);
	xk_put16(p + 6, (uint16_t)len);
	xk_put32(p + 8, total);
	xk_put32(p + 12, offset);
	xk_put64(p + 16, begin);
	xk_put64(p + 24, e->n);
	xk_put64(p + 32, previous);
	siege_send(e->s, &f);
}

/* GM: messages without their ends; from other ports, fragments of one byte. */
static inline void
enemy_gm_pieces(struct siege_enemy *e, uint32_t n)
{
	uint32_t i = n % 40, len = n / 40 % 2 == 0 ? ENEMY_LONGEST : 1;

	enemy_put_gm(e, 1 + n / 40 % 16000, 60000, i * len, len, e->n - i, i == 0 ? 0 : e->n - 1);
}

/* ... whose echoes are never acknowledged. */
static inline void
enemy_gm_echoes(struct siege_enemy *e, uint32_t n)
{
	enemy_put_gm(e, 1 + n % 16000, ENEMY_LONGEST, 0, ENEMY_LONGEST, e->n, 0);
}

/* ... of several fragments. */
static inline void
enemy_gm_long_echoes(struct siege_enemy *e, uint32_t n)
{
	uint32_t i = n % 43, len = i < 42 ? ENEMY_LONGEST : 60000 - 42 * ENEMY_LONGEST;

	enemy_put_gm(e, 1 + n / 43 % 16000, 60000, i * ENEMY_LONGEST, len, e->n - i, i == 0 ? 0 : e->n - 1);
}

static inline void
enemy_put_am(struct siege_enemy *e, unsigned kind, unsigned handler, uint32_t sequence, uint64_t to, const void *bytes,
	     size_t len)
{
	struct siege_frame f;
	uint8_t *p;

	siege_from(&f, e->peer, SIEGE_AM);
	p = siege_put(&f, 32 + len);
	p[0] = (uint8_t)kind;
	xk_put16(p + 2, (uint16_t)handler);
	xk_put32(p + 4, sequence);
	xk_put32(p + 8, 1);
	xk_put32(p + 12, (uint32_t)len);
	xk_put64(p + 16, to);
	xk_put64(p + 24, UINT64_C(0xe0000000) + e->n / 1000);
	memcpy(p + 32, bytes, len);
	siege_send(e->s, &f);
}

/* AM: sessions with valid cookies, and requests for long replies that are never acknowledged. */
static inline void
enemy_am(struct siege_enemy *e, uint32_t n)
{
	const uint8_t call[12] = { 0, 9, 0, 64 };
	const uint32_t len = ENEMY_LONGEST;

	if (n % 1000 == 0)
		e->cookie = e->session = 0;
	if (e->session == 0)
		enemy_put_am(e, 1, SIEGE_ENDPOINT, 0, e->cookie, call, sizeof(call));
	else
		enemy_put_am(e, 4, SIEGE_HANDLER, 1 + n % 1000, e->session, &len, sizeof(len));
}

/* STOPWAIT: calls from always new ends, and data for unknown ends. */
static inline void
enemy_stopwait(struct siege_enemy *e, uint32_t n)
{
	struct siege_frame f;
	uint8_t *p;

	enemy_begin_ip(&f, e->peer->host, 253);
	p = siege_put(&f, 30);
	xk_put16(p, (uint16_t)n);
	xk_put16(p + 2, XK_UDPTEST_PORT);
	xk_put16(p + 4, 30);
	xk_put16(p + 8, n % 4 == 3 ? 3 : 1);
	xk_put64(p + 14, n + 1);
	xk_put64(p + 22, n % 4 == 3 ? n : 0);
	xk_checksum_store(p + 6, xk_checksum_finish(xk_sum(0, p, 30)));
	siege_send(e->s, &f);
}

/* LLP and BIP: long echoes to always new ports. */
static inline void
enemy_ports(struct siege_enemy *e, uint32_t n, unsigned type)
{
	struct siege_peer beside = *e->peer;
	struct siege_frame f;
	uint8_t *p;

	beside.on_ip = false;
	siege_from(&f, &beside, type);
	p = siege_put(&f, ENEMY_LONGEST);
	xk_put16(p, (uint16_t)(n % 65535 + 1));
	xk_put16(p + 2, XK_UDPTEST_PORT);
	if (type == 0x6008)
		xk_put16(p + 4, ENEMY_LONGEST);
	else
		xk_put32(p + 4, ENEMY_LONGEST);
	siege_send(e->s, &f);
}

static inline void
enemy_llp(struct siege_enemy *e, uint32_t n)
{
	enemy_ports(e, n, 0x6008);
}

static inline void
enemy_bip(struct siege_enemy *e, uint32_t n)
{
	enemy_ports(e, n, 0x3008);
}

/* ---- TCP ---- */

enum { ENEMY_TCP_LIFE = 300 /* frames of a connection */ };

/* Begins a segment, with len undefined bytes of options and payload, and returns these. enemy_send_tcp sends it. */
static inline uint8_t *
enemy_begin_tcp(struct siege_frame *f, const struct siege_enemy *e, uint32_t host, uint16_t port, uint32_t sequence,
		unsigned flags, size_t len)
{
	uint8_t *p;

	siege_frame_begin(f, SIEGE_LINK + 1, e->peer->station, SIEGE_IP);
	siege_put_ip(f, host, SIEGE_SERVER, SIEGE_IP_TCP);
	p = siege_put(f, TCP_HEADER_LEN + len);
	xk_put16(p, port);
	xk_put16(p + 2, XK_TCPTEST_PORT);
	xk_put32(p + 4, sequence);
	p[12] = 5 << 4;
	p[13] = (uint8_t)flags;
	xk_put16(p + 14, UINT16_MAX);
	return p + TCP_HEADER_LEN;
}

static inline void
enemy_send_tcp(struct siege_enemy *e, struct siege_frame *f)
{
	uint8_t *ip = f->bytes + SIEGE_ETH_LEN, *p = ip + SIEGE_IP_LEN;
	size_t len = f->len - SIEGE_ETH_LEN - SIEGE_IP_LEN;
	uint64_t sum = xk_sum(0, ip + 12, 8) + xk_sum_of16(SIEGE_IP_TCP) + xk_sum_of16((uint16_t)len);

	xk_checksum_store(p + 16, xk_checksum_finish(sum + xk_sum(0, p, len)));
	siege_send(e->s, f);
}

/* The first number of the enemy's stream on a port. */
static inline uint32_t
enemy_tcp_first(uint16_t port)
{
	return port * UINT32_C(100003);
}

/* Sends tcptest's request on an open connection, and the first bytes of a stream; the window has so many bytes. */
static inline void
enemy_tcp_ask(struct siege_enemy *e, uint16_t port, uint32_t seen, enum xk_tcptest_flow flow, size_t len,
	      unsigned window)
{
	struct siege_frame f;
	uint8_t *p = enemy_begin_tcp(&f, e, e->peer->host, port, enemy_tcp_first(port) + 1, TCP_ACK, 16 + len);

	xk_put32(p - TCP_HEADER_LEN + 8, seen);
	xk_put16(p - TCP_HEADER_LEN + 14, (uint16_t)window);
	xk_put64(p, UINT64_C(1) << 40);
	xk_put32(p + 8, ENEMY_LONGEST);
	xk_put32(p + 12, flow);
	for (size_t i = 0; i < len; i++)
		p[16 + i] = (uint8_t)i; /* of tcptest's pattern */
	enemy_send_tcp(e, &f);
}

/* Opens, from always new ports, a connection for `flow`, with a window of so many bytes. Returns whether it is open. */
static inline bool
enemy_tcp_opens(struct siege_enemy *e, uint32_t n, enum xk_tcptest_flow flow, unsigned window)
{
	struct siege_frame f;

	if (n % ENEMY_TCP_LIFE == 0)
		e->tcp_port = 0;
	if (e->tcp_port == 0) {
		enemy_begin_tcp(&f, e, e->peer->host, (uint16_t)(1 + n % 60000),
				enemy_tcp_first((uint16_t)(1 + n % 60000)), TCP_SYN, 0);
		enemy_send_tcp(e, &f);
		return false;
	}
	if (e->tcp_has_asked)
		return true;
	e->tcp_has_asked = true;
	enemy_tcp_ask(e, e->tcp_port, e->tcp_seen, flow, 0, window);
	return false;
}

/* Sends len bytes on the connection, `offset` bytes behind the request. */
static inline void
enemy_tcp_data(struct siege_enemy *e, uint32_t offset, size_t len, uint32_t acknowledgement, unsigned window,
	       uint8_t byte)
{
	struct siege_frame f;
	uint8_t *p = enemy_begin_tcp(&f, e, e->peer->host, e->tcp_port, enemy_tcp_first(e->tcp_port) + 17 + offset,
				     TCP_ACK, len);

	xk_put32(p - TCP_HEADER_LEN + 8, acknowledgement);
	xk_put16(p - TCP_HEADER_LEN + 14, (uint16_t)window);
	memset(p, byte, len);
	enemy_send_tcp(e, &f);
}

/* SYNs from always new ports, some of always new hosts, which do not exist. */
static inline void
enemy_tcp_syns(struct siege_enemy *e, uint32_t n)
{
	struct siege_frame f;
	uint8_t *p = enemy_begin_tcp(&f, e, n % 2 == 0 ? SIEGE_FAR + n : e->peer->host, (uint16_t)n, n, TCP_SYN, 4);

	p[-TCP_HEADER_LEN + 12] = 6 << 4;
	xk_put32(p, 0x02040000 | 1460);
	enemy_send_tcp(e, &f);
}

/* Options of every length, with SYNs and without. */
static inline void
enemy_tcp_options(struct siege_enemy *e, uint32_t n)
{
	size_t len = n % 11 * 4;
	struct siege_frame f;
	uint8_t *p = enemy_begin_tcp(&f, e, e->peer->host, (uint16_t)n, n, n % 3 == 0 ? TCP_ACK : TCP_SYN, len);

	p[-TCP_HEADER_LEN + 12] = (uint8_t)((5 + n % 11) << 4);
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(n >> i % 13);
	if (len > 1) {
		p[0] = (uint8_t)(n / 11 % 9);
		p[1] = (uint8_t)(n / 99 % 41);
	}
	enemy_send_tcp(e, &f);
}

/* In the name of the honest client, whose numbers the enemy does not know: resets, data, and acknowledgements. */
static inline void
enemy_tcp_off_path(struct siege_enemy *e, uint32_t n)
{
	static const uint8_t flags[] = { TCP_RST, TCP_ACK, TCP_SYN, TCP_RST | TCP_ACK, TCP_ACK | TCP_FIN };
	struct siege_frame f;
	uint8_t *p = enemy_begin_tcp(&f, e, SIEGE_CLIENT, (uint16_t)(XK_PORTS_FIRST + n / 5 % 16),
				     n * UINT32_C(0x9e3779b1), flags[n % 5], n % 2 * 100);

	xk_put32(p - TCP_HEADER_LEN + 8, n * UINT32_C(0x85ebca6b));
	memset(p, 0, n % 2 * 100);
	enemy_send_tcp(e, &f);
}

/* Streams that are asked for and neither read nor acknowledged; half of them with closed windows. */
static inline void
enemy_tcp_deaf(struct siege_enemy *e, uint32_t n)
{
	unsigned window = n / ENEMY_TCP_LIFE % 2 == 0 ? 0 : UINT16_MAX;

	if (enemy_tcp_opens(e, n, XK_TCPTEST_RECEIVE, window))
		enemy_tcp_data(e, 0, 0, e->tcp_seen, window, 0);
}

/* ... on as many connections as the server accepts. */
static inline void
enemy_tcp_crowd(struct siege_enemy *e, uint32_t n)
{
	uint16_t port = (uint16_t)(1 + n % 60000);
	struct siege_frame f;

	e->tcp_crowds = true;
	enemy_begin_tcp(&f, e, e->peer->host, port, enemy_tcp_first(port), TCP_SYN, 0);
	enemy_send_tcp(e, &f);
}

/* Every second byte of a stream, each in a segment. */
static inline void
enemy_tcp_tiny(struct siege_enemy *e, uint32_t n)
{
	if (enemy_tcp_opens(e, n, XK_TCPTEST_SEND, UINT16_MAX))
		enemy_tcp_data(e, 1 + n % ENEMY_TCP_LIFE * 2, 1, e->tcp_seen, UINT16_MAX, 0);
}

/* Bytes behind a gap that overlap and disagree. */
static inline void
enemy_tcp_overlaps(struct siege_enemy *e, uint32_t n)
{
	if (enemy_tcp_opens(e, n, XK_TCPTEST_SEND, UINT16_MAX))
		enemy_tcp_data(e, 1 + n * 7919 % 40000, 1 + n % ENEMY_LONGEST, e->tcp_seen, UINT16_MAX, (uint8_t)n);
}

/* Acknowledgements: repeated, of what was not sent, and of old bytes, with windows that open and close. */
static inline void
enemy_tcp_acks(struct siege_enemy *e, uint32_t n)
{
	static const int32_t beside[] = { 0, 0, 0, 0, 1, 100000, -1, -70000 };

	if (enemy_tcp_opens(e, n, XK_TCPTEST_BOTH, UINT16_MAX))
		enemy_tcp_data(e, 0, 0, e->tcp_seen + (uint32_t)beside[n % 8], n % 3 == 0 ? 0 : UINT16_MAX, 0);
}

static const struct enemy_attack enemy_attacks[] = {
	{ "nothing", enemy_nothing, false },
	{ "arp", enemy_arp, false },
	{ "icmp", enemy_icmp, false },
	{ "ip", enemy_ip, false },
	{ "udp", enemy_udp, false },
	{ "traffic", enemy_traffic, false },
	{ "blast", enemy_blast, true },
	{ "bid", enemy_bid, false },
	{ "bidctl", enemy_bidctl, false },
	{ "chan", enemy_chan, true },
	{ "select", enemy_select, false },
	{ "gm (pieces)", enemy_gm_pieces, true },
	{ "gm (echoes)", enemy_gm_echoes, true },
	{ "gm (long)", enemy_gm_long_echoes, true },
	{ "am", enemy_am, true },
	{ "stopwait", enemy_stopwait, false },
	{ "llp", enemy_llp, false },
	{ "bip", enemy_bip, false },
	{ "tcp (SYNs)", enemy_tcp_syns, false },
	{ "tcp (options)", enemy_tcp_options, false },
	{ "tcp (off path)", enemy_tcp_off_path, false },
	{ "tcp (deaf)", enemy_tcp_deaf, true },
	{ "tcp (crowd)", enemy_tcp_crowd, true },
	{ "tcp (tiny)", enemy_tcp_tiny, true },
	{ "tcp (overlaps)", enemy_tcp_overlaps, true },
	{ "tcp (ACKs)", enemy_tcp_acks, true },
};

static inline void
enemy_all(struct siege_enemy *e, uint32_t n)
{
	enemy_attacks[n % XK_ARRAY_LENGTH(enemy_attacks)].send(e, n / XK_ARRAY_LENGTH(enemy_attacks));
}

static const struct enemy_attack enemy_deaf_attack = { "tcp (deaf)", enemy_tcp_deaf, true };
static const struct enemy_attack enemy_all_attacks = { "all at once", enemy_all, true };

/* Sends the attack's next frame. */
static inline void
enemy_send(struct siege_enemy *e, const struct enemy_attack *attack)
{
	e->n++;
	attack->send(e, (uint32_t)e->n);
}

/* Learns from a frame to the enemy. */
static inline void
enemy_learn(struct siege_enemy *e, const struct siege_frame *f)
{
	size_t at;
	unsigned type = siege_above(f->bytes, f->len, &at);
	const uint8_t *p = f->bytes + at;

	if (f->station != e->peer->station)
		return;
	if (type == SIEGE_IP && f->bytes[SIEGE_ETH_LEN + 9] == SIEGE_IP_TCP && (p[13] & TCP_RST)) {
		e->tcp_port = e->tcp_port == xk_get16(p + 2) ? 0 : e->tcp_port;
	} else if (type == SIEGE_IP && f->bytes[SIEGE_ETH_LEN + 9] == SIEGE_IP_TCP && (p[13] & TCP_SYN) &&
		   xk_get32(p + 8) == enemy_tcp_first(xk_get16(p + 2)) + 1) {
		e->tcp_port = xk_get16(p + 2);
		e->tcp_seen = xk_get32(p + 4) + 1;
		e->tcp_has_asked = e->tcp_crowds;
		if (e->tcp_crowds)
			enemy_tcp_ask(e, e->tcp_port, e->tcp_seen,
				      e->tcp_port % 2 == 0 ? XK_TCPTEST_RECEIVE : XK_TCPTEST_ECHO, 64, UINT16_MAX);
	}
	if (type != SIEGE_AM || f->len < at + 32)
		return;
	if (p[0] == 2)
		e->cookie = xk_get64(p + 24);
	if (p[0] == 3)
		e->session = xk_get64(p + 24);
}

#endif
