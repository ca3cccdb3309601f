/*
 * test_traffic.c - what traffic sends, what it finds wrong with what comes, and two hosts of threads that send to each other
 * through whole graphs. Its private header is for the messages that it makes.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "graphs/graph.h"
#include "platform/sim/memory.h"
#include "protocols/traffic_private.h"
#include "tests/rig.h"
#include "xkernel/kernel.h"

enum { HERE = 0x0a4d0001, THERE = 0x0a4d0002, HERE_TOO = 0x0a4e0001, LEN = 4096, BOOT = 0x77 };

static void
set_host(struct rig *r)
{
	uint64_t host = HERE;

	rig_answer(r, XK_GET_MY_HOST, &host, sizeof(host));
}

/* Of a host on two links. */
static void
set_hosts(struct rig *r)
{
	struct xk_vnet_interface interfaces[] = { { .host = HERE }, { .host = HERE_TOO, .index = 1 } };

	set_host(r);
	rig_answer(r, XK_VNET_GET_INTERFACES, interfaces, sizeof(interfaces));
}

/* Its sessions are on the second link from now on. */
static void
set_second_link(struct rig *r)
{
	uint64_t host = HERE_TOO;

	rig_answer(r, XK_GET_MY_HOST, &host, sizeof(host));
}

/* traffic on a wire; settings are statements. */
static struct rig *
traffic_new(const char *settings)
{
	char graph[512];

	snprintf(graph, sizeof(graph), "wire:; traffic: wire; %s", settings);
	return rig_new_prepared(graph, set_host);
}

static struct traffic *
own(struct rig *r)
{
	return traffic_of(rig_protocol(r, "traffic"));
}

static long
counter(struct rig *r, const char *name)
{
	return rig_counter_of(r, "traffic", name);
}

static void
do_forget_peers(void *argument)
{
	struct traffic *t = argument;

	for (unsigned i = 0; i < t->peer_count; i++)
		xk_close(atomic_exchange_explicit(&t->peers[i].session, NULL, memory_order_relaxed));
}

static void
end(struct rig *r)
{
	xk_event_cancel(&own(r)->event);
	rig_do(r, do_forget_peers, own(r));
	rig_forget(r);
	rig_free(r);
}

/* Takes what was sent next, which must be a message; its size, 0: there is none. */
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

/* ---- sending ---- */

TEST(traffic_sends_in_turn_at_its_rate)
{
	struct rig *r = traffic_new("traffic.peers=10.77.0.2 10.77.0.3; traffic.rate=10; traffic.start=1s");
	struct traffic_header h;

	for (unsigned i = 0; i < 100; i++)
		rig_advance_ms(r, 10);
	rig_expect_nothing_sent(r);
	for (unsigned i = 0; i < 101; i++)
		rig_advance_ms(r, 10);
	CHECK(rig_sent(r) >= 9 && rig_sent(r) <= 11); /* while sessions are being opened, some are not sent */
	for (unsigned i = 0; take(r, &h) != 0; i++) {
		CHECK_EQ(h.source, HERE);
		CHECK_EQ(h.destination, i % 2 == 0 ? THERE : THERE + 1);
		CHECK_EQ(h.position, i / 2);
		CHECK_EQ(h.stream, 0);
		CHECK(h.incarnation == own(r)->incarnation);
	}
	CHECK_EQ(counter(r, "opened"), 2);
	end(r);
}

TEST(traffic_sends_to_any_of_them)
{
	struct rig *r = traffic_new("traffic.peers=10.77.0.1-10.77.0.4; traffic.rate=1000; traffic.pattern=random");
	unsigned to[4] = { 0 };
	struct traffic_header h;

	for (unsigned i = 0; i < 100; i++)
		rig_advance_ms(r, 10);
	while (take(r, &h) != 0) {
		REQUIRE(h.destination >= HERE && h.destination < HERE + 4);
		CHECK_EQ(h.position, to[h.destination - HERE]++);
	}
	CHECK_EQ(to[0], 0); /* itself */
	CHECK(to[1] > 200 && to[2] > 200 && to[3] > 200);
	end(r);
}

TEST(traffic_chooses_as_many_peers_as_it_is_told)
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

