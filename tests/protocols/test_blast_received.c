/*
 * test_blast_received.c - BLAST's receiving of long messages: NACKs and their times, and the messages remembered. Time
 * is virtual.
 */
#include <errno.h>
#include <limits.h>

#include "tests/protocols/blast_peer.h"

enum { FIRST = 1, SECOND = 2, THIRD = 4 };

/* Returns a server with a session to the peer, which is therefore no stranger. */
static struct rig *
new_known(const char *settings)
{
	struct rig *r = new_server(settings);

	open_to(r, HOST);
	return r;
}

/* ---- whole messages ---- */

RIG_TEST(blast_reassembles_fragments, new_server(""))
{
	for (unsigned i = 0; i < 3; i++) {
		rig_expect_nothing_delivered(r);
		inject_fragment(r, 7, BLAST_SEND, i);
	}
	expect_delivered(r, message);
	CHECK_EQ(rig_counter(r, "long_in"), 1);
	rig_expect_silence_ms(r, 5000);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(blast_reassembles_fragments_out_of_order, new_server(""))
{
	inject_fragments(r, 7, BLAST_SEND, "20");
	rig_expect_nothing_delivered(r);
	inject_fragments(r, 7, BLAST_SEND, "1");
	expect_delivered(r, message);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(blast_reassembles_two_messages_at_a_time, new_server(""))
{
	static const char other[] = "ABCDEFGHIJ9876543210klmno";
	struct frame f;

	for (unsigned i = 0; i < 3; i++) {
		f = fragment_of(other, 8, BLAST_SEND, 2 - i);
		inject_fragment(r, 7, BLAST_SEND, i);
		inject(r, &f);
	}
	expect_delivered(r, message);
	expect_delivered(r, other);
	CHECK_EQ(rig_drop_count(r), 0);
}

BLAST_TEST(blast_keeps_messages_of_two_peers_apart, new_server(""))
{
	inject_fragments(r, 7, BLAST_SEND, "01");
	rig_wire_peer(r, STRANGER + 1);
	inject_fragments(r, 7, BLAST_SEND, "2");
	rig_expect_nothing_delivered(r);
	inject_fragments(r, 7, BLAST_SEND, "10");
	expect_delivered(r, message);
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_open_done_count(r), 2);
}

/* The message has as many fragments as the mask has bits. */
TEST(blast_reassembles_sixty_four_fragments)
{
	struct rig *sender = new_rig(""), *r = new_server("");
	uint8_t bytes[LEN];
	long len;

	CHECK_EQ(rig_push_pattern(sender, open_to(sender, HOST), 640), 0);
	while ((len = rig_sent(sender) == 0 ? 0 : rig_take_sent(sender, bytes, sizeof(bytes))) > 0)
		rig_inject_bytes(r, bytes, (size_t)len);
	CHECK_EQ(rig_take_delivered(r, bytes, sizeof(bytes)), 640);
	for (unsigned i = 0; i < 640; i++)
		CHECK_EQ(bytes[i], i % 251);
	rig_free(r);
	end(sender);
}

/* ---- missing fragments ---- */

RIG_TEST(blast_nacks_a_hole, new_server(""))
{
	inject_fragments(r, 7, BLAST_SEND, "02");
	rig_advance_ms(r, 300);
	expect_nack(r, 7, FIRST | THIRD);
	CHECK_EQ(rig_counter(r, "nacks_out"), 2);
	rig_forget(r);
	inject_fragments(r, 7, BLAST_RETRANSMIT, "1");
	expect_delivered(r, message);
	rig_expect_silence_ms(r, 5000);
	CHECK_EQ(rig_drop_count(r), 0);
}

BLAST_TEST(blast_nacks_after_the_first_timeout, new_server("nack=20ms"))
{
	inject_fragments(r, 7, BLAST_SEND, "0");
	rig_expect_silence_ms(r, 19);
	rig_advance_ms(r, 1);
	rig_expect_sent(r, "00003000 00000007 00000000 0003 02 40 0000000000000001");
	rig_expect_nothing_sent(r);
}

RIG_TEST(blast_nacks_several_holes_at_once, new_server(""))
{
	static const char text[] = "00000000001111111111222222222233333333334444444444";
	struct frame f;

	for (unsigned i = 1; i < 5; i += 2) {
		f = fragment_of(text, 7, BLAST_SEND, i);
		inject(r, &f);
	}
	rig_advance_ms(r, 20);
	expect_nack(r, 7, 0x0a);
	rig_expect_nothing_sent(r);
	for (unsigned i = 0; i < 5; i += 2) {
		f = fragment_of(text, 7, BLAST_RETRANSMIT, i);
		inject(r, &f);
	}
	expect_delivered(r, text);
}

RIG_TEST(blast_nacks_a_lost_last_fragment, new_server(""))
{
	inject_fragments(r, 7, BLAST_SEND, "01");
	rig_advance_ms(r, 20);
	expect_nack(r, 7, FIRST | SECOND);
	inject_fragments(r, 7, BLAST_RETRANSMIT, "2");
	expect_delivered(r, message);
}

RIG_TEST(blast_backs_off_repeated_nacks, new_known("nack=20ms nack_max=70ms nacks=4"))
{
	static const unsigned gaps_ms[] = { 20, 40, 70 };

	inject_fragments(r, 7, BLAST_SEND, "0");
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(gaps_ms); i++) {
		rig_expect_silence_ms(r, gaps_ms[i] - 1);
		rig_advance_ms(r, 1);
		expect_nack(r, 7, FIRST);
	}
	inject_fragments(r, 7, BLAST_RETRANSMIT, "1"); /* something new: all begins again */
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(gaps_ms); i++) {
		rig_advance_ms(r, gaps_ms[i]);
		expect_nack(r, 7, FIRST | SECOND);
		rig_expect_nothing_sent(r);
	}
	inject_fragments(r, 7, BLAST_RETRANSMIT, "2");
	expect_delivered(r, message);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(blast_nacks_a_lost_retransmission, new_known(""))
{
	inject_fragments(r, 7, BLAST_SEND, "1");
	rig_advance_ms(r, 20);
	expect_nack(r, 7, SECOND);
	inject_fragments(r, 7, BLAST_RETRANSMIT, "0"); /* the other one is lost */
	rig_advance_ms(r, 20);
	expect_nack(r, 7, FIRST | SECOND);
	inject_fragments(r, 7, BLAST_RETRANSMIT, "2");
	expect_delivered(r, message);
}

