/* test_traffic.c - messages that traffic sends, their destinations and times. */

#include "tests/protocols/traffic_rig.h"
#include "xkernel/support/fault.h"

/* Takes the next frame sent, which must be a message. Returns its size; 0: none. */
static size_t
take(struct rig *r, struct traffic_header *h)
{
	uint8_t bytes[LEN];
	struct xk_msg *m;
	long len;

	memset(h, 0, sizeof(*h));
	if (rig_sent(r) == 0)
		return 0;
	len = rig_take_sent(r, bytes, sizeof(bytes));
	REQUIRE(len > 0 && len <= LEN);
	m = xk_msg_from(rig_platform(r), bytes, (size_t)len);
	CHECK(len >= XK_TRAFFIC_SIZE_MIN && traffic_message_parse(h, m, bytes));
	xk_msg_free(m);
	return (size_t)len;
}

/* Advances the clock `times` times, so that sessions being opened make progress in between. */
static void
advance(struct rig *r, unsigned times, uint64_t ms)
{
	for (unsigned i = 0; i < times; i++)
		rig_advance_ms(r, ms);
}

TRAFFIC_TEST(traffic_sends_in_turn_at_its_rate,
	     traffic_new("traffic.peers=10.77.0.2 10.77.0.3; traffic.rate=10; traffic.start=1s"))
{
	struct traffic_header h;

	advance(r, 100, 10);
	rig_expect_nothing_sent(r);
	advance(r, 101, 10);
	CHECK(rig_sent(r) >= 9 && rig_sent(r) <= 11); /* some are not sent while sessions are being opened */
	for (unsigned i = 0; take(r, &h) != 0; i++) {
		CHECK_EQ(h.source, HERE);
		CHECK_EQ(h.destination, i % 2 == 0 ? THERE : THERE + 1);
		CHECK_EQ(h.position, i / 2);
		CHECK_EQ(h.stream, 0);
		CHECK(h.incarnation == own(r)->incarnation);
	}
	CHECK_EQ(counter(r, "opened"), 2);
}

/* Counts, of 2000 milliseconds, those in which 0, 1, 2 or more messages were sent, at one message per millisecond. */
static void
count_in_each(const char *settings, unsigned count[4])
{
	struct rig *r = traffic_new(settings);

	advance(r, 100, 1);
	rig_forget(r);
	memset(count, 0, 4 * sizeof(*count));
	for (unsigned i = 0; i < 2000; i++) {
		advance(r, 1, 1);
		count[rig_sent(r) < 3 ? rig_sent(r) : 3]++;
		rig_forget(r);
	}
	end(r);
}

/* As often as Poisson's law predicts: 0.368, 0.368, 0.184 and 0.080 of all, within six standard deviations. */
TEST(traffic_sends_at_random_times)
{
	unsigned count[4];

	count_in_each("traffic.peers=10.77.0.2; traffic.rate=1000; traffic.spacing=random", count);
	CHECK(count[0] > 606 && count[0] < 866);
	CHECK(count[1] > 606 && count[1] < 866);
	CHECK(count[2] > 264 && count[2] < 472);
	CHECK(count[3] > 87 && count[3] < 233);
	count_in_each("traffic.peers=10.77.0.2; traffic.rate=1000", count);
	CHECK(count[1] > 1990);
}

TRAFFIC_TEST(traffic_sends_to_random_peers,
	     traffic_new("traffic.peers=10.77.0.1-10.77.0.4; traffic.rate=1000; traffic.pattern=random"))
{
	unsigned to[4] = { 0 };
	struct traffic_header h;

	advance(r, 100, 10);
	while (take(r, &h) != 0) {
		REQUIRE(h.destination >= HERE && h.destination < HERE + 4);
		CHECK_EQ(h.position, to[h.destination - HERE]++);
	}
	CHECK_EQ(to[0], 0); /* itself */
	CHECK(to[1] > 200 && to[2] > 200 && to[3] > 200);
}

