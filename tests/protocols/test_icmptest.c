/*
 * test_icmptest.c - pings: on a fake wire, the reports of replies that are right, duplicate, late, wrong or missing;
 * and between two hosts under threads.
 */
#include <errno.h>
#include <sched.h>

#include "protocols/test/icmptest.h"
#include "tests/protocols/pair.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { HOST = 0x0a4d0002, ROUTER = 0x0a4d0001, LONGEST = XK_ICMPTEST_MAX + 2, MS = 1000000 };

/* Results of the callbacks. */
struct results {
	unsigned happened[XK_ICMPTEST_UNSENT + 1];
	struct xk_icmptest_event last;
	struct xk_icmptest_result result;
	_Atomic unsigned finished;
};

/* Results of the latest run. */
static struct results results;

static void
on_happened(void *argument, const struct xk_icmptest_event *event)
{
	struct results *t = argument;

	CHECK_EQ(t->finished, 0);
	t->happened[event->kind]++;
	t->last = *event;
}

static void
on_finished(void *argument, const struct xk_icmptest_result *result)
{
	struct results *t = argument;

	t->result = *result;
	atomic_fetch_add(&t->finished, 1);
}

static struct xk_icmptest_run
run_of(struct results *t, uint32_t size, uint64_t count)
{
	memset(t, 0, sizeof(*t));
	return (struct xk_icmptest_run){ .host = HOST,
					 .size = size,
					 .count = count,
					 .interval_ns = 100 * MS,
					 .timeout_ns = 250 * MS,
					 .happened = on_happened,
					 .finished = on_finished,
					 .argument = t };
}

static struct rig *
icmptest_rig(void)
{
	static const uint32_t longest = LONGEST;
	struct rig *r = rig_new_graph("wire:; icmptest: wire");

	rig_answer_control(r, XK_GET_MAX_PACKET, &longest, sizeof(longest));
	return r;
}

static int
start(struct rig *r, const struct xk_icmptest_run *run)
{
	int status = xk_icmptest_start(rig_protocol(r, "icmptest"), run);

	rig_advance_ms(r, 1); /* the first request is sent as soon as time advances */
	return status;
}

/* Returns a rig in which a run of run_of has begun. */
static struct rig *
icmptest_begun(struct results *t, uint32_t size, uint64_t count)
{
	struct rig *r = icmptest_rig();
	struct xk_icmptest_run run = run_of(t, size, count);

	CHECK_EQ(start(r, &run), 0);
	return r;
}

/* Takes the request sent last. Returns its length. */
static size_t
take(struct rig *r, uint8_t *bytes)
{
	long len = rig_take_sent(r, bytes, LONGEST);

	REQUIRE(len >= 2);
	return (size_t)len;
}

/* Takes the request sent last and returns it as a reply. */
static void
reply(struct rig *r)
{
	static uint8_t bytes[LONGEST];
	size_t len = take(r, bytes);

	rig_inject_bytes(r, bytes, len);
}

/* ---- runs ---- */

RIG_TEST(icmptest_sends_at_its_interval_and_reports_each_reply, icmptest_begun(&results, 56, 3))
{
	CHECK_EQ(rig_wire_remote(r), HOST);
	for (unsigned i = 0; i < 3; i++) {
		rig_advance_ms(r, 7);
		CHECK_EQ(rig_sent(r), 1);
		reply(r);
		CHECK_EQ(results.last.kind, XK_ICMPTEST_REPLY);
		CHECK_EQ(results.last.sequence, i);
		CHECK_EQ(results.last.size, 56);
		CHECK(results.last.rtt_ns >= 7 * MS && results.last.rtt_ns <= 9 * MS);
		rig_expect_nothing_sent(r);
		rig_advance_ms(r, 93);
	}
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.error, 0);
	CHECK_EQ(results.result.sent, 3);
	CHECK_EQ(results.result.received, 3);
	CHECK(results.result.rtt_min_ns >= 7 * MS && results.result.rtt_min_ns <= results.result.rtt_mean_ns);
	CHECK(results.result.rtt_max_ns <= 9 * MS && results.result.rtt_max_ns >= results.result.rtt_mean_ns);
	rig_expect_counts(r, "sent=3 received=3");
	CHECK_EQ(rig_wire_session_count(r), 0);
}

RIG_TEST(icmptest_ends_with_the_last_reply, icmptest_begun(&results, 0, 1))
{
	struct xk_icmptest_run run;

	CHECK_EQ(results.finished, 0);
	reply(r);
	CHECK_EQ(results.finished, 1);
	run = run_of(&results, 0, 1);
	CHECK_EQ(start(r, &run), 0); /* and a second run */
	reply(r);
	CHECK_EQ(results.finished, 1);
}

