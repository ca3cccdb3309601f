/* test_am_served.c - Active Messages received: callers accepted, requests run once, replies kept, stores placed. */
#include <limits.h>

#include "tests/protocols/am_rig.h"

enum { ADD = 3, LONG = 4, SLOW = 0x12, TAGGED = 8, SUM = 5 };

static struct {
	unsigned runs;
	struct xk_am_arrival arrival;
	size_t len;
	char text[64];
	bool replies;
	size_t reply_len;
	uint8_t *memory;
	struct rig *r;
} seen;

static void
serve(void *argument, const struct xk_am_arrival *arrival, struct xk_msg *m, struct xk_am_reply *reply)
{
	++*(unsigned *)argument;
	seen.arrival = *arrival;
	seen.len = xk_msg_len(m);
	memset(seen.text, 0, sizeof(seen.text));
	CHECK(xk_msg_copy_out(m, 0, seen.text, seen.len < 63 ? seen.len : 63));
	xk_msg_free(m);
	if (arrival->memory != NULL)
		seen.memory = arrival->memory;
	CHECK(reply != NULL && !reply->given);
	if (!seen.replies)
		return;
	*reply = (struct xk_am_reply){ .given = true, .number = SUM, .count = 1, .words = { 0x51525354 } };
	if (seen.reply_len > 0) {
		reply->m = xk_msg_new(rig_platform(seen.r), seen.reply_len);
		REQUIRE(reply->m != NULL);
		for (struct xk_msg *part = reply->m; part != NULL; part = part->next)
			memset(part->data, 'r', part->len);
	}
}

static struct rig *
server_rig(const char *settings)
{
	static const struct xk_am_handler handler = { serve, &seen.runs, false }, slow = { serve, &seen.runs, true };
	static const struct xk_am_endpoint tagged = { .tag = 77 };
	struct rig *r = am_rig(settings);
	struct xk_protocol *am = rig_protocol(r, "am");

	memset(&seen, 0, sizeof(seen));
	seen.r = r;
	CHECK_EQ(xk_am_register(am, NAME, ADD, &handler), 0);
	CHECK_EQ(xk_am_register(am, NAME, SLOW, &slow), 0);
	CHECK_EQ(xk_am_set_endpoint(am, TAGGED, &tagged), 0);
	CHECK_EQ(rig_open_enable(r, at_port(TAGGED)), 0);
	return r;
}

/* Injects a request to session `to`. */
static void
ask(struct rig *r, uint64_t to, unsigned handler, uint32_t sequence, uint32_t oldest, const char *text)
{
	inject(r,
	       (struct am_header){ .kind = AM_REQUEST,
				   .handler = handler,
				   .sequence = sequence,
				   .oldest = oldest,
				   .to = to,
				   .from = PEER },
	       text);
}

static void
taken(struct rig *r, uint64_t to, uint32_t sequence, uint32_t oldest)
{
	inject(r,
	       (struct am_header){ .kind = AM_TAKEN, .sequence = sequence, .oldest = oldest, .to = to, .from = PEER },
	       "");
}

/* ---- callers ---- */

AM_TEST(caller_takes_no_memory_before_its_address_is_verified, server_rig("am"))
{
	struct message m;
	uint64_t cookie, b;

	call(r, PEER, 0, NAME, 0);
	cookie = expect(r, AM_COOKIE).h.from;
	call(r, PEER, cookie + 1, NAME, 0);
	CHECK(expect(r, AM_COOKIE).h.from == cookie);
	call(r, PEER + 1, cookie, NAME, 0); /* another caller's cookie */
	CHECK(expect(r, AM_COOKIE).h.from != cookie);
	rig_wire_peer(r, 6); /* from another address */
	call(r, PEER, cookie, NAME, 0);
	CHECK(expect(r, AM_COOKIE).h.from != cookie);
	CHECK_EQ(rig_counter(r, "accepted"), 0);
	rig_wire_peer(r, 0x99);
	call(r, PEER, cookie, NAME, 0);
	m = expect(r, AM_WELCOME);
	CHECK_EQ(m.h.handler, 16);
	b = m.h.from;
	CHECK_EQ(rig_counter(r, "accepted"), 1);
	CHECK_EQ(rig_open_done_count(r), 1);
	call(r, PEER, cookie, NAME, 0); /* the WELCOME was lost */
	CHECK(expect(r, AM_WELCOME).h.from == b);
	CHECK_EQ(rig_counter(r, "accepted"), 1);
	CHECK_EQ(rig_drop_count(r), 0);
}

