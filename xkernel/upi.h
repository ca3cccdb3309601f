/*
 * upi.h - the Uniform Protocol Interface: protocols, sessions, and the verbs between them.
 *
 * A protocol is an instance in the graph; a session is one end of a conversation. Messages go up by xk_demux (session
 * to the protocol above) and xk_pop (protocol to one of its sessions), and down by xk_push. Hutchinson and Peterson,
 * "The x-Kernel" (1991).
 *
 * Rules for a protocol's author:
 * - The protocol that is handed a message owns it: it passes the message on, stores it, or drops it (xk_drop).
 * - demux and pop run as shepherds and may hand off at any UPI call: hold no lock across one.
 * - Never turn a shepherd from sending to delivering: a push must not end in a demux.
 * - open may wait (for ARP, say). demux, pop and whatever they call for a stranger's frame must not wait.
 * - Deliver to a session with xk_pop only: it protects the session during its own upcall.
 * - hlp_receive gets the messages; hlp_type's number goes on the wire. A protocol with a header opens the one below
 *   with (self, self). A virtual protocol, which has no header, passes (self, its caller's hlp_type).
 *
 * Unless a comment says otherwise, functions run in any shepherd and return 0 or -errno. Those that hand on a message
 * may hand off, and wait where the graph lets them (for a full device, or with order=session); the others never wait.
 */
#ifndef XK_UPI_H
#define XK_UPI_H

#include <errno.h>
#include <string.h>

#include "xkernel/epoch.h"
#include "xkernel/header.h"
#include "xkernel/map.h"
#include "xkernel/msg.h"
#include "xkernel/participants.h"
#include "xkernel/process.h"
#include "xkernel/services.h"

struct xk_fault_report;
struct xk_kernel;
struct xk_path;
struct xk_protocol_type;

/* An asynchronous call. Owned by the caller; must exist until `done` runs. */
struct xk_call {
	/* Runs in a shepherd when the call has ended, with its result. Takes reply (NULL on errors). May reuse call. */
	void (*done)(struct xk_call *call, int status, struct xk_msg *reply);
	struct xk_protocol *protocol; /* its header must be in one piece in the reply; NULL: none */
};

/*
 * The operations of a protocol. push, pop and demux belong to the realm ASYNC; call, call_pop and call_demux to RPC
 * (protocol.h). Missing entries: open fails with -EOPNOTSUPP; open_enable and open_disable use the table (table.h), and
 * fail likewise without one; open_done accepts; control asks the protocol below.
 *
 * A protocol that opens sessions below has demux or call_demux (asserted by xk_session_new, so messages need no check).
 * Both find the header of the protocol's type in one piece (header.h).
 */
struct xk_protocol_ops {
	/* Prepares the instance; those below are initialized. An error refuses the graph. Main thread. */
	int (*init)(struct xk_protocol *self);
	/* Undoes init. No shepherd runs, and no session is left. */
	void (*fini)(struct xk_protocol *self);
	int (*open)(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		    struct xk_participants *participants, struct xk_session **session);
	int (*open_enable)(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			   struct xk_participants *participants);
	int (*open_disable)(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
			    struct xk_participants *participants);
	int (*open_done)(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
			 struct xk_protocol *hlp_type);
	void (*close_done)(struct xk_protocol *self, struct xk_session *session);
	void (*demux)(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m);
	int (*call_demux)(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply);
	/* Answers op (below), whose argument has op's type. -ENOTSUP: unknown, so the protocol below gets it. */
	int (*control)(struct xk_protocol *self, int op, void *argument);
	/*
	 * Handles a report that a message self pushed could not be delivered; the protocol below calls it
	 * (support/fault.h). May change *report, to pass it on. Returns 0; -ENOENT: self cannot have sent such a
	 * message; -ENOTSUP: not handled. Must not wait.
	 */
	int (*fault)(struct xk_protocol *self, struct xk_fault_report *report);
	/*
	 * Handles that s, on which a push has failed with -EAGAIN, has room again (support/room.h). With this
	 * operation, pushes do not wait for room. Must not wait.
	 */
	void (*room)(struct xk_protocol *self, struct xk_session *s);
	/*
	 * Called, lowers first, when a port is up again or has another MTU: query answers from below again. Must not
	 * wait.
	 */
	void (*port_changed)(struct xk_protocol *self);
	/*
	 * Returns NULL, or a promise of the protocol that does not hold, as a sentence that stays valid until the next
	 * call (xk_broken writes one with numbers). at_rest: the network is quiet, so that nothing may be left undone.
	 * Called between the steps of simulated worlds: by `xk explore` after each, and by the swarm and, in debug
	 * builds, `xk run`. Nothing runs then, and what waits holds no lock: reads take none.
	 */
	const char *(*promise)(struct xk_protocol *self, bool at_rest);
	/*
	 * Stores the key of participants, which it consumes. If missing, they must be empty: the key is hlp_type's
	 * number.
	 */
	int (*passive_key)(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
			   struct xk_key *key);
	/* Returns the passive key under which s would be accepted. If missing: the number of its hlp_type. */
	struct xk_key (*passive_key_of)(const struct xk_session *s);

