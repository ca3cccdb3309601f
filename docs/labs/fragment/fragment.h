/*
 * fragment.h - the header of the lab fragment on the wire, and its numbers: layout 0000000000000000.
 * ./run grade wrote this file; yours may differ from others'.
 */
#ifndef FRAGMENT_H
#define FRAGMENT_H

#include "xkernel/header.h"

/* Offsets of the fields, in bytes. */
enum {
	FRAGMENT_ID = 0,
	FRAGMENT_OFFSET = 2,
	FRAGMENT_TOTAL = 4,
	FRAGMENT_LENGTH = 6,
	FRAGMENT_HEADER_LEN = 8,
};

/* The id of the first message; after 65535 comes 0. */
#define FRAGMENT_FIRST 65526

/* Bytes of a unit, in which offsets are counted. */
#define FRAGMENT_UNIT 8

/* Bytes of the longest message. */
#define FRAGMENT_LONGEST 16384

/* Maximum number of incomplete messages kept for a neighbour. */
#define FRAGMENT_PARTIAL 4

/* Milliseconds for which an incomplete message is kept, from its first fragment on. */
#define FRAGMENT_TIMEOUT_MS 500

/* For dissectors, traces and tests. */
/* clang-format off */
static const struct xk_field fragment_fields[] = {
	{ .name = "id", .bits = 16, .kind = XK_VARIES,
	  .help = "of the message" },
	{ .name = "offset", .bits = 16, .kind = XK_VARIES,
	  .help = "of the payload in the message, in units" },
	{ .name = "total", .bits = 16, .kind = XK_VARIES,
	  .help = "bytes of the message" },
	{ .name = "length", .bits = 16, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE,
	  .help = "of header and payload" },
	{ .name = NULL },
};
/* clang-format on */

#endif
