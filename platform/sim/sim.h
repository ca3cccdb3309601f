/*
 * sim.h - a simulated world: many hosts in one process, on virtual time, joined by links that lose, delay and damage
 * frames at random. A seed determines the whole run, frame by frame, on every machine.
 *
 * One thread, the caller of xk_sim_run, runs the world. If that thread itself waits for a host (xk_open with an address
 * to resolve, xk_kernel_stop), it runs the world meanwhile. Each host is a kernel (xkernel/kernel.h) on its own
 * platform with one processor, which the stacks of its driver, input threads and event thread share. Time passes while
 * all hosts are idle, during xk_work, and through the hosts' costs. An arriving frame interrupts a working thread, but
 * not the driver.
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
 * Prepares this process's heap for a world of many hosts: it will grow into large pages where the system has them. Call
 * before xk_sim_new. Main thread.
 */
void xk_sim_expect(unsigned hosts);

/* Returns an empty world, or NULL without memory. */
struct xk_sim *xk_sim_new(uint64_t seed);

/*
 * Crashes every host and frees the world. Returns the number of leaked buffers on all hosts, 0 unless there is a bug.
 */
unsigned xk_sim_free(struct xk_sim *sim);

uint64_t xk_sim_now_ns(const struct xk_sim *sim);

/*
 * Returns the number of the world's steps so far, for watchdogs: it stands still only while a host computes. Any
 * thread, while the world exists.
 */
uint64_t xk_sim_steps(const struct xk_sim *sim);

/* Returns the name of the host that is being booted, or NULL. Any thread, while the world exists. */
const char *xk_sim_booting(const struct xk_sim *sim);

/* Returns a number derived from the world's seed and the purpose. */
uint64_t xk_sim_seed(const struct xk_sim *sim, const char *purpose);

/* ---- time ---- */

/*
 * Runs the world until until_ns, or until no event is left; sets the clock to until_ns. UINT64_MAX means no end: the
 * clock then stays at the last event. Must not be called during a run, not even from its act and boot callbacks.
 */
void xk_sim_run(struct xk_sim *sim, uint64_t until_ns);

/*
 * Runs the world like xk_sim_run, until go_on(context), which is called after each step, returns false. Returns true if
 * go_on ended the run. Only go_on ends a run of hosts that answer each other without time passing (the link `ideal`).
 */
bool xk_sim_run_while(struct xk_sim *sim, uint64_t until_ns, bool (*go_on)(void *context), void *context);

/*
 * Schedules act(context) at at_ns, between steps. act may crash and boot hosts, change links and send, but must not
 * wait (as xk_kernel_reconfigure does). Returns 0 or -ENOMEM.
 */
int xk_sim_at(struct xk_sim *sim, uint64_t at_ns, void (*act)(void *context), void *context);

/* ---- hosts ---- */

/* Costs of a host's operations, in virtual nanoseconds; initially 0. */
struct xk_sim_costs {
	uint64_t interrupt_ns;     /* waking the driver */
	uint64_t frame_in_ns;      /* taking a frame from the device */
	uint64_t frame_out_ns;     /* giving a frame to the device */
	uint64_t stack_start_ns;   /* IPP: starting a detachable stack for a frame */
	uint64_t stack_switch_ns;  /* IPP: detaching the stack from the driver at a handoff */
	uint64_t thread_switch_ns; /* resuming a thread that was waiting: handoff and scheduling latency */
};

/* Expands COST(name, help) for each cost, in the order of the struct. */
#define XK_SIM_COSTS(COST)                                                                                             \
	COST(interrupt, "waking the driver")                                                                           \
	COST(frame_in, "taking a frame from the device")                                                               \
	COST(frame_out, "giving a frame to the device")                                                                \
	COST(stack_start, "ipp: starting a detachable stack for a frame")                                              \
	COST(stack_switch, "ipp: detaching a stack at a handoff")                                                      \
	COST(thread_switch, "resuming a thread that was waiting")

/* Maximum of one cost: sums stay far below 2^64. */
#define XK_SIM_COST_MAX (60 * UINT64_C(1000000000))

/* Costs of measured hosts: "none", "decstation", "alpha", "modern". */
struct xk_sim_costs_preset {
	const char *name;
	struct xk_sim_costs costs;
};

/* Returns the preset called name, or NULL. */
const struct xk_sim_costs_preset *xk_sim_costs_find(const char *name);

enum { XK_SIM_COSTS_WHY = 160 };

