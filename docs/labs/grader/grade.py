#!/usr/bin/env python3
"""grade.py BUILD N OPTION... - marks a lab: see docs/labs/README.md and docs/labs/instructor.md.

Marks come only from the frames that the student's host sends and the messages that its user is given (world.py), and the
student's C runs in a sandbox (sandbox.py). Exit status: 0, the lab was marked; 1, it was not; 2, misuse. With an
empty BUILD nothing is done: 3 if the options are in order.
"""
import argparse
import contextlib
import csv
import json
import os
import re
import struct
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import journey
import keys
import lab_boot
import lab_fragment
import lab_mark
import lab_sequence
import lab_stream
import lab_window
import linux
import mutants
import questions
import search
from keys import Draws
from sandbox import ROOT, SEARCH_BUDGET, TOLD, Ahead, Budget, Ended, Refused, Sandbox, Unusable, plain, quoted, take
from world import World, Wrong

LABS = {lab.number: lab for lab in (lab_mark.LAB, lab_sequence.LAB, lab_window.LAB, lab_fragment.LAB, lab_boot.LAB, lab_stream.LAB)}
CANNOT_JUDGE = "the grader cannot judge this, please report it"
WHY_MAX = 400  # characters of why a mark is lost
IN_ORDER = 3  # the exit status where only the options are looked at


# ---- one lab of one student ------------------------------------------------------------------------------------------


def starter(sandbox, program, budget, *words):
    """Returns a function with which a World starts the host at each boot."""
    return lambda chance, boots: sandbox.start(program, budget, chance, boots, *words)


def run_check(check, start, layout, seed, told=None, choices=None, start_tcp=None):
    """Returns None, or why the mark is lost. choices: of a check that chooses; None: the run in which nothing unusual happens."""
    world = None
    try:
        world = World(start, layout, seed, told, choices or search.Choices(check.choose) if check.choose else None, start_tcp)
        world.boot()
        check.run(world)
        return None
    except Wrong as why:
        return str(why)[:WHY_MAX]
    except Ended as why:
        return f"the host {why}"
    except OSError:
        raise
    except Exception as why:  # a mistake of the check's, which a student must not gain from, nor other students lose by
        traceback.print_exc()
        return f"{CANNOT_JUDGE}: {why!r}"
    finally:
        if world is not None:
            world.close()


def run_search(check, sandbox, program, layout, seed):
    """Runs a check with every short list of choices. Returns a search.Found."""
    budget = Budget(SEARCH_BUDGET, of="the search")
    with contextlib.closing(Ahead(lambda *how: sandbox.start(program, *how), budget)) as ahead:
        return search.search(lambda choices: run_check(check, ahead.run(), layout, seed, choices=choices), check.choose, budget)


def no_marks(lab, layout, student, why):
    """Returns the result of a lab of which no check was run."""
    checks = [{"name": check.name, "what": check.what, "marks": 0, "of": check.marks, "why": "not run", "seed": None} for check in lab.checks]
    return {"lab": lab.number, "name": lab.name, "student": student, "layout": f"{layout.number:016x}", "marks": 0, "of": lab.marks,
            "refused": why, "compiler": "", "checks": checks}


def mark_by_seeds(check, sandbox, program, layout, seeds, budget):
    """Returns what a check adds to its result: marks, or why they are lost, and with which seed."""
    for seed in seeds:
        why = run_check(check, starter(sandbox, program, budget.run()), layout, seed, start_tcp=sandbox.start_tcp)
        if why is not None:
            return {"why": why, "seed": seed}
    return {"marks": check.marks, "why": None}


