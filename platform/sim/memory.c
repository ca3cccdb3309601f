/*
 * memory.c - the platform in memory; see memory.h.
 *
 * A block is a buffer with the descriptor of its first view; further views are descriptors of their own. The block goes
 * with the last view, whichever that is. Under the address sanitizer the first descriptor, once given back, and a
 * fence in front of the bytes are poisoned, so that the block is as closely watched as several mallocs would be.
 */
#include "platform/sim/memory.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "platform/clock.h"

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
	MEMORY_REFERENCES = UINT16_MAX - 255,
	MEMORY_CLOCK_SPAN_NS = 5 * 1000 * 1000,
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

struct memory_platform {
	struct xk_platform platform;
	enum xk_memory_clock clock;
	struct clock counter; /* while recycling */
	_Atomic unsigned out, limit;
	bool recycles;
	struct memory_block *free_blocks; /* of a recycling platform, as is free_views (by link) */
	struct xk_msg *free_views;
	_Atomic uint64_t virtual_ns;
	uint64_t until_ns;
	void (*idle)(void *context);
	void *idle_context;
	pthread_mutex_t lock; /* over woken */
	pthread_cond_t changed;
	bool woken;
};

struct memory_queue {
	struct xk_msg *first, **last; /* by link */
	unsigned count;
};

struct memory_port {
	struct xk_port port;
	pthread_mutex_t lock; /* over the queues, the limit and armed; taken after a wire's */
	struct memory_queue arrived, sent;
	unsigned transmit_limit;
	bool armed;
	struct memory_wire *wire; /* NULL: not connected */
	unsigned side;            /* which end of the wire this is */
	xk_memory_receive *receive;
	xk_memory_transmit *transmit;
	void *context;
	char name[];
};

/* Between two ports; goes with the second of them. */
struct memory_wire {
	pthread_mutex_t lock; /* a port at an end lives at least as long as it is held */
	struct memory_port *ends[2];
};

static struct memory_platform *
memory_of(struct xk_platform *platform)
{
	return xk_container_of(platform, struct memory_platform, platform);
}

/* ---- buffers ---- */

/* One more segment is out. False: the limit does not allow it. */
static bool
memory_count_up(struct memory_platform *self)
{
	unsigned out = atomic_load_explicit(&self->out, memory_order_relaxed);

	if (self->recycles) {
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
	if (self->recycles)
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
	struct memory_block *block = self->free_blocks;

	if (block != NULL && room <= MEMORY_ROOM) {
		self->free_blocks = block->next_free;
		memory_unpoison(&block->segment, sizeof(block->segment));
		return block;
	}
	if (self->recycles && room < MEMORY_ROOM)
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

static struct xk_msg *
memory_buffer_new(struct xk_platform *platform)
{
	return memory_block_new(memory_of(platform), MEMORY_ROOM);
}

static struct xk_msg *
memory_view_alloc(struct memory_platform *self)
{
	struct xk_msg *view = self->free_views;

	if (view == NULL)
		return malloc(sizeof(*view));
	self->free_views = view->link;
	return view;
}

static struct xk_msg *
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
	} else if (self->recycles) {
		segment->link = self->free_views;
		self->free_views = segment;
	} else {
		free(segment);
	}
}

static void
memory_block_free(struct memory_platform *self, struct memory_block *block)
{
	if (self->recycles && block->room == MEMORY_ROOM) {
		block->next_free = self->free_blocks;
		self->free_blocks = block;
	} else {
		free(block);
	}
}

static void
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

static unsigned
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

/* ---- time ---- */

static uint64_t
memory_now_ns(struct xk_platform *platform)
{
	struct memory_platform *self = memory_of(platform);

	if (self->clock == XK_MEMORY_REAL)
		return clock_system_ns();
	return atomic_load_explicit(&self->virtual_ns, memory_order_acquire);
}

/* Waits on the real clock until it has been woken, which it then forgets, or until deadline_ns. */
static void
memory_wait(struct memory_platform *self, uint64_t deadline_ns)
{
	struct timespec deadline = { .tv_sec = (time_t)(deadline_ns / 1000000000),
				     .tv_nsec = (long)(deadline_ns % 1000000000) };
	int error = 0;

	pthread_mutex_lock(&self->lock);
	while (!self->woken && error == 0) {
		if (deadline_ns == UINT64_MAX)
			error = pthread_cond_wait(&self->changed, &self->lock);
		else
			error = pthread_cond_timedwait(&self->changed, &self->lock, &deadline);
	}
	self->woken = false;
	pthread_mutex_unlock(&self->lock);
}

