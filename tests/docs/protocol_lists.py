#!/usr/bin/env python3
"""protocol_lists.py [--write] BUILD - checks that the lists in docs/protocols/ are what the protocols declare.

Between <!-- protocol NAME --> and <!-- end -->: the output of `xk protocols --markdown NAME` after its first sentence. In
README.md, between <!-- protocols --> and <!-- end -->: a table of all protocols. --write updates both. The names that the
text above explains as drops and counters must also be in the lists, or in README.md, which has the shared drops.
"""
import os
import re
import subprocess
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = "docs/protocols"
PAGES = ("links.md", "internet.md", "rpc.md", "messages.md", "virtual.md", "test.md")
INDEX = "README.md"


def read(page):
    with open(os.path.join(ROOT, FOLDER, page), encoding="utf-8") as file:
        return file.read()


def wrapped(line):
    return line if line.startswith("|") else textwrap.fill(line, 120, break_on_hyphens=False)


def declared(build):
    """Returns {name: (sentence, lists)} of every protocol."""
    text = subprocess.run([os.path.join(build, "xk"), "protocols", "--markdown"], check=True,
                          stdout=subprocess.PIPE).stdout.decode()
    protocols = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        name, sentence, lists = (part + "\n\n").split("\n\n", 2)
        protocols[name] = (sentence, "\n" + "\n".join(map(wrapped, lists.strip().split("\n"))) + "\n\n")
    return protocols


def named(text):
    """Returns the protocols whose lists a page has, in its order."""
    return re.findall(r"^<!-- protocol (\w+) -->$", text, flags=re.M)


def index(protocols):
    """Returns the table of README.md. The first row of each page has the page's heading."""
    rows = ["", "| | | |", "| --- | --- | --- |"]
    for page in PAGES:
        text = read(page)
        subject = "[" + re.match(r"# (.*)", text)[1] + f"]({page})"
        for name in named(text):
            rows.append(f"| {subject} | [`{name}`]({page}#{name}) | {protocols[name][0] if name in protocols else ''} |")
            subject = ""
    return "\n".join(rows) + "\n\n"


def updated(text, protocols):
    """Returns text with all lists up to date; those of unknown protocols are empty."""
    text = re.sub(r"(?<=^<!-- protocols -->\n).*?(?=^<!-- end -->$)", lambda _: index(protocols), text,
                  flags=re.M | re.S)
    return re.sub(r"^(<!-- protocol (\w+) -->\n).*?(?=^<!-- end -->$)",
                  lambda found: found[1] + protocols.get(found[2], ("", "\n"))[1], text, flags=re.M | re.S)


def unknown(text, shared):
    """Returns the names that the text explains as drops or counters but the lists lack."""
    missing = []
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        explained, _, lists = section.partition("<!-- protocol ")
        for paragraph in re.findall(r"\*\*(?:Drops|Counters)\*\*.*?(?=\n\n|\n- |\Z)", explained, flags=re.S):
            missing += [name for name in re.findall(r"`([a-z]\w*)`", paragraph) if f"`{name}`" not in lists + shared]
    return missing


def check(build, expect):
    """Checks each page's lists, and that every protocol has one heading with its lists."""
    protocols = declared(build)
    found = []
    for page in PAGES + (INDEX,):
        text = read(page)
        found += [name for name in named(text) if f"\n## {name}\n" in text]
        expect(updated(text, protocols) == text, f"{FOLDER}/{page} lists",
               "not what the protocols declare: run tests/docs/protocol_lists.py --write BUILD")
        missing = unknown(text, read(INDEX))
        expect(not missing, f"{FOLDER}/{page} explains drops and counters that exist", " ".join(missing))
    expect(sorted(found) == sorted(protocols), f"{FOLDER} has every protocol once",
           " ".join(sorted(set(found) ^ set(protocols))))


def main():
    arguments = sys.argv[1:]
    write = arguments[:1] == ["--write"]
    if len(arguments) != 1 + write or not os.path.exists(os.path.join(arguments[-1], "xk")):
        print("usage: tests/docs/protocol_lists.py [--write] BUILD", file=sys.stderr)
        return 2
    if write:
        protocols = declared(arguments[-1])
        for page in PAGES + (INDEX,):
            text = updated(read(page), protocols)
            with open(os.path.join(ROOT, FOLDER, page), "w", encoding="utf-8") as file:
                file.write(text)
        return 0
    sys.path.insert(0, os.path.join(ROOT, "tests"))
    sys.dont_write_bytecode = True
    import checks
    check(arguments[-1], checks.expect)
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
