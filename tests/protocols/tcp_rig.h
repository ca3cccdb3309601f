/*
 * tcp_rig.h - TCP between a fake user and a fake IP, which joins this host, 10.77.0.1, and the peer, 10.77.0.2. Sequence
 * numbers are relative to the SYN of the end that sends them.
 */
#ifndef TCP_RIG_H
#define TCP_RIG_H

#include "protocols/tcp/tcp_private.h"
#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

enum {
	ME = 0x0a4d0001,
	PEER = 0x0a4d0002,
	PORT = 7,
	FAR_PORT = 50000,
	PEER_ISS = 0xfffffff0, /* so that numbers wrap soon */
	WHOLE = 1480,
	MSS = WHOLE - TCP_HEADER_LEN,
	SEGMENT_MAX = 9000,
	WINDOW = 60000,
};

/* The peer's end. */
struct end {
	struct rig *r;
	struct xk_session *s; /* of the user; NULL: none yet */
	uint32_t iss;         /* of this host */
	uint16_t port, far_port;
};

/* A segment that this host has sent; payload is that of the rig's last. */
struct taken {
	bool is_there;
	uint8_t flags;
	uint32_t sequence, acknowledgement, window, len;
	struct tcp_options options;
	uint8_t payload[SEGMENT_MAX];
};

static void
tcp_prepare(struct rig *r)
{
	static const uint64_t me = ME, peer = PEER;
	static const uint32_t max = 65515, whole = WHOLE;

	rig_answer_control(r, XK_GET_MY_HOST, &me, sizeof(me));
	rig_answer_control(r, XK_GET_PEER_HOST, &peer, sizeof(peer));
	rig_answer_control(r, XK_GET_MAX_PACKET, &max, sizeof(max));
	rig_answer_control(r, XK_GET_OPT_PACKET, &whole, sizeof(whole));
}

/* Returns a rig of TCP with settings: statements, each ending in ';'. Without time stamps, unless the settings say so. */
static struct rig *
tcp_rig(const char *settings)
{
	char graph[512];

	snprintf(graph, sizeof(graph), "wire:; tcp: wire; tcp.stamps=no; %s user: tcp", settings);
	return rig_new_prepared(graph, tcp_prepare);
}

/* Returns the sum of a segment and its pseudo-header: 0xffff if the checksum is right. */
static uint16_t
segment_sum(const uint8_t *segment, size_t len, uint32_t source, uint32_t destination)
{
	uint8_t pseudo[12] = { [9] = XK_TCP_NUMBER };

	xk_put32(pseudo, source);
	xk_put32(pseudo + 4, destination);
	xk_put16(pseudo + 10, (uint16_t)len);
	return xk_sum_fold(xk_sum(xk_sum(0, pseudo, sizeof(pseudo)), segment, len));
}

/* The peer sends a segment with options. */
static void
say_with(const struct end *e, uint8_t flags, uint32_t sequence, uint32_t acknowledgement, uint16_t window,
	 const struct tcp_options *options, const void *payload, size_t len)
{
	uint8_t bytes[SEGMENT_MAX];
	size_t at = TCP_HEADER_LEN;
	struct tcp_header h = { .source = e->far_port,
				.destination = e->port,
				.sequence = PEER_ISS + sequence,
				.acknowledgement = flags & TCP_ACK ? e->iss + acknowledgement : 0,
				.flags = flags,
				.window = window };

	if (options != NULL)
		at += tcp_options_store(bytes + at, options);
	h.offset = (uint8_t)(at / 4);
	tcp_store(bytes, &h);
	memcpy(bytes + at, payload, len);
	xk_checksum_store(bytes + XK_OFFSET(tcp, checksum), (uint16_t)~segment_sum(bytes, at + len, PEER, ME));
	rig_inject_bytes(e->r, bytes, at + len);
}

static void
say(const struct end *e, uint8_t flags, uint32_t sequence, uint32_t acknowledgement, const char *payload)
{
	say_with(e, flags, sequence, acknowledgement, WINDOW, NULL, payload, strlen(payload));
}

/* Takes the next segment that this host has sent. */
static struct taken
take_segment(struct end *e)
{
	uint8_t bytes[SEGMENT_MAX];
	long len = rig_take_sent(e->r, bytes, sizeof(bytes));
	struct taken t = { .is_there = len >= TCP_HEADER_LEN };
	struct tcp_header h;

	if (!t.is_there)
		return t;
	CHECK_EQ(segment_sum(bytes, (size_t)len, ME, PEER), 0xffff);
	h = tcp_load(bytes);
	REQUIRE(4 * h.offset >= TCP_HEADER_LEN && 4 * h.offset <= len);
	CHECK(tcp_options_parse(&t.options, bytes + TCP_HEADER_LEN, 4u * h.offset - TCP_HEADER_LEN));
	if (h.flags & TCP_SYN)
		e->iss = h.sequence;
	CHECK_EQ(h.source, e->port);
	CHECK_EQ(h.destination, e->far_port);
	t.flags = h.flags;
	t.sequence = h.sequence - e->iss;
	t.acknowledgement = h.flags & TCP_ACK ? h.acknowledgement - PEER_ISS : 0;
	t.window = h.window;
	t.len = (uint32_t)len - 4u * h.offset;
	memcpy(t.payload, bytes + 4 * h.offset, t.len);
	return t;
}

