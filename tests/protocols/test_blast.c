/*
 * test_blast.c - BLAST's header, sessions, short messages, and the sending of long ones. test_blast_received.c has the other
 * end. It looks into the protocol where a number is about to wrap.
 */
#include <errno.h>
#include <limits.h>

#include "tests/protocols/blast_peer.h"

/* ---- short messages ---- */

TEST(blast_sends_a_short_message_in_one_frame_and_keeps_nothing)
{
	struct rig *r = new_rig("");
	struct xk_session *s = open_to(r, HOST);

	CHECK_EQ(rig_wire_remote(r), HOST);
	CHECK_EQ(push(r, s, "hello"), 0);
	rig_expect_sent(r, "00003000 00000000 00000005 0000 01 40 0000000000000000 68656c6c6f");
	CHECK_EQ(push(r, s, ""), 0);
	rig_expect_sent(r, "00003000 00000000 00000000 0000 01 40 0000000000000000");
	nack(r, 1, 1);
	CHECK_EQ(rig_counter(r, "nack_unknown"), 1);
	rig_advance_ms(r, 5000);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "long_out"), 0);
	CHECK_EQ(rig_counter(r, "expired"), 0);
	rig_free(r);
}

TEST(blast_delivers_a_short_message)
{
	struct rig *r = new_server("");

	rig_inject(r, "00003000 00000000 00000002 0000 01 40 0000000000000000 6869 000000");
	expect_delivered(r, "hi"); /* without Ethernet's padding */
	rig_inject(r, "00003000 00000000 00000000 0000 01 40 0000000000000000");
	expect_delivered(r, "");
	CHECK_EQ(rig_open_dones(r), 1);
	CHECK_EQ(rig_drops(r), 0);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(blast_message_of_one_fragment_is_short_and_one_byte_more_is_long)
{
	struct rig *r = new_rig("");
	struct xk_session *s = open_to(r, HOST);
	struct frame f;

	CHECK_EQ(push(r, s, "0123456789"), 0);
	f = sent(r);
	CHECK_EQ(f.sequence, 0);
	CHECK_EQ(f.len, 10);
	CHECK_EQ(push(r, s, "0123456789a"), 0);
	expect_of(r, "0123456789a", BLAST_SEND, 0);
	expect_of(r, "0123456789a", BLAST_SEND, 1);
	rig_expect_nothing_sent(r);
	end(r);
}

TEST(blast_short_message_needs_a_buffer_for_its_header)
{
	struct rig *r = new_rig("");
	struct xk_session *s = open_to(r, HOST);
	struct xk_msg *m = xk_msg_from(rig_platform(r), "x", 1), *shared;

	REQUIRE(m != NULL);
	shared = xk_msg_reference(m);
	rig_limit_buffers(r, 0);
	CHECK_EQ(xk_push(s, m), -ENOBUFS);
	rig_limit_buffers(r, UINT_MAX);
	xk_msg_free(shared);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	rig_free(r);
}

/* ---- long messages ---- */

TEST(blast_sends_a_long_message_in_fragments)
{
	struct rig *r = new_rig("");
	struct xk_session *s = open_to(r, HOST);
	uint32_t sequence = push_message(r, s);

	CHECK_EQ(rig_counter(r, "long_out"), 1);
	CHECK_EQ(push_message(r, s), sequence == UINT32_MAX ? 1 : sequence + 1);
	CHECK_EQ(rig_drops(r), 0);
	end(r);
}

TEST(blast_sends_sixty_four_fragments_and_no_more)
{
	struct rig *r = new_rig("");
	struct xk_session *s = open_to(r, HOST);
	uint32_t longest = 0;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &longest, sizeof(longest)), sizeof(longest));
	CHECK_EQ(longest, 640);
	CHECK_EQ(rig_push_pattern(r, s, longest + 1), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_push_pattern(r, s, longest), 0);
	CHECK_EQ(rig_sent(r), 64);
	for (unsigned i = 0; i < 64; i++)
		CHECK_EQ(sent(r).mask, UINT64_C(1) << i);
	end(r);
}

