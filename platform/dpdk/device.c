/*
 * device.c - the life of a DPDK device: create, configure, start, remove. DPDK's interrupt thread or the link reports
 * whether there is a peer.
 */
#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/dpdk/dpdk_private.h"

/* ---- the peer ---- */

void
dpdk_device_set_up(struct dpdk_device *device, bool up)
{
	unsigned lanes = up ? device->port_count : 0;

	if (device->port_count > 1 && device->link->lanes != NULL)
		lanes = device->link->lanes(device, up);
	atomic_store_explicit(&device->lanes, lanes, memory_order_relaxed);
	for (unsigned i = 0; i < device->port_count; i++)
		dpdk_port_set_up(device->ports[i], i < lanes);
	/*
	 * Waits only when the peer goes: DPDK reports single queues with their lock held, and an arming driver may wait
	 * for that lock.
	 */
	for (unsigned i = 0; i < device->port_count && !up; i++)
		dpdk_port_await_disarmed(device->ports[i]);
}

bool
dpdk_device_is_up(const struct dpdk_device *device)
{
	return atomic_load_explicit(&device->ports[0]->up, memory_order_acquire);
}

bool
dpdk_device_is_linked(const struct dpdk_device *self)
{
	struct rte_eth_link link = { 0 };

	return rte_eth_link_get_nowait(self->id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

static int
dpdk_device_changed(uint16_t id, enum rte_eth_event_type type, void *argument, void *more)
{
	struct dpdk_device *self = argument;
	bool up;

	(void)id;
	(void)more;
	dpdk_after(self);
	up = dpdk_device_is_linked(self);
	if (type == RTE_ETH_EVENT_INTR_LSC || (up && self->port_count > 1))
		dpdk_device_set_up(self, up);
	else
		for (unsigned i = 0; i < self->port_count; i++)
			dpdk_wake(self->ports[i]->base.platform);
	dpdk_before(self);
	return 0;
}

static const enum rte_eth_event_type dpdk_device_events[] = { RTE_ETH_EVENT_INTR_LSC, RTE_ETH_EVENT_QUEUE_STATE };

static int
dpdk_device_subscribe(struct dpdk_device *self)
{
	int error = 0;

	dpdk_before(self);
	for (unsigned i = 0; self->reports_link && i < XK_ARRAY_LENGTH(dpdk_device_events) && error == 0; i++)
		error = rte_eth_dev_callback_register(self->id, dpdk_device_events[i], dpdk_device_changed, self);
	return error;
}

static void
dpdk_device_unsubscribe(struct dpdk_device *self)
{
	for (unsigned i = 0; self->reports_link && i < XK_ARRAY_LENGTH(dpdk_device_events); i++)
		while (rte_eth_dev_callback_unregister(self->id, dpdk_device_events[i], dpdk_device_changed, self) ==
		       -EAGAIN)
			sched_yield();
	dpdk_after(self);
}

/* ---- making and starting ---- */

void
dpdk_device_name(struct dpdk_device *device, const char *kind)
{
	uint16_t id;
	unsigned i = 0;

	do {
		snprintf(device->name, sizeof(device->name), "%s%u", kind, i);
	} while (rte_eth_dev_get_port_by_name(device->name, &id) == 0 && ++i < 100000);
}

int
dpdk_device_plug(struct dpdk_device *device, const char *arguments, const char *what, char *why, size_t size)
{
	int error;

	dpdk_eal_log_reset();
	error = rte_eal_hotplug_add("vdev", device->name, arguments);
	if (error != 0)
		dpdk_why(error, what, why, size);
	device->is_plugged = error == 0;
	return error;
}

static int
dpdk_device_configure(struct dpdk_device *self)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf = { .intr_conf = { .rxq = 1 } };
	int error = rte_eth_dev_info_get(self->id, &info);

	if (error != 0)
		return error;
	self->can_chain = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
	if (self->can_chain)
		conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	if (self->port_count > 1 && !self->spreads) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf =
			info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
	}
	conf.intr_conf.lsc = self->reports_link && (*info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
	return rte_eth_dev_configure(self->id, (uint16_t)self->port_count, (uint16_t)self->port_count, &conf);
}

static int
dpdk_device_set_queues_up(struct dpdk_device *self)
{
	uint16_t receive = DPDK_DEVICE_RING, send = DPDK_DEVICE_RING;
	int error = rte_eth_dev_adjust_nb_rx_tx_desc(self->id, &receive, &send);

	for (uint16_t i = 0; i < self->port_count && error == 0; i++) {
		struct dpdk_platform *platform = (struct dpdk_platform *)self->ports[i]->base.platform;

		self->ports[i]->id = self->id;
		self->ports[i]->queue = i;
		error = rte_eth_rx_queue_setup(self->id, i, receive, SOCKET_ID_ANY, NULL,
					       self->pool != NULL ? self->pool : platform->pool);
		if (error == 0)
			error = rte_eth_tx_queue_setup(self->id, i, send, SOCKET_ID_ANY, NULL);
	}
	return error;
}

static int
dpdk_device_bring_up(struct dpdk_device *self)
{
	int error = dpdk_device_subscribe(self);

	if (error == 0)
		error = dpdk_device_configure(self);
	if (error == 0 && self->link->configured != NULL)
		error = self->link->configured(self);
	if (error == 0)
		error = dpdk_device_set_queues_up(self);
	return error == 0 ? rte_eth_dev_start(self->id) : error;
}

/* Adds (sign 1) or subtracts (-1) the slots of the device's rings, which the platform's pool must fill. */
static void
dpdk_device_count_rings(const struct dpdk_device *self, int sign)
{
	struct dpdk_platform *owner = dpdk_owner_of(self->ports[0]->base.platform);

	atomic_fetch_add_explicit(&owner->in_rings, (unsigned)sign * self->port_count * 2 * DPDK_DEVICE_RING,
				  memory_order_relaxed);
}

int
dpdk_device_start(struct dpdk_device *self, char *why, size_t size)
{
	char what[XK_DPDK_WHY / 2];
	int error = rte_eth_dev_get_port_by_name(self->name, &self->id);

	if (error == 0)
		error = dpdk_device_bring_up(self);
	if (error != 0) {
		snprintf(what, sizeof(what), "the device of port %s does not start", self->ports[0]->name);
		dpdk_why(error, what, why, size);
		return error;
	}
	self->is_started = true;
	dpdk_device_count_rings(self, 1);
	for (unsigned i = 0; i < self->port_count; i++)
		dpdk_port_watch(self->ports[i]);
	return 0;
}

/* ---- removing ---- */

/*
 * Keeps DPDK's interrupt thread in a callback while a device is removed: virtio unregisters its interrupt callback
 * without checking whether it is running, and then frees what it uses.
 */
struct dpdk_device_hold {
	sem_t reached, go;
	bool is_held;
};

static void
dpdk_device_await(sem_t *semaphore)
{
	while (sem_wait(semaphore) != 0)
		;
}

static void
dpdk_device_block(void *argument)
{
	struct dpdk_device_hold *hold = argument;

	sem_post(&hold->reached);
	dpdk_device_await(&hold->go);
	sem_post(&hold->reached);
}

static void
dpdk_device_hold(struct dpdk_device_hold *hold)
{
	sem_init(&hold->reached, 0, 0);
	sem_init(&hold->go, 0, 0);
	hold->is_held = rte_eal_alarm_set(1, dpdk_device_block, hold) == 0;
	if (hold->is_held)
		dpdk_device_await(&hold->reached);
}

static void
dpdk_device_release(struct dpdk_device_hold *hold)
{
	if (hold->is_held) {
		sem_post(&hold->go);
		dpdk_device_await(&hold->reached);
	}
	sem_destroy(&hold->reached);
	sem_destroy(&hold->go);
}

static void
dpdk_device_remove(struct dpdk_device *self)
{
	struct dpdk_device_hold hold;

	/* The first hold lets work run that virtio scheduled when the peer went. */
	dpdk_device_hold(&hold);
	dpdk_device_release(&hold);
	dpdk_device_hold(&hold);
	if (self->is_started)
		rte_eth_dev_stop(self->id);
	dpdk_device_unsubscribe(self);
	rte_eth_dev_close(self->id);
	dpdk_device_release(&hold);
}

void
dpdk_device_unplug(struct dpdk_device *self)
{
	if (self->link->closing != NULL)
		self->link->closing(self);
	if (self->id != UINT16_MAX)
		dpdk_device_remove(self);
	self->id = UINT16_MAX;
	if (self->is_plugged)
		rte_eal_hotplug_remove("vdev", self->name);
	if (self->is_started)
		dpdk_device_count_rings(self, -1);
	self->is_plugged = self->is_started = false;
}

void
dpdk_device_close(struct dpdk_device *self)
{
	dpdk_device_unplug(self);
	if (self->link->closed != NULL)
		self->link->closed(self);
	for (unsigned i = 0; i < self->port_count; i++)
		free(self->ports[i]);
	free(self);
}
