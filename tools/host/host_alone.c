/* host_alone.c - see host_alone.h. */
#define _GNU_SOURCE
#include "tools/host/host_alone.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graphs/attributes.h"
#include "graphs/graph.h"
#include "platform/clock.h"
#include "tools/json.h"
#include "xkernel/engine/where.h"
#include "xkernel/trace.h"

enum { HOST_PARKED = 32 };

/* ---- signals ---- */

/* Waits for a signal, which ends the program, until the thread is cancelled. */
static void *
host_signal_thread(void *argument)
{
	struct pollfd polls = { .fd = *(int *)argument, .events = POLLIN };

	while (poll(&polls, 1, -1) < 0 && errno == EINTR)
		continue;
	_exit(OPTIONS_FAILURE);
}

int
host_open_alone(struct host *host, const struct host_options *options, int signals)
{
	pthread_t listener;
	int status = pthread_create(&listener, NULL, host_signal_thread, &signals);

	if (status != 0) {
		fprintf(stderr, "%s: no thread to wait for signals: %s\n", options->program, xk_error(status));
		return OPTIONS_FAILURE;
	}
	status = host_open(host, options);
	pthread_cancel(listener);
	pthread_join(listener, NULL);
	return status;
}

/* Waits until a signal arrives, which it takes, until `other` (-1: none) becomes readable, or until end_ns. */
static void
host_await(int signals, int other, uint64_t end_ns)
{
	struct pollfd polls[] = { { .fd = signals, .events = POLLIN }, { .fd = other, .events = POLLIN } };
	uint64_t now_ns = clock_system_ns(), left_ns;
	char info[128]; /* an unused struct signalfd_siginfo */
	struct timespec left;
	int ready = -1;
	ssize_t got;

	while (ready < 0 && now_ns < end_ns) {
		left_ns = end_ns - now_ns;
		left = (struct timespec){ .tv_sec = (time_t)(left_ns / 1000000000),
					  .tv_nsec = (long)(left_ns % 1000000000) };
		ready = ppoll(polls, XK_ARRAY_LENGTH(polls), end_ns == UINT64_MAX ? NULL : &left, NULL);
		if (ready < 0 && errno != EINTR)
			return;
		now_ns = clock_system_ns();
	}
	if (polls[0].revents == 0)
		return;
	got = read(signals, info, sizeof(info));
	(void)got;
}

void
host_await_signal(int signals)
{
	host_await(signals, -1, UINT64_MAX);
}

void
host_await_end(const struct host *host, int signals, uint64_t until_ns)
{
	int ended = host->options.ended_fd > 0 ? host->options.ended_fd : -1;

	host_await(signals, ended, until_ns == 0 ? UINT64_MAX : clock_system_ns() + until_ns);
}

/* ---- a companion ---- */

/* Stays on the link until the program closes `control`. Leaves signals to the process group to its parent. */
__attribute__((noreturn)) static void
host_companion_main(const struct host_options *options, int control)
{
	struct host host = { .port_count = 0 };
	int status, closed;
	sigset_t none;
	char byte = 0;

	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	status = host_open(&host, options);
	if (status == 0)
		status = host_start(&host);
	if (status == 0 && send(control, &byte, 1, MSG_NOSIGNAL) == 1) /* ready */
		while (read(control, &byte, 1) < 0 && errno == EINTR)
			continue;
	closed = host_close(&host);
	exit(status != 0 ? status : closed);
}

int
host_companion_start(struct host_companion *companion, const struct host_options *options, int signals)
{
	struct pollfd polls[] = { { .events = POLLIN }, { .fd = signals, .events = POLLIN } };
	int ends[2], status;
	char byte;

	*companion = (struct host_companion){ .alive = -1 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
		fprintf(stderr, "%s: no socket to the server: %s\n", options->program, xk_error(errno));
		return OPTIONS_FAILURE;
	}
	companion->pid = pair_fork();
	if (companion->pid == 0) {
		close(ends[0]);
		host_companion_main(options, ends[1]);
	}
	close(ends[1]);
	companion->alive = polls[0].fd = ends[0];
	if (companion->pid < 0) {
		fprintf(stderr, "%s: the server cannot be started: %s\n", options->program, xk_error(errno));
		companion->pid = 0;
		return OPTIONS_FAILURE;
	}
	while (poll(polls, 2, -1) < 0 && errno == EINTR)
		continue;
	if (polls[0].revents != 0 && read(companion->alive, &byte, 1) == 1)
		return 0;
	status = pair_reap(companion->pid, polls[0].revents != 0 ? PAIR_END_MS : 0);
	companion->pid = 0;
	if (status != -1 && WIFSIGNALED(status))
		fprintf(stderr, "%s: the server died: signal %d\n", options->program, WTERMSIG(status));
	return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : OPTIONS_FAILURE;
}

