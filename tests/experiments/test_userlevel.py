#!/usr/bin/env python3
"""test_userlevel.py BUILD - checks that experiments/userlevel fits and predicts what its README states: figures on virtual time, which are
the same everywhere.

Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "experiments", "report", "measuring")]
sys.dont_write_bytecode = True
import checks
import lab as labs
import userlevel
from checks import expect

MODEL = os.path.join(ROOT, "experiments", "userlevel", "myrinet.py")
US = {"GM": {"half_rtt_ns": 14.76, "g_ns": 9.81, "os_ns": 0.86, "or_ns": 1.93, "l_ns": 11.97},
      "GM+": {"half_rtt_ns": 11.29, "g_ns": 4.12, "os_ns": 2.02, "or_ns": 1.93, "l_ns": 7.34},
      "BIP": {"half_rtt_ns": 6.65, "g_ns": 5.04, "os_ns": 5.04, "or_ns": 0.48, "l_ns": 1.13}}
AGREE = {"small", "usable", "sawtooth", "highest", "ping_pong", "both_ways", "long_both_ways", "range"}
MISSED = {"GM's g", "GM+'s g", "GM+'s Or", "GM+'s L"}  # by more than the report tolerates


def check(model):
    for name, figures in model["table_ns"].items():
        found = {figure: round(ns / 1000, 2) for figure, ns in figures.items()}
        expect(found == US[name], f"{name}: simulated figures", f"{found}, expected {US[name]}")
        for figure in model["given"][name]:
            published = model["published_us"][name][figure]
            expect(abs(found[figure] / published - 1) < 0.04, f"... {figure} is fitted", f"{found[figure]}, published {published}")
    preset = {figure: model["preset_ns"][figure] for figure in model["table_ns"]["GM"]}
    expect(preset == model["table_ns"]["GM"], "the presets lanai and alpha equal the fitted values", f"{preset}")
    agree = {feature["name"] for feature in model["features"] if feature["agrees"]}
    expect(agree == AGREE, "features as published", f"{agree}, expected {AGREE}")
    rates = {name: [rate[size] for size in sorted(rate, key=int)] for name, rate in model["timers"].items()}
    expect(rates["2 ms"] == rates["20 ms"] and min(short / long for short, long in zip(rates["1 ms"], rates["20 ms"])) < 0.55,
           "a minimum timeout of 1 ms halves GM's rate in both directions at once, one of 2 ms does not", str(rates))
    section = labs.Section("userlevel", "", "")
    userlevel.simulated(section, model)
    missed = {name for check in section.checks if not check["agrees"] for name in MISSED if f"{name} is predicted" in check["text"]}
    others = [check["text"] for check in section.checks if not check["agrees"] and not any(f"{name} is predicted" in check["text"] for name in MISSED)]
    expect(missed == MISSED and len(others) == 1 and "from 6.65 to 19.85 us; published 5 to 15" in others[0], "predictions that the report calls wrong", str(section.checks))


def check_judged():
    """Checks the report's verdict on table 1 for the published figures, and for two systems exchanged."""
    def judged(systems):
        found = {name: {"8": 2 * [{figure: {"median": us * 1000} for figure, us in zip(userlevel.FIGURES, userlevel.PUBLISHED[system])}]}
                 for name, system in systems.items()}
        section = labs.Section("userlevel", "", "")
        userlevel.check_table(section, found, {name: dict(zip(userlevel.FIGURES, row)) for name, row in userlevel.PUBLISHED.items()})
        return [check["agrees"] for check in section.checks]

    same = judged({name: name for name in userlevel.PUBLISHED})
    expect(len(same) == 23 and all(same), "the report: published figures agree with themselves", str(same))
    exchanged = judged({"GM": "BIP", "GM+": "GM+", "BIP": "GM"})
    expect(not any(exchanged[:20]) and exchanged[20:] == [False, True, False], "... and two systems exchanged with none but those of the third", str(exchanged))


class Measured:
    """A lab that returns this document."""
    repeats, far, cores, brief = 2, None, "0,1", False

    def __init__(self, document):
        self.document = document

    def rounds(self, whole, _):
        return whole

    def bench(self, *_):
        return self.document

    script = bench


def check_copies(model):
    """Checks figure 4 with figures as published, and with kinds of copies exchanged."""
    def judged(ways):
        ns = {"send-copy": lambda size: 2 * size, "send-reference": lambda size: 513, "receive-copy": lambda size: 4 * size}
        runs = [{"size": size, **{way: ns[other](size) for way, other in ways.items()}} for size in userlevel.COPIED]
        section = labs.Section("userlevel", "", "")
        userlevel.copies(section, Measured({"runs": runs}), model)
        return [check["agrees"] for check in section.checks]

    same = {way: way for way in userlevel.COPY_METHODS}
    expect(judged(same) == [True], "figure 4: as published", str(judged(same)))
    expect(judged(same | {"send-copy": "receive-copy", "receive-copy": "send-copy"}) == [False], "... and reading exchanged with writing")


