/* xk_new.h - the examples of the documentation, which `xk new` makes protocols of (written by embed.py). */
#ifndef XK_NEW_H
#define XK_NEW_H

#include <stddef.h>

struct xk_new_template {
	const char *name; /* of the file; NULL ends the table */
	const char *text;
};

extern const struct xk_new_template xk_new_templates[];

#endif
