/*
 * test_pair.c - pairs driven from here: ends in this process, and ends as processes (this program again, see
 * `be_an_end`) that answer, fail, fall silent and die.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"
#include "tools/host/host_pair.h"

/* ---- an end whose behaviour depends on the size of a block ---- */

enum { SIZE_GOOD, SIZE_FAILS, SIZE_DIES, SIZE_EXITS, SIZE_WAITS };

static struct pair_setup last_setup;
static uint64_t asked;
static const char *far_argument; /* argument of the server started by pair->far */

static int
end_setup(void *end, const struct pair_setup *setup, char *why, size_t why_len)
{
	last_setup = *setup;
	if (setup->threads != 99)
		return 0;
	snprintf(why, why_len, "99 are too many");
	return -EINVAL;
}

static void
end_counts(void *end, struct pair_counts *counts)
{
	counts->messages = ++asked;
	counts->frames = last_setup.threads;
	if (far_argument != NULL)
		pair_counts_drop(counts, far_argument, 1);
	pair_counts_drop(counts, "ip.short", asked);
}

static bool
end_run(void *end, const struct pair_block *block, struct pair_result *result, int stop)
{
	char byte;

	if (block->size == SIZE_DIES)
		raise(SIGKILL);
	if (block->size == SIZE_EXITS)
		_exit(3);
	if (block->size == SIZE_WAITS)
		return read(stop, &byte, 1) < -1;
	if (block->size == SIZE_FAILS) {
		result->error = -EIO;
		snprintf(result->why, sizeof(result->why), "it went wrong");
	}
	for (uint64_t i = 0; i < block->rounds; i++)
		histogram_add(&result->rtt, i);
	result->rounds = block->rounds;
	return true;
}

static const struct pair_end_ops ops = { .setup = end_setup, .counts = end_counts, .run = end_run };

/* Runs this program as an end if pair_start has started it as one. */
__attribute__((constructor)) static void
be_an_end(int argc, char **argv)
{
	if (argc < 3 || strncmp(argv[1], "--control=", 10) != 0)
		return;
	if (argc > 3 && strcmp(argv[3], "broken") == 0)
		_exit(2);
	if (argc > 4 && strncmp(argv[3], "--answer=", 9) == 0)
		far_argument = argv[4];
	_exit(pair_serve(atoi(argv[1] + 10), &ops, NULL));
}

/* ---- captured output ---- */

static char output[8192];
static int output_file, said_stderr;

static void
listen_to_stderr(void)
{
	output_file = memfd_create("output", 0);
	fflush(stderr);
	said_stderr = dup(STDERR_FILENO);
	dup2(output_file, STDERR_FILENO);
}

static bool
was_printed(const char *text)
{
	ssize_t len;

	fflush(stderr);
	len = pread(output_file, output, sizeof(output) - 1, 0);
	output[len < 0 ? 0 : len] = '\0';
	dup2(said_stderr, STDERR_FILENO);
	close(said_stderr);
	close(output_file);
	if (strstr(output, text) == NULL)
		fprintf(stderr, "\nprinted: %s", output);
	return strstr(output, text) != NULL;
}

static char *words[] = { (char *)"test_pair", (char *)"good", NULL };
static char *broken_words[] = { (char *)"test_pair", (char *)"broken", NULL };

static void
start(struct pair *pair)
{
	pair_init(pair, "test", -1);
	REQUIRE(pair_start(pair, 2, words) == 0);
}

static int
run(struct pair *pair, uint32_t size, struct pair_result *result)
{
	struct pair_block block = { .size = size, .rounds = 100 };

	return pair_run(pair, &block, result);
}

/* ---- tests ---- */

TEST(two_processes_run_a_pair)
{
	static struct pair_counts counts;
	static struct pair_result result;
	struct pair_setup setup = { .threads = 7 };
	struct pair pair;

	start(&pair);
	CHECK_EQ(pair_setup(&pair, &setup), 0);
	for (unsigned i = 0; i < PAIR_ENDS; i++) {
		CHECK_EQ(pair_counts(&pair, i, &counts), 0);
		CHECK_EQ(counts.frames, 7);
		CHECK_EQ(counts.messages, 1);
	}
	CHECK_EQ(run(&pair, SIZE_GOOD, &result), 0);
	CHECK_EQ(result.rtt.count, 100);
	CHECK_EQ(result.rounds, 100);
	CHECK_EQ(pair_stop(&pair, true), 0);
}

