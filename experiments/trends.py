#!/usr/bin/env python3
"""trends.py BUILD OLD - compares two builds: in each turn both run each workload, which yields a pair of figures.

A ratio is new over old, the median of all pairs; in brackets are the lowest and the highest, which enclose the true median
with a confidence of 97 % (six pairs). A ratio counts as a change if its interval excludes 1. Instruction counts (callgrind) hardly vary, so
a change of 1 % counts. --help has the options.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from programs import Failed, die_with_parent, exit_with, find_and_print

PATIENCE_S = 600
POLLING = ("--mode", "ipp", "--handoff", "none", "--driver", "poll")


def net_ns(found):
    return found["echo_ns"] - found["rig_ns"]


def first_ns(found):
    return found["runs"][0]["rtt_ns"]["p50"]


# Workload: (program and options, function that extracts the figure from its JSON).
ONE_PROCESS = {
    "an echo, 1 byte": (("xk", "bench", "echo"), net_ns),
    "an echo, 1,472 bytes": (("xk", "bench", "echo", "--size", "1472"), net_ns),
    "one of 32 echoes in a turn": (("xk", "bench", "echo", "--burst", "32"), net_ns),
    "a call, 1 byte": (("xk", "bench", "call"), lambda found: found["call_ns"]),
    "a call, 1,472 bytes": (("xk", "bench", "call", "--size", "1472"), lambda found: found["call_ns"]),
    "a handoff, regular mode": (("xk", "bench", "handoff"), lambda found: found["ways"]["regular"]["p50"]),
}
TWO_PROCESSES = {
    "a round trip, polling": (("udptest", *POLLING), first_ns),
    "a round trip, sleeping drivers": (("udptest", "--mode", "ipp", "--handoff", "none"), first_ns),
    "... in regular mode": (("udptest", "--mode", "regular"), first_ns),
    "a call between processes, polling": (("chantest", *POLLING), first_ns),
}
COUNTED = ("an echo, 1 byte", "an echo, 1,472 bytes", "a call, 1 byte", "a call, 1,472 bytes")
ENOUGH = 6  # pairs whose range holds the median with 97 % confidence
COUNTS = 2  # pairs of instruction counts
LEAST = 0.01  # smallest relative change of a count


class Trends:
    def __init__(self, options):
        self.builds = {"old": os.path.abspath(options.old), "new": os.path.abspath(options.build)}
        self.rounds, self.turns, self.cores = options.rounds, options.turns, options.cores
        self.counted = options.counted
        self.missing = {}

    def run(self, command, build, prefix=()):
        program, *arguments = command
        done = subprocess.run([*prefix, os.path.join(self.builds[build], program), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE_S, preexec_fn=die_with_parent,
                              cwd=os.path.dirname(self.builds[build]))  # graphs are beside it
        if done.returncode != 0:
            raise Failed(f"{build}: {done.stderr.strip()[-200:]}")
        return done

    def figure(self, what, build):
        command, of = (ONE_PROCESS | TWO_PROCESSES)[what]
        rounds = self.rounds if what in TWO_PROCESSES else 10 * self.rounds
        more = ("--cores", self.cores) if what in TWO_PROCESSES else ()
        return of(json.loads(self.run((*command, *more, "--rounds", str(rounds), "--json", "-"), build).stdout))

    def instructions(self, what, build):
        """Returns the instructions of one round, from the difference of two runs."""
        counts = []
        for rounds in (self.counted, 2 * self.counted):
            done = self.run((*ONE_PROCESS[what][0], "--rounds", str(rounds)), build, ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"))
            counts.append(int(re.search(r"Collected : (\d+)", done.stderr)[1]))
        return (counts[1] - counts[0]) / self.counted

    def tried(self, what, measure):
        try:
            return measure()
        except (Failed, OSError, LookupError, TypeError, ValueError, subprocess.SubprocessError) as why:
            self.missing[what] = str(why)
            return None

    def pair(self, what, turn):
        """Returns (old, new). The order of the runs alternates by turn."""
        order = ("old", "new") if turn % 2 else ("new", "old")
        found = {build: self.figure(what, build) for build in order}
        if min(found.values()) <= 0:
            raise Failed("the rig's time exceeds the whole: too few rounds")
        return found["old"], found["new"]

    def find(self):
        pairs = {what: [] for what in ONE_PROCESS | TWO_PROCESSES}
        for turn in range(self.turns):
            for what in pairs:
                if what not in self.missing and (found := self.tried(what, lambda what=what, turn=turn: self.pair(what, turn))):
                    pairs[what].append(found)
            print(".", end="", file=sys.stderr, flush=True)
        if len(self.missing) == len(pairs):
            raise Failed(f"no workload can be measured: {next(iter(self.missing.values()))}")
        rows = [{"what": what, "unit": "ns", "pairs": found, **self.summary_of([new / old for old, new in found])}
                for what, found in pairs.items() if what not in self.missing]
        for what in COUNTED if self.counted else ():
            found = self.tried(f"{what}, instructions", lambda what=what: [[self.instructions(what, build) for build in ("old", "new")]
                                                                          for _ in range(COUNTS)])
            if found:
                rows.append({"what": what, "unit": "instructions", "pairs": found,
                             **self.summary_of([new / old for old, new in found], COUNTS, LEAST)})
        print(file=sys.stderr)
        return {"turns": self.turns, "rows": rows, "missing": self.missing}

    @staticmethod
    def summary_of(ratios, enough=ENOUGH, least=0):
        low, high = min(ratios), max(ratios)
        change = None if len(ratios) < enough else "more" if low > 1 + least else "less" if high < 1 - least else None
        return {"ratio": statistics.median(ratios), "low": low, "high": high, "change": change}


def print_found(found):
    print(f"{'new over old':34}{'old':>10}{'new':>10}  ratio")
    for row in found["rows"]:
        old, new = (statistics.median(figures) for figures in zip(*row["pairs"]))
        change = "  " + row["change"] if row["change"] else ""
        print(f"{row['what'] + ', ' + row['unit']:34}{old:10.0f}{new:10.0f}  {row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f}){change}")
    for what, why in found["missing"].items():
        print(f"not measured: {what}: {why}")


def main():
    parser = argparse.ArgumentParser(prog="trends", description="compares the performance of two builds")
    parser.add_argument("build", help="directory of the new programs")
    parser.add_argument("old", help="directory of the old programs")
    parser.add_argument("--cores", default="0,1", metavar="A,B", help="cores of client and server (0,1)")
    parser.add_argument("--rounds", type=int, default=20000, help="round trips of each figure; in one process, ten times as many (20000)")
    parser.add_argument("--counted", type=int, default=20000, help="rounds counted for instructions, after as many uncounted ones (20000; 0: none)")
    parser.add_argument("--turns", type=int, default=6, help="pairs (6)")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    options = parser.parse_args()
    return find_and_print("trends", Trends(options).find, print_found, options.json)


if __name__ == "__main__":
    exit_with(main)
