"""endpoints.py - where the endpoints of a round trip run: the tables of Bjorndalen, Anshus, Vinter and Larsen (2000)."""
import lab as labs
import near

# (min, max, mean): us alone, us beside a computation, the computation's seconds; then messages per second
PUBLISHED = {
    "tcp": {32: ((187, 189, 188), (231, 441, 286), (19, 23, 21), 3494), 1024: ((384, 385, 384), (387, 467, 427), (16, 16, 16), 2341)},
    "udp": {32: ((141, 142, 141), (145, 291, 202), (23, 26, 24), 4950), 1024: ((339, 340, 339), (423, 921, 598), (16, 16, 16), 1671)},
    "packet": {32: ((114, 115, 115), (118, 178, 140), (25, 37, 30), 7120),
               1024: ((311, 312, 311), (316, 396, 346), (20, 20, 20), 2893)},
    "user": {32: ((87, 88, 88), (90, 130, 106), (23, 27, 26), 9406), 1024: ((283, 286, 284), (287, 288, 287), (17, 18, 18), 3482)},
    "static": {32: ((82, 83, 82), (84, 131, 102), (22, 27, 24), 9801), 1024: ((278, 278, 278), (281, 287, 282), (18, 18, 18), 3540)},
    "kernel": {32: ((67, 67, 67), (68, 69, 68), (23, 24, 24), 14621), 1024: ((251, 253, 252), (254, 255, 255), (16, 16, 16), 3923)},
    "handler": {32: ((54, 54, 54), (54, 54, 54), (21, 21, 21), 18501), 1024: ((215, 215, 215), (215, 215, 215), (15, 15, 15), 4642)},
}
PUBLISHED_ALONE_S = 13.4  # the computation
USER = ("tcp", "udp", "packet", "user", "static")
ORDERS = ("an endpoint takes less if its slowest run is faster than the other's fastest, and carries more round trips if it carries "
          f"{near.NEAR:.0%} more; otherwise the pair is unclear. NO if a pair is reversed; unclear if one is unclear and none is reversed")
STATED = (f"times: yes or NO if the ranges of the five runs do not overlap; ratios of means: unclear if one misses the other by less than {near.NEAR:.0%}")
BEARING = 4  # the answer rests on the first statements, which are on the shorter message and state the same


def run(lab):
    section = labs.Section(
        "endpoints", "Where the endpoints run",
        "What does a simpler protocol save, what is saved by moving the endpoints from a user process into the kernel or the interrupt "
        "handler, and how do both affect a computation on the same processor?", across=True)
    section.data = lab.script("endpoints/ladder.py", "--cores", lab.cores, *(lab.far.options() if lab.far else ()),
                              *(("--links", "cable", "--sizes", "32", "--rounds", str(lab.rounds(0, 100)), "--seconds",
                                 str(lab.rounds(0, 0.1))) if lab.quick else ()))
    cable = (f"use the same link, {lab.far.links[0]}, between {lab.far.ends}. " if lab.far else
             "use the same cable, a veth between two network namespaces, through its packet sockets: each host's driver runs on what the socket of the "
             "row \"packet socket\" runs on, where the paper's driver had the card. ")
    section.text(
        "J. M. Bjørndalen, O. J. Anshus, B. Vinter and T. Larsen asked this in 2000 (\"The Latency of User-to-User, Kernel-to-Kernel "
        "and Interrupt-to-Interrupt Level Communication\"). One message bounces between two programs. Linux's sockets block; "
        f"hosts with pingpong on LLP {cable}"
        "In the rows "
        "of Linux's kernel, a program inside it sends the message back, and the other endpoint is a packet socket. "
        + ("" if lab.far else "Over virtio nothing of Linux's network is beneath the hosts. ") + "A figure is the mean of the averages of five runs of "
        f"{section.data['rounds']} round trips each, with the lowest and the highest in brackets, as in the paper: a range of five, not of six "
        "as in other chapters. The paper's computation was repeated five times; here one is timed in five parts, and each part is scaled to "
        "the whole. The rate beside it is that of all round trips during the computation, with the slowest and the fastest run of "
        f"{section.data['rounds'] // 2} or more in brackets. The JSON has each average.")
    section.picture("Where LLP's endpoints run (the paper's figure 1)", "pingpong.dot", {
        ("pingpong", "llp"): ("here a thread takes over: an application's or the kernel's", True),
        ("eth", "port"): ("the driver runs up to here, or in the handler's row to the top", False)})
    is_whole = set(PUBLISHED) <= set(section.data["cable"])
    for name, where in (("cable", "over the cable"), ("virtio", "over virtio")):
        if section.data[name]:
            tables(section, name, where, name == "cable" and is_whole)
            check_orders(section, name, where)
    explain_placement(section)
    for what, why in section.data["missing"].items():
        section.text(f"Not measured: {what}: {why}.")
    virtual(section, lab)
    if is_whole:
        assess(section)
    else:
        section.answer = f"Not measured here: {', '.join(section.data['missing'])}."
        section.compare("What the paper states about its endpoints", "not measured", "statements, and each endpoint's share of TCP's round trip",
                        f"missing: {', '.join(rung for rung in PUBLISHED if rung not in section.data['cable'])}")
    for size in set(PUBLISHED["tcp"]) - set(section.data["sizes"]):
        section.compare(f"Messages of {size} bytes (tables 3, 4 and 6)", "not measured", "every endpoint, alone and beside a computation",
                        "a quick report leaves them out")
    return section


