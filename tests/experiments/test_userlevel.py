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
sys.path.insert(0, os.path.join(ROOT, "tests"))
sys.dont_write_bytecode = True
import checks
from checks import tell

MODEL = os.path.join(ROOT, "experiments", "userlevel", "model.py")
US = {"GM": {"half_rtt_ns": 14.76, "g_ns": 9.81, "os_ns": 0.86, "or_ns": 1.87, "l_ns": 12.03},
      "GM+": {"half_rtt_ns": 11.29, "g_ns": 4.12, "os_ns": 2.02, "or_ns": 1.93, "l_ns": 7.34},
      "BIP": {"half_rtt_ns": 6.65, "g_ns": 5.04, "os_ns": 5.04, "or_ns": 0.48, "l_ns": 1.13}}
AGREE = {"small", "knee", "usable", "sawtooth", "ping_pong", "both_ways", "range"}


def check(model):
    for name, figures in model["table_ns"].items():
        found = {figure: round(ns / 1000, 2) for figure, ns in figures.items()}
        tell(found == US[name], f"{name}: simulated figures", f"{found}, expected {US[name]}")
        for figure in model["given"][name]:
            published = model["published_us"][name][figure]
            tell(abs(found[figure] - published) <= 0.02, f"... {figure} is fitted", f"{found[figure]}, published {published}")
    preset = {figure: model["preset_ns"][figure] for figure in model["table_ns"]["GM"]}
    tell(preset == model["table_ns"]["GM"], "the presets lanai and alpha are what is fitted", f"{preset}")
    agree = {feature["name"] for feature in model["features"] if feature["agrees"]}
    tell(agree == AGREE, "features that are as published", f"{agree}, expected {AGREE}")


with tempfile.TemporaryDirectory() as work:
    document = os.path.join(work, "model.json")
    done = subprocess.run([sys.executable, MODEL, sys.argv[1], "--json", document], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    tell(done.returncode == 0, "the model runs", done.stdout)
    if done.returncode == 0:
        with open(document, encoding="utf-8") as file:
            check(json.load(file))
sys.exit(1 if checks.failures else 0)
