"""handoff.py - tables 1 and 2: what a switch, a stack and a handoff cost on this machine."""
import lab as labs
import looks
import near
import published

ROWS = (
    ("regular", "Handoff to an input thread (regular)", "regular"),
    ("ipp_handoff", "Handoff at an edge of the graph (IPP)", "ipp_handoff"),
    ("ipp_none", "No handoff (IPP)", None),
    ("stack", "A stack is begun, and left again (IPP)", "stack"),
    ("blocked", "A thread that waited for a message goes on (regular)", None),
    ("resume_thread", "A stack that waited goes on, on a thread (IPP)", None),
    ("resume_driver", "A stack that waited goes on, in the driver (IPP)", None),
)


def run(lab):
    section = labs.Section(
        "handoff", "What a handoff costs", "What does it cost to give a message to a thread, and what is saved by not doing so?"
    )
    core = lab.cores.split(",", maxsplit=1)[0]
    runs = [lab.bench("handoff", "--core", core, "--rounds", str(lab.rounds(16000, 2000))) for _ in range(lab.repeats)]
    section.data = {"runs": runs}
    ways = {key: {rank: labs.interval([run["ways"][key][rank] for run in runs]) for rank in ("p50", "p99")} for key in runs[0]["ways"]}
    section.text(
        "A message waits at the driver. Time runs until the protocol above has it; where a protocol waits for something, "
        "from the signal until it goes on. All is on one core, the ways in turn, in short blocks of each run."
    )
    section.table(
        "After table 2 of 1994: handing off, in microseconds; the published figures are of a DECstation",
        ("", "median", "99 %", "published"),
        [
            (text, us(ways[key]["p50"]), us(ways[key]["p99"]), f"{published.TABLE2[was]}" if was else "")
            for key, text, was in ROWS
        ],
        checked="IPP's penalty where it hands off, and what it saves where it does not, as parts of a regular handoff; not the times themselves, of another machine",
    )
    lab.handoff_us = ways["regular"]["p50"]["median"] / 1000
    switches(section, runs)
    section.plot("Time from the driver to the protocol, on one core (medians); the dashed line is the system's own wake-up and switch.",
                 lambda axes: bars(axes, ways), "Carrying a message in the driver costs almost nothing.")
    assess(section, runs, ways)
    return section


def us(ns):
    return labs.spread({key: value / 1000 for key, value in ns.items()}, 2)


def switches(section, runs):
    """After table 1 of 1994: facts of the machine."""
    mhz = runs[0]["counter_mhz"]
    switch = labs.interval([run["yield_ns"] for run in runs])
    here = (("This machine: a switch between two threads that are ready", switch),
            ("This machine: one thread wakes another on its core, and sleeps", labs.interval([run["ways"]["system"]["p50"] for run in runs])))
    rows = [(name, labs.spread(ns, 0), labs.spread(cycles(ns, mhz), 0) if mhz else "-") for name, ns in here]
    rows += [(f"{name} (published)", "-", was) for name, was in published.TABLE1]
    rate = f"; a cycle is one of its counter, {mhz:.0f} MHz" if mhz else ""
    section.table(f"After table 1 of 1994: context switches, by the operating system alone{rate}. The paper has cycles only",
                  ("", "nanoseconds", "cycles"), rows,
                  checked="whether a switch takes no fewer cycles than the DECstation's: the paper expects that newer processors need no fewer, not how many")
    if mhz:
        taken = cycles(switch, mhz)
        section.compare("a switch between two threads, in cycles: no fewer than the DECstation's", labs.spread(taken, 0), published.TABLE1[0][1],
                        near.within(taken, published.DECSTATION_SWITCH, float("inf")), rule="no fewer, which any greater number fulfils")
    else:
        section.compare("a switch between two threads, in cycles", "not known", published.TABLE1[0][1], "this processor's counter has no steady rate")


def cycles(ns, mhz):
    return {key: value * mhz / 1000 for key, value in ns.items()}