RIG_TEST(blast_gives_up_a_message_if_nacks_bring_nothing, new_known("nack=20ms nack_max=100ms nacks=3"))
{
	inject_fragments(r, 7, BLAST_SEND, "02");
	rig_advance_ms(r, 1000);
	CHECK_EQ(rig_sent(r), 3);
	CHECK_EQ(rig_counter(r, "gave_up"), 2);
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
	rig_forget(r);
	inject_fragments(r, 7, BLAST_RETRANSMIT, "1");
	CHECK_EQ(rig_counter(r, "unknown"), 1);
	rig_expect_silence_ms(r, 1000);
}

BLAST_TEST(blast_gives_up_a_message_that_takes_too_long,
	   new_known("nack=100ms nack_min=100ms nack_max=100ms nacks=30 give_up=500ms keep=200ms"))
{
	static const char text[] = "0000000000111111111122222222223333333333444444444455555555556666666666777";

	for (unsigned i = 0; i < 7; i++) {
		struct frame f = fragment_of(text, 7, i == 0 ? BLAST_SEND : BLAST_RETRANSMIT, i);

		inject(r, &f);
		rig_advance_ms(r, 90);
	}
	CHECK_EQ(rig_counter(r, "gave_up"), 0); /* fragments keep arriving */
	rig_advance_ms(r, 100);
	CHECK_EQ(rig_counter(r, "gave_up"), 7);
}

