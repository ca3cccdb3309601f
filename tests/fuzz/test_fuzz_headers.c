/* test_fuzz_headers.c - each header loader against a simple model; properties: fuzz_headers.c. */
#include "tests/fuzz/fuzz_options.h"
#include "tests/test.h"

enum { INPUT_MAX = 4096 };

TEST_OF(corpus_breaks_no_loader, CHECK(fuzz_corpus("headers")));

static size_t
make_damaged(uint8_t *input, size_t max, uint64_t seed)
{
	return fuzz_corpus_damaged("headers", input, max, seed);
}

/* Makes a header with options, and perhaps a payload; the port has verified its checksums. */
static size_t
make_options(uint8_t *input, size_t max, uint64_t seed)
{
	bool is_tcp = seed % 2 == 0;
	uint64_t random = seed;
	uint8_t *p = input + 4, words;
	size_t len = 20;

	for (size_t i = 0; i < 4 + len; i++)
		input[i] = (uint8_t)fuzz_draw(&random, 256);
	input[0] = is_tcp ? FUZZ_HEADERS_TCP : FUZZ_HEADERS_IP;
	input[3] = 0xff;
	len += fuzz_make_options(is_tcp ? "tcp" : "ip", p + len, &random);
	words = (uint8_t)(len / 4);
	if (fuzz_draw(&random, 8) == 0)
		words = (uint8_t)fuzz_draw(&random, 16);
	p[is_tcp ? 12 : 0] = is_tcp ? (uint8_t)(words << 4) : 0x40 | words;
	for (unsigned left = fuzz_draw(&random, 3) == 0 ? fuzz_draw(&random, 50) : 0; left > 0; left--)
		p[len++] = (uint8_t)fuzz_draw(&random, 256);
	return 4 + len;
}

TEST_OF(options_break_no_loader, CHECK(fuzz_runs(20000, INPUT_MAX, make_options)));

TEST_OF(damaged_corpus_breaks_no_loader, CHECK(fuzz_runs(10000, INPUT_MAX, make_damaged)));
