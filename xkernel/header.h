/*
 * header.h - a protocol's header as data: what the framework checks before demux, and what traces, dissectors, documentation
 * and fuzzers print.
 *
 * A type says how many bytes must be there (`header`), how many more are wanted in one piece as far as they exist
 * (`gather`), and, field by field in wire order, what they mean. The declaration describes: the protocol's own functions
 * load, check and store. tests/protocols/test_headers.c compares the two, bit by bit.
 */
#ifndef XK_HEADER_H
#define XK_HEADER_H

#include "xkernel/base.h"

struct xk_msg;
struct xk_protocol;
struct xk_protocol_type;

/* What becomes of a message that has another value here than the one before it in the same conversation. */
enum xk_field_kind {
	XK_VARIES,        /* nothing in general: the value differs with each message */
	XK_FIXED,         /* it is dropped: every message has `usual`, or what the host itself is */
	XK_NAMES_SESSION, /* it is another session's */
	XK_LENGTH,        /* it is cut off or dropped: bytes of what `covers` says */
	XK_CHECKSUM,      /* it is dropped: the Internet checksum (RFC 1071) of what `covers` says */
};

enum xk_field_covers {
	XK_COVERS_NOTHING,
	XK_COVERS_HEADER,
	XK_COVERS_PAYLOAD,
	XK_COVERS_MESSAGE, /* header and payload */
	XK_COVERS_PSEUDO,  /* these and IP's pseudo-header */
};

enum xk_field_print { XK_PRINT_DECIMAL, XK_PRINT_HEX, XK_PRINT_HOST, XK_PRINT_LINK };

/* The name of a value, or of bits. */
struct xk_field_value {
	uint64_t value;
	const char *name; /* NULL ends the list */
};

/* Fields follow one another without gaps, the most significant bit first (RFC 791, appendix B). */
struct xk_field {
	const char *name; /* as filters of dissectors have it; NULL ends the list */
	unsigned bits;    /* 1 to 64 */
	enum xk_field_kind kind;
	enum xk_field_print print;
	const char *help; /* a few words; NULL: the name says it */
	uint64_t usual;   /* of XK_FIXED, where all hosts have the same */
	enum xk_field_covers covers;
	bool is_bits;                        /* the values are bits of a mask */
	bool is_upper;                       /* the number of the protocol above, whose header follows ... */
	bool is_part;                        /* ... unless this is not 0: what follows is a part of a longer message */
	const struct xk_field_value *values; /* NULL: none has a name */
};

/*
 * Puts the first bytes of *m in one piece, as many as self's type gathers, where the message has so many. 0; -EBADMSG: it is
 * shorter than the header; -ENOBUFS. Then the message is dropped, counted for self. Any context; never waits.
 */
int xk_header_gather(struct xk_protocol *self, struct xk_msg **m);

/*
 * Prints the fields of the header at p, of which len bytes are there, as "source 53, destination 1024, ..." into text, which
 * ends with NUL. Returns text. Any context.
 */
char *xk_header_print(const struct xk_protocol_type *type, const uint8_t *p, size_t len, char *text, size_t room);

/* The value of the field that begins at bit `at` of p. */
uint64_t xk_field_load(const struct xk_field *field, const uint8_t *p, size_t at);

#endif
