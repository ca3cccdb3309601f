"""acks.py - acknowledgements that the driver finishes, and Active Messages, whose handlers it runs."""
import os

import lab as labs
import trips

ACKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "acks.dot")
SIZE = 1
CONFIGURATIONS = {  # (whether ACKs are handed off, mode, handoff): words
    (False, "ipp", "none"): "IPP: the driver runs handlers and finishes acknowledgements",
    (False, "ipp", "both"): "IPP: a thread runs handlers, the driver finishes acknowledgements",
    (True, "ipp", "none"): "IPP: a thread does both",
    (False, "regular", "-"): "Regular",
}
IN_DRIVER, HANDLERS, BOTH, REGULAR = CONFIGURATIONS
GRAPHS = {False: ("am.dot", ("--mode", "regular,ipp", "--handoff", "none,both")), True: (ACKS, ("--mode", "ipp", "--handoff", "none"))}


def run(lab):
    section = labs.Section(
        "acks", "Acknowledgements and Active Messages",
        "What does it save that the driver finishes acknowledgements, and that it runs the handlers of Active Messages?")
    found = measure(lab)
    section.data = {"unmarked": trips.data(found[False]), "marked": trips.data(found[True])}
    section.text(
        "The report of 1994 names two more uses of interrupt protocol processing, and measures neither: an acknowledgement asks for little work, and for no "
        "user (2.2); and an Active Message's handler is short and never waits (2.1, and the last sentence of its conclusions: IPP generalizes Active "
        "Messages). Both are in a round trip over am: a message and its echo are requests, each of which runs a handler and is acknowledged, by a frame "
        f"of its own. {labs.bytes_of(SIZE)}, {found[False].where}; what leaves the driver is decided by the graph's marked edges: none, the one above am, "
        "which only handlers cross, or the one below it, which acknowledgements cross, too.")
    section.table("A message and its echo over Active Messages; counts are of all repetitions, for each of their round trips",
                  ("", "graph and options", "round trip, us", "handoffs", "switches of threads"),
                  [(words, " ".join((os.path.basename(GRAPHS[marked][0]), "--mode", mode, *(("--handoff", handoff) if mode == "ipp" else ()))),
                    labs.spread(rtt(found, way)), *(f"{each(found, way, count):.2f}" for count in ("handoffs", "context_switches")))
                   for way, words in CONFIGURATIONS.items() for marked, mode, handoff in [way]])
    assess(section, found)
    return section


def measure(lab):
    """{whether ACKs are handed off: Trips}; the graphs take turns."""
    core = lab.cores.split(",", maxsplit=1)[0]
    documents = {marked: [] for marked in GRAPHS}
    for turn in range(lab.repeats):
        lab.progress(turn / lab.repeats)
        for marked, (graph, options) in GRAPHS.items():
            documents[marked].append(lab.run("udptest", "--cores", f"{core},{core}", "--graph", lab.graph(graph), "--size", str(SIZE), "--rounds",
                                             str(lab.rounds(4000, 200)), *options))
    found = {marked: labs.Trips(runs, "both hosts on one core") for marked, runs in documents.items()}
    for one in found.values():
        lab.disturbed += one.losses()
    return found


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


def less(saved):
    """In words, for how much less time something takes."""
    if labs.is_saved(saved) is None:
        return f"from {saved['high']:.1f} us less to {0 - saved['low']:.1f} us more"
    return labs.more_or_less(labs.negated(saved))


def assess(section, found):
    handlers, acks = saved_us(found, HANDLERS, IN_DRIVER), saved_us(found, BOTH, HANDLERS)
    acks_regular, all_regular = saved_us(found, REGULAR, HANDLERS), saved_us(found, REGULAR, IN_DRIVER)
    section.answer = (
        f"A round trip with two Active Messages and two acknowledgements takes {rtt(found, REGULAR)['median']:.1f} us in regular mode. In IPP it takes {less(all_regular)} if "
        f"the driver does all, and {less(acks_regular)} if it finishes only the acknowledgements. A second baseline is IPP whose thread does both "
        f"({rtt(found, BOTH)['median']:.1f} us): with acknowledgements in the driver it takes {less(acks)}.")
    section.check_saved(all_regular, f"Against regular mode, handlers and acknowledgements in the driver: a round trip takes {less(all_regular)}.")
    section.check_saved(acks_regular, f"Against regular mode, two acknowledgements in the driver, and handlers on a thread: a round trip takes {less(acks_regular)}.")
    section.check_saved(acks, f"Against IPP with both on a thread, two acknowledgements in the driver: a round trip takes {less(acks)}.")
    section.check_saved(handlers, f"Against IPP with handlers on a thread, two handlers in the driver, too: a round trip takes {less(handlers)}.", bears=False)
    counted = [each(found, way, "handoffs") for way in (IN_DRIVER, HANDLERS, BOTH)]
    section.check(all(abs(count - wanted) < 0.05 for count, wanted in zip(counted, (0, 2, 4))),
                  "Handoffs a round trip: " + ", ".join(f"{count:.2f}" for count in counted) + "; wanted: none; one a handler; one a handler and one an acknowledgement.")
    section.text(
        f"Regular mode has {each(found, REGULAR, 'context_switches'):.2f} switches of threads a round trip, not one for each of the four frames, and IPP that hands off its "
        f"two handlers {each(found, HANDLERS, 'context_switches'):.2f}: acknowledgements that the driver finishes have few switches to save there.")
    switches = each(found, IN_DRIVER, "context_switches")
    section.compare("switches of threads for two Active Messages, where the driver runs the handlers", f"{switches:.2f}", "none (2.1)", switches < 0.05)
