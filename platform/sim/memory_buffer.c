/*
 * memory_buffer.c - buffers from malloc.
 *
 * A block is a buffer with the descriptor of its first view; further views are separate descriptors. The last view to
 * be freed, whichever it is, frees the block. Lent bytes have a block too, whose own bytes are not used. Its extra
 * reference, MEMORY_LENT, makes the bytes shared, so that nobody writes to them.
 *
 * A recycling platform keeps segments for its driver's thread, which takes and frees them without atomic operations.
 * Blocks of that thread that other threads free return by a separate stack (`returned`). Segments allocated by other
 * threads go back to malloc, whichever thread frees them.
 *
 * A freed segment is marked (xk_msg_is_given_up) until it is reused or returned to malloc. Segments are listed in debug
 * builds, and wherever that costs messages nothing. Under the address sanitizer, the first descriptor, once freed, and
 * a fence in front of the bytes are poisoned, which detects misuse as separate mallocs would.
 */
#include <stdlib.h>

#include "platform/sim/memory_private.h"

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
	MEMORY_RESERVE = 64, /* maximum number of buffers reserved for ports and short messages */
	MEMORY_LENT = 1,     /* the lender's reference, without a view */
};

/* The members that free() may overwrite come first, so that the mark of a freed block survives for a while. */
struct memory_block {
	struct memory_block *next_free;
	size_t room; /* bytes behind the fence */
	struct memory_out out;
	void (*given_back)(void *context); /* NULL: the block shows its own bytes, not lent ones */
	void *context;
	_Atomic uint16_t references; /* every view points here */
	struct xk_msg segment;
	uint8_t fence[MEMORY_FENCE];
	uint8_t bytes[];
};

/* A further view of a block. */
struct memory_view {
	struct memory_out out;
	struct xk_msg segment;
};

/* The reference count of freed segments whose block has other views. */
static const _Atomic uint16_t memory_given_up = 0;

/* ---- the list of segments ---- */

#ifdef XK_DEBUG
enum { MEMORY_LISTS_ALL = true };
#else
enum { MEMORY_LISTS_ALL = false };
#endif

static inline bool
memory_is_listed(const struct memory_out *out)
{
	return out->is_kept || MEMORY_LISTS_ALL;
}

static void
memory_list_add(struct memory_platform *self, struct memory_out *out, struct xk_msg *segment, bool is_kept)
{
	struct memory_out **first = &self->kept->all;

	*out = (struct memory_out){ .segment = segment, .is_kept = is_kept };
	if (!memory_is_listed(out))
		return;
	pthread_mutex_lock(&self->list_lock);
	out->next = *first;
	out->at = first;
	if (out->next != NULL)
		out->next->at = &out->next;
	*first = out;
	pthread_mutex_unlock(&self->list_lock);
}

static void
memory_list_remove(struct memory_platform *self, struct memory_out *out)
{
	if (!memory_is_listed(out))
		return;
	pthread_mutex_lock(&self->list_lock);
	*out->at = out->next;
	if (out->next != NULL)
		out->next->at = out->at;
	pthread_mutex_unlock(&self->list_lock);
}

/* Returns the segment if it is in use and belongs to the platform, else NULL. */
static struct xk_msg *
memory_out_of(const struct xk_platform *platform, const struct memory_out *out)
{
	struct xk_msg *segment = out->segment;

	if (segment == NULL || segment->platform != platform || xk_msg_is_given_up(segment))
		return NULL;
	return segment;
}

void
memory_each_out(struct xk_platform *platform, void (*see)(void *context, const struct xk_msg *segment), void *context)
{
	for (struct memory_out *out = memory_of(platform)->kept->all; out != NULL; out = out->next)
		if (memory_out_of(platform, out) != NULL)
			see(context, out->segment);
}

void
memory_forget_out(struct memory_platform *self)
{
	if (memory_buffers_out(&self->platform) == 0)
		return;
	for (struct memory_out *out = self->kept->all; out != NULL; out = out->next)
		if (memory_out_of(&self->platform, out) != NULL)
			out->segment->platform = NULL;
	atomic_store_explicit(&self->out, 0, memory_order_relaxed);
	atomic_store_explicit(&self->others_out, 0, memory_order_relaxed);
}

/* ---- counts ---- */

static inline unsigned
memory_segment_count(const struct memory_platform *self)
{
	return atomic_load_explicit(&self->out, memory_order_relaxed) +
	       atomic_load_explicit(&self->others_out, memory_order_relaxed);
}

unsigned
memory_buffers_out(struct xk_platform *platform)
{
	return memory_segment_count(memory_of(platform));
}

/*
 * The reserve suffices for a burst of frames and answers, or is a part of a small limit. Short messages get half of it.
 */
