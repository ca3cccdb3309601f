/*
 * icmp.c - echoes, and errors about datagrams that were not delivered.
 *
 * Spec:         RFC 792, 1122 (3.2.2), 1191, 1812 (4.3), 6633; all types share a header of 4 bytes, echoes and errors
 *               have 4 more
 * Participants: icmp.h
 * Sessions:     one per (identifier, session below), opened to send echo requests; that may wait (ARP). Opening an
 *               existing one fails with -EADDRINUSE. There is no passive open: echo requests are answered here.
 * Echo:         requests are answered from the address they were sent to, but not those to a broadcast address (RFC
 *               1122, 3.2.2.6 allows that).
 * Errors sent:  about datagrams that IP reports (set_errors in ip.h), quoted up to 576 bytes in all (RFC 1812,
 *               4.3.2.3). None are about ICMP errors, later fragments, or datagrams to a broadcast or multicast address
 *               of IP or the link (RFC 1122, 3.2.2); IP has dropped datagrams whose source is no single host. Limited
 *               by `rate` and `burst`. Sending never waits (XK_IP_LAZY).
 * Errors got:   go to IP, which notifies the protocol whose datagram is quoted (fault.h); if that is an echo, the
 *               protocol above its session.
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET; the session below answers the others
 * Not done:     timestamp, address mask, router discovery, redirects in either direction, sending parameter problems
 * Graph:        icmp -> ip
 */
#include "protocols/icmp.h"

#include <errno.h>
#include <string.h>

#include "protocols/ip/ip.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"
#include "xkernel/platform.h"
#include "xkernel/support/ports.h"
#include "xkernel/trace.h"

#define ICMP_DROPS(D)                                                                                                  \
	D(ICMP_DROP_ECHO_TO_ALL, "echo_to_all")                                                                        \
	D(ICMP_DROP_ECHO_OFF, "echo_off")                                                                              \
	D(ICMP_DROP_UNSUPPORTED, "unsupported")                                                                        \
	D(ICMP_DROP_UNKNOWN, "unknown")                                                                                \
	D(ICMP_DROP_IGNORED, "ignored")                                                                                \
	D(ICMP_DROP_BAD_QUOTE, "bad_quote")                                                                            \
	D(ICMP_DROP_BAD_MESSAGE, "bad_message") /* pushed without a sequence number */
XK_DROPS(icmp, ICMP_DROPS);

/*
 * Faults are in the order of enum xk_fault, whose last is never sent; about_error and on are errors that were not sent.
 */
#define ICMP_COUNTERS(C)                                                                                               \
	C(ICMP_REQUESTS, "requests")                                                                                   \
	C(ICMP_REPLIES, "replies")                                                                                     \
	C(ICMP_SENT, "sent_network")                                                                                   \
	C(ICMP_SENT_HOST, "sent_host")                                                                                 \
	C(ICMP_SENT_PROTOCOL, "sent_protocol")                                                                         \
	C(ICMP_SENT_PORT, "sent_port")                                                                                 \
	C(ICMP_SENT_TOO_BIG, "sent_too_big")                                                                           \
	C(ICMP_SENT_HOPS, "sent_hops")                                                                                 \
	C(ICMP_SENT_REASSEMBLY, "sent_reassembly")                                                                     \
	C(ICMP_GOT, "got_network")                                                                                     \
	C(ICMP_GOT_HOST, "got_host")                                                                                   \
	C(ICMP_GOT_PROTOCOL, "got_protocol")                                                                           \
	C(ICMP_GOT_PORT, "got_port")                                                                                   \
	C(ICMP_GOT_TOO_BIG, "got_too_big")                                                                             \
	C(ICMP_GOT_HOPS, "got_hops")                                                                                   \
	C(ICMP_GOT_REASSEMBLY, "got_reassembly")                                                                       \
	C(ICMP_GOT_HEADER, "got_header")                                                                               \
	C(ICMP_ABOUT_ERROR, "about_error")                                                                             \
	C(ICMP_ABOUT_ALL, "about_all")                                                                                 \
	C(ICMP_ABOUT_PART, "about_part")                                                                               \
	C(ICMP_LIMITED, "limited")                                                                                     \
	C(ICMP_UNSENT, "unsent")
