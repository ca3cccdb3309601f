/* journey.c - see journey.h. journey.js explains the names of the steps' members. */
#define _GNU_SOURCE
#include "tools/journey/journey.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/journey_page.h"
#include "tools/json.h"
#include "tools/options.h"
#include "xkernel/protocol.h"
#include "xkernel/trace.h"

enum {
	JOURNEY_DEPTH = 32,      /* maximum of a shepherd's crossings that have not returned */
	JOURNEY_CHAINS = 1024,   /* maximum of a host's shepherds that are followed at a time */
	JOURNEY_FRAMES = 4096,   /* maximum of recognized frames, in flight or waiting at a host */
	JOURNEY_PUSHES = 1024,   /* number of pushes among which an earlier one is searched */
	JOURNEY_SESSIONS = 1024, /* maximum of a host's sessions that are known at a time */
	JOURNEY_BYTES = 96,      /* of a frame that are shown */
	JOURNEY_SHORT = 32,      /* bytes shown of a message without a header */
	JOURNEY_SEGMENTS = 8,
	JOURNEY_LAYERS = 32,
};

/* The origin of a message. Steps and messages count from 1; 0: none. */
struct journey_origin {
	uint32_t message;
	uint32_t step; /* the last step of this message, from which the next one gets its bytes */
};

/* A crossing whose call has not returned yet, or a reply that has crossed. */
struct journey_crossing {
	struct journey_origin origin;
	unsigned node; /* the protocol that was handed the message */
	enum xk_direction direction;
	bool is_reply;
	const struct xk_edge *edge;
	const struct xk_session *session;
	const struct xk_msg *m;
	uint32_t id; /* m's number */
};

/* The crossings in progress of one shepherd, innermost last. */
struct journey_chain {
	const void *shepherd;
	unsigned count;
	struct journey_crossing crossings[JOURNEY_DEPTH];
};

/* Bytes that were sent to a device, or given to the driver. */
struct journey_bytes {
	struct journey_origin origin;
	uint64_t hash;
	size_t len;
};

/* A frame by its number: of the world's frames, or of a host's messages. */
struct journey_frame {
	uint64_t number;
	struct journey_origin origin;
	uint32_t arrived; /* for a host's message: the step of the arrival */
};

/* A pushed message, to recognize it later. */
struct journey_push {
	struct journey_origin origin;
	uint32_t content;  /* the step from which its payload came */
	uint32_t original; /* the step that first sent it */
	unsigned from, to;
	uint64_t whole, payload; /* hashes: with the header of `from`, and without */
	size_t payload_len;
	bool went_on;
};

struct journey_session {
	const struct xk_session *session;
	uint32_t number;
	bool was_seen; /* in a crossing */
};

struct journey_host {
	struct xk_trace_sink sink;
	struct journey *journey;
	char *name;
	char *graph; /* as JSON; NULL: none yet */
	size_t graph_size;
	bool *has_uppers; /* by node: messages arrive from above */
	bool is_down;     /* has crashed; the actions of its protocols while they end are not shown */
	struct journey_chain **chains;
	unsigned chain_count, chain_next;
	struct journey_bytes leaving[JOURNEY_FRAMES], waiting[JOURNEY_FRAMES];
	unsigned leaving_count, waiting_count;
	struct journey_frame taken[JOURNEY_FRAMES]; /* by number */
	struct journey_push pushes[JOURNEY_PUSHES]; /* a ring */
	struct journey_session sessions[JOURNEY_SESSIONS];
	uint64_t push_count, session_count;
};

struct journey {
	const char *program, *path, *title;
	uint64_t seed, last_ns;
	FILE *out;
	uint32_t steps, messages, left_out;
	bool stopped, lines; /* lines: without a page */
	struct journey_host *hosts[JOURNEY_HOSTS];
	unsigned host_count;
	struct journey_frame frames[JOURNEY_FRAMES]; /* by number */
	/* names that steps refer to by their position */
	char **places, **links;
	unsigned place_count, link_count;
	const struct xk_protocol_type **types;
	unsigned type_count;
};

static int
journey_fail(const struct journey *journey, int err)
{
	fprintf(stderr, "%s: --journey %s cannot be written: %s\n", journey->program, journey->path, xk_error(err));
	return OPTIONS_FAILURE;
}

/* ---- names and bytes ---- */

/* Returns list with room for one more; grows in powers of two. Ends the process without memory, as for graphs. */
static void *
journey_grow(void *list, unsigned count, size_t size)
{
	if ((count & (count - 1)) == 0)
		list = reallocarray(list, count == 0 ? 1 : 2 * (size_t)count, size);
	xk_assert(list != NULL);
	return list;
}

