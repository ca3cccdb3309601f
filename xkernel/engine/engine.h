/*
 * engine.h - the inside of the engine, for files of xkernel/ only: the kernel's parts and what they ask of one another.
 */
#ifndef XK_ENGINE_H
#define XK_ENGINE_H

#include <pthread.h>

#include "xkernel/engine/spin.h"
#include "xkernel/engine/stack.h"
#include "xkernel/engine/wheel.h"
#include "xkernel/epoch.h"
#include "xkernel/kernel.h"

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
	uint64_t spin_until_ns;       /* signalled before: the driver resumes it, whatever the policy */
	struct xk_event timeout;
	int result;
	bool is_application; /* a thread of application code blocks */
	bool queued, late;   /* under the semaphore's lock; late: the time-out came before it was queued */
};

enum xk_load { XK_LOAD_MESSAGE, XK_LOAD_EVENT, XK_LOAD_APPLICATION };

/* How what a shepherd does is timed: its own thread's. */
struct xk_meter {
	_Atomic uint64_t *ns; /* where what passes is added; NULL: it is not timed */
	uint64_t since_ns;
	unsigned depth; /* crossings that are counted and have not returned */
};

struct xk_shepherd {
	struct xk_shepherd_head head;
	struct xk_runner *runner; /* the thread that runs it now; NULL: it is parked or on its way */
	struct xk_kernel *kernel;
	struct xk_driver *driver; /* whose stack it is; of a thread's: whose message it carries */
	struct xk_reader reader;  /* of the kernel's epochs */
	bool detachable;          /* has a stack of its own; false: a thread's */
	bool charged;             /* budgets: what it carries has been accounted for */
	bool in_loop;             /* free, and where the driver's loop has been left: it need not begin anew */
	uint8_t load;             /* enum xk_load */
	unsigned locks;           /* xk_locks held */
	uint64_t started_ns;      /* budgets: when the driver took up the message; time parked is added */
	struct xk_shepherd *next; /* in the list of free stacks, or runnable */
	struct xk_context context;
	void (*application)(void *argument);
	void *argument;
	unsigned number; /* for traces: "stack 3" */
	struct xk_meter meter;
};

/* For a thread of the pool: a shepherd that has left the driver, or a message that has arrived; or neither. */
struct xk_work {
	struct xk_shepherd *shepherd;
	struct xk_msg *m;
	struct xk_port *port;
};

/* A thread that runs shepherds. */
struct xk_runner {
	/* what every switch and turn touches */
	enum xk_runner_kind kind;
	unsigned number;
	struct xk_kernel *kernel;
	void (*after)(struct xk_runner *runner, void *argument); /* to do after the next switch, off the old stack */
	void *after_argument;
	_Atomic uint64_t stack_switches, clock_reads, locks; /* this thread's counts */
	_Atomic uint64_t carried; /* messages, shepherds and events; drivers count turns instead */
	_Atomic uint64_t atomics; /* read-modify-writes; debug builds: counted.h */

	struct xk_context own;            /* the thread's own stack, while it runs a detachable one */
	struct xk_shepherd shepherd;      /* what it is when it runs on its own stack */
	_Atomic uint64_t switches_before; /* the system's count of its switches when it began */
	void (*body)(struct xk_runner *runner);
	/* Its shepherd is about to block: finds another thread for its work. 0 or -EAGAIN. NULL: there is no need. */
	int (*stand_in)(struct xk_shepherd *self);
	pthread_t thread; /* the operating system's */
	void *name;       /* a platform's own */
	_Atomic int tid;  /* 0: not running, or not counted, or a platform's own */
	bool uncounted;   /* the program's thread, for one turn: asking for its switches would cost more than that */
	struct xk_token token; /* an idle pool thread waits here, */
	struct xk_work given;  /* for this; nothing: it is to look for itself */
	struct xk_runner *idle_next;
	struct xk_runner *all_next;
};

/* Makes shepherd what xk_self answers on this thread (self.c, compiled apart: thread-locals are read nowhere else). */
void xk_self_set(struct xk_shepherd *shepherd);

static inline bool
xk_on_driver(const struct xk_shepherd *self)
{
	return self->runner->kind == XK_RUN_DRIVER;
}

