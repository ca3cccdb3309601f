/*
 * link.c - models a frame's transmission through a link: when it begins, when it reaches each receiver, and which
 * faults it suffers.
 *
 * Random draws for one frame and receiver, in this order: loss, length of the burst; corruption, its place and bits;
 * duplication; reordering, its delay; the delay of the duplicate. A probability of 0 or 1 is not drawn.
 */
#include <errno.h>
#include <stdlib.h>

#include "platform/sim/link_private.h"
#include "platform/sim/random.h"
#include "xkernel/bytes.h"

enum { LINK_HEADER_LEN = 14 }; /* of Ethernet */

#define LINK_ADDRESS_MAX ((UINT64_C(1) << 48) - 1)
#define LINK_GROUP (UINT64_C(1) << 40)

/*
 * Transmission times of the frames that wait in a switch, earliest first: a ring, allocated when a frame first has to
 * wait.
 */
struct link_queue {
	uint64_t *begins_ns;
	uint32_t first, count, room; /* room is a power of two, or 0 */
};

struct link_station {
	uint64_t address;
	uint64_t up_free_ns;   /* earliest time at which the station may begin to send */
	uint64_t down_free_ns; /* the same for the switch's wire to the station */
	uint64_t last_ns;      /* arrival of the latest frame; no other may arrive earlier */
	uint32_t waiting;      /* frames sent whose transmission has not begun */
	uint32_t burst;        /* number of further frames to the station to lose */
	bool cut_sends, cut_receives;
	struct link_queue queue; /* in the switch */
};

struct sim_link {
	struct sim_link_config config;
	enum sim_link_kind kind;
	bool faulty;             /* some fault has a probability above 0 */
	uint64_t gap_ns;         /* silence after a frame */
	uint64_t medium_free_ns; /* earliest time at which a shared medium is free */
	struct sim_random random;
	struct sim_link_counts counts;
	struct link_station *stations;
	uint32_t station_count, station_room;
	/* Hash table: address << 16 | station, or 0. Has twice as many slots as `stations` has room; a power of two. */
	uint64_t *slots;
	uint32_t slot_count;
};

/* A frame whose transmission begins, passed to one receiver after the other. */
struct link_frame {
	struct sim_link *link;
	unsigned from;
	size_t len;
	uint64_t begins_ns, time_ns;
	void (*arrive)(void *context, const struct sim_arrival *arrival);
	void *context;
};

