/* checksum.c - see checksum.h. */
#include "xkernel/checksum.h"

uint64_t
xk_sum_long(uint64_t sum, const uint8_t *p, size_t len)
{
	for (; len > 0; p += 16, len -= 16)
		sum += (uint64_t)xk_sum_load32(p) + xk_sum_load32(p + 4) + xk_sum_load32(p + 8) + xk_sum_load32(p + 12);
	return sum;
}
