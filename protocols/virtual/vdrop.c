/*
 * vdrop.c - loses, duplicates, reorders and corrupts messages: a virtual protocol, for any edge of a graph.
 *
 * Participants: those of the protocol below
 * Control:      XK_GET_OFFLOADS: none if it corrupts sent messages, because the port would checksum the corrupt bytes;
 *               the protocol below answers the others
 * Faults:       Each message draws `loss`, `duplicate`, `reorder` and `corrupt` in this order, from a stream of `seed`
 *               per direction. A loss includes up to burst - 1 of the next messages of the same direction. A copy, or a
 *               reordered message, is delivered up to reorder_time later; with `overtake`, a reordered message once
 *               so many others have passed, or reorder_time later. A corrupt message has at least one bit
 *               flipped, all within 15 consecutive ones: an Internet checksum detects that. If a message is duplicated
 *               and corrupted, its copy stays intact.
 * Not done:     calls (RPC)
 * Graph:        udp -> vdrop -> ip, or any other edge
 */
#include <errno.h>
#include <string.h>

#include "xkernel/support/chance.h"
#include "xkernel/support/later.h"
#include "xkernel/trace.h"

#define VDROP_DROPS(D)                                                                                                 \
	D(VDROP_DROP_LOST, "lost") /* a fault */                                                                       \
	D(VDROP_DROP_FULL, "full") /* `held` messages wait already */
XK_DROPS(vdrop, VDROP_DROPS);

#define VDROP_COUNTERS(C)                                                                                              \
	C(VDROP_COUNT_DUPLICATED, "duplicated")                                                                        \
	C(VDROP_COUNT_REORDERED, "reordered")                                                                          \
	C(VDROP_COUNT_CORRUPTED, "corrupted")                                                                          \
	C(VDROP_COUNT_NOT_DUPLICATED, "not_duplicated") /* no buffer for the copy */                                   \
	C(VDROP_COUNT_UNSENT, "unsent") /* late, and refused by the protocol below; the sender is not notified */
XK_COUNTERS(vdrop, VDROP_COUNTERS);

/* The span of flipped bits, and the bytes that they may lie in. */
enum { VDROP_BITS = 15, VDROP_BYTES = 3 };

/* The faults of one direction. */
struct vdrop_stream {
	bool faulty;
	struct xk_chance chance; /* under the lock, as are the following */
	uint64_t seen;
	uint64_t burst_left;
};

struct vdrop {
	struct xk_protocol protocol;
	uint64_t loss, duplicate, reorder, corrupt;
	uint64_t burst, reorder_ns, overtake, after, held, seed;
	unsigned direction; /* XK_DIRECTIONS: both */
	struct xk_lock lock;
	struct vdrop_stream streams[XK_DIRECTIONS];
	struct xk_later later;
};

/* The fate of a message. */
struct vdrop_fate {
	bool lost, corrupt;
	uint64_t copy_ns; /* delay of a copy; 0: there is none */
	uint64_t late_ns; /* delay of the message itself */
	size_t offset;    /* of the bytes that flip applies to; some may lie beyond the end */
	uint8_t flip[VDROP_BYTES];
};

/* ---- init and fini ---- */

static int
vdrop_init(struct xk_protocol *self)
{
	struct vdrop *vdrop = (struct vdrop *)self;

	if (vdrop->seed == 0)
		vdrop->seed = xk_random(self);
	for (unsigned i = 0; i < XK_DIRECTIONS; i++) {
		vdrop->streams[i].faulty = vdrop->direction == i || vdrop->direction == XK_DIRECTIONS;
		xk_chance_init(&vdrop->streams[i].chance, vdrop->seed, i);
	}
	xk_lock_init(&vdrop->lock, self);
	xk_later_init(&vdrop->later, self, vdrop->held, false, VDROP_DROP_FULL, VDROP_COUNT_UNSENT);
	return 0;
}

static void
vdrop_fini(struct xk_protocol *self)
{
	xk_later_fini(&((struct vdrop *)self)->later);
}

/* ---- chance; under the lock ---- */