/* A confirmed host that falls silent draws three NACKs per frame, and one more per 64 bytes. */
BLAST_TEST(blast_confirmed_host_draws_few_nacks_per_frame, new_known(""))
{
	inject_fragments(r, 7, BLAST_SEND, "0");
	rig_advance_repeatedly_ms(r, 20, 300);
	CHECK_EQ(rig_sent(r), 3);
	CHECK_EQ(rig_counter(r, "gave_up"), 1);
}

RIG_TEST(blast_stranger_draws_one_nack_per_frame, new_server(""))
{
	inject_fragments(r, 7, BLAST_SEND, "0");
	rig_advance_ms(r, 20);
	expect_nack(r, 7, FIRST);
	rig_advance_repeatedly_ms(r, 10, 300);
	rig_expect_nothing_sent(r);
	rig_expect_counts(r, "nacks_out=1 gave_up=1");
	inject_fragments(r, 8, BLAST_SEND, "011"); /* a duplicate earns none */
	rig_advance_repeatedly_ms(r, 10, 300);
	rig_expect_sent_count(r, 2);
}

/* A frame is at least as long as the NACKs that it draws, with the headers below. */
RIG_TEST(blast_stranger_draws_one_nack_per_64_bytes, new_server(""))
{
	struct frame f = fragment(7, BLAST_SEND, 0);

	f.length = (uint32_t)(f.len = 5 * 64 - 1);
	inject(r, &f);
	rig_advance_repeatedly_ms(r, 20, 300);
	CHECK_EQ(rig_counter(r, "nacks_out"), 5);
	rig_forget(r);
}

/* The address may be forged: answers go to its owner. */
RIG_TEST(blast_answered_host_is_still_a_stranger, new_server(""))
{
	rig_inject(r, "00003000 00000000 00000001 0000 01 40 0000000000000000 78");
	CHECK_EQ(push(r, rig_announced_session(r), "y"), 0);
	rig_forget(r);
	inject_fragments(r, 7, BLAST_SEND, "0");
	rig_advance_repeatedly_ms(r, 20, 300);
	rig_expect_sent_count(r, 1);
}

RIG_TEST(blast_host_that_knows_its_messages_number_is_confirmed, new_server(""))
{
	rig_inject(r, "00003000 00000000 00000001 0000 01 40 0000000000000000 78");
	rig_forget(r);
	nack(r, push_message(r, rig_announced_session(r)), FIRST | SECOND);
	expect(r, BLAST_RETRANSMIT, 2);
	inject_fragments(r, 7, BLAST_SEND, "0");
	rig_advance_repeatedly_ms(r, 20, 300);
	rig_expect_sent_count(r, 3);
}

BLAST_TEST(blast_delays_a_nack_without_a_buffer, new_server(""))
{
	inject_fragments(r, 7, BLAST_SEND, "01");
	rig_limit_buffers(r, 0);
	rig_advance_ms(r, 20);
	rig_limit_buffers(r, UINT_MAX);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "nacks_out"), 0);
	rig_advance_ms(r, 40);
	expect_nack(r, 7, FIRST | SECOND);
}

/* ---- times that adapt ---- */

/* Injects 63 of 64 fragments, one per millisecond; the last is lost. */
static void
inject_slowly(struct rig *r, uint32_t sequence)
{
	char text[641];

	memset(text, 'x', 640);
	text[640] = '\0';
	for (unsigned i = 0; i < 63; i++) {
		struct frame f = fragment_of(text, sequence, BLAST_SEND, i);

		inject(r, &f);
		rig_advance_ms(r, i < 62);
	}
}

BLAST_TEST(blast_nacks_as_early_as_fragment_spacing_allows, new_server("nack=200ms"))
{
	inject_slowly(r, 7);
	rig_expect_silence_ms(r, 1);
	rig_advance_ms(r, 2);
	CHECK_EQ(sent(r).op, BLAST_NACK);
}

BLAST_TEST(blast_never_nacks_before_nack_min, new_server("nack=200ms nack_min=50ms"))
{
	inject_slowly(r, 7);
	rig_expect_silence_ms(r, 49);
	rig_advance_ms(r, 1);
	CHECK_EQ(sent(r).op, BLAST_NACK);
}

