/* xk_compile.c - `xk compile GRAPH -o PROGRAM`; program_compile.c does it. */
#include <string.h>

#include "tools/options.h"
#include "tools/output.h"
#include "tools/program/program_compile.h"
#include "tools/xk/xk.h"

struct compile_options {
	const char *output, *emit;
};

static const struct options_option compile_options[] = {
	OPTION(TEXT, struct compile_options, output, "output", "PROGRAM",
	       "-o PROGRAM too: what to make; NAME.o: an object for a program of your own"),
	OPTION(TEXT, struct compile_options, emit, "emit-c", "FILE", "the C that it is made of; - is standard output"),
	{ .name = NULL },
};

static const struct options_program compile_program = {
	.name = "xk compile",
	.usage = "GRAPH -o PROGRAM [--emit-c FILE]",
	.about = "Makes a program of a graph file, in which the graph is fixed: its protocols call one another\n"
		 "directly, and an edge without a mark costs nothing. PROGRAM --help tells what it can do.\n"
		 "Exit status 1: the graph is refused, or cannot be compiled.",
	.options = compile_options,
	.operands_min = 1,
	.operands_max = 1,
};

int
xk_compile_main(int argc, char **argv)
{
	struct compile_options o = { .output = NULL };
	struct options_texts operands;
	int status;

	status = options_parse(&compile_program, argc, argv, &o, &operands);
	if (status != OPTIONS_GO)
		return status;
	if (o.output == NULL && o.emit == NULL)
		return options_misuse(&compile_program, "-o PROGRAM or --emit-c FILE says what to make");
	if (o.output != NULL && strcmp(o.output, "-") == 0)
		return options_misuse(&compile_program,
				      "-o -: a program cannot be written to standard output: name a file");
	if ((o.output != NULL && output_is_input(compile_program.name, o.output, operands.text[0])) ||
	    (o.emit != NULL && output_is_input(compile_program.name, o.emit, operands.text[0])))
		return OPTIONS_FAILURE;
	return compile_make(operands.text[0], o.output, o.emit) ? OPTIONS_SUCCESS : OPTIONS_FAILURE;
}
