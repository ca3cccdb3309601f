/*
 * adder.c - has another host add numbers, by calls: an example of docs/writing-a-protocol.md.
 *
 * Request:      4 bytes: op (1: add), a byte of zero, the count of numbers; the numbers, of 32 bits each
 * Reply:        the same header: op 2, count 1, and the total; or op 3, count 0: the total has more than 32 bits
 * Settings:     peer (the server; a host without one only serves), values (the numbers, "1 2 3"), calls (how many),
 *               ends (end the host after the last call: successfully if all were answered)
 * Drops:        bad_op, bad_length
 * Counters:     served, answered, failed
 * Not done:     versions
 * Graph:        adder -> chan
 */
#include <stdio.h>
#include <stdlib.h>

#include "xkernel/event.h"
#include "xkernel/header.h"
#include "xkernel/protocol.h"
#include "xkernel/trace.h"

#define ADDER_DROPS(D) D(ADDER_DROP_BAD_OP, "bad_op")
XK_DROPS(adder, ADDER_DROPS);

#define ADDER_COUNTERS(C) C(ADDER_SERVED, "served") C(ADDER_ANSWERED, "answered") C(ADDER_FAILED, "failed")
XK_COUNTERS(adder, ADDER_COUNTERS);

enum adder_op { ADDER_ADD = 1, ADDER_TOTAL, ADDER_OVERFLOW };

/* Requests are bounded, because the room for their numbers is. */
enum { ADDER_VALUE_LEN = 4, ADDER_VALUES_MAX = 256, ADDER_RETRY_US = 100 * 1000, ADDER_TRIES = 3 };

struct adder {
	struct xk_protocol protocol; /* first */
	uint32_t peer;
	uint64_t calls;
	const char *values;
	bool ends;
	struct xk_event starter;
};

/* ---- messages ---- */

static const struct xk_field_value adder_op_values[] = {
	{ ADDER_ADD, "add" },
	{ ADDER_TOTAL, "total" },
	{ ADDER_OVERFLOW, "overflow" },
	{ .name = NULL },
};

#define ADDER_HEADER(F)                                                                                                \
	F(8, op, .kind = XK_VARIES, .values = adder_op_values)                                                         \
	F(8, zero, .kind = XK_VARIES)                                                                                  \
	F(16, count, .kind = XK_VARIES, .help = "numbers that follow")
XK_HEADER(adder, ADDER_HEADER);
XK_FIELDS(adder, ADDER_HEADER);

static struct xk_msg *
adder_message(struct xk_protocol *self, enum adder_op op, const uint32_t *values, size_t count)
{
	uint8_t bytes[XK_HEADER_LEN(adder) + ADDER_VALUES_MAX * ADDER_VALUE_LEN];

	adder_store(bytes, &(struct adder_header){ .op = (uint8_t)op, .count = (uint16_t)count });
	for (size_t i = 0; i < count; i++)
		xk_put32(bytes + XK_HEADER_LEN(adder) + i * ADDER_VALUE_LEN, values[i]);
	return xk_msg_from(xk_platform_of(self), bytes, XK_HEADER_LEN(adder) + count * ADDER_VALUE_LEN);
}

/* Reads m's numbers. Takes m. Returns their count, or -EBADMSG after dropping a malformed m. */
static int
adder_read(struct xk_protocol *self, struct xk_msg *m, unsigned op_min, unsigned op_max, unsigned *op,
	   uint32_t values[ADDER_VALUES_MAX])
{
	uint8_t bytes[ADDER_VALUES_MAX * ADDER_VALUE_LEN];
	struct adder_header h = adder_load(m->data);
	size_t len = h.count * ADDER_VALUE_LEN;

	*op = h.op;
	if (*op < op_min || *op > op_max) {
		xk_drop(self, m, ADDER_DROP_BAD_OP);
		return -EBADMSG;
	}
	if (h.count > ADDER_VALUES_MAX || xk_msg_len(m) != XK_HEADER_LEN(adder) + len) {
		xk_drop(self, m, XK_DROP_BAD_LENGTH);
		return -EBADMSG;
	}
	xk_msg_copy_out(m, XK_HEADER_LEN(adder), bytes, len);
	xk_msg_free(m);
	for (size_t i = 0; i < h.count; i++)
		values[i] = xk_get32(bytes + i * ADDER_VALUE_LEN);
	return h.count;
}

/* ---- the server ---- */

static int
adder_call_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m, struct xk_msg **reply)
{
	uint32_t values[ADDER_VALUES_MAX], total;
	uint64_t exact = 0;
	unsigned op;
	int count = adder_read(self, m, ADDER_ADD, ADDER_ADD, &op, values);

	if (count < 0)
		return count;
	for (int i = 0; i < count; i++)
		exact += values[i];
	total = (uint32_t)exact;
	*reply = adder_message(self, exact > UINT32_MAX ? ADDER_OVERFLOW : ADDER_TOTAL, &total, exact <= UINT32_MAX);
	if (*reply == NULL)
		return -ENOBUFS;
	xk_count(self, ADDER_SERVED);
	return 0;
}

/* ---- the client ---- */

