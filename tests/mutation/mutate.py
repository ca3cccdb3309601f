#!/usr/bin/env python3
"""mutate.py - makes copies of C sources in which one small defect at a time can be chosen at run time.

  mutate.py list FILE...            lists every mutant of these files: FILE:LINE: FUNCTION: OPERATOR: A -> B: CODE
  mutate.py tree OPTION... FILE...  copies the whole tree, to be built like the original. These files have the mutants
                                    that --scenarios and --sample choose; tests/mutation/mutants.h gives programs their
                                    table

Operators derive the mutants from the code; nothing here quotes it. An operator changes one condition, one returned or
initial value, or one statement that is an expression:

  delete   removes the statement
  true     makes the condition, or an operand of && or || in it, true
  false    ... or false
  relation < becomes <=, == becomes !=, and so on
  logic    && becomes ||, and || becomes &&
  not      removes !
  plus     + becomes -, and - becomes +, also in += and -=
  number   n becomes n + 1
  word     true becomes false, and false true
  zero     makes a part of a key (xk_key), or an operand of | that builds a number, 0
  swap     reverses the bytes of a number read by xk_get16 to xk_get64

A copy behaves like the source while xk_mutant is 0, and like mutant N if it is N; lines keep their numbers.
"""
import argparse
import concurrent.futures
import fnmatch
import os
import random
import re
import shutil
import subprocess
import sys

TOKEN = re.compile(
    r"""(?P<space>\s+|/\*.*?\*/|//[^\n]*|\\\n)|(?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)"""
    r"""|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)|(?P<word>[A-Za-z_]\w*)"""
    r"""|(?P<sign>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""", re.S | re.M)
OPEN, CLOSE = "([{", ")]}"
TYPES = set("struct union enum const static extern register volatile unsigned signed int char short long float double bool "
            "void _Atomic typedef va_list size_t".split())
RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LOGIC = {"&&": "||", "||": "&&"}
PLUS = {"+": "-", "-": "+", "+=": "-=", "-=": "+="}
WORDS = {"true": "false", "false": "true"}
# Folders that are not copied, and the file that compiles the tables.
NOT_COPIED = ("build", "build-debug", "report")
BUILD_FILE = "xkernel/meson.build"
BUILD_LINE = "xkernel_sources += files('../tests/mutation/mutants.c', '../tests/mutation/mutant_table.c')\n"
# Assertions and traces: deleting them changes no behaviour.
SILENT = ("xk_assert", "xk_debug_assert", "xk_trace", "assert", "static_assert", "_Static_assert", "XK_TSAN", "va_start", "va_end")


class Token:
    __slots__ = ("kind", "text", "start", "end", "match")

    def __init__(self, kind, text, start):
        self.kind, self.text, self.start, self.end, self.match = kind, text, start, start + len(text), None


def tokens_of(text):
    """Returns the tokens without white space, comments and directives; brackets know their match."""
    found, stack = [], []
    for one in TOKEN.finditer(text):
        if one.lastgroup in ("space", "directive"):
            continue
        token = Token(one.lastgroup, one[0], one.start())
        if token.text in OPEN and token.kind == "sign":
            stack.append(len(found))
        elif token.text in CLOSE and token.kind == "sign" and stack:
            token.match = stack.pop()
            found[token.match].match = len(found)
        found.append(token)
    return found


class Region:
    """A condition, a value, or a statement; begin and end are indices of tokens."""

    def __init__(self, kind, function, begin, end):
        self.kind, self.function, self.begin, self.end = kind, function, begin, end


class Mutant:
    """A change in a region from `before` to `after`; text: the changed region; whole: the original one."""

    def __init__(self, file, line, function, region, operator, before, after, text, whole):
        self.file, self.line, self.function, self.region = file, line, function, region
        self.operator, self.before, self.after, self.text, self.whole = operator, before, after, text, whole
        self.number = None

    def __str__(self):
        return f"{self.file}:{self.line}: {self.function}: {self.operator}: {self.before} -> {self.after}: {self.whole}"


