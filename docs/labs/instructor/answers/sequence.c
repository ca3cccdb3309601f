/*
 * sequence.c - lab 1, a model answer: numbers on messages, which show loss, reordering and duplication.
 *
 * Spec:         docs/labs/sequence.md; the header is in sequence.h, which you do not change
 * Participants: those of the protocol below, which carries messages to hosts
 * Sessions:     one per neighbour
 * Drops:        bad_length, bad_kind, duplicate, old; no_buffer (an ASK)
 * Graph:        sequence -> vnet
 */
#include "sequence.h"

#include "xkernel/bytes.h"
#include "xkernel/protocol.h"

enum sequence_drop {
	SEQUENCE_BAD_LENGTH = XK_DROP_BAD_LENGTH,
	SEQUENCE_BAD_KIND = XK_DROP_OWN,
	SEQUENCE_DUPLICATE,
	SEQUENCE_OLD,
};

/* ---- the header ---- */

struct sequence_header {
	uint8_t kind;
	uint16_t length;
	uint32_t number;
};

/* Reads the fields at p. They are there, because the framework drops messages without a header. */
static struct sequence_header
sequence_header_load(const uint8_t *p)
{
	return (struct sequence_header){
		.kind = p[SEQUENCE_KIND],
		.length = xk_get16(p + SEQUENCE_LENGTH),
		.number = xk_get32(p + SEQUENCE_NUMBER),
	};
}

/* Writes h to p. Spare bytes, which some layouts have, are sent as 0, not with the buffer's old contents. */
static void
sequence_header_store(uint8_t *p, struct sequence_header h)
{
	memset(p, 0, SEQUENCE_HEADER_LEN);
	p[SEQUENCE_KIND] = h.kind;
	xk_put16(p + SEQUENCE_LENGTH, h.length);
	xk_put32(p + SEQUENCE_NUMBER, h.number);
}

/* ---- state ---- */

/* The counts in a REPORT, in this order: DATA since the conversation began. */
enum sequence_count {
	SEQUENCE_DELIVERED,
	SEQUENCE_MISSING,
	SEQUENCE_LATE,
	SEQUENCE_DUPLICATES,
	SEQUENCE_OLDER,
	SEQUENCE_COUNTS,
};

struct sequence_session {
	struct xk_session session; /* first */
	struct xk_lock lock;       /* of the fields below: shepherds on several threads may be here */
	uint32_t next;             /* number of the next message sent */
	uint32_t expected;         /* the number after the highest received; SEQUENCE_FIRST at first */
	uint64_t history;          /* bit i: the message with the number expected - 1 - i was delivered */
	uint32_t counts[SEQUENCE_COUNTS];
};

static_assert(SEQUENCE_HISTORY == 64, "`history` has a bit for each number that is remembered");

static int
sequence_setup(struct xk_session *session, const void *how)
{
	struct sequence_session *s = (struct sequence_session *)session;

	xk_lock_init(&s->lock, session->protocol);
	s->next = s->expected = SEQUENCE_FIRST;
	s->history = UINT64_MAX; /* numbers before the first one count as delivered */
	return 0;
}

/* ---- opening ---- */

/* Returns the key of the conversation with the neighbour of lls, whichever session below its messages come up. */
static struct xk_key
sequence_key(struct xk_session *lls)
{
	uint64_t station;

	if (xk_control(lls, XK_GET_PEER_LINK, &station) == 0)
		return (struct xk_key){ station, 0 };
	return (struct xk_key){ (uintptr_t)lls, 1 };
}

static int
sequence_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

static int
sequence_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	      struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *lls;
	int err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */

	return err != 0 ? err : xk_table_open(self, sequence_key(lls), hlp_receive, hlp_type, lls, NULL, session);
}

/* One protocol stands on this one, and is enabled for all neighbours. */
static int
sequence_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		     struct xk_key *key)
{
	*key = xk_table_number_key(0);
	return 0;
}

static struct xk_key
sequence_passive_key_of(const struct xk_session *session)
{
	return xk_table_number_key(0);
}

/* ---- down ---- */

static int
sequence_push(struct xk_session *session, struct xk_msg *m)
{
	struct sequence_session *s = (struct sequence_session *)session;
	struct sequence_header h = { .kind = SEQUENCE_DATA };

	/* Not held across xk_push: two pushes of one user may still overtake each other before the link. */
	xk_lock(&s->lock);
	h.number = s->next++;
	xk_unlock(&s->lock);
	m = xk_push_header(session, m, SEQUENCE_HEADER_LEN);
	if (m == NULL)
		return -ENOBUFS;
	h.length = (uint16_t)xk_msg_len(m);
	sequence_header_store(m->data, h);
	return xk_push(session->lls, m);
}

/* ---- up ---- */

/* Checks and removes the header of m, and cuts off the bytes after its length. Returns 0, or the reason to drop m. */
static unsigned
sequence_header_pop(struct sequence_header *h, struct xk_msg *m)
{
	*h = sequence_header_load(m->data);
	if (h->length < SEQUENCE_HEADER_LEN || h->length > xk_msg_len(m))
		return SEQUENCE_BAD_LENGTH;
	if (h->kind != SEQUENCE_DATA && h->kind != SEQUENCE_ASK)
		return SEQUENCE_BAD_KIND;
	xk_msg_truncate(m, h->length); /* Ethernet pads short frames */
	xk_msg_pop_in_place(m, SEQUENCE_HEADER_LEN);
	return 0;
}

