/*
 * kernel.h - one host: a graph of protocols over ports, and the engine that carries messages through it.
 *
 * For programs; protocols do not include it. The life of a kernel: xk_kernel_new, xk_kernel_add_port, protocols and
 * edges (graphs/graph.h does that from a file), xk_kernel_init, then xk_kernel_start and xk_kernel_stop (a driver
 * thread of its own), xk_kernel_run (the caller is the driver) or xk_kernel_turn (now and then), and in the end
 * xk_kernel_free. All state hangs off the kernel: one process may hold several. For other people's programs, with
 * examples: docs/embedding.md.
 *
 * A kernel may have several drivers, each with a core, a queue of each device and detachable stacks of its own
 * (xk_kernel_add_driver); graph, pool and events are shared.
 */
#ifndef XK_KERNEL_H
#define XK_KERNEL_H

#include <stdio.h>

#include "xkernel/platform.h"
#include "xkernel/protocol.h"

struct xk_capture;

/* Who carries an arriving message up the graph. */
enum xk_mode {
	XK_REGULAR, /* the driver gives every message to an input thread */
	XK_IPP,     /* interrupt protocol processing: the driver itself, on a detachable stack */
};

/* How the driver waits for frames. */
enum xk_driver_policy {
	XK_DRIVER_POLL,      /* never sleeps */
	XK_DRIVER_INTERRUPT, /* sleeps whenever nothing is there */
	XK_DRIVER_ADAPTIVE,  /* polls a while after work, then sleeps */
};

struct xk_kernel_config {
	const char *name; /* in traces: "client", "server" */
	struct xk_platform *platform;
	enum xk_mode mode;
	enum xk_driver_policy driver;
	unsigned threads;           /* input threads (regular), pool (IPP); 0: 1 */
	unsigned stacks;            /* detachable stacks of each driver, one of them in reserve; 0: 64; at least 2 */
	int core;                   /* the first driver and threads run on this core; -1: where the system likes */
	bool yields;                /* give the core away after an empty poll: somebody else polls on it */
	uint64_t adaptive_ns;       /* how long `adaptive` polls after work; 0: 50 us */
	FILE *trace;                /* NULL: standard error */
	struct xk_capture *capture; /* where protocols show what passes them (capture.h); NULL: nowhere */
};

/* A host without protocols. config and its name are copied. NULL: no memory, or an impossible config. Main thread. */
struct xk_kernel *xk_kernel_new(const struct xk_kernel_config *config);

/*
 * One more driver, which sleeps on platform and makes its messages there, and takes frames of the ports whose `driver` is
 * the number that this returns (1, 2, ...; config.platform's is 0). Driver and every so manieth thread of the pool run on
 * core; -1: where the system likes. -EINVAL: time is virtual or threads are the platform's own, so that there is one
 * driver; -ENOSPC: there are XK_DRIVERS; -ENOMEM. Main thread, before ports and protocols are added.
 */
int xk_kernel_add_driver(struct xk_kernel *kernel, struct xk_platform *platform, int core);

/* How many there are. Any context. */
unsigned xk_kernel_drivers(const struct xk_kernel *kernel);

/*
 * Adds a port, to be found by its name. Those of one name are a device's lanes, at most one for each driver (platform.h);
 * a driver that has none transmits by way of one that has. The kernel closes it in xk_kernel_free. Main thread, before
 * init.
 */
void xk_kernel_add_port(struct xk_kernel *kernel, struct xk_port *port);

/* The port called name, of its lanes the one that was added first; NULL: there is none. For the port protocol's init. */
struct xk_port *xk_kernel_find_port(struct xk_kernel *kernel, const char *name);

/* An instance of type, its settings at their initial values. Lowers first. NULL: no memory. Main thread. */
struct xk_protocol *xk_kernel_add_protocol(struct xk_kernel *kernel, const struct xk_protocol_type *type,
					   const char *name);

/* The next lower of upper, in the order of its roles. NULL: no memory. Main thread. */
struct xk_edge *xk_kernel_add_edge(struct xk_kernel *kernel, struct xk_protocol *upper, struct xk_protocol *lower,
				   const char *role);

/* The graph's budget for each message in the driver, and how much may accumulate; 0: none. Before init. */
void xk_kernel_set_budget(struct xk_kernel *kernel, uint64_t budget_ns, unsigned carry);

/*
 * Initialises every protocol, lowers first. 0, or what an init returned; *failed is then that protocol, and those
 * before it have been given back. Main thread.
 */
int xk_kernel_init(struct xk_kernel *kernel, struct xk_protocol **failed);

/* The instance called name; NULL: there is none. The graph does not change once it is initialised. Any context. */
struct xk_protocol *xk_kernel_find(struct xk_kernel *kernel, const char *name);

/* The first instance, lowers before uppers, the others by ->next; NULL: none. Any context. */
struct xk_protocol *xk_kernel_first(struct xk_kernel *kernel);

/* Starts each driver on a thread of its own, and the pool. 0 or -errno. */
int xk_kernel_start(struct xk_kernel *kernel);

/*
 * Ends the drivers and the pool; parked shepherds get -ECANCELED and unwind. Returns when all have ended. Main thread.
 */
void xk_kernel_stop(struct xk_kernel *kernel);

