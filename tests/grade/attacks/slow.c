/* Answers each step slowly but in time, and ends before it is given up. */
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

ATTACK
{
	static uint8_t body[1 << 20], head[5];

	for (unsigned steps = 0; recv(0, head, 5, MSG_WAITALL) == 5;) {
		size_t len = (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];

		if (len > 0 && recv(0, body, len, MSG_WAITALL) != (ssize_t)len)
			break;
		if (head[0] != 'G')
			continue;
		usleep(400000);
		if (++steps == 2)
			break;
		send(0, "t\0\0\0\x08\xff\xff\xff\xff\xff\xff\xff\xff", 13, 0);
	}
	_exit(3);
}
