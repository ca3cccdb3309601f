/*
 * parts.c - measures the parts of a round trip between two hosts, each alone: moving a frame through memory or through
 * Linux's network while both ends spin, signalling an eventfd, and waking a thread with it.
 *
 * Prints the median of each of several blocks for one direction, in nanoseconds. Medians, because the round trips that
 * parts.py compares with the sum are medians; a mean would include the time of other programs.
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
#include <sys/mman.h>
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
	PARTS_FRAME_MIN = ETH_HLEN + 4, /* Ethernet header and number */
	PARTS_FRAME_MAX = 1514,
	PARTS_TYPE = 0x88b5, /* IEEE 802: for experiments */
	PARTS_PATIENCE_NS = 1000000000,
	PARTS_TRIES = 500, /* attempts to send the first frame: an interface needs time to come up */
	PARTS_TRY_NS = 10000000,
	PARTS_RING_FRAME = 2048,
	PARTS_RING_FRAMES = 512,
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
	OPTION(CHOICE, struct parts_options, kind, "kind", "KIND",
	       "memory: one core copies a frame into shared memory, and the other reads it; both spin (memory)\n"
	       "bell: signalling an eventfd on which no thread waits\n"
	       "wake: from signalling an eventfd until a thread that slept on it runs\n"
	       "packet: from one packet socket to the other's ring, through Linux; both ends spin\n"
	       "tap: from one tap interface to the other, likewise",
	       .choices = parts_kinds),
	OPTION(NUMBERS, struct parts_options, cores, "cores", "A,B", "cores of the two ends (0,1)", .max = 1023),
	OPTION(NUMBER, struct parts_options, size, "size", "N", "bytes of a frame (60)", .min = PARTS_FRAME_MIN,
	       .max = PARTS_FRAME_MAX),
	OPTION(NUMBER, struct parts_options, rounds, "rounds", "N", "repetitions in a block (10000)", .min = 1,
	       .max = 10000000),
	OPTION(TEXT, struct parts_options, from, "from", "NAME", "the interface that sends"),
	OPTION(TEXT, struct parts_options, to, "to", "NAME", "the interface that receives"),
	OPTION(FLAG, struct parts_options, json, "json", NULL, "JSON on standard output"),
	{ .name = NULL },
};

static const struct options_program parts_program = {
	.name = "parts",
	.usage = "--kind KIND [OPTION]...",
	.about = "Measures one part of a round trip between two hosts alone.",
	.options = parts_options,
};

/* Prints errno. advice: a remedy, or "". */
static int
parts_fail(const char *what, const char *advice)
{
	fprintf(stderr, "parts: %s: %s%s\n", what, xk_error(errno), advice);
	return -1;
}

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

/* ---- blocks ---- */

static int
parts_compare(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return a < b ? -1 : a > b;
}

/*
 * Times once(context) in blocks, with one clock reading per call. directions: number of them per call. Returns 0, or -1
 * if a call failed.
 */
static int
parts_time(const struct parts_options *o, bool (*once)(void *context), void *context, unsigned directions, double *ns)
{
	uint64_t *took = calloc(o->rounds, sizeof(*took));
	bool good = took != NULL;

	for (unsigned block = 0; block < PARTS_BLOCKS && good; block++) {
		uint64_t before_ns = clock_system_ns();

		for (uint64_t i = 0; i < o->rounds && good; i++) {
			uint64_t now_ns;

			good = once(context);
			now_ns = clock_system_ns();
			took[i] = now_ns - before_ns;
			before_ns = now_ns;
		}
		qsort(took, o->rounds, sizeof(*took), parts_compare);
		ns[block] = (double)took[o->rounds / 2] / directions;
	}
	free(took);
	return good ? 0 : -1;
}

/* ---- memory ---- */

/* A slot for a frame in each direction. The frame's number is written last. */
struct parts_slot {
	_Alignas(64) _Atomic uint64_t number;
	_Alignas(64) uint8_t bytes[PARTS_FRAME_MAX];
};

struct parts_memory {
	const struct parts_options *options;
	struct parts_slot slots[2];
	uint8_t frame[PARTS_FRAME_MAX];
	uint64_t number;      /* of the last frame sent */
	_Atomic uint64_t sum; /* of all bytes read: keeps the compiler from dropping the reads */
	_Atomic bool failed;
};

static void
parts_put(struct parts_memory *memory, unsigned end, uint64_t number)
{
	struct parts_slot *slot = &memory->slots[end];

	memcpy(slot->bytes, memory->frame, memory->options->size);
	atomic_store_explicit(&slot->number, number, memory_order_release);
}

