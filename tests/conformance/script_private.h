/*
 * script_private.h - a script being run, shared by script.c (lines, time, counters), script_host.c (the host),
 * script_packets.c (packets injected and expected) and script_user.c (the user of TCP).
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
	char *words[WORDS_MAX]; /* ends with NULL */
};

/* A file included by lines of others. */
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
	const struct line *line; /* being run */

	struct host *host;
	struct host_plan plan;
	void (*prepare)(void *context, struct host_plan *plan); /* NULL: none */
	void *context;
	char graph[TEXT_MAX], sets[HOST_SETS][TEXT_MAX];
	struct names names;
	struct let lets[LETS_MAX];
	unsigned let_count;
	char counted[COUNTED_MAX][NAME_LEN * 2]; /* drop reasons that lines have counted */
	unsigned counted_count;
	unsigned connection;                /* that orders are about; 0: the last one */
	uint64_t bytes_read[NAMES_STREAMS]; /* by connection */
	struct packet packet;
	uint8_t frame[PACKET_MAX];
	unsigned burst; /* frames that the burst in progress lacks; 0: each frame arrives by itself */
	char detail[PACKET_WHY];
};

static inline bool
script_is(const char *word, const char *what)
{
	return word != NULL && strcmp(word, what) == 0;
}

/* ---- script.c: set the reason and return false ---- */

__attribute__((format(printf, 2, 3))) bool script_fail(struct script *s, const char *format, ...);

/* With the reason in `detail`. */
bool script_fail_detail(struct script *s);

/* The frame sent, or its absence, differs from the line. */
bool script_fail_expected(struct script *s, const char *because);

/* Finds the file called name beside the script or in one of the folders. Returns false if it is in none. */
bool script_find(const struct script *s, const char *name, char path[TEXT_MAX]);

/* ---- the following return false if the script failed ---- */

/* Checks that no frame is unseen before time advances. */
bool script_check_unseen(struct script *s);

/* "30s", "$n*10ms", "500us" */
bool script_parse_time(struct script *s, const char *text, uint64_t *ns);

/* ---- script_host.c ---- */

/* host ADDRESS/BITS... graph FILE [mtu N] */
bool script_do_host(struct script *s, char *const *words);

/* set INSTANCE.SETTING VALUE */
bool script_do_set(struct script *s, char *const *words);

/* Starts the host at the first line that needs it. */
bool script_begin(struct script *s);

/* ---- script_packets.c ---- */

/* let NAME PACKET */
bool script_do_let(struct script *s, char *const *words);

/* burst N: the next N frames arrive together */
bool script_do_burst(struct script *s, char *const *words);

/* inject [on PORT] PACKET */
bool script_do_inject(struct script *s, char *const *words);

/* expect [on PORT] [within TIME] PACKET | nothing [within TIME] */
bool script_do_expect(struct script *s, char *const *words);

/* ignore: drops all frames sent so far */
bool script_do_ignore(struct script *s, char *const *words);

/* ---- script_user.c ---- */

/* listen PORT | open PORT [from PORT] | send N | close | ...: with the word itself */
bool script_do_order(struct script *s, char *const *words);

/* use N: the Nth connection */
bool script_do_use(struct script *s, char *const *words);

/* read N | nothing: bytes that were handed up */
bool script_do_read(struct script *s, char *const *words);

/* state NAME */
bool script_do_state(struct script *s, char *const *words);

/* result WORD: of the open, or of the last push */
bool script_do_result(struct script *s, char *const *words);

/* Checks that lines have read all bytes that were handed up. */
bool script_check_unread(struct script *s);

#endif
