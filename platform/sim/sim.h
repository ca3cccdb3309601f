/*
 * sim.h - a simulated world: many hosts in one process, on virtual time, joined by links that lose, delay and damage
 * frames as a seed says. The same seed gives the same run, frame by frame, on every machine.
 *
 * A world is run by one thread, the one that calls xk_sim_run. Where that thread itself waits for a host (xk_open that
 * asks for a link address, xk_kernel_stop), it runs the world meanwhile. Each host is a kernel (xkernel/kernel.h) on a
 * platform of its own; its driver, input threads and event thread are stacks that take turns, one processor per host.
 * Time passes where nobody has anything to do, where a shepherd works (xk_work), and by the host's costs. While a thread
 * works, a frame that arrives interrupts it; the driver is not interrupted.
 *
 *	struct xk_sim *sim = xk_sim_new(seed);
 *	struct xk_sim_link *lan = xk_sim_link_new(sim, "lan", &config);
 *	struct xk_sim_host *a = xk_sim_host_new(sim, &(struct xk_sim_host_config){ "a", .boot = boot_a });
 *
 *	xk_sim_attach(a, "port", lan, 0x020000000001);
 *	xk_sim_boot(a);                 // boot_a makes the kernel, with xk_sim_platform(a) and the ports of a
 *	xk_sim_run(sim, 1000000000);    // one second
 *	xk_sim_free(sim);
 */
#ifndef XK_SIM_SIM_H
#define XK_SIM_SIM_H

#include "platform/sim/link.h"
#include "xkernel/kernel.h"
#include "xkernel/platform.h"

struct xk_sim;
struct xk_sim_host;
struct xk_sim_link;

/*
 * Before a world of many hosts is made: its memory will lie in large pages, where the system has them. Changes how this
 * process's heap grows. Main thread.
 */
void xk_sim_expect(unsigned hosts);

/* NULL: no memory. */
struct xk_sim *xk_sim_new(uint64_t seed);

/* Crashes every host, and frees all. How many buffers did not come back, of all hosts: 0 unless there is a bug. */
unsigned xk_sim_free(struct xk_sim *sim);

uint64_t xk_sim_now_ns(const struct xk_sim *sim);

/*
 * Returns the number of steps that the world has taken, for watchdogs: it stands still only while a host computes. Any
 * thread, while the world exists.
 */
uint64_t xk_sim_steps(const struct xk_sim *sim);

/* Returns the name of the host that is being booted, or NULL. As xk_sim_steps. */
const char *xk_sim_booting(const struct xk_sim *sim);

/* A number derived from the world's seed, for whoever else needs one; calls with the same purpose repeat it. */
uint64_t xk_sim_seed(const struct xk_sim *sim, const char *purpose);

/* ---- time ---- */

/*
 * Runs the world until until_ns, or until nothing is left to happen; the clock is at until_ns then (at UINT64_MAX, which
 * is for ever, it stays at what happened last). Not within a run, nor within act or boot that is called by one.
 */
void xk_sim_run(struct xk_sim *sim, uint64_t until_ns);

/*
 * As xk_sim_run, but no longer than go_on(context), which is asked after each step. Whether go_on ended it. Nothing
 * else ends a run of hosts that answer each other at once where nothing takes time (the link `ideal`).
 */
bool xk_sim_run_while(struct xk_sim *sim, uint64_t until_ns, bool (*go_on)(void *context), void *context);

/*
 * act(context) will be called at at_ns, between steps: it may crash and boot hosts, change links, send; it must not
 * wait (as xk_kernel_reconfigure does). 0 or -ENOMEM.
 */
int xk_sim_at(struct xk_sim *sim, uint64_t at_ns, void (*act)(void *context), void *context);

/* ---- hosts ---- */

/* What things cost on a host, in virtual nanoseconds; at first nothing. */
struct xk_sim_costs {
	uint64_t interrupt_ns;     /* the driver begins, having slept */
	uint64_t frame_in_ns;      /* the driver takes a frame from the device */
	uint64_t frame_out_ns;     /* a frame is given to the device */
	uint64_t stack_start_ns;   /* IPP: a detachable stack for a frame */
	uint64_t stack_switch_ns;  /* IPP: it leaves the driver, at a handoff */
	uint64_t thread_switch_ns; /* a thread that has waited goes on: handoff and scheduling latency */
};

/* COST(name, help) for each of them, in their order. */
#define XK_SIM_COSTS(COST)                                                                                             \
	COST(interrupt, "the driver begins, having slept")                                                             \
	COST(frame_in, "the driver takes a frame from the device")                                                     \
	COST(frame_out, "a frame is given to the device")                                                              \
	COST(stack_start, "ipp: a detachable stack for a frame")                                                       \
	COST(stack_switch, "ipp: it leaves the driver at a handoff")                                                   \
	COST(thread_switch, "a thread that has waited goes on")

/* Of one of them: sums of them stay far below 2^64. */
#define XK_SIM_COST_MAX (60 * UINT64_C(1000000000))

/* What they are on hosts that somebody has measured; a name NULL ends the list. */
struct xk_sim_costs_preset {
	const char *name, *help;
	struct xk_sim_costs costs;
};
const struct xk_sim_costs_preset *xk_sim_costs_presets(void);
/* The preset called name, or NULL. */
const struct xk_sim_costs_preset *xk_sim_costs_find(const char *name);

enum { XK_SIM_COSTS_WHY = 160 };

/*
 * Parses a preset's name, costs as NAME=TIME, or both: "modern", "modern,thread_switch=5us". What is not named costs
 * what the preset says; without one, nothing. 0, or -EINVAL with a sentence in why (XK_SIM_COSTS_WHY bytes are enough).
 */
