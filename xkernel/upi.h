/*
 * upi.h - the Uniform Protocol Interface: what protocols and sessions are, and the few verbs between them.
 *
 * A protocol is an instance in the graph, a session one end of a conversation. Messages go up by xk_demux (from
 * a session to the protocol above it) and xk_pop (from a protocol to one of its sessions), down by xk_push.
 * Hutchinson and Peterson, "The x-Kernel" (1991).
 *
 * Rules for a protocol's author:
 * - Whoever is handed a message owns it: pass it on, store it, or xk_drop it with a reason; exactly one of these.
 * - demux and pop run as shepherds and may hand off at any UPI call: hold no lock across one.
 * - Never turn an outgoing shepherd upward: a push never ends in a demux.
 * - open may wait (ARP); demux, pop and what they call on the way of a stranger's frame must not.
 * - Deliver to a session with xk_pop only: it is what protects the session during its own upcall.
 * - hlp_receive is where messages go, hlp_type whose number goes on the wire. A protocol with a header opens the
 *   one below with (self, self); a virtual protocol, which has none, with (self, its caller's hlp_type).
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

struct xk_kernel;
struct xk_protocol_type;

/* A call whose caller goes on meanwhile: its own, from the call until done. */
struct xk_call {
	/* As xk_call returns. Takes reply (NULL unless status is 0). A shepherd; may hand off; call may be used anew. */
	void (*done)(struct xk_call *call, int status, struct xk_msg *reply);
	struct xk_protocol *protocol; /* whose header the reply is to have in one piece; NULL: nobody's */
};

/* Realms: what may stand on what (protocol.h). push, pop, demux are ASYNC; call, call_pop, call_demux are RPC. */

/*
 * What an instance of a protocol does. An entry that is missing: open fails with -EOPNOTSUPP; open_enable and open_disable
 * are the table's (table.h), or fail so where there is none; open_done accepts; control passes the question on (below).
 * Who opens a session below has demux (or call_demux): asserted by xk_session_new, so that the way of every message need
 * not look. demux and call_demux have the header of the protocol's type in one piece (header.h).
 */
struct xk_protocol_ops {
	/*
	 * Prepares the instance: its lowers are there and initialised. 0 or -errno, which refuses the graph. Main
	 * thread.
	 */
	int (*init)(struct xk_protocol *self);
	/* Gives back what init took. No shepherd runs any more; sessions are gone. */
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
	int (*control)(struct xk_protocol *self, int op, void *buffer, size_t len);
	/*
	 * What an open_enable is remembered by, from its participants (consumed). 0 or -errno. Missing: the number of
	 * hlp_type, and participants may name nobody.
	 */
	int (*passive_key)(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
			   struct xk_key *key);
	/* The passive key that s would be accepted under. Missing: the number of its hlp_type. */
	struct xk_key (*passive_key_of)(const struct xk_session *s);
};

/*
 * What a session is and does. push and pop are there in every session that messages pass through (they are called unseen); a
 * missing call, call_async or call_pop fails with -EOPNOTSUPP; without close there is nothing to add.
 */
struct xk_session_ops {
	size_t size; /* its struct begins with struct xk_session; 0: there is nothing more */
	/*
	 * Makes of a new session, whose own state is zero, what `how` says: what its protocol has given to the table
	 * (table.h). Nobody finds it yet. 0 or -errno: then it is closed. May not wait. NULL: nothing to do.
	 */
	int (*setup)(struct xk_session *s, const void *how);
	int (*push)(struct xk_session *s, struct xk_msg *m);
	void (*pop)(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr);
	int (*call)(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply);
	int (*call_async)(struct xk_session *s, struct xk_msg *m, struct xk_call *call);
	int (*call_pop)(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr,
			struct xk_msg **reply);
	/* An hlp closes s: before its reference is given back, which need not be the last. May not wait. NULL: nothing to do. */
	void (*let_go)(struct xk_session *s);
	/* The last reference is gone. The framework unbinds s, closes s->lls and frees s afterwards. May not wait. */
	void (*close)(struct xk_session *s);
	int (*control)(struct xk_session *s, int op, void *buffer, size_t len);
	/* Pushes this layer's part on what the lower layers have put there. */
	int (*get_participants)(struct xk_session *s, struct xk_participants *participants);
};