def mark_by_search(check, sandbox, program, layout, seed):
    """Returns what a search adds to its result: also the choices, or how many lists were tried, and of how many."""
    found = run_search(check, sandbox, program, layout, seed)
    if found.why is not None:
        return {"why": found.why, "seed": seed, "choices": search.as_list(found.wanted)}
    why = None if found.tried == found.lists else (
        f"the search was cut short: of about {found.lists} lists of at most {search.MOST} faults, {found.tried} were tried, and the host was right "
        "with each; marks are for their share")
    return {"marks": check.marks * found.tried // found.lists, "why": why, "tried": found.tried, "lists": found.lists}


def mark(sandbox, lab, files, layout, key, student, only=None):
    """Returns the result of a lab, ready for JSON. files: {name: contents}; only: checks to run, by name."""
    result = no_marks(lab, layout, student, None)
    try:
        program, result["compiler"] = sandbox.compile(lab.name, files, lab.over_ip)
    except Refused as why:
        result["refused"] = str(why)
        program = None
    budget = Budget()
    for place, check in enumerate(lab.checks):
        if only is not None and check.name not in only:
            continue
        if budget.over:
            result["checks"][place]["why"] = f"not run: the host {budget.over}"
        elif program:
            seeds = [keys.seed(key, files, lab.name, student, check.name, index) for index in range(check.seeds)]
            found = result["checks"][place]
            found.update(mark_by_search(check, sandbox, program, layout, seeds[0]) if check.choose else
                         mark_by_seeds(check, sandbox, program, layout, seeds, budget))
            if found["seed"] is not None:
                choices = f" --choices '{found['choices']}'" if found.get("choices") else ""
                found["replay"] = (f"./run grade {lab.number} --student DIR --layout {layout.number:016x} --check {check.name} --seed {found['seed']}"
                                   f"{choices} --trace --journey {check.name}.html")
    result["checks"] = [found for found in result["checks"] if only is None or found["name"] in only]
    result["marks"] = sum(found["marks"] for found in result["checks"])
    if program:
        os.remove(program)
    return result


def take_files(lab, directory):
    return {name: take(directory, name) for name in (f"{lab.name}.c", f"{lab.name}.h")}


def grade(sandbox, lab, directory, key, student, layout, tests=None):
    """tests(directory, student, layout) returns the result of the student's tests, or None."""
    try:
        files = take_files(lab, directory)
    except Refused as why:
        result = no_marks(lab, layout, student, str(why))
    else:
        result = mark(sandbox, lab, files, layout, key, student)
        named = re.search("layout ([0-9a-f]{16})", str(files[f"{lab.name}.h"][:400]))
        if named and named[1] != result["layout"]:
            result["note"] = f"{lab.name}.h is of layout {named[1]}, and was marked with another: add --layout {named[1]}"
    if tests is not None:
        result["tests"] = tests(directory, student, layout)
        for name in ("marks", "of"):
            result[name] += result["tests"][name]
    return result


def tests_of(sandbox, build, lab, key, o):
    """Returns what marks the tests of students: a function for grade, or None."""
    if o.tests is None:
        return None
    try:
        if o.instructor is None:
            raise mutants.Missing("without an instructor's folder there is no answer in which to plant mistakes")
        of_lab = mutants.Mutants(sandbox, build, lab, o.instructor)
    except mutants.Missing as why:
        none = {"found": 0, "mistakes": 0, "marks": 0, "of": 0, "missed": [], "why": f"not marked: {why}"}
        return lambda *_: none
    return lambda directory, student, layout: mutants.result_of(of_lab, directory, key, student, layout, o.tests)


def about_tests(tests):
    return f"tests found {tests['found']} of {tests['mistakes']} planted mistakes"


def make_sure(sandbox):
    """Marks the answer to lab 0: if even that loses marks, so would every student, through no fault of theirs."""
    lab = LABS[0]
    result = grade(sandbox, lab, os.path.join(ROOT, "docs", "labs", lab.name), keys.PUBLIC, "grader", lab.layout(0))
    if result["marks"] != lab.marks:
        raise Unusable("the answer of lab 0 does not get its marks on this machine:\n" + as_text(result))


# ---- results ---------------------------------------------------------------------------------------------------------


def as_text(result):
    lines = [f"lab {result['lab']}, {result['name']}: {result['student']}, layout {result['layout']}", ""]
    if result["refused"]:
        lines += [result["refused"].rstrip(), ""]
    elif result["compiler"]:
        lines += ["The compiler says:", quoted(result["compiler"]), ""]
    if "note" in result:
        lines += [result["note"], ""]
    for found in result["checks"]:
        lines.append(f"{found['marks']:3} of {found['of']}  {found['name']:12} {found['what']}")
        if found["seed"] is None and found["why"] and not result["refused"]:
            lines.append(f"          {found['why']}")
        elif found["seed"] is not None:
            lines += [f"          {line}" for line in f"{found['why']}\nseed {found['seed']}: {found['replay']}".split("\n")]
    if "tests" in result:
        tests = result["tests"]
        lines.append(f"{tests['marks']:3} of {tests['of']}  {'tests':12} {about_tests(tests)}")
        lines += [f"          {line}" for line in (tests["why"] or "").rstrip().splitlines()]
    return "\n".join(lines + ["", f"{result['marks']:3} of {result['of']}", ""])


def as_gradescope(result):
    """The results.json of Gradescope's autograders."""
    lines = [{"name": f"{found['name']}: {found['what']}", "score": found["marks"], "max_score": found["of"],
              "output": "" if found["seed"] is None else f"{found['why']}\n{found['replay']}", "visibility": "visible"}
             for found in result["checks"]]
    if "tests" in result:
        tests = result["tests"]
        lines.append({"name": about_tests(tests), "score": tests["marks"], "max_score": tests["of"], "output": tests["why"] or "",
                      "visibility": "visible"})
    return {"score": result["marks"], "output": result["refused"] or quoted(result["compiler"]), "tests": lines}


@contextlib.contextmanager
def writing(path):
    if path == "-":
        yield sys.stdout
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            yield file


def write_json(path, value):
    with writing(path) as file:
        json.dump(value, file, indent=1)
        file.write("\n")


def write_csv(path, lab, results):
    """A row for each student: marks in all, then for each check, and what the student's tests found."""
    with writing(path) as file:
        rows = csv.writer(file)
        tested = any("tests" in result for result in results)
        rows.writerow(["student", "marks", "of", *(check.name for check in lab.checks), "refused",
                       *(("tests", "tests_found", "tests_of") if tested else ())])
        for result in results:
            marks = {found["name"]: found["marks"] for found in result["checks"]}
            rows.writerow([result["student"], result["marks"], result["of"], *(marks[check.name] for check in lab.checks),
                           "yes" if result["refused"] else "no",
                           *((result["tests"][name] for name in ("marks", "found", "mistakes")) if tested else ())])


# ---- one check again -------------------------------------------------------------------------------------------------


class Capture:
    """Writes frames as pcap with nanoseconds: each where the host sent it, or where it arrived."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))

    def frame(self, now, data):
        self.file.write(struct.pack("<IIII", now // 10**9, now % 10**9, len(data), len(data)) + data)


def describe(layout, event, data):
    """A line of --trace: the fields of a frame of the lab, or the bytes of anything else."""
    if event in ("booted", "crashed"):
        return ""
    is_message = event in ("pushed", "delivered")
    part = layout.part(data) if not is_message else None
    values = layout.unpack(part) if part is not None else None
    if values is None:
        return f"{len(data)} bytes {data[:32].hex()}" if is_message or len(data) < 14 else \
            f"{len(data)} bytes, type {data[12:14].hex()}, {data[14:46].hex()}"
    names = {field.name: {layout[name]: name.upper() for name in field.values} for field in layout.fields}
    fields = ", ".join(f"{field.name} {names[field.name].get(values[field.name], values[field.name])}" for field in layout.fields)
    payload = part[layout.size :]
    return f"[{fields}] and {len(payload)} bytes {payload[:16].hex()}"


def replay(sandbox, lab, directory, layout, o):
    """Runs one check with one seed, and shows what happens. Returns whether the mark is kept."""
    capture = Capture(o.pcap) if o.pcap else None
    events, processes = [], []
    out = sys.stderr if o.journey == "-" else sys.stdout
    words = [word for word in TOLD if getattr(o, word)]

    def told(now, event, data):
        if event == "timer":
            return
        if o.journey and event != "said":
            events.append((now, event, data))
        if capture is not None and event in ("sent", "arrived", "down"):
            capture.frame(now, data)
        if event == "said":
            print("".join(f"{'':4}{line.lstrip()}\n" for line in plain(data.decode(errors="replace")).splitlines()), end="", file=out)
        elif o.trace and event == "chosen":
            print(f"{now / 1e9:14.9f} {event:9} {data.decode()}", file=out)
        elif o.trace:
            print(f"{now / 1e9:14.9f} {event:9} {describe(layout, event, data)}".rstrip(), file=out)

    def start(*how):
        processes.append(starter(sandbox, program, budget, *words)(*how))
        return processes[-1]

    program, said = sandbox.compile(lab.name, take_files(lab, directory), lab.over_ip)
    if said:
        print(quoted(said), file=sys.stderr)
    budget = Budget().run()
    check = lab.check(o.check)
    choices = search.Choices(check.choose, o.choices)
    why = run_check(check, start, layout, o.seed, told, choices, sandbox.start_tcp)
    if not choices.is_made:
        why = "the run does not have all of --choices" + (f"; {why}" if why else "")
    if why is not None:
        why = choices.reason(why)
    if capture is not None:
        capture.file.close()
    if o.journey:
        with writing(o.journey) as file:
            journey.write(file, lab, layout, f"{lab.name}: {o.check}", o.seed, why, events, [process.journey for process in processes])
    for word in words:
        if not budget.has_room(TOLD[word], 0):
            print(f"grade: the {word} is too long and was cut off", file=sys.stderr)
    print(f"{o.check}: " + ("right" if why is None else why), file=out)
    return why is None


# ---- Linux as the peer -----------------------------------------------------------------------------------------------


def send_to_linux(sandbox, lab, directory, layout, key, student):
    """Lets the student's host send to the kernel of this machine, and says how that went. Returns whether it was right."""
    files = take_files(lab, directory)
    program, said = sandbox.compile(lab.name, files, lab.over_ip)
    if said:
        print(quoted(said), file=sys.stderr)
    world = World(starter(sandbox, program, Budget().run()), layout, keys.seed(key, files, lab.name, student, "linux", 0))
    try:
        right, line = linux.send(world, lab_stream)
    except (Wrong, Ended) as why:
        right, line = False, f"the host {why}" if isinstance(why, Ended) else str(why)
    finally:
        world.close()
    print(f"linux: {line}")
    return right


# ---- questions -------------------------------------------------------------------------------------------------------


def question(sandbox, lab, directory, layout, key, o):
    """Runs the student's host, and writes questions about that run, and their answers."""
    events, files = [], take_files(lab, directory)
    seed = keys.seed(key, files, "questions", lab.name, o.id)
    program, _ = sandbox.compile(lab.name, files, lab.over_ip)
    run_check(lab.check(lab.story), starter(sandbox, program, Budget().run()), layout, seed, lambda *event: events.append(event),
              start_tcp=sandbox.start_tcp)
    found = questions.ask(lab, layout, events, Draws(seed, "questions"))
    with writing(o.questions) as file:
        file.write(f"Lab {lab.number}, {lab.name}: questions for {o.id}\n\nAbout this run of your host. Frames are those of "
                   f"{lab.name}, in the order of the trace, from 1:\n\n    ./run grade {lab.number} --student DIR --layout "
                   f"{layout.number:016x} --check {lab.story} --seed {seed} --trace --journey {lab.story}.html\n\n")
        file.writelines(f"{number}. {text}\n" for number, (text, _) in enumerate(found, 1))
    write_json(o.answers, {"lab": lab.number, "student": o.id, "seed": seed,
                           "answers": [{"question": text, "answer": answer} for text, answer in found]})
    return 0 if found else 1


# ---- what a student is given -----------------------------------------------------------------------------------------


def hand_out(lab, layout, directory):
    """Writes a lab's files for a student, with the student's own header file."""
    source = os.path.join(ROOT, "docs", "labs", lab.name)
    os.makedirs(directory, exist_ok=True)
    for name in sorted(os.listdir(source)):
        with open(os.path.join(source, name), encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(directory, name), "x", encoding="utf-8") as file:
            file.write(layout.header() if name == f"{lab.name}.h" else text)


# ---- the command line ------------------------------------------------------------------------------------------------


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./run grade", usage="./run grade N --student DIR [OPTION]...",
                                     description="Marks a lab: docs/labs/README.md.", allow_abbrev=False)
    parser.add_argument("lab", type=int, nargs="?", choices=sorted(LABS), metavar="N", help="the lab's number")
    parser.add_argument("--student", metavar="DIR", help="the folder with the student's .c and .h")
    parser.add_argument("--class", dest="many", metavar="DIR", help="a folder with one folder for each student, named after the student")
    parser.add_argument("--id", default="student", metavar="STUDENT", help="the student's name, which determines layout and seeds")
    parser.add_argument("--instructor", metavar="DIR", help="the folder with the key: docs/labs/instructor.md")
    parser.add_argument("--layout", type=lambda text: int(text, 16), metavar="HEX", help="the layout of NAME.h, instead of that of --id")
    parser.add_argument("--tests", type=int, metavar="MARKS",
                        help="also mark the student's own test_NAME.c, by the planted mistakes in the instructor's answer that it finds")
    parser.add_argument("--json", metavar="FILE", help="the result as JSON; - is standard output")
    parser.add_argument("--gradescope", metavar="FILE", help="the result as Gradescope's results.json")
    parser.add_argument("--csv", metavar="FILE", help="with --class: a row for each student")
    parser.add_argument("--hand-out", metavar="DIR", help="write the lab's files for --id into DIR instead of marking")
    parser.add_argument("--questions", metavar="FILE", help="with --student: write questions about a run of the student's host")
    parser.add_argument("--answers", metavar="FILE", help="... and their answers")
    parser.add_argument("--check", metavar="NAME", help="run only this check, once, with --seed")
    parser.add_argument("--seed", type=int, metavar="S", help="the seed of --check")
    parser.add_argument("--choices", metavar="LIST", type=search.parse, default={},
                        help="with --check: what happens in the run other than usual, as `frame 3 lose, event 12 boot`")
    parser.add_argument("--trace", action="store_true", help="with --check: print the events")
    parser.add_argument("--pcap", metavar="FILE", help="with --check: write the frames as pcap")
    parser.add_argument("--journey", metavar="FILE", help="with --check: write the run as a page to step through: docs/journeys.md")
    parser.add_argument("--linux", action="store_true", help="with lab 5 and --student: send to the kernel of this machine, in real time, instead of marking")
    parser.add_argument("--selftest", action="store_true", help="test the grader itself; with --instructor, also its answers")
    o = parser.parse_args(arguments)
    if not o.selftest and (o.lab is None or [o.student, o.many, o.hand_out].count(None) != 2):
        parser.error("N, and one of --student, --class and --hand-out, say what to do")
    if (o.check is None) != (o.seed is None) or (o.check is not None and o.student is None):
        parser.error("--check, --seed and --student go together")
    if o.check is not None and LABS[o.lab].check(o.check) is None:
        parser.error(f"--check: lab {o.lab} has " + ", ".join(check.name for check in LABS[o.lab].checks))
    if o.choices and (o.check is None or not set(o.choices.values()) <= set(LABS[o.lab].check(o.check).choose)):
        parser.error("--choices: of a --check that searches, and of the kinds that it chooses")
    if o.check is None and (o.journey or o.trace or o.pcap):
        parser.error("--trace, --pcap and --journey are of --check")
    if (o.questions is None) != (o.answers is None) or (o.questions is not None and o.student is None):
        parser.error("--questions, --answers and --student go together")
    if o.linux and (o.lab != lab_stream.LAB.number or o.student is None or o.check or o.questions or o.tests is not None):
        parser.error("--linux: alone, with lab 5 and --student")
    if o.tests is not None and (o.tests < 0 or o.check or o.questions or o.hand_out or o.selftest):
        parser.error("--tests: marks, not below 0, for --student or --class")
    if not keys.is_id(o.id):
        parser.error("--id: a student's name is made of letters, digits and . _ @ -")
    return o


