/* test_vdrop.c - vdrop's faults: they happen as often as set, are counted, and repeat with their seed. */
#include <errno.h>
#include <limits.h>

#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/checksum.h"
#include "xkernel/upi.h"

static struct xk_session *
open_on(struct rig *r)
{
	return rig_must_open(r, rig_to(5));
}

/* ---- loss ---- */

RIG_SESSION_TEST(vdrop_without_settings_does_nothing, rig_new("vdrop"), open_on(r))
{
	for (unsigned i = 0; i < 100; i++) {
		rig_expect_down(r, s, "01", "01");
		rig_expect_up(r, "02", "02");
	}
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_SESSION_TEST(vdrop_counts_losses_and_returns_success, rig_new("vdrop loss=1"), open_on(r))
{
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_inject(r, "02");
	CHECK_EQ(rig_counter(r, "lost"), 2);
}

TEST(vdrop_is_faulty_in_its_direction_only)
{
	struct rig *r = rig_new("vdrop loss=100% direction=up");
	struct xk_session *s = open_on(r);

	rig_expect_down(r, s, "01", "01");
	rig_inject(r, "02");
	CHECK_EQ(rig_counter(r, "lost"), 1);
	rig_free(r);
	r = rig_new("vdrop loss=100% direction=down");
	CHECK_EQ(rig_push(r, open_on(r), "01"), 0);
	rig_expect_up(r, "02", "02");
	CHECK_EQ(rig_counter(r, "lost"), 1);
	rig_free(r);
}

TEST(vdrop_refuses_unknown_directions)
{
	CHECK_EQ(rig_refusal("wire:; vdrop: wire; vdrop.direction=left"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; vdrop: wire; vdrop.direction="), -EINVAL);
}

RIG_SESSION_TEST(vdrop_spares_the_first_messages_in_each_direction, rig_new("vdrop loss=1 after=3"), open_on(r))
{
	for (unsigned i = 0; i < 5; i++)
		CHECK_EQ(rig_push(r, s, "01"), 0);
	for (unsigned i = 0; i < 4; i++)
		rig_inject(r, "02");
	CHECK_EQ(rig_sent(r), 3);
	CHECK_EQ(rig_delivered(r), 3);
	CHECK_EQ(rig_counter(r, "lost"), 3);
	rig_forget(r);
}

/* Draws which of count pushed messages arrive: '-' is a lost one. With `up`, others are delivered in between. */
static void
pattern(const char *type, char *text, unsigned count, bool up)
{
	struct rig *r = rig_new(type);
	struct xk_session *s = open_on(r);

	for (unsigned i = 0; i < count; i++) {
		unsigned before = rig_sent(r);

		CHECK_EQ(rig_push_bytes(r, s, "m", 1), 0);
		text[i] = rig_sent(r) > before ? '+' : '-';
		if (up)
			rig_inject(r, "02");
	}
	text[count] = '\0';
	rig_forget(r);
	rig_free(r);
}

/* Written out: the same on every machine. */
TEST(vdrop_repeats_the_faults_of_a_seed)
{
	char text[41], other[41];

	pattern("vdrop loss=50% seed=1", text, 40, false);
	CHECK_STR(text, "+++-+---+-----+-++++---+-++-----+--+--+-");
	pattern("vdrop loss=50% seed=1", other, 40, true); /* each direction has a stream of its own */
	CHECK_STR(other, text);
	pattern("vdrop loss=50% seed=2", other, 40, false);
	CHECK(strcmp(other, text) != 0);
	pattern("vdrop loss=50%", text, 40, false);
	pattern("vdrop loss=50%", other, 40, false);
	CHECK(strcmp(other, text) != 0);
}

static unsigned
count_lost(const char *text)
{
	unsigned lost = 0;

	for (; *text != '\0'; text++)
		lost += *text == '-';
	return lost;
}

TEST(vdrop_loses_as_often_as_set)
{
	static char text[3001];
	unsigned lost;

	pattern("vdrop loss=10% seed=3", text, 3000, false);
	lost = count_lost(text);
	CHECK(lost > 250 && lost < 350);
}

/* A burst is from 1 to 9 long, 5 on average. */
TEST(vdrop_loses_in_bursts)
{
	static char text[3001];
	unsigned lost, runs = 0;

	pattern("vdrop loss=1% burst=9 seed=3", text, 3000, false);
	lost = count_lost(text);
	for (unsigned i = 1; i <= 3000; i++)
		runs += text[i - 1] == '-' && text[i] != '-';
	CHECK(lost > 4 * runs && lost < 6 * runs);
	CHECK(runs > 15 && runs < 45);
	CHECK_HAS(text, "+-+");
	CHECK_HAS(text, "+---------+");
	pattern("vdrop loss=1% burst=2 seed=3", text, 3000, false);
	CHECK_HAS(text, "+--+");
	CHECK(strstr(text, "---") == NULL);
}

/* ---- copies and late messages ---- */

RIG_SESSION_TEST(vdrop_sends_a_copy_later, rig_new("vdrop duplicate=1 reorder_time=3ms"), open_on(r))
{
	rig_expect_down(r, s, "01 | 02", "0102");
	rig_expect_nothing_sent(r);
	rig_expect_up(r, "03", "03");
	rig_advance_ms(r, 3);
	rig_expect_sent(r, "0102");
	rig_expect_delivered(r, "03");
	CHECK(rig_delivered_session(r) == s);
	rig_expect_counts(r, "duplicated=2 reordered=0");
}

RIG_SESSION_TEST(vdrop_reorders_messages, rig_new("vdrop reorder=50% reorder_time=5ms seed=1"), open_on(r))
{
	unsigned overtaken = 0, sum = 0;
	uint8_t byte, highest = 0;

	for (uint8_t i = 0; i < 40; i++) {
		CHECK_EQ(rig_push_bytes(r, s, &i, 1), 0);
		rig_advance_ms(r, 1);
	}
	rig_advance_ms(r, 5);
	CHECK_EQ(rig_sent(r), 40);
	while (rig_take_sent(r, &byte, 1) == 1) {
		overtaken += byte < highest;
		highest = byte > highest ? byte : highest;
		sum += byte;
	}
	CHECK_EQ(sum, 39 * 40 / 2);
	CHECK(overtaken > 0);
	CHECK(rig_counter(r, "reordered") > 10 && rig_counter(r, "reordered") < 30);
}

RIG_SESSION_TEST(vdrop_lets_a_number_of_messages_overtake,
		 rig_new("vdrop reorder=10% overtake=3 reorder_time=5ms seed=1"), open_on(r))
{
	unsigned late = 0;
	uint8_t sent[100], byte;

	for (uint8_t i = 0; i < sizeof(sent); i++)
		CHECK_EQ(rig_push_bytes(r, s, &i, 1), 0);
	rig_advance_ms(r, 5); /* for those that fewer than three followed */
	for (unsigned i = 0; i < sizeof(sent); i++)
		REQUIRE(rig_take_sent(r, &sent[i], 1) == 1);
	for (byte = 0; byte < 80; byte++) {
		unsigned place = 0, overtakers = 0;

		while (sent[place] != byte)
			overtakers += sent[place++] > byte;
		CHECK(overtakers == 0 || overtakers == 3);
		late += overtakers == 3;
	}
	CHECK(late > 3);
	CHECK(late <= rig_counter(r, "reordered"));
}

RIG_SESSION_TEST(vdrop_drops_messages_beyond_its_limit, rig_new("vdrop reorder=1 duplicate=1 held=3"), open_on(r))
{
	CHECK_EQ(rig_push(r, s, "01"), 0);        /* its copy waits, and so does it */
	CHECK_EQ(rig_push(r, s, "02"), -ENOBUFS); /* its copy waits */
	CHECK_EQ(rig_counter(r, "full"), 1);
	rig_inject(r, "03");
	rig_expect_counts(r, "full=3 duplicated=3 reordered=1");
	rig_advance_ms(r, 1);
	rig_expect_sent_count(r, 3);
}

RIG_SESSION_TEST(vdrop_counts_late_pushes_that_fail, rig_new("vdrop reorder=1"), open_on(r))
{
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_fail_sending(r, -ENOBUFS);
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_counter(r, "unsent"), 1);
}

RIG_SESSION_TEST(vdrop_sessions_close_after_their_last_message, rig_new("vdrop reorder=1 duplicate=1"), open_on(r))
{
	CHECK_EQ(rig_push(r, s, "01"), 0);
	rig_inject(r, "02");
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 1);
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_sent(r), 2);
	CHECK_EQ(rig_delivered(r), 2);
	CHECK_EQ(rig_wire_session_count(r), 0);
	rig_forget(r);
}

