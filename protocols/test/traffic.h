/*
 * traffic.h - what a program can ask of a traffic instance: what was sent, what has come, and what was wrong with it.
 *
 * A stream is the messages that one boot of a host has pushed on one session, numbered from 0. Streams are numbered
 * for each address that they go to. Call these functions while nothing of the kernel runs: in a simulated world,
 * between its steps.
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
	uint32_t host;               /* its first address; 0: not known */
	bool finished;               /* it sends no more: `count` is reached, `stop` has come, or there are no peers */
	unsigned peers, senders;     /* how many there are to ask for */
	uint64_t sent;               /* messages that the protocol below has accepted */
	uint64_t received;           /* good ones; duplicates and what was out of order are among them */
	uint64_t broken;             /* violations of the promise */
	char first[XK_TRAFFIC_TEXT]; /* the first of them, as a sentence; "" */
};

/* A host that is sent to. */
struct xk_traffic_peer {
	uint32_t host;
	uint32_t stream;   /* the one under way, or the next if there is no session */
	uint32_t position; /* how many messages of that stream were accepted */
	bool open;         /* there is a session that is not dead */
	uint64_t accepted; /* of all streams */
	uint64_t unsent;
};

/* A stream that has come in. */
struct xk_traffic_sender {
	uint32_t host;
	uint32_t to; /* which address of this host */
	uint32_t stream;
	uint64_t incarnation;
	uint32_t first, highest; /* positions: of what came first, and the highest */
	uint64_t received;       /* duplicates among them */
	uint64_t duplicates;
};

void xk_traffic_report(const struct xk_protocol *traffic, struct xk_traffic_report *report);

/* Write at most max of them. Return how many they wrote. */
unsigned xk_traffic_peers(const struct xk_protocol *traffic, struct xk_traffic_peer *peers, unsigned max);
unsigned xk_traffic_senders(const struct xk_protocol *traffic, struct xk_traffic_sender *senders, unsigned max);

/* Sends no more. */
void xk_traffic_stop(struct xk_protocol *traffic);

#endif
