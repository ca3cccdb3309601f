/*
 * link.h - a model of a link: where and when a frame arrives, and which faults it suffers.
 *
 * The model knows neither hosts nor events: callers pass and receive times. Faults are drawn from the link's own seed,
 * in the order of the frames' beginnings and of their receivers, so other links do not influence them.
 *
 * Timing: a frame occupies the link for as long as its bytes take at the link's rate, arrives `latency` after its last
 * bit, and is followed by the gap. On a link with cells, the first cell leaves as soon as the sender's processor has
 * written it, while the rest is being written; the last cell cannot leave before it is written. Times are whole
 * nanoseconds; the link's are rounded up. The frames of a station, or of a shared medium, are sent one after another in
 * the order of the calls, without collisions. A switch forwards frames in the order in which they begin and has one
 * queue per station. Frames between two stations arrive in order, except those marked "reorder" or "duplicate".
 *
 *	at = sim_link_send(link, station, frame, len, now, arrive, context);
 *	if (at > now)           // the link is busy: at time `at`,
 *		sim_link_begin(link, station, frame, len, at, arrive, context);
 */
#ifndef XK_SIM_LINK_H
#define XK_SIM_LINK_H

#include "xkernel/protocol.h"

enum sim_link_kind {
	SIM_LINK_WIRE,   /* two stations, full duplex */
	SIM_LINK_SHARED, /* one medium that carries one frame at a time (an Ethernet cable, a hub, a ring) */
	SIM_LINK_SWITCH, /* every station has a wire to a switch, which queues and forwards */
};

/* Probability 1: probabilities are in units of 2^-32. */
#define SIM_ALWAYS (UINT64_C(1) << 32)

/* A plain value: may be copied, owns nothing. */
struct sim_link_config {
	enum sim_link_kind kind;
	uint64_t rate;          /* bits per second; 0: a frame takes no time */
	uint64_t latency_ns;    /* from station to station; through a switch, for each of the two wires */
	uint64_t latency_kb_ns; /* added by the controllers for each 1000 bytes of a frame */
	/* Time for which the host's processor writes a frame into its controller, and reads one from there. */
	uint64_t write_ns, write_kb_ns, read_ns, read_kb_ns;
	/* The card's processor: per frame, per 1000 bytes that it fetches or stores, and to start a fetch. */
	uint64_t card_ns, card_kb_ns, dma_ns;
	uint64_t pio; /* with dma_ns: bytes of the longest frame that the host writes; the card fetches longer ones */
	bool waits;   /* the sender's processor waits until the card has sent the frame */
	uint64_t frame_overhead; /* bytes sent with each frame but not part of it: preamble, checksum */
	uint64_t frame_gap;      /* bytes of silence after each frame */
	uint64_t frame_min;      /* bytes of the shortest frame with its Ethernet header; shorter ones are padded */
	uint64_t cell_size;      /* bytes of a cell on the wire; 0: no cells */
	uint64_t cell_payload;   /* bytes of the frame in each cell */
	uint64_t cell_trailer;   /* bytes added to the frame before it is cut into cells */
	uint64_t mtu;            /* longest payload, without Ethernet header */
	uint64_t queue;          /* maximum number of frames waiting at a station, and in a switch for a station */
	bool cut_through;        /* a switch forwards a frame from its first bit on, instead of after its last */
	/* faults */
	uint64_t loss, duplicate, reorder, corrupt; /* probabilities, for each frame and receiver */
	uint64_t reorder_ns; /* maximum delay of a reordered frame or a duplicate; the minimum is 1 ns */
	uint64_t burst;      /* maximum number of frames lost in a row (drawn from 1 to this); 0: 1 */
};

/* The settings of a link, as written in a network file, for struct sim_link_config. */
extern const struct xk_setting sim_link_settings[];

/*
 * Sets the setting called name from text. Returns 0, -EINVAL with the expected form in why, or -ENOENT if there is no
 * such setting.
 */
int sim_link_set(struct sim_link_config *config, const char *name, const char *text, char *why, size_t why_len);

/* The presets ("ethernet10", ...), terminated by a NULL name. */
struct sim_link_preset {
	const char *name, *help;
	struct sim_link_config config;
};
extern const struct sim_link_preset sim_link_presets[];

/* Their names, terminated by NULL. */
extern const char *const sim_link_preset_names[];

/* Returns the preset called name, or NULL. */
const struct sim_link_preset *sim_link_preset_find(const char *name);

/*
 * Parses a preset's name, which settings may follow: "myrinet,mtu=16000". Returns 0, or -EINVAL with a sentence in why.
 */
int sim_link_parse(const char *text, struct sim_link_config *config, char *why, size_t why_len);

/* Checks config. Returns NULL if it is valid, otherwise a sentence that states what is wrong. */
const char *sim_link_check(const struct sim_link_config *config);

