/*
 * http_private.h - HTTP's requests, connections and parts.
 *
 * http.c          the protocol: connections, what they wait for, and the worker that serves them
 * http_request.c  parses a request's head, and decides whether it is served
 * http_respond.c  makes a response, and hands it down as far as there is room
 * http_file.c     files of the folder
 */
#ifndef XK_HTTP_PRIVATE_H
#define XK_HTTP_PRIVATE_H

#include <sys/queue.h>

#include "xkernel/pages.h"
#include "xkernel/protocol.h"
#include "xkernel/support/alarm.h"
#include "xkernel/support/share.h"

/* ---- counters and drops ---- */

/* Refusals come first: requests that are answered by an error, each with a status of its own (http_respond.c). */
#define HTTP_COUNTERS(C)                                                                                               \
	C(HTTP_BAD_LINE, "bad_line")             /* the first line is not METHOD TARGET VERSION */                     \
	C(HTTP_BAD_END, "bad_line_end")          /* a line does not end with CR LF */                                  \
	C(HTTP_BAD_FIELD, "bad_field")           /* not NAME:VALUE, or it has a control character */                   \
	C(HTTP_BAD_LENGTH, "bad_content_length") /* not one decimal number of 63 bits */                               \
	C(HTTP_BAD_HOST, "bad_host")             /* no Host, several, or not NAME or NAME:PORT */                      \
	C(HTTP_BAD_TARGET, "bad_target")         /* neither a path nor a URL, or too long */                           \
	C(HTTP_BAD_PATH, "bad_path")             /* a part is empty or begins with '.', as ".." does */                \
	C(HTTP_FOREIGN_HOST, "foreign_host")     /* the name of another host */                                        \
	C(HTTP_BODY, "body")                     /* a request with a body */                                           \
	C(HTTP_BAD_METHOD, "bad_method")         /* neither GET nor HEAD */                                            \
	C(HTTP_BAD_VERSION, "bad_version")       /* neither HTTP/1.1 nor HTTP/1.0 */                                   \
	C(HTTP_LONG_LINE, "long_line")           /* the first line has more bytes than a request may have */           \
	C(HTTP_LONG_HEAD, "long_head")           /* the whole head has */                                              \
	C(HTTP_MANY_FIELDS, "many_fields")       /* more than HTTP_FIELDS_MAX */                                       \
	C(HTTP_SLOW, "slow_request")             /* it did not arrive in time */                                       \
	C(HTTP_NOT_FOUND, "not_found")           /* no page, and no regular file in the folder, has this name */       \
	C(HTTP_LARGE_FILE, "large_file")         /* longer than the setting `file` */                                  \
	C(HTTP_BUSY, "busy")                     /* no memory or descriptor is left for a response */                  \
	C(HTTP_ACCEPTED, "accepted")             /* connections */                                                     \
	C(HTTP_REQUESTS, "requests")             /* whole ones, also refused */                                        \
	C(HTTP_RESPONSES, "responses")           /* that were handed down whole */                                     \
	C(HTTP_IDLED, "idle")                    /* connections closed because no request came */                      \
	C(HTTP_EVICTED, "evicted")               /* connections closed to make room for others */                      \
	C(HTTP_CUT, "cut")                       /* connections that ended within a request or a response */           \
	C(HTTP_STALLED, "stalled")               /* connections whose peer took nothing of a response for too long */  \
	C(HTTP_CHANGED, "changed")               /* files that became shorter while they were sent */
XK_COUNTERS(http, HTTP_COUNTERS);

enum { HTTP_REFUSALS = HTTP_ACCEPTED /* the number of refusals; as one: none */ };

#define HTTP_DROPS(D) D(HTTP_LATE, "late") /* behind the last request that is served on the connection */
XK_DROPS(http, HTTP_DROPS);

/* ---- requests ---- */

enum {
	HTTP_FIELDS_MAX = 100,
	HTTP_PATH_MAX = 1024, /* bytes of a path, with its NUL */
};

/* A request as far as it matters here. */
struct http_request {
	bool is_head;             /* HEAD: without the response's body */
	bool stays;               /* the connection serves further requests */
	char path[HTTP_PATH_MAX]; /* decoded: begins with '/'; no part of it is empty (but the last), "." or ".." */
};

/* What Host may be. */
struct http_names {
	uint32_t host;     /* this end's address */
	const char *names; /* more, separated by commas; NULL: none */
};

/* Parses the head in len bytes, which end with an empty line. Returns HTTP_REFUSALS, or why it is refused. */
unsigned http_parse(struct http_request *request, const char *head, size_t len, const struct http_names *names);

