"""components.py - the parts of a round trip: the tables of Thekkath and Levy (1993), predicted and measured."""
import lab as labs

PART_TITLES = {"way": "the frame's way", "device": "DPDK's device", "bell": "signalling", "wake": "waking a sleeper", "service": "the hosts' work"}


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
    for what, why in here["missing"].items():
        section.text(f"Not measured: {what}: {why}.")
    judge(section, model, here)
    return section


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
    section.table("Thekkath and Levy's table of an exchange of packets: the published parts, and what the simulator makes of them",
                  head, rows)
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
             ("The whole call, published", *(str(row["measured_us"]) for row in calls)),
             ("Error", *(error(row["us"], row["measured_us"]) for row in calls))]
    section.table("Thekkath and Levy's table of calls: predicted from the parts of an exchange (published in brackets)", head, rows)
    extra = {step: ns / 1000 for step, (ns, _) in model["extra_ns"].items()}
    section.text(
        "What a call costs besides its packets is taken from the Ethernet of the DECstation "
        f"({sum(extra.values()):.0f} us without arguments) and expected on all four. FDDI's call with arguments is predicted too long "
        "because its controller puts a received packet where the server wants it, while the prediction copies it; the SPARCstation's calls "
        "too short because it has another system, whose calls cost more.")


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
        "thread sends on one interface and takes the frame from the other. Between two machines it was not measured by itself. A polling "
        "driver signals nobody and never sleeps. What the parts leave unexplained is in the difference. Its causes are not measured; likely "
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


def judge(section, model, here):
    exchanges = {name: machine["exchanges"] for name, machine in model["machines"].items()}
    calls = {name: machine["calls"] for name, machine in model["machines"].items()}
    off = {name: max(abs(row["us"] / row["measured_us"] - 1) for row in rows) for name, rows in calls.items()}
    ethernet, atm = exchanges["ethernet_dec"][0], exchanges["atm_dec"][0]
    section.check(all(abs(row["us"] / row["sum_us"] - 1) < 0.01 for name, rows in exchanges.items() for row in rows if name != "atm_dec"),
                  "Simulated, the parts of an exchange add up to their published sum.")
    section.check(exchanges["atm_dec"][1]["us"] < exchanges["atm_dec"][1]["sum_us"],
                  "Where cells leave as they are written, the exchange is shorter than the sum of its parts.")
    section.check(off["atm_dec"] < 0.05, f"Calls over ATM are predicted within {100 * off['atm_dec']:.0f} %.")
    section.check(exchanges["fddi_dec"][0]["us"] > exchanges["ethernet_dec"][0]["us"],
                  "Ten times the bandwidth makes a short exchange no shorter: FDDI's takes longer than Ethernet's.")
    rows = {(row["link"], row["driver"], row["frame"]): row for row in here["rows"]}
    link = here["far"] or "virtio"
    near, far = rows.get((link, "poll", 60)), rows.get((link, "interrupt", 60))
    spins = {(row["work"], row["spin"]): row for row in here["spins"]}
    if near is None or far is None:
        section.answer = "Not measured here."
        return
    wake = far["parts_ns"]["wake"]
    section.compare(f"60 bytes there and back over {link}, sleeping drivers; then: over Ethernet", f"{far['measured_ns'] / 1000:.1f} us",
                    f"{ethernet['measured_us']} us")
    section.compare(f"... polling drivers; then: {atm['frame']} bytes over ATM", f"{near['measured_ns'] / 1000:.2f} us", f"{atm['measured_us']} us")
    called_ns = {(row["driver"], row["frame"]): row["measured_ns"] for row in here["calls"]}
    section.answer = (
        f"Then, an exchange of 60 bytes over Ethernet took {ethernet['measured_us']} us, of which {ethernet['published']['wire']} were on the "
        f"wire, and one of {atm['frame']} bytes over ATM {atm['measured_us']}. Here, 60 bytes take {far['measured_ns'] / 1000:.1f} us over {link} where drivers sleep, of which "
        f"{wake / 1000:.1f} are two wake-ups, and {near['measured_ns'] / 1000:.2f} where they poll.")
    if ("poll", 60) in called_ns:
        added_us = calls["ethernet_dec"][0]["measured_us"] - ethernet["measured_us"]
        section.answer += (f" A call without arguments added {added_us} us to the {ethernet['measured_us']} then, and adds "
                           f"{(called_ns['poll', 60] - near['measured_ns']) / 1000:.2f} to the {near['measured_ns'] / 1000:.2f} now.")
    section.check(wake > far["measured_ns"] / 2, "Here, where drivers sleep, most of a round trip is waking them.", bears=True)
    if not here["far"]:
        section.check(0.5 < sum(near["parts_ns"].values()) / near["measured_ns"] < 1.5,
                      "Where they poll, the parts add up to the round trip to within half of it.")
    if {("0us", "interrupt"), ("0us", "100us")} <= set(spins):
        section.check(spins["0us", "100us"]["us"] < spins["0us", "interrupt"]["us"] / 2,
                      "A driver that polls for longer than a call takes saves more than half of it.")
