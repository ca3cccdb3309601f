#!/usr/bin/env python3
"""test_report.py BUILD - checks that experiments/report makes its page: every experiment, quickly (except those of test_endpoints.py,
test_components.py and test_scaling.py); each table's figures follow from the measurements beside it; failures are reported. Agreement with
the 1994 report is not checked: that depends on the machine.

Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import csv
import filecmp
import html.parser
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), *(os.path.join(ROOT, "experiments", "report", folder) for folder in ("", "measuring"))]
sys.dont_write_bytecode = True
import checks
import lab as labs
import report as reports
import trips
import waits
from checks import expect, shown

NAMES = ("handoff", "rpc", "fragments", "threads", "blast", "acks", "policies", "drivers", "anatomy", "userlevel")
REPEATS = 2
OPTIONS = ("--brief", "--repeats", str(REPEATS), "--only", ",".join(NAMES))
VOID = {"meta", "br", "input"}
NUMBER = re.compile(r"(?<![\w.#])\d[\d.]*\d|(?<![\w.#])\d")


def report(out, *arguments):
    """(status, output)"""
    command = [sys.executable, os.path.join(ROOT, "experiments", "report", "report.py"), *arguments[:1], out, *arguments[1:]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


class Page(html.parser.HTMLParser):
    """The text that a reader sees of a page; `wrong` lists elements not closed or not opened."""

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.ids, self.words, self.svgs = [], [], [], [], 0
        self.numbered = []  # text whose figures must be in the JSON: not the method's, nor a picture's axes
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value for key, value in attrs if key == "id"]
        self.svgs += tag == "svg"

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for key, value in attrs if key == "id"]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.words.append(data)
        if not set(self.open) & {"svg", "style", "h1", "h2", "nav"} and self.ids[-1:] != ["method"]:
            self.numbered.append(data)


def read(out, name):
    with open(os.path.join(out, name), encoding="utf-8") as file:
        return file.read()


def check_page(out):
    page = Page(read(out, "index.html"))
    text = "".join(page.words)
    expect(not page.wrong and not page.open, "the page is well-formed", f"{page.wrong} {page.open}")
    expect(all(name in page.ids for name in NAMES), "every experiment has its section", str(page.ids))
    expect(all(f"able {number} of 1994" in text for number in range(1, 9)), "tables 1 to 8 are on the page")
    for kind in ("Table", "Figure"):
        numbers = [int(number) for number in re.findall(kind + r" (\d+)\. ", text)]
        expect(len(numbers) > 9 and numbers == list(range(1, len(numbers) + 1)), f"each {kind.lower()} has one number, in order", str(numbers))
    expect("`" not in text, "no backticks are left of code")
    expect(page.svgs >= 6, "pictures are in the page", str(page.svgs))
    check_numbers(out, page)
    check_counts(out, text)
    for name in NAMES:
        document = json.loads(read(out, name + ".json"))
        missing = [c["text"] for c in document["checks"] if shown(c["text"]) not in text]
        expect(document["answer"] and shown(document["answer"]) in text, f"{name}: its answer is on the page", document["answer"])
        expect(document["checks"] and not missing, f"{name}: its checks are on the page", str(missing))
        check_verdict(name, document, text)
    return page, text


def check_verdict(name, document, text):
    """Checks that the checks that bear the answer decide its mark, and that a failed answer is not given as the answer."""
    line = document["line_ns"]
    jumped = line is not None and line[1] > labs.JUMP * line[0]
    counted = [None if check["across"] and jumped else check["by_figures"] for check in document["checks"]]
    everything = [check["agrees"] for check in document["checks"]]
    expect(everything == counted, f"{name}: checks across cores are unclear if the cache-line time jumped", f"{everything}, not {counted}")
    bearing = [check for check in document["checks"] if check["bears"]] or document["checks"]
    agrees = [check["agrees"] for check in bearing]
    expect(document["counts"]["all"] == {word: everything.count(each) for each, word in labs.AGREES.items()} | {"all": len(everything)}, f"{name}: its counts")
    wanted = "confirmed" if set(everything) == {True} else "confirmed in part"
    if None in agrees or 2 * everything.count(True) < len(everything):
        wanted = "unclear"
    if False in agrees or everything.count(False) > everything.count(True):
        wanted = "contradicted"
    if document["disturbed"] and name != "policies":
        wanted = "unclear"
    marked = [f"● {'○ (%s) ' % labs.AGREES[check['by_figures']] if check['across'] and jumped else ''}{shown(check['text'])}" for check in bearing]
    expect(all(words in text for words in marked), f"{name}: the checks that bear its answer are marked", str([words for words in marked if words not in text]))
    marked = bool(re.search("Of the [0-9]+ checks that the answer rests on, |Of all [0-9]+ checks of the chapter, ", text[max(0, text.find(shown(document["answer"])) - 2000):text.find(shown(document["answer"]))]))
    expect(document["verdict"] == wanted and (marked or wanted != "contradicted"), f"{name}: its answer is marked {wanted}", document["verdict"])


def check_numbers(out, page):
    """Checks that every number on the page is in the JSON beside it."""
    there = set()
    for name in os.listdir(out):
        if name.endswith(".json"):
            there |= set(NUMBER.findall(read(out, name).replace("\\u00b5", "µ")))
    words = [re.sub(r"(Table|Figure) \d+\.|\d+ of \d+ (agree|checks (disagree|are unclear))|\d+ comparisons with|1994|50 %", "", words) for words in page.numbered]
    missing = {number for text in words for number in NUMBER.findall(text)} - there
    expect(not missing, "every number on the page is in the JSON beside it", str(sorted(missing)))


def check_counts(out, text):
    """Checks the labels on the edges of pictures against the measurements."""
    for name, size, handoff, each in (("rpc", 1, "client", 1), ("rpc", 1, "none", 0), ("fragments", 4000, "server", 1)):
        mine = [run for runs in json.loads(read(out, name + ".json"))["data"]["repetitions"] for run in runs
                if (run["mode"], run["size"], run["handoff"]) == ("ipp", size, handoff)]
        rounds = sum(run["rounds"] for run in mine)
        if name == "rpc":
            count = sum(run["context_switches"]["client"] for run in mine)
            words = f"{count} switches in {rounds} calls"
        else:
            count = sum(sum(run["handoffs"].values()) for run in mine)
            words = f"{count} handoffs in {rounds} round trips"
        expect(words in text and abs(count - each * rounds) < rounds / 4, f"{name}: label on a picture's edge ({handoff})",
               f"{count} in {rounds}")


def check_again(build, out):
    """Checks that the record of all measurements makes the same report again, byte by byte, without measuring."""
    with tempfile.TemporaryDirectory() as there:
        status, output = report(there, build, "--again", os.path.join(out, "measured.jsonl"))
        compared = filecmp.dircmp(out, there)
        expect(status == 0 and compared.left_only == ["measured.jsonl"] and not compared.right_only and
               not filecmp.cmpfiles(out, there, compared.common_files, shallow=False)[1], "its record makes it again",
               f"{output} {compared.left_only} {compared.right_only} {compared.diff_files}")
        with open(os.path.join(out, "measured.jsonl"), encoding="utf-8") as file, open(os.path.join(there, "part.jsonl"), "w", encoding="utf-8") as part:
            part.writelines(file.readlines()[:20])
        status, output = report(there, build, "--again", os.path.join(there, "part.jsonl"))
        expect(status == 1 and "has no result of" in output and "Traceback" not in output, "a part of it does not", output[-300:])


def check_machine(out, text):
    """Checks what the page states about the machine, and about other activity on it."""
    data = json.loads(read(out, "machine.json"))
    about = data["doctor"]["machine"]
    missing = [words for words in (about["processor"], about["system"], data["doctor"]["checks"]["DPDK"]["text"].split()[1])
               if words not in text]
    floors = [floor["rtt_ns"]["p50"] for floor in data["floors"]]
    expect(not missing and len(floors) == 2 and f"{min(floors)} to {max(floors)} ns" in text,
           "the page describes its machine", f"{missing} {floors}")
    expect(sorted(data["experiments"]) == sorted(NAMES) and ("Other activity disturbed this run" in text) == bool(data["disturbed"]),
           "and other activity on it", str(data["disturbed"]))
    lines = [experiment["line_ns"] for experiment in data["experiments"].values()]
    jumped = sum(line is not None and line[1] > labs.JUMP * line[0] for line in lines)
    expect(text.count("During this chapter the cache-line time between the cores jumped") == jumped and ("Experiments with a jump" in text) == (jumped > 0),
           "and during which experiments the cache-line time jumped", str(lines))


def check_tables(out, text):
    """Checks that each cell of each CSV is on the page."""
    files = [name for name in os.listdir(out) if name.endswith(".csv")]
    missing = []
    for name in files:
        for row in csv.reader(read(out, name).splitlines()):
            missing += [cell for cell in row if shown(cell) not in text]
    expect(len(files) >= 9 and not missing, "each table is beside the page, too", f"{files} {missing}")


def check_figures(out):
    """Checks table 3 against the measurements: the median of the repetitions' medians, and the lowest and highest."""
    data = json.loads(read(out, "rpc.json"))["data"]
    tables = [name for name in sorted(os.listdir(out)) if name.startswith("rpc-") and name.endswith(".csv")]
    for name, key in zip(tables, ("repetitions", "together")):
        check_table3(list(csv.reader(read(out, name).splitlines())), data[key], key)


