/*
 * header.h - a protocol's header as data: checked by the framework before
 * demux, printed by traces, dissectors, documentation and fuzzers.
 *
 * A type says how many bytes a message must have (`header`), how many are wanted in one piece as far
 * as they exist (`gather`), and what they mean, field by field. That only describes: the protocol's
 * own functions load, check and store. tests/protocols/test_headers.c compares the two, bit by bit.
 */
#ifndef XK_HEADER_H
#define XK_HEADER_H

#include "xkernel/base.h"

struct xk_msg;
struct xk_protocol;
struct xk_protocol_type;

/* The fate of a message whose field differs from the one before, in the same conversation. */
enum xk_field_kind {
	XK_VARIES,        /* accepted: the value differs with each message */
	XK_FIXED,         /* dropped: the value is always `usual`, or what the host itself is */
	XK_NAMES_SESSION, /* belongs to another session */
	XK_LENGTH,        /* cut off or dropped: the length in bytes of what `covers` says */
	XK_CHECKSUM,      /* dropped: the Internet checksum (RFC 1071) of what `covers` says */
};

enum xk_field_covers {
	XK_COVERS_NOTHING,
	XK_COVERS_HEADER,
	XK_COVERS_PAYLOAD,
	XK_COVERS_MESSAGE, /* header and payload */
	XK_COVERS_PSEUDO,  /* header, payload and IP's pseudo-header */
};

enum xk_field_print { XK_PRINT_DECIMAL, XK_PRINT_HEX, XK_PRINT_HOST, XK_PRINT_LINK };

/* The name of a value, or of bits of a mask. */
struct xk_field_value {
	uint64_t value;
	const char *name; /* NULL ends the list */
};

/* Fields follow one another in wire order without gaps, the most significant bit first (RFC 791, appendix B). */
struct xk_field {
	const char *name; /* as in dissectors' filters; NULL ends the list */
	unsigned bits;    /* 1 to 64 */
	enum xk_field_kind kind;
	enum xk_field_print print;
	const char *help; /* a few words; NULL: the name suffices */
	uint64_t usual;   /* of XK_FIXED, if the same on all hosts; with `rare`, the value of usual messages */
	uint64_t rare;    /* bits that lead a message another way if they differ from `usual`: fragments, options */
	bool is_own;      /* of XK_FIXED: path_pop (upi.h) checks it instead of a path's comparison: it may change */
	enum xk_field_covers covers;
	unsigned drop; /* the reason to drop a message whose XK_CHECKSUM is wrong (upi.h) */
	unsigned left; /* ... whose XK_COVERS_PSEUDO one was left to a device (checksum.h); 0: as `drop` */
	bool is_bits;  /* the values are bits of a mask */
	bool is_upper; /* number of the protocol above, whose header follows */
	bool is_part;  /* if not 0, a part of a longer message follows instead */
	const struct xk_field_value *values; /* NULL: no value has a name */
};

/*
 * Puts the first bytes of *m in one piece: as many as self's type gathers, or all. Returns 0; -EBADMSG
 * (shorter than the header) or -ENOBUFS: *m was dropped and counted for self. Any context; never waits.
 */
int xk_header_gather(struct xk_protocol *self, struct xk_msg **m);

/*
 * Prints the fields of the header at p, as far as its len bytes go, into text (room
 * bytes, NUL-terminated): "source 53, destination 1024, ...". Returns text. Any context.
 */
char *xk_header_print(const struct xk_protocol_type *type, const uint8_t *p, size_t len, char *text, size_t room);

/* Returns the value of the field that begins at bit `at` of p. */
uint64_t xk_field_load(const struct xk_field *field, const uint8_t *p, size_t at);

#endif
