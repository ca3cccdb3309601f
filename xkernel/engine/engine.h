/* engine.h - the engine's internals, for files of xkernel/ only: the kernel's parts and the calls between them. */
#ifndef XK_ENGINE_H
#define XK_ENGINE_H

#include <pthread.h>

#include "xkernel/engine/spin.h"
#include "xkernel/engine/stack.h"
#include "xkernel/epoch.h"
#include "xkernel/event_private.h"
#include "xkernel/kernel.h"
#include "xkernel/path.h"
#include "xkernel/trace_private.h"
#include "xkernel/upi_private.h"

enum { XK_TRANSMIT_QUEUE = 1024 };

/* ---- shepherds ---- */

enum xk_runner_kind { XK_RUN_DRIVER, XK_RUN_POOL, XK_RUN_EVENTS, XK_RUN_APPLICATION };

/* A waiting shepherd or thread; lies on its stack. */
struct xk_waiter {
	struct xk_waiter *next;               /* in the semaphore */
	struct xk_waiter *all_next, **all_at; /* in the kernel, for stopping */
	struct xk_semaphore *semaphore;
	struct xk_shepherd *shepherd; /* the parked one, or NULL */
	struct xk_token *token;       /* what the blocked thread waits on, or NULL */
	uint64_t since_ns;
	uintptr_t from;         /* the code that waits */
	uint8_t load, end;      /* enum xk_load of what waits (XK_LOADS: a foreign thread), enum xk_wait_end */
	uint64_t spin_until_ns; /* if signalled before then, the driver resumes it, whatever the policy */
	struct xk_event timeout;
	int result;
	int early;           /* the error that came before it was queued, or 0; under the semaphore's lock */
	bool queued;         /* under the semaphore's lock */
	bool is_application; /* a thread of application code blocks */
};

/* The meter of a shepherd, used by its own thread only. */
struct xk_meter {
	_Atomic uint64_t *ns; /* where time is added; NULL: the shepherd is not timed */
	uint64_t since_ns;
	unsigned depth; /* crossings that are counted and have not returned */
};

struct xk_shepherd {
	struct xk_shepherd_head head;
	struct xk_runner *runner; /* the thread that runs it now; NULL: it is parked or runnable */
	struct xk_kernel *kernel;
	struct xk_driver *driver; /* the stack's owner; on a thread's own stack: the driver that took its message */
	struct xk_reader reader;  /* of the kernel's epochs */
	bool detachable;          /* has a stack of its own; false: a thread's */
	bool charged;             /* budgets: what it carries has been accounted for */
	bool in_loop;             /* free, and still inside the driver's loop: it need not be prepared again */
	uint8_t load;             /* enum xk_load */
	const struct xk_protocol *lock_owner; /* of the lock taken last; debug builds */
	uint64_t started_ns;                  /* budgets: when the driver took up the message; time parked is added */
	struct xk_shepherd *next;             /* in the list of free stacks, or runnable */
	struct xk_context context;
	void (*application)(void *argument);
	void *argument;
	unsigned number; /* for traces: "stack 3" */
	struct xk_meter meter;
};

/* Work for a thread of the pool: a shepherd that has left the driver, a message that has arrived, or neither. */
struct xk_work {
	struct xk_shepherd *shepherd;
	struct xk_msg *m;
	struct xk_port *port;
};

/* A thread that runs shepherds. */
struct xk_runner {
	/* touched by every switch and turn */
	enum xk_runner_kind kind;
	unsigned number;
	struct xk_kernel *kernel;
	void (*after)(struct xk_runner *runner, void *argument); /* runs after the next switch, off the old stack */
	void *after_argument;
	_Atomic uint64_t stack_switches, clock_reads, locks; /* this thread's counts */
	_Atomic uint64_t carried; /* messages, shepherds and events; drivers count turns instead */
	_Atomic uint64_t atomics; /* read-modify-writes; debug builds: counted.h */
	_Atomic bool rests;       /* waits for work or a signal, so watchdogs ignore it */

