"""waits.py - what a handoff at the client changes between two cores, of which each halts while it waits for the other."""
import contextlib
import os
import subprocess
import tempfile

import lab as labs
import stamps
import trips
from programs import die_with_parent

GRAPH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "waits.dot")
WAYS = {"client": "handoff at the client", "none": "no handoff", "later": "no handoff, but as much work"}
COMPARED = ("client", "none")  # handoffs
PARTS = {"client": "the client, awake, until it rings", "client_bell": "the client's doorbell", "server": "the server, awake, until it rings",
         "server_bell": "the server's doorbell", "wake": "waking, both ways", "total": "round trip"}
SYSTEM = ("client_bell", "server_bell", "wake")
WORKLOAD = os.path.join("experiments", "endpoints", "workload")  # computes until it is killed
SIZE = 1
WHY = {True: "The former is because the other side is rung later, whoever rings.", False: "The former is the thread's doing, and not because the other side is rung later.",
       None: "Whether the former is because the other side is rung later cannot be told."}


class End:
    """Its visits, whoever sends: when it woke, began to send and had sent; in how many its driver was asleep again before that."""

    def __init__(self, path):
        self.visits, self.slept, visit, slept = [], 0, [], False
        for ns, what in sorted(stamps.read(path)[1]):
            if what == "wake":
                visit, slept = [ns], False
            elif what == "sleep" and len(visit) == 1:
                slept = True
            elif (what, len(visit)) in (("transmit", 1), ("sent", 2)):
                visit.append(ns)
                if len(visit) == 3:
                    self.visits.append(visit)
                    self.slept += slept


