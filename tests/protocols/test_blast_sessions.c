/* test_blast_sessions.c - BLAST's sessions, and headers that no honest sender makes. */
#include <errno.h>
#include <limits.h>

#include "tests/protocols/blast_peer.h"

/* ---- sessions ---- */

RIG_SESSION_TEST(blast_second_open_returns_the_same_session,
		 rig_new_graph("port:; eth: port; blast: eth; user: blast; user2: blast"),
		 open_to(r, UINT64_C(0x0200000000aa)))
{
	CHECK(open_to(r, UINT64_C(0x0200000000aa)) == s);
	CHECK(open_to(r, UINT64_C(0x0200000000ab)) != s);
	rig_user(r, "user2");
	CHECK(open_to(r, UINT64_C(0x0200000000aa)) != s); /* another number */
}

RIG_TEST(blast_open_succeeds_if_the_lower_open_does, new_rig(""))
{
	rig_wire_refuse(r, -ENETUNREACH);
	rig_expect_open_fails(r, rig_to(HOST), -ENETUNREACH);
}

RIG_TEST(blast_needs_room_for_its_header, new_rig(""))
{
	uint32_t below = BLAST_HEADER_LEN;

	rig_answer_control(r, XK_GET_OPT_PACKET, &below, sizeof(below));
	rig_expect_open_fails(r, rig_to(HOST), -EMSGSIZE);
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_answer_control(r, XK_GET_OPT_PACKET, NULL, 0);
	rig_answer_control(r, XK_GET_MAX_PACKET, NULL, 0);
	rig_expect_open_fails(r, rig_to(HOST), -ENOTSUP);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_inject(r, "00003000 00000000 00000000 0000 01 40 0000000000000000");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
}

RIG_SESSION_TEST(blast_reports_its_message_sizes, rig_new("blast"), open_to(r, HOST))
{
	uint32_t size = 0, jumbo = 65535;

	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &size), 0);
	CHECK_EQ(size, 1500 - BLAST_HEADER_LEN);
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &size), 0);
	CHECK_EQ(size, 64 * (1500 - BLAST_HEADER_LEN));
	CHECK_EQ(xk_control_protocol(rig_protocol(r, "blast"), XK_GET_MAX_PACKET, &size), 0);
	CHECK_EQ(size, 64 * (1500 - BLAST_HEADER_LEN));
	rig_answer_control(r, XK_GET_OPT_PACKET, &jumbo, sizeof(jumbo));
	s = open_to(r, OTHER);
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &size), 0);
	CHECK_EQ(size, XK_MSG_MAX);
	rig_answer_control(r, XK_GET_OPT_PACKET, NULL, 0); /* without an optimum, the maximum */
	CHECK_EQ(xk_control_protocol(rig_protocol(r, "blast"), XK_GET_OPT_PACKET, &size), 0);
	CHECK_EQ(size, 1500 - BLAST_HEADER_LEN);
}

/* Over VNET, messages that nobody has enabled arrive on opened sessions. */
RIG_TEST(blast_enables_below_while_it_is_enabled, new_rig(""))
{
	CHECK_EQ(rig_wire_enable_count(r), 0);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	CHECK_EQ(rig_wire_enable_count(r), 1);
	rig_inject(r, "00003000 00000000 00000001 0000 01 40 0000000000000000 78");
	expect_delivered(r, "x");
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	CHECK_EQ(rig_wire_enable_count(r), 0);
	CHECK_EQ(rig_open_disable(r, anybody()), -ENOENT);
}

RIG_SESSION_TEST(blast_delivers_on_the_opened_session, new_rig(""), open_to(r, HOST))
{
	rig_inject(r, "00003000 00000000 00000001 0000 01 40 0000000000000000 78");
	expect_delivered(r, "x");
	CHECK(rig_delivered_session(r) == s);
}

RIG_TEST(blast_drops_if_the_hlp_refuses, new_server(""))
{
	rig_refuse_sessions(r, -EPERM);
	rig_inject(r, "00003000 00000000 00000001 0000 01 40 0000000000000000 78");
	CHECK_EQ(rig_counter(r, "refused"), 1);
	rig_expect_nothing_delivered(r);
}

