/*
 * test_virtual.c - the common behaviour of virtual protocols, tested with vwork, which adds nothing without settings.
 */
#include "platform/sim/memory.h"
#include "tests/participants.h"
#include "tests/rig.h"
#include "xkernel/support/virtual.h"
#include "xkernel/upi.h"

#define ME "020000000001"
#define PEER "0200000000aa"
#define OTHER "0200000000bb"
#define ETH "port:; eth: port;"

static void
close_session(void *session)
{
	xk_close(session);
}

RIG_SESSION_TEST(messages_pass_in_both_directions, rig_new("vwork"), rig_must_open(r, rig_to(5)))
{
	CHECK_EQ(rig_wire_remote(r), 5);
	rig_expect_down(r, s, "0102 | 03", "010203");
	rig_expect_up(r, "0405", "0405");
	CHECK(rig_delivered_session(r) == s);
	CHECK_EQ(rig_wire_session_count(r), 1);
	rig_close(r, s);
	CHECK_EQ(rig_wire_session_count(r), 0);
	CHECK_EQ(rig_drop_count(r), 0);
}

RIG_TEST(failures_below_are_passed_up, rig_new("vwork"))
{
	struct xk_session *s = rig_open(r, rig_to(5)), *lls;

	rig_fail_sending(r, -EMSGSIZE);
	CHECK_EQ(rig_push(r, s, "01"), -EMSGSIZE);
	rig_wire_refuse(r, -ENETUNREACH);
	rig_expect_open_fails(r, rig_to(6), -ENETUNREACH);
	CHECK_EQ(rig_open_enable(r, anybody()), -ENETUNREACH);
	rig_wire_refuse(r, 0);
	CHECK_EQ(rig_open_disable(r, anybody()), -ENOENT);
	lls = s->lls;
	REQUIRE(xk_duplicate(lls));
	rig_close(r, s);
	rig_inject_on(r, lls, "01"); /* nothing was left enabled */
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK(rig_do(r, close_session, lls));
}

/* If the protocol below returns an existing session, so does a virtual protocol. */
RIG_SESSION_TEST(opening_again_returns_the_same_session, rig_new_graph(ETH "vwork: eth; user: vwork"),
		 rig_must_open(r, rig_to(0x0200000000aa)))
{
	CHECK(rig_open(r, rig_to(0x0200000000aa)) == s);
	CHECK(rig_open(r, rig_to(0x0200000000bb)) != s);
	rig_close(r, s);
	rig_expect_down(r, s, "01", PEER ME "3000 01");
}

RIG_TEST(second_upper_of_a_number_is_refused_below, rig_new_graph(ETH "vwork: eth; user/ip: vwork; user2/ip: vwork"))
{
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_user(r, "user2");
	CHECK_EQ(rig_open_enable(r, anybody()), -EADDRINUSE);
	CHECK_EQ(rig_open_disable(r, anybody()), -ENOENT);
	rig_user(r, "user");
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	rig_user(r, "user2");
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
}

/* Tries to enable and disable for `user` on behalf of another protocol. */
static void
meddle(void *argument)
{
	struct rig *r = argument;
	struct xk_protocol *user = rig_protocol(r, "user"), *other = rig_protocol(r, "user2");
	struct xk_protocol *vwork = rig_protocol(r, "vwork");
	struct xk_participants all = anybody();

	CHECK_EQ(xk_open_enable(other, user, vwork, &all), -EADDRINUSE);
	CHECK_EQ(xk_open_disable(other, user, vwork, &all), -ENOENT);
}

RIG_TEST(enable_belongs_to_its_upper, rig_new_graph("wire:; vwork: wire; user: vwork; user2: vwork"))
{
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	CHECK(rig_do(r, meddle, r));
	CHECK_EQ(rig_wire_enable_count(r), 1);
	rig_expect_up(r, "01", "01");
}

/* ---- passive sessions ---- */

RIG_TEST(a_message_opens_a_session_that_stays, rig_new("vwork"))
{
	rig_inject(r, "01");
	rig_expect_nothing_delivered(r);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	CHECK_EQ(rig_wire_enable_count(r), 1);
	rig_inject(r, "02");
	rig_inject(r, "03");
	rig_expect_delivered(r, "02");
	rig_expect_delivered(r, "03");
	CHECK_EQ(rig_open_done_count(r), 1);
	CHECK(rig_delivered_session(r) == rig_announced_session(r));
	rig_expect_down(r, rig_announced_session(r), "04", "04");
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	CHECK_EQ(rig_wire_enable_count(r), 0);
}

