"""userlevel.py - what functionality costs: table 1 of Chen and Watson, "User Level Communication on Alpha Linux Systems"."""
import re
import shutil
import subprocess

import lab as labs
import looks
import near

RELIABLE, UNACKNOWLEDGED, RAW, GENERAL = "GM", "GM+", "BIP", "UDP/IP"
UNCONTROLLED, SENT_ONCE, NEITHER = "GM without flow control", "GM without reliability", "GM without both"
SYSTEMS = {  # the graph, settings, what it gives, and how it is drawn
    RELIABLE: ("gm.dot", (), "reliable, in order, flow control", (looks.HANDOFF, "o")),
    UNCONTROLLED: ("gm.dot", ("--set", "gm.flow=no"), "reliable, in order", (looks.HANDOFF, "v")),
    SENT_ONCE: ("gm.dot", ("--set", "gm.reliable=no"), "in order, flow control", (looks.IPP, "<")),
    NEITHER: ("gm.dot", ("--set", "gm.reliable=no", "--set", "gm.flow=no"), "in order", (looks.IPP, ">")),
    UNACKNOWLEDGED: ("gm.dot", ("--set", "gm.small=unreliable"), "the same, but up to 256 bytes are not acknowledged", (looks.IPP, "D")),
    RAW: ("bip.dot", (), "nothing", (looks.OTHER, "s")),
    GENERAL: ("logp.dot", (), "nothing, but through any network", (looks.REGULAR, "^")),
}
FIGURES = {"half_rtt_ns": "RTT/2", "g_ns": "g", "os_ns": "Os", "or_ns": "Or", "l_ns": "L"}
PUBLISHED = {RELIABLE: (14.76, 18.23, 0.86, 1.93, 11.91), UNACKNOWLEDGED: (12.78, 8.55, 2.02, 1.29, 9.47),
             RAW: (6.65, 5.65, 5.04, 0.48, 1.13)}
SIZES = (8, 64, 256, 257, 512, 1024, 1480)  # BIP carries no more than a frame
LONG = (4096, 16384, 65000)
BENCH_GRAPHS = {GENERAL: "udptest.dot"}  # with udptest at the top
COUNTED = 10000  # messages whose instructions are counted
FRAGMENTED = 16000
SMALL = (8, 64, 256)  # bytes that GM+ sends without acknowledgements
PAIRS = ((RELIABLE, UNACKNOWLEDGED), (RELIABLE, RAW), (UNACKNOWLEDGED, RAW))
WAYS = {"one_way": "one way", "ping_pong": "there and back in turn", "both_ways": "both at once"}


def run(lab):
    section = labs.Section(
        "userlevel", "What functionality costs", "What do reliability, order and flow control cost a message, and what does a raw layer save?")
    found = section.data["systems"] = {name: {} for name in SYSTEMS}  # {name: {size: [a run for each repetition]}}
    for turn in range(lab.repeats):
        for number, (name, (graph, options, _, _)) in enumerate(SYSTEMS.items()):
            sizes = SIZES if name == RAW or lab.brief else (*SIZES, *LONG)
            document = lab.run("logp", *lab.ends(), "--graph", lab.graph(graph), "--mode", "ipp", "--driver", "adaptive" if lab.brief else "poll", "--size",
                               ",".join(map(str, sizes)), "--repeats", "1", "--rounds", str(lab.rounds(20, 5)), *options)
            for one in document["runs"]:
                found[name].setdefault(str(one["size"]), []).append(one)
            lab.progress((turn + (number + 1) / len(SYSTEMS)) / lab.repeats)
    section.text(
        "J. Chen and W. Watson compared three systems on a Myrinet in 2000, where programs reach the network's card without their operating "
        "system. GM's messages are reliable, in order and under flow control. GM+ sends short ones without acknowledgements. BIP has none of these. "
        "Each is a protocol here (UDP/IP is the usual way), and GM's flow control and reliability can be switched off one by one; they run below one program, between two processes that poll. LogP's parameters say where a "
        "message's time goes: the sender's processor is busy for Os, the receiver's for Or, the way between takes L, and one "
        "message follows another after g. They come from loops of messages with work between them (docs/measuring.md).")
    section.table(
        "After Chen and Watson's table 1: microseconds, messages of 8 bytes", ("", *FIGURES.values()),
        [row for name in SYSTEMS for row in (
            (f"{name}: {SYSTEMS[name][2]}", *(labs.spread(us(found, name, 8, figure), 2) for figure in FIGURES)),
            ("published", *(map(str, PUBLISHED[name]) if name in PUBLISHED else "-" * len(FIGURES))))],
        judged="each figure's order of every two systems, and what the smaller saves of the larger; the parts of RTT/2",
        unjudged="the times themselves, of another machine")
    section.data["parts"] = parts = {name: spent(lab, name) for name in SYSTEMS}
    costs(section, parts)
    section.data["model"] = model = lab.script("userlevel/model.py")
    simulated(section, model)
    for way, words in WAYS.items():
        section.table(
            f"Bandwidth, {words}: MB/s", ("", *map(labs.bytes_of, (*SIZES, *LONG))),
            [(name, *(f"{bandwidth(found, name, size, way)['median']:.0f}" if str(size) in found[name] else "-" for size in (*SIZES, *LONG)))
             for name in SYSTEMS])
    section.plot("Half a round trip, by the length of a message.", lambda axes: plot(axes, found), "What a layer promises costs more than its bytes.")
    features(section, found, model)
    judge(section, found)
    return section


