/*
 * vwork.c - works for each message that crosses it, like a costly protocol: a virtual protocol, for any edge. The
 * shepherd that carries the message works first: in virtual time in the simulator, elsewhere on the processor.
 *
 * Participants: those of the protocol below
 * Control:      the protocol below answers
 * Not done:     calls (RPC)
 * Graph:        udptest -> vwork -> udp, or any other edge
 */
#include "xkernel/support/chance.h"
#include "xkernel/support/virtual.h"

#define VWORK_DROPS(D)                                                                                                 \
	D(VWORK_DROP_WOULD_WAIT, "would_wait") /* could not wait: implicit=fail, no stack left, or the host ends */
XK_DROPS(vwork, VWORK_DROPS);

/* By direction. */
#define VWORK_COUNTERS(C) C(VWORK_UP, "worked_up") C(VWORK_DOWN, "worked_down")
XK_COUNTERS(vwork, VWORK_COUNTERS);
static_assert((int)VWORK_UP == (int)XK_UP && (int)VWORK_DOWN == (int)XK_DOWN, "they are the same");

struct vwork {
	struct xk_protocol protocol;
	uint64_t message_ns[XK_DIRECTIONS], kilobyte_ns[XK_DIRECTIONS];
	uint64_t checkpoints, tail, wait_ns;
	uint64_t seed;          /* of a tail; 0 until init: drawn */
	_Atomic uint64_t drawn; /* messages that drew their work */
};

static int
vwork_init(struct xk_protocol *self)
{
	struct vwork *vwork = (struct vwork *)self;

	if (vwork->tail != 0 && vwork->seed == 0)
		vwork->seed = xk_random(self);
	return 0;
}

/*
 * Draws the next message's work, mean_ns on average. Half of all messages have the least work, and each of `tail`
 * doublings is half as frequent as the one before, so all add equally to the mean. The last includes all beyond it.
 */
static uint64_t
vwork_draw_ns(struct vwork *vwork, uint64_t mean_ns)
{
	uint64_t doublings = 0, bits;
	struct xk_chance chance;

	if (vwork->tail == 0)
		return mean_ns;
	xk_chance_init(&chance, vwork->seed, atomic_fetch_add_explicit(&vwork->drawn, 1, memory_order_relaxed));
	for (bits = xk_chance_next(&chance); doublings < vwork->tail && (bits & 1) == 0; bits >>= 1)
		doublings++;
	return (mean_ns * 2 / (vwork->tail + 2)) << doublings;
}

static int
vwork_carry(struct xk_session *s, struct xk_msg *m, enum xk_direction direction)
{
	struct vwork *vwork = (struct vwork *)s->protocol;
	uint64_t wait_ns = direction == XK_UP ? vwork->wait_ns : 0;
	uint64_t mean_ns = vwork->message_ns[direction] + xk_msg_len(m) * vwork->kilobyte_ns[direction] / 1000;

	if (wait_ns != 0 && xk_delay(s->protocol, (wait_ns + 999) / 1000) != 0) {
		xk_drop(s->protocol, m, VWORK_DROP_WOULD_WAIT);
		return 0;
	}
	if (mean_ns > 0) {
		uint64_t total_ns = vwork_draw_ns(vwork, mean_ns), pieces = vwork->checkpoints + 1, done_ns = 0;

		for (uint64_t i = 1; i <= pieces; i++) {
			uint64_t until_ns = total_ns * i / pieces;

			if (i > 1)
				xk_checkpoint(s->protocol);
			xk_work(s->protocol, until_ns - done_ns);
			done_ns = until_ns;
		}
		xk_count(s->protocol, direction);
	}
	return xk_virtual_pass(s, m, direction);
}

/* ---- tables ---- */

XK_VIRTUAL_SESSION_OPS(vwork);

static const struct xk_protocol_ops vwork_ops = { .init = vwork_init, XK_VIRTUAL_OPS };

#define VWORK_TIME_MAX UINT64_C(1000000000)

enum { VWORK_CHECKPOINTS_MAX = 1000, VWORK_TAIL_MAX = 10 };

/* The greatest work drawn, as a multiple of the mean. */
#define VWORK_STRETCH ((UINT64_C(2) << VWORK_TAIL_MAX) / (VWORK_TAIL_MAX + 2) + 1)

static_assert(VWORK_TIME_MAX * XK_MSG_MAX <= UINT64_MAX / 2, "a product with a length overflows");
static_assert(VWORK_TIME_MAX * (XK_MSG_MAX / 1000 + 2) * VWORK_STRETCH <= UINT64_MAX / 2 / (VWORK_CHECKPOINTS_MAX + 1),
	      "a product with a number of pieces overflows");

static const struct xk_setting vwork_settings[] = {
	XK_SETTING(TIME, struct vwork, message_ns[XK_UP], "up", "work for a message that goes up",
		   .max = VWORK_TIME_MAX),
	XK_SETTING(TIME, struct vwork, message_ns[XK_DOWN], "down", "work for a message that goes down",
		   .max = VWORK_TIME_MAX),
	XK_SETTING(TIME, struct vwork, kilobyte_ns[XK_UP], "up_kb", "... and for each 1000 bytes of it",
		   .max = VWORK_TIME_MAX),
	XK_SETTING(TIME, struct vwork, kilobyte_ns[XK_DOWN], "down_kb", "... and for each 1000 bytes of it",
		   .max = VWORK_TIME_MAX),
	XK_SETTING(UINT, struct vwork, checkpoints, "checkpoints", "checks of the time budget within the work",
		   .max = VWORK_CHECKPOINTS_MAX),
	XK_SETTING(UINT, struct vwork, tail, "tail",
		   "number of doublings: twice the work for half as many messages each; the mean stays",
		   .max = VWORK_TAIL_MAX),
	XK_SETTING(UINT, struct vwork, seed, "seed", "seed of the tail; 0: random", .initial = "0"),
	XK_SETTING(TIME, struct vwork, wait_ns, "wait",
		   "wait before the work of a message that goes up, without using the processor",
		   .max = VWORK_TIME_MAX),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_vwork = {
	.name = "vwork",
	.help = "Works for each message that crosses it. No header; for any edge.",
	.ops = &vwork_ops,
	.session_ops = &vwork_session_ops,
	.size = sizeof(struct vwork),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL,
	.lowers = XK_ROLES({ "lower", XK_ASYNC, NULL, "carries the messages" }),
	.settings = vwork_settings,
	.drops = vwork_drops,
	.counters = vwork_counters,
	.session_max = 256,
};