void
memory_buffers_limit(struct memory_platform *self, unsigned count)
{
	unsigned reserve = count / 32 < MEMORY_RESERVE ? count / 32 : MEMORY_RESERVE;

	atomic_store_explicit(&self->limit, count, memory_order_relaxed);
	atomic_store_explicit(&self->payload_limit, count - reserve, memory_order_relaxed);
	atomic_store_explicit(&self->short_limit, count - reserve / 2, memory_order_relaxed);
}

/*
 * Returns true if the number of segments in use has reached the limit. Reads twice: a reader preempted between the two
 * counts misses a segment that one thread took and another has freed meanwhile.
 */
static inline bool
memory_has_reached(const struct memory_platform *self, const _Atomic unsigned *limit)
{
	unsigned most = atomic_load_explicit(limit, memory_order_relaxed);

	return memory_segment_count(self) >= most && memory_segment_count(self) >= most;
}

bool
memory_buffers_are_short(struct xk_platform *platform)
{
	const struct memory_platform *self = memory_of(platform);

	return memory_has_reached(self, &self->payload_limit);
}

unsigned
memory_buffers(struct xk_platform *platform, unsigned threads)
{
	(void)threads;
	return atomic_load_explicit(&memory_of(platform)->payload_limit, memory_order_relaxed);
}

/* Counts a segment that the calling thread has taken (1) or freed (-1). */
static inline void
memory_count(struct memory_platform *self, bool is_mine, int change)
{
	unsigned out = atomic_load_explicit(&self->out, memory_order_relaxed);

	if (is_mine)
		atomic_store_explicit(&self->out, out + (unsigned)change, memory_order_relaxed);
	else
		atomic_fetch_add_explicit(&self->others_out, (unsigned)change, memory_order_relaxed);
}

/* Counts one more segment in use. Returns false if that exceeds the limit. */
static inline bool
memory_count_up(struct memory_platform *self, bool is_mine, const _Atomic unsigned *limit)
{
	if (xk_unlikely(memory_has_reached(self, limit)))
		return false;
	memory_count(self, is_mine, 1);
	return true;
}

/* Allocates a block by malloc, because no kept one fits. */
XK_APART static struct memory_block *
memory_block_malloc(struct memory_platform *self, bool is_mine, size_t room)
{
	struct memory_block *block;

	if (is_mine && room < MEMORY_ROOM)
		room = MEMORY_ROOM;
	block = malloc(sizeof(*block) + room);
	if (block == NULL)
		return NULL;
	block->room = room;
	block->given_back = NULL;
	block->segment.references = &block->references;
	block->segment.floor = block->bytes;
	block->segment.ceiling = block->bytes + room;
	block->segment.platform = &self->platform;
	block->segment.len = block->segment.total = 0;
	memory_list_add(self, &block->out, &block->segment, is_mine && room == MEMORY_ROOM);
	memory_poison(block->fence, sizeof(block->fence));
	return block;
}

/* Takes back the blocks that other threads have freed. */
static struct memory_block *
memory_take_returned(struct memory_kept *kept)
{
	if (atomic_load_explicit(&kept->returned, memory_order_relaxed) == NULL)
		return NULL;
	return atomic_exchange_explicit(&kept->returned, NULL, memory_order_acquire);
}

static inline struct memory_block *
memory_block_alloc(struct memory_platform *self, bool is_mine, size_t room)
{
	struct memory_block *block, *next;

	if (xk_unlikely(!is_mine || room > MEMORY_ROOM))
		return memory_block_malloc(self, is_mine, room);
	block = self->kept->blocks;
	if (xk_unlikely(block == NULL))
		block = memory_take_returned(self->kept);
	if (xk_unlikely(block == NULL))
		return memory_block_malloc(self, is_mine, room);
	next = block->next_free;
	self->kept->blocks = next;
	if (xk_likely(next != NULL)) { /* among many, it is no longer in the first cache */
		__builtin_prefetch(next, 1);
		__builtin_prefetch(&next->segment.link, 1);
	}
	block->segment.platform = &self->platform;
	return block;
}

/* Resets what a segment knows about the message it was part of. */
static inline void
memory_reset(struct xk_msg *segment)
{
#ifdef XK_DEBUG
	segment->crossings = 0;
#endif
	segment->next = NULL;
	segment->tail = segment;
	segment->link = NULL;
	segment->id = 0;
	segment->flags = 0;
	segment->owner = NULL;
}

/*
 * Returns the first view of a new buffer of `room` bytes. Its length was already zeroed when it was freed or allocated.
 */
