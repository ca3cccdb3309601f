/*
 * differ.h - whether hosts of several kinds (compiled or not, with paths or not) do the same. Of each packet script:
 * - it is run with hosts of each kind: what it expects must come;
 * - its frames are fed, as they are and changed by chance (bits flipped, cut, lengthened, repeated, out of order,
 *   checksums put right again or not), to hosts of all kinds side by side: after each frame all must have sent the same
 *   bytes at the same time, and at the end all counters and drop reasons must be the same.
 */
#ifndef CONFORMANCE_DIFFER_H
#define CONFORMANCE_DIFFER_H

#include "tests/conformance/host.h"

enum { DIFFER_KINDS = 4 };

struct differ_kind {
	const char *name;
	const struct xk_graph_compiled *compiled; /* as in struct host_plan */
	bool watched, no_paths;
	uint64_t *by_path; /* is added the frames that went up paths; NULL: not counted */
};

struct differ {
	const char *graph; /* only scripts of this graph file; NULL: all */
	unsigned count;    /* of kinds, up to DIFFER_KINDS */
	bool counts_edges; /* now and then; these counts must be the same, too */
	struct differ_kind kinds[DIFFER_KINDS];
};

/* What was compared, in all. */
struct differ_done {
	unsigned scripts, frames;
	uint64_t total; /* of all counters */
};

/* Compares on a script's frames, as they are and `rounds` times changed. Returns false after saying what differs. */
bool differ_run(const struct differ *d, const char *script, const char *const *folders, unsigned rounds,
		struct differ_done *done);

#endif
