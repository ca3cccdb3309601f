#!/usr/bin/env python3
"""test_components.py BUILD - checks experiments/components: its predictions on virtual time, which are the same everywhere; its
measurements on this machine, by counts and not by times; that the report shows both; and that nothing is left when it is killed.

Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
sys.dont_write_bytecode = True
import checks
from checks import chapter, expect, shown

PARTS = os.path.join(ROOT, "experiments", "components", "parts.py")
EXCHANGES = {"ethernet_dec": [257.2, 3145.6], "ethernet_sparc": [264.2, 2604.6], "fddi_dec": [267.1, 893.8], "atm_dec": [73.1, 670.1]}
CALLS = {"ethernet_dec": [340.2, 2052.4], "ethernet_sparc": [347.2, 1785.4], "fddi_dec": [350.1, 931.4], "atm_dec": [163.3, 703.7]}
FAILED = ("ATM, DECstation: an exchange of long packets", "Ethernet, SPARCstation: a call without arguments", "Ethernet, SPARCstation: a call with a full packet",
          "FDDI, DECstation: a call with a full packet", "Which controller is faster at a call without arguments")
ALWAYS = ("virtio", "ring")  # the links that need no permission
PATIENCE_S = 600


def check_model(model):
    for name, machine in model["machines"].items():
        for what, expected in (("exchanges", EXCHANGES[name]), ("calls", CALLS[name])):
            found = [round(row["us"], 1) for row in machine[what]]
            expect(found == expected, f"simulated {what}, {machine['title']}", f"{found}, expected {expected}")
        # a call's steps are sequential, except cells, which are written while others are in flight
        for row in machine["calls"]:
            pipelined = name == "atm_dec"
            expect(pipelined or abs(sum(row["steps_us"]) - row["us"]) < 0.02 * row["us"], f"... {row['frame']} bytes: the steps add up",
                   str(row))


def check_verdicts(checks_made):
    """Checks that on virtual time the page calls the same cells too far off everywhere."""
    about = ("is predicted within", "Which controller", ": each step")
    failed = [check["text"] for check in checks_made if not check["agrees"] and any(word in check["text"] for word in about)]
    steps = [text for text in failed if "each step" in text]
    others = [text for text in failed if text not in steps]
    expect(len(others) == len(FAILED) and all(text.startswith(FAILED) for text in others), "figures simulated too far off are reported", str(others))
    expect(len(steps) == 6, "... and so are steps", str(steps))


def check_parts(what, parts, driver):
    """Checks that all parts are present and that only a sleeping driver has a bell. Service, device and wake-up are differences of times,
    which can have any value on a busy machine, and are not checked."""
    expect(set(parts) == {"way", "device", "service", "bell", "wake"} and parts["way"] > 0 and (parts["bell"] > 0) == (driver == "interrupt") and (driver == "interrupt" or parts["wake"] == 0), what, str(parts))


def check_here(here):
    rows = {(row["link"], row["driver"], row["frame"]): row for row in here["rows"]}
    for what, why in here["missing"].items():
        print(f"skipped: {what}: {why}")
    expect(not [what for what in here["missing"] if what.startswith((*ALWAYS, "spin", "memory"))], "nothing is missing that needs no permission",
           str(here["missing"]))
    expect(here["wakes_ns"] and min(here["wakes_ns"]) > 0, "waking a thread by itself", str(here["wakes_ns"]))
    for key in (("virtio", "poll"), ("virtio", "interrupt"), ("ring", "poll")):
        for frame in (60, 1514):
            check_parts(f"{', '.join(key)}, {frame} bytes: its parts", rows.get((*key, frame), {}).get("parts_ns", {}), key[1])
    calls = {(row["driver"], row["frame"]): row["parts_ns"] for row in here["calls"]}
    expect(set(calls) == {(driver, frame) for driver in ("poll", "interrupt") for frame in (60, 1514)}, "calls, short and long", str(calls))
    for (driver, frame), parts in calls.items():
        check_parts(f"a call, {driver}, {frame} bytes: its parts", parts, driver)
    sleeps = {(row["work"], row["spin"]): row["sleeps"] for row in here["spins"]}
    expect(len(sleeps) == 8, "all spins", str(sleeps))
    for work in ("0us", "30us"):
        expect(sleeps[work, "poll"] == 0, f"a driver that polls does not sleep, server works {work}", str(sleeps))
        expect(sleeps[work, "interrupt"] > 0.1, "... one that waits for interrupts does", str(sleeps))
    expect(sleeps["30us", "2us"] > 0.1, "... and so does one that spins for less than a call takes", str(sleeps))


def check_report(work):
    made = chapter("components", work)
    if made is None:
        return
    document, page = made
    check_model(document["data"]["model"])
    check_verdicts(document["checks"])
    check_here(document["data"]["here"])
    expect("FDDI, DECstation, 1514 bytes" in page and shown(document["answer"]) in page, "tables and answer are on the page")


def programs(word):
    """Returns the processes with this word in their command."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                if word in file.read().split("\0"):
                    found.append(pid)
        except (OSError, UnicodeDecodeError):
            pass
    return found


def check_kill():
    """Kills parts.py while its interfaces exist in their namespace: their program must end, and with it the namespace."""
    cores = f"{min(os.sched_getaffinity(0))},{max(os.sched_getaffinity(0))}"
    parts = subprocess.Popen([sys.executable, PARTS, sys.argv[1], "--rounds", "100003", "--cores", cores], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE_S
    while not programs("xkpart0") and parts.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    found = programs("xkpart0")
    parts.send_signal(signal.SIGKILL)
    parts.wait()
    expect(found, "parts has interfaces")
    while programs("xkpart0") and time.monotonic() < until + PATIENCE_S:
        time.sleep(0.02)
    expect(not programs("xkpart0"), "killed, it leaves nothing")


with tempfile.TemporaryDirectory() as work:
    check_report(work)
if subprocess.run(["unshare", "-n" if os.geteuid() == 0 else "-rn", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
    check_kill()
else:
    print("skipped: no namespaces")
sys.exit(1 if checks.failures else 0)
