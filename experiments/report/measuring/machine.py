"""machine.py - the machine that the experiments ran on, and disturbances by other programs."""
import contextlib
import json
import os
import resource
import shlex
import time

import lab as labs

OTHERS_PERCENT = 10  # of a processor: more use by other programs is reported
FLOOR_ROUNDS = (20000, 2000)  # in full, and with --quick


class Machine:
    """The machine's facts, and its use by other programs during experiments."""

    def __init__(self, lab):
        self.lab = lab
        self.doctor = lab.run("xk", "doctor")
        self.other = json.loads(lab.far.output(shlex.join([os.path.join(lab.build, "xk"), "doctor", "--json", "-"]))) if lab.far else None
        self.floors = []
        self.sections = {}

    def take_floor(self):
        """Measures a round trip with DPDK alone, polling, and the cache-line time before and after."""
        self.lab.chapter = "machine"
        run = self.lab.run_for_stdout(labs.FLOOR, "--cores", self.lab.cores, "--rounds", str(self.lab.rounds(*FLOOR_ROUNDS)))
        self.floors.append({"rtt_ns": run["rtt_ns"], "cache_line_ns": run["machine"]["cache_line_ns"]})

    @contextlib.contextmanager
    def watched(self, name):
        """Records other programs' use of the processors during an experiment, and the cache-line times from the last reading before it."""
        lines = max(0, len(self.lab.lines_ns) - 1)
        there, before, started = self.busy_there_percent(), others_s(), time.monotonic()
        self.lab.chapter = name

        def used():
            lasted = time.monotonic() - started
            return {"seconds": lasted, "others_percent": max(0.0, 100 * (others_s() - before) / lasted, there, self.busy_there_percent())}

        parts = self.lab.kept(["interrupted"])  # the interrupted part may have been disturbed, too
        try:
            yield
        except BaseException:
            if self.lab.measures:
                self.lab.once(["interrupted"], used)
            raise
        self.lab.run_for_stdout(labs.FLOOR, "--cores", self.lab.cores, "--rounds", "1")  # measures the cache line, too
        parts.append(self.lab.once(["watched"], used))
        measured = self.lab.lines_ns[lines:]
        self.sections[name] = {"seconds": sum(part["seconds"] for part in parts),
                               "others_percent": max(part["others_percent"] for part in parts),
                               "line_ns": [min(measured), max(measured)] if measured else None}
        others = self.sections[name]["others_percent"]
        if others > OTHERS_PERCENT:
            self.lab.disturbed.append(f"{name}: other programs used {others:.0f} % of a processor")

    def busy_there_percent(self):
        """Returns the use of the other machine's processors in a second without programs of ours; 0 on one machine, whose use others_s() counts."""
        if self.lab.far is None or not self.lab.far.are_two:
            return 0.0
        before, after = map(busy_s, self.lab.far.output("head -1 /proc/stat; sleep 1; head -1 /proc/stat").splitlines())
        return 100 * (after - before)

    def facts(self):
        """Returns (what, value) rows for the page."""
        machine = self.doctor["machine"]
        checks = {name: check["text"] for name, check in self.doctor["checks"].items()}
        bare = [floor["rtt_ns"]["p50"] for floor in self.floors]
        others = [section["others_percent"] for section in self.sections.values()]
        return [
            ("processor", f"{self.lab.about.get('processor') or machine['processor']}; cores {self.lab.cores} of {machine['cores']}"),
            *([("its cores", f"{checks['cores']} (from /sys, where a virtual machine shows what its hypervisor reports)")] if "cores" in checks else []),
            ("system", machine["system"]),
            *self.other_facts(),
            ("DPDK", checks["DPDK"].removeprefix("DPDK ")),
            # without the time to wake one, which is measured; absent on a machine that is not virtual
            *([("idle processors", checks["idle cores"].partition(": waking")[0])] if "idle cores" in checks else []),
            ("how drivers wait", "asleep until an event descriptor is written to, unless an experiment states that they poll"),
            ("a cache line, to the other core and back", f"{low_high(self.lab.lines_ns)} ns"),
            ("a round trip with DPDK alone, polling", f"{low_high(bare)} ns"),
            ("used by other programs", f"{min(others):.0f} to {max(others):.0f} % of a processor"),
        ]

    def other_facts(self):
        if self.other is None:
            return []
        machine = self.other["machine"]
        return [("the other machine, where the server is" if self.lab.far.are_two else "the other system, where the server is, on this machine", f"{machine['processor']}; core {self.lab.far.cores[1]} of {machine['cores']}; "
                 f"{machine['system']}; joined by {self.lab.far.links[0]}. Measurements on one core or over virtio use this machine only.")]

    def data(self):
        return {"doctor": self.doctor, "other": self.other, "floors": self.floors, "experiments": self.sections,
                "disturbed": self.lab.disturbed, "cut_short": bool(self.lab.cut_short),
                "about": self.lab.about, "told": self.facts()}


def processor():
    """Returns the processor's name, with its model's numbers if known: a virtual machine may use one name for several models."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        facts = dict(map(str.strip, line.split(":", 1)) for line in file.read().split("\n\n", maxsplit=1)[0].splitlines() if ":" in line)
    words = [facts.get("model name", ""), *(f"{what} {facts[key]}" for what, key in (("family", "cpu family"), ("model", "model"), ("stepping", "stepping")) if key in facts)]
    return ", ".join(filter(None, words))


def low_high(values):
    return f"{min(values)} to {max(values)}" if values else "unknown"


def busy_s(line):
    """
    Returns the processor time of all programs as counted by the system, which samples (short runs are undercounted), including the
    time that the hypervisor gave to others. line: the first of /proc/stat.
    """
    user, nice, system, _, _, interrupt, soft, stolen = map(int, line.split()[1:9])
    return (user + nice + system + interrupt + soft + stolen) / os.sysconf("SC_CLK_TCK")


def others_s():
    """Returns the processor time of other programs on this machine."""
    with open("/proc/stat", encoding="ascii") as file:
        return busy_s(file.readline()) - ours_s()


def ours_s():
    """Returns the processor time of this program and of its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