	struct xk_context own;            /* the thread's own stack, while it runs a detachable one */
	struct xk_shepherd shepherd;      /* the thread's, on its own stack */
	_Atomic uint64_t switches_before; /* the system's count of its switches when it began */
	void (*body)(struct xk_runner *runner);
	pthread_t thread; /* the operating system's */
	void *name;       /* a platform's own */
	_Atomic int tid;  /* 0: not running, or not counted, or a platform's own */
	bool uncounted;   /* the program's thread, for one turn: counting its switches would cost more than the turn */
	struct xk_token token; /* on which an idle pool thread waits */
	struct xk_work given;  /* to that thread; if empty, it finds work itself */
	struct xk_runner *idle_next;
	struct xk_runner *all_next;
};

/* Sets what xk_self returns on this thread (self.c, compiled separately: no other file reads thread-locals). */
void xk_self_set(struct xk_shepherd *shepherd);

static inline bool
xk_on_driver(const struct xk_shepherd *self)
{
	return self->runner->kind == XK_RUN_DRIVER;
}

/*
 * Takes one of the driver's detachable stacks for the driver itself. spare: for application code, which leaves one to a
 * driver that has not begun yet. NULL: none is free.
 */
struct xk_shepherd *xk_shepherd_take(struct xk_driver *driver, bool spare);
/* Puts a stack back on its driver's free list. driver_ends: the driver has left its last one. */
void xk_shepherd_give(struct xk_shepherd *shepherd, bool driver_ends);

/* Moves self from the driver to a thread. Returns false if no stack is left (counted). edge may be NULL. */
bool xk_shepherd_handoff(struct xk_shepherd *self, enum xk_handoff_reason reason, struct xk_edge *edge);

/*
 * Charges the graph's budget with the message that self carries on the driver, when the message ends or leaves. Once
 * per message. caught: a check found the message over budget, so it is no overrun.
 */
void xk_shepherd_charge(struct xk_shepherd *self, bool caught);

/* Parks self until xk_shepherd_resume; `after` runs once self's stack is at rest. False: no stack is left (counted). */
bool xk_shepherd_park(struct xk_shepherd *self, void (*after)(struct xk_runner *runner, void *argument),
		      void *argument);

/* Notes that self is in no session: its load begins or has ended. */
static inline void
xk_shepherd_is_out(struct xk_shepherd *self)
{
	self->head.popped = NULL;
	if (xk_unlikely(self->head.kept != NULL))
		xk_kept_renew(&self->head);
}

/* Brackets a wait of a shepherd on a thread's own stack: it leaves its epoch, and its holds become references. */
void xk_shepherd_block(struct xk_shepherd *self);
void xk_shepherd_unblock(struct xk_shepherd *self);

/* Makes a parked shepherd runnable, on its driver or on a thread. Any context. */
void xk_shepherd_resume(struct xk_shepherd *shepherd, bool by_driver);

/* Makes the driver's config.stacks stacks. Returns 0, or -1: no memory. */
int xk_stacks_init(struct xk_driver *driver);
/* Frees the stacks of all drivers. */
void xk_stacks_fini(struct xk_kernel *kernel);

/* order=session: one popper at a time, in the order of arrival. */
struct xk_order {
	struct xk_semaphore turn;
};

/* ---- counting and timing what crosses edges (meter.c) ---- */

enum { XK_METER_EACH = 13 /* a prime: regular traffic is neither timed always nor never */ };

/* A shepherd's state before it crossed; lies on its stack. */
struct xk_meter_left {
	struct xk_shepherd *self; /* NULL: nothing to return from */
	_Atomic uint64_t *ns;
	const struct xk_edge *shown; /* to the kernel's sink (trace.h); NULL: not */
	enum xk_direction direction;
};

/* Counts a message that crosses edge. Call xk_meter_leave when the crossing call has returned. Any context. */
void xk_meter_enter(struct xk_edge *edge, enum xk_direction direction, struct xk_meter_left *left);
void xk_meter_leave(const struct xk_meter_left *left);
/* Stops the meter of a timed shepherd that is about to wait or to leave its thread, and starts it again. */
void xk_meter_stop(struct xk_shepherd *self);
void xk_meter_go(struct xk_shepherd *self);

