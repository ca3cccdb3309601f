/*
 * boot.h - the header of the lab boot on the wire, and its numbers: layout 0000000000000000.
 * ./run grade wrote this file; yours may differ from others'.
 */
#ifndef BOOT_H
#define BOOT_H

#include "xkernel/header.h"

/* Offsets of the fields, in bytes. */
enum {
	BOOT_KIND = 0,
	BOOT_MINE = 1,
	BOOT_YOURS = 5,
	BOOT_NUMBER = 9,
	BOOT_LENGTH = 11,
	BOOT_HEADER_LEN = 13,
};

/* The kinds. */
#define BOOT_CALL 1
#define BOOT_WELCOME 2
#define BOOT_DATA 3
#define BOOT_ACK 4
#define BOOT_GONE 5

/* The number of the first DATA of a conversation; after 65535 comes 0. */
#define BOOT_FIRST 0

/* Milliseconds until an unanswered frame is sent again. */
#define BOOT_TIMEOUT_MS 200

/* Number of times DATA is sent again before it is given up. */
#define BOOT_RETRIES 5

/* Maximum number of unacknowledged messages, in flight or waiting. */
#define BOOT_QUEUE 16

/* For dissectors, traces and tests. */
/* clang-format off */
static const struct xk_field_value boot_kinds[] = { { BOOT_CALL, "CALL" }, { BOOT_WELCOME, "WELCOME" }, { BOOT_DATA, "DATA" }, { BOOT_ACK, "ACK" }, { BOOT_GONE, "GONE" }, { 0, NULL } };
static const struct xk_field boot_fields[] = {
	{ .name = "kind", .bits = 8, .kind = XK_VARIES, .values = boot_kinds,
	  .help = "what the frame is" },
	{ .name = "mine", .bits = 32, .kind = XK_VARIES, .print = XK_PRINT_HEX,
	  .help = "the sender's end" },
	{ .name = "yours", .bits = 32, .kind = XK_VARIES, .print = XK_PRINT_HEX,
	  .help = "the receiver's end; 0: unknown to the sender" },
	{ .name = "number", .bits = 16, .kind = XK_VARIES,
	  .help = "of DATA and its ACK" },
	{ .name = "length", .bits = 16, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE,
	  .help = "of header and payload" },
	{ .name = NULL },
};
/* clang-format on */

#endif
