/* live.c - see live.h. */
#include "tools/live/live.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "graphs/graph.h"
#include "live_page.h"
#include "tools/host/host.h"
#include "tools/output.h"
#include "tools/picture.h"
#include "tools/stats/stats_metrics.h"
#include "tools/stats/stats_print.h"
#include "tools/stats/stats_server.h"
#include "xkernel/pages.h"

enum {
	LIVE_COUNT_S = 60, /* how long edges are counted after a request: longer than between two of Prometheus */
	LIVE_POLICY = 400,
};

struct live {
	struct xk_pages pages;
	char policy[LIVE_POLICY];
	char *picture, *order;   /* NULL: there is none */
	pthread_mutex_t lock;    /* protects the rest; held while a page is made */
	const struct host *host; /* NULL: it does not run */
	struct stats_server *server;
};

static const struct live_file *
live_file(const char *name)
{
	const struct live_file *file = live_files;

	while (strcmp(file->name, name) != 0)
		file++;
	return file;
}

/* ---- the picture ---- */

/* Rows that the script replaces, each as wide as what it will contain. The script knows them by their first word. */
#define LIVE_ROW_DROPS "#drops 000,000,000,000"
#define LIVE_ROW_SHARE "#share 000 ns up, 000 ns"
#define LIVE_ROW_MESSAGES "#messages 000,000,000"
#define LIVE_ROW_HANDOFFS "#handoffs 000,000,000"

struct live_notes {
	struct xk_graph_notes notes;
	const struct xk_graph *graph;
};

static void
live_note_title(const struct xk_graph_notes *self, struct xk_graph_note *note)
{
	(void)self;
	(void)note;
}

static void
live_note_node(const struct xk_graph_notes *self, const char *name, struct xk_graph_note *note)
{
	(void)self;
	(void)name;
	snprintf(note->rows[0], sizeof(note->rows[0]), LIVE_ROW_SHARE);
	snprintf(note->rows[1], sizeof(note->rows[1]), LIVE_ROW_DROPS);
	note->heat = 0;
}

static void
live_note_edge(const struct xk_graph_notes *self, const char *upper, const char *lower, const char *role,
	       struct xk_graph_note *note)
{
	const struct xk_graph *graph = ((const struct live_notes *)self)->graph;

	for (unsigned i = 0; i < graph->edge_count; i++) {
		const struct xk_graph_edge *edge = &graph->edges[i];

		if (edge->role->needs == XK_CONTROL && strcmp(edge->role->name, role) == 0 &&
		    strcmp(graph->nodes[edge->upper].name, upper) == 0 &&
		    strcmp(graph->nodes[edge->lower].name, lower) == 0)
			return; /* no messages cross it */
	}
	snprintf(note->rows[0], sizeof(note->rows[0]), LIVE_ROW_MESSAGES);
	snprintf(note->rows[1], sizeof(note->rows[1]), LIVE_ROW_HANDOFFS);
}

/* Stores the drawing, from its element `svg` on, in live->picture. Returns 0, or -errno with the reason in why. */
static int
live_lay_out(struct live *live, const struct xk_graph *graph, char *why, size_t size)
{
	struct live_notes notes = { { live_note_title, live_note_node, live_note_edge }, graph };
	FILE *text = output_memory(), *out;
	char *picture = NULL, *svg;
	size_t len = 0;
	int err;

	out = open_memstream(&picture, &len);
	if (text != NULL)
		xk_graph_draw_noted(graph, &notes.notes, text);
	if (out == NULL)
		snprintf(why, size, "no memory");
	err = out == NULL ? -ENOMEM : picture_write(text, "svg", out, why, size);
	if (text != NULL)
		fclose(text);
	if (out != NULL && fclose(out) != 0 && err == 0)
		err = -ENOMEM;
	svg = err != 0 ? NULL : strstr(picture, "<svg");
	if (svg != NULL)
		live->picture = strdup(svg);
	free(picture);
	return err;
}

/* Stores the numbers of the picture's nodes, in the order of the kernel's protocols. */
static void
live_store_order(struct live *live, const struct xk_graph *graph)
{
	size_t len = 0;
	FILE *out = open_memstream(&live->order, &len);

	for (unsigned i = 0; out != NULL && i < graph->node_count; i++)
		fprintf(out, "%s%u", i == 0 ? "" : ",", graph->order[i]);
	if (out != NULL)
		fclose(out);
}

void
live_draw(struct live *live, const struct host *host, const char *program)
{
	bool is_served = false;
	char why[PICTURE_WHY];

	for (struct xk_protocol *p = xk_kernel_first(host->kernel); p != NULL; p = p->next)
		is_served |= strcmp(p->type->name, "http") == 0;
	if (!is_served)
		return;
	live_store_order(live, host->graph);
	if (live_lay_out(live, host->graph, why, sizeof(why)) != 0)
		fprintf(stderr, "%s: no picture of the graph on the host's page: %s\n", program, why);
}

