/*
 * buffer.c - segments are mbufs: the private area holds struct xk_msg. Thus an mbuf that a device has filled is already
 * a message, and a device frees a message like any mbuf.
 *
 * A view is an mbuf attached to the one that owns the bytes. The owner's reference count is then the number of segments
 * that show its bytes, as xk_msg.references requires. An owner freed before its views stays until the last is freed.
 */
#include <rte_errno.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <stdio.h>
#include <unistd.h>

#include "platform/dpdk/dpdk_private.h"

static void
dpdk_buffer_pool_name(char *name)
{
	unsigned i = 0;

	do {
		snprintf(name, RTE_MEMPOOL_NAMESIZE, "xk_buffers_%u", i);
	} while (rte_mempool_lookup(name) != NULL && ++i < 1000);
}

/*
 * Keeps free buffers on a lock-free stack, where the processor has the instructions for it. With DPDK's default, a
 * ring, all threads spin while one that is taking a buffer has lost its core; hundreds of threads without caches on
 * one core would do nothing else.
 */
struct rte_mempool *
dpdk_buffer_pool_new(unsigned count, char *why, size_t size)
{
	static const char *const ways[] = { "lf_stack", NULL /* DPDK's default */ };
	struct rte_mempool *pool = NULL;
	char name[RTE_MEMPOOL_NAMESIZE];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(ways) && pool == NULL; i++) {
		dpdk_buffer_pool_name(name);
		pool = rte_pktmbuf_pool_create_by_ops(name, count, DPDK_BUFFER_CACHE, DPDK_BUFFER_PRIVATE,
						      DPDK_BUFFER_ROOM, SOCKET_ID_ANY, ways[i]);
	}
	if (pool == NULL)
		snprintf(why, size,
			 "DPDK has no memory for %u buffers (%s): ask for fewer, or give DPDK more at the first start",
			 count, rte_strerror(rte_errno));
	return pool;
}

/* ---- a device's own pool: a ring that counts returning messages ---- */

static int
dpdk_buffer_ring_alloc(struct rte_mempool *pool)
{
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "r_%s", pool->name);
	pool->pool_data = rte_ring_create(name, rte_align32pow2(pool->size + 1), SOCKET_ID_ANY, 0);
	return pool->pool_data == NULL ? -rte_errno : 0;
}

static void
dpdk_buffer_ring_free(struct rte_mempool *pool)
{
	rte_ring_free(pool->pool_data);
}

/* Returns buffers to the ring. Those that were messages have a platform; those that only the device used have none. */
static int
dpdk_buffer_ring_put(struct rte_mempool *pool, void *const *all, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct xk_msg *segment = rte_mbuf_to_priv(all[i]);

		if (segment->platform == NULL)
			continue;
		atomic_fetch_sub_explicit(&dpdk_owner_of(segment->platform)->borrowed, 1, memory_order_relaxed);
		segment->platform = NULL;
	}
	return rte_ring_mp_enqueue_bulk(pool->pool_data, all, count, NULL) == 0 ? -ENOBUFS : 0;
}

static int
dpdk_buffer_ring_get(struct rte_mempool *pool, void **all, unsigned count)
{
	return rte_ring_mc_dequeue_bulk(pool->pool_data, all, count, NULL) == 0 ? -ENOBUFS : 0;
}

static unsigned
dpdk_buffer_ring_count(const struct rte_mempool *pool)
{
	return rte_ring_count(pool->pool_data);
}

static const struct rte_mempool_ops dpdk_buffer_lent = {
	.name = "xk_lent",
	.alloc = dpdk_buffer_ring_alloc,
	.free = dpdk_buffer_ring_free,
	.enqueue = dpdk_buffer_ring_put,
	.dequeue = dpdk_buffer_ring_get,
	.get_count = dpdk_buffer_ring_count,
};

int
dpdk_buffer_register(void)
{
	int index = rte_mempool_register_ops(&dpdk_buffer_lent);

	return index < 0 ? index : 0;
}

