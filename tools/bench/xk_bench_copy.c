/*
 * xk_bench_copy.c - `xk bench copy`: the cost of a message to its sender and its receiver, by copy or by reference, by
 * size.
 *
 * Figure 4 of J. Chen and W. Watson III, "User Level Communication on Alpha Linux Systems", compares how bytes move
 * between a host and its network card: by the processor, or by the card, given their address. Here a sender copies its
 * bytes into buffers, or lends them (xk_msg_lend); a receiver copies a message out of its buffers, or reads it in
 * place. A header is put in front, as protocols do. There is no device: bursts of messages are freed unread, as if a
 * card had fetched them. The bytes are read from and written to a large memory area in turn, so that they are not all
 * in the nearest cache.
 *
 * All ways and sizes are measured in turn, a burst at a time. The benchmark makes no system calls, so it can run under
 * callgrind: with one size and one way, the difference in instructions between two values of --rounds is the cost of
 * the additional rounds.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/batches.h"
#include "tools/bench/bench.h"

enum copy_way { COPY_SEND_COPY, COPY_SEND_REFERENCE, COPY_RECEIVE_COPY, COPY_RECEIVE_REFERENCE, COPY_WAYS };

enum {
	COPY_BURST = 32,
	COPY_HEADERS = 42,
	COPY_BURSTS_MAX = 1000, /* per size and way */
};

static const char *const copy_ways[] = { "send-copy", "send-reference", "receive-copy", "receive-reference", NULL };

struct copy_bench {
	struct bench common; /* first */
	struct options_numbers sizes, ways;
	uint64_t memory;
	uint8_t *bytes;
	size_t place; /* index in bytes */
	uint64_t lent, given_back;
	double burst_ns[OPTIONS_LIST][COPY_WAYS][COPY_BURSTS_MAX]; /* time per message of each burst */
	double median_ns[OPTIONS_LIST][COPY_WAYS];                 /* 0: not measured */
};

static const struct options_option copy_options[] = {
	OPTION(NUMBERS, struct copy_bench, sizes, "size", "N,...",
	       "message bytes, ascending (64,256,1024,2048,4096,8192,16384,65536)", .max = XK_MSG_MAX - COPY_HEADERS),
	OPTION(CHOICES, struct copy_bench, ways, "way", "WAY,...",
	       "send-copy, send-reference, receive-copy, receive-reference (all)", .choices = copy_ways),
	OPTION(NUMBER, struct copy_bench, common.rounds, "rounds", "N",
	       "messages of each size and way, a multiple of 32 (6400)", .min = COPY_BURST,
	       .max = COPY_BURST * COPY_BURSTS_MAX),
	OPTION(NUMBER, struct copy_bench, memory, "memory", "N", "bytes of memory that are used in turn (4194304)",
	       .min = XK_MSG_MAX, .max = UINT64_C(1) << 30),
	OPTION(TEXT, struct copy_bench, common.json, "json", "FILE", "JSON to FILE; - is standard output"),
	{ .name = NULL },
};

static const struct options_program copy_program = {
	.name = "xk bench copy",
	.usage = "[OPTION]...",
	.about = "Times the cost of a message to its sender and its receiver, by copy and by reference.",
	.footer =
		"Instructions per message, by the difference of two runs:\n"
		"  valgrind --tool=callgrind --callgrind-out-file=/dev/null xk bench copy --size 1024 --way send-copy "
		"\\\n"
		"    --rounds 3200\n"
		"and the same with --rounds 6400.",
	.options = copy_options,
};

static void
copy_given_back(void *context)
{
	((struct copy_bench *)context)->given_back++;
}

/* Returns the next `size` bytes of the program's memory. */
static uint8_t *
copy_next_bytes(struct copy_bench *copy, size_t size)
{
	if (copy->place + size > copy->memory)
		copy->place = 0;
	copy->place += size;
	return copy->bytes + copy->place - size;
}

static struct xk_msg *
copy_make(struct copy_bench *copy, bool lends, size_t size)
{
	struct xk_platform *platform = copy->common.platforms[0];
	const uint8_t *bytes = copy_next_bytes(copy, size);
	struct xk_msg *m =
		lends ? xk_msg_lend(platform, bytes, size, copy_given_back, copy) : xk_msg_from(platform, bytes, size);
	uint8_t *header = m == NULL ? NULL : xk_msg_push(&m, COPY_HEADERS);

	xk_assert(header != NULL);
	memset(header, 0, COPY_HEADERS);
	copy->lent += lends;
	return m;
}

