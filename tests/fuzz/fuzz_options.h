/* fuzz_options.h - lists of options (xkernel/options.h) for fuzzers. */
#ifndef FUZZ_OPTIONS_H
#define FUZZ_OPTIONS_H

#include "tests/fuzz/fuzz.h"
#include "xkernel/protocol.h"

/*
 * Writes a list of options behind the header of this type, most of them as it declares them, in whole words. Returns its
 * length, at most XK_OPTIONS_MAX.
 */
static inline size_t
fuzz_make_options(const char *type, uint8_t *p, uint64_t *random)
{
	const struct xk_option *options = xk_protocol_type_find(type)->options->options;
	unsigned count = 0;
	size_t len = 0;

	while (options[count].name != NULL)
		count++;
	for (unsigned left = fuzz_draw(random, 5); left > 0; left--) {
		unsigned which = fuzz_draw(random, count + 2);
		const struct xk_option *option = which < count ? &options[which] : NULL;
		size_t option_len = option == NULL ? XK_OPTION_HEAD + fuzz_draw(random, 8)
						   : XK_OPTION_HEAD + option->once +
							     (option->least + fuzz_draw(random, 3)) * option->each;

		if (which == count)
			option_len = 1;
		else if (fuzz_draw(random, 8) == 0)
			option_len += fuzz_draw(random, 4);
		if (len + option_len > XK_OPTIONS_MAX)
			break;
		for (size_t i = 0; i < option_len; i++)
			p[len + i] = (uint8_t)fuzz_draw(random, 256);
		p[len] = option != NULL ? option->kind : which == count ? XK_OPTION_NONE : p[len];
		if (option_len > 1 && fuzz_draw(random, 16) > 0)
			p[len + 1] = (uint8_t)option_len;
		len += option_len;
	}
	while (len % 4 != 0)
		p[len++] = XK_OPTION_END;
	return len;
}

#endif
