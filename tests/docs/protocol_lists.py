#!/usr/bin/env python3
"""protocol_lists.py [--write] BUILD - compares the lists in docs/protocols/ with what the protocols declare.

Between <!-- protocol NAME --> and <!-- end --> stands what `xk protocols --markdown NAME` prints below its first sentence;
in README.md, between <!-- protocols --> and <!-- end -->, a table of all protocols. --write brings both up to date.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = "docs/protocols"
PAGES = ("links.md", "internet.md", "rpc.md", "virtual.md", "test.md")
INDEX = "README.md"


def read(page):
    with open(os.path.join(ROOT, FOLDER, page), encoding="utf-8") as file:
        return file.read()


def declared(build):
    """{name: (sentence, lists)} of every protocol."""
    text = subprocess.run([os.path.join(build, "xk"), "protocols", "--markdown"], check=True,
                          stdout=subprocess.PIPE).stdout.decode()
    protocols = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        name, sentence, lists = part.split("\n\n", 2)
        protocols[name] = (sentence, "\n" + lists.strip() + "\n\n")
    return protocols


def named(text):
    """The protocols whose lists a page has, in its order."""
    return re.findall(r"^<!-- protocol (\w+) -->$", text, flags=re.M)


def index(protocols):
    """A row for each protocol; the first one of a page names the page's subject."""
    rows = ["", "| | | |", "| --- | --- | --- |"]
    for page in PAGES:
        text = read(page)
        subject = "[" + re.match(r"# (.*)", text)[1] + f"]({page})"
        for name in named(text):
            rows.append(f"| {subject} | [`{name}`]({page}#{name}) | {protocols[name][0] if name in protocols else ''} |")
            subject = ""
    return "\n".join(rows) + "\n\n"


def updated(text, protocols):
    """text with all lists as they should be; those of protocols that are not declared go."""
    text = re.sub(r"(?<=^<!-- protocols -->\n).*?(?=^<!-- end -->$)", lambda _: index(protocols), text,
                  flags=re.M | re.S)
    return re.sub(r"^(<!-- protocol (\w+) -->\n).*?(?=^<!-- end -->$)",
                  lambda found: found[1] + protocols.get(found[2], ("", "\n"))[1], text, flags=re.M | re.S)


def check(build, tell):
    """Tells for each page whether its lists are right, and whether every protocol has a heading and its lists once."""
    protocols = declared(build)
    found = []
    for page in PAGES + (INDEX,):
        text = read(page)
        found += [name for name in named(text) if f"\n## {name}\n" in text]
        tell(updated(text, protocols) == text, f"{FOLDER}/{page} lists",
             "not what the protocols declare: run tests/docs/protocol_lists.py --write BUILD")
    tell(sorted(found) == sorted(protocols), f"{FOLDER} has every protocol once",
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
    check(arguments[-1], checks.tell)
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
