/*
 * test_states.c - TCP's states and the segments that come: each cell of the table in docs/conformance.md is run as a packet
 * script. Then each state meets random segments.
 */
#include <ctype.h>
#include <stdarg.h>

#include "tests/conformance/script.h"
#include "tests/random.h"
#include "tests/test.h"
#include "xkernel/protocol.h"

extern const struct xk_protocol_type xk_type_tcp;

enum { KINDS = 8, TEXT = 16384, SEGMENTS = 60, ROUNDS = 10, ROUNDS_LONG = 1000, CELL = 128, BYTES = 10 };

static const char *const folders[] = { CONFORMANCE_ROOT "/tests/conformance", NULL };

/* How a state is reached, and the numbers then. */
struct state {
	const char *name; /* in the table */
	const char *script;
	unsigned next;     /* number of the peer's next segment */
	unsigned ack, all; /* its acknowledgement: of nothing new, and of everything */
};

#define ACCEPTED "include tcp/accepted.include\n"
#define CLOSES "end-sending\nexpect tcp FA seq 1 ack 1\n"
#define PEER_CLOSES "inject tcp FA seq 1 ack 1\nexpect tcp A seq 1 ack 2\n"
#define OPENS "include tcp/met.include\nopen 5000 from 2001\nexpect tcp 2001 > 5000 S seq 0\n"

static const struct state states[] = {
	{ "CLOSED", "", 1, 1, 1 },
	{ "LISTEN", "listen 2001\n", 1, 1, 1 },
	{ "SYN-SENT", OPENS, 0, 0, 1 },
	{ "SYN-RECEIVED, by listening",
	  "listen 2001\ninject tcp S seq 0 mss 1460\nexpect tcp 2001 > 5000 SA seq 0 ack 1\n", 1, 1, 1 },
	{ "SYN-RECEIVED, by opening", OPENS "inject tcp S seq 0 mss 1460\nexpect tcp 2001 > 5000 SA seq 0 ack 1\n", 1,
	  1, 1 },
	{ "ESTABLISHED", ACCEPTED, 1, 1, 1 },
	{ "FIN-WAIT-1", ACCEPTED CLOSES, 1, 1, 2 },
	{ "FIN-WAIT-2", ACCEPTED CLOSES "inject tcp A seq 1 ack 2\n", 1, 2, 2 },
	{ "CLOSE-WAIT", ACCEPTED PEER_CLOSES, 2, 1, 1 },
	{ "CLOSING", ACCEPTED CLOSES "inject tcp FA seq 1 ack 1\nexpect tcp A seq 2 ack 2\n", 2, 1, 2 },
	{ "LAST-ACK", ACCEPTED PEER_CLOSES "end-sending\nexpect tcp FA seq 1 ack 2\n", 2, 1, 2 },
	{ "TIME-WAIT", ACCEPTED CLOSES "inject tcp FA seq 1 ack 2\nexpect tcp A seq 2 ack 2\n", 2, 2, 2 },
};

/* The segments, in the order of the table's columns. */
enum kind { SYN, SYN_ACK, ACK, DATA, FIN, RST, OTHER_RST, OUTSIDE };

/* ---- scripts ---- */

static struct text {
	char chars[TEXT];
	size_t len;
} text;

__attribute__((format(printf, 1, 2))) static void
add(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	text.len += (size_t)vsnprintf(text.chars + text.len, TEXT - text.len, format, arguments);
	va_end(arguments);
	REQUIRE(text.len < TEXT);
}

static void
add_segment(const struct state *s, enum kind kind)
{
	bool opens = strcmp(s->name, "SYN-SENT") == 0;

	if (kind == SYN)
		add("inject tcp S seq %u mss 1460\n", s->next);
	else if (kind == SYN_ACK)
		add("inject tcp SA seq %u ack %u mss 1460\n", s->next, opens ? s->all : s->ack);
	else if (kind == ACK)
		add("inject tcp A seq %u ack %u\n", s->next, s->all);
	else if (kind == DATA)
		add("inject tcp A seq %u ack %u / data %u\n", s->next, s->ack, BYTES);
	else if (kind == FIN)
		add("inject tcp FA seq %u ack %u\n", s->next, s->ack);
	else if (opens && kind != OUTSIDE)
		add("inject tcp RA seq 0 ack %u\n", kind == RST ? 1 : 9);
	else if (kind != OUTSIDE)
		add("inject tcp R seq %u\n", kind == RST ? s->next : s->next + 100);
	else
		add("inject tcp A seq %u-100000 ack %u / data %u\n", s->next, s->ack, BYTES);
}

