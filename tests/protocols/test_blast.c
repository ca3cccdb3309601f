/*
 * test_blast.c - BLAST's short messages, and sending of long ones. Receiving: test_blast_received.c; sessions and
 * headers: test_blast_sessions.c. Sets the protocol's sequence number where it is about to wrap.
 */
#include <errno.h>
#include <limits.h>

#include "tests/platform/lent.h"
#include "tests/protocols/blast_peer.h"

/* ---- short messages ---- */

RIG_SESSION_TEST(blast_sends_a_short_message_in_one_frame_and_keeps_none, new_rig(""), open_to(r, HOST))
{
	CHECK_EQ(rig_wire_remote(r), HOST);
	CHECK_EQ(push(r, s, "hello"), 0);
	rig_expect_sent(r, "00003000 00000000 00000005 0000 01 40 0000000000000000 68656c6c6f");
	CHECK_EQ(push(r, s, ""), 0);
	rig_expect_sent(r, "00003000 00000000 00000000 0000 01 40 0000000000000000");
	nack(r, 1, 1);
	CHECK_EQ(rig_counter(r, "nack_unknown"), 1);
	rig_expect_silence_ms(r, 5000);
	rig_expect_counts(r, "long_out=0 expired=0");
}

RIG_TEST(blast_delivers_a_short_message, new_server(""))
{
	rig_inject(r, "00003000 00000000 00000002 0000 01 40 0000000000000000 6869 000000");
	expect_delivered(r, "hi"); /* without Ethernet's padding */
	rig_inject(r, "00003000 00000000 00000000 0000 01 40 0000000000000000");
	expect_delivered(r, "");
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK_EQ(rig_drop_count(r), 0);
	rig_expect_nothing_sent(r);
}

BLAST_SESSION_TEST(blast_message_longer_than_a_fragment_is_long, new_rig(""), open_to(r, HOST))
{
	struct frame f;

	CHECK_EQ(push(r, s, "0123456789"), 0);
	f = sent(r);
	CHECK_EQ(f.sequence, 0);
	CHECK_EQ(f.len, 10);
	CHECK_EQ(push(r, s, "0123456789a"), 0);
	expect_of(r, "0123456789a", BLAST_SEND, 0);
	expect_of(r, "0123456789a", BLAST_SEND, 1);
	rig_expect_nothing_sent(r);
}

RIG_SESSION_TEST(blast_short_message_needs_a_buffer_for_its_header, new_rig(""), open_to(r, HOST))
{
	struct xk_msg *m = xk_msg_from(rig_platform(r), "x", 1), *shared;

	REQUIRE(m != NULL);
	shared = xk_msg_reference(m);
	rig_limit_buffers(r, 0);
	CHECK_EQ(xk_push(s, shared), -ENOBUFS);
	rig_limit_buffers(r, UINT_MAX);
	xk_msg_free(m);
	CHECK_EQ(rig_counter(r, "no_buffer"), 1);
}

/* ---- long messages ---- */

BLAST_SESSION_TEST(blast_sends_a_long_message_in_fragments, new_rig(""), open_to(r, HOST))
{
	uint32_t sequence = push_message(r, s);

	CHECK_EQ(rig_counter(r, "long_out"), 1);
	CHECK_EQ(push_message(r, s), sequence == UINT32_MAX ? 1 : sequence + 1);
	CHECK_EQ(rig_drop_count(r), 0);
}

BLAST_SESSION_TEST(blast_sends_at_most_sixty_four_fragments, new_rig(""), open_to(r, HOST))
{
	uint32_t longest = 0;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &longest), 0);
	CHECK_EQ(longest, 640);
	CHECK_EQ(rig_push_pattern(r, s, longest + 1), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_push_pattern(r, s, longest), 0);
	CHECK_EQ(rig_sent(r), 64);
	for (unsigned i = 0; i < 64; i++)
		CHECK_EQ(sent(r).mask, UINT64_C(1) << i);
}

/* ---- lent bytes ---- */

static const char lent[] = "0123456789abcdefghijABCDE"; /* as `message` */