TEST(traffic_reads_whom_to_send_to)
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
	CHECK_EQ(rig_refusal("wire:; traffic: wire; traffic.size_min=100; traffic.size_max=99"), -EINVAL);
}

TEST(traffic_on_two_links_sends_under_the_address_of_each)
{
	struct rig *r = rig_new_prepared(
		"wire:; traffic: wire; traffic.peers=10.77.0.1 10.78.0.1-10.78.0.2; traffic.rate=100", set_hosts);
	struct traffic_header h;

	CHECK_EQ(own(r)->peer_count, 1); /* neither of its own */
	set_second_link(r);
	for (unsigned i = 0; i < 10; i++)
		rig_advance_ms(r, 10);
	REQUIRE(take(r, &h) != 0);
	CHECK_EQ(h.source, HERE_TOO);
	CHECK_EQ(h.destination, HERE_TOO + 1);
	end(r);
}

TEST(traffic_ends_when_it_has_sent_enough)
{
	struct rig *r = traffic_new("traffic.peers=10.77.0.2; traffic.rate=100; traffic.count=7");
	struct xk_traffic_report report;
	struct xk_traffic_peer peer;

	xk_traffic_report(rig_protocol(r, "traffic"), &report);
	CHECK(!report.finished);
	for (unsigned i = 0; i < 100; i++)
		rig_advance_ms(r, 10);
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
	end(r);
}

TEST(traffic_ends_when_it_is_time)
{
	struct rig *r = traffic_new("traffic.peers=10.77.0.2; traffic.rate=100; traffic.start=1s; traffic.stop=2s");
	struct xk_traffic_report report;

	for (unsigned i = 0; i < 500; i++)
		rig_advance_ms(r, 10);
	CHECK(rig_sent(r) > 90 && rig_sent(r) <= 100);
	xk_traffic_report(rig_protocol(r, "traffic"), &report);
	CHECK(report.finished);
	end(r);
}

TEST(traffic_without_peers_sends_nothing)
{
	struct rig *r = traffic_new("traffic.peers=10.77.0.1");
	struct xk_traffic_report report;

	rig_advance_ms(r, 10000);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_wire_enables(r), 1);
	xk_traffic_report(rig_protocol(r, "traffic"), &report);
	CHECK(report.finished);
	end(r);
}

TEST(traffic_draws_sizes_that_can_be_sent)
{
	struct rig *r = traffic_new("traffic.peers=10.77.0.2; traffic.rate=1000; traffic.size_min=40; "
				    "traffic.size_max=3000");
	size_t least = LEN, most = 0, size;
	struct traffic_header h;

	for (unsigned i = 0; i < 50; i++)
		rig_advance_ms(r, 10);
	while ((size = take(r, &h)) != 0) {
		least = size < least ? size : least;
		most = size > most ? size : most;
	}
	CHECK(least < 100);
	CHECK_EQ(most, 1500);
	end(r);
}

TEST(traffic_makes_messages_of_several_segments)
{
	struct rig *r = traffic_new("traffic.peers=10.77.0.2; traffic.rate=1000; traffic.size_min=4001; "
				    "traffic.size_max=4001");
	struct traffic_header h;
	uint32_t max = 60000;

	rig_answer(r, XK_GET_MAX_PACKET, &max, sizeof(max));
	rig_advance_ms(r, 10);
	rig_advance_ms(r, 10);
	CHECK_EQ(take(r, &h), 4001);
	end(r);
}

TEST(traffic_counts_what_is_refused_and_does_not_number_it)
{
	struct rig *r = traffic_new("traffic.peers=10.77.0.2; traffic.rate=100");
	struct traffic_header h;
	long before;

	for (unsigned i = 0; i < 5; i++)
		rig_advance_ms(r, 10);
	rig_forget(r);
	before = counter(r, "sent");
	rig_fail_sending(r, -ENOBUFS);
	for (unsigned i = 0; i < 10; i++)
		rig_advance_ms(r, 10);
	CHECK_EQ(counter(r, "unsent"), 10);
	CHECK_EQ(counter(r, "sent"), before);
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 10);
	CHECK(take(r, &h) != 0);
	CHECK_EQ(h.position, before);
	end(r);
}