/* ---- corruption ---- */

/* Finds the first and the last bit in which a and b differ; -1: none. */
static void
span(const uint8_t *a, const uint8_t *b, size_t len, int *first, int *last)
{
	*first = *last = -1;
	for (size_t bit = 0; bit < len * 8; bit++) {
		if (((a[bit / 8] ^ b[bit / 8]) >> (7 - bit % 8) & 1) == 0)
			continue;
		*last = (int)bit;
		if (*first < 0)
			*first = (int)bit;
	}
}

/* Anywhere in a message, and never so many at once that a checksum could miss them. */
RIG_SESSION_TEST(vdrop_flips_few_bits_anywhere, rig_new("vdrop corrupt=1 seed=1"), open_on(r))
{
	static const uint8_t zeros[5] = { 0 }, ones[5] = { 255, 255, 255, 255, 255 };
	bool hit[40] = { false };
	uint8_t bytes[5];
	int first, last, longest = 0;

	for (unsigned i = 0; i < 400; i++) {
		const uint8_t *sent = i % 2 == 0 ? zeros : ones;

		CHECK_EQ(rig_push_bytes(r, s, sent, 5), 0);
		REQUIRE(rig_take_sent(r, bytes, sizeof(bytes)) == 5);
		span(sent, bytes, 5, &first, &last);
		REQUIRE(first >= 0 && last - first < 15);
		CHECK(xk_sum_fold(xk_sum(0, bytes, 5)) % 0xffff != xk_sum_fold(xk_sum(0, sent, 5)) % 0xffff);
		hit[first] = hit[last] = true;
		longest = last - first > longest ? last - first : longest;
	}
	CHECK_EQ(longest, 14);
	for (unsigned bit = 0; bit < 40; bit++)
		CHECK(hit[bit]);
	CHECK_EQ(rig_counter(r, "corrupted"), 400);
}