def check_streams():
    """Checks figure 1: TCP's part of another link's bandwidth is reported without a verdict."""
    found = {userlevel.RAW: {str(size): 2 * [{"one_way": {"median": 1e9}}] for size in userlevel.SIZES}}
    cell = {str(size): {"min": size / 0.61, "median": size / 0.60, "max": size / 0.59} for size in userlevel.STREAMED}
    for measured, words in (({"missing": {}, "streams": {"large": cell, "frames": cell}}, "60% (59% to 61%)"), ({"missing": {"streams": "no cable"}}, "not measured")):
        section = labs.Section("userlevel", "", "")
        userlevel.streams(section, Measured(measured), found)
        expect(not section.checks and section.unchecked and words in section.compared[0][1], f"figure 1 has no verdict: {words}", str(section.compared))


def check_placements():
    """Checks runs on near and far processors: medians do not mix them, and a difference counts if it has one sign in both."""
    def run(took, *lines_ns):
        return {figure: {"median": took} for figure in (*userlevel.FIGURES, *userlevel.PATTERNS)} | {"lines_ns": lines_ns}

    gm = [run(500, 70, 72), run(510, 70, 330), run(1300, 330, 340), run(1400, 335, 320)]
    bip = [run(300, 75, 72), run(310, 70, 69), run(800, 340, 335), run(900, 330, 350)]
    found = {"GM": {"8": gm}, "BIP": {"8": bip}}
    cells = ("GM", 8, "g_ns"), ("BIP", 8, "g_ns")
    expect(userlevel.levels(found) == [(69, 75), (320, 350)] and [userlevel.level_of(found, "GM", turn) for turn in range(4)] == [0, None, 1, 1], "runs by a cache line's time",
           str(userlevel.levels(found)))
    expect(userlevel.paired(found, *cells) == [(500, 300), (1300, 800), (1400, 900)], "... and what may be compared", str(userlevel.paired(found, *cells)))
    expect(userlevel.values(found, "GM", 8, "g_ns") == [1300, 1400] and [turns for _, turns in userlevel.rows_of(found, "GM")] == [[0], [2, 3], [1]], "... and shown")
    part, less = userlevel.less_by(found, "GM", "BIP", "g_ns")
    expect(less is True and abs(part["median"] - 5 / 13) < 1e-9, "... and a share is the median of the repetitions' shares", str(part))
    bip[2] = run(1310, 340, 335)
    expect(userlevel.less_by(found, "GM", "BIP", "g_ns") == ("unknown", None), "... which there is not if the difference has both signs")
    gm[:] = [run(500, 70, 330)] * 4
    expect(userlevel.less_by(found, "GM", "BIP", "g_ns") == ("unknown", None), "... or if all runs met a change")


def check_features(model):
    """Checks figures 5 to 7 here: as published, and with two systems exchanged."""
    def judged(systems):
        ns = {"GM": lambda size: 2000 + size + 500 * (size > userlevel.FRAGMENT), "GM+": lambda size: 1500 + size + 500 * (size > userlevel.FRAGMENT),
              "GM without reliability": lambda size: 1200 + size, "BIP": lambda size: 1000 + 2 * min(size, 256) + max(0, size - 256) / 2}

        def run(name, size):
            took = ns[systems.get(name, name)](size)
            return {"half_rtt_ns": {"median": took}, **{way: {"median": 1e9 * size / took} for way in userlevel.PATTERNS}}

        found = {name: {str(size): 2 * [run(name, size)] for size in userlevel.SIZES} for name in ns}
        section = labs.Section("userlevel", "", "")
        userlevel.features(section, found, model)
        return [check["agrees"] for check in section.checks if check["text"].startswith("Here")]

    expect(judged({}) == [True] * 5, "figures 5 to 7 here: as published", str(judged({})))
    exchanged = judged({"GM": "BIP", "BIP": "GM"})
    expect(exchanged == [False] * 5, "... and two systems exchanged", str(exchanged))


check_judged()
check_streams()
check_placements()
with tempfile.TemporaryDirectory() as work:
    document = os.path.join(work, "model.json")
    done = subprocess.run([sys.executable, MODEL, sys.argv[1], "--json", document], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    expect(done.returncode == 0, "the model runs", done.stdout)
    if done.returncode == 0:
        with open(document, encoding="utf-8") as file:
            found = json.load(file)
        check(found)
        check_copies(found)
        check_features(found)
sys.exit(1 if checks.failures else 0)