XK_COUNTERS(icmp, ICMP_COUNTERS);

static_assert(ICMP_GOT == ICMP_SENT + (int)XK_FAULT_HEADER && ICMP_GOT_HEADER == ICMP_GOT + (int)XK_FAULT_HEADER,
	      "a counter for each fault");
static_assert((int)XK_FAULT_HEADER == XK_FAULTS - 1, "the fault that is never sent is the last");

/* ---- the header ---- */

/* The headers of all types; of echoes, without the sequence number; of errors, without the quote (mtu: RFC 1191, 4). */
#define ICMP_HEADER(F)                                                                                                 \
	F(8, type, .values = icmp_types)                                                                               \
	F(8, code)                                                                                                     \
	F(16, checksum, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_MESSAGE)
#define ICMP_ECHO_HEADER(F) ICMP_HEADER(F) F(16, id)
#define ICMP_ERROR_HEADER(F) ICMP_ECHO_HEADER(F) F(16, mtu)
XK_HEADER(icmp, ICMP_HEADER);
XK_HEADER(icmp_echo, ICMP_ECHO_HEADER);
XK_HEADER(icmp_error, ICMP_ERROR_HEADER);

enum {
	ICMP_COMMON_LEN = XK_HEADER_LEN(icmp),
	ICMP_ECHO_LEN = XK_HEADER_LEN(icmp_echo),
	ICMP_ERROR_LEN = XK_HEADER_LEN(icmp_error),

	ICMP_ECHO_REPLY = 0,
	ICMP_UNREACHABLE = 3,
	ICMP_SOURCE_QUENCH = 4,
	ICMP_REDIRECT = 5,
	ICMP_ECHO = 8,
	ICMP_TIME_EXCEEDED = 11,
	ICMP_PARAMETER_PROBLEM = 12,
	ICMP_TIMESTAMP = 13, /* and on to ICMP_MASK_REPLY: questions and answers */
	ICMP_MASK_REPLY = 18,

	ICMP_ERROR_MAX = 576 - 20, /* an error without IP's header */
	ICMP_QUOTE_MAX = ICMP_ERROR_MAX - ICMP_ERROR_LEN,
	ICMP_IP_HEADER_LEN = 20,
	ICMP_NUMBER = 1, /* on IP */
};

static_assert(ICMP_ECHO_LEN + XK_ICMP_SEQUENCE_LEN == ICMP_ERROR_LEN, "headers of echoes and errors are gathered");

static const struct xk_field_value icmp_types[] = { { ICMP_ECHO_REPLY, "echo_reply" },
						    { ICMP_UNREACHABLE, "unreachable" },
						    { ICMP_SOURCE_QUENCH, "source_quench" },
						    { ICMP_REDIRECT, "redirect" },
						    { ICMP_ECHO, "echo" },
						    { ICMP_TIME_EXCEEDED, "time_exceeded" },
						    { ICMP_PARAMETER_PROBLEM, "parameter_problem" },
						    { 0, NULL } };

XK_FIELDS(icmp, ICMP_HEADER);

struct icmp_kind {
	uint8_t type, code;
};

/* The type and code of each fault. */
static const struct icmp_kind icmp_kinds[] = {
	[XK_FAULT_NETWORK] = { ICMP_UNREACHABLE, 0 },      [XK_FAULT_HOST] = { ICMP_UNREACHABLE, 1 },
	[XK_FAULT_PROTOCOL] = { ICMP_UNREACHABLE, 2 },     [XK_FAULT_PORT] = { ICMP_UNREACHABLE, 3 },
	[XK_FAULT_TOO_BIG] = { ICMP_UNREACHABLE, 4 },      [XK_FAULT_HOPS] = { ICMP_TIME_EXCEEDED, 0 },
	[XK_FAULT_REASSEMBLY] = { ICMP_TIME_EXCEEDED, 1 },
};

