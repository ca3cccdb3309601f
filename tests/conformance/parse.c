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
	return number_parse(p->names, word, &value->number, p->why) && check_width(p, field, value->number);
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
	if (layer->type == &layer_ip && strcmp(word, "options") == 0)
		return parse_options(p, layer);
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