static inline struct xk_msg *
memory_block_new(struct memory_platform *self, size_t room, const _Atomic unsigned *limit)
{
	bool is_mine = memory_is_mine(self);
	struct memory_block *block;
	struct xk_msg *segment;

	if (!memory_count_up(self, is_mine, limit))
		return NULL;
	block = memory_block_alloc(self, is_mine, room);
	if (block == NULL) {
		memory_count(self, is_mine, -1);
		return NULL;
	}
	atomic_store_explicit(&block->references, 1, memory_order_relaxed);
	segment = &block->segment;
	segment->data = segment->floor + XK_MSG_HEADROOM;
	segment->own_end = segment->ceiling;
	memory_reset(segment);
	return segment;
}

struct xk_msg *
memory_buffer_new(struct xk_platform *platform)
{
	struct memory_platform *self = memory_of(platform);

	return memory_block_new(self, MEMORY_ROOM, &self->short_limit);
}

XK_APART static struct xk_msg *
memory_view_malloc(struct memory_platform *self, bool is_mine)
{
	struct memory_view *view = malloc(sizeof(*view));

	if (view == NULL)
		return NULL;
	memory_list_add(self, &view->out, &view->segment, is_mine);
	return &view->segment;
}

static inline struct xk_msg *
memory_view_alloc(struct memory_platform *self, bool is_mine)
{
	struct xk_msg *segment = is_mine ? self->kept->views : NULL;

	if (xk_unlikely(segment == NULL))
		return memory_view_malloc(self, is_mine);
	self->kept->views = segment->link;
	return segment;
}

/* Returns the count of a block's references if there is one view, or hold. */
static uint16_t
memory_sole(const struct memory_block *block)
{
	return block->given_back == NULL ? 1 : MEMORY_LENT + 1;
}

struct xk_msg *
memory_buffer_view(struct xk_platform *platform, const struct xk_msg *segment)
{
	struct memory_platform *self = memory_of(platform);
	struct memory_block *block = xk_container_of(segment->references, struct memory_block, references);
	uint16_t references = atomic_load_explicit(&block->references, memory_order_acquire);
	bool is_mine = memory_is_mine(self);
	struct xk_msg *view;

	if (references >= XK_BUFFER_REFERENCES || !memory_count_up(self, is_mine, &self->payload_limit))
		return NULL;
	view = memory_view_alloc(self, is_mine);
	if (view == NULL) {
		memory_count(self, is_mine, -1);
		return NULL;
	}
	/* of kept bytes (msg.h), which have no segment of their own, several threads may make views at once */
	if (segment == &block->segment && references == memory_sole(block))
		atomic_store_explicit(&block->references, references + 1, memory_order_relaxed);
	else
		atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
	view->data = segment->data;
	view->len = segment->len;
	view->total = 0;
	view->references = segment->references;
	view->floor = segment->floor;
	view->ceiling = segment->ceiling;
	view->platform = platform;
	memory_reset(view);
	return view;
}

bool
memory_buffer_hold(struct xk_platform *platform, const struct xk_msg *segment)
{
	struct memory_platform *self = memory_of(platform);
	struct memory_block *block = xk_container_of(segment->references, struct memory_block, references);

	if (atomic_load_explicit(&block->references, memory_order_relaxed) >= XK_BUFFER_REFERENCES ||
	    block->given_back != NULL || !memory_count_up(self, memory_is_mine(self), &self->payload_limit))
		return false;
	atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
	return true;
}

static void
memory_view_free(struct memory_platform *self, bool is_mine, struct xk_msg *segment)
{
	struct memory_view *view = xk_container_of(segment, struct memory_view, segment);

	segment->len = segment->total = 0;
	segment->references = (_Atomic uint16_t *)(uintptr_t)&memory_given_up;
	if (is_mine && view->out.is_kept) {
		segment->link = self->kept->views;
		self->kept->views = segment;
		return;
	}
	memory_list_remove(self, &view->out);
	free(view);
}

/* Slow half of memory_block_free: the block is not kept, or another thread frees it. */
XK_APART static void
memory_block_return(struct memory_platform *self, struct memory_block *block)
{
	if (block->out.is_kept) {
		block->next_free = atomic_load_explicit(&self->kept->returned, memory_order_relaxed);
		while (!atomic_compare_exchange_weak_explicit(&self->kept->returned, &block->next_free, block,
							      memory_order_release, memory_order_relaxed))
			continue;
	} else {
		memory_list_remove(self, &block->out);
		free(block);
	}
	memory_count(self, memory_is_mine(self), -1);
}

