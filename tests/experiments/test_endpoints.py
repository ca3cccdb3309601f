#!/usr/bin/env python3
"""test_endpoints.py BUILD - checks experiments/endpoints: each end works as its level does, by the hosts' counts and not by times; the
report shows it; and nothing is left, whenever it is killed.

Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import json
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

LADDER = os.path.join(ROOT, "experiments", "endpoints", "ladder.py")
MODEL = os.path.join(ROOT, "experiments", "endpoints", "machines.py")
REPORT = os.path.join(ROOT, "experiments", "report", "report.py")
SOCKETS = ("tcp", "udp", "packet")
LINUX = ("napi", "xdp", "tc")  # not every machine lets its users, or even root, load programs into the kernel
HOSTS = ("tcp-user", "tcp-handler", "user", "static", "kernel", "handler")
REPEATS = 5
PATIENCE_S = 600


def check_counts(name, rung, cell, rounds):
    """Checks the server's counts per message in an undisturbed run."""
    server, client = cell["counts"]["server"], cell["counts"]["client"]
    messages = server["messages"]
    what = f"{rung} over {name}"
    expect(messages >= rounds * REPEATS and client["messages"] >= rounds * REPEATS, f"{what}: each end lowers the count", str(cell))
    expect(server["buffers"] == (messages if rung in ("user", "tcp-user") else 0), f"{what}: buffers made for its messages", str(server))
    threads = server["process_switches"] - server["driver_switches"] if rung in ("user", "static", "tcp-user") else server["thread_switches"]
    if rung in ("handler", "tcp-handler"):
        expect(threads < messages / 10, f"{what}: no thread is woken", str(server))
    else:
        expect(threads > messages / 10, f"{what}: a thread is woken", str(server))
    expect(server["driver_switches"] > messages / 10, f"{what}: the driver sleeps", str(server))


def check_cell(name, rung, cell):
    what = f"{rung} over {name}"
    for key in ("alone", "awake") if rung == "napi" else ("alone", "awake", "computing", "disturbing"):
        found = cell[key]
        averages = found["averages_ns"]
        expect(len(averages) == found["runs"] >= (1 if key == "disturbing" else REPEATS) and 0 < min(averages) == found["min"] <= found["mean"] <= found["max"] == max(averages)
               and abs(found["mean"] - sum(averages) / len(averages)) < 1, f"{what}, {key}: averages of all runs", str(found))
    expect((cell.get("away_ns", 0) > 0) == (rung in LINUX or rung in ("udp", "packet")), f"{what}: the time away from the client", str(cell))
    expect(rung == "napi" or min(cell["computation_s"], *cell["computations_s"], 1) > 0, f"{what}: the computation beside it ends", str(cell))


def check_rows(name, rows, rounds):
    for rung, row in rows.items():
        check_cell(name, rung, row["32"])
        if rung in HOSTS:
            check_counts(name, rung, row["32"]["alone"], rounds)


def check_virtio(work):
    file, rounds = os.path.join(work, "ladder.json"), 50
    status = subprocess.run([sys.executable, LADDER, sys.argv[1], "--links", "virtio", "--only", "handler", "--sizes", "32", "--rounds",
                             str(rounds), "--seconds", "0.05", "--json", file], stdout=subprocess.DEVNULL, check=False).returncode
    expect(status == 0, "the ladder over virtio")
    if status == 0:
        with open(file, encoding="utf-8") as stream:
            document = json.load(stream)
        expect(list(document["virtio"]) == ["handler"], "... has its row", str(document["missing"]))
        check_rows("virtio", document["virtio"], rounds)
        expect([(row["driver"], row["ratio"] > 0) for row in document["floors"]] == [("poll", True), ("interrupt", True)], "... beside DPDK alone",
               str(document["floors"]) + str(document["missing"]))


def check_model(work):
    """Checks the model's figures, which are the same on every machine."""
    file = os.path.join(work, "model.json")
    status = subprocess.run([sys.executable, MODEL, sys.argv[1], "--json", file], stdout=subprocess.DEVNULL, check=False).returncode
    expect(status == 0, "the model")
    if status == 0:
        with open(file, encoding="utf-8") as stream:
            rows = {(row["end"], row["size"]): row for row in json.load(stream)["rows"]}
        expect(all(abs(row["us"] - row["published_us"]) < 0.05 for row in rows.values() if row["fitted"]), "... matches the figures it is fitted to",
               str(rows))
        found = [round(rows[end, 1024]["us"], 1) for end in ("handler", "kernel", "static", "user")]
        expect(found == [211.4, 224.4, 249.5, 255.5], "... and predicts the rest", str(found))


def check_report(work):
    made = chapter("endpoints", work)
    if made is None:
        return
    document, page = made
    data = document["data"]
    for what, why in data["missing"].items():
        if what == "cable" or what.split()[0] in LINUX:
            print(f"skipped: {what}: {why}")
    if "cable" in data["missing"]:
        return
    expect(not [what for what in data["missing"] if what.split()[0] not in LINUX], "nothing else is missing", str(data["missing"]))
    expect({*SOCKETS, *HOSTS} <= set(data["cable"]), "all rungs are there", str(list(data["cable"])))
    check_rows("the cable", data["cable"], data["rounds"])
    expect(all(row["title"] in page for row in data["cable"].values()), "... and on the page")
    expect("Bjørndalen's table 5, over the cable" in page and shown(document["answer"]) in page, "so is the answer")