/* Returns the position of name, which is added if it is new. */
static unsigned
journey_name(char ***list, unsigned *count, const char *name)
{
	unsigned i = 0;

	while (i < *count && strcmp((*list)[i], name) != 0)
		i++;
	if (i == *count) {
		*list = journey_grow(*list, *count, sizeof(char *));
		(*list)[i] = strdup(name);
		xk_assert((*list)[i] != NULL);
		++*count;
	}
	return i;
}

/* Returns the FNV-1a hash of m's bytes from offset on. */
static uint64_t
journey_hash(const struct xk_msg *m, size_t offset)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; m != NULL; m = m->next) {
		size_t skip = offset < m->len ? offset : m->len;

		offset -= skip;
		for (size_t i = skip; i < m->len; i++)
			hash = (hash ^ m->data[i]) * UINT64_C(0x100000001b3);
	}
	return hash;
}

static uint64_t
journey_hash_bytes(const uint8_t *bytes, size_t len)
{
	const struct xk_msg m = { .data = (uint8_t *)(uintptr_t)bytes, .len = (uint32_t)len };

	return journey_hash(&m, 0);
}

/* Adds to a list of at most JOURNEY_FRAMES; discards the oldest if it is full. */
static void
journey_bytes_add(struct journey_bytes *list, unsigned *count, struct journey_bytes added)
{
	if (*count == JOURNEY_FRAMES)
		memmove(list, list + 1, --*count * sizeof(*list));
	list[(*count)++] = added;
}

/* Removes the oldest occurrence of these bytes from the list. Returns their origin, or none. */
static struct journey_origin
journey_bytes_take(struct journey_bytes *list, unsigned *count, uint64_t hash, size_t len)
{
	struct journey_origin origin = { 0, 0 };
	unsigned i = 0;

	while (i < *count && (list[i].hash != hash || list[i].len != len))
		i++;
	if (i == *count)
		return origin;
	origin = list[i].origin;
	memmove(list + i, list + i + 1, (--*count - i) * sizeof(*list));
	return origin;
}

static struct journey_frame *
journey_frame(struct journey_frame *frames, uint64_t number)
{
	struct journey_frame *frame = &frames[number % JOURNEY_FRAMES];

	return number != 0 && frame->number == number ? frame : NULL;
}

/* ---- writing ---- */

/* Begins a step. Returns false if it is left out, beyond the maximum or after journey_stop. */
static bool
journey_begin(struct journey *journey, const char *kind, const struct journey_host *host, uint64_t now_ns)
{
	unsigned number = 0;

	if (journey->stopped)
		return false;
	if (journey->steps == JOURNEY_STEPS) {
		journey->left_out++;
		return false;
	}
	while (journey->hosts[number] != host)
		number++;
	fprintf(journey->out, "%s{\"t\":%" PRIu64 ",\"k\":\"%s\",\"h\":%u",
		journey->steps == 0 || journey->lines ? "" : ",\n", now_ns, kind, number);
	journey->steps++;
	journey->last_ns = now_ns;
	return true;
}

static void
journey_number(struct journey *journey, const char *name, uint64_t value)
{
	if (value != 0)
		fprintf(journey->out, ",\"%s\":%" PRIu64, name, value);
}

static void
journey_node(struct journey *journey, const char *name, const struct xk_protocol *p)
{
	fprintf(journey->out, ",\"%s\":%u", name, p->index);
}

static void
journey_text(struct journey *journey, const char *name, const char *text)
{
	fprintf(journey->out, ",\"%s\":", name);
	json_quote(journey->out, text);
}

static void
journey_place(struct journey *journey, const struct xk_trace_step *step)
{
	if (journey->lines)
		journey_text(journey, "w", step->place);
	else
		fprintf(journey->out, ",\"w\":%u", journey_name(&journey->places, &journey->place_count, step->place));
}

static void
journey_hex(struct journey *journey, const uint8_t *bytes, size_t len)
{
	fputs(",\"x\":\"", journey->out);
	for (size_t i = 0; i < len && i < JOURNEY_BYTES; i++)
		fprintf(journey->out, "%02x", bytes[i]);
	fputc('"', journey->out);
}

/* Writes m's length, first bytes, and the lengths of its segments if there are several. */
static void
journey_message(struct journey *journey, const struct xk_msg *m, size_t header)
{
	size_t len = xk_msg_len(m), shown = header == 0 ? JOURNEY_SHORT : header + JOURNEY_SHORT / 2;
	uint8_t bytes[JOURNEY_BYTES];
	unsigned count = 0;

	shown = shown < sizeof(bytes) ? shown : sizeof(bytes);
	shown = shown < len ? shown : len;
	xk_msg_copy_out(m, 0, bytes, shown);
	fprintf(journey->out, ",\"n\":%zu", len);
	journey_hex(journey, bytes, shown);
	if (m->next == NULL)
		return;
	for (; m != NULL && count < JOURNEY_SEGMENTS; m = m->next, count++)
		fprintf(journey->out, "%s%" PRIu32, count == 0 ? ",\"segments\":[" : ",", m->len);
	fputs(m == NULL ? "]" : ",0]", journey->out);
}