def check_table3(table, repetitions, key):
    sizes = [int(head.split()[0]) for head in table[0][1:]]
    rows = {"Regular": ("regular", None), "IPP, client handoff": ("ipp", "client"), "IPP, no handoff": ("ipp", "none")}
    for name, (mode, handoff) in rows.items():
        cells = next(row for row in table if row[0] == name)[1:]
        for size, cell in zip(sizes, cells):
            times = [
                run["rtt_ns"]["p50"] / 1000 for runs in repetitions for run in runs
                if run["mode"] == mode and run["size"] == size and handoff in (None, run["handoff"])
            ]
            wanted = f"{statistics.median(times):.1f} ({min(times):.1f} to {max(times):.1f})"
            expect(len(times) == REPEATS and cell == wanted, f"table 3, {key}: {name}, {size} bytes", f"{cell}, not {wanted}")


def check_anatomy(out):
    """Checks that the table's parts of a round trip add up, and that picture and text use the same figures."""
    data = json.loads(read(out, "anatomy.json"))["data"]
    for number, program in enumerate(("udptest", "chantest")):
        parts = data[program]["parts"]
        rows = {row[0]: row for row in csv.reader(read(out, f"anatomy-{number + 1}.csv").splitlines())}
        total = data[program]["wake_up_ns"] + sum(part["client_ns"] + part["server_ns"] for part in parts)
        expect(abs(total - data[program]["sum_ns"]) < 1, f"anatomy: {program}'s parts add up", f"{total}")
        both = {part["part"]: part["client_ns"] + part["server_ns"] for part in parts}
        wrong = [part for part, ns in both.items() if rows[part][3] != str(round(ns))]
        wrong += [part for part in both if abs(int(rows[part][1]) + int(rows[part][2]) - int(rows[part][3])) > 1]
        expect(not wrong and rows["all parts"][3] == str(round(total)), f"anatomy: {program}'s table", str(wrong))
        expect(0 < data[program]["whole_round_trips"] <= data[program]["round_trips"], f"anatomy: {program}'s round trips",
               str(data[program]))
    names = [part["part"] for part in data["udptest"]["parts"]]
    expect([name for name in names if ", up" in name or ", down" in name or name == "application"] ==
           ["port, up", "eth, up", "vnet, up", "ip, up", "udp, up", "application", "udp, down", "ip, down", "vnet, down",
            "eth, down", "port, down, and the end of the driver's turn"], "anatomy: udptest's layers in their order", str(names))


