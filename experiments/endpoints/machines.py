#!/usr/bin/env python3
"""machines.py BUILD - the paper's machines in the simulator. Four costs are fitted to its round trips of 32 bytes; those of 1,024 bytes
are predicted from these costs and the published time of a copy. Prints both beside the published figures. --help has the options.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True
from programs import exit_with, find_and_print

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
NETWORK = os.path.join(ROOT, "experiments", "endpoints", "machines.dot")
SIZES = (32, 1024)
ROUNDS = 20
COPY_NS, COPY_BYTES = 2600, 1024  # between kernel and user, published
ENDS = {
    "handler": ("LLP, interrupt handler", ("endpoint=handler",), (54, 215)),
    "kernel": ("LLP, kernel level", ("endpoint=kernel",), (67, 252)),
    "static": ("LLP, user level, static buffer", ("endpoint=user", "static=yes"), (82, 278)),
    "user": ("LLP, user level", ("endpoint=user",), (88, 284)),
}


def round_trip_ns(build, end, size, costs):
    """Returns the simulated machines' round trip, with these costs in nanoseconds: interrupt, thread_switch, and a user's up and down."""
    settings = [f"graph.pingpong.{text}" for text in ENDS[end][1]]
    settings += [f"graph.pingpong.size={size}", f"graph.pingpong.rounds={ROUNDS}", "graph.pingpong.repeats=1"]
    settings += [f"graph.interrupt={costs.get('interrupt', 0)}ns", f"graph.thread_switch={costs.get('thread_switch', 0)}ns"]
    if end in ("static", "user"):
        copy_ns = round(costs.get("copy", 0) * 1000 / COPY_BYTES)  # per 1,000 bytes
        settings += [f"graph.vwork.up={costs.get('up', 0)}ns", f"graph.vwork.down={costs.get('down', 0) + costs.get(end, 0)}ns",
                     f"graph.vwork.up_kb={copy_ns}ns", f"graph.vwork.down_kb={copy_ns}ns"]
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        command = [os.path.join(build, "xk"), "run", NETWORK, "--link", "sim", "--quiet", "--until", "1s", "--json", file.name]
        for setting in settings:
            command += ["--set", setting]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        counters = json.load(file)["hosts"]["client"]
    if counters["pingpong.runs"] != 1:
        raise ValueError(f"{end}, {size} bytes: no run ended")
    return counters["pingpong.mean_ns"]


def fit(build):
    """Returns the costs with which each end's shortest round trip equals the published one."""
    costs = {"copy": COPY_NS}

    def missing(end):
        return ENDS[end][2][0] * 1000 - round_trip_ns(build, end, SIZES[0], costs)

    costs["interrupt"] = missing("handler") // 2
    costs["thread_switch"] = missing("kernel") // 2
    costs["up"] = costs["down"] = missing("static") // 4
    costs["user"] = missing("user") // 2
    return costs


def find(build):
    costs = fit(build)
    rows = [{"end": end, "title": title, "size": size, "fitted": size == SIZES[0], "published_us": published[i],
             "us": round_trip_ns(build, end, size, costs) / 1000}
            for end, (title, _, published) in ENDS.items() for i, size in enumerate(SIZES)]
    return {"costs_ns": costs, "rows": rows}


def print_found(found):
    print("Fitted costs: {interrupt} ns for an interrupt, {thread_switch} ns for a wake-up, {up} ns for each crossing of a user, and {user} ns "
          "more for a new buffer; given: {copy} ns for a copy of 1,024 bytes.\n".format(**found["costs_ns"]))
    print(f"{'us per round trip':34}{'bytes':>6}{'model':>9}{'published':>11}{'error':>8}")
    for row in found["rows"]:
        error = 100 * (row["us"] / row["published_us"] - 1)
        print(f"{row['title']:34}{row['size']:6}{row['us']:9.1f}{row['published_us']:11}{error:7.1f} %{'  fitted' if row['fitted'] else ''}")


def main():
    parser = argparse.ArgumentParser(description="the paper's machines on virtual time")
    parser.add_argument("build", help="directory of the programs")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    options = parser.parse_args()
    return find_and_print("machines", lambda: find(options.build), print_found, options.json)


exit_with(main)
