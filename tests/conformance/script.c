/*
 * script.c - reads a script into lines of words and runs them in order on one host; see script.h.
 */
#include "tests/conformance/script.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/conformance/script_private.h"

/* ---- errors ---- */

bool
script_fail(struct script *s, const char *format, ...)
{
	va_list arguments;
	int len = snprintf(s->why, SCRIPT_WHY, "%s:%u: ", s->line != NULL ? s->line->file : s->file,
			   s->line != NULL ? s->line->number : 0);

	va_start(arguments, format);
	vsnprintf(s->why + len, SCRIPT_WHY - (size_t)len, format, arguments);
	va_end(arguments);
	return false;
}

bool
script_fail_detail(struct script *s)
{
	return script_fail(s, "%s", s->detail);
}

static void
print_line(const struct line *line, char *text, size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; line->words[i] != NULL && len < size; i++)
		len += (size_t)snprintf(text + len, size - len, "%s%s", i > 0 ? " " : "", line->words[i]);
}

bool
script_fail_expected(struct script *s, const char *because)
{
	const struct sent *sent = host_first_sent(s->host);
	char wanted[TEXT_MAX], came[TEXT_MAX] = "nothing";

	print_line(s->line, wanted, sizeof(wanted));
	if (sent != NULL)
		packet_print(&s->names, sent->bytes, sent->len, came, sizeof(came));
	return script_fail(s, "at %.3f ms\n\tline:    %s\n\tsent:    %s\n\tbecause: %s",
			   (double)host_now_ns(s->host) / 1e6, wanted, came, because);
}

/* ---- files ---- */

bool
script_find(const struct script *s, const char *name, char path[TEXT_MAX])
{
	const char *slash = strrchr(s->file, '/');
	char own[TEXT_MAX];

	snprintf(own, sizeof(own), "%.*s", slash == NULL ? 1 : (int)(slash - s->file), slash == NULL ? "." : s->file);
	for (int i = -1; i < 0 || s->folders[i] != NULL; i++)
		if ((size_t)snprintf(path, TEXT_MAX, "%s/%s", i < 0 ? own : s->folders[i], name) < TEXT_MAX &&
		    access(path, R_OK) == 0)
			return true;
	return false;
}

/* Returns the whole file, which the caller frees. NULL: it cannot be read, or is empty. */
static char *
read_file(const char *file)
{
	FILE *stream = fopen(file, "r");
	char *text = NULL;
	size_t size = 0;

	if (stream == NULL)
		return NULL;
	if (getdelim(&text, &size, '\0', stream) < 0) {
		free(text);
		text = NULL;
	}
	fclose(stream);
	return text;
}

/* ---- time ---- */

bool
script_check_unseen(struct script *s)
{
	return host_first_sent(s->host) == NULL || script_fail_expected(s, "no earlier line expects this frame");
}

bool
script_parse_time(struct script *s, const char *text, uint64_t *ns)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} units[] = { { "ms", 1000 * NS_PER_US }, { "us", NS_PER_US }, { "s", UINT64_C(1000000) * NS_PER_US } };
	char number[NAME_LEN];
	size_t len = text == NULL ? 0 : strlen(text);

	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t unit_len = strlen(units[i].text);

		if (len <= unit_len || len >= sizeof(number) || strcmp(text + len - unit_len, units[i].text) != 0)
			continue;
		snprintf(number, sizeof(number), "%.*s", (int)(len - unit_len), text);
		if (!number_parse(&s->names, number, ns, s->detail))
			break;
		*ns *= units[i].ns;
		return true;
	}
	return script_fail(s, "'%s' is not a time such as 500ms", text == NULL ? "" : text);
}

static bool
move_time(struct script *s, uint64_t until_ns)
{
	if (until_ns < host_now_ns(s->host))
		return script_fail(s, "it is %.3f ms already", (double)host_now_ns(s->host) / 1e6);
	if (!script_check_unseen(s))
		return false;
	host_run_until(s->host, until_ns, false);
	return true;
}

/* ---- counters ---- */

/* [at most|at least] N: checks `number` */
static bool
check_number(struct script *s, const char *what, uint64_t number, char *const *words)
{
	bool most = script_is(words[0], "at") && script_is(words[1], "most"),
	     least = script_is(words[0], "at") && script_is(words[1], "least");
	uint64_t wanted;

	if (most || least)
		words += 2;
	if (words[0] == NULL || words[1] != NULL)
		return script_fail(s, "a number is missing, or there is more than one");
	if (!number_parse(&s->names, words[0], &wanted, s->detail))
		return script_fail_detail(s);
	if (most ? number <= wanted : least ? number >= wanted : number == wanted)
		return true;
	return script_fail(s, "%s is %llu, not %s%llu", what, (unsigned long long)number,
			   most    ? "at most "
			   : least ? "at least "
				   : "",
			   (unsigned long long)wanted);
}

