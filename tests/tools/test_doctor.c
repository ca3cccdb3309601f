/* test_doctor.c - conclusions from made-up facts about a machine, and trials that report failures. */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

#include "tests/test.h"
#include "tools/doctor/doctor.h"
#include "tools/host/host.h"

static struct doctor_facts facts;
static struct doctor_report report;

/* A machine on which everything works. */
static void
everything(void)
{
	facts = (struct doctor_facts){
		.has_dpdk = true,
		.dpdk = "DPDK 22.11.11",
		.has_driver = { true, true, true, true, true, true },
		.is_root = true,
		.has_net_admin = true,
		.bound = "0000:01:00.0",
		.has_vfio = true,
		.cores = 4,
		.core_second = 1,
		.clock = "tsc",
		.is_tsc_steady = true,
		.has_halt_poll = true,
		.halt_poll_ns = 50000,
		.huge_total = 128,
		.huge_free = 128,
		.files = 1024,
		.maps = 65530,
		.tools = { { "ip", "iproute2", "tests", true }, { "perf", "linux-perf", "people", true } },
	};
}

/* The same without root's rights. */
static void
unprivileged(void)
{
	everything();
	facts.is_root = facts.has_net_admin = false;
	facts.errors[DOCTOR_TRY_NETNS] = EPERM;
	facts.errors[DOCTOR_TRY_PACKET] = facts.errors[DOCTOR_TRY_XDP] = facts.errors[DOCTOR_TRY_BPF] = EPERM;
}

static const struct doctor_finding *
find(const char *name)
{
	doctor_assess(&facts, &report);
	for (unsigned i = 0; i < report.count; i++)
		if (strcmp(report.findings[i].name, name) == 0)
			return &report.findings[i];
	return NULL;
}

/* Checks that the finding of this name has this state, and that its text and command contain these. */
static void
is(const char *name, enum doctor_state state, const char *text, const char *command)
{
	const struct doctor_finding *finding = find(name);

	REQUIRE(finding != NULL);
	CHECK_EQ(finding->state, state);
	if (strstr(finding->text, text) == NULL || strstr(finding->command, command) == NULL)
		fprintf(stderr, "\n%s: \"%s\", \"%s\"\n", name, finding->text, finding->command);
	CHECK_HAS(finding->text, text);
	CHECK_HAS(finding->command, command);
	CHECK(command[0] != '\0' || finding->command[0] == '\0');
}

TEST(working_machine_needs_nothing)
{
	everything();
	doctor_assess(&facts, &report);
	CHECK(report.works);
	CHECK(report.count >= 9 + 7 + 2);
	for (unsigned i = 0; i < report.count; i++) {
		CHECK_EQ(report.findings[i].state, DOCTOR_GOOD);
		CHECK(report.findings[i].text[0] != '\0');
		CHECK_EQ(report.findings[i].command[0], '\0');
	}
}

TEST(verdict_depends_on_virtio)
{
	everything();
	facts.trials[DOCTOR_VIRTIO] = (struct doctor_trial){ 1, "server: no directory for sockets" };
	is("virtio", DOCTOR_MISSING, "no directory for sockets", "");
	CHECK(!report.works);
	facts.files = 40;
	is("virtio", DOCTOR_MISSING, "no directory for sockets", "ulimit -n 1024");
	everything();
	for (enum doctor_link link = DOCTOR_MEMIF; link < DOCTOR_LINKS; link++)
		facts.trials[link] = (struct doctor_trial){ 1, "no" };
	is("memif", DOCTOR_MISSING, "no", "");
	CHECK(report.works);
}

TEST(without_dpdk_one_process_hosts_remain)
{
	facts = (struct doctor_facts){ .is_root = false };
	is("virtio", DOCTOR_MISSING, "no DPDK", "sudo apt-get install --no-install-recommends libdpdk-dev");
	CHECK(!report.works);
	is("ring", DOCTOR_MISSING, "no DPDK", "apt-get");
	is("memory", DOCTOR_GOOD, "without DPDK", "");
	is("sim", DOCTOR_GOOD, "virtual time", "");
}

TEST(missing_driver_is_named_with_its_package)
{
	everything();
	for (enum doctor_link link = 0; link < DOCTOR_LINKS; link++)
		facts.has_driver[link] = false;
	is("virtio", DOCTOR_MISSING, "driver", "apt-get install librte-net-vhost23");
	CHECK(!report.works);
	is("memif", DOCTOR_MISSING, "driver", "librte-net-memif23");
	is("tap", DOCTOR_MISSING, "driver", "librte-net-tap23");
	is("af_packet", DOCTOR_MISSING, "driver", "librte-net-af-packet23");
	is("af_xdp", DOCTOR_MISSING, "driver", "librte-net-af-xdp23");
}

TEST(missing_rights_are_named)
{
	unprivileged();
	for (enum doctor_link link = DOCTOR_TAP; link < DOCTOR_LINKS; link++)
		facts.trials[link] = (struct doctor_trial){ 1, "not permitted" };
	is("tap", DOCTOR_MISSING, "cap_net_admin", "sudo setcap cap_net_admin+ep");
	is("af_packet", DOCTOR_MISSING, "cap_net_raw", "sudo setcap cap_net_raw+ep");
	is("af_xdp", DOCTOR_MISSING, "cap_bpf", "sudo setcap cap_net_admin,cap_net_raw,cap_bpf+ep");
	is("virtio", DOCTOR_GOOD, "needs nothing", "");
	facts.is_root = true;
	is("tap", DOCTOR_MISSING, "cap_net_admin", "--cap-add");
}