def spread(values, digits=1):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def comes_to_nothing(works, costs):
    """Returns the work at which a handoff's cost first reaches zero, interpolated by factors of the work."""
    i = next(i for i in range(len(costs) - 1) if costs[i] > 0 >= costs[i + 1])
    part = costs[i] / (costs[i] - costs[i + 1])
    return part * works[i + 1] if works[i] == 0 else math.exp((1 - part) * math.log(works[i]) + part * math.log(works[i + 1]))


def table_of(out, name, head):
    """Returns the rows of the experiment's table whose head begins so."""
    for file in sorted(os.listdir(out)):
        if file.startswith(name + "-") and file.endswith(".csv"):
            rows = list(csv.reader(read(out, file).splitlines()))
            if rows[0][:2] == head:
                return rows[1:]
    return []


def check_policies(out):
    """Checks the break-evens, and the mean response times with each budget, against each seed's figures."""
    data = json.loads(read(out, "policies.json"))["data"]
    table = table_of(out, "policies", ["load, short questions per second", "break-even"])
    expect(len(table) == len(data["break_even"]) >= 3, "policies: a break-even for each load", str(table))
    for row, cells in zip(data["break_even"], table):
        at = [comes_to_nothing(row["works_us"], seed) for seed in zip(*row["costs_us"])]
        wanted = [f"{row['load']:.0%}, {row['shorts']}", spread(at, 0), f"{(13 / row['shorts'] * 1e6) ** 0.5:.0f}"]
        expect(len(at) == REPEATS and cells == wanted, f"policies: break-even at {cells[0]}", f"{cells}, not {wanted}")
    table = table_of(out, "policies", ["work, policy", "short, median"])
    expect(len(table) == len(data["budgets"]), "policies: a row for each budget", str(len(table)))
    for row, cells in zip(data["budgets"], table):
        wanted = spread([run["all_mean_us"] for run in row["runs"]])
        expect(len(row["runs"]) == REPEATS and cells[3] == wanted, f"policies: {cells[0]}", f"{cells}, not {wanted}")


