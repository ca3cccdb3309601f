/* json_read.c - see json_read.h. Strings are decoded where they stand: what they stand for is never longer. */
#include "tools/json_read.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct json_reader {
	char *at, *end; /* *end is a zero byte */
	const char *why;
	unsigned depth;
};

static const struct json_value json_nothing = { .kind = JSON_NULL, .string = "" };

static bool
json_refuse(struct json_reader *reader, const char *why)
{
	if (reader->why == NULL)
		reader->why = why;
	return false;
}

static void
json_skip_blanks(struct json_reader *reader)
{
	while (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\n' || *reader->at == '\r')
		reader->at++;
}

/* ---- strings ---- */

static int
json_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits after \u; -1: they are none. */
static long
json_hex(const char *p)
{
	long code = 0;

	for (unsigned i = 0; i < 4; i++) {
		int digit = json_hex_digit(p[i]);

		if (digit < 0)
			return -1;
		code = code << 4 | digit;
	}
	return code;
}

/* Writes a character of at most three bytes; halves of pairs and what is no text become question marks. */
static char *
json_put(char *to, long code)
{
	if (code < ' ' || code == 0x7f || (code >= 0xd800 && code <= 0xdfff)) {
		*to++ = '?';
	} else if (code < 0x80) {
		*to++ = (char)code;
	} else if (code < 0x800) {
		*to++ = (char)(0xc0 | code >> 6);
		*to++ = (char)(0x80 | (code & 0x3f));
	} else {
		*to++ = (char)(0xe0 | code >> 12);
		*to++ = (char)(0x80 | (code >> 6 & 0x3f));
		*to++ = (char)(0x80 | (code & 0x3f));
	}
	return to;
}

/* What follows a backslash. Where it is written up to; NULL: refused. */
static char *
json_escape(struct json_reader *reader, char *to)
{
	char c = *reader->at++;
	long code;

	if (c == '"' || c == '\\' || c == '/')
		return json_put(to, c);
	if (c != '\0' && strchr("bfnrt", c) != NULL)
		return json_put(to, '?');
	if (c != 'u')
		return NULL;
	code = json_hex(reader->at);
	if (code < 0)
		return NULL;
	reader->at += 4;
	return json_put(to, code);
}

static bool
json_read_string(struct json_reader *reader, const char **string)
{
	char *to;

	if (*reader->at != '"')
		return json_refuse(reader, "a string is missing");
	to = ++reader->at;
	*string = to;
	while (*reader->at != '"') {
		if ((unsigned char)*reader->at < ' ')
			return json_refuse(reader, "a string does not end");
		if (*reader->at != '\\') {
			*to++ = *reader->at == 0x7f ? '?' : *reader->at;
			reader->at++;
			continue;
		}
		reader->at++;
		to = json_escape(reader, to);
		if (to == NULL)
			return json_refuse(reader, "an escape that is none");
	}
	reader->at++;
	*to = '\0';
	return true;
}

/* ---- the other values ---- */

static bool
json_read_number(struct json_reader *reader, uint64_t *number)
{
	const char *begin = reader->at;

	for (*number = 0; *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
		uint64_t digit = (uint64_t)(*reader->at - '0');

		if (*number > (UINT64_MAX - digit) / 10)
			return json_refuse(reader, "a number is too large");
		*number = *number * 10 + digit;
	}
	if (reader->at == begin)
		return json_refuse(reader, "a value is missing");
	if (*reader->at == '.' || *reader->at == 'e' || *reader->at == 'E')
		return json_refuse(reader, "a number is not whole");
	return true;
}

static bool
json_is_word(struct json_reader *reader, const char *word)
{
	if (strncmp(reader->at, word, strlen(word)) != 0)
		return false;
	reader->at += strlen(word);
	return true;
}

static struct json_value *
json_new(struct json_reader *reader)
{
	struct json_value *value = malloc(sizeof(*value));

	if (value == NULL)
		json_refuse(reader, "no memory");
	else
		*value = json_nothing;
	return value;
}

static bool json_read_value(struct json_reader *reader, struct json_value *value);

/* A member of an object or array, added at *last. */
static bool
json_read_member(struct json_reader *reader, bool has_key, struct json_value **last)
{
	struct json_value *value = json_new(reader);

	if (value == NULL)
		return false;
	*last = value;
	if (has_key) {
		json_skip_blanks(reader);
		if (!json_read_string(reader, &value->key))
			return false;
		json_skip_blanks(reader);
		if (*reader->at++ != ':')
			return json_refuse(reader, "a colon is missing");
	}
	return json_read_value(reader, value);
}

static bool
json_read_members(struct json_reader *reader, struct json_value *value, char closer)
{
	struct json_value **last = &value->first;
	bool is_object = closer == '}';

	if (reader->depth == JSON_READ_DEPTH)
		return json_refuse(reader, "it is nested too deep");
	value->kind = is_object ? JSON_OBJECT : JSON_ARRAY;
	reader->depth++;
	reader->at++;
	json_skip_blanks(reader);
	while (*reader->at != closer) {
		if (value->first != NULL && *reader->at++ != ',')
			return json_refuse(reader, "a comma is missing");
		if (!json_read_member(reader, is_object, last))
			return false;
		last = &(*last)->next;
		json_skip_blanks(reader);
	}
	reader->at++;
	reader->depth--;
	return true;
}

static bool
json_read_value(struct json_reader *reader, struct json_value *value)
{
	json_skip_blanks(reader);
	switch (*reader->at) {
	case '{':
		return json_read_members(reader, value, '}');
	case '[':
		return json_read_members(reader, value, ']');
	case '"':
		value->kind = JSON_STRING;
		return json_read_string(reader, &value->string);
	case 'n':
		return json_is_word(reader, "null") || json_refuse(reader, "a value is missing");
	case 't':
	case 'f':
		value->kind = JSON_BOOL;
		value->number = *reader->at == 't';
		return json_is_word(reader, value->number ? "true" : "false") ||
		       json_refuse(reader, "a value is missing");
	default:
		value->kind = JSON_NUMBER;
		return json_read_number(reader, &value->number);
	}
}

struct json_value *
json_read(char *text, size_t len, const char **why)
{
	struct json_reader reader = { .at = text, .end = text + len };
	struct json_value *root = json_new(&reader);
	bool good = root != NULL && json_read_value(&reader, root);

	if (good) {
		json_skip_blanks(&reader);
		good = reader.at == reader.end || json_refuse(&reader, "something follows the document");
	}
	*why = reader.why;
	if (good)
		return root;
	json_read_free(root);
	return NULL;
}

void
json_read_free(struct json_value *root)
{
	struct json_value *next;

	for (; root != NULL; root = next) {
		next = root->next;
		json_read_free(root->first);
		free(root);
	}
}

const struct json_value *
json_member(const struct json_value *object, const char *key)
{
	if (object->kind == JSON_OBJECT)
		for (const struct json_value *value = object->first; value != NULL; value = value->next)
			if (strcmp(value->key, key) == 0)
				return value;
	return &json_nothing;
}
