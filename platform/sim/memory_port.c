/* memory_port.c - ports whose ends are queues or functions, and wires between two ports or the lanes of two devices. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/lane.h"
#include "platform/sim/memory_private.h"

enum { MEMORY_LOCAL = 64 }; /* frames in a ring; a power of 2 */

struct memory_queue {
	struct xk_msg *first, **last; /* by link */
	_Atomic unsigned count;       /* also read without the lock */
};

/*
 * Frames that the driver's thread itself has injected: a ring without a lock. It has one producer, the thread for which
 * memory_is_mine is true, and one consumer, even if another thread becomes the driver meanwhile.
 */
struct memory_local {
	struct xk_msg *frames[MEMORY_LOCAL];
	_Atomic unsigned put, taken;
};

struct memory_port {
	struct xk_port port;
	pthread_mutex_t lock; /* protects the queues, the limit and armed; taken after a wire's lock */
	struct memory_queue arrived, sent;
	unsigned transmit_limit;
	_Atomic bool armed;
	_Atomic(const void *) receiver; /* the last thread that received */
	struct memory_local local;
	_Atomic bool starved;     /* since the last receive, a frame found no buffer at this end */
	struct memory_wire *wire; /* NULL: not connected */
	unsigned side, lane;      /* position on the wire */
	xk_memory_receive *receive;
	xk_memory_transmit *transmit;
	xk_memory_sent *sent_to; /* NULL: transmitted frames are queued */
	void *context;
	char name[];
};

struct memory_end {
	unsigned count;
	struct memory_port *lanes[XK_DRIVERS]; /* NULL: closed */
};

/* Connects two devices; freed with the last of their ports. */
struct memory_wire {
	pthread_rwlock_t lock; /* keeps the ports at its ends alive */
	enum xk_memory_spread spread;
	struct memory_end ends[2];
};

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
	atomic_store_explicit(&queue->count, 0, memory_order_relaxed);
}

static unsigned
memory_queue_count(const struct memory_queue *queue)
{
	return atomic_load_explicit(&queue->count, memory_order_relaxed);
}

static void
memory_queue_put(struct memory_queue *queue, struct xk_msg *m)
{
	m->link = NULL;
	*queue->last = m;
	queue->last = &m->link;
	atomic_store_explicit(&queue->count, memory_queue_count(queue) + 1, memory_order_relaxed);
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
	atomic_store_explicit(&queue->count, memory_queue_count(queue) - 1, memory_order_relaxed);
	m->link = NULL;
	return m;
}

/* Returns the number of frames in the ring; to other threads than these two, possibly too many. */
static unsigned
memory_local_count(const struct memory_local *local)
{
	unsigned taken = atomic_load_explicit(&local->taken, memory_order_acquire);
	unsigned count = atomic_load_explicit(&local->put, memory_order_acquire) - taken;

	return count < MEMORY_LOCAL ? count : MEMORY_LOCAL;
}

/* Returns false if the calling thread is not the driver's, or if m must queue behind others. */
static bool
memory_local_put(struct memory_port *self, struct xk_msg *m, unsigned limit)
{
	struct memory_local *local = &self->local;
	unsigned put = atomic_load_explicit(&local->put, memory_order_relaxed), count = memory_local_count(local);

	if (!memory_is_mine(memory_of(self->port.platform)) ||
	    atomic_load_explicit(&self->receiver, memory_order_relaxed) != __builtin_thread_pointer() ||
	    memory_queue_count(&self->arrived) > 0 || count == MEMORY_LOCAL || count >= limit)
		return false;
	local->frames[put % MEMORY_LOCAL] = m;
	atomic_store_explicit(&local->put, put + 1, memory_order_release);
	return true;
}

static unsigned
memory_local_take(struct memory_local *local, struct xk_msg **frames, unsigned max)
{
	unsigned taken = atomic_load_explicit(&local->taken, memory_order_relaxed), count = memory_local_count(local);

	if (count > max)
		count = max;
	for (unsigned i = 0; i < count; i++)
		frames[i] = local->frames[(taken + i) % MEMORY_LOCAL];
	atomic_store_explicit(&local->taken, taken + count, memory_order_release);
	return count;
}

