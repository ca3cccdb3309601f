/*
 * vstamp.c - records when messages and calls cross it, to divide the time of a round trip: a virtual protocol, for any
 * edge of a graph. A stamp is the platform's clock and the event. On a port, VSTAMP also stamps before and after the
 * operations of its lanes and their drivers' sleep: it replaces the operations of port and platform by its own while
 * the graph exists, so that hosts without a vstamp pay nothing. The last `records` stamps are written to `file` when
 * the graph ends: a line with their number, then for each, oldest first, "NANOSECONDS EVENT".
 *
 * 	up, down            a message, a call or its reply crosses
 * 	receive, received   the driver polls the device; it has got frames (polls in vain leave no stamp)
 * 	transmit, sent      frames are passed to the device; it has taken them, and woken a sleeping receiver
 * 	sleep, wake         the driver goes to sleep; it was woken
 *
 * Participants: those of the protocol below
 * Control:      the protocol below answers
 * Not done:     replies to asynchronous calls (they go to their caller directly); the driver of a host with a capture;
 *               platforms of several ports: only the first vstamp stamps their sleep
 * Graph:        udp -> vstamp -> ip, or any other edge
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "xkernel/capture.h"
#include "xkernel/kernel.h"
#include "xkernel/support/virtual.h"
#include "xkernel/trace.h"

enum vstamp_what {
	VSTAMP_UP,
	VSTAMP_DOWN,
	VSTAMP_RECEIVE,
	VSTAMP_RECEIVED,
	VSTAMP_TRANSMIT,
	VSTAMP_SENT,
	VSTAMP_SLEEP,
	VSTAMP_WAKE,
};

/* A stamp is a word: the low bits are enum vstamp_what, the others the time in ns. */
enum { VSTAMP_WHAT_BITS = 3, VSTAMP_WHAT_MASK = (1 << VSTAMP_WHAT_BITS) - 1 };

static_assert(XK_UP == (int)VSTAMP_UP && XK_DOWN == (int)VSTAMP_DOWN, "directions are stamps");
static_assert((int)VSTAMP_WAKE <= (int)VSTAMP_WHAT_MASK, "all fit");

static const char *const vstamp_words[] = { "up", "down", "receive", "received", "transmit", "sent", "sleep", "wake" };

#define VSTAMP_COUNTERS(C) C(VSTAMP_COUNT_STAMPS, "stamps")
XK_COUNTERS(vstamp, VSTAMP_COUNTERS);

/* A lane of the port below, with operations that stamp; `sleeps`: its driver's platform has them, too. */
struct vstamp_lane {
	struct xk_port *port;
	bool sleeps;
	struct vstamp *vstamp;
	struct xk_port_ops port_ops;
	struct xk_platform_ops platform_ops;
	const struct xk_port_ops *port_was;
	const struct xk_platform_ops *platform_was;
};

struct vstamp {
	struct xk_protocol protocol;
	const char *file;
	uint64_t records;       /* a power of two after init, if there is a ring */
	_Atomic uint64_t *ring; /* NULL: there is no file */
	FILE *stream;
	uint64_t cost_ns; /* of `records` stamps */
	struct vstamp_lane lanes[XK_DRIVERS];
	unsigned lane_count;
};

/* ---- stamps ---- */

static inline void
vstamp_put_at(struct vstamp *vstamp, enum vstamp_what what, uint64_t now_ns)
{
	_Atomic uint64_t *stamps = &vstamp->protocol.counts[0][XK_COUNT_OWN + VSTAMP_COUNT_STAMPS];
	uint64_t number = atomic_fetch_add_explicit(stamps, 1, memory_order_relaxed);

	atomic_store_explicit(&vstamp->ring[number & (vstamp->records - 1)], now_ns << VSTAMP_WHAT_BITS | what,
			      memory_order_relaxed);
}

static inline void
vstamp_put(struct vstamp *vstamp, enum vstamp_what what)
{
	vstamp_put_at(vstamp, what, xk_now_ns(&vstamp->protocol));
}

