/* test_main.c - runs the tests of the file it is linked with; exit status 0 only if all passed and nothing leaked. */
#include <CUnit/Basic.h>
#include <unistd.h>

#include "tests/test.h"

enum { TEST_MAX = 512 };

static struct {
	const char *name;
	void (*run)(void);
} tests[TEST_MAX];
static unsigned test_count;
static pid_t running; /* this process while its tests run, else 0 */

void
test_register(const char *name, void (*run)(void))
{
	if (test_count == TEST_MAX)
		abort();
	tests[test_count].name = name;
	tests[test_count++].run = run;
}

static bool
is_chosen(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strstr(name, argv[i]) != NULL)
			return true;
	return argc == 1;
}

/* Fails if tested code has called exit. A test's child may. */
static void
at_exit(void)
{
	if (running != getpid())
		return;
	fprintf(stderr, "exit() was called during a test\n");
	_exit(1);
}

int
main(int argc, char **argv)
{
	unsigned failed;
	CU_pSuite suite;

	/* Unbuffered: a test's name is printed even if the test ends the program. */
	setvbuf(stdout, NULL, _IONBF, 0);
	if (CU_initialize_registry() != CUE_SUCCESS)
		return 1;
	suite = CU_add_suite(argv[0], NULL, NULL);
	for (unsigned i = 0; i < test_count; i++)
		if (is_chosen(tests[i].name, argc, argv))
			CU_add_test(suite, tests[i].name, tests[i].run);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	running = getpid();
	if (atexit(at_exit) != 0)
		return 1;
	CU_basic_run_tests();
	running = 0;
	failed = CU_get_number_of_tests_failed() + CU_get_number_of_suites_failed();
	if (CU_get_number_of_tests_run() == 0) {
		fprintf(stderr, "%s: no test has run\n", argv[0]);
		failed++;
	}
	CU_cleanup_registry();
	/* A failed test may have ended early: reports of its leaks would only hide the failure. */
	if (failed != 0)
		_exit(1);
	return 0;
}