int
host_companion_stop(struct host_companion *companion, const char *program)
{
	int status = 0;

	if (companion->alive >= 0)
		close(companion->alive);
	if (companion->pid > 0)
		status = pair_reap(companion->pid, PAIR_END_MS);
	*companion = (struct host_companion){ .alive = -1 };
	if (status == 0)
		return 0;
	fprintf(stderr, "%s: the server failed at its end (status %#x)\n", program, (unsigned)status);
	return OPTIONS_FAILURE;
}

/* ---- addresses ---- */

/* Writes "02:00:00:00:00:01", and returns text. */
static const char *
host_link_address_print(uint64_t address, char text[18])
{
	for (unsigned i = 0; i < 6; i++)
		snprintf(text + 3 * i, 4, "%02x%s", (unsigned)(address >> (40 - 8 * i)) & 0xff, i < 5 ? ":" : "");
	return text;
}

void
host_print_standing(const struct host *host)
{
	const struct host_options *options = &host->options;
	struct attributes_address address = { .node = 0 };
	const char *before = " at ";
	char text[18];

	flockfile(stderr); /* drivers may be tracing already */
	fprintf(stderr, "%s: %s stands", options->program, options->graph);
	for (; attributes_next_address(host->graph, &address); before = ", ")
		fprintf(stderr, "%s%s", before, address.attribute->value);
	for (unsigned i = 0; i < host->port_count; i++)
		fprintf(stderr, "%s%s \"%s\" (%s)", i == 0 ? " on " : ", ", options->link->name, host->port_names[i],
			host_link_address_print(host->ports[i][0]->address, text));
	if (host_driver_count(host) > 1)
		fprintf(stderr, "; %u drivers, %s", host_driver_count(host), host_drivers[options->driver]);
	else
		fprintf(stderr, "; driver %s", host_drivers[options->driver]);
	fprintf(stderr, ", mode %s; ctrl-C ends it\n", host_modes[options->mode]);
	funlockfile(stderr);
}

/* ---- counts ---- */

/* Writes "INSTANCE.COUNTER", and returns name. */
static const char *
host_counter_name(const struct xk_protocol *protocol, unsigned counter, char name[PAIR_NAME])
{
	snprintf(name, PAIR_NAME, "%.30s.%.30s", protocol->name, protocol->type->counters[counter]);
	return name;
}

static void
host_print_count(FILE *out, const char *name, uint64_t count)
{
	if (count != 0)
		fprintf(out, "%-40s %12" PRIu64 "\n", name, count);
}

static void
host_print_port_count(void *out, const char *name, uint64_t count, bool is_drop)
{
	if (!is_drop)
		host_print_count(out, name, count);
}