/* Returns the fault that an error reports; XK_FAULTS: unknown. */
static enum xk_fault
icmp_fault_of(uint8_t type, uint8_t code)
{
	/* source route failed and on to precedence cutoff (RFC 1122, 3.2.2.1; RFC 1812, 5.2.7.1) */
	static const uint8_t unreachable[] = { XK_FAULT_NETWORK, XK_FAULT_HOST,    XK_FAULT_PROTOCOL, XK_FAULT_PORT,
					       XK_FAULT_TOO_BIG, XK_FAULT_HOST,    XK_FAULT_NETWORK,  XK_FAULT_HOST,
					       XK_FAULT_HOST,    XK_FAULT_NETWORK, XK_FAULT_HOST,     XK_FAULT_NETWORK,
					       XK_FAULT_HOST,    XK_FAULT_HOST,    XK_FAULT_HOST,     XK_FAULT_HOST };

	if (type == ICMP_UNREACHABLE && code < XK_ARRAY_LENGTH(unreachable))
		return unreachable[code];
	if (type == ICMP_TIME_EXCEEDED && code <= 1)
		return code == 0 ? XK_FAULT_HOPS : XK_FAULT_REASSEMBLY;
	return type == ICMP_PARAMETER_PROBLEM && code <= 2 ? XK_FAULT_HEADER : XK_FAULTS;
}

/* Returns whether messages of this type ask or answer. The others are errors, about which no error is sent. */
static bool
icmp_is_query(uint8_t type)
{
	return type == ICMP_ECHO || type == ICMP_ECHO_REPLY || (type >= ICMP_TIMESTAMP && type <= ICMP_MASK_REPLY);
}

struct icmp {
	struct xk_protocol protocol;
	/* settings */
	bool echo;
	uint64_t rate, burst, seed;

	struct xk_lock lock; /* protects what follows */
	uint64_t credit_ns;  /* saved time; each bit of an error costs some */
	uint64_t filled_ns;  /* when credit_ns was updated */
};

/* Returns the key of the session of an echo's header. */
static struct xk_key
icmp_key(struct xk_protocol *self, struct xk_session *lls, const uint8_t *p)
{
	return (struct xk_key){ (uintptr_t)lls, XK_GET(icmp_echo, id, p) };
}

/* ---- errors sent ---- */

/* Returns ICMP_SENT if an error about trouble may be sent, or else the counter of the reason (RFC 1122, 3.2.2). */
static unsigned
icmp_may_report(const struct xk_ip_trouble *trouble)
{
	uint8_t type = ICMP_UNREACHABLE;

	if (trouble->is_later_part)
		return ICMP_ABOUT_PART;
	if (trouble->is_to_all)
		return ICMP_ABOUT_ALL;
	if (trouble->protocol != ICMP_NUMBER)
		return ICMP_SENT;
	if (trouble->begin_len > 0)
		type = trouble->begin[0];
	else
		xk_msg_copy_out(trouble->m, trouble->skip, &type, 1);
	return icmp_is_query(type) ? ICMP_SENT : ICMP_ABOUT_ERROR;
}

