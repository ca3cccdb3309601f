#!/usr/bin/env python3
"""Offers a host 10 % to 200 % of its capacity.

Reports the messages delivered, the response time of another client's short requests, and where the excess is dropped, in
regular mode and in IPP. Runs in the simulator, where every run is the same, or with --link virtio between two processes on
two cores. Capacity is the highest delivery rate at any load.
Exit status 1: delivery at the last load is less than 90 % of its peak, or messages were dropped after work was spent on them.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from programs import Failed, await_standing, exit_with, touch

LOADS = (10, 25, 50, 75, 90, 100, 110, 125, 150, 200)
MODES = ("regular", "ipp")
# Offered messages per second for the search for the capacity: a host that works 10 us on each delivers less than the first.
RATES = (100000, 80000, 65000, 50000, 35000, 25000)
PATIENCE_S = 300
# Where a message may be dropped before any work is spent on it: at the device, and at the sender of a virtual link, which must
# wait for room, so the message is not even sent.
ON_ARRIVAL = ("full", "tx_full", "unsent", "held_back")


# ---- in the simulator ----

SIM_SENDERS = 4
SIM_LEAD_S = 0.01


def sim_run(options, mode, rate):
    """Returns each host's counters when all senders together offer `rate` messages per second."""
    command = [os.path.join(options.build, "xk"), "run", os.path.join(HERE, "network.dot"), "--link", "sim", "--quiet",
               "--seed", str(options.seed), "--until", "%dms" % (options.seconds * 1000), "--set", "server.mode=" + mode,
               "--set", "load.traffic.rate=%d" % (rate // SIM_SENDERS)]
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        subprocess.run(command + ["--json", file.name], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, timeout=PATIENCE_S)
        return json.load(file)["hosts"]


def sim_measure(options, mode, rate):
    hosts = sim_run(options, mode, rate)
    server, prober = hosts["server"], hosts["prober"]
    names = ("full", "no_buffer", "unheard", "port.no_stack", "traffic.no_buffer", "udp.no_session", "work.no_stack")
    return {
        "offered": sum(hosts["load%d" % (i + 1)]["traffic.sent"] for i in range(SIM_SENDERS)),
        "delivered": server["traffic.received"], "rounds": prober["udptest.messages"], "lost": prober["udptest.lost"],
        "dropped": {name: server[name] for name in names if server.get(name)},
        "seconds": options.seconds - SIM_LEAD_S,
    }


# ---- between two processes ----

def virtio_spawn(options, core, file, *more):
    return subprocess.Popen(
        ["taskset", "-c", core, os.path.join(options.build, "xk"), "run", os.path.join(HERE, "overload.dot"),
         "--set", "port.dev=overload-%d" % os.getpid(), "--json", file, *more], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True)


def virtio_end(process):
    process.send_signal(signal.SIGTERM)
    if process.wait(timeout=PATIENCE_S) != 0:
        raise Failed(process.stderr.read().strip())


def virtio_measure(options, mode, rate):
    cores = options.cores.split(",")
    with tempfile.NamedTemporaryFile("r") as server_json, tempfile.NamedTemporaryFile("r") as load_json:
        server = virtio_spawn(options, cores[-1], server_json.name, "--mode", mode, "--set", "work.up=10us")
        try:
            await_standing(server)
            load = virtio_spawn(options, cores[0], load_json.name, "--end", "client", "--set", "traffic.peers=10.77.0.2",
                                "--set", "udptest.peer=10.77.0.2", "--set", "traffic.rate=%d" % rate,
                                "--set", "traffic.stop=%dms" % (options.seconds * 1000))
            await_standing(load)
            time.sleep(options.seconds)
            virtio_end(load)
            virtio_end(server)
        finally:
            server.kill()
        there, here = json.load(server_json)["host"], json.load(load_json)["host"]
    dropped = {name.split(".")[-1]: count for name, count in here["drops"].items() if name == "port.tx_full"}
    # messages that the server still sent after the other host ended are no overload
    dropped.update({name: count for name, count in there["drops"].items() if count and name != "port.no_peer"})
    counters = here["counters"]
    offered = counters["traffic.sent"] + counters["traffic.unsent"]
    held_back = round(rate * options.seconds) - offered
    if held_back > 0.1 * rate * options.seconds:
        dropped["held_back"] = held_back
    return {
        "offered": offered,
        "delivered": there["counters"]["traffic.received"], "rounds": counters["udptest.messages"],
        "lost": counters["udptest.lost"], "dropped": dropped, "seconds": options.seconds,
    }


# ---- both ----

def measure(options, mode, rate):
    """Returns one row, with messages per second."""
    row = (sim_measure if options.link == "sim" else virtio_measure)(options, mode, rate)
    seconds = row.pop("seconds")
    row["rtt_us"] = round(seconds * 1e6 / max(row["rounds"], 1), 1)
    for name in ("offered", "delivered"):
        row[name] = round(row[name] / seconds)
    return dict(row, mode=mode)


def sweep(options):
    """Returns all rows: each mode's loads in sequence, or in real time both modes at each load in turn."""
    capacity = {mode: max(measure(options, mode, rate)["delivered"] for rate in RATES) for mode in MODES}
    rows = [dict(measure(options, mode, capacity[mode] * load // 100), load=load) for load in options.loads for mode in MODES]
    return sorted(rows, key=lambda row: MODES.index(row["mode"]))


def show(rows):
    print("%-8s %6s %9s %10s %9s %11s  %s" % ("mode", "load", "offered", "delivered", "response", "unanswered", "dropped"))
    print("%-8s %6s %9s %10s %9s" % ("", "%", "1/s", "1/s", "us"))
    for row in rows:
        line = "%-8s %6d %9d %10d %9.1f %11d  %s" % (
            row["mode"], row["load"], row["offered"], row["delivered"], row["rtt_us"], row["lost"],
            ", ".join("%s %d" % item for item in row["dropped"].items()))
        print(line.rstrip())


def find_problems(rows):
    """Yields a description of each problem."""
    for mode in MODES:
        of_mode = [row for row in rows if row["mode"] == mode]
        peak = max(row["delivered"] for row in of_mode)
        last = of_mode[-1]
        if last["delivered"] < 0.9 * peak:
            yield "%s: livelock: %d delivered at %d %%, %d at its peak" % (mode, last["delivered"], last["load"], peak)
        if last["load"] >= 150 and not set(last["dropped"]) & set(ON_ARRIVAL):
            yield "%s: nothing was dropped on arrival at %d %%" % (mode, last["load"])
        for row in of_mode:
            late = set(row["dropped"]) - set(ON_ARRIVAL)
            if late:
                yield "%s at %d %%: dropped after work was spent on it: %s" % (mode, row["load"], ", ".join(sorted(late)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--link", choices=("sim", "virtio"), default="sim")
    parser.add_argument("--cores", default="0,1", help="virtio: cores of sender and server")
    parser.add_argument("--seconds", type=float, default=1.0, help="duration of each run")
    parser.add_argument("--loads", type=lambda text: [int(word) for word in text.split(",")], default=LOADS,
                        metavar="PERCENT,...", help="loads; the last is compared with the peak")
    parser.add_argument("--seed", type=int, default=1, help="sim: random seed")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.json:
        touch(options.json)
    rows = sweep(options)
    show(rows)
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump({"program": "overload", "link": options.link, "runs": rows}, file, indent=1)
            file.write("\n")
    wrong = list(find_problems(rows))
    for sentence in wrong:
        print("overload: " + sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    exit_with(main)
