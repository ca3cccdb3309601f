"""anatomy.py - where the time of one round trip goes: all its parts, from the doorbell to the application and back."""
import os

import lab as labs
import near
import stamps

WAKING = os.path.join("experiments", "components", "parts")  # two threads that wake each other
PROGRAMS = ("udptest", "chantest")
TWINS = ("s_twice", "s_calls")  # each has another vstamp directly below: the time between the two is the cost of a vstamp
GROUPS = ("Wake-up", "Doorbell", "Dispatch", "Receive", "Protocols, up", "Application", "Protocols, down", "Transmit")
WAKING_GROUPS = ("Wake-up", "Doorbell")
SMALL = 0.05  # of a round trip between sleeping drivers: a smaller share is negligible beside waking
LEFT = 0.10  # of a round trip between polling drivers: the most that stamps may leave uncovered, or cover twice
COLORS = ("#777777", "#bbbbbb", "#c7803a", "#e0b070", "#4878a8", "#a83232", "#88aed0", "#6a9a58")


class Part:
    """A part of a round trip: its nanoseconds at each end, less the cost of stamps."""

    def __init__(self, group, text, client, server):
        self.group, self.text, self.client, self.server = group, text, client, server

    def both(self):
        return self.client + self.server

    def less(self, other):
        return Part(self.group, self.text, self.client - other.client, self.server - other.server)


class Anatomy:
    """The parts of a typical round trip of one pool, in the order in which a message passes them."""

    def __init__(self, pool):
        self.pool = pool
        self.total, self.outside, client, server = pool.typical()
        marks = pool.marks[:pool.last + 1]
        self.steps = {pair: ends for pair, ends in zip(zip(marks, marks[1:]), zip(client, server))}
        self.stamp = labs.median(pool.costs)
        self.parts = [part for pair in self.steps if (part := self.part(*pair)) is not None]

    def twin(self, direction, node):
        """Returns a vstamp's cost, as (client, server), to a message that crosses it in this direction: at this node if it has a twin, else at the first that has."""
        pairs = [pair for pair in self.steps if self.is_twin(*pair) and pair[0][1] == direction]
        return self.steps[next((pair for pair in pairs if node in (pair[0][0], pair[1][0])), pairs[0])]

    @staticmethod
    def is_twin(before, after):
        return before[1] == after[1] and (after if after[1] == "up" else before)[0] in TWINS

    def overhead(self, before, after):
        """Returns the cost of stamps in a step, as (client, server)."""
        if after[1] == "up":
            return self.twin("up", "s_twice")
        if before[1] == after[1] == "down":
            return self.twin("down", "s_twice")
        if before[1] == "up":
            up, down = self.twin("up", before[0]), self.twin("down", before[0])
            return [(a + b) / 2 for a, b in zip(up, down)]
        return [self.stamp, self.stamp]

    def part(self, before, after):
        """Returns a step's part, or None if the step is only the cost of a vstamp."""
        if self.is_twin(before, after):
            return None
        took = [ns - cost for ns, cost in zip(self.steps[before, after], self.overhead(before, after))]
        return Part(*self.named(before, after), *took)

    @staticmethod
    def named(before, after):
        whats = (before[1], after[1])
        if whats == ("wake", "receive"):
            return "Dispatch", "dispatch: from the end of the sleep to the device"
        if whats == ("receive", "received"):
            return "Receive", "receive: the frame is taken from the device"
        if whats == ("received", "up"):
            return "Protocols, up", "port, up"
        if whats == ("up", "up"):
            return "Protocols, up", f"{after[0][2:]}, up"
        if whats == ("up", "down"):
            return "Application", "application"
        if whats == ("down", "down"):
            return "Protocols, down", f"{before[0][2:]}, down"
        if whats == ("down", "transmit"):
            return "Protocols, down", "port, down, and the end of the driver's turn"
        return "Transmit", "transmit: the frame is given to the device"

    def stamps(self):
        """Returns the cost of all stamps of a round trip."""
        return self.total - self.outside - sum(part.both() for part in self.parts)