TEST(traffic_sends_until_it_is_refused)
{
	struct rig *r = traffic_new("traffic.peers=10.77.0.2; traffic.rate=0; traffic.count=1000");

	rig_fail_sending(r, -ENOBUFS);
	for (unsigned i = 0; i < 20; i++)
		rig_advance_ms(r, 1);
	CHECK(counter(r, "unsent") >= 15 && counter(r, "unsent") <= 21);
	CHECK_EQ(counter(r, "sent"), 0);
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 2);
	CHECK_EQ(counter(r, "sent"), 1000);
	end(r);
}

TEST(traffic_opens_again_what_cannot_be_opened)
{
	struct rig *r = traffic_new("traffic.peers=10.77.0.2; traffic.rate=100");

	rig_wire_refuse(r, -EHOSTUNREACH);
	for (unsigned i = 0; i < 30; i++)
		rig_advance_ms(r, 10);
	CHECK_EQ(counter(r, "opened"), 0);
	CHECK(counter(r, "unopened") > 20);
	rig_wire_refuse(r, 0);
	for (unsigned i = 0; i < 30; i++)
		rig_advance_ms(r, 10);
	CHECK_EQ(counter(r, "opened"), 1);
	CHECK(rig_sent(r) > 10);
	end(r);
}

static void
do_close_done(void *argument)
{
	xk_close_done(argument);
}

TEST(traffic_begins_a_new_stream_on_a_new_session)
{
	struct rig *r = traffic_new("traffic.peers=10.77.0.2; traffic.rate=100; traffic.local=99");
	struct traffic_header h;

	for (unsigned i = 0; i < 5; i++)
		rig_advance_ms(r, 10);
	CHECK_EQ(rig_wire_local(r), 99);
	rig_forget(r);
	rig_do(r, do_close_done, rig_wire_session(r));
	rig_advance_ms(r, 10);
	CHECK_EQ(rig_wire_sessions(r), 0);
	for (unsigned i = 0; i < 20; i++)
		rig_advance_ms(r, 10);
	CHECK_EQ(counter(r, "closed"), 1);
	CHECK_EQ(counter(r, "opened"), 2);
	CHECK(take(r, &h) != 0);
	CHECK_EQ(h.stream, 1);
	CHECK_EQ(h.position, 0);
	CHECK(take(r, &h) != 0);
	CHECK_EQ(h.position, 1);
	end(r);
}

/* ---- receiving ---- */

static size_t
message(struct rig *r, struct traffic_header h, uint32_t size, uint8_t *bytes)
{
	struct xk_msg *m = traffic_message_new(rig_protocol(r, "traffic"), &h, size);

	REQUIRE(m != NULL && size <= LEN && xk_msg_copy_out(m, 0, bytes, size));
	xk_msg_free(m);
	return size;
}

static struct traffic_header
header(uint64_t incarnation, uint32_t stream, uint32_t position)
{
	return (struct traffic_header){ incarnation, THERE, HERE, stream, position };
}

static void
hear_header(struct rig *r, struct traffic_header h)
{
	uint8_t bytes[LEN];

	rig_inject_bytes(r, bytes, message(r, h, 64 + h.position % 9, bytes));
}

static void
hear(struct rig *r, uint32_t stream, uint32_t position)
{
	hear_header(r, header(BOOT, stream, position));
}

TEST(traffic_counts_what_comes)
{
	struct rig *r = traffic_new("traffic.promise=ordered");
	struct xk_traffic_report report;
	struct xk_traffic_sender senders[4];

	for (uint32_t i = 0; i < 200; i++)
		hear(r, 0, i);
	xk_traffic_report(rig_protocol(r, "traffic"), &report);
	CHECK_EQ(report.received, 200);
	CHECK_EQ(report.broken, 0);
	CHECK_STR(report.first, "");
	CHECK_EQ(report.senders, 1);
	CHECK_EQ(xk_traffic_senders(rig_protocol(r, "traffic"), senders, 4), 1);
	CHECK_EQ(senders[0].host, THERE);
	CHECK_EQ(senders[0].incarnation, BOOT);
	CHECK_EQ(senders[0].first, 0);
	CHECK_EQ(senders[0].highest, 199);
	CHECK_EQ(senders[0].received, 200);
	end(r);
}