TEST(remote_server_is_driven_alike)
{
	static struct pair_counts counts;
	static struct pair_result result;
	char *told[] = { (char *)"test_pair", (char *)"it's \"here\" $HOME;  *", NULL };
	struct pair_setup setup = { .threads = 7 };
	struct pair pair;

	pair_init(&pair, "test", -1);
	pair.far = "env HERE=1 sh -c";
	REQUIRE(pair_start(&pair, 2, told) == 0);
	CHECK_EQ(pair_setup(&pair, &setup), 0);
	CHECK_EQ(pair_counts(&pair, PAIR_SERVER, &counts), 0);
	CHECK_EQ(counts.frames, 7);
	CHECK_EQ(counts.drop_count, 2);
	CHECK_STR(counts.drops[0].name, told[1]);
	CHECK_EQ(pair_counts(&pair, PAIR_CLIENT, &counts), 0);
	CHECK_EQ(counts.drop_count, 1);
	CHECK_EQ(run(&pair, SIZE_GOOD, &result), 0);
	CHECK_EQ(result.rounds, 100);
	CHECK_EQ(pair_stop(&pair, true), 0);
}

TEST(missing_remote_server_is_reported)
{
	struct pair pair;

	pair_init(&pair, "test", -1);
	pair.far = "/nonexistent/ssh";
	listen_to_stderr();
	CHECK_EQ(pair_start(&pair, 2, words), 1);
	CHECK(was_printed("/nonexistent/ssh"));
	pair_stop(&pair, false);
}

TEST(refusal_of_an_end_is_reported)
{
	static struct pair_result result;
	struct pair_setup setup = { .threads = 99 };
	struct pair pair;

	start(&pair);
	listen_to_stderr();
	CHECK_EQ(pair_setup(&pair, &setup), 1);
	CHECK_EQ(run(&pair, SIZE_FAILS, &result), 1);
	CHECK(was_printed("test: client: 99 are too many\ntest: client: it went wrong\n"));
	pair_stop(&pair, false);
}

TEST(death_of_an_end_ends_the_run)
{
	static struct pair_result result;
	struct pair pair;

	start(&pair);
	listen_to_stderr();
	CHECK_EQ(run(&pair, SIZE_DIES, &result), 1);
	CHECK(was_printed("the client died: signal 9"));
	pair_stop(&pair, false);
	start(&pair);
	listen_to_stderr();
	CHECK_EQ(run(&pair, SIZE_EXITS, &result), 1);
	CHECK(was_printed("the client ended with status 3"));
	pair_stop(&pair, false);
}

TEST(death_of_the_server_ends_a_running_client)
{
	static struct pair_result result;
	struct pair pair;
	pid_t killer, server;

	start(&pair);
	server = pair.ends[PAIR_SERVER].pid;
	killer = fork();
	if (killer == 0) {
		usleep(50000);
		kill(server, SIGTERM);
		_exit(0);
	}
	listen_to_stderr();
	CHECK_EQ(run(&pair, SIZE_WAITS, &result), 1);
	CHECK(was_printed("the server died: signal 15"));
	pair_stop(&pair, false);
	waitpid(killer, NULL, 0);
}

TEST(end_that_does_not_start_returns_its_status)
{
	struct pair pair;

	pair_init(&pair, "test", -1);
	listen_to_stderr();
	CHECK_EQ(pair_start(&pair, 2, broken_words), 2);
	CHECK(was_printed("could not start"));
	pair_stop(&pair, false);
}

TEST(a_signal_ends_the_run)
{
	static struct pair_result result;
	struct pair pair;
	int signals = pair_signals();

	pair_init(&pair, "test", signals);
	REQUIRE(pair_start(&pair, 2, words) == 0);
	raise(SIGTERM);
	listen_to_stderr();
	CHECK_EQ(run(&pair, SIZE_WAITS, &result), 1);
	CHECK(was_printed("stopped by signal 15"));
	pair_stop(&pair, false);
	close(signals);
}

