/*
 * capture.h - where protocols show messages that pass them, for a capture. The program that runs a kernel brings it
 * (kernel.h) and does what is to be done with the bytes; protocols do no input and output themselves.
 */
#ifndef XK_CAPTURE_H
#define XK_CAPTURE_H

#include "xkernel/upi.h"

/* What the bytes begin with: numbers of the registry of link types that capture files use. */
enum xk_capture_link {
	XK_CAPTURE_ETHERNET = 1,
	XK_CAPTURE_IP = 101,    /* an IP header, of either version */
	XK_CAPTURE_USER0 = 147, /* what no reader knows */
	XK_CAPTURE_IPV4 = 228,
};

enum xk_capture_way { XK_CAPTURE_UP, XK_CAPTURE_DOWN };

struct xk_capture;

struct xk_capture_ops {
	/* A place where messages pass, called name: its number, or -errno. Main thread. */
	int (*add)(struct xk_capture *capture, const char *name, enum xk_capture_link link);

	/* m passes there; it stays the caller's. Any context; never waits for anything slow. */
	void (*see)(struct xk_capture *capture, unsigned place, enum xk_capture_way way, const struct xk_msg *m);
};

/* A program's own begins with one. */
struct xk_capture {
	const struct xk_capture_ops *ops;
};

/* The capture of self's kernel; NULL: there is none. Any context. */
struct xk_capture *xk_capture_of(const struct xk_protocol *self);

#endif