static bool
is_counted(const struct script *s, const char *name)
{
	for (unsigned i = 0; i < s->counted_count; i++)
		if (strcmp(s->counted[i], name) == 0)
			return true;
	return false;
}

/* count INSTANCE.COUNTER [at most|at least] N */
static bool
do_count(struct script *s, char *const *words)
{
	uint64_t count;

	if (words[0] == NULL || !host_count(s->host, words[0], &count))
		return script_fail(s, "there is no counter '%s'", words[0] == NULL ? "" : words[0]);
	if (!is_counted(s, words[0])) {
		if (s->counted_count == COUNTED_MAX || strlen(words[0]) >= sizeof(s->counted[0]))
			return script_fail(s, "too many counters");
		snprintf(s->counted[s->counted_count++], sizeof(s->counted[0]), "%s", words[0]);
	}
	return check_number(s, words[0], count, words + 1);
}

/* buffers [at most|at least] N */
static bool
do_buffers(struct script *s, char *const *words)
{
	return check_number(s, "the number of buffers in use", host_buffers(s->host), words);
}

/* sent [at most|at least] N: bytes of frames since the start */
static bool
do_sent(struct script *s, char *const *words)
{
	return check_number(s, "the number of bytes sent", host_bytes_sent(s->host), words);
}

static void
see_drop(void *context, const char *name, uint64_t count)
{
	struct script *s = context;

	if (!is_counted(s, name) && s->detail[0] == '\0')
		snprintf(s->detail, sizeof(s->detail), "%s is %llu, and no line counts it", name,
			 (unsigned long long)count);
}

/* ---- lines ---- */

typedef bool do_line(struct script *s, char *const *words);

static const struct command {
	const char *word;
	do_line *run;
	bool needs_host;
	bool with_word; /* it needs the word */
} commands[] = {
	{ "host", script_do_host, false, false },       { "set", script_do_set, false, false },
	{ "let", script_do_let, false, false },         { "burst", script_do_burst, true, false },
	{ "inject", script_do_inject, true, false },    { "expect", script_do_expect, true, false },
	{ "ignore", script_do_ignore, true, false },    { "count", do_count, true, false },
	{ "buffers", do_buffers, true, false },         { "sent", do_sent, true, false },
	{ "listen", script_do_order, true, true },      { "deaf", script_do_order, true, true },
	{ "open", script_do_order, true, true },        { "send", script_do_order, true, true },
	{ "end-sending", script_do_order, true, true }, { "close", script_do_order, true, true },
	{ "abort", script_do_order, true, true },       { "hold", script_do_order, true, true },
	{ "release", script_do_order, true, true },     { "take", script_do_order, true, true },
	{ "use", script_do_use, true, false },          { "read", script_do_read, true, false },
	{ "state", script_do_state, true, false },      { "result", script_do_result, true, false },
};

static bool
run_command(struct script *s, char *const *words)
{
	for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!script_is(words[0], commands[i].word))
			continue;
		if (commands[i].needs_host && !script_begin(s))
			return false;
		return commands[i].run(s, words + !commands[i].with_word);
	}
	return script_fail(s, "'%s' is not a command", words[0]);
}

/* [at TIME | after TIME] command */
static bool
run_line(struct script *s, const struct line *line)
{
	char *const *words = line->words;
	uint64_t ns;

	s->line = line;
	if (s->burst > 0 && !script_is(words[0], "inject"))
		return script_fail(s, "the burst lacks %u frames", s->burst);
	if (script_is(words[0], "at") || script_is(words[0], "after")) {
		if (!script_begin(s) || !script_parse_time(s, words[1], &ns))
			return false;
		if (!move_time(s, script_is(words[0], "at") ? ns : host_now_ns(s->host) + ns))
			return false;
		words += 2;
		if (words[0] == NULL)
			return true;
	}
	return run_command(s, words);
}

/* Returns the line of the `end` of the repeat at `begins`; line_count: none. */
static unsigned
find_end(const struct script *s, unsigned begins)
{
	unsigned depth = 0;

	for (unsigned i = begins; i < s->line_count; i++) {
		if (script_is(s->lines[i].words[0], "repeat"))
			depth++;
		if (script_is(s->lines[i].words[0], "end") && --depth == 0)
			return i;
	}
	return s->line_count;
}

static bool run_lines(struct script *s, unsigned from, unsigned to);

