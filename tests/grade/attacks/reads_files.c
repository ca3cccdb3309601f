/* Reads forbidden files: the grader's, the instructor's, the machine's. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ATTACK
{
	static const char *const files[] = { WORK "/key",
					     INSTRUCTOR "/key",
					     INSTRUCTOR "/answers/mark.c",
					     ROOT "/run",
					     "/etc/passwd",
					     "/etc/hostname",
					     "/proc/1/root/etc/passwd",
					     "/proc/self/root/etc/passwd",
					     "/root",
					     "/home",
					     "/sys",
					     "/var",
					     "/student",
					     "/xk",
					     "/libxkernel.a" };
	DIR *directory = opendir("/proc");
	unsigned processes = 0;

	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (open(files[i], O_RDONLY) >= 0)
			fprintf(stderr, "HARM: %s can be read\n", files[i]);
	for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory))
		processes += atoi(entry->d_name) > 0;
	if (processes > 3)
		fprintf(stderr, "HARM: %u processes can be seen\n", processes);
	if (getenv("HOME") != NULL || getenv("USER") != NULL)
		fprintf(stderr, "HARM: the grader's environment can be seen\n");
	_exit(1);
}
