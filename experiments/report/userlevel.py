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
    UNACKNOWLEDGED: ("gm.dot", ("--set", "gm.small=unreliable"), "as GM, but up to 256 bytes are not acknowledged", (looks.IPP, "D")),
    RAW: ("bip.dot", (), "nothing", (looks.OTHER, "s")),
    GENERAL: ("logp.dot", (), "nothing, but through any network", (looks.REGULAR, "^")),
}
FIGURES = {"half_rtt_ns": "RTT/2", "g_ns": "g", "os_ns": "Os", "or_ns": "Or", "l_ns": "L"}
PUBLISHED = {RELIABLE: (14.76, 18.23, 0.86, 1.93, 11.91), UNACKNOWLEDGED: (12.78, 8.55, 2.02, 1.29, 9.47),
             RAW: (6.65, 5.65, 5.04, 0.48, 1.13)}
SIZES = (8, 64, 256, 257, 512, 1024, 1436, 1480)  # BIP carries no more than a frame, which holds one fragment of GM's: 1436
FRAGMENT, MORE = 1436, 1480
LONG = (4096, 16384, 65000)
BENCH_GRAPHS = {GENERAL: "udptest.dot"}  # with udptest at the top
COUNTED = 10000  # messages whose instructions are counted
FRAGMENTED = 16000
SMALL = (8, 64, 256)  # bytes that GM+ sends without acknowledgements
PAIRS = ((RELIABLE, UNACKNOWLEDGED), (RELIABLE, RAW), (UNACKNOWLEDGED, RAW))
WAYS = {"one_way": "one way", "ping_pong": "there and back in turn", "both_ways": "both at once"}
FIGURE = {"one_way": 5, "ping_pong": 6, "both_ways": 7}
LINES = {RELIABLE: "-", UNACKNOWLEDGED: "--", RAW: "-.", GENERAL: ":"}
STREAMED = (64, 256, 1024, 4096, 16384, 65536)
TCP = {"large": "TCP, up to 64 KB at a time", "frames": "TCP, in frames of 1500 bytes"}
PART = 0.60  # of the hardware's bandwidth, published of TCP
COPIED = (16, 32, 64, 128, 192, 256, 320, 384, 448, 512, 768, 1024, 2048, 4096, 16384, 65536)
COPY_WAYS = {"send-copy": "sent, copied (PIO)", "send-reference": "sent by reference (DMA)", "receive-copy": "received, copied (PIO)"}


def run(lab):
    section = labs.Section(
        "userlevel", "What functionality costs", "What do reliability, order and flow control cost a message, and what does a raw layer save?", across=True)
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
    section.plot("Half a round trip here, by the length of a message (the paper's figure 8).", lambda axes: plot(axes, found),
                 "What a layer promises costs more than its bytes.")
    curves(section, found, model)
    features(section, found, model)
    timers(section, model)
    copies(section, lab, model)
    judge(section, found)
    streams(section, lab, found)
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


