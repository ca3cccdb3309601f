/*
 * layers.c - the headers of Ethernet, ARP, IP, UDP and ICMP: their fields, values derived from other fields, and checks
 * of any header that a host sends; see packet.h. Those of the RPC suite and GM are in layers_rpc.c,
 * TCP's in layers_tcp.c.
 */
#include <string.h>

#include "tests/conformance/layers_private.h"

enum { TYPE_IP = 0x0800, PROTOCOL_UDP = 17 };

/* ---- reading and writing fields ---- */

uint64_t
field_load(const struct field *field, const uint8_t *header)
{
	uint64_t number = 0;

	if (field_is_option(field))
		return layer_load_option(field, header);
	for (unsigned i = 0; i < field->bits; i++) {
		unsigned bit = field->bit + i;

		number = number << 1 | (header[bit / 8] >> (7 - bit % 8) & 1);
	}
	return number * field->unit;
}

void
field_store(const struct field *field, uint8_t *header, uint64_t number)
{
	if (field_is_option(field))
		return;
	number /= field->unit;
	for (unsigned i = field->bits; i-- > 0; number >>= 1) {
		unsigned bit = field->bit + i;
		uint8_t mask = (uint8_t)(1 << (7 - bit % 8));

		header[bit / 8] = (uint8_t)((number & 1) != 0 ? header[bit / 8] | mask : header[bit / 8] & ~mask);
	}
}

int
layer_field(const struct layer_type *type, const char *name)
{
	for (int i = 0; type->fields[i].name != NULL; i++)
		if (strcmp(type->fields[i].name, name) == 0)
			return i;
	return -1;
}

uint32_t
checksum_add(uint32_t sum, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		sum += (uint32_t)bytes[i] << (i % 2 == 0 ? 8 : 0);
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return sum;
}

