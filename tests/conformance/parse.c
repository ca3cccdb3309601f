/*
 * parse.c - parses a packet of a script: layers separated by '/', fields by name, then payload; see packet.h.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/packet.h"

/* A packet being parsed. */
struct parser {
	struct packet *packet;
	struct names *names;
	char *const *word; /* the next word; NULL: the end */
	char *why;
};

__attribute__((format(printf, 2, 3))) static bool
fail(const struct parser *p, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(p->why, PACKET_WHY, format, arguments);
	va_end(arguments);
	return false;
}

static bool
next_is(const struct parser *p, const char *word)
{
	return *p->word != NULL && strcmp(*p->word, word) == 0;
}

/* Returns true if a layer or a payload ends here. */
static bool
is_end(const struct parser *p)
{
	return *p->word == NULL || next_is(p, "/");
}

/* Returns the next word and advances; NULL: none, with the reason in `why`. */
static const char *
take(struct parser *p, const char *after)
{
	if (is_end(p)) {
		fail(p, "an argument is missing after '%s'", after);
		return NULL;
	}
	return *p->word++;
}

static bool
take_number(struct parser *p, const char *after, uint64_t *number)
{
	const char *word = take(p, after);

	return word != NULL && number_parse(p->names, word, number, p->why);
}

/* ---- fields ---- */

static bool
check_width(const struct parser *p, const struct field *field, uint64_t number)
{
	if (number % field->unit != 0)
		return fail(p, "%s is not a multiple of 8", field->name);
	if (field->bits < 64 && number / field->unit >> field->bits != 0)
		return fail(p, "%s is too large", field->name);
	return true;
}

static bool
is_sequence(const struct field *field)
{
	return field->bits == 32 && (strcmp(field->name, "seq") == 0 || strcmp(field->name, "ack") == 0);
}

static bool
parse_value(struct parser *p, struct layer *layer, int index, const char *word)
{
	struct value *value = &layer->values[index];
	const struct field *field = &layer->type->fields[index];

	*value = (struct value){ .kind = VALUE_IS };
	if (strcmp(word, "*") == 0) {
		value->kind = VALUE_ANY;
		return true;
	}
	if (word[0] == '?' || word[0] == '!') {
		value->kind = word[0] == '?' ? VALUE_BIND : VALUE_DIFFERS;
		snprintf(value->name, sizeof(value->name), "%s", word + 1);
		return word[1] != '\0' || fail(p, "%s has no name after it", word);
	}
	if (strcmp(field->name, "sum") == 0 && (strcmp(word, "bad") == 0 || strcmp(word, "none") == 0)) {
		value->kind = word[0] == 'b' ? VALUE_BAD : VALUE_IS;
		return true;
	}
	if (field_is_option(field) && strcmp(word, "none") == 0) {
		value->number = FIELD_NONE;
		return true;
	}
	if (!number_parse(p->names, word, &value->number, p->why))
		return false;
	if (layer->type == &layer_tcp && is_sequence(field)) /* relative: may be negative */
		value->number = (uint32_t)value->number;
	return check_width(p, field, value->number);
}

static bool
set_field(struct parser *p, struct layer *layer, const char *name, const char *word)
{
	int index = layer_field(layer->type, name);

	return index < 0 ? fail(p, "'%s' is not a field of this layer", name) : parse_value(p, layer, index, word);
}

/* Adds bits to a field that several words set. */
static bool
add_bits(struct layer *layer, const char *name, uint64_t bits)
{
	struct value *value = &layer->values[layer_field(layer->type, name)];

	*value = (struct value){ .kind = VALUE_IS, .number = value->number | bits };
	return true;
}

/* fragment N: sets its bit of the mask */
static bool
parse_fragment(struct parser *p, struct layer *layer)
{
	uint64_t number;

	if (!take_number(p, "fragment", &number))
		return false;
	if (number < 1 || number > 64)
		return fail(p, "fragments are numbered from 1 to 64");
	return add_bits(layer, "mask", UINT64_C(1) << (number - 1));
}

static int
hex_digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower(c) - 'a' + 10 : -1;
}

