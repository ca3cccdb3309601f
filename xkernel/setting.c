/* setting.c - parses settings' values: accepts a whole text, or refuses it and states what it expected. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xkernel/protocol.h"

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

/* Parses one or more digits. Returns the rest of the text, or NULL if there is no digit or the number is too large. */
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

/* A unit. Lists are sorted from the largest unit to 1; NULL ends them. */
struct setting_unit {
	const char *name;
	uint64_t size;
};

static const struct setting_unit setting_times[] = {
	{ "s", 1000000000 }, { "ms", 1000000 }, { "us", 1000 }, { "ns", 1 }, { NULL, 0 }
};
static const struct setting_unit setting_rates[] = { { "Tb/s", UINT64_C(1000000000000) },
						     { "Gb/s", 1000000000 },
						     { "Mb/s", 1000000 },
						     { "kb/s", 1000 },
						     { "b/s", 1 },
						     { NULL, 0 } };

/* Returns the size of the unit called name, or 0. */
static uint64_t
setting_unit_size(const struct setting_unit *units, const char *name)
{
	while (units->name != NULL && strcmp(units->name, name) != 0)
		units++;
	return units->size;
}

bool
xk_time_parse(const char *text, uint64_t *ns)
{
	uint64_t value, unit;

	text = setting_digits(text, 10, &value);
	if (text == NULL)
		return false;
	unit = setting_unit_size(setting_times, text);
	return unit != 0 && !__builtin_mul_overflow(value, unit, ns);
}

/* Prints value in the largest exact unit. */
static char *
setting_unit_print(const struct setting_unit *units, uint64_t value, char *text)
{
	while (value % units->size != 0)
		units++;
	snprintf(text, XK_SETTING_TEXT, "%llu%s", (unsigned long long)(value / units->size), units->name);
	return text;
}

/* ---- fractions ---- */

/* A decimal fraction: "1.28" is 128 with 2 digits after the point. */
struct setting_decimal {
	uint64_t value;
	unsigned fraction;
};

/* Parses a decimal fraction. Returns the rest of the text, or NULL if there is none or it is too long. */
static const char *
setting_decimal(const char *text, struct setting_decimal *decimal)
{
	const char *end = setting_digits(text, 10, &decimal->value);
	unsigned digit;

	decimal->fraction = 0;
	if (end == NULL || *end != '.')
		return end;
	for (end++; setting_digit(*end, 10, &digit); end++, decimal->fraction++)
		if (__builtin_mul_overflow(decimal->value, 10, &decimal->value) ||
		    __builtin_add_overflow(decimal->value, digit, &decimal->value))
			return NULL;
	return decimal->fraction == 0 ? NULL : end;
}

/* Accepts only a whole number of bits per second, so that a rate is exactly what was written. */
static bool
setting_rate_parse(const char *text, uint64_t *rate)
{
	struct setting_decimal decimal;
	uint64_t unit;

	*rate = 0;
	if (strcmp(text, "0") == 0)
		return true;
	text = setting_decimal(text, &decimal);
	if (text == NULL)
		return false;
	unit = setting_unit_size(setting_rates, text);
	if (unit == 0 || __builtin_mul_overflow(decimal.value, unit, rate))
		return false;
	for (; decimal.fraction > 0; decimal.fraction--) {
		if (*rate % 10 != 0)
			return false;
		*rate /= 10;
	}
	return true;
}

enum { SETTING_DIGITS = 9 /* digits of a probability after the point, as many as 2^32 resolves */ };

#define SETTING_ONE (UINT64_C(1) << 32)
#define SETTING_BILLION UINT64_C(1000000000)

static bool
setting_probability_parse(const char *text, uint64_t *probability)
{
	struct setting_decimal decimal;

	text = setting_decimal(text, &decimal);
	if (text == NULL)
		return false;
	if (*text == '%') {
		decimal.fraction += 2;
		text++;
	}
	if (*text != '\0' || decimal.fraction > SETTING_DIGITS)
		return false;
	for (; decimal.fraction < SETTING_DIGITS; decimal.fraction++)
		if (__builtin_mul_overflow(decimal.value, 10, &decimal.value))
			return false;
	if (decimal.value > SETTING_BILLION)
		return false;
	*probability = (decimal.value * SETTING_ONE + SETTING_BILLION / 2) / SETTING_BILLION;
	return true;
}

