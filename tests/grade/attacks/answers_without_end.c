/* Answers each step with 4 MiB of made-up messages and requests the next step a microsecond later. */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void
attack_read(uint8_t *p, size_t len)
{
	if (len > 0 && recv(0, p, len, MSG_WAITALL) != (ssize_t)len)
		_exit(0);
}

ATTACK
{
	enum { COUNT = 62, LEN = 65000 };
	static uint8_t answer[COUNT * (5 + LEN) + 13], body[1 << 20], head[5];
	uint64_t now = 0;
	uint8_t *p = answer;

	for (unsigned i = 0; i < COUNT; i++, p += 5 + LEN)
		memcpy(p, (const uint8_t[]){ 'd', 0, 0, LEN >> 8, LEN & 255 }, 5);
	memcpy(p, (const uint8_t[]){ 't', 0, 0, 0, 8 }, 5);
	for (;;) {
		size_t len;

		attack_read(head, 5);
		len = (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
		attack_read(body, len);
		if (head[0] == 'T')
			for (unsigned i = now = 0; i < 8; i++)
				now = now << 8 | body[i];
		if (head[0] != 'G')
			continue;
		now += 1000;
		for (unsigned i = 0; i < 8; i++)
			p[5 + i] = (uint8_t)(now >> (56 - 8 * i));
		for (size_t done = 0; done < sizeof(answer);) {
			ssize_t count = send(0, answer + done, sizeof(answer) - done, 0);

			if (count <= 0)
				_exit(0);
			done += (size_t)count;
		}
	}
}
