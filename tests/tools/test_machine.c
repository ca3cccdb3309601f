/* test_machine.c - the machine's description is complete and is JSON; costs between two threads are measured. */

#include "tests/test.h"
#include "tools/json.h"
#include "tools/machine.h"

enum { TURNS = 200 };

TEST(machine_is_described)
{
	struct machine machine;

	machine_describe(&machine);
	CHECK(machine.processor[0] != '\0');
	CHECK(strncmp(machine.system, "Linux ", 6) == 0);
	CHECK(machine.cores >= 1);
	for (unsigned i = 0; i < machine.cores; i++) {
		CHECK(machine_core(i) >= 0 && machine_has_core((unsigned)machine_core(i)));
		CHECK(i == 0 || machine_core(i) > machine_core(i - 1));
	}
	CHECK_EQ(machine_core(machine.cores), -1);
}

TEST(a_cache_line_needs_two_cores)
{
	CHECK_EQ(machine_cache_line_ns(0, 0), 0);
	CHECK_EQ(machine_cache_line_ns(0, 100000), 0);
	CHECK(!machine_has_core(100000));
	if (machine_has_core(0) && machine_has_core(1))
		CHECK(machine_cache_line_ns(0, 1) > 0);
}

TEST(each_wake_up_has_its_time)
{
	uint32_t ns[TURNS];

	if (!machine_has_core(0))
		return;
	for (unsigned again = 0; again < 2; again++) {
		memset(ns, 0, sizeof(ns));
		REQUIRE(machine_wake_ns(0, 0, ns, TURNS));
		for (unsigned i = 0; i < TURNS; i++)
			CHECK(ns[i] > 0);
	}
	CHECK(machine_yield_ns(0) > 0);
}

TEST(forbidden_core_is_refused)
{
	uint32_t ns;

	CHECK(!machine_wake_ns(0, 100000, &ns, 1));
	CHECK(!machine_wake_ns(100000, 0, &ns, 1));
	CHECK_EQ(machine_yield_ns(100000), 0);
}

TEST(missing_measurements_are_null)
{
	struct machine machine;
	struct json json;
	size_t len;
	char *text;
	FILE *out = open_memstream(&text, &len);

	machine_describe(&machine);
	machine.line_ns[0] = 77;
	json_begin(&json, out);
	machine_json(&machine, &json, NULL);
	CHECK(json_end(&json));
	fclose(out);
	CHECK_HAS(text, "\"before\": 77");
	CHECK_HAS(text, "\"after\": null");
	free(text);
}
