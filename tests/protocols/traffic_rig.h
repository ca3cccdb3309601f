/* traffic_rig.h - rig for tests of traffic on a fake wire. They make messages with traffic's private header. */
#ifndef TESTS_TRAFFIC_RIG_H
#define TESTS_TRAFFIC_RIG_H

#include "protocols/test/traffic_private.h"
#include "tests/rig.h"

enum { HERE = 0x0a4d0001, THERE = 0x0a4d0002, HERE_TOO = 0x0a4e0001, LEN = 4096, BOOT = 0x77 };

static inline void
set_host(struct rig *r)
{
	uint64_t host = HERE;

	rig_answer_control(r, XK_GET_MY_HOST, &host, sizeof(host));
}

/* Configures a host on two links. */
static inline void
set_hosts(struct rig *r)
{
	struct xk_vnet_interfaces interfaces = { 2, { { .host = HERE }, { .host = HERE_TOO, .index = 1 } } };

	set_host(r);
	rig_answer_control(r, XK_VNET_GET_INTERFACES, &interfaces, sizeof(interfaces));
}

/* Puts its sessions on the second link from now on. */
static inline void
set_second_link(struct rig *r)
{
	uint64_t host = HERE_TOO;

	rig_answer_control(r, XK_GET_MY_HOST, &host, sizeof(host));
}

/* Returns traffic on a wire; settings are statements. */
static inline struct rig *
traffic_new(const char *settings)
{
	char graph[512];

	snprintf(graph, sizeof(graph), "wire:; traffic: wire; %s", settings);
	return rig_new_prepared(graph, set_host);
}

static inline struct traffic *
own(struct rig *r)
{
	return (struct traffic *)rig_protocol(r, "traffic");
}

static inline long
counter(struct rig *r, const char *name)
{
	return rig_counter_of(r, "traffic", name);
}

static inline void
do_forget_peers(void *argument)
{
	struct traffic *t = argument;

	for (unsigned i = 0; i < t->peer_count; i++)
		xk_close(atomic_exchange_explicit(&t->peers[i].session, NULL, memory_order_relaxed));
}

static inline void
end(struct rig *r)
{
	xk_event_cancel(&own(r)->event);
	rig_do(r, do_forget_peers, own(r));
	rig_forget(r);
	rig_free(r);
}

#define TRAFFIC_TEST(name, made) TEST_WITH(name, struct rig *r, made, end)

#endif
