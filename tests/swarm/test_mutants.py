#!/usr/bin/env python3
"""test_mutants.py BUILD - whether mutants.txt and mutate.py make of the protocols what they say; BUILD is a build
directory with tests.

  - a list that is wrong is refused, and the mutant named
  - with none chosen a copy is the source: the same instructions, and the protocols' tests pass
  - mutants that networks do not show are seen by the tests that they name
  - clang has nothing to say against the copies (gcc has compiled them, as part of the build)

Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests"))
sys.dont_write_bytecode = True
import checks
from checks import tell

MUTATE = os.path.join(HERE, "mutate.py")
LIST = os.path.join(HERE, "mutants.txt")
WARNINGS = "-std=gnu11 -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unused-parameter"
WORKERS = 2

SOURCE = """static int
f(int a)
{
	if (a > 1)
		return a;
	a += 2;
	return a + 1;
}
"""

HEAD = "[m]\ndefect: d\nbreaks: b\nseen: stuck\nfile: f.c\n"

# What is wrong with a list, the list, and what is said of it.
WRONG = (
    ("text that is not there", HEAD + "expression:\n- a > 3\n+ a\n", "mutant m: occurs 0 times in f.c"),
    ("text that is there twice", HEAD + "statement:\n- return a\n+ a;\n", "is no whole statement"),
    ("an expression that is there twice", HEAD + "expression:\n- return\n+ a\n", "mutant m: occurs 2 times in f.c"),
    ("a file that is not copied", HEAD.replace("f.c", "g.c") + "expression:\n- a\n+ b\n", "g.c is none of the files"),
    ("places that overlap", HEAD + "expression:\n- a > 1\n+ 1\nstatement:\n- if (a > 1) return a;\n", "overlaps mutant m"),
    ("a name that is taken", HEAD + "[m]\n", "this name is taken"),
    ("no defect", "[m]\nfile: f.c\nexpression:\n- a > 1\n+ 1\n", "mutant m: no defect"),
    ("tests that are not named", HEAD.replace("stuck", "tests") + "expression:\n- a > 1\n+ 1\n", "goes with tests: NAME"),
    ("a word that means nothing", HEAD.replace("stuck", "odd") + "expression:\n- a > 1\n+ 1\n", "odd is none of"),
    ("no place", HEAD, "mutant m: no expression and no statement"),
    ("no original", HEAD + "expression:\n+ 1\n", "mutant m: no original text"),
    ("no mutated expression", HEAD + "expression:\n- a > 1\n", "is no expression"),
    ("half a bracket", HEAD + "expression:\n- (a > 1\n+ 1\n", "brackets do not match"),
    ("text without a kind", HEAD + "- a > 1\n", "mutant m: text before"),
    ("original behind mutated", HEAD + "expression:\n+ 1\n- a > 1\n", "original text after the mutated"),
    ("a directive", HEAD + "statement:\n- a += 2;\n+#if 1\n+ ;\n", "neither // nor # may be in"),
    ("a field that nobody knows", HEAD + "colour: red\n", "not understood: colour: red"),
    ("text before any mutant", "defect: d\n", "list:1: not understood: defect: d"),
)


def run(command, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **more)


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def mutate(directory, text):
    write(os.path.join(directory, "f.c"), SOURCE)
    write(os.path.join(directory, "list"), text)
    os.makedirs(os.path.join(directory, "out"), exist_ok=True)
    return run([MUTATE, "--list", "list", "--root", ".", "--out", "out", "f.c"], cwd=directory)


def check_lists(directory):
    for what, text, said in WRONG:
        done = mutate(directory, text)
        tell(done.returncode == 1 and said in done.stdout, "refused: " + what, done.stdout)
    good = HEAD + "expression:\n- a   >\n-   1\n+ a >\n+ 2\nstatement:\n- a += 2;\n"
    done = mutate(directory, "# comment\n\n" + good)
    want = SOURCE.replace("a > 1", "(xk_mutant == XK_MUTANT_m ? (a > 2) : (a > 1))").replace(
        "a += 2;", "{ if (xk_mutant == XK_MUTANT_m) {  } else { a += 2; } }")
    copy = read(os.path.join(directory, "out", "f.c"))
    tell(done.returncode == 0 and copy.endswith('#line 1 "f.c"\n' + want), "an expression and a statement", copy)


def compiled(compiler, flags, source, include, output):
    return run([compiler, *WARNINGS.split(), *flags, "-I", include, "-I", ROOT, "-c", source, "-o", output])


def instructions(flags, source, include, output):
    """What gcc makes of a source, as text; None: nothing."""
    done = compiled("gcc", ["-O1", *flags], source, include, output)
    if done.returncode != 0:
        print(done.stdout, flush=True)
        return None
    text = run(["objdump", "-dr", "--no-show-raw-insn", output]).stdout
    return text.split("\n", 3)[3]


def each(function, arguments):
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(lambda argument: function(*argument), arguments))


def check_none(copies, scratch):
    """The copies with none chosen."""
    def both(name):
        output = os.path.join(scratch, name + ".o")
        return (instructions([], os.path.join(ROOT, "protocols", name), ROOT, output),
                instructions(["-DXK_MUTANT=0"], os.path.join(scratch, "protocols", name), scratch, output))

    pairs = dict(zip(copies, each(both, [(name,) for name in copies])))
    for name, (source, copy) in pairs.items():
        tell(source is not None and source == copy, f"{name} with no mutant chosen is the source")


def check_clang(copies, scratch):
    if shutil.which("clang-14") is None:
        print("SKIPPED: clang-14 is not installed")
        return
    jobs = [("clang-14", ["-O2"], os.path.join(scratch, "protocols", name), scratch,
             os.path.join(scratch, name + ".o")) for name in copies]
    done = each(compiled, jobs)
    said = "".join(one.stdout for one in done)
    tell(all(one.returncode == 0 for one in done) and not said, "clang-14 compiles the copies", said)


def check_seen(build):
    """Each mutant that is seen by tests alone."""
    seen = []
    for name, text in re.findall(r"^\[(\w+)\]$(.*?)(?=^\[|\Z)", read(LIST), flags=re.M | re.S):
        tests = re.search(r"^tests: *(.*\S)", text, flags=re.M)
        if tests is not None:
            seen.append((name, tests[1]))

    def fails(name, tests):
        environment = dict(os.environ, XK_MUTANT=name)
        return any(run(["timeout", "60", os.path.join(build, "tests/swarm/mutated_test_" + test)],
                       env=environment).returncode != 0 for test in tests.split())

    for (name, tests), good in zip(seen, each(fails, seen)):
        tell(good, f"{name} is seen by {tests}")


def check_tests(build):
    programs = [path for path in sorted(glob.glob(os.path.join(build, "tests/swarm/mutated_test_*")))
                if os.path.isfile(path)]
    tell(len(programs) > 0, "there are tests of protocols with mutants")
    for path, done in zip(programs, each(lambda path: run([path]), [(path,) for path in programs])):
        tell(done.returncode == 0, os.path.basename(path) + " with no mutant chosen", done.stdout[-2000:])
    check_seen(build)
    udp = os.path.join(build, "tests/swarm/mutated_test_udp")
    done = run([udp], env=dict(os.environ, XK_MUTANT="udp_checksum_unverified"))
    tell(done.returncode != 0, "a mutant that is chosen is there", done.stdout[-2000:])
    done = run([udp], env=dict(os.environ, XK_MUTANT="nobody"))
    tell(done.returncode == 2 and "no mutant 'nobody'" in done.stdout, "a name that is none is refused", done.stdout)


def main():
    if len(sys.argv) != 2:
        print("usage: test_mutants.py BUILD", file=sys.stderr)
        return 2
    build = os.path.abspath(sys.argv[1])
    copied = sorted(os.path.basename(path) for path in glob.glob(os.path.join(build, "tests/swarm/mutated/protocols/*"))
                    if os.path.exists(os.path.join(ROOT, "protocols", os.path.basename(path))))
    sources = [name for name in copied if name.endswith(".c")]
    with tempfile.TemporaryDirectory() as scratch:
        check_lists(scratch)
        os.mkdir(os.path.join(scratch, "protocols"))
        done = run([MUTATE, "--list", LIST, "--root", ROOT, "--out", os.path.join(scratch, "protocols"),
                    *(f"protocols/{name}" for name in copied)])
        tell(done.returncode == 0 and sources, "the protocols are copied", done.stdout)
        check_none(sources, scratch)
        check_clang(sources, scratch)
    check_tests(build)
    return checks.failures != 0


if __name__ == "__main__":
    sys.exit(main())
