/* header.c - see header.h. */
#include "xkernel/header.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "xkernel/protocol.h"

uint64_t
xk_field_load(const struct xk_field *field, const uint8_t *p, size_t at)
{
	uint64_t value = 0;

	for (size_t bit = at; bit < at + field->bits; bit++)
		value = value << 1 | (p[bit / 8] >> (7 - bit % 8) & 1);
	return value;
}

/* ---- formats ---- */

/* Makes windows over the bits of a type's fields that `of` returns. Returns false if `count` of them do not suffice. */
static bool
format_windows(struct xk_window w[], unsigned count, const struct xk_protocol_type *type,
	       uint64_t (*of)(const struct xk_field *f))
{
	struct xk_window_draft d = { .limit = type->header };
	const struct xk_field *f;
	size_t at;

	for (unsigned i = 0; i <= count; i++, d.limit = d.first) {
		d.end = 0;
		d.first = SIZE_MAX;
		for (f = type->fields, at = 0; f->name != NULL; at += f->bits, f++)
			xk_window_end(&d, f, at, of(f));
		if (d.end == 0 || i == count)
			break;
		for (f = type->fields, at = 0; f->name != NULL; at += f->bits, f++)
			xk_window_first(&d, f, at, of(f));
		xk_window_place(&w[i], &d, type->header);
		for (f = type->fields, at = 0; f->name != NULL; at += f->bits, f++)
			xk_window_bits(&w[i], &d, f, at, of(f));
	}
	return d.end == 0;
}

static uint64_t
format_usual(const struct xk_field *f)
{
	return xk_field_usual(f);
}

static uint64_t
format_names(const struct xk_field *f)
{
	return xk_field_names(f);
}

void
xk_format_init(struct xk_format *format, const struct xk_protocol_type *type)
{
	size_t at = 0;

	*format = (struct xk_format){ .len = (uint8_t)type->header, .fits = type->header <= UINT8_MAX };
	if (!format->fits || type->fields == NULL)
		return;
	for (const struct xk_field *f = type->fields; f->name != NULL; at += f->bits, f++)
		xk_format_add(format, f, at);
	format->fits &= format_windows(format->usual, XK_USUAL, type, format_usual) &&
			format_windows(format->names, XK_NAMES, type, format_names);
}

void
xk_header_usual(struct xk_protocol *self, const char *field, uint64_t value)
{
	struct xk_field own;
	size_t at = 0;

	for (const struct xk_field *f = self->type->fields; f->name != NULL; at += f->bits, f++) {
		if (strcmp(f->name, field) != 0)
			continue;
		own = *f;
		own.usual = value;
		for (unsigned i = 0; i < XK_USUAL; i++) {
			struct xk_window *w = &self->format.usual[i];
			struct xk_window_draft all = { .first = w->at, .end = (size_t)w->at + w->len };
			struct xk_window bits = { .at = w->at, .len = w->len };

			xk_window_bits(&bits, &all, &own, at, xk_field_usual(f));
			w->value = (w->value & ~bits.mask) | (bits.value & w->mask);
		}
	}
}

/* ---- printing ---- */

/* A buffer for text, and the room left in it. */
struct header_text {
	char *at;
	size_t room;
};

__attribute__((format(printf, 2, 3))) static void
header_add(struct header_text *text, const char *format, ...)
{
	va_list arguments;
	int len;

	va_start(arguments, format);
	len = vsnprintf(text->at, text->room, format, arguments);
	va_end(arguments);
	if (len < 0 || (size_t)len >= text->room)
		len = text->room == 0 ? 0 : (int)text->room - 1;
	text->at += len;
	text->room -= (size_t)len;
}

/* Adds the names of value's bits, and the rest of it as a number. */
static void
header_add_bits(struct header_text *text, const struct xk_field *field, uint64_t value)
{
	const char *before = " ";

	for (const struct xk_field_value *v = field->values; v != NULL && v->name != NULL; v++)
		if ((value & v->value) != 0) {
			header_add(text, "%s%s", before, v->name);
			value &= ~v->value;
			before = "|";
		}
	if (value != 0 || *before == ' ')
		header_add(text, "%s%#" PRIx64, before, value);
}

