#!/usr/bin/env python3
"""selftest.py BUILD [INSTRUCTOR] - checks that the grader gives the right marks and cannot be cheated or harmed.

Tests the answers and planted mistakes of docs/labs/instructor and, with INSTRUCTOR, also those of that folder (docs/labs/
instructor.md). With XK_TEST_LONG=0 in the environment, as in ./run test, only a random sample of them. Prints a line for each
check, `ok` or `FAIL`; exits 1 if one failed.

 - a model answer gets all marks, with the public layout and with those of several students;
 - each planted mistake loses exactly the marks that it must lose;
 - a search finds the shortest list of faults, tries all of them, and admits it if it has not;
 - the skeletons have the marks below;
 - each attack gets no marks and does no harm; nor does a host that answers at random or costs too much;
 - information about a run in the marks is useless for other files;
 - a student's tests get the marks of the mistakes that they find, and tests that cheat get none;
 - questions about a run have the right answers;
 - a stream reaches the Linux of this machine, if namespaces are allowed;
 - results, replays, their journeys and hand-outs are correct.
"""
import contextlib
import csv
import io
import json
import os
import random
import re
import resource
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import types

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "docs", "labs", "grader")]
sys.dont_write_bytecode = True
import checks
import grade
import journey
import keys
import lab_boot
import lab_fragment
import lab_sequence
import lab_stream
import lab_window
import labs
import linux
import mutants
import questions
import sandbox as sandboxes
import search
import seccomp
import world
from checks import expect

# Checks that a skeleton passes.
SKELETONS = {"sequence": {"delivers"}, "window": {"sends"}, "fragment": {"limits", "whole"}, "boot": set(), "stream": {"opens"}}
STUDENTS = ("alice", "bob")
LIARS = 20  # for each check
LIARS_OVER_TCP = 2  # for checks that need long runs
SUBMISSIONS = 10  # one after the other
MEMORY_MAX = 512  # MiB of the grader at most
ALL = os.environ.get("XK_TEST_LONG") != "0"
FEW = 1  # mistake of each lab, in ./run test
# Mistakes that tests of lab 0 must find: only a few, because each takes time.
FOR_TESTS = ("padding not cut off", "mark not checked", "no upper bound")
SILENT = "did not answer in time"
# Patterns in the reasons for the marks of attacks.
WHYS = {"slow.c": "ended with status 3", "prints_marks.c": "ended with status 0", "loops.c": SILENT, "dribbles.c": SILENT,
        "lies_at_length.c": "sent a record that labhost.c does not send", "tells_without_end.c": "sent a record that labhost.c does not send",
        "asks_for_links.c": "used up its budget for a run: 32 MiB of answers",
        "includes_itself.c": "the compiler did not finish within 4 seconds|does not compile"}
# A change that makes the answer of lab 0 do nothing, so that attacks get no marks for it.
USELESS = (("return xk_push(session->lls, m);", "xk_msg_free(m);\n\treturn 0;"), ("xk_pop(s, lls, m, NULL);", "xk_msg_free(m);"))


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def write(text, *path):
    with open(os.path.join(*path), "w", encoding="utf-8") as file:
        file.write(text)


def changed(text, changes):
    for old, new in changes:
        assert text.count(old) >= 1, old
        text = text.replace(old, new)
    return text


def files_of(lab, layout, text):
    return {f"{lab.name}.c": text.encode(), f"{lab.name}.h": layout.header().encode()}


def lost(result):
    return {found["name"] for found in result["checks"] if found["marks"] != found["of"]}


def reasons(result):
    return "\n".join(f"{found['name']}: {found['why']}" for found in result["checks"] if found["why"]) + str(result["refused"] or "")


def layout_of(lab, key, student):
    return lab.layout(keys.number(key, "layout", lab.name, student))


# ---- answers and mistakes --------------------------------------------------------------------------------------------


def drawn(found, count):
    """Returns all, or `count` of them in ./run test."""
    return found if ALL or len(found) <= count else random.sample(found, count)


