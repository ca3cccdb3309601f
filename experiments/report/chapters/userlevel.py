"""userlevel.py - what functionality costs: table 1 of Chen and Watson, "User Level Communication on Alpha Linux Systems"."""
import re
import shutil
import subprocess

import lab as labs
import looks
import near

RELIABLE, UNACKNOWLEDGED, RAW, GENERAL = "GM", "GM+", "BIP", "UDP/IP"
UNCONTROLLED, SENT_ONCE, NEITHER = "GM without flow control", "GM without reliability", "GM without both"
SYSTEMS = {  # graph, settings, guarantees, and color and marker in plots
    RELIABLE: ("gm.dot", (), "reliable, in order, flow control", (looks.HANDOFF, "o")),
    UNCONTROLLED: ("gm.dot", ("--set", "gm.flow=no"), "reliable, in order", (looks.HANDOFF, "v")),
    SENT_ONCE: ("gm.dot", ("--set", "gm.reliable=no"), "in order, flow control", (looks.IPP, "<")),
    NEITHER: ("gm.dot", ("--set", "gm.reliable=no", "--set", "gm.flow=no"), "in order", (looks.IPP, ">")),
    UNACKNOWLEDGED: ("gm.dot", ("--set", "gm.small=unreliable"), "as GM, but messages of up to 256 bytes are not acknowledged", (looks.IPP, "D")),
    RAW: ("bip.dot", (), "nothing", (looks.OTHER, "s")),
    GENERAL: ("logp.dot", (), "nothing, but through any network", (looks.REGULAR, "^")),
}
FIGURES = {"half_rtt_ns": "RTT/2", "g_ns": "g", "os_ns": "Os", "or_ns": "Or", "l_ns": "L"}
PUBLISHED = {RELIABLE: (14.76, 18.23, 0.86, 1.93, 11.91), UNACKNOWLEDGED: (12.78, 8.55, 2.02, 1.29, 9.47),
             RAW: (6.65, 5.65, 5.04, 0.48, 1.13)}
SIZES = (8, 64, 256, 257, 512, 1024, 1436, 1480)  # BIP carries at most one frame; GM's fragments are 1436 bytes
FRAGMENT, MORE = 1436, 1480
LONG = (4096, 16384, 65000)
BENCH_GRAPHS = {GENERAL: "udptest.dot"}  # with udptest at the top
COUNTED = 10000  # messages whose instructions are counted
FRAGMENTED = 16000
SMALL = (8, 64, 256)  # bytes that GM+ sends without acknowledgements
PAIRS = ((RELIABLE, UNACKNOWLEDGED), (RELIABLE, RAW), (UNACKNOWLEDGED, RAW))
PATTERNS = {"one_way": "one way", "ping_pong": "ping-pong", "both_ways": "both ways at once"}
FIGURE = {"one_way": 5, "ping_pong": 6, "both_ways": 7}
LINES = {RELIABLE: "-", UNACKNOWLEDGED: "--", RAW: "-.", GENERAL: ":"}
STREAMED = (64, 256, 1024, 4096, 16384, 65536)
TCP = {"large": "TCP, up to 64 KB at a time", "frames": "TCP, in frames of 1500 bytes"}
PART = 0.60  # TCP's part of the hardware's bandwidth, published
LATENCY_US = (5, 15)  # for short messages, published
WITHIN = f"within {near.NEAR:.0%}"
STEP = 1.5  # times: cache line times farther apart belong to different placements of the processors
COPIED = (16, 32, 64, 128, 192, 256, 320, 384, 448, 512, 768, 1024, 2048, 4096, 16384, 65536)
COPY_METHODS = {"send-copy": "sent, copied (PIO)", "send-reference": "sent by reference (DMA)", "receive-copy": "received, copied (PIO)"}


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
                found[name].setdefault(str(one["size"]), []).append(one | {"lines_ns": labs.lines_of(document)})
            lab.progress((turn + (number + 1) / len(SYSTEMS)) / lab.repeats)
    section.text(
        "In 2000 J. Chen and W. Watson compared three systems on a Myrinet, where programs reach the network's card without their operating "
        "system. GM's messages are reliable, in order and under flow control. GM+ sends short messages without acknowledgements. BIP has none of these properties. "
        "Each is a protocol here (with UDP/IP as the general case), and GM's flow control and reliability can be switched off one by one. They run below one program, between two polling processes. LogP's parameters show where a "
        "message's time goes: the sender's processor is busy for Os, the receiver's for Or, the network in between takes L, and one "
        "message follows another after g. They come from loops of messages with work between them (docs/measuring.md).")
    section.table(
        "After Chen and Watson's table 1: microseconds, messages of 8 bytes", ("", *FIGURES.values()),
        [row for name in SYSTEMS for row in (
            *((f"{name}: {SYSTEMS[name][2]}{words}", *(labs.spread(us(found, name, 8, figure, turns), 2) for figure in FIGURES))
              for words, turns in rows_of(found, name)),
            ("published", *(map(str, PUBLISHED[name]) if name in PUBLISHED else "-" * len(FIGURES))))],
        checked="the order of every two systems by each figure, and the saving of the smaller relative to the larger; the parts of RTT/2",
        unchecked="the times themselves, which are another machine's")
    placements(section, found)
    section.data["parts"] = parts = {name: spent(lab, name) for name in SYSTEMS}
    costs(section, parts)
    section.data["model"] = model = lab.script("userlevel/myrinet.py")
    simulated(section, model)
    for pattern, words in PATTERNS.items():
        section.table(
            f"Bandwidth, {words}: MB/s", ("", *map(labs.bytes_of, (*SIZES, *LONG))),
            [(f"{name}{words}", *(f"{bandwidth(found, name, size, pattern, turns)['median']:.0f}" if str(size) in found[name] else "-" for size in (*SIZES, *LONG)))
             for name in SYSTEMS for words, turns in rows_of(found, name)])
    section.plot(f"Half a round trip here, by the length of a message (the paper's figure 8){most_of(found)}.", lambda axes: plot(axes, found),
                 "A layer's guarantees cost more than its bytes.")
    curves(section, found, model)
    features(section, found, model)
    timers(section, model)
    copies(section, lab, model)
    switched_off(section, found, parts)
    assess(section, found)
    streams(section, lab, found)
    return section


