"""threads.py - tables 5 to 7: how many input threads there are."""
import json
import os
import subprocess
import sys
import tempfile

import lab as labs
import published
import trips


def run(lab):
    section = labs.Section(
        "threads", "Input threads", "How many context switches does a message in fragments cost, and what has that to do with "
        "the number of input threads?"
    )
    arguments = ("--size", trips.comma(published.SIZES), "--rounds", str(lab.rounds(3500, 200)))
    regular = lab.trips("udptest", *arguments, "--mode", "regular", "--threads", trips.comma(published.THREADS))
    compares = lab.trips("udptest", *arguments, "--mode", "regular,ipp", "--handoff", "none", "--threads", "1,3",
                         together=True)
    section.data = {"regular": trips.data(regular), "compared": trips.data(compares)}
    section.text(
        "The same datagrams as before. Here the fragments of one datagram arrive in one burst, much faster than they are "
        "worked on: how many threads are woken for them is the lesser of the number of threads and of fragments."
    )
    answer(section, regular)
    switches(section, regular)
    times(section, regular)
    compared(section, compares)
    paced(lab, section)
    return section


def answer(section, regular):
    one, many = (per_datagram(regular, threads, published.SIZES[-1]) for threads in (1, 8))
    section.answer = (
        f"{one:.1f} with one thread, {many:.1f} with eight, for a datagram of three fragments: every thread that is free is woken "
        "for a fragment. In IPP none is, however many there are."
    )


def per_datagram(found, threads, size):
    """Switches of the server's threads for each datagram that it got."""
    key = ("regular", "-", threads, size)
    return found.of_end(key, "context_switches", "server") / sum(run["rounds"] for run in found.runs[key])


def switches(section, found):
    rows = [
        (str(threads), *(f"{per_datagram(found, threads, size):.2f}" for size in published.SIZES))
        for threads in published.THREADS
    ]
    rows += [
        (f"published, {threads}", *(f"{count / 10000:.2f}" for count, _ in published.TABLE5[threads]))
        for threads in published.TABLE5
    ]
    section.table(
        "After table 5 of 1994: context switches of the server's threads for each datagram",
        ("input threads", *(labs.bytes_of(size) for size in published.SIZES)), rows, judged="each cell, by the comparison above",
    )
    for size, fragments in zip(published.SIZES, (1, 1, 2, 3)):
        if fragments > 1:
            one, many = (per_datagram(found, threads, size) for threads in (1, 8))
            section.check(
                one < many <= fragments + 0.1,
                f"{labs.bytes_of(size)}, eight threads: {many:.2f} switches a datagram of {fragments} fragments.", bears=True,
            )
    for threads, was in published.TABLE5.items():
        for size, (count, _) in zip(published.SIZES, was):
            here, then = per_datagram(found, threads, size), count / 10000
            section.compare(f"{labs.bytes_of(size)}, {threads} input thread{'s' * (threads > 1)}: context switches for each datagram", f"{here:.2f}",
                            f"{then:.2f}", abs(here - then) < 0.15, bears=threads == 1)


def times(section, found):
    rows = [
        (f"{threads} ({'published' if was else 'here'})",
         *((str(us) for us in published.TABLE6[threads]) if was else
           (labs.spread(found.median_us("regular", "-", threads, size)) for size in published.SIZES)))
        for threads in published.THREADS for was in (False, True)
    ]
    section.table(
        f"After table 6 of 1994: round trips in regular mode, in microseconds, {found.where}",
        ("input threads", *(labs.bytes_of(size) for size in published.SIZES)), rows,
        judged="which of every two numbers of threads takes less, at each size; not the times themselves, of another machine",
    )
    trips.judge_orders(section, found, {("regular", "-", threads): f"{threads} thread{'s' * (threads > 1)}" for threads in published.THREADS}, published.SIZES,
                       {("regular", "-", threads): us for threads, us in published.TABLE6.items()})


def compared(section, found):
    rows = []
    for (mode, threads), was in published.TABLE7.items():
        handoff = "-" if mode == "regular" else "none"
        rows.append((f"{mode}, {threads}",
                     *(labs.spread(found.median_us(mode, handoff, threads, size)) for size in published.SIZES)))
        rows.append(("published", *map(str, was)))
    section.table(
        f"After table 7 of 1994: round trips in microseconds, {found.where}", ("mode, threads", *(labs.bytes_of(size) for size in published.SIZES)), rows,
        judged="which of every two rows is less, at each size; not the times themselves, of another machine",
    )
    keys = {(mode, "-" if mode == "regular" else "none", threads): (f"{mode}, {threads}", us) for (mode, threads), us in published.TABLE7.items()}
    trips.judge_orders(section, found, {key: name for key, (name, _) in keys.items()}, published.SIZES, {key: us for key, (_, us) in keys.items()})
    for size in published.SIZES:
        one, three = (found.median_us("ipp", "none", threads, size) for threads in (1, 3))
        section.check(
            one["low"] <= three["high"] and three["low"] <= one["high"],
            f"{labs.bytes_of(size)}: IPP does not mind threads that it does not use ({labs.spread(one)} us with one, "
            f"{labs.spread(three)} us with three).",
        )


def tables_of_1994(lab):
    program = os.path.join(labs.ROOT, "experiments", "ipp1994", "tables.py")
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        command = [sys.executable, program, "--build", lab.build, "--json", file.name] + (["--quick"] if lab.quick else [])
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode not in (0, 1) or not os.path.getsize(file.name):
            raise labs.Failed(f"tables.py: {done.stderr.strip()[-400:]}")
        return json.load(file)


def paced(lab, section):
    """The report's own case, where a fragment is longer work than the next one takes to arrive: on virtual time."""
    section.data["paced"] = document = lab.once(["paced"], lambda: tables_of_1994(lab))
    section.text(
        "In 1994 fragments came one after the other over 10 Mb/s Ethernet, and the work on one took longer than the next one "
        "needed to arrive, but not twice as long. A second thread was then woken for each of them: one switch a fragment. "
        "The same host, on virtual time, with the report's costs and a link of that speed, shows it:"
    )
    cells = document["tables"]["5"]
    section.table(
        "After table 5 of 1994 on virtual time: context switches for 10000 messages (published)",
        ("input threads", *(labs.bytes_of(size) for size in published.SIZES)),
        [(row, *(f"{c['switches']} ({c['published']})" for c in cells if c["row"] == row))
         for row in dict.fromkeys(c["row"] for c in cells)],
        judged="each cell, by experiments/ipp1994/tables.py, whose checks follow",
    )
    for found in document["checks"]:
        section.check(found["agrees"], "On virtual time: " + found["text"])
