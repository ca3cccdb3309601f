/*
 * script.c - reads a script into lines of words and carries them out, one after another, on one host; see script.h.
 */
#include "tests/conformance/script.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/conformance/host.h"
#include "tests/conformance/packet.h"

enum { LINES_MAX = 500, WORDS_MAX = 96, LETS_MAX = 8, COUNTED_MAX = 64, TEXT_MAX = 2048, NS_PER_US = 1000 };

struct line {
	unsigned number;
	char *words[WORDS_MAX]; /* NULL ends them */
};

struct let {
	char name[NAME_LEN];
	struct packet packet;
};

struct script {
	const char *file;
	const char *const *folders;
	char *why;
	struct line *lines;
	unsigned line_count;
	const struct line *line; /* that is carried out */

	struct host *host;
	struct host_plan plan;
	char graph[TEXT_MAX], sets[HOST_SETS][TEXT_MAX];
	struct names names;
	struct let lets[LETS_MAX];
	unsigned let_count;
	char counted[COUNTED_MAX][NAME_LEN * 2]; /* drop reasons that lines have named */
	unsigned counted_count;
	struct packet packet;
	uint8_t frame[PACKET_MAX];
	char detail[PACKET_WHY];
};

/* ---- what was wrong ---- */

__attribute__((format(printf, 2, 3))) static bool
fail(struct script *s, const char *format, ...)
{
	va_list arguments;
	int len = snprintf(s->why, SCRIPT_WHY, "%s:%u: ", s->file, s->line != NULL ? s->line->number : 0);

	va_start(arguments, format);
	vsnprintf(s->why + len, SCRIPT_WHY - (size_t)len, format, arguments);
	va_end(arguments);
	return false;
}

static bool
fail_detail(struct script *s)
{
	return fail(s, "%s", s->detail);
}

static void
print_line(const struct line *line, char *text, size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; line->words[i] != NULL && len < size; i++)
		len += (size_t)snprintf(text + len, size - len, "%s%s", i > 0 ? " " : "", line->words[i]);
}

static bool
fail_expected(struct script *s, const char *because)
{
	const struct sent *sent = host_first_sent(s->host);
	char wanted[TEXT_MAX], came[TEXT_MAX] = "nothing";

	print_line(s->line, wanted, sizeof(wanted));
	if (sent != NULL)
		packet_print(sent->bytes, sent->len, came, sizeof(came));
	return fail(s, "at %.3f ms\n\tline:    %s\n\tcame:    %s\n\tbecause: %s", (double)host_now_ns(s->host) / 1e6,
		    wanted, came, because);
}

/* ---- time ---- */

/* Time does not pass over frames that no line has looked at. */
static bool
check_unseen(struct script *s)
{
	return host_first_sent(s->host) == NULL || fail_expected(s, "no line before has expected that");
}

/* "30s", "$n*10ms", "500us" */
static bool
parse_time(struct script *s, const char *text, uint64_t *ns)
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
	return fail(s, "'%s' is no time such as 500ms", text == NULL ? "" : text);
}

static bool
move_time(struct script *s, uint64_t until_ns)
{
	if (until_ns < host_now_ns(s->host))
		return fail(s, "it is %.3f ms already", (double)host_now_ns(s->host) / 1e6);
	if (!check_unseen(s))
		return false;
	host_run_until(s->host, until_ns, false);
	return true;
}

/* ---- the host ---- */

static bool
is(const char *word, const char *what)
{
	return word != NULL && strcmp(word, what) == 0;
}

static bool
add_set(struct script *s, const char *name, const char *value)
{
	char *set = s->sets[s->plan.set_count];

	if (s->plan.set_count == HOST_SETS)
		return fail(s, "too many settings");
	snprintf(set, TEXT_MAX, "%s=%s", name, value);
	s->plan.sets[s->plan.set_count++] = set;
	return true;
}

/* The next of the host's own addresses. */
static bool
add_address(struct script *s, const char *text)
{
	char name[NAME_LEN] = "vnet.address", host[NAME_LEN];
	unsigned index = s->names.host_count;
	uint64_t number;

	snprintf(host, sizeof(host), "%.*s", (int)strcspn(text, "/"), text);
	if (index == HOST_PORTS || strchr(text, '/') == NULL || !number_parse(&s->names, host, &number, s->detail))
		return fail(s, "'%s' is no address such as 10.0.0.1/24", text);
	if (index > 0)
		snprintf(name, sizeof(name), "vnet.address%u", index + 1);
	s->names.host[index] = (uint32_t)number;
	s->names.link[index] = host_link(NULL, index);
	s->names.host_count++;
	return add_set(s, name, text);
}

