"""endpoints.py - where the ends of a round trip stand: the tables of Bjorndalen, Anshus, Vinter and Larsen (2000)."""
import lab as labs

# (min, max, mean): us alone, us beside a computation, the computation's seconds; then messages a second
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


def run(lab):
    section = labs.Section(
        "endpoints", "Where the ends stand",
        "What does a simpler protocol save, what does it save to move the ends of a message from a user's process into the kernel and "
        "into the interrupt handler, and what do both do to a computation on the same processor?")
    section.data = lab.script("endpoints/ladder.py", "--cores", lab.cores, *(lab.far.options() if lab.far else ()),
                              *(("--links", "cable", "--sizes", "32", "--rounds", str(lab.rounds(0, 100)), "--seconds",
                                 str(lab.rounds(0, 0.1))) if lab.quick else ()))
    cable = (f"use the same link, {lab.far.links[0]}, between {lab.far.ends}. " if lab.far else
             "stand on the same cable, a veth between two network namespaces, by its packet sockets: beneath each host's driver lies what is beneath the socket of the "
             "row \"packet socket\", where the paper's driver had the card. ")
    section.text(
        "J. M. Bjørndalen, O. J. Anshus, B. Vinter and T. Larsen asked it in 2000 (\"The Latency of User-to-User, Kernel-to-Kernel "
        "and Interrupt-to-Interrupt Level Communication\"). One message goes to and fro between two programs. Linux's sockets block; "
        f"hosts with pingpong on LLP {cable}"
        "In the rows "
        "of Linux a program in its kernel sends the message back, and the other end is a packet socket's. "
        + ("" if lab.far else "Over virtio nothing of Linux's network is beneath them. ") + "A figure is the mean of the averages of five runs, of "
        f"{section.data['rounds']} round trips each, in brackets the least and the greatest.")
    section.picture("Where the ends of LLP stand (the paper's figure 1)", "pingpong.dot", {
        ("pingpong", "llp"): ("here a thread takes over: an application's or the kernel's", True),
        ("eth", "port"): ("the driver, which comes up to here, or in the handler's row to the top", False)})
    for name, where in (("cable", "over the cable"), ("virtio", "over virtio")):
        if section.data[name]:
            tables(section, name, where)
    for what, why in section.data["missing"].items():
        section.text(f"Not measured: {what}: {why}.")
    virtual(section, lab)
    if set(PUBLISHED) <= set(section.data["cable"]):
        judge(section)
    else:
        section.answer = f"Not measured here: {', '.join(section.data['missing'])}."
    return section


def us(cell):
    if cell is None:
        return "-"
    return f"{cell['mean'] / 1000:.1f} ({cell['min'] / 1000:.1f} to {cell['max'] / 1000:.1f})"


def of_three(three):
    least, most, mean = three
    return f"{mean} ({least} to {most})"


def computed(section, cell):
    """Slowdown of the computation, round trips a second, and us lost to each."""
    alone_s = labs.median(section.data["computation_s"])
    per_second = 1e9 / cell["disturbing"]["mean"]
    return cell["computation_s"] / alone_s, per_second, 1e6 * (cell["computation_s"] - alone_s) / (cell["computation_s"] * per_second)


def published_computed(rung, size):
    seconds, per_second = PUBLISHED[rung][size][2][2], PUBLISHED[rung][size][3]
    return seconds / PUBLISHED_ALONE_S, per_second, 1e6 * (seconds - PUBLISHED_ALONE_S) / (seconds * per_second)


def tables(section, name, where):
    rows = section.data[name]
    for number, size in enumerate(section.data["sizes"]):
        section.table(
            f"Bjørndalen's tables {1 + 2 * number} and {2 + 2 * number}, {where}: microseconds a round trip of {size} bytes",
            ("ends", "alone", "beside a computation", "alone, cores kept awake", "published, alone", "published, beside"),
            [(row["title"], us(row[str(size)]["alone"]), us(row[str(size)].get("computing")), us(row[str(size)]["awake"]),
              *(of_three(PUBLISHED[rung][size][i]) if rung in PUBLISHED else "-" for i in (0, 1))) for rung, row in rows.items()])
        section.table(
            f"Bjørndalen's table {5 + number}, {where}: the computation beside round trips of {size} bytes",
            ("ends", "times as long as alone", "round trips a second", "us lost to each", "published: times", "a second", "us lost"),
            [(row["title"], *told(computed(section, row[str(size)])),
              *(told(published_computed(rung, size)) if rung in PUBLISHED else ("-",) * 3))
             for rung, row in rows.items() if "disturbing" in row[str(size)]])


