/*
 * journey.h - writes a simulated run as a page for a browser, to step through: each message's crossings in the graphs
 * of its hosts, headers, carriers, handoffs, drops, and the frames on the links.
 *
 * The page is one file. Its script and style are journey.js and journey.css; it loads nothing, and its content policy
 * forbids that. The steps are written as they happen, so memory stays small; after JOURNEY_STEPS the others are left
 * out, and the page and a sentence at the end say so. Equal runs write equal bytes.
 *
 *	struct journey *journey = journey_open("xk run", "x.html", "bad.dot", seed);
 *
 *	config.sink = journey_sink(journey, "client");	(the kernel's, at each boot)
 *	journey_graph(journey, kernel);			(once it is composed)
 *	xk_sim_watch(sim, journey_see, journey);
 *	...
 *	journey_stop(journey);				(before the hosts are closed)
 *	xk_sim_free(sim);
 *	status = journey_close(journey);
 *
 * Which step belongs to which message is found out as the steps come:
 *
 *  - A push by a protocol that was handed nothing to push is a new message. What the protocols below push meanwhile on
 *    the same shepherd is the same message, as are its fragments and frames, and what becomes of these at the receiver.
 *  - A push by a protocol to which a message came up is a new one, because of that message: an answer, say.
 *  - A protocol with others above it that pushes, on its own account, a payload that it has pushed before sends that
 *    message again.
 *
 * A status is 0, or OPTIONS_FAILURE after a message. Main thread only. All functions do nothing for a NULL journey.
 */
#ifndef JOURNEY_H
#define JOURNEY_H

#include <stdio.h>

#include "platform/sim/sim.h"
#include "xkernel/trace.h"

enum {
	JOURNEY_STEPS = 20000,
	JOURNEY_HOSTS = 16, /* most that a page shows; journey_sink refuses others */
};

struct journey;

/* Creates or empties the file. Borrows its arguments. title: a file; its name is shown. NULL after a message. */
struct journey *journey_open(const char *program, const char *path, const char *title, uint64_t seed);

/*
 * Begins a journey without a page, for a program that makes one of several: a line of JSON for each graph and each step,
 * in which places are written by name. Takes out.
 */
struct journey *journey_open_lines(FILE *out);

/* Returns the sink of the host called name, the same for each of its boots; NULL if there are too many hosts. */
struct xk_trace_sink *journey_sink(struct journey *journey, const char *name);

/* Adds the graph of the host with this sink, once. The kernel is composed. */
void journey_graph(struct xk_trace_sink *sink, struct xk_kernel *kernel);

/* Adds a record of the world; the journey is the context of xk_sim_watch. */
void journey_see(void *journey, const struct xk_sim_record *record);

/* What happened to a frame; event: XK_SIM_SENT, XK_SIM_ARRIVED or XK_SIM_LOST. */
struct journey_frame_seen {
	enum xk_sim_event event;
	uint64_t at_ns;
	const char *host, *link;
	const uint8_t *frame;
	size_t len;
	const char *why; /* as in struct xk_sim_record, like number */
	uint64_t number;
};

/* Adds it, for a host that is in no world of the simulator's. Borrows its arguments. journey may be NULL. */
void journey_see_frame(struct journey *journey, const struct journey_frame_seen *seen);

/* Leaves out what comes from now on: call it before the hosts are closed. */
void journey_stop(struct journey *journey);

/* Writes the rest and frees everything. Fails if anything could not be written. */
int journey_close(struct journey *journey);

#endif
