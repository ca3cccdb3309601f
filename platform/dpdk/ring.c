/*
 * ring.c - link `ring`: two ports of one process, joined by two rings of DPDK's. The mbufs themselves cross, so a
 * buffer may come home from the other host; nothing wakes anybody.
 */
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>
#include <stdio.h>
#include <stdlib.h>

#include "platform/dpdk/inside.h"

/* Shared by both ports; goes with the second. */
struct dpdk_ring {
	struct rte_ring *rings[2]; /* what port 0, what port 1 receives */
	_Atomic unsigned users;
};

static void
dpdk_ring_free(struct rte_ring *ring)
{
	void *m;

	while (ring != NULL && rte_ring_dequeue(ring, &m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(ring);
}

static void
dpdk_ring_release(struct dpdk_ring *self)
{
	if (atomic_fetch_sub_explicit(&self->users, 1, memory_order_acq_rel) > 1)
		return;
	dpdk_ring_free(self->rings[0]);
	dpdk_ring_free(self->rings[1]);
	free(self);
}

static void
dpdk_ring_closed(struct dpdk_device *device)
{
	if (device->state != NULL)
		dpdk_ring_release(device->state);
}

/* A name that no ring has. */
static void
dpdk_ring_name(char *name, size_t size)
{
	unsigned i = 0;

	do {
		snprintf(name, size, "xk%u", i);
	} while (rte_ring_lookup(name) != NULL && ++i < 100000);
}

static struct rte_ring *
dpdk_ring_new(char *name, size_t size)
{
	dpdk_ring_name(name, size);
	return rte_ring_create(name, DPDK_DEVICE_RING, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
}

const struct dpdk_link dpdk_link_ring = {
	.about = { "ring", "two hosts in one process over DPDK rings", XK_DPDK_NEEDS_NOTHING, false },
	.closed = dpdk_ring_closed,
};

static int
dpdk_ring_start(struct dpdk_port *port, struct dpdk_ring *ring, unsigned end, char *why, size_t size)
{
	struct dpdk_device *device = port->device;

	atomic_fetch_add_explicit(&ring->users, 1, memory_order_relaxed);
	device->state = ring;
	snprintf(device->name, sizeof(device->name), "net_ring_%s", ring->rings[end]->name);
	port->base.address = dpdk_hash_address(device->name);
	atomic_store_explicit(&port->up, true, memory_order_relaxed);
	dpdk_eal_log_reset();
	if (rte_eth_from_rings(ring->rings[end]->name, &ring->rings[end], 1, &ring->rings[1 - end], 1, 0) < 0) {
		snprintf(why, size, "DPDK's ring driver makes no port (%s)", rte_strerror(rte_errno));
		return -ENOMEM;
	}
	device->is_plugged = true;
	return dpdk_device_start(device, why, size);
}

static struct dpdk_port *
dpdk_ring_port(struct xk_platform *platform, const char *name, struct dpdk_ring *ring, unsigned end, char *why,
	       size_t size)
{
	struct dpdk_port *port = dpdk_port_new(platform, name, &dpdk_link_ring, why, size);

	if (port == NULL || dpdk_ring_start(port, ring, end, why, size) == 0)
		return port;
	dpdk_port_close(&port->base);
	return NULL;
}

int
xk_dpdk_ring_open(struct xk_platform *const platforms[2], const char *const names[2], struct xk_port *ports[2],
		  char *why, size_t size)
{
	struct dpdk_ring *link = calloc(1, sizeof(*link));
	struct dpdk_port *made[2] = { NULL, NULL };
	char name[2][16];

	if (link == NULL) {
		snprintf(why, size, "no memory");
		return -ENOMEM;
	}
	link->users = 1;
	for (unsigned i = 0; i < 2; i++)
		link->rings[i] = dpdk_ring_new(name[i], sizeof(name[i]));
	if (link->rings[0] == NULL || link->rings[1] == NULL)
		snprintf(why, size, "DPDK has no memory for two rings");
	else
		made[0] = dpdk_ring_port(platforms[0], names[0], link, 0, why, size);
	if (made[0] != NULL)
		made[1] = dpdk_ring_port(platforms[1], names[1], link, 1, why, size);
	if (made[0] != NULL && made[1] == NULL)
		dpdk_port_close(&made[0]->base);
	dpdk_ring_release(link);
	if (made[1] == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < 2; i++)
		ports[i] = &made[i]->base;
	return 0;
}
