#!/usr/bin/env python3
"""each.py TREE PROGRAM [ARGUMENT...] - checks that a test finds each scenario's defect in a tree (mutate.py tree), that is,
at least one of its mutants. TREE/build must be built; PROGRAM is relative to it.

Prints the scenarios that it does not find, and the number of the others; exits 1 if there are any, or if the test fails
without a mutant.
"""
import concurrent.futures
import os
import re
import sys

from score import fails

LIMIT_S = 600


def scenarios_of(tree):
    """Returns the names of the tree's scenarios with the numbers of their mutants."""
    with open(os.path.join(tree, "tests/mutation/mutant_table.c"), encoding="utf-8") as file:
        rows = re.findall(r'^\t\{ "(\w+)", ".*", \(const unsigned\[\]\)\{ (.*), 0 \}, \d+ \},$', file.read(), re.M)
    return [(name, numbers.split(", ")) for name, numbers in rows]


def main():
    if len(sys.argv) < 3:
        print("usage: each.py TREE PROGRAM [ARGUMENT...]", file=sys.stderr)
        return 2
    command = [os.path.join(sys.argv[1], "build", sys.argv[2]), *sys.argv[3:]]
    scenarios = scenarios_of(sys.argv[1])
    if fails(command, 0, LIMIT_S)[0]:
        print(f"{sys.argv[2]} fails without a mutant")
        return 1
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda one: any(fails(command, number, LIMIT_S)[0] for number in one[1]), scenarios))
    for (name, numbers), is_found in zip(scenarios, found):
        if not is_found:
            print(f"not found: {name} ({', '.join(numbers)})")
    print(f"{sum(found)} of {len(scenarios)} scenarios found")
    return 0 if found and all(found) else 1


sys.exit(main())
