/* stats_draw.c - see stats_draw.h. */
#include "tools/stats_draw.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct draw_notes {
	struct xk_graph_notes notes;
	const struct stats *stats;
	double all_ns;
};

/* A row of note, which begins empty. */
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

/* "12,345,678" */
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

static void
note_handoffs(struct xk_graph_note *note, const uint64_t handoffs[STATS_REASONS])
{
	static const char *const names[STATS_REASONS] = { "explicit", "implicit", "time" };
	char text[XK_GRAPH_NOTE] = "", count[32];
	size_t len = 0;

	for (unsigned i = 0; i < STATS_REASONS; i++)
		if (handoffs[i] != 0)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s %s", len == 0 ? "" : ", ",
						note_count(handoffs[i], count), names[i]);
	if (len > 0)
		note_add(note, "handoffs: %s", text);
}

static void
note_time(struct xk_graph_note *note, const struct stats_way ways[STATS_WAYS])
{
	static const char *const names[STATS_WAYS] = { "up", "down" };
	char text[XK_GRAPH_NOTE] = "";
	size_t len = 0;

	for (unsigned i = 0; i < STATS_WAYS; i++)
		if (ways[i].timed != 0)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.0f ns %s", len == 0 ? "" : ", ",
						(double)ways[i].ns / (double)ways[i].timed, names[i]);
	if (len > 0)
		note_add(note, "%s", text);
}

static void
note_ways(struct xk_graph_note *note, const struct stats_way ways[STATS_WAYS])
{
	char up[32], down[32];

	if (ways[STATS_UP].messages + ways[STATS_DOWN].messages != 0)
		note_add(note, "%s up, %s down", note_count(ways[STATS_UP].messages, up),
			 note_count(ways[STATS_DOWN].messages, down));
}

static void
note_node(const struct xk_graph_notes *self, const char *name, struct xk_graph_note *note)
{
	const struct draw_notes *draw = (const struct draw_notes *)self;
	const struct stats_node *node = stats_find_node(draw->stats, name);
	struct stats_sum sum;
	char count[32];

	if (node == NULL)
		return;
	stats_sum_node(draw->stats, name, &sum);
	if (draw->all_ns > 0) {
		note->heat = sum.busy_ns / draw->all_ns;
		note_add(note, "%.1f %% of the time", 100 * note->heat);
		/* Among many protocols each has little: the eye is helped. */
		note->heat = sqrt(note->heat);
	}
	note_time(note, sum.ways);
	note_ways(note, sum.ways);
	note_handoffs(note, sum.handoffs);
	if (node->dropped != 0)
		note_add(note, "%s dropped", note_count(node->dropped, count));
}

static void
note_edge(const struct xk_graph_notes *self, const char *upper, const char *lower, const char *role,
	  struct xk_graph_note *note)
{
	const struct stats *stats = ((const struct draw_notes *)self)->stats;
	const struct stats_edge *edge = stats_find_edge(stats, upper, lower, role);

	if (edge == NULL)
		return;
	note_ways(note, edge->ways);
	note_time(note, edge->ways);
	note_handoffs(note, edge->handoffs);
}

static void
note_title(const struct xk_graph_notes *self, struct xk_graph_note *note)
{
	const struct stats *stats = ((const struct draw_notes *)self)->stats;

	note_add(note, "%.60s: mode %.10s, driver %.10s", stats->host, stats->mode, stats->driver);
	note_add(note, "messages and times of %.1f s, drops and handoffs of all its time",
		 (double)stats->counted_ns / 1e9);
}

void
stats_draw(const struct xk_graph *graph, const struct stats *stats, FILE *stream)
{
	struct draw_notes draw = { { note_title, note_node, note_edge }, stats, 0 };

	if (stats != NULL)
		draw.all_ns = stats_all_busy_ns(stats);
	xk_graph_draw_noted(graph, stats == NULL ? NULL : &draw.notes, stream);
}
