/*
 * capture_file.h - writes what crosses a host's ports and its taps (protocol vtap) to a pcapng file.
 *
 * A captured port's operations are replaced by others around them; nothing else of it changes, and other ports cost
 * nothing. Receiving and transmitting leave a copy of the frame in a ring of that direction, without waiting; a thread
 * writes the copies in the order of their times. A frame that finds its ring full is counted, not kept. On a virtual
 * clock there is no thread: frames are written as they come, so that the same run leaves the same bytes.
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
 * The file holds everything older than CAPTURE_LATE_MS, and ends with a whole block. Main thread. All functions do
 * nothing for a capture that is NULL.
 */
#ifndef CAPTURE_FILE_H
#define CAPTURE_FILE_H

#include "xkernel/capture.h"
#include "xkernel/platform.h"

enum {
	CAPTURE_RING = 16 << 20, /* bytes waiting to be written, for each direction of a port and each tap */
	CAPTURE_LATE_MS = 60,
};

struct capture;

/*
 * Creates or empties the file. host: what interfaces' names begin with ("server.port"). NULL: it cannot be written,
 * after a message. program and host must last until the capture is closed.
 */
struct capture *capture_open(const char *program, const char *path, const char *host);

/* Begins the capture, with this platform's times. 0, or OPTIONS_FAILURE after a message. */
int capture_start(struct capture *capture, struct xk_platform *platform);

/*
 * Captures what crosses port, which is not in use yet, as an interface called name; ports of one name are one
 * interface. 0, or OPTIONS_FAILURE after a message.
 */
int capture_port(struct capture *capture, struct xk_port *port, const char *name);

/* Returns where vtap shows messages, for struct xk_kernel_config. */
struct xk_capture *capture_sink(struct capture *capture);

/*
 * Writes what is left and frees everything, after its kernel was freed. 0; OPTIONS_FAILURE after a message: not all
 * could be written.
 */
int capture_close(struct capture *capture);

#endif
