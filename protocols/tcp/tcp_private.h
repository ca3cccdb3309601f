/*
 * tcp_private.h - TCP's header, options, connections and parts.
 *
 * tcp.c            the protocol: opening, pushing, closing, control
 * tcp_connection.c a connection's states, and what is done once its lock is released
 * tcp_input.c      a segment's arrival (RFC 9293, 3.10.7): judges, changes the connection, never sends
 * tcp_output.c     the only part that sends
 * tcp_timer.c      what happens when nothing arrives
 * tcp_recovery.c   what is lost, and how much may be sent (RFC 5681, 6582, 6675, 8985)
 * tcp_options.c    options of headers (RFC 9293, 7323, 2018)
 * tcp_gaps.c       ranges behind gaps
 * tcp_strangers.c  segments without a connection: opening ones, and those that come after the end
 */
#ifndef XK_TCP_PRIVATE_H
#define XK_TCP_PRIVATE_H

#include "protocols/tcp/tcp.h"
#include "xkernel/receive.h"
#include "xkernel/support/alarm.h"
#include "xkernel/support/retransmit.h"
#include "xkernel/support/room.h"
#include "xkernel/support/share.h"

/* ---- the header ---- */

enum tcp_flag {
	TCP_FIN = 1 << 0,
	TCP_SYN = 1 << 1,
	TCP_RST = 1 << 2,
	TCP_PSH = 1 << 3,
	TCP_ACK = 1 << 4,
	TCP_URG = 1 << 5,
	TCP_RARE = TCP_FIN | TCP_SYN | TCP_RST | TCP_ACK | TCP_URG, /* segments with others than ACK take no path */
};

#define TCP_HEADER(F)                                                                                                  \
	F(16, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE, .help = "port")                                  \
	F(16, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL, .help = "port")                              \
	F(32, sequence, .help = "of the first byte, or of the SYN")                                                    \
	F(32, acknowledgement, .help = "the next byte that is expected")                                               \
	F(4, offset, .help = "of the payload, in words of 4 bytes; above 5: options")                                  \
	F(4, reserved, .help = "ignored")                                                                              \
	F(8, flags, .is_bits = true, .usual = TCP_ACK, .rare = TCP_RARE,                                               \
	  .values = XK_VALUES({ TCP_FIN, "FIN" }, { TCP_SYN, "SYN" }, { TCP_RST, "RST" }, { TCP_PSH, "PSH" },          \
			      { TCP_ACK, "ACK" }, { TCP_URG, "URG" }, { 0x40, "ECE" }, { 0x80, "CWR" }))               \
	F(16, window, .help = "bytes that may be sent, before scaling")                                                \
	F(16, checksum, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_PSEUDO,                        \
	  .pseudo = XK_TCP_NUMBER)                                                                                     \
	F(16, urgent, .help = "ignored")
XK_HEADER(tcp, TCP_HEADER);

#define TCP_DROPS(D)                                                                                                   \
	D(TCP_BAD_OFFSET, "bad_offset")   /* the header is shorter than 20 bytes, or longer than the segment */        \
	D(TCP_BAD_OPTIONS, "bad_options") /* an option's length is wrong */                                            \
	D(TCP_BROADCAST, "broadcast")                                                                                  \
	D(TCP_BAD_FLAGS, "bad_flags")         /* without ACK where it must be; SYN in a connection */                  \
	D(TCP_OLD, "old")                     /* wholly before the window: was received before */                      \
	D(TCP_OUTSIDE, "outside")             /* wholly behind the window */                                           \
	D(TCP_OLD_STAMP, "old_stamp")         /* RFC 7323, 5: PAWS */                                                  \
	D(TCP_BAD_ACK, "bad_acknowledgement") /* of what was not sent, or too old (RFC 5961, 5) */                     \
	D(TCP_BAD_RESET, "bad_reset")         /* not of the next byte (RFC 5961, 3) */                                 \
	D(TCP_NOT_WANTED, "not_wanted")       /* payload after a FIN, or after the close */                            \
	D(TCP_NO_CONNECTION, "no_connection") /* answered by a RST */                                                  \
	D(TCP_TOO_MANY_GAPS, "too_many_gaps") /* received behind too many gaps */                                      \
	D(TCP_TOO_LATE, "time_wait")          /* of a connection that has ended */                                     \
	D(TCP_OPENING, "opening")             /* repeats, or interferes with, an open in progress */                   \
	/* of pushed messages */                                                                                       \
	D(TCP_NO_ROOM, "no_room")                                                                                      \
	D(TCP_CLOSED, "closed")
