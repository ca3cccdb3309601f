/*
 * xk_bench_message.c - `xk bench message`: the cost of a message to its sender and its receiver, separately, in time,
 * instructions and buffers.
 *
 * One process, one thread: two hosts with a graph of udptest, where logptest replaces udptest: it counts messages and
 * frees them. The benchmark pushes a message and lets the hosts take turns (xk_kernel_turn) until no frame is in
 * flight; an end without frames to receive takes no turn. Frames are copied between the hosts, as by a link, outside of
 * both.
 *
 * For instructions, callgrind is notified where an end's part begins and ends, which requires its header at build time.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "protocols/papers/logptest.h"
#include "tools/batches.h"
#include "tools/bench/bench.h"
#include "tools/output.h"
#include "xkernel/bytes.h"
#include "xkernel/process.h"

#if defined(__has_include)
#if __has_include("valgrind/callgrind.h")
#include <valgrind/callgrind.h>
#endif
#endif
#ifdef CALLGRIND_TOGGLE_COLLECT
enum { MESSAGE_IS_COUNTED = true };
#else
#define CALLGRIND_TOGGLE_COLLECT ((void)0)
enum { MESSAGE_IS_COUNTED = false };
#endif

enum {
	MESSAGE_SENDER,
	MESSAGE_RECEIVER,
	MESSAGE_ENDS = BENCH_HOSTS,
	MESSAGE_QUEUE = 512, /* frames queued for a host */
	MESSAGE_WARM_UP = 1024,
	MESSAGE_TURNS = 1 << 22, /* without the expected event: some seconds */
	MESSAGE_AGAIN = 1 << 16, /* ... until the first message is resent, whose sender the receiver had to look up */
	MESSAGE_HELD = 4,        /* messages in flight whose buffers are counted */
	MESSAGE_PORT = 2009,
	MESSAGE_MTU_MIN = 68, /* RFC 791 */
	MESSAGE_MTU_MAX = 65535,
	MESSAGE_COUNTER = 0, /* logptest's `messages` */
};

#define MESSAGE_LINK UINT64_C(0x020000000001)
#define MESSAGE_ADDRESS 0x0a4d0001

struct message_end {
	struct message_bench *bench;
	struct xk_msg *queue[MESSAGE_QUEUE]; /* frames that arrive here next */
	unsigned first, count;
};

struct message_bench {
	struct bench common; /* first */
	unsigned counted;    /* enum of the ends; MESSAGE_ENDS: neither */
	struct xk_platform *platforms[MESSAGE_ENDS];
	struct message_end ends[MESSAGE_ENDS];
	struct xk_session *session;
	int err;
	bool opened;
	bool counting; /* the warm-up is over */
	struct batches batches;
	double message_ns;
	unsigned held[MESSAGE_ENDS]; /* number of buffers: message_hold */
};

static const char *const message_ends[] = { "sender", "receiver", NULL };

static const struct options_option message_options[] = {
	OPTION(NUMBER, struct message_bench, common.size, "size", "N", "message bytes (8)", .min = XK_LOGPTEST_MIN,
	       .max = XK_LOGPTEST_MAX),
	OPTION(NUMBER, struct message_bench, common.rounds, "rounds", "N", "messages that count (200000)", .min = 1,
	       .max = UINT32_MAX),
	OPTION(NUMBER, struct message_bench, common.mtu, "mtu", "N",
	       "bytes of a frame after its Ethernet header (1500)", .min = MESSAGE_MTU_MIN, .max = MESSAGE_MTU_MAX),
	OPTION(CHOICE, struct message_bench, counted, "count", "END",
	       "under callgrind with --collect-atstart=no, collects the\n"
	       "instructions of the sender or the receiver, in the rounds that\n"
	       "count",
	       .choices = message_ends),
	{ .name = NULL },
};

