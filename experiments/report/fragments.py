"""fragments.py - table 4: datagrams that are cut into fragments, and where they leave the driver."""
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
        "Does interrupt protocol processing gain more where a message arrives in several frames?",
    )
    found, together = trips.measure(
        lab,
        "udptest", "--size", trips.comma(published.SIZES), "--mode", "regular,ipp", "--handoff", "client,server,none",
        "--rounds", str(lab.rounds(4000, 200)), floor=True,
    )
    section.data = trips.both_data(found, together)
    section.trips = found, together  # for hero.py
    section.text(
        "A datagram and its echo, over UDP, IP and an Ethernet with an MTU of 1500 bytes: 2000 bytes are two fragments, 4000 "
        "three. One input thread in regular mode. In IPP the driver puts fragments together, and hands over (if at all) only "
        "what is whole."
    )
    trips.both_times(section, found, together, "table 4", ROWS, published.SIZES, published.TABLE4)
    whole = ("ipp", "server", 1, published.SIZES[-1])
    section.picture(
        f"Where messages of {labs.bytes_of(published.SIZES[-1])} leave the driver, handed off by the server: once a datagram, "
        "whatever its fragments", "udptest.dot",
        {("udptest", "udp"): trips.handed(found, whole), ("eth", "port"): trips.frames(found, whole)},
    )
    trips.compare_saved(section, together, published.TABLE4, published.SIZES, ("regular", "-"), ("ipp", "none"),
                        "IPP without a handoff")
    trips.plot_saved(section, together, ROWS, published.SIZES)
    judge(section, found, together)
    if not lab.far:
        section.answer += " " + waits.tell(lab, section, found)
    return section


def judge(section, apart, found):
    """found: on one core."""
    was_first = trips.was_saved(published.TABLE4, published.SIZES, published.SIZES[0], ("regular", "-"), ("ipp", "none"))
    was = trips.was_saved(published.TABLE4, published.SIZES, published.SIZES[-1], ("regular", "-"), ("ipp", "none"))
    first, last = (
        found.saved_us(("regular", "-", 1, size), ("ipp", "none", 1, size))["median"]
        for size in (published.SIZES[0], published.SIZES[-1])
    )
    across = apart.saved_us(("regular", "-", 1, published.SIZES[0]), ("ipp", "none", 1, published.SIZES[0]))
    section.answer = (
        f"On one core IPP saves {first:.1f} us of a round trip for 1 byte in one frame and, with one input thread, {last:.1f} us for 4000 "
        f"in three ({was_first} and {was} in 1994). With {apart.where} it saves {labs.spread(across)} us for 1 byte: there, most of a round trip is "
        "waking the other end."
    )
    for trip in (apart, found):
        if trip.floors:
            more = trip.above_floor_us(("ipp", "none", 1, published.SIZES[0]))
            section.check_saved(more, f"{trip.where[0].upper()}{trip.where[1:]}, 1 byte without a handoff takes {labs.spread(more)} us more than DPDK "
                                "alone with ends that sleep, which took its turn in each repetition.", bears=False)
    section.check(
        last < 2 * first,
        f"For three frames not three times as much is saved as for one, but {last / first:.1f} times ({was / was_first:.1f} in "
        "1994): the one thread that works on the first fragment takes the others without another switch. The next experiment "
        "looks at that.", bears=True,
    )
