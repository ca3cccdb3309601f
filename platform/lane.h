/* lane.h - chooses a queue for each frame, for platforms whose devices do not. */
#ifndef XK_PLATFORM_LANE_H
#define XK_PLATFORM_LANE_H

#include "xkernel/msg.h"

/*
 * Returns the lane, below `lanes`, for m, which begins with its Ethernet header. IPv4 is spread by a symmetric hash of
 * both addresses and, for unfragmented UDP and TCP, both ports. Other frames get lane 0.
 */
unsigned lane_of_flow(const struct xk_msg *m, unsigned lanes);

#endif
