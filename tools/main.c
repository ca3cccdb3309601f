/* main.c - main of a program that reads graph files: PROGRAM_MAIN is its own. */
#include "tools/lists.h"
#include "tools/options.h"
#include "tools/output.h"
#include "tools/program/program.h"
#include "tools/xk/xk.h"

int
main(int argc, char **argv)
{
	output_begin();
	if (!lists_are_good(argv[0]))
		return OPTIONS_FAILURE;
	return output_finish(PROGRAM_MAIN(argc, argv));
}
