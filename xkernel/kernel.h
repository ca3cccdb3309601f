/*
 * kernel.h - one host: a graph of protocols over ports, and the engine that carries messages through it.
 *
 * For programs; protocols do not include it. The life of a kernel: xk_kernel_new, xk_kernel_add_port, protocols and
 * edges (from a file: graphs/graph.h), xk_kernel_init, then xk_kernel_start and xk_kernel_stop (a driver thread of its
 * own), xk_kernel_run (the caller is the driver) or xk_kernel_turn (the caller is the driver from time to time), and
 * xk_kernel_free. All state hangs off the kernel: a process may hold several. docs/embedding.md has examples.
 *
 * A kernel may have several drivers (xk_kernel_add_driver), each with a core, a queue of each device and detachable
 * stacks of its own. Graph, pool and events are shared.
 *
 * Unless a comment says otherwise: main thread; constructors return NULL without memory; int is 0 or -errno.
 */
#ifndef XK_KERNEL_H
#define XK_KERNEL_H

#include <stdio.h>

#include "xkernel/platform.h"
#include "xkernel/protocol.h"

struct xk_capture;
struct xk_pages;
struct xk_trace_sink;

/* The shepherd that carries arriving messages up the graph. */
enum xk_mode {
	XK_REGULAR, /* an input thread, to which the driver gives the message */
	XK_IPP,     /* the driver itself, on a detachable stack: interrupt protocol processing */
};

/* How the driver waits for frames. */
enum xk_driver_policy {
	XK_DRIVER_POLL,      /* never sleeps */
	XK_DRIVER_INTERRUPT, /* sleeps whenever it is idle */
	XK_DRIVER_ADAPTIVE,  /* polls for a while after work, then sleeps */
};

struct xk_kernel_config {
	const char *name; /* in traces: "client", "server" */
	struct xk_platform *platform;
	enum xk_mode mode;
	enum xk_driver_policy driver;
	unsigned threads;           /* number of input threads (regular) or pool threads (IPP); 0: 1 */
	unsigned stacks;            /* detachable stacks per driver, one of them in reserve; at least 2; 0: 64 */
	int core;                   /* of the first driver and of its share of the pool's threads; -1: unpinned */
	bool yields;                /* yield the core after an empty poll, to other pollers on it */
	uint64_t adaptive_ns;       /* how long XK_DRIVER_ADAPTIVE polls after its last work; 0: 50 us */
	FILE *trace;                /* NULL: standard error */
	struct xk_capture *capture; /* receives the messages that taps show (capture.h); NULL: none */
	struct xk_trace_sink *sink; /* receives the steps of the trace (trace.h); NULL: none */
	/* Called when a protocol first asks to end the host (xk_host_end). Any thread; must not wait. NULL: no call. */
	void (*ended)(void *context);
	void *ended_context;
};

/* Whether, and how, protocols have asked to end a host. */
enum xk_ended { XK_ENDED_NOT, XK_ENDED_WELL, XK_ENDED_BADLY };

/* Returns a host without protocols; NULL: no memory, or an impossible config. Copies config and its name. */
struct xk_kernel *xk_kernel_new(const struct xk_kernel_config *config);

/*
 * Adds a driver, which sleeps on platform, makes its messages there, and takes the frames of ports whose `driver` is
 * its number. Pins it, and its share of the pool's threads, to core (-1: unpinned). Before ports and protocols are
 * added.
 *
 * Returns the driver's number (1, 2, ...; that of config.platform is 0); -EINVAL: there can be only one, because time
 * is virtual or threads are the platform's; -ENOSPC: there are XK_DRIVERS already; -ENOMEM.
 */
int xk_kernel_add_driver(struct xk_kernel *kernel, struct xk_platform *platform, int core);

/* Returns the number of drivers. Any context. */
unsigned xk_kernel_drivers(const struct xk_kernel *kernel);

/*
 * Adds a port, found by its name; xk_kernel_free closes it. Ports of one name are a device's lanes, at most one per
 * driver (platform.h); a driver without one transmits through another's. Before init.
 */
void xk_kernel_add_port(struct xk_kernel *kernel, struct xk_port *port);

/* Returns the port called name, the lane that was added first, or NULL. For the port protocol's init. */
struct xk_port *xk_kernel_find_port(struct xk_kernel *kernel, const char *name);

/* Adds an instance of type, with settings at their initial values. Lowers come first. */
struct xk_protocol *xk_kernel_add_protocol(struct xk_kernel *kernel, const struct xk_protocol_type *type,
					   const char *name);