enum xk_implicit { XK_IMPLICIT_HANDOFF, XK_IMPLICIT_SPIN, XK_IMPLICIT_FAIL };
enum xk_resume { XK_RESUME_THREAD, XK_RESUME_DRIVER };

/* A protocol's sessions and who is willing to have more (table.h). */
struct xk_table {
	struct xk_map sessions, enables;
};

/* An instance in the graph. A protocol's own state begins with one. */
struct xk_protocol {
	const struct xk_protocol_ops *ops;
	const struct xk_protocol_type *type;
	unsigned index; /* in the kernel, from 0, lowers before uppers */
	struct xk_kernel *kernel;
	const char *name;        /* of the instance */
	struct xk_edge **lowers; /* in the order of the type's roles; of a repeated group, group by group */
	unsigned lower_count;
	unsigned session_max; /* passively opened sessions kept while idle */
	int trace_level;      /* enum xk_trace_level */
	/* the graph's policies for this node */
	enum xk_implicit implicit;
	enum xk_resume resume;
	bool order_session;
	uint64_t spin_ns;
	_Atomic uint64_t *drops;   /* by reason */
	_Atomic uint64_t **counts; /* by lane, then by the type's list: xk_count, xk_counter */
	struct xk_table table;
	/* passively opened sessions, oldest first */
	_Atomic uint32_t cache_lock;
	unsigned cache_count;
	struct xk_session *cache_first, *cache_last;
	struct xk_protocol *next; /* in the kernel, lowers before uppers */
};

/*
 * What to do at an edge. The bits lie above the number of bytes that the upper gathers, so that one comparison with a first
 * segment's length finds both a message that needs gathering and an edge that is watched.
 */
enum xk_watch {
	XK_WATCH_GATHER = (1 << 24) - 1, /* not a mark: these bits hold the number of bytes */
	XK_WATCH_EXPLICIT = 1 << 24,     /* hand off */
	XK_WATCH_BUDGET = 1 << 25,       /* compare the clock with the budget */
	XK_WATCH_TRACE = 1 << 26,        /* print each message */
	XK_WATCH_COUNT = 1 << 27,        /* count and time messages */
	XK_WATCH_OWNER = 1 << 28,        /* track the owners of messages */
	XK_WATCH_DOWN = XK_WATCH_TRACE | XK_WATCH_COUNT | XK_WATCH_OWNER, /* apply on the way down too */
	XK_WATCH_ANY = XK_WATCH_DOWN | XK_WATCH_EXPLICIT | XK_WATCH_BUDGET,
};

static_assert((uint32_t)XK_MSG_MAX < (uint32_t)XK_WATCH_GATHER, "a mark is greater than any message's length");

enum xk_handoff_reason { XK_HANDOFF_EXPLICIT, XK_HANDOFF_IMPLICIT, XK_HANDOFF_TIME, XK_HANDOFF_REASONS };

enum xk_direction { XK_UPWARD, XK_DOWNWARD, XK_DIRECTIONS };

/* What has crossed an edge one way while that was counted (xk_kernel_count_edges in kernel.h). */
struct xk_edge_count {
	_Atomic uint64_t messages;
	_Atomic uint64_t timed; /* of them: those that were timed */
	_Atomic uint64_t ns;    /* these spent so long in the protocol they came to, without what that called */
};

/* upper -> lower in the graph, with its marks. */
struct xk_edge {
	_Atomic uint32_t watch; /* enum xk_watch; changed by xk_edge_watch, at any time */
	unsigned upper_index;   /* upper's: its identity in a compiled graph */
	struct xk_protocol *upper, *lower;
	void (*demux)(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m); /* upper's */
	const char *role;
	uint64_t budget_ns; /* of this edge alone; 0: the graph's */
	uint64_t carry_ns;  /* at most so much unspent budget accumulates */
	bool never;         /* handoff=never */
	bool has_number;
	uint32_t number; /* number=N */
	_Atomic uint64_t handoffs[XK_HANDOFF_REASONS];
	struct xk_edge_count counts[XK_DIRECTIONS];
	uint64_t credit_ns[]; /* has accumulated: each driver's own */
};

/* Returns the marks of edge that are set, of `which`. Any context. */
static inline uint32_t
xk_edge_watched(const struct xk_edge *edge, uint32_t which)
{
	return atomic_load_explicit(&edge->watch, memory_order_relaxed) & which;
}