static const struct options_program message_program = {
	.name = "xk bench message",
	.usage = "[OPTION]...",
	.about = "Times messages from one host to another of a graph with udptest at its top (graphs/gm.dot), in one\n"
		 "process and without a wire, and counts the buffers that messages in flight hold.",
	.footer = "Instructions of an end, of all messages together:\n"
		  "  valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no \\\n"
		  "    xk bench message --count sender --rounds 10000",
	.options = message_options,
	.shared = { { bench_options, offsetof(struct message_bench, common) } },
};

/* Begins or ends the part of an end. */
static void
message_toggle(const struct message_bench *bench, unsigned end)
{
	if (bench->counting && end == bench->counted)
		CALLGRIND_TOGGLE_COLLECT;
}

/* ---- the wire ---- */

static unsigned
message_receive(void *context, struct xk_msg **frames, unsigned max)
{
	struct message_end *end = context;
	unsigned count = 0;

	for (; count < max && end->count > 0; count++, end->count--) {
		frames[count] = end->queue[end->first];
		end->first = (end->first + 1) % MESSAGE_QUEUE;
	}
	return count;
}

static unsigned
message_transmit(void *context, struct xk_msg **frames, unsigned count)
{
	struct message_end *from = context, *to = &from->bench->ends[from == from->bench->ends];
	unsigned taken = 0;

	for (; taken < count && to->count < MESSAGE_QUEUE; taken++, to->count++)
		to->queue[(to->first + to->count) % MESSAGE_QUEUE] = frames[taken];
	return taken;
}

/* Copies the frames queued for an end out of their sender's buffers, except the last `lost` frames. */
static void
message_carry(struct message_end *end, unsigned lost)
{
	unsigned kept = end->count > lost ? end->count - lost : 0;

	for (unsigned i = 0; i < end->count; i++) {
		struct xk_msg **place = &end->queue[(end->first + i) % MESSAGE_QUEUE], *frame = *place;

		if (i < kept) {
			*place = xk_memory_frame(end->bench->platforms[end - end->bench->ends], xk_msg_len(frame));
			xk_assert(*place != NULL);
			xk_msg_copy_out(frame, 0, (*place)->data, (*place)->len);
		}
		xk_msg_free(frame);
	}
	end->count = kept;
}

/* Lets the hosts take turns until no frame is in flight. */
static void
message_settle(struct message_bench *bench)
{
	while (bench->ends[MESSAGE_SENDER].count + bench->ends[MESSAGE_RECEIVER].count > 0)
		for (unsigned i = 0; i < MESSAGE_ENDS; i++) {
			if (bench->ends[i].count == 0)
				continue;
			message_carry(&bench->ends[i], 0);
			message_toggle(bench, i);
			xk_kernel_turn(bench->common.kernels[i]);
			message_toggle(bench, i);
		}
}

/* ---- messages ---- */

/* Pushes a message that requests no answer. Returns like xk_push. */
static int
message_push(struct message_bench *bench)
{
	struct xk_msg *m = xk_msg_new(bench->platforms[MESSAGE_SENDER], bench->common.size);
	int err;

	xk_assert(m != NULL);
	for (struct xk_msg *part = m; part != NULL; part = part->next)
		memset(part->data, 0, part->len);
	xk_put16(m->data + 4, 1 << 12); /* logptest's kind */
	message_toggle(bench, MESSAGE_SENDER);
	err = xk_push(bench->session, m);
	message_toggle(bench, MESSAGE_SENDER);
	return err;
}

/* Returns how many messages have arrived. */
static uint64_t
message_arrived(const struct message_bench *bench)
{
	return xk_counter(xk_kernel_find(bench->common.kernels[MESSAGE_RECEIVER], "udptest"), MESSAGE_COUNTER);
}

static void
message_open(void *argument)
{
	struct message_bench *bench = argument;
	struct xk_protocol *test = xk_kernel_find(bench->common.kernels[MESSAGE_SENDER], "udptest");
	struct xk_participants receiver = { .remote = { 2, { MESSAGE_ADDRESS + MESSAGE_RECEIVER, MESSAGE_PORT } } };

	bench->err = xk_open(test, test, xk_lower(test, 0), &receiver, &bench->session);
	bench->opened = true;
}