# ---- the cost of each function ----


def spent(lab, name):
    """Measures a message's nanoseconds, instructions and buffers, in one process."""
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
    """Returns the instructions per message at one end, or the reason why they cannot be counted."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    rounds = lab.rounds(COUNTED, COUNTED)  # counts are exact, so only tests need fewer
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no", f"{lab.build}/xk", "bench", "message",
               "--count", end, "--rounds", str(rounds), *options]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or collected is None:
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "valgrind failed"
    return int(collected[1]) / rounds


def costs(section, parts):
    def count(name, end):
        number = parts[name]["instructions"].get(end, "")
        return "-" if isinstance(number, str) else f"{number:.0f}"

    section.table(
        "The cost of each function for a message of 8 bytes in one process, without a wire: the instructions of its sender and of its receiver, answers "
        f"included; the nanoseconds of both, from a single run; and the buffers held while {parts[RELIABLE]['under_way']} messages are in flight, and after all but the last "
        f"frame of a message of {FRAGMENTED} bytes have arrived",
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
        "tokens anyway. It holds no memory, and bounds the memory that reliability holds. "
        f"Reliability costs {reliability['sender']} and {reliability['receiver']} instructions, one more frame per message, and "
        f"{held} buffers at the sender for {parts[RELIABLE]['under_way']} messages until they are acknowledged. "
        f"The rest (order, reboots of hosts, fragments) costs {order['sender']} and {order['receiver']} instructions more than BIP.")
    total = {name: sum(one["instructions"].values()) for name, one in parts.items()}
    section.check(total[RELIABLE] > total[SENT_ONCE] > total[NEITHER] > total[RAW],
                  f"Each function costs instructions: {total[RELIABLE]:.0f} per message with both, {total[SENT_ONCE]:.0f} without reliability, "
                  f"{total[NEITHER]:.0f} without both, {total[RAW]:.0f} with BIP.", across=False)
    section.check(parts[SENT_ONCE]["buffers"]["sender"] == 0 < held, f"Only reliability holds buffers at the sender: {held} for {parts[RELIABLE]['under_way']} messages.", across=False)


# ---- in the simulator ----


def simulated(section, model):
    def cell(name, figure):
        us, then = model["table_ns"][name][figure] / 1000, model["published_us"][name][figure]
        return f"{us:.2f} ({then}), " + ("fitted" if figure in model["given"][name] else f"{100 * (us / then - 1):+.0f} %")

    section.table("Table 1 in the simulator (experiments/userlevel/myrinet.py): microseconds, published in brackets; fitted, or the prediction's error",
                  ("", *model["figures"].values()), [(name, *(cell(name, figure) for figure in row)) for name, row in model["table_ns"].items()],
                  checked=f"each predicted figure, which should be within {near.NEAR:.0%}, and the ratio of GM's and GM+'s g",
                  unchecked="fitted figures, to which the costs were fitted")
    fitted = model["fitted"]
    gaps, then = (one[RELIABLE]["g_ns"] / one[UNACKNOWLEDGED]["g_ns"] for one in (model["table_ns"], model["published_us"]))
    section.text(
        f"The hosts of 2000 have cards with a processor of their own, which spends {fitted['gm_card_ns'] / 1000:.1f} us on a frame of GM's, and {fitted['bip_card_ns'] / 1000:.1f} us on one of BIP's, at "
        f"each end. A card begins to fetch a frame in {fitted['dma_ns'] / 1000:.1f} us, or the host's processor writes it at {1e6 / fitted['write_kb_ns']:.0f} MB/s. "
        "The predicted gaps of GM and GM+ are too short: the published gaps and L fit together only if nearly all of the work was done at one end. The gaps' "
        f"ratio is {gaps:.1f} (published {then:.1f}): a message that is fetched and acknowledged occupies the cards more than twice as long.")
    for name, row in model["table_ns"].items():
        for figure in row:
            if figure not in model["given"][name]:
                us, was = row[figure] / 1000, model["published_us"][name][figure]
                section.check(near.near(near.exactly(us / was), 1), f"In the simulator, {name}'s {FIGURES[figure]} is predicted as {us:.2f} us, {us / was - 1:+.0%}; published {was}.", rule=WITHIN, across=False)
    short = [1e6 * size / rate for patterns in model["bandwidths"].values() for size, rate in of_model(patterns["ping_pong"]).items() if size <= max(SMALL)]
    low, high = LATENCY_US
    section.check(low * (1 - near.NEAR) <= min(short) and max(short) <= high * (1 + near.NEAR),
                  f"In the simulator, RTT/2 of up to {max(SMALL)} bytes ranges from {min(short):.2f} to {max(short):.2f} us; published {low} to {high} for short messages "
                  f"(table 1's values for 8 bytes range from {min(row[0] for row in PUBLISHED.values())} to {max(row[0] for row in PUBLISHED.values())}, and two of them are fitted).",
                  rule=f"within these limits, or {near.NEAR:.0%} beyond", across=False)
    section.check(near.near(near.exactly(gaps), then), f"In the simulator, GM's g is {gaps:.2f} times GM+'s; published {then:.2f}.", rule=WITHIN, across=False)


def draw_curves(axes, lines, unit, marks=()):
    """Draws lines: {name: (style, {size: value or interval})}. marks: sizes at which something changes."""
    for name, (style, points) in lines.items():
        sizes = sorted(points)
        if isinstance(points[sizes[0]], dict):
            cells = [points[size] for size in sizes]
            axes.errorbar(sizes, [cell["median"] for cell in cells], looks.error(cells), label=name, markersize=4, linewidth=1.2, capsize=2, **style)
        else:
            axes.plot(sizes, [points[size] for size in sizes], label=name, **{"markersize": 3, "linewidth": 1.2, **style})
    for size in marks:
        axes.axvline(size, color="#010203", linewidth=0.4, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set_xticks([16, 256, 4096, 65536] if max(max(points) for _, points in lines.values()) > 8192 else [16, 64, 256, 1024, 4096])
    axes.minorticks_off()
    axes.set_xlabel("bytes")
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", fontsize=8)


def style_of(name):
    color, marker = SYSTEMS[name][3]
    return {"color": color, "marker": marker, "linestyle": LINES[name]}


def of_model(rates):
    return {int(size): rate for size, rate in rates.items()}


def curves(section, found, model):
    """Plots the paper's figures 5 to 8 in the simulator, and 5 to 7 here."""
    rates = {name: {pattern: of_model(patterns[pattern]) for pattern in PATTERNS} for name, patterns in model["bandwidths"].items()}
    sizes = sorted(rates[RAW]["one_way"])
    section.table("Bandwidths in the simulator: MB/s", ("bytes", *(f"{name}, {words}" for words in PATTERNS.values() for name in rates)),
                  [(str(size), *(f"{rates[name][pattern][size] / 1e6:.1f}" for pattern in PATTERNS for name in rates)) for size in sizes])
    fetched = {"DMA": (looks.FLOOR, {size: rate / 1e6 for size, rate in of_model(model["copies"]["DMA"]).items()})}
    for pattern, words in PATTERNS.items():
        lines = {name: (style_of(name), {size: rate / 1e6 for size, rate in patterns[pattern].items()}) for name, patterns in rates.items()}
        section.plot(f"Bandwidth, {words}, in the simulator (the paper's figure {FIGURE[pattern]}); dotted: 256 bytes, where GM+ and BIP begin to fetch, and multiples "
                     f"of 4 KB, GM's longest fragment.{' DMA: fetching by a card.' if pattern == 'one_way' else ''}",
                     lambda axes, lines=lines | (fetched if pattern == "one_way" else {}): draw_curves(axes, lines, "MB/s", (256, 4096, 8192, 12288, 16384)), small=True)
    halves = {name: (style_of(name), {size: 1e6 * size / rate for size, rate in patterns["ping_pong"].items() if size <= 4096}) for name, patterns in rates.items()}
    section.plot("Half a round trip in the simulator (the paper's figure 8); dotted: 256 bytes.", lambda axes: draw_curves(axes, halves, "RTT/2, µs", (256,)),
                 small=True)
    for pattern, words in PATTERNS.items():
        lines = {name: (style_of(name), {int(size): bandwidth(found, name, size, pattern) for size in found[name]})
                 for name in (RELIABLE, UNACKNOWLEDGED, RAW, GENERAL)}
        section.plot(f"Bandwidth, {words}, here (the paper's figure {FIGURE[pattern]}); dotted: 256 bytes, and {FRAGMENT}, GM's longest fragment in frames of 1500 bytes.",
                     lambda axes, lines=lines: draw_curves(axes, lines, "MB/s", (256, FRAGMENT)), small=True)


