/* test_ip_dropped.c - datagrams that IP drops, by reason; and no frame leaves anything behind. */
#include <stdlib.h>

#include "tests/protocols/ip_datagrams.h"
#include "tests/random.h"

/* ---- drops ---- */

static void
check_dropped(struct rig *r, const struct datagram *d, const char *why)
{
	long before = rig_counter(r, why), all = rig_drop_count(r);

	inject(r, d);
	if (rig_counter(r, why) != before + 1)
		fprintf(stderr, "\nnot dropped as %s\n", why);
	CHECK_EQ(rig_counter(r, why), before + 1);
	CHECK_EQ(rig_drop_count(r), all + 1);
	rig_expect_nothing_delivered(r);
}

struct wrong_address {
	uint32_t address;
	const char *why;
};

/* Checks datagrams from, or to, each of the addresses. */
static void
check_addresses_dropped(const struct wrong_address *wrong, unsigned count, bool is_source)
{
	struct rig *r = ip_rig();

	rig_open_enable(r, anybody());
	for (unsigned i = 0; i < count; i++) {
		struct datagram d = usual();

		*(is_source ? &d.source : &d.destination) = wrong[i].address;
		check_dropped(r, &d, wrong[i].why);
	}
	rig_free(r);
}

TEST(wrong_sources_are_dropped)
{
	static const struct wrong_address wrong[] = {
		{ ME, "bad_source" },         { 0, "bad_source" },
		{ 0x00000005, "bad_source" }, { NET_BROADCAST, "bad_source" },
		{ 0x0a4d0000, "bad_source" }, { UINT32_MAX, "bad_source" },
		{ 0xe0000001, "bad_source" }, { 0xf0000001, "bad_source" },
		{ 0x7f000001, "martian" },
	};

	check_addresses_dropped(wrong, XK_ARRAY_LENGTH(wrong), true);
}

TEST(datagrams_for_others_are_dropped)
{
	static const struct wrong_address wrong[] = {
		{ OTHER, "not_mine" },
		{ FAR, "not_mine" },
		{ 0xe0000001, "not_mine" },
		{ 0x7f000001, "martian" },
	};

	check_addresses_dropped(wrong, XK_ARRAY_LENGTH(wrong), false);
}

RIG_TEST(datagrams_for_no_upper_are_dropped, ip_rig())
{
	struct datagram d = usual();

	rig_open_enable(r, anybody());
	d.protocol = 99;
	check_dropped(r, &d, "no_session");
	d.fragment = MORE;
	check_dropped(r, &d, "no_session");
}

/* Changes one 16-bit field of the usual datagram, corrects the checksum, and injects it. */
static void
check_field_dropped(struct rig *r, size_t offset, uint16_t value, const char *why)
{
	struct datagram d = usual();
	uint8_t frame[64];
	size_t len = build(frame, &d);
	long before = rig_counter(r, why);

	xk_put16(frame + offset, value);
	put_checksum(frame);
	rig_inject_bytes(r, frame, len);
	if (rig_counter(r, why) != before + 1)
		fprintf(stderr, "\n%04x at %zu: not dropped as %s\n", value, offset, why);
	CHECK_EQ(rig_counter(r, why), before + 1);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(wrong_headers_are_dropped, ip_rig())
{
	rig_open_enable(r, anybody());
	check_field_dropped(r, 0, 0x6500, "bad_version");
	check_field_dropped(r, 0, 0x0500, "bad_version");
	check_field_dropped(r, 0, 0x4400, "bad_header");
	check_field_dropped(r, 0, 0x4000, "bad_header");
	check_field_dropped(r, 0, 0x4600, "bad_checksum"); /* of a longer header */
	check_field_dropped(r, 0, 0x4f00, "short");
	check_field_dropped(r, 2, 19, "bad_length");
	check_field_dropped(r, 2, 0, "bad_length");
	check_field_dropped(r, 2, 26, "bad_length");
	check_field_dropped(r, 2, 65535, "bad_length");
	check_field_dropped(r, 6, 0x8000, "bad_flags");
	check_field_dropped(r, 6, 0xa000, "bad_flags");
}

RIG_TEST(every_flipped_bit_of_the_header_is_detected, ip_rig())
{
	struct datagram d = usual();
	uint8_t frame[64];
	size_t len = build(frame, &d);

	rig_open_enable(r, anybody());
	rig_inject_flips(r, frame, len, HEADER * 8);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_drop_count(r), HEADER * 8);
	CHECK(rig_counter(r, "bad_checksum") > 100);
}

RIG_TEST(every_truncation_is_detected, ip_rig())
{
	struct datagram d = usual();
	uint8_t frame[64];
	size_t len = build(frame, &d);

	rig_open_enable(r, anybody());
	for (size_t i = 0; i < len; i++)
		rig_inject_bytes(r, frame, i);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "short"), HEADER);
	CHECK_EQ(rig_counter(r, "bad_length"), len - HEADER);
}

