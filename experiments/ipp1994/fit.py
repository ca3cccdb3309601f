#!/usr/bin/env python3
"""fit.py - fits the costs of the hosts' protocols so that the model takes as long as the report's hosts did, in one
row of its tables: table 4, IPP, no handoff. --help has the options.

Three costs are fitted to four round trips by least squares: the Gauss-Newton method on simulated runs, in integers and
fractions. It begins at the answer of the report's section 4.2: the receiver's work on a fragment takes longer than the next
fragment takes to arrive. With --begin sender it begins with the per-byte work at the sender; the result shows whether the
figures allow that explanation as well. The result from the receiver's side is in graphs/udptest-1994.dot: --check compares,
and exits 1 if it differs.
"""
import argparse
import sys
from fractions import Fraction

sys.dont_write_bytecode = True
import hosts as model

BEGIN = {
    "receiver": {"up": 200000, "up_kb": 1000000, "down_kb": 0},
    "sender": {"up": 200000, "up_kb": 0, "down_kb": 1000000},
}
PROBE_NS = 1000  # change of a cost that shows its effect
GRAIN_NS = 100  # costs are multiples of this
STEPS = 20


def round_trips(options, parameters):
    sets = [f"vwork.{name}={parameters[name]}ns" for name in model.PARAMETERS]
    runs = model.simulate(options.build, options.graph, [["--mode", "ipp", "--handoff", "none"]], rounds=50, sets=sets)
    return [runs[model.FITTED[1], size]["rtt_ns"]["mean"] for size in model.SIZES]


def product(a, b):
    return sum(x * y for x, y in zip(a, b))


def solve(matrix, right):
    """Solves as many linear equations as there are unknowns (Gauss-Jordan)."""
    rows = [[Fraction(value) for value in row] + [Fraction(value)] for row, value in zip(matrix, right)]
    for column in range(len(rows)):
        pivot = next((row for row in rows[column:] if row[column] != 0), None)
        if pivot is None:
            raise model.Failed("two costs have the same effect here: they cannot be distinguished")
        rows.remove(pivot)
        pivot = [value / pivot[column] for value in pivot]
        rows = [[a - row[column] * b for a, b in zip(row, pivot)] for row in rows]
        rows.insert(column, pivot)
    return [row[-1] for row in rows]


def step(options, parameters):
    """Returns better costs, assuming that all effects are proportional."""
    now = round_trips(options, parameters)
    effects = []
    for name in model.PARAMETERS:
        changed = round_trips(options, {**parameters, name: parameters[name] + PROBE_NS})
        effects.append([Fraction(b - a, PROBE_NS) for a, b in zip(now, changed)])
    wanted = [1000 * time - a for time, a in zip(model.FITTED[2], now)]
    normal = [[product(a, b) for b in effects] for a in effects]
    better = {}
    for name, change in zip(model.PARAMETERS, solve(normal, [product(a, wanted) for a in effects])):
        better[name] = max(0, round((parameters[name] + change) / GRAIN_NS) * GRAIN_NS)
    return better


def fit(options):
    parameters = dict(BEGIN[options.begin])
    for _ in range(STEPS):
        better = step(options, parameters)
        print("  " + "  ".join(f"{name} {model.us_text(better[name])}" for name in model.PARAMETERS))
        if better == parameters:
            return parameters
        parameters = better
    raise model.Failed(f"no convergence after {STEPS} steps")


def print_fit(options, parameters):
    print("\nround trip, us      published     model  residual")
    for size, time, ns in zip(model.SIZES, model.FITTED[2], round_trips(options, parameters)):
        print(f"{size:8} bytes {time:14} {model.us_text(ns):>9} {model.us_text(ns - 1000 * time):>9}")
    work = model.receive_ns(parameters, model.FULL_FRAGMENT)
    interval = model.interval_ns(model.FULL_FRAGMENT)
    good = interval < work < 2 * interval
    print(
        f"\nThe receiver works {model.us_text(work)} us on a full fragment, and the next arrives after "
        f"{model.us_text(interval)} us:\n" + ("longer than one interval, shorter than two." if good else "NOT between one interval and two.")
    )
    print("\n\tvwork [" + ", ".join(f'{name}="{parameters[name]}ns"' for name in model.PARAMETERS) + "];")
    return good


def main():
    parser = argparse.ArgumentParser(description="fits the costs of graphs/udptest-1994.dot")
    parser.add_argument("--build", default=f"{model.ROOT}/build", help="directory of udptest (build)")
    parser.add_argument("--graph", default=f"{model.ROOT}/{model.GRAPH}", help=f"the graph ({model.GRAPH})")
    parser.add_argument("--begin", choices=BEGIN, default="receiver", help="the end whose work initially depends on the bytes (receiver)")
    parser.add_argument("--check", action="store_true", help="compare the result with the graph file")
    options = parser.parse_args()
    print("costs, us (up_kb, down_kb: per 1000 bytes), step by step")
    parameters = fit(options)
    good = print_fit(options, parameters)
    if options.check and parameters != model.read_parameters(options.graph):
        print(f"\nNOT the costs in {options.graph}")
        good = False
    return 0 if good else 1


model.exit_with(main)