static bool
memory_take_wake(struct memory_platform *self)
{
	bool woken;

	pthread_mutex_lock(&self->lock);
	woken = self->woken;
	self->woken = false;
	pthread_mutex_unlock(&self->lock);
	return woken;
}

static void
memory_pass_until(struct memory_platform *self, uint64_t ns)
{
	if (ns > atomic_load_explicit(&self->virtual_ns, memory_order_relaxed))
		atomic_store_explicit(&self->virtual_ns, ns, memory_order_release);
}

static void
memory_sleep(struct xk_platform *platform, uint64_t deadline_ns)
{
	struct memory_platform *self = memory_of(platform);

	if (self->clock == XK_MEMORY_REAL) {
		memory_wait(self, deadline_ns);
		return;
	}
	if (memory_take_wake(self))
		return;
	if (deadline_ns != UINT64_MAX && deadline_ns <= self->until_ns) {
		memory_pass_until(self, deadline_ns);
		return;
	}
	if (self->until_ns != UINT64_MAX)
		memory_pass_until(self, self->until_ns);
	if (self->idle != NULL)
		self->idle(self->idle_context);
	else
		memory_wait(self, UINT64_MAX);
}

static void
memory_wake(struct xk_platform *platform)
{
	struct memory_platform *self = memory_of(platform);

	pthread_mutex_lock(&self->lock);
	self->woken = true;
	pthread_cond_signal(&self->changed);
	pthread_mutex_unlock(&self->lock);
}

void
xk_memory_advance(struct xk_platform *platform, uint64_t ns)
{
	struct memory_platform *self = memory_of(platform);

	xk_assert(self->clock == XK_MEMORY_VIRTUAL);
	atomic_fetch_add_explicit(&self->virtual_ns, ns, memory_order_release);
}

void
xk_memory_run_until(struct xk_platform *platform, uint64_t until_ns)
{
	memory_of(platform)->until_ns = until_ns;
}

void
xk_memory_on_idle(struct xk_platform *platform, void (*idle)(void *context), void *context)
{
	memory_of(platform)->idle = idle;
	memory_of(platform)->idle_context = context;
}

/* ---- the platform ---- */

static const struct xk_platform_ops memory_platform_ops = {
	.now_ns = memory_now_ns,
	.buffer_new = memory_buffer_new,
	.buffer_view = memory_buffer_view,
	.buffer_free = memory_buffer_free,
	.buffers_out = memory_buffers_out,
	.sleep = memory_sleep,
	.wake = memory_wake,
};

/* For benchmarks: the clock as platforms with real ports read it. */
static uint64_t
memory_counter_ns(struct xk_platform *platform)
{
	return clock_now_ns(&memory_of(platform)->counter);
}

static const struct xk_platform_ops memory_bench_ops = {
	.now_ns = memory_counter_ns,
	.buffer_new = memory_buffer_new,
	.buffer_view = memory_buffer_view,
	.buffer_free = memory_buffer_free,
	.buffers_out = memory_buffers_out,
	.sleep = memory_sleep,
	.wake = memory_wake,
};

struct xk_platform *
xk_memory_platform_new(enum xk_memory_clock clock)
{
	struct memory_platform *self = calloc(1, sizeof(*self));
	pthread_condattr_t attributes;

	if (self == NULL)
		return NULL;
	self->platform.ops = &memory_platform_ops;
	self->clock = clock;
	self->platform.virtual_time = clock == XK_MEMORY_VIRTUAL;
	self->until_ns = UINT64_MAX;
	atomic_init(&self->limit, UINT_MAX);
	pthread_mutex_init(&self->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&self->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	return &self->platform;
}

void
xk_memory_platform_free(struct xk_platform *platform)
{
	struct memory_platform *self = memory_of(platform);

	while (self->free_blocks != NULL) {
		struct memory_block *block = self->free_blocks;

		self->free_blocks = block->next_free;
		free(block);
	}
	while (self->free_views != NULL) {
		struct xk_msg *view = self->free_views;

		self->free_views = view->link;
		free(view);
	}
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->lock);
	free(self);
}

void
xk_memory_platform_limit(struct xk_platform *platform, unsigned count)
{
	atomic_store_explicit(&memory_of(platform)->limit, count, memory_order_relaxed);
}

