"""components.py - the parts of a round trip: the tables of Thekkath and Levy (1993), predicted and measured."""
import lab as labs
import near as nears

OVERLAP_LIMIT = 0.05  # of an exchange whose parts are given: adding them up, as if nothing overlapped, is 13 % off for ATM's long packet
CALL_LIMIT = 0.10  # of a predicted call: two controllers' calls without arguments are 12 % apart, and a prediction should tell which is shorter
STEP_US = 1  # published steps are rounded to it
SUM_LIMIT = 0.15  # of parts measured here: the published ones miss their round trip by as much
SCATTER = 0.10  # of a ratio here: its figures are medians of a few turns, without an interval
PART_TITLES = {"way": "the frame's way", "device": "DPDK's device", "bell": "ringing", "wake": "waking, beyond ringing", "service": "the hosts' work"}


def run(lab):
    section = labs.Section(
        "components", "Where a round trip goes",
        "What are the parts of a round trip, on which kind of controller, and what does a remote procedure call add?")
    section.text(
        "C. A. Thekkath and H. M. Levy took a round trip to pieces in 1993 (\"Limits to Low-Latency Communication on High-Speed "
        "Networks\"): an exchange of packets between two interrupt handlers, and a remote procedure call that is as direct as possible, on "
        "four controllers. Their machines are simulated here from these parts; then this machine's round trips are taken to pieces.")
    section.data["model"] = model = lab.script("components/model.py")
    predicted(section, model)
    section.data["here"] = here = lab.script("components/parts.py", "--cores", lab.cores, "--rounds", str(lab.rounds(20000, 300)),
                                              "--turns", str(lab.rounds(3, 1)), *(lab.far.options() if lab.far else ()))
    measured(section, here)
    spun(section, here)
    left_out(lab, section, model, here)
    for what, why in here["missing"].items():
        section.text(f"Not measured: {what}: {why}.")
    judge(section, model, here)
    judge_wake(section, here, lab.wakes)
    return section


def fitted_title(model):
    return next(machine["title"] for machine in model["machines"].values() if machine["calls"][0]["fitted"])


def error(us, published_us):
    return f"{100 * (us / published_us - 1):+.1f} %"


# ---- the machines of 1993 ----


def predicted(section, model):
    machines = model["machines"].values()
    head = ["microseconds both ways"]
    for machine in machines:
        head += [f"{machine['title']}, {row['frame']} bytes" for row in machine["exchanges"]]
    exchanges = [row for machine in machines for row in machine["exchanges"]]
    rows = [(title, *(str(row["published"][part]) for row in exchanges)) for part, title in model["parts"].items()]
    rows += [("Sum", *(str(row["sum_us"]) for row in exchanges)),
             ("Simulated", *(f"{row['us']:.0f}" for row in exchanges)),
             ("Measured then (published)", *(str(row["measured_us"]) for row in exchanges)),
             ("Error of the simulation", *(error(row["us"], row["measured_us"]) for row in exchanges))]
    section.table("Thekkath and Levy's table of an exchange of packets: the published parts, and what the simulator makes of them", head, rows,
                  judged="the simulated round trips, each against the published one; which controller is faster",
                  unjudged="the parts are given to the simulator")
    section.text(
        "The controllers: " + "; ".join(f"{machine['title']}: {machine['how']}" for machine in machines) + ". The parts are given, so their "
        "sums are no prediction. Only ATM's long packet is: a cell leaves as soon as it is written, so that the processor and the wire work "
        "at the same time, and the round trip is shorter than the sum of its parts.")
    calls = [row for machine in machines for row in machine["calls"]]
    head = ["microseconds"]
    for machine in machines:
        head += [f"{machine['title']}, no arguments", "a packet full"]
    rows = [(step.capitalize(), *(f"{row['steps_us'][i]:.0f} ({row['published'][i]})" for row in calls)) for i, step in enumerate(model["steps"])]
    rows += [("The whole call, simulated", *(f"{row['us']:.0f}{', fitted' if row['fitted'] else ''}" for row in calls)),
             ("The steps' sum, published", *(str(sum(row["published"])) for row in calls)),
             ("The whole call, published", *(str(row["measured_us"]) for row in calls)),
             ("Error", *(error(row["us"], row["measured_us"]) for row in calls))]
    section.table("Thekkath and Levy's table of calls: predicted from the parts of an exchange (published in brackets)", head, rows,
                  judged="each predicted call and step; which controller is faster",
                  unjudged=f"the calls of \"{fitted_title(model)}\" are fitted")
    extra = {step: ns / 1000 for step, (ns, _) in model["extra_ns"].items()}
    section.text(
        "What a call costs besides its packets is taken from the Ethernet of the DECstation "
        f"({sum(extra.values()):.0f} us without arguments) and expected on all four. FDDI's call with arguments is predicted too long "
        "because its controller puts a received packet where the server wants it, while the prediction copies it; the SPARCstation's calls "
        "too short because it has another system, whose calls cost more. On FDDI and ATM the paper gives the empty reply to a long call the "
        "controller's latency of the call; the prediction gives it that of a short frame.")