	/* The rest is for types with the flag XK_BY_FIELDS (receive.h). All of it is optional. */

	/*
	 * Returns the session key of a message that came up lls with the header at p. If missing, the key is lls and
	 * the fields that name sessions.
	 */
	struct xk_key (*key)(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p);
	/*
	 * Handles an unusual message (a fragment, options, a broadcast), whose header is still unchecked. Takes m:
	 * hands it to xk_receive_usual or xk_receive_checked, stores or drops it.
	 */
	void (*slow_path)(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m);
	/*
	 * Validates a message without a session. Its header lies in front of m, and its payload's checksum is not
	 * verified yet, so this must change nothing but m's flags. Without `slow_path`, also validates sessions'
	 * unusual messages. May change the passive key, which is the local port or the number above. Returns 0, the
	 * reason to drop m, or XK_DROP_TAKEN if it took m.
	 */
	unsigned (*validate)(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m,
			     struct xk_key *passive);
	/*
	 * Handles an intact message without a session, instead of making one at once: its header lies in front of m,
	 * key and passive are those of its session and open_enable. Takes m.
	 */
	void (*stranger)(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_key key,
			 struct xk_key passive);
	/*
	 * Informs the sender of an intact m, with its header in front, that no protocol accepts it. The caller drops m.
	 */
	void (*refused)(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m);

	/*
	 * For paths (path.h) through types without that flag. Returns the session to which demux would pop a usual
	 * message with the header at p, correct lengths and correct checksums; has no effects. The answer must hold
	 * while the session and lls exist. If a later message may come up another lls, and would then go elsewhere or
	 * change something, the session is marked, or its path's own work (path.h) refuses. NULL: there is no such
	 * session, or demux would do something else. If missing, paths end here.
	 */
	struct xk_session *(*find)(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p);
};

/*
 * The operations of a session. push and pop must exist wherever messages pass: they are called without a check. A
 * missing call, call_async or call_pop fails with -EOPNOTSUPP; the rest is optional.
 */
struct xk_session_ops {
	size_t size; /* of the session's struct, which begins with struct xk_session; 0: only that */
	/* Sets up a new, zeroed session, not bound yet, from the table's `how`. Errors close it. Must not wait. */
	int (*setup)(struct xk_session *s, const void *how);
	int (*push)(struct xk_session *s, struct xk_msg *m);
	void (*pop)(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr);
	bool pop_is_last; /* pop no longer uses s once it has handed the message on, so s needs no hold */
	int (*call)(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply);
	int (*call_async)(struct xk_session *s, struct xk_msg *m, struct xk_call *call);
	int (*call_pop)(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr,
			struct xk_msg **reply);
	/* Runs when an hlp closes s, before its reference, perhaps not the last, is given back. Must not wait. */
	void (*let_go)(struct xk_session *s);
	/*
	 * Runs after the last reference, with s unbound; then s->lls is closed, and s freed once no shepherd is in it:
	 * one may still be in s's pop. Must not wait, except for s's locks.
	 */
	void (*close)(struct xk_session *s);
	/* As a protocol's control; unknown operations go to the session below. */
	int (*control)(struct xk_session *s, int op, void *argument);
	/* As a protocol's promise, for each session in its table, before the protocol's own. */
	const char *(*promise)(struct xk_session *s, bool at_rest);
	/* For types with XK_BY_FIELDS: sends m, longer than sends.whole but not than sends.longest. Takes m. */
	int (*divide)(struct xk_session *s, struct xk_msg *m);
	/*
	 * For sessions whose paths do work of their own (XK_PATH_TO_OWN in path.h), and no others. Returns the state
	 * that the path needs from `from`, the session that its first message came up. Must not wait.
	 */
	uint64_t (*path_state)(const struct xk_session *s, const struct xk_session *from);
	/* Pushes this layer's part onto those of the lower layers. If missing: pushes the ends that `sends` names. */
	int (*get_participants)(struct xk_session *s, struct xk_participants *participants);
};

