/*
 * options.h - a header that varies: a field with its length, and a list of options behind its fields, written once.
 *
 *	#define LLP_MSS(F) F(16, mss, .help = "longest payload")
 *	#define LLP_STAMP(F) F(32, stamp) F(32, echo)
 *	#define LLP_RANGE(F) F(32, begin) F(32, end)
 *	#define LLP_OPTIONS(O, R)                                   \
 *		O(2, mss, LLP_MSS)                                  \
 *		O(4, sack_permitted, XK_NO_FIELDS)                  \
 *		O(8, stamp, LLP_STAMP, .is_usual = true)            \
 *		R(5, sack, XK_NO_FIELDS, LLP_RANGE, .least = 1)
 *	XK_OPTIONS(llp, LLP_OPTIONS, offset, 4, LLP_BAD_OPTIONS);
 *	XK_OPTION_VALUES(llp, LLP_OPTIONS);
 *
 * An option is a byte `kind`, a byte `length` (of the whole option), and its fields; that of R repeats the fields of
 * its second list as often as its length says. The kinds 0 (the end) and 1 (no operation) have no length (RFC 791 and
 * 9293). The field `offset` holds the length of header and options, in units of 4 bytes.
 *
 * XK_OPTIONS defines llp_option_list, which the type names: the header's length and its options are checked by it, and
 * traces, dissectors, documentation and fuzzers show and make options by it. XK_OPTION_VALUES declares struct
 * llp_options (the values of all options; the fields' names differ), llp_options_load and llp_options_store.
 */
#ifndef XK_OPTIONS_H
#define XK_OPTIONS_H

#include "xkernel/header.h"

enum { XK_OPTION_END = 0, XK_OPTION_NONE = 1, XK_OPTION_HEAD = 2 /* bytes of kind and length */ };

/* A header of at most 15 words of 4 bytes leaves this to options behind 20 bytes of fields. */
enum { XK_OPTIONS_MAX = 40 };

struct xk_option {
	const char *name;              /* NULL ends the list */
	uint8_t kind;                  /* from 2 on */
	uint8_t once, each;            /* bytes of its fields, and of those that repeat (0: none do) */
	uint8_t least;                 /* of those that repeat */
	bool is_usual;                 /* a list that holds nothing else is loaded at once */
	unsigned drop;                 /* the reason to drop messages that have it; 0: none */
	const char *help;              /* a few words; NULL: the name suffices */
	const struct xk_field *fields; /* first those that come once */
};

/* The field of a header that holds its length, and the options behind the header. */
struct xk_option_list {
	uint8_t header;          /* bytes of the header without options */
	uint8_t at, shift, bits; /* the field's byte, and its place there */
	uint8_t unit;            /* bytes */
	unsigned drop;           /* the reason to drop messages with a malformed list */
	const struct xk_option *options;
};

#define XK_NO_FIELDS(F)

/* ---- one list ---- */

#define XK_OPTION_BYTES(FIELDS) (sizeof(struct { FIELDS(XK_HEADER_BITS) }) / 8)
#define XK_OPTION_ONCE(number, label, FIELDS, ...)                                                                     \
	{ .name = #label,                                                                                              \
	  .kind = number,                                                                                              \
	  .once = XK_OPTION_BYTES(FIELDS),                                                                             \
	  .fields = (const struct xk_field[]){ FIELDS(XK_HEADER_FIELD){ .name = NULL } },                              \
	  __VA_ARGS__ },
#define XK_OPTION_REPEATED(number, label, FIELDS, EACH, ...)                                                           \
	{ .name = #label,                                                                                              \
	  .kind = number,                                                                                              \
	  .once = XK_OPTION_BYTES(FIELDS),                                                                             \
	  .each = XK_OPTION_BYTES(EACH),                                                                               \
	  .fields = (const struct xk_field[]){ FIELDS(XK_HEADER_FIELD) EACH(XK_HEADER_FIELD){ .name = NULL } },        \
	  __VA_ARGS__ },

