/* paths.h - a port's paths: what their making (path_make.c) and delivering by them (path.c) share. */
#ifndef XK_ENGINE_PATHS_H
#define XK_ENGINE_PATHS_H

#include "xkernel/path.h"

enum { XK_PATH_PATTERNS = 8 /* of a port */ };

struct xk_paths {
	struct xk_map map; /* by hash and pattern */
	struct xk_path_pattern *_Atomic pattern[XK_PATH_PATTERNS + 1];
	_Atomic uint32_t misses;   /* messages without a path in a row */
	_Atomic uint32_t interval; /* one message without a pattern in so many, a power of two, is looked at */
	_Atomic uint64_t layered;  /* frames that went the layers' way, or will, unsampled at */
	const struct xk_map_table *expected; /* in which the places of this burst are */
	struct xk_kernel *kernel;
};

/*
 * Makes the path of m, which arrived on port, or validates it, if its sessions stand. Returns whether m has one: it has
 * none if messages to the same session come another way, since each port has one path to a session. A shepherd; never
 * waits.
 */
bool xk_path_make(struct xk_port *port, const struct xk_msg *m);

/* Loads 8 bytes in the machine's order. */
static inline uint64_t
xk_path_load(const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/*
 * Returns the key of the path for headers p. Multilinear hashing: Lemire and Kaser, "Strongly universal string hashing is
 * fast" (2014).
 */
static inline struct xk_key
xk_path_key(const struct xk_path_pattern *pattern, const uint8_t *p)
{
	uint64_t hash = 0;

#pragma GCC unroll 4
	for (unsigned i = 0; i < XK_PATH_WORDS; i++)
		hash += (xk_path_load(p + pattern->word[i].at) & pattern->word[i].mask) * pattern->word[i].factor;
	return (struct xk_key){ hash, (uintptr_t)pattern };
}

#endif