enum xk_implicit { XK_IMPLICIT_HANDOFF, XK_IMPLICIT_SPIN, XK_IMPLICIT_FAIL };
enum xk_resume { XK_RESUME_THREAD, XK_RESUME_DRIVER };

/* The local numbers from which a protocol chooses (support/ports.h). */
struct xk_ports {
	uint32_t first, count;
	uint64_t seed;           /* key of the peers' offsets; 0: all offsets are 0 */
	_Atomic uint32_t chosen; /* how many so far */
};

/* A protocol's sessions, its open_enables (table.h), and their local numbers. */
struct xk_table {
	struct xk_map sessions, enables;
	struct xk_ports ports;
};

/* Positions in a lane's counts. */
enum {
	XK_COUNT_KEPT, /* buffers (xk_keep); of all lanes together, because one may add what another takes off */
	XK_COUNT_OWN   /* the first of the type's counters */
};

/* An instance in the graph. A protocol's own state begins with this struct. */
struct xk_protocol {
	const struct xk_protocol_ops *ops;
	const struct xk_protocol_type *type;
	unsigned index; /* position in the kernel, from 0, lowers before uppers */
	struct xk_kernel *kernel;
	const char *name;        /* the instance's */
	struct xk_edge **lowers; /* edges in the order of the type's roles, group by group */
	unsigned lower_count;
	unsigned session_max; /* passively opened sessions kept while idle */
	int trace_level;      /* enum xk_trace_level: what is printed */
	int shown_level;      /* ... or shown to the kernel's sink (trace.h); from xk_kernel_rewatch */
	/* the graph's policies for this node */
	enum xk_implicit implicit;
	enum xk_resume resume;
	bool order_session;
	uint64_t spin_ns;
	_Atomic uint64_t *drops;   /* by reason */
	_Atomic uint64_t **counts; /* by lane: XK_COUNT_KEPT, then the type's `counters`; see xk_count */
	struct xk_table table;
	struct xk_format format;                   /* of its header */
	_Atomic bool has_advised;                  /* has printed how to get checksums computed (receive.c) */
	_Atomic uint32_t lock;                     /* protects the cache, and the counts of its own open_enables */
	_Atomic(struct xk_session_ops *) path_ops; /* of its sessions, with the push of paths; NULL: no path yet */
	unsigned cache_count;                      /* passively opened sessions */
	struct xk_session *cache_oldest;           /* a ring, in the order of their age */
	struct xk_protocol *next;                  /* in the kernel, lowers before uppers */
};

/*
 * The marks of an edge, above the number of bytes that the upper gathers. One comparison with a first segment's length
 * therefore finds both messages to gather and watched edges.
 */
enum xk_watch {
	XK_WATCH_GATHER = (1 << 24) - 1, /* not a mark: these bits hold the number of bytes */
	XK_WATCH_EXPLICIT = 1 << 24,     /* hand off */
	XK_WATCH_BUDGET = 1 << 25,       /* compare the clock with the budget */
	XK_WATCH_TRACE = 1 << 26,        /* print each message */
	XK_WATCH_COUNT = 1 << 27,        /* count and time messages */
	XK_WATCH_OWNER = 1 << 28,        /* track the owners of messages */
	XK_WATCH_SINK = 1 << 29,         /* show each message to the kernel's sink (trace.h) */
	/* those that also apply to messages going down */
	XK_WATCH_DOWN = XK_WATCH_TRACE | XK_WATCH_COUNT | XK_WATCH_OWNER | XK_WATCH_SINK,
	XK_WATCH_ANY = XK_WATCH_DOWN | XK_WATCH_EXPLICIT | XK_WATCH_BUDGET,
};

static_assert((uint32_t)XK_MSG_MAX < (uint32_t)XK_WATCH_GATHER, "a mark is greater than any message's length");

enum xk_handoff_reason { XK_HANDOFF_EXPLICIT, XK_HANDOFF_IMPLICIT, XK_HANDOFF_TIME, XK_HANDOFF_REASONS };

/* Messages that have crossed an edge in one direction while counting was on (xk_kernel_count_edges). */
struct xk_edge_count {
	_Atomic uint64_t messages;
	_Atomic uint64_t timed; /* those of them that were timed */
	_Atomic uint64_t ns;    /* their time in the protocol they entered, without its callees */
};