XK_DROPS(tcp, TCP_DROPS);

#define TCP_COUNTERS(C)                                                                                                \
	C(TCP_OPENED, "opened")                                                                                        \
	C(TCP_ACCEPTED, "accepted")                                                                                    \
	C(TCP_RESET_RECEIVED, "reset")                                                                                 \
	C(TCP_RESET_SENT, "resets_sent")                                                                               \
	C(TCP_TIMED_OUT, "timed_out")         /* connections given up */                                               \
	C(TCP_DEAF, "deaf")                   /* ... early: their peers kept what others need */                       \
	C(TCP_RETRANSMITTED, "retransmitted") /* segments */                                                           \
	C(TCP_RECOVERED, "recoveries")        /* fast ones */                                                          \
	C(TCP_LOST_AGAIN, "lost_again")       /* retransmissions that were found lost before a timeout */              \
	C(TCP_TAIL_PROBES, "tail_probes")                                                                              \
	C(TCP_TIMEOUTS, "timeouts")                                                                                    \
	C(TCP_PROBES, "probes") /* of closed windows, and of silent peers */                                           \
	C(TCP_ACKS_DELAYED, "acks_delayed")                                                                            \
	C(TCP_CHALLENGES, "challenges") /* acknowledgements of RFC 5961 */                                             \
	C(TCP_URGENT, "urgent")         /* segments whose urgent pointer was ignored */                                \
	C(TCP_COOKIES_SENT, "cookies")                                                                                 \
	C(TCP_COOKIES_RECEIVED, "cookies_accepted")                                                                    \
	C(TCP_LIMBO, "half_open")   /* opens of strangers that were remembered */                                      \
	C(TCP_WAITING, "waiting")   /* connections that were kept in TIME-WAIT */                                      \
	C(TCP_TOO_MANY, "too_many") /* connections refused to a peer that has its share of them */
XK_COUNTERS(tcp, TCP_COUNTERS);

enum {
	TCP_HEADER_LEN = XK_HEADER_LEN(tcp),
	TCP_OPTIONS_MAX = XK_OPTIONS_MAX,
	TCP_STAMP_LEN = 12,    /* of the option with its padding */
	TCP_MSS_DEFAULT = 536, /* of a peer that names none (RFC 9293, 3.7.1) */
	TCP_MSS_MIN = 64,      /* less would make acknowledgements and headers the most of what is sent */
	TCP_SCALE_MAX = 14,
	TCP_SACKS = 4,   /* ranges in a header */
	TCP_RANGES = 32, /* at most so many gaps are remembered, in each direction */
	TCP_RESENT = 64  /* and so many segments that were sent again and are on their way */
};

/* How long a time stamp can be compared: less than half of the time in which milliseconds wrap (RFC 7323, 5.5). */
#define TCP_STAMP_NS (UINT64_C(24) * 86400 * 1000000000)

/* Sequence numbers are compared modulo 2^32 (RFC 9293, 3.4). */
static inline bool
tcp_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline uint32_t
tcp_later(uint32_t a, uint32_t b)
{
	return tcp_before(a, b) ? b : a;
}

/* From begin up to but not including end. */
struct tcp_range {
	uint32_t begin, end;
};

/* ---- options ---- */

#define TCP_MSS(F) F(16, mss, .help = "longest payload that its sender accepts")
#define TCP_STAMP(F)                                                                                                   \
	F(32, stamp, .help = "the sender's clock")                                                                     \
	F(32, echo, .help = "the stamp received last")
