/* test_fuzz_calls.c - calls over a hostile wire; properties: fuzz_calls.c. */
#include "tests/fuzz/fuzz.h"
#include "tests/test.h"

enum { SCRIPT_MAX = 512 };

TEST_OF(corpus_breaks_no_call, CHECK(fuzz_corpus("calls")));

/* Makes random fates: many let frames through, or hardly any. */
static size_t
make_fates(uint8_t *script, size_t max, uint64_t seed)
{
	size_t len = 1 + fuzz_random(&seed) % (SCRIPT_MAX - 1);
	unsigned good = 1 + fuzz_random(&seed) % 8;

	for (size_t i = 0; i < len && i < max; i++) {
		uint8_t fate = (uint8_t)fuzz_random(&seed);

		script[i] = i > 0 && fuzz_random(&seed) % 8 < good ? 0 : fate;
	}
	return len < max ? len : max;
}

TEST_OF(seeded_fates_break_no_call, CHECK(fuzz_runs(150, SCRIPT_MAX, make_fates)));