/* ---- options ---- */

/* Injects the usual datagram with `len` bytes of options, a multiple of 4. */
static void
inject_with(struct rig *r, const void *options, size_t options_len)
{
	struct datagram d = usual();
	uint8_t frame[128];
	size_t len = build(frame, &d) + options_len;

	memmove(frame + HEADER + options_len, frame + HEADER, len - options_len - HEADER);
	memcpy(frame + HEADER, options, options_len);
	frame[0] = (uint8_t)(0x40 | (HEADER + options_len) / 4);
	xk_put16(frame + 2, (uint16_t)len);
	xk_put16(frame + 10, 0);
	xk_checksum_store(frame + 10, xk_checksum_finish(xk_sum(0, frame, HEADER + options_len)));
	rig_inject_bytes(r, frame, len);
}

RIG_TEST(rfc1122_3_2_1_7_time_to_live_of_zero_is_delivered, ip_rig())
{
	struct datagram d = usual();
	uint8_t frame[64];
	size_t len = build(frame, &d);

	rig_open_enable(r, anybody());
	frame[8] = 0;
	put_checksum(frame);
	rig_inject_bytes(r, frame, len);
	rig_expect_delivered(r, "aabbccddee");
}

RIG_TEST(rfc1122_3_2_1_8_harmless_options_are_ignored, ip_rig())
{
	rig_open_enable(r, anybody());
	inject_with(r, "\x01\x01\x01\x00", 4);
	rig_expect_delivered(r, "aabbccddee");
	inject_with(r, "\x5e\x04\x12\x34\x00\xff\xff\xff", 8); /* unknown options, and random bytes behind the end */
	rig_expect_delivered(r, "aabbccddee");
	inject_with(r, "\x5e\x05\x12\x34", 4);
	inject_with(r, "\x5e\x01\x12\x34", 4);
	inject_with(r, "\x01\x01\x01\x5e", 4);
	CHECK_EQ(rig_counter(r, "bad_options"), 3);
	inject_with(r, "\x83\x03\x04\x00", 4);
	inject_with(r, "\x01\x89\x03\x04", 4);
	CHECK_EQ(rig_counter(r, "source_route"), 2);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(random_options_leave_nothing_behind, ip_rig())
{
	uint64_t state = 3;
	uint8_t options[40];

	rig_open_enable(r, anybody());
	for (unsigned i = 0; i < 3000; i++) {
		size_t len = 4 + 4 * (next_random(&state) % 10);

		for (size_t at = 0; at < len; at++)
			options[at] = (uint8_t)(next_random(&state) >> 20);
		options[0] = i % 2 == 0 ? 1 : options[0];
		inject_with(r, options, len);
		rig_forget(r);
	}
	CHECK(rig_counter(r, "bad_options") > 1000);
}

/* ---- random frames ---- */

/* Injects a datagram or fragment of a few kinds, with some bytes changed and a mostly right checksum. */
static void
inject_random(struct rig *r, uint64_t *state)
{
	uint8_t payload[64], frame[128];
	struct datagram d = usual();
	size_t len, cut;

	fill_pattern(payload, 0, sizeof(payload));
	d.payload = payload;
	d.len = next_random(state) % 6 * 8 + (next_random(state) % 4 == 0 ? 3 : 0);
	d.id = next_random(state) % 4;
	d.fragment = (uint16_t)(next_random(state) % 8 | (next_random(state) % 2) * MORE);
	d.source = PEER + next_random(state) % 3;
	len = build(frame, &d);
	for (uint64_t changes = next_random(state) % 3; changes > 0; changes--)
		frame[next_random(state) % len] = (uint8_t)next_random(state);
	if (next_random(state) % 8 != 0)
		put_checksum(frame);
	cut = next_random(state) % 16 == 0 ? next_random(state) % len : 0;
	rig_inject_bytes(r, frame, len - cut);
}

/* Each frame is dropped by name, delivered, or still waits; rig_free checks that nothing is left. */
RIG_TEST(random_frames_leave_nothing_behind, ip_rig_with("ip.reassembly_timeout=1s;"))
{
	uint64_t state = UINT64_C(0x1234567);
	unsigned rounds = test_is_long() ? 200000 : 5000;

	rig_open_enable(r, anybody());
	for (unsigned i = 0; i < rounds; i++) {
		inject_random(r, &state);
		if (i % 64 == 0)
			rig_advance_ms(r, next_random(&state) % 500);
		if (i % 256 == 0)
			rig_forget(r);
	}
	CHECK(rig_counter(r, "overlap") > 0 && rig_counter(r, "reassembled") > 0);
	rig_forget(r);
	rig_advance_ms(r, 2000);
}