def features(section, found, model):
    """Checks the paper's statements on its figures 5 to 8."""
    def higher(pattern, sizes, pairs):
        """Returns (whether each pair's first is above its second at each size, where it is not)."""
        verdicts, others = [], []
        for size in sizes:
            for more, less in pairs:
                cells = (more, size, pattern), (less, size, pattern)
                verdicts.append(is_saved(paired_by(found, lambda a, b: a - b, *cells)))
                if verdicts[-1] is not True:
                    ratio = paired_by(found, lambda a, b: a / b, *cells)
                    others.append(f"{labs.bytes_of(size)}: {more} {labs.spread(ratio, 2) if ratio else 'an unknown number of'} times {less}")
        return near.all_of(verdicts), f"Not in each repetition: {'; '.join(others)}."

    def acknowledged(size):
        return paired_by(found, lambda a, once, raw: (a - once) - max(0, a - raw) / 2, *((name, size, "half_rtt_ns") for name in (RELIABLE, SENT_ONCE, RAW)))

    ratios = {name: paired_by(found, lambda a, b: b / a, (name, FRAGMENT, "one_way"), (name, MORE, "one_way")) for name in (RELIABLE, UNACKNOWLEDGED, RAW)}
    teeth = ", ".join(f"{name} {labs.spread(ratio, 2)}" for name, ratio in ratios.items() if ratio)
    longer = {other: differences_text(found, less_us, (RELIABLE, 8, "half_rtt_ns"), (other, 8, "half_rtt_ns")) for other in (SENT_ONCE, RAW)}
    systems = ((UNACKNOWLEDGED, RELIABLE), (RAW, RELIABLE))
    raw_first = ((RAW, RELIABLE), (RAW, UNACKNOWLEDGED))
    here = {
        "small": higher("one_way", SMALL, systems),
        "ping_pong": higher("ping_pong", SIZES, raw_first),
        "acknowledgements": (near.all_of(is_saved(acknowledged(size)) for size in SMALL),
                             f"Half a round trip of 8 bytes by GM takes {longer[SENT_ONCE]} us longer than without acknowledgements, and {longer[RAW]} us longer than by BIP."),
        "both_ways": higher("both_ways", SMALL, systems),
        "long_both_ways": higher("both_ways", [size for size in SIZES if size > max(SMALL)], ((RAW, RELIABLE),)),
    }
    section.table("The paper's statements on its figures 5 to 8", ("", "in the simulator", f"here, up to {SIZES[-1]} bytes"),
                  [(one["text"], labs.AGREES[one["agrees"]], labs.AGREES[here[one["name"]][0]] if one["name"] in here else "-") for one in model["features"]],
                  checked="each answer", unchecked=f"the rows without an answer here: BIP carries at most one frame, {SIZES[-1]} bytes, and MB/s and us are those "
                  "of another machine; and what the model has by construction: a card's fetching bounds one-way traffic, and BIP has a knee at 256 bytes, where its way of sending does not change here")
    section.compare("the sawtooth of GM and GM+, one way (figure 5)",
                    f"at the one measured step, from {FRAGMENT} bytes, a fragment here, to {MORE}, bandwidth changes by a factor of {teeth or 'an unknown size'}",
                    "teeth of 4 KB, and none for BIP", "one step is no sawtooth, and BIP carries no message longer than a frame. In the simulator four teeth are checked")
    for one in model["features"]:
        section.check(one["agrees"], f"In the simulator, as published: {one['text']}{why_not(one, model)}", across=False)
        if one["name"] in here:
            agrees, evidence = here[one["name"]]
            section.check(agrees, f"Here, up to {SIZES[-1]} bytes, as published: {one['text']}{'' if agrees else f' {evidence}'}", rule=labs.SIGNS)


