/*
 * buffer.c - segments are mbufs: struct xk_msg lies in the private area, the bytes are the mbuf's own or, of a view,
 * those of the mbuf it is attached to. So an mbuf that a device has filled is a message already, and a message is freed
 * by a device like any mbuf.
 *
 * A view has an mbuf of its own, attached: the owner's reference count is then the number of segments that show its
 * bytes, which is what xk_msg.references means. An owner freed before its views stays until the last of them has gone.
 */
#include <rte_errno.h>
#include <rte_mempool.h>
#include <stdio.h>
#include <unistd.h>

#include "platform/dpdk/inside.h"

enum { DPDK_BUFFER_CACHE = 256 };

struct rte_mempool *
dpdk_buffer_pool_new(unsigned count, char *why, size_t size)
{
	struct rte_mempool *pool;
	char name[RTE_MEMPOOL_NAMESIZE];
	unsigned i = 0;

	do {
		snprintf(name, sizeof(name), "xk_buffers_%u", i);
	} while (rte_mempool_lookup(name) != NULL && ++i < 1000);
	pool = rte_pktmbuf_pool_create(name, count, DPDK_BUFFER_CACHE, DPDK_BUFFER_PRIVATE, DPDK_BUFFER_ROOM,
				       SOCKET_ID_ANY);
	if (pool == NULL)
		snprintf(why, size,
			 "DPDK has no memory for %u buffers (%s): ask for fewer, or give DPDK more at the first start",
			 count, rte_strerror(rte_errno));
	return pool;
}

struct xk_msg *
dpdk_buffer_new(struct xk_platform *platform)
{
	struct rte_mbuf *m = rte_mbuf_raw_alloc(((struct dpdk_platform *)platform)->pool);

	if (xk_unlikely(m == NULL))
		return NULL;
	m->ol_flags = 0;
	return dpdk_buffer_show(platform, m, (uint8_t *)m->buf_addr + XK_MSG_HEADROOM, 0);
}

struct xk_msg *
dpdk_buffer_view(struct xk_platform *platform, const struct xk_msg *segment)
{
	struct rte_mbuf *m = rte_mbuf_raw_alloc(((struct dpdk_platform *)platform)->pool);

	if (xk_unlikely(m == NULL))
		return NULL;
	m->ol_flags = 0;
	rte_pktmbuf_attach(m, dpdk_buffer_of(segment));
	return dpdk_buffer_show(platform, m, segment->data, segment->len);
}

void
dpdk_buffer_free(struct xk_platform *platform, struct xk_msg *segment)
{
	(void)platform;
	rte_pktmbuf_free_seg(dpdk_buffer_of(segment));
}

unsigned
dpdk_buffers_out(struct xk_platform *platform)
{
	return rte_mempool_in_use_count(((struct dpdk_platform *)platform)->pool);
}
