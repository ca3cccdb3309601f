#!/usr/bin/env python3
"""test_planted.py [RECORD] - checks that each chapter of the report detects wrong data: it is made again from the record of the committed
report (docs/report/measured.jsonl), first unchanged, then with wrong figures planted. Each plant must turn a check to NO, and one must
turn the answer if it was confirmed, or otherwise a check (its record may be disturbed). Every experiment needs plants. The committed
figures must be those that the record gives. Nothing is measured.

Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import copy
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), *(os.path.join(ROOT, "experiments", "report", folder) for folder in ("", "measuring"))]
sys.dont_write_bytecode = True
import checks
import lab as labs  # makes the following importable
import journal
import report as reports
from checks import expect

RECORD = os.path.join(ROOT, "docs", "report", "measured.jsonl")


# ---- plants in {key: [results]} ----


def keys(one, other):
    """Exchanges results whose names differ only in these words (and in the sizes measured)."""
    def plant(kept):
        found = {re.sub(r'"--size", "[^"]*"', "", key): key for key in kept}
        for short, key in found.items():
            twin = found.get(short.replace(one, other))
            if one in short and twin:
                kept[key], kept[twin] = kept[twin], kept[key]
    return plant


def everywhere(change):
    """Calls change(value) for all objects and lists of all results."""
    def visit(value):
        change(value)
        for inner in list(value.values() if isinstance(value, dict) else value):
            if isinstance(inner, dict | list):
                visit(inner)
    return visit


def members(one, other):
    """Exchanges two members of each object that has both."""
    def change(value):
        if one in value and other in value and isinstance(value, dict):
            value[one], value[other] = value[other], value[one]
    return everywhere(change)


def labels(one, other):
    """Exchanges the measurements of rows with these and with those labels in each list that has both."""
    def change(value):
        rows = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
        ones, others = ([row for row in rows if mine.items() <= row.items()] for mine in (one, other))
        for mine, theirs in ((ones, other), (others, one)):
            for row in mine if ones and others else ():
                row.update(theirs)
    return everywhere(change)


def multiply(factor, where):
    """Multiplies numbers whose path has this pattern: the result's name, members, and for list items their number and labels."""
    def visit(path, value):
        if isinstance(value, dict):
            value.update({name: visit(f"{path}/{name}", inner) for name, inner in value.items()})
        elif isinstance(value, list):
            value[:] = [visit(f"{path}/{number}{words_of(inner)}", inner) for number, inner in enumerate(value)]
        elif isinstance(value, int | float) and not isinstance(value, bool) and re.search(where, path):
            return value * factor
        return value

    return lambda kept: visit("", kept)


def words_of(value):
    return "".join(f" {name}={word}" for name, word in value.items() if isinstance(word, str | int)) if isinstance(value, dict) else ""


def run(mode, handoff=None):
    return {"mode": mode} | ({"handoff": handoff} if handoff else {})


PLANTS = {
    "handoff": {
        "handing off and carrying in the driver exchanged": members("ipp_none", "regular"),
        "what is saved, with the other sign": multiply(-1, "saved_to_system"),
        "a switch takes a thirtieth": multiply(1 / 30, "yield_ns"),
    },
    "rpc": {
        "regular mode and a handoff at the client exchanged": labels(run("regular"), run("ipp", "client")),
        "a handoff at the client and none exchanged": labels(run("ipp", "client"), run("ipp", "none")),
        "three times as long without a handoff": multiply(3, "mode=ipp handoff=none .*/p50"),
    },
    "fragments": {
        "regular mode and IPP without a handoff exchanged": labels(run("regular"), run("ipp", "none")),
        "twice as long in three frames, in regular mode": multiply(2, "mode=regular .* size=4000 .*/p50"),
        "three times as long without a handoff, between cores that are kept awake": multiply(3, '"cores kept awake .*"none"'),
    },
    "threads": {
        "one thread and eight exchanged": labels({"threads": 1}, {"threads": 8}),
        "twice as many switches": multiply(2, "context_switches/server"),
        "regular mode takes a tenth less, on virtual time": multiply(0.9, '"paced".*row=(Regular|[1-8]).*/rtt_ns'),
    },
    "blast": {
        "regular mode and IPP exchanged": labels(run("regular"), run("ipp")),
        "twice the time in regular mode, on virtual time": multiply(2, '"sim".* mode=regular .*/p50'),
    },
    "acks": {
        "threads run the handlers, and the driver, exchanged": labels(run("ipp", "both"), run("ipp", "none")),
        "twice as many handoffs": multiply(2, "handoffs/explicit"),
        "a fifth of the time in regular mode": multiply(1 / 5, "mode=regular .*/p50"),
    },
    "policies": {
        "handed off and carried by the driver exchanged": keys('"policy": "none"', '"policy": "explicit"'),
        "what is handed off waits twice as long": multiply(2, '"explicit".*/all_mean_us'),
    },
    "drivers": {
        "polling and sleeping exchanged": keys('"poll"', '"interrupt"'),
        "twenty times as long with drivers that poll": multiply(20, '"poll".*/p50_us'),
    },
    "anatomy": {
        "round trips without stamps take twice as long": multiply(2, '^/[^/]*"--driver".*p50'),
        "the way between the hosts, with the other sign": multiply(-1, "typical_ns/1$"),
    },
    "endpoints": {
        "TCP and the kernel level exchanged": members("tcp", "kernel"),
        "twice as long in the handler": multiply(2, "cable/handler/\\d+/(alone|awake|computing)/"),
    },
    "components": {
        "polling and sleeping drivers exchanged": labels({"driver": "poll"}, {"driver": "interrupt"}),
        "simulated calls take twice as long": multiply(2, "calls/.*/us$"),
        "two wake-ups take twice as long": multiply(2, "parts_ns/wake"),
        "a packet in fragments takes a twentieth": multiply(1 / 20, '"68".*message_ns'),
    },
    "userlevel": {
        "GM and BIP exchanged": keys("graphs/gm.dot", "graphs/bip.dot"),
        "BIP takes three times as long": multiply(3, "graphs/bip.dot.*half_rtt_ns/median"),
    },
    "scaling": {
        "AM over Ethernet and over Linux's UDP exchanged": keys('"--link", "virtio"', '"--link", "socket"'),
        "our UDP/IP takes eight times as long": multiply(8, "am-udp.dot.*/(sent_ns|answered_ns)"),
    },
}


