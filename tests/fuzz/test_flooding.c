/*
 * test_flooding.c - a stranger that chooses addresses and ports cannot make a host's tables slow: a secret seed
 * determines which keys collide, and linear searches are bounded.
 */

#include "platform/sim/memory.h"
#include "protocols/arp/arp_private.h"
#include "protocols/ip/ip_private.h"
#include "protocols/test/traffic_private.h"
#include "tests/rig.h"
#include "tests/test.h"
#include "xkernel/map.h"

enum {
	KEYS = 256,      /* keys that collide in one table */
	TABLE = 1024,    /* expected bindings: 2048 slots */
	SPREAD = 32,     /* maximum of them that share a place in another; 1 is expected by chance */
	HOSTS = 1 << 20, /* addresses that a stranger can claim */
};

/* ---- the map: eth, ip, udp and stopwait look up their sessions in it ---- */

struct flood {
	struct xk_binding bindings[KEYS];
	struct xk_key keys[KEYS];
	unsigned count;
};

static struct xk_key
key_of(uint32_t host)
{
	return (struct xk_key){ (uint64_t)(0x0a000000 | host) << 32 | 0x0a4d0002, 0x1b5807d1 };
}

/* Returns ARP's key. */
static struct xk_key
arp_key_of(uint32_t host)
{
	return (struct xk_key){ 0x0a000003 + host, 0 };
}

/* Returns the slot where key's search begins. */
static uint32_t
slot_of(struct xk_map *map, struct xk_key key)
{
	return (uint32_t)(xk_map_expect(map, key).slot - atomic_load(&map->table)->slots);
}

/* Chooses keys whose searches begin at one slot of map, as somebody could who knew its seed. */
static void
flood_choose(struct flood *flood, struct xk_map *map, struct xk_key (*key_of_host)(uint32_t host))
{
	uint32_t slot = 0;

	flood->count = 0;
	for (uint32_t host = 0; host < HOSTS && flood->count < KEYS; host++) {
		uint32_t first = slot_of(map, key_of_host(host));

		if (host == 0)
			slot = first;
		if (first == slot)
			flood->keys[flood->count++] = key_of_host(host);
	}
}

/* Returns the largest number of keys that share a first slot of map. */
static unsigned
flood_crowd(struct flood *flood, struct xk_map *map)
{
	static unsigned crowds[1 << 16];
	uint32_t mask = atomic_load(&map->table)->mask;
	unsigned most = 0;

	REQUIRE(mask < XK_ARRAY_LENGTH(crowds));
	memset(crowds, 0, sizeof(crowds));
	for (unsigned i = 0; i < flood->count; i++) {
		unsigned *crowd;

		REQUIRE(xk_map_bind(map, &flood->bindings[i], flood->keys[i], flood) == 0);
		crowd = &crowds[slot_of(map, flood->keys[i])];
		most = ++*crowd > most ? *crowd : most;
	}
	for (unsigned i = 0; i < flood->count; i++)
		xk_map_unbind(map, &flood->bindings[i]);
	return most;
}

TEST(keys_that_collide_in_one_map_spread_in_another)
{
	struct flood *flood = calloc(1, sizeof(*flood));
	struct xk_map known, others[8];

	REQUIRE(flood != NULL && xk_map_init(&known, NULL, TABLE) == 0);
	flood_choose(flood, &known, key_of);
	CHECK_EQ(flood->count, KEYS);
	CHECK_EQ(flood_crowd(flood, &known), KEYS);
	for (unsigned i = 0; i < XK_ARRAY_LENGTH(others); i++) {
		REQUIRE(xk_map_init(&others[i], NULL, TABLE) == 0);
		CHECK(flood_crowd(flood, &others[i]) <= SPREAD);
		xk_map_fini(&others[i]);
	}
	xk_map_fini(&known);
	free(flood);
}

/* ---- ARP's table ---- */

static struct rig *
arp_new(void)
{
	return rig_new_graph("port:; eth: port; arp: eth; arp.entries=1024; vnet: eth arp; vnet.address=10.0.0.1/8");
}

