/*
 * doctor_try.c - finds out whether a link works: icmptest's two hosts, each a process of its own, exchange messages
 * over it. A list of prerequisites would be long and would differ from machine to machine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/private.h"
#include "tools/doctor/doctor.h"
#include "tools/host/host_options.h"
#include "tools/host/host_pair.h"
#include "tools/program/program.h"

enum { DOCTOR_LIMIT_S = 15, DOCTOR_SAID = 8192, DOCTOR_ARGUMENTS = 16 };

/* graphs/icmptest.dot, wherever the program stands. */
static const char doctor_graph[] =
	"digraph doctor { icmptest -> icmp; icmp -> ip; ip -> vnet; vnet -> eth; vnet -> arp; "
	"arp -> eth; eth -> port; }\n";

/* ---- cleaning up ---- */

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

/* A directory that is not empty is somebody else's by now, and stays. */
static void
doctor_tidy(const struct doctor_places *places)
{
	host_sweep("icmptest");
	for (unsigned i = 0; i < DOCTOR_PLACES; i++)
		if (!places->were_there[i])
			rmdir(places->path[i]);
}

/* ---- the trial ---- */

/* Keeps the first line of icmptest's own, without its name and the advice. */
static void
doctor_listen(int said, bool was_killed, struct doctor_trial *trial)
{
	static const char name[] = "icmptest: ", advice[] = "; try icmptest";
	char text[DOCTOR_SAID], *end;
	ssize_t len = read(said, text, sizeof(text) - 1);
	const char *start;

	text[len < 0 ? 0 : len] = '\0';
	start = strstr(text, name);
	if (start == NULL) {
		snprintf(trial->why, sizeof(trial->why), "%s",
			 was_killed ? "it has not come to an end" : "no messages come back");
		return;
	}
	start += strlen(name);
	text[start - text + (ptrdiff_t)strcspn(start, "\n")] = '\0';
	end = strstr(text, advice);
	if (end != NULL)
		*end = '\0';
	snprintf(trial->why, sizeof(trial->why), "%.300s", start);
}

void
doctor_try(const char *link, enum xk_driver_policy driver, struct doctor_trial *trial)
{
	struct doctor_places places = { .were_there = { false } };
	const ssize_t len = (ssize_t)strlen(doctor_graph);
	int graph = memfd_create("doctor.dot", 0), said[2];
	char line[256], *rest = line, *arguments[DOCTOR_ARGUMENTS];
	int count = 0;
	pid_t pid;

	*trial = (struct doctor_trial){ .status = OPTIONS_FAILURE };
	snprintf(line, sizeof(line),
		 "icmptest --link %.64s --driver %s --graph /proc/self/fd/%d --count 5 --interval 2ms --timeout 4s "
		 "--quiet",
		 link, host_drivers[driver], graph);
	while ((arguments[count] = strsep(&rest, " ")) != NULL)
		count++;
	if (graph < 0 || write(graph, doctor_graph, (size_t)len) != len || pipe2(said, O_CLOEXEC | O_NONBLOCK) != 0) {
		snprintf(trial->why, sizeof(trial->why), "%s", strerror(errno));
		return;
	}
	doctor_remember(&places);
	fflush(NULL);
	pid = pair_fork();
	if (pid == 0) {
		dup2(said[1], STDOUT_FILENO);
		dup2(said[1], STDERR_FILENO);
		exit(icmptest_main(count, arguments));
	}
	if (pid > 0)
		trial->status = pair_reap(pid, DOCTOR_LIMIT_S * 1000);
	doctor_listen(said[0], trial->status == -1, trial);
	doctor_tidy(&places);
	close(said[0]);
	close(said[1]);
	close(graph);
}
