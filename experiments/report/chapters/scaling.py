"""scaling.py - specialized and general layers as machines grow: Heath, Kaur, Martin and Nguyen, "Quantifying the Impact of
Architectural Scaling on Communication" (2001). The arithmetic is in experiments/scaling/arithmetic.py."""
import datetime
import os
import re
import shutil
import subprocess
import sys

import lab as labs
import looks
import near

sys.path.insert(0, os.path.join(labs.ROOT, "experiments", "scaling"))
import arithmetic as model

BURSTS, PAGES = (os.path.join("experiments", "scaling", name) for name in ("bursts", "pages"))
SPECIAL, GENERAL, KERNEL = "AM over Ethernet", "AM over UDP/IP", "AM over Linux's UDP"
LAYERS = {  # graph, link, bytes of headers in a frame, and color and marker in plots
    SPECIAL: ("am.dot", "virtio", 14 + 32, (looks.IPP, "o")),
    GENERAL: ("am-udp.dot", "virtio", 14 + 20 + 8 + 32, (looks.OTHER, "s")),
    KERNEL: ("am.dot", "socket", None, (looks.REGULAR, "^")),
}
ALONE, SHORT, LONG = 1, 4, 128  # messages of a burst
WORDS = 16  # bytes of the words in a request or a reply
SIZES = (0, 64, 256, 512, 1024, 1400)  # bytes in one frame
STORES, STORED = (4096, 16384), 16  # bytes of stores, and stores in a burst
PAGES_SIZES = (4096, 8192, 16384, 32768, 65536, 131072, 262144)
SMALL = 65536  # bytes, up to which the paper found registration as expensive as page table changes
OPERATIONS = {"copy_ns": "copy from memory", "cached_ns": "copy, cached", "lock_ns": "mlock, munlock", "protect_ns": "two mprotect",
        "receive_ns": "receive: mremap, mprotect", "register_ns": "register"}
COUNTED = 20  # bursts that callgrind counts; counts are exact, so only tests need fewer
EXPECTED = (2, 3)  # times the special layer's overhead: the paper's prediction for the general layer
CLOCKS = (233, 550, 1000, 3000, 5000)  # MHz: measured in the paper, and predicted
COUNTERS = "/sys/bus/event_source/devices/cpu"  # Linux's counters of processor events
WAITS = {"poll": "polling, one core per end", "interrupt": "asleep until a message arrives, both ends on one core"}
THREADS = (1, 4)  # threads that share an endpoint, in regular mode
LITTLE = 2  # times: a smaller change counts as "changed little" while the clock doubled with each generation
WITHIN, POINTS = f"within {near.NEAR:.0%}", f"within {near.POINTS:.0%} of the whole"
ALIKE_L = 0.10  # largest difference of two layers' L on one link, as a part of half a round trip, that no layer is charged with
COPIES = (  # copies and other full reads of a message's bytes at both ends, by layer
    ("the program's bytes into a buffer", ("copy", "copy", "copy")),
    ("the sender's checksum", ("-", "read", "- (loopback has none)")),
    ("out of the sender's buffer", ("copy, by the server's process", "copy, by the server's process", "copy, into the kernel")),
    ("into the receiver's buffer", ("the same copy", "the same copy", "copy, out of the kernel")),
    ("the receiver's checksum", ("-", "read", "- (loopback has none)")),
    ("a store's bytes into the receiver's memory", ("copy", "copy", "copy")),
)


def run(lab):
    section = labs.Section(
        "scaling", "What machines' growth did to messaging",
        "Is a specialized messaging layer still worth it, now that processors have grown so much faster than the devices they connect to?", across=True)
    data = section.data
    data["bursts"] = {name: [] for name in LAYERS}
    data["waits"] = {driver: [] for driver in WAITS}
    data["answers"] = {"reply": [], "returned": []}
    data["alone"] = {name: [] for name in (SPECIAL, GENERAL)}
    data["pages"], data["copy"], data["retransmitted"] = [], [], 0
    data["year"] = int(lab.journal.about["date"][:4]) if lab.journal else datetime.date.today().year
    for turn in range(lab.repeats):
        for number, name in enumerate(LAYERS):
            documents = (bursts(lab, name, SIZES, (ALONE, SHORT, LONG), lab.rounds(300, 20)), bursts(lab, name, STORES, (STORED,), lab.rounds(50, 5)))
            data["bursts"][name].append([one for document in documents for one in document["runs"]])
            data["retransmitted"] += sum(document["retransmitted"] for document in documents)
            lab.progress((turn + (number + 1) / (len(LAYERS) + 1)) / lab.repeats)
        for name, repeats in data["alone"].items():
            repeats.append(bursts(lab, name, (0,), (SHORT,), lab.rounds(2000, 200), "memory")["runs"])
        for answer, repeats in data["answers"].items():
            repeats.append(bursts(lab, SPECIAL, (0,), (SHORT,), lab.rounds(2000, 200), "memory", ("--returned",) if answer == "returned" else ())["runs"])
        for driver, repeats in data["waits"].items():
            repeats.append(waits(lab, driver))
        data["pages"].append(lab.run_for_stdout(PAGES, "--size", comma_separated(PAGES_SIZES), "--rounds", str(lab.rounds(600, 60))))
        data["copy"].append(lab.bench("copy", "--size", comma_separated(PAGES_SIZES), "--way", "send-copy,send-reference", "--rounds",
                                      str(lab.rounds(6400, 640)))["runs"])
    data["ghz"] = labs.median([document["ghz"] for document in data["pages"]])
    data["instructions"] = {name: lab.once(["instructions", name], lambda name=name: instructions(lab, name)) for name in LAYERS}
    data["counters"] = lab.once(["counters"], lambda: os.path.isdir(COUNTERS))
    if shutil.which("valgrind") is None:
        section.text("Instructions were not counted: valgrind is not installed.")
    data["parameters"] = {name: parameters(repeats) for name, repeats in data["bursts"].items()}
    data["bytes"] = {name: per_byte(repeats) for name, repeats in data["bursts"].items()}
    section.plot("o_s + o_r of general layers, relative to the specialized one's, by the processor's clock: the model, the published values, and "
                 "this machine's range.", lambda axes: plot_ratios(axes, data), "The general layer's price depends on how it reaches the device, not on the clock.")
    loggp(section, data)
    events(section, data)
    scaled(section, data)
    by_clock(section, data)
    functions(section, data)
    long_messages(section, data)
    page_budget(section, data)
    assess(section, data)
    return section


def comma_separated(numbers):
    return ",".join(map(str, numbers))


# ---- measuring ----


def waits(lab, driver):
    """Measures round trips of acknowledged requests, whose handlers run in the driver or on threads that share the endpoint."""
    core = lab.cores.split(",", maxsplit=1)[0]
    return lab.run("udptest", "--graph", lab.graph(LAYERS[SPECIAL][0]), "--cores", lab.cores if driver == "poll" else f"{core},{core}", "--driver", driver, "--size",
                   str(WORDS), "--mode", "regular,ipp", "--handoff", "none", "--threads", comma_separated(THREADS), "--rounds", str(lab.rounds(1000, 40)))


def bursts(lab, name, sizes, messages, rounds, link=None, options=()):
    graph, usual, _, _ = LAYERS[name]
    return lab.run_for_stdout(BURSTS, "--graph", lab.graph(graph), "--link", link or usual, "--cores", lab.cores, "--size", comma_separated(sizes), "--messages",
                        comma_separated(messages), "--rounds", str(rounds), *options)


