/*
 * link_station.c - who is on a link: stations, their table by address, and the queues of a switch.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "platform/sim/link_private.h"

/* ---- by address ---- */

#define LINK_ADDRESS_MAX ((UINT64_C(1) << 48) - 1)
#define LINK_GROUP (UINT64_C(1) << 40)

static uint32_t
link_slot(const struct sim_link *link, uint64_t address)
{
	uint64_t mixed = (address ^ address >> 23) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(mixed >> 32) & (link->slot_count - 1);
}

int
link_station_find(const struct sim_link *link, uint64_t address)
{
	uint32_t i;

	if (link->slot_count == 0)
		return -1;
	for (i = link_slot(link, address); link->slots[i] != 0; i = (i + 1) & (link->slot_count - 1))
		if (link->slots[i] >> 16 == address)
			return (int)(link->slots[i] & 0xffff);
	return -1;
}

/* There is a free slot. */
static void
link_slot_put(struct sim_link *link, uint32_t station)
{
	uint64_t address = link->stations[station].address;
	uint32_t i = link_slot(link, address);

	while (link->slots[i] != 0)
		i = (i + 1) & (link->slot_count - 1);
	link->slots[i] = address << 16 | station;
}

/* Room for one more station. */
static int
link_slots_grow(struct sim_link *link)
{
	uint32_t count = link->slot_count == 0 ? 8 : link->slot_count * 2;
	uint64_t *slots;

	if ((link->station_count + 1) * 2 <= link->slot_count)
		return 0;
	slots = calloc(count, sizeof(*slots));
	if (slots == NULL)
		return -ENOMEM;
	free(link->slots);
	link->slots = slots;
	link->slot_count = count;
	for (uint32_t i = 0; i < link->station_count; i++)
		link_slot_put(link, i);
	return 0;
}

/* ---- stations ---- */

static int
link_stations_grow(struct sim_link *link)
{
	uint32_t room = link->station_room == 0 ? 2 : link->station_room * 2;
	struct link_station *stations;

	if (link->station_count < link->station_room)
		return 0;
	stations = realloc(link->stations, room * sizeof(*stations));
	if (stations == NULL)
		return -ENOMEM;
	link->stations = stations;
	link->station_room = room;
	return 0;
}

int
sim_link_join(struct sim_link *link, uint64_t address)
{
	uint32_t station = link->station_count;

	if (address == 0 || address > LINK_ADDRESS_MAX || address & LINK_GROUP)
		return -EINVAL;
	if (station == (link->kind == SIM_LINK_WIRE ? 2 : SIM_LINK_STATIONS_MAX))
		return -ENOSPC;
	if (link_station_find(link, address) >= 0)
		return -EEXIST;
	if (link_stations_grow(link) != 0 || link_slots_grow(link) != 0)
		return -ENOMEM;
	link->stations[station] = (struct link_station){ .address = address };
	link_slot_put(link, station);
	link->station_count++;
	return (int)station;
}

void
sim_link_cut(struct sim_link *link, unsigned station, bool sends, bool receives)
{
	xk_assert(station < link->station_count);
	link->stations[station].cut_sends = sends;
	link->stations[station].cut_receives = receives;
}

/* ---- the queue of a switch to a station ---- */

void
link_queue_pass(struct link_queue *queue, uint64_t now_ns)
{
	while (queue->count > 0 && queue->begins_ns[queue->first] <= now_ns) {
		queue->first = (queue->first + 1) & (queue->room - 1);
		queue->count--;
	}
}

/* Doubles the ring, what it holds at its beginning. */
static bool
link_queue_grow(struct link_queue *queue)
{
	uint32_t room = queue->room == 0 ? 8 : queue->room * 2;
	uint64_t *begins_ns = malloc(room * sizeof(*begins_ns));

	if (begins_ns == NULL)
		return false;
	for (uint32_t i = 0; i < queue->count; i++)
		begins_ns[i] = queue->begins_ns[(queue->first + i) & (queue->room - 1)];
	free(queue->begins_ns);
	queue->begins_ns = begins_ns;
	queue->first = 0;
	queue->room = room;
	return true;
}

void
link_queue_put(struct link_queue *queue, uint64_t begins_ns)
{
	if (queue->count == queue->room && !link_queue_grow(queue))
		return;
	queue->begins_ns[(queue->first + queue->count++) & (queue->room - 1)] = begins_ns;
}
