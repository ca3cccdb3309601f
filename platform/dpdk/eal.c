/*
 * eal.c - starts DPDK's environment, once per process. DPDK's log is kept instead of printed, and quoted when something
 * fails. The state is global because DPDK's is.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_version.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"
#include "platform/pci_address.h"
#include "platform/private.h"

enum {
	DPDK_EAL_CLOCK_SPAN_NS = 80 * 1000 * 1000, /* DPDK takes longer to start */
	DPDK_EAL_MEMORY_MIN_MB = 64,
	DPDK_EAL_MEMORY_MAX_MB = 1 << 16,
	DPDK_EAL_OWN_MB = 16,         /* DPDK's memory for everything but buffers */
	DPDK_EAL_BUFFER_BYTES = 2688, /* an mbuf with its headers and alignment in a pool */
	DPDK_EAL_HUGEPAGE_MB = 2,
	DPDK_EAL_HUGEPAGE_LOG2 = 21,
	DPDK_EAL_ARGUMENTS = 16 + 2 * XK_DPDK_PCI,
	DPDK_LIMIT_AMPLE = 4096,
	DPDK_ERRNO = 1000,         /* DPDK's own error numbers start here */
	DPDK_EAL_DESCRIPTORS = 64, /* a port and its vhost device take about 20; DPDK does not report a shortage */
};

static struct {
	pthread_mutex_t lock;
	bool is_started, hugepages;
	unsigned memory_mb;
	char directory[PATH_MAX];  /* DPDK's run-time directory, to be removed at exit; "": it existed before */
	char pci[XK_DPDK_PCI][16]; /* devices that DPDK was started with */
	struct clock clock;
	pthread_mutex_t log_lock;
	bool log_verbose;
	char log[XK_DPDK_WHY / 2]; /* start of the log since the reset: the first messages state the cause */
	size_t log_len;
} dpdk_eal = { .lock = PTHREAD_MUTEX_INITIALIZER, .log_lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- DPDK's log ---- */

static ssize_t
dpdk_eal_log_write(void *cookie, const char *bytes, size_t len)
{
	(void)cookie;
	pthread_mutex_lock(&dpdk_eal.log_lock);
	for (size_t i = 0; i < len && dpdk_eal.log_len < sizeof(dpdk_eal.log) - 1; i++)
		dpdk_eal.log[dpdk_eal.log_len++] = bytes[i] == '\n' ? ' ' : bytes[i];
	pthread_mutex_unlock(&dpdk_eal.log_lock);
	if (dpdk_eal.log_verbose && write(STDERR_FILENO, bytes, len) < 0)
		return 0;
	return (ssize_t)len;
}

void
dpdk_eal_log_reset(void)
{
	pthread_mutex_lock(&dpdk_eal.log_lock);
	dpdk_eal.log_len = 0;
	pthread_mutex_unlock(&dpdk_eal.log_lock);
}

const char *
dpdk_eal_log_text(char *text, size_t size)
{
	size_t len;

	pthread_mutex_lock(&dpdk_eal.log_lock);
	len = dpdk_eal.log_len < size - 1 ? dpdk_eal.log_len : size - 1;
	memcpy(text, dpdk_eal.log, len);
	pthread_mutex_unlock(&dpdk_eal.log_lock);
	while (len > 0 && text[len - 1] == ' ')
		len--;
	text[len] = '\0';
	return len > 0 ? text : "DPDK gave no reason";
}

/* ---- reasons ---- */

/* Limits that make DPDK fail without naming them. */
static const struct {
	int resource;
	unsigned shift;
	const char *text;
} dpdk_limits[] = {
	{ RLIMIT_AS, 20, "MiB by `ulimit -v`" },
	{ RLIMIT_DATA, 20, "MiB by `ulimit -d`" },
	{ RLIMIT_NPROC, 0, "threads and processes by `ulimit -u`" },
};

void
dpdk_why(int error, const char *what, char *why, size_t size)
{
	char log[XK_DPDK_WHY / 2];
	struct rlimit limit;
	size_t len;

	/* DPDK's drivers return -1 for any error: it does not mean EPERM. */
	len = (size_t)snprintf(why, size, "%s (%s): %s", what,
			       error == -1           ? "DPDK's driver fails"
			       : -error < DPDK_ERRNO ? xk_error(error)
						     : rte_strerror(-error),
			       dpdk_eal_log_text(log, sizeof(log)));
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(dpdk_limits) && len < size; i++)
		if (getrlimit((__rlimit_resource_t)dpdk_limits[i].resource, &limit) == 0 &&
		    limit.rlim_cur >> dpdk_limits[i].shift < DPDK_LIMIT_AMPLE)
			len += (size_t)snprintf(why + len, size - len, "; limited to %lu %s",
						(unsigned long)(limit.rlim_cur >> dpdk_limits[i].shift),
						dpdk_limits[i].text);
}

