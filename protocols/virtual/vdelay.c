/*
 * vdelay.c - delays the messages that cross it: a virtual protocol, for any edge of a graph. An event's shepherd
 * carries a delayed message on; the one that brought it continues at once.
 *
 * Participants: those of the protocol below
 * Control:      the protocol below answers
 * Not done:     calls (RPC); a rate (links of platform/sim have one)
 * Graph:        ip -> vdelay -> vnet, or any other edge
 */
#include "xkernel/support/chance.h"
#include "xkernel/support/later.h"

#define VDELAY_DROPS(D) D(VDELAY_DROP_FULL, "full") /* `held` messages wait already */
XK_DROPS(vdelay, VDELAY_DROPS);

#define VDELAY_COUNTERS(C)                                                                                             \
	C(VDELAY_COUNT_DELAYED, "delayed")                                                                             \
	C(VDELAY_COUNT_UNSENT, "unsent") /* refused by the protocol below; the sender is not notified */
XK_COUNTERS(vdelay, VDELAY_COUNTERS);

struct vdelay {
	struct xk_protocol protocol;
	uint64_t delay_ns[XK_DIRECTIONS];
	uint64_t jitter_ns, held, seed;
	bool reorder;
	struct xk_lock lock;
	struct xk_chance chances[XK_DIRECTIONS]; /* under the lock */
	struct xk_later later;
};

static int
vdelay_init(struct xk_protocol *self)
{
	struct vdelay *vdelay = (struct vdelay *)self;

	if (vdelay->seed == 0 && vdelay->jitter_ns != 0)
		vdelay->seed = xk_random(self);
	for (unsigned direction = 0; direction < XK_DIRECTIONS; direction++)
		xk_chance_init(&vdelay->chances[direction], vdelay->seed, direction);
	xk_lock_init(&vdelay->lock, self);
	xk_later_init(&vdelay->later, self, vdelay->held, !vdelay->reorder, VDELAY_DROP_FULL, VDELAY_COUNT_UNSENT);
	return 0;
}

static void
vdelay_fini(struct xk_protocol *self)
{
	xk_later_fini(&((struct vdelay *)self)->later);
}

static int
vdelay_carry(struct xk_session *s, struct xk_msg *m, enum xk_direction direction)
{
	struct vdelay *vdelay = (struct vdelay *)s->protocol;
	uint64_t delay_ns = vdelay->delay_ns[direction];
	int status;

	if (delay_ns == 0)
		return xk_virtual_pass(s, m, direction);
	if (vdelay->jitter_ns != 0) {
		xk_lock(&vdelay->lock);
		delay_ns += xk_chance_below(&vdelay->chances[direction], vdelay->jitter_ns + 1);
		xk_unlock(&vdelay->lock);
	}
	status = xk_later_hold(&vdelay->later, s, m, direction, delay_ns, 0);
	if (status == 0)
		xk_count(s->protocol, VDELAY_COUNT_DELAYED);
	return status;
}

/* ---- tables ---- */

XK_VIRTUAL_SESSION_OPS(vdelay);

static const struct xk_protocol_ops vdelay_ops = { .init = vdelay_init, .fini = vdelay_fini, XK_VIRTUAL_OPS };

#define VDELAY_TIME_MAX UINT64_C(60000000000)

static const struct xk_setting vdelay_settings[] = {
	XK_SETTING(TIME, struct vdelay, delay_ns[XK_UP], "up", "delay of messages that go up", .max = VDELAY_TIME_MAX),
	XK_SETTING(TIME, struct vdelay, delay_ns[XK_DOWN], "down", "delay of messages that go down",
		   .max = VDELAY_TIME_MAX),
	XK_SETTING(TIME, struct vdelay, jitter_ns, "jitter",
		   "longest random addition to the delay, in directions that have one", .max = VDELAY_TIME_MAX),
	XK_SETTING(BOOL, struct vdelay, reorder, "reorder", "whether messages may overtake each other"),
	XK_SETTING(UINT, struct vdelay, held, "held", "maximum number of messages waiting at a time", .initial = "1024",
		   .min = 1, .max = 65536),
	XK_SETTING(UINT, struct vdelay, seed, "seed", "seed of the jitter; 0: random"),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_vdelay = {
	.name = "vdelay",
	.help = "Delays messages, in order or with jitter that reorders them. No header; for any edge.",
	.ops = &vdelay_ops,
	.session_ops = &vdelay_session_ops,
	.size = sizeof(struct vdelay),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL,
	.lowers = XK_ROLES({ "lower", XK_ASYNC, NULL, "carries the messages" }),
	.settings = vdelay_settings,
	.drops = vdelay_drops,
	.counters = vdelay_counters,
	.session_max = 256,
};