def layout_of(o, lab, key, student):
    if o.layout is not None:
        return lab.layout(o.layout)
    return lab.layout(keys.number(key, "layout", lab.name, student) if o.instructor else 0)


def mark_class(o, lab, one, layout, show):
    """Marks each folder of a class. Returns (results, whether all of the class was marked)."""
    names = sorted(name for name in os.listdir(o.many) if os.path.isdir(os.path.join(o.many, name)))
    students = [name for name in names if keys.is_id(name)]
    results, whole = [], True
    for name in sorted(set(names) - set(students)):
        print(f"grade: not marked: {plain(name)!r} is not a student's name, which has letters, digits and . _ @ -", file=sys.stderr)
    try:
        for name in students:
            try:
                results.append(one(os.path.join(o.many, name), name))
            except OSError as why:  # such as a full disk: no fault of the student's, and no reason to lose the others' marks
                results.append(no_marks(lab, layout(name), name, f"not marked: the grader has failed: {why}"))
                print(f"grade: {name} is not marked: {why}", file=sys.stderr)
                whole = False
            show(results[-1], f"{len(results)} of {len(students)}")
    except KeyboardInterrupt:
        print(f"grade: interrupted: the results are those of {len(results)} of {len(students)} students", file=sys.stderr)
        whole = False
    return results, whole