class Source:
    """A file and its regions."""

    def __init__(self, name, path):
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.name, self.tokens, self.regions = name, tokens_of(self.text), []
        at = 0
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.text == "{" and token.match is not None and at > 0:
                if self.tokens[at - 1].text == ")":
                    head = self.tokens[at - 1].match - 1
                    self.block(self.tokens[head].text, at + 1, token.match)
                at = token.match
            at += 1

    def block(self, function, at, end):
        """Collects the regions of the statements in [at, end)."""
        tokens = self.tokens
        while at < end:
            word = tokens[at].text
            if word in "{};" or word in ("else", "do"):
                at += 1
            elif word in ("if", "while", "switch") and tokens[at + 1].text == "(":
                close = tokens[at + 1].match
                if word != "switch":
                    self.regions.append(Region("condition", function, at + 2, close))
                at = close + 1
            elif word == "for":
                close = tokens[at + 1].match
                semicolons = self.depth_0(at + 2, close, ";")
                if len(semicolons) == 2 and semicolons[0] + 1 < semicolons[1]:
                    self.regions.append(Region("condition", function, semicolons[0] + 1, semicolons[1]))
                at = close + 1
            elif word == "case" or (tokens[at + 1].text == ":" and tokens[at].kind == "word"):
                at = self.depth_0(at, end, ":")[0] + 1
            else:
                at = self.statement(function, at, end)

    def statement(self, function, at, end):
        tokens = self.tokens
        if tokens[at].kind == "word" and tokens[at].text != "return" and tokens[at + 1].text == "(" and not self.goes_on(tokens[at + 1].match + 1):
            return tokens[at + 1].match + 1  # a macro that makes a loop
        semicolon = (self.depth_0(at, end, ";") or [end])[0]
        word = tokens[at].text
        if word == "return":
            if at + 1 < semicolon:
                self.regions.append(Region("value", function, at + 1, semicolon))
        elif word in ("break", "continue", "goto") or word in SILENT:
            pass
        elif self.declares(at):
            equal = self.depth_0(at, semicolon, "=")
            if (len(equal) == 1 and not self.depth_0(at, semicolon, ",") and tokens[equal[0] + 1].text != "{"
                    and word != "static"):
                self.regions.append(Region("value", function, equal[0] + 1, semicolon))
        else:
            self.regions.append(Region("statement", function, at, semicolon))
        return semicolon + 1

    def goes_on(self, at):
        """Returns whether the token behind a closing bracket belongs to the same statement."""
        return at < len(self.tokens) and self.tokens[at].kind == "sign" and self.tokens[at].text not in ("{", "*")

    def declares(self, at):
        tokens = self.tokens
        if tokens[at].kind != "word":
            return False
        if tokens[at].text in TYPES or tokens[at].text.endswith("_t"):
            return True
        at += 1
        while tokens[at].text == "*":
            at += 1
        return tokens[at].kind == "word"

    def depth_0(self, begin, end, text):
        """Returns where text is outside of brackets."""
        found, at = [], begin
        while at < end:
            if self.tokens[at].text == text:
                found.append(at)
            at = self.tokens[at].match + 1 if self.tokens[at].text in OPEN and self.tokens[at].match else at + 1
        return found

    # ---- operators ----

    def mutants(self):
        for region in self.regions:
            yield from self.of_region(region)

    def changed(self, region, operator, begin, end, after):
        """Returns the mutant that replaces tokens [begin, end) of the region."""
        left = self.plain(region.begin, begin)
        right = self.plain(end, region.end)
        token = self.tokens[begin]
        line = self.text.count("\n", 0, token.start) + 1
        text = " ".join(part for part in (left, after, right) if part)
        return Mutant(self.name, line, region.function, region, operator, self.plain(begin, end), after or "nothing", text,
                      self.plain(region.begin, region.end))

    def plain(self, begin, end):
        """Returns these tokens on one line, without comments."""
        return " ".join(token.text for token in self.tokens[begin:end])

    def of_region(self, region):
        tokens = self.tokens
        if region.kind == "statement" and self.plain(region.begin, region.end)[:8] != "( void )":
            yield self.changed(region, "delete", region.begin, region.end, "")
        if region.kind != "statement":
            yield from self.of_operands(region, region.begin, region.end, region.kind == "condition")
        for at in range(region.begin, region.end):
            text = tokens[at].text
            if text in SILENT:
                return
            for operator, table in (("relation", RELATIONS), ("logic", LOGIC), ("word", WORDS)):
                if text in table:
                    yield self.changed(region, operator, at, at + 1, table[text])
            if text in PLUS and (text[-1] == "=" or self.is_operand_end(at - 1, region.begin)):
                yield self.changed(region, "plus", at, at + 1, PLUS[text])
            if text == "!":
                yield self.changed(region, "not", at, at + 1, "")
            if tokens[at].kind == "number" and re.fullmatch(r"\d+[uUlL]*", text):
                digits = re.match(r"\d+", text)[0]
                yield self.changed(region, "number", at, at + 1, str(int(digits) + 1) + text[len(digits):])
            if text == "xk_key" and tokens[at + 1].text == ")" and tokens[at + 2].text == "{":
                yield from self.of_parts(region, at + 3, tokens[at + 2].match, ",")
            if re.fullmatch(r"xk_get(16|32|64)", text) and tokens[at + 1].text == "(":
                end = tokens[at + 1].match + 1
                yield self.changed(region, "swap", at, end, f"__builtin_bswap{text[6:]} ( {self.plain(at, end)} )")
        yield from self.of_bits(region)

    def is_operand_end(self, at, begin):
        return at >= begin and (self.tokens[at].kind in ("word", "number") or self.tokens[at].text in ")]")

    def of_operands(self, region, begin, end, is_condition):
        """Mutates the operands of && and ||, also inside brackets."""
        while tokens_wrapped(self.tokens, begin, end):
            begin, end = begin + 1, end - 1
        ends = sorted(self.depth_0(begin, end, "&&") + self.depth_0(begin, end, "||"))
        if self.depth_0(begin, end, "?") or self.depth_0(begin, end, ","):
            ends = []
        if not ends:
            if is_condition:
                yield self.changed(region, "true", begin, end, "true")
                yield self.changed(region, "false", begin, end, "false")
            return
        for one, other in zip([begin - 1] + ends, ends + [end]):
            yield from self.of_operands(region, one + 1, other, True)

    def of_parts(self, region, begin, end, sign):
        """Mutates the parts that a sign joins."""
        ends = self.depth_0(begin, end, sign)
        for one, other in zip([begin - 1] + ends, ends + [end]):
            if self.plain(one + 1, other) not in ("", "0"):
                yield self.changed(region, "zero", one + 1, other, "0")

    def of_bits(self, region):
        """Mutates numbers that | builds from shifted ones."""
        begins = [region.begin] + [at + 1 for at in range(region.begin, region.end) if self.tokens[at].text in ("(", ",", "=", "{")]
        for begin in begins:
            end = begin
            while end < region.end and self.tokens[end].text not in (")", ",", ";", "}", "]"):
                end = self.tokens[end].match + 1 if self.tokens[end].text in OPEN and self.tokens[end].match else end + 1
            end = min(end, region.end)
            if self.depth_0(begin, end, "|") and self.depth_0(begin, end, "<<") and not self.depth_0(begin, end, "="):
                yield from self.of_parts(region, begin, end, "|")

    # ---- copies ----

    def copy(self, mutants):
        """Returns the text with these mutants of this file."""
        by_region = {}
        for mutant in mutants:
            by_region.setdefault(mutant.region, []).append(mutant)
        text = self.text
        for region in sorted(by_region, key=lambda region: -region.begin):
            start, end = self.tokens[region.begin].start, self.tokens[region.end - 1].end
            rest = self.tokens[region.end].end if region.kind == "statement" else end  # behind the semicolon
            text = text[:start] + replacement(region, text[start:end], by_region[region]) + text[rest:]
        return f'#include "tests/mutation/mutants.h"\n#line 1 "{self.name}"\n{text}'


