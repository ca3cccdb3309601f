/*
 * test_bid_stations.c - BID and BIDCTL on a link where stations impersonate hosts: what such a station learns and gets
 * through, and what a host loses that really moves.
 */
#include <errno.h>

#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/bytes.h"

#define A UINT64_C(0x0200000000aa)
#define B UINT64_C(0x0200000000bb)
#define LIAR UINT64_C(0x0200000000cc)
#define ME UINT64_C(0x020000000001)
#define EVERYBODY UINT64_C(0xffffffffffff)

#define BOOT_A UINT64_C(0xa000000000000001)
#define BOOT_B UINT64_C(0xb000000000000002)

enum { MY_HOST = 0x0a4d0001, HOST = 0x0a4d0002, OTHER = 0x0a4d0003, NUMBER = 0x3000 };
enum { ETH_LEN = 14, ARP_LEN = 28, BIDCTL_LEN = 40, BID_LEN = 24, FRAME_MAX = 128 };
enum { ARP = 0x0806, BID = 0x3005, BIDCTL = 0x3006 };
enum { QUERY = 1, RESPONSE = 2 };

#define GRAPH                                                                                                          \
	"port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.77.0.1/24; bidctl: vnet; bidctl.broadcast=no;"     \
	"bidctl.keepalive=0s; bidctl.interval=1ms; bid: vnet bidctl; user: bid#0x3000"

struct stage {
	struct rig *r;
	uint64_t shown; /* boot id that this host shows to HOST */
};

/* ---- frames ---- */

struct control {
	unsigned flags;
	uint32_t host;
	uint64_t source, destination, request, reply;
};

static size_t
frame_begin(uint8_t *frame, uint64_t from, unsigned type)
{
	memset(frame, 0, FRAME_MAX);
	xk_put48(frame, ME);
	xk_put48(frame + 6, from);
	xk_put16(frame + 12, (uint16_t)type);
	return ETH_LEN;
}

static void
send_arp(struct stage *s, unsigned operation, uint64_t from, uint32_t host)
{
	uint8_t frame[FRAME_MAX], *p = frame + frame_begin(frame, from, ARP);

	xk_put16(p, 1);
	xk_put16(p + 2, 0x0800);
	p[4] = 6;
	p[5] = 4;
	xk_put16(p + 6, (uint16_t)operation);
	xk_put48(p + 8, from);
	xk_put32(p + 14, host);
	xk_put32(p + 24, MY_HOST);
	rig_inject_bytes(s->r, frame, ETH_LEN + ARP_LEN);
}

static void
send_control(struct stage *s, uint64_t from, struct control c)
{
	uint8_t frame[FRAME_MAX], *p = frame + frame_begin(frame, from, BIDCTL);

	xk_put16(p, (uint16_t)c.flags);
	xk_put32(p + 4, c.host);
	xk_put64(p + 8, c.source);
	xk_put64(p + 16, c.destination);
	xk_put64(p + 24, c.request);
	xk_put64(p + 32, c.reply);
	xk_checksum_store(p + 2, xk_checksum_finish(xk_sum(0, p, BIDCTL_LEN)));
	rig_inject_bytes(s->r, frame, ETH_LEN + BIDCTL_LEN);
}

/* Injects a message from HOST at a station. */
static void
send_message(struct stage *s, uint64_t from, uint64_t boot, uint64_t destination, const char *text)
{
	uint8_t frame[FRAME_MAX], *p = frame + frame_begin(frame, from, BID);

	xk_put32(p, NUMBER);
	xk_put32(p + 4, HOST);
	xk_put64(p + 8, boot);
	xk_put64(p + 16, destination);
	memcpy(p + BID_LEN, text, strlen(text));
	rig_inject_bytes(s->r, frame, ETH_LEN + BID_LEN + strlen(text));
}

/* Takes the next frame sent, which must be of this type. Returns the station it was sent to; 0: no frame. */
static uint64_t
take(struct stage *s, unsigned type, uint8_t *frame)
{
	memset(frame, 0, FRAME_MAX);
	if (rig_sent(s->r) == 0)
		return 0;
	CHECK(rig_take_sent(s->r, frame, FRAME_MAX) > ETH_LEN);
	CHECK_EQ(xk_get16(frame + 12), type);
	return xk_get48(frame);
}

/* Checks that BIDCTL has sent a message to that station alone, and returns it. */
static struct control
taken_control(struct stage *s, uint64_t to)
{
	uint8_t frame[FRAME_MAX], *p = frame + ETH_LEN;

	CHECK_EQ(take(s, BIDCTL, frame), to);
	return (struct control){ xk_get16(p),      xk_get32(p + 4),  xk_get64(p + 8),
				 xk_get64(p + 16), xk_get64(p + 24), xk_get64(p + 32) };
}

