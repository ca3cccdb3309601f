/*
 * pcapng.h - captures as files that tshark and Wireshark read (pcapng, draft-ietf-opsawg-pcapng).
 *
 * One section, little-endian; times are nanoseconds since 1970, or since a simulation began. The same calls write the
 * same bytes on every machine: nothing is taken from the clock or the host. The file ends with a whole block at any
 * time, so that it can be read while it is written, and after the program was killed.
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
	PCAPNG_FRAME_MAX = 262144, /* bytes of a frame that are written, beside its whole length */
	PCAPNG_TEXT_MAX = 1024,    /* bytes of a name or comment that are written */
};

/* Creates or empties path. program: who made the capture. Texts are UTF-8. NULL: errno says why. */
struct pcapng *pcapng_open(const char *path, const char *program);

/* The path PCAPNG_DESCRIPTOR "N" stands for the open descriptor N, which is closed with the capture. */
#define PCAPNG_DESCRIPTOR "/dev/fd/"

/* Adds a device called name ("host.device"), before its first frame. Returns its number, counted from 0. */
unsigned pcapng_interface(struct pcapng *capture, const char *name);

/* As pcapng_interface, for frames that begin as link_type says (LINKTYPE_ETHERNET is 1). description may be NULL. */
unsigned pcapng_interface_of(struct pcapng *capture, const char *name, const char *description, unsigned link_type);

/*
 * Writes a frame of len bytes, from its Ethernet header on (or what `interface` says), which passed at at_ns. comment:
 * what readers show beside it (why it was lost, what was done to it); may be NULL.
 */
void pcapng_frame(struct pcapng *capture, unsigned interface, uint64_t at_ns, enum pcapng_direction direction,
		  const void *frame, size_t len, const char *comment);

/* Writes that until at_ns `seen` frames passed `interface`, of which `dropped` are not in the capture. */
void pcapng_statistics(struct pcapng *capture, unsigned interface, uint64_t at_ns, uint64_t seen, uint64_t dropped);

/* Writes the capture so far to the file, should the program end without closing. 0 or -errno, as pcapng_close. */
int pcapng_flush(struct pcapng *capture);

/* 0, or -errno of the first write that failed: the capture is incomplete. NULL is let through. */
int pcapng_close(struct pcapng *capture);

#endif