/* One of the driver's detachable stacks, for itself; NULL: none is free. */
struct xk_shepherd *xk_shepherd_take(struct xk_driver *driver);
/* For application code: leaves one for a driver that has not begun yet. */
struct xk_shepherd *xk_shepherd_take_spare(struct xk_driver *driver);
void xk_shepherd_give(struct xk_shepherd *shepherd);

/*
 * From `from` (a shepherd, or NULL: the thread's own stack) goes on with `to` (or NULL: the thread's own stack) on this
 * thread; after(runner, argument) is called on `to` first. Returns when `from` is gone on with, on whatever thread.
 * ends: `from` will not be gone on with.
 */
void xk_shepherd_switch(struct xk_runner *runner, struct xk_shepherd *from, struct xk_shepherd *to, bool ends,
			void (*after)(struct xk_runner *runner, void *argument), void *argument);

/* Leaves the driver for a thread. False: no stack is left (counted). edge may be NULL. */
bool xk_shepherd_handoff(struct xk_shepherd *self, enum xk_handoff_reason reason, struct xk_edge *edge);

/*
 * Charges spent_ns against a message's budget and what has been saved (at most carry_ns of it stays saved).
 * False: it was more than that.
 */
bool xk_budget_spend(uint64_t budget_ns, uint64_t carry_ns, uint64_t *credit_ns, uint64_t spent_ns);

/*
 * Charges the driver's budget with the message that self carries there, which ends or leaves. Once per message.
 * caught: if it was over, a check has seen it.
 */
void xk_shepherd_charge(struct xk_shepherd *self, bool caught);

/* Takes waiter's shepherd off its stack until xk_shepherd_resume. False: no stack is left (counted). */
bool xk_shepherd_park(struct xk_shepherd *self, void (*after)(struct xk_runner *runner, void *argument),
		      void *argument);

/* Makes a hold of a shepherd that leaves its epoch a reference (upi_session.c), and gives it back. */
void xk_hold_keep(struct xk_hold *hold);
void xk_hold_release(struct xk_hold *hold);

/* What self has popped last is kept by a reference, instead of what was. */
void xk_kept_renew(struct xk_shepherd_head *self);

/* What self carries begins, or has ended: it is in no session. */
static inline void
xk_shepherd_is_out(struct xk_shepherd *self)
{
	self->head.popped = NULL;
	if (xk_unlikely(self->head.kept != NULL))
		xk_kept_renew(&self->head);
}

/* A shepherd on a thread's own stack is about to block, or goes on: holds and epoch as when parking. */
void xk_shepherd_block(struct xk_shepherd *self);
void xk_shepherd_unblock(struct xk_shepherd *self);

/* Puts a parked shepherd where its policy says it goes on. Any context. */
void xk_shepherd_resume(struct xk_shepherd *shepherd, bool by_driver);

/* The shepherd's entry has unwound: goes to the thread's own stack and gives the stack back. Does not return. */
void xk_shepherd_end(struct xk_shepherd *self);

/* The driver's stacks: config.stacks of them. 0 or -1: no memory. */
int xk_stacks_init(struct xk_driver *driver);
/* Of all drivers. */
void xk_stacks_fini(struct xk_kernel *kernel);

/* order=session: one popper at a time, in the order of arrival. */
struct xk_order {
	struct xk_semaphore turn;
};

/* ---- counting and timing what crosses edges (meter.c) ---- */

enum { XK_METER_EACH = 13 /* a prime: what comes at regular intervals is not always timed, or never */ };

/* Where a shepherd was before it crossed; lies on its stack. */
struct xk_meter_left {
	struct xk_shepherd *self; /* NULL: nothing to return from */
	_Atomic uint64_t *ns;
};

/* A message crosses edge; xk_meter_leave when the call that it crosses by has returned. Any context. */
void xk_meter_enter(struct xk_edge *edge, enum xk_direction direction, struct xk_meter_left *left);
void xk_meter_leave(const struct xk_meter_left *left);
/* self, which is timed, is about to wait or to leave its thread; or goes on. */
void xk_meter_stop(struct xk_shepherd *self);
void xk_meter_go(struct xk_shepherd *self);

/*
 * A message crosses an edge that is watched; upwards the shepherd may be handed off on the way. When the call that it
 * crosses by has returned: xk_meter_leave(left).
 */
void xk_cross_up(struct xk_session *s, struct xk_msg *m, struct xk_meter_left *left);
void xk_cross_down(struct xk_session *s, struct xk_msg *m, struct xk_meter_left *left);

