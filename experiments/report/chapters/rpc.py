"""rpc.py - table 3: remote procedure calls, with a row that the 1994 report could not have."""
import lab as labs
import published
import trips

ROWS = {
    ("regular", "-"): "Regular",
    ("ipp", "client"): "IPP, client handoff",
    ("ipp", "none"): "IPP, no handoff",
}


def run(lab):
    section = labs.Section(
        "rpc", "Remote procedure calls", "What does a client save if its server answers in the driver, and what if the "
        "driver also resumes the client?"
    )
    found, together = trips.measure(
        lab,
        "chantest", "--size", trips.comma(published.RPC_SIZES), "--mode", "regular,ipp", "--handoff", "client,none",
        "--rounds", str(lab.rounds(4000, 200)),
    )
    section.data = trips.both_data(found, together)
    section.text(
        "A client calls a server over CHAN, BID, BLAST and the Ethernet, with messages of the same size in both directions. "
        "Both are processes whose drivers sleep until a frame arrives. Times are full round trips."
    )
    if not lab.far:
        section.text(
            "Between two cores nearly all of a round trip is waking a sleeping processor. That takes long and varies, above all on "
            "a virtual machine (see the chapter \"Wake-up anatomy\"): the work of protocols and threads hardly shows beside it. With both "
            "hosts on one core the processor does not sleep, and what is left is the report's subject. Everything is therefore measured "
            "twice, here and in the experiments that follow."
        )
    trips.both_times(section, found, together, "table 3", ROWS, published.RPC_SIZES, published.TABLE3)
    section.text(
        "In 1994 a reply had to wake the client's thread, so one handoff always remained, and the table has no row without one. "
        "Here the blocked caller is a parked stack, which the driver itself resumes."
    )
    counted = published.RPC_SIZES[0]
    for handoff, action in (("client", "the driver wakes the caller's thread"), ("none", "the driver resumes the caller's parked stack")):
        section.picture(f"A reply of {labs.bytes_of(counted)}: {action}", "chantest.dot",
                        {("chantest", "chan"): switched(found, ("ipp", handoff, 1, counted))})
    trips.compare_saved(section, together, published.TABLE3, published.RPC_SIZES, ("regular", "-"), ("ipp", "client"),
                        "IPP with a handoff at the client")
    trips.plot_saved(section, together, ROWS, published.RPC_SIZES)
    assess(section, found, together)
    return section


def switched(found, key):
    """Returns the switches of the client's threads as a label for an edge: (text, whether there is about one per call)."""
    switches, calls = found.of_end(key, "context_switches", "client"), sum(run["rounds"] for run in found.runs[key])
    return f"{switches} switches in {calls} calls", 2 * switches > calls


def assess(section, apart, found):
    """Adds the answer and its checks. apart: the trips across cores or machines; found: those on one core."""
    sizes = published.RPC_SIZES
    for size in sizes:
        saved = found.saved_us(("ipp", "client", 1, size), ("ipp", "none", 1, size))
        section.check_saved(
            saved, f"{labs.bytes_of(size)}: resuming the caller in the driver saves another {labs.spread(saved)} us, {found.where}.", across=False
        )
    regular, client, none = (found.median_us(*key, 1, sizes[0])["median"] for key in ROWS)
    section.answer = (
        f"On one core a call of {labs.bytes_of(sizes[0])} takes {regular:.1f} us in regular mode, {client:.1f} if the server "
        "answers in the driver, "
        f"and {none:.1f} if the driver also resumes the caller, which was not possible in 1994. Answering in the driver saves "
        f"{trips.answer_saved(found, published.TABLE3, sizes, ('regular', '-'), ('ipp', 'client'))}. The paper calls that independent of the size; "
        f"here the largest saving is {trips.most_saved(found, sizes, ('regular', '-'), ('ipp', 'client'))['median']:.1f} times the smallest."
    )
    saved = apart.saved_us(("regular", "-", 1, sizes[0]), ("ipp", "none", 1, sizes[0]))
    section.check_saved(saved, f"{labs.bytes_of(sizes[0])}, {apart.where}: IPP without a handoff saves {labs.spread(saved)} us.", bears=False, across=True)
    per_call = apart.per_message(("ipp", "none", 1, sizes[0]), "context_switches")
    section.check(
        per_call < 0.05,
        f"Without a handoff no protocol thread runs at either end: {per_call:.3f} thread switches per message "
        "delivered, as counted by the operating system.",
    )
