#!/usr/bin/env python3
"""ladder.py BUILD - the levels at which the ends of a round trip can run, and their costs: the experiments of Bjorndalen, Anshus, Vinter
and Larsen, "The Latency of User-to-User, Kernel-to-Kernel and Interrupt-to-Interrupt Level Communication" (2000), on this machine.

One message goes back and forth between two programs, each on a core. Linux's sockets and this project's hosts use the same cable
(veth) between two network namespaces, which end with the program, however it ends, or with --far a cable between two machines. The
project's hosts also run over virtio. Each is measured alone, with a computation on the server's core, and alone while idle-priority
programs keep both cores awake.
--help has the options.
"""
import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True
import far as fars
from programs import Failed, await_standing, die_with_parent, exit_with, find_and_print

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
GRAPH, GRAPH_TCP = (os.path.join(ROOT, "graphs", name) for name in ("pingpong.dot", "pingpong-tcp.dot"))
SOCKETS = {"tcp": "TCP/IP, user level", "udp": "UDP/IP, user level", "packet": "packet socket, user level"}
HOSTS = {
    "tcp-user": ("TCP of this project, user level", ("endpoint=user",), GRAPH_TCP),
    "tcp-handler": ("TCP of this project, interrupt handler", ("endpoint=handler",), GRAPH_TCP),
    "user": ("LLP, user level", ("endpoint=user",), GRAPH),
    "static": ("LLP, user level, static buffer", ("endpoint=user", "static=yes"), GRAPH),
    "kernel": ("LLP, kernel level", ("endpoint=kernel",), GRAPH),
    "handler": ("LLP, interrupt handler", ("endpoint=handler",), GRAPH),
}
# The server's end inside Linux's kernel (answer.c), and the command that attaches it; the client is a program with a packet socket.
LINUX = {
    "napi": ("Linux, kernel level (XDP, threaded NAPI)", ("ip", "link", "set", "dev", "{dev}", "xdp", "obj", "{object}", "sec", "xdp")),
    "xdp": ("Linux, interrupt level (generic XDP)", ("ip", "link", "set", "dev", "{dev}", "xdpgeneric", "obj", "{object}", "sec", "xdp")),
    "tc": ("Linux, interrupt level (tc)",
           ("tc", "filter", "add", "dev", "{dev}", "ingress", "bpf", "da", "obj", "{object}", "sec", "tc")),
}
TITLES = {**SOCKETS, **{name: what[0] for name, what in (LINUX | HOSTS).items()}}
CLIENT, SERVER = 0, 1  # indices into --cores, and of the cable's ends
FLOOR_SIZE = 32
FLOOR_HEADERS = 14 + 20 + 8 - 14 - 6  # UDP's headers minus LLP's
FLOOR_TURNS = 3
PATIENCE_S = 60
LONGER_MAX = 64  # in halves of the usual round trips
BESIDE_MAX = 500  # runs beside a computation: a host's lines on them must fit into a pipe
STAND_S = 20
STREAM_BYTES, STREAM_RUNS = 1 << 23, 6  # bytes of a stream's run, at most, and runs
WORK = "/media"  # empty in the program's mount namespace


