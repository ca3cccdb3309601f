/* stats_draw.c - see stats_draw.h. */
#include "tools/stats/stats_draw.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stats/stats_client.h"
#include "xkernel/base.h"
#include "xkernel/trace.h"

enum { DRAW_MS = 1000 };

struct draw_notes {
	struct xk_graph_notes notes;
	const json_t *stats;
};

/* Fills in the next row of note, which is empty at first; drops the row if there is no room. */
__attribute__((format(printf, 2, 3))) static void
note_add(struct xk_graph_note *note, const char *format, ...)
{
	va_list arguments;
	unsigned row = 0;

	while (row < XK_GRAPH_NOTE_ROWS && note->rows[row][0] != '\0')
		row++;
	if (row == XK_GRAPH_NOTE_ROWS)
		return;
	va_start(arguments, format);
	vsnprintf(note->rows[row], sizeof(note->rows[row]), format, arguments);
	va_end(arguments);
}

/* Formats a count as "12,345,678". */
static const char *
note_count(uint64_t count, char text[32])
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, count), to = 0;

	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			text[to++] = ',';
		text[to++] = digits[i];
	}
	text[to] = '\0';
	return text;
}

/* Returns a count in an object in value, or 0 if it is missing or not a count. */
static uint64_t
note_get(const json_t *value, const char *object, const char *key)
{
	json_int_t count = json_integer_value(json_object_get(json_object_get(value, object), key));

	return count < 0 ? 0 : (uint64_t)count;
}

static const char *
note_string(const json_t *value, const char *key)
{
	const char *string = json_string_value(json_object_get(value, key));

	return string == NULL ? "" : string;
}

static void
note_handoffs(struct xk_graph_note *note, const json_t *value)
{
	char text[XK_GRAPH_NOTE] = "", count[32];
	size_t len = 0;

	for (unsigned i = 0; i < XK_HANDOFF_REASONS; i++)
		if (note_get(value, "handoffs", xk_handoff_names[i]) != 0)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s %s", len == 0 ? "" : ", ",
						note_count(note_get(value, "handoffs", xk_handoff_names[i]), count),
						xk_handoff_names[i]);
	if (len > 0)
		note_add(note, "handoffs: %s", text);
}

static void
note_time(struct xk_graph_note *note, const json_t *value)
{
	char text[XK_GRAPH_NOTE] = "";
	size_t len = 0;

	for (unsigned i = 0; i < XK_DIRECTIONS; i++)
		if (note_get(value, xk_direction_names[i], "timed") != 0)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.0f ns %s", len == 0 ? "" : ", ",
						(double)note_get(value, xk_direction_names[i], "ns") /
							(double)note_get(value, xk_direction_names[i], "timed"),
						xk_direction_names[i]);
	if (len > 0)
		note_add(note, "%s", text);
}

static void
note_messages(struct xk_graph_note *note, const json_t *value)
{
	uint64_t up = note_get(value, "up", "messages"), down = note_get(value, "down", "messages");
	char text[2][32];

	if (up != 0 || down != 0)
		note_add(note, "%s up, %s down", note_count(up, text[0]), note_count(down, text[1]));
}

/* Adds the times to a node, but the counts to its edges: a node's counts are the sums of its edges'. */
static void
note_node(const struct xk_graph_notes *self, const char *name, struct xk_graph_note *note)
{
	const json_t *nodes = json_object_get(((const struct draw_notes *)self)->stats, "protocols");
	const json_t *node = NULL, *share;
	json_t *drops, *drop;
	uint64_t dropped = 0;
	const char *drop_name;
	char count[32];

	for (size_t i = 0; i < json_array_size(nodes) && node == NULL; i++)
		if (strcmp(note_string(json_array_get(nodes, i), "name"), name) == 0)
			node = json_array_get(nodes, i);
	share = json_object_get(node, "share");
	if (json_is_number(share)) {
		note_add(note, "%.1f %% of the time", 100 * json_number_value(share));
		/* the square root, because with many protocols each has a small share */
		note->heat = sqrt(fmin(fmax(json_number_value(share), 0), 1));
	}
	note_time(note, node);
	drops = json_object_get(node, "drops");
	json_object_foreach(drops, drop_name, drop) dropped += note_get(node, "drops", drop_name);
	if (dropped != 0)
		note_add(note, "%s dropped", note_count(dropped, count));
}

static void
note_edge(const struct xk_graph_notes *self, const char *upper, const char *lower, const char *role,
	  struct xk_graph_note *note)
{
	const json_t *edges = json_object_get(((const struct draw_notes *)self)->stats, "edges"), *edge;

	for (size_t i = 0; i < json_array_size(edges); i++) {
		edge = json_array_get(edges, i);
		if (strcmp(note_string(edge, "upper"), upper) != 0 || strcmp(note_string(edge, "lower"), lower) != 0 ||
		    strcmp(note_string(edge, "role"), role) != 0)
			continue;
		note_messages(note, edge);
		note_handoffs(note, edge);
		return;
	}
}

static void
note_title(const struct xk_graph_notes *self, struct xk_graph_note *note)
{
	const json_t *stats = ((const struct draw_notes *)self)->stats;

	note_add(note, "%.60s: mode %.10s, driver %.10s", note_string(stats, "host"), note_string(stats, "mode"),
		 note_string(stats, "driver"));
	note_add(note, "messages and times of %.1f s, drops and handoffs since the start",
		 json_number_value(json_object_get(stats, "counted_ns")) / 1e9);
}

/* ---- reading from a host, or a file ---- */

/* Asks the host that `wanted` means. Returns NULL, with the reason in why, on failure. */
static json_t *
stats_read_host(const char *wanted, char *why, size_t size)
{
	struct stats_hosts hosts;
	json_t *stats = NULL;
	json_error_t error;
	const char *name;
	char *text;

	if (stats_list(&hosts, why, size) != 0 || stats_choose(&hosts, wanted, &name, why, size) != 0 ||
	    stats_ask(name, "json", DRAW_MS, &text, why, size) != 0)
		return NULL;
	stats = json_loads(text, 0, &error);
	snprintf(why, size, "%s: %s", name, error.text);
	free(text);
	return stats;
}

json_t *
stats_read(const char *from, char *why, size_t size)
{
	size_t len = strlen(from);
	json_error_t error;
	json_t *stats;

	if (strchr(from, '/') != NULL || (len > 5 && strcmp(from + len - 5, ".json") == 0)) {
		stats = json_load_file(from, 0, &error);
		snprintf(why, size, "--stats %.200s cannot be read: %s", from, error.text);
	} else {
		stats = stats_read_host(from, why, size);
	}
	if (stats == NULL || json_is_array(json_object_get(stats, "protocols")))
		return stats;
	json_decref(stats);
	snprintf(why, size, "--stats %.200s: not an output of `xk stats --json`", from);
	return NULL;
}

void
stats_free(json_t *stats)
{
	json_decref(stats);
}

void
stats_draw(const struct xk_graph *graph, const json_t *stats, FILE *stream)
{
	struct draw_notes draw = { { note_title, note_node, note_edge }, stats };

	xk_graph_draw_noted(graph, stats == NULL ? NULL : &draw.notes, stream);
}
