/*
 * traffic_private.h - the state of traffic, shared by traffic.c (sending), traffic_check.c (what comes) and
 * traffic_message.c (what a message looks like).
 */
#ifndef XK_TRAFFIC_PRIVATE_H
#define XK_TRAFFIC_PRIVATE_H

#include "protocols/test/traffic.h"
#include "protocols/virtual/vnet.h"
#include "xkernel/chance.h"
#include "xkernel/event.h"

enum traffic_counter {
	TRAFFIC_SENT,
	TRAFFIC_RECEIVED,
	TRAFFIC_UNSENT,
	TRAFFIC_UNOPENED,
	TRAFFIC_OPENED,
	TRAFFIC_CLOSED,
	TRAFFIC_BROKEN,
	TRAFFIC_FORGOTTEN,
	TRAFFIC_REPORTS,
	TRAFFIC_CORRUPT, /* and on: faults (traffic_check.c) */
	TRAFFIC_MISDIRECTED,
	TRAFFIC_DUPLICATE,
	TRAFFIC_REORDERED,
	TRAFFIC_GAP,
	TRAFFIC_MIXED,
	TRAFFIC_OLD_INCARNATION,
};

/* Their names. */
extern const char *const traffic_counters[];

/* Each includes those before it; a fault that breaks TRAFFIC_NEVER breaks none. */
enum traffic_promise { TRAFFIC_NONE, TRAFFIC_INTACT, TRAFFIC_ONCE, TRAFFIC_ORDERED, TRAFFIC_NEVER };

/* What a message says of itself. */
struct traffic_header {
	uint64_t incarnation;
	uint32_t source, destination, stream, position;
};

/* The opener alone opens sessions, the event alone closes them; in between they are the event's. */
struct traffic_peer {
	_Atomic(struct xk_session *) session; /* NULL: none */
	_Atomic bool closed;                  /* by the protocol below */
	uint32_t host;
	uint32_t own; /* this host's address on the session */
	uint32_t stream, position;
	uint32_t max_packet;
	uint64_t accepted, unsent;
};

/* What has come of a stream. */
struct traffic_stream {
	struct traffic_header first; /* message that came */
	uint32_t highest;            /* position */
	uint64_t window;             /* bit i: the position i below the highest has come */
	uint64_t received, duplicates;
	const struct xk_session *lls; /* that it came up last, to compare; NULL: that one is over */
	uint16_t next;                /* in its bucket */
	bool taken, used, old;
};

struct traffic {
	struct xk_protocol protocol;
	/* settings */
	const char *peers_text, *promise_text, *pattern_text, *spacing_text;
	uint64_t fanout, port, local, rate, count, size_min, size_max, start_ns, stop_ns, stream_max;

	enum traffic_promise promise;
	bool random;                        /* pattern */
	bool is_uneven;                     /* spacing */
	uint32_t hosts[XK_VNET_INTERFACES]; /* the addresses of this host */
	unsigned host_count;
	uint64_t incarnation;
	/* sending */
	struct xk_event event;
	struct xk_chance chance;
	struct traffic_peer *peers;
	unsigned peer_count, turn;
	uint64_t accepted, interval_ns, next_ns, end_ns;
	_Atomic uint64_t open_ns; /* when sessions that are missing may be opened */
	_Atomic bool opening, missing;
	/* receiving */
	struct xk_lock lock; /* over what follows */
	struct traffic_stream *streams;
	uint16_t *buckets;
	uint32_t bucket_mask;
	uint64_t hash_seed; /* strangers choose what is hashed */
	unsigned hand;      /* the stream to look at next to make room */
	bool has_forgotten;
	char first[XK_TRAFFIC_TEXT];
};

static inline struct traffic *
traffic_of(const struct xk_protocol *self)
{
	return (struct traffic *)self;
}

/* ---- traffic.c ---- */

/* Returns the address that this host has on session s, or 0: not known. No lock is held. */
uint32_t traffic_own_host(const struct traffic *t, struct xk_session *s);

/* ---- traffic_message.c ---- */

/* Mixes a word into a hash: each bit of the word changes the hash. */
static inline uint64_t
traffic_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/* Returns a message of size bytes, XK_TRAFFIC_SIZE_MIN at least, or NULL: no buffer. */
struct xk_msg *traffic_message_new(const struct xk_protocol *self, const struct traffic_header *h, uint32_t size);

/* Reads m, whose first XK_TRAFFIC_SIZE_MIN bytes are at p. Returns false if m is not as it was sent. */
bool traffic_message_parse(struct traffic_header *h, const struct xk_msg *m, const uint8_t *p);

/* ---- traffic_check.c ---- */

/* Prepares for what may come. Returns 0 or -ENOMEM; traffic_check_fini is due in any case. */
int traffic_check_init(struct traffic *t);
void traffic_check_fini(struct traffic *t);

/* As in struct xk_protocol_ops. */
int traffic_check_open_done(struct xk_protocol *self, struct xk_protocol *llp, struct xk_session *session,
			    struct xk_protocol *hlp_type);
void traffic_check_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m);

#endif
