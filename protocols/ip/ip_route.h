/*
 * ip_route.h - IP's table of routes: which neighbour a datagram for a host elsewhere goes to; for ip.c.
 * Written "10.1.0.0/16=10.77.0.9,0.0.0.0/0=10.77.0.1": network=gateway, the longest prefix wins. A table never
 * changes once it is made.
 */
#ifndef XK_IP_ROUTE_H
#define XK_IP_ROUTE_H

#include "xkernel/base.h"

enum { IP_ROUTES = 256 /* at most */ };

struct ip_route {
	uint32_t network, mask, gateway;
};

struct ip_routes {
	struct ip_route *route; /* longest prefix first */
	unsigned count;
};

/*
 * Adds what text says (NULL: nothing). 0; -EINVAL, -E2BIG, -EEXIST (a network twice), -ENOMEM, with a sentence in why.
 */
int ip_routes_parse(struct ip_routes *routes, const char *text, char *why, size_t why_len);

/* Adds one route. 0, -E2BIG, -EEXIST or -ENOMEM. */
int ip_routes_add(struct ip_routes *routes, struct ip_route route);

/* The gateway for host. False: there is no route. */
bool ip_routes_find(const struct ip_routes *routes, uint32_t host, uint32_t *gateway);

void ip_routes_fini(struct ip_routes *routes);

#endif