/*
 * Handles a message that crosses a watched edge; upwards, the shepherd may be handed off here. When the crossing call
 * has returned, call xk_meter_leave(left).
 */
void xk_cross(struct xk_session *s, struct xk_msg *m, enum xk_direction direction, struct xk_meter_left *left);

/* ---- the pool (pool.c) ---- */

/* Runnable shepherds, in order. */
struct xk_run_list {
	struct xk_shepherd *first, **last;
};

static inline void
xk_run_put(struct xk_run_list *list, struct xk_shepherd *shepherd)
{
	shepherd->next = NULL;
	*list->last = shepherd;
	list->last = &shepherd->next;
}

/* Takes the first. NULL: there is none. */
static inline struct xk_shepherd *
xk_run_pick(struct xk_run_list *list)
{
	struct xk_shepherd *shepherd = list->first;

	if (shepherd != NULL && (list->first = shepherd->next) == NULL)
		list->last = &list->first;
	return shepherd;
}

/* Moves all of `from` to the end of `to`. */
static inline void
xk_run_append(struct xk_run_list *to, struct xk_run_list *from)
{
	if (from->first == NULL)
		return;
	*to->last = from->first;
	to->last = from->last;
	from->first = NULL;
	from->last = &from->first;
}

enum { XK_INPUT_QUEUE = 1024 };

struct xk_pool {
	_Atomic uint32_t lock;
	struct xk_run_list runnable;
	struct xk_work *inputs; /* messages, a ring of input_slots; NULL until regular mode */
	unsigned input_slots;   /* XK_INPUT_QUEUE, and a burst for each further driver */
	unsigned input_first, input_count;
	_Atomic unsigned queued;  /* shepherds and messages, readable without the lock */
	struct xk_runner *idle;   /* most recently idle first */
	_Atomic unsigned threads; /* running */
	_Atomic unsigned blocked; /* threads that wait in the middle of a message */
	bool ends;
	uint32_t want_room;          /* a bit for each driver that found the queue full and may wait for room */
	_Atomic uint64_t stalled_ns; /* when all input threads were first seen blocked; 0: they are not */
	pthread_mutex_t runners_mutex;
	struct xk_runner *runners; /* under the mutex: others read their counts */
};

void xk_pool_init(struct xk_pool *pool);
void xk_pool_fini(struct xk_pool *pool);
/* Makes the queue large enough for mode and drivers. 0 or -ENOMEM. Main thread, when no message is queued. */
int xk_pool_prepare(struct xk_pool *pool, enum xk_mode mode, unsigned drivers);
/* Starts or ends threads until there are count. Main thread. 0 or -EAGAIN. */
int xk_pool_resize(struct xk_kernel *kernel, unsigned count);
/*
 * Returns how many messages the queue has room for; after 0, driver is woken once there is room again. Other drivers
 * may take the same room: see xk_pool_put.
 */
unsigned xk_pool_room(struct xk_pool *pool, const struct xk_driver *driver);
/* Gives messages to idle threads and queues the rest: at most XK_BURST, for which the driver has seen room. Driver. */
void xk_pool_put(struct xk_kernel *kernel, struct xk_port *port, struct xk_msg *const *burst, unsigned count);
/* Gives a runnable shepherd to an idle thread, or queues it. If there are no threads, its driver runs it. */
void xk_pool_run(struct xk_kernel *kernel, struct xk_shepherd *shepherd);

/*
 * Takes a shepherd or else a message for the runner, and wakes drivers that wait for the room; waits if there is none.
 * *work may be empty after a wait. Returns false if the runner's thread is to end.
 */
bool xk_pool_take(struct xk_runner *runner, struct xk_work *work);
/* Makes the pool's threads end when there is no more work. */
void xk_pool_end(struct xk_kernel *kernel);

/* ---- threads, of the operating system or the platform's own (thread.c) ---- */

/* Starts a thread that runs body(runner). detached: it is not joined, and its body frees the runner. 0 or -EAGAIN. */
int xk_runner_start(struct xk_kernel *kernel, struct xk_runner *runner, enum xk_runner_kind kind, bool detached,
		    void (*body)(struct xk_runner *runner));
