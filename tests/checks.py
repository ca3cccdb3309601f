"""checks.py - for test scripts: prints a line for each check, `ok` or `FAIL`, with the wrong figures in a line, and counts failures."""

import ast
import json
import os
import re
import subprocess
import sys

failures = 0
LINE = 200  # characters of data per line; a program's output keeps its own lines


def shown(words):
    """Returns words as a report's page writes them."""
    return re.sub(r"\bus\b", "µs", words).replace("`", "")


def cut(value):
    words = value if isinstance(value, str) else repr(value)
    return words if len(words) <= LINE else words[:LINE] + " ..."


def difference(got, want, name):
    """Describes the first difference between two values."""
    inner = []
    if isinstance(got, dict) and isinstance(want, dict):
        inner = [(got[key], want[key], f"{name}[{key!r}]") for key in got if key in want and got[key] != want[key]]
        inner = inner or [(list(got), list(want), f"list({name})")]
    elif isinstance(got, list | tuple) and type(got) is type(want):
        inner = [(one, other, f"{name}[{i}]") for i, (one, other) in enumerate(zip(got, want)) if one != other]
        inner = inner or [(len(got), len(want), f"len({name})")]
    elif isinstance(got, str) and isinstance(want, str) and max(len(got), len(want)) > LINE // 2:
        at = max(0, len(os.path.commonprefix([got, want])) - 10)
        got, want, name = got[at:at + LINE // 3], want[at:at + LINE // 3], f"{name}[{at}:]"
    return difference(*inner[0]) if inner else f"{name} is {cut(got)}, not {cut(want)}"


class Explained:
    """Explains why a condition is false, from the source of the script that called expect: the false part and its values."""

    def __init__(self, frame):
        self.names = {**frame.f_globals, **frame.f_locals}
        with open(frame.f_code.co_filename, encoding="utf-8") as file:
            calls = [node for node in ast.walk(ast.parse(file.read())) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "expect"
                     and node.lineno <= frame.f_lineno <= node.end_lineno]
        self.condition = min(calls, key=lambda call: call.end_lineno - call.lineno).args[0]

    def value(self, node):
        return eval(compile(ast.fix_missing_locations(ast.Expression(node)), "condition", "eval"), self.names)

    def words(self, node):
        if isinstance(node, ast.BoolOp):
            wrong = [part for part in node.values if not self.value(part)] if isinstance(node.op, ast.Or) else \
                [next(part for part in node.values if not self.value(part))]
            return "; ".join(self.words(part) for part in wrong)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"{ast.unparse(node.operand)} is {cut(self.value(node.operand))}"
        if isinstance(node, ast.Compare):
            left, op, right = next(pair for pair in zip([node.left, *node.comparators], node.ops, node.comparators)
                                   if not self.value(ast.Compare(pair[0], [pair[1]], [pair[2]])))
            if isinstance(op, ast.Eq):
                return difference(self.value(left), self.value(right), ast.unparse(left))
            return f"{ast.unparse(ast.Compare(left, [op], [right]))}: {cut(self.value(left))} and {cut(self.value(right))}"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "all" and isinstance(node.args[0], ast.GeneratorExp):
            return self.first_of(node.args[0])
        return f"{ast.unparse(node)} is {cut(self.value(node))}"

    def first_of(self, generator):
        """Explains the first element for which the generator's expression is false."""
        found = {name.id: name for part in generator.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)}
        each = ast.Dict([ast.Constant(name) for name in found], [ast.Name(name, ast.Load()) for name in found])
        last = generator.generators[-1]
        parts = [*generator.generators[:-1], ast.comprehension(last.target, last.iter, [*last.ifs, ast.UnaryOp(ast.Not(), generator.elt)], 0)]
        self.names.update(next(iter(self.value(ast.GeneratorExp(each, parts)))))
        return self.words(generator.elt)


def explained(frame):
    """Returns the condition's figures in a line; None: the condition is a single name, or true when evaluated again."""
    try:
        of = Explained(frame)
        return None if isinstance(of.condition, ast.Name | ast.Constant) else cut(of.words(of.condition).replace("\n", " "))
    except Exception:
        return None


def expect(good, what, why=""):
    """Prints a check's result. `why` is a program's output or data; data longer than a line is omitted if the figures explain the failure."""
    global failures
    print(f"{'ok  ' if good else 'FAIL'} {what}", flush=True)
    if not good:
        failures += 1
        figures, lines = explained(sys._getframe(1)), why.splitlines()
        told = lines if len(lines) > 1 or len(why) <= LINE or figures is None else []
        for line in ([figures] if figures else []) + told[:40]:
            print("     " + cut(line), flush=True)


def chapter(name, work, *options):
    """Makes the report's chapter from BUILD, the script's argument, in the directory work. Returns its document and its page's text, or None."""
    report = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "experiments", "report", "report.py")
    done = subprocess.run([sys.executable, report, sys.argv[1], work, "--only", name, "--brief", *options], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    expect(done.returncode == 0, "the report makes its chapter", done.stdout)
    if done.returncode != 0:
        return None
    with open(os.path.join(work, f"{name}.json"), encoding="utf-8") as file, open(os.path.join(work, "index.html"), encoding="utf-8") as page:
        return json.load(file), page.read().replace("&#x27;", "'").replace("&quot;", '"')
