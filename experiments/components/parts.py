#!/usr/bin/env python3
"""parts.py BUILD - the parts of a round trip on this machine, as in the tables of Thekkath and Levy, for each link and each way of
waiting. Each part is measured alone, except DPDK's device, which is a difference; their sum is shown beside the measured round
trip. Everything is measured in several turns, and in each turn a round trip right after its parts. Also measures how long a driver should
poll before it sleeps. With --far, also measures round trips between two machines. The link between them is not measured alone: it is
part of the difference. --help has the options.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True
import far as fars
from programs import Failed, die_with_parent, exit_with, find_and_print

# How a frame crosses each link, and how drivers can wait there.
LINKS = {"virtio": ("memory", ("poll", "interrupt")), "ring": ("memory", ("poll",)), "tap": ("tap", ("poll", "interrupt")),
         "af_packet": ("packet", ("poll", "interrupt"))}
FRAMES = (60, 1514)
HEADERS = 14 + 20 + 8  # of udptest's frames
CALL_GRAPH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "graphs", "chantest-direct.dot")
CALL_HEADERS = 14 + 24 + 20 + 2  # of that graph's frames
SPINS = ("interrupt", "2us", "50us", "poll")
WORKS = ("0us", "30us")  # the server's work per call
PATIENCE_S = 120
# Connected interfaces, in a network namespace that ends with the program.
PATHS = {
    "packet": "ip link add xkpart0 type veth peer name xkpart1",
    "tap": "ip link add xkpart type bridge && ip link set xkpart up"
           " && for i in 0 1; do ip tuntap add mode tap name xkpart$i && ip link set xkpart$i master xkpart; done",
}


def middle(values):
    """Returns the median of numbers or, of documents with the same keys, the median of each number in them."""
    if isinstance(values[0], dict):
        return {key: middle([value[key] for value in values if key in value]) for key in values[0]}
    return values[0] if len(set(values)) == 1 else statistics.median(values)


class Parts:
    def __init__(self, options):
        self.build = os.path.abspath(options.build)
        self.cores = options.cores
        self.rounds = max(1, options.rounds // options.turns)
        self.turns = options.turns
        self.far = fars.far_of(options)
        self.missing = {}

    def run_json(self, *command):
        """Runs a program and returns the JSON from its standard output."""
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=PATIENCE_S,
                                  preexec_fn=die_with_parent)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {PATIENCE_S} s") from None
        if done.returncode != 0:
            raise Failed(done.stderr.strip()[-200:])
        return json.loads(done.stdout)

    def part_ns(self, kind, frame=FRAMES[0]):
        """Returns the time of a one-way crossing, or of one bell or wake-up."""
        command = [os.path.join(self.build, "experiments", "components", "parts"), "--kind", kind, "--cores", self.cores, "--json",
                   "--size", str(frame), "--rounds", str(max(100, self.rounds // 10))]
        if kind in PATHS:
            up = PATHS[kind] + " && for i in 0 1; do ip link set xkpart$i up; done && exec \"$@\""
            command = ["unshare", "-n" if os.geteuid() == 0 else "-rn", "sh", "-c", up, "sh", *command, "--from", "xkpart0",
                       "--to", "xkpart1"]
        return statistics.median(self.run_json(*command)["ns"])

    def one_way_ns(self, kind):
        """Returns a frame's one-way time by its length, or {} if it cannot be measured."""
        return self.tried(f"{kind} alone", lambda: {frame: self.part_ns(kind, frame) for frame in FRAMES}) or {}

    def device_ns(self, frame, way_ns):
        """Returns DPDK's one-way time over virtio besides moving the frame, from half of the round trip by DPDK alone."""
        found = self.run_json(os.path.join(self.build, "experiments", "floors", "bare_dpdk_echo"), "--cores", self.cores, "--rounds",
                          str(self.rounds), "--size", str(frame - HEADERS), "--json")
        return found["rtt_ns"]["p50"] / 2 - way_ns

    def service_ns(self, frame):
        """Returns the time of a host's work on a frame that it answers."""
        found = self.run_json(os.path.join(self.build, "xk"), "bench", "echo", "--size", str(frame - HEADERS), "--json", "-",
                          "--rounds", str(10 * self.rounds))
        return found["echo_ns"] - found["rig_ns"]

    def ends(self):
        """Returns the options that specify where the two hosts run."""
        return ["--cores", ",".join(self.far.cores), *self.far.of_pair()] if self.far else ["--cores", self.cores]

    def trips(self, program, waiting, ends, sizes, *arguments):
        """
        Returns, for messages of each size, the median round trip and how often the client's driver slept per round trip. waiting: a driver's
        name, or how long it spins.
        """
        how = ("--driver", waiting) if waiting in ("interrupt", "poll") else ("--driver", "adaptive", "--spin", waiting)
        found = self.run_json(os.path.join(self.build, program), *ends, "--mode", "ipp", "--handoff", "none", *how,
                          "--rounds", str(self.rounds), "--size", ",".join(map(str, sizes)), "--json", "-", *arguments)
        return [(run["rtt_ns"]["p50"], run["driver_switches"]["client"] / self.rounds) for run in found["runs"]]

    def call(self, waiting, frames, *arguments):
        """Measures calls in such frames, with empty replies."""
        return self.trips("chantest", waiting, self.ends(), [frame - CALL_HEADERS for frame in frames], "--graph", CALL_GRAPH,
                          "--set", "chantest.reply=0", *arguments)

    def tried(self, what, measure, *arguments):
        try:
            return measure(*arguments)
        except (Failed, OSError) as why:
            self.missing[what] = str(why)
            return None

    def row(self, link, driver, alone):
        """Returns a link's parts and its round trip, for each frame length; alone has the parts."""
        medium, ends = ("unknown", self.ends()) if link not in LINKS else (LINKS[link][0], ["--cores", self.cores, "--link", link])
        found = self.tried(f"{link}, {driver}", self.trips, "udptest", driver, ends, [frame - HEADERS for frame in FRAMES])
        rows = {}
        for frame, trip in zip(FRAMES, found or ()):
            if frame not in alone[medium] or frame not in alone["device"]:
                continue
            sleeps = driver == "interrupt"
            parts = {"way": alone[medium][frame], "device": alone["device"][frame] if link == "virtio" else 0, "service": alone["service"][frame],
                     "bell": alone["bell"] if sleeps and medium == "memory" else 0,
                     "wake": alone["wake"] - (alone["bell"] if medium == "memory" else 0) if sleeps else 0}
            rows[link, driver, frame] = {"link": link, "driver": driver, "frame": frame, "measured_ns": trip[0],
                                         "parts_ns": {part: 2 * ns for part, ns in parts.items()}}
        return rows

    def calls_ns(self):
        """Returns the time of both hosts' work on a call with an empty reply, by the length of the call's frame."""
        def one_way(frame):
            whole, rig = (self.run_json(os.path.join(self.build, "xk"), "bench", "call", "--graph", CALL_GRAPH, "--size", str(frame - CALL_HEADERS),
                                    "--json", "-", "--rounds", str(10 * self.rounds), *alone)["call_ns"] for alone in ((), ("--alone",)))
            return (whole - rig) / 2

        one_ways_ns = {frame: one_way(frame) for frame in FRAMES}
        return {frame: ns + one_ways_ns[FRAMES[0]] for frame, ns in one_ways_ns.items()}

    def calls(self, driver, alone):
        """Returns rows of calls without arguments and with a packet of them, and how often the client's driver slept."""
        rows = {}
        found = self.tried(f"a call, {driver}", self.call, driver, FRAMES)
        transfer_ns, device_ns = alone["unknown" if self.far else "memory"], alone["unknown" if self.far else "device"]
        for frame, (ns, slept) in zip(FRAMES, found or ()):
            if frame not in transfer_ns or frame not in device_ns or frame not in alone["call"]:
                continue
            sleeps = 2 if driver == "interrupt" else 0
            rows[driver, frame] = {"driver": driver, "frame": frame, "measured_ns": ns, "sleeps": slept, "parts_ns": {
                "way": transfer_ns[frame] + transfer_ns[FRAMES[0]], "device": device_ns[frame] + device_ns[FRAMES[0]], "service": alone["call"][frame],
                "bell": sleeps * alone["bell"], "wake": sleeps * (alone["wake"] - alone["bell"])}}
        return rows

    def spins(self, calls):
        """Returns the time of a call without arguments, by how long the drivers poll before they sleep. calls: this turn's calls, which give two of them."""
        rows = {}
        for work in WORKS:
            for spin in SPINS:
                call = calls.get((spin, FRAMES[0])) if work == WORKS[0] else None
                found = ([(call["measured_ns"], call["sleeps"])] if call else
                         self.tried(f"spin {spin}", self.call, spin, FRAMES[:1], "--set", f"server:chantest.work={work}"))
                if found:
                    rows[work, spin] = {"work": work, "spin": spin, "us": found[0][0] / 1000, "sleeps": found[0][1]}
        return rows

    def turn(self):
        """Measures everything once, figures to be compared right after each other: first with drivers that poll, then with drivers that sleep."""
        alone = {"unknown": dict.fromkeys(FRAMES, 0), "service": {frame: self.service_ns(frame) for frame in FRAMES},
                 "call": self.tried("a call's service", self.calls_ns) or {},
                 "bell": self.part_ns("bell"), "memory": self.one_way_ns("memory"), "wake": 0}
        alone["device"] = self.tried("DPDK alone", lambda: {frame: self.device_ns(frame, ns) for frame, ns in alone["memory"].items()}) or {}
        mine = f"{self.far.links[0]}, {self.far.ends}" if self.far else "virtio"
        rows, calls = {}, {}
        for driver in ("poll", "interrupt"):
            if driver == "interrupt":
                alone["wake"] = self.part_ns("wake")
            rows |= self.row(mine, driver, alone)
            calls |= self.calls(driver, alone)
            for link, (medium, drivers) in LINKS.items():
                if driver not in drivers or link == mine:
                    continue
                if medium not in alone:
                    alone[medium] = self.one_way_ns(medium)
                rows |= self.row(link, driver, alone)
        order = [*LINKS, mine]
        rows = dict(sorted(rows.items(), key=lambda row: (order.index(row[0][0]), row[0][1] != "poll", row[0][2])))
        return {"rows": rows, "calls": calls, "spins": self.spins(calls)}, alone["wake"]

    def find(self):
        turns, wakes_ns = zip(*(self.turn() for _ in range(self.turns)))
        each = [{name: list(rows.values()) for name, rows in turn.items()} for turn in (middle(turns), *turns)]
        return {"cores": self.cores, "turns": self.turns, "wakes_ns": wakes_ns, "far": f"{self.far.links[0]}, {self.far.ends}" if self.far else None, **each[0],
                "each_turn": each[1:], "missing": self.missing}


