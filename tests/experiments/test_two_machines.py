#!/usr/bin/env python3
"""test_two_machines.py BUILD - whether the experiments run between two machines: here, two network namespaces with a cable for the
experiments' frames and another for what the machines tell each other. And who may have the other machine run something.

Prints a line for each check, `ok` or `FAIL`; exits 1 if one has failed.
"""
import argparse
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXPERIMENTS = os.path.join(ROOT, "experiments")
sys.path[:0] = [os.path.join(ROOT, "tests"), *(os.path.join(EXPERIMENTS, name) for name in ("", "report", "components"))]
sys.dont_write_bytecode = True
import checks
import drivers
import far as fars
import lab as labs
import parts
import real
import stamps
import sweeps
from checks import tell

PATIENCE_S = 60
SERVER, PORT = "10.79.0.2", fars.PORT
CABLES = """
ip link set lo up
ip link add talk0 type veth peer name talk1 netns {there}
ip link add frames0 type veth peer name frames1 netns {there}
ip link set talk0 up && ip link set frames0 up && ip address add 10.79.0.1/24 dev talk0
nsenter -t {there} -n sh -c 'ip link set lo up && ip link set talk1 up && ip link set frames1 up && ip address add 10.79.0.2/24 dev talk1'
"""


class Serving:
    """The other machine's program."""

    def __init__(self, there, work):
        self.process = subprocess.Popen(
            ["nsenter", "-t", str(there), "-n", sys.executable, os.path.join(EXPERIMENTS, "far.py"), "serve", "--link", "af_packet", "--dev",
             "frames1"], stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": work})
        self.words = self.process.stderr.readline()
        self.key = re.search(r"--client (\w+)@ADDRESS:(\d+) ", self.words)[1]

    def options(self, key=None):
        return ["--client", f"{key or self.key}@{SERVER}", "--link", "af_packet", "--dev", "frames0"]

    def end(self, number):
        self.process.send_signal(number)
        self.process.communicate()


def far_run(line, key, **more):
    return subprocess.Popen([sys.executable, os.path.join(EXPERIMENTS, "far.py"), "run", SERVER, line], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, env={**os.environ, "XK_FAR_KEY": key}, **more)


def finished(process, given=None):
    out, errors = process.communicate(given, timeout=PATIENCE_S)
    return process.returncode, out, errors


def check_line(key):
    status, out, errors = finished(far_run(f"cat; pwd; ls {ROOT}/run; echo $XK_FAR_DEV; echo lost >&2; exit 3", key, stdin=subprocess.PIPE), "in\n")
    tell((status, out, errors) == (3, f"in\n{ROOT}\n{ROOT}/run\nframes1\n", "lost\n"), "a line has its input, output, errors, status",
         f"{status} {out} {errors}")
    much = "x" * 3000000
    status, out, _ = finished(far_run("cat", key, stdin=subprocess.PIPE), much)
    tell(status == 0 and out == much, "... however much it is", f"{status} {len(out)}")
    process = far_run("trap 'echo told; exit 5' INT; echo ready; while :; do sleep 0.05; done", key, stdin=subprocess.DEVNULL)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    status, out, errors = finished(process)
    tell((status, out) == (5, "told\n"), "... and the caller's signals", f"{status} {out} {errors}")
    process = far_run("trap 'exit 6' INT; echo ready; while :; do sleep 0.05; done", key, stdin=subprocess.PIPE)
    process.stdout.readline()
    threading.Thread(target=feed, args=(process.stdin,), daemon=True).start()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE_S)
    tell(process.returncode == 6, "... also if it reads nothing of much input", str(process.returncode))


