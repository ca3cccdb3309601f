/* crash.h - a line about a program's crash: the host and the protocol that caused it. */
#ifndef CRASH_H
#define CRASH_H

/*
 * From now on, a segmentation fault and the like print where they happened, after `program`, before they end the program
 * as always. The calling thread reports even a stack that overflowed. Does nothing under a sanitizer, which reports more.
 */
void crash_tell(const char *program);

#endif