/* Queues m for the driver. Returns false, leaving m to the caller, if `limit` frames are already waiting. */
static bool
memory_port_arrive(struct memory_port *self, struct xk_msg *m, unsigned limit)
{
	bool room = memory_local_put(self, m, limit);

	if (!room) {
		pthread_mutex_lock(&self->lock);
		room = memory_queue_count(&self->arrived) + memory_local_count(&self->local) < limit;
		if (room)
			memory_queue_put(&self->arrived, m);
		pthread_mutex_unlock(&self->lock);
	}
	if (room && atomic_load_explicit(&self->armed, memory_order_relaxed))
		memory_wake(self->port.platform);
	return room;
}

static unsigned
memory_port_receive(struct xk_port *port, struct xk_msg **frames, unsigned max)
{
	struct memory_port *self = memory_port_of(port);
	unsigned count;

	if (xk_unlikely(atomic_load_explicit(&self->starved, memory_order_relaxed)) &&
	    atomic_exchange_explicit(&self->starved, false, memory_order_relaxed))
		xk_port_starved(port, 0);
	atomic_store_explicit(&self->receiver, __builtin_thread_pointer(), memory_order_relaxed);
	count = memory_local_take(&self->local, frames, max);
	if (memory_queue_count(&self->arrived) == 0)
		return count;
	pthread_mutex_lock(&self->lock);
	/*
	 * Frames that one thread injected stay in order: with the lock held, no thread queues behind the ring's frames.
	 */
	count += memory_local_take(&self->local, frames + count, max - count);
	while (count < max && memory_queue_count(&self->arrived) > 0)
		frames[count++] = memory_queue_get(&self->arrived);
	pthread_mutex_unlock(&self->lock);
	return count;
}

static unsigned
memory_port_queue_sent(struct memory_port *self, struct xk_msg **frames, unsigned count)
{
	unsigned taken = 0;

	pthread_mutex_lock(&self->lock);
	while (taken < count && memory_queue_count(&self->sent) < self->transmit_limit)
		memory_queue_put(&self->sent, frames[taken++]);
	pthread_mutex_unlock(&self->lock);
	return taken;
}

/* Copies m to the port `to`, whose queue is limited to `limit`. Returns false if it cannot take the frame. */
static bool
memory_wire_carry(struct memory_port *to, const struct xk_msg *m, unsigned limit)
{
	struct xk_msg *copy = xk_memory_frame(to->port.platform, xk_msg_len(m));

	if (copy == NULL) {
		atomic_store_explicit(&to->starved, true, memory_order_relaxed);
		return false;
	}
	xk_msg_copy_out(m, 0, copy->data, copy->len);
	if (memory_port_arrive(to, copy, limit))
		return true;
	xk_msg_free(copy);
	return false;
}

/* Returns the port at which m, sent by self, arrives, or NULL if that port is closed. */
static struct memory_port *
memory_wire_find(const struct memory_port *self, const struct xk_msg *m)
{
	const struct memory_end *end = &self->wire->ends[!self->side];

	if (end->count == 1)
		return end->lanes[0];
	if (self->wire->spread == XK_MEMORY_BY_LANE)
		return end->lanes[self->lane % end->count];
	return end->lanes[lane_of_flow(m, end->count)];
}

static unsigned
memory_wire_transmit(struct memory_port *self, struct xk_msg **frames, unsigned count)
{
	struct memory_wire *wire = self->wire;
	unsigned limit, taken;

	pthread_mutex_lock(&self->lock);
	limit = self->transmit_limit;
	pthread_mutex_unlock(&self->lock);
	pthread_rwlock_rdlock(&wire->lock);
	for (taken = 0; taken < count; taken++) {
		struct memory_port *to = memory_wire_find(self, frames[taken]);

		if (to != NULL && !memory_wire_carry(to, frames[taken], limit))
			break;
		xk_msg_free(frames[taken]);
	}
	pthread_rwlock_unlock(&wire->lock);
	return taken;
}

/* Passes frames to sent_to. Stops, as if the ring were full, without a buffer in which to join a frame's segments. */
static unsigned
memory_port_call_sent(struct memory_port *self, struct xk_msg **frames, unsigned count)
{
	unsigned taken;

	for (taken = 0; taken < count; taken++) {
		struct xk_msg *m = frames[taken], *whole = m;

		if (m->next != NULL) {
			whole = xk_memory_frame(self->port.platform, xk_msg_len(m));
			if (whole == NULL)
				break;
			xk_msg_copy_out(m, 0, whole->data, whole->len);
			xk_msg_free(m);
		}
		self->sent_to(self->context, whole->data, whole->len);
		xk_msg_free(whole);
	}
	return taken;
}

