/* capture_rig.h - for tests of captures: a capture, a captured port, and the resulting file's contents. */
#ifndef TESTS_CAPTURE_RIG_H
#define TESTS_CAPTURE_RIG_H

#include <unistd.h>

#include "platform/sim/memory.h"
#include "tests/tools/pcapng_reader.h"
#include "tools/capture/capture_file.h"
#include "tools/capture/pcapng.h"

enum { MTU = 1500, PORTS = 2 };

static struct {
	char path[64];
	struct xk_platform *platform;
	struct capture *capture;
	struct xk_port *port;
	struct reader reader;
} rig;

static inline void
make_path(void)
{
	int fd;

	snprintf(rig.path, sizeof(rig.path), "/tmp/test_capture.XXXXXX");
	fd = mkstemp(rig.path);
	REQUIRE(fd >= 0);
	close(fd);
}

static inline struct xk_port *
add_port(const char *name)
{
	struct xk_port *port = xk_memory_port_new(rig.platform, name, 0x020000000001, MTU);

	REQUIRE(port != NULL);
	CHECK_EQ(capture_port(rig.capture, port, name), 0);
	return port;
}

static inline void
begin_at(enum xk_memory_clock clock)
{
	rig.platform = xk_memory_platform_new(clock);
	REQUIRE(rig.platform != NULL);
	rig.capture = capture_open("test", rig.path, "host");
	REQUIRE(rig.capture != NULL);
	CHECK_EQ(capture_start(rig.capture, rig.platform), 0);
	rig.port = add_port("port");
}

static inline void
begin(enum xk_memory_clock clock)
{
	make_path();
	begin_at(clock);
}

static inline void
close_port(struct xk_port *port)
{
	port->ops->close(port);
}

/* Closes the port first, as a kernel does. */
static inline void
end(void)
{
	close_port(rig.port);
	CHECK_EQ(capture_close(rig.capture), 0);
	reader_read(&rig.reader, rig.path);
	CHECK_EQ(rig.platform->ops->buffers_out(rig.platform), 0);
	xk_memory_platform_free(rig.platform);
	unlink(rig.path);
}

/* A test of a started capture. The test ends it; its file's contents are freed afterwards. */
#define CAPTURE_TEST(name, clock)                                                                                      \
	static void name##_of_capture(void);                                                                           \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		begin(clock);                                                                                          \
		name##_of_capture();                                                                                   \
		reader_free(&rig.reader);                                                                              \
	}                                                                                                              \
	static void name##_of_capture(void)

static inline struct xk_msg *
message(const char *text)
{
	struct xk_msg *m = xk_msg_from(rig.platform, text, strlen(text));

	REQUIRE(m != NULL);
	return m;
}

/* Lets text arrive and receives it, as the driver does. */
static inline void
receive(const char *text)
{
	struct xk_msg *frame = NULL;

	CHECK(xk_memory_inject(rig.port, message(text)));
	CHECK_EQ(rig.port->ops->receive(rig.port, &frame, 1), 1);
	CHECK_EQ(rig.port->ops->receive(rig.port, &frame + 1, 0), 0);
	CHECK_EQ(xk_msg_len(frame), strlen(text));
	xk_msg_free(frame);
}

static inline void
expect_packet(size_t i, unsigned interface, unsigned direction, uint64_t at_ns, const char *text)
{
	const struct reader_packet *packet = &rig.reader.packets[i];

	REQUIRE(i < rig.reader.packet_count);
	CHECK_EQ(packet->interface, interface);
	CHECK_EQ(packet->direction, direction);
	CHECK_EQ(packet->at_ns, at_ns);
	CHECK_EQ(packet->len, strlen(text));
	CHECK_EQ(packet->kept, strlen(text));
	CHECK(memcmp(packet->bytes, text, packet->kept) == 0);
}

#endif
