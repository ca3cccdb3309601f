/*
 * capture_ring.h - copies of frames on their way to the thread that writes them (capture_file.c). One thread puts while
 * another takes; neither waits.
 */
#ifndef CAPTURE_RING_H
#define CAPTURE_RING_H

#include "tools/capture/capture_file.h"
#include "tools/capture/pcapng.h"

/* A frame, followed by its bytes (at most PCAPNG_FRAME_MAX). */
struct capture_record {
	uint64_t at_ns;
	const char *comment; /* NULL: none */
	uint32_t size;       /* in the ring */
	uint32_t len;        /* of the frame */
	uint32_t direction;  /* enum pcapng_direction */
	uint32_t is_filler;  /* no frame: unused bytes before the ring's end */
};

/* Positions count all bytes that ever passed. */
struct capture_ring {
	struct capture_ring *next;
	unsigned interface;
	_Atomic uint32_t lock; /* for several threads that put */
	/* of the putting side */
	size_t begun;                   /* records up to here are there, but may be taken back */
	size_t free_from;               /* tail, as last read */
	_Atomic uint64_t kept, dropped; /* frames that were published, and frames that found no room */
	_Atomic size_t head;            /* records up to here are published */
	/* of the taking side */
	_Alignas(64) _Atomic size_t tail; /* records up to here are done */
	size_t seen;                      /* head, as last read */
	uint8_t *bytes;
};

/* NULL: no memory. */
struct capture_ring *capture_ring_new(unsigned interface);
void capture_ring_free(struct capture_ring *ring);

/*
 * Puts a copy of m, which the other side does not see yet. The ring can be cut at each position that ring->begun has
 * had since the last publish. False: the ring is full.
 */
bool capture_ring_put(struct capture_ring *ring, const struct xk_msg *m, uint64_t at_ns,
		      enum pcapng_direction direction, const char *comment);

/* Publishes what was put up to `end`, `kept` frames, and takes the rest back; `dropped` frames found no room. */
void capture_ring_publish(struct capture_ring *ring, size_t end, uint64_t kept, uint64_t dropped);

/* Returns whether more than a quarter of the ring waits. For the putting side. */
bool capture_ring_is_filling(struct capture_ring *ring);

/* Makes all that is published by now takeable. For the taking side. */
void capture_ring_look(struct capture_ring *ring);
/* Returns the next record, the same one until capture_ring_done; NULL: none. */
const struct capture_record *capture_ring_next(struct capture_ring *ring);
void capture_ring_done(struct capture_ring *ring, const struct capture_record *record);

#endif
