/*
 * fused.h - the baseline for layers: eth, ip, udp and the echo in one function.
 *
 * It makes every check that the protocols make on a datagram that arrives whole and without IP options, verifies both
 * checksums, and builds the echo in place, with both checksums computed anew. It has no sessions, so it forgets its peers.
 */
#ifndef FUSED_H
#define FUSED_H

#include "xkernel/msg.h"

/* The server, and its counters. */
struct fused_host {
	uint64_t link;
	uint32_t address;
	uint16_t port;
	uint16_t id; /* of the last datagram sent */
};

/*
 * Does the same for a datagram in `count` pieces, given in order, each in a frame of one segment. The echo has the same
 * pieces. Makes reassembly's checks of each piece and checks that none is missing; it does not wait for any.
 */
bool fused_echo_pieces(struct fused_host *host, struct xk_msg *const *pieces, unsigned count);

/*
 * Turns the frame m, in one segment, into its echo. Returns false if a check failed; m may then be cut, but is not
 * written.
 */
bool fused_echo(struct fused_host *host, struct xk_msg *m);

#endif