/* Expects a segment, with a payload of len bytes. Returns it. */
#define expect(e, f, s, a, l) expect_here(e, f, s, a, l, __LINE__)
static struct taken
expect_here(struct end *e, uint8_t flags, uint32_t sequence, uint32_t acknowledgement, uint32_t len, int line)
{
	struct taken t = take_segment(e);

	if (!t.is_there || (t.flags & ~TCP_PSH) != flags || t.sequence != sequence ||
	    t.acknowledgement != acknowledgement || t.len != len)
		printf("line %d: %s: flags %x, sequence %u, acknowledgement %u, %u bytes\n", line,
		       t.is_there ? "sent" : "nothing was sent", t.flags, t.sequence, t.acknowledgement, t.len);
	CHECK(t.is_there);
	CHECK_EQ(t.flags & ~TCP_PSH, flags);
	CHECK_EQ(t.sequence, sequence);
	CHECK_EQ(t.acknowledgement, acknowledgement);
	CHECK_EQ(t.len, len);
	return t;
}

#define expect_nothing(e) CHECK_EQ(rig_sent((e)->r), 0)

/* The options of a peer that has none but its longest segment. */
static const struct tcp_options plain = { .has_mss = true, .mss = MSS };
static const struct tcp_options selective = { .has_mss = true, .mss = MSS, .has_sack_permitted = true };

/* The peer opens a connection to the user, with these options. */
static struct end
accept_with(struct rig *r, const struct tcp_options *options)
{
	struct end e = { .r = r, .port = PORT, .far_port = FAR_PORT };

	CHECK_EQ(rig_open_enable(r, (struct xk_participants){ .local = { 1, { PORT } } }), 0);
	rig_keep_sessions(r, true);
	say_with(&e, TCP_SYN, 0, 0, WINDOW, options, "", 0);
	expect(&e, TCP_SYN | TCP_ACK, 0, 1, 0);
	CHECK_EQ(rig_open_done_count(r), 0);
	say(&e, TCP_ACK, 1, 1, "");
	CHECK_EQ(rig_open_done_count(r), 1);
	e.s = rig_announced_session(r);
	expect_nothing(&e);
	return e;
}

static struct end
accept_plain(struct rig *r)
{
	return accept_with(r, &plain);
}

/* Returns the result of the user's open so far. */
static int
open_status(struct rig *r)
{
	rig_opened_session(r);
	return rig_error(r);
}

/* The user opens a connection to the peer, which answers with these options. */
static struct end
open_with(struct rig *r, const struct tcp_options *options)
{
	struct end e = { .r = r, .port = PORT, .far_port = FAR_PORT };
	struct xk_participants participants = { .remote = { 2, { PEER, FAR_PORT } }, .local = { 1, { PORT } } };
	struct taken syn;

	CHECK(rig_open(r, participants) == NULL);
	CHECK_EQ(open_status(r), -EINPROGRESS);
	syn = expect(&e, TCP_SYN, 0, 0, 0);
	CHECK_EQ(syn.options.mss, MSS);
	say_with(&e, TCP_SYN | TCP_ACK, 0, 1, WINDOW, options, "", 0);
	expect(&e, TCP_ACK, 1, 1, 0);
	e.s = rig_opened_session(r);
	REQUIRE(e.s != NULL);
	return e;
}

static struct tcp_connection *
connection_of(const struct end *e)
{
	return (struct tcp_connection *)e->s;
}

/* The peer resets the connection, at the end of a test. */
static void
reset(struct end *e)
{
	say(e, TCP_RST, connection_of(e)->rcv_nxt - PEER_ISS, 0, "");
	CHECK_EQ(connection_of(e)->state, TCP_ENDED);
	rig_forget(e->r);
}

#define ACCEPT_TEST(name, settings)                                                                                    \
	static void name##_on(struct rig *r, struct end *e);                                                           \
	RIG_TEST(name, tcp_rig(settings))                                                                              \
	{                                                                                                              \
		struct end e = accept_plain(r);                                                                        \
		name##_on(r, &e);                                                                                      \
	}                                                                                                              \
	static void name##_on(struct rig *r, struct end *e)

#endif
