/* doctor_probe.c - the facts: what there is, and what works when it is tried; see doctor.h. */
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

#include "xkernel/base.h"
#ifdef XK_HAVE_DPDK
#include "platform/dpdk/dpdk.h"
#endif

#ifndef AF_XDP
#define AF_XDP 44
#endif

enum { DOCTOR_HUGE_SHIFT = 26, DOCTOR_HUGE_LOG2 = 21, DOCTOR_LINE = 4096 };

/* ---- reading what the system says ---- */

/* The first line of a file, without its end; false: there is none. */
static bool
doctor_read(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "re");
	bool good = file != NULL && fgets(text, (int)size, file) != NULL;

	if (file != NULL)
		fclose(file);
	if (good)
		text[strcspn(text, "\n")] = '\0';
	else
		text[0] = '\0';
	return good;
}

static uint64_t
doctor_read_number(const char *path)
{
	char text[DOCTOR_NAME];

	return doctor_read(path, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}

/* The line of a file that begins with key, from behind it; false: there is none. */
static bool
doctor_read_line(const char *path, const char *key, char *text, size_t size)
{
	FILE *file = fopen(path, "re");
	bool found = false;

	while (file != NULL && !found && fgets(text, (int)size, file) != NULL)
		found = strncmp(text, key, strlen(key)) == 0;
	if (file != NULL)
		fclose(file);
	if (found)
		memmove(text, text + strlen(key), strlen(text + strlen(key)) + 1);
	return found;
}

/* ---- what can be tried ---- */

/* What `try` returns, 0 or an error, when a child of its own runs it: whatever it makes goes with the child. */
static int
doctor_in_child(int (*try)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(try());
	if (pid < 0)
		return errno;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : ECANCELED;
}

static int
doctor_try_netns(void)
{
	return unshare(CLONE_NEWNET) == 0 ? 0 : errno;
}

static int
doctor_try_userns(void)
{
	return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 ? 0 : errno;
}

/* Whether a descriptor could be had. */
static int
doctor_had(int descriptor)
{
	if (descriptor < 0)
		return errno;
	close(descriptor);
	return 0;
}

static int
doctor_try_tun(void)
{
	return doctor_had(open("/dev/net/tun", O_RDWR | O_CLOEXEC));
}

/* A socket that is given no protocol receives nothing. */
static int
doctor_try_packet(void)
{
	return doctor_had(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
}

static int
doctor_try_xdp(void)
{
	return doctor_had(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
}

/* "return XDP_PASS", which is attached to nothing. */
static int
doctor_try_bpf(void)
{
	static const struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attributes = { .prog_type = BPF_PROG_TYPE_XDP };

	attributes.insns = (uintptr_t)pass;
	attributes.insn_cnt = XK_ARRAY_LENGTH(pass);
	attributes.license = (uintptr_t) "BSD";
	return doctor_had((int)syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof(attributes)));
}

static int
doctor_try_huge(void)
{
	int fd = memfd_create("doctor", MFD_CLOEXEC | MFD_HUGETLB | DOCTOR_HUGE_LOG2 << DOCTOR_HUGE_SHIFT);
	size_t size = (size_t)1 << DOCTOR_HUGE_LOG2;

	void *pages = MAP_FAILED;
	int error;

	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
		pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	error = pages == MAP_FAILED ? errno : 0;
	if (pages != MAP_FAILED)
		munmap(pages, size);
	if (fd >= 0)
		close(fd);
	return error;
}

static void
doctor_probe_kernel(struct doctor_facts *facts)
{
	facts->netns_error = doctor_in_child(doctor_try_netns);
	facts->userns_error = doctor_in_child(doctor_try_userns);
	facts->tun_error = doctor_in_child(doctor_try_tun);
	facts->packet_error = doctor_in_child(doctor_try_packet);
	facts->xdp_error = doctor_in_child(doctor_try_xdp);
	facts->bpf_error = doctor_in_child(doctor_try_bpf);
	facts->huge_error = doctor_in_child(doctor_try_huge);
}

/* ---- rights and limits ---- */

static void
doctor_probe_rights(struct doctor_facts *facts)
{
	char text[DOCTOR_LINE];
	uint64_t effective = 0;

	if (doctor_read_line("/proc/self/status", "CapEff:", text, sizeof(text)))
		effective = strtoull(text, NULL, 16);
	facts->is_root = geteuid() == 0;
	facts->rights.net_admin = (effective >> CAP_NET_ADMIN & 1) != 0;
	facts->rights.net_raw = (effective >> CAP_NET_RAW & 1) != 0;
	facts->rights.bpf = ((effective >> CAP_BPF | effective >> CAP_SYS_ADMIN) & 1) != 0;
}

static void
doctor_probe_limits(struct doctor_facts *facts)
{
	struct rlimit files;
	char text[DOCTOR_LINE];

	facts->files = getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : 0;
	facts->maps = doctor_read_number("/proc/sys/vm/max_map_count");
	if (doctor_read_line("/proc/meminfo", "HugePages_Total:", text, sizeof(text)))
		facts->huge_total = strtoull(text, NULL, 10);
	if (doctor_read_line("/proc/meminfo", "HugePages_Free:", text, sizeof(text)))
		facts->huge_free = strtoull(text, NULL, 10);
}

/* ---- processors ---- */

static void
doctor_probe_cores(struct doctor_facts *facts)
{
	char path[128], first[DOCTOR_NAME], second[DOCTOR_NAME];
	unsigned *const cores[] = { &facts->core_first, &facts->core_second };
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		CPU_SET(0, &set);
	for (unsigned i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set) && facts->cores++ < 2)
			*cores[facts->cores - 1] = i;
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", facts->core_first);
	doctor_read(path, first, sizeof(first));
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", facts->core_second);
	doctor_read(path, second, sizeof(second));
	facts->are_siblings = facts->cores > 1 && first[0] != '\0' && strcmp(first, second) == 0;
	doctor_read("/sys/devices/system/cpu/isolated", facts->isolated, sizeof(facts->isolated));
}

static void
doctor_probe_clock(struct doctor_facts *facts)
{
	char flags[DOCTOR_LINE];

	doctor_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", facts->clock,
		    sizeof(facts->clock));
	if (doctor_read_line("/proc/cpuinfo", "flags", flags, sizeof(flags)))
		facts->is_tsc_steady = strstr(flags, "constant_tsc") != NULL && strstr(flags, "nonstop_tsc") != NULL;
	facts->has_halt_poll = access("/sys/module/haltpoll/parameters/guest_halt_poll_ns", R_OK) == 0;
	facts->halt_poll_ns = doctor_read_number("/sys/module/haltpoll/parameters/guest_halt_poll_ns");
}

