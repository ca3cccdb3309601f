/* xk_stats.c - xk stats: what a host that runs has counted, in a terminal or as a document. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/options.h"
#include "tools/output.h"
#include "tools/stats_client.h"
#include "tools/stats_print.h"
#include "tools/xk.h"
#include "xkernel/protocol.h"

struct stats_options {
	const char *interval, *json;
	bool once, list;
	uint64_t interval_ns;
};

#define STATS_AT(member) offsetof(struct stats_options, member)
#define STATS_SECOND UINT64_C(1000000000)
#define STATS_CLEAR "\033[H\033[2J"

enum { STATS_MORE = 2 /* seconds that edges are counted beyond the interval */ };

static const struct options_option stats_options[] = {
	{ .name = "interval",
	  .kind = OPTIONS_TEXT,
	  .offset = STATS_AT(interval),
	  .argument = "T",
	  .help = "from one look to the next, 100ms to 50s (1s)" },
	{ .name = "once", .kind = OPTIONS_FLAG, .offset = STATS_AT(once), .help = "after one interval, and no more" },
	{ .name = "list", .kind = OPTIONS_FLAG, .offset = STATS_AT(list), .help = "the hosts that run" },
	{ .name = "json",
	  .kind = OPTIONS_TEXT,
	  .offset = STATS_AT(json),
	  .argument = "FILE",
	  .help = "after one interval, as JSON; - is standard output" },
	{ .name = NULL },
};

static const struct options_program stats_program = {
	.name = "xk stats",
	.usage = "[HOST] [OPTION]...",
	.about = "Shows what a host has counted that runs by `xk run GRAPH`, again and again until SIGINT. HOST is\n"
		 "its name, or as much of its beginning as no other has, or its process's number; it may be left\n"
		 "out where one host runs, and where several do they are listed.\n\n"
		 "Messages and nanoseconds of edges and protocols are counted while somebody asks, and for some\n"
		 "seconds more; everything else always. A time is that of one message in a protocol, without the\n"
		 "protocols that it calls; one message of 13 is timed.",
	.footer = "Exit status: 0 success, 1 failure (there is no such host, or it has ended), 2 misuse.",
	.options = stats_options,
	.operands_max = 1,
};

static int
stats_fail(const char *why)
{
	fprintf(stderr, "%s: %s\n", stats_program.name, why);
	return OPTIONS_FAILURE;
}

/* ---- asking ---- */

static unsigned
stats_seconds(const struct stats_options *o)
{
	return (unsigned)((o->interval_ns + STATS_SECOND - 1) / STATS_SECOND) + STATS_MORE;
}

static void
stats_rest(const struct stats_options *o)
{
	struct timespec rest = { .tv_sec = (time_t)(o->interval_ns / STATS_SECOND),
				 .tv_nsec = (long)(o->interval_ns % STATS_SECOND) };

	while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
		;
}

/* Takes text. NULL: a sentence was printed. */
static struct stats *
stats_understand(const char *name, char *text, size_t len)
{
	char why[STATS_WHY];
	const char *wrong;
	struct stats *stats = stats_read(text, len, &wrong);

	if (stats == NULL) {
		snprintf(why, sizeof(why), "%s: %s", name, wrong);
		stats_fail(why);
	}
	return stats;
}

/* NULL: a sentence was printed. */
static struct stats *
stats_look(const char *name, unsigned seconds)
{
	char why[STATS_WHY], *text;
	size_t len;

	if (stats_ask(name, seconds, &text, &len, why, sizeof(why)) == 0)
		return stats_understand(name, text, len);
	stats_fail(why);
	return NULL;
}

/* ---- what is to be done ---- */

static int
stats_show_list(const struct stats_hosts *hosts)
{
	int status = OPTIONS_SUCCESS;

	printf("%-40s %8s  %-9s %-9s %-7s  %s\n", "host", "process", "link", "driver", "mode", "graph");
	for (unsigned i = 0; i < hosts->count; i++) {
		struct stats *stats = stats_look(hosts->names[i], 0);

		if (stats == NULL) {
			status = OPTIONS_FAILURE;
			continue;
		}
		printf("%-40s %8" PRIu64 "  %-9.40s %-9.40s %-7.40s  ", hosts->names[i], stats->pid, stats->link,
		       stats->driver, stats->mode);
		output_print_name(stats->graph);
		putchar('\n');
		stats_free(stats);
	}
	return status;
}