/* Returns the sum of two times, UINT64_MAX if it overflows. */
static inline uint64_t
link_after(uint64_t a_ns, uint64_t b_ns)
{
	uint64_t sum;

	return __builtin_add_overflow(a_ns, b_ns, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t
link_latency_ns(const struct sim_link_config *config, size_t len)
{
	return link_linear_ns(config->latency_ns, config->latency_kb_ns, len);
}

/* ---- stations by address ---- */

static uint32_t
link_slot(const struct sim_link *link, uint64_t address)
{
	uint64_t mixed = (address ^ address >> 23) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(mixed >> 32) & (link->slot_count - 1);
}

/* Returns the number of the station with this address, or -1. */
static int
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

/* Enters the station into the table, which must have a free slot. */
static void
link_slot_put(struct sim_link *link, uint32_t station)
{
	uint64_t address = link->stations[station].address;
	uint32_t i = link_slot(link, address);

	while (link->slots[i] != 0)
		i = (i + 1) & (link->slot_count - 1);
	link->slots[i] = address << 16 | station;
}

/* Makes room for one more station. Returns 0 or -ENOMEM. */
static int
link_grow(struct sim_link *link)
{
	uint32_t room = link->station_room == 0 ? 4 : link->station_room * 2;
	struct link_station *stations;
	uint64_t *slots;

	if (link->station_count < link->station_room)
		return 0;
	stations = realloc(link->stations, room * sizeof(*stations));
	if (stations == NULL)
		return -ENOMEM;
	link->stations = stations;
	slots = calloc(2 * room, sizeof(*slots));
	if (slots == NULL)
		return -ENOMEM;
	free(link->slots);
	link->slots = slots;
	link->slot_count = 2 * room;
	link->station_room = room;
	for (uint32_t i = 0; i < link->station_count; i++)
		link_slot_put(link, i);
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
	if (link_grow(link) != 0)
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

/* ---- making a link ---- */

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

	if (link == NULL)
		return NULL;
	xk_assert(config->kind <= SIM_LINK_SWITCH);
	link->kind = config->kind;
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

/* ---- faults ---- */

const char *const link_fault_names[] = {
	[0] = NULL,
	[LINK_CORRUPT] = "corrupt",
	[LINK_REORDER] = "reorder",
	[LINK_CORRUPT | LINK_REORDER] = "corrupt+reorder",
	[LINK_DUPLICATE] = "duplicate",
	[LINK_CORRUPT | LINK_DUPLICATE] = "corrupt+duplicate",
};

/* Loses the frame to station `to`, where it would have arrived at at_ns. */
static void
link_lose(const struct link_frame *frame, unsigned to, uint64_t at_ns, const char *fault, uint64_t *count)
{
	struct sim_arrival arrival = { .station = to, .at_ns = at_ns, .fault = fault, .lost = true };

	++*count;
	frame->arrive(frame->context, &arrival);
}

/* Delivers the frame, or a second copy of it, late_ns after at_ns. */
static void
link_deliver(const struct link_frame *frame, struct sim_arrival *arrival, unsigned happened, uint64_t at_ns,
	     uint64_t late_ns)
{
	arrival->at_ns = link_after(at_ns, late_ns);
	arrival->late_ns = late_ns;
	arrival->is_second = (happened & LINK_DUPLICATE) != 0;
	arrival->fault = link_fault_names[happened];
	frame->link->counts.delivered++;
	frame->arrive(frame->context, arrival);
}

static bool
link_loses(struct sim_link *link, struct link_station *to)
{
	if (to->burst > 0) {
		to->burst--;
		return true;
	}
	if (!sim_random_hits(&link->random, link->config.loss))
		return false;
	if (link->config.burst > 1)
		to->burst = (uint32_t)sim_random_below(&link->random, link->config.burst);
	return true;
}

/*
 * Flips the first and last bit of a span and some bits in between. The span has at most 15 bits: the Internet checksum
 * then always changes. 16 flipped bits could turn 0x0000 into 0xffff, which are the same to the checksum.
 */
static void
link_corrupt(struct sim_link *link, size_t len, struct sim_arrival *arrival)
{
	unsigned first, bits, longest, span;

	arrival->offset = (size_t)sim_random_below(&link->random, len);
	first = (unsigned)sim_random_below(&link->random, 8);
	longest = (arrival->offset + 1 == len ? 8 : 16) - first;
	bits = 1 + (unsigned)sim_random_below(&link->random, longest < 15 ? longest : 15);
	span = (unsigned)sim_random_below(&link->random, UINT64_C(1) << bits) | 1u << (bits - 1) | 1;
	span <<= 16 - first - bits;
	arrival->flip[0] = (uint8_t)(span >> 8);
	arrival->flip[1] = (uint8_t)span;
}

/* Returns how much later a reordered or second frame arrives. */
static uint64_t
link_late(struct sim_link *link)
{
	return link->config.reorder_ns == 0 ? 0 : 1 + sim_random_below(&link->random, link->config.reorder_ns);
}

/* Delivers the frame to station `to` at at_ns, with randomly drawn faults. */
static void
link_fault(const struct link_frame *frame, unsigned to, uint64_t at_ns)
{
	struct sim_link *link = frame->link;
	struct sim_arrival arrival = { .station = to };
	unsigned happened = 0;
	bool duplicate;

	if (xk_likely(!link->faulty)) {
		link_deliver(frame, &arrival, 0, at_ns, 0);
		return;
	}
	if (link_loses(link, &link->stations[to])) {
		link_lose(frame, to, at_ns, "loss", &link->counts.loss);
		return;
	}
	if (sim_random_hits(&link->random, link->config.corrupt)) {
		link->counts.corrupt++;
		happened |= LINK_CORRUPT;
		link_corrupt(link, frame->len, &arrival);
	}
	duplicate = sim_random_hits(&link->random, link->config.duplicate);
	if (sim_random_hits(&link->random, link->config.reorder)) {
		link->counts.reorder++;
		link_deliver(frame, &arrival, happened | LINK_REORDER, at_ns, link_late(link));
	} else {
		link_deliver(frame, &arrival, happened, at_ns, 0);
	}
	if (duplicate) {
		link->counts.duplicate++;
		link_deliver(frame, &arrival, happened | LINK_DUPLICATE, at_ns, link_late(link));
	}
}

/* ---- the queue of a switch to a station ---- */

/* Doubles the ring. Returns false without memory. */
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

/* ---- sending ---- */

/*
 * Passes the frame through the switch to station `to` and sets *arrives_ns. Returns false if the queue is full. Frames
 * leave in the order of arrival: each begins when its predecessor has ended.
 */
static bool
link_switch(const struct link_frame *frame, struct link_station *to, uint64_t *arrives_ns)
{
	struct sim_link *link = frame->link;
	struct link_queue *queue = &to->queue;
	uint64_t latency_ns = link->config.latency_ns, begins_ns, time_ns = frame->time_ns;
	uint64_t at_ns = link_after(frame->begins_ns, latency_ns);

	if (!link->config.cut_through) {
		at_ns = link_after(at_ns, frame->time_ns);
		/* the whole frame has arrived, however slowly it was written */
		time_ns = sim_link_frame_ns(&link->config, frame->len);
	}
	begins_ns = at_ns;
	while (queue->count > 0 && queue->begins_ns[queue->first] <= at_ns) {
		queue->first = (queue->first + 1) & (queue->room - 1);
		queue->count--;
	}
	if (to->down_free_ns > at_ns) {
		if (queue->count >= link->config.queue)
			return false;
		begins_ns = to->down_free_ns;
		/* Without memory, the frame is not counted as waiting. */
		if (queue->count < queue->room || link_queue_grow(queue))
			queue->begins_ns[(queue->first + queue->count++) & (queue->room - 1)] = begins_ns;
	}
	to->down_free_ns = link_after(begins_ns, time_ns + link->gap_ns);
	*arrives_ns = link_after(begins_ns, time_ns + link_latency_ns(&link->config, frame->len));
	return true;
}

static void
link_reach(const struct link_frame *frame, unsigned to)
{
	struct sim_link *link = frame->link;
	struct link_station *station = &link->stations[to];
	uint64_t at_ns = link_after(frame->begins_ns, frame->time_ns + link_latency_ns(&link->config, frame->len));

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
	/* Frames stay in order even if the latency was lowered while they were in flight. */
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
	begun.time_ns = link_sent_ns(&link->config, len);
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
	begun.time_ns = link_sent_ns(&link->config, len);
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
