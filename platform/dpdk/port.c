/*
 * port.c - a port is a DPDK device with one queue each way.
 *
 * Received mbufs are messages as they are. To be sent, a chain of segments becomes a chain of mbufs; one that has an
 * empty segment or too many of them is copied into one mbuf. What a device reports of lengths is checked, since behind
 * a virtual device there is another process.
 *
 * The other end comes and goes in threads of DPDK's. While nobody is there, frames to be sent are taken and dropped, and
 * the device is not asked for frames or interrupts: who comes wakes the driver, which then asks. A device may have a
 * frame a moment before we hear who sent it; it waits, since an answer to it would be dropped.
 */
#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/dpdk/inside.h"

enum { DPDK_PORT_CHAIN = 16 }; /* a longer chain would fill the ring with crumbs */

/* ---- receiving ---- */

/* Whether the bytes that m shows lie inside its buffer. */
static inline bool
dpdk_port_is_sound(const struct rte_mbuf *m)
{
	return xk_likely((uint32_t)m->data_off + m->data_len <= m->buf_len);
}

static inline struct xk_msg *
dpdk_port_segment(struct xk_port *port, struct rte_mbuf *m)
{
	return dpdk_buffer_show(port->platform, m, rte_pktmbuf_mtod(m, uint8_t *), m->data_len);
}

