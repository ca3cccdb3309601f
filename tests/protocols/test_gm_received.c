/* test_gm_received.c - GM's receiving half: messages delivered, refused and held. The rest: test_gm.c. */
#include <limits.h>

#include "tests/protocols/gm_rig.h"

/* ---- in order, once ---- */

RIG_TEST(gm_delivers_and_acknowledges, gm_server(""))
{
	inject_data(r, 105, 0, "one");
	expect_delivered(r, "one");
	expect_ack(r, 105);
	inject_data(r, 107, 105, ""); /* 106 was another session's */
	expect_delivered(r, "");
	expect_ack(r, 107);
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK_EQ(rig_counter(r, "accepted"), 1);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(gm_delivers_without_duplicates_and_in_order, gm_server(""))
{
	inject_data(r, 105, 0, "one");
	expect_ack(r, 105);
	inject_data(r, 105, 0, "one");
	expect_ack(r, 105); /* the first acknowledgement may have been lost */
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	inject_data(r, 109, 107, "three");
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "gap"), 1);
	inject_data(r, 107, 105, "two");
	expect_ack(r, 107);
	inject_data(r, 109, 107, "three");
	expect_ack(r, 109);
	inject_data(r, 107, 0, "two");
	expect_ack(r, 109);
	expect_delivered(r, "one");
	expect_delivered(r, "two");
	expect_delivered(r, "three");
	rig_expect_nothing_delivered(r);
}

/* Injects a packet whose acknowledgement may wait. */
static void
inject_patient(struct rig *r, uint64_t number, uint64_t previous, const char *text)
{
	struct packet p = packet(GM_DATA, number, previous, text);

	p.h.patient = true;
	inject(r, p);
	expect_delivered(r, text);
}

GM_TEST(gm_acknowledges_patient_packets_together, gm_server("gm.ack_delay=5ms"))
{
	inject_patient(r, 105, 0, "one");
	rig_advance_ms(r, 3);
	inject_patient(r, 106, 105, "two");
	rig_expect_silence_ms(r, 1);
	rig_advance_ms(r, 1);
	expect_ack(r, 106);
	inject_patient(r, 107, 106, "three");
	inject_data(r, 108, 107, "four"); /* its sender asks for it */
	expect_delivered(r, "four");
	expect_ack(r, 108);
	rig_expect_silence_ms(r, 10);
	inject_patient(r, 109, 108, "five");
	inject_data(r, 109, 108, "five"); /* ... because it has waited long enough */
	expect_ack(r, 109);
}

RIG_TEST(gm_acknowledges_patient_packets_at_once_without_a_delay, gm_server(""))
{
	inject_patient(r, 105, 0, "one");
	expect_ack(r, 105);
}

/* Its waiting acknowledgement ends with it. */
GM_TEST(gm_session_ends_while_acknowledgements_wait, gm_server("gm.ack_delay=5ms"))
{
	inject_patient(r, 105, 0, "one");
	meet(r, PARTNER, BOOT_B);
	rig_expect_silence_ms(r, 10);
}

/* Packets before the session's first are missing only if the sender reports so. */
RIG_TEST(gm_starts_a_session_only_if_nothing_is_missing, gm_server(""))
{
	inject_data(r, 107, 105, "two");
	CHECK_EQ(rig_counter(r, "gap"), 1);
	CHECK_EQ(rig_open_done_count(r), 0);
	inject_data(r, 105, 0, "one");
	inject_data(r, 107, 105, "two");
	expect_delivered(r, "one");
	expect_delivered(r, "two");
	rig_forget(r);
}

GM_TEST(gm_answers_on_a_strangers_session, gm_server(""))
{
	inject_data(r, 105, 0, "one");
	expect_ack(r, 105);
	rig_forget(r);
	CHECK_EQ(rig_push(r, rig_announced_session(r), "aabb"), 0);
	CHECK_EQ(expect(r, GM_DATA).h.length, 2);
}

RIG_TEST(gm_delivers_only_to_enabled_ports, gm_server(""))
{
	struct packet p = packet(GM_DATA, 105, 0, "one");

	p.h.destination++;
	inject(r, p);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(rig_open_disable(r, at_port(PORT)), 0);
	inject_data(r, 105, 0, "one");
	CHECK_EQ(rig_counter(r, "no_session"), 2);
	rig_expect_nothing_sent(r);
}

