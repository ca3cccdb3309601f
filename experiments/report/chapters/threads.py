"""threads.py - tables 5 to 7: how many input threads there are."""
import json
import os
import subprocess
import sys
import tempfile

import lab as labs
import near
import published
import trips

EQUAL_US = 5  # difference between published times that should be equal: handoffs at client and server, one thread and two for one fragment


def run(lab):
    section = labs.Section(
        "threads", "Input threads", "How many context switches does a fragmented message cost, and how does that depend on "
        "the number of input threads?"
    )
    arguments = ("--size", trips.comma(published.SIZES), "--rounds", str(lab.rounds(3500, 200)))
    regular = lab.trips("udptest", *arguments, "--mode", "regular", "--threads", trips.comma(published.THREADS))
    compares = lab.trips("udptest", *arguments, "--mode", "regular,ipp", "--handoff", "none", "--threads", "1,3",
                         together=True)
    section.data = {"regular": trips.data(regular), "compared": trips.data(compares)}
    section.text(
        "The same datagrams as before. Here the fragments of one datagram arrive in one burst, much faster than they are "
        "processed: they wake as many threads as there are fragments, or all threads if there are fewer."
    )
    answer(section, regular)
    switches(section, regular)
    times(section, regular)
    compared(section, compares)
    paced(lab, section)
    return section


def answer(section, regular):
    one, two, many = (per_datagram(regular, threads, published.SIZES[-1]) for threads in (1, 2, 8))
    was = [published.TABLE5[threads][-1][0] / published.ROUNDS for threads in (1, 2)]
    section.answer = (
        f"A datagram of three fragments costs {one:.1f} switches with one thread (in 1994 {was[0]:.1f}), {two:.1f} with two ({was[1]:.1f}), and {many:.1f} with eight: each "
        "fragment wakes a free thread, if there is one. In IPP no thread is woken, however many there are."
    )


def per_datagram(found, threads, size):
    """Returns the switches of the server's threads per datagram."""
    key = ("regular", "-", threads, size)
    return found.of_end(key, "context_switches", "server") / sum(run["rounds"] for run in found.runs[key])


def switches(section, found):
    rows = [
        (str(threads), *(f"{per_datagram(found, threads, size):.2f}" for size in published.SIZES))
        for threads in published.THREADS
    ]
    rows += [
        (f"published, {threads}", *(f"{count / published.ROUNDS:.2f}" for count, _ in published.TABLE5[threads]))
        for threads in published.TABLE5
    ]
    section.table(
        "After table 5 of 1994: context switches of the server's threads per datagram",
        ("input threads", *(labs.bytes_of(size) for size in published.SIZES)), rows, checked="each cell, by the comparison above",
    )
    for size, fragments in zip(published.SIZES, (1, 1, 2, 3)):
        if fragments > 1:
            one, many = (per_datagram(found, threads, size) for threads in (1, 8))
            section.check(
                one < many <= fragments + 0.1,
                f"{labs.bytes_of(size)}, eight threads: {many:.2f} switches per datagram of {fragments} fragments.", bears=True,
            )
    for threads, was in published.TABLE5.items():
        for size, (count, _) in zip(published.SIZES, was):
            here, then = per_datagram(found, threads, size), count / published.ROUNDS
            section.compare(f"{labs.bytes_of(size)}, {threads} input thread{'s' * (threads > 1)}: context switches per datagram", f"{here:.2f}",
                            f"{then:.2f}", abs(here - then) < 0.15, bears=True, rule="within 0.15")


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
        checked=f"for each pair of thread counts, which takes less at each size (differences below {trips.TIE_US} us are ties: see Method); not the times themselves, which are another machine's",
    )
    trips.check_orders(section, found, {("regular", "-", threads): f"{threads} thread{'s' * (threads > 1)}" for threads in published.THREADS}, published.SIZES,
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
        checked=f"for each pair of rows, which is less at each size (differences below {trips.TIE_US} us are ties: see Method); not the times themselves, which are another machine's",
    )
    keys = {(mode, "-" if mode == "regular" else "none", threads): (f"{mode}, {threads}", us) for (mode, threads), us in published.TABLE7.items()}
    trips.check_orders(section, found, {key: name for key, (name, _) in keys.items()}, published.SIZES, {key: us for key, (_, us) in keys.items()})
    for size in published.SIZES:
        one, three = (found.median_us("ipp", "none", threads, size) for threads in (1, 3))
        section.check(
            one["low"] <= three["high"] and three["low"] <= one["high"],
            f"{labs.bytes_of(size)}: threads that IPP does not use do not slow it ({labs.spread(one)} us with one, "
            f"{labs.spread(three)} us with three).", rule="the ranges overlap",
        )
    most = max(found.of_end(("ipp", "none", threads, size), "context_switches", "server") / sum(run["rounds"] for run in found.runs["ipp", "none", threads, size])
               for threads in (1, 3) for size in published.SIZES)
    section.check(most < 0.05, f"In IPP no input thread is woken, with one or three, at any size: at most {most:.3f} switches of the server's threads per datagram.", bears=True)


