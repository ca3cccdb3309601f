/*
 * link.h - a model of a link: when a frame that a station sends arrives where, and what becomes of it on its way.
 *
 * It knows no hosts and no events: it is asked with times and answers with times. What happens by chance is drawn
 * from the link's own seed, in the order in which frames begin and of their receivers, so that other links change
 * nothing.
 *
 * Time. A frame is on the link for as long as its bytes take at the link's rate; it has arrived `latency` after its
 * last bit was sent; then the link rests for the gap. Times are whole nanoseconds, each rounded up. A station's frames
 * begin one after another, those of a shared medium too, first come, first served, with no collisions. A switch takes
 * up frames in the order in which they begin, and has one queue for each station. What one station sends to another
 * arrives in order, except for frames that are told to be "reorder" or "duplicate".
 *
 *	at = sim_link_send(link, station, frame, len, now, arrive, context);
 *	if (at > now)           // the link is busy: when it is `at`,
 *		sim_link_begin(link, station, frame, len, at, arrive, context);
 */
#ifndef XK_SIM_LINK_H
#define XK_SIM_LINK_H

#include "xkernel/protocol.h"

enum sim_link_kind {
	SIM_LINK_WIRE,   /* two stations, each direction by itself */
	SIM_LINK_SHARED, /* one medium: one frame at a time, whoever sends it (Ethernet's cable, a hub, a ring) */
	SIM_LINK_SWITCH, /* every station has a wire to a switch, which queues and forwards */
};

/* Probabilities are in parts of 2^32; 2^32 is always. */
#define SIM_ALWAYS (UINT64_C(1) << 32)

/* A value: it owns nothing, and may be copied. */
struct sim_link_config {
	const char *kind;        /* "wire", "shared", "switch"; constant text */
	uint64_t rate;           /* bits per second; 0: a frame takes no time */
	uint64_t latency_ns;     /* from station to station; through a switch, of each of the two wires */
	uint64_t frame_overhead; /* bytes sent with each frame that are not in it: preamble, checksum */
	uint64_t frame_gap;      /* bytes of silence after each frame */
	uint64_t frame_min;      /* bytes of a frame with its Ethernet header, shorter ones take as long */
	uint64_t cell_size;      /* 0: no cells; otherwise what a cell takes on the wire ... */
	uint64_t cell_payload;   /* ... and what it carries */
	uint64_t cell_trailer;   /* bytes added to the frame before it is cut into cells */
	uint64_t mtu;            /* longest payload, without Ethernet header */
	uint64_t queue;   /* frames that wait at a station for the link, at most, and at a switch for a station */
	bool cut_through; /* a switch begins to send a frame when it begins to come, not when it has all of it */
	/* faults */
	uint64_t loss, duplicate, reorder, corrupt; /* probabilities, for each frame and receiver */
	uint64_t reorder_ns; /* a reordered frame is late by 1 ns up to this; the second of a duplicate is, too */
	uint64_t burst;      /* a loss takes so many frames in a row, at most (drawn from 1 to this); 0: 1 */
};

/* The settings of a link, as attributes of a network file give them; the struct is struct sim_link_config. */
extern const struct xk_setting sim_link_settings[];

/*
 * Sets what the setting called name says, from text (`kind` is among them, which xk_setting_parse would make a copy
 * of). 0; -EINVAL with a sentence in why (what was expected); -ENOENT: there is no such setting.
 */
int sim_link_set(struct sim_link_config *config, const char *name, const char *text, char *why, size_t why_len);

/* What the presets are called ("ethernet10", ...) and what each stands for; a name NULL ends them. */
struct sim_link_preset {
	const char *name, *help;
	struct sim_link_config config;
};
extern const struct sim_link_preset sim_link_presets[];

/* Their names; NULL ends them. */
extern const char *const sim_link_preset_names[];

/* The preset called name, or NULL. */
const struct sim_link_preset *sim_link_preset_find(const char *name);