/* An edge of the graph, from upper down to lower, and its marks. */
struct xk_edge {
	_Atomic uint32_t watch; /* enum xk_watch; changed by xk_edge_watch, at any time */
	struct xk_protocol *upper, *lower;
	void (*demux)(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m); /* upper's */
	const char *role;
	uint64_t budget_ns; /* this edge's own; 0: the graph's */
	uint64_t carry_ns;  /* limit of the unspent budget that accumulates */
	bool never;         /* handoff=never */
	bool has_number;
	uint32_t number; /* number=N */
	_Atomic uint64_t handoffs[XK_HANDOFF_REASONS];
	struct xk_edge_count counts[XK_DIRECTIONS];
	uint64_t credit_ns[]; /* accumulated budget, by driver */
};

/* Returns those of the marks `which` that are set on edge. Any context. */
static inline uint32_t
xk_edge_watched(const struct xk_edge *edge, uint32_t which)
{
	return atomic_load_explicit(&edge->watch, memory_order_relaxed) & which;
}

/*
 * Sets the marks `which` of edge to their values in `watch`, for all later crossings, and voids the paths of its
 * kernel. Any context; never waits.
 */
void xk_edge_watch(struct xk_edge *edge, uint32_t which, uint32_t watch);

/* Work of xk_pop besides handing the message to the protocol above. */
enum xk_pops {
	XK_POPS_ITSELF = 1 << 0,   /* call the session's own pop */
	XK_POPS_IN_ORDER = 1 << 1, /* order=session */
	XK_POPS_LAST = 1 << 2,     /* the session's own pop, which is pop_is_last */
};

enum { XK_SENDS_HEADER = 24 /* bytes of the longest header in struct xk_sends */ };

/*
 * A session's header as it is sent. The framework sends by it (receive.h), also on paths (path.h). Only `number`, and
 * `whole` if the session `adapts`, differ between messages. For types with the flag XK_BY_FIELDS, the framework fills
 * it in from the fields before `setup`, which may change it, except header_sum: the header is summed afterwards. For
 * other types it is zero, unless `setup` sets it.
 */
struct xk_sends {
	uint8_t header[XK_SENDS_HEADER]; /* without lengths, number and checksums */
	uint64_t push_sum, pop_sum;      /* of the pseudo-headers of sent and received messages, without lengths */
	uint32_t header_sum;             /* of header */
	uint32_t longest;                /* limit of a pushed payload; UINT32_MAX: that of the session below */
	_Atomic uint32_t whole;          /* limit of a payload sent in one piece */
	_Atomic uint16_t number;         /* of the next message */
	bool sums;                       /* messages are sent with the checksum that covers the pseudo-header */
	bool offloads;         /* ... which the port completes if the message fits a frame; sums is then false */
	bool adapts;           /* `whole` may change */
	bool is_path;          /* paths may lead through: usual messages are handled as in header.h */
	_Atomic bool from_any; /* its peer's messages may come up other sessions than lls */
};

/*
 * One end of a conversation; a protocol's own session state begins with this struct. The first cache line holds what
 * every message touches, the third what a header does; the fourth is the first of the protocol's own (asserted in
 * upi.c).
 */
struct xk_session {
	_Alignas(64) struct xk_binding binding;     /* in map */
	_Atomic bool used;                          /* since the cache of passive sessions checked it last */
	_Atomic bool marked;                        /* for its protocol's use (xk_session_marked) */
	uint8_t pops;                               /* enum xk_pops */
	_Atomic(const struct xk_session_ops *) ops; /* its type's, or those of its paths (path.h) */
	struct xk_edge *up;                         /* the edge to hlp_receive */
	struct xk_session *lls;                     /* the session below, for pushes; referenced */
	_Atomic(struct xk_path *) paths;            /* that lead here */

	_Alignas(64) _Atomic uint32_t references; /* permanent ones and holds of parked shepherds (upi_session.c) */
	bool cached;                              /* opened passively and kept while idle; under protocol's lock */
	bool closing;                 /* closed by an hlp: freed once only the cache refers to it; likewise */
	struct xk_protocol *protocol; /* the owner */
	struct xk_protocol *hlp_type;
	struct xk_order *order;             /* the queue of poppers; NULL: no order=session */
	_Atomic(struct xk_session *) above; /* the session on this one, set by the protocol above */
	union {                             /* the first part until s is closed, then the second */
		struct {
			struct xk_session *cache_next, *cache_previous;
			struct xk_map *map; /* where it is bound; NULL: nowhere */
		};
		struct xk_retired retired;
	};

	_Alignas(64) struct xk_sends sends;
};

/* Returns the protocol that receives what comes up s (`up` in the literature). */
static inline struct xk_protocol *
xk_hlp_receive(const struct xk_session *s)
{
	return s->up->upper;
}

