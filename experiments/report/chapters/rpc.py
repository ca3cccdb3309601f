"""rpc.py - table 3: remote procedure calls, and the row that the report could not have."""
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
        "rpc", "Remote procedure calls", "What does a client save when its server answers in the driver, and what if it is "
        "woken by the driver, too?"
    )
    found, together = trips.measure(
        lab,
        "chantest", "--size", trips.comma(published.RPC_SIZES), "--mode", "regular,ipp", "--handoff", "client,none",
        "--rounds", str(lab.rounds(4000, 200)),
    )
    section.data = trips.both_data(found, together)
    section.text(
        "A client calls a server, over CHAN, BID, BLAST and the Ethernet, with messages of the same size in both directions. "
        "Two processes; drivers sleep until something arrives. Times are full round trips."
    )
    if not lab.far:
        section.text(
            "Between two cores nearly all of a round trip is to wake a processor that sleeps, which takes long, and longer at times, on "
            "a virtual machine above all (see the last section): what protocols and threads do hardly shows beside it. With both "
            "hosts on one core the processor does not sleep, and what is left is what the report asks for. So everything is made "
            "twice, here and in the experiments that follow."
        )
    trips.both_times(section, found, together, "table 3", ROWS, published.RPC_SIZES, published.TABLE3)
    section.text(
        "In 1994 a reply had to wake the client's thread, so that one handoff was left: the row without any is missing there. "
        "Here the blocked caller is a parked stack, which the driver itself goes on with."
    )
    counted = published.RPC_SIZES[0]
    for handoff, who in (("client", "the driver wakes a thread"), ("none", "the driver goes on with a parked stack")):
        section.picture(f"A reply of {labs.bytes_of(counted)}, and who called for it: {who}", "chantest.dot",
                        {("chantest", "chan"): switched(found, ("ipp", handoff, 1, counted))})
    trips.compare_saved(section, together, published.TABLE3, published.RPC_SIZES, ("regular", "-"), ("ipp", "client"),
                        "IPP with a handoff at the client")
    trips.plot_saved(section, together, ROWS, published.RPC_SIZES)
    assess(section, found, together)
    return section


def switched(found, key):
    """What the client's threads did in a run's calls: (words, whether that is one switch for each)."""
    switches, calls = found.of_end(key, "context_switches", "client"), sum(run["rounds"] for run in found.runs[key])
    return f"{switches} switches in {calls} calls", 2 * switches > calls


def assess(section, apart, found):
    """found: on one core."""
    sizes = published.RPC_SIZES
    for size in sizes:
        saved = found.saved_us(("ipp", "client", 1, size), ("ipp", "none", 1, size))
        section.check_saved(
            saved, f"{labs.bytes_of(size)}: that the driver resumes the caller saves another {labs.spread(saved)} us, {found.where}.", across=False
        )
    regular, client, none = (found.median_us(*key, 1, sizes[0])["median"] for key in ROWS)
    section.answer = (
        f"On one core a call of {labs.bytes_of(sizes[0])} takes {regular:.1f} us in regular mode, {client:.1f} if the server "
        "answers in the driver, "
        f"and {none:.1f} if the driver goes on with the caller, too: the figure that 1994 did not have. If the server answers in the driver, "
        f"{trips.answer_saved(found, published.TABLE3, sizes, ('regular', '-'), ('ipp', 'client'))}: the paper calls that independent of the size; "
        f"here it is up to {trips.most_saved(found, sizes, ('regular', '-'), ('ipp', 'client'))['median']:.1f} times as much at one size as at another."
    )
    saved = apart.saved_us(("regular", "-", 1, sizes[0]), ("ipp", "none", 1, sizes[0]))
    section.check_saved(saved, f"{labs.bytes_of(sizes[0])}, {apart.where}: without a handoff {labs.spread(saved)} us are saved.", bears=False, across=True)
    per_call = apart.per_message(("ipp", "none", 1, sizes[0]), "context_switches")
    section.check(
        per_call < 0.05,
        f"Without a handoff no protocol thread runs at either end: {per_call:.3f} context switches of threads for each message "
        "delivered, by the operating system's count.",
    )
