/* world.h - what the files of the simulated world share. Not for others. */
#ifndef XK_PLATFORM_SIM_WORLD_H
#define XK_PLATFORM_SIM_WORLD_H

#include "platform/sim/inside.h"
#include "platform/sim/random.h"
#include "platform/sim/sim.h"
#include "xkernel/engine/fiber.h"

enum {
	SIM_DEVICES_MAX = 4,     /* of a host */
	SIM_DEVICE_QUEUE = 1024, /* frames that wait at a device for the driver */
	SIM_FRAME_KEPT = 128,    /* frames that are not longer are kept for the next, */
	SIM_FRAMES_KEPT = 256,   /* so many of them at most */
};

#if defined(XK_CONTEXT_ASAN)
enum { SIM_RECYCLES = false }; /* every buffer and frame a malloc, so that its misuse is seen */
#else
enum { SIM_RECYCLES = true };
#endif

/* ---- time (timers.c) ---- */

/* Something that will happen; lies in what it happens to. Of two at one time the one set first comes first. */
struct sim_timer {
	void (*fire)(struct sim_timer *timer);
	uint64_t at_ns, order;
	struct sim_timer *next, *previous; /* in a day of the calendar */
	uint32_t place;                    /* 0: not set; SIM_NEAR: in the calendar; otherwise in the heap */
};

#define SIM_NEAR UINT32_MAX

/* Timers of one while, in order. */
struct sim_day {
	struct sim_timer *first, *last;
};

enum {
	SIM_DAY_BITS = 10, /* a day has 2^10 ns */
	SIM_DAYS = 4096,
	SIM_WORDS = SIM_DAYS / 64,
};

/*
 * What will happen: soon, by days of a calendar that turns with the time; later, in a heap whose root is at 1. What is
 * in the heap stays there until it happens.
 */
struct sim_timers {
	struct sim_day days[SIM_DAYS];
	uint64_t occupied[SIM_WORDS]; /* days */
	uint64_t words;               /* of occupied, that are not zero */
	struct sim_timer **heap;
	unsigned heap_count, heap_room;
	uint64_t order;
};

struct xk_sim {
	uint64_t seed, now_ns, until_ns;
	struct sim_timers timers;
	struct xk_sim_host *ready_first, **ready_last; /* hosts with something to go on with, now */
	struct xk_context own;                         /* of the thread that runs the world */
	struct sim_thread *running;                    /* NULL: no thread of a host, the world itself */
	bool stepping;
	_Atomic uint64_t steps;
	const char *_Atomic booting; /* name of the host that is being booted, or NULL */
	struct xk_sim_host *hosts, **hosts_last;
	unsigned host_count;
	struct xk_sim_link *links, **links_last;
	void (*see)(void *context, const struct xk_sim_record *record);
	void *see_context;
	uint64_t hash;
	struct memory_kept kept;       /* of all hosts */
	struct sim_frame *kept_frames; /* by next, with room for SIM_FRAME_KEPT bytes */
	unsigned kept_frame_count;
	uint8_t scratch[XK_MSG_MAX];
};

void sim_timers_fini(struct xk_sim *sim);
/* Sets timer, or sets it anew. 0 or -ENOMEM. */
int sim_timer_set(struct xk_sim *sim, struct sim_timer *timer, uint64_t at_ns);
/* Of one that is not set: nothing. */
void sim_timer_cancel(struct xk_sim *sim, struct sim_timer *timer);
/* What happens next, which stays set; NULL: nothing. */
struct sim_timer *sim_timer_first(struct xk_sim *sim);

/* ---- the world (world.c) ---- */

/* Whether nothing at all happens until at_ns (included), and the world runs so far: time may be passed at once. */
bool sim_is_quiet_until(struct xk_sim *sim, uint64_t at_ns);

