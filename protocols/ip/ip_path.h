/*
 * ip_path.h - what IP has learned of the paths to hosts: how long a datagram may be (RFC 1191); for ip_fault.c.
 *
 * A small table, written to by what others say: so it is bounded, the oldest path makes room, and what is known is
 * forgotten in time. It takes no lock and reads no clock: the caller serialises calls, and counts `tick`.
 */
#ifndef XK_IP_PATH_H
#define XK_IP_PATH_H

#include "xkernel/base.h"

enum { IP_PATH_TICKS = 16 /* ticks of a path's time; it gets at most one tick more */ };

struct ip_path {
	uint32_t host, mtu, born; /* mtu 0: free */
};

struct ip_paths {
	struct ip_path *path;
	uint32_t size, count;
	uint32_t tick; /* the caller's clock */
};

/* An empty table for `size` hosts, at least 1. 0 or -ENOMEM. */
int ip_paths_init(struct ip_paths *paths, uint32_t size);
void ip_paths_fini(struct ip_paths *paths);

/* The longest datagram on the path to host; 0: not known to be less than the first link takes. */
uint32_t ip_paths_find(const struct ip_paths *paths, uint32_t host);

/*
 * The path to host takes no more than mtu (above 0); its time begins. Returns the host that was forgotten to make room,
 * 0: none.
 */
uint32_t ip_paths_set(struct ip_paths *paths, uint32_t host, uint32_t mtu);

/* Forgets one host whose time is over, by `tick`, which the caller counts, and returns it; 0: there is none (any more). */
uint32_t ip_paths_forget(struct ip_paths *paths);

/* The plateau of common MTUs below `length`: for routers that do not say theirs (RFC 1191, 7). */
uint32_t ip_path_plateau(uint32_t length);

#endif