/* Lets both hosts take a turn, with or without frames. */
static void
message_turn(struct message_bench *bench)
{
	for (unsigned i = 0; i < MESSAGE_ENDS; i++) {
		message_carry(&bench->ends[i], 0);
		xk_kernel_turn(bench->common.kernels[i]);
	}
}

/* Opens the session, and makes the hosts known to each other. Returns 0 or -errno. */
static int
message_begin(struct message_bench *bench)
{
	int err = xk_thread_start(bench->common.kernels[MESSAGE_SENDER], "opener", message_open, bench);

	for (unsigned turn = 0; err == 0 && !bench->opened; turn++) {
		message_turn(bench);
		if (turn == MESSAGE_TURNS)
			err = -ETIMEDOUT;
	}
	if (err == 0)
		err = bench->err;
	for (unsigned turn = 0; err == 0 && message_arrived(bench) == 0; turn++) {
		if (turn % MESSAGE_AGAIN == 0)
			err = message_push(bench);
		message_turn(bench);
		if (turn == MESSAGE_TURNS)
			err = -ETIMEDOUT;
	}
	if (err == 0)
		message_settle(bench);
	return err;
}

/* Sends the timed messages. Returns 0, or -errno if one was refused or lost. */
static int
message_send(struct message_bench *bench)
{
	uint64_t arrived = message_arrived(bench), sent = 0;
	int err;

	do {
		err = message_push(bench);
		sent++;
		message_settle(bench);
	} while (err == 0 && batches_count(&bench->batches));
	return err == 0 && message_arrived(bench) - arrived != sent ? -EIO : err;
}

static unsigned
message_out(const struct message_bench *bench, unsigned end)
{
	struct xk_platform *platform = bench->platforms[end];

	return platform->ops->buffers_out(platform);
}

/*
 * Counts the buffers that are held when the device has sent all frames: by the receiver, for a message whose last frame
 * is lost; then by the sender, for that and others, of which the receiver gets no frame. There are no answers.
 */
static int
message_hold(struct message_bench *bench)
{
	struct message_end *sender = &bench->ends[MESSAGE_SENDER], *receiver = &bench->ends[MESSAGE_RECEIVER];
	unsigned before[MESSAGE_ENDS] = { message_out(bench, MESSAGE_SENDER), message_out(bench, MESSAGE_RECEIVER) };
	int err = message_push(bench);

	message_carry(receiver, 1);
	while (receiver->count > 0)
		xk_kernel_turn(bench->common.kernels[MESSAGE_RECEIVER]);
	message_carry(sender, sender->count);
	bench->held[MESSAGE_RECEIVER] = message_out(bench, MESSAGE_RECEIVER) - before[MESSAGE_RECEIVER];
	for (unsigned i = 1; i < MESSAGE_HELD && err == 0; i++) {
		err = message_push(bench);
		message_carry(receiver, receiver->count);
	}
	bench->held[MESSAGE_SENDER] = message_out(bench, MESSAGE_SENDER) - before[MESSAGE_SENDER];
	return err;
}

/* ---- the run ---- */

static void
message_counting(void *context)
{
	struct message_bench *bench = context;

	bench_take_stats(&bench->common, bench->common.before);
	bench->counting = true;
}

static int
message_measure(struct message_bench *bench)
{
	int err = message_begin(bench);

	if (err == 0)
		err = message_send(bench);
	bench->counting = false;
	bench_take_stats(&bench->common, bench->common.after);
	if (err == 0)
		err = message_hold(bench);
	xk_close(bench->session);
	if (err != 0)
		fprintf(stderr, "xk bench message: message %" PRIu64 " cannot be sent: %s\n", bench->batches.done,
			xk_error(err));
	return err == 0 ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}

