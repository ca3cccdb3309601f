/*
 * script.h - running the packet scripts of docs/conformance.md.
 */
#ifndef CONFORMANCE_SCRIPT_H
#define CONFORMANCE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

enum { SCRIPT_WHY = 16384 };

/*
 * Runs the script called file (for messages), whose text is changed. Graphs are looked for in the folders, NULL ends
 * them. False: why says "file:line: what", several lines of it.
 */
bool script_run(const char *file, char *text, const char *const *folders, char *why);

struct host_plan;

/*
 * As script_run_file, but that prepare(context, plan) is called before a host is made of plan. Its file is as the script names it,
 * with a folder before it.
 */
bool script_run_prepared(const char *file, const char *const *folders,
			 void (*prepare)(void *context, struct host_plan *plan), void *context, char *why);

/* The same for a file; graphs are looked for in its own folder first. */
bool script_run_file(const char *file, const char *const *folders, char *why);

#endif
