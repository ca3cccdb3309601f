/* test_fuzz.c - seeded hostile traffic against the whole UDP graph; properties: fuzz_frames.c. */
#include "tests/fuzz/fuzz.h"
#include "tests/test.h"

TEST_OF(corpus_breaks_nothing, CHECK(fuzz_corpus("frames")));
TEST_OF(seeded_traffic_breaks_nothing, CHECK(fuzz_runs(750, FUZZ_SCRIPT_MAX, fuzz_traffic_make)));

/* Makes traffic with records moved, doubled and damaged. */
static size_t
make_damaged(uint8_t *script, size_t max, uint64_t seed)
{
	size_t len = fuzz_traffic_make(script, max, seed);

	for (uint64_t changes = fuzz_random(&seed) % 24; changes > 0 && len > 0; changes--)
		len = fuzz_traffic_mutate(script, len, max, fuzz_random(&seed));
	return len;
}

TEST_OF(damaged_traffic_breaks_nothing, CHECK(fuzz_runs(750, FUZZ_SCRIPT_MAX, make_damaged)));

/* Makes random bytes, which are scripts too. */
static size_t
make_noise(uint8_t *script, size_t max, uint64_t seed)
{
	size_t len = fuzz_random(&seed) % 512;

	for (size_t i = 0; i < len && i < max; i++)
		script[i] = (uint8_t)fuzz_random(&seed);
	return len;
}

TEST_OF(noise_breaks_nothing, CHECK(fuzz_runs(250, FUZZ_SCRIPT_MAX, make_noise)));