static inline void
vstamp_cross(struct xk_session *s, enum vstamp_what what)
{
	struct vstamp *vstamp = (struct vstamp *)s->protocol;

	if (xk_unlikely(vstamp->ring == NULL))
		xk_count(s->protocol, VSTAMP_COUNT_STAMPS);
	else
		vstamp_put(vstamp, what);
}

/* Measures the cost of stamps. Leaves the ring empty, with its memory present. */
static void
vstamp_measure(struct vstamp *vstamp)
{
	uint64_t begun_ns;

	memset(vstamp->ring, 0, vstamp->records * sizeof(*vstamp->ring));
	begun_ns = xk_now_ns(&vstamp->protocol);
	for (uint64_t i = 0; i < vstamp->records; i++)
		vstamp_put(vstamp, VSTAMP_UP);
	vstamp->cost_ns = xk_now_ns(&vstamp->protocol) - begun_ns;
	xk_counter_set(&vstamp->protocol, VSTAMP_COUNT_STAMPS, 0);
}

static void
vstamp_write(struct vstamp *vstamp)
{
	struct xk_protocol *self = &vstamp->protocol;
	uint64_t count = xk_counter(self, VSTAMP_COUNT_STAMPS);
	uint64_t kept = count < vstamp->records ? count : vstamp->records;

	fprintf(vstamp->stream, "%s: %llu of %llu stamps; %llu cost %llu ns\n", self->name, (unsigned long long)kept,
		(unsigned long long)count, (unsigned long long)vstamp->records, (unsigned long long)vstamp->cost_ns);
	for (uint64_t i = count - kept; i < count; i++) {
		uint64_t stamp = atomic_load_explicit(&vstamp->ring[i & (vstamp->records - 1)], memory_order_relaxed);

		fprintf(vstamp->stream, "%llu %s\n", (unsigned long long)(stamp >> VSTAMP_WHAT_BITS),
			vstamp_words[stamp & VSTAMP_WHAT_MASK]);
	}
}

/* ---- a port below ---- */

static unsigned
vstamp_receive(struct xk_port *port, struct xk_msg **frames, unsigned max)
{
	struct vstamp_lane *lane = xk_container_of(port->ops, struct vstamp_lane, port_ops);
	uint64_t begun_ns = xk_now_ns(&lane->vstamp->protocol);
	unsigned count = lane->port_was->receive(port, frames, max);

	if (count > 0) {
		vstamp_put_at(lane->vstamp, VSTAMP_RECEIVE, begun_ns);
		vstamp_put(lane->vstamp, VSTAMP_RECEIVED);
	}
	return count;
}

static unsigned
vstamp_transmit(struct xk_port *port, struct xk_msg **frames, unsigned count)
{
	struct vstamp_lane *lane = xk_container_of(port->ops, struct vstamp_lane, port_ops);
	unsigned taken;

	vstamp_put(lane->vstamp, VSTAMP_TRANSMIT);
	taken = lane->port_was->transmit(port, frames, count);
	vstamp_put(lane->vstamp, VSTAMP_SENT);
	return taken;
}

static void
vstamp_sleep(struct xk_platform *platform, uint64_t deadline_ns)
{
	struct vstamp_lane *lane = xk_container_of(platform->ops, struct vstamp_lane, platform_ops);

	vstamp_put(lane->vstamp, VSTAMP_SLEEP);
	lane->platform_was->sleep(platform, deadline_ns);
	vstamp_put(lane->vstamp, VSTAMP_WAKE);
}

