"""waits.py - the effect of a handoff at the client, between two cores that halt while they wait for each other."""
import contextlib
import os
import subprocess
import tempfile

import lab as labs
import stamps
import trips
from programs import die_with_parent

GRAPH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "waits.dot")
VARIANTS = {"client": "handoff at the client", "none": "no handoff", "later": "no handoff, but equal work"}
COMPARED = ("client", "none")  # handoffs
PARTS = {"client": "the client, awake, until it rings", "client_bell": "the client's doorbell", "server": "the server, awake, until it rings",
         "server_bell": "the server's doorbell", "wake": "waking, both directions", "total": "round trip"}
SYSTEM = ("client_bell", "server_bell", "wake")
WORKLOAD = os.path.join("experiments", "endpoints", "workload")  # computes until killed
SIZE = 1
HALT, AWAKE = "cores that halt", "cores kept awake by programs of idle priority"
WHY = {True: "It saves because the other side is rung later, by whichever thread.", False: "It saves by its thread, not because the other side is rung later.",
       None: "Whether it saves because the other side is rung later is unclear."}


class End:
    """An end's visits, whichever thread sends: the times of its wake-up, of transmit and of sent; and the number of visits whose driver slept before that."""

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


def options_of(lab, variant, work_ns, rounds):
    handoff, ns = ("none", work_ns) if variant == "later" else (variant, 0)
    return [*lab.ends(), "--mode", "ipp", "--handoff", handoff, "--size", str(SIZE), "--rounds", str(rounds), "--graph", GRAPH, f"--set=client:vwork.down={ns}ns"]