def check_marks():
    """
    Checks the rules of verdicts: the checks that bear an answer decide; on a machine with other activity only those on virtual time do, and
    after a jump in the cache-line time none across cores. More disagreements than agreements contradict, whatever they are about.
    """
    for agrees, disturbed, virtual, wanted in (
            ([True, True], [], False, True), ([True, False], [], False, False), ([True, None], [], False, None),
            ([True, True], ["others"], False, None), ([False], ["others"], False, None), ([True], ["others"], True, True)):
        section = labs.Section("name", "title", "question", virtual)
        section.check(False, "what bears nothing")
        for agree in agrees:
            section.check(agree, "what bears", bears=True)
        section.disturbed = disturbed
        expect(section.verdict() is wanted, f"marked {labs.VERDICTS[wanted]}: {agrees} {disturbed} {virtual}", str(section.verdict()))
    for others, across, line, wanted in (([True], False, None, "confirmed"), ([False], False, None, "confirmed in part"), ([None, None], False, None, "unclear"),
                                         ([False, False], False, None, "contradicted"), ([True], True, [66, 350], "unclear"), ([True], True, [66, 90], "confirmed"),
                                         ([True], False, [66, 350], "confirmed")):
        section = labs.Section("name", "title", "question")
        section.line_ns = line
        section.check(True, "what bears", bears=True, across=across)
        for agree in others:
            section.check(agree, "what bears nothing")
        expect(section.verdict_text() == wanted, f"marked {wanted}: {others} {across} {line}", section.verdict_text())


def check_waits():
    """Checks the visits of a driver that sends, of a thread that sends while the driver sleeps, and of a driver woken in vain."""
    stamps = ("10 wake", "12 transmit", "15 sent", "16 sleep", "20 wake", "21 sleep", "24 transmit", "28 sent", "30 wake", "31 sleep", "40 wake")
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write("\n".join(["s_port: 11 of 11 stamps; 10 cost 100 ns", *stamps, ""]))
        file.flush()
        end = waits.End(file.name)
    expect(end.visits == [[10, 12, 15], [20, 24, 28]] and end.slept == 1, "when an end woke, rang and slept", f"{end.visits} {end.slept}")


