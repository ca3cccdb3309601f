/*
 * match.c - compares a frame that a host has sent with a packet, and prints frames; see packet.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/conformance/packet.h"

/* ---- printing ---- */

struct printer {
	const struct names *names; /* NULL: numbers are absolute */
	char *text;
	size_t size, len;
};

__attribute__((format(printf, 2, 3))) static void
print(struct printer *p, const char *format, ...)
{
	va_list arguments;
	int len;

	va_start(arguments, format);
	len = vsnprintf(p->text + p->len, p->size - p->len, format, arguments);
	va_end(arguments);
	p->len += (size_t)len < p->size - p->len ? (size_t)len : p->size - p->len - 1;
}

static bool
is_host(const struct field *field)
{
	static const char *const names[] = { "src", "dst", "sender", "target", "host" };

	for (size_t i = 0; field->bits == 32 && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(field->name, names[i]) == 0)
			return true;
	return false;
}

/* Prints a number in the notation of its field. */
static void
print_number(struct printer *p, const struct field *field, uint64_t number)
{
	if (number == FIELD_NONE && field_is_option(field))
		print(p, "none");
	else if (field->bits == 48)
		print(p, "%02x:%02x:%02x:%02x:%02x:%02x", (unsigned)(number >> 40 & 0xff),
		      (unsigned)(number >> 32 & 0xff), (unsigned)(number >> 24 & 0xff), (unsigned)(number >> 16 & 0xff),
		      (unsigned)(number >> 8 & 0xff), (unsigned)(number & 0xff));
	else if (field->bits == 64)
		print(p, "0x%llx", (unsigned long long)number);
	else if (is_host(field))
		print(p, "%u.%u.%u.%u", (unsigned)(number >> 24), (unsigned)(number >> 16 & 0xff),
		      (unsigned)(number >> 8 & 0xff), (unsigned)(number & 0xff));
	else if (strcmp(field->name, "sum") == 0 || strcmp(field->name, "type") == 0)
		print(p, "0x%04llx", (unsigned long long)number);
	else
		print(p, "%llu", (unsigned long long)number);
}

static bool
is_direction(const struct field *field)
{
	return strcmp(field->name, "src") == 0 || strcmp(field->name, "dst") == 0;
}

static void
print_layer(struct printer *p, const struct layer_type *type, const uint8_t *header)
{
	int from = layer_field(type, "src"), to = layer_field(type, "dst");

	print(p, "%s%s", p->len > 0 ? " / " : "", type->name);
	if (from >= 0) {
		print(p, " ");
		print_number(p, &type->fields[from], field_load(&type->fields[from], header));
		print(p, " > ");
		print_number(p, &type->fields[to], field_load(&type->fields[to], header));
	}
	for (const struct field *field = type->fields; field->name != NULL; field++) {
		uint64_t number = field_load(field, header);

		if (type == &layer_tcp && p->names != NULL)
			number = tcp_relative(p->names, field, header, number);
		if (is_direction(field) || (field->initial == number && strcmp(field->name, "type") != 0))
			continue;
		print(p, " %s ", field->name);
		print_number(p, field, number);
	}
}

/* Returns the layer behind a header, as the header names it. */
static const struct layer_type *
type_after(const struct layer_type *type, const uint8_t *header)
{
	if (type == &layer_eth)
		return layer_numbered(type, field_load(&type->fields[layer_field(type, "type")], header));
	if (type == &layer_bid)
		return layer_numbered(type, field_load(&type->fields[layer_field(type, "protocol")], header));
	if (type == &layer_blast) /* only a short message or a first fragment has a layer above */
		return field_load(&type->fields[layer_field(type, "mask")], header) > 1
			       ? NULL
			       : layer_numbered(type, field_load(&type->fields[layer_field(type, "protocol")], header));
	if (type == &layer_icmp)
		return header[0] == 3 || header[0] == 11 || header[0] == 12 ? &layer_ip : NULL;
	if (type != &layer_ip || (header[6] & 0x1f) != 0 || header[7] != 0)
		return NULL;
	return header[9] == 4 ? NULL : layer_numbered(type, header[9]);
}

static size_t
length_of(const struct layer_type *type, const uint8_t *header)
{
	size_t len = type == &layer_ip ? (header[0] & 0xfu) * 4 : type == &layer_tcp ? (header[12] >> 4) * 4u : 0;

	return len > type->length ? len : type->length;
}

