/*
 * doctor_try.c - whether a link works: two hosts, each a process of its own, exchange messages over it. Nothing else
 * tells as surely; what may be missing is too much, and differs from machine to machine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "platform/private.h"
#include "protocols/test/udptest.h"
#include "tools/doctor/doctor.h"
#include "tools/host/host_companion.h"

enum { DOCTOR_ROUNDS = 20, DOCTOR_LIMIT_S = 15, DOCTOR_SAID = 8192, DOCTOR_NAP_MS = 5 };

static const char doctor_graph[] = "digraph doctor { udptest -> udp; udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp; "
				   "arp -> eth; eth -> port; }\n";

/* ---- the client, and its server: processes of their own ---- */

static void
doctor_finished(void *argument, const struct xk_udptest_result *result)
{
	uint64_t value = (uint64_t)-result->error + 1; /* 0 cannot be told */
	ssize_t written = write(*(int *)argument, &value, sizeof(value));

	(void)written; /* who waits for it is killed in time */
}

static int
doctor_exchange(struct host *host, const struct host_companion *server)
{
	struct xk_protocol *test = host_find_type(host, "udptest");
	struct xk_udptest_run run = { .size = 1, .rounds = DOCTOR_ROUNDS, .finished = doctor_finished };
	int done = eventfd(0, EFD_CLOEXEC);
	struct pollfd polls[] = { { .fd = done, .events = POLLIN }, { .fd = server->alive, .events = POLLIN } };
	uint64_t got = 0;

	run.argument = &done;
	xk_host_parse("10.77.0.2", &run.host);
	if (test == NULL || done < 0 || xk_udptest_start(test, &run) != 0)
		return OPTIONS_FAILURE;
	while (poll(polls, 2, -1) < 0 && errno == EINTR)
		;
	if (polls[0].revents == 0) {
		fprintf(stderr, "xk doctor: the server died\n");
		return OPTIONS_FAILURE;
	}
	if (read(done, &got, sizeof(got)) == sizeof(got) && got == 1)
		return 0;
	fprintf(stderr, "xk doctor: no messages come back: %s\n", strerror((int)(got - 1)));
	return OPTIONS_FAILURE;
}

static int
doctor_run(const char *graph, const char *link, enum xk_driver_policy driver)
{
	static const struct options_program program = { .name = "xk doctor" };
	static const struct options_texts none = { .count = 0 };
	char meeting[32];
	struct host_options options[PAIR_ENDS];
	struct host_companion server;
	struct host host = { .port_count = 0 };
	int status, closed;

	snprintf(meeting, sizeof(meeting), "doctor-%ld-", (long)getpid());
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		options[i] = (struct host_options){
			.program = program.name,
			.name = pair_end_names[i],
			.end = i,
			.paired = true,
			.graph = graph,
			.sets = &none,
			.meeting = meeting,
			.mode = XK_IPP,
			.driver = driver,
			.threads = 1,
			.core = -1,
			.yields = true,
		};
	if (host_link_find(&program, link, (int)driver, &options[PAIR_CLIENT].link) != 0)
		return OPTIONS_FAILURE;
	options[PAIR_SERVER].link = options[PAIR_CLIENT].link;
	status = host_load(&host, &options[PAIR_SERVER]);
	if (status == 0)
		status = host_prepare_pair(&host);
	host_close(&host);
	if (status == 0)
		status = host_companion_start(&server, &options[PAIR_SERVER], -1);
	if (status != 0)
		return status;
	status = host_open(&host, &options[PAIR_CLIENT]);
	if (status == 0)
		status = host_start(&host);
	if (status == 0)
		status = doctor_exchange(&host, &server);
	closed = host_close(&host);
	closed |= host_companion_stop(&server, program.name);
	return status != 0 ? status : closed;
}

/* ---- what a trial leaves behind ---- */

/* Directories that DPDK and the platform make for sockets, inner ones first. */
enum { DOCTOR_PLACES = 4, DOCTOR_PATH = 256 };

