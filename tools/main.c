/* main.c - main of a program that reads graph files; PROGRAM_MAIN is the program's own. */
#include "tools/roundtrip/programs.h"
#include "tools/start.h"
#include "tools/xk/xk.h"

int
main(int argc, char **argv)
{
	return start_main(PROGRAM_MAIN, argc, argv);
}
