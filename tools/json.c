/* json.c - see json.h. */
#include "tools/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "xkernel/base.h"

/* Returns the length of the UTF-8 sequence at p, or 0 if it is none (overlong, a surrogate, cut off). */
static unsigned
json_utf8(const uint8_t *p)
{
	static const struct {
		uint8_t mask, lead;
		uint32_t least;
	} forms[] = { { 0x80, 0x00, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 } };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(forms); i++) {
		uint32_t code = p[0] & (uint8_t)~forms[i].mask;

		if ((p[0] & forms[i].mask) != forms[i].lead)
			continue;
		for (unsigned k = 1; k <= i; k++) {
			if ((p[k] & 0xc0) != 0x80)
				return 0;
			code = code << 6 | (p[k] & 0x3f);
		}
		return code >= forms[i].least && code <= 0x10ffff && (code & 0xfffff800) != 0xd800 ? i + 1 : 0;
	}
	return 0;
}

static void
json_quote(FILE *out, const char *text)
{
	const uint8_t *p = (const uint8_t *)text;

	fputc('"', out);
	while (*p != '\0') {
		unsigned len = json_utf8(p);

		if (len == 0)
			fputs("\\ufffd", out);
		else if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else if (*p == '\n')
			fputs("\\n", out);
		else if (*p == '\t')
			fputs("\\t", out);
		else if (*p < 0x20 || *p == 0x7f)
			fprintf(out, "\\u%04x", *p);
		else if (*p == 0xc2 && p[1] < 0xa0) /* control characters to a terminal, too */
			fprintf(out, "\\u%04x", p[1]);
		else
			fwrite(p, 1, len, out);
		p += len == 0 ? 1 : len;
	}
	fputc('"', out);
}

/* Begins a value: a comma, a new line, the key. */
static void
json_item(struct json *json, const char *key)
{
	if (json->filled[json->depth])
		fputc(',', json->out);
	json->filled[json->depth] = true;
	if (json->depth > 0)
		fprintf(json->out, "\n%*s", (int)(2 * json->depth), "");
	if (key != NULL) {
		json_quote(json->out, key);
		fputs(": ", json->out);
	}
}

static void
json_open(struct json *json, const char *key, char opener, char closer)
{
	json_item(json, key);
	fputc(opener, json->out);
	xk_assert(json->depth + 1 < JSON_DEPTH);
	json->depth++;
	json->closer[json->depth] = closer;
	json->filled[json->depth] = false;
}

void
json_begin(struct json *json, FILE *out)
{
	*json = (struct json){ .out = out };
}

bool
json_end(struct json *json)
{
	xk_assert(json->depth == 0);
	fputc('\n', json->out);
	return fflush(json->out) == 0 && !ferror(json->out);
}

void
json_object(struct json *json, const char *key)
{
	json_open(json, key, '{', '}');
}

void
json_array(struct json *json, const char *key)
{
	json_open(json, key, '[', ']');
}

void
json_close(struct json *json)
{
	bool filled = json->filled[json->depth];
	char closer = json->closer[json->depth];

	xk_assert(json->depth > 0);
	json->depth--;
	if (filled)
		fprintf(json->out, "\n%*s", (int)(2 * json->depth), "");
	fputc(closer, json->out);
}

void
json_string(struct json *json, const char *key, const char *value)
{
	json_item(json, key);
	if (value == NULL)
		fputs("null", json->out);
	else
		json_quote(json->out, value);
}

void
json_uint(struct json *json, const char *key, uint64_t value)
{
	json_item(json, key);
	fprintf(json->out, "%" PRIu64, value);
}

void
json_double(struct json *json, const char *key, double value)
{
	json_item(json, key);
	if (isfinite(value))
		fprintf(json->out, "%.6g", value);
	else
		fputs("null", json->out);
}

void
json_bool(struct json *json, const char *key, bool value)
{
	json_item(json, key);
	fputs(value ? "true" : "false", json->out);
}

void
json_null(struct json *json, const char *key)
{
	json_string(json, key, NULL);
}