void
host_print_counts(struct host *host, FILE *out)
{
	struct pair_counts counts = { 0 };
	struct xk_kernel_stats stats;
	char name[PAIR_NAME];

	host_counts(host, &counts);
	for (const struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
			host_print_count(out, host_counter_name(p, i, name), xk_counter(p, i));
	host_each_port_count(host, host_print_port_count, out);
	for (unsigned i = 0; i < counts.drop_count; i++)
		host_print_count(out, counts.drops[i].name, counts.drops[i].count);
	host_print_count(out, "frames received", counts.frames);
	for (unsigned i = 0; i < host_driver_count(host) && host_driver_count(host) > 1; i++) {
		xk_kernel_driver_stats(host->kernel, i, &stats);
		snprintf(name, sizeof(name), "... by driver %u", i);
		host_print_count(out, name, stats.frames);
	}
	host_print_count(out, "context switches of the driver", counts.driver_switches);
	host_print_count(out, "context switches of other threads", counts.thread_switches);
	for (unsigned i = 0; i < XK_HANDOFF_REASONS; i++) {
		snprintf(name, sizeof(name), "handoffs %s", xk_handoff_names[i]);
		host_print_count(out, name, counts.handoffs[i]);
	}
	host_print_count(out, "fallbacks", counts.fallbacks);
	host_print_count(out, "overruns", counts.overruns);
	host_print_count(out, "overtaken", counts.overtaken);
	host_print_count(out, "stalled", counts.stalled);
}

static void
host_json_port_count(void *json, const char *name, uint64_t count, bool is_drop)
{
	if (!is_drop)
		json_uint(json, name, count);
}

void
host_json_counters(const struct host *host, struct json *json)
{
	char name[PAIR_NAME];

	json_object(json, "counters");
	for (const struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		for (unsigned i = 0; p->type->counters != NULL && p->type->counters[i] != NULL; i++)
			json_uint(json, host_counter_name(p, i, name), xk_counter(p, i));
	host_each_port_count(host, host_json_port_count, json);
	json_close(json);
}

void
host_json_counts(struct json *json, const struct pair_counts *counts)
{
	json_object(json, "handoffs");
	for (unsigned i = 0; i < XK_HANDOFF_REASONS; i++)
		json_uint(json, xk_handoff_names[i], counts->handoffs[i]);
	json_close(json);
	json_uint(json, "fallbacks", counts->fallbacks);
	json_uint(json, "overruns", counts->overruns);
	json_uint(json, "overtaken", counts->overtaken);
	json_uint(json, "stalled", counts->stalled);
	json_object(json, "drops");
	for (unsigned i = 0; i < counts->drop_count; i++)
		if (counts->drops[i].count != 0)
			json_uint(json, counts->drops[i].name, counts->drops[i].count);
	json_close(json);
}

void
host_json_parked(struct xk_kernel *kernel, struct json *json)
{
	struct xk_parked groups[HOST_PARKED];
	unsigned count = xk_kernel_parked(kernel, groups, HOST_PARKED);
	char function[XK_WHERE_FUNCTION];

	json_array(json, "parked");
	for (unsigned i = 0; i < count; i++) {
		json_object(json, NULL);
		json_string(json, "protocol", groups[i].protocol->name);
		json_string(json, "what", xk_load_names[groups[i].load]);
		json_string(json, "wait", xk_wait_end_names[groups[i].end]);
		json_string(json, "function", xk_where_function(groups[i].from, function));
		json_uint(json, "count", groups[i].count);
		json_uint(json, "longest_ns", groups[i].longest_ns);
		json_close(json);
	}
	json_close(json);
}

void
host_json_drivers(const struct host *host, struct json *json)
{
	struct xk_kernel_stats stats;

	json_array(json, "drivers");
	for (unsigned i = 0; i < host_driver_count(host); i++) {
		xk_kernel_driver_stats(host->kernel, i, &stats);
		json_object(json, NULL);
		json_uint(json, "fragments", stats.frames);
		json_uint(json, "driver_switches", stats.driver_switches);
		json_close(json);
	}
	json_close(json);
}

static void
host_json_ports(const struct host *host, struct json *json)
{
	char text[18];

	json_object(json, "ports");
	for (unsigned i = 0; i < host->port_count; i++) {
		uint64_t frames_in = 0, frames_out = 0;

		for (unsigned lane = 0; lane < host_driver_count(host); lane++) {
			frames_in += atomic_load(&host->ports[i][lane]->frames_in);
			frames_out += atomic_load(&host->ports[i][lane]->frames_out);
		}
		json_object(json, host->port_nodes[i]);
		json_string(json, "dev", host->port_names[i]);
		json_string(json, "address", host_link_address_print(host->ports[i][0]->address, text));
		json_uint(json, "mtu", host->ports[i][0]->mtu);
		json_uint(json, "frames_in", frames_in);
		json_uint(json, "frames_out", frames_out);
		json_close(json);
	}
	json_close(json);
}

void
host_json(struct host *host, struct json *json, const char *key)
{
	struct pair_counts counts = { 0 };
	struct attributes_address address = { .node = 0 };
	struct rusage usage;

	host_counts(host, &counts);
	json_object(json, key);
	json_string(json, "mode", host_modes[host->options.mode]);
	json_uint(json, "threads", host->options.threads);
	json_array(json, "addresses");
	while (attributes_next_address(host->graph, &address))
		json_string(json, NULL, address.attribute->value);
	json_close(json);
	host_json_ports(host, json);
	host_json_drivers(host, json);
	json_uint(json, "fragments", counts.frames);
	json_uint(json, "driver_switches", counts.driver_switches);
	json_uint(json, "context_switches", counts.thread_switches);
	if (getrusage(RUSAGE_SELF, &usage) == 0)
		json_uint(json, "process_switches", (uint64_t)usage.ru_nvcsw);
	host_json_counts(json, &counts);
	host_json_parked(host->kernel, json);
	host_json_counters(host, json);
	json_close(json);
}
