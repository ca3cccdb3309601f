/*
 * test_stopwait.c - one end on a fake wire, whose other side the test plays; then two ends, and a network between them that
 * loses, duplicates and reorders, and hosts that reboot. It looks into sessions where nothing else shows what it must:
 * numbers that are about to wrap, and a delivery that has not returned.
 */
#include <limits.h>
#include <stdlib.h>

#include "protocols/stopwait_private.h"

#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { HOST = 0x0a4d0002, PORT = 7, CALLER = 0x2345, LEN = 3000 };

/* What goes over the wire, both ways. */
struct packet {
	unsigned source, destination, kind;
	uint32_t sequence;
	uint64_t from, to;
	size_t len; /* of the payload */
	uint8_t payload[LEN];
};

static const char *const kinds[] = { "", "CALL", "WELCOME", "DATA", "ACK", "GONE" };

/* The payload is hexadecimal, a digit a byte. */
static struct packet
packet(unsigned kind, uint32_t sequence, uint64_t from, uint64_t to, const char *payload)
{
	struct packet p = { CALLER, PORT, kind, sequence, from, to, strlen(payload), { 0 } };

	memcpy(p.payload, payload, p.len);
	return p;
}

static size_t
packet_store(const struct packet *p, uint8_t *bytes)
{
	memset(bytes, 0, STOPWAIT_HEADER_LEN);
	xk_put16(bytes, (uint16_t)p->source);
	xk_put16(bytes + 2, (uint16_t)p->destination);
	xk_put16(bytes + 4, (uint16_t)(STOPWAIT_HEADER_LEN + p->len));
	xk_put16(bytes + 8, (uint16_t)p->kind);
	xk_put32(bytes + 10, p->sequence);
	xk_put64(bytes + 14, p->from);
	xk_put64(bytes + 22, p->to);
	memcpy(bytes + STOPWAIT_HEADER_LEN, p->payload, p->len);
	xk_checksum_store(bytes + 6, xk_checksum_finish(xk_sum(0, bytes, STOPWAIT_HEADER_LEN + p->len)));
	return STOPWAIT_HEADER_LEN + p->len;
}

static void
inject(struct rig *r, struct packet p)
{
	uint8_t bytes[STOPWAIT_HEADER_LEN + LEN];

	rig_inject_bytes(r, bytes, packet_store(&p, bytes));
}

/* What was sent next; kind 0: nothing. */
static struct packet
sent(struct rig *r)
{
	uint8_t bytes[STOPWAIT_HEADER_LEN + LEN];
	struct packet p = { .kind = 0 };
	long len;

	if (rig_sent(r) == 0)
		return p;
	len = rig_take_sent(r, bytes, sizeof(bytes));
	REQUIRE(len >= STOPWAIT_HEADER_LEN && len <= (long)sizeof(bytes));
	CHECK_EQ(xk_get16(bytes + 4), len);
	CHECK(xk_sum_is_intact(xk_sum(0, bytes, (size_t)len)));
	p.source = xk_get16(bytes);
	p.destination = xk_get16(bytes + 2);
	p.kind = xk_get16(bytes + 8);
	p.sequence = xk_get32(bytes + 10);
	p.from = xk_get64(bytes + 14);
	p.to = xk_get64(bytes + 22);
	p.len = (size_t)len - STOPWAIT_HEADER_LEN;
	memcpy(p.payload, bytes + STOPWAIT_HEADER_LEN, p.len);
	return p;
}

static struct packet
expect(struct rig *r, unsigned kind, uint32_t sequence)
{
	struct packet p = sent(r);

	CHECK_STR(p.kind <= STOPWAIT_GONE ? kinds[p.kind] : "?", kinds[kind]);
	CHECK_EQ(p.sequence, sequence);
	return p;
}

static int
push(struct rig *r, struct xk_session *s, const char *text)
{
	return rig_push_bytes(r, s, text, strlen(text));
}

static void
expect_delivered(struct rig *r, const char *text)
{
	char bytes[LEN + 1];
	long len = rig_take_delivered(r, bytes, LEN);

	bytes[len < 0 ? 0 : len] = '\0';
	CHECK_STR(len < 0 ? "nothing" : bytes, text);
}

/* An active session, which has not called yet. */
static struct xk_session *
open_it(struct rig *r)
{
	struct xk_session *s = rig_open(r, rig_to2(HOST, PORT, CALLER));

	REQUIRE(s != NULL);
	return s;
}

/* An active session that the peer `0xb` has welcomed; *id is what it is called. What it has pushed first is under way. */
static struct xk_session *
open_and_call(struct rig *r, const char *text, uint64_t *id)
{
	struct xk_session *s = open_it(r);
	struct packet p;

	CHECK_EQ(push(r, s, text), 0);
	p = expect(r, STOPWAIT_CALL, 0);
	*id = p.from;
	p = packet(STOPWAIT_WELCOME, 0, 0xb, *id, "");
	p.source = PORT;
	p.destination = CALLER;
	inject(r, p);
	return s;
}

/* What the peer 0xb of an active session says. */
static void
answer(struct rig *r, unsigned kind, uint32_t sequence, uint64_t from, uint64_t id)
{
	struct packet p = packet(kind, sequence, from, id, "");

	p.source = PORT;
	p.destination = CALLER;
	inject(r, p);
}

