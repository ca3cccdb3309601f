/* test_capture.c - everything that crosses ports and taps is in the file, once and in order; files that fail. */
#include "tools/capture/capture_file.h"

#include <errno.h>

#include "tests/tools/capture_rig.h"
#include "tools/options.h"

/* Returns the number of frames the device accepts; frees the others. */
static unsigned
transmit(const char *const *texts, unsigned count)
{
	struct xk_msg *frames[8];
	unsigned taken;

	for (unsigned i = 0; i < count; i++)
		frames[i] = message(texts[i]);
	taken = rig.port->ops->transmit(rig.port, frames, count);
	for (unsigned i = taken; i < count; i++)
		xk_msg_free(frames[i]);
	return taken;
}

/* Frees the frames that the port has sent. Returns their number. */
static unsigned
take_all(void)
{
	unsigned count = 0;
	struct xk_msg *m;

	for (; (m = xk_memory_take(rig.port)) != NULL; count++)
		xk_msg_free(m);
	return count;
}

CAPTURE_TEST(a_ports_frames_are_captured_in_both_directions, XK_MEMORY_VIRTUAL)
{
	static const char *const out[] = { "one", "two" };

	receive("zero");
	xk_memory_advance(rig.platform, 1500);
	CHECK_EQ(transmit(out, 2), 2);
	CHECK_EQ(take_all(), 2);
	xk_memory_advance(rig.platform, UINT64_C(5000000000));
	receive("three");
	end();
	CHECK_EQ(rig.reader.interface_count, 1);
	CHECK_STR(rig.reader.interfaces[0].name, "host.port");
	CHECK_STR(rig.reader.interfaces[0].description, "port");
	CHECK_EQ(rig.reader.interfaces[0].link_type, 1);
	CHECK_EQ(rig.reader.interfaces[0].seen, 4);
	CHECK_EQ(rig.reader.interfaces[0].dropped, 0);
	CHECK_EQ(rig.reader.packet_count, 4);
	expect_packet(0, 0, PCAPNG_IN, 0, "zero");
	expect_packet(1, 0, PCAPNG_OUT, 1500, "one");
	expect_packet(2, 0, PCAPNG_OUT, 1500, "two");
	expect_packet(3, 0, PCAPNG_IN, UINT64_C(5000001500), "three");
}

CAPTURE_TEST(frames_refused_by_the_device_are_not_captured, XK_MEMORY_VIRTUAL)
{
	static const char *const out[] = { "one", "two", "three", "four" };

	xk_memory_transmit_limit(rig.port, 2);
	CHECK_EQ(transmit(out, 4), 2);
	CHECK_EQ(transmit(out + 2, 2), 0);
	CHECK_EQ(take_all(), 2);
	CHECK_EQ(transmit(out + 2, 2), 2);
	CHECK_EQ(take_all(), 2);
	end();
	CHECK_EQ(rig.reader.packet_count, 4);
	for (unsigned i = 0; i < 4; i++)
		expect_packet(i, 0, PCAPNG_OUT, 0, out[i]);
	CHECK_EQ(rig.reader.interfaces[0].seen, 4);
}

/* Sends several times as many as are copied at a time. */
CAPTURE_TEST(long_burst_is_sent_and_captured_whole, XK_MEMORY_VIRTUAL)
{
	struct xk_msg *frames[200];
	char text[16];

	xk_memory_transmit_limit(rig.port, 150);
	for (unsigned i = 0; i < 200; i++) {
		snprintf(text, sizeof(text), "frame %u", i);
		frames[i] = message(text);
	}
	CHECK_EQ(rig.port->ops->transmit(rig.port, frames, 200), 150);
	CHECK_EQ(take_all(), 150);
	CHECK_EQ(rig.port->ops->transmit(rig.port, frames + 150, 50), 50);
	CHECK_EQ(take_all(), 50);
	end();
	CHECK_EQ(rig.reader.packet_count, 200);
	for (unsigned i = 0; i < 200; i++) {
		snprintf(text, sizeof(text), "frame %u", i);
		expect_packet(i, 0, PCAPNG_OUT, 0, text);
	}
}

