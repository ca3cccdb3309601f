/* test_fuzz_hosts.c - hostile peers of a host of every graph; properties: fuzz_hosts.c. */
#include "tests/fuzz/fuzz.h"
#include "tests/test.h"

TEST_OF(corpus_breaks_no_graph, CHECK(fuzz_corpus("hosts")));
TEST_OF(seeded_traffic_breaks_no_graph, CHECK(fuzz_runs(300, FUZZ_SCRIPT_MAX, fuzz_traffic_make)));
TEST_OF(seeded_calls_break_no_graph_of_calls, CHECK(fuzz_runs(300, FUZZ_SCRIPT_MAX, fuzz_traffic_make_calls)));
TEST_OF(seeded_messages_break_no_graph_of_gm_or_am, CHECK(fuzz_runs(300, FUZZ_SCRIPT_MAX, fuzz_traffic_make_messages)));
TEST_OF(seeded_segments_break_no_graph_of_tcp, CHECK(fuzz_runs(300, FUZZ_SCRIPT_MAX, fuzz_traffic_make_segments)));

/* Makes traffic with records moved, doubled and damaged. */
static size_t
make_damaged(uint8_t *script, size_t max, uint64_t seed)
{
	size_t len = fuzz_corpus_damaged("hosts", script, max, seed);

	for (uint64_t changes = fuzz_random(&seed) % 8; changes > 0 && len > 0; changes--)
		len = fuzz_traffic_mutate(script, len, max, fuzz_random(&seed));
	return len;
}

TEST_OF(damaged_traffic_breaks_no_graph, CHECK(fuzz_runs(300, FUZZ_SCRIPT_MAX, make_damaged)));