AM_TEST(unknown_endpoint_or_wrong_tag_is_gone, server_rig("am"))
{
	struct message m;
	uint64_t cookie;

	call(r, PEER, 0, NAME + 5, 0);
	cookie = expect(r, AM_COOKIE).h.from;
	call(r, PEER, cookie, NAME + 5, 0);
	m = expect(r, AM_GONE);
	CHECK(m.h.handler == AM_R_NO_ENDPOINT && m.h.to == PEER && m.h.from == cookie);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	call(r, PEER, cookie, TAGGED, 78);
	CHECK_EQ(expect(r, AM_GONE).h.handler, AM_R_TAG);
	CHECK_EQ(rig_counter(r, "bad_tag"), 1);
	CHECK(call_as(r, PEER, TAGGED, 77) != 0);
	rig_refuse_sessions(r, -EPERM);
	CHECK(call_as(r, PEER + 1, NAME, 0) == 0);
	CHECK_EQ(rig_counter(r, "refused"), 1);
}

AM_TEST(each_address_has_a_share_of_the_sessions, server_rig("am peer_sessions=2"))
{
	uint64_t a = call_as(r, 1, NAME, 0), b = call_as(r, 2, NAME, 0), c = call_as(r, 3, NAME, 0);

	CHECK(a != 0 && b != 0 && c != 0); /* the oldest made room */
	inject(r, (struct am_header){ .kind = AM_REQUEST, .handler = ADD, .to = a, .from = 1 }, "x");
	CHECK_EQ(expect(r, AM_GONE).h.handler, AM_R_FORGOTTEN);
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK_EQ(seen.runs, 0);
	seen.replies = true; /* a kept reply keeps the session */
	inject(r, (struct am_header){ .kind = AM_REQUEST, .handler = ADD, .to = b, .from = 2 }, "x");
	inject(r, (struct am_header){ .kind = AM_REQUEST, .handler = ADD, .to = c, .from = 3 }, "x");
	expect(r, AM_REPLY);
	expect(r, AM_REPLY);
	CHECK(call_as(r, 4, NAME, 0) == 0);
	CHECK_EQ(rig_counter(r, "too_many"), 1);
	rig_advance_ms(r, 10001);
	CHECK_EQ(rig_counter(r, "expired"), 2);
	CHECK(call_as(r, 4, NAME, 0) != 0);
}

RIG_TEST(broadcast_calls_are_not_answered, rig_new_graph("port:; eth: port; am: eth; user: am"))
{
	CHECK_EQ(rig_open_enable(r, at_port(NAME)), 0);
	rig_inject(r, "ffffffffffff 0200000000aa 3007 01 00 0007 00000000 00000000 0000000c 0000000000000000"
		      "1112131415161718 0009 0003 0000000000000000");
	CHECK_EQ(rig_counter(r, "to_all"), 1);
	rig_expect_nothing_sent(r);
	rig_expect_answer(r,
			  "020000000001 0200000000aa 3007 01 00 0007 00000000 00000000 0000000c 0000000000000000"
			  "1112131415161718 0009 0003 0000000000000000 0000",
			  "0200000000aa 020000000001 3007 02 00 0000 00000000 00000000 00000000 1112131415161718 *");
}

/* ---- running requests ---- */

