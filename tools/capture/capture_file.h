/*
 * capture_file.h - what crosses a host's ports and its taps (protocol vtap), as a pcapng file.
 *
 * A port of any platform is watched by standing between it and its operations: nothing else of it changes, and a port
 * that is not watched costs nothing. Who receives or transmits leaves a copy of the frame in a ring of that direction,
 * without waiting; a thread writes what lies there, in the order of the times. Where a ring is full, the frame is not
 * kept, which is counted and told. On a virtual clock there is no thread: frames are written as they come, so that the
 * same run leaves the same bytes.
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
 * A file that is written holds all that is older than CAPTURE_LATE_MS, and ends with a whole block. Everything is for
 * the main thread; of a capture that is NULL nothing is done.
 */
#ifndef CAPTURE_FILE_H
#define CAPTURE_FILE_H

#include "xkernel/capture.h"
#include "xkernel/platform.h"

enum {
	CAPTURE_RING = 16 << 20, /* bytes that wait to be written, of each direction of a port, and of each tap */
	CAPTURE_LATE_MS = 60,
};

struct capture;

/*
 * Creates the file, or empties it. host: what interfaces' names begin with ("server.port"). NULL: it cannot be written;
 * a sentence has said so. program and host stay the caller's, until the capture is closed.
 */
struct capture *capture_open(const char *program, const char *path, const char *host);

/* From now on frames can come; their times are this platform's. 0, or OPTIONS_FAILURE and a sentence. */
int capture_start(struct capture *capture, struct xk_platform *platform);

/*
 * What crosses port, which nobody uses yet, is captured as an interface called name; ports of one name are one
 * interface. 0, or OPTIONS_FAILURE and a sentence.
 */
int capture_port(struct capture *capture, struct xk_port *port, const char *name);

/* For struct xk_kernel_config: what vtap shows. */
struct xk_capture *capture_sink(struct capture *capture);

/*
 * When its kernel is no more: writes what is left and frees everything. 0; OPTIONS_FAILURE and a sentence: not all
 * could be written.
 */
int capture_close(struct capture *capture);

#endif
