/*
 * ip_route.c - see ip_route.h. A sorted array, searched from the longest prefix: it is asked when a session is opened,
 * not on a message's way.
 */
#include "protocols/ip/ip_route.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xkernel/protocol.h"

int
ip_routes_add(struct ip_routes *routes, struct ip_route route)
{
	unsigned at = 0;
	struct ip_route *more;

	if (routes->count == IP_ROUTES)
		return -E2BIG;
	more = realloc(routes->route, (routes->count + 1) * sizeof(route));
	if (more == NULL)
		return -ENOMEM;
	routes->route = more;
	while (at < routes->count && more[at].mask >= route.mask) {
		if (more[at].mask == route.mask && more[at].network == route.network)
			return -EEXIST;
		at++;
	}
	memmove(&more[at + 1], &more[at], (routes->count - at) * sizeof(route));
	more[at] = route;
	routes->count++;
	return 0;
}

/* Parses "0" ... "32". */
static bool
ip_routes_parse_mask(const char *text, uint32_t *mask)
{
	char *end;
	unsigned long bits = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end != '\0' || bits > 32)
		return false;
	*mask = bits == 0 ? 0 : UINT32_MAX << (32 - bits);
	return true;
}

/* Parses "network/bits=gateway", which it takes apart. NULL: fine; otherwise what is wrong. */
static const char *
ip_routes_parse_one(char *text, struct ip_route *route)
{
	char *bits = strchr(text, '/'), *gateway = strchr(text, '=');

	if (bits == NULL || gateway == NULL || gateway < bits)
		return "is not network/bits=gateway";
	*bits++ = '\0';
	*gateway++ = '\0';
	if (!xk_host_parse(text, &route->network))
		return "has no network address such as 10.1.0.0";
	if (!ip_routes_parse_mask(bits, &route->mask))
		return "has no number of bits from 0 to 32";
	if (!xk_host_parse(gateway, &route->gateway))
		return "has no gateway address such as 10.77.0.1";
	if ((route->network & ~route->mask) != 0)
		return "has bits set behind its prefix";
	return NULL;
}

static int
ip_routes_parse_and_add(struct ip_routes *routes, const char *text, size_t len, char *why, size_t why_len)
{
	char copy[64];
	struct ip_route route;
	const char *wrong = "is too long";
	int err;

	if (len < sizeof(copy)) {
		memcpy(copy, text, len);
		copy[len] = '\0';
		wrong = ip_routes_parse_one(copy, &route);
	}
	if (wrong != NULL) {
		snprintf(why, why_len, "route '%.*s' %s", (int)(len < 64 ? len : 64), text, wrong);
		return -EINVAL;
	}
	err = ip_routes_add(routes, route);
	if (err != 0)
		snprintf(why, why_len, "route '%.*s': %s", (int)len, text,
			 err == -EEXIST   ? "this network has a route already"
			 : err == -ENOMEM ? "no memory"
					  : "too many routes");
	return err;
}

int
ip_routes_parse(struct ip_routes *routes, const char *text, char *why, size_t why_len)
{
	int err = 0;

	while (err == 0 && text != NULL && *text != '\0') {
		size_t len = strcspn(text, ",");

		err = ip_routes_parse_and_add(routes, text, len, why, why_len);
		text += len;
		if (*text == ',')
			text++;
	}
	return err;
}

bool
ip_routes_find(const struct ip_routes *routes, uint32_t host, uint32_t *gateway)
{
	for (unsigned i = 0; i < routes->count; i++) {
		if ((host & routes->route[i].mask) == routes->route[i].network) {
			*gateway = routes->route[i].gateway;
			return true;
		}
	}
	return false;
}

void
ip_routes_fini(struct ip_routes *routes)
{
	free(routes->route);
	routes->route = NULL;
	routes->count = 0;
}
