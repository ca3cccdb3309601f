/* Reports a message of four gigabytes to the grader. */
#include <stdint.h>
#include <sys/socket.h>

ATTACK
{
	static uint8_t zeros[1 << 16];

	send(0, "d\xff\xff\xff\xff", 5, 0);
	while (send(0, zeros, sizeof(zeros), 0) > 0)
		continue;
}
