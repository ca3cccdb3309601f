/*
 * pcapng.h - captures of simulated networks, as files that tshark and Wireshark read (pcapng, draft-ietf-opsawg-pcapng).
 *
 * One section, little-endian, of Ethernet frames; times are nanoseconds since the simulation began, which readers show
 * as 1970. The same calls write the same bytes, on every machine: nothing is taken from the clock or the host.
 *
 *	struct pcapng *capture = pcapng_open("run.pcapng", "xk run lab.dot --seed 7");
 *	unsigned client = pcapng_interface(capture, "client.port");
 *
 *	pcapng_frame(capture, client, 1500, PCAPNG_OUT, frame, len, NULL);
 *	pcapng_frame(capture, client, 2500, PCAPNG_IN, frame, len, "corrupt");
 *	status = pcapng_close(capture);
 */
#ifndef PCAPNG_H
#define PCAPNG_H

#include <stddef.h>
#include <stdint.h>

struct pcapng;

enum pcapng_direction {
	PCAPNG_NO_DIRECTION,
	PCAPNG_IN,
	PCAPNG_OUT,
};

enum {
	PCAPNG_FRAME_MAX = 262144, /* bytes of a frame that are written; its length is told in any case */
	PCAPNG_TEXT_MAX = 1024,    /* bytes of a name or comment that are written */
};

/* Creates path, or empties it. program: what made the capture. Texts are UTF-8. NULL: errno says why. */
struct pcapng *pcapng_open(const char *path, const char *program);

/* A device called name ("host.device"), at any time before its first frame. Its number, counted from 0. */
unsigned pcapng_interface(struct pcapng *capture, const char *name);

/*
 * A frame of len bytes, from its Ethernet header on, passed `interface` at at_ns. comment, or NULL: what readers show
 * beside it (why it was lost, what was done to it).
 */
void pcapng_frame(struct pcapng *capture, unsigned interface, uint64_t at_ns, enum pcapng_direction direction,
		  const void *frame, size_t len, const char *comment);

/* All of the capture so far is in the file, should the program end without closing. 0 or -errno, as pcapng_close. */
int pcapng_flush(struct pcapng *capture);

/* 0, or -errno of the first write that failed: the capture is incomplete. NULL is let through. */
int pcapng_close(struct pcapng *capture);

#endif
