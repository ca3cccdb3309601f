/* Reports made-up frames and messages of any length to the grader, and endless timers. */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

ATTACK
{
	static const uint8_t lies[] = "f\0\0\0\0f\0\0\0\5short"
				      "d\0\0\0\0d\0\0\0\3abcd\0\0\0\10\12\115\0\1marks"
				      "r\0\0\0\4\0\0\0\0r\0\0\0\0e\0\0\0\4\12\115\0\1e\0\0\0\1x"
				      "t\0\0\0\10\0\0\0\0\0\0\0\0";

	while (send(0, lies, sizeof(lies) - 1, 0) > 0)
		continue;
}