static bool
find_graph(struct script *s, const char *name)
{
	char own[TEXT_MAX];
	const char *slash = strrchr(s->file, '/');

	snprintf(own, sizeof(own), "%.*s", slash == NULL ? 1 : (int)(slash - s->file), slash == NULL ? "." : s->file);
	for (int i = -1; i < 0 || s->folders[i] != NULL; i++) {
		if ((size_t)snprintf(s->graph, sizeof(s->graph), "%s/%s", i < 0 ? own : s->folders[i], name) >=
		    sizeof(s->graph))
			continue;
		if (access(s->graph, R_OK) == 0) {
			s->plan.graph = s->graph;
			return true;
		}
	}
	return fail(s, "there is no graph %s", name);
}

/* host ADDRESS/BITS... graph FILE [mtu N] */
static bool
do_host(struct script *s, char *const *words)
{
	uint64_t number;

	if (s->plan.graph != NULL)
		return fail(s, "there is a host already");
	s->plan.mtu = 1500;
	for (; *words != NULL; words++) {
		bool takes = is(*words, "graph") || is(*words, "mtu");

		if (takes && words[1] == NULL)
			return fail(s, "something is missing after '%s'", *words);
		if (is(*words, "graph")) {
			if (!find_graph(s, *++words))
				return false;
		} else if (is(*words, "mtu")) {
			if (!number_parse(&s->names, *++words, &number, s->detail))
				return fail_detail(s);
			s->plan.mtu = (uint32_t)number;
		} else if (!add_address(s, *words)) {
			return false;
		}
	}
	return s->plan.graph != NULL || fail(s, "host needs a graph");
}

/* set INSTANCE.SETTING VALUE */
static bool
do_set(struct script *s, char *const *words)
{
	if (s->host != NULL)
		return fail(s, "the host has begun: settings come first");
	if (words[0] == NULL || words[1] == NULL || words[2] != NULL)
		return fail(s, "set takes a name and a value");
	return add_set(s, words[0], words[1]);
}

/* The host begins with the first line that needs it. */
static bool
begin(struct script *s)
{
	if (s->host != NULL)
		return true;
	if (s->plan.graph == NULL)
		return fail(s, "a script begins with: host ADDRESS/BITS graph FILE");
	s->host = host_new(&s->plan, s->detail, sizeof(s->detail));
	if (s->host == NULL)
		return fail_detail(s);
	for (unsigned i = 0; i < s->names.host_count; i++)
		if (i >= host_port_count(s->host))
			return fail(s, "the graph has fewer ports than the host has addresses");
	return true;
}

/* ---- packets ---- */

static struct let *
find_let(struct script *s, const char *name)
{
	for (unsigned i = 0; name != NULL && i < s->let_count; i++)
		if (strcmp(s->lets[i].name, name) == 0)
			return &s->lets[i];
	return NULL;
}

/* let NAME PACKET */
static bool
do_let(struct script *s, char *const *words)
{
	struct let *let = find_let(s, words[0]);

	if (words[0] == NULL || words[1] == NULL || strlen(words[0]) >= NAME_LEN)
		return fail(s, "let takes a name and a packet");
	if (let == NULL) {
		if (s->let_count == LETS_MAX)
			return fail(s, "too many packets have names");
		let = &s->lets[s->let_count++];
		snprintf(let->name, sizeof(let->name), "%s", words[0]);
	}
	return packet_parse(&let->packet, &s->names, words + 1, s->detail) || fail_detail(s);
}

/* "FROM..TO", TO may be `end` */
static bool
parse_range(struct script *s, const char *text, size_t *from, size_t *to)
{
	const char *dots = text == NULL ? NULL : strstr(text, "..");
	char first[NAME_LEN];
	uint64_t number;

	if (dots == NULL || (size_t)(dots - text) >= sizeof(first))
		return fail(s, "a piece is written FROM..TO, in bytes of what the IP header carries");
	snprintf(first, sizeof(first), "%.*s", (int)(dots - text), text);
	if (!number_parse(&s->names, first, &number, s->detail))
		return fail_detail(s);
	*from = number;
	*to = SIZE_MAX;
	if (is(dots + 2, "end"))
		return true;
	if (!number_parse(&s->names, dots + 2, &number, s->detail))
		return fail_detail(s);
	*to = number;
	return true;
}

