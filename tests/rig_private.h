/*
 * rig_private.h - the state of a rig, shared by rig.c (the graph and running it), rig_user.c, rig_wire.c and rig_call.c
 * (the fakes above and below the tested protocol, the functions of rig.h) and rig_bytes.c (recorded bytes,
 * hexadecimal).
 */
#ifndef TESTS_RIG_PRIVATE_H
#define TESTS_RIG_PRIVATE_H

#include <errno.h>
#include <stdlib.h>

#include "platform/sim/memory.h"
#include "tests/rig.h"
#include "xkernel/trace.h"

enum {
	RIG_FAKES = 16,
	RIG_CHECKS = 256, /* of promises, each of which may walk through all state */
	RIG_PORTS = 4,
	RIG_ENABLES = 8,
	RIG_ANSWERS = 32,
	RIG_ANSWER_LEN = 256,
	RIG_NAME = 64,
	RIG_HEX_MAX = 70000,
	RIG_SEGMENTS = 16,
	RIG_MTU = 1500,
	RIG_PEER = 0x99,
	RIG_NUMBER = 0x3000,
	RIG_SMALL_NUMBER = 253,
	RIG_CALLS = 64,
};

#define RIG_LINK UINT64_C(0x020000000000)

/* A recorded message, sent or delivered. */
struct rig_bytes {
	struct rig_bytes *next;
	const char *through;
	struct xk_session *session;
	size_t len;
	uint8_t bytes[];
};

struct rig_list {
	struct rig_bytes *first, **last;
	unsigned count;
	const char *through; /* and session: of the last message taken */
	struct xk_session *session;
};

struct rig_answer {
	int op;
	int len; /* or -ENOTSUP */
	uint8_t bytes[RIG_ANSWER_LEN];
};

struct rig_fake {
	struct xk_protocol protocol;
	struct rig *rig;
};

struct rig_enable {
	struct xk_protocol *hlp_receive, *hlp_type;
	unsigned count;
};

struct rig_wire {
	struct rig_fake fake;
	struct xk_session *down;   /* of the first wire: on the rig's port */
	struct xk_session *newest; /* injected bytes arrive here */
	struct rig_enable enables[RIG_ENABLES];
	unsigned sessions;
	uint64_t remote, local; /* of the last open */
	uint64_t peer;          /* of the next passive session */
	int refuse;
};

struct rig_wire_session {
	struct xk_session session;
	uint64_t remote, local;
};

/* Prefix of frames injected on a fake wire. session NULL: its newest, or a passive one. */
struct rig_address {
	struct rig_wire *wire;
	struct xk_session *session;
};

struct rig_held {
	struct rig_held *next;
	struct xk_session *session;
};

/* A user's open, which may wait. */
struct rig_opening {
	struct rig_opening *next;
	struct rig *rig;
	struct rig_fake *user;
	struct xk_participants participants;
	struct xk_session *session;
	int status;
};

struct rig_action {
	struct rig_action *next;
	void (*fn)(void *argument);
	void *argument;
	bool done;
};

/* A fake's type, so that it can have any name. */
struct rig_type {
	struct xk_protocol_type type;
	char name[RIG_NAME];
};

/* A user's call. */
struct rig_calling {
	struct xk_call call;
	struct rig *rig;
	struct xk_session *session;
	struct xk_msg *m;
	bool is_async;
	int status;
};

/* A call through a wire, waiting for its end. */
struct rig_pending {
	struct rig_pending *next;
	struct xk_semaphore answered;
	struct xk_call *call; /* NULL: a shepherd waits */
	int status;
	struct xk_msg *reply;
};

struct rig {
	bool may_refuse; /* a setting may be refused (rig_refusal) */
	int refusal;     /* its error; 0: none */
	bool breaks;     /* a promise (rig_expect_broken) */
	unsigned checks; /* of promises */
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct rig_type *types[RIG_FAKES];
	unsigned type_count, number_count;
	struct xk_port *ports[RIG_PORTS]; /* of real port protocols */
	unsigned port_count;
	uint32_t baseline[RIG_PORTS]; /* references on the ports' sessions after init */
	struct xk_port *wire_port;    /* frames injected on fake wires arrive here */
	struct rig_fake *user;
	struct rig_wire *wire, *first_wire;
	struct xk_port *port;
	struct xk_protocol *tested;
	struct rig_list sent, delivered;
	struct xk_session *announced;
	struct rig_held *held;
	struct rig_opening *openings; /* newest first */
	struct rig_action *actions;
	struct rig_answer answers[RIG_ANSWERS];
	unsigned unanswered; /* number of XK_UNANSWERED to wires' sessions */
	unsigned answer_count;
	unsigned open_dones, wire_baseline;
	int error, refuse, fail_sending;
	void (*before_sending)(struct rig *r); /* once; NULL: nothing */
	bool keep;
	struct rig_calling calls[RIG_CALLS];
	unsigned call_count;
	struct rig_pending *pending; /* oldest first */
	int served_status;
	const char *served;
	unsigned close_dones;
};

static inline void *
rig_alloc(size_t size)
{
	void *p;

	rig_allocates = true;
	p = calloc(1, size);
	rig_allocates = false;
	if (p == NULL)
		abort();
	return p;
}

/* Parsed bytes and the offsets at which new segments begin. */
struct rig_hex {
	size_t len;
	size_t cuts[RIG_SEGMENTS];
	unsigned cut_count;
	uint8_t bytes[RIG_HEX_MAX];
};

/* ---- rig_bytes.c ---- */

void rig_list_init(struct rig_list *list);
/* Records m's bytes and the place they passed. Takes m. */
void rig_list_add(struct rig_list *list, struct xk_msg *m, const char *through, struct xk_session *session);
void rig_list_empty(struct rig_list *list);
/* Takes the oldest. Returns true if it matches text (rig.h); otherwise, or if there is none, prints both. */
bool rig_list_is(struct rig_list *list, const char *what, const char *text);
/* Takes the oldest and copies at most max bytes. Returns its length; -1: none. */
long rig_list_copy(struct rig_list *list, void *bytes, size_t max);

/* Parses hexadecimal digits; `|` begins a new segment. Aborts at anything else. The caller frees the result. */
struct rig_hex *rig_hex_parse(const char *text);

/* Returns a frame of bytes, with prefix in front. */
struct xk_msg *rig_frame(struct rig *r, const void *prefix, size_t prefix_len, const void *bytes, size_t len);
/* Returns a message of hex's segments, with prefix in front. */
struct xk_msg *rig_message(struct rig *r, const void *prefix, size_t prefix_len, const struct rig_hex *hex);

/* ---- rig_call.c ---- */

int rig_wire_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply);
int rig_wire_call_async(struct xk_session *s, struct xk_msg *m, struct xk_call *call);
int rig_user_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply);

/* ---- rig_user.c ---- */

extern const struct xk_protocol_ops rig_user_ops;
struct rig_fake *rig_fake_of(struct xk_protocol *self);

/* ---- rig_wire.c ---- */

extern const struct xk_protocol_ops rig_wire_ops;
struct rig_wire *rig_wire_of(struct xk_protocol *self);
/* Opens a session passively. Returns NULL if the wire is not enabled or the session is refused. */
struct xk_session *rig_wire_accept(struct rig_wire *wire);

/* ---- rig.c ---- */

/* Runs the host until nothing is left to do at the current time. */
void rig_run(struct rig *r);

#endif
