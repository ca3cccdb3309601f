/*
 * workload.c - a computation to run beside an exchange of messages: multiplies matrices in tiles, so that the processor limits
 * it and not memory. Prints its duration; the program that starts it chooses core and priority.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/json.h"
#include "tools/options.h"

enum { WORKLOAD_SIZE = 256, WORKLOAD_TILE = 32 };

struct workload_options {
	uint64_t times;
	bool json;
};

static const struct options_option workload_options[] = {
	{ "times", OPTIONS_NUMBER, offsetof(struct workload_options, times), "N",
	  "multiplications; 0: until it is killed (1)", 0, UINT32_MAX, NULL },
	{ "json", OPTIONS_FLAG, offsetof(struct workload_options, json), NULL, "JSON on standard output", 0, 0, NULL },
	{ .name = NULL },
};

static const struct options_program workload_program = {
	.name = "workload",
	.usage = "[OPTION]...",
	.about = "Multiplies two matrices of 256 by 256 in tiles, again and again.",
	.options = workload_options,
};

static double workload_a[WORKLOAD_SIZE][WORKLOAD_SIZE], workload_b[WORKLOAD_SIZE][WORKLOAD_SIZE];
static double workload_c[WORKLOAD_SIZE][WORKLOAD_SIZE];

/* Adds to the tile of c at (row, column) the product of a's tile at (row, at) and b's at (at, column). */
static void
workload_tile(unsigned row, unsigned column, unsigned at)
{
	for (unsigned i = row; i < row + WORKLOAD_TILE; i++)
		for (unsigned k = at; k < at + WORKLOAD_TILE; k++)
			for (unsigned j = column; j < column + WORKLOAD_TILE; j++)
				workload_c[i][j] += workload_a[i][k] * workload_b[k][j];
}

static void
workload_multiply(void)
{
	memset(workload_c, 0, sizeof(workload_c));
	for (unsigned row = 0; row < WORKLOAD_SIZE; row += WORKLOAD_TILE)
		for (unsigned column = 0; column < WORKLOAD_SIZE; column += WORKLOAD_TILE)
			for (unsigned at = 0; at < WORKLOAD_SIZE; at += WORKLOAD_TILE)
				workload_tile(row, column, at);
}

static double
workload_now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int
main(int argc, char **argv)
{
	struct workload_options o = { .times = 1 };
	struct options_texts operands;
	double begun_s, seconds, sum = 0;
	struct json json;
	int status = options_parse(&workload_program, argc, argv, &o, &operands);

	if (status != OPTIONS_GO)
		return status;
	for (unsigned i = 0; i < WORKLOAD_SIZE * WORKLOAD_SIZE; i++) {
		(&workload_a[0][0])[i] = i % 7;
		(&workload_b[0][0])[i] = i % 11;
	}
	begun_s = workload_now_s();
	for (uint64_t i = 0; o.times == 0 || i < o.times; i++)
		workload_multiply();
	seconds = workload_now_s() - begun_s;
	for (unsigned i = 0; i < WORKLOAD_SIZE; i++)
		sum += workload_c[i][i];
	if (!o.json) {
		printf("%.3f s; the trace is %.0f\n", seconds, sum);
		return OPTIONS_SUCCESS;
	}
	json_begin(&json, stdout);
	json_object(&json, NULL);
	json_uint(&json, "times", o.times);
	json_double(&json, "seconds", seconds);
	json_double(&json, "trace", sum);
	json_close(&json);
	json_end(&json);
	return OPTIONS_SUCCESS;
}
