/*
 * capture_ring.h - copies of frames on their way from who sees them to who writes them (capture_file.c). One side puts, the
 * other takes, at the same time; neither waits. Of each side there is one at a time.
 */
#ifndef CAPTURE_RING_H
#define CAPTURE_RING_H

#include "tools/capture/capture_file.h"
#include "tools/capture/pcapng.h"

/* A frame, whose bytes follow (of a long one a part: PCAPNG_FRAME_MAX). */
struct capture_record {
	uint64_t at_ns;
	const char *comment; /* NULL: none */
	uint32_t size;       /* in the ring */
	uint32_t len;        /* of the frame */
	uint32_t direction;  /* enum pcapng_direction */
	uint32_t is_filler;  /* no frame, but what is left before the ring's end */
};

/* Positions count all bytes that ever passed. */
struct capture_ring {
	struct capture_ring *next;
	unsigned interface;
	_Atomic uint32_t lock; /* for putting, where several would */
	/* who puts */
	size_t begun;                   /* records up to here are there, but may be taken back */
	size_t free_from;               /* up to here the other side was seen to have gone */
	_Atomic uint64_t kept, dropped; /* frames that were published, and frames that found no room */
	_Atomic size_t head;            /* records up to here are published */
	/* who takes */
	_Alignas(64) _Atomic size_t tail; /* records up to here are done */
	size_t seen;                      /* of head */
	uint8_t *bytes;
};

/* NULL: no memory. */
struct capture_ring *capture_ring_new(unsigned interface);
void capture_ring_free(struct capture_ring *ring);

/*
 * Puts a copy of m, which the other side does not see yet. Positions that ring->begun has had since the last publish are
 * where the ring may be cut. False: the ring is full.
 */
bool capture_ring_put(struct capture_ring *ring, const struct xk_msg *m, uint64_t at_ns,
		      enum pcapng_direction direction, const char *comment);

/* What was put up to `end` is published, the rest taken back: so many frames, and so many were not kept. */
void capture_ring_publish(struct capture_ring *ring, size_t end, uint64_t kept, uint64_t dropped);

/* For who puts: whether more than a quarter of the ring waits. */
bool capture_ring_is_filling(struct capture_ring *ring);

/* For who takes: from now on all that is published now can be taken. */
void capture_ring_look(struct capture_ring *ring);
/* The next record, until capture_ring_done; NULL: none. */
const struct capture_record *capture_ring_next(struct capture_ring *ring);
void capture_ring_done(struct capture_ring *ring, const struct capture_record *record);

#endif