/* Whether config makes a link. NULL: yes; otherwise what is wrong, as a sentence. */
const char *sim_link_check(const struct sim_link_config *config);

/* How long a link like config is busy sending a frame of len bytes from its Ethernet header on; the gap not counted. */
uint64_t sim_link_frame_ns(const struct sim_link_config *config, size_t len);

/*
 * What the link did. loss, duplicate, reorder, corrupt: how often each fault was injected. For each frame sent and each
 * receiver of it that began: delivered - duplicate + loss + cut + queue + mtu, or nobody.
 */
struct sim_link_counts {
	uint64_t sent;      /* frames given to it */
	uint64_t delivered; /* frames that came to a station; broadcasts once for each */
	uint64_t loss, duplicate, reorder, corrupt;
	uint64_t cut;       /* lost because a station was cut off */
	uint64_t queue;     /* lost in a switch whose queue to the station was full */
	uint64_t mtu;       /* lost because it was longer than the link carries */
	uint64_t nobody;    /* for an address that no other station has */
	uint64_t withdrawn; /* never begun */
};

struct sim_link;

/* config has passed sim_link_check, and is copied. NULL: no memory. */
struct sim_link *sim_link_new(const struct sim_link_config *config, uint64_t seed);
/* NULL is let through. */
void sim_link_free(struct sim_link *link);

/* From now on link is as config says, which has passed sim_link_check; its kind stays what it was. */
void sim_link_configure(struct sim_link *link, const struct sim_link_config *config);

enum { SIM_LINK_STATIONS_MAX = 65536 };

/*
 * A station with this link address (frames for it and for groups come to it). Its number, counted from 0; -ENOSPC: the
 * link takes no more; -EEXIST: another has the address; -EINVAL: a group's address, or none; -ENOMEM.
 */
int sim_link_join(struct sim_link *link, uint64_t address);

/* Whether station is cut off for what it sends, and for what it receives. What it sends then takes no time. */
void sim_link_cut(struct sim_link *link, unsigned station, bool sends, bool receives);

/* What becomes of a frame. */
struct sim_arrival {
	unsigned station; /* that it comes to, or would have come to */
	uint64_t at_ns;
	/*
	 * NULL; "loss", "cut", "queue", "mtu": it does not arrive; "corrupt", "reorder", "duplicate" or several of these
	 * joined by "+": it does.
	 */
	const char *fault;
	bool lost;
	/* of a corrupt one: bits to flip, at most 15 from first to last, so that an Internet checksum can see it */
	size_t offset;
	uint8_t flip[2]; /* xor to the bytes at offset and behind it (which may lie past the end: then it is 0) */
};

/* How many frames station may give to the link now: its queue, without those that wait to begin. */
unsigned sim_link_room(const struct sim_link *link, unsigned station);

/*
 * Station sends a frame of len bytes from its Ethernet header on; there is room.
 *
 * Where the link is free the frame begins, and this returns now_ns: arrive(context, arrival) was called for every
 * station that the frame comes to, and for what would have come but was lost. Otherwise it returns when the frame will
 * begin, and the caller calls sim_link_begin then (or sim_link_withdraw), before or after whatever else happens at that
 * time. now_ns is best never earlier than before: what is asked later is taken up later.
 */
__attribute__((warn_unused_result)) uint64_t
sim_link_send(struct sim_link *link, unsigned station, const uint8_t *frame, size_t len, uint64_t now_ns,
	      void (*arrive)(void *context, const struct sim_arrival *arrival), void *context);

/* The frame that station has sent begins, at begins_ns as sim_link_send has said. Calls arrive as that does. */
void sim_link_begin(struct sim_link *link, unsigned station, const uint8_t *frame, size_t len, uint64_t begins_ns,
		    void (*arrive)(void *context, const struct sim_arrival *arrival), void *context);

/* A frame of station that waits will not begin: its host has crashed. Its time on the link passes unused. */
void sim_link_withdraw(struct sim_link *link, unsigned station);

const struct sim_link_counts *sim_link_counts_of(const struct sim_link *link);

#endif
