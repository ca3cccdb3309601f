/*
 * header.h - a protocol's header, written once: its fields, and everything that follows from them.
 *
 *	#define LLP_HEADER(F)                                                  \
 *		F(16, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE)     \
 *		F(16, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL) \
 *		F(16, length, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE)
 *	XK_HEADER(llp, LLP_HEADER);
 *	XK_FIELDS(llp, LLP_HEADER);
 *
 * XK_HEADER declares, from names and widths in bits, struct llp_header (the values, in the machine's byte order),
 * llp_load, llp_store and llp_sum (for checksums, without reading what was just stored), and everything that XK_GET,
 * XK_PUT, XK_OFFSET and XK_HEADER_LEN need. XK_FIELDS defines llp_fields, which the type names: the framework receives,
 * sends and composes paths by it (receive.h); traces, dissectors, documentation and fuzzers use it too.
 * tests/protocols/test_headers.c compares declarations with behaviour, bit by bit.
 */
#ifndef XK_HEADER_H
#define XK_HEADER_H

#include "xkernel/base.h"
#include "xkernel/bytes.h"

struct xk_msg;
struct xk_protocol;
struct xk_protocol_type;

/* The fate of a message whose field differs from that of the previous message of its conversation. */
enum xk_field_kind {
	XK_VARIES,        /* accepted: the value differs with each message */
	XK_FIXED,         /* dropped: the value is always `usual`, or this host's own */
	XK_NAMES_SESSION, /* belongs to another session */
	XK_LENGTH,        /* cut or dropped: the field is the length, in bytes, of what `covers` names */
	XK_CHECKSUM,      /* dropped: the field is the Internet checksum (RFC 1071) of what `covers` names */
};

enum xk_field_covers {
	XK_COVERS_NOTHING,
	XK_COVERS_HEADER,
	XK_COVERS_PAYLOAD,
	XK_COVERS_MESSAGE, /* header and payload */
	XK_COVERS_PSEUDO,  /* header, payload and IP's pseudo-header */
};

/* The end that a field names in an arriving message. In a sent message, the two are exchanged. */
enum xk_field_end { XK_END_NONE, XK_END_REMOTE, XK_END_LOCAL };

enum xk_field_print { XK_PRINT_DECIMAL, XK_PRINT_HEX, XK_PRINT_HOST, XK_PRINT_LINK };

/* The name of a value, or of bits of a mask. */
struct xk_field_value {
	uint64_t value;
	const char *name; /* NULL ends the list */
};

/* The names of a field's values, in its list: .values = XK_VALUES({ 1, "request" }, { 2, "reply" }). */
#define XK_VALUES(...) ((const struct xk_field_value[]){ __VA_ARGS__, { 0, NULL } })

/* Fields follow one another in wire order without gaps, the most significant bit first (RFC 791, appendix B). */
struct xk_field {
	const char *name; /* as in dissectors' filters; NULL ends the list */
	unsigned bits;    /* 1 to 64 */
	enum xk_field_kind kind;
	enum xk_field_print print;
	const char *help; /* a few words; NULL: the name suffices */
	uint64_t usual;   /* of XK_FIXED, if the same on all hosts; with `rare`, the value of usual messages */
	bool is_mine;     /* of XK_FIXED: the usual value is this host's own (xk_header_usual) */
	uint64_t rare;    /* bits that lead to the slow path if they differ from `usual`: fragments, options */
	bool is_own;      /* of XK_FIXED: may change, so an xk_path_pop (path.h) checks it, not a path's comparison */
	enum xk_field_covers covers;
	enum xk_field_end end; /* of XK_NAMES_SESSION, or XK_FIXED */
	uint8_t pseudo;        /* of XK_COVERS_PSEUDO: the protocol's number in the pseudo-header */
	bool may_lack;         /* of XK_CHECKSUM: 0 means that there is none */
	uint16_t step;         /* of XK_VARIES: sessions number their messages here, in steps of this; 0: they do not */
	bool is_bits;          /* the values are bits of a mask */
	bool is_upper;         /* number of the protocol above, whose header follows */
	bool is_part;          /* if not 0, a part of a longer message follows instead */
	const struct xk_field_value *values; /* NULL: no value has a name */
};

/* ---- one list ---- */