#define XK_OPTIONS(prefix, LIST, field, bytes, reason)                                                                 \
	__attribute__((unused)) static const struct xk_option_list prefix##_option_list = {                            \
		.header = XK_HEADER_LEN(prefix),                                                                       \
		.at = XK_OFFSET(prefix, field),                                                                        \
		.shift = 8 - offsetof(struct prefix##_bits, field) % 8 - sizeof(prefix##_places.field),                \
		.bits = sizeof(prefix##_places.field),                                                                 \
		.unit = bytes,                                                                                         \
		.drop = reason,                                                                                        \
		.options = (const struct xk_option[]){ LIST(XK_OPTION_ONCE, XK_OPTION_REPEATED){ .name = NULL } },     \
	};                                                                                                             \
	static_assert(offsetof(struct prefix##_bits, field) % 8 + sizeof(prefix##_places.field) <= 8,                  \
		      "a header's length lies in one byte")

/* Members of the struct of all values: `has_NAME` and the fields; or the fields, NAME_count and the array NAMEs. */
#define XK_OPTION_MEMBER(kind, name, FIELDS, ...)                                                                      \
	bool has_##name;                                                                                               \
	FIELDS(XK_HEADER_VALUE)
#define XK_OPTION_MEMBERS(kind, name, FIELDS, EACH, ...)                                                               \
	FIELDS(XK_HEADER_VALUE)                                                                                        \
	uint8_t name##_count;                                                                                          \
	struct {                                                                                                       \
		EACH(XK_HEADER_VALUE)                                                                                  \
	} name##s[(XK_OPTIONS_MAX - XK_OPTION_HEAD - XK_OPTION_BYTES(FIELDS)) / XK_OPTION_BYTES(EACH)];

/* Blocks of code for fields: at p, from or into `of`. */
#define XK_OPTION_LOAD_FIELD(bits, name, ...)                                                                          \
	h->name = (XK_UINT(bits))xk_bits_load(p, offsetof(xk_header_bits, name), bits);
#define XK_OPTION_FIELDS(FIELDS, of, STEP)                                                                             \
	{                                                                                                              \
		__attribute__((unused)) typedef struct {                                                               \
			FIELDS(XK_HEADER_BITS)                                                                         \
		} xk_header_bits;                                                                                      \
		__attribute__((unused)) __typeof__(of) *h = &(of);                                                     \
		FIELDS(STEP)                                                                                           \
	}
#define XK_OPTION_OF(number, FIELDS, repeated, ...)                                                                    \
	(&(const struct xk_option){ .kind = number, .once = XK_OPTION_BYTES(FIELDS), .each = repeated, __VA_ARGS__ })

#define XK_OPTION_LOAD_ALONE(kind, name, FIELDS, ...)                                                                  \
	if (xk_option_is_alone(XK_OPTION_OF(kind, FIELDS, 0, __VA_ARGS__), list, len)) {                               \
		p = list + len - XK_OPTION_BYTES(FIELDS);                                                              \
		values->has_##name = true;                                                                             \
		XK_OPTION_FIELDS(FIELDS, *values, XK_OPTION_LOAD_FIELD)                                                \
		return true;                                                                                           \
	}
#define XK_OPTION_LOAD(kind, name, FIELDS, ...)                                                                        \
	case kind:                                                                                                     \
		if (option != XK_OPTION_HEAD + XK_OPTION_BYTES(FIELDS))                                                \
			return false;                                                                                  \
		values->has_##name = true;                                                                             \
		p = list + at + XK_OPTION_HEAD;                                                                        \
		XK_OPTION_FIELDS(FIELDS, *values, XK_OPTION_LOAD_FIELD)                                                \
		break;
#define XK_OPTION_LOAD_REPEATED(kind, name, FIELDS, EACH, ...)                                                         \
	case kind:                                                                                                     \
		if (!xk_option_fits(XK_OPTION_OF(kind, FIELDS, XK_OPTION_BYTES(EACH), __VA_ARGS__), option))           \
			return false;                                                                                  \
		p = list + at + XK_OPTION_HEAD;                                                                        \
		XK_OPTION_FIELDS(FIELDS, *values, XK_OPTION_LOAD_FIELD)                                                \
		for (p += XK_OPTION_BYTES(FIELDS); p < list + at + option; p += XK_OPTION_BYTES(EACH)) {               \
			if (values->name##_count == XK_ARRAY_LENGTH(values->name##s))                                  \
				break;                                                                                 \
			XK_OPTION_FIELDS(EACH, values->name##s[values->name##_count], XK_OPTION_LOAD_FIELD)            \
			values->name##_count++;                                                                        \
		}                                                                                                      \
		break;
#define XK_OPTION_STORE(kind, name, FIELDS, ...)                                                                       \
	if (values->has_##name) {                                                                                      \
		p = xk_option_begin(list, &at, kind, XK_OPTION_BYTES(FIELDS));                                         \
		XK_OPTION_FIELDS(FIELDS, *values, XK_HEADER_STORE)                                                     \
	}
#define XK_OPTION_STORE_REPEATED(kind, name, FIELDS, EACH, ...)                                                        \
	if (values->name##_count > 0) {                                                                                \
		p = xk_option_begin(list, &at, kind,                                                                   \
				    XK_OPTION_BYTES(FIELDS) + values->name##_count * XK_OPTION_BYTES(EACH));           \
		XK_OPTION_FIELDS(FIELDS, *values, XK_HEADER_STORE)                                                     \
		p += XK_OPTION_BYTES(FIELDS);                                                                          \
		for (unsigned i = 0; i < values->name##_count; i++, p += XK_OPTION_BYTES(EACH))                        \
			XK_OPTION_FIELDS(EACH, values->name##s[i], XK_HEADER_STORE)                                    \
	}
#define XK_OPTION_NOTHING(...)

/*
 * llp_options_load loads the values of the options in len bytes, and zeros for those that are absent. It returns false
 * if the list is malformed. Of an option that occurs twice the last one counts; repeated fields are collected.
 * llp_options_store stores options in the order of their list, with no-operations that let fields end on whole words
 * (RFC 7323, appendix A), and returns their length, in whole words.
 */
#define XK_OPTION_VALUES(prefix, LIST)                                                                                 \
	struct prefix##_options {                                                                                      \
		LIST(XK_OPTION_MEMBER, XK_OPTION_MEMBERS)                                                              \
	};                                                                                                             \
	__attribute__((unused)) static inline bool prefix##_options_load(struct prefix##_options *values,              \
									 const uint8_t *list, size_t len)              \
	{                                                                                                              \
		const uint8_t *p;                                                                                      \
		size_t option;                                                                                         \
		memset(values, 0, sizeof(*values));                                                                    \
		LIST(XK_OPTION_LOAD_ALONE, XK_OPTION_NOTHING)                                                          \
		for (size_t at = 0; (option = xk_option_len(list + at, len - at)) != 0; at += option) {                \
			if (option > len - at)                                                                         \
				return false;                                                                          \
			switch (list[at]) {                                                                            \
				LIST(XK_OPTION_LOAD, XK_OPTION_LOAD_REPEATED)                                          \
			default:                                                                                       \
				break;                                                                                 \
			}                                                                                              \
		}                                                                                                      \
		return true;                                                                                           \
	}                                                                                                              \
	__attribute__((unused)) static inline size_t prefix##_options_store(uint8_t list[XK_OPTIONS_MAX],              \
									    const struct prefix##_options *values)     \
	{                                                                                                              \
		uint8_t *p;                                                                                            \
		size_t at = 0;                                                                                         \
		LIST(XK_OPTION_STORE, XK_OPTION_STORE_REPEATED)                                                        \
		while (at % 4 != 0)                                                                                    \
			list[at++] = XK_OPTION_NONE;                                                                   \
		return at;                                                                                             \
	}                                                                                                              \
	static_assert(true, "")

/* ---- the code of XK_OPTION_VALUES ---- */

/* Returns the length of the option at the start of len bytes; 0 if none is left; more than len if it is malformed. */
static inline size_t
xk_option_len(const uint8_t *p, size_t len)
{
	if (len == 0 || *p == XK_OPTION_END)
		return 0;
	if (*p == XK_OPTION_NONE)
		return 1;
	return len >= XK_OPTION_HEAD && p[1] >= XK_OPTION_HEAD ? p[1] : len + 1;
}

/* Returns whether an option may have this length. */
__attribute__((always_inline)) static inline bool
xk_option_fits(const struct xk_option *option, size_t len)
{
	size_t once = XK_OPTION_HEAD + (size_t)option->once;

	if (option->each == 0)
		return len == once;
	return len >= once + (size_t)option->least * option->each && (len - once) % option->each == 0;
}

/* Returns whether the list of len bytes holds this usual option as llp_options_store stores it, and nothing else. */
__attribute__((always_inline)) static inline bool
xk_option_is_alone(const struct xk_option *option, const uint8_t *p, size_t len)
{
	const uint8_t all[] = { XK_OPTION_NONE, XK_OPTION_NONE, XK_OPTION_NONE, option->kind,
				(uint8_t)(XK_OPTION_HEAD + option->once) };
	size_t pad = -(size_t)all[4] % 4;

	return option->is_usual && len == pad + all[4] && memcmp(p, all + 3 - pad, pad + XK_OPTION_HEAD) == 0;
}

/*
 * Stores kind and length of an option with fields of len bytes at *at, behind no-operations, and moves *at behind it.
 * Returns where its fields belong.
 */
__attribute__((always_inline)) static inline uint8_t *
xk_option_begin(uint8_t *list, size_t *at, uint8_t kind, size_t len)
{
	uint8_t *p;

	if (len > 0)
		while ((*at + XK_OPTION_HEAD + len) % 4 != 0)
			list[(*at)++] = XK_OPTION_NONE;
	p = list + *at;
	p[0] = kind;
	p[1] = (uint8_t)(XK_OPTION_HEAD + len);
	*at += XK_OPTION_HEAD + len;
	return p + XK_OPTION_HEAD;
}

/* ---- functions ---- */

/*
 * Returns the length of the options behind the header at p, which has `room` bytes behind it; SIZE_MAX if the header
 * claims less than its own length, or more than there is. Any context.
 */
static inline size_t
xk_options_len(const struct xk_option_list *list, const uint8_t *p, size_t room)
{
	unsigned value = p[list->at] >> list->shift & (0xff >> (8 - list->bits));
	size_t len = (size_t)value * list->unit - list->header;

	return len <= room ? len : SIZE_MAX;
}

/*
 * Checks the options in len bytes. Returns 0, or the reason to drop the message: that of the first option that is
 * malformed, or is itself a reason. Any context.
 */
unsigned xk_options_check(const struct xk_option_list *list, const uint8_t *p, size_t len);

/* Returns the option of this kind, or NULL. Any context. */
const struct xk_option *xk_option_find(const struct xk_option_list *list, uint8_t kind);

#endif