static void
vstamp_watch_lane(struct vstamp *vstamp, struct xk_port *port)
{
	struct vstamp_lane *lane = &vstamp->lanes[vstamp->lane_count++];

	*lane = (struct vstamp_lane){ .port = port, .vstamp = vstamp, .port_ops = *port->ops, .port_was = port->ops };
	lane->port_ops.receive = vstamp_receive;
	lane->port_ops.transmit = vstamp_transmit;
	port->ops = &lane->port_ops;
	lane->sleeps = port->platform->ops->sleep != vstamp_sleep;
	if (!lane->sleeps)
		return;
	lane->platform_ops = *port->platform->ops;
	lane->platform_ops.sleep = vstamp_sleep;
	lane->platform_was = port->platform->ops;
	port->platform->ops = &lane->platform_ops;
}

/* Returns the port below, or NULL. */
static struct xk_port *
vstamp_port(struct xk_protocol *self)
{
	const struct xk_protocol *lower = xk_lower(self, 0);
	const struct xk_setting *setting = lower->type->settings;

	if ((lower->type->flags & XK_PORT) == 0)
		return NULL;
	while (setting != NULL && setting->name != NULL && strcmp(setting->name, "dev") != 0)
		setting++;
	if (setting == NULL || setting->name == NULL)
		return NULL;
	return xk_kernel_find_port(self->kernel, *(char *const *)((const char *)lower + setting->offset));
}

/* Starts stamping drivers, none of which runs yet. Not beside a capture, which needs its own operations in place. */
static void
vstamp_watch(struct vstamp *vstamp)
{
	struct xk_protocol *self = &vstamp->protocol;
	struct xk_port *port = vstamp_port(self);

	if (port != NULL && xk_capture_of(self) != NULL) {
		xk_trace(self, XK_TRACE_NONE, "there is a capture: what the driver does is not stamped");
		return;
	}
	for (unsigned i = 0; i < XK_DRIVERS && port != NULL; i++)
		if (port->lanes[i] != NULL)
			vstamp_watch_lane(vstamp, port->lanes[i]);
}

/* Stops stamping drivers, none of which runs any more. */
static void
vstamp_unwatch(struct vstamp *vstamp)
{
	for (unsigned i = vstamp->lane_count; i-- > 0;) {
		struct vstamp_lane *lane = &vstamp->lanes[i];

		lane->port->ops = lane->port_was;
		if (lane->sleeps)
			lane->port->platform->ops = lane->platform_was;
	}
}

/* ---- init and fini ---- */

/* Returns what upper needs of its lower at this index. */
static unsigned
vstamp_needs(const struct xk_protocol *upper, unsigned place)
{
	const struct xk_role *roles = upper->type->lowers;
	unsigned count = 0;

	while (roles != NULL && roles[count].name != NULL)
		count++;
	return count == 0 ? 0 : roles[place % count].needs;
}

/* Checks, for the graph checker, that uppers need only what the first lower of another type offers. 0 or -EINVAL. */
static int
vstamp_check(struct xk_protocol *self)
{
	const struct xk_protocol *lower = xk_lower(self, 0);

	while (lower->type == self->type)
		lower = xk_lower(lower, 0);
	for (const struct xk_protocol *p = xk_kernel_first(self->kernel); p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++) {
			if (p->lowers[i]->lower != self || (vstamp_needs(p, i) & ~lower->type->offers) == 0)
				continue;
			xk_trace(self, XK_TRACE_NONE, "%s needs what %s does not offer", p->name, lower->name);
			return -EINVAL;
		}
	return 0;
}

static int
vstamp_init(struct xk_protocol *self)
{
	struct vstamp *vstamp = (struct vstamp *)self;
	uint64_t records = 1;
	int err = vstamp_check(self);

	if (err != 0 || vstamp->file[0] == '\0')
		return err;
	while (records < vstamp->records)
		records *= 2;
	vstamp->records = records;
	vstamp->stream = fopen(vstamp->file, "w");
	if (vstamp->stream == NULL) {
		err = -errno;
		xk_trace(self, XK_TRACE_NONE, "%s cannot be written: %s", vstamp->file, xk_error(errno));
		return err;
	}
	vstamp->ring = malloc(records * sizeof(*vstamp->ring));
	if (vstamp->ring == NULL) {
		fclose(vstamp->stream);
		return -ENOMEM;
	}
	vstamp_measure(vstamp);
	vstamp_watch(vstamp);
	return 0;
}

