#!/usr/bin/env python3
"""docs.py BUILD - checks README.md and the pages of docs/, docs/labs/ with its folders, and docs/protocols/; see run.sh.

A mark on a line of its own before a fenced block determines the check:

  <!-- test -->                     the commands succeed
  <!-- test: exit N -->             the commands end with status N
  <!-- output -->                   the last commands' output contains these consecutive lines; a line "..." stands for
                                    any lines, and "..." between blanks for anything within a line
  <!-- output: numbers vary -->     the same, but each number may differ; the text is pasted from a run
  <!-- edit FILE -->                a change, as lines of a diff, to one of the example's files; commands run with the
                                    programs built from it, until the next heading
  <!-- step -->                     commands that change the reader's tree: run in a copy of this one
  <!-- step FILE -->                a change, as lines of a diff, to one of its files
  <!-- quote FILE -->               FILE contains these consecutive lines
  <!-- changed FILE -->             a change that was made, as lines of a diff: FILE contains the new lines
  <!-- demo -->                     unchecked: output of ./run demo

After a page's steps, meson must accept the copy, and each protocol and test that a step has added must be built.

Commands run in a tree like this one; those of docs/writing-a-protocol.md and docs/tutorial.md in a tree in which the steps
of the first have been taken. Also checked:

- links lead to files and headings, and paths in backquotes exist;
- docs/measuring.md, docs/hosts.md and docs/simulator.md name every option of their programs but `--help` and `--version`,
  which README.md names; the first and last every JSON key, docs/simulator.md and docs/links.md every setting of hosts and
  links;
- the lists in docs/protocols/ are what the protocols declare (protocol_lists.py);
- the figures in docs/figures and docs/img are up to date (figures.py);
- README.md has the answers of the report in docs/report/ and names its run;
- quotes in experiments/report/questions.md are on that report's page.

Prints a line for each check, `ok` or `FAIL`; exits 1 if one failed.
"""
import html
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), *(os.path.join(ROOT, "experiments", "report", folder) for folder in ("measuring", "writing"))]
sys.dont_write_bytecode = True
import checks
import hero
import protocol_lists
from checks import expect

TOPS = ("xkernel", "protocols", "platform", "graphs", "tools", "experiments", "tests", "docs")
EXAMPLES = ("docs/writing-a-protocol.md", "docs/tutorial.md")
# Options of every program; README.md names them.
EVERYWHERE = {"--help", "--version"}
# Options of xk run for hosts on real links only.
HOST_OPTIONS = {"--mode", "--driver", "--drivers", "--threads", "--cores", "--end", "--telemetry"}
# The reader's files and their places in this tree; the reader's programs and their places in the build.
EXAMPLE_FILES = {
    "protocols/asp.c": "docs/examples/asp.c",
    "protocols/seq.c": "docs/examples/seq.c",
    "tests/protocols/test_asp.c": "docs/examples/test_asp.c",
    "graphs/asptest.dot": "docs/examples/asptest.dot",
    "graphs/seqtest.dot": "docs/examples/seqtest.dot",
    "graphs/addertest.dot": "docs/examples/addertest.dot",
    "graphs/addernet.dot": "docs/examples/addernet.dot",
    "graphs/tallytest.dot": "docs/examples/tallytest.dot",
    "protocols/adder.c": "docs/examples/adder.c",
    "protocols/tally.c": "docs/examples/tally.c",
}
EXAMPLE_PROGRAMS = {
    "xk": "tests/xk_example",
    "udptest": "tests/udptest_example",
    "debug/tests/test_asp": "tests/example_test_asp",
}
# The release build: faster than the sanitizer build, which the system tests use.
FAST = os.path.join(ROOT, "build")
PROGRAMS = ("xk", "udptest", "chantest", "tcptest", "icmptest", "logp")
LIMIT_S = 600  # a bound for commands that hang, not for slow ones on a busy machine


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def blocks(text):
    """Yields (line, mark or None, text) of each fenced block, and (line, ("heading", ""), "") of each heading."""
    lines = text.split("\n")
    mark, start = None, None
    for number, line in enumerate(lines, 1):
        if start is None and line.startswith("```"):
            start = number
        elif start is not None and line == "```":
            yield start, mark, "\n".join(lines[start : number - 1])
            mark, start = None, None
        elif start is None:
            if line.startswith("#"):
                yield number, ("heading", ""), ""
            found = re.fullmatch(r"<!-- (\w+)(?::? (.*?))? -->", line)
            if found:
                mark = (found[1], found[2] or "")
            elif line:
                mark = None