static int
push_lent(struct rig *r, struct xk_session *s, _Atomic unsigned *ended)
{
	struct xk_msg *m = xk_msg_lend(rig_platform(r), lent, sizeof(lent) - 1, lent_ended, ended);

	REQUIRE(m != NULL);
	return xk_push(s, m);
}

TEST(blast_keeps_lent_bytes_until_acknowledged)
{
	struct rig *r = new_rig("");
	struct xk_session *s = open_to(r, HOST);
	_Atomic unsigned ended = 0;
	uint32_t sequence;

	CHECK_EQ(push_lent(r, s, &ended), 0);
	sequence = expect(r, BLAST_SEND, 0);
	expect(r, BLAST_SEND, 1);
	expect(r, BLAST_SEND, 2);
	CHECK_EQ(ended, 0);
	nack(r, sequence, 5);
	expect(r, BLAST_RETRANSMIT, 1);
	CHECK_EQ(ended, 0);
	nack(r, sequence, 7);
	end(r);
	CHECK_EQ(ended, 1);
	CHECK_STR(lent, message);
}

BLAST_TEST(blast_retransmits_one_missing_fragment, new_rig(""))
{
	uint32_t sequence = push_message(r, open_to(r, HOST));

	nack(r, sequence, 5);
	CHECK_EQ(expect(r, BLAST_RETRANSMIT, 1), sequence);
	rig_expect_nothing_sent(r);
	rig_expect_counts(r, "nacks_in=1 retransmitted=1");
	CHECK_EQ(rig_drop_count(r), 0);
}

BLAST_TEST(blast_retransmits_all_missing_fragments, new_rig(""))
{
	uint32_t sequence = push_message(r, open_to(r, HOST));

	nack(r, sequence, 2);
	CHECK_EQ(expect(r, BLAST_RETRANSMIT, 0), sequence);
	CHECK_EQ(expect(r, BLAST_RETRANSMIT, 2), sequence);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "retransmitted"), 2);
}

BLAST_TEST(blast_obeys_repeated_nacks_after_nack_min, new_rig("nack_min=4ms"))
{
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
}

RIG_TEST(blast_counts_nacks_for_messages_not_kept, new_rig("keep=500ms"))
{
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
}

BLAST_TEST(blast_accepts_nacks_only_from_the_peer, new_server(""))
{
	uint32_t sequence = push_message(r, open_to(r, HOST));
	struct frame f = nack_of(sequence, 3, 1);

	rig_wire_peer(r, STRANGER);
	nack(r, sequence, 1);
	CHECK_EQ(rig_counter(r, "nack_strange"), 1);
	rig_wire_peer(r, HOST); /* another lower session with the peer, as over VNET */
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
}

BLAST_TEST(blast_nack_never_revokes_a_reported_fragment, new_rig(""))
{
	uint32_t sequence = push_message(r, open_to(r, HOST));

	nack(r, sequence, 3);
	expect(r, BLAST_RETRANSMIT, 2);
	rig_advance_ms(r, 1);
	nack(r, sequence, 1); /* an earlier NACK has reported the second */
	expect(r, BLAST_RETRANSMIT, 2);
	rig_advance_ms(r, 1);
	nack(r, sequence, 4);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "nack_early"), 1);
}

/*
 * Sends 200 NACKs for a message, as fast as they are accepted. Returns the number of frames that they draw, and stores
 * the message bytes in these.
 */
static unsigned
ask_without_end(struct rig *r, uint32_t sequence, unsigned fragments, uint64_t mask, size_t *bytes)
{
	struct frame f = nack_of(sequence, fragments, mask);
	unsigned frames = 0;

	*bytes = 0;
	for (unsigned i = 0; i < 200; i++) {
		inject(r, &f);
		for (; rig_sent(r) > 0; frames++)
			*bytes += sent(r).len;
		rig_advance_ms(r, 1);
	}
	return frames;
}

BLAST_SESSION_TEST(blast_retransmits_a_message_at_most_three_times, new_rig(""), open_to(r, HOST))
{
	size_t bytes;
	uint32_t sequence;

	CHECK_EQ(rig_push_pattern(r, s, 640), 0);
	sequence = sent(r).sequence;
	rig_forget(r);
	CHECK_EQ(ask_without_end(r, sequence, 64, 1, &bytes), 3 * 64);
	CHECK_EQ(bytes, 3 * 640);
	CHECK(rig_counter(r, "nack_spent") > 100);
	CHECK(rig_counter(r, "withheld") > 100);
	CHECK_EQ(rig_counter(r, "nacks_in") + rig_counter(r, "nack_spent"), 200);
}

