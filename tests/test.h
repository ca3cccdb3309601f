/*
 * test.h - how tests are written here, on CUnit: TEST(name_like_a_sentence) { CHECK_EQ(...); }
 * A file of tests is a program: link it with test_main.c. Arguments choose tests by (part of) their names.
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

/* A test that is one call: TEST_OF(name, check_all(XK_IPP, 3)); */
#define TEST_OF(name, call)                                                                                            \
	TEST(name)                                                                                                     \
	{                                                                                                              \
		call;                                                                                                  \
	}                                                                                                              \
	static void name(void)

/*
 * A test of something that `made` makes and `end` ends afterwards, which the test has as `it`:
 * TEST_WITH(name, struct host *h, host_new(), host_free) { ... h->count ... }
 * The test's own variables are gone when it ends: a call that is under way then needs static ones, or a plain TEST.
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

/* The same of a structure that is no pointer: TEST_IN(name, struct stage, s, stage_open(s, true), stage_close) { ... s->count ... } */
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

/* Both sides are shown when they differ. */
#define CHECK_EQ(got, want)                                                                                            \
	do {                                                                                                           \
		long long test_got = (long long)(got), test_want = (long long)(want);                                  \
		if (test_got != test_want)                                                                             \
			fprintf(stderr, "\n%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, test_got,         \
				test_want);                                                                            \
		CU_ASSERT(test_got == test_want);                                                                      \
	} while (0)

/* Of two texts that differ: both, or where they do, if they are long. `of` is the text's expression. */
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

/* A text has this part; of one that has not, the beginning is shown. */
#define CHECK_HAS(text, part)                                                                                          \
	do {                                                                                                           \
		const char *test_text = (text), *test_part = (part);                                                   \
		if (strstr(test_text, test_part) == NULL)                                                              \
			fprintf(stderr, "\n%s:%d: %s has no \"%s\": \"%.160s\"\n", __FILE__, __LINE__, #text,          \
				test_part, test_text);                                                                 \
		CU_ASSERT(strstr(test_text, test_part) != NULL);                                                       \
	} while (0)

/* For what the rest of a test stands on: ends the test when false. */
#define REQUIRE(condition) CU_ASSERT_FATAL(condition)

/* Returns whether tests are to take their long forms: ./run test --long, or XK_TEST_LONG=1. */
static inline bool
test_is_long(void)
{
	const char *given = getenv("XK_TEST_LONG");

	return given != NULL && strcmp(given, "0") != 0;
}

#endif