/* Returns when the runner's body has returned. */
void xk_runner_join(struct xk_runner *runner);
/* Returns how often a running thread has waited, by the system's or the platform's count. */
uint64_t xk_runner_switches(const struct xk_runner *runner);

void xk_token_init(struct xk_token *token);
void xk_token_fini(struct xk_token *token);
/* Waits until token is posted, or until deadline_ns by the platform's clock (UINT64_MAX: no deadline). */
void xk_token_wait(struct xk_kernel *kernel, struct xk_token *token, uint64_t deadline_ns);
void xk_token_post(struct xk_kernel *kernel, struct xk_token *token);
/* Sleeps for nap_ns, between two checks. */
void xk_thread_nap(struct xk_kernel *kernel, uint64_t nap_ns);

/* Called by a runner's body first and last. */
void xk_runner_begin(struct xk_runner *runner);
void xk_runner_end(struct xk_runner *runner);

/* ---- owners of messages (owner.c) ---- */

/*
 * Reports, on standard error, each protocol of kernel that still holds messages, or counts buffers as kept (then debug
 * builds abort). After everything else is freed.
 */
void xk_owner_report_lost(struct xk_kernel *kernel);

/* ---- waiting (parked.c) ---- */

/* Reports that the running shepherd must not wait on semaphore, and aborts. */
__attribute__((noreturn, cold)) void xk_wait_refuse(const struct xk_semaphore *semaphore, const char *why);

/*
 * Reports, on standard error, messages and event handlers of kernel that wait without bound or have waited for long.
 * Call it before their waits are cancelled.
 */
void xk_parked_report(struct xk_kernel *kernel);

/* As xk_parked_report, for a kernel that does not stop: all that still wait although their waits were cancelled. */
void xk_parked_report_left(struct xk_kernel *kernel);

/* Reports that the calling thread unlocks lock, which is not held, and aborts. */
__attribute__((noreturn, cold)) void xk_unlock_refuse(const struct xk_lock *lock);

/* Reports that self, whose message, event or application has ended, holds a lock, and aborts. */
__attribute__((noreturn, cold)) void xk_lock_refuse_end(const struct xk_shepherd *self);

/* In debug builds, calls xk_lock_refuse_end if self holds a lock. */
static inline void
xk_debug_let_go(const struct xk_shepherd *self)
{
	if (XK_IS_DEBUG && xk_unlikely(self->head.locks != 0))
		xk_lock_refuse_end(self);
}

/* ---- transmit (transmit.c) ---- */

/* A port's outgoing frames. Its holder may call the port's transmit; the port's driver holds it while awake. */
struct xk_transmit {
	struct xk_driver *driver;
	_Atomic bool stuck;                 /* the device was full when transmit was last released */
	unsigned count;                     /* in batch */
	struct xk_msg *batch[2 * XK_BURST]; /* the driver's own frames, sent at the end of its turn */
	_Atomic uint32_t held;
	_Atomic bool wanted;     /* the driver waits for it: others release it */
	_Atomic unsigned queued; /* frames of all others, and those behind them; at most XK_TRANSMIT_QUEUE */
	_Atomic uint32_t lock;   /* protects first and last */
	struct xk_msg *first, **last;
};

/* Slow half of xk_transmit_flush; not for other callers. */
void xk_transmit_send(struct xk_port *port);

/* Sends the driver's batch and what others have queued. Holding transmit. */
static inline void
xk_transmit_flush(struct xk_port *port)
{
	struct xk_transmit *transmit = port->transmit;

	if (transmit->count > 0 || atomic_load_explicit(&transmit->queued, memory_order_seq_cst) > 0)
		xk_transmit_send(port);
}

/* Drain the queue unless the device is full, and release transmit; acquire it again, waiting for its holder. */
void xk_transmit_release(struct xk_port *port);
void xk_transmit_acquire(struct xk_port *port);
/* Frees unsent frames. When nothing runs. */
void xk_transmit_free(struct xk_port *port);

/* ---- what tests have reached (stats.c) ---- */

/*
 * Appends the names of kernel's counts, and of its protocols' drop reasons and counters, that are not zero to the file
 * that the environment variable XK_COUNTERS_FILE names, if it is set. When nothing runs. Debug builds only, so that
 * nothing slows the end of a host in others.
 */