/* Sets the marks of edge that are in `which` to those in `watch`, for whatever crosses next. Any context; never waits. */
static inline void
xk_edge_watch(struct xk_edge *edge, uint32_t which, uint32_t watch)
{
	atomic_fetch_or_explicit(&edge->watch, which & watch, memory_order_relaxed);
	atomic_fetch_and_explicit(&edge->watch, ~(which & ~watch), memory_order_relaxed);
}

/* What xk_pop has to do for a session besides handing the message to the protocol above. */
enum xk_pops {
	XK_POPS_ITSELF = 1 << 0,   /* it has a pop of its own */
	XK_POPS_IN_ORDER = 1 << 1, /* order=session */
};

/*
 * One end of a conversation. A protocol's own session state begins with one. What every message touches lies in the
 * first line of the cache; the protocol's own begins with the third (asserted in upi_session.c).
 */
struct xk_session {
	_Alignas(64) struct xk_binding binding; /* in map */
	const struct xk_session_ops *ops;
	struct xk_edge *up;     /* the edge to hlp_receive */
	struct xk_session *lls; /* the session below that this one pushes on; this one holds a reference on it */
	_Atomic(struct xk_session *)
		above; /* the one session above that stands on this one; the protocol above sets it */

	_Alignas(64) _Atomic uint32_t references; /* permanent ones, and holds of parked shepherds: upi_session.c */
	bool cached;                              /* passively opened and kept while idle; under cache_lock */
	bool closing; /* ... and closed by an hlp: goes when only the cache keeps it; under cache_lock */
	struct xk_protocol *protocol; /* whose session it is */
	struct xk_protocol *hlp_type;
	struct xk_order *order; /* order=session: who is popping, in order; NULL: not asked for */
	union {                 /* first the one, then the other */
		struct {
			struct xk_session *cache_next, *cache_previous;
			struct xk_map *map; /* it is bound in; NULL: in none */
		};
		struct xk_retired retired;
	};
};

/* The protocol that receives what comes up session s (the literature's `up`). */
static inline struct xk_protocol *
xk_hlp_receive(const struct xk_session *s)
{
	return s->up->upper;
}

/* Debug builds: check that m, which crosses upward or downward by s, belongs to the protocol that hands it on. */
static inline void
xk_debug_cross_up(struct xk_session *s, struct xk_msg *m)
{
	(void)s;
	(void)m;
#ifdef XK_DEBUG
	xk_msg_cross(m, s->protocol, s->up->upper, true);
#endif
}

static inline void
xk_debug_cross_down(struct xk_session *s, struct xk_msg *m)
{
	(void)s;
	(void)m;
#ifdef XK_DEBUG
	xk_msg_cross(m, s->up->upper, s->protocol, false);
#endif
}

/* Returns result. Debug builds clear the owner of the reply. */
static inline int
xk_debug_reply(int result, struct xk_msg **reply)
{
	(void)reply;
#ifdef XK_DEBUG
	if (result == 0)
		xk_msg_disown(*reply);
#endif
	return result;
}

/* ---- opening and closing ---- */

/*
 * Active open: a session to the participants, with one permanent reference, the caller's (xk_close gives it back).
 * hlp_receive must have an edge to llp. participants are consumed: the callee pops its part. A shepherd or the main
 * thread before the kernel runs; may wait. 0 or -errno; -EADDRINUSE: such a session is open already.
 */
int xk_open(struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_protocol *llp,
	    struct xk_participants *participants, struct xk_session **session);

/*
 * Passive open: hlp_receive is willing; it is told by open_done when a session comes to be. Counted: the same hlps may
 * enable again. 0; -EADDRINUSE: others have enabled these participants. Does not wait.
 */
int xk_open_enable(struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_protocol *llp,
		   struct xk_participants *participants);

/* Takes one open_enable back; names the same participants and hlps. 0 or -ENOENT. Does not wait. */
int xk_open_disable(struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, struct xk_protocol *llp,
		    struct xk_participants *participants);

/*
 * Upcall: an open_enable has caused session s. The hlp may xk_duplicate s to keep it; otherwise it lives on only while
 * it is used and among llp's `sessions` youngest. Called before the first message of the shepherd that caused it;
 * a message of another shepherd may overtake it. 0; otherwise s is unwanted and the message is dropped.
 */
int xk_open_done(struct xk_protocol *hlp_receive, struct xk_protocol *llp, struct xk_session *s,
		 struct xk_protocol *hlp_type);