/* Pays for an error of len bytes. Returns false if the credit is too low. */
static bool
icmp_take_credit(struct icmp *icmp, size_t len)
{
	uint64_t bits = (len + ICMP_IP_HEADER_LEN) * 8, now_ns = xk_now_ns(&icmp->protocol), price_ns, full_ns;
	bool taken;

	if (icmp->rate == 0)
		return false;
	price_ns = bits * UINT64_C(1000000000) / icmp->rate;
	full_ns = icmp->burst * 8 * UINT64_C(1000000000) / icmp->rate;
	xk_lock(&icmp->lock);
	if (now_ns > icmp->filled_ns) { /* a driver's clock may lag by a turn */
		icmp->credit_ns += now_ns - icmp->filled_ns;
		icmp->filled_ns = now_ns;
	}
	if (icmp->credit_ns > full_ns)
		icmp->credit_ns = full_ns;
	taken = icmp->credit_ns >= price_ns;
	if (taken)
		icmp->credit_ns -= price_ns;
	xk_unlock(&icmp->lock);
	return taken;
}

/* Completes the header at p; sum_behind is the sum of the bytes after the first four. */
static void
icmp_finish(uint8_t *p, struct icmp_kind kind, uint64_t sum_behind)
{
	icmp_store(p, &(struct icmp_header){ kind.type, kind.code, 0 });
	xk_checksum_store(p + XK_OFFSET(icmp, checksum),
			  xk_checksum_finish(xk_sum(0, p, ICMP_COMMON_LEN) + sum_behind));
}

/* Returns an error that quotes quote_len bytes of the datagram in trouble; NULL: no buffer. */
static struct xk_msg *
icmp_error_new(struct xk_protocol *self, const struct xk_ip_trouble *trouble, size_t quote_len)
{
	size_t len = ICMP_ERROR_LEN + quote_len, rest = quote_len - trouble->header_len;
	size_t begin_len = rest < trouble->begin_len ? rest : trouble->begin_len;
	struct xk_msg *m = xk_msg_new(xk_platform_of(self), len);
	uint8_t *quote;

	if (m == NULL)
		return NULL;
	memset(m->data, 0, ICMP_ERROR_LEN);
	if (trouble->fault == XK_FAULT_TOO_BIG)
		XK_PUT(icmp_error, mtu, m->data, trouble->mtu < UINT16_MAX ? trouble->mtu : UINT16_MAX);
	quote = m->data + ICMP_ERROR_LEN;
	memcpy(quote, trouble->header, trouble->header_len);
	quote += trouble->header_len;
	if (begin_len > 0)
		memcpy(quote, trouble->begin, begin_len);
	if (rest > begin_len)
		xk_msg_copy_out(trouble->m, trouble->skip, quote + begin_len, rest - begin_len);
	icmp_finish(m->data, icmp_kinds[trouble->fault], xk_sum(0, m->data + ICMP_COMMON_LEN, len - ICMP_COMMON_LEN));
	return m;
}

/* Sends an error about trouble, or counts the reason not to. Called by IP (struct xk_ip_errors). */
static void
icmp_send_error(struct xk_protocol *self, const struct xk_ip_trouble *trouble)
{
	size_t quote_len = trouble->header_len + trouble->begin_len + xk_msg_len(trouble->m) - trouble->skip;
	struct xk_participants participants = { .remote = { 1, { trouble->source } } };
	unsigned outcome = icmp_may_report(trouble);
	struct xk_session *lls;
	struct xk_msg *m;

	xk_assert(trouble->fault < XK_FAULT_HEADER);
	if (quote_len > ICMP_QUOTE_MAX)
		quote_len = ICMP_QUOTE_MAX;
	if (outcome == ICMP_SENT && !icmp_take_credit((struct icmp *)self, ICMP_ERROR_LEN + quote_len))
		outcome = ICMP_LIMITED;
	if (outcome == ICMP_SENT) {
		outcome = ICMP_UNSENT;
		if (trouble->local != 0)
			xk_participant_push(&participants.local, trouble->local);
		xk_participant_push(&participants.local, XK_IP_LAZY);
		if (xk_open(self, self, xk_lower(self, 0), &participants, &lls) == 0) {
			m = icmp_error_new(self, trouble, quote_len);
			if (m != NULL && xk_push(lls, m) == 0)
				outcome = ICMP_SENT + trouble->fault;
			xk_close(lls);
		}
	}
	xk_count(self, outcome);
}

