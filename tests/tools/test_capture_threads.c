/* test_capture_threads.c - captures with a writer thread: nothing waits for the file, and losses are reported. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/tools/capture_rig.h"

static uint64_t
real_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

CAPTURE_TEST(timestamps_are_wall_clock_times, XK_MEMORY_REAL)
{
	uint64_t before_ns = real_ns(), second_ns = 1000000000;

	receive("now");
	end();
	REQUIRE(rig.reader.packet_count == 1);
	CHECK(rig.reader.packets[0].at_ns >= before_ns - second_ns);
	CHECK(rig.reader.packets[0].at_ns <= real_ns() + second_ns);
}

static size_t
file_size(void)
{
	struct stat stat_of;

	return stat(rig.path, &stat_of) == 0 ? (size_t)stat_of.st_size : 0;
}

/* A killed program leaves a readable file behind. */
CAPTURE_TEST(file_is_readable_before_the_end, XK_MEMORY_REAL)
{
	enum { TRIES = 3000 };

	size_t empty, before;

	for (unsigned i = 0; i < TRIES && file_size() == 0; i++)
		usleep(10000);
	empty = file_size();
	CHECK(empty > 0);
	for (unsigned frame = 0; frame < 3; frame++) {
		before = file_size();
		receive("a frame");
		for (unsigned i = 0; i < TRIES && file_size() == before; i++)
			usleep(10000);
		reader_read(&rig.reader, rig.path);
		CHECK_EQ(rig.reader.packet_count, frame + 1);
		reader_free(&rig.reader);
	}
	end();
	CHECK_EQ(rig.reader.packet_count, 3);
}

/* Reads a pipe to its end. */
struct drain {
	int fd;
	uint8_t *bytes;
	size_t len;
};

static void *
drain_run(void *argument)
{
	struct drain *drain = argument;
	size_t room = (size_t)2 * CAPTURE_RING;
	ssize_t got = 1;

	drain->bytes = malloc(room);
	while (drain->bytes != NULL && got > 0 && drain->len < room) {
		got = read(drain->fd, drain->bytes + drain->len, room - drain->len);
		drain->len += got > 0 ? (size_t)got : 0;
	}
	return NULL;
}

/* A stalled disk: the ring fills, the receiver continues, and losses are reported. */
TEST(frames_lost_to_a_slow_disk_are_counted)
{
	enum { FRAMES = 20000, LEN = 1500 };

	static char text[LEN + 1];
	struct drain drain = { .fd = -1 };
	pthread_t thread;
	const struct reader_interface *interface;

	make_path();
	unlink(rig.path);
	REQUIRE(mkfifo(rig.path, 0600) == 0);
	drain.fd = open(rig.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	REQUIRE(drain.fd >= 0);
	begin_at(XK_MEMORY_REAL);
	memset(text, 'x', LEN);
	for (unsigned i = 0; i < FRAMES; i++)
		receive(text);
	REQUIRE(fcntl(drain.fd, F_SETFL, 0) == 0);
	REQUIRE(pthread_create(&thread, NULL, drain_run, &drain) == 0);
	close_port(rig.port);
	CHECK_EQ(capture_close(rig.capture), 0);
	pthread_join(thread, NULL);
	close(drain.fd);
	xk_memory_platform_free(rig.platform);
	unlink(rig.path);
	reader_take(&rig.reader, drain.bytes, drain.len);
	interface = &rig.reader.interfaces[0];
	CHECK_EQ(interface->seen, FRAMES);
	CHECK(interface->dropped > 0);
	CHECK_EQ(rig.reader.packet_count, FRAMES - interface->dropped);
	CHECK(rig.reader.packet_count * LEN > CAPTURE_RING / 2);
	reader_free(&rig.reader);
}

/* Two ports that send and receive at once, and taps shared by several threads. */
enum { MANY = 4000, SEERS = 3 };

struct worker {
	struct xk_port *port;
	unsigned number;
	bool sends;
};

static struct xk_msg *
worker_message(const struct worker *worker, unsigned i)
{
	char text[32];

	snprintf(text, sizeof(text), "%u %u", worker->number, i);
	return message(text);
}

static void
worker_send(struct worker *worker, unsigned i)
{
	struct xk_msg *frame = worker_message(worker, i);

	while (worker->port->ops->transmit(worker->port, &frame, 1) == 0)
		sched_yield();
}

static void
worker_receive(struct worker *worker)
{
	struct xk_msg *frames[4];
	unsigned count = worker->port->ops->receive(worker->port, frames, 4);

	for (unsigned i = 0; i < count; i++)
		xk_msg_free(frames[i]);
}

static void *
worker_run(void *argument)
{
	struct worker *worker = argument;
	struct xk_capture *sink = capture_sink(rig.capture);

	for (unsigned i = 0; i < MANY; i++) {
		struct xk_msg *m = NULL;

		if (worker->port != NULL && worker->sends) {
			worker_send(worker, i);
		} else if (worker->port != NULL) {
			worker_receive(worker);
		} else {
			m = worker_message(worker, i);
			sink->ops->see(sink, 0, XK_UP, m);
			xk_msg_free(m);
		}
	}
	return NULL;
}

/* Checks that all messages of each worker are in the file, in their order. */
static void
check_workers(unsigned workers)
{
	unsigned next[16] = { 0 };
	size_t received = 0;

	for (size_t i = 0; i < rig.reader.packet_count; i++) {
		const struct reader_packet *packet = &rig.reader.packets[i];
		unsigned worker = 0, number = 0;
		char text[32];

		if (packet->direction == PCAPNG_IN && packet->interface != 2) {
			received++;
			continue;
		}
		snprintf(text, sizeof(text), "%.*s", (int)packet->kept, (const char *)packet->bytes);
		REQUIRE(sscanf(text, "%u %u", &worker, &number) == 2 && worker < workers);
		if (number != next[worker])
			CHECK_EQ(number, next[worker]);
		next[worker] = number + 1;
	}
	for (unsigned i = 0; i < workers; i++)
		CHECK(next[i] == MANY || next[i] == 0);
	CHECK(received > 0 && received <= (size_t)PORTS * MANY);
}

CAPTURE_TEST(many_threads_are_captured_at_once, XK_MEMORY_REAL)
{
	struct worker workers[2 * PORTS + SEERS];
	pthread_t threads[XK_ARRAY_LENGTH(workers)];
	struct xk_port *other;
	struct xk_capture *sink;

	other = add_port("port2");
	REQUIRE(xk_memory_connect(rig.port, other) == 0);
	sink = capture_sink(rig.capture);
	CHECK_EQ(sink->ops->add(sink, "tap", XK_CAPTURE_USER0), 0);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(workers); i++) {
		workers[i] = (struct worker){ .number = i, .sends = i < PORTS };
		if (i < 2 * PORTS)
			workers[i].port = i % 2 == 0 ? rig.port : other;
		REQUIRE(pthread_create(&threads[i], NULL, worker_run, &workers[i]) == 0);
	}
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(workers); i++)
		pthread_join(threads[i], NULL);
	worker_receive(&workers[0]);
	close_port(other);
	end();
	CHECK_EQ(rig.reader.interface_count, 3);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(rig.reader.interfaces[i].dropped, 0);
	CHECK_EQ(rig.reader.interfaces[2].seen, SEERS * MANY);
	check_workers(XK_ARRAY_LENGTH(workers));
}