AM_TEST(a_request_runs_its_handler_and_is_acknowledged, server_rig("am"))
{
	uint64_t b = call_as(r, PEER, NAME, 0);

	inject_bytes(r, (struct am_header){ AM_REQUEST, 2, ADD, 0, 0, 10, b, PEER }, "\0\0\0\1\0\0\0\2hi", 10);
	CHECK_EQ(seen.runs, 1);
	CHECK_EQ(seen.arrival.count, 2);
	CHECK(seen.arrival.words[0] == 1 && seen.arrival.words[1] == 2 && seen.arrival.words[2] == 0);
	CHECK(seen.arrival.memory == NULL && seen.arrival.session == rig_announced_session(r));
	CHECK_STR(seen.text, "hi");
	expect_answer(r, AM_ACK, 0, 0);
	rig_expect_counts(r, "requests=1 acked=1 left=0");
	ask(r, b, SLOW, 1, 1, "slow");
	CHECK_EQ(seen.runs, 2);
	CHECK_EQ(rig_counter(r, "left"), 1);
	expect_answer(r, AM_ACK, 1, 0);
	ask(r, b, 99, 2, 2, "?");
	expect_answer(r, AM_REFUSED, 2, AM_R_NO_HANDLER);
	CHECK_EQ(rig_counter(r, "no_handler"), 1);
	ask(r, b, 99, 2, 2, "?");
	expect_answer(r, AM_REFUSED, 2, AM_R_NO_HANDLER);
	CHECK_EQ(rig_counter(r, "no_handler"), 1);
	ask(r, b, XK_AM_NONE, 3, 3, "up");
	rig_expect_delivered(r, "7570");
	expect_answer(r, AM_ACK, 3, 0);
}

AM_TEST(a_request_is_run_once, server_rig("am"))
{
	uint64_t b = call_as(r, PEER, NAME, 0);

	for (unsigned i = 0; i < 3; i++) {
		ask(r, b, ADD, 1, 0, "later");
		expect_answer(r, AM_ACK, 1, 0);
	}
	CHECK_EQ(seen.runs, 1);
	CHECK_EQ(rig_counter(r, "replied_again"), 2);
	ask(r, b, ADD, 0, 0, "earlier");
	expect_answer(r, AM_ACK, 0, 0);
	CHECK_EQ(seen.runs, 2);
	ask(r, b, ADD, 2, 2, "next");
	expect_answer(r, AM_ACK, 2, 0);
	ask(r, b, ADD, 0, 0, "earlier"); /* it has had that answer */
	ask(r, b, ADD, 1, 1, "later");
	CHECK_EQ(seen.runs, 3);
	rig_expect_nothing_sent(r);
	CHECK_EQ(rig_counter(r, "duplicate"), 4);
	ask(r, b, ADD, 2 + 16, 2, "beyond its credits");
	ask(r, b, ADD, 1, 2, "before its own oldest");
	CHECK_EQ(rig_counter(r, "no_credit"), 2);
	ask(r, b, ADD, 500, 500, "it gave up on many");
	expect_answer(r, AM_ACK, 500, 0);
	ask(r, b, ADD, 499, 490, "too late");
	CHECK_EQ(rig_counter(r, "duplicate"), 5);
	CHECK_EQ(seen.runs, 4);
}