RIG_TEST(gm_resets_a_session_refused_by_the_hlp, gm_server(""))
{
	rig_refuse_sessions(r, -EPERM);
	inject_data(r, 105, 0, "one");
	expect_reset(r, 105, GM_R_REFUSED);
	rig_expect_counts(r, "refused=1 resets=1");
	rig_expect_nothing_delivered(r);
}

/* As if the user's demux had not returned yet. */
RIG_TEST(gm_queues_packets_during_a_delivery, gm_server("gm.buffers=3"))
{
	struct gm_session *s;

	inject_data(r, 105, 0, "one");
	expect_delivered(r, "one");
	expect_ack(r, 105);
	s = (struct gm_session *)rig_announced_session(r);
	s->delivering = true;
	inject_data(r, 106, 105, "two");
	inject_part(r, 107, 106, 6, 0, 3);
	inject_data(r, 106, 105, "two");
	expect_ack(r, 105); /* received, but not yet delivered */
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
	s->delivering = false;
	inject_part(r, 108, 107, 6, 3, 3);
	expect_delivered(r, "two");
	rig_expect_delivered(r, "000102030405");
	expect_ack(r, 106);
	expect_ack(r, 108);
}

/* ---- buffers ---- */

RIG_TEST(gm_delivers_into_posted_buffers, gm_server("gm.buffers=0"))
{
	struct xk_session *s;

	inject_data(r, 105, 0, "one");
	CHECK_EQ(rig_counter(r, "unposted"), 1);
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
	s = rig_announced_session(r); /* the hlp was notified and may post */
	CHECK_EQ(xk_post(s, 2, 4), 0);
	inject_data(r, 105, 0, "one");
	CHECK_EQ(rig_counter(r, "unposted"), 2);
	CHECK_EQ(xk_post(s, 4, 1), 0);
	inject_data(r, 105, 0, "one");
	expect_delivered(r, "one");
	expect_ack(r, 105);
	inject_data(r, 106, 105, "two");
	CHECK_EQ(rig_counter(r, "unposted"), 3);
	inject_data(r, 107, 106, "three");
	CHECK_EQ(rig_counter(r, "gap"), 1);
}

/* The host's other sessions continue. */
RIG_TEST(gm_receiver_without_buffers_stops_only_its_session, gm_server("gm.buffers=0"))
{
	struct packet p;

	inject_data(r, 105, 0, "one");
	for (unsigned i = 0; i < 1000; i++) {
		p = packet(GM_DATA, 106 + i, i == 0 ? 0 : 105 + i, "two");
		p.h.source = FAR + 1;
		inject(r, p);
		if (i == 0)
			CHECK_EQ(xk_post(rig_announced_session(r), 64, 1000), 0);
		if (i == 0)
			inject(r, p);
		inject_data(r, 105, 0, "one");
	}
	CHECK_EQ(rig_delivered(r), 1000);
	CHECK_EQ(rig_counter(r, "unposted"), 1002);
	rig_forget(r);
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
}

/* ---- long messages ---- */

RIG_TEST(gm_joins_fragments, gm_server(""))
{
	inject_part(r, 105, 0, 8, 0, 3);
	expect_ack(r, 105);
	inject_part(r, 106, 105, 8, 3, 3);
	expect_ack(r, 106);
	rig_expect_nothing_delivered(r);
	inject_part(r, 107, 106, 8, 6, 2);
	rig_expect_delivered(r, "0001020304050607");
	expect_ack(r, 107);
	CHECK_EQ(xk_kept(rig_protocol(r, "gm")), 0);
}

TEST(gm_resets_fragments_out_of_sequence)
{
	static const uint32_t cases[][4] = {
		/* total, offset, length, reason */
		{ 9, 3, 3, GM_R_INCONSISTENT },  /* another message's length */
		{ 8, 4, 3, GM_R_INCONSISTENT },  /* a byte is missing */
		{ 8, 2, 3, GM_R_INCONSISTENT },  /* a duplicate byte */
		{ 8, 3, 2, GM_R_INCONSISTENT },  /* shorter than the first, and not the last */
		{ 8, 3, 4, GM_R_INCONSISTENT },  /* longer */
		{ 8, 3, 5, GM_R_INCONSISTENT },  /* ... and the last */
		{ 8, 3, 0, GM_R_INCONSISTENT },  /* empty */
		{ 100001, 0, 4, GM_R_TOO_LONG }, /* too long */
		{ 9, 0, 0, GM_R_INCONSISTENT },  /* another message, whose first fragment is empty */
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		struct rig *r = gm_server("");

		inject_part(r, 105, 0, 8, 0, 3);
		expect_ack(r, 105);
		inject_part(r, 106, 105, cases[i][0], cases[i][1], cases[i][2]);
		expect_reset(r, 106, cases[i][3]);
		CHECK_EQ(rig_counter(r, cases[i][3] == GM_R_TOO_LONG ? "too_long" : "inconsistent"), 1);
		rig_expect_nothing_delivered(r);
		gm_rig_end(r);
	}
}

