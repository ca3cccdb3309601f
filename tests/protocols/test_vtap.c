/* test_vtap.c - messages cross a vtap unchanged, are counted, and are shown to the host's capture. */
#include "tests/rig.h"
#include "xkernel/capture.h"
#include "xkernel/engine/engine.h"

enum { SHOWN_MAX = 8, SHOWN_BYTES = 64 };

/* A capture that remembers. */
static struct {
	struct xk_capture sink;
	int refuses; /* nonzero: what add returns */
	unsigned places;
	char name[32];
	enum xk_capture_link link;
	unsigned count;
	struct {
		unsigned place;
		enum xk_direction direction;
		size_t len;
		uint8_t bytes[SHOWN_BYTES];
	} shown[SHOWN_MAX];
} capture;

enum { FIRST_PLACE = 40 };

static int
capture_add(struct xk_capture *sink, const char *name, enum xk_capture_link link)
{
	CHECK(sink == &capture.sink);
	if (capture.refuses != 0)
		return capture.refuses;
	snprintf(capture.name, sizeof(capture.name), "%s", name);
	capture.link = link;
	return FIRST_PLACE + (int)capture.places++;
}

static void
capture_see(struct xk_capture *sink, unsigned place, enum xk_direction direction, const struct xk_msg *m)
{
	unsigned i = capture.count++;

	CHECK(sink == &capture.sink);
	REQUIRE(i < SHOWN_MAX && xk_msg_len(m) <= SHOWN_BYTES);
	capture.shown[i].place = place;
	capture.shown[i].direction = direction;
	capture.shown[i].len = xk_msg_len(m);
	CHECK(xk_msg_copy_out(m, 0, capture.shown[i].bytes, xk_msg_len(m)));
}

static const struct xk_capture_ops capture_ops = { .add = capture_add, .see = capture_see };

static void
prepare(struct rig *r)
{
	rig_kernel(r)->config.capture = &capture.sink;
}

static struct rig *
rig_captured(const char *graph)
{
	memset(&capture, 0, sizeof(capture));
	capture.sink.ops = &capture_ops;
	return rig_new_prepared(graph, prepare);
}

static void
expect_shown(unsigned i, enum xk_direction direction, const char *bytes, size_t len)
{
	REQUIRE(i < capture.count);
	CHECK_EQ(capture.shown[i].place, FIRST_PLACE);
	CHECK_EQ(capture.shown[i].direction, direction);
	CHECK_EQ(capture.shown[i].len, len);
	CHECK(memcmp(capture.shown[i].bytes, bytes, len) == 0);
}

RIG_SESSION_TEST(vtap_without_a_capture_counts_messages, rig_new("vtap"), rig_open(r, rig_to(5)))
{
	rig_expect_down(r, s, "0102", "0102");
	rig_inject(r, "03");
	rig_inject(r, "");
	rig_expect_delivered(r, "03");
	rig_expect_delivered(r, "");
	rig_expect_counts(r, "up=2 down=1");
}

RIG_SESSION_TEST(vtap_shows_both_directions_in_order, rig_captured("wire:; vtap: wire; user: vtap"),
		 rig_open(r, rig_to(5)))
{
	CHECK_EQ(capture.places, 1);
	CHECK_STR(capture.name, "vtap");
	CHECK_EQ(rig_push(r, s, "0102"), 0);
	rig_inject(r, "03");
	rig_inject(r, "");
	CHECK_EQ(rig_push(r, s, "04"), 0);
	CHECK_EQ(capture.count, 4);
	expect_shown(0, XK_DOWN, "\1\2", 2);
	expect_shown(1, XK_UP, "\3", 1);
	expect_shown(2, XK_UP, "", 0);
	expect_shown(3, XK_DOWN, "\4", 1);
	rig_expect_sent(r, "0102");
	rig_expect_sent(r, "04");
	rig_expect_delivered(r, "03");
	rig_expect_delivered(r, "");
}

RIG_SESSION_TEST(vtap_shows_messages_in_segments_whole, rig_captured("wire:; vtap: wire; user: vtap"),
		 rig_open(r, rig_to(5)))
{
	rig_expect_down(r, s, "01|0203|04", "01020304");
	expect_shown(0, XK_DOWN, "\1\2\3\4", 4);
}

RIG_SESSION_TEST(vtap_shows_messages_refused_below, rig_captured("wire:; vtap: wire; user: vtap"),
		 rig_open(r, rig_to(5)))
{
	rig_fail_sending(r, -ENOBUFS);
	CHECK_EQ(rig_push(r, s, "01"), -ENOBUFS);
	expect_shown(0, XK_DOWN, "\1", 1);
	CHECK_EQ(rig_counter(r, "down"), 1);
}

