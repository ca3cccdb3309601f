/*
 * capture_file.h - writes the frames of a host's ports and taps (protocol vtap) to a pcapng file.
 *
 * Wrapped port operations copy each frame into a ring of its direction, without waiting; a thread writes the copies in
 * the order of their times. A frame that finds its ring full is counted, not kept. On a virtual clock there is no
 * thread: frames are written at once, so equal runs write equal bytes. Ports without a capture cost nothing.
 *
 *	struct capture *capture = capture_open("udptest", "x.pcapng", "server");
 *
 *	capture_start(capture, platform);
 *	capture_port(capture, port, "port");
 *	config.capture = capture_sink(capture);	(the kernel's)
 *	...
 *	xk_kernel_free(kernel);
 *	status = capture_close(capture);
 *
 * At any time the file contains everything older than CAPTURE_LATE_MS and ends with a complete block. A status is 0, or
 * OPTIONS_FAILURE after a message. Main thread only. All functions ignore NULL.
 */
#ifndef CAPTURE_FILE_H
#define CAPTURE_FILE_H

#include "xkernel/capture.h"
#include "xkernel/platform.h"

enum {
	CAPTURE_RING = 16 << 20, /* bytes waiting to be written, per direction of a port and per tap */
	CAPTURE_LATE_MS = 60,
};

struct capture;

/*
 * Creates or truncates the file. host: first part of the interfaces' names ("server.port"). Borrows program and host.
 * Returns NULL, after a message, if the file cannot be written.
 */
struct capture *capture_open(const char *program, const char *path, const char *host);

/* Starts the capture, with this platform's times. */
int capture_start(struct capture *capture, struct xk_platform *platform);

/* Captures a port that is not in use yet. Ports of the same name share an interface. */
int capture_port(struct capture *capture, struct xk_port *port, const char *name);

/* Returns the sink for taps, for struct xk_kernel_config. */
struct xk_capture *capture_sink(struct capture *capture);

/* Writes the rest and frees everything, after the kernel was freed. Fails if anything could not be written. */
int capture_close(struct capture *capture);

#endif
