/*
 * test_conformance.c - runs packet scripts, each as a test. Arguments: scripts (*.packets) and folders, searched
 * recursively; default: this folder.
 */
#include <CUnit/Basic.h>
#include <CUnit/TestRun.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/script.h"

enum { SCRIPTS_MAX = 2000 };

static const char own_folder[] = CONFORMANCE_ROOT "/tests/conformance";
static const char *const folders[] = { own_folder, CONFORMANCE_ROOT "/graphs", NULL };

static void
run_script(void)
{
	static char why[SCRIPT_WHY];
	bool good = script_run_file(CU_get_current_test()->pName, folders, why);

	if (!good)
		fprintf(stderr, "\n%s\n", why);
	CU_ASSERT(good);
}

static bool
is_script(const char *path)
{
	size_t len = strlen(path);

	return len > 8 && strcmp(path + len - 8, ".packets") == 0;
}

static int
by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Adds every script at and below path as a test. Returns their number. */
static unsigned
add_scripts(CU_pSuite suite, char *path)
{
	char *const roots[] = { path, NULL };
	FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
	unsigned count = 0;
	FTSENT *entry;

	while (tree != NULL && (entry = fts_read(tree)) != NULL)
		if (entry->fts_info == FTS_F && is_script(entry->fts_path))
			count += CU_add_test(suite, entry->fts_path, run_script) != NULL;
	if (tree != NULL)
		fts_close(tree);
	if (count == 0)
		fprintf(stderr, "%s: there is no script\n", path);
	return count;
}

int
main(int argc, char **argv)
{
	char all[] = CONFORMANCE_ROOT "/tests/conformance";
	CU_pSuite suite;
	bool good = true;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (CU_initialize_registry() != CUE_SUCCESS)
		return 1;
	suite = CU_add_suite("packet scripts", NULL, NULL);
	if (argc == 1)
		good = add_scripts(suite, all) > 0;
	for (int i = 1; i < argc; i++)
		good = add_scripts(suite, argv[i]) > 0 && good;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	good = good && CU_get_number_of_tests_failed() == 0 && CU_get_number_of_tests_run() > 0;
	CU_cleanup_registry();
	return !good;
}
