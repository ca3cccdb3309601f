/* sim_private.h - internals of the simulated world. */
#ifndef XK_PLATFORM_SIM_SIM_PRIVATE_H
#define XK_PLATFORM_SIM_SIM_PRIVATE_H

#include "platform/sim/memory_private.h"
#include "platform/sim/random.h"
#include "platform/sim/sim.h"
#include "xkernel/engine/fiber.h"

enum {
	SIM_DEVICES_MAX = 4,     /* devices of a host */
	SIM_DEVICE_QUEUE = 1024, /* frames waiting at a device for the driver */
	SIM_FRAME_KEPT = 128,    /* bytes of the longest frame kept for reuse */
	SIM_FRAMES_KEPT = 256,   /* frames kept for reuse */
	SIM_DUE_MAX = 8,         /* events of one moment whose order is chosen */
};

#if defined(XK_CONTEXT_ASAN)
enum { SIM_RECYCLES = false }; /* every buffer and frame is a malloc of its own, which detects misuse */
#else
enum { SIM_RECYCLES = true };
#endif

/* ---- time (timers.c) ---- */

/*
 * A timer, embedded in the object that it concerns. Timers with the same time fire in the order in which they were set.
 */
struct sim_timer {
	void (*fire)(struct sim_timer *timer);
	struct xk_sim_host *host; /* that it concerns, or NULL: an act */
	uint64_t at_ns, order;
	struct sim_timer *next, *previous; /* in a day of the calendar */
	uint32_t place;                    /* 0: not set; SIM_NEAR: in the calendar; otherwise index in the heap */
};

#define SIM_NEAR UINT32_MAX

/* The timers of one day, in order. */
struct sim_day {
	struct sim_timer *first, *last;
};

enum {
	SIM_DAY_BITS = 10, /* a day has 2^10 ns */
	SIM_DAYS = 4096,
	SIM_WORDS = SIM_DAYS / 64,
};

/* Near timers are in a circular calendar, far ones in a heap with its root at 1, where they stay until they fire. */
struct sim_timers {
	struct sim_day days[SIM_DAYS];
	uint64_t occupied[SIM_WORDS]; /* a bit for each day that has a timer */
	uint64_t words;               /* a bit for each element of `occupied` that is not zero */
	struct sim_timer **heap;
	unsigned heap_count, heap_room;
	uint64_t order;
};

struct xk_sim {
	uint64_t seed, now_ns, until_ns;
	struct sim_timers timers;
	struct xk_sim_host *ready_first, **ready_last; /* hosts with a thread to run */
	struct xk_context own;                         /* context of the thread that runs the world */
	struct sim_thread *running;                    /* NULL: the world itself */
	bool stepping;
	_Atomic uint64_t steps;
	const char *_Atomic booting; /* name of the host that is being booted, or NULL */
	struct xk_sim_host *hosts, **hosts_last;
	unsigned host_count;
	struct xk_sim_link *links, **links_last;
	void (*see)(void *context, const struct xk_sim_record *record);
	void *see_context;
	uint64_t (*choose)(void *context, const struct xk_sim_choice *choice); /* NULL: the usual options */
	void *choose_context;
	bool chooses_all;
	unsigned leaked;               /* buffers, of hosts that were chosen to crash */
	uint64_t events;               /* timers that have fired */
	uint64_t buffers, stacks;      /* that hosts have asked for */
	uint64_t timers_due;           /* times at which several of a host's timers were due */
	uint64_t hash, frames;         /* frames: number sent so far */
	struct memory_kept kept;       /* buffers of all hosts */
	struct sim_frame *kept_frames; /* chained by next; each has room for SIM_FRAME_KEPT bytes */
	unsigned kept_frame_count;
	uint8_t scratch[XK_MSG_MAX];
};

void sim_timers_fini(struct xk_sim *sim);
/* Sets or resets the timer. Returns 0 or -ENOMEM. */
int sim_timer_set(struct xk_sim *sim, struct sim_timer *timer, uint64_t at_ns);
/* Sets a timer again that was cancelled, with the time and place in the order that it had. */
void sim_timer_restore(struct xk_sim *sim, struct sim_timer *timer);
/* Cancels the timer if it is set. */
void sim_timer_cancel(struct xk_sim *sim, struct sim_timer *timer);
/* Returns the next timer, which stays set, or NULL. */
struct sim_timer *sim_timer_first(struct xk_sim *sim);

/* ---- the world (world.c) ---- */

/* Returns true if no event happens up to at_ns and the run does not end before: time may then pass at once. */
bool sim_is_quiet_until(struct xk_sim *sim, uint64_t at_ns);