def made(name, about, kept, earlier):
    """Returns the chapter and its Lab, made from the kept results and from earlier chapters' figures of a wake-up and a handoff."""
    record = copy.copy(about)
    record.kept = kept
    lab = labs.Lab("build", about.about["cores"], about.about["quick"], about.about["repeats"], brief=about.about["brief"])
    lab.journal, lab.chapter, lab.measures = record, name, False
    lab.wakes, lab.handoff_us, lab.handoff_adds_us = dict(earlier.wakes), earlier.handoff_us, earlier.handoff_adds_us
    return __import__(name).run(lab), lab


def uncommitted(section):
    """Returns where the chapter's JSON beside the record first differs from its data, answer and checks (by their figures: jumps in the cache-line time are unknown here); "" if nowhere."""
    with open(os.path.join(os.path.dirname(RECORD), f"{section.name}.json"), encoding="utf-8") as file:
        document = json.load(file)
    for one in document["checks"]:
        one["agrees"] = one.pop("by_figures", one["agrees"])
    made_now = {key: json.loads(json.dumps(getattr(section, key))) for key in ("data", "answer", "checks")}
    was = {key: document[key] for key in made_now}
    return "" if was == made_now else checks.difference(made_now, was, section.name)


def check(name, record, earlier, is_whole):
    """Returns the chapter's Lab, for later ones."""
    own = {key: results for key, results in record.kept.items() if key.startswith(f'["{name}"')}
    noticed = False
    try:
        before, lab = made(name, record, copy.deepcopy(own), earlier)
    except Exception as why:  # for example a figure missing in the record
        expect(False, f"{name} is made from the record: a whole run must be committed with what changes its measurements", repr(why))
        return earlier
    differs = is_whole and uncommitted(before)
    expect(not differs, f"docs/report/{name}.json is made from its record", f"./run report --again {os.path.relpath(RECORD, ROOT)} makes it again")
    for words, plant in PLANTS.get(name, {}).items():
        kept = copy.deepcopy(own)
        plant(kept)
        after, _ = made(name, record, kept, earlier)
        turned = [b["text"] for a, b in zip(before.checks, after.checks) if a["agrees"] is not False and b["agrees"] is False]
        noticed |= after.verdict() is not True if before.verdict() else bool(turned)
        expect(kept != own and (turned or not before.verdict()), f"{name}: {words}: {labs.VERDICTS[before.verdict()]} becomes "
               f"{labs.VERDICTS[after.verdict()]}; checks that newly say NO: {len(turned)}")
    expect(noticed, f"{name} detects wrong data" if name in PLANTS else f"{name}: no wrong data is planted")
    return lab


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else RECORD
    if not os.path.exists(path):
        print(f"skipped: there is no {os.path.relpath(path, ROOT)}, a record of the report's measurements")
        return 0
    record, earlier = journal.Record(path), labs.Lab("build", "", False)
    for name in reports.EXPERIMENTS:
        earlier = check(name, record, earlier, path == RECORD)
    print(f"{checks.failures} failed" if checks.failures else "every chapter detects wrong data")
    return 1 if checks.failures else 0


sys.exit(main())
