/*
 * link.h - a model of a link: when a frame that a station sends arrives where, and what becomes of it on its way.
 *
 * It knows no hosts and no events: it is asked with a time, never earlier than the time before, and answers with
 * times. What happens by chance is drawn from the link's own seed, in the order of the frames, so that other links
 * change nothing.
 */
#ifndef XK_SIM_LINK_H
#define XK_SIM_LINK_H

#include "xkernel/protocol.h"

enum sim_link_kind {
	SIM_LINK_WIRE,   /* two stations, each direction by itself */
	SIM_LINK_SHARED, /* one medium: one frame at a time, whoever sends it (Ethernet's cable, a hub, a ring) */
	SIM_LINK_SWITCH, /* every station has a wire to a switch, which stores, queues and forwards */
};

/* Probabilities are in parts of 2^32; 2^32 is always. */
#define SIM_ALWAYS (UINT64_C(1) << 32)

struct sim_link_config {
	const char *kind;         /* "wire", "shared", "switch" */
	uint64_t rate;            /* bits per second; 0: a frame takes no time */
	uint64_t latency_ns;      /* from station to station; through a switch, of each of the two wires */
	uint64_t frame_overhead;  /* bytes of time around each frame: preamble, checksum, gap */
	uint64_t frame_min;       /* bytes of a frame with its Ethernet header, shorter ones take as long */
	uint64_t cell_size;       /* 0: no cells; otherwise what a cell takes on the wire ... */
	uint64_t cell_payload;    /* ... and what it carries */
	uint64_t cell_trailer;    /* bytes added to the frame before it is cut into cells */
	uint64_t mtu;             /* longest payload, without Ethernet header */
	uint64_t queue;           /* frames that wait at a station for the link, at most, and at a switch for a station */
	/* faults */
	uint64_t loss, duplicate, reorder, corrupt; /* probabilities, for each frame and receiver */
	uint64_t reorder_ns; /* a reordered frame is late by up to this; duplicates are, too */
	uint64_t burst;      /* a loss takes so many frames in a row, at most (drawn from 1 to this); 0: 1 */
};

/* The settings of a link, as attributes of a network file give them; the struct is struct sim_link_config. */
extern const struct xk_setting sim_link_settings[];

/* What the presets are called ("ethernet10", ...) and what each stands for; NULL ends them. */
struct sim_link_preset {
	const char *name, *help;
	struct sim_link_config config;
};
extern const struct sim_link_preset sim_link_presets[];

/* The preset called name, or NULL. */
const struct sim_link_preset *sim_link_preset_find(const char *name);

/* Whether config makes a link. NULL: yes; otherwise what is wrong, as a sentence. */
const char *sim_link_check(const struct sim_link_config *config);

/* What the link did; loss, duplicate, reorder, corrupt: how often each fault was injected. */
struct sim_link_counts {
	uint64_t sent;      /* frames given to it */
	uint64_t delivered; /* frames that came to a station; broadcasts once for each */
	uint64_t loss, duplicate, reorder, corrupt;
	uint64_t cut;       /* lost because a station was cut off */
	uint64_t queue;     /* lost in a switch whose queue to the station was full */
	uint64_t nobody;    /* for an address that no station has */
};

struct sim_link;

/* config must stay; sim_link_configure changes it. NULL: no memory. */
struct sim_link *sim_link_new(const struct sim_link_config *config, uint64_t seed);
void sim_link_free(struct sim_link *link);
void sim_link_configure(struct sim_link *link, const struct sim_link_config *config);

/* A station with this link address (frames for it and for groups come to it). Its number, or -ENOSPC, -ENOMEM. */
int sim_link_join(struct sim_link *link, uint64_t address);

/* Cuts station off for what it sends and what it receives, or joins it again. */
void sim_link_cut(struct sim_link *link, unsigned station, bool sends, bool receives);

/* What becomes of a frame. */
struct sim_arrival {
	unsigned station;
	uint64_t at_ns;
	const char *fault; /* NULL; "loss", "cut", "queue": it does not arrive; "duplicate", "reorder", "corrupt": it does */
	/* of a corrupt one: bits to flip, at most 15 from first to last, so that an Internet checksum can see it */
	size_t offset;
	uint8_t flip[2]; /* xor to the bytes at offset and behind it (which may lie past the end: then it is 0) */
};

/* How many frames station may give to the link now (its queue). */
unsigned sim_link_room(struct sim_link *link, unsigned station, uint64_t now_ns);

/*
 * Station sends a frame of len bytes from its Ethernet header on; there is room. Calls arrive(context, arrival) for every
 * station that the frame comes to, and for what would have come but was lost. A frame to an unknown address is counted
 * as `nobody`.
 */
void sim_link_send(struct sim_link *link, unsigned station, const uint8_t *frame, size_t len, uint64_t now_ns,
		   void (*arrive)(void *context, const struct sim_arrival *arrival), void *context);

const struct sim_link_counts *sim_link_counts_of(const struct sim_link *link);

#endif
