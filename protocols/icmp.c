/*
 * icmp.c - echoes, and what hosts tell each other about datagrams that did not get through.
 *
 * Spec:         RFC 792, 1122 (3.2.2), 1191, 1812 (4.3), 6633; a header of 4 bytes that all types have in common, and 4
 *               more of echoes and errors
 * Participants: icmp.h
 * Sessions:     one per (identifier, session below), opened by whoever sends echo requests; that may wait (ARP).
 *               Opening one that exists fails with -EADDRINUSE. There is no passive open: echo requests are answered
 *               here.
 * Echo:         a request is answered with its own bytes, whatever their number, from the address it came to; not one
 *               to a broadcast address (RFC 1122, 3.2.2.6 allows that).
 * Errors sent:  about a datagram that IP, or a protocol above it by way of IP, reports (XK_IP_SET_ERRORS). An error
 *               quotes its header and as much of the rest as 576 bytes hold (RFC 1812, 4.3.2.3). None is sent about an
 *               ICMP error, a datagram to a broadcast or multicast address of IP or the link, or a fragment that is not
 *               the first (RFC 1122, 3.2.2; IP has dropped datagrams that come from no single host), and no more than
 *               `rate` allows, after a burst of `burst` bytes. Sending one never waits (XK_IP_LAZY).
 * Errors got:   given to IP, which finds whose datagram is quoted, and tells that protocol (XK_FAULT). Of our own
 *               requests the protocol above the echo's session is told.
 * Control:      XK_GET_MAX_PACKET, XK_GET_OPT_PACKET; the session below answers the others. From below: XK_FAULT
 * Settings:     echo, rate, burst, seed (of the identifiers that are chosen)
 * Drops:        bad_checksum; echo_to_all (a request), echo_off; unsupported (a type that asks for something), unknown
 *               (type or code), ignored (source quench, redirect), bad_quote (what an error quotes is none of ours);
 *               too_big, bad_message (pushed, without a sequence number)
 * Counters:     requests (answered), replies; of errors sent and got sent_FAULT, got_FAULT (fault.h); not sent:
 *               about_error, about_all, about_part, limited, unsent
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
#include "xkernel/trace.h"

enum icmp_drop {
	ICMP_DROP_BAD_CHECKSUM = XK_DROP_OWN,
	ICMP_DROP_ECHO_TO_ALL,
	ICMP_DROP_ECHO_OFF,
	ICMP_DROP_UNSUPPORTED,
	ICMP_DROP_UNKNOWN,
	ICMP_DROP_IGNORED,
	ICMP_DROP_BAD_QUOTE,
	ICMP_DROP_TOO_BIG,
	ICMP_DROP_BAD_MESSAGE,
};

static const char *const icmp_drops[] = { "bad_checksum", "echo_to_all", "echo_off", "unsupported", "unknown",
					  "ignored",      "bad_quote",   "too_big",  "bad_message", NULL };

enum icmp_counter {
	ICMP_REQUESTS,
	ICMP_REPLIES,
	ICMP_SENT, /* and on: by enum xk_fault, whose last is never sent */
	ICMP_GOT = ICMP_SENT + XK_FAULT_HEADER,
	ICMP_ABOUT_ERROR = ICMP_GOT + XK_FAULTS,
	ICMP_ABOUT_ALL,
	ICMP_ABOUT_PART,
	ICMP_LIMITED,
	ICMP_UNSENT,
};

static const char *const icmp_counters[] = {
	"requests",       "replies",      "sent_network", "sent_host",       "sent_protocol",
	"sent_port",      "sent_too_big", "sent_hops",    "sent_reassembly", "got_network",
	"got_host",       "got_protocol", "got_port",     "got_too_big",     "got_hops",
	"got_reassembly", "got_header",   "about_error",  "about_all",       "about_part",
	"limited",        "unsent",       NULL,
};

static_assert(XK_ARRAY_LENGTH(icmp_counters) == ICMP_UNSENT + 2, "a name for each");
static_assert((int)XK_FAULT_HEADER == XK_FAULTS - 1, "what is never sent comes last");

/* ---- the header ---- */

enum {
	ICMP_TYPE = 0,
	ICMP_CODE = 1,
	ICMP_CHECKSUM = 2,
	ICMP_ID = 4,  /* of echoes */
	ICMP_MTU = 6, /* of XK_FAULT_TOO_BIG (RFC 1191, 4) */