/* One line of trace for a message that crosses edge (trace.c). */
void xk_trace_crossing(struct xk_edge *edge, struct xk_msg *m, bool up);
/* One line of trace from the kernel itself. */
__attribute__((format(printf, 2, 3))) void xk_trace_kernel(struct xk_kernel *kernel, const char *format, ...);
/* The handoff that has just happened, for the trace. */
void xk_trace_handoff(struct xk_shepherd *self, enum xk_handoff_reason reason, struct xk_edge *edge);

/* ---- tables (table.c) ---- */

/* Before a protocol's init, 0 or -errno; and after its fini. Main thread. */
int xk_table_init(struct xk_protocol *self);
void xk_table_fini(struct xk_protocol *self);

/* ---- the pool: input threads in regular mode, those who take over in IPP mode (pool.c) ---- */

enum { XK_INPUT_QUEUE = 1024 };

struct xk_pool {
	_Atomic uint32_t lock;
	struct xk_shepherd *run_first, **run_last; /* runnable shepherds, in order */
	struct xk_work *inputs;                    /* messages, a ring of input_slots; NULL: IPP only, so far */
	unsigned input_slots;                      /* XK_INPUT_QUEUE, and a burst for each further driver */
	unsigned input_first, input_count;
	_Atomic unsigned queued;  /* both, for looking without the lock */
	struct xk_runner *idle;   /* youngest first */
	_Atomic unsigned threads; /* that were started */
	_Atomic unsigned blocked; /* of them, waiting on behalf of what they carry */
	bool ends;
	uint32_t want_room;          /* drivers that found it full and may wait for room, a bit for each */
	_Atomic uint64_t stalled_ns; /* since when all input threads are blocked; 0: they are not */
	pthread_mutex_t runners_mutex;
	struct xk_runner *runners; /* under the mutex, for who reads counts */
};

void xk_pool_init(struct xk_pool *pool);
void xk_pool_fini(struct xk_pool *pool);
/* The pool will have to do with mode, and with so many drivers. 0 or -ENOMEM. Main thread, when no message is queued. */
int xk_pool_prepare(struct xk_pool *pool, enum xk_mode mode, unsigned drivers);
/* Starts or ends threads until there are count. Main thread. 0 or -EAGAIN. */
int xk_pool_resize(struct xk_kernel *kernel, unsigned count);
/* Room for messages of driver, which is woken when there is some again. Others may take it meanwhile: see xk_pool_put. */
unsigned xk_pool_room(struct xk_pool *pool, const struct xk_driver *driver);
/*
 * Gives messages to threads that wait and wakes these; queues the others: at most XK_BURST, for which the driver has
 * seen room. Driver.
 */
void xk_pool_put(struct xk_kernel *kernel, struct xk_port *port, struct xk_msg *const *burst, unsigned count);
/* Gives a runnable shepherd to a thread that waits, or queues it; where there are no threads, its driver runs it. */
void xk_pool_run(struct xk_kernel *kernel, struct xk_shepherd *shepherd);

/* ---- threads, of the operating system or the platform's own (thread.c) ---- */

/*
 * Starts a thread that is a runner; body(runner) is its work. detached: nobody joins it, and its body frees the runner.
 * 0 or -EAGAIN.
 */
int xk_runner_start(struct xk_kernel *kernel, struct xk_runner *runner, enum xk_runner_kind kind, bool detached,
		    void (*body)(struct xk_runner *runner));
/* Returns when its body has. */
void xk_runner_join(struct xk_runner *runner);
/* How often runner (that runs) has waited, by the system's or the platform's count. */
uint64_t xk_runner_switches(const struct xk_runner *runner);

void xk_token_init(struct xk_token *token);
void xk_token_fini(struct xk_token *token);
/* Waits until token was posted. */
void xk_token_wait(struct xk_kernel *kernel, struct xk_token *token);
void xk_token_post(struct xk_kernel *kernel, struct xk_token *token);
/* Lets nap_ns pass; for who looks again and again. */
void xk_thread_nap(struct xk_kernel *kernel, uint64_t nap_ns);

/* For the body: its beginning and end. */
void xk_runner_begin(struct xk_runner *runner);
void xk_runner_end(struct xk_runner *runner);

/* ---- owners of messages (owner.c) ---- */

