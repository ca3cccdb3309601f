/* doctor.c - draws conclusions from the facts, and gives advice; see doctor.h. */
#include "tools/doctor/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "xkernel/base.h"

enum {
	DOCTOR_FILES = 64,        /* more than DPDK and one port take */
	DOCTOR_MAPS = 65530,      /* the system's default */
	DOCTOR_MAPS_STACK = 2,    /* a stack and its guard page */
	DOCTOR_HUGE_USEFUL = 64,  /* pages for two processes */
	DOCTOR_HALT_POLL = 50000, /* ns */
};

/* Adds a finding without a command. */
__attribute__((format(printf, 5, 6))) static struct doctor_finding *
doctor_find(struct doctor_report *report, enum doctor_group group, const char *name, enum doctor_state state,
	    const char *format, ...)
{
	struct doctor_finding *finding = &report->findings[report->count++];
	va_list arguments;

	xk_assert(report->count <= DOCTOR_FINDINGS);
	*finding = (struct doctor_finding){ .group = group, .name = name, .state = state, .sleeps = true };
	va_start(arguments, format);
	vsnprintf(finding->text, sizeof(finding->text), format, arguments);
	va_end(arguments);
	return finding;
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

/* capabilities: for a host on its own; a pair creates its own network, in a user namespace if needed. */
static const struct doctor_kind {
	const char *name, *text, *tried, *package, *capabilities;
} doctor_kinds[DOCTOR_LINKS] = {
	[DOCTOR_VIRTIO] = { "virtio", "two processes over shared memory; needs nothing",
			    "; tried, between two processes", "librte-net-vhost23 librte-net-virtio23", NULL },
	[DOCTOR_MEMIF] = { "memif", "two processes over shared memory, other programs too",
			   "; tried, between two processes", "librte-net-memif23", NULL },
	[DOCTOR_RING] = { "ring", "two hosts in one process; needs nothing", "; tried", "librte-net-ring23", NULL },
	[DOCTOR_TAP] = { "tap", "an interface of its own; the kernel is the peer", "; tried, in its own network",
			 "librte-net-tap23", "cap_net_admin" },
	[DOCTOR_AF_PACKET] = { "af_packet", "any interface of the kernel, by a packet socket",
			       "; tried, in its own network", "librte-net-af-packet23", "cap_net_raw" },
	[DOCTOR_AF_XDP] = { "af_xdp", "any interface of the kernel, by an XDP socket", "; tried, in its own network",
			    "librte-net-af-xdp23", "cap_net_admin,cap_net_raw,cap_bpf" },
};

/* Reports missing capabilities, and how the process or its container gets them. */
static void
doctor_assess_rights(const struct doctor_facts *facts, struct doctor_report *report, const struct doctor_kind *kind,
		     bool pair_works)
{
	struct doctor_finding *finding =
		pair_works ? doctor_find(report, DOCTOR_LINK, kind->name, DOCTOR_IMPROVABLE,
					 "%s; only between two hosts in their own network (tried): others need %s",
					 kind->text, kind->capabilities)
			   : doctor_find(report, DOCTOR_LINK, kind->name, DOCTOR_MISSING,
					 "%s needs %s, which this process lacks", kind->text, kind->capabilities);

	if (facts->is_root)
		doctor_advise(finding, "root lacks it in a container: start the container with --cap-add for each");
	else
		doctor_advise(finding, "sudo setcap %s+ep PROGRAM, or sudo PROGRAM (build/xk, build/udptest, ...)",
			      kind->capabilities);
}

static void
doctor_assess_link(const struct doctor_facts *facts, struct doctor_report *report, enum doctor_link link)
{
	const struct doctor_kind *kind = &doctor_kinds[link];
	const struct doctor_trial *trial = &facts->trials[link];
	bool has_rights = link == DOCTOR_TAP         ? facts->has_net_admin
			  : link == DOCTOR_AF_PACKET ? facts->errors[DOCTOR_TRY_PACKET] == 0
			  : link == DOCTOR_AF_XDP    ? facts->errors[DOCTOR_TRY_XDP] == 0 &&
							    facts->errors[DOCTOR_TRY_BPF] == 0 && facts->has_net_admin
						  : true;
	struct doctor_finding *finding;

	if (!facts->has_driver[link]) {
		finding = doctor_find(report, DOCTOR_LINK, kind->name, DOCTOR_MISSING,
				      "DPDK's driver for it is not installed");
		doctor_advise(finding, "%sapt-get install %s", doctor_sudo(facts), kind->package);
	} else if (link == DOCTOR_TAP && facts->errors[DOCTOR_TRY_TUN] != 0) {
		finding = doctor_find(report, DOCTOR_LINK, kind->name, DOCTOR_MISSING,
				      "/dev/net/tun cannot be opened: %s", xk_error(facts->errors[DOCTOR_TRY_TUN]));
		if (facts->errors[DOCTOR_TRY_TUN] == EACCES)
			doctor_advise(finding, "sudo chmod 666 /dev/net/tun");
		else
			doctor_advise(finding,
				      "%smodprobe tun; in a container without the file: mknod /dev/net/tun c 10 200",
				      doctor_sudo(facts));
	} else if (link == DOCTOR_AF_PACKET && facts->errors[DOCTOR_TRY_PACKET] == EAFNOSUPPORT) {
		finding = doctor_find(report, DOCTOR_LINK, kind->name, DOCTOR_MISSING,
				      "this kernel has no packet sockets");
		doctor_advise(finding, "%smodprobe af_packet", doctor_sudo(facts));
	} else if (link == DOCTOR_AF_XDP && facts->errors[DOCTOR_TRY_XDP] == EAFNOSUPPORT) {
		doctor_find(report, DOCTOR_LINK, kind->name, DOCTOR_MISSING,
			    "this kernel is built without CONFIG_XDP_SOCKETS");
	} else if (!has_rights) {
		doctor_assess_rights(facts, report, kind, trial->status == 0);
	} else if (trial->status != 0) {
		finding = doctor_find(report, DOCTOR_LINK, kind->name, DOCTOR_MISSING, "tried, but failed: %.250s",
				      trial->why);
		if (link == DOCTOR_VIRTIO && facts->files < DOCTOR_FILES)
			doctor_advise(finding, "ulimit -n 1024");
	} else {
		doctor_find(report, DOCTOR_LINK, kind->name, DOCTOR_GOOD, "%s%s", kind->text, kind->tried);
		report->works |= link == DOCTOR_VIRTIO;
	}
}

static void
doctor_assess_links(const struct doctor_facts *facts, struct doctor_report *report)
{
	static const char card[] = "PCI address";

	for (enum doctor_link link = 0; link <= DOCTOR_LINKS && !facts->has_dpdk; link++)
		doctor_advise(doctor_find(report, DOCTOR_LINK, link < DOCTOR_LINKS ? doctor_kinds[link].name : card,
					  DOCTOR_MISSING, "this build has no DPDK"),
			      "%sapt-get install --no-install-recommends libdpdk-dev libevent-dev; ./run build",
			      doctor_sudo(facts));
	for (enum doctor_link link = 0; link < DOCTOR_LINKS; link++) {
		if (facts->has_dpdk)
			doctor_assess_link(facts, report, link);
		report->findings[link].sleeps = link != DOCTOR_MEMIF && link != DOCTOR_RING;
	}
	if (facts->has_dpdk && facts->bound[0] != '\0')
		doctor_find(report, DOCTOR_LINK, card, DOCTOR_GOOD, "--link %s; not tried. Huge pages are advisable",
			    facts->bound);
	else if (facts->has_dpdk && facts->card[0] != '\0')
		doctor_advise(doctor_find(report, DOCTOR_LINK, card, DOCTOR_MISSING,
					  "the network card %s belongs to the kernel%s", facts->card,
					  facts->has_vfio ? "" : ", which has no vfio-pci loaded"),
			      "%smodprobe vfio-pci && %sdpdk-devbind.py --bind=vfio-pci %s (the kernel loses it!)",
			      doctor_sudo(facts), doctor_sudo(facts), facts->card);
	else if (facts->has_dpdk)
		doctor_find(report, DOCTOR_LINK, card, DOCTOR_MISSING, "there is no PCI network card");
	doctor_find(report, DOCTOR_LINK, "memory", DOCTOR_GOOD, "two hosts in one process, without DPDK");
	doctor_find(report, DOCTOR_LINK, "sim", DOCTOR_GOOD, "simulated hosts on virtual time");
}

/* ---- the machine ---- */

static void
doctor_assess_processor(const struct doctor_facts *facts, struct doctor_report *report)
{
	if (facts->cores < 2)
		doctor_find(report, DOCTOR_MACHINE, "cores", DOCTOR_IMPROVABLE,
			    "one: both ends of a measurement share it");
	else
		doctor_find(report, DOCTOR_MACHINE, "cores", DOCTOR_GOOD, "%u; %u and %u are %s%s%s", facts->cores,
			    facts->core_first, facts->core_second,
			    facts->are_siblings ? "hardware threads of one core" : "separate cores",
			    facts->isolated[0] != '\0' ? "; isolated: " : "; none is isolated", facts->isolated);
	if (facts->is_tsc_steady && strcmp(facts->clock, "tsc") == 0)
		doctor_find(report, DOCTOR_MACHINE, "clock", DOCTOR_GOOD, "tsc, at a steady rate");
	else
		doctor_find(report, DOCTOR_MACHINE, "clock", DOCTOR_IMPROVABLE,
			    "the system's is %s, the processor's counter is %s: reading it may be slow, and times less "
			    "accurate",
			    facts->clock[0] == '\0' ? "unknown" : facts->clock,
			    facts->is_tsc_steady ? "steady" : "not known to be steady");
	if (!facts->has_halt_poll) /* not a virtual machine */
		return;
	if (facts->halt_poll_ns != 0)
		doctor_find(report, DOCTOR_MACHINE, "idle cores", DOCTOR_GOOD,
			    "poll for %" PRIu64 " us before they halt", facts->halt_poll_ns / 1000);
	else
		doctor_advise(doctor_find(report, DOCTOR_MACHINE, "idle cores", DOCTOR_IMPROVABLE,
					  "halt at once (a virtual machine): waking one adds some 20 us to round trips "
					  "across cores"),
			      "optional, as root: echo %d > /sys/module/haltpoll/parameters/guest_halt_poll_ns",
			      DOCTOR_HALT_POLL);
}

static void
doctor_assess_memory(const struct doctor_facts *facts, struct doctor_report *report)
{
	struct doctor_finding *finding;

	if (facts->errors[DOCTOR_TRY_HUGE] == 0 && facts->huge_free >= DOCTOR_HUGE_USEFUL)
		doctor_find(report, DOCTOR_MACHINE, "huge pages", DOCTOR_GOOD, "%" PRIu64 " of %" PRIu64 " are free",
			    facts->huge_free, facts->huge_total);
	else
		doctor_advise(doctor_find(report, DOCTOR_MACHINE, "huge pages", DOCTOR_IMPROVABLE,
					  "%" PRIu64 " of %" PRIu64
					  " are free: ordinary memory works as well, except for network cards",
					  facts->huge_free, facts->huge_total),
			      "optional, as root: echo %d > /proc/sys/vm/nr_hugepages", DOCTOR_HUGE_USEFUL);
	if (facts->files >= DOCTOR_FILES)
		doctor_find(report, DOCTOR_MACHINE, "open files", DOCTOR_GOOD, "a process may have %" PRIu64,
			    facts->files);
	else
		doctor_advise(doctor_find(report, DOCTOR_MACHINE, "open files", DOCTOR_MISSING,
					  "a process may have %" PRIu64 ", but DPDK takes up to %d", facts->files,
					  DOCTOR_FILES),
			      "ulimit -n 1024");
	finding = doctor_find(report, DOCTOR_MACHINE, "mappings",
			      facts->maps < DOCTOR_MAPS ? DOCTOR_IMPROVABLE : DOCTOR_GOOD,
			      "vm.max_map_count is %" PRIu64 ": room for some %" PRIu64 " stacks in a large simulation",
			      facts->maps, facts->maps / DOCTOR_MAPS_STACK);
	if (finding->state != DOCTOR_GOOD)
		doctor_advise(finding, "for large simulations, as root: sysctl -w vm.max_map_count=%d", DOCTOR_MAPS);
}

void
doctor_assess(const struct doctor_facts *facts, struct doctor_report *report)
{
	*report = (struct doctor_report){ .count = 0 };
	doctor_assess_links(facts, report);
	doctor_find(report, DOCTOR_MACHINE, "DPDK", facts->has_dpdk ? DOCTOR_GOOD : DOCTOR_MISSING, "%s",
		    facts->has_dpdk ? facts->dpdk : "not in this build: hosts are simulated, or in one process");
	doctor_assess_processor(facts, report);
	doctor_assess_memory(facts, report);
	if (facts->errors[DOCTOR_TRY_NETNS] == 0 || facts->errors[DOCTOR_TRY_USERNS] == 0)
		doctor_find(report, DOCTOR_MACHINE, "namespaces", DOCTOR_GOOD, "a network namespace can be created%s",
			    facts->errors[DOCTOR_TRY_NETNS] == 0 ? "" : ", within a user namespace");
	else
		doctor_find(report, DOCTOR_MACHINE, "namespaces", DOCTOR_MISSING,
			    "no network namespace can be created (%s), not even in a user namespace (%s): tests "
			    "against Linux are skipped",
			    xk_error(facts->errors[DOCTOR_TRY_NETNS]), xk_error(facts->errors[DOCTOR_TRY_USERNS]));
	for (unsigned i = 0; i < DOCTOR_TOOLS && facts->tools[i].name != NULL; i++) {
		const struct doctor_tool *tool = &facts->tools[i];
		struct doctor_finding *finding = doctor_find(
			report, DOCTOR_TOOL, tool->name, tool->present ? DOCTOR_GOOD : DOCTOR_MISSING, "%s", tool->use);

		if (!tool->present)
			doctor_advise(finding, "%sapt-get install %s", doctor_sudo(facts), tool->package);
	}
}