# ---- this machine ----


def row_of(title, row):
    parts = row["parts_ns"]
    total = sum(parts.values())
    return (title, str(row["frame"]), *(f"{parts[part] / 1000:.2f}" for part in PART_TITLES), f"{total / 1000:.2f}",
            f"{row['measured_ns'] / 1000:.2f}", f"{(row['measured_ns'] - total) / 1000:+.2f}")


def measured(section, here):
    columns = ("bytes", *PART_TITLES.values(), "sum", "round trip", "difference")
    section.table("The same table on this machine: microseconds both ways, each part measured by itself", ("link and driver", *columns),
                  [row_of(f"{row['link']}, {row['driver']}", row) for row in here["rows"]])
    section.table(f"A call over {here['far'] or 'virtio'}, without arguments and with a packet full of them, and its empty reply",
                  ("driver", *columns),
                  [row_of(row["driver"], row) for row in here["calls"]])
    section.picture("The most direct call", "chantest-direct.dot", {("bid", "vmux"): ("decided when a channel is opened", True)})
    section.text(
        "The way over virtio and rings is memory: a frame is copied by one core and read by the other. Over the others it is Linux's: a "
        "thread sends on one interface and takes the frame from the other. "
        + (f"Over {here['far']} it was not measured by itself. " if here["far"] else "") + "A polling "
        "driver rings nobody and never sleeps. Ringing is what it takes where nobody listens; ringing and waking together are a wake-up, "
        f"measured by itself: {labs.spread(wake_us(here))} us. What the parts leave unexplained is in the difference. Its causes are not measured; likely "
        "ones are, for a tap, the signals that Linux sends DPDK for frames, and the cold caches of a driver that has slept.")


def spun(section, here):
    works = list(dict.fromkeys(row["work"] for row in here["spins"]))
    titles = {"interrupt": "0", "poll": "ever"}
    rows = []
    for spin in dict.fromkeys(row["spin"] for row in here["spins"]):
        cells = {row["work"]: row for row in here["spins"] if row["spin"] == spin}
        rows.append((titles.get(spin, spin), *(text for work in works for text in
                                               ((f"{cells[work]['us']:.1f}", f"{cells[work]['sleeps']:.2f}") if work in cells else ("-", "-")))))
    section.table(f"How long the drivers poll before they sleep: a call over {here['far'] or 'virtio'}",
                  ("polls for", *(text for work in works for text in (f"us a call, server works {work}", "sleeps a call"))), rows)


# ---- what the paper's tables leave out ----

ATM_SOFTWARE_US = 1065  # of a round trip of 1,537 bytes on the wire, by its notes
CELL_MTU = 20 + 48  # of IP, whose fragments then carry as much as a cell does
UDP_HEADER = 8
MESSAGES = {  # name: (words, MTU, whether a path is taken)
    "whole": ("a packet of ATM's longest exchange, in one frame", 1500, "yes"),
    "cut": ("the same in fragments of 48 bytes, as many as there were cells", CELL_MTU, "yes"),
    "path": ("8 bytes, recognized by a path: once, at the port", 1500, "yes"),
    "layers": ("8 bytes, demultiplexed by each layer", 1500, "no"),
}


