#!/usr/bin/env python3
"""mutate.py --list LIST --root ROOT --out DIRECTORY FILE... - copies of sources with small defects that can be chosen.

Writes a copy of every ROOT/FILE to DIRECTORY, under its base name, and besides

  mutant_numbers.h   enum mutant_number { XK_MUTANT_NONE, XK_MUTANT_first, ... }, and the variable xk_mutant
  mutant_table.c     mutants_table[] (mutants.h): what the list says of each

In the copies each place that LIST names acts as its mutant where xk_mutant is that mutant's number, and as the source
says otherwise. Lines keep their numbers. With -DXK_MUTANT=N a copy is compiled as mutant N alone.

LIST, a text file: `#` begins a line of comment; a mutant is

  [name]                         lower-case letters, digits, _
  defect: one sentence           what is wrong
  breaks: one sentence           which promise that breaks
  seen: WORD WORD...             how it shows: see SEEN below; one of them is enough
  needs: one sentence            (if anything) what must be going on for that
  tests: NAME...                 (if it is seen by tests) which: tests/protocols/test_NAME.c
  file: protocols/ip.c           where the places that follow are; may come again
  expression:                    what follows is an expression ...
  - the original text
  + the mutated text
  statement:                     ... or one or more whole statements, none of them a declaration
  - the original text,
  -         on one line or more
  + the mutated text; no such line: nothing is done

The original must occur once in its file, where any white space stands for any other. A mutant may have several places,
in several files. No two places may overlap. What is wrong with the list is told as LIST:LINE: mutant NAME: what.
"""
import argparse
import os
import re
import sys

SEEN = {
    "corrupt": "a user is given a message that nobody has sent",
    "duplicated": "a user is given a message twice where it is promised once, or out of order",
    "misdirected": "a user is given a message that is another's",
    "leaked": "a buffer never comes back",
    "held": "a buffer does not come back while the host is up, though nothing is going on any more",
    "stuck": "the network has healed, and messages still do not get through",
    "busy": "something goes on for ever, though nothing is going on any more",
    "unknown": "a message is neither delivered nor dropped by name",
    "caught": "an assertion or a sanitizer ends the program",
    "tests": "one of the tests of protocols that `tests:` names fails; networks do not show it",
}

FIELDS = ("defect", "breaks", "seen", "needs", "tests")


class Refused(Exception):
    """The list is wrong."""


class Place:
    """A piece of text to be replaced."""

    def __init__(self, mutant, file, kind, line):
        self.mutant, self.file, self.kind, self.line = mutant, file, kind, line
        self.original, self.mutated = [], []
        self.start = self.end = 0

    def where(self):
        return f"{self.mutant.list}:{self.line}: mutant {self.mutant.name}: "

    def check(self):
        original = "\n".join(self.original)
        if not original.strip():
            raise Refused(self.where() + "no original text")
        for text in (original, "\n".join(self.mutated)):
            if not balanced(text):
                raise Refused(self.where() + "brackets do not match in: " + one_line(text))
            if "//" in text or text.lstrip().startswith("#") or "\n#" in text:
                raise Refused(self.where() + "neither // nor # may be in: " + one_line(text))
            if self.kind == "expression" and (";" in text or not text.strip()):
                raise Refused(self.where() + "is no expression: " + one_line(text))
            if self.kind == "statement" and text.strip() and text.rstrip()[-1] not in ";}":
                raise Refused(self.where() + "is no whole statement: " + one_line(text))

    def find(self, text):
        """Sets where in text, a whole file, it is."""
        words = [re.escape(word) for word in "\n".join(self.original).split()]
        found = list(re.finditer(r"\s+".join(words), text))
        if len(found) != 1:
            raise Refused(self.where() + f"occurs {len(found)} times in {self.file}, not once: "
                          + one_line("\n".join(self.original)))
        self.start, self.end = found[0].span()

    def replacement(self, original):
        """What stands for the original; it has as many lines."""
        mutated = one_line("\n".join(self.mutated))
        chosen = f"xk_mutant == XK_MUTANT_{self.mutant.name}"
        if self.kind == "expression":
            return f"({chosen} ? ({mutated}) : ({original}))"
        return f"{{ if ({chosen}) {{ {mutated} }} else {{ {original} }} }}"


class Mutant:
    def __init__(self, name, list_name, line):
        self.name, self.list, self.line = name, list_name, line
        self.fields, self.places, self.file = {}, [], None

    def where(self, line=None):
        return f"{self.list}:{line or self.line}: mutant {self.name}: "

    def check(self):
        for field in ("defect", "breaks", "seen"):
            if not self.fields.get(field):
                raise Refused(self.where() + f"no {field}")
        for word in self.fields["seen"].split():
            if word not in SEEN:
                raise Refused(self.where() + f"seen: {word} is none of " + ", ".join(SEEN))
        if (self.fields["seen"] == "tests") != bool(self.fields.get("tests")):
            raise Refused(self.where() + "seen: tests, and nothing else, goes with tests: NAME...")
        if not self.places:
            raise Refused(self.where() + "no expression and no statement")
        for place in self.places:
            place.check()