/* Adds the next lower of upper, in the order of its roles. */
struct xk_edge *xk_kernel_add_edge(struct xk_kernel *kernel, struct xk_protocol *upper, struct xk_protocol *lower,
				   const char *role);

/* Sets the graph's budget per message in the driver (0: none), and how many unspent ones accumulate. Before init. */
void xk_kernel_set_budget(struct xk_kernel *kernel, uint64_t budget_ns, unsigned carry);

/* Enables or disables paths (path.h), which are enabled by default. Before init. */
void xk_kernel_set_paths(struct xk_kernel *kernel, bool wanted);

/* Sets what the program shows of the host to its protocols (pages.h); NULL: nothing. Before init. */
void xk_kernel_set_pages(struct xk_kernel *kernel, struct xk_pages *pages);

/*
 * Initializes all protocols, lowers first. Returns 0 or -errno. If an init fails, *failed is that protocol, and those
 * before were undone; NULL: there was no memory for the ports' paths.
 */
int xk_kernel_init(struct xk_kernel *kernel, struct xk_protocol **failed);

/* Returns the instance called name, or NULL. The graph does not change after init. Any context. */
struct xk_protocol *xk_kernel_find(struct xk_kernel *kernel, const char *name);

/* Returns the first instance, or NULL; ->next leads on, lowers before uppers. Any context. */
struct xk_protocol *xk_kernel_first(struct xk_kernel *kernel);

/*
 * Asks all protocols for their promises (upi.h). Returns NULL, or the first broken promise, and stores its protocol. Only
 * while the kernel does nothing, as between the steps of a simulated world.
 */
const char *xk_kernel_promise(struct xk_kernel *kernel, bool at_rest, struct xk_protocol **broken);

/* Starts each driver on a thread of its own, and the pool. */
int xk_kernel_start(struct xk_kernel *kernel);

/*
 * Ends the drivers and the pool, and waits for them. Parked shepherds get -ECANCELED and unwind. Messages and event
 * handlers among them that wait without bound, or have waited for a second, are reported on standard error.
 */
void xk_kernel_stop(struct xk_kernel *kernel);

/* Runs the first driver in this thread, others in threads, until xk_kernel_halt (often at the end of virtual time). */
void xk_kernel_run(struct xk_kernel *kernel);

/*
 * Runs one turn of the driver in the calling thread, for programs with a loop of their own. A turn takes at most
 * XK_BURST arrived frames, continues shepherds that can go on, runs due events and sends what they push. It never
 * sleeps. Returns the time of the next work, by the platform's clock; 0: there may be work now; UINT64_MAX: none until
 * a frame arrives or the program's other code asks for something. Between turns, the driver's loop rests on its stack,
 * and this thread's frames go out at once; other threads' frames wait for the next turn.
 *
 * The clock is read in each turn without a frame, and in others as rarely as in a driver's thread. After a turn with
 * frames, which returns 0, run another one before a pause, or events may be late.
 *
 * One thread at a time, not a shepherd; it may be a different thread each time, if the previous one is not pushing. The
 * kernel has mode XK_IPP, was not started, and has one driver, on a platform without threads of its own. There is no
 * pool: shepherds that leave the driver continue in a later turn. Therefore this thread must not call functions that
 * may wait for an answer (xk_open): use xk_thread_start for these. Its context switches are not counted.
 */
uint64_t xk_kernel_turn(struct xk_kernel *kernel);

/* Asks the drivers to leave xk_kernel_run soon. Any context. */
void xk_kernel_halt(struct xk_kernel *kernel);

/*
 * Changes mode and number of threads (0: 1) of a running kernel between messages: queued and running ones end first. No
 * shepherd; waits. -EBUSY: a driver's turn or a shepherd took more than ten seconds (parked ones do not count);
 * -EAGAIN, -ENOMEM: a thread could not be made.
 */
int xk_kernel_reconfigure(struct xk_kernel *kernel, enum xk_mode mode, unsigned threads);

/* Returns whether a protocol has asked to end this host. Any context. */
enum xk_ended xk_kernel_ended(const struct xk_kernel *kernel);

/* Returns the current mode. Any context. */
enum xk_mode xk_kernel_mode(const struct xk_kernel *kernel);

/* Recomputes each edge's marks, after edges were changed by hand (handoff override, trace). */
void xk_kernel_rewatch(struct xk_kernel *kernel);

/*
 * Starts or stops counting and timing messages that cross edges (`counts` of struct xk_edge): some nanoseconds per
 * crossing while on, none while off. After init; any context.
 */