def check_statements():
    """Checks that the paper's statements hold for its own figures, and not for figures that show the opposite."""
    sys.path[:0] = [os.path.join(os.path.dirname(REPORT), folder) for folder in ("chapters", "measuring")]
    import endpoints
    then = endpoints.published()
    found = endpoints.statements(then)
    expect(len(found) == 16 and all(agrees for _, _, agrees in found), "the paper's statements agree with its figures", str(found))
    opposite = {rung: then[other] for rung, other in zip(then, reversed(then))}
    agreed = [i for i, (_, _, agrees) in enumerate(endpoints.statements(opposite)) if agrees]
    expect(agreed == [2, 9, 11], "... and not with the opposite, except those that hold for its mirror image", str(agreed))
    blurred = {rung: {size: ((1, 500, 100), (1, 500, 100), computed) for size, (_, _, computed) in cells.items()} for rung, cells in then.items()}
    unclear = [i for i, (_, _, agrees) in enumerate(endpoints.statements(blurred)) if agrees is None]
    expect({0, 1, 7, 8, 14, 15} <= set(unclear), "... and are unclear where intervals overlap", str(unclear))


def check_order():
    """Checks the order of every two ends: published figures agree with themselves, swapped ones do not, and overlapping ones are unclear."""
    import endpoints
    alone = {rung: cells[32][0] for rung, cells in endpoints.published().items()}
    means = {rung: mean for rung, (_, _, mean) in alone.items()}
    ranges = {rung: (low, high) for rung, (low, high, _) in alone.items()}
    agrees, right, wrong, unclear = endpoints.order(ranges, means)
    expect(agrees is True and (len(right), wrong, unclear) == (21, [], []), "the published order agrees with itself", str((agrees, wrong, unclear)))
    agrees, right, wrong, unclear = endpoints.order(ranges | {"tcp": ranges["udp"], "udp": ranges["tcp"]}, means)
    expect(agrees is False and (len(right), wrong, unclear) == (20, [("udp", "tcp")], []), "... and not with two ends swapped",
           str((agrees, wrong, unclear)))
    agrees, right, wrong, unclear = endpoints.order(ranges | {"tcp": (100, 188)}, means)
    expect(agrees is None and (len(right), wrong, unclear) == (19, [], [("udp", "tcp"), ("packet", "tcp")]), "... and overlapping ends are unclear",
           str((agrees, wrong, unclear)))


def check_verdicts():
    """Checks the report's verdicts on tables 1 to 6 for the published figures, and for two ends exchanged."""
    import endpoints
    import lab as labs

    def cell(rung, size):
        alone, beside, seconds, per_second = endpoints.PUBLISHED[rung][size]
        ns = [dict(zip(("min", "max", "mean"), (us * 1000 for us in three))) for three in (alone, beside)]
        counts = {"server": {"messages": 1, "process_switches": 1 if rung == "handler" else 2}}
        return {"alone": ns[0], "awake": ns[0] | {"counts": counts}, "computing": ns[1], "disturbing": {"mean": 1e9 / per_second}, "computation_s": seconds[2],
                "computations_s": list(seconds)}

    def checked(ends):
        rows = {rung: {"title": rung, **{str(size): cell(ends.get(rung, rung), size) for size in (32, 1024)}} for rung in endpoints.PUBLISHED}
        rows["xdp"] = {"title": "xdp", "32": cell("udp", 32) | {"away_ns": 1}}  # and no other row has that
        section = labs.Section("endpoints", "", "")
        section.data = {"cable": rows, "sizes": [32, 1024], "computation_s": [endpoints.PUBLISHED_ALONE_S], "floors": []}
        endpoints.check_orders(section, "cable", "over the cable")
        endpoints.assess(section)
        return section

    same = checked({})
    expect(False not in [check["agrees"] for check in same.checks] and same.verdict() is True, "the report of the published figures agrees with them",
           str([check for check in same.checks if check["agrees"] is not True]))
    exchanged = checked({"tcp": "handler", "handler": "tcp"})
    expect(exchanged.verdict() is False and all(check["agrees"] is False for check in exchanged.checks if " faster of each two endpoints " in check["text"]),
           "... and not with TCP and the handler exchanged", str(exchanged.checks))
    thread = [check["agrees"] for check in exchanged.checks if "second thread" in check["text"]]
    expect(thread == [False] and "switches threads 2.0 times" in exchanged.why, "... whose second thread explains nothing then", f"{thread} {exchanged.why}")


def namespace_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def in_namespace(namespace):
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and namespace_of(pid) == namespace]


def words_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read().split("\0")
    except OSError:
        return []


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return file.read().split()
    except OSError:
        return []


def check_kill(word, rung):
    """Kills the ladder once a program with this word in its command runs in its namespaces, of which nothing may be left."""
    ladder = subprocess.Popen([sys.executable, LADDER, sys.argv[1], "--only", rung, "--sizes", "32", "--seconds", "0.1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until, found, namespace = time.monotonic() + PATIENCE_S, [], None
    while not found and time.monotonic() < until and ladder.poll() is None:
        inside = children_of(ladder.pid)
        namespace = namespace_of(inside[0]) if inside else None
        if namespace != namespace_of("self"):
            found = [pid for pid in in_namespace(namespace) if namespace and any(word in w for w in words_of(pid))]
    ladder.send_signal(signal.SIGKILL)
    ladder.wait()
    expect(found, f"{word} runs")
    while found and in_namespace(namespace) and time.monotonic() < until + PATIENCE_S:
        time.sleep(0.02)
    expect(not found or not in_namespace(namespace), f"killed beside {word}, it leaves nothing")


check_statements()
check_order()
check_verdicts()
with tempfile.TemporaryDirectory() as work:
    check_report(work)
    check_virtio(work)
    check_model(work)
if subprocess.run(["unshare", "-r", "-m", "-n", "-p", "-f", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
    for word, rung in (("infinity", "tcp"), ("sockets", "udp"), ("pingpong.dot", "static")):
        check_kill(word, rung)
else:
    print("skipped: no namespaces")
sys.exit(1 if checks.failures else 0)