/* Draws the bits to flip, of VDROP_BITS from a random one on; the first is always flipped. */
static void
vdrop_draw_flip(struct vdrop_stream *stream, size_t len, struct vdrop_fate *fate)
{
	uint64_t first = xk_chance_below(&stream->chance, (uint64_t)len * 8);
	uint64_t bits = UINT64_C(1) << (VDROP_BITS - 1);

	bits |= xk_chance_below(&stream->chance, bits);
	bits <<= VDROP_BYTES * 8 - VDROP_BITS - first % 8;
	fate->offset = first / 8;
	for (unsigned i = 0; i < VDROP_BYTES; i++)
		fate->flip[i] = (uint8_t)(bits >> (VDROP_BYTES - 1 - i) * 8);
}

static struct vdrop_fate
vdrop_draw(const struct vdrop *vdrop, struct vdrop_stream *stream, size_t len)
{
	struct xk_chance *chance = &stream->chance;
	struct vdrop_fate fate = { .lost = false };

	if (stream->seen < vdrop->after) {
		stream->seen++;
		return fate;
	}
	if (stream->burst_left > 0) {
		stream->burst_left--;
		fate.lost = true;
		return fate;
	}
	fate.lost = xk_chance_hits(chance, vdrop->loss);
	if (fate.lost) {
		if (vdrop->burst > 1)
			stream->burst_left = xk_chance_below(chance, vdrop->burst);
		return fate;
	}
	if (xk_chance_hits(chance, vdrop->duplicate))
		fate.copy_ns = 1 + xk_chance_below(chance, vdrop->reorder_ns);
	if (xk_chance_hits(chance, vdrop->reorder))
		fate.late_ns = vdrop->overtake > 0 ? vdrop->reorder_ns : 1 + xk_chance_below(chance, vdrop->reorder_ns);
	fate.corrupt = xk_chance_hits(chance, vdrop->corrupt) && len > 0;
	if (fate.corrupt)
		vdrop_draw_flip(stream, len, &fate);
	return fate;
}

/* ---- faults ---- */

/* Replaces *m by a corrupt copy, which no port has verified. Returns false if no buffer was left. */
static bool
vdrop_corrupt(struct vdrop *vdrop, struct xk_msg **m, const struct vdrop_fate *fate)
{
	struct xk_msg *copy = xk_msg_new(xk_platform_of(&vdrop->protocol), xk_msg_len(*m));
	size_t at = 0;

	if (copy == NULL)
		return false;
	for (struct xk_msg *segment = copy; segment != NULL; at += segment->len, segment = segment->next) {
		xk_msg_copy_out(*m, at, segment->data, segment->len);
		for (unsigned i = 0; i < VDROP_BYTES; i++)
			if (fate->offset + i >= at && fate->offset + i < at + segment->len)
				segment->data[fate->offset + i - at] ^= fate->flip[i];
	}
	copy->id = (*m)->id;
	copy->flags = (*m)->flags & XK_MSG_TRACED;
	xk_msg_free(*m);
	*m = copy;
	xk_count(&vdrop->protocol, VDROP_COUNT_CORRUPTED);
	return true;
}

static int
vdrop_carry(struct xk_session *s, struct xk_msg *m, enum xk_direction direction)
{
	struct xk_protocol *self = s->protocol;
	struct vdrop *vdrop = (struct vdrop *)self;
	struct vdrop_fate fate;
	struct xk_msg *copy;
	int status;

	if (!vdrop->streams[direction].faulty)
		return xk_virtual_pass(s, m, direction);
	xk_lock(&vdrop->lock);
	fate = vdrop_draw(vdrop, &vdrop->streams[direction], xk_msg_len(m));
	xk_unlock(&vdrop->lock);
	if (fate.lost) {
		xk_drop(self, m, VDROP_DROP_LOST);
		return 0; /* as on a wire, the sender is not notified */
	}
	if (fate.copy_ns != 0) {
		copy = xk_msg_reference(m);
		xk_count(self, copy != NULL ? VDROP_COUNT_DUPLICATED : VDROP_COUNT_NOT_DUPLICATED);
		if (copy != NULL)
			xk_later_hold(&vdrop->later, s, copy, direction, fate.copy_ns, 0);
	}
	if (fate.corrupt && !vdrop_corrupt(vdrop, &m, &fate)) {
		xk_drop(self, m, XK_DROP_NO_BUFFER);
		return -ENOBUFS;
	}
	if (fate.late_ns == 0) {
		status = xk_virtual_pass(s, m, direction);
		if (vdrop->overtake > 0)
			xk_later_passed(&vdrop->later, direction);
		return status;
	}
	status = xk_later_hold(&vdrop->later, s, m, direction, fate.late_ns, vdrop->overtake);
	if (status == 0)
		xk_count(self, VDROP_COUNT_REORDERED);
	return status;
}