/* Counts a step of the world. Only the thread that runs the world writes the count. */
static inline void
sim_count_step(struct xk_sim *sim)
{
	atomic_store_explicit(&sim->steps, atomic_load_explicit(&sim->steps, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

void sim_record(struct xk_sim *sim, const struct xk_sim_record *record);

/* ---- threads (processor.c) ---- */

struct sim_thread {
	struct xk_fiber fiber;
	struct xk_sim_host *host;
	void (*body)(void *argument);
	void *argument;
	struct sim_thread *next;     /* in the host's ready queue */
	struct sim_thread *all_next; /* of the host */
	struct sim_timer alarm;      /* ends its wait */
	uint64_t owed_ns;            /* of the processor, before it goes on */
	uint64_t switches;
	bool driver, detached, waiting, ended;
};

struct sim_processor {
	struct sim_thread *threads, *driver;
	struct sim_thread *ready_first, **ready_last;
	struct sim_thread *busy; /* the processor works for it, until busy_timer */
	struct sim_timer busy_timer;
	uint64_t busy_since_ns;
	bool driver_ready;
	bool woken;  /* before it slept */
	bool frozen; /* the host goes down: its threads go on without time */
};

extern const struct xk_thread_ops sim_thread_ops;

void sim_processor_init(struct sim_processor *processor);
/* Lets threads of host go on until they wait or work. */
void sim_processor_run(struct xk_sim_host *host);
/* The host goes down: time does not pass for its threads any more, so that they can be ended. */
void sim_processor_freeze(struct xk_sim_host *host);
/* Something costs so much of host's processor: the running thread pays, the driver at once. */
void sim_processor_charge(struct xk_sim_host *host, uint64_t ns);
/* As xk_platform_ops say. */
void sim_platform_sleep(struct xk_platform *platform, uint64_t deadline_ns);
void sim_platform_wake(struct xk_platform *platform);
void sim_platform_work(struct xk_platform *platform, uint64_t work_ns);
void sim_platform_stack_switched(struct xk_platform *platform);
uint64_t sim_platform_now_ns(struct xk_platform *platform);

/* ---- devices (device.c) ---- */

struct sim_frame {
	struct sim_timer timer;
	struct sim_device *to;
	struct sim_device *from; /* while it waits for the link */
	uint64_t boot;           /* ... and of which boot of its host */
	struct sim_frame *next;  /* at the device */
	const char *fault;       /* what happened to it and did not stop it */
	size_t len;
	uint8_t bytes[];
};

struct sim_device {
	struct xk_sim_host *host;
	struct xk_sim_link *link;
	char *name;
	uint64_t address;
	unsigned number, station;
	struct sim_frame *first, **last; /* arrived */
	unsigned count;
	bool armed;
	struct xk_port *port; /* NULL: the host is down, or has not asked for it */
};

struct xk_sim_link {
	struct xk_sim_link *next;
	char *name;
	struct sim_link_config config;
	struct sim_link *model;
	uint64_t last_ns;            /* it was asked with */
	struct sim_device **devices; /* by station */
	unsigned device_count;
};

/* Gives back what lies in frame, and frame. */
void sim_frame_free(struct xk_sim *sim, struct sim_frame *frame);
/* Frees what was kept. */
void sim_frames_fini(struct xk_sim *sim);
/* Frees what waits at device. */
void sim_device_clear(struct sim_device *device);
/* A frame under way, whose timer this is; frees it. Whether it is one. */
bool sim_frame_forget(struct xk_sim *sim, struct sim_timer *timer);
void sim_links_free(struct xk_sim *sim);

/* ---- hosts (hosts.c) ---- */

struct xk_sim_host {
	struct memory_platform memory; /* its platform */
	/* what every turn touches */
	struct xk_sim *sim;
	struct xk_sim_host *ready_next;
	struct xk_kernel *kernel; /* NULL: it is down */
	struct sim_processor processor;
	struct xk_sim_host_counts counts;
	bool queued; /* in the world's list of ready hosts */
	unsigned device_count;
	struct sim_device devices[SIM_DEVICES_MAX];

	struct xk_sim_host_config config;
	struct xk_sim_host *next;
	char *name;
	unsigned number;
	struct sim_random random;
	uint64_t boots;
};

static inline struct xk_sim_host *
sim_host_of(struct xk_platform *platform)
{
	return xk_container_of(platform, struct xk_sim_host, memory.platform);
}

/* host has something to go on with. */
void sim_host_ready(struct xk_sim_host *host);
void sim_hosts_free(struct xk_sim *sim, unsigned *left);

#endif
