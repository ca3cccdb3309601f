/*
 * layers_tcp.c - TCP's header (RFC 9293, 3.1) and options (RFC 9293, 2018, 7323); see packet.h. Numbers of scripts are
 * relative to the SYN of the end that sends what they count: the SYN is 0, the first byte 1.
 */
#include <string.h>

#include "tests/conformance/layers_private.h"

enum { PROTOCOL_TCP = 6, OPTION_BIT = 0x8000, OPTION_RANGES = 5, OPTION_MAY_SACK = 4 };

/* The bit of a field `at` bytes behind the beginning of an option. */
#define OPTION(kind, at) (OPTION_BIT | (kind) << 8 | (at))

enum { TCP_SRC, TCP_DST, TCP_SEQ, TCP_ACK, TCP_OFF, TCP_RESERVED, TCP_HIGH, TCP_PSH, TCP_LOW, TCP_WIN, TCP_SUM };

static const struct field tcp_fields[] = {
	{ "src", 0, 16, 1, 5000 },
	{ "dst", 16, 16, 1, 2001 },
	{ "seq", 32, 32, 1, 0 },
	{ "ack", 64, 32, 1, 0 },
	{ "off", 96, 4, 1, 5 },
	{ "reserved", 100, 4, 1, 0 },
	{ "high-flags", 104, 4, 1, 1 },
	{ "psh", 108, 1, 1, 0 },
	{ "flags", 109, 3, 1, 0 },
	{ "win", 112, 16, 1, 65535 },
	{ "sum", 128, 16, 1, 0 },
	{ "urg", 144, 16, 1, 0 },
	{ "mss", OPTION(2, 2), 16, 1, FIELD_NONE },
	{ "scale", OPTION(3, 2), 8, 1, FIELD_NONE },
	{ "may-sack", OPTION(OPTION_MAY_SACK, 0), 8, 1, FIELD_NONE },
	{ "stamp", OPTION(8, 2), 32, 1, FIELD_NONE },
	{ "echo", OPTION(8, 6), 32, 1, FIELD_NONE },
	{ "from1", OPTION(OPTION_RANGES, 2), 32, 1, FIELD_NONE },
	{ "to1", OPTION(OPTION_RANGES, 6), 32, 1, FIELD_NONE },
	{ "from2", OPTION(OPTION_RANGES, 10), 32, 1, FIELD_NONE },
	{ "to2", OPTION(OPTION_RANGES, 14), 32, 1, FIELD_NONE },
	{ "from3", OPTION(OPTION_RANGES, 18), 32, 1, FIELD_NONE },
	{ "to3", OPTION(OPTION_RANGES, 22), 32, 1, FIELD_NONE },
	{ "from4", OPTION(OPTION_RANGES, 26), 32, 1, FIELD_NONE },
	{ "to4", OPTION(OPTION_RANGES, 30), 32, 1, FIELD_NONE },
	{ NULL, 0, 0, 0, 0 },
};

/* ---- options ---- */

bool
field_is_option(const struct field *field)
{
	return (field->bit & OPTION_BIT) != 0;
}

/* Returns the option of this kind in a header; NULL: none. Its whole length lies in the header. */
static const uint8_t *
option_find(const uint8_t *header, uint8_t kind)
{
	const uint8_t *end = header + (header[12] >> 4) * 4;

	for (const uint8_t *p = header + 20; p < end && *p != 0; p += *p == 1 ? 1 : p[1]) {
		if (*p == 1)
			continue;
		if (end - p < 2 || p[1] < 2 || p[1] > end - p)
			return NULL;
		if (*p == kind)
			return p;
	}
	return NULL;
}

uint64_t
layer_load_option(const struct field *field, const uint8_t *header)
{
	unsigned at = field->bit & 0xff, len = field->bits / 8;
	const uint8_t *option = option_find(header, field->bit >> 8 & 0x7f);
	uint64_t number = 0;

	if (option == NULL || at + len > option[1])
		return FIELD_NONE;
	if (option[0] == OPTION_MAY_SACK)
		return 1;
	for (unsigned i = 0; i < len; i++)
		number = number << 8 | option[at + i];
	return number;
}

uint8_t *
tcp_option_add(struct layer *layer, uint8_t kind, size_t len)
{
	uint8_t *to = layer->options + layer->options_len;

	if (layer->options_len + 2 + len > PACKET_OPTIONS)
		return NULL;
	to[0] = kind;
	to[1] = (uint8_t)(2 + len);
	layer->options_len += 2 + len;
	return to + 2;
}

/* ---- relative numbers ---- */

/* Returns the peer's host, from the IP header in front of a header that the tested host has sent. */
static uint64_t
peer_of(const uint8_t *header)
{
	return field_load(&layer_ip.fields[layer_field(&layer_ip, "dst")], header - layer_ip.length);
}

/* Returns the stream between these ends, or NULL. */
static const struct stream *
stream_find(const struct names *names, uint64_t host, uint64_t local, uint64_t remote)
{
	for (unsigned i = 0; i < NAMES_STREAMS && i < names->stream_count; i++) {
		const struct stream *stream = &names->streams[i];

		if (stream->host == host && stream->local == local && stream->remote == remote)
			return stream;
	}
	return NULL;
}