RIG_TEST(icmptest_carries_the_longest_request, icmptest_begun(&results, XK_ICMPTEST_MAX, 2))
{
	reply(r);
	rig_advance_ms(r, 100);
	reply(r);
	CHECK_EQ(results.happened[XK_ICMPTEST_REPLY], 2);
}

RIG_TEST(icmptest_counts_losses, icmptest_begun(&results, 8, 3))
{
	rig_advance_ms(r, 50);
	rig_forget(r);
	rig_advance_ms(r, 60);
	reply(r); /* the second */
	rig_advance_ms(r, 130);
	CHECK_EQ(results.happened[XK_ICMPTEST_LOST], 0);
	rig_advance_ms(r, 20);
	CHECK_EQ(results.happened[XK_ICMPTEST_LOST], 1);
	CHECK_EQ(results.last.sequence, 0);
	rig_advance_ms(r, 300);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.lost, 2);
	CHECK_EQ(results.result.received, 1);
	CHECK_EQ(rig_counter(r, "lost"), 2);
	rig_forget(r);
}

RIG_TEST(icmptest_detects_duplicate_and_late_replies, icmptest_begun(&results, 8, 10))
{
	uint8_t first[LONGEST], second[LONGEST];
	size_t len = take(r, first);

	rig_inject_bytes(r, first, len);
	rig_inject_bytes(r, first, len);
	rig_inject_bytes(r, first, len);
	CHECK_EQ(results.happened[XK_ICMPTEST_DUPLICATE], 2);
	CHECK_EQ(rig_counter(r, "duplicate"), 2);
	rig_advance_ms(r, 100);
	take(r, second);
	rig_advance_ms(r, 260);
	CHECK_EQ(results.result.received, 0);
	rig_inject_bytes(r, second, len);
	CHECK_EQ(results.happened[XK_ICMPTEST_LATE], 1);
	CHECK_EQ(rig_counter(r, "late"), 1);
	rig_inject_bytes(r, second, len);
	CHECK_EQ(results.happened[XK_ICMPTEST_DUPLICATE], 3);
	xk_icmptest_stop(rig_protocol(r, "icmptest"));
	rig_forget(r);
	rig_advance_ms(r, 1000);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.sent, results.result.received + results.result.lost);
	CHECK_EQ(results.result.late, 1);
	CHECK_EQ(results.result.duplicates, 3);
	rig_forget(r);
}

RIG_TEST(icmptest_checks_every_byte, icmptest_begun(&results, 300, 1))
{
	uint8_t bytes[LONGEST];
	size_t len = take(r, bytes);

	for (size_t i = 2; i < len; i++) {
		bytes[i] ^= 0x10;
		rig_inject_bytes(r, bytes, len);
		bytes[i] ^= 0x10;
	}
	rig_inject_bytes(r, bytes, len - 1);
	bytes[len] = 0;
	rig_inject_bytes(r, bytes, len + 1);
	CHECK_EQ(results.happened[XK_ICMPTEST_CORRUPT], 302);
	CHECK_EQ(rig_counter(r, "corrupt"), 302);
	rig_inject_bytes(r, bytes, len);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.corrupt, 302);
}

RIG_TEST(icmptest_requests_differ_by_offset_sequence_and_pattern, icmptest_begun(&results, 3000, 0))
{
	struct xk_icmptest_run run;
	uint8_t a[LONGEST], b[LONGEST];

	take(r, a);
	rig_advance_ms(r, 100);
	take(r, b);
	CHECK(memcmp(a + 2, b + 2, 3000) != 0);
	CHECK(memcmp(a + 2, a + 2 + 1480, 1480) != 0); /* two fragments */
	xk_icmptest_stop(rig_protocol(r, "icmptest"));
	rig_advance_ms(r, 1000);
	run = run_of(&results, 3000, 0);
	run.pattern = 9;
	CHECK_EQ(start(r, &run), 0);
	take(r, b);
	CHECK(memcmp(a + 2, b + 2, 3000) != 0);
	CHECK_EQ(xk_get16(b), 0);
	xk_icmptest_stop(rig_protocol(r, "icmptest"));
	rig_advance_ms(r, 1000);
}

RIG_TEST(icmptest_drops_unsolicited_replies, icmptest_begun(&results, 8, 2))
{
	rig_forget(r);
	rig_inject(r, "0001 0000000000000000"); /* not sent yet */
	rig_inject(r, "ffff 0000000000000000");
	CHECK_EQ(rig_counter(r, "unasked"), 2);
	rig_inject(r, "00");
	CHECK_EQ(rig_counter(r, "short"), 1);
	CHECK_EQ(results.last.kind, XK_ICMPTEST_REPLY); /* still zero: nothing was reported */
	CHECK_EQ(results.happened[XK_ICMPTEST_REPLY], 0);
	rig_advance_ms(r, 1000);
	rig_forget(r);
}