def run(build, o):
    lab = LABS[o.lab]
    key = keys.read(o.instructor) if o.instructor else keys.PUBLIC
    if o.hand_out:
        hand_out(lab, layout_of(o, lab, key, o.id), o.hand_out)
        return 0
    sandbox = Sandbox(build)
    try:
        if o.check:
            return 0 if replay(sandbox, lab, o.student, layout_of(o, lab, key, o.id), o) else 1
        if o.linux:
            return 0 if send_to_linux(sandbox, lab, o.student, layout_of(o, lab, key, o.id), key, o.id) else 1
        if o.questions:
            return question(sandbox, lab, o.student, layout_of(o, lab, key, o.id), key, o)
        make_sure(sandbox)
        tests = tests_of(sandbox, build, lab, key, o)

        def one(directory, student):
            return grade(sandbox, lab, directory, key, student, layout_of(o, lab, key, student), tests)

        def show(result, place=None):
            if "-" not in (o.json, o.gradescope, o.csv):
                print(as_text(result) + ("\n" if o.many else ""), end="", flush=True)
            elif place:
                print(f"grade: {place}: {result['student']}, {result['marks']} of {result['of']}", file=sys.stderr)

        if o.many:
            results, whole = mark_class(o, lab, one, lambda student: layout_of(o, lab, key, student), show)
        else:
            results, whole = [one(o.student, o.id)], True
            show(results[0])
    finally:
        sandbox.close()
    if o.json:
        write_json(o.json, results if o.many else results[0])
    if o.gradescope:
        write_json(o.gradescope, results if o.many else as_gradescope(results[0]))
    if o.csv:
        write_csv(o.csv, lab, results)
    return 0 if whole else 1


def main():
    build, o = sys.argv[1], parse(sys.argv[2:])
    if not build:
        return IN_ORDER
    if o.selftest:
        os.execv(sys.executable, [sys.executable, os.path.join(ROOT, "tests", "grade", "selftest.py"), build]
                 + ([os.path.abspath(o.instructor)] if o.instructor else []))
    try:
        return run(build, o)
    except Unusable as why:
        print(f"grade: nothing is marked: {why}", file=sys.stderr)
    except linux.Unavailable as why:
        print(f"grade: nothing is sent to Linux: {why}", file=sys.stderr)
    except (OSError, ValueError, Refused) as why:
        print(f"grade: {plain(str(why))}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
