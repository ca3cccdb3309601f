/* pcapng.c - see pcapng.h. */
#include "tools/capture/pcapng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xkernel/base.h"

enum {
	PCAPNG_SECTION = 0x0a0d0d0a,
	PCAPNG_INTERFACE = 1,
	PCAPNG_STATISTICS = 5,
	PCAPNG_PACKET = 6,

	PCAPNG_BYTE_ORDER = 0x1a2b3c4d,
	PCAPNG_ETHERNET = 1,
	PCAPNG_NANOSECONDS = 9, /* 10 to the minus this */

	PCAPNG_BLOCK_LEN = 12, /* type, and length before and behind */
	PCAPNG_OPTION_LEN = 4, /* code and length */

	PCAPNG_OPTION_END = 0,
	PCAPNG_OPTION_COMMENT = 1,
	PCAPNG_OPTION_NAME = 2,        /* of an interface */
	PCAPNG_OPTION_FLAGS = 2,       /* of a packet */
	PCAPNG_OPTION_DESCRIPTION = 3, /* of an interface */
	PCAPNG_OPTION_PROGRAM = 4,     /* of a section */
	PCAPNG_OPTION_SEEN = 4,        /* of statistics */
	PCAPNG_OPTION_DROPPED = 5,
	PCAPNG_OPTION_RESOLUTION = 9,
};

/* Holds the longest block several times. */
enum { PCAPNG_BUFFER = 1 << 20 };

static_assert(PCAPNG_BUFFER > PCAPNG_FRAME_MAX + 4 * PCAPNG_TEXT_MAX, "every block fits");

struct pcapng {
	FILE *out;
	unsigned interfaces;
	int error;       /* of the first write that failed; nothing is written after it */
	size_t buffered; /* of whole blocks, and of the one that is begun */
	char buffer[PCAPNG_BUFFER];
};

static void
pcapng_write(struct pcapng *capture, const void *bytes, size_t len)
{
	if (capture->error != 0 || len == 0 || fwrite(bytes, 1, len, capture->out) == len)
		return;
	capture->error = errno != 0 ? errno : EIO;
}

static void
pcapng_put16(struct pcapng *capture, unsigned v)
{
	const uint8_t bytes[] = { (uint8_t)v, (uint8_t)(v >> 8) };

	pcapng_write(capture, bytes, sizeof(bytes));
}

static void
pcapng_put32(struct pcapng *capture, uint32_t v)
{
	pcapng_put16(capture, v & 0xffff);
	pcapng_put16(capture, v >> 16);
}

/* Everything is filled up to a multiple of 4. */
static size_t
pcapng_padded(size_t len)
{
	return (len + 3) & ~(size_t)3;
}

static void
pcapng_put_padded(struct pcapng *capture, const void *bytes, size_t len)
{
	static const uint8_t zero[3];

	pcapng_write(capture, bytes, len);
	pcapng_write(capture, zero, pcapng_padded(len) - len);
}

/* What of text is written: never half a character. */
static size_t
pcapng_text_len(const char *text)
{
	size_t len = strnlen(text, PCAPNG_TEXT_MAX + 1);

	if (len <= PCAPNG_TEXT_MAX)
		return len;
	len = PCAPNG_TEXT_MAX;
	while (len > 0 && ((uint8_t)text[len] & 0xc0) == 0x80)
		len--;
	return len;
}

static size_t
pcapng_option_len(size_t len)
{
	return PCAPNG_OPTION_LEN + pcapng_padded(len);
}

static void
pcapng_option(struct pcapng *capture, unsigned code, const void *value, size_t len)
{
	pcapng_put16(capture, code);
	pcapng_put16(capture, (unsigned)len);
	pcapng_put_padded(capture, value, len);
}

static void
pcapng_option_count(struct pcapng *capture, unsigned code, uint64_t count)
{
	pcapng_put16(capture, code);
	pcapng_put16(capture, sizeof(count));
	pcapng_put32(capture, (uint32_t)count);
	pcapng_put32(capture, (uint32_t)(count >> 32));
}

/* The stream, whose buffer a block fits into then, does not write half of it. */
static void
pcapng_begin(struct pcapng *capture, uint32_t type, size_t len)
{
	if (capture->buffered + len >= PCAPNG_BUFFER)
		pcapng_flush(capture);
	capture->buffered += len;
	pcapng_put32(capture, type);
	pcapng_put32(capture, (uint32_t)len);
}

/* Ends the options, and the block. */
static void
pcapng_end(struct pcapng *capture, size_t len)
{
	pcapng_option(capture, PCAPNG_OPTION_END, NULL, 0);
	pcapng_put32(capture, (uint32_t)len);
}

static void
pcapng_section(struct pcapng *capture, const char *program)
{
	size_t program_len = pcapng_text_len(program);
	size_t len = PCAPNG_BLOCK_LEN + 16 + pcapng_option_len(program_len) + pcapng_option_len(0);

	pcapng_begin(capture, PCAPNG_SECTION, len);
	pcapng_put32(capture, PCAPNG_BYTE_ORDER);
	pcapng_put16(capture, 1); /* version 1.0 */
	pcapng_put16(capture, 0);
	pcapng_put32(capture, UINT32_MAX); /* the section's length is not told */
	pcapng_put32(capture, UINT32_MAX);
	pcapng_option(capture, PCAPNG_OPTION_PROGRAM, program, program_len);
	pcapng_end(capture, len);
}