static void
header_add_value(struct header_text *text, const struct xk_field *field, uint64_t value)
{
	const struct xk_field_value *v = field->values;
	char host[16];

	while (v != NULL && v->name != NULL && v->value != value)
		v++;
	if (field->is_bits)
		header_add_bits(text, field, value);
	else if (v != NULL && v->name != NULL)
		header_add(text, " %s", v->name);
	else if (field->print == XK_PRINT_HOST)
		header_add(text, " %s", xk_host_print((uint32_t)value, host));
	else if (field->print == XK_PRINT_LINK)
		header_add(text, " %012" PRIx64, value);
	else if (field->print == XK_PRINT_HEX)
		header_add(text, " %0*" PRIx64, (int)(field->bits + 3) / 4, value);
	else
		header_add(text, " %" PRIu64, value);
}

char *
xk_field_print(const struct xk_field *field, uint64_t value, char *text, size_t room)
{
	if (room > 0)
		text[0] = '\0';
	header_add_value(&(struct header_text){ text, room }, field, value);
	return text;
}

/* Adds an option that has a length it may have: " VALUE" if that says it all, or " (FIELD VALUE, ...)". */
static void
header_add_option(struct header_text *text, const struct xk_option *option, const uint8_t *p, size_t len)
{
	const struct xk_field *field = option->fields;
	bool is_plain = field->name != NULL && strcmp(field->name, option->name) == 0 && field[1].name == NULL;

	header_add(text, ", %s", option->name);
	if (is_plain) {
		header_add_value(text, field, xk_field_load(field, p, 0));
		return;
	}
	for (size_t at = 0; at < len * 8; at += field->bits, field++) {
		if (field->name == NULL) /* the repeated ones again */
			for (size_t bits = 0; bits < option->each * (size_t)8; bits += field->bits)
				field--;
		header_add(text, at == 0 ? " (%s" : ", %s", field->name);
		header_add_value(text, field, xk_field_load(field, p, at));
	}
	header_add(text, "%s", len > 0 ? ")" : "");
}

/* Adds the options in len bytes, without no-operations; unknown and malformed ones by their kinds. */
static void
header_add_options(struct header_text *text, const struct xk_option_list *list, const uint8_t *p, size_t len)
{
	size_t option_len;

	for (size_t at = 0; (option_len = xk_option_len(p + at, len - at)) != 0; at += option_len) {
		const struct xk_option *option = xk_option_find(list, p[at]);

		if (option_len > len - at || (option != NULL && !xk_option_fits(option, option_len))) {
			header_add(text, ", option %u (malformed)", p[at]);
			return;
		}
		if (option != NULL)
			header_add_option(text, option, p + at + XK_OPTION_HEAD, option_len - XK_OPTION_HEAD);
		else if (p[at] != XK_OPTION_NONE)
			header_add(text, ", option %u", p[at]);
	}
}

char *
xk_header_print(const struct xk_protocol_type *type, const uint8_t *p, size_t len, char *text, size_t room)
{
	struct header_text to = { text, room };
	const struct xk_option_list *list = type->options;
	size_t at = 0, options;

	if (room > 0)
		text[0] = '\0';
	for (const struct xk_field *field = type->fields; field != NULL && field->name != NULL; field++) {
		if (at + field->bits > len * 8)
			break;
		header_add(&to, "%s%s", at > 0 ? ", " : "", field->name);
		header_add_value(&to, field, xk_field_load(field, p, at));
		at += field->bits;
	}
	if (list != NULL && len > list->header) {
		options = xk_options_len(list, p, len - list->header);
		header_add_options(&to, list, p + list->header, options == SIZE_MAX ? 0 : options);
	}
	return text;
}
