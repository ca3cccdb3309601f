/*
 * doctor.h - the capabilities of this machine: facts, found by trying, and conclusions.
 *
 * doctor_probe tries everything that can be tried without changes, mostly in child processes and their own network
 * namespaces; doctor_assess only uses the facts. Main thread, before there are others.
 */
#ifndef DOCTOR_H
#define DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "xkernel/kernel.h"

enum { DOCTOR_TEXT = 320, DOCTOR_FINDINGS = 48, DOCTOR_NAME = 64, DOCTOR_TOOLS = 9 };

/* ---- facts ---- */

/* Links of DPDK drivers. */
enum doctor_link {
	DOCTOR_VIRTIO,
	DOCTOR_MEMIF,
	DOCTOR_RING,
	DOCTOR_TAP,
	DOCTOR_AF_PACKET,
	DOCTOR_AF_XDP,
	DOCTOR_LINKS,
};

enum doctor_attempt {
	DOCTOR_TRY_NETNS,  /* a new network namespace */
	DOCTOR_TRY_USERNS, /* ... in a new user namespace */
	DOCTOR_TRY_TUN,    /* /dev/net/tun */
	DOCTOR_TRY_PACKET, /* a socket of AF_PACKET */
	DOCTOR_TRY_XDP,    /* a socket of AF_XDP */
	DOCTOR_TRY_BPF,    /* loading the program that AF_XDP needs */
	DOCTOR_TRY_HUGE,   /* mapping a page of 2 MB */
	DOCTOR_ATTEMPTS,
};

/* The result of two hosts, as two processes, exchanging messages. */
struct doctor_trial {
	int status; /* 0: it worked */
	char why[DOCTOR_TEXT];
};

/* A program that this project uses. */
struct doctor_tool {
	const char *name, *package, *use;
	bool present;
};

/* Errors are 0 or an errno. */
struct doctor_facts {
	bool has_dpdk; /* in this build */
	char dpdk[DOCTOR_NAME];
	bool has_driver[DOCTOR_LINKS];
	struct doctor_trial trials[DOCTOR_LINKS]; /* all but ring's; from tap on, in their own network */
	bool is_root, has_net_admin;
	int errors[DOCTOR_ATTEMPTS];
	char card[DOCTOR_NAME];  /* address of the first PCI network card that the kernel has; "" */
	char bound[DOCTOR_NAME]; /* ... that is bound to a driver for DPDK; "" */
	bool has_vfio;
	unsigned cores, core_first, core_second; /* number of cores this process may use, and the first two */
	bool are_siblings;                       /* these two are hardware threads of one core */
	char isolated[DOCTOR_NAME];              /* list of isolated cores; "" */
	char clock[DOCTOR_NAME];                 /* the system's clock source */
	bool is_tsc_steady;
	bool has_halt_poll;
	uint64_t halt_poll_ns; /* for a virtual machine's idle processor */
	uint64_t huge_total, huge_free;
	uint64_t files; /* maximum of open files of a process */
	uint64_t maps;  /* vm.max_map_count */
	struct doctor_tool tools[DOCTOR_TOOLS];
};

void doctor_probe(struct doctor_facts *facts);

/* Tries to exchange messages between two hosts, as processes, over the link. Takes up to 30 s. */
void doctor_try(const char *link, enum xk_driver_policy driver, struct doctor_trial *trial);

/* ---- conclusions ---- */

enum doctor_group { DOCTOR_LINK, DOCTOR_MACHINE, DOCTOR_TOOL };
enum doctor_state {
	DOCTOR_GOOD,
	DOCTOR_IMPROVABLE, /* works; `command` would improve it */
	DOCTOR_MISSING,
};

struct doctor_finding {
	enum doctor_group group;
	const char *name;
	enum doctor_state state;
	bool sleeps; /* for a link: the driver policy `interrupt` works */
	char text[DOCTOR_TEXT];
	char command[DOCTOR_TEXT]; /* command to improve it; "": none */
};

struct doctor_report {
	struct doctor_finding findings[DOCTOR_FINDINGS];
	unsigned count;
	bool works; /* the default link works, with its default driver policy */
};

void doctor_assess(const struct doctor_facts *facts, struct doctor_report *report);

/* The command `doctor` of xk. */
int xk_doctor_main(int argc, char **argv);

#endif
