/* msg_chains.h - for tests of the Message tool: malloc'ed buffers, and chains of known bytes. */
#ifndef TESTS_MSG_CHAINS_H
#define TESTS_MSG_CHAINS_H

#include "platform/sim/memory.h"
#include "tests/test.h"
#include "tests/xkernel/naive_checksum.h"
#include "xkernel/checksum.h"
#include "xkernel/msg.h"

enum { SEGMENT_ROOM = XK_MSG_SEGMENT };

static inline struct xk_platform *
platform_new(void)
{
	struct xk_platform *platform = xk_memory_platform_new(XK_MEMORY_VIRTUAL);

	REQUIRE(platform != NULL);
	return platform;
}

static inline unsigned
out(struct xk_platform *platform)
{
	return platform->ops->buffers_out(platform);
}

/* Fails the test if a buffer is leaked. */
static inline void
platform_end(struct xk_platform *platform)
{
	CHECK_EQ(out(platform), 0);
	xk_memory_platform_free(platform);
}

/* Allows count more segments than are allocated now. */
static inline void
allow(struct xk_platform *platform, unsigned count)
{
	xk_memory_platform_limit(platform, out(platform) + count);
}

static inline void
allow_all(struct xk_platform *platform)
{
	xk_memory_platform_limit(platform, UINT32_MAX);
}

static inline uint8_t
pattern(size_t index)
{
	return (uint8_t)(index * 7 + index / 256 + 1);
}

static inline struct xk_msg *
patterned(struct xk_platform *platform, size_t len)
{
	uint8_t *bytes = malloc(len + 1);
	struct xk_msg *m;

	REQUIRE(bytes != NULL);
	for (size_t i = 0; i < len; i++)
		bytes[i] = pattern(i);
	m = xk_msg_from(platform, bytes, len);
	free(bytes);
	return m;
}

static inline unsigned
segments(const struct xk_msg *m)
{
	unsigned count = 0;

	for (; m != NULL; m = m->next)
		count++;
	return count;
}

/* Returns true if the chain is consistent and holds exactly these bytes. */
static inline bool
holds(const struct xk_msg *m, const uint8_t *bytes, size_t len)
{
	const struct xk_msg *last = m;
	size_t offset = 0;

	if (m->total != len)
		return false;
	for (const struct xk_msg *s = m; s != NULL; last = s, s = s->next) {
		if (s->data < s->floor || s->data + s->len > s->ceiling || offset + s->len > len)
			return false;
		if (s->len > 0 && memcmp(s->data, bytes + offset, s->len) != 0)
			return false;
		offset += s->len;
	}
	return offset == len && m->tail == last;
}

/* The same for len bytes of the pattern from offset `from`. */
static inline bool
holds_pattern(const struct xk_msg *m, size_t from, size_t len)
{
	uint8_t *bytes = malloc(len + 1);
	bool same;

	REQUIRE(bytes != NULL);
	for (size_t i = 0; i < len; i++)
		bytes[i] = pattern(from + i);
	same = holds(m, bytes, len);
	free(bytes);
	return same;
}

/* Returns the pattern's first bytes in segments of the given lengths (0 ends the list), none with tailroom. */
static inline struct xk_msg *
chain(struct xk_platform *platform, const size_t *lens)
{
	struct xk_msg *m = NULL;
	size_t index = 0;

	for (; *lens != 0; lens++) {
		struct xk_msg *piece = xk_memory_frame(platform, *lens);

		REQUIRE(piece != NULL);
		for (size_t i = 0; i < *lens; i++)
			piece->data[i] = pattern(index++);
		if (m == NULL)
			m = piece;
		else
			xk_msg_join(m, piece);
	}
	return m;
}

#define CHAIN(platform, ...) chain(platform, (const size_t[]){ __VA_ARGS__, 0 })

static inline uint16_t
message_checksum(const struct xk_msg *m)
{
	uint8_t stored[2];

	xk_checksum_store(stored, xk_checksum_finish(xk_msg_sum(m)));
	return (uint16_t)(stored[0] << 8 | stored[1]);
}

#endif
