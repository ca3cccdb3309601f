/*
 * sequence.c - lab 1: numbers on messages, so that the receiver detects loss, reordering and duplication.
 *
 * This is the skeleton: it compiles, and carries messages without checking them. Fill in each HOLE.
 *
 * Spec:         docs/labs/sequence.md; the header is in sequence.h, which you do not change
 * Participants: those of the protocol below, which carries messages to hosts
 * Sessions:     one per neighbour
 * Drops:        bad_length, bad_kind, duplicate, old
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

/* HOLE 1: read the fields at p + SEQUENCE_KIND and so on. The framework has dropped messages without a header. */
static struct sequence_header
sequence_header_load(const uint8_t *p)
{
	return (struct sequence_header){ .kind = SEQUENCE_DATA };
}

/* HOLE 2: write the fields of h to p. */
static void
sequence_header_store(uint8_t *p, struct sequence_header h)
{
	memset(p, 0, SEQUENCE_HEADER_LEN);
}

/* ---- state ---- */

struct sequence_session {
	struct xk_session session; /* first */
	struct xk_lock lock;       /* of the fields below: shepherds on several threads may be here */
	/* HOLE 3: the state of this end. It starts as zero; sequence_setup may change that. */
};

static int
sequence_setup(struct xk_session *session, const void *how)
{
	struct sequence_session *s = (struct sequence_session *)session;

	xk_lock_init(&s->lock, session->protocol);
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
	/* HOLE 4: the next number. */
	struct sequence_header h = { .kind = SEQUENCE_DATA, .number = SEQUENCE_FIRST };

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
	/* HOLE 5: is the length possible, and the kind a known one? What follows the message? */
	xk_msg_pop_in_place(m, SEQUENCE_HEADER_LEN);
	return 0;
}

/* Delivers DATA of this session, or drops it. hdr: its header, which m no longer has. Takes m. */
static void
sequence_pop(struct xk_session *session, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	/* HOLE 6: is it new, late or a duplicate? Count it. HOLE 7: answer an ASK with a REPORT. */
	xk_demux(session, m);
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
