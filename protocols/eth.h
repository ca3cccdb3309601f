/*
 * eth.h - ETH's addresses, for other protocols.
 *
 * Participants: the top of each stack is a 48-bit link address
 */
#ifndef XK_ETH_H
#define XK_ETH_H

#include "xkernel/base.h"

#define XK_ETH_BROADCAST UINT64_C(0xffffffffffff)
#define XK_ETH_GROUP (UINT64_C(1) << 40) /* of a group, everybody included */

enum { XK_ETH_HEADER_LEN = 14 };

/* Tells whether address names more than one station (multicast, broadcast). */
static inline bool
xk_eth_is_group(uint64_t address)
{
	return (address & XK_ETH_GROUP) != 0;
}

#endif
