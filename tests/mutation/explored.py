#!/usr/bin/env python3
"""explored.py TREE [SCENARIO...] - which mutants of scenarios.txt `xk explore` finds, without a seed.

TREE is made by mutate.py tree --scenarios; TREE/build/xk must be built. Without a mutant, all promises of the networks of
graphs/explore/ must hold. For each scenario, searches those that contain its protocol, for each of its mutants: lists of
one choice first, then of two, until a promise is broken. Prints a line for each scenario and the share found; exits 1 if
that is below BAR, not counting those of HOLDS. Scenarios of HOLDS and NEEDS that are found are reported.
"""
import concurrent.futures
import glob
import os
import re
import shlex
import subprocess
import sys

BAR = 0.9
SEARCH_TIME = "120s"
LIMIT_S = 300
TIME_IS_OVER = 3  # exit status
# The searches, cheap ones first: choices in a list, and their kinds.
USUAL = "loss,double,delay,crash"
STAGES = [(1, USUAL), (1, "damage"), (1, "order,memory,handoff"), (2, USUAL)]

# Scenarios that break no promise, and why.
HOLDS = {}

# Scenarios that break one, but in no run of these networks with two choices, and what they need.
NEEDS = {
    "ip_drops_silently": "an IP header that is damaged or forged: damage here hits the last byte of a frame, behind it",
    "gm_later_session_mixed": "a packet of a later session of the same boot that overtakes those of the session before",
    "gm_floor_forgotten": "packets that outlive their session, which traffic closes only when it is dead",
}

# The protocols that use these files; no entry: the file's name up to _ and the dot.
USERS = {"receive": {"eth"}, "virtual": {"vnet"}, "ports": {"udp", "stopwait", "gm", "tcp"},
         "alarm": {"stopwait", "gm", "am", "tcp"}, "room": {"tcp"}}


class Network:
    """A file under graphs/explore/ whose comment names searches: one of the usual kinds, and perhaps one of damage."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.name = os.path.basename(path)[:-len(".dot")]
        self.usual = self.damage = None
        for search in re.findall(r"^// *build/xk explore (.*)", text, re.M):
            options = shlex.split(re.sub(r"--(choose|faults) \S+", "", search))
            if "--choose damage" in search:
                self.damage = options
            else:
                self.usual = options
        self.protocols = set()
        for graph in re.findall(r'protocols="([^"]*)"', text):
            with open(os.path.join(os.path.dirname(path), graph), encoding="utf-8") as file:
                self.protocols |= set(re.findall(r"(\w+) *->", file.read()))

    def options(self, kinds):
        """Returns the network and its options for a search of these kinds, or None: it promises nothing then."""
        return self.damage if kinds == "damage" else self.usual


class Scenario:
    """A line of the table that mutate.py has made."""

    def __init__(self, name, files, numbers):
        self.name, self.numbers = name, numbers
        self.protocols = set()
        for file in files.split():
            stem = file.split(".")[0]
            self.protocols |= USERS.get(stem, {stem.split("_")[0]})


def scenarios_of(tree):
    with open(os.path.join(tree, "tests/mutation/mutant_table.c"), encoding="utf-8") as file:
        rows = re.findall(r'\{ "(\w+)", "([^"]*)", \(const unsigned\[\]\)\{ ([\d, ]+), 0 \}, \d+ \}', file.read())
    return [Scenario(name, files, [int(number) for number in numbers.split(",")]) for name, files, numbers in rows]


def search(xk, mutant, options, faults, kinds):
    """Returns how a promise is broken, the choices and the number of runs, or None: all promises hold."""
    command = [xk, "explore", *options, "--faults", str(faults), "--choose", kinds, "--time", SEARCH_TIME, "--quiet"]
    done = subprocess.run(command, env={**os.environ, "XK_MUTANT": str(mutant)}, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
    if done.returncode in (0, TIME_IS_OVER):
        return None
    why = re.search(r"^broken: (.*)", done.stdout, re.M)
    choices = re.search(r"^replay: .*--choices '(.*)'", done.stdout, re.M)
    runs = re.search(r"^(\d+) runs", done.stdout, re.M)
    if done.returncode != 1 or None in (why, choices, runs):
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stdout}")
    return f"'{choices[1]}', {runs[1]} runs: {why[1]}"


def hunt(xk, scenario, networks):
    """Returns a description of the first counterexample, or None."""
    for faults, kinds in STAGES:
        for network in networks:
            options = network.options(kinds)
            if options is None or not scenario.protocols & network.protocols:
                continue
            for mutant in scenario.numbers:
                found = search(xk, mutant, options, faults, kinds)
                if found is not None:
                    return f"mutant {mutant}, {network.name}, {found}"
    return None


def check(xk, network):
    """Returns a description of a promise that is broken without a mutant, or None."""
    for faults, kinds in STAGES:
        options = network.options(kinds)
        broken = options and search(xk, 0, options, faults, kinds)
        if broken:
            return f"{network.name}, {broken}"
    return None


def main():
    if len(sys.argv) < 2:
        print("usage: explored.py TREE [SCENARIO...]", file=sys.stderr)
        return 2
    tree, names = sys.argv[1], sys.argv[2:]
    xk = os.path.join(tree, "build/xk")
    networks = [Network(path) for path in sorted(glob.glob("graphs/explore/*.dot"))]
    networks = [network for network in networks if network.usual is not None]
    scenarios = [scenario for scenario in scenarios_of(tree) if not names or scenario.name in names]
    count = found_count = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        broken = [one for one in pool.map(lambda network: check(xk, network), networks) if one is not None]
        if broken:
            print("\n".join(f"without a mutant: {one}" for one in broken))
            return 1
        for scenario, found in zip(scenarios, pool.map(lambda one: hunt(xk, one, networks), scenarios)):
            listed = HOLDS.get(scenario.name) or NEEDS.get(scenario.name)
            if found is None:
                print(f"not found: {scenario.name}: {listed or 'it is not listed here'}", flush=True)
            else:
                print(f"found{', although listed' if listed else ''}: {scenario.name}: {found}", flush=True)
            if scenario.name not in HOLDS:
                count += 1
                found_count += found is not None
    print(f"{found_count} of {count} found: {found_count / max(count, 1):.1%}")
    return 0 if count and found_count / count >= BAR else 1


sys.exit(main())
