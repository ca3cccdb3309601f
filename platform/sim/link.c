/*
 * link.c - the way of a frame: when it begins, when it comes to each of its receivers, and what is lost before it does.
 */
#include <stdlib.h>

#include "platform/sim/link_private.h"
#include "xkernel/bytes.h"

/* ---- making one ---- */

void
sim_link_configure(struct sim_link *link, const struct sim_link_config *config)
{
	xk_assert(sim_link_check(config) == NULL);
	link->config = *config;
	link->gap_ns = link_bytes_ns(config, config->frame_gap);
	link->faulty = (config->loss | config->duplicate | config->reorder | config->corrupt) != 0;
	if (config->loss == 0)
		for (uint32_t i = 0; i < link->station_count; i++)
			link->stations[i].burst = 0;
}

struct sim_link *
sim_link_new(const struct sim_link_config *config, uint64_t seed)
{
	struct sim_link *link = calloc(1, sizeof(*link));
	bool known;

	if (link == NULL)
		return NULL;
	known = link_kind_find(config->kind, &link->kind);
	xk_assert(known);
	sim_random_init(&link->random, seed);
	sim_link_configure(link, config);
	return link;
}

void
sim_link_free(struct sim_link *link)
{
	if (link == NULL)
		return;
	for (uint32_t i = 0; i < link->station_count; i++)
		free(link->stations[i].queue.begins_ns);
	free(link->stations);
	free(link->slots);
	free(link);
}

const struct sim_link_counts *
sim_link_counts_of(const struct sim_link *link)
{
	return &link->counts;
}

/* ---- sending ---- */

/*
 * Whether there is room in the switch's queue to station `to`; *arrives_ns is when the frame then comes to it. Whatever
 * was taken before leaves before, for each begins when the one before it has ended.
 */
static bool
link_switch(const struct link_frame *frame, struct link_station *to, uint64_t *arrives_ns)
{
	struct sim_link *link = frame->link;
	uint64_t latency_ns = link->config.latency_ns, begins_ns;
	uint64_t at_ns = link_after(frame->begins_ns, latency_ns);

	if (!link->config.cut_through)
		at_ns = link_after(at_ns, frame->time_ns);
	begins_ns = at_ns;
	link_queue_pass(&to->queue, at_ns);
	if (to->down_free_ns > at_ns) {
		if (to->queue.count >= link->config.queue)
			return false;
		begins_ns = to->down_free_ns;
		link_queue_put(&to->queue, begins_ns);
	}
	to->down_free_ns = link_after(begins_ns, frame->time_ns + link->gap_ns);
	*arrives_ns = link_after(begins_ns, frame->time_ns + latency_ns);
	return true;
}

static void
link_reach(const struct link_frame *frame, unsigned to)
{
	struct sim_link *link = frame->link;
	struct link_station *station = &link->stations[to];
	uint64_t at_ns = link_after(frame->begins_ns, frame->time_ns + link->config.latency_ns);

	if (xk_unlikely(link->stations[frame->from].cut_sends || station->cut_receives)) {
		link_lose(frame, to, at_ns, "cut", &link->counts.cut);
		return;
	}
	if (xk_unlikely(frame->len > link->config.mtu + LINK_HEADER_LEN)) {
		link_lose(frame, to, at_ns, "mtu", &link->counts.mtu);
		return;
	}
	if (link->kind == SIM_LINK_SWITCH && !link_switch(frame, station, &at_ns)) {
		link_lose(frame, to, at_ns, "queue", &link->counts.queue);
		return;
	}
	/* a latency that has become shorter brings nothing past what is under way */
	if (at_ns < station->last_ns)
		at_ns = station->last_ns;
	station->last_ns = at_ns;
	link_fault(frame, to, at_ns);
}

static void
link_begin(const struct link_frame *frame, const uint8_t *bytes)
{
	struct sim_link *link = frame->link;
	int to;

	if (frame->len >= LINK_HEADER_LEN && bytes[0] & 1) {
		for (uint32_t i = 0; i < link->station_count; i++)
			if (i != frame->from)
				link_reach(frame, i);
		return;
	}
	to = frame->len < LINK_HEADER_LEN ? -1 : link_station_find(link, xk_get48(bytes));
	if (to < 0 || (unsigned)to == frame->from)
		link->counts.nobody++;
	else
		link_reach(frame, (unsigned)to);
}

uint64_t
sim_link_send(struct sim_link *link, unsigned station, const uint8_t *frame, size_t len, uint64_t now_ns,
	      void (*arrive)(void *context, const struct sim_arrival *arrival), void *context)
{
	struct link_station *from = &link->stations[station];
	uint64_t *free_ns = link->kind == SIM_LINK_SHARED ? &link->medium_free_ns : &from->up_free_ns;
	uint64_t begins_ns = now_ns;
	struct link_frame begun = { link, station, len, now_ns, 0, arrive, context };

	xk_assert(station < link->station_count);
	link->counts.sent++;
	begun.time_ns = sim_link_frame_ns(&link->config, len);
	if (xk_likely(!from->cut_sends)) {
		if (*free_ns > now_ns)
			begins_ns = *free_ns;
		*free_ns = link_after(begins_ns, begun.time_ns + link->gap_ns);
	}
	if (begins_ns > now_ns)
		from->waiting++;
	else
		link_begin(&begun, frame);
	return begins_ns;
}

void
sim_link_begin(struct sim_link *link, unsigned station, const uint8_t *frame, size_t len, uint64_t begins_ns,
	       void (*arrive)(void *context, const struct sim_arrival *arrival), void *context)
{
	struct link_frame begun = { link, station, len, begins_ns, 0, arrive, context };

	xk_assert(station < link->station_count && link->stations[station].waiting > 0);
	link->stations[station].waiting--;
	begun.time_ns = sim_link_frame_ns(&link->config, len);
	link_begin(&begun, frame);
}

void
sim_link_withdraw(struct sim_link *link, unsigned station)
{
	xk_assert(station < link->station_count && link->stations[station].waiting > 0);
	link->stations[station].waiting--;
	link->counts.withdrawn++;
}

unsigned
sim_link_room(const struct sim_link *link, unsigned station)
{
	uint32_t waiting;

	xk_assert(station < link->station_count);
	waiting = link->stations[station].waiting;
	return waiting < link->config.queue ? (unsigned)link->config.queue - waiting : 0;
}