def check_answers(sandbox, instructor):
    """Checks every lab whose answer is in the folder."""
    key = keys.read(instructor)
    for lab in grade.LABS.values():
        path = os.path.join(instructor, "answers", f"{lab.name}.c")
        if not os.path.exists(path):
            continue
        answer = read(path)
        for student in drawn([None, *STUDENTS], 1):
            layout = lab.layout(0) if student is None else layout_of(lab, key, student)
            result = grade.mark(sandbox, lab, files_of(lab, layout, answer), layout, key, student or "public")
            expect(result["marks"] == lab.marks, f"{lab.name}: the answer has all marks: {student or 'public layout'}", reasons(result))
            expect(not result["compiler"], f"{lab.name}: the answer compiles without a warning", result["compiler"])
        for wrong in json.loads(mutants.read_part(instructor, "wrong", f"{lab.name}.json")):
            layout = layout_of(lab, key, STUDENTS[0])
            text = changed(answer, [(wrong["old"], wrong["new"])])
            result = grade.mark(sandbox, lab, files_of(lab, layout, text), layout, key, STUDENTS[0])
            always, sometimes = set(wrong["loses"]), set(wrong.get("sometimes", ()))
            expect(always <= lost(result) <= always | sometimes, f"{lab.name}: {wrong['name']} loses {' '.join(sorted(always))}",
                   f"lost {sorted(lost(result))}\n{reasons(result)}")
        other = files_of(lab, layout_of(lab, key, STUDENTS[1]), answer)
        result = grade.mark(sandbox, lab, other, layout_of(lab, key, STUDENTS[0]), key, STUDENTS[0])
        expect(result["marks"] < lab.marks // 2, f"{lab.name}: another student's header loses marks", str(result["marks"]))


def check_skeletons(sandbox, work):
    for lab in grade.LABS.values():
        folder = os.path.join(work, f"given-{lab.name}")
        grade.hand_out(lab, lab.layout(0), folder)
        given = {name: read(folder, name) for name in os.listdir(folder)}
        kept = {path: read(at, path) for at, _, paths in os.walk(mutants.TREE) for path in paths if not os.path.islink(os.path.join(at, path))}
        expect(sorted(given) == sorted(os.listdir(os.path.join(ROOT, "docs", "labs", lab.name))) and not set(given.values()) & set(kept.values()),
               f"{lab.name}: hand-out gives the lab's files and none of the instructor's", str(sorted(given)))
        source = os.path.join(ROOT, "docs", "labs", lab.name)
        header = read(source, f"{lab.name}.h")
        expect(header == lab.layout(0).header(), f"{lab.name}: the public header has the public layout", "run grade --hand-out")
        if lab.name not in SKELETONS:
            continue
        layout = lab.layout(0)
        result = grade.mark(sandbox, lab, files_of(lab, layout, read(source, f"{lab.name}.c")), layout, keys.PUBLIC, "public")
        has = {found["name"] for found in result["checks"]} - lost(result)
        expect(has == SKELETONS[lab.name], f"{lab.name}: the skeleton has the right marks", f"{sorted(has)}\n{reasons(result)}")
        expect(not result["compiler"], f"{lab.name}: the skeleton compiles without a warning", result["compiler"])


# ---- searches --------------------------------------------------------------------------------------------------------


# Mistakes, and the shortest lists with which the public layout's checks find them.
SHORTEST = {
    "window": {"nothing is sent again": "frame 4 lose", "the last message is sent again only once": "frame 6 lose, frame 12 lose"},
    "boot": {"old DATA is delivered again": "frame 5 double", "a message in flight is sent again to a newer peer": "frame 4 lose, event 5 boot"},
}


# A host that looks for a trace of an earlier one, and leaves some itself.
REMEMBERS = '''#include <fcntl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <unistd.h>
__attribute__((constructor)) static void remember(void)
{
	static const char *const paths[] = { "/tmp/seen", "/dev/shm/seen", "/seen", "/dev/seen" };
	int id = shmget(7, 4096, IPC_CREAT | 0600), *count = id < 0 ? (int *)-1 : shmat(id, NULL, 0);
	if (count != (int *)-1 && (*count)++ > 0)
		_exit(3);
	for (unsigned i = 0; i < 4; i++)
		if (open(paths[i], O_RDONLY) >= 0)
			_exit(4);
		else
			close(open(paths[i], O_WRONLY | O_CREAT, 0600));
	if (getpriority(PRIO_PROCESS, 0) > BASE)
		_exit(5);
	setpriority(PRIO_PROCESS, 0, 19);
	setpriority(PRIO_USER, 0, 19);
}
'''


def model(frames, breaks, tried):
    """Returns a run of so many frames, which has one more for each that is lost. The promise is broken if the list has all of `breaks`."""
    def run_(choices):
        left, now = frames, 0
        while left > 0:
            left, now = left - 1, now + 1
            left += choices.make("frame", now, "host", lambda: "DATA") == "lose"
        tried.append(choices.wanted)
        return "broken" if breaks and breaks.items() <= choices.wanted.items() else None
    return run_


def check_search():
    """Checks the order and the completeness of a search with a model of a run."""
    kinds, budget, tried = ("lose", "double"), sandboxes.Budget(sandboxes.SEARCH_BUDGET), []
    found = search.search(model(3, {}, tried), kinds, budget)
    # Without a list; one choice of 3 frames; after a loss of frame n, 4 - n frames have choices, after a double 3 - n.
    wanted = 1 + 2 * 3 + sum(2 * (4 - n) + 2 * (3 - n) for n in (1, 2, 3))
    expect(found == (None, None, wanted, wanted) and len(tried) == wanted == len({str(sorted(one.items())) for one in tried}),
           "a search tries each list once", f"{found} {len(tried)}")
    lengths = [(len(one), max(number for _, number in one) if one else 0) for one in tried]
    expect(lengths == sorted(lengths), "shorter lists come first, and of those the ones that end earlier", str(lengths))
    both = {("frame", 2): "lose", ("frame", 4): "double"}
    found = search.search(model(3, both, []), kinds, budget)
    expect(found.wanted == both and found.why.endswith("; broken") and found.lists is None, "a search finds two faults", str(found))
    expect(search.parse(search.as_list(both)) == both == search.parse(" frame 2  lose,frame 4 double "), "a list can be read again")
    usual, search.RUNS_MAX = search.RUNS_MAX, 20
    tried.clear()
    found = search.search(model(5000, {}, tried), kinds, budget)
    expect(found.why is None and found.tried == 20 == len(tried) - 1 and found.lists > 10000000, "a search of too many lists ends, and knows their number",
           str(found))
    search.RUNS_MAX = usual

    started, closed = [], []
    host = lambda *how: started.append(how[1:]) or types.SimpleNamespace(close=lambda: closed.append(how[1:]))
    ahead = sandboxes.Ahead(host, budget)
    budgets = set()
    for run_ in (ahead.run(), ahead.run()):
        budgets.add(run_(7, 1).budget)
        run_(8, 2)
    expect(started == [(7, 1)] * (sandboxes.AHEAD + 1) + [(8, 2), (7, 1), (8, 2)], "only the first hosts of runs are started before them", str(started))
    expect(len(budgets) == 2 and all(one.whole is budget for one in budgets), "each run of a search has its own budget, a part of the search's")
    ahead.close()
    expect(closed == [(7, 1)] * sandboxes.AHEAD, "hosts that no run has needed are ended", str(closed))


def check_searches(sandbox, build, instructor, work):
    """Checks what searches find in real hosts, and that their replays show it."""
    for name, shortest in SHORTEST.items():
        lab = next(lab for lab in grade.LABS.values() if lab.name == name)
        layout, answer = lab.layout(0), read(instructor, "answers", f"{name}.c")
        planted = {mistake["name"]: mistake for mistake in json.loads(read(mutants.TREE, "wrong", f"{name}.json"))}
        for mistake, list_ in shortest.items():
            folder = os.path.join(work, f"search-{name}-{len(list_)}")
            os.makedirs(folder, exist_ok=True)
            write(changed(answer, [(planted[mistake]["old"], planted[mistake]["new"])]), folder, f"{name}.c")
            write(layout.header(), folder, f"{name}.h")
            result = grade.mark(sandbox, lab, grade.take_files(lab, folder), layout, keys.PUBLIC, "public", ("faults",))["checks"][0]
            expect(result["choices"] == list_ and result["marks"] == 0, f"{name}: a search finds {mistake} with: {list_}", str(result))
            expect(f"--choices '{list_}'" in result["replay"] and result["why"].count("; ") == list_.count(",") + 1, "the reason tells the story", str(result))
        command = [word.replace("DIR", folder).replace("faults.html", "-") for word in shlex.split(result["replay"])[2:]]
        status, page, trace = run(build, *command, "--pcap", os.path.join(work, "faults.pcap"))
        told = [line.split(None, 2)[2] for line in trace.splitlines() if " chosen " in line]
        says = [step["text"] for step in data_of(page)["steps"] if step["k"] == "say" and step["h"] > 0]
        expect(status == 1 and trace.rstrip().endswith(f"faults: {result['why']}") and f"The check says: {result['why']}".replace("'", "&#x27;") in page
               and result["why"].startswith("; ".join(told)) and says == told != [], f"{name}: the replay shows the same run", trace[-2000:] + str(says))
        expect(os.path.getsize(os.path.join(work, "faults.pcap")) > 100, "the replay writes a capture")
        for one in result["choices"].split(", "):
            others = ", ".join(other for other in result["choices"].split(", ") if other != one)
            fewer = command[: command.index("--choices")] + (["--choices", others] if others else [])
            status, output, _ = run(build, *fewer)
            expect(status == 0 and output == "faults: right\n", f"{name}: without `{one}` the host is right", output)
        status, output, _ = run(build, *fewer, "--choices", "frame 99 lose")
        expect(status == 1 and "the run does not have all of --choices" in output, "a replay needs all of its list", output)

    lab, layout = grade.LABS[4], grade.LABS[4].layout(0)
    remembers = REMEMBERS.replace("BASE", str(os.getpriority(os.PRIO_PROCESS, 0))) + read(instructor, "answers", "boot.c")
    usual, search.RUNS_MAX = search.RUNS_MAX, 60
    result = grade.mark(sandbox, lab, files_of(lab, layout, remembers), layout, keys.PUBLIC, "public", ("faults",))["checks"][0]
    search.RUNS_MAX = usual
    expect("tried" in result, "a host finds no trace of an earlier run or boot", str(result))
    lab, layout = grade.LABS[2], grade.LABS[2].layout(0)
    files = files_of(lab, layout, read(instructor, "answers", "window.c"))
    for where, limit, of in ((search, {"RUNS_MAX": 60}, 2), (search, {"SECONDS_MAX": 0}, 2), (sandboxes.SEARCH_BUDGET, {sandboxes.STEPS: 100}, 2)):
        usual = dict(where) if isinstance(where, dict) else {name: getattr(where, name) for name in limit}
        set_ = where.update if isinstance(where, dict) else where.__dict__.update
        set_(limit)
        result = grade.mark(sandbox, lab, files, layout, keys.PUBLIC, "public", ("faults",))["checks"][0]
        set_(usual)
        expect("the search was cut short" in result["why"] and result["tried"] < result["lists"] and result["seed"] is None
               and result["marks"] == result["of"] * result["tried"] // result["lists"] < result["of"],
               f"a search cut short by {limit} says so, and gives a part of the marks", str(result))


# ---- students' tests --------------------------------------------------------------------------------------------------


def check_tests(sandbox, build, instructor):
    """Checks every lab with tests in the instructor's folder: they must find the mistakes that the tests handed out miss."""
    key = keys.read(instructor)
    paths = {lab: os.path.join(instructor, "answers", f"test_{lab.name}.c") for lab in grade.LABS.values()}
    for lab, path in drawn([(lab, path) for lab, path in paths.items() if os.path.exists(path)], 1):
        of_lab = mutants.Mutants(sandbox, build, lab, instructor)
        expect(True, f"{lab.name}: the tests handed out leave {len(of_lab.beyond)} mistakes to find: "
               + ", ".join(mistake["name"] for mistake in of_lab.beyond))
        found, why = of_lab.mark(read(path).encode(), layout_of(lab, key, STUDENTS[0]), of_lab.beyond)
        missed = [mistake["name"] for mistake in of_lab.beyond if mistake not in found]
        expect(not missed and why is None, f"{lab.name}: the instructor's tests find all of them", f"{why or ''} {missed}")


# Tests that cheat: code to run before main, and whether they pass with the answer.
TESTS_THAT_CHEAT = {
    "pass always": ("_exit(0);", True),
    "fail always": ("_exit(1);", False),
    "crash": ("__builtin_trap();", False),
    "never end": ("for (volatile int n = 0;; n++) continue;", False),
    "fail at random, mostly": ("unsigned char n; if (getentropy(&n, 1) != 0 || n != 0) _exit(1);", False),
    "kill every visible process": ("kill(-1, SIGKILL); kill(getppid(), SIGKILL);", True),
    "look for the files they are linked with": (
        'const char *const paths[] = { "/student", "/xk", "/tmp", "/libxkernel.a", INSTRUCTOR };\n'
        "for (unsigned i = 0; i < 5; i++) if (open(paths[i], O_RDONLY) >= 0) _exit(1);\n"
        'if (getenv("HOME") != NULL || strcmp(program_invocation_name, "/test") != 0) _exit(1);', True),
    "read the name given by the grader": (
        'char s[4096] = ""; ssize_t n = read(open("/proc/1/cmdline", O_RDONLY), s, sizeof(s) - 1);\n'
        'for (ssize_t i = 0; i < n; i++) s[i] += s[i] == 0;\n'
        'char *at = strstr(s, "/xk-grade-"); at = at == NULL ? NULL : strchr(at + 1, \'/\');\n'
        'if (at == NULL || strspn(at + 1, "0123456789abcdef") != 16) _exit(1);', True),  # a random name, no number
    "write to every descriptor": ('char s[9]; for (int fd = 1; fd < 64; fd++) dprintf(fd, "HARM: 8 of 8\\n  Test: HARM ...FAILED\\n");\n'
                       "_exit(1);", False),
}


def check_tests_cheat(sandbox, build, instructor):
    lab, layout = grade.LABS[0], grade.LABS[0].layout(7)
    of_lab = mutants.Mutants(sandbox, build, lab, instructor)
    given = read(ROOT, "docs", "labs", "mark", "test_mark.c")
    expect(len(of_lab.mistakes) == len(FOR_TESTS), "if the tests handed out find all mistakes, all are used", str(of_lab.mistakes))
    chosen = {student: [mistake["name"] for mistake in of_lab.choose(keys.PUBLIC, student)] for student in ("a", "b", "c", "d", "e")}
    expect(len({tuple(names) for names in chosen.values()}) > 1 and of_lab.choose(keys.PUBLIC, "a") == of_lab.choose(keys.PUBLIC, "a"),
           "students have their own mutants", str(chosen))
    codes = {of_lab._variant(None, layout, mutants.disguise(random.Random(seed))) for seed in range(3)}
    expect(len(codes) == 3, "the same variant has different code each time")
    mutants.ANSWERS, mutants.MUTANT_RUNS, sandboxes.TEST_S = 1, 1, 2
    head = '#define _GNU_SOURCE\n#include <errno.h>\n#include <fcntl.h>\n#include <signal.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n'
    head += f'#include "tests/rig.h"\n#define INSTRUCTOR "{instructor}"\n'
    for name, (does, passes) in TESTS_THAT_CHEAT.items():
        text = f"{head}TEST(nothing)\n{{\n}}\n__attribute__((constructor)) static void cheat(void)\n{{\n{does}\n}}\n"
        found, why = of_lab.mark(text.encode(), layout, of_lab.mistakes[:passes])
        expect(not found and (why is None) == passes and "HARM" not in str(why), f"tests that {name} find nothing", f"{found} {why}")
    for name, text in (("include the answer", '#include "mark.c"\n'), ("assemble it", '__asm__(".incbin \\"/student/mark.c\\"");\n'),
                       ("bring a protocol of this name", "const int xk_type_mark = 1;\n")):
        found, why = of_lab.mark((given + text).encode(), layout, [])
        expect(not found and why and "compile" in why and "MARK_BAD" not in why, f"tests that {name} are refused", f"{found} {why}")
    wrong = changed(given, [("rig_expect_nothing_delivered(r);", "rig_expect_delivered(r, \"00\");")])
    found, why = of_lab.mark(wrong.encode(), layout, [])
    expect(not found and why.endswith("right answer: wrong_marks_and_lengths_are_dropped"), "tests that fail with the answer find nothing", str(why))


# ---- attacks ---------------------------------------------------------------------------------------------------------


def processes_of(user):
    """Returns the processes of the sandbox's user, if it has its own."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:
                found.append(name)
        except OSError:
            pass
    return found


def check_attacks(sandbox, instructor, work):
    lab = grade.LABS[0]
    layout = lab.layout(0)
    useless = changed(read(instructor, "answers", "mark.c"), USELESS)
    names = {"WORK": work, "INSTRUCTOR": instructor, "ROOT": ROOT}
    head = "".join(f'#define {name} "{value}"\n' for name, value in names.items())
    head += "#define ATTACK __attribute__((constructor)) static void attack(void)\n"
    before = set(os.listdir(work))

    def files(name):
        attack = read(HERE, "attacks", name)
        for word, value in names.items():
            attack = attack.replace(f'{word} "/', f'"{value}/')
        return files_of(lab, layout, head + attack + useless)

    def attacked(name, only=("receives",)):
        """Marks an attack. Waits a shorter time for silent ones; others may be slow on a busy machine."""
        sandboxes.SILENCE_S = 2 if WHYS.get(name) == SILENT else 10
        sandboxes.COMPILE_S = 2 if name == "includes_itself.c" else 30
        return grade.mark(sandbox, lab, files(name), layout, keys.PUBLIC, "attacker", only)

    for name in sorted(os.listdir(os.path.join(HERE, "attacks"))):
        if name == "calls_kernel.c" and sandbox.filter is None:
            continue
        result = attacked(name)
        words = json.dumps(result)
        expect(result["marks"] == 0, f"attack {name}: no marks", words)
        expect("HARM" not in words, f"attack {name}: no harm", words)
        expect("\033" not in words and "\\u001b" not in words, f"attack {name}: no terminal escapes", words)
        text = grade.as_text(result)
        expect(len(re.findall("^ *[0-9]+ of [0-9]+", text, re.MULTILINE)) == 2, f"attack {name}: no lines that look like the grader's", text)
        if name in WHYS:
            expect(re.search(WHYS[name], words), f"attack {name}: the reason is `{WHYS[name]}`", words)
    for limits, limit, name, why in (
            (sandboxes.LAB_BUDGET, {sandboxes.WAITING: 1}, "slow.c", "used up its budget for all checks: 1 seconds of waiting"),
            (sandboxes.LAB_BUDGET, {sandboxes.STEPS: 5}, "answers_without_end.c", "used up its budget for all checks: 5 steps"),
            (sandboxes.RUN_BUDGET, {sandboxes.ANSWERS: 8}, "answers_without_end.c", "used up its budget for a run: 8 MiB of answers")):
        usual = dict(limits)
        limits.update(limit)
        result = attacked(name, None)
        limits.update(usual)
        run_ = [found for found in result["checks"] if found["seed"] is not None]
        expect(result["marks"] == 0 and why in reasons(result), f"attack {name}: the marks name the budget: {why}", reasons(result))
        expect(limits is sandboxes.RUN_BUDGET or (len(run_) <= 2 and f"not run: the host {why}" in reasons(result)),
               f"attack {name}: the other checks are not run", reasons(result))
    folder = os.path.join(work, "tells")
    os.mkdir(folder)
    for name, text in files("tells_without_end.c").items():
        write(text.decode(), folder, name)
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        command = grade.parse(["0", "--student", folder, "--check", "receives", "--seed", "1", "--trace", "--journey", os.path.join(folder, "page")])
        kept = grade.replay(sandbox, lab, folder, layout, command)
    sizes = len(out.getvalue()), os.path.getsize(os.path.join(folder, "page"))
    expect(not kept and max(sizes) < 1 << 26, "an endless trace and journey are cut off", str(sizes))
    shutil.rmtree(folder)
    filter_, sandbox.filter = sandbox.filter, struct.pack("<HBBI", seccomp.RETURN, 0, 0, seccomp.ALLOW)
    harm = json.dumps(attacked("calls_kernel.c"))
    expect(all(call in harm for call in ("HARM: unshare", "HARM: ptrace", "HARM: add_key", "HARM: socket")),
           "without the filter of system calls there would be harm", harm)
    expect("HARM" not in json.dumps(attacked("opens_network.c")), "... but still no network")
    sandbox.filter = filter_
    expect(set(os.listdir(work)) == before, "attacks have left no file", str(set(os.listdir(work)) - before))
    if sandbox.user is not None:
        until = time.monotonic() + 60
        while processes_of(sandbox.user) and time.monotonic() < until:
            time.sleep(0.1)
        expect(not processes_of(sandbox.user), "attacks have left no process", str(processes_of(sandbox.user)))
    result = grade.mark(sandbox, lab, files_of(lab, layout, useless), layout, keys.PUBLIC, "attacker")
    expect(result["marks"] == 0 and result["refused"] is None, "without an attack, the host that attacks use runs and has no marks", reasons(result))
    talk = head + '#include <stdio.h>\n#include <stdlib.h>\nATTACK { fprintf(stderr, "HARM\\n"); exit(1); }\n' + useless
    result = grade.mark(sandbox, lab, files_of(lab, layout, talk), layout, keys.PUBLIC, "attacker")
    expect("HARM" in json.dumps(result), "harm would have been reported", reasons(result))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    expect(peak < MEMORY_MAX, f"attacks have left the grader below {MEMORY_MAX} MiB", f"{peak} MiB")


class Marker:
    """Returns a host of lab 0 that receives correctly and records its answers."""

    def __init__(self, layout, answers):
        self.layout, self.answers = layout, answers

    def step(self, now, items):
        records = [(b"r", bytes(4)) for kind, _ in items if kind in (b"O", b"S")]
        for frame in (data for kind, data in items if kind == b"F"):
            values = self.layout.unpack(frame[14:])
            if values and values["mark"] == self.layout["is"] and self.layout.size <= values["length"] <= len(frame) - 14:
                records.append((b"d", bytes(3) + frame[11:12] + frame[14 + self.layout.size : 14 + values["length"]]))
        self.answers.append(records)
        return records, world.NEVER

    def close(self):
        pass


class Parrot(Marker):
    """Returns a host that ignores frames and repeats recorded answers."""

    def step(self, now, items):
        return self.answers.pop(0) if self.answers else [], world.NEVER


def check_resubmission(work):
    """Checks that knowing all runs named by earlier marks does not help with other files."""
    lab, key = grade.LABS[0], b"a key for tests, which is no secret"
    layout = layout_of(lab, key, "eve")

    def compile_(name, files, over_ip):
        program = os.path.join(work, "program")
        write("", program)
        return program, ""

    def learn(known, found):
        """Adds a correct host's answers in the run of a lost mark to `known`, under the random seed that this run gives the host."""
        answers, chances = [], []

        def start(chance, boots):
            chances.append(chance)
            return Marker(layout, answers)
        grade.run_check(lab.check(found["name"]), start, layout, found["seed"])
        known[chances[0]] = answers

    def marks_of(text_of):
        known, marks = {}, []
        parrots = types.SimpleNamespace(compile=compile_, start_tcp=None, start=lambda _, budget, chance, boots: Parrot(layout, list(known.get(chance, ()))))
        for _ in range(SUBMISSIONS):
            result = grade.mark(parrots, lab, files_of(lab, layout, text_of(known)), layout, key, "eve")
            marks.append(result["marks"])
            for found in result["checks"]:
                if found["seed"] is not None:
                    learn(known, found)
        return marks

    marks = marks_of(lambda known: json.dumps(sorted(known)))
    expect(not any(marks), f"an answer that ignores frames gains nothing from the marks of {SUBMISSIONS} submissions", str(marks))
    marks = marks_of(lambda known: "")
    expect(marks[-1] > 0, "... as it would if seeds did not change", str(marks))
    draws, chance = world.Draws(1, "world"), world.World(None, layout, 1).chance.getrandbits(63)
    expect(chance not in [draws.getrandbits(63) for _ in range(1000)], "a host's random seed reveals nothing about its run")


class Liar:
    """Returns a host that answers at random, mostly with frames that look like the lab's."""

    def __init__(self, layout, seed):
        self.layout, self.random = layout, random.Random(seed)
        self.odd, self.often = self.random.random() ** 3, self.random.random()

    def step(self, now, items):
        chance, records = self.random.random, [(b"r", bytes(4)) for kind, _ in items if kind in (b"O", b"S")]
        for _ in range(int(chance() * 4 * self.often)):
            numbers = {"length": self.layout.size, **{field.name: int(chance() * 6) for field in self.layout.fields
                                                      if chance() < 0.9 and field.name not in ("length", "checksum")}}
            if "kind" in self.layout.at and chance() < 0.9:
                numbers["kind"] = self.layout[self.random.choice(self.layout.by_name["kind"].values)]
            payload = self.random.randbytes(int(chance() * 30))
            numbers["length"] += len(payload) if chance() < 0.9 else int(chance() * 100)
            if "length" not in self.layout.at:
                del numbers["length"]
            frame = self.layout.pack(**numbers) + payload
            if "checksum" in self.layout.at and chance() < 0.9:
                frame = self.layout.pack(checksum=labs.checksum(frame), **numbers) + payload
            to = world.link(self.random.choice((1, 3, 7, 9)) if chance() < 0.9 else int(chance() * 256))
            if self.layout.ethertype == lab_stream.IP:
                frame = self._packet(frame)
            kind = self.layout.ethertype if chance() < 0.9 else self.random.choice((0x0806, 0x0800))
            frame = to + world.link(2) + kind.to_bytes(2, "big") + frame
            records.append((b"f", frame if chance() < 0.95 else frame[: int(chance() * len(frame))]))
            if chance() < self.odd:
                records.append((self.random.choice((b"d", b"e", b"r")), self.random.randbytes(int(chance() * 12))))
        return records, self.random.choice((world.NEVER, 0, now, now + world.MS, int(chance() * 2**64)))

    def _packet(self, segment):
        """A segment that may be one of the stream, in a packet."""
        flags = self.random.choice((lab_stream.ACK, lab_stream.ACK, lab_stream.SYN, lab_stream.ACK | lab_stream.FIN, int(self.random.random() * 256)))
        sequence = self.layout["first"] + int(self.random.random() ** 4 * 3000)
        segment = segment[:4] + struct.pack(">I", sequence % lab_stream.WORD) + segment[8:12] + bytes((5 << 4, flags)) + segment[14:16] + b"\0\0" + segment[18:]
        return lab_stream.packet(world.HOST, world.PEER, segment)

    def close(self):
        pass


def why_of(lab, check, seed, start_tcp):
    """Returns why a host that answers at random loses the mark."""
    layout = lab.layout(seed)
    liars = types.SimpleNamespace(start=lambda *how: Liar(layout, seed))
    if check.choose:
        return grade.run_search(check, liars, None, layout, seed).why
    return grade.run_check(check, liars.start, layout, seed, start_tcp=start_tcp)


def check_lies(sandbox):
    """Checks that each check reaches a verdict, without marks, whatever a host answers."""
    for lab in grade.LABS.values():
        for check in lab.checks:
            count = LIARS_OVER_TCP if check.name in ("whole", "speed", "flood", "fair") and lab.over_ip else LIARS
            whys = {str(why_of(lab, check, seed, sandbox.start_tcp)) for seed in range(count)}
            expect(not [why for why in whys if why == "None" or grade.CANNOT_JUDGE in why],
                   f"{lab.name}: {check.name}: a host that answers at random gets a verdict", "\n".join(sorted(whys)[:5]))
        for seed in range(LIARS):
            layout, events = lab.layout(seed), []
            grade.run_check(lab.check(lab.story), lambda *how, seed=seed: Liar(lab.layout(seed), seed), layout, seed,
                            lambda *event, events=events: events.append(event))
            questions.ask(lab, layout, events, random.Random(seed))


def check_files(sandbox, instructor, work):
    """Checks unusual files in a student's folder, beside its two files or in their place."""
    lab, layout = grade.LABS[0], grade.LABS[0].layout(0)
    places = {"link": lambda path: os.symlink(os.path.join(instructor, "key"), path), "directory": os.mkdir, "fifo": os.mkfifo,
              "nothing": lambda path: None, "huge": lambda path: write("/" * 300000, path)}
    for name, make in places.items():
        directory = os.path.join(work, name)
        os.mkdir(directory)
        make(os.path.join(directory, "mark.c"))
        write(layout.header(), directory, "mark.h")
        result = grade.grade(sandbox, lab, directory, keys.PUBLIC, "student", layout)
        expect(result["refused"] and result["marks"] == 0 and len(result["checks"]) == len(lab.checks), f"{name} in the place of mark.c is refused",
               str(result))
    directory = os.path.join(work, "beside")
    shutil.copytree(os.path.join(ROOT, "docs", "labs", "mark"), directory)
    write("#error from a file that is not the lab's\n", directory, "bytes.h")
    write(read(directory, "mark.c").replace('#include "xkernel/bytes.h"', '#include "bytes.h"'), directory, "mark.c")
    result = grade.grade(sandbox, lab, directory, keys.PUBLIC, "student", layout)
    expect(result["refused"] and "not the lab's" not in result["refused"], "other files in a student's folder are ignored", str(result))


# ---- questions -------------------------------------------------------------------------------------------------------


def arrives(*frames):
    return [("arrived", world.link(2) + world.link(1) + b"\x88\xb5" + frame) for frame in frames]


def sends(*frames):
    return [("sent", world.link(1) + world.link(2) + b"\x88\xb5" + frame) for frame in frames]


def delivers(*messages):
    return [("delivered", message) for message in messages]


BOOTED, CRASHED, PUSHED, TIMER = [("booted", b"")], [("crashed", b"")], [("pushed", b"x")], [("timer", b"")]


def stories():
    """Yields (lab, layout, events, [(part of a question, its answer)])."""
    for number in (0, 5):
        w = types.SimpleNamespace(layout=lab_window.layout(number))
        first = lab_window.first(w)
        data, ack = lambda n: lab_window.data(w, first + n, b"message %d" % n), lambda n: lab_window.ack(w, first + n)
        yield lab_window.LAB, w.layout, (
            BOOTED + PUSHED + sends(data(0)) + TIMER + sends(data(0)) + arrives(ack(1)) + PUSHED * 2 + sends(data(1))
            + arrives(ack(2)) + sends(data(2)) + arrives(data(1)) + sends(ack(0)) + arrives(data(0)) + delivers(b"message 0", b"message 1")
            + sends(ack(2)) + arrives(data(0)) + sends(ack(2))
        ), [("host send frame 2 of", "a"), ("host send frame 3 of", "c"), ("host send frame 4 of", "b"), ("host send frame 5 of", "e"), ("host send frame 6 of", "d"),
            ("host send frame 7 of", "f"), ("Frame 3 that arrives brings", 4)]
        w = types.SimpleNamespace(layout=lab_sequence.layout(number))
        first = lab_sequence.first(w)
        come = [arrives(lab_sequence.frame(w, "data", first + n, b"%d" % n)) for n in (0, 2, 1, 2)]
        yield lab_sequence.LAB, w.layout, (
            BOOTED + come[0] + delivers(b"0") + come[1] + delivers(b"2") + come[2] + delivers(b"1") + come[3]
        ), [("Frame 4 that arrives brings", 2), ("Frame 3 that arrives is late", 1), ("right after frame 2", 1)]
        w = types.SimpleNamespace(layout=lab_fragment.layout(number))
        size = 4 * w.layout["unit"]
        other, message = bytes(2 * size), bytes(3 * size - 1)
        parts = arrives(*lab_fragment.fragments(w, 7, message, size))
        yield lab_fragment.LAB, w.layout, (
            BOOTED + arrives(lab_fragment.fragments(w, 6, other, size)[0]) + parts[2:] + parts[:1] * 2 + parts[1:2] + delivers(message)
        ), [("message 1 for the user made", [3, 5, 2]), ("missing right after frame 2 ", 2 * size), ("missing right after frame 3 ", size),
            ("keep fragments right after frame 2 ", 2)]
        w = types.SimpleNamespace(layout=lab_boot.layout(number))
        mine, newer, end, other = 5 << 16 | 1, 6 << 16 | 1, 1 << 16 | 1, 2 << 16 | 1
        frame = lambda kind, *ends: lab_boot.frame(w, kind, *ends)
        yield lab_boot.LAB, w.layout, (
            BOOTED + arrives(frame("call", mine)) + sends(frame("welcome", end, mine)) + arrives(frame("data", mine, end, 3)) + delivers(b"")
            + sends(frame("ack", end, mine, 3)) + arrives(frame("data", mine, end, 3)) + sends(frame("ack", end, mine, 3)) + CRASHED + BOOTED
            + arrives(frame("data", mine, end, 4)) + sends(frame("gone", end, mine)) + PUSHED + sends(frame("call", other)) + TIMER
            + sends(frame("call", other)) + arrives(frame("welcome", mine, other)) + sends(frame("data", other, mine)) + arrives(frame("call", newer))
            + sends(frame("welcome", other, newer)) + arrives(frame("data", mine, other, 4)) + arrives(frame("gone", newer, other))
            + sends(frame("call", other + 1)) + TIMER + sends(frame("call", other + 2))
        ), [("Frame 3 that arrives is DATA", "c"), ("Frame 4 that arrives is DATA", "a"), ("Frame 7 that arrives is DATA", "b"),
            ("Frame 5 that the host sends is a CALL", "a"), ("Frame 6 that the host sends is a CALL", "b"),
            ("Frame 9 that the host sends is a CALL", "c"), ("Frame 10 that the host sends is a CALL", "d"), ("after its first crash", 4)]


    for number in (0, 5):
        w = types.SimpleNamespace(layout=lab_stream.layout(number))
        size = w.layout["segment"]
        segment = lambda source, destination, at, place, payload=b"", w=w: lab_stream.packet(source, destination, w.layout.pack(
            sequence=at, acknowledgement=place, offset=5 << 4, flags=lab_stream.ACK) + payload)
        ip = lambda frames: [(event, frame[:12] + b"\x08\0" + frame[14:]) for event, frame in frames]
        data = lambda n, w=w, size=size: ip(sends(segment(2, 1, (w.layout["first"] + 1 + n * size) % lab_stream.WORD, 9, bytes(size))))
        ack = lambda n, w=w, size=size: ip(arrives(segment(1, 2, 9, (w.layout["first"] + 1 + n * size) % lab_stream.WORD)))
        yield lab_stream.LAB, w.layout, (
            BOOTED + PUSHED + data(0) + data(1) + ack(1) + data(2) + data(3) + ack(1) + ack(1) + ack(1) + data(1) + ack(3) + data(3) + TIMER + data(3)
        ), [("host send frame 1 of", "a"), ("host send frame 4 of", "b"), ("host send frame 5 of", "d"), ("host send frame 6 of", "e"), ("host send frame 7 of", "c"),
            ("right after the host has sent frame 6 of", size), ("Frame 5 that the host sends was", size), ("Frame 7 that the host sends was", 3 * size)]


def check_questions():
    for lab, layout, story, wanted in stories():
        run_ = questions.Run(layout, [(time_, *what) for time_, what in enumerate(story)])
        found = {text: answer for seed in range(200) for text, answer in lab.questions(run_, random.Random(seed))}
        wrong = [(text, answer, {its for question, its in found.items() if text in question and its != answer}) for text, answer in wanted
                 if [its for question, its in found.items() if text in question] != [answer]]
        expect(not wrong, f"{lab.name}: the lab's own questions have the right answers, layout {layout.number}", f"{wrong}\n{found}")


# ---- the command line ------------------------------------------------------------------------------------------------


WRITES = None  # directory for files that commands write by default


def run(build, *arguments, path=None):
    environment = dict(os.environ, **({"PATH": path} if path else {}))
    done = subprocess.run([sys.executable, os.path.join(ROOT, "docs", "labs", "grader", "grade.py"), build, *arguments], env=environment,
                          cwd=WRITES, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def data_of(page):
    """Returns the data in a journey's page; a malformed page has none."""
    found = re.findall(r'<script type="application/json" id="journey">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[0]) if len(found) == 1 else {"steps": [], "hosts": []}


def check_page(work, trace, why):
    """Checks that a replay's journey shows the same as its trace."""
    page = read(work, "refuses.html")
    data = data_of(page)
    steps = data["steps"]
    frames = [step["n"] for step in steps if step["k"] == "arrived" and step["h"] == 0]
    expect(frames == [int(size) + 17 if "[" in line else int(size) for line in trace.splitlines()
                      for size in re.findall(r"arrived .*?(\d+) bytes", line)] and frames, "the journey has the frames of the trace", str(frames))
    names = [node["name"] for node in data["hosts"][0]["nodes"]]
    crossings = {f"{names[step['a']]}>{names[step['b']]}" for step in steps if step["k"] == "up" and step["h"] == 0}
    expect({"port>eth", "eth>vnet", "vnet>mark", "mark>user"} <= crossings, "the journey goes up through the student's host", str(crossings))
    dropped = [(names[step["a"]], step["reason"]) for step in steps if step["k"] == "drop"]
    expect(dropped.count(("mark", "bad_length")) == 2, "the journey names drops", str(dropped))
    up = next(step for step in steps if step["k"] == "up" and names[step["b"]] == "mark")
    expect(steps[up["c"] - 1]["m"] == up["m"] and up["x"].startswith(steps[0]["x"] if steps[0]["k"] == "down" else up["x"][:6]),
           "a message has one number on both hosts", str(up))
    expect(f"The check says: {why}" in page, "the journey shows why the mark is lost")


def check_hostile_page():
    """Checks that a process that writes garbage instead of its steps spoils no page and injects no script."""
    lab, layout = grade.LABS[0], grade.LABS[0].layout(0)
    bad = "</script><script>alert(1)</script>"
    graph = {"name": bad, "nodes": [{"name": bad, "type": "mark"}, {"name": "up", "type": "mark"}], "edges": [[1, 0, bad], [0, 9, ""]],
             "types": {"mark": {"header": 3, "help": bad, "fields": []}}}
    lines = [graph, {"t": 0, "k": "up", "h": 7, "m": 1, "a": 0, "b": 1, "n": 3, "x": bad, "c": 5, "because": -1, "w": bad},
             {"t": 1, "k": "say", "a": 0, "text": bad, "c": 2, "s": 3}, {"t": 2, "k": "up", "a": 9, "b": 1, "n": 1}, {"k": []}, {"t": "x", "k": "drop"},
             {"t": 3, "k": "sent", "frame": 1}, [1], 7, {"t": 4, "k": "drop", "a": 1, "reason": bad, "path": [99], "n": 1e400}]
    text = "\n".join(json.dumps(line) for line in lines) + "\n" + "[" * 100000 + '\n{"t": 5, "k": "up'
    frame = world.link(2) + world.link(1) + b"\x88\xb5" + bytes(20)
    for journeys in ([text.encode()], [b"\xff\0\n" * 100], [b""], [], [text.replace('"help"', '"helps"').encode()],
                     [text.replace('"fields": []', '"fields": [{"bits": 1, "values": [[1e400, "x"]]}]').encode()],
                     [b'{"t": 1, "k": "say", "text": ' + b"[" * 900 + b"]" * 900 + b"}\n"]):
        events = [(0, "booted", b""), (1, "arrived", frame), (2, "sent", frame), (2, "sent", b"short"), (3, "crashed", b""), (4, "down", frame)]
        file = io.StringIO()
        journey.write(file, lab, layout, "title", 1, bad, events, journeys)
        page = file.getvalue()
        steps = data_of(page)["steps"]
        expect([step["k"] for step in steps if step["h"] == 0 and step["k"] not in ("up", "say", "drop")]
               == ["booted", "arrived", "sent", "crashed", "lost"] and page.count("<script") == 2 and "alert(1)<" not in page
               and all(0 < step[name] <= place for place, step in enumerate(steps) for name in ("c", "because", "again") if name in step),
               "nonsense of a process leaves the page as it has to be", json.dumps(steps)[:2000])

    many = "".join(json.dumps({"t": 1, "k": "say", "a": 0, "text": "x", "w": str(number)}) + "\n" for number in range(3 * journey.STEPS))
    file = io.StringIO()
    journey.write(file, lab, layout, "title", 1, None, [(0, "booted", b"")], [(json.dumps(graph) + "\n" + many).encode()])
    data = data_of(file.getvalue())
    expect(len(data["steps"]) == journey.STEPS and len(data["places"]) <= journey.PLACES + 1, "a page has no more steps and places than its limits",
           f"{len(data['steps'])} {len(data['places'])}")


def check_class_goes_on(many):
    """Checks that the others keep their results if the grader fails on a student or is interrupted."""
    lab = grade.LABS[0]

    def one(failure):
        def mark(directory, student):
            if student == failure[0]:
                raise failure[1]
            return grade.no_marks(lab, lab.layout(0), student, None)
        return mark

    for failure, wanted in ((("alice", OSError("disk full")), [("alice", "not marked: the grader has failed: disk full"), ("bob", None)]),
                            (("bob", KeyboardInterrupt()), [("alice", None)])):
        with contextlib.redirect_stderr(io.StringIO()) as told:
            results, whole = grade.mark_class(grade.parse(["0", "--class", many]), lab, one(failure), lambda _: lab.layout(0), lambda *_: None)
        expect([(result["student"], result["refused"]) for result in results] == wanted and not whole and ("alice is" in told.getvalue() or "1 of 2" in told.getvalue()),
               f"a class in which {type(failure[1]).__name__} occurs keeps its results", f"{results} {told.getvalue()}")


def check_command(build, instructor, work):
    many = os.path.join(work, "class")
    os.mkdir(many)
    for student in STUDENTS:
        status, _, why = run(build, "0", "--hand-out", os.path.join(many, student), "--id", student, "--instructor", instructor)
        expect(status == 0, f"hand-out for {student}", why)
    headers = [read(many, student, "mark.h") for student in STUDENTS]
    expect(headers[0] != headers[1], "students have their own headers")
    os.mkdir(os.path.join(many, "=cmd"))  # not a student's name
    text = read(many, "bob", "mark.c")
    write(changed(text, [("m->data[MARK_MARK] != MARK_IS", "false")]), many, "bob", "mark.c")
    text = read(many, "bob", "test_mark.c")
    write(text[: text.index("TEST(wrong_marks_and_lengths_are_dropped)")], many, "bob", "test_mark.c")

    status, output, why = run(build, "0", "--class", many, "--instructor", instructor, "--tests", "7", "--csv", "-", "--json",
                              os.path.join(work, "class.json"))
    rows = list(csv.DictReader(io.StringIO(output)))
    expect(status == 0 and [(row["student"], row["marks"], row["of"], row["refuses"], row["tests"], row["tests_found"], row["tests_of"]) for row in rows]
           == [("alice", "14", "14", "2", "7", "3", "3"), ("bob", "7", "14", "0", "2", "1", "3")], "a class as CSV, with marks for tests", output + why)
    expect("grade: not marked: '=cmd' is not a student's name" in why and "2 of 2: bob, 7 of 14" in why, "a folder that is no student's is named", why)
    tested = json.loads(read(work, "class.json"))[1]
    expect(sorted(tested["tests"]["missed"]) == ["mark not checked", "no upper bound"], "the JSON has the mistakes that tests missed", str(tested["tests"]))
    expect("  2 of 7  tests        tests found 1 of 3 planted mistakes\n" in grade.as_text(tested), "the text has the mistakes that tests found",
           grade.as_text(tested))
    scope = grade.as_gradescope(tested)
    expect(scope["score"] == 7 and scope["tests"][-1]["name"] == "tests found 1 of 3 planted mistakes" and scope["tests"][-1]["score"] == 2
           and scope["tests"][-1]["max_score"] == 7, "Gradescope has what tests have found", json.dumps(scope))
    check_class_goes_on(many)
    tests = grade.tests_of(None, build, grade.LABS[0], keys.PUBLIC, grade.parse(["0", "--student", many, "--tests", "7"]))
    text = grade.as_text(dict(tested, tests=tests(many, "bob", None)))
    expect("  0 of 0  tests" in text and "not marked: without an instructor's folder" in text, "without an instructor's folder tests have no marks", text)
    arguments = ("0", "--student", os.path.join(many, "bob"), "--id", "bob", "--instructor", instructor)
    status, output, why = run(build, *arguments, "--json", "-", "--gradescope", os.path.join(work, "results.json"))
    result, scope = json.loads(output), json.loads(read(work, "results.json"))
    expect(status == 0 and result["marks"] == 5 and result["of"] == 7, "a result as JSON", output + why)
    expect(scope["score"] == 5 and sum(test["score"] for test in scope["tests"]) == 5
           and sum(test["max_score"] for test in scope["tests"]) == 7 and "--journey refuses.html" in json.dumps(scope),
           "a result for Gradescope", json.dumps(scope))
    status, text, _ = run(build, *arguments)
    expect(status == 0 and text.rstrip().endswith("5 of 7"), "a result as text", text)

    found = next(found for found in result["checks"] if found["seed"] is not None)
    expect(found["replay"] in text and found["why"] in text, "the text has the lost mark, the reason and the replay command", text)
    command = found["replay"].replace("DIR", os.path.join(many, "bob")).split()[2:]
    status, output, why = run(build, *command, "--pcap", os.path.join(work, "lost.pcap"))
    check_page(work, output, found["why"])
    check_hostile_page()
    expect(status == 1 and output.rstrip().endswith(f"{found['name']}: {found['why']}"), "the replay loses the same mark", output + why)
    expect(re.search(r"arrived +\[.*mark.*length", output) is not None, "the replay shows frames field by field", output)
    expect(os.path.getsize(os.path.join(work, "lost.pcap")) > 100, "the replay writes a capture")
    status, output, why = run(build, *[word if word != str(found["seed"]) else "1" for word in command])
    expect(output != "", "another seed is another run", why)
    falls = os.path.join(work, "falls")
    shutil.copytree(os.path.join(many, "bob"), falls)
    write(changed(read(falls, "mark.c"), [("xk_pop(s, lls, m, NULL);", "__builtin_trap();")]), falls, "mark.c")
    instead = {os.path.join(many, "bob"): falls, "refuses.html": "-"}
    _, page, why = run(build, *[instead.get(word, word) for word in command if word != "--trace"])
    steps = data_of(page)["steps"]
    names = [node["name"] for node in (data_of(page)["hosts"] or [{"nodes": []}])[0]["nodes"]]
    expect("ended with signal" in page and "ended with signal" in why
           and [names[step["b"]] for step in steps if step["k"] == "up"][-1:] == ["mark"], "the journey of a host that crashes ends where it does",
           why + str(steps[-3:]))

    asked, answers = os.path.join(work, "questions"), os.path.join(work, "answers.json")
    status, output, why = run(build, *arguments, "--questions", asked, "--answers", answers)
    text, answers = read(asked), json.loads(read(answers))["answers"]
    expect(status == 0 and answers and all(answer["question"] in text for answer in answers), "questions about a run", text + why)
    command = re.search(r"\./run grade (.*)", text)[1].replace("DIR", os.path.join(many, "bob")).split()
    trace = [line.split() for line in run(build, *command)[1].splitlines()]
    times = [float(words[0]) for words in trace if len(words) > 1 and words[1] == "delivered"]
    found = next(answer for answer in answers if "messages have been delivered to the user" in answer["question"])
    until = float(re.search(r"by ([0-9.]+) s", found["question"])[1])
    expect(found["answer"] == sum(time_ <= until for time_ in times) > 0, "a question's answer is in the trace", str(found))

    for arguments in (["0"], ["9", "--student", many], ["0", "--student", many, "--id", "../x"], ["0", "--student", many, "--check", "x", "--seed", "1"],
                      ["0", "--student", many, "--check", "sends", "--seed", "1", "--choices", "frame 1 lose"], ["2", "--student", many, "--choices", "frame 1 lose"],
                      ["2", "--student", many, "--check", "faults", "--seed", "1", "--choices", "frame 1 lose, frame 1 double"],
                      ["2", "--student", many, "--check", "faults", "--seed", "1", "--choices", "event 1 boot"],
                      ["0", "--student", many, "--tests", "-1"], ["0", "--student", many, "--journey", "x.html"], ["0", "--student", many, "--tests", "7", "--check", "sends", "--seed", "1"]):
        expect(run(build, *arguments)[0] == 2, f"misuse: {' '.join(arguments[:1] + arguments[2:])}")
    empty = os.path.join(work, "empty")
    os.mkdir(empty)
    status, output, why = run(build, "0", "--student", os.path.join(many, "bob"), path=empty)
    expect(status == 1 and not output and "nothing is marked" in why, "without bubblewrap nothing is marked", output + why)
    write('#!/bin/sh\nPATH=/usr/bin:/bin\n[ "$(echo "$*" | grep -c " /host ")" = 0 ] || exit 126\nexec bwrap "$@"\n', empty, "bwrap")
    os.chmod(os.path.join(empty, "bwrap"), 0o755)
    status, output, why = run(build, "0", "--student", os.path.join(many, "bob"), path=empty)
    expect(status == 1 and not output and "the answer of lab 0" in why, "if no host can run, nothing is marked", output + why)
    write("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n", empty, "bwrap")
    os.chmod(os.path.join(empty, "bwrap"), 0o755)
    status, output, why = run(build, "0", "--student", os.path.join(many, "bob"), path=empty)
    expect(status == 1 and not output and "No permissions" in why, "if namespaces are forbidden, nothing is marked", output + why)


# What a student's stream may do instead of its work, beside hosts of the grader's own, and the reason for the lost mark.
STREAMS = {
    "loops": ("for (;;)\n\t\tcontinue;", SILENT),
    "crashes": ("__builtin_trap();", r"ended with signal 4|ended with signal 5"),
    "fills memory": ("for (;;)\n\t\tmemset(malloc(1 << 20), 1, 1 << 20);", "ended with signal 11|ended with signal 6|ended with signal 9"),
    "floods": ("for (unsigned i = 0; i < 1000000; i++)\n\t\txk_push(s->session.lls, xk_msg_from(xk_platform_of(s->session.protocol), s, 20));",
               "that is no segment|a wrong checksum|used up its budget|ended with|sent a record"),
}


def check_hostile_streams(sandbox, instructor):
    lab, layout, usual = grade.LABS[5], grade.LABS[5].layout(0), sandboxes.SILENCE_S
    answer = "#include <stdlib.h>\n" + read(instructor, "answers", "stream.c")
    sandboxes.SILENCE_S = 4
    for name, (does, why) in STREAMS.items():
        text = changed(answer, [("\tuint32_t more = 0;\n", f"\tuint32_t more = 0;\n\n\t{does}\n")])
        result = grade.mark(sandbox, lab, files_of(lab, layout, text), layout, keys.PUBLIC, "attacker", ("whole", "fair"))
        expect(result["marks"] == 0 and re.search(why, reasons(result)) and grade.CANNOT_JUDGE not in reasons(result),
               f"a stream that {name} gets no marks, and the reason", reasons(result))
    sandboxes.SILENCE_S = usual


def check_linux(sandbox, instructor, work):
    """Checks that the answer's stream reaches the kernel of this machine, and that the skeleton's does not."""
    lab, layout = grade.LABS[5], grade.LABS[5].layout(0)
    texts = {"answer": read(instructor, "answers", "stream.c"), "skeleton": read(ROOT, "docs", "labs", "stream", "stream.c")}
    for name, wanted, linux.SECONDS_MAX in (("answer", f"got {linux.BYTES} of {linux.BYTES} bytes, and the end of the stream", 60),
                                            ("skeleton", "but not the end of the stream", 3)):
        folder = os.path.join(work, f"linux-{name}")
        os.mkdir(folder)
        for path, contents in files_of(lab, layout, texts[name]).items():
            write(contents.decode(), folder, path)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                right = grade.send_to_linux(sandbox, lab, folder, layout, keys.PUBLIC, "student")
        except linux.Unavailable as why:
            print(f"note: no stream is sent to Linux: {why}")
            return
        expect(right == (name == "answer") and wanted in out.getvalue(), f"a stream to Linux: {name}", out.getvalue())


def make(function, *arguments):
    """Runs a group of checks; an unexpected exception is a failed check, and the other groups still run."""
    try:
        function(*arguments)
    except Exception:
        expect(False, f"{function.__name__} completes", traceback.format_exc())


def main():
    global WRITES
    build = os.path.abspath(sys.argv[1])
    try:
        sandbox = sandboxes.Sandbox(build)
    except sandboxes.Unusable as why:
        print(f"SKIPPED: nothing can be marked here, so the grader is not tested: {why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="xk-selftest-") as work:
        os.chmod(work, 0o755)  # the sandbox keeps students out
        WRITES = work
        instructor = os.path.join(work, "instructor")
        shutil.copytree(mutants.TREE, instructor)
        write("a key for tests, which is no secret\n", instructor, "key")
        few = os.path.join(work, "few")
        shutil.copytree(instructor, few)
        planted = [mistake for mistake in json.loads(read(few, "wrong", "mark.json")) if mistake["name"] in FOR_TESTS]
        write(json.dumps(planted), few, "wrong", "mark.json")
        for name in os.listdir(os.path.join(instructor, "wrong")) if not ALL else ():
            planted = json.loads(read(instructor, "wrong", name))
            of_both = [mistake for mistake in planted if mistake.get("tests", True)]  # both for the checks and for students' tests
            write(json.dumps(random.sample(of_both, FEW)), instructor, "wrong", name)
        try:
            for folder in (instructor, *sys.argv[2:]):
                make(check_answers, sandbox, folder)
                make(check_tests, sandbox, build, folder)
            make(check_skeletons, sandbox, work)
            make(check_command, build, few, work)
            make(check_files, sandbox, instructor, work)
            make(check_search)
            make(check_searches, sandbox, build, instructor, work)
            make(check_lies, sandbox)
            make(check_resubmission, work)
            make(check_questions)
            make(check_hostile_streams, sandbox, instructor)
            make(check_linux, sandbox, instructor, work)
            make(check_attacks, sandbox, instructor, work)
            make(check_tests_cheat, sandbox, build, few)
        finally:
            sandbox.close()
    print(f"{checks.failures} failed" if checks.failures else "the grader works")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