TEST(no_process_survives_the_pair)
{
	struct pair pair;
	pid_t pids[PAIR_ENDS];

	start(&pair);
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		pids[i] = pair.ends[i].pid;
	CHECK_EQ(pair_stop(&pair, true), 0);
	for (unsigned i = 0; i < PAIR_ENDS; i++)
		CHECK(kill(pids[i], 0) != 0 && errno == ESRCH);
}

TEST(local_and_missing_ends_are_driven_alike)
{
	static struct pair_counts counts;
	static struct pair_result result;
	struct pair_setup setup = { .threads = 5 };
	struct pair pair;

	pair_init(&pair, "test", -1);
	pair_add_local(&pair, PAIR_CLIENT, &ops, NULL);
	CHECK_EQ(pair_setup(&pair, &setup), 0);
	CHECK_EQ(pair_counts(&pair, PAIR_CLIENT, &counts), 0);
	CHECK_EQ(counts.frames, 5);
	CHECK_EQ(pair_counts(&pair, PAIR_SERVER, &counts), 0);
	CHECK_EQ(counts.frames, 0);
	CHECK_EQ(run(&pair, SIZE_GOOD, &result), 0);
	CHECK_EQ(result.rtt.count, 100);
	CHECK_EQ(pair_stop(&pair, true), 0);
}

/* Counts on like a driver, which does not notice the signal that stops the main thread. */
static _Atomic bool counts_on;
static pthread_t counter;

static void *
count_rounds(void *result)
{
	while (atomic_load_explicit(&counts_on, memory_order_relaxed))
		++*(volatile uint64_t *)&((struct pair_result *)result)->rounds;
	return NULL;
}

static bool
run_until_stopped(void *end, const struct pair_block *block, struct pair_result *result, int stop)
{
	return pthread_create(&counter, NULL, count_rounds, result) != 0;
}

TEST(result_of_an_abandoned_block_is_not_read)
{
	static const struct pair_end_ops gives_up = { .setup = end_setup,
						      .counts = end_counts,
						      .run = run_until_stopped };
	static struct pair_result result;
	static struct pair pair;

	pair_init(&pair, "test", -1);
	pair_add_local(&pair, PAIR_CLIENT, &gives_up, NULL);
	atomic_store(&counts_on, true);
	CHECK_EQ(run(&pair, SIZE_GOOD, &result), 1);
	CHECK_EQ(pair_stop(&pair, false), 0);
	atomic_store(&counts_on, false);
	pthread_join(counter, NULL);
}

TEST(counts_are_summed_differences_by_name)
{
	static struct pair_counts before, after, sum;

	memset(&before, 0, sizeof(before));
	memset(&after, 0, sizeof(after));
	memset(&sum, 0, sizeof(sum));
	before.messages = 3;
	after.messages = 10;
	pair_counts_drop(&before, "ip.short", 2);
	pair_counts_drop(&after, "udp.bad", 4);
	pair_counts_drop(&after, "ip.short", 5);
	pair_counts_drop(&after, "ip.ttl", 0);
	pair_counts_add(&sum, &before, &after);
	pair_counts_add(&sum, &before, &after);
	CHECK_EQ(sum.messages, 14);
	CHECK_EQ(sum.drop_count, 2);
	CHECK_STR(sum.drops[0].name, "udp.bad");
	CHECK_EQ(sum.drops[0].count, 8);
	CHECK_EQ(sum.drops[1].count, 6);
}

TEST(full_table_of_drops_counts_the_rest_together)
{
	static struct pair_counts counts;
	uint64_t all = 0;
	char name[32];

	memset(&counts, 0, sizeof(counts));
	for (unsigned i = 0; i < 2 * PAIR_DROPS; i++) {
		snprintf(name, sizeof(name), "drop%u", i);
		pair_counts_drop(&counts, name, 1);
	}
	CHECK_EQ(counts.drop_count, PAIR_DROPS);
	for (unsigned i = 0; i < counts.drop_count; i++)
		all += counts.drops[i].count;
	CHECK_EQ(all, 2 * PAIR_DROPS);
	CHECK_STR(counts.drops[PAIR_DROPS - 1].name, "other");
}
