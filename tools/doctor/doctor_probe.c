/* doctor_probe.c - finds the facts by checking and trying; see doctor.h. */
#define _GNU_SOURCE
#include "tools/doctor/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/private.h"
#include "tools/host/host_options.h"
#include "tools/machine.h"
#include "tools/roundtrip/programs.h"
#ifdef XK_HAVE_DPDK
#include "platform/dpdk/dpdk.h"
#endif

#ifndef AF_XDP
#define AF_XDP 44
#endif

enum { DOCTOR_HUGE_SHIFT = 26, DOCTOR_HUGE_LOG2 = 21, DOCTOR_LINE = 4096 };

static uint64_t
doctor_read_number(const char *path, const char *key, int base)
{
	char text[DOCTOR_NAME];

	machine_read(path, key, text, sizeof(text));
	return strtoull(text, NULL, base);
}

/* ---- attempts ---- */

/* Loads an XDP program without attaching it. Returns a descriptor, or -1. */
static int
doctor_load_pass(void)
{
	static const struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attributes = { .prog_type = BPF_PROG_TYPE_XDP };

	attributes.insns = (uintptr_t)pass;
	attributes.insn_cnt = XK_ARRAY_LENGTH(pass);
	attributes.license = (uintptr_t) "BSD";
	return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof(attributes));
}

/* Tries one thing. Returns -1 with errno set if the machine cannot do it. */
static int
doctor_attempt(unsigned what)
{
	const size_t huge = (size_t)1 << DOCTOR_HUGE_LOG2;
	void *pages;
	int fd;

	switch (what) {
	case DOCTOR_TRY_NETNS:
		return unshare(CLONE_NEWNET);
	case DOCTOR_TRY_USERNS:
		return unshare(CLONE_NEWUSER | CLONE_NEWNET);
	case DOCTOR_TRY_TUN:
		return open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	case DOCTOR_TRY_PACKET:
		return socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: receives nothing */
	case DOCTOR_TRY_XDP:
		return socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	case DOCTOR_TRY_BPF:
		return doctor_load_pass();
	case DOCTOR_TRY_HUGE:
		fd = memfd_create("doctor", MFD_CLOEXEC | MFD_HUGETLB | DOCTOR_HUGE_LOG2 << DOCTOR_HUGE_SHIFT);
		if (fd < 0 || ftruncate(fd, (off_t)huge) != 0)
			return -1;
		pages = mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		return pages == MAP_FAILED ? -1 : 0;
	}
	return -1;
}

/* Makes an attempt in a child process, whose end undoes it. Returns 0 or errno. */
static int
doctor_in_child(unsigned what)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(doctor_attempt(what) < 0 ? errno : 0);
	if (pid < 0)
		return errno;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : ECANCELED;
}

/* ---- processors ---- */

static void
doctor_probe_processor(struct doctor_facts *facts)
{
	static const char halt_poll[] = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
	char siblings[2][DOCTOR_NAME], path[128], flags[DOCTOR_LINE];
	unsigned *const cores[] = { &facts->core_first, &facts->core_second };
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		CPU_SET(0, &set);
	for (unsigned i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set) && facts->cores++ < 2)
			*cores[facts->cores - 1] = i;
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", *cores[i]);
		machine_read(path, "", siblings[i], sizeof(siblings[i]));
	}
	facts->are_siblings = facts->cores > 1 && siblings[0][0] != '\0' && strcmp(siblings[0], siblings[1]) == 0;
	machine_read("/sys/devices/system/cpu/isolated", "", facts->isolated, sizeof(facts->isolated));
	machine_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", "", facts->clock,
		     sizeof(facts->clock));
	machine_read("/proc/cpuinfo", "flags", flags, sizeof(flags));
	facts->is_tsc_steady = strstr(flags, "constant_tsc") != NULL && strstr(flags, "nonstop_tsc") != NULL;
	facts->has_halt_poll = access(halt_poll, R_OK) == 0;
	facts->halt_poll_ns = doctor_read_number(halt_poll, "", 10);
}

/* ---- network cards ---- */

