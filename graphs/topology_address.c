/*
 * topology_address.c - the addresses of a network's hosts: a device gets the next address of its link's network, in the
 * order of the file, unless the file specifies one.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs/topology_private.h"

/* A network that gives hosts addresses. */
struct topology_pool {
	struct xk_network network;
	unsigned line;
	uint64_t next, end; /* numbers in the network: of the next device, and after the last */
	bool reported;      /* an error has reported that it is too small */
};

/* ---- numbers ---- */

/* Finds the link's network, or the graph's. Returns the attribute that specifies it, or NULL if there is none. */
static const struct xk_graph_attribute *
topology_link_network(const struct topology_load *load, const struct xk_topology_link *link, struct xk_network *network)
{
	const struct xk_graph *written = topology_written(load);
	const struct xk_graph_attributes *of =
		link->is_edge ? &written->edges[link->written].attributes : &written->nodes[link->written].attributes;

	if (!topology_value(of, "network", network))
		of = &written->attributes;
	return topology_value(of, "network", network) ? xk_graph_attribute_find(of, "network") : NULL;
}

static struct topology_pool
topology_pool_of(const struct xk_network *network, unsigned line)
{
	uint64_t size = UINT64_C(1) << (32 - network->bits);

	/* all ones and all zeroes are not hosts, except in the smallest networks */
	if (network->bits >= 31)
		return (struct topology_pool){ .network = *network, .line = line, .next = 0, .end = size };
	return (struct topology_pool){ .network = *network, .line = line, .next = 1, .end = size - 1 };
}

/* Returns, by link, an index in pools, or -1. Links of one network share its pool. */
static int *
topology_find_pools(const struct topology_load *load, struct topology_pool **pools)
{
	const struct xk_topology *topology = load->topology;
	int *by_link = calloc(topology->link_count + 1, sizeof(*by_link));
	unsigned count = 0;

	xk_assert(by_link != NULL);
	for (unsigned i = 0; i < topology->link_count; i++) {
		struct xk_network network = { 0, 0 };
		const struct xk_graph_attribute *a = topology_link_network(load, &topology->links[i], &network);
		unsigned k = 0;

		by_link[i] = -1;
		if (a == NULL || network.bits == 0)
			continue;
		while (k < count && memcmp(&(*pools)[k].network, &network, sizeof(network)) != 0)
			k++;
		if (k == count) {
			*pools = xk_graph_grow(*pools, count++, sizeof(**pools));
			(*pools)[k] = topology_pool_of(&network, a->line);
		}
		by_link[i] = (int)k;
	}
	return by_link;
}

static void
topology_assign_address(struct topology_load *load, struct xk_topology_device *device, struct topology_pool *pool)
{
	char text[16];

	if (pool->next < pool->end) {
		device->host = pool->network.host + (uint32_t)pool->next++;
		device->bits = pool->network.bits;
	} else if (!pool->reported) {
		attributes_refuse(&load->check, pool->line, "network %s/%u has addresses for %llu devices, too few",
				  xk_host_print(pool->network.host, text), pool->network.bits,
				  (unsigned long long)(pool->end - (pool->network.bits < 31)));
		pool->reported = true;
	}
}

/* ---- duplicate addresses ---- */

/* A number that only one device may have. */
struct topology_claim {
	uint64_t number;
	unsigned link; /* 0: the number must be unique on all links */
	unsigned line;
	const struct xk_topology_host *host;
};

static int
topology_compare_claims(const void *a, const void *b)
{
	const struct topology_claim *left = a, *right = b;

	if (left->number != right->number)
		return left->number < right->number ? -1 : 1;
	if (left->link != right->link)
		return left->link < right->link ? -1 : 1;
	return left->host->number < right->host->number ? -1 : left->host->number > right->host->number;
}

/* Refuses duplicate numbers. Frees claims. */
static void
topology_refuse_claims(struct topology_load *load, struct topology_claim *claims, unsigned count, bool is_link_address)
{
	char text[32];

	if (count > 0)
		qsort(claims, count, sizeof(*claims), topology_compare_claims);
	for (unsigned i = 1; i < count; i++) {
		const struct topology_claim *a = &claims[i - 1], *b = &claims[i];
		uint64_t n = a->number;

		if (n != b->number || a->link != b->link)
			continue;
		if (is_link_address)
			snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", (unsigned)(n >> 40 & 255),
				 (unsigned)(n >> 32 & 255), (unsigned)(n >> 24 & 255), (unsigned)(n >> 16 & 255),
				 (unsigned)(n >> 8 & 255), (unsigned)(n & 255));
		else
			xk_host_print((uint32_t)n, text);
		attributes_refuse(&load->check, a->line > b->line ? a->line : b->line,
				  "%s and %s both have the address %s", a->host->name, b->host->name, text);
	}
	free(claims);
}

/* Refuses duplicate link addresses on one link. */
static void
topology_check_link_addresses(struct topology_load *load)
{
	const struct xk_topology *topology = load->topology;
	struct topology_claim *claims = NULL;
	unsigned count = 0;

	for (unsigned i = 0; i < topology->host_count; i++)
		for (unsigned k = 0; k < topology->hosts[i].device_count; k++) {
			const struct xk_topology_device *device = &topology->hosts[i].devices[k];

			claims = xk_graph_grow(claims, count, sizeof(*claims));
			claims[count++] = (struct topology_claim){ device->address, device->link, device->line,
								   &topology->hosts[i] };
		}
	topology_refuse_claims(load, claims, count, true);
}

/*
 * Refuses duplicate host addresses: those of devices that share none, or those specified by a host's graph or sets
 * instead.
 */
static void
topology_check_host_addresses(struct topology_load *load)
{
	const struct xk_topology *topology = load->topology;
	struct topology_claim *claims = NULL;
	unsigned count = 0;

	for (unsigned i = 0; i < topology->host_count; i++) {
		const struct xk_topology_host *host = &topology->hosts[i];
		struct attributes_address given = { .node = 0 };
		bool is_given[XK_TOPOLOGY_DEVICES_MAX] = { false };

		while (host->checked != NULL && attributes_next_address(host->checked, &given)) {
			if (given.number <= XK_TOPOLOGY_DEVICES_MAX)
				is_given[given.number - 1] = true;
			claims = xk_graph_grow(claims, count, sizeof(*claims));
			claims[count++] = (struct topology_claim){ given.network.host, 0, host->line, host };
		}
		for (unsigned k = 0; k < host->device_count; k++) {
			if (host->devices[k].host == 0 || is_given[k] || host->devices[k].is_shared)
				continue;
			claims = xk_graph_grow(claims, count, sizeof(*claims));
			claims[count++] =
				(struct topology_claim){ host->devices[k].host, 0, host->devices[k].line, host };
		}
	}
	topology_refuse_claims(load, claims, count, false);
}

void
topology_assign_addresses(struct topology_load *load)
{
	struct xk_topology *topology = load->topology;
	struct topology_pool *pools = NULL;
	int *by_link = topology_find_pools(load, &pools);

	for (unsigned i = 0; i < topology->host_count; i++)
		for (unsigned k = 0; k < topology->hosts[i].device_count; k++) {
			struct xk_topology_device *device = &topology->hosts[i].devices[k];

			if (device->host == 0 && by_link[device->link] >= 0)
				topology_assign_address(load, device, &pools[by_link[device->link]]);
		}
	free(by_link);
	free(pools);
	topology_check_host_addresses(load);
	topology_check_link_addresses(load);
}
