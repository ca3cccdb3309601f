/*
 * bid_rig.h - rig for tests of BID: one host's BID on a fake wire and its BIDCTL on another. The test plays the peers;
 * a watcher records each change of a boot, with the number of messages delivered before it.
 */
#ifndef TESTS_BID_RIG_H
#define TESTS_BID_RIG_H

#include "protocols/bid/bidctl.h"
#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

enum { ME = 0x0a4d0001, HOST = 0x0a4d0002, OTHER = 0x0a4d0003, NUMBER = 0x3000, LEN = 24, CONTROL_LEN = 40 };

#define BOOT_A UINT64_C(0xa000000000000001)
#define BOOT_B UINT64_C(0xb000000000000002)

struct stage {
	struct rig *r;
	uint64_t own;
	struct xk_bidctl_watcher watcher;
	char notified[256];
};

static void
stage_changed(const struct xk_bidctl_watcher *watcher, enum xk_bidctl_change change, const struct xk_bidctl_peer *peer)
{
	static const char *const names[] = { "first", "reboot", "lost" };
	struct stage *s = xk_container_of(watcher, struct stage, watcher);
	size_t used = strlen(s->notified);

	/* messages delivered so far precede this change */
	snprintf(s->notified + used, sizeof(s->notified) - used, "%s:%x:%u ", names[change],
		 (unsigned)(peer->boot >> 60), rig_delivered(s->r));
}

/* If enabled, the user accepts strangers. */
static inline void
stage_open(struct stage *s, bool enabled)
{
	uint64_t host = ME;

	memset(s, 0, sizeof(*s));
	s->r = rig_new_graph("wire:; wire2:; bidctl: wire2; bidctl.broadcast=no; bidctl.interval=1ms;"
			     "bidctl.timeout=100ms; bidctl.timeout_max=100ms; bidctl.retries=2;"
			     "bid: wire bidctl; user: bid#0x3000");
	rig_answer_control(s->r, XK_GET_MY_HOST, &host, sizeof(host));
	s->own = xk_bidctl_own(rig_protocol(s->r, "bidctl"), HOST);
	s->watcher = (struct xk_bidctl_watcher){ .protocol = rig_protocol(s->r, "user"), .changed = stage_changed };
	xk_bidctl_watch(rig_protocol(s->r, "bidctl"), &s->watcher);
	rig_wire_peer(s->r, HOST);
	rig_wire(s->r, "wire2");
	rig_wire_peer(s->r, HOST);
	rig_wire(s->r, "wire");
	if (enabled)
		CHECK_EQ(rig_open_enable(s->r, anybody()), 0);
}

static inline void
stage_close(struct stage *s)
{
	rig_free(s->r);
}

/* A test on the stage that `opening` opens. */
#define STAGE_TEST(name, opening) TEST_IN(name, struct stage, s, opening, stage_close)

static inline void
expect_notified(struct stage *s, const char *notified)
{
	CHECK_STR(s->notified, notified);
	s->notified[0] = '\0';
}

/* ---- what goes over the wires ---- */

struct packet {
	uint32_t number, host;
	uint64_t source, destination;
	const char *payload;
};

static inline struct packet
packet(const struct stage *s, uint64_t source, const char *payload)
{
	return (struct packet){ NUMBER, HOST, source, s->own, payload };
}

static inline size_t
packet_store(const struct packet *p, uint8_t *bytes)
{
	xk_put32(bytes, p->number);
	xk_put32(bytes + 4, p->host);
	xk_put64(bytes + 8, p->source);
	xk_put64(bytes + 16, p->destination);
	memcpy(bytes + LEN, p->payload, strlen(p->payload));
	return LEN + strlen(p->payload);
}

static inline void
inject(struct stage *s, struct packet p)
{
	uint8_t bytes[LEN + 64];

	rig_inject_bytes(s->r, bytes, packet_store(&p, bytes));
}

static inline void
expect_delivered(struct stage *s, const char *text)
{
	char bytes[64];
	long len = rig_take_delivered(s->r, bytes, sizeof(bytes) - 1);

	bytes[len < 0 ? 0 : len] = '\0';
	CHECK_STR(len < 0 ? "nothing" : bytes, text);
}

/* Returns the next message BID has sent; payload "nothing": none. */
static inline struct packet
sent(struct stage *s, char *payload)
{
	uint8_t bytes[LEN + 64] = { 0 };
	long len = rig_take_sent(s->r, bytes, sizeof(bytes) - 1);
	struct packet p = { .payload = "nothing" };

	if (len < 0)
		return p;
	CHECK(len >= LEN);
	CHECK_STR(rig_sent_through(s->r), "wire");
	memcpy(payload, bytes + LEN, sizeof(bytes) - LEN);
	p = (struct packet){ xk_get32(bytes), xk_get32(bytes + 4), xk_get64(bytes + 8), xk_get64(bytes + 16), payload };
	CHECK_EQ(p.host, ME);
	CHECK_EQ(p.source, len == LEN ? xk_bidctl_own(rig_protocol(s->r, "bidctl"), 0) : s->own);
	CHECK_EQ(p.number, NUMBER);
	return p;
}

static inline void
expect_sent(struct stage *s, uint64_t destination, const char *text)
{
	char payload[64];
	struct packet p = sent(s, payload);

	CHECK_EQ(p.destination, destination);
	CHECK_STR(p.payload, text);
}

/* Answers the query that BIDCTL has sent. */
static inline void
answer(struct stage *s, uint64_t boot)
{
	uint8_t bytes[CONTROL_LEN], reply[CONTROL_LEN] = { 0, 2 };

	REQUIRE(rig_sent(s->r) > 0);
	CHECK_EQ(rig_take_sent(s->r, bytes, sizeof(bytes)), CONTROL_LEN);
	CHECK_STR(rig_sent_through(s->r), "wire2");
	CHECK_EQ(xk_get16(bytes), 1);
	xk_put32(reply + 4, HOST);
	xk_put64(reply + 8, boot);
	memcpy(reply + 16, bytes + 8, 8);
	memcpy(reply + 32, bytes + 24, 8);
	xk_checksum_store(reply + 2, xk_checksum_finish(xk_sum(0, reply, sizeof(reply))));
	rig_wire(s->r, "wire2");
	rig_inject_bytes(s->r, reply, sizeof(reply));
	rig_wire(s->r, "wire");
}

static inline long
counted(struct stage *s, const char *name)
{
	return rig_counter_of(s->r, "bid", name);
}

static inline struct xk_session *
open_it(struct stage *s)
{
	rig_expect_open_fails(s->r, rig_to(HOST), -EINPROGRESS);
	answer(s, BOOT_A);
	REQUIRE(rig_opened_session(s->r) != NULL);
	expect_notified(s, "first:a:0 ");
	return rig_opened_session(s->r);
}

/* Confirms HOST with a first message, which is lost. */
static inline void
be_met(struct stage *s, const char *text)
{
	long unconfirmed = counted(s, "unconfirmed");

	inject(s, packet(s, BOOT_A, text));
	rig_expect_nothing_delivered(s->r);
	CHECK_EQ(counted(s, "unconfirmed"), unconfirmed + 1);
	answer(s, BOOT_A);
	expect_notified(s, "first:a:0 ");
	inject(s, packet(s, BOOT_A, text));
	expect_delivered(s, text);
}

static inline int
push(struct stage *s, struct xk_session *session, const char *text)
{
	return rig_push_bytes(s->r, session, text, strlen(text));
}

#endif