def one_line(text):
    return " ".join(text.split())


def balanced(text):
    """Whether brackets match, outside of strings, characters and comments."""
    text = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'|/\*.*?\*/', "", text, flags=re.S)
    stack = []
    for character in text:
        if character in "([{":
            stack.append(")]}"["([{".index(character)])
        elif character in ")]}" and (not stack or stack.pop() != character):
            return False
    return not stack


def read_line(mutant, line, number):
    """One line of a mutant after its name."""
    if line[0] in "+-":
        if not mutant.places:
            raise Refused(mutant.where(number) + "text before `expression:` or `statement:`")
        place = mutant.places[-1]
        if line[0] == "-" and place.mutated:
            raise Refused(mutant.where(number) + "original text after the mutated")
        (place.original if line[0] == "-" else place.mutated).append(line[1:])
        return
    key, colon, value = line.partition(":")
    value = value.strip()
    if colon and key == "file":
        mutant.file = value
    elif colon and key in ("expression", "statement") and not value:
        if mutant.file is None:
            raise Refused(mutant.where(number) + "no file")
        mutant.places.append(Place(mutant, mutant.file, key, number))
    elif colon and key in FIELDS and key not in mutant.fields:
        mutant.fields[key] = value
    else:
        raise Refused(mutant.where(number) + "not understood: " + line)


def read_list(path):
    mutants = []
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for number, line in enumerate(lines, 1):
        line = line.rstrip()
        name = re.fullmatch(r"\[([a-z][a-z0-9_]*)\]", line)
        if not line or line[0] == "#":
            continue
        if name:
            if name[1] == "none" or any(mutant.name == name[1] for mutant in mutants):
                raise Refused(f"{path}:{number}: mutant {name[1]}: this name is taken")
            mutants.append(Mutant(name[1], path, number))
        elif mutants:
            read_line(mutants[-1], line, number)
        else:
            raise Refused(f"{path}:{number}: not understood: {line}")
    for mutant in mutants:
        mutant.check()
    return mutants


def mutate(file, text, places):
    """The copy of a file with these places in it."""
    for place in places:
        place.find(text)
    places = sorted(places, key=lambda place: place.start)
    for one, other in zip(places, places[1:]):
        if one.end > other.start:
            raise Refused(other.where() + f"overlaps mutant {one.mutant.name} in {file}")
    for place in reversed(places):
        text = text[:place.start] + place.replacement(text[place.start:place.end]) + text[place.end:]
    return f'#include "protocols/mutant_numbers.h"\n#line 1 "{file}"\n{text}'


def numbers(mutants):
    names = "".join(f"\tXK_MUTANT_{mutant.name},\n" for mutant in mutants)
    return f"""/* Made by mutate.py. */
#ifndef MUTANT_NUMBERS_H
#define MUTANT_NUMBERS_H

enum mutant_number {{
	XK_MUTANT_NONE,
{names}	XK_MUTANT_COUNT
}};

#ifdef XK_MUTANT
#define xk_mutant ((unsigned)XK_MUTANT)
#else
extern unsigned xk_mutant;
#endif

#endif
"""


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def table(mutants):
    entries = ""
    for mutant in mutants:
        files = " ".join(dict.fromkeys(place.file for place in mutant.places))
        texts = [mutant.name, files] + [mutant.fields.get(field, "") for field in FIELDS]
        entries += "\t{ " + ", ".join(map(quoted, texts)) + " },\n"
    return f"""/* Made by mutate.py. */
#include "tests/swarm/mutants.h"

const struct mutants_entry mutants_table[] = {{
	{{ "none", "", "", "", "", "", "" }},
{entries}	{{ NULL, NULL, NULL, NULL, NULL, NULL, NULL }},
}};
"""


def write(directory, name, text):
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description="copies of sources with small defects that can be chosen")
    parser.add_argument("--list", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("files", nargs="+", metavar="FILE")
    options = parser.parse_args()
    try:
        mutants = read_list(options.list)
        places = [place for mutant in mutants for place in mutant.places]
        for place in places:
            if place.file not in options.files:
                raise Refused(place.where() + f"{place.file} is none of the files that are copied")
        for name in options.files:
            with open(os.path.join(options.root, name), encoding="utf-8") as file:
                text = file.read()
            copy = mutate(name, text, [place for place in places if place.file == name])
            write(options.out, os.path.basename(name), copy)
        write(options.out, "mutant_numbers.h", numbers(mutants))
        write(options.out, "mutant_table.c", table(mutants))
    except (Refused, OSError, UnicodeDecodeError) as why:
        print(why, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
