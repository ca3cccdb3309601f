"""repeated.py - compares quantities that several chapters measure: how reproducible times are."""
import lab as labs
import published
import waits

SIZES = (published.SIZES[0], published.SIZES[-1])


def median_us(repetitions, *key):
    """Returns the interval of this key's runs over a chapter's repetitions, in microseconds."""
    return labs.interval([run["rtt_ns"]["p50"] / 1000 for runs in repetitions for run in runs if labs.of_key(run) == key])


def in_us(value):
    return {name: ns / 1000 for name, ns in value.items()}


def rows(named, apart):
    """
    Returns [{what, found: {chapter's title and details: us}, ratio}] of quantities that at least two chapters have measured; ratio: the highest median relative to
    the lowest. apart: the placement of hosts that are not on one core.
    """
    data = {name: section.data for name, section in named.items()}
    found = {}

    def put(what, name, take, more=""):
        if name in data:
            try:
                found.setdefault(what, {})[named[name].title + more] = take(data[name])
            except KeyError:
                pass  # not with two machines, or not measured

    for size in SIZES:
        for mode, handoff, words in (("regular", "-", "regular mode"), ("ipp", "none", "IPP without a handoff")):
            key = (mode, handoff, 1, size)
            if mode == "regular" or size == SIZES[0]:
                put(f"UDP, {labs.bytes_of(size)}, {words}, {apart}", "fragments", lambda mine, key=key: median_us(mine["repetitions"], *key))
            if mode == "regular":
                put(f"UDP, {labs.bytes_of(size)}, {words}, {apart}", "threads", lambda mine, key=key: median_us(mine["regular"]["repetitions"], *key))
            put(f"UDP, {labs.bytes_of(size)}, {words}, on one core", "fragments", lambda mine, key=key: median_us(mine["together"], *key))
            put(f"UDP, {labs.bytes_of(size)}, {words}, on one core", "threads", lambda mine, key=key: median_us(mine["compared"]["repetitions"], *key))
    for words, program in ((f"UDP, 1 byte, IPP without a handoff, {apart}", "udptest"), (f"CHAN, 1 byte, IPP without a handoff, {apart}", "chantest")):
        put(words, "anatomy", lambda mine, program=program: in_us(mine[program]["measured_ns"]))
    put(f"UDP, 1 byte, IPP without a handoff, {apart}", "fragments",
        lambda mine: in_us(labs.interval(mine["waits"]["whole_ns"][waits.HALT]["none"])), ", in its own processes")
    put(f"CHAN, 1 byte, IPP without a handoff, {apart}", "rpc", lambda mine: median_us(mine["repetitions"], "ipp", "none", 1, 1))
    put("waking a thread on the other core", "handoff", lambda mine: in_us(labs.interval([run["across_ns"] for run in mine["runs"]])))
    put("waking a thread on the other core", "anatomy", lambda mine: in_us(mine["wake_alone_ns"]))
    put("waking a thread on the other core", "components", lambda mine: in_us(labs.interval(mine["here"]["wakes_ns"])))
    return [{"what": what, "found": mine, "ratio": max(medians) / min(medians)} for what, mine in found.items()
            if len(medians := [us["median"] for us in mine.values()]) > 1]