/* As a server: the peer `from` calls. What the end is called that has welcomed it; 0: nobody has. */
static uint64_t
call(struct rig *r, uint64_t from)
{
	struct packet p;

	inject(r, packet(STOPWAIT_CALL, 0, from, 0, ""));
	p = sent(r);
	if (p.kind == 0)
		return 0;
	CHECK_EQ(p.kind, STOPWAIT_WELCOME);
	CHECK_EQ(p.to, from);
	return p.from;
}

static struct xk_participants
here(unsigned port)
{
	return (struct xk_participants){ .local = { 1, { port } } };
}

static struct rig *
server_new(const char *settings)
{
	char type[128];
	struct rig *r;

	snprintf(type, sizeof(type), "stopwait %s", settings);
	r = rig_new(type);
	CHECK_EQ(rig_open_enable(r, here(PORT)), 0);
	return r;
}

/* After this nothing waits for an answer any more. */
static void
end(struct rig *r)
{
	for (unsigned i = 0; i < 60; i++)
		rig_advance_ms(r, 1000);
	rig_forget(r);
	rig_free(r);
}

/* ---- calling ---- */

TEST(stopwait_open_sends_nothing_and_the_first_message_calls)
{
	struct rig *r = rig_new("stopwait");
	struct xk_session *s = open_it(r);
	struct packet p;

	CHECK_EQ(rig_wire_remote(r), HOST);
	rig_expect_nothing_sent(r);
	CHECK_EQ(push(r, s, "hello"), 0);
	rig_expect_sent(r, "2345 0007 001e .... 0001 00000000 ................ 0000000000000000");
	rig_advance_ms(r, 200);
	p = expect(r, STOPWAIT_CALL, 0);
	CHECK(p.from != 0);
	answer(r, STOPWAIT_WELCOME, 0, 0xb, p.from);
	rig_expect_sent(r, "2345 0007 0023 .... 0003 00000000 ................ 000000000000000b 68656c6c6f");
	answer(r, STOPWAIT_ACK, 0, 0xb, p.from);
	rig_advance_ms(r, 60000);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_drops(r), 0);
	rig_free(r);
}

TEST(stopwait_answers_a_call_and_delivers)
{
	struct rig *r = server_new("");
	uint64_t id = call(r, 0xa);

	REQUIRE(id != 0);
	CHECK_EQ(rig_open_dones(r), 0); /* it may be an old one */
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "one"));
	CHECK_EQ(rig_open_dones(r), 1);
	expect_delivered(r, "one");
	rig_expect_sent(r, "0007 2345 001e .... 0004 00000000 ................ 000000000000000a");
	inject(r, packet(STOPWAIT_DATA, 1, 0xa, id, ""));
	expect_delivered(r, "");
	CHECK_EQ(expect(r, STOPWAIT_ACK, 1).from, id);
	CHECK_EQ(rig_open_dones(r), 1);
	CHECK_EQ(rig_counter(r, "called"), 1);
	CHECK_EQ(rig_counter(r, "accepted"), 1);
	CHECK_EQ(rig_drops(r), 0);
	rig_free(r);
}

TEST(stopwait_server_answers_on_the_session_of_the_caller)
{
	struct rig *r = server_new("");
	uint64_t id = call(r, 0xa);
	struct packet p;

	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "q"));
	expect_delivered(r, "q");
	expect(r, STOPWAIT_ACK, 0);
	CHECK_EQ(push(r, rig_announced(r), "a"), 0);
	p = expect(r, STOPWAIT_DATA, 0);
	CHECK_EQ(p.source, PORT);
	CHECK_EQ(p.destination, CALLER);
	CHECK_EQ(p.from, id);
	CHECK_EQ(p.to, 0xa);
	inject(r, packet(STOPWAIT_ACK, 0, 0xa, id, ""));
	rig_advance_ms(r, 60000);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(stopwait_repeats_its_welcome_and_makes_one_end)
{
	struct rig *r = server_new("");
	uint64_t id = call(r, 0xa);

	CHECK_EQ(call(r, 0xa), id);
	CHECK(call(r, 0xc) != id);
	CHECK_EQ(rig_counter(r, "called"), 2);
	rig_free(r);
}

TEST(stopwait_calls_only_where_somebody_is_willing)
{
	struct rig *r = server_new("");
	struct packet p = packet(STOPWAIT_CALL, 0, 0xa, 0, "");

	p.destination = PORT + 1;
	inject(r, p);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(rig_open_disable(r, here(PORT)), 0);
	CHECK_EQ(call(r, 0xa), 0);
	CHECK_EQ(rig_counter(r, "no_session"), 2);
	rig_free(r);
}

TEST(stopwait_takes_the_first_welcome_only)
{
	struct rig *r = rig_new("stopwait");
	uint64_t id;
	struct xk_session *s = open_and_call(r, "x", &id);

	CHECK_EQ(expect(r, STOPWAIT_DATA, 0).to, 0xb);
	answer(r, STOPWAIT_WELCOME, 0, 0xb, id);
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	answer(r, STOPWAIT_WELCOME, 0, 0xc, id);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 250);
	CHECK_EQ(expect(r, STOPWAIT_DATA, 0).to, 0xb);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	rig_close(r, s);
	end(r);
}