/* ---- NACKs ---- */

TEST(blast_sends_one_missing_fragment_again)
{
	struct rig *r = new_rig("");
	uint32_t sequence = push_message(r, open_to(r, HOST));

	nack(r, sequence, 5);
	CHECK_EQ(expect(r, BLAST_RETRANSMIT, 1), sequence);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "nacks_in"), 1);
	CHECK_EQ(rig_counter(r, "retransmitted"), 1);
	CHECK_EQ(rig_drops(r), 0);
	end(r);
}

TEST(blast_sends_all_missing_fragments_again)
{
	struct rig *r = new_rig("");
	uint32_t sequence = push_message(r, open_to(r, HOST));

	nack(r, sequence, 2);
	CHECK_EQ(expect(r, BLAST_RETRANSMIT, 0), sequence);
	CHECK_EQ(expect(r, BLAST_RETRANSMIT, 2), sequence);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "retransmitted"), 2);
	end(r);
}

TEST(blast_obeys_nacks_again_and_again_but_not_at_once)
{
	struct rig *r = new_rig("nack_min=4ms");
	uint32_t sequence = push_message(r, open_to(r, HOST));

	rig_advance_ms(r, 1);
	nack(r, sequence, 3);
	expect(r, BLAST_RETRANSMIT, 2);
	nack(r, sequence, 3); /* a duplicate */
	rig_advance_ms(r, 1);
	nack(r, sequence, 3);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "nack_early"), 2);
	rig_advance_ms(r, 1);
	nack(r, sequence, 3);
	expect(r, BLAST_RETRANSMIT, 2);
	CHECK_EQ(rig_counter(r, "nacks_in"), 2);
	end(r);
}

TEST(blast_counts_nacks_for_what_it_does_not_keep)
{
	struct rig *r = new_rig("keep=500ms");
	uint32_t sequence = push_message(r, open_to(r, HOST));

	nack(r, sequence + 1 == 0 ? 1 : sequence + 1, 1);
	CHECK_EQ(rig_counter(r, "nack_unknown"), 1);
	rig_advance_ms(r, 499);
	CHECK_EQ(rig_counter(r, "expired"), 0);
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_counter(r, "expired"), 1);
	nack(r, sequence, 1);
	CHECK_EQ(rig_counter(r, "nack_unknown"), 2);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(blast_takes_nacks_from_the_peer_alone)
{
	struct rig *r = new_server("");
	uint32_t sequence = push_message(r, open_to(r, HOST));
	struct frame f = nack_of(sequence, 3, 1);

	rig_wire_peer(r, STRANGER);
	nack(r, sequence, 1);
	CHECK_EQ(rig_counter(r, "nack_strange"), 1);
	rig_wire_peer(r, HOST); /* another session below with the peer, as over VNET */
	f.fragments = 4;
	inject(r, &f);
	f.fragments = 3;
	f.protocol = NUMBER + 1;
	inject(r, &f);
	CHECK_EQ(rig_counter(r, "nack_strange"), 3);
	rig_expect_nothing_sent(r);
	nack(r, sequence, 1);
	expect(r, BLAST_RETRANSMIT, 1);
	expect(r, BLAST_RETRANSMIT, 2);
	end(r);
}

/* Where a session below does not know its peer's host, link addresses are compared. */
TEST(blast_knows_the_peer_by_its_link_address)
{
	struct rig *r = new_server("");
	uint32_t sequence = push_message(r, open_to(r, HOST));

	rig_answer(r, XK_GET_PEER_HOST, "", 0); /* no address */
	rig_wire_peer(r, STRANGER);
	nack(r, sequence, 1);
	CHECK_EQ(rig_counter(r, "nack_strange"), 1);
	rig_wire_peer(r, HOST);
	nack(r, sequence, 3);
	expect(r, BLAST_RETRANSMIT, 2);
	rig_answer(r, XK_GET_PEER_LINK, "", 0);
	rig_wire_peer(r, HOST); /* nobody knows who this is */
	nack(r, sequence, 3);
	CHECK_EQ(rig_counter(r, "nack_strange"), 2);
	rig_expect_nothing_sent(r);
	end(r);
}

