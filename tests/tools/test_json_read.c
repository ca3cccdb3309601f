/* test_json_read.c - JSON is read, and what is none is refused, whatever its bytes are. */
#include <stdlib.h>

#include "tests/random.h"
#include "tests/test.h"
#include "tools/json_read.h"

static struct {
	char *text;
	struct json_value *root;
	const char *why;
} doc;

static const struct json_value *
doc_read(const char *text)
{
	doc.text = strdup(text);
	REQUIRE(doc.text != NULL);
	doc.root = json_read(doc.text, strlen(text), &doc.why);
	return doc.root;
}

static void
doc_end(void)
{
	json_read_free(doc.root);
	free(doc.text);
}

static void
is_refused(const char *text, const char *why)
{
	CHECK(doc_read(text) == NULL);
	CHECK_STR(doc.why == NULL ? "nothing" : doc.why, why);
	doc_end();
}

TEST(values_are_found_by_their_keys)
{
	const struct json_value *root = doc_read(
					" {\"a\": 18446744073709551615, \"b\": {\"c\": [1, \"two\", null, true]}}\n"),
				*c;

	REQUIRE(root != NULL);
	CHECK(json_member(root, "a")->number == UINT64_MAX);
	c = json_member(json_member(root, "b"), "c");
	CHECK_EQ(c->kind, JSON_ARRAY);
	CHECK_EQ(c->first->number, 1);
	CHECK_STR(c->first->next->string, "two");
	CHECK_EQ(c->first->next->next->kind, JSON_NULL);
	CHECK_EQ(c->first->next->next->next->number, 1);
	CHECK_EQ(json_member(root, "d")->kind, JSON_NULL);
	CHECK_EQ(json_member(json_member(root, "a"), "d")->number, 0);
	CHECK_STR(json_member(json_member(root, "b"), "nothing")->string, "");
	doc_end();
}

TEST(strings_hold_no_control_characters)
{
	const struct json_value *root = doc_read("[\"\\u001b[2J\\n\\u0041\\\\\\\"\\u20ac\\ud800\\u0000\x7f\"]");

	REQUIRE(root != NULL);
	CHECK_STR(root->first->string, "?[2J?A\\\"\xe2\x82\xac???");
	doc_end();
}

TEST(what_is_no_document_is_refused)
{
	is_refused("", "a value is missing");
	is_refused("{", "a string is missing");
	is_refused("[1", "a comma is missing");
	is_refused("[1,", "a value is missing");
	is_refused("[1 2]", "a comma is missing");
	is_refused("{\"a\" 1}", "a colon is missing");
	is_refused("{1: 1}", "a string is missing");
	is_refused("[\"a", "a string does not end");
	is_refused("[\"a\nb\"]", "a string does not end");
	is_refused("[\"\\x\"]", "an escape that is none");
	is_refused("[\"\\u12g4\"]", "an escape that is none");
	is_refused("[\"\\u12", "an escape that is none");
	is_refused("[\"\\", "an escape that is none");
	is_refused("[1] 2", "something follows the document");
	is_refused("nul", "a value is missing");
	is_refused("-1", "a value is missing");
	is_refused("1.5", "a number is not whole");
	is_refused("18446744073709551616", "a number is too large");
}

TEST(nesting_is_bounded)
{
	char text[100] = "";

	for (unsigned i = 0; i < JSON_READ_DEPTH; i++)
		text[i] = '[', text[2 * JSON_READ_DEPTH - 1 - i] = ']';
	CHECK(doc_read(text) != NULL);
	doc_end();
	memset(text, '[', sizeof(text) - 1);
	is_refused(text, "it is nested too deep");
}

/* A document of which bytes are changed or cut away: read or refused, and nothing is lost. */
TEST(hostile_documents_are_read_or_refused)
{
	static const char good[] =
		"{\"host\": \"a\\u0041b\", \"edges\": [{\"up\": {\"ns\": 12}}, {}], \"x\": [true, null]}";
	static const char bytes[] = "{}[]\",:\\u0123ntf e.-\x01\xff";
	uint64_t random = 1;
	unsigned refused = 0;

	for (unsigned i = 0; i < 20000; i++) {
		char text[sizeof(good)];
		size_t len = i % 3 == 0 ? next_random(&random) % (sizeof(good)) : sizeof(good) - 1;

		memcpy(text, good, len);
		text[len] = '\0';
		for (unsigned k = 0; k < i % 4 && len > 0; k++)
			text[next_random(&random) % (len)] = bytes[next_random(&random) % (sizeof(bytes) - 1)];
		refused += doc_read(text) == NULL;
		doc_end();
	}
	CHECK(refused > 1000 && refused < 20000);
}