/* Records the address of a network card (class 02), by its driver. */
static void
doctor_probe_card(struct doctor_facts *facts, const char *address)
{
	char path[512], class[DOCTOR_NAME], driver[512], *name;
	ssize_t len;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.64s/class", address);
	if (!machine_read(path, "0x02", class, sizeof(class)))
		return;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.64s/driver", address);
	len = readlink(path, driver, sizeof(driver) - 1);
	driver[len < 0 ? 0 : len] = '\0';
	name = strrchr(driver, '/');
	name = name == NULL ? driver : name + 1;
	name = strcmp(name, "vfio-pci") == 0 || strcmp(name, "uio_pci_generic") == 0 || strcmp(name, "igb_uio") == 0
		       ? facts->bound
		       : facts->card;
	if (name[0] == '\0')
		snprintf(name, DOCTOR_NAME, "%s", address);
}

static void
doctor_probe_cards(struct doctor_facts *facts)
{
	DIR *directory = opendir("/sys/bus/pci/devices");
	struct dirent *entry;

	while (directory != NULL && (entry = readdir(directory)) != NULL)
		if (entry->d_name[0] != '.')
			doctor_probe_card(facts, entry->d_name);
	if (directory != NULL)
		closedir(directory);
	facts->has_vfio = access("/sys/bus/pci/drivers/vfio-pci", F_OK) == 0;
}

/* ---- programs ---- */

static const struct doctor_tool doctor_tools[DOCTOR_TOOLS] = {
	{ "ip", "iproute2", "tests against Linux, in network namespaces", false },
	{ "ethtool", "ethtool", "... with checksum offload switched off", false },
	{ "tshark", "tshark", "reads captures, in tests and for you", false },
	{ "valgrind", "valgrind", "counts instructions for ./run bench; ./run test --long", false },
	{ "perf", "linux-perf", "shows where time goes; optional", false },
	{ "dot", "graphviz", "xk draw", false },
	{ "python3", "python3", "tests and reports", false },
	{ "cppcheck", "cppcheck", "./run test", false },
	{ "clang-format", "clang-format", "./run test", false },
};

/* Searches PATH and the sbin directories, which users may not have in PATH. */
static bool
doctor_has_program(const char *name)
{
	const char *path = getenv("PATH");
	char all[DOCTOR_LINE], file[DOCTOR_LINE + DOCTOR_NAME], *rest = all, *directory;

	snprintf(all, sizeof(all), "%.3900s:/usr/sbin:/sbin", path == NULL ? "/usr/bin:/bin" : path);
	while ((directory = strsep(&rest, ":")) != NULL) {
		snprintf(file, sizeof(file), "%s/%s", directory, name);
		if (access(file, X_OK) == 0)
			return true;
	}
	return false;
}

/* ---- trying a link: icmptest's two hosts exchange messages over it ---- */

enum {
	DOCTOR_LIMIT_S = 15,
	DOCTOR_OUTPUT = 8192,
	DOCTOR_ARGUMENTS = 16,
	DOCTOR_PLACES = 4, /* directories that DPDK and the platform create for sockets */
	DOCTOR_PATH = 256,
};

/* graphs/icmptest.dot, independent of the working directory. */
static const char doctor_graph[] =
	"digraph doctor { icmptest -> icmp; icmp -> ip; ip -> vnet; vnet -> eth; vnet -> arp; "
	"arp -> eth; eth -> port; }\n";

/* Lists the directories that do not exist yet, inner ones first; "" represents an existing one. */
static void
doctor_list_missing(char places[DOCTOR_PLACES][DOCTOR_PATH])
{
	snprintf(places[0], DOCTOR_PATH, "/tmp/xk-%lu", (unsigned long)getuid());
	private_dpdk_directory(places[1], DOCTOR_PATH);
	private_dpdk_directory(places[2], DOCTOR_PATH);
	places[2][strlen(places[2]) - strlen("/rte")] = '\0';
	snprintf(places[3], DOCTOR_PATH, "/run/xk");
	for (unsigned i = 0; i < DOCTOR_PLACES; i++)
		if (access(places[i], F_OK) == 0)
			places[i][0] = '\0';
}

/* Extracts the reason from icmptest's first message, without its name and the advice. */
static void
doctor_read_reason(int output, bool was_killed, struct doctor_trial *trial)
{
	static const char name[] = "icmptest: ", advice[] = "; try icmptest";
	char text[DOCTOR_OUTPUT], *start, *end;
	ssize_t len = read(output, text, sizeof(text) - 1);

	text[len < 0 ? 0 : len] = '\0';
	start = strstr(text, name);
	if (start == NULL) {
		snprintf(trial->why, sizeof(trial->why), "%s", was_killed ? "it does not end" : "no messages return");
		return;
	}
	start += strlen(name);
	start[strcspn(start, "\n")] = '\0';
	end = strstr(start, advice);
	if (end != NULL)
		*end = '\0';
	snprintf(trial->why, sizeof(trial->why), "%.300s", start);
}

