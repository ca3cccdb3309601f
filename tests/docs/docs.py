#!/usr/bin/env python3
"""docs.py BUILD - checks README.md and docs/*.md; see run.sh.

What stands on a line of its own before a fenced block says what is checked of it:

  <!-- test -->                     the commands are run, and succeed
  <!-- test: exit N -->             ... end with status N
  <!-- output -->                   these lines, in one piece, are in what the last commands have printed; a line
                                    "..." stands for any lines. Where all of them are a trace of one host, what the
                                    other has printed in between does not count: the two run at the same time
  <!-- output: numbers vary -->     ... where each number may be another
  <!-- quote FILE -->               these lines, in one piece, are in FILE
  <!-- demo -->                     nothing: it is what ./run demo has printed somewhere

Commands run where `build`, `graphs` and the rest of the tree are; in docs/writing-a-protocol.md as if its steps had
been taken. Besides, links lead to files and headings, paths in backquotes are there, and docs/measuring.md names every
option of udptest and xk bench echo, and every JSON key of udptest. Where numbers vary, only the form is compared: what
is written there is to be pasted from a run. Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOPS = ("xkernel", "protocols", "platform", "graphs", "tools", "experiments", "tests", "docs")
EXAMPLE = "docs/writing-a-protocol.md"
LIMIT_S = 30

failures = 0


def tell(good, what, why=""):
    global failures
    print(f"{'ok  ' if good else 'FAIL'} {what}", flush=True)
    if not good:
        failures += 1
        for line in why.splitlines()[:40]:
            print(f"     {line}")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def blocks(text):
    """Each fenced block: (its line, its mark or None, its text)."""
    lines = text.split("\n")
    mark, start = None, None
    for number, line in enumerate(lines, 1):
        if start is None and line.startswith("```"):
            start = number
        elif start is not None and line == "```":
            yield start, mark, "\n".join(lines[start : number - 1])
            mark, start = None, None
        elif start is None:
            found = re.fullmatch(r"<!-- (\w+)(?::? (.*?))? -->", line)
            if found:
                mark = (found[1], found[2] or "")
            elif line:
                mark = None


def scratch(directory, build, example):
    """A tree whose build/ is the one to be tested; with the example's steps taken, or without."""
    os.makedirs(directory)
    for name in os.listdir(ROOT):
        if name not in ("build", "graphs"):
            os.symlink(os.path.join(ROOT, name), os.path.join(directory, name))
    for folder, source in (("graphs", os.path.join(ROOT, "graphs")), ("build", build)):
        os.mkdir(os.path.join(directory, folder))
        for name in os.listdir(source):
            os.symlink(os.path.join(source, name), os.path.join(directory, folder, name))
    if example:
        os.symlink(os.path.join(ROOT, "docs/examples/asptest.dot"), os.path.join(directory, "graphs/asptest.dot"))
        for name in ("udptest", "xk"):
            link = os.path.join(directory, "build", name)
            os.remove(link)
            os.symlink(os.path.join(build, "tests", name + "_example"), link)


def run(directory, commands):
    """(status, output) of commands, as a reader would see them."""
    try:
        done = subprocess.run(
            ["sh", "-eu", "-c", commands],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired as expired:
        return None, (expired.output or b"").decode() + f"\n(not done after {LIMIT_S} s)"
    return done.returncode, done.stdout.decode(errors="replace")


def plain(line, numbers_vary):
    line = line.replace(" (sanitizers: times mean nothing)", "").rstrip()
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


def host_of(line):
    return line.split(" ", 1)[0] if line.startswith(("client ", "server ")) else None


def contains(output, text, numbers_vary):
    lines = output.split("\n")
    hosts = {host_of(line) for line in text.split("\n")}
    if len(hosts) == 1 and None not in hosts:
        lines = [line for line in lines if host_of(line) in hosts]
    lines = [plain(line, numbers_vary) for line in lines]
    at = 0
    for piece in pieces(text, numbers_vary):
        while lines[at : at + len(piece)] != piece:
            at += 1
            if at > len(lines):
                return False
        at += len(piece)
    return True


def check_blocks(path, directory):
    output = ""
    for line, mark, text in blocks(read(path)):
        where = f"{path}:{line}"
        if mark is None or mark[0] == "demo":
            continue
        kind, detail = mark
        if kind == "test":
            want = int(detail.removeprefix("exit ")) if detail else 0
            status, output = run(directory, text)
            tell(status == want, f"{where} run: {text.splitlines()[0]}", f"status {status}, not {want}\n{output}")
        elif kind == "output":
            there = contains(output, text, detail == "numbers vary")
            tell(there, f"{where} output", f"{text}\nis not in:\n{output}")
        elif kind == "quote":
            there = "\n" + text + "\n" in "\n" + read(detail)
            tell(there, f"{where} quotes {detail}", "is not there as it is written here")
        else:
            tell(False, f"{where} mark", f"there is no mark {kind}")


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
        made = path == EXAMPLE and os.path.basename(name) in ("asp.c", "test_asp.c", "asptest.dot")
        if name.split("/")[0] in TOPS and not made and not os.path.exists(os.path.join(ROOT, name)):
            wrong.append(f"no path {name}")
    tell(not wrong, f"{path} links", "\n".join(wrong))


def keys(value):
    """All keys of a JSON value, but those of drops, which are names of protocols."""
    if isinstance(value, list):
        for item in value:
            yield from keys(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key != "drops":
                yield from keys(item)


def check_tables(directory):
    path = "docs/measuring.md"
    named = set(re.findall(r"[\w\-]+", " ".join(re.findall(r"`([^`]*)`", read(path)))))
    for program in ("udptest", "xk bench echo"):
        _, text = run(directory, f"build/{program} --help")
        options = set(re.findall(r"^  (--[\w\-]+)", text, flags=re.M))
        tell(options and options <= named, f"{path} names every option of {program}", " ".join(options - named))
    status, text = run(directory, "build/udptest --link sim --rounds 10 --json - 2>/dev/null")
    found = set(keys(json.loads(text))) if status == 0 else set()
    tell(found and found <= named, f"{path} names every JSON key", " ".join(sorted(found - named)))


def main():
    if len(sys.argv) != 2 or not os.path.exists(os.path.join(sys.argv[1], "udptest")):
        print("usage: tests/docs/run.sh BUILD", file=sys.stderr)
        return 2
    build = os.path.abspath(sys.argv[1])
    documents = ["README.md"] + sorted("docs/" + name for name in os.listdir(os.path.join(ROOT, "docs"))
                                       if name.endswith(".md"))
    with tempfile.TemporaryDirectory() as directory:
        for name in ("tree", "example"):
            scratch(os.path.join(directory, name), build, name == "example")
        for path in documents:
            check_blocks(path, os.path.join(directory, "example" if path == EXAMPLE else "tree"))
            check_links(path)
        check_tables(os.path.join(directory, "tree"))
    print(f"{failures} failed" if failures else "all is as it is written")
    return 1 if failures else 0


sys.exit(main())
