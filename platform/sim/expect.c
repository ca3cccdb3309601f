/*
 * expect.c - memory for a large world. With a thousand hosts, each on many pages, address translation costs as much as
 * memory access itself. Therefore the heap grows into large pages where the system has them.
 */
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/sim/sim.h"

enum {
	EXPECT_HOSTS = 256,       /* smaller worlds need no large pages */
	EXPECT_HOSTS_MAX = 32768, /* keeps the size within an int */
	EXPECT_HOST_BYTES = 48 * 1024,
	EXPECT_PAGE = 2 * 1024 * 1024,
	EXPECT_BLOCK = 64 * 1024,
	EXPECT_BLOCKS = 64,
};

/* Makes the heap grow by M_TOP_PAD, and returns its new end. */
static uintptr_t
expect_grow(void)
{
	void *blocks[EXPECT_BLOCKS];
	unsigned count = 0;
	const void *end = sbrk(0);

	while (count < EXPECT_BLOCKS && sbrk(0) == end)
		blocks[count++] = malloc(EXPECT_BLOCK);
	end = sbrk(0);
	while (count > 0)
		free(blocks[--count]);
	return (uintptr_t)end;
}

/* Makes the heap grow in steps of size from now on, if the C library can (glibc). */
static bool
expect_set_step(size_t size)
{
#ifdef M_TOP_PAD
	return mallopt(M_TOP_PAD, (int)size) != 0;
#else
	(void)size;
	return false;
#endif
}

void
xk_sim_expect(unsigned hosts)
{
	size_t size = (size_t)(hosts < EXPECT_HOSTS_MAX ? hosts : EXPECT_HOSTS_MAX) * EXPECT_HOST_BYTES;
	uintptr_t begin, end;

	if (hosts < EXPECT_HOSTS || !expect_set_step(size))
		return;
	end = expect_grow() / EXPECT_PAGE * EXPECT_PAGE;
	begin = (end - size + EXPECT_PAGE - 1) / EXPECT_PAGE * EXPECT_PAGE;
	/* A failure only means that there are no large pages. */
	(void)madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* cppcheck-suppress intToPointerCast */
}