def us(cell):
    if cell is None:
        return "-"
    return f"{cell['mean'] / 1000:.1f} ({cell['min'] / 1000:.1f} to {cell['max'] / 1000:.1f})"


def of_three(three):
    least, most, mean = three
    return f"{mean} ({least} to {most})"


def computed(section, cell):
    """Returns the slowdown of the computation, round trips per second, and us lost to each."""
    alone_s = labs.median(section.data["computation_s"])
    per_second = 1e9 / cell["disturbing"]["mean"]
    return cell["computation_s"] / alone_s, per_second, 1e6 * (cell["computation_s"] - alone_s) / (cell["computation_s"] * per_second)


def took(section, cell):
    """Returns as text, each with its range: the computation's seconds, the same relative to alone, and round trips per second."""
    alone_s = labs.median(section.data["computation_s"])
    seconds = {"median": cell["computation_s"], "low": min(cell["computations_s"]), "high": max(cell["computations_s"])}
    rate = {name: 1e9 / cell["disturbing"][key] for name, key in (("median", "mean"), ("low", "max"), ("high", "min"))}
    return labs.spread(seconds, 2), labs.spread({name: s / alone_s for name, s in seconds.items()}, 2), labs.spread(rate, 0)


def published_took(rung, size):
    least, most, mean = PUBLISHED[rung][size][2]
    return of_three((least, most, mean)), labs.spread({"median": mean / PUBLISHED_ALONE_S, "low": least / PUBLISHED_ALONE_S, "high": most / PUBLISHED_ALONE_S}, 2), \
        str(PUBLISHED[rung][size][3])


def published_computed(rung, size):
    seconds, per_second = PUBLISHED[rung][size][2][2], PUBLISHED[rung][size][3]
    return seconds / PUBLISHED_ALONE_S, per_second, 1e6 * (seconds - PUBLISHED_ALONE_S) / (seconds * per_second)


