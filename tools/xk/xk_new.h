/* xk_new.h - the documentation's examples, of which `xk new` makes protocols; embed.py writes the table. */
#ifndef XK_NEW_H
#define XK_NEW_H

#include <stddef.h>

struct xk_new_template {
	const char *name; /* of the file; NULL ends the table */
	const char *text;
};

extern const struct xk_new_template xk_new_templates[];

#endif