static void
journey_end(struct journey *journey)
{
	fputs(journey->lines ? "}\n" : "}", journey->out);
}

/* ---- sessions ---- */

static struct journey_session *
journey_session(struct journey_host *host, const struct xk_session *session)
{
	uint64_t count = host->session_count < JOURNEY_SESSIONS ? host->session_count : JOURNEY_SESSIONS;

	for (uint64_t i = 1; i <= count; i++) {
		struct journey_session *s = &host->sessions[(host->session_count - i) % JOURNEY_SESSIONS];

		if (s->session == session)
			return s;
	}
	return NULL;
}

static void
journey_session_made(struct journey_host *host, const struct xk_session *session)
{
	host->sessions[host->session_count % JOURNEY_SESSIONS] =
		(struct journey_session){ .session = session, .number = (uint32_t)host->session_count + 1 };
	host->session_count++;
}

/* ---- identifying messages ---- */

static struct journey_chain *
journey_chain(struct journey_host *host, const void *shepherd)
{
	struct journey_chain *chain;

	for (unsigned i = 0; i < host->chain_count; i++)
		if (host->chains[i]->shepherd == shepherd)
			return host->chains[i];
	if (host->chain_count == JOURNEY_CHAINS) {
		chain = host->chains[host->chain_next++ % JOURNEY_CHAINS];
	} else {
		host->chains = journey_grow(host->chains, host->chain_count, sizeof(*host->chains));
		chain = malloc(sizeof(*chain));
		xk_assert(chain != NULL);
		host->chains[host->chain_count++] = chain;
	}
	chain->shepherd = shepherd;
	chain->count = 0;
	return chain;
}

static struct journey_crossing *
journey_innermost(struct journey_chain *chain)
{
	return chain->count == 0 ? NULL : &chain->crossings[chain->count - 1];
}

/* Returns the innermost crossing that handed the node a message, or NULL. */
static struct journey_crossing *
journey_handed(struct journey_chain *chain, unsigned node)
{
	for (unsigned i = chain->count; i-- > 0;)
		if (chain->crossings[i].node == node)
			return &chain->crossings[i];
	return NULL;
}

static void
journey_chain_add(struct journey_chain *chain, struct journey_crossing crossing)
{
	if (chain->count == JOURNEY_DEPTH)
		memmove(chain->crossings, chain->crossings + 1, --chain->count * sizeof(crossing));
	chain->crossings[chain->count++] = crossing;
}

/* Ends the crossing of edge, with the crossings that it led to; a reply that resulted from it remains. */
static void
journey_returned(struct journey_host *host, const struct xk_trace_step *step)
{
	struct journey_chain *chain = journey_chain(host, step->shepherd);
	struct journey_crossing last;

	if (chain->count == 0)
		return;
	last = chain->crossings[chain->count - 1];
	for (unsigned i = chain->count; i-- > 0;) {
		if (chain->crossings[i].edge != step->edge || chain->crossings[i].direction != step->direction ||
		    chain->crossings[i].is_reply)
			continue;
		chain->count = i;
		if (last.is_reply && last.edge == step->edge)
			chain->crossings[chain->count++] = last;
		return;
	}
}

/* Findings about a crossing. */
struct journey_found {
	struct journey_origin origin; /* the message, and the step from which its content comes */
	uint32_t because;             /* the step that led to it; 0: the origin, or none */
	uint32_t original;            /* for a retransmission: the step that first sent it */
	bool is_timer, by_path;
};

static struct journey_push *
journey_push_find(struct journey_host *host, unsigned node, uint64_t payload, size_t len, bool again)
{
	uint64_t count = host->push_count < JOURNEY_PUSHES ? host->push_count : JOURNEY_PUSHES;

	for (uint64_t i = 1; i <= count; i++) {
		struct journey_push *p = &host->pushes[(host->push_count - i) % JOURNEY_PUSHES];

		if (again ? p->from == node && p->payload == payload && p->payload_len == len
			  : p->to == node && p->whole == payload && !p->went_on)
			return p;
	}
	return NULL;
}

/*
 * Finds the origin of a push by a protocol that was not just handed this message from above: a retransmission, a
 * message kept until now, or a new one. passes_on: the message came from below and was not kept (a router's).
 */
static void
journey_find_origin(struct journey_host *host, const struct xk_protocol *from, uint64_t payload, size_t len,
		    bool passes_on, struct journey_found *found)
{
	struct journey_push *earlier = NULL;

	if (!passes_on && host->has_uppers[from->index] && len > 0) {
		earlier = journey_push_find(host, from->index, payload, len, true);
		if (earlier != NULL) {
			found->original = earlier->original;
			found->origin = (struct journey_origin){ earlier->origin.message, earlier->content };
			return;
		}
		earlier = journey_push_find(host, from->index, payload, len, false);
	}
	if (earlier != NULL) {
		earlier->went_on = true;
		found->origin = earlier->origin;
	} else {
		found->origin = (struct journey_origin){ ++host->journey->messages, 0 };
	}
}