def collected(lab, name, functions, messages, rounds):
    """Returns the instructions that callgrind counts in these functions. Both ends run in one thread, so that neither polls in vain."""
    graph, link, _, _ = LAYERS[name]
    link = ("socket", "--together") if link == "socket" else ("memory",)
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *(f"--toggle-collect={function}" for function in functions),
               os.path.join(lab.build, BURSTS), "--graph", lab.graph(graph), "--messages", str(messages), "--rounds", str(rounds), "--link", *link]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        raise labs.Failed(f"{' '.join(command)}: {done.stderr.strip()[-400:]}")
    return int(found[1])


def counted(lab, name, messages, *functions):
    """Returns the instructions of these functions per message of a burst."""
    rounds = lab.rounds(COUNTED, COUNTED)
    twice, once = (collected(lab, name, functions, messages, times * rounds) for times in (2, 1))
    return (twice - once) / (rounds * messages)


def instructions(lab, name):
    """
    Returns the sender's instructions per message: of a short burst until it is sent, of a long one until it is answered, and the part of the
    latter that receives the reply and sends its acknowledgement. Returns None without valgrind.
    """
    if shutil.which("valgrind") is None:
        return None
    return {str(SHORT): counted(lab, name, SHORT, "bursts_request"), str(LONG): counted(lab, name, LONG, "bursts_request", "bursts_turn"),
            "answered": counted(lab, name, LONG, "bursts_turn")}


# ---- derived figures ----


def of(runs, size, messages, figure):
    return next(one[figure] for one in runs if (one["size"], one["messages"]) == (size, messages))


def parameters(repeats):
    """Returns LogGP's parameters, in nanoseconds, of each repetition."""
    found = []
    for runs in repeats:
        os_ns, g_ns, rtt_ns = of(runs, 0, SHORT, "sent_ns"), of(runs, 0, LONG, "answered_ns"), of(runs, 0, ALONE, "answered_ns")
        or_ns, l_ns, by_receiver_ns, by_sender_ns = model.parameters(os_ns, g_ns, rtt_ns)
        found.append({"os": os_ns, "or": or_ns, "by_receiver": by_receiver_ns, "by_sender": by_sender_ns, "g": g_ns, "l": l_ns, "rtt": rtt_ns,
                      "byte_gap": of(runs, STORES[-1], STORED, "answered_ns") / STORES[-1]})
    return found


def pairs(data, kind, one, other):
    """Pairs two layers' results by repetition."""
    return list(zip(data[kind][one], data[kind][other]))


def slope(runs, figure):
    """Returns the nanoseconds that each further byte adds to sending, by least squares over messages in one frame."""
    points = [(size, of(runs, size, SHORT, figure)) for size in SIZES if size > 0]
    x, y = (sum(values) / len(points) for values in zip(*points))
    return sum((size - x) * (ns - y) for size, ns in points) / sum((size - x) ** 2 for size, _ in points)


def per_byte(repeats):
    return [{"all": slope(runs, "sent_ns"), "kernel": slope(runs, "kernel_sent_ns")} for runs in repeats]


def spread_of(found, figure, unit=1.0):
    return labs.interval([one[figure] / unit for one in found])


def ratios(data, general):
    """Returns the range of o_s + o_r, which lies between o_s and g, relative to the specialized layer's, over all repetitions."""
    found = pairs(data, "parameters", general, SPECIAL)
    return {"low": min(a["os"] / b["g"] for a, b in found), "high": max(a["g"] / b["os"] for a, b in found)}


def low_high(value, digits=1):
    return f"{value['low']:.{digits}f} to {value['high']:.{digits}f}"


def device_ns(data, name):
    """Returns (the layer's own part of o_s, the part that reaching the device adds), of each repetition."""
    return [(of(alone, 0, SHORT, "sent_ns"), of(runs, 0, SHORT, "sent_ns") - of(alone, 0, SHORT, "sent_ns"))
            for alone, runs in zip(data["alone"][name], data["bursts"][name])]


def device_share(data, name):
    return [device / (own + device) for own, device in device_ns(data, name)]


def equation_us(data, name, mhz):
    """Returns o_s at another clock as (the layer's instructions, reaching the device): equation 1 with the times measured here."""
    own, device = (labs.median(part) for part in zip(*device_ns(data, name)))
    return own / 1000 * data["ghz"] * 1000 / mhz, device / 1000


def cpi(data, name):
    """
    Returns the cycles per instruction in user mode, in bursts of SHORT. Instructions are counted in one thread without a device, so the time is
    taken from such runs, too. Over Linux's UDP it is the time outside system calls.
    """
    own_ns = [of(runs, 0, SHORT, "sent_ns") - of(runs, 0, SHORT, "kernel_sent_ns") for runs in (data["bursts"] if name == KERNEL else data["alone"])[name]]
    return labs.interval([ns * data["ghz"] / data["instructions"][name][str(SHORT)] for ns in own_ns])


def are_counted(data):
    return all(data["instructions"].values())


# ---- tables ----


def loggp(section, data):
    section.text(
        "In 2001 T. Heath, S. Kaur, R. P. Martin and T. D. Nguyen asked what becomes of specialized messaging as processors grow faster than I/O "
        "buses. They compared two layers of Active Messages on four generations of PCs: AM-VIA on a card that user programs reach without the "
        "operating system, and AM-UDP on Linux's sockets. Here one layer of Active Messages runs on three bases: Ethernet, over DPDK's virtio between "
        "two polling processes; this project's UDP and IP, over the same link; and Linux's UDP, whose datagrams carry the frames of the first. Those datagrams cross "
        "the loopback interface, so the sender's system call also does the work of the receiver's interrupt.")
    columns = {"os": "o_s", "by_receiver": "o_r by (g - o_s) / 2", "by_sender": "o_r by g - 2 o_s", "g": "g", "l": "L", "rtt": "RTT"}
    rows = [(name, *(labs.spread(spread_of(found, figure, 1000), 2) for figure in columns),
             labs.spread(spread_of(found, "byte_gap"), 3)) for name, found in data["parameters"].items()]
    section.table("LogGP's parameters, by the paper's rules: microseconds, requests of four words; G: nanoseconds per byte, stores of "
                  f"{STORES[-1]} bytes", ("", *columns.values(), "G"), rows)
    slower = {name: sum(one["by_receiver"] > one["os"] for one in found) for name, found in data["parameters"].items()}
    below = {name: sum(one["or"] < 0 for one in found) for name, found in data["parameters"].items()}
    section.text(
        f"o_s is a message's share of the time to send {SHORT}, and g its share of the time until the last of {LONG} is answered. The paper derives o_r from g = o_s + 2 o_r, the receiver's "
        "work for a three-way exchange, because it assumes that o_r exceeds o_s. Otherwise the sender is the slower end, g = 2 o_s + o_r, and "
        "o_r = g - 2 o_s. Both rules give an o_r above o_s if g exceeds 3 o_s, and below it if not, so g decides which rule holds. The paper's rule holds here in "
        + ", ".join(f"{count} of {len(data['parameters'][name])} repetitions of {name}" for name, count in slower.items()) + ". "
        + (f"The other rule gives less than 0, which is no time, in {', '.join(f'{count} repetitions of {name}' for name, count in below.items() if count)}: the second message that the sender sends "
           "is an acknowledgement, which costs less than a request, and requests in long bursts cost less than in short ones. " if any(below.values()) else "")
        + "So neither rule yields o_r. But each end sends and receives a message within g, so o_s + o_r lies between o_s and g. Ratios of two layers are therefore given as "
        "ranges: from one layer's o_s over the other's g to its g over the other's o_s, over all repetitions. "
        "L follows from RTT = 3 o_s + 2 o_r + 2 L, with o_r by the rule that g supports, or 0 if that is negative; the round trip ends when the client has acknowledged the reply."
        + (f" {data['retransmitted']} messages were retransmitted, because a process had lost its processor for a while." if data["retransmitted"] else ""))


