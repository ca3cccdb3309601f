/*
 * icmptest.h - how a program drives icmptest: pings, and what comes back.
 */
#ifndef XK_ICMPTEST_H
#define XK_ICMPTEST_H

#include "xkernel/fault.h"

enum {
	XK_ICMPTEST_MAX = 65507,   /* the longest echo request's data */
	XK_ICMPTEST_WINDOW = 4096, /* requests that are remembered: timeout_ns / interval_ns must be less */
};

extern const struct xk_protocol_type xk_type_icmptest;

enum xk_icmptest_kind {
	XK_ICMPTEST_REPLY,     /* the first to a request, every byte right */
	XK_ICMPTEST_DUPLICATE, /* another, right as well */
	XK_ICMPTEST_LATE,      /* the first, right as well, but after the time-out: the request counts as lost */
	XK_ICMPTEST_CORRUPT,   /* its length or a byte is wrong */
	XK_ICMPTEST_LOST,      /* no reply in time */
	XK_ICMPTEST_FAULT,     /* a host says that the request will not arrive; it is lost after the time-out */
	XK_ICMPTEST_UNSENT,    /* the protocols below refused the request; it is lost after the time-out, too */
};

/* What happened to a request. */
struct xk_icmptest_event {
	enum xk_icmptest_kind kind;
	uint64_t sequence; /* of the request, from 0; the wire has its last 16 bits */
	uint32_t size;     /* bytes of the reply's data; 0 where there is none */
	uint64_t rtt_ns;   /* XK_ICMPTEST_REPLY: the full round trip */
	enum xk_fault fault;
	uint64_t from; /* XK_ICMPTEST_FAULT: the host that says so */
	uint32_t mtu;  /* XK_FAULT_TOO_BIG: of the link there; 0: not known */
};

struct xk_icmptest_result {
	int error; /* 0; -EMSGSIZE; or that of opening the session (-ENETUNREACH, ...) */
	/* sent = received + lost, when it is over; unsent are among the sent, and lost */
	uint64_t sent, received, lost, unsent, duplicates, late, corrupt;
	uint64_t faults[XK_FAULTS];
	uint64_t rtt_min_ns, rtt_max_ns, rtt_mean_ns; /* 0 without replies */
};

/*
 * A run: `count` requests, one each `interval_ns`; it is over when each has its reply or its time is over. Whoever
 * carries the message or the event (the driver too) calls the callbacks: they must not wait, nor call icmptest. All of
 * them get `argument`; they are never called at once, nor happened after finished.
 */
struct xk_icmptest_run {
	uint32_t host;
	uint32_t size;                    /* bytes of data, 0 to XK_ICMPTEST_MAX */
	uint64_t count;                   /* 0: until xk_icmptest_stop */
	uint64_t interval_ns, timeout_ns; /* at least 1000 */
	uint8_t pattern;                  /* what the data is made of, besides its place and the sequence number */
	void (*happened)(void *argument, const struct xk_icmptest_event *event); /* may be NULL */
	void (*finished)(void *argument, const struct xk_icmptest_result *result);
	void *argument;
};

/*
 * Starts a run. Any thread, also before the kernel runs; never waits. Returns 0; -EBUSY: a run is under way; -EINVAL:
 * an impossible run.
 */
int xk_icmptest_start(struct xk_protocol *icmptest, const struct xk_icmptest_run *run);

/*
 * Sends no more requests: the run ends when those that were sent have their replies, or their time is over. Any thread;
 * never waits.
 */
void xk_icmptest_stop(struct xk_protocol *icmptest);

#endif