def run(lab):
    section = labs.Section(
        "anatomy", "Wake-up anatomy", "Where does the time of one round trip go if a driver that sleeps carries every message?", across=True
    )
    section.text(
        f"udptest and chantest send one byte between two processes, {lab.apart()}{'' if lab.far else ', over virtio'}, in IPP without a handoff; drivers sleep. A "
        "virtual protocol (vstamp) on each edge of both graphs records the time when a message crosses, and around the driver's "
        "sleep, receive and transmit. A row is the mean of the middle fifth of each repetition's round trips, by duration, and then the mean of the repetitions: "
        "means add up, medians would not. The round trips below the parts are means of the repetitions' medians, each close to the mean of its middle fifth, "
        "with their range in brackets. The answer and the checks use the median of the repetitions."
    )
    alone = []  # isolated wake-ups, in turn with the others
    found = {program: measure(lab, program, number, alone) for number, program in enumerate(PROGRAMS)}
    turns = len(alone) // len(PROGRAMS)
    woken = {program: alone[number * turns:(number + 1) * turns] for number, program in enumerate(PROGRAMS)}
    for program, (sleeping, polling, document) in found.items():
        table(section, program, sleeping, polling, document, woken[program])
    section.plot("The parts of a round trip, both ends together.", lambda axes: bars(axes, found),
                 "" if lab.far else "Most of it is ringing and waking.")
    section.text(
        "The doorbell is the system call that writes to the other side's event descriptor. Its time is how much longer transmit takes than in the same "
        "program polling, which rings none. The wake-up is the remainder: the client's pause, from the doorbell's return to the end of "
        "its sleep, minus the server's visit, so that the two clocks are not compared. It is not measured directly, and the parts add up by construction. "
        "The driver's work between ringing and its next sleep does not delay the message, and is not in the table."
    )
    section.text(
        "All other parts are measured at one end each, and do not depend on the wake-up. "
        + ("" if lab.far else "Two figures test them. If drivers poll, and never sleep, the same remainder is what no stamp covers. And two isolated wake-ups (of two threads "
           "that do nothing else, measured in turn) and all other parts are compared with the round trip of the same graph without stamps, in each repetition: the "
           "difference is the uncertainty of the wake-up's row.")
    )
    section.text(
        "The cost of stamps is subtracted from the parts: between two vstamps, the time between two adjacent ones; elsewhere, "
        "one reading of the clock. The clock advances in steps of some nanoseconds, so figures below ten mean little, and some are "
        "negative; they are shown so that rows and columns add up."
    )
    for program, (sleeping, _, _) in found.items():
        pool = sleeping.pool
        section.text(
            f"{program}: of {pool.begun} visits at the client, {pool.trips} are of the usual kind and are counted here: one "
            "message wakes each driver, which sleeps again after it. " + left_of(pool, section.data[program])
        )
    if alone:
        lab.wakes[section.name] = section.data["wake_alone_ns"] = labs.interval(alone)
        wakes(section, found, alone)
    section.picture("Stamps on the edges of udptest", path_of("udptest"), {})
    if lab.far:
        section.text(f"Between {lab.far.ends} the transfer of frames cannot be separated from the wake-up: both are in its row.")
    section.answer = " ".join(assess(section, program, *each, woken[program]) for program, each in found.items())
    return section


def wakes(section, found, alone):
    """Compares one wake-up of two threads that do nothing else with one of the drivers. alone: isolated wake-ups by repetition, in nanoseconds."""
    rows = [("two threads that do nothing else", "", "", of_means([ns / 1000 for ns in alone], 1))]
    for program, (sleeping, polling, _) in found.items():
        sums = groups_of(sleeping, polling)
        bell, rest = sums["Doorbell"] / 2, sums["Wake-up"] / 2
        rows.append((f"{program}'s drivers", f"{bell / 1000:.1f}", f"{rest / 1000:.1f}", f"{(bell + rest) / 1000:.1f}"))
    section.table("One wake-up of a thread on another core, in microseconds: from ringing until it runs; means of the repetitions", ("", "doorbell", "wake-up", "both"), rows)
    section.text(
        "When the doorbell returns, the other core has been notified and has begun to wake: only both together are a wake-up. Between two threads that "
        "wake each other with the same system calls, the two cannot be separated.")


def left_of(pool, data):
    """Returns a text on the difference between the parts and stamps and the round trip with stamps."""
    whole = mean(trips_ns(pool.documents))
    left = whole - data["sum_ns"] - data["stamps_ns"]
    return (f"All parts and the stamps are {abs(left):.0f} ns ({abs(left) / whole:.1%}) {'less' if left > 0 else 'more'} than the round trip with stamps: "
            "they are means of the middle fifth, it is the median of all.")