def scratch(directory, build, example):
    """Makes a tree whose build/ is the build under test; example: after the example's steps."""
    os.makedirs(directory)
    for name in os.listdir(ROOT):
        if name not in ("build", "graphs"):
            os.symlink(os.path.join(ROOT, name), os.path.join(directory, name))
    for folder, source in (("graphs", os.path.join(ROOT, "graphs")), ("build", build)):
        os.mkdir(os.path.join(directory, folder))
        for name in os.listdir(source):
            os.symlink(os.path.join(source, name), os.path.join(directory, folder, name))
    if os.access(os.path.join(FAST, "xk"), os.X_OK):
        take_programs(directory, {name: os.path.join(FAST, name) for name in PROGRAMS})
    if example:
        for name, source in EXAMPLE_FILES.items():
            if name.startswith("graphs/"):
                os.symlink(os.path.join(ROOT, source), os.path.join(directory, name))
        debug = os.path.join(directory, "build/debug")
        if os.path.lexists(debug):
            os.remove(debug)
        os.makedirs(os.path.join(debug, "tests"))
        take_programs(directory, {name: os.path.join(build, program) for name, program in EXAMPLE_PROGRAMS.items()})


def take_programs(directory, programs):
    """Puts these programs in the reader's tree."""
    for name, program in programs.items():
        link = os.path.join(directory, "build", name)
        if os.path.lexists(link):
            os.remove(link)
        os.symlink(program, link)


def edit(text, diff):
    """Returns text with the change, or None unless the old lines occur exactly once."""
    lines = diff.split("\n")
    old = "\n".join(line[1:] for line in lines if line[:1] != "+")
    new = "\n".join(line[1:] for line in lines if line[:1] != "-")
    return text.replace(old, new) if text.count("\n" + old + "\n") == 1 else None


def build_edited(build, file, text, directory):
    """Builds the example's programs with another text of file, by the build's own commands. Returns {name: path}."""
    source = os.path.join(directory, os.path.basename(file))
    with open(source, "w", encoding="utf-8") as out:
        out.write(text)
    programs = {}
    for name, program in EXAMPLE_PROGRAMS.items():
        listed = subprocess.run(["ninja", "-C", build, "-t", "commands", program], check=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout.decode()
        commands = [shlex.split(command) for command in listed.strip().split("\n")]
        compiles = [command for command in commands if command[-1].endswith("/" + file)]
        if not compiles:
            continue
        compiled, linked = compiles[0], commands[-1]
        built = compiled[compiled.index("-o") + 1]
        made = os.path.join(directory, "edited.o")
        path = os.path.join(directory, os.path.basename(program))
        subprocess.run([made if part == built else part for part in compiled[:-1]] + [source], cwd=build, check=True)
        archive = os.path.dirname(built).removesuffix(".p")  # the library that contains the object
        linked = [made if part in (built, archive) else part for part in linked]
        linked[linked.index("-o") + 1] = path
        subprocess.run(linked, cwd=build, check=True)
        programs[name] = path
    return programs


def run(directory, commands):
    """Returns (status, output) of commands, as a reader would see them."""
    with subprocess.Popen(["sh", "-eu", "-c", commands], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True) as shell:
        try:
            output = shell.communicate(timeout=LIMIT_S)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)  # and its children
            return None, shell.communicate()[0].decode(errors="replace") + f"\n(not done after {LIMIT_S} s)"
    return shell.returncode, output


