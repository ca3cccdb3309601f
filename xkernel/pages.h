/* pages.h - texts that the program shows of its host, by name, for a protocol that offers them to others (kernel.h). */
#ifndef XK_PAGES_H
#define XK_PAGES_H

#include "xkernel/base.h"

struct xk_pages;
struct xk_protocol;

struct xk_page {
	char *bytes; /* of malloc */
	size_t len;
	const char *type; /* of its contents: "application/json" */
	const char
		*policy; /* what the text itself may do in a browser (CSP); valid as long as the pages; NULL: nothing */
};

struct xk_pages_ops {
	/*
	 * Makes the page called name, such as "/stats.json", as of now, for the caller to free. Returns 0; -ENOENT: there
	 * is none; -ENOMEM. A shepherd outside the driver: may take some time, and read files, but must not wait for the
	 * host. One at a time for each protocol that asks.
	 */
	int (*make)(struct xk_pages *pages, const char *name, struct xk_page *page);
};

/* A program's own pages begin with this struct. */
struct xk_pages {
	const struct xk_pages_ops *ops;
};

/* Returns the pages of self's kernel, or NULL. Any context. */
struct xk_pages *xk_pages_of(const struct xk_protocol *self);

#endif
