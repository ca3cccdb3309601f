#!/usr/bin/env python3
"""Simulates TCP's flows, and compares them with what theory predicts.

Shared: 2 and 8 flows through one bottleneck (shared.dot): its use, and Jain's index of fairness of the flows' rates.
Lossy: one flow over a wire that loses frames at random (lossy.dot), beside two predictions. Up to 0.1 % loss that of Mathis
and others, "The macroscopic behavior of the TCP congestion avoidance algorithm" (1997); beyond, that of Padhye, Firoiu, Towsley
and Kurose, "Modeling TCP throughput" (1998), with the least timeout of this TCP. Both without delayed
acknowledgements: the window grows by the bytes that are acknowledged (RFC 3465), however many acknowledgements there are.
Each is the mean over seeds, after a warm-up. Exit status 1: an index is below 0.95, or a rate further than 30 % from a prediction.
"""
import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from programs import Failed, exit_with

PATIENCE_S = 600
FLOWS = (2, 8)
LOSSES = (0.0003, 0.001, 0.003, 0.01, 0.02)
ROUND_TRIP_S, TIMEOUT_S, SEGMENT, FRAME = 0.040, 0.200, 1448, 1538
BOTTLENECK = 10e6 / 8 * SEGMENT / FRAME  # bytes per second, of payload
FAIR, NEAR = 0.95, 0.30


def mathis(loss):
    return SEGMENT / ROUND_TRIP_S * math.sqrt(3 / (2 * loss))


def padhye(loss):
    timeouts = TIMEOUT_S * min(1, 3 * math.sqrt(3 * loss / 8)) * loss * (1 + 32 * loss ** 2)
    return SEGMENT / (ROUND_TRIP_S * math.sqrt(2 * loss / 3) + timeouts)


def run(options, network, seed, until_s, *sets):
    """Returns each host's counters."""
    command = [os.path.join(options.build, "xk"), "run", os.path.join(HERE, network), "--link", "sim", "--quiet",
               "--seed", str(seed), "--until", "%ds" % until_s]
    for setting in sets:
        command += ["--set", setting]
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        done = subprocess.run(command + ["--json", file.name], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE_S, check=False)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        return json.load(file)["hosts"]


def rates(options, network, seed, *sets):
    """Returns each client's bytes per second between the warm-up and the end, and its retransmissions: same seed, same run."""
    first, last = (run(options, network, seed, until_s, *sets)
                   for until_s in (options.warm_up, options.warm_up + options.seconds))
    clients = [name for name in last if name.startswith("client")]
    return ([(last[name]["tcptest.sent"] - first[name]["tcptest.sent"]) / options.seconds for name in clients],
            sum(last[name].get("tcp.timeouts", 0) - first[name].get("tcp.timeouts", 0) for name in clients))


def mean(values):
    return sum(values) / len(values)


def each_seed(options, network, *sets):
    """Returns the rates of each seed, which also draws when the flows begin, one after the other."""
    def measure(seed):
        stagger = random.Random(seed).randrange(1, 500)
        return rates(options, network, seed, *(setting.format(stagger=stagger) for setting in sets))

    with ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(measure, range(1, options.seeds + 1)))


def shared(options, count):
    found = [flows for flows, _ in each_seed(options, "shared.dot", "client.count=%d" % count, "client.stagger={stagger}ms")]
    jain = [sum(flows) ** 2 / (len(flows) * sum(rate ** 2 for rate in flows)) for flows in found]
    return {"flows": count, "jain": mean(jain), "jain_min": min(jain), "used": mean([sum(flows) for flows in found]) / BOTTLENECK}


def lossy(options, loss):
    found = each_seed(options, "lossy.dot", "client--server.loss=%g%%" % (100 * loss))
    predicted = mathis(loss) if loss <= 0.001 else padhye(loss)
    rate = mean([flows[0] for flows, _ in found])
    return {"loss": loss, "model": "Mathis" if loss <= 0.001 else "PFTK", "predicted": predicted, "rate": rate,
            "ratio": rate / predicted, "timeouts": mean([timeouts for _, timeouts in found])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=60, help="seconds of the simulation before the measurement")
    parser.add_argument("--seconds", type=int, default=120, help="of the measurement")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    results = {"shared": [], "lossy": []}
    print("Flows through a bottleneck of 10 Mb/s, %.0f ms round trip, means of %d seeds\n" % (1000 * ROUND_TRIP_S, options.seeds))
    print("   flows   Jain's index    least   bottleneck used")
    for count in FLOWS:
        row = shared(options, count)
        results["shared"].append(row)
        print("%8d %14.3f %8.3f %16.1f %%" % (count, row["jain"], row["jain_min"], 100 * row["used"]), flush=True)
    print("\nOne flow, frames lost at random, %.0f ms round trip\n" % (1000 * ROUND_TRIP_S))
    print("   loss, %   model   predicted, MB/s   measured   ratio   timeouts")
    for loss in LOSSES:
        row = lossy(options, loss)
        results["lossy"].append(row)
        print("%10.2f   %-6s %17.3f %10.3f %7.2f %10.1f" % (100 * loss, row["model"], row["predicted"] / 1e6, row["rate"] / 1e6,
                                                         row["ratio"], row["timeouts"]), flush=True)
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump(results, file, indent=1)
    unfair = [row["flows"] for row in results["shared"] if row["jain"] < FAIR]
    far = ["%g %%" % (100 * row["loss"]) for row in results["lossy"] if abs(row["ratio"] - 1) > NEAR]
    if unfair:
        print("\nUnfair: %s flows" % unfair)
    if far:
        print("\nFar from the prediction: at a loss of %s" % ", ".join(far))
    return 1 if unfair or far else 0


if __name__ == "__main__":
    exit_with(main)