def plain(line, numbers_vary):
    line = line.replace(" (sanitizers: times are meaningless)", "").rstrip()
    if numbers_vary:
        line = re.sub(r"\s+", " ", re.sub(r"-?[0-9][0-9.]*", "0", line)).replace("( 0", "(0").strip()
    return line


def pieces(text, numbers_vary):
    piece = []
    for line in text.split("\n"):
        if line.strip() == "...":
            yield piece
            piece = []
        else:
            piece.append(plain(line, numbers_vary))
    yield piece


def is_like(line, wanted):
    """Returns true if line matches wanted, in which ... between blanks stands for anything."""
    if line == wanted or "..." not in wanted:
        return line == wanted
    parts = re.split(r"(?:^|(?<= ))\.\.\.(?= |$)", wanted)
    return re.fullmatch(".*".join(map(re.escape, parts)), line) is not None


def contains(output, text, numbers_vary):
    lines = [plain(line, numbers_vary) for line in output.split("\n")]
    at = 0
    for piece in pieces(text, numbers_vary):
        while at + len(piece) > len(lines) or not all(map(is_like, lines[at:], piece)):
            at += 1
            if at > len(lines):
                return False
        at += len(piece)
    return True


def check_edit(where, file, diff, directory, build):
    """Checks an edit block: the reader's programs are then built with the change."""
    source = EXAMPLE_FILES.get(file)
    text = edit(read(source), diff) if source else None
    if text is None:
        expect(False, f"{where} edit", f"{file} does not contain the old lines exactly once")
        return
    made = tempfile.mkdtemp(dir=os.path.dirname(directory))
    try:
        take_programs(directory, build_edited(build, source, text, made))
        expect(True, f"{where} edit {file}")
    except (OSError, subprocess.CalledProcessError) as why:
        expect(False, f"{where} edit {file}", str(why))


def copy_for_steps(directory):
    """Makes a tree like this one; files that steps change are copies."""
    os.makedirs(directory)
    for name in os.listdir(ROOT):
        source, copied = os.path.join(ROOT, name), os.path.join(directory, name)
        if name in ("protocols", "tests", "graphs"):
            shutil.copytree(source, copied)
        elif name != "build":
            os.symlink(source, copied)


def check_step(where, file, text, directory):
    """Takes a step in the copy; the first step makes the copy."""
    if not os.path.exists(directory):
        copy_for_steps(directory)
    if not file:
        status, output = run(directory, text)
        expect(status == 0, f"{where} step: {text.splitlines()[0]}", output)
        return
    with open(os.path.join(directory, file), encoding="utf-8") as before:
        changed = edit(before.read(), text)
    if changed is not None:
        with open(os.path.join(directory, file), "w", encoding="utf-8") as after:
            after.write(changed)
    expect(changed is not None, f"{where} step {file}", f"{file} does not contain the old lines exactly once")


def check_steps(path, directory):
    """Checks that a page's steps have added files that are built."""
    if not os.path.exists(directory):
        return
    added = {os.path.join(folder, name) for folder in ("protocols", "tests/protocols")
             for name in os.listdir(os.path.join(directory, folder))
             if not os.path.exists(os.path.join(ROOT, folder, name)) and name.endswith(".c")}
    status, output = run(directory, "meson setup -Ddpdk=disabled -Dtests=true build && cat build/protocols/protocol_table.c &&"
                                    " meson introspect --targets build")
    for name in sorted(added):
        stem = os.path.basename(name).removesuffix(".c")
        wanted = f'"name": "{stem}"' if stem.startswith("test_") else f"&xk_type_{stem},"
        expect(status == 0 and wanted in output and f"/{name}" in output, f"{path}: its steps add {name}",
               f"not in the build, which prints {output[-2000:]}")
    expect(bool(added), f"{path}: its steps add files", "none")