def why_not(one, model):
    """Returns the model's figures for a statement that it contradicts, in words."""
    if one["agrees"]:
        return ""
    half_us = {name: {size: 1e6 * size / rate for size, rate in of_model(patterns["ping_pong"]).items()} for name, patterns in model["bandwidths"].items()}
    if one["name"] == "long_ping_pong":
        longest = max(half_us[RAW])
        first = min((size for size in half_us[RAW] if size > 4096 and half_us[RELIABLE][size] <= half_us[RAW][size]), default=longest)
        fetch, wire = model["fitted"]["card_kb_ns"] / 1000, model["wire_byte_ns"]
        return (f" GM passes it at {first} bytes. Each byte of {longest} takes BIP {1000 * half_us[RAW][longest] / longest:.1f} ns: its message is one frame, which is "
                f"fetched ({fetch:.1f}), sent ({wire:.1f}) and stored ({fetch:.1f}) one after the other. GM's fragments overlap: {1000 * half_us[RELIABLE][longest] / longest:.1f} ns.")
    if one["name"] == "acknowledgements":
        once = of_model(model["sent_once_ns"])[8] / 1000
        return (f" Half a round trip of 8 bytes: {half_us[RELIABLE][8]:.2f} us by GM, {once:.2f} without acknowledgements, {half_us[RAW][8]:.2f} by BIP. The rest is "
                "the work of the cards and the hosts, which is fitted.")
    if one["name"] == "saved":
        saved = {size: half_us[RELIABLE][size] - half_us[UNACKNOWLEDGED][size] for size in half_us[RAW] if size <= max(SMALL)}
        return f" It is {max(saved.values()):.1f} us for {max(saved, key=saved.get)} bytes and {min(saved.values()):.1f} for {min(saved, key=saved.get)}."
    return ""