def draw_curves(axes, lines, unit, marks=()):
    """lines: {name: (look, {size: value or interval})}. marks: sizes at which something changes."""
    for name, (look, points) in lines.items():
        sizes = sorted(points)
        if isinstance(points[sizes[0]], dict):
            cells = [points[size] for size in sizes]
            axes.errorbar(sizes, [cell["median"] for cell in cells], looks.error(cells), label=name, markersize=4, linewidth=1.2, capsize=2, **look)
        else:
            axes.plot(sizes, [points[size] for size in sizes], label=name, **{"markersize": 3, "linewidth": 1.2, **look})
    for size in marks:
        axes.axvline(size, color="#010203", linewidth=0.4, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set_xticks([16, 256, 4096, 65536] if max(max(points) for _, points in lines.values()) > 8192 else [16, 64, 256, 1024, 4096])
    axes.minorticks_off()
    axes.set_xlabel("bytes")
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", fontsize=8)


def look_of(name):
    color, marker = SYSTEMS[name][3]
    return {"color": color, "marker": marker, "linestyle": LINES[name]}


def of_model(rates):
    return {int(size): rate for size, rate in rates.items()}


def curves(section, found, model):
    """The paper's figures 5 to 8, in the simulator; 5 to 7 here."""
    rates = {name: {way: of_model(ways[way]) for way in WAYS} for name, ways in model["bandwidths"].items()}
    sizes = sorted(rates[RAW]["one_way"])
    section.table("Bandwidths in the simulator: MB/s", ("bytes", *(f"{name}, {words}" for words in WAYS.values() for name in rates)),
                  [(str(size), *(f"{rates[name][way][size] / 1e6:.1f}" for way in WAYS for name in rates)) for size in sizes])
    fetched = {"DMA": (looks.FLOOR, {size: rate / 1e6 for size, rate in of_model(model["copies"]["DMA"]).items()})}
    for way, words in WAYS.items():
        lines = {name: (look_of(name), {size: rate / 1e6 for size, rate in ways[way].items()}) for name, ways in rates.items()}
        section.plot(f"Bandwidth {words}, in the simulator (the paper's figure {FIGURE[way]}); dotted: 256 bytes, where GM+ and BIP begin to fetch, and multiples "
                     f"of 4 KB, GM's longest fragment.{' DMA: what a card fetches.' if way == 'one_way' else ''}",
                     lambda axes, lines=lines | (fetched if way == "one_way" else {}): draw_curves(axes, lines, "MB/s", (256, 4096, 8192, 12288, 16384)), small=True)
    halves = {name: (look_of(name), {size: 1e6 * size / rate for size, rate in ways["ping_pong"].items() if size <= 4096}) for name, ways in rates.items()}
    section.plot("Half a round trip in the simulator (the paper's figure 8); dotted: 256 bytes.", lambda axes: draw_curves(axes, halves, "RTT/2, µs", (256,)),
                 small=True)
    for way, words in WAYS.items():
        lines = {name: (look_of(name), {int(size): bandwidth(found, name, size, way) for size in found[name]})
                 for name in (RELIABLE, UNACKNOWLEDGED, RAW, GENERAL)}
        section.plot(f"Bandwidth {words}, here (the paper's figure {FIGURE[way]}); dotted: 256 bytes, and {FRAGMENT}, GM's longest fragment in frames of 1500 bytes.",
                     lambda axes, lines=lines: draw_curves(axes, lines, "MB/s", (256, FRAGMENT)), small=True)


def features(section, found, model):
    """What the paper says of its figures 5 to 8."""
    def higher(way, sizes, pairs):
        """(whether of each pair the first is above the second at each size, where it is not)"""
        verdicts, others = [], []
        for size in sizes:
            for more, less in pairs:
                rates = list(zip(values(found, more, size, way), values(found, less, size, way)))
                verdicts.append(labs.is_saved(labs.interval([a - b for a, b in rates])))
                if verdicts[-1] is not True:
                    above, below = (labs.median([rate[i] for rate in rates]) / 1e6 for i in (0, 1))
                    others.append(f"{labs.bytes_of(size)}: {more} {above:.0f}, {less} {below:.0f} MB/s")
        return near.all_of(verdicts), f"Not in each repetition: {'; '.join(others)}."

    def byte_ns(less, more):
        pairs = zip(values(found, RAW, less, "one_way"), values(found, RAW, more, "one_way"))
        return [1e9 * (more / b - less / a) / (more - less) for a, b in pairs]

    def step(name, limit=1.0):
        """Whether a message of just more than a fragment has less bandwidth than one of a fragment."""
        pairs = zip(values(found, name, FRAGMENT, "one_way"), values(found, name, MORE, "one_way"))
        return labs.interval([limit * a - b for a, b in pairs])

    def acknowledged(size):
        halves = zip(*(values(found, name, size, "half_rtt_ns") for name in (RELIABLE, SENT_ONCE, RAW)))
        return labs.interval([(a - once) - max(0, a - raw) / 2 for a, once, raw in halves])

    before, after = byte_ns(64, 256), byte_ns(512, 1024)
    is_step = near.all_of((labs.is_saved(step(RELIABLE)), labs.is_saved(step(UNACKNOWLEDGED)), labs.is_saved({
        "low": -step(RAW, 1 - near.NEAR)["high"], "high": -step(RAW, 1 - near.NEAR)["low"]})))  # BIP may lose a little: noise
    teeth = ", ".join(f"{name} {bandwidth(found, name, FRAGMENT, 'one_way')['median']:.0f} and {bandwidth(found, name, MORE, 'one_way')['median']:.0f}"
                      for name in (RELIABLE, UNACKNOWLEDGED, RAW))
    halves = {name: us(found, name, 8, "half_rtt_ns")["median"] for name in (RELIABLE, SENT_ONCE, RAW)}
    systems = ((UNACKNOWLEDGED, RELIABLE), (RAW, RELIABLE))
    raw_first = ((RAW, RELIABLE), (RAW, UNACKNOWLEDGED))
    here = {
        "small": higher("one_way", SMALL, systems),
        "knee": (labs.is_saved(labs.interval([a - 1.2 * b for a, b in zip(before, after)])),
                 f"One byte more takes {labs.spread(labs.interval(before), 2)} ns from 64 to 256 bytes, {labs.spread(labs.interval(after), 2)} from 512 to 1024: "
                 "no other way of sending begins at 256 here."),
        "sawtooth": (is_step, f"Here a fragment is what a frame holds: with {FRAGMENT} and {MORE} bytes {teeth} MB/s."),
        "ping_pong": higher("ping_pong", SIZES, raw_first),
        "acknowledgements": (near.all_of(labs.is_saved(acknowledged(size)) for size in SMALL),
                             f"Half a round trip of 8 bytes: {halves[RELIABLE]:.2f} us by GM, {halves[SENT_ONCE]:.2f} without acknowledgements, {halves[RAW]:.2f} by BIP."),
        "both_ways": higher("both_ways", SMALL, systems),
        "long_both_ways": higher("both_ways", [size for size in SIZES if size > max(SMALL)], ((RAW, RELIABLE),)),
    }
    section.table("What the paper says of its figures 5 to 8", ("", "in the simulator", f"here, up to {SIZES[-1]} bytes"),
                  [(one["text"], labs.AGREES[one["agrees"]], labs.AGREES[here[one["name"]][0]] if one["name"] in here else "-") for one in model["features"]],
                  judged="each answer", unjudged=f"the rows without an answer here: BIP carries at most a frame, {SIZES[-1]} bytes, and MB/s and us are those "
                  "of another machine; and that a card's fetching bounds what goes one way, which the model has by construction")
    for one in model["features"]:
        section.check(one["agrees"], f"In the simulator, as published: {one['text']}{why_not(one, model)}")
        if one["name"] in here:
            agrees, evidence = here[one["name"]]
            section.check(agrees, f"Here, up to {SIZES[-1]} bytes, as published: {one['text']}{'' if agrees else f' {evidence}'}")


def why_not(one, model):
    """What the model's figures say of a statement that it contradicts, in words."""
    if one["agrees"]:
        return ""
    half_us = {name: {size: 1e6 * size / rate for size, rate in of_model(ways["ping_pong"]).items()} for name, ways in model["bandwidths"].items()}
    if one["name"] == "long_ping_pong":
        longest = max(half_us[RAW])
        first = min((size for size in half_us[RAW] if size > 4096 and half_us[RELIABLE][size] <= half_us[RAW][size]), default=longest)
        fetch, wire = model["fitted"]["card_kb_ns"] / 1000, model["wire_byte_ns"]
        return (f" GM passes it at {first} bytes. Each byte of {longest} takes BIP {1000 * half_us[RAW][longest] / longest:.1f} ns: its message is one frame, and is "
                f"fetched ({fetch:.1f}), sent ({wire:.1f}) and stored ({fetch:.1f}) one after the other. GM's fragments overlap: {1000 * half_us[RELIABLE][longest] / longest:.1f} ns.")
    if one["name"] == "acknowledgements":
        once = of_model(model["sent_once_ns"])[8] / 1000
        return (f" Half a round trip of 8 bytes: {half_us[RELIABLE][8]:.2f} us by GM, {once:.2f} without acknowledgements, {half_us[RAW][8]:.2f} by BIP. The rest is "
                "the work of the cards and the host's, which is fitted.")
    if one["name"] == "saved":
        saved = {size: half_us[RELIABLE][size] - half_us[UNACKNOWLEDGED][size] for size in half_us[RAW] if size <= max(SMALL)}
        return f" It is {max(saved.values()):.1f} us with {max(saved, key=saved.get)} bytes and {min(saved.values()):.1f} with {min(saved, key=saved.get)}."
    return ""


def timers(section, model):
    """Why the model's GM has no shorter time-out."""
    found = {name: of_model(rates) for name, rates in model["timers"].items()}
    sizes = sorted(found["1 ms"])
    section.table("Both ways at once in the simulator, GM by its least time-out: MB/s", ("", *map(labs.bytes_of, sizes)),
                  [(name, *(f"{rates[size] / 1e6:.1f}" for size in sizes)) for name, rates in found.items()])
    parts = {size: found["1 ms"][size] / found["20 ms"][size] for size in sizes}
    worst = min(parts, key=parts.get)
    section.text(
        f"With gm's usual least time-out, 1 ms, {found['1 ms'][worst] / 1e6:.1f} of {found['20 ms'][worst] / 1e6:.1f} MB/s remain at {worst} bytes, though no frame "
        "is lost. The cause is the time-out: an acknowledgement waits at both cards behind the other direction's frames, up to 64 KB of them, for more than 1 ms, and "
        f"GM sends all again. With 2 ms it is {found['2 ms'][worst] / 1e6:.1f} MB/s, and {found['none, sent once'][worst] / 1e6:.1f} if messages are sent once, without "
        "acknowledgements. The model therefore waits 20 ms, as gm does before it knows a round trip.")


def copies(section, lab, model):
    """The paper's figure 4."""
    rates = {name: {size: rate / 1e6 for size, rate in of_model(one).items()} for name, one in model["copies"].items()}
    section.plot("To the card, as the model has it: by the host's processor (PIO), and fetched by the card (DMA) (the paper's figure 4). Both take as long for 256 bytes "
                 "(dotted), which is given.",
                 lambda axes: draw_curves(axes, {"PIO": ({"color": looks.IPP, "marker": "D"}, rates["PIO"]), "DMA": ({"color": looks.HANDOFF, "marker": "o"}, rates["DMA"])},
                                          "MB/s", (256,)), small=True)
    runs = [lab.bench("copy", "--size", ",".join(map(str, COPIED)), "--way", ",".join(COPY_WAYS), "--rounds", str(lab.rounds(3200, 320)))["runs"]
            for _ in range(lab.repeats)]
    ns = section.data["copies"] = {way: {size: [run[place][way] for run in runs] for place, size in enumerate(COPIED)} for way in COPY_WAYS}
    section.table("What it costs here to send a message by copy and by reference, and to receive it by copy (xk bench copy): ns", ("bytes", *COPY_WAYS.values()),
                  [(str(size), *(labs.spread(labs.interval(ns[way][size])) for way in COPY_WAYS)) for size in COPIED],
                  judged="the statements of the paper's figure 4 on small messages and on reading and writing by the processor",
                  unjudged="that a card stores faster than it fetches: a message by reference is not moved here")
    drawn = [size for size in COPIED if size <= 4096]
    section.plot("A message sent by copy and by reference here, and received by copy, up to 4 KB (the paper's figure 4); dotted: 256 bytes.",
                 lambda axes: draw_curves(axes, {words: ({"color": color, "marker": marker}, {size: labs.interval(ns[way][size]) for size in drawn})
                                                 for (way, words), (color, marker) in zip(COPY_WAYS.items(), ((looks.IPP, "D"), (looks.HANDOFF, "o"), (looks.OTHER, "s")))},
                                          "ns", (256,)), small=True)

    def saves(size):
        return labs.interval([b - a for a, b in zip(ns["send-copy"][size], ns["send-reference"][size])])

    crossing = next((size for size in COPIED if all(saves(other)["median"] < 0 for other in COPIED if other >= size)), None)
    crossed = f"by reference is cheaper from {crossing} bytes on" if crossing else "by reference is never cheaper"
    section.check(near.all_of(labs.is_saved(saves(size)) for size in COPIED if size <= 256),
                  f"A processor's copy is faster than handing over the bytes' place up to 256 bytes, as published of PIO and DMA: with 64 bytes {labs.spread(saves(64))} ns, "
                  f"with 256 {labs.spread(saves(256))}; {crossed}.")
    long = COPIED[-1]
    section.check(labs.is_saved({"low": -saves(long)["high"], "high": -saves(long)["low"]}),
                  f"... and slower for long messages: with {long} bytes a copy takes {labs.interval(ns['send-copy'][long])['median']:.0f} ns, a reference "
                  f"{labs.interval(ns['send-reference'][long])['median']:.0f}.")
    ratio = labs.interval([a / b for a, b in zip(ns["send-copy"][long], ns["receive-copy"][long])])
    is_slower = near.within(ratio, 0, 1 - near.NEAR)
    section.check(is_slower, f"A processor reads significantly slower than it writes (published of PIO; here: by more than {near.NEAR:.0%}): receiving {long} bytes by copy "
                  f"has {labs.spread(ratio, 2)} times the bandwidth of sending them."
                  + (" Both sides are memory here; over a PCI bus a processor waits for each word that it reads." if is_slower is False else ""))


def streams(section, lab, found):
    """The paper's figure 1: TCP beside the raw link."""
    what = "TCP's highest bandwidth, as a part of the raw link's (figure 1)"
    sizes = STREAMED[::3] if lab.brief else STREAMED
    document = section.data["streams"] = lab.script(
        "endpoints/ladder.py", "--cores", lab.cores, "--streams", "--sizes", ",".join(map(str, sizes)), "--rounds", str(lab.rounds(10000, 500)),
        *(lab.far.options() if lab.far else ()))
    if document["missing"]:
        section.compare(what, "not measured", f"{PART:.0%}", f"missing: {document['missing']['streams']}")
        return
    rates = {name: {size: {"low": 1e3 * size / cells[str(size)]["max"], "median": 1e3 * size / cells[str(size)]["median"], "high": 1e3 * size / cells[str(size)]["min"]}
                    for size in sizes} for name, cells in document["streams"].items()}
    raw = {size: bandwidth(found, RAW, size, "one_way") for size in SIZES}
    section.table(f"One way by Linux's TCP over {lab.far.links[0] if lab.far else 'a veth'}, by the bytes of each system call: MB/s", ("", *map(labs.bytes_of, sizes)),
                  [(TCP[name], *(labs.spread(cells[size], 0) for size in sizes)) for name, cells in rates.items()],
                  judged=f"TCP's part of the raw link's bandwidth (published: {PART:.0%})",
                  unjudged="what of the rest is due to copies, to system calls and to buffers: TCP without them was measured neither then nor here")
    section.plot("Linux's TCP, and the raw link (BIP) with frames of up to 1500 bytes (the paper's figure 1).", lambda axes: draw_curves(
        axes, {**{TCP[name]: ({"color": color, "marker": marker, "linestyle": style}, rates[name])
                  for name, (color, marker, style) in {"large": (looks.HANDOFF, "o", "-"), "frames": (looks.IPP, "D", "--")}.items() if name in rates},
               "raw link": (look_of(RAW), raw)}, "MB/s"), small=True)
    best = {name: max(cells.values(), key=lambda cell: cell["median"]) for name, cells in rates.items()}
    name = "frames" if "frames" in best else "large"
    top = max(raw.values(), key=lambda cell: cell["median"])
    part = {"low": best[name]["low"] / top["high"], "median": best[name]["median"] / top["median"], "high": best[name]["high"] / top["low"]}
    section.compare(what, near.percent(part), f"about {PART:.0%}", near.near(part, PART))
    if name == "frames":
        section.text(
            f"The raw link, here shared memory between two processes, carries {top['median']:.0f} MB/s by BIP; TCP {best['frames']['median']:.0f} in frames as long, which is "
            f"what the check compares, and {best['large']['median']:.0f} where Linux moves up to 64 KB through its protocols at once, as a card of today lets it. No wire "
            f"limits either: what is compared is only processors' work for 1500 bytes, {1.5e6 / best['frames']['median']:.0f} ns by TCP and {1.5e6 / top['median']:.0f} by BIP. "
            + ("The paper's wire, which had to be filled, made the two more alike." if part["median"] < PART else ""))


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
