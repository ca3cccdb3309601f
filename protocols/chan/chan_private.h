/*
 * chan_private.h - the state of CHAN, shared by chan.c (header, sending, settings), chan_end.c (the ends of channels)
 * and chan_peer.c (other hosts, and how they share a server's channels).
 */
#ifndef XK_CHAN_PRIVATE_H
#define XK_CHAN_PRIVATE_H

#include <errno.h>
#include <sys/queue.h>

#include "protocols/bid/bidctl.h"
#include "protocols/budget.h"
#include "protocols/chan/chan.h"
#include "protocols/ticket.h"
#include "xkernel/bytes.h"
#include "xkernel/event.h"
#include "xkernel/protocol.h"
#include "xkernel/support/alarm.h"
#include "xkernel/support/retransmit.h"
#include "xkernel/support/share.h"

#define CHAN_DROPS(D)                                                                                                  \
	D(CHAN_BAD_FLAGS, "bad_flags")                                                                                 \
	D(CHAN_STALE, "stale")                                                                                         \
	D(CHAN_DUPLICATE, "duplicate")                                                                                 \
	D(CHAN_BUSY, "busy")                                                                                           \
	D(CHAN_UNASKED, "unasked")                                                                                     \
	D(CHAN_TOO_MANY, "too_many")                                                                                   \
	D(CHAN_CLOSED, "closed")                                                                                       \
	D(CHAN_OLD_BOOT, "old_boot")                                                                                   \
	D(CHAN_TOO_SOON, "too_soon")
XK_DROPS(chan, CHAN_DROPS);

#define CHAN_COUNTERS(C)                                                                                               \
	C(CHAN_CALLED, "called")                                                                                       \
	C(CHAN_RETRANSMITTED, "retransmitted")                                                                         \
	C(CHAN_PROBED, "probed")                                                                                       \
	C(CHAN_TIMED_OUT, "timed_out")                                                                                 \
	C(CHAN_WAS_RESET, "reset")                                                                                     \
	C(CHAN_EXECUTED, "executed")                                                                                   \
	C(CHAN_FAILED, "failed")                                                                                       \
	C(CHAN_REPEATED, "repeated")                                                                                   \
	C(CHAN_ACKED, "acked")                                                                                         \
	C(CHAN_ASKED, "asked")                                                                                         \
	C(CHAN_REJECTED, "rejected")                                                                                   \
	C(CHAN_ABANDONED, "abandoned")                                                                                 \
	C(CHAN_SUPPRESSED, "suppressed")                                                                               \
	C(CHAN_UNSAVED, "unsaved")                                                                                     \
	C(CHAN_GIVEN_UP, "given_up")                                                                                   \
	C(CHAN_FORGOTTEN, "forgotten")                                                                                 \
	C(CHAN_WITHHELD, "withheld")                                                                                   \
	C(CHAN_EVICTED, "evicted")
XK_COUNTERS(chan, CHAN_COUNTERS);

enum chan_flags {
	CHAN_FROM_CLIENT = 1,
	CHAN_USER_MSG = 2,
	CHAN_ACK_REQUESTED = 4,
	CHAN_NEGATIVE_ACK = 8,
	CHAN_ERROR = 16,
	/* not in the header */
	CHAN_MAY_WAIT = 1 << 16, /* chan_send may wait for room below */
	CHAN_AGAIN = 1 << 17,    /* the message was sent before */
};

/* The answers of a header alone: flags and, 16 bits above them, a status. */
enum chan_answer {
	CHAN_ANSWER_NOTHING = -1,
	CHAN_ANSWER_ACK = 0,
	CHAN_ANSWER_NACK = CHAN_NEGATIVE_ACK,
	CHAN_ANSWER_GONE = CHAN_ERROR | ETIMEDOUT << 16, /* the call was run, or may have been; there is no reply */
	CHAN_ANSWER_REFUSED = CHAN_ERROR | ECONNREFUSED << 16,
};

enum {
	CHAN_SHORT = 64,        /* messages up to this length are copied to be kept; longer ones are referenced */
	CHAN_STATUS_MAX = 4095, /* the highest error number */
	CHAN_IDLE_MAX = 4096, /* closed channels whose numbers a client keeps for reuse; half of them may rest first */
};

#define CHAN_HEADER(F)                                                                                                 \
	F(32, channel, .kind = XK_NAMES_SESSION, .print = XK_PRINT_HEX)                                                \
	F(11, reserved, .kind = XK_FIXED)                                                                              \
	F(4, flags, .is_bits = true, .values = chan_flag_names)                                                        \
	F(1, from_client, .kind = XK_NAMES_SESSION)                                                                    \
	F(16, status, .help = "an error; in a repeated request, the age of its call")                                  \
	F(32, protocol, .kind = XK_NAMES_SESSION, .is_upper = true, .help = "the protocol above")                      \
	F(32, sequence)                                                                                                \
	F(32, length, .kind = XK_LENGTH, .covers = XK_COVERS_PAYLOAD)
