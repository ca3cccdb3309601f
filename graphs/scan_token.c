/*
 * scan_token.c - a lexer for the DOT language; see scan_private.h.
 * Spec: https://graphviz.org/doc/info/lang.html, and lib/cgraph/scan.l of graphviz for details that it leaves open.
 */
#include "graphs/scan_private.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SCAN_JOINED_MAX = 256 };

/* ---- errors ---- */

void
scan_stop(struct scan_state *state)
{
	state->failed = true;
	state->next = state->end;
	state->token = SCAN_END;
}

void
scan_syntax(struct scan_state *state, const char *expected)
{
	unsigned token = state->token;

	if (token == SCAN_END)
		scan_fail(state, state->line, "syntax error at the end of the file: expected %s", expected);
	else if (state->text != NULL)
		scan_fail(state, state->token_line, "syntax error at \"%.40s\": expected %s", state->text, expected);
	else if (token == SCAN_ARROW || token == SCAN_LINE)
		scan_fail(state, state->token_line, "syntax error at \"%s\": expected %s",
			  token == SCAN_ARROW ? "->" : "--", expected);
	else
		scan_fail(state, state->token_line, "syntax error at '%c': expected %s", (int)token, expected);
}

/* ---- tokens ---- */

/*
 * Duplicates len bytes of text without a NUL. strndup of AddressSanitizer would search for a NUL to the end of the
 * text.
 */
static char *
scan_copy(const char *from, size_t len)
{
	char *copy = malloc(len + 1);

	xk_assert(copy != NULL);
	memcpy(copy, from, len);
	copy[len] = '\0';
	return copy;
}

bool
scan_at(const struct scan_state *state, const char *text)
{
	size_t len = strlen(text);

	return (size_t)(state->end - state->next) >= len && memcmp(state->next, text, len) == 0;
}

/* Takes one character, counting lines. */
static char
scan_take(struct scan_state *state)
{
	state->line += *state->next == '\n';
	return *state->next++;
}

static void
scan_space(struct scan_state *state)
{
	while (state->next < state->end) {
		unsigned line = state->line;

		if (scan_at(state, "/*")) {
			state->next += 2;
			while (state->next < state->end && !scan_at(state, "*/"))
				scan_take(state);
			if (state->next == state->end)
				scan_fail(state, line, "this comment is not closed by */");
			else
				state->next += 2;
		} else if (scan_at(state, "//") || *state->next == '#') {
			while (state->next < state->end && *state->next != '\n')
				state->next++;
		} else if (strchr(" \t\r\n", *state->next) != NULL) {
			scan_take(state);
		} else {
			return;
		}
	}
}

/* Takes "...", with DOT's escapes: \" is a quote, \ before the end of a line is nothing, every other \ stays. */
static void
scan_string(struct scan_state *state)
{
	const char *end = state->next + 1;
	unsigned line = state->line;
	char *to;

	while (end < state->end && *end != '"')
		end += *end == '\\' && end + 1 < state->end ? 2 : 1;
	to = state->text = malloc((size_t)(end - state->next) + 1); /* its maximum length */
	xk_assert(to != NULL);
	state->next++;
	while (state->next < state->end && *state->next != '"') {
		char c = scan_take(state);

		if (c == '\\' && state->next < state->end && *state->next == '"') {
			c = scan_take(state);
		} else if (c == '\\' && (scan_at(state, "\n") || scan_at(state, "\r\n"))) {
			while (scan_take(state) != '\n')
				;
			continue;
		} else if (c == '\\' && *state->next == '\\') {
			*to++ = scan_take(state);
		}
		*to++ = c;
	}
	*to = '\0';
	if (state->next == state->end)
		scan_fail(state, line, "this string is not closed by \"");
	else
		state->next++;
}