AM_TEST(a_reply_is_kept_until_it_is_taken, server_rig("am"))
{
	uint64_t b = call_as(r, PEER, NAME, 0);
	struct xk_platform *platform = rig_platform(r);
	struct message m;

	seen.replies = true;
	seen.reply_len = 2;
	ask(r, b, ADD, 0, 0, "x");
	m = expect(r, AM_REPLY);
	CHECK(m.h.handler == SUM && m.h.words == 1 && m.h.to == PEER && m.h.from == b);
	CHECK_EQ(memcmp(m.bytes, "QRSTrr", 6), 0);
	ask(r, b, ADD, 0, 0, "x");
	expect_answer(r, AM_REPLY, 0, SUM);
	taken(r, b, 0, 1);
	CHECK_EQ(platform->ops->buffers_out(platform), 0);
	taken(r, b, 0, 1);
	CHECK_EQ(rig_counter(r, "stale"), 1);
	ask(r, b, ADD, 0, 0, "x");
	rig_expect_nothing_sent(r);
	seen.reply_len = 0;
	ask(r, b, ADD, 1, 1, "x");
	CHECK_EQ(expect(r, AM_REPLY).h.length, 4);
	ask(r, b, ADD, 2, 2, "x"); /* reports so, too */
	expect_answer(r, AM_REPLY, 2, SUM);
	CHECK_EQ(platform->ops->buffers_out(platform), 1);
	rig_advance_ms(r, 10001);
	CHECK_EQ(platform->ops->buffers_out(platform), 0);
	CHECK_EQ(rig_counter(r, "expired"), 1);
	ask(r, b, ADD, 2, 2, "x");
	expect_answer(r, AM_ACK, 2, 0);
	CHECK_EQ(seen.runs, 3);
}

/* Beyond the host's share of buffers, a reply is sent once. A duplicate request is not run, but answered with GONE. */
TEST(each_host_has_a_share_of_the_kept_replies)
{
	struct rig *r = server_rig("am kept=8k"); /* two buffers */
	uint64_t b = call_as(r, PEER, NAME, 0);

	seen.replies = true;
	for (uint32_t i = 0; i < 3; i++) {
		ask(r, b, ADD, i, 0, "x");
		expect_answer(r, AM_REPLY, i, SUM);
	}
	CHECK_EQ(rig_counter(r, "unkept"), 1);
	ask(r, b, ADD, 1, 0, "x");
	expect_answer(r, AM_REPLY, 1, SUM);
	ask(r, b, ADD, 2, 0, "x");
	expect_answer(r, AM_REFUSED, 2, AM_R_FORGOTTEN);
	CHECK_EQ(seen.runs, 3);
	taken(r, b, 0, 0);
	ask(r, b, ADD, 3, 0, "x"); /* there is room again */
	expect_answer(r, AM_REPLY, 3, SUM);
	CHECK_EQ(rig_counter(r, "unkept"), 1);
	am_rig_end(r);
	CHECK_EQ(seen.runs, 4);
}

AM_TEST(long_reply_is_retransmitted_three_times, server_rig("am"))
{
	uint64_t b = call_as(r, PEER, NAME, 0);

	seen.replies = true;
	seen.reply_len = 1000;
	for (unsigned i = 0; i < 10; i++)
		ask(r, b, ADD, 0, 0, "x");
	CHECK_EQ(rig_sent(r), 4);
	CHECK_EQ(rig_counter(r, "repeated"), 6);
	CHECK_EQ(seen.runs, 1);
	rig_forget(r);
	seen.reply_len = 1465; /* one byte too long with its word */
	ask(r, b, ADD, 1, 0, "x");
	expect_answer(r, AM_ACK, 1, 0);
	CHECK_EQ(rig_counter(r, "too_long"), 1);
	seen.reply_len = 1464;
	ask(r, b, ADD, 2, 0, "x");
	CHECK_EQ(expect(r, AM_REPLY).h.length, 1468);
}

AM_TEST(session_ends_if_its_peer_is_gone, server_rig("am"))
{
	uint64_t b = call_as(r, PEER, NAME, 0);
	struct xk_session *s = rig_announced_session(r);
	struct message m;

	CHECK_EQ(rig_push(r, s, "c3c4"), 0);
	m = expect(r, AM_REQUEST);
	CHECK(m.h.to == PEER && m.h.from == b && m.h.handler == XK_AM_NONE);
	CHECK_EQ(rig_push(r, s, "c5"), 0);
	expect(r, AM_REQUEST);
	inject(r, (struct am_header){ .kind = AM_GONE, .handler = AM_R_FORGOTTEN, .to = b, .from = PEER }, "");
	CHECK_EQ(rig_counter(r, "peer_gone"), 2);
	CHECK_EQ(rig_close_done_count(r), 1);
	ask(r, b, ADD, 0, 0, "x");
	expect(r, AM_GONE);
	CHECK_EQ(seen.runs, 0);
}

