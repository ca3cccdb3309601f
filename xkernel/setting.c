/*
 * setting.c - values from a graph file or a command line, as text: parsed whole or refused with what was expected.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xkernel/protocol.h"

enum { SETTING_TEXT = 24 };

/* ---- numbers ---- */

static bool
setting_digit(char c, unsigned base, unsigned *digit)
{
	if (c >= '0' && c <= '9')
		*digit = (unsigned)(c - '0');
	else if (c >= 'a' && c <= 'f')
		*digit = (unsigned)(c - 'a') + 10;
	else if (c >= 'A' && c <= 'F')
		*digit = (unsigned)(c - 'A') + 10;
	else
		return false;
	return *digit < base;
}

/* Parses at least one digit and as many as there are. NULL: there is none, or too many; otherwise what follows. */
static const char *
setting_digits(const char *text, unsigned base, uint64_t *value)
{
	const char *p = text;
	unsigned digit;

	*value = 0;
	for (; setting_digit(*p, base, &digit); p++)
		if (__builtin_mul_overflow(*value, base, value) || __builtin_add_overflow(*value, digit, value))
			return NULL;
	return p == text ? NULL : p;
}

static bool
setting_uint_parse(const char *text, uint64_t *value)
{
	uint64_t factor = 1;

	if (text[0] == '0' && text[1] == 'x')
		text = setting_digits(text + 2, 16, value);
	else
		text = setting_digits(text, 10, value);
	if (text == NULL)
		return false;
	if (*text == 'k')
		factor = 1024;
	else if (*text == 'm')
		factor = 1024 * 1024;
	return text[factor != 1] == '\0' && !__builtin_mul_overflow(*value, factor, value);
}

static const struct setting_unit {
	const char *name;
	uint64_t ns;
} setting_units[] = { { "s", 1000000000 }, { "ms", 1000000 }, { "us", 1000 }, { "ns", 1 } };

bool
xk_time_parse(const char *text, uint64_t *ns)
{
	uint64_t value;

	text = setting_digits(text, 10, &value);
	if (text == NULL)
		return false;
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(setting_units); i++)
		if (strcmp(text, setting_units[i].name) == 0)
			return !__builtin_mul_overflow(value, setting_units[i].ns, ns);
	return false;
}

/* In the coarsest unit that is exact; text has SETTING_TEXT bytes. */
static const char *
setting_time_print(uint64_t ns, char *text)
{
	const struct setting_unit *unit = setting_units;

	while (ns % unit->ns != 0)
		unit++;
	snprintf(text, SETTING_TEXT, "%llu%s", (unsigned long long)(ns / unit->ns), unit->name);
	return text;
}

static bool
setting_bool_parse(const char *text, bool *value)
{
	static const char *const words[] = { "no", "yes", "false", "true", "0", "1" };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(words); i++)
		if (strcmp(text, words[i]) == 0) {
			*value = i % 2 == 1;
			return true;
		}
	return false;
}

/* ---- addresses ---- */

/* A number of one to three digits without leading zeros, at most max. NULL, or what follows. */
static const char *
setting_small(const char *text, unsigned max, uint32_t *value)
{
	uint64_t number;
	const char *end = setting_digits(text, 10, &number);

	if (end == NULL || end - text > 3 || (text[0] == '0' && end - text > 1) || number > max)
		return NULL;
	*value = (uint32_t)number;
	return end;
}

/* NULL, or what follows the address. */
static const char *
setting_host(const char *text, uint32_t *host)
{
	uint32_t part;

	*host = 0;
	for (unsigned i = 0; i < 4; i++) {
		if (i > 0 && *text++ != '.')
			return NULL;
		text = setting_small(text, 255, &part);
		if (text == NULL)
			return NULL;
		*host = *host << 8 | part;
	}
	return text;
}

bool
xk_host_parse(const char *text, uint32_t *host)
{
	uint32_t value;
	const char *end = setting_host(text, &value);

	if (end == NULL || *end != '\0')
		return false;
	*host = value;
	return true;
}

char *
xk_host_print(uint32_t host, char *text)
{
	snprintf(text, 16, "%u.%u.%u.%u", host >> 24, host >> 16 & 255, host >> 8 & 255, host & 255);
	return text;
}

static bool
setting_network_parse(const char *text, struct xk_network *network)
{
	text = setting_host(text, &network->host);
	if (text == NULL || *text != '/')
		return false;
	text = setting_small(text + 1, 32, &network->bits);
	return text != NULL && *text == '\0';
}

