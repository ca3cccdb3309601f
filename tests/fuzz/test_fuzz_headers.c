/* test_fuzz_headers.c - each header loader against a plain one; fuzz_headers.c says what must hold. */
#include "tests/fuzz/fuzz.h"
#include "tests/test.h"

enum { INPUT_MAX = 4096 };

TEST_OF(the_corpus_breaks_no_loader, CHECK(fuzz_corpus("headers")));

static size_t
make_damaged(uint8_t *input, size_t max, uint64_t seed)
{
	return fuzz_corpus_damaged("headers", input, max, seed);
}

TEST_OF(a_damaged_corpus_breaks_no_loader, CHECK(fuzz_runs(10000, INPUT_MAX, make_damaged)));