/* ---- asking ---- */

static int
vdrop_control(struct xk_protocol *self, int op, void *argument)
{
	const struct vdrop *vdrop = (const struct vdrop *)self;

	if (op != XK_GET_OFFLOADS || vdrop->corrupt == 0 || !vdrop->streams[XK_DOWN].faulty)
		return -ENOTSUP;
	*(uint32_t *)argument = 0;
	return 0;
}

static int
vdrop_session_control(struct xk_session *s, int op, void *argument)
{
	return vdrop_control(s->protocol, op, argument);
}

/* ---- tables ---- */

XK_VIRTUAL_SESSION_OPS(vdrop, .control = vdrop_session_control);

static const struct xk_protocol_ops vdrop_ops = {
	.init = vdrop_init,
	.fini = vdrop_fini,
	.control = vdrop_control,
	XK_VIRTUAL_OPS,
};

static const struct xk_role vdrop_lowers[] = {
	{ "lower", XK_ASYNC, NULL, "carries the messages" },
	{ NULL, 0, NULL, NULL },
};

#define VDROP_TIME_MIN UINT64_C(1000)
#define VDROP_TIME_MAX UINT64_C(60000000000)

static const char *const vdrop_directions[] = { "up", "down", "both", NULL };

static const struct xk_setting vdrop_settings[] = {
	XK_SETTING(PROBABILITY, struct vdrop, loss, "loss", "of losing a message"),
	XK_SETTING(UINT, struct vdrop, burst, "burst", "maximum number of messages lost in a row", .initial = "1",
		   .min = 1, .max = 65536),
	XK_SETTING(PROBABILITY, struct vdrop, duplicate, "duplicate", "of duplicating it"),
	XK_SETTING(PROBABILITY, struct vdrop, reorder, "reorder", "of delaying it, so that others overtake it"),
	XK_SETTING(TIME, struct vdrop, reorder_ns, "reorder_time", "longest delay of such a message, or of a copy",
		   .initial = "1ms", .min = VDROP_TIME_MIN, .max = VDROP_TIME_MAX),
	XK_SETTING(UINT, struct vdrop, overtake, "overtake",
		   "messages that overtake a reordered one; 0: those that come in a random time up to reorder_time",
		   .initial = "0", .max = 65536),
	XK_SETTING(PROBABILITY, struct vdrop, corrupt, "corrupt", "of flipping bits in it"),
	XK_SETTING(CHOICE, struct vdrop, direction, "direction", "which messages are faulty", .initial = "both",
		   .choices = vdrop_directions),
	XK_SETTING(UINT, struct vdrop, after, "after",
		   "number of messages in each direction that are left alone first"),
	XK_SETTING(UINT, struct vdrop, held, "held", "maximum number of messages delayed at a time", .initial = "64",
		   .min = 1, .max = 65536),
	XK_SETTING(UINT, struct vdrop, seed, "seed", "seed of all draws; 0: random"),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_vdrop = {
	.name = "vdrop",
	.help = "Loses, duplicates, reorders and corrupts messages at random. No header; for any edge.",
	.ops = &vdrop_ops,
	.session_ops = &vdrop_session_ops,
	.size = sizeof(struct vdrop),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL,
	.lowers = vdrop_lowers,
	.settings = vdrop_settings,
	.drops = vdrop_drops,
	.counters = vdrop_counters,
	.session_max = 256,
};