void
xk_memory_platform_recycle(struct xk_platform *platform)
{
	struct memory_platform *self = memory_of(platform);
	struct clock_pair before;

	self->recycles = true;
	if (self->clock == XK_MEMORY_VIRTUAL)
		return;
	clock_read(&before);
	clock_calibrate(&self->counter, &before, MEMORY_CLOCK_SPAN_NS);
	platform->ops = &memory_bench_ops;
}

/* ---- ports ---- */

static struct memory_port *
memory_port_of(struct xk_port *port)
{
	return xk_container_of(port, struct memory_port, port);
}

static void
memory_queue_init(struct memory_queue *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
	queue->count = 0;
}

static void
memory_queue_put(struct memory_queue *queue, struct xk_msg *m)
{
	m->link = NULL;
	*queue->last = m;
	queue->last = &m->link;
	queue->count++;
}

static struct xk_msg *
memory_queue_get(struct memory_queue *queue)
{
	struct xk_msg *m = queue->first;

	if (m == NULL)
		return NULL;
	queue->first = m->link;
	if (queue->first == NULL)
		queue->last = &queue->first;
	queue->count--;
	m->link = NULL;
	return m;
}

/* Puts m where the driver will receive it. False, and m is still the caller's: limit frames wait there already. */
static bool
memory_port_arrive(struct memory_port *self, struct xk_msg *m, unsigned limit)
{
	bool room, wakes;

	pthread_mutex_lock(&self->lock);
	room = self->arrived.count < limit;
	if (room)
		memory_queue_put(&self->arrived, m);
	wakes = room && self->armed;
	pthread_mutex_unlock(&self->lock);
	if (wakes)
		memory_wake(self->port.platform);
	return room;
}

static unsigned
memory_port_receive(struct xk_port *port, struct xk_msg **frames, unsigned max)
{
	struct memory_port *self = memory_port_of(port);
	unsigned count = 0;

	pthread_mutex_lock(&self->lock);
	while (count < max && self->arrived.count > 0)
		frames[count++] = memory_queue_get(&self->arrived);
	pthread_mutex_unlock(&self->lock);
	return count;
}

static unsigned
memory_port_keep(struct memory_port *self, struct xk_msg **frames, unsigned count)
{
	unsigned taken = 0;

	pthread_mutex_lock(&self->lock);
	while (taken < count && self->sent.count < self->transmit_limit)
		memory_queue_put(&self->sent, frames[taken++]);
	pthread_mutex_unlock(&self->lock);
	return taken;
}

/* Copies m to the port `to`; limit is of its queue. False: it cannot take it now. */
static bool
memory_wire_carry(struct memory_port *to, const struct xk_msg *m, unsigned limit)
{
	struct xk_msg *copy = xk_memory_frame(to->port.platform, xk_msg_len(m));

	if (copy == NULL)
		return false;
	xk_msg_copy_out(m, 0, copy->data, copy->len);
	if (memory_port_arrive(to, copy, limit))
		return true;
	xk_msg_free(copy);
	return false;
}

static unsigned
memory_wire_transmit(struct memory_port *self, struct xk_msg **frames, unsigned count)
{
	struct memory_wire *wire = self->wire;
	unsigned limit, taken;

	pthread_mutex_lock(&self->lock);
	limit = self->transmit_limit;
	pthread_mutex_unlock(&self->lock);
	pthread_mutex_lock(&wire->lock);
	for (taken = 0; taken < count; taken++) {
		struct memory_port *to = wire->ends[!self->side];

		if (to != NULL && !memory_wire_carry(to, frames[taken], limit))
			break;
		xk_msg_free(frames[taken]);
	}
	pthread_mutex_unlock(&wire->lock);
	return taken;
}

static unsigned
memory_port_transmit(struct xk_port *port, struct xk_msg **frames, unsigned count)
{
	struct memory_port *self = memory_port_of(port);

	if (self->wire != NULL)
		return memory_wire_transmit(self, frames, count);
	return memory_port_keep(self, frames, count);
}

static void
memory_port_set_armed(struct xk_port *port, bool armed)
{
	struct memory_port *self = memory_port_of(port);

	pthread_mutex_lock(&self->lock);
	self->armed = armed;
	pthread_mutex_unlock(&self->lock);
}

static int
memory_port_arm(struct xk_port *port)
{
	memory_port_set_armed(port, true);
	return 0;
}

static void
memory_port_disarm(struct xk_port *port)
{
	memory_port_set_armed(port, false);
}

