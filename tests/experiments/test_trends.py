#!/usr/bin/env python3
"""test_trends.py BUILD - checks that trends.py reports changes in given figures, and that it measures every workload of a build against
itself. Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "experiments")]
sys.dont_write_bytecode = True
import checks
import trends
from checks import expect

TRENDS = os.path.join(ROOT, "experiments", "trends.py")


def run(*arguments):
    return subprocess.run([sys.executable, TRENDS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def check_judgement():
    for ratios, more, wanted in (([1.02, 1.3, 1.1, 1.2, 1.01, 1.05], (), "more"), ([0.9] * 6, (), "less"), ([0.99, 1.3, 1.1, 1.2, 1.1, 1.05], (), None),
                                 ([1.2] * 5, (), None), ([1.011, 1.02], (2, 0.01), "more"), ([1.009, 1.02], (2, 0.01), None)):
        found = trends.Trends.summary_of(ratios, *more)
        expect(found["change"] == wanted and found["low"] <= found["ratio"] <= found["high"], f"{ratios}: {wanted}", str(found))


def check_run(build):
    with tempfile.TemporaryDirectory() as work:
        file = os.path.join(work, "trends.json")
        done = run(build, build, "--rounds", "200", "--turns", "1", "--counted", "0", "--json", file)
        expect(done.returncode == 0, "a build beside itself", done.stderr)
        if done.returncode == 0:
            with open(file, encoding="utf-8") as stream:
                found = json.load(stream)
            told = {row["what"] for row in found["rows"] if row["unit"] == "ns"} | set(found["missing"])
            expect(told == set(trends.ONE_PROCESS | trends.TWO_PROCESSES), "... with every workload", str(found))
            expect(all(row["change"] is None for row in found["rows"] if row["unit"] == "ns"), "... and one pair proves no change", str(found))


def check_instructions(build):
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return
    options = argparse.Namespace(build=build, old=build, rounds=0, turns=0, cores="0,1", counted=500)
    count = trends.Trends(options).instructions("an echo, 1 byte", "new")
    expect(200 < count < 5000, "instructions of an echo", str(count))


def check_refused(build):
    done = run("/nonexistent", build, "--rounds", "100", "--turns", "1")
    expect(done.returncode == 1 and "Traceback" not in done.stderr and "no workload can be measured" in done.stderr, "missing programs", done.stderr)


check_judgement()
check_run(sys.argv[1])
check_instructions(sys.argv[1])
check_refused(sys.argv[1])
sys.exit(1 if checks.failures else 0)
