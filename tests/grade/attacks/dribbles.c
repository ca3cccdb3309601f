/* Answers a byte at a time, so the answer neither ends nor stalls. */
#include <sys/socket.h>
#include <unistd.h>

ATTACK
{
	send(0, "f\0\0\xff\xff", 5, 0);
	while (send(0, "x", 1, 0) > 0)
		usleep(10000);
}
