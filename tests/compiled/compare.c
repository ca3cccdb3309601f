/*
 * compare.c ROUNDS SCRIPT... - whether the compiled graph that this program is linked with does what the graph file does
 * (tests/conformance/differ.h), with paths and without.
 *
 * Exits 1 at the first difference, and says what it is.
 */
#include <stdio.h>
#include <stdlib.h>

#include "graphs/compiled.h"
#include "tests/conformance/differ.h"

int
main(int argc, char **argv)
{
	static const char *const folders[] = { DIFFER_ROOT "/tests/conformance", DIFFER_ROOT "/graphs", NULL };
	const struct differ differ = { program_graph->file,
				       4,
				       false,
				       { { .name = "table-driven", .no_paths = true },
					 { .name = "compiled", .compiled = program_graph, .no_paths = true },
					 { .name = "compiled, watched", .compiled = program_graph, .watched = true },
					 { .name = "compiled, with paths", .compiled = program_graph } } };
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	struct differ_done done = { 0 };

	for (int i = 2; i < argc; i++)
		if (!differ_run(&differ, argv[i], folders, rounds, &done))
			return 1;
	printf("%s: %u scripts, %u frames, %llu counted: no difference\n", program_graph->file, done.scripts,
	       done.frames, (unsigned long long)done.total);
	return done.scripts > 0 && done.frames > 0 && done.total > 0 ? 0 : 1;
}