RIG_SESSION_TEST(vdrop_corrupts_messages_of_several_segments, rig_new("vdrop corrupt=1 seed=1"), open_on(r))
{
	static uint8_t bytes[6000];

	for (unsigned i = 0; i < 100; i++) {
		unsigned wrong = 0;

		CHECK_EQ(rig_push_pattern(r, s, sizeof(bytes)), 0); /* longer than a segment of the copy */
		REQUIRE(rig_take_sent(r, bytes, sizeof(bytes)) == sizeof(bytes));
		for (unsigned at = 0; at < sizeof(bytes); at++)
			wrong += bytes[at] != at % 251;
		CHECK(wrong > 0 && wrong <= 3);
		rig_inject(r, "00 | 0000 | 00");
		REQUIRE(rig_take_delivered(r, bytes, sizeof(bytes)) == 4);
		CHECK(memcmp(bytes, "\0\0\0", 4) != 0);
	}
}

RIG_TEST(vdrop_does_not_corrupt_empty_messages, rig_new("vdrop corrupt=1"))
{
	rig_expect_down(r, open_on(r), "", "");
	CHECK_EQ(rig_counter(r, "corrupted"), 0);
}

struct pushing {
	struct rig *r;
	struct xk_session *s;
	struct xk_msg *m;
};

static void
push_shared(void *argument)
{
	struct pushing *p = argument;

	CHECK_EQ(xk_push(p->s, xk_msg_reference(p->m)), 0);
}

/* A retransmit queue, for example, holds the message too. */
RIG_TEST(vdrop_does_not_change_shared_bytes, rig_new("vdrop corrupt=1"))
{
	struct pushing p = { r, open_on(r), xk_msg_from(rig_platform(r), "\0\0", 2) };

	for (unsigned i = 0; i < 20; i++) {
		CHECK(rig_do(r, push_shared, &p));
		CHECK(p.m->data[0] == 0 && p.m->data[1] == 0);
	}
	xk_msg_free(p.m);
	rig_forget(r);
}

RIG_TEST(vdrop_corrupts_the_message_and_not_its_copy, rig_new("vdrop corrupt=1 duplicate=1"))
{
	CHECK_EQ(rig_push(r, open_on(r), "0000"), 0);
	rig_expect_sent_count(r, 1);
	rig_advance_ms(r, 1);
	rig_expect_sent(r, "0000");
}

TEST(vdrop_without_buffers_drops_or_makes_no_copy)
{
	struct rig *r = rig_new("vdrop corrupt=1");
	struct xk_session *s = open_on(r);

	rig_limit_buffers(r, 1); /* for the message itself */
	CHECK_EQ(rig_push(r, s, "01"), -ENOBUFS);
	rig_expect_counts(r, "no_buffer=1 corrupted=0");
	rig_limit_buffers(r, UINT_MAX);
	rig_free(r);
	r = rig_new("vdrop duplicate=1");
	s = open_on(r);
	rig_limit_buffers(r, 1);
	rig_expect_down(r, s, "01", "01");
	rig_expect_counts(r, "not_duplicated=1 duplicated=0");
	rig_limit_buffers(r, UINT_MAX);
	rig_free(r);
}

