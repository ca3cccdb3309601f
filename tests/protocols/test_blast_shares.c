/*
 * test_blast_shares.c - CHAN over BLAST, which keeps few long messages: clients that never acknowledge a reply, beside
 * one that loses a frame now and then.
 */
#include "protocols/blast/blast_private.h"
#include "tests/protocols/chan_rig.h"

enum {
	STATIONS = 3,
	CALL_MS = 5, /* time between two of a station's calls */
	HONEST_MS = 100,
	LOSS_MS = 20, /* time until the honest client sends a NACK for a lost fragment */
	SECONDS = 5,
	ON_BLAST = 0x3003,
	REPLY = 4000,
	FRAGMENTS = 3,
	FRAME_MAX = 2000,
};

struct shares {
	struct rig *r;
	struct xk_session *stations[STATIONS + 1]; /* the last is honest's */
	unsigned called, asked;
};

/* Injects the next message from a station. */
static void
come_from(struct shares *w, unsigned station, const uint8_t *bytes, size_t len)
{
	char hex[2 * FRAME_MAX + 1];

	if (w->stations[station] == NULL) {
		rig_wire_peer(w->r, 0x100 + station);
		rig_inject_bytes(w->r, bytes, len);
		w->stations[station] = rig_wire_newest_session(w->r);
		return;
	}
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	rig_inject_on(w->r, w->stations[station], hex);
}

static void
blast_header(uint8_t *p, uint32_t sequence, uint32_t length, unsigned count, enum blast_op op, uint64_t mask)
{
	xk_put32(p, ON_BLAST);
	xk_put32(p + 4, sequence);
	xk_put32(p + 8, length);
	xk_put16(p + 12, (uint16_t)count);
	p[14] = (uint8_t)op;
	p[15] = BLAST_FRAGMENTS;
	xk_put64(p + 16, mask);
}

static void
request(struct shares *w, unsigned station, uint32_t channel, uint32_t sequence)
{
	struct chan_header h = { channel, NUMBER, sequence, CHAN_FROM_CLIENT | CHAN_USER_MSG, 0 };
	uint8_t bytes[BLAST_HEADER_LEN + CHAN_HEADER_LEN + 1];
	size_t len = frame_bytes(bytes + BLAST_HEADER_LEN, h, "x", 1);

	blast_header(bytes, 0, (uint32_t)len, 0, BLAST_SEND, 0);
	come_from(w, station, bytes, BLAST_HEADER_LEN + len);
}

/* Sends a bare NEGATIVE_ACK: the station lacks the reply. */
static void
ask_again(struct shares *w, unsigned station, uint32_t channel, uint32_t sequence)
{
	struct chan_header h = { channel, NUMBER, sequence, CHAN_FROM_CLIENT | CHAN_NEGATIVE_ACK, 0 };
	uint8_t bytes[BLAST_HEADER_LEN + CHAN_HEADER_LEN];
	size_t len = frame_bytes(bytes + BLAST_HEADER_LEN, h, "", 0);

	blast_header(bytes, 0, (uint32_t)len, 0, BLAST_SEND, 0);
	come_from(w, station, bytes, BLAST_HEADER_LEN + len);
}

/* Returns the number of fragments of a long message sent, and stores its sequence number. */
static unsigned
fragments(struct shares *w, uint32_t *sequence)
{
	uint8_t bytes[FRAME_MAX];
	unsigned count = 0;

	while (rig_sent(w->r) > 0) {
		REQUIRE(rig_take_sent(w->r, bytes, sizeof(bytes)) >= BLAST_HEADER_LEN);
		if (xk_get32(bytes + 4) == 0)
			continue;
		*sequence = xk_get32(bytes + 4);
		count++;
	}
	return count;
}

/* Makes calls from the stations, each on a channel of its own, so that no request acknowledges a reply. */
static void
flood(struct shares *w, unsigned ms)
{
	for (unsigned i = 0; i < ms / CALL_MS; i++) {
		request(w, w->called % STATIONS, CHANNEL + w->called, 1);
		w->called++;
		rig_advance_ms(w->r, CALL_MS);
	}
	rig_forget(w->r);
}

/* Makes a call as the honest client; the second fragment of the reply is lost. */
static void
call_honestly(struct shares *w)
{
	uint8_t nack[BLAST_HEADER_LEN];
	uint32_t sequence = 0, again = 0;

	request(w, STATIONS, CHANNEL, ++w->asked);
	CHECK_EQ(fragments(w, &sequence), FRAGMENTS);
	flood(w, LOSS_MS);
	blast_header(nack, sequence, 0, FRAGMENTS, BLAST_NACK, 5);
	come_from(w, STATIONS, nack, sizeof(nack));
	CHECK_EQ(fragments(w, &again), 1);
	CHECK_EQ(again, sequence);
}

TEST(blast_serves_a_client_while_others_never_acknowledge)
{
	struct shares w = { .r = rig_new_prepared("wire:; blast: wire; chan: blast", chan_rig_prepare) };

	CHECK_EQ(serve(w.r, true), 0);
	caller_in(w.r)->reply_len = REPLY;
	flood(&w, 500); /* takes all copies */
	for (unsigned ms = 0; ms < 1000 * SECONDS; ms += HONEST_MS) {
		call_honestly(&w);
		flood(&w, HONEST_MS - LOSS_MS);
	}
	CHECK_EQ(caller_in(w.r)->executed, w.called + w.asked);
	CHECK_EQ(rig_counter_of(w.r, "blast", "no_slot"), 0);
	CHECK(rig_counter_of(w.r, "blast", "displaced") > 0);
	rig_advance_ms(w.r, 60000);
	rig_forget(w.r);
	chan_rig_end(w.r);
}

/* CHAN retransmits it whole, BLAST in fragments. */
TEST(blast_and_chan_retransmit_a_reply_at_most_three_times)
{
	struct shares w = { .r = rig_new_prepared("wire:; blast: wire; chan: blast", chan_rig_prepare) };
	uint8_t nack[BLAST_HEADER_LEN];
	uint32_t sequence = 0;
	unsigned sent;

	CHECK_EQ(serve(w.r, true), 0);
	caller_in(w.r)->reply_len = REPLY;
	request(&w, 0, CHANNEL, 1);
	sent = fragments(&w, &sequence);
	CHECK_EQ(sent, FRAGMENTS);
	for (unsigned i = 0; i < 10000; i++) {
		blast_header(nack, sequence, 0, FRAGMENTS, BLAST_NACK, 1 + i / 500 % 2);
		come_from(&w, 0, nack, sizeof(nack));
		ask_again(&w, 0, CHANNEL, 1);
		rig_advance_ms(w.r, 5);
		sent += fragments(&w, &sequence);
	}
	CHECK(sent > 2 * FRAGMENTS);
	CHECK(sent <= 4 * FRAGMENTS);
	rig_advance_ms(w.r, 60000);
	rig_forget(w.r);
	chan_rig_end(w.r);
}