void
doctor_try(const char *link, enum xk_driver_policy driver, struct doctor_trial *trial)
{
	char places[DOCTOR_PLACES][DOCTOR_PATH];
	const ssize_t len = (ssize_t)strlen(doctor_graph);
	int graph = memfd_create("doctor.dot", 0), output[2];
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
	if (graph < 0 || write(graph, doctor_graph, (size_t)len) != len || pipe2(output, O_CLOEXEC | O_NONBLOCK) != 0) {
		snprintf(trial->why, sizeof(trial->why), "%s", xk_error(errno));
		return;
	}
	doctor_list_missing(places);
	fflush(NULL);
	pid = pair_fork();
	if (pid == 0) {
		dup2(output[1], STDOUT_FILENO);
		dup2(output[1], STDERR_FILENO);
		exit(icmptest_main(count, arguments));
	}
	if (pid > 0)
		trial->status = pair_reap(pid, DOCTOR_LIMIT_S * 1000);
	doctor_read_reason(output[0], trial->status == -1, trial);
	host_sweep("icmptest");
	for (unsigned i = 0; i < DOCTOR_PLACES; i++)
		if (places[i][0] != '\0')
			rmdir(places[i]); /* fails if another program uses it now */
	close(output[0]);
	close(output[1]);
	close(graph);
}

/* ---- all facts ---- */

void
doctor_probe(struct doctor_facts *facts)
{
	struct rlimit files;

	*facts = (struct doctor_facts){ .has_dpdk = false };
	for (unsigned i = 0; i < DOCTOR_ATTEMPTS; i++)
		facts->errors[i] = doctor_in_child(i);
	facts->is_root = geteuid() == 0;
	facts->has_net_admin = (doctor_read_number("/proc/self/status", "CapEff", 16) >> CAP_NET_ADMIN & 1) != 0;
	facts->files = getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 0;
	facts->maps = doctor_read_number("/proc/sys/vm/max_map_count", "", 10);
	facts->huge_total = doctor_read_number("/proc/meminfo", "HugePages_Total", 10);
	facts->huge_free = doctor_read_number("/proc/meminfo", "HugePages_Free", 10);
	doctor_probe_processor(facts);
	doctor_probe_cards(facts);
	for (unsigned i = 0; i < DOCTOR_TOOLS; i++) {
		facts->tools[i] = doctor_tools[i];
		facts->tools[i].present = doctor_has_program(doctor_tools[i].name);
	}
#ifdef XK_HAVE_DPDK
	facts->has_dpdk = true;
	snprintf(facts->dpdk, sizeof(facts->dpdk), "%s", xk_dpdk_version());
	facts->has_driver[DOCTOR_VIRTIO] = xk_dpdk_has_driver("net_vhost") && xk_dpdk_has_driver("net_virtio");
	facts->has_driver[DOCTOR_MEMIF] = xk_dpdk_has_driver("net_memif");
	facts->has_driver[DOCTOR_RING] = xk_dpdk_has_driver("net_ring");
	facts->has_driver[DOCTOR_TAP] = xk_dpdk_has_driver("net_tap");
	facts->has_driver[DOCTOR_AF_PACKET] = xk_dpdk_has_driver("net_af_packet");
	facts->has_driver[DOCTOR_AF_XDP] = xk_dpdk_has_driver("net_af_xdp");
	doctor_try("virtio", XK_DRIVER_INTERRUPT, &facts->trials[DOCTOR_VIRTIO]);
	doctor_try("memif", XK_DRIVER_POLL, &facts->trials[DOCTOR_MEMIF]);
	doctor_try("ring", XK_DRIVER_POLL, &facts->trials[DOCTOR_RING]);
	doctor_try("tap", XK_DRIVER_INTERRUPT, &facts->trials[DOCTOR_TAP]);
	doctor_try("af_packet", XK_DRIVER_INTERRUPT, &facts->trials[DOCTOR_AF_PACKET]);
	doctor_try("af_xdp", XK_DRIVER_INTERRUPT, &facts->trials[DOCTOR_AF_XDP]);
#endif
}