/* ---- offloaded checksums ---- */

static uint32_t
offloads_through(const char *settings)
{
	char graph[128];
	uint32_t all = 3, offloads = 9;
	struct rig *r;

	snprintf(graph, sizeof(graph), "wire:; vdrop: wire; %s; user: vdrop", settings);
	r = rig_new_graph(graph);
	rig_answer_control(r, XK_GET_OFFLOADS, &all, sizeof(all));
	CHECK_EQ(xk_control(open_on(r), XK_GET_OFFLOADS, &offloads), 0);
	CHECK_EQ(xk_control_protocol(rig_protocol(r, "vdrop"), XK_GET_OFFLOADS, &all), 0);
	CHECK_EQ(offloads, all);
	rig_free(r);
	return offloads;
}

/* Otherwise the port would store a valid checksum over corrupt bytes. */
TEST(vdrop_disables_checksum_offload_if_it_corrupts)
{
	CHECK_EQ(offloads_through("vdrop.loss=1%"), 3);
	CHECK_EQ(offloads_through("vdrop.corrupt=1%"), 0);
	CHECK_EQ(offloads_through("vdrop.corrupt=1%; vdrop.direction=up"), 3);
	CHECK_EQ(offloads_through("vdrop.corrupt=1%; vdrop.direction=down"), 0);
}

static void
prepare_hosts(struct rig *r)
{
	static const uint64_t me = 0x0a4d0001, peer = 0x0a4d0002;

	rig_answer_control(r, XK_GET_MY_HOST, &me, sizeof(me));
	rig_answer_control(r, XK_GET_PEER_HOST, &peer, sizeof(peer));
}

/* Delivers a datagram whose checksum the port has verified. */
static void
demux_verified(void *argument)
{
	static const uint8_t datagram[12] = { 0, 7, 0, 9, 0, 12, 0x12, 0x34, 'd', 'a', 't', 'a' };
	struct pushing *p = argument;
	struct xk_msg *m = xk_msg_from(rig_platform(p->r), datagram, sizeof(datagram));

	m->flags = XK_MSG_TRANSPORT_SUM_GOOD;
	xk_demux(p->s, m);
}

static struct rig *
verified_through(const char *settings)
{
	char graph[128];
	struct rig *r;
	struct pushing p;

	snprintf(graph, sizeof(graph), "wire:; vdrop: wire; %s; udp: vdrop; user: udp", settings);
	r = rig_new_prepared(graph, prepare_hosts);
	REQUIRE(rig_open(r, rig_to2(5, 7, 9)) != NULL);
	p = (struct pushing){ r, rig_wire_newest_session(r), NULL };
	for (unsigned i = 0; i < 100; i++)
		CHECK(rig_do(r, demux_verified, &p));
	return r;
}

TEST(vdrop_clears_the_verified_flag_of_corrupt_messages)
{
	struct rig *r = verified_through("vdrop.loss=0");

	CHECK_EQ(rig_delivered(r), 100);
	rig_forget(r);
	rig_free(r);
	r = verified_through("vdrop.corrupt=1; vdrop.seed=1");
	CHECK_EQ(rig_delivered(r), 0);
	CHECK_EQ(rig_drop_count(r), 100);
	rig_free(r);
}

/* ---- all faults ---- */

/* Messages in, plus copies, equal messages out plus drops; each fault happens. */
RIG_TEST(vdrop_accounts_for_every_message,
	 rig_new("vdrop loss=10% burst=3 duplicate=20% reorder=20% corrupt=20% held=4 seed=4"))
{
	static const uint8_t zeros[2] = { 0 };
	long in = 0;

	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	for (unsigned i = 0; i < 400; i++) {
		rig_inject_bytes(r, zeros, sizeof(zeros));
		rig_push_bytes(r, rig_announced_session(r), zeros, sizeof(zeros));
		in += 2;
		if (i % 8 == 0)
			rig_advance_ms(r, 1);
	}
	rig_advance_ms(r, 1);
	CHECK_EQ(in + rig_counter(r, "duplicated"), rig_sent(r) + rig_delivered(r) + rig_drop_count(r));
	CHECK(rig_counter(r, "lost") > 80);
	CHECK(rig_counter(r, "full") > 20);
	CHECK(rig_counter(r, "duplicated") > 80);
	CHECK(rig_counter(r, "reordered") > 40);
	CHECK(rig_counter(r, "corrupted") > 80);
	rig_forget(r);
}
