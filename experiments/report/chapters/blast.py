"""blast.py - table 8: a ping-pong over BLAST; and on virtual time, how its saving depends on the cost of a switch."""
import os

import lab as labs
import looks
import published
import trips

ROWS = {("regular", "-"): "Regular", ("ipp", "none"): "IPP, no handoff"}
GRAPH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "blast.dot")
# A link over which IPP's round trips take as long as on the Paragon: its latency and rate include everything except switches.
PARAGON = "myrinet,rate=140Mb/s,latency=57us"
PARAGON_CYCLES = 2300  # of a switch, table 1: "2300 - ??"
PARAGON_MHZ = 50  # of the i860 XP; not in the paper
PARAGON_SWITCH_US = PARAGON_CYCLES // PARAGON_MHZ
SWITCHES_US = (1, 2, 5, 10, 20, PARAGON_SWITCH_US, 100, 200)


def run(lab):
    section = labs.Section("blast", "BLAST", "What is saved where a switch is expensive compared with everything else?")
    apart, found = trips.measure(
        lab, "udptest", "--graph", GRAPH, "--size", trips.comma(published.BLAST_SIZES), "--mode", "regular,ipp", "--handoff",
        "none", "--rounds", str(lab.rounds(5000, 200)),
    )
    section.data = trips.both_data(apart, found)
    section.text(
        "A message makes a round trip over BID, BLAST and the Ethernet, without IP. The published figures are from an Intel Paragon, "
        "where a context switch took at least 2300 processor cycles, and IPP saved more than half of the shortest round trip."
    )
    trips.both_times(section, apart, found, "table 8", ROWS, published.BLAST_SIZES, published.TABLE8)
    trips.compare_saved(section, found, published.TABLE8, published.BLAST_SIZES, ("regular", "-"), ("ipp", "none"),
                        "IPP")
    trips.plot_saved(section, found, ROWS, published.BLAST_SIZES)
    by_switch_cost = vary_switch_cost(lab, section)
    section.answer = "On one core: " + "; ".join(
        f"{labs.bytes_of(size)}: {found.median_us('regular', '-', 1, size)['median']:.1f} us in regular mode, "
        f"{found.median_us('ipp', 'none', 1, size)['median']:.1f} in the driver" for size in published.BLAST_SIZES) + f". {by_switch_cost}"
    return section


def simulated(lab, switch_us):
    """Returns {(mode, size): round trip in microseconds} if a switch takes this long and nothing else in a host takes time."""
    document = lab.run("udptest", "--graph", GRAPH, "--link", "sim", "--preset", PARAGON, "--costs", f"none,thread_switch={round(switch_us * 1000)}ns", "--size",
                       trips.comma(published.BLAST_SIZES), "--mode", "regular,ipp", "--handoff", "none", "--rounds", "20")
    return {(run["mode"], run["size"]): run["rtt_ns"]["p50"] / 1000 for run in document["runs"]}


def shares(found):
    """Returns the share of a regular round trip that IPP saves, by size."""
    return {size: 1 - found["ipp", size] / found["regular", size] for size in published.BLAST_SIZES}