BLAST_SESSION_TEST(blast_retransmits_a_fragment_at_most_sixteen_times, new_rig(""), open_to(r, HOST))
{
	uint64_t all_but_one = UINT64_MAX << 1;
	size_t bytes;
	uint32_t sequence;

	CHECK_EQ(rig_push_pattern(r, s, 640), 0);
	sequence = sent(r).sequence;
	rig_forget(r);
	CHECK_EQ(ask_without_end(r, sequence, 64, all_but_one, &bytes), 16);
}

/* Each frame also has headers below BLAST, so the number of frames is limited as well as their bytes. */
BLAST_TEST(blast_retransmits_at_most_three_times_the_frames, new_rig(""))
{
	size_t bytes;
	uint32_t sequence = push_message(r, open_to(r, HOST));

	CHECK_EQ(ask_without_end(r, sequence, 3, 3, &bytes), 9); /* five-byte fragments */
}

/* Returns the number of fragments drawn by a NACK that reports only the first of 64. `number`: the protocol above. */
static unsigned
draw_of(struct rig *r, uint32_t sequence, uint32_t number)
{
	struct frame f = nack_of(sequence, 64, 1);
	unsigned drawn;

	f.protocol = number;
	inject(r, &f);
	drawn = rig_sent(r);
	rig_forget(r);
	return drawn;
}

static uint32_t
push_64(struct rig *r, struct xk_session *s)
{
	uint32_t sequence;

	CHECK_EQ(rig_push_pattern(r, s, 640), 0);
	sequence = sent(r).sequence;
	rig_forget(r);
	return sequence;
}

BLAST_TEST(blast_host_draws_one_message_at_once_over_all_protocols,
	   rig_new_graph("wire:; blast: wire; user: blast#1; user2: blast#2; blast.nack_min=20ms"))
{
	uint32_t first, second, third, other;

	shorten(r);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	first = push_64(r, open_to(r, HOST));
	second = push_64(r, open_to(r, HOST));
	rig_user(r, "user2");
	third = push_64(r, open_to(r, HOST));
	other = push_64(r, open_to(r, OTHER));
	CHECK_EQ(draw_of(r, other, 2), 63);
	rig_wire_peer(r, HOST);
	CHECK_EQ(draw_of(r, first, 1), 63);
	CHECK_EQ(draw_of(r, third, 2), 1);
	CHECK_EQ(draw_of(r, second, 1), 0);
	CHECK_EQ(rig_counter(r, "nack_paced"), 1);
	CHECK_EQ(rig_counter(r, "withheld"), 62 + 63);
	rig_advance_ms(r, 10);
	CHECK_EQ(draw_of(r, second, 1), 32); /* after half of nack_min */
	rig_advance_ms(r, 20);
	CHECK_EQ(draw_of(r, second, 1), 63);
}

/* If a lower session does not know its peer's host, link addresses are compared. */
BLAST_TEST(blast_knows_the_peer_by_its_link_address, new_server(""))
{
	uint32_t sequence = push_message(r, open_to(r, HOST));

	rig_answer_control(r, XK_GET_PEER_HOST, NULL, 0); /* no address */
	rig_wire_peer(r, STRANGER);
	nack(r, sequence, 1);
	CHECK_EQ(rig_counter(r, "nack_strange"), 1);
	rig_wire_peer(r, HOST);
	nack(r, sequence, 3);
	expect(r, BLAST_RETRANSMIT, 2);
	rig_answer_control(r, XK_GET_PEER_LINK, NULL, 0);
	rig_wire_peer(r, HOST); /* unknown peer */
	nack(r, sequence, 3);
	CHECK_EQ(rig_counter(r, "nack_strange"), 2);
	rig_expect_nothing_sent(r);
}

