/*
 * seq.c - numbers messages, and counts missing ones at the other end: the smallest example of the documentation.
 *
 * Header:       4 bytes: the number, which counts the messages from one sender to one receiver from 0
 * Participants: those of the protocol below
 * Counters:     missing (skipped numbers), late (messages whose number was skipped before)
 * Not done:     retransmission
 * Graph:        udptest -> seq -> udp
 */
#include "xkernel/header.h"
#include "xkernel/support/virtual.h"

/* Bounds the counting, because a stranger may send any number. */
enum { SEQ_COUNTED_MAX = 64 };

#define SEQ_COUNTERS(C) C(SEQ_MISSING, "missing") C(SEQ_LATE, "late")
XK_COUNTERS(seq, SEQ_COUNTERS);

#define SEQ_HEADER(F) F(32, number, .kind = XK_VARIES)
XK_HEADER(seq, SEQ_HEADER);
XK_FIELDS(seq, SEQ_HEADER);

struct seq_session {
	struct xk_session session; /* first */
	_Atomic uint32_t next, expected;
};

static int
seq_push(struct xk_session *session, struct xk_msg *m)
{
	struct seq_session *s = (struct seq_session *)session;

	m = xk_push_header(session, m, XK_HEADER_LEN(seq));
	if (m == NULL)
		return -ENOBUFS;
	XK_PUT(seq, number, m->data, atomic_fetch_add(&s->next, 1));
	return xk_push(session->lls, m);
}

static void
seq_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct seq_session *s = (struct seq_session *)session;
	uint32_t number = XK_GET(seq, number, m->data), expected = atomic_load(&s->expected);
	int32_t ahead;

	do /* several threads may be here: the highest number wins */
		ahead = (int32_t)(number - expected);
	while (ahead >= 0 && !atomic_compare_exchange_weak(&s->expected, &expected, number + 1));
	xk_msg_pop_in_place(m, XK_HEADER_LEN(seq));
	if (ahead < 0)
		xk_count(session->protocol, SEQ_LATE);
	for (int32_t i = 0; i < ahead && i < SEQ_COUNTED_MAX; i++)
		xk_count(session->protocol, SEQ_MISSING);
	xk_demux(session, m);
}

static const struct xk_session_ops seq_session_ops = {
	.size = sizeof(struct seq_session), .push = seq_push, .pop = seq_pop, .close = xk_virtual_session_close
};
static const struct xk_protocol_ops seq_ops = { XK_VIRTUAL_OPS };

const struct xk_protocol_type xk_type_seq = {
	.name = "seq",
	.help = "Numbers messages, and counts what is missing: the smallest example of the documentation.",
	.ops = &seq_ops,
	.session_ops = &seq_session_ops,
	.header = XK_HEADER_LEN(seq),
	.fields = seq_fields,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.lowers = XK_ROLES({ "transport", XK_ASYNC, "udp", "carries the messages" }),
	.counters = seq_counters,
	.session_max = 256,
};