def parts(lab, options):
    """Returns the parts of a typical round trip in nanoseconds, as means of the middle fifth."""
    with tempfile.TemporaryDirectory() as work:
        files = {end: os.path.join(work, end) for end in stamps.ENDS}
        lab.run_now("udptest", *options, *(f"--set={end}:s_port.file={file}" for end, file in files.items()))
        ends = [End(file) for file in files.values()]
    found = sorted(stamps.trips(*ends, 2))
    if len(found) < 5:
        raise labs.Failed(f"udptest {' '.join(options)}: only {len(found)} round trips are usable")
    total, wake, client, server = zip(*found[len(found) * 2 // 5:len(found) * 3 // 5])
    (client, client_bell), (server, server_bell) = stamps.mean(client), stamps.mean(server)
    total, wake = stamps.mean(zip(total, wake))
    return {"client": client, "client_bell": client_bell, "server": server, "server_bell": server_bell, "wake": wake, "total": total,
            "slept": ends[0].slept / len(ends[0].visits)}


@contextlib.contextmanager
def awake(lab):
    """Keeps the cores from halting with a program of idle priority on each."""
    programs = [subprocess.Popen(["taskset", "-c", core, "chrt", "--idle", "0", os.path.join(lab.build, WORKLOAD), "--times", "0"],
                                 stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent) for core in lab.cores.split(",")]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def whole_ns(lab, options):
    """Returns a round trip's median without stamps."""
    return lab.run_now("udptest", *options)["runs"][0]["rtt_ns"]["p50"]


def measure(lab):
    """Measures the variants in turn. Returns ({variant: parts of each repetition}, {where: {variant: round trips in nanoseconds}}, Trips of polling drivers)."""
    rounds = lab.rounds(2000, 100)
    found, whole, polling, work_ns = {variant: [] for variant in VARIANTS}, {where: {variant: [] for variant in VARIANTS} for where in (HALT, AWAKE)}, [], 0
    for turn in range(1 if lab.brief else lab.repeats):
        lab.progress(turn / lab.repeats)
        for variant, runs in found.items():
            if variant == "later" and turn == 0:
                work_ns = max(0, round(found["client"][0]["client"] - found["none"][0]["client"]))
            options = options_of(lab, variant, work_ns, rounds)
            runs.append(lab.once(["parts", variant, rounds], lambda options=options: parts(lab, options)))
        for where, variants in whole.items():
            with awake(lab) if where == AWAKE and lab.measures else contextlib.nullcontext():
                for variant, runs in variants.items():
                    options = options_of(lab, variant, work_ns, rounds)
                    runs.append(lab.once(["whole", where, variant, rounds], lambda options=options: whole_ns(lab, options)))
        polling.append(lab.run("udptest", *lab.ends(), "--size", str(SIZE), "--mode", "ipp", "--handoff", ",".join(COMPARED), "--rounds", str(rounds), "--driver", "poll"))
    return found, whole, labs.Trips(polling, "drivers that poll")


def more(found, parts_of, variant="none", than="client"):
    """Returns how much longer these parts take in one variant than in another, in microseconds."""
    return labs.interval([sum(run[part] - other[part] for part in parts_of) / 1000 for run, other in zip(found[variant], found[than])])


def saved_us(variants, slower, faster):
    return labs.interval([(a - b) / 1000 for a, b in zip(variants[slower], variants[faster])])


def report(lab, section, apart):
    """Adds the tables and checks, and returns a text for the answer. apart: the Trips of table 4, between cores that halt."""
    found, whole, polling = measure(lab)
    section.data["waits"] = {"parts_ns": found, "whole_ns": whole, "polling": trips.data(polling)}
    key = {handoff: ("ipp", handoff, 1, SIZE) for handoff in COMPARED}
    us = {variant: {part: labs.interval([run[part] / 1000 for run in runs]) for part in PARTS} for variant, runs in found.items()}
    section.table(
        f"What a handoff at the client changes, {apart.where}: a round trip of {labs.bytes_of(SIZE)} in parts, in microseconds",
        ("", *VARIANTS.values()), [(text, *(labs.spread(us[variant][part]) for variant in VARIANTS)) for part, text in PARTS.items()])
    own, system = more(found, ["client"], "client", "none"), more(found, SYSTEM)
    slept = {variant: labs.median([run["slept"] for run in runs]) for variant, runs in found.items()}
    section.text(
        f"With a handoff at the client, its driver was asleep again before the thread rang in {slept['client']:.0%} of the round trips ({slept['none']:.0%} "
        f"without one), and the client rang {labs.spread(own)} us later. Ringing and waking then took {labs.more_or_less(labs.negated(system))}. In the last column the driver "
        "carries the message, and works for as long as the handoff took. Doorbells and waking belong to the operating system and, on a virtual machine, to the "
        "hypervisor, where nothing can be measured from here. But cores can be kept from halting. The next table has the same three variants without stamps, each in its own processes:")
    saved = {where: saved_us(variants, *COMPARED) for where, variants in whole.items()} | {polling.where: polling.saved_us(*key.values())}
    section.table(
        f"The same between cores that halt and cores that do not: round trips of {labs.bytes_of(SIZE)} in microseconds",
        ("", *VARIANTS.values(), "saved without a handoff"),
        [(where, *(labs.spread(labs.interval([ns / 1000 for ns in runs])) for runs in variants.values()), labs.spread(saved[where])) for where, variants in whole.items()]
        + [(polling.where, *(labs.spread(polling.median_us(*each)) for each in key.values()), "-", labs.spread(saved[polling.where]))])
    stamped = more(found, ["total"], "client", "none")
    section.text(f"With a handoff at the client, a round trip with stamps takes {labs.more_or_less(stamped)} than without a handoff, and "
                 f"one without stamps {labs.more_or_less(saved[HALT])}" + (
                     "." if labs.is_saved(stamped) is labs.is_saved(saved[HALT]) else ": the stamps change what they measure. The parts show an end's work "
                     "before it rings, not why a round trip without stamps is shorter or longer: the table without stamps decides that."))
    for where in (AWAKE, polling.where):
        section.check_saved(saved[where], f"{labs.bytes_of(SIZE)}, {where}: with a handoff at the client IPP takes {labs.more_or_less(saved[where])} than without one "
                            f"({labs.more_or_less(saved[HALT])} between cores that halt).", bears=where == AWAKE, across=True)
    section.check_saved(own, f"From waking until it rings, a client with a handoff takes {labs.more_or_less(own)} than one without: the work of a handoff.", bears=False, across=True)
    beside = apart.saved_us(*key.values())
    answer = (f"There, a handoff at the client {changed(beside)} if measured in turn with the other configurations. In its own processes it {changed(saved[HALT])} while "
              f"cores halt, and {changed(saved[AWAKE])} while they are kept awake.")
    if labs.is_saved(saved[HALT]) is not False:
        if labs.is_saved(beside) is False:
            section.text("In the measurements of table 4 above, a handoff at the client saves time between cores that halt. This experiment does not show that, and cannot explain it.")
        return answer
    later = saved_us(whole[HALT], "none", "later")
    section.check_saved(later, f"Between cores that halt IPP without a handoff takes {labs.more_or_less(saved_us(whole[HALT], 'none', 'client'))} than with one at the client, and "
                        f"{labs.more_or_less(later)} than if its driver does equal work instead: ringing later is what saves.", across=True)
    return f"{answer} {WHY[labs.is_saved(later)]}"


def changed(saved):
    """Returns a text on what a handoff adds to a round trip. saved: what is saved without one."""
    unclear = " (unclear)" * (labs.is_saved(saved) is None)
    return f"adds {labs.spread(saved)} us{unclear}" if saved["median"] >= 0 else f"saves {labs.spread(labs.negated(saved))} us{unclear}"