def check_blocks(path, directory, build):
    output = ""
    steps = os.path.join(os.path.dirname(directory), "steps-" + os.path.basename(path))
    for line, mark, text in blocks(read(path)):
        where = f"{path}:{line}"
        if mark is None or mark[0] == "demo" or (mark[0] == "heading" and path not in EXAMPLES):
            continue
        kind, detail = mark
        if kind == "test":
            want = int(detail.removeprefix("exit ")) if detail else 0
            status, output = run(directory, text)
            expect(status == want, f"{where} run: {text.splitlines()[0]}", f"status {status}, not {want}\n{output}")
        elif kind == "output":
            there = contains(output, text, detail == "numbers vary")
            expect(there, f"{where} output", f"{text}\nis not in:\n{output}")
        elif kind == "edit" and path in EXAMPLES:
            check_edit(where, detail, text, directory, build)
        elif kind == "heading" and path in EXAMPLES:
            take_programs(directory, {name: os.path.join(build, program) for name, program in EXAMPLE_PROGRAMS.items()})
        elif kind == "step":
            check_step(where, detail, text, steps)
        elif kind in ("quote", "changed"):
            if kind == "changed":
                text = "\n".join(changed[1:] for changed in text.split("\n") if not changed.startswith("-"))
            there = "\n" + text + "\n" in "\n" + read(detail)
            expect(there, f"{where} quotes {detail}", "the file does not contain these lines")
        else:
            expect(False, f"{where} mark", f"unknown mark {kind}")
    check_steps(path, steps)


def anchors(path):
    text = re.sub(r"^```.*?^```$", "", read(path), flags=re.M | re.S)
    for heading in re.findall(r"^#+ (.*)$", text, flags=re.M):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def check_links(path):
    text = re.sub(r"^```.*?^```$", "", read(path), flags=re.M | re.S)
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, anchor = target.partition("#")
        if "://" in target:
            continue
        there = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if not os.path.exists(os.path.join(ROOT, there)):
            wrong.append(f"no file {target}")
        elif anchor and anchor not in anchors(there):
            wrong.append(f"no heading {target}")
    for name in re.findall(r"`([\w.\-]+/[\w./\-]*)`", text):
        made = path in EXAMPLES and name in EXAMPLE_FILES
        if name.split("/")[0] in TOPS and not made and not os.path.exists(os.path.join(ROOT, name)):
            wrong.append(f"no path {name}")
    expect(not wrong, f"{path} links", "\n".join(wrong))


