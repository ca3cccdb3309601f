/* http_pages.h - a program's pages, for tests of http. */
#ifndef HTTP_PAGES_H
#define HTTP_PAGES_H

#include <errno.h>

#include "tests/test.h"
#include "xkernel/pages.h"

enum { HTTP_PAGE = 100000 };

static inline char
page_byte(size_t i)
{
	return (char)('a' + i % 23);
}

/* Makes "/", and "/large", whose byte i is page_byte(i). */
static inline int
pages_make(struct xk_pages *pages, const char *name, struct xk_page *page)
{
	size_t len = strcmp(name, "/large") == 0 ? HTTP_PAGE : 5;

	(void)pages;
	if (strcmp(name, "/none-left") == 0)
		return -ENOMEM;
	if (strcmp(name, "/") != 0 && len == 5)
		return -ENOENT;
	*page = (struct xk_page){ malloc(len), len, "text/plain", "default-src 'self'" };
	REQUIRE(page->bytes != NULL);
	for (size_t i = 0; i < len; i++)
		page->bytes[i] = page_byte(i);
	if (len == 5)
		memcpy(page->bytes, "hello", len);
	return 0;
}

static const struct xk_pages_ops test_pages_ops = { .make = pages_make };

static struct xk_pages test_pages = { .ops = &test_pages_ops };

#endif