def path_of(program):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), f"anatomy-{program}.dot")


def measure(lab, program, number, alone):
    """Measures in turn. Returns (sleeping, polling, documents without stamps), and appends isolated wake-ups to alone."""
    sleeping, polling = stamps.Pool(path_of(program), "interrupt"), stamps.Pool(path_of(program), "poll")
    rounds = lab.rounds(3000, 300)
    documents = []
    for turn in range(1 if lab.brief else lab.repeats):
        lab.progress((number + turn / lab.repeats) / len(PROGRAMS))
        documents.append(lab.run(program, *stamps.plain(lab, "interrupt", rounds)))
        sleeping.run(lab, program, rounds)
        polling.run(lab, program, rounds // 3)
        if not lab.far:
            alone.append(labs.median(lab.run_for_stdout(WAKING, "--kind", "wake", "--cores", lab.cores, "--rounds", str(rounds // 10))["ns"]))
    return Anatomy(sleeping), Anatomy(polling), documents


def trips_ns(documents):
    return [document["runs"][0]["rtt_ns"]["p50"] for document in documents]


def mean(values):
    return sum(values) / len(values)


def of_means(values, digits=0):
    """Returns the mean of the repetitions, and their range."""
    return labs.spread({"low": min(values), "median": mean(values), "high": max(values)}, digits)


def measured(documents):
    return labs.interval(trips_ns(documents))


def own_ns(sleeping, polling):
    """Returns the sum of all parts except ringing and waking, at both ends."""
    return sum(ns for group, ns in groups_of(sleeping, polling).items() if group not in WAKING_GROUPS)


def summed(own, alone):
    """Adds two isolated wake-ups of each repetition."""
    return [own + 2 * ns for ns in alone]


def parts_of(sleeping, polling):
    """Returns the rows (part, the same part polling or None), with transmit split into transmit and doorbell."""
    beside = {part.text: part for part in polling.parts}
    rows = []
    for part in sleeping.parts:
        other = beside.get(part.text)
        if part.group == "Transmit":
            bell = part.less(other)
            rows += [(other, other), (Part("Doorbell", "doorbell: the other side is rung", bell.client, bell.server), None)]
        else:
            rows.append((part, other))
    return rows


def shown(ns):
    """Returns nanoseconds as text, including values below the clock's steps, so that rows and columns add up."""
    return str(round(ns))


def share(ns, total):
    return f"{max(ns, 0) / total:.1%}"


def table(section, program, sleeping, polling, documents, alone):
    rows = parts_of(sleeping, polling)
    total = sleeping.outside + sum(part.both() for part, _ in rows)
    lines = [("wake-up: the remainder, from the doorbell to the end of the sleep", "", "", shown(sleeping.outside),
              share(sleeping.outside, total), shown(polling.outside))]
    for part, other in rows:
        lines.append((part.text, shown(part.client), shown(part.server), shown(part.both()), share(part.both(), total),
                      "" if other is None else shown(other.both())))
    with_stamps = trips_ns(sleeping.pool.documents)
    lines += [
        ("all parts", "", "", shown(total), share(total, total), ""),
        ("and the stamps", "", "", shown(sleeping.stamps()), "", shown(polling.stamps())),
        ("measured by the program, with stamps", "", "", of_means(with_stamps), "", ""),
        ("measured by the program, without stamps", "", "", of_means(trips_ns(documents)), "", ""),
    ]
    if alone:
        lines.append(("two isolated wake-ups, and all parts except ringing and waking", "", "", of_means(summed(own_ns(sleeping, polling), alone)), "", ""))
    section.table(
        f"{program}: a round trip's parts, in nanoseconds, means of the repetitions",
        ("", "client", "server", "both", "share", "both, polling"), lines,
    )
    section.data["machine"] = documents[0]["machine"]
    section.data[program] = {
        "parts": [
            {"group": part.group, "part": part.text, "client_ns": part.client, "server_ns": part.server} for part, _ in rows
        ],
        "wake_up_ns": sleeping.outside, "polling_remainder_ns": polling.outside, "polling_ns": polling.total, "wakes_alone_ns": alone,
        "sum_ns": total, "stamps_ns": sleeping.stamps(), "stamp_ns": sleeping.stamp,
        "measured_ns": measured(documents), "measured_with_stamps_ns": with_stamps, "each_measured_ns": trips_ns(documents),
        "round_trips": sleeping.pool.begun, "whole_round_trips": sleeping.pool.trips,
    }


def groups_of(sleeping, polling):
    sums = dict.fromkeys(GROUPS, 0.0)
    sums["Wake-up"] = sleeping.outside
    for part, _ in parts_of(sleeping, polling):
        sums[part.group] += part.both()
    return sums


def bars(axes, found):
    for place, (sleeping, polling, _) in enumerate(found.values()):
        left, sums = 0.0, groups_of(sleeping, polling)
        for (group, ns), color in zip(sums.items(), COLORS):
            axes.barh(place, max(ns, 0) / 1000, left=left, color=color, edgecolor="white", linewidth=0.5, label=group if place == 0 else None)
            if ns > 0.08 * sum(sums.values()):
                axes.text(left + ns / 2000, place, f"{ns / 1000:.1f} µs", ha="center", va="center", color="white", fontsize="small")
            left += max(ns, 0) / 1000
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xlabel("µs of a round trip")
    axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.25))


def assess(section, program, sleeping, polling, documents, alone):
    """Adds the checks, and returns the program's part of the answer. alone: isolated wake-ups by repetition, in nanoseconds; empty between two systems."""
    sums = groups_of(sleeping, polling)
    own, whole, trips = own_ns(sleeping, polling), measured(documents), trips_ns(documents)
    protocols = sums["Protocols, up"] + sums["Protocols, down"] + sums["Application"]
    stampless = labs.interval([(typical[0] - sleeping.stamps()) / ns for typical, ns in zip(sleeping.pool.typicals, trips)])
    section.check(
        near.near(stampless, 1),
        f"{program}: minus the stamps ({sleeping.stamps():.0f} ns; reading and recording the clock takes {sleeping.stamp:.1f} ns each, crossing one more protocol the rest), a round "
        f"trip with stamps takes {labs.spread(stampless, 2)} times as long as one of the same graph without stamps, in each repetition (within {near.NEAR:.0%}).")
    section.check(
        near.within(labs.interval([protocols / ns for ns in trips]), 0, SMALL),
        f"{program}: all protocols and the application, at both ends and in both directions, take {protocols:.0f} ns, {protocols / whole['median']:.1%} of the round trip without stamps "
        f"(at most {SMALL:.0%}).", bears=True)
    text = f"Of {program}'s {whole['median'] / 1000:.1f} us without stamps, all protocols and the application take {protocols / 1000:.1f} at both ends together"
    if not alone:
        rest = labs.interval([1 - own / ns for ns in trips])
        section.check(near.within(rest, 0.5, 1), f"{program}: ringing, waking and the transfer between the hosts, which the stamps do not cover, take "
                      f"{near.percent(rest)} of a round trip without stamps (expected: more than half).", bears=True)
        return f"{text}; the remaining {near.percent(rest)} are ringing, waking and the transfer between the hosts."
    section.check(
        abs(polling.outside) <= LEFT * polling.total,
        f"{program}, polling: of {polling.total:.0f} ns, {polling.outside:.0f} remain outside the stamps of both ends (at most {LEFT:.0%}): the stamps cover everything except waking.")
    waking = labs.interval([2 * wake / ns for wake, ns in zip(alone, trips)])
    covered = labs.interval([(own + 2 * wake) / ns for wake, ns in zip(alone, trips)])
    section.check(
        True if waking["low"] > 0.5 else False if waking["high"] < 0.5 else None,
        f"{program}: two isolated wake-ups take {near.percent(waking)} of its round trip without stamps in each repetition (expected: more than half).",
        bears=True)
    section.check(
        near.near(covered, 1),
        f"{program}: two isolated wake-ups and all other parts add up to {near.percent(covered)} of the round trip without stamps in each repetition (expected: all of it, within "
        f"{near.NEAR:.0%}).")
    return f"{text}, and two isolated wake-ups take {2 * labs.median(alone) / 1000:.1f}: with all other parts, {near.percent(covered)} of the round trip."