/* Upcall: the peer has closed s. */
void xk_close_done(struct xk_session *s);

/* Takes a permanent reference. False: s is being closed. Any context; never waits. */
bool xk_duplicate(struct xk_session *s);

/*
 * Gives a permanent reference back. With the last one, s leaves its map, its close operation runs, its lower session
 * is closed, and its memory goes when nobody can be using it. A session that was passively opened goes with the last
 * reference an hlp took: traffic afterwards opens a new one. NULL is let through. Any shepherd; never waits.
 */
void xk_close(struct xk_session *s);

/* ---- messages ---- */

/*
 * The slow halves of xk_demux and xk_push: the edge is watched (trace, count, budget, explicit handoff), or the header is
 * not in the first segment. Not for callers.
 */
void xk_demux_slow(struct xk_session *s, struct xk_msg *m);
int xk_push_slow(struct xk_session *s, struct xk_msg *m);
/* The half of xk_pop for a session with a pop of its own. Not for callers. */
void xk_pop_within(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr);

/*
 * Hands m, which came up session s, to the protocol above, with that one's header in one piece. Takes m. A shepherd; may
 * hand off, so hold no lock.
 */
static inline void
xk_demux(struct xk_session *s, struct xk_msg *m)
{
	struct xk_edge *edge = s->up;

	xk_debug_assert(xk_locks_held() == 0);
	xk_debug_cross_up(s, m);
	if (xk_unlikely(m->len < atomic_load_explicit(&edge->watch, memory_order_relaxed)))
		xk_demux_slow(s, m);
	else
		edge->demux(edge->upper, s, m);
}

/* The fast half of xk_pop: a tail call, so that s does not appear on the stack. Not for callers. */
static inline void
xk_pop_on(struct xk_session *s, struct xk_msg *m)
{
	xk_debug_assert(xk_locks_held() == 0);
	atomic_store_explicit(&s->binding.used, true, memory_order_relaxed);
	xk_self_head()->popped = s;
	xk_demux(s, m);
}

/*
 * Delivers m to session s of the calling protocol; lls is the session it came up, hdr the header that demux has
 * stripped, private between the two. Takes m. A shepherd; may hand off, so hold no lock. s stays until its pop, and the
 * demux above, have returned; so does what it stands on. Whoever uses another lls afterwards has a reference on it.
 */
static inline void
xk_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	if (xk_likely(s->binding.pops == 0))
		xk_pop_on(s, m);
	else
		xk_pop_within(s, lls, m, hdr);
}

/* As xk_pop, where what s would do to m is to hand it on to the protocol above, whatever it does to others. */
static inline void
xk_pop_past(struct xk_session *s, struct xk_session *lls, struct xk_msg *m)
{
	if (xk_likely(!(s->binding.pops & XK_POPS_IN_ORDER)))
		xk_pop_on(s, m);
	else
		xk_pop_within(s, lls, m, NULL);
}

/* The pop of a session that has nothing to do: hands m on to the protocol above. */
void xk_pop_through(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr);

/*
 * Sends m down session s. Takes m, also on failure. A shepherd, or a foreign thread that holds a reference on s (so a
 * push looks nothing up in a map: foreign threads take no part in epochs); may hand off, so hold no lock.
 * 0, -EMSGSIZE (longer than XK_GET_MAX_PACKET), -ENOBUFS, or what a protocol below says.
 */
static inline int
xk_push(struct xk_session *s, struct xk_msg *m)
{
	xk_debug_assert(xk_locks_held() == 0);
	xk_debug_cross_down(s, m);
	if (xk_unlikely(xk_edge_watched(s->up, XK_WATCH_DOWN)))
		return xk_push_slow(s, m);
	return s->ops->push(s, m);
}

/*
 * Synchronous send: takes m and waits for the reply. A shepherd or a foreign thread. 0 and *reply, which has the header of
 * hlp_receive in one piece, or -errno.
 */
int xk_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply);

/*
 * The same without waiting: call->done is told once, perhaps before this returns. A shepherd, or a foreign thread that
 * holds a reference on s. 0, or -errno: then done is not told. Takes m in either case.
 */
int xk_call_async(struct xk_session *s, struct xk_msg *m, struct xk_call *call);

/* For who carries out an asynchronous call: tells its caller, as that has been promised. Takes reply. */
void xk_call_done(struct xk_call *call, int status, struct xk_msg *reply);