TEST(blast_keeps_a_message_longer_while_it_is_asked_for)
{
	struct rig *r = new_rig("keep=400ms give_up=1s");
	uint32_t sequence = push_message(r, open_to(r, HOST));

	for (unsigned i = 0; i < 3; i++) {
		rig_advance_ms(r, 300);
		nack(r, sequence, 3);
		expect(r, BLAST_RETRANSMIT, 2);
	}
	rig_advance_ms(r, 99);
	CHECK_EQ(rig_counter(r, "expired"), 0);
	rig_advance_ms(r, 1); /* a second in all */
	CHECK_EQ(rig_counter(r, "expired"), 1);
	nack(r, sequence, 3);
	CHECK_EQ(rig_counter(r, "nack_unknown"), 1);
	rig_free(r);
}

TEST(blast_keeps_messages_as_long_as_nacks_have_taken)
{
	struct rig *r = new_rig("keep=800ms");
	struct xk_session *s = open_to(r, HOST);

	for (unsigned i = 0; i < 20; i++) {
		uint32_t sequence = push_message(r, s);

		rig_advance_ms(r, 2);
		nack(r, sequence, 3);
		expect(r, BLAST_RETRANSMIT, 2);
		rig_advance_ms(r, 1000);
		CHECK_EQ(rig_counter(r, "expired"), i + 1);
	}
	push_message(r, s);
	rig_advance_ms(r, 49); /* a sixteenth, the least */
	CHECK_EQ(rig_counter(r, "expired"), 20);
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_counter(r, "expired"), 21);
	rig_free(r);
}

/* ---- tickets ---- */

struct pushing {
	struct rig *rig;
	struct xk_session *session;
	struct xk_ticket ticket;
	const char *text;
	int status;
};

static void
push_ticketed(void *argument)
{
	struct pushing *p = argument;
	struct xk_msg *m = xk_msg_from(rig_platform(p->rig), p->text, strlen(p->text));

	REQUIRE(m != NULL);
	xk_ticket_put(m, &p->ticket);
	p->status = xk_push(p->session, m);
}

static void
release(void *argument)
{
	xk_ticket_release(&((struct pushing *)argument)->ticket);
}

TEST(blast_frees_a_message_early_by_its_ticket)
{
	struct rig *r = new_rig("");
	struct pushing p = { r, open_to(r, HOST), { NULL, 0, 0 }, message, -1 };

	REQUIRE(rig_do(r, push_ticketed, &p));
	CHECK_EQ(p.status, 0);
	CHECK(p.ticket.keeper == p.session);
	CHECK_EQ(p.ticket.keeps_us, 1000000);
	CHECK_EQ(expect(r, BLAST_SEND, 0), p.ticket.number);
	rig_forget(r);
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 3);
	REQUIRE(rig_do(r, release, &p));
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
	CHECK(p.ticket.keeper == NULL);
	CHECK_EQ(rig_counter(r, "released"), 1);
	REQUIRE(rig_do(r, release, &p));
	rig_advance_ms(r, 5000);
	CHECK_EQ(rig_counter(r, "expired"), 0);
	rig_free(r);
}

TEST(blast_ticket_of_a_message_that_is_gone_releases_nothing)
{
	struct rig *r = new_rig("");
	struct pushing p = { r, open_to(r, HOST), { NULL, 0, 0 }, message, -1 };
	struct xk_session *other = open_to(r, OTHER);
	uint64_t number;

	REQUIRE(rig_do(r, push_ticketed, &p));
	number = p.ticket.number;
	CHECK_EQ(xk_control(other, XK_RELEASE, &number, sizeof(number)), 0); /* not its copy */
	CHECK_EQ(xk_control(other, XK_RELEASE, &number, 4), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "released"), 0);
	rig_advance_ms(r, 2000);
	CHECK_EQ(rig_counter(r, "expired"), 1);
	REQUIRE(rig_do(r, release, &p));
	CHECK_EQ(rig_counter(r, "released"), 0);
	rig_forget(r);
	rig_free(r);
}