/* Names on standard error each protocol of kernel that still holds messages. Call it after all else is freed. */
void xk_owner_tell_lost(struct xk_kernel *kernel);

/* ---- transmit (transmit.c) ---- */

/* A port's way out. Whoever holds it may call the port's transmit; the port's driver holds it while it is awake. */
struct xk_transmit {
	struct xk_driver *driver;
	const struct xk_runner *runner; /* the driver's: who that is pushes without a look at anything else */
	_Atomic bool stuck;             /* the device was full when transmit was last let go */
	unsigned count;                 /* the driver's own, to go at the end of its turn */
	struct xk_msg *batch[2 * XK_BURST];
	_Atomic uint32_t held;
	_Atomic bool wanted;     /* by the driver, which waits for it: others let go */
	_Atomic unsigned queued; /* in the ring: from everybody else */
	_Atomic uint32_t lock;   /* of the ring */
	unsigned first;
	struct xk_msg *ring[XK_TRANSMIT_QUEUE];
};

/* The half of xk_transmit_flush that has something to send. Not for others. */
void xk_transmit_send(struct xk_port *port);

/* Sends what the driver has collected and others have queued. Driver, holding transmit. */
static inline void
xk_transmit_flush(struct xk_port *port)
{
	struct xk_transmit *transmit = port->transmit;

	if (transmit->count > 0 || atomic_load_explicit(&transmit->queued, memory_order_seq_cst) > 0)
		xk_transmit_send(port);
}

/* The driver is about to sleep, or is awake again. */
void xk_transmit_release(struct xk_port *port);
void xk_transmit_acquire(struct xk_port *port);
/* Frees what was not sent. When nothing runs. */
void xk_transmit_free(struct xk_port *port);

/* ---- what tests have reached (reached.c) ---- */

/*
 * Where XK_COUNTERS_FILE in the environment names a file: appends the names of kernel's counts, and of its protocols'
 * drop reasons and counters, that are not zero. In one write, so that many processes can share the file. When nothing
 * runs. Debug builds only: in others nothing is there to slow the end of a host.
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

/*
 * A thread that takes frames: from its own queue of each device, on its own stacks. What all of them share is in struct
 * xk_kernel.
 */
struct xk_driver {
	/* the line begins here: what several drivers change lies apart */
	_Alignas(64) struct xk_port *port; /* the burst came from it */
	unsigned next, count;              /* of the burst */
	unsigned resumes_left;             /* of the shepherds that are this turn's to resume */
	_Atomic unsigned runnable;
	uint64_t now_ns;        /* the clock, as it was read last */
	uint64_t busy_ns;       /* when it last had something to do: adaptive */
	uint64_t poll_until_ns; /* somebody spins on a reply until then */
	uint64_t control_ns;    /* poll_control is next due */
	_Atomic uint32_t sleeping;
	_Atomic bool halted;
	_Atomic bool paused, has_paused; /* takes no frames: reconfiguration */
	bool started;                    /* on a thread of its own */
	bool takes_turn;                 /* one, and is halted by it */
	bool events_due;
	int clock_interval; /* messages between two clock readings */
	int clock_left;     /* messages until the next reading */
	unsigned index;
	struct xk_kernel *kernel;
	struct xk_platform *platform;             /* which it sleeps on */
	struct xk_port *ports;                    /* its own, by beside */
	_Atomic uint64_t turns, sleeps, overruns; /* its own counts */
	struct xk_runner runner;
	struct xk_msg *burst[XK_BURST]; /* what this turn has received */
	uint64_t credit_ns;             /* unspent budget of the graph */
	_Atomic uint32_t lock;          /* of the list of runnable shepherds */
	struct xk_shepherd *run_first, **run_last;
	/* detachable stacks */
	_Atomic uint32_t stacks_lock;
	bool has_stack; /* under the lock: one of them is what the driver runs on */
	struct xk_shepherd *stacks_free;
	/* counts of what began in it, whoever counts */
	_Atomic uint64_t handoffs[XK_HANDOFF_REASONS];
	_Atomic uint64_t handoffs_event, fallbacks, no_stack, parks, resumes_thread, resumes_driver, overtaken;
	_Atomic uint64_t ended_switches;
	int core;
	struct xk_driver *next_driver; /* of the kernel's */
};

/* The driver's life on a detachable stack; returns when self has left the driver, or the driver is halted. */
void xk_driver_loop(struct xk_shepherd *self);
/*
 * For a driver that has not begun: it will take one turn, and be halted by it. When it has: when there is something to do
 * next; 0: now. Driver.
 */