def tables(section, name, where, is_whole):
    rows = section.data[name]
    none = "" if len(set(rows) & set(PUBLISHED)) > 1 else "fewer than two of the published endpoints were measured"
    faster = "for each pair of endpoints, which is faster alone, with cores kept awake, and beside the computation"
    carries = "for each pair of endpoints, which carries more round trips per second"
    if is_whole:
        faster += "; each endpoint's share of TCP's round trip; the paper's statements"
        carries += "; how many times as long the computation takes; the paper's statements"
    for number, size in enumerate(section.data["sizes"]):
        section.table(
            f"Bjørndalen's tables {1 + 2 * number} and {2 + 2 * number}, {where}: microseconds per round trip of {size} bytes",
            ("endpoint", "alone", "beside a computation", "alone, cores kept awake", "published, alone", "published, beside"),
            [(row["title"], us(row[str(size)]["alone"]), us(row[str(size)].get("computing")), us(row[str(size)]["awake"]),
              *(of_three(PUBLISHED[rung][size][i]) if rung in PUBLISHED else "-" for i in (0, 1))) for rung, row in rows.items()],
            checked="" if none else f"{faster}; not the times themselves, which are another machine's", unchecked=none)
        section.table(
            f"Bjørndalen's table {5 + number}, {where}: the computation beside round trips of {size} bytes; alone it takes "
            f"{labs.spread(labs.interval(section.data['computation_s']), 2)} seconds (published: {PUBLISHED_ALONE_S})",
            ("endpoint", "seconds", "times as long as alone", "round trips per second", "us lost to each", "published: seconds", "times, derived", "per second", "us lost, derived"),
            [(row["title"], *took(section, row[str(size)]), f"{computed(section, row[str(size)])[2]:.1f}",
              *((*published_took(rung, size), f"{published_computed(rung, size)[2]:.1f}") if rung in PUBLISHED else ("-",) * 4))
             for rung, row in rows.items() if "disturbing" in row[str(size)]],
            checked="" if none else f"{carries}; not the rates and times themselves, which are another machine's", unchecked=none)


def explain_placement(section):
    """Adds a text on why the times of threaded NAPI mix two cases."""
    cells = [section.data["cable"].get("napi", {}).get(str(size)) for size in section.data["sizes"]]
    if not all(cells):
        return
    ranges = " and ".join(f"from {min(found) / 1000:.1f} to {max(found) / 1000:.1f} us {words}" for key, words in (("alone", "alone"), ("awake", "with cores kept awake"))
                        for found in [[ns for cell in cells for ns in cell[key]["averages_ns"]]])
    section.text(
        f"The row of threaded NAPI mixes two cases: the kernel places its thread on either core, and on the client's core no other core has to be woken for an answer. "
        f"The averages of its runs, over all lengths, are {ranges}. The core of a run is not known, so a longer message may take less time. The row shows nothing about its level, and no check rests on it.")


def virtual(section, lab):
    """Adds the machines of 2000 on virtual time."""
    section.data["model"] = model = lab.script("endpoints/machines.py")
    costs = model["costs_ns"]
    section.text(
        "The simulator has the paper's machines on a hub of 100 Mb/s. Four costs are fitted to the round trips of 32 bytes: an interrupt "
        f"takes {costs['interrupt'] / 1000:.1f} us, a wake-up {costs['thread_switch'] / 1000:.1f}, a user's crossing {costs['up'] / 1000:.1f}, "
        f"a new buffer {costs['user'] / 1000:.1f} more. A copy of 1 KB takes the published {costs['copy'] / 1000:.1f}. Round trips of "
        f"1,024 bytes follow from these and the hub's rate. {longer_by(model)}. The model copies nothing between the handler and the kernel level; the paper's "
        "24 us there are more than its own copying time explains.")
    section.table(
        "The machines of 2000 on virtual time: microseconds per round trip",
        ("endpoint", "bytes", "here", "published", "error"),
        [(row["title"], str(row["size"]), f"{row['us']:.1f}{', fitted' if row['fitted'] else ''}", str(row["published_us"]),
          f"{100 * (row['us'] / row['published_us'] - 1):.1f} %") for row in model["rows"]],
        unchecked="the round trips of 32 bytes are fitted, and the extra time of 1,024 bytes is given: the time on the wire by its rate, and four times the published time of a copy")


