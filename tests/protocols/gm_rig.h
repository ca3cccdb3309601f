/*
 * gm_rig.h - rig for tests of GM: gm over BID and BIDCTL on fake wires. The test plays the peer, the host PARTNER.
 */
#ifndef TESTS_GM_RIG_H
#define TESTS_GM_RIG_H

#include <errno.h>

#include "protocols/papers/gm_private.h"
#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { ME = 0x0a4d0001, PARTNER = 0x0a4d0002, STRANGER = 0x0a4d0003, NUMBER = 208, PORT = 7, FAR = 9 };
enum { BID_LEN = 24, CONTROL_LEN = 40, FRAGMENT = 1500 - BID_LEN - GM_HEADER_LEN, BYTES = 1600 };

#define BOOT_A UINT64_C(0xa000000000000001)
#define BOOT_B UINT64_C(0xb000000000000002)

struct asking {
	struct xk_protocol *bidctl;
	uint32_t host;
	uint64_t boot;
};

static inline void
do_check(void *argument)
{
	struct asking *a = argument;

	CHECK(xk_bidctl_check(a->bidctl, a->host, a->boot, NULL) != 0);
}

/* Lets BIDCTL query host, which answers with this boot id. */
static inline void
meet(struct rig *r, uint32_t host, uint64_t boot)
{
	struct asking a = { rig_protocol(r, "bidctl"), host, boot };
	uint8_t question[CONTROL_LEN], answer[CONTROL_LEN] = { 0, 2 };

	rig_advance_ms(r, 2); /* BIDCTL's interval */
	rig_forget(r);
	rig_wire(r, "wire2");
	rig_wire_peer(r, host);
	REQUIRE(rig_do(r, do_check, &a));
	CHECK_EQ(rig_take_sent(r, question, sizeof(question)), CONTROL_LEN);
	xk_put32(answer + 4, host);
	xk_put64(answer + 8, boot);
	memcpy(answer + 16, question + 8, 8);
	memcpy(answer + 32, question + 24, 8);
	xk_checksum_store(answer + 2, xk_checksum_finish(xk_sum(0, answer, sizeof(answer))));
	rig_inject_bytes(r, answer, sizeof(answer));
	rig_wire(r, "wire");
	rig_wire_peer(r, host);
}

/* Returns gm with these settings ("gm.tokens=1;..."); PARTNER is confirmed. */
static inline struct rig *
gm_rig(const char *settings)
{
	char graph[512];
	uint64_t host = ME;
	struct rig *r;

	snprintf(graph, sizeof(graph),
		 "wire:; wire2:; bidctl: wire2; bidctl.broadcast=no; bidctl.interval=1ms; bidctl.keepalive=0s;"
		 "bidctl.timeout=100ms; bidctl.timeout_max=100ms; bidctl.retries=2; bid: wire bidctl;"
		 "gm: bid bidctl; gm.timeout_min=10ms; user: gm; %s",
		 settings);
	r = rig_new_graph(graph);
	rig_answer_control(r, XK_GET_MY_HOST, &host, sizeof(host));
	meet(r, PARTNER, BOOT_A);
	return r;
}

/* The same with PORT enabled. */
static inline struct rig *
gm_server(const char *settings)
{
	struct rig *r = gm_rig(settings);

	CHECK_EQ(rig_open_enable(r, at_port(PORT)), 0);
	return r;
}

static inline struct xk_session *
open_it(struct rig *r)
{
	struct xk_session *s = rig_must_open(r, rig_to2(PARTNER, FAR, PORT));

	rig_forget(r);
	return s;
}

/* Runs until nothing waits any more, then frees the rig. */
static inline void
gm_rig_end(struct rig *r)
{
	rig_advance_repeatedly_ms(r, 100, 1000);
	rig_forget(r);
	rig_free(r);
}

#define GM_TEST(name, made) TEST_WITH(name, struct rig *r, made, gm_rig_end)
#define GM_SESSION_TEST(name, made, opened) SESSION_TEST(name, made, opened, gm_rig_end)

/* ---- packets ---- */

struct packet {
	struct gm_header h;
	uint32_t host;
	uint64_t boot;
	uint8_t payload[BYTES];
};

/* Returns a packet from PARTNER's port FAR to PORT, with text as its payload. */
static inline struct packet
packet(enum gm_kind kind, uint64_t number, uint64_t previous, const char *text)
{
	uint16_t len = (uint16_t)strlen(text);
	struct packet p = {
		{ FAR, PORT, false, (uint16_t)kind, len, len, 0, 100, number, previous }, PARTNER, BOOT_A, { 0 }
	};

	memcpy(p.payload, text, len);
	return p;
}

static inline size_t
packet_store(struct rig *r, const struct packet *p, uint8_t *bytes)
{
	uint8_t *h = bytes + BID_LEN;

	xk_put32(bytes, NUMBER);
	xk_put32(bytes + 4, p->host);
	xk_put64(bytes + 8, p->boot);
	xk_put64(bytes + 16, xk_bidctl_own(rig_protocol(r, "bidctl"), p->host));
	xk_put16(h, p->h.source);
	xk_put16(h + 2, p->h.destination);
	xk_put16(h + 4, (uint16_t)(p->h.kind | (p->h.patient ? 0x8000 : 0)));
	xk_put16(h + 6, p->h.length);
	xk_put32(h + 8, p->h.total);
	xk_put32(h + 12, p->h.offset);
	xk_put64(h + 16, p->h.begin);
	xk_put64(h + 24, p->h.number);
	xk_put64(h + 32, p->h.previous);
	memcpy(h + GM_HEADER_LEN, p->payload, p->h.length);
	return BID_LEN + GM_HEADER_LEN + p->h.length;
}