/* Adds what shows that the host is in a state. */
static void
add_state(const struct state *from, const char *name)
{
	bool by_opening = strstr(from->name, "opening") != NULL || strcmp(from->name, "SYN-SENT") == 0;
	unsigned syn = strncmp(from->name, "SYN-RECEIVED", 12) == 0 ? from->next - 1 : from->next; /* its number */

	if (strcmp(name, "CLOSED") == 0)
		add("inject tcp A seq 9 ack 9\nexpect tcp R seq 9\n");
	else if (strcmp(name, "LISTEN") == 0)
		add("inject tcp S seq 77\nexpect tcp 2001 > 5000 SA seq 0 ack 78\n");
	else if (strcmp(name, "SYN-RECEIVED") == 0 && !by_opening)
		add("inject tcp S seq %u\nexpect tcp 2001 > 5000 SA seq 0 ack %u\n", syn, syn + 1);
	else if (strcmp(name, "SYN-RECEIVED") == 0 || strcmp(name, "SYN-SENT") == 0)
		add("result opening\n");
	else if (strcmp(name, "TIME-WAIT") == 0)
		add("inject tcp FA seq %u-1 ack %u\nexpect tcp A\n", from->next, from->all);
	else
		add("state %s\n", name);
}

/* Adds one word of a cell. */
static void
add_word(const struct state *s, enum kind kind, const char *word, bool takes, bool *has_state)
{
	unsigned took = !takes ? 0 : kind == DATA ? BYTES : kind != ACK;

	if (strcmp(word, "bytes") == 0)
		add("read %u\n", BYTES);
	else if (strcmp(word, "ACK") == 0)
		add("expect within 500ms tcp 2001 > 5000 A seq %u ack %u\n", s->all, s->next + took);
	else if (strcmp(word, "SYN-ACK") == 0)
		add("expect tcp 2001 > 5000 SA seq 0 ack %u\n", s->next + 1);
	else if (strcmp(word, "reset") == 0 && kind == SYN)
		add("expect tcp 2001 > 5000 RA seq 0 ack %u\n", s->next + 1);
	else if (strcmp(word, "reset") == 0)
		add("expect tcp 2001 > 5000 R seq %u\n", kind == ACK ? s->all : s->ack);
	else if (isupper((unsigned char)word[0])) {
		*has_state = true;
		add("expect nothing\n");
		add_state(s, word);
	} else {
		CHECK_STR(word, "-");
	}
}

/* Runs the script of a cell: words separated by commas. */
static void
run_cell(const struct state *s, enum kind kind, char *cell)
{
	bool has_state = false;
	bool takes = strstr(cell, "bytes") != NULL || strstr(cell, "CLOSE-WAIT") != NULL ||
		     strstr(cell, "CLOSING") != NULL || strstr(cell, "TIME-WAIT") != NULL ||
		     strstr(cell, "ESTABLISHED") != NULL;
	static char why[SCRIPT_WHY], copy[TEXT];
	char own[CELL], name[CELL], *rest = NULL;

	snprintf(own, sizeof(own), "%s", cell);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(s->name, ","), s->name);
	text.len = 0;
	add("host 10.0.0.1/24 graph tcp.dot\n%s", s->script);
	add_segment(s, kind);
	for (char *word = strtok_r(cell, ", ", &rest); word != NULL; word = strtok_r(NULL, ", ", &rest))
		add_word(s, kind, word, takes, &has_state);
	if (!has_state) {
		add("expect nothing\n");
		add_state(s, name);
	}
	for (unsigned i = 1; i < xk_drop_count(&xk_type_tcp); i++)
		add("count tcp.%s at least 0\n", xk_drop_name(&xk_type_tcp, i));
	snprintf(copy, sizeof(copy), "%s", text.chars);
	why[0] = '\0';
	if (!script_run("cell", copy, folders, why))
		printf("\n%s, segment %u: %s: %s\n%s", s->name, kind, own, why, text.chars);
	CHECK_STR(why, "");
}

/* ---- the table ---- */

/* Takes the next cell of a row. */
static void
take_cell(char **row, char cell[CELL])
{
	char *end = strchr(*row, '|');
	int len;

	REQUIRE(end != NULL);
	while (**row == ' ')
		(*row)++;
	len = (int)(end - *row);
	while (len > 0 && (*row)[len - 1] == ' ')
		len--;
	snprintf(cell, CELL, "%.*s", len, *row);
	*row = end + 1;
}

