/* address.c - link addresses generated for ports whose device has none. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "platform/dpdk/dpdk_private.h"
#include "xkernel/bytes.h"

enum { DPDK_ADDRESS_WORD = 160, DPDK_ADDRESS_TEXT = 1024 };

/* Reads the first word of a file; "" if there is none. */
static void
dpdk_address_read(const char *path, char word[DPDK_ADDRESS_WORD])
{
	FILE *file = fopen(path, "re");

	word[0] = '\0';
	if (file != NULL && fscanf(file, "%159s", word) != 1)
		word[0] = '\0';
	if (file != NULL)
		fclose(file);
}

/*
 * No single input is unique among the hosts of a link: clones of a machine share its id and name, its containers share
 * its id and perhaps its name, and every namespace may have a "tap0". No input changes when the program is restarted.
 */
uint64_t
dpdk_address_generate(const char *what)
{
	char machine[DPDK_ADDRESS_WORD], text[DPDK_ADDRESS_TEXT];
	struct stat netns = { .st_ino = 0 };
	struct utsname host = { .nodename = "" };
	uint8_t card[6] = { 0 };

	dpdk_address_read("/etc/machine-id", machine);
	uname(&host);
	if (stat("/proc/thread-self/ns/net", &netns) != 0)
		netns.st_ino = 0;
	dpdk_interface_first(card);
	snprintf(text, sizeof(text), "%s %s %llu %012llx %s", machine, host.nodename, (unsigned long long)netns.st_ino,
		 (unsigned long long)xk_get48(card), what);
	return (uint64_t)0x02 << 40 | (dpdk_hash(text) & 0xfffffffffe);
}

void
dpdk_address_print(uint64_t address, char text[18])
{
	for (unsigned i = 0; i < 6; i++)
		snprintf(text + 3 * i, 4, "%02x%s", (unsigned)(address >> (40 - 8 * i)) & 0xff, i < 5 ? ":" : "");
}