/* A piece of a named datagram, its fields changed as the words say; without a range the datagram itself. */
static bool
make_piece(struct script *s, const struct let *let, char *const *words)
{
	size_t from = 0, to = SIZE_MAX;

	if (*words == NULL) {
		s->packet = let->packet;
		return true;
	}
	if (!parse_range(s, *words, &from, &to))
		return false;
	if (!packet_slice(&let->packet, &s->names, from, to, &s->packet, s->detail) ||
	    !packet_parse_fields(&s->packet, &s->names, words + 1, s->detail))
		return fail_detail(s);
	return true;
}

/* What words say: a packet, or a name and a piece. */
static bool
make_packet(struct script *s, char *const *words)
{
	const struct let *let = find_let(s, *words);

	if (*words == NULL)
		return fail(s, "a packet is missing");
	if (let != NULL)
		return make_piece(s, let, words + 1);
	return packet_parse(&s->packet, &s->names, words, s->detail) || fail_detail(s);
}

/* "on PORT", counted from 1, at the beginning of *words; 0: it is not there. */
static bool
parse_port(struct script *s, char *const **words, unsigned *port)
{
	uint64_t number;

	*port = 0;
	if (!is(**words, "on"))
		return true;
	if ((*words)[1] == NULL || !number_parse(&s->names, (*words)[1], &number, s->detail) || number == 0 ||
	    number > host_port_count(s->host))
		return fail(s, "on needs a port's number, from 1 on");
	*port = (unsigned)number;
	*words += 2;
	return true;
}

/* inject [on PORT] PACKET */
static bool
do_inject(struct script *s, char *const *words)
{
	unsigned port;
	size_t len;

	if (!parse_port(s, &words, &port))
		return false;
	s->names.port = port == 0 ? 0 : port - 1;
	if (!make_packet(s, words))
		return false;
	len = packet_build(&s->packet, &s->names, s->frame, s->detail);
	if (len == 0 && s->packet.cut != 0)
		return fail_detail(s);
	host_inject(s->host, s->names.port, s->frame, len);
	return true;
}

static bool
expect_nothing(struct script *s, char *const *words)
{
	uint64_t ns = 0;

	if (is(*words, "within")) {
		if (!check_unseen(s) || !parse_time(s, words[1], &ns))
			return false;
		host_run_until(s->host, host_now_ns(s->host) + ns, true);
	} else if (*words != NULL) {
		return fail(s, "'%s' after nothing", *words);
	}
	return host_first_sent(s->host) == NULL || fail_expected(s, "nothing was to come");
}

/* expect [on PORT] [within TIME] PACKET | nothing [within TIME] */
static bool
do_expect(struct script *s, char *const *words)
{
	const struct sent *sent;
	unsigned port;
	uint64_t ns;

	if (is(*words, "nothing"))
		return expect_nothing(s, words + 1);
	if (!parse_port(s, &words, &port))
		return false;
	if (is(*words, "within")) {
		if (!parse_time(s, words[1], &ns))
			return false;
		if (host_first_sent(s->host) == NULL)
			host_run_until(s->host, host_now_ns(s->host) + ns, true);
		words += 2;
	}
	if (!make_packet(s, words))
		return false;
	sent = host_first_sent(s->host);
	if (sent == NULL)
		return fail_expected(s, "nothing came");
	if (port != 0 && sent->port != port - 1)
		return fail_expected(s, "it came through another port");
	if (!packet_match(&s->packet, &s->names, sent->bytes, sent->len, s->detail))
		return fail_expected(s, s->detail);
	host_drop_sent(s->host);
	return true;
}

/* ignore: whatever was sent up to now */
static bool
do_ignore(struct script *s, char *const *words)
{
	if (*words != NULL)
		return fail(s, "'%s' after ignore", *words);
	while (host_first_sent(s->host) != NULL)
		host_drop_sent(s->host);
	return true;
}

/* ---- counters ---- */