#if defined(XK_DEBUG)
void xk_reached_note(struct xk_kernel *kernel);
#else
static inline void
xk_reached_note(struct xk_kernel *kernel)
{
	(void)kernel;
}
#endif

/* ---- the driver (driver.c) ---- */

/* A thread that takes frames from its own queue of each device, on its own stacks. */
struct xk_driver {
	/* aligned: several drivers share no cache line */
	_Alignas(64) struct xk_port *port; /* from which the burst came */
	unsigned next, count;              /* of the burst */
	unsigned resumes_left;             /* shepherds that this turn has yet to resume */
	_Atomic unsigned runnable;
	uint64_t now_ns;        /* the last reading of the clock */
	uint64_t busy_ns;       /* when it last had something to do, for the adaptive policy */
	uint64_t poll_until_ns; /* until when a shepherd spins on a reply */
	uint64_t control_ns;    /* when poll_control is next due */
	_Atomic uint32_t sleeping;
	_Atomic bool halted;
	_Atomic bool paused, has_paused; /* must take no frames, for reconfiguration; and takes none */
	bool started;                    /* on a thread of its own */
	_Atomic bool takes_turns;        /* a program's (xk_kernel_turn): the driver is halted except in them, */
	struct xk_shepherd *resting;     /* ... its loop rests on this stack between them, */
	_Atomic pthread_t turner;        /* ... and this thread called for the last one, and holds the transmits */
	bool events_due;
	int clock_interval; /* messages between two clock readings */
	int clock_left;     /* messages until the next reading */
	unsigned index;
	struct xk_kernel *kernel;
	struct xk_platform *platform;             /* on which it sleeps */
	struct xk_port *ports;                    /* its own, linked by beside */
	_Atomic uint64_t turns, sleeps, overruns; /* its own counts, */
	_Atomic uint64_t kept;                    /* ... and its shepherds' of buffers, for all protocols (xk_keep) */
	struct xk_runner runner;
	struct xk_msg *burst[XK_BURST];       /* what this turn has received, */
	struct xk_map_place places[XK_BURST]; /* ... and the places of its paths, if expects */
	bool expects;
	uint64_t credit_ns;     /* unspent budget of the graph */
	struct xk_run_list own; /* runnable shepherds queued by the driver itself, and those taken from `others` */
	unsigned own_runnable;
	_Atomic uint32_t lock;     /* of `others` */
	struct xk_run_list others; /* ... queued by other threads; `runnable` of them */
	/* detachable stacks */
	_Atomic uint32_t stacks_lock;
	bool has_stack; /* the driver runs on one of them; under the lock */
	struct xk_shepherd *stacks_free;
	void (*loop)(struct xk_shepherd *self); /* what a stack does on the driver: xk_driver_loop */
	/* counts of its shepherds, from any thread */
	_Atomic uint64_t handoffs[XK_HANDOFF_REASONS];
	_Atomic uint64_t handoffs_event, fallbacks, no_stack, parks, resumes_thread, resumes_driver, overtaken;
	_Atomic uint64_t ended_switches;
	int core;
	struct xk_driver *next_driver; /* in the kernel */
};

/* Runs the driver on a detachable stack. Returns when self has left the driver, or the driver is halted. */
void xk_driver_loop(struct xk_shepherd *self);
/* Returns whether the calling thread, which runs no shepherd now, takes the driver's turns. */
static inline bool
xk_driver_turns_here(const struct xk_driver *driver)
{
	return atomic_load_explicit(&driver->takes_turns, memory_order_relaxed) &&
	       pthread_equal(atomic_load_explicit(&driver->turner, memory_order_relaxed), pthread_self());
}

/* Returns the time of the next work, after a program's turn; 0: now. */
uint64_t xk_driver_next_ns(struct xk_driver *driver);
/* Ends the driver's sleep, if it sleeps. Any context. */
void xk_driver_wake(struct xk_driver *driver);
/* Queues a shepherd for its driver to resume. Any context. */
void xk_driver_run(struct xk_shepherd *shepherd);

/* ---- the kernel ---- */