/* Rounds to billionths, which are coarser than parts of 2^32: so parsed values are printed as they were written. */
static char *
setting_probability_print(uint64_t probability, char *text)
{
	uint64_t billionths =
		probability >= SETTING_ONE ? SETTING_BILLION : (probability * SETTING_BILLION + SETTING_ONE / 2) >> 32;
	int len = snprintf(text, XK_SETTING_TEXT, "%llu.%09llu", (unsigned long long)(billionths / SETTING_BILLION),
			   (unsigned long long)(billionths % SETTING_BILLION));

	while (text[len - 1] == '0')
		len--;
	text[text[len - 1] == '.' ? len - 1 : len] = '\0';
	return text;
}

char *
xk_setting_print(enum xk_setting_type type, uint64_t value, char *text)
{
	if (type == XK_SETTING_PROBABILITY)
		return setting_probability_print(value, text);
	if (type == XK_SETTING_TIME || (type == XK_SETTING_RATE && value != 0))
		return setting_unit_print(type == XK_SETTING_TIME ? setting_times : setting_rates, value, text);
	snprintf(text, XK_SETTING_TEXT, "%llu", (unsigned long long)value);
	return text;
}

/* ---- booleans ---- */

static bool
setting_bool_parse(const char *text, bool *value)
{
	static const char *const keywords[] = { "no", "yes", "false", "true", "0", "1" };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(keywords); i++)
		if (strcmp(text, keywords[i]) == 0) {
			*value = i % 2 == 1;
			return true;
		}
	return false;
}

/* ---- addresses ---- */

/* Parses a number of one to three digits without leading zeros, at most max. Returns the rest of the text, or NULL. */
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

/* Parses an IPv4 address. Returns the rest of the text, or NULL. */
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

const char *
xk_host_refusal(uint32_t host, uint32_t bits)
{
	uint32_t rest = bits == 0 ? UINT32_MAX : (uint32_t)((UINT64_C(1) << (32 - bits)) - 1);

	if (host >> 24 == 0)
		return "an address of no host (0.0.0.0/8)";
	if (host >> 24 == 127)
		return "a loopback address (127.0.0.0/8), which stays in its host";
	if (host == UINT32_MAX)
		return "the broadcast address of every network";
	if (host >> 28 == 0xe)
		return "a group's address (multicast, 224.0.0.0/4)";
	if (host >> 28 == 0xf)
		return "a reserved address (240.0.0.0/4)";
	if (bits == 0)
		return "an address with 0 bits, which name no network";
	if (bits < 31 && (host & rest) == 0)
		return "the network's own address";
	if (bits < 31 && (host & rest) == rest)
		return "the network's broadcast address";
	return NULL;
}

char *
xk_host_print(uint32_t host, char *text)
{
	snprintf(text, 16, "%u.%u.%u.%u", host >> 24, host >> 16 & 255, host >> 8 & 255, host & 255);
	return text;
}

bool
xk_network_parse(const char *text, struct xk_network *network)
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

/* The text that a type expects, the same before limits (for numbers, times and rates), and the size of its value. */
static const struct setting_kind {
	const char *expected, *limited, *example;
	size_t size;
} setting_kinds[] = {
	[XK_SETTING_UINT] = { "a number such as 64, 0x40 or 16k", "a number", "", sizeof(uint64_t) },
	[XK_SETTING_BOOL] = { "yes, no, true, false, 0 or 1", NULL, NULL, sizeof(bool) },
	[XK_SETTING_TIME] = { "a time such as 20us, 3ms or 2s", "a time", ", such as 20us, 3ms or 2s",
			      sizeof(uint64_t) },
	[XK_SETTING_STRING] = { "a text", NULL, NULL, sizeof(const char *) },
	[XK_SETTING_HOST] = { "an address such as 10.77.0.1", NULL, NULL, sizeof(uint32_t) },
	[XK_SETTING_NETWORK] = { "an address with the bits of its network, such as 10.77.0.1/24", NULL, NULL,
				 sizeof(struct xk_network) },
	[XK_SETTING_ADDRESS] = { "an address with the bits of its network, such as 10.77.0.1/24", NULL, NULL,
				 sizeof(struct xk_network) },
	[XK_SETTING_LINK] = { "a link address such as 02:00:00:00:00:01", NULL, NULL, sizeof(uint64_t) },
	[XK_SETTING_RATE] = { "a rate such as 10Mb/s, 1.28Gb/s or 0", "a rate", ", such as 10Mb/s or 1.28Gb/s",
			      sizeof(uint64_t) },
	[XK_SETTING_PROBABILITY] = { "a probability such as 0.01 or 1%", NULL, NULL, sizeof(uint64_t) },
	[XK_SETTING_CHOICE] = { NULL, NULL, NULL, sizeof(unsigned) },
};