RIG_TEST(blast_keeps_a_message_longer_while_nacks_arrive, new_rig("keep=400ms give_up=1s"))
{
	uint32_t sequence = push_message(r, open_to(r, HOST));

	for (unsigned i = 0; i < 3; i++) {
		rig_advance_ms(r, 300);
		nack(r, sequence, 3);
		expect(r, BLAST_RETRANSMIT, 2);
	}
	rig_advance_ms(r, 99);
	CHECK_EQ(rig_counter(r, "expired"), 0);
	rig_advance_ms(r, 1); /* a second in total */
	CHECK_EQ(rig_counter(r, "expired"), 1);
	nack(r, sequence, 3);
	CHECK_EQ(rig_counter(r, "nack_unknown"), 1);
}

RIG_SESSION_TEST(blast_adapts_the_time_that_messages_are_kept, new_rig("keep=800ms"), open_to(r, HOST))
{
	for (unsigned i = 0; i < 20; i++) {
		uint32_t sequence = push_message(r, s);

		rig_advance_ms(r, 2);
		nack(r, sequence, 3);
		expect(r, BLAST_RETRANSMIT, 2);
		rig_advance_ms(r, 1000);
		CHECK_EQ(rig_counter(r, "expired"), i + 1);
	}
	push_message(r, s);
	rig_advance_ms(r, 49); /* a sixteenth: the minimum */
	CHECK_EQ(rig_counter(r, "expired"), 20);
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_counter(r, "expired"), 21);
}

/* If frames are lost, the peer's NACKs back off. */
RIG_SESSION_TEST(blast_keeps_a_message_for_the_full_time_after_a_nack, new_rig("keep=800ms"), open_to(r, HOST))
{
	for (unsigned i = 0; i < 20; i++) {
		uint32_t sequence = push_message(r, s);

		rig_advance_ms(r, 2);
		nack(r, sequence, 3);
		expect(r, BLAST_RETRANSMIT, 2);
		rig_advance_ms(r, 799);
		CHECK_EQ(rig_counter(r, "expired"), i);
		rig_advance_ms(r, 1);
	}
	CHECK_EQ(rig_counter(r, "expired"), 20);
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

RIG_TEST(blast_frees_a_message_early_by_its_ticket, new_rig(""))
{
	struct pushing p = { r, open_to(r, HOST), { .keeper = NULL }, message, -1 };

	REQUIRE(rig_do(r, push_ticketed, &p));
	CHECK_EQ(p.status, 0);
	CHECK(p.ticket.keeper == p.session);
	CHECK_EQ(p.ticket.keeps_us, 1000000);
	CHECK_EQ(expect(r, BLAST_SEND, 0), p.ticket.number);
	rig_forget(r);
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 1);
	REQUIRE(rig_do(r, release, &p));
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
	CHECK(p.ticket.keeper == NULL);
	CHECK_EQ(rig_counter(r, "released"), 1);
	REQUIRE(rig_do(r, release, &p));
	rig_advance_ms(r, 5000);
	CHECK_EQ(rig_counter(r, "expired"), 0);
}

/* A push of 64 fragments, perhaps a retransmission; status: the result of xk_push. */
struct repeating {
	struct rig *rig;
	struct xk_session *session;
	bool again;
	int status;
	uint32_t sequence;
};

static void
push_repeated(void *argument)
{
	struct repeating *p = argument;
	struct xk_ticket ticket = { .no_wait = true, .again = p->again };
	struct xk_msg *m = xk_msg_new(rig_platform(p->rig), 640);

	REQUIRE(m != NULL);
	memset(m->data, 0, m->len);
	xk_ticket_put(m, &ticket);
	p->status = xk_push(p->session, m);
	if (ticket.keeper != NULL)
		xk_session_release(ticket.keeper);
}

static int
repeat(struct rig *r, struct repeating *p, bool again)
{
	p->rig = r;
	p->again = again;
	REQUIRE(rig_do(r, push_repeated, p));
	if (p->status == 0)
		p->sequence = sent(r).sequence;
	rig_expect_sent_count(r, p->status == 0 ? 63 : 0);
	return p->status;
}