struct xk_kernel {
	/* touched by every turn */
	struct xk_platform *platform;
	_Atomic enum xk_mode mode;
	_Atomic unsigned busy; /* messages queued, shepherds runnable or running off the driver */
	struct xk_wheel *wheel;
	struct xk_port *ports;
	struct xk_epochs epochs;
	_Atomic unsigned parked;
	_Atomic uint64_t kept; /* buffers (xk_keep), counted outside of drivers */
	_Atomic bool budgeted; /* some edge has a budget: messages note when they start */
	_Atomic bool traced;   /* messages are numbered, handoffs traced */
	bool prints_handoffs;  /* ... as lines, not only to the sink */
	_Atomic bool stopping;
	_Atomic uint32_t message_id;
	_Atomic uint32_t path_version; /* of the paths that are valid */
	_Atomic uint32_t path_lock;    /* held while paths are made, validated and removed */
	uint64_t budget_ns, carry_ns;
	struct xk_driver driver; /* the first, which also serves the wheel; the others follow by next_driver */
	unsigned driver_count;
	bool started;                   /* drivers run on threads of their own */
	_Atomic uint64_t seeds;         /* state of xk_kernel_seed */
	bool no_paths;                  /* xk_kernel_set_paths */
	struct xk_pages *pages;         /* xk_kernel_set_pages; NULL: none */
	bool initializes;               /* an init runs: nothing can end a wait */
	bool watches_owners;            /* crossings abort if the sender does not own the message */
	_Atomic unsigned next_to_start; /* application code goes to the drivers in turn */

	struct xk_kernel_config config;
	struct xk_pool pool;
	_Atomic(struct xk_runner *) events; /* the event thread, in regular mode; changed under the mutex */
	_Atomic unsigned event_threads;     /* the event thread, and former ones whose handlers wait */
	pthread_mutex_t events_mutex;
	struct xk_token events_token;          /* on which the event thread waits */
	_Atomic bool events_kicked;            /* the token was posted since that thread last checked the wheel */
	_Atomic bool events_end;               /* set under the mutex */
	struct xk_protocol *protocols;         /* lowers first */
	struct xk_protocol *initialized;       /* protocols, once their inits have succeeded; else NULL */
	_Atomic unsigned applications;         /* threads of application code */
	_Atomic unsigned applications_blocked; /* those of them that wait and are not yet woken */
	_Atomic enum xk_ended ended;
	struct xk_device *devices;
	char broken[128]; /* the text of a broken promise (xk_broken) */
	/* waiting */
	_Atomic uint32_t waiters_lock;
	struct xk_waiter *waiters;
	/* counts */
	_Atomic uint64_t stalled, foreign_waits, ended_switches, ended_stack_switches, ended_locks, ended_clock_reads;
};

/* A device's queues, by driver. NULL: the driver has none. */
struct xk_device {
	struct xk_device *next;
	struct xk_port *lanes[XK_DRIVERS];
};

enum { XK_KERNEL_NAP_NS = 100 * 1000 /* between two checks whether others have ended */ };

/* Returns the driver with this index, or NULL. */
static inline struct xk_driver *
xk_kernel_driver(struct xk_kernel *kernel, unsigned index)
{
	struct xk_driver *driver = &kernel->driver;

	while (driver != NULL && driver->index != index)
		driver = driver->next_driver;
	return driver;
}

/*
 * Undoes the initialization of the protocols from `first` up to, not including, `end` (NULL: all), uppers first. When
 * nothing runs (kernel_graph.c).
 */
void xk_kernel_fini_protocols(struct xk_protocol *first, const struct xk_protocol *end);
/* Frees ports, devices, protocols and edges (kernel_graph.c). */
void xk_kernel_free_graph(struct xk_kernel *kernel);

/* Makes the wheel and what its thread waits on (kernel_time.c). 0 or -ENOMEM; call xk_events_fini in either case. */
int xk_events_init(struct xk_kernel *kernel);
void xk_events_fini(struct xk_kernel *kernel);
/* Starts the thread that runs event handlers if the mode is regular and there is none. 0 or -EAGAIN. */
int xk_events_need(struct xk_kernel *kernel);
/* Makes that thread check the wheel again. */
void xk_events_nudge(struct xk_kernel *kernel);
/* Starts another event thread if self, whose handler is about to wait, is on that thread. 0 or -EAGAIN. */
int xk_events_stand_in(struct xk_shepherd *self);
/* Ends it; returns when no handler runs or waits. */
void xk_events_end(struct xk_kernel *kernel);

