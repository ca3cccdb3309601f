/*
 * port.c - a port: one queue per direction of a DPDK device, which has several if it has lanes.
 *
 * Received mbufs already are messages. For sending, a chain of segments becomes a chain of mbufs; a chain with an empty
 * segment, with too many, or with lent bytes that the device's peer cannot read, is copied into one mbuf. Lengths that
 * a device reports are checked, because another process is behind a virtual device.
 *
 * DPDK's threads report when a peer comes or goes. Without a peer, frames to send are dropped, and the device is polled
 * for neither frames nor interrupts; a new peer wakes the driver. A frame that arrives before its sender is reported
 * waits in the device, because an answer would be dropped.
 *
 * If both ends have several lanes, a frame arrives in the lane of the queue by which it was sent. The conversation
 * chooses the lane, whichever driver or thread sends, so with equal numbers of lanes an answer returns to the driver of
 * the question. A driver may therefore send by another's queue, one driver at a time.
 */
#include <rte_ethdev.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/dpdk/dpdk_private.h"
#include "platform/lane.h"
#include "xkernel/trace.h"

enum {
	DPDK_PORT_CHAIN = 16, /* a longer chain would fill the ring with small pieces */
	DPDK_PORT_TRIES = 64, /* attempts to get a queue by which another driver is sending */
};

/* ---- devices behind a guard ---- */

void
dpdk_guard_shut(struct dpdk_guard *guard)
{
	atomic_store_explicit(&guard->is_shut, true, memory_order_seq_cst);
	while (atomic_load_explicit(&guard->inside, memory_order_seq_cst) > 0)
		sched_yield();
}

void
dpdk_guard_open(struct dpdk_guard *guard)
{
	atomic_store_explicit(&guard->is_shut, false, memory_order_seq_cst);
}

/* Enters if the guard is open; otherwise yields, because the thread that shut it may need this core. */
static bool
dpdk_port_try_guard(struct dpdk_guard *guard)
{
	atomic_fetch_add_explicit(&guard->inside, 1, memory_order_seq_cst);
	if (!atomic_load_explicit(&guard->is_shut, memory_order_seq_cst))
		return true;
	atomic_fetch_sub_explicit(&guard->inside, 1, memory_order_release);
	sched_yield();
	return false;
}

/* Returns true if the device may be used until dpdk_port_leave. */
static inline bool
dpdk_port_enter(struct dpdk_port *self)
{
	return xk_likely(self->guard == NULL) || dpdk_port_try_guard(self->guard);
}

static inline void
dpdk_port_leave(struct dpdk_port *self)
{
	if (xk_unlikely(self->guard != NULL))
		atomic_fetch_sub_explicit(&self->guard->inside, 1, memory_order_release);
}

/* ---- receiving ---- */

/* Returns true if the bytes that m shows lie inside its buffer. */
static inline bool
dpdk_port_is_well_formed(const struct rte_mbuf *m)
{
	return xk_likely((uint32_t)m->data_off + m->data_len <= m->buf_len);
}

static inline struct xk_msg *
dpdk_port_segment(struct xk_port *port, struct rte_mbuf *m)
{
	return dpdk_buffer_show(port->platform, m, rte_pktmbuf_mtod(m, uint8_t *), m->data_len);
}

/* Appends the further mbufs of a frame to head. Returns false if the frame is malformed. */
static bool
dpdk_port_take_chain(struct xk_port *port, struct xk_msg *head, struct rte_mbuf *m)
{
	for (; m != NULL; m = m->next) {
		struct xk_msg *segment;

		dpdk_take(m);
		if (!dpdk_port_is_well_formed(m) || head->total + m->data_len > XK_MSG_MAX)
			return false;
		segment = dpdk_port_segment(port, m);
		head->tail->next = segment;
		head->tail = segment;
		head->total += segment->len;
	}
	return true;
}

