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

/* The same for a file; graphs are looked for in its own folder first. */
bool script_run_file(const char *file, const char *const *folders, char *why);

#endif