/*
 * What a call of self has brought, with the header of self in one piece. As xk_call returns. Not for callers: xk_call and
 * xk_call_done see to it.
 */
int xk_reply_gather(struct xk_protocol *self, int result, struct xk_msg **reply);

/* The slow half of xk_call_demux. Not for callers. */
int xk_call_demux_slow(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply);

/* The server's half of xk_call, as xk_demux and xk_pop: takes m; on 0 *reply is the answer, the caller's. */
static inline int
xk_call_demux(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	struct xk_edge *edge = s->up;
	struct xk_protocol *hlp = edge->upper;

	*reply = NULL;
	xk_debug_cross_up(s, m);
	if (xk_unlikely(m->len < atomic_load_explicit(&edge->watch, memory_order_relaxed) ||
			hlp->ops->call_demux == NULL))
		return xk_call_demux_slow(s, m, reply);
	return xk_debug_reply(hlp->ops->call_demux(hlp, s, m, reply), reply);
}

int xk_call_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr, struct xk_msg **reply);

/* ---- dropping ---- */

/* Reasons every protocol shares; its own start at XK_DROP_OWN, in the order of its type's `drops`. */
enum xk_drop_reason {
	XK_DROP_NONE,       /* not a reason: 0 means "keep" in functions that return one */
	XK_DROP_SHORT,      /* shorter than the header */
	XK_DROP_NO_SESSION, /* nobody has opened or enabled this */
	XK_DROP_NO_BUFFER,  /* no buffer was left */
	XK_DROP_NO_MEMORY,  /* no memory for a session */
	XK_DROP_NO_STACK,   /* it would have had to wait, and no stack was left for the driver */
	XK_DROP_REFUSED,    /* the protocol above refused open_done */
	XK_DROP_UNEXPECTED, /* the protocol has no such operation */
	XK_DROP_OWN,
};

/* The name of a reason, as in counters and JSON ("short", "no_session", ...). */
const char *xk_drop_name(const struct xk_protocol_type *type, unsigned reason);
/* How many reasons protocols of this type have, XK_DROP_NONE included. */
unsigned xk_drop_count(const struct xk_protocol_type *type);

/* Ends m: counts and traces the reason, frees. Takes m. Any context; never waits. */
void xk_drop(struct xk_protocol *self, struct xk_msg *m, unsigned reason);

/*
 * Counts one of the type's own events (index in its `counters`). Any context. Each driver has a lane of its own, which nobody
 * else changes; only whoever is in no driver needs an atomic addition.
 */
static inline void
xk_count(struct xk_protocol *self, unsigned counter)
{
	const struct xk_shepherd_head *head = xk_self_head();
	unsigned lane = xk_likely(head != NULL) ? head->lane : 0;
	_Atomic uint64_t *count = &self->counts[lane][counter];

	if (xk_likely(lane != 0))
		atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
				      memory_order_relaxed);
	else
		atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

/* How often that was counted. Any context. */
uint64_t xk_counter(const struct xk_protocol *self, unsigned counter);
/* For a counter that is no count: what it shows from now on. Any context. */
void xk_counter_set(struct xk_protocol *self, unsigned counter, uint64_t value);

/* ---- asking ---- */

/* Questions of the framework; protocols' own are listed in protocols/control.h. */
enum xk_control_op {
	XK_GET_MAX_PACKET,    /* uint32_t: the longest message that may be pushed */
	XK_GET_OPT_PACKET,    /* uint32_t: the longest that is sent without fragmentation */
	XK_GET_MY_HOST,       /* uint64_t: this host's address (the highest layer that has one answers) */
	XK_GET_PEER_HOST,     /* uint64_t */
	XK_GET_LINK_ADDRESS,  /* uint64_t: the port's own link address */
	XK_GET_PEER_LINK,     /* uint64_t: the peer's link address */
	XK_GET_OFFLOADS,      /* uint32_t: enum xk_port_offload of the port below (platform.h) */
	XK_CONTROL_OWN = 100, /* the first of the protocols' own */
};

/*
 * Asks or sets; the answer is written to buffer, at most len bytes. A session or protocol that does not know the
 * question passes it to the one below; of a length that is answered there (XK_GET_MAX_PACKET, XK_GET_OPT_PACKET) its own
 * header is taken. Bytes written or 0; -ENOTSUP: nobody knew; -EMSGSIZE: len is too small.
 */