/* ---- errors got ---- */

/* Hands the quote in error m to IP. Takes m. */
static void
icmp_demux_error(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	const struct icmp_error_header h = icmp_error_load(m->data);
	struct xk_ip_fault fault = { .fault = icmp_fault_of(h.type, h.code) };
	unsigned why = XK_DROP_NONE;
	uint64_t from = 0;

	if (fault.fault == XK_FAULT_TOO_BIG)
		fault.mtu = h.mtu;
	xk_msg_pop_in_place(m, ICMP_ERROR_LEN);
	fault.len = xk_msg_len(m) < ICMP_QUOTE_MAX ? xk_msg_len(m) : ICMP_QUOTE_MAX;
	xk_control(lls, XK_GET_PEER_HOST, &from);
	fault.from = (uint32_t)from;
	if (fault.fault == XK_FAULTS)
		why = ICMP_DROP_UNKNOWN;
	else if ((fault.quote = xk_msg_peek(&m, fault.len)) == NULL)
		why = XK_DROP_NO_BUFFER;
	else if (xk_ip_ops()->report(xk_ip_below(self), &fault) != 0)
		why = ICMP_DROP_BAD_QUOTE;
	if (why != XK_DROP_NONE) {
		xk_drop(self, m, why);
		return;
	}
	xk_count(self, ICMP_GOT + fault.fault);
	xk_trace(self, XK_TRACE_EVENTS, "%08x reports: %s", fault.from, xk_fault_name(fault.fault));
	xk_msg_free(m);
}

/* Notifies the protocol above of a fault of its request. Returns 0 (also for replies), or -ENOENT: not our message. */
static int
icmp_fault(struct xk_protocol *self, struct xk_fault_report *report)
{
	struct xk_session *s;
	uint8_t type;

	if (report->len < ICMP_ECHO_LEN + XK_ICMP_SEQUENCE_LEN)
		return -ENOENT;
	type = XK_GET(icmp, type, report->begin);
	if (type != ICMP_ECHO)
		return type == ICMP_ECHO_REPLY && ((struct icmp *)self)->echo ? 0 : -ENOENT;
	s = xk_table_find(self, icmp_key(self, report->session, report->begin));
	if (s == NULL)
		return -ENOENT;
	report->begin += ICMP_ECHO_LEN;
	report->len -= ICMP_ECHO_LEN;
	xk_fault_notify(s, report);
	return 0;
}

/* ---- echoes ---- */

/*
 * Answers the intact echo request m. Takes m. Its first four bytes are replaced; because all bytes add up to zero, the
 * sum of the others is the complement of the sum of these four.
 */
static void
icmp_answer(struct icmp *icmp, struct xk_session *lls, struct xk_msg *m)
{
	uint64_t sum = (uint16_t)~xk_sum_fold(xk_sum_load32(m->data)), destination = 0, host = 1;
	bool is_to_us = (m->flags & XK_MSG_TO_ALL) == 0 && xk_control(lls, XK_GET_MY_HOST, &host) == 0 &&
			xk_control(lls, XK_GET_DESTINATION, &destination) == 0 && destination == host;
	uint8_t *p;

	xk_msg_pop_in_place(m, ICMP_COMMON_LEN);
	if (!icmp->echo || !is_to_us) {
		xk_drop(&icmp->protocol, m, icmp->echo ? ICMP_DROP_ECHO_TO_ALL : ICMP_DROP_ECHO_OFF);
		return;
	}
	p = xk_msg_push(&m, ICMP_COMMON_LEN);
	if (p == NULL) {
		xk_drop(&icmp->protocol, m, XK_DROP_NO_BUFFER);
		return;
	}
	icmp_finish(p, (struct icmp_kind){ ICMP_ECHO_REPLY, 0 }, sum);
	xk_count(&icmp->protocol, ICMP_REQUESTS);
	xk_push(lls, m);
}