BLAST_TEST(blast_message_pushed_again_counts_as_retransmitted, new_rig(""))
{
	struct repeating p = { .session = open_to(r, HOST) };

	CHECK_EQ(repeat(r, &p, false), 0);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(repeat(r, &p, true), 0);
	CHECK_EQ(repeat(r, &p, true), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "repeat_spent"), 1);
	CHECK_EQ(draw_of(r, p.sequence, NUMBER), 0);
	CHECK_EQ(rig_counter(r, "nack_spent"), 1);
	CHECK_EQ(repeat(r, &p, false), 0); /* earns three more */
	rig_advance_ms(r, 20);
	CHECK_EQ(draw_of(r, p.sequence, NUMBER), 63);
	CHECK_EQ(repeat(r, &p, true), 0);
	CHECK_EQ(repeat(r, &p, true), 0);
	CHECK_EQ(repeat(r, &p, true), -ENOBUFS);
}

/* It may have gone to another station before: the peer has moved. */
BLAST_TEST(blast_message_pushed_again_to_a_new_peer_counts_as_new, new_rig(""))
{
	struct repeating p = { .session = open_to(r, HOST) };

	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ(repeat(r, &p, true), 0);
	CHECK_EQ(repeat(r, &p, true), -ENOBUFS);
	for (unsigned s = 0; s < 30; s++)
		rig_advance_ms(r, 1000);
	CHECK_EQ(repeat(r, &p, true), -ENOBUFS); /* less than a minute ago */
	for (unsigned s = 0; s < 60; s++)
		rig_advance_ms(r, 1000);
	CHECK_EQ(repeat(r, &p, true), 0);
}

RIG_TEST(blast_ticket_of_a_freed_message_releases_nothing, new_rig(""))
{
	struct pushing p = { r, open_to(r, HOST), { .keeper = NULL }, message, -1 };
	struct xk_session *other = open_to(r, OTHER);
	uint64_t number;

	REQUIRE(rig_do(r, push_ticketed, &p));
	number = p.ticket.number;
	CHECK_EQ(xk_control(other, XK_RELEASE, &number), 0); /* the ticket, not the copy */
	CHECK_EQ(rig_counter(r, "released"), 0);
	rig_advance_ms(r, 2000);
	CHECK_EQ(rig_counter(r, "expired"), 1);
	REQUIRE(rig_do(r, release, &p));
	CHECK_EQ(rig_counter(r, "released"), 0);
	rig_forget(r);
}

RIG_TEST(blast_fills_no_ticket_for_a_message_not_kept, new_rig(""))
{
	struct pushing p = { r, open_to(r, HOST), { .keeper = NULL }, "short", -1 };

	REQUIRE(rig_do(r, push_ticketed, &p));
	CHECK(p.ticket.keeper == NULL);
	p.text = message;
	rig_fail_sending(r, -ENOBUFS);
	REQUIRE(rig_do(r, push_ticketed, &p));
	CHECK_EQ(p.status, -ENOBUFS);
	CHECK(p.ticket.keeper == NULL);
	rig_forget(r);
}

/* ---- limits on kept messages ---- */

BLAST_TEST(blast_push_waits_until_fewer_messages_are_kept, new_rig("outstanding=2 keep=500ms"))
{
	struct pushing p = { r, open_to(r, HOST), { .keeper = NULL }, message, -1 };

	push_message(r, p.session);
	rig_advance_ms(r, 100);
	push_message(r, open_to(r, OTHER));
	CHECK(!rig_do(r, push_ticketed, &p)); /* waits */
	rig_expect_silence_ms(r, 399);
	rig_advance_ms(r, 1);
	CHECK_EQ(p.status, 0);
	CHECK_EQ(rig_sent(r), 3);
	CHECK(p.ticket.keeper != NULL);
	REQUIRE(rig_do(r, release, &p));
}

BLAST_SESSION_TEST(blast_push_fails_if_it_may_not_wait, new_rig("implicit=fail outstanding=1"), open_to(r, HOST))
{
	push_message(r, s);
	CHECK_EQ(push(r, s, message), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "no_slot"), 1);
	rig_expect_nothing_sent(r);
	CHECK_EQ(push(r, s, "short"), 0); /* needs none */
	rig_expect_sent_count(r, 1);
	rig_advance_ms(r, 2000);
	push_message(r, s);
}

