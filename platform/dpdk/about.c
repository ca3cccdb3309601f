/* about.c - which DPDK this is, and what its installation has. Does not start it. */
#include <dirent.h>
#include <rte_version.h>
#include <stdio.h>
#include <string.h>

#include "platform/dpdk/dpdk.h"

const char *
xk_dpdk_version(void)
{
	return rte_version();
}

bool
xk_dpdk_has_driver(const char *name)
{
	bool found = false;
	char prefix[80];
	struct dirent *entry;
	DIR *directory = opendir(RTE_EAL_PMD_PATH);

	if (directory == NULL)
		return true;
	snprintf(prefix, sizeof(prefix), "librte_%s.so", name);
	while (!found && (entry = readdir(directory)) != NULL)
		found = strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
	closedir(directory);
	return found;
}