TEST(stopwait_refused_by_the_hlp_says_that_it_is_gone)
{
	struct rig *r = server_new("");
	uint64_t id = call(r, 0xa);

	rig_refuse(r, -EPERM);
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "x"));
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "refused"), 1);
	CHECK_EQ(expect(r, STOPWAIT_GONE, 0).from, id);
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "x")); /* the end is no more */
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(expect(r, STOPWAIT_GONE, 0).from, id);
	CHECK_EQ(rig_counter(r, "gone"), 2);
	rig_free(r);
}

/* ---- sending ---- */

TEST(stopwait_sends_one_message_at_a_time_in_order)
{
	struct rig *r = rig_new("stopwait");
	uint64_t id;
	struct xk_session *s = open_and_call(r, "0", &id);

	CHECK_EQ(push(r, s, "1"), 0);
	CHECK_EQ(push(r, s, "2"), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct packet p = expect(r, STOPWAIT_DATA, i);

		CHECK_EQ(p.payload[0], '0' + i);
		rig_expect_nothing_sent(r);
		answer(r, STOPWAIT_ACK, i, 0xb, id);
	}
	rig_expect_nothing_sent(r);
	end(r);
}

TEST(stopwait_queue_is_bounded)
{
	struct rig *r = rig_new("stopwait queue=2");
	struct xk_session *s = open_it(r);

	CHECK_EQ(push(r, s, "0"), 0); /* under way */
	CHECK_EQ(push(r, s, "1"), 0);
	CHECK_EQ(push(r, s, "2"), 0);
	CHECK_EQ(push(r, s, "3"), -ENOBUFS);
	CHECK_EQ(rig_counter(r, "queue_full"), 1);
	end(r);
}

TEST(stopwait_sends_again_later_and_later_up_to_the_bound)
{
	static const unsigned gaps_ms[] = { 100, 200, 400, 500, 500 };
	struct rig *r = rig_new("stopwait timeout=100ms timeout_max=500ms");
	uint64_t id;

	open_and_call(r, "x", &id);
	expect(r, STOPWAIT_DATA, 0);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(gaps_ms); i++) {
		rig_advance_ms(r, gaps_ms[i] - 1);
		rig_expect_nothing_sent(r);
		rig_advance_ms(r, 1);
		expect(r, STOPWAIT_DATA, 0);
	}
	CHECK_EQ(rig_counter(r, "retransmitted"), 5);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	end(r);
}

TEST(stopwait_begins_each_message_with_the_first_time_out)
{
	struct rig *r = rig_new("stopwait timeout=100ms timeout_max=400ms");
	uint64_t id;
	struct xk_session *s = open_and_call(r, "x", &id);

	for (unsigned i = 0; i < 8; i++)
		rig_advance_ms(r, 100);
	rig_forget(r);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	rig_expect_nothing_sent(r);
	CHECK_EQ(push(r, s, "y"), 0);
	expect(r, STOPWAIT_DATA, 1);
	rig_advance_ms(r, 99);
	rig_expect_nothing_sent(r);
	rig_advance_ms(r, 1);
	expect(r, STOPWAIT_DATA, 1);
	end(r);
}

TEST(stopwait_gives_up_what_nobody_answers)
{
	struct rig *r = rig_new("stopwait retries=3 timeout=100ms timeout_max=100ms");
	struct xk_session *s = open_it(r);

	CHECK_EQ(push(r, s, "0"), 0);
	CHECK_EQ(push(r, s, "1"), 0);
	for (unsigned i = 0; i < 3; i++)
		rig_advance_ms(r, 100);
	CHECK_EQ(rig_sent(r), 4);
	CHECK_EQ(rig_counter(r, "gave_up"), 0);
	rig_advance_ms(r, 100);
	CHECK_EQ(rig_sent(r), 4);
	CHECK_EQ(rig_counter(r, "gave_up"), 2);
	CHECK_EQ(push(r, s, "2"), -ETIMEDOUT);
	CHECK_EQ(rig_counter(r, "closed"), 1);
	rig_advance_ms(r, 1000);
	CHECK_EQ(rig_sent(r), 4);
	rig_forget(r);
	rig_free(r);
}

TEST(stopwait_counts_retries_for_each_message)
{
	struct rig *r = rig_new("stopwait retries=2 timeout=100ms timeout_max=100ms");
	uint64_t id;
	struct xk_session *s = open_and_call(r, "0", &id);

	for (uint32_t i = 0; i < 10; i++) {
		rig_advance_ms(r, 100);
		rig_advance_ms(r, 100);
		CHECK_EQ(rig_sent(r), 3);
		rig_forget(r);
		CHECK_EQ(push(r, s, "n"), 0);
		answer(r, STOPWAIT_ACK, i, 0xb, id);
	}
	CHECK_EQ(rig_counter(r, "gave_up"), 0);
	end(r);
}

TEST(stopwait_goes_on_when_there_are_buffers_again)
{
	struct rig *r = rig_new("stopwait");
	struct xk_session *s = open_it(r);

	rig_limit_buffers(r, 1); /* the message itself */
	CHECK_EQ(push(r, s, "x"), 0);
	rig_expect_nothing_sent(r);
	rig_limit_buffers(r, UINT_MAX);
	rig_advance_ms(r, 200);
	expect(r, STOPWAIT_CALL, 0);
	end(r);
}