TEST(traffic_chooses_the_set_number_of_peers)
{
	unsigned chosen[100] = { 0 };

	for (unsigned i = 0; i < 50; i++) {
		struct rig *r = traffic_new("traffic.peers=10.77.0.1-10.77.0.100; traffic.fanout=8");
		struct traffic *t = own(r);

		REQUIRE(t->peer_count == 8);
		for (unsigned a = 0; a < 8; a++) {
			CHECK(t->peers[a].host > HERE && t->peers[a].host < HERE + 100);
			chosen[t->peers[a].host - HERE]++;
			for (unsigned b = 0; b < a; b++)
				CHECK(t->peers[a].host != t->peers[b].host);
		}
		end(r);
	}
	for (unsigned first = 0, some = 0; first < 100; first += 25, some = 0) {
		for (unsigned i = 0; i < 25; i++)
			some += chosen[first + i];
		CHECK(some > 50 && some < 150); /* of 400 in four quarters */
	}
}

TEST(traffic_reads_its_list_of_peers)
{
	struct rig *r = traffic_new("traffic.peers=10.77.0.9, 10.77.0.1,10.77.0.3-10.77.0.4; traffic.fanout=50");

	REQUIRE(own(r)->peer_count == 3);
	CHECK_EQ(own(r)->peers[0].host, HERE + 8);
	CHECK_EQ(own(r)->peers[1].host, HERE + 2);
	CHECK_EQ(own(r)->peers[2].host, HERE + 3);
	end(r);
	CHECK_EQ(rig_refusal("wire:; traffic: wire; traffic.peers=nobody"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; traffic: wire; traffic.peers=10.77.0.4-10.77.0.3"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; traffic: wire; traffic.peers=10.77.0.4-"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; traffic: wire; traffic.peers=10.0.0.0-10.255.255.255"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; traffic: wire; traffic.peers=0.0.0.0-255.255.255.255"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; traffic: wire; traffic.promise=much"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; traffic: wire; traffic.pattern=wild"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; traffic: wire; traffic.spacing=wild"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; traffic: wire; traffic.size_min=100; traffic.size_max=99"), -EINVAL);
}

TRAFFIC_TEST(traffic_on_two_links_sends_from_each_links_address,
	     rig_new_prepared("wire:; traffic: wire; traffic.peers=10.77.0.1 10.78.0.1-10.78.0.2; traffic.rate=100",
			      set_hosts))
{
	struct traffic_header h;

	CHECK_EQ(own(r)->peer_count, 1); /* none to its own */
	set_second_link(r);
	advance(r, 10, 10);
	REQUIRE(take(r, &h) != 0);
	CHECK_EQ(h.source, HERE_TOO);
	CHECK_EQ(h.destination, HERE_TOO + 1);
}

TRAFFIC_TEST(traffic_ends_after_its_count, traffic_new("traffic.peers=10.77.0.2; traffic.rate=100; traffic.count=7"))
{
	struct xk_traffic_report report;
	struct xk_traffic_peer peer;

	xk_traffic_report(rig_protocol(r, "traffic"), &report);
	CHECK(!report.finished);
	advance(r, 100, 10);
	CHECK_EQ(rig_sent(r), 7);
	xk_traffic_report(rig_protocol(r, "traffic"), &report);
	CHECK(report.finished);
	CHECK_EQ(report.sent, 7);
	CHECK_EQ(report.host, HERE);
	CHECK_EQ(report.peers, 1);
	CHECK_EQ(xk_traffic_peers(rig_protocol(r, "traffic"), &peer, 1), 1);
	CHECK_EQ(peer.host, THERE);
	CHECK_EQ(peer.accepted, 7);
	CHECK_EQ(peer.position, 7);
	CHECK(peer.open);
}

TRAFFIC_TEST(traffic_ends_after_its_duration,
	     traffic_new("traffic.peers=10.77.0.2; traffic.rate=100; traffic.start=1s; traffic.stop=2s"))
{
	struct xk_traffic_report report;

	advance(r, 500, 10);
	CHECK(rig_sent(r) > 90 && rig_sent(r) <= 100);
	xk_traffic_report(rig_protocol(r, "traffic"), &report);
	CHECK(report.finished);
}

TRAFFIC_TEST(traffic_without_peers_sends_nothing, traffic_new("traffic.peers=10.77.0.1"))
{
	struct xk_traffic_report report;

	rig_expect_silence_ms(r, 10000);
	CHECK_EQ(rig_wire_enable_count(r), 1);
	xk_traffic_report(rig_protocol(r, "traffic"), &report);
	CHECK(report.finished);
}