/* Adds the bytes written in hexadecimal. Returns false if they are not. */
static bool
parse_hex(const char *word, uint8_t *bytes, size_t *len, size_t max)
{
	if (strlen(word) % 2 != 0)
		return false;
	for (; *word != '\0'; word += 2) {
		int high = hex_digit(word[0]), low = hex_digit(word[1]);

		if (high < 0 || low < 0 || *len == max)
			return false;
		bytes[(*len)++] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static bool
parse_options(struct parser *p, struct layer *layer)
{
	const char *word = take(p, "options");

	if (word == NULL)
		return false;
	if (!parse_hex(word, layer->options, &layer->options_len, sizeof(layer->options)))
		return fail(p, "'%s' is not at most 40 bytes of options in hexadecimal", word);
	while (layer->options_len % 4 != 0)
		layer->options[layer->options_len++] = 0;
	return true;
}

/* ---- TCP ---- */

/* Sets flags from letters; the others are clear, but for PSH, which is as the host likes. `-`: none. */
static bool
parse_tcp_flags(struct layer *layer, const char *word)
{
	static const char letters[] = "FSRPAUEW";
	uint64_t flags = 0;

	for (; *word != '\0'; word++)
		if (*word != '-')
			flags |= UINT64_C(1) << (strchr(letters, *word) - letters);
	layer->values[layer_field(layer->type, "flags")].kind = VALUE_ABSENT;
	layer->values[layer_field(layer->type, "high-flags")].kind = VALUE_ABSENT;
	add_bits(layer, "flags", flags & 7);
	add_bits(layer, "high-flags", flags >> 4);
	return (flags & 8) == 0 || add_bits(layer, "psh", 1);
}

/* Adds an option, whose values are those of some fields. They may be unknown in an expected packet. */
static bool
add_tcp_option(struct parser *p, struct layer *layer, uint8_t kind, const char *const *fields)
{
	uint8_t bytes[PACKET_OPTIONS];
	size_t len = 0;
	uint8_t *to;

	for (; *fields != NULL; fields++) {
		int index = layer_field(layer->type, *fields);
		const struct value *value = &layer->values[index];

		if (value->kind != VALUE_IS || value->number == FIELD_NONE)
			return true;
		for (unsigned bits = layer->type->fields[index].bits; bits > 0; bits -= 8)
			bytes[len++] = (uint8_t)(value->number >> (bits - 8));
	}
	to = tcp_option_add(layer, kind, len);
	if (to == NULL)
		return fail(p, "options take more than %d bytes", PACKET_OPTIONS);
	memcpy(to, bytes, len);
	return true;
}

/* sack FROM..TO ..., relative numbers; or sack none */
static bool
parse_tcp_ranges(struct parser *p, struct layer *layer)
{
	static const char *const fields[] = { "from1", "to1", "from2", "to2", "from3", "to3", "from4", "to4", NULL };
	unsigned count = 0;
	uint8_t *to;

	if (next_is(p, "none")) {
		p->word++;
		return set_field(p, layer, fields[0], "none");
	}
	while (!is_end(p) && strstr(*p->word, "..") != NULL) {
		const char *word = *p->word++, *dots = strstr(word, "..");
		char first[NAME_LEN];

		if (count == 4 || (size_t)(dots - word) >= sizeof(first))
			return fail(p, "'%s' is a range too many", word);
		snprintf(first, sizeof(first), "%.*s", (int)(dots - word), word);
		if (!set_field(p, layer, fields[2 * count], first) ||
		    !set_field(p, layer, fields[2 * count + 1], dots + 2))
			return false;
		count++;
	}
	if (count == 0)
		return fail(p, "sack needs ranges FROM..TO");
	if (count < 4)
		set_field(p, layer, fields[2 * count], "none");
	to = tcp_option_add(layer, 5, 8 * (size_t)count);
	if (to == NULL)
		return fail(p, "options take more than %d bytes", PACKET_OPTIONS);
	layer->ranges_at = (unsigned)(to - layer->options);
	layer->ranges_count = count;
	return true;
}

/* Parses a word for an option. Returns false, with *is_one unset, if it is none. */
static bool
parse_tcp_option(struct parser *p, struct layer *layer, const char *word, bool *is_one)
{
	static const struct {
		const char *word;
		uint8_t kind;
		const char *fields[3];
	} options[] = {
		{ "mss", 2, { "mss", NULL } },
		{ "scale", 3, { "scale", NULL } },
		{ "stamp", 8, { "stamp", "echo", NULL } },
	};

	*is_one = true;
	if (strcmp(word, "sack") == 0)
		return parse_tcp_ranges(p, layer);
	if (strcmp(word, "may-sack") == 0) {
		if (next_is(p, "none"))
			return p->word++ != NULL && set_field(p, layer, "may-sack", "none");
		return set_field(p, layer, "may-sack", "1") &&
		       (tcp_option_add(layer, 4, 0) != NULL || fail(p, "options take more than 40 bytes"));
	}
	for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (strcmp(word, options[i].word) != 0)
			continue;
		for (unsigned k = 0; options[i].fields[k] != NULL; k++) {
			const char *value = take(p, word);

			if (value == NULL || !set_field(p, layer, options[i].fields[k], value))
				return false;
			if (strcmp(value, "none") == 0)
				return true;
		}
		return add_tcp_option(p, layer, options[i].kind, options[i].fields);
	}
	*is_one = false;
	return false;
}

/* ---- phrases ---- */

/* A word that stands for a field, or for a field and its value. */
static const struct phrase {
	const struct layer_type *type;
	const char *word;
	const char *field, *value; /* value NULL: the next word; "|N": these bits of it */
} phrases[] = {
	{ &layer_ip, "last", "more", "0" },
	{ &layer_ip, "more", "more", "1" },
	{ &layer_ip, "dont", "dont", "1" },
	{ &layer_ip, "evil", "evil", "1" },
	{ &layer_arp, "request", "op", "1" },
	{ &layer_arp, "reply", "op", "2" },
	{ &layer_arp, "who", "target", NULL },
	{ &layer_arp, "tell", "sender", NULL },
	{ &layer_arp, "from", "sender", NULL },
	{ &layer_arp, "is-at", "sender-mac", NULL },
	{ &layer_arp, "to", "target", NULL },
	{ &layer_arp, "at", "target-mac", NULL },
	{ &layer_icmp, "echo-request", "type", "8" },
	{ &layer_icmp, "echo-reply", "type", "0" },
	{ &layer_icmp, "unreachable", "type", "3" },
	{ &layer_icmp, "net", "code", "0" },
	{ &layer_icmp, "host", "code", "1" },
	{ &layer_icmp, "protocol", "code", "2" },
	{ &layer_icmp, "port", "code", "3" },
	{ &layer_icmp, "fragmentation-needed", "code", "4" },
	{ &layer_icmp, "time-exceeded", "type", "11" },
	{ &layer_icmp, "transit", "code", "0" },
	{ &layer_icmp, "reassembly", "code", "1" },
	{ &layer_blast, "send", "op", "1" },
	{ &layer_blast, "nack", "op", "2" },
	{ &layer_blast, "retransmit", "op", "3" },
	{ &layer_bidctl, "query", "flags", "|1" },
	{ &layer_bidctl, "response", "flags", "|2" },
	{ &layer_bidctl, "bcast", "flags", "|4" },
	{ &layer_chan, "request", "flags", "|3" },
	{ &layer_chan, "probe", "flags", "|5" },
	{ &layer_chan, "from-client", "flags", "|1" },
	{ &layer_chan, "reply", "flags", "|2" },
	{ &layer_chan, "ack", "flags", "|0" },
	{ &layer_chan, "ack-requested", "flags", "|4" },
	{ &layer_chan, "negative-ack", "flags", "|8" },
	{ &layer_chan, "error", "flags", "|16" },
	{ &layer_gm, "data", "kind", "1" },
	{ &layer_gm, "deposit", "kind", "2" },
	{ &layer_gm, "datagram", "kind", "3" },
	{ &layer_gm, "ack", "kind", "4" },
	{ &layer_gm, "reset", "kind", "5" },
	{ &layer_am, "call", "kind", "1" },
	{ &layer_am, "cookie", "kind", "2" },
	{ &layer_am, "welcome", "kind", "3" },
	{ &layer_am, "request", "kind", "4" },
	{ &layer_am, "store", "kind", "5" },
	{ &layer_am, "reply", "kind", "6" },
	{ &layer_am, "ack", "kind", "7" },
	{ &layer_am, "refused", "kind", "8" },
	{ &layer_am, "taken", "kind", "9" },
	{ &layer_am, "gone", "kind", "10" },
	{ NULL, NULL, NULL, NULL },
};

static const struct phrase *
find_phrase(const struct layer_type *type, const char *word)
{
	for (const struct phrase *phrase = phrases; phrase->type != NULL; phrase++)
		if (phrase->type == type && strcmp(phrase->word, word) == 0)
			return phrase;
	return NULL;
}

static bool
parse_field(struct parser *p, struct layer *layer)
{
	const char *word = *p->word++, *value;
	const struct phrase *phrase = find_phrase(layer->type, word);

	if (phrase != NULL && phrase->value != NULL && phrase->value[0] == '|')
		return add_bits(layer, phrase->field, strtoull(phrase->value + 1, NULL, 10));
	if (phrase != NULL && phrase->value != NULL)
		return set_field(p, layer, phrase->field, phrase->value);
	if ((layer->type == &layer_ip || layer->type == &layer_tcp) && strcmp(word, "options") == 0)
		return parse_options(p, layer);
	if (layer->type == &layer_tcp) {
		bool is_option, good = parse_tcp_option(p, layer, word, &is_option);

		if (is_option)
			return good;
		if (word[strspn(word, "FSRPAUEW-")] == '\0')
			return parse_tcp_flags(layer, word);
	}
	if (layer->type == &layer_blast && strcmp(word, "fragment") == 0)
		return parse_fragment(p, layer);
	if (next_is(p, ">")) {
		p->word++;
		value = take(p, ">");
		return value != NULL && set_field(p, layer, "src", word) && set_field(p, layer, "dst", value);
	}
	if (layer->type == &layer_arp && next_is(p, "is-at")) /* reply HOST is-at */
		return set_field(p, layer, "sender", word);
	if (phrase == NULL && layer_field(layer->type, word) < 0)
		return fail(p, "'%s' is not a field", word);
	value = take(p, word);
	return value != NULL && set_field(p, layer, phrase != NULL ? phrase->field : word, value);
}

static bool
parse_layer(struct parser *p, const struct layer_type *type)
{
	struct layer *layer = &p->packet->layers[p->packet->count];

	if (p->packet->count == PACKET_LAYERS)
		return fail(p, "too many layers before '%s'", type->name);
	*layer = (struct layer){ .type = type };
	p->packet->count++;
	while (!is_end(p))
		if (!parse_field(p, layer))
			return false;
	while (layer->options_len % 4 != 0)
		layer->options[layer->options_len++] = 0;
	return true;
}

/* ---- payload ---- */

static bool
room_for(const struct parser *p, uint64_t len)
{
	if (len <= PACKET_MAX - p->packet->payload_len)
		return true;
	return fail(p, "the payload is too long");
}

/* Byte i of a pattern is i % 251: no multiple of 8 is a period. */
static bool
add_pattern(struct parser *p, const char *word)
{
	uint64_t len, from = 0;

	if (!take_number(p, word, &len) || !room_for(p, len))
		return false;
	if (next_is(p, "from")) {
		p->word++;
		if (!take_number(p, "from", &from))
			return false;
	}
	for (uint64_t i = 0; i < len; i++)
		p->packet->payload[p->packet->payload_len++] = (uint8_t)((from + i) % 251);
	return true;
}

/* Bytes of the stream's pattern, at the place that the segment's number names; a SYN comes before them. */
static bool
add_data(struct parser *p)
{
	const struct layer *layer = &p->packet->layers[p->packet->count - 1];
	uint64_t len, from;

	if (layer->type != &layer_tcp || layer->values[layer_field(&layer_tcp, "seq")].kind != VALUE_IS)
		return fail(p, "data needs a tcp header with seq");
	if (!take_number(p, "data", &len) || !room_for(p, len))
		return false;
	from = layer->values[layer_field(&layer_tcp, "seq")].number + UINT32_C(0xffffffff) +
	       (layer->values[layer_field(&layer_tcp, "flags")].number >> 1 & 1);
	for (uint64_t i = 0; i < len; i++)
		p->packet->payload[p->packet->payload_len++] = (uint8_t)((uint32_t)(from + i) % 251);
	return true;
}

static bool
add_fill(struct parser *p, const char *word)
{
	uint64_t len, byte = 0;

	if (!take_number(p, word, &len) || !room_for(p, len))
		return false;
	if (strcmp(word, "fill") == 0 && !take_number(p, word, &byte))
		return false;
	memset(p->packet->payload + p->packet->payload_len, (int)byte, len);
	p->packet->payload_len += len;
	return true;
}

static bool
add_number(struct parser *p, const char *word)
{
	uint64_t number;

	if (!take_number(p, word, &number) || !room_for(p, 2))
		return false;
	p->packet->payload[p->packet->payload_len++] = (uint8_t)(number >> 8);
	p->packet->payload[p->packet->payload_len++] = (uint8_t)number;
	return true;
}

static bool
add_text(struct parser *p)
{
	const char *word = take(p, "text");

	if (word == NULL || !room_for(p, strlen(word)))
		return false;
	memcpy(p->packet->payload + p->packet->payload_len, word, strlen(word));
	p->packet->payload_len += strlen(word);
	return true;
}

static bool
parse_payload(struct parser *p)
{
	struct packet *packet = p->packet;

	packet->payload_kind = PAYLOAD_BYTES;
	while (!is_end(p)) {
		const char *word = *p->word++;
		bool good;

		if (strcmp(word, "pattern") == 0)
			good = add_pattern(p, word);
		else if (strcmp(word, "data") == 0)
			good = add_data(p);
		else if (strcmp(word, "zeros") == 0 || strcmp(word, "fill") == 0)
			good = add_fill(p, word);
		else if (strcmp(word, "number16") == 0)
			good = add_number(p, word);
		else if (strcmp(word, "text") == 0)
			good = add_text(p);
		else
			good = strcmp(word, "nothing") == 0 ||
			       parse_hex(word, packet->payload, &packet->payload_len, PACKET_MAX) ||
			       fail(p, "'%s' is not a layer, a payload or an even number of hexadecimal digits", word);
		if (!good)
			return false;
	}
	return true;
}

/* Parses what is done to the finished frame. */
static bool
parse_frame_end(struct parser *p, const char *word)
{
	uint64_t number, byte = 0;

	if (!take_number(p, word, &number))
		return false;
	if (number > PACKET_MAX)
		return fail(p, "'%s' exceeds the longest frame", word);
	if (strcmp(word, "cut") == 0) {
		p->packet->cut = number;
		return true;
	}
	if (!is_end(p) && !take_number(p, word, &byte))
		return false;
	p->packet->pad = number;
	p->packet->pad_byte = (uint8_t)byte;
	return true;
}

static const struct layer_type *
find_layer(const char *word)
{
	for (unsigned i = 0; layer_types[i] != NULL; i++)
		if (strcmp(layer_types[i]->name, word) == 0)
			return layer_types[i];
	return NULL;
}

static bool
parse_part(struct parser *p)
{
	const struct layer_type *type;

	if (is_end(p))
		return fail(p, "a layer or payload is missing");
	type = find_layer(*p->word);
	if (type != NULL && p->packet->payload_kind == PAYLOAD_NONE) {
		p->word++;
		return parse_layer(p, type);
	}
	if (next_is(p, "cut") || next_is(p, "pad"))
		return parse_frame_end(p, *p->word++);
	if (next_is(p, "*")) {
		p->word++;
		p->packet->payload_kind = PAYLOAD_ANY;
		return is_end(p) || fail(p, "'%s' after '*'", *p->word);
	}
	return parse_payload(p);
}

bool
packet_parse(struct packet *packet, struct names *names, char *const *words, char *why)
{
	struct parser p = { packet, names, words, why };

	memset(packet->layers, 0, sizeof(packet->layers));
	packet->count = 0;
	packet->payload_kind = PAYLOAD_NONE;
	packet->payload_len = packet->pad = 0;
	packet->cut = SIZE_MAX;
	if (*words == NULL || strcmp(*words, "eth") != 0)
		packet->layers[packet->count++].type = &layer_eth;
	if (*words != NULL && strcmp(*words, "tcp") == 0)
		packet->layers[packet->count++].type = &layer_ip;
	for (;;) {
		if (!parse_part(&p))
			return false;
		if (*p.word == NULL)
			return true;
		p.word++;
	}
}

bool
packet_parse_fields(struct packet *packet, struct names *names, char *const *words, char *why)
{
	struct parser p = { packet, names, words, why };

	while (!is_end(&p))
		if (!parse_field(&p, &packet->layers[packet->count - 1]))
			return false;
	return *p.word == NULL || fail(&p, "'%s' is not allowed here", *p.word);
}