/* Check, in debug builds, that m, which crosses at s, belongs to the protocol that hands it on. */
static inline void
xk_debug_cross_up(struct xk_session *s, struct xk_msg *m)
{
	if (XK_IS_DEBUG)
		xk_msg_cross(m, s->protocol, s->up->upper, XK_UP);
}

static inline void
xk_debug_cross_down(struct xk_session *s, struct xk_msg *m)
{
	if (XK_IS_DEBUG)
		xk_msg_cross(m, s->up->upper, s->protocol, XK_DOWN);
}

/* Checks, in debug builds, that m, which is popped at s, belongs to the protocol of s. */
static inline void
xk_debug_pops(struct xk_session *s, struct xk_msg *m)
{
	if (XK_IS_DEBUG)
		xk_msg_pops(m, s->protocol);
}

/* Checks, in debug builds, that the running shepherd holds no lock. */
static inline void
xk_debug_unlocked(const char *does)
{
	if (XK_IS_DEBUG && xk_unlikely(xk_locks_held() != 0))
		xk_lock_refuse(does);
}

/* Returns result. Debug builds clear the owner of the reply. */
static inline int
xk_debug_reply(int result, struct xk_msg **reply)
{
	if (XK_IS_DEBUG && result == 0)
		xk_msg_disown(*reply);
	return result;
}

/* Returns the only session on s, or NULL; valid as long as an object resolved in a map. */
static inline struct xk_session *
xk_session_above(struct xk_session *s)
{
	return atomic_load_explicit(&s->above, memory_order_acquire);
}

/* Detaches s from lls, unless another session is on it. */
static inline void
xk_session_leave(struct xk_session *s, struct xk_session *lls)
{
	struct xk_session *expected = s;

	atomic_compare_exchange_strong_explicit(&lls->above, &expected, NULL, memory_order_release,
						memory_order_relaxed);
}

/* Return and set a bit for the use of s's protocol, in a cache line that every message reads. Any context. */
static inline bool
xk_session_marked(const struct xk_session *s)
{
	return atomic_load_explicit(&s->marked, memory_order_relaxed);
}

static inline void
xk_session_mark(struct xk_session *s, bool marked)
{
	atomic_store_explicit(&s->marked, marked, memory_order_relaxed);
}

/* ---- opening and closing ---- */

/*
 * Opens a session with one permanent reference, the caller's (see xk_close). hlp_receive must have an edge to llp.
 * Consumes participants: each protocol pops its part. A shepherd, or the main thread before the kernel runs; may wait.
 * Messages may reach hlp_receive's demux before xk_open has returned, which names the session only then.
 * -EADDRINUSE: other protocols have this session open.
 */
int xk_open(struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_protocol *llp,
	    struct xk_participants *participants, struct xk_session **session);

/*
 * Announces s, made because of an open_enable, to hlp_receive. Unless the hlp takes a reference (xk_duplicate), only
 * llp's cache of `sessions` sessions keeps s: it closes those unused longest. The call precedes the first message of
 * the shepherd that made s, not those of others. Any result but 0 refuses s and drops the message.
 */
int xk_open_done(struct xk_protocol *hlp_receive, struct xk_protocol *llp, struct xk_session *s,
		 struct xk_protocol *hlp_type);

/* Notifies the protocol above that the peer has closed s. */
void xk_close_done(struct xk_session *s);

/* Takes a permanent reference. Returns false if s is being closed. Any context. */
bool xk_duplicate(struct xk_session *s);

/*
 * Releases a permanent reference; ignores NULL. After the last one, s leaves its map, its close operation runs, its lls
 * is closed, and s is freed once no shepherd can use it. A passively opened session ends with the last reference of an
 * hlp: later traffic opens a new one.
 */
void xk_close(struct xk_session *s);

/* ---- messages ---- */

/* The slow half of xk_pop, for sessions with a pop of their own. Not for callers. */
void xk_pop_within(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr);

/* Hands m, which came up s, to the protocol above, with its header in one piece. Takes m. May hand off. */
static inline void
xk_demux(struct xk_session *s, struct xk_msg *m)
{
	struct xk_edge *edge = s->up;

	xk_debug_unlocked("delivers a message");
	xk_debug_cross_up(s, m);
	if (xk_unlikely(m->len < atomic_load_explicit(&edge->watch, memory_order_relaxed)))
		xk_demux_slow(s, m);
	else
		edge->demux(edge->upper, s, m);
}

