#!/usr/bin/env python3
"""test_scaling.py BUILD - checks experiments/scaling: the model's arithmetic by its figures; bursts by their counts, and not by times; and
that the report shows both.

Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "experiments", "report", "measuring")]
sys.dont_write_bytecode = True
import checks
import lab as labs
import near as nears
import scaling
from checks import chapter, expect, shown
from scaling import model

READINGS = {  # general to special at 233 MHz, 550 MHz and 5 GHz
    "each layer's rule for events, CPI as in the tables": (5.5, 4.47, 2.87),
    "each layer's rule for events, CPI 2.0": (3.51, 3.12, 2.37),
    "both by g = o_s + 2 o_r, CPI as in the tables": (4.54, 3.79, 2.63),
    "both by g = o_s + 2 o_r, CPI 2.0": (2.89, 2.65, 2.18),
}
FAILED = ("special layer's share of I/O is 17% at 233", "general layer's share of I/O is 9% at 233", "general layer's share of I/O is 19% at 550", "ratio is 2.95 at 550",
          "ratio is 2.89 at 233", "ratio is 2.76 at 400", "ratio is 2.65 at 550")
REPEATS = 2


def near(a, b):
    return abs(a - b) < 1e-9 * max(1, abs(b))


def check_parameters():
    """Derives the parameters from the times of bursts that were computed with them."""
    for o_s, o_r, latency in ((1.0, 2.0, 5.0), (2.0, 2.0, 0.5), (3.0, 1.0, 4.0)):
        rtt = 3 * o_s + 2 * o_r + 2 * latency
        found = model.parameters(o_s, o_s + 2 * o_r, rtt)
        slower = o_s + 2 * o_r if o_r > o_s else 2 * o_s + o_r
        found = model.parameters(o_s, slower, rtt)
        expect(near(found[0], o_r) and near(found[1], latency), f"o_r and L of o_s {o_s}, o_r {o_r}, by the slower end", str(found))
        expect(near(found[2 if o_r > o_s else 3], o_r), "... which the rule for it gives", str(found))
    found = model.parameters(3.0, 5.0, 13.0)
    expect(near(found[0], -1.0) and near(found[1], 2.0), "an o_r below 0 counts as 0 in L", str(found))
    expect(model.events(630, 5326) == (2348, 4066), "events of receiving, by both rules", str(model.events(630, 5326)))


def check_model():
    expect(all(near(a, b) for a, b in zip(model.seconds(1000, 2, 1e9, 11, (9, 33e6)), (2e-6, 3e-6))), "equation 1", str(model.seconds(1000, 2, 1e9, 11, (9, 33e6))))
    found = {reading.name: tuple(round(reading.of(mhz)[0], 2) for mhz in model.PREDICTED) for reading in model.readings()}
    expect(found == READINGS, "the model's ratios, from the published counts", str(found))
    best = model.nearest()
    expect(best.name == "both by g = o_s + 2 o_r, CPI 2.0" and round(best.error(), 3) == 0.123, "... and which is the nearest", f"{best.name} {best.error()}")
    expect(near(best.of(1e15, model.LATER_BUS)[0], best.limit()) and round(best.limit(), 2) == 1.59, "... whose limit is that of bus operations",
           f"{best.limit()} {best.of(1e15, model.LATER_BUS)}")
    ratio, special, general = model.from_shares(233)
    expect(near(ratio, 3.30) and near(special, 0.21) and near(general, 0.11), "shares give their total", f"{ratio} {special} {general}")
    expect([round(model.from_shares(mhz)[0], 2) for mhz in (550, 5000)] == [2.95, 2.35], "... and what follows from them",
           str([model.from_shares(mhz) for mhz in (550, 5000)]))
    times = model.sending({233: {4: (1000, 0, 11)}}, 1000, (9, 33e6))
    expect(all(near(a, b) for a, b in zip(times, (2e-6, 3e-6))) and near(model.share(times), 0.6), "equation 1 of o_s alone, and its share of I/O", str(times))
    expect(all(near(sum(general) / sum(special), best.of(mhz)[0]) for mhz in model.PREDICTED for special, general in (best.times(mhz),)), "times have the ratio of the model")
    expect([round(best.of(mhz, bus)[0], 2) for mhz, bus, _ in model.FASTER] == [2.37, 2.64, 2.45], "a faster bus", str([best.of(mhz, bus) for mhz, bus, _ in model.FASTER]))
    expect([[round(share, 3) for share in model.kernel_shares(mhz, 4)] for mhz in (233, 550)] == [[0.809, 0.806, 0.805], [0.935, 0.764, 0.711]] and
           "at 550 MHz, in bursts of 4, user and kernel together have 5834 cycles, but the total is 4764" in scaling.sums_that_differ(), "the kernel's rows, however they are read")
    expect(near(model.growth(100, 400, 2), 1), "growth a year")
    expect(near(model.cycles_per_byte(model.BUDGET), 5) and near(model.budget(4096 * 5 / 3e9, 3e9), model.BUDGET), "the page budget")
    expect(model.lines(52, False) == 6 and model.lines(53, False) == 7 and near(model.lines(52, True), 1.40625), "cache lines of a frame",
           f"{model.lines(52, False)} {model.lines(53, False)} {model.lines(52, True)}")
    printed = subprocess.run([sys.executable, model.__file__], stdout=subprocess.PIPE, text=True, check=False)
    expect(printed.returncode == 0 and "2.89" in printed.stdout and "2.39" in printed.stdout, "the model by itself", printed.stdout)


def bursts(*arguments):
    """Returns (status, document, errors)."""
    done = subprocess.run([os.path.join(sys.argv[1], scaling.BURSTS), *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else {}, done.stderr


def check_bursts():
    for graph in sorted({layer[0] for layer in scaling.LAYERS.values()}):
        for link in (("memory",), ("socket", "--together")):
            status, document, why = bursts("--graph", os.path.join(ROOT, "graphs", graph), "--rounds", "3", "--size", "0,1400,65536", "--messages", "1,40",
                                           "--link", *link)
            expect(status == 0 and len(document["runs"]) == 6, f"{graph}, {link[0]}: short ones, long ones, and stores", why)
    status, document, why = bursts("--graph", os.path.join(ROOT, "graphs", "am.dot"), "--rounds", "3", "--messages", "1,40", "--link", "memory", "--returned")
    expect(status == 0 and len(document["runs"]) == 2, "a server without their handler returns requests", why)
    for wrong, status, words in ((("--cores", "0"), 2, "takes two"), (("--together",), 2, "two processes"),
                                 (("--graph", os.path.join(ROOT, "graphs", "udptest.dot"), "--link", "memory"), 1, "no udptest above am"),
                                 (("--graph", "nowhere.dot", "--link", "memory"), 1, "nowhere.dot"),
                                 (("--graph", os.path.join(ROOT, "graphs", "am.dot"), "--cores", "1022,1023", "--link", "socket"), 1, "a core")):
        found, _, why = bursts(*wrong)
        expect(found == status and words in why, f"{' '.join(wrong)} is refused", f"{found} {why}")


def check_data(data):
    for name, repeats in data["bursts"].items():
        for runs in repeats:
            figures = {(one["size"], one["messages"]): one for one in runs}
            expect(set(figures) == {(size, messages) for size in scaling.SIZES for messages in (1, 4, 128)} | {(size, 16) for size in scaling.STORES},
                   f"{name}: all bursts", str(list(figures)))
            expect(all(0 < one["sent_ns"] <= one["answered_ns"] for one in runs), "... a message is sent before it is answered")
            short, long = figures[0, 4], figures[0, 128]
            uses = name == scaling.KERNEL
            again = data["retransmitted"] > 0 and long["calls"] > 3 * uses  # on a busy machine
            expect(short["calls_sent"] == uses and (long["calls"] == 3 * uses or again), "... and its system calls: REQUEST, REPLY and TAKEN",
                   f"{short['calls_sent']} {long['calls']}, {data['retransmitted']} sent again")
            expect((0 < short["kernel_sent_ns"] < short["sent_ns"]) if uses else short["kernel_sent_ns"] == 0, "... which take a part of its time",
                   f"{short['kernel_sent_ns']} {short['sent_ns']}")
            stored = figures[scaling.STORES[-1], 16]["calls"]
            expect(stored >= 2 * scaling.STORES[-1] / 1500 if uses else stored == 0, "... a store's are those of its packets, and of their answers", str(stored))
        for runs, found in zip(repeats, data["parameters"][name]):
            figures = {(one["size"], one["messages"]): one for one in runs}
            wanted = model.parameters(figures[0, 4]["sent_ns"], figures[0, 128]["answered_ns"], figures[0, 1]["answered_ns"])
            expect(tuple(found[key] for key in ("or", "l", "by_receiver", "by_sender")) == wanted, f"{name}: parameters follow from bursts", str(found))
    for name, alone in data["alone"].items():
        parts = scaling.device_ns(data, name)
        expect(all(own == runs[0]["sent_ns"] and near(own + device, found["os"]) for runs, (own, device), found in zip(alone, parts, data["parameters"][name])),
               f"{name}: o_s is the layer's own part, and the device's", str(parts))
        here = scaling.equation_us(data, name, data["ghz"] * 1000)
        expect(all(near(a, b) for a, b in zip(scaling.equation_us(data, name, data["ghz"] * 500), (2 * here[0], here[1]))), "... of which the first follows the clock", str(here))


def check_functions(data):
    for driver, documents in data["waits"].items():
        expect(all(document["driver"] == driver and {(run["mode"], run["threads"]) for run in document["runs"]} == {(mode, threads) for mode in ("regular", "ipp") for threads in scaling.THREADS}
                   and all(run["messages"] > 0 for run in document["runs"]) for document in documents), f"blocking and threads: {driver}", str(documents)[:400])
    expect(all(runs[0]["answered_ns"] > 0 for repeats in data["answers"].values() for runs in repeats), "replies, and returned requests", str(data["answers"]))


def check_instructions(counted):
    if shutil.which("valgrind") is None:
        print("skipped: no valgrind")
        return
    special, general, kernel = (counted[name] for name in scaling.LAYERS)
    expect(0 < special["4"] < general["4"], "UDP and IP take instructions to send", str(counted))
    expect(all(one["4"] < one["128"] and 0 < one["answered"] < one["128"] for one in counted.values()), "... and a part of all is for the answer", str(counted))
    expect(all(abs(one["128"] - one["answered"] - one["4"]) < one["4"] / 2 for one in counted.values()), "... the rest for the request", str(counted))
    expect(special["4"] < kernel["4"] < special["4"] + 1000, "... a system call, some around it", str(counted))
    again = scaling.counted(labs.Lab(sys.argv[1], "0,1", True, brief=True), scaling.SPECIAL, scaling.SHORT, "bursts_request")
    expect(abs(again - special["4"]) < 2, "counting again gives nearly the same", f"{again} {special}")


def check_pages(data):
    for document in data["pages"]:
        rows = document["sizes"]
        expect([row["size"] for row in rows] == list(scaling.PAGES_SIZES) and all(row["copy_ns"] > 0 and row["protect_ns"] > 0 for row in rows),
               "pages of all sizes", str(rows))
        expect(all(row["receive_ns"] > 0 and (row["register_ns"] is None) == (document["register_error"] is not None) for row in rows),
               "... received, and registered, or not allowed to be", str(document))
        expect(all((row["lock_ns"] is None) == (document["lock_error"] is not None) for row in rows), "... locked, or not allowed to be", str(document))
    page = data["page_sizes"]["4096"]
    expect(all(near(page["budget"][key], page["copy_ns"][key] * data["ghz"] / 2) for key in ("low", "median", "high")), "the budget follows from the copy",
           str(page))


def check_report(work):
    cores = f"{min(os.sched_getaffinity(0))},{max(os.sched_getaffinity(0))}"
    made = chapter("scaling", work, "--repeats", str(REPEATS), "--cores", cores)
    if made is None:
        return
    document, page = made
    check_data(document["data"])
    check_functions(document["data"])
    check_instructions(document["data"]["instructions"])
    check_pages(document["data"])
    missing = [words for words in (document["answer"], *(check["text"] for check in document["checks"])) if shown(words) not in page]
    expect(not missing and "published: AM-VIA, 233 MHz, 128" in page and "published: AM-UDP, kernel part, 550 MHz, 4" in page, "answer, checks and published tables are on the page", str(missing))


def check_near():
    for low, high, wanted in ((0, 1, False), (1, 2.5, None), (2, 3, True), (2.5, 4, None), (1, 4, None), (4, 5, False)):
        expect(nears.within({"low": low, "high": high}, 2, 3) is wanted, f"{low} to {high} is {'' if wanted else 'not ' if wanted is False else 'perhaps '}from 2 to 3")
    expect(nears.near(nears.exactly(1.14), 1) and nears.near(nears.exactly(1.16), 1) is False and nears.near(nears.exactly(3.4), 1, 3), "what is near a ratio, or several")
    expect(nears.near_share(nears.exactly(0.22), 0.13) and nears.near_share(nears.exactly(0.24), 0.13) is False, "what is near a share")
    expect([nears.all_of(verdicts) for verdicts in ((True, True), (True, None), (None, False))] == [True, None, False], "whether all agree")


def check_judged():
    """Checks which cells of the model's table fail."""
    section = labs.Section("scaling", "", "")
    scaling.check_model(section)
    failed = [check["text"] for check in section.checks if not check["agrees"]]
    expect(len(section.checks) == 18 and len(failed) == len(FAILED) and all(words in text for words, text in zip(FAILED, failed)), "published cells that the model misses",
           str(failed))