/* Finds the origin of a downward crossing, given the hash of the bytes behind its header. */
static void
journey_find_down(struct journey_host *host, struct journey_chain *chain, const struct xk_trace_step *step,
		  const struct xk_protocol *from, uint64_t payload, size_t len, struct journey_found *found)
{
	struct journey_crossing *handed = journey_handed(chain, from->index), *last = journey_innermost(chain);

	if (last != NULL && last != handed && last->direction == XK_DOWN && last->m == step->m) {
		found->origin = last->origin;
		found->by_path = true;
	} else if (handed != NULL && handed->direction == XK_DOWN) {
		found->origin = handed->origin;
		for (uint64_t i = 1; i <= host->push_count && i <= JOURNEY_PUSHES; i++) {
			struct journey_push *p = &host->pushes[(host->push_count - i) % JOURNEY_PUSHES];

			if (p->origin.step != handed->origin.step)
				continue;
			p->went_on = true;
			break;
		}
	} else {
		found->because = handed != NULL ? handed->origin.step : last != NULL ? last->origin.step : 0;
		journey_find_origin(host, from, payload, len,
				    handed != NULL && handed->id != 0 && handed->id == step->m->id, found);
	}
	if (handed != NULL && !found->by_path) {
		chain->count = (unsigned)(handed - chain->crossings) + 1;
		if (handed->is_reply && handed->direction == XK_UP) /* it will not return */
			chain->count--;
	}
}

/* Finds the origin of an upward crossing. */
static void
journey_find_up(struct journey_host *host, struct journey_chain *chain, const struct xk_trace_step *step,
		const struct xk_protocol *from, struct journey_found *found)
{
	struct journey_crossing *handed = step->kind == XK_TRACE_REPLIED ? NULL : journey_handed(chain, from->index);
	struct journey_frame *taken = journey_frame(host->taken, step->m->id);

	if (handed != NULL) {
		found->origin = handed->origin;
		chain->count = (unsigned)(handed - chain->crossings) + 1;
	} else if (taken != NULL) {
		found->origin = taken->origin;
		found->by_path = taken->origin.step == taken->arrived && (from->type->flags & XK_PORT) == 0;
	} else {
		found->origin.message = ++host->journey->messages;
	}
}

/* ---- steps of a host ---- */

/* Writes the protocols that a message on a path has passed, in its direction. */
static void
journey_path(struct journey *journey, const struct xk_session *top, bool up)
{
	const struct xk_protocol *passed[JOURNEY_LAYERS] = { NULL };
	unsigned count = 0;

	for (const struct xk_session *s = up ? top->lls : top; s != NULL && count < JOURNEY_LAYERS; s = s->lls)
		passed[count++] = s->protocol;
	if (!up) /* the step itself names the last two */
		count = count > 2 ? count - 2 : 0;
	fputs(",\"path\":[", journey->out);
	for (unsigned i = 0; i < count; i++)
		fprintf(journey->out, "%s%u", i == 0 ? "" : ",", passed[up ? count - 1 - i : i]->index);
	fputc(']', journey->out);
}

static void
journey_crossed(struct journey_host *host, const struct xk_trace_step *step)
{
	struct journey *journey = host->journey;
	const struct xk_session *s = step->session;
	bool up = step->direction == XK_UP;
	const struct xk_protocol *upper = s->up->upper, *from = up ? s->protocol : upper,
				 *to = up ? upper : s->protocol;
	size_t header = upper->type->header, len = xk_msg_len(step->m), payload_len;
	struct journey_chain *chain = journey_chain(host, step->shepherd);
	struct journey_session *session = journey_session(host, s);
	struct journey_frame *taken = journey_frame(host->taken, step->m->id);
	bool is_first = chain->count == 0, is_reply = step->kind == XK_TRACE_REPLIED;
	const struct xk_session *below;
	struct journey_found found = { .because = 0 };
	uint64_t payload;

	if (header > len)
		header = len;
	payload = journey_hash(step->m, header);
	payload_len = len - header;
	below = chain->count == 0 ? NULL : journey_innermost(chain)->session;
	if (up)
		journey_find_up(host, chain, step, from, &found);
	else
		journey_find_down(host, chain, step, from, payload, payload_len, &found);
	found.is_timer = is_first && step->load == XK_LOAD_EVENT;
	if (!journey_begin(journey, xk_direction_names[step->direction], host, step->now_ns))
		return;
	journey_node(journey, "a", from);
	journey_node(journey, "b", to);
	journey_number(journey, "m", found.origin.message);
	journey_number(journey, "c", found.origin.step);
	journey_number(journey, "because", found.because);
	journey_number(journey, "again", found.original);
	journey_number(journey, "timer", found.is_timer);
	journey_number(journey, "reply", is_reply);
	journey_message(journey, step->m, found.by_path && !up ? JOURNEY_BYTES : header);
	if (found.by_path)
		journey_path(journey, up ? s : below, up);
	if (session != NULL) {
		journey_number(journey, "s", session->number);
		journey_number(journey, "made", !session->was_seen);
		session->was_seen = true;
	}
	journey_place(journey, step);
	journey_end(journey);
	if (taken != NULL)
		taken->origin.step = journey->steps;
	journey_chain_add(chain, (struct journey_crossing){ .origin = { found.origin.message, journey->steps },
							    .node = to->index,
							    .direction = step->direction,
							    .is_reply = is_reply,
							    .edge = s->up,
							    .session = s,
							    .m = step->m,
							    .id = step->m->id });
	if (up || is_reply)
		return;
	host->pushes[host->push_count++ % JOURNEY_PUSHES] = (struct journey_push){
		.origin = { found.origin.message, journey->steps },
		.content = found.origin.step,
		.original = found.original != 0 ? found.original : journey->steps,
		.from = from->index,
		.to = to->index,
		.whole = journey_hash(step->m, 0),
		.payload = payload,
		.payload_len = payload_len,
	};
	if (to->type->flags & XK_PORT)
		journey_bytes_add(host->leaving, &host->leaving_count,
				  (struct journey_bytes){ .origin = { found.origin.message, journey->steps },
							  .hash = journey_hash(step->m, 0),
							  .len = len });
}

