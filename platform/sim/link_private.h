/* link_private.h - what the files of the link model share. Not for others. */
#ifndef XK_SIM_LINK_PRIVATE_H
#define XK_SIM_LINK_PRIVATE_H

#include "platform/sim/link.h"
#include "platform/sim/random.h"

enum {
	LINK_HEADER_LEN = 14, /* of Ethernet */
	LINK_QUEUE_MAX = 65536,
};

/* When frames that wait in a switch will begin to leave it, earliest first: a ring, made when the first has to wait. */
struct link_queue {
	uint64_t *begins_ns;
	uint32_t first, count, room; /* room is a power of two, or 0 */
};

struct link_station {
	uint64_t address;
	uint64_t up_free_ns;   /* what it sends may begin from then on */
	uint64_t down_free_ns; /* ... and what the switch sends it */
	uint64_t last_ns;      /* when a frame came to it last: none may come earlier */
	uint32_t waiting;      /* frames that it has sent and that have not begun */
	uint32_t burst;        /* so many more frames to it are lost */
	bool cut_sends, cut_receives;
	struct link_queue queue; /* in the switch */
};

struct sim_link {
	struct sim_link_config config;
	enum sim_link_kind kind;
	bool faulty;             /* some probability is not zero */
	uint64_t gap_ns;         /* of a frame's gap */
	uint64_t medium_free_ns; /* a shared medium's */
	struct sim_random random;
	struct sim_link_counts counts;
	struct link_station *stations;
	uint32_t station_count, station_room;
	/* address << 16 | station, 0 for none; at most half of the slots are taken, and their number is a power of two */
	uint64_t *slots;
	uint32_t slot_count;
};

/* A frame that begins, on its way to one receiver after the other. */
struct link_frame {
	struct sim_link *link;
	unsigned from;
	size_t len;
	uint64_t begins_ns, time_ns;
	void (*arrive)(void *context, const struct sim_arrival *arrival);
	void *context;
};

/* Times end at the last there is, rather than beginning again. */
static inline uint64_t
link_after(uint64_t a_ns, uint64_t b_ns)
{
	uint64_t sum;

	return __builtin_add_overflow(a_ns, b_ns, &sum) ? UINT64_MAX : sum;
}

/* ---- link_settings.c ---- */

/* The kind called name. False: there is none. */
bool link_kind_find(const char *name, enum sim_link_kind *kind);

/* How long so many bytes take. */
uint64_t link_bytes_ns(const struct sim_link_config *config, uint64_t bytes);

/* ---- link_station.c ---- */

/* The station with this address, or -1. */
int link_station_find(const struct sim_link *link, uint64_t address);

/* A frame begins at begins_ns that waits behind what waits already. Without memory it is not counted as waiting. */
void link_queue_put(struct link_queue *queue, uint64_t begins_ns);
/* Forgets what has begun at now_ns. */
void link_queue_pass(struct link_queue *queue, uint64_t now_ns);

/* ---- link_fault.c ---- */

/* The frame comes to station `to` at at_ns, if its faults let it. */
void link_fault(const struct link_frame *frame, unsigned to, uint64_t at_ns);

/* The frame is lost on its way to station `to`, where it would have come at at_ns. */
void link_lose(const struct link_frame *frame, unsigned to, uint64_t at_ns, const char *fault, uint64_t *count);

#endif
