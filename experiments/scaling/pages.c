/*
 * pages.c - the cost of a long message's pages by copying, and by changing the page table: figure 9 of Heath, Kaur,
 * Martin and Nguyen (2001). As in the paper, the cost of sharing pages between a user and a device is approximated by
 * system calls.
 * To send: mlock and munlock pin and unpin pages, and two mprotect calls forbid writing and allow it again. To receive:
 * mremap replaces the receiver's pages by those that have arrived, and mprotect allows writing to them. `register` is
 * the call that gives memory to a network device: an XDP socket's XDP_UMEM_REG, which pins the pages and maps them for
 * the driver. It needs CAP_NET_RAW.
 *
 * `copy` cycles through memory that is larger than any cache, so its bytes are never cached. `cached` always copies the
 * same bytes, which are therefore in the first cache level that holds both copies. All sizes and operations alternate;
 * a figure is the median of the rounds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <linux/if_xdp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/clock.h"
#include "tools/batches.h"
#include "tools/json.h"
#include "tools/options.h"
#include "xkernel/base.h"

enum {
	PAGES_PAGE = 4096,
	PAGES_SIZE_MAX = 1 << 20,
	PAGES_ROUNDS_MAX = 10000,
	PAGES_CALIBRATE_NS = 20000000,
	PAGES_CACHES = 3
};

#define PAGES_MEMORY_MAX (UINT64_C(1) << 32)

enum pages_operation {
	PAGES_COPY,
	PAGES_CACHED,
	PAGES_LOCK,
	PAGES_PROTECT,
	PAGES_RECEIVE,
	PAGES_REGISTER,
	PAGES_OPERATIONS
};
static const char *const pages_operations[] = { "copy_ns",    "cached_ns",  "lock_ns",
						"protect_ns", "receive_ns", "register_ns" };

struct pages {
	/* options; first */
	struct options_numbers sizes;
	uint64_t rounds, memory;
	bool json;

	struct clock clock;
	double ghz; /* the counter's frequency; 0: no counter */
	uint8_t *from, *to, *mapped;
	uint8_t *arrived, *received; /* arrived pages, and those they replace */
	size_t place;                /* of the next copy in `from` and `to` */
	uint64_t caches[PAGES_CACHES];
	int lock_error; /* 0: pages may be locked */
	int register_error;
	double ns[OPTIONS_LIST][PAGES_OPERATIONS][PAGES_ROUNDS_MAX];
};

static const struct options_option pages_options[] = {
	OPTION(NUMBERS, struct pages, sizes, "size", "N,...",
	       "bytes (4096,8192,16384,32768,65536); all but copies round up to pages", .min = 1,
	       .max = PAGES_SIZE_MAX),
	OPTION(NUMBER, struct pages, rounds, "rounds", "N", "rounds of each size and operation (2000)", .min = 1,
	       .max = PAGES_ROUNDS_MAX),
	OPTION(NUMBER, struct pages, memory, "memory", "N",
	       "bytes of memory to cycle through (four times the largest cache, at least 67108864)",
	       .min = PAGES_SIZE_MAX, .max = PAGES_MEMORY_MAX),
	OPTION(FLAG, struct pages, json, "json", NULL, "JSON on standard output"),
	{ .name = NULL },
};

static const struct options_program pages_program = {
	.name = "pages",
	.usage = "[OPTION]...",
	.about = "Times copies, and changes of the page table, by size.",
	.options = pages_options,
};

/* Stores the size of each level's data cache in bytes; 0: none, or unknown. */
static void
pages_find_caches(uint64_t caches[PAGES_CACHES])
{
	static const int names[PAGES_CACHES] = { _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE };

	for (unsigned i = 0; i < PAGES_CACHES; i++) {
		long size = sysconf(names[i]);

		caches[i] = size > 0 ? (uint64_t)size : 0;
	}
}

static int
pages_lock(uint8_t *bytes, size_t size)
{
	return mlock(bytes, size) == 0 && munlock(bytes, size) == 0 ? 0 : errno;
}

