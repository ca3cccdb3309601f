"""userlevel.py - what functionality costs: table 1 of Chen and Watson, "User Level Communication on Alpha Linux Systems"."""
import lab as labs
import looks

RELIABLE, UNACKNOWLEDGED, RAW, GENERAL = "GM", "GM+", "BIP", "UDP/IP"
SYSTEMS = {  # the graph, settings, what it gives, and how it is drawn
    RELIABLE: ("gm.dot", (), "reliable, in order, flow control", (looks.HANDOFF, "o")),
    UNACKNOWLEDGED: ("gm.dot", ("--set", "gm.small=unreliable"), "the same, but up to 256 bytes are not acknowledged", (looks.IPP, "D")),
    RAW: ("bip.dot", (), "nothing", (looks.OTHER, "s")),
    GENERAL: ("logp.dot", (), "nothing, but through any network", (looks.REGULAR, "^")),
}
FIGURES = {"half_rtt_ns": "RTT/2", "g_ns": "g", "os_ns": "Os", "or_ns": "Or", "l_ns": "L"}
PUBLISHED = {RELIABLE: (14.76, 18.23, 0.86, 1.93, 11.91), UNACKNOWLEDGED: (12.78, 8.55, 2.02, 1.29, 9.47),
             RAW: (6.65, 5.65, 5.04, 0.48, 1.13)}
SIZES = (8, 64, 256, 257, 512, 1024, 1480)  # BIP carries no more than a frame
LONG = (4096, 16384, 65000)
WAYS = {"one_way": "one way", "ping_pong": "there and back in turn", "both_ways": "both at once"}


def run(lab):
    section = labs.Section(
        "userlevel", "What functionality costs", "What do reliability, order and flow control cost a message, and what does a raw layer save?")
    found = section.data["systems"] = {name: {} for name in SYSTEMS}  # {name: {size: [a run for each repetition]}}
    for turn in range(lab.repeats):
        for number, (name, (graph, options, _, _)) in enumerate(SYSTEMS.items()):
            sizes = SIZES if name == RAW else (*SIZES, *LONG)
            document = lab.run("logp", *lab.ends(), "--graph", lab.graph(graph), "--mode", "ipp", "--driver", "poll", "--size",
                               ",".join(map(str, sizes)), "--repeats", "1", "--rounds", str(lab.rounds(20, 5)), *options)
            for one in document["runs"]:
                found[name].setdefault(str(one["size"]), []).append(one)
            lab.progress((turn + (number + 1) / len(SYSTEMS)) / lab.repeats)
    section.text(
        "J. Chen and W. Watson compared three systems on a Myrinet in 2000, where programs reach the network's card without their operating "
        "system. GM's messages are reliable, in order and under flow control. GM+ sends short ones without acknowledgements. BIP has none of these. "
        "Each is a protocol here (UDP/IP is the usual way), below one program, between two processes that poll. LogP's parameters say where a "
        "message's time goes: the sender's processor is busy for Os, the receiver's for Or, the way between takes L, and one "
        "message follows another after g. They come from loops of messages with work between them (docs/measuring.md).")
    section.table(
        "After Chen and Watson's table 1: microseconds, messages of 8 bytes", ("", *FIGURES.values()),
        [row for name in SYSTEMS for row in (
            (f"{name}: {SYSTEMS[name][2]}", *(labs.spread(us(found, name, 8, figure), 2) for figure in FIGURES)),
            ("published", *(map(str, PUBLISHED[name]) if name in PUBLISHED else "-" * len(FIGURES))))])
    for way, words in WAYS.items():
        section.table(
            f"Bandwidth, {words}: MB/s", ("", *map(labs.bytes_of, (*SIZES, *LONG))),
            [(name, *(f"{bandwidth(found, name, size, way)['median']:.0f}" if str(size) in found[name] else "-" for size in (*SIZES, *LONG)))
             for name in SYSTEMS])
    section.plot("Half a round trip, by the length of a message.", lambda axes: plot(axes, found), "What a layer promises costs more than its bytes.")
    judge(section, found)
    return section


def values(found, name, size, figure):
    return [one[figure]["median"] for one in found[name][str(size)]]


def us(found, name, size, figure):
    return labs.interval([ns / 1000 for ns in values(found, name, size, figure)])


def bandwidth(found, name, size, way):
    return labs.interval([rate / 1e6 for rate in values(found, name, size, way)])