def told(three):
    times, per_second, lost = three
    return f"{times:.2f}", f"{per_second:.0f}", f"{lost:.1f}"


def virtual(section, lab):
    """The machines of 2000 on virtual time."""
    section.data["model"] = model = lab.script("endpoints/model.py")
    costs = model["costs_ns"]
    section.text(
        "The paper's machines in the simulator, on a hub of 100 Mb/s. Four costs are found from the round trips of 32 bytes: an interrupt "
        f"takes {costs['interrupt'] / 1000:.1f} us, a wake-up {costs['thread_switch'] / 1000:.1f}, a user's crossing {costs['up'] / 1000:.1f}, "
        f"a new buffer {costs['user'] / 1000:.1f} more. A copy of 1000 bytes takes the published {costs['copy'] / 1000:.1f}. What follows from "
        "them for 1,024 bytes is right in the handler, where nothing is copied, and a tenth too little elsewhere: between the handler and "
        "the kernel level lie 24 us for 992 bytes, which the published time of a copy does not explain.")
    section.table(
        "The machines of 2000 on virtual time: microseconds a round trip",
        ("ends", "bytes", "here", "published", "error"),
        [(row["title"], str(row["size"]), f"{row['us']:.1f}{', fitted' if row['fitted'] else ''}", str(row["published_us"]),
          f"{100 * (row['us'] / row['published_us'] - 1):.1f} %") for row in model["rows"]])
    worst = max(abs(row["us"] / row["published_us"] - 1) for row in model["rows"])
    section.check(worst < 0.12, f"On virtual time, what is predicted is within {100 * worst:.0f} % of what was published.")


# ---- what the paper states ----


def measured(section):
    """{rung: {size: (alone, beside, (slowdown, round trips a second, us lost))}}, the first two as (min, max, mean) in microseconds."""
    def three(cell):
        return tuple(cell[key] / 1000 for key in ("min", "max", "mean"))

    rows = section.data["cable"]
    return {rung: {size: (three(rows[rung][str(size)]["alone"]), three(rows[rung][str(size)]["computing"]),
                          computed(section, rows[rung][str(size)])) for size in section.data["sizes"]} for rung in PUBLISHED}


def published():
    """The published figures, in the form of measured()."""
    return {rung: {size: (cells[size][0], cells[size][1], published_computed(rung, size)) for size in cells} for rung, cells in PUBLISHED.items()}


def statements(figures):
    """The paper's statements, tested on these figures: [(statement, evidence, whether it holds)]."""
    short, *long = sorted(figures["tcp"])
    alone = {rung: cells[short][0][2] for rung, cells in figures.items()}
    beside = {rung: cells[short][1][1] / cells[short][1][0] for rung, cells in figures.items()}
    slowdown, per_second, lost = ({rung: cells[short][2][i] for rung, cells in figures.items()} for i in range(3))
    best = min(alone[rung] for rung in USER)
    protocol, place = alone["tcp"] - best, best - alone["handler"]
    others = [rung for rung in figures if rung not in ("tcp", "handler")]
    found = [
        ("A simpler protocol saves more than the place of its ends does.", f"{protocol:.0f} and {place:.0f} us", protocol > place > 0),
        ("A round trip in the handler is shorter than at the kernel level, and that is shorter than any at user level.",
         f"{alone['handler']:.0f}, {alone['kernel']:.0f} and {best:.0f} us", alone["handler"] < alone["kernel"] < best),
        ("The static buffer costs nothing.", f"{alone['static']:.0f} us with it, {alone['user']:.0f} without",
         alone["static"] < 1.02 * alone["user"]),
        ("Beside a computation, round trips vary most by TCP and UDP, less by simpler protocols, and least in the kernel and the handler.",
         ", ".join(f"{rung} {beside[rung]:.2f}" for rung in figures) + " times from the shortest to the longest average",
         min(beside["tcp"], beside["udp"]) > max(beside[rung] for rung in ("packet", "user", "static"))
         and min(beside[rung] for rung in ("packet", "user", "static")) > max(beside["kernel"], beside["handler"])),
        ("TCP and the handler disturb a computation least.", ", ".join(f"{rung} {slowdown[rung]:.2f}" for rung in figures) + " times as long",
         max(slowdown["tcp"], slowdown["handler"]) <= min(slowdown[rung] for rung in others)),
        ("Packet sockets disturb it most.", f"{slowdown['packet']:.2f} times as long, others at most "
         f"{max(slowdown[rung] for rung in figures if rung != 'packet'):.2f}", slowdown["packet"] >= max(slowdown.values())),
        ("The handler carries several times the messages of TCP meanwhile.", f"{per_second['handler'] / per_second['tcp']:.1f} times",
         per_second["handler"] > 2 * per_second["tcp"]),
        ("A computation loses least to each round trip in the handler.",
         f"{lost['handler']:.0f} us, {lost['tcp']:.0f} by TCP", lost["handler"] <= min(lost.values())),
    ]
    if long:
        more = {rung: cells[long[0]][0][2] - cells[short][0][2] for rung, cells in figures.items()}
        users = [more[rung] for rung in USER]
        udp, tcp = (figures[rung][long[0]][1][2] for rung in ("udp", "tcp"))
        found += [
            (f"{long[0]} bytes instead of {short} cost the same at every user level.", f"{min(users):.1f} to {max(users):.1f} us",
             max(users) < 1.05 * min(users)),
            ("... and less in the kernel, and least in the handler, where less is copied.",
             f"{more['kernel']:.1f} and {more['handler']:.1f} us", more["handler"] < more["kernel"] < min(users)),
            (f"Beside a computation, {long[0]} bytes take longer by UDP than by TCP (which contradicts all other tables).",
             f"{udp:.0f} and {tcp:.0f} us", udp > tcp),
        ]
    return found