def print_found(found):
    print(f"{'us of a round trip':22}{'bytes':>6}{'transfer':>9}{'device':>8}{'bell':>8}{'wake':>8}{'service':>9}{'sum':>9}{'measured':>10}{'more':>8}")
    for row in found["rows"] + [{**row, "link": "a call"} for row in found["calls"]]:
        parts = {part: ns / 1000 for part, ns in row["parts_ns"].items()}
        total, measured = sum(parts.values()), row["measured_ns"] / 1000
        print(f"{row['link'] + ', ' + row['driver']:22}{row['frame']:6}{parts['way']:9.2f}{parts['device']:8.2f}{parts['bell']:8.2f}{parts['wake']:8.2f}"
              f"{parts['service']:9.2f}{total:9.2f}{measured:10.2f}{measured - total:8.2f}")
    print(f"\n{'us of a call, over ' + (found['far'] or 'virtio'):28}" + "".join(f"{'server works ' + work:>22}" for work in WORKS))
    for spin in SPINS:
        cells = [next((f"{row['us']:.1f} ({row['sleeps']:.2f} sleeps)" for row in found["spins"]
                       if (row["work"], row["spin"]) == (work, spin)), "-") for work in WORKS]
        title = {"interrupt": "sleeps at once", "poll": "never sleeps"}.get(spin, f"spins for {spin}")
        print(f"{title:28}" + "".join(f"{cell:>22}" for cell in cells))
    for what, why in found["missing"].items():
        print(f"not measured: {what}: {why}")


def main():
    parser = argparse.ArgumentParser(description="the parts of a round trip on this machine")
    parser.add_argument("build", help="directory of the programs")
    parser.add_argument("--cores", default="0,1", metavar="A,B", help="cores of client and server (0,1)")
    parser.add_argument("--rounds", type=int, default=20000, help="round trips of each kind (20000)")
    parser.add_argument("--turns", type=int, default=6, help="number of turns; each figure is their median (6)")
    fars.add_options(parser)
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    options = parser.parse_args()
    if shutil.which("unshare") is None or min(options.rounds, options.turns) < 1:
        parser.error("needs unshare, and at least one round and turn")
    return find_and_print("parts", lambda: Parts(options).find(), print_found, options.json)


if __name__ == "__main__":
    exit_with(main)