/* Has the server at s add the numbers into *total. Returns 0, -EOVERFLOW, or the error of the call. */
static int
adder_call(struct xk_protocol *self, struct xk_session *s, const uint32_t *values, size_t count, uint32_t *total)
{
	struct xk_msg *m = adder_message(self, ADDER_ADD, values, count), *reply;
	uint32_t answer[ADDER_VALUES_MAX];
	unsigned op;
	int status = m == NULL ? -ENOBUFS : xk_call(s, m, &reply); /* takes m */

	*total = 0;
	if (status == 0)
		status = adder_read(self, reply, ADDER_TOTAL, ADDER_OVERFLOW, &op, answer);
	if (status < 0)
		return status;
	if (op == ADDER_OVERFLOW)
		return -EOVERFLOW;
	if (status != 1)
		return -EBADMSG;
	*total = answer[0];
	return 0;
}

/* Opens a channel to the server, which may come up later than this host. Returns 0 or -errno. */
static int
adder_reach(struct adder *a, struct xk_session **s)
{
	struct xk_protocol *self = &a->protocol;
	int status = -EHOSTUNREACH;

	for (unsigned tries = 0; status != 0 && status != -ECANCELED && tries < ADDER_TRIES; tries++) {
		struct xk_participants server = { .remote.depth = 0 }; /* xk_open consumes them */

		if (tries > 0 && xk_delay(self, ADDER_RETRY_US) != 0)
			return -ECANCELED;
		xk_participant_push(&server.remote, a->peer);
		status = xk_open(self, self, xk_lower(self, 0), &server, s);
	}
	return status;
}

/* Makes the calls. Returns the status of the last one; -ECANCELED if the host is stopping. */
static int
adder_call_all(struct adder *a, struct xk_session *s)
{
	struct xk_protocol *self = &a->protocol;
	uint32_t values[ADDER_VALUES_MAX], total;
	size_t count = 0;
	int status = 0;

	for (char *next = (char *)a->values, *end; count < ADDER_VALUES_MAX; next = end) {
		values[count] = (uint32_t)strtoul(next, &end, 0);
		if (end == next)
			break;
		count++;
	}
	for (uint64_t i = 0; i < a->calls && status != -ECANCELED; i++) {
		status = adder_call(self, s, values, count, &total);
		xk_count(self, status == 0 ? ADDER_ANSWERED : ADDER_FAILED);
		if (status == 0)
			xk_trace(self, XK_TRACE_EVENTS, "the total is %u", (unsigned)total);
		else
			xk_trace(self, XK_TRACE_NONE, "the call failed: %s", strerror(-status));
	}
	return status;
}

/* Runs the client, in a shepherd of its own, which may wait. */
static void
adder_client(void *argument)
{
	struct adder *a = argument;
	struct xk_protocol *self = &a->protocol;
	struct xk_session *s;
	int status = adder_reach(a, &s);

	if (status == 0) {
		status = adder_call_all(a, s);
		xk_close(s);
	} else if (status != -ECANCELED) {
		xk_count(self, ADDER_FAILED);
		xk_trace(self, XK_TRACE_NONE, "no channel to the server: %s", strerror(-status));
	}
	if (a->ends && status != -ECANCELED)
		xk_host_end(self, xk_counter(self, ADDER_FAILED) > 0);
}

/* Starts the client once the host runs, because init must not wait. */
static void
adder_start(struct xk_event *event, void *argument)
{
	struct adder *a = argument;

	if (xk_thread_start(a->protocol.kernel, a->protocol.name, adder_client, a) != 0)
		xk_event_schedule(event, ADDER_RETRY_US);
}

static int
adder_init(struct xk_protocol *self)
{
	struct adder *a = (struct adder *)self;
	struct xk_participants anybody = { .remote.depth = 0 };

	xk_event_init(&a->starter, self->kernel, adder_start, a);
	if (a->peer != 0)
		xk_event_schedule(&a->starter, 0);
	return xk_open_enable(self, self, xk_lower(self, 0), &anybody);
}

static void
adder_fini(struct xk_protocol *self)
{
	xk_event_cancel(&((struct adder *)self)->starter);
}

/* ---- tables ---- */

static const struct xk_protocol_ops adder_ops = {
	.init = adder_init,
	.fini = adder_fini,
	.call_demux = adder_call_demux,
};

static const struct xk_setting adder_settings[] = {
	XK_SETTING(HOST, struct adder, peer, "peer", "the server of a client, which begins by itself"),
	XK_SETTING(STRING, struct adder, values, "values", "what the client has added", .initial = "1 2 3"),
	XK_SETTING(UINT, struct adder, calls, "calls", "how often", .initial = "1"),
	XK_SETTING(BOOL, struct adder, ends, "ends", "end the host after the last call", .initial = "no"),
	{ .name = NULL },
};

const struct xk_protocol_type xk_type_adder = {
	.name = "adder",
	.help = "Adds numbers by calls: an example of the documentation.",
	.ops = &adder_ops,
	.header = XK_HEADER_LEN(adder),
	.fields = adder_fields,
	.size = sizeof(struct adder),
	.lowers = XK_ROLES({ "transport", XK_RPC, NULL, "carries the calls" }),
	.numbers = XK_NUMBERS({ "chan", 40 }),
	.settings = adder_settings,
	.drops = adder_drops,
	.counters = adder_counters,
};
