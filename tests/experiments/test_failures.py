#!/usr/bin/env python3
"""test_failures.py BUILD - checks that the experiments' scripts report what is missing in one line: no traceback, no bare system error."""
import os
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILT = ("components/controllers", "components/parts", "endpoints/machines", "endpoints/ladder", "userlevel/myrinet", "overload/sweep")
failures = 0


def expect(good, name, why):
    global failures
    failures += not good
    print(f"ok {name}" if good else f"FAIL {name}: {why}")


def refused(name, words, *arguments, **environment):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "experiments", f"{name}.py"), *arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, check=False, env=os.environ | environment)
    good = done.returncode == 1 and "Traceback" not in done.stderr and "[Errno" not in done.stderr and words in done.stderr
    expect(good, f"{name} {' '.join(arguments)}", f"status {done.returncode}: {done.stderr[-300:]}")


def failed(build, program, words, *arguments):
    """Checks that a program of the experiments reports what it lacks."""
    done = subprocess.run([os.path.join(build, "experiments", program), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    good = done.returncode == 1 and words in done.stderr
    expect(good, f"{program} {' '.join(arguments)}", f"status {done.returncode}: {done.stderr[-300:]}")


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.NamedTemporaryFile() as file:
        for name in BUILT:
            refused(name, "/nonexistent", "/nonexistent")
            refused(name, file.name, file.name)
            refused(name, "/proc/nowhere cannot be written: No such file", build, "--json", "/proc/nowhere")
        refused("trends", "/proc/nowhere cannot be written: No such file", build, build, "--json", "/proc/nowhere")
        refused("report/report", "name another path", build, file.name)
    for name in ("ipp1994/tables", "ipp1994/fit"):
        refused(name, "./run build", "--build", "/nonexistent")
        refused(name, "/nonexistent.dot", "--build", build, "--graph", "/nonexistent.dot")
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "matplotlib.py"), "w", encoding="ascii") as file:
            file.write("raise ImportError(\"No module named 'matplotlib'\")\n")
        out = os.path.join(directory, "out")
        refused("report/report", "matplotlib", build, out, PYTHONPATH=directory)
        expect(not os.path.exists(out), "... before anything is measured", "there is a report")
    refused("report/measuring/spent", "usage: spent.py PID")
    failed(build, "components/parts", "--from and --to name interfaces", "--kind", "packet", "--from", "nowhere", "--to",
           "nowhere")
    failed(build, "scaling/bursts", "taskset", "--cores", "0,1023")
    failed(build, "endpoints/sockets", "--client takes an IPv4 address", "--kind", "udp", "--client", "nowhere")
    with subprocess.Popen([sys.executable, os.path.join(ROOT, "experiments/scaling/arithmetic.py")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as closed:
        closed.stdout.close()
        words = closed.stderr.read()
    expect("Traceback" not in words, "a reader that has closed its pipe", words[-300:])
    with subprocess.Popen([sys.executable, os.path.join(ROOT, "experiments/overload/sweep.py"), build], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as swept:
        while not os.path.exists(f"/proc/{swept.pid}/task/{swept.pid}/children") or \
                not open(f"/proc/{swept.pid}/task/{swept.pid}/children", encoding="ascii").read():
            if swept.poll() is not None:
                break
        os.killpg(swept.pid, signal.SIGINT)
        words = swept.stderr.read()
    expect(swept.returncode == 130 and words == "sweep: interrupted\n", "ctrl-C", f"status {swept.returncode}: {words[-300:]}")
    return 1 if failures else 0


sys.exit(main())
