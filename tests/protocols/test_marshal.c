/* test_marshal.c - words reach the other host in its own byte order, whatever the sender's. */
#include <errno.h>
#include <limits.h>

#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/upi.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OWN "01"
#define OTHER "00"
#define OTHER_NAME "big"
#else
#define OWN "00"
#define OTHER "01"
#define OTHER_NAME "little"
#endif

static struct xk_session *
open_host(struct rig *r)
{
	return rig_must_open(r, rig_to(5));
}

/* ---- client ---- */

RIG_SESSION_TEST(words_are_sent_unchanged_with_their_byte_order, rig_new("marshal"), open_host(r))
{
	CHECK_EQ(rig_wire_remote(r), 5);
	rig_expect_call_sent(r, s, "0102030405060708", OWN "04 0102030405060708");
	rig_expect_reply(r, 0, OWN "04 a1a2a3a4", "a1a2a3a4");
	CHECK_EQ(rig_counter(r, "swapped"), 0);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_SESSION_TEST(receiver_converts_the_byte_order, rig_new("marshal"), open_host(r))
{
	static const struct {
		const char *reply, *delivered;
		unsigned swapped;
	} replies[] = {
		{ OTHER "04 01020304 05060708", "04030201 08070605", 1 },
		{ OTHER "02 01020304 050607", "02010403 060507", 1 },
		{ OTHER "08 0102030405060708 0102", "0807060504030201 0102", 1 },
		{ OTHER "01 010203", "010203", 0 },
		{ OTHER "04 010203", "010203", 0 },
		{ OTHER "04 | 0102 | 030405 | 06070809", "04030201 08070605 09", 1 },
		{ OTHER "04", "", 0 },
		{ OWN "08 0102030405060708", "0102030405060708", 0 },
	};
	unsigned swapped = 0;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(replies); i++) {
		rig_expect_call_sent(r, s, "", OWN "04");
		rig_end_call(r, 0, replies[i].reply);
		CHECK_EQ(rig_call_status(r, i), 0);
		rig_expect_delivered(r, replies[i].delivered);
		swapped += replies[i].swapped;
		CHECK_EQ(rig_counter(r, "swapped"), swapped);
	}
}

RIG_SESSION_TEST(malformed_replies_are_dropped, rig_new("marshal"), open_host(r))
{
	static const struct {
		const char *reply, *drop;
	} replies[] = {
		{ "", "short" },
		{ OWN, "short" },
		{ "0204 01020304", "bad_order" },
		{ "ff04 01020304", "bad_order" },
		{ OWN "00 01020304", "bad_width" },
		{ OWN "03 01020304", "bad_width" },
		{ OTHER "10 01020304", "bad_width" },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(replies); i++) {
		long before = rig_counter(r, replies[i].drop);

		rig_call(r, s, "");
		rig_end_call(r, 0, replies[i].reply);
		CHECK_EQ(rig_call_status(r, i), -EBADMSG);
		CHECK_EQ(rig_counter(r, replies[i].drop), before + 1);
	}
	rig_expect_nothing_delivered(r);
	rig_forget(r);
}

RIG_SESSION_TEST(results_of_the_lower_protocol_are_passed_on, rig_new("marshal"), open_host(r))
{
	rig_call(r, s, "c3");
	rig_end_call(r, -ETIMEDOUT, NULL);
	CHECK_EQ(rig_call_status(r, 0), -ETIMEDOUT);
	rig_call_async(r, s, "c3");
	CHECK_EQ(rig_call_status(r, 1), -EOPNOTSUPP);
	rig_forget(r);
}

/* ---- server ---- */

RIG_TEST(server_need_not_know_its_callers_byte_order, rig_new("marshal"))
{
	CHECK_EQ(rig_inject_call(r, NULL, OWN "04 01"), -ECONNREFUSED);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(rig_open_enable(r, rig_to(5)), -EOPNOTSUPP);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_serve(r, 0, "01020304");
	CHECK_EQ(rig_inject_call(r, NULL, OTHER "04 a1a2a3a4 b1"), 0);
	rig_expect_delivered(r, "a4a3a2a1 b1");
	rig_expect_sent(r, OWN "04 01020304");
	CHECK_EQ(rig_inject_call(r, NULL, OWN "02 a1a2"), 0);
	rig_expect_delivered(r, "a1a2");
	rig_expect_sent(r, OWN "04 01020304");
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK_EQ(rig_inject_call(r, NULL, "0904 a1a2"), -EBADMSG);
	CHECK_EQ(rig_counter(r, "bad_order"), 1);
	rig_serve(r, 0, NULL);
	CHECK_EQ(rig_inject_call(r, NULL, OWN "02"), 0);
	rig_expect_delivered(r, "");
	rig_expect_sent(r, OWN "04");
	rig_serve(r, -EIO, NULL);
	CHECK_EQ(rig_inject_call(r, NULL, OWN "02"), -EIO);
	rig_forget(r);
}

RIG_SESSION_TEST(message_of_many_segments_is_converted,
		 rig_new_graph("wire:; marshal: wire; marshal.order=" OTHER_NAME "; user: marshal"), open_host(r))
{
	static char text[2 * 5003 + 16], swapped[2 * 5003 + 1];

	snprintf(text, sizeof(text), OTHER "04 | ");
	for (unsigned i = 0; i < 5003; i++) {
		snprintf(text + 7 + 2 * i, 3, "%02x", i % 251);
		snprintf(swapped + 2 * i, 3, "%02x", (i < 5000 ? i ^ 3 : i) % 251);
	}
	rig_call(r, s, "01020304");
	rig_expect_sent(r, OTHER "04 01020304"); /* as a host of the other byte order sends it */
	rig_end_call(r, 0, text);
	CHECK_EQ(rig_call_status(r, 0), 0);
	rig_expect_delivered(r, swapped);
	/* without a buffer for its second half */
	rig_call(r, s, "01020304");
	rig_limit_buffers(r, 4);
	rig_end_call(r, 0, text);
	rig_limit_buffers(r, UINT_MAX);
	CHECK_EQ(rig_call_status(r, 1), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	rig_forget(r);
}

TEST(impossible_settings_are_refused)
{
	CHECK_EQ(rig_refusal("wire:; marshal: wire; marshal.width=3; user: marshal"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; marshal: wire; marshal.order=middle; user: marshal"), -EINVAL);
}
