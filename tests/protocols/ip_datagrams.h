/*
 * ip_datagrams.h - rig for tests of IP between a fake user and a fake link with one network, 10.77.0.0/24, where this
 * host is 10.77.0.1; and datagrams from neighbours.
 */
#ifndef TESTS_IP_DATAGRAMS_H
#define TESTS_IP_DATAGRAMS_H

#include "protocols/virtual/vnet.h"
#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum {
	ME = 0x0a4d0001,
	PEER = 0x0a4d0002,
	OTHER = 0x0a4d0003,
	NET_BROADCAST = 0x0a4d00ff,
	GATEWAY = 0x0a4d00fe,
	FAR = 0x08080808,
	MTU = 1500,
	HEADER = 20,
	MORE = 0x2000,
	PATTERN_PERIOD = 251,
};

static const struct xk_vnet_interface interface = {
	.host = ME, .mask = 0xffffff00, .broadcast = NET_BROADCAST, .max_packet = MTU
};

static inline void
prepare(struct rig *r)
{
	struct xk_vnet_interfaces own = { 1, { interface } };

	rig_answer_control(r, XK_VNET_GET_INTERFACES, &own, sizeof(own));
}

/* Returns a rig of IP with settings: statements, each ending in ';'. */
static inline struct rig *
ip_rig_with(const char *settings)
{
	char graph[256];

	snprintf(graph, sizeof(graph), "wire:; ip: wire; %s user: ip#17", settings);
	return rig_new_prepared(graph, prepare);
}

static inline struct rig *
ip_rig(void)
{
	return ip_rig_with("");
}

struct datagram {
	uint32_t source, destination;
	uint16_t id, fragment;
	uint8_t protocol, ttl;
	const uint8_t *payload;
	size_t len;
};

static const uint8_t some[] = { 0xaa, 0xbb, 0xcc, 0xdd, 0xee };

/* Returns a valid datagram from a neighbour to this host. */
static inline struct datagram
usual(void)
{
	return (struct datagram){ PEER, ME, 7, 0, 17, 64, some, sizeof(some) };
}

static inline void
put_checksum(uint8_t *frame)
{
	xk_put16(frame + 10, 0);
	xk_checksum_store(frame + 10, xk_checksum_finish(xk_sum(0, frame, HEADER)));
}

static inline size_t
build(uint8_t *frame, const struct datagram *d)
{
	memset(frame, 0, HEADER);
	frame[0] = 0x45;
	xk_put16(frame + 2, (uint16_t)(HEADER + d->len));
	xk_put16(frame + 4, d->id);
	xk_put16(frame + 6, d->fragment);
	frame[8] = d->ttl;
	frame[9] = d->protocol;
	xk_put32(frame + 12, d->source);
	xk_put32(frame + 16, d->destination);
	put_checksum(frame);
	memcpy(frame + HEADER, d->payload, d->len);
	return HEADER + d->len;
}

static inline void
inject(struct rig *r, const struct datagram *d)
{
	uint8_t frame[MTU + 100];
	size_t len = build(frame, d);

	rig_inject_bytes(r, frame, len);
}

/* Stores bytes [start, end) of rig_push_pattern's pattern. */
static inline void
fill_pattern(uint8_t *bytes, size_t start, size_t end)
{
	for (size_t i = start; i < end; i++)
		bytes[i - start] = (uint8_t)(i % PATTERN_PERIOD);
}

#endif