def judged_clock(device, times):
    """Returns the verdicts on a path to the device that takes such parts of the layers' o_s, and on an o_s + o_r so many times AM-VIA's."""
    ns = 1000 * times * model.overheads(model.SPECIAL[550], False)[1] / 550
    data = {"ghz": 2.6, "parameters": {scaling.SPECIAL: [{"os": ns, "g": ns}]}, "alone": {}, "bursts": {}}
    for name, share in zip((scaling.SPECIAL, scaling.GENERAL), device):
        for kind, ns in (("alone", 100 * (1 - share)), ("bursts", 100)):
            data[kind][name] = [[{"size": 0, "messages": scaling.SHORT, "sent_ns": ns}]]
    section = labs.Section("scaling", "", "")
    scaling.check_clock(section, data)
    return [check["agrees"] for check in section.checks][-2:]


def judged_pages(factor):
    """Returns the verdicts on registration that takes `factor` times as long as changes of the page table, and as a copy."""
    section = labs.Section("scaling", "", "")
    documents = [{"ghz": 1.5, "sizes": [{"lock_ns": size, "protect_ns": size, "register_ns": 2 * factor * size, "copy_ns": 2 * size} for size in scaling.PAGES_SIZES]}]
    scaling.check_registered(section, documents, ("lock_ns", "protect_ns"))
    return [check["agrees"] for check in section.checks]