def left_out(lab, section, model, here):
    """Cutting a packet and putting it together, and demultiplexing: what both hosts do for a message one way."""
    atm = model["machines"]["atm_dec"]["exchanges"][1]
    pieces = -(-atm["frame"] // 48)
    sizes = dict.fromkeys(MESSAGES, 8) | dict.fromkeys(("whole", "cut"), atm["frame"] - UDP_HEADER)
    took = {name: [] for name in MESSAGES}
    for _ in range(1 if lab.brief else lab.repeats):
        for name, (_, mtu, paths) in MESSAGES.items():
            took[name].append(lab.bench("message", "--graph", lab.graph("udptest.dot"), "--size", str(sizes[name]), "--mtu", str(mtu), "--paths", paths,
                                        "--rounds", str(lab.rounds(20000, 2000)))["message_ns"])
    section.data["left_out_ns"] = took
    section.table("What the paper leaves out: nanoseconds of a message from one host to the other, of both hosts, without a wire", ("", "ns"),
                  [(words, labs.spread(labs.interval(took[name]))) for name, (words, _, _) in MESSAGES.items()])
    software = labs.interval([cut - whole for cut, whole in zip(took["cut"], took["whole"])])
    demux = labs.interval([layers - path for layers, path in zip(took["layers"], took["path"])])
    section.text(
        f"ATM's {pieces} cells were made, and put together, in software: {ATM_SOFTWARE_US} us of a round trip, which the paper's table leaves out. Here IP does it, to "
        f"fragments of 48 bytes: {labs.spread({key: ns / pieces for key, ns in software.items()})} ns for each, at both ends together. That is more than cells need: "
        "each fragment has a header of IP and passes IP, VNET, Ethernet and the port.")
    exchange = next((row for row in here["rows"] if (row["link"], row["driver"], row["frame"]) == (here["far"] or "virtio", "poll", 1514)), None)
    words, then = "Cutting and reassembling a packet in software, there and back, in exchanges of a packet without it", f"{ATM_SOFTWARE_US / atm['measured_us']:.2f}"
    if exchange is None:
        section.compare(words, "not measured", then, "no exchange was measured")
    else:
        ratio = {key: 2 * ns / exchange["measured_ns"] for key, ns in software.items()}
        section.compare(f"{words} (more than 1: it costs more than all else)", labs.spread(ratio), then, nears.within(ratio, 1, float("inf")))
    section.compare("What each layer's demultiplexing takes more than a path's, of a short message", f"{labs.spread(demux)} ns of {labs.median(took['layers']):.0f}",
                    "left out of its calls", "the paper has no figure")
    services = {name: [row["published"]["service"] for row in model["machines"][name]["exchanges"]] for name in ("ethernet_sparc", "fddi_dec")}
    section.compare("Flushing the cache for DMA", "nothing to flush: caches are coherent", "; ".join(
        f"{model['machines'][name]['title']}: in {short} us of service, {long} with a long packet" for name, (short, long) in services.items()),
        "the paper does not divide the service, and this machine flushes nothing")


# ---- what agrees ----


def judge(section, model, here):
    judge_exchanges(section, model)
    judge_calls(section, model)
    for words, kind, place in (("an exchange of short packets", "exchanges", 0), ("an exchange of long packets", "exchanges", 1),
                               ("a call without arguments", "calls", 0), ("a call with a packet full of arguments", "calls", 1)):
        judge_order(section, words, [(machine["title"], machine[kind][place]) for machine in model["machines"].values()])
    judge_sums(section, model, here)
    judge_here(section, model, here)


def judge_exchanges(section, model):
    machines = model["machines"]
    exchange, call = (machines["atm_dec"][kind][1] for kind in ("exchanges", "calls"))
    section.check(all(abs(row["us"] / row["sum_us"] - 1) < 0.01 for machine in machines.values() for row in machine["exchanges"] if row is not exchange),
                  "Simulated, the parts of an exchange add up to their published sum, except ATM's long packet.")
    for machine in machines.values():
        section.check(all(abs(row["us"] / row["measured_us"] - 1) <= OVERLAP_LIMIT for row in machine["exchanges"]),
                      f"{machine['title']}: the simulated exchanges take what was published, within {OVERLAP_LIMIT:.0%}: " + "; ".join(
                          f"{row['us']:.0f} us with {row['frame']} bytes (published {row['measured_us']}: {error(row['us'], row['measured_us'])})"
                          for row in machine["exchanges"]) + ".")
    section.check(exchange["us"] < exchange["sum_us"] and call["us"] < sum(call["steps_us"]),
                  "Where cells leave as they are written, a round trip is shorter than the sum of its parts: simulated, "
                  f"an exchange {exchange['us']:.0f} of {exchange['sum_us']} us (published {exchange['measured_us']} of {exchange['sum_us']}), a call "
                  f"{call['us']:.0f} of {sum(call['steps_us']):.0f} (published {call['measured_us']} of {sum(call['published'])}).")


def judge_calls(section, model):
    for machine in model["machines"].values():
        for row, words in zip(machine["calls"], ("a call without arguments", "a call with a packet full of arguments")):
            if row["fitted"]:
                continue
            section.check(abs(row["us"] / row["measured_us"] - 1) <= CALL_LIMIT,
                          f"{machine['title']}: {words} is predicted within {CALL_LIMIT:.0%}: {row['us']:.0f} us, published {row['measured_us']}, "
                          f"{error(row['us'], row['measured_us'])}.")
            off = [f"{step} ({us:.0f} us, published {was})" for step, us, was in zip(model["steps"], row["steps_us"], row["published"])
                   if abs(us - was) > max(STEP_US, CALL_LIMIT * was)]
            section.check(not off, f"{machine['title']}: each step of {words} is predicted within {CALL_LIMIT:.0%} or {STEP_US} us: "
                          f"{len(model['steps']) - len(off)} of {len(model['steps'])}{'; not ' * bool(off)}{'; '.join(off)}.")


def judge_order(section, words, rows):
    """rows: (controller, its row of the model). Equal published times ask for equal simulated ones, as far as these can be."""
    off = [f"{one} against {other}" for i, (one, a) in enumerate(rows) for other, b in rows[i + 1:]
           if (a["us"] - b["us"]) * (a["measured_us"] - b["measured_us"]) < 0
           or (a["measured_us"] == b["measured_us"] and abs(a["us"] / b["us"] - 1) > OVERLAP_LIMIT)]
    section.check(not off, f"Which controller is faster at {words}, simulated: "
                  + ", ".join(f"{title} {row['us']:.0f} us (published {row['measured_us']})" for title, row in rows)
                  + "".join(f"; wrong: {text}" for text in off) + ".")


def judge_sums(section, model, here):
    """Whether the parts explain each round trip, as well as the published ones do."""
    machines = model["machines"].values()
    exchanges = [row["sum_us"] / row["measured_us"] - 1 for machine in machines for row in machine["exchanges"]]
    calls = [sum(row["published"]) / row["measured_us"] - 1 for machine in machines for row in machine["calls"]]
    links = {}
    for row in here["rows"]:
        links.setdefault(row["link"], []).append(row)
    judged = [(link, rows, exchanges) for link, rows in links.items()] + [(f"calls over {here['far'] or 'virtio'}", here["calls"], calls)]
    for link, rows, then in judged:
        errors = [sum(row["parts_ns"].values()) / row["measured_ns"] - 1 for row in rows]
        told = ", ".join(f"{row['driver']} {row['frame']} bytes {off:+.0%}" for row, off in zip(rows, errors))
        words, was = f"The parts' sum against the round trip, {link}", f"{min(then):+.0%} to {max(then):+.0%}"
        if here["far"] and here["far"] in link:
            section.compare(words, told, was, "the way between the hosts was not measured by itself")
        elif rows:
            section.compare(words, told, was, all(abs(off) <= SUM_LIMIT for off in errors))


def wake_us(here):
    """A wake-up by itself, in each turn."""
    return labs.interval([ns / 1000 for ns in here["wakes_ns"]])


def judge_wake(section, here, wakes):
    """Whether a wake-up takes as long as in other chapters, which measured it by the same program."""
    mine = wake_us(here)
    for chapter, there in wakes.items():
        section.check(nears.near({"low": 1000 * mine["low"] / there["high"], "high": 1000 * mine["high"] / there["low"]}, 1),
                      f"A wake-up by itself takes {labs.spread(mine)} us here, and took {there['median'] / 1000:.1f} ({there['low'] / 1000:.1f} to "
                      f"{there['high'] / 1000:.1f}) in the chapter \"{chapter}\": the same within {nears.NEAR:.0%}.")


def among(value, published):
    """Whether a ratio here is among the published ones; None: too near to the least or the greatest to tell."""
    least, most = min(published), max(published)
    if any(edge / (1 + SCATTER) < value < edge * (1 + SCATTER) for edge in (least, most)):
        return None
    return least < value < most


def judge_here(section, model, here):
    exchanges = {name: machine["exchanges"] for name, machine in model["machines"].items()}
    calls = {name: machine["calls"] for name, machine in model["machines"].items()}
    ethernet, atm = exchanges["ethernet_dec"][0], exchanges["atm_dec"][0]
    rows = {(row["link"], row["driver"], row["frame"]): row for row in here["rows"]}
    link = here["far"] or "virtio"
    near, far = rows.get((link, "poll", 60)), rows.get((link, "interrupt", 60))
    spins = {(row["work"], row["spin"]): row for row in here["spins"]}
    if near is None or far is None:
        section.answer = "Not measured here."
        section.compare("How many times as long longer packets, calls and their arguments take", "not measured", "four controllers",
                        f"nothing was measured over {link}")
        return
    wakes = far["parts_ns"]["bell"] + far["parts_ns"]["wake"]
    for words, row, then in ((f"60 bytes there and back over {link}, sleeping drivers; then: over Ethernet", far, ethernet),
                             (f"... polling drivers; then: {atm['frame']} bytes over ATM", near, atm)):
        section.compare(words, f"{row['measured_ns'] / 1000:.2f} us", f"{then['measured_us']} us", "times of another machine and network; ratios are judged")
    called_ns = {(row["driver"], row["frame"]): row["measured_ns"] for row in here["calls"]}
    pairs = [(exchanges[name], calls[name]) for name in exchanges]
    ratios = {
        "1514 bytes instead of 60, there and back": [long["measured_us"] / short["measured_us"] for (short, long), _ in pairs],
        "A call without arguments, against an exchange of 60 bytes": [call["measured_us"] / short["measured_us"] for (short, _), (call, _) in pairs],
        "A call with a packet full of arguments, against one without": [full["measured_us"] / empty["measured_us"] for _, (empty, full) in pairs]}
    for driver, words in (("poll", "polling"), ("interrupt", "sleeping")):
        short, long = (rows[link, driver, frame]["measured_ns"] if (link, driver, frame) in rows else None for frame in (60, 1514))
        empty, full = (called_ns.get((driver, frame)) for frame in (60, 1514))
        for (what, then), (more, less) in zip(ratios.items(), ((long, short), (empty, short), (full, empty))):
            if more and less:
                section.compare(f"{what}, {words} drivers", f"{more / less:.2f} times as long", f"{min(then):.2f} to {max(then):.2f} times",
                                among(more / less, then))
    shares = [(short["published"]["vectoring"] + short["published"]["service"]) / short["sum_us"] for (short, _), _ in pairs]
    share = wakes / far["measured_ns"]
    section.compare("Interrupts (here: ringing and waking), of a short packet's round trip", f"{share:.0%}",
                    f"{min(shares):.0%} to {max(shares):.0%}", among(share, shares))
    section.answer = (
        f"Then, an exchange of 60 bytes over Ethernet took {ethernet['measured_us']} us, of which {ethernet['published']['wire']} were on the "
        f"wire, and one of {atm['frame']} bytes over ATM {atm['measured_us']}. Here, 60 bytes take {far['measured_ns'] / 1000:.1f} us over {link} where drivers sleep, of which "
        f"{wakes / 1000:.1f} are two wake-ups, and {near['measured_ns'] / 1000:.2f} where they poll.")
    if ("poll", 60) in called_ns:
        added_us = calls["ethernet_dec"][0]["measured_us"] - ethernet["measured_us"]
        section.answer += (f" A call without arguments added {added_us} us to the {ethernet['measured_us']} then, and adds "
                           f"{(called_ns['poll', 60] - near['measured_ns']) / 1000:.2f} to the {near['measured_ns'] / 1000:.2f} now.")
    section.check(0.5 < share < 1 + SUM_LIMIT, "Here, where drivers sleep, most of a round trip is waking them: two wake-ups, "
                  f"measured by themselves, take {wakes / 1000:.1f} us, and the round trip {far['measured_ns'] / 1000:.1f}.", bears=True)
    if {("0us", "interrupt"), ("0us", "100us")} <= set(spins):
        section.check(spins["0us", "100us"]["us"] < spins["0us", "interrupt"]["us"] / 2,
                      "A driver that polls for longer than a call takes saves more than half of it.")