/* ---- files ---- */

/*
 * Opens the regular file of this path in the folder, without following links or leaving it. Returns HTTP_REFUSALS and
 * stores the descriptor and the length; or why that is refused.
 */
unsigned http_file_open(int folder, const char *path, uint64_t max, int *file, uint64_t *len);

/* Opens a folder. Returns a descriptor; -errno: there is none, or the system cannot open files so safely. */
int http_folder_open(const char *name);

/* ---- connections ---- */

enum http_state {
	HTTP_IDLE,    /* waits for a request */
	HTTP_READS,   /* a part of a request has come */
	HTTP_WORKS,   /* waits for the worker, or is the worker's */
	HTTP_SENDS,   /* waits for room for more of the response */
	HTTP_RETRIES, /* waits for buffers for more of it */
	HTTP_DRAINS,  /* as HTTP_IDLE, but TCP may still have bytes of a response */
	HTTP_LINGERS, /* everything is sent, and the peer is to end its side */
	HTTP_STATES,
	HTTP_GONE = HTTP_STATES, /* in none of http's lists */
};

struct http_response {
	char head[1024];
	size_t head_len;
	char *bytes;   /* of a page, and so counted in page_bytes; NULL: those of the file */
	int file;      /* -1: none */
	uint64_t len;  /* of the body that is sent */
	uint64_t sent; /* bytes of head and body handed down */
	uint64_t kept; /* in page_bytes */
	bool stays;
};

TAILQ_HEAD(http_connections, http_connection);

/* A host that has connections. All of it is protected by http's lock. */
struct http_peer {
	struct xk_share share; /* first; of connections: the peer ends with the last one */
	struct xk_binding binding;
	struct xk_retired retired;
	struct http_connections lists[HTTP_STATES]; /* as http's, of this peer's connections */
};

struct http_connection {
	struct xk_binding binding;
	struct xk_retired retired;
	struct http *http;
	struct xk_session *session; /* a reference */
	struct http_names names;

	/* protected by http's lock */
	struct http_peer *peer; /* NULL: it has ended */
	TAILQ_ENTRY(http_connection) beside, of_peer;
	enum http_state state;
	bool is_listed;  /* in the lists of its state; otherwise, in HTTP_WORKS, the worker has it */
	bool is_last;    /* nothing is served behind the response */
	bool has_ended;  /* the peer's side, or all */
	bool has_room;   /* there is some again, since the worker had it */
	bool overflows;  /* more has come than is kept: it is lost */
	bool is_slow;    /* a request has not arrived in time */
	bool is_overdue; /* the worker is to see whether the peer takes what TCP has */
	uint64_t due_ns; /* when the patience of its state ends */
	char *bytes; /* what has come of requests, `request` at most; NULL: nothing. The worker reads the first head */
	size_t len, scanned, line; /* line: where the one begins that is scanned */
	size_t head;               /* bytes of the first head; 0: it is not whole */

	/* the worker's */
	struct http_response *response; /* NULL: none */
	uint64_t stalls_ns;             /* when the response is given up, unless there is progress */
	uint32_t queued;                /* bytes that TCP had when the worker last looked */
};

struct http {
	struct xk_protocol protocol;
	/* settings */
	uint64_t port, connections_max, request_max, file_max, page_bytes_max;
	uint64_t request_ns, idle_ns, response_ns;
	const char *folder_name, *names;

	int folder;                  /* -1: none */
	_Atomic uint64_t page_bytes; /* of pages in responses */
	struct xk_map map;           /* connections by the session below */
	struct xk_lock lock;         /* protects what follows */
	struct xk_alarm alarm;       /* of all connections */
	struct http_connections
		lists[HTTP_STATES]; /* by state; in the order of due_ns, as all in one have one patience */
	struct xk_share all;        /* of connections */
	struct xk_map peers;        /* by address */
	bool works;                 /* there is a worker */
};

/* ---- http_respond.c; the worker ---- */

/* Makes the response to a request. Returns false if there is no memory. */
bool http_respond(struct http_connection *c, const struct http_request *request);

/* Makes the response that refuses a request; nothing more is served on the connection, unless it `stays`. */
bool http_refuse(struct http_connection *c, unsigned why, bool is_head, bool stays);

/*
 * Hands down more of the response. Returns 0: some, and there is more; 1: it is whole; -EAGAIN: no room; -ENOBUFS: no
 * buffer; another error: the connection has failed.
 */
int http_send(struct http_connection *c);

/* Frees the response, if any. Any context. */
void http_response_free(struct http_connection *c);

#endif
