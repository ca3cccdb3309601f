/*
 * user.h - the protocol above TCP of a script's host: it opens, accepts and uses connections as the script says, and
 * compares what comes with the pattern of docs/conformance.md.
 */
#ifndef CONFORMANCE_USER_H
#define CONFORMANCE_USER_H

#include "xkernel/protocol.h"

extern const struct xk_protocol_type user_type;

/* The library's protocols and user_type. */
const struct xk_protocol_type *const *user_types(void);

enum user_verb {
	USER_LISTEN, /* accepts connections to a port; number: the port */
	USER_DEAF,   /* accepts no more */
	USER_OPEN,   /* number: the peer's port; from: this host's, or XK_ANY */
	USER_SEND,   /* number: of bytes */
	USER_END,    /* sends no more: a FIN */
	USER_CLOSE,
	USER_CLOSE_ALL,
	USER_ABORT,
	USER_HOLD,    /* messages that come (without a connection: connections) are not taken until USER_RELEASE */
	USER_RELEASE, /* takes them */
	USER_TAKE,    /* takes one of them */
	USER_LOOK,    /* updates `state` */
};

struct user_order {
	enum user_verb verb;
	unsigned connection; /* which one was opened or accepted, from 1 on; 0: the last */
	uint64_t number, from;
	uint64_t peer; /* host */
};

/* Gives an order, which a shepherd carries out as soon as the kernel runs. One at a time. */
void user_do(struct xk_protocol *self, const struct user_order *order);

struct user_view {
	uint64_t received; /* bytes */
	bool is_wrong;     /* they are not the pattern's */
	bool has_ended;    /* the stream, or the connection */
	int err;           /* of the open, or of the last push; -EINPROGRESS: still opening */
	const char *state; /* as of USER_LOOK; "": the user has closed it */
};

/* Returns what the user knows of a connection. Returns false if there is none. */
bool user_see(struct xk_protocol *self, unsigned connection, struct user_view *view);

#endif