/* Nothing arrives from the wire any more once this has returned. */
static void
memory_wire_leave(struct memory_wire *wire, const struct memory_port *port)
{
	bool last;

	pthread_mutex_lock(&wire->lock);
	for (unsigned side = 0; side < 2; side++)
		if (wire->ends[side] == port)
			wire->ends[side] = NULL;
	last = wire->ends[0] == NULL && wire->ends[1] == NULL;
	pthread_mutex_unlock(&wire->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&wire->lock);
	free(wire);
}

static void
memory_port_close(struct xk_port *port)
{
	struct memory_port *self = memory_port_of(port);
	struct xk_msg *m;

	if (self->wire != NULL)
		memory_wire_leave(self->wire, self);
	while ((m = memory_queue_get(&self->arrived)) != NULL)
		xk_msg_free(m);
	while ((m = memory_queue_get(&self->sent)) != NULL)
		xk_msg_free(m);
	pthread_mutex_destroy(&self->lock);
	free(self);
}

static const struct xk_port_ops memory_port_ops = {
	.receive = memory_port_receive,
	.transmit = memory_port_transmit,
	.arm = memory_port_arm,
	.disarm = memory_port_disarm,
	.close = memory_port_close,
};

struct xk_port *
xk_memory_port_new(struct xk_platform *platform, const char *name, uint64_t address, uint32_t mtu)
{
	size_t name_size = strlen(name) + 1;
	struct memory_port *self = calloc(1, sizeof(*self) + name_size);

	if (self == NULL)
		return NULL;
	memcpy(self->name, name, name_size);
	self->port.ops = &memory_port_ops;
	self->port.platform = platform;
	self->port.name = self->name;
	self->port.address = address;
	self->port.mtu = mtu;
	self->port.can_sleep = true;
	self->transmit_limit = XK_MEMORY_QUEUE;
	memory_queue_init(&self->arrived);
	memory_queue_init(&self->sent);
	pthread_mutex_init(&self->lock, NULL);
	return &self->port;
}

bool
xk_memory_inject(struct xk_port *port, struct xk_msg *m)
{
	if (memory_port_arrive(memory_port_of(port), m, XK_MEMORY_QUEUE))
		return true;
	xk_msg_free(m);
	return false;
}

struct xk_msg *
xk_memory_take(struct xk_port *port)
{
	struct memory_port *self = memory_port_of(port);
	struct xk_msg *m;

	pthread_mutex_lock(&self->lock);
	m = memory_queue_get(&self->sent);
	pthread_mutex_unlock(&self->lock);
	return m;
}

void
xk_memory_transmit_limit(struct xk_port *port, unsigned count)
{
	struct memory_port *self = memory_port_of(port);

	pthread_mutex_lock(&self->lock);
	self->transmit_limit = count < XK_MEMORY_QUEUE ? count : XK_MEMORY_QUEUE;
	pthread_mutex_unlock(&self->lock);
}

int
xk_memory_connect(struct xk_port *a, struct xk_port *b)
{
	struct memory_wire *wire = calloc(1, sizeof(*wire));

	if (wire == NULL)
		return -ENOMEM;
	xk_assert(memory_port_of(a)->wire == NULL && memory_port_of(b)->wire == NULL);
	pthread_mutex_init(&wire->lock, NULL);
	for (unsigned side = 0; side < 2; side++) {
		struct memory_port *end = memory_port_of(side == 0 ? a : b);

		wire->ends[side] = end;
		end->wire = wire;
		end->side = side;
	}
	return 0;
}

static unsigned
memory_loop_receive(struct xk_port *port, struct xk_msg **frames, unsigned max)
{
	struct memory_port *self = memory_port_of(port);

	return self->receive(self->context, frames, max);
}

static unsigned
memory_loop_transmit(struct xk_port *port, struct xk_msg **frames, unsigned count)
{
	struct memory_port *self = memory_port_of(port);

	return self->transmit(self->context, frames, count);
}

static const struct xk_port_ops memory_loop_ops = {
	.receive = memory_loop_receive,
	.transmit = memory_loop_transmit,
	.arm = memory_port_arm,
	.disarm = memory_port_disarm,
	.close = memory_port_close,
};

void
xk_memory_loop(struct xk_port *port, xk_memory_receive *receive, xk_memory_transmit *transmit, void *context)
{
	struct memory_port *self = memory_port_of(port);

	self->receive = receive;
	self->transmit = transmit;
	self->context = context;
	port->ops = &memory_loop_ops;
}