CAPTURE_TEST(frames_in_pieces_are_captured_whole, XK_MEMORY_VIRTUAL)
{
	struct xk_msg *frame;

	frame = message("head ");
	xk_msg_join(frame, message("body "));
	xk_msg_join(frame, message(""));
	xk_msg_join(frame, message("tail"));
	CHECK_EQ(rig.port->ops->transmit(rig.port, &frame, 1), 1);
	CHECK_EQ(take_all(), 1);
	end();
	CHECK_EQ(rig.reader.packet_count, 1);
	expect_packet(0, 0, PCAPNG_OUT, 0, "head body tail");
}

CAPTURE_TEST(frames_without_a_receiver_have_a_comment, XK_MEMORY_VIRTUAL)
{
	receive("lost");
	rig.port->receiver = (struct xk_session *)&rig; /* never dereferenced */
	receive("heard");
	end();
	CHECK_EQ(rig.reader.packet_count, 2);
	CHECK_STR(rig.reader.packets[0].comment, "no_session");
	CHECK_STR(rig.reader.packets[1].comment, "");
}

CAPTURE_TEST(ports_are_interfaces_and_same_names_share_one, XK_MEMORY_VIRTUAL)
{
	struct xk_port *other, *same;
	struct xk_msg *frame;

	other = add_port("port2");
	same = add_port("port");
	CHECK(xk_memory_inject(other, message("other")));
	CHECK_EQ(other->ops->receive(other, &frame, 1), 1);
	xk_msg_free(frame);
	CHECK(xk_memory_inject(same, message("same")));
	CHECK_EQ(same->ops->receive(same, &frame, 1), 1);
	xk_msg_free(frame);
	close_port(other);
	close_port(same);
	end();
	CHECK_EQ(rig.reader.interface_count, 2);
	CHECK_STR(rig.reader.interfaces[1].name, "host.port2");
	expect_packet(0, 1, PCAPNG_IN, 0, "other");
	expect_packet(1, 0, PCAPNG_IN, 0, "same");
}

TEST(port_works_after_the_capture_has_ended)
{
	const struct xk_port_ops *ops;
	struct xk_port *port;
	struct xk_msg *frame = NULL;

	begin(XK_MEMORY_VIRTUAL);
	port = xk_memory_port_new(rig.platform, "longer", 1, MTU);
	REQUIRE(port != NULL);
	ops = port->ops;
	CHECK_EQ(capture_port(rig.capture, port, "longer"), 0);
	CHECK(port->ops != ops);
	CHECK(port->ops->arm == ops->arm && port->ops->disarm == ops->disarm);
	close_port(rig.port);
	CHECK_EQ(capture_close(rig.capture), 0);
	CHECK(port->ops == ops);
	CHECK(xk_memory_inject(port, message("later")));
	CHECK_EQ(port->ops->receive(port, &frame, 1), 1);
	xk_msg_free(frame);
	close_port(port);
	xk_memory_platform_free(rig.platform);
	unlink(rig.path);
}

/* ---- taps ---- */

static void
see(unsigned place, enum xk_direction direction, const char *text)
{
	struct xk_capture *sink = capture_sink(rig.capture);
	struct xk_msg *m = message(text);

	sink->ops->see(sink, place, direction, m);
	xk_msg_free(m);
}

CAPTURE_TEST(taps_are_interfaces_of_their_own_kind, XK_MEMORY_VIRTUAL)
{
	struct xk_capture *sink;

	sink = capture_sink(rig.capture);
	CHECK_EQ(sink->ops->add(sink, "packets", XK_CAPTURE_IPV4), 0);
	CHECK_EQ(sink->ops->add(sink, "messages", XK_CAPTURE_USER0), 1);
	see(1, XK_DOWN, "one");
	see(0, XK_DOWN, "header one");
	see(0, XK_UP, "header two");
	end();
	CHECK_EQ(rig.reader.interface_count, 3);
	CHECK_STR(rig.reader.interfaces[1].name, "host.packets");
	CHECK_EQ(rig.reader.interfaces[1].link_type, 228);
	CHECK_STR(rig.reader.interfaces[2].name, "host.messages");
	CHECK_EQ(rig.reader.interfaces[2].link_type, 147);
	CHECK_EQ(rig.reader.interfaces[0].seen, 0);
	CHECK_EQ(rig.reader.interfaces[1].seen, 2);
	CHECK_EQ(rig.reader.interfaces[2].seen, 1);
	expect_packet(0, 2, PCAPNG_OUT, 0, "one");
	expect_packet(1, 1, PCAPNG_OUT, 0, "header one");
	expect_packet(2, 1, PCAPNG_IN, 0, "header two");
}

