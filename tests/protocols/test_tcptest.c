/* test_tcptest.c - tcptest's server above a fake stream: peers that read nothing, and wrong requests. */
#include "protocols/tcp/tcp.h"
#include "protocols/test/tcptest.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { MANY = 80 /* more than there are stacks */, STREAMS = 24 };

static struct rig *
tcptest_rig(const char *settings)
{
	char graph[256];

	snprintf(graph, sizeof(graph), "wire:; tcptest: wire; %s", settings);
	return rig_new_graph(graph);
}

/* Another peer opens a connection, and asks for a flow of so many bytes; if they are echoed, it sends four. */
static struct xk_session *
ask(struct rig *r, enum xk_tcptest_flow flow, uint32_t size, uint64_t bytes)
{
	uint8_t request[20] = { [17] = 1, 2, 3 };

	xk_put64(request, bytes);
	xk_put32(request + 8, size);
	xk_put32(request + 12, flow);
	rig_wire_peer(r, 0x99);
	rig_inject_bytes(r, request, flow == XK_TCPTEST_ECHO ? 20 : 16);
	return rig_wire_newest_session(r);
}

static unsigned
parked(struct rig *r)
{
	struct xk_kernel_stats stats;

	xk_kernel_stats(rig_kernel(r), &stats);
	return (unsigned)stats.stacks_parked;
}

TEST(tcptest_sends_more_streams_than_there_are_stacks)
{
	struct rig *r = tcptest_rig("");
	struct xk_session *s[MANY];

	rig_fail_sending(r, -ENOBUFS);
	for (unsigned i = 0; i < MANY; i++) {
		s[i] = ask(r, XK_TCPTEST_RECEIVE, 100, 150);
		rig_advance_ms(r, 2);
	}
	rig_expect_counts(r, "accepted=80 sent=0");
	CHECK_EQ(parked(r), STREAMS);
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 2);
	rig_expect_counts(r, "sent=12000 refused=0");
	for (unsigned i = 0; i < MANY; i++)
		rig_close_done(r, s[i]);
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_forget(r);
	rig_free(r);
}

TEST(tcptest_resets_an_echo_if_too_many_wait)
{
	struct rig *r = tcptest_rig("tcptest.streams=2;");
	struct xk_session *s[2];

	rig_answer_control(r, XK_TCP_SET_EAGER, "", 0);
	rig_fail_sending(r, -ENOBUFS);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(s); i++)
		s[i] = ask(r, XK_TCPTEST_ECHO, 4, 4);
	ask(r, XK_TCPTEST_ECHO, 4, 4);
	rig_expect_counts(r, "accepted=3 refused=1");
	CHECK_EQ(rig_wire_session_count(r), 2);
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 2);
	rig_expect_sent(r, "00010203");
	rig_expect_sent(r, "00010203");
	rig_expect_nothing_sent(r);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(s); i++)
		rig_close_done(r, s[i]);
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_free(r);
}

TEST(tcptest_keeps_no_connection_that_it_has_reset)
{
	struct rig *r = tcptest_rig("");

	ask(r, XK_TCPTEST_SEND, 0, 1);
	CHECK_EQ(rig_wire_session_count(r), 0);
	ask(r, XK_TCPTEST_ECHO + 1, 1, 1);
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_expect_counts(r, "accepted=2");
	rig_free(r);
}
