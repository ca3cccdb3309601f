/*
 * expect.c - room for a large world. With a thousand hosts, each on many pages, the translation of addresses costs as
 * much as the memory itself; so the heap that is to come lies in large pages where the system gives them.
 */
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/sim/sim.h"

enum {
	EXPECT_HOSTS = 256,       /* smaller worlds do well without */
	EXPECT_HOSTS_MAX = 32768, /* what is asked for fits an int */
	EXPECT_OF_HOST = 48 * 1024,
	EXPECT_PAGE = 2 * 1024 * 1024,
	EXPECT_BLOCK = 64 * 1024,
	EXPECT_BLOCKS = 64,
};

/* Makes the heap grow, by as much as M_TOP_PAD says, and leaves it grown. Where it ends then. */
static uintptr_t
expect_growth(void)
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

void
xk_sim_expect(unsigned hosts)
{
	size_t size = (size_t)(hosts < EXPECT_HOSTS_MAX ? hosts : EXPECT_HOSTS_MAX) * EXPECT_OF_HOST;
	uintptr_t begin, end;

	if (hosts < EXPECT_HOSTS || mallopt(M_TOP_PAD, (int)size) == 0)
		return;
	end = expect_growth() / EXPECT_PAGE * EXPECT_PAGE;
	begin = (end - size + EXPECT_PAGE - 1) / EXPECT_PAGE * EXPECT_PAGE;
	/* Where there are no large pages, nothing is lost. */
	(void)madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* cppcheck-suppress intToPointerCast */
}