/* ---- memory ---- */

static unsigned
dpdk_eal_memory_mb(const struct xk_dpdk_config *config)
{
	uint64_t buffers = config->buffers != 0 ? config->buffers : XK_DPDK_BUFFERS;
	uint64_t need = DPDK_EAL_OWN_MB + 2 * buffers * DPDK_EAL_BUFFER_BYTES / (1024 * 1024);

	if (config->memory_mb != 0)
		return config->memory_mb;
	return need < DPDK_EAL_MEMORY_MIN_MB ? DPDK_EAL_MEMORY_MIN_MB : (unsigned)need;
}

/* Returns true if memory_mb of huge pages are free: reserves them by mapping, and unmaps them. */
static bool
dpdk_eal_has_hugepages(unsigned memory_mb)
{
	size_t len = ((size_t)memory_mb + DPDK_EAL_HUGEPAGE_MB - 1) / DPDK_EAL_HUGEPAGE_MB * DPDK_EAL_HUGEPAGE_MB << 20;
	int fd = memfd_create("xk", MFD_CLOEXEC | MFD_HUGETLB | DPDK_EAL_HUGEPAGE_LOG2 << 26);
	void *p = MAP_FAILED;

	if (fd < 0)
		return false;
	if (ftruncate(fd, (off_t)len) == 0)
		p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		munmap(p, len);
	close(fd);
	return p != MAP_FAILED;
}

/* ---- starting ---- */

/* Writes the cores for DPDK's threads: the driver's, or all that this process may use: "0@(0,1)". */
static void
dpdk_eal_lcores(char *text, size_t size, const cpu_set_t *allowed, int core)
{
	size_t len = (size_t)snprintf(text, size, "0@(");
	const char *comma = "";

	for (int i = 0; i < CPU_SETSIZE && len < size - 8; i++)
		if (CPU_ISSET(i, allowed) && (core < 0 || core == i)) {
			len += (size_t)snprintf(text + len, size - len, "%s%d", comma, i);
			comma = ",";
		}
	snprintf(text + len, size - len, ")");
}

int
dpdk_eal_check_files(char *why, size_t size)
{
	struct rlimit descriptors;

	if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0 && descriptors.rlim_cur < DPDK_EAL_DESCRIPTORS) {
		snprintf(why, size, "this process may open %lu files and needs %d: see `ulimit -n`",
			 (unsigned long)descriptors.rlim_cur, DPDK_EAL_DESCRIPTORS);
		return -EMFILE;
	}
	return 0;
}

int
dpdk_eal_check_shared(char *why, size_t size)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_FSIZE, &files) != 0 || files.rlim_cur >> 20 >= dpdk_eal.memory_mb)
		return 0;
	snprintf(why, size,
		 "this process may write files of %lu KiB, but shared memory is a file of %u MiB: see `ulimit -f`",
		 (unsigned long)(files.rlim_cur >> 10), dpdk_eal.memory_mb);
	return -EFBIG;
}

/* Fails without the files that list the processors: DPDK would print all its options instead of a reason. */
static int
dpdk_eal_check_system(const cpu_set_t *allowed, char *why, size_t size)
{
	char path[64];
	int core = 0;

	while (core < CPU_SETSIZE - 1 && !CPU_ISSET(core, allowed))
		core++;
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/core_id", core);
	if (access(path, F_OK) == 0)
		return 0;
	snprintf(why, size, "%s is missing, where DPDK finds its cores: mount -t sysfs sysfs /sys", path);
	return -ENOENT;
}

