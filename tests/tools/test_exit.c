/* test_exit.c - a test program fails if a test, or the code under test, calls exit. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#define VARIABLE "TEST_EXIT"

TEST(exit_in_a_test_is_a_failure)
{
	int status = 0;
	pid_t child;

	if (getenv(VARIABLE) != NULL)
		exit(0);
	child = fork();
	if (child == 0) {
		setenv(VARIABLE, "yes", 1);
		execl("/proc/self/exe", "test_exit", (char *)NULL);
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}
