/*
 * build.c - turns a packet into a frame; see packet.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/packet.h"

enum { FLAGS_RESPONSE = 2 };

static size_t
header_len(const struct layer *layer)
{
	return layer->type->length + layer->options_len;
}

static void
set_default(struct layer *layer, const char *field, uint64_t number)
{
	struct value *value = &layer->values[layer_field(layer->type, field)];

	if (value->kind == VALUE_ABSENT)
		*value = (struct value){ .kind = VALUE_IS, .number = number };
}

static uint64_t
value_of(const struct layer *layer, const char *field)
{
	return layer->values[layer_field(layer->type, field)].number;
}

/*
 * Sets the hosts of BID and BIDCTL by default. Returns the neighbour that sends the packet, unless an IP or ARP header
 * names another: the host after the tested one.
 */
static uint64_t
default_hosts(struct packet *packet, struct names *names)
{
	uint64_t host = names->host_count > 0 ? names->host[names->port] + 1 : 0;
	const struct name *own = name_find(names, "own");

	for (unsigned i = 0; i < packet->count; i++) {
		struct layer *layer = &packet->layers[i];

		if (layer->type != &layer_bid && layer->type != &layer_bidctl)
			continue;
		set_default(layer, "host", host);
		host = value_of(layer, "host");
		if (own != NULL && (layer->type == &layer_bid || value_of(layer, "flags") == FLAGS_RESPONSE))
			set_default(layer, "destination", own->value);
	}
	return host;
}

/* Derives link addresses that the packet leaves out from the hosts'. */
static void
default_links(struct packet *packet, struct names *names)
{
	struct layer *eth = &packet->layers[0], *next = &packet->layers[1];
	uint64_t from = default_hosts(packet, names), to = names->link[names->port];

	if (packet->count > 2 && next->type == &layer_ip && packet->layers[2].type == &layer_tcp) {
		set_default(next, "src", from);
		set_default(next, "dst", names->host_count > 0 ? names->host[names->port] : 0);
	}
	if (packet->count > 1 && next->type == &layer_ip)
		from = value_of(next, "src");
	if (packet->count > 1 && next->type == &layer_arp) {
		from = value_of(next, "sender");
		set_default(next, "sender-mac", link_of(names, from));
		if (next->values[layer_field(&layer_arp, "op")].number != 2)
			to = UINT64_C(0xffffffffffff);
	}
	set_default(eth, "dst", to);
	set_default(eth, "src", link_of(names, from));
}

/* `?name` and the like are for expected packets only. */
static bool
check_sendable(const struct layer *layer, char *why)
{
	for (int i = 0; layer->type->fields[i].name != NULL; i++) {
		enum value_kind kind = layer->values[i].kind;

		if (kind == VALUE_ANY || kind == VALUE_BIND || kind == VALUE_DIFFERS) {
			snprintf(why, PACKET_WHY, "an injected packet needs a value for %s",
				 layer->type->fields[i].name);
			return false;
		}
	}
	return true;
}

static void
store_header(const struct layer *layer, uint8_t *header)
{
	memset(header, 0, layer->type->length);
	memcpy(header + layer->type->length, layer->options, layer->options_len);
	for (int i = 0; layer->type->fields[i].name != NULL; i++) {
		const struct field *field = &layer->type->fields[i];

		if (layer->values[i].kind == VALUE_IS)
			field_store(field, header, layer->values[i].number);
		else if (field->initial != 0)
			field_store(field, header, field->initial);
	}
}

/* Pads, then cuts. */
static size_t
finish_frame(const struct packet *packet, uint8_t *bytes, size_t len)
{
	if (len < packet->pad) {
		memset(bytes + len, packet->pad_byte, packet->pad - len);
		len = packet->pad;
	}
	return len < packet->cut ? len : packet->cut;
}

