/*
 * json_read.h - reads a JSON document, of a stranger too: what is refused is refused as a whole, and reading is bounded
 * by the text's length and by JSON_READ_DEPTH. Numbers are whole and not negative: 0 to 2^64 - 1; others are refused.
 */
#ifndef JSON_READ_H
#define JSON_READ_H

#include <stddef.h>
#include <stdint.h>

enum { JSON_READ_DEPTH = 16 };

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_value {
	enum json_kind kind;
	const char *key;          /* in an object; otherwise NULL */
	const char *string;       /* "" unless it is one; characters below 32 and 127 are question marks, */
	uint64_t number;          /* a number, or a bool's 0 or 1 */
	struct json_value *first; /* of an array or object, */
	struct json_value *next;  /* the others */
};

/*
 * The document that text (len bytes and a zero byte) holds. text is written to and stays in use until json_read_free. NULL and a few
 * words in why: it is none, or there is no memory.
 */
struct json_value *json_read(char *text, size_t len, const char **why);
void json_read_free(struct json_value *root);

/* The member called key; what is not there, or is no object, is a null, whose members are nulls. Never NULL. */
const struct json_value *json_member(const struct json_value *object, const char *key);

#endif