def longer_by(model):
    """Returns a text on how much longer the longer messages take at each level."""
    times = {(row["end"], row["size"]): row for row in model["rows"]}
    short, long = min(row["size"] for row in model["rows"]), max(row["size"] for row in model["rows"])

    def added(end, key):
        return times[end, long][key] - times[end, short][key]

    levels = [(words, *(added(end, key) - (added(under, key) if under else 0) for key in ("us", "published_us")))
              for end, under, words in (("handler", None, "in the handler"), ("kernel", "handler", "more at the kernel level"), ("user", "kernel", "more at user level"))]
    return f"They take longer than those of {short} bytes by " + ", ".join(f"{us:.0f} us (published {was}) {words}" for words, us, was in levels)


# ---- which endpoint is faster ----


def order(here, then):
    """
    Checks for each pair of endpoints whether the one that took less then takes less here. here: {rung: (low, high)}, then: {rung: us}.
    Returns (verdict, pairs that agree, pairs that are reversed, pairs whose intervals overlap).
    """
    rungs = [rung for rung in then if rung in here]
    found = {True: [], False: [], None: []}
    for i, one in enumerate(rungs):
        for other in rungs[i + 1:]:
            faster, slower = sorted((one, other), key=then.get)
            agrees = True if here[faster][1] < here[slower][0] else False if here[faster][0] > here[slower][1] else None
            found[agrees].append((faster, slower))
    return near.all_of(agrees for agrees, pairs in found.items() if pairs), found[True], found[False], found[None]


def check_orders(section, name, where):
    """Checks tables 1 to 6. A time's interval spans the averages of its runs; a rate's, the mean of many short runs, is NEAR wide."""
    rows = {rung: row for rung, row in section.data[name].items() if rung in PUBLISHED}
    if len(rows) < 2:
        return
    for size in section.data["sizes"]:
        cells = {rung: row[str(size)] for rung, row in rows.items()}
        for key, words, of in (("alone", "alone", 0), ("awake", "alone, cores kept awake", 0), ("computing", "beside a computation", 1)):
            then = {rung: PUBLISHED[rung][size][of][2] for rung in rows}
            check_order(section, f"{where}, {size} bytes, {words}: the faster of each two endpoints is the published one",
                       {rung: (cell[key]["min"], cell[key]["max"]) for rung, cell in cells.items()}, then, f"{order_text(then)} us")
        then = {rung: PUBLISHED[rung][size][3] for rung in rows}
        check_order(section, f"{where}, {size} bytes, beside a computation: of each two endpoints, the one with more round trips per second is the published one",
                   {rung: (cell["disturbing"]["mean"], cell["disturbing"]["mean"] * (1 + near.NEAR)) for rung, cell in cells.items()},
                   {rung: 1 / rate for rung, rate in then.items()}, order_text(then))


def order_text(then):
    return ", ".join(f"{rung} {then[rung]}" for rung in sorted(then, key=then.get))


def check_order(section, words, here, then, published_words):
    agrees, right, wrong, unclear = order(here, then)
    pairs = ", ".join(f"{slower} before {faster}" for faster, slower in wrong)
    section.check(agrees, f"{words[0].upper()}{words[1:]} ({published_words}). {len(right)} of {len(right + wrong + unclear)} pairs agree; "
                  f"unclear: {len(unclear)}; reversed: {len(wrong)}{f' ({pairs})' if wrong else ''}.", rule=ORDERS)


# ---- what the paper states ----


def measured(section):
    """Returns {rung: {size: (alone, beside, (slowdown, round trips per second, us lost))}}, the first two as (min, max, mean) in microseconds."""
    def three(cell):
        return tuple(cell[key] / 1000 for key in ("min", "max", "mean"))

    rows = section.data["cable"]
    return {rung: {size: (three(rows[rung][str(size)]["alone"]), three(rows[rung][str(size)]["computing"]),
                          computed(section, rows[rung][str(size)])) for size in section.data["sizes"]} for rung in PUBLISHED}