TEST(stopwait_sends_on_after_the_hlp_has_closed)
{
	struct rig *r = rig_new("stopwait");
	uint64_t id;
	struct xk_session *s = open_and_call(r, "0", &id);

	CHECK_EQ(push(r, s, "1"), 0);
	rig_close(r, s);
	expect(r, STOPWAIT_DATA, 0);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	expect(r, STOPWAIT_DATA, 1);
	rig_advance_ms(r, 200);
	expect(r, STOPWAIT_DATA, 1);
	answer(r, STOPWAIT_ACK, 1, 0xb, id);
	rig_advance_ms(r, 1000);
	CHECK_EQ(rig_wire_sessions(r), 0);
	rig_free(r);
}

TEST(stopwait_refuses_what_is_too_big)
{
	static uint8_t bytes[1500];
	struct rig *r = rig_new("stopwait");
	struct xk_session *s = open_it(r);
	uint32_t max = 0;

	CHECK_EQ(xk_control(s, XK_GET_MAX_PACKET, &max, sizeof(max)), sizeof(max));
	CHECK_EQ(max, 1500 - STOPWAIT_HEADER_LEN);
	CHECK_EQ(rig_push_bytes(r, s, bytes, max + 1), -EMSGSIZE);
	CHECK_EQ(rig_counter(r, "too_big"), 1);
	CHECK_EQ(rig_push_bytes(r, s, bytes, max), 0);
	end(r);
}

TEST(stopwait_does_not_change_what_is_pushed)
{
	struct rig *r = rig_new("stopwait");
	uint64_t id;
	struct xk_session *s = open_and_call(r, "0", &id);
	struct packet p, again;

	expect(r, STOPWAIT_DATA, 0);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	CHECK_EQ(rig_push(r, s, "0102030405 | 06 | 0708"), 0);
	p = expect(r, STOPWAIT_DATA, 1);
	CHECK_EQ(p.len, 8);
	for (unsigned i = 0; i < 8; i++)
		CHECK_EQ(p.payload[i], i + 1);
	rig_advance_ms(r, 250);
	again = expect(r, STOPWAIT_DATA, 1);
	CHECK(memcmp(p.payload, again.payload, 8) == 0);
	end(r);
}

/* ---- receiving ---- */

TEST(stopwait_acknowledges_duplicates_and_delivers_none)
{
	struct rig *r = server_new("");
	uint64_t id = call(r, 0xa);

	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "0"));
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "0"));
	inject(r, packet(STOPWAIT_DATA, 1, 0xa, id, "1"));
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "0"));
	expect_delivered(r, "0");
	expect_delivered(r, "1");
	rig_expect_nothing_delivered(r);
	expect(r, STOPWAIT_ACK, 0);
	expect(r, STOPWAIT_ACK, 0);
	expect(r, STOPWAIT_ACK, 1);
	expect(r, STOPWAIT_ACK, 0);
	CHECK_EQ(rig_counter(r, "duplicate"), 2);
	rig_free(r);
}

TEST(stopwait_acknowledges_no_message_that_is_still_being_delivered)
{
	struct rig *r = server_new("");
	uint64_t id = call(r, 0xa);
	struct stopwait_session *s;

	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "0"));
	expect_delivered(r, "0");
	expect(r, STOPWAIT_ACK, 0);
	s = (struct stopwait_session *)rig_announced(r);
	s->delivering = true; /* message 1, as if the user's demux had not returned */
	inject(r, packet(STOPWAIT_DATA, 1, 0xa, id, "1"));
	inject(r, packet(STOPWAIT_DATA, 2, 0xa, id, "2"));
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "bad_sequence"), 2);
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "0")); /* it has been delivered */
	expect(r, STOPWAIT_ACK, 0);
	rig_expect_nothing_delivered(r);
	rig_free(r);
}

TEST(stopwait_takes_nothing_out_of_sequence)
{
	struct rig *r = server_new("");
	uint64_t id = call(r, 0xa);

	inject(r, packet(STOPWAIT_DATA, 1, 0xa, id, "1"));
	inject(r, packet(STOPWAIT_DATA, 0x7fffffff, 0xa, id, "1"));
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "bad_sequence"), 2);
	CHECK_EQ(rig_open_dones(r), 0);
	rig_free(r);
}

TEST(stopwait_takes_data_from_its_peer_only)
{
	struct rig *r = server_new("");
	uint64_t id = call(r, 0xa);

	inject(r, packet(STOPWAIT_DATA, 0, 0xc, id, "x"));
	CHECK_EQ(rig_counter(r, "stale"), 1);
	rig_expect_nothing_sent(r);
	rig_wire_peer(r, 0x98); /* from another host */
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "x"));
	CHECK_EQ(rig_counter(r, "stale"), 2);
	inject(r, packet(STOPWAIT_CALL, 0, 0xa, 0, ""));
	CHECK_EQ(rig_counter(r, "stale"), 3);
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(stopwait_drops_answers_that_answer_nothing)
{
	struct rig *r = rig_new("stopwait");
	uint64_t id;
	struct xk_session *s = open_and_call(r, "0", &id);

	CHECK_EQ(push(r, s, "1"), 0);
	expect(r, STOPWAIT_DATA, 0);
	answer(r, STOPWAIT_ACK, 1, 0xb, id);
	CHECK_EQ(rig_counter(r, "bad_sequence"), 1);
	answer(r, STOPWAIT_ACK, 0, 0xc, id);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	answer(r, STOPWAIT_ACK, 0, 0xb, id + 1);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	rig_expect_nothing_sent(r);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	expect(r, STOPWAIT_DATA, 1);
	answer(r, STOPWAIT_ACK, 0, 0xb, id); /* of a retransmission */
	CHECK_EQ(rig_counter(r, "duplicate"), 1);
	rig_expect_nothing_sent(r);
	answer(r, STOPWAIT_ACK, 1, 0xb, id);
	answer(r, STOPWAIT_ACK, 2, 0xb, id);
	CHECK_EQ(rig_counter(r, "bad_sequence"), 2);
	end(r);
}