def parts(lab, handoff, work_ns, rounds):
    """The parts of a typical round trip, in nanoseconds, as means of the fifth in the middle."""
    with tempfile.TemporaryDirectory() as work:
        files = {end: os.path.join(work, end) for end in stamps.ENDS}
        lab.run_now("udptest", *lab.ends(), "--mode", "ipp", "--handoff", handoff, "--size", str(SIZE), "--rounds", str(rounds),
                    "--graph", GRAPH, f"--set=client:vwork.down={work_ns}ns", *(f"--set={end}:s_port.file={file}" for end, file in files.items()))
        ends = [End(file) for file in files.values()]
    found = sorted(stamps.trips(*ends, 2))
    if len(found) < 5:
        raise labs.Failed(f"udptest --handoff {handoff}: of {rounds} round trips {len(found)} are as they should be")
    total, wake, client, server = zip(*found[len(found) * 2 // 5:len(found) * 3 // 5])
    (client, client_bell), (server, server_bell) = stamps.mean(client), stamps.mean(server)
    total, wake = stamps.mean(zip(total, wake))
    return {"client": client, "client_bell": client_bell, "server": server, "server_bell": server_bell, "wake": wake, "total": total,
            "slept": ends[0].slept / len(ends[0].visits)}


@contextlib.contextmanager
def awake(lab):
    """Keeps the cores from halting: on each computes a program that others need not wait for."""
    programs = [subprocess.Popen(["taskset", "-c", core, "chrt", "--idle", "0", os.path.join(lab.build, WORKLOAD), "--times", "0"],
                                 stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent) for core in lab.cores.split(",")]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def trips_awake(lab, arguments):
    with awake(lab):
        return lab.run_now("udptest", *arguments)


def measure(lab):
    """({way: parts of each repetition}, Trips with cores kept awake, Trips of drivers that poll)"""
    rounds = lab.rounds(2000, 100)
    arguments = (*lab.ends(), "--size", str(SIZE), "--mode", "ipp", "--handoff", ",".join(COMPARED), "--rounds", str(rounds))
    found, kept, polling, work_ns = {way: [] for way in WAYS}, [], [], 0
    for turn in range(1 if lab.brief else lab.repeats):
        lab.progress(turn / lab.repeats)
        for way, runs in found.items():
            if way == "later" and turn == 0:
                work_ns = max(0, round(found["client"][0]["client"] - found["none"][0]["client"]))
            options = ("none", work_ns, rounds) if way == "later" else (way, 0, rounds)
            runs.append(lab.once(["parts", way, rounds], lambda options=options: parts(lab, *options)))
        kept.append(lab.once(["awake", *arguments], lambda: trips_awake(lab, arguments)))
        polling.append(lab.run("udptest", *arguments, "--driver", "poll"))
    return found, labs.Trips(kept, "cores kept awake"), labs.Trips(polling, "drivers that poll")


def more(found, parts_of, way="none", than="client"):
    """What these parts take more one way than another, in microseconds."""
    return labs.interval([sum(run[part] - other[part] for part in parts_of) / 1000 for run, other in zip(found[way], found[than])])


def key(handoff):
    return "ipp", handoff, 1, SIZE


def tell(lab, section, apart):
    """apart: the Trips of table 4, between cores that halt. Returns what the answer says of it."""
    found, kept, polling = measure(lab)
    section.data["waits"] = {"parts_ns": found, "awake": trips.data(kept), "polling": trips.data(polling)}
    us = {way: {part: labs.interval([run[part] / 1000 for run in runs]) for part in PARTS} for way, runs in found.items()}
    section.table(
        f"What a handoff at the client changes, {apart.where}: a round trip of {labs.bytes_of(SIZE)} in parts, in microseconds",
        ("", *WAYS.values()), [(words, *(labs.spread(us[way][part]) for way in WAYS)) for part, words in PARTS.items()])
    waiting = {"cores that halt": apart, "cores kept awake by programs of idle priority": kept, "drivers that poll": polling}
    saved = {words: each.saved_us(*map(key, COMPARED)) for words, each in waiting.items()}
    halting, kept_awake, _ = saved.values()
    reversed_ = labs.is_saved(halting) is False
    own, system, later = more(found, ["client"], "client", "none"), more(found, SYSTEM), more(found, ["total"], "none", "later")
    slept = {way: labs.median([run["slept"] for run in runs]) for way, runs in found.items()}
    section.text(
        f"With a handoff at the client, its driver was asleep again before the thread rang in {slept['client']:.0%} of the round trips ({slept['none']:.0%} "
        f"without one), and the client rang {labs.spread(own)} us later. Ringing and waking then took {labs.spread(system)} us less. In the last column the driver "
        f"carries the message, and works for as long as the handoff took: with this work, the round trip took {labs.spread(later)} us less than without. "
        + ("" if reversed_ else "In this run, table 4 does not show that a handoff shortens a round trip, so that there is nothing to explain. ")
        + "Doorbells and waking are the system's and, on a virtual machine, of the machine below, into which nothing here can look. But cores can be kept "
        "from halting:")
    section.table(
        f"The same between cores that halt and cores that do not: round trips of {labs.bytes_of(SIZE)} in microseconds",
        ("", *(WAYS[handoff] for handoff in COMPARED), "saved without"),
        [(words, *(labs.spread(each.median_us(*key(handoff))) for handoff in COMPARED), labs.spread(saved[words])) for words, each in waiting.items()])
    for words in list(saved)[1:]:
        section.check_saved(saved[words], f"{labs.bytes_of(SIZE)}, {words}: IPP without a handoff takes {labs.spread(saved[words])} us less than with one at "
                            f"the client ({labs.spread(halting)} between cores that halt).", bears=False)
    section.check_saved(own, f"From waking until it rings, a client with a handoff takes {labs.spread(own)} us more than one without: that much work is saved.", bears=False)
    if reversed_:
        section.check(system["median"] > own["median"], f"IPP without a handoff is slower than with one at the client, although its client rings {labs.spread(own)} us "
                      f"sooner, because ringing and waking take {labs.spread(system)} us more.")
    return (f"A handoff at the client {changed(halting)} there while cores halt, and {changed(kept_awake)} while they are kept awake."
            + (f" {WHY[labs.is_saved(later)]}" if reversed_ else ""))


def changed(saved):
    """What a handoff does to a round trip, of which not to have one saves so much."""
    if saved["median"] >= 0:
        return f"adds {labs.spread(saved)} us"
    return f"saves {labs.spread({'median': -saved['median'], 'low': -saved['high'], 'high': -saved['low']})} us"