/* A peer that called and then falls silent gets three retransmissions, the last in the second half of `patience`. */
AM_TEST(am_retransmits_three_times_to_a_silent_caller, server_rig("am"))
{
	unsigned times = 0, late = 0;

	call_as(r, PEER, NAME, 0);
	CHECK_EQ(rig_push(r, rig_announced_session(r), "aabb"), 0);
	for (unsigned ms = 0; ms < 11000; ms += 10) {
		while (rig_sent(r) > 0) {
			times += expect(r, AM_REQUEST).h.kind == AM_REQUEST;
			late += ms >= 5000;
		}
		rig_advance_ms(r, 10);
	}
	CHECK_EQ(times, 4);
	CHECK_EQ(late, 1);
	CHECK(rig_counter(r, "withheld") > 5);
}

/* The peer has granted three credits. */
AM_TEST(server_honours_the_callers_credits, server_rig("am"))
{
	uint64_t b = call_as(r, PEER, NAME, 0);
	struct xk_session *s = rig_announced_session(r);

	for (unsigned i = 0; i < 5; i++)
		CHECK_EQ(rig_push(r, s, "c3"), 0);
	rig_expect_sent_count(r, CALL_FROM_CREDITS);
	inject(r, (struct am_header){ .kind = AM_ACK, .to = b, .from = PEER }, "");
	expect(r, AM_REQUEST);
	rig_expect_nothing_sent(r);
}

/* ---- stores ---- */

static void
store_part(struct rig *r, uint64_t to, uint32_t sequence, unsigned handler, struct am_store_header store,
	   const char *text)
{
	uint8_t bytes[AM_STORE_LEN + 64];
	size_t len = strlen(text);

	xk_put32(bytes, store.region);
	xk_put32(bytes + 4, store.place);
	xk_put32(bytes + 8, store.total);
	xk_put32(bytes + 12, store.offset);
	xk_put32(bytes + 16, store.before);
	memcpy(bytes + AM_STORE_LEN, text, len);
	inject_bytes(r,
		     (struct am_header){ AM_STORE, 0, handler, sequence, 0, (uint32_t)(AM_STORE_LEN + len), to, PEER },
		     bytes, AM_STORE_LEN + len);
}

static uint8_t memory[64];

static struct xk_region
region_of(struct rig *r, uint16_t name)
{
	struct xk_region region = { .base = memory + 8, .len = 32, .port = name };

	memset(memory, '.', sizeof(memory));
	CHECK_EQ(xk_region_register(rig_protocol(r, "am"), &region), 0);
	return region;
}

AM_TEST(store_runs_its_handler_when_complete, server_rig("am"))
{
	uint64_t b = call_as(r, PEER, NAME, 0);
	uint32_t id = region_of(r, NAME).id;

	store_part(r, b, 2, ADD, (struct am_store_header){ id, 4, 9, 6, 2 }, "ghi");
	CHECK_EQ(rig_counter(r, "gap"), 1);
	rig_expect_nothing_sent(r);
	store_part(r, b, 0, XK_AM_NONE, (struct am_store_header){ id, 4, 9, 0, 0 }, "abc");
	expect_answer(r, AM_ACK, 0, 0);
	store_part(r, b, 2, ADD, (struct am_store_header){ id, 4, 9, 6, 2 }, "ghi");
	CHECK_EQ(rig_counter(r, "gap"), 2);
	store_part(r, b, 1, XK_AM_NONE, (struct am_store_header){ id, 4, 9, 3, 1 }, "def");
	expect_answer(r, AM_ACK, 1, 0);
	CHECK_EQ(seen.runs, 0);
	seen.replies = true;
	store_part(r, b, 2, ADD, (struct am_store_header){ id, 4, 9, 6, 2 }, "ghi");
	expect_answer(r, AM_REPLY, 2, SUM);
	CHECK_EQ(seen.runs, 1);
	CHECK(seen.memory == memory + 12 && seen.arrival.len == 9 && seen.len == 0);
	CHECK_EQ(memcmp(memory, "............abcdefghi.", 22), 0);
	CHECK_EQ(rig_counter(r, "stores"), 3);
	store_part(r, b, 3, XK_AM_NONE, (struct am_store_header){ id, 0, 2, 0, 0 }, "zz");
	expect_answer(r, AM_ACK, 3, 0);
	CHECK_EQ(seen.runs, 1);
	CHECK_EQ(memcmp(memory, "........zz..abcdefghi.", 22), 0);
}