TEST(stopwait_sequence_numbers_wrap)
{
	struct rig *r = server_new("");
	uint64_t id = call(r, 0xa);
	struct stopwait_session *s;

	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "first"));
	expect_delivered(r, "first");
	expect(r, STOPWAIT_ACK, 0);
	s = (struct stopwait_session *)rig_announced(r);
	s->expected = s->sequence = UINT32_MAX;
	for (uint32_t i = 0; i < 3; i++) {
		inject(r, packet(STOPWAIT_DATA, UINT32_MAX + i, 0xa, id, "x"));
		expect_delivered(r, "x");
		expect(r, STOPWAIT_ACK, UINT32_MAX + i);
		inject(r, packet(STOPWAIT_DATA, UINT32_MAX + i - 1, 0xa, id, "x"));
		rig_expect_nothing_delivered(r);
		expect(r, STOPWAIT_ACK, UINT32_MAX + i - 1);
		CHECK_EQ(push(r, &s->session, "y"), 0);
		expect(r, STOPWAIT_DATA, UINT32_MAX + i);
		inject(r, packet(STOPWAIT_ACK, UINT32_MAX + i - 1, 0xa, id, ""));
		CHECK_EQ(s->count, 1);
		inject(r, packet(STOPWAIT_ACK, UINT32_MAX + i, 0xa, id, ""));
		CHECK_EQ(s->count, 0);
	}
	CHECK_EQ(rig_counter(r, "bad_sequence"), 0);
	end(r);
}

/* ---- what is no packet ---- */

TEST(stopwait_drops_what_is_malformed)
{
	struct rig *r = server_new("");
	struct packet p = packet(STOPWAIT_CALL, 0, 0xa, 0, "x");

	inject(r, p); /* with a payload */
	CHECK_EQ(rig_counter(r, "bad_length"), 1);
	inject(r, packet(STOPWAIT_CALL, 0, 0xa, 0xb, ""));
	inject(r, packet(STOPWAIT_CALL, 0, 0, 0, ""));
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, 0, ""));
	inject(r, packet(0, 0, 0xa, 0, ""));
	inject(r, packet(STOPWAIT_GONE + 1, 0, 0xa, 0xb, ""));
	inject(r, packet(0xffff, 0, 0xa, 0xb, ""));
	CHECK_EQ(rig_counter(r, "bad_kind"), 6);
	rig_inject(r, "2345 0007 001d 0000 0001 00000000 0000000000000001 0000000000000000");
	rig_inject(r, "2345 0007 001f 0000 0001 00000000 0000000000000001 0000000000000000");
	CHECK_EQ(rig_counter(r, "bad_length"), 3);
	rig_inject(r, "2345 0007 001e 0000 0001 00000000 0000000000000001 0000000000000000");
	CHECK_EQ(rig_counter(r, "bad_checksum"), 1);
	rig_inject_prefixes(r, "2345 0007 001e dc98 0001 00000000 0000000000000001 0000000000000000");
	CHECK_EQ(rig_counter(r, "short"), 30);
	CHECK_EQ(rig_counter(r, "called"), 0);
	rig_expect_nothing_sent(r);
	rig_free(r);
}

TEST(stopwait_cuts_off_what_pads_a_frame)
{
	uint8_t bytes[STOPWAIT_HEADER_LEN + LEN];
	struct rig *r = server_new("");
	uint64_t id = call(r, 0xa);
	struct packet p = packet(STOPWAIT_DATA, 0, 0xa, id, "abc");
	size_t len = packet_store(&p, bytes);

	memset(bytes + len, 0xee, 20);
	rig_inject_bytes(r, bytes, len + 20);
	expect_delivered(r, "abc");
	expect(r, STOPWAIT_ACK, 0);
	rig_free(r);
}

TEST(stopwait_sees_every_flipped_bit)
{
	uint8_t bytes[STOPWAIT_HEADER_LEN + LEN];
	struct rig *r = server_new("");
	uint64_t id = call(r, 0xa);
	struct packet p = packet(STOPWAIT_DATA, 0, 0xa, id, "damage");
	size_t len = packet_store(&p, bytes);

	for (size_t bit = 0; bit < 8 * len; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		rig_inject_bytes(r, bytes, len);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	rig_expect_nothing_delivered(r);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "bad_checksum") + rig_counter(r, "bad_length"), 8 * len);
	rig_free(r);
}