def judge(section):
    here, then = measured(section), published()
    size = min(here["tcp"])
    tcp, best, handler = here["tcp"][size][0][2], min(here[rung][size][0][2] for rung in USER), here["handler"][size][0][2]
    section.answer = (
        f"From TCP to the best end at user level {tcp - best:.0f} of {tcp:.0f} us are saved (published: 106 of 188), and from "
        f"there to the handler {best - handler:.0f} more (28). Each round trip takes {here['handler'][size][2][2]:.0f} us of the computation in "
        f"the handler, {here['tcp'][size][2][2]:.0f} by TCP (published, from its tables: 20 and 104).")
    rows = section.data["cable"]
    alone, awake = ({rung: row[str(size)][key]["mean"] / 1000 for rung, row in rows.items()} for key in ("alone", "awake"))
    section.why = (
        "Why: cores that halt while idle. Waking them is most of each round trip and differs from run to run by more than the ends do; with cores "
        f"kept awake, TCP's takes {awake['tcp']:.0f} us and the handler's {awake['handler']:.0f}. And LLP's hosts are programs on Linux's packet "
        "sockets, not in a card's interrupt handler.")
    told_then = {words: text for words, text, _ in statements(then)}
    for number, (words, text, agrees) in enumerate(statements(here)):
        section.check(agrees, f"{words} Here {text}; published: {told_then[words]}.", bears=number < 2)
    for rung in PUBLISHED:
        section.compare(f"{section.data['cable'][rung]['title']}: a round trip of {size} bytes", f"{here[rung][size][0][2]:.1f} us",
                        f"{then[rung][size][0][2]} us")
    woken = [rung for rung in rows if awake[rung] < alone[rung]]
    section.text(
        "A core that has nothing to do halts, and wakes more slowly than a busy one changes to another thread. With a program of idle "
        f"priority on both, {len(woken)} of {len(rows)} round trips are shorter, from "
        f"{alone['handler']:.0f} to {awake['handler']:.0f} us in the handler and from {alone['tcp']:.0f} to {awake['tcp']:.0f} by TCP.")
    away = {rung: row[str(size)]["away_ns"] / 1000 for rung, row in rows.items() if "away_ns" in row[str(size)]}
    if "xdp" in away:
        section.text(
            f"One end alone in Linux's kernel: by generic XDP at the server a round trip takes {alone['xdp']:.1f} us, {alone['xdp'] / alone['udp']:.2f} "
            f"of UDP's {alone['udp']:.1f}. The client's kernel tells when a message leaves it and when the answer comes: of UDP's round trip "
            f"{away['udp']:.1f} us pass between, on the cable and at the server, of a packet socket's {away['packet']:.1f}, of XDP's "
            f"{away['xdp']:.1f}. The rest is the client's, whatever answers.")
    for row in section.data["floors"]:
        llp, dpdk = (labs.median(ns) / 1000 for ns in zip(*row["pairs"]))
        section.text(f"With nothing beneath but DPDK (virtio, driver {row['driver']}, cores {row['cores']}), LLP's round trip in the handler "
                     f"takes {llp:.2f} us, and {dpdk:.2f} where DPDK alone sends each frame back: {row['ratio']:.2f} times.")
