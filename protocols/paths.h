/* paths.h - paths through the stacks of headers that are in wide use (xkernel/path.h). */
#ifndef XK_PATHS_H
#define XK_PATHS_H

#include "xkernel/path.h"

extern const struct xk_path_code xk_path_udp; /* ETH, IP, UDP */
extern const struct xk_path_code xk_path_tcp; /* ETH, IP, TCP: to its pop */
extern const struct xk_path_code xk_path_bid; /* ETH, BLAST, BID: below calls */

#endif
