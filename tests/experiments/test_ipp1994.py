#!/usr/bin/env python3
"""test_ipp1994.py BUILD - checks experiments/ipp1994: the tables agree with the report, the graph has the costs that the
fit finds, the figures are the same every time, and a different model is contradicted.

Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
sys.dont_write_bytecode = True
import checks
from checks import expect

HERE = os.path.join(ROOT, "experiments", "ipp1994")


def run(program, *arguments):
    """(status, output)"""
    command = [sys.executable, os.path.join(HERE, program), "--build", sys.argv[1], *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def tables(file, *arguments):
    """(status, output, document)"""
    status, output = run("tables.py", "--quick", "--json", file, *arguments)
    with open(file, encoding="utf-8") as stream:
        return status, output, json.load(stream)


def times(document, table):
    """{row: round trips by size, in ns}"""
    rows = {}
    for cell in document["tables"][table]:
        rows.setdefault(cell["row"], []).append(cell["rtt_ns"])
    return rows


def check_times(document):
    """Checks signs and orders, besides the checks of tables.py itself."""
    four, six, seven = (times(document, table) for table in "467")
    regular, client, server, none = (
        four[row] for row in ("Regular", "IPP, client handoff", "IPP, server handoff", "IPP, no handoff")
    )
    expect(all(r > c > n for r, c, n in zip(regular, client, none)), "regular, a handoff, none: in this order", four)
    expect(client == server, "a handoff costs the same at either end", four)
    # 2 x (30.7 - 3.6), exactly; two fragments start two stacks
    expect([r - n for r, n in zip(regular, none)][:2] == [54200, 54200], "IPP's saving is table 2's", four)
    one, two = six["1"], six["2"]
    expect(one[:2] == two[:2] and one[2] < two[2] and one[3] < two[3], "only fragments are affected by the second thread", six)
    expect(two[2] - one[2] == 2 * 30700, "a second fragment is one more handoff at each end", six)
    expect(seven["IPP, 1 thread"] == seven["IPP, 3 threads"], "IPP is not affected by threads", seven)


def check_switches(document):
    cells = document["tables"]["5"]
    off = [cell for cell in cells if abs(cell["switches"] - cell["published"]) * 100 > cell["published"]]
    expect(len(cells) == 8 and not off, "switches are within 1 % of table 5", off)


def refused(document):
    return [found["text"] for found in document["checks"] if not found["agrees"]]


def check_failures(file):
    """Checks that tables.py does not agree with another model."""
    status, output, document = tables(file, "--costs", "none")
    said = " ".join(refused(document))
    expect(status == 1 and "regular is slowest" in said, "without costs of threads: refused", output)
    status, output, document = tables(file, "--set", "vwork.up_kb=0us")
    said = " ".join(refused(document))
    expect(status == 1 and "switches are within" in said and "longer than one" in said,
           "with a receiver faster than the wire: refused", output)
    status, output = run("tables.py", "--quick", "--graph", "/nonexistent.dot")
    expect(status == 1 and "nonexistent.dot" in output and "Traceback" not in output, "a missing graph", output)


def check_fit(file):
    status, output = run("fit.py", "--check")
    expect(status == 0, "the graph has the costs that the fit finds", output)
    with open(os.path.join(ROOT, "graphs", "udptest-1994.dot"), encoding="utf-8") as stream:
        text = stream.read()
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(text.replace('up="236200ns"', 'up="236300ns"'))
    status, output = run("fit.py", "--check", "--graph", file)
    expect(status == 1 and "NOT the costs in" in output, "other costs are reported", output)
    status, output = run("fit.py", "--begin", "sender")
    expect(status == 1 and "NOT between one interval and two" in output, "the bytes' work cannot be the sender's", output)


def main():
    if len(sys.argv) != 2 or not os.path.exists(os.path.join(sys.argv[1], "udptest")):
        print("usage: tests/experiments/test_ipp1994.py BUILD", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "file")
        status, output, document = tables(file)
        expect(status == 0 and document["checks"] and not refused(document), "tables.py agrees", output)
        expect(tables(file)[1:] == (output, document), "the second run has the same output")
        check_times(document)
        check_switches(document)
        check_failures(file)
        check_fit(file)
    print(f"{checks.failures} failed" if checks.failures else "all figures agree with the report")
    return 1 if checks.failures else 0


sys.exit(main())
