/* client_private.h - what udptest, icmptest, blasttest and chantest share: opening, checkable messages, round trips. */
#ifndef XK_CLIENT_PRIVATE_H
#define XK_CLIENT_PRIVATE_H

#include <string.h>

#include "xkernel/event.h"
#include "xkernel/protocol.h"

enum {
	CLIENT_RETRY_US = 100000, /* between attempts to open a session, or to start a run */
	CLIENT_NUMBER_LEN = 8,
};

/* ---- round trips ---- */

struct client_trips {
	uint64_t count, sum_ns, min_ns, max_ns; /* all 0 before the first */
};

static inline void
client_trips_add(struct client_trips *trips, uint64_t rtt_ns)
{
	if (trips->count == 0 || rtt_ns < trips->min_ns)
		trips->min_ns = rtt_ns;
	if (rtt_ns > trips->max_ns)
		trips->max_ns = rtt_ns;
	trips->sum_ns += rtt_ns;
	trips->count++;
}

/* Returns 0 if there were none. */
static inline uint64_t
client_trips_mean_ns(const struct client_trips *trips)
{
	return trips->count == 0 ? 0 : trips->sum_ns / trips->count;
}

/* A number and the word behind it, for a trace. */
struct client_count {
	uint64_t count;
	const char *what;
};

/*
 * Reports that a run that the settings started has failed: says so at any trace level, and ends the host with a
 * failure. Not if the host is ending (-ECANCELED), or is the peer itself (-EADDRNOTAVAIL): one setting may name the
 * server to all hosts.
 */
void client_fail(struct xk_protocol *self, int err);

/*
 * Reports the end of a run that the settings started: sets three counters of self, from `first` on, to rtt_min_ns,
 * rtt_mean_ns and rtt_max_ns, and traces "finished: 3 rounds, 0 lost, rtt ..." (level events). With an error, the run
 * has failed.
 */
void client_report(struct xk_protocol *self, int err, struct client_count some, struct client_count others,
		   const struct client_trips *trips, unsigned first);

/* ---- opening ---- */

/* Returns whether a failed attempt may succeed later: the peer was not there, or resources were short. */
bool client_may_retry(int err);

/*
 * Opens a session of self to a port of host (0: the protocol below has no ports). Retries for patience_ns
 * (client_may_retry). A shepherd; may wait. Returns 0 or -errno.
 */
int client_open(struct xk_protocol *self, uint32_t host, uint16_t port, uint64_t patience_ns, struct xk_session **s);

/* For open_done: returns -EPERM if the peer has this port, a server's: two servers would answer each other for ever. */
int client_refuse_port(struct xk_session *session, uint64_t port);

/* ---- messages of a number and a pattern: udptest, chantest ---- */

/* A test protocol whose client counts round trips. Its struct begins with this. */
struct client {
	struct xk_protocol protocol;
	/* settings */
	uint32_t peer; /* 0: runs are started by a program */
	uint64_t rounds, size, start_ns, silence_ns;

	uint8_t *pattern;      /* depends on the position alone */
	size_t pattern_len;    /* bytes made */
	uint32_t pattern_word; /* of the last byte made */
	/* of the run that `peer` starts */
	struct xk_event starter;
	struct client_trips trips;
};

/* Prepares messages of up to size_max bytes and, if `peer` names a host, schedules `starter`. Returns 0 or -ENOMEM. */
int client_init(struct client *c, size_t size_max, xk_event_handler *starter);

/*
 * Makes the pattern of messages of up to size bytes, at most size_max. Called before each run, which sends and checks
 * them; a server needs none.
 */
void client_make_pattern(struct client *c, size_t size);

/* Stores the longest message that s carries (size_max if unknown). Returns 0, or -EMSGSIZE if size exceeds it. */
int client_check_size(struct xk_session *s, uint32_t size, uint32_t size_max, uint32_t *max_packet);

/* The callback `record` of the run that `peer` starts; argument is its struct client. */
void client_record(void *argument, uint64_t rtt_ns);

/* Returns a message filled with the pattern, or NULL: no buffer. */
struct xk_msg *client_pattern_message(struct client *c, uint32_t size);

/* Returns the length of the number, lowest byte first, that begins a message of this size. */
static inline unsigned
client_number_len(uint32_t size)
{
	return size < CLIENT_NUMBER_LEN ? size : CLIENT_NUMBER_LEN;
}

static inline bool
client_number_is(const uint8_t *p, uint32_t size, uint64_t number)
{
	for (unsigned i = 0; i < client_number_len(size); i++)
		if (p[i] != (uint8_t)(number >> (8 * i)))
			return false;
	return true;
}

/* Returns whether m has this size and holds the pattern behind its number. */
static inline bool
client_is_intact(const struct client *c, const struct xk_msg *m, uint32_t size)
{
	const uint8_t *pattern = c->pattern;
	size_t skip = client_number_len(size);

	if (xk_msg_len(m) != size)
		return false;
	for (; m != NULL; pattern += m->len, m = m->next) {
		size_t begin = skip < m->len ? skip : m->len;

		if (memcmp(m->data + begin, pattern + begin, m->len - begin) != 0)
			return false;
		skip -= begin;
	}
	return true;
}

/*
 * Returns a request with this number, or NULL: no buffer. Reuses `old` (an intact answer, or NULL) if its buffer is not
 * shared. Takes old.
 */
static inline struct xk_msg *
client_request(struct client *c, struct xk_msg *old, uint32_t size, uint64_t number)
{
	struct xk_msg *m = old;

	if (old == NULL || old->next != NULL || !xk_msg_is_writable(old)) {
		xk_msg_free(old);
		m = client_pattern_message(c, size);
	}
	if (m != NULL)
		for (unsigned i = 0; i < client_number_len(size); i++)
			m->data[i] = (uint8_t)(number >> (8 * i));
	return m;
}

#endif