/* Notes that s was used. Writes only a change, because several drivers may read its cache line for each message. */
static inline void
xk_session_used(struct xk_session *s)
{
	if (xk_unlikely(!atomic_load_explicit(&s->used, memory_order_relaxed)))
		atomic_store_explicit(&s->used, true, memory_order_relaxed);
}

/* The fast half of xk_pop: a tail call, so s is not on the stack. Not for callers. */
static inline void
xk_pop_on(struct xk_session *s, struct xk_msg *m)
{
	xk_debug_unlocked("pops a message");
	xk_session_used(s);
	xk_self_head()->popped = s;
	xk_demux(s, m);
}

/*
 * Delivers m to session s of the calling protocol. lls is the session that m came up; hdr, the stripped header, is
 * private between demux and pop. Takes m. May hand off: hold no lock. s and the sessions below stay until its pop and
 * the demux above have returned; to use another lls afterwards, hold a reference on it.
 */
static inline void
xk_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	xk_debug_pops(s, m);
	if (xk_likely(s->pops == 0))
		xk_pop_on(s, m);
	else
		xk_pop_within(s, lls, m, hdr);
}

/* The pop of a session that only hands messages on. */
void xk_pop_through(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr);

/*
 * Sends m down s. Takes m, also on failure. A shepherd, or a foreign thread with a reference on s; may hand off: hold
 * no lock. Uses no map, because foreign threads take no part in epochs. -EMSGSIZE (longer than XK_GET_MAX_PACKET),
 * -ENOBUFS, -EAGAIN (no room, and the hlp has the operation `room`), or the error of a protocol below.
 */
static inline int
xk_push(struct xk_session *s, struct xk_msg *m)
{
	xk_debug_unlocked("pushes a message");
	xk_debug_cross_down(s, m);
	if (xk_unlikely(xk_edge_watched(s->up, XK_WATCH_DOWN)))
		return xk_push_slow(s, m);
	return s->ops->push(s, m);
}

/* Sends m and waits for the reply, with hlp_receive's header in one piece. Takes m. A shepherd or a foreign thread. */
int xk_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply);

/*
 * Sends m without waiting for the reply. Takes m, also on failure. A shepherd, or a foreign thread with a reference on
 * s. 0: call->done runs once, perhaps before this returns; -errno: it does not run.
 */
int xk_call_async(struct xk_session *s, struct xk_msg *m, struct xk_call *call);

/* Ends an asynchronous call, for the protocol that carries it out. Takes reply. */
void xk_call_done(struct xk_call *call, int status, struct xk_msg *reply);

/* The server's half of xk_call, as xk_demux and xk_pop. Takes m. 0: *reply is the answer, for the caller. */
static inline int
xk_call_demux(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	struct xk_edge *edge = s->up;
	struct xk_protocol *hlp = edge->upper;

	*reply = NULL;
	xk_debug_unlocked("delivers a request");
	xk_debug_cross_up(s, m);
	if (xk_unlikely(m->len < atomic_load_explicit(&edge->watch, memory_order_relaxed) ||
			hlp->ops->call_demux == NULL))
		return xk_call_demux_slow(s, m, reply);
	return xk_debug_reply(hlp->ops->call_demux(hlp, s, m, reply), reply);
}

int xk_call_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr, struct xk_msg **reply);

/* ---- dropping ---- */

/* Reasons that all protocols share. A protocol's own begin at XK_DROP_OWN, in the order of its type's `drops`. */
enum xk_drop_reason {
	XK_DROP_NONE,       /* no reason: means "keep" where a function returns one */
	XK_DROP_SHORT,      /* shorter than the header */
	XK_DROP_NO_SESSION, /* nothing opened or enabled matches */
	XK_DROP_NO_BUFFER,  /* no buffer was left */
	XK_DROP_NO_MEMORY,  /* no memory for a session */
	XK_DROP_NO_STACK,   /* would have had to wait, and no stack was left for the driver */
	XK_DROP_REFUSED,    /* the protocol above refused open_done */
	XK_DROP_UNEXPECTED, /* the protocol has no such operation */
	XK_DROP_BAD_LENGTH,
	XK_DROP_BAD_CHECKSUM,
	XK_DROP_UNSUMMED, /* the sender left the checksum to a device, and none filled it in */
	XK_DROP_TOO_BIG,  /* pushed, and longer than the limit */
	XK_DROP_OWN,
	XK_DROP_TAKEN = XK_DROP_OWN + 255, /* no reason: means "it was taken" where a function returns one */
};

