/* json.c - see json.h. */
#include "tools/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "xkernel/base.h"

/*
 * Returns the length of the UTF-8 sequence at p, and its character; 0 if it is invalid (overlong, surrogate,
 * truncated).
 */
static unsigned
json_utf8(const uint8_t *p, uint32_t *character)
{
	static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
	unsigned more = *p < 0x80 ? 0 : *p < 0xc0 ? 4 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : *p < 0xf8 ? 3 : 4;

	if (more == 4)
		return 0;
	*character = more == 0 ? *p : *p & (0x3fu >> more);
	for (unsigned i = 1; i <= more; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*character = *character << 6 | (p[i] & 0x3f);
	}
	return *character < least[more] || *character > 0x10ffff || (*character & ~0x7ffu) == 0xd800 ? 0 : more + 1;
}

void
json_quote(FILE *out, const char *text)
{
	const uint8_t *p = (const uint8_t *)text;

	fputc('"', out);
	while (*p != '\0') {
		uint32_t character;
		unsigned len = json_utf8(p, &character);

		if (len == 0)
			fputs("\\ufffd", out);
		else if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else if (*p == '\n')
			fputs("\\n", out);
		else if (*p == '\t')
			fputs("\\t", out);
		else if (character < 0x20 || (character >= 0x7f && character < 0xa0) || character == '<')
			fprintf(out, "\\u%04x", (unsigned)character);
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
