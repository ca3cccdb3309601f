/*
 * json.h - writes JSON to a stream incrementally: the caller opens and closes objects and arrays in order; the writer
 * adds commas, indentation and escapes. Keys are for objects; pass NULL in arrays.
 */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_DEPTH = 16 };

struct json {
	FILE *out;
	unsigned depth;
	bool filled[JSON_DEPTH]; /* a value was written at this depth, so a comma is due */
	char closer[JSON_DEPTH];
};

/* Hidden, because jansson has functions of the same names and must call its own. */
#pragma GCC visibility push(hidden)

/* Begins a document on out, which the caller still owns. */
void json_begin(struct json *json, FILE *out);
/* Ends it with a newline, after everything opened has been closed. Returns false if the stream failed. */
bool json_end(struct json *json);

void json_object(struct json *json, const char *key);
void json_array(struct json *json, const char *key);
/* Closes the object or array opened last. */
void json_close(struct json *json);

/* Writes a string, NULL as null; bytes that are not UTF-8 become U+FFFD. */
void json_string(struct json *json, const char *key, const char *value);
void json_uint(struct json *json, const char *key, uint64_t value);
/* Writes NaN and infinities as null. */
void json_double(struct json *json, const char *key, double value);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);

/*
 * Writes a string alone, in quotes. Escapes characters that a terminal or an HTML page would interpret (control
 * characters, <).
 */
void json_quote(FILE *out, const char *text);

#pragma GCC visibility pop

#endif
