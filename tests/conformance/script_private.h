/*
 * script_private.h - a script that is carried out, shared by script.c (lines, time, counters), script_host.c (the host that
 * it describes) and script_packets.c (what is injected and expected).
 */
#ifndef CONFORMANCE_SCRIPT_PRIVATE_H
#define CONFORMANCE_SCRIPT_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tests/conformance/host.h"
#include "tests/conformance/packet.h"
#include "tests/conformance/script.h"

enum {
	LINES_MAX = 500,
	WORDS_MAX = 96,
	LETS_MAX = 8,
	COUNTED_MAX = 64,
	INCLUDES_MAX = 8,
	TEXT_MAX = 2048,
	NS_PER_US = 1000,
};

struct line {
	const char *file;
	unsigned number;
	char *words[WORDS_MAX]; /* NULL ends them */
};

/* A file of lines that others begin with. */
struct include {
	char file[TEXT_MAX];
	char *text;
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
	struct include includes[INCLUDES_MAX];
	unsigned include_count;
	const struct line *line; /* that is carried out */

	struct host *host;
	struct host_plan plan;
	void (*prepare)(void *context, struct host_plan *plan); /* NULL: nothing */
	void *context;
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

static inline bool
script_is(const char *word, const char *what)
{
	return word != NULL && strcmp(word, what) == 0;
}

/* ---- script.c: all false, after having said why, so that they can be returned ---- */

__attribute__((format(printf, 2, 3))) bool script_fail(struct script *s, const char *format, ...);

/* With what detail says. */
bool script_fail_detail(struct script *s);

/* What came, or did not, is not what the line says. */
bool script_fail_expected(struct script *s, const char *because);

/* Where the file called name is: beside the script, or in one of the folders. False: nowhere. */
bool script_find(const struct script *s, const char *name, char path[TEXT_MAX]);

/* ---- and what was asked of the script: false if it failed ---- */

/* Time does not pass over frames that no line has looked at. */
bool script_check_unseen(struct script *s);

/* "30s", "$n*10ms", "500us" */
bool script_parse_time(struct script *s, const char *text, uint64_t *ns);

/* ---- script_host.c ---- */

/* host ADDRESS/BITS... graph FILE [mtu N] */
bool script_do_host(struct script *s, char *const *words);

/* set INSTANCE.SETTING VALUE */
bool script_do_set(struct script *s, char *const *words);

/* The host begins with the first line that needs it. */
bool script_begin(struct script *s);

/* ---- script_packets.c ---- */

/* let NAME PACKET */
bool script_do_let(struct script *s, char *const *words);

/* inject [on PORT] PACKET */
bool script_do_inject(struct script *s, char *const *words);

/* expect [on PORT] [within TIME] PACKET | nothing [within TIME] */
bool script_do_expect(struct script *s, char *const *words);

/* ignore: whatever was sent up to now */
bool script_do_ignore(struct script *s, char *const *words);

#endif