/* Returns the origin of a step in which no message crosses: m's message, or the one that the shepherd carries. */
static struct journey_origin
journey_origin_of(struct journey_host *host, const struct xk_trace_step *step)
{
	struct journey_crossing *last = journey_innermost(journey_chain(host, step->shepherd));
	struct journey_frame *taken = step->m == NULL ? NULL : journey_frame(host->taken, step->m->id);

	if (last != NULL)
		return last->origin;
	return taken != NULL ? taken->origin : (struct journey_origin){ 0, 0 };
}

static void
journey_decided(struct journey_host *host, const struct xk_trace_step *step)
{
	struct journey *journey = host->journey;
	struct journey_origin origin = journey_origin_of(host, step);
	const char *kind = step->kind == XK_TRACE_HANDOFF ? "handoff" : step->kind == XK_TRACE_DROPPED ? "drop" : "say";

	if (!journey_begin(journey, kind, host, step->now_ns))
		return;
	if (step->kind == XK_TRACE_HANDOFF && step->edge != NULL) {
		journey_node(journey, "a", step->edge->lower);
		journey_node(journey, "b", step->edge->upper);
	} else if (step->protocol != NULL) {
		journey_node(journey, "a", step->protocol);
	}
	journey_number(journey, "m", origin.message);
	journey_number(journey, "c", origin.step);
	if (step->kind == XK_TRACE_HANDOFF)
		journey_text(journey, "reason", xk_handoff_names[step->reason]);
	else
		journey_text(journey, step->kind == XK_TRACE_DROPPED ? "reason" : "text", step->text);
	if (step->m != NULL)
		fprintf(journey->out, ",\"n\":%zu", xk_msg_len(step->m));
	journey_place(journey, step);
	journey_end(journey);
}

static void
journey_taken(struct journey_host *host, const struct xk_trace_step *step)
{
	struct journey_origin origin =
		journey_bytes_take(host->waiting, &host->waiting_count, journey_hash(step->m, 0), xk_msg_len(step->m));

	host->taken[step->m->id % JOURNEY_FRAMES] =
		(struct journey_frame){ .number = step->m->id, .origin = origin, .arrived = origin.step };
}

static void
journey_see_step(struct xk_trace_sink *sink, const struct xk_trace_step *step)
{
	struct journey_host *host = xk_container_of(sink, struct journey_host, sink);
	struct journey_session *session;

	if (host->is_down)
		return;
	switch (step->kind) {
	case XK_TRACE_TAKEN:
		journey_taken(host, step);
		break;
	case XK_TRACE_CROSSED:
	case XK_TRACE_REPLIED:
		journey_crossed(host, step);
		break;
	case XK_TRACE_RETURNED:
		journey_returned(host, step);
		break;
	case XK_TRACE_HANDOFF:
	case XK_TRACE_DROPPED:
	case XK_TRACE_DECISION:
		journey_decided(host, step);
		break;
	case XK_TRACE_MADE:
		journey_session_made(host, step->session);
		break;
	case XK_TRACE_CLOSED:
		session = journey_session(host, step->session);
		if (session != NULL)
			session->session = NULL;
		break;
	}
}

/* ---- frames, boots and crashes ---- */

static struct journey_host *
journey_host(struct journey *journey, const char *name)
{
	for (unsigned i = 0; i < journey->host_count; i++)
		if (strcmp(journey->hosts[i]->name, name) == 0)
			return journey->hosts[i];
	return NULL;
}