TEST(blast_takes_no_ticket_for_what_it_does_not_keep)
{
	struct rig *r = new_rig("");
	struct pushing p = { r, open_to(r, HOST), { NULL, 0, 0 }, "short", -1 };

	REQUIRE(rig_do(r, push_ticketed, &p));
	CHECK(p.ticket.keeper == NULL);
	p.text = message;
	rig_fail_sending(r, -ENOBUFS);
	REQUIRE(rig_do(r, push_ticketed, &p));
	CHECK_EQ(p.status, -ENOBUFS);
	CHECK(p.ticket.keeper == NULL);
	rig_forget(r);
	rig_free(r);
}

/* ---- how much is kept ---- */

TEST(blast_push_waits_until_fewer_messages_are_kept)
{
	struct rig *r = new_rig("outstanding=2 keep=500ms");
	struct pushing p = { r, open_to(r, HOST), { NULL, 0, 0 }, message, -1 };

	push_message(r, p.session);
	rig_advance_ms(r, 100);
	push_message(r, open_to(r, OTHER));
	CHECK(!rig_do(r, push_ticketed, &p)); /* waits */
	rig_advance_ms(r, 399);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 1);
	CHECK_EQ(p.status, 0);
	CHECK_EQ(rig_sent(r), 3);
	CHECK(p.ticket.keeper != NULL);
	REQUIRE(rig_do(r, release, &p));
	end(r);
}

TEST(blast_push_fails_where_it_may_not_wait)
{
	struct rig *r = new_rig("implicit=fail outstanding=1");
	struct xk_session *s = open_to(r, HOST);

	push_message(r, s);
	CHECK_EQ(push(r, s, message), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_slot"), 1);
	rig_expect_nothing_sent(r);
	CHECK_EQ(push(r, s, "short"), 0); /* needs none */
	CHECK_EQ(rig_sent(r), 1);
	rig_forget(r);
	rig_advance_ms(r, 2000);
	push_message(r, s);
	end(r);
}

TEST(blast_peer_has_a_share_of_what_is_kept)
{
	struct rig *r = new_rig("implicit=fail outstanding=3 outstanding_peer=2");
	struct xk_session *s = open_to(r, HOST), *other = open_to(r, OTHER);

	push_message(r, s);
	push_message(r, s);
	CHECK_EQ(push(r, s, message), -ENOBUFS);
	push_message(r, other);
	CHECK_EQ(push(r, other, message), -ENOBUFS); /* three in all */
	CHECK_EQ(rig_counter(r, "no_slot"), 2);
	rig_advance_ms(r, 2000);
	CHECK_EQ(rig_counter(r, "expired"), 3);
	push_message(r, other); /* what failed has taken nobody's share */
	push_message(r, other);
	end(r);
}

TEST(blast_session_that_is_closed_keeps_its_messages)
{
	struct rig *r = new_rig("");
	struct xk_session *s = open_to(r, HOST);
	uint32_t sequence = push_message(r, s);

	rig_close(r, s);
	nack(r, sequence, 3);
	expect(r, BLAST_RETRANSMIT, 2);
	CHECK(rig_open(r, rig_to(HOST)) != NULL);
	end(r);
}

/* ---- what cannot be sent ---- */

TEST(blast_forgets_a_message_whose_first_fragment_does_not_go)
{
	struct rig *r = new_rig("outstanding=1");
	struct xk_session *s = open_to(r, HOST);

	rig_fail_sending(r, -EHOSTUNREACH);
	CHECK_EQ(push(r, s, message), -EHOSTUNREACH);
	CHECK_EQ(rig_counter(r, "long_out"), 0);
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
	rig_fail_sending(r, 0);
	push_message(r, s); /* the slot is free */
	end(r);
}

struct made {
	struct xk_session *session;
	struct xk_msg *m;
	int status;
};

static void
push_made(void *argument)
{
	struct made *made = argument;

	made->status = xk_push(made->session, made->m);
}

/* A later fragment that finds no buffer is asked for. Frames wait in the port until the end of the driver's turn. */
TEST(blast_counts_fragments_that_do_not_go)
{
	struct rig *r = rig_new_graph("port:; eth: port; blast: eth; user: blast");
	struct made made = { open_to(r, UINT64_C(0x0200000000aa)), NULL, 0 };
	unsigned partly = 0;

	for (unsigned buffers = 0; buffers < 20; buffers++) {
		long before = rig_counter(r, "unsent");
		bool is_partial;

		made.m = xk_msg_new(rig_platform(r), 4000);
		REQUIRE(made.m != NULL);
		memset(made.m->data, 0, made.m->len);
		memset(made.m->next->data, 0, made.m->next->len);
		rig_limit_buffers(r, buffers);
		REQUIRE(rig_do(r, push_made, &made));
		rig_limit_buffers(r, UINT_MAX);
		is_partial = rig_sent(r) == 1 || rig_sent(r) == 2;
		partly += is_partial;
		CHECK_EQ(made.status, rig_sent(r) > 0 ? 0 : -ENOBUFS);
		CHECK_EQ(rig_counter(r, "unsent") - before, is_partial);
		rig_forget(r);
	}
	CHECK(partly > 0);
	CHECK(rig_counter(r, "long_out") > partly);
	CHECK(rig_counter(r, "no_buffer") > 0); /* not even cut up */
	end(r);
}

TEST(blast_counts_what_cannot_be_sent_again)
{
	struct rig *r = new_rig("");
	uint32_t sequence = push_message(r, open_to(r, HOST));

	rig_fail_sending(r, -ENOBUFS);
	nack(r, sequence, 1);
	CHECK_EQ(rig_counter(r, "unsent"), 2);
	CHECK_EQ(rig_counter(r, "retransmitted"), 0);
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 1);
	nack(r, sequence, 1);
	CHECK_EQ(rig_sent(r), 2);
	end(r);
}

