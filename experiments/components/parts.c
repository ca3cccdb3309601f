/*
 * parts.c - the parts of a round trip between two hosts, each by itself: what a frame's way through memory or through Linux's
 * network takes where nobody sleeps, signalling an eventfd, waking a thread by it.
 *
 * Prints each of several blocks' average for one way, in nanoseconds. parts.py adds them up.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/clock.h"
#include "tools/json.h"
#include "tools/machine.h"
#include "tools/options.h"
#include "xkernel/base.h"
#include "xkernel/bytes.h"
#include "xkernel/checksum.h"

enum {
	PARTS_BLOCKS = 11,
	PARTS_FRAME_MIN = ETH_HLEN + 4, /* with its number */
	PARTS_FRAME_MAX = 1514,
	PARTS_TYPE = 0x88b5, /* IEEE 802: for experiments */
	PARTS_PATIENCE_NS = 1000000000,
	PARTS_TRIES = 500, /* of the first frame: an interface takes a while to come up */
	PARTS_TRY_NS = 10000000,
};

enum parts_kind { PARTS_MEMORY, PARTS_BELL, PARTS_WAKE, PARTS_PACKET, PARTS_TAP };
static const char *const parts_kinds[] = { "memory", "bell", "wake", "packet", "tap", NULL };

struct parts_options {
	unsigned kind;
	struct options_numbers cores;
	uint64_t size, rounds;
	const char *from, *to;
	bool json;
};

static const struct options_option parts_options[] = {
	{ "kind", OPTIONS_CHOICE, offsetof(struct parts_options, kind), "KIND",
	  "memory: one core copies a frame into shared memory, and the other reads it; both spin (memory)\n"
	  "bell: eventfd, with nobody listening\n"
	  "wake: eventfd, from its ringing until a thread that slept on it runs\n"
	  "packet: from one packet socket to the other, through Linux, by one thread that spins\n"
	  "tap: from one tap interface to the other, likewise",
	  0, 0, parts_kinds },
	{ "cores", OPTIONS_NUMBERS, offsetof(struct parts_options, cores), "A,B", "of the two ends (0,1)", 0, 1023,
	  NULL },
	{ "size", OPTIONS_NUMBER, offsetof(struct parts_options, size), "N", "bytes of a frame (60)", PARTS_FRAME_MIN,
	  PARTS_FRAME_MAX, NULL },
	{ "rounds", OPTIONS_NUMBER, offsetof(struct parts_options, rounds), "N", "repetitions in a block (10000)", 1,
	  10000000, NULL },
	{ "from", OPTIONS_TEXT, offsetof(struct parts_options, from), "NAME", "the interface that sends", 0, 0, NULL },
	{ "to", OPTIONS_TEXT, offsetof(struct parts_options, to), "NAME", "the interface that receives", 0, 0, NULL },
	{ "json", OPTIONS_FLAG, offsetof(struct parts_options, json), NULL, "JSON on standard output", 0, 0, NULL },
	{ .name = NULL },
};

static const struct options_program parts_program = {
	.name = "parts",
	.usage = "--kind KIND [OPTION]...",
	.about = "Measures a part of a round trip between two hosts by itself.",
	.options = parts_options,
};

/* Reports errno. advice: what to do, or "". */
static int
parts_fail(const char *what, const char *advice)
{
	fprintf(stderr, "parts: %s: %s%s\n", what, xk_error(errno), advice);
	return -1;
}

/* ---- memory ---- */

/* A slot for a frame in each direction. The number of the frame that is in it is written last. */
struct parts_slot {
	_Alignas(64) _Atomic uint64_t number;
	_Alignas(64) uint8_t bytes[PARTS_FRAME_MAX];
};

struct parts_memory {
	const struct parts_options *options;
	struct parts_slot slots[2];
	uint8_t frame[PARTS_FRAME_MAX];
	_Atomic uint64_t sum; /* of all that was read: keeps the compiler from dropping the reads */
	_Atomic bool failed;
};

static void
parts_put(struct parts_memory *memory, unsigned end, uint64_t number)
{
	struct parts_slot *slot = &memory->slots[end];

	memcpy(slot->bytes, memory->frame, memory->options->size);
	atomic_store_explicit(&slot->number, number, memory_order_release);
}

/* Reads the frame that the other end puts, and adds it to *sum. Returns false if that end has failed. */
static bool
parts_take(struct parts_memory *memory, unsigned end, uint64_t number, uint64_t *sum)
{
	struct parts_slot *slot = &memory->slots[!end];

	while (atomic_load_explicit(&slot->number, memory_order_acquire) != number)
		if (atomic_load_explicit(&memory->failed, memory_order_relaxed))
			return false;
	*sum += xk_sum(0, slot->bytes, memory->options->size);
	return true;
}

/* Moves this thread to core. Returns false after a message if it may not run there. */
static bool
parts_pin(uint64_t core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	errno = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	return errno == 0 ||
	       parts_fail("a core of --cores", ": name others (`taskset -p $$` tells which this process may use)") == 0;
}

