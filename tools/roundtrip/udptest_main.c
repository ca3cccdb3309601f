/*
 * udptest_main.c - measures round trips of UDP messages (roundtrip.c) with the protocol udptest, whose client sends its
 * next request from demux.
 */
#include "protocols/test/udptest.h"

#include "tools/program/program.h"
#include "tools/roundtrip/roundtrip.h"

static const struct options_option udptest_options[] = {
	OPTION(NUMBERS, struct roundtrip_options, sizes, "size", "N,...", "bytes of a message (1)", .min = 1,
	       .max = XK_UDPTEST_MAX),
	{ .name = NULL },
};

static const struct options_program udptest_program = {
	.name = "udptest",
	.usage = "[OPTION]...",
	.about = "Measures round trips of UDP messages between two hosts: a request goes up the server's protocol "
		 "graph\n"
		 "and its echo up the client's. Without --server or --client both ends are started here, as two\n"
		 "processes, and the modes are compared in short alternating blocks.",
	.footer = roundtrip_footer,
	.options = udptest_options,
	.shared = { { roundtrip_common_options, 0 },
		    { host_common_options, offsetof(struct roundtrip_options, common) } },
};

static void
udptest_finished(void *argument, const struct xk_udptest_result *result)
{
	struct roundtrip_end *end = argument;

	end->result->error = result->error;
	end->result->rounds = result->rounds;
	end->result->lost = result->lost;
	end->result->late = result->late;
	end->result->bad = result->bad;
	end->max_packet = result->max_packet;
	roundtrip_finished(end);
}

static int
udptest_start(struct xk_protocol *protocol, const struct pair_block *block, struct roundtrip_end *end)
{
	struct xk_udptest_run run = {
		.host = block->host,
		.size = block->size,
		.rounds = block->rounds,
		.record = roundtrip_record,
		.lost = roundtrip_lost,
		.finished = udptest_finished,
		.argument = end,
	};

	return xk_udptest_start(protocol, &run);
}

static const struct roundtrip_test udptest_test = {
	.program = &udptest_program,
	.graph = "udptest.dot",
	.message = "datagram",
	.answer = "echo",
	.start = udptest_start,
};

int
udptest_main(int argc, char **argv)
{
	return roundtrip_main(&udptest_test, argc, argv);
}