RIG_TEST(gm_starts_no_session_in_mid_message, gm_server(""))
{
	inject_part(r, 106, 0, 8, 3, 5);
	expect_reset(r, 106, GM_R_STALE);
	CHECK_EQ(rig_counter(r, "stale"), 1);
}

RIG_TEST(gm_abandons_an_incomplete_message, gm_server("gm.patience=2s; gm.buffers=1"))
{
	inject_part(r, 105, 0, 8, 0, 3);
	rig_advance_ms(r, 1000);
	inject_part(r, 106, 105, 8, 3, 3);
	rig_advance_ms(r, 1999);
	CHECK_EQ(rig_counter(r, "abandoned"), 0);
	rig_advance_ms(r, 1);
	CHECK_EQ(rig_counter(r, "abandoned"), 1);
	CHECK_EQ(rig_platform(r)->ops->buffers_out(rig_platform(r)), 0);
	rig_forget(r);
	inject_part(r, 107, 106, 8, 6, 2);
	expect_reset(r, 107, GM_R_INCONSISTENT);
	inject_data(r, 108, 106, "new"); /* its buffer is free again */
	expect_delivered(r, "new");
	rig_forget(r);
}

/* Six fragments of a message hold six buffers of 2 KiB, however short they are. */
TEST(gm_limits_held_buffers)
{
	static const struct {
		const char *settings;
		unsigned hosts; /* number of hosts for whose messages it has room */
	} cases[] = { { "gm.held=22k", 1 }, { "gm.held=34k", 2 }, { "gm.held=20k", 0 } };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		struct rig *r = gm_server(cases[i].settings);
		struct packet p = packet(GM_DATA, 105, 0, "a");
		unsigned refused = 0;

		for (unsigned host = 0; host < 3; host++) {
			p.host = host == 0 ? PARTNER : STRANGER + host;
			p.boot = BOOT_A + host;
			if (host > 0)
				meet(r, p.host, p.boot);
			for (unsigned session = 0; session < 2; session++) {
				p.h.source = (uint16_t)(FAR + session);
				p.h.total = 6;
				inject(r, p);
				refused += host >= cases[i].hosts || session > 0;
				CHECK_EQ(rig_counter(r, "no_room"), refused);
			}
		}
		p.h.total = 1;
		p.h.number++;
		inject(r, p);
		expect_delivered(r, "a"); /* holds nothing */
		CHECK(xk_kept(rig_protocol(r, "gm")) == 6 * cases[i].hosts);
		gm_rig_end(r);
	}
}

/* The first fragment tells how many buffers its message will hold. */
GM_TEST(gm_refuses_a_message_in_too_many_segments, gm_server("gm.held=4m"))
{
	inject_part(r, 105, 0, 8000, 0, 1);
	CHECK_EQ(rig_counter(r, "no_room"), 1);
	inject_part(r, 105, 0, 1024, 0, 1);
	expect_ack(r, 105);
	CHECK_EQ(rig_counter(r, "no_room"), 1);
}

/* A later fragment in more segments than the first takes more buffers or is refused; the message can still arrive. */
TEST(gm_counts_the_segments_of_each_fragment)
{
	struct rig *r = gm_server("gm.held=12k"); /* three buffers */
	struct packet p = packet(GM_DATA, 106, 105, "defg");
	uint8_t bytes[BID_LEN + GM_HEADER_LEN + BYTES];
	char text[400];
	size_t len;

	p.h.total = 12;
	p.h.offset = 4;
	inject_part(r, 105, 0, 12, 0, 4);
	expect_ack(r, 105);
	len = packet_store(r, &p, bytes);
	text[0] = '\0';
	for (size_t i = 0; i < len; i++)
		sprintf(text + strlen(text), "%s%02x", i > len - 4 ? "|" : "", bytes[i]);
	rig_inject(r, text);
	CHECK_EQ(rig_counter(r, "no_room"), 1);
	inject(r, p);
	expect_ack(r, 106);
	gm_rig_end(r);
}