static inline struct xk_msg *
dpdk_port_take(struct dpdk_port *self, struct rte_mbuf *m)
{
	struct xk_msg *head;

	dpdk_take(m);
	if (!dpdk_port_is_well_formed(m))
		goto malformed;
	head = dpdk_port_segment(&self->base, m);
	head->total = head->len;
	if (xk_unlikely((m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD) &&
	    self->device->link->receive != NULL)
		head->flags = XK_MSG_TRANSPORT_SUM_GOOD;
	if (xk_unlikely(m->pool == self->device->pool))
		atomic_fetch_add_explicit(&dpdk_owner_of(self->base.platform)->borrowed, 1, memory_order_relaxed);
	if (xk_likely(m->next == NULL) || dpdk_port_take_chain(&self->base, head, m->next))
		return head;
malformed:
	rte_pktmbuf_free(m);
	dpdk_port_count(self, DPDK_COUNT_MALFORMED, 1);
	return NULL;
}

/* Checks, after no frame arrived, whether buffers are short. Counts the start of each shortage. */
static inline void
dpdk_port_check_buffers(struct dpdk_port *self)
{
	bool was_starved = self->is_starved;

	self->is_starved = dpdk_buffers_are_out(self->base.platform);
	((struct dpdk_platform *)self->base.platform)->is_starved = self->is_starved;
	if (xk_unlikely(self->is_starved && !was_starved))
		xk_port_starved(&self->base, 0);
}

static unsigned
dpdk_port_receive(struct xk_port *port, struct xk_msg **frames, unsigned max)
{
	struct dpdk_port *self = (struct dpdk_port *)port;
	struct rte_mbuf *mbufs[XK_BURST];
	unsigned count, taken = 0;

	if (xk_unlikely(!atomic_load_explicit(&self->up, memory_order_relaxed) || !dpdk_port_enter(self)))
		return 0;
	if (max > XK_BURST)
		max = XK_BURST;
	if (xk_unlikely(self->device->link->receive != NULL))
		count = self->device->link->receive(self, mbufs, max);
	else
		count = rte_eth_rx_burst(self->id, self->queue, mbufs, (uint16_t)max);
	dpdk_port_leave(self);
	if (count == 0) {
		dpdk_port_check_buffers(self);
		return 0;
	}
	for (unsigned i = 0; i < count; i++) {
		frames[taken] = dpdk_port_take(self, mbufs[i]);
		if (xk_likely(frames[taken] != NULL))
			taken++;
	}
	return taken;
}

/* ---- sending ---- */

static void
dpdk_port_free(struct xk_msg *frame)
{
	while (frame != NULL) {
		struct xk_msg *next = frame->next;

		dpdk_buffer_free(NULL, frame);
		frame = next;
	}
}

/* Makes m show only the segment's part of a loan. Returns false if the device's peer cannot read it there. */
static bool
dpdk_port_show_loan(const struct dpdk_device *device, struct rte_mbuf *m, const struct xk_msg *segment)
{
	struct dpdk_loan *loan = dpdk_buffer_loan(m);

	if (device->is_read_by_others) {
		rte_iova_t iova = dpdk_loan_iova(loan);

		if (iova == RTE_BAD_IOVA)
			return false;
		rte_mbuf_iova_set(m, iova + (rte_iova_t)(segment->data - loan->bytes));
	}
	m->buf_addr = segment->data;
	m->buf_len = (uint16_t)segment->len;
	return true;
}

/* Returns the frame as a chain of mbufs, or NULL if a segment is empty or the device cannot send the frame in place. */
static inline struct rte_mbuf *
dpdk_port_chain(struct dpdk_port *self, struct xk_msg *frame)
{
	const struct dpdk_device *device = self->device;
	struct rte_mbuf *head = dpdk_buffer_of(frame), *last = NULL;
	unsigned count = 0;

	for (struct xk_msg *segment = frame; segment != NULL; segment = segment->next) {
		struct rte_mbuf *m = dpdk_buffer_of(segment);

		if (xk_unlikely(segment->len == 0 || ++count > DPDK_PORT_CHAIN || (count > 1 && !device->can_chain) ||
				m->pool == device->pool))
			return NULL;
		if (xk_unlikely(dpdk_buffer_loan(m) != NULL) && !dpdk_port_show_loan(device, m, segment))
			return NULL;
		m->data_off = (uint16_t)(segment->data - (uint8_t *)m->buf_addr);
		m->data_len = (uint16_t)segment->len;
		m->ol_flags &= RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL;
		m->next = NULL;
		if (last != NULL)
			last->next = m;
		last = m;
	}
	head->pkt_len = frame->total;
	head->nb_segs = (uint16_t)count;
	return head;
}

/* Returns a copy of the frame in one mbuf, or NULL if there is no buffer. */
static struct rte_mbuf *
dpdk_port_copy(struct dpdk_port *self, const struct xk_msg *frame)
{
	struct xk_msg *copy = dpdk_buffer_new(self->base.platform);
	struct rte_mbuf *m;

	if (copy == NULL)
		return NULL;
	m = dpdk_buffer_of(copy);
	m->data_off = XK_MSG_HEADROOM;
	m->data_len = 0;
	m->next = NULL;
	m->nb_segs = 1;
	for (; frame != NULL; frame = frame->next) {
		memcpy(copy->data + m->data_len, frame->data, frame->len);
		m->data_len = (uint16_t)(m->data_len + frame->len);
	}
	m->pkt_len = m->data_len;
	return m;
}

/* Converts frames to mbufs, up to the first that cannot be sent. Sets a bit of *copied for each that was copied. */
static unsigned
dpdk_port_prepare(struct dpdk_port *self, struct xk_msg **frames, unsigned count, struct rte_mbuf **mbufs,
		  uint32_t *copied)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		if (xk_unlikely(frames[i]->total > self->base.mtu + DPDK_PORT_HEADERS || frames[i]->total == 0))
			break;
		mbufs[i] = dpdk_port_chain(self, frames[i]);
		if (xk_unlikely(mbufs[i] == NULL)) {
			mbufs[i] = dpdk_port_copy(self, frames[i]);
			if (mbufs[i] == NULL)
				break;
			*copied |= UINT32_C(1) << i;
		}
	}
	return i;
}

