/*
 * packet.h - packets as the scripts of this folder write them (docs/conformance.md): layers with named fields, of which
 * one is built to be injected, or which is held against what a host has sent.
 *
 * The headers are described here once more, from the RFCs and from what the protocols' files promise, and checksums are
 * computed here once more: nothing of what is tested takes part in its test.
 */
#ifndef CONFORMANCE_PACKET_H
#define CONFORMANCE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PACKET_LAYERS = 8,
	PACKET_FIELDS = 16,
	PACKET_MAX = 66000, /* bytes of a frame */
	PACKET_OPTIONS = 40,
	PACKET_ETH = 14, /* bytes of an Ethernet header */
	PACKET_WHY = 4096,
	NAME_COUNT = 64,
	NAME_LEN = 32,
};

/* ---- what a script has given names to ---- */

struct name {
	char text[NAME_LEN];
	uint64_t value;
};

struct names {
	struct name list[NAME_COUNT];
	unsigned count;
	uint32_t host[4]; /* the tested host's own addresses, and their link addresses */
	uint64_t link[4];
	unsigned host_count;
	unsigned port; /* which of these is spoken to */
};

/* The link address of a host: another than the tested one has one that follows from its own. */
uint64_t link_of(const struct names *names, uint64_t host);

/* The name, or NULL. */
struct name *name_find(struct names *names, const char *text);
/* Gives it a value, new or other. False: there are too many. */
bool name_set(struct names *names, const char *text, uint64_t value);

/*
 * A number (12, 0x0c), $name, 10.0.0.2, 02:00:00:00:00:01, @10.0.0.2 (the link address of that host) or broadcast, and
 * what + - * / % make of such. Or what is wrong in why.
 */
bool number_parse(struct names *names, const char *text, uint64_t *number, char *why);

/* ---- packets ---- */

enum value_kind {
	VALUE_UNSAID,
	VALUE_IS,
	VALUE_ANY,     /* `*` */
	VALUE_BIND,    /* `?name`: whatever it is gets that name; the value of the name, if it has one */
	VALUE_DIFFERS, /* `!name`: another than that name's */
	VALUE_BAD,     /* `bad`, of checksums: a wrong one */
};

struct value {
	enum value_kind kind;
	uint64_t number;
	char name[NAME_LEN];
};

struct field {
	const char *name;
	uint16_t bit, bits;
	uint16_t unit;    /* what is written is so much of what is on the wire: 8 for fragment offsets */
	uint64_t initial; /* of what is not said */
};

struct layer;
struct packet;

struct layer_type {
	const char *name;
	size_t length; /* of the header without options */
	const struct field *fields;
	/*
	 * Gives values to those fields of packet's layer `at` that follow from others, in the header as well. The header
	 * has the other fields already; body_len counts it and what comes behind it. NULL: there are none.
	 */
	void (*complete)(struct packet *packet, unsigned at, uint8_t *header, size_t body_len);
	/*
	 * What is wrong with a header that the tested host has sent, apart from fields that are said; NULL: nothing.
	 * *body_len is what there is, and then what belongs to the layer.
	 */
	const char *(*check)(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len);
};

struct layer {
	const struct layer_type *type;
	struct value values[PACKET_FIELDS];
	uint8_t options[PACKET_OPTIONS];
	size_t options_len;
};

enum payload_kind { PAYLOAD_NONE, PAYLOAD_ANY, PAYLOAD_BYTES };

struct packet {
	struct layer layers[PACKET_LAYERS];
	unsigned count;
	enum payload_kind payload_kind;
	size_t payload_len;
	size_t cut;       /* the frame ends after so many bytes; SIZE_MAX: where it should */
	size_t pad;       /* the frame is made at least so long */
	uint8_t pad_byte; /* with this */
	uint8_t payload[PACKET_MAX];
};

extern const struct layer_type layer_eth, layer_arp, layer_ip, layer_udp, layer_icmp;
extern const struct layer_type layer_blast, layer_bidctl, layer_bid, layer_chan, layer_gm, layer_am;
extern const struct layer_type *const layer_types[];

/* What lower calls by this number; NULL: nothing that is described here. */
const struct layer_type *layer_numbered(const struct layer_type *lower, uint64_t number);

/* The field called name of a type, or -1. */
int layer_field(const struct layer_type *type, const char *name);

/* Of a header: what the field holds, in units as written. */
uint64_t field_load(const struct field *field, const uint8_t *header);
void field_store(const struct field *field, uint8_t *header, uint64_t number);

/* The Internet checksum, as RFC 1071 has it, of what was summed up already and len bytes. */
uint32_t checksum_add(uint32_t sum, const uint8_t *bytes, size_t len);
uint16_t checksum_end(uint32_t sum);

/*
 * Reads a packet, or further fields of its last layer, from words (NULL ends them). False: why says what is wrong.
 * An eth layer is put in front if there is none.
 */
bool packet_parse(struct packet *packet, struct names *names, char *const *words, char *why);
bool packet_parse_fields(struct packet *packet, struct names *names, char *const *words, char *why);

/* Builds the frame into bytes (PACKET_MAX of them). Its length, or 0: why says what is wrong. */
size_t packet_build(const struct packet *packet, struct names *names, uint8_t *bytes, char *why);

/*
 * The packet that carries bytes [from, to) of what the IP or BLAST header of `whole` carries: IP's says `more` unless to is
 * the end; BLAST's names the fragment, of `count`, by where it is.
 */
bool packet_slice(const struct packet *whole, struct names *names, size_t from, size_t to, struct packet *slice,
		  char *why);

/* Whether the frame is what packet says. False: why says the first thing that is not. */
bool packet_match(const struct packet *packet, struct names *names, const uint8_t *bytes, size_t len, char *why);

/* Writes what the frame is, in the scripts' own language. */
void packet_print(const uint8_t *bytes, size_t len, char *text, size_t size);

#endif
