/* http_file.c - the folder's files. Nothing in it is written, and nothing outside of it is reached. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "protocols/http/http_private.h"

/* Of openat2, for systems without <linux/openat2.h>. */
struct file_how {
	uint64_t flags, mode, resolve;
};

enum { FILE_NO_MAGIC = 0x02, FILE_NO_LINKS = 0x04, FILE_BENEATH = 0x08 };

/* Does not wait, not even for a FIFO's writer. Returns a descriptor, or -errno. */
static int
file_open(int folder, const char *name, int flags)
{
	struct file_how how = { .flags = (uint64_t)(flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
				.resolve = FILE_NO_MAGIC | FILE_NO_LINKS | FILE_BENEATH };
	long file = syscall(SYS_openat2, folder, name, &how, sizeof(how));

	return file < 0 ? -errno : (int)file;
}

int
http_folder_open(const char *name)
{
	int folder = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC), probe;

	if (folder < 0)
		return -errno;
	probe = file_open(folder, ".", O_DIRECTORY);
	if (probe >= 0) {
		close(probe);
		return folder;
	}
	close(folder);
	return probe;
}

unsigned
http_file_open(int folder, const char *path, uint64_t max, int *file, uint64_t *len)
{
	struct stat about;
	unsigned why;

	*file = path[1] == '\0' ? -ENOENT : file_open(folder, path + 1, 0);
	if (*file < 0)
		return *file == -EMFILE || *file == -ENFILE || *file == -ENOMEM ? HTTP_BUSY : HTTP_NOT_FOUND;
	why = fstat(*file, &about) != 0 || !S_ISREG(about.st_mode) ? HTTP_NOT_FOUND
	      : (uint64_t)about.st_size > max                      ? HTTP_LARGE_FILE
								   : HTTP_REFUSALS;
	if (why == HTTP_REFUSALS)
		*len = (uint64_t)about.st_size;
	else
		close(*file);
	return why;
}
