/* test_traffic_received.c - violations that traffic finds in received messages. */

#include "tests/protocols/traffic_rig.h"

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
	return (struct traffic_header){
		.incarnation = incarnation, .source = THERE, .destination = HERE, .stream = stream, .position = position
	};
}

static void
inject_header(struct rig *r, struct traffic_header h)
{
	uint8_t bytes[LEN];

	rig_inject_bytes(r, bytes, message(r, h, 64 + h.position % 9, bytes));
}

static void
inject_message(struct rig *r, uint32_t stream, uint32_t position)
{
	inject_header(r, header(BOOT, stream, position));
}

TRAFFIC_TEST(traffic_counts_received_messages, traffic_new("traffic.promise=ordered"))
{
	struct xk_traffic_report report;
	struct xk_traffic_sender senders[4];

	for (uint32_t i = 0; i < 200; i++)
		inject_message(r, 0, i);
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
}

TRAFFIC_TEST(traffic_detects_each_flipped_bit_and_each_truncation, traffic_new("traffic.promise=intact"))
{
	uint8_t bytes[LEN];
	size_t size = message(r, header(BOOT, 0, 0), 77, bytes);

	rig_expect_broken(r);
	rig_inject_flips(r, bytes, size, 8 * size);
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
}

TRAFFIC_TEST(traffic_detects_a_mix_of_two_messages, traffic_new(""))
{
	uint8_t one[LEN], other[LEN];
	size_t size = message(r, header(BOOT, 0, 1), 600, one);

	rig_expect_broken(r);
	message(r, header(BOOT, 0, 2), 600, other);
	memcpy(one + 320, other + 320, 64);
	rig_inject_bytes(r, one, size);
	CHECK_EQ(counter(r, "corrupt"), 1);
	message(r, header(BOOT, 0, 1), 600, one);
	memmove(one + 100, one + 108, 400); /* a piece in the wrong place */
	rig_inject_bytes(r, one, size);
	CHECK_EQ(counter(r, "corrupt"), 2);
}

TRAFFIC_TEST(traffic_reads_messages_in_segments, traffic_new(""))
{
	uint8_t bytes[LEN];
	char hex[3 * LEN] = "";
	size_t size = message(r, header(BOOT, 0, 0), 700, bytes), at = 0;

	for (size_t i = 0; i < size; i++)
		at += (size_t)snprintf(hex + at, sizeof(hex) - at, "%s%02x", i == 13 || i == 45 || i == 399 ? "|" : "",
				       bytes[i]);
	rig_inject(r, hex);
	CHECK_EQ(counter(r, "received"), 1);
	CHECK_EQ(counter(r, "corrupt"), 0);
}

TRAFFIC_TEST(traffic_detects_duplicates_reordering_and_gaps, traffic_new("traffic.promise=ordered"))
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
	long broken = 0;

	rig_expect_broken(r);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(come); i++) {
		long before = come[i].fault == NULL ? 0 : counter(r, come[i].fault);

		inject_message(r, 0, come[i].position);
		broken += come[i].fault != NULL;
		CHECK_EQ(counter(r, "broken"), broken);
		if (come[i].fault != NULL)
			CHECK_EQ(counter(r, come[i].fault), before + 1);
	}
	CHECK_EQ(counter(r, "received"), XK_ARRAY_LENGTH(come));
}

TEST(traffic_holds_protocols_to_their_guarantees)
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
		if (broken[i] > 0)
			rig_expect_broken(r);
		rig_inject(r, "00");
		h.destination = HERE + 5;
		inject_header(r, h);
		inject_message(r, 0, 0);
		inject_message(r, 0, 0);
		inject_message(r, 0, 2);
		inject_message(r, 0, 1);
		inject_message(r, 1, 1); /* on the same session, from its middle on */
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

