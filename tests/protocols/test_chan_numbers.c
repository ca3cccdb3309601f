/* test_chan_numbers.c - numbers of channels and calls: wrapping, reuse, quarantine. */
#include "tests/protocols/chan_rig.h"

enum { REQUEST = CHAN_FROM_CLIENT | CHAN_USER_MSG };

CLIENT_TEST(chan_sequence_numbers_wrap, "")
{
	((struct chan_end *)s)->sequence = UINT32_MAX - 1;
	for (uint32_t i = 0; i < 4; i++) {
		CHECK_EQ(call_async(r, c, s, "x"), 0);
		answer(r, expect(r, REQUEST, UINT32_MAX + i, "x"), CHAN_USER_MSG, 0, "");
		CHECK_EQ(c->done, 1);
	}
}

CHAN_TEST(chan_reused_channels_continue_their_sequences, chan_rig(""))
{
	struct xk_session *s = open_channel(r, SERVER), *other;
	struct calling c;
	struct frame f, g;

	CHECK_EQ(call_async(r, &c, s, "x"), 0);
	f = expect(r, REQUEST, 1, "x");
	answer(r, f, CHAN_USER_MSG, 0, "");
	other = open_channel(r, SERVER);
	CHECK_EQ(call_async(r, &c, other, "x"), 0);
	g = expect(r, REQUEST, 1, "x");
	CHECK(g.h.channel != f.h.channel);
	answer(r, g, CHAN_USER_MSG, 0, "");
	close_channel(r, s);
	rig_advance_ms(r, 1000);
	s = open_channel(r, SERVER + 1); /* another host's numbers are separate */
	CHECK_EQ(call_async(r, &c, s, "x"), 0);
	g = expect(r, REQUEST, 1, "x");
	CHECK(g.h.channel != f.h.channel);
	answer(r, g, CHAN_USER_MSG, 0, "");
	close_channel(r, s);
	s = open_channel(r, SERVER);
	CHECK_EQ(call_async(r, &c, s, "x"), 0);
	g = expect(r, REQUEST, 2, "x");
	CHECK_EQ(g.h.channel, f.h.channel);
	answer(r, g, CHAN_USER_MSG, 0, "");
	close_channel(r, s);
	close_channel(r, other);
}

static uint32_t
channel_of(const struct xk_session *s)
{
	return ((const struct chan_end *)s)->channel;
}

/* Makes a call, whose request must bear this sequence number. */
static void
call_and_answer(struct rig *r, struct xk_session *s, uint32_t sequence)
{
	struct calling c;

	CHECK_EQ(call_async(r, &c, s, "x"), 0);
	answer(r, expect(r, REQUEST, sequence, "x"), CHAN_USER_MSG, 0, "");
	CHECK_EQ(c.status, 0);
}

/* Makes a call that its caller gives up. Returns the request. */
static struct frame
call_in_vain(struct rig *r, struct xk_session *s, uint32_t sequence)
{
	struct calling c;
	struct frame f;

	CHECK_EQ(call_async(r, &c, s, "x"), 0);
	f = expect(r, REQUEST, sequence, "x");
	CHECK_EQ(xk_control(s, XK_CHAN_ABORT, NULL), 0);
	CHECK_EQ(c.status, -ECANCELED);
	return f;
}

CHAN_TEST(chan_closed_channels_are_reused_at_once, chan_rig(""))
{
	enum { CHANNELS = 3 };
	struct xk_session *s[CHANNELS];
	uint32_t first = 0;

	for (uint32_t block = 0; block < 3; block++) {
		for (unsigned i = 0; i < CHANNELS; i++) {
			s[i] = open_channel(r, SERVER);
			if (block == 0 && i == 0)
				first = channel_of(s[0]);
			CHECK(channel_of(s[i]) - first < CHANNELS);
			call_and_answer(r, s[i], block + 1);
		}
		for (unsigned i = 0; i < CHANNELS; i++)
			close_channel(r, s[i]);
	}
}

CHAN_SESSION_TEST(chan_channel_stays_open_until_its_last_reference, chan_rig(""), open_channel(r, SERVER))
{
	CHECK(xk_duplicate(s));
	call_and_answer(r, s, 1);
	close_channel(r, s);
	call_and_answer(r, s, 2);
	close_channel(r, s);
}

