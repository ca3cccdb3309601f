"""components.py - the parts of a round trip: the tables of Thekkath and Levy (1993), predicted and measured."""
import lab as labs
import near as nears

OVERLAP_LIMIT = 0.05  # of ATM's long packet: the sum of its parts, as if nothing overlapped, is 13 % off
CALL_LIMIT = 0.10  # of a predicted call: two controllers' calls without arguments are 12 % apart, and a prediction should show which is shorter
STEP_US = 1  # resolution of published steps
SUM_LIMIT = 0.15  # of parts measured here: the sums of the published ones are as far off their round trips
CALL = "A call without arguments, relative to an exchange of 60 bytes"
PART_TITLES = {"way": "frame transfer", "device": "DPDK's device", "bell": "ringing", "wake": "waking, beyond ringing", "service": "the hosts' work"}


def run(lab):
    section = labs.Section(
        "components", "Where a round trip goes",
        "What are the parts of a round trip on each kind of controller, and what does a remote procedure call add?", across=True)
    section.text(
        "C. A. Thekkath and H. M. Levy broke a round trip into its parts in 1993 (\"Limits to Low-Latency Communication on High-Speed "
        "Networks\"): an exchange of packets between two interrupt handlers, and the most direct remote procedure call possible, on "
        "four controllers. Here their machines are simulated from these parts, and this machine's round trips are broken down likewise.")
    section.data["model"] = model = lab.script("components/controllers.py")
    predicted(section, model)
    section.data["here"] = here = lab.script("components/parts.py", "--cores", lab.cores, "--rounds", str(lab.rounds(20000, 300)),
                                              "--turns", str(lab.rounds(lab.repeats, 1)), *(lab.far.options() if lab.far else ()))
    measured(section, here)
    spun(section, here)
    left_out(lab, section, model, here)
    for what, why in here["missing"].items():
        section.text(f"Not measured: {what}: {why}.")
    assess(lab, section, model, here)
    check_wake(section, here, lab.wakes)
    return section


def fitted_title(model):
    return next(machine["title"] for machine in model["machines"].values() if machine["calls"][0]["fitted"])


def sizes_of(name, row):
    """Returns a frame's length as the paper states it: on ATM, with the headers of its cells."""
    return f"{-(-row['frame'] // 48) * 53} bytes in cells ({row['frame']} without their headers)" if name == "atm_dec" else f"{row['frame']} bytes"


def error(us, published_us):
    return f"{100 * (us / published_us - 1):+.1f} %"


# ---- the machines of 1993 ----