struct doctor_places {
	char path[DOCTOR_PLACES][DOCTOR_PATH];
	bool were_there[DOCTOR_PLACES];
};

static void
doctor_remember(struct doctor_places *places)
{
	snprintf(places->path[0], DOCTOR_PATH, "/tmp/xk-%lu", (unsigned long)getuid());
	private_dpdk_directory(places->path[1], DOCTOR_PATH);
	snprintf(places->path[2], DOCTOR_PATH, "%.*s", (int)(strlen(places->path[1]) - strlen("/rte")),
		 places->path[1]);
	snprintf(places->path[3], DOCTOR_PATH, "/run/xk");
	for (unsigned i = 0; i < DOCTOR_PLACES; i++)
		places->were_there[i] = access(places->path[i], F_OK) == 0;
}

/* Whatever is not empty is somebody else's by now, and stays. */
static void
doctor_tidy(const struct doctor_places *places)
{
	host_sweep("doctor");
	for (unsigned i = 0; i < DOCTOR_PLACES; i++)
		if (!places->were_there[i])
			rmdir(places->path[i]);
}

/* ---- the trial ---- */

/* Waits for a child to end, and kills it when its time is up. Its status, or -1: killed. */
static int
doctor_await(pid_t pid)
{
	struct timespec nap = { .tv_nsec = DOCTOR_NAP_MS * 1000000 };
	int status = 0;

	for (unsigned waited_ms = 0; waited_ms < DOCTOR_LIMIT_S * 1000; waited_ms += DOCTOR_NAP_MS) {
		if (waitpid(pid, &status, WNOHANG) != 0)
			return status;
		nanosleep(&nap, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return -1;
}

/* Of what was said the first line that is ours, without the program's name and what to try. */
static void
doctor_listen(int said, struct doctor_trial *trial)
{
	static const char name[] = "xk doctor: ", advice[] = "; try xk doctor";
	char text[DOCTOR_SAID], *end;
	ssize_t len = read(said, text, sizeof(text) - 1);
	const char *start;

	text[len < 0 ? 0 : len] = '\0';
	start = strstr(text, name);
	if (start == NULL) {
		snprintf(trial->why, sizeof(trial->why), "it has not come to an end in %d s", DOCTOR_LIMIT_S);
		return;
	}
	start += strlen(name);
	text[start - text + (ptrdiff_t)strcspn(start, "\n")] = '\0';
	end = strstr(text, advice);
	if (end != NULL)
		*end = '\0';
	snprintf(trial->why, sizeof(trial->why), "%.300s", start);
}

/* A descriptor of a file with the graph in it, whose name is in path; -1: none. */
static int
doctor_graph_file(char *path, size_t size)
{
	int file = memfd_create("doctor.dot", 0);

	if (file < 0 || write(file, doctor_graph, strlen(doctor_graph)) != (ssize_t)strlen(doctor_graph))
		return -1;
	snprintf(path, size, "/proc/self/fd/%d", file);
	return file;
}

void
doctor_try(const char *link, enum xk_driver_policy driver, struct doctor_trial *trial)
{
	struct doctor_places places = { .were_there = { false } };
	char path[64];
	int graph = doctor_graph_file(path, sizeof(path)), said[2];
	pid_t pid;

	*trial = (struct doctor_trial){ .status = OPTIONS_FAILURE };
	if (graph < 0 || pipe2(said, O_CLOEXEC | O_NONBLOCK) != 0) {
		snprintf(trial->why, sizeof(trial->why), "%s", strerror(errno));
		return;
	}
	doctor_remember(&places);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(said[1], STDOUT_FILENO);
		dup2(said[1], STDERR_FILENO);
		exit(doctor_run(path, link, driver));
	}
	if (pid > 0)
		trial->status = doctor_await(pid);
	doctor_listen(said[0], trial);
	doctor_tidy(&places);
	close(said[0]);
	close(said[1]);
	close(graph);
}
