/* traffic_private.h - the state and messages of traffic, for traffic.c and for tests that make messages. */
#ifndef XK_TRAFFIC_PRIVATE_H
#define XK_TRAFFIC_PRIVATE_H

#include <sys/queue.h>

#include "protocols/test/traffic.h"
#include "protocols/virtual/vnet.h"
#include "xkernel/event.h"
#include "xkernel/support/chance.h"

#define TRAFFIC_COUNTERS(C)                                                                                            \
	C(TRAFFIC_SENT, "sent")                                                                                        \
	C(TRAFFIC_RECEIVED, "received")                                                                                \
	C(TRAFFIC_UNSENT, "unsent")     /* refused by the protocol below */                                            \
	C(TRAFFIC_UNOPENED, "unopened") /* no peer had a session */                                                    \
	C(TRAFFIC_OPENED, "opened")                                                                                    \
	C(TRAFFIC_CLOSED, "closed")                                                                                    \
	C(TRAFFIC_BROKEN, "broken")                                                                                    \
	C(TRAFFIC_FORGOTTEN, "forgotten")                                                                              \
	C(TRAFFIC_REPORTS, "reports") /* of hosts on messages (fault.h) */                                             \
	C(TRAFFIC_CORRUPT, "corrupt") /* and on: faults */                                                             \
	C(TRAFFIC_MISDIRECTED, "misdirected")                                                                          \
	C(TRAFFIC_DUPLICATE, "duplicate")                                                                              \
	C(TRAFFIC_REORDERED, "reordered")                                                                              \
	C(TRAFFIC_GAP, "gap")                                                                                          \
	C(TRAFFIC_MIXED, "mixed")                                                                                      \
	C(TRAFFIC_OLD_INCARNATION, "old_incarnation")
XK_COUNTERS(traffic, TRAFFIC_COUNTERS);

/* Each includes those before it; no setting promises TRAFFIC_NEVER. */
enum traffic_promise { TRAFFIC_NONE, TRAFFIC_INTACT, TRAFFIC_ONCE, TRAFFIC_ORDERED, TRAFFIC_NEVER };

#define TRAFFIC_HEADER(F)                                                                                              \
	F(32, magic)                                                                                                   \
	F(32, length)                                                                                                  \
	F(64, incarnation)                                                                                             \
	F(32, source)                                                                                                  \
	F(32, destination)                                                                                             \
	F(32, stream)                                                                                                  \
	F(32, position)                                                                                                \
	F(64, hash) /* of the four words before it */
XK_HEADER(traffic, TRAFFIC_HEADER);

/* Only the opener sets a session, and only the event clears it; in between the peer is the event's. */
struct traffic_peer {
	_Atomic(struct xk_session *) session; /* NULL: none */
	_Atomic bool closed;                  /* by the protocol below */
	uint32_t host;
	uint32_t own; /* this host's address on the session */
	uint32_t stream, position;
	uint32_t max_packet;
	uint64_t accepted, unsent;
};

/* An incoming stream. */
struct traffic_stream {
	LIST_ENTRY(traffic_stream) in_bucket;
	struct traffic_header first; /* the first message that came */
	uint32_t highest;            /* position */
	uint64_t window;             /* bit i: position highest - i has come */
	uint64_t received, duplicates;
	const struct xk_session *lls; /* that carried its last message, to compare; NULL: closed since */
	bool taken, used, old;        /* old: of an earlier boot of its host */
};

LIST_HEAD(traffic_bucket, traffic_stream);

struct traffic {
	struct xk_protocol protocol;
	/* settings */
	const char *peers_text;
	uint64_t fanout, port, local, rate, count, size_min, size_max, start_ns, stop_ns, stream_max;

	enum traffic_promise promise;
	unsigned is_random;                 /* pattern: 0 or 1 */
	unsigned is_uneven;                 /* spacing: 0 or 1 */
	uint32_t hosts[XK_VNET_INTERFACES]; /* the addresses of this host */
	unsigned host_count;
	uint64_t incarnation;
	/* sending */
	struct xk_event event;
	struct xk_chance chance;
	struct traffic_peer *peers;
	unsigned peer_count, turn;
	uint64_t accepted, interval_ns, next_ns, end_ns;
	_Atomic uint64_t open_ns; /* when missing sessions may be opened next */
	_Atomic bool opening, missing;
	/* receiving */
	struct xk_lock lock; /* protects what follows */
	struct traffic_stream *streams;
	struct traffic_bucket *buckets;
	uint32_t bucket_mask;
	uint64_t hash_seed; /* 0: not drawn yet. Keeps strangers from choosing buckets */
	unsigned hand;      /* the stream to consider next when room is needed */
	bool has_forgotten;
	char first[XK_TRAFFIC_TEXT];
};

/* Mixes a word into a hash: each bit of the word changes the hash. */
static inline uint64_t
traffic_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/*
 * Returns message h of size bytes, XK_TRAFFIC_SIZE_MIN at least, or NULL: no buffer. Fills in magic, length and hash.
 */
struct xk_msg *traffic_message_new(const struct xk_protocol *self, const struct traffic_header *h, uint32_t size);

/* Reads m, whose first XK_TRAFFIC_SIZE_MIN bytes lie at p. Returns false if m is not as it was sent. */
bool traffic_message_parse(struct traffic_header *h, const struct xk_msg *m, const uint8_t *p);

#endif