RIG_TEST(icmptest_continues_past_16_bits_of_sequence, icmptest_rig())
{
	struct xk_icmptest_run run = run_of(&results, 0, 70000);

	run.interval_ns = 1000000;
	CHECK_EQ(start(r, &run), 0);
	while (results.finished == 0) {
		if (rig_sent(r) > 0)
			reply(r);
		else
			rig_advance_ms(r, 50);
	}
	CHECK_EQ(results.result.received, 70000);
	CHECK_EQ(results.last.sequence, 69999);
}

RIG_TEST(icmptest_counts_failed_sends_as_lost, icmptest_rig())
{
	struct xk_icmptest_run run = run_of(&results, 8, 2);

	rig_fail_sending(r, -ENOBUFS);
	start(r, &run);
	CHECK_EQ(results.happened[XK_ICMPTEST_UNSENT], 1);
	rig_fail_sending(r, 0);
	rig_limit_buffers(r, 0);
	rig_advance_ms(r, 100);
	rig_limit_buffers(r, UINT32_MAX);
	CHECK_EQ(rig_counter(r, "unsent"), 2);
	rig_advance_ms(r, 1000);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.lost, 2);
	CHECK_EQ(results.result.unsent, 2);
}

RIG_TEST(icmptest_waits_for_a_host_that_is_not_up_yet, icmptest_rig())
{
	struct xk_icmptest_run run = run_of(&results, 8, 3);

	rig_wire_refuse(r, -EHOSTUNREACH);
	start(r, &run);
	rig_advance_ms(r, 100);
	CHECK_EQ(results.happened[XK_ICMPTEST_UNSENT], 2);
	rig_wire_refuse(r, 0);
	rig_advance_ms(r, 100);
	reply(r);
	rig_advance_ms(r, 1000);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.received, 1);
	CHECK_EQ(results.result.lost, 2);
}

RIG_TEST(icmptest_gives_up_a_run_that_cannot_start, icmptest_rig())
{
	struct xk_icmptest_run run = run_of(&results, 8, 3);
	uint32_t small = 9;

	rig_wire_refuse(r, -ENETUNREACH);
	CHECK_EQ(start(r, &run), 0);
	CHECK_EQ(results.finished, 1);
	CHECK_EQ(results.result.error, -ENETUNREACH);
	rig_wire_refuse(r, 0);
	rig_answer_control(r, XK_GET_MAX_PACKET, &small, sizeof(small));
	CHECK_EQ(start(r, &run), 0);
	CHECK_EQ(results.finished, 2);
	CHECK_EQ(results.result.error, -EMSGSIZE);
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_expect_nothing_sent(r);
}

RIG_TEST(icmptest_refuses_impossible_runs, icmptest_rig())
{
	struct xk_icmptest_run run = run_of(&results, XK_ICMPTEST_MAX + 1, 3);

	CHECK_EQ(start(r, &run), -EINVAL);
	run.size = 8;
	run.interval_ns = 999;
	CHECK_EQ(start(r, &run), -EINVAL);
	run.interval_ns = 1000;
	run.timeout_ns = 1000 * XK_ICMPTEST_WINDOW;
	CHECK_EQ(start(r, &run), -EINVAL);
	run.timeout_ns = 999;
	CHECK_EQ(start(r, &run), -EINVAL);
	run = run_of(&results, 8, 3);
	CHECK_EQ(start(r, &run), 0);
	CHECK_EQ(start(r, &run), -EBUSY);
	run.finished = NULL;
	CHECK_EQ(start(r, &run), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; icmptest: wire; icmptest.to=10.77.0.2; icmptest.timeout=5s;"
			     "icmptest.interval=1ms"),
		 -EINVAL);
	rig_forget(r);
	rig_advance_ms(r, 2000);
	rig_forget(r);
}

static void
report_fault(void *argument)
{
	struct rig *r = argument;
	static const uint8_t begin[] = { 0, 0, 1 };
	struct xk_fault_report report = { XK_FAULT_TOO_BIG, 576, ROUTER, NULL, begin, sizeof(begin), NULL };

	CHECK_EQ(xk_fault_notify(rig_wire_newest_session(r), &report), 0);
	report.len = 1;
	CHECK_EQ(xk_fault_notify(rig_wire_newest_session(r), &report), -ENOENT);
	report.len = 3;
	report.begin = begin + 1; /* a request that was not sent */
	CHECK_EQ(xk_fault_notify(rig_wire_newest_session(r), &report), -ENOENT);
}

