#!/usr/bin/env python3
"""report.py - repeats the experiments of M. Björkman, "Interrupt Protocol Processing in the x-kernel" (1994), and of other papers
on this machine: makes a page with every table, the published figures beside it, and checks of what agrees. --help lists the options.

Exits 1 if an experiment could not be completed. Disagreements appear on the page and at the end of the output.
"""
import argparse
import datetime
import os
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "measuring"))
import lab as labs  # makes the following importable
import far
import journal
import machine as machines
from programs import error_text

# The experiments in order, with their seconds: in full, and with --quick.
EXPERIMENTS = {"handoff": (14, 5), "rpc": (57, 25), "fragments": (140, 40), "threads": (147, 50), "blast": (50, 20), "acks": (15, 8), "policies": (115, 60),
               "drivers": (55, 40), "anatomy": (45, 25), "endpoints": (270, 25), "components": (125, 20), "userlevel": (86, 50), "scaling": (85, 40)}


class Progress:
    """Prints progress and the remaining time on a terminal."""

    def __init__(self, names, lab):
        self.names = names
        self.usual = {name: EXPERIMENTS[name][lab.quick] * lab.repeats / labs.REPEATS for name in names}
        self.began = self.begun = time.monotonic()
        self.done = []
        self.is_seen = sys.stderr.isatty()

    def part(self, part):
        if not self.is_seen:
            return
        name = self.names[len(self.done)]
        done = sum(self.usual[name] for name in self.done) + part * self.usual[name]
        left = sum(self.usual.values()) - done
        slower = (time.monotonic() - self.began) / done if done > 20 else 1  # than usual
        print(f"\rreport: {len(self.done) + 1} of {len(self.names)}: {name} {part:.0%}, {left * slower / 60:.0f} min left   ", end="",
              file=sys.stderr, flush=True)

    def end(self, name):
        self.done.append(name)
        print(f"{chr(13) if self.is_seen else ''}report: {name}, {len(self.done)} of {len(self.names)}: "
              f"{time.monotonic() - self.begun:.0f} s", file=sys.stderr, flush=True)
        self.begun = time.monotonic()


def measure(lab, names):
    """Runs the experiments. Returns their sections, or those of the ones completed before ctrl-C."""
    sections = []
    experiments = {name: __import__(name) for name in names}  # imported before measuring: Python may lose a ctrl-C during an import
    progress = Progress(names, lab)
    lab.progress = progress.part
    try:
        lab.machine.take_floor()
        for name in names:
            disturbed = len(lab.disturbed)
            with lab.machine.watched(name):
                section = experiments[name].run(lab)
            section.disturbed = lab.disturbed[disturbed:]
            section.line_ns = lab.machine.sections[name]["line_ns"]
            sections.append(section)
            progress.end(name)
        lab.machine.take_floor()
    except KeyboardInterrupt:
        missing = [name for name in names if name not in progress.done]
        lab.cut_short = f"{len(sections)} of {len(names)} experiments are complete; missing: {', '.join(missing) or 'the last floor'}"
    return sections


def print_answers(sections, lab):
    if lab.cut_short:
        print(f"CUT SHORT: {lab.cut_short}. --resume continues it.")
    for section in sections:
        print(f"\n{section.title}: {section.verdict_text()}: {section.answer_text()}\n")
        for check in section.checks:
            print(f"  {labs.AGREES[section.counted(check)]:7} {check['text']}")


def commit():
    """Returns this tree's commit, marked if the tree has changes; "unknown" without git."""
    if shutil.which("git") is None:
        return "unknown"
    done = subprocess.run(["git", "-C", labs.ROOT, "describe", "--always", "--dirty", "--abbrev=10"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip() or "unknown"


def again(options):
    """Returns the record that --again names, and sets the options of its report."""
    record = journal.Record(options.again)
    if record.about["link"] != "none":
        raise labs.Failed(f"--again: {options.again} is from a report with --far, which does not record the other system's facts")
    for name in ("quick", "repeats", "cores", "brief", "only"):
        setattr(options, name, record.about[name])
    return record


def main():
    parser = argparse.ArgumentParser(prog="report", description="repeats the papers' experiments on this machine")
    parser.add_argument("build", help="directory of the programs")
    parser.add_argument("out", help="directory for index.html and its figures")
    parser.add_argument("--cores", default="0,1", metavar="A,B", help="cores of client and server (0,1)")
    parser.add_argument("--quick", action="store_true", help="fewer round trips, within six minutes")
    parser.add_argument("--brief", action="store_true", help=argparse.SUPPRESS)  # --quick with a quarter of the round trips, for tests
    parser.add_argument("--repeats", type=int, default=labs.REPEATS, metavar="N", choices=range(1, 100),
                        help=f"how often each run is made ({labs.REPEATS}): with fewer, the ranges mean less")
    parser.add_argument("--only", default=",".join(EXPERIMENTS), metavar="NAME,...", help=f"of {', '.join(EXPERIMENTS)}")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted report")
    parser.add_argument("--again", metavar="FILE", help="measure nothing: make the report again from this measured.jsonl, with its original options")
    far.add_options(parser)
    options = parser.parse_args()
    options.quick |= options.brief
    try:
        kept = again(options) if options.again else None
        names = options.only.split(",")
        wrong = [name for name in names if name not in EXPERIMENTS]
        if wrong:
            parser.error(f"there is no experiment {wrong[0]}, only: {', '.join(EXPERIMENTS)}")
        import page  # early, so that a missing package is reported before measuring
        os.makedirs(options.out, exist_ok=True)
        lab = labs.Lab(options.build, options.cores, options.quick, options.repeats, far=far.far_of(options), brief=options.brief)
        os.stat(os.path.join(lab.build, "xk"))  # a wrong directory must not discard earlier measurements
        about = {"commit": commit(), "quick": options.quick, "repeats": options.repeats, "cores": options.cores, "link": options.link or "none"}
        first = {"date": datetime.datetime.now().astimezone().isoformat(" ", "minutes"), "command": command_of(options), "brief": options.brief,
                 "only": options.only, "processor": machines.processor()}
        lab.journal = kept or journal.Journal(os.path.join(options.out, "measured.jsonl"), about, first, options.resume)
        lab.measures = kept is None
        lab.about = dict(lab.journal.about)
        lab.machine = machines.Machine(lab)
        sections = measure(lab, names)
        if not sections:
            return labs.fail(f"interrupted: {lab.cut_short}")
        lab.about["minutes"] = round(sum(section["seconds"] for section in lab.machine.sections.values()) / 60)
        page.write(sections, lab, options.out)
    except (labs.Failed, OSError, ImportError, ValueError, subprocess.SubprocessError) as why:
        return labs.fail(error_text(why))
    except KeyboardInterrupt:
        return labs.fail("interrupted before the first result")
    print_answers(sections, lab)
    print(f"\n{os.path.join(options.out, 'index.html')}")
    return 1 if lab.cut_short else 0


def command_of(options):
    """Returns the command that repeats the report, without the other machine's name."""
    words = ["./run report"]
    words += ["--quick"] if options.quick else []
    words += ["--repeats", str(options.repeats)] if options.repeats != labs.REPEATS else []
    words += ["--only", options.only] if options.only != ",".join(EXPERIMENTS) else []
    words += ["--far", "USER@HOST", "--link", options.link, *(["--dev", options.dev] if options.dev else [])] if options.far else []
    return " ".join(words)


if __name__ == "__main__":
    sys.exit(main())