def keys(value):
    """Yields all keys of a JSON value, except those of drops, which are names of protocols."""
    if isinstance(value, list):
        for item in value:
            yield from keys(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key != "drops":
                yield from keys(item)


def named_in(path):
    """Returns all words in backquotes."""
    return set(re.findall(r"[\w\-]+", " ".join(re.findall(r"`([^`]*)`", read(path)))))


def check_names(path, what, names):
    expect(names and names <= named_in(path), f"{path} names every {what}", " ".join(sorted(names - named_in(path))))


def options_of(directory, program):
    options = set(re.findall(r"^  (--[\w\-]+)", run(directory, f"build/{program} --help")[1], flags=re.M))
    return options - EVERYWHERE if EVERYWHERE <= options else set()


def keys_of(directory, command):
    status, text = run(directory, command + " 2>/dev/null")
    return set(keys(json.loads(text))) if status == 0 else set()


def settings_in(path):
    return set(re.findall(r'_SETTING\(\w+, (?:struct \w+, )?[\w.]+, "(\w+)"', read(path)))


def check_tables(directory):
    for program in ("udptest", "chantest", "tcptest", "logp", "xk bench echo", "xk bench call", "xk bench handoff",
                    "xk bench message"):
        check_names("docs/measuring.md", f"option of {program}", options_of(directory, program))
    for command in ("build/udptest --link sim --rounds 10 --json -", "build/logp --link sim --repeats 1 --json -"):
        check_names("docs/measuring.md", "JSON key", keys_of(directory, command))
    for program in ("xk doctor", "xk run", "xk stats", "icmptest"):
        check_names("docs/hosts.md", f"option of {program}", options_of(directory, program))
    path = "docs/simulator.md"
    check_names(path, "option of xk bench sim", options_of(directory, "xk bench sim"))
    check_names(path, "option of xk run", options_of(directory, "xk run") - HOST_OPTIONS)
    found = keys_of(directory, "build/xk run graphs/net/pair-ethernet10.dot --link sim --quiet --json -")
    check_names(path, "JSON key", {name for name in found if "." not in name} - {"client", "server", "cable"})
    costs = set(re.findall(r"^\tCOST\((\w+),", read("platform/sim/sim.h"), flags=re.M))
    check_names(path, "setting of a host", costs and costs | settings_in("tools/net/net_settings.c"))
    check_names("docs/links.md", "setting of a link", settings_in("platform/sim/link_settings.c"))


def words_of(text):
    return " ".join(text.replace("µs", "us").split())


def check_report():
    """Checks the answers and verdicts beside the figure in README.md, and that it names the run."""
    words = words_of(read("README.md"))
    for name in hero.FIVE:
        document = json.loads(read(f"docs/report/{name}.json"))
        wanted = words_of(f"**{document['question']}** {document['answer']} ({document['verdict']})")
        expect(wanted in words, f"README.md has the answer of docs/report/{name}.json", wanted)
    about = json.loads(read("docs/report/machine.json"))["about"]
    wanted = f"({about['date'][:10]}, commit {about['commit']}, {about['minutes']} minutes)"
    expect(wanted in words, "README.md names the run of docs/report", wanted)


def check_questions():
    """Checks that each question has an answer whose quotes are on the page."""
    page = re.sub(r"<(style|script|svg).*?</\1>", "", read("docs/report/index.html"), flags=re.DOTALL)
    page = words_of(html.unescape(re.sub(r"<[^>]*>", " ", page)))
    questions = re.split(r"^\d+\. ", read("experiments/report/questions.md"), flags=re.MULTILINE)[1:]
    for number, question in enumerate(questions, 1):
        quotes = [words_of(quote.replace("> ", "")) for quote in re.findall(r"(?:^ +> .*\n)+", question, flags=re.MULTILINE)]
        missing = [quote for quote in quotes if quote not in page]
        expect(quotes and not missing, f"the page has the answer to question {number}", "\n".join(missing))


def check_figures(build, directory):
    """Compares the figures byte for byte; of pictures laid out by dot, only the texts."""
    made = os.path.join(directory, "figures")
    os.mkdir(made)
    ran = subprocess.run([sys.executable, os.path.join(ROOT, "docs/figures/figures.py"), build, made], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    expect(ran.returncode == 0, "docs/figures/figures.py BUILD", ran.stdout.decode(errors="replace"))
    for name in sorted(os.listdir(made)):
        folder = "docs/figures" if os.path.exists(os.path.join(ROOT, "docs/figures", name)) else "docs/img"
        with open(os.path.join(made, name), encoding="utf-8") as file:
            new, old = file.read(), read(f"{folder}/{name}")
        if folder == "docs/img":
            new, old = (sorted(re.findall(r">([^<>\n]+)</t", text)) for text in (new, old))
        expect(new == old, f"{folder}/{name} is up to date", "regenerate it: docs/figures/figures.py BUILD")


def main():
    if len(sys.argv) != 2 or not os.path.exists(os.path.join(sys.argv[1], "udptest")):
        print("usage: tests/docs/run.sh BUILD", file=sys.stderr)
        return 2
    build = os.path.abspath(sys.argv[1])
    documents = ["README.md"] + [folder + "/" + name for folder in ("docs", "docs/labs", "docs/labs/instructor", "docs/labs/instructor/answers", "docs/protocols")
                                 for name in sorted(os.listdir(os.path.join(ROOT, folder))) if name.endswith(".md")]
    with tempfile.TemporaryDirectory() as directory:
        for name in ("tree", "example"):
            scratch(os.path.join(directory, name), build, name == "example")
        for path in documents:
            check_blocks(path, os.path.join(directory, "example" if path in EXAMPLES else "tree"), build)
            check_links(path)
        check_tables(os.path.join(directory, "tree"))
        check_figures(build, directory)
        check_report()
        check_questions()
        protocol_lists.check(build, expect)
    print(f"{checks.failures} failed" if checks.failures else "all checks passed")
    return 1 if checks.failures else 0


sys.exit(main())