static void *
parts_answer(void *argument)
{
	struct parts_memory *memory = argument;
	uint64_t count = PARTS_BLOCKS * memory->options->rounds, sum = 0;

	if (!parts_pin(memory->options->cores.value[1]))
		atomic_store(&memory->failed, true);
	for (uint64_t i = 1; i <= count && parts_take(memory, 1, i, &sum); i++)
		parts_put(memory, 1, i);
	atomic_fetch_add(&memory->sum, sum);
	return NULL;
}

static int
parts_memory(const struct parts_options *o, double *ns)
{
	static struct parts_memory memory;
	uint64_t number = 0, sum = 0;
	pthread_t answerer;

	memory.options = o;
	if (!parts_pin(o->cores.value[0]))
		return -1;
	errno = pthread_create(&answerer, NULL, parts_answer, &memory);
	if (errno != 0)
		return parts_fail("a second thread", "");
	for (unsigned block = 0; block < PARTS_BLOCKS; block++) {
		uint64_t begun_ns = clock_system_ns();

		for (uint64_t i = 0; i < o->rounds; i++) {
			parts_put(&memory, 0, ++number);
			if (!parts_take(&memory, 0, number, &sum))
				break;
		}
		ns[block] = (double)(clock_system_ns() - begun_ns) / (double)(2 * o->rounds);
	}
	pthread_join(answerer, NULL);
	atomic_fetch_add(&memory.sum, sum);
	return atomic_load(&memory.failed) ? -1 : 0;
}

/* ---- bells and sleepers ---- */

static int
parts_bell(const struct parts_options *o, double *ns)
{
	static const uint64_t one = 1;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return parts_fail("an eventfd", "");
	if (!parts_pin(o->cores.value[0]))
		return -1;
	for (unsigned block = 0; block < PARTS_BLOCKS; block++) {
		uint64_t begun_ns = clock_system_ns();

		for (uint64_t i = 0; i < o->rounds; i++)
			if (write(fd, &one, sizeof(one)) != sizeof(one))
				return parts_fail("an eventfd", "");
		ns[block] = (double)(clock_system_ns() - begun_ns) / (double)o->rounds;
	}
	close(fd);
	return 0;
}

/* Two threads that ring each other's bells, and sleep as drivers do. */
struct parts_sleepers {
	const struct parts_options *options;
	int bells[2], sleeps[2]; /* eventfds, and the epolls that have them */
	_Atomic bool failed;
};

static bool
parts_ring(const struct parts_sleepers *sleepers, unsigned end)
{
	static const uint64_t one = 1;

	return write(sleepers->bells[end], &one, sizeof(one)) == sizeof(one);
}

static bool
parts_sleep(const struct parts_sleepers *sleepers, unsigned end)
{
	struct epoll_event event;
	int count;

	do
		count = epoll_wait(sleepers->sleeps[end], &event, 1, -1);
	while (count < 0 && errno == EINTR);
	return count == 1;
}

static void *
parts_ring_back(void *argument)
{
	struct parts_sleepers *sleepers = argument;
	uint64_t count = PARTS_BLOCKS * sleepers->options->rounds;

	if (!parts_pin(sleepers->options->cores.value[1]))
		atomic_store(&sleepers->failed, true);
	for (uint64_t i = 0; i < count && parts_sleep(sleepers, 1) && parts_ring(sleepers, 0); i++)
		continue;
	return NULL;
}

static int
parts_wake(const struct parts_options *o, double *ns)
{
	struct parts_sleepers sleepers = { .options = o };
	pthread_t other;

	for (unsigned i = 0; i < 2; i++) {
		/* Each ring ends a sleep; so nobody reads the eventfds. */
		struct epoll_event rung = { .events = EPOLLIN | EPOLLET };

		sleepers.bells[i] = eventfd(0, EFD_CLOEXEC);
		sleepers.sleeps[i] = epoll_create1(EPOLL_CLOEXEC);
		if (sleepers.bells[i] < 0 || sleepers.sleeps[i] < 0 ||
		    epoll_ctl(sleepers.sleeps[i], EPOLL_CTL_ADD, sleepers.bells[i], &rung) != 0)
			return parts_fail("an eventfd", "");
	}
	if (!parts_pin(o->cores.value[0]))
		return -1;
	errno = pthread_create(&other, NULL, parts_ring_back, &sleepers);
	if (errno != 0)
		return parts_fail("a second thread", "");
	for (unsigned block = 0; block < PARTS_BLOCKS; block++) {
		uint64_t begun_ns = clock_system_ns();

		for (uint64_t i = 0; i < o->rounds; i++)
			if (!parts_ring(&sleepers, 1) || !parts_sleep(&sleepers, 0))
				return parts_fail("an eventfd", "");
		ns[block] = (double)(clock_system_ns() - begun_ns) / (double)(2 * o->rounds);
	}
	pthread_join(other, NULL);
	return atomic_load(&sleepers.failed) ? -1 : 0;
}