def timers(section, model):
    """Explains why the model's GM has no shorter timeout."""
    found = {name: of_model(rates) for name, rates in model["timers"].items()}
    sizes = sorted(found["1 ms"])
    section.table("Both ways at once in the simulator, GM by its least timeout: MB/s", ("", *map(labs.bytes_of, sizes)),
                  [(name, *(f"{rates[size] / 1e6:.1f}" for size in sizes)) for name, rates in found.items()])
    parts = {size: found["1 ms"][size] / found["20 ms"][size] for size in sizes}
    worst = min(parts, key=parts.get)
    section.text(
        f"With gm's default least timeout, 1 ms, {found['1 ms'][worst] / 1e6:.1f} of {found['20 ms'][worst] / 1e6:.1f} MB/s remain at {worst} bytes, though no frame "
        "is lost. The cause is the timeout: an acknowledgement waits at both cards behind the other direction's frames, up to 64 KB of them, for more than 1 ms, and "
        f"GM retransmits everything. With 2 ms it is {found['2 ms'][worst] / 1e6:.1f} MB/s, and {found['none, sent once'][worst] / 1e6:.1f} if messages are sent once, without "
        "acknowledgements. The model therefore waits 20 ms, as gm does before it has measured a round trip.")


def copies(section, lab, model):
    """Reports the paper's figure 4: copies by the processor and by the card."""
    rates = {name: {size: rate / 1e6 for size, rate in of_model(one).items()} for name, one in model["copies"].items()}
    section.plot("Copying to the card in the model: by the host's processor (PIO), and fetched by the card (DMA) (the paper's figure 4). Both take equally long for 256 bytes "
                 "(dotted), which is given.",
                 lambda axes: draw_curves(axes, {"PIO": ({"color": looks.IPP, "marker": "D"}, rates["PIO"]), "DMA": ({"color": looks.HANDOFF, "marker": "o"}, rates["DMA"])},
                                          "MB/s", (256,)), small=True)
    runs = [lab.bench("copy", "--size", ",".join(map(str, COPIED)), "--way", ",".join(COPY_METHODS), "--rounds", str(lab.rounds(3200, 320)))["runs"]
            for _ in range(lab.repeats)]
    ns = section.data["copies"] = {method: {size: [run[place][method] for run in runs] for place, size in enumerate(COPIED)} for method in COPY_METHODS}
    section.table("The cost here of sending a message by copy and by reference, and of receiving it by copy (xk bench copy): ns", ("bytes", *COPY_METHODS.values()),
                  [(str(size), *(labs.spread(labs.interval(ns[method][size])) for method in COPY_METHODS)) for size in COPIED],
                  checked="the paper's statement on reading and writing by the processor (figure 4)",
                  unchecked="its statement on a card's fetching and storing (DMA): a message by reference is not moved here")
    drawn = [size for size in COPIED if size <= 4096]
    section.plot("A message sent by copy and by reference here, and received by copy, up to 4 KB (the paper's figure 4); dotted: 256 bytes.",
                 lambda axes: draw_curves(axes, {words: ({"color": color, "marker": marker}, {size: labs.interval(ns[method][size]) for size in drawn})
                                                 for (method, words), (color, marker) in zip(COPY_METHODS.items(), ((looks.IPP, "D"), (looks.HANDOFF, "o"), (looks.OTHER, "s")))},
                                          "ns", (256,)), small=True)

    def saves(size):
        return labs.interval([b - a for a, b in zip(ns["send-copy"][size], ns["send-reference"][size])])

    crossing = next((size for size in COPIED if all(saves(other)["median"] < 0 for other in COPIED if other >= size)), None)
    long = COPIED[-1]
    section.compare("the size up to which a processor's copy to the card (PIO) is faster than the card's own fetching (DMA; figure 4)",
                    f"a copy {'is cheaper than a reference below ' + str(crossing) + ' bytes' if crossing else 'is always cheaper than a reference'}: for 64 bytes by {labs.spread(saves(64))} ns, "
                    f"for 256 by {labs.spread(saves(256))}; for {long} a copy takes {labs.interval(ns['send-copy'][long])['median']:.0f} ns, a reference {labs.interval(ns['send-reference'][long])['median']:.0f}",
                    "256 bytes", "no card fetches here: a reference hands over the bytes' address and moves none of them, so it is no DMA. In the simulator 256 bytes are given")
    ratio = labs.interval([a / b for a, b in zip(ns["send-copy"][long], ns["receive-copy"][long])])
    is_slower = near.within(ratio, 0, 1 - near.NEAR)
    section.check(is_slower, f"A processor reads significantly slower than it writes (published for PIO; here: by more than {near.NEAR:.0%}): receiving {long} bytes by copy "
                  f"has {labs.spread(ratio, 2)} times the bandwidth of sending them."
                  + (" Both sides are memory here; over a PCI bus a processor waits for each word it reads." if is_slower is False else ""), across=False)