def published():
    """Returns the published figures, in the form of measured()."""
    return {rung: {size: (cells[size][0], cells[size][1], published_computed(rung, size)) for size in cells} for rung, cells in PUBLISHED.items()}


def less(one, other):
    """Returns whether one (min, max, mean) is less than another; None: they overlap."""
    return True if one[1] < other[0] else False if one[0] > other[1] else None


def minus(one, other):
    return one[0] - other[1], one[1] - other[0], one[2] - other[2]


def at_most(one, other):
    """Returns whether one ratio is at most another; None: it exceeds the other by too little to decide."""
    return True if one <= other else None if one <= (1 + near.NEAR) * other else False


def below(one, other):
    """Returns whether one ratio is less than another; None: they differ by too little to decide."""
    return True if (1 + near.NEAR) * one < other else False if one > (1 + near.NEAR) * other else None


def statements(figures):
    """Tests the paper's statements on these figures. Returns [(statement, evidence, whether it holds)]."""
    short, *long = sorted(figures["tcp"])
    found = of_size(figures, short) + varies(figures, short)
    if long:
        found += of_size(figures, long[0]) + varies_long(figures, long[0]) + longer(figures, short, long[0])
    return found


def of_size(figures, size):
    """Tests the statements about each size."""
    alone = {rung: cells[size][0] for rung, cells in figures.items()}
    slowdown, per_second = ({rung: cells[size][2][i] for rung, cells in figures.items()} for i in range(2))
    best = alone[min(USER, key=lambda rung: alone[rung][2])]
    protocol, place = minus(alone["tcp"], best), minus(best, alone["handler"])
    others = [rung for rung in figures if rung not in ("tcp", "handler")]
    gain = per_second["handler"] / per_second["tcp"]
    was = PUBLISHED["handler"][size][3] / PUBLISHED["tcp"][size][3]
    then = {rung: published_computed(rung, size)[0] for rung in figures}
    off = [rung for rung in figures if not near.near(near.exactly(slowdown[rung]), then[rung])]
    slowdowns = ", ".join(f"{rung} {slowdown[rung]:.2f}" for rung in figures) + " times as long"
    return [(f"{size} bytes: {words}", evidence, agrees) for words, evidence, agrees in (
        ("a simpler protocol saves more than moving its endpoints.", f"{protocol[2]:.0f} and {place[2]:.0f} us",
         near.all_of((less(place, protocol), less(alone["handler"], best)))),
        ("a round trip in the handler is shorter than at the kernel level, and that is shorter than any at user level.",
         f"{alone['handler'][2]:.0f}, {alone['kernel'][2]:.0f} and {best[2]:.0f} us",
         near.all_of((less(alone["handler"], alone["kernel"]), less(alone["kernel"], best)))),
        ("TCP and the handler disturb a computation least.", slowdowns,
         at_most(max(slowdown["tcp"], slowdown["handler"]), min(slowdown[rung] for rung in others))),
        (f"beside a computation, the handler carries the same multiple of TCP's messages as in 2000, within {near.NEAR:.0%}.", f"{gain:.1f} times", near.near(near.exactly(gain), was)),
        (f"each endpoint slows a computation, which is timed once, as much as in 2000, within {near.NEAR:.0%}.",
         f"{slowdowns}{'; not ' * bool(off)}{', '.join(off)}", not off),
        ("packet sockets disturb a computation most.", f"{slowdown['packet']:.2f} times as long, others at most "
         f"{max(slowdown[rung] for rung in figures if rung != 'packet'):.2f}",
         at_most(max(slowdown[rung] for rung in figures if rung != "packet"), slowdown["packet"])),
    )]


def spreads(figures, size):
    """Returns the longest average relative to the shortest, beside a computation, and a text on it."""
    beside = {rung: cells[size][1][1] / cells[size][1][0] for rung, cells in figures.items()}
    return beside, ", ".join(f"{rung} {beside[rung]:.2f}" for rung in figures) + " (longest average / shortest)"