/* Frees the frames whose copies were sent, and the copies that were not sent. */
static void
dpdk_port_settle(struct xk_msg **frames, struct rte_mbuf **mbufs, uint32_t copied, unsigned sent)
{
	for (unsigned i = 0; copied != 0; i++, copied >>= 1) {
		if ((copied & 1) == 0)
			continue;
		if (i < sent)
			dpdk_port_free(frames[i]);
		else
			rte_pktmbuf_free(mbufs[i]);
	}
}

static inline void
dpdk_port_give(struct rte_mbuf **mbufs, unsigned count)
{
	(void)mbufs;
	(void)count;
#ifdef XK_CONTEXT_TSAN
	for (unsigned i = 0; i < count; i++)
		for (struct rte_mbuf *m = mbufs[i], *next; m != NULL; m = next) {
			next = m->next;
			dpdk_give(m);
		}
#endif
}

static unsigned
dpdk_port_burst(struct dpdk_port *self, struct xk_msg **frames, unsigned count)
{
	struct rte_mbuf *mbufs[XK_BURST];
	uint32_t copied = 0;
	unsigned ready = dpdk_port_prepare(self, frames, count, mbufs, &copied);
	unsigned sent = 0;

	if (ready > 0 && dpdk_port_enter(self)) {
		dpdk_port_give(mbufs, ready);
		if (xk_unlikely(self->device->link->transmit != NULL))
			sent = self->device->link->transmit(self, mbufs, ready);
		else
			sent = rte_eth_tx_burst(self->id, self->queue, mbufs, (uint16_t)ready);
		dpdk_port_leave(self);
	}
	if (xk_unlikely(copied != 0))
		dpdk_port_settle(frames, mbufs, copied, sent);
	if (xk_unlikely(sent == ready && ready < count &&
			frames[ready]->total - 1 >= self->base.mtu + DPDK_PORT_HEADERS)) {
		dpdk_port_free(frames[sent++]);
		dpdk_port_count(self, DPDK_COUNT_TOO_LONG, 1);
	}
	return sent;
}

static unsigned
dpdk_port_discard(struct dpdk_port *self, struct xk_msg **frames, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		dpdk_port_free(frames[i]);
	dpdk_port_count(self, DPDK_COUNT_NO_PEER, count);
	return count;
}

