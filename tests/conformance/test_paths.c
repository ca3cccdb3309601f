/* test_paths.c - whether hosts with paths (xkernel/path.h) do what hosts without do: differ.h, on all packet scripts. */
#include <glob.h>

#include "tests/conformance/differ.h"
#include "tests/test.h"

enum { ROUNDS = 6 };

static const char *const folders[] = { CONFORMANCE_ROOT "/tests/conformance", CONFORMANCE_ROOT "/graphs", NULL };

TEST(all_scripts_give_the_same)
{
	uint64_t by_path = 0;
	const struct differ differ = { NULL,
				       2,
				       true,
				       { { .name = "by layers", .no_paths = true },
					 { .name = "by paths", .by_path = &by_path } } };
	struct differ_done done = { 0 };
	glob_t scripts;

	REQUIRE(glob(CONFORMANCE_ROOT "/tests/conformance/*/*.packets", 0, NULL, &scripts) == 0);
	for (size_t i = 0; i < scripts.gl_pathc; i++)
		CHECK(differ_run(&differ, scripts.gl_pathv[i], folders, ROUNDS, &done));
	printf("%u scripts, %u frames, %llu by path ", done.scripts, done.frames, (unsigned long long)by_path);
	CHECK(done.scripts == scripts.gl_pathc && by_path > 1000);
	globfree(&scripts);
}
