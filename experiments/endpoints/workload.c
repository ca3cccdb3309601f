/*
 * workload.c - a computation to run beside an exchange of messages: multiplies matrices in tiles, so that the
 * processor, not memory, limits it. Prints its duration, and in JSON also the time of a multiplication in each fifth of
 * the run. The caller chooses its core and priority.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/json.h"
#include "tools/options.h"

enum { WORKLOAD_SIZE = 256, WORKLOAD_TILE = 32, WORKLOAD_PARTS = 5 };

struct workload_options {
	uint64_t times;
	bool json;
};

static const struct options_option workload_options[] = {
	OPTION(NUMBER, struct workload_options, times, "times", "N", "multiplications; 0: until killed (1)",
	       .max = UINT32_MAX),
	OPTION(FLAG, struct workload_options, json, "json", NULL, "JSON on standard output"),
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

/*
 * Multiplies `times` times (0: until killed). Stores the seconds per multiplication for each part; returns the number
 * of parts.
 */
static unsigned
workload_compute(uint64_t times, double *each_s)
{
	unsigned parts = times < WORKLOAD_PARTS ? (unsigned)times : WORKLOAD_PARTS;

	while (times == 0)
		workload_multiply();
	for (unsigned part = 0; part < parts; part++) {
		uint64_t count = times * (part + 1) / parts - times * part / parts;
		double begun_s = workload_now_s();

		for (uint64_t i = 0; i < count; i++)
			workload_multiply();
		each_s[part] = (workload_now_s() - begun_s) / (double)count;
	}
	return parts;
}

int
main(int argc, char **argv)
{
	struct workload_options o = { .times = 1 };
	struct options_texts operands;
	double begun_s, seconds, each_s[WORKLOAD_PARTS], sum = 0;
	unsigned parts;
	struct json json;
	int status = options_parse(&workload_program, argc, argv, &o, &operands);

	if (status != OPTIONS_GO)
		return status;
	for (unsigned i = 0; i < WORKLOAD_SIZE * WORKLOAD_SIZE; i++) {
		(&workload_a[0][0])[i] = i % 7;
		(&workload_b[0][0])[i] = i % 11;
	}
	begun_s = workload_now_s();
	parts = workload_compute(o.times, each_s);
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
	json_array(&json, "each_s");
	for (unsigned i = 0; i < parts; i++)
		json_double(&json, NULL, each_s[i]);
	json_close(&json);
	json_double(&json, "trace", sum);
	json_close(&json);
	json_end(&json);
	return OPTIONS_SUCCESS;
}
