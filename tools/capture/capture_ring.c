/* capture_ring.c - see capture_ring.h. */
#include "tools/capture/capture_ring.h"

#include <stdlib.h>
#include <string.h>

#include "xkernel/msg.h"

static_assert(CAPTURE_RING % sizeof(struct capture_record) == 0, "a filler has room before the end");

struct capture_ring *
capture_ring_new(unsigned interface)
{
	struct capture_ring *ring = aligned_alloc(64, (sizeof(*ring) + 63) & ~(size_t)63);

	if (ring == NULL)
		return NULL;
	memset(ring, 0, sizeof(*ring));
	ring->interface = interface;
	ring->bytes = malloc(CAPTURE_RING);
	if (ring->bytes != NULL)
		return ring;
	free(ring);
	return NULL;
}

void
capture_ring_free(struct capture_ring *ring)
{
	free(ring->bytes);
	free(ring);
}

/* ---- putting ---- */

static void
capture_ring_see_tail(struct capture_ring *ring)
{
	ring->free_from = atomic_load_explicit(&ring->tail, memory_order_acquire);
}

/* Returns room for a record of size bytes, in one piece. NULL: the ring is full. */
static struct capture_record *
capture_ring_begin(struct capture_ring *ring, size_t size)
{
	size_t offset = ring->begun % CAPTURE_RING, left = CAPTURE_RING - offset;
	size_t end = ring->begun + (left < size ? left + size : size);
	struct capture_record *record = (struct capture_record *)(ring->bytes + offset);

	if (end - ring->free_from > CAPTURE_RING)
		capture_ring_see_tail(ring);
	if (end - ring->free_from > CAPTURE_RING)
		return NULL;
	if (left < size) {
		*record = (struct capture_record){ .size = (uint32_t)left, .is_filler = true };
		record = (struct capture_record *)ring->bytes;
	}
	ring->begun = end;
	return record;
}

bool
capture_ring_put(struct capture_ring *ring, const struct xk_msg *m, uint64_t at_ns, enum pcapng_direction direction,
		 const char *comment)
{
	const size_t unit = sizeof(struct capture_record);
	size_t len = xk_msg_len(m), kept = len < PCAPNG_FRAME_MAX ? len : PCAPNG_FRAME_MAX;
	size_t size = (unit + kept + unit - 1) / unit * unit;
	struct capture_record *record = capture_ring_begin(ring, size);

	if (record == NULL)
		return false;
	*record = (struct capture_record){
		.at_ns = at_ns, .comment = comment, .size = (uint32_t)size, .len = (uint32_t)len, .direction = direction
	};
	xk_msg_copy_first(m, record + 1, kept);
	return true;
}

static void
capture_ring_count(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

void
capture_ring_publish(struct capture_ring *ring, size_t end, uint64_t kept, uint64_t dropped)
{
	ring->begun = end;
	capture_ring_count(&ring->kept, kept);
	capture_ring_count(&ring->dropped, dropped);
	atomic_store_explicit(&ring->head, end, memory_order_release);
}

bool
capture_ring_is_filling(struct capture_ring *ring)
{
	if (ring->begun - ring->free_from <= CAPTURE_RING / 4)
		return false;
	capture_ring_see_tail(ring);
	return ring->begun - ring->free_from > CAPTURE_RING / 4;
}

/* ---- taking ---- */

void
capture_ring_look(struct capture_ring *ring)
{
	ring->seen = atomic_load_explicit(&ring->head, memory_order_acquire);
}

void
capture_ring_done(struct capture_ring *ring, const struct capture_record *record)
{
	size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed) + record->size;

	atomic_store_explicit(&ring->tail, tail, memory_order_release);
}

const struct capture_record *
capture_ring_next(struct capture_ring *ring)
{
	for (;;) {
		size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
		const struct capture_record *record =
			(const struct capture_record *)(ring->bytes + tail % CAPTURE_RING);

		if (tail == ring->seen)
			return NULL;
		if (!record->is_filler)
			return record;
		capture_ring_done(ring, record);
	}
}
