/* doctor.c - what the facts mean, and what to do about them; see doctor.h. */
#include "tools/doctor/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "xkernel/base.h"

enum {
	DOCTOR_FILES = 64,        /* DPDK and one port take less */
	DOCTOR_MAPS = 65530,      /* the system's own default */
	DOCTOR_MAPS_STACK = 2,    /* a stack and its guard page */
	DOCTOR_HUGE_USEFUL = 64,  /* pages: two processes */
	DOCTOR_HALT_POLL = 50000, /* ns */
};

static struct doctor_finding *
doctor_add(struct doctor_report *report, enum doctor_group group, const char *name)
{
	struct doctor_finding *finding = &report->findings[report->count++];

	xk_assert(report->count <= DOCTOR_FINDINGS);
	*finding = (struct doctor_finding){ .group = group, .name = name };
	return finding;
}

__attribute__((format(printf, 3, 4))) static void
doctor_say(struct doctor_finding *finding, enum doctor_state state, const char *format, ...)
{
	va_list arguments;

	finding->state = state;
	va_start(arguments, format);
	vsnprintf(finding->text, sizeof(finding->text), format, arguments);
	va_end(arguments);
}

__attribute__((format(printf, 2, 3))) static void
doctor_advise(struct doctor_finding *finding, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(finding->command, sizeof(finding->command), format, arguments);
	va_end(arguments);
}

static const char *
doctor_sudo(const struct doctor_facts *facts)
{
	return facts->is_root ? "" : "sudo ";
}

/* ---- links ---- */

static struct doctor_finding *
doctor_link(struct doctor_report *report, const char *name, bool sleeps)
{
	struct doctor_finding *finding = doctor_add(report, DOCTOR_LINK, name);

	finding->sleeps = sleeps;
	return finding;
}

/* What every link of DPDK needs. False: the finding says what is missing. */
static bool
doctor_has_driver(const struct doctor_facts *facts, struct doctor_finding *finding, bool has_driver,
		  const char *package)
{
	if (!facts->has_dpdk) {
		doctor_say(finding, DOCTOR_MISSING, "this build is without DPDK");
		doctor_advise(finding,
			      "%sapt-get install --no-install-recommends libdpdk-dev libevent-dev; ./run build",
			      doctor_sudo(facts));
		return false;
	}
	if (!has_driver) {
		doctor_say(finding, DOCTOR_MISSING, "DPDK's driver for it is not installed");
		doctor_advise(finding, "%sapt-get install %s", doctor_sudo(facts), package);
	}
	return has_driver;
}

static void
doctor_trial_tell(struct doctor_finding *finding, const struct doctor_trial *trial, const char *good)
{
	if (trial->status == 0)
		doctor_say(finding, DOCTOR_GOOD, "%s; tried, between two processes", good);
	else
		doctor_say(finding, DOCTOR_MISSING, "tried, and failed: %.250s", trial->why);
}

static void
doctor_judge_virtio(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding = doctor_link(report, "virtio", true);

	if (!doctor_has_driver(facts, finding, facts->has_vhost && facts->has_virtio,
			       "librte-net-vhost23 librte-net-virtio23"))
		return;
	doctor_trial_tell(finding, &facts->virtio, "two processes over shared memory; needs nothing");
	if (finding->state != DOCTOR_MISSING)
		report->works = true;
	else if (facts->files < DOCTOR_FILES)
		doctor_advise(finding, "ulimit -n 1024");
}

static void
doctor_judge_memif(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding = doctor_link(report, "memif", false);

	if (doctor_has_driver(facts, finding, facts->has_memif, "librte-net-memif23"))
		doctor_trial_tell(finding, &facts->memif, "two processes over shared memory, other programs too");
}

static void
doctor_judge_ring(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding = doctor_link(report, "ring", false);

	if (doctor_has_driver(facts, finding, facts->has_ring, "librte-net-ring23"))
		doctor_say(finding, DOCTOR_GOOD, "two hosts in one process; needs nothing");
}

/* A capability is missing: how this process, or its container, gets it. */
static void
doctor_deny(const struct doctor_facts *facts, struct doctor_finding *finding, const char *capabilities,
	    const char *what)
{
	doctor_say(finding, DOCTOR_MISSING, "%s needs %s, which this process lacks", what, capabilities);
	if (facts->is_root)
		doctor_advise(finding, "root without it is in a container: start that with --cap-add for each");
	else
		doctor_advise(finding, "sudo setcap %s+ep PROGRAM, or sudo PROGRAM (build/xk, build/udptest, ...)",
			      capabilities);
}

/*
 * A link whose ports are network interfaces: a pair makes a network of its own, for which a user namespace may do; a lone
 * host needs rights on the interfaces that are there.
 */
