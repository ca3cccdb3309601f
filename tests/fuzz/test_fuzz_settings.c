/* test_fuzz_settings.c - hostile values and command lines; properties: fuzz_settings.c. */
#include "tests/fuzz/fuzz.h"
#include "tests/test.h"

enum { INPUT_MAX = 4096 };

TEST_OF(corpus_breaks_no_setting, CHECK(fuzz_corpus("settings")));

static size_t
make_damaged(uint8_t *input, size_t max, uint64_t seed)
{
	return fuzz_corpus_damaged("settings", input, max, seed);
}

TEST_OF(damaged_corpus_breaks_no_setting, CHECK(fuzz_runs(3000, INPUT_MAX, make_damaged)));
