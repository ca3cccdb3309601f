/*
 * ip_router.h - rig for tests of IP as a router, mostly over a fake link with two networks, 10.77.0.0/24 and
 * 10.78.0.0/24 (MTU 600), where this host is .1. 10.80.0.0/16 is behind 10.78.0.2. icmp stands on it and sends errors,
 * which show where each fault is reported.
 */
#ifndef TESTS_IP_ROUTER_H
#define TESTS_IP_ROUTER_H

#include "protocols/ip/ip_private.h"
#include "tests/protocols/ip_datagrams.h"

enum {
	ME2 = 0x0a4e0001,
	NEAR2 = 0x0a4e0002,
	NEAR2_BROADCAST = 0x0a4e00ff,
	BEHIND = 0x0a500007,
	NARROW = 600,
	DF = 0x4000,
};

static const struct xk_vnet_interface two[] = {
	{ .host = ME, .mask = 0xffffff00, .broadcast = NET_BROADCAST, .max_packet = MTU },
	{ .host = ME2, .mask = 0xffffff00, .broadcast = NEAR2_BROADCAST, .max_packet = NARROW, .index = 1 },
};

static inline void
prepare_router(struct rig *r)
{
	struct xk_vnet_interfaces own = { 2, { two[0], two[1] } };

	rig_answer_control(r, XK_VNET_GET_INTERFACES, &own, sizeof(own));
}

static inline struct rig *
router_with(const char *settings)
{
	char graph[300];

	snprintf(graph, sizeof(graph),
		 "wire:; ip: wire; ip.forward=yes; ip.seed=2; ip.routes=10.80.0.0/16=10.78.0.2; %s icmp: ip; user: "
		 "ip#17",
		 settings);
	return rig_new_prepared(graph, prepare_router);
}

static inline struct rig *
router(void)
{
	return router_with("");
}

/* Returns a datagram from a neighbour on the first network to one on the second. */
static inline struct datagram
passing(void)
{
	struct datagram d = usual();

	d.destination = NEAR2;
	return d;
}

static inline long
counter(struct rig *r, const char *name)
{
	return rig_counter_of(r, "ip", name);
}

#endif