XK_HEADER(chan_wire, CHAN_HEADER);

enum { CHAN_HEADER_LEN = XK_HEADER_LEN(chan_wire) };

/* The header of a message, but for its length. */
struct chan_header {
	uint32_t channel, number; /* number: of the protocol above */
	uint32_t sequence;
	uint16_t flags, status; /* flags: enum chan_flags */
};

/* Loads the header at p. */
static inline struct chan_header
chan_header_load(const uint8_t *p)
{
	return (struct chan_header){ XK_GET(chan_wire, channel, p), XK_GET(chan_wire, protocol, p),
				     XK_GET(chan_wire, sequence, p),
				     (uint16_t)XK_GET_SPAN(chan_wire, reserved, from_client, p),
				     XK_GET(chan_wire, status, p) };
}

/* Returns whether the header at p belongs to a first request, or to a reply without an error. */
static inline bool
chan_header_is_usual(const uint8_t *p)
{
	/* flags and, 16 bits below them, the status */
	return (XK_GET_SPAN(chan_wire, reserved, status, p) & ~(CHAN_FROM_CLIENT << 16)) == CHAN_USER_MSG << 16;
}

TAILQ_HEAD(chan_ends, chan_end); /* oldest first */

/* A channel without an end here: a client's that is closed, or a server's that was evicted. */
struct chan_past {
	uint32_t number, channel, sequence;
	uint64_t until_ns; /* the earliest time that the client reuses it (0: at once), or when the server forgets it */
};

struct chan_pasts {
	struct chan_past *list; /* oldest first */
	unsigned count;
};

struct chan {
	struct xk_protocol protocol; /* first */
	/* settings */
	struct xk_timeouts timeouts;
	uint64_t deadline_ns, silence_ns, lifetime_ns;
	uint64_t retries, channels, hosts, peer_channels, saved_max;

	struct xk_bidctl_watcher watcher;

	struct xk_shares saved; /* of the networks behind each station, in the buffers of long replies */

	struct xk_lock lock;     /* protects the fields below, and all of peers that is not atomic */
	struct xk_map peers;     /* by host */
	struct xk_shares shares; /* of a server's channels: of stations, their networks, and hosts (chan_peer.c) */
	struct xk_event forget;  /* drops memories that are over; scheduled while there are any */
	uint32_t next_channel;
	uint64_t changes;              /* changes that BIDCTL has reported */
	uint32_t host_cost;            /* channels that a host costs besides those that it holds */
	unsigned idle_count, memories; /* memories: channels evicted but remembered */
};

/* Another host. */
struct chan_peer {
	struct chan *chan;
	uint32_t host;
	struct xk_binding binding;
	struct xk_retired retired;
	struct xk_share own; /* of a server's channels, and the cost of the host; of NULL: it has called nothing here */
	struct xk_share *saved;   /* its network's */
	unsigned references;      /* ends that point here */
	unsigned served;          /* listed ends of servers */
	uint64_t boot;            /* the host's boot that all of this belongs to; 0: unknown */
	struct chan_ends ends[2]; /* by is_server */
	struct chan_pasts idle;   /* closed channels of clients here */
	struct chan_pasts evicted;
	struct xk_budget again; /* of retransmissions */
};

/* A message that may have to be sent again. */
struct chan_copy {
	struct xk_kept kept; /* nothing: a short one, in bytes */
	uint32_t saved;      /* at a server: buffers that it has of the network's share */
	uint32_t len;
	uint8_t bytes[CHAN_SHORT];
};

enum chan_state {
	CHAN_IDLE,
	CHAN_SENT,    /* the request or reply `sequence` is sent, but not answered or acknowledged */
	CHAN_EXECUTE, /* a server's handler runs */
	CHAN_ENDED,   /* a client's shepherd has yet to fetch the result */
};

/* One end of a channel: what clients' and servers' sessions have in common. */
struct chan_end {
	struct xk_session session; /* first */
	struct chan_peer *peer;
	TAILQ_ENTRY(chan_end) beside; /* in the peer's list, if it is listed */
	bool listed;                  /* under the chan's lock */
	bool is_server;
	uint32_t channel, number;
	uint64_t boot; /* the peer's boot that messages are for; 0: unknown */
	struct xk_alarm alarm;

	struct xk_lock lock; /* protects what follows */
	uint8_t state;
	bool disabled;   /* the peer has rebooted or is lost, or the channel was evicted */
	bool asked;      /* the other end asked for the message while the ticket's keeper was still sending it */
	bool in_doubt;   /* at a client: the server may still run the last call */
	uint16_t flags;  /* of the message ... */
	uint16_t status; /* ... and its error; 0: none */
	uint32_t sequence;
	uint32_t newer; /* while a handler runs: the latest request that has come; otherwise `sequence` */
	uint32_t max_packet, opt_packet;
	struct xk_retry retry; /* of the message; at a client, negative acks count, too */
	unsigned repeats;      /* times that the message itself was sent again */
	unsigned measure_in;   /* at a client: calls until a round trip is measured again */
	struct xk_round_trip round_trip;
	uint64_t sent_ns;        /* when the message was sent last */
	uint64_t received_ns;    /* when the last message of the other end came */
	struct chan_copy copy;   /* in CHAN_SENT, of the message */
	struct xk_ticket ticket; /* for the copy of a protocol below */
};

