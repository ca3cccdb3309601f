/* lane.h - the choice of a queue for a frame, for platforms whose devices do not make it themselves. */
#ifndef XK_PLATFORM_LANE_H
#define XK_PLATFORM_LANE_H

#include "xkernel/msg.h"

/*
 * Returns the lane, of `lanes`, for m, which begins with its Ethernet header. IPv4 is spread by a hash of both addresses
 * and, for unfragmented UDP and TCP, both ports; the hash is the same for both directions. Other frames get lane 0.
 */
unsigned lane_of_flow(const struct xk_msg *m, unsigned lanes);

#endif
