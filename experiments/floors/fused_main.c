/*
 * fused_main.c - measures fused_echo (fused.h) as `xk bench echo` measures the whole graph: the same requests in the
 * same buffers, the same checks. For instruction counts, run it under valgrind --tool=callgrind with two values of
 * --rounds and take the difference. --alone omits the function, to measure the benchmark's own cost.
 */
#include <stdio.h>
#include <stdlib.h>

#include "experiments/floors/fused.h"
#include "platform/sim/memory.h"
#include "tools/bench/echo_rig.h"
#include "tools/json.h"
#include "tools/options.h"

struct fused_options {
	uint64_t size, rounds, sessions, burst;
	bool alone, json;
};

static const struct options_option fused_options[] = {
	OPTION(NUMBER, struct fused_options, size, "size", "N", "message bytes (1)", .min = 1,
	       .max = ECHO_FRAME_MAX_MESSAGE),
	OPTION(NUMBER, struct fused_options, rounds, "rounds", "N", "measured echoes (1000000)", .min = 1,
	       .max = UINT32_MAX),
	OPTION(NUMBER, struct fused_options, sessions, "sessions", "N", "peers (1)", .min = 1,
	       .max = ECHO_FRAME_MAX_PEERS),
	OPTION(NUMBER, struct fused_options, burst, "burst", "N", "requests per burst (1)", .min = 1,
	       .max = ECHO_RIG_BURST),
	OPTION(FLAG, struct fused_options, alone, "alone", NULL, "the benchmark without the function"),
	OPTION(FLAG, struct fused_options, json, "json", NULL, "JSON on standard output"),
	{ .name = NULL },
};

static const struct options_program fused_program = {
	.name = "fused",
	.usage = "[OPTION]...",
	.about = "Times a UDP echo written as one function.",
	.options = fused_options,
};

/* Runs the rig with the function between its two ends. Returns false if a check failed. */
static bool
fused_run(struct echo_rig *rig, struct fused_host *host)
{
	struct xk_msg *frames[ECHO_RIG_BURST];

	while (!rig->done) {
		unsigned count = echo_rig_receive(rig, frames, ECHO_RIG_BURST);

		for (unsigned i = 0; i < count && !rig->alone; i += rig->frames.pieces)
			if (rig->frames.pieces == 1 ? !fused_echo(host, frames[i])
						    : !fused_echo_pieces(host, frames + i, rig->frames.pieces))
				rig->wrong = "refused by fused_echo";
		echo_rig_transmit(rig, frames, count);
	}
	if (rig->wrong != NULL)
		fprintf(stderr, "fused: round %llu: %s\n", (unsigned long long)rig->wrong_round, rig->wrong);
	return rig->wrong == NULL;
}

static void
fused_print(const struct fused_options *o, double echo_ns, double rig_ns)
{
	struct json json;

	if (!o->json) {
		printf("%.1f ns per echo, minus %.1f ns for making and checking frames: %.1f ns\n", echo_ns, rig_ns,
		       echo_ns - rig_ns);
		return;
	}
	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "program", "fused");
	json_uint(&json, "size", o->size);
	json_uint(&json, "sessions", o->sessions);
	json_uint(&json, "rounds", o->rounds);
	json_double(&json, "echo_ns", echo_ns);
	json_double(&json, "rig_ns", rig_ns);
	json_double(&json, "net_ns", echo_ns - rig_ns);
	json_close(&json);
	json_end(&json);
}

static int
fused_measure(const struct fused_options *o, struct xk_platform *platform)
{
	static const struct echo_end server = { UINT64_C(0x020000000001), 0x0a000002, 2001 };
	struct fused_host host = { .link = server.link, .address = server.address, .port = server.port };
	struct echo_rig *rig = calloc(1, sizeof(*rig));
	bool good;

	xk_assert(rig != NULL);
	*rig = (struct echo_rig){ .platform = platform,
				  .sessions = (uint32_t)o->sessions,
				  .burst = (uint32_t)o->burst,
				  .rounds = o->rounds,
				  .alone = o->alone };
	echo_rig_init(rig, &server, (uint32_t)o->size);
	good = fused_run(rig, &host);
	if (good && !o->alone)
		fused_print(o, batches_median_ns(&rig->batches), echo_rig_cost_ns(rig, (uint32_t)o->size));
	free(rig);
	return good ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}

int
main(int argc, char **argv)
{
	struct fused_options o = { .size = 1, .rounds = 1000000, .sessions = 1, .burst = 1 };
	struct options_texts operands;
	struct xk_platform *platform;
	int status;

	status = options_parse(&fused_program, argc, argv, &o, &operands);
	if (status != OPTIONS_GO)
		return status;
	platform = xk_memory_platform_new(XK_MEMORY_REAL);
	xk_assert(platform != NULL);
	xk_memory_platform_calibrate(platform);
	platform->ops->driver_begin(platform);
	status = fused_measure(&o, platform);
	xk_memory_platform_free(platform);
	return status;
}