/* [at most|at least] N, which `is` must be */
static bool
check_number(struct script *s, const char *what, uint64_t number, char *const *words)
{
	bool most = is(words[0], "at") && is(words[1], "most"), least = is(words[0], "at") && is(words[1], "least");
	uint64_t wanted;

	if (most || least)
		words += 2;
	if (words[0] == NULL || words[1] != NULL)
		return fail(s, "a number is missing, or there is more than one");
	if (!number_parse(&s->names, words[0], &wanted, s->detail))
		return fail_detail(s);
	if (most ? number <= wanted : least ? number >= wanted : number == wanted)
		return true;
	return fail(s, "%s is %llu, not %s%llu", what, (unsigned long long)number,
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
		return fail(s, "there is no counter '%s'", words[0] == NULL ? "" : words[0]);
	if (!is_counted(s, words[0])) {
		if (s->counted_count == COUNTED_MAX || strlen(words[0]) >= sizeof(s->counted[0]))
			return fail(s, "too many counters");
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
} commands[] = {
	{ "host", do_host, false },    { "set", do_set, false },        { "let", do_let, false },
	{ "inject", do_inject, true }, { "expect", do_expect, true },   { "ignore", do_ignore, true },
	{ "count", do_count, true },   { "buffers", do_buffers, true },
};

static bool
run_command(struct script *s, char *const *words)
{
	for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!is(words[0], commands[i].word))
			continue;
		if (commands[i].needs_host && !begin(s))
			return false;
		return commands[i].run(s, words + 1);
	}
	return fail(s, "'%s' is nothing that a line begins with", words[0]);
}

/* [at TIME | after TIME] command */
static bool
run_line(struct script *s, const struct line *line)
{
	char *const *words = line->words;
	uint64_t ns;

	s->line = line;
	if (is(words[0], "at") || is(words[0], "after")) {
		if (!begin(s) || !parse_time(s, words[1], &ns))
			return false;
		if (!move_time(s, is(words[0], "at") ? ns : host_now_ns(s->host) + ns))
			return false;
		words += 2;
		if (words[0] == NULL)
			return true;
	}
	return run_command(s, words);
}

/* The line of the `end` that belongs to the repeat at `begins`; line_count: there is none. */
static unsigned
find_end(const struct script *s, unsigned begins)
{
	unsigned depth = 0;

	for (unsigned i = begins; i < s->line_count; i++) {
		if (is(s->lines[i].words[0], "repeat"))
			depth++;
		if (is(s->lines[i].words[0], "end") && --depth == 0)
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
		return fail(s, "this repeat has no end");
	if (line->words[1] == NULL || !is(line->words[2], "as") || line->words[3] == NULL || line->words[4] != NULL)
		return fail(s, "it is written: repeat NUMBER as NAME");
	if (!number_parse(&s->names, line->words[1], &count, s->detail))
		return fail_detail(s);
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

		if (!is(line->words[0], "repeat")) {
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

/* ---- the whole ---- */

/* Splits text into lines of words; `#` at the beginning of a word ends the line. */
static bool
read_lines(struct script *s, char *text)
{
	unsigned number = 0;
	char *rest = text, *row;

	while ((row = strsep(&rest, "\n")) != NULL) {
		struct line *line = &s->lines[s->line_count];
		unsigned count = 0;
		char *next = NULL;

		if (s->line_count == LINES_MAX)
			return fail(s, "more than %d lines", LINES_MAX);
		line->number = ++number;
		s->line = line;
		for (char *word = strtok_r(row, " \t\r", &next); word != NULL && word[0] != '#';
		     word = strtok_r(NULL, " \t\r", &next)) {
			if (count == WORDS_MAX - 1)
				return fail(s, "more than %d words", WORDS_MAX - 1);
			line->words[count++] = word;
		}
		line->words[count] = NULL;
		s->line_count += count > 0;
	}
	return true;
}

/* Nothing was sent that no line has looked at, and nothing dropped that no line has counted. */
static bool
end_script(struct script *s)
{
	if (!begin(s) || !check_unseen(s))
		return false;
	s->detail[0] = '\0';
	host_each_drop(s->host, see_drop, s);
	return s->detail[0] == '\0' || fail_detail(s);
}

bool
script_run(const char *file, char *text, const char *const *folders, char *why)
{
	struct script *s = calloc(1, sizeof(*s));
	bool good;

	if (s == NULL || (s->lines = calloc(LINES_MAX, sizeof(*s->lines))) == NULL)
		abort();
	s->file = file;
	s->folders = folders;
	s->why = why;
	good = read_lines(s, text) && run_lines(s, 0, s->line_count) && end_script(s);
	if (s->host != NULL && !host_free(s->host) && good)
		good = fail(s, "the host has not given back every buffer in the end");
	free(s->lines);
	free(s);
	return good;
}

bool
script_run_file(const char *file, const char *const *folders, char *why)
{
	FILE *stream = fopen(file, "r");
	char *text = NULL;
	size_t size = 0;
	bool good;

	if (stream == NULL || getdelim(&text, &size, '\0', stream) < 0) {
		snprintf(why, SCRIPT_WHY, "%s: cannot be read, or is empty", file);
		good = false;
	} else {
		good = script_run(file, text, folders, why);
	}
	free(text);
	if (stream != NULL)
		fclose(stream);
	return good;
}