uint16_t
checksum_end(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

/* ---- derived values ---- */

bool
layer_is_given(const struct packet *packet, unsigned at, int field)
{
	return packet->layers[at].values[field].kind != VALUE_ABSENT;
}

void
layer_compute(struct packet *packet, unsigned at, int field, uint64_t number, uint8_t *header)
{
	struct layer *layer = &packet->layers[at];

	if (layer->values[field].kind != VALUE_ABSENT)
		return;
	layer->values[field] = (struct value){ .kind = VALUE_IS, .number = number };
	field_store(&layer->type->fields[field], header, number);
}

/* In UDP, zero would mean that there is no checksum. */
void
layer_compute_sum(struct packet *packet, unsigned at, int field, uint16_t right, uint8_t *header)
{
	struct value *value = &packet->layers[at].values[field];

	if (value->kind == VALUE_BAD) {
		*value = (struct value){ .kind = VALUE_ABSENT };
		right = right == 0x0100 ? 0x0200 : right ^ 0x0100u;
	}
	layer_compute(packet, at, field, right, header);
}

const struct layer_type *
layer_above(const struct packet *packet, unsigned at)
{
	return at + 1 < packet->count ? packet->layers[at + 1].type : NULL;
}

bool
layer_is_quoted(const struct packet *packet, unsigned at)
{
	for (unsigned i = 0; i < at; i++)
		if (packet->layers[i].type == &layer_icmp)
			return true;
	return false;
}

/* ---- upper layers: the first entry of each lower layer is its default ---- */

static const struct carried {
	const struct layer_type *lower, *upper;
	uint32_t number;
} carried[] = {
	{ &layer_eth, &layer_ip, TYPE_IP },    { &layer_eth, &layer_arp, 0x0806 },
	{ &layer_eth, &layer_blast, 0x3001 },  { &layer_eth, &layer_bid, 0x3005 },
	{ &layer_eth, &layer_bidctl, 0x3006 }, { &layer_ip, &layer_udp, PROTOCOL_UDP },
	{ &layer_ip, &layer_icmp, 1 },         { &layer_ip, &layer_ip, 4 },
	{ &layer_ip, &layer_tcp, 6 },          { &layer_ip, &layer_blast, 101 },
	{ &layer_ip, &layer_bid, 204 },        { &layer_ip, &layer_bidctl, 205 },
	{ &layer_blast, &layer_udp, 17 },      { &layer_blast, &layer_bid, 0x3005 },
	{ &layer_bid, &layer_udp, 17 },        { &layer_bid, &layer_chan, 102 },
	{ &layer_bid, &layer_gm, 208 },        { &layer_eth, &layer_am, 0x3007 },
	{ &layer_ip, &layer_am, 206 },
};

uint64_t
layer_number(const struct packet *packet, unsigned at)
{
	const struct layer_type *lower = packet->layers[at].type, *upper = layer_above(packet, at);
	const struct carried *usual = NULL;

	for (size_t i = 0; i < sizeof(carried) / sizeof(carried[0]); i++) {
		if (carried[i].lower != lower)
			continue;
		if (carried[i].upper == upper)
			return carried[i].number;
		if (usual == NULL)
			usual = &carried[i];
	}
	return usual == NULL ? 0 : usual->number;
}

const struct layer_type *
layer_numbered(const struct layer_type *lower, uint64_t number)
{
	for (size_t i = 0; i < sizeof(carried) / sizeof(carried[0]); i++)
		if (carried[i].lower == lower && carried[i].number == number)
			return carried[i].upper;
	return NULL;
}

/* ---- Ethernet ---- */

enum { ETH_TO, ETH_FROM, ETH_TYPE };

static const struct field eth_fields[] = {
	{ "dst", 0, 48, 1, 0 },
	{ "src", 48, 48, 1, 0 },
	{ "type", 96, 16, 1, TYPE_IP },
	{ NULL, 0, 0, 0, 0 },
};

static void
eth_complete(struct packet *packet, unsigned at, uint8_t *header, size_t body_len)
{
	layer_compute(packet, at, ETH_TYPE, layer_number(packet, at), header);
}

static const char *
eth_check(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len)
{
	if (!layer_is_given(packet, at, ETH_TYPE) &&
	    field_load(&eth_fields[ETH_TYPE], header) != layer_number(packet, at))
		return "eth has a wrong type";
	return NULL;
}

const struct layer_type layer_eth = { "eth", PACKET_ETH, eth_fields, eth_complete, eth_check };

/* ---- ARP (RFC 826) ---- */

static const struct field arp_fields[] = {
	{ "hw", 0, 16, 1, 1 },        { "proto", 16, 16, 1, TYPE_IP }, { "hw-len", 32, 8, 1, 6 },
	{ "proto-len", 40, 8, 1, 4 }, { "op", 48, 16, 1, 1 },          { "sender-mac", 64, 48, 1, 0 },
	{ "sender", 112, 32, 1, 0 },  { "target-mac", 144, 48, 1, 0 }, { "target", 192, 32, 1, 0 },
	{ NULL, 0, 0, 0, 0 },
};

static const char *
arp_check(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len)
{
	for (int i = 0; i < 4; i++)
		if (!layer_is_given(packet, at, i) && field_load(&arp_fields[i], header) != arp_fields[i].initial)
			return "arp is not for IP over Ethernet";
	return NULL;
}

const struct layer_type layer_arp = { "arp", 28, arp_fields, NULL, arp_check };

/* ---- IP (RFC 791) ---- */

enum {
	IP_VERSION,
	IP_IHL,
	IP_TOS,
	IP_LEN,
	IP_ID,
	IP_EVIL,
	IP_DONT,
	IP_MORE,
	IP_OFFSET,
	IP_TTL,
	IP_PROTO,
	IP_SUM,
	IP_SRC,
	IP_DST
};

static const struct field ip_fields[] = {
	{ "version", 0, 4, 1, 4 },
	{ "ihl", 4, 4, 1, 5 },
	{ "tos", 8, 8, 1, 0 },
	{ "len", 16, 16, 1, 0 },
	{ "id", 32, 16, 1, 1 },
	{ "evil", 48, 1, 1, 0 },
	{ "dont", 49, 1, 1, 0 },
	{ "more", 50, 1, 1, 0 },
	{ "offset", 51, 13, 8, 0 },
	{ "ttl", 64, 8, 1, 64 },
	{ "proto", 72, 8, 1, PROTOCOL_UDP },
	{ "sum", 80, 16, 1, 0 },
	{ "src", 96, 32, 1, 0 },
	{ "dst", 128, 32, 1, 0 },
	{ NULL, 0, 0, 0, 0 },
};

static void
ip_complete(struct packet *packet, unsigned at, uint8_t *header, size_t body_len)
{
	size_t header_len = 20 + packet->layers[at].options_len;

	layer_compute(packet, at, IP_IHL, header_len / 4, header);
	layer_compute(packet, at, IP_LEN, body_len, header);
	layer_compute(packet, at, IP_PROTO, layer_number(packet, at), header);
	layer_compute_sum(packet, at, IP_SUM, checksum_end(checksum_add(0, header, header_len)), header);
}

/* Checks fields that have a fixed value unless the packet gives another. */
static const char *
ip_check_plain(const struct packet *packet, unsigned at, const uint8_t *header)
{
	static const struct {
		int field;
		const char *why;
	} plain[] = {
		{ IP_VERSION, "ip has a wrong version" },
		{ IP_EVIL, "ip has its reserved bit set" },
		{ IP_MORE, "ip is a fragment: more follow" },
		{ IP_OFFSET, "ip is a fragment" },
	};

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (!layer_is_given(packet, at, plain[i].field) &&
		    field_load(&ip_fields[plain[i].field], header) != ip_fields[plain[i].field].initial)
			return plain[i].why;
	return NULL;
}

static const char *
ip_check(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len)
{
	size_t len = field_load(&ip_fields[IP_LEN], header), ihl = field_load(&ip_fields[IP_IHL], header) * 4;

	if (layer_is_quoted(packet, at))
		return NULL;
	if (ihl < 20 || ihl > *body_len)
		return "ip has an impossible header length";
	if (!layer_is_given(packet, at, IP_LEN) && (len < ihl || len > *body_len))
		return "ip has an impossible length";
	if (!layer_is_given(packet, at, IP_SUM) && checksum_end(checksum_add(0, header, ihl)) != 0)
		return "ip has a wrong checksum";
	if (!layer_is_given(packet, at, IP_PROTO) && at + 1 < packet->count &&
	    field_load(&ip_fields[IP_PROTO], header) != layer_number(packet, at))
		return "ip carries another protocol";
	if (len >= ihl && len < *body_len)
		*body_len = len;
	return ip_check_plain(packet, at, header);
}

const struct layer_type layer_ip = { "ip", 20, ip_fields, ip_complete, ip_check };

static uint32_t
pseudo_sum(uint8_t protocol, uint64_t source, uint64_t destination, uint64_t length)
{
	uint8_t pseudo[12] = { [9] = protocol, [10] = (uint8_t)(length >> 8), [11] = (uint8_t)length };

	for (unsigned i = 0; i < 4; i++) {
		pseudo[i] = (uint8_t)(source >> (24 - 8 * i));
		pseudo[4 + i] = (uint8_t)(destination >> (24 - 8 * i));
	}
	return checksum_add(0, pseudo, sizeof(pseudo));
}

uint32_t
layer_pseudo_sum(const struct packet *packet, unsigned at, uint8_t protocol, uint64_t length)
{
	const struct value *ip = packet->layers[at].values;

	return pseudo_sum(protocol, ip[IP_SRC].number, ip[IP_DST].number, length);
}

uint32_t
layer_pseudo_sum_of(const uint8_t *header, uint8_t protocol, uint64_t length)
{
	return pseudo_sum(protocol, field_load(&ip_fields[IP_SRC], header), field_load(&ip_fields[IP_DST], header),
			  length);
}

/* ---- UDP (RFC 768) ---- */

enum { UDP_SRC, UDP_DST, UDP_LEN, UDP_SUM };

static const struct field udp_fields[] = {
	{ "src", 0, 16, 1, 5000 }, { "dst", 16, 16, 1, 2001 }, { "len", 32, 16, 1, 0 },
	{ "sum", 48, 16, 1, 0 },   { NULL, 0, 0, 0, 0 },
};

/* Returns the index of the IP header below, also through BLAST. 0: none has both hosts. */
static unsigned
udp_hosts(const struct packet *packet, unsigned at)
{
	if (packet->layers[at - 1].type == &layer_blast) /* at least Ethernet is below */
		at--;
	return packet->layers[at - 1].type == &layer_ip ? at - 1 : 0;
}

static void
udp_complete(struct packet *packet, unsigned at, uint8_t *header, size_t body_len)
{
	unsigned ip = udp_hosts(packet, at);
	uint32_t sum = 0;
	uint64_t len;
	uint16_t right;

	layer_compute(packet, at, UDP_LEN, body_len, header);
	if (ip == 0)
		layer_compute(packet, at, UDP_SUM, 0, header);
	len = packet->layers[at].values[UDP_LEN].number;
	if (ip != 0)
		sum = layer_pseudo_sum(packet, ip, PROTOCOL_UDP, len);
	right = checksum_end(checksum_add(sum, header, len < body_len ? len : body_len));
	layer_compute_sum(packet, at, UDP_SUM, right == 0 ? 0xffff : right, header);
}

static const char *
udp_check(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len)
{
	const uint8_t *ip = header - 20; /* the tested host sends no options */
	uint64_t len = field_load(&udp_fields[UDP_LEN], header), sum = field_load(&udp_fields[UDP_SUM], header);

	if (layer_is_quoted(packet, at) || packet->layers[at - 1].type != &layer_ip ||
	    field_load(&ip_fields[IP_MORE], ip) != 0)
		return NULL;
	if (!layer_is_given(packet, at, UDP_LEN) && len != *body_len)
		return "udp has a wrong length";
	if (!layer_is_given(packet, at, UDP_SUM) && sum == 0)
		return "udp has no checksum";
	if (!layer_is_given(packet, at, UDP_SUM) &&
	    checksum_end(checksum_add(layer_pseudo_sum_of(ip, PROTOCOL_UDP, len), header, *body_len)) != 0)
		return "udp has a wrong checksum";
	return NULL;
}

const struct layer_type layer_udp = { "udp", 8, udp_fields, udp_complete, udp_check };

/* ---- ICMP (RFC 792) ---- */

enum { ICMP_TYPE, ICMP_CODE, ICMP_SUM };

/* id and seq are where errors have zero and the next hop's MTU */
static const struct field icmp_fields[] = {
	{ "type", 0, 8, 1, 8 },  { "code", 8, 8, 1, 0 },  { "sum", 16, 16, 1, 0 }, { "id", 32, 16, 1, 0 },
	{ "seq", 48, 16, 1, 0 }, { "mtu", 48, 16, 1, 0 }, { NULL, 0, 0, 0, 0 },
};

static void
icmp_complete(struct packet *packet, unsigned at, uint8_t *header, size_t body_len)
{
	layer_compute_sum(packet, at, ICMP_SUM, checksum_end(checksum_add(0, header, body_len)), header);
}

static const char *
icmp_check(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len)
{
	if (!layer_is_quoted(packet, at) && !layer_is_given(packet, at, ICMP_SUM) &&
	    packet->layers[at - 1].type == &layer_ip && packet->layers[at - 1].values[IP_MORE].number == 0 &&
	    checksum_end(checksum_add(0, header, *body_len)) != 0)
		return "icmp has a wrong checksum";
	return NULL;
}

const struct layer_type layer_icmp = { "icmp", 8, icmp_fields, icmp_complete, icmp_check };

const struct layer_type *const layer_types[] = { &layer_eth,   &layer_arp,    &layer_ip,  &layer_udp,  &layer_icmp,
						 &layer_blast, &layer_bidctl, &layer_bid, &layer_chan, &layer_gm,
						 &layer_am,    &layer_tcp,    NULL };