RIG_TEST(icmptest_reports_errors_about_a_request, icmptest_begun(&results, 8, 1))
{
	rig_forget(r);
	rig_do(r, report_fault, r);
	CHECK_EQ(results.happened[XK_ICMPTEST_FAULT], 1);
	CHECK_EQ(results.last.fault, XK_FAULT_TOO_BIG);
	CHECK_EQ(results.last.from, ROUTER);
	CHECK_EQ(results.last.mtu, 576);
	CHECK_EQ(rig_counter(r, "fault_too_big"), 1);
	rig_advance_ms(r, 1000);
	CHECK_EQ(results.result.faults[XK_FAULT_TOO_BIG], 1);
	CHECK_EQ(results.result.lost, 1);
}

TEST(icmptest_starts_by_itself_if_a_host_is_set)
{
	struct rig *r =
		rig_new_graph("wire:; icmptest: wire; icmptest.to=10.77.0.2; icmptest.count=2; icmptest.start=50ms;"
			      "icmptest.interval=10ms; icmptest.size=5; icmptest.pattern=3");

	rig_advance_ms(r, 0);
	rig_expect_silence_ms(r, 49);
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_wire_remote(r), HOST);
	rig_advance_ms(r, 4);
	reply(r);
	rig_advance_ms(r, 10);
	reply(r);
	CHECK_EQ(rig_counter(r, "received"), 2);
	CHECK(rig_counter(r, "rtt_min_ns") > 0);
	CHECK(rig_counter(r, "rtt_max_ns") >= rig_counter(r, "rtt_mean_ns"));
	CHECK(rig_counter(r, "rtt_mean_ns") >= rig_counter(r, "rtt_min_ns"));
	rig_free(r);
}

/* ---- two hosts, under threads ---- */

#define PAIR                                                                                                           \
	"digraph pair { icmptest -> icmp -> ip -> vnet -> eth -> port; vnet -> arp -> eth;"                            \
	"vnet [address=\"10.77.0.%u/24\"] }"

static bool
both_have_finished(void *context)
{
	const struct results *t = context;

	return t[0].finished != 0 && t[1].finished != 0;
}

/* Lets two hosts ping each other at once. */
static void
ping_each_other(enum xk_mode mode, uint32_t size)
{
	struct pair pair;
	struct results both[2];
	char text[300];

	pair_begin(&pair, mode);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), PAIR, 1 + i);
		compose(pair.kernels[i], NULL, text);
	}
	pair_start(&pair);
	for (unsigned i = 0; i < 2; i++) {
		struct xk_icmptest_run run = run_of(&both[i], size, 200);

		run.host = 0x0a4d0002 - i;
		run.interval_ns = 200000;
		run.timeout_ns = 800000000;
		CHECK_EQ(xk_icmptest_start(xk_kernel_find(pair.kernels[i], "icmptest"), &run), 0);
	}
	pair_wait(both_have_finished, both);
	pair_stop(&pair);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(both[i].finished, 1);
		CHECK_EQ(both[i].result.error, 0);
		CHECK_EQ(both[i].result.sent, 200);
		CHECK_EQ(both[i].result.corrupt, 0);
		CHECK(both[i].result.received > 0);
	}
	pair_end(&pair);
}

TEST(hosts_ping_each_other_in_regular_mode)
{
	ping_each_other(XK_REGULAR, 56);
	ping_each_other(XK_REGULAR, 5000);
}

TEST(hosts_ping_each_other_in_ipp_mode)
{
	ping_each_other(XK_IPP, 56);
	ping_each_other(XK_IPP, 5000);
}

static bool
one_has_finished(void *context)
{
	const struct results *t = context;

	return t->finished != 0;
}

/* An event scheduled by a stop may fire after the run, while the next one starts. */
TEST_IN(icmptest_starts_again_right_after_a_stop, struct pair, pair, pair_begin(pair, XK_REGULAR), pair_end)
{
	char text[300];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), PAIR, 1 + i);
		compose(pair->kernels[i], NULL, text);
	}
	pair_start(pair);
	for (unsigned i = 0; i < (test_is_long() ? 500 : 100); i++) {
		struct xk_protocol *icmptest = xk_kernel_find(pair->kernels[0], "icmptest");
		struct xk_icmptest_run run = run_of(&results, 8, 0);

		run.interval_ns = 1000;
		run.timeout_ns = 200000;
		run.happened = NULL;
		CHECK_EQ(xk_icmptest_start(icmptest, &run), 0);
		for (unsigned tries = 0; !one_has_finished(&results) && tries < 100000000; tries++) {
			xk_icmptest_stop(icmptest);
			sched_yield();
		}
		CHECK_EQ(results.finished, 1);
	}
	pair_stop(pair);
}
