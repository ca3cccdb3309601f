"""real.py - tests on this machine what the simulator finds on when to hand off: two hosts over virtio, three points."""
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time

import lab as labs
import sweeps
from programs import await_standing

POINTS = ((1, False), (100, True), (1000, True))  # (us of work, whether there are also short questions: then handing off saves)
PATIENCE_S = 60
CLIENT, SERVER = 0, 1


def start(lab, end, graph, number, *more):
    """Starts a host (end: CLIENT or SERVER), and returns its process once it is up."""
    link = lab.far.of_end(end) if lab.far else ["--set", f"port.dev=policies-{os.getpid()}-{number}"]
    core = (lab.far.cores if lab.far else lab.cores.split(","))[end]
    command = [os.path.join(lab.build, "xk"), "run", graph, "--cores", core, "--mode", "ipp", "--driver", "adaptive", *link, *more]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = lab.far.start(command, **pipes) if lab.far and end == SERVER else subprocess.Popen(command, stdin=subprocess.DEVNULL, **pipes)
    try:
        await_standing(process)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def end(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()


def measure(lab, graph, point, number):
    """Counts the answers to a client that always has one request for work outstanding and, with short questions, also one of those."""
    work_us, beside = point
    seconds = lab.rounds(0.5, 0.2)
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        server = start(lab, SERVER, graph, number, "--set", f"vwork.up={work_us}us")
        try:
            settings = [f"{name}.{what}" for name in ("work", "short")[:1 + beside]
                    for what in ("peer=10.77.0.2", "rounds=100000000")]
            client = start(lab, CLIENT, sweeps.GRAPH, number, "--end", "client", "--json", file.name,
                           *(word for setting in settings for word in ("--set", setting)))
            time.sleep(seconds)
            end(client)
        finally:
            end(server)
        counters = json.load(file)["host"]["counters"]
    return {"works": counters["work.messages"], "shorts": counters["short.messages"], "seconds": seconds}


@contextlib.contextmanager
def graph_at_server(lab, graph):
    """Yields the graph's name on the server's machine, where it is put and removed."""
    if lab.far is None:
        yield graph
        return
    with open(graph, "rb") as file:
        name = lab.far.put(file.read())
    try:
        yield name
    finally:
        lab.far.remove(name)


def compare(section, lab):
    """Alternates runs without and with a handoff, and compares the totals of answers."""
    rows = []
    repeats = lab.repeats
    with sweeps.Sweep(lab) as sweep, graph_at_server(lab, sweep.marked) as marked:
        for point in POINTS:
            runs = [[lab.once(["real", point, i], lambda g=graph, n=f"{point[0]}-{turn}-{i}", p=point: measure(lab, g, p, n))
                     for i, graph in enumerate((sweeps.GRAPH, marked))] for turn in range(repeats)]
            none, explicit = zip(*runs)
            rows.append({"work_us": point[0], "beside": point[1], "none": none, "explicit": explicit})
    report(section, rows, lab)
    return rows


def ratios(row):
    """Returns the ratios of answers with a handoff to those without."""
    totals = [[run["works"] + run["shorts"] for run in row[policy]] for policy in ("none", "explicit")]
    return labs.interval([b / max(a, 1) for a, b in zip(*totals)])


def per_second(runs, key):
    return labs.spread(labs.interval([run[key] / run["seconds"] for run in runs]), 0)


def report(section, rows, lab):
    where = f"between {lab.far.ends}, over {lab.far.links[0]}" if lab.far else "on this machine, over virtio"
    section.text(
        f"The same server {where}. A client always has one request for work and one short question outstanding, "
        "or only the work. Drivers are adaptive, because waking a sleeping one takes longer than a handoff (see the chapters \"What a handoff costs\" "
        "and \"Wake-up anatomy\")."
    )
    section.table(
        f"{where[0].upper()}{where[1:]}: answers per second",
        ("work, policy", "work", "short questions"),
        [(f"{row['work_us']} us, {name}", per_second(row[policy], "works"), per_second(row[policy], "shorts"))
         for row in rows for policy, name in (("none", "in the driver"), ("explicit", "handed off"))],
    )
    for row in rows:
        ratio, saves = ratios(row), row["beside"]
        section.check(
            ratio["low"] > 1 if saves else ratio["high"] < 1,
            f"{where[0].upper()}{where[1:]}, {row['work_us']} us of work, {'with' if saves else 'without'} short questions: a handoff gives "
            f"{labs.spread(ratio, 2)} times as many answers. As on virtual time, handing off {'saves' if saves else 'costs'}.",
        )