def saved(found, slower, faster, figure, size=8):
    """In microseconds, from differences within each repetition."""
    return labs.interval([(a - b) / 1000 for a, b in zip(values(found, slower, size, figure), values(found, faster, size, figure))])


def plot(axes, found):
    for name, (_, _, _, (color, marker)) in SYSTEMS.items():
        sizes = [size for size in SIZES if str(size) in found[name]]
        times = [us(found, name, size, "half_rtt_ns") for size in sizes]
        axes.errorbar(sizes, [t["median"] for t in times], looks.error(times), color=color, marker=marker, markersize=4, capsize=2)
        axes.annotate(name, (sizes[-1], times[-1]["median"]), xytext=(6, 0), textcoords="offset points", va="center", color=color)
    axes.set_xlabel("bytes")
    axes.set_ylabel("RTT/2, µs")
    axes.set_ylim(bottom=0)


def judge(section, found):
    then = {name: dict(zip(FIGURES, row)) for name, row in PUBLISHED.items()}
    all_of_it, acknowledgements = (saved(found, RELIABLE, other, "half_rtt_ns") for other in (RAW, UNACKNOWLEDGED))
    half = {name: us(found, name, 8, "half_rtt_ns")["median"] for name in SYSTEMS}
    for name in SYSTEMS:
        section.compare(f"{name}: half a round trip of 8 bytes", f"{half[name]:.2f} us", f"{then[name]['half_rtt_ns']} us" if name in then else "-")
    was = then[RELIABLE]["half_rtt_ns"] - then[RAW]["half_rtt_ns"]
    section.answer = (
        f"Half a round trip of 8 bytes takes {half[RELIABLE]:.2f} us with reliability, order and flow control (GM), {half[UNACKNOWLEDGED]:.2f} "
        f"without acknowledgements (GM+), and {half[RAW]:.2f} with none of them (BIP): they cost {labs.spread(all_of_it, 2)} us, "
        f"{all_of_it['median'] / half[RELIABLE]:.0%} of it (published {was:.2f} us, {was / then[RELIABLE]['half_rtt_ns']:.0%}).")
    section.check_saved(all_of_it, f"A raw layer's half round trip is {labs.spread(all_of_it, 2)} us shorter (published {was:.2f}).")
    section.check_saved(acknowledgements, f"Without acknowledgements of short messages GM's is {labs.spread(acknowledgements, 2)} us shorter "
                        f"(published {then[RELIABLE]['half_rtt_ns'] - then[UNACKNOWLEDGED]['half_rtt_ns']:.2f}).")
    gaps = saved(found, RELIABLE, RAW, "g_ns")
    section.check_saved(gaps, f"GM's messages follow each other {labs.spread(gaps, 2)} us later than BIP's, because each must be acknowledged "
                        f"(published {then[RELIABLE]['g_ns'] - then[RAW]['g_ns']:.2f}).", bears=False)
    sending = saved(found, RAW, RELIABLE, "os_ns")
    section.check_saved(sending, f"BIP's sender was busy for {then[RAW]['os_ns'] - then[RELIABLE]['os_ns']:.2f} us longer than GM's, because its processor wrote the "
                        f"message into the card word by word; here the difference is {labs.spread(sending, 2)} us.", bears=False)
    ping_pong = labs.interval([b - a for a, b in zip(values(found, RELIABLE, 1024, "ping_pong"), values(found, RAW, 1024, "ping_pong"))])
    section.check_saved(ping_pong, "There and back in turn, BIP's bandwidth is higher than GM's (as published, for all lengths): "
                        f"{bandwidth(found, RAW, 1024, 'ping_pong')['median']:.0f} and {bandwidth(found, RELIABLE, 1024, 'ping_pong')['median']:.0f} MB/s at 1024 bytes.",
                        bears=False)
    parts = {name: us(found, name, 8, "l_ns")["median"] / half[name] for name in (RELIABLE, RAW)}
    section.text(
        f"What twenty-five years changed: the card. GM's protocol ran on a processor of the card's, at 66 MHz, so L was {then[RELIABLE]['l_ns'] / then[RELIABLE]['half_rtt_ns']:.0%} "
        f"of GM's half round trip and {then[RAW]['l_ns'] / then[RAW]['half_rtt_ns']:.0%} of BIP's; here all protocols run on the host's, and L is {parts[RELIABLE]:.0%} "
        f"and {parts[RAW]:.0%}: the queues between two cores. Copying 8 bytes into a device's memory was dear over a PCI bus and is "
        "cheap in a cache, so the overhead Os that BIP paid for its short way is gone.")