RIG_TEST(sessions_setting_limits_idle_sessions, rig_new("vwork sessions=2"))
{
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	for (uint64_t peer = 1; peer <= 5; peer++) {
		rig_wire_peer(r, peer);
		rig_expect_up(r, "01", "01");
	}
	CHECK_EQ(rig_open_done_count(r), 5);
	CHECK_EQ(rig_protocol(r, "vwork")->cache_count, 2);
}

RIG_TEST(messages_refused_above_are_dropped_below, rig_new_graph(ETH "vwork: eth; user: vwork"))
{
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_refuse_sessions(r, -EPERM);
	rig_inject(r, ME PEER "3000 01");
	CHECK_EQ(rig_counter_of(r, "eth", "refused"), 1);
	rig_refuse_sessions(r, 0);
	rig_expect_up(r, ME PEER "3000 02", "02");
}

RIG_TEST(last_disable_closes_the_passive_sessions, rig_new_graph(ETH "vwork: eth; user: vwork"))
{
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	rig_expect_up(r, ME PEER "3000 01", "01");
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	CHECK_EQ(rig_protocol(r, "vwork")->cache_count, 0);
	CHECK_EQ(rig_protocol(r, "eth")->cache_count, 0);
	rig_inject(r, ME PEER "3000 01");
	CHECK_EQ(rig_counter_of(r, "eth", "no_session"), 1);
	CHECK_EQ(rig_open_disable(r, anybody()), -ENOENT);
}

/* One upper enables two ports of the protocol below, which alone reads the participants. */
RIG_TEST(enables_are_undone_by_their_participants, rig_new_graph("wire:; udp: wire; vwork: udp; user: vwork"))
{
	CHECK_EQ(rig_open_enable(r, at_port(7)), 0);
	CHECK_EQ(rig_open_enable(r, at_port(9)), 0);
	CHECK_EQ(rig_open_disable(r, at_port(8)), -ENOENT);
	CHECK_EQ(rig_open_disable(r, at_port(7)), 0);
	CHECK_EQ(rig_open_disable(r, at_port(7)), -ENOENT);
	CHECK_EQ(rig_open_disable(r, at_port(9)), 0);
	CHECK_EQ(rig_open_disable(r, at_port(9)), -ENOENT);
}

static void
uncache(void *protocol)
{
	xk_session_uncache(protocol, NULL, NULL);
}

/* A closed session must not be found again on a lower session that others keep open. */
RIG_TEST(new_session_may_stand_on_a_surviving_lower_session, rig_new("vwork"))
{
	struct xk_session *lls;

	CHECK_EQ(rig_open_enable(r, anybody()), 0);
	rig_expect_up(r, "01", "01");
	lls = rig_delivered_session(r)->lls;
	REQUIRE(xk_duplicate(lls));
	CHECK(rig_do(r, uncache, rig_protocol(r, "vwork")));
	CHECK(atomic_load_explicit(&lls->above, memory_order_relaxed) == NULL);
	rig_inject_on(r, lls, "02");
	rig_expect_delivered(r, "02");
	CHECK_EQ(rig_open_done_count(r), 2);
	CHECK_EQ(rig_open_disable(r, anybody()), 0);
	rig_inject_on(r, lls, "03");
	CHECK_EQ(rig_counter(r, "no_session"), 1);
	CHECK(rig_do(r, close_session, lls));
}

/* ---- any edge, and several ---- */

RIG_SESSION_TEST(control_and_participants_come_from_below, rig_new_graph(ETH "vwork: eth; vwork2: vwork; user: vwork2"),
		 rig_must_open(r, rig_to(0x0200000000aa)))
{
	struct xk_participants participants;
	uint64_t link = 0;
	uint32_t max = 0;

	CHECK_EQ(xk_control(s, XK_GET_PEER_LINK, &link), 0);
	CHECK_EQ(link, 0x0200000000aa);
	CHECK_EQ(xk_control_protocol(rig_protocol(r, "vwork2"), XK_GET_MAX_PACKET, &max), 0);
	CHECK_EQ(max, 1500);
	CHECK_EQ(xk_get_participants(s, &participants), 0);
	CHECK_EQ(xk_participant_pop(&participants.remote), 0x0200000000aa);
	CHECK_EQ(participants.remote.depth, 0);
}