# ---- what each function costs ----


def spent(lab, name):
    """Nanoseconds, instructions and buffers of a message, in one process."""
    graph, options, _, _ = SYSTEMS[name]
    options = ("--graph", lab.graph(BENCH_GRAPHS.get(name, graph)), *options)
    one = lab.bench("message", *options, "--rounds", str(lab.rounds(200000, 20000)))
    parts = {"ns": one["message_ns"], "under_way": one["under_way"], "buffers": one["buffers"],
             "instructions": {end: lab.once(["instructions", name, end], lambda end=end: instructions(lab, end, options))
                              for end in one["buffers"] if not lab.brief or name not in (UNACKNOWLEDGED, GENERAL)}}
    if name != RAW:
        parts["fragmented"] = lab.bench("message", *options, "--rounds", "1000", "--size", str(FRAGMENTED))["buffers"]
    return parts


def instructions(lab, end, options):
    """Of a message at one end; or why they cannot be counted."""
    if shutil.which("valgrind") is None:
        return "there is no valgrind"
    rounds = lab.rounds(COUNTED, COUNTED)  # counts are exact: only tests need fewer
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no", f"{lab.build}/xk", "bench", "message",
               "--count", end, "--rounds", str(rounds), *options]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or collected is None:
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "valgrind has failed"
    return int(collected[1]) / rounds


def costs(section, parts):
    def count(name, end):
        number = parts[name]["instructions"].get(end, "")
        return "-" if isinstance(number, str) else f"{number:.0f}"

    section.table(
        "What each function costs a message of 8 bytes in one process, without a wire: the instructions of its sender and of its receiver, answers "
        f"included, the nanoseconds of both; and the buffers held when {parts[RELIABLE]['under_way']} messages are under way, and when all but the last "
        f"frame of one of {FRAGMENTED} bytes have come",
        ("", "sender, instructions", "receiver, instructions", "ns", "sender holds", "receiver holds", "... of a long message"),
        [(name, count(name, "sender"), count(name, "receiver"), f"{one['ns']:.0f}", str(one["buffers"]["sender"]), str(one["buffers"]["receiver"]),
          str(one["fragmented"]["receiver"]) if "fragmented" in one else "-") for name, one in parts.items()])
    why = next((number for one in parts.values() for number in one["instructions"].values() if isinstance(number, str)), None)
    if why is not None:
        section.text(f"Instructions were not counted: {why}.")
        return

    def more(name, than):
        return {end: round(parts[name]["instructions"][end] - parts[than]["instructions"][end]) for end in ("sender", "receiver")}

    flow, reliability, order = more(SENT_ONCE, NEITHER), more(UNCONTROLLED, NEITHER), more(NEITHER, RAW)
    both = more(RELIABLE, UNCONTROLLED)
    held = parts[RELIABLE]["buffers"]["sender"]
    section.text(
        f"Flow control costs {flow['sender']} instructions at the sender and {flow['receiver']} at the receiver where messages are sent once, because "
        f"one credit serves half of the tokens, and {both['sender']} and {both['receiver']} where they are reliable, because acknowledgements return "
        "tokens anyway; it holds no memory, and bounds what reliability holds. "
        f"Reliability costs {reliability['sender']} and {reliability['receiver']} instructions, one more frame for each message, and the sender "
        f"{held} buffers for {parts[RELIABLE]['under_way']} messages, until they are acknowledged. "
        f"What remains (order, boots of hosts, fragments) costs {order['sender']} and {order['receiver']} more than BIP.")
    total = {name: sum(one["instructions"].values()) for name, one in parts.items()}
    section.check(total[RELIABLE] > total[SENT_ONCE] > total[NEITHER] > total[RAW],
                  f"Each function costs instructions: {total[RELIABLE]:.0f} a message with both, {total[SENT_ONCE]:.0f} without reliability, "
                  f"{total[NEITHER]:.0f} without both, {total[RAW]:.0f} with BIP.")
    section.check(parts[SENT_ONCE]["buffers"]["sender"] == 0 < held, f"Only reliability holds a sender's buffers: {held} for {parts[RELIABLE]['under_way']} messages.")