int xk_sim_costs_parse(const char *text, struct xk_sim_costs *costs, char *why, size_t room);

struct xk_sim_host_config {
	const char *name;
	struct xk_sim_costs costs;
	/*
	 * Makes the host's kernel, on xk_sim_platform(host) and with its ports (xk_sim_port_new), and starts it
	 * (xk_kernel_start). The world stops and frees it when the host crashes. NULL: the host stays down, and boot has
	 * freed what it has made. Called outside of steps it may wait (open a session); until it has returned the host
	 * counts as down, and is not to be booted or crashed.
	 */
	struct xk_kernel *(*boot)(void *context, struct xk_sim_host *host);
	void *context;
	unsigned buffers; /* at most so many segments are out; 0: 65536 */
};

/*
 * A host that is down. config is copied, its name too; no other host and no link may have that name, from which its
 * random numbers are drawn. NULL: no memory.
 */
struct xk_sim_host *xk_sim_host_new(struct xk_sim *sim, const struct xk_sim_host_config *config);

/*
 * Gives host a device called name on link, with a link address. Devices outlive crashes. 0; -ENOMEM; -ENOSPC: the link
 * takes no more stations. Before the first boot.
 */
int xk_sim_attach(struct xk_sim_host *host, const char *name, struct xk_sim_link *link, uint64_t address);

/* Boots a host that is down. Between steps. 0; -EIO: its boot made no kernel. */
int xk_sim_boot(struct xk_sim_host *host);

/*
 * The host is down: nothing that it still sends is heard, its kernel is freed, and of all that it knew it keeps its
 * link addresses and how often it was booted (xk_boots). Between steps. Segments that did not come back.
 */
unsigned xk_sim_crash(struct xk_sim_host *host);

bool xk_sim_is_up(const struct xk_sim_host *host);
const char *xk_sim_host_name(const struct xk_sim_host *host);
/* Counted from 0, in the order in which they were made. */
unsigned xk_sim_host_number(const struct xk_sim_host *host);
/* How often it was booted. */
uint64_t xk_sim_host_boots(const struct xk_sim_host *host);
/* NULL while it is down. */
struct xk_kernel *xk_sim_kernel(struct xk_sim_host *host);
struct xk_sim_host *xk_sim_first_host(struct xk_sim *sim);
struct xk_sim_host *xk_sim_next_host(struct xk_sim_host *host);

/* For boot. */
struct xk_platform *xk_sim_platform(struct xk_sim_host *host);
/* The host's port for its n'th device (from 0), which the kernel closes. NULL: there is none, it has it, or no memory. */
struct xk_port *xk_sim_port_new(struct xk_sim_host *host, unsigned n);

/* What a host has done since the world began, over all its boots. */
struct xk_sim_host_counts {
	uint64_t thread_switches; /* threads that went on after waiting, the driver not counted */
	uint64_t driver_wakes;
	uint64_t frames_in, frames_out;
	uint64_t full;      /* frames lost because too many waited at the device */
	uint64_t no_buffer; /* ... because `buffers` were out when the driver would have taken them */
	uint64_t unheard;   /* arrived while the host was down */
	uint64_t busy_ns;   /* of its processor */
};
void xk_sim_host_counts(const struct xk_sim_host *host, struct xk_sim_host_counts *counts);

/* ---- links ---- */

/* config has passed sim_link_check, and is copied; its faults are drawn from its name. NULL: no memory. */
struct xk_sim_link *xk_sim_link_new(struct xk_sim *sim, const char *name, const struct sim_link_config *config);
/* From now on link is as config says: faults begin or end. Its stations, and what is under way, stay. */
void xk_sim_link_change(struct xk_sim_link *link, const struct sim_link_config *config);
const struct sim_link_config *xk_sim_link_config(const struct xk_sim_link *link);
/* Cuts the n'th device of host, which there is, off its link for what it sends and receives, or joins it again. */
void xk_sim_cut(struct xk_sim_host *host, unsigned n, bool sends, bool receives);
void xk_sim_link_counts(const struct xk_sim_link *link, struct sim_link_counts *counts);
const char *xk_sim_link_name(const struct xk_sim_link *link);
struct xk_sim_link *xk_sim_first_link(struct xk_sim *sim);
struct xk_sim_link *xk_sim_next_link(struct xk_sim_link *link);

/* ---- watching ---- */

enum xk_sim_event {
	XK_SIM_SENT,    /* a frame was given to a link */
	XK_SIM_ARRIVED, /* a frame has come to a device */
	XK_SIM_LOST,    /* a frame ended on its way; why says of what */
	XK_SIM_BOOTED,
	XK_SIM_CRASHED,
};

struct xk_sim_record {
	enum xk_sim_event event;
	uint64_t at_ns;
	const struct xk_sim_host *host; /* who sent, received, was booted or crashed */
	const struct xk_sim_link *link; /* of frames */
	unsigned device;                /* of frames: the host's n'th */
	const uint8_t *frame;           /* of frames: the bytes, from the Ethernet header on */
	size_t len;
	const char *why; /* NULL, or what the link did to it: "loss", "corrupt", "queue" ... */
};

/* see(context, record) is called for each of these, in order; must not change the world. NULL: nobody watches. */
void xk_sim_watch(struct xk_sim *sim, void (*see)(void *context, const struct xk_sim_record *record), void *context);

/* A hash of every record so far, the same wherever the same seed is run. */
uint64_t xk_sim_hash(const struct xk_sim *sim);

#endif