static inline void
inject(struct rig *r, struct packet p)
{
	uint8_t bytes[BID_LEN + GM_HEADER_LEN + BYTES];

	rig_inject_bytes(r, bytes, packet_store(r, &p, bytes));
}

/* Injects a DATA packet. */
static inline void
inject_data(struct rig *r, uint64_t number, uint64_t previous, const char *text)
{
	inject(r, packet(GM_DATA, number, previous, text));
}

/* Injects a fragment: len bytes at `offset`, of `total`. */
static inline void
inject_part(struct rig *r, uint64_t number, uint64_t previous, uint32_t total, uint32_t offset, uint32_t len)
{
	struct packet p = packet(GM_DATA, number, previous, "");

	p.h.total = total;
	p.h.offset = offset;
	p.h.length = (uint16_t)len;
	for (uint32_t i = 0; i < len; i++)
		p.payload[i] = (uint8_t)((offset + i) % 251);
	inject(r, p);
}

/* Returns the next packet sent; kind 0: none. */
static inline struct packet
sent(struct rig *r)
{
	uint8_t bytes[BID_LEN + GM_HEADER_LEN + BYTES], *h = bytes + BID_LEN;
	struct packet p = { .host = 0 };
	long len = rig_sent(r) == 0 ? -1 : rig_take_sent(r, bytes, sizeof(bytes));

	if (len < BID_LEN + GM_HEADER_LEN)
		return p;
	p.boot = xk_get64(bytes + 16);
	p.h = (struct gm_header){ xk_get16(h),      xk_get16(h + 2), h[4] >> 7,        xk_get16(h + 4) & 0x7fff,
				  xk_get16(h + 6),  xk_get32(h + 8), xk_get32(h + 12), xk_get64(h + 16),
				  xk_get64(h + 24), xk_get64(h + 32) };
	CHECK_EQ(len, BID_LEN + GM_HEADER_LEN + (long)p.h.length);
	memcpy(p.payload, h + GM_HEADER_LEN, p.h.length);
	return p;
}

/* The same, after checking its kind, boot (PARTNER's boot A) and ports. */
static inline struct packet
expect(struct rig *r, enum gm_kind kind)
{
	struct packet p = sent(r);

	CHECK_EQ(p.h.kind, kind);
	CHECK_EQ(p.h.source, PORT);
	CHECK_EQ(p.h.destination, FAR);
	CHECK(p.boot == BOOT_A);
	return p;
}

static inline void
expect_ack(struct rig *r, uint64_t number)
{
	struct packet p = expect(r, GM_ACK);

	CHECK_EQ(p.h.number, number);
	CHECK_EQ(p.h.begin, 100);
}

static inline void
expect_reset(struct rig *r, uint64_t number, enum gm_reason reason)
{
	struct packet p = expect(r, GM_RESET);

	CHECK_EQ(p.h.number, number);
	CHECK_EQ(p.h.offset, reason);
}

/* Answers packet p as PARTNER: an ACK, or a RESET with a reason. */
static inline void
answer(struct rig *r, const struct packet *p, enum gm_kind kind, uint32_t reason)
{
	struct packet answer = packet(kind, p->h.number, 0, "");

	answer.h.offset = reason;
	answer.h.begin = p->h.begin;
	inject(r, answer);
}

static inline void
expect_delivered(struct rig *r, const char *text)
{
	char bytes[64];
	long len = rig_take_delivered(r, bytes, sizeof(bytes) - 1);

	bytes[len < 0 ? 0 : len] = '\0';
	CHECK_STR(len < 0 ? "nothing" : bytes, text);
}

/* ---- sending ---- */

/* A message and its completions. Static in a GM_TEST, which it may outlive. */
struct sending {
	struct xk_gm_send send; /* first */
	struct xk_session *s;
	size_t len;
	uint32_t region, place;
	int pushed, status;
	unsigned times;
};

static inline void
sending_done(struct xk_gm_send *send, int status)
{
	struct sending *sending = (struct sending *)send;

	sending->times++;
	sending->status = status;
}

static inline void
do_send(void *argument)
{
	struct sending *sending = argument;
	struct xk_msg *m = xk_msg_new(xk_platform_of(sending->s->protocol), sending->len);
	size_t i = 0;

	REQUIRE(m != NULL);
	for (struct xk_msg *part = m; part != NULL; part = part->next)
		for (uint32_t at = 0; at < part->len; at++)
			part->data[at] = (uint8_t)(i++ % 251);
	sending->pushed = sending->region == 0
				  ? xk_gm_send(sending->s, m, &sending->send)
				  : xk_gm_deposit(sending->s, m, sending->region, sending->place, &sending->send);
}

/* Sends len bytes. */
static inline void
send_it(struct rig *r, struct sending *sending, struct xk_session *s, size_t len)
{
	*sending = (struct sending){ .send.done = sending_done, .s = s, .len = len };
	REQUIRE(rig_do(r, do_send, sending));
}

static inline void
deposit(struct rig *r, struct sending *sending, struct xk_session *s, size_t len, uint32_t region, uint32_t place)
{
	*sending = (struct sending){ .send.done = sending_done, .s = s, .len = len, .region = region, .place = place };
	REQUIRE(rig_do(r, do_send, sending));
}

static inline uint32_t
tokens(struct xk_session *s)
{
	uint32_t value = 999;

	CHECK_EQ(xk_control(s, XK_GM_GET_TOKENS, &value), 0);
	return value;
}

#endif
