/*
 * lane.c - chooses a queue for a frame by a hash of its headers, as hardware does.
 *
 * The hash uses the exclusive or of the addresses and of the ports, so both directions get the same lane. Fragments are
 * hashed by their addresses alone: only the first has ports.
 */
#include "platform/lane.h"
#include "xkernel/bytes.h"

enum {
	LANE_TYPE = 12,
	LANE_IP = 14,
	LANE_IP_FRAGMENT = LANE_IP + 6,
	LANE_IP_PROTOCOL = LANE_IP + 9,
	LANE_IP_SOURCE = LANE_IP + 12,
	LANE_IP_DESTINATION = LANE_IP + 16,
	LANE_IP_LEN = LANE_IP + 20,
	LANE_FRAGMENT_MASK = 0x3fff, /* MF and the offset */
	LANE_IPV4 = 0x0800,
	LANE_TCP = 6,
	LANE_UDP = 17,
	LANE_PORTS = 4,
};

/* Returns the exclusive or of the ports of an unfragmented datagram or segment, else 0. */
static uint32_t
lane_ports(const struct xk_msg *m, const uint8_t *header)
{
	size_t at = LANE_IP + (header[LANE_IP] & 0xfu) * 4;
	uint8_t ports[LANE_PORTS];

	if (header[LANE_IP_PROTOCOL] != LANE_UDP && header[LANE_IP_PROTOCOL] != LANE_TCP)
		return 0;
	if ((xk_get16(header + LANE_IP_FRAGMENT) & LANE_FRAGMENT_MASK) != 0 || xk_msg_len(m) < at + LANE_PORTS ||
	    !xk_msg_copy_out(m, at, ports, LANE_PORTS))
		return 0;
	return (uint32_t)(xk_get16(ports) ^ xk_get16(ports + 2));
}

unsigned
lane_of_flow(const struct xk_msg *m, unsigned lanes)
{
	uint8_t header[LANE_IP_LEN];
	uint32_t hash;

	if (lanes < 2 || xk_msg_len(m) < LANE_IP_LEN || !xk_msg_copy_out(m, 0, header, LANE_IP_LEN) ||
	    xk_get16(header + LANE_TYPE) != LANE_IPV4)
		return 0;
	hash = (xk_get32(header + LANE_IP_SOURCE) ^ xk_get32(header + LANE_IP_DESTINATION)) * 0x9e3779b1;
	hash = (hash ^ lane_ports(m, header)) * 0x85ebca6b;
	hash ^= hash >> 15;
	hash *= 0xc2b2ae35;
	return (unsigned)((uint64_t)hash * lanes >> 32);
}
