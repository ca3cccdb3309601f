"""lab.py - what experiments share: running programs, statistics over repetitions, and sections of the report."""
import json
import os
import re
import subprocess
import sys
import tempfile

CLIENTS = {"udptest": "udptest", "chantest": "chantest", "logp": "logptest"}  # the client in a program's own graph
FLOOR = os.path.join("experiments", "floors", "bare_dpdk_echo")
SHORT = 120  # characters of a check where only its beginning is shown
JUMP = 2  # times: on a virtual machine the cache-line time jumps by more; without a jump it varies by half
REPEATS = 6  # default: the fewest independent draws whose range contains the median with 95 % confidence

REPORT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.dirname(REPORT), *(os.path.join(REPORT, folder) for folder in ("chapters", "measuring", "writing"))]
import journal
from programs import ROOT, Failed


class Lab:
    """The programs' directory, the machines and cores, the amount of measuring, and results that later chapters use."""

    def __init__(self, build, cores, quick, repeats=REPEATS, far=None, brief=False):
        self.build = os.path.abspath(build)
        self.cores = cores  # of this machine
        self.far = far  # the other machine (far.py), if the server is there
        self.quick = quick
        self.brief = brief  # with even fewer round trips: for tests, which check how figures are used, not the figures
        self.repeats = repeats
        self.journal = None
        self.measures = True  # false: all results come from the journal
        self.chapter = ""  # name of the running experiment
        self.progress = lambda part: None
        self.disturbed = []  # sentences on disturbances, which make figures less reliable
        self.wakes = {}  # by chapter: an isolated wake-up of a thread on the other core, an interval in nanoseconds
        self.handoff_us = None  # a handoff in regular mode, on one core (table 2 of 1994); None: not measured
        self.handoff_adds_us = None  # extra time of the shortest round trip on one core with a handoff, an interval; None: not measured
        self.lines_ns = []  # cache-line times between the cores, in the order of measuring
        self.cut_short = ""  # how much was measured before ctrl-C; empty: everything

    def rounds(self, whole, quick):
        if self.brief:
            return max(1, quick // 4) if isinstance(quick, int) else quick / 4
        return quick if self.quick else whole

    def ends(self):
        """Returns options of udptest and chantest: their cores and, on two machines, the link between them."""
        return ["--cores", ",".join(self.far.cores), *self.far.of_pair()] if self.far else ["--cores", self.cores]

    def apart(self):
        """Returns a text on the placement of ends()."""
        if self.far is None:
            return "a core for each host"
        return f"{'a machine for each host' if self.far.are_two else self.far.ends}, over {self.far.links[0]}"

    def hosts(self):
        """Returns a text on what the hosts are."""
        return f"programs on {self.far.ends}, unless both are on one core or joined by virtio" if self.far else "two programs on one machine"

    def graph(self, name):
        return os.path.join(ROOT, "graphs", name)

    def once(self, what, measure):
        """Returns measure()'s result, or the kept one if the report is resumed or made again."""
        found = self.journal.once([self.chapter, *what], measure) if self.journal else measure()
        self.lines_ns += lines_of(found)
        return found

    def kept(self, what):
        """Removes and returns all results kept under this name."""
        return self.journal.kept.pop(journal.text_of([self.chapter, *what]), []) if self.journal else []

    def run(self, program, *arguments):
        """Returns the JSON document that a program of the build directory writes."""
        return self.once([program, *arguments], lambda: self.run_now(program, *arguments))

    def run_now(self, program, *arguments):
        with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
            command = [os.path.join(self.build, program), *arguments, *patience(program, arguments), "--json", file.name]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                raise Failed(f"{' '.join(command)}: {done.stderr.strip()[-400:]}")
            return json.load(file)

    def run_for_stdout(self, program, *arguments):
        """Returns the JSON document that a program writes to its standard output."""
        return self.once([program, *arguments], lambda: self.run_for_stdout_now(program, *arguments))

    def run_for_stdout_now(self, program, *arguments):
        command = [os.path.join(self.build, program), *arguments, "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: {done.stderr.strip()[-400:]}")
        return json.loads(done.stdout)

    def script(self, name, *arguments):
        """Returns the JSON document of a script in experiments/."""
        return self.once([name, *arguments], lambda: self.script_now(name, *arguments))

    def script_now(self, name, *arguments):
        with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
            self.progress(0)
            command = [sys.executable, os.path.join(ROOT, "experiments", name), self.build, *arguments, "--json", file.name]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                raise Failed(f"{name}: {done.stderr.strip()[-400:]}")
            return json.load(file)

    def bench(self, what, *arguments):
        return self.run("xk", "bench", what, *arguments)

    def floor_asleep_ns(self, cores):
        """Returns the median round trip with DPDK alone and sleeping ends."""
        run = self.run_for_stdout(FLOOR, "--cores", cores, "--rounds", str(self.rounds(1000, 100)), "--sleep")
        return run["rtt_ns"]["p50"]

    def trips(self, program, *arguments, together=False, floor=False):
        """
        Measures all configurations of one program once per repetition. Returns Trips. together: both hosts on one core of this
        machine. floor: measures DPDK alone in turn, too, unless on two machines.
        """
        core = self.cores.split(",", maxsplit=1)[0]
        ends, where = (["--cores", f"{core},{core}"], "both hosts on one core") if together else (self.ends(), self.apart())
        documents, floors = [], []
        for turn in range(self.repeats):
            self.progress(turn / self.repeats)
            documents.append(self.run(program, *ends, *arguments))
            if floor and (together or not self.far):
                floors.append(self.floor_asleep_ns(ends[1]))
        trips = Trips(documents, where, floors, not together, self.handoff_us)
        self.disturbed += trips.losses()
        return trips


def lines_of(found):
    """Returns the cache-line times between the cores, before and after a program that measures them."""
    document = found.get("document", found) if isinstance(found, dict) else {}
    return [ns for ns in document.get("machine", {}).get("cache_line_ns", {}).values() if ns]


def patience(program, arguments):
    """Returns options with long timeouts, so that a report survives other programs that hold the processors for seconds."""
    if program not in CLIENTS:
        return []
    client = CLIENTS[program]
    if "--graph" in arguments:
        with open(arguments[arguments.index("--graph") + 1], encoding="utf-8") as graph:
            client = re.search(rf"^\s*({'|'.join(CLIENTS.values())})\b", graph.read(), re.MULTILINE)[1]
    return ["--set", f"{client}.silence=60s"]


# ---- statistics ----


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def interval(values):
    """Returns the median of a figure's repetitions, with the lowest and the highest."""
    return {"low": min(values), "median": median(values), "high": max(values)}


def quotients(some, others):
    """Returns the ratios of some to others within each repetition."""
    return interval([a / b if b else float("inf") for a, b in zip(some, others)])


def confidence(repeats):
    """Returns the probability that the range of independent draws contains the median: that they do not all lie on one side of it."""
    return f"{100 * (1 - 2 / 2**repeats):.0f} %"


def of_key(run):
    """Returns the configuration of a run in a document: (mode, handoff, threads, size)."""
    handoff = "-" if run["mode"] == "regular" else run["handoff"]
    return run["mode"], handoff, run["threads"], run["size"]


def key_text(mode, handoff, threads, size):
    return f"{mode}{'' if handoff == '-' else ', handoff ' + handoff}, threads {threads}, {bytes_of(size)}"


class Trips:
    """Repeated round trips of several configurations, which were measured in turn within each repetition."""

    def __init__(self, documents, where, floors=(), is_across=True, handoff_us=None):
        self.documents = documents
        self.handoff_us = handoff_us  # this machine's: see Lab
        self.is_across = is_across  # the hosts are on two cores or machines
        self.floors = floors  # nanoseconds with DPDK alone, by repetition
        self.where = where  # a text on the placement of the hosts
        self.machine = documents[0]["machine"]
        self.runs = {}
        for document in documents:
            for run in document["runs"]:
                self.runs.setdefault(of_key(run), []).append(run)

    def losses(self):
        """Yields sentences on messages that were lost."""
        for key, runs in self.runs.items():
            lost = sum(run["lost"] for run in runs)
            if lost:
                yield f"{key_text(*key)}: {lost} messages were lost"

    def median_us(self, *key):
        """Returns the interval of median round trips over the repetitions, in microseconds."""
        return interval([run["rtt_ns"]["p50"] / 1000 for run in self.runs[key]])

    def saved_us(self, slower, faster):
        """Returns how many microseconds longer the slower configuration takes, from differences within each repetition."""
        return interval(self.each_saved_us(slower, faster))

    def each_saved_us(self, slower, faster):
        return [(a["rtt_ns"]["p50"] - b["rtt_ns"]["p50"]) / 1000 for a, b in zip(self.runs[slower], self.runs[faster])]

    def above_floor_us(self, key):
        """Returns how many microseconds longer a configuration takes than DPDK alone, from differences within each repetition."""
        return interval([(run["rtt_ns"]["p50"] - floor) / 1000 for run, floor in zip(self.runs[key], self.floors)])

    def per_message(self, key, count):
        """Returns a count per message delivered, summed over both ends if it has them."""
        runs = self.runs[key]
        total = sum(sum(run[count].values()) if isinstance(run[count], dict) else run[count] for run in runs)
        return total / sum(run["messages"] for run in runs)

    def of_end(self, key, count, end):
        """Returns a count of one end, over all repetitions."""
        return sum(run[count][end] for run in self.runs[key])


# ---- sections of the report ----


def is_saved(saved):
    """Returns whether something is saved; None: repetitions differ in sign, or a difference is zero."""
    return None if saved["low"] <= 0 <= saved["high"] else saved["low"] > 0


def bytes_of(size):
    return "1 byte" if size == 1 else f"{size} bytes"


def spread(value, digits=1):
    """'12.3 (12.1 to 12.6)'"""
    return f"{value['median']:.{digits}f} ({value['low']:.{digits}f} to {value['high']:.{digits}f})"


def negated(value):
    return {"low": -value["high"], "median": -value["median"], "high": -value["low"]}


def more_or_less(value, unit="us", digits=1):
    """'12.3 (12.1 to 12.6) us more', or less."""
    if value["median"] >= 0:
        return f"{spread(value, digits)} {unit} more"
    return f"{spread(negated(value), digits)} {unit} less"


def short(text, limit=SHORT):
    """Returns the text, cut after a clause, or otherwise after a word, if it is longer than the limit."""
    if len(text) <= limit:
        return text
    ends = [found.start() for found in re.finditer("[.:;]? ", text[:limit])]
    clauses = [found.start() for found in re.finditer(r"[.:;] |, [a-z]| \(", text[:limit])]
    return text[:next((end for end in reversed(clauses) if end > limit / 2), ends[-1])] + " ..."


AGREES = {True: "yes", False: "NO", None: "unclear"}
VERDICTS = {True: "confirmed", False: "contradicted", None: "unclear"}
IN_PART = "confirmed in part"  # the checks that the answer rests on agree, others do not
SIGNS = "yes: the difference has this sign in every repetition; NO: it has the opposite sign in every repetition; unclear: otherwise"


class Section:
    """A question, its answer, and the checks that support it."""

    def __init__(self, name, title, question, virtual=False, across=False):
        self.name = name
        self.title = title
        self.question = question
        self.answer = ""  # a sentence or two for the top of the page
        self.why = ""  # a possible explanation of checks that disagree
        self.parts = []  # ("text", words), ("table", title, head, rows, note), ("plot", title, draw, shows, small), ("graph", title, file, labels)
        self.virtual = virtual  # the answer rests on virtual time, which other programs cannot disturb
        self.across = across  # default of checks: they are about times across cores
        self.compared = []  # (what, here, published, its check or why it is not checked)
        self.checks = []
        self.unchecked = []  # (published figures without a check, why)
        self.disturbed = []  # sentences on disturbances
        self.line_ns = None  # (lowest, highest) cache-line time between the cores during the chapter
        self.data = {}

    def text(self, words):
        self.parts.append(("text", words))

    def table(self, title, head, rows, checked="", unchecked=""):
        """
        checked: which checks cover its published figures; unchecked: which figures have none, and why. A table with published
        figures needs at least one of them.
        """
        has_published = any("published" in str(text) for text in (title, *head, *(row[0] for row in rows)))
        if has_published and not checked and not unchecked:
            raise Failed(f"{self.name}: no check covers the published figures of \"{title}\"")
        if unchecked:
            self.unchecked.append((title, unchecked))
        self.parts.append(("table", title, head, rows, " ".join(filter(None, (checked and f"Checked: {checked}.", unchecked and f"Not checked: {unchecked}.")))))

    def compare(self, what, here, then, agrees, bears=False, **more):
        """Adds a row with a figure from here beside the published one, and a check. agrees, bears, more: see check(). A string as agrees: why it is not checked."""
        if isinstance(agrees, str):
            self.unchecked.append((what, agrees))
        else:
            self.check(agrees, f"{what}: {here}; published {then}.", bears, **more)
        self.compared.append((what, here, then, f"not checked: {agrees}" if isinstance(agrees, str) else self.checks[-1]))

    def plot(self, title, draw, shows="", small=False):
        """Adds a plot, drawn by draw(axes) with matplotlib. shows: what it shows if the answer is confirmed. small: it fits beside another."""
        self.parts.append(("plot", title, draw, shows, small))

    def picture(self, title, graph, labels):
        """Adds the picture of a graph. labels: {(upper, lower): (text, whether it is stressed)} for its edges."""
        self.parts.append(("graph", title, graph, labels))

    def check(self, agrees, words, bears=False, rule="", across=None):
        """
        Adds a check. agrees: whether the run agrees with what was published or promised; None: unclear. bears: whether the answer
        rests on it. rule: when it agrees, if the words do not state it. across: whether it is about times across cores.
        """
        self.checks.append({"agrees": agrees if agrees is None else bool(agrees), "text": words, "bears": bears, "rule": rule,
                            "across": self.across if across is None else across})

    def check_saved(self, saved, words, bears=True, across=None):
        """Adds a check of whether something is saved."""
        self.check(is_saved(saved), words, bears, SIGNS, across)

    def jumped(self):
        """Returns whether the cache-line time jumped during the chapter."""
        return self.line_ns is not None and self.line_ns[1] > JUMP * self.line_ns[0]

    def bearing(self):
        """Returns the checks that the answer rests on: those marked, or all if none is."""
        return [check for check in self.checks if check["bears"]] or self.checks

    def decides(self, check):
        """Returns whether a check decides anything: one on times across cores does not if the cache-line time jumped."""
        return not (check["across"] and self.jumped())

    def counted(self, check):
        """Returns a check's verdict as counted everywhere: that of its figures, or None if it decides nothing."""
        return check["agrees"] if self.decides(check) else None

    def counts(self, checks=None):
        """Returns how many checks agree, disagree and are unclear, of all or of those given."""
        counted = [self.counted(check) for check in (self.checks if checks is None else checks)]
        return [sum(agrees is each for each in counted) for agrees in AGREES]

    def checks_document(self):
        """Returns the checks for the JSON: `agrees` is the counted verdict, `by_figures` that of the figures alone."""
        return [check | {"agrees": self.counted(check), "by_figures": check["agrees"]} for check in self.checks]

    def compared_rows(self):
        """Returns the compared rows as texts."""
        return [(*row, check if isinstance(check, str) else AGREES[self.counted(check)]) for *row, check in self.compared]

    def verdict(self):
        """
        Returns the verdict on the answer. False: a check that it rests on disagrees, or more of all checks disagree than agree. None:
        one that it rests on is unclear, fewer than half of all agree, or other programs disturbed the run.
        """
        bearing = [self.counted(check) for check in self.bearing()]
        agree, disagree, unclear = self.counts()
        if self.disturbed and not self.virtual:
            return None
        if False in bearing or disagree > agree:
            return False
        return None if None in bearing or agree < disagree + unclear else True

    def verdict_text(self):
        """Returns the verdict as a short text."""
        return IN_PART if self.verdict() and self.counts()[0] < len(self.checks) else VERDICTS[self.verdict()]

    def contradiction(self):
        """Returns a text on the checks that contradict the answer."""
        bearing, (agree, disagree, _) = self.bearing(), self.counts()
        failed = [check["text"] for check in bearing if self.counted(check) is False]
        words = []
        if failed and len(bearing) < len(self.checks):
            words.append(f"Of the {len(bearing)} checks that the answer rests on, {len(failed)} say{'s' * (len(failed) == 1)} NO: "
                         + " ".join(short(text, 300) for text in failed[:2]) + f" And {len(failed) - 2} more." * (len(failed) > 2))
        if disagree > agree or not words:
            words.append(f"Of all {len(self.checks)} checks of the chapter, {disagree} say NO and {agree} yes.")
        return " ".join(words)

    def answer_text(self):
        """Returns the answer; if the run contradicts it, returns the contradiction and what was measured."""
        if self.verdict() is False:
            return f"{self.contradiction()} (Measured: {self.answer}){' ' * bool(self.why)}{self.why}"
        if self.verdict() is None and self.disturbed:
            return f"{self.answer} (Other programs disturbed this measurement.)"
        undecided = sum(not self.decides(check) for check in self.bearing())
        count = f"{undecided} of the {len(self.bearing())} checks that this rests on {'is' if undecided == 1 else 'are'}"
        return self.answer + f" ({count} unclear because the cache-line time jumped.)" * bool(undecided)


def fail(words):
    print(f"report: {'; '.join(words.splitlines())}", file=sys.stderr)
    return 1
