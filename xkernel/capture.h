/* capture.h - shows passing messages to the program, which provides the capture (kernel.h) and does the I/O. */
#ifndef XK_CAPTURE_H
#define XK_CAPTURE_H

#include "xkernel/upi.h"

/* The header at the start of the bytes: numbers of the registry of capture files' link types. */
enum xk_capture_link {
	XK_CAPTURE_ETHERNET = 1,
	XK_CAPTURE_IP = 101,    /* an IP header, of either version */
	XK_CAPTURE_USER0 = 147, /* private use: unknown to readers */
	XK_CAPTURE_IPV4 = 228,
};

struct xk_capture;

struct xk_capture_ops {
	/* Adds a place, called name, where messages pass. Returns its number, or -errno. Main thread. */
	int (*add)(struct xk_capture *capture, const char *name, enum xk_capture_link link);

	/* Shows m, which passes that place and stays the caller's. Any context; must not wait for anything slow. */
	void (*see)(struct xk_capture *capture, unsigned place, enum xk_direction direction, const struct xk_msg *m);
};

/* A program's own capture begins with this struct. */
struct xk_capture {
	const struct xk_capture_ops *ops;
};

/* Returns the capture of self's kernel, or NULL. Any context. */
struct xk_capture *xk_capture_of(const struct xk_protocol *self);

#endif