def varies(figures, size):
    beside, evidence = spreads(figures, size)
    simpler = [beside[rung] for rung in ("packet", "user", "static")]
    return [(f"{size} bytes: beside a computation, round trips vary most over TCP and UDP, less over simpler protocols, and least in the kernel and the handler.",
             evidence, near.all_of((below(max(simpler), min(beside["tcp"], beside["udp"])), below(max(beside["kernel"], beside["handler"]), min(simpler)))))]


def varies_long(figures, size):
    beside, evidence = spreads(figures, size)
    return [(f"{size} bytes: beside a computation, round trips vary less over LLP than over Linux's sockets.", evidence,
             below(max(beside[rung] for rung in ("user", "static", "kernel", "handler")), min(beside[rung] for rung in ("tcp", "udp", "packet"))))]


def longer(figures, short, long):
    more = {rung: minus(cells[long][0], cells[short][0]) for rung, cells in figures.items()}
    users = [more[rung] for rung in USER]
    least = min(users, key=lambda added: added[2])
    same = 1 + near.NEAR
    agrees = True if max(high for _, high, _ in users) < same * min(low for low, _, _ in users) else \
        False if max(low for low, _, _ in users) > same * min(high for _, high, _ in users) else None
    return [
        (f"{long} bytes instead of {short} cost the same at every user level.",
         f"{least[2]:.1f} to {max(mean for _, _, mean in users):.1f} us", agrees),
        ("... and less in the kernel, and least in the handler, where less is copied.",
         f"{more['kernel'][2]:.1f} and {more['handler'][2]:.1f} us", near.all_of((less(more["handler"], more["kernel"]), less(more["kernel"], least)))),
    ]


def share_of_tcp(figures, rung, size):
    """Returns a round trip alone, as a share of TCP's: (low, high, of the means)."""
    (low, high, mean), (tcp_low, tcp_high, tcp_mean) = figures[rung][size][0], figures["tcp"][size][0]
    return low / tcp_high, high / tcp_low, mean / tcp_mean


def check_shares(section, here, then):
    for rung in PUBLISHED:
        if rung == "tcp":
            continue
        verdicts, found, was = [], [], []
        for size in here[rung]:
            low, high, middle = share_of_tcp(here, rung, size)
            published_share = share_of_tcp(then, rung, size)[2]
            verdicts.append(near.near({"low": low, "high": high}, published_share))
            found.append(f"{middle:.2f} ({low:.2f} to {high:.2f}) with {size} bytes")
            was.append(f"{published_share:.2f}")
        section.compare(f"{section.data['cable'][rung]['title']}: its round trip as a share of TCP's, within {near.NEAR:.0%}", ", ".join(found),
                        " and ".join(was), near.all_of(verdicts))


def switches(cell):
    """Returns the switches of the server's threads per message."""
    server = cell["counts"]["server"]
    return server["process_switches"] / server["messages"]


def why(rows, size, alone, awake):
    """Returns a text on why LLP compares with TCP differently than in 2000."""
    halting = alone["user"] - awake["user"], alone["tcp"] - awake["tcp"]
    text = (f"Idle cores halt: if kept awake, LLP's round trip at user level takes {awake['user']:.0f} instead of {alone['user']:.0f} us, TCP's {awake['tcp']:.0f} "
            f"instead of {alone['tcp']:.0f}. ")
    if awake["user"] <= awake["tcp"]:
        return text
    text += "Halting is therefore not the whole reason. " if halting[0] > 0 else "Halting is therefore not the reason. "
    return text + (
        f"A host here is a program on Linux's packet sockets, not in a card's interrupt handler: its driver is a thread that sleeps, and that wakes the application's. "
        f"LLP's server switches threads {switches(rows['user'][size]['awake']):.1f} times per message at user level and "
        f"{switches(rows['handler'][size]['awake']):.1f} in the handler; a program that waits in a socket is woken once. With cores kept awake, the second thread at each end costs "
        f"{awake['user'] - awake['handler']:.0f} us per round trip; LLP takes {awake['handler']:.0f} in the handler, a packet socket's program {awake['packet']:.0f}.")


