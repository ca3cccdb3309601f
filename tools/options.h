/*
 * options.h - parses every program's command line, by a table of options for getopt_long, and prints --help.
 *
 * Each mistake is reported in one sentence on standard error. Options may be abbreviated as long as they are unique,
 * and operands may appear anywhere.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTIONS_LIST = 32, OPTIONS_TEXTS = 128, OPTIONS_SHARED = 2 };

/* Exit status. */
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
	OPTIONS_FILE,     /* const char *: a file to read, as input_file returns it */
	OPTIONS_TEXT_ANY, /* struct options_texts: may be given several times */
	OPTIONS_NUMBER,   /* uint64_t between min and max */
	OPTIONS_TIME,     /* uint64_t, nanoseconds, as in settings: at least min, and at most max unless that is 0 */
	OPTIONS_HOST,     /* uint32_t: an address that one host can have, as in settings */
	OPTIONS_NUMBERS,  /* struct options_numbers: "1,1000", each between min and max */
	OPTIONS_CHOICE,   /* unsigned: index in `choices` */
	OPTIONS_CHOICES,  /* struct options_numbers: several of `choices`, separated by commas */
};

struct options_option {
	const char *name; /* without the dashes; NULL terminates the table */
	enum options_kind kind;
	size_t offset;              /* of the value in the program's struct */
	const char *argument;       /* for --help: "FILE", "N,..." */
	const char *help;           /* NULL: not shown */
	uint64_t min, max;          /* for numbers and times */
	const char *const *choices; /* terminated by NULL */
};

/*
 * Initializes an option whose value is `member` of `type`; .min, .max and .choices may follow. Example: OPTION(NUMBER,
 * struct echo_bench, burst, "burst", "N", "frames at a time (1)", .min = 1, .max = 32)
 */
#define OPTION(kind_, type, member, name_, argument_, help_, ...)                                                      \
	{                                                                                                              \
		.name = name_, .kind = OPTIONS_##kind_, .offset = offsetof(type, member), .argument = argument_,       \
		.help = help_, __VA_ARGS__                                                                             \
	}

/* "yes", "no": choices 0 and 1. */
extern const char *const options_yes_no[];

/* A table shared by several programs, for a struct at `offset` in the program's. */
struct options_shared {
	const struct options_option *options; /* NULL: none */
	size_t offset;
};

struct options_program {
	const char *name;
	const char *usage;  /* "[OPTION]..." */
	const char *about;  /* a few lines */
	const char *footer; /* lines after the options; NULL: none */
	const struct options_option *options;
	struct options_shared shared[OPTIONS_SHARED];
	unsigned operands_min, operands_max;
	bool reads_operands; /* operands are files to read, like OPTIONS_FILE */
};

/* All but OPTIONS_GO are exit statuses. */
enum options_result { OPTIONS_GO = -1, OPTIONS_HELPED = OPTIONS_SUCCESS, OPTIONS_WRONG = OPTIONS_MISUSE };

/*
 * Parses argv into the struct at `into`, which keeps its values for options that are not given (a list replaces the
 * initial one), and into *operands. `-o` means an option --output. Returns OPTIONS_HELPED after printing the help on
 * standard output, OPTIONS_WRONG after a message on standard error. Not thread-safe (getopt_long).
 */
enum options_result options_parse(const struct options_program *program, int argc, char **argv, void *into,
				  struct options_texts *operands);

/* Parses the address of one host. Returns 0, or OPTIONS_MISUSE after a message that begins with `what`. */
int options_host(const struct options_program *program, const char *what, const char *text, uint32_t *host);

/* Prints "NAME: message", and how to get help, on standard error. Returns OPTIONS_MISUSE. */
__attribute__((format(printf, 2, 3))) int options_misuse(const struct options_program *program, const char *format,
							 ...);

#endif