#define TCP_SCALE(F) F(8, scale, .help = "windows are shifted left by so many bits")
#define TCP_SACK(F)                                                                                                    \
	F(32, begin, .help = "of bytes received behind a gap")                                                         \
	F(32, end)

/* In the order in which they are sent. */
#define TCP_OPTIONS(O, R)                                                                                              \
	O(2, mss, TCP_MSS, .help = "RFC 9293, 3.7.1")                                                                  \
	O(4, sack_permitted, XK_NO_FIELDS, .help = "RFC 2018")                                                         \
	O(8, stamp, TCP_STAMP, .is_usual = true, .help = "RFC 7323, 3")                                                \
	O(3, scale, TCP_SCALE, .help = "RFC 7323, 2")                                                                  \
	R(5, sack, XK_NO_FIELDS, TCP_SACK, .least = 1, .help = "RFC 2018")
XK_OPTIONS(tcp, TCP_OPTIONS, offset, 4, TCP_BAD_OPTIONS);
XK_OPTION_VALUES(tcp, TCP_OPTIONS);

/* Loads the options in the len bytes at p. Returns false if one of them has a wrong length. */
bool tcp_options_parse(struct tcp_options *options, const uint8_t *p, size_t len);

/* A segment that has arrived; its payload is a message. */
struct tcp_segment {
	uint32_t sequence, acknowledgement, window; /* window: as in the header */
	uint32_t len, end;                          /* of the payload; end: sequence behind payload, SYN and FIN */
	uint8_t flags;
	uint8_t header; /* bytes of it, with options */
	struct tcp_options options;
};

/* Reads the header in front of m and takes the options off. Returns 0, or the reason to drop m. */
unsigned tcp_segment_read(struct tcp_segment *segment, struct xk_msg *m);

/* ---- states ---- */

#define TCP_STATES(S)                                                                                                  \
	S(TCP_SYN_SENT, "SYN-SENT")                                                                                    \
	S(TCP_SYN_RECEIVED, "SYN-RECEIVED") /* here only after a SYN of both ends: others wait in limbo */             \
	S(TCP_ESTABLISHED, "ESTABLISHED")                                                                              \
	S(TCP_FIN_WAIT_1, "FIN-WAIT-1")                                                                                \
	S(TCP_FIN_WAIT_2, "FIN-WAIT-2")                                                                                \
	S(TCP_CLOSE_WAIT, "CLOSE-WAIT")                                                                                \
	S(TCP_CLOSING, "CLOSING")                                                                                      \
	S(TCP_LAST_ACK, "LAST-ACK")                                                                                    \
	S(TCP_TIME_WAIT, "TIME-WAIT") /* for a moment: it needs no connection (tcp_strangers.c) */                     \
	S(TCP_ENDED, "CLOSED")
enum tcp_state { TCP_STATES(XK_NAMED_CONSTANT) TCP_STATES_COUNT };

/* What moves a connection that has been established to another state. */
enum tcp_event { TCP_CLOSES, TCP_FIN_ACKED, TCP_FIN_COMES, TCP_EVENTS };

/* Whether a shepherd pushes segments of a connection. */
enum tcp_sending {
	TCP_SENDS_NOTHING,
	TCP_SENDING,
	TCP_SENDS_MORE, /* and takes what others have left when it is done */
};

/* ---- congestion control ---- */

struct tcp_connection;

/* Changes cwnd and ssthresh of a connection. The lock is held. */
struct tcp_congestion {
	const char *name;
	void (*begin)(struct tcp_connection *c);                 /* established */
	void (*acked)(struct tcp_connection *c, uint32_t bytes); /* new data, outside recovery */
	void (*lost)(struct tcp_connection *c, uint32_t flight); /* sets ssthresh, from the bytes on their way */
};

extern const struct tcp_congestion tcp_reno;

/* ---- connections ---- */