TEST(traffic_sees_every_flipped_bit_and_every_cut)
{
	struct rig *r = traffic_new("traffic.promise=intact");
	uint8_t bytes[LEN];
	size_t size = message(r, header(BOOT, 0, 0), 77, bytes);

	for (size_t bit = 0; bit < 8 * size; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		rig_inject_bytes(r, bytes, size);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	CHECK_EQ(counter(r, "corrupt"), 8 * size);
	for (size_t len = 0; len < size; len++)
		rig_inject_bytes(r, bytes, len);
	bytes[size] = 0;
	rig_inject_bytes(r, bytes, size + 1);
	CHECK_EQ(counter(r, "corrupt"), 9 * size + 1);
	CHECK_EQ(counter(r, "broken"), 9 * size + 1);
	CHECK_EQ(counter(r, "received"), 0);
	rig_inject_bytes(r, bytes, size);
	CHECK_EQ(counter(r, "received"), 1);
	end(r);
}

TEST(traffic_sees_what_is_mixed_of_two_messages)
{
	struct rig *r = traffic_new("");
	uint8_t one[LEN], other[LEN];
	size_t size = message(r, header(BOOT, 0, 1), 600, one);

	message(r, header(BOOT, 0, 2), 600, other);
	memcpy(one + 320, other + 320, 64);
	rig_inject_bytes(r, one, size);
	CHECK_EQ(counter(r, "corrupt"), 1);
	message(r, header(BOOT, 0, 1), 600, one);
	memmove(one + 100, one + 108, 400); /* a piece in the wrong place */
	rig_inject_bytes(r, one, size);
	CHECK_EQ(counter(r, "corrupt"), 2);
	end(r);
}

TEST(traffic_reads_messages_in_pieces)
{
	struct rig *r = traffic_new("");
	uint8_t bytes[LEN];
	char hex[3 * LEN] = "";
	size_t size = message(r, header(BOOT, 0, 0), 700, bytes), at = 0;

	for (size_t i = 0; i < size; i++)
		at += (size_t)snprintf(hex + at, sizeof(hex) - at, "%s%02x", i == 13 || i == 45 || i == 399 ? "|" : "",
				       bytes[i]);
	rig_inject(r, hex);
	CHECK_EQ(counter(r, "received"), 1);
	CHECK_EQ(counter(r, "corrupt"), 0);
	end(r);
}

TEST(traffic_sees_duplicates_reordering_and_gaps)
{
	static const struct {
		uint32_t position;
		const char *fault; /* NULL: none */
	} come[] = {
		{ 0, NULL },         { 1, NULL },          { 1, "duplicate" },   { 0, "duplicate" },
		{ 5, "gap" },        { 3, "reordered" },   { 3, "duplicate" },   { 6, NULL },
		{ 2, "reordered" },  { 5, "duplicate" },   { 100, "gap" },       { 37, "reordered" },
		{ 37, "duplicate" }, { 36, "reordered" },  { 36, "reordered" },  { 101, NULL },
		{ 165, "gap" },      { 101, "reordered" }, { 102, "reordered" }, { 102, "duplicate" },
	};
	struct rig *r = traffic_new("traffic.promise=ordered");
	long broken = 0;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(come); i++) {
		long before = come[i].fault == NULL ? 0 : counter(r, come[i].fault);

		hear(r, 0, come[i].position);
		broken += come[i].fault != NULL;
		CHECK_EQ(counter(r, "broken"), broken);
		if (come[i].fault != NULL)
			CHECK_EQ(counter(r, come[i].fault), before + 1);
	}
	CHECK_EQ(counter(r, "received"), XK_ARRAY_LENGTH(come));
	end(r);
}

