"""acks.py - acknowledgements and handlers of Active Messages, in the driver or on threads."""
import os

import lab as labs
import trips

ACKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "acks.dot")
SIZE = 1
CONFIGURATIONS = {  # (whether ACKs are handed off, mode, handoff): words
    (False, "ipp", "none"): "IPP: the driver runs handlers and processes acknowledgements",
    (False, "ipp", "both"): "IPP: a thread runs handlers, the driver processes acknowledgements",
    (True, "ipp", "none"): "IPP: a thread does both",
    (False, "regular", "-"): "Regular",
}
IN_DRIVER, HANDLERS, BOTH, REGULAR = CONFIGURATIONS
GRAPHS = {False: ("am.dot", ("--mode", "regular,ipp", "--handoff", "none,both")), True: (ACKS, ("--mode", "ipp", "--handoff", "none"))}


def run(lab):
    section = labs.Section(
        "acks", "Acknowledgements and Active Messages",
        "What is saved if the driver processes acknowledgements, and if it runs the handlers of Active Messages?")
    found = measure(lab)
    section.data = {"unmarked": trips.data(found[False]), "marked": trips.data(found[True])}
    section.text(
        "The report of 1994 names two more uses of interrupt protocol processing, and measures neither: an acknowledgement needs little work and no user (2.2), and "
        "an Active Message's handler is short and never waits (2.1, and the last sentence of its conclusions: IPP generalizes Active Messages). A round trip over am "
        "has both: a message and its echo are requests, each of which runs a handler and is acknowledged by a frame of its own. "
        f"{labs.bytes_of(SIZE)}, {found[False].where}. The graph's marked edges decide what leaves the driver: none is marked, or the edge above am, "
        "which only handlers cross, or the edge below it, which acknowledgements also cross.")
    section.table("A message and its echo over Active Messages; counts are per round trip, over all repetitions",
                  ("", "graph and options", "round trip, us", "handoffs", "thread switches"),
                  [(text, " ".join((os.path.basename(GRAPHS[marked][0]), "--mode", mode, *(("--handoff", handoff) if mode == "ipp" else ()))),
                    labs.spread(rtt(found, variant)), *(f"{per_trip(found, variant, count):.2f}" for count in ("handoffs", "context_switches")))
                   for variant, text in CONFIGURATIONS.items() for marked, mode, handoff in [variant]])
    assess(section, found)
    return section


def measure(lab):
    """Measures both graphs in turn. Returns {whether ACKs are handed off: Trips}."""
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


def key(variant):
    return *variant[1:], 1, SIZE


def rtt(found, variant):
    return found[variant[0]].median_us(*key(variant))


def per_trip(found, variant, count):
    """Returns a count of both ends per round trip."""
    runs = found[variant[0]].runs[key(variant)]
    return sum(sum(run[count].values()) for run in runs) / sum(run["rounds"] for run in runs)


def saved_us(found, slower, faster):
    """Returns how much longer one variant takes than another, from differences within each repetition."""
    pairs = zip(*(found[variant[0]].runs[key(variant)] for variant in (slower, faster)))
    return labs.interval([(a["rtt_ns"]["p50"] - b["rtt_ns"]["p50"]) / 1000 for a, b in pairs])


def less(saved):
    """Returns a text on how much less time something takes."""
    if labs.is_saved(saved) is None:
        return f"from {saved['high']:.1f} us less to {0 - saved['low']:.1f} us more"
    return labs.more_or_less(labs.negated(saved))


def assess(section, found):
    handlers, acks = saved_us(found, HANDLERS, IN_DRIVER), saved_us(found, BOTH, HANDLERS)
    acks_regular, all_regular = saved_us(found, REGULAR, HANDLERS), saved_us(found, REGULAR, IN_DRIVER)
    section.answer = (
        f"A round trip with two Active Messages and two acknowledgements takes {rtt(found, REGULAR)['median']:.1f} us in regular mode. In IPP it takes {less(all_regular)} if "
        f"the driver does everything, and {less(acks_regular)} if it processes only the acknowledgements. The second baseline is IPP with both on a thread "
        f"({rtt(found, BOTH)['median']:.1f} us): with acknowledgements in the driver it takes {less(acks)}.")
    section.check_saved(all_regular, f"Handlers and acknowledgements in the driver, compared with regular mode: a round trip takes {less(all_regular)}.")
    section.check_saved(acks_regular, f"Two acknowledgements in the driver and handlers on a thread, compared with regular mode: a round trip takes {less(acks_regular)}.")
    section.check_saved(acks, f"Two acknowledgements in the driver, compared with IPP with both on a thread: a round trip takes {less(acks)}.")
    section.check_saved(handlers, f"Two handlers in the driver, too, compared with IPP with handlers on a thread: a round trip takes {less(handlers)}.", bears=False)
    counted = [per_trip(found, variant, "handoffs") for variant in (IN_DRIVER, HANDLERS, BOTH)]
    section.check(all(abs(count - expected) < 0.05 for count, expected in zip(counted, (0, 2, 4))),
                  "Handoffs per round trip: " + ", ".join(f"{count:.2f}" for count in counted) + "; expected: none; one per handler; one per handler and one per acknowledgement.")
    section.text(
        f"Regular mode has {per_trip(found, REGULAR, 'context_switches'):.2f} thread switches per round trip, not one for each of the four frames, and IPP with both handlers "
        f"handed off has {per_trip(found, HANDLERS, 'context_switches'):.2f}: processing acknowledgements in the driver can save few switches there.")
    switches = per_trip(found, IN_DRIVER, "context_switches")
    section.compare("thread switches for two Active Messages if the driver runs the handlers", f"{switches:.2f}", "none (2.1)", switches < 0.05)
