#!/usr/bin/env python3
"""test_userlevel.py BUILD - whether experiments/userlevel fits and predicts what its README says: on virtual time by figures, which are
the same everywhere.

Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "experiments", "report")]
sys.dont_write_bytecode = True
import checks
import lab as labs
import userlevel
from checks import tell

MODEL = os.path.join(ROOT, "experiments", "userlevel", "model.py")
US = {"GM": {"half_rtt_ns": 14.76, "g_ns": 9.81, "os_ns": 0.86, "or_ns": 1.87, "l_ns": 12.03},
      "GM+": {"half_rtt_ns": 11.29, "g_ns": 4.12, "os_ns": 2.02, "or_ns": 1.93, "l_ns": 7.34},
      "BIP": {"half_rtt_ns": 6.65, "g_ns": 5.04, "os_ns": 5.04, "or_ns": 0.48, "l_ns": 1.13}}
AGREE = {"small", "knee", "usable", "sawtooth", "ping_pong", "both_ways", "long_both_ways", "range"}
MISSED = {"GM's g", "GM+'s g", "GM+'s Or", "GM+'s L"}  # by more than the report lets pass


def check(model):
    for name, figures in model["table_ns"].items():
        found = {figure: round(ns / 1000, 2) for figure, ns in figures.items()}
        tell(found == US[name], f"{name}: simulated figures", f"{found}, expected {US[name]}")
        for figure in model["given"][name]:
            published = model["published_us"][name][figure]
            tell(abs(found[figure] / published - 1) < 0.04, f"... {figure} is fitted", f"{found[figure]}, published {published}")
    preset = {figure: model["preset_ns"][figure] for figure in model["table_ns"]["GM"]}
    tell(preset == model["table_ns"]["GM"], "the presets lanai and alpha are what is fitted", f"{preset}")
    agree = {feature["name"] for feature in model["features"] if feature["agrees"]}
    tell(agree == AGREE, "features that are as published", f"{agree}, expected {AGREE}")
    section = labs.Section("userlevel", "", "")
    userlevel.simulated(section, model)
    missed = {name for check in section.checks if not check["agrees"] for name in MISSED if f"{name} is predicted" in check["text"]}
    tell(missed == MISSED and sum(not check["agrees"] for check in section.checks) == len(MISSED), "predictions that the report calls wrong", str(section.checks))


def check_judged():
    """What the report makes of table 1, if the figures measured here were the published ones, or those of two systems exchanged."""
    def judged(systems):
        found = {name: {"8": 2 * [{figure: {"median": us * 1000} for figure, us in zip(userlevel.FIGURES, userlevel.PUBLISHED[system])}]}
                 for name, system in systems.items()}
        section = labs.Section("userlevel", "", "")
        userlevel.judge_table(section, found, {name: dict(zip(userlevel.FIGURES, row)) for name, row in userlevel.PUBLISHED.items()})
        return [check["agrees"] for check in section.checks]

    same = judged({name: name for name in userlevel.PUBLISHED})
    tell(len(same) == 23 and all(same), "the report: published figures agree with themselves", str(same))
    exchanged = judged({"GM": "BIP", "GM+": "GM+", "BIP": "GM"})
    tell(not any(exchanged[:20]) and exchanged[20:] == [False, True, False], "... and two systems exchanged with none but those of the third", str(exchanged))


check_judged()
with tempfile.TemporaryDirectory() as work:
    document = os.path.join(work, "model.json")
    done = subprocess.run([sys.executable, MODEL, sys.argv[1], "--json", document], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    tell(done.returncode == 0, "the model runs", done.stdout)
    if done.returncode == 0:
        with open(document, encoding="utf-8") as file:
            check(json.load(file))
sys.exit(1 if checks.failures else 0)