/* ---- numbers ---- */

TEST(blast_sequence_wraps_past_zero_and_past_what_is_kept)
{
	struct rig *r = new_rig("");
	struct blast *blast = (struct blast *)rig_protocol(r, "blast");
	struct xk_session *s = open_to(r, HOST);

	blast->sequence = UINT32_MAX;
	CHECK_EQ(push_message(r, s), UINT32_MAX);
	CHECK_EQ(push_message(r, s), 1);
	CHECK_EQ(push_message(r, s), 2);
	blast->sequence = UINT32_MAX; /* once around */
	CHECK_EQ(push_message(r, s), 3);
	nack(r, UINT32_MAX, 3);
	CHECK_EQ(expect(r, BLAST_RETRANSMIT, 2), UINT32_MAX);
	end(r);
}

/* Another boot begins elsewhere: what is left of a message from before must not become part of one of now. */
TEST(blast_numbers_begin_anywhere)
{
	uint32_t first[2];

	for (unsigned i = 0; i < 2; i++) {
		struct rig *r = new_rig("");

		first[i] = push_message(r, open_to(r, HOST));
		end(r);
	}
	CHECK(first[0] != first[1]);
	CHECK(first[0] != 1);
}

/* ---- sessions ---- */

TEST(blast_opened_again_gives_the_same_session)
{
	struct rig *r = rig_new_graph("port:; eth: port; blast: eth; user: blast; user2: blast");
	struct xk_session *s = open_to(r, UINT64_C(0x0200000000aa));

	CHECK(open_to(r, UINT64_C(0x0200000000aa)) == s);
	CHECK(open_to(r, UINT64_C(0x0200000000ab)) != s);
	rig_user(r, "user2");
	CHECK(open_to(r, UINT64_C(0x0200000000aa)) != s); /* another number */
	rig_free(r);
}

