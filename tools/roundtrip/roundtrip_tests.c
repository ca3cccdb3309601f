/*
 * roundtrip_tests.c - the programs udptest, chantest and tcptest, by their protocols: udptest's client, and tcptest's on
 * each connection, send the next message from the demux of the last one's echo; on each of chantest's channels, a shepherd
 * calls and waits for the reply, one call after the other. A shepherd for each of tcptest's connections opens it, sends or
 * awaits its streams, and closes it.
 */
#include <string.h>

#include "protocols/test/chantest.h"
#include "protocols/test/tcptest.h"
#include "protocols/test/udptest.h"
#include "tools/roundtrip/programs.h"
#include "tools/roundtrip/roundtrip.h"

#define ROUNDTRIP_ROUNDS(help)                                                                                         \
	OPTION(NUMBER, struct roundtrip_options, rounds, "rounds", "N", help, .min = 1, .max = 1000000000)

/* What the programs have in common. */
#define ROUNDTRIP_COMMON                                                                                               \
	.footer = roundtrip_footer, .shared = { { roundtrip_common_options, 0 },                                       \
						{ host_common_options, offsetof(struct roundtrip_options, common) } }

static const struct options_option udptest_options[] = {
	ROUNDTRIP_ROUNDS("round trips for each size and mode (10000)"),
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
	.options = udptest_options,
	ROUNDTRIP_COMMON,
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
	roundtrip_finished(end, result->max_packet);
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

int
udptest_main(int argc, char **argv)
{
	static const struct roundtrip_test test = {
		.program = &udptest_program,
		.protocol = "udptest",
		.rounds = 10000,
		.sizes = { 1, { 1 } },
		.graph = "udptest.dot",
		.message = "datagram",
		.answer = "echo",
		.start = udptest_start,
		.measure = roundtrip_compare,
		.print = roundtrip_print,
		.json = roundtrip_json_runs,
	};

	return roundtrip_main(&test, argc, argv);
}

static const struct options_option chantest_options[] = {
	ROUNDTRIP_ROUNDS("round trips for each size and mode (10000)"),
	OPTION(NUMBERS, struct roundtrip_options, sizes, "size", "N,...", "bytes of a request and of its reply (1)",
	       .max = XK_CHANTEST_MAX),
	OPTION(NUMBERS, struct roundtrip_options, channels, "channels", "N,...",
	       "calls in flight, one on each channel (1)", .min = 1, .max = XK_CHANTEST_CHANNELS),
	{ .name = NULL },
};

static const struct options_program chantest_program = {
	.name = "chantest",
	.usage = "[OPTION]...",
	.about = "Measures remote procedure calls between two hosts: a request goes up the server's protocol graph,\n"
		 "and its reply resumes the caller. Without --server or --client both ends are started here, as\n"
		 "two processes, and the modes are compared in short alternating blocks. With --handoff none or\n"
		 "server the driver itself resumes the caller, with client or both a thread does.",
	.options = chantest_options,
	ROUNDTRIP_COMMON,
};

static void
chantest_failed(void *argument, int err, uint64_t waited_ns)
{
	(void)err; /* the result has the error that ends the run */
	roundtrip_lost(argument, waited_ns);
}

static void
chantest_finished(void *argument, const struct xk_chantest_result *result)
{
	struct roundtrip_end *end = argument;

	end->result->error = result->error;
	end->result->rounds = result->rounds;
	end->result->lost = result->failed;
	end->result->bad = result->bad;
	roundtrip_finished(end, result->max_packet);
}

static int
chantest_start(struct xk_protocol *protocol, const struct pair_block *block, struct roundtrip_end *end)
{
	struct xk_chantest_run run = {
		.host = block->host,
		.size = block->size,
		.channels = block->channels,
		.rounds = block->rounds,
		.record = roundtrip_record,
		.failed = chantest_failed,
		.finished = chantest_finished,
		.argument = end,
	};

	return xk_chantest_start(protocol, &run);
}

int
chantest_main(int argc, char **argv)
{
	static const struct roundtrip_test test = {
		.program = &chantest_program,
		.protocol = "chantest",
		.rounds = 10000,
		.sizes = { 1, { 1 } },
		.graph = "chantest.dot",
		.message = "message",
		.answer = "reply",
		.channels = "channels",
		.start = chantest_start,
		.measure = roundtrip_compare,
		.print = roundtrip_print,
		.json = roundtrip_json_runs,
	};

	return roundtrip_main(&test, argc, argv);
}

static const char *const tcptest_flows[] = { "echo", "short", "send", "receive", "both", NULL };

static const struct options_option tcptest_options[] = {
	ROUNDTRIP_ROUNDS("messages for each size, flow and mode (10000)"),
	OPTION(NUMBERS, struct roundtrip_options, sizes, "size", "N,...", "bytes of a message (1)", .min = 1,
	       .max = XK_TCPTEST_MAX),
	OPTION(CHOICES, struct roundtrip_options, flows, "flow", "FLOW,...",
	       "what the connections carry (echo):\n"
	       "echo: round trips; short: each on a connection of its own\n"
	       "send, receive, both: streams of messages, seen from the client",
	       .choices = tcptest_flows),
	OPTION(NUMBERS, struct roundtrip_options, channels, "connections", "N,...", "connections at once (1)", .min = 1,
	       .max = XK_TCPTEST_CONNECTIONS),
	{ .name = NULL },
};

static const struct options_program tcptest_program = {
	.name = "tcptest",
	.usage = "[OPTION]...",
	.about = "Measures TCP between two hosts, and checks every byte: round trips, streams, short connections.\n"
		 "Without --server or --client both ends are started here, as two processes, and the modes are\n"
		 "compared in short alternating blocks, each on new connections. The time of a message is that of\n"
		 "its round trip; if it is short, from the open to the close; in a stream, since the one before.",
	.options = tcptest_options,
	ROUNDTRIP_COMMON,
};

static void
tcptest_finished(void *argument, const struct xk_tcptest_result *result)
{
	struct roundtrip_end *end = argument;

	end->result->error = result->error;
	end->result->rounds = result->rounds;
	end->result->lost = result->failed;
	end->result->bad = result->bad;
	roundtrip_finished(end, result->max_packet);
}

static int
tcptest_start(struct xk_protocol *protocol, const struct pair_block *block, struct roundtrip_end *end)
{
	static const enum xk_tcptest_flow flows[] = { XK_TCPTEST_ECHO, XK_TCPTEST_ECHO, XK_TCPTEST_SEND,
						      XK_TCPTEST_RECEIVE, XK_TCPTEST_BOTH };
	struct xk_tcptest_run run = {
		.host = block->host,
		.flow = flows[block->flow],
		.is_short = strcmp(tcptest_flows[block->flow], "short") == 0,
		.size = block->size,
		.connections = block->channels,
		.rounds = block->rounds,
		.record = roundtrip_record,
		.finished = tcptest_finished,
		.argument = end,
	};

	return xk_tcptest_start(protocol, &run);
}

int
tcptest_main(int argc, char **argv)
{
	static const struct roundtrip_test test = {
		.program = &tcptest_program,
		.protocol = "tcptest",
		.rounds = 10000,
		.sizes = { 1, { 1 } },
		.graph = "tcptest.dot",
		.message = "message",
		.answer = "echo",
		.channels = "connections",
		.flows = tcptest_flows,
		.streams = 2,
		.start = tcptest_start,
		.measure = roundtrip_compare,
		.print = roundtrip_print,
		.json = roundtrip_json_runs,
	};

	return roundtrip_main(&test, argc, argv);
}