def predicted(section, model):
    machines = model["machines"].values()
    head = ["microseconds, both directions"]
    for name, machine in model["machines"].items():
        head += [f"{machine['title']}, {sizes_of(name, row)}" for row in machine["exchanges"]]
    exchanges = [row for machine in machines for row in machine["exchanges"]]
    rows = [(title, *(str(row["published"][part]) for row in exchanges)) for part, title in model["parts"].items()]
    rows += [("Sum", *(str(row["sum_us"]) for row in exchanges)),
             ("Simulated", *(f"{row['us']:.0f}{'' if is_predicted(model, row) else ', given'}" for row in exchanges)),
             ("Measured then (published)", *(str(row["measured_us"]) for row in exchanges)),
             ("Error of the simulation, or of the given parts' sum", *(error(row["us"], row["measured_us"]) for row in exchanges))]
    section.table("Thekkath and Levy's table of an exchange of packets: the published parts, and the round trips simulated from them", head, rows,
                  checked="ATM's long packet, which is predicted",
                  unchecked="the simulator is given the parts, and with them all other round trips, which are their sums")
    section.text(
        "The controllers: " + "; ".join(f"{machine['title']}: {machine['how']}" for machine in machines) + ". The parts are given, so their "
        "sums are no predictions. Only ATM's long packet is one: a cell leaves as soon as it is written, so processor and wire work "
        "in parallel, and the round trip is shorter than the sum of its parts.")
    calls = [row for machine in machines for row in machine["calls"]]
    head = ["microseconds"]
    for machine in machines:
        head += [f"{machine['title']}, no arguments", "a full packet"]
    rows = [(step.capitalize(), *(f"{row['steps_us'][i]:.0f} ({row['published'][i]})" for row in calls)) for i, step in enumerate(model["steps"])]
    rows += [("The whole call, simulated", *(f"{row['us']:.0f}{', fitted' if row['fitted'] else ''}" for row in calls)),
             ("The steps' sum, published", *(str(sum(row["published"])) for row in calls)),
             ("The whole call, published", *(str(row["measured_us"]) for row in calls)),
             ("Error", *(error(row["us"], row["measured_us"]) for row in calls))]
    section.table("Thekkath and Levy's table of calls: predicted from the parts of an exchange (published in brackets)", head, rows,
                  checked="each predicted call and step; which controller is faster",
                  unchecked=f"the calls of \"{fitted_title(model)}\" are fitted")
    exchange, call = (machine[kind][0] for machine in machines if machine["calls"][0]["fitted"] for kind in ("exchanges", "calls"))
    extra_us = sum(ns + kb_ns * exchange["frame"] / 1000 for ns, kb_ns in model["extra_ns"].values()) / 1000
    section.text(
        f"The cost of a call beyond its packets is taken from the Ethernet of the DECstation: {extra_us:.0f} us without arguments, the {sum(call['published'])} of its steps "
        f"minus the {exchange['sum_us']} of an exchange's parts. (The measured call took {added(exchange, call)} more than the measured exchange: {call['measured_us']} minus "
        f"{exchange['measured_us']}.) The prediction uses it on all four. FDDI's call with arguments is predicted too long "
        "because the prediction copies a received packet, which FDDI's controller puts where the server wants it. The SPARCstation's calls are predicted "
        "too short because its operating system is another one, with more expensive calls. Our call's frame has 60 bytes, two of "
        "ATM's cells; the paper's took one. On FDDI and ATM the paper charges the empty reply to a long call the "
        "controller's latency of the call; the prediction charges that of a short frame.")


# ---- this machine ----


def row_of(title, row, share):
    parts = row["parts_ns"]
    total = sum(parts.values())
    return (title, str(row["frame"]), *(f"{parts[part] / 1000:.2f}" for part in PART_TITLES), f"{total / 1000:.2f}",
            f"{row['measured_ns'] / 1000:.2f}", nears.percent(share))


def measured(section, here):
    columns = ("bytes", *PART_TITLES.values(), "sum", "round trip", "sum / round trip")
    section.table(f"The same table on this machine: microseconds, both directions, medians of {turns_of(here)}", ("link and driver", *columns),
                  [row_of(f"{row['link']}, {row['driver']}", row, sum_share(here, row)) for row in here["rows"]])
    section.table(f"A call over {here['far'] or 'virtio'}, without arguments and with a full packet of them, and its empty reply: medians of {turns_of(here)}",
                  ("driver", *columns), [row_of(row["driver"], row, sum_share(here, row)) for row in here["calls"]])
    section.picture("The most direct call", "chantest-direct.dot", {("bid", "vmux"): ("decided when a channel is opened", True)})
    section.text(
        "Over virtio and rings a frame is transferred in memory: one core copies it and the other reads it. Over the other links Linux transfers it: a "
        "thread on one core sends by the system call that the link's driver uses, and one on the other core polls the socket's ring, or the tap, and sends the frame back. "
        + (f"Over {here['far']} the transfer was not measured by itself. " if here["far"] else "") + "A polling "
        "driver rings no doorbell and never sleeps. Ringing is measured where no thread waits; ringing and waking together are a wake-up, "
        f"measured in isolation: {labs.spread(wake_us(here))} us. Linux rings as it sends. DPDK's device is not measured directly: it is how much longer a round trip with DPDK alone takes than the "
        "transfer, so it comes out at zero or less where the transfer alone takes as long. What the parts leave unexplained was not investigated; likely causes are "
        "the signals that Linux sends DPDK for frames on a tap, and the cold caches of a driver that has slept.")
    section.text(
        f"Everything was measured in {turns_of(here)}, and compared quantities one after another on the same two cores: with polling drivers the "
        "transfers, an exchange and a call; with sleeping ones a wake-up, an exchange and a call; long and short frames in one run. Ratios, differences "
        "and the last column are computed within each turn, with their range in brackets. Within a turn, parts and round trips are medians, too: a mean would include "
        "the time of other programs.")