static inline void
xk_tally(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Adds to a counter that only the caller's thread changes, without a read-modify-write; other threads may read it. */
static inline void
xk_bump(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

/* Runs the action that the previous stack left for after the switch. */
static inline void
xk_shepherd_arrive(void)
{
	struct xk_runner *runner = xk_self()->runner;
	void (*after)(struct xk_runner *, void *) = runner->after;

	if (after != NULL) {
		runner->after = NULL;
		after(runner, runner->after_argument);
	}
}

/*
 * Switches this thread from `from` to `to` (each a shepherd, or NULL for the thread's own stack) and calls
 * after(runner, argument) on `to` first. Returns when something switches back to `from`, perhaps on another thread.
 * ends: nothing will.
 */
static inline void
xk_shepherd_switch(struct xk_runner *runner, struct xk_shepherd *from, struct xk_shepherd *to, bool ends,
		   void (*after)(struct xk_runner *runner, void *argument), void *argument)
{
	struct xk_context *old = from == NULL ? &runner->own : &from->context;
	struct xk_context *new = to == NULL ? &runner->own : &to->context;

	xk_bump(&runner->stack_switches, 1);
	if (after != NULL) { /* otherwise it is NULL already: xk_shepherd_arrive clears it */
		runner->after = after;
		runner->after_argument = argument;
	}
	if (to != NULL) {
		to->runner = runner;
		to->head.lane = runner->shepherd.head.lane;
		to->head.taken = &runner->locks;
	}
	xk_self_set(to == NULL ? &runner->shepherd : to);
	if (ends)
		xk_context_leave(old, new);
	else
		xk_context_switch(old, new);
	xk_shepherd_arrive();
}

/*
 * Adds m to the turn's batch of the calling driver's lane of port, without touching those of other drivers. Returns
 * false if the caller is no driver or has no lane, if its batch is full, or if frames are queued, which m must not
 * overtake.
 */
static inline bool
xk_transmit_add(const struct xk_port *port, struct xk_msg *m)
{
	const struct xk_shepherd *self = xk_self();
	struct xk_transmit *transmit;

	if (xk_unlikely(self == NULL))
		return false;
	if (xk_unlikely(self->runner != port->runner) &&
	    (self->head.lane == 0 || (port = port->lanes[self->head.lane - 1]) == NULL))
		return false;
	transmit = port->transmit;
	if (xk_unlikely(transmit->count == XK_ARRAY_LENGTH(transmit->batch) ||
			atomic_load_explicit(&transmit->queued, memory_order_relaxed) > 0))
		return false;
	transmit->batch[transmit->count++] = m;
	return true;
}

/* Gives m, which arrived on port, to the graph. On a shepherd. */
static inline void
xk_deliver(struct xk_port *port, struct xk_msg *m)
{
	if (xk_unlikely(port->receiver == NULL)) {
		xk_tally(&port->unheard);
		xk_msg_free(m);
		return;
	}
	if (xk_unlikely(atomic_load_explicit(&port->unsampled, memory_order_relaxed) != 0))
		xk_path_deliver_unsampled(port, m);
	else if (port->paths != NULL)
		xk_path_deliver(port, m);
	else
		xk_demux(port->receiver, m);
}

/* Ends each wait with -ECANCELED (semaphore.c). */
void xk_waiters_cancel(struct xk_kernel *kernel);
/* Returns whether any shepherd or thread waits, or has not yet left the code that waits. */
bool xk_waiters_left(struct xk_kernel *kernel);

/* Reads the clock, and counts the reading. */
static inline uint64_t
xk_clock(struct xk_kernel *kernel, struct xk_runner *runner)
{
	xk_bump(&runner->clock_reads, 1);
	return kernel->platform->ops->now_ns(kernel->platform);
}

#endif
