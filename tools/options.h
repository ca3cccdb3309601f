/*
 * options.h - the command line, the same way in every program: a table of options, read with getopt_long.
 *
 * --help is always there. A wrong option, value or operand is told in one sentence on standard error. Options may be
 * abbreviated as long as they stay unique; operands may stand anywhere.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTIONS_LIST = 32, OPTIONS_TEXTS = 128, OPTIONS_SHARED = 2 };

/* What a program's exit status says. */
enum { OPTIONS_SUCCESS = 0, OPTIONS_FAILURE = 1, OPTIONS_MISUSE = 2 };

struct options_numbers {
	unsigned count;
	uint64_t value[OPTIONS_LIST];
};

struct options_texts {
	unsigned count;
	const char *text[OPTIONS_TEXTS];
};

enum options_kind {
	OPTIONS_FLAG,     /* bool */
	OPTIONS_TEXT,     /* const char * */
	OPTIONS_TEXT_ANY, /* struct options_texts: may be given many times */
	OPTIONS_NUMBER,   /* uint64_t between min and max */
	OPTIONS_NUMBERS,  /* struct options_numbers: "1,1000", each between min and max */
	OPTIONS_CHOICE,   /* unsigned: which of `choices` */
	OPTIONS_CHOICES,  /* struct options_numbers: several of `choices`, by commas */
};

struct options_option {
	const char *name; /* without the dashes; NULL ends the table */
	enum options_kind kind;
	size_t offset;              /* of the value in the program's struct */
	const char *argument;       /* for --help: "FILE", "N,..." */
	const char *help;           /* NULL: not shown */
	uint64_t min, max;          /* of numbers */
	const char *const *choices; /* NULL ends them */
};

/* A table that several programs have in common, for a struct that lies at `offset` in the program's. */
struct options_shared {
	const struct options_option *options; /* NULL: none */
	size_t offset;
};

struct options_program {
	const char *name;
	const char *usage;  /* "[OPTION]...": stands after the name */
	const char *about;  /* what the program does, a few lines */
	const char *footer; /* after the options; NULL: nothing */
	const struct options_option *options;
	struct options_shared shared[OPTIONS_SHARED]; /* what else it takes */
	unsigned operands_min, operands_max;
};

/* All but OPTIONS_GO are what main returns. */
enum options_result { OPTIONS_GO = -1, OPTIONS_HELPED = OPTIONS_SUCCESS, OPTIONS_WRONG = OPTIONS_MISUSE };

/*
 * Reads argv into the struct at `into`, whose initial values stay where an option is not given (a list that is given
 * replaces the initial one). Operands go to *operands. OPTIONS_HELPED: --help was printed on standard output.
 * OPTIONS_WRONG: a sentence was printed on standard error. Not for several threads at once (getopt_long).
 */
enum options_result options_parse(const struct options_program *program, int argc, char **argv, void *into,
				  struct options_texts *operands);

/*
 * For an option that people know by a letter: each argument that is `letter` ("-o") becomes `option` ("--output", which outlives
 * argv). Before options_parse.
 */
void options_spell_out(int argc, char **argv, const char *letter, char *option);

/* "NAME: sentence" and how to get help, on standard error. Returns OPTIONS_MISUSE, to be returned by main. */
__attribute__((format(printf, 2, 3))) int options_misuse(const struct options_program *program, const char *format,
							 ...);

#endif
