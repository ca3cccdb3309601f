/* crash.c - see crash.h. */
#define _GNU_SOURCE
#include "tools/host/crash.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "xkernel/engine/where.h"

/* CRASH_TIME_S: time for the report, which takes locks that the crash may have left taken. */
enum { CRASH_STACK = 256 << 10, CRASH_TIME_S = 5 };

static const char *crash_program;

static const struct crash_kind {
	int signal;
	const char *verb;
} crash_kinds[] = {
	{ SIGSEGV, "has used an invalid address (NULL, or a full stack)" },
	{ SIGBUS, "has used an invalid address (SIGBUS)" },
	{ SIGFPE, "has divided by zero" },
	{ SIGILL, "has executed an illegal instruction" },
};

/* Reports the crash. On return, the instruction faults again, and the signal's default action ends the program. */
static void
crash_report(int number, siginfo_t *info, void *context)
{
	struct xk_where where;

	(void)context;
	signal(SIGALRM, SIG_DFL);
	alarm(CRASH_TIME_S);
	xk_where_note(&where);
	for (size_t i = 0; i < XK_ARRAY_LENGTH(crash_kinds); i++)
		if (crash_kinds[i].signal == number) {
			fprintf(stderr, "%s: crash: ", crash_program);
			xk_where_print(&where, crash_kinds[i].verb, stderr);
			fputc('\n', stderr);
		}
	if (info->si_code <= 0) /* sent by a process: no instruction faults again */
		raise(number);
}

void
crash_report_faults(const char *program)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	static _Alignas(64) char stack[CRASH_STACK];
	struct sigaction action = { .sa_sigaction = crash_report, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND };
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };

	crash_program = program;
	sigaltstack(&alternate, NULL);
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < XK_ARRAY_LENGTH(crash_kinds); i++)
		sigaction(crash_kinds[i].signal, &action, NULL);
#else
	(void)program;
	(void)crash_report;
#endif
}