static size_t
build(struct packet *packet, struct names *names, uint8_t *bytes, char *why)
{
	size_t at[PACKET_LAYERS], len = 0;

	default_links(packet, names);
	for (unsigned i = 0; i < packet->count; i++) {
		if (!check_sendable(&packet->layers[i], why))
			return 0;
		if (packet->layers[i].type == &layer_tcp)
			tcp_make_absolute(names, packet, i);
		at[i] = len;
		len += header_len(&packet->layers[i]);
	}
	if (len + packet->payload_len > PACKET_MAX) {
		snprintf(why, PACKET_WHY, "the frame is too long");
		return 0;
	}
	memmove(bytes + len, packet->payload, packet->payload_len); /* bytes may be where the payload is */
	len += packet->payload_len;
	for (unsigned i = packet->count; i-- > 0;) {
		store_header(&packet->layers[i], bytes + at[i]);
		if (packet->layers[i].type->complete != NULL)
			packet->layers[i].type->complete(packet, i, bytes + at[i], len - at[i]);
	}
	return finish_frame(packet, bytes, len);
}

size_t
packet_build(const struct packet *packet, struct names *names, uint8_t *bytes, char *why)
{
	struct packet *copy = malloc(sizeof(*copy));
	size_t len;

	if (copy == NULL)
		abort();
	*copy = *packet;
	len = build(copy, names, bytes, why);
	free(copy);
	return len;
}

/* Returns the index of the layer that fragments its payload: BLAST, or else the IP above Ethernet. 0: none. */
static unsigned
find_carrier(const struct packet *packet)
{
	for (unsigned i = 1; i < packet->count; i++)
		if (packet->layers[i].type == &layer_blast)
			return i;
	return packet->count > 1 && packet->layers[1].type == &layer_ip;
}

/* Returns the mask with the bit of the fragment, of `count` of one length, that begins at `from`. */
static uint64_t
fragment_mask(size_t from, bool is_last, size_t len, uint64_t count)
{
	uint64_t index = is_last && count > 0 ? count - 1 : len == 0 ? 0 : from / len;

	return UINT64_C(1) << index % 64;
}

/* Gives the slice the headers of a fragment. It has been computed as a whole, with its payload in place. */
static void
make_slice(struct packet *slice, const struct packet *whole, unsigned at, size_t from, bool is_last)
{
	struct layer *layer = &slice->layers[at];
	const char *number = layer->type == &layer_ip ? "proto" : "protocol";
	uint64_t protocol = value_of(layer, number), eth_from = value_of(&slice->layers[0], "src");

	memcpy(slice->layers, whole->layers, (at + 1) * sizeof(slice->layers[0]));
	slice->count = at + 1;
	slice->payload_kind = PAYLOAD_BYTES;
	set_default(&slice->layers[0], "src", eth_from);
	set_default(layer, number, protocol);
	if (layer->type == &layer_ip) {
		set_default(layer, "offset", from);
		set_default(layer, "more", !is_last);
	} else {
		set_default(layer, "mask", fragment_mask(from, is_last, slice->payload_len, value_of(layer, "count")));
	}
}

bool
packet_slice(const struct packet *whole, struct names *names, size_t from, size_t to, struct packet *slice, char *why)
{
	unsigned at = find_carrier(whole);
	size_t len, begin = 0;

	*slice = *whole;
	len = build(slice, names, slice->payload, why);
	if (len == 0)
		return false;
	if (at == 0 || whole->cut != SIZE_MAX || whole->pad != 0) {
		snprintf(why, PACKET_WHY, "only a whole ip datagram or blast message has pieces");
		return false;
	}
	for (unsigned i = 0; i <= at; i++)
		begin += header_len(&whole->layers[i]);
	to = to == SIZE_MAX ? len - begin : to;
	if (from % 8 != 0 && whole->layers[at].type == &layer_ip) {
		snprintf(why, PACKET_WHY, "a piece begins at a multiple of 8");
		return false;
	}
	if (from > to || to > len - begin) {
		snprintf(why, PACKET_WHY, "the datagram has %zu bytes behind its header", len - begin);
		return false;
	}
	memmove(slice->payload, slice->payload + begin + from, to - from);
	slice->payload_len = to - from;
	make_slice(slice, whole, at, from, to == len - begin);
	return true;
}