TEST(blast_opens_what_the_protocol_below_opens)
{
	struct rig *r = new_rig("");

	rig_wire_refuse(r, -ENETUNREACH);
	CHECK(rig_open(r, rig_to(HOST)) == NULL);
	CHECK_EQ(rig_error(r), -ENETUNREACH);
	rig_free(r);
}

TEST(blast_needs_room_for_its_header)
{
	struct rig *r = new_rig("");
	uint32_t below = BLAST_HEADER_LEN;

	rig_answer(r, XK_GET_OPT_PACKET, &below, sizeof(below));
	CHECK(rig_open(r, rig_to(HOST)) == NULL);
	CHECK_EQ(rig_error(r), -EMSGSIZE);
	CHECK_EQ(rig_wire_sessions(r), 0);
	rig_answer(r, XK_GET_OPT_PACKET, NULL, 0);
	rig_answer(r, XK_GET_MAX_PACKET, NULL, 0);
	CHECK(rig_open(r, rig_to(HOST)) == NULL);
	CHECK_EQ(rig_error(r), -ENOTSUP);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_inject(r, "00003000 00000000 00000000 0000 01 40 0000000000000000");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	rig_free(r);
}

TEST(blast_says_how_long_messages_may_be)
{
	struct rig *r = rig_new("blast");
	struct xk_session *s = open_to(r, HOST);
	uint32_t size = 0, jumbo = 65535;

	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &size, sizeof(size)), sizeof(size));
	CHECK_EQ(size, 1500 - BLAST_HEADER_LEN);
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &size, sizeof(size)), sizeof(size));
	CHECK_EQ(size, 64 * (1500 - BLAST_HEADER_LEN));
	CHECK_EQ(xk_control_protocol(rig_protocol(r, "blast"), XK_GET_MAX_PACKET, &size, sizeof(size)), sizeof(size));
	CHECK_EQ(size, 64 * (1500 - BLAST_HEADER_LEN));
	rig_answer(r, XK_GET_OPT_PACKET, &jumbo, sizeof(jumbo));
	s = open_to(r, OTHER);
	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &size, sizeof(size)), sizeof(size));
	CHECK_EQ(size, XK_MSG_MAX);
	rig_answer(r, XK_GET_OPT_PACKET, NULL, 0); /* then it is the longest that it carries */
	CHECK_EQ(xk_control_protocol(rig_protocol(r, "blast"), XK_GET_OPT_PACKET, &size, sizeof(size)), sizeof(size));
	CHECK_EQ(size, 1500 - BLAST_HEADER_LEN);
	rig_free(r);
}

/* Over VNET what nobody has enabled comes up the sessions that were opened. */
TEST(blast_enables_below_while_somebody_has_enabled_it)
{
	struct rig *r = new_rig("");

	CHECK_EQ(rig_wire_enables(r), 0);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	CHECK_EQ(rig_wire_enables(r), 1);
	rig_inject(r, "00003000 00000000 00000001 0000 01 40 0000000000000000 78");
	expect_delivered(r, "x");
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	CHECK_EQ(rig_wire_enables(r), 0);
	CHECK_EQ(rig_open_disable(r, anybody()), -ENOENT);
	rig_free(r);
}

TEST(blast_hears_its_peer_on_the_session_that_was_opened)
{
	struct rig *r = new_rig("");
	struct xk_session *s = open_to(r, HOST);

	rig_inject(r, "00003000 00000000 00000001 0000 01 40 0000000000000000 78");
	expect_delivered(r, "x");
	CHECK(rig_delivered_on(r) == s);
	rig_free(r);
}

TEST(blast_refused_by_the_hlp_drops)
{
	struct rig *r = new_server("");

	rig_refuse(r, -EPERM);
	rig_inject(r, "00003000 00000000 00000001 0000 01 40 0000000000000000 78");
	CHECK_EQ(rig_counter(r, "refused"), 1);
	rig_expect_nothing_delivered(r);
	rig_free(r);
}