class Cable:
    """Two connected interfaces in two network namespaces. A sleeping program holds the second namespace."""

    devices = ("xkend0", "xkend1")
    addresses = ("10.78.0.1", "10.78.0.2")
    link = "af_packet"
    links = (link, link)
    arguments = ()

    def __init__(self, cores):
        self.cores = cores
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"], preexec_fn=die_with_parent)
        try:
            self.connect(cores)
        except BaseException:
            self.close()
            raise

    def connect(self, cores):
        here = os.readlink("/proc/self/ns/net")
        until = time.monotonic() + STAND_S
        while os.readlink(f"/proc/{self.holder.pid}/ns/net") == here:
            if time.monotonic() > until:
                raise Failed("no second network namespace")
            time.sleep(0.01)
        self.ip("link", "add", "name", self.devices[0], "type", "veth", "peer", "name", self.devices[1])
        self.ip("link", "set", "dev", self.devices[1], "netns", str(self.holder.pid))
        for end in (CLIENT, SERVER):
            for command in (("link", "set", "dev", "lo", "up"), ("link", "set", "dev", self.devices[end], "up"),
                            ("addr", "add", self.addresses[end] + "/24", "dev", self.devices[end])):
                subprocess.run(self.at(end, "ip", *command), check=True)
            # Without this, the client's core does all of the server kernel's work on a frame.
            self.knob(end, "queues/rx-0/rps_cpus", f"{1 << int(cores[end]):x}")

    def ip(self, *arguments):
        subprocess.run(["ip", *arguments], check=True)

    def knob(self, end, name, value):
        """Sets an attribute of an end's interface in /sys, which is visible only in that end's namespace."""
        words = f"mount -t sysfs sysfs /sys && echo {value} >/sys/class/net/{self.devices[end]}/{name}"
        self.must(end, "unshare", "-m", "sh", "-c", words)

    def must(self, end, *command):
        done = subprocess.run(self.at(end, *command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode != 0:
            raise Failed(f"{command[-1]}: {done.stderr.strip()[-200:]}")

    def split(self):
        """Makes Linux pass this cable frames of its MTU, instead of up to 64 KB of TCP's at a time."""
        for end, device in enumerate(self.devices):
            self.must(end, "ip", "link", "set", "dev", device, "gso_max_segs", "1")

    def attach(self, rung, files):
        """Makes the server's interface answer without a process. files: the program, at each end."""
        if rung == "tc":
            self.must(SERVER, "tc", "qdisc", "add", "dev", self.devices[SERVER], "clsact")
        if rung == "napi":
            self.must(CLIENT, "ip", "link", "set", "dev", self.devices[CLIENT], "xdp", "obj", files[CLIENT], "sec", "pass")
        self.must(SERVER, *(word.format(dev=self.devices[SERVER], object=files[SERVER]) for word in LINUX[rung][1]))
        if rung == "napi":
            self.knob(SERVER, "threaded", 1)

    def detach(self, rung):
        if rung == "napi":
            self.knob(SERVER, "threaded", 0)
        for end, device in enumerate(self.devices):
            for command in (("ip", "link", "set", "dev", device, "xdp", "off"), ("ip", "link", "set", "dev", device, "xdpgeneric", "off"),
                            ("tc", "qdisc", "del", "dev", device, "clsact")):
                subprocess.run(self.at(end, *command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               check=False)

    def files(self, file):
        """Returns the names of a local file at each end."""
        return file, file

    def at(self, end, *command):
        """Returns the command that runs `command` in an end's network."""
        return ["nsenter", "-t", str(self.holder.pid), "-n", *command] if end == SERVER else [*command]

    def close(self):
        self.holder.kill()
        self.holder.wait()


class Wire(Cable):
    """The link between this machine and the other one, far. Its interfaces are not ours: they must be left as they were."""

    def __init__(self, far):
        self.far = far
        self.attached = False
        self.devices, self.links, self.cores = far.devs, far.links, far.cores
        self.link = far.links[CLIENT]
        self.copies = {}
        self.addresses = tuple(self.address(end) for end in (CLIENT, SERVER))

    def address(self, end):
        """Returns Linux's address on an end's interface, or None."""
        done = subprocess.run(self.at(end, "ip", "-4", "-j", "address", "show", "dev", self.devices[end]), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        found = [address["local"] for device in json.loads(done.stdout or "[]") for address in device.get("addr_info", ())]
        return found[0] if found else None

    def attach(self, rung, files):
        for end, device in enumerate(self.devices):
            for command in (("ip", "link", "show", "dev", device), ("tc", "qdisc", "show", "dev", device)):
                done = subprocess.run(self.at(end, *command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True, check=False)
                if done.returncode != 0 or "xdp" in done.stdout or "clsact" in done.stdout:
                    raise Failed(f"{device} has programs of its own: {done.stdout.strip()[-200:]}")
        self.attached = True
        super().attach(rung, files)

    def detach(self, rung):
        if self.attached:
            super().detach(rung)
        self.attached = False

    def files(self, file):
        if file not in self.copies:
            with open(file, "rb") as data:
                self.copies[file] = self.far.put(data.read())
        return file, self.copies[file]

    def at(self, end, *command):
        return self.far.words(*command) if end == SERVER else [*command]

    def close(self):
        if self.copies:
            self.far.remove(*self.copies.values())


class Virtio:
    """A socket for each pair of hosts, which run on these cores with these further arguments."""

    link = "virtio"
    links = (link, link)

    def __init__(self, work, cores, *arguments):
        self.devices = (os.path.join(work, "socket"),) * 2
        self.cores = cores
        self.arguments = arguments

    def at(self, end, *command):
        return [*command]

    def close(self):
        pass


def summary_of(averages):
    """Returns a summary of the averages of runs, in nanoseconds."""
    return {"min": min(averages), "median": statistics.median(averages), "mean": statistics.mean(averages), "max": max(averages), "runs": len(averages),
            "averages_ns": averages}


class EndedBefore(Failed):
    """The round trips ended before the computation did."""


class Ladder:
    def __init__(self, options, work):
        self.build = os.path.abspath(options.build)
        self.cores = options.cores.split(",")
        self.rounds = options.rounds
        self.seconds = options.seconds
        self.sizes = [int(size) for size in options.sizes.split(",")]
        self.work = work
        self.far = fars.far_of(options)
        if self.far:
            self.cores = self.far.cores
        self.times = 0
        self.missing = {}

    def tool(self, name):
        return os.path.join(self.build, "experiments", "endpoints", name)

    def pinned(self, end, *command, idle=False):
        return ["taskset", "-c", self.cores[end], *(("chrt", "--idle", "0") if idle else ()), *command]

    # ---- the computation ----

    def compute(self, times):
        """Runs the computation on the server's core. Returns its time in seconds, and the time of a multiplication in each of its parts."""
        command = self.pinned(SERVER, self.tool("workload"), "--times", str(times), "--json")
        done = subprocess.run(self.far.words(*command) if self.far else command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              preexec_fn=die_with_parent)
        return json.loads(done.stdout)

    def calibrate(self):
        self.times = 1
        while (took := self.compute(self.times)["seconds"]) < self.seconds / 4:
            self.times *= 2
        self.times = max(1, round(self.times * self.seconds / took))

    def computing(self, ends, idle):
        """Starts a program on the core of each of these ends that computes until it is killed."""
        return [self.start(None, end, self.pinned(end, self.tool("workload"), "--times", "0", idle=idle)) for end in ends]

    def start(self, cable, end, command, **more):
        """Starts a program at an end of the cable (None: not on a cable), which runs until it is killed. more: passed to Popen."""
        if self.far and end == SERVER:
            return self.far.start(command, **more)
        return subprocess.Popen(cable.at(end, *command) if cable else command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent, **more)

    # ---- a row ----

    def start_sockets(self, kind, size, cable, end, rounds, repeats, *options):
        command = [*self.pinned(end, self.tool("sockets")), "--kind", kind, "--dev", cable.devices[end], "--size", str(size), "--rounds",
                   str(rounds), "--json", *options]
        if end == CLIENT:
            command += ["--client", cable.addresses[SERVER] or "0.0.0.0", "--repeats", str(repeats)]
        return self.start(cable, end, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def start_host(self, rung, size, cable, end, rounds, repeats):
        settings = [*HOSTS[rung][1], f"size={size}", f"rounds={rounds}", f"repeats={repeats}", "trace=events"]
        if end == CLIENT:
            settings.append("peer=10.77.0.2")
        command = [os.path.join(self.build, "xk"), "run", HOSTS[rung][2], "--link", cable.links[end], "--cores", cable.cores[end],
                   *cable.arguments, "--end", ("client", "server")[end], "--json", "-", "--set", f"port.dev={cable.devices[end]}"]
        for setting in settings:
            command += ["--set", "pingpong." + setting]
        # unbuffered: its first lines are read now, and communicate() gets only what is left in the pipe
        return self.start(cable, end, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)

    @staticmethod
    def end_host(host, lines):
        """Ends a host. Returns its counts and the averages of its runs. lines: those already read from its standard error."""
        host.send_signal(signal.SIGINT)
        out, err = host.communicate(timeout=PATIENCE_S)
        if host.returncode != 0 or not out:
            raise Failed(f"a host ended with status {host.returncode}")
        return json.loads(out)["host"], [int(ns) for ns in re.findall(r": run \d+: round trips of (\d+) ns", "".join(lines) + err.decode())]

    def exchange(self, rung, size, cable, repeats, wait, longer=1):
        """
        Returns the averages of runs in nanoseconds, and the hosts' counts. The exchange ends when wait() returns or, if wait is None, after
        `repeats` runs. With wait, a run has `longer` halves of the usual round trips, so that little is cut off, and the result is None if no
        run has ended.
        """
        rounds = self.rounds if wait is None else max(1, longer * self.rounds // 2)
        if rung in ("tcp", "udp") and None in cable.addresses:
            raise Failed(f"Linux has no address on {' or '.join(d for d, a in zip(cable.devices, cable.addresses) if a is None)}")
        if rung in SOCKETS or rung in LINUX:
            return self.exchange_sockets(rung, size, cable, rounds, repeats, wait)
        seconds = min(0.3, rounds * 2e-3) + rounds * repeats * 60e-6
        while True:
            hosts, lines = [self.start_host(rung, size, cable, end, rounds, repeats) for end in (CLIENT, SERVER)], {}
            try:
                for host in reversed(hosts):  # the server first: its error explains more than that of a client without a server
                    lines[host] = await_standing(host)
                wait() if wait else time.sleep(seconds)
                (near, averages), (there, _) = (self.end_host(host, lines[host]) for host in hosts)
            finally:
                for host in hosts:
                    host.kill()
            runs = len(averages)
            if wait and runs == 0:
                return None
            if wait or runs >= repeats:
                break
            if seconds > PATIENCE_S:
                raise Failed(f"{rung} over {cable.link}: {runs} runs, {near['counters']['pingpong.lost']} messages lost")
            seconds *= 2
        if wait:
            self.require_unfinished(rung, runs, repeats)
        return {**summary_of(averages),
                "counts": {name: {"messages": host["counters"]["pingpong.messages"], "buffers": host["counters"]["pingpong.buffers"],
                                  "driver_switches": host["driver_switches"], "process_switches": host["process_switches"],
                                  "thread_switches": host["context_switches"], "lost": host["counters"]["pingpong.lost"]}
                           for name, host in (("client", near), ("server", there))}}

    @staticmethod
    def require_unfinished(rung, runs, repeats):
        if runs >= repeats:
            raise EndedBefore(f"{rung}: its round trips ended before the computation did")

    def answerer(self):
        """Returns the file of the program for Linux's kernel, and compiles it first if necessary."""
        file = os.path.join(self.work, "answer.o")
        if not os.path.exists(file):
            include = "/usr/include/" + os.uname().machine + "-linux-gnu"
            try:
                subprocess.run(["clang", "-target", "bpf", "-O2", "-g", "-Wall", "-I", include, "-c",
                                os.path.join(ROOT, "experiments", "endpoints", "answer.c"), "-o", file], check=True)
            except (OSError, subprocess.SubprocessError) as why:
                raise Failed(f"clang cannot compile the program for the kernel: {why}") from None
        return file

    @contextlib.contextmanager
    def answering(self, kind, size, cable, rounds, repeats):
        """Provides the server's end of a socket's exchange: a program, or the interface alone."""
        if kind in LINUX:
            try:
                cable.attach(kind, cable.files(self.answerer()))
                yield
            finally:
                cable.detach(kind)
            return
        server = self.start_sockets(kind, size, cable, SERVER, rounds, repeats)
        try:
            if server.stdout.readline() != b"serving\n":
                raise Failed(f"{kind}: its server does not start: {server.stderr.read().decode().strip()}")
            yield
        finally:
            server.kill()
            server.wait()

    def stream(self, size, cable):
        """Returns the nanoseconds from one message of a stream to the next, as averages of runs."""
        rounds = max(1, min(self.rounds, STREAM_BYTES // size))
        if None in cable.addresses:
            raise Failed("Linux has no address on the link")
        return self.exchange_sockets("stream", size, cable, rounds, STREAM_RUNS, None)

    def away_ns(self, kind, size, cable):
        """Returns the part of a round trip from the message's leaving the client's kernel to the answer's arrival there."""
        with self.answering(kind, size, cable, self.rounds, 5):
            client = self.start_sockets("packet" if kind in LINUX else kind, size, cable, CLIENT, self.rounds, 5, "--stamps")
            try:
                out, err = client.communicate(timeout=PATIENCE_S)
            finally:
                client.kill()
                client.wait()
        if client.returncode != 0:
            raise Failed(f"{kind}: {err.decode().strip()}")
        return statistics.median(json.loads(out)["aways_ns"])

    def exchange_sockets(self, kind, size, cable, rounds, repeats, wait):
        with self.answering(kind, size, cable, rounds, repeats):
            client = self.start_sockets("packet" if kind in LINUX else kind, size, cable, CLIENT, rounds, repeats)
            try:
                if wait:
                    wait()
                    client.send_signal(signal.SIGINT)
                out, err = client.communicate(timeout=PATIENCE_S)
            finally:
                client.kill()
                client.wait()
        averages = json.loads(out)["averages_ns"] if out else []
        if wait and not averages:
            return None
        if client.returncode != 0:
            raise Failed(f"{kind}: {err.decode().strip()}")
        if wait:
            self.require_unfinished(kind, len(averages), repeats)
        return summary_of(averages)

    def beside(self, ends, idle, *exchange):
        programs = self.computing(ends, idle)
        try:
            return self.exchange(*exchange, None)
        finally:
            for program in programs:
                program.kill()
                program.wait()

    def row(self, rung, size, cable):
        took = []
        row = {"alone": self.exchange(rung, size, cable, 5, None),
               "awake": self.beside((CLIENT, SERVER), True, rung, size, cable, 5)}
        if rung in LINUX or rung in ("udp", "packet"):
            row["away_ns"] = self.away_ns(rung, size, cable)
        if rung == "napi":  # its thread is the kernel's, on any core
            return row
        row["computing"] = self.beside((SERVER,), False, rung, size, cable, 5)
        times, longer, found = self.times, 1, None
        while found is None:
            try:
                found = self.exchange(rung, size, cable, BESIDE_MAX, lambda: took.append(self.compute(times)), longer)
            except EndedBefore:
                if longer >= LONGER_MAX:
                    raise
                longer *= 2
            else:
                times *= 1 if found else 2
                if not found and took[-1]["seconds"] > PATIENCE_S:
                    raise Failed(f"{rung}: no run ended beside the computation")
        row["disturbing"] = found
        row["computation_s"] = took[-1]["seconds"] * self.times / times
        row["computations_s"] = [each_s * self.times for each_s in took[-1]["each_s"]]
        return row

    def floor(self, driver, cores):
        """Measures in turn, over virtio, LLP in the handler and DPDK alone with frames of the same length."""
        bare = [os.path.join(self.build, "experiments", "floors", "bare_dpdk_echo"), "--cores", ",".join(cores), "--rounds",
                str(self.rounds), "--size", str(FLOOR_SIZE - FLOOR_HEADERS), "--json", *(("--sleep",) if driver == "interrupt" else ())]
        cable = Virtio(self.work, cores, "--driver", driver)
        pairs = []
        for _ in range(FLOOR_TURNS if self.rounds >= 100 else 1):
            done = subprocess.run(bare, check=True, stdout=subprocess.PIPE, preexec_fn=die_with_parent)
            pairs.append((self.exchange("handler", FLOOR_SIZE, cable, 5, None)["median"], json.loads(done.stdout)["rtt_ns"]["mean"]))
        return {"driver": driver, "cores": ",".join(cores), "pairs": pairs, "ratio": statistics.median(llp / dpdk for llp, dpdk in pairs)}

    def table(self, cable, rungs, progress):
        rows = {}
        for rung in rungs:
            try:
                rows[rung] = {"title": TITLES[rung], **{str(size): self.row(rung, size, cable) for size in self.sizes}}
            except (Failed, OSError, subprocess.SubprocessError) as why:
                self.missing[f"{rung} over {cable.link}"] = str(why)
            progress()
        return rows


def measure(options, work, no_cable=None):
    ladder = Ladder(options, work)
    ladder.calibrate()
    document = {"rounds": ladder.rounds, "cores": options.cores, "sizes": ladder.sizes, "times": ladder.times,
                "computation_s": [ladder.compute(ladder.times)["seconds"] for _ in range(3)]}
    wanted, links = options.only.split(","), ["cable"] if ladder.far else options.links.split(",")

    def progress():
        print(".", end="", file=sys.stderr, flush=True)

    for name, make, rungs in (("cable", lambda: Wire(ladder.far) if ladder.far else Cable(ladder.cores), TITLES), ("virtio", lambda: Virtio(work, ladder.cores), HOSTS)):
        rungs = [rung for rung in rungs if rung in wanted]
        document[name] = {}
        if name not in links:
            continue
        try:
            if name == "cable" and no_cable:
                raise Failed(no_cable)
            cable = make()
            try:
                document[name] = ladder.table(cable, rungs, progress)
            finally:
                cable.close()
        except (Failed, OSError, subprocess.SubprocessError) as why:
            ladder.missing[name] = str(why)
    document["floors"] = []
    floors = (("poll", ladder.cores), ("interrupt", ladder.cores[:1] * 2))
    for driver, cores in floors if "virtio" in links and "handler" in wanted else ():
        try:
            document["floors"].append(ladder.floor(driver, cores))
        except (Failed, OSError, subprocess.SubprocessError) as why:
            ladder.missing[f"{driver} beside DPDK alone"] = str(why)
        progress()
    return {**document, "missing": ladder.missing}


def measure_streams(options, work, no_cable=None):
    """Measures the bandwidth of Linux's TCP over the cable. Between two machines, the interfaces' settings are left alone."""
    ladder = Ladder(options, work)
    document = {"sizes": ladder.sizes, "streams": {}, "missing": {}}
    try:
        if no_cable:
            raise Failed(no_cable)
        cable = Wire(ladder.far) if ladder.far else Cable(ladder.cores)
        try:
            for name in ("large", *([] if ladder.far else ["frames"])):
                if name == "frames":
                    cable.split()
                document["streams"][name] = {str(size): ladder.stream(size, cable) for size in ladder.sizes}
        finally:
            cable.close()
    except (Failed, OSError, subprocess.SubprocessError) as why:
        document["missing"]["streams"] = str(why)
    return document


def show_streams(document):
    for name, cells in document["streams"].items():
        for size, cell in cells.items():
            print(f"TCP, {name}: {size:>6} bytes: {1000 * int(size) / cell['median']:8.1f} MB/s")
    for what, why in document["missing"].items():
        print(f"not measured: {what}: {why}")


def show(document):
    if "streams" in document:
        show_streams(document)
        return
    print(file=sys.stderr)
    for name in ("cable", "virtio"):
        rows = document[name]
        for size in map(str, document["sizes"] if rows else ()):
            print(f"\n{name}, {size} bytes: us per round trip{'':14}alone  away part     awake computing   computation, times alone")
            for row in rows.values():
                cell = row[size]
                away = f"{cell['away_ns'] / 1000:12.1f}" if "away_ns" in cell else f"{'-':>12}"
                print(f"  {row['title']:42}{cell['alone']['mean'] / 1000:10.1f}{away}"
                      + "".join(f"{cell[key]['mean'] / 1000:10.1f}" for key in ("awake", "computing") if key in cell), end="")
                print(f"{cell['computation_s'] / statistics.median(document['computation_s']):12.2f}" if "computation_s" in cell else "")
    for row in document["floors"]:
        llp, dpdk = (statistics.median(ns) / 1000 for ns in zip(*row["pairs"]))
        print(f"\nLLP in the handler over virtio, {row['driver']}, cores {row['cores']}: {llp:.2f} us; DPDK alone {dpdk:.2f}: "
              f"{row['ratio']:.2f} times")
    for what, why in document["missing"].items():
        print(f"\nnot measured: {what}: {why}")


def measure_inside(options):
    """Measures in new namespaces, on a file system that ends with them."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", WORK], check=True)
    return of(options)(options, WORK)


def of(options):
    return measure_streams if options.streams else measure


def measure_outside(options):
    """Continues in new namespaces or, if the machine forbids that, measures without the cable."""
    if options.far:
        with tempfile.TemporaryDirectory() as work:
            return of(options)(options, work)
    # A process namespace ends with its first program, and a network namespace with its last.
    mapped = () if os.geteuid() == 0 else ("-r",)  # only the system's root, not a namespace's, may load programs into Linux's kernel
    unshare = ["unshare", *mapped, "-m", "-n", "-p", "-f", "--kill-child", "--mount-proc"]
    tried = subprocess.run([*unshare, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if tried.returncode == 0:
        os.execvp(unshare[0], [*unshare, sys.executable, *sys.argv, "--inside"])
    with tempfile.TemporaryDirectory() as work:
        return of(options)(options, work, no_cable=tried.stderr.strip())


def main():
    parser = argparse.ArgumentParser(description="round trips between ends at four levels")
    parser.add_argument("build", help="directory of the programs")
    parser.add_argument("--cores", default="0,1", metavar="A,B", help="cores of client and server (0,1)")
    parser.add_argument("--sizes", default="32,1024", metavar="N,...", help="bytes of a message (32,1024)")
    parser.add_argument("--rounds", type=int, default=1500, metavar="N", help="round trips of a run (1500)")
    parser.add_argument("--seconds", type=float, default=1, metavar="S", help="time of the computation alone (1)")
    parser.add_argument("--only", default=",".join(TITLES), metavar="NAME,...", help=f"ends to measure: {', '.join(TITLES)}")
    parser.add_argument("--links", default="cable,virtio", metavar="NAME,...", help="cable, virtio; ignored with --far, which measures over the link")
    parser.add_argument("--streams", action="store_true", help="instead, the bandwidth of TCP over the cable, for messages of each size")
    fars.add_options(parser)
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    wrong = [name for name in options.only.split(",") if name not in TITLES]
    if wrong:
        parser.error(f"--only {wrong[0]}: unknown; the names are {', '.join(TITLES)}")
    die_with_parent()
    return find_and_print("ladder", lambda: measure_inside(options) if options.inside else measure_outside(options), show, options.json)


exit_with(main)