static unsigned
memory_port_transmit(struct xk_port *port, struct xk_msg **frames, unsigned count)
{
	struct memory_port *self = memory_port_of(port);

	if (self->wire != NULL)
		return memory_wire_transmit(self, frames, count);
	if (self->sent_to != NULL)
		return memory_port_call_sent(self, frames, count);
	return memory_port_queue_sent(self, frames, count);
}

static void
memory_port_set_armed(struct xk_port *port, bool armed)
{
	struct memory_port *self = memory_port_of(port);

	pthread_mutex_lock(&self->lock);
	atomic_store_explicit(&self->armed, armed, memory_order_relaxed);
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

/* Removes the port from an end. Returns true if the end has no other port. */
static bool
memory_end_leave(struct memory_end *end, const struct memory_port *port)
{
	bool last = true;

	for (unsigned i = 0; i < end->count; i++) {
		if (end->lanes[i] == port)
			end->lanes[i] = NULL;
		last = last && end->lanes[i] == NULL;
	}
	return last;
}

/* Removes the port from the wire, from which nothing arrives afterwards. Frees the wire with its last port. */
static void
memory_wire_leave(struct memory_wire *wire, const struct memory_port *port)
{
	bool last[2];

	pthread_rwlock_wrlock(&wire->lock);
	for (unsigned side = 0; side < 2; side++)
		last[side] = memory_end_leave(&wire->ends[side], port);
	pthread_rwlock_unlock(&wire->lock);
	if (!last[0] || !last[1])
		return;
	pthread_rwlock_destroy(&wire->lock);
	free(wire);
}

static void
memory_port_close(struct xk_port *port)
{
	struct memory_port *self = memory_port_of(port);
	struct xk_msg *m;

	if (self->wire != NULL)
		memory_wire_leave(self->wire, self);
	while (memory_local_take(&self->local, &m, 1) == 1)
		xk_msg_free(m);
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

int
xk_memory_inject_bytes(struct xk_port *port, const void *bytes, size_t len)
{
	struct xk_msg *m;

	if (len > XK_MSG_MAX)
		return -EMSGSIZE;
	m = xk_memory_frame(port->platform, len);
	if (m == NULL)
		return -ENOBUFS;
	memcpy(m->data, bytes, len);
	return xk_memory_inject(port, m) ? 0 : -ENOBUFS;
}

void
xk_memory_on_sent(struct xk_port *port, xk_memory_sent *sent, void *context)
{
	struct memory_port *self = memory_port_of(port);

	xk_assert(self->wire == NULL);
	self->sent_to = sent;
	self->context = context;
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

static void
memory_wire_join(struct memory_wire *wire, unsigned side, struct xk_port *const *ports, unsigned count)
{
	xk_assert(count > 0 && count <= XK_DRIVERS);
	wire->ends[side].count = count;
	for (unsigned i = 0; i < count; i++) {
		struct memory_port *port = memory_port_of(ports[i]);

		wire->ends[side].lanes[i] = port;
		port->wire = wire;
		port->side = side;
		port->lane = i;
	}
}

int
xk_memory_connect_lanes(struct xk_port *const *a, unsigned a_count, struct xk_port *const *b, unsigned b_count,
			enum xk_memory_spread spread)
{
	struct memory_wire *wire = calloc(1, sizeof(*wire));

	if (wire == NULL)
		return -ENOMEM;
	xk_assert(memory_port_of(a[0])->wire == NULL && memory_port_of(b[0])->wire == NULL);
	pthread_rwlock_init(&wire->lock, NULL);
	wire->spread = spread;
	memory_wire_join(wire, 0, a, a_count);
	memory_wire_join(wire, 1, b, b_count);
	return 0;
}

int
xk_memory_connect(struct xk_port *a, struct xk_port *b)
{
	return xk_memory_connect_lanes(&a, 1, &b, 1, XK_MEMORY_BY_FLOW);
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