# ---- in the simulator ----


def simulated(section, model):
    def cell(name, figure):
        us, then = model["table_ns"][name][figure] / 1000, model["published_us"][name][figure]
        return f"{us:.2f} ({then}), " + ("fitted" if figure in model["given"][name] else f"{100 * (us / then - 1):+.0f} %")

    section.table("Table 1 in the simulator (experiments/userlevel/model.py): microseconds, published in brackets; fitted, or the prediction's error",
                  ("", *model["figures"].values()), [(name, *(cell(name, figure) for figure in row)) for name, row in model["table_ns"].items()],
                  judged=f"each predicted figure, which should be within {near.NEAR:.0%}, and the ratio of GM's and GM+'s g",
                  unjudged="fitted figures, for which the costs were chosen")
    fitted = model["fitted"]
    gaps, then = (one[RELIABLE]["g_ns"] / one[UNACKNOWLEDGED]["g_ns"] for one in (model["table_ns"], model["published_us"]))
    section.text(
        f"The hosts of 2000 have cards with a processor of their own, which works {fitted['gm_card_ns'] / 1000:.1f} us on a frame of GM's, and {fitted['bip_card_ns'] / 1000:.1f} on one of BIP's, at "
        f"each end. A card begins to fetch a frame in {fitted['dma_ns'] / 1000:.1f} us, or the host's processor writes it at {1e6 / fitted['write_kb_ns']:.0f} MB/s. "
        "The predicted gaps of GM and GM+ are too short: the published ones and their L fit together only if nearly all of the work was at one end. Their "
        f"ratio is {gaps:.1f} (published {then:.1f}): a message that is fetched and acknowledged occupies the cards more than twice as long.")
    for name, row in model["table_ns"].items():
        for figure in row:
            if figure not in model["given"][name]:
                us, was = row[figure] / 1000, model["published_us"][name][figure]
                section.check(near.near(near.exactly(us / was), 1), f"In the simulator, {name}'s {FIGURES[figure]} is predicted as {us:.2f} us, {us / was - 1:+.0%}; published {was}.")
    section.check(near.near(near.exactly(gaps), then), f"In the simulator, GM's g is {gaps:.2f} times GM+'s; published {then:.2f}.")


def features(section, found, model):
    """What the paper says of its figures 5 to 7."""
    def higher(way, size, more, less):
        pairs = zip(values(found, more, size, way), values(found, less, size, way))
        return labs.is_saved(labs.interval([a - b for a, b in pairs]))

    def byte_ns(less, more):
        pairs = zip(values(found, RAW, less, "one_way"), values(found, RAW, more, "one_way"))
        return [1e9 * (more / b - less / a) / (more - less) for a, b in pairs]

    knee = labs.interval([before - 1.2 * after for before, after in zip(byte_ns(64, 256), byte_ns(512, 1024))])
    here = {
        "small": near.all_of(higher("one_way", size, other, RELIABLE) for other in (UNACKNOWLEDGED, RAW) for size in SMALL),
        "knee": labs.is_saved(knee),
        "ping_pong": near.all_of(higher("ping_pong", size, RAW, other) for other in (RELIABLE, UNACKNOWLEDGED) for size in SIZES),
        "both_ways": near.all_of(higher("both_ways", size, other, RELIABLE) for other in (UNACKNOWLEDGED, RAW) for size in SMALL),
    }
    section.table("What the paper says of its bandwidths (figures 5 to 7)", ("", "in the simulator", f"here, up to {SIZES[-1]} bytes"),
                  [(one["text"], labs.AGREES[one["agrees"]], labs.AGREES[here[one["name"]]] if one["name"] in here else "-") for one in model["features"]],
                  judged="each answer", unjudged=f"the rows without an answer here: BIP carries at most {SIZES[-1]} bytes, no length just above a multiple of a "
                  "fragment's is measured, and the range is in MB/s of another machine")
    for one in model["features"]:
        section.check(one["agrees"], f"Bandwidth in the simulator, as published: {one['text']}")
        if one["name"] in here:
            section.check(here[one["name"]], f"Bandwidth here, up to {SIZES[-1]} bytes, as published: {one['text']}")


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
    for name in (RELIABLE, UNACKNOWLEDGED, RAW, GENERAL):
        color, marker = SYSTEMS[name][3]
        sizes = [size for size in SIZES if str(size) in found[name]]
        times = [us(found, name, size, "half_rtt_ns") for size in sizes]
        axes.errorbar(sizes, [t["median"] for t in times], looks.error(times), color=color, marker=marker, markersize=4, capsize=2)
        axes.annotate(name, (sizes[-1], times[-1]["median"]), xytext=(6, 0), textcoords="offset points", va="center", color=color)
    axes.set_xlabel("bytes")
    axes.set_ylabel("RTT/2, µs")
    axes.set_ylim(bottom=0)


