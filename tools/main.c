/* main.c - main of a program that reads graph files: PROGRAM_MAIN is its own. */
#include "tools/program.h"
#include "tools/xk.h"

const struct xk_graph_compiled *const program_graph = NULL;

int
main(int argc, char **argv)
{
	return PROGRAM_MAIN(argc, argv);
}
