/* xk_compile.c - `xk compile [GRAPH] -o PROGRAM`; the work is in program_compile.c. */
#include <string.h>

#include "tools/options.h"
#include "tools/output.h"
#include "tools/program/program_compile.h"
#include "tools/xk/xk.h"

struct compile_options {
	const char *output;
	struct options_texts with;
};

static const struct options_option compile_options[] = {
	OPTION(TEXT, struct compile_options, output, "output", "PROGRAM",
	       "or -o PROGRAM: the output; NAME.o: an object for a program of your own"),
	OPTION(TEXT_ANY, struct compile_options, with, "with", "NAME.c",
	       "a protocol of your own, or a part of one; may be given many times"),
	{ .name = NULL },
};

static const struct options_program compile_program = {
	.name = "xk compile",
	.usage = "[GRAPH] -o PROGRAM [--with NAME.c]...",
	.about = "Makes a program with the graph inside, and with protocols of your own. PROGRAM --help shows what it "
		 "can\n"
		 "do. Without GRAPH it is an xk with these protocols; a link to it named udptest, chantest, tcptest,\n"
		 "icmptest or logp runs that program.\n"
		 "Exit status 1: the graph is refused, or cannot be compiled.",
	.options = compile_options,
	.operands_max = 1,
	.reads_operands = true,
};

int
xk_compile_main(int argc, char **argv)
{
	struct compile_options o = { .output = NULL };
	struct options_texts operands;
	int status = options_parse(&compile_program, argc, argv, &o, &operands);

	if (status != OPTIONS_GO)
		return status;
	if (o.output == NULL)
		return options_misuse(&compile_program, "-o PROGRAM is missing");
	if (strcmp(o.output, "-") == 0)
		return options_misuse(&compile_program,
				      "-o -: a program cannot be written to standard output: specify a file");
	if (operands.count == 0 && o.with.count == 0)
		return options_misuse(&compile_program, "neither a graph nor a protocol is given");
	if (operands.count > 0 && output_is_input(compile_program.name, o.output, operands.text[0]))
		return OPTIONS_FAILURE;
	for (unsigned i = 0; i < o.with.count; i++)
		if (output_is_input(compile_program.name, o.output, o.with.text[i]))
			return OPTIONS_FAILURE;
	return compile_to_file(operands.count > 0 ? operands.text[0] : NULL, &o.with, o.output) ? OPTIONS_SUCCESS
												: OPTIONS_FAILURE;
}