AM_TEST(nothing_is_stored_outside_a_region, server_rig("am"))
{
	static const struct am_store_header stores[] = {
		{ 0, 30, 3, 0, 0 },         { 0, 33, 3, 0, 0 }, { 0, 0, 33, 0, 0 },         { 0, UINT32_MAX, 3, 0, 0 },
		{ 0, 4, UINT32_MAX, 0, 0 }, { 0, 4, 3, 1, 0 },  { 0, 4, 3, UINT32_MAX, 0 },
	};
	uint64_t b = call_as(r, PEER, NAME, 0);
	uint32_t id = region_of(r, NAME).id, others, sequence = 0;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(stores); i++, sequence++) {
		struct am_store_header store = stores[i];

		store.region = id;
		store_part(r, b, sequence, ADD, store, "abc");
		expect_answer(r, AM_REFUSED, sequence, AM_R_REGION);
		CHECK_EQ(rig_counter(r, "out_of_bounds"), i + 1);
	}
	for (unsigned i = 0; i < sizeof(memory); i++)
		CHECK_EQ(memory[i], '.');
	others = region_of(r, TAGGED).id;
	store_part(r, b, sequence, ADD, (struct am_store_header){ others, 0, 3, 0, 0 }, "abc");
	expect_answer(r, AM_REFUSED, sequence++, AM_R_REGION);
	store_part(r, b, sequence, ADD, (struct am_store_header){ 0, 0, 3, 0, 0 }, "abc");
	expect_answer(r, AM_REFUSED, sequence++, AM_R_REGION);
	CHECK_EQ(rig_counter(r, "bad_region"), 2);
	CHECK_EQ(seen.runs, 0);
}

/* The last part of a store is not run if an earlier part was refused. */
AM_TEST(store_with_a_refused_part_is_not_run, server_rig("am"))
{
	uint64_t b = call_as(r, PEER, NAME, 0);
	struct xk_region region = region_of(r, NAME);

	store_part(r, b, 0, XK_AM_NONE, (struct am_store_header){ region.id + 1, 4, 6, 0, 0 }, "abc");
	expect_answer(r, AM_REFUSED, 0, AM_R_REGION);
	store_part(r, b, 1, ADD, (struct am_store_header){ region.id, 4, 6, 3, 1 }, "def");
	CHECK_EQ(rig_counter(r, "gap"), 1);
	CHECK_EQ(seen.runs, 0);
}

/* ---- no buffers ---- */

AM_TEST(unsent_answer_is_counted, server_rig("am"))
{
	uint64_t b = call_as(r, PEER, NAME, 0);

	rig_fail_sending(r, -ENOBUFS);
	ask(r, b, ADD, 0, 0, "x");
	CHECK_EQ(rig_counter(r, "unsent"), 1);
	seen.replies = true;
	ask(r, b, ADD, 1, 0, "x");
	CHECK_EQ(rig_counter(r, "unsent"), 2);
	rig_fail_sending(r, 0);
	ask(r, b, ADD, 1, 0, "x");
	expect_answer(r, AM_REPLY, 1, SUM);
	CHECK_EQ(seen.runs, 2);
}
