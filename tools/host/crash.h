/* crash.h - prints one line about a program's crash: the host and the protocol that caused it. */
#ifndef CRASH_H
#define CRASH_H

/*
 * Makes a segmentation fault and the like print, after `program`, where it happened, before it ends the program as
 * usual. The calling thread reports even a stack overflow. Does nothing under a sanitizer, which reports more.
 */
void crash_report_faults(const char *program);

#endif