static uint32_t
first_of(const struct names *names, uint64_t host, uint64_t local, uint64_t remote)
{
	const struct stream *stream = stream_find(names, host, local, remote);

	return stream == NULL ? 0 : stream->iss;
}

void
tcp_note_first(struct names *names, const uint8_t *header)
{
	uint64_t local = field_load(&tcp_fields[TCP_SRC], header), remote = field_load(&tcp_fields[TCP_DST], header);
	const struct stream *stream = stream_find(names, peer_of(header), local, remote);
	struct stream *noted =
		&names->streams[stream != NULL ? stream - names->streams : names->stream_count % NAMES_STREAMS];

	if ((header[13] & 2) == 0)
		return;
	names->stream_count += stream == NULL;
	*noted = (struct stream){ (uint32_t)peer_of(header), (uint16_t)local, (uint16_t)remote,
				  (uint32_t)field_load(&tcp_fields[TCP_SEQ], header) };
}

uint64_t
tcp_relative(const struct names *names, const struct field *field, const uint8_t *header, uint64_t number)
{
	bool is_range = (field->bit & ~0xff) == OPTION(OPTION_RANGES, 0);

	if (number == FIELD_NONE)
		return number;
	if (field == &tcp_fields[TCP_SEQ])
		return (uint32_t)(number - first_of(names, peer_of(header), field_load(&tcp_fields[TCP_SRC], header),
						    field_load(&tcp_fields[TCP_DST], header)));
	/* without the flag, there is no number */
	if (is_range || (field == &tcp_fields[TCP_ACK] && (header[13] & 16) != 0))
		return (uint32_t)(number - TCP_PEER_FIRST);
	return number;
}

static uint64_t
value_or_initial(const struct layer *layer, int field)
{
	return layer->values[field].kind == VALUE_IS ? layer->values[field].number : tcp_fields[field].initial;
}

void
tcp_make_absolute(const struct names *names, struct packet *packet, unsigned at)
{
	struct layer *layer = &packet->layers[at];
	bool is_quoted = layer_is_quoted(packet, at);
	uint64_t src = value_or_initial(layer, TCP_SRC), dst = value_or_initial(layer, TCP_DST);
	uint64_t peer = packet->layers[at - 1].values[layer_field(&layer_ip, is_quoted ? "dst" : "src")].number;
	uint32_t host = is_quoted ? first_of(names, peer, src, dst) : first_of(names, peer, dst, src);
	uint32_t seq_first = is_quoted ? host : TCP_PEER_FIRST, ack_first = is_quoted ? TCP_PEER_FIRST : host;
	struct value *seq = &layer->values[TCP_SEQ], *ack = &layer->values[TCP_ACK];
	uint8_t *range = layer->options + layer->ranges_at;
	int from1 = layer_field(&layer_tcp, "from1");

	if (seq->kind == VALUE_IS || seq->kind == VALUE_ABSENT)
		*seq = (struct value){ .kind = VALUE_IS, .number = (uint32_t)(seq->number + seq_first) };
	if (ack->kind == VALUE_IS)
		ack->number = (uint32_t)(ack->number + ack_first);
	for (unsigned i = 0; i < 2 * layer->ranges_count; i++, range += 4) {
		uint32_t number = (uint32_t)layer->values[from1 + (int)i].number + ack_first;

		for (unsigned k = 0; k < 4; k++)
			range[k] = (uint8_t)(number >> (24 - 8 * k));
	}
}

/* ---- the layer ---- */

static void
tcp_complete(struct packet *packet, unsigned at, uint8_t *header, size_t body_len)
{
	uint32_t sum = layer_pseudo_sum(packet, at - 1, PROTOCOL_TCP, body_len);

	layer_compute(packet, at, TCP_OFF, (20 + packet->layers[at].options_len) / 4, header);
	layer_compute_sum(packet, at, TCP_SUM, checksum_end(checksum_add(sum, header, body_len)), header);
}

static const char *
tcp_check(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len)
{
	uint64_t off = field_load(&tcp_fields[TCP_OFF], header) * 4;
	uint32_t sum;

	if (layer_is_quoted(packet, at))
		return NULL;
	sum = layer_pseudo_sum_of(header - 20, PROTOCOL_TCP, *body_len); /* the tested host sends no IP options */
	if (!layer_is_given(packet, at, TCP_OFF) && off < 20)
		return "tcp has an impossible header length";
	if (!layer_is_given(packet, at, TCP_SUM) && checksum_end(checksum_add(sum, header, *body_len)) != 0)
		return "tcp has a wrong checksum";
	if (!layer_is_given(packet, at, TCP_RESERVED) && field_load(&tcp_fields[TCP_RESERVED], header) != 0)
		return "tcp has reserved bits set";
	if (packet->payload_kind == PAYLOAD_NONE && at + 1 == packet->count && *body_len > off)
		return "tcp carries bytes";
	return NULL;
}

const struct layer_type layer_tcp = { "tcp", 20, tcp_fields, tcp_complete, tcp_check };
