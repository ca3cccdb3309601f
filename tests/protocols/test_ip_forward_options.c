/* test_ip_forward_options.c - IP as a router: datagrams with options (ip_router.h). */
#include "tests/protocols/ip_router.h"
#include "tests/random.h"

/* Builds d's frame with options (a multiple of 4 bytes) behind its header. Returns its length. */
static size_t
build_with(uint8_t *frame, const struct datagram *d, const uint8_t *options, size_t options_len)
{
	size_t len = build(frame, d);

	memmove(frame + HEADER + options_len, frame + HEADER, len - HEADER);
	memcpy(frame + HEADER, options, options_len);
	frame[XK_OFFSET(ip, version)] = (uint8_t)(0x40 | (HEADER + options_len) / 4);
	XK_PUT(ip, length, frame, (uint16_t)(len + options_len));
	XK_PUT(ip, checksum, frame, 0);
	xk_checksum_store(frame + XK_OFFSET(ip, checksum), xk_checksum_finish(xk_sum(0, frame, HEADER + options_len)));
	return len + options_len;
}

static const uint8_t record_route[] = { 1, 7, 7, 4, 0, 0, 0, 0 }; /* not copied into fragments */
static const uint8_t router_alert[] = { 0x94, 4, 0, 0 };          /* copied into fragments */

RIG_TEST(rfc1812_4_2_2_1_options_are_forwarded_unchanged, router())
{
	struct datagram d = passing();
	uint8_t frame[MTU], got[MTU];
	size_t len = build_with(frame, &d, record_route, sizeof(record_route));

	rig_inject_bytes(r, frame, len);
	d.ttl--;
	len = build_with(frame, &d, record_route, sizeof(record_route));
	CHECK_EQ(rig_take_sent(r, got, sizeof(got)), len);
	CHECK(memcmp(got, frame, len) == 0);
}

RIG_TEST(rfc791_3_1_copied_options_are_in_every_fragment, router())
{
	struct datagram d = passing();
	uint8_t options[12], payload[1200] = { 0 }, frame[MTU], got[MTU];
	long len;

	memcpy(options, record_route, 8);
	memcpy(options + 8, router_alert, 4);
	d.payload = payload;
	d.len = sizeof(payload);
	rig_inject_bytes(r, frame, build_with(frame, &d, options, sizeof(options)));
	len = rig_take_sent(r, got, sizeof(got));
	CHECK_EQ(len, 32 + 568);
	CHECK_EQ(got[0], 0x48);
	CHECK(memcmp(got + HEADER, options, 12) == 0);
	CHECK_EQ(xk_sum_fold(xk_sum(0, got, 32)), 0xffff);
	len = rig_take_sent(r, got, sizeof(got));
	CHECK_EQ(len, 24 + 576);
	CHECK_EQ(got[0], 0x46);
	CHECK(memcmp(got + HEADER, router_alert, 4) == 0);
	CHECK_EQ(xk_get16(got + IP_FRAGMENT), MORE | 568 / 8);
	CHECK_EQ(xk_sum_fold(xk_sum(0, got, 24)), 0xffff);
	len = rig_take_sent(r, got, sizeof(got));
	CHECK_EQ(len, 24 + 1200 - 568 - 576);
	CHECK_EQ(xk_get16(got + IP_FRAGMENT), (568 + 576) / 8);
	rig_expect_nothing_sent(r);
}

RIG_TEST(rfc7126_source_routes_are_refused, router())
{
	static const uint8_t loose[] = { 131, 7, 4, 10, 78, 0, 2, 0 }, strict[] = { 1, 137, 7, 4, 10, 78, 0, 2 };
	struct datagram d = passing();
	uint8_t frame[MTU];

	rig_inject_bytes(r, frame, build_with(frame, &d, loose, sizeof(loose)));
	rig_inject_bytes(r, frame, build_with(frame, &d, strict, sizeof(strict)));
	CHECK_EQ(counter(r, "source_route"), 2);
	rig_expect_nothing_sent(r);
}

RIG_TEST(malformed_options_do_no_harm, router())
{
	struct datagram d = passing();
	uint64_t state = 3;
	uint8_t frame[MTU], options[40], payload[1000] = { 0 };

	d.payload = payload;
	for (unsigned i = 0; i < 3000; i++) {
		size_t len = 4 + 4 * (next_random(&state) % 10);

		d.len = i % 2 == 0 ? 20 : sizeof(payload);
		for (size_t at = 0; at < len; at++)
			options[at] = (uint8_t)(next_random(&state) >> 20);
		if (i % 3 == 0) { /* well-formed */
			options[0] = 0x5e;
			options[1] = (uint8_t)len;
		}
		rig_inject_bytes(r, frame, build_with(frame, &d, options, len));
		rig_forget(r);
	}
	CHECK(counter(r, "bad_options") > 1000 && counter(r, "forwarded") >= 1000);
}

RIG_TEST(headers_with_options_are_checked_too, router())
{
	struct datagram d = passing();
	uint8_t frame[MTU];
	size_t len = build_with(frame, &d, router_alert, sizeof(router_alert));

	rig_inject_flips(r, frame, len, (HEADER + 4) * 8);
	rig_expect_nothing_sent(r);
	for (size_t cut = 0; cut < len; cut++)
		rig_inject_bytes(r, frame, cut);
	rig_expect_nothing_sent(r);
	CHECK(counter(r, "bad_checksum") > 0 && counter(r, "bad_length") > 0 && counter(r, "short") > 0);
	d.destination = ME; /* ours, for a protocol that nobody has enabled */
	rig_inject_bytes(r, frame, build_with(frame, &d, router_alert, sizeof(router_alert)));
	CHECK_EQ(counter(r, "no_session"), 1);
	CHECK_EQ(rig_sent(r), 1); /* its sender is sent an error */
	rig_forget(r);
}
