/*
 * journey.h - writes a simulated run as a page to step through in a browser: each message's crossings in the graphs of
 * its hosts, headers, carriers, handoffs, drops, and the frames on the links.
 *
 * The page is one file. Its script and style are journey.js and journey.css; it loads nothing, and its content policy
 * forbids loading. Steps are written as they happen, so memory stays small. Steps after JOURNEY_STEPS are left out; the
 * page and a final message report that. Equal runs write equal bytes.
 *
 *	struct journey *journey = journey_open("xk run", "x.html", "bad.dot", seed);
 *
 *	config.sink = journey_sink(journey, "client");	(the kernel's, at each boot)
 *	journey_graph(journey, kernel);			(after it is composed)
 *	xk_sim_watch(sim, journey_see, journey);
 *	...
 *	journey_stop(journey);				(before the hosts are closed)
 *	xk_sim_free(sim);
 *	status = journey_close(journey);
 *
 * Steps are assigned to messages as they arrive:
 *
 * - A push by a protocol that was handed no message to push is a new message. Pushes of the protocols below, meanwhile
 *   and on the same shepherd, are the same message; so are its fragments and frames, at the sender and at the receiver.
 * - A push by a protocol that was handed a message from below is a new message, caused by that message: an answer, for
 *   example.
 * - If a protocol with others above it pushes, on its own, a payload that it has pushed before, it retransmits that
 *   message.
 *
 * A status is 0, or OPTIONS_FAILURE after a message. Main thread only. All functions ignore a NULL journey.
 */
#ifndef JOURNEY_H
#define JOURNEY_H

#include <stdio.h>

#include "platform/sim/sim.h"
#include "xkernel/trace.h"

enum {
	JOURNEY_STEPS = 20000,
	JOURNEY_HOSTS = 16, /* maximum that a page shows; journey_sink refuses others */
};

struct journey;

/*
 * Creates or truncates the file. Borrows its arguments. title: a file whose name is shown. Returns NULL after a message
 * on failure.
 */
struct journey *journey_open(const char *program, const char *path, const char *title, uint64_t seed);

/*
 * Begins a journey without a page, for a program that combines several: writes a line of JSON for each graph and each
 * step, with places by name. Takes out.
 */
struct journey *journey_open_lines(FILE *out);

/* Returns the sink of the host called name, the same for each of its boots, or NULL if there are too many hosts. */
struct xk_trace_sink *journey_sink(struct journey *journey, const char *name);

/* Adds the graph of the host with this sink, once, after the kernel was composed. */
void journey_graph(struct xk_trace_sink *sink, struct xk_kernel *kernel);

/* Adds a record of the world; the journey is the context of xk_sim_watch. */
void journey_see(void *journey, const struct xk_sim_record *record);

/* An event of a frame; event: XK_SIM_SENT, XK_SIM_ARRIVED or XK_SIM_LOST. */
struct journey_frame_seen {
	enum xk_sim_event event;
	uint64_t at_ns;
	const char *host, *link;
	const uint8_t *frame;
	size_t len;
	const char *why; /* as in struct xk_sim_record, like number */
	uint64_t number;
};

/* Adds it, for a host that is in no simulated world. Borrows its arguments. journey may be NULL. */
void journey_see_frame(struct journey *journey, const struct journey_frame_seen *seen);

/* Leaves out all further steps: call it before closing the hosts. */
void journey_stop(struct journey *journey);

/* Writes the rest and frees everything. Fails if anything could not be written. */
int journey_close(struct journey *journey);

#endif