def tokens_wrapped(tokens, begin, end):
    return end - begin > 2 and tokens[begin].text == "(" and tokens[begin].match == end - 1


def replacement(region, original, mutants):
    """Returns the replacement of the original, with as many lines."""
    if region.kind == "statement":
        chosen = " else ".join(f"if (xk_mutant == {mutant.number}) {{ {mutant.text}; }}" for mutant in mutants)
        return f"{{ {chosen} else {{ {original}; }} }}"
    chosen = "".join(f"xk_mutant == {mutant.number} ? ({mutant.text}) : " for mutant in mutants)
    return f"({chosen}({original}))"


# ---- scenarios ----


class Refused(Exception):
    pass


class Scenario:
    """NAME [SEED] | FILES | OPERATOR | CODE: mutants of files, by operator, whose code contains CODE."""

    def __init__(self, line, where):
        fields = [field.strip() for field in line.split("|", 3)]
        name = re.fullmatch(r"(\w+)(?: (\d+))?", fields[0])
        if len(fields) != 4 or name is None:
            raise Refused(f"{where}: not NAME [SEED] | FILES | OPERATOR | CODE: {line}")
        self.where, self.name, self.files, self.operator = where, name[1], fields[1].split(), fields[2]
        self.seed = int(name[2] or 0)
        self.code = plain_code(fields[3])
        self.mutants = []

    def chooses(self, mutant):
        name = os.path.basename(mutant.file)
        return (mutant.operator == self.operator and any(fnmatch.fnmatchcase(name, files) for files in self.files)
                and (self.code in mutant.function or self.code in
                     (mutant.before if mutant.operator in ("delete", "true", "false", "zero", "swap") else mutant.whole)))


def plain_code(text):
    return " ".join(token.text for token in tokens_of(text))


def read_scenarios(path):
    found = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip() and not line.startswith("#"):
                found.append(Scenario(line.strip(), f"{path}:{number}"))
    return found