def check_slow(key):
    """A client that reads slowly, and ends its input late, still gets everything."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((SERVER, PORT))
        client.sendall(fars.proof(key, fars.receive(client, fars.NONCE)))
        words = json.dumps({"line": "head -c 20000 /dev/zero", "root": ROOT}).encode()
        client.sendall(fars.FRAME.pack(fars.LINE, len(words)) + words)
        time.sleep(0.5)  # meanwhile the line ends
        client.sendall(fars.FRAME.pack(fars.END, 0))
        output, status, why = b"", None, ""
        try:
            while status is None:
                kind, data = fars.receive_frame(client)
                output, status = (output + data, None) if kind == fars.OUTPUT else (output, data)
        except OSError as error:
            why = str(error)
    tell((len(output), status) == (20000, b"0"), "... and all of its output, however slowly it is read", f"{len(output)} {status} {why}")


def feed(file):
    try:
        while True:
            file.write("x" * 100000)
    except OSError:
        pass


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def check_ends(serving, number, what):
    """Nothing runs on when the caller, or the server, is killed."""
    process = far_run("echo $$; exec sleep 1000", serving.key, stdin=subprocess.DEVNULL)
    pid = process.stdout.readline().strip()
    if what == "its caller":
        process.send_signal(number)
    else:
        serving.end(number)
    until = time.monotonic() + PATIENCE_S
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    tell(pid and not alive(pid), f"a line ends with {what}, by signal {number}")
    process.kill()
    process.communicate()


def check_strangers(serving):
    status, out, errors = finished(far_run("echo ran", "0" * 32, stdin=subprocess.DEVNULL))
    tell(status == 255 and out == "" and "wrong key" in errors, "who has another key is sent away", f"{status} {out} {errors}")
    chance = random.Random(1)
    for number in range(50):
        with socket.create_connection((SERVER, PORT)) as stranger:
            nonce = fars.receive(stranger, fars.NONCE)
            known = fars.proof(serving.key, nonce)
            if number % 2:
                known = chance.randbytes(fars.NONCE)
            kind = chance.choice((fars.LINE, fars.INPUT, fars.SIGNAL, b"?"))
            words = chance.choice((b"", b"{}", b"[]", b"{\"line\": 1, \"root\": 2}", b"\xff", chance.randbytes(40)))
            stranger.sendall(known + fars.FRAME.pack(kind, chance.choice((len(words), len(words) + 1, fars.FRAME_MAX + 1, 0xffffffff))) + words)
    silent = [socket.create_connection((SERVER, PORT)) for _ in range(2 * fars.STRANGERS)]
    status, out, errors = finished(far_run("echo ran", serving.key, stdin=subprocess.DEVNULL))
    for stranger in silent:
        stranger.close()
    tell((status, out) == (0, "ran\n") and serving.process.poll() is None, "whatever strangers send, the server serves", f"{status} {out} {errors}")


def report(*arguments):
    return subprocess.run([sys.executable, os.path.join(EXPERIMENTS, "report", "report.py"), sys.argv[1], *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def check_report(serving, work):
    out = os.path.join(work, "report")
    done = report(out, "--quick", "--repeats", "2", "--only", "blast", *serving.options())
    tell(done.returncode == 0, "a report between two machines", done.stdout)
    if done.returncode != 0:
        return
    documents = {}
    for name in ("machine", "blast"):
        with open(os.path.join(out, name + ".json"), encoding="utf-8") as file:
            documents[name] = json.load(file)
    with open(os.path.join(out, "index.html"), encoding="utf-8") as file:
        page = file.read()
    tell(documents["machine"]["other"]["machine"]["processor"] in page and "the other machine, where the server is" in page,
         "... says what the other one is")
    tell("After table 8 of 1994: round trips in microseconds, a machine for each host, over af_packet" in page, "... and where its hosts were")
    apart = [run for runs in documents["blast"]["data"]["repetitions"] for run in runs]
    tell(len(apart) == 2 * 6 and all(run["driver_switches"]["server"] > 0 and run["fragments"] >= 2 * run["rounds"] for run in apart),
         "... with what the server has counted", str(apart[:1]))


def check_refused(work):
    for words, arguments in (
            ("wrong key", ["--client", "00@" + SERVER, "--link", "af_packet", "--dev", "frames0"]),
            ("has no key", ["--client", SERVER, "--link", "af_packet", "--dev", "frames0"]),
            ("needs --link", ["--client", "00@" + SERVER]),
            ("needs --dev", ["--client", "00@" + SERVER, "--link", "af_packet"]),
            ("10.79.0.9", ["--client", "00@10.79.0.9", "--link", "af_packet", "--dev", "frames0"])):
        done = report(os.path.join(work, "refused"), "--only", "handoff", *arguments)
        tell(done.returncode == 1 and words in done.stdout and "Traceback" not in done.stdout, f"refused: {words}", done.stdout)


def check_far():
    """What --far refuses."""
    frames = ["--link", "af_packet", "--set", "client:port.dev=frames0", "--set", "server:port.dev=frames1"]
    for status, words, arguments in (
            (2, "joins only hosts on one machine", ["--far", "sh -c"]),
            (2, "joins only hosts on one machine", ["--far", "sh -c", "--link", "sim"]),
            (2, "each end needs an interface", ["--far", "sh -c", "--link", "af_packet"]),
            (2, "exclude each other", ["--far", "sh -c", "--server", *frames]),
            (2, "are not the same", ["--end", "server", "--control", "0", "--answer", "1"]),
            (1, "the server could not start", ["--far", "false", *frames])):
        done = subprocess.run([os.path.join(sys.argv[1], "udptest"), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, check=False)
        tell(done.returncode == status and words in done.stderr, f"refused: {words}", f"{done.returncode} {done.stderr}")


def some(what, measure):
    """A figure above zero, for which a busy machine may need several attempts."""
    for _ in range(5):
        if (found := measure()) > 0:
            break
    tell(found > 0, what)


def check_chapters(serving):
    """What the report's chapters measure by themselves."""
    far = fars.Far(argparse.Namespace(client=f"{serving.key}@{SERVER}", link="af_packet", dev="frames0", cores="0,1"))
    lab = labs.Lab(sys.argv[1], "0,1", True, far=far)
    pool = stamps.Pool(os.path.join(EXPERIMENTS, "report", "anatomy-udptest.dot"), "interrupt")

    def stamped():
        pool.run(lab, "udptest", 200)
        return len(pool.trips)

    some("anatomy: round trips from both machines' stamps", stamped)
    pings = drivers.measure(lab, "interrupt", 1000)
    tell(pings["switches"] > 0 and pings["processor_percent"] > 0, "drivers: what both ends use up", str(pings))
    with sweeps.Sweep(lab) as sweep, real.graph_at_server(lab, sweep.marked) as marked:
        some("policies: a server there that hands off", lambda: real.measure(lab, marked, (1, True), "0")["works"])
    components = parts.Parts(argparse.Namespace(build=sys.argv[1], cores="0,1", rounds=200, turns=1, client=far.address, link="af_packet",
                                                dev="frames0"))
    some("components: a call", lambda: components.trip_ns("chantest", "interrupt", components.ends(), "--graph", parts.CALL_GRAPH)[0])


