"""handoff.py - tables 1 and 2: what a switch, a stack and a handoff cost on this machine."""
import lab as labs
import looks
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
    found = lab.bench("handoff", "--core", core, "--rounds", str(lab.rounds(100000, 10000)))
    section.data = found
    ways = found["ways"]
    section.text(
        "A message waits at the driver. Time runs until the protocol above has it; where a protocol waits for something, "
        "from the signal until it goes on. All is on one core, the ways in turn, in short blocks of one run."
    )
    section.table(
        "After table 2 of 1994: handing off, in microseconds; the published figures are of a DECstation",
        ("", "median", "99 %", "published"),
        [
            (text, f"{ways[key]['p50'] / 1000:.2f}", f"{ways[key]['p99'] / 1000:.2f}",
             f"{published.TABLE2[was]}" if was else "")
            for key, text, was in ROWS
        ],
        judged="the handoff of IPP, with its stack, by its part of a regular one; not the times themselves, of another machine",
    )
    switches(section, found)
    section.plot("Time from the driver to the protocol, on one core (medians); the dashed line is the system's own wake-up and switch.",
                 lambda axes: bars(axes, ways), "Carrying a message in the driver costs almost nothing.")
    judge(section, found)
    return section


def switches(section, found):
    """After table 1 of 1994: facts of the machine."""
    mhz = found["counter_mhz"]
    here = (("This machine: a switch between two threads that are ready", found["yield_ns"]),
            ("This machine: one thread wakes another on its core, and sleeps", found["ways"]["system"]["p50"]))
    rows = [(name, str(ns), f"{cycles(ns, mhz):.0f}" if mhz else "-") for name, ns in here]
    rows += [(f"{name} (published)", "-", was) for name, was in published.TABLE1]
    rate = f"; a cycle is one of its counter, {mhz:.0f} MHz" if mhz else ""
    section.table(f"After table 1 of 1994: context switches, by the operating system alone{rate}. The paper has cycles only",
                  ("", "nanoseconds", "cycles"), rows,
                  judged="whether a switch costs no fewer cycles than it did, as the paper expects; what a message saves, in switches")
    if mhz:
        here_cycles = cycles(found["yield_ns"], mhz)
        section.compare("a switch between two threads, in cycles, of which the paper says that newer processors need no fewer", f"{here_cycles:.0f}",
                        f"{published.TABLE1[0][1]} (DECstation)", here_cycles >= published.DECSTATION_SWITCH[0])
    else:
        section.compare("a switch between two threads, in cycles", "not known", published.TABLE1[0][1], "this processor's counter has no steady rate")
    least, most = published.saved_in_switches()
    regular, none = (found["ways"][way]["p50"] for way in ("regular", "ipp_none"))
    saved = (regular - none) / found["yield_ns"]
    section.compare("a message that is not handed off saves, in switches between two threads", f"{saved:.1f}",
                    f"{least:.1f} to {most:.1f}, by the clock rate of the DECstation, which the paper does not name", least <= saved <= most)


def cycles(ns, mhz):
    return ns * mhz / 1000


BARS = (
    ("regular", "handed to a thread, regular", looks.REGULAR), ("ipp_handoff", "handed to a thread, IPP", looks.HANDOFF), ("ipp_none", "carried by the driver, IPP", looks.IPP),
    ("blocked", "resumed, regular", looks.REGULAR), ("resume_thread", "resumed on a thread, IPP", looks.HANDOFF),
    ("resume_driver", "resumed in the driver, IPP", looks.IPP),
)


def bars(axes, ways):
    """What a message needs to its protocol; and what a stack that waited needs to go on."""
    for place, (key, _, color) in enumerate(BARS):
        us = ways[key]["p50"] / 1000
        axes.barh(place, us, color=color, hatch="//" if color == looks.HANDOFF else None, edgecolor="white", linewidth=0)
        axes.annotate(f"{us:.2f} µs", (us, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize="small")
    axes.axvline(ways["system"]["p50"] / 1000, **looks.FLOOR)
    axes.set_yticks(range(len(BARS)), [words for _, words, _ in BARS])
    axes.invert_yaxis()
    axes.set_xlabel("µs")


def judge(section, found):
    ratio, saved = found["ipp_to_regular"], found["saved_to_system"]
    section.compare("a message that begins in the driver and leaves it, relative to one handed off in regular mode", labs.spread(ratio, 2),
                    f"{(published.TABLE2['ipp_handoff'] + published.TABLE2['stack']) / published.TABLE2['regular']:.2f}",
                    ratio["high"] < 1.10)
    section.compare("a handoff in regular mode", f"{found['ways']['regular']['p50'] / 1000:.2f} us", f"{published.TABLE2['regular']} us",
                    "it is a time of another machine")
    section.check(
        saved["low"] >= 0.9,
        f"A message that is not handed off saves {labs.spread(saved, 2)} of what the system needs to wake a thread and to "
        "switch to it.",
    )
    none, regular = (found["ways"][way]["p50"] for way in ("ipp_none", "regular"))
    section.check(none < regular, f"A message that the driver carries reaches its protocol sooner: after {none} ns, given to a thread after {regular}.")
    section.answer = (
        f"Given to a thread, a message reaches its protocol after {regular} ns, carried by the driver after {none}. To begin in the driver and leave "
        f"it takes {ratio['median']:.2f} times as long as to be given to a thread at once (1.17 in 1994)."
    )
    section.text(
        "All this is of one message, until it has arrived. A round trip is two messages, and the thread that has carried one goes back to sleep: "
        "another switch. So a round trip saves several times as much, as the next experiments show. What waking a thread on another core takes is "
        "in the chapter on the anatomy of a wake-up."
    )
    driver, thread = found["ways"]["resume_driver"]["p50"], found["ways"]["resume_thread"]["p50"]
    section.check(driver < thread, f"A stack that waited goes on sooner in the driver: after {driver} ns, on a thread after {thread}.")
    section.text(
        f"Waiting need not cost a switch either: a stack that waited goes on in the driver after {driver} ns, and on a thread "
        f"after {thread} ns. The 1994 report's CHAN could do only the latter (table 3)."
    )