TEST(stopwait_is_asked_again_when_it_cannot_answer)
{
	struct rig *r = server_new("");
	uint64_t id;

	rig_fail_sending(r, -ENOBUFS);
	CHECK_EQ(call(r, 0xa), 0);
	rig_fail_sending(r, 0);
	id = call(r, 0xa);
	CHECK(id != 0);
	rig_fail_sending(r, -ENOBUFS);
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "x"));
	expect_delivered(r, "x");
	rig_fail_sending(r, 0);
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, id, "x"));
	rig_expect_nothing_delivered(r);
	expect(r, STOPWAIT_ACK, 0);
	CHECK_EQ(rig_counter(r, "called"), 1);
	rig_free(r);
}

/* ---- reboots ---- */

TEST(stopwait_learns_that_its_peer_is_gone)
{
	struct rig *r = rig_new("stopwait");
	uint64_t id;
	struct xk_session *s = open_and_call(r, "0", &id);

	CHECK_EQ(push(r, s, "1"), 0);
	expect(r, STOPWAIT_DATA, 0);
	answer(r, STOPWAIT_GONE, 0, 0xc, id);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	answer(r, STOPWAIT_GONE, 0, 0xb, id);
	CHECK_EQ(rig_counter(r, "peer_gone"), 2);
	CHECK_EQ(push(r, s, "2"), -ECONNRESET);
	answer(r, STOPWAIT_GONE, 0, 0xb, id);
	CHECK_EQ(rig_counter(r, "stale"), 2);
	answer(r, STOPWAIT_ACK, 0, 0xb, id);
	CHECK_EQ(rig_counter(r, "stale"), 3);
	rig_expect_nothing_sent(r);
	end(r);
}

/* A host that has been rebooted knows nothing of what was: neither end of the old exchange gets through to it. */
TEST(stopwait_delivers_nothing_of_before_a_reboot)
{
	struct rig *r = server_new("");
	uint64_t old = call(r, 0xa), id;

	inject(r, packet(STOPWAIT_DATA, 0, 0xa, old, "0"));
	expect_delivered(r, "0");
	rig_forget(r);
	rig_free(r);
	r = server_new("");
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, old, "0")); /* a copy that was late */
	inject(r, packet(STOPWAIT_DATA, 1, 0xa, old, "1"));
	CHECK_EQ(rig_counter(r, "no_session"), 2);
	CHECK_EQ(expect(r, STOPWAIT_GONE, 0).from, old);
	CHECK_EQ(expect(r, STOPWAIT_GONE, 1).to, 0xa);
	id = call(r, 0xa); /* a late copy of the old call: makes an end that nobody hears of */
	CHECK(id != old);
	inject(r, packet(STOPWAIT_DATA, 0, 0xa, old, "0"));
	inject(r, packet(STOPWAIT_DATA, 1, 0xa, old, "1"));
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_open_dones(r), 0);
	rig_forget(r);
	rig_free(r);
}

/* The caller is rebooted, and calls from the same port: its old messages go to its old conversation alone. */
TEST(stopwait_keeps_the_boots_of_a_caller_apart)
{
	struct rig *r = server_new("");
	uint64_t first = call(r, 0xa1), second = call(r, 0xa2);
	struct xk_session *old;

	inject(r, packet(STOPWAIT_DATA, 0, 0xa1, first, "old 0"));
	expect_delivered(r, "old 0");
	old = rig_announced(r);
	inject(r, packet(STOPWAIT_DATA, 0, 0xa2, second, "new 0"));
	expect_delivered(r, "new 0");
	CHECK(rig_announced(r) != old);
	rig_forget(r);
	inject(r, packet(STOPWAIT_DATA, 1, 0xa1, second, "old 1"));
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	inject(r, packet(STOPWAIT_DATA, 1, 0xa1, first, "old 1"));
	expect_delivered(r, "old 1");
	CHECK(rig_delivered_on(r) == old);
	rig_forget(r);
	rig_free(r);
}

TEST(stopwait_welcome_of_an_old_call_opens_nothing)
{
	struct rig *r = rig_new("stopwait");
	struct xk_session *s = open_it(r);
	struct packet p;

	CHECK_EQ(push(r, s, "x"), 0);
	p = expect(r, STOPWAIT_CALL, 0);
	answer(r, STOPWAIT_WELCOME, 0, 0xb, p.from ^ 1); /* to the boot before this one */
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	rig_expect_nothing_sent(r);
	end(r);
}

/* ---- bounds, settings, questions ---- */

TEST(stopwait_keeps_the_youngest_strangers)
{
	struct rig *r = server_new("sessions=4");
	uint64_t ids[10];

	rig_protocol(r, "stopwait")->session_max = 4;
	for (unsigned i = 0; i < 10; i++)
		ids[i] = call(r, 100 + i);
	CHECK_EQ(rig_counter(r, "called"), 10);
	CHECK(rig_protocol(r, "stopwait")->cache_count <= 4);
	inject(r, packet(STOPWAIT_DATA, 0, 109, ids[9], "x"));
	expect_delivered(r, "x");
	rig_forget(r);
	rig_free(r);
}

