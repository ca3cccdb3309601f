/*
 * fuzz_http.c - hostile heads of requests.
 *
 * An input is a head and what follows it. These must hold: nothing beyond the head is read; the verdict is one of the
 * refusals, or the request is served, and then its path begins with '/', has no part that is empty or begins with '.', and
 * no control character; and it has exactly one Host, which is one of this host's.
 */
#include <stdlib.h>
#include <string.h>

#include "protocols/http/http_private.h"
#include "tests/fuzz/fuzz.h"

/* Returns the length of the head, as http.c finds it; 0: it is not whole. */
static size_t
head_of(const uint8_t *data, size_t size)
{
	size_t line = 0;

	for (size_t i = 0; i < size; i++) {
		if (data[i] != '\n')
			continue;
		if (i == line || (i == line + 1 && data[line] == '\r'))
			return i + 1;
		line = i + 1;
	}
	return 0;
}

static void
check_path(const char *path)
{
	FUZZ_CHECK(path[0] == '/' && memchr(path, '\0', HTTP_PATH_MAX) != NULL);
	for (const char *p = path; *p != '\0'; p++) {
		FUZZ_CHECK((unsigned char)*p >= ' ' && *p != 0x7f);
		FUZZ_CHECK(p[0] != '/' || (p[1] != '/' && p[1] != '.'));
	}
}

/* Returns how many lines begin with this name of a field, whatever its case. */
static unsigned
count_fields(const char *head, size_t len, const char *name)
{
	unsigned count = 0;

	for (size_t i = 0; i + 1 + strlen(name) < len; i++)
		count += head[i] == '\n' && strncasecmp(head + i + 1, name, strlen(name)) == 0;
	return count;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct http_names names = { FUZZ_HOST, "web, web.example" };
	size_t len = head_of(data, size);
	struct http_request request;
	char *head;
	unsigned why;

	if (len == 0)
		return 0;
	head = malloc(len); /* so that sanitizers notice what is read beyond it */
	FUZZ_CHECK(head != NULL);
	memcpy(head, data, len);
	why = http_parse(&request, head, len, &names);
	FUZZ_CHECK(why <= HTTP_REFUSALS);
	FUZZ_CHECK(why != HTTP_NOT_FOUND && why != HTTP_LARGE_FILE && why != HTTP_BUSY && why != HTTP_SLOW);
	if (why == HTTP_REFUSALS) {
		check_path(request.path);
		FUZZ_CHECK(count_fields(head, len, "host:") == 1);
		FUZZ_CHECK(count_fields(head, len, "transfer-encoding:") == 0);
		FUZZ_CHECK(count_fields(head, len, "content-length:") <= 1);
		FUZZ_CHECK(memcmp(head, "GET ", 4) == 0 || memcmp(head, "HEAD ", 5) == 0);
		FUZZ_CHECK(request.is_head == (head[0] == 'H'));
	}
	free(head);
	return 0;
}
