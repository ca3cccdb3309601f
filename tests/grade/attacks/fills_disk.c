/* Writes endlessly wherever it can. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

ATTACK
{
	static const char *const places[] = {
		"/", "/tmp", "/dev", "/dev/shm", "/var/tmp", "/run", "/usr", "/proc", WORK
	};
	static char zeros[1 << 20];
	char path[4096];

	for (unsigned n = 0; n < 1000; n++)
		for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			int fd;

			snprintf(path, sizeof(path), "%s/xk-attack-%u", places[i], n);
			fd = open(path, O_CREAT | O_WRONLY, 0666);
			if (fd < 0)
				continue;
			fprintf(stderr, "HARM: %s can be written\n", path);
			while (write(fd, zeros, sizeof(zeros)) > 0)
				continue;
			_exit(1);
		}
}