static bool
setting_link_parse(const char *text, uint64_t *link)
{
	unsigned high, low;

	*link = 0;
	for (unsigned i = 0; i < 6; i++) {
		if (i > 0 && *text++ != ':')
			return false;
		if (!setting_digit(text[0], 16, &high) || !setting_digit(text[1], 16, &low))
			return false;
		*link = *link << 8 | high << 4 | low;
		text += 2;
	}
	return *text == '\0';
}

/* ---- settings ---- */

static bool
setting_has_limits(const struct xk_setting *setting)
{
	return setting->min != 0 || setting->max != 0;
}

static bool
setting_allows(const struct xk_setting *setting, uint64_t value)
{
	return !setting_has_limits(setting) || (value >= setting->min && value <= setting->max);
}

/* What was expected, where the text was of the right kind or not. */
static void
setting_explain(const struct xk_setting *setting, char *why, size_t why_len)
{
	static const char *const kinds[] = {
		[XK_SETTING_UINT] = "a number such as 64, 0x40 or 16k",
		[XK_SETTING_BOOL] = "yes, no, true, false, 0 or 1",
		[XK_SETTING_TIME] = "a time such as 20us, 3ms or 2s",
		[XK_SETTING_STRING] = "a text",
		[XK_SETTING_HOST] = "an address such as 10.77.0.1",
		[XK_SETTING_NETWORK] = "an address with the bits of its network, such as 10.77.0.1/24",
		[XK_SETTING_LINK] = "a link address such as 02:00:00:00:00:01",
	};
	char min[SETTING_TEXT], max[SETTING_TEXT];

	if (setting->type == XK_SETTING_UINT && setting_has_limits(setting))
		snprintf(why, why_len, "expects a number from %llu to %llu", (unsigned long long)setting->min,
			 (unsigned long long)setting->max);
	else if (setting->type == XK_SETTING_TIME && setting_has_limits(setting))
		snprintf(why, why_len, "expects a time from %s to %s, such as 20us, 3ms or 2s",
			 setting->min == 0 ? "0s" : setting_time_print(setting->min, min),
			 setting_time_print(setting->max, max));
	else
		snprintf(why, why_len, "expects %s", kinds[setting->type]);
}

static int
setting_string_parse(const char *text, const char **value, char *why, size_t why_len)
{
	char *copy = strdup(text);

	if (copy == NULL) {
		snprintf(why, why_len, "finds no memory for a text of %zu bytes", strlen(text));
		return -ENOMEM;
	}
	free((char *)(uintptr_t)*value);
	*value = copy;
	return 0;
}

/* Parses text into *value, as large as the type's; *len is then how many bytes of it count. */
static bool
setting_value_parse(const struct xk_setting *setting, const char *text, void *value, size_t *len)
{
	switch (setting->type) {
	case XK_SETTING_UINT:
		*len = sizeof(uint64_t);
		return setting_uint_parse(text, value) && setting_allows(setting, *(uint64_t *)value);
	case XK_SETTING_TIME:
		*len = sizeof(uint64_t);
		return xk_time_parse(text, value) && setting_allows(setting, *(uint64_t *)value);
	case XK_SETTING_BOOL:
		*len = sizeof(bool);
		return setting_bool_parse(text, value);
	case XK_SETTING_HOST:
		*len = sizeof(uint32_t);
		return xk_host_parse(text, value);
	case XK_SETTING_NETWORK:
		*len = sizeof(struct xk_network);
		return setting_network_parse(text, value);
	case XK_SETTING_LINK:
		*len = sizeof(uint64_t);
		return setting_link_parse(text, value);
	case XK_SETTING_STRING:
		break;
	}
	return false;
}

int
xk_setting_parse(const struct xk_setting *setting, const char *text, void *instance, char *why, size_t why_len)
{
	void *place = (char *)instance + setting->offset;
	/* What is refused leaves the setting as it was. */
	union {
		uint64_t number;
		uint32_t host;
		bool truth;
		struct xk_network network;
	} value = { .number = 0 };
	size_t len;

	if (setting->type == XK_SETTING_STRING)
		return setting_string_parse(text, place, why, why_len);
	if (!setting_value_parse(setting, text, &value, &len)) {
		setting_explain(setting, why, why_len);
		return -EINVAL;
	}
	memcpy(place, &value, len);
	return 0;
}

const struct xk_protocol_type *
xk_protocol_type_find(const char *name)
{
	for (const struct xk_protocol_type *const *type = xk_protocol_types; *type != NULL; type++)
		if (strcmp((*type)->name, name) == 0)
			return *type;
	return NULL;
}
