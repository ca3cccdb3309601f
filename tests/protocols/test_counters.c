/*
 * test_counters.c - drop reasons that a protocol's own tests do not reach, because another part must first lack
 * something, be late or misbehave. tests/counters.py checks that some test reaches each counter.
 */
#include <errno.h>
#include <limits.h>

#include "protocols/test/icmptest.h"
#include "protocols/test/udptest.h"
#include "tests/protocols/ip_datagrams.h"
#include "xkernel/support/fault.h"

/* Injects hex as two segments with no other buffer left: a header across both cannot be pulled up. */
static void
inject_without_buffers(struct rig *r, const char *hex)
{
	rig_limit_buffers(r, 2);
	rig_inject(r, hex);
	rig_limit_buffers(r, UINT_MAX);
}

/* ---- a header in two segments ---- */

/* A header that cannot be pulled up does not count as short. */
RIG_TEST(eth_drops_without_a_buffer, rig_new("eth"))
{
	REQUIRE(rig_open(r, rig_to(UINT64_C(0x0200000000aa))) != NULL);
	inject_without_buffers(r, "020000000001 02 | 00000000aa 3000 c3");
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	CHECK_EQ(rig_drop_count(r), 1);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(arp_drops_without_a_buffer, rig_new("arp"))
{
	inject_without_buffers(r, "0001 0800 06 04 0001 0200000000aa | 0a4d0002 000000000000 0a4d0001");
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	CHECK_EQ(rig_drop_count(r), 1);
}

RIG_TEST(stopwait_drops_without_a_buffer, rig_new("stopwait"))
{
	struct xk_participants anybody = { .remote.depth = 0 };

	xk_participant_push(&anybody.local, 7);
	CHECK_EQ(rig_open_enable(r, anybody), 0);
	inject_without_buffers(r, "2345 0007 001e 0000 0001 0000 | 0000 0000000000000001 0000000000000000");
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	CHECK_EQ(rig_drop_count(r), 1);
}

struct kept {
	struct rig *r;
	struct xk_session *s;
	int status;
};

/* A message that shares another's bytes has no headroom: its header needs a buffer of its own. */
static void
push_and_keep(void *argument)
{
	struct kept *kept = argument;
	struct xk_msg *m = xk_msg_from(rig_platform(kept->r), "\0\1", 2), *other = xk_msg_reference(m);

	REQUIRE(m != NULL && other != NULL);
	rig_limit_buffers(kept->r, 0);
	kept->status = xk_push(kept->s, other);
	rig_limit_buffers(kept->r, UINT_MAX);
	xk_msg_free(m);
}

RIG_TEST(icmp_drops_without_a_buffer, rig_new_prepared("wire:; ip: wire; icmp: ip; user: icmp", prepare))
{
	struct kept kept = { .r = r, .s = rig_open(r, rig_to(PEER)) };

	REQUIRE(kept.s != NULL);
	CHECK(rig_do(r, push_and_keep, &kept));
	CHECK_EQ(kept.status, -ENOBUFS);
	CHECK_EQ(rig_counter_of(r, "icmp", "no_buffer"), 1);
	CHECK_EQ(rig_drop_count(r), 1);
	rig_expect_nothing_sent(r);
}

static void
set_host(struct rig *r)
{
	uint64_t host = 0x0a4d0001;

	rig_answer_control(r, XK_GET_MY_HOST, &host, sizeof(host));
}

/* An unreadable message must not count as corrupt: no protocol below has failed. */
RIG_TEST(traffic_drops_without_a_buffer, rig_new_prepared("wire:; traffic: wire", set_host))
{
	inject_without_buffers(
		r, "78747266 00000028 0000000000000001 0a4d0002 | 0a4d0001 00000000 00000000 0000000000000000");
	rig_expect_counts(r, "no_buffer=1 corrupt=0");
	CHECK_EQ(rig_drop_count(r), 1);
}

/* ---- late messages ---- */

static void
finished(void *argument, const struct xk_udptest_result *result)
{
	*(bool *)argument = true;
}

static void
close_client(void *argument)
{
	CHECK_EQ(xk_udptest_close(argument), 0);
}

static void
hold(void *argument)
{
	CHECK(xk_duplicate(argument));
}

static void
let_go(void *argument)
{
	xk_close(argument);
}

/* The client has closed its session, which still exists: an echo that arrives now is dropped. */
TEST(udptest_drops_echoes_to_a_closed_client)
{
	struct rig *r =
		rig_new_graph("wire:; udptest: wire; udptest.serve=no; udptest.timeout=1ms; udptest.silence=2ms");
	struct xk_protocol *udptest = rig_protocol(r, "udptest");
	bool has_finished = false;
	struct xk_udptest_run run = {
		.host = 0x0a4d0002, .size = 4, .rounds = 1, .finished = finished, .argument = &has_finished
	};
	struct xk_session *below;

	CHECK_EQ(xk_udptest_start(udptest, &run), 0);
	rig_advance_ms(r, 10);
	rig_forget(r);
	below = rig_wire_newest_session(r);
	REQUIRE(has_finished && below != NULL);
	rig_do(r, hold, below);
	rig_do(r, close_client, udptest);
	rig_inject_on(r, below, "01020304");
	rig_expect_counts(r, "udptest.no_session=1 udptest.messages=1");
	rig_expect_nothing_sent(r);
	rig_do(r, let_go, below);
	rig_free(r);
}

/* ---- faults reported by hosts ---- */

static void
ignore_event(void *argument, const struct xk_icmptest_event *event)
{
	(void)argument;
	(void)event;
}

static void
count_ends(void *argument, const struct xk_icmptest_result *result)
{
	++*(unsigned *)argument;
}

static void
report_each_fault(void *argument)
{
	static const uint8_t first[] = { 0, 0 }; /* its sequence number */

	for (enum xk_fault fault = 0; fault < XK_FAULTS; fault++) {
		struct xk_fault_report report = { .fault = fault, .begin = first, .len = sizeof(first) };

		CHECK_EQ(xk_fault_notify(rig_wire_newest_session(argument), &report), 0);
	}
}

RIG_TEST(icmptest_counts_each_fault_that_hosts_report, rig_new_graph("wire:; icmptest: wire"))
{
	const uint32_t longest = 1500;
	unsigned ends = 0;
	struct xk_icmptest_run run = { .host = 0x0a4d0002,
				       .size = 8,
				       .count = 1,
				       .interval_ns = 1000000,
				       .timeout_ns = 100000000,
				       .happened = ignore_event,
				       .finished = count_ends,
				       .argument = &ends };

	rig_answer_control(r, XK_GET_MAX_PACKET, &longest, sizeof(longest));
	CHECK_EQ(xk_icmptest_start(rig_protocol(r, "icmptest"), &run), 0);
	rig_advance_ms(r, 1);
	CHECK(rig_do(r, report_each_fault, r));
	for (enum xk_fault fault = 0; fault < XK_FAULTS; fault++) {
		char name[32];

		snprintf(name, sizeof(name), "fault_%s", xk_fault_name(fault));
		CHECK_EQ(rig_counter(r, name), 1);
	}
	rig_advance_ms(r, 1000);
	CHECK_EQ(ends, 1);
	rig_forget(r);
}

/* ---- misused protocols ---- */

struct carelessness {
	struct rig *r;
	struct xk_session *s;
	int status;
};

static void
call(void *argument)
{
	struct carelessness *c = argument;
	struct xk_msg *reply = NULL;

	c->status = xk_call(c->s, xk_msg_from(rig_platform(c->r), "x", 1), &reply);
	CHECK(reply == NULL);
}

static void
call_pop(void *argument)
{
	struct carelessness *c = argument;
	struct xk_msg *reply = NULL;

	c->status = xk_call_pop(c->s, c->s->lls, xk_msg_from(rig_platform(c->r), "x", 1), NULL, &reply);
	CHECK(reply == NULL);
}

/*
 * The graph checker refuses an RPC protocol above it; a program that calls all the same gets an error and a counted
 * drop.
 */
RIG_TEST(call_of_a_protocol_without_calls_is_dropped, rig_new("eth"))
{
	struct carelessness c = { .r = r, .s = rig_open(r, rig_to(UINT64_C(0x0200000000aa))) };

	REQUIRE(c.s != NULL);
	CHECK(rig_do(r, call, &c));
	CHECK_EQ(c.status, -EOPNOTSUPP);
	CHECK_EQ(rig_counter(r, "unexpected"), 1);
	CHECK(rig_do(r, call_pop, &c));
	CHECK_EQ(c.status, -EOPNOTSUPP);
	CHECK_EQ(rig_counter(r, "unexpected"), 2);
	CHECK_EQ(rig_drop_count(r), 2);
	rig_expect_nothing_sent(r);
}
