/*
 * dpdk_peer.h - for tests of links between two processes: the other process and its roles.
 *
 * It is the test program again, with its role in an environment variable; it is executed before DPDK starts here and
 * dies with its parent.
 */
#ifndef TESTS_DPDK_PEER_H
#define TESTS_DPDK_PEER_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/platform/dpdk_host.h"

enum { NOBODY = 65534, PEER_READY = 3 /* the file descriptor on which it reports that it is ready */ };

static const char *const peer_variable = "XK_TEST_DPDK_ROLE";

struct peer {
	pid_t pid;
	int output; /* it writes a letter when its port is open */
};

/* Starts it with this role, which the program reads before main. */
static inline struct peer
peer_begin(const char *role)
{
	struct peer p = { 0 };
	int ends[2];

	if (pipe(ends) != 0)
		abort();
	p.output = ends[0];
	p.pid = fork();
	if (p.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], PEER_READY);
		closefrom(PEER_READY + 1);
		setenv(peer_variable, role, 1);
		execl("/proc/self/exe", "test_dpdk_peer", (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	return p;
}

/* Waits until its port is open. */
static inline bool
peer_is_ready(const struct peer *p)
{
	struct pollfd fd = { .fd = p->output, .events = POLLIN };
	char letter;
	int ready;

	do
		ready = poll(&fd, 1, 60000);
	while (ready < 0 && errno == EINTR); /* a tap's frames raise signals */
	return ready == 1 && read(p->output, &letter, 1) == 1;
}

/* Returns its exit status, or minus the signal that ended it. */
static inline int
peer_end(struct peer *p, int signal_number)
{
	int status = 0;

	if (signal_number != 0)
		kill(p->pid, signal_number);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	close(p->output);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- roles; each returns an exit status ---- */

/* Reports to the parent that the port is open. */
static inline bool
role_is_ready(void)
{
	return write(PEER_READY, "r", 1) == 1;
}

static inline bool
link_is_up(struct host *h, bool up)
{
	uint64_t until = now_ns(h) + PATIENCE_NS;

	while (xk_dpdk_port_is_up(h->port) != up && now_ns(h) < until) {
		h->platform->ops->poll_control(h->platform);
		usleep(1000);
	}
	return xk_dpdk_port_is_up(h->port) == up;
}

static inline unsigned
role_return(struct host *h)
{
	struct xk_msg *frames[XK_BURST];
	unsigned count = h->port->ops->receive(h->port, frames, XK_BURST);

	for (unsigned sent = 0; sent < count;)
		sent += h->port->ops->transmit(h->port, frames + sent, count - sent);
	return count;
}

/*
 * Echoes every frame until SIGTERM, which the platform's event loop delivers. joins: reports ready once the link is up.
 */
static inline int
role_echo(struct host *h, bool joins)
{
	bool end = false;
	struct event *term = evsignal_new(xk_dpdk_event_base(h->platform), SIGTERM, host_note_event, &end);

	event_add(term, NULL);
	if (joins && !link_is_up(h, true))
		return 5;
	if (!role_is_ready())
		return 3;
	while (!end) {
		if (role_return(h) > 0)
			continue;
		if (!h->sleeps) {
			h->platform->ops->poll_control(h->platform);
			sched_yield();
			continue;
		}
		h->port->ops->arm(h->port);
		if (role_return(h) == 0)
			h->platform->ops->sleep(h->platform, UINT64_MAX);
		h->port->ops->disarm(h->port);
	}
	event_free(term);
	host_close(h);
	return h->platform->ops->buffers_out(h->platform) == 0 ? 0 : 4;
}

#endif
