/*
 * story.c - see story.h. A frame's content is described when its message crosses the edge above a port: by the varying
 * fields of its uppermost header, or by the protocol that has pushed it if neither this nor the next one below has any, and
 * by what is unusual in the headers below (fragments, options). Frames are recognized by their bytes.
 */
#include "tools/explore/story.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "xkernel/header.h"
#include "xkernel/protocol.h"
#include "xkernel/trace.h"

enum {
	STORY_LINES = 60,   /* of drops and decisions: then, they are only counted */
	STORY_TEXT = 160,   /* bytes of a frame's description */
	STORY_DEPTH = 32,   /* crossings of a shepherd that have not returned */
	STORY_CHAINS = 64,  /* shepherds of a host that are followed */
	STORY_FRAMES = 256, /* that are in flight, or are waiting at a device */
	STORY_HEADER = 64,  /* bytes of the longest header that is described */
};

/* A message on its way down. */
struct story_crossing {
	const struct xk_edge *edge;
	const struct xk_msg *m;
	const struct xk_protocol *top; /* the first that has pushed the message */
	unsigned number;               /* of the message's crossings, from 0 */
	char text[STORY_TEXT];         /* what the headers so far say */
};

/* A shepherd's crossings in progress, innermost last. */
struct story_chain {
	const void *shepherd;
	unsigned count;
	struct story_crossing crossings[STORY_DEPTH];
};

struct story_frame {
	uint64_t number; /* 0: it has crossed the edge above the port, but was not sent yet */
	size_t len;
	uint32_t sum; /* of the bytes */
	char text[STORY_TEXT];
};

struct story_host {
	struct xk_trace_sink sink;
	struct story *story;
	const struct net_host *host;
	bool is_down; /* has crashed: what its protocols do while they end is not told */
	struct story_chain chains[STORY_CHAINS];
	unsigned next_chain;
	struct story_frame frames[STORY_FRAMES];
	unsigned next_frame;
};

struct story {
	struct net *net;
	FILE *out;
	const char *prefix;
	bool begun, ended;         /* something unusual has happened; the hosts stop */
	unsigned lines, repeated;  /* repeated: times that `last` was not told again */
	char last[2 * STORY_TEXT]; /* drop or decision, with its host */
	struct story_host hosts[];
};

/* ---- lines ---- */

/* Ends a line that was repeated. */
static void
story_end_repeated(struct story *story)
{
	if (story->repeated > 0)
		fprintf(story->out, "%s  ... and %u times more\n", story->prefix, story->repeated);
	story->repeated = 0;
	story->last[0] = '\0';
}

/* Begins a line about a host. Returns false before the first unusual event, and after the end. */
static bool
story_begin(struct story *story, const char *host)
{
	const struct xk_sim *sim = story->net->sim;
	uint64_t now_ns = xk_sim_now_ns(sim);

	if (!story->begun || story->ended)
		return false;
	story_end_repeated(story);
	fprintf(story->out, "%s  event %4" PRIu64 " %5" PRIu64 ".%09" PRIu64 "  %s", story->prefix, xk_sim_events(sim),
		now_ns / 1000000000, now_ns % 1000000000, host);
	return true;
}

/* Tells what a protocol drops or decides. */
static void
story_tell(struct story *story, const char *host, const char *text)
{
	char line[sizeof(story->last)];

	if (!story->begun || story->ended)
		return;
	snprintf(line, sizeof(line), "%s: %s", host, text);
	if (strcmp(story->last, line) == 0) {
		story->repeated++;
		return;
	}
	if (story->lines++ >= STORY_LINES || !story_begin(story, host))
		return;
	fprintf(story->out, ": %s\n", text);
	memcpy(story->last, line, sizeof(line));
	fflush(story->out);
}

/* ---- the content of frames ---- */

__attribute__((format(printf, 2, 3))) static void
story_add(char text[STORY_TEXT], const char *format, ...)
{
	size_t len = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + len, STORY_TEXT - len, format, arguments);
	va_end(arguments);
}

/* Adds a header to the description: its varying fields, or, below such a header, its unusual ones. */
static void
story_describe(const struct xk_protocol_type *type, const uint8_t *bytes, size_t len, char text[STORY_TEXT])
{
	bool is_first = text[0] == '\0';
	char value[STORY_TEXT];
	unsigned count = 0;
	size_t at = 0;

	for (const struct xk_field *f = type->fields; f != NULL && f->name != NULL; at += f++->bits) {
		if (at + f->bits > len * 8)
			break;
		if (f->rare != 0 ? ((xk_field_load(f, bytes, at) ^ f->usual) & f->rare) == 0
				 : !is_first || f->kind != XK_VARIES || f->print == XK_PRINT_HEX)
			continue;
		if (count++ == 0)
			story_add(text, "%s%s:", is_first ? "" : "; ", type->name);
		else
			story_add(text, ",");
		story_add(text, " %s%s", f->name, xk_field_print(f, xk_field_load(f, bytes, at), value, sizeof(value)));
	}
}