/* Ranges in the order of sequence numbers; none touches the next. */
struct tcp_gaps {
	unsigned count, buffers;
	struct tcp_range range[TCP_RANGES];
	struct xk_msg *m[TCP_RANGES];  /* of received ranges: their bytes */
	uint64_t since_ns[TCP_RANGES]; /* of what the peer has: when something behind the gap before it came first */
};

/* A segment that was sent again and has not been acknowledged, and is not lost, as far as this end knows. */
struct tcp_again {
	struct tcp_range range;
	uint32_t next;         /* snd_max when it was sent: what begins there was sent later */
	bool is_answered;      /* its loss is counted with one before */
	uint64_t sent_ns;      /* the last time */
	uint64_t overtaken_ns; /* when something that was sent later was known to have come; XK_NEVER: not yet */
};

/* In the order in which they were sent. */
struct tcp_resent {
	unsigned count;
	struct tcp_again again[TCP_RESENT];
};

struct tcp_connection {
	struct xk_session session;
	struct xk_lock lock; /* protects all that follows */

	/* sending (RFC 9293, 3.3.1) */
	uint32_t snd_una, snd_nxt, snd_max; /* snd_max: behind the last byte ever sent */
	uint32_t snd_end;                   /* behind the last byte that was pushed: the FIN's place */
	uint32_t snd_wnd, snd_wl1, snd_wl2, max_window;
	uint32_t cwnd, ssthresh;
	uint32_t mss; /* longest payload beside time stamps, if those are used: a full segment */
	uint16_t peer_mss, own_mss;
	uint8_t state; /* enum tcp_state */
	uint8_t snd_scale, rcv_scale;
	uint8_t duplicates; /* acknowledgements in a row that acknowledge nothing new */
	bool scales : 1, sacks : 1, stamps : 1;
	bool eager : 1;       /* small messages do not wait */
	bool ends : 1;        /* a FIN follows the last byte */
	bool resends : 1;     /* the first unacknowledged segment is sent next */
	bool restarts : 1;    /* it recovers from a timeout */
	bool probes : 1;      /* the peer's window is closed */
	bool times : 1;       /* timed_end is valid */
	bool has_fin : 1;     /* the peer's FIN has come, at fin_at */
	bool delivers : 1;    /* a shepherd hands messages up */
	bool is_done : 1;     /* close_done was called, or must not be */
	bool is_open : 1;     /* has been established */
	bool lingers : 1;     /* a reference is the connection's own, until it has ended */
	bool refuses : 1;     /* the segment at hand is answered by a RST of its own */
	bool has_room : 1;    /* the hlp is to be told of room */
	bool reorders : 1;    /* the network was seen to */
	bool widened : 1;     /* reorder_quarters was, since recovery began */
	bool tails : 1;       /* retry.due_ns is when the tail of what is in flight is probed (RFC 8985, 7) */
	bool awaits_tail : 1; /* such a probe is on its way, and ends at tail_end */
	bool resent_tail : 1; /* it has no new bytes */
	bool remembered : 1;  /* its open was in limbo, and was forgotten for this connection */
	union {
		struct {
			bool recovers : 1;    /* from losses: fast recovery or, with SACK, after a timeout */
			bool forces : 1;      /* the timer sends a byte, whatever the window */
			bool acks : 1;        /* an acknowledgement is sent next */
			bool asks : 1;        /* a keep-alive probe is sent next */
			bool resets : 1;      /* a RST is sent next */
			bool probes_tail : 1; /* a probe of the tail is */
		};
		uint8_t sends; /* not 0: one of these */
	};
	_Atomic bool is_closed;   /* the hlp has closed it: changed under the lock */
	_Atomic uint8_t sending;  /* enum tcp_sending: changed under the lock, but for the end of sending */
	uint8_t reorder_quarters; /* of min_trip_us, beyond one: a segment may be late by so much (RFC 8985, 6.2) */
	uint8_t reorder_persists; /* recoveries after which that is none again */

