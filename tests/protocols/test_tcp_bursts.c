/*
 * test_tcp_bursts.c - TCP's paths, by which the segments of a burst come up together: several connections between two
 * hosts, whose frames arrive in bursts in which some are damaged, doubled, exchanged or lost, and in which time stamps
 * differ. Each byte of each stream arrives once and in order.
 */
#include <time.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "tests/compose.h"
#include "tests/random.h"
#include "tests/test.h"
#include "xkernel/bytes.h"
#include "xkernel/kernel.h"

enum {
	ENDS = 2,
	QUEUE = 4096,
	FRAME = 1514,
	CONNECTIONS = 3,
	BYTES = 3000000,
	PATIENCE_S = 60,
	REST = 16, /* turns of which one is followed by a rest in which the time stamps' clock advances */
	STAMP_AT = 14 + 20 + 20 + 4, /* in a frame whose options are two bytes of padding and a time stamp */
	STAMP = 0x0101080a           /* ... which begin so */
};

static const char graph[] = "digraph bursts { tcptest [%s bytes=%u, flow=both, connections=%u, size=%u];"
			    "tcp [timeout=\"20ms\", timeout_min=\"1ms\", ack_delay=\"1ms\"];"
			    "vnet [address=\"10.0.0.%u/8\"]; tcptest -> tcp; tcp -> ip; ip -> vnet; vnet -> eth;"
			    "vnet -> arp; arp -> eth; eth -> port }";

struct end {
	struct xk_platform *platform;
	struct xk_kernel *kernel;
	struct end *other;
	uint64_t random;
	unsigned faults; /* of 1000 frames */
	uint64_t frames; /* sent to this end */
	uint64_t mixed;  /* bursts with more than one time stamp */
	uint8_t queue[QUEUE][FRAME];
	size_t len[QUEUE];
	unsigned first, count;
};

/* ---- the wire ---- */

/* Returns the time stamp of a queued frame; 0: it has none. */
static uint32_t
end_stamp(const struct end *end, unsigned at)
{
	const uint8_t *p = end->queue[at % QUEUE];

	return end->len[at % QUEUE] >= STAMP_AT + 4 && xk_get32(p + STAMP_AT - 4) == STAMP ? xk_get32(p + STAMP_AT) : 0;
}

static unsigned
end_receive(void *context, struct xk_msg **arrived, unsigned max)
{
	struct end *end = context;
	unsigned count = 0, most = 1 + (unsigned)(next_random(&end->random) % XK_BURST);
	uint32_t stamp = end_stamp(end, end->first);
	bool is_mixed = false;

	for (; count < max && count < most && end->first != end->count; count++, end->first++) {
		unsigned at = end->first % QUEUE;

		arrived[count] = xk_memory_frame(end->platform, end->len[at]);
		REQUIRE(arrived[count] != NULL);
		memcpy(arrived[count]->data, end->queue[at], end->len[at]);
		is_mixed |= stamp != 0 && end_stamp(end, at) != 0 && end_stamp(end, at) != stamp;
	}
	end->mixed += is_mixed;
	return count;
}

/* Queues a frame, unless there is no room. */
static void
end_queue(struct end *end, const struct xk_msg *m)
{
	unsigned at = end->count % QUEUE;

	if (end->count - end->first == QUEUE)
		return;
	end->len[at] = xk_msg_len(m);
	REQUIRE(end->len[at] <= FRAME && xk_msg_copy_out(m, 0, end->queue[at], end->len[at]));
	end->count++;
	end->frames++;
}

/* Damages the newest frame, doubles it, exchanges it with the one before, or removes it. */
static void
end_disturb(struct end *end, const struct xk_msg *m)
{
	unsigned at = (end->count - 1) % QUEUE, before = (end->count - 2) % QUEUE;
	uint64_t bits = next_random(&end->random);
	uint8_t bytes[FRAME];
	size_t len = end->len[at];

	switch (bits % 4) {
	case 0:
		end->queue[at][34 + (bits >> 8) % (len - 34)] ^= (uint8_t)(1 << (bits >> 32) % 8);
		break;
	case 1:
		end_queue(end, m);
		break;
	case 2:
		if (end->count - end->first < 2)
			break;
		memcpy(bytes, end->queue[at], len);
		memcpy(end->queue[at], end->queue[before], end->len[before]);
		memcpy(end->queue[before], bytes, len);
		end->len[at] = end->len[before];
		end->len[before] = len;
		break;
	default:
		end->count--;
	}
}

