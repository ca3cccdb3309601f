/*
 * pcapng_reader.h - reads captures back for tests: either byte order, every length checked. It follows the format's
 * description, not our writer. A malformed file fails the test.
 */
#ifndef PCAPNG_READER_H
#define PCAPNG_READER_H

#include "tests/test.h"

enum { READER_INTERFACES = 16, READER_NAME = 64 };

struct reader_interface {
	char name[READER_NAME], description[READER_NAME];
	unsigned link_type;
	bool has_statistics;
	uint64_t seen, dropped;
};

struct reader_packet {
	unsigned interface, direction;
	uint64_t at_ns;
	uint32_t kept, len;
	const uint8_t *bytes;
	char comment[READER_NAME];
};

struct reader {
	uint8_t *bytes;
	size_t len;
	bool big;
	struct reader_interface interfaces[READER_INTERFACES];
	unsigned interface_count;
	struct reader_packet *packets;
	size_t packet_count;
};

static inline uint32_t
reader_get32(const struct reader *reader, size_t at)
{
	const uint8_t *p = reader->bytes + at;

	REQUIRE(at + 4 <= reader->len);
	return reader->big ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
			   : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static inline unsigned
reader_get16(const struct reader *reader, size_t at)
{
	const uint8_t *p = reader->bytes + at;

	REQUIRE(at + 2 <= reader->len);
	return reader->big ? (unsigned)p[0] << 8 | p[1] : (unsigned)p[1] << 8 | p[0];
}

static inline uint64_t
reader_get64(const struct reader *reader, size_t at)
{
	uint64_t first = reader_get32(reader, at), second = reader_get32(reader, at + 4);

	return reader->big ? first << 32 | second : second << 32 | first;
}

/* Finds the value of option `code` among those from `at` to `end`, and its length. Returns 0 if it is not there. */
static inline size_t
reader_option(const struct reader *reader, size_t at, size_t end, unsigned code, size_t *len)
{
	while (at + 4 <= end) {
		unsigned found = reader_get16(reader, at);

		*len = reader_get16(reader, at + 2);
		REQUIRE(at + 4 + *len <= end);
		if (found == code)
			return at + 4;
		if (found == 0)
			return 0;
		at += 4 + (*len + 3) / 4 * 4;
	}
	return 0;
}

static inline void
reader_text(const struct reader *reader, size_t at, size_t end, unsigned code, char text[READER_NAME])
{
	size_t len = 0, value = reader_option(reader, at, end, code, &len);

	text[0] = '\0';
	if (value != 0)
		snprintf(text, READER_NAME, "%.*s", (int)len, (const char *)reader->bytes + value);
}

static inline void
reader_take_interface(struct reader *reader, size_t at, size_t end)
{
	struct reader_interface *interface = &reader->interfaces[reader->interface_count++];
	size_t len = 0, resolution = reader_option(reader, at + 8, end, 9, &len);

	REQUIRE(reader->interface_count <= READER_INTERFACES);
	interface->link_type = reader_get16(reader, at);
	reader_text(reader, at + 8, end, 2, interface->name);
	reader_text(reader, at + 8, end, 3, interface->description);
	CHECK(resolution != 0 && len == 1 && reader->bytes[resolution] == 9);
}

static inline void
reader_take_packet(struct reader *reader, size_t at, size_t end)
{
	struct reader_packet *packet = &reader->packets[reader->packet_count++];
	size_t options, flags, len = 0;

	packet->interface = reader_get32(reader, at);
	REQUIRE(packet->interface < reader->interface_count);
	packet->at_ns = (uint64_t)reader_get32(reader, at + 4) << 32 | reader_get32(reader, at + 8);
	packet->kept = reader_get32(reader, at + 12);
	packet->len = reader_get32(reader, at + 16);
	packet->bytes = reader->bytes + at + 20;
	options = at + 20 + (packet->kept + 3) / 4 * 4;
	REQUIRE(options <= end && packet->kept <= packet->len);
	flags = reader_option(reader, options, end, 2, &len);
	packet->direction = flags != 0 ? reader_get32(reader, flags) & 3 : 0;
	reader_text(reader, options, end, 1, packet->comment);
}

static inline void
reader_take_statistics(struct reader *reader, size_t at, size_t end)
{
	unsigned number = reader_get32(reader, at);
	struct reader_interface *interface = &reader->interfaces[number];
	size_t len = 0, value;

	REQUIRE(number < reader->interface_count);
	interface->has_statistics = true;
	value = reader_option(reader, at + 12, end, 4, &len);
	interface->seen = value != 0 ? reader_get64(reader, value) : 0;
	value = reader_option(reader, at + 12, end, 5, &len);
	interface->dropped = value != 0 ? reader_get64(reader, value) : 0;
}

/* Reads the block at `at`. Returns where the next one begins. */
static inline size_t
reader_block(struct reader *reader, size_t at)
{
	uint32_t type = reader_get32(reader, at), len;

	if (type == 0x0a0d0d0a) {
		static const uint8_t big[] = { 0x1a, 0x2b, 0x3c, 0x4d }, little[] = { 0x4d, 0x3c, 0x2b, 0x1a };

		REQUIRE(at + 12 <= reader->len);
		reader->big = memcmp(reader->bytes + at + 8, big, 4) == 0;
		REQUIRE(reader->big || memcmp(reader->bytes + at + 8, little, 4) == 0);
	}
	len = reader_get32(reader, at + 4);
	REQUIRE(len >= 12 && len % 4 == 0 && at + len <= reader->len);
	CHECK_EQ(reader_get32(reader, at + len - 4), len);
	if (type == 1)
		reader_take_interface(reader, at + 8, at + len - 4);
	else if (type == 6)
		reader_take_packet(reader, at + 8, at + len - 4);
	else if (type == 5)
		reader_take_statistics(reader, at + 8, at + len - 4);
	else
		CHECK_EQ(type, 0x0a0d0d0a);
	return at + len;
}

/* Takes malloc'ed bytes; reader_free frees them. */
static inline void
reader_take(struct reader *reader, uint8_t *bytes, size_t len)
{
	*reader = (struct reader){ .bytes = bytes, .len = len };
	/* a packet block has at least 32 bytes */
	reader->packets = calloc(len / 32 + 1, sizeof(*reader->packets));
	REQUIRE(reader->packets != NULL && bytes != NULL);
	for (size_t at = 0; at < len;)
		at = reader_block(reader, at);
}

static inline void
reader_read(struct reader *reader, const char *path)
{
	FILE *in = fopen(path, "rb");
	uint8_t *bytes;
	size_t len;

	REQUIRE(in != NULL);
	fseek(in, 0, SEEK_END);
	len = (size_t)ftell(in);
	rewind(in);
	bytes = malloc(len + 1);
	REQUIRE(bytes != NULL);
	CHECK_EQ(fread(bytes, 1, len, in), len);
	fclose(in);
	reader_take(reader, bytes, len);
}

static inline void
reader_free(struct reader *reader)
{
	free(reader->bytes);
	free(reader->packets);
}

#endif
