/*
 * buffer.c - segments are mbufs: struct xk_msg lies in the private area. A device thus fills and frees messages as it
 * does any mbuf.
 *
 * A view is an mbuf attached to the owner of the bytes. The owner's reference count is the number of segments that show
 * its bytes, as xk_msg.references requires. An owner freed before its views stays until the last view is freed.
 */
#include <rte_errno.h>
#include <rte_malloc.h>
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
 * Keeps free buffers on a lock-free stack if the processor has the instructions for it. With DPDK's default, a ring,
 * all threads spin while one that is taking a buffer is preempted; hundreds of threads without caches on one core would
 * do nothing else.
 */
struct rte_mempool *
dpdk_buffer_pool_new(unsigned count, char *why, size_t size)
{
	static const char *const ops[] = { "lf_stack", NULL /* DPDK's default */ };
	struct rte_mempool *pool = NULL;
	char name[RTE_MEMPOOL_NAMESIZE];

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(ops) && pool == NULL; i++) {
		dpdk_buffer_pool_name(name);
		pool = rte_pktmbuf_pool_create_by_ops(name, count, DPDK_BUFFER_CACHE, DPDK_BUFFER_PRIVATE,
						      DPDK_BUFFER_ROOM, SOCKET_ID_ANY, ops[i]);
	}
	if (pool == NULL)
		snprintf(why, size,
			 "DPDK has no memory for %u buffers (%s): ask for fewer, or give DPDK more memory at the first "
			 "start",
			 count, rte_strerror(rte_errno));
	return pool;
}

/* ---- a device's own pool: a ring that counts returned messages ---- */

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

/* Returns buffers to the ring. Only those that were messages have a platform. */
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

/* Creates the pool in one piece of memory, without gaps at page ends. */
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
			 "DPDK has no memory for %u buffers of a device, in one piece: give it more memory at the "
			 "first start",
			 count);
	return pool;
}

/* ---- buffers ---- */

/*
 * Buffers that allocations leave in the pool, outside the caches. A cache is refilled by DPDK_BUFFER_CACHE at a time.
 * The last buffers are for devices only: virtio's driver fills its whole ring, or nothing.
 */
enum {
	DPDK_BUFFER_LAST = DPDK_DEVICE_RING + XK_BURST + DPDK_BUFFER_CACHE,
	DPDK_BUFFER_RESERVE = DPDK_BUFFER_LAST + 256,
};

/* Returns true if the thread can allocate a buffer and leave `left` of them. */
static inline bool
dpdk_buffer_leaves(const struct rte_mempool *pool, unsigned left)
{
	unsigned core = rte_lcore_id(); /* DPDK's LCORE_ID_ANY for a thread without a cache */

	if (xk_likely(core < RTE_MAX_LCORE) && xk_likely(pool->local_cache[core].len > 0))
		return true;
	return rte_mempool_get_ops(pool->ops_index)->get_count(pool) > left;
}

bool
dpdk_buffers_are_short(struct xk_platform *platform)
{
	return !dpdk_buffer_leaves(((struct dpdk_platform *)platform)->pool, DPDK_BUFFER_RESERVE);
}

bool
dpdk_buffers_are_out(struct xk_platform *platform)
{
	return !dpdk_buffer_leaves(((struct dpdk_platform *)platform)->pool, DPDK_DEVICE_RING);
}

unsigned
dpdk_buffers(struct xk_platform *platform, unsigned threads)
{
	const struct dpdk_platform *self = dpdk_owner_of(platform);
	unsigned size = self->pool->size, cached = threads * DPDK_BUFFER_CACHE_MAX;
	unsigned taken = DPDK_BUFFER_RESERVE + (cached < size / 2 ? cached : size / 2) +
			 atomic_load_explicit(&self->in_rings, memory_order_relaxed);

	/* Rings and caches are never all full at once. dpdk_buffers_are_short makes the final decision. */
	return size > taken && size - taken > size / 8 ? size - taken : size / 8;
}

struct xk_msg *
dpdk_buffer_new(struct xk_platform *platform)
{
	struct rte_mempool *pool = ((struct dpdk_platform *)platform)->pool;
	struct rte_mbuf *m = xk_likely(dpdk_buffer_leaves(pool, DPDK_BUFFER_LAST)) ? rte_mbuf_raw_alloc(pool) : NULL;

	if (xk_unlikely(m == NULL))
		return NULL;
	dpdk_take(m);
	m->ol_flags = 0;
	return dpdk_buffer_show(platform, m, (uint8_t *)m->buf_addr + XK_MSG_HEADROOM, 0);
}

