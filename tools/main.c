/* main.c - main of a program that reads graph files: PROGRAM_MAIN is its own. */
#include "tools/output.h"
#include "tools/program.h"
#include "tools/xk.h"

int
main(int argc, char **argv)
{
	output_begin();
	return output_finish(PROGRAM_MAIN(argc, argv));
}