/* Return a reason's name, as in counters and JSON, and the number of a type's reasons, with XK_DROP_NONE. */
const char *xk_drop_name(const struct xk_protocol_type *type, unsigned reason);
unsigned xk_drop_count(const struct xk_protocol_type *type);

/* Counts and traces the reason, then frees m. Takes m. Any context. */
void xk_drop(struct xk_protocol *self, struct xk_msg *m, unsigned reason);

/*
 * Puts the first bytes of *m in one piece: as many as self's type gathers, or all. Returns 0; -EBADMSG (shorter than
 * the header) or -ENOBUFS: *m was dropped and counted for self. Any context; never waits.
 */
int xk_header_gather(struct xk_protocol *self, struct xk_msg **m);

/* Abort, naming the protocol, unless its type declares this counter, or a header of len bytes. For debug builds. */
void xk_counter_check(const struct xk_protocol *self, unsigned counter);
void xk_push_header_check(const struct xk_protocol *self, size_t len);

/*
 * Adds n to one of the type's own counters (position in its `counters`). Any context. Each driver has a lane that
 * nothing else writes; only foreign threads, and shepherds outside of drivers, add atomically.
 */
static inline void
xk_count_by(struct xk_protocol *self, unsigned counter, uint64_t n)
{
	const struct xk_shepherd_head *head = xk_self_head();
	unsigned lane = xk_likely(head != NULL) ? head->lane : 0;
	_Atomic uint64_t *count = &self->counts[lane][XK_COUNT_OWN + counter];

	if (XK_IS_DEBUG)
		xk_counter_check(self, counter);
	if (xk_likely(lane != 0))
		atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
				      memory_order_relaxed);
	else
		atomic_fetch_add_explicit(count, n, memory_order_relaxed);
}

/* Counts one of the type's own events. As xk_count_by. */
static inline void
xk_count(struct xk_protocol *self, unsigned counter)
{
	xk_count_by(self, counter, 1);
}

/* Returns the counter's value over all lanes. Any context. */
uint64_t xk_counter(const struct xk_protocol *self, unsigned counter);
/* Sets a counter that shows a level instead of a count. Any context. */
void xk_counter_set(struct xk_protocol *self, unsigned counter, uint64_t value);

/* ---- control ---- */

/*
 * Declares the control operation op: its number, and the type of its argument (const: it sets a value; void: there is
 * none). A number has one meaning for all protocols. Numbers below 100 are the framework's, and those from
 * XK_CONTROL_OUTSIDE on are for protocols outside this tree; the others are declared in the header of the protocol that
 * answers.
 */
#define XK_CONTROL_OP(op, number, type)                                                                                \
	static inline void *op##_ARGUMENT(type *argument)                                                              \
	{                                                                                                              \
		return (void *)argument;                                                                               \
	}                                                                                                              \
	enum { op = (number) }

enum { XK_CONTROL_OUTSIDE = 10000 };

XK_CONTROL_OP(XK_GET_MAX_PACKET, 0, uint32_t); /* bytes of the longest message that may be pushed */
XK_CONTROL_OP(XK_GET_OPT_PACKET, 1, uint32_t); /* bytes of the longest that is not fragmented */
XK_CONTROL_OP(XK_GET_MY_HOST, 2, uint64_t);    /* this host's address (the highest layer that has one answers) */
XK_CONTROL_OP(XK_GET_PEER_HOST, 3, uint64_t);
/* the destination of arriving messages, if not XK_GET_MY_HOST: a broadcast address */
XK_CONTROL_OP(XK_GET_DESTINATION, 4, uint64_t);
XK_CONTROL_OP(XK_GET_LINK_ADDRESS, 5, uint64_t); /* the port's own link address */
XK_CONTROL_OP(XK_GET_PEER_LINK, 6, uint64_t);    /* the peer's link address */
XK_CONTROL_OP(XK_GET_OFFLOADS, 7, uint32_t);     /* enum xk_port_offload of the port below (platform.h) */
XK_CONTROL_OP(XK_UNANSWERED, 8, void);           /* see xk_unanswered */
/* bytes for which a push finds room (support/room.h); a push of more is taken, too, unless it is 0 */
XK_CONTROL_OP(XK_GET_ROOM, 9, uint64_t);

/* xk_control and xk_control_protocol, for an op that is no constant. The argument must have op's type. */
int xk_control_op(struct xk_session *s, int op, void *argument);
int xk_control_protocol_op(struct xk_protocol *self, int op, void *argument);