/*
 * Sends frames by the queue of the peer's lane. Sends none, as if the queue were full, if another driver holds it for
 * long or is preempted.
 */
static unsigned
dpdk_port_send_by(struct dpdk_port *lane, struct xk_msg **frames, unsigned count)
{
	unsigned taken, tries = 0;

	while (atomic_exchange_explicit(&lane->is_sending, true, memory_order_acquire)) {
		if (++tries == DPDK_PORT_TRIES)
			return 0;
		rte_pause();
	}
	taken = dpdk_port_burst(lane, frames, count);
	atomic_store_explicit(&lane->is_sending, false, memory_order_release);
	return taken;
}

/* Sends each frame to the lane of its conversation, and consecutive frames of one lane together. */
static unsigned
dpdk_port_spread(struct dpdk_port *self, struct xk_msg **frames, unsigned count)
{
	const struct dpdk_device *device = self->device;
	unsigned lanes = atomic_load_explicit(&device->lanes, memory_order_relaxed), sent = 0, taken = 1;

	if (lanes == 0)
		return dpdk_port_discard(self, frames, count);
	for (; sent < count && taken > 0; sent += taken) {
		unsigned lane = lane_of_flow(frames[sent], lanes), run = 1;

		while (sent + run < count && run < XK_BURST && lane_of_flow(frames[sent + run], lanes) == lane)
			run++;
		taken = dpdk_port_send_by(device->ports[lane], frames + sent, run);
	}
	return sent;
}

static unsigned
dpdk_port_transmit(struct xk_port *port, struct xk_msg **frames, unsigned count)
{
	struct dpdk_port *self = (struct dpdk_port *)port;
	unsigned sent = 0, taken = 1;

	if (xk_unlikely(self->device->spreads))
		return dpdk_port_spread(self, frames, count);
	if (xk_unlikely(!atomic_load_explicit(&self->up, memory_order_relaxed)))
		return dpdk_port_discard(self, frames, count);
	for (; sent < count && taken > 0; sent += taken)
		taken = dpdk_port_burst(self, frames + sent, count - sent < XK_BURST ? count - sent : XK_BURST);
	return sent;
}

/* ---- interrupts ---- */

/*
 * Enables or disables interrupts, unless the peer has gone: DPDK then frees the peer's memory, after waiting in
 * dpdk_port_await_disarmed until this function is done with it.
 */
static void
dpdk_port_set_interrupts(struct dpdk_port *self, int (*ask)(uint16_t id, uint16_t queue))
{
	atomic_store_explicit(&self->is_arming, true, memory_order_seq_cst);
	if (atomic_load_explicit(&self->up, memory_order_seq_cst))
		ask(self->id, self->queue);
	atomic_store_explicit(&self->is_arming, false, memory_order_release);
}

static int
dpdk_port_arm(struct xk_port *port)
{
	struct dpdk_port *self = (struct dpdk_port *)port;

	if (!port->can_sleep)
		return -ENOTSUP;
	if (self->has_interrupts)
		dpdk_port_set_interrupts(self, rte_eth_dev_rx_intr_enable);
	return 0;
}

static void
dpdk_port_disarm(struct xk_port *port)
{
	struct dpdk_port *self = (struct dpdk_port *)port;

	if (self->has_interrupts)
		dpdk_port_set_interrupts(self, rte_eth_dev_rx_intr_disable);
}

/* Only makes the loop return: the driver then receives. */
static void
dpdk_port_ready(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	(void)argument;
}

static void
dpdk_port_set_event(struct dpdk_port *self, int fd)
{
	struct event_base *events = ((struct dpdk_platform *)self->base.platform)->events;

	if (self->event != NULL)
		event_free(self->event);
	self->is_watched = false;
	self->event = event_new(events, fd, EV_READ | EV_ET | EV_PERSIST, dpdk_port_ready, NULL);
	self->base.can_sleep = self->event != NULL;
}

void
dpdk_port_rewatch(struct dpdk_port *port)
{
	bool up = atomic_load_explicit(&port->up, memory_order_acquire);

	if (port->event == NULL || port->is_watched == up)
		return;
	if (up)
		port->is_watched = event_add(port->event, NULL) == 0;
	else
		port->is_watched = event_del(port->event) != 0;
}

