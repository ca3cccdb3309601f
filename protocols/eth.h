/*
 * eth.h - what other protocols need to know of ETH: its addresses. eth.c has the rest.
 *
 * Participants: the top of each stack is a 48-bit link address
 */
#ifndef ETH_H
#define ETH_H

#include "xkernel/base.h"

#define XK_ETH_BROADCAST UINT64_C(0xffffffffffff)

enum { XK_ETH_HEADER_LEN = 14 };

/* Whether address names more than one station (multicast, broadcast). */
static inline bool
xk_eth_is_group(uint64_t address)
{
	return (address >> 40 & 1) != 0;
}

#endif