def cycles(data, name, messages, figure, ghz):
    return labs.interval([of(runs, 0, messages, figure) * ghz for runs in data["bursts"][name]])


def line_range(headers, messages):
    """Returns the cache lines moved for all frames of a request: if frames move in batches, and if each moves alone."""
    frames = [headers + WORDS] + ([headers + WORDS, headers] if messages == LONG else [])
    least, most = (sum(model.lines(frame, batches) for frame in frames) for batches in (True, False))
    return f"{least:.1f} to {most}"


def events(section, data):
    rows = []
    for name, (_, _, headers, _) in LAYERS.items():
        for messages, whole, kernel, calls in ((SHORT, "sent_ns", "kernel_sent_ns", "calls_sent"), (LONG, "answered_ns", "kernel_ns", "calls")):
            counted = (data["instructions"][name] or {}).get(str(messages))
            spent = cycles(data, name, messages, whole, data["ghz"])["median"]
            inside = labs.interval([of(runs, 0, messages, kernel) / 1000 for runs in data["bursts"][name]])
            called = labs.median([of(runs, 0, messages, calls) for runs in data["bursts"][name]])
            rows.append((f"{name}, {messages}", f"{counted:.0f}" if counted else "-", f"{spent:.0f}",
                         labs.spread(cpi(data, name), 2) if counted and messages == SHORT else "-",
                         labs.spread(inside, 2) if name == KERNEL else "-", f"{called:.1f}",
                         "0" if headers else "-", line_range(headers, messages) if headers else "-", "-"))
    for name, table, within in (("AM-VIA", model.SPECIAL, "AM-VIA"), ("AM-UDP, whole", model.GENERAL, "AM-UDP"), ("AM-UDP, user part", model.GENERAL_USER, "AM-UDP, user"),
                                ("AM-UDP, kernel part", model.GENERAL_KERNEL, "AM-UDP, kernel")):
        for mhz, by_messages in table.items():
            for messages, (count, spent, *operations) in by_messages.items():
                count_within, spent_within, *places = model.WITHIN[within][mhz][messages]
                rows.append((f"published: {name}, {mhz} MHz, {messages}", f"{count} ±{count_within:g}", f"{spent} ±{spent_within:g}", f"{spent / count:.2f}", *("-",) * 4,
                             f"{operations[0]:.1f} ({', '.join(f'±{place:g}' for place in places)})" if operations else "0"))
    section.table(f"After tables 1 and 2: what a message costs its sender, in bursts of {SHORT} until it is sent and of {LONG} until it is answered",
                  ("layer, messages per burst", "instructions", "cycles", "cycles per instruction, here in user mode", "us in system calls", "system calls",
                   "doorbells", "cache lines moved", "operations on the I/O bus"), rows,
                  checked=f"the ratios of the layers' cycles; the part in the kernel, in bursts of {SHORT}; "
                  f"{f'the ratios of their instructions; cycles per instruction, in bursts of {SHORT}' if are_counted(data) else ''}".rstrip("; "),
                  unchecked=f"instructions and cycles themselves, which are another program's; cycles per instruction and the kernel's part in bursts of {LONG}, because here "
                  "the time includes waiting for the slower end; operations on the I/O bus, because there is none between two processes"
                  f"{'' if are_counted(data) else '; ratios of instructions and cycles per instruction, because without valgrind nothing is counted'}")
    section.text(
        "Instructions are those of the layers and the program, counted by callgrind in separate runs with both ends in one thread. They exclude the instructions of the "
        f"virtio device and of the kernel. The kernel's cannot be counted this way: callgrind does not see them, and the processor's counters, which the paper used, are {'not used, because few virtual machines offer them' if data['counters'] else 'not offered by this machine'}. "
        "The kernel's part is known as time only: the program times each system call, including entry to and exit from "
        "the kernel. Calls that found nothing are left out. Cycles are time by the processor's counter; in long bursts they include waiting for the slower end. "
        "Cycles per instruction are those of the same burst in one thread over memory, in which the instructions were counted, too; over Linux's UDP, of the time outside system calls. "
        "Between two processes there is no I/O bus. Two things stand for it: doorbells, of which there are none because both ends poll, and cache lines that move "
        "from one core to the other. Cache lines were not counted, but follow from virtio's rings (16 bytes for a frame's descriptor, 2 and 8 for its entries, 12 for a "
        "header): the first figure holds if frames move in batches, the second if each moves alone. The ± are the paper's; operations have one each for I/O space and memory space. "
        + sums_that_differ())
    if are_counted(data):
        receiving = []
        for name, by_messages in data["instructions"].items():
            by_special, by_general = model.events(by_messages[str(SHORT)], by_messages[str(LONG)])
            receiving.append((name, f"{by_messages[str(SHORT)]:.0f}", f"{by_special:.0f}", f"{by_general:.0f}",
                              f"{by_messages[str(LONG)] - by_messages['answered']:.0f}", f"{by_messages['answered']:.0f}"))
        for name, table, place in (("AM-VIA, 233 MHz", model.SPECIAL, 0), ("AM-UDP, 233 MHz", model.GENERAL, 1)):
            short, long = (table[233][messages][0] for messages in (SHORT, LONG))
            both = [f"{value:.0f}" for value in model.events(short, long)]
            receiving.append((f"published: {name}", str(short), *(words if rule == place else "-" for rule, words in enumerate(both)), "-", "-"))
        section.table("Instructions of o_s and of o_r",
                      ("", "o_s", "o_r, if the sender's burst is o_s + 2 o_r", "o_r, if it is 2 o_s + o_r",
                       f"counted in bursts of {LONG}: a request", "its reply, with the acknowledgement"), receiving,
                      checked="whether o_r exceeds o_s, which the paper's rules need", unchecked="the counts themselves, of other programs")
        section.text(
            "The paper's special layer acknowledged requests, so its sender received twice (o_s + 2 o_r). Its general layer acknowledged replies, so its sender sent "
            "twice (2 o_s + o_r). Here all three layers acknowledge replies: REQUEST, REPLY, TAKEN. So the second rule applies; the first, the paper's for AM-VIA, is there for comparison. The last two columns need no rule: callgrind counts them "
            "separately. An acknowledgement costs less than a request, which is also kept and timed, so the second rule leaves too little for o_r.")


def sums_that_differ():
    """Returns a sentence on each case in which the published rows of user and kernel do not add up to their total."""
    found = [(mhz, messages, user + kernel, total) for mhz in model.GENERAL for messages in (SHORT, LONG)
             for user, kernel, total in [[table[mhz][messages][1] for table in (model.GENERAL_USER, model.GENERAL_KERNEL, model.GENERAL)]]
             if abs((user + kernel) / total - 1) > 0.05]
    return "".join(f"The published rows do not all add up: at {mhz} MHz, in bursts of {messages}, user and kernel together have {both} cycles, but the total is {total}; the paper does not resolve the difference."
                   for mhz, messages, both, total in found)


