/*
 * am_rig.h - rig for tests of AM: am between a user and a wire. The test plays the peer.
 */
#ifndef TESTS_AM_RIG_H
#define TESTS_AM_RIG_H

#include <errno.h>

#include "protocols/papers/am_private.h"
#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/upi.h"

enum { PEER_HOST = 5, NAME = 7, THERE = 9, CREDITS = 4, BYTES = 1600, CALL_FROM_CREDITS = 3 };

#define PEER UINT64_C(0x1112131415161718)   /* number of the test's session */
#define COOKIE UINT64_C(0xc0c1c2c3c4c5c6c7) /* cookie of the test's session */

struct message {
	struct am_header h;
	uint8_t bytes[BYTES];
};

/* Injects a message of header h whose payload is `len` bytes; h.length may promise more or less. */
static inline void
inject_bytes(struct rig *r, struct am_header h, const void *bytes, size_t len)
{
	uint8_t all[AM_HEADER_LEN + BYTES] = { h.kind, h.words };

	xk_put16(all + 2, (uint16_t)h.handler);
	xk_put32(all + 4, h.sequence);
	xk_put32(all + 8, h.oldest);
	xk_put32(all + 12, h.length);
	xk_put64(all + 16, h.to);
	xk_put64(all + 24, h.from);
	if (len > 0)
		memcpy(all + AM_HEADER_LEN, bytes, len);
	rig_inject_bytes(r, all, AM_HEADER_LEN + len);
}

static inline void
inject(struct rig *r, struct am_header h, const char *text)
{
	h.length = (uint32_t)strlen(text);
	inject_bytes(r, h, text, h.length);
}

/* Returns the next message sent; kind 0: none. */
static inline struct message
sent(struct rig *r)
{
	uint8_t all[AM_HEADER_LEN + BYTES];
	struct message m = { .h.kind = 0 };
	long len = rig_sent(r) == 0 ? -1 : rig_take_sent(r, all, sizeof(all));

	if (len < AM_HEADER_LEN)
		return m;
	m.h = (struct am_header){ .kind = all[0],
				  .words = all[1],
				  .handler = xk_get16(all + 2),
				  .sequence = xk_get32(all + 4),
				  .oldest = xk_get32(all + 8),
				  .length = xk_get32(all + 12),
				  .to = xk_get64(all + 16),
				  .from = xk_get64(all + 24) };
	CHECK_EQ(len, AM_HEADER_LEN + (long)m.h.length);
	memcpy(m.bytes, all + AM_HEADER_LEN, m.h.length);
	return m;
}

static inline struct message
expect(struct rig *r, enum am_kind kind)
{
	struct message m = sent(r);

	CHECK_EQ(m.h.kind, kind);
	return m;
}

static inline void
expect_answer(struct rig *r, enum am_kind kind, uint32_t sequence, unsigned handler)
{
	struct message m = expect(r, kind);

	CHECK_EQ(m.h.sequence, sequence);
	CHECK_EQ(m.h.handler, handler);
	CHECK(m.h.to == PEER);
}

/* ---- the test is called ---- */

static inline void
welcome(struct rig *r, uint64_t number)
{
	inject(r, (struct am_header){ .kind = AM_WELCOME, .handler = CREDITS, .to = number, .from = PEER }, "");
}

/* Answers a new session's call: a COOKIE, then a WELCOME. Returns the session's number. */
static inline uint64_t
answer_call(struct rig *r)
{
	struct message call = expect(r, AM_CALL), again;

	CHECK(call.h.to == 0);
	CHECK_EQ(call.h.handler, THERE);
	inject(r, (struct am_header){ .kind = AM_COOKIE, .to = call.h.from, .from = COOKIE }, "");
	again = expect(r, AM_CALL);
	CHECK(again.h.to == COOKIE && again.h.from == call.h.from);
	CHECK_EQ(memcmp(call.bytes, again.bytes, AM_CALL_LEN), 0);
	welcome(r, call.h.from);
	return call.h.from;
}

static inline struct xk_session *
open_am(struct rig *r)
{
	return rig_must_open(r, rig_to2(PEER_HOST, THERE, NAME));
}

/* Answers request m. */
static inline void
answer(struct rig *r, const struct message *m, enum am_kind kind, unsigned handler, const char *text)
{
	inject(r,
	       (struct am_header){
		       .kind = kind, .handler = handler, .sequence = m->h.sequence, .to = m->h.from, .from = PEER },
	       text);
}

/* ---- the test calls ---- */

static inline void
call(struct rig *r, uint64_t from, uint64_t cookie, uint16_t name, uint64_t tag)
{
	uint8_t bytes[AM_CALL_LEN] = { 0, THERE, 0, CALL_FROM_CREDITS };

	xk_put64(bytes + 4, tag);
	inject_bytes(r,
		     (struct am_header){
			     .kind = AM_CALL, .handler = name, .length = AM_CALL_LEN, .to = cookie, .from = from },
		     bytes, sizeof(bytes));
}

/* Calls endpoint `name` as session `from`. Returns the number of the session accepted, or 0. */
static inline uint64_t
call_as(struct rig *r, uint64_t from, uint16_t name, uint64_t tag)
{
	struct message m;

	call(r, from, 0, name, tag);
	m = expect(r, AM_COOKIE);
	CHECK(m.h.to == from && m.h.from != 0);
	call(r, from, m.h.from, name, tag);
	m = sent(r);
	return m.h.kind == AM_WELCOME ? m.h.from : 0;
}

/* Returns a rig with NAME enabled. */
static inline struct rig *
am_rig(const char *settings)
{
	struct rig *r = rig_new(settings);

	CHECK_EQ(rig_open_enable(r, at_port(NAME)), 0);
	return r;
}

/* Runs until nothing waits any more, then frees the rig. */
static inline void
am_rig_end(struct rig *r)
{
	rig_forget(r);
	rig_advance_repeatedly_ms(r, 60, 1000);
	rig_forget(r);
	rig_free(r);
}

#define AM_TEST(name, made) TEST_WITH(name, struct rig *r, made, am_rig_end)
#define AM_SESSION_TEST(name, made, opened) SESSION_TEST(name, made, opened, am_rig_end)

#endif