/*
 * The caller becomes the driver until xk_kernel_halt (on a virtual clock: usually called by what the platform does when
 * time has come to its end). Of several it becomes the first; the others run on threads meanwhile.
 */
void xk_kernel_run(struct xk_kernel *kernel);

/*
 * For programs with a loop of their own: the caller is the driver for one turn (at most XK_BURST frames that have arrived,
 * shepherds that can go on, due events; what they send is sent), and never sleeps. When there is something to do next, by
 * the platform's clock: 0, now, as far as can be known; UINT64_MAX: not before a frame arrives or other code of the
 * program asks for something.
 *
 * One thread at a time, no shepherd; a kernel of mode XK_IPP that was not started, has one driver and stands on a platform
 * without threads of its own. There is no pool: what leaves the driver goes on in one of the next turns. So nothing that
 * may wait for an answer (xk_open) is called by this thread itself: xk_thread_start. Its context switches are not counted.
 */
uint64_t xk_kernel_turn(struct xk_kernel *kernel);

/* Asks the drivers to leave xk_kernel_run soon. Any context. */
void xk_kernel_halt(struct xk_kernel *kernel);

/*
 * Changes mode and number of threads (0: 1) of a running kernel, between messages: what is queued or runs ends first.
 * Main thread (not a shepherd); waits. 0; -EBUSY: shepherds were still under way after two seconds (parked ones do not
 * count); -EAGAIN, -ENOMEM: a thread could not be made.
 */
int xk_kernel_reconfigure(struct xk_kernel *kernel, enum xk_mode mode, unsigned threads);

/* How it carries messages now. Any context. */
enum xk_mode xk_kernel_mode(const struct xk_kernel *kernel);

/*
 * Recomputes what crossing each edge has to watch, after edges were changed by hand (handoff override, trace). Main
 * thread.
 */
void xk_kernel_rewatch(struct xk_kernel *kernel);

/*
 * What crosses edges is counted and timed from now on (struct xk_edge, counts), or no more: costs some
 * nanoseconds a crossing while it is wanted, and nothing otherwise. After init; any context.
 */
void xk_kernel_count_edges(struct xk_kernel *kernel, bool wanted);

/*
 * Tracks the owner of each message: a protocol that hands on a message it does not own is named, and the program aborts
 * (xk_msg_cross in msg.h). Costs a few nanoseconds per crossing. Debug builds detect the use of freed messages even
 * without this. Call it after xk_kernel_init and before the kernel runs.
 */
void xk_kernel_watch_owners(struct xk_kernel *kernel);

/*
 * Closes all that is left, in the order of the graph, and frees the kernel with its ports. Not the platform. Names
 * protocols that still hold messages on standard error, if owners were tracked and the platform offers each_out.
 */
void xk_kernel_free(struct xk_kernel *kernel);

/* Counts since the kernel was made; taken at any time, exact when nothing runs. */
struct xk_kernel_stats {
	uint64_t turns;          /* of the drivers */
	uint64_t frames;         /* taken from ports */
	uint64_t clock_reads;    /* by the driver and on messages' way */
	uint64_t stack_switches; /* all of them, of drivers and pool */
	uint64_t sleeps;         /* of the drivers */
	uint64_t locks;          /* xk_lock taken */
	uint64_t handoffs[XK_HANDOFF_REASONS];
	uint64_t handoffs_event; /* of these, by event handlers and application code rather than messages */
	uint64_t fallbacks;      /* handoffs passed over because no stack was left */
	uint64_t no_stack;       /* waits that failed because no stack was left */
	uint64_t parks, resumes_thread, resumes_driver;
	uint64_t overruns;        /* budgets spent that no crossing caught */
	uint64_t overtaken;       /* messages handed off while their session's next could pass them */
	uint64_t stalled;         /* times all input threads were found blocked with work waiting */
	uint64_t foreign_waits;   /* waits of threads that are no shepherds */
	uint64_t driver_switches; /* voluntary context switches of the driver threads, the system's own count */
	uint64_t thread_switches; /* ... of all other threads of the kernel */
	unsigned stacks_parked;
};

void xk_kernel_stats(struct xk_kernel *kernel, struct xk_kernel_stats *stats);

/*
 * The same of one driver: what it has done itself, and handoffs, parks and resumes of shepherds on its stacks. What is
 * not any driver's (stalled, foreign_waits, thread_switches, stacks_parked; clock_reads, stack_switches and locks of
 * threads) is 0.
 */
void xk_kernel_driver_stats(struct xk_kernel *kernel, unsigned driver, struct xk_kernel_stats *stats);

/*
 * Calls see(context, tid, progress) for each driver, each thread of the pool and the event thread. progress changes
 * with every turn, message or event. For watchdogs. Any thread but these. see runs with mutexes held that these threads
 * may need, so it must not wait for their progress.
 */
void xk_kernel_each_thread(struct xk_kernel *kernel, void (*see)(void *context, int tid, uint64_t progress),
			   void *context);

/* The counts of struct xk_kernel_stats (uint64_t each) by name; a name NULL ends them. */
struct xk_kernel_count {
	const char *name;
	size_t offset;
};
extern const struct xk_kernel_count xk_kernel_counts[];

#endif