static unsigned
end_transmit(void *context, struct xk_msg **sent, unsigned count)
{
	struct end *to = ((struct end *)context)->other;

	for (unsigned i = 0; i < count; i++) {
		unsigned queued = to->count;

		end_queue(to, sent[i]);
		if (to->count != queued && to->len[queued % QUEUE] > 60 && next_random(&to->random) % 1000 < to->faults)
			end_disturb(to, sent[i]);
		xk_msg_free(sent[i]);
	}
	return count;
}

/* ---- hosts ---- */

static void
end_begin(struct end *end, unsigned number, const char *client, unsigned size)
{
	struct xk_kernel_config config = { .name = "bursts", .mode = XK_IPP, .core = -1 };
	struct xk_port *port;
	char text[1024];
	struct xk_graph_source source = { .text = text };

	config.platform = end->platform = xk_memory_platform_new(XK_MEMORY_REAL);
	port = xk_memory_port_new(end->platform, "port", 0x020000000000 + number, 1500);
	end->kernel = xk_kernel_new(&config);
	REQUIRE(port != NULL && end->kernel != NULL);
	xk_memory_loop(port, end_receive, end_transmit, end);
	xk_kernel_add_port(end->kernel, port);
	snprintf(text, sizeof(text), graph, client, BYTES, CONNECTIONS, size, number);
	REQUIRE(xk_graph_compose(&source, end->kernel, stderr) == 0);
}

static void
check_bursts(unsigned faults, unsigned size)
{
	struct end *ends = calloc(ENDS, sizeof(*ends));
	time_t begun = time(NULL);
	unsigned turns = 0;
	struct xk_kernel_stats stats;

	REQUIRE(ends != NULL);
	for (unsigned i = 0; i < ENDS; i++) {
		ends[i].other = &ends[!i];
		ends[i].random = 1 + i;
		ends[i].faults = faults;
		end_begin(&ends[i], 1 + i, i == 0 ? "peer=\"10.0.0.2\"," : "", size);
	}
	while (compose_count(ends[0].kernel, "tcptest", "finished") +
			       compose_count(ends[0].kernel, "tcptest", "failed") <
		       CONNECTIONS &&
	       time(NULL) - begun < PATIENCE_S)
		for (unsigned i = 0; i < ENDS; i++) {
			xk_kernel_turn(ends[i].kernel);
			if (++turns % REST == 0)
				usleep(1000);
		}
	CHECK_EQ(compose_count(ends[0].kernel, "tcptest", "finished"), CONNECTIONS);
	for (unsigned i = 0; i < ENDS; i++) {
		CHECK_EQ(compose_count(ends[i].kernel, "tcptest", "wrong"), 0);
		CHECK(compose_count(ends[i].kernel, "tcptest", "received") >= (long)CONNECTIONS * BYTES);
		xk_kernel_stats(ends[i].kernel, &stats);
		CHECK(stats.by_path > ends[i].frames / 2);
		CHECK(ends[i].mixed > 0);
		CHECK(faults == 0 || compose_count(ends[i].kernel, "tcp", "bad_checksum") > 0);
		CHECK(faults != 0 || compose_count(ends[i].kernel, "tcp", "old_stamp") == 0);
	}
	for (unsigned i = 0; i < ENDS; i++) {
		xk_kernel_free(ends[i].kernel);
		CHECK_EQ(ends[i].platform->ops->buffers_out(ends[i].platform), 0);
		xk_memory_platform_free(ends[i].platform);
	}
	free(ends);
}

TEST_OF(streams_come_up_in_bursts, check_bursts(0, 16384));
TEST_OF(streams_of_short_messages_come_up_in_bursts, check_bursts(0, 700));
TEST_OF(damaged_bursts_lose_nothing, check_bursts(5, 16384));
TEST_OF(badly_damaged_bursts_lose_nothing, check_bursts(30, 5000));