/* Returns the nanoseconds per message of a burst. */
static double
copy_burst(struct copy_bench *copy, enum copy_way way, size_t size)
{
	struct xk_platform *platform = copy->common.platforms[0];
	bool sends = way == COPY_SEND_COPY || way == COPY_SEND_REFERENCE;
	struct xk_msg *messages[COPY_BURST];
	uint64_t began_ns;

	for (unsigned i = 0; i < COPY_BURST && !sends; i++)
		messages[i] = copy_make(copy, false, size);
	began_ns = platform->ops->now_ns(platform);
	for (unsigned i = 0; i < COPY_BURST; i++) {
		if (sends)
			messages[i] = copy_make(copy, way == COPY_SEND_REFERENCE, size);
		else if (xk_msg_pop(&messages[i], COPY_HEADERS) != NULL && way == COPY_RECEIVE_COPY)
			xk_msg_copy_out(messages[i], 0, copy_next_bytes(copy, size), size);
	}
	for (unsigned i = 0; i < COPY_BURST; i++)
		xk_msg_free(messages[i]);
	return (double)(platform->ops->now_ns(platform) - began_ns) / COPY_BURST;
}

static int
copy_run(struct bench *bench)
{
	struct copy_bench *copy = (struct copy_bench *)bench;
	unsigned bursts = (unsigned)(bench->rounds / COPY_BURST);

	if (copy->ways.count == 0)
		copy->ways = (struct options_numbers){ COPY_WAYS, { 0, 1, 2, 3 } };
	xk_memory_platform_calibrate(bench->platforms[0]);
	bench->platforms[0]->ops->driver_begin(bench->platforms[0]);
	copy->bytes = malloc(copy->memory);
	xk_assert(copy->bytes != NULL);
	memset(copy->bytes, 1, copy->memory);
	for (unsigned burst = 0; burst < bursts; burst++)
		for (unsigned i = 0; i < copy->sizes.count; i++)
			for (unsigned j = 0; j < copy->ways.count; j++) {
				enum copy_way way = (enum copy_way)copy->ways.value[j];

				copy->burst_ns[i][way][burst] = copy_burst(copy, way, copy->sizes.value[i]);
			}
	for (unsigned i = 0; i < copy->sizes.count; i++)
		for (unsigned j = 0; j < copy->ways.count; j++) {
			uint64_t way = copy->ways.value[j];

			copy->median_ns[i][way] = batches_median(copy->burst_ns[i][way], bursts);
		}
	free(copy->bytes);
	if (copy->lent != copy->given_back) {
		fprintf(stderr, "xk bench copy: %" PRIu64 " loans, but %" PRIu64 " were returned\n", copy->lent,
			copy->given_back);
		return OPTIONS_FAILURE;
	}
	return bench_report(bench);
}

/* Returns the smallest size from which on messages are cheaper by reference, at all measured sizes; 0: none. */
static uint64_t
copy_crossover(const struct copy_bench *copy, enum copy_way by_copy, enum copy_way by_reference)
{
	unsigned i = copy->sizes.count;

	while (i > 0 && copy->median_ns[i - 1][by_reference] < copy->median_ns[i - 1][by_copy])
		i--;
	return i == copy->sizes.count ? 0 : copy->sizes.value[i];
}

static void
copy_write(const struct bench *bench, struct json *json)
{
	const struct copy_bench *copy = (const struct copy_bench *)bench;

	json_uint(json, "rounds", bench->rounds);
	json_array(json, "runs");
	for (unsigned i = 0; i < copy->sizes.count; i++) {
		json_object(json, NULL);
		json_uint(json, "size", copy->sizes.value[i]);
		for (unsigned j = 0; j < copy->ways.count; j++)
			json_double(json, copy_ways[copy->ways.value[j]], copy->median_ns[i][copy->ways.value[j]]);
		json_close(json);
	}
	json_close(json);
}

static void
copy_print(const struct bench *bench)
{
	const struct copy_bench *copy = (const struct copy_bench *)bench;
	uint64_t crossing = copy_crossover(copy, COPY_SEND_COPY, COPY_SEND_REFERENCE);

	printf("                sent, ns a message           received              MB/s sent\n"
	       "   bytes       copy  reference       copy  reference       copy  reference\n");
	for (unsigned i = 0; i < copy->sizes.count; i++) {
		const double *ns = copy->median_ns[i];
		double size = (double)copy->sizes.value[i];

		printf("%8" PRIu64, copy->sizes.value[i]);
		for (unsigned way = 0; way < COPY_WAYS; way++)
			printf(" %10.1f", ns[way]);
		for (unsigned way = COPY_SEND_COPY; way <= COPY_SEND_REFERENCE; way++)
			printf(" %10.0f", ns[way] > 0 ? 1e3 * size / ns[way] : 0);
		printf("\n");
	}
	if (crossing != 0)
		printf("Sending by reference is cheaper from %" PRIu64 " bytes on.\n", crossing);
}

int
bench_copy_main(int argc, char **argv)
{
	static const struct bench_kind kind = {
		.program = &copy_program, .command = "copy", .run = copy_run, .write = copy_write, .print = copy_print
	};
	static const struct options_numbers sizes = { 8, { 64, 256, 1024, 2048, 4096, 8192, 16384, 65536 } };
	struct copy_bench *copy = calloc(1, sizeof(*copy));
	int status;

	xk_assert(copy != NULL);
	copy->common.rounds = 6400;
	copy->memory = UINT64_C(4) << 20;
	copy->sizes = sizes;
	status = bench_main(&kind, &copy->common, argc, argv);
	free(copy);
	return status;
}