/* ---- sessions that come and go ---- */

RIG_TEST(gm_ends_a_session_if_the_peer_starts_a_later_one, gm_server(""))
{
	struct packet p = packet(GM_DATA, 203, 0, "new");
	struct xk_session *old;

	rig_keep_sessions(r, true);
	inject_data(r, 105, 0, "old");
	inject_part(r, 106, 105, 8, 0, 3);
	old = rig_announced_session(r);
	p.h.begin = 200;
	inject(r, p);
	expect_delivered(r, "old");
	expect_delivered(r, "new");
	CHECK(rig_announced_session(r) != old);
	CHECK_EQ(rig_close_done_count(r), 1);
	CHECK_EQ(rig_counter(r, "abandoned"), 1);
	CHECK_EQ(rig_push(r, old, "aa"), -ECONNRESET);
	rig_forget(r);
	inject_data(r, 107, 0, "late");
	CHECK_EQ(rig_counter(r, "stale"), 1);
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
}

/* A forgotten session costs the sender nothing and lets no old packet in. */
RIG_TEST(gm_resumes_a_forgotten_session, gm_server("gm.peer_sessions=1"))
{
	struct packet p = packet(GM_DATA, 110, 0, "other");

	inject_data(r, 105, 0, "one");
	inject_data(r, 107, 105, "two");
	p.h.source = FAR + 1;
	p.h.begin = 109;
	inject(r, p);
	rig_forget(r);
	CHECK_EQ(rig_open_done_count(r), 2);
	inject_data(r, 105, 0, "one"); /* copies of old packets */
	expect_reset(r, 105, GM_R_STALE);
	inject_data(r, 107, 0, "two");
	expect_reset(r, 107, GM_R_STALE);
	inject_data(r, 107, 105, "two");
	inject_data(r, 112, 111, "four");
	CHECK_EQ(rig_counter(r, "gap"), 2);
	rig_expect_nothing_delivered(r);
	inject_data(r, 111, 0, "three");
	expect_delivered(r, "three");
	inject_data(r, 112, 111, "four");
	expect_delivered(r, "four");
	rig_forget(r);
}

GM_TEST(gm_limits_a_hosts_sessions, gm_server("gm.peer_sessions=1"))
{
	struct packet p = packet(GM_DATA, 110, 0, "other");

	inject_part(r, 105, 0, 8, 0, 3); /* busy */
	p.h.source = FAR + 1;
	inject(r, p);
	CHECK_EQ(rig_counter(r, "too_many"), 1);
	meet(r, STRANGER, BOOT_B);
	p.host = STRANGER;
	p.boot = BOOT_B;
	inject(r, p);
	expect_delivered(r, "other");
}

RIG_TEST(gm_delivers_nothing_from_an_ended_boot, gm_server(""))
{
	struct packet p = packet(GM_DATA, 3, 0, "new");
	struct gm_session *s;

	rig_keep_sessions(r, true);
	inject_data(r, 105, 0, "old");
	inject_part(r, 106, 105, 8, 0, 3);
	expect_delivered(r, "old");
	s = (struct gm_session *)rig_announced_session(r);
	meet(r, PARTNER, BOOT_B);
	CHECK_EQ(rig_close_done_count(r), 1);
	CHECK_EQ(rig_counter(r, "abandoned"), 1);
	inject_part(r, 107, 106, 8, 3, 5); /* BID drops it */
	rig_expect_nothing_delivered(r);
	p.h.begin = 1;
	p.boot = BOOT_B;
	inject(r, p); /* its numbers begin anew */
	expect_delivered(r, "new");
	CHECK(rig_delivered_session(r) != &s->session);
	rig_forget(r);
}