# ---- commands ----


def sources(root, files):
    return [Source(name, os.path.join(root, name)) for name in files]


def compiles(options, source, mutants):
    """Returns whether a copy with these mutants compiles."""
    command = [*options.cc.split(), "-std=gnu11", "-w", "-fsyntax-only", "-I", options.root, "-x", "c", "-"]
    return subprocess.run(command, input=source.copy(mutants), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          text=True, check=False).returncode == 0


def sample(options, found):
    """Returns options.sample mutants that compile, drawn by options.seed."""
    drawn = random.Random(options.seed).sample(found, len(found))
    good = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        while len(good) < options.sample and drawn:
            some, drawn = drawn[:options.sample], drawn[options.sample:]
            for number, (_, mutant) in enumerate(some):
                mutant.number = number + 1
            kept = pool.map(lambda one: compiles(options, one[0], [one[1]]), some)
            good += [mutant for (_, mutant), is_good in zip(some, kept) if is_good]
    return good[:options.sample]


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def table(mutants, scenarios):
    entries = "".join(f"\t{quoted(str(mutant))},\n" for mutant in mutants)
    named = ""
    for scenario in scenarios:
        numbers = ", ".join(str(mutant.number) for mutant in scenario.mutants)
        names = " ".join(dict.fromkeys(os.path.basename(mutant.file) for mutant in scenario.mutants))
        named += f"\t{{ {quoted(scenario.name)}, {quoted(names)}, (const unsigned[]){{ {numbers}, 0 }}, {scenario.seed} }},\n"
    return f"""/* Made by mutate.py. */
#include "tests/mutation/mutants.h"

#include <stddef.h>

const char *const mutants_table[] = {{
	"none",
{entries}	NULL,
}};

const struct mutants_scenario mutants_scenarios[] = {{
{named}	{{ NULL, NULL, NULL, 0 }},
}};
"""


def write(path, text):
    """Writes a file unless it has this text already, so that its dependents are not rebuilt."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def choose(options, found, scenarios):
    """Returns the mutants of all scenarios and of the sample, numbered."""
    every = [(source, mutant) for source in found for mutant in source.mutants()]
    chosen = []
    for scenario in scenarios:
        scenario.mutants = [mutant for _, mutant in every if scenario.chooses(mutant)]
        if not scenario.mutants:
            raise Refused(f"{scenario.where}: {scenario.name}: there is no such mutant")
        chosen += [mutant for mutant in scenario.mutants if mutant not in chosen]
    if options.sample:
        chosen += [mutant for mutant in sample(options, every) if mutant not in chosen]
    for number, mutant in enumerate(chosen):
        mutant.number = number + 1
    return chosen


def tree(options):
    found = sources(options.root, options.files)
    scenarios = read_scenarios(options.scenarios) if options.scenarios else []
    chosen = choose(options, found, scenarios)
    texts = {"tests/mutation/mutant_table.c": table(chosen, scenarios)}
    for source in found:
        mine = [mutant for mutant in chosen if mutant.file == source.name]
        if mine:
            texts[source.name] = source.copy(mine)
    with open(os.path.join(options.root, BUILD_FILE), encoding="utf-8") as file:
        texts[BUILD_FILE] = file.read() + BUILD_LINE
    for path, folders, names in os.walk(options.root):
        if path == options.root:
            folders[:] = [name for name in folders if name not in NOT_COPIED and name[0] != "."]
        for name in names:
            place = os.path.relpath(os.path.join(path, name), options.root)
            if place not in texts:
                copy_file(os.path.join(path, name), os.path.join(options.out, place))
    for name, text in texts.items():
        write(os.path.join(options.out, name), text)


def copy_file(source, target):
    if not os.path.exists(target) or os.path.getmtime(source) != os.path.getmtime(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(source, target)


def main():
    parser = argparse.ArgumentParser(description="makes copies of C sources with small defects that can be chosen")
    parser.add_argument("command", choices=["list", "tree"])
    parser.add_argument("--root", default=".", help="root of the files")
    parser.add_argument("--out", default=".", help="root of the copy")
    parser.add_argument("--scenarios", metavar="FILE", help="lines NAME [SEED] | FILES | OPERATOR | CODE")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="number of mutants, drawn among all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cc", default="cc", help="compiler and its options: mutants that it refuses are not drawn")
    parser.add_argument("files", nargs="+", metavar="FILE")
    options = parser.parse_args()
    try:
        if options.command == "tree":
            tree(options)
        else:
            for source in sources(options.root, options.files):
                for mutant in source.mutants():
                    print(mutant)
    except (Refused, OSError, UnicodeDecodeError) as why:
        print(why, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
