/*
 * seq.c - numbers messages, and counts the missing ones at the other end: the smallest example of the documentation.
 *
 * Header:       4 bytes: the number, which counts the messages from one sender to one receiver from 0
 * Participants: those of the protocol below
 * Counters:     missing (numbers that were skipped), late (messages whose number had been skipped)
 * Not done:     anything about missing messages
 * Graph:        udptest -> seq -> udp
 */
#include "xkernel/bytes.h"
#include "xkernel/virtual.h"

/* A stranger may send any number, so the counting that it causes is bounded. */
enum { SEQ_HEADER_LEN = 4, SEQ_COUNTED_MAX = 64 };

enum seq_counter { SEQ_MISSING, SEQ_LATE };
static const char *const seq_counters[] = { "missing", "late", NULL };

struct seq_session {
	struct xk_session session; /* first */
	_Atomic uint32_t next, expected;
};

static int
seq_push(struct xk_session *session, struct xk_msg *m)
{
	struct seq_session *s = (struct seq_session *)session;

	m = xk_push_header(session, m, SEQ_HEADER_LEN);
	if (m == NULL)
		return -ENOBUFS;
	xk_put32(m->data, atomic_fetch_add(&s->next, 1));
	return xk_push(session->lls, m);
}

static void
seq_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct seq_session *s = (struct seq_session *)session;
	uint32_t number = xk_get32(m->data), expected = atomic_load(&s->expected);
	int32_t ahead;

	do /* several threads may be here: the highest number counts */
		ahead = (int32_t)(number - expected);
	while (ahead >= 0 && !atomic_compare_exchange_weak(&s->expected, &expected, number + 1));
	xk_msg_pop_in_place(m, SEQ_HEADER_LEN);
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

static const struct xk_field seq_fields[] = { { .name = "number", .bits = 32 }, { .name = NULL } };

static const struct xk_role seq_lowers[] = {
	{ "transport", XK_ASYNC, "udp", "carries the messages" },
	{ NULL, 0, NULL, NULL },
};

const struct xk_protocol_type xk_type_seq = {
	.name = "seq",
	.help = "Numbers messages, and counts what is missing: the smallest example of the documentation.",
	.ops = &seq_ops,
	.session_ops = &seq_session_ops,
	.header = SEQ_HEADER_LEN,
	.fields = seq_fields,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.lowers = seq_lowers,
	.counters = seq_counters,
	.session_max = 256,
};