/* Frees a block without views, and counts its last view as freed. Its first descriptor is in the state of a new one. */
static inline void
memory_block_free(struct memory_platform *self, struct memory_block *block)
{
	struct memory_kept *kept = self->kept;

	atomic_store_explicit(&block->references, 0, memory_order_relaxed);
	if (xk_unlikely(!memory_is_mine(self) || !block->out.is_kept)) {
		memory_block_return(self, block);
		return;
	}
	block->next_free = kept->blocks;
	kept->blocks = block;
	memory_count(self, true, -1);
}

/* Frees the block of lent bytes, and returns the bytes last: their owner may free the platform then. */
static void
memory_block_give_back(struct memory_platform *self, struct memory_block *block)
{
	void (*given_back)(void *context) = block->given_back;
	void *context = block->context;

	block->given_back = NULL;
	block->segment.floor = block->bytes;
	block->segment.ceiling = block->bytes + block->room;
	memory_block_free(self, block);
	given_back(context);
}

/* Drops a reference on block that was counted as a segment, and frees the block after the last one. */
static inline void
memory_block_release(struct memory_platform *self, bool is_mine, struct memory_block *block)
{
	uint16_t last = memory_sole(block);

	if (atomic_load_explicit(&block->references, memory_order_acquire) != last &&
	    atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel) != last) {
		memory_count(self, is_mine, -1);
		return;
	}
	memory_unpoison(&block->segment, sizeof(block->segment));
	block->segment.references = &block->references;
	block->out.segment = &block->segment;
	if (block->given_back != NULL)
		memory_block_give_back(self, block);
	else
		memory_block_free(self, block);
}

/* Slow half of memory_buffer_free: the buffer has had further views, or the segment was already freed. */
__attribute__((noinline)) static void
memory_buffer_free_view(struct memory_platform *self, struct memory_block *block, struct xk_msg *segment)
{
	bool is_mine = memory_is_mine(self);

	if (xk_msg_is_given_up(segment))
		xk_msg_misused(segment, "frees");
	if (segment == &block->segment) {
		segment->len = segment->total = 0;
		segment->references = (_Atomic uint16_t *)(uintptr_t)&memory_given_up;
		block->out.segment = NULL;
		memory_poison(segment, sizeof(*segment));
	} else {
		memory_view_free(self, is_mine, segment);
	}
	memory_block_release(self, is_mine, block);
}

void
memory_buffer_let_go(struct xk_platform *platform, _Atomic uint16_t *references)
{
	struct memory_platform *self = memory_of(platform);

	memory_block_release(self, memory_is_mine(self), xk_container_of(references, struct memory_block, references));
}

void
memory_buffer_free(struct xk_platform *platform, struct xk_msg *segment)
{
	struct memory_platform *self = memory_of(platform);
	struct memory_block *block = xk_container_of(segment->references, struct memory_block, references);

	if (xk_unlikely(segment != &block->segment ||
			atomic_load_explicit(&block->references, memory_order_acquire) != 1)) {
		memory_buffer_free_view(self, block, segment);
		return;
	}
	segment->len = segment->total = 0;
	memory_block_free(self, block);
}

struct xk_msg *
xk_memory_frame(struct xk_platform *platform, size_t len)
{
	struct memory_platform *self = memory_of(platform);
	struct xk_msg *m;

	if (len > XK_MSG_MAX)
		return NULL;
	m = memory_block_new(self, XK_MSG_HEADROOM + len, &self->limit);
	if (m == NULL)
		return NULL;
	m->len = m->total = (uint32_t)len;
	return m;
}

struct xk_msg *
memory_buffer_lend(struct xk_platform *platform, const void *bytes, size_t len, void (*given_back)(void *context),
		   void *context)
{
	struct memory_platform *self = memory_of(platform);
	struct xk_msg *m = memory_block_new(self, XK_MSG_HEADROOM, &self->payload_limit);
	struct memory_block *block;

	if (m == NULL)
		return NULL;
	block = xk_container_of(m, struct memory_block, segment);
	block->given_back = given_back;
	block->context = context;
	atomic_store_explicit(&block->references, MEMORY_LENT + 1, memory_order_relaxed);
	m->data = m->floor = m->own_end = (uint8_t *)(uintptr_t)bytes;
	m->ceiling = m->data + len;
	m->len = (uint32_t)len;
	return m;
}

static void
memory_blocks_free(struct memory_block *block)
{
	while (block != NULL) {
		struct memory_block *next = block->next_free;

		free(block);
		block = next;
	}
}

void
memory_buffer_free_kept(struct memory_kept *kept)
{
	memory_blocks_free(kept->blocks);
	memory_blocks_free(memory_take_returned(kept));
	while (kept->views != NULL) {
		struct xk_msg *view = kept->views;

		kept->views = view->link;
		free(xk_container_of(view, struct memory_view, segment));
	}
}