const _Atomic uint16_t dpdk_buffer_lent_count = 2;

/* Returns the mbuf that contains a segment's bytes, or NULL if they are lent. */
static inline struct rte_mbuf *
dpdk_buffer_home(const struct xk_msg *segment)
{
	struct rte_mbuf *owner = xk_container_of(segment->references, struct rte_mbuf, refcnt);

	if (segment->references == &dpdk_buffer_lent_count ||
	    segment->floor != (uint8_t *)(owner + 1) + owner->priv_size)
		return NULL;
	return owner;
}

/* Returns false if the bytes of a segment have too many references for another one. */
static inline bool
dpdk_buffer_is_referable(const struct xk_msg *segment)
{
	const _Atomic uint16_t *references = segment->references;

	if (xk_unlikely(references == &dpdk_buffer_lent_count))
		references = (const _Atomic uint16_t *)&dpdk_buffer_of(segment)->shinfo->refcnt;
	return xk_likely(atomic_load_explicit(references, memory_order_relaxed) < XK_BUFFER_REFERENCES);
}

/* Attaches m to the lent bytes of a segment. Other threads may do so at the same time: see dpdk_buffer_attach. */
XK_APART static void
dpdk_buffer_attach_lent(struct rte_mbuf *m, const struct xk_msg *segment)
{
	struct rte_mbuf *lent = dpdk_buffer_of(segment);
	_Atomic uint16_t *references = (_Atomic uint16_t *)&lent->shinfo->refcnt;

	atomic_fetch_add_explicit(references, 1, memory_order_relaxed);
	rte_pktmbuf_attach(m, lent);
	atomic_fetch_sub_explicit(references, 1, memory_order_relaxed);
}

/*
 * Attaches m to the buffer of a segment, like rte_pktmbuf_attach, but reads only the constant fields of the owner: a
 * device may be sending it, and the segment may be a copy of a freed one (buffer_hold). Several threads may attach to
 * kept bytes at once, and DPDK adds a second reference without an atomic operation.
 */
static inline void
dpdk_buffer_attach(struct rte_mbuf *m, const struct xk_msg *segment)
{
	struct rte_mbuf *owner = dpdk_buffer_home(segment);

	if (xk_unlikely(owner == NULL)) {
		dpdk_buffer_attach_lent(m, segment);
		return;
	}
	atomic_fetch_add_explicit(segment->references, 1, memory_order_relaxed);
	m->priv_size = owner->priv_size;
	m->buf_addr = owner->buf_addr;
	rte_mbuf_iova_set(m, rte_mbuf_iova_get(owner));
	m->buf_len = owner->buf_len;
	m->next = NULL;
	m->nb_segs = 1;
	m->ol_flags = RTE_MBUF_F_INDIRECT;
}

bool
dpdk_buffer_hold(struct xk_platform *platform, const struct xk_msg *segment)
{
	struct rte_mbuf *owner = dpdk_buffer_home(segment);

	(void)platform;
	if (owner == NULL || !dpdk_buffer_is_referable(segment))
		return false;
	rte_mbuf_refcnt_update(owner, 1);
	return true;
}

void
dpdk_buffer_let_go(struct xk_platform *platform, _Atomic uint16_t *references)
{
	struct rte_mbuf *m = xk_container_of(references, struct rte_mbuf, refcnt);

	(void)platform;
	dpdk_give(m); /* as in dpdk_buffer_free */
	m = rte_pktmbuf_prefree_seg(m);
	if (m == NULL)
		return;
	dpdk_give(m);
	rte_mbuf_raw_free(m);
}

struct xk_msg *
dpdk_buffer_view(struct xk_platform *platform, const struct xk_msg *segment)
{
	struct rte_mempool *pool = ((struct dpdk_platform *)platform)->pool;
	struct xk_msg *view;
	struct rte_mbuf *m = NULL;

	if (xk_likely(dpdk_buffer_leaves(pool, DPDK_BUFFER_RESERVE)) && dpdk_buffer_is_referable(segment))
		m = rte_mbuf_raw_alloc(pool);
	if (xk_unlikely(m == NULL))
		return NULL;
	dpdk_take(m);
	m->ol_flags = 0;
	dpdk_buffer_attach(m, segment);
	view = dpdk_buffer_show(platform, m, segment->data, segment->len);
	view->floor = segment->floor; /* a loan's bounds, which the mbuf does not have */
	view->ceiling = segment->ceiling;
	return view;
}

