"""hosts.py - shared by tables.py and fit.py: the published figures, and runs of the model.

The published figures are tables 4 to 7 of M. Björkman, "Interrupt Protocol Processing in the x-kernel", 1994. Published times are
in microseconds, the simulator's in nanoseconds; there is no floating point.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))

from programs import Failed, exit_with

# The program's path as called, symbolic links included: in a tree of links, the files of that tree are meant.
ROOT = os.path.abspath(os.path.join(os.path.dirname(sys.argv[0]), "..", ".."))
GRAPH = "graphs/udptest-1994.dot"

SIZES = (1, 1000, 2000, 4000)
FRAGMENTS = {1: 1, 1000: 1, 2000: 2, 4000: 3}
THREADS = (1, 2, 3, 4, 8)
MESSAGES = 10000  # of table 5

# A run is (mode, handoff, threads); regular mode has no choice of handoff.
REGULAR = [("regular", "-", threads) for threads in THREADS]
IPP = {(end, threads): ("ipp", end, threads) for end in ("none", "client", "server") for threads in (1, 3)}

TABLE4 = (
    ("Regular", REGULAR[0], (762, 4647, 7857, 11735)),
    ("IPP, client handoff", IPP["client", 1], (728, 4627, 7840, 11709)),
    ("IPP, server handoff", IPP["server", 1], (728, 4628, 7845, 11711)),
    ("IPP, no handoff", IPP["none", 1], (664, 4561, 7809, 11647)),
)
# Context switches, then messages received (counting fragments), which include some of other programs.
TABLE5 = (
    ("1", REGULAR[0], (10001, 10004, 10011, 10019), (10004, 10014, 20023, 30042)),
    ("2", REGULAR[1], (10002, 10005, 20017, 30027), (10002, 10005, 20017, 30027)),
)
TABLE6 = (
    ("1", REGULAR[0], (762, 4647, 7857, 11735)),
    ("2", REGULAR[1], (761, 4651, 7911, 11829)),
    ("3", REGULAR[2], (762, 4650, 7925, 11847)),
    ("4", REGULAR[3], (767, 4664, 7933, 11866)),
    ("8", REGULAR[4], (775, 4682, 7964, 11929)),
)
TABLE7 = (
    ("Regular, 1 thread", REGULAR[0], (762, 4647, 7857, 11735)),
    ("Regular, 3 threads", REGULAR[2], (762, 4650, 7925, 11847)),
    ("IPP, 1 thread", IPP["none", 1], (664, 4561, 7809, 11647)),
    ("IPP, 3 threads", IPP["none", 3], (662, 4564, 7811, 11636)),
)
FITTED = TABLE4[3]

# Table 2: handoff to a thread in regular mode and in IPP, start of a detachable stack. The preset `decstation` has the same.
REGULAR_HANDOFF_NS, IPP_HANDOFF_NS, STACK_START_NS = 30700, 32200, 3600

# The fitted parameters, as settings of vwork in the graph.
PARAMETERS = ("up", "up_kb", "down_kb")
FULL_FRAGMENT = 1500


def simulate(build, graph, modes, sizes=SIZES, rounds=200, sets=(), costs="decstation"):
    """Returns {(run, size): udptest's counts} for each mode's options."""
    results = {}
    for mode in modes:
        with tempfile.NamedTemporaryFile() as file:
            command = [os.path.join(build, "udptest"), "--link", "sim", "--preset", "ethernet10", "--costs", costs]
            command += ["--graph", graph, "--size", ",".join(map(str, sizes)), "--rounds", str(rounds)]
            command += ["--json", file.name, *mode]
            for text in sets:
                command += ["--set", text]
            try:
                done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            except OSError as error:
                raise Failed(f"{command[0]}: {error.strerror}; ./run build builds it") from None
            if done.returncode != 0:
                raise Failed(done.stderr.strip() or f"{command[0]} failed")
            for run in json.load(file)["runs"]:
                if run["lost"] or run["late"] or run["bad"] or run["drops"]:
                    raise Failed(f"messages were lost: {run}")
                handoff = "-" if run["mode"] == "regular" else run["handoff"]
                results[(run["mode"], handoff, run["threads"]), run["size"]] = run
    return results


def read_parameters(graph, sets=()):
    """Returns {parameter: cost in nanoseconds} of the graph file's vwork. sets: further settings, as udptest's --set."""
    units = {"ns": 1, "us": 1000, "ms": 1000000}
    with open(graph, encoding="utf-8") as file:
        statement = re.search(r"^\s*vwork \[([^]]*)\];", file.read(), flags=re.M)
    found = re.findall(r'(\w+)="(\d+)([num]s)"', statement[1] if statement else "")
    found += re.findall(r"^vwork\.(\w+)=(\d+)([num]s)$", "\n".join(sets), flags=re.M)
    costs = {name: int(value) * units[unit] for name, value, unit in found}
    if not set(PARAMETERS) <= set(costs):
        raise Failed(f"{graph}: no vwork with {', '.join(PARAMETERS)}")
    return {name: costs[name] for name in PARAMETERS}


def receive_ns(parameters, payload):
    """Returns the receiver's work on a frame with this many bytes above its Ethernet header."""
    return STACK_START_NS + parameters["up"] + payload * parameters["up_kb"] // 1000


def interval_ns(payload):
    """Returns the time from one such frame's beginning to the next at 10 Mb/s: header, preamble, checksum and gap are 38 bytes."""
    return (payload + 38) * 800


def us(ns):
    """Returns whole microseconds, as in the report."""
    return (ns + 500) // 1000


def us_text(ns):
    """Returns microseconds with one decimal."""
    tenths = (abs(ns) + 50) // 100
    return f"{'-' if ns < 0 else ''}{tenths // 10}.{tenths % 10}"
