/*
 * traffic_message.c - what a message of traffic looks like: a header with its own hash, and bytes that follow from
 * that hash, so that each of them can be checked.
 */
#include <string.h>

#include "protocols/test/traffic_private.h"
#include "xkernel/bytes.h"

enum {
	TRAFFIC_MESSAGE_MAGIC = 0,
	TRAFFIC_MESSAGE_LENGTH = 4,
	TRAFFIC_MESSAGE_INCARNATION = 8,
	TRAFFIC_MESSAGE_SOURCE = 16,
	TRAFFIC_MESSAGE_DESTINATION = 20,
	TRAFFIC_MESSAGE_STREAM = 24,
	TRAFFIC_MESSAGE_POSITION = 28,
	TRAFFIC_MESSAGE_HASH = 32, /* of what is before it */
	TRAFFIC_MESSAGE_PAYLOAD = 40,

	TRAFFIC_MESSAGE_MAGIC_VALUE = 0x78747266,
	TRAFFIC_MESSAGE_CHUNK = 256, /* whole words */
};

/* The payload is words in the machine's order: the hash, and each a step more than the last; one may be cut. */
#define TRAFFIC_MESSAGE_STEP UINT64_C(0xd1342543de82ef95)

static_assert(TRAFFIC_MESSAGE_PAYLOAD == (int)XK_TRAFFIC_SIZE_MIN, "the shortest message is a header");
static_assert(TRAFFIC_MESSAGE_HASH == 4 * sizeof(uint64_t), "four words are hashed");

static inline uint64_t
traffic_message_word(const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

static inline uint64_t
traffic_message_hash(const uint8_t *header)
{
	uint64_t hash = traffic_mix(0, traffic_message_word(header));

	hash = traffic_mix(hash, traffic_message_word(header + 8));
	hash = traffic_mix(hash, traffic_message_word(header + 16));
	return traffic_mix(hash, traffic_message_word(header + 24));
}

/* ---- the payload: len bytes at p, which begin with word ---- */

static inline void
traffic_message_fill(uint8_t *p, size_t len, uint64_t word)
{
	const uint8_t *end = p + len / sizeof(word) * sizeof(word);

	for (; p != end; p += sizeof(word), word += TRAFFIC_MESSAGE_STEP)
		memcpy(p, &word, sizeof(word));
	if (len % sizeof(word) != 0)
		memcpy(p, &word, len % sizeof(word));
}

static inline bool
traffic_message_is_filled(const uint8_t *p, size_t len, uint64_t word)
{
	const uint8_t *end = p + len / sizeof(word) * sizeof(word);

	for (; p != end; p += sizeof(word), word += TRAFFIC_MESSAGE_STEP)
		if (traffic_message_word(p) != word)
			return false;
	return len % sizeof(word) == 0 || memcmp(p, &word, len % sizeof(word)) == 0;
}

/* A message of several segments: a word may lie in two of them. */
__attribute__((noinline)) static void
traffic_message_fill_segments(struct xk_msg *m, uint64_t first)
{
	size_t at = 0, piece;

	for (struct xk_msg *part = m; part != NULL; part = part->next) {
		for (size_t i = part == m ? TRAFFIC_MESSAGE_PAYLOAD : 0; i < part->len; i += piece, at += piece) {
			uint64_t word = first + at / sizeof(word) * TRAFFIC_MESSAGE_STEP;
			size_t skip = at % sizeof(word), left = part->len - i;

			piece = left < sizeof(word) - skip ? left : sizeof(word) - skip;
			memcpy(part->data + i, (const uint8_t *)&word + skip, piece);
		}
	}
}

__attribute__((noinline)) static bool
traffic_message_segments_are_filled(const struct xk_msg *m, uint64_t word)
{
	size_t total = xk_msg_len(m);
	uint8_t chunk[TRAFFIC_MESSAGE_CHUNK];

	for (size_t at = TRAFFIC_MESSAGE_PAYLOAD; at < total; at += sizeof(chunk)) {
		size_t len = total - at < sizeof(chunk) ? total - at : sizeof(chunk);

		xk_msg_copy_out(m, at, chunk, len);
		if (!traffic_message_is_filled(chunk, len, word))
			return false;
		word += sizeof(chunk) / sizeof(word) * TRAFFIC_MESSAGE_STEP;
	}
	return true;
}

/* ---- messages ---- */

struct xk_msg *
traffic_message_new(const struct xk_protocol *self, const struct traffic_header *h, uint32_t size)
{
	struct xk_msg *m = xk_msg_new(xk_platform_of(self), size);
	uint64_t hash;
	uint8_t *p;

	if (m == NULL)
		return NULL;
	p = m->data;
	xk_put32(p + TRAFFIC_MESSAGE_MAGIC, TRAFFIC_MESSAGE_MAGIC_VALUE);
	xk_put32(p + TRAFFIC_MESSAGE_LENGTH, size);
	xk_put64(p + TRAFFIC_MESSAGE_INCARNATION, h->incarnation);
	xk_put32(p + TRAFFIC_MESSAGE_SOURCE, h->source);
	xk_put32(p + TRAFFIC_MESSAGE_DESTINATION, h->destination);
	xk_put32(p + TRAFFIC_MESSAGE_STREAM, h->stream);
	xk_put32(p + TRAFFIC_MESSAGE_POSITION, h->position);
	hash = traffic_message_hash(p);
	xk_put64(p + TRAFFIC_MESSAGE_HASH, hash);
	if (xk_likely(m->next == NULL))
		traffic_message_fill(p + TRAFFIC_MESSAGE_PAYLOAD, size - TRAFFIC_MESSAGE_PAYLOAD, hash);
	else
		traffic_message_fill_segments(m, hash);
	return m;
}

bool
traffic_message_parse(struct traffic_header *h, const struct xk_msg *m, const uint8_t *p)
{
	uint64_t hash = traffic_message_hash(p);

	if (xk_get32(p + TRAFFIC_MESSAGE_MAGIC) != TRAFFIC_MESSAGE_MAGIC_VALUE ||
	    xk_get32(p + TRAFFIC_MESSAGE_LENGTH) != xk_msg_len(m) || xk_get64(p + TRAFFIC_MESSAGE_HASH) != hash)
		return false;
	h->incarnation = xk_get64(p + TRAFFIC_MESSAGE_INCARNATION);
	h->source = xk_get32(p + TRAFFIC_MESSAGE_SOURCE);
	h->destination = xk_get32(p + TRAFFIC_MESSAGE_DESTINATION);
	h->stream = xk_get32(p + TRAFFIC_MESSAGE_STREAM);
	h->position = xk_get32(p + TRAFFIC_MESSAGE_POSITION);
	if (xk_unlikely(m->next != NULL))
		return traffic_message_segments_are_filled(m, hash);
	return traffic_message_is_filled(p + TRAFFIC_MESSAGE_PAYLOAD, m->len - TRAFFIC_MESSAGE_PAYLOAD, hash);
}
