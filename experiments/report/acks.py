"""acks.py - acknowledgements that the driver finishes, and Active Messages, whose handlers it runs."""
import os

import lab as labs
import trips

ACKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "acks.dot")
SIZE = 1
WAYS = {  # (whether ACKs are handed off, mode, handoff): words
    (False, "ipp", "none"): "IPP: the driver runs handlers and finishes acknowledgements",
    (False, "ipp", "both"): "IPP: a thread runs handlers, the driver finishes acknowledgements",
    (True, "ipp", "none"): "IPP: a thread does both",
    (False, "regular", "-"): "Regular",
}
IN_DRIVER, HANDLERS, BOTH, _ = WAYS


def run(lab):
    section = labs.Section(
        "acks", "Acknowledgements and Active Messages",
        "What does it save that the driver finishes acknowledgements, and that it runs the handlers of Active Messages?")
    arguments = ("--size", str(SIZE), "--rounds", str(lab.rounds(4000, 200)))
    found = {False: lab.trips("udptest", "--graph", lab.graph("am.dot"), *arguments, "--mode", "regular,ipp", "--handoff", "none,both", together=True),
             True: lab.trips("udptest", "--graph", ACKS, *arguments, "--mode", "ipp", "--handoff", "none", together=True)}
    section.data = {"unmarked": trips.data(found[False]), "marked": trips.data(found[True])}
    section.text(
        "The report of 1994 names two more uses of interrupt protocol processing, and measures neither: an acknowledgement asks for little work, and for no "
        "user (2.2); and an Active Message's handler is short and never waits (2.1, and the last sentence of its conclusions: IPP generalizes Active "
        "Messages). Both are in a round trip over am: a message and its echo are requests, each of which runs a handler and is acknowledged, by a frame "
        f"of its own. {labs.bytes_of(SIZE)}, {found[False].where}; what leaves the driver is decided by the graph's marked edges: none, the one above am, "
        "which only handlers cross, or the one below it, which acknowledgements cross, too.")
    section.table("A message and its echo over Active Messages", ("", "round trip, us", "handoffs", "switches of threads"),
                  [(words, labs.spread(rtt(found, way)), *(f"{each(found, way, count):.2f}" for count in ("handoffs", "context_switches")))
                   for way, words in WAYS.items()])
    judge(section, found)
    return section


def key(way):
    return *way[1:], 1, SIZE


def rtt(found, way):
    return found[way[0]].median_us(*key(way))


def each(found, way, count):
    """A count of both ends, for each round trip."""
    runs = found[way[0]].runs[key(way)]
    return sum(sum(run[count].values()) for run in runs) / sum(run["rounds"] for run in runs)


def saved_us(found, slower, faster):
    """What one way takes more than another, within each repetition."""
    pairs = zip(*(found[way[0]].runs[key(way)] for way in (slower, faster)))
    return labs.interval([(a["rtt_ns"]["p50"] - b["rtt_ns"]["p50"]) / 1000 for a, b in pairs])


def judge(section, found):
    handlers, acks = saved_us(found, HANDLERS, IN_DRIVER), saved_us(found, BOTH, HANDLERS)
    section.answer = (
        f"Of a round trip with two Active Messages and two acknowledgements, {rtt(found, BOTH)['median']:.1f} us where threads do everything, the driver saves "
        f"{acks['median']:.1f} us by finishing the acknowledgements and {handlers['median']:.1f} by running the handlers, too.")
    section.check_saved(acks, f"Acknowledgements that the driver finishes, instead of a thread, save {labs.spread(acks)} us of a round trip with two of them.")
    section.check_saved(handlers, f"Handlers that the driver runs, instead of a thread, save {labs.spread(handlers)} us of a round trip with two of them.")
    counted = [each(found, way, "handoffs") for way in (IN_DRIVER, HANDLERS, BOTH)]
    section.check(all(abs(count - wanted) < 0.05 for count, wanted in zip(counted, (0, 2, 4))),
                  "Handoffs a round trip: " + ", ".join(f"{count:.2f}" for count in counted) + "; wanted: none; one a handler; one a handler and one an acknowledgement.")
    switches = each(found, IN_DRIVER, "context_switches")
    section.compare("switches of threads for two Active Messages, where the driver runs the handlers", f"{switches:.2f}", "none (2.1)", switches < 0.05)
