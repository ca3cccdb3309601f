/*
 * script.h - running the packet scripts of docs/conformance.md.
 */
#ifndef CONFORMANCE_SCRIPT_H
#define CONFORMANCE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

enum { SCRIPT_WHY = 16384 };

/*
 * Runs the script called file (for messages), whose text is changed. Graphs are in the folders, which NULL ends.
 * Returns false with "file:line: reason" in `why`, which may have several lines.
 */
bool script_run(const char *file, char *text, const char *const *folders, char *why);

struct host_plan;

/*
 * As script_run_file, but calls prepare(context, plan) before it makes a host from plan. The plan's file is the
 * script's name for it with a folder in front.
 */
bool script_run_prepared(const char *file, const char *const *folders,
			 void (*prepare)(void *context, struct host_plan *plan), void *context, char *why);

/* The same for a file; its own folder is searched for graphs first. */
bool script_run_file(const char *file, const char *const *folders, char *why);

#endif
