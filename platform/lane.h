/* lane.h - to which of a device's queues a frame belongs, for platforms whose devices do not say so themselves. */
#ifndef XK_PLATFORM_LANE_H
#define XK_PLATFORM_LANE_H

#include "xkernel/msg.h"

/*
 * To which of `lanes` lanes m, which begins with its Ethernet header, belongs: of IPv4, by a hash of both addresses and,
 * of UDP and TCP that are no fragments, both ports, the same one for either direction; of anything else, lane 0.
 */
unsigned lane_of_flow(const struct xk_msg *m, unsigned lanes);

#endif
