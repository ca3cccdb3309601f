/* draw_text.c - what a file says, in a picture; see draw_text.h. */
#include "graphs/draw_text.h"

#include <string.h>

/* The length of the UTF-8 character at p, or 0: it is none. */
static unsigned
draw_character(const unsigned char *p)
{
	unsigned len = *p < 0x80 ? 1 : *p >= 0xf0 && *p < 0xf5 ? 4 : *p >= 0xe0 ? 3 : 2;

	if (*p >= 0xf5 || (*p >= 0x80 && *p < 0xc2))
		return 0;
	for (unsigned i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

void
draw_text(FILE *stream, const char *text, unsigned max)
{
	const unsigned char *p = (const unsigned char *)text;

	for (unsigned count = 0; *p != '\0' && count < max; count++) {
		unsigned len = draw_character(p);

		if (len == 1 && strchr("&<>\"'\\[]{}", *p) != NULL)
			fprintf(stream, "&#%u;", *p);
		else if (len == 0 || *p < ' ' || *p == 0x7f)
			putc('?', stream);
		else
			fwrite(p, 1, len, stream);
		p += len == 0 ? 1 : len;
	}
	if (*p != '\0')
		fputs("&#8230;", stream);
}

void
draw_row_begin(FILE *stream, const char *colour)
{
	fprintf(stream, "<tr><td><font point-size=\"10\" color=\"%s\">", colour);
}

void
draw_row_end(FILE *stream)
{
	fputs("</font></td></tr>", stream);
}

void
draw_row(FILE *stream, const char *colour, const char *text)
{
	draw_row_begin(stream, colour);
	draw_text(stream, text, DRAW_VALUE_MAX);
	draw_row_end(stream);
}

void
draw_row_setting(FILE *stream, const char *name, const char *value)
{
	draw_row_begin(stream, DRAW_FAINT);
	draw_text(stream, name, DRAW_VALUE_MAX);
	fputs(" = ", stream);
	draw_text(stream, value, DRAW_VALUE_MAX);
	draw_row_end(stream);
}

const char *
draw_base_name(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash == NULL ? file : slash + 1;
}
