"""sweeps.py - simulates a server with requests for work and short questions, at many points (policies-net.dot)."""
import concurrent.futures
import os
import subprocess
import tempfile

import lab as labs

HERE = os.path.dirname(os.path.abspath(__file__))
NETWORK = os.path.join(HERE, "policies-net.dot")
GRAPH = os.path.join(HERE, "policies.dot")
MARK = ("vwork -> udp;", "vwork -> udp [handoff=explicit];")
SERVER = "0a000001"
ASKERS = {"0a000002": "patient", "0a000003": "hasty"}
DRAIN_MS = 300  # after the last question, to answer those that wait
WORK_RATE_MAX = 100000
PIECES = 100  # checkpoints, if there are any


class Sweep:
    """Runs points, each a set of keyword arguments of settings()."""

    def __init__(self, lab):
        self.lab = lab
        self.work = tempfile.TemporaryDirectory()
        self.marked = os.path.join(self.work.name, "marked.dot")
        with open(GRAPH, encoding="utf-8") as file:
            text = file.read()
        with open(self.marked, "w", encoding="utf-8") as file:
            file.write(text.replace(*MARK))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.work.cleanup()

    def of(self, points, begin, end):
        """Returns each point's results, one per seed (as many as repetitions). Reports progress from begin to end."""
        jobs = [(point, seed + 1) for point in points for seed in range(self.lab.repeats)]
        found = []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for result in pool.map(lambda job: self.run(*job), jobs):
                found.append(result)
                self.lab.progress(begin + (end - begin) * len(found) / len(jobs))
        each = self.lab.repeats
        return [found[i * each:(i + 1) * each] for i in range(len(points))]

    def settings(self, policy="none", work_us=0, load=0.5, shorts=20000, budget_us=None, resume=None, tail=0, checkpoints=0,
                 wait_us=0, after=False, ms=None):
        """Returns the settings for xk run and the duration of the load in ms. load: the work's share of the processor; after: whether
        the work is done on send, after the last crossing."""
        rate = work_rate(work_us, load)
        ms = ms or min(200, 1000 * self.lab.rounds(8000, 2000) // (rate + shorts))
        values = {
            "patient.traffic.rate": rate, "hasty.traffic.rate": shorts,
            f"server.vwork.{'down' if after else 'up'}": f"{work_us}us",
            "server.vwork.tail": tail, "server.vwork.checkpoints": checkpoints,
            "server.vwork.wait": f"{wait_us}us",
        }
        for host in ASKERS.values():
            values[f"{host}.traffic.stop"] = f"{ms}ms"
        if policy == "explicit":
            values["server.protocols"] = self.marked
        if policy == "regular":
            values["server.mode"] = "regular"
        if budget_us is not None:
            values["server.graph.budget"] = f"{budget_us}us"
        if resume is not None:
            values["server.graph.resume"] = resume
        return [f"{name}={value}" for name, value in values.items()], ms

    def run(self, point, seed):
        return self.lab.once(["sweep", point, seed], lambda: self.run_now(point, seed))

    def run_now(self, point, seed):
        chosen, ms = self.settings(**point)
        command = [os.path.join(self.lab.build, "xk"), "run", NETWORK, "--link", "sim", "--seed", str(seed),
                   "--until", f"{ms + DRAIN_MS}ms", "--show", "host"]
        for setting in chosen:
            command += ["--set", setting]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            trips = Trace(ms / 1000).read(process.stdout)
            errors = process.stderr.read()
        if process.returncode != 0:
            raise labs.Failed(f"{' '.join(command)}: {errors.strip()[-400:]}")
        return dict(trips, **counts(errors))


def work_rate(work_us, load):
    """Returns the requests for work per second."""
    return min(WORK_RATE_MAX, round(load * 1e6 / work_us)) if work_us else WORK_RATE_MAX


def counts(output):
    """Returns the counters in the server's column, including those that are zero and have no row."""
    rows = [line.split() for line in output.splitlines()]
    heads = next((row for row in rows if "server" in row), None)
    if heads is None:
        raise labs.Failed(f"xk run printed no counters of the server: {output.strip()[-400:]}")
    column = 1 + heads.index("server")
    found = {row[0]: int(row[column]) for row in rows if len(row) == 1 + len(heads) and row[column].isdigit()}
    names = ("thread_switches", "handoffs_explicit", "handoffs_implicit", "handoffs_time", "fallbacks", "overruns", "full")
    return {name: found.get(name, 0) for name in names}


class Trace:
    """Round trips from the lines of a trace. Answers are matched to a client's questions in order. Work that was handed off may be
    answered out of order, which leaves the total waiting time the same."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.waiting = {name: {} for name in ASKERS.values()}
        self.trips = {name: [] for name in ASKERS.values()}
        self.in_time = 0

    def read(self, lines):
        for line in lines:
            words = line.split()
            if len(words) > 8 and words[-3] == "0800":
                self.take(float(words[0]), words[1], words[2], words[-2])
        return self.result()

    def take(self, at, host, event, header):
        """Takes a frame with this IP header."""
        identifier, source = header[8:12], header[24:32]
        if host in self.waiting and event == "sent":
            self.waiting[host][identifier] = at
        elif host in self.waiting and event == "arrived" and self.waiting[host]:
            oldest = next(iter(self.waiting[host]))
            self.trips[host].append((at - self.waiting[host].pop(oldest)) * 1e6)
            self.in_time += host == "patient" and at <= self.seconds
        elif host == "server" and event == "lost":
            self.waiting[ASKERS[source]].pop(identifier, None)

    def result(self):
        shorts, works = sorted(self.trips["hasty"]), self.trips["patient"]
        return {
            "shorts": len(shorts), "works": len(works), "unanswered": sum(map(len, self.waiting.values())),
            "worked_per_s": self.in_time / self.seconds,
            "short_p50_us": round(quantile(shorts, 0.5), 3), "short_p99_us": round(quantile(shorts, 0.99), 3),
            "short_mean_us": round(mean(shorts), 3), "work_mean_us": round(mean(works), 3),
            "all_mean_us": round(mean(shorts + works), 3),
        }


def quantile(ordered, part):
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def mean(values):
    return sum(values) / len(values) if values else 0.0
