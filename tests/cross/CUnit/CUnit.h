/*
 * CUnit.h - the parts of CUnit that tests/test.h and tests/test_main.c need, for tests that run under an emulator of
 * another architecture, where CUnit is not installed. One suite; a fatal check ends the program.
 */
#ifndef CUNIT_CROSS_H
#define CUNIT_CROSS_H

#include <stdio.h>
#include <stdlib.h>

enum { CUE_SUCCESS = 0, CUNIT_CROSS_MAX = 512 };

typedef void *CU_pSuite;

/* Each test program has one file of tests and test_main.c: both count failed checks in this symbol. */
extern unsigned cunit_cross_failures;

#define CU_ASSERT(condition)                                                                                           \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			cunit_cross_failures++;                                                                        \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                \
		}                                                                                                      \
	} while (0)

#define CU_ASSERT_FATAL(condition)                                                                                     \
	do {                                                                                                           \
		CU_ASSERT(condition);                                                                                  \
		if (cunit_cross_failures != 0)                                                                         \
			exit(1);                                                                                       \
	} while (0)

#endif