def scaled(section, data):
    mhz = data["ghz"] * 1000
    best = model.nearest()
    data["model"] = {"reading": best.name, "error": best.error(), "here": best.of(mhz, model.LATER_BUS), "limit": best.limit(),
                     "from_shares": model.from_shares(mhz, model.LATER_BUS)}
    speeds = [(f"{one} MHz" if one < 1000 else f"{one / 1000:g} GHz", one) for one in model.PREDICTED]
    here = f"{data['ghz']:.2f} GHz, as here"

    def cells(of_mhz):
        return [f"{ratio:.2f} ({special:.0%}, {general:.0%})" for ratio, special, general in
                [of_mhz(one) for _, one in speeds] + [of_mhz(mhz, model.LATER_BUS)]]

    rows = [(reading.name, *cells(reading.of), f"{reading.error():.0%}") for reading in model.readings()]
    rows.append(("from the predicted ratio and the measured shares at 233 MHz", *cells(model.from_shares), "-"))
    for words, numbers, form, shares in (("predicted", model.PREDICTED, ".2f", model.SHARES_PREDICTED), ("measured", model.MEASURED, ".1f", model.SHARES_MEASURED)):
        share_texts = {one: f" ({special:.0%}, {general:.0%})" for one, (special, general) in shares.items()}
        rows.append((f"published: {words}", *(f"{numbers[one]:{form}}{share_texts.get(one, '')}" if one in numbers else "-" for _, one in speeds), "-", "-"))
    rows.append(("measured here", "-", "-", "-", "; ".join(f"{name}: {low_high(ratios(data, name))}" for name in (GENERAL, KERNEL)), "-"))
    section.table("The model: o_s + o_r of the general layer, relative to the special one's (in brackets the shares of I/O: special, general)",
                  ("reading of the published counts", *(words for words, _ in speeds), here, "greatest error of a ratio"), rows,
                  checked=f"each published ratio and share, against \"{best.name}\" and the values derived from 233 MHz, within {near.NEAR:.0%}; the "
                  f"ratios measured here, which should be from {EXPECTED[0]} to {EXPECTED[1]}, as predicted for {model.PREDICTED_YEAR}",
                  unchecked="the other readings of the counts, which were tried and are farther off; shares of I/O here, where there is no bus")
    section.text(
        "Equation 1: time = instructions x CPI / clock + operations x bus cycles / bus clock. A bus operation takes 9 cycles at 33 MHz, and in the "
        "predictions 7 at 66. The counts are those of 233 MHz in tables 1 and 2. The paper does not state how o_r's counts and CPI entered its "
        f"predictions, so four readings are tried. The nearest to its three ratios is \"{best.name}\". However fast the processor, its ratio stays above {best.limit():.2f}, that of "
        f"the bus operations. No reading gives 2.39 at 550 MHz: the predicted ratio and the measured shares of I/O at 233 MHz imply {model.from_shares(550)[0]:.2f} there.")


def by_clock(section, data):
    """Reports figures 1 and 4 to 7: overheads and latency by the processor's clock."""
    best, here = model.nearest(), data["ghz"] * 1000
    clocks = (*CLOCKS, here)
    tables = {"AM-VIA": model.SPECIAL, "AM-UDP": model.GENERAL}
    rows = []
    for place, (name, table) in enumerate(tables.items()):
        sent, all_us = ([1e6 * sum(times) for times in found] for found in (
            [model.sending(table, mhz) for mhz in clocks], [best.times(mhz)[place] for mhz in clocks]))
        rows.append((f"{name} by equation 1: o_s", *(f"{us:.2f}" for us in sent)))
        rows.append((f"{name} by equation 1: o_r", *(f"{both - us:.2f}" for both, us in zip(all_us, sent))))
        counted = {mhz: (by_messages[SHORT][1] / mhz, (by_messages[LONG][1] - by_messages[SHORT][1]) / 2 / mhz) for mhz, by_messages in table.items()}
        rows += [(f"published: {name}, {what} of its cycles", *(f"{counted[mhz][which]:.2f}" if mhz in counted else "-" for mhz in clocks)) for which, what in enumerate(("o_s", "o_r"))]
    for name in LAYERS:
        if name != KERNEL:
            rows.append((f"{name} by equation 1: o_s", *(f"{sum(equation_us(data, name, mhz)):.2f}" for mhz in clocks)))
        rows += [(f"{name}, measured: {what}", *("-",) * len(CLOCKS), labs.spread(spread_of(data["parameters"][name], figure, 1000), 2))
                 for figure, what in (("os", "o_s"), ("or", "o_r"), ("l", "L"))]
    section.table("After figures 4 and 6: o_s, o_r and L by the processor's clock, microseconds",
                  ("", *(f"{mhz} MHz" if mhz < 1000 else f"{mhz / 1000:g} GHz" for mhz in CLOCKS), f"{data['ghz']:.2f} GHz, as here"), rows,
                  checked="o_s + o_r by equation 1 against the cycles of the tables; whether the special layer's has changed little; the footnote's ratios at 3 and 5 GHz",
                  unchecked="L of figures 1, 4 and 6, and their other points, which the text does not give; L against the clock here, because this machine's clock cannot be changed")
    section.plot("After figure 4: o_s by the processor's clock.", lambda axes: plot_overheads(axes, data), small=True)
    section.plot("After figures 5 and 7: the share of overheads that does not shrink as the clock grows.", lambda axes: plot_shares(axes, data), small=True)
    own, device = (labs.interval(part) for part in zip(*device_ns(data, SPECIAL)))
    section.text(
        "The published lines are equation 1 with the counts of 233 MHz; the points are cycles of tables 1 and 2 divided by the clock, with o_r from g = o_s + 2 o_r. The lines of the layers here are "
        f"equation 1, too: the same bursts were sent in one thread, over memory, where only the layer works, and a message took {labs.spread(own, 0)} ns on Ethernet. That part is assumed to scale with the clock. "
        f"The rest of o_s is spent in reaching the device, by virtio's driver and on the cache lines that it moves: {labs.spread(device, 0)} ns. It is assumed to be constant, as I/O was in the paper. It includes "
        "virtio's instructions, so its share is an upper limit. System calls on loopback are instructions, and reach no bus.")


def waited(data):
    return {driver: labs.Trips(documents, WAITS[driver], is_across=driver == "poll") for driver, documents in data["waits"].items()}


def functions(section, data):
    """Reports what AM-II offers besides messages: blocking, threads and errors."""
    found = waited(data)
    rows = []
    for words, key in (("the driver", ("ipp", "none", THREADS[0], WORDS)), *((f"{threads} thread{'s' * (threads > 1)}", ("regular", "-", threads, WORDS)) for threads in THREADS)):
        rows.append((words, *(cell for trips in found.values() for cell in (labs.spread(trips.median_us(*key)), f"{trips.per_message(key, 'context_switches'):.1f}"))))
    section.table(f"What AM-II's blocking and threads cost {SPECIAL}: round trips of acknowledged requests in microseconds, and context switches per message",
                  ("handlers are run by", *(head for words in WAITS.values() for head in (f"ends {words}", "switches"))), rows)
    reply, returned = (labs.interval([of(runs, 0, SHORT, "answered_ns") for runs in data["answers"][answer]]) for answer in data["answers"])
    section.text(
        "The paper chose AM-II for its threads, blocking and error handling, but gives no figures for them. Here an endpoint blocks if its driver sleeps until a message arrives; with threads, each message is given to one of the threads that "
        f"share the endpoint. Errors: a request for a handler that the server does not have is returned to its sender's endpoint. In one thread, over memory, a message in a burst of {SHORT} costs both ends {labs.spread(returned, 0)} ns until it is returned, "
        f"and {labs.spread(reply, 0)} until its reply; replies are kept until they are acknowledged. Every figure of this chapter includes the lock with which threads share an endpoint.")


