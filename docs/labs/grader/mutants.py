"""mutants.py - marks the tests that a student has written, by the planted mistakes that they find.

A mistake of the instructor's folder (wrong/NAME.json), planted in the answer, is a mutant. The student's test_NAME.c is
linked with the answer and with some mutants, all with the student's layout. The tests have to pass with the answer each
time that they are run, and find a mutant if they fail with it each time.

The tests are hostile C in one process with what they test, so they must not learn which variant that is except by what it
does. They are compiled once and apart from all variants; the names of the programs, the order in which they are made and
run, and the compiler's options of each variant are drawn anew each time, so that the bytes of its code say little. Their
output is used for one thing only: the name of the first test that fails with the answer.
"""
import collections
import json
import os
import random
import re
import time

import keys
from sandbox import ROOT, TESTS_WAITING_S, Refused, Unusable, take

COUNT = 8  # mutants for each student
ANSWERS, ANSWER_RUNS = 3, 3  # so many programs with the answer, each run so many times
MUTANT_RUNS = 2
RIG = ("rig.c", "rig_bytes.c", "rig_call.c", "rig_user.c", "rig_wire.c", "test_main.c")
TREE = os.path.join(ROOT, "docs", "labs", "instructor")


class Missing(Exception):
    """There is no answer or mutant to try tests on."""


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def read_part(instructor, *path):
    """Reads a file of the instructor's folder or, where that has none, of this tree's."""
    for folder in (instructor, TREE):
        if os.path.exists(os.path.join(folder, *path)):
            return read(folder, *path)
    raise Missing(f"neither the instructor's folder nor docs/labs/instructor has {'/'.join(path)}")


def disguise(chance):
    """Options that change the code of a variant, but not its behaviour."""
    return [chance.choice(("-O0", "-O1", "-O2", "-O3", "-Os")), chance.choice(("-fno-inline", "-finline-functions")),
            chance.choice(("-fno-omit-frame-pointer", "-fomit-frame-pointer")), f"-falign-functions={chance.choice((1, 16, 32, 64))}",
            f"-falign-loops={chance.choice((1, 16, 32))}", chance.choice(("-fno-reorder-functions", "-fno-toplevel-reorder")), "-g0", "-w"]