static void
swap(uint8_t *a, uint8_t *b, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t byte = a[i];

		a[i] = b[i];
		b[i] = byte;
	}
}

/* Returns the sent frame as its receiver's echo, addresses and ports swapped: no checksum changes. */
static void
echo(struct rig *r)
{
	uint8_t frame[64];
	long len = rig_take_sent(r, frame, sizeof(frame));

	REQUIRE(len == 43);
	swap(frame, frame + 6, 6);
	swap(frame + 26, frame + 30, 4);
	swap(frame + 34, frame + 36, 2);
	rig_inject_bytes(r, frame, (size_t)len);
}

/* Numbers pass through all of them; arp and vnet share one. */
RIG_TEST(virtual_protocols_fit_on_every_edge,
	 rig_new_graph("port:; vwork: port; eth: vwork; vwork2: eth; arp: vwork2; vwork3: vwork2;"
		       "vnet: vwork3 arp; vnet.address=10.77.0.2/24; vwork4: vnet; ip: vwork4;"
		       "vwork5: ip; vdelay: vwork5; udp: vdelay; vdrop: udp; user: vdrop"))
{
	struct xk_session *s;

	CHECK(rig_open(r, rig_to2(0x0a4d0001, 7, 9)) == NULL);
	rig_expect_sent(r, "ffffffffffff" ME "0806 0001 0800 06 04 0001" ME "0a4d0002 000000000000 0a4d0001");
	rig_inject(r, ME PEER "0806 0001 0800 06 04 0002" PEER "0a4d0001" ME "0a4d0002");
	s = rig_opened_session(r);
	REQUIRE(s != NULL);
	CHECK_EQ(rig_push(r, s, "01"), 0);
	CHECK_EQ(rig_push(r, s, "02"), 0);
	echo(r);
	rig_expect_delivered(r, "01");
	CHECK(rig_delivered_session(r) == s);
	rig_expect_sent(r, PEER ME "0800 4500001d .... .... 4011.... 0a4d0002 0a4d0001 0009 0007 0009 .... 02");
	CHECK_EQ(rig_drop_count(r), 0);
}

/* ---- close_done from below ---- */

struct listener {
	struct xk_protocol protocol;
	unsigned closed;
};

static void
listener_close_done(struct xk_protocol *self, struct xk_session *s)
{
	xk_container_of(self, struct listener, protocol)->closed++;
}

static void
listener_demux(struct xk_protocol *self, struct xk_session *lls, struct xk_msg *m)
{
	xk_msg_free(m);
}

static const struct xk_session_ops speaker_session_ops = { .pop = xk_pop_through };

static int
speaker_open(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
	     struct xk_participants *participants, struct xk_session **session)
{
	*session = xk_session_new(self, &speaker_session_ops, hlp_receive, hlp_type, NULL);
	return *session != NULL ? 0 : -ENOMEM;
}

static const struct xk_protocol_ops listener_ops = { .close_done = listener_close_done, .demux = listener_demux };
static const struct xk_protocol_ops speaker_ops = { .open = speaker_open };
static const struct xk_protocol_type listener_type = {
	.name = "listener", .help = "", .ops = &listener_ops, .size = sizeof(struct listener), .offers = XK_ASYNC
};
static const struct xk_protocol_type speaker_type = {
	.name = "speaker", .help = "", .ops = &speaker_ops, .size = sizeof(struct xk_protocol), .offers = XK_ASYNC
};

