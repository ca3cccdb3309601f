"""handoff.py - tables 1 and 2: what a switch, a stack and a handoff cost on this machine."""
import lab as labs
import looks
import near
import published

ROWS = (
    ("regular", "Handoff to an input thread (regular)", "regular"),
    ("ipp_handoff", "Handoff at an edge of the graph (IPP)", "ipp_handoff"),
    ("ipp_none", "No handoff (IPP)", None),
    ("stack", "Entering and leaving a stack (IPP)", "stack"),
    ("blocked", "A waiting thread resumes (regular)", None),
    ("resume_thread", "A parked stack resumes on a thread (IPP)", None),
    ("resume_driver", "A parked stack resumes in the driver (IPP)", None),
)


def run(lab):
    section = labs.Section(
        "handoff", "What a handoff costs", "What does it cost to hand a message to a thread, and what is saved by not doing so?"
    )
    core = lab.cores.split(",", maxsplit=1)[0]
    runs = [lab.bench("handoff", "--core", core, "--rounds", str(lab.rounds(16000, 2000))) for _ in range(lab.repeats)]
    section.data = {"runs": runs}
    times = {key: {rank: labs.interval([run["ways"][key][rank] for run in runs]) for rank in ("p50", "p99")} for key in runs[0]["ways"]}
    section.text(
        "A message waits at the driver. Time runs until the protocol above receives it or, if a protocol waits, from the signal "
        "until it resumes. Everything is on one core; the variants take turns in short blocks of each run."
    )
    section.table(
        "After table 2 of 1994: handing off, in microseconds; the published figures are from a DECstation",
        ("", "median", "99 %", "published"),
        [
            (text, us(times[key]["p50"]), us(times[key]["p99"]), f"{published.TABLE2[was]}" if was else "")
            for key, text, was in ROWS
        ],
        checked="IPP's penalty with a handoff, and its saving without one, as shares of a regular handoff; not the times themselves, which are another machine's",
    )
    lab.handoff_us = times["regular"]["p50"]["median"] / 1000
    switches(section, runs)
    section.plot("Time from the driver to the protocol, on one core (medians); the dashed line is the system's own wake-up and switch.",
                 lambda axes: bars(axes, times), "Carrying a message in the driver costs almost nothing.")
    assess(section, runs, times)
    return section


def us(ns):
    return labs.spread({key: value / 1000 for key, value in ns.items()}, 2)


def switches(section, runs):
    """Adds the context switches of this machine beside those of table 1."""
    mhz = runs[0]["counter_mhz"]
    switch = labs.interval([run["yield_ns"] for run in runs])
    here = (("This machine: a switch between two ready threads", switch),
            ("This machine: one thread wakes another on its core, then sleeps", labs.interval([run["ways"]["system"]["p50"] for run in runs])))
    rows = [(name, labs.spread(ns, 0), labs.spread(cycles(ns, mhz), 0) if mhz else "-") for name, ns in here]
    rows += [(f"{name} (published)", "-", was) for name, was in published.TABLE1]
    rate = f"; a cycle is one of its counter, at {mhz:.0f} MHz" if mhz else ""
    section.table(f"After table 1 of 1994: context switches, by the operating system alone{rate}. The paper gives only cycles",
                  ("", "nanoseconds", "cycles"), rows,
                  checked="whether a switch takes no fewer cycles than the DECstation's: the paper expects newer processors to need no fewer, but gives no number")
    if mhz:
        taken = cycles(switch, mhz)
        section.compare("a switch between two threads, in cycles: no fewer than the DECstation's", labs.spread(taken, 0), published.TABLE1[0][1],
                        near.within(taken, published.DECSTATION_SWITCH, float("inf")), rule="no fewer: any greater number agrees")
    else:
        section.compare("a switch between two threads, in cycles", "not known", published.TABLE1[0][1], "this processor's counter has no constant rate")


def cycles(ns, mhz):
    return {key: value * mhz / 1000 for key, value in ns.items()}