/* The boot is unknown if BID is not below, or delivers an ended boot's last messages. */
RIG_TEST(gm_drops_packets_of_an_unknown_boot,
	 rig_new_graph("wire:; wire2:; bidctl: wire2; bidctl.broadcast=no; gm: wire bidctl; user: gm"))
{
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	rig_inject(r, "0009 0007 0001 0000 00000000 00000000 0000000000000064 0000000000000065 0000000000000000");
	CHECK_EQ(rig_counter(r, "stale"), 1);
	rig_expect_nothing_sent(r);
	rig_expect_nothing_delivered(r);
}

RIG_TEST(gm_forgets_lost_hosts, gm_server("bidctl.lifetime=1s; gm.peer_sessions=1"))
{
	struct gm *gm = (struct gm *)rig_protocol(r, "gm");
	struct packet p = packet(GM_DATA, 110, 0, "other");

	inject_data(r, 105, 0, "one");
	p.h.source = FAR + 1;
	inject(r, p);
	CHECK_EQ(xk_map_count(&gm->peers), 1);
	CHECK_EQ(rig_open_disable(r, at_port(PORT)), 0);
	CHECK_EQ(xk_map_count(&gm->peers), 1); /* the floor */
	rig_advance_repeatedly_ms(r, 30, 100);
	CHECK_EQ(xk_map_count(&gm->peers), 0);
	rig_forget(r);
}

/* ---- datagrams ---- */

static void
inject_datagram(struct rig *r, uint64_t number, const char *text)
{
	inject(r, packet(GM_DATAGRAM, number, 0, text));
}

/* Injects a datagram's fragment: len bytes at `offset`, of `total`. */
static void
inject_datagram_part(struct rig *r, uint64_t number, uint32_t total, uint32_t offset, uint32_t len)
{
	struct packet p = packet(GM_DATAGRAM, number, 0, "");

	p.h.total = total;
	p.h.offset = offset;
	p.h.length = len;
	for (uint32_t i = 0; i < len; i++)
		p.payload[i] = (uint8_t)((offset + i) % 251);
	inject(r, p);
}

RIG_TEST(gm_delivers_datagrams_once_in_order, gm_server("gm.buffers=1"))
{
	struct packet p = packet(GM_DATAGRAM, 6, 0, "late");
	struct gm_session *s;

	inject_datagram(r, 3, "one");
	expect_delivered(r, "one");
	inject_datagram(r, 3, "one");
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	inject_datagram(r, 4, "two");
	expect_delivered(r, "two");
	CHECK_EQ(rig_counter(r, "skipped"), 0);
	inject_datagram(r, 6, "four");
	expect_delivered(r, "four");
	CHECK_EQ(rig_counter(r, "skipped"), 1);
	inject_datagram(r, 5, "three");
	CHECK_EQ(rig_counter(r, "duplicate"), 2);
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_open_done_count(r), 1);
	s = (struct gm_session *)rig_announced_session(r);
	inject_data(r, 105, 0, "kept"); /* reliable packets have numbers of their own */
	expect_delivered(r, "kept");
	expect_ack(r, 105);
	CHECK_EQ(atomic_exchange(&s->posted.counts[XK_POSTED_OWN], 0), 1);
	inject_datagram(r, 7, "five");
	CHECK_EQ(rig_counter(r, "unposted"), 1);
	p.h.begin--;
	inject(r, p);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	rig_expect_nothing_sent(r);
}

/* The numbers of a later session of the peer begin again. */
GM_TEST(gm_delivers_datagrams_of_a_later_session, gm_rig(""))
{
	struct packet p = packet(GM_DATAGRAM, 1, 0, "again");

	open_it(r);
	inject_datagram(r, 9, "nine");
	expect_delivered(r, "nine");
	p.h.begin++;
	inject(r, p);
	expect_delivered(r, "again");
}

RIG_TEST(gm_reassembles_datagrams, gm_server("gm.patience=1s"))
{
	uint8_t bytes[2000];

	inject_datagram_part(r, 1, 2000, 1000, 1000); /* neither its beginning nor its session is known */
	CHECK_EQ(rig_counter(r, "stale"), 1);
	rig_expect_nothing_sent(r);
	inject_datagram_part(r, 1, 2000, 0, 1000);
	inject_datagram_part(r, 1, 2000, 1000, 1000);
	CHECK_EQ(rig_take_delivered(r, bytes, sizeof(bytes)), 2000);
	inject_datagram_part(r, 2, 3000, 0, 1000);
	inject_datagram_part(r, 2, 3000, 2000, 1000);
	CHECK_EQ(rig_counter(r, "inconsistent"), 1);
	inject_datagram(r, 3, "three");
	expect_delivered(r, "three");
	inject_datagram_part(r, 2, 3000, 1000, 1000);
	CHECK_EQ(rig_counter(r, "gap"), 1);
	inject_datagram_part(r, 4, 3000, 0, 1000);
	CHECK_EQ(rig_counter(r, "abandoned"), 1);
	rig_advance_ms(r, 1000);
	CHECK_EQ(rig_counter(r, "abandoned"), 2);
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
}

