/*
 * names.c - numbers, addresses and names in scripts; see packet.h.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/packet.h"

struct name *
name_find(struct names *names, const char *text)
{
	for (unsigned i = 0; i < names->count; i++)
		if (strcmp(names->list[i].text, text) == 0)
			return &names->list[i];
	return NULL;
}

bool
name_set(struct names *names, const char *text, uint64_t value)
{
	struct name *name = name_find(names, text);

	if (name == NULL) {
		if (names->count == NAME_COUNT || strlen(text) >= NAME_LEN)
			return false;
		name = &names->list[names->count++];
		snprintf(name->text, sizeof(name->text), "%s", text);
	}
	name->value = value;
	return true;
}

/* ---- one term ---- */

static bool
parse_host(const char *text, uint64_t *number)
{
	unsigned part[4];
	int used = 0;

	if (sscanf(text, "%3u.%3u.%3u.%3u%n", &part[0], &part[1], &part[2], &part[3], &used) != 4 || text[used] != '\0')
		return false;
	*number = 0;
	for (unsigned i = 0; i < 4; i++) {
		if (part[i] > 255)
			return false;
		*number = *number << 8 | part[i];
	}
	return true;
}

static bool
parse_link(const char *text, uint64_t *number)
{
	unsigned part[6];
	int used = 0;

	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &part[0], &part[1], &part[2], &part[3], &part[4], &part[5],
		   &used) != 6 ||
	    text[used] != '\0')
		return false;
	*number = 0;
	for (unsigned i = 0; i < 6; i++)
		*number = *number << 8 | part[i];
	return true;
}

uint64_t
link_of(const struct names *names, uint64_t host)
{
	for (unsigned i = 0; i < names->host_count; i++)
		if (names->host[i] == host)
			return names->link[i];
	return UINT64_C(0x020100000000) | host;
}

static bool
parse_plain(const char *text, uint64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	*number = strtoull(text, &end, 0);
	return *end == '\0';
}

static bool
parse_term(struct names *names, const char *text, uint64_t *number)
{
	const struct name *name;

	if (text[0] == '$') {
		name = name_find(names, text + 1);
		if (name != NULL)
			*number = name->value;
		return name != NULL;
	}
	if (text[0] == '@') {
		if (!parse_host(text + 1, number))
			return false;
		*number = link_of(names, *number);
		return true;
	}
	if (strcmp(text, "broadcast") == 0) {
		*number = UINT64_C(0xffffffffffff);
		return true;
	}
	return parse_host(text, number) || parse_link(text, number) || parse_plain(text, number);
}

/* ---- sums of terms ---- */

/* A sum of products being parsed: the sum of complete products, and the last product. */
struct sum {
	uint64_t total, product;
};

static bool
apply(struct sum *sum, char operator, uint64_t term)
{
	switch (operator) {
	case '*':
		sum->product *= term;
		return true;
	case '/':
		sum->product = term == 0 ? 0 : sum->product / term;
		return term != 0;
	case '%':
		sum->product = term == 0 ? 0 : sum->product % term;
		return term != 0;
	default:
		sum->total += sum->product;
		sum->product = operator== '-' ? -term : term;
		return true;
	}
}

bool
number_parse(struct names *names, const char *text, uint64_t *number, char *why)
{
	struct sum sum = { 0, 0 };
	char term[64], operator= '+';
	const char *rest = text;

	for (;;) {
		size_t len = strcspn(rest, "+-*/%");
		uint64_t value;

		snprintf(term, sizeof(term), "%.*s", (int)len, rest);
		if (len >= sizeof(term) || !parse_term(names, term, &value) || !apply(&sum, operator, value)) {
			snprintf(why, PACKET_WHY, "'%s' is not a number, an address or a $name with a value", text);
			return false;
		}
		*number = sum.total + sum.product;
		if (rest[len] == '\0')
			return true;
		operator= rest[len];
		rest += len + 1;
	}
}