static struct story_chain *
story_chain(struct story_host *host, const void *shepherd)
{
	struct story_chain *chain;

	for (unsigned i = 0; i < STORY_CHAINS; i++)
		if (host->chains[i].shepherd == shepherd)
			return &host->chains[i];
	chain = &host->chains[host->next_chain++ % STORY_CHAINS];
	chain->shepherd = shepherd;
	chain->count = 0;
	return chain;
}

static uint32_t
story_sum(const struct xk_msg *m)
{
	uint32_t sum = 0;

	for (; m != NULL; m = m->next)
		for (uint32_t i = 0; i < m->len; i++)
			sum = (sum ^ m->data[i]) * UINT32_C(0x01000193);
	return sum;
}

/* Remembers the description of the message at the port, for the frame that it becomes. */
static void
story_leave(struct story_host *host, const struct xk_msg *m, const char *text)
{
	struct story_frame *frame = &host->frames[host->next_frame++ % STORY_FRAMES];

	*frame = (struct story_frame){ .len = xk_msg_len(m), .sum = story_sum(m) };
	snprintf(frame->text, sizeof(frame->text), "%s", text);
}

/* Follows a message down. */
static void
story_crossed(struct story_host *host, const struct xk_trace_step *step)
{
	const struct xk_edge *edge = step->session->up;
	struct story_chain *chain = story_chain(host, step->shepherd);
	struct story_crossing *last = NULL, *crossing;
	uint8_t header[STORY_HEADER];
	size_t len = edge->upper->type->header;

	if (step->direction == XK_UP)
		return;
	if (chain->count == STORY_DEPTH)
		memmove(chain->crossings, chain->crossings + 1, --chain->count * sizeof(*crossing));
	if (chain->count > 0)
		last = &chain->crossings[chain->count - 1];
	crossing = &chain->crossings[chain->count++];
	/* It goes on if its pusher was handed something from above, or if the same message has taken a path. */
	if (last != NULL && (last->edge->lower == edge->upper || last->m == step->m))
		*crossing = (struct story_crossing){ .number = last->number + 1, .top = last->top };
	else
		*crossing = (struct story_crossing){ .top = edge->upper };
	if (crossing->number > 0)
		memcpy(crossing->text, last->text, sizeof(crossing->text));
	crossing->edge = edge;
	crossing->m = step->m;
	if (len <= sizeof(header) && xk_msg_copy_out(step->m, 0, header, len))
		story_describe(edge->upper->type, header, len, crossing->text);
	if (crossing->number > 0 && crossing->text[0] == '\0')
		story_add(crossing->text, "%s", crossing->top->name);
	if ((edge->lower->type->flags & XK_PORT) != 0)
		story_leave(host, step->m, crossing->text);
}

static void
story_returned(struct story_host *host, const struct xk_trace_step *step)
{
	struct story_chain *chain = story_chain(host, step->shepherd);

	for (unsigned i = chain->count; i-- > 0;)
		if (step->direction == XK_DOWN && chain->crossings[i].edge == step->edge) {
			chain->count = i;
			return;
		}
}

static void
story_see_step(struct xk_trace_sink *sink, const struct xk_trace_step *step)
{
	struct story_host *host = xk_container_of(sink, struct story_host, sink);
	struct story *story = host->story;
	char text[STORY_TEXT];

	if (host->is_down)
		return;
	if (step->kind == XK_TRACE_CROSSED)
		story_crossed(host, step);
	else if (step->kind == XK_TRACE_RETURNED)
		story_returned(host, step);
	if ((step->kind != XK_TRACE_DROPPED && step->kind != XK_TRACE_DECISION) || step->protocol == NULL ||
	    strncmp(step->text, "session ", 8) == 0) /* opened or closed */
		return;
	snprintf(text, sizeof(text), "%s %s%s", step->protocol->name, step->kind == XK_TRACE_DROPPED ? "drops: " : "",
		 step->text);
	story_tell(story, host->host->topology->name, text);
}

/* ---- records ---- */