static void
doctor_judge_interface(const struct doctor_facts *facts, struct doctor_finding *finding,
		       const struct doctor_trial *trial, const char *what, bool has_rights, const char *capabilities)
{
	if (trial->status != 0 && !has_rights) {
		doctor_deny(facts, finding, capabilities, what);
	} else if (trial->status != 0) {
		doctor_trial_tell(finding, trial, what);
	} else if (!has_rights) {
		doctor_deny(facts, finding, capabilities, what);
		doctor_say(finding, DOCTOR_COULD_BE_BETTER,
			   "%s; only between two hosts in a network of their own (tried): others need %s", what,
			   capabilities);
	} else {
		doctor_say(finding, DOCTOR_GOOD, "%s; tried, in a network of its own", what);
	}
}

static void
doctor_judge_tap(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding = doctor_link(report, "tap", true);

	if (!doctor_has_driver(facts, finding, facts->has_tap, "librte-net-tap23"))
		return;
	if (facts->tun_error == 0) {
		doctor_judge_interface(facts, finding, &facts->tap, "an interface of its own; the kernel is the peer",
				       facts->rights.net_admin, "cap_net_admin");
		return;
	}
	doctor_say(finding, DOCTOR_MISSING, "/dev/net/tun cannot be opened: %s", strerror(facts->tun_error));
	if (facts->tun_error == EACCES)
		doctor_advise(finding, "sudo chmod 666 /dev/net/tun");
	else
		doctor_advise(finding, "%smodprobe tun; in a container without the file: mknod /dev/net/tun c 10 200",
			      doctor_sudo(facts));
}

static void
doctor_judge_af_packet(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding = doctor_link(report, "af_packet", true);

	if (!doctor_has_driver(facts, finding, facts->has_af_packet, "librte-net-af-packet23"))
		return;
	if (facts->packet_error == EAFNOSUPPORT) {
		doctor_say(finding, DOCTOR_MISSING, "this kernel has no packet sockets");
		doctor_advise(finding, "%smodprobe af_packet", doctor_sudo(facts));
		return;
	}
	doctor_judge_interface(facts, finding, &facts->af_packet, "any interface of the kernel's, by a packet socket",
			       facts->packet_error == 0, "cap_net_raw");
}

static void
doctor_judge_af_xdp(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding = doctor_link(report, "af_xdp", true);
	bool has_rights = facts->xdp_error == 0 && facts->bpf_error == 0 && facts->rights.net_admin;

	if (!doctor_has_driver(facts, finding, facts->has_af_xdp, "librte-net-af-xdp23"))
		return;
	if (facts->xdp_error == EAFNOSUPPORT)
		doctor_say(finding, DOCTOR_MISSING, "this kernel is built without CONFIG_XDP_SOCKETS");
	else
		doctor_judge_interface(facts, finding, &facts->af_xdp,
				       "any interface of the kernel's, by an XDP socket", has_rights,
				       "cap_net_admin,cap_net_raw,cap_bpf");
}

static void
doctor_judge_card(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding = doctor_link(report, "PCI address", true);

	if (!doctor_has_driver(facts, finding, true, ""))
		return;
	if (facts->bound[0] != '\0') {
		doctor_say(finding, DOCTOR_GOOD, "--link %s; not tried. Huge pages are advisable", facts->bound);
	} else if (facts->card[0] != '\0') {
		doctor_say(finding, DOCTOR_MISSING, "the network card %s belongs to the kernel%s", facts->card,
			   facts->has_vfio ? "" : ", which has no vfio-pci loaded");
		doctor_advise(finding,
			      "%smodprobe vfio-pci && %sdpdk-devbind.py --bind=vfio-pci %s (it leaves the kernel!)",
			      doctor_sudo(facts), doctor_sudo(facts), facts->card);
	} else {
		doctor_say(finding, DOCTOR_MISSING, "there is no PCI network card");
	}
}

static void
doctor_judge_links(const struct doctor_facts *facts, struct doctor_report *report)
{
	doctor_judge_virtio(facts, report);
	doctor_judge_memif(facts, report);
	doctor_judge_ring(facts, report);
	doctor_judge_tap(facts, report);
	doctor_judge_af_packet(facts, report);
	doctor_judge_af_xdp(facts, report);
	doctor_judge_card(facts, report);
	doctor_say(doctor_link(report, "memory", true), DOCTOR_GOOD, "two hosts in one process, without DPDK");
	doctor_say(doctor_link(report, "sim", true), DOCTOR_GOOD, "simulated hosts on virtual time");
}

/* ---- the machine ---- */

static void
doctor_judge_cores(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding = doctor_add(report, DOCTOR_MACHINE, "cores");

	if (facts->cores < 2)
		doctor_say(finding, DOCTOR_COULD_BE_BETTER, "one: both ends of a measurement share it");
	else
		doctor_say(finding, DOCTOR_GOOD, "%u; %u and %u are %s%s%s", facts->cores, facts->core_first,
			   facts->core_second,
			   facts->are_siblings ? "hardware threads of one core" : "cores of their own",
			   facts->isolated[0] != '\0' ? "; isolated: " : "; none is isolated", facts->isolated);
}

