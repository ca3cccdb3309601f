#!/usr/bin/env python3
"""report.py - the experiments of M. Björkman, "Interrupt Protocol Processing in the x-kernel" (1994), on this machine: a page
with every table, the published figures beside it, and in words what agrees; and where the time of a round trip goes. --help
has the options.

Exits 1 if an experiment could not be made; what does not agree is told on the page and at the end.
"""
import argparse
import os
import sys
import time

sys.dont_write_bytecode = True
import lab as labs
import machine as machines
import far

NAMES = ("handoff", "rpc", "fragments", "threads", "blast", "policies", "drivers", "anatomy", "endpoints", "components")


def progress_of(name, number, count):
    """Shows how far an experiment has come, where somebody looks."""
    def progress(part):
        if sys.stderr.isatty():
            print(f"\rreport: {number + 1} of {count}: {name} {part:.0%}   ", end="", file=sys.stderr, flush=True)
    return progress


def measure(lab, names):
    """Returns the sections of all experiments, or of those that were done before ctrl-C."""
    sections = []
    try:
        for number, name in enumerate(names):
            started = time.monotonic()
            lab.progress = progress_of(name, number, len(names))
            with lab.machine.watched(name):
                sections.append(__import__(name).run(lab))
            print(f"{chr(13) if sys.stderr.isatty() else ''}report: {name}, {number + 1} of {len(names)}: "
                  f"{time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        lab.machine.take_floor()
    except KeyboardInterrupt:
        lab.cut_short = f"{len(sections)} of {len(names)} experiments were made"
    return sections


def tell(sections, lab):
    if lab.cut_short:
        print(f"CUT SHORT: {lab.cut_short}.")
    for section in sections:
        print(f"\n{section.title}: {section.answer}\n")
        for check in section.checks:
            print(f"  {labs.VERDICTS[check['agrees']]:7} {check['text']}")


def main():
    parser = argparse.ArgumentParser(description="the experiments of the 1994 report, on this machine")
    parser.add_argument("build", help="where the programs are")
    parser.add_argument("out", help="the directory for index.html and its figures")
    parser.add_argument("--cores", default="0,1", metavar="A,B", help="of client and server (0,1)")
    parser.add_argument("--quick", action="store_true", help="fewer round trips, within six minutes")
    parser.add_argument("--only", default=",".join(NAMES), metavar="NAME,...", help=f"of {', '.join(NAMES)}")
    far.add_options(parser)
    options = parser.parse_args()
    names = options.only.split(",")
    wrong = [name for name in names if name not in NAMES]
    if wrong:
        parser.error(f"there is no experiment {wrong[0]}, only: {', '.join(NAMES)}")
    try:
        os.makedirs(options.out, exist_ok=True)
        lab = labs.Lab(options.build, options.cores, options.quick, None, far.far_of(options))
        lab.machine = machines.Machine(lab)
        lab.machine.take_floor()
        sections = measure(lab, names)
        if not sections:
            return labs.fail(f"interrupted: {lab.cut_short}")
        import page
        page.write(sections, lab, options.out)
    except (labs.Failed, OSError, ImportError) as why:
        return labs.fail(why)
    except KeyboardInterrupt:
        return labs.fail("interrupted before anything was measured")
    tell(sections, lab)
    print(f"\n{os.path.join(options.out, 'index.html')}")
    return 1 if lab.cut_short else 0


sys.exit(main())