BLAST_TEST(blast_peer_has_a_share_of_kept_messages, new_rig("implicit=fail outstanding=3 outstanding_peer=2"))
{
	struct xk_session *s = open_to(r, HOST), *other = open_to(r, OTHER);

	push_message(r, s);
	push_message(r, s);
	CHECK_EQ(push(r, s, message), -ENOBUFS);
	push_message(r, other);
	CHECK_EQ(push(r, other, message), -ENOBUFS); /* three in total */
	CHECK_EQ(rig_counter(r, "no_slot"), 2);
	rig_advance_ms(r, 2000);
	CHECK_EQ(rig_counter(r, "expired"), 3);
	push_message(r, other); /* a push that fails takes no share */
	push_message(r, other);
}

/* Pushes without waiting. Returns the sequence number. */
static uint32_t
push_at_once(struct rig *r, struct xk_session *s)
{
	struct pushing p = { r, s, { .no_wait = true }, message, -1 };
	uint32_t sequence;

	REQUIRE(rig_do(r, push_ticketed, &p));
	CHECK_EQ(p.status, 0);
	if (p.ticket.keeper != NULL)
		xk_session_release(p.ticket.keeper);
	sequence = expect(r, BLAST_SEND, 0);
	rig_forget(r);
	return sequence;
}

/* Returns true if the message of this sequence number to host is kept. */
static bool
is_kept(struct rig *r, uint64_t host, uint32_t sequence)
{
	bool kept;

	rig_wire_peer(r, host);
	nack(r, sequence, 3);
	kept = rig_sent(r) == 1;
	rig_forget(r);
	return kept;
}

BLAST_TEST(blast_nonwaiting_push_evicts_the_largest_owners_oldest, new_server("outstanding=4 outstanding_peer=4"))
{
	struct xk_session *s = open_to(r, HOST), *other = open_to(r, OTHER);
	uint32_t host[3], others[2];

	others[0] = push_at_once(r, other);
	for (unsigned i = 0; i < 3; i++)
		host[i] = push_at_once(r, s);
	CHECK_EQ(rig_counter(r, "displaced"), 0);
	others[1] = push_at_once(r, other);
	CHECK_EQ(rig_counter(r, "displaced"), 1);
	CHECK(!is_kept(r, HOST, host[0]));
	CHECK(is_kept(r, HOST, host[1]) && is_kept(r, HOST, host[2]));
	CHECK(is_kept(r, OTHER, others[0]) && is_kept(r, OTHER, others[1]));
	rig_advance_ms(r, 1);
	push_at_once(r, s); /* each has two */
	CHECK(!is_kept(r, HOST, host[1]));
	CHECK(is_kept(r, OTHER, others[0]) && is_kept(r, OTHER, others[1]));
	rig_expect_counts(r, "displaced=2 unkept=0");
}

BLAST_SESSION_TEST(blast_host_at_its_share_loses_its_oldest_copy, new_server("outstanding=4 outstanding_peer=2"),
		   open_to(r, HOST))
{
	uint32_t host[3];

	for (unsigned i = 0; i < 3; i++)
		host[i] = push_at_once(r, s);
	CHECK_EQ(rig_counter(r, "displaced"), 1);
	CHECK(!is_kept(r, HOST, host[0]));
	CHECK(is_kept(r, HOST, host[1]) && is_kept(r, HOST, host[2]));
}

/* Returns the session opened by a stranger's message. */
static struct xk_session *
stranger(struct rig *r, uint64_t host)
{
	rig_wire_peer(r, host);
	rig_inject(r, "00003000 00000000 00000001 0000 01 40 0000000000000000 78");
	rig_forget(r);
	return rig_announced_session(r);
}

BLAST_TEST(blast_strangers_have_one_share_together, new_server("outstanding=8 outstanding_peer=2"))
{
	uint32_t host = push_at_once(r, open_to(r, HOST)), first, last = 0;

	first = push_at_once(r, stranger(r, STRANGER));
	for (unsigned i = 1; i < 10; i++)
		last = push_at_once(r, stranger(r, STRANGER + i));
	CHECK_EQ(rig_counter(r, "displaced"), 8);
	CHECK(!is_kept(r, STRANGER, first));
	CHECK(is_kept(r, HOST, host));
	CHECK(is_kept(r, STRANGER + 9, last)); /* this confirms the host, which then has a share of its own */
	rig_wire_peer(r, STRANGER + 9);
	last = push_at_once(r, stranger(r, STRANGER + 9));
	CHECK_EQ(rig_counter(r, "displaced"), 8);
	CHECK(is_kept(r, STRANGER + 9, last));
}