	/* receiving */
	uint32_t rcv_nxt, rcv_edge; /* rcv_edge: the right edge of the window that the peer knows */
	uint32_t ack_sent;          /* the last acknowledgement sent */
	uint32_t ready_bytes;
	uint32_t stamp_recent; /* RFC 7323, 4.3 */
	uint32_t fin_at;
	uint32_t unacked;       /* bytes received since the last acknowledgement */
	uint32_t newest;        /* where the range behind gaps begins that has changed last */
	struct tcp_range twice; /* what came again since the last acknowledgement (RFC 2883); empty: nothing */

	uint32_t iss, recover, timed_end;
	uint32_t lost_end; /* whatever was sent before, and the peer does not have, is lost */
	uint32_t tail_end;
	uint32_t min_trip_us; /* of segments that were sent once */
	uint32_t stamp_offset;

	struct xk_msg *queue, **queue_end;  /* pushed messages, until they are acknowledged, by link */
	struct xk_msg *cursor;              /* the one that holds the byte sent last; NULL: the first */
	uint32_t queue_begin, cursor_begin; /* sequence number of their first bytes */
	struct xk_msg *ready, **ready_end;  /* received in order, to be handed up, by link */
	struct tcp_gaps *sacked, *gaps;     /* what the peer has behind gaps, and what this end has; NULL: nothing */
	struct tcp_resent *resent;          /* NULL: nothing */
	uint32_t gaps_kept;                 /* buffers of gaps */
	struct xk_share_lot kept;           /* of the peer's share: buffers of queue and gaps */
	struct xk_share *place;             /* the peer's, of connections that peers have opened; NULL: this end has */

	struct xk_alarm alarm;
	struct xk_round_trip round_trip;
	struct xk_retry retry; /* of the oldest byte in flight, or of probes; due_ns XK_NEVER: nothing waits */
	uint64_t ack_due_ns;   /* of a delayed acknowledgement */
	uint64_t idle_due_ns;  /* of a keep-alive, or of the peer's FIN after our close */
	uint64_t timed_ns;     /* when the segment was sent that ends at timed_end */
	uint64_t sent_ns, heard_ns, stamp_ns; /* stamp_ns: when stamp_recent was taken */
	uint32_t retransmitted;               /* segments */
	int error;                            /* what ended it; 0: nothing yet, or both ends' closes */
	const struct tcp_congestion *congestion;
	struct xk_room room;
	struct xk_semaphore *opened;       /* of the shepherd that opens it, and waits; NULL: none */
	const struct tcp_how *accepted_by; /* of the shepherd that announces it; NULL: open_done has returned */
};

static_assert(sizeof(struct tcp_connection) <= sizeof(struct xk_session) + 512, "what 100,000 connections cost");

struct tcp {
	struct xk_protocol protocol;
	/* settings */
	uint64_t send_max, receive_max, patience_ns, open_patience_ns, ack_delay_ns, time_wait_ns, keep_alive_ns;
	uint64_t limbo_max, waiting_max, connections_max, synack_retries, challenges_max;
	struct xk_timeouts timeouts;
	bool use_sack, use_stamps, use_scale, eager;

	uint64_t key[2]; /* of initial sequence numbers and cookies: secret */
	uint8_t scale;   /* of windows that this host grants */
	struct tcp_strangers *strangers;
	struct xk_shares shares;           /* of peers, in the buffers kept for them */
	struct xk_shares places;           /* of peers, in the connections that they have opened */
	_Atomic uint64_t scarce_until_ns;  /* 0: buffers are not scarce */
	_Atomic uint64_t challenge_second; /* and below it, in the low 16 bits, how many were sent in it */
};

static inline struct tcp *
tcp_of(const struct tcp_connection *c)
{
	return (struct tcp *)c->session.protocol;
}

static inline uint32_t
tcp_in_flight(const struct tcp_connection *c)
{
	return c->snd_max - c->snd_una;
}

/* Returns the time stamp of a segment that is sent now (RFC 7323, 4.1): milliseconds. */
static inline uint32_t
tcp_now_stamp(const struct tcp_connection *c, uint64_t now_ns)
{
	return (uint32_t)(now_ns / 1000000) + c->stamp_offset;
}