/* Makes the pool in one piece of memory, without gaps at the ends of pages. */
static struct rte_mempool *
dpdk_buffer_pool_make_lent(unsigned count)
{
	struct rte_pktmbuf_pool_private private = { .mbuf_data_room_size = DPDK_BUFFER_ROOM,
						    .mbuf_priv_size = DPDK_BUFFER_PRIVATE };
	unsigned size = (unsigned)sizeof(struct rte_mbuf) + DPDK_BUFFER_PRIVATE + DPDK_BUFFER_ROOM;
	struct rte_mempool *pool;
	char name[RTE_MEMPOOL_NAMESIZE];

	dpdk_buffer_pool_name(name);
	pool = rte_mempool_create_empty(name, count, size, 0, sizeof(private), SOCKET_ID_ANY,
					RTE_MEMPOOL_F_NO_IOVA_CONTIG);
	if (pool == NULL)
		return NULL;
	if (rte_mempool_set_ops_byname(pool, dpdk_buffer_lent.name, NULL) == 0) {
		rte_pktmbuf_pool_init(pool, &private);
		if (rte_mempool_populate_default(pool) == (int)count && pool->nb_mem_chunks == 1) {
			rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
			return pool;
		}
	}
	rte_mempool_free(pool);
	return NULL;
}

struct rte_mempool *
dpdk_buffer_pool_new_lent(unsigned count, char *why, size_t size)
{
	struct rte_mempool *pool = dpdk_buffer_pool_make_lent(count);

	if (pool == NULL)
		snprintf(why, size,
			 "DPDK has no memory for %u buffers of a device, in one piece: give it more at the first start",
			 count);
	return pool;
}

/* ---- buffers ---- */

struct xk_msg *
dpdk_buffer_new(struct xk_platform *platform)
{
	struct rte_mbuf *m = rte_mbuf_raw_alloc(((struct dpdk_platform *)platform)->pool);

	if (xk_unlikely(m == NULL))
		return NULL;
	dpdk_take(m);
	m->ol_flags = 0;
	return dpdk_buffer_show(platform, m, (uint8_t *)m->buf_addr + XK_MSG_HEADROOM, 0);
}

struct xk_msg *
dpdk_buffer_view(struct xk_platform *platform, const struct xk_msg *segment)
{
	struct rte_mbuf *m = rte_mbuf_raw_alloc(((struct dpdk_platform *)platform)->pool);

	if (xk_unlikely(m == NULL))
		return NULL;
	dpdk_take(m);
	m->ol_flags = 0;
	rte_pktmbuf_attach(m, dpdk_buffer_of(segment));
	return dpdk_buffer_show(platform, m, segment->data, segment->len);
}

/* The reference count of freed segments: that of a freed mbuf is 1. */
static const _Atomic uint16_t dpdk_given_up = 0;

void
dpdk_buffer_free(struct xk_platform *platform, struct xk_msg *segment)
{
	struct rte_mbuf *m;

	(void)platform;
	if (xk_unlikely(xk_msg_is_given_up(segment)))
		xk_msg_misused(segment, "gives up");
	segment->references = (_Atomic uint16_t *)(uintptr_t)&dpdk_given_up;
	segment->len = segment->total = 0;
	dpdk_give(dpdk_buffer_of(segment)); /* covers accesses through this view, whether or not it is the last */
	m = rte_pktmbuf_prefree_seg(dpdk_buffer_of(segment));
	if (m == NULL)
		return;
	dpdk_give(m); /* covers the accesses of rte_pktmbuf_prefree_seg */
	rte_mbuf_raw_free(m);
}

unsigned
dpdk_buffers_out(struct xk_platform *platform)
{
	struct dpdk_platform *self = dpdk_owner_of(platform);

	return rte_mempool_in_use_count(self->pool) + atomic_load_explicit(&self->borrowed, memory_order_relaxed);
}
