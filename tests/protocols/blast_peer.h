/*
 * blast_peer.h - rig for tests of BLAST: one host on a fake wire, whose other side the test plays. Fragments have ten
 * bytes: a character of a text is a byte of the message.
 */
#ifndef TESTS_BLAST_PEER_H
#define TESTS_BLAST_PEER_H

#include "protocols/blast/blast_private.h"

#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { HOST = 0x0a4d0002, OTHER = 0x0a4d0003, STRANGER = 0x99, NUMBER = 0x3000, SIZE = 10, LEN = 2000 };

/* 25 characters: fragments of ten, ten and five. */
static const char message[] = "0123456789abcdefghijABCDE";

/* A frame on the wire, in either direction. */
struct frame {
	uint32_t protocol, sequence, length;
	unsigned fragments, op, width;
	uint64_t mask;
	size_t len;
	uint8_t payload[LEN];
};

static inline void
inject(struct rig *r, const struct frame *f)
{
	uint8_t bytes[BLAST_HEADER_LEN + LEN];

	xk_put32(bytes, f->protocol);
	xk_put32(bytes + 4, f->sequence);
	xk_put32(bytes + 8, f->length);
	xk_put16(bytes + 12, (uint16_t)f->fragments);
	bytes[14] = (uint8_t)f->op;
	bytes[15] = (uint8_t)f->width;
	xk_put64(bytes + 16, f->mask);
	memcpy(bytes + BLAST_HEADER_LEN, f->payload, f->len);
	rig_inject_bytes(r, bytes, BLAST_HEADER_LEN + f->len);
}

/* Returns the next frame sent; op 0: none. */
static inline struct frame
sent(struct rig *r)
{
	uint8_t bytes[BLAST_HEADER_LEN + LEN];
	struct frame f = { .op = 0 };
	long len;

	if (rig_sent(r) == 0)
		return f;
	len = rig_take_sent(r, bytes, sizeof(bytes));
	REQUIRE(len >= BLAST_HEADER_LEN && len <= (long)sizeof(bytes));
	f.protocol = xk_get32(bytes);
	f.sequence = xk_get32(bytes + 4);
	f.length = xk_get32(bytes + 8);
	f.fragments = xk_get16(bytes + 12);
	f.op = bytes[14];
	f.width = bytes[15];
	f.mask = xk_get64(bytes + 16);
	f.len = (size_t)len - BLAST_HEADER_LEN;
	memcpy(f.payload, bytes + BLAST_HEADER_LEN, f.len);
	CHECK_EQ(f.length, f.len);
	CHECK_EQ(f.width, BLAST_FRAGMENTS);
	return f;
}

/* Returns fragment i of text. */
static inline struct frame
fragment_of(const char *text, uint32_t sequence, unsigned op, unsigned i)
{
	size_t left = strlen(text) - i * SIZE;
	struct frame f = { .protocol = NUMBER,
			   .sequence = sequence,
			   .fragments = (unsigned)(strlen(text) + SIZE - 1) / SIZE,
			   .op = op,
			   .width = BLAST_FRAGMENTS,
			   .mask = UINT64_C(1) << i,
			   .len = left < SIZE ? left : SIZE };

	f.length = (uint32_t)f.len;
	memcpy(f.payload, text + i * SIZE, f.len);
	return f;
}

static inline struct frame
fragment(uint32_t sequence, unsigned op, unsigned i)
{
	return fragment_of(message, sequence, op, i);
}

static inline void
inject_fragment(struct rig *r, uint32_t sequence, unsigned op, unsigned i)
{
	struct frame f = fragment(sequence, op, i);

	inject(r, &f);
}

/* Injects the message's fragments in this order: "02" are the first and the last. */
static inline void
inject_fragments(struct rig *r, uint32_t sequence, unsigned op, const char *order)
{
	for (; *order != '\0'; order++)
		inject_fragment(r, sequence, op, (unsigned)(*order - '0'));
}