def assess(section):
    here, then = measured(section), published()
    size = min(here["tcp"])
    tcp, best, handler = here["tcp"][size][0][2], min(here[rung][size][0][2] for rung in USER), here["handler"][size][0][2]
    further = f"moving from there to the handler saves {best - handler:.0f} more (28)" if handler <= best else \
        f"the handler takes {handler - best:.0f} more than that endpoint (published: 28 less)"
    slowdown, per_second, _ = zip(*(here[rung][size][2] for rung in ("tcp", "handler")))
    section.answer = (
        f"Moving from TCP to the best endpoint at user level saves {tcp - best:.0f} of {tcp:.0f} us (published: 106 of 188), and {further}. Beside TCP a computation takes "
        f"{slowdown[0]:.2f} times as long as alone, beside the handler {slowdown[1]:.2f} (published: 1.6 for both, less than for any other endpoint); meanwhile the handler carries "
        f"{per_second[1] / per_second[0]:.1f} times as many messages as TCP (5.3).")
    rows = section.data["cable"]
    alone, awake = ({rung: row[str(size)][key]["mean"] / 1000 for rung, row in rows.items()} for key in ("alone", "awake"))
    section.why = why(rows, str(size), alone, awake)
    evidence_then = {words: text for words, text, _ in statements(then)}
    for number, (words, text, agrees) in enumerate(statements(here)):
        section.check(agrees, f"{words} Here {text}; published: {evidence_then[words]}.", bears=number < BEARING, rule=STATED)
    check_shares(section, here, then)
    if awake["user"] > awake["tcp"]:
        section.check(
            at_most(awake["handler"], awake["tcp"]),
            f"A second thread, not what is beneath, makes LLP at user level slower than TCP: with cores kept awake, LLP in the handler, without that thread, "
            f"takes no longer than TCP ({awake['handler']:.0f} and {awake['tcp']:.0f} us).")
    placed = [rung for rung in rows if rung != "napi"]  # its thread is on either core
    woken = [rung for rung in placed if awake[rung] < alone[rung]]
    section.text(
        "An idle core halts, and waking it takes longer than switching threads on a busy one. With a program of idle "
        f"priority on both cores, {len(woken)} of {len(placed)} round trips are shorter: from "
        f"{alone['handler']:.0f} to {awake['handler']:.0f} us in the handler, and from {alone['tcp']:.0f} to {awake['tcp']:.0f} over TCP.")
    away = {rung: row[str(size)]["away_ns"] / 1000 for rung, row in rows.items() if "away_ns" in row[str(size)]}
    if {"xdp", "udp", "packet"} <= set(away):
        section.text(
            f"With only the server in Linux's kernel, as generic XDP, a round trip takes {alone['xdp']:.1f} us, {alone['xdp'] / alone['udp']:.2f} "
            f"times UDP's {alone['udp']:.1f}. The client's kernel reports when a message leaves it and when the answer arrives. The time between, on the cable and "
            f"at the server, is {away['udp']:.1f} us of UDP's round trip, {away['packet']:.1f} of a packet socket's, and "
            f"{away['xdp']:.1f} of XDP's. The rest is the client's, whatever answers.")
    for row in section.data["floors"]:
        llp, dpdk = (labs.median(ns) / 1000 for ns in zip(*row["pairs"]))
        section.text(f"With only DPDK beneath (virtio, driver {row['driver']}, cores {row['cores']}), LLP's round trip in the handler "
                     f"takes {llp:.2f} us, and {dpdk:.2f} if DPDK alone sends each frame back: {row['ratio']:.2f} times as long (medians of {len(row['pairs'])}, in turn).")