def streams(section, lab, found):
    """Reports the paper's figure 1: TCP beside the raw link."""
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
                  unchecked=f"TCP's part of the raw link's bandwidth (published: {PART:.0%}), because the two do not share a link here; the shares of copies, system calls and buffers in the rest: TCP without them was measured neither then nor here")
    section.plot("Linux's TCP, and the raw link (BIP) with frames of up to 1500 bytes (the paper's figure 1).", lambda axes: draw_curves(
        axes, {**{TCP[name]: ({"color": color, "marker": marker, "linestyle": style}, rates[name])
                  for name, (color, marker, style) in {"large": (looks.HANDOFF, "o", "-"), "frames": (looks.IPP, "D", "--")}.items() if name in rates},
               "raw link": (style_of(RAW), raw)}, "MB/s"), small=True)
    best = {name: max(cells.values(), key=lambda cell: cell["median"]) for name, cells in rates.items()}
    top = max(raw.values(), key=lambda cell: cell["median"])
    parts = {name: {"low": cell["low"] / top["high"], "median": cell["median"] / top["median"], "high": cell["high"] / top["low"]} for name, cell in best.items()}
    section.compare(what, "; ".join(f"{near.percent(part)} by {TCP[name]}" for name, part in parts.items()), f"about {PART:.0%}, with jumbo frames and checksums by the card",
                    "the paper's TCP and its raw link shared one wire; here TCP runs over a veth, the raw link is memory shared by two processes, and no wire limits either. "
                    "TCP in frames of 1500 bytes has neither of the paper's two aids, and TCP with up to 64 KB at a time has more than these")
    section.text(
        f"The raw link, here memory shared by two processes, carries {top['median']:.0f} MB/s by BIP{most_of(found)}, in frames of up to 1500 bytes; TCP "
        + " and ".join(f"{best[name]['median']:.0f} ({TCP[name].removeprefix('TCP, ')})" for name in best) + f". So the part of the raw bandwidth that TCP reaches, "
        f"{' or '.join(format(part['median'], '.0%') for part in parts.values())}, depends on how much its protocols handle at once, and says nothing about the paper's {PART:.0%}, "
        "which was measured on one wire.")


# ---- repetitions, and the placement of the processors in each ----


def levels(found):
    """Returns (least, greatest) cache line time between the processors of each placement found in all runs: a virtual machine's placement changes."""
    found_ns = sorted(ns for sizes in found.values() for one in sizes[str(SIZES[0])] for ns in one.get("lines_ns", ()))
    cuts = [place for place in range(1, len(found_ns)) if found_ns[place] > STEP * found_ns[place - 1]]
    return [(found_ns[a], found_ns[b - 1]) for a, b in zip((0, *cuts), (*cuts, len(found_ns))) if b > a]


def level_of(found, name, turn):
    """Returns the index in levels() of a run's placement: 0 also if unknown, None if the placement changed during the run."""
    lines_ns = found[name][str(SIZES[0])][turn].get("lines_ns", ())
    at = {place for place, (low, high) in enumerate(levels(found)) for ns in lines_ns if low <= ns <= high} or {0}
    return at.pop() if len(at) == 1 else None


def turns_by_level(found, *names):
    """Returns {level: repetitions in which all of these systems' runs had that placement}."""
    turns = {}
    for turn in range(min(len(found[name][str(SIZES[0])]) for name in names)):
        at = {level_of(found, name, turn) for name in names}
        if len(at) == 1 and None not in at:
            turns.setdefault(at.pop(), []).append(turn)
    return dict(sorted(turns.items()))


def line_words(found, level):
    """Describes a placement."""
    last = len(levels(found)) - 1
    return "near" if level == 0 else "far" if level == last else f"between, {level}"


def rows_of(found, name):
    """Returns (words, repetitions) of each of a system's rows in a table: one per placement of the processors."""
    turns = turns_by_level(found, name)
    if len(levels(found)) < 2:
        return [("", some) for some in turns.values()]
    count = len(found[name][str(SIZES[0])])
    changed = [turn for turn in range(count) if level_of(found, name, turn) is None]
    return [(f" ({words}, {len(some)} of {count} runs)", some) for words, some in (*((line_words(found, level), some) for level, some in turns.items()), ("changed meanwhile", changed)) if some]


def usual(found):
    """Returns the placement of most runs of all systems."""
    return max(range(max(1, len(levels(found)))), key=lambda level: sum(len(turns_by_level(found, name).get(level, ())) for name in found))


def most(found, name):
    """Returns a system's repetitions in the usual placement or, if it has none there, in its own most frequent one."""
    turns = turns_by_level(found, name)
    return turns.get(usual(found)) or max(turns.values(), key=len, default=list(range(len(found[name][str(SIZES[0])]))))


def most_of(found):
    """Describes the usual placement."""
    if len(levels(found)) < 2:
        return ""
    low, high = levels(found)[usual(found)]
    return f", with the processors placed as in most runs: {line_words(found, usual(found))} (a cache line takes {low} to {high} ns)"


def placements(section, found):
    turns = sum(len(found[name][str(SIZES[0])]) for name in found)
    section.data["levels_ns"] = levels(found)
    text = ("Systems are compared only within a repetition, in which they were measured in turn. A share is the median of the repetitions' shares. If the "
            "sign of the difference varies between repetitions, the share is unknown. ")
    if len(levels(found)) > 1:
        changed = sum(level_of(found, name, turn) is None for name in found for turn in range(len(found[name][str(SIZES[0])])))
        text += (f"The runs fall into {len(levels(found))} groups, because the hypervisor moved the two virtual processors between runs: a cache line between them took "
                 f"{' or '.join(f'{low} to {high} ns ({line_words(found, level)})' for level, (low, high) in enumerate(levels(found)))}. All times depend on it, so tables have a row for each group, "
                 "and no median of times is taken across groups; plots show the group with the most runs. Two systems are compared only in repetitions in which both were in one group, and a "
                 f"difference counts if it has the same sign in all of these. {changed} of {turns} runs met a change, and are not compared.")
    section.text(text)