static int
message_run(struct bench *common)
{
	static const char *const addresses[] = { "vnet.address=10.77.0.1/24", "vnet.address=10.77.0.2/24" };
	struct message_bench *bench = (struct message_bench *)common;
	int status = OPTIONS_SUCCESS;

	if (bench->counted != MESSAGE_ENDS && !MESSAGE_IS_COUNTED) {
		fprintf(stderr, "xk bench message: --count: this was built without valgrind's header callgrind.h\n");
		return OPTIONS_FAILURE;
	}
	batches_init(&bench->batches, MESSAGE_WARM_UP, common->rounds);
	bench->batches.counting = message_counting;
	bench->batches.context = bench;
	for (unsigned i = 0; i < MESSAGE_ENDS; i++) {
		struct bench_host host = { .name = message_ends[i],
					   .link = MESSAGE_LINK + i,
					   .address = addresses[i],
					   .policy = "udptest.protocol=logptest",
					   .test = "udptest",
					   .receive = message_receive,
					   .transmit = message_transmit,
					   .contexts = { &bench->ends[i] } };

		bench->ends[i].bench = bench;
		host.platform = bench->platforms[i] = xk_memory_platform_new(XK_MEMORY_REAL);
		xk_assert(host.platform != NULL);
		xk_memory_platform_calibrate(host.platform);
		if (status == OPTIONS_SUCCESS && !bench_host_open(common, i, &host))
			status = OPTIONS_FAILURE;
	}
	if (status == OPTIONS_SUCCESS)
		status = message_measure(bench);
	for (unsigned i = 0; i < MESSAGE_ENDS; i++) {
		xk_kernel_free(common->kernels[i]);
		message_carry(&bench->ends[i], bench->ends[i].count);
	}
	for (unsigned i = 0; i < MESSAGE_ENDS; i++) {
		message_carry(&bench->ends[i], bench->ends[i].count);
		xk_memory_platform_free(bench->platforms[i]);
	}
	if (status != OPTIONS_SUCCESS)
		return status;
	bench->message_ns = batches_median_ns(&bench->batches);
	return bench_report(common);
}

/* ---- the report ---- */

static void
message_write(const struct bench *common, struct json *json)
{
	const struct message_bench *bench = (const struct message_bench *)common;

	json_double(json, "message_ns", bench->message_ns);
	json_uint(json, "under_way", MESSAGE_HELD);
	json_object(json, "buffers");
	for (unsigned i = 0; i < MESSAGE_ENDS; i++)
		json_uint(json, message_ends[i], bench->held[i]);
	json_close(json);
	bench_json_counts(common, json, "per_message", BENCH_COUNTS);
}

static void
message_print(const struct bench *common)
{
	const struct message_bench *bench = (const struct message_bench *)common;

	output_print_name(common->graph);
	printf(", %" PRIu64 " bytes: %.1f ns a message, for both hosts (median of batches).\n", common->size,
	       bench->message_ns);
	printf("Per message:");
	for (unsigned i = 0; i < BENCH_COUNTS; i++)
		printf("%s %s %.3f", i == 0 ? "" : ",", bench_counts[i].name,
		       bench_per_round(common, &bench_counts[i]));
	printf(".\nBuffers: with %d messages in flight the sender holds %u; with the last frame of one missing, the "
	       "receiver %u.\nInstructions: see --help.\n",
	       MESSAGE_HELD, bench->held[MESSAGE_SENDER], bench->held[MESSAGE_RECEIVER]);
}

int
bench_message_main(int argc, char **argv)
{
	static const struct bench_kind kind = { &message_program, "message",     "graphs/gm.dot",
						message_run,      message_write, message_print };
	struct message_bench bench = { .common = { .size = XK_LOGPTEST_MIN, .rounds = 200000 },
				       .counted = MESSAGE_ENDS };

	return bench_main(&kind, &bench.common, argc, argv);
}