/* ---- lent bytes ---- */

void
dpdk_loan_end(void *bytes, void *argument)
{
	struct rte_mbuf *holder = argument;
	struct dpdk_loan *loan = holder->buf_addr;
	void (*given_back)(void *context) = loan->given_back;
	void *context = loan->context;

	(void)bytes; /* the part that the last mbuf showed */
	dpdk_after(&loan->shared);
	dpdk_give(holder);
	rte_mbuf_raw_free(holder);
	given_back(context);
}

struct xk_msg *
dpdk_buffer_lend(struct xk_platform *platform, const void *bytes, size_t len, void (*given_back)(void *context),
		 void *context)
{
	struct rte_mempool *pool = ((struct dpdk_platform *)platform)->pool;
	struct rte_mbuf *both[2];
	uint8_t *first = (uint8_t *)(uintptr_t)bytes;
	struct dpdk_loan *loan;
	struct xk_msg *segment;

	if (xk_unlikely(!dpdk_buffer_leaves(pool, DPDK_BUFFER_RESERVE) ||
			rte_mempool_get_bulk(pool, (void **)both, 2) != 0))
		return NULL;
	dpdk_take(both[0]);
	dpdk_take(both[1]);
	loan = both[1]->buf_addr;
	*loan = (struct dpdk_loan){ .shared = { .free_cb = dpdk_loan_end, .fcb_opaque = both[1], .refcnt = 1 },
				    .given_back = given_back,
				    .context = context,
				    .bytes = bytes,
				    .len = len };
	both[0]->ol_flags = 0;
	/* DPDK's length is 16 bits: it is set for the part of each frame when that is sent */
	rte_pktmbuf_attach_extbuf(both[0], first, RTE_BAD_IOVA, 0, &loan->shared);
	segment = dpdk_buffer_show(platform, both[0], first, (uint32_t)len);
	segment->ceiling = first + len;
	return segment;
}

/* Finds the bytes in DPDK's memory. If devices use physical addresses, the bytes must lie in one page. */
static rte_iova_t
dpdk_loan_find(const struct dpdk_loan *loan)
{
	const uint8_t *last = loan->bytes + (loan->len == 0 ? 0 : loan->len - 1);
	const struct rte_memseg_list *list = rte_mem_virt2memseg_list(loan->bytes);
	const struct rte_memseg *page;

	if (list == NULL || list->external || rte_mem_virt2memseg_list(last) != list)
		return RTE_BAD_IOVA;
	page = rte_mem_virt2memseg(loan->bytes, list);
	if (page == NULL || page->iova == RTE_BAD_IOVA ||
	    (rte_eal_iova_mode() != RTE_IOVA_VA && rte_mem_virt2memseg(last, list) != page))
		return RTE_BAD_IOVA;
	return page->iova + (rte_iova_t)(loan->bytes - (const uint8_t *)page->addr);
}

rte_iova_t
dpdk_loan_iova(struct dpdk_loan *loan)
{
	rte_iova_t iova = atomic_load_explicit(&loan->iova, memory_order_relaxed);

	if (iova == 0) {
		iova = dpdk_loan_find(loan);
		atomic_store_explicit(&loan->iova, iova, memory_order_relaxed);
	}
	return iova;
}

/* The alignment keeps the bytes within one page. */
void *
dpdk_lendable_new(struct xk_platform *platform, size_t len)
{
	(void)platform;
	if (len == 0)
		len = 1;
	return rte_malloc("xk_lendable", len, (unsigned)rte_align64pow2(len));
}

void
dpdk_lendable_free(struct xk_platform *platform, void *bytes)
{
	(void)platform;
	rte_free(bytes);
}

/* The reference count of freed segments. A freed mbuf's own is 1. */
static const _Atomic uint16_t dpdk_given_up = 0;

void
dpdk_buffer_free(struct xk_platform *platform, struct xk_msg *segment)
{
	struct rte_mbuf *m;

	(void)platform;
	if (xk_unlikely(xk_msg_is_given_up(segment)))
		xk_msg_misused(segment, "frees");
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