/* Registers p->mapped with a new socket, and closes that, which unregisters it. Returns the nanoseconds of the call. */
static double
pages_register(struct pages *p, size_t size)
{
	struct xdp_umem_reg memory = { .addr = (uintptr_t)p->mapped, .chunk_size = PAGES_PAGE };
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	uint64_t begun_ns, ended_ns;

	memory.len = (size + PAGES_PAGE - 1) / PAGES_PAGE * PAGES_PAGE;
	begun_ns = clock_now_ns(&p->clock);
	if (fd < 0 || setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &memory, sizeof(memory)) != 0)
		p->register_error = errno;
	ended_ns = clock_now_ns(&p->clock);
	if (fd >= 0)
		close(fd);
	return (double)(ended_ns - begun_ns);
}

/* Creates pages that stand for arrived ones. */
static void
pages_arrive(struct pages *p, size_t size)
{
	/* cppcheck-suppress invalidFunctionArg; -1 is what anonymous memory takes */
	p->arrived = mmap(p->arrived, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	xk_assert(p->arrived != MAP_FAILED);
	memset(p->arrived, 1, size);
	xk_assert(mprotect(p->arrived, size, PROT_READ) == 0);
}

static void
pages_receive(struct pages *p, size_t size)
{
	xk_assert(mremap(p->arrived, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, p->received) == p->received &&
		  mprotect(p->received, size, PROT_READ | PROT_WRITE) == 0);
}

static void
pages_copy(struct pages *p, size_t place, size_t size)
{
	memcpy(p->to + place, p->from + place, size);
	__asm__ volatile("" : : "r"(p->to) : "memory"); /* keeps the compiler from dropping the copy */
}

/* Performs an operation once. Returns its nanoseconds. */
static double
pages_once(struct pages *p, enum pages_operation operation, size_t size)
{
	uint64_t begun_ns;
	size_t place = 0;

	if (operation == PAGES_COPY) {
		place = p->place + size <= p->memory ? p->place : 0;
		p->place = place + size;
	} else if (operation == PAGES_CACHED) {
		pages_copy(p, 0, size); /* the other operations have displaced it from the caches */
	} else if (operation == PAGES_RECEIVE) {
		pages_arrive(p, size);
	} else if (operation == PAGES_REGISTER) {
		return p->register_error == 0 ? pages_register(p, size) : 0;
	}
	begun_ns = clock_now_ns(&p->clock);
	switch (operation) {
	case PAGES_LOCK:
		if (p->lock_error == 0)
			p->lock_error = pages_lock(p->mapped, size);
		break;
	case PAGES_PROTECT:
		xk_assert(mprotect(p->mapped, size, PROT_READ) == 0 &&
			  mprotect(p->mapped, size, PROT_READ | PROT_WRITE) == 0);
		break;
	case PAGES_RECEIVE:
		pages_receive(p, size);
		break;
	default:
		pages_copy(p, place, size);
	}
	return (double)(clock_now_ns(&p->clock) - begun_ns);
}

/* Returns populated memory, or NULL. advice: for madvise, on the size of its pages. */
static uint8_t *
pages_map(size_t size, int advice)
{
	/* cppcheck-suppress invalidFunctionArg; -1 is what anonymous memory takes */
	uint8_t *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		return NULL;
	madvise(bytes, size, advice);
	memset(bytes, 1, size);
	return bytes;
}

static bool
pages_begin(struct pages *p)
{
	struct clock_pair before;

	clock_read(&before);
	clock_calibrate(&p->clock, &before, PAGES_CALIBRATE_NS);
	if (p->clock.has_counter)
		p->ghz = (double)(UINT64_C(1) << 32) / (double)p->clock.scale;
	p->from = pages_map(p->memory, MADV_NORMAL);
	p->to = pages_map(p->memory, MADV_NORMAL);
	p->mapped = pages_map(PAGES_SIZE_MAX, MADV_NOHUGEPAGE); /* changing part of a huge page would split it */
	p->arrived = pages_map(PAGES_SIZE_MAX, MADV_NOHUGEPAGE);
	p->received = pages_map(PAGES_SIZE_MAX, MADV_NOHUGEPAGE);
	if (p->from == NULL || p->to == NULL || p->mapped == NULL || p->arrived == NULL || p->received == NULL) {
		fprintf(stderr, "pages: no memory to copy between: %s\n", xk_error(errno));
		return false;
	}
	return true;
}

static void
pages_print(struct pages *p)
{
	struct json json;

	json_begin(&json, stdout);
	if (p->json) {
		json_object(&json, NULL);
		json_double(&json, "ghz", p->ghz);
		json_uint(&json, "memory", p->memory);
		json_array(&json, "caches");
		for (unsigned i = 0; i < PAGES_CACHES; i++)
			json_uint(&json, NULL, p->caches[i]);
		json_close(&json);
		json_string(&json, "lock_error", p->lock_error == 0 ? NULL : xk_error(p->lock_error));
		json_string(&json, "register_error", p->register_error == 0 ? NULL : xk_error(p->register_error));
		json_array(&json, "sizes");
	} else {
		printf("%8s %10s %10s %10s %10s %10s %10s  ns\n", "bytes", "copy", "cached", "mlock", "mprotect",
		       "receive", "register");
	}
	for (unsigned i = 0; i < p->sizes.count; i++) {
		double medians[PAGES_OPERATIONS];

		for (unsigned operation = 0; operation < PAGES_OPERATIONS; operation++)
			medians[operation] = batches_median(p->ns[i][operation], (unsigned)p->rounds);
		if (p->lock_error != 0)
			medians[PAGES_LOCK] = NAN; /* null in JSON */
		if (p->register_error != 0)
			medians[PAGES_REGISTER] = NAN;
		if (!p->json) {
			printf("%8" PRIu64, p->sizes.value[i]);
			for (unsigned operation = 0; operation < PAGES_OPERATIONS; operation++)
				printf(" %10.1f", medians[operation]);
			printf("\n");
			continue;
		}
		json_object(&json, NULL);
		json_uint(&json, "size", p->sizes.value[i]);
		for (unsigned operation = 0; operation < PAGES_OPERATIONS; operation++)
			json_double(&json, pages_operations[operation], medians[operation]);
		json_close(&json);
	}
	if (p->json) {
		json_close(&json);
		json_close(&json);
		json_end(&json);
		return;
	}
	if (p->lock_error != 0)
		printf("Pages may not be locked (`ulimit -l` limits them): %s\n", xk_error(p->lock_error));
	if (p->register_error != 0)
		printf("Pages may not be registered (CAP_NET_RAW allows it): %s\n", xk_error(p->register_error));
}

/* Returns the exit status. */
static int
pages_run(struct pages *p)
{
	if (!pages_begin(p))
		return OPTIONS_FAILURE;
	for (uint64_t round = 0; round < p->rounds; round++)
		for (unsigned i = 0; i < p->sizes.count; i++)
			for (unsigned operation = 0; operation < PAGES_OPERATIONS; operation++)
				p->ns[i][operation][round] = pages_once(p, operation, p->sizes.value[i]);
	pages_print(p);
	return OPTIONS_SUCCESS;
}

int
main(int argc, char **argv)
{
	struct pages *p = calloc(1, sizeof(*p));
	struct options_texts operands;
	int status;

	if (p == NULL)
		return OPTIONS_FAILURE;
	p->sizes = (struct options_numbers){ 5, { PAGES_PAGE, 8192, 16384, 32768, 65536 } };
	p->rounds = 2000;
	pages_find_caches(p->caches);
	p->memory = UINT64_C(64) << 20;
	for (unsigned i = 0; i < PAGES_CACHES; i++)
		if (4 * p->caches[i] > p->memory)
			p->memory = 4 * p->caches[i] < PAGES_MEMORY_MAX ? 4 * p->caches[i] : PAGES_MEMORY_MAX;
	status = options_parse(&pages_program, argc, argv, p, &operands);
	if (status == OPTIONS_GO)
		status = pages_run(p);
	free(p);
	return status;
}
