/* Makes the system calls that expose most of a kernel: namespaces, traces, keys, BPF programs, io_uring. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void
attack_called(const char *what, long result, int wanted)
{
	if (result >= 0 || errno != wanted)
		fprintf(stderr, "HARM: %s returns %ld, errno %d\n", what, result, errno);
}

ATTACK
{
	attack_called("unshare", unshare(CLONE_NEWUSER | CLONE_NEWNS), EPERM);
	attack_called("clone", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), EPERM);
	attack_called("clone3", syscall(SYS_clone3, NULL, 0), ENOSYS);
	attack_called("ptrace", ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM);
	attack_called("mount", mount(NULL, NULL, NULL, 0, NULL), EPERM);
	attack_called("add_key", syscall(SYS_add_key, "user", "attack", "x", 1, -3), EPERM);
	attack_called("keyctl", syscall(SYS_keyctl, 0, -3, 1), EPERM);
	attack_called("bpf", syscall(SYS_bpf, -1, NULL, 0), EPERM);
	attack_called("userfaultfd", syscall(SYS_userfaultfd, -1), EPERM);
	attack_called("perf_event_open", syscall(SYS_perf_event_open, NULL, 0, -1, -1, -1), EPERM);
	attack_called("io_uring_setup", syscall(SYS_io_uring_setup, 0, NULL), EPERM);
	attack_called("process_vm_readv", syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0), EPERM);
	attack_called("setns", syscall(SYS_setns, -1, 0), EPERM);
	attack_called("socket", socket(AF_NETLINK, SOCK_RAW, 0), EPERM);
	attack_called("a call of tomorrow", syscall(5000), ENOSYS);
	_exit(1);
}
