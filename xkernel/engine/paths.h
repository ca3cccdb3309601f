/* paths.h - a port's paths, shared by path_make.c, which makes them, and path.c, which delivers messages by them. */
#ifndef XK_ENGINE_PATHS_H
#define XK_ENGINE_PATHS_H

#include "xkernel/path.h"

enum { XK_PATH_PATTERNS = 8 /* of a port */ };

struct xk_paths {
	struct xk_map map; /* by hash and pattern */
	struct xk_path_pattern *_Atomic pattern[XK_PATH_PATTERNS + 1];
	_Atomic uint32_t misses;   /* messages without a path in a row */
	_Atomic uint32_t interval; /* one message without a pattern of this many, a power of two, is sampled */
	_Atomic uint64_t layered;  /* frames that went layer by layer, or will without being sampled */
	const struct xk_map_table *expected; /* the table that the places of this burst are in */
	struct xk_kernel *kernel;
};

/*
 * Makes the path of m, which arrived on port, or makes it valid again, if m's sessions exist. Returns whether m has
 * one: it has none if the session's path is for other headers, since each port has one path to a session. A shepherd;
 * never waits.
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
 * Returns the key of the path for headers p. Multilinear hashing: Lemire and Kaser, "Strongly universal string hashing
 * is fast" (2014).
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