CAPTURE_TEST(number_of_taps_is_limited, XK_MEMORY_VIRTUAL)
{
	struct xk_capture *sink;
	int place = 0;

	sink = capture_sink(rig.capture);
	for (int i = 0; place >= 0; i++) {
		place = sink->ops->add(sink, "tap", XK_CAPTURE_USER0);
		CHECK(place == i || place == -ENOSPC);
		REQUIRE(i < 1000);
	}
	CHECK_EQ(place, -ENOSPC);
	end();
	CHECK_EQ(rig.reader.interface_count, 2);
}

/* ---- the ring ---- */

/* Varied lengths, some beyond the capture's limit; the bytes identify the frame. */
static size_t
odd_len(unsigned i)
{
	return i % 97 == 96 ? PCAPNG_FRAME_MAX + 3 : (i * 2654435761u) % 30011;
}

CAPTURE_TEST(ring_wraps_many_times, XK_MEMORY_VIRTUAL)
{
	enum { FRAMES = 3000 };

	struct xk_capture *sink;

	sink = capture_sink(rig.capture);
	CHECK_EQ(sink->ops->add(sink, "tap", XK_CAPTURE_USER0), 0);
	for (unsigned i = 0; i < FRAMES; i++) {
		struct xk_msg *m = xk_memory_frame(rig.platform, odd_len(i));

		REQUIRE(m != NULL);
		memset(m->data, (int)(i % 251), m->len);
		sink->ops->see(sink, 0, XK_UP, m);
		xk_msg_free(m);
	}
	end();
	CHECK_EQ(rig.reader.packet_count, FRAMES);
	CHECK(rig.reader.len > (size_t)2 * CAPTURE_RING);
	for (unsigned i = 0; i < rig.reader.packet_count; i++) {
		const struct reader_packet *packet = &rig.reader.packets[i];
		size_t len = odd_len(i);

		if (packet->len != len || packet->kept != (len < PCAPNG_FRAME_MAX ? len : PCAPNG_FRAME_MAX) ||
		    (len > 0 && (packet->bytes[0] != i % 251 || packet->bytes[packet->kept - 1] != i % 251))) {
			CHECK_EQ(i, -1);
			break;
		}
	}
}

/* ---- files that fail ---- */

TEST_OF(unwritable_file_is_refused, CHECK(capture_open("test", "/nowhere/at/all", "host") == NULL));

TEST_WITH(null_capture_does_nothing, struct xk_platform *platform, xk_memory_platform_new(XK_MEMORY_VIRTUAL),
	  xk_memory_platform_free)
{
	struct xk_port *port = xk_memory_port_new(platform, "port", 1, MTU);
	const struct xk_port_ops *ops = port->ops;

	CHECK_EQ(capture_start(NULL, platform), 0);
	CHECK_EQ(capture_port(NULL, port, "port"), 0);
	CHECK(port->ops == ops);
	CHECK(capture_sink(NULL) == NULL);
	CHECK_EQ(capture_close(NULL), 0);
	close_port(port);
}

TEST(a_capture_that_never_started_is_empty)
{
	make_path();
	rig.capture = capture_open("test", rig.path, "host");
	REQUIRE(rig.capture != NULL);
	CHECK_EQ(capture_close(rig.capture), 0);
	reader_read(&rig.reader, rig.path);
	CHECK_EQ(rig.reader.interface_count, 0);
	reader_free(&rig.reader);
	unlink(rig.path);
}

static void
end_failing(void)
{
	close_port(rig.port);
	CHECK_EQ(capture_close(rig.capture), OPTIONS_FAILURE);
	xk_memory_platform_free(rig.platform);
}

TEST(full_disk_is_reported_at_the_end_and_blocks_nothing)
{
	static const enum xk_memory_clock clocks[] = { XK_MEMORY_VIRTUAL, XK_MEMORY_REAL };

	for (unsigned c = 0; c < 2; c++) {
		snprintf(rig.path, sizeof(rig.path), "/dev/full");
		begin_at(clocks[c]);
		for (unsigned i = 0; i < 3000; i++)
			receive("a frame that goes nowhere");
		end_failing();
	}
}
