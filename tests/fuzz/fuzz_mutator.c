/* fuzz_mutator.c - for libFuzzer: mutates scripts as scripts, and sometimes as bytes. */
#include "tests/fuzz/fuzz.h"

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	uint64_t state = seed;

	if (size < 8 || fuzz_random(&state) % 32 == 0)
		return fuzz_traffic_make(data, max, fuzz_random(&state));
	if (fuzz_random(&state) % 2 == 0)
		return LLVMFuzzerMutate(data, size, max);
	return fuzz_traffic_mutate(data, size, max, fuzz_random(&state));
}