struct xk_trace_sink *
journey_sink(struct journey *journey, const char *name)
{
	struct journey_host *host = journey == NULL ? NULL : journey_host(journey, name);

	if (journey == NULL || (host == NULL && journey->host_count == JOURNEY_HOSTS))
		return NULL;
	if (host != NULL)
		return &host->sink;
	host = calloc(1, sizeof(*host));
	xk_assert(host != NULL);
	host->sink.see = journey_see_step;
	host->journey = journey;
	host->name = strdup(name);
	xk_assert(host->name != NULL);
	journey->hosts[journey->host_count++] = host;
	return &host->sink;
}

/* Discards everything that a crashed host had in progress. */
static void
journey_crashed(struct journey_host *host)
{
	for (unsigned i = 0; i < host->chain_count; i++)
		host->chains[i]->count = 0;
	for (unsigned i = 0; i < JOURNEY_SESSIONS; i++)
		host->sessions[i].session = NULL;
	memset(host->taken, 0, sizeof(host->taken));
	host->leaving_count = host->waiting_count = 0;
	host->push_count = 0;
}

/* Writes a frame's step, and records the frame's position. */
void
journey_see_frame(struct journey *journey, const struct journey_frame_seen *seen)
{
	static const char *const kinds[] = {
		[XK_SIM_SENT] = "sent", [XK_SIM_ARRIVED] = "arrived", [XK_SIM_LOST] = "lost"
	};
	struct journey_host *host = journey == NULL ? NULL : journey_host(journey, seen->host);
	struct journey_frame *frame;
	struct journey_origin origin = { 0, 0 };
	uint64_t hash;

	if (host == NULL)
		return;
	frame = journey_frame(journey->frames, seen->number);
	hash = journey_hash_bytes(seen->frame, seen->len);
	if (seen->event == XK_SIM_SENT)
		origin = journey_bytes_take(host->leaving, &host->leaving_count, hash, seen->len);
	else if (frame != NULL)
		origin = frame->origin;
	else if (seen->event == XK_SIM_ARRIVED) /* its sending was not seen */
		origin.message = ++journey->messages;
	if (!journey_begin(journey, kinds[seen->event], host, seen->at_ns))
		return;
	journey_number(journey, "m", origin.message);
	journey_number(journey, "c", origin.step);
	journey_number(journey, "frame", seen->number);
	fprintf(journey->out, ",\"link\":%u,\"n\":%zu", journey_name(&journey->links, &journey->link_count, seen->link),
		seen->len);
	if (seen->event == XK_SIM_SENT || seen->why != NULL)
		journey_hex(journey, seen->frame, seen->len);
	if (seen->why != NULL)
		journey_text(journey, "reason", seen->why);
	journey_end(journey);
	origin.step = journey->steps;
	if (seen->event == XK_SIM_SENT)
		journey->frames[seen->number % JOURNEY_FRAMES] =
			(struct journey_frame){ .number = seen->number, .origin = origin };
	else if (seen->event == XK_SIM_ARRIVED)
		journey_bytes_add(host->waiting, &host->waiting_count,
				  (struct journey_bytes){ .origin = origin, .hash = hash, .len = seen->len });
}

void
journey_see(void *to, const struct xk_sim_record *record)
{
	struct journey *journey = to;
	struct xk_trace_sink *sink = journey_sink(journey, xk_sim_host_name(record->host));
	struct journey_host *host;

	if (sink == NULL)
		return;
	host = xk_container_of(sink, struct journey_host, sink);
	if (record->frame != NULL) {
		journey_see_frame(journey, &(struct journey_frame_seen){ .event = record->event,
									 .at_ns = record->at_ns,
									 .host = host->name,
									 .link = xk_sim_link_name(record->link),
									 .frame = record->frame,
									 .len = record->len,
									 .why = record->why,
									 .number = record->number });
		return;
	}
	host->is_down = record->event == XK_SIM_CRASHED;
	if (host->is_down)
		journey_crashed(host);
	if (journey_begin(journey, record->event == XK_SIM_CRASHED ? "crashed" : "booted", host, record->at_ns))
		journey_end(journey);
}

/* ---- graphs and types ---- */

static void
journey_type(struct journey *journey, const struct xk_protocol_type *type)
{
	for (unsigned i = 0; i < journey->type_count; i++)
		if (journey->types[i] == type)
			return;
	journey->types = journey_grow(journey->types, journey->type_count, sizeof(*journey->types));
	journey->types[journey->type_count++] = type;
}

/* Returns true if messages cross an edge of this role. */
static bool
journey_carries(const struct xk_edge *edge)
{
	const struct xk_role *role = edge->upper->type->lowers;

	while (role->name != NULL && strcmp(role->name, edge->role) != 0)
		role++;
	return role->needs != XK_CONTROL;
}