def tables_of_1994(lab):
    program = os.path.join(labs.ROOT, "experiments", "ipp1994", "tables.py")
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        command = [sys.executable, program, "--build", lab.build, "--json", file.name] + (["--quick"] if lab.quick else [])
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode not in (0, 1) or not os.path.getsize(file.name):
            raise labs.Failed(f"tables.py: {done.stderr.strip()[-400:]}")
        return json.load(file)


def paced(lab, section):
    """Repeats the 1994 report's case on virtual time: processing a fragment takes longer than the next one takes to arrive."""
    section.data["paced"] = document = lab.once(["paced"], lambda: tables_of_1994(lab))
    section.text(
        "In 1994 fragments arrived one after the other over 10 Mb/s Ethernet. Processing one took longer than the next one "
        "took to arrive, but not twice as long, so a second thread was woken for each: one switch per fragment. "
        "The same host shows this on virtual time, with the report's costs and a link of that speed:"
    )
    cells = document["tables"]["5"]
    switches, was = next((c["switches"], c["published"]) for c in cells if (c["row"], c["size"]) == ("2", published.SIZES[-1]))
    section.why = ("Here all fragments of a datagram arrive at once. On virtual time, where each arrives while a thread processes the previous one, two threads are woken "
                   f"{switches} times for {published.ROUNDS} datagrams of {published.SIZES[-1]} bytes (published {was}).")
    section.table(
        "After table 5 of 1994 on virtual time: context switches for 10000 messages (published)",
        ("input threads", *(labs.bytes_of(size) for size in published.SIZES)),
        [(row, *(f"{c['switches']} ({c['published']})" for c in cells if c["row"] == row))
         for row in dict.fromkeys(c["row"] for c in cells)],
        checked="each cell, within 1 %, by a check below",
    )
    us = {(table, cell["row"], cell["size"]): (cell["rtt_ns"] / 1000, cell["published_us"]) for table in ("4", "6", "7") for cell in document["tables"][table]}
    for table in ("4", "6", "7"):
        section.table(
            f"After table {table} of 1994 on virtual time: round trips in microseconds (published)", ("input threads" if table == "6" else "", *map(labs.bytes_of, published.SIZES)),
            [(row, *("{:.0f} ({})".format(*us[table, row, size]) for size in published.SIZES)) for row in dict.fromkeys(row for of, row, _ in us if of == table)],
            checked="each time, and the differences between rows, by checks below; IPP without a handoff, with one thread, was fitted")
    check_paced(section, us)
    for found in document["checks"]:
        section.check(found["agrees"], "On virtual time: " + found["text"], bears="context switches" in found["text"])


DIFFERENCES = {  # (table, slower, faster): words
    ("4", "Regular", "IPP, no handoff"): "with one input thread, IPP without a handoff saves",
    ("7", "Regular, 3 threads", "IPP, 3 threads"): "with three input threads, IPP without a handoff saves",
    ("4", "IPP, client handoff", "IPP, no handoff"): "a handoff at the client costs",
    ("4", "IPP, server handoff", "IPP, no handoff"): "a handoff at the server costs",
    ("6", "2", "1"): "a second input thread costs",
    ("6", "8", "1"): "seven more input threads cost",
}


def check_paced(section, us):
    """Checks the simulated times and their differences. us: {(table, row, size): (simulated, published)}."""
    off = {key: here / was - 1 for key, (here, was) in us.items()}
    section.check(all(abs(part) <= near.NEAR for part in off.values()),
                  f"On virtual time: each time of tables 4, 6 and 7 is within {near.NEAR:.0%} of the published one: {min(off.values()):+.1%} to {max(off.values()):+.1%}. Most of each time "
                  "is the wire and fitted work, so the differences below say more.")
    for (table, slower, faster), words in DIFFERENCES.items():
        here, was = zip(*([a - b for a, b in zip(us[table, slower, size], us[table, faster, size])] for size in published.SIZES))
        section.check(all(abs(a - b) <= max(near.NEAR * abs(b), EQUAL_US) for a, b in zip(here, was)),
                      f"On virtual time: {words} {', '.join(f'{a:.0f}' for a in here)} us for {trips.bytes_list_of(published.SIZES)}; published {', '.join(map(str, was))}.",
                      rule=f"within {near.NEAR:.0%} or {EQUAL_US} us, at each size")