/* ---- through Linux ---- */

static int
parts_open_packet(const char *name)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(PARTS_TYPE) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(PARTS_TYPE));

	address.sll_ifindex = (int)if_nametoindex(name);
	if (fd < 0 || address.sll_ifindex == 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		parts_fail(name, ": --from and --to name interfaces; packet sockets take root");
		return -1;
	}
	return fd;
}

static int
parts_open_tap(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) {
		parts_fail(name, ": --from and --to name taps that nobody uses; /dev/net/tun takes root");
		return -1;
	}
	return fd;
}

/* Sends the frame on one interface and takes it from the other. Skips other frames there, also of former numbers. */
static bool
parts_carry(int from, int to, uint8_t *frame, size_t size, uint32_t number, uint64_t patience_ns)
{
	uint64_t until_ns = clock_system_ns() + patience_ns;
	uint8_t arrived[PARTS_FRAME_MAX];
	ssize_t len;

	xk_put32(frame + ETH_HLEN, number);
	if (write(from, frame, size) != (ssize_t)size)
		return false;
	do {
		len = read(to, arrived, sizeof(arrived));
		if (len >= PARTS_FRAME_MIN && xk_get16(arrived + 12) == PARTS_TYPE &&
		    xk_get32(arrived + ETH_HLEN) == number)
			return true;
	} while ((len >= 0 || errno == EAGAIN) && clock_system_ns() < until_ns);
	if (len >= 0 || errno == EAGAIN)
		errno = ETIMEDOUT;
	return false;
}

static int
parts_linux(const struct parts_options *o, double *ns)
{
	bool tap = o->kind == PARTS_TAP;
	int from = tap ? parts_open_tap(o->from) : parts_open_packet(o->from);
	int to = from < 0 ? -1 : tap ? parts_open_tap(o->to) : parts_open_packet(o->to);
	uint8_t frame[PARTS_FRAME_MAX] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0, 0, 0, 0, 1 };
	uint32_t number = 0;

	if (from < 0 || to < 0)
		return -1;
	if (!parts_pin(o->cores.value[0]))
		return -1;
	xk_put16(frame + 12, PARTS_TYPE);
	for (unsigned i = 0; i < PARTS_TRIES && !parts_carry(from, to, frame, o->size, number++, PARTS_TRY_NS); i++)
		usleep(PARTS_TRY_NS / 1000);
	for (unsigned block = 0; block < PARTS_BLOCKS; block++) {
		uint64_t begun_ns = clock_system_ns();

		for (uint64_t i = 0; i < o->rounds; i++)
			if (!parts_carry(from, to, frame, o->size, number++, PARTS_PATIENCE_NS))
				return parts_fail("a frame did not arrive at --to",
						  ": are both interfaces up, and on one cable?");
		ns[block] = (double)(clock_system_ns() - begun_ns) / (double)o->rounds;
	}
	close(from);
	close(to);
	return 0;
}

/* ---- the program ---- */

static int (*const parts_measure[])(const struct parts_options *o, double *ns) = {
	[PARTS_MEMORY] = parts_memory, [PARTS_BELL] = parts_bell, [PARTS_WAKE] = parts_wake,
	[PARTS_PACKET] = parts_linux,  [PARTS_TAP] = parts_linux,
};

int
main(int argc, char **argv)
{
	struct parts_options o = { .cores = { .count = 2, .value = { 0, 1 } }, .size = 60, .rounds = 10000 };
	struct options_texts operands;
	double ns[PARTS_BLOCKS];
	struct json json;
	int status = options_parse(&parts_program, argc, argv, &o, &operands);

	if (status != OPTIONS_GO)
		return status;
	if (o.cores.count != 2 || !machine_has_core((unsigned)o.cores.value[0]) ||
	    !machine_has_core((unsigned)o.cores.value[1]))
		return options_misuse(&parts_program, "--cores takes two that this program may use");
	if (o.kind == PARTS_MEMORY && o.cores.value[0] == o.cores.value[1])
		return options_misuse(&parts_program, "--kind memory needs two cores");
	if (o.kind >= PARTS_PACKET && (o.from == NULL || o.to == NULL))
		return options_misuse(&parts_program, "--kind %s needs --from and --to", parts_kinds[o.kind]);
	if (parts_measure[o.kind](&o, ns) != 0)
		return OPTIONS_FAILURE;
	if (!o.json) {
		for (unsigned block = 0; block < PARTS_BLOCKS; block++)
			printf("%.1f ns\n", ns[block]);
		return OPTIONS_SUCCESS;
	}
	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_string(&json, "kind", parts_kinds[o.kind]);
	json_array(&json, "ns");
	for (unsigned block = 0; block < PARTS_BLOCKS; block++)
		json_double(&json, NULL, ns[block]);
	json_close(&json);
	json_close(&json);
	return json_end(&json) ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}