def vary_switch_cost(lab, section):
    """Measures on virtual time the share of a round trip that IPP saves, by the cost of a switch. Returns a text for the answer."""
    then = shares({(mode, size): us for (mode, _), row in published.TABLE8.items() for size, us in zip(published.BLAST_SIZES, row)})
    first, *others = published.BLAST_SIZES
    # a round trip has two switches, so one took half of what the shortest saved
    fitted_us = (published.TABLE8["regular", "-"][0] - published.TABLE8["ipp", "none"][0]) / 2
    sweep = {switch_us: simulated(lab, switch_us) for switch_us in (*SWITCHES_US, fitted_us)}
    fitted, least = sweep[fitted_us], sweep[PARAGON_SWITCH_US]
    section.data["switches"] = [{"switch_us": us, "round_trips_us": {f"{mode}, {size}": rtt for (mode, size), rtt in found.items()},
                                 "saved": {str(size): share for size, share in shares(found).items()}} for us, found in sweep.items()]
    section.text(
        "Here a switch is cheap. What if it is expensive? The same two hosts run on virtual time: the link's latency and rate are chosen so that IPP's round trips "
        "take as long as on the Paragon, and a host's only cost is a switch between threads, which is varied.")
    section.table(
        "On virtual time: the share of a round trip that IPP saves, by the cost of a switch",
        ("a switch takes", *(labs.bytes_of(size) for size in published.BLAST_SIZES)),
        [(f"{us:g} us", *(f"{shares(found)[size]:.0%}" for size in published.BLAST_SIZES)) for us, found in sorted(sweep.items())]
        + [("published", *(f"{then[size]:.0%}" for size in published.BLAST_SIZES))],
        checked="the two longer messages, with the switch cost that the shortest implies")
    section.plot("The share of a round trip that IPP saves, by the cost of a switch, on virtual time; crosses are published shares, at the switch cost that the shortest message implies.",
                 lambda axes: plot_shares(axes, sweep, then, fitted_us))
    longest, was = others[-1], published.TABLE8["ipp", "none"][-1]
    section.check(abs(fitted["ipp", longest] - was) < 0.05 * was,
                  f"On virtual time: {labs.bytes_of(longest)} in IPP take {fitted['ipp', longest]:.0f} us (published {was}; the shorter two are fitted).", rule="within 5 %")
    for size in others:
        share = shares(fitted)[size]
        section.check(abs(share - then[size]) < 0.03,
                      f"On virtual time: with the switch cost that {first} bytes imply, {fitted_us:.1f} us, IPP saves {share:.0%} of the round trip of {labs.bytes_of(size)} "
                      f"(published {then[size]:.0%}).", bears=True, rule="within 3 points")
    shown = [[shares(found)[size] for _, found in sorted(sweep.items())] for size in published.BLAST_SIZES]
    section.check(all(row == sorted(set(row)) for row in shown),
                  f"On virtual time: at each length, IPP saves a larger share of a round trip if a switch is more expensive: {shares(sweep[1])[first]:.1%} of the shortest if a switch takes 1 us, "
                  f"{shares(fitted)[first]:.0%} with the cost that the published savings imply.")
    cycles = fitted_us * PARAGON_MHZ
    section.compare("cycles of a switch on the Paragon: implied by its savings, and in table 1",
                    f"{cycles:.0f}, assuming a processor of {PARAGON_MHZ} MHz and two switches per round trip", f"{PARAGON_CYCLES} \"- ??\"",
                    f"the published figure is a lower bound, so any higher one would agree; the implied one is {cycles / PARAGON_CYCLES:.1f} times as high. The clock rate is not in the paper: "
                    f"it is the i860 XP's. With {PARAGON_CYCLES} cycles, {PARAGON_SWITCH_US} us, IPP would save {shares(least)[first]:.0%} of the shortest round trip on virtual time, published {then[first]:.0%}. "
                    "Either a switch took much longer than the bound, or IPP saved more than two switches")
    return (f"On virtual time IPP saves {shares(sweep[1])[first]:.1%} of the shortest round trip if a switch takes 1 us, and {shares(fitted)[first]:.0%} if it "
            f"takes {fitted_us:.1f} us, as the Paragon's savings imply.")


def plot_shares(axes, sweep, then, fitted_us):
    for number, size in enumerate(published.BLAST_SIZES):
        points = sorted((us, 100 * shares(found)[size]) for us, found in sweep.items())
        color = (looks.IPP, looks.HANDOFF, looks.OTHER)[number]
        axes.plot(*zip(*points), color=color, label=labs.bytes_of(size))
        axes.plot([fitted_us], [100 * then[size]], "x", color=color)
    axes.set_xscale("log")
    axes.set_xlabel("µs per switch")
    axes.set_ylabel("% saved")
    axes.legend()