def long_messages(section, data):
    ghz = data["ghz"]
    rows = []
    for name, found in data["bytes"].items():
        kernel = spread_of(found, "kernel", 1 / ghz)
        user = labs.interval([(one["all"] - one["kernel"]) * ghz for one in found])
        rows.append((name, labs.spread(spread_of(found, "all", 1 / ghz), 3), labs.spread(user, 3),
                     labs.spread(kernel, 3) if name == KERNEL else "-"))
    rows.append(("published: AM-VIA", str(model.CYCLES_PER_BYTE), "-", "-"))
    section.table(f"After figure 8: cycles to send each further byte, by least squares from {SIZES[1]} to {SIZES[-1]} bytes",
                  ("", "all", "in user mode", "in system calls"), rows,
                  checked="the special layer's cycles per byte; whether a second copy adds to them; whether the kernel's part is the greater one")
    section.plot("After figure 8: cycles to send a message, by its bytes.", lambda axes: plot_bytes(axes, data), small=True)
    section.table("What touches all bytes of a message", ("", *LAYERS), [(what, *cells) for what, cells in COPIES])
    section.text(
        "In the paper, long messages cost the special layer 1.65 cycles per byte. The general one made two copies, one in AM and one in the kernel, because "
        "neither layer knows of the other. Over Linux's UDP that is still so. Over this project's UDP/IP a message stays in one buffer, and its bytes are "
        "read once more, for the checksum. The server's process makes virtio's copies, so the client's cycles do not show them.")


def cache_of(document, size):
    """Returns the first level of the processor's caches that holds both sides of a copy."""
    return next((f"L{level}" for level, cache in enumerate(document["caches"], 1) if 2 * size <= cache), "none")


