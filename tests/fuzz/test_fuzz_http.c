/* test_fuzz_http.c - hostile heads of requests; properties: fuzz_http.c. */
#include "tests/fuzz/fuzz.h"
#include "tests/test.h"
#include "xkernel/base.h"

enum { INPUT_MAX = 4096, PIECES = 24 };

TEST_OF(corpus_breaks_no_request, CHECK(fuzz_corpus("http")));

static size_t
make_damaged(uint8_t *input, size_t max, uint64_t seed)
{
	return fuzz_corpus_damaged("http", input, max, seed);
}

TEST_OF(damaged_corpus_breaks_no_request, CHECK(fuzz_runs(20000, INPUT_MAX, make_damaged)));

/* Joins words that occur in requests, most often in a sensible order. */
static size_t
make_words(uint8_t *input, size_t max, uint64_t seed)
{
	static const char *const words[] = {
		"GET",
		"HEAD",
		"POST",
		" ",
		"/",
		"*",
		"http://10.77.0.2",
		"?",
		"%2e",
		"%",
		"..",
		".",
		"//",
		" HTTP/1.1\r\n",
		" HTTP/1.0\r\n",
		"Host: 10.77.0.2\r\n",
		"Host: web:80\r\n",
		"\r\n\r\n",
		"Content-Length: 0\r\n",
		"Content-Length: 00\r\n",
		"Transfer-Encoding: chunked\r\n",
		"Connection: close, a\r\n",
		"A:\r\n",
		" a\r\n",
		":",
		"\t",
		"\n",
		"\r",
		"localhost",
		"Host:",
	};
	static const unsigned usual[] = { 0, 3, 4, 13, 15, 17 };
	size_t len = 0;

	for (unsigned i = 0, next = 0; i < PIECES && next < XK_ARRAY_LENGTH(usual); i++) {
		bool is_usual = fuzz_draw(&seed, 4) != 0;
		const char *word = words[is_usual ? usual[next++] : fuzz_draw(&seed, XK_ARRAY_LENGTH(words))];

		if (len + strlen(word) > max)
			break;
		memcpy(input + len, word, strlen(word));
		len += strlen(word);
	}
	return len;
}

TEST_OF(words_break_no_request, CHECK(fuzz_runs(40000, INPUT_MAX, make_words)));
