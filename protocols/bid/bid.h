/* bid.h - BID's header. */
#ifndef XK_BID_H
#define XK_BID_H

#include "xkernel/header.h"

#define BID_HEADER(F)                                                                                                  \
	F(32, protocol, .kind = XK_NAMES_SESSION, .is_upper = true, .help = "above")                                   \
	F(32, source_host, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HOST)                                           \
	F(64, source_boot, .kind = XK_FIXED, .is_own = true, .print = XK_PRINT_HEX, .help = "confirmed by BIDCTL")     \
	F(64, destination_boot, .kind = XK_FIXED, .print = XK_PRINT_HEX, .help = "0: not known")

#endif