static void
scan_html(struct scan_state *state)
{
	const char *from = state->next + 1;
	unsigned line = state->line, nest = 0;

	do {
		char c = scan_take(state);

		nest += c == '<';
		nest -= c == '>';
	} while (nest != 0 && state->next < state->end);
	if (nest != 0)
		scan_fail(state, line, "this HTML-like string is not closed by >");
	state->text = scan_copy(from, (size_t)(state->next - from) - (nest == 0));
}

static bool
scan_is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* Returns the end of the number at p (-1, .5, 3., 1.25), or p if there is none. */
static const char *
scan_number_end(const char *p)
{
	const char *q = p + (*p == '-'), *digits = q;

	while (isdigit((unsigned char)*q))
		q++;
	if (*q == '.' && (q > digits || isdigit((unsigned char)q[1])))
		for (q++; isdigit((unsigned char)*q);)
			q++;
	return q > digits ? q : p;
}

static void
scan_word(struct scan_state *state)
{
	static const struct {
		const char *word;
		enum scan_token token;
	} words[] = {
		{ "strict", SCAN_STRICT },     { "graph", SCAN_GRAPH }, { "digraph", SCAN_DIGRAPH },
		{ "subgraph", SCAN_SUBGRAPH }, { "node", SCAN_NODE },   { "edge", SCAN_EDGE },
	};
	const char *from = state->next, *number = scan_number_end(from), *to = number > from ? number : from;

	while (to < state->end && scan_is_name(*to))
		to++;
	state->text = scan_copy(from, (size_t)(to - from));
	state->next += to - from;
	state->token = SCAN_NAME;
	if (number > from && to > number)
		scan_fail(state, state->token_line, "\"%.40s\" starts with a number but is not one: put it in quotes",
			  state->text);
	for (size_t i = 0; i < XK_ARRAY_LENGTH(words); i++)
		if (strcasecmp(state->text, words[i].word) == 0)
			state->token = words[i].token;
}

void
scan_next(struct scan_state *state)
{
	scan_space(state);
	free(state->text);
	state->text = NULL;
	state->token_line = state->line;
	if (state->next == state->end) {
		state->token = SCAN_END;
		return;
	}
	if (scan_at(state, "->") || scan_at(state, "--")) {
		state->token = state->next[1] == '>' ? SCAN_ARROW : SCAN_LINE;
		state->next += 2;
	} else if (*state->next == '"') {
		state->token = SCAN_STRING;
		scan_string(state);
	} else if (*state->next == '<') {
		state->token = SCAN_HTML;
		scan_html(state);
	} else if (scan_is_name(*state->next) || scan_number_end(state->next) > state->next) {
		scan_word(state);
	} else {
		state->token = (unsigned char)scan_take(state);
	}
	if (state->failed)
		state->token = SCAN_END;
}

bool
scan_is_id(const struct scan_state *state)
{
	return state->token == SCAN_NAME || state->token == SCAN_STRING || state->token == SCAN_HTML;
}

char *
scan_id(struct scan_state *state, bool *html, const char *expected)
{
	bool string = state->token != SCAN_NAME;
	char *id;

	if (!scan_is_id(state)) {
		scan_syntax(state, expected);
		return NULL;
	}
	*html = state->token == SCAN_HTML;
	id = state->text;
	state->text = NULL;
	scan_next(state);
	while (string && state->token == '+') {
		scan_next(state);
		if (++state->joined > SCAN_JOINED_MAX)
			scan_fail(state, state->line, "more than %d strings are joined by +", SCAN_JOINED_MAX);
		if (state->token != SCAN_STRING || *html) {
			scan_syntax(state, "a quoted string on both sides of +");
			free(id);
			return NULL;
		}
		id = realloc(id, strlen(id) + strlen(state->text) + 1);
		xk_assert(id != NULL);
		strcat(id, state->text);
		scan_next(state);
	}
	return id;
}

bool
scan_accept(struct scan_state *state, unsigned token)
{
	if (state->token != token)
		return false;
	scan_next(state);
	return true;
}
