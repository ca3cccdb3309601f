/*
 * packet.h - packets as the scripts of this folder write them (docs/conformance.md): layers with named fields. A packet
 * is built into a frame to inject, or compared with a frame that a host has sent.
 *
 * Headers are described and checksums computed independently, from the RFCs and the protocols' top comments: no tested
 * code takes part in its test.
 */
#ifndef CONFORMANCE_PACKET_H
#define CONFORMANCE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PACKET_LAYERS = 8,
	PACKET_FIELDS = 32,
	PACKET_MAX = 66000, /* bytes of a frame */
	PACKET_OPTIONS = 40,
	PACKET_ETH = 14, /* bytes of an Ethernet header */
	PACKET_WHY = 4096,
	NAME_COUNT = 64,
	NAME_LEN = 32,
	NAMES_STREAMS = 64,
};

/* ---- names in a script ---- */

struct name {
	char text[NAME_LEN];
	uint64_t value;
};

/* A TCP connection whose SYN the tested host has sent. */
struct stream {
	uint32_t host;          /* the peer */
	uint16_t local, remote; /* ports; local: of the tested host */
	uint32_t iss;
};

struct names {
	struct name list[NAME_COUNT];
	unsigned count;
	uint32_t host[4]; /* the tested host's own addresses, and their link addresses */
	uint64_t link[4];
	unsigned host_count;
	unsigned port; /* index of the one in use */
	struct stream streams[NAMES_STREAMS];
	unsigned stream_count; /* that were ever added; old ones are replaced */
};

/* Returns the link address of a host; another host's is derived from its address. */
uint64_t link_of(const struct names *names, uint64_t host);

/* Returns the name, or NULL. */
struct name *name_find(struct names *names, const char *text);
/* Gives the name a value. Returns false if there are too many names. */
bool name_set(struct names *names, const char *text, uint64_t value);

/*
 * Parses a number (12, 0x0c), $name, 10.0.0.2, 02:00:00:00:00:01, @10.0.0.2 (the link address of that host), broadcast,
 * or terms joined by + - * / %. Returns false with the reason in `why`.
 */
bool number_parse(struct names *names, const char *text, uint64_t *number, char *why);

/* ---- packets ---- */

enum value_kind {
	VALUE_ABSENT,
	VALUE_IS,
	VALUE_ANY,     /* `*` */
	VALUE_BIND,    /* `?name`: the name's value if it has one; otherwise sets it */
	VALUE_DIFFERS, /* `!name`: any value but the name's */
	VALUE_BAD,     /* `bad`: a wrong checksum */
};

struct value {
	enum value_kind kind;
	uint64_t number;
	char name[NAME_LEN];
};

struct field {
	const char *name;
	uint16_t bit, bits;
	uint16_t unit;    /* wire units per unit in scripts: 8 for fragment offsets */
	uint64_t initial; /* default value */
};

struct layer;
struct packet;

struct layer_type {
	const char *name;
	size_t length; /* length without options */
	const struct field *fields;
	/*
	 * Derives fields of packet's layer `at` that the packet leaves out, in the header too. The header already has
	 * the other fields; body_len counts it and the bytes behind it. NULL: none to derive.
	 */
	void (*complete)(struct packet *packet, unsigned at, uint8_t *header, size_t body_len);
	/*
	 * Checks a header that the tested host has sent, apart from fields the packet gives. Returns the fault; NULL:
	 * none. *body_len is the number of bytes left, then of those that belong to the layer.
	 */
	const char *(*check)(const struct packet *packet, unsigned at, const uint8_t *header, size_t *body_len);
};

struct layer {
	const struct layer_type *type;
	struct value values[PACKET_FIELDS];
	uint8_t options[PACKET_OPTIONS];
	size_t options_len;
	unsigned ranges_at, ranges_count; /* of TCP's option SACK, whose numbers are relative */
};

enum payload_kind { PAYLOAD_NONE, PAYLOAD_ANY, PAYLOAD_BYTES };

struct packet {
	struct layer layers[PACKET_LAYERS];
	unsigned count;
	enum payload_kind payload_kind;
	size_t payload_len;
	size_t cut;       /* the frame ends after so many bytes; SIZE_MAX: uncut */
	size_t pad;       /* minimum length of the frame */
	uint8_t pad_byte; /* the padding */
	uint8_t payload[PACKET_MAX];
};

extern const struct layer_type layer_eth, layer_arp, layer_ip, layer_udp, layer_icmp, layer_tcp;
extern const struct layer_type layer_blast, layer_bidctl, layer_bid, layer_chan, layer_gm, layer_am;
extern const struct layer_type *const layer_types[];

/* Returns the layer that `lower` calls by this number; NULL: not described here. */
const struct layer_type *layer_numbered(const struct layer_type *lower, uint64_t number);

/* Returns the index of the field called name, or -1. */
int layer_field(const struct layer_type *type, const char *name);

/*
 * Loads or stores a header's field, in the units of scripts. The field of an option that the header lacks is FIELD_NONE;
 * storing leaves options alone.
 */
uint64_t field_load(const struct field *field, const uint8_t *header);
void field_store(const struct field *field, uint8_t *header, uint64_t number);

#define FIELD_NONE UINT64_MAX
bool field_is_option(const struct field *field);

/* ---- TCP's numbers are relative to the first one of their end ---- */

/* The first number of the tested host's peers. It wraps soon. */
#define TCP_PEER_FIRST UINT32_C(0xfffffff0)

/* Notes the first number of the tested host if the header, which it has sent, has one. */
void tcp_note_first(struct names *names, const uint8_t *header);

/* Returns a number that a header of the tested host has in a field, relative if it is a sequence number. */
uint64_t tcp_relative(const struct names *names, const struct field *field, const uint8_t *header, uint64_t number);

/* Makes the numbers of a packet's TCP layer `at`, to be injected, absolute. In a quote, they are the tested host's. */
void tcp_make_absolute(const struct names *names, struct packet *packet, unsigned at);

/* Appends an option of kind and len bytes. Returns NULL without room, or where its value begins. */
uint8_t *tcp_option_add(struct layer *layer, uint8_t kind, size_t len);

/* Computes the Internet checksum (RFC 1071) of len bytes, added to an earlier sum. */
uint32_t checksum_add(uint32_t sum, const uint8_t *bytes, size_t len);
uint16_t checksum_end(uint32_t sum);

/*
 * Parses a packet, or further fields of its last layer, from words (NULL ends them). An eth layer is added if there is
 * none. Returns false with the reason in `why`.
 */
bool packet_parse(struct packet *packet, struct names *names, char *const *words, char *why);
bool packet_parse_fields(struct packet *packet, struct names *names, char *const *words, char *why);

/* Builds the frame into bytes (PACKET_MAX of them). Returns its length, or 0 with the reason in `why`. */
size_t packet_build(const struct packet *packet, struct names *names, uint8_t *bytes, char *why);

/*
 * Makes the packet that carries bytes [from, to) of the payload of whole's IP or BLAST header. IP sets `more` unless to
 * is the end; BLAST names the fragment, of `count`, by its place.
 */
bool packet_slice(const struct packet *whole, struct names *names, size_t from, size_t to, struct packet *slice,
		  char *why);

/* Returns true if the frame matches packet. Otherwise `why` names the first difference. */
bool packet_match(const struct packet *packet, struct names *names, const uint8_t *bytes, size_t len, char *why);

/* Prints the frame in the scripts' own language. */
void packet_print(const struct names *names, const uint8_t *bytes, size_t len, char *text, size_t size);

#endif