static void
doctor_judge_clock(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding = doctor_add(report, DOCTOR_MACHINE, "clock");

	if (facts->is_tsc_steady && strcmp(facts->clock, "tsc") == 0)
		doctor_say(finding, DOCTOR_GOOD, "tsc, at a steady rate");
	else
		doctor_say(finding, DOCTOR_COULD_BE_BETTER,
			   "the system's is %s, the processor's counter is %s: "
			   "reading it may be slow, and times less exact",
			   facts->clock, facts->is_tsc_steady ? "steady" : "not known to be steady");
}

/* Only virtual machines have it. */
static void
doctor_judge_idle(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding;

	if (!facts->has_halt_poll)
		return;
	finding = doctor_add(report, DOCTOR_MACHINE, "idle cores");
	if (facts->halt_poll_ns != 0) {
		doctor_say(finding, DOCTOR_GOOD, "poll for %" PRIu64 " us before they halt",
			   facts->halt_poll_ns / 1000);
		return;
	}
	doctor_say(finding, DOCTOR_COULD_BE_BETTER,
		   "halt at once (a virtual machine): waking one takes some 20 us in round trips across cores");
	doctor_advise(finding, "optional, as root: echo %d > /sys/module/haltpoll/parameters/guest_halt_poll_ns",
		      DOCTOR_HALT_POLL);
}

static void
doctor_judge_memory(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding = doctor_add(report, DOCTOR_MACHINE, "huge pages");

	if (facts->huge_error == 0 && facts->huge_free >= DOCTOR_HUGE_USEFUL)
		doctor_say(finding, DOCTOR_GOOD, "%" PRIu64 " of %" PRIu64 " are free", facts->huge_free,
			   facts->huge_total);
	else
		doctor_say(finding, DOCTOR_COULD_BE_BETTER,
			   "%" PRIu64 " of %" PRIu64 " are free: ordinary memory does as well, but for network cards",
			   facts->huge_free, facts->huge_total);
	if (finding->state != DOCTOR_GOOD)
		doctor_advise(finding, "optional, as root: echo %d > /proc/sys/vm/nr_hugepages", DOCTOR_HUGE_USEFUL);
	finding = doctor_add(report, DOCTOR_MACHINE, "open files");
	doctor_say(finding, DOCTOR_GOOD, "a process may have %" PRIu64, facts->files);
	if (facts->files < DOCTOR_FILES) {
		doctor_say(finding, DOCTOR_MISSING, "a process may have %" PRIu64 ", and DPDK takes up to %d",
			   facts->files, DOCTOR_FILES);
		doctor_advise(finding, "ulimit -n 1024");
	}
	finding = doctor_add(report, DOCTOR_MACHINE, "mappings");
	doctor_say(finding, facts->maps < DOCTOR_MAPS ? DOCTOR_COULD_BE_BETTER : DOCTOR_GOOD,
		   "vm.max_map_count is %" PRIu64 ": room for some %" PRIu64 " stacks in a large simulation",
		   facts->maps, facts->maps / DOCTOR_MAPS_STACK);
	if (finding->state != DOCTOR_GOOD)
		doctor_advise(finding, "for large simulations, as root: sysctl -w vm.max_map_count=%d", DOCTOR_MAPS);
}

static void
doctor_judge_namespaces(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding = doctor_add(report, DOCTOR_MACHINE, "namespaces");

	if (facts->netns_error == 0)
		doctor_say(finding, DOCTOR_GOOD, "a network namespace can be made");
	else if (facts->userns_error == 0)
		doctor_say(finding, DOCTOR_GOOD, "a network namespace can be made, within a user namespace");
	else
		doctor_say(finding, DOCTOR_MISSING,
			   "no network namespace can be made (%s), and none in a user namespace "
			   "(%s): tests against Linux are skipped",
			   strerror(facts->netns_error), strerror(facts->userns_error));
}

static void
doctor_judge_machine(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding = doctor_add(report, DOCTOR_MACHINE, "DPDK");

	doctor_say(finding, facts->has_dpdk ? DOCTOR_GOOD : DOCTOR_MISSING, "%s",
		   facts->has_dpdk ? facts->dpdk : "not in this build: hosts are simulated, or in one process");
	doctor_judge_cores(facts, report);
	doctor_judge_clock(facts, report);
	doctor_judge_idle(facts, report);
	doctor_judge_memory(facts, report);
	doctor_judge_namespaces(facts, report);
}

/* ---- tools ---- */

static void
doctor_judge_tools(const struct doctor_facts *facts, struct doctor_report *report)
{
	for (unsigned i = 0; i < DOCTOR_TOOLS && facts->tools[i].name != NULL; i++) {
		const struct doctor_tool *tool = &facts->tools[i];
		struct doctor_finding *finding = doctor_add(report, DOCTOR_TOOL, tool->name);

		doctor_say(finding, tool->present ? DOCTOR_GOOD : DOCTOR_MISSING, "%s", tool->use);
		if (!tool->present)
			doctor_advise(finding, "%sapt-get install %s", doctor_sudo(facts), tool->package);
	}
}

void
doctor_judge(const struct doctor_facts *facts, struct doctor_report *report)
{
	*report = (struct doctor_report){ .count = 0 };
	doctor_judge_links(facts, report);
	doctor_judge_machine(facts, report);
	doctor_judge_tools(facts, report);
}