def sum_share(here, row):
    """Returns the interval over the turns of the parts' sum relative to the round trip."""
    each = each_turn(here, (row.get("link", "call"), row["driver"], row["frame"])) or [row]
    return labs.interval([sum(turn["parts_ns"].values()) / turn["measured_ns"] for turn in each])


def turns_of(here):
    return "one turn" if here["turns"] == 1 else f"{here['turns']} turns"


def spun(section, here):
    works = list(dict.fromkeys(row["work"] for row in here["spins"]))
    titles = {"interrupt": "0", "poll": "always"}
    rows = []
    for spin in dict.fromkeys(row["spin"] for row in here["spins"]):
        cells = {row["work"]: row for row in here["spins"] if row["spin"] == spin}
        rows.append((titles.get(spin, spin), *(text for work in works for text in
                                               ((f"{cells[work]['us']:.1f}", f"{cells[work]['sleeps']:.2f}") if work in cells else ("-", "-")))))
    section.table(f"How long the drivers poll before they sleep: a call without arguments over {here['far'] or 'virtio'}, medians of {turns_of(here)}",
                  ("polls for", *(text for work in works for text in (f"us per call, server works {work}", "sleeps per call"))), rows)


# ---- what the paper's tables leave out ----

ATM_SOFTWARE_US = 1065  # of a round trip of 1,537 bytes on the wire, by its notes
CELL_MTU = 20 + 48  # an IP header and a cell's payload
UDP_HEADER = 8
MESSAGES = {  # name: (text, MTU, whether it takes a path)
    "whole": ("a packet of ATM's longest exchange, in one frame", 1500, "yes"),
    "cut": ("the same in fragments of 48 bytes, as many as there were cells", CELL_MTU, "yes"),
    "path": ("8 bytes, recognized by a path: once, at the port", 1500, "yes"),
    "layers": ("8 bytes, demultiplexed by each layer", 1500, "no"),
}


