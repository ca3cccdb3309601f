/*
 * doctor.h - what this machine can do: facts, found by trying, and what follows from them.
 *
 * doctor_probe tries whatever can be tried without changing anything, most of it in child processes and in network
 * namespaces of their own; doctor_judge looks at the facts alone. Main thread, before any other thread is made.
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
	DOCTOR_TRY_NETNS,  /* a network namespace of one's own */
	DOCTOR_TRY_USERNS, /* ... with a user namespace of one's own */
	DOCTOR_TRY_TUN,    /* /dev/net/tun */
	DOCTOR_TRY_PACKET, /* a socket of AF_PACKET */
	DOCTOR_TRY_XDP,    /* a socket of AF_XDP */
	DOCTOR_TRY_BPF,    /* loading the program that AF_XDP needs */
	DOCTOR_TRY_HUGE,   /* mapping a page of 2 MB */
	DOCTOR_ATTEMPTS,
};

/* The outcome of two hosts in two processes exchanging messages. */
struct doctor_trial {
	int status; /* 0: they did */
	char why[DOCTOR_TEXT];
};

/* A program that something here uses. */
struct doctor_tool {
	const char *name, *package, *use;
	bool present;
};

/* Errors are of errno.h; 0: it worked. */
struct doctor_facts {
	bool has_dpdk; /* in this build */
	char dpdk[DOCTOR_NAME];
	bool has_driver[DOCTOR_LINKS];
	struct doctor_trial trials[DOCTOR_LINKS]; /* from tap on in a network of their own; not of ring */
	bool is_root, has_net_admin;
	int errors[DOCTOR_ATTEMPTS];
	char card[DOCTOR_NAME];  /* the first PCI network card that is not DPDK's: its address */
	char bound[DOCTOR_NAME]; /* the first that is bound to a driver for DPDK */
	bool has_vfio;
	unsigned cores, core_first, core_second; /* that this process may use; the first two */
	bool are_siblings;                       /* these two are hardware threads of one core */
	char isolated[DOCTOR_NAME];              /* cores that the system leaves alone; "" */
	char clock[DOCTOR_NAME];                 /* the system's clock source */
	bool is_tsc_steady;
	bool has_halt_poll;
	uint64_t halt_poll_ns; /* of a virtual machine's idle processor */
	uint64_t huge_total, huge_free;
	uint64_t files; /* that a process may open */
	uint64_t maps;  /* vm.max_map_count */
	struct doctor_tool tools[DOCTOR_TOOLS];
};

void doctor_probe(struct doctor_facts *facts);

/* Lets two hosts, as two processes, exchange messages over the link Takes up to 30 s. */
void doctor_try(const char *link, enum xk_driver_policy driver, struct doctor_trial *trial);

/* ---- what follows ---- */

enum doctor_group { DOCTOR_LINK, DOCTOR_MACHINE, DOCTOR_TOOL };
enum doctor_state {
	DOCTOR_GOOD,
	DOCTOR_COULD_BE_BETTER, /* it works; `command` would improve it */
	DOCTOR_MISSING,
};

struct doctor_finding {
	enum doctor_group group;
	const char *name;
	enum doctor_state state;
	bool sleeps; /* a link's: the driver policy `interrupt` works on it */
	char text[DOCTOR_TEXT];
	char command[DOCTOR_TEXT]; /* to improve it; "": none */
};

struct doctor_report {
	struct doctor_finding findings[DOCTOR_FINDINGS];
	unsigned count;
	bool works; /* the default link, with its default driver policy */
};

void doctor_judge(const struct doctor_facts *facts, struct doctor_report *report);

#endif