BARS = (
    ("regular", "handed to a thread, regular", looks.REGULAR), ("ipp_handoff", "handed to a thread, IPP", looks.HANDOFF), ("ipp_none", "carried by the driver, IPP", looks.IPP),
    ("blocked", "resumed, regular", looks.REGULAR), ("resume_thread", "resumed on a thread, IPP", looks.HANDOFF),
    ("resume_driver", "resumed in the driver, IPP", looks.IPP),
)


def bars(axes, times):
    """Draws the times until a message reaches its protocol, and until a waiting thread or parked stack resumes."""
    for place, (key, _, color) in enumerate(BARS):
        middle = times[key]["p50"]["median"] / 1000
        axes.barh(place, middle, color=color, hatch="//" if color == looks.HANDOFF else None, edgecolor="white", linewidth=0)
        axes.annotate(f"{middle:.2f} µs", (middle, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize="small")
    axes.axvline(times["system"]["p50"]["median"] / 1000, **looks.FLOOR)
    axes.set_yticks(range(len(BARS)), [words for _, words, _ in BARS])
    axes.invert_yaxis()
    axes.set_xlabel("µs")


def assess(section, runs, times):
    none, regular, driver, thread = (times[key]["p50"] for key in ("ipp_none", "regular", "resume_driver", "resume_thread"))
    longer = labs.interval([run["ipp_to_regular"]["median"] - 1 for run in runs])
    was = published.TABLE2["regular"]
    was_longer, was_saved = published.TABLE2["ipp_handoff"] + published.TABLE2["stack"] - was, was - published.TABLE2["stack"]
    section.compare(f"IPP's penalty if it must hand off, as a share of a handoff in regular mode, within {near.NEAR:.0%}", near.percent(longer), f"{was_longer / was:.0%} ({was_longer:.1f} of {was} us)", near.near(longer, was_longer / was), bears=True)
    saved = labs.interval([run["ways"]["regular"]["p50"] - run["ways"]["ipp_none"]["p50"] for run in runs])
    section.compare("carrying a message in the driver instead of handing it to a thread saves time", f"{us(saved)} us, {saved['median'] / regular['median']:.0%}",
                    f"{was_saved:.1f} us, {was_saved / was:.0%}", labs.is_saved(saved), bears=True, rule=labs.SIGNS)
    section.compare("a handoff in regular mode", f"{us(regular)} us", f"{was} us", "the times are of different machines")
    system = labs.interval([run["saved_to_system"]["median"] for run in runs])
    section.check(near.near(system, 1), f"Avoiding a handoff saves {labs.spread(system, 2)} times what the system needs to wake a thread and switch to it: "
                  f"all of that and no more, within {near.NEAR:.0%}. (The paper has no such figure.)")
    section.answer = (
        f"A message reaches its protocol after {regular['median']:.0f} ns if it is handed to a thread, and after {none['median']:.0f} if the driver carries it. Starting in the driver "
        f"and then handing off takes {longer['median']:.0%} longer than handing off at once ({was_longer / was:.0%} in 1994).")
    stack = times["stack"]["p50"]["median"] / 1000
    section.why = f"(In 1994 the extra time was mostly that of entering a stack, {published.TABLE2['stack']} us; here that takes {stack:.2f}.)"
    section.text(
        "These times cover one message until it has arrived. A round trip is two messages, and the thread that carried one goes back to sleep: "
        "another switch. A round trip therefore saves several times as much, as the next experiments show. The chapter \"Wake-up anatomy\" has the time "
        "to wake a thread on another core."
    )
    section.check_saved(labs.interval([run["ways"]["resume_thread"]["p50"] - run["ways"]["resume_driver"]["p50"] for run in runs]),
                        f"A parked stack resumes sooner in the driver, after {labs.spread(driver, 0)} ns, than on a thread, after {labs.spread(thread, 0)}. "
                        "(In the paper it could resume only on a thread.)", bears=False)
    section.text(
        f"Waiting need not cost a switch either: a parked stack resumes after {driver['median']:.0f} ns in the driver, and after "
        f"{thread['median']:.0f} ns on a thread. The 1994 report's CHAN could do only the latter (table 3)."
    )
