/*
 * eth.h - ETH's header and addresses, for other protocols.
 *
 * Participants: the top of each stack is a 48-bit link address
 */
#ifndef XK_ETH_H
#define XK_ETH_H

#include "xkernel/base.h"

#define XK_ETH_BROADCAST UINT64_C(0xffffffffffff)
#define XK_ETH_GROUP (UINT64_C(1) << 40) /* the group bit, set in ff:ff:ff:ff:ff:ff, too */

enum { XK_ETH_HEADER_LEN = 14 };

/* A group is no valid source, and only the broadcast session, which receives nothing, has one in its key. */
#define ETH_HEADER(F)                                                                                                  \
	F(48, destination, .kind = XK_FIXED, .is_mine = true, .end = XK_END_LOCAL, .print = XK_PRINT_LINK,             \
	  .help = "this host, or broadcast")                                                                           \
	F(48, source, .kind = XK_NAMES_SESSION, .rare = XK_ETH_GROUP, .end = XK_END_REMOTE, .print = XK_PRINT_LINK)    \
	F(16, type, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX, .is_upper = true,                                 \
	  .values = XK_VALUES({ 0x0800, "IPv4" }, { 0x0806, "ARP" }), .help = "the protocol above")

/* Tells whether address names more than one station (multicast, broadcast). */
static inline bool
xk_eth_is_group(uint64_t address)
{
	return (address & XK_ETH_GROUP) != 0;
}

#endif
