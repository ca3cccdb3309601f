#!/usr/bin/env python3
"""test_mutate.py - checks that mutate.py finds the mutants and makes copies that behave like them.

Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import glob
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests"))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import checks
import mutate
from checks import expect

MUTATE = os.path.join(HERE, "mutate.py")
SOURCE = """
#include <stdio.h>
#define EACH(i, n) for (int i = 0; i < n; i++)
struct xk_key {
	unsigned a, b;
};
static unsigned swapped;

static int /* a comment: if (x < y) */
between(int x, int low, int high)
{
	const char *text = "if (x < low)";

	if (x < low || (x > high && text))
		return 0;
	return 1;
}

static struct xk_key
key(unsigned a, unsigned b)
{
	return (struct xk_key){ a << 8 | b, 7 };
}

int
main(void)
{
	int sum = 0;
	struct xk_key k;

	EACH(i, 10)
		if (between(i, 3, 6))
			sum += i; /* 3 + 4 + 5 + 6 */
		else
			swapped++;
	k = key(1, 2);
	switch (sum) {
	case 18:
		sum--;
		break;
	default:
		break;
	}
	printf("%d %u %u", sum, k.a, k.b);
	return 0;
}
"""
BUILD = "xkernel_sources = []\n"
# FUNCTION: OPERATOR: BEFORE -> AFTER, and the program's output
WANTED = {
    "between: true: x < low -> true": "0 258 7",
    "between: false: x < low -> false": "21 258 7",
    "between: relation: < -> <=": "15 258 7",
    "between: relation: > -> >=": "12 258 7",
    "between: logic: || -> &&": "45 258 7",
    "between: false: x > high -> false": "42 258 7",
    "between: number: 1 -> 2": "17 258 7",
    "key: zero: a << 8 -> 0": "17 2 7",
    "key: zero: b -> 0": "17 256 7",
    "key: zero: 7 -> 0": "17 258 0",
    "key: number: 8 -> 9": "17 514 7",
    "main: delete: sum += i -> nothing": "0 258 7",
    "main: plus: += -> -=": "-18 258 7",
    "main: delete: sum -- -> nothing": "18 258 7",
    "main: true: between ( i , 3 , 6 ) -> true": "45 258 7",
    "main: number: 0 -> 1": "19 258 7",
}
SCENARIOS = """# the first names two mutants
sum_wrong | f.c | delete | sum
key_short | f.* | zero | a<<8
"""


def run(*command, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **more)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def tree(directory, *options):
    return run(MUTATE, "tree", "--root", os.path.join(directory, "in"), "--out", os.path.join(directory, "out"), *options,
               "f.c")


def build(directory):
    out = os.path.join(directory, "out")
    return run("cc", "-w", "-I", out, "-I", ROOT, "-o", os.path.join(directory, "f"), os.path.join(out, "f.c"),
               os.path.join(out, "tests/mutation/mutant_table.c"), os.path.join(HERE, "mutants.c"))


def printed(directory, mutant):
    return run(os.path.join(directory, "f"), env={**os.environ, "XK_MUTANT": mutant}).stdout


def check_operators(directory):
    done = run(MUTATE, "list", "--root", os.path.join(directory, "in"), "f.c")
    lines = done.stdout.splitlines()
    expect(done.returncode == 0 and len(lines) > 25, "mutants are listed", done.stdout)
    expect(not any("comment" in line or '"if' in line.split(" -> ")[0] for line in lines), "comments and strings give no mutants")
    done = tree(directory, "--sample", "1000")
    made = build(directory)
    expect(done.returncode == 0 and made.returncode == 0, "a copy with all mutants compiles", done.stdout + made.stdout)
    expect(printed(directory, "0") == "17 258 7", "it behaves like the source while no mutant is chosen", printed(directory, "0"))
    table = [line.split(": ", 1)[1] for line in read(os.path.join(directory, "out/tests/mutation/mutant_table.c"))
             .replace('\\"', '"').splitlines() if line.startswith('\t"f.c:')]
    for wanted, text in WANTED.items():
        number = next((i + 1 for i, line in enumerate(table) if line.startswith(wanted + ": ")), None)
        expect(number is not None and printed(directory, str(number)) == text, wanted,
               f"{number}: {number and printed(directory, str(number))}")
    expect(read(os.path.join(directory, "out/f.c")).count("\n") == SOURCE.count("\n") + 2, "lines keep their numbers")


def check_scenarios(directory):
    scenarios = os.path.join(directory, "scenarios.txt")
    write(scenarios, SCENARIOS)
    done = tree(directory, "--scenarios", scenarios)
    made = build(directory)
    expect(done.returncode == 0 and made.returncode == 0, "scenarios choose their mutants", done.stdout + made.stdout)
    expect(printed(directory, "sum_wrong") == "0 258 7" and printed(directory, "key_short") == "17 0 7",
           "scenarios are chosen by name", printed(directory, "key_short"))
    expect("there is no mutant 'nobody'" in printed(directory, "nobody"), "an unknown name is refused")
    for what, line, said in (("a scenario without a mutant", "gone | f.c | delete | nobody", "there is no such mutant"),
                             ("a malformed line", "gone | f.c", "not NAME [SEED] | FILES | OPERATOR | CODE"),
                             ("a seed that is none", "gone first | f.c | delete | x", "not NAME [SEED] | FILES | OPERATOR | CODE")):
        write(scenarios, line + "\n")
        done = tree(directory, "--scenarios", scenarios)
        expect(done.returncode == 1 and said in done.stdout and ":1:" in done.stdout, what, done.stdout)


def check_lines():
    """Each line of the project's own scenarios names a mutant: a change of the code may have taken it away."""
    files = [os.path.relpath(name, ROOT) for pattern in ("protocols/**/*.[ch]", "xkernel/**/*.[ch]")
             for name in glob.glob(os.path.join(ROOT, pattern), recursive=True)]
    every = [mutant for source in mutate.sources(ROOT, sorted(files)) for mutant in source.mutants()]
    for name in ("scenarios", "tcp", "paths", "threads"):
        lines = mutate.read_scenarios(os.path.join(HERE, name + ".txt"))
        lost = [line.name for line in lines if not any(line.chooses(mutant) for mutant in every)]
        expect(not lost and lines, f"each line of {name}.txt has its mutants", " ".join(lost))


def main():
    check_lines()
    with tempfile.TemporaryDirectory() as directory:
        write(os.path.join(directory, "in/f.c"), SOURCE)
        write(os.path.join(directory, "in/xkernel/meson.build"), BUILD)
        check_operators(directory)
        check_scenarios(directory)
    return checks.failures != 0


if __name__ == "__main__":
    sys.exit(main())
