/* test_json.c - the output is JSON whatever the strings contain. */
#include <math.h>

#include "tests/test.h"
#include "tools/json.h"

static struct {
	char *text;
	size_t len;
	FILE *out;
	struct json json;
} doc;

static void
doc_begin(void)
{
	doc.out = open_memstream(&doc.text, &doc.len);
	json_begin(&doc.json, doc.out);
}

static void
doc_is(const char *want)
{
	CHECK(json_end(&doc.json));
	fclose(doc.out);
	CHECK_STR(doc.text, want);
	free(doc.text);
}

TEST(nested_values_get_their_commas)
{
	doc_begin();
	json_object(&doc.json, NULL);
	json_uint(&doc.json, "n", UINT64_MAX);
	json_array(&doc.json, "list");
	json_uint(&doc.json, NULL, 1);
	json_bool(&doc.json, NULL, true);
	json_object(&doc.json, NULL);
	json_close(&doc.json);
	json_close(&doc.json);
	json_null(&doc.json, "none");
	json_close(&doc.json);
	doc_is("{\n  \"n\": 18446744073709551615,\n  \"list\": [\n    1,\n    true,\n    {}\n  ],\n  \"none\": "
	       "null\n}\n");
}

TEST(strings_are_escaped)
{
	doc_begin();
	json_string(&doc.json, NULL, "a\"b\\c\nd\te\x01\x7f\xc2\x9b");
	doc_is("\"a\\\"b\\\\c\\nd\\te\\u0001\\u007f\\u009b\"\n");
	doc_begin();
	json_string(&doc.json, NULL, "</script><!--");
	doc_is("\"\\u003c/script>\\u003c!--\"\n");
}

TEST(utf8_passes_and_other_bytes_are_replaced)
{
	doc_begin();
	json_string(&doc.json, NULL, "\xc3\xb6\xe2\x82\xac\xf0\x9f\x98\x80");
	doc_is("\"\xc3\xb6\xe2\x82\xac\xf0\x9f\x98\x80\"\n");
	doc_begin();
	json_string(&doc.json, NULL, "\xff\xc0\x80\xed\xa0\x80\xe2\x82");
	doc_is("\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"\n");
}

TEST(nan_and_infinity_become_null)
{
	doc_begin();
	json_array(&doc.json, NULL);
	json_double(&doc.json, NULL, 0.25);
	json_double(&doc.json, NULL, NAN);
	json_double(&doc.json, NULL, INFINITY);
	json_string(&doc.json, NULL, NULL);
	json_close(&doc.json);
	doc_is("[\n  0.25,\n  null,\n  null,\n  null\n]\n");
}

TEST(failing_stream_is_reported)
{
	struct json json;
	FILE *full = fopen("/dev/full", "w");

	REQUIRE(full != NULL);
	json_begin(&json, full);
	json_uint(&json, NULL, 1);
	CHECK(!json_end(&json));
	fclose(full);
}