/* Reads the other end's frame and adds its bytes to *sum. Returns false if that end has failed. */
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

/* Pins this thread to core. Returns false after a message if it may not run there. */
static bool
parts_pin(uint64_t core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	errno = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	return errno == 0 || parts_fail("a core of --cores",
					": name others (`taskset -p $$` prints those that this process may use)") == 0;
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

static bool
parts_memory_exchange(void *context)
{
	struct parts_memory *memory = context;
	uint64_t sum = 0;
	bool good;

	parts_put(memory, 0, ++memory->number);
	good = parts_take(memory, 0, memory->number, &sum);
	atomic_store_explicit(&memory->sum, sum, memory_order_relaxed);
	return good;
}

static int
parts_memory(const struct parts_options *o, double *ns)
{
	static struct parts_memory memory;
	pthread_t answerer;
	int status;

	memory.options = o;
	if (!parts_pin(o->cores.value[0]))
		return -1;
	errno = pthread_create(&answerer, NULL, parts_answer, &memory);
	if (errno != 0)
		return parts_fail("a second thread", "");
	status = parts_time(o, parts_memory_exchange, &memory, 2, ns);
	pthread_join(answerer, NULL);
	return status;
}

/* ---- bells and sleepers ---- */

static bool
parts_bell_once(void *context)
{
	static const uint64_t one = 1;

	return write(*(int *)context, &one, sizeof(one)) == sizeof(one);
}

static int
parts_bell(const struct parts_options *o, double *ns)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return parts_fail("an eventfd", "");
	if (!parts_pin(o->cores.value[0]))
		return -1;
	return parts_time(o, parts_bell_once, &fd, 1, ns) == 0 ? 0 : parts_fail("an eventfd", "");
}