TRAFFIC_TEST(traffic_draws_sizes_that_can_be_sent,
	     traffic_new("traffic.peers=10.77.0.2; traffic.rate=1000; traffic.size_min=40; "
			 "traffic.size_max=3000"))
{
	size_t least = LEN, most = 0, size;
	struct traffic_header h;

	advance(r, 50, 10);
	while ((size = take(r, &h)) != 0) {
		least = size < least ? size : least;
		most = size > most ? size : most;
	}
	CHECK(least < 100);
	CHECK_EQ(most, 1500);
}

TRAFFIC_TEST(traffic_makes_messages_of_several_segments,
	     traffic_new("traffic.peers=10.77.0.2; traffic.rate=1000; traffic.size_min=4001; "
			 "traffic.size_max=4001"))
{
	struct traffic_header h;
	uint32_t max = 60000;

	rig_answer_control(r, XK_GET_MAX_PACKET, &max, sizeof(max));
	rig_advance_ms(r, 10);
	rig_advance_ms(r, 10);
	CHECK_EQ(take(r, &h), 4001);
}

TRAFFIC_TEST(traffic_counts_refused_messages_without_numbering_them,
	     traffic_new("traffic.peers=10.77.0.2; traffic.rate=100"))
{
	struct traffic_header h;
	long before;

	advance(r, 5, 10);
	rig_forget(r);
	before = counter(r, "sent");
	rig_fail_sending(r, -ENOBUFS);
	advance(r, 10, 10);
	CHECK_EQ(counter(r, "unsent"), 10);
	CHECK_EQ(counter(r, "sent"), before);
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 10);
	CHECK(take(r, &h) != 0);
	CHECK_EQ(h.position, before);
}

TRAFFIC_TEST(traffic_sends_until_it_is_refused,
	     traffic_new("traffic.peers=10.77.0.2; traffic.rate=0; traffic.count=1000"))
{
	rig_fail_sending(r, -ENOBUFS);
	advance(r, 20, 1);
	CHECK(counter(r, "unsent") >= 15 && counter(r, "unsent") <= 21);
	CHECK_EQ(counter(r, "sent"), 0);
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 2);
	CHECK_EQ(counter(r, "sent"), 1000);
}

TRAFFIC_TEST(traffic_retries_failed_opens, traffic_new("traffic.peers=10.77.0.2; traffic.rate=100"))
{
	rig_wire_refuse(r, -EHOSTUNREACH);
	advance(r, 30, 10);
	CHECK_EQ(counter(r, "opened"), 0);
	CHECK(counter(r, "unopened") > 20);
	rig_wire_refuse(r, 0);
	advance(r, 30, 10);
	CHECK_EQ(counter(r, "opened"), 1);
	CHECK(rig_sent(r) > 10);
}

static void
do_close_done(void *argument)
{
	xk_close_done(argument);
}

TRAFFIC_TEST(traffic_begins_a_new_stream_on_a_new_session,
	     traffic_new("traffic.peers=10.77.0.2; traffic.rate=100; traffic.local=99"))
{
	struct traffic_header h;

	advance(r, 5, 10);
	CHECK_EQ(rig_wire_local(r), 99);
	rig_forget(r);
	rig_do(r, do_close_done, rig_wire_newest_session(r));
	rig_advance_ms(r, 10);
	CHECK_EQ(rig_wire_session_count(r), 0);
	advance(r, 20, 10);
	CHECK_EQ(counter(r, "closed"), 1);
	CHECK_EQ(counter(r, "opened"), 2);
	CHECK(take(r, &h) != 0);
	CHECK_EQ(h.stream, 1);
	CHECK_EQ(h.position, 0);
	CHECK(take(r, &h) != 0);
	CHECK_EQ(h.position, 1);
}

static void
do_tell(void *argument)
{
	struct xk_fault_report report = { .fault = XK_FAULT_PORT, .from = THERE };

	CHECK_EQ(xk_fault_notify(argument, &report), 0);
}

TRAFFIC_TEST(traffic_continues_after_a_port_unreachable, traffic_new("traffic.peers=10.77.0.2; traffic.rate=100"))
{
	struct traffic_header h;

	advance(r, 5, 10);
	rig_do(r, do_tell, rig_wire_newest_session(r));
	CHECK_EQ(counter(r, "reports"), 1);
	rig_forget(r);
	advance(r, 3, 10);
	CHECK(take(r, &h) != 0);
	CHECK_EQ(h.stream, 0);
	CHECK_EQ(counter(r, "closed"), 0);
}