/* Whom the server answers, and who does not acknowledge that, keeps a session until it is given up. */
TEST(stopwait_bounds_strangers_who_do_not_acknowledge)
{
	struct rig *r = server_new("");
	unsigned welcomed = 0;

	rig_protocol(r, "stopwait")->session_max = 4;
	for (unsigned i = 0; i < 20; i++) {
		uint64_t id = call(r, 100 + i);

		welcomed += id != 0;
		if (id == 0)
			continue;
		inject(r, packet(STOPWAIT_DATA, 0, 100 + i, id, "x"));
		CHECK_EQ(push(r, rig_announced(r), "y"), 0);
		rig_forget(r);
	}
	CHECK(welcomed >= 4 && welcomed <= 9);
	CHECK_EQ(rig_counter(r, "too_many"), 20 - welcomed);
	for (unsigned i = 0; i < 60; i++)
		rig_advance_ms(r, 1000);
	rig_forget(r);
	CHECK(call(r, 200) != 0); /* there is room again */
	rig_free(r);
}

TEST(stopwait_refuses_impossible_participants_and_settings)
{
	struct rig *r = rig_new("stopwait");
	struct xk_participants two = here(PORT);

	CHECK(rig_open(r, rig_to2(HOST, 0, 1)) == NULL);
	CHECK_EQ(rig_error(r), -EINVAL);
	CHECK(rig_open(r, rig_to2(HOST, 65536, 1)) == NULL);
	CHECK(rig_open(r, rig_to2(HOST, 1, 65536)) == NULL);
	CHECK_EQ(rig_open_enable(r, here(0)), -EINVAL);
	xk_participant_push(&two.remote, HOST);
	CHECK_EQ(rig_open_enable(r, two), -EOPNOTSUPP);
	CHECK_EQ(rig_open_disable(r, here(PORT)), -ENOENT);
	rig_wire_refuse(r, -EHOSTUNREACH);
	CHECK(rig_open(r, rig_to2(HOST, PORT, 1)) == NULL);
	CHECK_EQ(rig_error(r), -EHOSTUNREACH);
	rig_free(r);
	CHECK_EQ(rig_refusal("wire:; stopwait: wire; stopwait.timeout=3s; stopwait.timeout_max=2s"), -EINVAL);
}

TEST(stopwait_says_who_takes_part)
{
	struct rig *r = rig_new("stopwait");
	struct xk_participants to = { .remote = { 2, { HOST, PORT } } }, got;
	struct xk_session *s = open_it(r), *anonymous;
	uint32_t optimal;

	CHECK_EQ(xk_get_participants(s, &got), 0);
	CHECK_EQ(xk_participant_pop(&got.remote), PORT);
	CHECK_EQ(xk_participant_pop(&got.remote), HOST);
	CHECK_EQ(xk_participant_pop(&got.local), CALLER);
	anonymous = rig_open(r, to);
	REQUIRE(anonymous != NULL);
	CHECK_EQ(xk_get_participants(anonymous, &got), 0);
	CHECK(xk_participant_pop(&got.local) >= STOPWAIT_ANONYMOUS_FIRST);
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &optimal, sizeof(optimal)), sizeof(optimal));
	CHECK_EQ(optimal, 1500 - STOPWAIT_HEADER_LEN);
	CHECK_EQ(xk_control(s, XK_GET_OPT_PACKET, &optimal, 1), -EMSGSIZE);
	rig_free(r);
}

TEST(stopwait_shuts_down_with_messages_under_way)
{
	struct rig *r = rig_new("stopwait");
	struct xk_session *s = open_it(r);

	CHECK_EQ(push(r, s, "x"), 0);
	CHECK_EQ(push(r, s, "y"), 0);
	rig_close(r, s);
	rig_forget(r);
	xk_kernel_stop(rig_kernel(r));
	CHECK_EQ(rig_wire_sessions(r), 1);
	end(r);
}

/* ---- two ends ---- */

enum { FLYING = 64, NUMBERS = 4096 };

static uint64_t
draw(uint64_t *state, uint64_t below)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*state >> 33) % below;
}

/* What is on its way to rigs[to]. */
struct flight {
	unsigned to;
	struct packet packet;
};

struct net {
	struct rig *rigs[2]; /* the caller, the server */
	struct xk_session *sessions[2];
	uint64_t random;
	struct flight flying[FLYING];
	unsigned count;
	unsigned loss;      /* percent */
	unsigned pushed[2]; /* by the caller and by the server */
	/* what came to each: how many, which, the last of its session, and what was pushed before it was booted */
	unsigned delivered[2], last[2], before[2];
	struct xk_session *last_on[2];
	bool seen[2][NUMBERS];
};

/* One frame, any of those that fly, arrives. */
static void
net_land(struct net *n)
{
	struct flight *f = &n->flying[draw(&n->random, n->count)];

	inject(n->rigs[f->to], f->packet);
	*f = n->flying[--n->count];
}

static void
net_collect(struct net *n)
{
	struct packet p;

	for (unsigned i = 0; i < 2; i++)
		while ((p = sent(n->rigs[i])).kind != 0)
			for (uint64_t copies = draw(&n->random, 100) < n->loss ? 0 : 1 + draw(&n->random, 10) / 8;
			     copies > 0 && n->count < FLYING; copies--)
				n->flying[n->count++] = (struct flight){ !i, p };
}