def together(found, *cells):
    """Returns, by placement, the values of all cells (system, bytes, figure) in each repetition whose runs had that placement."""
    return {level: [tuple(found[name][str(size)][turn][figure]["median"] for name, size, figure in cells) for turn in turns]
            for level, turns in turns_by_level(found, *dict.fromkeys(name for name, _, _ in cells)).items()}


def paired(found, *cells):
    return [row for rows in together(found, *cells).values() for row in rows]


def paired_by(found, of, *cells):
    """Returns the interval of of() applied to each repetition's cells, or None if no repetition has them."""
    rows = [of(*row) for row in paired(found, *cells)]
    return labs.interval(rows) if rows else None


def is_saved(saved):
    return None if saved is None else labs.is_saved(saved)


def differences_text(found, of, *cells, digits=2):
    """Describes the interval of of() applied to cells, for each placement."""
    rows = together(found, *cells)
    if not rows:
        return "no repetition in which both runs were in one group"
    if len(levels(found)) < 2:
        return labs.spread(labs.interval([of(*row) for row in rows[0]]), digits)
    return "; ".join(f"{labs.spread(labs.interval([of(*row) for row in some]), digits)} ({line_words(found, level)}, {len(some)} pair{'s' * (len(some) > 1)})"
                     for level, some in rows.items())


def values(found, name, size, figure, turns=None):
    return [found[name][str(size)][turn][figure]["median"] for turn in (most(found, name) if turns is None else turns)]


def us(found, name, size, figure, turns=None):
    return labs.interval([ns / 1000 for ns in values(found, name, size, figure, turns)])


def bandwidth(found, name, size, pattern, turns=None):
    return labs.interval([rate / 1e6 for rate in values(found, name, size, pattern, turns)])


def less_us(a, b):
    return (a - b) / 1000


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
    """Returns (the relative saving of faster, or why there is none; whether faster is less)."""
    cells = ((slower, 8, figure), (faster, 8, figure))
    less = paired_by(found, less_us, *cells)
    if is_saved(less) is not True:
        return "unknown" if is_saved(less) is None else "reversed", is_saved(less)
    if min(min(row) for row in paired(found, *cells)) < 0:
        return "unknown, because a time came out below 0", None
    return paired_by(found, lambda a, b: 1 - b / a, *cells), True


def check_shares(section, words, shares, bears=False):
    """Checks shares: (name, interval or, where there is none, (words, verdict), published)."""
    text, verdicts = [], []
    for what, here, then in shares:
        here, verdict = here if isinstance(here, tuple) else (here, True)
        if verdict:
            here, verdict = near.percent(here), near.near_share(here, then)
        text.append(f"{what} {here}, published {then:.0%}{'' if verdict else f' ({labs.AGREES[verdict]})'}")
        verdicts.append(verdict)
    section.check(near.all_of(verdicts), f"{words}: {'; '.join(text)}.", bears, f"each within {near.POINTS:.0%} of the whole")


def parts_of(found, name):
    """Returns {figure: its part of half a round trip, as an interval over the runs}."""
    return {figure: paired_by(found, lambda part, whole: part / whole, (name, 8, figure), (name, 8, "half_rtt_ns")) for figure in ("os_ns", "or_ns", "l_ns")}


def check_table(section, found, then):
    """Checks, for each figure, the order of every two systems and the saving of the smaller, and then the parts of half a round trip."""
    for figure, title in FIGURES.items():
        shares = []
        for pair in PAIRS:
            slower, faster = sorted(pair, key=lambda name: then[name][figure], reverse=True)
            cells, was = ((slower, 8, figure), (faster, 8, figure)), then[slower][figure] - then[faster][figure]
            section.compare(f"{title} of 8 bytes in us, {slower} minus {faster}", differences_text(found, less_us, *cells), f"{was:.2f}", is_saved(paired_by(found, less_us, *cells)),
                            bears=figure == "half_rtt_ns" and slower == RELIABLE, rule=labs.SIGNS)
            shares.append((f"{faster} of {slower}'s", less_by(found, slower, faster, figure), was / then[slower][figure]))
        check_shares(section, f"Saving of the smaller {title}", shares, bears=figure == "half_rtt_ns")
    for name in PUBLISHED:
        parts = parts_of(found, name)
        below = [FIGURES[figure] for figure, part in parts.items() if part and part["low"] < 0]
        check_shares(section, f"Parts of {name}'s RTT/2{f' ({below[0]} below 0 is no time: Os, Or and RTT/2 come from different loops)' if below else ''}", [
            (FIGURES[figure], part if part else ("unknown", None), then[name][figure] / then[name]["half_rtt_ns"]) for figure, part in parts.items()])