static void
vstamp_fini(struct xk_protocol *self)
{
	struct vstamp *vstamp = (struct vstamp *)self;

	if (vstamp->ring == NULL)
		return;
	vstamp_unwatch(vstamp);
	vstamp_write(vstamp);
	free(vstamp->ring);
	if (fclose(vstamp->stream) != 0)
		xk_trace(self, XK_TRACE_NONE, "%s is not complete: %s", vstamp->file, xk_error(errno));
}

/* ---- messages ---- */

static int
vstamp_push(struct xk_session *s, struct xk_msg *m)
{
	vstamp_cross(s, VSTAMP_DOWN);
	return xk_push(s->lls, m);
}

static void
vstamp_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)
{
	vstamp_cross(s, VSTAMP_UP);
	xk_demux(s, m);
}

/* ---- calls ---- */

static int
vstamp_call(struct xk_session *s, struct xk_msg *m, struct xk_msg **reply)
{
	int status;

	vstamp_cross(s, VSTAMP_DOWN);
	status = xk_call(s->lls, m, reply);
	vstamp_cross(s, VSTAMP_UP);
	return status;
}

static int
vstamp_call_async(struct xk_session *s, struct xk_msg *m, struct xk_call *call)
{
	vstamp_cross(s, VSTAMP_DOWN);
	return xk_call_async(s->lls, m, call);
}

/* As xk_virtual_demux: a session stands on lls, unless it was closed and lls was not. */
static int
vstamp_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	struct xk_session *s = xk_session_above(lls);

	if (xk_unlikely(s == NULL) && xk_virtual_open_done(self, lls->protocol, lls, lls->hlp_type) == 0)
		s = xk_session_above(lls);
	if (xk_unlikely(s == NULL)) {
		xk_drop(self, m, XK_DROP_NO_SESSION);
		return -ENOENT;
	}
	return xk_call_pop(s, lls, m, NULL, reply);
}

static int
vstamp_call_pop(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr, struct xk_msg **reply)
{
	int status;

	vstamp_cross(s, VSTAMP_UP);
	status = xk_call_demux(s, m, reply);
	vstamp_cross(s, VSTAMP_DOWN);
	return status;
}

/* ---- tables ---- */

static const struct xk_session_ops vstamp_session_ops = {
	.push = vstamp_push,
	.pop = vstamp_pop,
	.call = vstamp_call,
	.call_async = vstamp_call_async,
	.call_pop = vstamp_call_pop,
	.close = xk_virtual_session_close,
};

static const struct xk_protocol_ops vstamp_ops = {
	.init = vstamp_init,
	.fini = vstamp_fini,
	.call_demux = vstamp_call_demux,
	XK_VIRTUAL_OPS,
};

enum { VSTAMP_RECORDS_MAX = 1 << 24 };

static const struct xk_setting vstamp_settings[] = {
	XK_SETTING(STRING, struct vstamp, file, "file",
		   "file for the stamps, written when the graph ends; none: stamps are only counted", .initial = ""),
	XK_SETTING(UINT, struct vstamp, records, "records",
		   "number of stamps kept, the latest (raised to a power of two)", .initial = "64k", .min = 1,
		   .max = VSTAMP_RECORDS_MAX),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_vstamp = {
	.name = "vstamp",
	.help = "Records when messages and calls cross it and, on a port, what its driver does. No header; for any "
		"edge.",
	.ops = &vstamp_ops,
	.session_ops = &vstamp_session_ops,
	.size = sizeof(struct vstamp),
	.offers = XK_ASYNC | XK_RPC,
	.flags = XK_VIRTUAL,
	.lowers = XK_ROLES({ "lower", 0, NULL, "carries the messages and calls" }),
	.settings = vstamp_settings,
	.counters = vstamp_counters,
	.session_max = 256,
};
