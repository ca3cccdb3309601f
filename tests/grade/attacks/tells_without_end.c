/* Writes an endless trace and journey of the records that take most memory to read. */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

ATTACK
{
	enum { LEN = 60000, COUNT = 1000 };
	static const char begin[] = "{\"k\":\"say\",\"t\":1,\"text\":[0";
	static uint8_t record[5 + LEN] = { 'j', 0, 0, LEN >> 8, LEN & 255 };

	memset(record + 5, ' ', LEN);
	memcpy(record + 5, begin, sizeof(begin) - 1);
	for (size_t i = 5 + sizeof(begin) - 1; i + 6 < sizeof(record); i += 3)
		memcpy(record + i, ",[]", 3);
	memcpy(record + sizeof(record) - 3, "]}\n", 3);
	for (unsigned i = 0; i < COUNT; i++) {
		record[0] = i % 2 != 0 ? 'j' : 's';
		for (size_t done = 0; done < sizeof(record);) {
			ssize_t count = send(0, record + done, sizeof(record) - done, 0);

			if (count <= 0)
				_exit(0);
			done += (size_t)count;
		}
	}
	_exit(1);
}