TEST_WITH(close_done_is_passed_up, struct xk_platform *platform, xk_memory_platform_new(XK_MEMORY_VIRTUAL),
	  xk_memory_platform_free)
{
	struct xk_kernel_config config = { .platform = platform, .mode = XK_IPP, .core = -1 };
	struct xk_kernel *kernel = xk_kernel_new(&config);
	struct xk_protocol *speaker = xk_kernel_add_protocol(kernel, &speaker_type, "speaker"), *failed;
	struct xk_protocol *v = xk_kernel_add_protocol(kernel, xk_protocol_type_find("vwork"), "vwork");
	struct xk_protocol *above = xk_kernel_add_protocol(kernel, &listener_type, "listener");
	struct listener *listener = xk_container_of(above, struct listener, protocol);
	struct xk_participants to = anybody();
	struct xk_session *s, *lls;

	REQUIRE(xk_kernel_add_edge(kernel, v, speaker, "") != NULL && xk_kernel_add_edge(kernel, above, v, "") != NULL);
	REQUIRE(xk_kernel_init(kernel, &failed) == 0);
	REQUIRE(xk_open(above, above, v, &to, &s) == 0);
	lls = s->lls;
	xk_close_done(lls);
	CHECK_EQ(listener->closed, 1);
	REQUIRE(xk_duplicate(lls));
	xk_close(s);
	xk_close_done(lls); /* no session stands there any more */
	CHECK_EQ(listener->closed, 1);
	xk_close(lls);
	xk_kernel_free(kernel);
}

/* ---- lowers that carry no messages ---- */

static int
speaker_open_enable(struct xk_protocol *self, struct xk_protocol *hlp_receive, struct xk_protocol *hlp_type,
		    struct xk_participants *participants)
{
	return 0;
}

static const struct xk_protocol_ops enabled_ops = { .open_enable = speaker_open_enable,
						    .open_disable = speaker_open_enable };
static const struct xk_protocol_type enabled_type = {
	.name = "enabled", .help = "", .ops = &enabled_ops, .size = sizeof(struct xk_protocol), .offers = XK_ASYNC
};
static const struct xk_protocol_ops adviser_ops = { .init = NULL };
static const struct xk_protocol_type adviser_type = {
	.name = "adviser", .help = "", .ops = &adviser_ops, .size = sizeof(struct xk_protocol), .offers = XK_CONTROL
};
static const struct xk_session_ops advised_session_ops = { .size = sizeof(struct xk_session),
							   .pop = xk_pop_through,
							   .close = xk_virtual_session_close };
static const struct xk_protocol_ops advised_ops = { XK_VIRTUAL_OPS };
static const struct xk_role advised_lowers[] = {
	{ "lower", XK_ASYNC, NULL, "" },
	{ "adviser", XK_CONTROL, NULL, "" },
	{ NULL, 0, NULL, NULL },
};
static const struct xk_protocol_type advised_type = {
	.name = "advised",
	.help = "",
	.ops = &advised_ops,
	.session_ops = &advised_session_ops,
	.size = sizeof(struct xk_protocol),
	.offers = XK_ASYNC,
	.flags = XK_VIRTUAL,
	.lowers = advised_lowers,
	.session_max = 16,
};

/* A lower that only answers control operations gets no open_enable. */
TEST_WITH(enables_go_to_lowers_that_carry_messages, struct xk_platform *platform,
	  xk_memory_platform_new(XK_MEMORY_VIRTUAL), xk_memory_platform_free)
{
	struct xk_kernel_config config = { .platform = platform, .mode = XK_IPP, .core = -1 };
	struct xk_kernel *kernel = xk_kernel_new(&config);
	struct xk_protocol *lower = xk_kernel_add_protocol(kernel, &enabled_type, "enabled"), *failed;
	struct xk_protocol *adviser = xk_kernel_add_protocol(kernel, &adviser_type, "adviser");
	struct xk_protocol *v = xk_kernel_add_protocol(kernel, &advised_type, "advised");
	struct xk_protocol *above = xk_kernel_add_protocol(kernel, &listener_type, "listener");
	struct xk_participants all = anybody();

	REQUIRE(xk_kernel_add_edge(kernel, v, lower, "") != NULL && xk_kernel_add_edge(kernel, v, adviser, "") != NULL);
	REQUIRE(xk_kernel_add_edge(kernel, above, v, "") != NULL);
	REQUIRE(xk_kernel_init(kernel, &failed) == 0);
	CHECK_EQ(xk_open_enable(above, above, v, &all), 0);
	CHECK_EQ(xk_open_disable(above, above, v, &all), 0);
	CHECK_EQ(xk_open_disable(above, above, v, &all), -ENOENT);
	xk_kernel_free(kernel);
}