def less_by(found, slower, faster, figure):
    """What one's figure is less than the other's, as a part of that. None: that one was not above 0 in every repetition."""
    pairs = list(zip(values(found, slower, 8, figure), values(found, faster, 8, figure)))
    return labs.interval([1 - b / a for a, b in pairs]) if all(a > 0 for a, _ in pairs) else None


def judge_shares(section, words, shares, bears=False):
    """shares: (what of, interval or None, published)"""
    told, verdicts = [], []
    for what, here, then in shares:
        verdict = near.near_share(here, then) if here else None
        words_here = near.percent(here) if here else "unknown, because of a time below 0"
        told.append(f"{what} {words_here}, published {then:.0%}{'' if verdict else f' ({labs.AGREES[verdict]})'}")
        verdicts.append(verdict)
    section.check(near.all_of(verdicts), f"{words}: {'; '.join(told)}.", bears)


def judge_table(section, found, then):
    """For each figure, the order of every two systems, and what the smaller saves of the larger; then what half a round trip consists of."""
    for figure, title in FIGURES.items():
        shares = []
        for pair in PAIRS:
            slower, faster = sorted(pair, key=lambda name: then[name][figure], reverse=True)
            here, was = saved(found, slower, faster, figure), then[slower][figure] - then[faster][figure]
            section.compare(f"{title} of 8 bytes, {slower} minus {faster}", f"{labs.spread(here, 2)} us", f"{was:.2f} us", labs.is_saved(here),
                            bears=figure == "half_rtt_ns" and slower == RELIABLE)
            shares.append((f"{faster} of {slower}'s", less_by(found, slower, faster, figure), was / then[slower][figure]))
        judge_shares(section, f"What a smaller {title} saves", shares, bears=figure == "half_rtt_ns")
    for name in PUBLISHED:
        whole = values(found, name, 8, "half_rtt_ns")
        judge_shares(section, f"Parts of {name}'s RTT/2", [
            (FIGURES[figure], labs.interval([part / trip for part, trip in zip(values(found, name, 8, figure), whole)]),
             then[name][figure] / then[name]["half_rtt_ns"]) for figure in ("os_ns", "or_ns", "l_ns")])


def judge(section, found):
    then = {name: dict(zip(FIGURES, row)) for name, row in PUBLISHED.items()}
    all_of_it = saved(found, RELIABLE, RAW, "half_rtt_ns")
    half = {name: us(found, name, 8, "half_rtt_ns")["median"] for name in SYSTEMS}
    was = then[RELIABLE]["half_rtt_ns"] - then[RAW]["half_rtt_ns"]
    section.answer = (
        f"Half a round trip of 8 bytes takes {half[RELIABLE]:.2f} us with reliability, order and flow control (GM), {half[UNACKNOWLEDGED]:.2f} "
        f"without acknowledgements (GM+), and {half[RAW]:.2f} with none of them (BIP): they cost {labs.spread(all_of_it, 2)} us, "
        f"{all_of_it['median'] / half[RELIABLE]:.0%} of it (published {was:.2f} us, {was / then[RELIABLE]['half_rtt_ns']:.0%}).")
    section.why = "(GM's work was the card's then, whose processor had 66 MHz, and is the host's here.)"
    judge_table(section, found, then)
    parts = {name: us(found, name, 8, "l_ns")["median"] / half[name] for name in (RELIABLE, RAW)}
    section.text(
        f"What twenty-five years changed: the card. GM's protocol ran on a processor of the card's, at 66 MHz, so L was {then[RELIABLE]['l_ns'] / then[RELIABLE]['half_rtt_ns']:.0%} "
        f"of GM's half round trip and {then[RAW]['l_ns'] / then[RAW]['half_rtt_ns']:.0%} of BIP's; here all protocols run on the host's, and L is {parts[RELIABLE]:.0%} "
        f"and {parts[RAW]:.0%}: the queues between two cores. Copying 8 bytes into a device's memory was dear over a PCI bus and is "
        "cheap in a cache, so the overhead Os that BIP paid for its short way is gone.")