static struct arp *
arp_of_rig(struct rig *r)
{
	return (struct arp *)rig_protocol(r, "arp");
}

/* Injects an ARP request from host for this host, which learns it. */
static void
arp_introduce(struct rig *r, uint32_t host)
{
	uint8_t frame[42];

	xk_put48(frame, UINT64_C(0xffffffffffff));
	xk_put48(frame + 6, UINT64_C(0x020000000000) | host);
	xk_put16(frame + 12, 0x0806);
	xk_put32(frame + 14, 0x00010800);
	xk_put32(frame + 18, 0x06040001);
	xk_put48(frame + 22, UINT64_C(0x020000000000) | host);
	xk_put32(frame + 28, host);
	xk_put48(frame + 32, 0);
	xk_put32(frame + 38, 0x0a000001);
	rig_inject_bytes(r, frame, sizeof(frame));
	rig_forget(r);
}

static void
arp_collect(void *neighbour, void *context)
{
	struct flood *flood = context;

	if (flood->count < KEYS)
		flood->keys[flood->count++] = ((struct xk_neighbour *)neighbour)->binding.key;
}

/* ARP's table is such a map, and each host has seeds of its own. */
TEST(hosts_that_collide_in_one_arp_table_spread_in_another)
{
	struct rig *known = arp_new(), *other = arp_new();
	struct flood *flood = calloc(1, sizeof(*flood));
	struct xk_map *known_map = &arp_of_rig(known)->hosts, *other_map = &arp_of_rig(other)->hosts;

	REQUIRE(flood != NULL);
	arp_introduce(known, 0x0a000002);
	xk_map_for_each(known_map, arp_collect, flood);
	CHECK_EQ(flood->count, 1); /* the map that a stranger would have to know */
	CHECK_EQ(flood->keys[0].a, 0x0a000002);
	CHECK(known_map->seed[0] != other_map->seed[0] && known_map->seed[1] != other_map->seed[1]);
	flood_choose(flood, known_map, arp_key_of);
	CHECK_EQ(flood->count, KEYS);
	CHECK(flood_crowd(flood, known_map) >= KEYS);
	CHECK(flood_crowd(flood, other_map) <= SPREAD);
	free(flood);
	rig_free(known);
	rig_free(other);
}

/* ---- bounds of linear searches ---- */

/*
 * Fragments of as many datagrams as there are identifications, from as many hosts: the table does not exceed its
 * setting.
 */
RIG_TEST(search_for_a_datagram_is_bounded,
	 rig_new_graph("port:; eth: port; arp: eth; vnet: eth arp; vnet.address=10.0.0.1/8; ip: vnet;"
		       "udp: ip; udptest: udp"))
{
	const struct ip_reassembly *table = &((struct ip *)rig_protocol(r, "ip"))->reassembly;
	uint8_t frame[14 + 20 + 16] = { 0 }, *p = frame + 14;

	xk_put48(frame, UINT64_C(0x020000000001));
	xk_put48(frame + 6, UINT64_C(0x0200000000aa));
	xk_put16(frame + 12, 0x0800);
	for (uint32_t i = 0; i < 5000; i++) {
		ip_store(p, &(struct ip_header){ .version = 4,
						 .header_length = IP_HEADER_LEN / 4,
						 .length = IP_HEADER_LEN + 16,
						 .identification = (uint16_t)i,
						 .flags = IP_FLAG_MORE,
						 .ttl = 64,
						 .protocol = 17,
						 .source = 0x0a000002 + i % 500,
						 .destination = 0x0a000001 });
		xk_checksum_store(p + XK_OFFSET(ip, checksum), xk_checksum_finish(xk_header_sum(p, IP_HEADER_LEN)));
		rig_inject_bytes(r, frame, sizeof(frame));
	}
	CHECK(table->datagrams <= table->limits.datagrams && table->limits.datagrams <= 1024);
	CHECK(rig_counter_of(r, "ip", "evicted") > 4000);
	rig_advance_ms(r, 60000);
	CHECK_EQ(table->datagrams, 0);
}
