/* test_checksum.c - the internet checksum of contiguous bytes, against RFC 1071 to the letter. */

#include "tests/test.h"
#include "tests/xkernel/naive_checksum.h"
#include "xkernel/base.h"
#include "xkernel/checksum.h"

/* Returns the checksum as stored, read back in network order. */
static uint16_t
stored(uint64_t sum)
{
	uint8_t p[2];

	xk_checksum_store(p, xk_checksum_finish(sum));
	return (uint16_t)(p[0] << 8 | p[1]);
}

TEST(rfc1071_example_sums_as_printed)
{
	const uint8_t bytes[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };

	CHECK_EQ(stored(xk_sum(0, bytes, sizeof(bytes))), 0xffff - 0xddf2);
}

TEST(an_ip_header_with_its_checksum_in_place_sums_to_zero)
{
	uint8_t header[] = { 0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
			     0x00, 0x00, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7 };

	CHECK_EQ(stored(xk_sum(0, header, sizeof(header))), 0xb861);
	xk_checksum_store(header + 10, xk_checksum_finish(xk_sum(0, header, sizeof(header))));
	CHECK_EQ(header[10], 0xb8);
	CHECK_EQ(header[11], 0x61);
	CHECK_EQ(xk_checksum_finish(xk_sum(0, header, sizeof(header))), 0);
	header[15] ^= 1;
	CHECK(xk_checksum_finish(xk_sum(0, header, sizeof(header))) != 0);
}

TEST(every_length_and_alignment_agrees_with_the_naive_sum)
{
	for (size_t offset = 0; offset < 8; offset++) {
		for (size_t len = 0; len <= 70; len++) {
			/* of exact length, so that sanitizers see a read past the end */
			uint8_t *bytes = malloc(offset + len + (offset + len == 0));

			REQUIRE(bytes != NULL);
			for (size_t i = 0; i < offset + len; i++)
				bytes[i] = (uint8_t)(i * 37 + len);
			CHECK_EQ(stored(xk_sum(0, bytes + offset, len)), naive_checksum(bytes + offset, len));
			free(bytes);
		}
	}
}

/* The most carries possible: a message of maximum length, all ones. */
TEST(long_sums_lose_no_carry)
{
	enum { LENGTH = 1 << 20 };
	uint8_t *bytes = malloc(LENGTH);

	REQUIRE(bytes != NULL);
	memset(bytes, 0xff, LENGTH);
	CHECK_EQ(xk_sum(0, bytes, LENGTH), (uint64_t)LENGTH / 4 * 0xffffffff);
	CHECK_EQ(xk_sum(1, bytes, 1008), 252 * UINT64_C(0xffffffff) + 1);
	for (size_t i = 0; i < LENGTH; i++)
		bytes[i] = (uint8_t)(i * 151 >> 3);
	for (size_t len = 1; len < 4200; len += 61)
		CHECK_EQ(stored(xk_sum(0, bytes, len)), naive_checksum(bytes, len));
	free(bytes);
}

TEST(short_sums_do_not_depend_on_preceding_bytes)
{
	for (size_t len = 0; len < XK_SUM_SHORT; len++) {
		uint8_t bytes[XK_SUM_SHORT + XK_SUM_SHORT];

		memset(bytes, 0xa5, XK_SUM_SHORT);
		for (size_t i = 0; i < len; i++)
			bytes[XK_SUM_SHORT + i] = (uint8_t)(0xff - 3 * i);
		CHECK_EQ(stored(xk_sum_short(bytes + XK_SUM_SHORT, len)), naive_checksum(bytes + XK_SUM_SHORT, len));
	}
}

TEST(sums_of_even_pieces_add_up)
{
	uint8_t bytes[40];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(251 - i * 5);
	for (size_t cut = 0; cut <= sizeof(bytes); cut += 2) {
		uint64_t sum = xk_sum(0, bytes, cut);

		CHECK_EQ(stored(xk_sum(sum, bytes + cut, sizeof(bytes) - cut)), naive_checksum(bytes, sizeof(bytes)));
		sum += xk_sum(0, bytes + cut, sizeof(bytes) - cut);
		CHECK_EQ(stored(sum), naive_checksum(bytes, sizeof(bytes)));
	}
}

TEST(folding_loses_no_carry)
{
	const uint64_t sums[] = { 0,           1,           0xffff,     0x10000,        0x1ffff,           0xffffffff,
				  0x100000000, 0x1ffffffff, UINT64_MAX, UINT64_MAX - 1, 0xffff0000ffff0001 };

	for (size_t i = 0; i < XK_ARRAY_LENGTH(sums); i++) {
		uint64_t rest = sums[i] % 0xffff;

		/* a one's complement sum is the remainder modulo 0xffff, but 0 only if all bits are 0 */
		CHECK_EQ(xk_sum_fold(sums[i]), rest == 0 && sums[i] != 0 ? 0xffff : rest);
	}
}