/* ---- up ---- */

/* Checks that m is an intact echo or error with its whole header. Returns 0, or the reason to drop it. */
static unsigned
icmp_check(const struct xk_msg *m)
{
	uint8_t type = XK_GET(icmp, type, m->data), code = XK_GET(icmp, code, m->data);
	uint64_t sum = xk_msg_sum(m);

	if (sum == 0 || !xk_sum_is_intact(sum))
		return XK_DROP_BAD_CHECKSUM;
	if (type == ICMP_UNREACHABLE || type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETER_PROBLEM ||
	    ((type == ICMP_ECHO || type == ICMP_ECHO_REPLY) && code == 0))
		return xk_msg_len(m) < ICMP_ERROR_LEN ? XK_DROP_SHORT : XK_DROP_NONE;
	if (type == ICMP_SOURCE_QUENCH || type == ICMP_REDIRECT)
		return ICMP_DROP_IGNORED;
	return icmp_is_query(type) && type != ICMP_ECHO && type != ICMP_ECHO_REPLY ? ICMP_DROP_UNSUPPORTED
										   : ICMP_DROP_UNKNOWN;
}

static void
icmp_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	unsigned why = icmp_check(m);
	uint8_t type = XK_GET(icmp, type, m->data);
	struct xk_session *s;

	if (why != XK_DROP_NONE) {
		xk_drop(self, m, why);
	} else if (type == ICMP_ECHO) {
		icmp_answer((struct icmp *)self, lls, m);
	} else if (type != ICMP_ECHO_REPLY) {
		icmp_demux_error(self, lls, m);
	} else if ((s = xk_table_find(self, icmp_key(self, lls, m->data))) == NULL) {
		xk_drop(self, m, XK_DROP_NO_SESSION);
	} else {
		xk_msg_pop_in_place(m, ICMP_ECHO_LEN);
		xk_count(self, ICMP_REPLIES);
		xk_pop(s, lls, m, NULL);
	}
}

/* ---- sessions ---- */

static int
icmp_push(struct xk_session *session, struct xk_msg *m)
{
	bool is_long = xk_msg_len(m) > session->sends.longest;
	uint64_t sum;

	if (is_long || xk_msg_len(m) < XK_ICMP_SEQUENCE_LEN) {
		xk_drop(session->protocol, m, is_long ? XK_DROP_TOO_BIG : ICMP_DROP_BAD_MESSAGE);
		return is_long ? -EMSGSIZE : -EINVAL;
	}
	sum = xk_msg_sum(m);
	m = xk_push_header(session, m, ICMP_ECHO_LEN);
	if (xk_unlikely(m == NULL))
		return -ENOBUFS;
	memcpy(m->data, session->sends.header, ICMP_ECHO_LEN);
	icmp_finish(m->data, (struct icmp_kind){ ICMP_ECHO, 0 },
		    sum + xk_sum_load16(m->data + XK_OFFSET(icmp_echo, id)));
	return xk_push(session->lls, m);
}

/* Answers a length: that of lls, or if NULL of the protocol below, less the header of echoes. */
static int
icmp_answer_length(const struct xk_protocol *self, struct xk_session *lls, int op, uint32_t *length)
{
	int err;

	if (op != XK_GET_MAX_PACKET && op != XK_GET_OPT_PACKET)
		return -ENOTSUP;
	err = lls != NULL ? xk_control_op(lls, op, length) : xk_control_protocol_op(xk_lower(self, 0), op, length);
	if (err == 0)
		*length = *length < ICMP_ECHO_LEN ? 0 : *length - ICMP_ECHO_LEN;
	return err;
}

static int
icmp_session_control(struct xk_session *session, int op, void *argument)
{
	return icmp_answer_length(session->protocol, session->lls, op, argument);
}

static int
icmp_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	uint64_t id = XK_GET(icmp_echo, id, session->sends.header);

	return xk_participant_push(&participants->local, id) ? 0 : -E2BIG;
}