/* The waiting push gets the next free slot. */
BLAST_TEST(blast_nonwaiting_push_without_a_slot_is_sent_once, new_server("outstanding=1"))
{
	struct xk_session *s = open_to(r, HOST), *other = open_to(r, OTHER);
	struct pushing waits = { r, other, { .keeper = NULL }, "0123456789x", -1 };
	uint32_t unkept;

	push_at_once(r, s);
	CHECK(!rig_do(r, push_ticketed, &waits));
	unkept = push_at_once(r, s);
	CHECK_EQ(waits.status, 0);
	CHECK(waits.ticket.keeper != NULL);
	rig_expect_counts(r, "unkept=1 no_slot=0");
	CHECK(!is_kept(r, HOST, unkept));
	REQUIRE(rig_do(r, release, &waits));
}

BLAST_SESSION_TEST(blast_closed_session_keeps_its_messages, new_rig(""), open_to(r, HOST))
{
	uint32_t sequence = push_message(r, s);

	rig_close(r, s);
	nack(r, sequence, 3);
	expect(r, BLAST_RETRANSMIT, 2);
	CHECK(rig_open(r, rig_to(HOST)) != NULL);
}

/* ---- messages that cannot be sent ---- */

BLAST_SESSION_TEST(blast_forgets_a_message_if_its_first_fragment_fails, new_rig("outstanding=1"), open_to(r, HOST))
{
	rig_fail_sending(r, -EHOSTUNREACH);
	CHECK_EQ(push(r, s, message), -EHOSTUNREACH);
	CHECK_EQ(rig_counter(r, "long_out"), 0);
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
	rig_fail_sending(r, 0);
	push_message(r, s); /* the slot is free */
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

/*
 * A later fragment without a buffer is requested by NACK. Frames wait in the port until the end of the driver's turn.
 */
BLAST_TEST(blast_counts_fragments_that_fail, rig_new_graph("port:; eth: port; blast: eth; user: blast"))
{
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
	CHECK(rig_counter(r, "no_buffer") > 0); /* no buffer for a fragment's header either */
}

BLAST_TEST(blast_counts_failed_retransmissions, new_rig(""))
{
	uint32_t sequence = push_message(r, open_to(r, HOST));

	rig_fail_sending(r, -ENOBUFS);
	nack(r, sequence, 1);
	rig_expect_counts(r, "unsent=2 retransmitted=0");
	rig_fail_sending(r, 0);
	rig_advance_ms(r, 1);
	nack(r, sequence, 1);
	CHECK_EQ(rig_sent(r), 2);
}

/* ---- numbers ---- */

BLAST_SESSION_TEST(blast_sequence_skips_zero_and_kept_messages, new_rig(""), open_to(r, HOST))
{
	struct blast_session *session = (struct blast_session *)s;

	session->sequence = UINT32_MAX;
	CHECK_EQ(push_message(r, s), UINT32_MAX);
	CHECK_EQ(push_message(r, s), 1);
	CHECK_EQ(push_message(r, s), 2);
	session->sequence = UINT32_MAX; /* once around */
	CHECK_EQ(push_message(r, s), 3);
	nack(r, UINT32_MAX, 3);
	CHECK_EQ(expect(r, BLAST_RETRANSMIT, 2), UINT32_MAX);
}

/* A peer cannot derive the number of a message to another peer from its own. */
BLAST_TEST(blast_sequence_numbers_do_not_reveal_other_peers, new_rig(""))
{
	uint32_t mine = push_message(r, open_to(r, HOST)), others = push_message(r, open_to(r, OTHER));

	CHECK(others - mine + 1000 > 2000);
}

/* Each boot begins elsewhere: fragments left over from a former boot must not become part of a new message. */
TEST(blast_sequence_numbers_begin_at_random)
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