/* Two threads that signal each other's eventfds, and sleep as drivers do. */
struct parts_sleepers {
	const struct parts_options *options;
	int bells[2], sleeps[2]; /* eventfds, and the epolls that watch them */
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

static bool
parts_wake_exchange(void *context)
{
	return parts_ring(context, 1) && parts_sleep(context, 0);
}

static int
parts_wake(const struct parts_options *o, double *ns)
{
	struct parts_sleepers sleepers = { .options = o };
	pthread_t other;

	for (unsigned i = 0; i < 2; i++) {
		/* Edge-triggered: each signal ends a sleep, so the eventfds need not be read. */
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
	if (parts_time(o, parts_wake_exchange, &sleepers, 2, ns) != 0)
		return parts_fail("an eventfd", "");
	pthread_join(other, NULL);
	return atomic_load(&sleepers.failed) ? -1 : 0;
}

/* ---- through Linux ---- */

/* An interface, sent to and received from as platform/dpdk's links do. */
struct parts_interface {
	const struct parts_options *options;
	int fd;
	uint8_t *ring; /* a packet socket's ring; NULL: a tap, read by system calls */
	unsigned next; /* the ring's next frame */
	uint8_t frame[PARTS_FRAME_MAX];
};

/* Two interfaces: a frame leaves by the first, and a thread at the second sends it back. */
struct parts_pair {
	struct parts_interface ends[2];
	uint32_t number;      /* of the last frame sent */
	uint64_t patience_ns; /* longest wait for it */
	_Atomic bool over, failed;
};

/* Returns 0, or -1 after a message. */
static int
parts_open_packet(struct parts_interface *self, const char *name)
{
	static const struct tpacket_req ring = { .tp_block_size = 2 * PARTS_RING_FRAME,
						 .tp_block_nr = PARTS_RING_FRAMES / 2,
						 .tp_frame_size = PARTS_RING_FRAME,
						 .tp_frame_nr = PARTS_RING_FRAMES };
	static const int version = TPACKET_V2, on = 1;
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	void *mapped = MAP_FAILED;

	self->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	address.sll_ifindex = (int)if_nametoindex(name);
	if (self->fd >= 0 && address.sll_ifindex != 0 &&
	    setsockopt(self->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) == 0 &&
	    setsockopt(self->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) == 0 &&
	    setsockopt(self->fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof(ring)) == 0)
		mapped = mmap(NULL, PARTS_RING_FRAME * PARTS_RING_FRAMES, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd,
			      0);
	if (mapped == MAP_FAILED || bind(self->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		return parts_fail(name, ": --from and --to name interfaces; packet sockets need root");
	self->ring = mapped;
	return 0;
}

/* Returns 0, or -1 after a message. */
static int
parts_open_tap(struct parts_interface *self, const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };

	self->fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (self->fd < 0 || ioctl(self->fd, TUNSETIFF, &request) != 0)
		return parts_fail(name, ": --from and --to name unused taps; /dev/net/tun needs root");
	return 0;
}

/* Copies a received frame. Returns its length, or 0 if there is none or it is longer than any of ours. */
static size_t
parts_receive(struct parts_interface *self, uint8_t *frame)
{
	struct tpacket2_hdr *slot;
	size_t len;

	if (self->ring == NULL) {
		ssize_t got = read(self->fd, frame, PARTS_FRAME_MAX);

		return got > 0 ? (size_t)got : 0;
	}
	slot = (struct tpacket2_hdr *)(self->ring + self->next * PARTS_RING_FRAME);
	if ((__atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0)
		return 0;
	len = slot->tp_snaplen > PARTS_FRAME_MAX ? 0 : slot->tp_snaplen;
	memcpy(frame, (uint8_t *)slot + slot->tp_mac, len);
	__atomic_store_n(&slot->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	self->next = (self->next + 1) % PARTS_RING_FRAMES;
	return len;
}

/* Stores the number of a received frame. Returns false if there is none. Skips frames that Linux sends. */
static bool
parts_arrived(struct parts_interface *self, uint32_t *number)
{
	uint8_t frame[PARTS_FRAME_MAX];

	if (parts_receive(self, frame) < PARTS_FRAME_MIN || xk_get16(frame + 12) != PARTS_TYPE)
		return false;
	*number = xk_get32(frame + ETH_HLEN);
	return true;
}

static bool
parts_send(struct parts_interface *self, uint32_t number)
{
	xk_put32(self->frame + ETH_HLEN, number);
	return write(self->fd, self->frame, self->options->size) == (ssize_t)self->options->size;
}

static void *
parts_echo(void *argument)
{
	struct parts_pair *pair = argument;
	struct parts_interface *self = &pair->ends[1];
	uint32_t number;

	if (!parts_pin(self->options->cores.value[1]))
		atomic_store(&pair->failed, true);
	while (!atomic_load_explicit(&pair->over, memory_order_relaxed))
		if (parts_arrived(self, &number))
			parts_send(self, number); /* may be lost while the interface comes up; the client retries */
	return NULL;
}

static bool
parts_linux_exchange(void *context)
{
	struct parts_pair *pair = context;
	uint64_t until_ns = clock_system_ns() + pair->patience_ns;
	uint32_t number = ++pair->number, arrived = number - 1;

	if (!parts_send(&pair->ends[0], number))
		return false;
	while (!parts_arrived(&pair->ends[0], &arrived) || arrived != number)
		if (atomic_load(&pair->failed) || clock_system_ns() > until_ns) {
			errno = ETIMEDOUT;
			return false;
		}
	return true;
}

static int
parts_linux(const struct parts_options *o, double *ns)
{
	static struct parts_pair pair = { .patience_ns = PARTS_TRY_NS };
	pthread_t other;
	int status;

	for (unsigned i = 0; i < 2; i++) {
		struct parts_interface *end = &pair.ends[i];

		end->options = o;
		if ((o->kind == PARTS_TAP ? parts_open_tap : parts_open_packet)(end, i == 0 ? o->from : o->to) != 0)
			return -1;
		xk_put48(end->frame, UINT64_C(0x020000000002) - i);
		xk_put48(end->frame + 6, UINT64_C(0x020000000001) + i);
		xk_put16(end->frame + 12, PARTS_TYPE);
	}
	if (!parts_pin(o->cores.value[0]))
		return -1;
	errno = pthread_create(&other, NULL, parts_echo, &pair);
	if (errno != 0)
		return parts_fail("a second thread", "");
	for (unsigned i = 0; i < PARTS_TRIES && !parts_linux_exchange(&pair); i++)
		usleep(PARTS_TRY_NS / 1000);
	pair.patience_ns = PARTS_PATIENCE_NS;
	status = parts_time(o, parts_linux_exchange, &pair, 2, ns);
	if (status != 0)
		parts_fail("a frame did not come back from --to", ": are both interfaces up, and on one cable?");
	atomic_store(&pair.over, true);
	pthread_join(other, NULL);
	return status;
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
		return options_misuse(&parts_program, "--cores takes two cores that this program may use");
	if (o.kind != PARTS_BELL && o.kind != PARTS_WAKE && o.cores.value[0] == o.cores.value[1])
		return options_misuse(&parts_program, "--kind %s needs two cores", parts_kinds[o.kind]);
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