char *
xk_choices_print(const char *const *choices, const char *last, char *text, size_t room)
{
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; choices[i] != NULL && len < room; i++)
		len += (size_t)snprintf(text + len, room - len, "%s%s",
					i == 0                   ? ""
					: choices[i + 1] == NULL ? last
								 : ", ",
					choices[i]);
	return text;
}

static bool
setting_choice_parse(const char *const *choices, const char *text, unsigned *choice)
{
	for (*choice = 0; choices[*choice] != NULL; (*choice)++)
		if (strcmp(choices[*choice], text) == 0)
			return true;
	return false;
}

/* Parses text into value, which is as large as the type's. */
static bool
setting_value_parse(const struct xk_setting *setting, const char *text, void *value)
{
	switch (setting->type) {
	case XK_SETTING_UINT:
		return setting_uint_parse(text, value);
	case XK_SETTING_TIME:
		return xk_time_parse(text, value);
	case XK_SETTING_RATE:
		return setting_rate_parse(text, value);
	case XK_SETTING_PROBABILITY:
		return setting_probability_parse(text, value);
	case XK_SETTING_BOOL:
		return setting_bool_parse(text, value);
	case XK_SETTING_HOST:
		return xk_host_parse(text, value);
	case XK_SETTING_NETWORK:
	case XK_SETTING_ADDRESS:
		return xk_network_parse(text, value);
	case XK_SETTING_LINK:
		return setting_link_parse(text, value);
	case XK_SETTING_CHOICE:
		return setting_choice_parse(setting->choices, text, value);
	case XK_SETTING_STRING:
		break;
	}
	return false;
}

size_t
xk_setting_size(enum xk_setting_type type)
{
	return setting_kinds[type].size;
}

int
xk_setting_parse(const struct xk_setting *setting, const char *text, void *instance, char *why, size_t why_len)
{
	const struct setting_kind *kind = &setting_kinds[setting->type];
	bool has_limits = kind->limited != NULL && (setting->min != 0 || setting->max != 0);
	char min[XK_SETTING_TEXT], max[XK_SETTING_TEXT], choices[128];
	const char *refusal = NULL;
	bool is_good = true;
	void *place = (char *)instance + setting->offset;
	/* Parsed here first: refused text leaves the setting unchanged. */
	union {
		uint64_t number;
		uint32_t host;
		unsigned choice;
		bool truth;
		struct xk_network network;
	} value = { .number = 0 };

	if (setting->type == XK_SETTING_STRING) {
		char *copy = strdup(text);

		if (copy == NULL) {
			snprintf(why, why_len, "lacks memory for a text of %zu bytes", strlen(text));
			return -ENOMEM;
		}
		free(*(char **)place);
		*(char **)place = copy;
		return 0;
	}
	if (!setting_value_parse(setting, text, &value))
		is_good = false;
	else if (setting->type == XK_SETTING_ADDRESS)
		refusal = xk_host_refusal(value.network.host, value.network.bits);
	if (is_good && refusal == NULL &&
	    (!has_limits || (value.number >= setting->min && value.number <= setting->max))) {
		memcpy(place, &value, kind->size);
		return 0;
	}
	if (refusal != NULL)
		snprintf(why, why_len, "expects %s, and not %s", kind->expected, refusal);
	else if (has_limits)
		snprintf(why, why_len, "expects %s from %s to %s%s", kind->limited,
			 xk_setting_print(setting->type, setting->min, min),
			 xk_setting_print(setting->type, setting->max, max), kind->example);
	else
		snprintf(why, why_len, "expects %s",
			 setting->type != XK_SETTING_CHOICE
				 ? kind->expected
				 : xk_choices_print(setting->choices, " or ", choices, sizeof(choices)));
	return -EINVAL;
}

const struct xk_protocol_type *
xk_protocol_type_find(const char *name)
{
	for (const struct xk_protocol_type *const *type = xk_protocol_types; *type != NULL; type++)
		if (strcmp((*type)->name, name) == 0)
			return *type;
	return NULL;
}