/* NACKs bring fragments after 100 ms: before that none is repeated. */
BLAST_TEST(blast_waits_for_the_measured_nack_time, new_known("nack=50ms keep=5s nack_max=1s"))
{
	long early;

	for (uint32_t sequence = 1; sequence <= 20; sequence++) {
		inject_fragments(r, sequence, BLAST_SEND, "01");
		rig_advance_ms(r, 1);
		rig_advance_ms(r, 49);
		rig_advance_ms(r, 50);
		rig_advance_ms(r, 49);
		inject_fragments(r, sequence, BLAST_RETRANSMIT, "2");
		rig_forget(r);
	}
	early = rig_counter(r, "nacks_out");
	inject_fragments(r, 100, BLAST_SEND, "01");
	rig_advance_ms(r, 90);
	CHECK_EQ(rig_counter(r, "nacks_out"), early + 1);
	rig_advance_ms(r, 900);
	CHECK(rig_counter(r, "nacks_out") > early + 1);
}

/* A fragment of `message`, with number 7, that a driver carries which has last read its clock at arrival_ns. */
struct arrival {
	struct blast_session *s;
	struct frame frame;
	uint64_t arrival_ns;
};

static void
arrive(void *argument)
{
	const struct arrival *a = argument;
	const struct blast_header h = { NUMBER,       7, a->frame.length, 3, (uint16_t)a->frame.op, BLAST_FRAGMENTS,
					a->frame.mask };
	struct xk_shepherd_head *head = xk_self_head(), saved = *head;
	struct xk_msg *m = xk_msg_new(xk_platform_of(a->s->session.protocol), a->frame.len);

	memcpy(m->data, a->frame.payload, a->frame.len);
	head->lane = 1;
	head->turn_ns = &a->arrival_ns;
	blast_receive_fragment(a->s, a->s->session.lls, m, &h);
	head->lane = saved.lane;
	head->turn_ns = saved.turn_ns;
}

/* A driver's clock may be behind the event that sent the NACK, and behind another driver's. */
BLAST_TEST(blast_measures_no_time_before_an_arrival, new_known("nack=50ms keep=5s nack_max=1s"))
{
	struct blast *blast = (struct blast *)rig_protocol(r, "blast");
	struct arrival a = { .frame = fragment(7, BLAST_SEND, 1) };

	rig_advance_ms(r, 1);
	inject_fragments(r, 7, BLAST_SEND, "0");
	a.s = TAILQ_FIRST(&blast->ages)->session;
	a.arrival_ns = xk_now_ns(&blast->protocol) - 1000;
	CHECK(rig_do(r, arrive, &a));
	CHECK_EQ(a.s->spacing_ns.mean, 1);
	rig_advance_ms(r, 50);
	CHECK_EQ(sent(r).op, BLAST_NACK);
	a.frame = fragment(7, BLAST_RETRANSMIT, 2);
	CHECK(rig_do(r, arrive, &a));
	CHECK_EQ(a.s->round_trip_ns.mean, 1);
	expect_delivered(r, message);
}

RIG_TEST(blast_estimate_follows_its_samples, new_rig("nack_min=1us nack_max=300ms"))
{
	const struct blast *blast = (struct blast *)rig_protocol(r, "blast");
	struct xk_estimate estimate = { 0, 0 };

	CHECK_EQ(blast_estimate_bound(blast, &estimate, 5000), 5000);
	blast_estimate_add(blast, &estimate, 0);
	CHECK_EQ(estimate.mean, 1);
	estimate.mean = 0;
	blast_estimate_add(blast, &estimate, 8000);
	CHECK_EQ(estimate.mean, 8000);
	CHECK_EQ(estimate.deviation, 4000);
	CHECK_EQ(blast_estimate_bound(blast, &estimate, 5000), 24000);
	for (unsigned i = 0; i < 100; i++)
		blast_estimate_add(blast, &estimate, 16000);
	CHECK(estimate.mean > 15900 && estimate.mean <= 16000);
	CHECK(estimate.deviation < 100);
	for (unsigned i = 0; i < 100; i++)
		blast_estimate_add(blast, &estimate, 0);
	CHECK(estimate.mean > 0 && estimate.mean < 100);
	CHECK_EQ(blast_estimate_bound(blast, &estimate, 5000), 1000);
	for (unsigned i = 0; i < 100; i++)
		blast_estimate_add(blast, &estimate, UINT64_MAX);
	CHECK(estimate.mean <= 300000000);
	CHECK_EQ(blast_estimate_bound(blast, &estimate, 5000), 300000000);
}

