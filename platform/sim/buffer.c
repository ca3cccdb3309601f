/*
 * buffer.c - buffers from malloc.
 *
 * A block is a buffer with the descriptor of its first view; further views are descriptors of their own. The block goes
 * with the last view, whichever that is. Under the address sanitizer the first descriptor, once given back, and a
 * fence in front of the bytes are poisoned, so that the block is as closely watched as several mallocs would be.
 */
#include <stdlib.h>

#include "platform/sim/inside.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEMORY_POISONS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(MEMORY_POISONS)
#include <sanitizer/asan_interface.h>
#define memory_poison(p, len) ASAN_POISON_MEMORY_REGION(p, len)
#define memory_unpoison(p, len) ASAN_UNPOISON_MEMORY_REGION(p, len)
#else
#define memory_poison(p, len) ((void)(p), (void)(len))
#define memory_unpoison(p, len) ((void)(p), (void)(len))
#endif

enum {
	MEMORY_ROOM = XK_MSG_HEADROOM + XK_MSG_SEGMENT,
	MEMORY_FENCE = 64,
	MEMORY_REFERENCES = UINT16_MAX - 255, /* views of one block, at most */
};

/* references comes first: it is what every view knows of its block. */
struct memory_block {
	_Atomic uint16_t references;
	struct xk_msg segment;
	struct memory_block *next_free;
	size_t room;
	uint8_t fence[MEMORY_FENCE];
	uint8_t bytes[];
};

/* One more segment is out. False: the limit does not allow it. */
static bool
memory_count_up(struct memory_platform *self)
{
	unsigned out = atomic_load_explicit(&self->out, memory_order_relaxed);

	if (self->kept != NULL) {
		if (out >= atomic_load_explicit(&self->limit, memory_order_relaxed))
			return false;
		atomic_store_explicit(&self->out, out + 1, memory_order_relaxed);
		return true;
	}
	do {
		if (out >= atomic_load_explicit(&self->limit, memory_order_relaxed))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&self->out, &out, out + 1, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

static void
memory_count_down(struct memory_platform *self)
{
	if (self->kept != NULL)
		atomic_store_explicit(&self->out, atomic_load_explicit(&self->out, memory_order_relaxed) - 1,
				      memory_order_relaxed);
	else
		atomic_fetch_sub_explicit(&self->out, 1, memory_order_relaxed);
}

static struct memory_block *
memory_block_of(const struct xk_msg *segment)
{
	return xk_container_of(segment->references, struct memory_block, references);
}

static struct memory_block *
memory_block_alloc(struct memory_platform *self, size_t room)
{
	struct memory_block *block = self->kept == NULL ? NULL : self->kept->blocks;

	if (block != NULL && room <= MEMORY_ROOM) {
		self->kept->blocks = block->next_free;
		memory_unpoison(&block->segment, sizeof(block->segment));
		block->segment.platform = &self->platform;
		return block;
	}
	if (self->kept != NULL && room < MEMORY_ROOM)
		room = MEMORY_ROOM;
	block = malloc(sizeof(*block) + room);
	if (block == NULL)
		return NULL;
	block->room = room;
	block->segment.references = &block->references;
	block->segment.floor = block->bytes;
	block->segment.ceiling = block->bytes + room;
	block->segment.platform = &self->platform;
	memory_poison(block->fence, sizeof(block->fence));
	return block;
}

/* The first view of a fresh buffer of so many bytes. */
static struct xk_msg *
memory_block_new(struct memory_platform *self, size_t room)
{
	struct memory_block *block;
	struct xk_msg *segment;

	if (!memory_count_up(self))
		return NULL;
	block = memory_block_alloc(self, room);
	if (block == NULL) {
		memory_count_down(self);
		return NULL;
	}
	atomic_store_explicit(&block->references, 1, memory_order_relaxed);
	segment = &block->segment;
	segment->data = segment->floor + XK_MSG_HEADROOM;
	segment->len = 0;
	segment->total = 0;
	segment->next = NULL;
	segment->tail = segment;
	segment->link = NULL;
	segment->id = 0;
	segment->flags = 0;
	return segment;
}

struct xk_msg *
memory_buffer_new(struct xk_platform *platform)
{
	return memory_block_new(memory_of(platform), MEMORY_ROOM);
}

static struct xk_msg *
memory_view_alloc(struct memory_platform *self)
{
	struct xk_msg *view = self->kept == NULL ? NULL : self->kept->views;

	if (view == NULL)
		return malloc(sizeof(*view));
	self->kept->views = view->link;
	return view;
}

struct xk_msg *
memory_buffer_view(struct xk_platform *platform, const struct xk_msg *segment)
{
	struct memory_platform *self = memory_of(platform);
	struct xk_msg *view;

	if (atomic_load_explicit(segment->references, memory_order_relaxed) >= MEMORY_REFERENCES)
		return NULL;
	if (!memory_count_up(self))
		return NULL;
	view = memory_view_alloc(self);
	if (view == NULL) {
		memory_count_down(self);
		return NULL;
	}
	atomic_fetch_add_explicit(segment->references, 1, memory_order_relaxed);
	*view = (struct xk_msg){
		.data = segment->data,
		.len = segment->len,
		.tail = view,
		.references = segment->references,
		.floor = segment->floor,
		.ceiling = segment->ceiling,
		.platform = platform,
	};
	return view;
}

/* Ends a descriptor; the buffer's bytes may have other views. */
static void
memory_segment_end(struct memory_platform *self, struct memory_block *block, struct xk_msg *segment)
{
	if (segment == &block->segment) {
		memory_poison(segment, sizeof(*segment));
	} else if (self->kept != NULL) {
		segment->link = self->kept->views;
		self->kept->views = segment;
	} else {
		free(segment);
	}
}

static void
memory_block_free(struct memory_platform *self, struct memory_block *block)
{
	if (self->kept != NULL && block->room == MEMORY_ROOM) {
		block->next_free = self->kept->blocks;
		self->kept->blocks = block;
	} else {
		free(block);
	}
}

void
memory_buffer_free(struct xk_platform *platform, struct xk_msg *segment)
{
	struct memory_platform *self = memory_of(platform);
	struct memory_block *block = memory_block_of(segment);

	memory_segment_end(self, block, segment);
	if (atomic_load_explicit(&block->references, memory_order_acquire) == 1 ||
	    atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel) == 1)
		memory_block_free(self, block);
	memory_count_down(self);
}

unsigned
memory_buffers_out(struct xk_platform *platform)
{
	return atomic_load_explicit(&memory_of(platform)->out, memory_order_relaxed);
}

struct xk_msg *
xk_memory_frame(struct xk_platform *platform, size_t len)
{
	struct xk_msg *m;

	if (len > XK_MSG_MAX)
		return NULL;
	m = memory_block_new(memory_of(platform), XK_MSG_HEADROOM + len);
	if (m == NULL)
		return NULL;
	m->len = m->total = (uint32_t)len;
	return m;
}

void
memory_buffer_free_kept(struct memory_kept *kept)
{
	while (kept->blocks != NULL) {
		struct memory_block *block = kept->blocks;

		kept->blocks = block->next_free;
		free(block);
	}
	while (kept->views != NULL) {
		struct xk_msg *view = kept->views;

		kept->views = view->link;
		free(view);
	}
}
