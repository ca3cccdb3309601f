"""blast.py - table 8: a ping-pong over BLAST."""
import os

import lab as labs
import published
import trips

ROWS = {("regular", "-"): "Regular", ("ipp", "none"): "IPP, no handoff"}


def run(lab):
    section = labs.Section("blast", "BLAST", "What is saved where a switch is dear, compared with the rest?")
    graph = os.path.join(os.path.dirname(os.path.abspath(__file__)), "blast.dot")
    apart, found = trips.measure(
        lab, "udptest", "--graph", graph, "--size", trips.comma(published.BLAST_SIZES), "--mode", "regular,ipp", "--handoff",
        "none", "--rounds", str(lab.rounds(5000, 200)),
    )
    section.data = trips.both_data(apart, found)
    section.text(
        "A message goes there and back over BID, BLAST and the Ethernet, without IP. The published figures are of an Intel Paragon, "
        "where a context switch took 2300 processor cycles and more: most of a round trip."
    )
    trips.both_times(section, apart, found, "table 8", ROWS, published.BLAST_SIZES, published.TABLE8)
    trips.compare_saved(section, found, published.TABLE8, published.BLAST_SIZES, ("regular", "-"), ("ipp", "none"))
    trips.plot_saved(section, found, ROWS, published.BLAST_SIZES)
    for place, size in enumerate(published.BLAST_SIZES):
        regular, none = ("regular", "-", 1, size), ("ipp", "none", 1, size)
        saved = found.saved_us(regular, none)
        part = saved["median"] / found.median_us(*regular)["median"]
        was = 1 - published.TABLE8["ipp", "none"][place] / published.TABLE8["regular", "-"][place]
        section.check_saved(
            saved,
            f"{labs.bytes_of(size)}: {labs.spread(saved)} us of a round trip are saved, {part:.0%} of it (published {was:.0%}).",
        )
    section.answer = "On one core: " + "; ".join(
        f"{labs.bytes_of(size)}: {found.median_us('regular', '-', 1, size)['median']:.1f} us in regular mode, "
        f"{found.median_us('ipp', 'none', 1, size)['median']:.1f} in the driver" for size in published.BLAST_SIZES) + "."
    return section
