/* test_fuzz_headers.c - each header loader against a simple model; properties: fuzz_headers.c. */
#include "tests/fuzz/fuzz.h"
#include "tests/test.h"

enum { INPUT_MAX = 4096 };

TEST_OF(corpus_breaks_no_loader, CHECK(fuzz_corpus("headers")));

static size_t
make_damaged(uint8_t *input, size_t max, uint64_t seed)
{
	return fuzz_corpus_damaged("headers", input, max, seed);
}

TEST_OF(damaged_corpus_breaks_no_loader, CHECK(fuzz_runs(10000, INPUT_MAX, make_damaged)));
