/* options.c - see options.h. */
#include "xkernel/options.h"

const struct xk_option *
xk_option_find(const struct xk_option_list *list, uint8_t kind)
{
	for (const struct xk_option *option = list->options; option->name != NULL; option++)
		if (option->kind == kind)
			return option;
	return NULL;
}

unsigned
xk_options_check(const struct xk_option_list *list, const uint8_t *p, size_t len)
{
	const struct xk_option *option;
	size_t option_len;

	for (size_t at = 0; (option_len = xk_option_len(p + at, len - at)) != 0; at += option_len) {
		option = xk_option_find(list, p[at]);
		if (option_len > len - at || (option != NULL && !xk_option_fits(option, option_len)))
			return list->drop;
		if (option != NULL && option->drop != 0)
			return option->drop;
	}
	return 0;
}