static inline struct frame
nack_of(uint32_t sequence, unsigned fragments, uint64_t mask)
{
	return (struct frame){ .protocol = NUMBER,
			       .sequence = sequence,
			       .fragments = fragments,
			       .op = BLAST_NACK,
			       .width = BLAST_FRAGMENTS,
			       .mask = mask };
}

/* Reports as the peer that it has the fragments in mask, of three. */
static inline void
nack(struct rig *r, uint32_t sequence, uint64_t mask)
{
	struct frame f = nack_of(sequence, 3, mask);

	inject(r, &f);
}

/* Checks that fragment i of text was sent. Returns its sequence number. */
static inline uint32_t
expect_of(struct rig *r, const char *text, unsigned op, unsigned i)
{
	struct frame got = sent(r), want = fragment_of(text, got.sequence, op, i);

	CHECK_EQ(got.op, op);
	CHECK_EQ(got.protocol, NUMBER);
	CHECK_EQ(got.mask, want.mask);
	CHECK_EQ(got.fragments, want.fragments);
	CHECK_EQ(got.len, want.len);
	CHECK(memcmp(got.payload, want.payload, want.len) == 0);
	CHECK(got.sequence != 0);
	return got.sequence;
}

static inline uint32_t
expect(struct rig *r, unsigned op, unsigned i)
{
	return expect_of(r, message, op, i);
}

static inline void
expect_nack(struct rig *r, uint32_t sequence, uint64_t mask)
{
	struct frame f = sent(r);

	CHECK_EQ(f.op, BLAST_NACK);
	CHECK_EQ(f.protocol, NUMBER);
	CHECK_EQ(f.sequence, sequence);
	CHECK_EQ(f.mask, mask);
	CHECK_EQ(f.length, 0);
}

static inline int
push(struct rig *r, struct xk_session *s, const char *text)
{
	return rig_push_bytes(r, s, text, strlen(text));
}

/* Pushes the message and checks its fragments. Returns its sequence number. */
static inline uint32_t
push_message(struct rig *r, struct xk_session *s)
{
	uint32_t sequence;

	CHECK_EQ(push(r, s, message), 0);
	sequence = expect(r, BLAST_SEND, 0);
	CHECK_EQ(expect(r, BLAST_SEND, 1), sequence);
	CHECK_EQ(expect(r, BLAST_SEND, 2), sequence);
	rig_expect_nothing_sent(r);
	return sequence;
}

static inline void
expect_delivered(struct rig *r, const char *text)
{
	char bytes[LEN + 1];
	long len = rig_take_delivered(r, bytes, LEN);

	bytes[len < 0 ? 0 : len] = '\0';
	CHECK_EQ(len, (long)strlen(text));
	CHECK_STR(len < 0 ? "nothing" : bytes, text);
}

/* Limits fragments to ten bytes. */
static inline void
shorten(struct rig *r)
{
	uint32_t longest = BLAST_HEADER_LEN + SIZE;

	rig_answer_control(r, XK_GET_OPT_PACKET, &longest, sizeof(longest));
}

static inline struct rig *
new_rig(const char *settings)
{
	char type[160];
	struct rig *r;

	snprintf(type, sizeof(type), "blast %s", settings);
	r = rig_new(type);
	shorten(r);
	return r;
}

/* The same, enabled. */
static inline struct rig *
new_server(const char *settings)
{
	struct rig *r = new_rig(settings);

	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	return r;
}

static inline struct xk_session *
open_to(struct rig *r, uint64_t host)
{
	return rig_must_open(r, rig_to(host));
}

/* Runs until no message is kept and none is missing, then frees the rig. */
static inline void
end(struct rig *r)
{
	rig_advance_repeatedly_ms(r, 20, 500);
	rig_forget(r);
	rig_free(r);
}

#define BLAST_TEST(name, made) TEST_WITH(name, struct rig *r, made, end)
#define BLAST_SESSION_TEST(name, made, opened) SESSION_TEST(name, made, opened, end)

#endif