/*
 * Gets a value, which goes to *argument, or sets one; the compiler checks the argument's type. An operation that a
 * session or protocol does not know goes to the one below; from the answer to XK_GET_MAX_PACKET and XK_GET_OPT_PACKET,
 * its own header is subtracted. The framework answers from a session's `sends`: lengths, and ends that are printed as
 * hosts or link addresses. Returns 0, or the result of op; -ENOTSUP: neither s or self nor any protocol below it knows
 * op; other errors: *argument is undefined.
 */
#define xk_control(s, op, argument) xk_control_op(s, op, op##_ARGUMENT(argument))
#define xk_control_protocol(self, op, argument) xk_control_protocol_op(self, op, op##_ARGUMENT(argument))

/*
 * Advises the protocols below s that its peer has not answered in time: the protocol that resolves link addresses then
 * verifies the neighbour's (RFC 1122, 2.3.2.1). Call it at each timeout, before retransmitting, on the session that the
 * message went down. Sends nothing itself and never waits. Any context, also with locks held.
 */
static inline void
xk_unanswered(struct xk_session *s)
{
	if (s != NULL)
		xk_control(s, XK_UNANSWERED, NULL);
}

/* Returns the address of the peer of session lls: its host, or else its link address; 0: neither is known. */
static inline uint64_t
xk_peer_address(struct xk_session *lls)
{
	uint64_t address;

	if (xk_control(lls, XK_GET_PEER_HOST, &address) == 0 || xk_control(lls, XK_GET_PEER_LINK, &address) == 0)
		return address;
	return 0;
}

/* Stores the participants of s. */
int xk_get_participants(struct xk_session *s, struct xk_participants *participants);

/* ---- for implementing protocols ---- */

/* The slow half of xk_push_header. Not for callers. */
struct xk_msg *xk_push_header_segment(struct xk_session *s, struct xk_msg *m, size_t len);

/*
 * Makes room before m for a header of s's protocol, len (<= XK_MSG_HEADROOM) bytes, and returns m, whose data is the
 * place. NULL: no buffer was left, m was dropped. Takes m. Any context.
 */
static inline struct xk_msg *
xk_push_header(struct xk_session *s, struct xk_msg *m, size_t len)
{
	if (XK_IS_DEBUG)
		xk_push_header_check(s->protocol, len);
	if (xk_unlikely(!xk_msg_has_room(m, len)))
		return xk_push_header_segment(s, m, len);
	xk_msg_push_in_place(m, len);
	return m;
}

/*
 * Makes an unbound session of self, its own state zeroed, with one reference, the caller's. For protocols that cannot
 * use xk_table_add (table.h). hlp_receive must have an edge to self, or to a protocol that lends self's sessions
 * (XK_LENDS). Takes the caller's reference on lls (NULL: none). NULL: no memory; lls is still the caller's.
 */
struct xk_session *xk_session_new(struct xk_protocol *self, const struct xk_session_ops *ops,
				  struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
				  struct xk_session *lls);

/* Binds s to key in map; closing s unbinds it. -ENOMEM; -EEXIST: another session is bound, and not being closed. */
int xk_session_bind(struct xk_session *s, struct xk_map *map, struct xk_key key);

/*
 * Removes s from its map and from those of its paths: messages come up it no longer, except those on their way. May be
 * called again, and with locks held. For sessions that end before they are closed.
 */
void xk_session_unbind(struct xk_session *s);

/*
 * Announces s, bound and made because of an open_enable (xk_open_done), then gives the caller's reference to the cache.
 * Returns the hlp's error, if any; s is then closed.
 */
int xk_session_announce(struct xk_session *s);

/*
 * Gives the caller's reference on s to the cache, which keeps the `session_max` youngest sessions and closes the one
 * unused longest to make room.
 */
void xk_session_cache(struct xk_session *s);

/*
 * Releases a reference without closing s, which others may still use: one that s's own protocol took (for a timer,
 * say), or that an hlp took for a message that it keeps.
 */
void xk_session_release(struct xk_session *s);

/* Closes every cached session of self that is not wanted (NULL: all). For open_disable. */
void xk_session_uncache(struct xk_protocol *self, bool (*wanted)(struct xk_session *s, void *context), void *context);

/* Returns the protocol below at a role's position (in group 0 if roles repeat). */
static inline struct xk_protocol *
xk_lower(const struct xk_protocol *self, unsigned index)
{
	return self->lowers[index]->lower;
}

/* Stores the number of hlp_type on self: the edge's (number=N) or the one hlp_type declares. -ENOENT: none. */
int xk_number(const struct xk_protocol *self, const struct xk_protocol *hlp_type, uint32_t *number);

#endif