/*
 * The parameters of a connection whose peer has acknowledged the answer to its SYN. p: the header that does so; its flags
 * tell it from the header of an open, which has none.
 */
struct tcp_how {
	uint8_t p[TCP_HEADER_LEN];
	uint32_t iss, irs, window;
	struct tcp_options options; /* of the peer's SYN */
	uint32_t stamp_offset;
	unsigned tries;  /* repetitions of the answer */
	bool remembered; /* in limbo; otherwise the answer was a cookie */
};

/* ---- tcp_connection.c ---- */

/* Moves an established connection to the next state. The lock is held. */
void tcp_move(struct tcp_connection *c, enum tcp_event event);

/* Ends c, for err: all that is queued is dropped. The lock is held; tcp_finish tells the hlp. */
void tcp_end(struct tcp_connection *c, int err);

/* Takes a SYN's options, and the initial numbers. The lock is held, or c is new. */
void tcp_agree(struct tcp_connection *c, const struct tcp_options *options, uint32_t irs);

/* The peer has acknowledged our SYN. The lock is held. */
void tcp_establish(struct tcp_connection *c, uint32_t acknowledged);

/* Sets mss from the peer's, and from what the path carries. The lock is held. */
void tcp_set_mss(struct tcp_connection *c);

/*
 * Does what was decided under the lock, and releases it: sends, and, if it delivers, hands up what has come and tells the
 * hlp of the end.
 */
void tcp_finish(struct tcp_connection *c, bool delivers);

/*
 * The end of tcp_finish when c has ended, or the hlp is to be told of room: gives back what the connection itself holds.
 * Sends nothing. The lock is held, and released.
 */
void tcp_finish_rarely(struct tcp_connection *c);

/* Counts what is kept behind gaps. The lock is held. */
void tcp_count_gaps(struct tcp_connection *c);

/* Drops everything that waits to be handed up. The lock is held. */
void tcp_drop_ready(struct tcp_connection *c);

/* Returns whether buffers are scarce: lately, a peer was refused some that would have left it within an equal share. */
bool tcp_is_scarce(struct tcp *tcp);

/* The slow half of tcp_take_buffers. */
bool tcp_take_scarce_buffers(struct tcp_connection *c, uint32_t count);

/*
 * Takes `count` buffers for the peer, or none: while they are scarce, a peer with more than an equal share gets no more.
 * The lock is held.
 */
static inline bool
tcp_take_buffers(struct tcp_connection *c, uint32_t count)
{
	return xk_likely(atomic_load_explicit(&tcp_of(c)->scarce_until_ns, memory_order_relaxed) == 0 &&
			 xk_share_lot_take(&c->kept, count)) ||
	       tcp_take_scarce_buffers(c, count);
}

/* Returns the name of a state, as in RFC 9293. */
const char *tcp_state_name(enum tcp_state state);

/* Removes the bytes before `sequence` from the queue. The lock is held. */
void tcp_queue_acked(struct tcp_connection *c, uint32_t sequence);

/* ---- tcp_input.c ---- */

/* Returns whether a suspicious segment may be answered: not if enough were in this second (RFC 5961, 7). Counts it. */
bool tcp_challenges(struct tcp *tcp, uint64_t now_ns);

void tcp_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr);

/* ---- tcp_output.c ---- */

/* Returns whether tcp_output may have something to send. The lock is held. */
static inline bool
tcp_has_output(const struct tcp_connection *c)
{
	return c->snd_nxt != c->snd_end + c->ends || c->sends != 0 || c->state <= TCP_SYN_RECEIVED;
}

/* Returns the next segment to be sent, with all of its header; NULL: none now. The lock is held. */
struct xk_msg *tcp_output(struct tcp_connection *c, uint64_t now_ns);

/* The window that this end can grant now. */
uint32_t tcp_receive_window(const struct tcp_connection *c);

