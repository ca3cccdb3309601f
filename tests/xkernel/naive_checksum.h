/* naive_checksum.h - for tests: RFC 1071 to the letter, 16-bit words in network order, carries added back. */
#ifndef TESTS_NAIVE_CHECKSUM_H
#define TESTS_NAIVE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

static inline uint16_t
naive_checksum(const uint8_t *bytes, size_t len)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < len; i++) {
		sum += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (uint16_t)~sum;
}

#endif
