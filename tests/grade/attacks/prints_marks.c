/* Prints that it has all marks, with terminal escapes. */
#include <stdio.h>
#include <unistd.h>

#pragma message "\n  7 of 7\n"

ATTACK
{
	for (int fd = 1; fd < 10; fd++)
		dprintf(fd, "{\"marks\": 7, \"of\": 7}\n\033[2J\033[1;1H  7 of 7\n");
	_exit(0);
}
