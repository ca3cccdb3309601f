/* test_switches.c - two threads take turns, and what that took is noted each time. */
#include "tests/test.h"
#include "tools/bench/switches.h"
#include "tools/machine.h"

enum { TURNS = 200 };

TEST(each_turn_has_its_time)
{
	uint32_t ns[TURNS];
	struct switches *s = switches_new(0, 0);

	if (!machine_has_core(0))
		return;
	REQUIRE(s != NULL);
	switches_wake(s, ns, TURNS);
	for (unsigned i = 0; i < TURNS; i++)
		CHECK(ns[i] > 0);
	switches_wake(s, ns, 1); /* and again */
	CHECK(ns[0] > 0);
	switches_free(s);
	CHECK(switches_yield_ns(0) > 0);
}

TEST(a_core_that_may_not_be_used_is_refused)
{
	CHECK(switches_new(0, 100000) == NULL);
	CHECK(switches_new(100000, 0) == NULL);
	CHECK_EQ(switches_yield_ns(100000), 0);
	switches_free(NULL);
}