static int
stats_show(const struct stats_options *o, const char *name)
{
	struct stats *before = stats_look(name, stats_seconds(o)), *now;
	bool clears = isatty(STDOUT_FILENO) && !o->once, goes_on = before != NULL;
	int status = before == NULL ? OPTIONS_FAILURE : OPTIONS_SUCCESS;

	while (goes_on) {
		stats_rest(o);
		now = stats_look(name, stats_seconds(o));
		if (now == NULL) {
			status = OPTIONS_FAILURE;
			break;
		}
		fputs(clears ? STATS_CLEAR : "", stdout);
		stats_print(now, before, stdout);
		fputs(clears || o->once ? "" : "\n", stdout);
		goes_on = fflush(stdout) == 0 && !o->once;
		stats_free(before);
		before = now;
	}
	stats_free(before);
	return status;
}

static int
stats_write(const char *file, const char *text, size_t len)
{
	FILE *out = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
	char why[STATS_WHY];
	bool written = out != NULL && fwrite(text, 1, len, out) == len && fflush(out) == 0;

	if (!written)
		snprintf(why, sizeof(why), "--json %.200s cannot be written: %s", file, strerror(errno));
	if (out != NULL && out != stdout && fclose(out) != 0 && written) {
		snprintf(why, sizeof(why), "--json %.200s cannot be written: %s", file, strerror(errno));
		written = false;
	}
	return written ? OPTIONS_SUCCESS : stats_fail(why);
}

/* Whether it is one, and whole: the host may have ended while it told. Otherwise a sentence was printed. */
static bool
stats_is_document(const char *name, const char *text, size_t len)
{
	char *copy = malloc(len + 1);
	struct stats *stats;

	if (copy == NULL) {
		stats_fail("no memory");
		return false;
	}
	memcpy(copy, text, len + 1);
	stats = stats_understand(name, copy, len);
	stats_free(stats);
	return stats != NULL;
}

/* Of the whole document, as it came: what is no such document is refused. */
static int
stats_save(const struct stats_options *o, const char *name)
{
	char why[STATS_WHY], *text = NULL;
	size_t len = 0;
	int status = OPTIONS_FAILURE;

	if (stats_gather(name, o->interval_ns, &text, &len, why, sizeof(why)) != 0)
		stats_fail(why);
	else if (stats_is_document(name, text, len))
		status = stats_write(o->json, text, len);
	free(text);
	return status;
}

static int
stats_complete(struct stats_options *o, bool has_host)
{
	if (!xk_time_parse(o->interval, &o->interval_ns) || o->interval_ns < STATS_SECOND / 10 ||
	    o->interval_ns > 50 * STATS_SECOND)
		return options_misuse(&stats_program, "--interval: \"%s\" is no time from 100ms to 50s", o->interval);
	if (o->list && (o->once || o->json != NULL || has_host))
		return options_misuse(&stats_program, "--list stands alone");
	return 0;
}

int
xk_stats_main(int argc, char **argv)
{
	struct stats_options o = { .interval = "1s" };
	struct options_texts operands;
	struct stats_hosts hosts;
	char why[STATS_WHY];
	const char *name, *wanted;
	int status = options_parse(&stats_program, argc, argv, &o, &operands);

	if (status != OPTIONS_GO)
		return status;
	wanted = operands.count == 0 ? NULL : operands.text[0];
	status = stats_complete(&o, wanted != NULL);
	if (status != 0)
		return status;
	if (stats_list(&hosts, why, sizeof(why)) != 0)
		return stats_fail(why);
	if (o.list || (wanted == NULL && hosts.count > 1 && o.json == NULL))
		return stats_show_list(&hosts);
	if (stats_choose(&hosts, wanted, &name, why, sizeof(why)) != 0)
		return stats_fail(why);
	return o.json != NULL ? stats_save(&o, name) : stats_show(&o, name);
}