/* Writes fields, a list of JSON's, as declared. */
static void
journey_write_fields(FILE *out, const struct xk_field *fields)
{
	static const char *const kinds[] = { [XK_VARIES] = "varies",
					     [XK_FIXED] = "fixed",
					     [XK_NAMES_SESSION] = "names the session",
					     [XK_LENGTH] = "length",
					     [XK_CHECKSUM] = "checksum" };
	static const char *const prints[] = { [XK_PRINT_DECIMAL] = "decimal",
					      [XK_PRINT_HEX] = "hex",
					      [XK_PRINT_HOST] = "host",
					      [XK_PRINT_LINK] = "link" };

	fputs("\"fields\":[", out);
	for (const struct xk_field *f = fields; f != NULL && f->name != NULL; f++) {
		fputs(f == fields ? "{\"name\":" : ",{\"name\":", out);
		json_quote(out, f->name);
		fprintf(out, ",\"bits\":%u,\"kind\":\"%s\",\"print\":\"%s\"", f->bits, kinds[f->kind],
			prints[f->print]);
		if (f->help != NULL) {
			fputs(",\"help\":", out);
			json_quote(out, f->help);
		}
		if (f->is_bits)
			fputs(",\"mask\":1", out);
		if (f->rare != 0)
			fputs(",\"rare\":1", out);
		if (f->values != NULL) {
			fputs(",\"values\":[", out);
			for (const struct xk_field_value *v = f->values; v->name != NULL; v++) {
				fprintf(out, "%s[\"%" PRIu64 "\",", v == f->values ? "" : ",", v->value);
				json_quote(out, v->name);
				fputc(']', out);
			}
			fputc(']', out);
		}
		fputc('}', out);
	}
	fputc(']', out);
}

/* Writes a type's header and its options as declared. */
static void
journey_write_type(FILE *out, const struct xk_protocol_type *type)
{
	const struct xk_option_list *list = type->options;

	json_quote(out, type->name);
	fprintf(out, ":{\"header\":%" PRIu32 ",\"help\":", type->header);
	json_quote(out, type->help == NULL ? "" : type->help);
	fputc(',', out);
	journey_write_fields(out, type->fields);
	if (list != NULL) {
		fprintf(out, ",\"options\":{\"at\":%u,\"shift\":%u,\"bits\":%u,\"unit\":%u,\"list\":[", list->at,
			list->shift, list->bits, list->unit);
		for (const struct xk_option *option = list->options; option->name != NULL; option++) {
			fputs(option == list->options ? "{\"name\":" : ",{\"name\":", out);
			json_quote(out, option->name);
			fprintf(out, ",\"kind\":%u,\"once\":%u,\"each\":%u,", option->kind, option->once, option->each);
			journey_write_fields(out, option->fields);
			fputc('}', out);
		}
		fputs("]}", out);
	}
	fputc('}', out);
}

static void
journey_write_types(struct journey *journey)
{
	fputs("\"types\":{", journey->out);
	for (unsigned i = 0; i < journey->type_count; i++) {
		fputs(i == 0 ? "" : journey->lines ? "," : ",\n", journey->out);
		journey_write_type(journey->out, journey->types[i]);
	}
	fputc('}', journey->out);
}

/* Writes a host's graph, and the known types, as a line. */
static void
journey_write_graph(const struct journey_host *host)
{
	fputs("{\"name\":", host->journey->out);
	json_quote(host->journey->out, host->name);
	fprintf(host->journey->out, ",%s,", host->graph);
	journey_write_types(host->journey);
	fputs("}\n", host->journey->out);
}

void
journey_graph(struct xk_trace_sink *sink, struct xk_kernel *kernel)
{
	struct journey_host *host = sink == NULL ? NULL : xk_container_of(sink, struct journey_host, sink);
	const char *comma = "";
	unsigned count = 0;
	FILE *out;

	if (host == NULL || host->graph != NULL)
		return;
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next)
		count = p->index + 1;
	host->has_uppers = calloc(count + 1, sizeof(bool));
	out = open_memstream(&host->graph, &host->graph_size);
	xk_assert(host->has_uppers != NULL && out != NULL);
	fputs("\"nodes\":[", out);
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next) {
		journey_type(host->journey, p->type);
		fprintf(out, "%s{\"name\":", comma);
		json_quote(out, p->name);
		fputs(",\"type\":", out);
		json_quote(out, p->type->name);
		fprintf(out, "%s%s}", p->type->flags & XK_VIRTUAL ? ",\"virtual\":1" : "",
			p->type->flags & XK_PORT ? ",\"port\":1" : "");
		comma = ",";
	}
	fputs("],\"edges\":[", out);
	comma = "";
	for (struct xk_protocol *p = xk_kernel_first(kernel); p != NULL; p = p->next)
		for (unsigned i = 0; i < p->lower_count; i++) {
			const struct xk_edge *edge = p->lowers[i];
			bool carries = journey_carries(edge);

			host->has_uppers[edge->lower->index] |= carries;
			fprintf(out, "%s[%u,%u,\"%s\"]", comma, p->index, edge->lower->index,
				!carries                                   ? "control"
				: xk_edge_watched(edge, XK_WATCH_EXPLICIT) ? "handoff"
				: edge->budget_ns != 0                     ? "budget"
									   : "");
			comma = ",";
		}
	fputc(']', out);
	xk_assert(fclose(out) == 0);
	if (host->journey->lines)
		journey_write_graph(host);
}