/* Checks that ARP has broadcast a request for HOST, and answers from a station. */
static void
answer_arp(struct stage *s, uint64_t from)
{
	uint8_t frame[FRAME_MAX];

	CHECK_EQ(take(s, ARP, frame), EVERYBODY);
	CHECK_EQ(xk_get32(frame + ETH_LEN + 24), HOST);
	send_arp(s, 2, from, HOST);
}

/* Checks that BIDCTL has sent HOST a query at the station `to`, and answers from the station `from` as this boot. */
static void
answer_control(struct stage *s, uint64_t to, uint64_t from, uint64_t boot)
{
	struct control c = taken_control(s, to);

	CHECK_EQ(c.flags & QUERY, QUERY);
	send_control(s, from, (struct control){ RESPONSE, HOST, boot, c.source, 0, c.request });
}

static void
expect_text(struct stage *s, const char *text)
{
	char bytes[64];
	long len = rig_take_delivered(s->r, bytes, sizeof(bytes) - 1);

	bytes[len < 0 ? 0 : len] = '\0';
	CHECK_STR(len < 0 ? "nothing" : bytes, text);
}

/* Checks that a push on the session of HOST goes to that station. */
static void
expect_replies_go_to(struct stage *s, uint64_t to)
{
	uint8_t frame[FRAME_MAX];

	CHECK_EQ(rig_push(s->r, rig_announced_session(s->r), "77"), 0);
	CHECK_EQ(take(s, BID, frame), to);
	rig_expect_nothing_sent(s->r);
}

static long
counted(struct stage *s, const char *instance, const char *name)
{
	return rig_counter_of(s->r, instance, name);
}

/* ---- the stage ---- */

/* Lets HOST query from A, where ARP knows it, which confirms it. */
static void
meet(struct stage *s, uint64_t boot)
{
	struct control c;

	send_arp(s, 1, A, HOST);
	rig_forget(s->r);
	send_control(s, A, (struct control){ QUERY, HOST, boot, 0, 7, 0 });
	c = taken_control(s, A);
	CHECK_EQ(c.flags, QUERY | RESPONSE);
	s->shown = c.source;
	send_control(s, A, (struct control){ RESPONSE, HOST, boot, s->shown, 0, c.request });
	rig_expect_nothing_sent(s->r);
}

static void
stage_open(struct stage *s)
{
	s->r = rig_new_graph(GRAPH);
	CHECK_EQ(rig_open_enable(s->r, anybody()), 0);
	meet(s, BOOT_A);
	send_message(s, A, BOOT_A, s->shown, "hello");
	expect_text(s, "hello");
	rig_advance_ms(s->r, 10);
}

static void
stage_close(struct stage *s)
{
	rig_forget(s->r);
	rig_free(s->r);
}

#define STAGE_TEST(name, opening) TEST_IN(name, struct stage, s, opening, stage_close)

/* ---- impersonation ---- */

/* Even if it knows both boot ids. Messages of the host itself are always delivered. */
STAGE_TEST(station_cannot_send_as_a_host_elsewhere, stage_open(s))
{
	send_message(s, LIAR, BOOT_A, s->shown, "forged");
	rig_expect_nothing_delivered(s->r);
	CHECK_EQ(counted(s, "bid", "elsewhere"), 1);
	send_message(s, A, BOOT_A, s->shown, "mine");
	expect_text(s, "mine");
	answer_arp(s, A);
	answer_control(s, A, A, BOOT_A);
	rig_expect_nothing_sent(s->r);
	send_message(s, LIAR, BOOT_A, s->shown, "forged");
	rig_expect_nothing_delivered(s->r);
	rig_forget(s->r);
	send_message(s, A, BOOT_A, s->shown, "mine");
	expect_text(s, "mine");
	expect_replies_go_to(s, A);
	CHECK_EQ(counted(s, "bid", "moved"), 0);
	CHECK_EQ(counted(s, "bidctl", "reboots"), 0);
}

/* This host knows the impersonated one, but has no session with it. */
TEST(station_opens_no_session_for_a_host_elsewhere)
{
	struct stage s = { .r = rig_new_graph(GRAPH) };

	CHECK_EQ(rig_open_enable(s.r, anybody()), 0);
	meet(&s, BOOT_A);
	rig_advance_ms(s.r, 10);
	send_message(&s, LIAR, BOOT_A, s.shown, "forged");
	rig_expect_nothing_delivered(s.r);
	CHECK_EQ(rig_open_done_count(s.r), 0);
	stage_close(&s);
}