TRAFFIC_TEST(traffic_on_two_links_expects_each_links_address,
	     rig_new_prepared("wire:; traffic: wire; traffic.promise=once", set_hosts))
{
	struct traffic_header h = header(BOOT, 0, 0);

	rig_expect_broken(r);
	inject_header(r, h);
	CHECK_EQ(counter(r, "received"), 1);
	h.destination = HERE_TOO;
	inject_header(r, h); /* on a session of the first link */
	CHECK_EQ(counter(r, "misdirected"), 1);
	set_second_link(r);
	inject_header(r, h); /* another stream than the one to the first address */
	CHECK_EQ(counter(r, "received"), 2);
	CHECK_EQ(counter(r, "duplicate"), 0);
	h.destination = HERE;
	inject_header(r, h);
	CHECK_EQ(counter(r, "misdirected"), 2);
}

TRAFFIC_TEST(traffic_names_the_first_violation, traffic_new("traffic.promise=once"))
{
	struct xk_traffic_report report;

	rig_expect_broken(r);
	inject_message(r, 3, 9);
	inject_message(r, 3, 9);
	inject_message(r, 3, 9);
	xk_traffic_report(rig_protocol(r, "traffic"), &report);
	CHECK_EQ(report.broken, 2);
	CHECK_STR(report.first, "duplicate: from 10.77.0.2, boot 77, message 9 of stream 3");
}

/* An announced session may carry any stream; an earlier session at the same place in memory does not count. */
TRAFFIC_TEST(traffic_lets_a_new_session_carry_a_new_stream, traffic_new("traffic.promise=ordered"))
{
	rig_expect_broken(r);
	for (uint32_t stream = 0; stream < 5; stream++) {
		rig_wire_peer(r, 0x99);
		inject_message(r, stream, 0);
		inject_message(r, stream, 1);
	}
	CHECK_EQ(counter(r, "broken"), 0);
	inject_message(r, 9, 0);
	CHECK_EQ(counter(r, "mixed"), 1);
	CHECK_EQ(counter(r, "broken"), 1);
}

TEST(traffic_detects_messages_of_ended_boots)
{
	uint64_t first = UINT64_C(0x0001000000000005), second = UINT64_C(0x0002000000000003);
	struct rig *r = traffic_new("traffic.promise=ordered");
	struct xk_session *session;

	inject_header(r, header(second, 0, 0));
	session = rig_wire_newest_session(r);
	rig_wire_peer(r, 0x99);
	inject_header(r, header(first, 0, 0)); /* delayed for long: boots are counted */
	CHECK_EQ(counter(r, "old_incarnation"), 1);
	inject_header(r, header(first, 0, 1));
	CHECK_EQ(counter(r, "old_incarnation"), 2);
	CHECK_EQ(counter(r, "broken"), 0);
	CHECK(session != rig_wire_newest_session(r));
	end(r);
	/* if boots are not counted, the latest received is the current one */
	r = traffic_new("");
	inject_header(r, header(9, 0, 0));
	inject_header(r, header(8, 0, 0));
	CHECK_EQ(counter(r, "old_incarnation"), 0);
	inject_header(r, header(9, 0, 1));
	CHECK_EQ(counter(r, "old_incarnation"), 1);
	end(r);
}

TRAFFIC_TEST(traffic_remembers_a_bounded_number_of_streams, traffic_new("traffic.senders=4; traffic.promise=once"))
{
	struct xk_traffic_sender senders[8];

	rig_expect_broken(r);
	for (uint32_t stream = 0; stream < 100; stream++) {
		inject_message(r, stream, 0);
		inject_message(r, 1000, stream); /* a stream in use stays */
	}
	CHECK_EQ(counter(r, "forgotten"), 97);
	CHECK_EQ(xk_traffic_senders(rig_protocol(r, "traffic"), senders, 8), 4);
	CHECK_EQ(counter(r, "duplicate"), 0);
	inject_message(r, 1000, 50);
	CHECK_EQ(counter(r, "duplicate"), 1);
	CHECK_EQ(counter(r, "gap"), 0);
	inject_message(r, 2000, 7); /* forgotten: nothing is known of its earlier messages */
	CHECK_EQ(counter(r, "gap"), 0);
}

TRAFFIC_TEST(traffic_survives_random_messages, traffic_new("traffic.senders=3; traffic.promise=none"))
{
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
}