void xk_kernel_count_edges(struct xk_kernel *kernel, bool wanted);

/*
 * Tracks each message's owner: a protocol that hands on what it does not own is named, and the program aborts
 * (xk_msg_cross). Costs a few nanoseconds per crossing. Debug builds detect use after free even without this. After
 * xk_kernel_init, before the kernel runs.
 */
void xk_kernel_watch_owners(struct xk_kernel *kernel);

/*
 * Closes what is left, in the order of the graph, and frees the kernel and its ports, not the platform. If owners were
 * tracked and the platform has each_out, names protocols that still hold messages on standard error.
 */
void xk_kernel_free(struct xk_kernel *kernel);

/* Counts since the kernel was made, at any time; exact when nothing runs. */
struct xk_kernel_stats {
	uint64_t turns;          /* by the drivers */
	uint64_t frames;         /* taken from ports */
	uint64_t by_path;        /* those of them that went up a path (path.h) */
	uint64_t clock_reads;    /* by drivers, and while carrying messages */
	uint64_t stack_switches; /* of drivers and pool */
	uint64_t sleeps;         /* by the drivers */
	uint64_t locks;          /* xk_lock taken */
	uint64_t handoffs[XK_HANDOFF_REASONS];
	uint64_t handoffs_event; /* those of event handlers and application code, not messages */
	uint64_t fallbacks;      /* handoffs that were skipped because no stack was left */
	uint64_t no_stack;       /* waits that failed because no stack was left */
	uint64_t parks, resumes_thread, resumes_driver;
	uint64_t overruns;        /* spent budgets that no crossing noticed */
	uint64_t overtaken;       /* handed-off messages that their session's next could overtake */
	uint64_t stalled;         /* times that all input threads were blocked with work waiting */
	uint64_t foreign_waits;   /* waits of foreign threads */
	uint64_t driver_switches; /* voluntary context switches of driver threads, as the system counts */
	uint64_t thread_switches; /* those of all other threads of the kernel */
	unsigned stacks_parked;
};

void xk_kernel_stats(struct xk_kernel *kernel, struct xk_kernel_stats *stats);

/* The end of a wait: its timeout, a signal that the waiting code expects, or perhaps none (process.h). */
enum xk_wait_end { XK_WAIT_TIMED, XK_WAIT_SIGNALLED, XK_WAIT_FOREVER };

/* Waiting shepherds of one load and kind of wait, in one function of one protocol. */
struct xk_parked {
	const struct xk_protocol *protocol; /* the semaphore's owner */
	enum xk_load load;
	enum xk_wait_end end;
	uintptr_t from; /* the code that waits, for xk_where_function (engine/where.h) */
	unsigned count;
	uint64_t longest_ns; /* how long the first has waited */
};

/*
 * Stores the waiting shepherds of kernel in at most `room` groups, and returns the number of groups. The last group
 * also counts those that fit no other. At any time; any thread.
 */
unsigned xk_kernel_parked(struct xk_kernel *kernel, struct xk_parked *groups, unsigned room);

/* Returns whether a message waits XK_FOREVER, which is its protocol's mistake. As xk_kernel_parked. */
bool xk_kernel_is_stuck(struct xk_kernel *kernel);

/* "messages", "timed": names of enum xk_load and enum xk_wait_end, for counts. */
extern const char *const xk_load_names[XK_LOADS + 1];
extern const char *const xk_wait_end_names[XK_WAIT_FOREVER + 1];

/*
 * Stores one driver's counts: its own, and the handoffs, parks and resumes of shepherds on its stacks. Those that
 * belong to no driver are 0: stalled, foreign_waits, thread_switches, stacks_parked, and the threads' clock_reads,
 * stack_switches and locks.
 */
void xk_kernel_driver_stats(struct xk_kernel *kernel, unsigned driver, struct xk_kernel_stats *stats);

/*
 * Calls see(context, tid, progress, rests) for each driver, pool thread and event thread, for watchdogs; progress
 * changes with every turn, message or event; rests: the thread is waiting for work, or in xk_semaphore_wait. Any thread
 * but these. see runs with mutexes held that these threads may need: it must not wait for them.
 */
void xk_kernel_each_thread(struct xk_kernel *kernel, void (*see)(void *context, int tid, uint64_t progress, bool rests),
			   void *context);

/* The counts of struct xk_kernel_stats (uint64_t each) by name; a NULL name ends the list. */
struct xk_kernel_count {
	const char *name;
	size_t offset;
};
extern const struct xk_kernel_count xk_kernel_counts[];

#endif