void
dpdk_port_watch_fd(struct dpdk_port *port, int fd)
{
	if (fd >= 0)
		dpdk_port_set_event(port, fd);
	dpdk_port_rewatch(port);
}

/* Returns true if DPDK's driver offers receive interrupts that never arrive. Tested only with an emulated e1000e. */
static bool
dpdk_port_lacks_interrupts(const struct dpdk_port *port)
{
	struct rte_eth_dev_info info;

	return rte_eth_dev_info_get(port->id, &info) == 0 && strcmp(info.driver_name, "net_e1000_em") == 0;
}

void
dpdk_port_watch(struct dpdk_port *port)
{
	int fd = dpdk_port_lacks_interrupts(port) ? -1 : rte_eth_dev_rx_intr_ctl_q_get_fd(port->id, port->queue);

	if (fd < 0 || rte_eth_dev_rx_intr_enable(port->id, port->queue) != 0)
		return;
	rte_eth_dev_rx_intr_disable(port->id, port->queue);
	dpdk_port_set_event(port, fd);
	port->is_watched = port->event != NULL && event_add(port->event, NULL) == 0;
	port->has_interrupts = port->base.can_sleep = port->is_watched;
}

/* ---- the peer ---- */

void
dpdk_port_set_up(struct dpdk_port *port, bool up)
{
	atomic_store_explicit(&port->up, up, memory_order_seq_cst);
	dpdk_wake(port->base.platform);
}

void
dpdk_port_await_disarmed(struct dpdk_port *port)
{
	while (atomic_load_explicit(&port->is_arming, memory_order_seq_cst))
		sched_yield();
}

bool
xk_dpdk_port_is_up(const struct xk_port *port)
{
	return atomic_load_explicit(&((const struct dpdk_port *)port)->up, memory_order_acquire);
}

/* ---- counts and messages ---- */

static const char *const dpdk_port_count_names[DPDK_COUNTS] = {
	"no_peer",     "device_too_long", "device_refused", "malformed", "rx_too_long", "rx_joined",
	"rx_unsummed", "rx_missed",       "renamed",        "moved",     "deleted",     "returned",
	"mtu_changed", "address_changed", "downs",          "ups",
};

/* Reports the counts of DPDK's device, for its first lane only. */
static void
dpdk_port_see_device(struct dpdk_port *self, void (*see)(void *context, const char *name, uint64_t count, bool is_drop),
		     void *context)
{
	struct rte_eth_stats stats;

	if (!self->device->is_started || self->device->id == UINT16_MAX || self->queue != 0 ||
	    rte_eth_stats_get(self->device->id, &stats) != 0)
		return;
	see(context, "device_missed", stats.imissed, true);
	see(context, "device_rx_errors", stats.ierrors, true);
	see(context, "device_no_buffer", stats.rx_nombuf, false);
	/* DPDK's drivers of virtual links also count refused frames here, which are sent again */
	if (self->device->is_card)
		see(context, "device_tx_errors", stats.oerrors, true);
}

static void
dpdk_port_see_interface(struct dpdk_port *self,
			void (*see)(void *context, const char *name, uint64_t count, bool is_drop), void *context)
{
	uint64_t missed = atomic_load_explicit(&self->counts[DPDK_COUNT_RX_MISSED], memory_order_relaxed);
	struct dpdk_interface_counts c;
	bool other = self->device->link->is_other_end;

	if (self->device->link->about.needs != XK_DPDK_NEEDS_INTERFACE || self->device->state == NULL)
		return;
	dpdk_interface_count(self->device->state, &c);
	if (self->device->link->is_missed_twice)
		c.rx_dropped -= c.rx_dropped < missed ? c.rx_dropped : missed;
	see(context, "interface_rx_dropped", other ? c.tx_dropped : c.rx_dropped, true);
	see(context, "interface_rx_missed", other ? 0 : c.rx_missed, true);
	see(context, "interface_rx_errors", other ? c.tx_errors : c.rx_errors, true);
	see(context, "interface_tx_dropped", other ? c.rx_dropped : c.tx_dropped, true);
	see(context, "interface_tx_errors", other ? c.rx_errors : c.tx_errors, true);
}

