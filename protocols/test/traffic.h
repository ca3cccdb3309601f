/*
 * traffic.h - questions to a traffic instance: what was sent, what arrived, and what was wrong with it.
 *
 * A stream holds the messages that one boot of a host pushes on one session, numbered from 0. Streams are numbered per
 * destination address. Call these functions while the kernel is not running: in a simulated world, between its steps.
 */
#ifndef XK_TRAFFIC_H
#define XK_TRAFFIC_H

#include "xkernel/protocol.h"

enum {
	XK_TRAFFIC_PORT = 2002,
	XK_TRAFFIC_SIZE_MIN = 40,    /* the header of a message */
	XK_TRAFFIC_SIZE_MAX = 65507, /* the longest datagram of UDP over IP */
	XK_TRAFFIC_PEERS_MAX = 10000,
	XK_TRAFFIC_TEXT = 96,
};

extern const struct xk_protocol_type xk_type_traffic;

struct xk_traffic_report {
	uint64_t incarnation;        /* of this boot */
	uint32_t host;               /* its first address; 0: unknown */
	bool finished;               /* it sends no more: by `count` or `stop`, or for lack of peers */
	unsigned peers, senders;     /* how many xk_traffic_peers and xk_traffic_senders can write */
	uint64_t sent;               /* messages that the protocol below accepted */
	uint64_t received;           /* intact messages, duplicates and reordered ones included */
	uint64_t broken;             /* violations of the promise */
	char first[XK_TRAFFIC_TEXT]; /* the first of them, as a sentence; "": none */
};

/* A destination. */
struct xk_traffic_peer {
	uint32_t host;
	uint32_t stream;   /* the current one, or the next if there is no session */
	uint32_t position; /* accepted messages of that stream */
	bool open;         /* a session is open below */
	uint64_t accepted; /* of all streams */
	uint64_t unsent;
};

/* An incoming stream. */
struct xk_traffic_sender {
	uint32_t host;
	uint32_t to; /* this host's address */
	uint32_t stream;
	uint64_t incarnation;
	uint32_t first, highest; /* positions of the first message that came, and the highest */
	uint64_t received;       /* duplicates included */
	uint64_t duplicates;
};

void xk_traffic_report(const struct xk_protocol *traffic, struct xk_traffic_report *report);

/* Write at most max elements. Return how many they wrote. */
unsigned xk_traffic_peers(const struct xk_protocol *traffic, struct xk_traffic_peer *peers, unsigned max);
unsigned xk_traffic_senders(const struct xk_protocol *traffic, struct xk_traffic_sender *senders, unsigned max);

/* Sends no more. */
void xk_traffic_stop(struct xk_protocol *traffic);

#endif
