/*
 * icmptest.h - how a program drives icmptest: pings, and their replies.
 */
#ifndef XK_ICMPTEST_H
#define XK_ICMPTEST_H

#include "xkernel/support/fault.h"

enum {
	XK_ICMPTEST_MAX = 65507,   /* the longest echo request's data */
	XK_ICMPTEST_WINDOW = 4096, /* remembered requests: timeout_ns / interval_ns must be less */
};

extern const struct xk_protocol_type xk_type_icmptest;

enum xk_icmptest_kind {
	XK_ICMPTEST_REPLY,     /* the first correct reply */
	XK_ICMPTEST_DUPLICATE, /* a further correct reply */
	XK_ICMPTEST_LATE,      /* a first correct reply after the time-out: the request counts as lost */
	XK_ICMPTEST_CORRUPT,   /* a reply of wrong length or contents */
	XK_ICMPTEST_LOST,      /* no reply in time */
	XK_ICMPTEST_FAULT,     /* a host reports that the request will not arrive; LOST follows */
	XK_ICMPTEST_UNSENT,    /* the protocols below refused the request; LOST follows */
};

/* An event of a request. */
struct xk_icmptest_event {
	enum xk_icmptest_kind kind;
	uint64_t sequence; /* of the request, from 0; the wire carries the low 16 bits */
	uint32_t size;     /* bytes of the reply's data; 0: no reply */
	uint64_t rtt_ns;   /* XK_ICMPTEST_REPLY: the full round trip */
	enum xk_fault fault;
	uint64_t from; /* XK_ICMPTEST_FAULT: the reporting host */
	uint32_t mtu;  /* XK_FAULT_TOO_BIG: of the link there; 0: unknown */
};

struct xk_icmptest_result {
	int error; /* 0; -EMSGSIZE; or the error of opening the session (-ENETUNREACH, ...) */
	/* sent = received + lost; unsent ones count as sent and lost */
	uint64_t sent, received, lost, unsent, duplicates, late, corrupt;
	uint64_t faults[XK_FAULTS];
	uint64_t rtt_min_ns, rtt_max_ns, rtt_mean_ns; /* 0 without replies */
};

/*
 * A run: `count` requests, one each `interval_ns`; it ends when each is answered or lost. The thread that carries the
 * message or event (perhaps a driver) calls the callbacks: they must not wait, nor call icmptest. They get `argument`,
 * and are never called concurrently, nor happened after finished.
 */
struct xk_icmptest_run {
	uint32_t host;
	uint32_t size;                    /* bytes of data, 0 to XK_ICMPTEST_MAX */
	uint64_t count;                   /* 0: until xk_icmptest_stop */
	uint64_t interval_ns, timeout_ns; /* at least 1000 */
	uint8_t pattern; /* varies the data, which follows from it, its position and the sequence number */
	void (*happened)(void *argument, const struct xk_icmptest_event *event); /* may be NULL */
	void (*finished)(void *argument, const struct xk_icmptest_result *result);
	void *argument;
};

/* Starts a run. Any thread, also before the kernel runs; never waits. Returns 0, -EBUSY or -EINVAL. */
int xk_icmptest_start(struct xk_protocol *icmptest, const struct xk_icmptest_run *run);

/* Sends no more requests: the run ends when those sent are answered or lost. Any thread; never waits. */
void xk_icmptest_stop(struct xk_protocol *icmptest);

#endif
