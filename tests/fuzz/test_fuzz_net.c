/* test_fuzz_net.c - hostile network files; properties: fuzz_net.c. */
#include "tests/fuzz/fuzz.h"
#include "tests/test.h"

enum { INPUT_MAX = 4096 };

TEST_OF(corpus_breaks_no_network, CHECK(fuzz_corpus("net")));

static size_t
make_damaged(uint8_t *input, size_t max, uint64_t seed)
{
	return fuzz_corpus_damaged("net", input, max, seed);
}

TEST_OF(damaged_corpus_breaks_no_network, CHECK(fuzz_runs(750, INPUT_MAX, make_damaged)));