TEST(blast_refuses_times_that_contradict_each_other)
{
	CHECK_EQ(rig_refusal("wire:; blast: wire; blast.keep=300ms; user: blast"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; blast: wire; blast.nack_min=301ms; user: blast"), -EINVAL);
}

/* ---- hostile headers ---- */

/* A frame that is right, but for one field: the reason that it is dropped for. */
static void
hostile(struct frame f, const char *reason)
{
	struct rig *r = new_server("");

	inject(r, &f);
	if (rig_counter(r, reason) != 1)
		fprintf(stderr, "\nop %u, sequence %u, %u fragments, mask %llx: not %s\n", f.op, f.sequence,
			f.fragments, (unsigned long long)f.mask, reason);
	CHECK_EQ(rig_counter(r, reason), 1);
	CHECK_EQ(rig_drops(r), 1);
	CHECK_EQ(rig_open_dones(r), 0);
	rig_expect_nothing_delivered(r);
	rig_advance_ms(r, 5000);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

#define HOSTILE(base, member, value, reason)                                                                           \
	do {                                                                                                           \
		struct frame hostile_frame = base;                                                                     \
		hostile_frame.member = (value);                                                                        \
		hostile(hostile_frame, reason);                                                                        \
	} while (0)

TEST(blast_drops_headers_of_no_honest_sender)
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
	HOSTILE(first, mask, 3, "bad_mask"); /* two of them */
	HOSTILE(first, mask, 8, "bad_mask"); /* the fourth of three */
	HOSTILE(first, mask, UINT64_C(1) << 63, "bad_mask");
	HOSTILE(first, length, 0, "bad_length");
	HOSTILE(first, length, 11, "bad_length");
	HOSTILE(first, length, BLAST_FRAGMENT_MAX + 1, "bad_length");
	HOSTILE(first, length, UINT32_MAX, "bad_length");
	HOSTILE(first, protocol, NUMBER + 1, "no_session");
	HOSTILE(first, op, BLAST_RETRANSMIT, "unknown");
	HOSTILE(ask, mask, 0, "bad_mask");
	HOSTILE(ask, mask, 7, "bad_mask"); /* everything is there */
	HOSTILE(ask, mask, 9, "bad_mask");
	HOSTILE(ask, fragments, 1, "bad_count");
	HOSTILE(ask, length, 1, "bad_length");
	HOSTILE(ask, fragments, 2, "nack_unknown");
}

TEST(blast_drops_frames_that_are_cut_off)
{
	struct rig *r = new_server("");

	rig_inject_prefixes(r, "00003000 00000000 00000001 0000 01 40 0000000000000000 78");
	CHECK_EQ(rig_counter(r, "short"), BLAST_HEADER_LEN);
	CHECK_EQ(rig_counter(r, "bad_length"), 1);
	rig_expect_nothing_delivered(r);
	rig_free(r);
}

TEST(blast_drops_for_want_of_a_buffer)
{
	struct rig *r = new_server("");

	rig_limit_buffers(r, 2);
	rig_inject(r, "00003000 00000000 0000 | 0001 0000 01 40 0000000000000000 78");
	rig_limit_buffers(r, UINT_MAX);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
	CHECK_EQ(rig_drops(r), 1);
	rig_free(r);
}

TEST(blast_reads_a_header_that_lies_in_two_segments)
{
	struct rig *r = new_server("");

	rig_inject(r, "00003000 00000000 0000 | 0001 0000 01 40 0000000000000000 78");
	expect_delivered(r, "x");
	rig_free(r);
}

/* No flipped bit of a fragment's header makes a message of it, or anything else that is not dropped or forgotten. */
TEST(blast_survives_flipped_bits)
{
	struct rig *r = new_server("");
	uint8_t bytes[BLAST_HEADER_LEN + SIZE] = { 0, 0, 0x30, 0, 0, 0, 0, 9, 0, 0, 0, 10, 0, 3, 1, 64, [23] = 1 };

	rig_inject_bytes(r, bytes, sizeof(bytes));
	rig_inject_flips(r, bytes, sizeof(bytes), 8 * BLAST_HEADER_LEN);
	CHECK_EQ(rig_delivered(r), 0);
	CHECK(rig_drops(r) > 100);
	end(r);
}