/*
 * Parses a preset's name, costs as NAME=TIME, or both: "modern", "modern,thread_switch=5us". Other costs are the
 * preset's, or 0 without one. Returns 0, or -EINVAL with a sentence in why (XK_SIM_COSTS_WHY bytes suffice).
 */
int xk_sim_costs_parse(const char *text, struct xk_sim_costs *costs, char *why, size_t room);

struct xk_sim_host_config {
	const char *name;
	struct xk_sim_costs costs;
	/*
	 * Creates the host's kernel on xk_sim_platform(host), with ports from xk_sim_port_new, and starts it. The world
	 * stops and frees the kernel when the host crashes. Returns NULL, after freeing everything, to leave the host
	 * down. May wait (open a session) if called outside of steps. Until it returns, the host counts as down and
	 * must not be booted or crashed.
	 */
	struct xk_kernel *(*boot)(void *context, struct xk_sim_host *host);
	void *context;
	unsigned buffers; /* maximum number of segments in use; 0: 65536 */
};

/*
 * Adds a host that is down. config and its name are copied. The name seeds the host's random numbers: no other host or
 * link may have it. Returns NULL without memory.
 */
struct xk_sim_host *xk_sim_host_new(struct xk_sim *sim, const struct xk_sim_host_config *config);

/*
 * Gives the host a device called name, with a link address, on link. Devices outlive crashes. Call before the first
 * boot. Returns 0, -ENOMEM, or -ENOSPC if the host or the link is full.
 */
int xk_sim_attach(struct xk_sim_host *host, const char *name, struct xk_sim_link *link, uint64_t address);

/* Boots a host that is down, between steps. Returns 0, or -EIO if its boot callback created no kernel. */
int xk_sim_boot(struct xk_sim_host *host);

/*
 * Crashes a host, between steps: frees its kernel and discards everything it sends meanwhile. The host keeps only its
 * link addresses and its boot count (xk_boots). Returns the number of leaked segments.
 */
unsigned xk_sim_crash(struct xk_sim_host *host);

bool xk_sim_is_up(const struct xk_sim_host *host);
const char *xk_sim_host_name(const struct xk_sim_host *host);
/* Returns the host's index in order of creation, from 0. */
unsigned xk_sim_host_number(const struct xk_sim_host *host);
/* Returns the number of times that the host was booted. */
uint64_t xk_sim_host_boots(const struct xk_sim_host *host);
/* Returns NULL while the host is down. */
struct xk_kernel *xk_sim_kernel(struct xk_sim_host *host);
struct xk_sim_host *xk_sim_first_host(struct xk_sim *sim);
struct xk_sim_host *xk_sim_next_host(struct xk_sim_host *host);

/* Returns the host's platform, for boot. */
struct xk_platform *xk_sim_platform(struct xk_sim_host *host);
/*
 * Returns a port for the host's n'th device (from 0), for its kernel to close, or NULL if there is no such device, it
 * is in use, or there is no memory.
 */
struct xk_port *xk_sim_port_new(struct xk_sim_host *host, unsigned n);

/* Counts of a host over all its boots. */
struct xk_sim_host_counts {
	uint64_t thread_switches; /* threads, without the driver, resumed after waiting */
	uint64_t driver_wakes;
	uint64_t frames_in, frames_out;
	uint64_t full;      /* frames lost because too many waited at the device */
	uint64_t no_buffer; /* frames lost because all `buffers` were in use when the driver received */
	uint64_t unheard;   /* frames that arrived while the host was down */
	uint64_t busy_ns;   /* time that the processor worked */
};
void xk_sim_host_counts(const struct xk_sim_host *host, struct xk_sim_host_counts *counts);

/* ---- links ---- */

/*
 * Adds a link with a copy of config, which has passed sim_link_check. The name seeds its faults. Returns NULL without
 * memory.
 */
struct xk_sim_link *xk_sim_link_new(struct xk_sim *sim, const char *name, const struct sim_link_config *config);
/* Changes the link's configuration, faults included. Stations and frames in flight stay. */
void xk_sim_link_change(struct xk_sim_link *link, const struct sim_link_config *config);
const struct sim_link_config *xk_sim_link_config(const struct xk_sim_link *link);
/* Cuts the host's n'th device, which must exist, off its link, or reconnects it, for sending and for receiving. */
void xk_sim_cut(struct xk_sim_host *host, unsigned n, bool sends, bool receives);
void xk_sim_link_counts(const struct xk_sim_link *link, struct sim_link_counts *counts);
const char *xk_sim_link_name(const struct xk_sim_link *link);
struct xk_sim_link *xk_sim_first_link(struct xk_sim *sim);
struct xk_sim_link *xk_sim_next_link(struct xk_sim_link *link);