/* It sends a query in the host's name: the answer goes to the host. */
STAGE_TEST(station_does_not_learn_another_hosts_boot_id, stage_open(s))
{
	struct control c;

	send_control(s, LIAR, (struct control){ QUERY, HOST, BOOT_B, 0, 7, 0 });
	answer_arp(s, A);
	c = taken_control(s, A);
	CHECK_EQ(c.flags, QUERY | RESPONSE);
	CHECK_EQ(c.reply, 7);
	rig_expect_nothing_sent(s->r);
	send_control(s, LIAR, (struct control){ QUERY, HOST, BOOT_A, 0, 8, 0 });
	while (rig_sent(s->r) > 0)
		CHECK_EQ(taken_control(s, A).source, s->shown);
}

/* OTHER is shown another id than HOST: by BIDCTL, and by BID's answer to a message for a former boot. */
STAGE_TEST(host_shows_each_peer_another_boot_id, stage_open(s))
{
	uint8_t frame[FRAME_MAX];
	struct control c;

	send_arp(s, 1, LIAR, OTHER);
	rig_forget(s->r);
	send_control(s, LIAR, (struct control){ QUERY, OTHER, BOOT_B, 0, 7, 0 });
	c = taken_control(s, LIAR);
	CHECK(c.source != s->shown);
	send_message(s, A, BOOT_A, c.source, "forged");
	rig_expect_nothing_delivered(s->r);
	CHECK_EQ(counted(s, "bid", "old_destination"), 1);
	CHECK_EQ(take(s, BID, frame), A);
	CHECK(xk_get64(frame + ETH_LEN + 8) != s->shown);
}

/* ---- a host that moves ---- */

/* It announces nothing: its first message makes ARP query. Time stands still until the next one is delivered. */
STAGE_TEST(host_that_moves_loses_one_message, stage_open(s))
{
	send_message(s, B, BOOT_A, s->shown, "lost");
	rig_expect_nothing_delivered(s->r);
	answer_arp(s, B);
	answer_control(s, B, B, BOOT_A);
	send_message(s, B, BOOT_A, s->shown, "found");
	expect_text(s, "found");
	CHECK_EQ(counted(s, "bid", "moved"), 1);
	expect_replies_go_to(s, B);
}

/* The query goes to one station and the answer comes from another: its sender must have seen the query. */
STAGE_TEST(host_may_send_and_receive_at_different_stations, stage_open(s))
{
	send_message(s, B, BOOT_A, s->shown, "lost");
	answer_arp(s, A);
	answer_control(s, A, B, BOOT_A);
	send_message(s, B, BOOT_A, s->shown, "found");
	expect_text(s, "found");
}

/* It sends a query before its messages. The answer is a query too, so nothing is lost. */
STAGE_TEST(host_that_queries_from_its_new_station_loses_nothing, stage_open(s))
{
	struct control c;

	send_arp(s, 1, B, HOST);
	rig_forget(s->r);
	send_control(s, B, (struct control){ QUERY, HOST, BOOT_A, 0, 9, 0 });
	c = taken_control(s, B);
	CHECK_EQ(c.flags, QUERY | RESPONSE);
	send_control(s, B, (struct control){ RESPONSE, HOST, BOOT_A, s->shown, 0, c.request });
	send_message(s, B, BOOT_A, s->shown, "found");
	expect_text(s, "found");
}

/* A thousand forged messages draw one ARP request and one BIDCTL query. */
STAGE_TEST(impersonating_station_draws_few_queries, stage_open(s))
{
	for (unsigned i = 0; i < 1000; i++)
		send_message(s, LIAR, BOOT_A, s->shown, "forged");
	answer_arp(s, A);
	answer_control(s, A, A, BOOT_A);
	rig_expect_nothing_sent(s->r);
	CHECK_EQ(counted(s, "bid", "elsewhere"), 1000);
}

/* ---- a boot that has ended ---- */

/* Messages of an ended boot are not delivered again when the host answers as that boot once more. */
STAGE_TEST(ended_boot_stays_ended_even_if_its_host_answers_as_it, stage_open(s))
{
	send_message(s, A, BOOT_B, s->shown, "new");
	answer_control(s, A, A, BOOT_B);
	send_message(s, A, BOOT_B, s->shown, "new");
	expect_text(s, "new");
	rig_advance_ms(s->r, 10);
	send_message(s, A, BOOT_A, s->shown, "hello");
	answer_control(s, A, A, BOOT_A);
	CHECK_EQ(counted(s, "bidctl", "ended"), 1);
	send_message(s, A, BOOT_A, s->shown, "hello");
	rig_expect_nothing_delivered(s->r);
	send_message(s, A, BOOT_B, s->shown, "still");
	expect_text(s, "still");
}