static void
dpdk_port_counts(struct xk_port *port, void (*see)(void *context, const char *name, uint64_t count, bool is_drop),
		 void *context)
{
	struct dpdk_port *self = (struct dpdk_port *)port;

	if (self->device->link->count != NULL)
		self->device->link->count(self);
	for (unsigned i = 0; i < DPDK_COUNTS; i++)
		see(context, dpdk_port_count_names[i], atomic_load_explicit(&self->counts[i], memory_order_relaxed),
		    i < DPDK_COUNT_DROPS);
	dpdk_port_see_device(self, see, context);
	dpdk_port_see_interface(self, see, context);
}

void
dpdk_port_report(struct dpdk_port *port, const char *format, ...)
{
	char text[XK_DPDK_WHY];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (port->base.receiver != NULL)
		xk_trace(port->base.receiver->protocol, XK_TRACE_NONE, "%s", text);
}

void
dpdk_port_set_mtu(struct dpdk_port *port, uint32_t mtu)
{
	if (atomic_exchange_explicit(&port->base.mtu, mtu, memory_order_relaxed) != mtu)
		xk_port_changed(&port->base);
}

/* ---- opening and closing ---- */

/* Closes the device with its last port. Only that frees the ports, which are notified of the peer until then. */
static void
dpdk_port_close(struct xk_port *port)
{
	struct dpdk_port *self = (struct dpdk_port *)port;

	if (self->event != NULL)
		event_free(self->event);
	self->event = NULL;
	if (--self->device->open_count == 0)
		dpdk_device_close(self->device);
}

static const struct xk_port_ops dpdk_port_ops = {
	.receive = dpdk_port_receive,
	.transmit = dpdk_port_transmit,
	.arm = dpdk_port_arm,
	.disarm = dpdk_port_disarm,
	.counts = dpdk_port_counts,
	.close = dpdk_port_close,
};

static struct dpdk_port *
dpdk_port_add(struct dpdk_device *device, struct xk_platform *platform, const char *name)
{
	struct dpdk_port *self = calloc(1, sizeof(*self));

	if (self == NULL)
		return NULL;
	strcpy(self->name, name);
	self->device = device;
	self->base.ops = &dpdk_port_ops;
	self->base.platform = platform;
	self->base.name = self->name;
	self->base.mtu = DPDK_PORT_MTU;
	self->base.driver = device->port_count;
	device->ports[device->port_count++] = self;
	device->open_count++;
	return self;
}

struct dpdk_port *
dpdk_port_new(struct xk_platform *const *platforms, unsigned count, const char *name, const struct dpdk_link *link,
	      char *why, size_t size)
{
	struct dpdk_device *device;

	if (strlen(name) >= sizeof(device->ports[0]->name)) {
		snprintf(why, size, "the port's name has %zu characters, more than %zu: use a shorter one",
			 strlen(name), sizeof(device->ports[0]->name) - 1);
		return NULL;
	}
	device = calloc(1, sizeof(*device));
	for (unsigned i = 0; device != NULL && i < count; i++)
		if (dpdk_port_add(device, platforms[i], name) == NULL)
			break;
	if (device != NULL && device->port_count == count) {
		device->link = link;
		device->id = UINT16_MAX;
		return device->ports[0];
	}
	for (unsigned i = 0; device != NULL && i < device->port_count; i++)
		free(device->ports[i]);
	free(device);
	snprintf(why, size, "no memory");
	return NULL;
}

void
dpdk_port_list(struct dpdk_port *port, struct xk_port **ports)
{
	for (unsigned i = 0; i < port->device->port_count; i++) {
		struct xk_port *lane = &port->device->ports[i]->base;

		lane->address = port->base.address;
		lane->mtu = port->base.mtu;
		ports[i] = lane;
	}
}

void
dpdk_port_close_all(struct dpdk_port *port)
{
	struct dpdk_device *device = port->device;

	for (unsigned i = device->port_count; i-- > 0;)
		dpdk_port_close(&device->ports[i]->base);
}