/* The type that holds a number of this many bits. */
#define XK_UINT(bits)                                                                                                  \
	__typeof__(__builtin_choose_expr(                                                                              \
		(bits) <= 8, (uint8_t)0,                                                                               \
		__builtin_choose_expr((bits) <= 16, (uint16_t)0,                                                       \
				      __builtin_choose_expr((bits) <= 32, (uint32_t)0, (uint64_t)0))))

#define XK_HEADER_BITS(bits, name, ...) char name[bits]; /* a byte for each bit: offsets and sizes are in bits */
#define XK_HEADER_VALUE(bits, name, ...) XK_UINT(bits) name;
#define XK_HEADER_LOAD(bits, name, ...) .name = (XK_UINT(bits))xk_bits_load(p, offsetof(xk_header_bits, name), bits),
#define XK_HEADER_STORE(bits, name, ...) xk_bits_store(p, offsetof(xk_header_bits, name), bits, h->name);
#define XK_HEADER_SUM(bits, name, ...)                                                                                 \
	+xk_bits_sum(h->name &UINT64_MAX >> (64 - (bits)), offsetof(xk_header_bits, name) + (bits))
#define XK_HEADER_FIELD(width, label, ...) { .name = #label, .bits = width, __VA_ARGS__ },

#define XK_HEADER(prefix, LIST)                                                                                        \
	struct prefix##_bits {                                                                                         \
		LIST(XK_HEADER_BITS)                                                                                   \
	};                                                                                                             \
	struct prefix##_header {                                                                                       \
		LIST(XK_HEADER_VALUE)                                                                                  \
	};                                                                                                             \
	/* not defined: for its members' sizes */                                                                      \
	extern const struct prefix##_bits prefix##_places;                                                             \
	__attribute__((unused)) static inline struct prefix##_header prefix##_load(const uint8_t *p)                   \
	{                                                                                                              \
		typedef struct prefix##_bits xk_header_bits;                                                           \
		return (struct prefix##_header){ LIST(XK_HEADER_LOAD) };                                               \
	}                                                                                                              \
	__attribute__((unused)) static inline void prefix##_store(uint8_t *p, const struct prefix##_header *h)         \
	{                                                                                                              \
		typedef struct prefix##_bits xk_header_bits;                                                           \
		LIST(XK_HEADER_STORE)                                                                                  \
	}                                                                                                              \
	__attribute__((unused)) static inline uint64_t prefix##_sum(const struct prefix##_header *h)                   \
	{                                                                                                              \
		typedef struct prefix##_bits xk_header_bits;                                                           \
		return xk_bits_sum_stored(0 LIST(XK_HEADER_SUM));                                                      \
	}                                                                                                              \
	static_assert(sizeof(struct prefix##_bits) % 8 == 0, "a header is whole bytes")

#define XK_FIELDS(prefix, LIST)                                                                                        \
	static const struct xk_field prefix##_fields[] = { LIST(XK_HEADER_FIELD){ .name = NULL } }

/* Return the length of a header, the offset of a field, and the value of a field at p. XK_PUT stores that value. */
#define XK_HEADER_LEN(prefix) (sizeof(struct prefix##_bits) / 8)
#define XK_OFFSET(prefix, field) (offsetof(struct prefix##_bits, field) / 8)
#define XK_GET(prefix, field, p) xk_bits_load(p, offsetof(struct prefix##_bits, field), sizeof(prefix##_places.field))
#define XK_PUT(prefix, field, p, value)                                                                                \
	xk_bits_store(p, offsetof(struct prefix##_bits, field), sizeof(prefix##_places.field), value)

/* The same for adjacent fields, from the first to the last, as one number of at most 64 bits. */
#define XK_GET_SPAN(prefix, first, last, p)                                                                            \
	xk_bits_load(p, offsetof(struct prefix##_bits, first), XK_SPAN_BITS(prefix, first, last))
#define XK_PUT_SPAN(prefix, first, last, p, value)                                                                     \
	xk_bits_store(p, offsetof(struct prefix##_bits, first), XK_SPAN_BITS(prefix, first, last), value)
#define XK_SPAN_BITS(prefix, first, last)                                                                              \
	(offsetof(struct prefix##_bits, last) + sizeof(prefix##_places.last) - offsetof(struct prefix##_bits, first))

/*
 * Reasons to drop and counters, with their names, from one list:
 *
 *	#define LLP_DROPS(D) D(LLP_LOST, "lost")
 *	XK_DROPS(llp, LLP_DROPS);	enum llp_drop, from XK_DROP_OWN on, and llp_drops
 *	XK_COUNTERS(llp, LLP_COUNTERS);	enum llp_counter, and llp_counters
 */
#define XK_NAMED_CONSTANT(constant, text) constant,
#define XK_NAMED_TEXT(constant, text) text,
#define XK_DROPS(prefix, LIST)                                                                                         \
	enum prefix##_drop{ prefix##_drops_before = XK_DROP_OWN - 1, LIST(XK_NAMED_CONSTANT) };                        \
	__attribute__((unused)) static const char *const prefix##_drops[] = { LIST(XK_NAMED_TEXT) NULL }
#define XK_COUNTERS(prefix, LIST)                                                                                      \
	enum prefix##_counter{ LIST(XK_NAMED_CONSTANT) };                                                              \
	__attribute__((unused)) static const char *const prefix##_counters[] = { LIST(XK_NAMED_TEXT) NULL }

/* Returns `bits` bits of p from bit `at` on. Without loops or branches where both are constant. */
__attribute__((always_inline)) static inline uint64_t
xk_bits_load(const uint8_t *p, size_t at, unsigned bits)
{
	const uint8_t *first = p + at / 8;
	size_t end = at % 8 + bits;
	uint64_t value;

	if (end <= 8)
		value = *first;
	else if (end <= 16)
		value = xk_get16(first);
	else if (end <= 24)
		value = (uint64_t)xk_get16(first) << 8 | first[2];
	else if (end <= 32)
		value = xk_get32(first);
	else if (end <= 48)
		value = end <= 40 ? (uint64_t)xk_get32(first) << 8 | first[4] : xk_get48(first);
	else if (end <= 56)
		value = xk_get48(first) << 8 | first[6];
	else
		value = xk_get64(first);
	if (end > 64) /* nine bytes */
		return value << (end - 64) << (64 - bits) >> (64 - bits) | first[8] >> (72 - end);
	return value >> (-end & 7) & (UINT64_MAX >> (64 - bits));
}

/* Returns what a value that ends at bit `end` of a header adds to a checksum, in network byte order (RFC 1071). */
static inline uint64_t
xk_bits_sum(uint64_t value, size_t end)
{
	return ((value >> 32) + (uint32_t)value) << (-end & 15);
}

/* Turns such a sum into one of stored bytes, which is small, so that others can be added to it. */
static inline uint64_t
xk_bits_sum_stored(uint64_t sum)
{
	sum = __builtin_bswap64(sum);
	return (sum >> 32) + (uint32_t)sum;
}

/* Stores value in those bits. */
__attribute__((always_inline)) static inline void
xk_bits_store(uint8_t *p, size_t at, unsigned bits, uint64_t value)
{
	uint8_t *first = p + at / 8;
	size_t end = at % 8 + bits, after = -end & 7;
	uint64_t mask = UINT64_MAX >> (64 - bits) << after;

	if (at % 8 == 0 && bits == 64) {
		xk_put64(first, value);
	} else if (at % 8 == 0 && bits == 48) {
		xk_put48(first, value);
	} else if (at % 8 == 0 && bits == 32) {
		xk_put32(first, (uint32_t)value);
	} else if (at % 8 == 0 && bits == 16) {
		xk_put16(first, (uint16_t)value);
	} else if (end <= 8) {
		*first = (uint8_t)((*first & ~mask) | (value << after & mask));
	} else if (end <= 16) {
		xk_put16(first, (uint16_t)((xk_get16(first) & ~mask) | (value << after & mask)));
	} else {
#pragma GCC unroll 9
		for (size_t bytes = (end + 7) / 8; bytes > 0; bytes--) {
			size_t taken =
				bytes * 8 == end + after ? 8 - after : 8; /* bits of this byte, except in the first */
			unsigned some = bits < taken ? bits : (unsigned)taken;
			uint8_t here = (uint8_t)((0xff >> (8 - some)) << (8 - taken)), *byte = first + bytes - 1;

			*byte = (uint8_t)((*byte & ~here) | ((value << (8 - taken)) & here));
			value >>= some;
			bits -= some;
		}
	}
}

/* ---- what follows from the fields ---- */

/* Bytes of a header loaded at once, in the machine's order: 1, 2, 4 or 8 (0: none) from `at` on, under a mask. */
struct xk_window {
	uint64_t mask, value;
	uint8_t at, len;
};

enum { XK_USUAL = 3, XK_NAMES = 2 };

/* The properties of a header that receiving, sending and paths need. */
struct xk_format {
	struct xk_window usual[XK_USUAL]; /* messages with other values there are unusual */
	struct xk_window names[XK_NAMES]; /* the fields that name sessions */
	uint8_t len;                      /* bytes of the header */
	/* len 0: no field holds a length; base: bytes that it does not cover */
	uint8_t length_at, length_len, length_base;
	uint8_t sum_at, sum_covers, sum_pseudo; /* covers 0: there is no checksum */
	bool sum_may_lack;                      /* a checksum of 0 means that there is none */
	uint8_t number_at, number_step;         /* step 0: messages are not numbered */
	uint8_t remote_at, local_at, end_len;   /* len 0: no fields name the two ends */
	uint8_t end_print;                      /* enum xk_field_print: what the ends are */
	bool fits;                              /* false: the framework cannot receive by fields in these places */
};

/* Returns the bytes of window w of the header at p. */
static inline uint64_t
xk_window_load(const struct xk_window *w, const uint8_t *p)
{
	uint64_t word;

	p += w->at;
	if (w->len == 8) {
		memcpy(&word, p, 8);
	} else if (w->len == 4) {
		uint32_t half;

		memcpy(&half, p, 4);
		word = half;
	} else {
		word = w->len == 2 ? (uint64_t)(p[0] | p[1] << 8) : *p;
	}
	return word & w->mask;
}

/* Returns whether the header at p has the usual value in window w, which `own`, the instance's copy of w, holds. */
__attribute__((always_inline)) static inline bool
xk_window_is_usual(const struct xk_window *w, const struct xk_window *own, const uint8_t *p)
{
	return w->len == 0 || xk_likely(xk_window_load(w, p) == own->value);
}

/* Returns whether a message with the header at p is usual. `own` is the instance's copy of format. */
__attribute__((always_inline)) static inline bool
xk_format_is_usual(const struct xk_format *format, const struct xk_format *own, const uint8_t *p)
{
	return xk_window_is_usual(&format->usual[0], &own->usual[0], p) &&
	       xk_window_is_usual(&format->usual[1], &own->usual[1], p) &&
	       xk_window_is_usual(&format->usual[2], &own->usual[2], p);
}

/* Makes `value`, this host's own, the usual value of a field that is_mine. Other values are then unusual. In init. */
void xk_header_usual(struct xk_protocol *self, const char *field, uint64_t value);

/*
 * The steps that compute a format from its fields: in loops over a type's fields (header.c), or in code without loops
 * that the compiler evaluates (XK_FORMAT). `at` is the bit at which a field begins.
 */

/* Returns the bits of a field that are the same in all usual messages. */
__attribute__((always_inline)) static inline uint64_t
xk_field_usual(const struct xk_field *f)
{
	bool is_fixed = f->kind == XK_FIXED && (f->usual != 0 || f->is_mine);

	return f->rare != 0 ? f->rare : is_fixed ? UINT64_MAX >> (64 - f->bits) : 0;
}

__attribute__((always_inline)) static inline uint64_t
xk_field_names(const struct xk_field *f)
{
	return f->kind == XK_NAMES_SESSION ? UINT64_MAX >> (64 - f->bits) : 0;
}

__attribute__((always_inline)) static inline void
xk_format_add(struct xk_format *format, const struct xk_field *f, size_t at)
{
	uint8_t byte = (uint8_t)(at / 8), len = (uint8_t)(f->bits / 8);

	if (f->end == XK_END_REMOTE)
		format->remote_at = byte;
	if (f->end == XK_END_LOCAL) {
		format->local_at = byte;
		format->end_len = len;
		format->end_print = (uint8_t)f->print;
	}
	if (f->kind == XK_LENGTH) {
		format->length_at = byte;
		format->length_len = len;
		format->length_base = f->covers == XK_COVERS_PAYLOAD ? format->len : 0;
		format->fits &= at % 8 == 0 && (f->bits == 16 || f->bits == 32);
	}
	if (f->kind == XK_CHECKSUM) {
		format->sum_at = byte;
		format->sum_covers = (uint8_t)f->covers;
		format->sum_pseudo = f->pseudo;
		format->sum_may_lack = f->may_lack;
		format->fits &= at % 8 == 0 && f->bits == 16;
	}
	if (f->step != 0) {
		format->number_at = byte;
		format->number_step = (uint8_t)f->step;
		format->fits &= at % 8 == 0 && f->bits == 16 && f->step <= UINT8_MAX;
	}
}

/* A window that is being chosen: over bytes `first` to `end` (at most `limit`), which hold some of the bits. */
struct xk_window_draft {
	size_t limit, end, first;
};

/* Bytes of a header, from `begin` up to but not including `end`. */
struct xk_span {
	size_t begin, end;
};

/* Returns the bytes that hold these bits (at least one) of a field that begins at bit `at`. */
__attribute__((always_inline)) static inline struct xk_span
xk_span_of(const struct xk_field *f, size_t at, uint64_t bits)
{
	return (struct xk_span){ (at + f->bits - 64 + (size_t)__builtin_clzll(bits)) / 8,
				 (at + f->bits - 1 - (size_t)__builtin_ctzll(bits)) / 8 + 1 };
}

__attribute__((always_inline)) static inline void
xk_window_end(struct xk_window_draft *d, const struct xk_field *f, size_t at, uint64_t bits)
{
	if (bits != 0) {
		struct xk_span span = xk_span_of(f, at, bits);

		if (span.begin < d->limit && span.end > d->end)
			d->end = span.end < d->limit ? span.end : d->limit;
	}
}

__attribute__((always_inline)) static inline void
xk_window_first(struct xk_window_draft *d, const struct xk_field *f, size_t at, uint64_t bits)
{
	size_t low = d->end > 8 ? d->end - 8 : 0;

	if (bits != 0) {
		struct xk_span span = xk_span_of(f, at, bits);

		if (span.end > low && span.begin < d->first)
			d->first = span.begin > low ? span.begin : low;
	}
}

/* Chooses the window's place in a header of len bytes. */
__attribute__((always_inline)) static inline void
xk_window_place(struct xk_window *w, struct xk_window_draft *d, size_t len)
{
	size_t span = d->end - d->first, size = span > 4 ? 8 : span > 2 ? 4 : span;

	if (d->end == 0)
		return;
	if (size > len) { /* short header: as much as fits; the next window has the rest */
		size /= 2;
		d->first = d->end - size;
	}
	w->at = (uint8_t)(d->first + size <= len ? d->first : len - size);
	w->len = (uint8_t)size;
}

/* Adds the bits of a field that lie in the window, and their values in usual messages. */
__attribute__((always_inline)) static inline void
xk_window_bits(struct xk_window *w, const struct xk_window_draft *d, const struct xk_field *f, size_t at, uint64_t bits)
{
	unsigned less = 64 - 8 * w->len;
	size_t left = 8 * (size_t)(w->at + w->len), end = at + f->bits; /* the window's last bit, and the field's */
	uint64_t in = left >= end ? bits << ((left - end) & 63) : bits >> ((end - left) & 63);
	uint64_t value = left >= end ? f->usual << ((left - end) & 63) : f->usual >> ((end - left) & 63);

	if (w->len == 0 || (left >= end && left - end >= 64) || (left < end && end - left >= 64))
		return;
	in &= UINT64_MAX >> ((8 * (d->first - w->at) + less) & 63); /* bytes from first on */
	in &= UINT64_MAX << 8 * ((size_t)w->at + w->len - d->end);  /* ... to the end */
	w->mask |= __builtin_bswap64(in) >> less;
	w->value |= __builtin_bswap64(value & in) >> less;
}

#define XK_FORMAT_FIELD(width, label, ...) (&(const struct xk_field){ .bits = width, __VA_ARGS__ })
#define XK_FORMAT_AT(label) offsetof(xk_header_bits, label)
#define XK_FORMAT_ADD(width, label, ...)                                                                               \
	xk_format_add(&format, XK_FORMAT_FIELD(width, label, __VA_ARGS__), XK_FORMAT_AT(label));
#define XK_FORMAT_STEP(step, of, width, label, ...)                                                                    \
	step(XK_FORMAT_FIELD(width, label, __VA_ARGS__), XK_FORMAT_AT(label),                                          \
	     of(XK_FORMAT_FIELD(width, label, __VA_ARGS__)))
#define XK_FORMAT_END_OF(f, at, bits) xk_window_end(&draft, f, at, bits);
#define XK_FORMAT_FIRST_OF(f, at, bits) xk_window_first(&draft, f, at, bits);
#define XK_FORMAT_BITS_OF(f, at, bits) xk_window_bits(window, &draft, f, at, bits);
#define XK_FORMAT_USUAL_END(...) XK_FORMAT_STEP(XK_FORMAT_END_OF, xk_field_usual, __VA_ARGS__)
#define XK_FORMAT_USUAL_FIRST(...) XK_FORMAT_STEP(XK_FORMAT_FIRST_OF, xk_field_usual, __VA_ARGS__)
#define XK_FORMAT_USUAL_BITS(...) XK_FORMAT_STEP(XK_FORMAT_BITS_OF, xk_field_usual, __VA_ARGS__)
#define XK_FORMAT_NAMES_END(...) XK_FORMAT_STEP(XK_FORMAT_END_OF, xk_field_names, __VA_ARGS__)
#define XK_FORMAT_NAMES_FIRST(...) XK_FORMAT_STEP(XK_FORMAT_FIRST_OF, xk_field_names, __VA_ARGS__)
#define XK_FORMAT_NAMES_BITS(...) XK_FORMAT_STEP(XK_FORMAT_BITS_OF, xk_field_names, __VA_ARGS__)
#define XK_FORMAT_WINDOW(LIST, of, place)                                                                              \
	window = place;                                                                                                \
	draft.end = 0;                                                                                                 \
	draft.first = SIZE_MAX;                                                                                        \
	LIST(XK_FORMAT_##of##_END)                                                                                     \
	LIST(XK_FORMAT_##of##_FIRST)                                                                                   \
	xk_window_place(window, &draft, format.len);                                                                   \
	LIST(XK_FORMAT_##of##_BITS)                                                                                    \
	draft.limit = draft.end == 0 ? 0 : draft.first;

/* Defines prefix_format(), which returns the format as a compile-time constant. */
#define XK_FORMAT(prefix, LIST)                                                                                        \
	__attribute__((always_inline, unused)) static inline struct xk_format prefix##_format(void)                    \
	{                                                                                                              \
		typedef struct prefix##_bits xk_header_bits;                                                           \
		struct xk_format format = { .len = sizeof(xk_header_bits) / 8, .fits = true };                         \
		struct xk_window_draft draft = { .limit = format.len };                                                \
		struct xk_window *window;                                                                              \
		LIST(XK_FORMAT_ADD)                                                                                    \
		XK_FORMAT_WINDOW(LIST, USUAL, &format.usual[0])                                                        \
		XK_FORMAT_WINDOW(LIST, USUAL, &format.usual[1])                                                        \
		XK_FORMAT_WINDOW(LIST, USUAL, &format.usual[2])                                                        \
		draft.limit = format.len;                                                                              \
		XK_FORMAT_WINDOW(LIST, NAMES, &format.names[0])                                                        \
		XK_FORMAT_WINDOW(LIST, NAMES, &format.names[1])                                                        \
		return format;                                                                                         \
	}                                                                                                              \
	static_assert(true, "")

/* Computes the format of a type. */
void xk_format_init(struct xk_format *format, const struct xk_protocol_type *type);

/* ---- functions ---- */

/*
 * Prints the fields and options of the header at p, as far as len bytes go, into text (room bytes, NUL-terminated):
 * "source 53, destination 1024, ..., stamp (stamp 7, echo 0)". Returns text. Any context.
 */
char *xk_header_print(const struct xk_protocol_type *type, const uint8_t *p, size_t len, char *text, size_t room);

/* Prints " VALUE" as xk_header_print does: by its name, or as the field's `print` says. Returns text. Any context. */
char *xk_field_print(const struct xk_field *field, uint64_t value, char *text, size_t room);

/* Returns the value of the field that begins at bit `at` of p. */
uint64_t xk_field_load(const struct xk_field *field, const uint8_t *p, size_t at);

#endif