static int
icmp_setup(struct xk_session *session, const void *how)
{
	struct xk_sends *sends = &session->sends;

	XK_PUT(icmp_echo, id, sends->header, XK_GET(icmp_echo, id, (const uint8_t *)how));
	icmp_session_control(session, XK_GET_MAX_PACKET, &sends->longest);
	return 0;
}

static const struct xk_session_ops icmp_session_ops = {
	.setup = icmp_setup,
	.push = icmp_push,
	.pop = xk_pop_through,
	.control = icmp_session_control,
	.get_participants = icmp_get_participants,
};

static int
icmp_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	uint8_t p[ICMP_ECHO_LEN];
	struct xk_opening opening = { hlp_receive, hlp_type, p, p, .local = xk_participant_pop(&participants->local) };
	int err;

	if (opening.local != XK_ANY && opening.local > UINT16_MAX)
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &opening.lls);
	return err != 0 ? err : xk_ports_open_on(self, &opening, session);
}

/* Refuses all enables. */
static int
icmp_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		 struct xk_key *key)
{
	return -EOPNOTSUPP;
}

/* ---- life and control ---- */

static int
icmp_control(struct xk_protocol *self, int op, void *argument)
{
	return icmp_answer_length(self, NULL, op, argument);
}

static int
icmp_init(struct xk_protocol *self)
{
	struct icmp *icmp = (struct icmp *)self;
	struct xk_ip_errors errors = { self, icmp_send_error };
	struct xk_protocol *ip = xk_ip_below(self);
	int err = ip == NULL ? -ENOTSUP : xk_ip_ops()->set_errors(ip, &errors);

	if (err != 0)
		return err;
	xk_lock_init(&icmp->lock, self);
	icmp->credit_ns = icmp->rate == 0 ? 0 : icmp->burst * 8 * UINT64_C(1000000000) / icmp->rate;
	icmp->filled_ns = xk_now_ns(self);
	if (icmp->seed == 0)
		icmp->seed = xk_random(self);
	self->format.local_at = XK_OFFSET(icmp_echo, id); /* the fields of all types have no ends */
	return xk_ports_init(self, 0, UINT16_MAX, icmp->seed);
}

/* ---- tables ---- */

static const struct xk_protocol_ops icmp_ops = {
	.init = icmp_init,
	.open = icmp_open,
	.demux = icmp_demux,
	.control = icmp_control,
	.fault = icmp_fault,
	.passive_key = icmp_passive_key,
	.key = icmp_key,
};

static const struct xk_setting icmp_settings[] = {
	XK_SETTING(BOOL, struct icmp, echo, "echo", "whether to answer echo requests", .initial = "yes"),
	XK_SETTING(RATE, struct icmp, rate, "rate", "long-term rate of sent errors, with IP's header; 0: none",
		   .initial = "1Mb/s"),
	XK_SETTING(UINT, struct icmp, burst, "burst", "bytes of errors that may be sent at once", .initial = "6000",
		   .min = 576, .max = 1 << 20),
	XK_SETTING(UINT, struct icmp, seed, "seed", "key of the identifiers; 0: random", .initial = "0"),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_icmp = {
	.name = "icmp",
	.help = "Echoes, and errors about datagrams that were not delivered.",
	.ops = &icmp_ops,
	.session_ops = &icmp_session_ops,
	.header = ICMP_COMMON_LEN,
	.gather = ICMP_ERROR_LEN,
	.fields = icmp_fields,
	.size = sizeof(struct icmp),
	.offers = XK_ASYNC,
	.lowers = XK_ROLES({ "network", XK_ASYNC, NULL, "carries datagrams between hosts, and reports faults: ip" }),
	.numbers = XK_NUMBERS({ "ip", 1 }),
	.settings = icmp_settings,
	.drops = icmp_drops,
	.counters = icmp_counters,
};