void
packet_print(const struct names *names, const uint8_t *bytes, size_t len, char *text, size_t size)
{
	struct printer p = { names, text, size, 0 };
	const struct layer_type *type = &layer_eth;
	size_t at = 0;

	text[0] = '\0';
	while (type != NULL && len - at >= type->length && len - at >= length_of(type, bytes + at)) {
		const uint8_t *header = bytes + at;

		print_layer(&p, type, header);
		at += length_of(type, header);
		type = type_after(type, header);
	}
	print(&p, " / (%zu bytes)", len - at);
	for (size_t i = at; i < len && i < at + 32; i++)
		print(&p, "%s%02x", (i - at) % 4 == 0 ? " " : "", bytes[i]);
	print(&p, len > at + 32 ? "..." : "");
}

/* ---- comparing ---- */

static bool
differs(char *why, const struct layer_type *type, const struct field *field, uint64_t is, uint64_t wanted,
	const char *how)
{
	struct printer p = { NULL, why, PACKET_WHY, 0 };

	print(&p, "%s %s is ", type->name, field->name);
	print_number(&p, field, is);
	print(&p, "%s", how);
	print_number(&p, field, wanted);
	return false;
}

static bool
match_value(const struct layer_type *type, const struct field *field, const struct value *value, uint64_t is,
	    struct names *names, char *why)
{
	const struct name *name;

	switch (value->kind) {
	case VALUE_IS:
		return is == value->number || differs(why, type, field, is, value->number, ", not ");
	case VALUE_BIND:
		name = name_find(names, value->name);
		if (name != NULL)
			return is == name->value || differs(why, type, field, is, name->value, ", not as before ");
		if (name_set(names, value->name, is))
			return true;
		snprintf(why, PACKET_WHY, "too many names");
		return false;
	case VALUE_DIFFERS:
		name = name_find(names, value->name);
		return name == NULL || is != name->value ||
		       differs(why, type, field, is, name->value, ", which must differ from ");
	default:
		return true;
	}
}

static bool
match_layer(const struct packet *packet, unsigned at, const uint8_t *header, size_t *left, struct names *names,
	    char *why)
{
	const struct layer *layer = &packet->layers[at];
	const char *wrong;

	if (*left < layer->type->length) {
		snprintf(why, PACKET_WHY, "%s does not fit into %zu bytes", layer->type->name, *left);
		return false;
	}
	if (layer->type == &layer_tcp) {
		if (length_of(layer->type, header) > *left) {
			snprintf(why, PACKET_WHY, "tcp has options that do not fit");
			return false;
		}
		tcp_note_first(names, header);
	}
	for (int i = 0; layer->type->fields[i].name != NULL; i++) {
		const struct field *field = &layer->type->fields[i];
		uint64_t is = field_load(field, header);

		if (layer->type == &layer_tcp)
			is = tcp_relative(names, field, header, is);
		if (!match_value(layer->type, field, &layer->values[i], is, names, why))
			return false;
	}
	wrong = layer->type->check(packet, at, header, left);
	if (wrong != NULL)
		snprintf(why, PACKET_WHY, "%s", wrong);
	return wrong == NULL;
}

static bool
match_payload(const struct packet *packet, const uint8_t *bytes, size_t len, char *why)
{
	if (packet->payload_kind != PAYLOAD_BYTES)
		return true;
	if (len != packet->payload_len) {
		snprintf(why, PACKET_WHY, "the payload has %zu bytes, not %zu", len, packet->payload_len);
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] == packet->payload[i])
			continue;
		snprintf(why, PACKET_WHY, "byte %zu of the payload is %02x, not %02x", i, bytes[i], packet->payload[i]);
		return false;
	}
	return true;
}

bool
packet_match(const struct packet *packet, struct names *names, const uint8_t *bytes, size_t len, char *why)
{
	for (unsigned i = 0; i < packet->count; i++) {
		size_t header_len;

		if (!match_layer(packet, i, bytes, &len, names, why))
			return false;
		header_len = length_of(packet->layers[i].type, bytes);
		bytes += header_len;
		len -= header_len;
	}
	return match_payload(packet, bytes, len, why);
}