RIG_TEST(gm_delivers_a_datagram_during_a_long_message, gm_server(""))
{
	uint8_t bytes[2000];

	inject_part(r, 105, 0, 2000, 0, 1000);
	expect_ack(r, 105);
	inject_datagram(r, 1, "short");
	expect_delivered(r, "short");
	rig_expect_nothing_sent(r);
	inject_part(r, 106, 105, 2000, 1000, 1000);
	CHECK_EQ(rig_take_delivered(r, bytes, sizeof(bytes)), 2000);
	expect_ack(r, 106);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(gm_grants_credit_to_datagrams_that_ask, gm_server(""))
{
	struct packet p;

	inject(r, packet(GM_DATAGRAM, 1, 0, "one"));
	rig_expect_nothing_sent(r);
	inject(r, packet(GM_DATAGRAM, 2, 1, "two"));
	p = expect(r, GM_CREDIT);
	CHECK_EQ(p.h.number, 2);
	CHECK_EQ(p.h.begin, 100);
	expect_delivered(r, "one");
	expect_delivered(r, "two");
	rig_expect_nothing_sent(r);
}

/* ---- deposits ---- */

static uint8_t memory[100];

static struct packet
deposit_packet(uint64_t number, uint32_t region, uint32_t place, const char *text)
{
	struct packet p = packet(GM_DEPOSIT, number, number - 1, text);

	if (number == 105)
		p.h.previous = 0;
	p.h.total = region;
	p.h.offset = place;
	return p;
}

static struct rig *
rig_with_region(struct xk_region *region, uint16_t port)
{
	struct rig *r = gm_server("");

	memset(memory, 0, sizeof(memory));
	*region = (struct xk_region){ .base = memory + 10, .len = 20, .port = port };
	CHECK_EQ(xk_region_register(rig_protocol(r, "gm"), region), 0);
	return r;
}

TEST(gm_deposits_in_order_without_delivering)
{
	struct xk_region region;
	struct rig *r = rig_with_region(&region, PORT);

	inject(r, deposit_packet(105, region.id, 0, "abcdef"));
	expect_ack(r, 105);
	inject(r, deposit_packet(106, region.id, 14, "uvwxyz"));
	expect_ack(r, 106);
	inject(r, deposit_packet(106, region.id, 0, "AB")); /* a duplicate */
	expect_ack(r, 106);
	inject(r, deposit_packet(107, region.id, 20, "")); /* empty, at the end */
	expect_ack(r, 107);
	CHECK(memcmp(memory + 9, "\0abcdef\0\0\0\0\0\0\0\0uvwxyz\0", 22) == 0);
	CHECK_EQ(rig_counter(r, "deposited"), 3);
	CHECK_EQ(rig_open_done_count(r), 0);
	rig_expect_nothing_delivered(r);
	inject_data(r, 108, 107, "done");
	expect_delivered(r, "done");
	CHECK_EQ(rig_open_done_count(r), 1);
	rig_forget(r);
	rig_free(r);
}

TEST(gm_deposits_within_bounds_only)
{
	static const struct {
		uint32_t place;
		const char *text;
	} cases[] = { { 15, "uvwxyz" },   { 20, "x" },          { 21, "" },
		      { 0xffffffff, "" }, { 0xffffffff, "ab" }, { 0, "abcdefghijklmnopqrstu" } };

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		struct xk_region region;
		struct rig *r = rig_with_region(&region, PORT);

		inject(r, deposit_packet(105, region.id, cases[i].place, cases[i].text));
		expect_reset(r, 105, GM_R_BOUNDS);
		rig_expect_counts(r, "out_of_bounds=1 deposited=0");
		for (unsigned k = 0; k < sizeof(memory); k++)
			CHECK_EQ(memory[k], 0);
		rig_free(r);
	}
}

