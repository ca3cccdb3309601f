/*
 * stopwait_peer.h - rig for tests of stop-and-wait: one end on a fake wire, whose other side the test plays.
 */
#ifndef TESTS_STOPWAIT_PEER_H
#define TESTS_STOPWAIT_PEER_H

#include "protocols/stopwait/stopwait_private.h"

#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { HOST = 0x0a4d0002, PORT = 7, CALLER = 0x2345, LEN = 3000 };

/* A packet on the wire, in either direction. */
struct packet {
	unsigned source, destination, kind;
	uint32_t sequence;
	uint64_t from, to;
	size_t len; /* of the payload */
	uint8_t payload[LEN];
};

static const char *const kinds[] = { "", "CALL", "WELCOME", "DATA", "ACK", "GONE" };

/* Returns a packet; its payload is hexadecimal, one digit per byte. */
static inline struct packet
packet(unsigned kind, uint32_t sequence, uint64_t from, uint64_t to, const char *payload)
{
	struct packet p = { CALLER, PORT, kind, sequence, from, to, strlen(payload), { 0 } };

	memcpy(p.payload, payload, p.len);
	return p;
}

static inline size_t
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

static inline void
inject(struct rig *r, struct packet p)
{
	uint8_t bytes[STOPWAIT_HEADER_LEN + LEN];

	rig_inject_bytes(r, bytes, packet_store(&p, bytes));
}

/* Returns the next packet sent; kind 0: none. */
static inline struct packet
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

static inline struct packet
expect(struct rig *r, unsigned kind, uint32_t sequence)
{
	struct packet p = sent(r);

	CHECK_STR(p.kind <= STOPWAIT_GONE ? kinds[p.kind] : "?", kinds[kind]);
	CHECK_EQ(p.sequence, sequence);
	return p;
}

static inline int
push(struct rig *r, struct xk_session *s, const char *text)
{
	return rig_push_bytes(r, s, text, strlen(text));
}

static inline void
expect_delivered(struct rig *r, const char *text)
{
	char bytes[LEN + 1];
	long len = rig_take_delivered(r, bytes, LEN);

	bytes[len < 0 ? 0 : len] = '\0';
	CHECK_STR(len < 0 ? "nothing" : bytes, text);
}

/* Opens an active session, which has not called yet. */
static inline struct xk_session *
open_it(struct rig *r)
{
	return rig_must_open(r, rig_to2(HOST, PORT, CALLER));
}

/* Answers an active session as its peer 0xb. */
static inline void
answer(struct rig *r, unsigned kind, uint32_t sequence, uint64_t from, uint64_t id)
{
	struct packet p = packet(kind, sequence, from, id, "");

	p.source = PORT;
	p.destination = CALLER;
	inject(r, p);
}

/* Opens an active session, which peer 0xb welcomes; its first message is in flight. Stores the session's id in *id. */
static inline struct xk_session *
open_and_call(struct rig *r, const char *text, uint64_t *id)
{
	struct xk_session *s = open_it(r);

	CHECK_EQ(push(r, s, text), 0);
	*id = expect(r, STOPWAIT_CALL, 0).from;
	answer(r, STOPWAIT_WELCOME, 0, 0xb, *id);
	return s;
}

/* Calls the server as the peer `from`. Returns the id of the end that welcomed it; 0: refused. */
static inline uint64_t
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

/* Sends data to such an end as its peer 0xa. */
static inline void
inject_data(struct rig *r, uint32_t sequence, uint64_t id, const char *payload)
{
	inject(r, packet(STOPWAIT_DATA, sequence, 0xa, id, payload));
}

static inline struct rig *
server_new(const char *settings)
{
	char type[128];
	struct rig *r;

	snprintf(type, sizeof(type), "stopwait %s", settings);
	r = rig_new(type);
	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	return r;
}

/* Runs until nothing waits for an answer, then frees the rig. */
static inline void
end(struct rig *r)
{
	rig_advance_repeatedly_ms(r, 60, 1000);
	rig_forget(r);
	rig_free(r);
}

#define STOPWAIT_TEST(name, made) TEST_WITH(name, struct rig *r, made, end)
#define STOPWAIT_SESSION_TEST(name, made, opened) SESSION_TEST(name, made, opened, end)

/* Returns a random number below `below`. */
static inline uint64_t
draw(uint64_t *state, uint64_t below)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*state >> 33) % below;
}

#endif