	ICMP_COMMON_LEN = 4, /* of all types */
	ICMP_ECHO_LEN = 6,   /* of echoes, without the sequence number */
	ICMP_ERROR_LEN = 8,  /* of errors, without the quote */

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

static_assert(ICMP_ECHO_LEN + XK_ICMP_SEQUENCE_LEN == ICMP_ERROR_LEN, "echoes and errors are as long as is gathered");

static const struct xk_field_value icmp_types[] = { { ICMP_ECHO_REPLY, "echo_reply" },
						    { ICMP_UNREACHABLE, "unreachable" },
						    { ICMP_SOURCE_QUENCH, "source_quench" },
						    { ICMP_REDIRECT, "redirect" },
						    { ICMP_ECHO, "echo" },
						    { ICMP_TIME_EXCEEDED, "time_exceeded" },
						    { ICMP_PARAMETER_PROBLEM, "parameter_problem" },
						    { 0, NULL } };

static const struct xk_field icmp_fields[] = {
	{ .name = "type", .bits = 8, .values = icmp_types },
	{ .name = "code", .bits = 8 },
	{ .name = "checksum", .bits = 16, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_MESSAGE },
	{ .name = NULL },
};

struct icmp_kind {
	uint8_t type, code;
};

/* The type and code that tell of each fault. */
static const struct icmp_kind icmp_kinds[] = {
	[XK_FAULT_NETWORK] = { ICMP_UNREACHABLE, 0 },      [XK_FAULT_HOST] = { ICMP_UNREACHABLE, 1 },
	[XK_FAULT_PROTOCOL] = { ICMP_UNREACHABLE, 2 },     [XK_FAULT_PORT] = { ICMP_UNREACHABLE, 3 },
	[XK_FAULT_TOO_BIG] = { ICMP_UNREACHABLE, 4 },      [XK_FAULT_HOPS] = { ICMP_TIME_EXCEEDED, 0 },
	[XK_FAULT_REASSEMBLY] = { ICMP_TIME_EXCEEDED, 1 },
};

/* The fault that an error tells of; XK_FAULTS: unknown. */
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

/* Whether a message of this type asks or answers. Others are errors: no error is sent about those. */
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

	_Atomic uint32_t next_id;
	struct xk_lock lock; /* protects what follows */
	uint64_t credit_ns;  /* time saved up for errors: each bit sent costs some */
	uint64_t filled_ns;  /* when credit_ns was brought up to date */
};

struct icmp_session {
	struct xk_session session;
	uint16_t id;
	uint32_t max_packet;
};

static struct xk_key
icmp_key(uint16_t id, const struct xk_session *lls)
{
	return (struct xk_key){ (uintptr_t)lls, id };
}

/* ---- errors sent ---- */

/* Whether an error about trouble may be sent at all; else why not, to be counted. */
static bool
icmp_may_tell(const struct xk_ip_trouble *trouble, unsigned *why)
{
	uint8_t type = ICMP_UNREACHABLE;

	if (trouble->is_later_part)
		*why = ICMP_ABOUT_PART;
	else if (trouble->is_to_all)
		*why = ICMP_ABOUT_ALL;
	else if (trouble->protocol == ICMP_NUMBER) {
		if (trouble->begin_len > 0)
			type = trouble->begin[0];
		else
			xk_msg_copy_out(trouble->m, trouble->skip, &type, 1);
		*why = ICMP_ABOUT_ERROR;
		return icmp_is_query(type);
	} else
		return true;
	return false;
}