/* ---- network cards ---- */

static bool
doctor_is_for_dpdk(const char *driver)
{
	return strcmp(driver, "vfio-pci") == 0 || strcmp(driver, "uio_pci_generic") == 0 ||
	       strcmp(driver, "igb_uio") == 0;
}

/* Class 02 is network. */
static void
doctor_probe_card(struct doctor_facts *facts, const char *address)
{
	char path[512], class[DOCTOR_NAME], driver[512], *name;
	ssize_t len;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.64s/class", address);
	if (!doctor_read(path, class, sizeof(class)) || strncmp(class, "0x02", 4) != 0)
		return;
	facts->cards++;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.64s/driver", address);
	len = readlink(path, driver, sizeof(driver) - 1);
	driver[len < 0 ? 0 : len] = '\0';
	name = strrchr(driver, '/');
	name = doctor_is_for_dpdk(name == NULL ? "" : name + 1) ? facts->bound : facts->card;
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
	{ "ethtool", "ethtool", "... in which no interface computes checksums for us", false },
	{ "tshark", "tshark", "tests read captures with it, and people", false },
	{ "valgrind", "valgrind", "./run bench counts instructions with it; ./run test --long", false },
	{ "perf", "linux-perf", "where time goes; nothing here needs it", false },
	{ "dot", "graphviz", "xk draw", false },
	{ "python3", "python3", "tests and reports", false },
	{ "cppcheck", "cppcheck", "./run test", false },
	{ "clang-format", "clang-format", "./run test", false },
};

/* Administrators' programs count as well for those who have not got their directories on the path. */
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

static void
doctor_probe_tools(struct doctor_facts *facts)
{
	for (unsigned i = 0; i < DOCTOR_TOOLS; i++) {
		facts->tools[i] = doctor_tools[i];
		facts->tools[i].present = doctor_has_program(doctor_tools[i].name);
	}
}

/* ---- DPDK ---- */

#ifdef XK_HAVE_DPDK

static void
doctor_probe_dpdk(struct doctor_facts *facts)
{
	facts->has_dpdk = true;
	snprintf(facts->dpdk, sizeof(facts->dpdk), "%s", xk_dpdk_version());
	facts->has_vhost = xk_dpdk_has_driver("net_vhost");
	facts->has_virtio = xk_dpdk_has_driver("net_virtio");
	facts->has_memif = xk_dpdk_has_driver("net_memif");
	facts->has_ring = xk_dpdk_has_driver("net_ring");
	facts->has_tap = xk_dpdk_has_driver("net_tap");
	facts->has_af_packet = xk_dpdk_has_driver("net_af_packet");
	facts->has_af_xdp = xk_dpdk_has_driver("net_af_xdp");
	doctor_try("virtio", XK_DRIVER_INTERRUPT, &facts->virtio);
	doctor_try("memif", XK_DRIVER_POLL, &facts->memif);
	doctor_try("tap", XK_DRIVER_INTERRUPT, &facts->tap);
	doctor_try("af_packet", XK_DRIVER_INTERRUPT, &facts->af_packet);
	doctor_try("af_xdp", XK_DRIVER_INTERRUPT, &facts->af_xdp);
}

#else

static void
doctor_probe_dpdk(struct doctor_facts *facts)
{
	facts->has_dpdk = false;
}

#endif

void
doctor_probe(struct doctor_facts *facts)
{
	*facts = (struct doctor_facts){ .has_dpdk = false };
	doctor_probe_rights(facts);
	doctor_probe_kernel(facts);
	doctor_probe_limits(facts);
	doctor_probe_cores(facts);
	doctor_probe_clock(facts);
	doctor_probe_cards(facts);
	doctor_probe_tools(facts);
	doctor_probe_dpdk(facts);
}
