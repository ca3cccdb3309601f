/* header.c - see header.h. */
#include "xkernel/header.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "xkernel/protocol.h"

uint64_t
xk_field_load(const struct xk_field *field, const uint8_t *p, size_t at)
{
	uint64_t value = 0;

	for (size_t bit = at; bit < at + field->bits; bit++)
		value = value << 1 | (p[bit / 8] >> (7 - bit % 8) & 1);
	return value;
}

/* A text that grows while there is room. */
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

/* Adds the names of value's bits, and what is left of it as a number. */
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
xk_header_print(const struct xk_protocol_type *type, const uint8_t *p, size_t len, char *text, size_t room)
{
	struct header_text to = { text, room };
	size_t at = 0;

	if (room > 0)
		text[0] = '\0';
	for (const struct xk_field *field = type->fields; field != NULL && field->name != NULL; field++) {
		if (at + field->bits > len * 8)
			break;
		header_add(&to, "%s%s", at > 0 ? ", " : "", field->name);
		header_add_value(&to, field, xk_field_load(field, p, at));
		at += field->bits;
	}
	return text;
}