TEST(traffic_holds_protocols_to_what_they_promise)
{
	static const char *const promises[] = { "none", "intact", "once", "ordered" };
	static const long broken[] = { 0, 1, 3, 7 };

	for (unsigned i = 0; i < 4; i++) {
		char settings[64];
		struct rig *r;
		struct traffic_header h = header(BOOT, 0, 0);
		struct xk_traffic_report report;

		snprintf(settings, sizeof(settings), "traffic.promise=%s", promises[i]);
		r = traffic_new(settings);
		rig_inject(r, "00");
		h.destination = HERE + 5;
		hear_header(r, h);
		hear(r, 0, 0);
		hear(r, 0, 0);
		hear(r, 0, 2);
		hear(r, 0, 1);
		hear(r, 1, 1); /* up the same session, and from its middle on */
		CHECK_EQ(counter(r, "corrupt"), 1);
		CHECK_EQ(counter(r, "misdirected"), 1);
		CHECK_EQ(counter(r, "duplicate"), 1);
		CHECK_EQ(counter(r, "gap"), 2);
		CHECK_EQ(counter(r, "reordered"), 1);
		CHECK_EQ(counter(r, "mixed"), 1);
		CHECK_EQ(counter(r, "broken"), broken[i]);
		xk_traffic_report(rig_protocol(r, "traffic"), &report);
		CHECK_STR(report.first, i == 0 ? "" : "corrupt");
		end(r);
	}
}

TEST(traffic_on_two_links_expects_what_is_for_the_address_of_each)
{
	struct rig *r = rig_new_prepared("wire:; traffic: wire; traffic.promise=once", set_hosts);
	struct traffic_header h = header(BOOT, 0, 0);

	hear_header(r, h);
	CHECK_EQ(counter(r, "received"), 1);
	h.destination = HERE_TOO;
	hear_header(r, h); /* up a session of the first link */
	CHECK_EQ(counter(r, "misdirected"), 1);
	set_second_link(r);
	hear_header(r, h); /* another stream than that to the first address */
	CHECK_EQ(counter(r, "received"), 2);
	CHECK_EQ(counter(r, "duplicate"), 0);
	h.destination = HERE;
	hear_header(r, h);
	CHECK_EQ(counter(r, "misdirected"), 2);
	end(r);
}

TEST(traffic_names_the_first_violation)
{
	struct rig *r = traffic_new("traffic.promise=once");
	struct xk_traffic_report report;

	hear(r, 3, 9);
	hear(r, 3, 9);
	hear(r, 3, 9);
	xk_traffic_report(rig_protocol(r, "traffic"), &report);
	CHECK_EQ(report.broken, 2);
	CHECK_STR(report.first, "duplicate: from 10.77.0.2, boot 77, message 9 of stream 3");
	end(r);
}

/* A session that was announced carries what it likes; what it was before does not count, wherever it lies in memory. */
TEST(traffic_lets_a_new_session_carry_a_new_stream)
{
	struct rig *r = traffic_new("traffic.promise=ordered");

	for (uint32_t stream = 0; stream < 5; stream++) {
		rig_wire_peer(r, 0x99);
		hear(r, stream, 0);
		hear(r, stream, 1);
	}
	CHECK_EQ(counter(r, "broken"), 0);
	hear(r, 9, 0);
	CHECK_EQ(counter(r, "mixed"), 1);
	CHECK_EQ(counter(r, "broken"), 1);
	end(r);
}

TEST(traffic_knows_messages_of_boots_that_are_over)
{
	uint64_t first = UINT64_C(0x0001000000000005), second = UINT64_C(0x0002000000000003);
	struct rig *r = traffic_new("traffic.promise=ordered");
	struct xk_session *session;

	hear_header(r, header(second, 0, 0));
	session = rig_wire_session(r);
	rig_wire_peer(r, 0x99);
	hear_header(r, header(first, 0, 0)); /* it was on its way for long: the boots are counted */
	CHECK_EQ(counter(r, "old_incarnation"), 1);
	hear_header(r, header(first, 0, 1));
	CHECK_EQ(counter(r, "old_incarnation"), 2);
	CHECK_EQ(counter(r, "broken"), 0);
	CHECK(session != rig_wire_session(r));
	end(r);
	/* where they are not, the one that came last is the later one */
	r = traffic_new("");
	hear_header(r, header(9, 0, 0));
	hear_header(r, header(8, 0, 0));
	CHECK_EQ(counter(r, "old_incarnation"), 0);
	hear_header(r, header(9, 0, 1));
	CHECK_EQ(counter(r, "old_incarnation"), 1);
	end(r);
}

