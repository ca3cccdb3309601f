/*
 * test.h - macros for tests, on CUnit: TEST(name_like_a_sentence) { CHECK_EQ(...); }
 * Each file of tests is a program, linked with test_main.c. Arguments select tests by (part of) their names.
 */
#ifndef TEST_H
#define TEST_H

#include <CUnit/CUnit.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds a test to the program's only suite; called by TEST before main. */
void test_register(const char *name, void (*run)(void));

#define TEST(name)                                                                                                     \
	static void name(void);                                                                                        \
	__attribute__((constructor)) static void register_##name(void)                                                 \
	{                                                                                                              \
		test_register(#name, name);                                                                            \
	}                                                                                                              \
	static void name(void)

/* A test of a single call: TEST_OF(name, check_all(XK_IPP, 3)); */
#define TEST_OF(name, call)                                                                                            \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		call;                                                                                                  \
	}                                                                                                              \
	static void name(void)

/*
 * A test on an object `it` that is initialized by `made` and freed by `end`:
 * TEST_WITH(name, struct host *h, host_new(), host_free) { ... h->count ... }
 * `end` runs after the test has returned: calls still in progress then need static variables, or a plain TEST.
 */
#define TEST_WITH(name, it, made, end)                                                                                 \
	static void name(it);                                                                                          \
	static void name##_from_making_to_end(void)                                                                    \
	{                                                                                                              \
		__auto_type test_it = (made);                                                                          \
		name(test_it);                                                                                         \
		end(test_it);                                                                                          \
	}                                                                                                              \
	__attribute__((constructor)) static void register_##name(void)                                                 \
	{                                                                                                              \
		test_register(#name, name##_from_making_to_end);                                                       \
	}                                                                                                              \
	static void name(it)

/* The same with a local structure: TEST_IN(name, struct stage, s, stage_open(s), stage_close) { ... s->count ... } */
#define TEST_IN(name, type, it, made, end)                                                                             \
	static void name(type *it);                                                                                    \
	static void name##_from_making_to_end(void)                                                                    \
	{                                                                                                              \
		type test_it, *it = &test_it;                                                                          \
		made;                                                                                                  \
		name(it);                                                                                              \
		end(it);                                                                                               \
	}                                                                                                              \
	__attribute__((constructor)) static void register_##name(void)                                                 \
	{                                                                                                              \
		test_register(#name, name##_from_making_to_end);                                                       \
	}                                                                                                              \
	static void name(type *it)

#define CHECK(condition) CU_ASSERT(condition)

/* Prints both values if they differ. */
#define CHECK_EQ(got, want)                                                                                            \
	do {                                                                                                           \
		long long test_got = (long long)(got), test_want = (long long)(want);                                  \
		if (test_got != test_want)                                                                             \
			fprintf(stderr, "\n%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, test_got,         \
				test_want);                                                                            \
		CU_ASSERT(test_got == test_want);                                                                      \
	} while (0)

/* Prints two texts that differ; if they are long, only around the difference. `of` is the text's expression. */
static inline void
test_show_texts(const char *file, int line, const char *of, const char *got, const char *want)
{
	size_t same = 0;

	while (got[same] != '\0' && got[same] == want[same])
		same++;
	if (strlen(got) < 160 && strlen(want) < 160) {
		fprintf(stderr, "\n%s:%d: %s is \"%s\", not \"%s\"\n", file, line, of, got, want);
	} else {
		same -= same < 20 ? same : 20;
		fprintf(stderr, "\n%s:%d: %s has \"%.60s\" from byte %zu on, not \"%.60s\"\n", file, line, of,
			got + same, same, want + same);
	}
}

#define CHECK_STR(got, want)                                                                                           \
	do {                                                                                                           \
		const char *test_got = (got), *test_want = (want);                                                     \
		if (strcmp(test_got, test_want) != 0)                                                                  \
			test_show_texts(__FILE__, __LINE__, #got, test_got, test_want);                                \
		CU_ASSERT(strcmp(test_got, test_want) == 0);                                                           \
	} while (0)

/* Checks that text contains part; otherwise prints the beginning of text. */
#define CHECK_HAS(text, part)                                                                                          \
	do {                                                                                                           \
		const char *test_text = (text), *test_part = (part);                                                   \
		if (strstr(test_text, test_part) == NULL)                                                              \
			fprintf(stderr, "\n%s:%d: %s has no \"%s\": \"%.160s\"\n", __FILE__, __LINE__, #text,          \
				test_part, test_text);                                                                 \
		CU_ASSERT(strstr(test_text, test_part) != NULL);                                                       \
	} while (0)

/* A check that the rest of the test depends on: ends the test if false. */
#define REQUIRE(condition) CU_ASSERT_FATAL(condition)

/* Returns true if tests are to run in their long form: ./run test --long, or XK_TEST_LONG=1. */
static inline bool
test_is_long(void)
{
	const char *given = getenv("XK_TEST_LONG");

	return given != NULL && strcmp(given, "0") != 0;
}

#endif
