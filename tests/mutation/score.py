#!/usr/bin/env python3
"""score.py TREE SECONDS - counts the mutants of a tree (mutate.py tree) that the tests find; TREE/build must be built.

For each mutant of the sample, runs test programs until one fails or does not end, starting with those whose names
resemble the mutant's file most. Tests that fail without a mutant are left out and listed. Prints each survivor, which
means a missing test or a change without effect, and the share found; exits 1 if that is below BAR. Starts no mutant
after SECONDS.
"""
import concurrent.futures
import glob
import os
import subprocess
import sys
import time

BAR = 0.75
LIMIT_S = 60


def fails(command, number, limit):
    """Returns whether a test, a command's words, finds mutant `number`, and the seconds taken."""
    environment = {**os.environ, "XK_MUTANT": str(number), "XK_TEST_LONG": "0"}
    started = time.monotonic()
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=limit, check=False)
        return done.returncode != 0, time.monotonic() - started
    except subprocess.TimeoutExpired:
        return True, limit


def likeness(program, file):
    """Returns the length of the common prefix of a test's and a source's name."""
    test, source = os.path.basename(program)[len("test_"):], os.path.splitext(os.path.basename(file))[0]
    return len(os.path.commonprefix([test, source]))


def mutants_of(tree):
    """Returns the table's texts with their numbers, from 1."""
    with open(os.path.join(tree, "tests/mutation/mutant_table.c"), encoding="utf-8") as file:
        lines = file.read().split("mutants_table[]")[1].split("\n};")[0].split("\n")
    texts = [line.strip()[1:-2].replace('\\"', '"') for line in lines if line.startswith('\t"')]
    return list(enumerate(texts))[1:]


class Tests:
    def __init__(self, tree):
        self.programs = sorted(path for path in glob.glob(os.path.join(tree, "build/tests/test_*"))
                               if os.path.isfile(path) and os.access(path, os.X_OK))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = dict(zip(self.programs, pool.map(lambda path: fails([path], 0, LIMIT_S), self.programs)))
        for path, (failed, _) in found.items():
            if failed:
                print(f"left out: {os.path.basename(path)} fails without a mutant")
        self.seconds = {path: seconds for path, (failed, seconds) in found.items() if not failed}

    def see(self, number, file):
        """Returns the test that finds this mutant of file, or None."""
        order = sorted(self.seconds, key=lambda path: (-min(likeness(path, file), 4), self.seconds[path]))
        return next((path for path in order if fails([path], number, 5 + 10 * self.seconds[path])[0]), None)


def main():
    if len(sys.argv) != 3:
        print("usage: score.py TREE SECONDS", file=sys.stderr)
        return 2
    mutants = mutants_of(sys.argv[1])
    tests = Tests(sys.argv[1])
    until = time.monotonic() + float(sys.argv[2])
    tried = survivors = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = pool.map(lambda one: time.monotonic() < until and (tests.see(one[0], one[1].split(":")[0]) or ""), mutants)
        for (number, text), test in zip(mutants, seen):
            tried += test is not False
            if test == "":
                survivors += 1
                print(f"survives: {number}: {text}", flush=True)
    print(f"{tried - survivors} of {tried} mutants found: {(tried - survivors) / max(tried, 1):.1%}")
    return 0 if tried and (tried - survivors) / tried >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