/* ---- duplicates ---- */

RIG_TEST(blast_drops_duplicates, new_server(""))
{
	inject_fragments(r, 7, BLAST_SEND, "00");
	inject_fragments(r, 7, BLAST_RETRANSMIT, "0");
	CHECK_EQ(rig_counter(r, "duplicate"), 2);
	inject_fragments(r, 7, BLAST_SEND, "12");
	expect_delivered(r, message);
	CHECK_EQ(rig_drop_count(r), 2);
}

RIG_TEST(blast_late_duplicate_starts_no_message, new_server(""))
{
	inject_fragments(r, 7, BLAST_SEND, "012");
	expect_delivered(r, message);
	inject_fragments(r, 7, BLAST_SEND, "012");
	inject_fragments(r, 7, BLAST_RETRANSMIT, "1");
	CHECK_EQ(rig_counter(r, "duplicate"), 4);
	rig_expect_nothing_delivered(r);
	rig_expect_silence_ms(r, 5000);
}

BLAST_TEST(blast_remembers_some_finished_messages, new_server(""))
{
	for (uint32_t sequence = 1; sequence <= BLAST_FINISHED + 1; sequence++)
		inject_fragments(r, sequence, BLAST_SEND, "012");
	rig_forget(r);
	inject_fragments(r, BLAST_FINISHED + 1, BLAST_SEND, "0");
	inject_fragments(r, 2, BLAST_SEND, "0");
	CHECK_EQ(rig_counter(r, "duplicate"), 2);
	inject_fragments(r, 1, BLAST_SEND, "0"); /* forgotten: no guarantee covers this */
	CHECK_EQ(rig_counter(r, "duplicate"), 2);
}

BLAST_TEST(blast_drops_unrequested_retransmissions, new_server(""))
{
	inject_fragments(r, 7, BLAST_RETRANSMIT, "0"); /* opens no session either */
	inject_fragments(r, 8, BLAST_SEND, "0");
	inject_fragments(r, 7, BLAST_RETRANSMIT, "0");
	CHECK_EQ(rig_counter(r, "unknown"), 2);
	rig_wire_peer(r, STRANGER + 1);
	CHECK_EQ(rig_open_done_count(r), 1);
}

/* ---- fragments that do not fit together ---- */

static struct frame
with_length(unsigned i, size_t len)
{
	struct frame f = fragment(7, BLAST_SEND, i);

	f.len = len;
	f.length = (uint32_t)len;
	return f;
}

RIG_TEST(blast_drops_fragments_that_contradict_their_message, new_server(""))
{
	struct frame f = fragment(7, BLAST_SEND, 1);

	inject_fragments(r, 7, BLAST_SEND, "0");
	f.fragments = 4;
	inject(r, &f);
	f = with_length(1, 9);
	inject(r, &f);
	f = with_length(1, 11);
	inject(r, &f);
	f = with_length(2, 11); /* a last fragment longer than the others */
	inject(r, &f);
	f = with_length(0, 9); /* a duplicate must be as long as the first */
	inject(r, &f);
	CHECK_EQ(rig_counter(r, "inconsistent"), 5);
	inject_fragments(r, 7, BLAST_SEND, "2");
	f = with_length(2, 4);
	inject(r, &f);
	CHECK_EQ(rig_counter(r, "inconsistent"), 6);
	inject_fragments(r, 7, BLAST_SEND, "1");
	expect_delivered(r, message);
	CHECK_EQ(rig_drop_count(r), 6);
}