def check_ladder(serving, work):
    file = os.path.join(work, "ladder.json")
    done = subprocess.run([sys.executable, os.path.join(EXPERIMENTS, "endpoints", "ladder.py"), sys.argv[1], "--sizes", "32", "--rounds", "50",
                           "--seconds", "0.1", "--only", "tcp,packet,handler", "--json", file, *serving.options()],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    tell(done.returncode == 0, "endpoints: a ladder between two machines", done.stderr)
    if done.returncode == 0:
        with open(file, encoding="utf-8") as found:
            document = json.load(found)
        tell(set(document["cable"]) == {"packet", "handler"} and "no address" in document["missing"]["tcp over af_packet"],
             "... each rung, but Linux's own where it has no address", str(document["missing"]))
        counts = document["cable"].get("handler", {}).get("32", {}).get("alone", {}).get("counts")
        tell(counts and counts["server"]["messages"] >= 250, "... with what the server has counted", str(counts))


def run_inside():
    holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
    try:
        while os.readlink(f"/proc/{holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        subprocess.run(["sh", "-ec", CABLES.format(there=holder.pid)], check=True)
        with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as there, tempfile.TemporaryDirectory() as sockets:
            os.environ["XDG_RUNTIME_DIR"] = sockets  # in the usual one, hosts with other process numbers tidy up
            serving = Serving(holder.pid, there)
            check_refused(work)
            check_far()
            check_line(serving.key)
            check_slow(serving.key)
            check_strangers(serving)
            check_ends(serving, signal.SIGKILL, "its caller")
            check_report(serving, work)
            check_ladder(serving, work)
            check_chapters(serving)
            tell(not os.listdir(there), "no file is left on the other machine", str(os.listdir(there)))
            check_ends(serving, signal.SIGTERM, "the server")
            check_ends(Serving(holder.pid, there), signal.SIGKILL, "the server")
    finally:
        holder.kill()
        holder.wait()


def main():
    if len(sys.argv) == 3 and sys.argv[2] == "inside":
        run_inside()
        return 1 if checks.failures else 0
    unshare = ["unshare", *(() if os.geteuid() == 0 else ("-r",)), "-n"]
    unshare += ["--kill-child", "-p", "-f", "--mount-proc"]
    tried = subprocess.run([*unshare, "true"], stderr=subprocess.PIPE, text=True, check=False)
    if tried.returncode != 0:
        print(f"skipped: no network namespaces: {tried.stderr.strip()}")
        return 0
    return subprocess.run([*unshare, sys.executable, *sys.argv, "inside"], check=False).returncode


sys.exit(main())