/* Classifies DATA by its number, and counts it. Returns 0 to deliver it, or the reason to drop it. The lock is held. */
static unsigned
sequence_classify(struct sequence_session *s, uint32_t number)
{
	int32_t ahead = (int32_t)(number - s->expected); /* half of all numbers are ahead, as is 0 of 4294967295 */

	if (ahead >= 0) {
		/* Shift the window until its bit 0 is this message. In C, a shift by 64 bits or more is undefined. */
		s->history = (ahead < SEQUENCE_HISTORY - 1 ? s->history << (ahead + 1) : 0) | 1;
		s->expected = number + 1;
		s->counts[SEQUENCE_MISSING] += (uint32_t)ahead;
	} else {
		uint32_t behind = s->expected - number; /* 1 or more */
		uint64_t bit;

		if (behind > SEQUENCE_HISTORY) {
			s->counts[SEQUENCE_OLDER]++;
			return SEQUENCE_OLD;
		}
		bit = UINT64_C(1) << (behind - 1);
		if ((s->history & bit) != 0) {
			s->counts[SEQUENCE_DUPLICATES]++;
			return SEQUENCE_DUPLICATE;
		}
		s->history |= bit;
		s->counts[SEQUENCE_LATE]++;
		s->counts[SEQUENCE_MISSING]--;
	}
	s->counts[SEQUENCE_DELIVERED]++;
	return 0;
}

/* Answers the ASK m, which has this number, with a REPORT down lls. Takes m. */
static void
sequence_report(struct sequence_session *s, struct xk_session *lls, struct xk_msg *m, uint32_t number)
{
	struct xk_protocol *self = s->session.protocol;
	struct sequence_header h = { .kind = SEQUENCE_REPORT, .number = number };
	struct xk_msg *report = xk_msg_new(xk_platform_of(self), 4 * SEQUENCE_COUNTS);

	if (report == NULL) {
		xk_drop(self, m, XK_DROP_NO_BUFFER);
		return;
	}
	xk_msg_free(m);
	xk_lock(&s->lock); /* for all five: they must be consistent */
	for (unsigned i = 0; i < SEQUENCE_COUNTS; i++)
		xk_put32(report->data + 4 * i, s->counts[i]);
	xk_unlock(&s->lock);
	report = xk_push_header(&s->session, report, SEQUENCE_HEADER_LEN);
	if (report == NULL)
		return;
	h.length = (uint16_t)xk_msg_len(report);
	sequence_header_store(report->data, h);
	xk_push(lls, report);
}

/* Delivers DATA of this session or drops it, and answers an ASK. hdr: the header, which m no longer has. Takes m. */
static void
sequence_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	struct sequence_session *s = (struct sequence_session *)session;
	const struct sequence_header *h = hdr;
	unsigned why;

	if (h->kind == SEQUENCE_ASK) {
		sequence_report(s, lls, m, h->number);
		return;
	}
	xk_lock(&s->lock);
	why = sequence_classify(s, h->number);
	xk_unlock(&s->lock);
	if (why != 0)
		xk_drop(session->protocol, m, why);
	else
		xk_demux(session, m); /* without the lock: the user may push on this session from its demux */
}

static void
sequence_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	struct sequence_header h;
	unsigned why = sequence_header_pop(&h, m);
	struct xk_key key;
	struct xk_session *s;

	if (why != 0) {
		xk_drop(self, m, why);
		return;
	}
	key = sequence_key(lls);
	s = xk_table_find(self, key);
	if (s == NULL)
		s = xk_table_accept(self, key, xk_table_number_key(0), lls, NULL, m);
	if (s != NULL)
		xk_pop(s, lls, m, &h);
}

/* ---- tables ---- */

static const struct xk_session_ops sequence_session_ops = {
	.size = sizeof(struct sequence_session),
	.setup = sequence_setup,
	.push = sequence_push,
	.pop = sequence_pop,
};

static const struct xk_protocol_ops sequence_ops = {
	.init = sequence_init,
	.open = sequence_open,
	.passive_key = sequence_passive_key,
	.passive_key_of = sequence_passive_key_of,
	.demux = sequence_demux,
};

static const struct xk_role sequence_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries messages to hosts: vnet" },
	{ NULL, 0, NULL, NULL },
};
static const struct xk_number_on sequence_numbers[] = { { "eth", 0x88b5 }, { NULL, 0 } };
static const char *const sequence_drops[] = { "bad_kind", "duplicate", "old", NULL };

const struct xk_protocol_type xk_type_sequence = {
	.name = "sequence",
	.help = "Lab 1: numbers on messages, which show loss, reordering and duplication.",
	.ops = &sequence_ops,
	.session_ops = &sequence_session_ops,
	.header = SEQUENCE_HEADER_LEN,
	.fields = sequence_fields,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.lowers = sequence_lowers,
	.numbers = sequence_numbers,
	.drops = sequence_drops,
	.session_max = 64,
};