TEST(traffic_remembers_a_bounded_number_of_streams)
{
	struct rig *r = traffic_new("traffic.senders=4; traffic.promise=once");
	struct xk_traffic_sender senders[8];

	for (uint32_t stream = 0; stream < 100; stream++) {
		hear(r, stream, 0);
		hear(r, 1000, stream); /* one that is used stays */
	}
	CHECK_EQ(counter(r, "forgotten"), 97);
	CHECK_EQ(xk_traffic_senders(rig_protocol(r, "traffic"), senders, 8), 4);
	CHECK_EQ(counter(r, "duplicate"), 0);
	hear(r, 1000, 50);
	CHECK_EQ(counter(r, "duplicate"), 1);
	CHECK_EQ(counter(r, "gap"), 0);
	hear(r, 2000, 7); /* who knows what has come of it */
	CHECK_EQ(counter(r, "gap"), 0);
	end(r);
}

TEST(traffic_survives_random_messages)
{
	struct rig *r = traffic_new("traffic.senders=3; traffic.promise=none");
	struct xk_chance chance;
	uint8_t bytes[128];

	xk_chance_init(&chance, 1, 0);
	for (unsigned i = 0; i < 3000; i++) {
		struct traffic_header h = header(xk_chance_below(&chance, 3), (uint32_t)xk_chance_below(&chance, 3),
						 (uint32_t)xk_chance_next(&chance));
		size_t size = message(r, h, 40 + (uint32_t)xk_chance_below(&chance, 80), bytes);

		if (xk_chance_below(&chance, 2) == 0)
			bytes[xk_chance_below(&chance, size)] ^= (uint8_t)xk_chance_next(&chance);
		rig_inject_bytes(r, bytes, xk_chance_below(&chance, 8) == 0 ? xk_chance_below(&chance, size) : size);
	}
	CHECK(counter(r, "corrupt") > 100);
	CHECK(counter(r, "received") > 100);
	CHECK_EQ(counter(r, "broken"), 0);
	end(r);
}

/* ---- two hosts of threads ---- */

enum { PAIR_MESSAGES = 300, PAIR_NAPS = 30000 };

struct pair {
	struct xk_platform *platforms[2];
	struct xk_kernel *kernels[2];
	struct xk_port *ports[2];
	struct xk_protocol *traffics[2];
};

static void
pair_build(struct pair *p, unsigned i, const char *graph_text)
{
	struct xk_graph_errors errors = { 0 };
	struct xk_protocol *failed;
	struct xk_graph *graph;
	char text[1024];

	snprintf(text, sizeof(text), graph_text, 2 - i, PAIR_MESSAGES, 1 + i);
	graph = xk_graph_read_text("pair", text, strlen(text), &errors);
	REQUIRE(graph != NULL && xk_graph_check(graph, xk_protocol_types, &errors) == 0);
	REQUIRE(xk_graph_build(graph, p->kernels[i], &errors) == 0);
	xk_graph_free(graph);
	REQUIRE(xk_kernel_init(p->kernels[i], &failed) == 0);
	p->traffics[i] = xk_kernel_find(p->kernels[i], "traffic");
}

static void
pair_begin(struct pair *p, enum xk_mode mode, const char *graph_text)
{
	for (unsigned i = 0; i < 2; i++) {
		struct xk_kernel_config config = { .name = "pair", .mode = mode, .threads = 3, .core = -1 };

		config.driver = XK_DRIVER_INTERRUPT;
		p->platforms[i] = config.platform = xk_memory_platform_new(XK_MEMORY_REAL);
		p->kernels[i] = xk_kernel_new(&config);
		p->ports[i] = xk_memory_port_new(p->platforms[i], "port", 0x020000000001 + i, 1500);
		REQUIRE(p->kernels[i] != NULL && p->ports[i] != NULL);
		xk_kernel_add_port(p->kernels[i], p->ports[i]);
	}
	REQUIRE(xk_memory_connect(p->ports[0], p->ports[1]) == 0);
	for (unsigned i = 0; i < 2; i++)
		pair_build(p, i, graph_text);
	for (unsigned i = 0; i < 2; i++)
		REQUIRE(xk_kernel_start(p->kernels[i]) == 0);
}

