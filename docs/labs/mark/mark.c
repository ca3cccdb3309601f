/*
 * mark.c - lab 0, complete: a mark in front of each message, so that nothing else is taken for a message.
 *
 * Spec:         docs/labs/README.md, "Lab 0"; the header is in mark.h
 * Participants: those of the protocol below, which carries messages to hosts
 * Sessions:     one per neighbour
 * Drops:        bad_mark, bad_length
 * Graph:        mark -> vnet
 */
#include "mark.h"

#include "xkernel/bytes.h"
#include "xkernel/protocol.h"

enum mark_drop { MARK_BAD_MARK = XK_DROP_OWN };

/* ---- opening ---- */

/* Returns the key of the conversation with the neighbour of lls, whichever session below its messages come up. */
static struct xk_key
mark_key(struct xk_session *lls)
{
	uint64_t station;

	if (xk_control(lls, XK_GET_PEER_LINK, &station) == 0)
		return (struct xk_key){ station, 0 };
	return (struct xk_key){ (uintptr_t)lls, 1 };
}

static int
mark_init(struct xk_protocol *self)
{
	struct xk_participants anybody = { .remote.depth = 0 };

	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

static int
mark_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	  struct xk_participants *participants, struct xk_session **session)
{
	struct xk_session *lls;
	int err = xk_open(self, self, xk_lower(self, 0), participants, &lls); /* may wait */

	return err != 0 ? err : xk_table_open(self, mark_key(lls), hlp_receive, hlp_type, lls, NULL, session);
}

/* One protocol stands on this one, and is enabled for all neighbours. */
static int
mark_passive_key(struct xk_protocol *self, struct xk_protocol *hlp_type, struct xk_participants *participants,
		 struct xk_key *key)
{
	*key = xk_table_number_key(0);
	return 0;
}

static struct xk_key
mark_passive_key_of(const struct xk_session *session)
{
	return xk_table_number_key(0);
}

/* ---- down and up ---- */

static int
mark_push(struct xk_session *session, struct xk_msg *m)
{
	m = xk_push_header(session, m, MARK_HEADER_LEN);
	if (m == NULL)
		return -ENOBUFS;
	m->data[MARK_MARK] = MARK_IS;
	xk_put16(m->data + MARK_LENGTH, (uint16_t)xk_msg_len(m));
	return xk_push(session->lls, m);
}

/* Checks and removes the header of m, and cuts off the bytes after its length. Returns 0, or the reason to drop m. */
static unsigned
mark_header_pop(struct xk_msg *m)
{
	size_t length = xk_get16(m->data + MARK_LENGTH);

	if (m->data[MARK_MARK] != MARK_IS)
		return MARK_BAD_MARK;
	if (length < MARK_HEADER_LEN || length > xk_msg_len(m))
		return XK_DROP_BAD_LENGTH;
	xk_msg_truncate(m, length);
	xk_msg_pop_in_place(m, MARK_HEADER_LEN);
	return 0;
}

static void
mark_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	unsigned why = mark_header_pop(m);
	struct xk_key key;
	struct xk_session *s;

	if (why != 0) {
		xk_drop(self, m, why);
		return;
	}
	key = mark_key(lls);
	s = xk_table_find(self, key);
	if (s == NULL)
		s = xk_table_accept(self, key, xk_table_number_key(0), lls, NULL, m);
	if (s != NULL)
		xk_pop(s, lls, m, NULL);
}

/* ---- tables ---- */

static const struct xk_session_ops mark_session_ops = {
	.size = sizeof(struct xk_session),
	.push = mark_push,
	.pop = xk_pop_through,
};

static const struct xk_protocol_ops mark_ops = {
	.init = mark_init,
	.open = mark_open,
	.passive_key = mark_passive_key,
	.passive_key_of = mark_passive_key_of,
	.demux = mark_demux,
};

static const struct xk_role mark_lowers[] = {
	{ "network", XK_ASYNC, NULL, "carries messages to hosts: vnet" },
	{ NULL, 0, NULL, NULL },
};
static const struct xk_number_on mark_numbers[] = { { "eth", 0x88b5 }, { NULL, 0 } };
static const char *const mark_drops[] = { "bad_mark", NULL };

const struct xk_protocol_type xk_type_mark = {
	.name = "mark",
	.help = "Lab 0: a mark in front of each message.",
	.ops = &mark_ops,
	.session_ops = &mark_session_ops,
	.header = MARK_HEADER_LEN,
	.fields = mark_fields,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.lowers = mark_lowers,
	.numbers = mark_numbers,
	.drops = mark_drops,
	.session_max = 64,
};
