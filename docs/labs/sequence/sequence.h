/*
 * sequence.h - the header of the lab sequence on the wire, and its numbers: layout 0000000000000000.
 * ./run grade wrote this file; yours may differ from others'.
 */
#ifndef SEQUENCE_H
#define SEQUENCE_H

#include "xkernel/header.h"

/* Offsets of the fields, in bytes. */
enum {
	SEQUENCE_KIND = 0,
	SEQUENCE_LENGTH = 1,
	SEQUENCE_NUMBER = 3,
	SEQUENCE_HEADER_LEN = 7,
};

/* Kinds: a message of the user, a query for the receiver's counts, and its answer. */
#define SEQUENCE_DATA 1
#define SEQUENCE_ASK 2
#define SEQUENCE_REPORT 3

/* The number of the first message; after 4294967295 comes 0. */
#define SEQUENCE_FIRST 4294967272u

/* Number of remembered numbers before the expected one; older messages are `old`. */
#define SEQUENCE_HISTORY 64

/* For dissectors, traces and tests. */
/* clang-format off */
static const struct xk_field_value sequence_kinds[] = { { SEQUENCE_DATA, "DATA" }, { SEQUENCE_ASK, "ASK" }, { SEQUENCE_REPORT, "REPORT" }, { 0, NULL } };
static const struct xk_field sequence_fields[] = {
	{ .name = "kind", .bits = 8, .kind = XK_VARIES, .values = sequence_kinds,
	  .help = "what the message is" },
	{ .name = "length", .bits = 16, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE,
	  .help = "of header and payload" },
	{ .name = "number", .bits = 32, .kind = XK_VARIES,
	  .help = "counts the messages of one sender to one receiver" },
	{ .name = NULL },
};
/* clang-format on */

#endif