def switched_off(section, found, parts):
    """Reports the time that GM's functions cost, and how much of it is noise."""
    pairs = ((RELIABLE, UNCONTROLLED, "flow control, where messages are reliable"), (SENT_ONCE, NEITHER, "flow control, where they are sent once"),
             (RELIABLE, SENT_ONCE, "reliability, under flow control"), (UNCONTROLLED, NEITHER, "reliability, without it"), (NEITHER, RAW, "order, boots and fragments"))

    def cells(one, other, figure):
        return (one, 8, figure), (other, 8, figure)

    section.table("What each function adds to a message of 8 bytes, from differences within each repetition: microseconds", ("", "difference", "RTT/2", "g", "verdict"),
                  [(words, f"{one} minus {other}", *(differences_text(found, less_us, *cells(one, other, figure)) for figure in ("half_rtt_ns", "g_ns")),
                    " and ".join({True: "more", False: "less", None: "unclear"}[is_saved(paired_by(found, less_us, *cells(one, other, figure)))] for figure in ("half_rtt_ns", "g_ns")))
                   for one, other, words in pairs])
    counted = [sum(parts[name]["instructions"].values()) for name in (RELIABLE, UNCONTROLLED) if not any(isinstance(n, str) for n in parts[name]["instructions"].values())]
    added = is_saved(paired_by(found, less_us, *cells(RELIABLE, UNCONTROLLED, "half_rtt_ns")))
    expected = (f"Flow control adds {counted[0] - counted[1]:.0f} of {counted[0]:.0f} instructions to a reliable message, so it should add next to nothing to its time. "
                if len(counted) == 2 else "")
    here = {True: "It does add some here", False: "Half a round trip without it is longer in each repetition here, which its instructions do not explain",
            None: "Half a round trip is sometimes longer with it and sometimes without: noise"}[added]
    ratios = {size: paired_by(found, lambda a, b: b / a, (RELIABLE, size, "half_rtt_ns"), (UNACKNOWLEDGED, size, "half_rtt_ns")) for size in SIZES if size > max(SMALL)}
    apart = {size: ratio for size, ratio in ratios.items() if ratio and not ratio["low"] <= 1 <= ratio["high"]}
    section.text(
        f"{expected}{here}. Lengths above {max(SMALL)} bytes show how great noise is, because GM+ runs GM's own code for them. Its half round trips there, relative to GM's: "
        + "; ".join(f"{labs.bytes_of(size)} {labs.spread(ratio, 2)}" for size, ratio in ratios.items() if ratio)
        + (f". Of these, {' and '.join(map(labs.bytes_of, apart))} differ in all repetitions, though the code is the same: so differences above may be noise, too."
           if apart else ". None of these shows a difference."))


def assess(section, found):
    then = {name: dict(zip(FIGURES, row)) for name, row in PUBLISHED.items()}
    half = {name: f"{us(found, name, 8, 'half_rtt_ns')['median']:.2f}" if usual(found) in turns_by_level(found, name) else "(unknown)" for name in SYSTEMS}
    was = then[RELIABLE]["half_rtt_ns"] - then[RAW]["half_rtt_ns"]
    share, _ = less_by(found, RELIABLE, RAW, "half_rtt_ns")
    added = differences_text(found, less_us, (RELIABLE, 8, "half_rtt_ns"), (RAW, 8, "half_rtt_ns"))
    section.answer = (
        f"Half a round trip of 8 bytes takes {half[RELIABLE]} us with reliability, order and flow control (GM), {half[UNACKNOWLEDGED]} "
        f"without acknowledgements (GM+), and {half[RAW]} with none of them (BIP){most_of(found)}. "
        f"Within a repetition, GM takes {added} us longer than BIP, {f'a share of its half round trip that is {share}' if isinstance(share, str) else near.percent(share) + ' of its half round trip'} "
        f"(published {was:.2f} us, {was / then[RELIABLE]['half_rtt_ns']:.0%}).")
    section.why = "(GM's work was done by the card's 66 MHz processor then, and is done by the host's here.)"
    section.compare("RTT/2 of 8 bytes, the systems of table 1, us", ", ".join(f"{name} {half[name]}" for name in PUBLISHED),
                    f"{LATENCY_US[0]} to {LATENCY_US[1]}, for short messages", "microseconds of another machine; their ratios are checked, and in the simulator the range itself")
    check_table(section, found, then)
    parts = {name: parts_of(found, name)["l_ns"] for name in (RELIABLE, RAW)}
    here = f"L is {parts[RELIABLE]['median']:.0%} and {parts[RAW]['median']:.0%}" if all(parts.values()) else "L is what is left"
    section.text(
        f"What twenty-five years changed: the card. GM's protocol ran on the card's processor, at 66 MHz, so L was {then[RELIABLE]['l_ns'] / then[RELIABLE]['half_rtt_ns']:.0%} "
        f"of GM's half round trip and {then[RAW]['l_ns'] / then[RAW]['half_rtt_ns']:.0%} of BIP's; here all protocols run on the host's, and {here}: "
        "the queues between two cores. Copying 8 bytes into a device's memory was expensive over a PCI bus and is "
        "cheap in a cache, so the overhead Os that BIP paid for its low latency is gone.")