TEST(each_state_meets_each_segment_as_documented)
{
	FILE *stream = fopen(CONFORMANCE_ROOT "/docs/conformance.md", "r");
	unsigned cells = 0;
	size_t size = 0;
	char *line = NULL;

	REQUIRE(stream != NULL);
	while (getline(&line, &size, stream) > 0) {
		char cell[CELL], *row = line + 1;

		for (unsigned i = 0; line[0] == '|' && i < XK_ARRAY_LENGTH(states); i++) {
			if (strncmp(line + 2, states[i].name, strlen(states[i].name)) != 0 ||
			    strncmp(line + 2 + strlen(states[i].name), " |", 2) != 0)
				continue;
			row = line + 1;
			take_cell(&row, cell);
			for (unsigned kind = 0; kind < KINDS; kind++, cells++) {
				take_cell(&row, cell);
				run_cell(&states[i], kind, cell);
			}
		}
	}
	free(line);
	fclose(stream);
	CHECK_EQ(cells, XK_ARRAY_LENGTH(states) * KINDS);
}

/* ---- random segments ---- */

/* Returns a number near `usual`, mostly; a few are anywhere. */
static uint32_t
near(uint64_t *random, uint32_t usual)
{
	static const uint32_t away[] = { 0, 0, 0, 0, 1, UINT32_MAX, 7, 20, 1000, (uint32_t)-1000, 70000, 1u << 31 };
	uint64_t bits = next_random(random);
	unsigned index = (unsigned)(bits % (XK_ARRAY_LENGTH(away) + 1));

	return index == XK_ARRAY_LENGTH(away) ? (uint32_t)(bits >> 32) : usual + away[index];
}

static void
add_random_segment(const struct state *s, uint64_t *random)
{
	static const char *const options[] = { "",
					       "",
					       "",
					       "stamp 7 0",
					       "sack 5..9 1..3",
					       "scale 14",
					       "mss 1",
					       "options 0100",
					       "options 02",
					       "options fd04ffff0402",
					       "may-sack" };
	static const unsigned windows[] = { 0, 1, 100, 1460, 65535 };
	uint64_t bits = next_random(random);
	bool opens = strstr(s->script, OPENS) != NULL;
	char flags[8] = "-";
	unsigned count = 0;
	uint32_t sequence;

	for (unsigned i = 0; i < 6; i++) /* ACK mostly, SYN and RST rarely */
		if (i == 4 ? bits >> 60 > 1 : (bits >> (8 * i) & (i == 1 || i == 2 ? 15 : 3)) == 0)
			flags[count++] = "FSRPAU"[i];
	flags[count == 0 ? 1 : count] = '\0';
	sequence = near(random, s->next);
	if (strchr(flags, 'S') != NULL && (opens || strchr(flags, 'A') == NULL)) /* all streams begin at 1 */
		sequence = 0;
	add("inject tcp %s seq %u ack %u win %u %s", flags, sequence, near(random, s->all),
	    windows[next_random(random) % XK_ARRAY_LENGTH(windows)],
	    options[next_random(random) % XK_ARRAY_LENGTH(options)]);
	if (next_random(random) % 2 == 0)
		add(" / data %u", (unsigned)(next_random(random) % 30));
	add("\nignore\n");
}

/* Runs a script of random segments. */
static void
run_random(const struct state *s, unsigned round)
{
	uint64_t random = UINT64_C(0x9e3779b97f4a7c15) * (round + 1);
	bool accepts = strstr(s->script, ACCEPTED) != NULL;
	static char why[SCRIPT_WHY], copy[TEXT];

	text.len = 0;
	add("host 10.0.0.1/24 graph tcp.dot\nset tcp.challenges 5\n%s", s->script);
	for (unsigned i = 0; i < SEGMENTS; i++) {
		add_random_segment(s, &random);
		if (accepts && i % 20 == 19)
			add("send 100\nignore\n");
		if (i % 30 == 29)
			add("after 300ms ignore\n");
	}
	add("read *\nclose *\nignore\n");
	for (unsigned i = 0; i < 30; i++) /* what is sent again */
		add("after 40s ignore\n");
	for (unsigned i = 1; i < xk_drop_count(&xk_type_tcp); i++)
		add("count tcp.%s at least 0\n", xk_drop_name(&xk_type_tcp, i));
	add("count ip.no_session at least 0\nbuffers 0\n");
	snprintf(copy, sizeof(copy), "%s", text.chars);
	why[0] = '\0';
	if (!script_run("random", copy, folders, why))
		printf("\n%s, round %u: %s\n%s", s->name, round, why, text.chars);
	CHECK_STR(why, "");
}

TEST(random_segments_break_no_state)
{
	for (unsigned round = 0; round < (test_is_long() ? ROUNDS_LONG : ROUNDS); round++)
		for (unsigned i = 0; i < XK_ARRAY_LENGTH(states); i++)
			run_random(&states[i], round);
}