def check_acks(out):
    data = json.loads(read(out, "acks.json"))["data"]
    rows = list(csv.reader(read(out, "acks-1.csv").splitlines()))[1:]
    marks = (("unmarked", "ipp", "none"), ("unmarked", "ipp", "both"), ("marked", "ipp", "none"), ("unmarked", "regular", "none"))
    for (graph, mode, handoff), row in zip(marks, rows):
        mine = [run for document in data[graph]["repetitions"] for run in document if run["mode"] == mode and (mode == "regular" or run["handoff"] == handoff)]
        counts = [f"{sum(sum(run[count].values()) for run in mine) / sum(run['rounds'] for run in mine):.2f}" for count in ("handoffs", "context_switches")]
        expect(len(mine) == REPEATS and row[3:] == counts, f"acks: {row[0]}", f"{row[3:]}, not {counts}")


def check_pairs():
    """Checks differences in two repetitions against published ones: their sign decides, for ties their size; a zero in one decides nothing."""
    for was_us, more_us, handoff_us, wanted in ((40, (1, 2), 6, True), (40, (-1, -2), 6, False), (40, (0, 2), 6, None), (40, (0, -2), 6, None), (-40, (-1, -2), 6, True),
                                                (-40, (0, 2), 6, None), (11, (-1, 1), 6, None), (10, (-1, 1), 6, True), (10, (-3, -4), 6, False), (10, (1, 3), 6, None),
                                                (10, (-1, 1), 2, None), (10, (-1, 1), None, None)):
        documents = [{"machine": {}, "runs": [{"mode": "regular", "threads": threads, "size": 1, "rtt_ns": {"p50": 1000 * us}}
                                              for threads, us in ((1, 100 + more), (2, 100))]} for more in more_us]
        section = labs.Section("name", "title", "question")
        trips.check_orders(section, labs.Trips(documents, "here", handoff_us=handoff_us), {("regular", "-", 1): "one", ("regular", "-", 2): "two"}, (1,),
                           {("regular", "-", 1): (500 + was_us,), ("regular", "-", 2): (500,)})
        expect(section.checks[0]["agrees"] is wanted, f"a pair of rows: published {was_us:+d} us, here {more_us}, a handoff {handoff_us} us", str(section.checks))


def check_dependence_on_size():
    """Checks the saving for two sizes: as published, and twice as much for the longer one."""
    for last_us, wanted in ((20, [True]), (40, [False])):
        documents = [{"machine": {}, "runs": [{"mode": mode, "handoff": "none", "threads": 1, "size": size, "rtt_ns": {"p50": 1000 * us}}
                                              for mode, size, us in (("regular", 1, 100), ("regular", 2, 200), ("ipp", 1, 80), ("ipp", 2, 200 - last_us))]}] * 2
        section = labs.Section("name", "title", "question")
        trips.compare_dependence_on_size(section, labs.Trips(documents, "here"), {("regular", "-"): (500, 1000), ("ipp", "none"): (400, 900)}, (1, 2), ("regular", "-"),
                            ("ipp", "none"), "IPP")
        expect([check["agrees"] for check in section.checks] == wanted, f"what is saved of two sizes: 20 and {last_us} us", str(section.checks))


def check_jumps():
    """Checks that a jump makes checks across cores unclear in every count and row, and that contradicting checks are named."""
    section = labs.Section("name", "title", "question")
    section.compare("a time", "2", "1", False, bears=True, across=True)
    section.check(False, "A count.", bears=True)
    section.check(True, "A sum.")
    for line, counts, row, words in ((None, [1, 2, 0], "NO", "Of the 2 checks that the answer rests on, 2 say NO: a time: 2; published 1. A count. Of all 3 checks of the chapter, 2 say NO and 1 yes."),
                                     ([66, 350], [1, 1, 1], "unclear", "Of the 2 checks that the answer rests on, 1 says NO: A count.")):
        section.line_ns = line
        found = section.counts(), section.compared_rows()[0][-1], section.contradiction()
        expect(found == (counts, row, words), f"what checks say: {line}", str(found))
    other = labs.Section("name", "title", "question")
    other.answer, other.line_ns = "Answer.", [66, 350]
    other.check(True, "a time", bears=True, across=True)
    expect(other.answer_text() == "Answer. (1 of the 1 checks that this rests on is unclear because the cache-line time jumped.)", "an answer that a jump makes unclear", other.answer_text())
    expect([check["agrees"] for check in section.checks_document()] == [None, False, True] and [check["by_figures"] for check in section.checks_document()] == [False, False, True],
           "... and what their figures say")
    expect(labs.short("Short.") == "Short." and labs.short("a b: " + 30 * "word, 1 ", 40) == "a b: word, 1 word, 1 word, 1 word, 1 ...", "a text is shortened", labs.short("a b: " + 30 * "word, 1 ", 40))
    for line, wanted in ((None, False), ([66, 90], False), ([66, 350], True)):
        section.line_ns = line
        expect(section.jumped() is wanted, f"a jump of the cache line: {line}")