RIG_TEST(blast_drops_fragments_shorter_than_the_last, new_server(""))
{
	struct frame f = with_length(0, 4);

	inject_fragments(r, 7, BLAST_SEND, "2"); /* five bytes long */
	inject(r, &f);
	CHECK_EQ(rig_counter(r, "inconsistent"), 1);
	f = with_length(0, 5);
	inject(r, &f);
	f = with_length(1, 5);
	inject(r, &f);
	expect_delivered(r, "01234abcdeABCDE");
}

/* ---- limits on messages ---- */

BLAST_TEST(blast_peer_has_a_share_of_messages, new_server("peer_messages=2 messages=3"))
{
	inject_fragments(r, 1, BLAST_SEND, "0");
	rig_wire_peer(r, STRANGER + 1);
	for (uint32_t sequence = 1; sequence <= 20; sequence++)
		inject_fragments(r, sequence, BLAST_SEND, "0");
	CHECK_EQ(rig_counter(r, "evicted"), 18); /* evicts its own, oldest first */
	inject_fragments(r, 19, BLAST_SEND, "12");
	expect_delivered(r, message);
	inject_fragments(r, 18, BLAST_RETRANSMIT, "1");
	CHECK_EQ(rig_counter(r, "unknown"), 1);
	rig_wire_peer(r, STRANGER + 2);
	inject_fragments(r, 1, BLAST_SEND, "0");
	CHECK_EQ(rig_counter(r, "evicted"), 18);
	rig_wire_peer(r, STRANGER + 3);
	inject_fragments(r, 1, BLAST_SEND, "0"); /* a fourth in total evicts the oldest */
	CHECK_EQ(rig_counter(r, "evicted"), 19);
}

/* Fills the table of fragments with messages of sixty-three each. */
static void
fill(struct rig *r, uint64_t peer, uint32_t sequence)
{
	char text[641];

	memset(text, 'x', 640);
	text[640] = '\0';
	if (peer != 0)
		rig_wire_peer(r, peer);
	for (unsigned i = 0; i < 63; i++) {
		struct frame f = fragment_of(text, sequence, BLAST_SEND, i);

		inject(r, &f);
	}
}

BLAST_TEST(blast_peer_has_a_share_of_fragments, new_server("peer_fragments=128 fragments=192"))
{
	fill(r, STRANGER, 1);
	fill(r, STRANGER + 1, 1);
	fill(r, 0, 2);
	CHECK_EQ(rig_counter(r, "evicted"), 0);
	inject_fragments(r, 3, BLAST_SEND, "01");
	CHECK_EQ(rig_counter(r, "evicted"), 0); /* 128 */
	inject_fragments(r, 4, BLAST_SEND, "0");
	CHECK_EQ(rig_counter(r, "evicted"), 63); /* evicts its own oldest */
	fill(r, STRANGER + 2, 1);
	CHECK_EQ(rig_counter(r, "evicted"), 63);
	fill(r, STRANGER + 3, 1);
	CHECK_EQ(rig_counter(r, "evicted"), 126); /* evicts the first peer's, the oldest of all */
}

/* The growing message is not the one evicted. */
BLAST_TEST(blast_growing_message_is_kept, new_server("peer_fragments=64 fragments=64"))
{
	fill(r, STRANGER, 1);
	inject_fragments(r, 2, BLAST_SEND, "0");
	CHECK_EQ(rig_counter(r, "evicted"), 0);
	inject_fragments(r, 2, BLAST_SEND, "1");
	CHECK_EQ(rig_counter(r, "evicted"), 63);
	fill(r, STRANGER + 1, 1);
	CHECK_EQ(rig_counter(r, "evicted"), 65); /* the other message's */
}

/* Incomplete messages are freed when the host shuts down. */
BLAST_TEST(blast_ends_with_messages_in_progress, new_server(""))
{
	inject_fragments(r, 7, BLAST_SEND, "0");
	rig_advance_ms(r, 20);
	rig_forget(r);
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 1);
}
