/* pcapng.c - see pcapng.h. */
#include "tools/capture/pcapng.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xkernel/base.h"
#include "xkernel/bytes.h"

enum {
	PCAPNG_SECTION = 0x0a0d0d0a,
	PCAPNG_INTERFACE = 1,
	PCAPNG_STATISTICS = 5,
	PCAPNG_PACKET = 6,

	PCAPNG_BYTE_ORDER = 0x1a2b3c4d,
	PCAPNG_ETHERNET = 1,
	PCAPNG_NANOSECONDS = 9, /* 10 to the minus this */

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

enum {
	PCAPNG_BLOCK_MAX = PCAPNG_FRAME_MAX + 4 * PCAPNG_TEXT_MAX, /* more than any block takes */
	PCAPNG_BUFFER = 4 * PCAPNG_BLOCK_MAX,
};

struct pcapng {
	int fd;
	unsigned interfaces;
	int error;         /* errno of the first failed write; nothing is written after it */
	size_t len, begun; /* bytes in the buffer; start of the last block */
	uint8_t buffer[PCAPNG_BUFFER];
};

/* Numbers are in the machine's byte order, little-endian (bytes.h). */
static void
pcapng_put(struct pcapng *capture, const void *bytes, size_t len)
{
	if (len > 0)
		memcpy(capture->buffer + capture->len, bytes, len);
	capture->len += len;
}

/* Pads to a multiple of 4. */
static void
pcapng_put_padded(struct pcapng *capture, const void *bytes, size_t len)
{
	static const uint8_t zero[3];

	pcapng_put(capture, bytes, len);
	pcapng_put(capture, zero, -len & 3);
}

static void
pcapng_option(struct pcapng *capture, unsigned code, const void *value, size_t len)
{
	const uint16_t head[] = { (uint16_t)code, (uint16_t)len };

	pcapng_put(capture, head, sizeof(head));
	pcapng_put_padded(capture, value, len);
}

/* Truncates a long text, but never within a character. NULL: no option. */
static void
pcapng_option_text(struct pcapng *capture, unsigned code, const char *text)
{
	size_t len = text == NULL ? 0 : strnlen(text, PCAPNG_TEXT_MAX + 1);

	if (len > PCAPNG_TEXT_MAX)
		for (len = PCAPNG_TEXT_MAX; len > 0 && ((uint8_t)text[len] & 0xc0) == 0x80;)
			len--;
	if (text != NULL)
		pcapng_option(capture, code, text, len);
}

static void
pcapng_begin(struct pcapng *capture, uint32_t type)
{
	const uint32_t head[] = { type, 0 }; /* pcapng_end writes the length */

	if (PCAPNG_BUFFER - capture->len < PCAPNG_BLOCK_MAX)
		pcapng_flush(capture);
	capture->begun = capture->len;
	pcapng_put(capture, head, sizeof(head));
}

/* Ends the options, and the block. */
static void
pcapng_end(struct pcapng *capture)
{
	uint32_t len;

	pcapng_option(capture, PCAPNG_OPTION_END, NULL, 0);
	len = (uint32_t)(capture->len - capture->begun + sizeof(len));
	pcapng_put(capture, &len, sizeof(len));
	memcpy(capture->buffer + capture->begun + 4, &len, sizeof(len));
}

struct pcapng *
pcapng_open(const char *path, const char *program)
{
	/* version 1.0, section length unspecified */
	const uint32_t head[] = { PCAPNG_BYTE_ORDER, 1, UINT32_MAX, UINT32_MAX };
	struct pcapng *capture = malloc(sizeof(*capture));
	int end = 0, err = 0, access;

	if (capture == NULL)
		return NULL;
	memset(capture, 0, offsetof(struct pcapng, buffer));
	if (sscanf(path, PCAPNG_DESCRIPTOR "%d%n", &capture->fd, &end) != 1 || path[end] != '\0') {
		capture->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		err = capture->fd < 0 ? errno : 0;
	} else { /* a closed number may soon be another file's */
		access = fcntl(capture->fd, F_GETFL);
		err = access < 0 ? errno : (access & O_ACCMODE) == O_RDONLY ? EINVAL : 0;
	}
	if (err != 0) {
		free(capture);
		errno = err;
		return NULL;
	}
	pcapng_begin(capture, PCAPNG_SECTION);
	pcapng_put(capture, head, sizeof(head));
	pcapng_option_text(capture, PCAPNG_OPTION_PROGRAM, program);
	pcapng_end(capture);
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
	const uint32_t head[] = { link_type & UINT16_MAX, PCAPNG_FRAME_MAX };
	const uint8_t resolution = PCAPNG_NANOSECONDS;

	pcapng_begin(capture, PCAPNG_INTERFACE);
	pcapng_put(capture, head, sizeof(head));
	pcapng_option_text(capture, PCAPNG_OPTION_NAME, name);
	pcapng_option_text(capture, PCAPNG_OPTION_DESCRIPTION, description);
	pcapng_option(capture, PCAPNG_OPTION_RESOLUTION, &resolution, sizeof(resolution));
	pcapng_end(capture);
	return capture->interfaces++;
}

void
pcapng_frame(struct pcapng *capture, unsigned interface, uint64_t at_ns, enum pcapng_direction direction,
	     const void *frame, size_t len, const char *comment)
{
	const uint8_t flags[4] = { (uint8_t)direction };
	size_t kept = len < PCAPNG_FRAME_MAX ? len : PCAPNG_FRAME_MAX;
	const uint32_t head[] = { interface, (uint32_t)(at_ns >> 32), (uint32_t)at_ns, (uint32_t)kept,
				  len < UINT32_MAX ? (uint32_t)len : UINT32_MAX };

	xk_assert(interface < capture->interfaces);
	pcapng_begin(capture, PCAPNG_PACKET);
	pcapng_put(capture, head, sizeof(head));
	pcapng_put_padded(capture, frame, kept);
	pcapng_option(capture, PCAPNG_OPTION_FLAGS, flags, sizeof(flags));
	pcapng_option_text(capture, PCAPNG_OPTION_COMMENT, comment);
	pcapng_end(capture);
}

void
pcapng_statistics(struct pcapng *capture, unsigned interface, uint64_t at_ns, uint64_t seen, uint64_t dropped)
{
	const uint32_t head[] = { interface, (uint32_t)(at_ns >> 32), (uint32_t)at_ns };

	xk_assert(interface < capture->interfaces);
	pcapng_begin(capture, PCAPNG_STATISTICS);
	pcapng_put(capture, head, sizeof(head));
	pcapng_option(capture, PCAPNG_OPTION_SEEN, &seen, sizeof(seen));
	pcapng_option(capture, PCAPNG_OPTION_DROPPED, &dropped, sizeof(dropped));
	pcapng_end(capture);
}

int
pcapng_flush(struct pcapng *capture)
{
	size_t written = 0;

	while (capture->error == 0 && written < capture->len) {
		ssize_t count = write(capture->fd, capture->buffer + written, capture->len - written);

		if (count >= 0)
			written += (size_t)count;
		else if (errno != EINTR)
			capture->error = errno;
	}
	capture->len = 0;
	return -capture->error;
}

int
pcapng_close(struct pcapng *capture)
{
	int err;

	if (capture == NULL)
		return 0;
	err = -pcapng_flush(capture);
	if (close(capture->fd) != 0 && err == 0)
		err = errno;
	free(capture);
	return -err;
}