def check_planted():
    """Checks that figures as published agree, and planted ones do not."""
    found = [judged_clock(*planted) for planted in (((0.6, 0.4), 1), ((0.4, 0.6), 2.5), ((0.6, 0.4), 0.4))]
    expect(found == [[True, True], [False, False], [False, True]], "o_s + o_r and the way to the device, as published and otherwise", str(found))
    expect(judged_pages(1) == [True] * 4 and judged_pages(2) == [False] * 4, "registration, as published and otherwise", f"{judged_pages(1)} {judged_pages(2)}")


def check_figures():
    """Checks the range of an unknown ratio; and the time and the count of the same instructions."""
    data = {"ghz": 2, "parameters": {scaling.SPECIAL: [{"os": 1, "g": 2}, {"os": 2, "g": 5}], scaling.KERNEL: [{"os": 6, "g": 8}, {"os": 4, "g": 6}]},
            "instructions": {scaling.SPECIAL: {"4": 400}, scaling.KERNEL: {"4": 400}}}
    for kind, sent_ns, kernel_ns in (("alone", 100, 0), ("bursts", 500, 300)):
        data[kind] = {name: [[{"size": 0, "messages": scaling.SHORT, "sent_ns": sent_ns, "kernel_sent_ns": kernel_ns}]] for name in scaling.LAYERS}
    ratio, cycles = scaling.ratios(data, scaling.KERNEL), [scaling.cpi(data, name)["median"] for name in (scaling.SPECIAL, scaling.KERNEL)]
    expect(ratio == {"low": 0.8, "high": 8} and cycles == [0.5, 1], "ratios that may be, and cycles of an instruction", f"{ratio} {cycles}")


check_parameters()
check_planted()
check_figures()
check_model()
check_near()
check_judged()
check_bursts()
with tempfile.TemporaryDirectory() as work:
    check_report(work)
sys.exit(1 if checks.failures else 0)