/* A segment that is sent without a connection, or in place of one. */
struct tcp_reply {
	uint16_t source, destination, window;
	uint32_t sequence, acknowledgement;
	uint8_t flags;
	const struct tcp_options *options; /* NULL: none */
};

/* Sends a segment without payload on lls. Holds no lock. */
void tcp_reply(struct xk_protocol *self, struct xk_session *lls, const struct tcp_reply *reply);

/* Answers a segment that belongs to no connection by a RST (RFC 9293, 3.10.7.1). Holds no lock. */
void tcp_refuse(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p, const struct tcp_segment *segment);

/* ---- tcp_timer.c ---- */

xk_alarm_handler tcp_expire;

/* ---- tcp_recovery.c; the lock is held ---- */

/* Handles an acknowledgement of new bytes, or of none. */
void tcp_recovery_acked(struct tcp_connection *c, uint32_t acked, bool is_duplicate, uint64_t now_ns);

/* Notes what the peer has behind gaps, before snd_una is changed. Returns whether that was news. */
bool tcp_recovery_sacked(struct tcp_connection *c, const struct tcp_segment *segment, uint64_t now_ns);

/* Returns when tcp_recovery_judge is due: something is lost by then if it has not come. */
uint64_t tcp_recovery_due_ns(const struct tcp_connection *c);

/* Finds out what is lost by now, and begins fast recovery if something is. */
void tcp_recovery_judge(struct tcp_connection *c, uint64_t now_ns);

/* Begins the timer of the oldest byte in flight. */
void tcp_recovery_begin_timer(struct tcp_connection *c, uint64_t now_ns);

/* Lets the timer expire earlier, for a probe of the tail, if one may be sent before the timeout. */
void tcp_recovery_tail(struct tcp_connection *c, uint64_t now_ns);

/* Handles a retransmission timeout. */
void tcp_recovery_timed_out(struct tcp_connection *c);

/* Chooses what is sent again now, if anything: stores the range, which may contain the FIN. */
bool tcp_recovery_resend(const struct tcp_connection *c, struct tcp_range *range);

/* Notes that it was sent. */
void tcp_recovery_resent(struct tcp_connection *c, struct tcp_range range, uint64_t now_ns);

/* Nothing was sent for longer than a timeout: what may be sent at once is as little as at the beginning. */
void tcp_recovery_rested(struct tcp_connection *c);

/* Returns how many bytes behind snd_una may be in flight now. */
uint32_t tcp_recovery_window(const struct tcp_connection *c);

/* ---- tcp_gaps.c: ranges behind gaps ---- */

/*
 * Adds a range, joined with those that it touches; its bytes are *m (NULL: none are kept), which is then NULL. Returns
 * false, and keeps nothing, if there is no room.
 */
bool tcp_gaps_add(struct tcp_gaps **gaps, struct tcp_range range, struct xk_msg **m);

/* Returns the bytes of all ranges. NULL: none. */
uint32_t tcp_gaps_bytes(const struct tcp_gaps *gaps);

/* Forgets what lies before `sequence`. Returns the bytes from there to the next gap; NULL: that is a gap. */
struct xk_msg *tcp_gaps_take(struct tcp_gaps **gaps, uint32_t sequence);

/* ---- tcp_strangers.c ---- */

int tcp_strangers_init(struct tcp *tcp);
void tcp_strangers_fini(struct tcp *tcp);

/* The operation `stranger` (upi.h). */
void tcp_stranger(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_key key,
		  struct xk_key passive);

/* Remembers a connection that is in TIME-WAIT, for its last segments. Any shepherd; never waits. */
void tcp_strangers_wait(struct tcp_connection *c);

/* Returns whether a connection between these ends is in TIME-WAIT. */
bool tcp_strangers_waits(struct tcp *tcp, struct xk_session *lls, const uint8_t *p);

/* Returns an initial sequence number for the ends of p, a header such as is received (RFC 6528). */
uint32_t tcp_initial(struct tcp *tcp, struct xk_session *lls, const uint8_t *p);

#endif