/* ---- choices ---- */

/*
 * What a world decides while it runs. The usual option is always 0. A choice has a number, counted from 1 for each kind
 * (a frame has the number of its records), so that the same choices in another build of the same graph have the same
 * numbers.
 */
enum xk_sim_choice_kind {
	XK_SIM_FRAME,  /* what happens to a frame at the host, one of its receivers: an xk_sim_fate */
	XK_SIM_CRASH,  /* 1: the host crashes before the event, which is its own, and boots at once */
	XK_SIM_ORDER,  /* 1: of the events that are due at one moment, number `place` (from 1) precedes number 0 */
	XK_SIM_BUFFER, /* 1: the host gets no buffer, as if all were in use */
	XK_SIM_STACK,  /* 1: a message that would leave the driver finds no stack, as if all were in use */
	XK_SIM_TIMER, /* 1: of the timers of a host that are due at one time, number `place` (from 1) precedes number 0 */
	XK_SIM_CHOICES
};

enum xk_sim_fate {
	XK_SIM_DELIVERED,
	XK_SIM_LOSE,
	XK_SIM_DOUBLE, /* arrives twice */
	XK_SIM_DELAY,  /* arrives behind the receiver's next event, or by the amount of nanoseconds later */
	XK_SIM_DAMAGE, /* a bit in the frame's last byte is flipped, or those of xk_sim_damage */
	XK_SIM_FATES
};

/* Returns the option of a fate with an amount: of XK_SIM_DOUBLE, the nanoseconds after which the second copy follows. */
static inline uint64_t
xk_sim_fate_by(enum xk_sim_fate fate, uint64_t amount)
{
	return amount << 8 | fate;
}

/* Returns the amount of XK_SIM_DAMAGE that flips bits of two bytes, from offset on. */
static inline uint64_t
xk_sim_damage(size_t offset, uint16_t bits)
{
	return (uint64_t)offset << 16 | bits;
}

enum { XK_SIM_FATES_MAX = 3 /* of one frame: of its bytes, its time, and a second copy */ };

struct xk_sim_choice {
	enum xk_sim_choice_kind kind;
	uint64_t number; /* of the frame, event, or time; of the buffer or stack that hosts have asked for */
	const struct xk_sim_host *host; /* NULL for XK_SIM_ORDER */
	unsigned place; /* for XK_SIM_ORDER, XK_SIM_TIMER; of a frame: number of its fates that were chosen before */
	uint64_t drawn; /* of a frame: what happens if 0 is chosen, from the link's own faults */
};

/*
 * Calls choose(context, choice) for each choice from now on; it returns an option of the choice's kind, and must not
 * change the world. NULL: the usual option everywhere. Links' own faults come from the seed as before. A frame that has
 * a fate may have a further one, up to XK_SIM_FATES_MAX.
 *
 * Unless `all`, there is no choice between orders of events at hosts which share nothing (persistent sets: Godefroid
 * 1996): an event precedes another of the same moment only if both are of one host, or of hosts on a link of more than
 * two.
 */
void xk_sim_choose(struct xk_sim *sim, bool all, uint64_t (*choose)(void *context, const struct xk_sim_choice *choice),
		   void *context);

/* Returns the number of events so far: arrivals of frames, ends of waits, and acts. */
uint64_t xk_sim_events(const struct xk_sim *sim);

/* ---- records ---- */

enum xk_sim_event {
	XK_SIM_SENT,    /* a frame was given to a link */
	XK_SIM_ARRIVED, /* a frame reached a device */
	XK_SIM_LOST,    /* a frame was lost; `why` is the cause */
	XK_SIM_BOOTED,
	XK_SIM_CRASHED,
};

struct xk_sim_record {
	enum xk_sim_event event;
	uint64_t at_ns;
	const struct xk_sim_host *host; /* sent, received, was booted or crashed */
	/* for frames only: */
	const struct xk_sim_link *link;
	unsigned device;      /* the host's n'th */
	const uint8_t *frame; /* the bytes, from the Ethernet header on */
	size_t len;
	const char *why; /* NULL, or the fault: "loss", "corrupt", "queue", ... */
	uint64_t number; /* from 1; a frame has the same number when it is sent and when it arrives or is lost */
};

/* Calls see(context, record) for every event, in order; see must not change the world. NULL ends that. */
void xk_sim_watch(struct xk_sim *sim, void (*see)(void *context, const struct xk_sim_record *record), void *context);

/* Returns a hash of all records so far, which is the same for every run of a seed. */
uint64_t xk_sim_hash(const struct xk_sim *sim);

#endif
