/*
 * bytes.h - loads and stores numbers in network byte order, at any alignment. Protocols load and store headers with
 * these functions and offsets: no packed structs, no bit-fields, no casts onto packets.
 */
#ifndef XK_BYTES_H
#define XK_BYTES_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "big-endian machines are not supported");

static inline uint16_t
xk_get16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap16(v);
}

static inline uint32_t
xk_get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap32(v);
}

static inline uint64_t
xk_get48(const uint8_t *p)
{
	return (uint64_t)xk_get16(p) << 32 | xk_get32(p + 2);
}

static inline uint64_t
xk_get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap64(v);
}

static inline void
xk_put16(uint8_t *p, uint16_t v)
{
	v = __builtin_bswap16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void
xk_put32(uint8_t *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void
xk_put48(uint8_t *p, uint64_t v)
{
	xk_put16(p, (uint16_t)(v >> 32));
	xk_put32(p + 2, (uint32_t)v);
}

static inline void
xk_put64(uint8_t *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(p, &v, sizeof(v));
}

#endif
