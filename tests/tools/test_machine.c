/* test_machine.c - the machine's description is filled in and is JSON. */
#include <stdlib.h>

#include "tests/test.h"
#include "tools/json.h"
#include "tools/machine.h"

TEST(the_machine_is_described)
{
	struct machine machine;

	machine_describe(&machine);
	CHECK(machine.processor[0] != '\0');
	CHECK(strncmp(machine.system, "Linux ", 6) == 0);
	CHECK(machine.cores >= 1);
}

TEST(a_cache_line_needs_two_cores)
{
	CHECK_EQ(machine_cache_line_ns(0, 0), 0);
	CHECK_EQ(machine_cache_line_ns(0, 100000), 0);
	CHECK(!machine_has_core(100000));
	if (machine_has_core(0) && machine_has_core(1))
		CHECK(machine_cache_line_ns(0, 1) > 0);
}

TEST(what_was_not_measured_is_null)
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
	CHECK(strstr(text, "\"before\": 77") != NULL);
	CHECK(strstr(text, "\"after\": null") != NULL);
	free(text);
}