/* What has arrived must be for this boot, not have come yet, and come after what came up the same session before it. */
static void
net_check(struct net *n, unsigned to)
{
	uint8_t bytes[LEN];
	uint32_t number;
	long len;

	while (rig_delivered(n->rigs[to]) > 0) {
		len = rig_take_delivered(n->rigs[to], bytes, sizeof(bytes));
		memcpy(&number, bytes, sizeof(number));
		REQUIRE(number < n->pushed[!to]);
		CHECK_EQ(len, 4 + number % 50);
		CHECK(number >= n->before[to]);
		CHECK(!n->seen[to][number]);
		if (n->last_on[to] == rig_delivered_on(n->rigs[to]))
			CHECK(number > n->last[to]);
		n->seen[to][number] = true;
		n->last[to] = number;
		n->last_on[to] = rig_delivered_on(n->rigs[to]);
		n->delivered[to]++;
		if (to == 1)
			n->sessions[1] = rig_delivered_on(n->rigs[1]);
	}
}

static void
net_push(struct net *n, unsigned by, unsigned max)
{
	uint8_t bytes[64] = { 0 };
	uint32_t number = n->pushed[by];

	if (n->sessions[by] == NULL || number >= max || number == NUMBERS)
		return;
	memcpy(bytes, &number, sizeof(number));
	n->pushed[by] += rig_push_bytes(n->rigs[by], n->sessions[by], bytes, 4 + number % 50) == 0;
}

static void
net_run(struct net *n, unsigned steps, unsigned max)
{
	for (unsigned i = 0; i < steps; i++) {
		uint64_t what = draw(&n->random, 10);

		if (what < 2)
			net_push(n, (unsigned)what, max);
		else if (what == 2)
			for (unsigned to = 0; to < 2; to++)
				rig_advance_ms(n->rigs[to], 100);
		else if (n->count > 0)
			net_land(n);
		net_collect(n);
		for (unsigned to = 0; to < 2; to++)
			net_check(n, to);
	}
}

TEST(stopwait_delivers_all_once_in_order_over_a_bad_network)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		static struct net n;

		n = (struct net){ .random = seed, .loss = 5 * (unsigned)(seed % 8) };

		n.rigs[0] = rig_new("stopwait queue=4 retries=1000");
		n.rigs[1] = server_new("queue=4 retries=1000");
		n.sessions[0] = open_it(n.rigs[0]);
		net_run(&n, 2000, 70);
		CHECK(n.pushed[0] > 0 && n.pushed[1] > 0);
		n.loss = 0;
		net_run(&n, 2000, 0);
		CHECK_EQ(n.delivered[0], n.pushed[1]);
		CHECK_EQ(n.delivered[1], n.pushed[0]);
		if (seed % 8 > 0)
			CHECK(rig_counter(n.rigs[0], "retransmitted") > 0);
		for (unsigned i = 0; i < 2; i++)
			end(n.rigs[i]);
	}
}

/* A server whose user keeps its sessions, to push on them: some die of a peer that is gone. */
static struct rig *
server_that_keeps(void)
{
	struct rig *r = server_new("queue=4 retries=5");

	rig_keep(r, true);
	return r;
}

/* What flies outlives reboots; numbers go on, so that what is delivered twice, or to the wrong boot, is seen. */
TEST(stopwait_delivers_nothing_twice_while_hosts_reboot)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		static struct net n;

		n = (struct net){ .random = seed, .loss = 10 };

		n.rigs[0] = rig_new("stopwait queue=4 retries=5");
		n.rigs[1] = server_that_keeps();
		for (unsigned boot = 0; boot < 6; boot++) {
			unsigned who = boot % 2;

			n.sessions[0] = open_it(n.rigs[0]);
			n.sessions[1] = NULL;
			net_run(&n, 300, UINT_MAX);
			end(n.rigs[who]);
			n.rigs[who] = who == 0 ? rig_new("stopwait queue=4 retries=5") : server_that_keeps();
			n.before[who] = n.pushed[!who];
			n.last_on[who] = NULL;
			if (who == 1)
				rig_close(n.rigs[0], n.sessions[0]);
		}
		CHECK(n.delivered[0] > 0 && n.delivered[1] > 0);
		for (unsigned i = 0; i < 2; i++)
			end(n.rigs[i]);
	}
}

/* ---- anything at all ---- */

TEST(stopwait_survives_what_strangers_make_up)
{
	uint64_t state = 7, from[4] = { 0xa, 0xb, 0, 1 }, to[4] = { 0, 0xa, 0, 0 };
	struct rig *r = server_new("");

	rig_protocol(r, "stopwait")->session_max = 8;
	for (unsigned i = 0; i < 6000; i++) {
		uint64_t one = draw(&state, 4), other = draw(&state, 8) == 0 ? draw(&state, 4) : one;
		struct packet p = packet((unsigned)draw(&state, 7), (uint32_t)draw(&state, 4) - 1, from[one], to[other],
					 draw(&state, 2) == 0 ? "" : "data");

		inject(r, p);
		while (rig_sent(r) > 0) {
			p = sent(r);
			one = draw(&state, 3);
			from[one] = p.to; /* as if they had heard it */
			to[one] = p.from;
		}
		while (rig_delivered(r) > 0) {
			rig_expect_delivered(r, "*");
			if (draw(&state, 2) == 0)
				push(r, rig_delivered_on(r), "answer");
		}
		if (draw(&state, 32) == 0) {
			rig_advance_ms(r, draw(&state, 1000));
			from[3] = draw(&state, 1000);
			to[3] = 0;
		}
	}
	CHECK(rig_counter(r, "accepted") > 10);
	CHECK(rig_counter(r, "retransmitted") > 0);
	CHECK(rig_counter(r, "duplicate") > 10);
	end(r);
}