class Mutants:
    """The mutants of a lab's answer that tests have to find."""

    def __init__(self, sandbox, build, lab, instructor):
        self.sandbox, self.lab = sandbox, lab
        self.answer = read_part(instructor, "answers", f"{lab.name}.c").decode()
        planted = json.loads(read_part(instructor, "wrong", f"{lab.name}.json"))
        self.rig = [sandbox.compile_object(name, {name: read(ROOT, "tests", name)}) for name in RIG] + [self._table(build)]
        self.beyond, within = self._by_given([mistake for mistake in planted if mistake.get("tests", True)])
        self.mistakes = self.beyond or within
        if not self.mistakes:
            raise Missing(f"no mistake for tests is in wrong/{lab.name}.json")

    def _table(self, build):
        """The table of all protocols, with the lab's."""
        with open(os.path.join(build, "protocols", "protocol_table.c"), encoding="utf-8") as file:
            types = sorted({f"xk_type_{self.lab.name}", *re.findall(r"\bxk_type_\w+", file.read())})
        text = '#include "xkernel/protocol.h"\n' + "".join(f"extern const struct xk_protocol_type {name};\n" for name in types)
        text += f"const struct xk_protocol_type *const xk_protocol_types[] = {{ {', '.join('&' + name for name in types)}, NULL }};\n"
        return self.sandbox.compile_object("table.c", {"table.c": text.encode()})

    def _by_given(self, planted):
        """Returns the mistakes that the visible tests do not find, and those that they find.

        Mistakes that do not compile, or have a main of their own, are only for the checks."""
        layout, name = self.lab.layout(0), f"test_{self.lab.name}.c"
        given = self._compile_tests(read(ROOT, "docs", "labs", self.lab.name, name), layout)
        status, output = self.sandbox.run(self._program(given, self._variant(None, layout)))
        if status != 0:
            raise Unusable(f"the tests of lab {self.lab.number} fail with the instructor's answer:\n{output}")
        beyond, within = [], []
        for mistake in planted:
            try:
                program = self._program(given, self._variant(mistake, layout))
            except Refused:
                continue
            (beyond if self.sandbox.run(program)[0] == 0 else within).append(mistake)
            os.remove(program)
        return beyond, within

    def _compile_tests(self, text, layout):
        name = f"test_{self.lab.name}.c"
        return self.sandbox.compile_object(name, {name: text, f"{self.lab.name}.h": layout.header().encode()})

    def _variant(self, mistake, layout, options=()):
        """Compiles the answer (None), or a mutant."""
        name, text = f"{self.lab.name}.c", self.answer
        if mistake is not None:
            if mistake["old"] not in text:
                raise ValueError(f"wrong/{self.lab.name}.json: {mistake['name']}: the answer does not contain the old text")
            text = text.replace(mistake["old"], mistake["new"])
        return self.sandbox.compile_object(name, {name: text.encode(), f"{self.lab.name}.h": layout.header().encode()}, options)

    def _program(self, tests, variant):
        return self.sandbox.link(f"test_{self.lab.name}.c with {self.lab.name}.c", [tests, variant, *self.rig])

    def choose(self, key, student):
        order = sorted(self.mistakes, key=lambda mistake: keys.number(key, "mutant", self.lab.name, student, mistake["name"]))
        return order[:COUNT]

    def mark(self, text, layout, mistakes):
        """Tries tests on these mistakes. Returns (mistakes that were found, None or why none is)."""
        chance = random.SystemRandom()
        variants = [None] * ANSWERS + mistakes
        chance.shuffle(variants)  # a program can see when it was made
        try:
            tests = self._compile_tests(text, layout)
            programs = [(mistake, self._program(tests, self._variant(mistake, layout, disguise(chance)))) for mistake in variants]
        except Refused as why:
            return [], str(why)
        runs = [one for one in programs for _ in range(ANSWER_RUNS if one[0] is None else MUTANT_RUNS)]
        chance.shuffle(runs)
        passed, why, end = collections.Counter(), None, time.monotonic() + TESTS_WAITING_S
        for mistake, program in runs:
            status, output = self.sandbox.run(program, max(0, end - time.monotonic()))
            if time.monotonic() > end:
                why = f"the tests used up their budget for all runs: {TESTS_WAITING_S} seconds"
                break
            if mistake is None and status != 0:
                why = "the tests fail with the right answer" + self._first_failure(text, output)
                break
            if mistake is not None and status == 0:
                passed[mistake["name"]] += 1
        for _, program in programs:
            os.remove(program)
        return [] if why else [mistake for mistake in mistakes if not passed[mistake["name"]]], why

    @staticmethod
    def _first_failure(text, output):
        """The first failure printed by CUnit, if it names a test in the student's text: no other output is passed on."""
        failed = re.search(r"^ *Test: (\w+) \.\.\.FAILED", output, re.MULTILINE)
        names = re.findall(r"\b(?:RIG_)?TEST(?:_WITH)?\((\w+)", text.decode(errors="replace"))
        return f": {failed[1]}" if failed and failed[1] in names else ""


def result_of(mutants, directory, key, student, layout, marks):
    """Returns the result of a student's tests, ready for JSON."""
    mistakes = mutants.choose(key, student)
    try:
        found, why = mutants.mark(take(directory, f"test_{mutants.lab.name}.c"), layout, mistakes)
    except Refused as refused:
        found, why = [], str(refused)
    return {"found": len(found), "mistakes": len(mistakes), "marks": marks * len(found) // len(mistakes), "of": marks,
            "missed": [mistake["name"] for mistake in mistakes if mistake not in found], "why": why}