/* repeat N as NAME: NAME is 0, 1, ... */
static bool
run_repeat(struct script *s, const struct line *line, unsigned from, unsigned to)
{
	uint64_t count;

	s->line = line;
	if (to == s->line_count)
		return script_fail(s, "this repeat has no end");
	if (line->words[1] == NULL || !script_is(line->words[2], "as") || line->words[3] == NULL ||
	    line->words[4] != NULL)
		return script_fail(s, "usage: repeat NUMBER as NAME");
	if (!number_parse(&s->names, line->words[1], &count, s->detail))
		return script_fail_detail(s);
	for (uint64_t i = 0; i < count; i++)
		if (!name_set(&s->names, line->words[3], i) || !run_lines(s, from, to))
			return false;
	return true;
}

static bool
run_lines(struct script *s, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		const struct line *line = &s->lines[i];
		unsigned end;

		if (!script_is(line->words[0], "repeat")) {
			if (!run_line(s, line))
				return false;
			continue;
		}
		end = find_end(s, i);
		if (!run_repeat(s, line, i + 1, end))
			return false;
		i = end;
	}
	return true;
}

/* ---- the whole script ---- */

/* Splits row into words; `#` at the start of a word ends them. */
static bool
read_words(struct script *s, struct line *line, char *row)
{
	unsigned count = 0;
	char *next = NULL;

	for (char *word = strtok_r(row, " \t\r", &next); word != NULL && word[0] != '#';
	     word = strtok_r(NULL, " \t\r", &next)) {
		if (count == WORDS_MAX - 1)
			return script_fail(s, "more than %d words", WORDS_MAX - 1);
		line->words[count++] = word;
	}
	line->words[count] = NULL;
	return true;
}

static bool read_lines(struct script *s, const char *file, char *text);

/* include FILE: its lines replace this one */
static bool
read_include(struct script *s, char *const *words)
{
	struct include *include = &s->includes[s->include_count];

	if (words[0] == NULL || words[1] != NULL)
		return script_fail(s, "include takes a file");
	if (s->include_count == INCLUDES_MAX)
		return script_fail(s, "more than %d files are included", INCLUDES_MAX);
	if (!script_find(s, words[0], include->file) || (include->text = read_file(include->file)) == NULL)
		return script_fail(s, "there is no file %s", words[0]);
	s->include_count++;
	return read_lines(s, include->file, include->text);
}

/* Splits text into lines of words. */
static bool
read_lines(struct script *s, const char *file, char *text)
{
	unsigned number = 0;
	char *rest = text, *row;

	while ((row = strsep(&rest, "\n")) != NULL) {
		struct line *line = &s->lines[s->line_count];

		if (s->line_count == LINES_MAX)
			return script_fail(s, "more than %d lines", LINES_MAX);
		line->file = file;
		line->number = ++number;
		s->line = line;
		if (!read_words(s, line, row))
			return false;
		if (script_is(line->words[0], "include")) { /* its lines begin here */
			if (!read_include(s, line->words + 1))
				return false;
		} else {
			s->line_count += line->words[0] != NULL;
		}
	}
	return true;
}

/* Checks that lines have seen each frame sent and counted each drop. */
static bool
end_script(struct script *s)
{
	if (s->burst > 0)
		return script_fail(s, "the burst lacks %u frames", s->burst);
	if (!script_begin(s) || !script_check_unseen(s) || !script_check_unread(s))
		return false;
	s->detail[0] = '\0';
	host_each_drop(s->host, see_drop, s);
	return s->detail[0] == '\0' || script_fail_detail(s);
}

/* prepare: called with the plan of a host before it is made; or NULL. */
static bool
run_text(const char *file, char *text, const char *const *folders,
	 void (*prepare)(void *context, struct host_plan *plan), void *context, char *why)
{
	struct script *s = calloc(1, sizeof(*s));
	bool good;

	if (s == NULL || (s->lines = calloc(LINES_MAX, sizeof(*s->lines))) == NULL)
		abort();
	s->file = file;
	s->folders = folders;
	s->why = why;
	s->prepare = prepare;
	s->context = context;
	good = read_lines(s, file, text) && run_lines(s, 0, s->line_count) && end_script(s);
	if (s->host != NULL && !host_free(s->host) && good)
		good = script_fail(s, "the host has leaked buffers");
	for (unsigned i = 0; i < s->include_count; i++)
		free(s->includes[i].text);
	free(s->lines);
	free(s);
	return good;
}

bool
script_run(const char *file, char *text, const char *const *folders, char *why)
{
	return run_text(file, text, folders, NULL, NULL, why);
}

bool
script_run_prepared(const char *file, const char *const *folders,
		    void (*prepare)(void *context, struct host_plan *plan), void *context, char *why)
{
	char *text = read_file(file);
	bool good = text != NULL;

	if (good)
		good = run_text(file, text, folders, prepare, context, why);
	else
		snprintf(why, SCRIPT_WHY, "%s: cannot be read, or is empty", file);
	free(text);
	return good;
}

bool
script_run_file(const char *file, const char *const *folders, char *why)
{
	return script_run_prepared(file, folders, NULL, NULL, why);
}