def check_without_git():
    path, os.environ["PATH"] = os.environ["PATH"], "/nonexistent"
    found = reports.commit()
    os.environ["PATH"] = path
    expect(found == "unknown", "a report without git", found)


def check_refused(build):
    with tempfile.TemporaryDirectory() as out:
        status, output = report(out, build, "--only", "rpc,nothing")
        expect(status == 2 and "there is no experiment nothing" in output, "an unknown experiment", output)
        status, output = report(out, "/nonexistent", "--only", "handoff")
        expect(status == 1 and "nonexistent" in output and "Traceback" not in output, "missing programs", output)
        status, _ = report(out, build, "--only", "handoff", "--resume")
        expect(status == 1, "nothing to resume")
        status, output = report("/proc/nowhere", build, "--only", "handoff")
        expect(status == 1 and "/proc/nowhere" in output and "Traceback" not in output, "an impossible directory", output)


def cut_short(build, out):
    """Interrupts the second experiment: the report must have the first and state that it is incomplete. Returns the first one's data."""
    command = [sys.executable, os.path.join(ROOT, "experiments", "report", "report.py"), build, out, *OPTIONS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        told = job.stderr.readline()
        job.send_signal(signal.SIGINT)
        output, errors = job.communicate()
    words = f"1 of {len(NAMES)} experiments are complete; missing: {', '.join(NAMES[1:])}"
    expect(told.startswith(f"report: {NAMES[0]}, 1 of {len(NAMES)}: "), "its progress", told)
    expect(job.returncode == 1 and f"CUT SHORT: {words}" in output and "Traceback" not in errors,
           "a report that is cut short", f"{job.returncode} {output} {errors}")
    text = "".join(Page(read(out, "index.html")).words)
    expect(words in text and os.path.exists(os.path.join(out, NAMES[0] + ".json")), "... has the measurements made so far", text[-300:])
    expect(json.loads(read(out, "machine.json"))["cut_short"] is True, "... and is marked")
    status, output = report(out, build, "--only", NAMES[0], "--resume")
    expect(status == 1 and "--resume" in output and "quick" in output, "it is not resumed with other options", output)
    return json.loads(read(out, NAMES[0] + ".json"))["data"]


def main():
    if len(sys.argv) != 2 or not os.path.exists(os.path.join(sys.argv[1], "udptest")):
        print("usage: tests/experiments/test_report.py BUILD", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as out:
        was = cut_short(sys.argv[1], out)
        status, output = report(out, sys.argv[1], *OPTIONS, "--resume")
        expect(status == 0, "... and is resumed: every experiment, quickly", output)
        if status == 0:
            expect(json.loads(read(out, NAMES[0] + ".json"))["data"] == was, "... with the earlier measurements")
            _, text = check_page(out)
            check_again(sys.argv[1], out)
            check_tables(out, text)
            check_figures(out)
            check_anatomy(out)
            check_acks(out)
            check_machine(out, text)
            check_policies(out)
    check_marks()
    check_jumps()
    check_pairs()
    check_dependence_on_size()
    check_waits()
    check_without_git()
    check_refused(sys.argv[1])
    print(f"{checks.failures} failed" if checks.failures else "the report is made")
    return 1 if checks.failures else 0


sys.exit(main())
