#!/usr/bin/env python3
"""test_two_machines.py BUILD - checks that the experiments run between two machines: here, two network namespaces with a cable for the
experiments' frames and another for ssh to a server of the test's own.

Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXPERIMENTS = os.path.join(ROOT, "experiments")
sys.path[:0] = [os.path.join(ROOT, "tests"), *(os.path.join(EXPERIMENTS, name) for name in ("", "components", "report/chapters", "report/measuring"))]
sys.dont_write_bytecode = True
import checks
import drivers
import far as fars
import lab as labs
import parts
import real
import stamps
import sweeps
from checks import expect

PATIENCE_S = 600
SERVER = "10.79.0.2"
SSHD = "/usr/sbin/sshd"
CABLES = """
ip link set lo up
ip link add talk0 type veth peer name talk1 netns {there}
ip link add frames0 type veth peer name frames1 netns {there}
ip link set talk0 up && ip link set frames0 up && ip address add 10.79.0.1/24 dev talk0
nsenter -t {there} -n sh -c 'ip link set lo up && ip link set talk1 up && ip link set frames1 up && ip address add 10.79.0.2/24 dev talk1'
"""
SERVES = """ListenAddress {server}
HostKey {work}/host
AuthorizedKeysFile {work}/user.pub
StrictModes no
PidFile none
SetEnv HOME={work} TMPDIR={there} XDG_RUNTIME_DIR={sockets}
"""
ASKS = """Host other
HostName {server}
IdentityFile {work}/user
UserKnownHostsFile {work}/known
KexAlgorithms curve25519-sha256
"""


class Sshd:
    """The other machine's ssh server, and a configuration of ssh for it that uses nothing of this machine's user."""

    def __init__(self, holder, work, there, sockets):
        names = {"server": SERVER, "work": work, "there": there, "sockets": sockets}
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(work, name)], check=True)
        with open(os.path.join(work, "host.pub"), encoding="ascii") as key:
            self.write(work, "known", f"{SERVER} {key.read()}")
        self.write(work, "serves", SERVES.format(**names))
        self.write(work, "asks", ASKS.format(**names))
        os.mkdir(os.path.join(work, "bin"))
        self.write(work, "bin/ssh", f'#!/bin/sh\nexec {shutil.which("ssh")} -F {work}/asks "$@"\n')
        os.chmod(os.path.join(work, "bin", "ssh"), 0o755)
        os.environ["PATH"] = os.path.join(work, "bin") + ":" + os.environ["PATH"]
        os.makedirs("/run/sshd", exist_ok=True)
        self.process = subprocess.Popen(["nsenter", "-t", str(holder), "-n", SSHD, "-D", "-e", "-f", os.path.join(work, "serves")],
                                        stderr=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while subprocess.run(["ssh", "other", "true"], stderr=subprocess.DEVNULL, check=False).returncode and time.monotonic() < until:
            time.sleep(0.1)

    @staticmethod
    def write(work, name, text):
        with open(os.path.join(work, name), "w", encoding="ascii") as file:
            file.write(text)

    def end(self):
        self.process.terminate()
        self.process.wait()


def options(host="other"):
    return ["--far", host, "--link", "af_packet", "--dev", "frames0,frames1"]


def far_of(**more):
    return fars.Far(argparse.Namespace(far="other", link="af_packet", dev="frames0,frames1", cores="0,1", build=sys.argv[1], **more))


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def check_program(far):
    """Checks that a program there ends on a signal, with all its output, and together with this program."""
    far_input = b"x" * 300000
    expect(far.output("cat", far_input) == far_input.decode(), "a command has its input and output")
    name = far.put(b"given")
    expect(far.output(f"cat {name}") == "given", "a file is copied there")
    far.remove(name)
    process = far.start(["sh", "-c", "trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.05; done"], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=PATIENCE_S)[0]
    expect((process.returncode, out) == (5, "told\n"), "a program ends on a signal, and its last output arrives", f"{process.returncode} {out}")
    process = far.start(["sh", "-c", "echo said; exit 3"], stdout=subprocess.PIPE, text=True)
    out = process.communicate(timeout=PATIENCE_S)[0]
    expect((process.returncode, out) == (3, "said\n"), "... or ends by itself", f"{process.returncode} {out}")
    process.kill()
    for what in ("it is killed", "its caller is killed"):
        process, pid = start_sleeper(far, what)
        process.kill()
        until = time.monotonic() + PATIENCE_S
        while alive(pid) and time.monotonic() < until:
            time.sleep(0.02)
        expect(not alive(pid), f"... or when {what}")
        process.communicate()


def start_sleeper(far, what):
    """Starts a sleeping program there, directly or through a caller here. Returns the process to kill and the sleeper's id there."""
    line = ["sh", "-c", "echo $$; exec sleep 1000"]
    if what == "it is killed":
        process = far.start(line, stdout=subprocess.PIPE, text=True)
    else:
        paths = [os.path.dirname(os.path.abspath(__file__)), *sys.path]
        caller = (f"import sys, time; sys.path[:0] = {paths}; import test_two_machines as t; "
                  f"p = t.far_of().start({line}); time.sleep(1000)")
        process = subprocess.Popen([sys.executable, "-c", caller, *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


def report(*arguments):
    return subprocess.run([sys.executable, os.path.join(EXPERIMENTS, "report", "report.py"), sys.argv[1], *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def check_report(work):
    out = os.path.join(work, "report")
    done = report(out, "--brief", "--repeats", "1", "--only", "blast", *options())
    expect(done.returncode == 0, "a report between two systems", done.stdout)
    if done.returncode != 0:
        return
    documents = {}
    for name in ("machine", "blast"):
        with open(os.path.join(out, name + ".json"), encoding="utf-8") as file:
            documents[name] = json.load(file)
    with open(os.path.join(out, "index.html"), encoding="utf-8") as file:
        page = file.read()
    expect(documents["machine"]["other"]["machine"]["processor"] in page and "the other system, where the server is, on this machine" in page,
           "... describes the other one")
    expect("round trips in microseconds, two systems on one machine, over af_packet" in page and "a machine for each host" not in page
           and "the other machine" not in page, "... and that both are on one machine")
    apart = [run for runs in documents["blast"]["data"]["repetitions"] for run in runs]
    expect(len(apart) == 6 and all(run["driver_switches"]["server"] > 0 and run["fragments"] >= 2 * run["rounds"] for run in apart),
           "... with what the server has counted", str(apart[:1]))


def far_that_says(said):
    """Returns a Far whose other system answers the first question with this."""
    output = fars.Far.output
    fars.Far.output = lambda *_: said
    try:
        return far_of()
    finally:
        fars.Far.output = output


def check_two():
    """Checks that systems with different boot ids count as two machines."""
    expect(far_of().ends == "two systems on one machine", "systems with one boot id are on one machine")
    for ends, said in (("two machines", "built\nanother\n\n"), ("two systems on one machine", "built\n\n\n")):
        expect(far_that_says(f"{fars.HELLO}\n{said}").ends == ends, f"... with {said.split()}, {ends}")


def check_looked_at():
    """Checks the faults that Far finds first."""
    for what, words, said in (("nothing is built there", "is missing there", f"{fars.HELLO}\n\nanother\n\n"),
                              ("another commit", "is at commit 0123456789 there, at ", f"{fars.HELLO}\nbuilt\nanother\n{'0123456789' * 4}\n"),
                              ("a shell with a banner", "prints 'Welcome' before", f"Welcome\nto this\n{fars.HELLO}\nbuilt\nanother\n\n")):
        try:
            far_that_says(said)
            expect(False, f"refused: {what}")
        except fars.Failed as why:
            expect(words in str(why) and "\n" not in str(why), f"refused: {what}", str(why))


def check_refused(work):
    frames = ["--link", "af_packet", "--dev", "frames0,frames1"]
    for words, arguments in (
            ("`ssh nobody@other true` must work without a password", ["--far", "nobody@other", *frames]),
            ("10.79.0.9", ["--far", "10.79.0.9", *frames]),
            ("give USER@HOST", ["--far=-oProxyCommand=true", *frames]),
            ("needs --link", ["--far", "other"]),
            ("needs --dev", ["--far", "other", "--link", "af_packet"])):
        done = report(os.path.join(work, "refused"), "--only", "handoff", *arguments)
        expect(done.returncode == 1 and words in done.stdout and "Traceback" not in done.stdout, f"refused: {words}", done.stdout)


def check_ssh(work):
    """Checks that ssh's errors are one line, without the command that it was to run."""
    known, key = os.path.join(work, "known"), os.path.join(work, "user.pub")
    frames = ["--link", "af_packet", "--dev", "frames0,frames1"]
    with open(os.path.join(work, "user.pub"), encoding="ascii") as file:
        another = f"{SERVER} {file.read()}"
    for what, words, file, text in (("a host key that is not known", "Host key verification failed", known, ""),
                                    ("another host key", "Host key verification failed", known, another),
                                    ("no key that the server accepts", "Permission denied", key, "")):
        with open(file, encoding="ascii") as right:
            kept = right.read()
        Sshd.write(work, os.path.basename(file), text)
        done = report(os.path.join(work, "refused"), "--only", "handoff", "--far", "other", *frames)
        Sshd.write(work, os.path.basename(file), kept)
        expect(done.returncode == 1 and words in done.stdout and done.stdout.count("\n") == 1 and "boot_id" not in done.stdout, f"refused: {what}", done.stdout)


def check_full(there):
    """Checks that a file too large for the other system is refused in one line, and not left there."""
    def limited(self, line):
        return [*fars.SSH, self.host, "exec sh -c " + shlex.quote("trap '' XFSZ; ulimit -f 1; " + line)]

    far, line = far_of(), fars.Far.line
    fars.Far.line = limited
    try:
        far.put(b"x" * 100000)
        expect(False, "a file that does not fit")
    except fars.Failed as why:
        expect("File too large" in str(why) and "\n" not in str(why) and not os.listdir(there), "a file that does not fit", f"{why} {os.listdir(there)}")
    finally:
        fars.Far.line = line


def check_far():
    """Checks what --far refuses."""
    frames = ["--link", "af_packet", "--set", "client:port.dev=frames0", "--set", "server:port.dev=frames1"]
    for status, words, arguments in (
            (2, "joins only hosts on one machine", ["--far", "sh -c"]),
            (2, "joins only hosts on one machine", ["--far", "sh -c", "--link", "sim"]),
            (2, "each end needs an interface", ["--far", "sh -c", "--link", "af_packet"]),
            (2, "exclude each other", ["--far", "sh -c", "--server", *frames]),
            (2, "are different builds", ["--end", "server", "--control", "0", "--answer", "1"]),
            (1, "the server could not start", ["--far", "false", *frames])):
        done = subprocess.run([os.path.join(sys.argv[1], "udptest"), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, check=False)
        expect(done.returncode == status and words in done.stderr, f"refused: {words}", f"{done.returncode} {done.stderr}")


def some(what, measure):
    """Checks that a figure is above zero; a busy machine may need several attempts."""
    for _ in range(5):
        if (found := measure()) > 0:
            break
    expect(found > 0, what)


def check_chapters():
    """Checks the measurements of the report's chapters."""
    far = far_of()
    lab = labs.Lab(sys.argv[1], "0,1", True, far=far)
    pool = stamps.Pool(os.path.join(EXPERIMENTS, "report", "chapters", "anatomy-udptest.dot"), "interrupt")

    def stamped():
        pool.run(lab, "udptest", 200)
        return pool.trips

    some("anatomy: round trips from both machines' stamps", stamped)
    pings = drivers.measure(lab, "interrupt", 1000)
    expect(pings["switches"] > 0 and pings["processor_percent"] > 0, "drivers: what both ends consume", str(pings))
    with sweeps.Sweep(lab) as sweep, real.graph_at_server(lab, sweep.marked) as marked:
        some("policies: a server there that hands off", lambda: real.measure(lab, marked, (1, True), "0")["works"])
    components = parts.Parts(argparse.Namespace(build=sys.argv[1], cores="0,1", rounds=200, turns=1, far="other", link="af_packet",
                                                dev="frames0,frames1"))
    some("components: a call", lambda: components.call("interrupt", parts.FRAMES[:1])[0][0])


def check_ladder(work):
    file = os.path.join(work, "ladder.json")
    done = subprocess.run([sys.executable, os.path.join(EXPERIMENTS, "endpoints", "ladder.py"), sys.argv[1], "--sizes", "32", "--rounds", "50",
                           "--seconds", "0.05", "--only", "tcp,packet,handler", "--json", file, *options()],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    expect(done.returncode == 0, "endpoints: a ladder between two systems", done.stderr)
    if done.returncode == 0:
        with open(file, encoding="utf-8") as found:
            document = json.load(found)
        expect(set(document["cable"]) == {"packet", "handler"} and "no address" in document["missing"]["tcp over af_packet"],
               "... each rung, except Linux's own without an address", str(document["missing"]))
        counts = document["cable"].get("handler", {}).get("32", {}).get("alone", {}).get("counts")
        expect(counts and counts["server"]["messages"] >= 250, "... with what the server has counted", str(counts))
    done = subprocess.run([sys.executable, os.path.join(EXPERIMENTS, "endpoints", "ladder.py"), sys.argv[1], "--streams", *options()], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    expect(done.returncode == 0 and "not measured: streams: Linux has no address on the link" in done.stdout, "... whose TCP has no bandwidth there", done.stdout)


def run_inside():
    holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
    try:
        while os.readlink(f"/proc/{holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        subprocess.run(["sh", "-ec", CABLES.format(there=holder.pid)], check=True)
        with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as there, tempfile.TemporaryDirectory() as sockets:
            os.environ["XDG_RUNTIME_DIR"] = sockets  # in the usual one, hosts with other process ids would clean up
            sshd = Sshd(holder.pid, work, there, sockets)
            try:
                check_refused(work)
                check_ssh(work)
                check_two()
                check_looked_at()
                check_full(there)
                check_far()
                check_program(far_of())
                check_report(work)
                check_ladder(work)
                check_chapters()
                expect(not os.listdir(there), "no file is left on the other machine", str(os.listdir(there)))
            finally:
                sshd.end()
    finally:
        holder.kill()
        holder.wait()


def main():
    if len(sys.argv) == 3 and sys.argv[2] == "inside":
        run_inside()
        return 1 if checks.failures else 0
    if os.geteuid() != 0 or not os.path.exists(SSHD) or not shutil.which("ssh"):
        print(f"skipped: this needs root, ssh and {SSHD} (package openssh-server)")
        return 0
    unshare = ["unshare", "-n", "--kill-child", "-p", "-f", "--mount-proc"]
    tried = subprocess.run([*unshare, "true"], stderr=subprocess.PIPE, text=True, check=False)
    if tried.returncode != 0:
        print(f"skipped: no network namespaces: {tried.stderr.strip()}")
        return 0
    return subprocess.run([*unshare, sys.executable, *sys.argv, "inside"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
