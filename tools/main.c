/* main.c - main of a program that reads graph files: PROGRAM_MAIN is its own. */
#include "tools/program.h"
#include "tools/xk.h"

int
main(int argc, char **argv)
{
	return PROGRAM_MAIN(argc, argv);
}