def left_out(lab, section, model, here):
    """Measures fragmentation with reassembly, and demultiplexing: the work of both hosts for a message in one direction."""
    atm = model["machines"]["atm_dec"]["exchanges"][1]
    pieces = -(-atm["frame"] // 48)
    sizes = dict.fromkeys(MESSAGES, 8) | dict.fromkeys(("whole", "cut"), atm["frame"] - UDP_HEADER)
    took = {name: [] for name in MESSAGES}
    for _ in range(1 if lab.brief else lab.repeats):
        for name, (_, mtu, paths) in MESSAGES.items():
            took[name].append(lab.bench("message", "--graph", lab.graph("udptest.dot"), "--size", str(sizes[name]), "--mtu", str(mtu), "--paths", paths,
                                        "--rounds", str(lab.rounds(20000, 2000)))["message_ns"])
    section.data["left_out_ns"] = took
    section.table("What the paper leaves out: nanoseconds that both hosts spend on a message from one to the other, without a wire", ("", "ns"),
                  [(words, labs.spread(labs.interval(took[name]))) for name, (words, _, _) in MESSAGES.items()])
    software = labs.interval([cut - whole for cut, whole in zip(took["cut"], took["whole"])])
    demux = labs.interval([layers - path for layers, path in zip(took["layers"], took["path"])])
    section.text(
        f"ATM's {pieces} cells were cut and reassembled in software: {ATM_SOFTWARE_US} us of a round trip, which the paper's table leaves out. Here IP does this with "
        f"fragments of 48 bytes: {labs.spread({key: ns / pieces for key, ns in software.items()})} ns for each, at both ends together. That is more work than cells need: "
        "each fragment has an IP header and passes IP, VNET, Ethernet and the port.")
    exchange = next((row for row in here["rows"] if (row["link"], row["driver"], row["frame"]) == (here["far"] or "virtio", "poll", 1514)), None)
    words, then = "Cutting and reassembling a packet in software, both directions, relative to an exchange of the packet without it", f"{ATM_SOFTWARE_US / atm['measured_us']:.2f}"
    if exchange is None:
        section.compare(words, "not measured", then, "no exchange was measured")
    else:
        trips = labs.interval([row["measured_ns"] for row in each_turn(here, (exchange["link"], "poll", 1514)) or [exchange]])
        ratio = {key: 2 * ns / trips[other] for (key, ns), other in zip(software.items(), ("high", "median", "low"))}
        section.compare(f"{words} (above 1: it costs more than everything else)", labs.spread(ratio), then, enough(lab, here, nears.within(ratio, 1, float("inf"))),
                        rule="not measured in turn: the range is from the lowest of one by the highest of the other to the highest by the lowest")
    section.compare("Extra time of demultiplexing a short message in each layer, instead of by a path", f"{labs.spread(demux)} ns of {labs.median(took['layers']):.0f}",
                    "left out of its calls", "the paper has no figure")
    services = {name: [row["published"]["service"] for row in model["machines"][name]["exchanges"]] for name in ("ethernet_sparc", "fddi_dec")}
    section.compare("Flushing the cache for DMA", "nothing to flush: caches are coherent", "; ".join(
        f"{model['machines'][name]['title']}: in {short} us of service, {long} with a long packet" for name, (short, long) in services.items()),
        "the paper does not break down the service, and this machine flushes nothing")


# ---- what agrees ----


def assess(lab, section, model, here):
    check_exchanges(section, model)
    check_calls(section, model)
    for place, words in enumerate(("a call without arguments", "a call with a full packet of arguments")):
        check_order(section, words, [(machine["title"], machine["calls"][place]) for machine in model["machines"].values()])
    check_sums(lab, section, model, here)
    check_here(lab, section, model, here)


def enough(lab, here, agrees):
    """Returns a verdict, or None if there were fewer turns than repetitions in other chapters, as in a quick report."""
    return agrees if here["turns"] >= lab.repeats else None


def check_exchanges(section, model):
    machines = model["machines"]
    exchange = machines["atm_dec"]["exchanges"][1]
    section.check(abs(exchange["us"] / exchange["measured_us"] - 1) <= OVERLAP_LIMIT,
                  f"{machines['atm_dec']['title']}: an exchange of long packets, of {sizes_of('atm_dec', exchange)}, is predicted within {OVERLAP_LIMIT:.0%}: {exchange['us']:.0f} us, "
                  f"published {exchange['measured_us']}, {error(exchange['us'], exchange['measured_us'])}.", across=False)


def is_predicted(model, exchange):
    return exchange is model["machines"]["atm_dec"]["exchanges"][1]


def added(exchange, call):
    """Returns how much longer the measured call took than the measured exchange."""
    return call["measured_us"] - exchange["measured_us"]


def check_calls(section, model):
    for machine in model["machines"].values():
        for row, words in zip(machine["calls"], ("a call without arguments", "a call with a full packet of arguments")):
            if row["fitted"]:
                continue
            section.check(abs(row["us"] / row["measured_us"] - 1) <= CALL_LIMIT,
                          f"{machine['title']}: {words} is predicted within {CALL_LIMIT:.0%}: {row['us']:.0f} us, published {row['measured_us']}, "
                          f"{error(row['us'], row['measured_us'])}.", across=False)
            off = [f"{step} ({us:.0f} us, published {was})" for step, us, was in zip(model["steps"], row["steps_us"], row["published"])
                   if abs(us - was) > max(STEP_US, CALL_LIMIT * was)]
            section.check(not off, f"{machine['title']}: each step of {words} is predicted within {CALL_LIMIT:.0%} or {STEP_US} us: "
                          f"{len(model['steps']) - len(off)} of {len(model['steps'])}{'; not ' * bool(off)}{'; '.join(off)}.", across=False)


def check_order(section, words, rows):
    """Checks the order of each pair of controllers. rows: (controller, its row of the model). If published times are equal, simulated ones must differ by at most OVERLAP_LIMIT."""
    off = [f"{one} against {other}" for i, (one, a) in enumerate(rows) for other, b in rows[i + 1:]
           if (a["us"] - b["us"]) * (a["measured_us"] - b["measured_us"]) < 0
           or (a["measured_us"] == b["measured_us"] and abs(a["us"] / b["us"] - 1) > OVERLAP_LIMIT)]
    section.check(not off, f"Which controller is faster at {words}, simulated: "
                  + ", ".join(f"{title} {row['us']:.0f} us ({'fitted; ' * row['fitted']}published {row['measured_us']})" for title, row in rows)
                  + "".join(f"; wrong: {text}" for text in off) + ".", across=False)


def check_sums(lab, section, model, here):
    """Checks whether the parts add up to each round trip, as well as the published ones do."""
    machines = model["machines"].values()
    exchanges = [row["sum_us"] / row["measured_us"] for machine in machines for row in machine["exchanges"]]
    calls = [sum(row["published"]) / row["measured_us"] for machine in machines for row in machine["calls"]]
    links = {}
    for row in here["rows"]:
        links.setdefault(row["link"], []).append(row)
    groups = [(link, rows, exchanges) for link, rows in links.items()] + [(f"calls over {here['far'] or 'virtio'}", here["calls"], calls)]
    for link, rows, then in groups:
        shares = [sum_share(here, row) for row in rows]
        text = ", ".join(f"{row['driver']} {row['frame']} bytes {nears.percent(share)}" for row, share in zip(rows, shares))
        words, was = f"Sum of the parts, as a share of the round trip, {link}", f"{min(then):.0%} to {max(then):.0%}"
        if here["far"] and here["far"] in link:
            section.compare(words, text, was, "the transfer between the hosts was not measured by itself")
        elif rows:
            section.compare(words, text, was, enough(lab, here, nears.all_of(nears.within(share, 1 - SUM_LIMIT, 1 + SUM_LIMIT) for share in shares)),
                            bears=not here["far"] and link == "virtio", rule=f"within {SUM_LIMIT:.0%} of the round trip, above or below, at each length and with each driver")


def wake_us(here):
    """Returns the interval of isolated wake-ups over the turns."""
    return labs.interval([ns / 1000 for ns in here["wakes_ns"]])


def check_wake(section, here, wakes):
    """Checks whether a wake-up takes as long as in other chapters, which measure it with the same program."""
    mine = wake_us(here)
    for chapter, there in wakes.items():
        section.check(nears.near({"low": 1000 * mine["low"] / there["high"], "high": 1000 * mine["high"] / there["low"]}, 1),
                      f"An isolated wake-up takes {labs.spread(mine)} us here, and took {there['median'] / 1000:.1f} ({there['low'] / 1000:.1f} to "
                      f"{there['high'] / 1000:.1f}) in the chapter \"{chapter}\": the same within {nears.NEAR:.0%}.")


def each_turn(here, key):
    """Returns each turn's row of ("call", driver, frame) or (link, driver, frame); [] if a turn has none."""
    kind = "calls" if key[0] == "call" else "rows"
    found = [next((row for row in turn[kind] if (row.get("link", "call"), row["driver"], row["frame"]) == key), None) for turn in here["each_turn"]]
    return [] if None in found else found


def compared(here, one, other, how):
    """Returns the interval over the turns of how(ns, ns) of two round trips, or None if one was not measured."""
    pairs = [(a["measured_ns"], b["measured_ns"]) for a, b in zip(each_turn(here, one), each_turn(here, other))]
    return labs.interval([how(*pair) for pair in pairs]) if pairs else None


def difference_text(more, digits):
    """Returns a text on how many microseconds longer one takes than the other."""
    if labs.is_saved(more) is None:
        return f"from {0 - more['low']:.{digits}f} us less to {more['high']:.{digits}f} us more"
    return labs.more_or_less(more, "us", digits)


def check_here(lab, section, model, here):
    exchanges = {name: machine["exchanges"] for name, machine in model["machines"].items()}
    calls = {name: machine["calls"] for name, machine in model["machines"].items()}
    ethernet, atm = exchanges["ethernet_dec"][0], exchanges["atm_dec"][0]
    rows = {(row["link"], row["driver"], row["frame"]): row for row in here["rows"]}
    link = here["far"] or "virtio"
    near, far = rows.get((link, "poll", 60)), rows.get((link, "interrupt", 60))
    if near is None or far is None:
        section.answer = "Not measured here."
        section.compare("Relative times of longer packets, of calls and of their arguments", "not measured", "four controllers",
                        f"nothing was measured over {link}")
        return
    for words, row, then in ((f"Round trip of 60 bytes over {link}, sleeping drivers (in 1993: over Ethernet)", far, ethernet),
                             (f"... polling drivers (in 1993: {atm['frame']} bytes over ATM)", near, atm)):
        section.compare(words, f"{row['measured_ns'] / 1000:.2f} us", f"{then['measured_us']} us", "the times are of different machines and networks; ratios are checked")
    pairs = [(exchanges[name], calls[name]) for name in exchanges]
    ratios = {
        "Round trip of 1514 bytes, relative to 60 (ATM: 1392, relative to 48)": [long["measured_us"] / short["measured_us"] for (short, long), _ in pairs],
        CALL: [call["measured_us"] / short["measured_us"] for (short, _), (call, _) in pairs],
        "A call with a full packet of arguments, relative to one without": [full["measured_us"] / empty["measured_us"] for _, (empty, full) in pairs]}
    for driver, words in (("poll", "polling"), ("interrupt", "sleeping")):
        (short, long), (empty, full) = ([(where, driver, frame) for frame in (60, 1514)] for where in (link, "call"))
        for (what, then), pair in zip(ratios.items(), ((long, short), (empty, short), (full, empty))):
            ratio = compared(here, *pair, lambda one, other: one / other)
            if ratio:
                section.compare(f"{what}, {words} drivers", f"{labs.spread(ratio, 2)} times as long", f"{min(then):.2f} to {max(then):.2f} times",
                                enough(lab, here, nears.near(ratio, *then)), bears=what == CALL, rule=f"within {nears.NEAR:.0%} of the four controllers' range")
    shares = [(short["published"]["vectoring"] + short["published"]["service"]) / short["measured_us"] for (short, _), _ in pairs]
    interrupts = [sum(row["parts_ns"][part] for part in ("bell", "wake", "service")) / row["measured_ns"] for row in each_turn(here, (link, "interrupt", 60)) or [far]]
    share = labs.interval(interrupts)
    section.compare("Interrupts and their service (here: ringing, waking and the hosts' work, each measured by itself), as a share of a short packet's round trip", nears.percent(share),
                    f"{min(shares):.0%} to {max(shares):.0%}", enough(lab, here, nears.near_share(share, *shares)), bears=True,
                    rule=f"within {nears.POINTS:.0%} of the round trip of the four controllers' range")
    section.answer = (
        f"In 1993 an exchange of 60 bytes over Ethernet took {ethernet['measured_us']} us, of which {ethernet['published']['wire']} were on the "
        f"wire, and one of {atm['frame']} bytes over ATM {atm['measured_us']}. Here, 60 bytes take {far['measured_ns'] / 1000:.1f} us over {link} if drivers sleep (two "
        f"isolated wake-ups take {2 * wake_us(here)['median']:.1f}), and {near['measured_ns'] / 1000:.2f} if they poll.")
    more = {driver: compared(here, ("call", driver, 60), (link, driver, 60), lambda one, other: (one - other) / 1000) for driver in ("interrupt", "poll")}
    if None not in more.values():
        call = calls["ethernet_dec"][0]
        section.answer += (
            f" In 1993 a call without arguments took {call['measured_us']} us, {added(ethernet, call)} more than the exchange. Here it takes {difference_text(more['interrupt'], 1)} "
            f"than the exchange if drivers sleep, and {difference_text(more['poll'], 2)} if they poll.")
