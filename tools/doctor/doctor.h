/*
 * doctor.h - what this machine can do: facts, found by trying, and what follows from them.
 *
 * doctor_probe tries whatever can be tried without changing anything, most of it in child processes and in network
 * namespaces of their own; doctor_judge knows what the facts mean and what to do about them, and looks at nothing else.
 * Everything is for the main thread, before any other thread is made.
 */
#ifndef DOCTOR_H
#define DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "xkernel/kernel.h"

enum { DOCTOR_TEXT = 320, DOCTOR_FINDINGS = 48, DOCTOR_NAME = 64 };

/* ---- facts ---- */

/* Two hosts in two processes that exchanged messages, or did not. */
struct doctor_trial {
	int status; /* 0: they did */
	char why[DOCTOR_TEXT];
};

/* Capabilities that links need. */
struct doctor_rights {
	bool net_admin, net_raw, bpf;
};

/* A program that something here uses. */
struct doctor_tool {
	const char *name, *package, *use;
	bool present;
};

enum { DOCTOR_TOOLS = 9 };

/* Errors are of errno.h; 0: it worked. */
struct doctor_facts {
	bool has_dpdk; /* in this build */
	char dpdk[DOCTOR_NAME];
	bool has_vhost, has_virtio, has_memif, has_ring, has_tap, has_af_packet, has_af_xdp; /* DPDK's drivers */
	struct doctor_trial virtio, memif, tap, af_packet, af_xdp; /* the last three in a network of their own */
	bool is_root;
	struct doctor_rights rights;
	int netns_error, userns_error; /* a network namespace of one's own; with a user namespace of one's own */
	int tun_error;                 /* /dev/net/tun */
	int packet_error;              /* a socket of AF_PACKET */
	int xdp_error;                 /* ... of AF_XDP */
	int bpf_error;                 /* loading the program that AF_XDP needs */
	unsigned cards;                /* PCI devices that are network cards */
	char card[DOCTOR_NAME];        /* the first that is not DPDK's: its address */
	char bound[DOCTOR_NAME];       /* the first that is bound to a driver for DPDK */
	bool has_vfio;
	unsigned cores, core_first, core_second; /* that this process may use; the first two */
	bool are_siblings;                       /* these two are one core's hardware threads */
	char isolated[DOCTOR_NAME];              /* cores that the system leaves alone; "" */
	char clock[DOCTOR_NAME];                 /* the system's clock source */
	bool is_tsc_steady;
	bool has_halt_poll;
	uint64_t halt_poll_ns; /* of a virtual machine's idle processor */
	uint64_t huge_total, huge_free;
	int huge_error; /* mapping one of 2 MB */
	uint64_t files; /* that a process may open */
	uint64_t maps;  /* vm.max_map_count */
	struct doctor_tool tools[DOCTOR_TOOLS];
};

void doctor_probe(struct doctor_facts *facts);

/* Lets two hosts, as two processes, exchange messages over the link (doctor_try.c). Takes up to 30 s. */
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
	bool sleeps; /* of links: the driver `interrupt` works on it */
	char text[DOCTOR_TEXT];
	char command[DOCTOR_TEXT]; /* what to do about it; "": nothing */
};

struct doctor_report {
	struct doctor_finding findings[DOCTOR_FINDINGS];
	unsigned count;
	bool works; /* the link that is used where none is chosen, with the driver that is */
};

void doctor_judge(const struct doctor_facts *facts, struct doctor_report *report);

#endif