TEST(blast_refuses_contradictory_times)
{
	CHECK_EQ(rig_refusal("wire:; blast: wire; blast.keep=300ms; user: blast"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; blast: wire; blast.nack_min=301ms; user: blast"), -EINVAL);
}

/* ---- hostile headers ---- */

/* Checks that a frame with one wrong field is dropped for this reason. */
static void
hostile(struct frame f, const char *reason)
{
	struct rig *r = new_server("");

	inject(r, &f);
	if (rig_counter(r, reason) != 1)
		fprintf(stderr, "\nop %u, sequence %u, %u fragments, mask %llx: not %s\n", f.op, f.sequence,
			f.fragments, (unsigned long long)f.mask, reason);
	CHECK_EQ(rig_counter(r, reason), 1);
	CHECK_EQ(rig_drop_count(r), 1);
	CHECK_EQ(rig_open_done_count(r), 0);
	rig_expect_nothing_delivered(r);
	rig_expect_silence_ms(r, 5000);
	rig_free(r);
}

#define HOSTILE(base, member, value, reason)                                                                           \
	do {                                                                                                           \
		struct frame hostile_frame = base;                                                                     \
		hostile_frame.member = (value);                                                                        \
		hostile(hostile_frame, reason);                                                                        \
	} while (0)

TEST(blast_drops_impossible_headers)
{
	struct frame first = fragment(7, BLAST_SEND, 0), ask = nack_of(7, 3, 1);
	struct frame one = { NUMBER, 0, 1, 0, BLAST_SEND, BLAST_FRAGMENTS, 0, 1, "x" };

	HOSTILE(first, width, 0, "bad_width");
	HOSTILE(first, width, 32, "bad_width");
	HOSTILE(first, op, 0, "bad_op");
	HOSTILE(first, op, 4, "bad_op");
	HOSTILE(first, op, 255, "bad_op");
	HOSTILE(one, op, BLAST_NACK, "bad_op");
	HOSTILE(one, op, BLAST_RETRANSMIT, "bad_op");
	HOSTILE(one, fragments, 1, "bad_count");
	HOSTILE(one, mask, 1, "bad_mask");
	HOSTILE(one, length, 2, "bad_length");
	HOSTILE(one, length, UINT32_MAX, "bad_length");
	HOSTILE(first, fragments, 0, "bad_count");
	HOSTILE(first, fragments, 1, "bad_count");
	HOSTILE(first, fragments, 65, "bad_count");
	HOSTILE(first, fragments, 65535, "bad_count");
	HOSTILE(first, mask, 0, "bad_mask");
	HOSTILE(first, mask, 3, "bad_mask"); /* two bits */
	HOSTILE(first, mask, 8, "bad_mask"); /* the fourth of three */
	HOSTILE(first, mask, UINT64_C(1) << 63, "bad_mask");
	HOSTILE(first, length, 0, "bad_length");
	HOSTILE(first, length, 11, "bad_length");
	HOSTILE(first, length, BLAST_FRAGMENT_MAX + 1, "bad_length");
	HOSTILE(first, length, UINT32_MAX, "bad_length");
	HOSTILE(first, protocol, NUMBER + 1, "no_session");
	HOSTILE(first, op, BLAST_RETRANSMIT, "unknown");
	HOSTILE(ask, mask, 0, "bad_mask");
	HOSTILE(ask, mask, 7, "bad_mask"); /* nothing is missing */
	HOSTILE(ask, mask, 9, "bad_mask");
	HOSTILE(ask, fragments, 1, "bad_count");
	HOSTILE(ask, length, 1, "bad_length");
	HOSTILE(ask, fragments, 2, "nack_unknown");
}

RIG_TEST(blast_drops_truncated_frames, new_server(""))
{
	rig_inject_prefixes(r, "00003000 00000000 00000001 0000 01 40 0000000000000000 78");
	CHECK_EQ(rig_counter(r, "short"), BLAST_HEADER_LEN);
	CHECK_EQ(rig_counter(r, "bad_length"), 1);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(blast_drops_without_a_buffer, new_server(""))
{
	rig_limit_buffers(r, 2);
	rig_inject(r, "00003000 00000000 0000 | 0001 0000 01 40 0000000000000000 78");
	rig_limit_buffers(r, UINT_MAX);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	CHECK_EQ(rig_drop_count(r), 1);
}

RIG_TEST(blast_reads_a_header_in_two_segments, new_server(""))
{
	rig_inject(r, "00003000 00000000 0000 | 0001 0000 01 40 0000000000000000 78");
	expect_delivered(r, "x");
}

/*
 * No flipped bit in a fragment's header completes a message or has any other effect than a drop or an incomplete
 * message.
 */
BLAST_TEST(blast_survives_flipped_bits, new_server(""))
{
	uint8_t bytes[BLAST_HEADER_LEN + SIZE] = { 0, 0, 0x30, 0, 0, 0, 0, 9, 0, 0, 0, 10, 0, 3, 1, 64, [23] = 1 };

	rig_inject_bytes(r, bytes, sizeof(bytes));
	rig_inject_flips(r, bytes, sizeof(bytes), 8 * BLAST_HEADER_LEN);
	CHECK_EQ(rig_delivered(r), 0);
	CHECK(rig_drop_count(r) > 100);
}
