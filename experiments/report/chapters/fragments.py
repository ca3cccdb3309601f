"""fragments.py - table 4: fragmented datagrams, and where they leave the driver."""
import lab as labs
import published
import trips
import waits

ROWS = {
    ("regular", "-"): "Regular",
    ("ipp", "client"): "IPP, client handoff",
    ("ipp", "server"): "IPP, server handoff",
    ("ipp", "none"): "IPP, no handoff",
}


def run(lab):
    section = labs.Section(
        "fragments", "Fragmentation",
        "Does interrupt protocol processing save more if a message arrives in several frames?",
    )
    found, together = trips.measure(
        lab,
        "udptest", "--size", trips.comma(published.SIZES), "--mode", "regular,ipp", "--handoff", "client,server,none",
        "--rounds", str(lab.rounds(4000, 200)), floor=True,
    )
    section.data = trips.both_data(found, together)
    section.trips = found, together  # for hero.py
    lab.handoff_adds_us = together.saved_us(*(("ipp", handoff, 1, published.SIZES[0]) for handoff in ("client", "none")))
    section.text(
        "A datagram and its echo, over UDP, IP and an Ethernet with an MTU of 1500 bytes: 2000 bytes are two fragments, 4000 "
        "three. Regular mode has one input thread. In IPP the driver reassembles fragments, and hands off (if anything) only "
        "whole datagrams."
    )
    trips.both_times(section, found, together, "table 4", ROWS, published.SIZES, published.TABLE4)
    whole = ("ipp", "server", 1, published.SIZES[-1])
    section.picture(
        f"Where messages of {labs.bytes_of(published.SIZES[-1])} leave the driver if the server hands them off: one handoff per datagram, "
        "however many fragments it has", "udptest.dot",
        {("udptest", "udp"): trips.handed(found, whole), ("eth", "port"): trips.frames(found, whole)},
    )
    trips.compare_saved(section, together, published.TABLE4, published.SIZES, ("regular", "-"), ("ipp", "none"),
                        "IPP without a handoff")
    trips.plot_saved(section, together, ROWS, published.SIZES)
    assess(section, found, together)
    if not lab.far:
        section.answer += " " + waits.report(lab, section, found)
    return section


def assess(section, apart, found):
    """Adds the answer and its checks. apart: the trips across cores or machines; found: those on one core."""
    first = published.SIZES[0]
    across = apart.saved_us(("regular", "-", 1, first), ("ipp", "none", 1, first))
    section.answer = (
        f"On one core, with one input thread, IPP saves {trips.answer_saved(found, published.TABLE4, published.SIZES, ('regular', '-'), ('ipp', 'none'))}. The paper calls the saving "
        f"rather independent of the size; here the largest is {trips.most_saved(found, published.SIZES, ('regular', '-'), ('ipp', 'none'))['median']:.1f} times the smallest. With {apart.where}, IPP without a handoff takes {labs.more_or_less(labs.negated(across))} than regular mode for {labs.bytes_of(first)}."
    )
    section.text("Three frames do not save three times as much as one: the thread that processes the first fragment takes the others without another switch. The next "
                 "experiment examines this.")
    for trip in (apart, found):
        if trip.floors:
            more = trip.above_floor_us(("ipp", "none", 1, first))
            section.check_saved(more, f"{trip.where[0].upper()}{trip.where[1:]}, {labs.bytes_of(first)}: without a handoff a round trip takes {labs.more_or_less(more)} than with DPDK "
                                "alone and sleeping ends, which was measured in turn in each repetition.", bears=False, across=trip.is_across)
