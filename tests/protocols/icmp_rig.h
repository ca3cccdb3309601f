/*
 * icmp_rig.h - rig for tests of ICMP: icmp and udp on IP over a fake link with one network, 10.77.0.0/24, where this
 * host is 10.77.0.1. A fake user stands on each. Frames are IP datagrams.
 */
#ifndef TESTS_ICMP_RIG_H
#define TESTS_ICMP_RIG_H

#include <errno.h>

#include "protocols/ip/ip_private.h"
#include "tests/protocols/ip_datagrams.h"

enum {
	ID = 0x1234,
	PORT = 7,
	FAR_PORT = 0x1000,
	ICMP = HEADER, /* offset of ICMP's header */
	DATA = HEADER + 8,
	DF = 0x4000,
	LONGEST = 65507,
	FRAGMENT = 1480,
};

#define GRAPH "wire:; ip: wire; ip.seed=2; %s icmp: ip; icmp.seed=3; udp: ip; udp.seed=4; user: icmp; user2: udp"

static inline struct rig *
icmp_rig_with(const char *settings)
{
	char graph[400];

	snprintf(graph, sizeof(graph), GRAPH, settings);
	return rig_new_prepared(graph, prepare);
}

static inline struct rig *
icmp_rig(void)
{
	return icmp_rig_with("");
}

static inline long
counter(struct rig *r, const char *name)
{
	return rig_counter_of(r, "icmp", name);
}

/* Stores an ICMP message at p: `word` follows the checksum, data follows `word`. Returns its length. */
static inline size_t
message(uint8_t *p, unsigned type, unsigned code, uint32_t word, const void *data, size_t len)
{
	p[0] = (uint8_t)type;
	p[1] = (uint8_t)code;
	xk_put16(p + 2, 0);
	xk_put32(p + 4, word);
	memcpy(p + 8, data, len);
	xk_checksum_store(p + 2, xk_checksum_finish(xk_sum(0, p, 8 + len)));
	return 8 + len;
}

/* Returns a datagram with such a message, which is stored at payload. */
static inline struct datagram
carrying(uint8_t *payload, unsigned type, unsigned code, uint32_t word, const void *data, size_t len)
{
	struct datagram d = usual();

	d.protocol = 1;
	d.payload = payload;
	d.len = message(payload, type, code, word, data, len);
	return d;
}

static inline void
inject_message(struct rig *r, unsigned type, unsigned code, uint32_t word, const void *data, size_t len)
{
	uint8_t payload[MTU];
	struct datagram d = carrying(payload, type, code, word, data, len);

	inject(r, &d);
}

/* Takes the message sent, which must be an ICMP message to `to` of this kind (type and code). Returns its length. */
static inline long
take_message(struct rig *r, uint8_t *got, size_t max, uint32_t to, unsigned kind)
{
	long len = rig_take_sent(r, got, max);

	REQUIRE(len >= DATA);
	CHECK_EQ(XK_GET(ip, source, got), ME);
	CHECK_EQ(XK_GET(ip, destination, got), to);
	CHECK_EQ(got[XK_OFFSET(ip, protocol)], 1);
	CHECK_EQ(xk_get16(got + ICMP), kind);
	CHECK_EQ(xk_sum_fold(xk_sum(0, got + ICMP, (size_t)len - HEADER)), 0xffff);
	return len;
}

/* Opens the session that pings PEER with ID. */
static inline struct xk_session *
open_echo(struct rig *r)
{
	rig_user(r, "user");
	return rig_open(r, (struct xk_participants){ .remote = { 1, { PEER } }, .local = { 1, { ID } } });
}

#endif