static uint64_t
pair_counter(struct pair *p, unsigned i, enum traffic_counter which)
{
	return atomic_load_explicit(&p->traffics[i]->counters[which], memory_order_relaxed);
}

/* Until all has come, or `lossy`, been sent. */
static void
pair_wait(struct pair *p, bool lossy)
{
	static const struct timespec nap = { 0, 1000000 };
	enum traffic_counter which = lossy ? TRAFFIC_SENT : TRAFFIC_RECEIVED;

	for (unsigned naps = 0; naps < PAIR_NAPS; naps++) {
		if (pair_counter(p, 0, which) >= PAIR_MESSAGES && pair_counter(p, 1, which) >= PAIR_MESSAGES)
			return;
		nanosleep(&nap, NULL);
	}
}

static void
pair_end(struct pair *p)
{
	for (unsigned i = 0; i < 2; i++)
		xk_kernel_stop(p->kernels[i]);
	for (unsigned i = 0; i < 2; i++) {
		struct xk_traffic_report report;

		xk_traffic_report(p->traffics[i], &report);
		CHECK(report.finished);
		CHECK_EQ(report.sent, PAIR_MESSAGES);
		CHECK_EQ(report.broken, 0);
		CHECK_STR(report.first, "");
	}
	for (unsigned i = 0; i < 2; i++)
		xk_kernel_free(p->kernels[i]);
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(p->platforms[i]->ops->buffers_out(p->platforms[i]), 0);
		xk_memory_platform_free(p->platforms[i]);
	}
}

static void
pair_run(enum xk_mode mode, const char *promise, const char *edges)
{
	static const char settings[] =
		"digraph pair { traffic [peers=\"10.77.0.%%u\", count=%%u, rate=0, size_max=300, promise=%s];"
		"vnet [address=\"10.77.0.%%u/24\"]; %s ip -> vnet -> eth; vnet -> arp -> eth; eth -> port }";
	char text[1024];
	struct pair p;

	snprintf(text, sizeof(text), settings, promise, edges);
	pair_begin(&p, mode, text);
	pair_wait(&p, strcmp(promise, "ordered") != 0);
	if (strcmp(promise, "ordered") == 0)
		for (unsigned i = 0; i < 2; i++)
			CHECK_EQ(pair_counter(&p, i, TRAFFIC_RECEIVED), PAIR_MESSAGES);
	pair_end(&p);
}

TEST(traffic_over_stopwait_between_threads)
{
	pair_run(XK_REGULAR, "ordered", "traffic -> stopwait; stopwait -> ip [number=253];");
}

TEST(traffic_over_stopwait_between_drivers)
{
	pair_run(XK_IPP, "ordered", "traffic -> stopwait; stopwait -> ip [number=253];");
}

/* Every message leaves the driver, and losses make retransmissions meet acknowledgements. */
TEST(traffic_over_stopwait_that_is_handed_off_and_lost)
{
	pair_run(
		XK_IPP, "ordered",
		"traffic -> stopwait [handoff=explicit]; stopwait -> vdrop [number=253, handoff=explicit]; vdrop -> ip;"
		"stopwait [timeout=\"3ms\", timeout_max=\"20ms\", retries=1000];"
		"vdrop [loss=\"0.05\", duplicate=\"0.1\", reorder=\"0.1\", reorder_time=\"5ms\"];");
	pair_run(XK_REGULAR, "ordered",
		 "traffic -> stopwait; stopwait -> vdrop [number=253]; vdrop -> ip;"
		 "stopwait [timeout=\"3ms\", timeout_max=\"20ms\", retries=1000];"
		 "vdrop [loss=\"0.05\", duplicate=\"0.1\", reorder=\"0.1\", reorder_time=\"5ms\"];");
}

TEST(traffic_over_udp_between_threads)
{
	pair_run(XK_REGULAR, "intact", "traffic -> udp -> ip;");
	pair_run(XK_IPP, "intact", "traffic -> udp -> ip;");
}