CHAN_SESSION_TEST(chan_channel_closed_during_its_call_still_ends_it, chan_rig(""), open_channel(r, SERVER))
{
	struct calling c;
	struct frame f;

	CHECK_EQ(call_async(r, &c, s, "x"), 0);
	close_channel(r, s);
	f = expect(r, REQUEST, 1, "x");
	rig_advance_ms(r, 201);
	expect(r, REQUEST | CHAN_ACK_REQUESTED, 1, "x");
	answer(r, f, CHAN_USER_MSG, 0, "reply");
	CHECK_EQ(c.done, 1);
	CHECK_STR(c.reply, "reply");
	rig_advance_ms(r, 1000);
	s = open_channel(r, SERVER);
	CHECK_EQ(channel_of(s), f.h.channel);
	call_and_answer(r, s, 2);
	close_channel(r, s);
}

CHAN_TEST(chan_number_of_an_abandoned_call_rests, chan_rig("chan.lifetime=50s"))
{
	struct xk_session *s = open_channel(r, SERVER), *other;
	uint32_t channel = call_in_vain(r, s, 1).h.channel, clean;

	close_channel(r, s);
	rig_advance_ms(r, 49900);
	other = open_channel(r, SERVER);
	clean = channel_of(other);
	CHECK(clean != channel);
	call_and_answer(r, other, 1);
	close_channel(r, other);
	rig_advance_ms(r, 200);
	other = open_channel(r, SERVER); /* rather than the doubtful number */
	CHECK_EQ(channel_of(other), clean);
	s = open_channel(r, SERVER);
	CHECK_EQ(channel_of(s), channel);
	call_and_answer(r, s, 2);
	close_channel(r, s);
	close_channel(r, other);
}

CHAN_SESSION_TEST(chan_number_rests_no_longer_once_the_server_is_done, chan_rig(""), open_channel(r, SERVER))
{
	struct frame f = call_in_vain(r, s, 1);

	answer(r, f, CHAN_USER_MSG, 0, ""); /* too late */
	CHECK_EQ(rig_counter(r, "unasked"), 1);
	close_channel(r, s);
	s = open_channel(r, SERVER);
	CHECK_EQ(channel_of(s), f.h.channel);
	call_in_vain(r, s, 2);
	call_and_answer(r, s, 3); /* therefore the call before is over, too */
	close_channel(r, s);
	s = open_channel(r, SERVER);
	CHECK_EQ(channel_of(s), f.h.channel);
	call_and_answer(r, s, 4);
	close_channel(r, s);
}

CHAN_TEST(chan_resting_numbers_leave_room_for_others, chan_rig(""))
{
	static struct xk_session *s[CHAN_IDLE_MAX / 2 + 2];
	uint32_t channel;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(s); i++) {
		s[i] = open_channel(r, SERVER);
		call_in_vain(r, s[i], 1);
	}
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(s); i++)
		close_channel(r, s[i]);
	CHECK_EQ(((struct chan *)rig_protocol(r, "chan"))->idle_count, CHAN_IDLE_MAX / 2);
	s[0] = open_channel(r, SERVER);
	channel = channel_of(s[0]);
	call_and_answer(r, s[0], 1);
	close_channel(r, s[0]);
	s[0] = open_channel(r, SERVER);
	CHECK_EQ(channel_of(s[0]), channel);
	close_channel(r, s[0]);
}

CHAN_TEST(chan_number_not_kept_is_not_reused, chan_rig(""))
{
	static struct xk_session *s[CHAN_IDLE_MAX + 1];
	uint32_t first, last;

	for (unsigned i = 0; i <= CHAN_IDLE_MAX; i++)
		s[i] = open_channel(r, SERVER);
	first = channel_of(s[0]);
	last = channel_of(s[CHAN_IDLE_MAX]);
	for (unsigned i = 0; i <= CHAN_IDLE_MAX; i++)
		close_channel(r, s[i]);
	for (unsigned i = 0; i <= CHAN_IDLE_MAX; i++) {
		s[i] = open_channel(r, SERVER);
		CHECK(channel_of(s[i]) != last);
		CHECK_EQ(channel_of(s[i]) - first < CHAN_IDLE_MAX, i < CHAN_IDLE_MAX);
	}
	for (unsigned i = 0; i <= CHAN_IDLE_MAX; i++)
		close_channel(r, s[i]);
}