/* ---- the page ---- */

static const struct page_file *
journey_file(const char *name)
{
	const struct page_file *file = page_files;

	while (strcmp(file->name, name) != 0)
		file++;
	return file;
}

struct journey *
journey_open(const char *program, const char *path, const char *title, uint64_t seed)
{
	const struct page_file *style = journey_file("journey.css"), *script = journey_file("journey.js");
	struct journey *journey = calloc(1, sizeof(*journey));
	const char *slash = strrchr(title, '/');

	xk_assert(journey != NULL);
	*journey = (struct journey){
		.program = program, .path = path, .title = slash == NULL ? title : slash + 1, .seed = seed
	};
	journey->out = fopen(path, "w");
	if (journey->out == NULL) {
		journey_fail(journey, errno);
		free(journey);
		return NULL;
	}
	fprintf(journey->out,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; "
		"form-action 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'\">\n"
		"<meta name=\"viewport\" content=\"width=device-width\">\n<title>A journey</title>\n"
		"<style>%s</style>\n</head>\n%s<script type=\"application/json\" id=\"journey\">{\"steps\":[\n",
		script->sha256, style->sha256, style->text, journey_file("journey.html")->text);
	return journey;
}

struct journey *
journey_open_lines(FILE *out)
{
	struct journey *journey = calloc(1, sizeof(*journey));

	xk_assert(journey != NULL);
	*journey = (struct journey){ .program = "journey", .path = "lines", .title = "", .out = out, .lines = true };
	return journey;
}

void
journey_stop(struct journey *journey)
{
	if (journey != NULL)
		journey->stopped = true;
}

static void
journey_write_names(FILE *out, const char *key, char **names, unsigned count)
{
	fprintf(out, ",\n\"%s\":[", key);
	for (unsigned i = 0; i < count; i++) {
		if (i > 0)
			fputc(',', out);
		json_quote(out, names[i]);
	}
	fputc(']', out);
}

/* Writes the rest of the page after the steps. */
static void
journey_write_end(struct journey *journey)
{
	FILE *out = journey->out;

	fputs("],\n\"hosts\":[", out);
	for (unsigned i = 0; i < journey->host_count; i++) {
		fputs(i == 0 ? "{\"name\":" : ",\n{\"name\":", out);
		json_quote(out, journey->hosts[i]->name);
		fprintf(out, ",%s}",
			journey->hosts[i]->graph == NULL ? "\"nodes\":[],\"edges\":[]" : journey->hosts[i]->graph);
	}
	fputs("],\n", out);
	journey_write_types(journey);
	journey_write_names(out, "places", journey->places, journey->place_count);
	journey_write_names(out, "links", journey->links, journey->link_count);
	fputs(",\n\"title\":", out);
	json_quote(out, journey->title);
	fprintf(out, ",\"seed\":\"%" PRIu64 "\",\"leftOut\":%" PRIu32 "}</script>\n<script>%s</script>\n</html>\n",
		journey->seed, journey->left_out, journey_file("journey.js")->text);
	if (journey->left_out > 0)
		fprintf(stderr,
			"%s: --journey %s has the first %d steps, until %" PRIu64 ".%06" PRIu64 " s; %" PRIu32
			" are left out: make the run shorter\n",
			journey->program, journey->path, JOURNEY_STEPS, journey->last_ns / 1000000000,
			journey->last_ns / 1000 % 1000000, journey->left_out);
}

static void
journey_names_free(char **names, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

static void
journey_host_free(struct journey_host *host)
{
	for (unsigned i = 0; i < host->chain_count; i++)
		free(host->chains[i]);
	free(host->chains);
	free(host->has_uppers);
	free(host->graph);
	free(host->name);
	free(host);
}

int
journey_close(struct journey *journey)
{
	int status = 0;

	if (journey == NULL)
		return 0;
	if (!journey->lines)
		journey_write_end(journey);
	if (fflush(journey->out) != 0 || ferror(journey->out))
		status = journey_fail(journey, errno);
	fclose(journey->out);
	for (unsigned i = 0; i < journey->host_count; i++)
		journey_host_free(journey->hosts[i]);
	journey_names_free(journey->places, journey->place_count);
	journey_names_free(journey->links, journey->link_count);
	free(journey->types);
	free(journey);
	return status;
}