struct chan_client {
	struct chan_end end; /* first */
	struct xk_semaphore ended;
	uint64_t deadline_ns; /* for the next calls */
	/* under the end's lock: the call */
	struct xk_call *call; /* NULL: a shepherd waits */
	uint64_t ends_ns;
	bool acked;  /* the server has the request */
	bool probed; /* the last message sent was a question, and no answer has come */
	int result;  /* in CHAN_ENDED */
	struct xk_msg *reply;
};

static inline struct chan *
chan_of(const struct chan_end *end)
{
	return (struct chan *)end->session.protocol;
}

/* Sessions are aligned, so the last bit of an address can distinguish the two ends of a channel. */
static inline struct xk_key
chan_key(const struct xk_session *lls, uint32_t number, uint32_t channel, bool is_server)
{
	return (struct xk_key){ (uintptr_t)lls | is_server, (uint64_t)number << 32 | channel };
}

/* ---- ages: the time since a call began, which its repeated requests bear ---- */

enum { CHAN_AGE_BITS = 11, CHAN_AGE_MAX = (1 << CHAN_AGE_BITS) - 1, CHAN_AGE_POWERS = 31 };

/* Returns ns as microseconds in the lower bits, times two to the power of the upper bits, rounded up. */
static inline uint16_t
chan_age_pack(uint64_t ns)
{
	uint64_t us = ns / 1000 + 1;
	unsigned power = 0;

	for (; us > CHAN_AGE_MAX && power < CHAN_AGE_POWERS; power++)
		us = (us + 1) / 2;
	return (uint16_t)(power << CHAN_AGE_BITS | (us < CHAN_AGE_MAX ? us : CHAN_AGE_MAX));
}

static inline uint64_t
chan_age_ns(uint16_t age)
{
	return ((uint64_t)(age & CHAN_AGE_MAX) << (age >> CHAN_AGE_BITS)) * 1000;
}

/* ---- chan_peer.c ---- */

/*
 * Adds e to the ends of the host that its session below leads to. A client's end gets an idle channel with its sequence
 * number, or a new one. A server's end is for the request after e's sequence, of the peer's boot `boot` (0: unknown),
 * and may evict another one. Returns
 *	0
 *	-ENOBUFS	too many servers' ends
 *	-ESTALE		that boot is over
 *	-EALREADY	the request may have been run
 *	-errno		anything else
 */
int chan_peer_join(struct chan_end *e, uint64_t boot);

/* Takes e, which is closed, out of its host. rests: its channel must not be used before `lifetime` is over. */
void chan_peer_leave(struct chan_end *e, bool rests);

/*
 * Charge e's message, or a question about it, to the peer's budget. Return false if it must not be sent: the message
 * was sent again `most` times, or the peer's retransmissions of this minute would exceed three times the bytes sent for
 * the first time. The end's lock is held.
 */
bool chan_peer_may_ask(struct chan_end *e, uint64_t now_ns);
bool chan_peer_may_repeat(struct chan_end *e, unsigned most, uint64_t now_ns);

/* Handles a change that BIDCTL reports. */
void chan_peer_changed(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change,
		       const struct xk_bidctl_peer *changed);

/* Handles the event `forget`. */
void chan_peer_expire(struct xk_event *event, void *argument);

/* As a protocol's promise. */
const char *chan_peers_promise(struct xk_protocol *self, bool at_rest);

/* Frees all peers when the kernel ends. No timer fires any more. */
void chan_peer_fini(struct chan *chan);

/* ---- chan.c ---- */

/*
 * Sends m, which is taken, as the request or reply `sequence` of e, or as a control message about it. Waits only if
 * flags contain CHAN_MAY_WAIT: messages from a peer must not make it wait.
 */
void chan_send(struct chan_end *e, struct xk_msg *m, uint32_t sequence, unsigned flags, unsigned status);

/* Answers h, which came up lls, by a header alone. */
void chan_answer(struct xk_protocol *self, struct xk_session *lls, const struct chan_header *h, enum chan_answer kind);

/* ---- chan_end.c; a pop's hdr is the address of the header, in front of the message ---- */

int chan_client_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		     struct xk_participants *participants, struct xk_session **session);

/*
 * Returns an end for the message m, which came up lls with the header h to a channel that has none: a new one for a
 * client's request. NULL: m was dropped, and answered if it asks for that.
 */
struct xk_session *chan_end_accept(struct chan *chan, struct xk_session *lls, struct xk_msg *m,
				   const struct chan_header *h);

/* Ends the use of e: its peer is another boot or none, or it was evicted. The caller holds a reference. */
void chan_end_disable(struct chan_end *e);

#endif