def page_budget(section, data):
    first = data["pages"][0]
    sizes = {}
    for place, size in enumerate(PAGES_SIZES):
        one = {operation: labs.interval([document["sizes"][place][operation] for document in data["pages"]]) for operation in OPERATIONS if first["sizes"][place][operation] is not None}
        if "lock_ns" in one:
            one["send_ns"] = labs.interval([document["sizes"][place]["lock_ns"] + document["sizes"][place]["protect_ns"] for document in data["pages"]])
        one |= {operation: labs.interval([runs[place][operation] for runs in data["copy"]]) for operation in ("send-copy", "send-reference")}
        for operation, name in (("copy_ns", "budget"), ("cached_ns", "cached_budget")):
            one[name] = {key: model.budget(ns / 1e9, data["ghz"] * 1e9) for key, ns in one[operation].items()}
        sizes[str(size)] = one
    data["page_sizes"] = sizes

    def cells(one, *operations):
        return [labs.spread(one[operation], 0) if operation in one else "-" for operation in operations]

    section.plot("After figure 9: what a message's bytes cost by copying them, and by changing and registering their pages.", lambda axes: plot_pages(axes, sizes), small=True)
    section.table("After figure 9: nanoseconds to copy a message's bytes, or to change or register their pages", ("", *OPERATIONS.values()),
                  [(labs.bytes_of(int(size)), *cells(one, *OPERATIONS)) for size, one in sizes.items()]
                  + [("published: 4096 bytes", *("-",) * 5, f"about {1000 * model.REGISTERED_US}"),
                     (f"published: each byte beyond {SMALL >> 10} KB", *("-",) * 5, f"about {model.REGISTERED_CYCLES} cycles, {model.REGISTERED_MB} MB/s")],
                  checked="whether one page is cheaper to copy, and many are cheaper to map; whether registration costs as much as page table changes, and beyond "
                  f"{SMALL >> 10} KB nearly as much as a copy; the cycles per byte there", unchecked="the times and MB/s of registration themselves, which are another machine's")
    section.text(
        "To send without a copy, a kernel pins pages and forbids writing to them, and undoes both later: mlock, munlock and two mprotect calls stand for it, as in the paper. To receive, it replaces "
        "the receiver's pages, which it takes back, by those that arrived: mremap, and mprotect to allow writing, stand for it. Registration makes memory known to a device once: "
        "in the paper by VIA's driver, here by the call for an XDP socket, which pins the pages and maps them for the driver. "
        + ("That call fails here: " + first["register_error"] + ". " if first["register_error"] else "")
        + "No IOMMU takes part: two processes share memory, so changing a page takes only a system call.")
    section.table("After figure 10: the instructions that a copy is worth, beside a message's copy and its loan in nanoseconds",
                  ("", f"budget at CPI {model.CPI}", "budget, cached", "the cache", "a message's copy", "a message's loan"),
                  [(labs.bytes_of(int(size)), *cells(one, "budget", "cached_budget"), cache_of(first, int(size)), *cells(one, "send-copy", "send-reference"))
                   for size, one in sizes.items()]
                  + [(f"published: {size} bytes", str(model.BUDGET * size // model.PAGE), *("-",) * 4) for size in (model.PAGE, 2 * model.PAGE)],
                  checked="the budget of a page, and of two; the clock's growth per year",
                  unchecked="figure 10's measured points, which the text does not give")
    page = sizes[str(model.PAGE)]
    bandwidth = model.PAGE / page["copy_ns"]["median"]
    section.text(
        f"The page budget is the time of a page's copy, in instructions. {model.BUDGET} were predicted for any fast processor, because memory bandwidth was "
        f"expected to grow with the clock: {model.cycles_per_byte(model.BUDGET):.0f} cycles per byte. The prediction failed because caches, prefetching and vector "
        f"copies made bytes much cheaper: a core here copies {bandwidth:.1f} bytes per nanosecond from memory that no cache holds ({first['memory'] >> 20} MiB, used in turn), "
        f"{data['ghz'] / bandwidth:.2f} cycles per byte, and {model.PAGE / page['cached_ns']['median']:.1f} bytes per nanosecond from its "
        f"{cache_of(first, model.PAGE)} cache. A page's copy is then worth {page['budget']['median']:.0f} instructions, which one system "
        "call may use up. A lent message avoids both copies and page changes: its bytes are sent from the program's memory, which the device can read anyway, so no work "
        "is done per page (docs/embedding.md).")


# ---- plots ----


def plot_ratios(axes, data):
    best = model.nearest()
    for low, high, bus, words in ((200, 1000, model.NOW_BUS, "model, bus of 33 MHz"), (1000, 6000, model.LATER_BUS, "66 MHz")):
        clocks = [low * (high / low) ** (i / 40) for i in range(41)]
        axes.plot(clocks, [best.of(mhz, bus)[0] for mhz in clocks], **looks.FLOOR)
        axes.annotate(words, (clocks[12], best.of(clocks[12], bus)[0]), xytext=(0, -13), textcoords="offset points", fontsize="small", ha="center")
    axes.plot(list(model.MEASURED), list(model.MEASURED.values()), "^", color=looks.HANDOFF, label="published: measured")
    axes.plot(list(model.PREDICTED), list(model.PREDICTED.values()), "v", color=looks.HANDOFF, markerfacecolor="none", label="published: predicted")
    for name in (GENERAL, KERNEL):
        color, marker = LAYERS[name][3]
        axes.plot([data["ghz"] * 1000] * 2, list(ratios(data, name).values()), color=color, marker=marker, label=name)
    axes.set_xscale("log")
    axes.set_xticks([233, 550, 1000, 2500, 5000])
    axes.set_yscale("log")
    axes.set_yticks([0.5, 1, 2, 4, 8, 16, 32])
    axes.set_xlabel("MHz")
    axes.set_ylabel("times")
    legend_above(axes)


def legend_above(axes):
    axes.legend(fontsize="x-small", ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1), columnspacing=1, borderpad=0)


def clock_axis(axes):
    axes.set_xscale("log")
    axes.set_xticks([233, 550, 1000, 2500, 5000])
    axes.set_xlabel("MHz")
    legend_above(axes)


def clocks_by_bus():
    """Returns (the paper's clocks, their I/O bus) for each of its two buses."""
    return [([low * (high / low) ** (i / 20) for i in range(21)], bus) for low, high, bus in ((200, 1000, model.NOW_BUS), (1000, 6000, model.LATER_BUS))]


OF_PAPER = (("AM-VIA", model.SPECIAL, "-."), ("AM-UDP", model.GENERAL, "--"))


def plot_overheads(axes, data):
    for name, table, style in OF_PAPER:
        for place, (clocks, bus) in enumerate(clocks_by_bus()):
            axes.plot(clocks, [1e6 * sum(model.sending(table, mhz, bus)) for mhz in clocks], **looks.FLOOR | {"linestyle": style}, label=f"{name}, equation 1" if place == 0 else None)
        axes.plot(list(table), [by_messages[SHORT][1] / mhz for mhz, by_messages in table.items()], "v" if table is model.SPECIAL else "^", color=looks.HANDOFF, label=f"{name}, its cycles")
    for name, (_, _, _, (color, marker)) in LAYERS.items():
        found = spread_of(data["parameters"][name], "os", 1000)
        if name in data["alone"]:
            clocks = [mhz for some, _ in clocks_by_bus() for mhz in some]
            axes.plot(clocks, [sum(equation_us(data, name, mhz)) for mhz in clocks], color=color, linewidth=1)
        axes.errorbar([data["ghz"] * 1000], [found["median"]], looks.error([found]), color=color, marker=marker, capsize=2.5, linestyle="none", label=name)
    axes.set_yscale("log")
    axes.set_ylabel("us")
    clock_axis(axes)


def plot_shares(axes, data):
    best = model.nearest()
    for place, (name, table, style) in enumerate(OF_PAPER):
        for part, (clocks, bus) in enumerate(clocks_by_bus()):
            axes.plot(clocks, [100 * model.share(best.times(mhz, bus)[place]) for mhz in clocks], **looks.FLOOR | {"linestyle": style}, label=f"{name}, equation 1" if part == 0 else None)
        axes.plot(list(model.SHARES), [100 * shares[place] for shares in model.SHARES.values()], "v" if table is model.SPECIAL else "^", color=looks.HANDOFF, label=f"{name}, published")
    for name in data["alone"]:
        color, marker = LAYERS[name][3]
        clocks = [mhz for some, _ in clocks_by_bus() for mhz in some]
        found = labs.interval([100 * share for share in device_share(data, name)])
        axes.plot(clocks, [100 * model.share(equation_us(data, name, mhz)) for mhz in clocks], color=color, linewidth=1)
        axes.errorbar([data["ghz"] * 1000], [found["median"]], looks.error([found]), color=color, marker=marker, capsize=2.5, linestyle="none", label=f"{name}: o_s")
    axes.set_ylabel("%")
    axes.set_ylim(0, 100)
    clock_axis(axes)


def plot_bytes(axes, data):
    for name, (_, _, _, (color, marker)) in LAYERS.items():
        spent = [labs.interval([of(runs, size, SHORT, "sent_ns") * data["ghz"] for runs in data["bursts"][name]]) for size in SIZES]
        axes.errorbar(SIZES, [one["median"] for one in spent], looks.error(spent), color=color, marker=marker, markersize=4, capsize=2, label=name)
    inside = [labs.interval([of(runs, size, SHORT, "kernel_sent_ns") * data["ghz"] for runs in data["bursts"][KERNEL]]) for size in SIZES]
    axes.plot(SIZES, [one["median"] for one in inside], color=LAYERS[KERNEL][3][0], linestyle=":", label="of which in system calls")
    axes.set_xlabel("bytes")
    axes.set_ylabel("cycles")
    axes.set_ylim(bottom=0)
    legend_above(axes)


def plot_pages(axes, sizes):
    for operation, words, style in (("copy_ns", "copy from memory", {"color": looks.HANDOFF, "marker": "o"}), ("cached_ns", "copy, cached", {"color": looks.HANDOFF, "linestyle": ":"}),
                             ("send_ns", "send: lock and protect", {"color": looks.IPP, "marker": "s"}), ("receive_ns", "receive: remap", {"color": looks.OTHER, "marker": "^"}),
                             ("register_ns", "register", {"color": looks.REGULAR, "marker": "D"})):
        found = [(int(size) / 1024, one[operation]) for size, one in sizes.items() if operation in one]
        if found:
            axes.errorbar([size for size, _ in found], [one["median"] / 1000 for _, one in found],
                          [[ns / 1000 for ns in side] for side in looks.error([one for _, one in found])], markersize=4, capsize=2, label=words, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks([size >> 10 for size in PAGES_SIZES])
    axes.set_xlabel("KB")
    axes.set_ylabel("us")
    legend_above(axes)


# ---- checks against the paper ----


def assess(section, data):
    then = f"{EXPECTED[0]} to {EXPECTED[1]} predicted for {model.PREDICTED_YEAR}; measured {', '.join(f'{ratio} at {mhz} MHz' for mhz, ratio in model.MEASURED.items())}"
    ratio = {name: ratios(data, name) for name in (KERNEL, GENERAL)}
    for name, found in ratio.items():
        section.compare(f"o_s + o_r of {name}, relative to {SPECIAL}'s, wherever between o_s and g it lies", low_high(found, 2), then, near.within(found, *EXPECTED), bears=True)
    sent = {name: labs.spread(spread_of(found, "os", 1000), 2) for name, found in data["parameters"].items()}
    section.answer = (
        f"Sending a request takes {sent[SPECIAL]} us on Ethernet, {sent[GENERAL]} on our own UDP/IP, and {sent[KERNEL]} on Linux's UDP. The cost of receiving cannot be separated, "
        f"but o_s + o_r is at most a message's share of a long burst. Relative to Ethernet it is {low_high(ratio[KERNEL])} times over Linux's UDP and {low_high(ratio[GENERAL])} times over our own UDP/IP, in all repetitions: "
        f"a range, not a single figure. The paper measured {min(model.MEASURED.values())} to {max(model.MEASURED.values())} times in {model.YEAR}, and predicted {EXPECTED[0]} to {EXPECTED[1]} for {model.PREDICTED_YEAR}.")
    inside = in_kernel(data)
    section.why = (f"({inside['median']:.0%} of sending over Linux's UDP is spent in system calls, while the special layer's operations on an I/O bus are gone; "
                   "our own UDP/IP has neither.)")
    check_events(section, data, inside)
    check_model(section)
    check_clock(section, data)
    check_bytes(section, data)
    check_pages(section, data)
    sending = {name: (counted or {}).get(str(SHORT)) for name, counted in data["instructions"].items()}
    added = f"{sending[GENERAL] - sending[SPECIAL]:.0f} instructions" if sending[SPECIAL] else "some hundred instructions"
    section.text(
        "What twenty-five years changed: the bus. The model counts operations for which a processor waits. Devices have done away with them: they read "
        "descriptors from memory, a doorbell is written without waiting, and a polling device needs none. So the predicted floor, the ratio of bus operations, "
        f"is gone: reaching the device, {near.percent(labs.interval(device_share(data, SPECIAL)))} of the special layer's o_s, costs both layers the same in user mode. "
        f"The difference lies in instructions, of which UDP and IP add {added.removesuffix(' instructions')} to sending a message. The overhead of connectivity, which the paper weighed, is "
        f"{low_high(ratio[KERNEL])} times the special layer's through the kernel, and {low_high(ratio[GENERAL])} times in user mode. Clocks stopped growing near the last prediction's 5 GHz; "
        "since then, cores do and copy more per cycle instead.")


def in_kernel(data):
    """Returns the part of sending over Linux's UDP that is spent in system calls."""
    return labs.interval([of(runs, 0, SHORT, "kernel_sent_ns") / of(runs, 0, SHORT, "sent_ns") for runs in data["bursts"][KERNEL]])


def by_clock_text(published, form):
    """Returns the values for the clocks of model.GENERAL, in words."""
    return " and ".join(f"{one:{form}}" for one in published)


def check_events(section, data, inside):
    """Checks what can be compared between machines in tables 1 and 2."""
    clocks = list(model.GENERAL)
    readings = list(zip(*(model.kernel_shares(mhz, SHORT) for mhz in clocks)))
    verdicts = {near.near_share(inside, *shares) for shares in readings}
    section.check(verdicts.pop() if len(verdicts) == 1 else None,
                  f"The kernel's part of sending over Linux's UDP: {near.percent(inside)}; published, of the cycles, by the reading of the rows: "
                  + ", ".join(f"{by_clock_text(shares, '.0%')} ({words})" for words, shares in zip(("kernel of total", "kernel of user and kernel", "total without user"), readings)) + ".",
                  rule=f"{POINTS} by each reading; unclear: by some")
    for messages, figure in ((SHORT, "sent_ns"), (LONG, "answered_ns")):
        here = labs.interval([of(a, 0, messages, figure) / of(b, 0, messages, figure) for a, b in pairs(data, "bursts", KERNEL, SPECIAL)])
        then = [model.GENERAL[mhz][messages][1] / model.SPECIAL[mhz][messages][1] for mhz in clocks]
        section.check(near.near(here, *then), f"In bursts of {messages}, a message of {KERNEL} takes {labs.spread(here)} times the cycles of {SPECIAL}; "
                      f"published {by_clock_text(then, '.1f')} for AM-UDP and AM-VIA at {by_clock_text(clocks, '')} MHz.",
                      rule=f"{WITHIN} of their range")
    if are_counted(data):
        check_instructions(section, data, clocks)
    l_us = {name: spread_of(found, "l", 1000) for name, found in data["parameters"].items()}
    section.check(near.all_of(True if one["low"] >= 0 else False if one["high"] < 0 else None for one in l_us.values()),
                  f"L is not below 0, which would be no time: {', '.join(f'{name} {labs.spread(one, 2)} us' for name, one in l_us.items())}. Over loopback the sender's system call does the work of "
                  "the receiver's interrupt, so little is left in between.")
    difference = labs.interval([(a["l"] - b["l"]) / (b["rtt"] / 2) for a, b in pairs(data, "parameters", GENERAL, SPECIAL)])
    l_special, l_general = (spread_of(data["parameters"][name], "l", 1000) for name in (SPECIAL, GENERAL))
    section.check(near.within(difference, -ALIKE_L, ALIKE_L),
                  f"Both layers on virtio have the same L, {labs.spread(l_special, 2)} and {labs.spread(l_general, 2)} us, within {ALIKE_L:.0%} of half a round trip: they differ "
                  f"by {near.percent(difference)}. In the paper, too, L was the check on the method.")


def check_instructions(section, data, clocks):
    counted = data["instructions"]
    for messages in (SHORT, LONG):
        for name, words, table in ((GENERAL, "AM-UDP with its kernel", model.GENERAL), (KERNEL, "AM-UDP's user part", model.GENERAL_USER)):
            ratio = counted[name][str(messages)] / counted[SPECIAL][str(messages)]
            then = [table[mhz][messages][0] / model.SPECIAL[mhz][messages][0] for mhz in clocks]
            section.check(near.near(near.exactly(ratio), *then), f"In bursts of {messages}, {name} takes {ratio:.2f} times {SPECIAL}'s instructions in user mode; "
                          f"published {by_clock_text(then, '.2f')} for {words} and AM-VIA.", rule=WITHIN, across=False)
    for name, words, table in ((SPECIAL, "AM-VIA", model.SPECIAL), (GENERAL, "AM-UDP", model.GENERAL), (KERNEL, "AM-UDP's user part", model.GENERAL_USER)):
        spent = cpi(data, name)
        then = [table[mhz][SHORT][1] / table[mhz][SHORT][0] for mhz in clocks]
        section.check(near.near(spent, *then), f"{name} takes {labs.spread(spent, 2)} cycles per instruction in user mode; published {by_clock_text(then, '.2f')} for {words}, "
                      "expected to stay the same.", rule=WITHIN, across=name == KERNEL)
    for name, words, table in ((SPECIAL, "AM-VIA", model.SPECIAL), (GENERAL, "AM-UDP", model.GENERAL), (KERNEL, "AM-UDP's user part", model.GENERAL_USER)):
        sends_twice = (True, name != SPECIAL)  # here, and in the paper
        (o_s, o_r), (then_s, then_r) = ((short, model.events(short, long)[twice]) for twice, (short, long) in zip(sends_twice, (
            (counted[name][str(SHORT)], counted[name][str(LONG)]), (table[clocks[0]][SHORT][0], table[clocks[0]][LONG][0]))))
        section.check(o_r > o_s, f"In {name}, o_r has more instructions than o_s, as the paper's rule for o_r needs: {o_r:.0f} and {o_s:.0f} (a reply with its acknowledgement "
                      f"{counted[name]['answered']:.0f}); published {then_r:.0f} and {then_s} for {words}.", across=False)


def check_model(section):
    """Checks each published cell, by the nearest reading of the counts, and by the values derived from 233 MHz."""
    best = model.nearest()
    cells = [("the ratio is", "{:.2f}"), ("the special layer's share of I/O is", "{:.0%}"), ("the general layer's share of I/O is", "{:.0%}")]
    for words, of_mhz, clocks in ((f"By the model (\"{best.name}\")", best.of, model.PREDICTED), ("By the predicted ratio and the measured shares at 233 MHz", model.from_shares, (550, 5000))):
        for mhz in clocks:
            how = ("predicted", *2 * ("measured" if mhz in model.SHARES_MEASURED else "predicted",))
            for (what, form), here, then, was in zip(cells, of_mhz(mhz), (model.PREDICTED[mhz], *model.SHARES[mhz]), how):
                check_cell(section, f"{words}, {what} {form.format(here)} at {mhz} MHz", here, then, f"{was} in the paper: {form.format(then)}")
    for mhz, then in model.MEASURED.items():
        here = best.of(mhz)[0]
        check_cell(section, f"By the model, the ratio is {here:.2f} at {mhz} MHz", here, then, f"measured in the paper: {then}")


def check_clock(section, data):
    """Checks the text's statements on figures 1 and 4 to 7 that no other check covers."""
    best, here = model.nearest(), data["ghz"] * 1000
    for place, (name, table, _) in enumerate(OF_PAPER):
        for mhz in table:
            us, then = 1e6 * sum(best.times(mhz)[place]), model.overheads(table[mhz], False)[1] / mhz
            check_cell(section, f"By equation 1, {name}'s o_s + o_r is {us:.1f} us at {mhz} MHz", us, then, f"by the cycles of its table: {then:.1f} us")
    for mhz, bus, then in model.FASTER:
        ratio = best.of(mhz, bus)[0]
        check_cell(section, f"By the model, with a bus of {bus[1] / 1e6:.0f} MHz, the ratio is {ratio:.2f} at {mhz} MHz", ratio, then, f"predicted in the paper: {then}")
    then = model.overheads(model.SPECIAL[550], False)[1] / 550
    found = data["parameters"][SPECIAL]
    change = {"low": min(one["os"] for one in found) / 1000 / then, "high": max(one["g"] for one in found) / 1000 / then}
    section.compare(f"the special layer's o_s + o_r at {data['ghz']:.2f} GHz, wherever between o_s and g it lies, relative to AM-VIA's at 550 MHz ({then:.1f} us by its cycles)", low_high(change, 3),
                    "\"changed little since 1992\", while the clock grew twelvefold", near.within(change, 1 / LITTLE, LITTLE))
    for name, place in ((SPECIAL, 0), (GENERAL, 1)):
        section.compare(f"the share of o_s spent in reaching the device, {name}", near.percent(labs.interval(device_share(data, name))),
                        f"{model.SHARES_MEASURED[550][place]:.0%} measured at 550 MHz and {model.SHARES_PREDICTED[5000][place]:.0%} predicted at 5 GHz, of I/O operations in o_s + o_r",
                        "there is no I/O bus between two processes: what stands for it differs, and is a share of o_s alone")
    more = labs.interval([a - b for a, b in zip(device_share(data, SPECIAL), device_share(data, GENERAL))])
    section.check_saved(more, f"Reaching the device is a greater share of the special layer's o_s than of the general one's, as I/O was at every clock in the paper: by {100 * more['median']:.0f} points "
                        f"({100 * more['low']:.0f} to {100 * more['high']:.0f}).", bears=False)


def check_cell(section, words, here, then, published):
    section.check(near.near(near.exactly(here), then), f"{words}, {here / then - 1:+.0%}; {published}.", rule=WITHIN, across=False)


def check_bytes(section, data):
    """Checks figure 8, the cost of bytes."""
    byte = spread_of(data["bytes"][SPECIAL], "all", 1 / data["ghz"])
    section.check(near.near(byte, model.CYCLES_PER_BYTE), f"Sending a byte costs {labs.spread(byte, 2)} cycles in {SPECIAL}; published {model.CYCLES_PER_BYTE}, of AM-VIA.", rule=WITHIN)
    more = labs.interval([(a["all"] - b["all"]) * data["ghz"] for a, b in pairs(data, "bytes", KERNEL, SPECIAL)])
    section.check_saved(more, f"Sending a byte costs more in {KERNEL} than in {SPECIAL}, because it is copied once more: the difference is {labs.spread(more, 3)} cycles; published: \"much higher\" in AM-UDP.",
                        bears=False)
    more = labs.interval([(2 * one["kernel"] - one["all"]) * data["ghz"] for one in data["bytes"][KERNEL]])
    section.check_saved(more, f"For each byte over Linux's UDP, the kernel's part costs more than the user's: the difference is {labs.spread(more, 3)} cycles; published: slightly more, because of the "
                        "checksum, which loopback leaves out.", bears=False)


def check_pages(section, data):
    """Checks figures 9 and 10, the cost of pages."""
    page = data["page_sizes"][str(model.PAGE)]
    # a factor of 2: the paper's gain from one more page
    section.compare("instructions that a copy of 4096 bytes is worth (within a factor of 2)", labs.spread(page["budget"], 0), f"{model.BUDGET}, predicted",
                    near.within(page["budget"], model.BUDGET / 2, model.BUDGET * 2), across=False)
    first, second, last = PAGES_SIZES.index(model.PAGE), PAGES_SIZES.index(2 * model.PAGE), len(PAGES_SIZES) - 1
    twice = labs.interval([document["sizes"][second]["copy_ns"] / document["sizes"][first]["copy_ns"] for document in data["pages"]])
    clock = model.growth(model.AVAILABLE_MHZ, 1000 * data["ghz"], data["year"] - model.YEAR)
    section.compare("growth of memory bandwidth per year (figure 10)", "not known", f"{model.MEMORY_GROWTH:.0%}, by STREAM", "the text gives no bandwidth of its time to start from")
    section.compare(f"growth of the clock per year: from the {model.AVAILABLE_MHZ / 1000:g} GHz available in {model.YEAR} to {data['ghz']:.2f} GHz in {data['year']}", f"{clock:.0%}", f"{model.CLOCK_GROWTH:.0%}",
                    near.near(near.exactly(clock), model.CLOCK_GROWTH), rule=WITHIN, across=False)
    section.check(near.near(twice, 2), f"A copy of {2 * model.PAGE} bytes is worth {labs.spread(twice, 2)} times the instructions of one of {model.PAGE}; published 2 times.", rule=WITHIN, across=False)
    if "lock_ns" not in page:
        return

    send = ("lock_ns", "protect_ns")

    def saved_by(place, sign):
        return labs.interval([sign * (sum(one["sizes"][place][operation] for operation in send) - one["sizes"][place]["copy_ns"]) for one in data["pages"]])

    for place, sign, words in ((first, 1, "it is cheaper to copy than to change the page table, as the paper estimated for one page"),
                               (last, -1, "it is cheaper to change the page table than to copy, as the paper implies for more than one page")):
        more = labs.more_or_less(saved_by(place, 1), "ns", 0)
        section.check_saved(saved_by(place, sign), f"To send {PAGES_SIZES[place]} bytes {words}: a change takes {more}.", bears=False, across=False)
    easier = labs.interval([sum(one["sizes"][first][operation] for operation in send) - one["sizes"][first]["receive_ns"] for one in data["pages"]])
    section.check_saved(easier, f"Receiving a page is easier than sending it, as the paper states of the kernel's work: sending takes {labs.more_or_less(easier, 'ns', 0)}.", bears=False, across=False)
    if "register_ns" in page:
        check_registered(section, data["pages"], send)


def check_registered(section, documents, send):
    """Checks registration in figure 9: as expensive as page table changes up to SMALL bytes, and nearly as a copy beyond, some cycles per byte."""
    small, last = PAGES_SIZES.index(SMALL), len(PAGES_SIZES) - 1
    for place in (0, small):
        ratio = labs.interval([one["sizes"][place]["register_ns"] / sum(one["sizes"][place][operation] for operation in send) for one in documents])
        section.compare(f"registering {PAGES_SIZES[place]} bytes, relative to changing their page table", labs.spread(ratio, 2), "\"very close\"", near.near(ratio, 1), rule=WITHIN, across=False)

    def more(one, operation):
        return one["sizes"][last][operation] - one["sizes"][small][operation]

    ratio = labs.interval([more(one, "register_ns") / more(one, "copy_ns") for one in documents])
    section.compare(f"registering a byte beyond {SMALL >> 10} KB, relative to copying it", labs.spread(ratio, 2), "\"approaching copying cost\"", near.near(ratio, 1), rule=WITHIN, across=False)
    cycles_a_byte = labs.interval([one["ghz"] * more(one, "register_ns") / (PAGES_SIZES[last] - SMALL) for one in documents])
    section.compare(f"cycles to register a byte beyond {SMALL >> 10} KB", labs.spread(cycles_a_byte, 2), f"about {model.REGISTERED_CYCLES} ({model.REGISTERED_MB} MB/s)",
                    near.near(cycles_a_byte, model.REGISTERED_CYCLES), rule=WITHIN, across=False)
