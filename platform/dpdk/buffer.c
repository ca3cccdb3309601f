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

/* NULL: DPDK's usual way of keeping what is free. */
static struct rte_mempool *
dpdk_buffer_pool_make(unsigned count, const char *way)
{
	char name[RTE_MEMPOOL_NAMESIZE];

	dpdk_buffer_pool_name(name);
	return rte_pktmbuf_pool_create_by_ops(name, count, DPDK_BUFFER_CACHE, DPDK_BUFFER_PRIVATE, DPDK_BUFFER_ROOM,
					      SOCKET_ID_ANY, way);
}

/*
 * Free buffers are on a stack without locks. In a ring, the usual way, everybody spins for whoever has lost the core while
 * taking one: hundreds of threads without caches on one core each do so for all of their time, one after the other.
 */
struct rte_mempool *
dpdk_buffer_pool_new(unsigned count, char *why, size_t size)
{
	struct rte_mempool *pool = dpdk_buffer_pool_make(count, "lf_stack");

	if (pool == NULL) /* not on every processor */
		pool = dpdk_buffer_pool_make(count, NULL);
	if (pool == NULL)
		snprintf(why, size,
			 "DPDK has no memory for %u buffers (%s): ask for fewer, or give DPDK more at the first start",
			 count, rte_strerror(rte_errno));
	return pool;
}

/* ---- a device's own pool: a ring, and a look at what comes back ---- */

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

/* What was a message has a platform; what only the device had has none. */
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

/* In one piece, without gaps for the ends of pages. */
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

/* Reference count of freed segments; the count in a freed mbuf is 1. */
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
	dpdk_give(dpdk_buffer_of(segment)); /* with what was done to it through this view, the last or not */
	m = rte_pktmbuf_prefree_seg(dpdk_buffer_of(segment));
	if (m == NULL)
		return;
	dpdk_give(m); /* with what that has looked at */
	rte_mbuf_raw_free(m);
}

unsigned
dpdk_buffers_out(struct xk_platform *platform)
{
	struct dpdk_platform *self = dpdk_owner_of(platform);

	return rte_mempool_in_use_count(self->pool) + atomic_load_explicit(&self->borrowed, memory_order_relaxed);
}