/* The rest of a frame that came in several mbufs. False: it is malformed. */
static bool
dpdk_port_take_chain(struct xk_port *port, struct xk_msg *head, struct rte_mbuf *m)
{
	for (; m != NULL; m = m->next) {
		struct xk_msg *segment;

		if (!dpdk_port_is_sound(m) || head->total + m->data_len > XK_MSG_MAX)
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

	if (!dpdk_port_is_sound(m))
		goto malformed;
	head = dpdk_port_segment(&self->base, m);
	head->total = head->len;
	if (xk_likely(m->next == NULL) || dpdk_port_take_chain(&self->base, head, m->next))
		return head;
malformed:
	rte_pktmbuf_free(m);
	atomic_fetch_add_explicit(&self->malformed, 1, memory_order_relaxed);
	return NULL;
}

static unsigned
dpdk_port_receive(struct xk_port *port, struct xk_msg **frames, unsigned max)
{
	struct dpdk_port *self = (struct dpdk_port *)port;
	struct rte_mbuf *mbufs[XK_BURST];
	unsigned count, taken = 0;

	if (xk_unlikely(!atomic_load_explicit(&self->up, memory_order_relaxed)))
		return 0;
	count = rte_eth_rx_burst(self->id, 0, mbufs, (uint16_t)(max < XK_BURST ? max : XK_BURST));
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

/* The frame's segments as a chain of mbufs. NULL: one is empty, or they are too many. */
static inline struct rte_mbuf *
dpdk_port_chain(struct dpdk_port *self, struct xk_msg *frame)
{
	struct rte_mbuf *head = dpdk_buffer_of(frame), *last = NULL;
	unsigned count = 0;

	for (struct xk_msg *segment = frame; segment != NULL; segment = segment->next) {
		struct rte_mbuf *m = dpdk_buffer_of(segment);

		if (xk_unlikely(segment->len == 0 || ++count > DPDK_PORT_CHAIN || (count > 1 && !self->can_chain)))
			return NULL;
		m->data_off = (uint16_t)(segment->data - (uint8_t *)m->buf_addr);
		m->data_len = (uint16_t)segment->len;
		m->ol_flags &= RTE_MBUF_F_INDIRECT;
		m->next = NULL;
		if (last != NULL)
			last->next = m;
		last = m;
	}
	head->pkt_len = frame->total;
	head->nb_segs = (uint16_t)count;
	return head;
}

/* The frame's bytes in one new mbuf. NULL: no buffer is left. */
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

/* As many frames as can be sent in one burst, as mbufs; a bit of *copied is set for those whose original remains. */
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

/* Of frames and their copies, one must go: the frame of a copy that was sent, the copy of a frame that was not. */
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

static unsigned
dpdk_port_burst(struct dpdk_port *self, struct xk_msg **frames, unsigned count)
{
	struct rte_mbuf *mbufs[XK_BURST];
	uint32_t copied = 0;
	unsigned ready = dpdk_port_prepare(self, frames, count, mbufs, &copied);
	unsigned sent = ready > 0 ? rte_eth_tx_burst(self->id, 0, mbufs, (uint16_t)ready) : 0;

	if (xk_unlikely(copied != 0))
		dpdk_port_settle(frames, mbufs, copied, sent);
	if (xk_unlikely(sent == ready && ready < count &&
			frames[ready]->total - 1 >= self->base.mtu + DPDK_PORT_HEADERS)) {
		dpdk_port_free(frames[sent++]);
		atomic_fetch_add_explicit(&self->too_long, 1, memory_order_relaxed);
	}
	return sent;
}

static unsigned
dpdk_port_discard(struct dpdk_port *self, struct xk_msg **frames, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		dpdk_port_free(frames[i]);
	atomic_fetch_add_explicit(&self->no_peer, count, memory_order_relaxed);
	return count;
}

static unsigned
dpdk_port_transmit(struct xk_port *port, struct xk_msg **frames, unsigned count)
{
	struct dpdk_port *self = (struct dpdk_port *)port;
	unsigned sent = 0, taken = 1;

	if (xk_unlikely(!atomic_load_explicit(&self->up, memory_order_relaxed)))
		return dpdk_port_discard(self, frames, count);
	for (; sent < count && taken > 0; sent += taken)
		taken = dpdk_port_burst(self, frames + sent, count - sent < XK_BURST ? count - sent : XK_BURST);
	return sent;
}

/* ---- interrupts ---- */

/*
 * Asks the device for interrupts, or for none, unless the other end has gone. A thread of DPDK's frees what the device
 * has of a peer that went, and waits in dpdk_port_set_up for us to have let go of it.
 */
static void
dpdk_port_ask(struct dpdk_port *self, int (*ask)(uint16_t id, uint16_t queue))
{
	atomic_store_explicit(&self->is_arming, true, memory_order_seq_cst);
	if (atomic_load_explicit(&self->up, memory_order_seq_cst))
		ask(self->id, 0);
	atomic_store_explicit(&self->is_arming, false, memory_order_release);
}

static int
dpdk_port_arm(struct xk_port *port)
{
	if (!port->can_sleep)
		return -ENOTSUP;
	dpdk_port_ask((struct dpdk_port *)port, rte_eth_dev_rx_intr_enable);
	return 0;
}

static void
dpdk_port_disarm(struct xk_port *port)
{
	if (port->can_sleep)
		dpdk_port_ask((struct dpdk_port *)port, rte_eth_dev_rx_intr_disable);
}

/* The loop has returned, that is all: the driver receives. */
static void
dpdk_port_ready(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	(void)argument;
}

static void
dpdk_port_watch(struct dpdk_port *self)
{
	struct event_base *events = ((struct dpdk_platform *)self->base.platform)->events;
	int fd = rte_eth_dev_rx_intr_ctl_q_get_fd(self->id, 0);

	if (fd < 0 || rte_eth_dev_rx_intr_enable(self->id, 0) != 0)
		return;
	rte_eth_dev_rx_intr_disable(self->id, 0);
	self->event = event_new(events, fd, EV_READ | EV_ET | EV_PERSIST, dpdk_port_ready, NULL);
	self->base.can_sleep = self->event != NULL && event_add(self->event, NULL) == 0;
}

/* ---- the other end ---- */

void
dpdk_port_set_up(struct dpdk_port *port, bool up)
{
	atomic_store_explicit(&port->up, up, memory_order_seq_cst);
	while (!up && atomic_load_explicit(&port->is_arming, memory_order_seq_cst))
		sched_yield();
	dpdk_wake(port->base.platform);
}

static int
dpdk_port_link_changed(uint16_t id, enum rte_eth_event_type type, void *argument, void *more)
{
	struct dpdk_port *port = argument;
	struct rte_eth_link link = { 0 };

	(void)more;
	if (type == RTE_ETH_EVENT_INTR_LSC && rte_eth_link_get_nowait(id, &link) == 0)
		dpdk_port_set_up(port, link.link_status == RTE_ETH_LINK_UP);
	else
		dpdk_wake(port->base.platform);
	return 0;
}

static const enum rte_eth_event_type dpdk_port_events[] = { RTE_ETH_EVENT_INTR_LSC, RTE_ETH_EVENT_QUEUE_STATE };

static int
dpdk_port_listen(struct dpdk_port *self)
{
	int error = 0;

	for (unsigned i = 0; i < XK_ARRAY_LENGTH(dpdk_port_events) && error == 0; i++)
		error = rte_eth_dev_callback_register(self->id, dpdk_port_events[i], dpdk_port_link_changed, self);
	return error;
}

static void
dpdk_port_unlisten(struct dpdk_port *self)
{
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(dpdk_port_events); i++)
		while (rte_eth_dev_callback_unregister(self->id, dpdk_port_events[i], dpdk_port_link_changed, self) ==
		       -EAGAIN)
			sched_yield();
}

bool
xk_dpdk_port_is_up(const struct xk_port *port)
{
	return atomic_load_explicit(&((const struct dpdk_port *)port)->up, memory_order_acquire);
}

void
xk_dpdk_port_counts(const struct xk_port *port, struct xk_dpdk_port_counts *counts)
{
	const struct dpdk_port *self = (const struct dpdk_port *)port;

	counts->no_peer = atomic_load_explicit(&self->no_peer, memory_order_relaxed);
	counts->too_long = atomic_load_explicit(&self->too_long, memory_order_relaxed);
	counts->malformed = atomic_load_explicit(&self->malformed, memory_order_relaxed);
}

/* ---- opening and closing ---- */

static const struct xk_port_ops dpdk_port_ops = {
	.receive = dpdk_port_receive,
	.transmit = dpdk_port_transmit,
	.arm = dpdk_port_arm,
	.disarm = dpdk_port_disarm,
	.close = dpdk_port_close,
};

/* FNV-1a. */
uint64_t
dpdk_port_hash(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return hash;
}

struct dpdk_port *
dpdk_port_new(struct xk_platform *platform, const char *name, const char *device, uint64_t address, char *why,
	      size_t size)
{
	struct dpdk_port *self = calloc(1, sizeof(*self));

	if (self == NULL || strlen(name) >= sizeof(self->name) || strlen(device) >= sizeof(self->device)) {
		snprintf(why, size, self == NULL ? "no memory" : "the port's name is too long");
		free(self);
		return NULL;
	}
	strcpy(self->name, name);
	strcpy(self->device, device);
	self->id = UINT16_MAX;
	self->base.ops = &dpdk_port_ops;
	self->base.platform = platform;
	self->base.name = self->name;
	self->base.address = address;
	self->base.mtu = DPDK_PORT_MTU;
	return self;
}

static int
dpdk_port_configure(struct dpdk_port *self)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf = { .intr_conf = { .rxq = 1 } };
	int error = rte_eth_dev_info_get(self->id, &info);

	if (error != 0)
		return error;
	self->can_chain = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
	if (self->can_chain)
		conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	conf.intr_conf.lsc = (*info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
	return rte_eth_dev_configure(self->id, 1, 1, &conf);
}

static int
dpdk_port_bring_up(struct dpdk_port *self)
{
	struct rte_mempool *pool = ((struct dpdk_platform *)self->base.platform)->pool;
	int error = dpdk_port_listen(self);

	if (error == 0)
		error = dpdk_port_configure(self);
	if (error == 0 && self->configured != NULL)
		error = self->configured(self);
	if (error == 0)
		error = rte_eth_rx_queue_setup(self->id, 0, DPDK_PORT_RING, SOCKET_ID_ANY, NULL, pool);
	if (error == 0)
		error = rte_eth_tx_queue_setup(self->id, 0, DPDK_PORT_RING, SOCKET_ID_ANY, NULL);
	if (error == 0)
		error = rte_eth_dev_start(self->id);
	return error;
}

int
dpdk_port_start(struct dpdk_port *self, char *why, size_t size)
{
	char text[XK_DPDK_WHY / 2];
	int error = rte_eth_dev_get_port_by_name(self->device, &self->id);

	if (error == 0)
		error = dpdk_port_bring_up(self);
	if (error != 0) {
		snprintf(why, size, "the device of port %s does not start (%s): %s", self->name, strerror(-error),
			 dpdk_eal_log_text(text, sizeof(text)));
		return error;
	}
	self->is_started = true;
	dpdk_port_watch(self);
	return 0;
}

/*
 * While a device goes, DPDK's interrupt thread is held in a callback of ours. virtio's takes the callback of its
 * interrupt back without looking whether it runs at this moment, and then frees what that uses.
 */
struct dpdk_port_hold {
	sem_t told, go;
	bool is_held;
};

static void
dpdk_port_await(sem_t *semaphore)
{
	while (sem_wait(semaphore) != 0)
		;
}

static void
dpdk_port_stand_still(void *argument)
{
	struct dpdk_port_hold *hold = argument;

	sem_post(&hold->told);
	dpdk_port_await(&hold->go);
	sem_post(&hold->told);
}

static void
dpdk_port_hold(struct dpdk_port_hold *hold)
{
	sem_init(&hold->told, 0, 0);
	sem_init(&hold->go, 0, 0);
	hold->is_held = rte_eal_alarm_set(1, dpdk_port_stand_still, hold) == 0;
	if (hold->is_held)
		dpdk_port_await(&hold->told);
}

static void
dpdk_port_release(struct dpdk_port_hold *hold)
{
	if (hold->is_held) {
		sem_post(&hold->go);
		dpdk_port_await(&hold->told);
	}
	sem_destroy(&hold->told);
	sem_destroy(&hold->go);
}

static void
dpdk_port_remove(struct dpdk_port *self)
{
	struct dpdk_port_hold hold;

	dpdk_port_hold(&hold);
	if (!atomic_load_explicit(&self->up, memory_order_acquire)) {
		/* what virtio does a moment after a peer went may be due behind us: it must have been done */
		dpdk_port_release(&hold);
		dpdk_port_hold(&hold);
	}
	if (self->is_started)
		rte_eth_dev_stop(self->id);
	dpdk_port_unlisten(self);
	rte_eth_dev_close(self->id);
	dpdk_port_release(&hold);
	rte_eal_hotplug_remove("vdev", self->device);
}

void
dpdk_port_close(struct xk_port *port)
{
	struct dpdk_port *self = (struct dpdk_port *)port;

	if (self->event != NULL)
		event_free(self->event);
	if (self->id != UINT16_MAX)
		dpdk_port_remove(self);
	if (self->closed != NULL)
		self->closed(self);
	free(self);
}