/* Takes what an error of len bytes costs from the credit. False: there is not so much. */
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
	if (now_ns > icmp->filled_ns) { /* the driver's clock stands still for a turn, others' do not */
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

static size_t
icmp_quote_len(const struct xk_ip_trouble *trouble)
{
	size_t len = trouble->header_len + trouble->begin_len + xk_msg_len(trouble->m) - trouble->skip;

	return len < ICMP_QUOTE_MAX ? len : ICMP_QUOTE_MAX;
}

/* Copies the first len bytes of the datagram to p. */
static void
icmp_quote(uint8_t *p, size_t len, const struct xk_ip_trouble *trouble)
{
	size_t begin_len = len - trouble->header_len;

	memcpy(p, trouble->header, trouble->header_len);
	p += trouble->header_len;
	if (begin_len > trouble->begin_len)
		begin_len = trouble->begin_len;
	if (begin_len > 0)
		memcpy(p, trouble->begin, begin_len);
	len -= trouble->header_len + begin_len;
	if (len > 0)
		xk_msg_copy_out(trouble->m, trouble->skip, p + begin_len, len);
}

static void
icmp_finish(uint8_t *p, struct icmp_kind kind, uint64_t sum_behind)
{
	p[ICMP_TYPE] = kind.type;
	p[ICMP_CODE] = kind.code;
	xk_put16(p + ICMP_CHECKSUM, 0);
	xk_checksum_store(p + ICMP_CHECKSUM, xk_checksum_finish(xk_sum(0, p, ICMP_COMMON_LEN) + sum_behind));
}

/* Makes the error about trouble. NULL: no buffer. */
static struct xk_msg *
icmp_error_new(struct icmp *icmp, const struct xk_ip_trouble *trouble, size_t quote_len)
{
	size_t len = ICMP_ERROR_LEN + quote_len;
	struct xk_msg *m = xk_msg_new(xk_platform_of(&icmp->protocol), len);

	if (m == NULL)
		return NULL;
	memset(m->data, 0, ICMP_ERROR_LEN);
	if (trouble->fault == XK_FAULT_TOO_BIG)
		xk_put16(m->data + ICMP_MTU, (uint16_t)(trouble->mtu < UINT16_MAX ? trouble->mtu : UINT16_MAX));
	icmp_quote(m->data + ICMP_ERROR_LEN, quote_len, trouble);
	icmp_finish(m->data, icmp_kinds[trouble->fault], xk_sum(0, m->data + ICMP_COMMON_LEN, len - ICMP_COMMON_LEN));
	return m;
}

/* Opens a session of IP that never waits. local 0: the address that the route says. 0 or -errno. */
static int
icmp_open_below(struct icmp *icmp, uint32_t remote, uint32_t local, struct xk_session **lls)
{
	struct xk_protocol *self = &icmp->protocol;
	struct xk_participants participants = { .remote.depth = 0 };

	xk_participant_push(&participants.remote, remote);
	if (local != 0)
		xk_participant_push(&participants.local, local);
	xk_participant_push(&participants.local, XK_IP_LAZY);
	return xk_open(self, self, xk_lower(self, 0), &participants, lls);
}

static void
icmp_send_error(struct icmp *icmp, const struct xk_ip_trouble *trouble)
{
	struct xk_protocol *self = &icmp->protocol;
	size_t quote_len = icmp_quote_len(trouble);
	struct xk_session *lls;
	struct xk_msg *m;
	int err;

	if (!icmp_take_credit(icmp, ICMP_ERROR_LEN + quote_len)) {
		xk_count(self, ICMP_LIMITED);
		return;
	}
	err = icmp_open_below(icmp, trouble->source, trouble->local, &lls);
	m = err == 0 ? icmp_error_new(icmp, trouble, quote_len) : NULL;
	if (m == NULL || xk_push(lls, m) != 0)
		xk_count(self, ICMP_UNSENT);
	else
		xk_count(self, ICMP_SENT + trouble->fault);
	if (err == 0)
		xk_close(lls);
}

static void
icmp_tell(struct xk_protocol *self, const struct xk_ip_trouble *trouble)
{
	unsigned why;

	xk_assert(trouble->fault < XK_FAULT_HEADER);
	if (icmp_may_tell(trouble, &why))
		icmp_send_error((struct icmp *)self, trouble);
	else
		xk_count(self, why);
}

/* ---- errors got ---- */

/* Gives the quote in *m, whose header is off, to IP. 0, or the reason to drop *m. */
static unsigned
icmp_receive_error(struct icmp *icmp, struct xk_session *lls, struct xk_msg **m, enum xk_fault what, uint32_t mtu)
{
	size_t len = xk_msg_len(*m) < ICMP_QUOTE_MAX ? xk_msg_len(*m) : ICMP_QUOTE_MAX;
	struct xk_ip_fault fault = { .fault = what, .mtu = mtu, .quote = xk_msg_peek(m, len), .len = len };
	uint64_t from = 0;

	if (fault.quote == NULL)
		return XK_DROP_NO_BUFFER;
	xk_control(lls, XK_GET_PEER_HOST, &from, sizeof(from));
	fault.from = (uint32_t)from;
	if (xk_control_protocol(xk_lower(&icmp->protocol, 0), XK_IP_FAULT, &fault, sizeof(fault)) < 0)
		return ICMP_DROP_BAD_QUOTE;
	xk_count(&icmp->protocol, ICMP_GOT + what);
	xk_trace(&icmp->protocol, XK_TRACE_EVENTS, "%08x says %s", fault.from, xk_fault_name(what));
	return 0;
}

/* Takes m. */
static void
icmp_demux_error(struct icmp *icmp, struct xk_session *lls, struct xk_msg *m)
{
	const uint8_t *p = m->data;
	enum xk_fault fault = icmp_fault_of(p[ICMP_TYPE], p[ICMP_CODE]);
	uint32_t mtu = fault == XK_FAULT_TOO_BIG ? xk_get16(p + ICMP_MTU) : 0;
	unsigned why = ICMP_DROP_UNKNOWN;

	xk_msg_pop_in_place(m, ICMP_ERROR_LEN);
	if (fault != XK_FAULTS)
		why = icmp_receive_error(icmp, lls, &m, fault, mtu);
	if (why != 0)
		xk_drop(&icmp->protocol, m, why);
	else
		xk_msg_free(m);
}

/* IP reports a fault of a request of ours, or of an answer, which nobody above knows of. 0, or -ENOENT: not ours. */
static int
icmp_fault(struct icmp *icmp, struct xk_fault_report *report)
{
	struct xk_session *s;
	uint8_t type;

	if (report->len < ICMP_ECHO_LEN + XK_ICMP_SEQUENCE_LEN)
		return -ENOENT;
	type = report->begin[ICMP_TYPE];
	if (type != ICMP_ECHO)
		return type == ICMP_ECHO_REPLY && icmp->echo ? 0 : -ENOENT;
	s = xk_table_find(&icmp->protocol, icmp_key(xk_get16(report->begin + ICMP_ID), report->session));
	if (s == NULL)
		return -ENOENT;
	report->begin += ICMP_ECHO_LEN;
	report->len -= ICMP_ECHO_LEN;
	xk_fault_tell(s, report);
	return 0;
}

/* ---- echoes ---- */

/* Whether what came up lls was sent to this host alone. */
static bool
icmp_is_to_us(struct xk_session *lls)
{
	uint64_t destination = 0, host = 1;

	return xk_control(lls, XK_GET_MY_HOST, &host, sizeof(host)) > 0 &&
	       xk_control(lls, XK_IP_GET_DESTINATION, &destination, sizeof(destination)) > 0 && destination == host;
}

/*
 * Sends the echo request m, which is intact, back. Takes m. Its first four bytes are taken off and put before it anew.
 * All bytes add up to zero, so the sum of the others is the complement of the sum of these four.
 */
static void
icmp_answer(struct icmp *icmp, struct xk_session *lls, struct xk_msg *m)
{
	uint64_t sum = (uint16_t)~xk_sum_fold(xk_sum_load32(m->data));
	uint8_t *p;

	xk_msg_pop_in_place(m, ICMP_COMMON_LEN);
	if (!icmp->echo || (m->flags & XK_MSG_TO_ALL) != 0 || !icmp_is_to_us(lls)) {
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

/* Takes m. */
static void
icmp_demux_reply(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct xk_session *s = xk_table_find(self, icmp_key(xk_get16(m->data + ICMP_ID), lls));

	if (s == NULL) {
		xk_drop(self, m, XK_DROP_NO_SESSION);
		return;
	}
	xk_msg_pop_in_place(m, ICMP_ECHO_LEN);
	xk_count(self, ICMP_REPLIES);
	xk_pop(s, lls, m, NULL);
}

/* ---- up ---- */

static bool
icmp_is_error(uint8_t type)
{
	return type == ICMP_UNREACHABLE || type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETER_PROBLEM;
}

/* Checks that m is an echo or an error, intact and with all of its header. 0, or the reason to drop it. */
static unsigned
icmp_check(const struct xk_msg *m)
{
	uint8_t type = m->data[ICMP_TYPE], code = m->data[ICMP_CODE];
	uint64_t sum = xk_msg_sum(m);

	if (sum == 0 || !xk_sum_is_intact(sum))
		return ICMP_DROP_BAD_CHECKSUM;
	if (icmp_is_error(type) || ((type == ICMP_ECHO || type == ICMP_ECHO_REPLY) && code == 0))
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
	uint8_t type = m->data[ICMP_TYPE];

	if (why != XK_DROP_NONE)
		xk_drop(self, m, why);
	else if (type == ICMP_ECHO)
		icmp_answer((struct icmp *)self, lls, m);
	else if (type == ICMP_ECHO_REPLY)
		icmp_demux_reply(self, lls, m);
	else
		icmp_demux_error((struct icmp *)self, lls, m);
}

/* ---- sessions ---- */

static int
icmp_push(struct xk_session *session, struct xk_msg *m)
{
	struct icmp_session *s = (struct icmp_session *)session;
	uint64_t sum;

	if (xk_msg_len(m) < XK_ICMP_SEQUENCE_LEN || xk_msg_len(m) > s->max_packet) {
		bool is_long = xk_msg_len(m) > s->max_packet;

		xk_drop(session->protocol, m, is_long ? ICMP_DROP_TOO_BIG : ICMP_DROP_BAD_MESSAGE);
		return is_long ? -EMSGSIZE : -EINVAL;
	}
	sum = xk_msg_sum(m);
	m = xk_push_header(session, m, ICMP_ECHO_LEN);
	if (xk_unlikely(m == NULL))
		return -ENOBUFS;
	xk_put16(m->data + ICMP_ID, s->id);
	icmp_finish(m->data, (struct icmp_kind){ ICMP_ECHO, 0 }, sum + xk_sum_of16(s->id));
	return xk_push(session->lls, m);
}

/* Asks lls for a length and takes the header of echoes from it. 0 or -errno. */
static int
icmp_ask_length(struct xk_session *lls, int op, uint32_t *length)
{
	int got = xk_control(lls, op, length, sizeof(*length));

	if (got < 0)
		return got;
	*length = *length < ICMP_ECHO_LEN ? 0 : *length - ICMP_ECHO_LEN;
	return 0;
}

static int
icmp_session_control(struct xk_session *session, int op, void *buffer, size_t len)
{
	uint32_t length = ((const struct icmp_session *)session)->max_packet;
	int err = 0;

	if (op == XK_GET_OPT_PACKET)
		err = icmp_ask_length(session->lls, op, &length);
	else if (op != XK_GET_MAX_PACKET)
		err = -ENOTSUP;
	return err != 0 ? err : xk_answer(buffer, len, &length, sizeof(length));
}

static int
icmp_get_participants(struct xk_session *session, struct xk_participants *participants)
{
	return xk_participant_push(&participants->local, ((struct icmp_session *)session)->id) ? 0 : -E2BIG;
}

static int
icmp_setup(struct xk_session *session, const void *how)
{
	struct icmp_session *s = (struct icmp_session *)session;
	const uint16_t *id = how;

	s->id = *id;
	icmp_ask_length(session->lls, XK_GET_MAX_PACKET, &s->max_packet);
	return 0;
}

static const struct xk_session_ops icmp_session_ops = {
	.size = sizeof(struct icmp_session),
	.setup = icmp_setup,
	.push = icmp_push,
	.pop = xk_pop_through,
	.control = icmp_session_control,
	.get_participants = icmp_get_participants,
};

/* Makes a session with id on lls, which stays the caller's. 0 or -errno. */
static int
icmp_open_with(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type, uint16_t id,
	       struct xk_session *lls, struct xk_session **session)
{
	int err;

	if (!xk_duplicate(lls))
		return -ENOMEM;
	err = xk_table_add(self, icmp_key(id, lls), hlp_receive, hlp_type, lls, &id, session);
	return err == -EEXIST ? -EADDRINUSE : err;
}

/* The same with an identifier that nobody uses towards this host. */
static int
icmp_open_anonymous(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		    struct xk_session *lls, struct xk_session **session)
{
	struct icmp *icmp = (struct icmp *)self;
	int err = -EADDRINUSE;

	for (unsigned tries = 0; err == -EADDRINUSE && tries <= UINT16_MAX; tries++) {
		uint16_t id = (uint16_t)atomic_fetch_add_explicit(&icmp->next_id, 1, memory_order_relaxed);

		if (xk_table_find(self, icmp_key(id, lls)) == NULL)
			err = icmp_open_with(self, hlp_receive, hlp_type, id, lls, session);
	}
	return err;
}

static int
icmp_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	uint64_t id = xk_participant_pop(&participants->local);
	struct xk_session *lls;
	int err;

	if (id != XK_ANY && id > UINT16_MAX)
		return -EINVAL;
	err = xk_open(self, self, xk_lower(self, 0), participants, &lls);
	if (err != 0)
		return err;
	if (id == XK_ANY)
		err = icmp_open_anonymous(self, hlp_receive, hlp_type, lls, session);
	else
		err = icmp_open_with(self, hlp_receive, hlp_type, (uint16_t)id, lls, session);
	xk_close(lls);
	return err;
}

/* Nobody above may enable anything. */
static int
icmp_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		 struct xk_key *key)
{
	return -EOPNOTSUPP;
}

/* ---- life and control ---- */

static int
icmp_control(struct xk_protocol *self, int op, void *buffer, size_t len)
{
	uint32_t max_packet = XK_IP_MAX_PACKET - ICMP_ECHO_LEN;

	if (op == XK_FAULT)
		return icmp_fault((struct icmp *)self, buffer);
	if (op == XK_GET_MAX_PACKET)
		return xk_answer(buffer, len, &max_packet, sizeof(max_packet));
	return -ENOTSUP;
}

static int
icmp_init(struct xk_protocol *self)
{
	struct icmp *icmp = (struct icmp *)self;
	struct xk_ip_errors errors = { self, icmp_tell };
	struct xk_participants anybody = { .remote.depth = 0 };
	int err;

	xk_lock_init(&icmp->lock, self);
	icmp->credit_ns = icmp->rate == 0 ? 0 : icmp->burst * 8 * UINT64_C(1000000000) / icmp->rate;
	icmp->filled_ns = xk_now_ns(self);
	if (icmp->seed == 0)
		icmp->seed = xk_random(self);
	atomic_store_explicit(&icmp->next_id, (uint32_t)icmp->seed, memory_order_relaxed);
	err = xk_control_protocol(xk_lower(self, 0), XK_IP_SET_ERRORS, &errors, sizeof(errors));
	return err < 0 ? err : xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

/* ---- tables ---- */

static const struct xk_protocol_ops icmp_ops = {
	.init = icmp_init,
	.open = icmp_open,
	.demux = icmp_demux,
	.control = icmp_control,
	.passive_key = icmp_passive_key,
};

static const struct xk_role icmp_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries datagrams between hosts, and knows what went wrong: ip" },
	{ NULL, 0, NULL, NULL },
};

static const struct xk_setting icmp_settings[] = {
	{ "echo", XK_SETTING_BOOL, offsetof(struct icmp, echo), "yes", "whether echo requests are answered", 0, 0 },
	{ "rate", XK_SETTING_RATE, offsetof(struct icmp, rate), "1Mb/s",
	  "errors that are sent, in the long run, with IP's header; 0: none", 0, 0 },
	{ "burst", XK_SETTING_UINT, offsetof(struct icmp, burst), "6000", "bytes of them that may go at once", 576,
	  1 << 20 },
	{ "seed", XK_SETTING_UINT, offsetof(struct icmp, seed), "0", "where identifiers begin; 0: at random", 0, 0 },
	{ NULL, 0, 0, NULL, NULL, 0, 0 },
};

static const struct xk_number_on icmp_numbers[] = { { "ip", 1 }, { NULL, 0 } };

const struct xk_protocol_type xk_type_icmp = {
	.name = "icmp",
	.help = "Echoes, and errors: what hosts tell each other about datagrams that did not get through.",
	.ops = &icmp_ops,
	.session_ops = &icmp_session_ops,
	.header = ICMP_COMMON_LEN,
	.gather = ICMP_ERROR_LEN,
	.fields = icmp_fields,
	.size = sizeof(struct icmp),
	.offers = XK_ASYNC,
	.lowers = icmp_lowers,
	.numbers = icmp_numbers,
	.settings = icmp_settings,
	.drops = icmp_drops,
	.counters = icmp_counters,
};