/* Returns the time that a frame of len bytes, Ethernet header included, takes on such a link, without the gap. */
uint64_t sim_link_frame_ns(const struct sim_link_config *config, size_t len);

/* Time for which a host's processor writes a frame: before the frame begins, and during its transmission. */
struct sim_link_writing {
	uint64_t before_ns, after_ns;
};

struct sim_link_writing sim_link_write(const struct sim_link_config *config, size_t len);

/* Returns the time for which a station's card works on a frame that it sends or has received. */
uint64_t sim_link_card_ns(const struct sim_link_config *config, size_t len, bool sends);

/* Returns the time for which a host's processor reads an arrived frame. */
uint64_t sim_link_read_ns(const struct sim_link_config *config, size_t len);

/*
 * Counts of a link. loss, duplicate, reorder, corrupt: injected faults. Every frame that began is counted, for each of
 * its receivers, in delivered - duplicate + loss + cut + queue + mtu, or once in nobody.
 */
struct sim_link_counts {
	uint64_t sent;      /* frames given to the link */
	uint64_t delivered; /* frames that reached a station; a broadcast counts once for each */
	uint64_t loss, duplicate, reorder, corrupt;
	uint64_t cut;       /* lost because a station was cut off */
	uint64_t queue;     /* lost because a switch's queue to the station was full */
	uint64_t mtu;       /* lost because the frame was too long for the link */
	uint64_t nobody;    /* sent to an address that no other station has */
	uint64_t withdrawn; /* never begun */
};

struct sim_link;

/* Returns a link with a copy of config, which has passed sim_link_check, or NULL without memory. */
struct sim_link *sim_link_new(const struct sim_link_config *config, uint64_t seed);
/* Frees a link; NULL is allowed. */
void sim_link_free(struct sim_link *link);

/* Changes the link to config, which has passed sim_link_check. The kind does not change. */
void sim_link_configure(struct sim_link *link, const struct sim_link_config *config);

enum { SIM_LINK_STATIONS_MAX = 65536 };

/*
 * Adds a station, which receives frames to this address and to groups. Returns its number, counted from 0, or
 *   -ENOSPC: the link is full
 *   -EEXIST: another station has the address
 *   -EINVAL: the address is 0, too long, or a group address
 *   -ENOMEM
 */
int sim_link_join(struct sim_link *link, uint64_t address);

/* Cuts the station off, or reconnects it, in each direction. Frames sent while it is cut off take no time. */
void sim_link_cut(struct sim_link *link, unsigned station, bool sends, bool receives);

/* The fate of a frame at one receiver. */
struct sim_arrival {
	unsigned station; /* the receiver */
	uint64_t at_ns;
	/*
	 * NULL; the cause of a loss ("loss", "cut", "queue", "mtu"); or the faults of a frame that arrives: "corrupt",
	 * "reorder", "duplicate", or several of these joined by "+".
	 */
	const char *fault;
	bool lost;
	bool is_second;   /* copy of the frame */
	uint64_t late_ns; /* at_ns is so much later than without a fault */
	/* Bits to flip: at most 15 from first to last, so that the Internet checksum always detects the change. */
	size_t offset;
	uint8_t flip[2]; /* XORed into the bytes at offset and offset + 1; 0 for a byte past the end */
};

/* Returns how many frames the station may send now: the limit of its queue minus the frames that wait to begin. */
unsigned sim_link_room(const struct sim_link *link, unsigned station);

/*
 * Sends a frame of len bytes, Ethernet header included, from a station that has room.
 *
 * If the link is free, the frame begins: calls arrive(context, arrival) for every receiver, even if the frame is lost
 * there, and returns now_ns. Otherwise returns the time at which the frame will begin; the caller then calls
 * sim_link_begin or sim_link_withdraw, in any order with other events of that time. now_ns must not decrease: frames
 * are queued in the order of the calls.
 */
__attribute__((warn_unused_result)) uint64_t
sim_link_send(struct sim_link *link, unsigned station, const uint8_t *frame, size_t len, uint64_t now_ns,
	      void (*arrive)(void *context, const struct sim_arrival *arrival), void *context);

/* Begins a frame of the station at begins_ns, the time that sim_link_send returned. Calls arrive likewise. */
void sim_link_begin(struct sim_link *link, unsigned station, const uint8_t *frame, size_t len, uint64_t begins_ns,
		    void (*arrive)(void *context, const struct sim_arrival *arrival), void *context);

/* Withdraws a waiting frame of the station, whose host has crashed. Its time on the link passes unused. */
void sim_link_withdraw(struct sim_link *link, unsigned station);

const struct sim_link_counts *sim_link_counts_of(const struct sim_link *link);

#endif