/* Returns the link type that a graph's tap declares. */
static enum xk_capture_link
link_in(const char *graph)
{
	struct rig *r = rig_captured(graph);

	CHECK_EQ(capture.places, 1);
	rig_free(r);
	return capture.link;
}

TEST(vtap_derives_its_link_type_from_the_graph)
{
	CHECK_EQ(link_in("port:; vtap: port; eth: vtap; user: eth"), XK_CAPTURE_ETHERNET);
	CHECK_EQ(link_in("port:; vwork: port; vtap: vwork; eth: vtap; user: eth"), XK_CAPTURE_ETHERNET);
	CHECK_EQ(link_in("port:; vtap: port; user: vtap"), XK_CAPTURE_ETHERNET);
	CHECK_EQ(link_in("wire:; vtap: wire; user/ip: vtap"), XK_CAPTURE_IPV4);
	CHECK_EQ(link_in("wire:; vtap: wire; vwork: vtap; user/ip: vwork"), XK_CAPTURE_IPV4);
	CHECK_EQ(link_in("wire:; vtap: wire; user: vtap"), XK_CAPTURE_USER0);
	CHECK_EQ(link_in("wire:; vtap: wire; user: vtap; user2/ip: vtap"), XK_CAPTURE_USER0);
	CHECK_EQ(link_in("wire:; vtap: wire; user/ip: vtap; user2: vtap"), XK_CAPTURE_USER0);
	CHECK_EQ(link_in("wire:; vtap: wire; udp: vtap; user/ip: udp"), XK_CAPTURE_USER0);
}

TEST(vtap_takes_its_link_type_from_the_setting)
{
	CHECK_EQ(link_in("wire:; vtap: wire; vtap.linktype=ethernet; user/ip: vtap"), XK_CAPTURE_ETHERNET);
	CHECK_EQ(link_in("wire:; vtap: wire; vtap.linktype=ip; user: vtap"), XK_CAPTURE_IPV4);
	CHECK_EQ(link_in("wire:; vtap: wire; vtap.linktype=raw; user: vtap"), XK_CAPTURE_IP);
	CHECK_EQ(link_in("port:; vtap: port; vtap.linktype=user0; user: vtap"), XK_CAPTURE_USER0);
	CHECK_EQ(link_in("wire:; vtap: wire; vtap.linktype=auto; user/ip: vtap"), XK_CAPTURE_IPV4);
}

TEST(vtap_refuses_other_link_types)
{
	CHECK_EQ(rig_refusal("wire:; vtap: wire; vtap.linktype=token; user: vtap"), -EINVAL);
	CHECK_EQ(rig_refusal("wire:; vtap: wire; vtap.linktype=; user: vtap"), -EINVAL);
}

/* A capture without a free place: a tap alone, whose lower protocol is never looked up. */
RIG_TEST(vtap_without_a_place_refuses_the_graph, rig_captured("wire:; vtap: wire; user: vtap"))
{
	struct xk_kernel_config config = {
		.platform = rig_platform(r), .mode = XK_IPP, .core = -1, .capture = &capture.sink
	};
	struct xk_kernel *kernel = xk_kernel_new(&config);
	struct xk_protocol *upper, *lower, *failed = NULL;

	REQUIRE(kernel != NULL);
	lower = xk_kernel_add_protocol(kernel, xk_protocol_type_find("vtap"), "lower");
	upper = xk_kernel_add_protocol(kernel, xk_protocol_type_find("vtap"), "upper");
	REQUIRE(lower != NULL && upper != NULL);
	REQUIRE(xk_kernel_add_edge(kernel, lower, rig_protocol(r, "wire"), "lower") != NULL);
	REQUIRE(xk_kernel_add_edge(kernel, upper, lower, "lower") != NULL);
	capture.refuses = -ENOSPC;
	CHECK_EQ(xk_kernel_init(kernel, &failed), -ENOSPC);
	CHECK(failed == lower);
	xk_kernel_free(kernel);
}

/* Each of two taps has a place. */
RIG_SESSION_TEST(vtaps_are_distinguished, rig_captured("wire:; vtap: wire; vtap2: vtap; user: vtap2"),
		 rig_open(r, rig_to(5)))
{
	CHECK_EQ(capture.places, 2);
	CHECK_STR(capture.name, "vtap2");
	rig_expect_down(r, s, "01", "01");
	CHECK_EQ(capture.count, 2);
	CHECK_EQ(capture.shown[0].place, FIRST_PLACE + 1);
	CHECK_EQ(capture.shown[1].place, FIRST_PLACE);
}