/* ---- the pages ---- */

static bool
live_print_page(const struct live *live, const struct stats_about *about, FILE *out)
{
	static const char *const tables[][2] = {
		{ "drops", "Drops" }, { "handoffs", "Handoffs" }, { "counters", "Counters" }, { "kernel", "The kernel" }
	};

	(void)about;
	fprintf(out,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<link rel=\"icon\" href=\"data:,\">\n<title>a host</title>\n<style>%s</style>\n</head>\n<body>\n%s",
		live_file("live.css")->text, live_file("live.html")->text);
	fprintf(out, "<main>\n<figure id=\"picture\" data-order=\"%s\">%s</figure>\n<section id=\"tables\">\n",
		live->order == NULL ? "" : live->order,
		live->picture == NULL ? "No picture of the graph: dot is missing (graphviz)." : live->picture);
	for (size_t i = 0; i < XK_ARRAY_LENGTH(tables); i++)
		fprintf(out,
			"<table id=\"%s\"><caption>%s</caption><thead><tr><th>name</th><th>per "
			"second</th><th>all</th></tr>"
			"</thead><tbody></tbody></table>\n",
			tables[i][0], tables[i][1]);
	fprintf(out, "</section>\n</main>\n<script>%s</script>\n</body>\n</html>\n", live_file("live.js")->text);
	return true;
}

static bool
live_print_stats(const struct live *live, const struct stats_about *about, FILE *out)
{
	return stats_print_document(live->host, about, out);
}

static bool
live_print_metrics(const struct live *live, const struct stats_about *about, FILE *out)
{
	return stats_print_metrics(live->host, about, out);
}

static const struct {
	const char *name, *type;
	bool (*print)(const struct live *live, const struct stats_about *about, FILE *out);
	bool may_script;
} live_page_list[] = {
	{ "/", "text/html; charset=utf-8", live_print_page, true },
	{ "/stats.json", "application/json", live_print_stats, false },
	{ "/metrics", "text/plain; version=0.0.4; charset=utf-8", live_print_metrics, false },
};

static int
live_make(struct xk_pages *pages, const char *name, struct xk_page *page)
{
	struct live *live = (struct live *)pages;
	struct stats_about about = { .name = "" };
	size_t i = 0;
	int err = -ENOMEM;
	FILE *out;

	while (i < XK_ARRAY_LENGTH(live_page_list) && strcmp(name, live_page_list[i].name) != 0)
		i++;
	if (i == XK_ARRAY_LENGTH(live_page_list))
		return -ENOENT;
	*page = (struct xk_page){ .type = live_page_list[i].type,
				  .policy = live_page_list[i].may_script ? live->policy : NULL };
	out = open_memstream(&page->bytes, &page->len);
	if (out == NULL)
		return -ENOMEM;
	pthread_mutex_lock(&live->lock);
	if (live->server != NULL) {
		stats_server_count(live->server, LIVE_COUNT_S);
		stats_server_about(live->server, &about);
	}
	if (live->host != NULL && live_page_list[i].print(live, &about, out))
		err = 0;
	pthread_mutex_unlock(&live->lock);
	if (fclose(out) != 0)
		err = -ENOMEM;
	if (err != 0)
		free(page->bytes);
	return err;
}

static const struct xk_pages_ops live_ops = { .make = live_make };

/* ---- begin and end ---- */

struct live *
live_new(void)
{
	struct live *live = calloc(1, sizeof(*live));

	xk_assert(live != NULL);
	live->pages.ops = &live_ops;
	pthread_mutex_init(&live->lock, NULL);
	snprintf(
		live->policy, sizeof(live->policy),
		"default-src 'none'; connect-src 'self'; img-src data:; script-src 'sha256-%s'; style-src 'sha256-%s'; "
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		live_file("live.js")->sha256, live_file("live.css")->sha256);
	return live;
}

void
live_free(struct live *live)
{
	pthread_mutex_destroy(&live->lock);
	free(live->picture);
	free(live->order);
	free(live);
}

struct xk_pages *
live_pages(struct live *live)
{
	return &live->pages;
}

static void
live_set(struct live *live, const struct host *host, struct stats_server *server)
{
	pthread_mutex_lock(&live->lock);
	live->host = host;
	live->server = server;
	pthread_mutex_unlock(&live->lock);
}

void
live_begin(struct live *live, const struct host *host, struct stats_server *server)
{
	live_set(live, host, server);
}

void
live_end(struct live *live)
{
	live_set(live, NULL, NULL);
}