void xk_driver_take_turn(struct xk_driver *driver);
uint64_t xk_driver_next_ns(struct xk_driver *driver);
/* Ends the driver's sleep, if it sleeps. Any context. */
void xk_driver_wake(struct xk_driver *driver);
/* Queues a shepherd for its driver to resume. Any context. */
void xk_driver_run(struct xk_shepherd *shepherd);

/* ---- the kernel ---- */

struct xk_kernel {
	/* what every turn touches */
	struct xk_platform *platform;
	_Atomic enum xk_mode mode;
	_Atomic unsigned busy; /* messages queued, shepherds runnable or running away from the driver */
	struct xk_wheel *wheel;
	struct xk_port *ports;
	struct xk_epochs epochs;
	_Atomic unsigned parked;
	_Atomic bool budgeted; /* some crossing compares the clock: messages note when they start */
	_Atomic bool traced;
	_Atomic bool stopping;
	_Atomic uint32_t message_id;
	uint64_t budget_ns, carry_ns;
	struct xk_driver driver; /* the first, which also serves the wheel; the others by next_driver */
	unsigned driver_count;
	bool started;                   /* drivers run on threads of their own */
	_Atomic uint64_t seeds;         /* of what xk_kernel_seed gives */
	bool watches_owners;            /* crossings abort if the sender does not own the message */
	_Atomic unsigned next_to_start; /* application code goes to the drivers in turn */

	struct xk_kernel_config config;
	struct xk_pool pool;
	_Atomic(struct xk_runner *) events; /* regular mode: who runs event handlers; changed under the mutex */
	_Atomic unsigned event_threads;     /* that one, and those whose handlers wait */
	pthread_mutex_t events_mutex;
	pthread_cond_t events_condition;       /* threads of the operating system */
	struct xk_token events_token;          /* a platform's own */
	bool events_end, events_kicked;        /* under the mutex */
	struct xk_protocol *protocols;         /* lowers first */
	struct xk_protocol *initialised;       /* the same, once their inits have succeeded */
	_Atomic unsigned applications;         /* threads of application code, regular mode */
	_Atomic unsigned applications_blocked; /* ... that wait, and were not woken yet */
	struct xk_device *devices;
	/* waiting */
	_Atomic uint32_t waiters_lock;
	struct xk_waiter *waiters;
	/* counts */
	_Atomic uint64_t stalled, foreign_waits, ended_switches, ended_stack_switches, ended_locks, ended_clock_reads;
};

/* The ports that are one device's queues, by driver; NULL: that driver has none. */
struct xk_device {
	struct xk_device *next;
	struct xk_port *lanes[XK_DRIVERS];
};

static inline void
xk_tally(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/*
 * Adds to a counter that only the caller's thread changes: no atomic operation, and readers elsewhere see whole values.
 */
static inline void
xk_bump(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

/* m goes at the end of the turn. False: this is not the driver of port's lane, or its batch is full. */
static inline bool
xk_transmit_add(struct xk_port *port, struct xk_msg *m)
{
	struct xk_transmit *transmit = port->transmit;
	struct xk_shepherd *self = xk_self();

	if (xk_unlikely(self == NULL || self->runner != transmit->runner ||
			transmit->count == XK_ARRAY_LENGTH(transmit->batch)))
		return false;
	transmit->batch[transmit->count++] = m;
	return true;
}

/* Gives m, which arrived on port, to the graph. A shepherd. */
static inline void
xk_deliver(struct xk_port *port, struct xk_msg *m)
{
	if (xk_unlikely(port->receiver == NULL)) {
		xk_tally(&port->unheard);
		xk_msg_free(m);
		return;
	}
	xk_demux(port->receiver, m);
}

/* Ends every wait with -ECANCELED (semaphore.c). */
void xk_waiters_cancel(struct xk_kernel *kernel);
/* Whether anybody waits, or has not left the code that waits. */
bool xk_waiters_left(struct xk_kernel *kernel);

/* For a message's way: reads the clock, and counts that it did. */
static inline uint64_t
xk_clock(struct xk_kernel *kernel, struct xk_runner *runner)
{
	xk_bump(&runner->clock_reads, 1);
	return kernel->platform->ops->now_ns(kernel->platform);
}

#endif