/* Counts a step of the world. Only the thread that runs the world writes the count. */
static inline void
sim_count_step(struct xk_sim *sim)
{
	atomic_store_explicit(&sim->steps, atomic_load_explicit(&sim->steps, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* Returns the option chosen; 0 if nobody chooses. */
static inline uint64_t
sim_choose(struct xk_sim *sim, const struct xk_sim_choice *choice)
{
	return xk_likely(sim->choose == NULL) ? 0 : sim->choose(sim->choose_context, choice);
}

/* Adds the record to the world's hash and passes it to the watcher. */
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
	uint64_t owed_ns;            /* processor time to pay before the thread continues */
	uint64_t switches;
	bool driver, detached, waiting, ended;
};

struct sim_processor {
	struct sim_thread *threads, *driver;
	struct sim_thread *ready_first, **ready_last;
	struct sim_thread *busy; /* thread for which the processor works until busy_timer fires */
	struct sim_timer busy_timer;
	uint64_t busy_since_ns;
	bool driver_ready;
	bool woken;  /* the driver was woken before it slept */
	bool frozen; /* the host is going down: its threads run without taking time */
};

extern const struct xk_thread_ops sim_thread_ops;

void sim_processor_init(struct sim_processor *processor);
/* Runs the host's threads until all wait or one works. */
void sim_processor_run(struct xk_sim_host *host);
/* Stops time for the threads of a host that is going down, so that they can end. */
void sim_processor_freeze(struct xk_sim_host *host);
/* Charges the running thread with processor time. The driver pays at once. */
void sim_processor_charge(struct xk_sim_host *host, uint64_t ns);
/* Operations of xk_platform_ops. */
void sim_platform_sleep(struct xk_platform *platform, uint64_t deadline_ns);
void sim_platform_wake(struct xk_platform *platform);
void sim_platform_work(struct xk_platform *platform, uint64_t work_ns);
void sim_platform_stack_switched(struct xk_platform *platform);
uint64_t sim_platform_now_ns(struct xk_platform *platform);

/* ---- devices (device.c) ---- */

struct sim_frame {
	struct sim_timer timer;
	struct sim_device *device; /* the sender's while the frame waits for the link, then the receiver's */
	uint64_t boot;             /* the sending host's boot */
	uint64_t number;           /* for records */
	struct sim_frame *next;    /* in the receiving device's queue */
	const char *fault;         /* the fault of a frame that arrives nevertheless */
	bool is_late;              /* will let the next event of its receiver's precede it */
	size_t len;
	uint8_t bytes[];
};

struct sim_device {
	struct xk_sim_host *host;
	struct xk_sim_link *link;
	char *name;
	uint64_t address;
	unsigned number, station;
	struct sim_frame *first, **last; /* arrived frames */
	unsigned count;
	bool armed;
	uint64_t card_free_ns; /* time at which its card finishes all its work */
	unsigned card_count;   /* frames to be sent that the card is processing */
	struct xk_port *port;  /* NULL: the host is down, or has not requested the port */
};

struct xk_sim_link {
	struct xk_sim_link *next;
	char *name;
	struct sim_link_config config;
	struct sim_link *model;
	uint64_t last_ns;            /* latest time passed to the model */
	struct sim_device **devices; /* by station */
	unsigned device_count;
};

/* Lets the frames of the list arrive now. */
void sim_frames_arrive(struct xk_sim *sim, struct sim_frame *frames);
/* Frees the kept frames. */
void sim_frames_fini(struct xk_sim *sim);
/* Frees the frame in flight that the timer belongs to. Returns false if it belongs to something else. */
bool sim_frame_discard(struct xk_sim *sim, struct sim_timer *timer);
void sim_links_free(struct xk_sim *sim);

/* ---- hosts (hosts.c) ---- */

struct xk_sim_host {
	struct memory_platform memory; /* its platform */
	/* fields used in every step: */
	struct xk_sim *sim;
	struct xk_sim_host *ready_next;
	struct xk_kernel *kernel; /* NULL: the host is down */
	struct sim_processor processor;
	struct xk_sim_host_counts counts;
	bool queued;                               /* in the world's list of ready hosts */
	struct sim_frame *delayed, **delayed_last; /* arrive behind the host's next event */
	unsigned device_count;
	struct sim_device devices[SIM_DEVICES_MAX];

	struct xk_sim_host_config config;
	struct xk_sim_host *next;
	char *name;
	unsigned number;
	struct sim_random random;
	uint64_t boots;
};

/* Takes the host's delayed frames, chained by next. */
static inline struct sim_frame *
sim_delayed_take(struct xk_sim_host *host)
{
	struct sim_frame *delayed = host->delayed;

	host->delayed = NULL;
	host->delayed_last = &host->delayed;
	return delayed;
}

static inline struct xk_sim_host *
sim_host_of(struct xk_platform *platform)
{
	return xk_container_of(platform, struct xk_sim_host, memory.platform);
}

/* Queues a host that has a thread to run. */
void sim_host_ready(struct xk_sim_host *host);
/* Crashes and frees all hosts. Returns the number of leaked buffers. */
unsigned sim_hosts_free(struct xk_sim *sim);

#endif