static int
dpdk_eal_check(const struct xk_dpdk_config *config, const cpu_set_t *allowed, char *why, size_t size)
{
	if (config->core >= 0 && (config->core >= CPU_SETSIZE || !CPU_ISSET(config->core, allowed))) {
		snprintf(why, size, "core %d is not among those this process may run on: see `taskset -p $$`, `nproc`",
			 config->core);
		return -EINVAL;
	}
	if (config->buffers != 0 && (config->buffers < XK_DPDK_BUFFERS_MIN || config->buffers > XK_DPDK_BUFFERS_MAX)) {
		snprintf(why, size, "%u buffers: at least %d and at most %d", config->buffers, XK_DPDK_BUFFERS_MIN,
			 XK_DPDK_BUFFERS_MAX);
		return -EINVAL;
	}
	if (config->memory_mb > DPDK_EAL_MEMORY_MAX_MB) {
		snprintf(why, size, "%u MB of memory: at most %d", config->memory_mb, DPDK_EAL_MEMORY_MAX_MB);
		return -EINVAL;
	}
	return dpdk_eal_check_system(allowed, why, size);
}

/* Adds the configured PCI devices; DPDK probes no others. A second start must not add any. */
static int
dpdk_eal_take_pci(const struct xk_dpdk_config *config, char *why, size_t size)
{
	for (unsigned i = 0; i < XK_DPDK_PCI && config->pci[i] != NULL; i++) {
		char address[sizeof(dpdk_eal.pci[i])];
		unsigned known = 0;
		int error;

		if (!xk_pci_address(config->pci[i], address, sizeof(address))) {
			snprintf(why, size, "\"%.40s\" is not a PCI address like 0000:01:00.0", config->pci[i]);
			return -EINVAL;
		}
		error = dpdk_pci_check(address, why, size);
		if (error != 0)
			return error;
		while (known < XK_DPDK_PCI && dpdk_eal.pci[known][0] != '\0' &&
		       strcmp(dpdk_eal.pci[known], address) != 0)
			known++;
		if (known == XK_DPDK_PCI || (dpdk_eal.is_started && dpdk_eal.pci[known][0] == '\0')) {
			snprintf(why, size, "this process already started DPDK without %s", address);
			return -EINVAL;
		}
		strcpy(dpdk_eal.pci[known], address);
	}
	return 0;
}

/* ---- DPDK's telemetry: DPDK removes its socket at exit, but not its run-time directory ---- */

/* Removes the directory and its parent if they are empty. */
static void
dpdk_eal_remove_directory(void)
{
	char *slash = strrchr(dpdk_eal.directory, '/');

	if (slash == NULL || rmdir(dpdk_eal.directory) != 0)
		return;
	*slash = '\0';
	rmdir(dpdk_eal.directory);
}

static int
dpdk_eal_init(const char *lcores, unsigned memory_mb, bool hugepages, bool telemetry)
{
	const char *pci = dpdk_eal.pci[0][0] != '\0' ? NULL : "--no-pci";
	static char arguments[DPDK_EAL_ARGUMENTS][1024]; /* DPDK keeps pointers to them */
	char *argv[DPDK_EAL_ARGUMENTS + 1];
	char memory[16];
	int argc = 0;
	const char *given[] = { "xkernel",
				pci,
				telemetry ? "--telemetry" : "--no-telemetry",
				"--log-level=error",
				"-m",
				memory,
				"--lcores",
				lcores,
				hugepages ? "--in-memory" : "--no-huge",
				hugepages ? "--single-file-segments" : "--no-shconf" };

	snprintf(memory, sizeof(memory), "%u", memory_mb);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(given); i++) {
		if (given[i] == NULL)
			continue;
		snprintf(arguments[argc], sizeof(arguments[argc]), "%s", given[i]);
		argv[argc] = arguments[argc];
		argc++;
	}
	for (unsigned i = 0; i < XK_DPDK_PCI && dpdk_eal.pci[i][0] != '\0'; i++) {
		snprintf(arguments[argc], sizeof(arguments[argc]), "--allow=%s", dpdk_eal.pci[i]);
		argv[argc] = arguments[argc];
		argc++;
	}
	argv[argc] = NULL;
	return rte_eal_init(argc, argv) < 0 ? -rte_errno : 0;
}