static void
story_sent(struct story_host *host, const struct xk_sim_record *record)
{
	const struct xk_msg m = { .data = (uint8_t *)(uintptr_t)record->frame, .len = (uint32_t)record->len };
	uint32_t sum = story_sum(&m);

	for (unsigned i = 0; i < STORY_FRAMES; i++) {
		struct story_frame *frame = &host->frames[(host->next_frame + i) % STORY_FRAMES];

		if (frame->number == 0 && frame->len == record->len && frame->sum == sum) {
			frame->number = record->number;
			return;
		}
	}
}

/* Tells what happens to a frame with a fault. */
static void
story_frame(struct story *story, const struct xk_sim_record *record)
{
	static const struct {
		const char *why, *words;
	} told[] = { { "loss", "" },
		     { "duplicate", "a second time" },
		     { "reorder", "late" },
		     { "corrupt", "damaged" },
		     { NULL, NULL } };
	const char *text = "", *words = NULL;

	for (unsigned i = 0; i < story->net->topology->host_count; i++)
		for (unsigned k = 0; k < STORY_FRAMES; k++)
			if (story->hosts[i].frames[k].number == record->number)
				text = story->hosts[i].frames[k].text;
	if (!story_begin(story, xk_sim_host_name(record->host)))
		return;
	fprintf(story->out, ": frame %" PRIu64 " %s", record->number,
		record->event == XK_SIM_LOST ? "is lost" : "arrives");
	for (unsigned i = 0; words == NULL; i++)
		if (told[i].why == NULL || strcmp(told[i].why, record->why) == 0)
			words = told[i].words == NULL ? record->why : told[i].words;
	fprintf(story->out, "%s%s (%s%s%zu bytes)\n", *words == '\0' ? "" : " ", words, text, *text == '\0' ? "" : "; ",
		record->len);
	fflush(story->out);
}

void
story_see(void *context, const struct xk_sim_record *record)
{
	struct story *story = context;
	struct story_host *host = &story->hosts[xk_sim_host_number(record->host)];

	if (record->event == XK_SIM_SENT) {
		story_sent(host, record);
		return;
	}
	story->begun |= record->why != NULL || record->event == XK_SIM_CRASHED;
	if (record->frame != NULL) {
		if (record->why != NULL)
			story_frame(story, record);
		return;
	}
	host->is_down = record->event == XK_SIM_CRASHED;
	if (host->is_down)
		memset(host->chains, 0, sizeof(host->chains));
	if (story_begin(story, xk_sim_host_name(record->host)))
		fprintf(story->out, " %s\n", host->is_down ? "crashes" : "boots");
}

void
story_choose(struct story *story, const struct xk_sim_choice *made)
{
	static const char *const told[XK_SIM_CHOICES] = {
		[XK_SIM_ORDER] = "of the events due now, a later one is first",
		[XK_SIM_TIMER] = "lets a later one of the timers due now fire first",
		[XK_SIM_BUFFER] = "gets no buffer",
		[XK_SIM_STACK] = "finds no stack for a message that would leave the driver",
	};

	if (told[made->kind] == NULL) /* a frame's fault, or a crash, has a record */
		return;
	story->begun = true;
	if (!story_begin(story, made->host == NULL ? "all" : xk_sim_host_name(made->host)))
		return;
	fprintf(story->out, "%s %s\n", made->host == NULL ? ":" : "", told[made->kind]);
	fflush(story->out);
}

struct story *
story_new(struct net *net, FILE *out, const char *prefix)
{
	unsigned count = net->topology->host_count;
	struct story *story = calloc(1, sizeof(*story) + count * sizeof(struct story_host));

	xk_assert(story != NULL);
	story->net = net;
	story->out = out;
	story->prefix = prefix;
	for (unsigned i = 0; i < count; i++) {
		story->hosts[i].sink.see = story_see_step;
		story->hosts[i].story = story;
		story->hosts[i].host = &net->hosts[i];
		net->hosts[i].steps = &story->hosts[i].sink;
	}
	return story;
}

void
story_break(struct story *story, const char *why)
{
	story->begun = true;
	if (story_begin(story, "broken"))
		fprintf(story->out, ": %s\n", why);
}

void
story_stop(struct story *story)
{
	story_end_repeated(story);
	story->ended = true;
}

void
story_free(struct story *story)
{
	if (story == NULL)
		return;
	if (story->lines > STORY_LINES)
		fprintf(story->out, "%s  ... and %u more lines\n", story->prefix, story->lines - STORY_LINES);
	for (unsigned i = 0; i < story->net->topology->host_count; i++)
		story->net->hosts[i].steps = NULL;
	free(story);
}