TEST(gm_deposits_into_registered_memory_only)
{
	struct xk_region region;
	struct rig *r = rig_with_region(&region, PORT);

	inject(r, deposit_packet(105, region.id ^ 1, 0, "abc"));
	expect_reset(r, 105, GM_R_REGION);
	inject(r, deposit_packet(105, 0, 0, "abc"));
	expect_reset(r, 105, GM_R_REGION);
	CHECK_EQ(xk_region_unregister(rig_protocol(r, "gm"), &region), 0);
	inject(r, deposit_packet(105, region.id, 0, "abc"));
	expect_reset(r, 105, GM_R_REGION);
	CHECK_EQ(rig_counter(r, "bad_region"), 3);
	rig_free(r);
	r = rig_with_region(&region, PORT + 1); /* another port's */
	inject(r, deposit_packet(105, region.id, 0, "abc"));
	expect_reset(r, 105, GM_R_REGION);
	CHECK_EQ(memory[10], 0);
	rig_free(r);
}

/* ---- malformed packets ---- */

RIG_TEST(gm_drops_truncated_packets, gm_server(""))
{
	struct packet p = packet(GM_DATA, 105, 0, "one");
	uint8_t bytes[BID_LEN + GM_HEADER_LEN + BYTES];
	size_t len = packet_store(r, &p, bytes);

	for (size_t i = BID_LEN + 1; i < len; i++)
		rig_inject_bytes(r, bytes, i);
	CHECK_EQ(rig_counter(r, "short"), GM_HEADER_LEN - 1);
	CHECK_EQ(rig_counter(r, "bad_length"), 3);
	memset(bytes + len, 0, 20); /* padding */
	rig_inject_bytes(r, bytes, len + 20);
	expect_delivered(r, "one");
	rig_forget(r);
}

TEST(gm_drops_impossible_headers)
{
	static const struct {
		struct gm_header h;
		const char *why;
	} cases[] = {
		{ { 0, 0, 0, 0, 3, 3, 0, 100, 105, 0 }, "bad_kind" },
		{ { 0, 0, 0, GM_CREDIT + 1, 3, 3, 0, 100, 105, 0 }, "bad_kind" },
		{ { 0, 0, 0, GM_DATA, 3, 3, 0, 0, 105, 0 }, "bad_kind" },
		{ { 0, 0, 0, GM_DATA, 3, 3, 0, 100, 0, 0 }, "bad_kind" },
		{ { 0, 0, 0, GM_DATA, 3, 3, 0, 100, 105, 105 }, "bad_kind" },
		{ { 0, 0, 0, GM_DATA, 3, 3, 0, 100, UINT64_C(1) << 62, 0 }, "bad_kind" },
		{ { 0, 0, 0, GM_DATAGRAM, 3, 3, 0, 100, 0, 0 }, "bad_kind" },
		{ { 0, 0, 0, GM_DATAGRAM, 3, 3, 0, 100, 1, 2 }, "bad_kind" },
		{ { 0, 0, 0, GM_DATA, 3, 2, 0, 100, 105, 0 }, "bad_length" },
		{ { 0, 0, 0, GM_DATA, 3, 10, 8, 100, 105, 0 }, "bad_length" },
		{ { 0, 0, 0, GM_DATA, 3, 10, 11, 100, 105, 0 }, "bad_length" },
		{ { 0, 0, 0, GM_DATAGRAM, 3, 2, 0, 100, 1, 0 }, "bad_length" },
		{ { 0, 0, 0, GM_DATAGRAM, 3, 3, 1, 100, 1, 0 }, "bad_length" },
		{ { 0, 0, 0, GM_ACK, 3, 0, 0, 100, 105, 0 }, "bad_length" },
		{ { 0, 0, 0, GM_RESET, 3, 0, 0, 100, 105, 0 }, "bad_length" },
		{ { 0, 0, 0, GM_CREDIT, 3, 0, 0, 100, 105, 0 }, "bad_length" },
	};

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(cases); i++) {
		struct rig *r = gm_server("");
		struct packet p = { cases[i].h, PARTNER, BOOT_A, { 0 } };

		p.h.source = FAR;
		p.h.destination = PORT;
		inject(r, p);
		CHECK_EQ(rig_counter(r, cases[i].why), 1);
		rig_expect_nothing_delivered(r);
		rig_expect_nothing_sent(r);
		rig_free(r);
	}
}
