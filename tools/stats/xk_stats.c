/* xk_stats.c - `xk stats`: shows the counts of a running host, in a terminal or as a document. */
#include "tools/stats/xk_stats.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graphs/graph.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/stats/stats_client.h"
#include "tools/xk/xk.h"
#include "xkernel/protocol.h"

struct stats_options {
	const char *json, *prometheus;
	bool once, list;
	uint64_t interval_ns;
};

#define STATS_MS UINT64_C(1000000)
#define STATS_CLEAR "\033[H\033[2J"

static const struct options_option stats_options[] = {
	OPTION(TIME, struct stats_options, interval_ns, "interval", "T", "time between updates, 100ms to 50s (1s)",
	       .min = 100 * STATS_MS, .max = STATS_PERIOD_MAX * STATS_MS),
	OPTION(FLAG, struct stats_options, once, "once", NULL, "stop after one interval"),
	OPTION(FLAG, struct stats_options, list, "list", NULL, "list the running hosts"),
	OPTION(TEXT, struct stats_options, json, "json", "FILE", "after one interval, as JSON; - is standard output"),
	OPTION(TEXT, struct stats_options, prometheus, "prometheus", "FILE",
	       "after each interval, for Prometheus; the file is replaced as a whole, and removed\n"
	       "when the host has ended; -: once, to standard output"),
	{ .name = NULL },
};

static const struct options_program stats_program = {
	.name = "xk stats",
	.usage = "[HOST] [OPTION]...",
	.about = "Shows the counts of a host started by `xk run GRAPH`, repeatedly until SIGINT. HOST is its name, a\n"
		 "prefix of only one name, or its process number. Without HOST it shows the only host, or lists the\n"
		 "hosts if there are several.\n\n"
		 "Messages and nanoseconds of edges and protocols are counted on request, and for some seconds\n"
		 "more; everything else always. A time is that of one message in a protocol, without the\n"
		 "protocols that it calls; one message in 13 is timed.",
	.footer = "Exit status: 0 success, 1 failure (no such host, or it has ended), 2 misuse.",
	.options = stats_options,
	.operands_max = 1,
};

static int
stats_fail(const char *why)
{
	fprintf(stderr, "%s: %s\n", stats_program.name, why);
	return OPTIONS_FAILURE;
}

/* Asks the host, and waits for the answer. Returns NULL, after a message, on failure. */
static char *
stats_get(const char *name, const char *form, uint64_t interval_ns)
{
	char why[STATS_WHY], *text;

	if (stats_ask(name, form, (unsigned)(interval_ns / STATS_MS), &text, why, sizeof(why)) != 0)
		stats_fail(why);
	return text;
}

/*
 * Prints text and frees it, with control characters, which could control the terminal, as \xHH. Returns false if it was
 * not written.
 */
static bool
stats_put(char *text, FILE *out)
{
	xk_graph_print_plain(text, strlen(text), true, out);
	free(text);
	return fflush(out) == 0 && !ferror(out);
}

static int
stats_show_list(const struct stats_hosts *hosts)
{
	int status = OPTIONS_SUCCESS;

	printf("%-40s %8s  %-9s %-9s %-7s  %s\n", "host", "process", "link", "driver", "mode", "graph");
	for (unsigned i = 0; i < hosts->count; i++) {
		char *line = stats_get(hosts->names[i], "line", 0);

		if (line == NULL || !stats_put(line, stdout))
			status = OPTIONS_FAILURE;
	}
	return status;
}

static int
stats_show(const struct stats_options *o, const char *name)
{
	bool clears = isatty(STDOUT_FILENO) && !o->once, continues;
	char *text;

	do {
		text = stats_get(name, "text", o->interval_ns);
		if (text == NULL)
			return OPTIONS_FAILURE;
		fputs(clears ? STATS_CLEAR : "", stdout);
		continues = stats_put(text, stdout) && !o->once;
		fputs(clears || o->once ? "" : "\n", stdout);
	} while (continues);
	return OPTIONS_SUCCESS;
}

static int
stats_fail_to_write(const char *option, const char *file)
{
	char why[STATS_WHY];

	snprintf(why, sizeof(why), "%s %.200s cannot be written: %s", option, file, xk_error(errno));
	return stats_fail(why);
}

/* Writes text, and frees it. Returns a status of the program. */
static int
stats_save(const char *option, const char *file, char *text)
{
	FILE *out = output_open(file);

	if (out != NULL)
		stats_put(text, out);
	else
		free(text);
	return output_close(out) ? OPTIONS_SUCCESS : stats_fail_to_write(option, file);
}

/* Creates the file after the whole answer has arrived. */
static int
stats_save_document(const struct stats_options *o, const char *name)
{
	char *text = stats_get(name, "json", o->interval_ns);

	return text == NULL ? OPTIONS_FAILURE : stats_save("--json", o->json, text);
}

/*
 * Writes metrics until the host ends. A reader of the file finds all of the old text or all of the new. The temporary name
 * does not end in .prom, so node_exporter ignores it.
 */
static int
stats_export(const struct stats_options *o, const char *name)
{
	bool is_stream = strcmp(o->prometheus, "-") == 0;
	char new[PATH_MAX], *text;
	int status;

	if ((size_t)snprintf(new, sizeof(new), "%s%s", o->prometheus, is_stream ? "" : ".new") >= sizeof(new))
		return stats_fail("the name of the file is too long");
	do {
		text = stats_get(name, "metrics", o->interval_ns);
		if (text == NULL) {
			if (!is_stream)
				unlink(o->prometheus); /* old counts would look like a host in which nothing happens */
			return OPTIONS_FAILURE;
		}
		status = stats_save("--prometheus", new, text);
		if (status == OPTIONS_SUCCESS && !is_stream && rename(new, o->prometheus) != 0)
			status = stats_fail_to_write("--prometheus", o->prometheus);
		if (status != OPTIONS_SUCCESS && !is_stream)
			unlink(new);
	} while (status == OPTIONS_SUCCESS && !is_stream && !o->once);
	return status;
}

int
xk_stats_main(int argc, char **argv)
{
	struct stats_options o = { .interval_ns = 1000 * STATS_MS };
	struct options_texts operands;
	struct stats_hosts hosts;
	char why[STATS_WHY];
	const char *name, *wanted;
	int status = options_parse(&stats_program, argc, argv, &o, &operands);

	if (status != OPTIONS_GO)
		return status;
	wanted = operands.count == 0 ? NULL : operands.text[0];
	if (o.list && (o.once || o.json != NULL || o.prometheus != NULL || wanted != NULL))
		return options_misuse(&stats_program, "--list excludes everything else");
	if (o.json != NULL && o.prometheus != NULL)
		return options_misuse(&stats_program, "--json and --prometheus exclude each other");
	if (stats_list(&hosts, why, sizeof(why)) != 0)
		return stats_fail(why);
	if (o.list || (wanted == NULL && hosts.count > 1 && o.json == NULL && o.prometheus == NULL))
		return stats_show_list(&hosts);
	if (stats_choose(&hosts, wanted, &name, why, sizeof(why)) != 0)
		return stats_fail(why);
	if (o.prometheus != NULL)
		return stats_export(&o, name);
	return o.json != NULL ? stats_save_document(&o, name) : stats_show(&o, name);
}