static FILE *
pcapng_stream(const char *path)
{
	int fd, end = 0;

	if (sscanf(path, PCAPNG_DESCRIPTOR "%d%n", &fd, &end) == 1 && path[end] == '\0')
		return fdopen(fd, "wb");
	return fopen(path, "wbe");
}

struct pcapng *
pcapng_open(const char *path, const char *program)
{
	struct pcapng *capture = malloc(sizeof(*capture));

	if (capture == NULL)
		return NULL;
	memset(capture, 0, offsetof(struct pcapng, buffer));
	capture->out = pcapng_stream(path);
	if (capture->out == NULL) {
		int error = errno;

		free(capture);
		errno = error;
		return NULL;
	}
	setvbuf(capture->out, capture->buffer, _IOFBF, PCAPNG_BUFFER);
	pcapng_section(capture, program);
	return capture;
}

unsigned
pcapng_interface(struct pcapng *capture, const char *name)
{
	return pcapng_interface_of(capture, name, NULL, PCAPNG_ETHERNET);
}

unsigned
pcapng_interface_of(struct pcapng *capture, const char *name, const char *description, unsigned link_type)
{
	const uint8_t resolution = PCAPNG_NANOSECONDS;
	size_t name_len = pcapng_text_len(name);
	size_t description_len = description != NULL ? pcapng_text_len(description) : 0;
	size_t len = PCAPNG_BLOCK_LEN + 8 + pcapng_option_len(name_len) +
		     (description != NULL ? pcapng_option_len(description_len) : 0) +
		     pcapng_option_len(sizeof(resolution)) + pcapng_option_len(0);

	pcapng_begin(capture, PCAPNG_INTERFACE, len);
	pcapng_put16(capture, link_type);
	pcapng_put16(capture, 0);
	pcapng_put32(capture, PCAPNG_FRAME_MAX);
	pcapng_option(capture, PCAPNG_OPTION_NAME, name, name_len);
	if (description != NULL)
		pcapng_option(capture, PCAPNG_OPTION_DESCRIPTION, description, description_len);
	pcapng_option(capture, PCAPNG_OPTION_RESOLUTION, &resolution, sizeof(resolution));
	pcapng_end(capture, len);
	return capture->interfaces++;
}

void
pcapng_frame(struct pcapng *capture, unsigned interface, uint64_t at_ns, enum pcapng_direction direction,
	     const void *frame, size_t len, const char *comment)
{
	const uint8_t flags[4] = { (uint8_t)direction };
	size_t kept = len < PCAPNG_FRAME_MAX ? len : PCAPNG_FRAME_MAX;
	size_t comment_len = comment != NULL ? pcapng_text_len(comment) : 0;
	size_t block_len = PCAPNG_BLOCK_LEN + 20 + pcapng_padded(kept) + pcapng_option_len(sizeof(flags)) +
			   (comment != NULL ? pcapng_option_len(comment_len) : 0) + pcapng_option_len(0);

	xk_assert(interface < capture->interfaces);
	pcapng_begin(capture, PCAPNG_PACKET, block_len);
	pcapng_put32(capture, interface);
	pcapng_put32(capture, (uint32_t)(at_ns >> 32));
	pcapng_put32(capture, (uint32_t)at_ns);
	pcapng_put32(capture, (uint32_t)kept);
	pcapng_put32(capture, len < UINT32_MAX ? (uint32_t)len : UINT32_MAX);
	pcapng_put_padded(capture, frame, kept);
	pcapng_option(capture, PCAPNG_OPTION_FLAGS, flags, sizeof(flags));
	if (comment != NULL)
		pcapng_option(capture, PCAPNG_OPTION_COMMENT, comment, comment_len);
	pcapng_end(capture, block_len);
}

void
pcapng_statistics(struct pcapng *capture, unsigned interface, uint64_t at_ns, uint64_t seen, uint64_t dropped)
{
	size_t len = PCAPNG_BLOCK_LEN + 12 + 2 * pcapng_option_len(sizeof(seen)) + pcapng_option_len(0);

	xk_assert(interface < capture->interfaces);
	pcapng_begin(capture, PCAPNG_STATISTICS, len);
	pcapng_put32(capture, interface);
	pcapng_put32(capture, (uint32_t)(at_ns >> 32));
	pcapng_put32(capture, (uint32_t)at_ns);
	pcapng_option_count(capture, PCAPNG_OPTION_SEEN, seen);
	pcapng_option_count(capture, PCAPNG_OPTION_DROPPED, dropped);
	pcapng_end(capture, len);
}

int
pcapng_flush(struct pcapng *capture)
{
	capture->buffered = 0;
	if (capture->error == 0 && fflush(capture->out) != 0)
		capture->error = errno;
	return -capture->error;
}

int
pcapng_close(struct pcapng *capture)
{
	int error;

	if (capture == NULL)
		return 0;
	error = capture->error;
	if (fclose(capture->out) != 0 && error == 0)
		error = errno;
	free(capture);
	return -error;
}
