/*
 * pcapng.h - writes capture files for tshark and Wireshark (pcapng, draft-ietf-opsawg-pcapng).
 *
 * One section, little-endian; times are nanoseconds since 1970 or the start of a simulation. Equal calls write equal
 * bytes on every machine. The file always ends with a complete block: it can be read while it is being written, and
 * after the program was killed.
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
	PCAPNG_FRAME_MAX = 262144, /* maximum bytes written of a frame; its full length is written too */
	PCAPNG_TEXT_MAX = 1024,    /* maximum bytes written of a name or comment */
};

/* Creates or truncates path. program: the capture's author. Texts are UTF-8. Returns NULL with errno set on failure. */
struct pcapng *pcapng_open(const char *path, const char *program);

/* Path "/dev/fd/N": the open descriptor N, which is closed with the capture. */
#define PCAPNG_DESCRIPTOR "/dev/fd/"

/* Adds an Ethernet device, called "host.device", before its first frame. Returns its number, from 0. */
unsigned pcapng_interface(struct pcapng *capture, const char *name);

/* Adds an interface like pcapng_interface, but for any link type (LINKTYPE_ETHERNET is 1). description may be NULL. */
unsigned pcapng_interface_of(struct pcapng *capture, const char *name, const char *description, unsigned link_type);

/* Writes a frame of len bytes that passed at at_ns. comment: shown beside it ("corrupt"); may be NULL. */
void pcapng_frame(struct pcapng *capture, unsigned interface, uint64_t at_ns, enum pcapng_direction direction,
		  const void *frame, size_t len, const char *comment);

/* Records that `seen` frames have passed `interface` by at_ns, of which `dropped` are not in the file. */
void pcapng_statistics(struct pcapng *capture, unsigned interface, uint64_t at_ns, uint64_t seen, uint64_t dropped);

/* Writes the buffer to the file. Returns like pcapng_close. */
int pcapng_flush(struct pcapng *capture);

/* Returns 0, or -errno of the first write that failed: the file is incomplete. Ignores NULL. */
int pcapng_close(struct pcapng *capture);

#endif