BARS = (
    ("regular", "handed to a thread, regular", looks.REGULAR), ("ipp_handoff", "handed to a thread, IPP", looks.HANDOFF), ("ipp_none", "carried by the driver, IPP", looks.IPP),
    ("blocked", "resumed, regular", looks.REGULAR), ("resume_thread", "resumed on a thread, IPP", looks.HANDOFF),
    ("resume_driver", "resumed in the driver, IPP", looks.IPP),
)


def bars(axes, ways):
    """What a message needs to its protocol; and what a stack that waited needs to go on."""
    for place, (key, _, color) in enumerate(BARS):
        middle = ways[key]["p50"]["median"] / 1000
        axes.barh(place, middle, color=color, hatch="//" if color == looks.HANDOFF else None, edgecolor="white", linewidth=0)
        axes.annotate(f"{middle:.2f} µs", (middle, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize="small")
    axes.axvline(ways["system"]["p50"]["median"] / 1000, **looks.FLOOR)
    axes.set_yticks(range(len(BARS)), [words for _, words, _ in BARS])
    axes.invert_yaxis()
    axes.set_xlabel("µs")


def assess(section, runs, ways):
    none, regular, driver, thread = (ways[way]["p50"] for way in ("ipp_none", "regular", "resume_driver", "resume_thread"))
    longer = labs.interval([run["ipp_to_regular"]["median"] - 1 for run in runs])
    was = published.TABLE2["regular"]
    was_longer, was_saved = published.TABLE2["ipp_handoff"] + published.TABLE2["stack"] - was, was - published.TABLE2["stack"]
    section.compare(f"IPP's penalty where it must hand off, as a part of a handoff in regular mode, within {near.NEAR:.0%}", near.percent(longer), f"{was_longer / was:.0%} ({was_longer:.1f} of {was} us)", near.near(longer, was_longer / was), bears=True)
    saved = labs.interval([run["ways"]["regular"]["p50"] - run["ways"]["ipp_none"]["p50"] for run in runs])
    section.compare("that the driver carries a message instead of giving it to a thread saves time", f"{us(saved)} us, {saved['median'] / regular['median']:.0%}",
                    f"{was_saved:.1f} us, {was_saved / was:.0%}", labs.is_saved(saved), bears=True, rule=labs.SIGNS)
    section.compare("a handoff in regular mode", f"{us(regular)} us", f"{was} us", "it is a time of another machine")
    system = labs.interval([run["saved_to_system"]["median"] for run in runs])
    section.check(near.near(system, 1), f"A message that is not handed off saves {labs.spread(system, 2)} of what the system needs to wake a thread and to "
                  f"switch to it: all of that and no more, within {near.NEAR:.0%}. (The paper has no such figure.)")
    section.answer = (
        f"Given to a thread, a message reaches its protocol after {regular['median']:.0f} ns, carried by the driver after {none['median']:.0f}. To begin in the driver and leave "
        f"it takes {longer['median']:.0%} longer than to be given to a thread at once ({was_longer / was:.0%} in 1994).")
    stack = ways["stack"]["p50"]["median"] / 1000
    section.why = f"(What was longer then is mostly a stack's beginning, {published.TABLE2['stack']} us; here it takes {stack:.2f}.)"
    section.text(
        "All this is of one message, until it has arrived. A round trip is two messages, and the thread that has carried one goes back to sleep: "
        "another switch. So a round trip saves several times as much, as the next experiments show. What waking a thread on another core takes is "
        "in the chapter on the anatomy of a wake-up."
    )
    section.check_saved(labs.interval([run["ways"]["resume_thread"]["p50"] - run["ways"]["resume_driver"]["p50"] for run in runs]),
                        f"A stack that waited goes on sooner in the driver: after {labs.spread(driver, 0)} ns, on a thread after {labs.spread(thread, 0)}. "
                        "(The paper's could go on on a thread only.)", bears=False)
    section.text(
        f"Waiting need not cost a switch either: a stack that waited goes on in the driver after {driver['median']:.0f} ns, and on a thread "
        f"after {thread['median']:.0f} ns. The 1994 report's CHAN could do only the latter (table 3)."
    )