int xk_control(struct xk_session *s, int op, void *buffer, size_t len);
int xk_control_protocol(struct xk_protocol *self, int op, void *buffer, size_t len);

/* For control operations: writes an answer to buffer, as they return. */
static inline int
xk_answer(void *buffer, size_t len, const void *answer, size_t answer_len)
{
	if (len < answer_len)
		return -EMSGSIZE;
	memcpy(buffer, answer, answer_len);
	return (int)answer_len;
}

/* Who takes part in s. 0 or -errno. */
int xk_get_participants(struct xk_session *s, struct xk_participants *participants);

/* ---- for implementing protocols ---- */

/* The slow half of xk_push_header. Not for callers. */
struct xk_msg *xk_push_header_segment(struct xk_session *s, struct xk_msg *m, size_t len);

/*
 * For push: m with room for the header of s's protocol, len (<= XK_MSG_HEADROOM) bytes, which are to be stored at its data.
 * NULL: no buffer, and m was dropped. Takes m. Any context; never waits.
 */
static inline struct xk_msg *
xk_push_header(struct xk_session *s, struct xk_msg *m, size_t len)
{
	if (xk_unlikely(!xk_msg_has_room(m, len)))
		return xk_push_header_segment(s, m, len);
	xk_msg_push_in_place(m, len);
	return m;
}

/*
 * Makes a session of self (its own state is zero), in no map, with one reference, the caller's: for a protocol that needs
 * other tables than its own (table.h). hlp_receive must have an edge to self, or to a protocol that lends self's sessions
 * (XK_LENDS). Takes the caller's reference on lls (NULL: none). NULL: no memory; lls is then still the caller's.
 */
struct xk_session *xk_session_new(struct xk_protocol *self, const struct xk_session_ops *ops,
				  struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
				  struct xk_session *lls);

/*
 * Makes s reachable under key in map, which holds sessions; closing it unbinds it. 0; -EEXIST: there is one already
 * (one that is being closed does not count); -ENOMEM.
 */
int xk_session_bind(struct xk_session *s, struct xk_map *map, struct xk_key key);

/*
 * For a session that an open_enable caused, bound already: tells its hlp by xk_open_done, then hands the caller's
 * reference to the cache. 0, or what the hlp said: it is unwanted and closed. A shepherd; never waits.
 */
int xk_session_announce(struct xk_session *s);

/*
 * Hands the caller's reference on s to its protocol's cache, which keeps the `session_max` youngest and closes the one
 * that was unused longest to make room. Any shepherd; never waits.
 */
void xk_session_cache(struct xk_session *s);

/*
 * Gives back a reference that s's own protocol has taken (xk_duplicate), for a timer that is pending: it does not say that
 * an hlp is done with s, as xk_close does. Any shepherd; never waits.
 */
void xk_session_release(struct xk_session *s);

/* Closes every cached session of self for which wanted(s, context) is false. For open_disable. */
void xk_session_uncache(struct xk_protocol *self, bool (*wanted)(struct xk_session *s, void *context), void *context);

/* A willingness, in a protocol's passive map. */
struct xk_enable {
	struct xk_protocol *hlp_receive, *hlp_type;
	struct xk_binding binding;
	_Atomic unsigned count; /* 0: it is being taken away */
	struct xk_retired retired;
};

/* open_enable and open_disable for a protocol whose passive keys are in map. As xk_open_enable and xk_open_disable. */
int xk_enable_add(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type);
int xk_enable_remove(struct xk_map *map, struct xk_key key, struct xk_protocol *hlp_receive,
		     struct xk_protocol *hlp_type);
/* Frees every enable left in map, then the map. For fini. */
void xk_enable_fini(struct xk_map *map);

/* The protocol below in the role's position (group 0 unless the roles repeat). */
static inline struct xk_protocol *
xk_lower(const struct xk_protocol *self, unsigned index)
{
	return self->lowers[index]->lower;
}

/* The platform whose buffers self makes messages of (msg.h): that of the caller's driver. Any context. */
struct xk_platform *xk_platform_of(const struct xk_protocol *self);

/* The number that hlp_type has on self: from the edge (number=N) or self's table. 0 or -ENOENT. */
int xk_number(const struct xk_protocol *self, const struct xk_protocol *hlp_type, uint32_t *number);

#endif
