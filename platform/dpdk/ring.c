/*
 * ring.c - link `ring`: two ports of one process, joined by two DPDK rings per lane. The mbufs themselves cross, so
 * either host may free the other's buffers. There are no wake-ups.
 */
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>
#include <stdio.h>
#include <stdlib.h>

#include "platform/dpdk/dpdk_private.h"

enum { DPDK_RING_LANES = 16 }; /* maximum of DPDK's ring driver */

/* Shared by both ports; freed with the second. */
struct dpdk_ring {
	struct rte_ring *rings[2][DPDK_RING_LANES]; /* from which port 0 and port 1 receive */
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
	for (unsigned i = 0; i < DPDK_RING_LANES; i++) {
		dpdk_ring_free(self->rings[0][i]);
		dpdk_ring_free(self->rings[1][i]);
	}
	free(self);
}

static void
dpdk_ring_closed(struct dpdk_device *device)
{
	if (device->state != NULL)
		dpdk_ring_release(device->state);
}

static struct rte_ring *
dpdk_ring_new(void)
{
	char name[16];
	unsigned i = 0;

	do {
		snprintf(name, sizeof(name), "xk%u", i);
	} while (rte_ring_lookup(name) != NULL && ++i < 100000);
	return rte_ring_create(name, DPDK_DEVICE_RING, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
}

/* Returns the rings for two ports with `lanes` lanes, or NULL and why without memory. */
static struct dpdk_ring *
dpdk_ring_new_all(unsigned lanes, char *why, size_t size)
{
	struct dpdk_ring *self = calloc(1, sizeof(*self));
	bool good = self != NULL;

	for (unsigned i = 0; good && i < 2 * lanes; i++) {
		self->rings[i % 2][i / 2] = dpdk_ring_new();
		good = self->rings[i % 2][i / 2] != NULL;
	}
	if (self != NULL)
		self->users = 1;
	if (good)
		return self;
	snprintf(why, size, "DPDK has no memory for %u rings", 2 * lanes);
	if (self != NULL)
		dpdk_ring_release(self);
	return NULL;
}

const struct dpdk_link dpdk_link_ring = {
	.about = { "ring", "two hosts in one process over DPDK rings", XK_DPDK_NEEDS_NOTHING, false, DPDK_RING_LANES },
	.closed = dpdk_ring_closed,
};

static int
dpdk_ring_start(struct dpdk_port *port, struct dpdk_ring *ring, unsigned end, char *why, size_t size)
{
	struct dpdk_device *device = port->device;
	struct rte_ring **in = ring->rings[end], **out = ring->rings[1 - end];

	atomic_fetch_add_explicit(&ring->users, 1, memory_order_relaxed);
	device->state = ring;
	device->spreads = device->port_count > 1;
	snprintf(device->name, sizeof(device->name), "net_ring_%s", in[0]->name);
	port->base.address = dpdk_address_generate(device->name);
	dpdk_device_set_up(device, true);
	dpdk_eal_log_reset();
	if (rte_eth_from_rings(in[0]->name, in, device->port_count, out, device->port_count, 0) < 0) {
		dpdk_why(-rte_errno, "DPDK's ring driver creates no port", why, size);
		return -ENOMEM;
	}
	device->is_plugged = true;
	return dpdk_device_start(device, why, size);
}

static struct dpdk_port *
dpdk_ring_port(struct xk_platform *const *platforms, unsigned count, const char *name, struct dpdk_ring *ring,
	       unsigned end, char *why, size_t size)
{
	struct dpdk_port *port = dpdk_port_new(platforms, count, name, &dpdk_link_ring, why, size);

	if (port == NULL || dpdk_ring_start(port, ring, end, why, size) == 0)
		return port;
	dpdk_port_close_all(port);
	return NULL;
}

int
xk_dpdk_ring_open_lanes(struct xk_platform *const *const platforms[2], unsigned count, const char *const names[2],
			struct xk_port **const ports[2], char *why, size_t size)
{
	struct dpdk_port *made[2] = { NULL, NULL };
	struct dpdk_ring *link;

	if (count > DPDK_RING_LANES) {
		snprintf(why, size, "a port on link ring has at most %d queues, and this host has %u drivers",
			 DPDK_RING_LANES, count);
		return -EINVAL;
	}
	link = dpdk_ring_new_all(count, why, size);
	if (link == NULL)
		return -ENOMEM;
	made[0] = dpdk_ring_port(platforms[0], count, names[0], link, 0, why, size);
	if (made[0] != NULL)
		made[1] = dpdk_ring_port(platforms[1], count, names[1], link, 1, why, size);
	if (made[0] != NULL && made[1] == NULL)
		dpdk_port_close_all(made[0]);
	dpdk_ring_release(link);
	if (made[1] == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < 2; i++)
		dpdk_port_list(made[i], ports[i]);
	return 0;
}

int
xk_dpdk_ring_open(struct xk_platform *const platforms[2], const char *const names[2], struct xk_port *ports[2],
		  char *why, size_t size)
{
	struct xk_platform *const *const ends[2] = { &platforms[0], &platforms[1] };
	struct xk_port **const made[2] = { &ports[0], &ports[1] };

	return xk_dpdk_ring_open_lanes(ends, 1, names, made, why, size);
}