TEST(user_namespace_suffices_for_a_pair_only)
{
	unprivileged();
	is("tap", DOCTOR_IMPROVABLE, "their own network", "sudo setcap cap_net_admin+ep");
	is("af_packet", DOCTOR_IMPROVABLE, "their own network", "cap_net_raw");
	is("af_xdp", DOCTOR_IMPROVABLE, "their own network", "cap_bpf");
	is("namespaces", DOCTOR_GOOD, "within a user namespace", "");
}

TEST(missing_kernel_features_are_reported)
{
	everything();
	facts.errors[DOCTOR_TRY_TUN] = ENOENT;
	is("tap", DOCTOR_MISSING, "/dev/net/tun", "modprobe tun");
	facts.errors[DOCTOR_TRY_TUN] = EACCES;
	is("tap", DOCTOR_MISSING, "/dev/net/tun", "chmod");
	facts.errors[DOCTOR_TRY_PACKET] = facts.errors[DOCTOR_TRY_XDP] = EAFNOSUPPORT;
	is("af_packet", DOCTOR_MISSING, "packet sockets", "modprobe af_packet");
	is("af_xdp", DOCTOR_MISSING, "CONFIG_XDP_SOCKETS", "");
	facts.errors[DOCTOR_TRY_NETNS] = EPERM;
	facts.errors[DOCTOR_TRY_USERNS] = ENOSPC;
	is("namespaces", DOCTOR_MISSING, strerror(ENOSPC), "");
}

TEST(network_cards_are_found_and_left_alone)
{
	everything();
	is("PCI address", DOCTOR_GOOD, "--link 0000:01:00.0", "");
	facts.bound[0] = '\0';
	snprintf(facts.card, sizeof(facts.card), "0000:02:00.0");
	is("PCI address", DOCTOR_MISSING, "0000:02:00.0 belongs to the kernel",
	   "modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci 0000:02:00.0");
	facts.card[0] = '\0';
	is("PCI address", DOCTOR_MISSING, "no PCI network card", "");
}

TEST(sources_of_noise_are_reported)
{
	everything();
	facts.cores = 1;
	is("cores", DOCTOR_IMPROVABLE, "one", "");
	facts.cores = 2;
	facts.are_siblings = true;
	is("cores", DOCTOR_GOOD, "hardware threads of one core", "");
	facts.is_tsc_steady = false;
	is("clock", DOCTOR_IMPROVABLE, "not known to be steady", "");
	facts.halt_poll_ns = 0;
	is("idle cores", DOCTOR_IMPROVABLE, "20 us", "guest_halt_poll_ns");
	facts.has_halt_poll = false;
	CHECK(find("idle cores") == NULL);
	facts.huge_free = 3;
	is("huge pages", DOCTOR_IMPROVABLE, "3 of 128", "optional, as root: echo 64 > /proc/sys/vm/nr_hugepages");
	facts.files = 63;
	is("open files", DOCTOR_MISSING, "63", "ulimit -n");
	facts.maps = 1000;
	is("mappings", DOCTOR_IMPROVABLE, "500 stacks", "sysctl -w vm.max_map_count=");
	CHECK(report.works);
}

TEST(programs_come_with_their_packages)
{
	everything();
	facts.tools[1].present = false;
	is("ip", DOCTOR_GOOD, "tests", "");
	is("perf", DOCTOR_MISSING, "people", "apt-get install linux-perf");
	facts.is_root = false;
	is("perf", DOCTOR_MISSING, "people", "sudo apt-get install linux-perf");
}

/* The report agrees with the links themselves. */
TEST(reported_sleep_matches_the_links)
{
	static const struct options_program program = { .name = "test" };
	const struct host_link *link;

	everything();
	doctor_assess(&facts, &report);
	for (unsigned i = 0; i < report.count; i++) {
		const char *name = report.findings[i].name;

		if (report.findings[i].group != DOCTOR_LINK)
			continue;
		if (strcmp(name, "PCI address") == 0)
			name = facts.bound;
		if (host_link_find(&program, name, -1, &link) == 0)
			CHECK_EQ(report.findings[i].sleeps, link->can_sleep);
	}
}

TEST(failed_trial_reports_the_reason)
{
	struct doctor_trial trial;

	doctor_try("carrier-pigeon", XK_DRIVER_POLL, &trial);
	CHECK(trial.status != 0);
	CHECK(strstr(trial.why, "--link carrier-pigeon is not available") == trial.why);
	CHECK(strstr(trial.why, "--help") == NULL);
}

/* The trial must succeed: if DPDK does not work here, DPDK's tests fail as well. */
TEST(a_trial_leaves_nothing_behind)
{
	char directory[] = "/tmp/test_doctor-XXXXXX";
	struct doctor_trial trial;

	REQUIRE(mkdtemp(directory) != NULL);
	setenv("XDG_RUNTIME_DIR", directory, 1);
	doctor_try("virtio", XK_DRIVER_INTERRUPT, &trial);
	CHECK_EQ(rmdir(directory), 0);
#ifdef XK_HAVE_DPDK
	CHECK_EQ(trial.status, 0);
#else
	CHECK(trial.status != 0);
#endif
}