/* Ignores the signal if its action is the default, which ends the process. */
static void
dpdk_ignore_signal(int number)
{
	struct sigaction action;

	if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
		signal(number, SIG_IGN);
}

static int
dpdk_eal_start_once(const struct xk_dpdk_config *config, const cpu_set_t *allowed, char *why, size_t size)
{
	struct clock_pair before;
	unsigned memory_mb = dpdk_eal_memory_mb(config);
	char lcores[1024], what[80];
	FILE *log;
	int error;

	dpdk_ignore_signal(SIGPIPE); /* DPDK writes to sockets whose peer may have died */
	clock_read(&before);
	dpdk_eal.memory_mb = memory_mb;
	dpdk_eal.hugepages = config->hugepages != XK_DPDK_HUGEPAGES_NEVER && dpdk_eal_has_hugepages(memory_mb);
	if ((config->hugepages == XK_DPDK_HUGEPAGES_ALWAYS || config->pci[0] != NULL) && !dpdk_eal.hugepages) {
		snprintf(why, size,
			 "%u MB of huge pages of 2 MB are not free: reserve them (as root: sysctl vm.nr_hugepages=%u) "
			 "or do without",
			 memory_mb, 2 * memory_mb / DPDK_EAL_HUGEPAGE_MB);
		return -ENOMEM;
	}
	dpdk_eal_lcores(lcores, sizeof(lcores), allowed, config->core);
	log = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = dpdk_eal_log_write });
	dpdk_eal.log_verbose = config->verbose;
	error = log == NULL ? -ENOMEM : rte_openlog_stream(log);
	if (config->telemetry) {
		/* Registered before DPDK starts, so that this exit handler runs after DPDK's. */
		private_dpdk_directory(dpdk_eal.directory, sizeof(dpdk_eal.directory));
		if (access(dpdk_eal.directory, F_OK) == 0 || atexit(dpdk_eal_remove_directory) != 0)
			dpdk_eal.directory[0] = '\0';
	}
	if (error == 0)
		error = dpdk_eal_init(lcores, memory_mb, dpdk_eal.hugepages, config->telemetry);
	if (error == 0)
		error = dpdk_buffer_register();
	if (error == 0) {
		clock_calibrate(&dpdk_eal.clock, &before, DPDK_EAL_CLOCK_SPAN_NS);
		return 0;
	}
	snprintf(what, sizeof(what), "DPDK does not start with %u MB %s huge pages", memory_mb,
		 dpdk_eal.hugepages ? "in" : "without");
	dpdk_why(error, what, why, size);
	return error;
}

int
dpdk_eal_start(const struct xk_dpdk_config *config, struct clock *clock, char *why, size_t size)
{
	cpu_set_t allowed;
	int error = 0;

	pthread_mutex_lock(&dpdk_eal.lock);
	CPU_ZERO(&allowed);
	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		CPU_SET(0, &allowed);
	error = dpdk_eal_check(config, &allowed, why, size);
	if (error == 0)
		error = dpdk_eal_take_pci(config, why, size);
	if (error == 0 && !dpdk_eal.is_started) {
		error = dpdk_eal_start_once(config, &allowed, why, size);
		/* DPDK has pinned this thread; threads started later must not inherit that. */
		sched_setaffinity(0, sizeof(allowed), &allowed);
		dpdk_eal.is_started = error == 0;
	}
	if (error == 0 && config->hugepages == XK_DPDK_HUGEPAGES_ALWAYS && !dpdk_eal.hugepages) {
		snprintf(why, size, "this process already started DPDK without huge pages");
		error = -EINVAL;
	}
	*clock = dpdk_eal.clock;
	pthread_mutex_unlock(&dpdk_eal.lock);
	return error;
}

/* ---- the installation ---- */

const char *
xk_dpdk_version(void)
{
	return rte_version();
}

bool
xk_dpdk_has_driver(const char *name)
{
	bool found = false;
	char prefix[80];
	struct dirent *entry;
	DIR *directory = opendir(RTE_EAL_PMD_PATH);

	if (directory == NULL)
		return true;
	snprintf(prefix, sizeof(prefix), "librte_%s.so", name);
	while (!found && (entry = readdir(directory)) != NULL)
		found = strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
	closedir(directory);
	return found;
}
