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
    section.data = lab.script("endpoints/ladder.py", "--cores", lab.cores,
                              *(("--links", "cable", "--sizes", "32", "--rounds", "100", "--seconds", "0.1") if lab.quick else ()))
    section.text(
        "J. M. Bjørndalen, O. J. Anshus, B. Vinter and T. Larsen asked it in 2000 (\"The Latency of User-to-User, Kernel-to-Kernel "
        "and Interrupt-to-Interrupt Level Communication\"). One message goes to and fro between two programs. Linux's sockets block; "
        "hosts with pingpong on LLP stand on the same cable, a veth between two network namespaces, by its packet sockets: beneath "
        "each host's driver lies what is beneath the socket of the row \"packet socket\", where the paper's driver had the card. In the rows "
        "of Linux a program in its kernel sends the message back, and the other end is a packet socket's. "
        "Over virtio nothing of Linux's network is beneath them. A figure is the mean of the averages of five runs, of "
        f"{section.data['rounds']} round trips each, in brackets the least and the greatest.")
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


def judge(section):
    rows, size = section.data["cable"], str(section.data["sizes"][0])
    alone = {rung: row[size]["alone"]["mean"] / 1000 for rung, row in rows.items()}
    lost = {rung: computed(section, rows[rung][size])[2] for rung in PUBLISHED}
    spread = {rung: rows[rung][size]["computing"]["max"] / rows[rung][size]["computing"]["min"] for rung in PUBLISHED}
    best = min(alone[rung] for rung in USER)
    protocol, place = alone["tcp"] - best, best - alone["handler"]
    section.answer = (
        f"From TCP to the best end at user level {protocol:.0f} of {alone['tcp']:.0f} us are saved (published: 106 of 188), and from "
        f"there to the handler {place:.0f} more (28). Each round trip takes {lost['handler']:.0f} us of the computation in the handler, "
        f"{lost['tcp']:.0f} by TCP (published, from its tables: 20 and 104).")
    section.check(protocol > place, f"A simpler protocol saves more ({protocol:.0f} us) than the place of the ends ({place:.0f} us).")
    section.check(alone["handler"] < min(alone[rung] for rung in USER), "In the handler a round trip is shorter than at user level.")
    section.check(alone["static"] < 1.05 * alone["user"], "The static buffer costs nothing.")
    section.check(lost["handler"] < min(lost[rung] for rung in USER), "A computation loses least to a round trip in the handler.")
    section.check(spread["handler"] < spread["tcp"], "Beside a computation the handler's round trips vary less than TCP's.")
    awake = {rung: row[size]["awake"]["mean"] / 1000 for rung, row in rows.items()}
    woken = [rung for rung in rows if awake[rung] < alone[rung]]
    section.text(
        "A core that has nothing to do halts, and wakes more slowly than a busy one changes to another thread. With a program of idle "
        f"priority on both, {len(woken)} of {len(rows)} round trips are shorter, from "
        f"{alone['handler']:.0f} to {awake['handler']:.0f} us in the handler and from {alone['tcp']:.0f} to {awake['tcp']:.0f} by TCP.")
