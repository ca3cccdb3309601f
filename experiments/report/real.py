"""real.py - whether this machine agrees with the simulator on when to hand off: two hosts over virtio, two points of a sweep."""
import json
import os
import signal
import subprocess
import tempfile
import time

import lab as labs
import sweeps

POINTS_US = (1, 1000)  # handing off costs, and saves
PATIENCE_S = 60


def start(lab, core, graph, number, *more):
    """A host; returns when it stands."""
    process = subprocess.Popen(
        [os.path.join(lab.build, "xk"), "run", graph, "--cores", core, "--mode", "ipp", "--driver", "interrupt",
         "--set", f"port.dev=policies-{os.getpid()}-{number}", *more],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    if " stands " not in line:
        process.kill()
        process.wait()
        raise labs.Failed(line.strip() or "a host has ended")
    return process


def end(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()


def measure(lab, graph, work_us, number):
    """Answers a second, to one client that always waits for one piece of work and for one short question."""
    cores = lab.cores.split(",")
    seconds = lab.rounds(0.5, 0.2)
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        server = start(lab, cores[-1], graph, number, "--set", f"vwork.up={work_us}us")
        try:
            client = start(lab, cores[0], sweeps.GRAPH, number, "--end", "client", "--json", file.name, "--set",
                           "work.peer=10.77.0.2", "--set", "short.peer=10.77.0.2", "--set", "work.rounds=100000000",
                           "--set", "short.rounds=100000000")
            time.sleep(seconds)
            end(client)
        finally:
            end(server)
        counters = json.load(file)["host"]["counters"]
    return {"works": counters["work.messages"], "shorts": counters["short.messages"], "seconds": seconds}


def compare(section, lab):
    """Carries on and hands off in turn; what all together are answered decides."""
    rows = []
    repeats = lab.rounds(labs.REPEATS, 2)
    with sweeps.Sweep(lab) as sweep:
        for work in POINTS_US:
            runs = [[measure(lab, graph, work, f"{work}-{turn}-{i}") for i, graph in enumerate((sweeps.GRAPH, sweep.marked))]
                    for turn in range(repeats)]
            rows.append({"work_us": work, "none": [pair[0] for pair in runs], "explicit": [pair[1] for pair in runs]})
    tell(section, rows)
    return rows


def ratios(row):
    """Of the answers with a handoff to those without."""
    totals = [[run["works"] + run["shorts"] for run in row[policy]] for policy in ("none", "explicit")]
    return labs.interval([b / max(a, 1) for a, b in zip(*totals)])


def per_second(runs, key):
    return labs.spread(labs.interval([run[key] / run["seconds"] for run in runs]), 0)


def tell(section, rows):
    section.table(
        "On this machine, over virtio: one request for work and one short question are always under way; answers a second",
        ("work, policy", "work", "short questions"),
        [(f"{row['work_us']} us, {name}", per_second(row[policy], "works"), per_second(row[policy], "shorts"))
         for row in rows for policy, name in (("none", "in the driver"), ("explicit", "handed off"))],
    )
    for row, saves in zip(rows, (False, True)):
        ratio = ratios(row)
        section.check(
            ratio["low"] > 1 if saves else ratio["high"] < 1,
            f"On this machine, {row['work_us']} us of work: with a handoff {labs.spread(ratio, 2)} of the answers without; in the "
            f"simulator handing off {'saves' if saves else 'costs'}.",
        )
